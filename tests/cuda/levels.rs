//! Shared time levels on the CUDA backend, on the software driver: every restored state is right in
//! all fields, in whatever order operations run; the host never waits for the device during a shot;
//! and a shot ends with an error if a previous time level differs from the state before.

use crate::common::cases::cases;
use crate::common::{app, emu, order};
use app::{config, host_syncs, run, run_armed, run_left, Draw, Job, Streams, MEMORY};
use gpuzip::config::Config;
use gpuzip::error::Code;
use gpuzip::plan::Policy;
use gpuzip::schedule::{Algorithm, Kind};
use std::sync::atomic::Ordering;

fn mode(seed: u64) -> i32 {
    [emu::RANDOM, emu::LATE, emu::RANDOM, emu::TIMED, emu::EARLY][seed as usize % 5]
}

fn job(algorithm: Algorithm, snapshots: u32, cache: u32, steps: u32, streams: Streams) -> Job {
    let config = Config {
        shared_levels: true,
        max_in_flight: 1 << 20,
        ..config(algorithm, snapshots, cache, Policy::Clairvoyant)
    };
    Job { config, steps, devices: 1, shots: 1, streams, stubborn: false }
}

fn draw_job(seed: u64) -> Job {
    let mut draw = Draw(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1);
    let algorithms = [
        Algorithm::Revolve,
        Algorithm::Uniform,
        Algorithm::Zcut,
        Algorithm::TwoLevel,
        Algorithm::StoreAll,
        Algorithm::Hrevolve,
    ];
    let algorithm = algorithms[draw.below(5) as usize];
    let streams = [Streams::Default, Streams::Own, Streams::Alternating, Streams::Independent]
        [draw.below(4) as usize];
    let drawn = job(algorithm, 1 + draw.below(9), draw.below(6), 1 + draw.below(24), streams);
    let config = Config {
        max_in_flight: [1, 3, 64][draw.below(3) as usize],
        range_actions: draw.below(2) == 0,
        ..drawn.config
    };
    Job { config, devices: 1 + draw.below(2) as i32, shots: 1 + draw.below(2), ..drawn }
}

#[test]
fn every_restore_is_whole() {
    if !emu::with_kernels("every_restore_is_whole") {
        return;
    }
    let seeds = cases(200, 20_000);
    for seed in 0..seeds {
        let job = draw_job(seed);
        assert_eq!(
            emu::reset(seed, mode(seed), job.devices, MEMORY),
            0,
            "left over before seed {seed}"
        );
        let outcome =
            run(&job, seed, host_syncs).unwrap_or_else(|e| panic!("seed {seed}, {job:?}: {e}"));
        let left = emu::counters();
        let all =
            (left.streams, left.events, left.allocations, left.host_allocations, left.retained);
        assert_eq!(all, (0, 0, 0, 0, 0), "seed {seed}: {left:?}");
        assert_eq!(outcome.wrong, 0, "seed {seed}: {job:?}");
    }
}

/// The host never waits for a device that keeps up, and a shared time level is neither stored nor
/// moved twice.
#[test]
fn steady_state_never_waits() {
    if !emu::with_kernels("levels::steady_state_never_waits") {
        return;
    }
    for cache in [0, 1, 2, 5] {
        let job = job(Algorithm::StoreAll, 0, cache, 30, Streams::Own);
        assert_eq!(emu::reset(7, emu::EARLY, 1, MEMORY), 0);
        let outcome = run(&job, 7, host_syncs).unwrap();
        // The host waits while the kernel is loaded and its memory is cleared. At TERMINATE the
        // host waits for the last call and fetches the verdict of the comparisons into ordinary
        // memory.
        assert_eq!((outcome.wrong, outcome.syncs), (0, 5), "{cache} slots");
        // The fields of a state take 384 and 264 bytes, each rounded up to a multiple of 256, and
        // 256 bytes of checksums. A previous time level is stored with the first state and with the
        // first of the states that stay in the cache; with one slot, with every state.
        let (own, past, stats) = (512 + 512 + 256, 512, &outcome.stats[0]);
        let previous_levels = (stats.stored_bytes - stats.saves * own) / past;
        assert!(
            if cache == 1 { previous_levels == stats.saves } else { previous_levels <= 2 },
            "{cache} slots: {previous_levels}"
        );
        assert!(stats.d2h_bytes <= stats.d2h * own + past, "{cache} slots: {stats:?}");
    }
}

