//! Forks: a child inherits memory, but neither its parent's threads nor what they were doing. A
//! lock that another thread of the parent held stays locked in the child for ever, and what it
//! guards may be half changed. So nothing here waits for a lock of another process:
//! [`crate::guarded::Guarded`] is the only static lock of this library, and gives every process a
//! lock and a value of its own. Everything else that is static is an atomic or a `once_cell::race`
//! cell, which no thread ever waits for.

use crate::error::{fail, Result};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Forks between this process and the first one that used the library.
static GENERATION: AtomicU64 = AtomicU64::new(0);

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Makes forks known from now on. Every entry of the library begins with this, so that no state is
/// older than it. Threads that come here at the same time register the handler more than once, and
/// a fork then counts more than once: generations need only differ. Where the system refuses the
/// handler, for want of memory, one warning says so, and the next call tries again.
pub(crate) fn watch() {
    static WATCHED: AtomicBool = AtomicBool::new(false);
    static WARNED: AtomicBool = AtomicBool::new(false);
    if !WATCHED.load(Ordering::Acquire) {
        // SAFETY: the handler is a function without state that may run in a child: it touches two
        // atomics.
        let status = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        WATCHED.fetch_or(status == 0, Ordering::Release);
        // Set before the log is asked for anything: that comes here, too.
        if status != 0 && !WARNED.swap(true, Ordering::Relaxed) {
            if log::log_enabled!(log::Level::Warn) {
                log::warn!(
                    "forks of this process cannot be noticed yet (pthread_atfork: {}): a child may take its parent's sessions for its own, so use \
                     none there; each call of the library tries again",
                    std::io::Error::from_raw_os_error(status)
                );
            } else {
                WARNED.store(false, Ordering::Relaxed);
            }
        }
    }
}

/// The process that something belongs to. Checking it costs one load, not a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process(u64);

impl Process {
    pub fn current() -> Self {
        watch();
        Process(GENERATION.load(Ordering::Relaxed))
    }

    pub fn is_current(self) -> bool {
        self.0 == GENERATION.load(Ordering::Relaxed)
    }

    /// Whether this is a child of the process that used the library first, or a child of such a
    /// child.
    pub fn is_child(self) -> bool {
        self.0 > 0
    }

    /// Not 0, and another number for every process.
    pub fn number(self) -> u64 {
        self.0 + 1
    }

    pub fn check(self) -> Result<()> {
        if !self.is_current() {
            return fail!(Forked, "this handle belongs to the process that made it, the parent of this one: make a new one after fork");
        }
        Ok(())
    }
}

/// A number that is 0 in every process when it begins, in a forked child as well: what the parent's
/// threads added is not there.
pub(crate) struct Count(AtomicU64);

/// Bits of a count; those above them are the process's.
const COUNT_BITS: u32 = 40;

impl Count {
    /// The number 0.
    pub const fn new() -> Self {
        Count(AtomicU64::new(0))
    }

    /// Adds to the number and returns the sum. Numbers stay below 2^40.
    pub fn add(&self, more: u64) -> u64 {
        let sum = |word: u64| tag() | (of(word) + more);
        let before =
            self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| Some(sum(word)));
        of(sum(before.unwrap_or_else(|word| word)))
    }

    /// Takes away what `add` has added in this process.
    pub fn take(&self, less: u64) {
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
            Some(tag() | of(word).saturating_sub(less))
        });
    }
}

/// The process in the upper bits of a count.
fn tag() -> u64 {
    GENERATION.load(Ordering::Relaxed) << COUNT_BITS
}

/// The number in a count; 0 if another process wrote it.
fn of(word: u64) -> u64 {
    let number = (1 << COUNT_BITS) - 1;
    if word & !number == tag() {
        word & number
    } else {
        0
    }
}
