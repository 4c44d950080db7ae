//! The CUDA backend when something fails, on the software CUDA driver: memory that runs out, calls
//! that fail, pointers and streams of other devices or contexts, drivers that cannot be used.

mod driver;
mod pointers;

use crate::common::emu::emulated;
use crate::common::play::play;
use crate::common::prelude::*;
use crate::common::{self, app, emu, here, only_if};
use app::device::{field_at, Memory, Own, Pinned, Primary};
use app::plain::{Plain, Step};
use app::{
    config, emulate, ok, reference, run, run_armed, run_zero_copy, Job, Outcome, Streams, MEMORY,
};
use cudarc::driver::sys::{CUcontext, CUresult};
use gpuzip::device::{Rows, Stream};
use std::collections::BTreeSet;
use std::ffi::c_void;
use std::ptr::null_mut;

#[test]
fn memory_that_runs_out_shrinks_the_cache_or_is_an_error() {
    emulated!();
    let job = reference(Policy::Clairvoyant, 6);
    // A device with room for the application's fields and for 0 to 7 slots of 1024 bytes.
    for slots in 0..8 {
        let memory = 1024 + slots * 1024;
        let outcome = emulate(&job, slots, emu::RANDOM, memory, || run(&job, slots));
        assert!(
            outcome.stats[0].peak_device_bytes <= slots * 1024,
            "{slots} slots: {:?}",
            outcome.stats[0]
        );
    }
    // The library's allocations fail, one in each run. The application's own allocations come
    // first, two by each function.
    for (function, own) in [("cuMemAlloc_v2", 2), ("cuMemHostRegister_v2", 0)] {
        for k in 1..4 {
            assert_eq!(emu::reset(k, emu::RANDOM, 1, MEMORY), 0);
            emu::fail(function, own + k as i64, 2);
            assert_eq!(run(&job, k).unwrap().wrong, 0, "{function} {k}");
        }
    }
}

/// Makes an application for single calls, on the default stream.
fn application() -> Plain {
    Plain::on_default(100, Step::Number)
}

/// Returns a session on these fields whose current action is the first SAVE.
fn at_first_save(config: Config, fields: &[AppField]) -> Result<Session> {
    let mut session = Session::new(config, 9, fields)?;
    session.get_action()?;
    Ok(session)
}

/// Runs a session on the host backend from its first action to its last.
fn host_session_works() {
    let mut state = vec![7u8; 400];
    let fields = [field_at(state.as_mut_ptr() as u64, field([100, 1, 1], Scalar::F32))];
    struct Host([AppField; 1]);
    impl App for Host {
        fn fields(&mut self) -> Vec<AppField> {
            self.0.to_vec()
        }
        fn forward(&mut self, _: u32) {}
    }
    let config = config(Algorithm::Revolve, 3, 1, Policy::Clairvoyant);
    play(&mut Session::new(config, 9, &fields).unwrap(), &mut Host(fields)).unwrap();
}

/// Returns small jobs that together call every driver function that the library uses: copies, zero
/// copy, several sessions, several shots, several streams.
fn small_jobs() -> Vec<Job> {
    let job = |policy, cache, ahead, streams| {
        let config =
            config(Algorithm::Revolve, 3, cache, policy).with(|c| c.device.max_in_flight = ahead);
        Job { streams, ..app::job(config, 6) }
    };
    let mut jobs = vec![
        job(Policy::Clairvoyant, 2, 5, Streams::Own),
        job(Policy::Lru, 2, 1, Streams::Independent),
        job(Policy::Clairvoyant, 0, 64, Streams::Default),
        Job { shots: 2, ..job(Policy::Clairvoyant, 1, 2, Streams::Alternating) },
        Job { devices: 2, ..job(Policy::Lru, 2, 64, Streams::Own) },
        job(Policy::Clairvoyant, 2, 3, Streams::Own),
        job(Policy::Clairvoyant, 2, 64, Streams::Alternating),
    ];
    jobs[5].config.tiers.zero_copy = true;
    jobs[6].config.tiers.zero_copy = true;
    let mut compressed = job(Policy::Clairvoyant, 2, 64, Streams::Own);
    compressed.config.codec.settings = coding(Method::Fp16, ErrorBound::DEFAULT);
    jobs.push(compressed.clone());
    let mut shared = job(Policy::Clairvoyant, 2, 64, Streams::Own);
    (shared.config.schedule.algorithm, shared.config.tiers.shared_levels) =
        (Some(Algorithm::StoreAll), true);
    jobs.push(shared);
    for mut traced in [compressed, jobs[3].clone(), jobs[6].clone()] {
        traced.config.report.trace_out =
            Some(common::scratch("cuda-faults-timeline").join("run-%p.json"));
        jobs.push(traced);
    }
    jobs
}

