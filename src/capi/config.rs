//! The calls that fill, load and reset a configuration.

use super::checked::{file_of, read, size_of_caller};
use super::defaults::DEFAULT;
use super::entry::{entry, entry_that_frees, not_null, text, write};
use super::load::Loaded;
use super::types::*;
use std::ffi::c_char;

/// Fills `*config` with gpuzip's defaults: algorithm auto, snapshots and cache from the budgets, no
/// compression, log level WARN.
///
/// # Safety
/// `config` is NULL or points to memory for a configuration.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_config_init(config: *mut gpuzip_config_t) -> gpuzip_status_t {
    // SAFETY: by this function's contract.
    entry("gpuzip_config_init", || unsafe { write(config, "config", DEFAULT) })
}

/// Fills `*config` from the defaults, then the file at `path` (`key = value` lines, `#` comments,
/// keys as the fields are named, at most 1 MiB), then the environment variables GPUZIP_<KEY> in
/// capitals. `path` may be NULL: no file. `gpuzip config` lists the keys and checks a file.
///
/// What has names may be given by name, whatever its case, or by number. Numbers may be written as
/// 1e4. Byte counts and bandwidths may have a suffix, as for GNU coreutils: K, M, G, T and KiB to
/// TiB are powers of 1024, kB to TB are powers of 1000. An unknown key or value is an error that
/// names the nearest key, or the values that there are; a variable GPUZIP_* that is not known is a
/// warning, unless all of its words are such as build files use (GPUZIP_ROOT, GPUZIP_LIB_DIR) and
/// it is near no key.
///
/// The strings of `*config` belong to the library and stay valid as long as the process, equal ones
/// being kept once: copies of the struct may be used and freed in any order. On an error `*config`
/// is unchanged.
///
/// # Safety
/// `path` is NULL or a string; `config` is NULL or points to memory for a configuration.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_config_load(
    path: *const c_char,
    config: *mut gpuzip_config_t,
) -> gpuzip_status_t {
    entry("gpuzip_config_load", || {
        not_null(config, "config")?;
        // SAFETY: `path` is a string if it is not NULL.
        let path =
            if path.is_null() { None } else { Some(file_of(unsafe { text(path, "path") }?)) };
        let loaded = Loaded::new(path.as_deref())?;
        // SAFETY: by this function's contract.
        unsafe { write(config, "config", loaded.config) }
    })
}

/// Resets `*config` to the defaults, so that it points to nothing that was loaded or set before. Of
/// a configuration that was never loaded, of a copy and of one that was freed already this is as
/// harmless as of any; one of block 1 only stays as it is.
///
/// # Safety
/// `config` is NULL or points to an initialised configuration.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_config_free(config: *mut gpuzip_config_t) -> gpuzip_status_t {
    entry_that_frees("gpuzip_config_free", || {
        // SAFETY: by this function's contract.
        unsafe { read(config) }?;
        // SAFETY: by this function's contract.
        match unsafe { size_of_caller(config) } {
            0 => Ok(()),
            // SAFETY: the caller's struct has our size at least, and what it has beyond is zero.
            struct_size => unsafe {
                write(config, "config", gpuzip_config_t { struct_size, ..DEFAULT })
            },
        }
    })
}
