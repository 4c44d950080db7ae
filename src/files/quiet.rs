//! Writes that raise no signal. A write to a pipe without a reader raises SIGPIPE, and a write
//! beyond the limit of `ulimit -f` raises SIGXFSZ; both would kill the application. Here they are
//! only errors of the write.

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
        // SAFETY: a signal set is plain data, for which zero is valid, and the calls write and read
        // these sets alone; only the mask of this thread changes.
        unsafe {
            let [mut blocked, mut before, mut pending, mut ours]: [libc::sigset_t; 4] =
                std::mem::zeroed();
            libc::sigemptyset(&mut blocked);
            libc::sigemptyset(&mut ours);
            for signal in SIGNALS {
                libc::sigaddset(&mut blocked, signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &blocked, &mut before);
            libc::sigpending(&mut pending);
            for signal in SIGNALS {
                if libc::sigismember(&pending, signal) == 0 {
                    libc::sigaddset(&mut ours, signal);
                }
            }
            Mask { before, ours }
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
