//! Threads of the library. The standard library's cannot report that there is no memory for the
//! handle of a thread: it ends the process.

use crate::error::{fail, Result};
use std::ffi::{c_void, CStr};
use std::mem::MaybeUninit;
use std::panic::{catch_unwind, AssertUnwindSafe};

/// Bytes of a thread's stack: as the standard library has them, whatever the limits of the process
/// are.
const STACK: usize = 2 << 20;

type Body = Box<dyn FnOnce() + Send>;

/// A thread, to be joined.
pub struct Thread(libc::pthread_t);

impl Thread {
    /// Starts a thread that takes no signals: they stay the application's. A body that panics ends
    /// its thread.
    pub fn start(name: &CStr, body: impl FnOnce() + Send + 'static) -> Result<Self> {
        let body: Box<Body> = Box::new(Box::new(body));
        let argument = Box::into_raw(body).cast::<c_void>();
        // SAFETY: the thread, once it is started, owns the body behind the argument.
        match without_signals(|| unsafe { create(argument) }) {
            Ok(thread) => {
                // SAFETY: a thread that runs or is not joined yet. A system that has no names for
                // threads does without.
                unsafe { libc::pthread_setname_np(thread, name.as_ptr()) };
                Ok(Thread(thread))
            }
            Err(status) => {
                // SAFETY: the body that was boxed above, which no thread has.
                drop(unsafe { Box::from_raw(argument.cast::<Body>()) });
                let reason = std::io::Error::from_raw_os_error(status);
                fail!(Memory, "cannot start a transfer thread ({reason}): free memory, or raise the limit of threads (ulimit -u)")
            }
        }
    }

    /// Waits until the thread has ended.
    pub fn join(self) {
        // SAFETY: a thread of this process that was joined by nobody, since this takes it.
        unsafe { libc::pthread_join(self.0, std::ptr::null_mut()) };
    }
}

/// Starts a thread.
///
/// # Safety
/// `argument` is a boxed `Body`, which belongs to the thread if this succeeds.
unsafe fn create(argument: *mut c_void) -> std::result::Result<libc::pthread_t, i32> {
    let (mut thread, mut attributes) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    let checked = |status: i32| if status == 0 { Ok(()) } else { Err(status) };
    // SAFETY: the attributes are initialised by the first call and destroyed by the last; a size
    // that is refused leaves the default.
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
    // Who waits for the thread learns from what it left undone.
    let _ = catch_unwind(AssertUnwindSafe(body));
    std::ptr::null_mut()
}

/// Runs `body` with all signals blocked: a thread that it starts inherits that.
fn without_signals<R>(body: impl FnOnce() -> R) -> R {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: both sets are initialised by the calls before their use; the masks concern this
    // thread alone.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let result = body();
    // SAFETY: as above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    result
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
            // SAFETY: the set is initialised by the call.
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
