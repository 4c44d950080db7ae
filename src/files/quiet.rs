//! Writes that raise no signal. A write to a pipe without a reader raises SIGPIPE, and a write
//! beyond the limit of `ulimit -f` raises SIGXFSZ; both would kill the application. Here they are
//! only errors of the write.

use std::mem::MaybeUninit;

const SIGNALS: [i32; 2] = [libc::SIGPIPE, libc::SIGXFSZ];

/// Runs `body` with these two signals blocked in the calling thread, and removes the signals that
/// `body` raised. A signal that the application had pending stays pending. Other threads and the
/// application's signal handlers are not touched.
pub fn quietly<R>(body: impl FnOnce() -> R) -> R {
    let _mask = Mask::new();
    body()
}

/// Blocks the signals until it is dropped, also by a panic.
struct Mask {
    before: libc::sigset_t,
    /// The blocked signals that were not pending before.
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
        // SAFETY: every signal set is initialised by `sigemptyset` before it is read; only the mask
        // of this thread changes.
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
        // SAFETY: `Mask::new` has initialised the sets; a NULL pointer tells `sigtimedwait` to
        // return no information.
        unsafe {
            while libc::sigtimedwait(&self.ours, std::ptr::null_mut(), &at_once) > 0 {}
            libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut());
        }
    }
}
