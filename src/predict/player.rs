//! The application's stream and the tiers of a simulated run.

use super::budgets::{Budgets, STAGED};
use super::costs::Costs;
use super::lanes::{Lane, Lanes, Transfer};
use super::simulation::Simulation;
use super::timeline::{Row, Timeline};
use crate::error::Result;
use crate::fallible_vec::filled;
use crate::plan::{spare_bytes, Issued, Moment, Plan, Step, NONE};
use crate::schedule::{flags, Action, Kind};

/// A device slot: the download that reads the slot and the upload that fills the slot, as long as a
/// SAVE or a RESTORE has yet to wait for that transfer.
#[derive(Clone, Copy, Default)]
struct Slot {
    read: Option<Transfer>,
    filled: Option<Transfer>,
}

pub(super) struct Player<'a> {
    plan: &'a Plan,
    costs: &'a Costs,
    budgets: Budgets,
    /// Host slots with a smaller number are on disk.
    on_disk: u32,
    /// The time of the application's stream in seconds, the number of the next step of the plan,
    /// and the transfers that are issued already.
    now: f64,
    event: usize,
    issued: Issued,
    slots: Vec<Slot>,
    /// The transfer that last wrote each host slot.
    written: Vec<Option<Transfer>>,
    /// Compressed snapshots: the last download from bytes of the cache that were freed since.
    freed: Option<Transfer>,
    /// The uploads of the latest snapshots from disk, by the number of the disk read modulo the
    /// length.
    passed_on: [Option<Transfer>; (STAGED / 2) as usize],
    lanes: Lanes,
    pub tally: Simulation,
}

impl<'a> Player<'a> {
    pub fn new(
        plan: &'a Plan,
        costs: &'a Costs,
        budgets: Budgets,
        timeline: Option<Timeline>,
    ) -> Result<Self> {
        budgets.check(plan, costs.slot_bytes)?;
        Ok(Player {
            plan,
            costs,
            budgets,
            on_disk: budgets.on_disk(plan.host_slots, costs.slot_bytes),
            now: 0.0,
            event: 0,
            issued: Issued::default(),
            slots: filled(Slot::default(), plan.device_slots as usize)?,
            written: filled(None, plan.host_slots as usize)?,
            freed: None,
            passed_on: Default::default(),
            lanes: Lanes::new(
                [costs.upload, costs.download, costs.disk_read, costs.disk_write],
                timeline,
            ),
            tally: Simulation::default(),
        })
    }

    pub fn act(&mut self, action: Action) {
        match action.kind {
            Kind::Forward => {
                if action.flags & flags::NEXT_IS_SAVE != 0 && self.plan.zero_copy {
                    let begin = self.now;
                    self.await_read(self.plan.steps[self.event].slot);
                    self.tally.saving += self.now - begin;
                }
                let row = if action.flags & flags::RECOMPUTE != 0 {
                    Row::Recompute
                } else {
                    Row::Forward
                };
                self.compute(row, self.costs.forward.of(action.ts - 1));
            }
            Kind::Backward => self.compute(Row::Backward, self.costs.backward.of(action.ts)),
            Kind::Save => {
                let begin = self.now;
                self.event(action, Self::save);
                self.tally.saving += self.now - begin;
            }
            Kind::Restore => self.event(action, Self::restore),
            Kind::Terminate | Kind::Error => {}
        }
    }

    /// Plays a SAVE or RESTORE, and then issues the transfers that are due after it.
    fn event(&mut self, action: Action, body: fn(&mut Self, Step, Action)) {
        let step = self.plan.steps[self.event];
        self.occupy(step);
        body(self, step, action);
        self.issue(Moment::After(self.event));
        self.event += 1;
    }

