//! Copy engines: each engine does one transfer at a time, in the order of issue.
//!
//! A transfer begins when its engine is free and the transfers that it depends on have ended. The
//! end of a transfer is computed as late as possible, when a caller asks for it. Until then, a copy
//! on the application's own stream may come in between, as on a device.

use super::timeline::{Row, Timeline};
use crate::fallible_vec;
use std::collections::VecDeque;

/// A copy engine.
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

/// A transfer: its engine, and its number among the transfers of that engine.
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
    /// True if a transfer was left out because there was no memory for it.
    pub is_full: bool,
}

impl Lanes {
    /// Makes engines whose transfers take these seconds: upload, download, disk read, disk write.
    pub fn new(durations: [f64; 4], timeline: Option<Timeline>) -> Self {
        let engine =
            |duration| Engine { duration, free: 0.0, queue: VecDeque::new(), ends: Vec::new() };
        Lanes { engines: durations.map(engine), timeline, is_full: false }
    }

    /// Number of transfers of an engine so far.
    pub fn issued(&self, lane: Lane) -> u32 {
        let engine = &self.engines[lane as usize];
        (engine.ends.len() + engine.queue.len()) as u32
    }

    /// Enqueues a transfer at time `issued`, in seconds, to begin after the transfers `after`.
    pub fn issue(&mut self, lane: Lane, issued: f64, after: [Option<Transfer>; 2]) -> Transfer {
        let number = self.issued(lane);
        self.is_full |=
            fallible_vec::push_back(&mut self.engines[lane as usize].queue, Job { issued, after })
                .is_err();
        Transfer { lane, number }
    }

    /// The end time of a transfer, in seconds, if no copy of the application's stream comes in
    /// between after this call.
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

    /// Begins the next transfer of an engine, not before time `ready`.
    fn begin(&mut self, lane: Lane, ready: f64) {
        let end = self.occupy(lane, ready);
        self.is_full |= fallible_vec::push(&mut self.engines[lane as usize].ends, end).is_err();
    }

    /// Occupies an engine for one transfer, not before time `ready`. Returns the end time of the
    /// transfer.
    fn occupy(&mut self, lane: Lane, ready: f64) -> f64 {
        let engine = &mut self.engines[lane as usize];
        let begin = engine.free.max(ready);
        engine.free = begin + engine.duration;
        if let Some(timeline) = &mut self.timeline {
            timeline.add(lane.row(), begin, engine.free);
        }
        engine.free
    }

    /// Begins all transfers of an engine that can begin at time `now` or before.
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

    /// Inserts a transfer of the application's own stream, which waits only for the transfer that
    /// the engine does at time `now`. Returns the end time.
    pub fn cut_in(&mut self, lane: Lane, now: f64) -> f64 {
        self.advance(lane, now);
        self.occupy(lane, now)
    }
}
