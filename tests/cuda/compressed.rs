//! Compressed snapshots on the CUDA backend, on the software driver: every restored state is what
//! the host's codec gives, in whatever order operations run, and the host never waits for the
//! device.

use crate::common::cases::cases;
use crate::common::{self, app, emu, nvcomp};
use app::{config, host_syncs, ok, run, run_zero_copy, shapes, Draw, Job, Streams};
use gpuzip::codec::{ErrorBound, Method, Settings, CODECS};
use gpuzip::config::{Backend, Config};
use gpuzip::device::{AppField, AppMemory, Stream};
use gpuzip::error::Code;
use gpuzip::layout::{Field, Layout};
use gpuzip::plan::Policy;
use gpuzip::scalar::Scalar;
use gpuzip::schedule::Algorithm;
use gpuzip::session::Session;
use gpuzip::tier::SnapshotCoder;

/// Bytes of device memory, for staging buffers, working memory of kernels, slots, and the
/// application's fields.
const MEMORY: u64 = 1 << 26;

/// All codecs that have kernels, with zfp at another rate than the default and both algorithms of Bitcomp.
fn methods() -> Vec<Method> {
    let with_kernels = CODECS.iter().filter(|codec| codec.has_kernels());
    let own = with_kernels.map(|codec| match &codec.method {
        Method::Zfp { .. } => Method::Zfp { rate: 11 },
        method => method.clone(),
    });
    let coded = own.filter(|method| *method != Method::None);
    coded.chain([Method::Bitcomp { sparse: true }]).collect()
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
        Algorithm::Online,
    ];
    let algorithm = algorithms[draw.below(7) as usize];
    let lru = draw.below(4) == 0 && algorithm != Algorithm::Online;
    let policy = if lru { Policy::Lru } else { Policy::Clairvoyant };
    let methods = methods();
    let method = methods[draw.below(methods.len() as u32) as usize].clone();
    let config = Config {
        max_in_flight: [1, 3, 64][draw.below(3) as usize],
        compression: Settings { method, bound: ErrorBound::OfMax(1e-3), reject_nonfinite: false },
        compression_factor: [0.0, 2.0, 4.0][draw.below(3) as usize],
        range_actions: draw.below(2) == 0,
        ..config(algorithm, 1 + draw.below(9), draw.below(6), policy)
    };
    let streams = [Streams::Default, Streams::Own, Streams::Alternating, Streams::Independent]
        [draw.below(4) as usize];
    let (steps, devices, shots) = (1 + draw.below(20), 1 + draw.below(2) as i32, 1 + draw.below(2));
    Job { config, steps, devices, shots, streams, stubborn: false }
}

fn inside(name: &str) -> bool {
    inside_with(name, &nvcomp::stand_in("whole", "-DWHOLE"))
}

#[test]
fn every_restore_is_that_of_the_host_codec() {
    if !inside("every_restore_is_that_of_the_host_codec") {
        return;
    }
    let seeds = cases(50, 5000);
    for seed in 0..seeds {
        let mode = [emu::RANDOM, emu::RANDOM, emu::LATE, emu::EARLY, emu::TIMED][seed as usize % 5];
        let job = draw_job(seed);
        assert_eq!(emu::reset(seed, mode, job.devices, MEMORY), 0, "left over before seed {seed}");
        let outcome =
            run(&job, seed, host_syncs).unwrap_or_else(|e| panic!("seed {seed}, {job:?}: {e}"));
        let left = emu::counters();
        assert_eq!(
            (left.streams, left.events, left.allocations, left.host_allocations, left.retained),
            (0, 0, 0, 0, 0),
            "seed {seed}: {left:?}"
        );
        assert_eq!(outcome.wrong, 0, "seed {seed}, mode {mode}: {job:?}");
    }
}

