//! Tests capacity, poison, pageable memory, pointer attributes, and the counts of live objects.

mod common;

use common::*;
use std::ffi::c_void;

#[test]
fn memory_is_poisoned_and_bounded() {
    let _session = Session::new(0, Mode::Random);
    let a = device_memory(CAPACITY as usize / 2);
    assert!(bytes(a, 4096).iter().all(|byte| *byte == POISON));
    let mut address = 0;
    assert_eq!(cuMemAlloc_v2(Out::from(&mut address), CAPACITY as usize / 2 + 1), OUT_OF_MEMORY);
    assert_eq!(cuMemAlloc_v2(Out::from(&mut address), 0), INVALID_VALUE);
    assert_eq!(cuMemAlloc_v2(Out::null(), 1), INVALID_VALUE);
    let (mut free, mut total) = (0, 0);
    ok(cuMemGetInfo_v2(Out::from(&mut free), Out::from(&mut total)));
    assert_eq!((free as u64, total as u64), (CAPACITY / 2, CAPACITY));
    fill(a, 0, 4096);
    ok(cuMemFree_v2(a));
    assert!(bytes(a, 4096).iter().all(|byte| *byte == POISON));
    assert_eq!(cuMemFree_v2(a), INVALID_VALUE);
    let b = device_memory(CAPACITY as usize);
    assert_ne!(a, b, "addresses are not reused");
    ok(cuMemFree_v2(b));
    assert_eq!(totals().peak_device_bytes, CAPACITY);
}

#[test]
fn pageable_copies_are_staged_or_wait() {
    for seed in 0..50 {
        let _session = Session::new(seed, Mode::Random);
        let (s, device) = (stream(NON_BLOCKING), device_memory(100));
        let mut host = vec![7_u8; 100];
        ok(cuMemcpyHtoDAsync_v2(device, host.as_ptr() as usize, 100, s));
        host.fill(0);
        ok(cuMemcpyDtoHAsync_v2(host.as_mut_ptr() as usize, device, 100, s));
        assert_eq!(host, [7; 100]);
        assert_eq!((totals().pageable_copies, totals().host_syncs), (2, 2));
        host.fill(9);
        ok(cuMemcpyHtoD_v2(device, host.as_ptr() as usize, 100));
        host.fill(0);
        ok(cuMemcpyDtoH_v2(host.as_mut_ptr() as usize, device, 100));
        assert_eq!(host, [9; 100]);
        ok(cuMemFree_v2(device));
        ok(cuStreamDestroy_v2(s));
    }
}

#[test]
fn copies_are_checked_when_they_are_asked_for() {
    let _session = Session::new(0, Mode::Late);
    let (s, device, host) = (stream(NON_BLOCKING), device_memory(100), pinned(100));
    assert_eq!(cuMemcpyHtoDAsync_v2(device, host, 101, s), INVALID_VALUE);
    assert_eq!(cuMemcpyHtoDAsync_v2(device + 1, host, 100, s), INVALID_VALUE);
    assert_eq!(cuMemcpyHtoDAsync_v2(0, host, 1, s), INVALID_VALUE);
    assert_eq!(cuMemcpyHtoDAsync_v2(host, host, 1, s), INVALID_VALUE);
    assert_eq!(cuMemcpyDtoHAsync_v2(host, host, 1, s), INVALID_VALUE);
    assert_eq!(cuMemsetD8Async(device, 0, 101, s), INVALID_VALUE);
    assert_eq!(cuMemcpyHtoDAsync_v2(device, host, 1, 12345), INVALID_HANDLE);
    ok(cuMemcpyHtoDAsync_v2(device, host, 0, s));
    ok(cuMemcpyAsync(device, host, 100, s));
    ok(cuMemcpyAsync(host, device, 50, s));
    ok(cuMemcpyDtoDAsync_v2(device, device + 50, 25, s));
    ok(cuMemsetD8Async(device, 3, 10, s));
    let t = totals();
    assert_eq!((t.h2d_bytes, t.d2h_bytes, t.d2d_bytes), (100, 50, 25));
    assert_eq!((t.h2d_copies, t.d2h_copies, t.d2d_copies, t.host_syncs), (1, 1, 1, 0));
    ok(cuStreamSynchronize(s));
    assert_eq!(bytes(device, 10), [3; 10]);
    ok(cuMemFree_v2(device));
    ok(cuMemFreeHost(host));
    ok(cuStreamDestroy_v2(s));
}

