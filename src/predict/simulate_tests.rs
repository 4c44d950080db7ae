use super::*;
use crate::plan::{Claims, Index, Policy};
use crate::predict::{Row, Times};
use proptest::prelude::*;

/// Costs in units of a forward step, for snapshots of one byte.
fn costs(transfer: f64, copy: f64, backward: f64) -> Costs {
    Costs {
        backward: Times::Each(backward),
        copy,
        upload: transfer,
        download: transfer,
        ..Costs::default()
    }
}

fn played(schedule: &Schedule, cache: u32, policy: Policy, costs: &Costs) -> Simulation {
    let plan = Plan::new(schedule, cache, policy).unwrap();
    simulate(schedule, &plan, costs, Budgets::NONE).unwrap()
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * b.abs().max(1.0)
}

/// Compares run times with those of an independent simulator of the same model, which has its own
/// replacement policy.
#[test]
fn makespans_equal_those_of_another_implementation() {
    use Policy::{Clairvoyant, Lru};
    let revolve = |n, s| Schedule::revolve(n, s).unwrap();
    let published = |s| Schedule::uniform_published(3751, s).unwrap();
    let (two_level, zcut, all) = (
        Schedule::two_level(3751, 148, 26, 4),
        Schedule::zcut(3751, 0, 35),
        Schedule::store_all(3751),
    );
    let (two_level, zcut, all) = (two_level.unwrap(), zcut.unwrap(), all.unwrap());
    let short = Schedule::two_level(3751, 477, 8, 8).unwrap();
    let rows = [
        (&revolve(3751, 8), 2, Clairvoyant, costs(3.0, 0.48, 1.0), 28394.84),
        (&revolve(3751, 8), 2, Clairvoyant, costs(12.0, 0.48, 1.0), 38488.52),
        (&revolve(3751, 8), 4, Clairvoyant, costs(3.0, 0.48, 1.0), 27647.80),
        (&revolve(3751, 8), 4, Clairvoyant, costs(12.0, 0.48, 1.0), 29247.36),
        (&revolve(3751, 8), 6, Clairvoyant, costs(3.0, 0.48, 1.0), 27626.68),
        (&revolve(3751, 8), 6, Clairvoyant, costs(12.0, 0.48, 1.0), 27761.80),
        (&revolve(3751, 8), 60, Lru, costs(0.8, 0.5, 1.0), 27736.0),
        (&published(149), 4, Lru, costs(12.0, 0.48, 1.0), 54698.52),
        (&published(596), 16, Lru, costs(3.0, 0.85, 1.0), 21180.1),
        (&published(2235), 60, Lru, costs(0.8, 0.5, 1.0), 12008.5),
        (&two_level, 4, Clairvoyant, costs(12.0, 0.48, 1.0), 18277.32),
        (&short, 16, Clairvoyant, costs(3.0, 0.85, 1.0), 16754.2),
        (&zcut, 8, Clairvoyant, costs(5.0, 0.2, 1.0), 32002.2),
        (&all, 200, Clairvoyant, costs(0.24, 0.3, 1.0), 9751.0),
        (&revolve(1000, 20), 8, Clairvoyant, costs(2.0, 0.5, 2.5), 6131.0),
        (&revolve(4000, 40), 8, Clairvoyant, costs(1.5, 0.1, 1.0), 15810.8),
    ];
    for (schedule, cache, policy, costs, expected) in rows {
        let makespan = played(schedule, cache, policy, &costs).makespan;
        assert!(
            near(makespan, expected),
            "{makespan} beside {expected}: {schedule:?}, {cache} slots, {policy:?}"
        );
    }
}

