//! Requests to stop the run, from the application or from a signal, and the signal handlers.
//!
//! Everything that a handler uses is an atomic or a system call that may be made in a handler.

use crate::error::{fail, Result};
use crate::process::Process;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};

/// When the stop was requested, in nanoseconds of the monotonic clock; 0: no stop was requested.
static REQUESTED: AtomicU64 = AtomicU64::new(0);
/// The process (`Process::number`) of that request: a forked child begins without a request.
static OWNER: AtomicU64 = AtomicU64::new(0);
/// The seconds that a stop may take, as the bits of an `f64`.
static BUDGET: AtomicU64 = AtomicU64::new(DEFAULT_BUDGET.to_bits());

/// Seconds that a stop may take unless the configuration says otherwise. Open MPI kills the ranks
/// that are left 2 s after one has died.
pub const DEFAULT_BUDGET: f64 = 1.5;

/// Signals have numbers below this one.
const SIGNALS: usize = 65;
/// The handler that each signal had before, and its flags; 0: default or none.
static BEFORE: [AtomicUsize; SIGNALS] = [const { AtomicUsize::new(0) }; SIGNALS];
static FLAGS: [AtomicI32; SIGNALS] = [const { AtomicI32::new(0) }; SIGNALS];
/// Whether the signal was caught: `on_signal` is then its handler, or the application's handler may
/// call `on_signal`. `BEFORE` must not change any more, for with that handler in it the two would
/// call each other without end.
static CAUGHT: [AtomicBool; SIGNALS] = [const { AtomicBool::new(false) }; SIGNALS];

/// Signals that cannot be caught, or that the system or `abort` sends to a program that went wrong.
/// After a fault the handler would return to the instruction that fails, without end.
const REFUSED: [(c_int, &str); 9] = [
    (libc::SIGSEGV, "SIGSEGV"),
    (libc::SIGBUS, "SIGBUS"),
    (libc::SIGFPE, "SIGFPE"),
    (libc::SIGILL, "SIGILL"),
    (libc::SIGTRAP, "SIGTRAP"),
    (libc::SIGSYS, "SIGSYS"),
    (libc::SIGABRT, "SIGABRT"),
    (libc::SIGKILL, "SIGKILL"),
    (libc::SIGSTOP, "SIGSTOP"),
];

/// Nanoseconds of the monotonic clock, at least 1.
fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is memory for the result; the call may be made in a signal handler.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64).max(1)
}

/// Requests that the run stop. Only the first request of a process counts. May be called in a
/// signal handler.
pub fn request() {
    let process = Process::number_now();
    if OWNER.swap(process, Ordering::AcqRel) != process {
        REQUESTED.store(now(), Ordering::Release);
    } else {
        let _ = REQUESTED.compare_exchange(0, now(), Ordering::AcqRel, Ordering::Acquire);
    }
}

/// Returns the seconds that are left of a requested stop, negative after its deadline; `None` if no
/// stop was requested.
pub fn seconds_left() -> Option<f64> {
    let requested = REQUESTED.load(Ordering::Acquire);
    if requested == 0 || OWNER.load(Ordering::Acquire) != Process::number_now() {
        return None;
    }
    let passed = now().saturating_sub(requested) as f64 * 1e-9;
    Some(f64::from_bits(BUDGET.load(Ordering::Relaxed)) - passed)
}

/// Sets the seconds that a stop may take.
pub fn set_budget(seconds: f64) {
    BUDGET.store(seconds.to_bits(), Ordering::Relaxed);
}

/// Lets a signal request a stop. A handler that the signal had before is called, too. A signal that was
/// caught already keeps the handlers that it has.
pub fn catch(signal: c_int) -> Result<()> {
    let index = signal as usize;
    if !(1..SIGNALS).contains(&index) {
        return fail!(Argument, "signal {signal}: signals have numbers from 1 to {}", SIGNALS - 1);
    }
    if let Some((_, name)) = REFUSED.iter().find(|(number, _)| *number == signal) {
        let reason = match signal {
            libc::SIGKILL | libc::SIGSTOP => "the system lets no program catch it",
            _ => "it tells of a fault in the program, which a request to stop cannot mend",
        };
        return fail!(Argument, "signal {signal} ({name}) is not caught: {reason}; {OTHERS}");
    }
    if CAUGHT[index].swap(true, Ordering::AcqRel) {
        return Ok(());
    }
    let caught = install(signal, index);
    if caught.is_err() {
        CAUGHT[index].store(false, Ordering::Release);
    }
    caught
}

/// Makes `on_signal` the handler of the signal, which calls the handler that the signal had.
fn install(signal: c_int, index: usize) -> Result<()> {
    let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = on_signal;
    // SAFETY: both structs are plain data, for which zero is valid; the calls read and write them
    // only. The handler uses atomics and `clock_gettime` alone.
    unsafe {
        let mut old: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(signal, std::ptr::null(), &mut old) != 0 {
            return refused(signal);
        }
        let has_handler = old.sa_sigaction != libc::SIG_DFL && old.sa_sigaction != libc::SIG_IGN;
        FLAGS[index].store(old.sa_flags, Ordering::Relaxed);
        BEFORE[index].store(if has_handler { old.sa_sigaction } else { 0 }, Ordering::Release);
        let mut new: libc::sigaction = std::mem::zeroed();
        new.sa_sigaction = handler as usize;
        // SA_ONSTACK: the handler before may count on the alternate stack; without such a stack the
        // flag has no effect. That handler may also count on the signals that its mask blocks.
        new.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
        new.sa_mask = old.sa_mask;
        if libc::sigaction(signal, &new, std::ptr::null_mut()) != 0 {
            return refused(signal);
        }
    }
    Ok(())
}

/// The remedy of errors about signals.
const OTHERS: &str = "name others, such as SIGTERM (15) or SIGUSR1 (10)";

fn refused(signal: c_int) -> Result<()> {
    let reason = std::io::Error::last_os_error();
    fail!(Argument, "signal {signal} cannot be caught ({reason}): {OTHERS}")
}

extern "C" fn on_signal(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the address of this thread's errno.
    let errno = unsafe { *libc::__errno_location() };
    request();
    let index = signal as usize;
    let before = BEFORE.get(index).map_or(0, |before| before.load(Ordering::Acquire));
    if before != 0 {
        let flags = FLAGS[index].load(Ordering::Relaxed);
        // SAFETY: the address of a handler that the system had for this signal, with the arguments
        // that its flags say it takes.
        unsafe {
            if flags & libc::SA_SIGINFO != 0 {
                let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                    std::mem::transmute(before);
                handler(signal, info, context);
            } else {
                let handler: extern "C" fn(c_int) = std::mem::transmute(before);
                handler(signal);
            }
        }
    }
    // SAFETY: as above. The interrupted code finds its errno unchanged.
    unsafe { *libc::__errno_location() = errno };
}
