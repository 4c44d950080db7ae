//! The rest of a plan: what is left of it after some of its steps, for a shot that another process
//! goes on with.

use super::{Access, Fetch, Index, Level, Plan, Read, Step, NONE};
use crate::error::Result;
use crate::fallible_vec::{filled, push, with_room};
use crate::schedule::mixed;

/// A stored record that a later step of a plan reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Number of the record in the index.
    pub record: u32,
    /// The slots from which later steps read the record: at least one of both.
    pub at: Step,
}

impl Index {
    /// Returns the SAVEs and RESTOREs that are left after the first `done` ones, behind a SAVE of each
    /// record that they read, in the order of the records: an index from which any plan can be made.
    /// `zero_copy`: the application reads a level that a SAVE claims in the cache.
    pub fn rest(&self, done: usize, zero_copy: bool) -> Result<Index> {
        let parts = self.parts as usize;
        let done = done * parts;
        // The next RESTORE of each record.
        let mut next = filled(NONE, self.states)?;
        for access in self.accesses.iter().take(done).filter(|use_of| !use_of.is_claim()) {
            next[access.ts as usize] = access.next;
        }
        let loads = parts * next.iter().filter(|next| **next != NONE).count();
        let moved = |number: u32| match number {
            NONE => NONE,
            number => (number as usize - done + loads) as u32,
        };
        let mut accesses = with_room(loads + self.accesses.len() - done)?;
        let stored = next.iter().enumerate().filter(|(_, next)| **next != NONE);
        for (record, &next) in stored {
            let (ts, next) = (record as u32, moved(next));
            let load = Access { ts, save: true, is_shared: false, steps_on: false, next, clock: 0 };
            accesses.push(load);
            // A SAVE of one record only: the other part is not stored.
            let nothing = Access { is_shared: true, next: NONE, ..load };
            accesses.extend((1..parts).map(|_| nothing));
        }
        let before = self.accesses.get(done).map_or(0, |access| access.clock);
        accesses.extend(self.accesses[done..].iter().map(|access| Access {
            next: moved(access.next),
            clock: access.clock - before,
            ..*access
        }));
        let first = loads + parts - 1;
        if zero_copy && accesses.get(first).is_some_and(Access::is_claim) {
            // In a whole plan the level is in the cache, since the access before is of the same record.
            // Here SAVEs of other records may come between: as a use of the record, the claim keeps the
            // level in the cache.
            let claimed = accesses[first].ts;
            let load = accesses[..loads].iter_mut().step_by(parts).find(|load| load.ts == claimed);
            if let Some(load) = load {
                let next = std::mem::replace(&mut load.next, first as u32);
                accesses[first].next = next;
            }
        }
        Ok(Index { accesses, forward: None, is_one_by_one: false, ..*self })
    }
}

impl Plan {
    /// Returns the records that the SAVEs and RESTOREs of this plan of `index` after the first `done`
    /// ones read, in the order of their numbers, and the slots from which they do: the slot of the
    /// device cache, if the next step that reads the record finds it there, and the host slot, if any
    /// RESTORE reads it from there. A slot that the next SAVE takes is never among them: the application
    /// may hold its memory. An open plan has no index: every record that its SAVEs have left may be read.
    pub fn needed_from(&self, index: Option<&Index>, done: usize) -> Result<Vec<Kept>> {
        let Some(index) = index else {
            return self.forward.as_ref().map_or(Ok(Vec::new()), |forward| self.held(forward));
        };
        const NOWHERE: Step = Step { slot: NONE, host: NONE };
        let mut place = filled(NOWHERE, index.states)?;
        let done = done * self.parts();
        for (access, step) in index.accesses.iter().zip(&self.steps).skip(done).rev() {
            let place = &mut place[access.ts as usize];
            *place = match (access.save && !access.is_claim(), step.host) {
                (true, _) => NOWHERE,
                // Without zero copy a claimed level is not read.
                (false, NONE) if step.slot == NONE => *place,
                (false, NONE) => Step { slot: step.slot, ..*place },
                (false, host) => Step { slot: NONE, host },
            };
        }
        // What is still to be read from disk is there.
        for read in
            self.reads.iter().filter(|read| self.action_of(read.issue_after) >= done / self.parts())
        {
            if (read.save as usize) < done {
                let record = index.accesses[read.save as usize].ts;
                place[record as usize].host = self.steps[read.save as usize].host;
            }
        }
        let mut kept = Vec::new();
        for (record, &at) in (0..).zip(&place).filter(|(_, at)| **at != NOWHERE) {
            push(&mut kept, Kept { record, at })?;
        }
        Ok(kept)
    }