#[test]
fn without_transfers_only_steps_and_copies_count() {
    for (n, s) in [(1u32, 1u32), (2, 1), (100, 7), (1000, 10)] {
        let schedule = Schedule::revolve(n, s).unwrap();
        let s = schedule.accesses().unwrap() as f64;
        let found =
            played(&schedule, schedule.snapshots, Policy::Clairvoyant, &costs(12.0, 0.5, 2.0));
        let steps = schedule.forward_steps() as f64 + 2.0 * n as f64;
        assert!(
            near(found.makespan, steps + 0.5 * s) && near(found.plan_ideal, steps),
            "{found:?}"
        );
        assert!(near(found.stall(), 0.5 * s) && found.waiting == 0.0 && found.h2d + found.d2h == 0);
        assert!(near(found.problem_ideal, 3.0 * n as f64));
        assert!(near(found.over_plan_ideal(), found.makespan / steps));
    }
}

#[test]
fn without_a_cache_every_transfer_is_waited_for() {
    let schedule = Schedule::revolve(500, 9).unwrap();
    let found = played(&schedule, 0, Policy::Clairvoyant, &costs(3.0, 0.5, 1.0));
    assert!(
        near(
            found.makespan,
            schedule.forward_steps() as f64 + 500.0 + 3.0 * schedule.accesses().unwrap() as f64
        ),
        "{found:?}"
    );
    assert_eq!(
        (found.h2d, found.d2h, found.device_peak, found.host_peak),
        (499, schedule.accesses().unwrap() - 499, 0, 9)
    );
}

/// One slot, and steps that take no time: all downloads follow one another, and then all uploads.
#[test]
fn a_busy_link_sets_the_pace() {
    let n = 50;
    let mut costs = costs(2.0, 0.0, 0.0);
    costs.forward = Times::Each(0.0);
    let found = played(&Schedule::store_all(n).unwrap(), 1, Policy::Clairvoyant, &costs);
    assert!(
        near(found.makespan, 2.0 * 2.0 * (n - 2) as f64) && near(found.waiting, found.makespan),
        "{found:?}"
    );
    assert_eq!((found.h2d, found.d2h), (48, 48));
}

/// If steps are long enough, they hide every transfer.
#[test]
fn long_steps_hide_all_transfers() {
    let schedule = Schedule::zcut(400, 0, 20).unwrap();
    let found = played(&schedule, 21, Policy::Clairvoyant, &costs(0.9, 0.1, 1.0));
    assert!(found.waiting == 0.0 && found.h2d > 15, "{found:?}");
}

/// Times of parts are those of the steps in them, in every sum.
#[test]
fn parts_take_the_time_of_their_steps() {
    for steps in [1u32, 2, 5, 40, 97] {
        for count in [1usize, 2, 3, 7, 40, 97, 150] {
            let parts: Vec<f64> = (0..count).map(|k| 1.0 + ((k * 7) % 5) as f64).collect();
            let of = Times::Parts(parts.clone().into(), steps);
            let each: Vec<f64> =
                (0..steps as usize).map(|ts| parts[ts * count / steps as usize]).collect();
            let single = Times::Parts(each.clone().into(), steps);
            for ts in 0..=steps {
                assert!(ts == steps || of.of(ts) == single.of(ts), "{steps} {count} {ts}");
                assert!(near(of.total(ts), single.total(ts)), "{steps} {count} {ts}");
            }
            assert!(of.least() <= single.least());
            if steps >= count as u32 {
                assert_eq!(of.least(), single.least());
            }
        }
    }
}

