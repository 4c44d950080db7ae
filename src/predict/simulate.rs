//! The simulator plays a plan against the cost model, action by action, as a session plays the plan
//! against a device: the same tiers play the plan, on a device whose lanes are clocks (`Clocks`).
//!
//! One stream computes, copies and codes. One engine per direction moves snapshots; with a disk,
//! one more engine reads and one writes.
//!
//! The schedule is generated during the simulation, so that a million steps need no more memory
//! than their plan.

use super::budgets::Budgets;
use super::clocks::Clocks;
use super::costs::{Costs, Times};
use super::delays::Delays;
use super::least::{least, ROUNDING};
use super::simulation::Simulation;
use super::timeline::{Row, Timeline};
use crate::device::AppMemory;
use crate::error::Result;
use crate::layout::{Field, Layout, Part, Parts, Previous};
use crate::plan::{spare_bytes, Index, Plan};
use crate::scalar::Scalar;
use crate::schedule::{flags, Action, Kind, Schedule};
use crate::tier::{staging_bytes, SnapshotCoder, Storage, Sums, Tiers};
use std::ops::Range;

/// Plays `plan`, which must be a plan of `schedule`. Fails if the plan exceeds a budget; the error
/// text says which budgets would be enough.
pub fn simulate(
    schedule: &Schedule,
    plan: &Plan,
    costs: &Costs,
    budgets: Budgets,
) -> Result<Simulation> {
    let run = Playback::new(plan, costs, budgets, None)?;
    Ok(run.play(schedule, f64::INFINITY)?.unwrap_or_default().0)
}

/// As `simulate`, and also returns when each part of the machine was busy.
pub fn simulate_timeline(
    schedule: &Schedule,
    plan: &Plan,
    costs: &Costs,
    budgets: Budgets,
) -> Result<(Simulation, Timeline)> {
    let run = Playback::new(plan, costs, budgets, Some(Timeline::default()))?;
    Ok(run.play(schedule, f64::INFINITY)?.unwrap_or_default())
}

/// What a plan must keep so that its simulation goes on to the end, in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    /// The run takes less than this.
    pub makespan: f64,
    /// A lower bound of the time of the application's stream without delays by transfers.
    pub stream: f64,
}

/// As `simulate`, but gives up as soon as it is certain that the run takes the limit or longer, which
/// the schedule's index, if there is one, often shows before the simulation begins. Returns the run, or
/// an estimate of its seconds, at least the limit.
pub(crate) fn simulate_within(
    (schedule, index): (&Schedule, Option<&Index>),
    plan: &Plan,
    costs: &Costs,
    budgets: Budgets,
    Limit { makespan, stream }: Limit,
) -> Result<std::result::Result<Simulation, f64>> {
    let patience = makespan - stream;
    let too_slow = |delays: f64| makespan.max(stream + delays);
    let about = index.map_or(Ok(Ok(0.0)), |index| least(index, plan, costs, patience))?;
    match about {
        Err(delays) => return Ok(Err(too_slow(delays))),
        Ok(about) if about * (1.0 - ROUNDING) >= makespan => return Ok(Err(about)),
        Ok(_) => {}
    }
    let run = Playback::new(plan, costs, budgets, None)?;
    Ok(match run.play(schedule, patience)? {
        Err(delays) => Err(too_slow(delays)),
        Ok((run, _)) if run.makespan >= makespan => Err(run.makespan),
        Ok((run, _)) => Ok(run),
    })
}

/// A simulated run.
struct Playback<'a> {
    plan: &'a Plan,
    costs: &'a Costs,
    budgets: Budgets,
    tiers: Tiers<&'a Plan, Clocks>,
    fields: Vec<AppMemory>,
    /// Host slots with a smaller number are on disk.
    on_disk: u32,
    /// The next step of the plan, and whether the application has begun to compute its state where
    /// the snapshot lies (zero copy).
    plan_step: usize,
    is_begun: bool,
    /// Time steps that the clocks have not counted yet: their row, and their seconds.
    pending: (Row, f64),
    delays: Delays,
    /// What the simulated device does not count.
    tally: Simulation,
}

