//! The spans of the host backend, in wall-clock time. The lanes are threads, which write their
//! spans to a log that the session's thread reads.

use super::{Crossing, Lane};
use crate::error::Result;
use crate::guarded::locked;
use crate::named::named;
use crate::timeline::{Label, Row, Span, Spans};
use std::sync::{Arc, Mutex};
use std::time::Instant;

named! {
    /// Coding work on a snapshot, which is timed separately.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Coding {
        /// A state becomes a snapshot.
        Compress => "compress",
        /// A snapshot becomes a state.
        Decompress => "decompress",
    }
}

/// The subject of spans: the application's action, the call within the action, and the time step of
/// the state that is copied or coded.
#[derive(Clone, Copy)]
pub struct Subject {
    pub action: Label,
    pub call: &'static str,
    pub ts: i64,
}

impl Default for Subject {
    fn default() -> Self {
        let action = Label { row: Row::Stall, what: "", ts: -1, ts_end: -1, it: -1, bytes: 0 };
        Subject { action, call: "", ts: -1 }
    }
}

impl Subject {
    pub fn call(&self) -> Label {
        self.action.part(Row::Stall, self.call, self.action.ts_end, 0)
    }

    pub fn copy(&self, lane: Lane, crossing: &Crossing, bytes: u64) -> Label {
        let (row, what) = match (crossing, lane) {
            (Crossing::None, Lane::DiskRead) => (Row::DiskRead, "read"),
            (Crossing::None, Lane::DiskWrite) => (Row::DiskWrite, "write"),
            (Crossing::None, _) => (Row::Codec, "copy"),
            (Crossing::ToDevice, Lane::App) => (Row::DirectUpload, "upload"),
            (Crossing::ToDevice, _) => (Row::Upload, "upload"),
            (Crossing::ToHost, Lane::App) => (Row::DirectDownload, "download"),
            (Crossing::ToHost, _) => (Row::Download, "download"),
        };
        self.action.part(row, what, self.ts, bytes)
    }

    pub fn coding(&self, coding: Coding) -> Label {
        self.action.part(Row::Codec, coding.name(), self.ts, 0)
    }
}

/// Seconds that a device has counted.
#[derive(Clone, Copy, Default)]
pub struct Times {
    /// Seconds in which the application's stream was between `enter` and `leave`.
    pub stalled: f64,
    /// Seconds in which the application's stream compressed, and in which it decompressed.
    pub coded: (f64, f64),
}

impl Times {
    /// Adds seconds of coding work.
    pub(super) fn add(&mut self, coding: Coding, seconds: f64) {
        match coding {
            Coding::Compress => self.coded.0 += seconds,
            Coding::Decompress => self.coded.1 += seconds,
        }
    }
}

/// What a device tells of time: seconds of the application's stream, and the spans of a timeline. A
/// device that measures nothing takes these functions as they are.
pub trait Recorder {
    /// The seconds of all work that has ended.
    fn times(&mut self) -> Result<Times> {
        Ok(Times::default())
    }

    /// Switches measuring the time between calls on or off.
    fn time_gaps(&mut self, _on: bool) {}

    /// Seconds of the application's stream between consecutive calls: from the end of the previous
    /// call to the start of each call, in order. Returns one number for each call that has ended
    /// since this function was last asked; NaN for the first call.
    fn gaps(&mut self) -> Result<Vec<f64>> {
        Ok(Vec::new())
    }

    /// Processors that the application kept busy between calls, on average, since the time between calls is
    /// measured; `None` if the device does not know.
    fn busy_processors(&self) -> Option<f64> {
        None
    }

    /// Begins coding work for this share of a state on the application's lane. Call this between
    /// `enter` and `leave`.
    fn begin_coding(&mut self, _coding: Coding, _share: f64) -> Result<()> {
        Ok(())
    }

    /// Marks the end of the coding work that `begin_coding` began on the application's lane.
    fn end_coding(&mut self) -> Result<()> {
        Ok(())
    }

    /// Starts or stops keeping spans: without this call, none are kept.
    fn keep_spans(&mut self, _on: bool) -> Result<()> {
        Ok(())
    }

    /// Tells that the application begins `action`, outside a call. If the action's row is that of
    /// computation, the application computes until its next call or action. `None`: the sweep is
    /// over.
    fn begin_action(&mut self, _action: Option<Label>) -> Result<()> {
        Ok(())
    }

    /// Tells that the sweep is broken off: the application may have destroyed its stream. What it
    /// computes since its last call may stay without a span.
    fn break_off(&mut self) -> Result<()> {
        self.begin_action(None)
    }

    /// Names the state `ts` as the subject of all copies and coding work from here on.
    fn concerns(&mut self, _ts: i64) {}

    /// Returns the spans that have ended since this function was last called; in each row in order.
    /// `all`: first blocks the calling thread until all spans that have begun have ended; only
    /// outside `enter` and `leave`.
    fn spans(&mut self, _all: bool) -> Result<Vec<Span>> {
        Ok(Vec::new())
    }
}

/// Spans that have ended.
pub struct Log {
    origin: Instant,
    spans: Mutex<Spans>,
}

impl Log {
    /// Makes a log whose time begins now.
    pub fn new() -> Self {
        Log { origin: Instant::now(), spans: Mutex::default() }
    }

    /// Returns the spans that were added since this function was last called.
    pub fn take(&self) -> Result<Vec<Span>> {
        locked(&self.spans).take()
    }

    /// Keeps no spans from now on.
    pub fn close(&self) {
        locked(&self.spans).close();
    }

    /// Adds a span. Copies of the fields of one snapshot by the calling thread become one span.
    pub fn add(&self, label: Label, begin: Instant, end: Instant) {
        let begin = begin.saturating_duration_since(self.origin).as_secs_f64();
        let end = end.saturating_duration_since(self.origin).as_secs_f64();
        let mut spans = locked(&self.spans);
        let on_caller = matches!(label.row, Row::Codec | Row::DirectUpload | Row::DirectDownload);
        match spans.last_of(label.row) {
            Some(last) if on_caller && last.label.goes_on_with(&label) => {
                last.seconds = end - last.begin;
                last.label.bytes += label.bytes;
            }
            _ => spans.add(Span { label, begin, seconds: (end - begin).max(0.0) }),
        }
    }
}

/// The spans of the calling thread.
pub struct Teller {
    /// The log to which other threads write their spans, too.
    pub log: Arc<Log>,
    pub subject: Subject,
    /// What the application computes, and since when; `None` during a call.
    computing: Option<(Label, Instant)>,
    /// What the application goes on computing after the current call.
    interrupted: Option<Label>,
}

impl Teller {
    pub fn new() -> Self {
        let log = Arc::new(Log::new());
        Teller { log, subject: Subject::default(), computing: None, interrupted: None }
    }

    pub fn begin_action(&mut self, action: Option<Label>) {
        let now = Instant::now();
        self.stop(now);
        if let Some(action) = action {
            self.subject.action = action;
            self.computing = Some((action, now)).filter(|_| action.row == Row::Compute);
        }
    }

    fn stop(&mut self, now: Instant) -> Option<Label> {
        let (label, since) = self.computing.take()?;
        self.log.add(label, since, now);
        Some(label)
    }

    pub fn enter(&mut self, call: &'static str, now: Instant) {
        self.subject.call = call;
        self.interrupted = self.stop(now);
    }

    pub fn leave(&mut self, entered: Instant, now: Instant) {
        self.log.add(self.subject.call(), entered, now);
        self.computing = self.interrupted.take().map(|label| (label, now));
    }
}
