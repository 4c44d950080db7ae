use super::*;
use crate::choice::published;
use crate::plan::{Plan, Policy};
use crate::predict::{simulate, Budgets, Costs};
use std::cell::Cell;
use std::time::Instant;

/// Costs in units of a forward step: `transfer` is the time of a snapshot on the link in one
/// direction, `op` the time of the copy of a SAVE or RESTORE, or of the codec.
fn balance(transfer: f64, op: f64, compressed: bool) -> Costs {
    let (copy, code) = if compressed { (0.0, op) } else { (op, 0.0) };
    Costs {
        copy,
        compress: code,
        decompress: code,
        upload: transfer,
        download: transfer,
        compressed,
        ..Costs::default()
    }
}

/// Tiers with `cache` and `host` slots of one byte.
fn tiers(costs: Costs, cache: u32, host: u32) -> TierSpec {
    let budgets = Budgets { device: cache as u64, host: host as u64, disk: 0 };
    let (policy, zero_copy, packed_bytes, beside_cache, shared) =
        (Policy::Clairvoyant, false, None, 0, None);
    TierSpec {
        slot_bytes: 1,
        cache: Some(cache),
        host: Some(host),
        policy,
        zero_copy,
        packed_bytes,
        beside_cache,
        costs,
        budgets,
        shared,
    }
}

fn best(steps: u32, tiers: TierSpec) -> Candidate {
    search(steps, u32::MAX, &[vec![tiers]], Keep::Best).unwrap().swap_remove(0)
}

/// Predicted time of a schedule with a policy, over the ideal time of the problem.
fn over_ideal(schedule: &Schedule, tiers: &TierSpec, policy: Policy) -> f64 {
    let plan = Plan::new(schedule, tiers.cache.unwrap(), policy).unwrap();
    simulate(schedule, &plan, &tiers.costs, Budgets::NONE).unwrap().over_problem_ideal()
}

/// The costs of a V100 behind PCIe 3 for GPUZIP 2.x's Salt model, n = 3751: raw snapshots, and
/// codecs of three ratios. The best plan and GPUZIP's two recipes run in the same simulator with
/// the same bytes in each tier. GPUZIP's Revolve takes 8 snapshots.
#[test]
fn the_best_plan_is_ahead_of_the_published_recipes() {
    let n = 3751;
    for (transfer, op, compressed, cache, host, most, revolve, uniform) in [
        (12.0, 0.48, false, 4, 149, 2.46, 1.95, 2.9),
        (3.0, 0.85, true, 16, 596, 2.24, 1.75, 1.25),
        (0.8, 0.5, true, 60, 2235, 1.61, 2.25, 1.0),
        (0.24, 0.3, true, 200, 3750, 1.32, 2.7, 1.0),
    ] {
        let tiers = tiers(balance(transfer, op, compressed), cache, host);
        let ours = best(n, tiers.clone()).simulation.over_problem_ideal();
        let recipes = published(n, &tiers).unwrap();
        let [gpuzip_revolve, gpuzip_uniform] =
            [0, 1].map(|k| recipes[k].simulation.over_problem_ideal());
        assert_eq!((recipes[0].schedule.snapshots, recipes[1].schedule.snapshots), (8, host));
        println!(
            "{transfer}: {ours:.4}, {:.3} and {:.3} ahead",
            gpuzip_revolve / ours,
            gpuzip_uniform / ours
        );
        assert!(ours <= most, "{ours}");
        assert!(gpuzip_revolve / ours >= revolve, "{ours} and {gpuzip_revolve}");
        assert!(gpuzip_uniform / ours >= uniform, "{ours} and {gpuzip_uniform}");
    }
}

/// The search with its bounds and patience misses nothing: no schedule of the portfolio and none
/// with parameters between is better when all are simulated to their end.
#[test]
fn no_schedule_of_any_family_is_better() {
    for (n, transfer, op, compressed, cache, host) in [
        (200, 12.0, 0.48, false, 3, 30),
        (200, 3.0, 0.85, true, 6, 60),
        (150, 1.0, 0.3, false, 1, 140),
        (97, 5.0, 0.2, false, 0, 40),
        (60, 8.0, 0.5, false, 10, 0),
    ] {
        let tiers = tiers(balance(transfer, op, compressed), cache, host);
        let ours = best(n, tiers.clone()).simulation.over_problem_ideal();
        let most = (cache + host).min(n - 1);
        let mut all = portfolio(n, most, cache).unwrap();
        assert!(all.len() > 20);
        for member in &all {
            assert!(over_ideal(member, &tiers, Policy::Clairvoyant) >= ours - 1e-12, "{member:?}");
        }
        all.clear();
        for s in 1..=most {
            all.extend([Schedule::revolve(n, s).unwrap(), Schedule::uniform(n, s).unwrap()]);
        }
        for chunk in 2..n {
            let starts = n.div_ceil(chunk) - 1;
            all.extend(
                (1..chunk.min(most.saturating_sub(starts) + 1))
                    .map(|c| Schedule::two_level(n, starts + c, chunk, c).unwrap()),
            );
        }
        let least = all
            .iter()
            .map(|s| over_ideal(s, &tiers, Policy::Clairvoyant))
            .fold(f64::INFINITY, f64::min);
        println!("n = {n}: {ours} beside {least} of {} schedules", all.len());
        assert!(ours <= 1.01 * least, "n = {n}: {ours} beside {least} of {} schedules", all.len());
    }
}

