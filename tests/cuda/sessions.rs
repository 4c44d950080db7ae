//! The CUDA backend on the software CUDA driver, which runs operations in every order that CUDA
//! allows: every restored state is right.

use crate::common::emu::emulated;
use crate::common::play::play;
use crate::common::prelude::*;
use crate::common::{app, emu};
use app::plain::{Plain, Step};
use app::{
    draw_job, emulate, reference, run, run_by_callbacks, run_zero_copy, Draw, Draws, Job, Streams,
    MEMORY,
};
use gpuzip::plan::Plan;
use gpuzip::schedule::Schedule;

/// Bytes of a snapshot: the fields have 384 and 264 bytes, and each begins at a multiple of 256
/// bytes.
const SLOT: u64 = 512 + 512;

fn draw(seed: u64) -> Job {
    let algorithms = [&ALGORITHMS[..], &[Algorithm::Revolve, Algorithm::Online]].concat();
    let of = Draws { algorithms: &algorithms, lru: 3, devices: 1..4, ..Draws::PLAIN };
    let mut job = draw_job(seed, &of);
    let mut draw = Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    job.config.schedule.uniform_published = draw.below(2) == 0;
    job.config.device.backend = [Backend::ByFields, Backend::Cuda][draw.below(2) as usize];
    if job.config.schedule.algorithm != Some(Algorithm::Online) {
        job.config.schedule.adjoint_every = [1, 1, 2, 3, 7][draw.below(5) as usize];
    }
    job
}

#[test]
fn thousands_of_seeds_restore_every_state() {
    emulated!();
    let seeds = cases(4000, 50_000);
    for seed in 0..seeds {
        let job = draw(seed);
        emulate(&job, seed, emu::mode(seed), MEMORY, || run(&job, seed));
    }
}

#[test]
fn runs_by_callbacks_restore_every_state() {
    emulated!();
    for seed in 0..1000 {
        let mode = [emu::RANDOM, emu::LATE, emu::EARLY, emu::TIMED][seed as usize % 4];
        let job = Job {
            devices: 1,
            streams: [Streams::Default, Streams::Own][seed as usize / 4 % 2],
            ..draw(seed)
        };
        assert_eq!(emu::reset(seed, mode, 1, MEMORY), 0, "left over before seed {seed}");
        assert_eq!(run_by_callbacks(&job, seed), 0, "seed {seed}, mode {mode}: {job:?}");
    }
}

#[test]
fn four_devices_run_in_lockstep() {
    emulated!();
    for seed in 0..200 {
        let job = Job { devices: 4, shots: 3, ..draw(seed) };
        emulate(&job, seed, emu::RANDOM, MEMORY, || run(&job, seed));
    }
}

#[test]
fn steady_state_never_waits_and_moves_what_was_planned() {
    emulated!();
    for policy in [Policy::Clairvoyant, Policy::Lru] {
        for cache in 1..=6 {
            let job = reference(policy, cache);
            let outcome = emulate(&job, cache.into(), emu::RANDOM, MEMORY, || run(&job, 5));
            assert_eq!(outcome.syncs, 0, "{policy:?}, {cache} slots");
            let plan = Plan::new(&Schedule::revolve(40, 6).unwrap(), cache, policy).unwrap().counts;
            let (own, counters) = (outcome.own_bytes, emu::counters());
            assert_eq!(counters.h2d_bytes - own.0, plan.h2d * SLOT, "{policy:?}, {cache} slots");
            assert_eq!(counters.d2h_bytes - own.1, plan.d2h * SLOT, "{policy:?}, {cache} slots");
            assert_eq!(counters.pageable_copies, 0);
            let stats = &outcome.stats[0];
            assert_eq!((stats.h2d_bytes, stats.d2h_bytes), (plan.h2d * SLOT, plan.d2h * SLOT));
            assert_eq!(
                (stats.hits, stats.misses, stats.prefetches),
                (plan.hits, plan.misses, plan.prefetches)
            );
        }
    }
}

