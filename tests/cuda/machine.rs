//! What a first run on a machine with a GPU must show, in parts that the GPU bundle runs: which
//! driver and kernels there are, links and page-locked memory, shots with large fields and slow
//! kernels, every kind of stream and of memory, captures, failures. `cargo test` runs all parts at
//! small sizes on the software CUDA driver, which gives no figures.

mod gpu;
mod links;
mod memory;
mod process;
mod shots;

use crate::common::play::App as _;
use crate::common::prelude::*;
use crate::common::{self, app, emu, here, only_if};
use app::{config, ok};
use gpu::{source, Gpu, Memory};
use gpuzip::device::cuda::{self, Module, Source};
use gpuzip::device::Stream;
use shots::{rounds_for, App, Outcome, Streams};
use std::path::PathBuf;
use std::ptr::null_mut;
use std::time::Instant;

/// Whether to run here: the GPU bundle sets GPUZIP_TEST_GPU. Else the test `name` runs in a process
/// whose driver is the software driver.
fn starts(name: &str) -> bool {
    std::env::var_os("GPUZIP_TEST_GPU").is_some()
        || common::have("c++")
            && emu::inside(
                name,
                &[
                    ("GPUZIP_CACHE_DIR", emu::images().to_str().unwrap()),
                    ("CUDA_EMU_MEMORY", "64M"),
                ],
            )
}

/// Number of values of the two fields of large states: 192 MB and 64 MB.
fn large(gpu: &Gpu) -> [u64; 2] {
    gpu.size([48 << 20, 16 << 20], [5000, 1500])
}

fn small(gpu: &Gpu) -> [u64; 2] {
    gpu.size([1 << 20, 1 << 18], [700, 300])
}

fn codec(method: Method) -> Settings {
    Settings { method, bound: ErrorBound::Absolute(0.25), ..Settings::default() }
}

/// Returns the file that this process has loaded whose name begins with `name`. The software driver's
/// file has another name than its link.
fn loaded(name: &str) -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let file = |line: &str| line.split_whitespace().nth(5).map(str::to_owned);
    maps.lines()
        .filter_map(file)
        .find(|file| {
            let of = file.rsplit('/').next().unwrap_or_default();
            of.starts_with(&format!("{name}.so")) || of.starts_with(&format!("{name}_emu"))
        })
        .unwrap_or_else(|| "none".to_owned())
}

/// Compiles the kernels of this program into the folder of kernels that the GPU bundle carries.
#[test]
fn prebuild() {
    let Some(folder) = std::env::var_os("GPUZIP_TEST_PREBUILD").map(PathBuf::from) else {
        println!("skipped: make gpu-bundle sets GPUZIP_TEST_PREBUILD");
        return;
    };
    let archs = std::env::var("GPUZIP_TEST_ARCHS").unwrap();
    let archs: Vec<u32> = archs.split_whitespace().map(|arch| arch.parse().unwrap()).collect();
    for &arch in &archs {
        cuda::image_in(Some(&folder), &source(), arch).unwrap();
    }
    cuda::keep_ptx(&folder, &source(), *archs.iter().max().unwrap()).unwrap();
}

/// Which driver and compiler this process finds, and whether the driver loads every kernel.
#[test]
fn machine() {
    only_if!(starts(here!()));
    let gpu = Gpu::new(0);
    let mut version = 0;
    ok!(cuDriverGetVersion(&mut version));
    let sources: Vec<Source> = gpuzip::codec::gpu::sources();
    for source in &sources {
        let begin = Instant::now();
        let module = Module::of(source, gpu.info.architecture);
        let seconds = gpu.figure(begin.elapsed().as_secs_f64());
        gpu.row(
            "image",
            &[
                ("source", &source.name),
                ("double", &source.double),
                ("loads", &module.is_ok()),
                ("seconds", &seconds),
            ],
        );
        module.unwrap_or_else(|error| panic!("{}: {error}", source.name));
    }
    // The images above may all be from the folder of kernels: this one is not.
    let compiled = cuda::image_in(None, &source(), gpu.info.architecture);
    let attribute = |which| {
        let mut value = 0;
        ok!(cuDeviceGetAttribute(&mut value, which, 0));
        value
    };
    use cudarc::driver::sys::CUdevice_attribute as Is;
    gpu.row(
        "machine",
        &[
            ("devices", &cuda::devices().unwrap().len()),
            ("memory_bytes", &gpu.info.memory_bytes),
            ("architecture", &gpu.info.architecture),
            ("driver_version", &version),
            ("libcuda", &loaded("libcuda")),
            ("libnvrtc", &loaded("libnvrtc")),
            ("nvrtc_compiles", &compiled.is_ok()),
            ("copy_engines", &attribute(Is::CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT)),
            ("pageable_access", &attribute(Is::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS)),
            ("images", &sources.len()),
        ],
    );
}

