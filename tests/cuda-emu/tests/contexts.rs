//! Tests the stack of current contexts, two devices, and the first calls of a program.

mod common;

use common::*;
use std::ffi::CStr;

fn current() -> Handle {
    let mut context = 1;
    ok(cuCtxGetCurrent(Out::from(&mut context)));
    context
}

#[test]
fn each_thread_has_a_stack() {
    let session = Session::new(0, Mode::Random);
    let mut own = 0;
    ok(cuCtxCreate_v2(Out::from(&mut own), 0, 1));
    assert_eq!(current(), own);
    let mut device = -1;
    ok(cuCtxGetDevice(Out::from(&mut device)));
    assert_eq!(device, 1);
    ok(cuCtxPushCurrent_v2(session.context));
    std::thread::spawn(|| {
        assert_eq!(current(), 0);
        assert_eq!([cuCtxSynchronize(), cuCtxPopCurrent_v2(Out::null())], [INVALID_CONTEXT; 2]);
        assert_eq!(cuMemAlloc_v2(Out::from(&mut 0), 1), INVALID_CONTEXT);
        assert_eq!(cuStreamSynchronize(0), INVALID_CONTEXT);
    })
    .join()
    .unwrap();
    let mut popped = 0;
    ok(cuCtxPopCurrent_v2(Out::from(&mut popped)));
    assert_eq!((popped, current()), (session.context, own));
    assert_eq!(
        cuCtxDestroy_v2(session.context),
        INVALID_CONTEXT,
        "a primary context is released, not destroyed"
    );
    ok(cuCtxDestroy_v2(own));
    assert_eq!(
        (current(), cuCtxDestroy_v2(own), cuCtxSetCurrent(own)),
        (session.context, INVALID_CONTEXT, INVALID_CONTEXT)
    );
}

#[test]
fn the_last_release_ends_a_primary_context() {
    let session = Session::new(0, Mode::Random);
    assert_eq!(retain(0), session.context);
    ok(cuDevicePrimaryCtxRelease_v2(0));
    ok(cuCtxSynchronize());
    ok(cuDevicePrimaryCtxRelease_v2(0));
    assert_eq!(current(), session.context);
    assert_eq!([cuCtxSynchronize(), cuStreamSynchronize(0)], [CONTEXT_IS_DESTROYED; 2]);
    assert_eq!(cuDevicePrimaryCtxRelease_v2(0), INVALID_CONTEXT);
}

#[test]
fn streams_and_events_belong_to_their_context() {
    let _session = Session::new(0, Mode::Random);
    let (s0, e0) = (stream(NON_BLOCKING), event(2));
    let second = retain(1);
    ok(cuCtxPushCurrent_v2(second));
    let (s1, d1, host) = (stream(NON_BLOCKING), device_memory(8), pinned(8));
    assert_eq!(cuEventRecord(e0, s1), INVALID_HANDLE);
    assert_eq!(cuEventRecord(e0, 0), INVALID_HANDLE);
    ok(cuEventRecord(e0, s0));
    ok(cuStreamWaitEvent(s1, e0, 0));
    // A copy to device 1 may be enqueued in a stream of device 0.
    ok(cuMemcpyHtoDAsync_v2(d1, host, 8, s0));
    ok(cuStreamSynchronize(s0));
    let mut context = 0;
    ok(cuStreamGetCtx(s1, Out::from(&mut context)));
    assert_eq!(context, second);
    assert_eq!(
        [cuStreamDestroy_v2(0), cuEventDestroy_v2(0), cuEventRecord(0, 0)],
        [INVALID_HANDLE; 3]
    );
}

#[test]
fn devices_and_errors_have_names() {
    let _lock = exclusive(0, Mode::Random, 2);
    let (mut count, mut device, mut value, mut bytes) = (0, 0, 0, 0);
    ok(cuDeviceGetCount(Out::from(&mut count)));
    ok(cuDeviceGet(Out::from(&mut device), 1));
    ok(cuDeviceGetAttribute(Out::from(&mut value), 75, device));
    ok(cuDeviceTotalMem_v2(Out::from(&mut bytes), device));
    assert_eq!((count, device, value, bytes as u64), (2, 1, 8, CAPACITY));
    assert_eq!(
        [cuDeviceGet(Out::from(&mut device), 2), cuDeviceGet(Out::from(&mut device), -1)],
        [INVALID_DEVICE; 2]
    );
    let mut text = std::ptr::null();
    ok(cuGetErrorName(ILLEGAL_ADDRESS, Out::from(&mut text)));
    // SAFETY: the driver gave a C string.
    assert_eq!(unsafe { CStr::from_ptr(text) }, c"CUDA_ERROR_ILLEGAL_ADDRESS");
    assert_eq!(cuGetErrorName(12345, Out::from(&mut text)), INVALID_VALUE);
    assert_eq!(cuModuleUnload(0), INVALID_CONTEXT);
}

#[test]
fn a_machine_without_devices() {
    let _lock = exclusive(0, Mode::Random, 0);
    assert_eq!(cuInit(0), NO_DEVICE);
}
