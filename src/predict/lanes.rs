//! Copy engines: each engine does one transfer at a time, in the order of issue.
//!
//! A transfer begins when its engine is free and the transfers that it depends on have ended. The
//! end of a transfer is computed as late as possible, when a caller asks for it. Until then, a copy
//! on the application's own stream may come in between, as on a device: when the engine has ended the
//! chunk of the transfer that it is at.
//!
//! On a device with one copy engine both directions share it. The engine then does the chunks of both
//! directions one at a time, first the one that can begin first.

use super::timeline::{Row, Timeline};
use crate::device::Lane;
use crate::error::Result;
use crate::fallible_vec;
use std::collections::VecDeque;

/// The row of a timeline that shows the transfers of an engine.
fn row(engine: usize) -> Row {
    [Row::H2d, Row::D2h, Row::DiskRead, Row::DiskWrite][engine]
}

/// The number of the engine of a lane: one for each lane but the application's.
fn engine_of(lane: Lane) -> usize {
    (lane as usize).saturating_sub(1)
}

/// A transfer: its engine, and its number among the transfers of that engine, from 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Transfer {
    engine: usize,
    number: u32,
}

/// What a transfer waits for: the time `issued`, in seconds, and of each engine the transfer with
/// the number in `after` and all transfers before it.
#[derive(Clone, Copy, Default)]
pub(super) struct Condition {
    pub issued: f64,
    after: [u32; 4],
}

impl Condition {
    /// Adds that the transfer `other` has ended.
    pub fn and(&mut self, other: Transfer) {
        let after = &mut self.after[other.engine];
        *after = other.number.max(*after);
    }
}

/// How long a transfer takes, and each of its chunks, in seconds.
#[derive(Clone, Copy)]
pub(super) struct Duration {
    pub seconds: f64,
    pub chunk: f64,
}

/// A transfer that has not begun.
#[derive(Clone, Copy)]
struct Job {
    condition: Condition,
    duration: Duration,
    /// Number of the transfer among those of all engines.
    order: u64,
}

/// The next chunk of a lane on a shared engine: when the engine is free, too, and when it could begin
/// for its own sake, in seconds. Of two chunks the lesser one is done first.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
struct Chunk {
    start: f64,
    ready: f64,
    order: u64,
    engine: usize,
}

#[derive(Default)]
struct Engine {
    /// The time at which the transfers that have begun will have ended, in seconds.
    free: f64,
    /// Since when the transfer that has begun last goes on without interruption, in seconds, and how
    /// long each of its chunks takes.
    since: f64,
    chunk: f64,
    /// On a shared engine: the end of the last chunk of the first transfer of `queue`, in seconds, if
    /// that transfer has begun. Its duration is that of the chunks to come.
    begun: Option<f64>,
    /// Transfers that have not begun, in order; and the end times, in seconds, of those that have.
    queue: VecDeque<Job>,
    ends: Vec<f64>,
}

/// The four copy engines.
pub(super) struct Lanes {
    engines: [Engine; 4],
    /// Whether both directions of the link share one engine: `free` of the first one holds for both.
    is_shared: bool,
    /// Number of transfers so far.
    issued: u64,
    pub timeline: Option<Timeline>,
}

impl Lanes {
    /// `is_shared`: one engine serves both directions of the link.
    pub fn new(is_shared: bool, timeline: Option<Timeline>) -> Self {
        Lanes { engines: Default::default(), is_shared, issued: 0, timeline }
    }

    /// The last transfer that was issued on `lane`; `None` before the first one.
    pub fn last(&self, lane: Lane) -> Option<Transfer> {
        let Engine { ends, queue, .. } = &self.engines[engine_of(lane)];
        let number = (ends.len() + queue.len()) as u32;
        (number > 0).then_some(Transfer { engine: engine_of(lane), number })
    }

    /// Enqueues a transfer.
    pub fn issue(&mut self, lane: Lane, condition: Condition, duration: Duration) -> Result<()> {
        let queue = &mut self.engines[engine_of(lane)].queue;
        self.issued += 1;
        fallible_vec::push_back(queue, Job { condition, duration, order: self.issued })
    }

    /// The end time of a transfer, in seconds, if no copy of the application's stream comes in
    /// between after this call.
    pub fn end(&mut self, Transfer { engine, number }: Transfer) -> Result<f64> {
        while self.engines[engine].ends.len() < number as usize {
            if self.is_of_link(engine) {
                match self.next_chunk()? {
                    Some(chunk) => self.pass(chunk)?,
                    None => return Ok(0.0),
                }
                continue;
            }
            let Some(Job { condition, duration, .. }) = self.engines[engine].queue.pop_front()
            else {
                return Ok(0.0);
            };
            let Some(ready) = self.ready(engine, condition)? else { return Ok(0.0) };
            self.begin(engine, ready, duration)?;
        }
        Ok(self.engines[engine].ends.get(number as usize - 1).copied().unwrap_or(0.0))
    }

