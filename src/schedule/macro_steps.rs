//! Macro-steps: k time steps that a schedule counts as one, for applications whose adjoint needs
//! u(0), u(k), u(2k), ... only (configuration key `adjoint_every`).

use std::ops::Range;

/// How n time steps form macro-steps of k time steps. The last macro-step is shorter if n is no
/// multiple of k.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacroSteps {
    every: u32,
    time_steps: u32,
}

impl MacroSteps {
    /// Macro-steps of `every` time steps (0 counts as 1) out of `time_steps`.
    pub const fn new(every: u32, time_steps: u32) -> Self {
        MacroSteps { every: if every == 0 { 1 } else { every }, time_steps }
    }

    /// Time steps of every macro-step but the last one, k.
    pub const fn every(&self) -> u32 {
        self.every
    }

    /// Number of time steps, n.
    pub const fn time_steps(&self) -> u32 {
        self.time_steps
    }

    /// Number of macro-steps: n / k, rounded up.
    pub const fn count(&self) -> u32 {
        self.time_steps.div_ceil(self.every)
    }

    /// The time steps of macro-step `index`: those that lead from u(start) to u(end).
    pub fn of(&self, index: u32) -> Range<u32> {
        let start = index.saturating_mul(self.every).min(self.time_steps);
        start..start.saturating_add(self.every).min(self.time_steps)
    }
}

#[cfg(test)]
#[path = "macro_steps_tests.rs"]
mod tests;
