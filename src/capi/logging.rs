//! Logging: to the application's callback, or else to stderr. The only state that is global to the process.

use super::entry::entry;
use super::types::{gpuzip_log_callback_t, gpuzip_status_t};
use crate::error::{fail, Result};
use crate::files::quietly;
use log::{Level, LevelFilter, Log, Metadata, Record};
use std::ffi::{c_void, CString};
use std::sync::{LazyLock, Once, PoisonError, RwLock};

/// The application's callback and its pointer.
#[derive(Clone, Copy)]
struct Callback {
    function: unsafe extern "C" fn(i32, *const std::ffi::c_char, *mut c_void),
    user: *mut c_void,
}

// SAFETY: the application promises that its callback may be called from any thread.
unsafe impl Send for Callback {}
// SAFETY: as above.
unsafe impl Sync for Callback {}

static CALLBACK: RwLock<Option<Callback>> = RwLock::new(None);

struct Router {
    stderr: env_logger::Logger,
}

static ROUTER: LazyLock<Router> = LazyLock::new(|| {
    // GPUZIP_LOG, where it is set, says what reaches stderr; otherwise the configured level does.
    let filter = std::env::var("GPUZIP_LOG").unwrap_or_else(|_| "trace".into());
    let build = |filter: &str| env_logger::Builder::new().parse_filters(filter).build();
    // A malformed filter is reported on stderr, and if that is closed, by a panic.
    let stderr = std::panic::catch_unwind(|| build(&filter)).unwrap_or_else(|_| build("trace"));
    Router { stderr }
});

impl Log for Router {
    fn enabled(&self, _: &Metadata) -> bool {
        true
    }

    fn log(&self, record: &Record) {
        // Held during the call: once a callback is replaced, it does not run any more.
        let callback = CALLBACK.read().unwrap_or_else(PoisonError::into_inner);
        // Where stderr is a pipe whose reader is gone, the line is lost and nothing else happens.
        let Some(Callback { function, user }) = *callback else { return quietly(|| self.stderr.log(record)) };
        let level = match record.level() {
            Level::Error => 3,
            Level::Warn => 2,
            Level::Info => 1,
            Level::Debug | Level::Trace => 0,
        };
        let text = record.args().to_string().replace('\0', "?");
        if let Ok(text) = CString::new(text) {
            // SAFETY: the application registered this function for this use; the text lives during the call.
            unsafe { function(level, text.as_ptr(), user) };
        }
    }

    fn flush(&self) {}
}

/// Installs the logger, and a panic hook that logs instead of printing; once. In a Rust program that has a logger, that one stays.
fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if log::set_logger(&*ROUTER).is_ok() {
            #[cfg(not(test))]
            std::panic::set_hook(Box::new(|panic| log::error!("internal error: {panic}")));
        }
    });
}

/// What the configuration's number means.
pub(super) fn level_of(level: i32) -> Result<LevelFilter> {
    match level {
        0 => Ok(LevelFilter::Debug),
        1 => Ok(LevelFilter::Info),
        2 => Ok(LevelFilter::Warn),
        3 => Ok(LevelFilter::Error),
        _ => fail!(Config, "log_level = {level}: use 0 DEBUG, 1 INFO, 2 WARN or 3 ERROR"),
    }
}

/// Sets what is logged: 0 DEBUG to 3 ERROR, as in the configuration.
pub(super) fn set_level(level: i32) -> Result<()> {
    let filter = level_of(level)?;
    install();
    log::set_max_level(filter);
    Ok(())
}

/// Warns even before any level is set.
pub(super) fn warn_always(text: &str) {
    install();
    if log::max_level() == LevelFilter::Off {
        log::set_max_level(LevelFilter::Warn);
    }
    log::warn!("{text}");
}

/// Sets what is logged from now on, for the whole process: `level` 0 DEBUG, 1 INFO, 2 WARN, 3 ERROR. `gpuzip_init`, `gpuzip_attach` and
/// `gpuzip_schedule_create` set it to the `log_level` of their configuration. The variable GPUZIP_LOG filters what goes to stderr.
#[no_mangle]
pub extern "C" fn gpuzip_set_log_level(level: i32) -> gpuzip_status_t {
    entry("gpuzip_set_log_level", || set_level(level))
}

/// Sends log lines to `callback` instead of stderr, for the whole process; NULL sends them to stderr again. `user` is handed to the
/// callback as it is and must outlive its registration.
#[no_mangle]
pub extern "C" fn gpuzip_set_log_callback(callback: gpuzip_log_callback_t, user: *mut c_void) -> gpuzip_status_t {
    entry("gpuzip_set_log_callback", || {
        install();
        *CALLBACK.write().unwrap_or_else(PoisonError::into_inner) = callback.map(|function| Callback { function, user });
        Ok(())
    })
}
