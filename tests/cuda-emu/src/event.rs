//! Events: marks in streams.

use crate::capture::Captured;
use crate::driver::Driver;
use crate::execute::Action;
use crate::faults::Drop;
use crate::history::{Entry, Kind};
use crate::status::{Result, INVALID_HANDLE, INVALID_VALUE, NOT_READY};
use crate::stream::Point;

const BLOCKING: u32 = 1;
const DISABLE_TIMING: u32 = 2;
const INTERPROCESS: u32 = 4;

/// An event.
pub struct Event {
    /// Index of the event's context.
    pub context: usize,
    /// True if `cuEventElapsedTime` is allowed.
    pub timing: bool,
    /// The last record of the event.
    pub record: Option<Point>,
    /// The last record, if it was in a stream that was being captured.
    pub captured: Option<Captured>,
    /// True if a host thread that waits for the event sleeps.
    pub is_blocking: bool,
    /// The virtual time in seconds at which the record in `record` ran.
    pub time: f64,
}

impl Driver {
    /// `cuEventCreate`
    pub fn event_create(&mut self, flags: u32) -> Result<usize> {
        let context = self.current()?;
        if flags > 7 || flags & (INTERPROCESS | DISABLE_TIMING) == INTERPROCESS {
            return Err(INVALID_VALUE);
        }
        let index = self.events.insert(Event {
            context,
            timing: flags & DISABLE_TIMING == 0,
            record: None,
            captured: None,
            is_blocking: flags & BLOCKING != 0,
            time: 0.0,
        });
        self.counters.totals.events += 1;
        self.note(Entry {
            kind: Kind::Event,
            event: self.events.handle(index) as u64,
            ..Entry::default()
        });
        Ok(self.events.handle(index))
    }

    /// `cuEventDestroy`: a queued record of the event still runs.
    pub fn event_destroy(&mut self, handle: usize) -> Result {
        self.current()?;
        let index = self.event(handle)?;
        self.events.remove(index);
        self.counters.totals.events -= 1;
        Ok(())
    }

    /// Returns the index of the event with this handle, if no error sticks to the event's context.
    pub fn event(&self, handle: usize) -> Result<usize> {
        let index = self.events.find(handle).ok_or(INVALID_HANDLE)?;
        self.healthy(self.events[index].context)?;
        Ok(index)
    }

    /// `cuEventRecord`
    pub fn event_record(&mut self, handle: usize, stream: usize) -> Result {
        let stream = self.stream(stream)?;
        let event = self.event(handle)?;
        if self.events[event].context != self.streams[stream].context {
            return Err(INVALID_HANDLE);
        }
        if self.faults.dropped(Drop::Record) {
            self.counters.totals.dropped += 1;
            return Ok(());
        }
        self.events[event].captured = self.captured_record(stream);
        let op = self.enqueue(stream, Action::Record(event), Vec::new());
        if op == 0 {
            return Ok(());
        }
        self.events[event].record = Some(Point { stream, op });
        Ok(())
    }

    /// `cuEventQuery`: an event that was never recorded is complete.
    pub fn event_query(&mut self, handle: usize) -> Result {
        self.current()?;
        let event = self.event(handle)?;
        self.refuse_captured_event(event)?;
        if let Some(record) = self.events[event].record {
            self.query(record).then_some(()).ok_or(NOT_READY)?;
        }
        let after = self.events[event].record.map_or(0, |record| record.op);
        self.note(Entry { kind: Kind::Done, after, event: handle as u64, ..Entry::default() });
        self.healthy(self.events[event].context)
    }

    /// `cuEventElapsedTime`, in milliseconds of virtual time.
    pub fn event_elapsed(&self, start: usize, end: usize) -> Result<f32> {
        self.current()?;
        let (start, end) = (&self.events[self.event(start)?], &self.events[self.event(end)?]);
        let (Some(first), Some(last)) = (start.record, end.record) else {
            return Err(INVALID_HANDLE);
        };
        if !start.timing || !end.timing || start.context != end.context {
            return Err(INVALID_HANDLE);
        }
        if !self.complete(first) || !self.complete(last) {
            return Err(NOT_READY);
        }
        Ok(((end.time - start.time) * 1e3) as f32)
    }
}