/// Mixed storage, with copies and with zero copy: raw states come back bit by bit, coded ones as the
/// host's codec gives them, and the device budget is kept to the byte.
#[test]
fn raw_and_coded_snapshots_beside_one_another() {
    if !inside("raw_and_coded_snapshots_beside_one_another") {
        return;
    }
    let layout = Layout::new(shapes()).unwrap();
    let seeds: u64 = cases(40, 3000);
    let mut both = 0;
    for seed in 0..seeds {
        let mode = [emu::RANDOM, emu::RANDOM, emu::LATE, emu::EARLY, emu::TIMED][seed as usize % 5];
        let mut draw = Draw((seed + 7).wrapping_mul(0x2545_f491_4f6c_dd1d) | 1);
        let zero_copy = seed % 2 == 1;
        let mut job = draw_job(seed);
        job.steps += 12;
        let compression = &job.config.compression;
        let spare = if zero_copy { 2 } else { 0 };
        let states = u64::from(draw.below(4)) + 4 + spare;
        let device_budget =
            SnapshotCoder::gpu_bytes(compression, &layout).unwrap() + states * layout.slot_bytes;
        if job.config.algorithm == Some(Algorithm::Online) {
            job.config.algorithm = Some(Algorithm::Revolve);
        }
        job.config = Config {
            policy: Policy::Clairvoyant,
            mixed_storage: Some(true),
            compression_factor: 2.0 + f64::from(draw.below(2)),
            device_budget,
            cache: 0,
            snapshots: job.config.snapshots + 6,
            ..job.config
        };
        assert_eq!(emu::reset(seed, mode, job.devices, MEMORY), 0, "left over before seed {seed}");
        let releases = || seed % 4 == 1;
        let outcome = match zero_copy {
            true => run_zero_copy(&Job { devices: 1, ..job.clone() }, seed, host_syncs, releases),
            false => run(&job, seed, host_syncs),
        };
        let outcome = match outcome {
            // The rate of zfp decides the bytes of a snapshot, which may leave no room for raw ones.
            Err(error) if error.code == Code::Budget => continue,
            outcome => outcome.unwrap_or_else(|e| panic!("seed {seed}, {job:?}: {e}")),
        };
        assert_eq!(outcome.wrong, 0, "seed {seed}, mode {mode}: {job:?}");
        for stats in &outcome.stats {
            assert!(stats.peak_device_bytes <= device_budget, "seed {seed}: {stats:?}, {job:?}");
            both += u32::from(stats.d2h > 0 && stats.write_backs_avoided > 0);
        }
    }
    println!("{both} shots with raw and coded snapshots");
    assert!(both as u64 > seeds / 2, "{both} of {seeds}");
}

/// The host never waits for a device that keeps up, and compressed bytes cross the link.
#[test]
fn steady_state_never_waits() {
    if !inside("compressed::steady_state_never_waits") {
        return;
    }
    let bitcomp = Method::Bitcomp { sparse: false };
    for (method, cache, compression_factor) in [
        (Method::Fp16, 0, 0.0),
        (Method::Fp16, 1, 0.0),
        (Method::Fp16, 3, 0.0),
        (Method::Fp16, 3, 2.0),
        (bitcomp.clone(), 0, 0.0),
        (bitcomp, 3, 2.0),
    ] {
        let base = app::reference(Policy::Clairvoyant, cache);
        let compression = Settings { method, bound: ErrorBound::DEFAULT, reject_nonfinite: false };
        // The host pool is so large that no snapshot is refused because free room lies in small
        // pieces.
        let job = Job {
            config: Config { compression, compression_factor, host_budget: 1 << 18, ..base.config },
            ..base
        };
        assert_eq!(emu::reset(7, emu::EARLY, 1, MEMORY), 0);
        let outcome = run(&job, 7, host_syncs).unwrap();
        let (counters, stats, own) = (emu::counters(), &outcome.stats[0], outcome.own_bytes);
        // When the kernels are told of the fields, the host waits within and after each of three
        // copies, and once for all of them; and it waits at TERMINATE to check the last restores.
        assert_eq!((outcome.wrong, outcome.syncs), (0, 8), "{cache} slots");
        // The codec gets tables of its settings, of two fields and of two groups, in bytes.
        let tables = 48 + 2 * 48 + 2 * 24;
        assert_eq!(counters.h2d_bytes - own.0, stats.h2d_bytes + tables);
        assert!(
            stats.stored_bytes < stats.raw_bytes && stats.d2h_bytes < stats.raw_bytes,
            "{stats:?}"
        );
        assert_eq!(stats.saves, stats.d2h + stats.write_backs_avoided);
    }
}