/// Runs the test `name` as `emu::inside` does, with a folder for compiled kernels.
fn inside_with_kernels(name: &str) -> bool {
    emu::inside(name, &[("GPUZIP_CACHE_DIR", &emu::images().display().to_string())])
}

/// Runs a job, as `run_armed` does. A job with zero copy gives every second acquired state back.
fn attempt(job: &Job, seed: u64, arm: impl FnOnce()) -> Result<Outcome> {
    if !job.config.tiers.zero_copy {
        return run_armed(job, seed, arm);
    }
    let mut turn = 0;
    let releases = || {
        turn += 1;
        turn % 2 == 0
    };
    run_zero_copy(job, seed, releases, arm)
}

/// Returns the driver functions in the list of src/device/cuda/driver.rs, which names all that the
/// library calls.
fn functions_of_the_library() -> BTreeSet<&'static str> {
    let source = include_str!("../../src/device/cuda/driver.rs");
    let list = source.split("const FUNCTIONS").nth(1).unwrap().split('"').nth(1).unwrap();
    list.split_whitespace().filter(|part| part.starts_with("cu")).collect()
}

#[test]
fn the_list_of_functions_is_complete() {
    let files = std::fs::read_dir(common::root().join("src/device/cuda")).unwrap();
    let text = |file: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(file.unwrap().path()).unwrap()
    };
    let source: &'static str = files.map(text).collect::<String>().leak();
    let looked_up = ["lookup::<GetErrorName>(\"cu", "lookup::<GetAttribute>(\"cu"];
    let calls = ["cu!(cu", "status!(cu"].into_iter().chain(looked_up);
    let calls = calls.map(|call| source.split(call).skip(1));
    let name = |rest: &'static str| rest.split(['(', '"']).next();
    let mut called: BTreeSet<String> =
        calls.flatten().filter_map(name).map(|name| format!("cu{name}")).collect();
    // The library looks for this function before it calls it.
    assert!(source.contains("driver::has(\"cuStreamWaitValue32_v2\")"));
    assert!(called.remove("cuStreamWaitValue32_v2"));
    assert!(called.iter().eq(functions_of_the_library()), "{called:?}");
    assert!(!source.contains("sys::cu"));
}

/// Functions that release an object, or that a release needs. If one of them fails, the object is
/// released when its context ends.
const ENDS: [&str; 8] = [
    "cuMemFree_v2",
    "cuMemHostUnregister",
    "cuMemFreeHost",
    "cuEventDestroy_v2",
    "cuStreamDestroy_v2",
    "cuCtxPushCurrent_v2",
    "cuCtxSetCurrent",
    "cuDevicePrimaryCtxRelease_v2",
];

/// Releases the primary contexts that a failed call has left retained.
fn release_all(devices: i32) {
    for ordinal in 0..devices {
        // SAFETY: no argument is an address.
        while unsafe { cudarc::driver::sys::cuDevicePrimaryCtxRelease_v2(ordinal) }
            == CUresult::CUDA_SUCCESS
        {}
    }
}

/// Checks the outcome of an attempt in which a call failed: right states, a panic of the
/// application if its own call failed, or an error of the library. Returns whether it is an error
/// of the library.
fn is_reported(result: std::thread::Result<Result<Outcome>>, what: impl Fn() -> String) -> bool {
    match result {
        Ok(Ok(outcome)) => assert_eq!(outcome.wrong, 0, "{}", what()),
        Ok(Err(error)) => {
            assert!(matches!(error.code, Code::Device | Code::Memory), "{}: {error}", what());
            assert!(error.message.contains("cu"), "{}: {error}", what());
            return true;
        }
        Err(_) => {}
    }
    false
}

