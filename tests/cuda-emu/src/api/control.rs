//! The functions that a test uses besides the driver's; see `cuda_emu.h`.

use super::{Handle, Out};
use crate::call::{find, C_NAMES};
use crate::counters::Totals;
use crate::driver::{lock, Driver};
use crate::execute::Action;
use crate::faults::Drop;
use crate::history::Entry;
use crate::settings::{Mode, Settings};
use crate::status::{Status, INVALID_VALUE, SUCCESS};
use std::ffi::{c_char, CStr};

/// Starts again. 0, or -1 for an unknown mode, or the number of objects and operations that are
/// still alive; then nothing changes.
#[no_mangle]
pub extern "C" fn emu_reset(seed: u64, mode: i32, devices: i32, bytes_per_device: u64) -> i32 {
    let (Some(mode), Ok(devices)) = (Mode::from_number(mode), usize::try_from(devices)) else {
        return -1;
    };
    let mut driver = lock();
    driver.run_all();
    let settings = Settings {
        seed,
        mode,
        devices,
        memory: bytes_per_device,
        version: driver.settings.version,
    };
    i32::try_from(driver.reset(settings)).unwrap_or(i32::MAX)
}

/// Runs everything that is queued and can run, as if the devices had all the time they need; the
/// host's clock stands still.
#[no_mangle]
pub extern "C" fn emu_run_all() {
    lock().run_all();
}

/// The totals since the last reset.
#[no_mangle]
pub extern "C" fn emu_counters(totals: Out<Totals>) -> Status {
    totals.set(lock().counters.totals).err().unwrap_or(SUCCESS)
}

/// Calls of the entry point `name` since the last reset; all ones for an unknown name.
///
/// # Safety
/// `name` must be null or a C string.
#[no_mangle]
pub unsafe extern "C" fn emu_calls(name: *const c_char) -> u64 {
    // SAFETY: promised by the caller.
    let index = unsafe { text(name) }.and_then(find);
    index.map_or(u64::MAX, |index| lock().counters.calls[index])
}

/// Keeps a history of what is asked for from now on, until the next reset.
#[no_mangle]
pub extern "C" fn emu_history_start() {
    lock().history = Some(Vec::new());
}

/// Copies the first entries of the history, and returns how many there are; none if none is kept.
///
/// # Safety
/// `entries` must be null or have room for `room` of them.
#[no_mangle]
pub unsafe extern "C" fn emu_history(entries: *mut Entry, room: u64) -> u64 {
    let driver = lock();
    let history = driver.history.as_deref().unwrap_or_default();
    if !entries.is_null() {
        // SAFETY: promised by the caller; the history is this library's own.
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

/// Makes the `k`-th call of `name` from now return `code`, without doing anything else; a negative
/// `k` means every call from the `|k|`-th on, 0 none any more. `*` is any call; `exec` is the
/// execution of an asynchronous copy and `kernel` that of a kernel, whose errors stick to the
/// context.
///
/// # Safety
/// `name` must be null or a C string.
#[no_mangle]
pub unsafe extern "C" fn emu_fail(name: *const c_char, k: i64, code: Status) -> Status {
    // SAFETY: promised by the caller.
    let added = unsafe { text(name) }.is_some_and(|name| lock().faults.add(name, k, code));
    if added {
        SUCCESS
    } else {
        INVALID_VALUE
    }
}

/// The name of the call that was made to fail last; null for none since the last reset.
#[no_mangle]
pub extern "C" fn emu_struck() -> *const c_char {
    lock().faults.struck.map_or(std::ptr::null(), |call| C_NAMES[call as usize])
}

/// Loses the `k`-th operation of a kind from now: `wait`, `record` or `sync`; 0 loses none.
///
/// # Safety
/// `kind` must be null or a C string.
#[no_mangle]
pub unsafe extern "C" fn emu_drop(kind: *const c_char, k: u64) -> Status {
    // SAFETY: promised by the caller.
    let kind = match unsafe { text(kind) } {
        Some("wait") => Drop::Wait,
        Some("record") => Drop::Record,
        Some("sync") => Drop::Sync,
        _ => return INVALID_VALUE,
    };
    lock().faults.drop_later(kind, k);
    SUCCESS
}

/// Sets the bandwidths in bytes per second; they outlive a reset.
#[no_mangle]
pub extern "C" fn emu_bandwidth(h2d: f64, d2h: f64, d2d: f64) -> Status {
    if [h2d, d2h, d2d].iter().any(|bandwidth| bandwidth.is_nan() || *bandwidth <= 0.0) {
        return INVALID_VALUE;
    }
    lock().clock.bandwidth = [h2d, d2h, d2d];
    SUCCESS
}

/// Sets how long every kernel takes; it outlives a reset.
#[no_mangle]
pub extern "C" fn emu_launch(seconds: f64) -> Status {
    if !seconds.is_finite() || seconds < 0.0 {
        return INVALID_VALUE;
    }
    lock().clock.launch = seconds;
    SUCCESS
}

/// Enqueues virtual computation.
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

/// The virtual time at which the last operation that has run in a stream ended; NaN for no stream.
#[no_mangle]
pub extern "C" fn emu_clock(stream: Handle) -> f64 {
    let mut driver = lock();
    driver.stream(stream).map_or(f64::NAN, |stream| driver.streams[stream].end)
}

/// The virtual time that a stream has spent waiting for other streams; NaN for no stream.
#[no_mangle]
pub extern "C" fn emu_stall(stream: Handle) -> f64 {
    let mut driver = lock();
    driver.stream(stream).map_or(f64::NAN, |stream| driver.streams[stream].stall)
}

/// The host's virtual time.
#[no_mangle]
pub extern "C" fn emu_host_clock() -> f64 {
    lock().clock.host
}

/// The host works for so many virtual seconds.
#[no_mangle]
pub extern "C" fn emu_host_work(seconds: f64) -> Status {
    if !seconds.is_finite() || seconds < 0.0 {
        return INVALID_VALUE;
    }
    let mut driver = lock();
    driver.clock.host += seconds;
    driver.tick();
    SUCCESS
}

/// # Safety
/// `name` must be null or a C string that lives as long as the result.
unsafe fn text<'a>(name: *const c_char) -> Option<&'a str> {
    if name.is_null() {
        return None;
    }
    // SAFETY: promised by the caller.
    unsafe { CStr::from_ptr(name) }.to_str().ok()
}

impl Driver {
    /// Runs all that can run, in virtual time order where that is the mode.
    fn run_all(&mut self) {
        self.run_until(f64::INFINITY);
    }
}
