//! The calls that measure a profile during a shot, export it as bytes and import it.

use super::entry::{entry, not_null, Out};
use super::handles::with_session;
use super::types::*;
use crate::error::{fail, Result};
use crate::fallible_vec::with_room;
use crate::files::LARGEST_PROFILE;
use crate::predict::{Profile, MOST_PARTS};
use crate::session::Session;
use std::ffi::c_void;

/// Measures a profile during the next shot. Call it before the first action of that shot or after
/// TERMINATE of the shot before.
///
/// The session times the steps of that shot. In each of eight parts of the sweep it also copies one
/// of the saved states within the device and across the link, and compresses and decompresses it
/// with the codecs that the configuration names or leaves to choose from. If the number of steps is
/// not known, it does so from each power of 2 to the next. The results of the shot
/// are those of any other shot. The shot takes longer and needs additional memory: one state on the
/// device, one on the host, and what the codecs need. When TERMINATE has been handed out, the
/// session has the profile: it writes the profile to `profile_path` if that is set, and
/// `gpuzip_profile_export` returns it. The session keeps its plan until `gpuzip_profile_import`, so
/// that ranks stay in step.
#[no_mangle]
pub extern "C" fn gpuzip_autotune(handle: *mut gpuzip_t) -> gpuzip_status_t {
    entry("gpuzip_autotune", || with_session(handle, Session::autotune))
}

/// Writes the profile that the session measured last, or was given, to `data`, as bytes that have
/// the same meaning on every machine: broadcast them, or write them to a file. `*bytes` becomes the
/// number of bytes. With `data` NULL the call writes `*bytes` only; otherwise `data` has room for
/// `capacity` bytes, at least `*bytes`.
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
    // SAFETY: by this function's contract.
    unsafe { Out::new(bytes, "bytes") }.fill("gpuzip_profile_export", || {
        let profile = with_session(handle, |session| session.profile())?.to_bytes();
        let size = profile.len();
        if !data.is_null() {
            if capacity < size as u64 {
                return fail!(Argument, "capacity = {capacity}: the profile has {size} bytes");
            }
            // SAFETY: `data` has at least `size` bytes, as just checked, by this function's
            // contract.
            unsafe { std::ptr::copy_nonoverlapping(profile.as_ptr(), data.cast(), size) };
        }
        Ok(size as u64)
    })
}

/// Gives the session a profile, as bytes from `gpuzip_profile_export` or from a profile's file, and
/// makes a new plan with it. Call it before the first action, or after TERMINATE for the next shot.
/// A plan depends on configuration, profile and fields only: ranks that import the same bytes
/// between the same shots make the same plan. If several sessions follow one schedule, each of them
/// imports. If the profile is damaged, or comes from another version or another backend, or if no
/// plan fits the budgets, the session stays unchanged. The memory of the new plan is allocated with
/// the next action.
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

/// Gives the time steps of each part of the sweep times of their own, where steps do not all take
/// equally long, and makes a new plan by them. The sweep is divided into `parts` parts of equal
/// length, at most 4096 (as many as time steps: one time for each step); a step of part k takes
/// `forward_ms[k]` and `backward_ms[k]` milliseconds. `parts` = 0: every step takes the mean. All
/// other speeds are those of the session's profile, or else typical of the backend. The times become
/// a part of that profile, so that `gpuzip_profile_export` has them; `gpuzip_profile_import` replaces
/// them, and so does a measurement. Call it before the first action, or after TERMINATE for the next
/// shot, on all ranks with the same numbers.
///
/// # Safety
/// `forward_ms` and `backward_ms` point to `parts` numbers each; NULL is allowed for `parts` = 0.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_profile_steps(
    handle: *mut gpuzip_t,
    parts: u32,
    forward_ms: *const f64,
    backward_ms: *const f64,
) -> gpuzip_status_t {
    entry("gpuzip_profile_steps", || {
        let mut steps = Vec::new();
        if parts > 0 {
            not_null(forward_ms, "forward_ms")?;
            not_null(backward_ms, "backward_ms")?;
            if parts as usize > MOST_PARTS {
                return fail!(
                    Argument,
                    "parts = {parts}: at most {MOST_PARTS}; give means of consecutive steps"
                );
            }
            // SAFETY: by this function's contract.
            let of = |from: *const f64, k: usize| unsafe { from.add(k).read_unaligned() };
            steps = with_room(parts as usize)?;
            steps.extend((0..parts as usize).map(|k| [of(forward_ms, k), of(backward_ms, k)]));
        }
        with_session(handle, |session| session.set_step_times(&steps))
    })
}

/// Describes the profile in `data` and its codec number `index`, counted from 0. If `index` is
/// beyond the last codec, the members about a codec are 0.
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
    // SAFETY: by this function's contract.
    unsafe { Out::new(info, "info") }.fill_sized("gpuzip_profile_info", || {
        // SAFETY: by this function's contract.
        let profile = unsafe { read(data, bytes) }?;
        let codec = profile.codecs.get(index as usize).cloned().unwrap_or_default();
        Ok(gpuzip_profile_info_t {
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
            both_gbs: profile.both_gbs,
            idle_processors: profile.idle_processors,
            sequences: codec.sequences.into(),
            ..Default::default()
        })
    })
}

/// Reads a profile from the caller's bytes.
///
/// # Safety
/// `data` is NULL or points to `bytes` bytes.
unsafe fn read(data: *const c_void, bytes: u64) -> Result<Profile> {
    not_null(data, "data")?;
    if bytes > LARGEST_PROFILE {
        return fail!(Stream, "bytes = {bytes}: no profile is that long");
    }
    // SAFETY: by this function's contract.
    Profile::from_bytes(unsafe { std::slice::from_raw_parts(data.cast(), bytes as usize) })
}