/// With zero copy the library copies nothing within the device, and the memory that the application
/// works in does not change under it.
#[test]
fn zero_copy_copies_nothing_within_the_device() {
    emulated!();
    for seed in 0..3000 {
        let streams = [Streams::Default, Streams::Own, Streams::Alternating][seed as usize % 3];
        let mut job = Job { devices: 1, shots: 1, streams, ..draw(seed) };
        (job.config.tiers.policy, job.config.device.max_in_flight, job.config.tiers.zero_copy) =
            (Policy::Clairvoyant, 1 << 20, true);
        if job.config.schedule.algorithm == Some(Algorithm::Online) {
            job.config.schedule.algorithm = Some(Algorithm::Revolve);
        }
        // The application gives the memory of a restored state back never, at once, or after some
        // actions.
        let (mut draw, chance) = (Draw(seed + 1), [0, 1, 3][seed as usize / 3 % 3]);
        let releases = || chance > 0 && draw.below(chance) == 0;
        let shot = || run_zero_copy(&job, seed, releases, || {});
        let outcome = emulate(&job, seed, emu::mode(seed), MEMORY, shot);
        assert_eq!((outcome.syncs, emu::counters().d2d_bytes), (0, 0), "seed {seed}: {job:?}");
        let schedule = gpuzip::choice::choose_among(
            &job.config,
            job.steps,
            &[vec![app::raw_tiers(&job.config, SLOT)]],
        )
        .unwrap();
        let (stats, plan) = (&outcome.stats[0], schedule.plans[0].counts);
        assert_eq!(
            (stats.h2d_bytes, stats.d2h_bytes),
            (plan.h2d * SLOT, plan.d2h * SLOT),
            "seed {seed}: {job:?}"
        );
    }
}

/// Returns the stall of a shot with zero copy, in seconds of virtual time. A step takes 1 ms, the
/// upload of a snapshot 2.6 ms.
fn stall_of_zero_copy(snapshots: u32, cache: u32, release: bool) -> f64 {
    assert_eq!(emu::reset(1, emu::TIMED, 1, MEMORY), 0);
    assert_eq!(emu::bandwidth(4e5, 1e9, 1e12), 0);
    let mut app = Plain::on_default(SLOT as usize / 4, Step::Takes(1e-3));
    app.slots = Some(Slots::new(true, move || release));
    let place = Config::default().with(|c| {
        c.device.backend = Backend::Cuda;
        c.device.ordinal = Some(0);
        c.tiers.zero_copy = true;
        c.device.max_in_flight = 1 << 20;
    });
    let config = place.with(|c| {
        c.schedule.algorithm = Some(Algorithm::Revolve);
        c.schedule.snapshots = snapshots;
        c.tiers.cache = cache;
    });
    let mut session = Session::new(config, 30, &app.field()).unwrap();
    play(&mut session, &mut app).unwrap();
    session.synchronize().unwrap();
    session.stats().unwrap().stall
}

#[test]
fn memory_given_back_is_filled_while_the_application_computes() {
    emulated!();
    for (snapshots, cache) in [(4, 2), (6, 3), (8, 4)] {
        let (kept, released) = (
            stall_of_zero_copy(snapshots, cache, false),
            stall_of_zero_copy(snapshots, cache, true),
        );
        println!(
            "{cache} slots: stall {:.1} ms, {:.1} ms where memory is given back",
            kept * 1e3,
            released * 1e3
        );
        assert!(
            released < 0.8 * kept,
            "{cache} slots: {kept} s, {released} s where memory is given back"
        );
    }
}

/// The same application on a real driver, where the hardware chooses the order of operations. Every
/// byte is checked as on the software driver.
#[test]
fn on_the_real_driver() {
    if std::env::var_os("GPUZIP_TEST_GPU").is_none() {
        println!("skipped: set GPUZIP_TEST_GPU=1 on a machine with a GPU");
        return;
    }
    let devices = gpuzip::device::cuda::devices().unwrap();
    println!("{devices:?}");
    for seed in 0..300 {
        let job = draw(seed);
        let job = Job { devices: job.devices.min(devices.len() as i32), ..job };
        let outcome = run(&job, seed).unwrap_or_else(|e| panic!("seed {seed}, {job:?}: {e}"));
        assert_eq!(outcome.wrong, 0, "seed {seed}: {job:?}");
        let online = job.config.schedule.algorithm == Some(Algorithm::Online);
        if job.config.tiers.policy == Policy::Clairvoyant && !online {
            let outcome = run_zero_copy(&job, seed, || seed % 2 == 0, || {})
                .unwrap_or_else(|e| panic!("seed {seed}, {job:?}: {e}"));
            assert_eq!(outcome.wrong, 0, "zero copy, seed {seed}: {job:?}");
        }
    }
}
