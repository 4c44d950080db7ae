//! Threads of the library. If there is no memory for a thread's handle, `std::thread` ends the
//! process; these threads return an error.

use crate::error::{fail, Result};
use crate::process::Process;
use std::ffi::{c_void, CStr};
use std::fs::File;
use std::io::Read;
use std::mem::MaybeUninit;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::time::Duration;

/// Bytes of a thread's stack, as in the standard library, whatever the limits of the process.
const STACK: usize = 2 << 20;

type Body = Box<dyn FnOnce() + Send>;

/// A thread, to be joined by `join`, and the process that started it.
pub struct Thread(libc::pthread_t, Process);

impl Thread {
    /// Starts a thread with all signals blocked: signals belong to the application's threads. A
    /// panic of `body` ends the thread only.
    pub fn start(name: &CStr, body: impl FnOnce() + Send + 'static) -> Result<Self> {
        let body: Box<Body> = Box::new(Box::new(body));
        let argument = Box::into_raw(body).cast::<c_void>();
        // SAFETY: once the thread has started, it owns the body behind the argument.
        match without_signals(|| unsafe { create(argument) }) {
            Ok(thread) => {
                // SAFETY: the thread is not joined yet. Without names on this system, it has none.
                unsafe { libc::pthread_setname_np(thread, name.as_ptr()) };
                Ok(Thread(thread, Process::current()))
            }
            Err(status) => {
                // SAFETY: no thread has started: the boxed body still belongs to this function.
                drop(unsafe { Box::from_raw(argument.cast::<Body>()) });
                let reason = std::io::Error::from_raw_os_error(status);
                fail!(Memory, "cannot start a transfer thread ({reason}): free memory, or raise the limit of threads (ulimit -u)")
            }
        }
    }

    /// Whether this process has started the thread; a forked child does not have the thread.
    pub fn is_here(&self) -> bool {
        self.1.is_current()
    }

    /// The processor time that the thread has taken so far; zero in a forked child.
    pub fn processor_time(&self) -> Duration {
        let mut clock = 0;
        // SAFETY: the thread is not joined yet; the system writes its clock to `clock`.
        match self.is_here() && unsafe { libc::pthread_getcpuclockid(self.0, &mut clock) } == 0 {
            true => time_of(clock),
            false => Duration::ZERO,
        }
    }

    /// Waits until the thread has ended. Does nothing in a forked child, which would wait for ever.
    pub fn join(self) {
        if self.is_here() {
            // SAFETY: the thread is not joined yet, since `join` takes the only handle.
            unsafe { libc::pthread_join(self.0, std::ptr::null_mut()) };
        }
    }
}

/// Lets the calling thread run, and use disks, only when no other thread wants to. A system that refuses
/// lets it run as any other.
pub fn in_background() {
    /// Of `ioprio_set`: the number is of a thread; the class of idle threads, in its place (ioprio.h).
    const OF_THREAD: libc::c_int = 1;
    const IDLE: libc::c_int = 3 << 13;
    let any = libc::sched_param { sched_priority: 0 };
    // SAFETY: both calls set how the calling thread (0) is scheduled, and `any` is valid meanwhile.
    unsafe {
        libc::sched_setscheduler(0, libc::SCHED_IDLE, &any);
        libc::syscall(libc::SYS_ioprio_set, OF_THREAD, 0, IDLE);
    }
}

/// The processor time that the calling thread has taken so far.
pub fn processor_time() -> Duration {
    time_of(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The processor time that all threads of the process have taken so far.
pub fn process_time() -> Duration {
    time_of(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// The time for which the calling thread was ready to run and had no processor so far; zero on a system that
/// does not count it.
pub fn run_delay() -> Duration {
    let mut text = [0; 96];
    let read = File::open("/proc/thread-self/schedstat").and_then(|mut file| file.read(&mut text));
    let text = read.ok().and_then(|bytes| std::str::from_utf8(&text[..bytes]).ok());
    let delay = text.and_then(|text| text.split_whitespace().nth(1)?.parse().ok());
    Duration::from_nanos(delay.unwrap_or(0))
}

/// Reads a clock; zero if it does not exist.
fn time_of(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the system writes the time to `time`.
    unsafe { libc::clock_gettime(clock, &mut time) };
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// Starts a thread that runs `run` with `argument`.
///
/// # Safety
/// `argument` is a boxed `Body`. If this function succeeds, the thread owns it.
unsafe fn create(argument: *mut c_void) -> std::result::Result<libc::pthread_t, i32> {
    let (mut thread, mut attributes) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    let checked = |status: i32| if status == 0 { Ok(()) } else { Err(status) };
    // SAFETY: the first call initialises the attributes, the last one destroys them. If the stack
    // size is refused, the default size stays.
    unsafe {
        checked(libc::pthread_attr_init(attributes.as_mut_ptr()))?;
        libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), STACK);
        let created = libc::pthread_create(thread.as_mut_ptr(), attributes.as_ptr(), run, argument);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        checked(created)?;
        Ok(thread.assume_init())
    }
}

extern "C" fn run(argument: *mut c_void) -> *mut c_void {
    // SAFETY: the body that `start` boxed for this thread.
    let body = unsafe { Box::from_raw(argument.cast::<Body>()) };
    // Code that waits for this thread sees that its work is missing.
    let _ = catch_unwind(AssertUnwindSafe(body));
    std::ptr::null_mut()
}

/// Calls `body` with all signals of this thread blocked. A thread that `body` starts inherits the
/// block.
fn without_signals<R>(body: impl FnOnce() -> R) -> R {
    // SAFETY: signal sets are plain data, for which zero is valid; the calls use these two sets and
    // the mask of this thread alone.
    unsafe {
        let [mut all, mut before]: [libc::sigset_t; 2] = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let result = body();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_thread_runs_by_its_name_without_signals_and_may_panic() {
        let (tell, told) = channel();
        let look = move || {
            let mut blocked = MaybeUninit::uninit();
            // SAFETY: the call initialises the set.
            let blocks = unsafe {
                libc::pthread_sigmask(libc::SIG_SETMASK, std::ptr::null(), blocked.as_mut_ptr());
                libc::sigismember(blocked.as_ptr(), libc::SIGUSR1)
            };
            tell.send(blocks).unwrap();
        };
        Thread::start(c"gpuzip-test", look).unwrap().join();
        assert_eq!(told.recv(), Ok(1));
        Thread::start(c"gpuzip-test", || std::panic::resume_unwind(Box::new(()))).unwrap().join();
    }
}
