//! Shared time levels on the CUDA backend, on the software driver: every restored state is right in
//! all fields, in whatever order operations run; the host never waits for the device during a shot;
//! and a shot ends with an error if a previous time level differs from the state before.

use super::budgets::{draw_budgets, keeps_budgets};
use crate::common::emu::emulated;
use crate::common::prelude::*;
use crate::common::{app, emu};
use app::{config, draw_job, emulate, run, run_armed, run_left, Draw, Draws, Job, Streams, MEMORY};
use emu::mode;
use std::sync::atomic::Ordering;

fn job(algorithm: Algorithm, snapshots: u32, cache: u32, steps: u32, streams: Streams) -> Job {
    let config = config(algorithm, snapshots, cache, Policy::Clairvoyant).with(|c| {
        c.tiers.shared_levels = true;
        c.device.max_in_flight = 1 << 20;
    });
    Job { streams, ..app::job(config, steps) }
}

fn draw(seed: u64) -> Job {
    let algorithms = &ALGORITHMS;
    let mut job = draw_job(seed, &Draws { algorithms, devices: 1..3, ..Draws::PLAIN });
    job.config.tiers.shared_levels = true;
    job
}

#[test]
fn every_restore_is_whole() {
    emulated!(kernels);
    let seeds = cases(200, 20_000);
    for seed in 0..seeds {
        let job = draw(seed);
        emulate(&job, seed, mode(seed), MEMORY, || run(&job, seed));
    }
}

/// The host never waits for a device that keeps up, and a shared time level is neither stored nor
/// moved twice.
#[test]
fn steady_state_never_waits() {
    emulated!(kernels);
    for cache in [0, 1, 2, 5] {
        let job = job(Algorithm::StoreAll, 0, cache, 30, Streams::Own);
        let outcome = emulate(&job, 7, emu::EARLY, MEMORY, || run(&job, 7));
        // The host waits while the kernel is loaded and its memory is cleared. At TERMINATE the
        // host waits for the last call and fetches the verdict of the comparisons into ordinary
        // memory.
        assert_eq!(outcome.syncs, 5, "{cache} slots");
        // The fields of a state take 384 and 264 bytes, each rounded up to a multiple of 256. A
        // previous time level is stored with the first state alone.
        let (own, past, stats) = (512 + 512, 512, &outcome.stats[0]);
        let previous_levels = (stats.stored_bytes - stats.saves * own) / past;
        assert_eq!(previous_levels, 1, "{cache} slots");
        assert!(stats.d2h_bytes <= stats.d2h * own + past, "{cache} slots: {stats:?}");
    }
}

/// Checksums stay in device memory, so that none of them queues behind snapshots: the verdict of all
/// comparisons is fetched at TERMINATE, and no copy moves a checksum, whether the pool is page-locked or
/// not.
#[test]
fn checksums_are_not_copied() {
    emulated!(kernels);
    let job = job(Algorithm::StoreAll, 0, 0, 12, Streams::Own);
    let copies = |pinned: u64| {
        let arm = || {
            emu::start_history();
            emu::pin_at_most(pinned);
        };
        emulate(&job, 3, emu::RANDOM, MEMORY, || run_armed(&job, 3, arm));
        let history = emu::history();
        history.iter().filter(|entry| (entry.kind, entry.bytes) == (emu::Kind::Copy, 8)).count()
    };
    assert_eq!((copies(u64::MAX), copies(0)), (1, 1));
}

/// If the previous time level of a state differs from the state before, the shot ends with an error
/// that names the state, and the next shot is right.
#[test]
fn levels_that_are_not_each_others_end_the_shot() {
    emulated!(kernels);
    for cache in [0, 1, 3, 12] {
        for (seed, spoiled) in (0..).zip([1, 4, 10]) {
            let job = job(Algorithm::StoreAll, 0, cache, 12, Streams::Own);
            app::SPOILED.store(spoiled, Ordering::Relaxed);
            assert_eq!(emu::reset(seed, mode(seed), 1, MEMORY), 0);
            match run(&job, seed) {
                // With one slot, a state that is reversed before the next one is saved has its
                // previous time level stored with it, so that no comparison is made.
                Ok(outcome) => assert_eq!((outcome.wrong, cache, spoiled), (0, 1, 10)),
                Err(error) => {
                    let named = error.message.contains(&format!("field 1 of state {spoiled} "));
                    assert!(error.code == Code::Values && named, "{cache} slots: {error}");
                }
            }
            app::SPOILED.store(0, Ordering::Relaxed);
            emulate(&job, seed, mode(seed), MEMORY, || run(&job, seed));
        }
    }
}

/// If `setup` in the middle of a shot finds that a previous time level differs from the state
/// before, it fails, and the old shot, whose snapshots are gone, restores and saves nothing more.
/// The next `setup` succeeds, and its shot is right.
#[test]
fn a_setup_that_finds_wrong_levels_ends_the_shot_too() {
    emulated!(kernels);
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
    emulated!(kernels);
    let (mut kept, mut refused) = (0, 0);
    for seed in 0..cases(400, 1500) {
        let mut draw = Draw((seed + 1u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let (device_budget, host_budget) = draw_budgets(&mut draw);
        let algorithm =
            [None, Some(Algorithm::Revolve), Some(Algorithm::StoreAll), Some(Algorithm::TwoLevel)]
                [draw.below(4) as usize];
        let mut job = job(Algorithm::Revolve, 0, 0, 1 + draw.below(20), Streams::Own);
        job.config = job.config.with(|c| {
            c.schedule.algorithm = algorithm;
            c.tiers.device_budget = device_budget;
            c.tiers.host_budget = host_budget;
        });
        *(if keeps_budgets(&job, seed, mode(seed), 0) { &mut kept } else { &mut refused }) += 1;
    }
    assert!(kept > 2 * refused && refused > 0, "{kept} runs, {refused} refused");
}
