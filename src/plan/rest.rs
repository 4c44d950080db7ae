//! The rest of a plan: what is left of it after some of its steps, for a shot that another process
//! goes on with.

use super::{Access, Fetch, Index, Plan, Step, NONE};
use crate::error::Result;
use crate::fallible_vec::{filled, push, with_room};

/// A stored snapshot that a later step of a plan reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Time step of the state, as the schedule counts.
    pub ts: u32,
    /// The slots from which later steps read the snapshot: at least one of both.
    pub at: Step,
}

impl Index {
    /// Returns the SAVEs and RESTOREs that are left after the first `done` ones, behind a SAVE of each
    /// snapshot that they read, in the order of the time steps: an index from which any plan can be made.
    pub fn rest(&self, done: usize) -> Result<Index> {
        // The next RESTORE of each state's snapshot.
        let mut next = filled(NONE, self.states)?;
        for access in self.accesses.iter().take(done) {
            next[access.ts as usize] = access.next;
        }
        let loads = next.iter().filter(|next| **next != NONE).count();
        let moved = |number: u32| match number {
            NONE => NONE,
            number => (number as usize - done + loads) as u32,
        };
        let mut accesses = with_room(loads + self.accesses.len() - done)?;
        let stored = next.iter().enumerate().filter(|(_, next)| **next != NONE);
        accesses.extend(stored.map(|(ts, &next)| Access {
            ts: ts as u32,
            save: true,
            next: moved(next),
            clock: 0,
        }));
        let before = self.accesses.get(done).map_or(0, |access| access.clock);
        accesses.extend(self.accesses[done..].iter().map(|access| Access {
            next: moved(access.next),
            clock: access.clock - before,
            ..*access
        }));
        Ok(Index { accesses, states: self.states, forward: None, is_one_by_one: false })
    }
}

impl Plan {
    /// Returns the snapshots that the steps of this plan of `index` from number `done` on read, in the
    /// order of their time steps, and the slots from which they do: the slot of the device cache, if
    /// the next RESTORE of the snapshot finds it there, and the host slot, if any RESTORE reads it from
    /// there. A slot that the next SAVE takes is never among them: the application may hold its memory.
    pub fn needed_from(&self, index: &Index, done: usize) -> Result<Vec<Kept>> {
        const NOWHERE: Step = Step { slot: NONE, host: NONE };
        let mut place = filled(NOWHERE, index.states)?;
        for (access, step) in index.accesses.iter().zip(&self.steps).skip(done).rev() {
            let place = &mut place[access.ts as usize];
            *place = match (access.save, step.host) {
                (true, _) => NOWHERE,
                (false, NONE) => Step { slot: step.slot, ..*place },
                (false, host) => Step { slot: NONE, host },
            };
        }
        let mut kept = Vec::new();
        for (ts, &at) in (0..).zip(&place).filter(|(_, at)| **at != NOWHERE) {
            push(&mut kept, Kept { ts, at })?;
        }
        Ok(kept)
    }

    /// Returns the rest of this plan of `index` after its first `done` steps, which begins with a SAVE
    /// of each of the snapshots `kept`, the result of `needed_from`, in their order. The rest plays the
    /// same SAVEs and RESTOREs in the same slots as the whole plan.
    pub fn rest(&self, kept: &[Kept], done: usize) -> Result<Plan> {
        let loads = kept.len();
        let mut steps = with_room(loads + self.steps.len() - done)?;
        steps.extend(kept.iter().map(|kept| kept.at));
        steps.extend_from_slice(&self.steps[done..]);
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
        Ok(Plan { steps, fetches, counts: self.counts, shares: None, forward: None, ..*self })
    }

    /// A 64-bit number of everything in the plan that decides where snapshots lie, and how: plans with
    /// one number play a schedule in the same way.
    pub fn fingerprint(&self) -> u64 {
        let mixed = |hash: u64, word: u64| {
            let x = (hash ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            (x ^ x >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93).rotate_left(29)
        };
        let pair = |a: u32, b: u32| u64::from(a) << 32 | u64::from(b);
        let head = [pair(self.raw_slots, self.zero_copy.into()), self.steps.len() as u64];
        let steps = self.steps.iter().map(|step| pair(step.slot, step.host));
        let fetches = self.fetches.iter().map(|fetch| pair(fetch.issue_after, fetch.restore));
        head.into_iter().chain(steps).chain(fetches).fold(0, mixed)
    }
}
