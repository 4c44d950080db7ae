//! The functions of the C ABI that most of its tests call, for values that live.

use crate::common::last_error;
use gpuzip::capi::*;
use std::ffi::c_void;
use std::ptr::null_mut;

/// Checks that a call succeeded.
#[track_caller]
pub fn works(status: i32) {
    assert_eq!(status, GPUZIP_OK, "{}", last_error());
}

/// Checks that a call failed with this status and an error text that contains `part`.
#[track_caller]
pub fn refused(status: i32, expected: i32, part: &str) {
    let text = last_error();
    assert!(status == expected && text.contains(part), "{status}: {text}");
}

/// The configuration that `gpuzip_config_init` makes.
pub fn config() -> gpuzip_config_t {
    let mut config = std::mem::MaybeUninit::uninit();
    // SAFETY: gpuzip_config_init fills the whole struct.
    unsafe {
        assert_eq!(gpuzip_config_init(config.as_mut_ptr()), GPUZIP_OK);
        config.assume_init()
    }
}

pub fn revolve(snaps: i32, cache: i32) -> gpuzip_config_t {
    gpuzip_config_t {
        checkpointing_algorithm: GPUZIP_ALGORITHM_REVOLVE,
        checkpointing_snaps: snaps,
        cache_capacity: cache,
        ..config()
    }
}

/// A field of FP32 values at an address of the host or of a device.
pub fn field_at(data: *mut c_void, values: usize, role: i32) -> gpuzip_field_t {
    gpuzip_field_t {
        data,
        n1: values as u64,
        n2: 1,
        n3: 1,
        r#type: GPUZIP_TYPE_F32,
        role,
        pitch2: 0,
        pitch3: 0,
        reserved: [0; 2],
    }
}

pub fn field(data: &mut [f32]) -> gpuzip_field_t {
    field_at(data.as_mut_ptr().cast(), data.len(), 0)
}

/// Makes a session, which must succeed.
pub fn init(config: &gpuzip_config_t, steps: i32, fields: &[gpuzip_field_t]) -> *mut gpuzip_t {
    let mut handle = null_mut();
    // SAFETY: all pointers are to live values.
    works(unsafe { gpuzip_init(config, steps, fields.as_ptr(), fields.len() as u32, &mut handle) });
    handle
}

/// Returns the next action, and moves the session there.
pub fn next(handle: *mut gpuzip_t) -> gpuzip_action_t {
    let mut action = gpuzip_action_t::default();
    // SAFETY: all pointers are to live values.
    assert_eq!(unsafe { gpuzip_get_action(handle, &mut action) }, GPUZIP_OK, "{}", last_error());
    action
}

/// Serves the action if it is a SAVE or a RESTORE, and returns the status.
///
/// # Safety
/// The fields are of live memory of the right kind.
pub unsafe fn serve(
    handle: *mut gpuzip_t,
    action: &gpuzip_action_t,
    fields: &[gpuzip_field_t],
) -> i32 {
    let (data, n) = (fields.as_ptr(), fields.len() as u32);
    // SAFETY: by this function's contract.
    unsafe {
        match action.r#type {
            GPUZIP_ACTION_SAVE => gpuzip_save(handle, action.ts, data, n, null_mut()),
            GPUZIP_ACTION_RESTORE => gpuzip_retrieve(handle, action.ts, data, n, null_mut()),
            _ => GPUZIP_OK,
        }
    }
}

/// Takes and serves actions until `stop` is true for one, which is returned and not served.
///
/// # Safety
/// The fields are of live memory of the right kind.
pub unsafe fn serve_until(
    handle: *mut gpuzip_t,
    fields: &[gpuzip_field_t],
    stop: impl Fn(&gpuzip_action_t) -> bool,
) -> gpuzip_action_t {
    loop {
        let action = next(handle);
        if stop(&action) {
            return action;
        }
        // SAFETY: by this function's contract.
        assert_eq!(unsafe { serve(handle, &action, fields) }, GPUZIP_OK, "{}", last_error());
    }
}

pub fn is_last_backward(action: &gpuzip_action_t) -> bool {
    action.r#type == GPUZIP_ACTION_BACKWARD && action.ts == 0
}

pub fn is_terminate(action: &gpuzip_action_t) -> bool {
    action.r#type == GPUZIP_ACTION_TERMINATE
}

pub fn summary(handle: *mut gpuzip_t) -> gpuzip_summary_t {
    let struct_size = size_of::<gpuzip_summary_t>() as u64;
    let mut summary = gpuzip_summary_t { struct_size, ..Default::default() };
    // SAFETY: all pointers are to live values.
    assert_eq!(unsafe { gpuzip_summary(handle, &mut summary) }, GPUZIP_OK, "{}", last_error());
    summary
}

/// Returns the handle of the session's schedule; the caller releases it.
pub fn schedule_of(handle: *mut gpuzip_t) -> *mut gpuzip_schedule_t {
    let mut schedule = null_mut();
    // SAFETY: all pointers are to live values.
    assert_eq!(unsafe { gpuzip_get_schedule(handle, &mut schedule) }, GPUZIP_OK);
    schedule
}

pub fn finalize(handle: *mut gpuzip_t) {
    assert_eq!(gpuzip_finalize(handle), GPUZIP_OK, "{}", last_error());
}

unsafe extern "C" fn forward(_: *mut c_void, _: i32, _: i32, _: u32) -> i32 {
    0
}

unsafe extern "C" fn backward(_: *mut c_void, _: i32, _: u32) -> i32 {
    0
}

/// Callbacks that do nothing.
pub fn callbacks() -> gpuzip_callbacks_t {
    gpuzip_callbacks_t {
        struct_size: size_of::<gpuzip_callbacks_t>() as u64,
        user: null_mut(),
        forward: Some(forward),
        backward: Some(backward),
        locate: None,
        observe: None,
        backward_range: None,
        reserved: [0; 3],
    }
}
