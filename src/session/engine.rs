//! A plan while it is played: its tiers, and which transfers are issued.

use crate::device::{AppMemory, Stream, Traffic};
use crate::error::{Code, Error, Result};
use crate::plan::{Fetch, Plan, SPARE_SLOTS};
use crate::tier::Tiers;
use crate::trace::nvtx;
use crate::tune::Tuner;
use std::ffi::CString;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::Arc;

/// A plan and the tiers that it is played on.
pub(super) struct Engine {
    /// The decision that the plan is of.
    pub(super) decision: u64,
    pub(super) plan: Arc<Plan>,
    pub(super) tiers: Tiers,
    /// The first fetch that is not issued yet.
    pub(super) next_fetch: usize,
    /// The SAVE whose memory the application has been given, and that memory.
    pub(super) begun: Option<(usize, Vec<AppMemory>)>,
    /// The RESTORE whose memory the application has been given and not given back, and its state.
    pub(super) acquired: Option<(usize, i64)>,
    /// Why this shot cannot go on.
    pub(super) broken: Option<Error>,
    /// The device's traffic and stall before this sweep.
    pub(super) traffic_before: Traffic,
    pub(super) stalled_before: f64,
    /// What measures this shot.
    pub(super) tuner: Option<Box<Tuner>>,
    pub(super) coded_before: (f64, f64),
}

impl Engine {
    /// Prepares a sweep, or changes nothing.
    pub(super) fn reset(&mut self) -> Result<()> {
        self.tiers.clear()?;
        let device = self.tiers.device();
        (self.stalled_before, self.coded_before, self.traffic_before) =
            (device.stalled()?, device.coded()?, device.traffic());
        (self.next_fetch, self.begun, self.acquired, self.broken) = (0, None, None, None);
        Ok(())
    }

    /// Waits for all calls, and fails if one of them gave what it must not, from then on.
    pub(super) fn finish(&mut self) -> Result<()> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        let result = self.tiers.finish();
        self.broken = result.as_ref().err().filter(|error| error.code != Code::Device).cloned();
        result
    }

    /// Runs a call of the application on its stream, by the name that a timeline has for it. A call
    /// that fails half-way may have left any slot in any state, so that nothing but a new shot
    /// is possible then: never a wrong state.
    pub(super) fn call<R>(
        &mut self,
        stream: Stream,
        name: &'static str,
        body: impl FnOnce(&mut Self) -> Result<R>,
    ) -> Result<R> {
        if let Some(error) = &self.broken {
            return Err(error
                .clone()
                .within("an earlier call failed, call setup for a new shot or finalize"));
        }
        let _range = range(name);
        self.tiers.device().enter(stream, name)?;
        if let Some(tuner) = &mut self.tuner {
            tuner.called();
        }
        // Even a panic gives the caller its context back.
        let result = catch_unwind(AssertUnwindSafe(|| body(self)));
        let left = self.tiers.device().leave();
        let result = result
            .unwrap_or_else(|panic| resume_unwind(panic))
            .and_then(|value| left.map(|()| value));
        self.broken = result.as_ref().err().cloned();
        result.and_then(|value| self.listen().map(|()| value))
    }

    /// The number of the spare memory for an event without a slot: one that neither the event
    /// before it nor the one after it has.
    pub(super) fn spare(&self, event: usize) -> u32 {
        event as u32 % SPARE_SLOTS
    }

    /// Whether the transfer for the RESTORE `event` was issued before now.
    pub(super) fn is_issued(&self, event: usize) -> bool {
        self.plan.fetches.get(self.next_fetch).is_none_or(|fetch| fetch.event as usize != event)
    }

    /// Issues the transfer for the RESTORE `event`, if it is one on demand.
    pub(super) fn issue_for(&mut self, event: usize) -> Result<()> {
        self.issue_while(|fetch| fetch.event as usize == event)
    }

    /// Issues the transfers that may begin once `event` is done.
    pub(super) fn issue_after(&mut self, event: usize) -> Result<()> {
        self.issue_while(|fetch| fetch.issue_after as usize <= event)
    }

    /// Issues the transfers that may begin now that the memory of `event`, the last one, is given
    /// back.
    pub(super) fn issue_released(&mut self, event: usize) -> Result<()> {
        self.issue_while(|fetch| fetch.released_after as usize <= event)
    }

    pub(super) fn issue_while(&mut self, due: impl Fn(&Fetch) -> bool) -> Result<()> {
        while let Some(fetch) = self.plan.fetches.get(self.next_fetch).filter(|f| due(f)) {
            self.tiers.fetch(
                self.plan.steps[fetch.event as usize],
                self.plan.previous_levels(fetch.event as usize),
            )?;
            self.next_fetch += 1;
        }
        Ok(())
    }
}

/// A range on this thread's row of an NVTX timeline, named after a call; `None` where no tool
/// listens.
fn range(call: &str) -> Option<nvtx::Range> {
    nvtx::is_on()
        .then(|| CString::new(format!("gpuzip {call}")).ok())
        .flatten()
        .and_then(|name| nvtx::range(&name))
}
