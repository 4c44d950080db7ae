//! The CUDA backend on the software CUDA driver: every ordering that CUDA allows, every failure it can report.

#[path = "cuda/app.rs"]
#[allow(dead_code)] // Each test program uses a part of it.
mod app;
mod common;
#[path = "cuda/emu.rs"]
#[allow(dead_code)] // As above.
mod emu;

use app::{config, host_syncs, ok, reference, run, run_armed, run_zero_copy, Job, Streams, MEMORY};
use gpuzip::config::{Backend, Config};
use gpuzip::device::{AppField, Stream};
use gpuzip::plan::{Fetch, Index, Plan, Policy, Sizes, NONE};
use gpuzip::schedule::{Algorithm, Kind, Schedule, Trace};
use gpuzip::session::Session;
use std::collections::BTreeMap;

/// Bytes of a snapshot: 384 and 264 bytes, each field at a multiple of 256.
const SLOT: u64 = 512 + 512;

/// Random traces in the mutation check.
const TRACES: u64 = 4;

/// A small generator, so that a seed names a job.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as u32 % n
    }
}

fn draw_job(seed: u64) -> Job {
    let mut draw = Draw(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1);
    let algorithms =
        [Algorithm::Revolve, Algorithm::Revolve, Algorithm::Uniform, Algorithm::Zcut, Algorithm::TwoLevel, Algorithm::StoreAll];
    let algorithm = algorithms[draw.below(6) as usize];
    let policy = if draw.below(3) == 0 { Policy::Lru } else { Policy::Clairvoyant };
    let config = Config {
        uniform_published: draw.below(2) == 0,
        max_in_flight: [1, 3, 64][draw.below(3) as usize],
        backend: [Backend::ByFields, Backend::Cuda][draw.below(2) as usize],
        ..config(algorithm, 1 + draw.below(9), draw.below(6), policy)
    };
    let streams = [Streams::Default, Streams::Own, Streams::Alternating, Streams::Independent][draw.below(4) as usize];
    Job { config, steps: 1 + draw.below(24), devices: 1 + draw.below(3) as i32, shots: 1 + draw.below(2), streams, stubborn: false }
}

/// Runs a job on a freshly reset driver and returns the wrong states; nothing may be left behind.
fn emulate(job: &Job, seed: u64, mode: i32) -> usize {
    assert_eq!(emu::reset(seed, mode, job.devices, MEMORY), 0, "left over before seed {seed}");
    let outcome = run(job, seed, host_syncs).unwrap_or_else(|e| panic!("seed {seed}, {job:?}: {e}"));
    let left = emu::counters();
    assert_eq!(
        (left.streams, left.events, left.allocations, left.host_allocations, left.retained),
        (0, 0, 0, 0, 0),
        "seed {seed}: {left:?}"
    );
    outcome.wrong
}

#[test]
fn thousands_of_seeds_restore_every_state() {
    if !emu::inside("thousands_of_seeds_restore_every_state", &[]) {
        return;
    }
    let seeds = if std::env::var_os("GPUZIP_TEST_LONG").is_some() { 50_000 } else { 4000 };
    for seed in 0..seeds {
        let mode = [emu::RANDOM, emu::RANDOM, emu::LATE, emu::EARLY, emu::TIMED][seed as usize % 5];
        let job = draw_job(seed);
        assert_eq!(emulate(&job, seed, mode), 0, "seed {seed}, mode {mode}: {job:?}");
    }
}

#[test]
fn four_devices_run_in_lockstep() {
    if !emu::inside("four_devices_run_in_lockstep", &[]) {
        return;
    }
    for seed in 0..200 {
        let job = Job { devices: 4, shots: 3, ..draw_job(seed) };
        assert_eq!(emulate(&job, seed, emu::RANDOM), 0, "seed {seed}: {job:?}");
    }
}

#[test]
fn steady_state_never_waits_and_moves_what_was_planned() {
    if !emu::inside("steady_state_never_waits_and_moves_what_was_planned", &[]) {
        return;
    }
    for policy in [Policy::Clairvoyant, Policy::Lru] {
        for cache in 1..=6 {
            let job = reference(policy, cache);
            assert_eq!(emu::reset(cache as u64, emu::RANDOM, 1, MEMORY), 0);
            let outcome = run(&job, 5, host_syncs).unwrap();
            assert_eq!((outcome.wrong, outcome.syncs), (0, 0), "{policy:?}, {cache} slots");
            let plan = Plan::new(&Schedule::revolve(40, 6).unwrap(), cache, policy).unwrap().counts;
            let (own, counters) = (outcome.own_bytes, emu::counters());
            assert_eq!(counters.h2d_bytes - own.0, plan.h2d * SLOT, "{policy:?}, {cache} slots");
            assert_eq!(counters.d2h_bytes - own.1, plan.d2h * SLOT, "{policy:?}, {cache} slots");
            assert_eq!(counters.pageable_copies, 0);
            let stats = &outcome.stats[0];
            assert_eq!((stats.h2d_bytes, stats.d2h_bytes), (plan.h2d * SLOT, plan.d2h * SLOT));
            assert_eq!((stats.hits, stats.misses, stats.prefetches), (plan.hits, plan.misses, plan.prefetches));
        }
    }
}

