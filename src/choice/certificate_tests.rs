use super::*;
use crate::choice::tier_spec::tests::{of_slots, with_disk};
use crate::choice::{search, Keep};
use crate::predict::simulate;
use crate::schedule::{Action, Kind, Trace};
use std::sync::Arc;

/// Tiers with `cache` and `host` slots of one byte; `link` is the time of a transfer, `copy` that of
/// the copy of a SAVE or RESTORE, in forward steps.
fn tiers(link: f64, copy: f64, cache: u32, host: u32) -> TierSpec {
    of_slots(Costs { copy, upload: link, download: link, ..Costs::default() }, cache, host)
}

/// All ways to reverse `len` states: the advances of a way in the order in which they are made.
fn ways(len: u32, known: &mut Vec<Vec<Vec<u32>>>) -> Vec<Vec<u32>> {
    while known.len() <= len as usize {
        let len = known.len() as u32;
        let mut found = if len < 2 { vec![vec![]] } else { Vec::new() };
        for j in 1..len {
            for upper in &known[(len - j) as usize] {
                for lower in &known[j as usize] {
                    found.push([&[j][..], upper, lower].concat());
                }
            }
        }
        known.push(found);
    }
    known[len as usize].clone()
}

fn schedule_of(steps: u32, advances: &[u32]) -> Schedule {
    let mut actions = Vec::new();
    let mut act = |kind, ts| actions.push(Action { kind, ts, flags: 0 });
    let mut advances = advances.iter();
    let mut ranges = vec![(0, steps, false)];
    while let Some((base, len, is_stored)) = ranges.pop() {
        if is_stored {
            act(Kind::Restore, base);
        }
        if len == 1 {
            act(Kind::Backward, base);
            continue;
        }
        if !is_stored {
            act(Kind::Save, base);
        }
        let j = *advances.next().unwrap();
        (base + 1..=base + j).for_each(|ts| act(Kind::Forward, ts));
        ranges.extend([(base, j, true), (base + j, len - j, false)]);
    }
    act(Kind::Terminate, 0);
    Schedule::trace(Arc::new(Trace::new(actions, Some(steps)).unwrap()))
}

/// The shortest time of all ways to reverse `steps` states, each with its clairvoyant plan.
fn exhaustive(steps: u32, tiers: &TierSpec, known: &mut Vec<Vec<Vec<u32>>>) -> f64 {
    let time = |advances: &Vec<u32>| {
        let schedule = schedule_of(steps, advances);
        let plan = tiers.plan_for(&schedule, &[]).ok()?;
        Some(simulate(&schedule, &plan, &tiers.costs, tiers.budgets).unwrap().makespan)
    };
    ways(steps, known).iter().filter_map(time).fold(f64::INFINITY, f64::min)
}

/// Returns what draws random numbers: each call with `n` returns one below `n`.
fn drawing(seed: u64) -> impl FnMut(u32) -> u32 {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    move |n: u32| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32 % n
    }
}

