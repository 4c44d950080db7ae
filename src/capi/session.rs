//! Sessions: the core loop.

use super::checked::{adopted, checked};
use super::entry::{entry, entry_that_frees, not_null, write, write_sized, zero_words};
use super::handles::{self, with_session};
use super::schedule::{action_of, summarize, Planned};
use super::types::*;
use crate::device::{AppField, AppMemory, Rows, Stream};
use crate::error::{fail, Code, Result};
use crate::layout::{Field, MAX_FIELDS};
use crate::scalar::Scalar;
use crate::session::{estimate, Estimate, Session};
use crate::stats::Stats;
use std::ffi::c_void;

/// The fields of a call, with their memory.
///
/// # Safety
/// `fields` is NULL or points to `nfields` fields, whose data, where not NULL, is memory for their
/// values.
pub(super) unsafe fn app_fields(
    fields: *const gpuzip_field_t,
    nfields: u32,
) -> Result<Vec<AppField>> {
    not_null(fields, "fields")?;
    if nfields as usize > MAX_FIELDS {
        return fail!(Argument, "nfields = {nfields}: a state has at most {MAX_FIELDS} fields");
    }
    let convert = |i: u32| {
        // SAFETY: i < nfields, by this function's contract.
        let given = unsafe { fields.add(i as usize).read_unaligned() };
        let field = field_of(&given).map_err(|e| e.within(format_args!("field {i}")))?;
        if field.n.contains(&0) || field.bytes().is_none() {
            // Extents that are impossible are refused with the layout of the state.
            return Ok(AppField { field, memory: None });
        }
        let rows = Rows::of(&field, given.pitch2, given.pitch3)
            .map_err(|e| e.within(format_args!("field {i}")))?;
        if given.data.is_null() {
            return Ok(AppField { field, memory: None });
        }
        // SAFETY: the caller of the ABI promises this memory for the values of the field.
        let memory = unsafe { AppMemory::in_rows(given.data.cast(), rows) };
        Ok(AppField { field, memory: Some(memory) })
    };
    (0..nfields).map(convert).collect()
}

fn field_of(given: &gpuzip_field_t) -> Result<Field> {
    let Some(scalar) = Scalar::of_number(given.r#type) else {
        return fail!(Argument, "type = {}: use one of GPUZIP_TYPE_F32 (0), GPUZIP_TYPE_F64 (1) to GPUZIP_TYPE_BYTE (8)", given.r#type);
    };
    let previous_of = match given.role {
        0 => None,
        role if role > 0 => Some(role as u32 - 1),
        role => {
            return fail!(
                Argument,
                "role = {role}: 0, or k+1 for the previous time level of field k"
            )
        }
    };
    zero_words("reserved", &given.reserved, Code::Argument)?;
    Ok(Field { n: [given.n1, given.n2, given.n3], scalar, previous_of })
}

/// Makes a session with a schedule of its own, ready for the first shot, and allocates its memory.
///
/// `config` is copied, strings included. `steps` is the number of time steps, n. `fields` are the
/// `nfields` fields of a state: their shapes, types and roles count, their data may be NULL. On
/// success `*handle` is the session, to be given back with `gpuzip_finalize`.
///
/// # Safety
/// `config` and `handle` are NULL or valid; `fields` points to `nfields` fields.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_init(
    config: *const gpuzip_config_t,
    steps: i32,
    fields: *const gpuzip_field_t,
    nfields: u32,
    handle: *mut *mut gpuzip_t,
) -> gpuzip_status_t {
    entry("gpuzip_init", || {
        not_null(handle, "handle")?;
        // SAFETY: by this function's contract.
        let (config, fields) = unsafe { (adopted(config)?, app_fields(fields, nfields)?) };
        let session = Session::new(config, steps as i64, &fields)?;
        // SAFETY: by this function's contract.
        unsafe { write(handle, "handle", handles::add_session(session)?) }
    })
}

/// Makes a session that follows `schedule` together with others, one per device. `config` gives its
/// tiers and policy; the schedule's own configuration gives the algorithm and whether actions are
/// ranges. Its memory is allocated with the first action. Parameters as for `gpuzip_init`.
///
/// # Safety
/// As `gpuzip_init`.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_attach(
    schedule: *mut gpuzip_schedule_t,
    config: *const gpuzip_config_t,
    fields: *const gpuzip_field_t,
    nfields: u32,
    handle: *mut *mut gpuzip_t,
) -> gpuzip_status_t {
    entry("gpuzip_attach", || {
        not_null(handle, "handle")?;
        let shared = handles::schedule(schedule)?;
        // SAFETY: by this function's contract.
        let (config, fields) = unsafe { (adopted(config)?, app_fields(fields, nfields)?) };
        let session = Session::attach(shared, config, &fields)?;
        // SAFETY: by this function's contract.
        unsafe { write(handle, "handle", handles::add_session(session)?) }
    })
}