/// In the pool the kernel itself stores and reads checksums, so that none of them queues behind
/// snapshots of the same direction. Where the pool is not page-locked, copies move the checksums.
#[test]
fn checksums_of_the_pool_are_not_copied() {
    if !emu::with_kernels("checksums_of_the_pool_are_not_copied") {
        return;
    }
    let job = job(Algorithm::StoreAll, 0, 0, 12, Streams::Own);
    let copies = |pinned: u64| {
        assert_eq!(emu::reset(3, emu::RANDOM, 1, MEMORY), 0);
        let arm = || {
            emu::start_history();
            emu::pin_at_most(pinned);
        };
        let outcome = run_armed(&job, 3, host_syncs, arm).unwrap();
        assert_eq!(outcome.wrong, 0);
        let history = emu::history();
        history.iter().filter(|entry| (entry.kind, entry.bytes) == (emu::Kind::Copy, 8)).count()
    };
    // The verdict of all comparisons is fetched at TERMINATE. Without page-locked memory, every one of
    // the 11 SAVEs stores a checksum, and all but the first fetch the one before.
    assert_eq!((copies(u64::MAX), copies(0)), (1, 1 + 11 + 10));
}

/// If the previous time level of a state differs from the state before, the shot ends with an error
/// that names the state, and the next shot is right.
#[test]
fn levels_that_are_not_each_others_end_the_shot() {
    if !emu::with_kernels("levels_that_are_not_each_others_end_the_shot") {
        return;
    }
    for cache in [0, 1, 3, 12] {
        for (seed, spoiled) in (0..).zip([1, 4, 10]) {
            let job = job(Algorithm::StoreAll, 0, cache, 12, Streams::Own);
            app::SPOILED.store(spoiled, Ordering::Relaxed);
            assert_eq!(emu::reset(seed, mode(seed), 1, MEMORY), 0);
            match run(&job, seed, host_syncs) {
                // With one slot, a state that is reversed before the next one is saved has its
                // previous time level stored with it, so that no comparison is made.
                Ok(outcome) => assert_eq!((outcome.wrong, cache, spoiled), (0, 1, 10)),
                Err(error) => {
                    let named = error.message.contains(&format!("field 1 of state {spoiled} "));
                    assert!(error.code == Code::Values && named, "{cache} slots: {error}");
                }
            }
            app::SPOILED.store(0, Ordering::Relaxed);
            assert_eq!(emu::reset(seed, mode(seed), 1, MEMORY), 0);
            assert_eq!(run(&job, seed, host_syncs).unwrap().wrong, 0);
        }
    }
}

/// If `setup` in the middle of a shot finds that a previous time level differs from the state
/// before, it fails, and the old shot, whose snapshots are gone, restores and saves nothing more.
/// The next `setup` succeeds, and its shot is right.
#[test]
fn a_setup_that_finds_wrong_levels_ends_the_shot_too() {
    if !emu::with_kernels("a_setup_that_finds_wrong_levels_ends_the_shot_too") {
        return;
    }
    app::SPOILED.store(4, Ordering::Relaxed);
    for cache in [0, 1, 3, 12] {
        for (seed, (kind, ts)) in (0..).zip([
            (Kind::Save, 6),
            (Kind::Forward, 9),
            (Kind::Restore, 9),
            (Kind::Backward, 7),
            (Kind::Restore, 1),
        ]) {
            let job = job(Algorithm::StoreAll, 0, cache, 12, Streams::Own);
            assert_eq!(emu::reset(seed, mode(seed), 1, MEMORY), 0);
            let what = format!("{cache} slots, setup at {kind:?} {ts}");
            let left = run_left(&job, seed, kind, ts).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert!(
                left.setup.code == Code::Values
                    && left.setup.message.contains("field 1 of state 4 "),
                "{what}: {}",
                left.setup
            );
            assert_eq!(left.served, 0, "{what}");
            let refused = left.refused.unwrap_or_else(|| panic!("{what}: the old shot went on"));
            assert!(refused.message.contains("call setup for a new shot"), "{what}: {refused}");
            assert_eq!(left.wrong, 0, "{what}");
        }
    }
}

