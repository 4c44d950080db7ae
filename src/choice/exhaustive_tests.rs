use super::exhaustive::{optimum, Problem, STEP};
use super::*;
use crate::plan::Policy;
use crate::predict::{Budgets, Costs};

/// Tiers with the slots and costs of a problem, in bytes and forward steps.
fn tiers(problem: &Problem) -> TierSpec {
    let steps = |units: i32| f64::from(units) / f64::from(STEP);
    let (link, copy) = (steps(problem.link), steps(problem.copy));
    TierSpec {
        slot_bytes: 1,
        cache: Some(problem.cache.into()),
        raw_slots: None,
        host: Some(problem.host.into()),
        policy: Policy::Clairvoyant,
        zero_copy: false,
        packed_bytes: None,
        beside_cache: 0,
        costs: Costs { copy, upload: link, download: link, ..Costs::default() },
        budgets: Budgets { device: problem.cache.into(), host: problem.host.into(), disk: 0 },
        folders: 1,
        shared: None,
    }
}

/// The `k`-th random problem: 8 to 24 steps, 1 to 4 slots on the device and 0 to 8 on the host, transfers
/// of 0.5 to 16 steps, copies of 0 to 0.5 steps.
fn problem(seed: u64, k: u64) -> Problem {
    let mut state = (seed << 32 | k).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut draw = |n: u32| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32 % n
    };
    for _ in 0..8 {
        draw(1);
    }
    let (steps, cache, host) = (8 + draw(17), 1 + draw(4), draw(9));
    // From half a step on, each doubling is as likely as the others.
    let link = (STEP as u32 / 2) << draw(5);
    let (link, copy) = (link + draw(link + 1), draw(STEP as u32 / 2 + 1));
    let small = |number: u32| number as u8;
    Problem {
        steps: small(steps),
        cache: small(cache),
        host: small(host),
        link: link as i32,
        copy: copy as i32,
    }
}

/// For random small problems: no nested schedule, wherever its snapshots lie, is faster than the bound of
/// the certificate. Sessions and `gpuzip plan` find the fastest in most cases, and are never far from it.
#[test]
fn plans_of_small_problems_are_near_the_optimum() {
    let long = std::env::var_os("GPUZIP_TEST_LONG").is_some();
    let seed = std::env::var("GPUZIP_TEST_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1u64);
    // Problems are drawn until so many of them are solved: their optimum is proven by following at most
    // `runs` runs.
    let (most, runs) = if long { (300, 400_000) } else { (30, 10_000) };
    let (mut all, mut solved, mut optimal, mut searched, mut followed) = (0, 0, 0, 0, 0);
    // The largest times over the optimum: of solved problems, and of others over what is proven of it.
    let (mut worst, mut unproven) = (1.0f64, 1.0f64);
    for problem in (0..).map(|k| problem(seed, k)) {
        if solved == most {
            break;
        }
        let what = format!("seed {seed}: {problem:?}");
        let (steps, alternatives) = (problem.steps.into(), [vec![tiers(&problem)]]);
        let found = refine::search_and_refine(steps, u32::MAX, &alternatives).unwrap();
        let certificate = certify(steps, &alternatives, &found, 300_000_000).unwrap();
        let units = |seconds: f64| seconds * f64::from(STEP);
        let [of_search, ours] = [&found, certificate.better.as_ref().unwrap_or(&found)]
            .map(|plan| units(plan.simulation.makespan).round() as i32);
        let optimum = optimum(&problem, ours + 1, runs);
        let bound = units(certificate.seconds);
        assert!(
            bound <= f64::from(optimum.time) + 1e-6,
            "{what}: the bound {bound} is above {}",
            optimum.time
        );
        let is_solved = optimum.time == optimum.least;
        assert!(!is_solved || optimum.time <= ours, "{what}: {ours} beside {optimum:?}");
        (all, followed) = (all + 1, followed + optimum.runs);
        let over = f64::from(of_search) / f64::from(optimum.least.min(ours));
        if is_solved {
            solved += 1;
            optimal += u32::from(ours == optimum.time);
            searched += u32::from(of_search == optimum.time);
            worst = worst.max(over);
        } else {
            unproven = unproven.max(over);
        }
        if over > 1.0 {
            println!("{what}: {of_search} and {ours} units beside {optimum:?}");
        }
    }
    println!(
        "seed {seed}: {solved} of {all} problems solved by following {followed} runs; {optimal} plans of `gpuzip plan` and {searched} of \
         sessions optimal; at worst {worst}, and {unproven} over what is proven of the others"
    );
    let enough = |optimal: u32| optimal * 100 >= solved * 85;
    assert!(
        enough(optimal) && enough(searched) && worst <= 1.05,
        "{optimal} and {searched} of {solved}, {worst}"
    );
}
