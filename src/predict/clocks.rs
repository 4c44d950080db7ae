//! A device without memory, whose lanes are clocks: a copy only takes time. The tiers play a plan on
//! this device as they play the plan on a device with memory.

use super::costs::Costs;
use super::lanes::{Condition, Duration, Lanes, Transfer};
use super::simulation::Simulation;
use super::timeline::{Row, Timeline};
use crate::device::{
    chunk_bytes, Coding, Crossing, Device, DiskSpace, Event, Lane, Launcher, Memory, Place,
    Recorder, Stream, Traffic,
};
use crate::error::Result;
use crate::fallible_vec;
use std::ffi::c_void;

/// When an event is reached.
#[derive(Clone, Copy)]
enum Reached {
    /// At this time, in seconds.
    At(f64),
    /// When this transfer ends.
    After(Transfer),
}

/// The clocks of the application's stream and of the copy engines.
pub(super) struct Clocks {
    costs: Costs,
    /// Bytes of a snapshot as the tiers count them. A copy of `whole` bytes takes the time of a whole
    /// snapshot of `costs.stored_bytes` bytes; both are equal except for absurdly large snapshots
    /// (`MOST` in `simulate.rs`).
    whole: u64,
    /// The time of the application's stream, in seconds.
    now: f64,
    /// What the next transfer of each lane waits for; by the number of the lane.
    conditions: [Condition; 5],
    lanes: Lanes,
    events: Vec<Reached>,
    traffic: Traffic,
    /// Seconds of transfers that the application's stream did itself.
    direct: f64,
    /// The times of the application's stream so far.
    tally: Simulation,
}

impl Clocks {
    /// Makes clocks that show 0. The tiers count `whole` bytes for a snapshot.
    pub fn new(costs: &Costs, whole: u64, timeline: Option<Timeline>) -> Self {
        Clocks {
            costs: costs.clone(),
            whole,
            now: 0.0,
            conditions: Default::default(),
            lanes: Lanes::new(costs.one_engine, timeline),
            events: Vec::new(),
            traffic: Traffic::default(),
            direct: 0.0,
            tally: Simulation::default(),
        }
    }

    /// The time of the application's stream, in seconds.
    pub fn now(&self) -> f64 {
        self.now
    }

    /// Seconds in which the application's stream has waited for transfers so far, without the
    /// seconds of transfers that the stream does itself.
    pub fn delays(&self) -> f64 {
        self.tally.waiting - self.direct
    }

    /// Lets the application compute for `seconds` seconds. The row says what.
    pub fn compute(&mut self, row: Row, seconds: f64) {
        self.tally.plan_ideal += seconds;
        self.pass(row, seconds);
    }

    /// Returns the times and the transferred bytes of the run so far, and its timeline.
    pub fn finish(&mut self) -> (Simulation, Timeline) {
        let Traffic { h2d_bytes, d2h_bytes, disk_bytes, disk_reads, disk_writes, .. } =
            self.traffic;
        let moved = |bytes: u64| {
            let bytes = u128::from(bytes) * u128::from(self.costs.moved_bytes);
            u64::try_from(bytes / u128::from(self.whole.max(1))).unwrap_or(u64::MAX)
        };
        let [h2d_bytes, d2h_bytes, disk_bytes] = [h2d_bytes, d2h_bytes, disk_bytes].map(moved);
        let mut run = std::mem::take(&mut self.tally);
        (run.makespan, run.disk_reads, run.disk_writes) = (self.now, disk_reads, disk_writes);
        (run.h2d_bytes, run.d2h_bytes, run.disk_bytes) = (h2d_bytes, d2h_bytes, disk_bytes);
        (run, self.lanes.timeline.take().unwrap_or_default())
    }

    fn pass(&mut self, row: Row, seconds: f64) {
        let begin = self.now;
        self.now += seconds;
        if let Some(timeline) = &mut self.lanes.timeline {
            timeline.add(row, begin, self.now);
        }
    }

    /// Makes the application's stream wait until the time `end`, in seconds.
    fn wait_until(&mut self, end: f64) {
        if end > self.now {
            self.tally.waiting += end - self.now;
            self.pass(Row::Stall, end - self.now);
        }
    }

    /// How long a transfer of an engine takes, and each of its chunks. A disk lane moves a snapshot in
    /// one piece.
    fn in_chunks(&self, engine: Lane, seconds: f64) -> Duration {
        let of_snapshot = match engine {
            Lane::Upload => self.costs.upload,
            Lane::Download => self.costs.download,
            _ => return Duration { seconds, chunk: f64::INFINITY },
        };
        let chunk = chunk_bytes() as f64 / self.costs.stored_bytes.max(1) as f64;
        Duration { seconds, chunk: of_snapshot * chunk }
    }

