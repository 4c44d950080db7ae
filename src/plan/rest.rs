//! The rest of a plan: what is left of it after some of its steps, for a shot that another process
//! goes on with.

use super::{Access, Fetch, Index, Plan, Step, NONE};
use crate::error::{fail, Result};
use crate::fallible_vec::{filled, push, with_room};

/// A stored snapshot, and where it lies after some steps of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Time step of the state, as the schedule counts.
    pub ts: u32,
    /// The slots that hold the snapshot: at least one of both.
    pub at: Step,
}

impl Index {
    /// Returns the SAVEs and RESTOREs that are left after the first `done` ones, behind a SAVE of each
    /// snapshot that they read, in the order of the time steps: an index of which any plan can be made.
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
    /// Returns the snapshots that later steps read, in the order of their time steps, after the first
    /// `done` steps of this plan of `index` and the fetches that are issued by then.
    pub fn kept_after(&self, index: &Index, done: usize) -> Result<Vec<Kept>> {
        let nowhere = Step { slot: NONE, host: NONE };
        let mut place = filled(nowhere, index.states)?;
        let mut needed = filled(false, index.states)?;
        // The time step of the snapshot that each slot holds.
        let mut in_slot = filled(NONE, self.device_slots as usize)?;
        let mut in_host = filled(NONE, self.host_slots as usize)?;
        for (access, &step) in index.accesses.iter().zip(&self.steps).take(done) {
            let ts = access.ts as usize;
            if let Some(content) = in_slot.get_mut(step.slot as usize) {
                *content = access.ts;
            }
            if access.save {
                if let Some(content) = in_host.get_mut(step.host as usize) {
                    *content = access.ts;
                }
                place[ts] = step;
            } else if step.slot != NONE {
                place[ts].slot = step.slot;
            }
            needed[ts] = access.next != NONE;
        }
        // A fetch may have overwritten the slot already: the snapshot that was there is read from the
        // host, if it is read again, and so is the one that is on its way.
        for fetch in self.fetches.iter().filter(|fetch| fetch.restore as usize >= done) {
            let taken = (fetch.issue_after.min(fetch.released_after) as usize) < done;
            let slot = self.steps[fetch.restore as usize].slot;
            if let (true, Some(content)) = (taken, in_slot.get_mut(slot as usize)) {
                *content = NONE;
            }
        }
        let mut kept = Vec::new();
        for ts in (0..index.states as u32).filter(|&ts| needed[ts as usize]) {
            let holds = |contents: &[u32], slot: u32| match contents.get(slot as usize) {
                Some(&content) if content == ts => slot,
                _ => NONE,
            };
            let at = place[ts as usize];
            let at = Step { slot: holds(&in_slot, at.slot), host: holds(&in_host, at.host) };
            if at == nowhere {
                return fail!(
                    Schedule,
                    "internal error, please report it: after {done} steps of the plan the snapshot of state {ts} is in no slot"
                );
            }
            push(&mut kept, Kept { ts, at })?;
        }
        Ok(kept)
    }

    /// Returns the rest of this plan of `index` after its first `done` steps, which begins with a SAVE
    /// of each of the snapshots `kept`, the result of `kept_after`, in their order. The rest plays the
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