/// Makes every single call of some of the small jobs fail, and in other runs every call from the k-th
/// on. Whatever driver call fails, the library returns an error, the process survives, and no object is
/// left over. An application that calls again and goes on gets the right states or another error.
/// Returns the functions whose calls failed.
fn fail_every_call(which: std::ops::Range<usize>) -> BTreeSet<&'static str> {
    let steps = cases(4, 24);
    let (mut runs, mut failures, mut struck) = (0, 0, BTreeSet::new());
    let modes = [emu::RANDOM, emu::LATE, emu::EARLY, emu::TIMED].into_iter().cycle();
    for (job, mode) in small_jobs().into_iter().zip(modes).take(which.end).skip(which.start) {
        // Loading kernels takes long, so that the short test tries only one way of failing with them.
        let has_kernels =
            job.config.codec.settings.method != Method::None || job.config.tiers.shared_levels;
        let ways = [(true, 719, false), (false, 719, false), (true, 2, false), (false, 999, true)];
        let is_short = has_kernels && steps <= 6;
        let ways = if is_short { &ways[..1] } else { &ways[..] };
        for k in 1.. {
            let mut hits = 0;
            for &(stubborn, code, from_on) in ways {
                let job = Job { stubborn, steps, ..job.clone() };
                assert_eq!(emu::reset(k, mode, job.devices, MEMORY), 0);
                // Calls count from the moment at which the application has allocated its memory, so
                // that they are calls of the library or of the application's actions.
                let at = if from_on { -(k as i64) } else { k as i64 };
                let result =
                    std::panic::catch_unwind(|| attempt(&job, k, || emu::fail("*", at, code)));
                let Some(function) = emu::struck() else { continue };
                emu::fail("*", 0, 0);
                let what = || format!("{function}, call {at} of {job:?}");
                failures += u64::from(is_reported(result, what));
                struck.insert(function);
                let left = emu::counters();
                assert!(left.abandoned == 0 || ENDS.contains(&function), "{}: {left:?}", what());
                if from_on || function == "cuDevicePrimaryCtxRelease_v2" {
                    release_all(job.devices);
                }
                assert_eq!(emu::reset(k, mode, 1, MEMORY), 0, "left over after {}", what());
                (hits, runs) = (hits + 1, runs + 1);
            }
            if hits == 0 {
                break;
            }
        }
    }
    println!("{runs} runs, {failures} failures reported, in {} functions", struck.len());
    struck
}

/// Checks that every function of the library but the `seldom` ones was made fail.
fn all_have_failed(struck: &BTreeSet<&str>, seldom: &[&str]) {
    let functions = functions_of_the_library().into_iter();
    let missing: Vec<_> = functions.filter(|name| !struck.contains(name)).collect();
    assert!(missing.iter().all(|name| seldom.contains(name)), "{missing:?}");
}

#[test]
fn any_call_may_fail() {
    emulated!();
    all_have_failed(&fail_every_call(0..7), &[&SELDOM[..], &OF_KERNELS, &OF_TIMELINES].concat());
}

#[test]
fn any_call_with_kernels_may_fail() {
    only_if!(inside_with_kernels(here!()));
    let struck = fail_every_call(7..9);
    assert!(OF_KERNELS.iter().all(|name| struck.contains(name)), "{struck:?}");
}

/// A failed call for the timeline is reported as a failure of the device, or as a warning.
#[test]
fn any_call_with_a_timeline_may_fail() {
    only_if!(inside_with_kernels(here!()));
    let struck = fail_every_call(9..12);
    assert!(OF_TIMELINES.iter().all(|name| struck.contains(name)), "{struck:?}");
}

/// Functions that only sessions with kernels call, and sessions with a timeline.
const OF_KERNELS: [&str; 7] = [
    "cuModuleLoadData",
    "cuModuleGetFunction",
    "cuModuleUnload",
    "cuFuncGetAttribute",
    "cuLaunchKernel",
    "cuMemHostAlloc",
    "cuMemsetD8Async",
];
const OF_TIMELINES: [&str; 1] = ["cuEventElapsedTime"];

/// Functions that are called once in a process, for a list of the devices, for default budgets, for
/// a stream of another context, or after another call has failed. The tests above need not
/// reach them; the next test makes them fail.
const SELDOM: [&str; 7] = [
    "cuInit",
    "cuDriverGetVersion",
    "cuGetErrorName",
    "cuDeviceGetName",
    "cuDeviceTotalMem_v2",
    "cuCtxGetDevice",
    "cuMemGetInfo_v2",
];