/// One configuration of the shots with large states.
fn slow_case(gpu: &Gpu, config: Config, streams: Streams, rounds: u32) {
    let begin = Instant::now();
    let is_raw = config.codec.settings.method == Method::None;
    let mut app = App::new(gpu, &large(gpu), streams, rounds);
    app = if is_raw { app } else { app.lossy() };
    let outcome = app.shot(config.clone(), 9);
    gpu.row(
        "slow",
        &[
            ("algorithm", &format!("{:?}", config.schedule.algorithm.unwrap())),
            ("streams", &format!("{streams:?}")),
            ("zero_copy", &config.tiers.zero_copy),
            ("codec", &config.codec.settings.method.name()),
            ("state_bytes", &(4 * large(gpu).iter().sum::<u64>())),
            ("looks", &outcome.looks),
            ("wrong", &outcome.wrong),
            ("seconds", &gpu.figure(begin.elapsed().as_secs_f64())),
        ],
    );
    assert_eq!(outcome.wrong, 0, "{config:?}, {streams:?}");
}

/// Shots whose states are large and whose kernels take longer than a copy: a copy that does not wait
/// for a kernel finds the wrong bytes, and a kernel that does not wait for a copy is found by it.
#[test]
fn slow() {
    only_if!(starts(here!()));
    let gpu = Gpu::new(0);
    let rounds = rounds_for(&gpu, large(&gpu)[0], 0.02);
    for (i, algorithm) in [
        Algorithm::Revolve,
        Algorithm::TwoLevel,
        Algorithm::Zcut,
        Algorithm::Uniform,
        Algorithm::Hrevolve,
        Algorithm::StoreAll,
    ]
    .into_iter()
    .enumerate()
    {
        let streams = [Streams::NonBlocking, Streams::Alternating, Streams::Null][i % 3];
        slow_case(&gpu, config(algorithm, 3, 1, Policy::Clairvoyant), streams, rounds);
    }
    let revolve = config(Algorithm::Revolve, 4, 2, Policy::Clairvoyant);
    for streams in [Streams::NonBlocking, Streams::Alternating] {
        slow_case(&gpu, revolve.clone().with(|c| c.tiers.zero_copy = true), streams, rounds);
    }
    for method in [Method::Cuszp, Method::Dct, Method::Lorenzo] {
        let compressed = revolve.clone().with(|c| c.codec.settings = codec(method));
        slow_case(&gpu, compressed, Streams::Alternating, rounds);
    }
}

/// The library that loses a wait, beside this program in the bundle.
fn loser() -> Option<PathBuf> {
    let beside = std::env::current_exe().unwrap().with_file_name("lose_wait.so");
    if beside.exists() {
        return Some(beside);
    }
    let built = common::scratch("gpu-machine").join("lose_wait.so");
    let source = common::root().join("tests/c/lose_wait.c");
    common::have("cc").then(|| common::compile_library(&source, built))
}

