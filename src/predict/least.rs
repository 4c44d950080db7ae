//! The least delays of a plan: a run with nothing but the waits that come from the order of transfers.
//! It takes a fraction of the time of a simulation, and often shows that a plan is too slow.
//!
//! Each wait is one that the tiers make as well, and nothing takes longer than in a simulation, so that
//! no simulation has smaller delays. Left out are the disk, transfers that the application's stream
//! does itself in between, and the other direction on a device with one copy engine.

use super::costs::Costs;
use super::delays::Delays;
use crate::error::Result;
use crate::fallible_vec::filled;
use crate::plan::{Fetch, Index, Level, Plan, Step, NONE};

/// The largest amount, as a fraction of the time of the run, by which rounding errors may make the
/// delays larger than in a simulation.
pub(super) const ROUNDING: f64 = 1e-11;

/// A slot of the device cache. Times are in seconds.
#[derive(Clone, Copy, Default)]
struct Slot {
    /// The end of the upload into the slot, if a RESTORE has yet to wait for that upload; else 0.
    filled: f64,
    /// The end of the last download from the slot, if no other snapshot has taken the slot since; else 0.
    read: f64,
}

/// A run. Times are in seconds.
struct Playback<'a, const PARTS: usize> {
    plan: &'a Plan,
    costs: &'a Costs,
    /// The part of a state's bytes that each of its records has; a simulation rounds it to bytes.
    share: [f64; 2],
    /// The time of the application's stream.
    now: f64,
    delays: Delays,
    /// When the engine of each direction has ended its last transfer.
    uploads: f64,
    downloads: f64,
    slots: Vec<Slot>,
    /// The end of the last download into each pool slot.
    written: Vec<f64>,
    /// Compressed snapshots: the end of the last download from bytes of the cache that were freed.
    freed: f64,
    /// The fetches that are not issued yet.
    fetches: &'a [Fetch],
}

/// Returns a lower bound of the seconds that `plan`, a plan of this index, takes; 0 for a plan of a
/// kind that this module does not know. If transfers delay the application's stream by more than
/// `patience` seconds, returns an estimate of all delays, as a simulation that gives up does.
pub(super) fn least(
    index: &Index,
    plan: &Plan,
    costs: &Costs,
    patience: f64,
) -> Result<std::result::Result<f64, f64>> {
    // A plan of raw slots alone is one whose snapshots lanes code.
    let is_mixed = plan.raw_slots > 0 && plan.raw_slots < plan.cache;
    let is_known = index.is_one_by_one && !plan.zero_copy && !is_mixed && !plan.drops;
    if !is_known {
        return Ok(Ok(0.0));
    }
    match plan.in_levels {
        false => run::<1>(index, plan, costs, patience),
        true => run::<2>(index, plan, costs, patience),
    }
}

fn run<const PARTS: usize>(
    index: &Index,
    plan: &Plan,
    costs: &Costs,
    patience: f64,
) -> Result<std::result::Result<f64, f64>> {
    let own = costs.own_part();
    let mut run = Playback::<PARTS> {
        plan,
        costs,
        share: [own, 1.0 - own],
        now: 0.0,
        delays: Delays::default(),
        uploads: 0.0,
        downloads: 0.0,
        slots: filled(Slot::default(), plan.device_slots as usize)?,
        written: filled(0.0, plan.host_slots as usize)?,
        freed: 0.0,
        fetches: &plan.fetches,
    };
    // Time steps of the live state and of the next BACKWARD.
    let (mut live, mut backward) = (0, index.states as u32 - 1);
    let steps = plan.steps.as_chunks::<PARTS>().0;
    for ((number, access), steps) in (0..).zip(&index.accesses).zip(steps) {
        if access.save {
            run.now += costs.forward.sum(live..access.ts);
            run.save(steps);
        } else {
            run.now += costs.forward.sum(live..backward) + costs.backward.of(backward);
            backward -= 1;
            let before = run.delays.seconds;
            run.issue(|fetch| fetch.restore as usize / PARTS == number);
            run.restore(steps, plan.level_of(number), access.next == NONE);
            run.delays.count_restore(before);
        }
        run.issue(|fetch| fetch.issue_after as usize / PARTS <= number);
        live = access.ts;
        if run.delays.seconds > patience + ROUNDING * run.now {
            return Ok(Err(run.delays.in_all(plan)));
        }
    }
    Ok(Ok(run.now + costs.forward.sum(live..backward) + costs.backward.of(backward)))
}