/// A macro-step takes as long as its time steps, and the last one is shorter.
#[test]
fn macro_steps_take_the_time_of_their_steps() {
    for (n, k) in [(30, 4), (28, 4), (3, 4), (30, 1), (1, 9)] {
        let macro_steps = crate::schedule::MacroSteps::new(k, n);
        let schedule = Schedule::revolve(macro_steps.count(), 2).unwrap();
        let plan = Plan::new(&schedule, 2, Policy::Clairvoyant).unwrap();
        let weights: Vec<f64> = (0..n).map(|ts| 1.0 + f64::from(ts * ts % 11)).collect();
        let uneven = Costs {
            forward: Times::Parts(weights.clone().into(), n),
            backward: Times::Parts(weights.iter().map(|w| 2.0 * w).collect(), n),
            ..costs(3.0, 0.2, 1.0)
        };
        for (costs, weight) in [(costs(3.0, 0.2, 2.0), None), (uneven, Some(weights))] {
            let seconds = |ts: u32| weight.as_ref().map_or(1.0, |weights| weights[ts as usize]);
            let (mut forward, mut backward) = (0.0, 0.0);
            for (action, end) in schedule.clone().in_macro_steps(macro_steps).ranges(false) {
                match action.kind {
                    crate::schedule::Kind::Forward => forward += seconds(action.ts - 1),
                    crate::schedule::Kind::Backward => {
                        backward += (action.ts..=end).map(|ts| 2.0 * seconds(ts)).sum::<f64>()
                    }
                    _ => {}
                }
            }
            let costs = costs.in_macro_steps(macro_steps);
            costs.check(schedule.steps).unwrap();
            let found = simulate(&schedule, &plan, &costs, Budgets::NONE).unwrap();
            assert!(near(found.plan_ideal, forward + backward), "{found:?}");
            let problem: f64 = (0..n).map(|ts| 3.0 * seconds(ts)).sum();
            assert!(near(found.problem_ideal, problem), "{found:?}");
            // No FORWARD of the schedule is faster than `least`, and one is as fast.
            let least = (0..schedule.steps.max(2) - 1).map(|i| costs.forward.of(i));
            assert!(near(costs.forward.least(), least.fold(f64::INFINITY, f64::min)));
        }
    }
}

#[test]
fn steps_may_differ() {
    let n = 30u32;
    let schedule = Schedule::revolve(n, 4).unwrap();
    let mut uneven = costs(3.0, 0.2, 1.0);
    uneven.forward = Times::Parts(vec![1.0; n as usize].into(), n);
    uneven.backward = Times::Parts(vec![1.0; n as usize].into(), n);
    assert_eq!(
        played(&schedule, 2, Policy::Clairvoyant, &uneven),
        played(&schedule, 2, Policy::Clairvoyant, &costs(3.0, 0.2, 1.0))
    );
    let weights: Vec<f64> = (0..n).map(|ts| 1.0 + ts as f64).collect();
    uneven.forward = Times::Parts(weights.clone().into(), n);
    let expected: f64 = schedule
        .actions()
        .filter(|a| a.kind == crate::schedule::Kind::Forward)
        .map(|a| a.ts as f64)
        .sum();
    let found = played(&schedule, 4, Policy::Clairvoyant, &uneven);
    assert!(
        near(found.plan_ideal, expected + n as f64)
            && near(found.problem_ideal, weights.iter().sum::<f64>() + n as f64),
        "{found:?}"
    );
    uneven.check(n).unwrap();
    uneven.copy = f64::NAN;
    assert!(uneven.check(n).is_err());
}

/// Each snapshot on disk is written once and read once. A slow disk determines the run time; a fast
/// disk costs nothing.
#[test]
fn what_host_memory_cannot_hold_goes_to_disk() {
    let schedule = Schedule::two_level(400, 43, 10, 4).unwrap();
    let plan = Plan::new(&schedule, 4, Policy::Clairvoyant).unwrap();
    let budgets = Budgets { device: 4, host: 20, disk: 1000 };
    let at = |seconds: f64| {
        let costs = Costs { disk_read: seconds, disk_write: seconds, ..costs(2.0, 0.1, 1.0) };
        simulate(&schedule, &plan, &costs, budgets).unwrap()
    };
    let (memory, quick, slow) =
        (played(&schedule, 4, Policy::Clairvoyant, &costs(2.0, 0.1, 1.0)), at(1e-9), at(100.0));
    assert_eq!((quick.disk_peak, quick.host_peak), (plan.host_slots as u64 - 16, 20));
    assert_eq!((quick.disk_writes, quick.disk_reads), (quick.disk_peak, quick.disk_peak));
    assert!(
        (quick.makespan / memory.makespan - 1.0).abs() < 1e-3,
        "{} beside {}",
        quick.makespan,
        memory.makespan
    );
    assert!(slow.makespan > 100.0 * (slow.disk_writes + slow.disk_reads) as f64 * 0.9, "{slow:?}");
}

