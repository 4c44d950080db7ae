//! The delays of a run by transfers.

use crate::plan::Plan;

/// The delays of the application's stream by transfers, in a run.
#[derive(Clone, Copy, Default)]
pub(super) struct Delays {
    /// Seconds of delays so far.
    pub seconds: f64,
    /// Seconds of delays before the first RESTORE, and number of RESTOREs so far.
    before: f64,
    restores: u64,
}

impl Delays {
    /// Counts a RESTORE, before which the delays were `before` seconds.
    #[inline]
    pub fn count_restore(&mut self, before: f64) {
        if self.restores == 0 {
            self.before = before;
        }
        self.restores += 1;
    }

    /// Returns the seconds of delays in all, if the delays of all RESTOREs of a plan were like those of
    /// the RESTOREs so far.
    pub fn in_all(&self, plan: &Plan) -> f64 {
        if self.restores == 0 {
            return self.seconds;
        }
        let whole = plan.counts.restores as f64 / self.restores as f64;
        self.before + (self.seconds - self.before) * whole
    }
}
