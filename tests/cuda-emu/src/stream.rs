//! Streams: queues of operations, each with the list of operations that it must wait for.

use crate::context::thread_number;
use crate::driver::{fatal, Driver};
use crate::execute::{Action, Copy};
use crate::faults::Drop;
use crate::history::{Entry, Kind};
use crate::memory::Place;
use crate::status::{Result, INVALID_CONTEXT, INVALID_HANDLE, INVALID_VALUE, NOT_READY};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};

/// The handles that name a default stream.
const NULL: usize = 0;
const LEGACY: usize = 1;
const PER_THREAD: usize = 2;

/// An operation, named by the index of its stream and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Index of the stream.
    pub stream: usize,
    /// Number of the operation, 0 for none.
    pub op: u64,
}

/// A queued operation.
pub struct Op {
    /// Number of the operation.
    pub id: u64,
    /// What the operation does.
    pub action: Action,
    /// The operations of other streams that must have run before this operation.
    pub after: Vec<Point>,
    /// The host's virtual time in seconds when the operation was enqueued.
    pub enqueued: f64,
}

/// A stream.
pub struct Stream {
    /// Index of the stream's context.
    pub context: usize,
    /// True if the stream synchronises with the legacy default stream.
    pub blocking: bool,
    /// True after `cuStreamDestroy`, while queued operations still have to run.
    pub destroyed: bool,
    /// True for a default stream, which is not counted and which `cuStreamDestroy` refuses.
    pub default: bool,
    /// The operations that have not run.
    pub queue: VecDeque<Op>,
    /// The number of the last operation that was enqueued.
    pub tail: u64,
    /// True while the host function at the head of the queue runs.
    pub in_flight: bool,
    /// The weight of the stream when the random scheduler draws a stream.
    pub weight: usize,
    /// Virtual time in seconds at which the stream's last operation ended.
    pub end: f64,
}

impl Op {
    /// Returns whether the number in memory for which the operation waits is still too small. The
    /// program sets it at any time.
    pub fn awaits_value(&self) -> bool {
        let Action::WaitValue(address, value) = self.action else { return false };
        // SAFETY: the address was in a live region of the program when the wait was enqueued, and the
        // program may not free this memory before the stream is past the wait. It is a multiple of 4.
        let number = unsafe { AtomicU32::from_ptr(address as *mut u32) }.load(Ordering::Acquire);
        (number.wrapping_sub(value) as i32) < 0
    }
}

impl Driver {
    /// Makes a stream in a context and returns its index.
    pub fn new_stream(&mut self, context: usize, blocking: bool, default: bool) -> usize {
        // With weight 0 a stream runs only when something waits for it; with weight 4 it runs ahead
        // of others.
        let weight = [0, 1, 1, 4][self.rng.below(4)];
        let (queue, tail, end) = (VecDeque::new(), 0, 0.0);
        let stream = Stream {
            context,
            blocking,
            destroyed: false,
            default,
            queue,
            tail,
            in_flight: false,
            weight,
            end,
        };
        let index = self.streams.insert(stream);
        self.contexts[context].streams.push(index);
        index
    }

    /// `cuStreamCreate`
    pub fn stream_create(&mut self, flags: u32) -> Result<usize> {
        let context = self.current()?;
        if flags > 1 {
            return Err(INVALID_VALUE);
        }
        let index = self.new_stream(context, flags == 0, false);
        self.counters.totals.streams += 1;
        self.note(Entry { kind: Kind::Stream, stream: index as u32, ..Entry::default() });
        Ok(self.streams.handle(index))
    }

    /// `cuStreamDestroy`: queued operations still run.
    pub fn stream_destroy(&mut self, handle: usize) -> Result {
        let index = self.stream(handle)?;
        if self.streams[index].default {
            return Err(INVALID_HANDLE);
        }
        self.streams[index].destroyed = true;
        self.counters.totals.streams -= 1;
        self.bury(index);
        Ok(())
    }

    /// Removes a destroyed stream once its queue is empty.
    pub fn bury(&mut self, index: usize) {
        let stream = &self.streams[index];
        if stream.destroyed && stream.queue.is_empty() {
            let context = stream.context;
            self.contexts[context].streams.retain(|other| *other != index);
            self.streams.remove(index);
        }
    }

    /// Returns the index of the stream that a handle names for the calling thread, if no error
    /// sticks to the stream's context or to the current context.
    pub fn stream(&mut self, handle: usize) -> Result<usize> {
        let index = self.stream_or_implicit(handle)?;
        self.refuse_implicit(index)?;
        Ok(index)
    }

    /// As `stream`, also for the legacy default stream during a capture that forbids its use.
    pub fn stream_or_implicit(&mut self, handle: usize) -> Result<usize> {
        let current = self.current()?;
        let index = match handle {
            NULL | LEGACY => self.legacy_stream(current),
            PER_THREAD => self.thread_stream(current),
            _ => {
                let live = |index: &usize| !self.streams[*index].destroyed;
                let found = self.streams.find(handle).filter(live);
                if found.is_none() && self.settings.aborts_on_destroyed {
                    fatal(&format!("{handle:#x} is no stream, or a destroyed one"));
                }
                found.ok_or(INVALID_HANDLE)?
            }
        };
        self.healthy(self.streams[index].context)?;
        Ok(index)
    }