/// In a pool without a budget there always is a free range for one more snapshot, whatever the sizes
/// of the others and the order in which they were freed: no save waits for the device to move
/// snapshots together. The host waits as often as with a pool that is far larger.
#[test]
fn no_save_moves_snapshots_of_the_pool() {
    if !inside("no_save_moves_snapshots_of_the_pool") {
        return;
    }
    let algorithms = [Algorithm::Online, Algorithm::Uniform, Algorithm::Revolve, Algorithm::Zcut];
    for seed in 0..32 {
        let settings = |host_budget| {
            // Most snapshots are then as large as they can be, and those of constants small, so that
            // each of these leaves a range in which no other fits.
            let compression = Settings {
                method: [Method::Lorenzo, Method::Cuszp][seed as usize / 4 % 2].clone(),
                bound: ErrorBound::OfMax(1e-12),
                reject_nonfinite: false,
            };
            let (snapshots, cache) = (3 + seed as u32 % 7, seed as u32 / 2 % 3);
            let plain =
                config(algorithms[seed as usize % 4], snapshots, cache, Policy::Clairvoyant);
            Config { compression, host_budget, max_in_flight: 1 << 20, ..plain }
        };
        let waits = [0, 1 << 20].map(|host_budget| {
            let config = settings(host_budget);
            let (streams, stubborn) = (Streams::Own, false);
            let job = Job { config, steps: 40, devices: 1, shots: 1, streams, stubborn };
            assert_eq!(emu::reset(seed, emu::EARLY, 1, MEMORY), 0);
            let outcome = run(&job, seed, host_syncs).unwrap();
            assert_eq!(outcome.wrong, 0, "seed {seed}: {job:?}");
            outcome.syncs
        });
        assert_eq!(waits[0], waits[1], "seed {seed}: {:?}", settings(0));
    }
}

/// Runs the test `name` again in a process with the software driver and with `library` as
/// libnvcomp. Returns true in that process.
fn inside_with(name: &str, library: &str) -> bool {
    let kernels = emu::images();
    let inside = common::have("c++")
        && emu::inside(
            name,
            &[("GPUZIP_CACHE_DIR", kernels.to_str().unwrap()), (nvcomp::PATH, library)],
        );
    if inside {
        assert_eq!(emu::reset(1, emu::RANDOM, 1, MEMORY), 0);
    }
    inside
}

/// The driver reads the settings and tables of a codec, which the library sends from pageable memory,
/// as late as CUDA allows: when the copy runs. The library has not released them by then.
#[test]
fn what_is_sent_to_a_codec_lives_until_the_driver_has_read_it() {
    let name = "what_is_sent_to_a_codec_lives_until_the_driver_has_read_it";
    let kernels = emu::images();
    let variables =
        [("GPUZIP_CACHE_DIR", kernels.to_str().unwrap()), ("CUDA_EMU_PAGEABLE_COPIES", "late")];
    if !common::have("c++") || !emu::inside(name, &variables) {
        return;
    }
    let own = methods().into_iter().filter(|method| !matches!(method, Method::Bitcomp { .. }));
    for (seed, method) in (0..).zip(own) {
        assert_eq!(emu::reset(seed, emu::LATE, 1, MEMORY), 0);
        let compression = Settings {
            method: method.clone(),
            bound: ErrorBound::OfMax(1e-3),
            reject_nonfinite: false,
        };
        let base = config(Algorithm::Revolve, 4, 2, Policy::Clairvoyant);
        let config = Config { compression, ..base };
        let streams = Streams::Own;
        let job = Job { config, steps: 12, devices: 1, shots: 1, streams, stubborn: false };
        let outcome = run(&job, seed, host_syncs).unwrap_or_else(|e| panic!("{method:?}: {e}"));
        assert_eq!(outcome.wrong, 0, "{method:?}");
        assert!(emu::counters().pageable_copies > 0, "{method:?}");
    }
}

/// The kernels store their reports in page-locked memory. A copy of a report would wait behind the
/// write-backs of snapshots, since a device copies in one direction one copy after another.
#[test]
fn no_report_is_copied() {
    if !inside("no_report_is_copied") {
        return;
    }
    assert_eq!(emu::reset(1, emu::LATE, 1, MEMORY), 0);
    emu::start_history();
    let compression =
        Settings { method: Method::Fp16, bound: ErrorBound::DEFAULT, reject_nonfinite: false };
    let base = config(Algorithm::Revolve, 4, 2, Policy::Clairvoyant);
    let config = Config { compression, ..base };
    let job =
        Job { config, steps: 12, devices: 1, shots: 1, streams: Streams::Own, stubborn: false };
    assert_eq!(run(&job, 1, host_syncs).unwrap().wrong, 0);
    let of_report = std::mem::size_of::<gpuzip::codec::gpu::Report>() as u64;
    let history = emu::history();
    let copies = || history.iter().filter(|entry| entry.kind == emu::Kind::Copy);
    assert!(copies().count() > 0 && copies().all(|copy| copy.bytes != of_report));
}

/// A driver that loads lazily loads a kernel's code when the kernel is looked up or asked for an
/// attribute of the code, else at its first launch, in the middle of a save.
#[test]
fn every_kernel_that_is_looked_up_is_loaded() {
    if !inside("every_kernel_that_is_looked_up_is_loaded") {
        return;
    }
    assert_eq!(emu::reset(1, emu::LATE, 1, MEMORY), 0);
    assert_eq!(run(&draw_job(1), 1, host_syncs).unwrap().wrong, 0);
    let looked_up = emu::calls("cuModuleGetFunction");
    assert!(looked_up > 0);
    assert_eq!(emu::calls("cuFuncGetAttribute"), looked_up);
}

