//! The control functions that a test uses besides the driver API. A test finds these functions with
//! `dlsym` in the library that the program under test has loaded as libcuda.so.1: a second copy of the
//! library, or the rlib, is a second driver. Functions that return a status return 0 for success unless
//! said otherwise. All may be called from any thread, but not from a host function of a stream.

use super::{Handle, Out};
use crate::call::{find, C_NAMES};
use crate::counters::Totals;
use crate::driver::{lock, Driver};
use crate::execute::Action;
use crate::faults::Drop;
use crate::history::Entry;
use crate::ptx::Counts;
use crate::settings::{Mode, Settings};
use crate::status::{Status, INVALID_VALUE, SUCCESS};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::{c_char, CStr};

/// Runs all queued work, then resets the driver: clears counters, virtual time, faults and drops.
/// Handles and addresses begin again at their first values, so that the same calls give the same run.
/// Returns 0, or -1 for an unknown mode, or the number of objects and operations that are still alive;
/// without 0 nothing changes. `cuInit` need not be called again.
#[no_mangle]
pub extern "C" fn emu_reset(seed: u64, mode: i32, devices: i32, bytes_per_device: u64) -> i32 {
    let (Some(mode), Ok(devices)) = (Mode::from_number(mode), usize::try_from(devices)) else {
        return -1;
    };
    let mut driver = lock();
    driver.run_all();
    let settings = Settings { seed, mode, devices, memory: bytes_per_device, ..driver.settings };
    i32::try_from(driver.reset(settings)).unwrap_or(i32::MAX)
}

/// Writes the totals since the last reset.
#[no_mangle]
pub extern "C" fn emu_counters(totals: Out<Totals>) -> Status {
    totals.set(lock().counters.totals).err().unwrap_or(SUCCESS)
}

/// Returns the number of calls of the entry point `name` since the last reset; `u64::MAX` for an
/// unknown name.
///
/// # Safety
/// `name` must be null or a C string.
#[no_mangle]
pub unsafe extern "C" fn emu_calls(name: *const c_char) -> u64 {
    // SAFETY: the caller promises that `name` is null or a C string.
    let index = unsafe { text(name) }.and_then(find);
    index.map_or(u64::MAX, |index| lock().counters.calls[index])
}

/// Keeps a history of the program's requests from now on, until the next reset: no operations lost by
/// `emu_drop`, and not the order that the legacy default stream and blocking streams keep.
#[no_mangle]
pub extern "C" fn emu_history_start() {
    lock().history = Some(Vec::new());
}

/// Copies the first `room` entries of the history, and returns the number of all entries; 0 if no
/// history is kept.
///
/// # Safety
/// `entries` must be null or have room for `room` entries.
#[no_mangle]
pub unsafe extern "C" fn emu_history(entries: *mut Entry, room: u64) -> u64 {
    let driver = lock();
    let history = driver.history.as_deref().unwrap_or_default();
    if !entries.is_null() {
        // SAFETY: the caller promises that `entries` has room for `room` entries, and the source is
        // a vector of this library.
        unsafe {
            std::ptr::copy_nonoverlapping(
                history.as_ptr(),
                entries,
                history.len().min(room as usize),
            )
        };
    }
    history.len() as u64
}

/// What the launches of an interpreted kernel have done.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KernelCounts {
    /// The name, cut to 47 characters, and zeros.
    pub name: [u8; 48],
    /// The counts of all its launches.
    pub counts: Counts,
}

impl KernelCounts {
    /// Returns the name of the kernel.
    pub fn name(&self) -> Cow<'_, str> {
        let end = self.name.iter().position(|byte| *byte == 0).unwrap_or(self.name.len());
        String::from_utf8_lossy(&self.name[..end])
    }
}

/// Counts from now on, until the next reset, what the launches of interpreted kernels do. With
/// `CUDA_EMU_PTX_ORDER=steady` and the mode `Early` the counts depend on the program alone.
#[no_mangle]
pub extern "C" fn emu_count_kernels() {
    lock().kernels = Some(BTreeMap::new());
}

/// Copies the counts of the first `room` kernels, by name, and returns the number of kernels that
/// have run since `emu_count_kernels`.
///
/// # Safety
/// `kernels` must be null or have room for `room` entries.
#[no_mangle]
pub unsafe extern "C" fn emu_kernels(kernels: *mut KernelCounts, room: u64) -> u64 {
    let driver = lock();
    let Some(all) = &driver.kernels else { return 0 };
    if !kernels.is_null() {
        for (i, (text, &counts)) in all.iter().take(room as usize).enumerate() {
            let mut name = [0; 48];
            name.iter_mut().zip(text.bytes().take(47)).for_each(|(to, byte)| *to = byte);
            // SAFETY: the caller promises that `kernels` has room for `room` entries.
            unsafe { kernels.add(i).write(KernelCounts { name, counts }) };
        }
    }
    all.len() as u64
}