impl<'a> Playback<'a> {
    fn new(
        plan: &'a Plan,
        costs: &'a Costs,
        budgets: Budgets,
        timeline: Option<Timeline>,
    ) -> Result<Self> {
        budgets.check(plan, costs.raw_slot_bytes, costs.slot_bytes)?;
        // Tiers of any number of slots have fewer than 2^64 bytes if a snapshot has at most `MOST`.
        // With mixed storage the tiers also hold raw states; else a state takes the bytes of a
        // snapshot.
        let is_mixed = plan.raw_slots > 0 && costs.compressed;
        let of_state = if is_mixed { costs.state_bytes } else { costs.stored_bytes };
        let bytes = of_state.min(MOST);
        let scaled = |of: u64| match bytes == of_state {
            true => of,
            false => (of as f64 * (bytes as f64 / of_state as f64)) as u64,
        };
        let previous = costs.previous_bytes as f64 / costs.state_bytes.max(1) as f64;
        let previous_bytes = match costs.compressed {
            true => (bytes as f64 * previous) as u64,
            false => scaled(costs.previous_bytes).min(bytes),
        };
        let stored = if is_mixed { scaled(costs.stored_bytes).max(1) } else { bytes };
        let clocks = Box::new(Clocks::new(costs, stored, timeline));
        let field =
            |bytes: u64| Field { n: [bytes, 1, 1], scalar: Scalar::Byte, previous_of: None };
        let own = bytes - previous_bytes;
        let fields = if plan.in_levels { vec![own, previous_bytes] } else { vec![bytes] };
        let layout = Layout {
            fields: fields.iter().copied().map(field).collect(),
            bytes: fields.clone(),
            offsets: if plan.in_levels { vec![0, own] } else { vec![0] },
            raw_bytes: bytes,
            slot_bytes: bytes,
        };
        // SAFETY: nothing reads or writes the memory of a field: the simulated device copies
        // nothing.
        let memory = |bytes: u64| unsafe { AppMemory::new(std::ptr::null_mut(), bytes as usize) };
        let fields = fields.into_iter().map(memory).collect();
        let part =
            |(field, &bytes): (usize, &u64)| Part { fields: vec![field], offsets: vec![0], bytes };
        let previous = Previous { field: 1, later: 0, at: 0 };
        let parts = Parts {
            parts: layout.bytes.iter().enumerate().map(part).collect(),
            previous: Vec::from_iter(plan.in_levels.then_some(previous)),
        };
        let of_parts = if plan.in_levels { [own, previous_bytes] } else { [stored, 0] };
        let coder = costs.compressed.then_some(SnapshotCoder::Assumed { bytes: of_parts });
        let storage = Storage { parts, coder, sums: plan.in_levels.then_some(Sums::Absent) };
        // Every snapshot finds room: the number of slots says how many fit.
        let mut tiers = Tiers::new(clocks, layout, plan, storage, ROOM, ROOM)?;
        let on_disk = budgets.on_disk(plan.host_slots, costs.slot_bytes);
        if on_disk > 0 {
            tiers.use_disk(on_disk, stored, ROOM)?;
        }
        Ok(Playback {
            plan,
            costs,
            budgets,
            tiers,
            fields,
            on_disk,
            plan_step: 0,
            is_begun: false,
            pending: (Row::Forward, 0.0),
            delays: Delays::default(),
            tally: Simulation::default(),
        })
    }

    /// Plays all actions of the schedule. Gives up as soon as transfers have delayed the application's
    /// stream by more than `patience` seconds, and then returns about how many seconds the delays would
    /// be in all. Transfers that the stream does itself do not count.
    fn play(
        mut self,
        schedule: &Schedule,
        patience: f64,
    ) -> Result<std::result::Result<(Simulation, Timeline), f64>> {
        let mut actions = schedule.actions();
        while let Some(action) = actions.next() {
            // FORWARDs that are like this one are played with it.
            let more = if action.kind == Kind::Forward { actions.skip_like(action) } else { 0 };
            self.act(action, more)
                .map_err(|e| e.within(format_args!("predicting the run time of a plan")))?;
            if self.delays.seconds > patience {
                return Ok(Err(self.delays.in_all(self.plan)));
            }
        }
        Ok(Ok(self.finish(schedule)))
    }

    /// Plays an action, and `more` FORWARD actions after it.
    fn act(&mut self, action: Action, more: u32) -> Result<()> {
        match action.kind {
            Kind::Forward => {
                if action.flags & flags::NEXT_IS_SAVE != 0 && self.plan.zero_copy {
                    let begin = self.pass_pending();
                    self.begin_save((action.ts + more).into())?;
                    self.count_save(begin);
                }
                let is_repeated = action.flags & flags::RECOMPUTE != 0;
                let row = if is_repeated { Row::Recompute } else { Row::Forward };
                self.compute(row, &self.costs.forward, action.ts - 1..action.ts + more);
            }
            Kind::Backward => {
                let step = action.ts..action.ts + 1;
                self.compute(Row::Backward, &self.costs.backward, step);
            }
            Kind::Save => {
                let begin = self.pass_pending();
                self.save(action.ts as i64)?;
                self.count_save(begin);
                self.plan_step += 1;
            }
            Kind::Restore => {
                self.pass_pending();
                self.restore(action)?;
                self.plan_step += 1;
            }
            Kind::Terminate => drop(self.pass_pending()),
            Kind::Error => action.check_memory()?,
        }
        Ok(())
    }