/// A shot in which the k-th wait of a stream for an event is lost, if the environment says so. Wrong
/// states fail the test.
#[test]
fn with_a_lost_wait() {
    if std::env::var_os("GPUZIP_LOSE_WAIT").is_none() {
        println!("skipped: the test `lost_waits` runs this test");
        return;
    }
    let gpu = Gpu::new(0);
    let rounds = rounds_for(&gpu, large(&gpu)[0], 0.02);
    let mut app = App::new(&gpu, &large(&gpu), Streams::NonBlocking, rounds);
    let outcome = app.shot(config(Algorithm::Revolve, 3, 1, Policy::Clairvoyant), 7);
    assert_eq!(outcome.wrong, 0, "wrong states");
}

/// The shots with large states can fail: they do, where one of the library's waits is lost.
#[test]
fn lost_waits() {
    only_if!(starts(here!()));
    let Some(loser) = loser() else { return };
    let gpu = Gpu::new(0);
    let mut found = 0;
    for wait in 0..gpu.size(9, 6) {
        let output = common::again("with_a_lost_wait")
            .env("LD_PRELOAD", &loser)
            .env("GPUZIP_LOSE_WAIT", wait.to_string())
            // On the software driver, the seed decides whether a missing wait shows.
            .env("CUDA_EMU_SEED", "2")
            .output()
            .unwrap();
        let text =
            String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
        let is_wrong = text.contains("wrong states");
        assert!(is_wrong || output.status.success(), "wait {wait}: {text}");
        gpu.row("lost_wait", &[("wait", &wait), ("wrong_states", &is_wrong)]);
        assert!(!(wait == 0 && is_wrong), "no wait is lost: {text}");
        found += usize::from(is_wrong);
    }
    assert!(found > 0, "no lost wait gave a wrong state");
}

/// Saves on every kind of stream, by two threads at once, and where no context is current.
#[test]
fn streams() {
    only_if!(starts(here!()));
    let gpu = Gpu::new(0);
    let rounds = rounds_for(&gpu, small(&gpu)[0], 0.002);
    let shot = |gpu: &Gpu, streams, without_context| {
        let mut app = App::new(gpu, &small(gpu), streams, rounds);
        app.calls_without_context = without_context;
        app.shot(config(Algorithm::Revolve, 4, 2, Policy::Clairvoyant), 30)
    };
    let row = |what: &str, outcome: Outcome| {
        let Outcome { looks, wrong } = outcome;
        gpu.row("streams", &[("what", &what), ("looks", &looks), ("wrong", &wrong)]);
        assert!(outcome.wrong == 0 && outcome.looks > 30, "{what}: {outcome:?}");
    };
    for streams in [
        Streams::Null,
        Streams::Legacy,
        Streams::PerThread,
        Streams::Blocking,
        Streams::NonBlocking,
        Streams::Urgent,
        Streams::Alternating,
    ] {
        row(&format!("{streams:?}"), shot(&gpu, streams, false));
    }
    row("no current context", shot(&gpu, Streams::NonBlocking, true));
    let devices = cuda::devices().unwrap().len() as i32;
    for kind in [Streams::PerThread, Streams::NonBlocking] {
        let outcomes = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..2)
                .map(|k| scope.spawn(move || shot(&Gpu::new((devices - 1).min(k)), kind, false)))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        let on = if devices > 1 { "two devices" } else { "one device" };
        for outcome in outcomes {
            row(&format!("two threads, {on}, {kind:?}"), outcome);
        }
    }
}

