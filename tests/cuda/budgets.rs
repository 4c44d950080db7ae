//! Budgets in bytes on the CUDA backend, on the software CUDA driver, which counts the bytes that
//! are allocated.

use crate::common::emu::emulated;
use crate::common::prelude::*;
use crate::common::{app, emu, here, only_if};
use app::{run_armed, run_tuned, run_zero_copy, Draw, Job, Outcome, MEMORY};
use gpuzip::choice::choose_among;
use gpuzip::error::Error;
use gpuzip::plan::spare_bytes;
use gpuzip::session::{estimate, Estimate};
use std::cell::Cell;

/// Bytes of a snapshot.
const SLOT: u64 = 1024;

/// The most bytes of device memory and of host memory that a run took, without the application's
/// own memory.
type Taken = (u64, u64);

fn run(job: &Job, seed: u64) -> (Result<Outcome>, Taken) {
    let own = Cell::new((0, 0));
    let arm = || own.set((emu::counters().device_bytes, emu::counters().host_bytes));
    let result = match job.config.tiers.zero_copy {
        true => run_zero_copy(job, seed, || seed % 2 == 0, arm),
        false => run_armed(job, seed, arm),
    };
    let (peak, (device, host)) = (emu::counters(), own.get());
    (result, (peak.peak_device_bytes - device, peak.peak_host_bytes - host))
}

/// Draws a device budget and a host budget: any number of bytes, or 0 for no budget.
pub fn draw_budgets(draw: &mut Draw) -> (u64, u64) {
    let mut budget = |most: u64| {
        let bytes = SLOT + u64::from(draw.below((most * SLOT) as u32));
        [0, bytes][usize::from(draw.below(4) > 0)]
    };
    (budget(9), budget(14))
}

/// Draws a job with budgets.
fn draw(seed: u64) -> Job {
    let mut draw = Draw((seed + 1).wrapping_mul(0x2545_f491_4f6c_dd1d) | 1);
    let (device_budget, host_budget) = draw_budgets(&mut draw);
    let algorithm =
        [None, Some(Algorithm::Revolve), Some(Algorithm::Uniform), Some(Algorithm::TwoLevel)]
            [draw.below(4) as usize];
    let config = Config::default().with(|c| {
        c.schedule.algorithm = algorithm;
        c.tiers.device_budget = device_budget;
        c.tiers.host_budget = host_budget;
        c.schedule.snapshots = [0, 0, 1 + draw.below(9)][draw.below(3) as usize];
        c.tiers.cache = [0, 0, 1 + draw.below(6)][draw.below(3) as usize];
        c.tiers.policy =
            [Policy::Clairvoyant, Policy::Clairvoyant, Policy::Lru][draw.below(3) as usize];
    });
    let zero_copy = config.tiers.policy == Policy::Clairvoyant && draw.below(2) == 0;
    app::job(config.with(|c| c.tiers.zero_copy = zero_copy), 1 + draw.below(30))
}

/// Whether the error says that there is no plan within the budgets.
fn is_of_plan(error: &Error) -> bool {
    matches!(error.code, Code::Budget | Code::Config)
}

/// Checks that a job keeps its budgets; what a codec's reports take of host memory, `reports` bytes, is
/// beside the budget. Returns whether the job ran: then all states are right, and the statistics give
/// the bytes exactly. Otherwise there was no plan.
pub fn keeps_budgets(job: &Job, seed: u64, mode: i32, reports: u64) -> bool {
    assert_eq!(emu::reset(seed, mode, 1, MEMORY), 0);
    let (result, (device, host)) = run(job, seed);
    let (device_budget, host_budget) =
        (job.config.tiers.device_budget, job.config.tiers.host_budget);
    let within = (device_budget == 0 || device <= device_budget)
        && (host_budget == 0 || host <= host_budget + reports);
    assert!(within, "seed {seed}: {device} and {host} bytes, {job:?}");
    let outcome = match result {
        Ok(outcome) => outcome,
        Err(error) => {
            assert!(is_of_plan(&error), "seed {seed}: {error}, {job:?}");
            return false;
        }
    };
    assert_eq!(outcome.wrong, 0, "seed {seed}: {job:?}");
    let stats = &outcome.stats[0];
    let (told, taken) = ((stats.peak_device_bytes, stats.peak_host_bytes), (device, host));
    match reports {
        0 => assert_eq!(told, taken, "seed {seed}: {job:?}"),
        _ => assert!(told.0 <= taken.0, "seed {seed}: {told:?}, {taken:?}, {job:?}"),
    }
    true
}