    fn legacy_stream(&mut self, context: usize) -> usize {
        if let Some(index) = self.contexts[context].legacy {
            return index;
        }
        let index = self.new_stream(context, true, true);
        self.contexts[context].legacy = Some(index);
        index
    }

    fn thread_stream(&mut self, context: usize) -> usize {
        let thread = thread_number();
        if let Some((_, index)) =
            self.contexts[context].per_thread.iter().find(|(owner, _)| *owner == thread)
        {
            return *index;
        }
        let index = self.new_stream(context, true, true);
        self.contexts[context].per_thread.push((thread, index));
        index
    }

    /// Puts an operation at the end of a stream and returns its number. The operation runs after
    /// the operations in `after` and after those that the rules of the default stream require.
    /// In a capture the operation goes into a graph instead, and its number is 0.
    pub fn enqueue(&mut self, stream: usize, action: Action, mut after: Vec<Point>) -> u64 {
        if self.captured(stream) {
            return 0;
        }
        let context = &self.contexts[self.streams[stream].context];
        if context.legacy == Some(stream) {
            let others = context
                .streams
                .iter()
                .filter(|other| **other != stream && self.streams[**other].blocking);
            after.extend(others.map(|other| self.last(*other)));
        } else if let Some(legacy) = context.legacy.filter(|_| self.streams[stream].blocking) {
            after.push(self.last(legacy));
        }
        after.retain(|point| !self.reached(*point));
        let id = self.log.open();
        self.note_operation(stream, id, &action);
        let op = Op { id, action, after, enqueued: self.clock.host };
        let target = &mut self.streams[stream];
        if target.queue.is_empty() {
            self.active.push(stream);
        }
        target.queue.push_back(op);
        target.tail = id;
        if target.queue.len() > self.settings.queue {
            // The call waits until the oldest of these operations has run.
            let oldest = target.queue[target.queue.len() - 1 - self.settings.queue].id;
            self.overfull = Some(Point { stream, op: oldest });
        }
        self.counters.totals.pending += 1;
        id
    }

    /// Returns the last operation enqueued in a stream.
    pub fn last(&self, stream: usize) -> Point {
        Point { stream, op: self.streams[stream].tail }
    }

    /// Returns whether an operation has run and its end is not after the host's virtual time.
    pub fn reached(&self, point: Point) -> bool {
        self.log.done(point.op) && self.log.end(point.op) <= self.clock.host
    }

    /// `cuStreamQuery`
    pub fn stream_query(&mut self, handle: usize) -> Result {
        let index = self.stream(handle)?;
        self.refuse_captured(index)?;
        let (last, context) = (self.last(index), self.streams[index].context);
        self.query(last).then_some(()).ok_or(NOT_READY)?;
        self.healthy(context)
    }

    /// `cuStreamWaitEvent`: later operations wait for the event's last record at the time of this
    /// call.
    pub fn stream_wait(&mut self, handle: usize, event: usize, flags: u32) -> Result {
        let stream = self.stream(handle)?;
        let event = self.event(event)?;
        if flags > 1 {
            return Err(INVALID_VALUE);
        }
        if self.faults.dropped(Drop::Wait) {
            self.counters.totals.dropped += 1;
            return Ok(());
        }
        if self.captured_wait(stream, self.events[event].captured)? {
            return Ok(());
        }
        let record = self.events[event].record;
        self.note(Entry {
            kind: Kind::Wait,
            stream: stream as u32,
            after: record.map_or(0, |record| record.op),
            event: self.events.handle(event) as u64,
            ..Entry::default()
        });
        if let Some(record) = record.filter(|record| !self.reached(*record)) {
            self.enqueue(stream, Action::Wait, vec![record]);
        }
        Ok(())
    }

    /// `cuStreamWaitValue32`, which waits for a number that is not less (flags 0).
    pub fn stream_wait_value(
        &mut self,
        handle: usize,
        address: usize,
        value: u32,
        flags: u32,
    ) -> Result {
        let stream = self.stream(handle)?;
        let is_known = matches!(self.memory.place(address, 4), Place::Inside(_));
        if flags != 0 || !is_known || address % 4 != 0 {
            return Err(INVALID_VALUE);
        }
        if self.faults.dropped(Drop::Value) {
            self.counters.totals.dropped += 1;
            return Ok(());
        }
        self.enqueue(stream, Action::WaitValue(address, value), Vec::new());
        Ok(())
    }

    /// `cuStreamGetCtx`
    pub fn stream_context(&mut self, handle: usize) -> Result<usize> {
        let index = self.stream(handle)?;
        let context = self.streams[index].context;
        self.contexts.get(context).map(|_| self.contexts.handle(context)).ok_or(INVALID_CONTEXT)
    }

    /// Enqueues a copy and returns its operation.
    pub fn enqueue_copy(&mut self, stream: usize, copy: Copy) -> Point {
        let op = self.enqueue(stream, Action::Copy(copy), Vec::new());
        Point { stream, op }
    }
}