/// A session that ends in mid-shot first waits for the kernels that its calls have enqueued, since
/// the end unloads their modules: those of a codec, and those of the checksums of shared levels.
#[test]
fn a_session_that_ends_in_mid_shot_finishes_its_kernels() {
    if !inside("a_session_that_ends_in_mid_shot_finishes_its_kernels") {
        return;
    }
    let compression =
        Settings { method: Method::Fp16, bound: ErrorBound::DEFAULT, reject_nonfinite: false };
    let base = config(Algorithm::StoreAll, 0, 2, Policy::Clairvoyant);
    let shared = Config { shared_levels: true, ..base.clone() };
    for config in [Config { compression, ..base }, shared] {
        assert_eq!(emu::reset(1, emu::LATE, 1, MEMORY), 0);
        let (mut context, mut stream) = (std::ptr::null_mut(), std::ptr::null_mut());
        ok!(cuInit(0));
        ok!(cuDevicePrimaryCtxRetain(&mut context, 0));
        ok!(cuCtxSetCurrent(context));
        ok!(cuStreamCreate(&mut stream, 1));
        let mut addresses = [0; 2];
        addresses.iter_mut().for_each(|address| ok!(cuMemAlloc_v2(address, 400)));
        let fields =
            [(addresses[0], None), (addresses[1], Some(0))].map(|(address, previous_of)| {
                ok!(cuMemsetD8Async(address, 1, 400, stream));
                let field = Field { n: [100, 1, 1], scalar: Scalar::F32, previous_of };
                // SAFETY: device memory that lives until the session has ended.
                let memory = unsafe { AppMemory::new(address as *mut u8, 400) };
                AppField { field, memory: Some(memory) }
            });
        let mut session = Session::new(config, 5, &fields).unwrap();
        session.get_action().unwrap();
        session.save(0, &fields, Stream(stream.cast())).unwrap();
        drop(session);
        ok!(cuStreamSynchronize(stream));
        ok!(cuStreamDestroy_v2(stream));
        addresses.iter().for_each(|address| ok!(cuMemFree_v2(*address)));
        ok!(cuDevicePrimaryCtxRelease_v2(0));
    }
}

fn bitcomp() -> Job {
    let base = app::reference(Policy::Clairvoyant, 1);
    let compression = Settings {
        method: Method::Bitcomp { sparse: false },
        bound: ErrorBound::DEFAULT,
        reject_nonfinite: false,
    };
    Job { config: Config { compression, host_budget: 1 << 18, ..base.config }, ..base }
}

#[test]
fn bitcomp_without_its_library() {
    if inside_with("bitcomp_without_its_library", "/nowhere/libnvcomp.so.5") {
        let fields: Vec<_> =
            app::shapes().into_iter().map(|field| AppField { field, memory: None }).collect();
        let config = Config { backend: Backend::Cuda, device: Some(0), ..bitcomp().config };
        let error = Session::new(config, 30, &fields).err().unwrap().message;
        assert!(
            error.contains("/nowhere/libnvcomp.so.5: ") && error.contains(nvcomp::PATH),
            "{error}"
        );
    }
}

#[test]
fn bitcomp_of_a_library_that_lacks_a_function() {
    if inside_with(
        "bitcomp_of_a_library_that_lacks_a_function",
        &nvcomp::stand_in("lacking", "-DLACKING"),
    ) {
        let error = run(&bitcomp(), 1, host_syncs).err().unwrap().message;
        assert!(error.contains("lacking.so lacks bitcompGetCompressedSizeAsync"), "{error}");
    }
}

/// Calls of Bitcomp fail when the session is set up, and later.
#[test]
fn bitcomp_that_fails() {
    if !inside_with("bitcomp_that_fails", &nvcomp::stand_in("whole", "-DWHOLE")) {
        return;
    }
    for (k, call) in [
        (1, "bitcompCompressLossy"),
        (3, "bitcompUncompress"),
        (8, "bitcompGetCompressedSizeAsync"),
    ] {
        assert_eq!(emu::reset(1, emu::RANDOM, 1, MEMORY), 0);
        emu::fail("cuLaunchHostFunc", k, 801);
        let error = run(&bitcomp(), 1, host_syncs).err().unwrap().message;
        assert!(error.contains(call) && error.contains("failed with status 801"), "{error}");
    }
}