#[test]
fn budgets_are_kept_to_the_byte() {
    emulated!();
    let (mut kept, mut refused) = (0, 0);
    for seed in 0..cases(500, 3000) {
        let is_kept = keeps_budgets(&draw(seed), seed, emu::RANDOM, 0);
        *(if is_kept { &mut kept } else { &mut refused }) += 1;
    }
    println!("{kept} runs within their budgets, {refused} refused");
    assert!(kept > 2 * refused && refused > 0);
}

/// Returns the bytes of device memory that a job takes on a device with enough memory.
fn planned(job: &Job) -> u64 {
    let plan = choose_among(&job.config, job.steps, &[vec![app::raw_tiers(&job.config, SLOT)]])
        .unwrap()
        .plans[0]
        .clone();
    u64::from(plan.device_slots) * SLOT + spare_bytes(plan.zero_copy, false, 1, plan.cache, SLOT)
}

/// If a device has less memory than the budget allows, the cache shrinks to the memory that there
/// is, or an error says that there is too little.
#[test]
fn a_device_with_less_than_the_budget_shrinks_the_cache() {
    emulated!();
    let (mut runs, mut shrunk, mut refused) = (0, 0, 0);
    let seeds = cases(500, 3000);
    for seed in 0..seeds {
        let job = draw(seed);
        let room = seed % 7 * SLOT + seed % 5;
        // The application's fields take 384 and 264 bytes of the device.
        assert_eq!(emu::reset(seed, emu::RANDOM, 1, 384 + 264 + room), 0);
        let (result, (device, host)) = run(&job, seed);
        assert!(
            device <= room
                && (job.config.tiers.host_budget == 0 || host <= job.config.tiers.host_budget),
            "seed {seed}: {device}, {host}, {job:?}"
        );
        match result {
            Ok(outcome) => {
                assert_eq!(outcome.wrong, 0, "seed {seed}: {job:?}");
                runs += 1;
                shrunk += u64::from(device < planned(&job));
            }
            Err(error) => {
                // With zero copy, a session without cache slots still needs memory for two states.
                let needs_more =
                    error.code == Code::Memory && job.config.tiers.zero_copy && room < 2 * SLOT;
                assert!(needs_more || is_of_plan(&error), "seed {seed}: {error}, {job:?}");
                refused += 1;
            }
        }
    }
    println!("{runs} runs, {shrunk} of them with a smaller cache, {refused} refused");
    assert!(runs > refused && 10 * shrunk > seeds);
}

