//! Sessions on the software CUDA driver whose snapshots go to disk: streams and the threads of the
//! disk wait for one another, in every order that the driver allows.

use crate::common::emu::emulated;
use crate::common::prelude::*;
use crate::common::{self, app, emu};
use app::{config, draw_job, emulate, run, run_armed, run_zero_copy, Draws, Job, Streams, MEMORY};
use emu::mode;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Whether every read and write of a file, which are those of the disk lanes, begins late.
static IS_SLOW: AtomicBool = AtomicBool::new(false);

/// Waits, if files are to be slow, for much longer than a thread that runs the streams takes to come
/// to its next wait.
fn begin_late() {
    if IS_SLOW.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_micros(500));
    }
}

/// The C library's function, which the library under test calls to read from disk.
#[no_mangle]
unsafe extern "C" fn pread64(file: c_int, to: *mut c_void, bytes: usize, at: i64) -> isize {
    begin_late();
    // SAFETY: the caller keeps the contract of the C function.
    unsafe { libc::syscall(libc::SYS_pread64, file, to, bytes, at) as isize }
}

/// The C library's function, which the library under test calls to write to disk.
#[no_mangle]
unsafe extern "C" fn pwrite64(file: c_int, from: *const c_void, bytes: usize, at: i64) -> isize {
    begin_late();
    // SAFETY: the caller keeps the contract of the C function.
    unsafe { libc::syscall(libc::SYS_pwrite64, file, from, bytes, at) as isize }
}

/// Bytes of a slot for a state of the application.
const SLOT: u64 = 1024;

/// Returns a configuration whose snapshots go to disk, with `slots` slots for states on the host.
fn on_disk(slots: u64, config: Config) -> Config {
    config.with(|c| {
        c.tiers.host_budget = slots * SLOT;
        c.tiers.disk_budget = 60 * 4096;
        c.tiers.disk_folders = vec![common::scratch("cuda-disk")];
        c.device.backend = Backend::Cuda;
    })
}

/// Draws a job whose snapshots go to disk.
fn job(seed: u64) -> Job {
    let algorithms = &[
        Algorithm::Revolve,
        Algorithm::TwoLevel,
        Algorithm::Zcut,
        Algorithm::Hrevolve,
        Algorithm::Online,
    ];
    let (snapshots, steps) = (8..16, 20..40);
    let job = draw_job(seed, &Draws { algorithms, lru: 3, snapshots, steps, ..Draws::PLAIN });
    Job { config: on_disk(4 + seed / 3 % 4, job.config), ..job }
}

/// Random jobs in all modes of the driver: every state is right.
#[test]
fn every_state_comes_back_from_disk() {
    emulated!();
    let (mut reads, mut writes) = (0, 0);
    for seed in 0..400 {
        let job = job(seed);
        let outcome = emulate(&job, seed, mode(seed), MEMORY, || run(&job, seed));
        reads += outcome.stats.iter().map(|stats| stats.disk_reads).sum::<u64>();
        writes += outcome.stats.iter().map(|stats| stats.disk_writes).sum::<u64>();
    }
    assert!(reads > 1000 && writes > 1000, "{reads} {writes}");
    assert!(emu::calls("cuStreamWaitValue32_v2") > 0);
}

/// A GPU's queues have 1024 places, and a call for a full queue waits: nobody waits for a call that the
/// waiting thread would make later, and the order of the calls stays. Here queues have 1 to 3 places.
#[test]
fn full_queues_make_the_host_wait_and_no_more() {
    let name = "full_queues_make_the_host_wait_and_no_more";
    if std::env::var_os("GPUZIP_TEST_EMULATED").is_none() {
        for places in ["1", "2", "3"] {
            emu::inside(name, &[("CUDA_EMU_QUEUE", places)]);
        }
        return;
    }
    for seed in 0..100 {
        let job = job(seed);
        emulate(&job, seed, mode(seed), MEMORY, || run(&job, seed));
        // Nothing is queued where operations run at once.
        assert!(emu::full_queues() > 0 || mode(seed) == emu::EARLY, "{seed}");
    }
    assert!(emu::calls("cuStreamWaitValue32_v2") > 0);
}