/// An application that works in the slots pays no copy within the device, and never sees its memory change under it.
#[test]
fn zero_copy_copies_nothing_within_the_device() {
    if !emu::inside("zero_copy_copies_nothing_within_the_device", &[]) {
        return;
    }
    for seed in 0..3000 {
        let mode = [emu::RANDOM, emu::RANDOM, emu::LATE, emu::EARLY, emu::TIMED][seed as usize % 5];
        let streams = [Streams::Default, Streams::Own, Streams::Alternating][seed as usize % 3];
        let mut job = Job { devices: 1, shots: 1, streams, ..draw_job(seed) };
        (job.config.policy, job.config.max_in_flight, job.config.zero_copy) = (Policy::Clairvoyant, 1 << 20, true);
        // Memory is given back never, at once, or after some actions.
        let (mut draw, chance) = (Draw(seed + 1), [0, 1, 3][seed as usize / 3 % 3]);
        let releases = || chance > 0 && draw.below(chance) == 0;
        assert_eq!(emu::reset(seed, mode, 1, MEMORY), 0);
        let outcome = run_zero_copy(&job, seed, host_syncs, releases).unwrap_or_else(|e| panic!("seed {seed}, {job:?}: {e}"));
        assert_eq!((outcome.wrong, outcome.syncs, emu::counters().d2d_bytes), (0, 0, 0), "seed {seed}, mode {mode}: {job:?}");
        let schedule = gpuzip::plan::choose(&job.config, job.steps, &[Sizes::new(&job.config, SLOT, SLOT)]).unwrap();
        let (stats, plan) = (&outcome.stats[0], schedule.plans[0].counts);
        assert_eq!((stats.h2d_bytes, stats.d2h_bytes), (plan.h2d * SLOT, plan.d2h * SLOT), "seed {seed}: {job:?}");
    }
}

/// Stall of a sweep of zero copy, in virtual time: a step takes 1 ms, a transfer 2.5 ms.
fn stall_of_zero_copy(snapshots: u32, cache: u32, release: bool) -> f64 {
    assert_eq!(emu::reset(1, emu::TIMED, 1, MEMORY), 0);
    assert_eq!(emu::bandwidth(4e5, 1e9, 1e12), 0);
    let (mut context, none) = (std::ptr::null_mut(), std::ptr::null_mut());
    ok!(cuInit(0));
    ok!(cuDevicePrimaryCtxRetain(&mut context, 0));
    ok!(cuCtxSetCurrent(context));
    let fields: Vec<_> = app::shapes().into_iter().map(|field| AppField { field, memory: None }).collect();
    let place = Config { backend: Backend::Cuda, device: Some(0), zero_copy: true, max_in_flight: 1 << 20, ..Config::default() };
    let config = Config { algorithm: Some(Algorithm::Revolve), snapshots, cache, ..place };
    let mut session = Session::new(config, 30, &fields).unwrap();
    loop {
        let action = session.get_action().unwrap().action;
        let ts = action.ts as i64;
        match action.kind {
            Kind::Save => {
                session.save_begin(ts, fields.len(), Stream(none)).unwrap();
                session.save_commit(ts, Stream(none)).unwrap();
            }
            Kind::Restore => {
                session.retrieve_acquire(ts, fields.len(), Stream(none)).unwrap();
                if release {
                    session.retrieve_release(ts, Stream(none)).unwrap();
                }
            }
            Kind::Terminate => break,
            _ => assert_eq!(emu::work(none, 1e-3), 0),
        }
    }
    session.synchronize().unwrap();
    let stall = session.stats().unwrap().stall;
    drop(session);
    ok!(cuDevicePrimaryCtxRelease_v2(0));
    stall
}