/// Of the memory that is free when a session opens its device, the session's cache leaves
/// `device_reserve` bytes: the application can allocate them later. The default, an eighth of these
/// small devices, is left, too. A session takes what it needs beside its cache all the same.
#[test]
fn the_device_reserve_is_left_to_the_application() {
    emulated!();
    let (mut with_cache, mut without) = (0, 0);
    let seeds = cases(300, 1000);
    for seed in 0..seeds {
        let mut job = draw(seed);
        job.config.tiers.device_reserve = [0, 1, 3 * SLOT, 7 * SLOT][seed as usize % 4];
        let (room, own) = (seed % 12 * SLOT + seed % 5, 384 + 264);
        let reserve = job.config.reserve_of(own + room);
        assert_eq!(emu::reset(seed, emu::RANDOM, 1, own + room), 0);
        let (result, (device, _)) = run(&job, seed);
        let beside = spare_bytes(job.config.tiers.zero_copy, false, 1, 0, SLOT);
        assert!(
            device <= beside || device + reserve <= room,
            "seed {seed}: {device} of {room} bytes, of which {reserve} are reserved: {job:?}"
        );
        if let Ok(outcome) = result {
            assert_eq!(outcome.wrong, 0, "seed {seed}: {job:?}");
            with_cache += u64::from(device > beside);
            without += u64::from(device <= beside && planned(&job) > beside);
        }
    }
    println!("{with_cache} runs with a cache, {without} whose cache left no memory");
    assert!(10 * with_cache > 3 * seeds && 10 * without > seeds);
}

/// A budget that does not fit beside the reserve gives a smaller cache, and the log says which
/// settings decide.
#[test]
fn a_budget_that_does_not_fit_beside_the_reserve_is_named() {
    emulated!();
    static WARNING: std::sync::Mutex<String> = std::sync::Mutex::new(String::new());
    struct Keep;
    impl log::Log for Keep {
        fn enabled(&self, _: &log::Metadata) -> bool {
            true
        }
        fn log(&self, record: &log::Record) {
            if record.level() == log::Level::Warn {
                *WARNING.lock().unwrap() = record.args().to_string();
            }
        }
        fn flush(&self) {}
    }
    log::set_logger(&Keep).unwrap();
    log::set_max_level(log::LevelFilter::Warn);
    let config = Config::default().with(|c| {
        c.schedule.algorithm = Some(Algorithm::Revolve);
        c.device.backend = Backend::Cuda;
        c.device.ordinal = Some(0);
        c.schedule.snapshots = 8;
        c.tiers.device_budget = 8 * SLOT;
        c.tiers.device_reserve = 5 * SLOT;
    });
    let fields = unplaced(&[field([128, 1, 1], Scalar::F64)]);
    let bytes = |capacity: u64| {
        assert_eq!(emu::reset(1, emu::EARLY, 1, capacity), 0);
        let session = Session::new(config.clone(), 20, &fields).unwrap();
        session.plan().unwrap();
        emu::counters().device_bytes
    };
    assert_eq!((bytes(13 * SLOT), WARNING.lock().unwrap().as_str()), (8 * SLOT, ""));
    let taken = bytes(13 * SLOT - 1);
    assert!((SLOT..8 * SLOT).contains(&taken), "{taken}");
    let warning = WARNING.lock().unwrap().clone();
    for part in ["8192 bytes", "13311 are free", "5120", "device_budget", "device_reserve"] {
        assert!(warning.contains(part), "{part} in {warning}");
    }
}

/// The working memory of a codec counts toward the budgets, too.
#[test]
fn compression_keeps_the_budgets() {
    emulated!(kernels);
    let (mut kept, mut refused) = (0, 0);
    for seed in 0..cases(50, 150) {
        let mut job = draw(seed);
        let mut draw = Draw(seed + 99);
        job.config.tiers.device_budget =
            [0, 5000 + u64::from(draw.below(8000))][usize::from(seed % 4 > 0)];
        job.config.codec.settings = coding(Method::Fp16, ErrorBound::DEFAULT);
        job.config.codec.compression_factor = f64::from(draw.below(3));
        job.config.tiers.zero_copy = false;
        let is_kept = keeps_budgets(&job, seed, emu::RANDOM, REPORTS);
        *(if is_kept { &mut kept } else { &mut refused }) += 1;
    }
    println!("{kept} runs within their budgets, {refused} refused");
    assert!(kept > refused && refused > 0);
}

/// Bytes of a segment in the tests of page-locked memory: snapshots cross the borders of segments.
const SEGMENT: u64 = 700;
/// Bytes of the page-locked reports of a codec, which are outside the budget: 48 for each of the last 66
/// snapshots.
const REPORTS: u64 = 66 * 48;

