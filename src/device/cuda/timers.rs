//! Timers: how long work takes on the device. A pair of timed events surrounds the work on a
//! stream. The events are read after the device has passed them, so that the host never waits for a
//! timer.

use super::driver::cu;
use super::{is_done, new_event};
use crate::device::recorder::{Coding, Subject, Times};
use crate::device::Lane;
use crate::error::Result;
use crate::fallible_vec;
use crate::timeline::{Label, Row, Span, Spans};
use cudarc::driver::sys::{CUevent, CUstream};
use std::collections::VecDeque;

/// Seconds after which another event becomes the origin of the clock. The driver returns times as
/// FP32 milliseconds, which distinguish microseconds over this interval.
const TURN: f64 = 0.25;

/// Two timed events, at the start and at the end of some work.
#[derive(Clone, Copy)]
pub struct Pair {
    pub begin: CUevent,
    pub end: CUevent,
}

impl Pair {
    /// Seconds between the two events; the device must have passed both.
    pub fn seconds(self) -> Result<f64> {
        elapsed(self.begin, self.end)
    }

    /// Whether the device has passed both events. The two events may be on streams of the
    /// application that are not ordered with each other.
    fn is_done(self) -> Result<bool> {
        Ok(is_done(self.end)? && is_done(self.begin)?)
    }
}

/// Seconds from one event to the other; the device must have passed both.
pub fn elapsed(begin: CUevent, end: CUevent) -> Result<f64> {
    let mut milliseconds = 0.0;
    cu!(cuEventElapsedTime(&mut milliseconds, begin, end))?;
    Ok(milliseconds as f64 / 1e3)
}

/// Unused pairs of timed events.
#[derive(Default)]
pub struct Pairs(Vec<Pair>);

impl Pairs {
    /// Returns an unused pair, or a new one.
    pub fn take(&mut self) -> Result<Pair> {
        if let Some(pair) = self.0.pop() {
            return Ok(pair);
        }
        let begin = new_event(true)?;
        match new_event(true) {
            Ok(end) => Ok(Pair { begin, end }),
            Err(error) => {
                let _ = cu!(cuEventDestroy_v2(begin));
                Err(error)
            }
        }
    }

    /// Returns a pair whose start is recorded on `stream`.
    pub fn begun(&mut self, stream: CUstream) -> Result<Pair> {
        let pair = self.take()?;
        cu!(cuEventRecord(pair.begin, stream)).map(|()| pair).inspect_err(|_| self.give(pair))
    }

    /// Takes back a pair that is no longer used.
    pub fn give(&mut self, pair: Pair) {
        if fallible_vec::push(&mut self.0, pair).is_err() {
            // Without memory to keep the pair, its events are destroyed.
            for event in [pair.begin, pair.end] {
                let _ = cu!(cuEventDestroy_v2(event));
            }
        }
    }
}

/// A recorded pair that was not read yet, and the work that the pair times.
struct Timer {
    pair: Pair,
    label: Label,
    coding: Option<Coding>,
}

/// The origin of the clock: an event that the device has passed, and the event's time in seconds.
/// Later events replace the origin, since the driver's time between distant events is coarse.
struct Clock {
    event: CUevent,
    at: f64,
}

impl Clock {
    fn time(&self, event: CUevent) -> Result<f64> {
        Ok(self.at + elapsed(self.event, event)?)
    }
}

#[derive(Default)]
pub struct Timers {
    pub pairs: Pairs,
    /// Recorded pairs of each lane, in order.
    open: [VecDeque<Timer>; 3],
    /// The coding work that has begun and not ended.
    coding: Option<(Coding, Pair)>,
    pub times: Times,
    pub subject: Subject,
    /// The origin of the clock; `None` if no spans are kept. The fields below are used with spans
    /// only.
    clock: Option<Clock>,
    /// What the application computes now, and what it goes on computing after the current call.
    computing: Option<(Label, Pair)>,
    interrupted: Option<Label>,
    pub spans: Spans,
}

impl Timers {
    /// Starts keeping spans. Time 0 is when `stream`, which must be idle, reaches this call.
    pub fn keep_spans(&mut self, stream: CUstream) -> Result<()> {
        let event = new_event(true)?;
        let recorded =
            cu!(cuEventRecord(event, stream)).and_then(|()| cu!(cuEventSynchronize(event)));
        self.clock = Some(Clock { event, at: 0.0 });
        recorded
    }

    pub fn keeps_spans(&self) -> bool {
        self.clock.is_some()
    }

    /// Begins a span on `stream`, if spans are kept.
    pub fn begin(&mut self, stream: CUstream) -> Result<Option<Pair>> {
        self.clock.as_ref().map(|_| self.pairs.begun(stream)).transpose()
    }

    /// Ends the span that `begin` began. Copies of the fields of one snapshot by the application's
    /// stream become one span.
    pub fn end(&mut self, pair: Pair, lane: Lane, stream: CUstream, label: Label) -> Result<()> {
        match self.open[lane as usize].back_mut() {
            Some(last) if lane == Lane::App && last.label.goes_on_with(&label) => {
                self.pairs.give(pair);
                last.label.bytes += label.bytes;
                cu!(cuEventRecord(last.pair.end, stream))
            }
            _ => self.close(pair, lane, stream, label, None),
        }
    }