    /// Raises the peaks of memory and disk. A budget is never exceeded.
    fn occupy(&mut self, step: Step) {
        let bytes = |slots: u32| u64::from(slots).saturating_mul(self.costs.slot_bytes);
        let tally = &mut self.tally;
        if step.slot != NONE {
            tally.device_peak = tally.device_peak.max(bytes(step.slot + 1));
        }
        if step.host != NONE && step.host < self.on_disk {
            tally.disk_peak = tally.disk_peak.max(bytes(step.host + 1));
        } else if step.host != NONE {
            let staged = if self.on_disk > 0 { STAGED as u32 } else { 0 };
            tally.host_peak = tally.host_peak.max(bytes(step.host + 1 - self.on_disk + staged));
        }
        debug_assert!(
            tally.device_peak <= self.budgets.device && tally.host_peak <= self.budgets.host
        );
        debug_assert!(
            tally.disk_peak <= self.budgets.disk
                && (step.slot == NONE || step.slot < self.plan.cache)
        );
    }

    fn pass(&mut self, row: Row, seconds: f64) {
        let begin = self.now;
        self.now += seconds;
        if let Some(timeline) = &mut self.lanes.timeline {
            timeline.add(row, begin, self.now);
        }
    }

    fn compute(&mut self, row: Row, seconds: f64) {
        self.tally.plan_ideal += seconds;
        self.pass(row, seconds);
    }

    fn copy(&mut self) {
        if !self.plan.zero_copy {
            self.tally.copying += self.costs.copy;
            self.pass(Row::Codec, self.costs.copy);
        }
    }

    fn code(&mut self, seconds: f64) {
        self.tally.coding += seconds;
        self.pass(Row::Codec, seconds);
    }

    /// Makes the application's stream wait until the time `end`, in seconds.
    fn wait_until(&mut self, end: f64) {
        if end > self.now {
            self.tally.waiting += end - self.now;
            self.pass(Row::Stall, end - self.now);
        }
    }

    fn wait_for(&mut self, transfer: Option<Transfer>) {
        if let Some(transfer) = transfer {
            let end = self.lanes.end(transfer);
            self.wait_until(end);
        }
    }

    /// Makes the application's stream wait until the download from a slot that is to be overwritten
    /// has ended.
    fn await_read(&mut self, slot: u32) {
        if let Some(slot) = self.slots.get_mut(slot as usize) {
            let read = slot.read.take();
            self.wait_for(read);
        }
    }

    fn save(&mut self, step: Step, _: Action) {
        if step.slot == NONE && step.host == NONE {
            return;
        }
        self.tally.compressing += self.costs.compress;
        self.code(self.costs.compress);
        let staged =
            (step.host != NONE && step.host < self.on_disk).then(|| self.staged()).flatten();
        if step.slot == NONE {
            self.wait_for(staged);
            let end = self.lanes.cut_in(Lane::Download, self.now);
            self.wait_until(end);
            self.tally.d2h += 1;
            self.written[step.host as usize] = self.write_on(step.host, None);
            return;
        }
        if self.costs.compressed {
            self.free(step.slot);
            self.wait_for(self.freed);
        } else if !self.plan.zero_copy {
            self.await_read(step.slot);
        }
        self.copy();
        if step.host != NONE {
            self.write_back(step, staged);
        }
    }

    /// Issues the transfer of a snapshot from its cache slot to its place in host memory or on
    /// disk.
    fn write_back(&mut self, step: Step, staged: Option<Transfer>) {
        let download = self.lanes.issue(Lane::Download, self.now, [staged, None]);
        self.tally.d2h += 1;
        self.slots[step.slot as usize].read = Some(download);
        self.written[step.host as usize] =
            self.write_on(step.host, Some(download)).or(Some(download));
    }

    /// The disk write that must end before the next snapshot on its way to disk has a host slot.
    fn staged(&self) -> Option<Transfer> {
        let number = self.lanes.issued(Lane::DiskWrite).checked_sub(STAGED as u32 / 2)?;
        Some(Transfer { lane: Lane::DiskWrite, number })
    }

