//! Writes that raise no signal: what the system would say by SIGPIPE (the reader of a pipe is gone)
//! or SIGXFSZ (a file would exceed the limit that `ulimit -f` sets) and so kill the application,
//! stays an error of the write.

use std::mem::MaybeUninit;

const SIGNALS: [i32; 2] = [libc::SIGPIPE, libc::SIGXFSZ];

/// Runs `body` with these signals blocked in the calling thread, and takes back those that it
/// raised. One that the application had pending stays pending; other threads, and what the
/// application does with these signals, are not touched.
pub fn quietly<R>(body: impl FnOnce() -> R) -> R {
    let _mask = Mask::new();
    body()
}

/// Blocks the signals until it is dropped, also by a panic.
struct Mask {
    before: libc::sigset_t,
    /// Those of the signals that were not pending.
    ours: libc::sigset_t,
}

impl Mask {
    fn new() -> Self {
        let (mut blocked, mut before, mut pending, mut ours) = (
            MaybeUninit::uninit(),
            MaybeUninit::uninit(),
            MaybeUninit::uninit(),
            MaybeUninit::uninit(),
        );
        // SAFETY: every set is initialised, by the call that empties or fills it, before it is
        // read; the mask is this thread's.
        unsafe {
            libc::sigemptyset(blocked.as_mut_ptr());
            libc::sigemptyset(ours.as_mut_ptr());
            libc::sigemptyset(pending.as_mut_ptr());
            libc::sigemptyset(before.as_mut_ptr());
            for signal in SIGNALS {
                libc::sigaddset(blocked.as_mut_ptr(), signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, blocked.as_ptr(), before.as_mut_ptr());
            libc::sigpending(pending.as_mut_ptr());
            for signal in SIGNALS {
                if libc::sigismember(pending.as_ptr(), signal) == 0 {
                    libc::sigaddset(ours.as_mut_ptr(), signal);
                }
            }
            Mask { before: before.assume_init(), ours: ours.assume_init() }
        }
    }
}

impl Drop for Mask {
    fn drop(&mut self) {
        let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the sets were initialised above; nothing is asked about the signals that are
        // taken.
        unsafe {
            while libc::sigtimedwait(&self.ours, std::ptr::null_mut(), &at_once) > 0 {}
            libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut());
        }
    }
}
