//! Copy engines: each does one transfer at a time, in the order of their issue.
//!
//! A transfer begins when its engine is free and what it depends on has ended. Ends are found as
//! late as somebody asks for them: until then a copy of the application's own stream may come in
//! between, as it does on a device.

use super::timeline::{Row, Timeline};
use crate::fallible_vec;
use std::collections::VecDeque;

/// Which engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// Host to device memory.
    Upload,
    /// Device to host memory.
    Download,
    /// Disk to host memory.
    DiskRead,
    /// Host memory to disk.
    DiskWrite,
}

impl Lane {
    fn row(self) -> Row {
        match self {
            Lane::Upload => Row::H2d,
            Lane::Download => Row::D2h,
            Lane::DiskRead => Row::DiskRead,
            Lane::DiskWrite => Row::DiskWrite,
        }
    }
}

/// A transfer: its engine and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Transfer {
    pub lane: Lane,
    pub number: u32,
}

#[derive(Clone, Copy)]
struct Job {
    issued: f64,
    after: [Option<Transfer>; 2],
}

struct Engine {
    /// Seconds of one transfer.
    duration: f64,
    /// When the transfers that have begun will have ended.
    free: f64,
    /// Those that have not begun, in order, and the ends of those that have.
    queue: VecDeque<Job>,
    ends: Vec<f64>,
}

/// The four engines.
pub(super) struct Lanes {
    engines: [Engine; 4],
    pub timeline: Option<Timeline>,
    /// There was no memory for a transfer, which is left out.
    pub is_full: bool,
}

impl Lanes {
    /// Engines whose transfers take these seconds: upload, download, disk read, disk write.
    pub fn new(durations: [f64; 4], timeline: Option<Timeline>) -> Self {
        let engine =
            |duration| Engine { duration, free: 0.0, queue: VecDeque::new(), ends: Vec::new() };
        Lanes { engines: durations.map(engine), timeline, is_full: false }
    }

    /// The transfers of an engine so far.
    pub fn issued(&self, lane: Lane) -> u32 {
        let engine = &self.engines[lane as usize];
        (engine.ends.len() + engine.queue.len()) as u32
    }

    /// Enqueues a transfer at time `issued`, to begin after others.
    pub fn issue(&mut self, lane: Lane, issued: f64, after: [Option<Transfer>; 2]) -> Transfer {
        let number = self.issued(lane);
        self.is_full |=
            fallible_vec::push_back(&mut self.engines[lane as usize].queue, Job { issued, after })
                .is_err();
        Transfer { lane, number }
    }

    /// When a transfer ends, if nothing comes in between any more.
    pub fn end(&mut self, transfer: Transfer) -> f64 {
        let Transfer { lane, number } = transfer;
        while self.engines[lane as usize].ends.len() <= number as usize {
            let Some(job) = self.engines[lane as usize].queue.pop_front() else { return 0.0 };
            let after = job
                .after
                .into_iter()
                .flatten()
                .fold(job.issued, |latest, other| latest.max(self.end(other)));
            self.begin(lane, after);
        }
        self.engines[lane as usize].ends.get(number as usize).copied().unwrap_or(0.0)
    }

    /// Begins the next transfer of an engine, no earlier than `ready`.
    fn begin(&mut self, lane: Lane, ready: f64) {
        let end = self.occupy(lane, ready);
        self.is_full |= fallible_vec::push(&mut self.engines[lane as usize].ends, end).is_err();
    }

    fn occupy(&mut self, lane: Lane, ready: f64) -> f64 {
        let engine = &mut self.engines[lane as usize];
        let begin = engine.free.max(ready);
        engine.free = begin + engine.duration;
        if let Some(timeline) = &mut self.timeline {
            timeline.add(lane.row(), begin, engine.free);
        }
        engine.free
    }

    /// Begins all transfers that begin by the time `now`.
    fn advance(&mut self, lane: Lane, now: f64) {
        while let Some(&Job { issued, after }) = self.engines[lane as usize].queue.front() {
            let mut ready = issued;
            for other in after.into_iter().flatten() {
                self.advance(other.lane, now);
                match self.engines[other.lane as usize].ends.get(other.number as usize) {
                    Some(&end) => ready = ready.max(end),
                    None => return,
                }
            }
            if ready.max(self.engines[lane as usize].free) > now {
                return;
            }
            self.engines[lane as usize].queue.pop_front();
            self.begin(lane, ready);
        }
    }

    /// A transfer of the application's own stream, which waits only for the one that is under way.
    /// Returns its end.
    pub fn cut_in(&mut self, lane: Lane, now: f64) -> f64 {
        self.advance(lane, now);
        self.occupy(lane, now)
    }
}
