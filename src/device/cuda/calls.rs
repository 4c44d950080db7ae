//! The calls of the application on its stream: each call waits for the end of the one before, and
//! the time between its two events is time that the application waited.

use super::driver::cu;
use super::timers::{self, Pair};
use super::{is_done, CudaDevice};
use crate::error::Result;
use crate::fallible_vec;
use crate::timeline::Label;
use cudarc::driver::sys::CUstream;

/// A call of the application: the events at its start and end.
pub(super) struct Call {
    pub pair: Pair,
    pub label: Label,
    /// Whether the call's seconds are part of the sum already.
    pub timed: bool,
}

impl CudaDevice {
    /// Adds up the seconds of the calls that have ended, and removes these calls from the list. The
    /// last ended call stays: the next call waits for its end, and the time between the two calls
    /// begins there.
    pub(super) fn harvest(&mut self) -> Result<()> {
        let (mut ended, mut before) = (0usize, None);
        for call in &mut self.calls {
            if !is_done(call.pair.end)? {
                break;
            }
            if !call.timed {
                let seconds = call.pair.seconds()?;
                self.timers.times.stalled += seconds;
                if let Some(gaps) = &mut self.gaps {
                    let gap = |end| timers::elapsed(end, call.pair.begin);
                    fallible_vec::push(gaps, before.map_or(Ok(f64::NAN), gap)?)?;
                }
                self.timers.called(&mut call.pair, call.label, seconds)?;
                call.timed = true;
            }
            before = Some(call.pair.end);
            ended += 1;
        }
        let gone = ended.saturating_sub(1);
        self.calls.drain(..gone).for_each(|call| self.timers.pairs.give(call.pair));
        self.timers.harvest()
    }

    /// Begins a call on `stream`, which waits for the end of the previous call, also if the handle
    /// is the same: the driver uses the handle of a destroyed stream again.
    pub(super) fn begin_call(&mut self, stream: CUstream, call: &'static str) -> Result<()> {
        if let Some(call) = self.calls.back() {
            cu!(cuStreamWaitEvent(stream, call.pair.end, 0))?;
        }
        fallible_vec::one_more(&mut self.calls)?;
        self.timers.enter(call, stream)?;
        let pair = self.timers.pairs.begun(stream)?;
        self.app = Some(stream);
        self.calls.push_back(Call { pair, label: self.timers.subject.call(), timed: false });
        Ok(())
    }
}