#[test]
fn what_is_called_seldom_may_fail() {
    emulated!();
    fn refused<T>(function: &str, call: impl FnOnce() -> Result<T>) {
        emu::fail(function, 1, 719);
        let error = call().err().unwrap();
        assert!(
            error.code == Code::Device
                && error.message.contains(&format!("{function}: CUDA_ERROR_LAUNCH_FAILED")),
            "{error}"
        );
    }
    // A failed start of CUDA does not last: the next call tries again.
    refused("cuDriverGetVersion", || gpuzip::device::CudaDevice::new(0));
    refused("cuInit", || gpuzip::device::CudaDevice::new(0));
    for function in ["cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName", "cuDeviceTotalMem_v2"] {
        refused(function, gpuzip::device::cuda::devices);
    }
    refused("cuMemGetInfo_v2", || gpuzip::device::cuda::free_memory(0));
    assert_eq!(gpuzip::device::cuda::devices().unwrap().len(), 1);
    // A newer driver may return errors without a known name.
    emu::fail("cuDeviceGetCount", 1, 123_456);
    assert_eq!(
        gpuzip::device::CudaDevice::new(0).err().unwrap().message,
        "cuDeviceGetCount: error 123456"
    );
    emu::fail("cuGetErrorName", 1, 1);
    emu::fail("cuDeviceGetCount", 1, 719);
    assert_eq!(
        gpuzip::device::CudaDevice::new(0).err().unwrap().message,
        "cuDeviceGetCount: error 719"
    );
    let app = application();
    let fields = app.field();
    let mut session = at_first_save(reference(Policy::Lru, 2).config, &fields).unwrap();
    let mut other: CUcontext = null_mut();
    ok!(cuCtxCreate_v2(&mut other, 0, 0));
    refused("cuCtxGetDevice", || session.save(0, &fields, HOST));
}

/// A copy that fails while it runs is a sticky error: every later call reports the error, and the
/// session can be dropped.
#[test]
fn a_sticky_error_is_reported_from_then_on() {
    only_if!(inside_with_kernels(here!()));
    let mut reported = 0;
    for job in small_jobs() {
        for k in 1.. {
            assert_eq!(emu::reset(k, emu::EARLY, job.devices, MEMORY), 0);
            let result =
                std::panic::catch_unwind(|| attempt(&job, k, || emu::fail("exec", k as i64, 700)));
            let is_past_the_end = matches!(result, Ok(Ok(_)));
            reported += u64::from(is_reported(result, || format!("copy {k} of {job:?}")));
            if is_past_the_end {
                break;
            }
        }
    }
    assert!(reported > 50, "{reported}");
}

/// An error at the end of a shot is reported once, by TERMINATE or by the end of the session, and
/// not again by a later call.
#[test]
fn a_failure_at_the_end_of_a_shot_is_told_once() {
    emulated!();
    let mut app = application();
    app.step = Step::Takes(0.0);
    for at_terminate in [true, false] {
        let config = reference(Policy::Clairvoyant, 2).config.with(|c| c.device.max_in_flight = 64);
        let mut session = Session::new(config, 4, &app.field()).unwrap();
        session.autotune().unwrap();
        loop {
            let tick = session.get_action().unwrap();
            if (tick.action.kind, tick.action.ts) == (Kind::Backward, 0) {
                break;
            }
            app.serve(&mut session, tick).unwrap();
        }
        emu::fail("cuEventSynchronize", -1, 719);
        let told = if at_terminate { session.get_action().map(drop) } else { session.close() }
            .unwrap_err();
        assert!(told.code == Code::Device && told.message.contains("cuEventSynchronize"), "{told}");
        session.close().unwrap();
        emu::fail("cuEventSynchronize", 0, 0);
        session.setup().unwrap();
        assert_eq!(session.get_action().unwrap().action.kind, Kind::Save);
    }
}

/// A call that fails half-way ends the shot. After `setup` the next shot is complete and right.
#[test]
fn setup_recovers_from_a_failed_call() {
    emulated!();
    let mut app = application();
    let fields = app.field();
    let mut session = at_first_save(reference(Policy::Lru, 2).config, &fields).unwrap();
    emu::fail("cuMemcpyAsync", 1, 719);
    assert_eq!(session.save(0, &fields, HOST).unwrap_err().code, Code::Device);
    let again = session.save(0, &fields, HOST).unwrap_err();
    assert!(again.message.contains("call setup"), "{again}");
    session.setup().unwrap();
    app.forward(0);
    play(&mut session, &mut app).unwrap();
    assert!(app.right > 0);
}
