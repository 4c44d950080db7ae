//! Forks: a child inherits neither threads nor what they were doing, so nothing of its parent's may be used in it.

use crate::error::{fail, Result};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Once;

/// Forks between this process and the first one that used the library.
static GENERATION: AtomicU64 = AtomicU64::new(0);

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// The process that something belongs to. Checking it costs one load, not a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process(u64);

impl Process {
    pub fn current() -> Self {
        static ONCE: Once = Once::new();
        // SAFETY: the handler is a function without state that may run in a child: it touches one atomic.
        ONCE.call_once(|| unsafe {
            libc::pthread_atfork(None, None, Some(in_child));
        });
        Process(GENERATION.load(Ordering::Relaxed))
    }

    pub fn is_current(self) -> bool {
        self.0 == GENERATION.load(Ordering::Relaxed)
    }

    pub fn check(self) -> Result<()> {
        if !self.is_current() {
            return fail!(Forked, "this session belongs to the process that made it: make a new one after fork");
        }
        Ok(())
    }
}
