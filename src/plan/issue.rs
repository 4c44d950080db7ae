//! When the transfers to the device are issued, while a plan is played or simulated.

use super::{Fetch, Plan};

/// A moment at which transfers become due. The numbers are steps of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// This RESTORE begins: the transfer that it needs is due, if no earlier step let it begin.
    Restore(usize),
    /// This SAVE or RESTORE is done.
    After(usize),
    /// The application has given back the memory of this SAVE or RESTORE, the last one (zero copy).
    Released(usize),
}

/// How many transfers of a plan have been issued, in the plan's order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Issued(usize);

impl Issued {
    /// Returns the next transfer of `plan` and counts it as issued, if the transfer is due at
    /// `moment`.
    #[inline]
    pub fn due(&mut self, plan: &Plan, moment: Moment) -> Option<Fetch> {
        let fetch = *plan.fetches.get(self.0)?;
        let is_due = match moment {
            Moment::Restore(step) => fetch.restore as usize == step,
            Moment::After(step) => fetch.issue_after as usize <= step,
            Moment::Released(step) => fetch.released_after as usize <= step,
        };
        self.0 += usize::from(is_due);
        is_due.then_some(fetch)
    }

    /// Whether the transfer for the RESTORE `step` has been issued.
    pub fn has(&self, plan: &Plan, step: usize) -> bool {
        plan.fetches.get(self.0).is_none_or(|fetch| fetch.restore as usize != step)
    }
}