/// The schedule that a session follows, as a handle of its own: give it back with
/// `gpuzip_schedule_release`.
///
/// # Safety
/// `schedule` is NULL or points to a handle's place.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_get_schedule(
    handle: *mut gpuzip_t,
    schedule: *mut *mut gpuzip_schedule_t,
) -> gpuzip_status_t {
    entry("gpuzip_get_schedule", || {
        not_null(schedule, "schedule")?;
        let shared = with_session(handle, |session| Ok(session.schedule().clone()))?;
        // SAFETY: by this function's contract.
        unsafe { write(schedule, "schedule", handles::add_schedule(shared)?) }
    })
}

/// Prepares a shot: rewinds the schedule, forgets all snapshots and clears the statistics; the plan
/// is kept. Call it before each shot, for every session of a schedule; a new session needs none
/// before its first.
///
/// A shot that was left after its last BACKWARD without TERMINATE ends here, with all that
/// TERMINATE does: the line in the performance log, the end in the timeline, the profile of
/// `gpuzip_autotune`, and on a GPU the check that every state restored was what had been saved. The
/// time up to this call then counts as that BACKWARD's. An error is of the shot before, and told
/// once: a second call begins the next shot.
#[no_mangle]
pub extern "C" fn gpuzip_setup(handle: *mut gpuzip_t) -> gpuzip_status_t {
    entry("gpuzip_setup", || with_session(handle, Session::setup))
}

/// Moves the schedule to its next action, follows it with this session, and writes it to `*action`.
/// An action that asks for a save or a retrieve must be served before the next one. After TERMINATE
/// only `gpuzip_setup` is valid.
///
/// # Safety
/// `action` is NULL or points to an action.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_get_action(
    handle: *mut gpuzip_t,
    action: *mut gpuzip_action_t,
) -> gpuzip_status_t {
    entry("gpuzip_get_action", || {
        not_null(action, "action")?;
        let next = action_of(with_session(handle, Session::get_action)?);
        // SAFETY: by this function's contract.
        unsafe { write(action, "action", next) }
    })
}

/// Writes to `*action` what `gpuzip_get_action` would give next, and changes nothing: the action
/// stays the next one. A loop sees so that the forward sweep is over while its last action is still
/// the current one: the next action is a BACKWARD with GPUZIP_FLAG_FIRST_BACKWARD. The schedule is
/// decided by this call if it is not yet. After TERMINATE there is no next action:
/// GPUZIP_ERR_STATE.
///
/// # Safety
/// `action` is NULL or points to an action.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_peek_action(
    handle: *mut gpuzip_t,
    action: *mut gpuzip_action_t,
) -> gpuzip_status_t {
    entry("gpuzip_peek_action", || {
        not_null(action, "action")?;
        let next = action_of(with_session(handle, |session| session.peek_action())?);
        // SAFETY: by this function's contract.
        unsafe { write(action, "action", next) }
    })
}

/// Follows the schedule to its current action, which must be number `it`. For the sessions whose
/// schedule somebody else advances; for a session that is there already it does nothing.
#[no_mangle]
pub extern "C" fn gpuzip_dispatch(handle: *mut gpuzip_t, it: i64) -> gpuzip_status_t {
    entry("gpuzip_dispatch", || with_session(handle, |session| session.dispatch(it)))
}

/// Stores u(ts). The current action must be SAVE of `ts`. `fields` have the shapes given at init,
/// and their data may move from call to call. Fields that overlap each other, or the session's own
/// memory, are an error. On a GPU the effects are ordered on `stream` (a CUstream or cudaStream_t;
/// NULL is the default stream) and the call does not wait. `stream` stays valid until the next save
/// or retrieve, `gpuzip_setup` or `gpuzip_finalize`: that is where the library looks how far the
/// GPU is (`max_in_flight`). On the host backend `stream` is NULL, and the fields have been read on
/// return.
///
/// # Safety
/// `fields` points to `nfields` fields whose data is readable.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_save(
    handle: *mut gpuzip_t,
    ts: i32,
    fields: *const gpuzip_field_t,
    nfields: u32,
    stream: *mut c_void,
) -> gpuzip_status_t {
    entry("gpuzip_save", || {
        // SAFETY: by this function's contract.
        let fields = unsafe { app_fields(fields, nfields) }?;
        with_session(handle, |session| session.save(ts as i64, &fields, Stream(stream)))
    })
}