    /// The time at which an event is reached, in seconds.
    fn time_of(&mut self, event: Event) -> Result<f64> {
        match self.events[event.0] {
            Reached::At(time) => Ok(time),
            Reached::After(transfer) => self.lanes.end(transfer),
        }
    }
}

impl Device for Clocks {
    fn reserve(&mut self, _: Memory, _: u64) -> Result<()> {
        Ok(())
    }

    fn mount(&mut self, _: DiskSpace) -> Result<()> {
        Ok(())
    }

    fn enter(&mut self, _: Stream, _: &'static str) -> Result<()> {
        Ok(())
    }

    fn leave(&mut self) -> Result<f64> {
        Ok(0.0)
    }

    /// No memory is behind the address.
    fn pointer(&self, _: Place, _: u64) -> Result<*mut c_void> {
        Ok(std::ptr::null_mut())
    }

    fn move_in_pool(&mut self, _: u64, _: u64, _: u64) -> Result<()> {
        Ok(())
    }

    fn event(&mut self) -> Result<Event> {
        fallible_vec::push(&mut self.events, Reached::At(0.0))?;
        Ok(Event(self.events.len() - 1))
    }

    #[inline]
    fn copy(&mut self, lane: Lane, to: Place, from: Place, bytes: u64) -> Result<()> {
        let crossing = self.traffic.count(to, from, bytes);
        let of = |seconds: f64| match bytes == self.whole {
            true => seconds,
            false => seconds * (bytes as f64 / self.whole.max(1) as f64),
        };
        let (engine, seconds) = match (lane, crossing) {
            (Lane::DiskRead, _) => (lane, of(self.costs.disk_read)),
            (Lane::DiskWrite, _) => (lane, of(self.costs.disk_write)),
            (_, Crossing::ToDevice) => (Lane::Upload, of(self.costs.upload)),
            (_, Crossing::ToHost) => (Lane::Download, of(self.costs.download)),
            (_, Crossing::None) => (Lane::App, of(self.costs.copy)),
        };
        match (lane, engine) {
            (Lane::App, Lane::App) => {
                // The timeline has one row for copies on the device and calls of codecs.
                self.tally.copying += seconds;
                self.pass(Row::Codec, seconds);
            }
            (Lane::App, engine) => {
                let end = self.lanes.cut_in(engine, self.now, seconds)?;
                self.wait_until(end);
                self.direct += seconds;
            }
            (lane, _) => {
                let mut condition = std::mem::take(&mut self.conditions[lane as usize]);
                condition.issued = condition.issued.max(self.now);
                self.lanes.issue(lane, condition, self.in_chunks(engine, seconds))?;
            }
        }
        Ok(())
    }

    #[inline]
    fn record(&mut self, lane: Lane, event: Event) -> Result<()> {
        self.events[event.0] = match lane {
            Lane::App => Reached::At(self.now),
            lane => self.lanes.last(lane).map_or(Reached::At(0.0), Reached::After),
        };
        Ok(())
    }

    #[inline]
    fn wait(&mut self, lane: Lane, event: Event) -> Result<()> {
        match (lane, self.events[event.0]) {
            (Lane::App, _) => {
                let time = self.time_of(event)?;
                self.wait_until(time);
            }
            (lane, Reached::At(time)) => {
                let issued = &mut self.conditions[lane as usize].issued;
                *issued = issued.max(time);
            }
            (lane, Reached::After(transfer)) => self.conditions[lane as usize].and(transfer),
        }
        Ok(())
    }

    fn is_done(&mut self, event: Event) -> Result<bool> {
        Ok(self.time_of(event)? <= self.now)
    }

    fn finish(&mut self, event: Event) -> Result<()> {
        let time = self.time_of(event)?;
        self.wait_until(time);
        Ok(())
    }

    fn synchronize(&mut self) -> Result<()> {
        for lane in [Lane::Upload, Lane::Download, Lane::DiskRead, Lane::DiskWrite] {
            if let Some(last) = self.lanes.last(lane) {
                let end = self.lanes.end(last)?;
                self.wait_until(end);
            }
        }
        Ok(())
    }

    fn traffic(&self) -> Traffic {
        self.traffic
    }
}

impl Recorder for Clocks {
    fn begin_coding(&mut self, coding: Coding, share: f64) -> Result<()> {
        let seconds = share
            * match coding {
                Coding::Compress => self.costs.compress,
                Coding::Decompress => self.costs.decompress,
            };
        if coding == Coding::Compress {
            self.tally.compressing += seconds;
        }
        self.tally.coding += seconds;
        self.pass(Row::Codec, seconds);
        Ok(())
    }
}

impl Launcher for Clocks {}
