//! Budgets in bytes on the CUDA backend, on the software CUDA driver, which counts what is taken.

#[path = "cuda/app.rs"]
#[allow(dead_code)] // Each test program uses a part of it.
mod app;
mod common;
#[path = "cuda/emu.rs"]
#[allow(dead_code)] // As above.
mod emu;

use app::{host_syncs, run_armed, run_zero_copy_armed, Draw, Job, Outcome, Streams, MEMORY};
use gpuzip::codec::{ErrorBound, Method, Settings};
use gpuzip::config::Config;
use gpuzip::error::{Code, Result};
use gpuzip::plan::{choose, Policy, Sizes, SPARE_SLOTS};
use gpuzip::schedule::Algorithm;
use std::cell::Cell;

/// Bytes of a snapshot.
const SLOT: u64 = 1024;

/// What a run took beside the application's own memory: of the device, of the host.
type Taken = (u64, u64);

fn run(job: &Job, seed: u64) -> (Result<Outcome>, Taken) {
    let own = Cell::new((0, 0));
    let arm = || own.set((emu::counters().device_bytes, emu::counters().host_bytes));
    let result = match job.config.zero_copy {
        true => run_zero_copy_armed(job, seed, host_syncs, || seed % 2 == 0, arm),
        false => run_armed(job, seed, host_syncs, arm),
    };
    let (peak, (device, host)) = (emu::counters(), own.get());
    (result, (peak.peak_device_bytes - device, peak.peak_host_bytes - host))
}

/// A job whose budgets are any number of bytes; 0 is none.
fn draw(seed: u64) -> Job {
    let mut draw = Draw((seed + 1).wrapping_mul(0x2545_f491_4f6c_dd1d) | 1);
    let mut budget = |most: u32| [0, SLOT as u32 + draw.below(most * SLOT as u32)][usize::from(draw.below(4) > 0)] as u64;
    let (device_budget, host_budget) = (budget(9), budget(14));
    let algorithm = [None, Some(Algorithm::Revolve), Some(Algorithm::Uniform), Some(Algorithm::TwoLevel)][draw.below(4) as usize];
    let config = Config {
        algorithm,
        device_budget,
        host_budget,
        snapshots: [0, 0, 1 + draw.below(9)][draw.below(3) as usize],
        cache: [0, 0, 1 + draw.below(6)][draw.below(3) as usize],
        policy: [Policy::Clairvoyant, Policy::Clairvoyant, Policy::Lru][draw.below(3) as usize],
        ..Config::default()
    };
    let zero_copy = config.policy == Policy::Clairvoyant && draw.below(2) == 0;
    let config = Config { zero_copy, ..config };
    Job { config, steps: 1 + draw.below(30), devices: 1, shots: 1, streams: Streams::Own, stubborn: false }
}

#[test]
fn budgets_are_kept_to_the_byte() {
    if !emu::inside("budgets_are_kept_to_the_byte", &[]) {
        return;
    }
    let (mut kept, mut refused) = (0, 0);
    for seed in 0..3000 {
        let job = draw(seed);
        assert_eq!(emu::reset(seed, emu::RANDOM, 1, MEMORY), 0);
        let (result, (device, host)) = run(&job, seed);
        let (device_budget, host_budget) = (job.config.device_budget, job.config.host_budget);
        assert!(device_budget == 0 || device <= device_budget, "seed {seed}: {device} bytes, {job:?}");
        assert!(host_budget == 0 || host <= host_budget, "seed {seed}: {host} bytes, {job:?}");
        match result {
            Ok(outcome) => {
                let stats = &outcome.stats[0];
                assert_eq!(outcome.wrong, 0, "seed {seed}: {job:?}");
                assert_eq!((stats.peak_device_bytes, stats.peak_host_bytes), (device, host), "seed {seed}: {job:?}");
                kept += 1;
            }
            Err(error) => {
                assert!(matches!(error.code, Code::Budget | Code::Config), "seed {seed}: {error}, {job:?}");
                refused += 1;
            }
        }
    }
    println!("{kept} runs within their budgets, {refused} refused");
    assert!(kept > 2 * refused && refused > 0);
}