    /// Begins the next transfer of an engine, not before time `ready`.
    fn begin(&mut self, engine: usize, ready: f64, duration: Duration) -> Result<()> {
        let end = self.occupy(engine, ready, duration.seconds);
        let this = &mut self.engines[engine];
        (this.since, this.chunk) = (end - duration.seconds, duration.chunk);
        fallible_vec::push(&mut this.ends, end)
    }

    /// Occupies an engine for a transfer or a chunk, not before time `ready`. Returns its end time.
    fn occupy(&mut self, engine: usize, ready: f64, seconds: f64) -> f64 {
        let free = &mut self.engines[if self.is_of_link(engine) { 0 } else { engine }].free;
        let begin = free.max(ready);
        *free = begin + seconds;
        if let Some(timeline) = &mut self.timeline {
            timeline.add(row(engine), begin, *free);
        }
        *free
    }

    /// Begins all transfers of an engine that can begin at time `now` or before.
    fn advance(&mut self, engine: usize, now: f64) -> Result<()> {
        while let Some(&Job { condition, duration, .. }) = self.engines[engine].queue.front() {
            let mut ready = condition.issued;
            for (other, number) in condition.after.into_iter().enumerate().filter(|(_, n)| *n > 0) {
                // A transfer that has not begun was issued before this one: the recursion ends,
                // although engines wait for one another.
                if self.engines[other].ends.len() < number as usize {
                    self.advance(other, now)?;
                }
                match self.engines[other].ends.get(number as usize - 1) {
                    Some(&end) => ready = ready.max(end),
                    None => return Ok(()),
                }
            }
            if ready.max(self.engines[engine].free) > now {
                return Ok(());
            }
            self.engines[engine].queue.pop_front();
            self.begin(engine, ready, duration)?;
        }
        Ok(())
    }

    /// Whether the lane of this engine shares its engine with another lane.
    fn is_of_link(&self, engine: usize) -> bool {
        self.is_shared && engine <= engine_of(Lane::Download)
    }

    /// The chunk that the shared engine does next; `None` if no transfer is left.
    fn next_chunk(&mut self) -> Result<Option<Chunk>> {
        let mut first: Option<Chunk> = None;
        for engine in [Lane::Upload, Lane::Download].map(engine_of) {
            let Some(&Job { condition, order, .. }) = self.engines[engine].queue.front() else {
                continue;
            };
            let Some(ready) = self.ready(engine, condition)? else { continue };
            let chunk = Chunk { start: ready.max(self.engines[0].free), ready, order, engine };
            first = first.filter(|first| *first < chunk).or(Some(chunk));
        }
        Ok(first)
    }

    /// When the next transfer of an engine, or its next chunk on the shared engine, could begin, in
    /// seconds; `None` if the chunk waits for a transfer of the other lane that has not ended.
    fn ready(&mut self, engine: usize, condition: Condition) -> Result<Option<f64>> {
        if self.engines[engine].begun.is_some() {
            return Ok(self.engines[engine].begun);
        }
        let mut ready = condition.issued;
        for (other, number) in condition.after.into_iter().enumerate().filter(|(_, n)| *n > 0) {
            if !(self.is_of_link(engine) && self.is_of_link(other)) {
                ready = ready.max(self.end(Transfer { engine: other, number })?);
                continue;
            }
            match self.engines[other].ends.get(number as usize - 1) {
                Some(&end) => ready = ready.max(end),
                None => return Ok(None),
            }
        }
        Ok(Some(ready))
    }

    /// Lets the shared engine do a chunk.
    fn pass(&mut self, Chunk { engine: number, start, .. }: Chunk) -> Result<()> {
        let Some(job) = self.engines[number].queue.front_mut() else { return Ok(()) };
        let Duration { seconds, chunk } = job.duration;
        // The sum of all chunks may differ from the whole by a rounding error.
        let is_last = seconds <= chunk * (1.0 + 1e-9) || chunk <= 0.0;
        job.duration.seconds = seconds - chunk;
        let end = self.occupy(number, start, if is_last { seconds } else { chunk });
        let engine = &mut self.engines[number];
        engine.begun = Some(end).filter(|_| !is_last);
        if is_last {
            engine.queue.pop_front();
            fallible_vec::push(&mut engine.ends, end)?;
        }
        Ok(())
    }