#[test]
fn budgets_that_do_not_do_are_an_error_that_says_what_would() {
    let schedule = Schedule::revolve(300, 12).unwrap();
    let plan = Plan::new(&schedule, 4, Policy::Clairvoyant).unwrap();
    let costs = Costs { slot_bytes: 100, ..costs(1.0, 0.0, 1.0) };
    let refused = |device, host, disk| {
        simulate(&schedule, &plan, &costs, Budgets { device, host, disk }).unwrap_err().to_string()
    };
    assert!(
        refused(399, 800, 0).contains("needs 400 bytes of device memory"),
        "{}",
        refused(399, 800, 0)
    );
    assert!(
        refused(400, 799, 0)
            .contains("800 bytes of host memory would do, or 400 and 800 bytes of disk"),
        "{}",
        refused(400, 799, 0)
    );
    assert!(refused(400, 300, 10_000).contains("would do"));
    for (host, disk) in [(800, 0), (400, 800), (700, 500)] {
        let found =
            simulate(&schedule, &plan, &costs, Budgets { device: 400, host, disk }).unwrap();
        assert!(
            found.device_peak <= 400 && found.host_peak <= host && found.disk_peak <= disk,
            "{found:?}"
        );
    }
}

/// A SAVE or RESTORE without a cache slot moves its snapshot itself while snapshots are on their way
/// to disk and back, and engines wait for one another.
#[test]
fn snapshots_pass_by_the_cache_while_others_move_to_disk() {
    let schedule = Schedule::revolve(60, 20).unwrap();
    let index = Index::new(&schedule).unwrap();
    let costs = Costs { disk_read: 4.0, disk_write: 5.0, ..costs(3.0, 0.1, 1.0) };
    for (cache, zero_copy) in [(0, false), (1, true), (2, true), (3, true), (1, false), (3, false)]
    {
        let plan = match zero_copy {
            true => Plan::handing_over(&index, cache).unwrap(),
            false => Plan::of(&index, cache, Policy::Clairvoyant).unwrap(),
        };
        let budgets = Budgets { device: 5, host: 6, disk: 1000 };
        let found = simulate(&schedule, &plan, &costs, budgets).unwrap();
        assert!(found.disk_writes > 0 && found.disk_reads > 0, "{found:?}");
        assert_eq!((found.h2d, found.d2h), (plan.counts.h2d, plan.counts.d2h));
        let moved = found.disk_reads as f64 * 4.0;
        assert!(found.makespan > moved.max(found.plan_ideal), "{found:?}");
    }
}

/// Consecutive snapshots that share a time level move half of their bytes, and what moves takes its
/// part of the time.
#[test]
fn shared_time_levels_are_neither_copied_nor_moved() {
    let schedule = Schedule::store_all(40).unwrap();
    let index = Index::new(&schedule).unwrap();
    let whole = Costs { state_bytes: 8, stored_bytes: 8, slot_bytes: 8, ..costs(4.0, 1.0, 1.0) };
    let halves = Costs { slot_bytes: 4, previous_bytes: 4, ..whole.clone() };
    let at = |plan: &Plan, costs: &Costs| simulate(&schedule, plan, costs, Budgets::NONE).unwrap();
    let plain = at(&Plan::new(&schedule, 5, Policy::Clairvoyant).unwrap(), &whole);
    let levels = index.in_levels(Claims::All).unwrap();
    let plan = Plan::of(&levels, 5, Policy::Clairvoyant).unwrap();
    let shared = at(&plan, &halves);
    // u(0) has no snapshot before it, and each of the few snapshots in the cache may lose its
    // neighbour to the host.
    assert!(shared.d2h_bytes <= plain.d2h_bytes / 2 + 4 * 6, "{shared:?} beside {plain:?}");
    assert!(shared.h2d_bytes <= plain.h2d_bytes, "{shared:?} beside {plain:?}");
    assert!(shared.copying < 0.8 * plain.copying && shared.makespan <= plain.makespan);
    let disk = Budgets { host: 20, disk: 1000, ..Budgets::NONE };
    let on_disk = simulate(&schedule, &plan, &halves, disk).unwrap();
    assert!(on_disk.disk_writes > 0 && on_disk.disk_bytes <= 2 * shared.d2h_bytes, "{on_disk:?}");
}

