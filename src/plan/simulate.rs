//! The simulator: plays a plan against the cost model, event by event, as a session plays it against a device.
//!
//! One stream computes, copies and codes; one engine per direction moves snapshots; with a disk, one reads and one writes. The order is
//! the session's: a SAVE waits until its slot has been read, copies, and sends the snapshot on; a RESTORE waits for its transfer and copies;
//! after each event the transfers that are due are issued, each waiting for its engine, its slot and its snapshot. The schedule is
//! generated as it goes, so that a million steps need no more memory than their plan.

use super::costs::Costs;
use super::player::Player;
use super::timeline::Timeline;
use super::Plan;
use crate::error::{fail, Result};
use crate::schedule::{Kind, Schedule};

/// What the tiers may hold, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budgets {
    /// Device memory for slots.
    pub device: u64,
    /// Host memory for the pool.
    pub host: u64,
    /// Disk.
    pub disk: u64,
}

impl Budgets {
    /// No limits.
    pub const NONE: Budgets = Budgets { device: u64::MAX, host: u64::MAX, disk: u64::MAX };

    /// Host slots of `slot_bytes` that lie on disk where `slots` are needed: the first ones, which hold the snapshots that are needed
    /// least often, as far as host memory has no room. Two slots of memory for each direction then carry what passes through.
    pub fn on_disk(&self, slots: u32, slot_bytes: u64) -> u32 {
        let held = self.host / slot_bytes.max(1);
        if held >= slots as u64 {
            return 0;
        }
        slots - held.saturating_sub(STAGED) as u32
    }

    /// Snapshots of `slot_bytes` that host memory and disk hold together.
    pub fn slots_outside(&self, slot_bytes: u64) -> u32 {
        let slots = |bytes: u64| bytes / slot_bytes.max(1);
        let (host, disk) = (slots(self.host), slots(self.disk));
        let with_disk = if host >= STAGED { (host - STAGED).saturating_add(disk) } else { 0 };
        u32::try_from(host.max(with_disk)).unwrap_or(u32::MAX - 1)
    }

    /// Refuses a plan that needs more, and says what would do.
    pub fn check(&self, plan: &Plan, slot_bytes: u64) -> Result<()> {
        let bytes = |slots: u64| slots.saturating_mul(slot_bytes);
        let device = bytes(plan.device_slots as u64);
        if device > self.device {
            return fail!(
                Budget,
                "the plan needs {device} bytes of device memory, of which the budget has {}: raise it to that",
                self.device
            );
        }
        let (slots, host) = (plan.host_slots as u64, bytes(plan.host_slots as u64));
        let on_disk = self.on_disk(plan.host_slots, slot_bytes) as u64;
        let (memory, disk) = (bytes((slots - on_disk) + if on_disk > 0 { STAGED } else { 0 }), bytes(on_disk));
        if memory > self.host || disk > self.disk {
            return fail!(
                Budget,
                "the plan stores {slots} snapshots of {slot_bytes} bytes outside the device: the budgets are {} bytes of host memory and {} \
                 of disk; {host} bytes of host memory would do, or {} and {host} bytes of disk",
                self.host,
                self.disk,
                bytes(STAGED)
            );
        }
        Ok(())
    }
}

/// Host slots through which snapshots go to disk, and as many through which they come back, together.
pub(super) const STAGED: u64 = 4;

/// What a plan would take.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Simulation {
    /// Seconds of a sweep.
    pub makespan: f64,
    /// The ideal of the plan: the steps of its schedule alone.
    pub plan_ideal: f64,
    /// The ideal of the problem: n forward and n backward steps.
    pub problem_ideal: f64,
    /// Seconds that the stream copies snapshots.
    pub copying: f64,
    /// Seconds that it compresses and decompresses.
    pub coding: f64,
    /// Seconds of that that it compresses.
    pub compressing: f64,
    /// Seconds that it waits for transfers.
    pub waiting: f64,
    /// Seconds of all three in SAVEs; the rest is in RESTOREs.
    pub saving: f64,
    /// Transfers to the device and to the host, those on the stream included.
    pub h2d: u64,
    /// The same, to the host.
    pub d2h: u64,
    /// Snapshots read from disk.
    pub disk_reads: u64,
    /// Snapshots written to disk.
    pub disk_writes: u64,
    /// Bytes moved to the device.
    pub h2d_bytes: u64,
    /// Bytes moved to the host.
    pub d2h_bytes: u64,
    /// Bytes moved to and from disk.
    pub disk_bytes: u64,
    /// Restores that waited for a transfer issued before them.
    pub late: u64,
    /// The most device memory in use at any event, in bytes.
    pub device_peak: u64,
    /// The most host memory.
    pub host_peak: u64,
    /// The most disk.
    pub disk_peak: u64,
}

impl Simulation {
    /// Seconds that the application's stream is not its own: copying, coding and waiting.
    pub fn stall(&self) -> f64 {
        self.copying + self.coding + self.waiting
    }

    /// Makespan over the ideal of the plan.
    pub fn over_plan_ideal(&self) -> f64 {
        self.makespan / self.plan_ideal
    }

    /// Makespan over the ideal of the problem.
    pub fn over_problem_ideal(&self) -> f64 {
        self.makespan / self.problem_ideal
    }
}

/// Plays `plan`, which is one of `schedule`. A budget that it exceeds is an error that says what would do.
pub fn simulate(schedule: &Schedule, plan: &Plan, costs: &Costs, budgets: Budgets) -> Result<Simulation> {
    let (simulation, _) = play(schedule, plan, costs, budgets, None, f64::INFINITY)?.unwrap_or_default();
    Ok(simulation)
}

/// The same, and what was busy when.
pub fn simulate_timeline(schedule: &Schedule, plan: &Plan, costs: &Costs, budgets: Budgets) -> Result<(Simulation, Timeline)> {
    let timeline = Some(Timeline::default());
    Ok(play(schedule, plan, costs, budgets, timeline, f64::INFINITY)?.unwrap_or_default())
}

/// The same, but `None` as soon as waiting alone takes longer than `patience` seconds.
pub(super) fn simulate_within(
    schedule: &Schedule,
    plan: &Plan,
    costs: &Costs,
    budgets: Budgets,
    patience: f64,
) -> Result<Option<Simulation>> {
    Ok(play(schedule, plan, costs, budgets, None, patience)?.map(|(simulation, _)| simulation))
}

fn play(
    schedule: &Schedule,
    plan: &Plan,
    costs: &Costs,
    budgets: Budgets,
    timeline: Option<Timeline>,
    patience: f64,
) -> Result<Option<(Simulation, Timeline)>> {
    let mut player = Player::new(plan, costs, budgets, timeline)?;
    for action in schedule.actions() {
        player.act(action);
        if action.kind == Kind::Error || player.is_full() {
            return fail!(Memory, "no memory to predict the run time of the plan: take fewer time steps or snapshots");
        }
        if player.tally.waiting > patience {
            return Ok(None);
        }
    }
    Ok(Some(player.finish(costs.problem_ideal(schedule.steps))))
}

#[cfg(test)]
#[path = "simulate_tests.rs"]
mod tests;