fn seed() -> u64 {
    std::env::var("GPUZIP_TEST_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1)
}

/// Compares the least time of all schedules of `steps` states with the bound and with the plan that is
/// found. Returns the three.
fn compared(steps: u32, tiers: TierSpec, known: &mut Vec<Vec<Vec<u32>>>, what: &str) -> [f64; 3] {
    let least = exhaustive(steps, &tiers, known);
    let found = search(steps, u32::MAX, &[vec![tiers.clone()]], Keep::Best).unwrap();
    let certificate = certify(steps, &[vec![tiers]], &found[0], 1 << 40).unwrap();
    let found = found[0].simulation.makespan;
    let bound = certificate.seconds;
    assert!(certificate.has_transfers, "{what}");
    assert!(bound <= least * (1.0 + 1e-9), "{what}: the bound {bound} is above {least}");
    let best = certificate.better.map_or(found, |better| better.simulation.makespan);
    assert!(best >= least * (1.0 - 1e-9), "{what}: {best} is less than the least, {least}");
    if best / least > 1.02 {
        println!("{what}: {best} beside {least}");
    }
    [bound, least, best]
}

/// For random small problems: no schedule of all that store snapshots as a stack is faster than the
/// bound. The search is optimal among them in most cases, and never far from it.
#[test]
fn small_problems_are_solved_and_bounded() {
    let (cases, longest) = crate::cases::cases((40, 9), (300, 11));
    let (seed, mut known) = (seed(), Vec::new());
    let mut draw = drawing(seed);
    let (mut optimal, mut worst, mut tightest) = (0, 1.0f64, f64::INFINITY);
    for _ in 0..cases {
        let (steps, cache, host) = (7 + draw(longest - 6), 1 + draw(4), draw(9));
        let link = [0.5, 1.0, 2.0, 4.0, 8.0, 16.0][draw(6) as usize];
        let copy = f64::from(draw(6)) / 10.0;
        let what = format!("seed {seed}: n {steps}, C {cache}, H {host}, X {link}, op {copy}");
        let tiers = tiers(link, copy, cache, host);
        let [bound, least, best] = compared(steps, tiers, &mut known, &what);
        optimal += u32::from(best <= least * (1.0 + 1e-9));
        worst = worst.max(best / least);
        tightest = tightest.min(least / bound);
    }
    println!("seed {seed}: {optimal} of {cases} optimal, at worst {worst}; the bound is at best {tightest} below");
    assert!(optimal * 100 >= cases * 85 && worst <= 1.05, "{optimal} of {cases}, {worst}");
}

/// As `small_problems_are_solved_and_bounded`, with a disk.
#[test]
fn small_problems_with_a_disk_are_bounded() {
    let (cases, longest) = crate::cases::cases((30, 10), (200, 11));
    let (seed, mut known) = (seed(), Vec::new());
    let mut draw = drawing(seed + 1);
    let (mut optimal, mut helped) = (0, 0);
    for _ in 0..cases {
        let (steps, cache, host) = (longest - draw(3), 1 + draw(2), 4 + draw(3));
        let mut time = || [0.05f64, 0.25, 0.5, 1.0, 2.0, 4.0][draw(6) as usize];
        let [link, disk_read, disk_write, copy] = [time(), time(), time(), time().min(0.5)];
        let what = format!(
            "seed {seed}: n {steps}, C {cache}, host {host}, X {link}, read {disk_read}, write {disk_write}, op {copy}"
        );
        let in_memory = tiers(link, copy, cache, host);
        let costs = Costs { disk_read, disk_write, ..in_memory.costs.clone() };
        let with = with_disk(TierSpec { costs, ..in_memory.clone() }, host, 5 + draw(6));
        let [bound, least, best] = compared(steps, with, &mut known, &what);
        let [_, without, _] = compared(steps, in_memory, &mut known, &what);
        assert!(bound <= least && least <= without, "{what}: {bound}, {least} and {without}");
        optimal += u32::from(best <= least * (1.0 + 1e-9));
        helped += u32::from(least < without * (1.0 - 1e-9));
    }
    println!("seed {seed}: {optimal} of {cases} optimal; the disk helps {helped}");
    assert!(helped * 4 >= cases, "{helped} of {cases}");
}

/// Problems with few host slots, with the best time over the ideal that was known for each: of
/// nested schedules with even intervals, of the schedules of a dynamic program like that of
/// `Priced`, or of schedules that store all starts of intervals. Three problems need the schedules of
/// the dynamic program; for these the bound that is proven is given, too.
#[test]
fn few_host_slots_are_used_well() {
    for (n, cache, host, link, copy, backward, known, bound) in [
        (3751, 2, 30, 12.0, 0.48, 1.0, 2.970, 0.0),
        (3751, 4, 30, 12.0, 0.0, 1.0, 2.239, 0.0),
        (3751, 4, 30, 12.0, 0.48, 1.0, 2.527, 2.34),
        (10_000, 4, 60, 12.0, 0.48, 1.0, 2.561, 0.0),
        (3751, 4, 60, 12.0, 0.48, 1.0, 2.488, 0.0),
        (6000, 4, 8, 17.2, 0.33, 2.0, 2.495, 2.38),
        (3751, 4, 15, 12.0, 0.48, 1.0, 2.888, 0.0),
        (3751, 4, 30, 4.0, 0.16, 1.0, 2.163, 2.05),
        (3751, 4, 8, 12.0, 0.48, 1.0, 3.250, 0.0),
        (3751, 4, 149, 12.0, 0.48, 1.0, 2.405, 0.0),
        (3751, 8, 60, 4.0, 0.16, 1.0, 1.986, 0.0),
    ] {
        let mut tiers = tiers(link, copy, cache, host);
        tiers.costs.backward = crate::predict::Times::Each(backward);
        let alternatives = [vec![tiers]];
        let found = search(n, u32::MAX, &alternatives, Keep::Best).unwrap().swap_remove(0);
        let work = if bound > 0.0 { 30_000_000_000 } else { 0 };
        let certificate = certify(n, &alternatives, &found, work).unwrap();
        let best = certificate.better.unwrap_or(found);
        let ideal = f64::from(n) * (1.0 + backward);
        let (ours, proven) = (best.simulation.makespan / ideal, certificate.seconds / ideal);
        println!("n {n}, C {cache}, H {host}, X {link}, op {copy}: {ours:.3}, proven {proven:.3}");
        assert!(ours <= known * 1.01, "{ours} beside {known}");
        assert!(proven >= bound && proven <= ours, "{proven}");
    }
}
