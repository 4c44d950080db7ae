//! Logging to the application's callback, or to stderr if there is none. The logger is state of the
//! whole process.

use super::entry::{choice, entry};
use super::handles::{in_inner, inner, refuse_inner};
use super::types::{gpuzip_log_callback_t, gpuzip_status_t};
use crate::environment;
use crate::error::Result;
use crate::fallible_vec::{self, with_room};
use crate::files::quietly;
use crate::guarded::Guarded;
use crate::process::Process;
use env_filter::Filter;
use log::{LevelFilter, Log, Metadata, Record};
use once_cell::race::OnceBox;
use std::ffi::{c_void, CStr};
use std::fs::File;
use std::io::Write;
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// The application's callback and the pointer that is handed to it.
#[derive(Clone, Copy)]
struct Callback {
    function: unsafe extern "C" fn(i32, *const std::ffi::c_char, *mut c_void),
    user: *mut c_void,
}

// SAFETY: the application promised at registration that any thread may call the callback.
unsafe impl Send for Callback {}
// SAFETY: as for `Send`.
unsafe impl Sync for Callback {}

/// The registered callback, or NULL; a forked child inherits it.
static CALLBACK: AtomicPtr<Callback> = AtomicPtr::new(null_mut());

/// Locked for reading while a callback runs and for writing while it is replaced: after the
/// replacement the old callback no longer runs.
static RUNNING: Guarded<()> = Guarded::new((), || ());

/// The callback in texts of errors.
const CALLBACK_NAME: &str = "the log callback";

/// The levels of the log, by their numbers in the C interface.
const LEVELS: [LevelFilter; 4] =
    [LevelFilter::Debug, LevelFilter::Info, LevelFilter::Warn, LevelFilter::Error];

struct Router;

/// Returns the filter of the lines for stderr: GPUZIP_LOG if it is set, or else every line that the
/// configured level lets pass.
fn filter() -> &'static Filter {
    static FILTER: OnceBox<Filter> = OnceBox::new();
    FILTER.get_or_init(|| {
        let mut builder = env_filter::Builder::new();
        // A malformed GPUZIP_LOG is treated as if it were not set.
        let filter =
            environment::text("GPUZIP_LOG").filter(|filter| builder.try_parse(filter).is_ok());
        if filter.is_none() {
            builder = env_filter::Builder::new();
            builder.filter_level(LevelFilter::Trace);
        }
        Box::new(builder.build())
    })
}

/// Returns the rank of this process in its job, if its launcher tells it.
fn rank() -> Option<u32> {
    static RANK: OnceBox<Option<u32>> = OnceBox::new();
    *RANK.get_or_init(|| Box::new(environment::rank()))
}

/// Formats a text and ends it with its only NUL; `None` if there is no memory for the text.
fn line(arguments: std::fmt::Arguments) -> Option<Vec<u8>> {
    let mut text = String::new();
    fallible_vec::write(&mut text, arguments).ok()?;
    let mut text = text.into_bytes();
    let last = text.len().saturating_sub(1);
    text[..last].iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = b'?');
    Some(text)
}

impl Log for Router {
    fn enabled(&self, _: &Metadata) -> bool {
        true
    }

    fn log(&self, record: &Record) {
        // A line about a call that the callback itself makes would call the callback again, and so on.
        if inner() == Some(CALLBACK_NAME) {
            return;
        }
        let Ok(_running) = RUNNING.read() else { return };
        // SAFETY: the pointer is NULL or a callback, which is freed only under the lock for
        // writing.
        let callback = unsafe { CALLBACK.load(Ordering::Acquire).as_ref() };
        // If stderr is a pipe whose reader is gone, the line is lost and nothing else happens.
        let Some(Callback { function, user }) = callback else {
            return quietly(|| to_stderr(record));
        };
        // The number of the level; Trace counts as DEBUG.
        let level = LEVELS.iter().rposition(|level| record.level() <= *level).unwrap_or(0) as i32;
        let text = line(format_args!("{}\0", record.args()));
        let text = text.as_deref().and_then(|text| CStr::from_bytes_with_nul(text).ok());
        let text = text.unwrap_or(c"no memory for a line of the log");
        // SAFETY: the application registered this function to receive log lines; the text lives
        // during the call.
        in_inner(CALLBACK_NAME, || unsafe { function(level, text.as_ptr(), *user) });
    }