/// Overwrites the fields with u(ts). The current action must be RESTORE of `ts`; the fields are as
/// for `gpuzip_save`. On a GPU the effects are ordered on `stream` and the call does not wait;
/// `stream` stays valid as with `gpuzip_save`. On the host backend `stream` is NULL, and the fields
/// have been written on return.
///
/// Without a codec each field has the bytes that were saved. A lossy codec keeps its bound for
/// every value, zeros included: where the application has zeros that its time steps read and never
/// compute, such as a halo or a boundary, the field may come back with values within the bound. Set
/// those zeros again after the call.
///
/// # Safety
/// `fields` points to `nfields` fields whose data is writable.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_retrieve(
    handle: *mut gpuzip_t,
    ts: i32,
    fields: *const gpuzip_field_t,
    nfields: u32,
    stream: *mut c_void,
) -> gpuzip_status_t {
    entry("gpuzip_retrieve", || {
        // SAFETY: by this function's contract.
        let fields = unsafe { app_fields(fields, nfields) }?;
        with_session(handle, |session| session.retrieve(ts as i64, &fields, Stream(stream)))
    })
}

/// The pointers that the library hands out, into the caller's array.
///
/// # Safety
/// `data` points to as many places as there are pointers.
unsafe fn write_pointers(data: *mut *mut c_void, pointers: &[*mut c_void]) {
    for (i, &pointer) in pointers.iter().enumerate() {
        // SAFETY: by this function's contract.
        unsafe { data.add(i).write_unaligned(pointer) };
    }
}

/// Zero copy, for sessions with `zero_copy` = 1: gives memory in which the application computes
/// u(ts) instead of having it copied.
///
/// The current action is the FORWARD to `ts` (the `ts_end` of a range) with the flag NEXT_IS_SAVE,
/// or SAVE of `ts`. `data[i]` becomes the address of field i, which `stream` may write to from now
/// on. Then comes `gpuzip_save_commit`. Nothing is copied within the device.
///
/// # Safety
/// `data` is NULL or points to `nfields` places.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_save_begin(
    handle: *mut gpuzip_t,
    ts: i32,
    data: *mut *mut c_void,
    nfields: u32,
    stream: *mut c_void,
) -> gpuzip_status_t {
    entry("gpuzip_save_begin", || {
        not_null(data, "data")?;
        let pointers = with_session(handle, |session| {
            session.save_begin(ts as i64, nfields as usize, Stream(stream))
        })?;
        // SAFETY: by this function's contract.
        unsafe { write_pointers(data, &pointers) };
        Ok(())
    })
}

/// Stores u(ts), which `stream` has computed in the memory that `gpuzip_save_begin` gave; the
/// current action must be SAVE of `ts`. That memory may be read until the next save or retrieve is
/// done on the stream, and written no more.
#[no_mangle]
pub extern "C" fn gpuzip_save_commit(
    handle: *mut gpuzip_t,
    ts: i32,
    stream: *mut c_void,
) -> gpuzip_status_t {
    entry("gpuzip_save_commit", || {
        with_session(handle, |session| session.save_commit(ts as i64, Stream(stream)))
    })
}

/// Zero copy: gives memory that holds u(ts) on `stream` until the next save or retrieve is done
/// there; it need not be given back. The current action must be RESTORE of `ts`. The memory must
/// not be written to, unless the action has the flag LAST_USE.
///
/// # Safety
/// `data` is NULL or points to `nfields` places.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_retrieve_acquire(
    handle: *mut gpuzip_t,
    ts: i32,
    data: *mut *mut c_void,
    nfields: u32,
    stream: *mut c_void,
) -> gpuzip_status_t {
    entry("gpuzip_retrieve_acquire", || {
        not_null(data, "data")?;
        let pointers = with_session(handle, |session| {
            session.retrieve_acquire(ts as i64, nfields as usize, Stream(stream))
        })?;
        // SAFETY: by this function's contract.
        unsafe { write_pointers(data, &pointers) };
        Ok(())
    })
}

/// Gives back the memory that `gpuzip_retrieve_acquire` gave for `ts`, before the next save or
/// retrieve does: what uses it is enqueued on `stream`, or over, and it must not be touched after
/// that. Optional; the sooner it comes, the sooner the next snapshot is fetched into it.
/// Valid in any action up to the next save or retrieve.
#[no_mangle]
pub extern "C" fn gpuzip_retrieve_release(
    handle: *mut gpuzip_t,
    ts: i32,
    stream: *mut c_void,
) -> gpuzip_status_t {
    entry("gpuzip_retrieve_release", || {
        with_session(handle, |session| session.retrieve_release(ts as i64, Stream(stream)))
    })
}

/// Blocks the calling thread until all saves and retrieves of this session so far have read and
/// written their fields. Only for codes that touch the fields outside the stream that they gave; on
/// the host backend that is so on return of each call.
#[no_mangle]
pub extern "C" fn gpuzip_synchronize(handle: *mut gpuzip_t) -> gpuzip_status_t {
    entry("gpuzip_synchronize", || with_session(handle, Session::synchronize))
}

