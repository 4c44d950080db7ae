//! Forks: a child inherits memory, but neither its parent's threads nor what they were doing. A lock that another thread of the parent held
//! stays locked in the child for ever, and what it guards may be half changed. So nothing here waits for a lock of another process:
//! [`Guarded`] is the only static lock of this library, and gives every process a lock and a value of its own. Everything else that is
//! static is an atomic or a `once_cell::race` cell, which no thread ever waits for.

use crate::error::{fail, Result};
use crate::fallible_vec::with_room;
use crate::reserve;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Forks between this process and the first one that used the library.
static GENERATION: AtomicU64 = AtomicU64::new(0);

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    reserve::forget_leases();
}

/// Makes forks known from now on. Every entry of the library begins with this, so that no state is older than it. Threads that come here
/// at the same time register the handler more than once, and a fork then counts more than once: generations need only differ. Where the
/// system refuses the handler, for want of memory, one warning says so, and the next call tries again.
pub(crate) fn watch() {
    static WATCHED: AtomicBool = AtomicBool::new(false);
    static WARNED: AtomicBool = AtomicBool::new(false);
    if !WATCHED.load(Ordering::Acquire) {
        // SAFETY: the handler is a function without state that may run in a child: it touches two atomics.
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

    /// Whether this is a child of the process that used the library first, or a child of such a child.
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

/// A static value behind a lock, of which every process has its own: after a fork, the child's first use makes a new value, and leaves what it
/// inherited as it is, locked or half changed.
pub(crate) struct Guarded<T: 'static> {
    first: RwLock<T>,
    /// The newest child's; never freed, since its parent's threads may have been using the one before.
    newest: AtomicPtr<Owned<T>>,
    make: fn() -> T,
}

struct Owned<T> {
    process: Process,
    value: RwLock<T>,
}

impl<T> Guarded<T> {
    /// `value` is the first process's, `make` makes every child's.
    pub const fn new(value: T, make: fn() -> T) -> Self {
        Guarded { first: RwLock::new(value), newest: AtomicPtr::new(std::ptr::null_mut()), make }
    }

    /// The value to be read. A panic while it was written makes no difference: every writer leaves it whole at every point.
    pub fn read(&'static self) -> Result<RwLockReadGuard<'static, T>> {
        Ok(self.of_this_process()?.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The value to be changed.
    pub fn write(&'static self) -> Result<RwLockWriteGuard<'static, T>> {
        Ok(self.of_this_process()?.write().unwrap_or_else(PoisonError::into_inner))
    }

    fn of_this_process(&'static self) -> Result<&'static RwLock<T>> {
        let process = Process::current();
        if !process.is_child() {
            return Ok(&self.first);
        }
        loop {
            let newest = self.newest.load(Ordering::Acquire);
            // SAFETY: NULL, or made below, and never freed once it is in `newest`.
            if let Some(owned) = unsafe { newest.as_ref() }.filter(|owned| owned.process == process) {
                return Ok(&owned.value);
            }
            let mut owned = with_room(1)?;
            owned.push(Owned { process, value: RwLock::new((self.make)()) });
            let owned: *mut [Owned<T>] = Box::into_raw(owned.into_boxed_slice());
            if self.newest.compare_exchange(newest, owned.cast(), Ordering::AcqRel, Ordering::Acquire).is_err() {
                // SAFETY: made above; no other thread has seen it.
                drop(unsafe { Box::from_raw(owned) });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    fn sources(folder: &Path, found: &mut Vec<(String, String)>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push((path.display().to_string(), fs::read_to_string(&path).unwrap()));
            }
        }
    }

    /// The text of a source without its comments and its tests.
    fn code(text: &str) -> String {
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
        lines.collect::<Vec<_>>().join("\n")
    }

    /// A static that a thread may wait for hangs a child that is forked meanwhile.
    #[test]
    fn no_other_static_of_the_library_can_be_waited_for() {
        let mut files = Vec::new();
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
        assert!(files.len() > 100);
        let waits = ["Mutex<", "RwLock<", "Once ", "OnceLock<", "LazyLock<", "Lazy<", "OnceCell<", "Condvar", "Barrier", "ReentrantLock<"];
        for (name, text) in files.iter().filter(|(name, _)| !name.ends_with("tests.rs") && !name.ends_with("dct/measure.rs")) {
            let code = code(text);
            // Not of a lifetime.
            let statics = code.match_indices("static ").filter(|(at, _)| !code[..*at].ends_with('\''));
            for item in statics.map(|(at, word)| &code[at + word.len()..]) {
                let kind = item.split(['=', ';']).next().unwrap_or_default();
                let guarded = kind.contains("Guarded<");
                assert!(
                    guarded || !waits.iter().any(|wait| kind.contains(wait)),
                    "{name}: static {kind}: use fork::Guarded or once_cell::race"
                );
            }
            let std_only = ["OnceLock", "LazyLock", "sync::Once;", "stderr()", "stdout()", "eprintln!", "println!", "set_logger_racy"];
            if let Some(word) = std_only.iter().find(|word| code.contains(**word)) {
                panic!("{name} uses {word}, for which a forked child may wait for ever");
            }
        }
    }

    /// Runs `body` in a forked child, and returns whether it ended by itself and well.
    fn child(body: impl FnOnce() -> bool) -> bool {
        // SAFETY: the child runs `body` with nothing but its own copy of this thread, and ends by _exit, or by the alarm's signal.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::alarm(5);
                libc::_exit(i32::from(!body()));
            }
            let mut status = -1;
            libc::waitpid(child, &mut status, 0) == child && status == 0
        }
    }

    static VALUE: Guarded<u32> = Guarded::new(1, || 7);

    #[test]
    fn every_process_has_a_lock_and_a_value_of_its_own() {
        let here = Process::current();
        let mut held = VALUE.write().unwrap();
        *held = 2;
        let in_grandchild = || *VALUE.read().unwrap() == 7;
        let in_child = || {
            let others = !here.is_current() && here.check().is_err();
            let mut mine = VALUE.write().unwrap();
            others && std::mem::replace(&mut *mine, 8) == 7 && child(in_grandchild) && *mine == 8
        };
        assert!(child(in_child));
        assert_eq!(*held, 2);
        assert!(here.is_current());
    }
}