/// Returns a job whose snapshots go to the host, raw or (`is_coded`) compressed, without budgets.
fn pooled(seed: u64, is_coded: bool) -> Job {
    let method = if is_coded { Method::Fp16 } else { Method::None };
    let mut job = draw(seed);
    job.config = job.config.with(|c| {
        c.schedule.algorithm = Some(Algorithm::Revolve);
        c.schedule.snapshots = 6 + seed as u32 % 5;
        c.tiers.cache = seed as u32 % 3;
        c.tiers.device_budget = 0;
        c.tiers.host_budget = 0;
        c.tiers.zero_copy = false;
        c.codec.settings = coding(method, ErrorBound::DEFAULT);
    });
    Job { steps: 30, shots: 2, ..job }
}

/// Runs the test `name` as `emu::inside` does, with kernels and with small segments.
fn inside_with_segments(name: &str) -> bool {
    let inside = emu::with_kernels(name);
    if inside {
        gpuzip::device::cuda::set_segment_bytes(SEGMENT);
    }
    inside
}

/// A pool of compressed snapshots without a budget is page-locked as far as snapshots have needed it,
/// not for snapshots that are as large as they can be. Copies may cross the borders of segments.
#[test]
fn the_pool_grows_as_snapshots_need_it() {
    only_if!(inside_with_segments(here!()));
    let mut most = 0;
    for seed in 0..cases(24, 60) {
        let is_coded = seed % 3 > 0;
        let job = pooled(seed, is_coded);
        let mode = [emu::RANDOM, emu::LATE, emu::EARLY][seed as usize / 3 % 3];
        assert_eq!(emu::reset(seed, mode, 1, MEMORY), 0);
        let (result, (_, host)) = run(&job, seed);
        let outcome = result.unwrap();
        assert_eq!(outcome.wrong, 0, "seed {seed}: {job:?}");
        let peak = outcome.stats.iter().map(|stats| stats.peak_host_bytes).max().unwrap();
        if !is_coded {
            assert_eq!(host, peak, "seed {seed}: {job:?}");
            continue;
        }
        let needed = peak.next_multiple_of(SEGMENT).max(SEGMENT) + REPORTS;
        assert!(host <= needed, "seed {seed}: {host} bytes, {needed} are needed: {job:?}");
        most = most.max(peak);
    }
    assert!(most > 3 * SEGMENT, "{most}");
}

/// Where the system allows less page-locked memory than a session wants, the session page-locks what
/// it can, and the statistics tell the rest.
#[test]
fn what_can_be_page_locked_is() {
    only_if!(inside_with_segments(here!()));
    let mut partial = 0;
    for seed in 0..40 {
        let is_coded = seed % 2 == 1;
        let job = Job { shots: 1, ..pooled(seed, is_coded) };
        assert_eq!(emu::reset(seed, emu::RANDOM, 1, MEMORY), 0);
        let reports = if is_coded { REPORTS } else { 0 };
        let room = reports + seed % 4 * SEGMENT;
        let (own, pageable) = (Cell::new(0), Cell::new(0));
        let arm = || {
            own.set(emu::counters().host_bytes);
            emu::pin_at_most(own.get() + room);
        };
        let tell = |session: &mut Session| {
            pageable.set(session.pageable_bytes());
            Ok(())
        };
        let outcome = run_tuned(&job, seed, arm, |_| Ok(()), tell).unwrap();
        let locked = emu::counters().peak_host_bytes - own.get();
        assert_eq!(outcome.wrong, 0, "seed {seed}: {job:?}");
        if pageable.get() > 0 {
            assert_eq!(locked, room, "seed {seed}: {job:?}");
            partial += u64::from(room > reports);
        }
        if !is_coded {
            let wanted = outcome.stats[0].peak_host_bytes;
            assert_eq!(locked + pageable.get(), wanted, "seed {seed}: {job:?}");
        }
    }
    assert!(partial > 10, "{partial}");
}