#[test]
fn memory_given_back_is_filled_while_the_application_computes() {
    if !emu::inside("memory_given_back_is_filled_while_the_application_computes", &[]) {
        return;
    }
    for (snapshots, cache) in [(4, 2), (6, 3), (8, 4)] {
        let (kept, released) = (stall_of_zero_copy(snapshots, cache, false), stall_of_zero_copy(snapshots, cache, true));
        println!("{cache} slots: stall {:.1} ms, {:.1} ms where memory is given back", kept * 1e3, released * 1e3);
        assert!(released < 0.8 * kept, "{cache} slots: {kept} s, {released} s where memory is given back");
    }
}

/// The library's waits in one sweep, each by what it is for, in the order in which it makes them.
fn waits_of(plan: &Plan, index: &Index, two_streams: bool) -> Vec<&'static str> {
    let mut waits = Vec::new();
    let (mut reading, mut filling) = (vec![false; plan.device_slots as usize], vec![false; plan.device_slots as usize]);
    let mut fetches = plan.fetches.iter().peekable();
    for (e, (step, event)) in plan.steps.iter().zip(&index.events).enumerate() {
        let slot = step.slot as usize;
        let mut fetch = |waits: &mut Vec<_>, reading: &mut Vec<bool>, filling: &mut Vec<bool>, due: &dyn Fn(&Fetch) -> bool| {
            while let Some(fetch) = fetches.next_if(|f| due(f)) {
                let slot = plan.steps[fetch.event as usize].slot as usize;
                waits.push("upload: application");
                if std::mem::replace(&mut reading[slot], false) {
                    waits.push("upload: download of the slot");
                }
                waits.push("upload: host copy");
                filling[slot] = true;
            }
        };
        if e > 0 {
            waits.push(if two_streams { "application: its other stream" } else { "application: its call before" });
        }
        if !event.save {
            fetch(&mut waits, &mut reading, &mut filling, &|f| f.event as usize == e);
        }
        match (event.save, step.slot, step.host) {
            (true, NONE, _) => {}
            (true, _, host) => {
                if std::mem::replace(&mut reading[slot], host != NONE) {
                    waits.push("save: download of the slot");
                }
                if host != NONE {
                    waits.push("download: save");
                }
            }
            (false, NONE, _) => {}
            (false, ..) => {
                if std::mem::replace(&mut filling[slot], false) {
                    waits.push("restore: upload");
                }
            }
        }
        fetch(&mut waits, &mut reading, &mut filling, &|f| f.issue_after as usize <= e);
    }
    waits
}

/// A recorded schedule whose snapshots die in no order of a stack: what a wait is for may depend on that.
fn trace_of(seed: u64) -> String {
    let (mut draw, n) = (Draw(seed * 77 + 5), 10);
    let mut text = String::from("0 SAVE\n");
    let mut stored = vec![0];
    for ts in 1..n {
        text += &format!("{ts} FORWARD\n");
        if ts + 1 < n && draw.below(2) == 0 {
            text += &format!("{ts} SAVE\n");
            stored.push(ts);
        }
    }
    text += &format!("{} BACKWARD\n", n - 1);
    for ts in (0..n - 1).rev() {
        let below: Vec<u32> = stored.iter().copied().filter(|&s| s <= ts).collect();
        let from = below[draw.below(below.len() as u32) as usize];
        text += &format!("{from} RESTORE\n");
        (from + 1..=ts).for_each(|s| text += &format!("{s} FORWARD\n"));
        text += &format!("{ts} BACKWARD\n");
    }
    text + "0 TERMINATE\n"
}

