//! Forks. A forked child inherits its parent's memory, but neither the threads of its parent nor
//! their work. A lock that another thread of the parent held stays locked in the child for ever,
//! and the value behind the lock may be half changed. Therefore nothing in gpuzip waits for a lock
//! of another process: [`crate::guarded::Guarded`] is the only static lock of the library, and
//! gives every process a lock and a value of its own. Every other static is an atomic or a
//! `once_cell::race` cell, for which no thread ever waits.

use crate::error::{fail, Result};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Number of forks between this process and the first process that used the library.
static GENERATION: AtomicU64 = AtomicU64::new(0);

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Makes the library notice forks from now on. Every entry of the library calls this first, so that
/// the handler is older than all state. Threads that come here at the same time register the
/// handler more than once, and a fork then counts more than once; that does no harm, because
/// generations need only differ. If the system refuses the handler for want of memory, one warning
/// says so, and the next call tries again.
#[inline(always)]
pub(crate) fn watch() {
    if !WATCHED.load(Ordering::Acquire) {
        begin_to_watch();
    }
}

static WATCHED: AtomicBool = AtomicBool::new(false);

#[cold]
fn begin_to_watch() {
    static WARNED: AtomicBool = AtomicBool::new(false);
    // SAFETY: the handler is a function without arguments that may run in a forked child: it only
    // touches an atomic.
    let status = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    WATCHED.fetch_or(status == 0, Ordering::Release);
    // `WARNED` is set before the log is used, because the log enters this function, too.
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

/// The process that an object belongs to. Checking costs one load, not a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process(u64);

impl Process {
    #[inline(always)]
    pub fn current() -> Self {
        watch();
        Process(GENERATION.load(Ordering::Relaxed))
    }

    pub fn is_current(self) -> bool {
        self.0 == GENERATION.load(Ordering::Relaxed)
    }

    /// Returns whether this process is a forked child, of any generation, of the process that used
    /// the library first.
    pub fn is_child(self) -> bool {
        self.0 > 0
    }

    /// Returns the number of the calling process. May be called in a signal handler; a fork is
    /// noticed once `watch` was called.
    pub fn number_now() -> u64 {
        GENERATION.load(Ordering::Relaxed) + 1
    }

    /// Returns a number other than 0 that differs between a process and its forked children.
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

/// A counter that begins at 0 in every process, also in a forked child: the counts of the parent's
/// threads are not carried over.
pub(crate) struct Count(AtomicU64);

/// Bits of the number in a counter; the bits above them tell the process.
const COUNT_BITS: u32 = 40;

impl Count {
    /// Makes a counter with the number 0.
    pub const fn new() -> Self {
        Count(AtomicU64::new(0))
    }

    /// Adds to the number and returns the sum. Numbers must stay below 2^40.
    pub fn add(&self, more: u64) -> u64 {
        let sum = |word: u64| tag() | (of(word) + more);
        let before =
            self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| Some(sum(word)));
        of(sum(before.unwrap_or_else(|word| word)))
    }

    /// Subtracts what `add` has added in this process.
    pub fn take(&self, less: u64) {
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
            Some(tag() | of(word).saturating_sub(less))
        });
    }
}

/// Returns the generation of this process in the upper bits of a counter.
fn tag() -> u64 {
    GENERATION.load(Ordering::Relaxed) << COUNT_BITS
}

/// Returns the number in a counter's word; 0 if another process wrote the word.
fn of(word: u64) -> u64 {
    let number = (1 << COUNT_BITS) - 1;
    if word & !number == tag() {
        word & number
    } else {
        0
    }
}
