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
}

/// What the driver tells of a pointer, by the numbers of `CUpointer_attribute`: the type (2), the
/// context (1), the device (9), whether it is managed (8).
fn told(address: Address) -> (u32, usize, i32, u32) {
    let (mut kind, mut context, mut device, mut managed) = (9, usize::MAX, -1, 9);
    let values = [
        (&raw mut kind).cast::<c_void>(),
        (&raw mut context).cast(),
        (&raw mut device).cast(),
        (&raw mut managed).cast(),
    ];
    // SAFETY: four attributes and four places of their types.
    ok(unsafe { cuPointerGetAttributes(4, [2, 1, 9, 8].as_ptr(), values.as_ptr(), address) });
    (kind, context, device, managed)
}

#[test]
fn pointers_have_attributes() {
    let session = Session::new(0, Mode::Random);
    let (device, host, ordinary) = (device_memory(100), pinned(100), [0_u8; 8]);
    let mut managed = 0;
    ok(cuMemAllocManaged(Out::from(&mut managed), 100, 1));
    assert_eq!(told(device + 99), (2, session.context, 0, 0));
    assert_eq!(told(host), (1, session.context, 0, 0));
    assert_eq!(told(managed), (2, session.context, 0, 1));
    let nothing = (0, 0, -2, 0);
    assert_eq!(told(ordinary.as_ptr() as usize), nothing);
    assert_eq!(told(device + 100), nothing);
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

/// Memory of a pool lives from its allocation to its release in the order of the streams: a copy on
/// another stream that nothing orders comes too early, or too late, under some seeds.
#[test]
fn memory_of_a_pool_lives_in_the_order_of_the_streams() {
    for (ordered, expected) in [(true, [true, false]), (false, [true, true])] {
        let mut outcomes = [false; 2];
        for seed in 0..60 {
            let _session = Session::new(seed, Mode::Random);
            let (s, other, host) = (stream(NON_BLOCKING), stream(NON_BLOCKING), pinned(100));
            let (begun, used) = (event(0), event(0));
            let mut pool = 0;
            ok(cuMemAllocAsync(Out::from(&mut pool), 100, s));
            ok(cuEventRecord(begun, s));
            let wait =
                |stream, event| if ordered { cuStreamWaitEvent(stream, event, 0) } else { 0 };
            let results = [
                wait(other, begun),
                cuMemcpyHtoDAsync_v2(pool, host, 100, other),
                cuEventRecord(used, other),
                wait(s, used),
                cuMemFreeAsync(pool, s),
                cuStreamSynchronize(other),
                cuStreamSynchronize(s),
            ];
            let is_late = results.contains(&ILLEGAL_ADDRESS);
            assert!(is_late || results == [0; 7], "{results:?}");
            outcomes[usize::from(is_late)] = true;
            // The error sticks: the end of the context frees what is left.
            if is_late {
                continue;
            }
            assert_eq!(cuMemcpyHtoDAsync_v2(pool, host, 100, s), INVALID_VALUE, "freed memory");
            assert_eq!(totals().device_bytes, 0);
        }
        assert_eq!(outcomes, expected, "ordered: {ordered}");
    }
}

/// Two pieces of physical memory side by side are one range for copies, as long as both are mapped.
#[test]
fn mapped_memory_side_by_side_is_one_range() {
    let _session = Session::new(3, Mode::Late);
    let location = Location { kind: 1, id: 1 };
    let mut properties = Properties { kind: 1, handles: 0, location };
    let (mut piece, mut base, host) = (0, 0, pinned(4096));
    ok(cuMemGetAllocationGranularity(Out::from(&mut piece), Out::from(&mut properties), 0));
    ok(cuMemAddressReserve(Out::from(&mut base), 3 * piece, 0, 0, 0));
    for k in 0..2 {
        let mut handle = 0;
        ok(cuMemCreate(Out::from(&mut handle), piece, Out::from(&mut properties), 0));
        ok(cuMemMap(base + k * piece, piece, 0, handle, 0));
        assert_eq!(cuMemMap(base + 2 * piece, piece, 0, handle, 0), INVALID_VALUE, "mapped twice");
        ok(cuMemRelease(handle));
    }
    let mut access = Access { location, flags: 3 };
    ok(cuMemSetAccess(base, 2 * piece, Out::from(&mut access), 1));
    assert_eq!(told(base + piece + 5), (2, 0, 1, 0), "of no context");
    assert_eq!(totals().device_bytes, 2 * piece as u64);
    let (s, middle) = (stream(NON_BLOCKING), base + piece - 100);
    ok(cuMemcpyHtoDAsync_v2(middle, host, 200, s));
    ok(cuStreamSynchronize(s));
    assert_eq!(cuMemcpyHtoDAsync_v2(base + 2 * piece - 100, host, 200, s), INVALID_VALUE);
    assert_eq!(cuMemFree_v2(base), INVALID_VALUE);
    assert_eq!(cuMemAddressFree(base, 3 * piece), INVALID_VALUE, "mapped");
    ok(cuMemcpyDtoHAsync_v2(host, middle, 200, s));
    ok(cuMemUnmap(base + piece, piece));
    assert_eq!(cuStreamSynchronize(s), ILLEGAL_ADDRESS, "unmapped under a queued copy");
    ok(cuMemUnmap(base, piece));
    ok(cuMemAddressFree(base, 3 * piece));
    assert_eq!(totals().device_bytes, 0);
}

#[test]
fn memory_of_another_process_is_device_memory() {
    let session = Session::new(3, Mode::Late);
    let (own, mut address) = (device_memory(100), 0);
    let mut handle = MemHandle::default();
    ok(cuIpcGetMemHandle(Out::from(&mut handle), own));
    assert_eq!(cuIpcOpenMemHandle_v2(Out::from(&mut address), handle, 1), INVALID_CONTEXT);
    ok(emu_ipc(Out::from(&mut handle), 100));
    ok(cuIpcOpenMemHandle_v2(Out::from(&mut address), handle, 1));
    assert_eq!(told(address), (2, session.context, 0, 0));
    assert_eq!(cuIpcGetMemHandle(Out::from(&mut handle), address), INVALID_VALUE);
    assert_eq!(cuMemFree_v2(address), INVALID_VALUE);
    assert_eq!(totals().device_bytes, 100, "the other process has the memory");
    ok(cuIpcCloseMemHandle(address));
}
