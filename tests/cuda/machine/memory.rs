//! Fields in every kind of device memory.

use super::gpu::{driver_has, Gpu, Memory, Own};
use super::shots::{App, Streams};
use super::{codec, small, starts};
use crate::common::app::{config, ok};
use crate::common::{here, only_if};
use cudarc::driver::sys;
use gpuzip::codec::Method;
use gpuzip::config::Config;
use gpuzip::plan::Policy;
use gpuzip::schedule::Algorithm;

/// Runs shots, raw and compressed, with one field at `at`; returns the number of wrong states.
fn shots_at(gpu: &Gpu, at: u64) -> usize {
    let count = [small(gpu)[0]];
    [Method::None, Method::Cuszp]
        .map(|method| {
            let mut app = App::at(gpu, &count, &[at], Streams::NonBlocking, 2).lossy();
            let raw = config(Algorithm::Revolve, 3, 2, Policy::Clairvoyant);
            app.shot(Config { compression: codec(method), ..raw }, 12).wrong
        })
        .iter()
        .sum()
}

/// Runs `body` with the address of memory that `cuMemCreate` and `cuMemMap` make.
fn with_mapped(bytes: usize, body: impl FnOnce(u64)) {
    // SAFETY: zero is a value of every member.
    let mut of: sys::CUmemAllocationProp = unsafe { std::mem::zeroed() };
    of.type_ = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    of.location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    let least = sys::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
    let (mut page, mut handle, mut at) = (0, 0, 0);
    ok!(cuMemGetAllocationGranularity(&mut page, &of, least));
    let bytes = bytes.next_multiple_of(page);
    ok!(cuMemCreate(&mut handle, bytes, &of, 0));
    ok!(cuMemAddressReserve(&mut at, bytes, 0, 0, 0));
    ok!(cuMemMap(at, bytes, 0, handle, 0));
    let access = sys::CUmemAccessDesc {
        location: of.location,
        flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    };
    ok!(cuMemSetAccess(at, bytes, &access, 1));
    body(at);
    ok!(cuMemUnmap(at, bytes));
    ok!(cuMemRelease(handle));
    ok!(cuMemAddressFree(at, bytes));
}

/// Runs `ipc_child` with the handle of a new allocation; returns the number of wrong states there.
fn in_another_process(bytes: u64) -> usize {
    let memory = Memory::new(bytes);
    let mut handle = sys::CUipcMemHandle { reserved: [0; 64] };
    ok!(cuIpcGetMemHandle(&mut handle, memory.0));
    let text: String = handle.reserved.iter().map(|byte| format!("{:02x}", *byte as u8)).collect();
    let output = crate::common::again("ipc_child").env("GPUZIP_TEST_IPC", text).output().unwrap();
    usize::from(!output.status.success())
}

/// The other process of a field that two processes share.
#[test]
fn ipc_child() {
    let Ok(text) = std::env::var("GPUZIP_TEST_IPC") else {
        println!("skipped: the test `kinds` runs this test");
        return;
    };
    let gpu = Gpu::new(0);
    let mut handle = sys::CUipcMemHandle { reserved: [0; 64] };
    for (k, byte) in handle.reserved.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * k..2 * k + 2], 16).unwrap() as _;
    }
    let mut at = 0;
    ok!(cuIpcOpenMemHandle_v2(&mut at, handle, 1));
    let wrong = shots_at(&gpu, at);
    ok!(cuIpcCloseMemHandle(at));
    assert_eq!(wrong, 0);
}

/// Fields in plain, managed, pooled, mapped and shared memory. Where the driver lacks a kind, the row
/// says so.
#[test]
fn kinds() {
    only_if!(starts(here!()));
    let gpu = Gpu::new(0);
    let bytes = 4 * small(&gpu)[0] as usize;
    for (kind, function) in [
        ("cuMemAlloc", "cuMemAlloc_v2"),
        ("managed", "cuMemAllocManaged"),
        ("cuMemAllocAsync", "cuMemAllocAsync"),
        ("cuMemMap", "cuMemCreate"),
        ("IPC", "cuIpcGetMemHandle"),
    ] {
        let mut wrong = None;
        // The software driver's memory is that of one process.
        let is_offered = driver_has(function) && (kind != "IPC" || !gpu.is_software());
        match kind {
            _ if !is_offered => {}
            "cuMemAlloc" => {
                let memory = Memory::new(bytes as u64);
                wrong = Some(shots_at(&gpu, memory.0));
            }
            "managed" => {
                let mut at = 0;
                ok!(cuMemAllocManaged(&mut at, bytes, 1));
                wrong = Some(shots_at(&gpu, at));
                ok!(cuMemFree_v2(at));
            }
            "cuMemAllocAsync" => {
                let (own, mut at) = (Own::new(), 0);
                let stream = own.0;
                ok!(cuMemAllocAsync(&mut at, bytes, stream));
                ok!(cuStreamSynchronize(stream));
                wrong = Some(shots_at(&gpu, at));
                ok!(cuMemFreeAsync(at, stream));
                ok!(cuStreamSynchronize(stream));
            }
            "cuMemMap" => with_mapped(bytes, |at| wrong = Some(shots_at(&gpu, at))),
            _ => wrong = Some(in_another_process(bytes as u64)),
        }
        let offered = wrong.is_some();
        gpu.row("memory", &[("kind", &kind), ("offered", &offered), ("wrong", &wrong)]);
        assert!(wrong.is_none_or(|wrong| wrong == 0), "{kind}");
    }
}