/// What this session counted and timed since its last setup.
///
/// # Safety
/// `stats` is NULL or points to statistics whose `struct_size` is set.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_stats(
    handle: *mut gpuzip_t,
    stats: *mut gpuzip_stats_t,
) -> gpuzip_status_t {
    entry("gpuzip_stats", || {
        let value = with_session(handle, |session| Ok(stats_of(&session.stats()?)))?;
        // SAFETY: by this function's contract.
        unsafe { write_sized(stats, "stats", value) }
    })
}

fn stats_of(stats: &Stats) -> gpuzip_stats_t {
    gpuzip_stats_t {
        forward_steps: stats.forward_steps,
        saves: stats.saves,
        restores: stats.restores,
        backward_steps: stats.backward_steps,
        hits: stats.hits,
        misses: stats.misses,
        prefetches: stats.prefetches,
        late_prefetches: stats.late_prefetches,
        h2d: stats.h2d,
        d2h: stats.d2h,
        h2d_bytes: stats.h2d_bytes,
        d2h_bytes: stats.d2h_bytes,
        write_backs_avoided: stats.write_backs_avoided,
        raw_bytes: stats.raw_bytes,
        stored_bytes: stats.stored_bytes,
        peak_device_bytes: stats.peak_device_bytes,
        peak_host_bytes: stats.peak_host_bytes,
        forward: stats.forward,
        backward: stats.backward,
        save: stats.save,
        restore: stats.restore,
        compress: stats.compress,
        decompress: stats.decompress,
        stall: stats.stall,
        run_ahead_wait: stats.run_ahead_wait,
        ..Default::default()
    }
}

/// What was decided for this session: schedule, plan and memory.
///
/// # Safety
/// `summary` is NULL or points to a summary whose `struct_size` is set.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_summary(
    handle: *mut gpuzip_t,
    summary: *mut gpuzip_summary_t,
) -> gpuzip_status_t {
    entry("gpuzip_summary", || {
        let value = with_session(handle, |session| {
            let schedule = session.schedule().tell()?;
            let plan = session.plan()?;
            let (compression, sizes, budgets) =
                (session.compression(), session.sizes(), session.budgets());
            let ranges = session.schedule().config().range_actions;
            summarize(&schedule, ranges, Some(Planned { plan: &plan, compression, sizes, budgets }))
        })?;
        // SAFETY: by this function's contract.
        unsafe { write_sized(summary, "summary", value) }
    })
}

/// What `gpuzip_init` would decide and allocate, without doing so. Parameters as for `gpuzip_init`.
/// `device_bytes` is what it takes of the device, and enough as `device_budget`, if the backend is
/// named or the fields' memory tells it; `host_bytes` is what snapshots of the expected sizes have.
///
/// # Safety
/// As `gpuzip_init`; `summary` is NULL or points to a summary whose `struct_size` is set.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_memory_required(
    config: *const gpuzip_config_t,
    steps: i32,
    fields: *const gpuzip_field_t,
    nfields: u32,
    summary: *mut gpuzip_summary_t,
) -> gpuzip_status_t {
    entry("gpuzip_memory_required", || {
        // SAFETY: by this function's contract.
        let (config, fields) = unsafe { (checked(config)?, app_fields(fields, nfields)?) };
        let ranges = config.range_actions;
        let Estimate { choice, option, budgets } = estimate(config, steps as i64, &fields)?;
        let planned = choice.plans.first().map(|plan| Planned {
            plan,
            compression: &option.compression,
            sizes: &option.sizes,
            budgets,
        });
        let value = summarize(&choice.schedule, ranges, planned)?;
        // SAFETY: by this function's contract.
        unsafe { write_sized(summary, "summary", value) }
    })
}

/// Frees a session once its transfers are done; if another thread is in a call on it, when that
/// call returns. The handle is invalid at once.
///
/// A shot that was left after its last BACKWARD without TERMINATE ends here, as by `gpuzip_setup`.
/// If a state that a GPU restored was not what had been saved, and no call has said so yet, that is
/// the result (GPUZIP_ERR_STREAM, GPUZIP_ERR_VALUES, GPUZIP_ERR_DEVICE); the session is
/// freed all the same.
#[no_mangle]
pub extern "C" fn gpuzip_finalize(handle: *mut gpuzip_t) -> gpuzip_status_t {
    entry_that_frees("gpuzip_finalize", || {
        let session = handles::remove_session(handle)?;
        // A session that another thread is in, or that an internal error has left, ends with its
        // last user, who logs what was found.
        let closed = session.try_lock().map_or(Ok(()), |mut session| session.close());
        drop(session);
        closed
    })
}
