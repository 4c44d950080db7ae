use super::*;
use crate::choice::tier_spec::tests::of_slots;
use crate::predict::Costs;

/// Times of the table are in 16ths of a forward step.
const STEP: f64 = 16.0;

/// Tiers with these numbers of slots and, in forward steps, these times of a transfer and of a copy.
fn tiers(cache: u32, host: u32, link: f64, copy: f64) -> TierSpec {
    of_slots(Costs { copy, upload: link, download: link, ..Costs::default() }, cache, host)
}

/// For random small problems: no nested schedule, wherever its snapshots lie, is faster than the bound of
/// the certificate. Sessions and `gpuzip plan` find the fastest in most cases, and are never far from it.
#[test]
fn plans_of_small_problems_are_near_the_optimum() {
    let (mut solved, mut optimal, mut searched, mut worst) = (0, 0, 0, 1.0f64);
    for line in include_str!("optima.txt").lines().filter(|line| !line.starts_with('#')) {
        let numbers: Vec<u32> = line.split(' ').map(|number| number.parse().unwrap()).collect();
        let [steps, cache, host, link, copy, optimum] = numbers[..] else { panic!("{line}") };
        let [link, copy, optimum] = [link, copy, optimum].map(f64::from);
        let alternatives = [vec![tiers(cache, host, link / STEP, copy / STEP)]];
        let found = refine::search_and_refine(steps, u32::MAX, &alternatives).unwrap();
        let certificate = certify(steps, &alternatives, &found, 300_000_000).unwrap();
        let [of_search, ours] = [&found, certificate.better.as_ref().unwrap_or(&found)]
            .map(|plan| (plan.simulation.makespan * STEP).round());
        let bound = certificate.seconds * STEP;
        assert!(bound <= optimum + 1e-6, "{line}: the bound {bound} is above the optimum");
        assert!(optimum <= ours, "{line}: {ours} is below the optimum");
        solved += 1;
        optimal += u32::from(ours == optimum);
        searched += u32::from(of_search == optimum);
        worst = worst.max(of_search / optimum);
    }
    println!(
        "{optimal} plans of `gpuzip plan` and {searched} of sessions are optimal; at worst {worst}"
    );
    let enough = |optimal: u32| optimal * 100 >= solved * 85;
    assert!(
        solved == 196 && enough(optimal) && enough(searched) && worst <= 1.05,
        "{optimal} and {searched} of {solved}, {worst}"
    );
}