    fn write_on(&mut self, host: u32, after: Option<Transfer>) -> Option<Transfer> {
        (host < self.on_disk).then(|| {
            self.tally.disk_writes += 1;
            self.lanes.issue(Lane::DiskWrite, self.now, [after, None])
        })
    }

    fn restore(&mut self, step: Step, action: Action) {
        self.issue(Moment::Restore(self.event));
        if let Some(slot) = self.slots.get_mut(step.slot as usize) {
            let filled = slot.filled.take();
            let waited = self.tally.waiting;
            self.wait_for(filled);
            self.tally.late += u64::from(self.tally.waiting > waited);
        } else {
            let source = self.read_from(step.host).or(self.written[step.host as usize]);
            self.wait_for(source);
            let end = self.lanes.cut_in(Lane::Upload, self.now);
            self.wait_until(end);
            self.tally.h2d += 1;
        }
        if self.costs.compressed {
            self.code(self.costs.decompress);
            if action.flags & flags::LAST_USE != 0 && step.slot != NONE {
                self.free(step.slot);
            }
        } else if step.slot != NONE {
            self.copy();
        }
    }

    /// Frees the bytes of a slot's compressed snapshot.
    fn free(&mut self, slot: u32) {
        let later = |a: Transfer, b: Transfer| if a.number > b.number { a } else { b };
        self.freed = match (self.freed, self.slots[slot as usize].read.take()) {
            (Some(a), Some(b)) => Some(later(a, b)),
            (a, b) => a.or(b),
        };
    }

    /// Issues the disk read of a snapshot into host memory, if the snapshot is on disk. The read
    /// waits until the snapshot before the last one has left host memory.
    fn read_from(&mut self, host: u32) -> Option<Transfer> {
        (host < self.on_disk).then(|| {
            self.tally.disk_reads += 1;
            let read = self.lanes.issued(Lane::DiskRead) as usize;
            let staged = self.passed_on[read % self.passed_on.len()].take();
            self.lanes.issue(Lane::DiskRead, self.now, [self.written[host as usize], staged])
        })
    }

    /// Issues the transfers that are due at `moment`, in the plan's order.
    fn issue(&mut self, moment: Moment) {
        while let Some(fetch) = self.issued.due(self.plan, moment) {
            self.fetch(self.plan.steps[fetch.event as usize]);
        }
    }

    /// Issues the upload of a RESTORE's snapshot into its slot.
    fn fetch(&mut self, step: Step) {
        let from_disk = self.read_from(step.host);
        let read = if self.costs.compressed {
            self.free(step.slot);
            self.freed
        } else {
            self.slots[step.slot as usize].read.take()
        };
        let upload = self.lanes.issue(
            Lane::Upload,
            self.now,
            [from_disk.or(self.written[step.host as usize]), read],
        );
        if let Some(read) = from_disk {
            self.passed_on[read.number as usize % self.passed_on.len()] = Some(upload);
        }
        self.tally.h2d += 1;
        self.slots[step.slot as usize].filled = Some(upload);
    }

    /// Whether a transfer was left out for lack of memory. The prediction is then wrong.
    pub fn is_full(&self) -> bool {
        self.lanes.is_full
    }

    pub fn finish(mut self, problem_ideal: f64) -> (Simulation, Timeline) {
        let stored = self.costs.stored_bytes;
        let tally = &mut self.tally;
        (tally.makespan, tally.problem_ideal) = (self.now, problem_ideal);
        (tally.h2d_bytes, tally.d2h_bytes) =
            (tally.h2d.saturating_mul(stored), tally.d2h.saturating_mul(stored));
        tally.disk_bytes = (tally.disk_reads + tally.disk_writes).saturating_mul(stored);
        let spare = spare_bytes(self.plan.zero_copy, self.costs.state_bytes);
        tally.device_peak = tally.device_peak.saturating_add(spare);
        (self.tally, self.lanes.timeline.unwrap_or_default())
    }
}