/// Snapshots of any size are priced alike, even if the tiers had more bytes than there are numbers.
#[test]
fn absurd_sizes_are_priced_as_others() {
    let schedule = Schedule::store_all(40).unwrap();
    let index = Index::new(&schedule).unwrap();
    let plan = |kind: u64| match kind {
        2 => Plan::of(&index.in_levels(Claims::All).unwrap(), 5, Policy::Clairvoyant).unwrap(),
        _ => Plan::of(&index, 5, Policy::Clairvoyant).unwrap(),
    };
    for kind in 0..3 {
        let at = |bytes: u64| {
            let sized = Costs { state_bytes: bytes, stored_bytes: bytes, ..costs(4.0, 1.0, 1.0) };
            let costs = match kind {
                1 => Costs { compressed: true, compress: 0.5, decompress: 0.25, ..sized },
                2 => Costs { previous_bytes: bytes / 2, ..sized },
                _ => sized,
            };
            simulate(&schedule, &plan(kind), &costs, Budgets::NONE).unwrap()
        };
        let small = at(4096);
        for bytes in [1 << 31, 1 << 60, u64::MAX - 1] {
            let found = at(bytes);
            assert!((found.makespan / small.makespan - 1.0).abs() < 1e-6, "{found:?} {small:?}");
            let whole = small.h2d_bytes / 4096;
            assert!(found.h2d_bytes / (bytes / 16) >= (16 * whole).min(15), "{found:?}");
        }
    }
}

/// Plans and plays a million steps.
#[test]
fn a_million_steps() {
    let begin = std::time::Instant::now();
    let schedule = Schedule::revolve(1_000_000, 100).unwrap();
    let plan = Plan::new(&schedule, 8, Policy::Clairvoyant).unwrap();
    let found = simulate(&schedule, &plan, &costs(3.0, 0.2, 1.0), Budgets::NONE).unwrap();
    println!("{:?}", begin.elapsed());
    assert_eq!(found.h2d, plan.counts.h2d);
    assert!(near(found.plan_ideal, 3_817_896.0 + 1e6), "{found:?}");
    assert!(found.makespan >= found.h2d as f64 * 3.0);
}

#[test]
fn an_application_in_the_slots_copies_nothing() {
    let schedule = Schedule::revolve(200, 8).unwrap();
    let index = Index::new(&schedule).unwrap();
    let plan = Plan::handing_over(&index, 8).unwrap();
    let found = simulate(&schedule, &plan, &costs(0.0, 0.5, 1.0), Budgets::NONE).unwrap();
    assert_eq!((found.copying, found.waiting), (0.0, 0.0));
    assert_eq!(found.device_peak, plan.device_slots as u64);
    let one = Plan::handing_over(&index, 1).unwrap();
    let found = simulate(&schedule, &one, &costs(0.0, 0.5, 1.0), Budgets::NONE).unwrap();
    assert_eq!(found.device_peak, 1 + 2, "one slot and two spare ones");
}

