//! The mutation check of shared time levels.

use super::*;

fn job(algorithm: Algorithm, snapshots: u32, cache: u32, steps: u32, streams: Streams) -> Job {
    let plain = config(algorithm, snapshots, cache, Policy::Clairvoyant);
    super::job(plain.with(|c| c.tiers.shared_levels = true), steps, streams)
}

/// If a wait or a record is lost, some seed shows a wrong state, or the remaining waits and records
/// are proved to imply the lost one.
#[test]
fn every_wait_of_shared_levels_is_needed_or_implied() {
    emulated!(kernels);
    let races_of =
        |outcome: &Outcome| races(&emu::history(), &Roles::default(), None, &outcome.seen);
    let mut seen = 0;
    for job in [
        job(Algorithm::StoreAll, 0, 1, 9, Streams::Own),
        job(Algorithm::StoreAll, 0, 2, 9, Streams::Own),
        job(Algorithm::StoreAll, 0, 3, 10, Streams::Alternating),
        job(Algorithm::Zcut, 0, 2, 12, Streams::Own),
        job(Algorithm::TwoLevel, 7, 3, 16, Streams::Independent),
    ] {
        let look = |seed: u64, kind: &str, k: u64| {
            assert_eq!(emu::reset(seed, mode(seed), 1, MEMORY), 0);
            run_armed(&job, seed, || {
                emu::start_history();
                emu::lose(kind, k);
            })
        };
        for seed in 0..10 {
            let outcome = look(seed, "wait", 0).unwrap();
            assert_eq!((outcome.wrong, races_of(&outcome)), (0, vec![]), "{job:?}");
        }
        let history = emu::history();
        for (kind, of) in [("wait", emu::Kind::Wait), ("record", emu::Kind::Record)] {
            for k in 1..=history.iter().filter(|entry| entry.kind == of).count() as u64 {
                let mut unordered = false;
                let is_seen = (0..4000u64).find_map(|seed| {
                    let Ok(outcome) = look(seed, kind, k) else { return Some(true) };
                    unordered |= seed < 10 && !races_of(&outcome).is_empty();
                    (outcome.wrong > 0 || seed == 9 && !unordered).then_some(outcome.wrong > 0)
                });
                seen += u64::from(
                    is_seen.unwrap_or_else(|| panic!("{kind} {k} of {job:?} is not explained")),
                );
            }
        }
    }
    assert!(seen > 50, "{seen}");
}