    /// Inserts a transfer of the application's own stream, which waits only for the chunk of a
    /// transfer that the engine of `lane` is at at time `now`. Returns the end time.
    pub fn cut_in(&mut self, lane: Lane, now: f64, seconds: f64) -> Result<f64> {
        let number = engine_of(lane);
        if self.is_of_link(number) {
            while let Some(chunk) = self.next_chunk()? {
                if (chunk.start, chunk.ready) > (self.engines[0].free.max(now), now) {
                    break;
                }
                self.pass(chunk)?;
            }
            return Ok(self.occupy(number, now, seconds));
        }
        self.advance(number, now)?;
        let engine = &mut self.engines[number];
        let chunks = ((now - engine.since) / engine.chunk).floor() + 1.0;
        let begin = engine.since + chunks * engine.chunk;
        // A transfer that begins later than now was asked for its end, which stays.
        if !(engine.since <= now && begin < engine.free) {
            return Ok(self.occupy(number, now, seconds));
        }
        let (end, rest) = (begin + seconds, engine.free - begin);
        (engine.since, engine.free) = (end, end + rest);
        if let Some(last) = engine.ends.last_mut() {
            *last = engine.free;
        }
        if let Some(timeline) = &mut self.timeline {
            timeline.cut_in(row(number), begin, end);
        }
        Ok(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A transfer from 0 to 10 seconds in chunks of 2 seconds.
    fn under_way() -> (Lanes, Transfer) {
        let mut lanes = Lanes::new(false, Some(Timeline::default()));
        let duration = Duration { seconds: 10.0, chunk: 2.0 };
        lanes.issue(Lane::Upload, Condition::default(), duration).unwrap();
        let last = lanes.last(Lane::Upload).unwrap();
        (lanes, last)
    }

    #[test]
    fn a_copy_of_the_application_waits_for_one_chunk() {
        let (mut lanes, transfer) = under_way();
        assert_eq!(lanes.cut_in(Lane::Upload, 3.0, 1.0).unwrap(), 5.0);
        assert_eq!(lanes.end(transfer).unwrap(), 11.0);
        // The transfer goes on from 5 to 7, since its next chunk is ready before this copy.
        assert_eq!(lanes.cut_in(Lane::Upload, 5.0, 1.0).unwrap(), 8.0);
        assert_eq!(lanes.cut_in(Lane::Upload, 11.5, 1.0).unwrap(), 13.0);
        assert_eq!(lanes.end(transfer).unwrap(), 12.0);
        let spans = [(0.0, 4.0), (4.0, 5.0), (5.0, 7.0), (7.0, 8.0), (8.0, 12.0), (12.0, 13.0)];
        assert_eq!(lanes.timeline.unwrap().row(Row::H2d), spans);
    }

    #[test]
    fn what_waits_for_an_interrupted_transfer_waits_for_its_new_end() {
        let (mut lanes, transfer) = under_way();
        let mut condition = Condition::default();
        condition.and(transfer);
        let duration = Duration { seconds: 1.0, chunk: f64::INFINITY };
        lanes.issue(Lane::Download, condition, duration).unwrap();
        assert_eq!(lanes.cut_in(Lane::Upload, 0.5, 4.0).unwrap(), 6.0);
        let download = lanes.last(Lane::Download).unwrap();
        assert_eq!(lanes.end(download).unwrap(), 15.0);
    }

    /// The other engine, and a transfer in one piece, let nothing come in between.
    #[test]
    fn nothing_else_is_interrupted() {
        let (mut lanes, transfer) = under_way();
        assert_eq!(lanes.cut_in(Lane::Download, 3.0, 1.0).unwrap(), 4.0);
        assert_eq!(lanes.end(transfer).unwrap(), 10.0);
        let whole = Duration { seconds: 10.0, chunk: f64::INFINITY };
        lanes.issue(Lane::Download, Condition::default(), whole).unwrap();
        assert_eq!(lanes.cut_in(Lane::Download, 5.0, 1.0).unwrap(), 15.0);
    }

    /// One engine for both directions: the chunks of an upload and of a download take turns, and a copy
    /// of the application waits for one chunk that is ready before it.
    #[test]
    fn a_shared_engine_takes_turns() {
        let mut lanes = Lanes::new(true, Some(Timeline::default()));
        let duration = Duration { seconds: 4.0, chunk: 2.0 };
        lanes.issue(Lane::Upload, Condition::default(), duration).unwrap();
        let upload = lanes.last(Lane::Upload).unwrap();
        lanes.issue(Lane::Download, Condition::default(), duration).unwrap();
        let download = lanes.last(Lane::Download).unwrap();
        let mut condition = Condition::default();
        condition.and(download);
        lanes.issue(Lane::Upload, condition, duration).unwrap();
        let last = lanes.last(Lane::Upload).unwrap();
        assert_eq!(lanes.cut_in(Lane::Upload, 1.0, 1.0).unwrap(), 5.0);
        let ends = [upload, download, last].map(|transfer| lanes.end(transfer).unwrap());
        assert_eq!(ends, [7.0, 9.0, 13.0]);
    }
}