/// Host memory comes from the NUMA node next to the device: node 0, as the software driver says.
#[test]
fn host_memory_is_close_to_the_device() {
    let preferred = || {
        let maps = std::fs::read_to_string("/proc/self/numa_maps").unwrap_or_default();
        maps.lines().filter(|line| line.contains(" prefer:0")).count()
    };
    only_if!(inside_with_segments(here!()));
    if !system_takes_preferences() {
        println!("skipped: this system takes no preferences of NUMA nodes");
        return;
    }
    assert_eq!(emu::reset(1, emu::RANDOM, 1, MEMORY), 0);
    let (before, most) = (preferred(), Cell::new(0));
    let tell = |_: &mut Session| {
        most.set(preferred());
        Ok(())
    };
    let job = Job { shots: 1, ..pooled(0, false) };
    run_tuned(&job, 1, || {}, |_| Ok(()), tell).unwrap();
    assert!(most.get() > before, "{} mappings with a preferred node", most.get());
}

/// Whether `mbind` works here: kernels without NUMA and some containers refuse it.
fn system_takes_preferences() -> bool {
    let bytes = 4096;
    let (access, kind) = (libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping of one page, for which the preferred node is set, and which is unmapped.
    unsafe {
        let page = libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0);
        let node = 1u64;
        let preferred = libc::syscall(
            libc::SYS_mbind,
            page,
            bytes,
            libc::MPOL_PREFERRED,
            &raw const node,
            65,
            0,
        );
        libc::munmap(page, bytes);
        preferred == 0 && std::path::Path::new("/proc/self/numa_maps").exists()
    }
}

const METHODS: [Method; 7] = [
    Method::None,
    Method::Fp16,
    Method::Bfp,
    Method::Zfp { rate: 11 },
    Method::Cuszp,
    Method::Lorenzo,
    Method::Dct,
];

/// Returns states with fields of one, two and three dimensions, of both types, with and without
/// pairs of time levels. The fields have no memory yet.
fn states() -> Vec<Vec<AppField>> {
    let state = |fields: &[([u64; 3], Scalar, Option<u32>)]| {
        let field = |&(n, scalar, previous_of)| Field { n, scalar, previous_of };
        unplaced(&fields.iter().map(field).collect::<Vec<_>>())
    };
    vec![
        state(&[([5, 1, 1], Scalar::F32, None)]),
        state(&[([33, 31, 1], Scalar::F64, None), ([33, 31, 1], Scalar::F64, Some(0))]),
        state(&[
            ([40, 9, 17], Scalar::F32, None),
            ([2100, 1, 1], Scalar::F64, None),
            ([40, 9, 17], Scalar::F32, Some(0)),
        ]),
    ]
}

/// Returns the bytes of device memory that a new session takes, and the number of slots in its
/// device cache.
fn taken(config: &Config, state: &[AppField]) -> Result<(u64, u32)> {
    assert_eq!(emu::reset(1, emu::EARLY, 1, 1 << 30), 0);
    let session = Session::new(config.clone(), 20, state)?;
    let slots = session.plan()?.device_slots;
    drop(session);
    Ok((emu::counters().peak_device_bytes, slots))
}

fn estimated(config: &Config, state: &[AppField]) -> u64 {
    let Estimate { choice, tiers, .. } = estimate(config.clone(), 20, state).unwrap();
    tiers.device_bytes(&choice.plans[0])
}