/// Makes the `k`-th call of `name` from now return `code`, without doing anything else. A negative
/// `k` means every call from the `|k|`-th on; 0 removes the faults of this name. `*` stands for any
/// call, `exec` for the execution of an asynchronous copy and `kernel` for the execution of a
/// kernel; the errors of `exec` and `kernel` stick to the context.
///
/// # Safety
/// `name` must be null or a C string.
#[no_mangle]
pub unsafe extern "C" fn emu_fail(name: *const c_char, k: i64, code: Status) -> Status {
    // SAFETY: the caller promises that `name` is null or a C string.
    let added = unsafe { text(name) }.is_some_and(|name| lock().faults.add(name, k, code));
    if added {
        SUCCESS
    } else {
        INVALID_VALUE
    }
}

/// Returns the name of the last call that `emu_fail` made fail; null: none since the last reset.
#[no_mangle]
pub extern "C" fn emu_struck() -> *const c_char {
    lock().faults.struck.map_or(std::ptr::null(), |call| C_NAMES[call as usize])
}

/// Makes the `k`-th call of a kind (`wait`, `record`, `sync` or `value`) from now succeed without
/// any effect; `k` = 0: none.
///
/// # Safety
/// `kind` must be null or a C string.
#[no_mangle]
pub unsafe extern "C" fn emu_drop(kind: *const c_char, k: u64) -> Status {
    // SAFETY: the caller promises that `kind` is null or a C string.
    let kind = match unsafe { text(kind) } {
        Some("wait") => Drop::Wait,
        Some("record") => Drop::Record,
        Some("sync") => Drop::Sync,
        Some("value") => Drop::Value,
        _ => return INVALID_VALUE,
    };
    lock().faults.drop_later(kind, k);
    SUCCESS
}

/// Sets the bandwidths of copies in bytes per second; a reset keeps the bandwidths.
#[no_mangle]
pub extern "C" fn emu_bandwidth(h2d: f64, d2h: f64, d2d: f64) -> Status {
    if [h2d, d2h, d2d].iter().any(|bandwidth| bandwidth.is_nan() || *bandwidth <= 0.0) {
        return INVALID_VALUE;
    }
    lock().clock.bandwidth = [h2d, d2h, d2d];
    SUCCESS
}

/// Sets the virtual seconds that each kernel takes; a reset keeps this time.
#[no_mangle]
pub extern "C" fn emu_launch(seconds: f64) -> Status {
    if !seconds.is_finite() || seconds < 0.0 {
        return INVALID_VALUE;
    }
    lock().clock.launch = seconds;
    SUCCESS
}

/// Returns the number of `cuEventSynchronize` calls since the last reset that had to wait for an
/// event without the flag of blocking waits: a real driver may spin on a core for their time.
#[no_mangle]
pub extern "C" fn emu_spins() -> u64 {
    lock().spins
}

/// Returns the number of calls since the last reset that waited because a queue was full.
#[no_mangle]
pub extern "C" fn emu_full_queues() -> u64 {
    lock().full_queues
}

/// Limits the bytes of page-locked memory, allocated or registered, until the next reset.
#[no_mangle]
pub extern "C" fn emu_pinned(bytes: u64) {
    lock().most_pinned = bytes;
}

/// Enqueues a computation of `seconds` virtual seconds in a stream.
#[no_mangle]
pub extern "C" fn emu_work(stream: Handle, seconds: f64) -> Status {
    if !seconds.is_finite() || seconds < 0.0 {
        return INVALID_VALUE;
    }
    let mut driver = lock();
    let queued = driver
        .stream(stream)
        .map(|stream| driver.enqueue(stream, Action::Work(seconds), Vec::new()));
    driver.tick();
    queued.err().unwrap_or(SUCCESS)
}

/// Returns the virtual time in seconds at which the last operation that has run in a stream ended;
/// NaN if there is no such stream.
#[no_mangle]
pub extern "C" fn emu_clock(stream: Handle) -> f64 {
    let mut driver = lock();
    driver.stream(stream).map_or(f64::NAN, |stream| driver.streams[stream].end)
}

/// Returns the host's virtual time in seconds.
#[no_mangle]
pub extern "C" fn emu_host_clock() -> f64 {
    lock().clock.host
}

/// # Safety
/// `name` must be null or a C string that lives as long as the result.
unsafe fn text<'a>(name: *const c_char) -> Option<&'a str> {
    if name.is_null() {
        return None;
    }
    // SAFETY: the caller promises a C string; `name` is not null here.
    unsafe { CStr::from_ptr(name) }.to_str().ok()
}

impl Driver {
    /// Runs all operations that can run; in the mode `Timed` in the order of virtual time.
    fn run_all(&mut self) {
        self.run_until(f64::INFINITY);
    }
}
