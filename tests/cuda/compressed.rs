//! Compressed snapshots on the CUDA backend, on the software driver: every restored state is what
//! the host's codec gives, in whatever order operations run, and the host never waits for the
//! device.

use crate::common::prelude::*;
use crate::common::{self, app, emu, here, nvcomp, only_if};
use app::device::{Memory, Own, Primary};
use app::{
    config, draw_job, emulate, job, ok, run, run_armed, run_zero_copy, shapes, Draw, Draws, Job,
};
use gpuzip::codec::CODECS;
use gpuzip::device::Stream;
use gpuzip::tier::SnapshotCoder;

/// Bytes of device memory, for staging buffers, working memory of kernels, slots, and the
/// application's fields.
const MEMORY: u64 = 1 << 26;

/// All codecs with kernels, with zfp at another rate than the default and both algorithms of Bitcomp.
fn methods() -> Vec<Method> {
    let own = CODECS.iter().map(|codec| match &codec.method {
        Method::Zfp { .. } => Method::Zfp { rate: 11 },
        method => method.clone(),
    });
    let coded = own.filter(|method| !matches!(method, Method::None | Method::Lossless));
    coded.chain([Method::Bitcomp { sparse: true }]).collect()
}

fn draw(seed: u64) -> Job {
    let algorithms = &[&ALGORITHMS[..], &[Algorithm::Online]].concat();
    let (methods, steps) = (&methods(), 1..21);
    let of = Draws { algorithms, methods, steps, lru: 4, devices: 1..3, ..Draws::PLAIN };
    let mut job = draw_job(seed, &of);
    job.config.codec.compression_factor = [0.0, 2.0, 4.0][seed as usize / 3 % 3];
    job
}

/// Returns a configuration whose snapshots a codec compresses with its default bound.
fn coded(method: Method, config: Config) -> Config {
    config.with(|c| c.codec.settings = coding(method, ErrorBound::DEFAULT))
}

fn inside(name: &str) -> bool {
    inside_with(name, &nvcomp::stand_in("whole", "-DWHOLE"))
}

#[test]
fn every_restore_is_that_of_the_host_codec() {
    only_if!(inside(here!()));
    let seeds = cases(50, 5000);
    for seed in 0..seeds {
        let job = draw(seed);
        emulate(&job, seed, emu::mode(seed), MEMORY, || run(&job, seed));
    }
}

