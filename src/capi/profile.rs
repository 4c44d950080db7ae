//! Profiles: measured in a shot, taken and given as bytes.

use super::entry::{entry, not_null, write, write_sized};
use super::handles::with_session;
use super::types::*;
use crate::error::{fail, Result};
use crate::predict::Profile;
use crate::session::Session;
use std::ffi::c_void;

/// Measures the next shot, or the one that begins: call it before the first action or after
/// TERMINATE.
///
/// Of that shot the steps are timed, and in eight parts of the sweep a state that is saved is
/// copied within the device and across the link and compressed and decompressed with the codecs
/// that the configuration has, or leaves to choose from. The shot's own results are those of
/// any other; it takes longer, and while it runs, memory for one more state on the device and on
/// the host, and what the codecs need. When TERMINATE has been handed out the session has the
/// profile: it is written to `profile_path` if that is set, and `gpuzip_profile_export` gives it.
/// The session itself goes on with its plan until `gpuzip_profile_import`, so that ranks stay in
/// step.
#[no_mangle]
pub extern "C" fn gpuzip_autotune(handle: *mut gpuzip_t) -> gpuzip_status_t {
    entry("gpuzip_autotune", || with_session(handle, Session::autotune))
}

/// The profile that the session measured last, or was given, as bytes that mean the same on every
/// machine: broadcast them, or write them to a file. `*bytes` becomes their number. With `data`
/// NULL that is all; or else `data` has room for `capacity` bytes, at least that many.
///
/// # Safety
/// `data` is NULL or points to `capacity` bytes; `bytes` is NULL or points to a number.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_profile_export(
    handle: *mut gpuzip_t,
    data: *mut c_void,
    capacity: u64,
    bytes: *mut u64,
) -> gpuzip_status_t {
    entry("gpuzip_profile_export", || {
        not_null(bytes, "bytes")?;
        let profile = with_session(handle, |session| session.profile())?.to_bytes();
        let size = profile.len();
        if !data.is_null() && capacity < size as u64 {
            return fail!(Argument, "capacity = {capacity}: the profile has {size} bytes");
        }
        if !data.is_null() {
            // SAFETY: room for that many bytes, as just checked, by this function's contract.
            unsafe { std::ptr::copy_nonoverlapping(profile.as_ptr(), data.cast(), size) };
        }
        // SAFETY: by this function's contract.
        unsafe { write(bytes, "bytes", size as u64) }
    })
}

/// Gives the session a profile that `gpuzip_profile_export` or a profile's file has, and plans anew
/// by it: before the first action, or after TERMINATE for the next shot. A plan is a function of
/// configuration, profile and fields alone: ranks that import the same bytes between the same shots
/// plan alike. On a schedule with several sessions each one imports. If the profile is damaged, of
/// another version or of another backend, or no plan fits, the session stays as it was. Memory is
/// allocated with the next action.
///
/// # Safety
/// `data` is NULL or points to `bytes` bytes.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_profile_import(
    handle: *mut gpuzip_t,
    data: *const c_void,
    bytes: u64,
) -> gpuzip_status_t {
    entry("gpuzip_profile_import", || {
        // SAFETY: by this function's contract.
        let profile = unsafe { read(data, bytes) }?;
        with_session(handle, |session| session.import(profile))
    })
}

/// What the bytes of a profile say, and of its codecs number `index`, from 0; beyond the last one
/// there is none.
///
/// # Safety
/// `data` is NULL or points to `bytes` bytes; `info` is NULL or points to a `gpuzip_profile_info_t`
/// whose `struct_size` is set.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_profile_info(
    data: *const c_void,
    bytes: u64,
    index: u32,
    info: *mut gpuzip_profile_info_t,
) -> gpuzip_status_t {
    entry("gpuzip_profile_info", || {
        // SAFETY: by this function's contract.
        let value = info_of(&unsafe { read(data, bytes) }?, index);
        // SAFETY: by this function's contract.
        unsafe { write_sized(info, "info", value) }
    })
}

/// No profile is as long as this.
const LONGEST: u64 = 1 << 20;

/// # Safety
/// `data` is NULL or points to `bytes` bytes.
unsafe fn read(data: *const c_void, bytes: u64) -> Result<Profile> {
    not_null(data, "data")?;
    if bytes > LONGEST {
        return fail!(Stream, "bytes = {bytes}: no profile is that long");
    }
    // SAFETY: by this function's contract.
    Profile::from_bytes(unsafe { std::slice::from_raw_parts(data.cast(), bytes as usize) })
}

fn info_of(profile: &Profile, index: u32) -> gpuzip_profile_info_t {
    let codec = profile.codecs.get(index as usize).cloned().unwrap_or_default();
    gpuzip_profile_info_t {
        state_bytes: profile.state_bytes,
        forward_ms: profile.forward_ms,
        backward_ms: profile.backward_ms,
        h2d_gbs: profile.h2d_gbs,
        d2h_gbs: profile.d2h_gbs,
        d2d_gbs: profile.d2d_gbs,
        disk_read_gbs: profile.disk_read_gbs,
        disk_write_gbs: profile.disk_write_gbs,
        backend: profile.backend,
        codecs: profile.codecs.len() as u32,
        compressor: codec.compressor,
        error_bound_mode: codec.bound_mode,
        error_bound: codec.bound,
        compress_gbs: codec.compress_gbs,
        decompress_gbs: codec.decompress_gbs,
        ratio: codec.ratio,
        worst_ratio: codec.worst_ratio,
        ..Default::default()
    }
}