/// The mutation check: for every kind of wait that the library makes, losing one is seen under some seed. None is there for nothing.
#[test]
fn every_wait_is_needed() {
    if !emu::inside("every_wait_is_needed", &[]) {
        return;
    }
    let mut seen: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut check = |config: Config, schedule: &Schedule, streams: Streams| {
        let waits = {
            let (plan, index) = (Plan::new(schedule, config.cache, config.policy).unwrap(), Index::new(schedule).unwrap());
            waits_of(&plan, &index, streams == Streams::Independent)
        };
        let job = Job {
            config: Config { max_in_flight: 1 << 20, ..config },
            steps: schedule.steps,
            devices: 1,
            shots: 1,
            streams,
            stubborn: false,
        };
        assert_eq!(emu::reset(1, emu::RANDOM, 1, MEMORY), 0);
        assert_eq!(run(&job, 1, host_syncs).unwrap().wrong, 0);
        assert_eq!(emu::calls("cuStreamWaitEvent"), waits.len() as u64, "{job:?}: {waits:?}");
        for (k, what) in (1..).zip(waits) {
            let (caught, all) = seen.entry(what).or_default();
            *all += 1;
            *caught += usize::from(loss_is_seen(&job, "wait", k));
        }
    };
    let stack = Schedule::revolve(14, 4).unwrap();
    for (cache, policy, streams) in [
        (1, Policy::Lru, Streams::Own),
        (2, Policy::Clairvoyant, Streams::Own),
        (2, Policy::Lru, Streams::Own),
        (2, Policy::Clairvoyant, Streams::Independent),
    ] {
        check(config(Algorithm::Revolve, 4, cache, policy), &stack, streams);
    }
    // With lru and two slots, state 2 is fetched after the restore of 0, when its download may have just begun.
    let early = "0 SAVE\n1 FORWARD\n1 SAVE\n2 FORWARD\n2 SAVE\n3 FORWARD\n4 FORWARD\n5 FORWARD\n5 BACKWARD\n0 RESTORE\n1 FORWARD\n\
                 2 FORWARD\n3 FORWARD\n3 SAVE\n4 FORWARD\n4 BACKWARD\n3 RESTORE\n3 BACKWARD\n2 RESTORE\n2 BACKWARD\n1 RESTORE\n\
                 1 BACKWARD\n0 RESTORE\n0 BACKWARD\n0 TERMINATE\n";
    for (number, text) in (0..TRACES).map(trace_of).chain([early.into()]).enumerate() {
        let path = common::tempdir("cuda-traces").join(format!("{number}.trace"));
        std::fs::write(&path, text).unwrap();
        let trace = Schedule::trace(std::sync::Arc::new(Trace::load(&path, None).unwrap()));
        for (cache, policy) in [(1, Policy::Clairvoyant), (2, Policy::Clairvoyant), (2, Policy::Lru), (3, Policy::Lru)] {
            check(Config { trace_file: Some(path.clone()), ..config(Algorithm::Trace, 0, cache, policy) }, &trace, Streams::Own);
        }
    }
    // On one stream this one is a matter of course; the library cannot tell one stream from another that got its handle.
    seen.remove("application: its call before");
    println!("waits whose loss was seen, of all: {seen:?}");
    assert_eq!(seen.len(), 7, "every kind of wait is made: {seen:?}");
    assert!(seen.values().all(|&(caught, _)| caught > 0), "{seen:?}");
}

/// Losing a record is seen as well: at the wait for it, or as an event that never gets a time.
#[test]
fn records_are_needed() {
    if !emu::inside("records_are_needed", &[]) {
        return;
    }
    let job = Job { steps: 14, ..reference(Policy::Clairvoyant, 2) };
    assert_eq!(emu::reset(1, emu::RANDOM, 1, MEMORY), 0);
    assert_eq!(run(&job, 1, host_syncs).unwrap().wrong, 0);
    let total = emu::calls("cuEventRecord");
    let seen = (1..=total).filter(|&k| loss_is_seen(&job, "record", k)).count() as u64;
    println!("{seen} of {total} lost records were seen");
    assert!(seen * 10 >= total * 9, "{seen} of {total}");
}

/// Whether losing the k-th operation of a kind gives wrong states, or an error, under some seed.
fn loss_is_seen(job: &Job, kind: &str, k: u64) -> bool {
    (0..400).any(|seed| {
        assert_eq!(emu::reset(seed, [emu::RANDOM, emu::LATE][seed as usize % 2], 1, MEMORY), 0);
        run_armed(job, seed, host_syncs, || emu::lose(kind, k)).map_or(true, |outcome| outcome.wrong > 0)
    })
}

/// The same application on the real driver: the orderings are those that the hardware makes, the check of every byte is the same.
#[test]
fn on_the_real_driver() {
    if std::env::var_os("GPUZIP_TEST_GPU").is_none() {
        println!("skipped: set GPUZIP_TEST_GPU=1 on a machine with a GPU");
        return;
    }
    let devices = gpuzip::device::cuda::devices().unwrap();
    println!("{devices:?}");
    for seed in 0..300 {
        let job = draw_job(seed);
        let job = Job { devices: job.devices.min(devices.len() as i32), ..job };
        let outcome = run(&job, seed, || 0).unwrap_or_else(|e| panic!("seed {seed}, {job:?}: {e}"));
        assert_eq!(outcome.wrong, 0, "seed {seed}: {job:?}");
        if job.config.policy == Policy::Clairvoyant {
            let outcome = run_zero_copy(&Job { devices: 1, ..job.clone() }, seed, || 0, || seed % 2 == 0)
                .unwrap_or_else(|e| panic!("seed {seed}, {job:?}: {e}"));
            assert_eq!(outcome.wrong, 0, "zero copy, seed {seed}: {job:?}");
        }
    }
}
