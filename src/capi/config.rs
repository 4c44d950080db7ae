//! The calls that fill, load and reset a configuration.

use super::checked::{file_of, read, size_of_caller};
use super::defaults::DEFAULT;
use super::entry::{entry_that_frees, text_of, Out};
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
    unsafe { Out::new(config, "config") }.fill("gpuzip_config_init", || Ok(DEFAULT))
}

/// Fills `*config` from three sources, of which a later one overrides an earlier one: the defaults,
/// the file at `path`, and the environment variables GPUZIP_<KEY> in capitals. The file has at most
/// 1 MiB, `key = value` lines and `#` comments; the keys are the names of the fields. With `path`
/// NULL no file is read. The command `gpuzip config` lists the keys and checks a file.
///
/// A value that has a name can be given by name, in any case, or by number. Numbers may be written
/// as 1e4. Byte counts and bandwidths may have a suffix, as for GNU coreutils: K, M, G, T and KiB
/// to TiB are powers of 1024, kB to TB are powers of 1000. An unknown key or value is an error,
/// whose text names the nearest key or the allowed values. An unknown environment variable GPUZIP_*
/// is logged as a warning, unless its name is far from every key and consists of words that build
/// files use (GPUZIP_ROOT, GPUZIP_LIB_DIR).
///
/// The strings of `*config` belong to the library and stay valid until the process ends; equal
/// strings are stored once. Copies of the struct may therefore be used and freed in any order. On
/// an error `*config` is unchanged.
///
/// # Safety
/// `path` is NULL or a string; `config` is NULL or points to memory for a configuration.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_config_load(
    path: *const c_char,
    config: *mut gpuzip_config_t,
) -> gpuzip_status_t {
    // SAFETY: by this function's contract.
    unsafe { Out::new(config, "config") }.fill("gpuzip_config_load", || {
        // SAFETY: by this function's contract.
        let path = unsafe { text_of(path) }.map(file_of);
        Ok(Loaded::new(path.as_deref())?.config)
    })
}

/// Resets `*config` to the defaults, so that it no longer points to any loaded or set string. The
/// call is also valid for a configuration that was never loaded, for a copy, and for a
/// configuration that was freed before. A configuration of block 1 only (`struct_size` 0) is left
/// unchanged.
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
            // SAFETY: the caller's struct has at least the library's size; `read` found its further
            // bytes zero.
            struct_size => unsafe {
                config.write_unaligned(gpuzip_config_t { struct_size, ..DEFAULT });
                Ok(())
            },
        }
    })
}
