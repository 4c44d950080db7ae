//! Static values that threads share: the only static lock of the library.

use crate::error::Result;
use crate::fallible_vec::with_room;
use crate::process::Process;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Locks a value that is not static. A panic of another thread does not matter: threads leave such
/// values whole at every point.
pub(crate) fn locked<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A static value behind a lock; every process has a value and a lock of its own. The first use in
/// a forked child makes a new value, and does not touch the inherited one, which may be locked or
/// half changed.
pub(crate) struct Guarded<T: 'static> {
    first: RwLock<T>,
    /// The value of the newest child process. It is never freed: threads of the parent process may
    /// have been using the value before it.
    newest: AtomicPtr<Owned<T>>,
    make: fn() -> T,
}

struct Owned<T> {
    process: Process,
    value: RwLock<T>,
}

impl<T> Guarded<T> {
    /// Makes the static: `value` is the value in the first process, `make` makes the value of each
    /// child.
    pub const fn new(value: T, make: fn() -> T) -> Self {
        Guarded { first: RwLock::new(value), newest: AtomicPtr::new(std::ptr::null_mut()), make }
    }

    /// Locks the value for reading. A panic in a writer does not matter: writers leave the value
    /// whole at every point.
    pub fn read(&'static self) -> Result<RwLockReadGuard<'static, T>> {
        Ok(self.of_this_process()?.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Locks the value for writing.
    pub fn write(&'static self) -> Result<RwLockWriteGuard<'static, T>> {
        Ok(self.of_this_process()?.write().unwrap_or_else(PoisonError::into_inner))
    }

    #[inline(always)]
    fn of_this_process(&'static self) -> Result<&'static RwLock<T>> {
        let process = Process::current();
        match process.is_child() {
            false => Ok(&self.first),
            true => self.of_child(process),
        }
    }

    #[cold]
    fn of_child(&'static self, process: Process) -> Result<&'static RwLock<T>> {
        loop {
            let newest = self.newest.load(Ordering::Acquire);
            // SAFETY: the pointer is NULL, or this function has made it and never frees it after
            // storing it.
            if let Some(owned) = unsafe { newest.as_ref() }.filter(|owned| owned.process == process)
            {
                return Ok(&owned.value);
            }
            let mut owned = with_room(1)?;
            owned.push(Owned { process, value: RwLock::new((self.make)()) });
            let owned: *mut [Owned<T>] = Box::into_raw(owned.into_boxed_slice());
            if self
                .newest
                .compare_exchange(newest, owned.cast(), Ordering::AcqRel, Ordering::Acquire)
                .is_err()
            {
                // SAFETY: this call has made the box, and no other thread has seen it.
                drop(unsafe { Box::from_raw(owned) });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Count;
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

    /// Returns the text of a source file without its comments and its tests.
    fn code(text: &str) -> String {
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
        lines.collect::<Vec<_>>().join("\n")
    }

    /// A child that is forked while a thread holds a static lock would wait for the lock for ever.
    #[test]
    fn no_other_static_of_the_library_can_be_waited_for() {
        let mut files = Vec::new();
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
        assert!(files.len() > 100);
        let waits = [
            "Mutex<",
            "RwLock<",
            "Once ",
            "OnceLock<",
            "LazyLock<",
            "Lazy<",
            "OnceCell<",
            "Condvar",
            "Barrier",
            "ReentrantLock<",
        ];
        for (name, text) in files.iter().filter(|(name, _)| !name.ends_with("tests.rs")) {
            let code = code(text);
            // The `static` of a lifetime is left out.
            let statics =
                code.match_indices("static ").filter(|(at, _)| !code[..*at].ends_with('\''));
            for item in statics.map(|(at, word)| &code[at + word.len()..]) {
                let kind = item.split(['=', ';']).next().unwrap_or_default();
                let guarded = kind.contains("Guarded<");
                assert!(
                    guarded || !waits.iter().any(|wait| kind.contains(wait)),
                    "{name}: static {kind}: use guarded::Guarded or once_cell::race"
                );
            }
            let std_only = [
                "OnceLock",
                "LazyLock",
                "sync::Once;",
                "stderr()",
                "stdout()",
                "eprintln!",
                "println!",
                "set_logger_racy",
            ];
            if let Some(word) = std_only.iter().find(|word| code.contains(**word)) {
                panic!("{name} uses {word}, for which a forked child may wait for ever");
            }
        }
    }

    /// Runs `body` in a forked child, and returns whether the child exited by itself and `body`
    /// returned true.
    fn child(body: impl FnOnce() -> bool) -> bool {
        // As every call of the ABI does first: the fork is noticed from here on.
        crate::process::watch();
        // SAFETY: the child runs `body` on its only thread, and ends with `_exit` or with the
        // signal of the alarm.
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

    static COUNTED: Count = Count::new();

    #[test]
    fn a_count_begins_at_0_in_every_process() {
        assert_eq!((COUNTED.add(5), COUNTED.add(7)), (5, 12));
        COUNTED.take(2);
        let in_child = || {
            let before = COUNTED.add(0);
            COUNTED.take(3);
            before == 0
                && COUNTED.add(4) == 4
                && child(|| COUNTED.add(0) == 0 && COUNTED.add(1) == 1)
                && COUNTED.add(0) == 4
        };
        assert!(child(in_child));
        assert_eq!(COUNTED.add(0), 10);
    }
}