#[test]
fn a_copy_from_freed_pinned_memory_is_an_error_that_sticks() {
    let session = Session::new(0, Mode::Late);
    let (s, device, host) = (stream(NON_BLOCKING), device_memory(100), pinned(100));
    ok(cuMemcpyHtoDAsync_v2(device, host, 100, s));
    ok(cuMemFreeHost(host));
    assert_eq!(cuStreamSynchronize(s), ILLEGAL_ADDRESS);
    let mut handle = 0;
    assert_eq!(cuStreamCreate(Out::from(&mut handle), 0), ILLEGAL_ADDRESS);
    assert_eq!(
        [cuStreamQuery(s), cuCtxSynchronize(), cuMemFree_v2(device), cuStreamDestroy_v2(s)],
        [ILLEGAL_ADDRESS; 4]
    );
    assert_eq!((totals().streams, totals().allocations), (1, 1));
    // The end of the context frees all its objects, and no error sticks to the next context.
    ok(cuDevicePrimaryCtxRelease_v2(0));
    assert_eq!((totals().streams, totals().allocations, totals().abandoned), (0, 0, 2));
    assert_eq!(retain(0), session.context);
    ok(cuCtxSynchronize());
}

#[test]
fn registered_memory_is_page_locked_memory() {
    let _session = Session::new(0, Mode::Late);
    let mut memory = vec![5_u8; 8192];
    let address = memory.as_mut_ptr() as usize;
    ok(cuMemHostRegister_v2(address, 8192, 0));
    assert_eq!(cuMemHostRegister_v2(address + 100, 8192, 0), HOST_MEMORY_ALREADY_REGISTERED);
    let (s, device) = (stream(NON_BLOCKING), device_memory(8192));
    ok(cuMemcpyHtoDAsync_v2(device, address, 8192, s));
    assert_eq!((totals().pageable_copies, totals().pending), (0, 1));
    memory.fill(6);
    ok(cuStreamSynchronize(s));
    assert_eq!(bytes(device, 1), [6], "read when the copy runs");
    ok(cuMemHostUnregister(address));
    assert_eq!(cuMemHostUnregister(address), HOST_MEMORY_NOT_REGISTERED);
    assert_eq!(memory[0], 6, "not poisoned: it is the application's");
    ok(cuMemFree_v2(device));
    ok(cuStreamDestroy_v2(s));
}

fn attribute<T: Copy>(address: Address, attribute: u32, initial: T) -> Result<T> {
    let mut value = initial;
    // SAFETY: the tests request attributes whose size is that of `T`.
    match unsafe { cuPointerGetAttribute((&raw mut value).cast::<c_void>(), attribute, address) } {
        SUCCESS => Ok(value),
        code => Err(code),
    }
}

#[test]
fn pointers_have_attributes() {
    let session = Session::new(0, Mode::Random);
    let (device, host, ordinary) = (device_memory(100), pinned(100), [0_u8; 8]);
    let mut managed = 0;
    ok(cuMemAllocManaged(Out::from(&mut managed), 100, 1));
    let of = |address| {
        (attribute(address, 2, 0_u32), attribute(address, 8, 9_u32), attribute(address, 9, 9_i32))
    };
    assert_eq!(of(device + 99), (Ok(2), Ok(0), Ok(0)));
    assert_eq!(of(host), (Ok(1), Ok(0), Ok(0)));
    assert_eq!(of(managed), (Ok(2), Ok(1), Ok(0)));
    let nothing = (Err(INVALID_VALUE), Err(INVALID_VALUE), Err(INVALID_VALUE));
    assert_eq!(of(ordinary.as_ptr() as usize), nothing);
    assert_eq!(of(device + 100), nothing);
    assert_eq!(attribute(device, 1, 0_usize), Ok(session.context));

    let (mut kind, mut ordinal) = (9_u32, 9_i32);
    let places = [(&raw mut kind).cast::<c_void>(), (&raw mut ordinal).cast::<c_void>()];
    // SAFETY: both arrays have two elements, and both attributes have 4 bytes.
    ok(unsafe {
        cuPointerGetAttributes(2, [2, 9].as_ptr(), places.as_ptr(), ordinary.as_ptr() as usize)
    });
    assert_eq!((kind, ordinal), (0, -2));
    ok(cuMemFree_v2(device));
    ok(cuMemFree_v2(managed));
    ok(cuMemFreeHost(host));
}

#[test]
fn what_is_alive_is_counted() {
    let _session = Session::new(0, Mode::Random);
    let (s, e, device, host) = (stream(0), event(0), device_memory(10), pinned(10));
    let t = totals();
    assert_eq!(
        (t.streams, t.events, t.allocations, t.host_allocations, t.retained, t.contexts),
        (1, 1, 1, 1, 1, 0)
    );
    assert_eq!(emu_reset(0, 0, 1, 1), 5);
    assert_eq!(totals(), t, "a refused reset changes nothing");
    ok(cuStreamDestroy_v2(s));
    ok(cuEventDestroy_v2(e));
    ok(cuMemFree_v2(device));
    ok(cuMemFreeHost(host));
    let t = totals();
    assert_eq!(
        (t.streams, t.events, t.allocations, t.host_allocations, t.device_bytes),
        (0, 0, 0, 0, 0)
    );
    assert_eq!(
        (calls("cuStreamCreate"), calls("cuMemAlloc_v2"), calls("cuNonsense")),
        (1, 1, u64::MAX)
    );
}
