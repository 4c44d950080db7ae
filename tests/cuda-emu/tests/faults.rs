//! Tests requested errors, host functions and deadlocks.

mod common;

use common::*;
use std::ffi::c_void;
use std::process::Command;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::time::Duration;

#[test]
fn the_kth_call_fails() {
    let _session = Session::new(0, Mode::Random);
    fail("cuMemAlloc_v2", 2, OUT_OF_MEMORY);
    device_memory(10);
    assert_eq!(cuMemAlloc_v2(Out::from(&mut 0), 10), OUT_OF_MEMORY);
    device_memory(10);
    fail("*", 1, UNKNOWN);
    assert_eq!(cuCtxSynchronize(), UNKNOWN);
    fail("*", 1, UNKNOWN);
    fail("*", 0, UNKNOWN);
    fail("cuMemHostAlloc", -2, OUT_OF_MEMORY);
    pinned(10);
    assert_eq!([0, 1, 2].map(|_| cuMemHostAlloc(Out::from(&mut 0), 10, 0)), [OUT_OF_MEMORY; 3]);
    assert_eq!(
        // SAFETY: the first name is a C string, the second a null pointer.
        unsafe { [emu_fail(c"cuNonsense".as_ptr(), 1, 1), emu_fail(std::ptr::null(), 1, 1)] },
        [INVALID_VALUE; 2]
    );
}

#[test]
fn a_copy_fails_when_it_runs() {
    let _session = Session::new(0, Mode::Late);
    let (s, device, host) = (stream(NON_BLOCKING), device_memory(10), pinned(10));
    fail("exec", 2, ECC_UNCORRECTABLE);
    ok(cuMemcpyHtoDAsync_v2(device, host, 10, s));
    ok(cuStreamSynchronize(s));
    ok(cuMemcpyHtoDAsync_v2(device, host, 10, s));
    assert_eq!(cuStreamSynchronize(s), ECC_UNCORRECTABLE);
    assert_eq!(cuMemcpyHtoDAsync_v2(device, host, 10, s), ECC_UNCORRECTABLE);
    assert_eq!(cuCtxSynchronize(), ECC_UNCORRECTABLE);
}

static CALLS: AtomicU32 = AtomicU32::new(0);
static STATUS: AtomicI32 = AtomicI32::new(-1);

extern "C" fn count(data: *mut c_void) {
    STATUS.store(cuCtxSynchronize(), Ordering::SeqCst);
    CALLS.fetch_add(data as u32, Ordering::SeqCst);
}

#[test]
fn host_functions_run_in_order_and_may_not_call_the_driver() {
    for seed in 0..20 {
        let _session = Session::new(seed, Mode::Random);
        CALLS.store(0, Ordering::SeqCst);
        let (a, b, e) = (stream(NON_BLOCKING), stream(NON_BLOCKING), event(2));
        ok(cuLaunchHostFunc(a, Some(count), 3 as *mut c_void));
        ok(cuEventRecord(e, a));
        ok(cuStreamWaitEvent(b, e, 0));
        ok(cuStreamSynchronize(b));
        assert_eq!(
            (CALLS.load(Ordering::SeqCst), STATUS.load(Ordering::SeqCst)),
            (3, NOT_PERMITTED)
        );
    }
}

extern "C" fn wait_for_release(_: *mut c_void) {
    while CALLS.load(Ordering::SeqCst) != 100 {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_host_function_that_waits_stops_only_its_stream() {
    let _session = Session::new(0, Mode::Early);
    CALLS.store(0, Ordering::SeqCst);
    let (a, b, device, host) =
        (stream(NON_BLOCKING), stream(NON_BLOCKING), device_memory(10), pinned(10));
    ok(cuLaunchHostFunc(a, Some(wait_for_release), std::ptr::null_mut()));
    ok(cuMemcpyHtoDAsync_v2(device, host, 10, b));
    ok(cuStreamSynchronize(b));
    assert_eq!((cuStreamQuery(a), totals().executed), (NOT_READY, 1));
    CALLS.store(100, Ordering::SeqCst);
    ok(cuStreamSynchronize(a));
}

/// Runs itself again in a process of its own, which must abort.
#[test]
fn a_deadlock_ends_the_process() {
    const CHILD: &str = "CUDA_EMU_TEST_CHILD";
    if std::env::var_os(CHILD).is_none() {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child
            .args(["--exact", "a_deadlock_ends_the_process", "--nocapture"])
            .env(CHILD, "1")
            .env("CUDA_EMU_DEADLOCK_SECONDS", "0");
        let output = child.output().unwrap();
        assert!(!output.status.success());
        assert!(
            String::from_utf8_lossy(&output.stderr).contains("cuda-emu: deadlock"),
            "{output:?}"
        );
        return;
    }
    let _session = Session::new(0, Mode::Random);
    let s = stream(NON_BLOCKING);
    ok(cuLaunchHostFunc(s, Some(wait_for_release), std::ptr::null_mut()));
    ok(cuStreamSynchronize(s));
}

#[test]
fn the_environment_gives_the_defaults() {
    const CHILD: &str = "CUDA_EMU_TEST_ENV_CHILD";
    if std::env::var_os(CHILD).is_none() {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child
            .args(["--exact", "the_environment_gives_the_defaults", "--nocapture"])
            .env(CHILD, "1");
        child
            .env("CUDA_EMU_DEVICES", "3")
            .env("CUDA_EMU_MEMORY", "2M")
            .env("CUDA_EMU_DRIVER_VERSION", "10020");
        child.env("CUDA_EMU_MODE", "late").env("CUDA_EMU_SEED", "5");
        let output = child.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        return;
    }
    let (mut value, mut bytes) = (0, 0);
    assert_eq!(cuDeviceGetCount(Out::from(&mut value)), NOT_INITIALIZED);
    ok(cuInit(0));
    ok(cuDeviceGetCount(Out::from(&mut value)));
    assert_eq!(value, 3);
    ok(cuDeviceTotalMem_v2(Out::from(&mut bytes), 0));
    ok(cuDriverGetVersion(Out::from(&mut value)));
    assert_eq!((bytes, value), (2 << 20, 10020));
}