proptest! {
    /// The busy seconds of all rows add up to the run. No row overlaps itself, and the stream is
    /// always in one row.
    #[test]
    fn timelines_account_for_every_second(n in 1u32..150, s in 1u32..20, cache in 0u32..8, transfer in 0.0f64..9.0, copy in 0.0f64..1.0,
                                          lru in any::<bool>(), compressed in any::<bool>(), host in 4u64..20) {
        let costs = Costs { compressed, compress: if compressed { 0.3 } else { 0.0 }, decompress: if compressed { 0.2 } else { 0.0 },
                            disk_read: 1.0, disk_write: 2.0, ..costs(transfer, copy, 1.5) };
        let policy = if lru { Policy::Lru } else { Policy::Clairvoyant };
        for schedule in [Schedule::revolve(n, s), Schedule::uniform(n, s), Schedule::uniform_published(n, s), Schedule::zcut(n, 0, s)] {
            let schedule = schedule.unwrap();
            let plan = Plan::new(&schedule, cache, policy).unwrap();
            let budgets = Budgets { device: cache as u64, host, disk: 1 << 20 };
            let (found, timeline) = simulate_timeline(&schedule, &plan, &costs, budgets).unwrap();
            prop_assert_eq!(&found, &simulate(&schedule, &plan, &costs, budgets).unwrap());
            let sum = |rows: &[Row]| rows.iter().map(|&row| timeline.busy(row)).sum::<f64>();
            prop_assert!(near(sum(&[Row::Forward, Row::Recompute, Row::Backward]), found.plan_ideal));
            prop_assert!(near(timeline.busy(Row::Codec), found.copying + found.coding) && near(timeline.busy(Row::Stall), found.waiting));
            prop_assert!(near(found.plan_ideal + found.stall(), found.makespan));
            prop_assert!(timeline.busy(Row::H2d) <= found.h2d as f64 * transfer + 1e-6);
            prop_assert!(near(timeline.busy(Row::DiskRead), found.disk_reads as f64));
            for row in Row::ALL {
                prop_assert!(timeline.row(row).windows(2).all(|w| w[0].1 <= w[1].0 + 1e-9), "{:?}", row);
            }
            prop_assert_eq!((found.h2d, found.d2h), (plan.counts.h2d, plan.counts.d2h));
            prop_assert!(found.device_peak <= budgets.device && found.host_peak <= host);
            prop_assert!(found.makespan >= found.plan_ideal && found.plan_ideal >= found.problem_ideal - 1.0 - 1e-9);
        }
    }

    /// A link that costs nothing is never slower, and a link ten times as slow is never faster.
    #[test]
    fn a_free_link_is_the_quickest(n in 2u32..200, s in 1u32..20, cache in 1u32..8, transfer in 0.0f64..9.0) {
        let schedule = Schedule::revolve(n, s).unwrap();
        let at = |transfer| played(&schedule, cache, Policy::Clairvoyant, &costs(transfer, 0.3, 1.0)).makespan;
        prop_assert!(at(0.0) <= at(transfer) && at(transfer) <= at(10.0 * transfer + 1.0));
    }
}

/// In a trace whose snapshots form no stack, half of the RESTOREs find no slot. They read from the host
/// beside the prefetches, and wait for one chunk of a prefetch instead of for all of it. A transfer takes
/// 16 forward steps: a raw snapshot of two time levels behind PCIe 4.
#[test]
fn a_restore_that_is_needed_now_overtakes_prefetches_at_the_end_of_a_chunk() {
    let mut draws = (1u32..).map(|k| k.wrapping_mul(2_654_435_761) >> 7);
    let mut draw = move || draws.next().unwrap();
    let (mut sum, mut best) = (0.0, 0.0f64);
    let traces = 200;
    for _ in 0..traces {
        let (n, cache) = (20 + draw() % 200, 1 + draw() % 8);
        let seeds: Vec<u32> = (0..400).map(|_| draw()).collect();
        let trace = crate::plan::tests::random_trace(n, &seeds);
        let schedule = Schedule::trace(trace.into());
        let makespan = |bytes: u64| {
            let of = costs(16.0, 0.8, 2.5);
            let costs = Costs { state_bytes: bytes, stored_bytes: bytes, slot_bytes: bytes, ..of };
            played(&schedule, cache, Policy::Clairvoyant, &costs).makespan
        };
        let (whole, chunks) = (makespan(1 << 20), makespan(1 << 30));
        assert!(chunks <= whole * (1.0 + 1e-9), "{chunks} in chunks, {whole} in one piece");
        sum += 1.0 - chunks / whole;
        best = best.max(1.0 - chunks / whole);
    }
    let mean = sum / f64::from(traces);
    println!("{:.2} % less time, at best {:.2} %", 100.0 * mean, 100.0 * best);
    assert!(mean > 0.005 && best > 0.03, "{mean}, {best}");
}