/// A save on a stream that is being captured is refused by name, and leaves the capture valid.
#[test]
fn capture() {
    use cudarc::driver::sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
    only_if!(starts(here!()));
    let gpu = Gpu::new(0);
    for compression in [codec(Method::None), codec(Method::Fp16)] {
        let name = compression.method.name();
        let mut app = App::new(&gpu, &small(&gpu), Streams::NonBlocking, 2).lossy();
        let raw = config(Algorithm::Revolve, 3, 2, Policy::Clairvoyant);
        let mut session =
            Session::new(raw.with(|c| c.codec.settings = compression), 12, &app.app_fields())
                .unwrap();
        app.forward(0);
        assert_eq!(session.get_action().unwrap().action.kind, Kind::Save);
        let (stream, mut graph, mut nodes) = (app.on(), null_mut(), 0);
        ok!(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        let error = session.save(0, &app.app_fields(), Stream(stream.cast())).unwrap_err();
        ok!(cuStreamEndCapture(stream, &mut graph));
        ok!(cuGraphGetNodes(graph, null_mut(), &mut nodes));
        ok!(cuGraphDestroy(graph));
        assert!(error.message.contains("captured into a CUDA graph"), "{error}");
        assert_eq!((error.code, nodes), (Code::Argument, 0), "{error}");
        session.save(0, &app.app_fields(), Stream(stream.cast())).unwrap();
        app.look(0);
        app.run(&mut session, |_| true);
        assert_eq!(app.outcome().wrong, 0);
        gpu.row("capture", &[("codec", &name), ("refused", &true), ("nodes", &nodes)]);
    }
}

/// A session ends, or is planned anew, while its kernels are queued behind slow ones.
#[test]
fn midshot() {
    only_if!(starts(here!()));
    let gpu = Gpu::new(0);
    // Sanitizers make kernels a hundred times slower.
    let rounds = rounds_for(&gpu, small(&gpu)[0], 0.005);
    for method in [Method::None, Method::Cuszp, Method::Dct, Method::Lorenzo, Method::Fp16] {
        let name = method.name().to_owned();
        let revolve = config(Algorithm::Revolve, 4, 1, Policy::Clairvoyant);
        let config = revolve.with(|c| c.codec.settings = codec(method));
        for until in [Kind::Save, Kind::Restore] {
            let mut app = App::new(&gpu, &small(&gpu), Streams::NonBlocking, rounds).lossy();
            let fields = app.app_fields();
            let mut session = Session::new(config.clone(), 20, &fields).unwrap();
            let some = |session: &mut Session, app: &mut App, mut left: u32| {
                session.setup().unwrap();
                app.run(session, |kind| {
                    left -= u32::from(kind == until);
                    left > 0
                });
            };
            some(&mut session, &mut app, 3);
            session.setup_steps(30).unwrap();
            app.run(&mut session, |_| true);
            some(&mut session, &mut app, 3);
            drop(session);
            let outcome = app.outcome();
            gpu.row(
                "midshot",
                &[
                    ("codec", &name),
                    ("until", &format!("{until:?}")),
                    ("looks", &outcome.looks),
                    ("wrong", &outcome.wrong),
                ],
            );
            assert_eq!(outcome.wrong, 0, "{name}");
        }
    }
}

/// The library leaves memory to the application: after a session has taken the rest of the device,
/// the application allocates and loads a module.
#[test]
fn full() {
    only_if!(starts(here!()));
    let gpu = Gpu::new(0);
    let counts = large(&gpu);
    let slot: u64 = 4 * counts.iter().sum::<u64>();
    let reserve = Config::default().reserve_of(gpu.info.memory_bytes);
    let slots = (gpu.info.memory_bytes / slot + 2) as u32;
    let mut app = App::new(&gpu, &counts, Streams::NonBlocking, 1);
    let config = config(Algorithm::Revolve, slots, slots, Policy::Clairvoyant);
    let mut session = Session::new(config, 2 * i64::from(slots), &app.app_fields()).unwrap();
    let mut saves = 0;
    app.run(&mut session, |kind| {
        saves += u32::from(kind == Kind::Save);
        saves < 3
    });
    let (mut free, mut total) = (0, 0);
    ok!(cuMemGetInfo_v2(&mut free, &mut total));
    // The driver may round what it allocates for the library up to its pages.
    let wanted = reserve - reserve / 8;
    let own = Memory::new(wanted);
    let module = Module::of(&source(), gpu.info.architecture);
    gpu.row(
        "full",
        &[
            ("device_bytes", &total),
            ("reserve", &reserve),
            ("free_after_init", &free),
            ("allocated", &wanted),
            ("module_loads", &module.is_ok()),
        ],
    );
    drop((module.unwrap(), own));
    assert_eq!(app.outcome().wrong, 0);
}
