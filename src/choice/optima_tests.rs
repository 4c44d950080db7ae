use super::*;
use crate::choice::tier_spec::tests::{of_slots, with_disk};
use crate::predict::Costs;

/// Times of the tables are in 16ths of a forward step.
const STEP: f64 = 16.0;

/// The problems of a table: one on each line, whose last number is the optimum.
fn problems<const N: usize>(table: &'static str) -> impl Iterator<Item = [u32; N]> {
    table.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let numbers: Vec<u32> = line.split(' ').map(|number| number.parse().unwrap()).collect();
        numbers.try_into().unwrap_or_else(|_| panic!("{line}"))
    })
}

/// Costs in forward steps.
fn costs([link, copy, disk_read, disk_write]: [u32; 4]) -> Costs {
    let [link, copy, disk_read, disk_write] =
        [link, copy, disk_read, disk_write].map(|time| f64::from(time) / STEP);
    Costs { copy, upload: link, download: link, disk_read, disk_write, ..Costs::default() }
}

/// Compares the plans of all problems, each with its steps, tiers and optimum. No nested schedule, wherever
/// its snapshots lie, is faster than the bound of the certificate. Fails unless, in percent, `enough` plans of
/// sessions and of `gpuzip plan` are optimal, and none takes more than `most` times the optimum.
fn compare(
    problems: impl Iterator<Item = (u32, TierSpec, u32)>,
    count: u32,
    enough: u32,
    most: f64,
) {
    let (mut solved, mut optimal, mut searched, mut worst) = (0, 0, 0, 1.0f64);
    for (number, (steps, tiers, optimum)) in problems.enumerate() {
        let (alternatives, optimum) = ([vec![tiers]], f64::from(optimum));
        let found = refine::search_and_refine(steps, u32::MAX, &alternatives).unwrap();
        let certificate = certify(steps, &alternatives, &found, 300_000_000).unwrap();
        let [of_search, ours] = [&found, certificate.better.as_ref().unwrap_or(&found)]
            .map(|plan| (plan.simulation.makespan * STEP).round());
        let bound = certificate.seconds * STEP;
        assert!(bound <= optimum + 1e-6, "{number}: the bound {bound} is above {optimum}");
        assert!(optimum <= ours, "{number}: {ours} is below the optimum {optimum}");
        if optimum < of_search {
            println!("problem {number}, {steps} steps: {of_search} and {ours} beside {optimum}");
        }
        solved += 1;
        optimal += u32::from(ours == optimum);
        searched += u32::from(of_search == optimum);
        worst = worst.max(of_search / optimum);
    }
    println!(
        "{optimal} plans of `gpuzip plan` and {searched} of sessions are optimal; at worst {worst}"
    );
    let is_enough = |optimal: u32| optimal * 100 >= solved * enough;
    assert!(
        solved == count && is_enough(optimal) && is_enough(searched) && worst <= most,
        "{optimal} and {searched} of {solved}, {worst}"
    );
}

/// For random small problems sessions and `gpuzip plan` find the fastest plan in most cases, and are never
/// far from it.
#[test]
fn plans_of_small_problems_are_near_the_optimum() {
    let problems = problems(include_str!("optima.txt"));
    let problems = problems.map(|[steps, cache, host, link, copy, optimum]| {
        (steps, of_slots(costs([link, copy, 0, 0]), cache, host), optimum)
    });
    compare(problems, 196, 92, 1.02);
}

/// As `plans_of_small_problems_are_near_the_optimum`, with a disk.
#[test]
fn plans_of_small_problems_with_a_disk_are_near_the_optimum() {
    let problems = problems(include_str!("optima_disk.txt"));
    let problems = problems.map(|[steps, cache, host, disk, link, copy, read, write, optimum]| {
        let tiers = of_slots(costs([link, copy, read, write]), cache, host);
        (steps, with_disk(tiers, host + 4, disk), optimum)
    });
    compare(problems, 100, 90, 1.04);
}
