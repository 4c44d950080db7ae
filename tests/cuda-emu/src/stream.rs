//! Streams: queues of operations, and what each operation must wait for.

use crate::context::thread_number;
use crate::driver::Driver;
use crate::execute::{Action, Copy};
use crate::faults::Drop;
use crate::history::{Entry, Kind};
use crate::status::{Result, INVALID_CONTEXT, INVALID_HANDLE, INVALID_VALUE, NOT_READY};
use std::collections::VecDeque;

/// The handles that name a default stream.
const NULL: usize = 0;
const LEGACY: usize = 1;
const PER_THREAD: usize = 2;

/// An operation in the queue of a stream: by stream index and number.
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
    /// What it does.
    pub action: Action,
    /// What must have run before it, besides its predecessors in the stream.
    pub after: Vec<Point>,
    /// The host's time when it was enqueued.
    pub enqueued: f64,
}

/// A stream.
pub struct Stream {
    /// Index of its context.
    pub context: usize,
    /// Synchronises with the legacy default stream.
    pub blocking: bool,
    /// `cuStreamDestroy` was called; the queue is still to be worked off.
    pub destroyed: bool,
    /// A default stream: not counted, not destroyed by name.
    pub default: bool,
    /// What is left to do.
    pub queue: VecDeque<Op>,
    /// The last operation ever enqueued.
    pub tail: u64,
    /// The host function at the head of the queue runs.
    pub in_flight: bool,
    /// How often the random scheduler chooses it, in relation to the others.
    pub weight: usize,
    /// Virtual time at which its last operation ended.
    pub end: f64,
    /// Virtual time that it spent waiting for other streams.
    pub stall: f64,
}

impl Driver {
    /// Makes a stream in a context and gives its index.
    pub fn new_stream(&mut self, context: usize, blocking: bool, default: bool) -> usize {
        // Some streams starve until something waits for them, some race ahead.
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
            stall: 0.0,
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

    /// `cuStreamDestroy`: what is queued still runs.
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

    /// Forgets a destroyed stream once its queue is empty.
    pub fn bury(&mut self, index: usize) {
        let stream = &self.streams[index];
        if stream.destroyed && stream.queue.is_empty() {
            let context = stream.context;
            self.contexts[context].streams.retain(|other| *other != index);
            self.streams.remove(index);
        }
    }

    /// The stream that a handle names for this thread, with its context and the current one in
    /// order.
    pub fn stream(&mut self, handle: usize) -> Result<usize> {
        let current = self.current()?;
        let index = match handle {
            NULL | LEGACY => self.legacy_stream(current),
            PER_THREAD => self.thread_stream(current),
            _ => self
                .streams
                .find(handle)
                .filter(|index| !self.streams[*index].destroyed)
                .ok_or(INVALID_HANDLE)?,
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

    /// Puts an operation at the end of a stream, behind `after` too and behind what the rules of
    /// the default stream demand.
    pub fn enqueue(&mut self, stream: usize, action: Action, mut after: Vec<Point>) -> u64 {
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
        self.counters.totals.pending += 1;
        id
    }

    /// The last operation enqueued in a stream.
    pub fn last(&self, stream: usize) -> Point {
        Point { stream, op: self.streams[stream].tail }
    }

    /// Whether an operation has run and, in virtual time, has ended before now.
    pub fn reached(&self, point: Point) -> bool {
        self.log.done(point.op) && self.log.end(point.op) <= self.clock.host
    }

    /// `cuStreamQuery`
    pub fn stream_query(&mut self, handle: usize) -> Result {
        let index = self.stream(handle)?;
        let (last, context) = (self.last(index), self.streams[index].context);
        self.query(last).then_some(()).ok_or(NOT_READY)?;
        self.healthy(context)
    }

    /// `cuStreamWaitEvent`: captures the record that the event has now.
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

    /// `cuStreamGetCtx`
    pub fn stream_context(&mut self, handle: usize) -> Result<usize> {
        let index = self.stream(handle)?;
        let context = self.streams[index].context;
        self.contexts.get(context).map(|_| self.contexts.handle(context)).ok_or(INVALID_CONTEXT)
    }

    /// Queues a copy.
    pub fn enqueue_copy(&mut self, stream: usize, copy: Copy) -> Point {
        let op = self.enqueue(stream, Action::Copy(copy), Vec::new());
        Point { stream, op }
    }
}