/// The bytes that a session takes stay within the budgets, with all memory that the comparison of
/// time levels takes, and the statistics give these bytes exactly.
#[test]
fn budgets_are_kept() {
    if !emu::with_kernels("budgets_are_kept") {
        return;
    }
    let (mut kept, mut refused) = (0, 0);
    for seed in 0..cases(400, 1500) {
        let mut draw = Draw((seed + 1u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let mut budget =
            |most: u32| [0, 1024 + draw.below(most * 1024)][usize::from(draw.below(4) > 0)] as u64;
        let (device_budget, host_budget) = (budget(9), budget(14));
        let algorithm =
            [None, Some(Algorithm::Revolve), Some(Algorithm::StoreAll), Some(Algorithm::TwoLevel)]
                [draw.below(4) as usize];
        let drawn = job(Algorithm::Revolve, 0, 0, 1 + draw.below(20), Streams::Own);
        let job = Job {
            config: Config { algorithm, device_budget, host_budget, ..drawn.config },
            ..drawn
        };
        assert_eq!(emu::reset(seed, mode(seed), 1, MEMORY), 0);
        let own = std::cell::Cell::new((0, 0));
        let arm = || own.set((emu::counters().device_bytes, emu::counters().host_bytes));
        let result = run_armed(&job, seed, host_syncs, arm);
        let (peak, own) = (emu::counters(), own.get());
        let (device, host) = (peak.peak_device_bytes - own.0, peak.peak_host_bytes - own.1);
        assert!(
            device_budget == 0 || device <= device_budget,
            "seed {seed}: {device} bytes, {job:?}"
        );
        assert!(host_budget == 0 || host <= host_budget, "seed {seed}: {host} bytes, {job:?}");
        match result {
            Ok(outcome) => {
                let stats = &outcome.stats[0];
                assert_eq!(
                    (outcome.wrong, stats.peak_device_bytes, stats.peak_host_bytes),
                    (0, device, host),
                    "seed {seed}: {job:?}"
                );
                kept += 1;
            }
            Err(error) => {
                assert!(
                    matches!(error.code, Code::Budget | Code::Config),
                    "seed {seed}: {error}, {job:?}"
                );
                refused += 1;
            }
        }
    }
    assert!(kept > 2 * refused && refused > 0, "{kept} runs, {refused} refused");
}

/// If a wait or a record is lost, some seed shows a wrong state, or the remaining waits and records
/// are proved to imply the lost one.
#[test]
fn every_wait_and_every_record_is_needed_or_implied() {
    if !emu::with_kernels("every_wait_and_every_record_is_needed_or_implied") {
        return;
    }
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
            run_armed(&job, seed, host_syncs, || {
                emu::start_history();
                emu::lose(kind, k);
            })
        };
        for seed in 0..10 {
            let outcome = look(seed, "wait", 0).unwrap();
            assert_eq!(
                (
                    outcome.wrong,
                    order::races(&emu::history(), &order::Roles::default(), None, &outcome.seen)
                ),
                (0, vec![]),
                "{job:?}"
            );
        }
        let history = emu::history();
        for (kind, of) in [("wait", emu::Kind::Wait), ("record", emu::Kind::Record)] {
            for k in 1..=history.iter().filter(|entry| entry.kind == of).count() as u64 {
                let mut unordered = false;
                let is_seen = (0..4000u64).find_map(|seed| {
                    let Ok(outcome) = look(seed, kind, k) else { return Some(true) };
                    unordered |= seed < 10
                        && !order::races(
                            &emu::history(),
                            &order::Roles::default(),
                            None,
                            &outcome.seen,
                        )
                        .is_empty();
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
