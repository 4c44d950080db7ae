//! Fields in every kind of device memory.

use super::gpu::{driver_has, Gpu, Memory, Own};
use super::shots::{App, Streams};
use super::{codec, small, starts};
use crate::common::app::{config, ok};
use crate::common::memory::{want, FieldMemory, Kind};
use crate::common::prelude::*;
use crate::common::{here, only_if};
use cudarc::driver::sys;

/// Runs shots, raw and compressed, with one field at `at`; returns the number of wrong states.
fn shots_at(gpu: &Gpu, at: u64) -> usize {
    let count = [small(gpu)[0]];
    [Method::None, Method::Cuszp]
        .map(|method| {
            let mut app = App::at(gpu, &count, &[at], Streams::NonBlocking, 2).lossy();
            let raw = config(Algorithm::Revolve, 3, 2, Policy::Clairvoyant);
            app.shot(raw.with(|c| c.codec.settings = codec(method)), 12).wrong
        })
        .iter()
        .sum()
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
    for (kind, name, function) in [
        (Kind::Plain, "cuMemAlloc", "cuMemAlloc_v2"),
        (Kind::Managed, "managed", "cuMemAllocManaged"),
        (Kind::Pool, "cuMemAllocAsync", "cuMemAllocAsync"),
        (Kind::Mapped, "cuMemMap", "cuMemCreate"),
        (Kind::Opened, "IPC", "cuIpcGetMemHandle"),
    ] {
        // The software driver's memory is that of one process.
        let is_offered = driver_has(function) && (kind != Kind::Opened || !gpu.is_software());
        let wrong = is_offered.then(|| match kind {
            Kind::Opened => in_another_process(bytes as u64),
            _ => {
                want(kind);
                let own = Own::new();
                let memory = FieldMemory::new(bytes, own.0);
                ok!(cuStreamSynchronize(own.0));
                let wrong = shots_at(&gpu, memory.address);
                memory.free();
                ok!(cuStreamSynchronize(own.0));
                wrong
            }
        });
        let offered = wrong.is_some();
        gpu.row("memory", &[("kind", &name), ("offered", &offered), ("wrong", &wrong)]);
        assert!(wrong.is_none_or(|wrong| wrong == 0), "{name}");
    }
}
