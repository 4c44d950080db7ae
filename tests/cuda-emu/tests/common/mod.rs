//! Helpers of the tests. A process has one driver, so one test runs at a time. The driver's calls
//! are wrapped in functions that panic on an error.

#![allow(dead_code, unused_imports, reason = "each test file uses its share")]

pub use cuda_emu::api::{
    context::*, control::*, copy::*, device::*, event::*, ipc::*, mapped::*, memory::*, module::*,
    nvrtc::*, pointer::*, pool::*, stream::*,
};
pub use cuda_emu::api::{Address, Handle, Out};
pub use cuda_emu::{status::*, Entry, Kind, Mode, Totals};
use std::ffi::CString;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The value of each byte of new and of freed memory.
pub const POISON: u8 = 0xA5;
/// Capacity of a device in bytes.
pub const CAPACITY: u64 = 1 << 20;
/// The flag of streams that do not synchronise with the default stream.
pub const NON_BLOCKING: u32 = 1;

/// Exclusive use of the driver, with the primary context of device 0 current. The end of a session
/// ends the primary contexts, with all streams, events and memory of the test.
pub struct Session {
    _lock: MutexGuard<'static, ()>,
    pub context: Handle,
}

impl Session {
    pub fn new(seed: u64, mode: Mode) -> Self {
        let session = Self { _lock: exclusive(seed, mode, 2), context: retain(0) };
        ok(cuCtxSetCurrent(session.context));
        session
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        cuCtxSetCurrent(0);
        for device in 0..2 {
            cuDevicePrimaryCtxRelease_v2(device);
        }
    }
}

/// Resets the driver and returns a guard for its exclusive use.
pub fn exclusive(seed: u64, mode: Mode, devices: i32) -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    let lock = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(
        emu_reset(seed, mode as i32, devices, CAPACITY),
        0,
        "something of the last test is alive"
    );
    if devices > 0 {
        ok(cuInit(0));
    }
    lock
}

/// Panics unless a call has succeeded.
#[track_caller]
pub fn ok(status: Status) {
    assert_eq!(status, SUCCESS);
}

#[track_caller]
fn made<T: Default>(make: impl FnOnce(Out<T>) -> Status) -> T {
    let mut object = T::default();
    ok(make(Out::from(&mut object)));
    object
}

pub fn retain(device: i32) -> Handle {
    made(|out| cuDevicePrimaryCtxRetain(out, device))
}

pub fn stream(flags: u32) -> Handle {
    made(|out| cuStreamCreate(out, flags))
}

pub fn event(flags: u32) -> Handle {
    made(|out| cuEventCreate(out, flags))
}

pub fn device_memory(bytes: usize) -> Address {
    made(|out| cuMemAlloc_v2(out, bytes))
}

pub fn pinned(bytes: usize) -> Address {
    made(|out| cuMemHostAlloc(out, bytes, 0))
}

pub fn totals() -> Totals {
    made(|out| emu_counters(out))
}

pub fn fail(name: &str, k: i64, code: Status) {
    let name = CString::new(name).unwrap();
    // SAFETY: a C string.
    ok(unsafe { emu_fail(name.as_ptr(), k, code) });
}

pub fn lose(kind: &str, k: u64) {
    let kind = CString::new(kind).unwrap();
    // SAFETY: a C string.
    ok(unsafe { emu_drop(kind.as_ptr(), k) });
}

pub fn calls(name: &str) -> u64 {
    let name = CString::new(name).unwrap();
    // SAFETY: a C string.
    unsafe { emu_calls(name.as_ptr()) }
}

/// Returns the bytes at an address as the host reads them now.
pub fn bytes(address: Address, len: usize) -> Vec<u8> {
    // SAFETY: the tests give addresses inside live memory of the driver.
    unsafe { std::slice::from_raw_parts(address as *const u8, len) }.to_vec()
}

/// Writes `len` bytes from the host.
pub fn fill(address: Address, value: u8, len: usize) {
    // SAFETY: the tests give addresses inside live memory of the driver.
    unsafe { std::ptr::write_bytes(address as *mut u8, value, len) };
}

/// Runs `body` once for each of the seeds 0, 1, ..., after a reset, and returns the results.
pub fn seeds<T>(count: u64, mode: Mode, mut body: impl FnMut() -> T) -> Vec<T> {
    (0..count)
        .map(|seed| {
            let _session = Session::new(seed, mode);
            body()
        })
        .collect()
}
