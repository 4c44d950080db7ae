//! Copy engines: each engine does one transfer at a time, in the order of issue.
//!
//! A transfer begins when its engine is free and the transfers that it depends on have ended. The
//! end of a transfer is computed as late as possible, when a caller asks for it. Until then, a copy
//! on the application's own stream may come in between, as on a device.

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

/// A transfer that has not begun, and its duration in seconds.
#[derive(Clone, Copy)]
struct Job {
    condition: Condition,
    seconds: f64,
}

#[derive(Default)]
struct Engine {
    /// The time at which the transfers that have begun will have ended, in seconds.
    free: f64,
    /// Transfers that have not begun, in order; and the end times, in seconds, of those that have.
    queue: VecDeque<Job>,
    ends: Vec<f64>,
}

/// The four copy engines.
pub(super) struct Lanes {
    engines: [Engine; 4],
    pub timeline: Option<Timeline>,
}

impl Lanes {
    pub fn new(timeline: Option<Timeline>) -> Self {
        Lanes { engines: Default::default(), timeline }
    }

    /// The last transfer that was issued on `lane`; `None` before the first one.
    pub fn last(&self, lane: Lane) -> Option<Transfer> {
        let Engine { ends, queue, .. } = &self.engines[engine_of(lane)];
        let number = (ends.len() + queue.len()) as u32;
        (number > 0).then_some(Transfer { engine: engine_of(lane), number })
    }

    /// Number of transfers of an engine so far.
    pub fn issued(&self, lane: Lane) -> u64 {
        self.last(lane).map_or(0, |transfer| u64::from(transfer.number))
    }

    /// Enqueues a transfer of `seconds` seconds.
    pub fn issue(&mut self, lane: Lane, condition: Condition, seconds: f64) -> Result<()> {
        let queue = &mut self.engines[engine_of(lane)].queue;
        fallible_vec::push_back(queue, Job { condition, seconds })
    }

    /// The end time of a transfer, in seconds, if no copy of the application's stream comes in
    /// between after this call.
    pub fn end(&mut self, Transfer { engine, number }: Transfer) -> Result<f64> {
        while self.engines[engine].ends.len() < number as usize {
            let Some(Job { condition, seconds }) = self.engines[engine].queue.pop_front() else {
                return Ok(0.0);
            };
            let mut ready = condition.issued;
            for (engine, number) in condition.after.into_iter().enumerate() {
                if number > 0 {
                    ready = ready.max(self.end(Transfer { engine, number })?);
                }
            }
            self.begin(engine, ready, seconds)?;
        }
        Ok(self.engines[engine].ends.get(number as usize - 1).copied().unwrap_or(0.0))
    }

    /// Begins the next transfer of an engine, not before time `ready`.
    fn begin(&mut self, engine: usize, ready: f64, seconds: f64) -> Result<()> {
        let end = self.occupy(engine, ready, seconds);
        fallible_vec::push(&mut self.engines[engine].ends, end)
    }

    /// Occupies an engine for one transfer, not before time `ready`. Returns the end time of the
    /// transfer.
    fn occupy(&mut self, engine: usize, ready: f64, seconds: f64) -> f64 {
        let free = &mut self.engines[engine].free;
        let begin = free.max(ready);
        *free = begin + seconds;
        if let Some(timeline) = &mut self.timeline {
            timeline.add(row(engine), begin, *free);
        }
        *free
    }

    /// Begins all transfers of an engine that can begin at time `now` or before.
    fn advance(&mut self, engine: usize, now: f64) -> Result<()> {
        while let Some(&Job { condition, seconds }) = self.engines[engine].queue.front() {
            let mut ready = condition.issued;
            for (other, number) in condition.after.into_iter().enumerate() {
                if number == 0 {
                    continue;
                }
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
            self.begin(engine, ready, seconds)?;
        }
        Ok(())
    }

    /// Inserts a transfer of the application's own stream, which waits only for the transfer that
    /// the engine of `lane` does at time `now`. Returns the end time.
    pub fn cut_in(&mut self, lane: Lane, now: f64, seconds: f64) -> Result<f64> {
        self.advance(engine_of(lane), now)?;
        Ok(self.occupy(engine_of(lane), now, seconds))
    }
}