/// Jobs with zero copy.
#[test]
fn with_zero_copy_too() {
    emulated!();
    let mut reads = 0;
    for seed in 0..cases(50, 150) {
        let mut job = job(seed);
        let config = &mut job.config;
        if config.schedule.algorithm == Some(Algorithm::Online)
            || config.tiers.policy == Policy::Lru
        {
            continue;
        }
        if matches!(job.streams, Streams::Independent) {
            job.streams = Streams::Own;
        }
        let mut turn = seed;
        let releases = || {
            turn += 1;
            turn % 3 == 0
        };
        let shot = || run_zero_copy(&job, seed, releases, || {});
        let outcome = emulate(&job, seed, mode(seed), MEMORY, shot);
        reads += outcome.stats.iter().map(|stats| stats.disk_reads).sum::<u64>();
    }
    assert!(reads > 100, "{reads}");
}

/// Jobs with a codec, whose kernels make snapshots of different sizes; with queues of a GPU's size, and
/// with queues that are full all the time.
#[test]
fn with_a_codec_too() {
    if std::env::var_os("GPUZIP_TEST_EMULATED").is_none() {
        let images = emu::images().display().to_string();
        for places in ["1024", "2"].iter().filter(|_| common::have("c++")) {
            let variables = [("GPUZIP_CACHE_DIR", images.as_str()), ("CUDA_EMU_QUEUE", places)];
            emu::inside("with_a_codec_too", &variables);
        }
        return;
    }
    let mut reads = 0;
    let seeds = cases(12, 60);
    for seed in 0..seeds {
        let mut job = job(seed);
        let method = [Method::Fp16, Method::Lorenzo][seed as usize % 2].clone();
        job.config.codec.settings = coding(method, ErrorBound::DEFAULT);
        // A snapshot may be larger than a raw state.
        job.config.tiers.host_budget *= 2;
        job.config.tiers.disk_budget *= 2;
        let outcome = emulate(&job, seed, mode(seed), 1 << 26, || run(&job, seed));
        reads += outcome.stats.iter().map(|stats| stats.disk_reads).sum::<u64>();
    }
    assert!(reads > seeds, "{reads}");
}

/// A driver whose streams cannot wait for numbers in memory: the calling thread waits instead.
#[test]
fn without_waits_for_numbers_the_host_waits() {
    emulated!();
    const NOT_SUPPORTED: i32 = 801;
    for seed in 0..60 {
        let job = job(seed);
        let arm = || emu::fail("cuStreamWaitValue32_v2", -1, NOT_SUPPORTED);
        emulate(&job, seed, mode(seed), MEMORY, || run_armed(&job, seed, arm));
    }
}

/// Driver calls that fail, one after the other: the job ends with an error or with right states, and
/// never hangs.
#[test]
fn a_failing_driver_ends_no_job_wrongly() {
    emulated!();
    const ILLEGAL_ADDRESS: i32 = 700;
    let mut failed = 0;
    for name in ["cuStreamWaitValue32_v2", "cuEventSynchronize", "cuEventRecord", "exec", "*"] {
        for k in 1..40 {
            let seed = 3 * k + 1;
            // What was left by a failure cannot be freed, so that the driver cannot always start
            // again.
            if emu::reset(seed, mode(seed), 1, MEMORY) != 0 {
                continue;
            }
            let job = job(seed);
            let arm = || emu::fail(name, 5 * k as i64, ILLEGAL_ADDRESS);
            // The application panics if a call of its own fails.
            let run = std::panic::AssertUnwindSafe(|| run_armed(&job, seed, arm));
            match std::panic::catch_unwind(run) {
                Ok(Ok(outcome)) => assert_eq!(outcome.wrong, 0, "{name} {k}"),
                Ok(Err(error)) => {
                    let expected = [Code::Device, Code::Memory, Code::Io].contains(&error.code);
                    assert!(expected, "{name} {k}: {error}");
                    failed += 1;
                }
                Err(_) => {}
            }
        }
    }
    assert!(failed > 5, "{failed}");
}