    /// Lets the application compute the steps ts -> ts+1 for each ts of `steps`, after those that
    /// it has computed so far.
    fn compute(&mut self, row: Row, times: &Times, steps: Range<u32>) {
        if row != self.pending.0 {
            self.pass_pending();
            self.pending.0 = row;
        }
        self.pending.1 += times.sum(steps);
    }

    /// Lets the time of the steps so far pass on the device. Returns the time of the application's
    /// stream afterwards, in seconds.
    fn pass_pending(&mut self) -> f64 {
        let seconds = std::mem::take(&mut self.pending.1);
        let clocks = self.tiers.device();
        clocks.compute(self.pending.0, seconds);
        clocks.now()
    }

    /// Counts the time since `begin`, in seconds, in which a part of a SAVE was played.
    fn count_save(&mut self, begin: f64) {
        let clocks = self.tiers.device();
        self.tally.saving += clocks.now() - begin;
        self.delays.seconds = clocks.delays();
    }

    fn begin_save(&mut self, ts: i64) -> Result<()> {
        self.is_begun = true;
        self.tiers.begin_save(self.plan_step, ts)
    }

    fn save(&mut self, ts: i64) -> Result<()> {
        if !self.plan.zero_copy {
            self.tiers.save(self.plan_step, ts, &self.fields)?;
        } else {
            if !self.is_begun {
                self.begin_save(ts)?;
            }
            self.is_begun = false;
            self.tiers.commit_save(self.plan_step, ts)?;
        }
        self.tiers.saved().for_each(drop);
        Ok(())
    }

    fn restore(&mut self, action: Action) -> Result<()> {
        let (ts, last) = (action.ts as i64, action.flags & flags::LAST_USE != 0);
        let restored = if self.plan.zero_copy {
            self.tiers.acquire(self.plan_step, ts, last)?
        } else {
            self.tiers.restore(self.plan_step, ts, last, &self.fields)?
        };
        self.tally.h2d += u64::from(restored.moved);
        self.tally.late += u64::from(restored.late);
        self.delays.count_restore(self.delays.seconds);
        self.delays.seconds = self.tiers.device().delays();
        Ok(())
    }

    fn finish(mut self, schedule: &Schedule) -> (Simulation, Timeline) {
        let (mut run, timeline) = self.tiers.device().finish();
        let (plan, costs, tally) = (self.plan, self.costs, self.tally);
        let (parts, state) = (plan.parts() as u32, costs.state_bytes);
        run.problem_ideal = costs.problem_ideal(schedule.steps, schedule.sweeps());
        (run.saving, run.h2d, run.late) = (tally.saving, tally.h2d, tally.late);
        run.d2h = plan.counts.d2h;
        // The peaks are those of the slots with the highest numbers. `NONE` becomes 0.
        let (mut device, mut host, mut disk) = (0, 0, 0);
        for step in &plan.steps {
            let [slot, place] = [step.slot, step.host].map(|number| number.wrapping_add(1));
            (device, host) = (device.max(slot), host.max(place));
            disk = disk.max(if place > self.on_disk { 0 } else { place });
        }
        let bytes = |slots: u32| u64::from(slots).saturating_mul(costs.slot_bytes);
        run.disk_peak = bytes(disk);
        if host > self.on_disk {
            let staged = if self.on_disk > 0 { staging_bytes(costs.slot_bytes) } else { 0 };
            run.host_peak = bytes(host - self.on_disk).saturating_add(staged);
        }
        let slots = plan.bytes_of_slots(device, costs.raw_slot_bytes, costs.slot_bytes);
        let Budgets { device: most_device, host: most_host, disk: most_disk } = self.budgets;
        debug_assert!(slots <= most_device && run.host_peak <= most_host);
        debug_assert!(run.disk_peak <= most_disk);
        let spare = spare_bytes(plan.zero_copy, costs.compressed, parts, plan.cache, state);
        run.device_peak = slots.saturating_add(spare);
        (run, timeline)
    }
}

/// The most bytes of a snapshot that the simulated tiers count with.
const MOST: u64 = 1 << 29;

/// Bytes of the device cache and of the host pool of the simulated device: more than any snapshots
/// take.
const ROOM: u64 = 1 << 62;

#[cfg(test)]
#[path = "simulate_tests.rs"]
mod tests;