    /// Returns the rest of this plan of `index` after its first `done` SAVEs and RESTOREs, which begins
    /// with a SAVE of each of the records `kept`, the result of `needed_from`, in their order. The rest
    /// plays the same SAVEs and RESTOREs in the same slots as the whole plan.
    pub fn rest(&self, kept: &[Kept], done: usize) -> Result<Plan> {
        let parts = self.parts();
        let (loads, done) = (parts * kept.len(), parts * done);
        let mut steps = with_room(loads + self.steps.len() - done)?;
        let nothing = Step { slot: NONE, host: NONE };
        steps.extend(kept.iter().flat_map(|kept| [kept.at, nothing].into_iter().take(parts)));
        steps.extend_from_slice(&self.steps[done..]);
        let mut levels = Vec::new();
        if !self.levels.is_empty() {
            levels = filled(Level::Own, kept.len() + self.levels.len() - done / parts)?;
            levels[kept.len()..].copy_from_slice(&self.levels[done / parts..]);
        }
        // A fetch that the whole plan has issued already is issued after the last of the first SAVEs.
        let moved = |number: u32| match (number as usize).checked_sub(done) {
            Some(after) => (after + loads) as u32,
            None => loads.saturating_sub(1) as u32,
        };
        let mut fetches = Vec::new();
        for fetch in self.fetches.iter().filter(|fetch| fetch.restore as usize >= done) {
            let fetch = Fetch {
                issue_after: moved(fetch.issue_after),
                restore: moved(fetch.restore),
                released_after: moved(fetch.released_after),
            };
            push(&mut fetches, fetch)?;
        }
        let mut reads = Vec::new();
        for read in self.reads.iter().filter(|read| read.issue_after as usize >= done) {
            let from = self.steps[read.save as usize].host;
            let is_from = |kept: &Kept| kept.at.host == from;
            let save = match (read.save as usize) < done {
                true => (parts * kept.iter().position(is_from).unwrap_or(0)) as u32,
                false => moved(read.save),
            };
            push(&mut reads, Read { issue_after: moved(read.issue_after), save, to: read.to })?;
        }
        let (counts, forward) = (self.counts, self.forward.clone());
        Ok(Plan { steps, fetches, reads, levels, counts, forward, ..*self })
    }

    /// A 64-bit number of everything in the plan that decides where snapshots lie, and how: plans with
    /// one number play a schedule in the same way.
    pub fn fingerprint(&self) -> u64 {
        let pair = |a: u32, b: u32| u64::from(a) << 32 | u64::from(b);
        let kind = u32::from(self.zero_copy) | u32::from(self.in_levels) << 1;
        let head = [pair(self.raw_slots, kind), self.steps.len() as u64];
        let steps = self.steps.iter().map(|step| pair(step.slot, step.host));
        let fetches = self.fetches.iter().map(|fetch| pair(fetch.issue_after, fetch.restore));
        let reads =
            self.reads.iter().flat_map(|read| [pair(read.issue_after, read.save), read.to.into()]);
        head.into_iter().chain(steps).chain(fetches).chain(reads).fold(0, mixed)
    }
}