/// No plan is faster than its lower bound.
#[test]
fn no_plan_beats_its_bound() {
    for (transfer, op, compressed) in [(12.0, 0.48, false), (3.0, 0.85, true), (0.5, 0.0, false)] {
        for cache in [0, 1, 2, 5, 12] {
            let tiers = tiers(balance(transfer, op, compressed), cache, 100);
            for schedule in portfolio(120, 60, cache).unwrap() {
                let makespan = over_ideal(&schedule, &tiers, Policy::Clairvoyant) * 240.0;
                let bound = bound(&schedule, &tiers).unwrap();
                assert!(
                    bound.makespan <= makespan * (1.0 + 1e-12),
                    "{bound:?}, {makespan}: {schedule:?} through {cache} slots"
                );
                assert!(bound.stream <= bound.makespan);
            }
        }
    }
}

thread_local! {
    /// Number of schedules that this thread has planned.
    pub(super) static ATTEMPTS: Cell<u32> = const { Cell::new(0) };
}

/// A search for 10,000 steps plans and simulates only a few of its schedules; each takes some 2 ms
/// (`make bench` has the time).
#[test]
fn few_schedules_are_simulated() {
    for (transfer, op, compressed, cache, host) in [
        (12.0, 0.48, false, 4, 397),
        (3.0, 0.85, true, 16, 1589),
        (0.8, 0.5, true, 60, 5960),
        (20.0, 0.8, false, 2, 40),
        (1.5, 0.8, false, 40, 100),
    ] {
        let tiers = tiers(balance(transfer, op, compressed), cache, host);
        let (before, begin) = (ATTEMPTS.get(), Instant::now());
        let best = best(10_000, tiers.clone());
        let attempts = ATTEMPTS.get() - before;
        let all = portfolio(10_000, (cache + host).min(9999), cache).unwrap().len();
        println!(
            "{:?}, {attempts} of {all}: {:?} {}",
            begin.elapsed(),
            best.schedule,
            best.simulation.over_problem_ideal()
        );
        assert!(attempts <= 160 && all > 150, "{attempts} of {all}");
    }
}

#[test]
fn equal_inputs_give_equal_plans() {
    let tiers = tiers(balance(12.0, 0.48, false), 4, 60);
    let (a, b) = (best(1500, tiers.clone()), best(1500, tiers));
    assert_eq!(format!("{:?}", a.schedule), format!("{:?}", b.schedule));
    assert_eq!((a.simulation, &a.plans[0].steps), (b.simulation, &b.plans[0].steps));
}

/// The slowest session counts, and a plan that fits one session need not fit the other.
#[test]
fn sessions_in_lockstep_share_the_schedule() {
    let (small, large) =
        (tiers(balance(12.0, 0.48, false), 2, 20), tiers(balance(3.0, 0.48, false), 20, 300));
    let both = search(300, u32::MAX, &[vec![small.clone(), large.clone()]], Keep::Best)
        .unwrap()
        .swap_remove(0);
    assert_eq!(both.plans.len(), 2);
    assert!(both.plans[0].host_slots <= 20 && both.plans[1].cache == 20);
    let alone = best(300, small);
    assert!(both.simulation.makespan >= alone.simulation.makespan);
    assert!(best(300, large).simulation.makespan < alone.simulation.makespan);
}

#[test]
fn families_are_ranked() {
    let raw = vec![tiers(balance(12.0, 0.48, false), 4, 60)];
    let coded = vec![tiers(balance(3.0, 0.85, true), 16, 240)];
    let ranked = search(1000, u32::MAX, &[raw.clone(), coded], Keep::Families).unwrap();
    assert!(ranked.windows(2).all(|w| w[0].simulation.makespan <= w[1].simulation.makespan));
    let mut families: Vec<_> =
        ranked.iter().map(|c| (c.alternative, c.schedule.algorithm.name())).collect();
    assert!(families.len() >= 8, "{families:?}");
    families.sort();
    families.dedup();
    assert_eq!(families.len(), ranked.len());
    assert_eq!(ranked[0].alternative, 1, "a quarter of the bytes beats the codec's time");
    let alone = search(1000, u32::MAX, &[raw], Keep::Best).unwrap();
    assert_eq!(alone.len(), 1);
    assert!(ranked.iter().any(|c| c.alternative == 0 && c.simulation == alone[0].simulation));
}

#[test]
fn budgets_without_room_are_an_error_that_says_the_least() {
    let error = search(100, u32::MAX, &[vec![tiers(balance(1.0, 0.1, false), 0, 0)]], Keep::Best)
        .unwrap_err();
    assert!(error.message.contains("one snapshot has 1 bytes"), "{error}");
}