/// The estimated bytes are the bytes that a session takes. A budget of these bytes is enough; with
/// one byte less the session is refused, or has fewer slots.
#[test]
fn estimates_are_exact() {
    emulated!(kernels);
    let (mut refused, mut fewer) = (0, 0);
    for (k, state) in states().iter().enumerate() {
        for (m, method) in METHODS.into_iter().enumerate() {
            for cache in [0, 3] {
                let config = Config::default().with(|c| {
                    c.schedule.algorithm = Some(Algorithm::Revolve);
                    c.device.backend = Backend::Cuda;
                    c.device.ordinal = Some(0);
                    c.schedule.snapshots = 6;
                    c.tiers.cache = cache;
                    c.tiers.zero_copy = (k + m + cache as usize) % 3 == 0;
                    c.codec.settings = coding(method.clone(), ErrorBound::DEFAULT);
                    c.codec.compression_factor = [0.0, 2.7][m % 2];
                });
                let bytes = estimated(&config, state);
                let slots = taken(&config, state).unwrap().1;
                assert_eq!(taken(&config, state).unwrap(), (bytes, slots), "{config:?}");
                if bytes == 0 {
                    continue;
                }
                let exact = config.clone().with(|c| c.tiers.device_budget = bytes);
                // Two spare slots, without a cache, are a cache of two slots in a budget of their bytes.
                let is_raw = config.codec.settings.method == Method::None;
                let slots = if config.tiers.zero_copy && is_raw { slots.max(2) } else { slots };
                assert_eq!(
                    (estimated(&exact, state), taken(&exact, state).unwrap()),
                    (bytes, (bytes, slots)),
                    "{exact:?}"
                );
                match taken(&config.clone().with(|c| c.tiers.device_budget = bytes - 1), state) {
                    Err(error) => {
                        assert_eq!((error.code, cache), (Code::Budget, 0), "{error}");
                        refused += 1;
                    }
                    Ok((less, left)) => {
                        assert!(
                            less < bytes && left < slots,
                            "{less} of {bytes} bytes, {left} of {slots} slots: {config:?}"
                        );
                        fewer += 1;
                    }
                }
                // If only the budget limits the number of slots, the session takes as many slots as
                // the budget holds, and the estimate is exact.
                let some = config.with(|c| {
                    c.tiers.device_budget = bytes + 70_000;
                    c.tiers.cache = 0;
                });
                let bytes = estimated(&some, state);
                assert!(bytes <= some.tiers.device_budget);
                assert_eq!(taken(&some, state).unwrap().0, bytes, "{some:?}");
            }
        }
    }
    assert_eq!((refused, fewer), (19, 21));
}

/// Memory that others take later is not missed: a session takes its own when it opens the device, at
/// init or at its first action, and asks for no more. Every allocation of the second shot fails here.
#[test]
fn memory_that_runs_out_after_init_is_not_needed() {
    emulated!(&[("GPUZIP_CACHE_DIR", emu::images().to_str().unwrap())]);
    let mut shots = 0;
    for seed in 0..60 {
        for function in ["cuMemAlloc_v2", "cuMemHostAlloc"] {
            let mut job = Job { shots: 2, ..draw(seed) };
            job.config.tiers.zero_copy = false;
            if seed % 4 == 0 {
                job.config.codec.settings = coding(Method::Fp16, ErrorBound::DEFAULT);
            }
            assert_eq!(emu::reset(seed, emu::RANDOM, 1, MEMORY), 0);
            let begun = Cell::new(0);
            let full = |_: &mut Session| {
                begun.set(begun.get() + 1);
                if begun.get() == 2 {
                    emu::fail(function, -1, 2);
                }
                Ok(())
            };
            let result = run_tuned(&job, seed, || {}, full, |_| Ok(()));
            assert_eq!(emu::struck(), None, "{function} in the second shot: {job:?}");
            emu::fail(function, 0, 0);
            match result {
                Ok(outcome) => {
                    assert_eq!(outcome.wrong, 0, "{job:?}");
                    shots += outcome.stats.len();
                }
                // Some draws have no plan.
                Err(error) => {
                    assert!(begun.get() < 2 && is_of_plan(&error), "{job:?}: {error}")
                }
            }
        }
    }
    assert!(shots > 100, "{shots}");
}