    fn flush(&self) {}
}

/// Writes a line to file descriptor 2, in one piece. The lock of `std::io::stderr` is not taken:
/// another thread may have held that lock at a fork.
fn to_stderr(record: &Record) {
    if filter().matches(record) {
        let (level, target, text) = (record.level(), record.target(), record.args());
        let line = match rank() {
            Some(rank) => format!("[{level:<5} {target}] rank {rank}: {text}\n"),
            None => format!("[{level:<5} {target}] {text}\n"),
        };
        // SAFETY: this object does not close the descriptor, whatever it is of.
        let mut stderr = ManuallyDrop::new(unsafe { File::from_raw_fd(libc::STDERR_FILENO) });
        // There is nowhere to report a line that cannot be written.
        let _ = stderr.write_all(line.as_bytes());
    }
}

/// Installs, once in a process, the logger and a panic hook that logs a panic instead of printing
/// it. A logger that a Rust program has installed before stays.
///
/// No thread waits for another thread that installs the logger. A line that is logged during these
/// microseconds is lost, and a child that is forked during them logs nothing: `log` and `std` would
/// make the child wait for a thread that it does not have.
fn install() {
    /// 0 before the installation; then the number of the process that installed the logger.
    static BY: AtomicU64 = AtomicU64::new(0);
    let process = Process::current().number();
    if BY.compare_exchange(0, process, Ordering::AcqRel, Ordering::Acquire).is_ok()
        && log::set_logger(&Router).is_ok()
    {
        #[cfg(not(test))]
        std::panic::set_hook(Box::new(|panic| log::error!("internal error: {panic}")));
    }
}

/// Moves a callback to heap memory; fails if there is none.
fn on_heap(callback: Callback) -> Result<*mut Callback> {
    let mut place = with_room(1)?;
    place.push(callback);
    Ok(Box::into_raw(place.into_boxed_slice()).cast())
}

/// Returns the log filter for `log_level` of the configuration.
pub(super) fn level_of(level: i32) -> Result<LevelFilter> {
    choice("log_level", level, &LEVELS, "0 DEBUG, 1 INFO, 2 WARN or 3 ERROR")
}

/// Sets the log level: 0 DEBUG to 3 ERROR, as in the configuration.
pub(super) fn set_level(level: i32) -> Result<()> {
    let filter = level_of(level)?;
    install();
    log::set_max_level(filter);
    Ok(())
}

/// Logs a warning even before a configuration has set the log level.
pub(super) fn warn_always(text: &str) {
    install();
    if log::max_level() == LevelFilter::Off {
        log::set_max_level(LevelFilter::Warn);
    }
    log::warn!("{text}");
}

/// Sets the log level for the whole process from now on: `level` 0 DEBUG, 1 INFO, 2 WARN, 3 ERROR.
/// `gpuzip_init`, `gpuzip_attach` and `gpuzip_schedule_create` also set it, to the `log_level` of
/// their configuration. The environment variable GPUZIP_LOG filters the lines that go to stderr.
#[no_mangle]
pub extern "C" fn gpuzip_set_log_level(level: i32) -> gpuzip_status_t {
    entry("gpuzip_set_log_level", || set_level(level))
}

/// Sends log lines to `callback` instead of stderr, for the whole process; NULL sends them to
/// stderr again. `user` is handed to the callback unchanged and must stay valid as long as the
/// callback is registered.
#[no_mangle]
pub extern "C" fn gpuzip_set_log_callback(
    callback: gpuzip_log_callback_t,
    user: *mut c_void,
) -> gpuzip_status_t {
    entry("gpuzip_set_log_callback", || {
        refuse_inner()?;
        install();
        let new =
            callback.map(|function| Callback { function, user }).map_or(Ok(null_mut()), on_heap)?;
        let none_running = RUNNING.write()?;
        let old = CALLBACK.swap(new, Ordering::AcqRel);
        drop(none_running);
        if !old.is_null() {
            // SAFETY: `on_heap` made the callback, and no thread reads it any more: every reader
            // has given the lock back.
            drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(old, 1)) });
        }
        Ok(())
    })
}