impl<const PARTS: usize> Playback<'_, PARTS> {
    fn wait_until(&mut self, end: f64) {
        if end > self.now {
            self.delays.seconds += end - self.now;
            self.now = end;
        }
    }

    /// Another snapshot takes the slot. Returns the end of the download that the first operation in
    /// these bytes waits for.
    fn take(&mut self, slot: u32) -> f64 {
        let Slot { read, .. } = std::mem::take(&mut self.slots[slot as usize]);
        if !self.costs.compressed {
            return read;
        }
        self.freed = self.freed.max(read);
        self.freed
    }

    #[inline]
    fn save(&mut self, steps: &[Step; PARTS]) {
        let (costs, shares) = (self.costs, self.share);
        for (step, share) in steps.iter().zip(shares) {
            if step.slot != NONE || step.host != NONE {
                self.now += share * costs.compress;
            }
        }
        for (&Step { slot, host }, share) in steps.iter().zip(shares) {
            if slot != NONE {
                let read = self.take(slot);
                self.wait_until(read);
                self.now += share * costs.copy;
                if host != NONE {
                    self.downloads = self.downloads.max(self.now) + share * costs.download;
                    self.slots[slot as usize].read = self.downloads;
                    self.written[host as usize] = self.downloads;
                }
            } else if host != NONE {
                self.now += share * costs.download;
                self.written[host as usize] = 0.0;
            }
        }
    }

    #[inline]
    fn restore(&mut self, steps: &[Step; PARTS], level: Level, is_last: bool) {
        let costs = self.costs;
        for (&Step { slot, .. }, share) in steps.iter().zip(self.share) {
            if slot == NONE {
                self.now += share * (costs.upload + costs.decompress);
            } else {
                let filled = std::mem::take(&mut self.slots[slot as usize].filled);
                self.wait_until(filled);
                // Of the costs of a snapshot, one is 0: raw ones are copied, and coded ones are decoded.
                let copy = if costs.compressed { 0.0 } else { costs.copy };
                self.now += share * (copy + costs.decompress);
            }
        }
        // The previous level may be the record of another state, which stays.
        let own = if level == Level::Own { PARTS } else { 1 };
        for step in &steps[..own] {
            if is_last && costs.compressed && step.slot != NONE {
                self.take(step.slot);
            }
        }
    }

    /// Issues the uploads that are due.
    #[inline]
    fn issue(&mut self, is_due: impl Fn(&Fetch) -> bool) {
        while let Some((fetch, later)) = self.fetches.split_first().filter(|(next, _)| is_due(next))
        {
            self.fetches = later;
            let Step { slot, host } = self.plan.steps[fetch.restore as usize];
            let ready = self.take(slot).max(self.written[host as usize]).max(self.now);
            let (action, part) = (fetch.restore as usize / PARTS, fetch.restore as usize % PARTS);
            // A previous level that is shared comes with all of the record of the state before.
            let is_shared = part > 0 && self.plan.level_of(action) == Level::Shared;
            let share = self.share[if is_shared { 0 } else { part }];
            self.uploads = self.uploads.max(ready) + share * self.costs.upload;
            self.slots[slot as usize].filled = self.uploads;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Claims, Policy};
    use crate::predict::simulate::{simulate_within, Limit};
    use crate::predict::{simulate, Budgets, Times};
    use crate::schedule::Schedule;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// No simulation ends before its least time. Both are equal for raw snapshots if the
        /// application's stream does no transfer itself and each direction has an engine of its own. A
        /// simulation is given up if, and only if, the run takes the limit or longer.
        #[test]
        fn no_simulation_is_faster(
            n in 1u32..300, s in 1u32..40, m in 1u32..40, c in 1u32..12, cache in 0u32..12, through in 0u32..8,
            upload in 0f64..20.0, download in 0f64..20.0, op in 0f64..1.0, backward in 0f64..3.0,
            compressed: bool, one_engine: bool, is_lru: bool, limit in 0.5f64..1.5, parts in 1..3,
        ) {
            let op_of = |coded: bool| if coded == compressed { op } else { 0.0 };
            let costs = Costs {
                forward: Times::Parts(vec![1.0, 0.5, 2.0].into(), n),
                backward: Times::Each(backward),
                copy: op_of(false),
                compress: op_of(true),
                decompress: op_of(true) * 0.5,
                upload,
                download,
                compressed,
                one_engine,
                ..Costs::default()
            };
            let costs = match parts {
                1 => costs,
                _ => Costs { state_bytes: 4, stored_bytes: 4, slot_bytes: 4, previous_bytes: 1, ..costs },
            };
            let policy = if is_lru { Policy::Lru } else { Policy::Clairvoyant };
            let two_level = Schedule::two_level(n, n.div_ceil(m) + c, m, c);
            let nested = Schedule::hrevolve(n, s + c, m + 1, c);
            for schedule in [Schedule::revolve(n, s), Schedule::store_all(n), Schedule::uniform(n, s), Schedule::uniform_published(n, s), Schedule::zcut(n, 0, m), two_level, nested] {
                let schedule = schedule.unwrap().through(through);
                let index = Index::new(&schedule).unwrap();
                let plan = match parts {
                    1 => Plan::of(&index, cache, policy).unwrap(),
                    _ => Plan::of(&index.in_levels(Claims::All).unwrap(), cache, Policy::Clairvoyant).unwrap(),
                };
                let run = simulate(&schedule, &plan, &costs, Budgets::NONE).unwrap();
                let least = least(&index, &plan, &costs, f64::INFINITY).unwrap().unwrap();
                let about = |a: f64, b: f64| (a - b).abs() <= 1e-10 * b;
                prop_assert!(least <= run.makespan || about(least, run.makespan), "{least}, {} of {schedule:?}", run.makespan);
                let is_direct = |step: &Step| step.slot == NONE && step.host != NONE;
                if !compressed && !one_engine && !plan.steps.iter().any(is_direct) {
                    prop_assert!(about(least, run.makespan), "{least}, {} of {schedule:?}", run.makespan);
                }
                let limit = Limit { makespan: run.makespan * limit, stream: run.makespan - run.waiting };
                let within = simulate_within((&schedule, Some(&index)), &plan, &costs, Budgets::NONE, limit).unwrap();
                match within {
                    Ok(within) => prop_assert!(within == run && run.makespan < limit.makespan),
                    Err(_) => prop_assert!(run.makespan >= limit.makespan, "{limit:?}, {} of {schedule:?}", run.makespan),
                }
            }
        }
    }

    /// Nothing is known of online schedules, between whose RESTOREs a snapshot may be dropped.
    #[test]
    fn other_plans_have_no_bound() {
        let index = Index::new(&Schedule::online(50, 4, false).unwrap()).unwrap();
        let plan = Plan::of(&index, 2, Policy::Clairvoyant).unwrap();
        assert_eq!(least(&index, &plan, &Costs::default(), 0.0).unwrap().unwrap(), 0.0);
    }
}
