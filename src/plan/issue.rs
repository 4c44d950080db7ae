//! When the fetches of a plan are issued, while the plan is played.

use super::{Fetch, Plan, Read};

/// A moment at which fetches become due. The numbers count SAVEs and RESTOREs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// This RESTORE begins: its fetch is due, unless the fetch was issued before.
    Restore(usize),
    /// This SAVE or RESTORE is done.
    After(usize),
    /// Zero copy: this SAVE or RESTORE is the last step that was played, and the application has given
    /// its memory back.
    Released(usize),
}

/// How many fetches, and how many reads from disk, of a plan have been issued, in the plan's order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Issued {
    fetches: usize,
    reads: usize,
}

impl Issued {
    /// Returns the next fetch of `plan` and counts it as issued, if the fetch is due at `moment`.
    #[inline]
    pub fn due(&mut self, plan: &Plan, moment: Moment) -> Option<Fetch> {
        let fetch = *plan.fetches.get(self.fetches)?;
        let is_due = match moment {
            Moment::Restore(action) => plan.action_of(fetch.restore) == action,
            Moment::After(action) => plan.action_of(fetch.issue_after) <= action,
            Moment::Released(action) => plan.action_of(fetch.released_after) <= action,
        };
        self.fetches += usize::from(is_due);
        is_due.then_some(fetch)
    }

    /// Returns the next read from disk and counts it as issued, if the read is due at `moment`.
    #[inline]
    pub fn due_read(&mut self, plan: &Plan, moment: Moment) -> Option<Read> {
        let read = *plan.reads.get(self.reads)?;
        let is_due =
            matches!(moment, Moment::After(action) if plan.action_of(read.issue_after) <= action);
        self.reads += usize::from(is_due);
        is_due.then_some(read)
    }

    /// Whether the fetches of the RESTORE `action`, if the RESTORE has any, have been issued. `action` is
    /// the one that is played now.
    pub fn has(&self, plan: &Plan, action: usize) -> bool {
        plan.fetches.get(self.fetches).is_none_or(|fetch| plan.action_of(fetch.restore) != action)
    }
}