/// Mixed storage, with copies and with zero copy: raw states come back bit by bit, coded ones as the
/// host's codec gives them, and the device budget is kept to the byte.
#[test]
fn raw_and_coded_snapshots_beside_one_another() {
    only_if!(inside(here!()));
    let layout = Layout::new(shapes()).unwrap();
    let seeds: u64 = cases(40, 3000);
    let mut both = 0;
    for seed in 0..seeds {
        let mode = emu::mode(seed);
        let mut of = Draw((seed + 7).wrapping_mul(0x2545_f491_4f6c_dd1d) | 1);
        let zero_copy = seed % 2 == 1;
        let mut job = draw(seed);
        job.steps += 12;
        let compression = &job.config.codec.settings;
        let spare = if zero_copy { 2 } else { 0 };
        let states = u64::from(of.below(4)) + 4 + spare;
        let device_budget =
            SnapshotCoder::gpu_bytes(compression, &layout).unwrap() + states * layout.slot_bytes;
        if job.config.schedule.algorithm == Some(Algorithm::Online) {
            job.config.schedule.algorithm = Some(Algorithm::Revolve);
        }
        job.config = job.config.with(|c| {
            c.tiers.policy = Policy::Clairvoyant;
            c.tiers.mixed_storage = Some(true);
            c.codec.compression_factor = 2.0 + f64::from(of.below(2));
            c.tiers.device_budget = device_budget;
            c.tiers.cache = 0;
            c.schedule.snapshots += 6;
        });
        assert_eq!(emu::reset(seed, mode, job.devices, MEMORY), 0, "left over before seed {seed}");
        let releases = || seed % 4 == 1;
        let outcome = match zero_copy {
            true => run_zero_copy(&job, seed, releases, || {}),
            false => run(&job, seed),
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
    only_if!(inside(here!()));
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
        let base = Job { config: coded(method, base.config), ..base };
        // The host pool is so large that no snapshot is refused because free room lies in small
        // pieces.
        let job = Job {
            config: base.config.with(|c| {
                c.codec.compression_factor = compression_factor;
                c.tiers.host_budget = 1 << 18;
            }),
            ..base
        };
        let outcome = emulate(&job, 7, emu::EARLY, MEMORY, || run(&job, 7));
        let (counters, stats, own) = (emu::counters(), &outcome.stats[0], outcome.own_bytes);
        // The host waits once when the codec's memory is prepared, and at TERMINATE to check the last
        // restores.
        assert_eq!(outcome.syncs, 2, "{cache} slots");
        assert_eq!(counters.h2d_bytes - own.0, stats.h2d_bytes);
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
    only_if!(inside(here!()));
    let algorithms = [Algorithm::Online, Algorithm::Uniform, Algorithm::Revolve, Algorithm::Zcut];
    for seed in 0..cases(12, 32) {
        let settings = |host_budget| {
            // Most snapshots are then as large as they can be, and those of constants small, so that
            // each of these leaves a range in which no other fits.
            let method = [Method::Lorenzo, Method::Cuszp][seed as usize / 4 % 2].clone();
            let compression = coding(method, ErrorBound::OfMax(1e-12));
            let (snapshots, cache) = (3 + seed as u32 % 7, seed as u32 / 2 % 3);
            let plain =
                config(algorithms[seed as usize % 4], snapshots, cache, Policy::Clairvoyant);
            plain.with(|c| {
                c.codec.settings = compression;
                c.tiers.host_budget = host_budget;
                c.device.max_in_flight = 1 << 20;
            })
        };
        let waits = [0, 1 << 20].map(|host_budget| {
            let job = job(settings(host_budget), 40);
            emulate(&job, seed, emu::EARLY, MEMORY, || run(&job, seed)).syncs
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

/// The settings and tables of a codec come with the launches of kernels: nothing is copied from pageable memory,
/// for which the host would have to wait.
#[test]
fn nothing_that_a_codec_gets_is_copied_from_pageable_memory() {
    only_if!(inside(here!()));
    let own = methods().into_iter().filter(|method| !matches!(method, Method::Bitcomp { .. }));
    for (seed, method) in (0..).zip(own) {
        let base = config(Algorithm::Revolve, 4, 2, Policy::Clairvoyant);
        let compression = coding(method.clone(), ErrorBound::OfMax(1e-3));
        let job = job(base.with(|c| c.codec.settings = compression), 12);
        emulate(&job, seed, emu::LATE, MEMORY, || run(&job, seed));
        assert_eq!(emu::counters().pageable_copies, 0, "{method:?}");
    }
}

/// The kernels store their reports in page-locked memory. A copy of a report would wait behind the
/// write-backs of snapshots, since a device copies in one direction one copy after another.
#[test]
fn no_report_is_copied() {
    only_if!(inside(here!()));
    let base = config(Algorithm::Revolve, 4, 2, Policy::Clairvoyant);
    let job = job(coded(Method::Fp16, base), 12);
    emulate(&job, 1, emu::LATE, MEMORY, || run_armed(&job, 1, emu::start_history));
    let of_report = std::mem::size_of::<gpuzip::codec::gpu::Report>() as u64;
    let history = emu::history();
    // Before the first kernel, the codec copies structures of any size to the device.
    let first = history.iter().position(|entry| entry.kind == emu::Kind::Argument).unwrap();
    let copies = || history[first..].iter().filter(|entry| entry.kind == emu::Kind::Copy);
    assert!(copies().count() > 0 && copies().all(|copy| copy.bytes != of_report));
}

/// A driver that loads lazily loads a kernel's code when the kernel is looked up or asked for an
/// attribute of the code, else at its first launch, in the middle of a save.
#[test]
fn every_kernel_that_is_looked_up_is_loaded() {
    only_if!(inside(here!()));
    let job = draw(1);
    emulate(&job, 1, emu::LATE, MEMORY, || run(&job, 1));
    let looked_up = emu::calls("cuModuleGetFunction");
    assert!(looked_up > 0);
    assert_eq!(emu::calls("cuFuncGetAttribute"), looked_up);
}

/// A session that ends in mid-shot first waits for the kernels that its calls have enqueued, since
/// the end unloads their modules: those of a codec, and those of the checksums of shared levels.
#[test]
fn a_session_that_ends_in_mid_shot_finishes_its_kernels() {
    only_if!(inside(here!()));
    let base = config(Algorithm::StoreAll, 0, 2, Policy::Clairvoyant);
    let shared = base.clone().with(|c| c.tiers.shared_levels = true);
    for config in [coded(Method::Fp16, base), shared] {
        assert_eq!(emu::reset(1, emu::LATE, 1, MEMORY), 0);
        let _primary = Primary::new(0);
        let (stream, memory) = (Own::new(), [Memory::new(400), Memory::new(400)]);
        let fields = [memory[0].field(100, None), memory[1].field(100, Some(0))];
        memory.iter().for_each(|memory| ok!(cuMemsetD8Async(memory.0, 1, 400, stream.0)));
        let mut session = Session::new(config, 5, &fields).unwrap();
        session.get_action().unwrap();
        session.save(0, &fields, Stream(stream.0.cast())).unwrap();
        drop(session);
        ok!(cuStreamSynchronize(stream.0));
    }
}

fn bitcomp() -> Job {
    let base = app::reference(Policy::Clairvoyant, 1);
    let config = coded(Method::Bitcomp { sparse: false }, base.config);
    Job { config: config.with(|c| c.tiers.host_budget = 1 << 18), ..base }
}

#[test]
fn bitcomp_without_its_library() {
    if inside_with("bitcomp_without_its_library", "/nowhere/libnvcomp.so.5") {
        let config = bitcomp().config.with(|c| {
            c.device.backend = Backend::Cuda;
            c.device.ordinal = Some(0);
        });
        let error = Session::new(config, 30, &unplaced(&shapes())).err().unwrap().to_string();
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
        let error = run(&bitcomp(), 1).err().unwrap().to_string();
        assert!(error.contains("lacking.so lacks bitcompGetCompressedSizeAsync"), "{error}");
    }
}

/// Calls of Bitcomp fail when the session is set up, and later.
#[test]
fn bitcomp_that_fails() {
    only_if!(inside_with(here!(), &nvcomp::stand_in("whole", "-DWHOLE")));
    for (k, call) in [
        (1, "bitcompCompressLossy"),
        (3, "bitcompUncompress"),
        (8, "bitcompGetCompressedSizeAsync"),
    ] {
        assert_eq!(emu::reset(1, emu::RANDOM, 1, MEMORY), 0);
        emu::fail("cuLaunchHostFunc", k, 801);
        let error = run(&bitcomp(), 1).err().unwrap().to_string();
        assert!(error.contains(call) && error.contains("failed with status 801"), "{error}");
    }
}