/// Bytes of the device that a job takes where there is enough.
fn planned(job: &Job) -> u64 {
    let plan = choose(&job.config, job.steps, &[Sizes::new(&job.config, SLOT, SLOT)]).unwrap().plans[0].clone();
    (plan.device_slots + if plan.hands_over { SPARE_SLOTS } else { 0 }) as u64 * SLOT
}

/// A device that has less than the budget allows: the cache shrinks to what there is, or where that is too little, an error says so.
#[test]
fn a_device_with_less_than_the_budget_shrinks_the_cache() {
    if !emu::inside("a_device_with_less_than_the_budget_shrinks_the_cache", &[]) {
        return;
    }
    let (mut runs, mut shrunk, mut refused) = (0, 0, 0);
    for seed in 0..3000 {
        let job = draw(seed);
        let room = seed % 7 * SLOT + seed % 5;
        // The application has 384 and 264 bytes there.
        assert_eq!(emu::reset(seed, emu::RANDOM, 1, 384 + 264 + room), 0);
        let (result, (device, host)) = run(&job, seed);
        assert!(
            device <= room && (job.config.host_budget == 0 || host <= job.config.host_budget),
            "seed {seed}: {device}, {host}, {job:?}"
        );
        match result {
            Ok(outcome) => {
                assert_eq!(outcome.wrong, 0, "seed {seed}: {job:?}");
                runs += 1;
                shrunk += u64::from(device < planned(&job));
            }
            Err(error) => {
                // States without a slot need two in any case.
                let needs_more = error.code == Code::Memory && job.config.zero_copy && room < 2 * SLOT;
                assert!(needs_more || matches!(error.code, Code::Budget | Code::Config), "seed {seed}: {error}, {job:?}");
                refused += 1;
            }
        }
    }
    println!("{runs} runs, {shrunk} of them with a smaller cache, {refused} refused");
    assert!(runs > refused && shrunk > 300);
}

/// With a codec, what it works in is of the budget, too.
#[test]
fn compression_keeps_the_budgets() {
    let images = common::scratch("kernels").display().to_string();
    if !common::have("c++") || !emu::inside("compression_keeps_the_budgets", &[("GPUZIP_CACHE_DIR", &images)]) {
        return;
    }
    let (mut kept, mut refused) = (0, 0);
    for seed in 0..150 {
        let mut job = draw(seed);
        let mut draw = Draw(seed + 99);
        job.config.device_budget = [0, 5000 + u64::from(draw.below(8000))][usize::from(seed % 4 > 0)];
        job.config.compression = Settings { method: Method::Fp16, bound: ErrorBound::DEFAULT, reject_nonfinite: false };
        job.config.compression_factor = f64::from(draw.below(3));
        job.config.zero_copy = false;
        assert_eq!(emu::reset(seed, emu::RANDOM, 1, MEMORY), 0);
        let (result, (device, host)) = run(&job, seed);
        let (device_budget, host_budget) = (job.config.device_budget, job.config.host_budget);
        assert!(device_budget == 0 || device <= device_budget, "seed {seed}: {device} bytes, {job:?}");
        // Reports of the codec are page-locked, too: 32 bytes for each of the last 66 snapshots.
        assert!(host_budget == 0 || host <= host_budget + 66 * 32, "seed {seed}: {host} bytes, {job:?}");
        match result {
            Ok(outcome) => {
                assert_eq!(outcome.wrong, 0, "seed {seed}: {job:?}");
                assert!(outcome.stats[0].peak_device_bytes <= device, "seed {seed}: {job:?}");
                kept += 1;
            }
            Err(error) => {
                assert!(matches!(error.code, Code::Budget | Code::Config), "seed {seed}: {error}, {job:?}");
                refused += 1;
            }
        }
    }
    println!("{kept} runs within their budgets, {refused} refused");
    assert!(kept > refused && refused > 0);
}