    fn close(
        &mut self,
        pair: Pair,
        lane: Lane,
        stream: CUstream,
        label: Label,
        coding: Option<Coding>,
    ) -> Result<()> {
        let open = &mut self.open[lane as usize];
        let recorded =
            fallible_vec::one_more(open).and_then(|()| cu!(cuEventRecord(pair.end, stream)));
        match recorded {
            Ok(()) => open.push_back(Timer { pair, label, coding }),
            Err(_) => self.pairs.give(pair),
        }
        recorded
    }

    /// Begins coding work on the application's stream.
    pub fn begin_coding(&mut self, coding: Coding, stream: CUstream) -> Result<()> {
        let pair = self.pairs.begun(stream)?;
        if let Some((_, left)) = self.coding.replace((coding, pair)) {
            self.pairs.give(left);
        }
        Ok(())
    }

    /// Ends the coding work that `begin_coding` began.
    pub fn end_coding(&mut self, stream: CUstream) -> Result<()> {
        let Some((coding, pair)) = self.coding.take() else { return Ok(()) };
        let label = self.subject.coding(coding);
        self.close(pair, Lane::App, stream, label, Some(coding))
    }

    /// Begins an action of the application on its stream, and ends the span of what the application
    /// computed before. Before a SAVE or RESTORE, that span ends at the call instead, which may be
    /// on another stream.
    pub fn begin_action(&mut self, action: Option<Label>, stream: CUstream) -> Result<()> {
        let Some(action) = action else { return self.stop(stream).map(|_| ()) };
        self.subject.action = action;
        if action.row == Row::Compute {
            self.stop(stream)?;
            self.computing = Some((action, self.pairs.begun(stream)?));
        }
        Ok(())
    }

    /// Ends the span of what the application computes, and returns its label.
    fn stop(&mut self, stream: CUstream) -> Result<Option<Label>> {
        let Some((label, pair)) = self.computing.take() else { return Ok(None) };
        self.close(pair, Lane::App, stream, label, None).map(|()| Some(label))
    }

    /// Forgets what the application computes, whose end only its stream could tell.
    pub fn forget_action(&mut self) {
        self.computing.take().into_iter().for_each(|(_, pair)| self.pairs.give(pair));
    }

    /// Begins a call of the application.
    pub fn enter(&mut self, call: &'static str, stream: CUstream) -> Result<()> {
        self.subject.call = call;
        let stopped = self.stop(stream)?;
        self.interrupted = stopped.filter(|label| *label == self.subject.action);
        Ok(())
    }

    /// Ends the call: the application goes on computing.
    pub fn leave(&mut self, stream: CUstream) -> Result<()> {
        if let Some(label) = self.interrupted.take() {
            self.computing = Some((label, self.pairs.begun(stream)?));
        }
        Ok(())
    }

    /// Adds the span of a call that has ended, if spans are kept. When the origin of the clock is
    /// more than `TURN` seconds old, the start of this call becomes the new origin.
    pub fn called(&mut self, pair: &mut Pair, label: Label, seconds: f64) -> Result<()> {
        let Some(clock) = &mut self.clock else { return Ok(()) };
        let begin = clock.time(pair.begin)?;
        self.spans.add(Span { label, begin, seconds });
        if begin - clock.at > TURN {
            clock.at = begin;
            std::mem::swap(&mut clock.event, &mut pair.begin);
        }
        Ok(())
    }

    /// Adds up the seconds of work that has ended, and keeps its spans.
    pub fn harvest(&mut self) -> Result<()> {
        for lane in 0..self.open.len() {
            while let Some(pair) = self.open[lane].front().map(|timer| timer.pair) {
                if !pair.is_done()? {
                    break;
                }
                let seconds = pair.seconds()?.max(0.0);
                let begin = self.clock.as_ref().map(|clock| clock.time(pair.begin)).transpose()?;
                let Some(Timer { label, coding, .. }) = self.open[lane].pop_front() else { break };
                coding.into_iter().for_each(|coding| self.times.add(coding, seconds));
                begin.into_iter().for_each(|begin| self.spans.add(Span { label, begin, seconds }));
                self.pairs.give(pair);
            }
        }
        Ok(())
    }

    /// Blocks the calling thread until all timed work that has begun has ended.
    pub fn finish(&self) -> Result<()> {
        // The last timer of each lane first: when its work has ended, most earlier work has, too.
        for timer in self.open.iter().flat_map(|lane| lane.iter().rev()) {
            for event in [timer.pair.end, timer.pair.begin] {
                if !is_done(event)? {
                    cu!(cuEventSynchronize(event))?;
                }
            }
        }
        Ok(())
    }

    /// Returns all events, for the caller to destroy.
    pub fn into_events(self) -> impl Iterator<Item = CUevent> {
        let open = self.open.into_iter().flatten().map(|timer| timer.pair);
        let current = [self.coding.map(|(_, pair)| pair), self.computing.map(|(_, pair)| pair)];
        let pairs = open.chain(current.into_iter().flatten()).chain(self.pairs.0);
        pairs.flat_map(|pair| [pair.begin, pair.end]).chain(self.clock.map(|clock| clock.event))
    }
}