/// The job of `lost_waits_are_seen`.
fn small_job(cache: u32) -> Job {
    app::job(on_disk(5, config(Algorithm::Revolve, 9, cache, Policy::Clairvoyant)), 24)
}

/// Whether a run of `small_job` without the `k`-th wait ends with a wrong state or an error, for some
/// seed.
fn is_loss_seen(kind: &str, k: u64, cache: u32) -> bool {
    (0..240).any(|seed| {
        assert_eq!(emu::reset(seed, mode(seed), 1, MEMORY), 0, "{seed}");
        let outcome = run_armed(&small_job(cache), seed, || emu::lose(kind, k));
        outcome.map_or(true, |outcome| outcome.wrong > 0)
    })
}

/// Without any one wait of a stream for a disk lane (`value`), some seed shows a wrong state or an
/// error, and so it is without most waits of a disk lane for a stream (`sync`, which counts the waits
/// of the application, too): the waits for and of disk lanes have a reason. The wait of the lane of
/// reads for that of writes is between two threads of the library, and a read without it is an error
/// at once (`DiskSpace::read`).
#[test]
fn lost_waits_are_seen() {
    emulated!();
    // A stream that no wait holds back must overtake the disk lanes, however fast this machine's disk
    // and threads are.
    IS_SLOW.store(true, Ordering::Relaxed);
    for (cache, waits) in [(0, 6), (2, 10)] {
        for k in 1..=waits {
            assert!(is_loss_seen("value", k, cache), "the loss of wait {k} of {waits}");
        }
    }
    IS_SLOW.store(false, Ordering::Relaxed);
    let tried = [0, 2].iter().flat_map(|&cache| (1..16).map(move |k| (k, cache)));
    let seen = tried.filter(|&(k, cache)| is_loss_seen("sync", k, cache)).count();
    println!("the loss of {seen} of 30 waits of disk lanes and the application is seen");
    assert!(seen >= 15, "{seen}");
}

/// A session for many snapshots makes as many events of the driver as one for few: an event takes
/// memory of the device, and a pool may have 10^5 slots.
#[test]
fn the_number_of_events_does_not_depend_on_the_slots_of_the_pool() {
    emulated!();
    let made = |steps: u32, disk_budget: u64| {
        let plain = config(Algorithm::StoreAll, 0, 2, Policy::Clairvoyant);
        let slots = if disk_budget > 0 { 5 } else { 0 };
        let config = on_disk(slots, plain).with(|c| {
            c.tiers.disk_budget = disk_budget;
            c.device.max_in_flight = 4;
        });
        let job = Job { shots: 2, ..app::job(config, steps) };
        let outcome = emulate(&job, 1, emu::EARLY, 16 * MEMORY, || run(&job, 1));
        assert!(outcome.stats[0].d2h_bytes > 0);
        emu::calls("cuEventCreate")
    };
    // A thread that reads or writes a file holds the event it waits for, so that the next transfer
    // needs another one: with a disk, time decides about at most one event for each of the four
    // staging buffers. In some run of 30 it decides alike for both numbers of slots.
    for (disk_budget, apart) in [(0, 0), (1 << 21, 4)] {
        let is_equal = (0..30).any(|_| {
            let (few, many) = (made(20, disk_budget), made(400, disk_budget));
            println!("{few} events, {many} with 20 times as many slots");
            assert!(few > 0 && many.abs_diff(few) <= apart);
            many == few
        });
        assert!(is_equal);
    }
}
