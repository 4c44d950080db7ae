//! The calls on sessions: the core loop over the actions.

use super::checked::{adopted, checked, file_of};
use super::entry::{entry, entry_that_frees, not_null, text, text_of, zero_words, Out};
use super::handles::{self, with_session};
use super::schedule::{action_of, summarize, Planned};
use super::types::*;
use crate::device::{AppField, AppMemory, Rows, Stream};
use crate::error::{fail, Code, Result};
use crate::layout::{Field, MAX_FIELDS};
use crate::persist::Name;
use crate::scalar::Scalar;
use crate::session::{estimate, Estimate, Session};
use crate::stats::with_stats;
use crate::stop;
use std::ffi::{c_char, c_void};

/// Reads the fields of a call, with the addresses of their memory.
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
        // SAFETY: `fields` points to `nfields` fields by this function's contract, and i < nfields.
        let given = unsafe { fields.add(i as usize).read_unaligned() };
        let field = field_of(&given).map_err(|e| e.within(format_args!("field {i}")))?;
        if field.n.contains(&0) || field.bytes().is_none() {
            // The check of the state's layout refuses impossible extents later.
            return Ok(AppField { field, memory: None });
        }
        let rows = Rows::of(&field, given.pitch2, given.pitch3)
            .map_err(|e| e.within(format_args!("field {i}")))?;
        // SAFETY: the caller of the ABI promises that `data` is memory for the values of the field.
        let memory = unsafe { AppMemory::in_rows(given.data.cast(), rows) };
        Ok(AppField { field, memory: Some(memory).filter(|_| !given.data.is_null()) })
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
/// `config` is copied, strings included. `steps` is the number of time steps, n; with
/// GPUZIP_ALGORITHM_ONLINE it may be 0, and then `gpuzip_end_forward` tells n. `fields` are the
/// `nfields` fields of a state: their shapes, types and roles are read, and their data may be NULL.
/// On success `*handle` is the session; give it back with `gpuzip_finalize`.
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
    // SAFETY: by this function's contract.
    unsafe { Out::new(handle, "handle") }.fill("gpuzip_init", || {
        // SAFETY: by this function's contract.
        let (config, fields) = unsafe { (adopted(config)?, app_fields(fields, nfields)?) };
        handles::add_session(Session::new(config, steps as i64, &fields)?)
    })
}

/// Makes a session that follows `schedule` together with other sessions, one for each device.
/// `config` gives the session's tiers and replacement policy; the schedule's own configuration
/// gives the algorithm and `range_actions`. The session's memory is allocated with the first
/// action. Parameters as for `gpuzip_init`.
///
/// # Safety
/// As for `gpuzip_init`.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_attach(
    schedule: *mut gpuzip_schedule_t,
    config: *const gpuzip_config_t,
    fields: *const gpuzip_field_t,
    nfields: u32,
    handle: *mut *mut gpuzip_t,
) -> gpuzip_status_t {
    // SAFETY: by this function's contract.
    unsafe { Out::new(handle, "handle") }.fill("gpuzip_attach", || {
        let shared = handles::schedule(schedule)?;
        // SAFETY: by this function's contract.
        let (config, fields) = unsafe { (adopted(config)?, app_fields(fields, nfields)?) };
        handles::add_session(Session::attach(shared, config, &fields)?)
    })
}

/// Gives the fields of a session names, such as "temperature": the texts of later errors tell them beside
/// the numbers of the fields, and files of `gpuzip_export` have them. `names` are `nfields` strings of 1 to 80 bytes in the order of the fields,
/// which the call copies; `nfields` is the number of fields of the session. Another call replaces the
/// names.
///
/// # Safety
/// `names` is NULL or points to `nfields` pointers, each NULL or a string.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_name_fields(
    handle: *mut gpuzip_t,
    names: *const *const c_char,
    nfields: u32,
) -> gpuzip_status_t {
    entry("gpuzip_name_fields", || {
        not_null(names, "names")?;
        if nfields as usize > MAX_FIELDS {
            return fail!(Argument, "nfields = {nfields}: a state has at most {MAX_FIELDS} fields");
        }
        let name = |i: u32| {
            // SAFETY: `names` points to `nfields` pointers, and i < nfields.
            let name = unsafe { text_of(names.add(i as usize).read_unaligned()) };
            let text = name.map_or("".into(), |name| name.to_string_lossy());
            Name::new(&text).map_err(|e| e.within(format_args!("field {i}")))
        };
        let names = (0..nfields).map(name).collect::<Result<_>>()?;
        with_session(handle, |session| session.name_fields(names))
    })
}

/// Returns the schedule that a session follows, as a new handle: give the handle back with
/// `gpuzip_schedule_release`.
///
/// # Safety
/// `schedule` is NULL or points to memory for a handle.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_get_schedule(
    handle: *mut gpuzip_t,
    schedule: *mut *mut gpuzip_schedule_t,
) -> gpuzip_status_t {
    // SAFETY: by this function's contract.
    unsafe { Out::new(schedule, "schedule") }.fill("gpuzip_get_schedule", || {
        handles::add_schedule(with_session(handle, |session| Ok(session.schedule().clone()))?)
    })
}

/// Prepares a shot: moves the schedule back to before its first action, forgets all snapshots and
/// clears the statistics; the plan is kept. Call it before each shot, for every session of a
/// schedule. A new session does not need it before its first shot.
///
/// If the application left the shot before after its last BACKWARD and without TERMINATE, this call
/// does what TERMINATE does for that shot: it writes the line of the performance log and the end of
/// the timeline, keeps the profile of `gpuzip_autotune`, and on a GPU checks that every restored
/// state was what had been saved. The time up to this call then counts as time of that BACKWARD. An
/// error of this call belongs to the shot before and is returned once: a second call begins the
/// next shot.
#[no_mangle]
pub extern "C" fn gpuzip_setup(handle: *mut gpuzip_t) -> gpuzip_status_t {
    entry("gpuzip_setup", || with_session(handle, Session::setup))
}

/// Prepares a shot as `gpuzip_setup` does, but of `steps` time steps, 1 to 2^31 - 1, which need not be
/// the number given at init. If the number changes, the call makes a new plan, as `gpuzip_init` does:
/// budgets that `auto` chose from the free memory are chosen anew, a profile stays, and the memory for
/// snapshots is allocated anew at the first save. The number holds for all later shots, until another
/// call of this function.
///
/// If there is no plan for `steps`, or several sessions follow the schedule, or n was not known at init
/// (`steps` = 0; then `gpuzip_end_forward` tells n), the call returns the error, and a shot of as many
/// steps as before is prepared.
#[no_mangle]
pub extern "C" fn gpuzip_setup_steps(handle: *mut gpuzip_t, steps: i32) -> gpuzip_status_t {
    entry("gpuzip_setup_steps", || {
        with_session(handle, |session| session.setup_steps(steps.into()))
    })
}

/// Begins another reverse sweep over the states of this shot, after TERMINATE, if the key `sweeps` has
/// planned for it. The next action is a RESTORE: no state is live any more. FORWARD, SAVE, RESTORE and
/// BACKWARD follow as in the first reverse sweep, up to the next TERMINATE; the first BACKWARD has
/// GPUZIP_FLAG_FIRST_BACKWARD. Every FORWARD computes a state again. `gpuzip_run_reverse` runs the sweep.
///
/// Snapshots stay for the next sweep in memory and on disk as the plan says; the statistics go on. A
/// restart file of TERMINATE or of an action after it goes on in the same sweep. Of several sessions on a
/// schedule, the one that moves the schedule calls this; the others follow by `gpuzip_dispatch`.
///
/// If the current action is not TERMINATE, or as many sweeps as planned have ended, the result is
/// GPUZIP_ERR_STATE, and nothing changes.
#[no_mangle]
pub extern "C" fn gpuzip_rewind(handle: *mut gpuzip_t) -> gpuzip_status_t {
    entry("gpuzip_rewind", || with_session(handle, Session::rewind))
}

/// Moves the schedule and this session to the next action and writes the action to `*action`. The
/// application must serve a SAVE or RESTORE with a save or retrieve before it asks for the next
/// action. After TERMINATE only `gpuzip_setup` is valid, and `gpuzip_rewind` if the key `sweeps` has
/// planned for another reverse sweep.
///
/// # Safety
/// `action` is NULL or points to an action.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_get_action(
    handle: *mut gpuzip_t,
    action: *mut gpuzip_action_t,
) -> gpuzip_status_t {
    // SAFETY: by this function's contract.
    unsafe { Out::new(action, "action") }
        .fill("gpuzip_get_action", || Ok(action_of(with_session(handle, Session::get_action)?)))
}

/// Writes to `*action` the action that `gpuzip_get_action` would give next, and changes nothing.
/// This tells a loop that the forward sweep is over while the last action of the sweep is still the
/// current one: the next action is then a BACKWARD with GPUZIP_FLAG_FIRST_BACKWARD. If the schedule
/// is not decided yet, the call decides it. After TERMINATE there is no next action, and the result
/// is GPUZIP_ERR_STATE.
///
/// # Safety
/// `action` is NULL or points to an action.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_peek_action(
    handle: *mut gpuzip_t,
    action: *mut gpuzip_action_t,
) -> gpuzip_status_t {
    // SAFETY: by this function's contract.
    unsafe { Out::new(action, "action") }.fill("gpuzip_peek_action", || {
        Ok(action_of(with_session(handle, |session| session.peek_action())?))
    })
}

/// Ends the forward phase of a shot that began without a number of steps (`steps` = 0, for
/// GPUZIP_ALGORITHM_ONLINE): the state of the current action, FORWARD or SAVE of `ts`, is live and is
/// the last one, u(n-1) with n = `ts` + 1. The next action is the BACKWARD of `ts`, and then the
/// reverse phase follows up to TERMINATE. The next shot, after `gpuzip_setup`, again begins without
/// a number of steps and may have another one.
///
/// Until this call the actions are FORWARD and SAVE without end; every FORWARD is one step, with
/// `range_actions` = 1 too. A SAVE may replace an older snapshot, which the application need not
/// know. GPUZIP_FLAG_NEXT_IS_SAVE is true unless this call comes next: call it after the FORWARD of
/// the last state and before its SAVE. After the SAVE it is valid, too, if the state is still live;
/// then the slot of that SAVE was wasted, and the reverse phase may take more forward steps. With
/// callbacks, the function `forward` may call it. With several sessions on a schedule, call it for
/// one of them, when all of them are at the current action.
///
/// If n was given, or the forward phase has ended already, or no action has come yet, or a SAVE was
/// not served, the result is GPUZIP_ERR_STATE.
#[no_mangle]
pub extern "C" fn gpuzip_end_forward(handle: *mut gpuzip_t) -> gpuzip_status_t {
    entry("gpuzip_end_forward", || with_session(handle, Session::end_forward))
}

/// Moves the session to the current action of its schedule, which must be number `it`. For sessions
/// whose schedule another caller advances; the call does nothing if the session is there already.
#[no_mangle]
pub extern "C" fn gpuzip_dispatch(handle: *mut gpuzip_t, it: i64) -> gpuzip_status_t {
    entry("gpuzip_dispatch", || with_session(handle, |session| session.dispatch(it)))
}

/// Saves u(ts), which the fields hold. The current action must be SAVE of `ts`. `fields` have the
/// shapes given at init; the addresses of their data may differ from call to call. Fields that
/// overlap each other or the session's own memory are an error.
///
/// On a GPU the call does not wait: the GPU reads the fields in the order of `stream` (a CUstream
/// or cudaStream_t; NULL is the default stream). `stream` must stay valid until the next save or
/// retrieve, `gpuzip_setup` or `gpuzip_finalize`, since the library finds out from it how far the
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
/// for `gpuzip_save`. On a GPU the call does not wait: the GPU writes the fields in the order of
/// `stream`, which must stay valid as for `gpuzip_save`. On the host backend `stream` is NULL, and
/// the fields have been written on return.
///
/// Without a codec each field gets the bytes that were saved. A lossy codec keeps its bound for
/// every value, zeros included: zeros that the application's time steps read and never compute,
/// such as those of a halo or a boundary, may come back as values within the bound. Set those zeros
/// again after the call.
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

/// Writes u(ts), which the fields hold, for other programs: each field as a file of NumPy (`.npy`) in the
/// folder `dir`, which is made if it is missing. The session stays as it is: the call may come wherever
/// the fields hold u(ts), between two steps or at an action.
///
/// The file of field k is NAME-TS.npy, with `ts` in at least 9 digits. NAME is the name of the field
/// (`gpuzip_name_fields`), with a `-` in the place of each character but letters, digits, `-`, `_` and
/// `.`, and a `_` before a name that begins with `-` or `.`; without names it is field0, field1, ... Two
/// fields of one NAME are GPUZIP_ERR_ARGUMENT. The array has the extents (n3, n2, n1), without an n3 and
/// an n2 that are 1, and the type of the field.
///
/// A state is computed several times in a shot: the first call for it writes its files, and later ones do
/// nothing if the files are there, with their lengths; so does the rest of a shot that goes on from a restart
/// file. Another shot writes its states in their place; each run and each of its ranks has a folder of its own.
///
/// A file is written under a temporary name and gets its name when it is complete. The call does not wait
/// until the bytes are on the disk (fsync). If it fails, no part of a file is left, and the session goes
/// on. Fields are read as by `gpuzip_persist_write`: on the host or, for a session on a GPU, on the
/// device, in the order of `stream`, and have been read on return.
///
/// # Safety
/// `dir` is NULL or points to a string; `fields` points to `nfields` fields whose data is readable.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_export(
    handle: *mut gpuzip_t,
    dir: *const c_char,
    ts: i32,
    fields: *const gpuzip_field_t,
    nfields: u32,
    stream: *mut c_void,
) -> gpuzip_status_t {
    entry("gpuzip_export", || {
        // SAFETY: by this function's contract.
        let (dir, fields) = unsafe { (file_of(text(dir, "dir")?), app_fields(fields, nfields)?) };
        with_session(handle, |session| session.export(&dir, ts as i64, &fields, Stream(stream)))
    })
}

/// Writes the addresses that `body` hands out into the caller's array.
///
/// # Safety
/// `data` is NULL or points to room for as many addresses as `body` returns.
unsafe fn hand_out(
    handle: *mut gpuzip_t,
    data: *mut *mut c_void,
    body: impl FnOnce(&mut Session) -> Result<Vec<*mut c_void>>,
) -> Result<()> {
    not_null(data, "data")?;
    for (i, pointer) in with_session(handle, body)?.into_iter().enumerate() {
        // SAFETY: `data` has room for every address by this function's contract.
        unsafe { data.add(i).write_unaligned(pointer) };
    }
    Ok(())
}

/// Zero copy, for sessions with `zero_copy` = 1: hands out memory in which the application computes
/// u(ts), so that the library need not copy the fields.
///
/// The current action is the FORWARD to `ts` (the `ts_end` of a range) with
/// GPUZIP_FLAG_NEXT_IS_SAVE, or the SAVE of `ts`. At a range, the application may ask for the memory
/// before any step of the range, so that the last steps write the time levels of u(ts) where they
/// belong. `data[i]` becomes the address of field i, to which work on `stream` may write from now
/// on. `gpuzip_save_commit` must follow. Nothing is copied within the device.
///
/// # Safety
/// `data` is NULL or points to room for `nfields` addresses.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_save_begin(
    handle: *mut gpuzip_t,
    ts: i32,
    data: *mut *mut c_void,
    nfields: u32,
    stream: *mut c_void,
) -> gpuzip_status_t {
    entry("gpuzip_save_begin", || {
        let body =
            |session: &mut Session| session.save_begin(ts as i64, nfields as usize, Stream(stream));
        // SAFETY: by this function's contract.
        unsafe { hand_out(handle, data, body) }
    })
}

/// Saves u(ts), which work on `stream` has computed in the memory from `gpuzip_save_begin`; the
/// current action must be SAVE of `ts`. The application may read this memory until the next save or
/// retrieve is done on the stream, and must not write to it any more.
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

/// Zero copy: hands out memory that holds u(ts), in the order of `stream`, until the next save or
/// retrieve is done on the stream; the memory need not be given back. The current action must be
/// RESTORE of `ts`. The application must not write to the memory unless the action has
/// GPUZIP_FLAG_LAST_USE or all snapshots are compressed (in `gpuzip_summary_t`, `compressor` is not 0
/// and `raw_slots` is 0), and never to a level that is shared (GPUZIP_FLAG_SHARED_LEVEL).
///
/// # Safety
/// `data` is NULL or points to room for `nfields` addresses.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_retrieve_acquire(
    handle: *mut gpuzip_t,
    ts: i32,
    data: *mut *mut c_void,
    nfields: u32,
    stream: *mut c_void,
) -> gpuzip_status_t {
    entry("gpuzip_retrieve_acquire", || {
        let body = |session: &mut Session| {
            session.retrieve_acquire(ts as i64, nfields as usize, Stream(stream))
        };
        // SAFETY: by this function's contract.
        unsafe { hand_out(handle, data, body) }
    })
}

/// Gives the memory that `gpuzip_retrieve_acquire` handed out for `ts` back early. The work that
/// uses the memory must be enqueued on `stream` or done, and the application must not use the
/// memory after this call. The call is optional: without it the next save or retrieve gives the
/// memory back, and the earlier it comes, the earlier the library can fetch the next snapshot.
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
/// written their fields. Needed only if the application uses the fields outside the stream that it
/// passed to them. On the host backend every save and retrieve is complete when it returns.
#[no_mangle]
pub extern "C" fn gpuzip_synchronize(handle: *mut gpuzip_t) -> gpuzip_status_t {
    entry("gpuzip_synchronize", || with_session(handle, Session::synchronize))
}

/// Copies the statistics of this session since its last setup.
///
/// # Safety
/// `stats` is NULL or points to statistics whose `struct_size` is set.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_stats(
    handle: *mut gpuzip_t,
    stats: *mut gpuzip_stats_t,
) -> gpuzip_status_t {
    // SAFETY: by this function's contract.
    unsafe { Out::new(stats, "stats") }.fill_sized("gpuzip_stats", || {
        with_session(handle, |session| {
            let stats = session.stats()?;
            Ok(with_stats!(
                stats,
                gpuzip_stats_t {
                    stop_left: stop::seconds_left().unwrap_or(0.0),
                    pageable_bytes: session.pageable_bytes(),
                    ..Default::default()
                }
            ))
        })
    })
}

/// Describes what was decided for this session: schedule, plan and memory. As long as the number of
/// steps is not known (`gpuzip_end_forward`), `steps` and all counts of actions and transfers are 0.
///
/// # Safety
/// `summary` is NULL or points to a summary whose `struct_size` is set.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_summary(
    handle: *mut gpuzip_t,
    summary: *mut gpuzip_summary_t,
) -> gpuzip_status_t {
    // SAFETY: by this function's contract.
    unsafe { Out::new(summary, "summary") }.fill_sized("gpuzip_summary", || {
        with_session(handle, |session| {
            let schedule = session.schedule().tell()?;
            let plan = session.plan()?;
            let (tiers, budgets) = (session.tiers(), session.budgets());
            let ranges = session.schedule().config().schedule.range_actions;
            let planned = Planned { plan: &plan, tiers, budgets, predicted: None };
            summarize(&schedule, ranges, Some(planned))
        })
    })
}

/// Describes what `gpuzip_init` would decide and allocate, and allocates nothing. Parameters as for
/// `gpuzip_init`. `device_bytes` is the memory that the session would take of the device, and is
/// enough as `device_budget`, provided the backend is named or follows from the memory of the
/// fields. `host_bytes` is the host memory of the snapshots at their expected sizes. `steps` = 0 for
/// GPUZIP_ALGORITHM_ONLINE gives the memory for any number of steps.
///
/// # Safety
/// As for `gpuzip_init`; `summary` is NULL or points to a summary whose `struct_size` is set.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_memory_required(
    config: *const gpuzip_config_t,
    steps: i32,
    fields: *const gpuzip_field_t,
    nfields: u32,
    summary: *mut gpuzip_summary_t,
) -> gpuzip_status_t {
    // SAFETY: by this function's contract.
    unsafe { Out::new(summary, "summary") }.fill_sized("gpuzip_memory_required", || {
        // SAFETY: by this function's contract.
        let (config, fields) = unsafe { (checked(config)?, app_fields(fields, nfields)?) };
        let config = config.checking(0);
        let ranges = config.schedule.range_actions;
        let Estimate { choice, tiers, budgets } = estimate(config, steps as i64, &fields)?;
        let plan = choice.plans.first();
        let predicted = choice.predicted;
        let planned = plan.map(|plan| Planned { plan, tiers: &tiers, budgets, predicted });
        summarize(&choice.schedule, ranges, planned)
    })
}

/// Frees a session after its transfers are done. If another thread is in a call on the session, the
/// session is freed when that call returns. The handle becomes invalid at once.
///
/// If the application left a shot after its last BACKWARD and without TERMINATE, this call ends the
/// shot as `gpuzip_setup` does. If a state that a GPU restored was not what had been saved, and no
/// call has reported that yet, the result is GPUZIP_ERR_STREAM, GPUZIP_ERR_VALUES or
/// GPUZIP_ERR_DEVICE; the session is freed all the same.
#[no_mangle]
pub extern "C" fn gpuzip_finalize(handle: *mut gpuzip_t) -> gpuzip_status_t {
    entry_that_frees("gpuzip_finalize", || {
        if handles::inner() == Some(handles::STAGE) {
            // The session waits for the thread of its stages, which is this one.
            handles::refuse_inner()?;
        }
        let session = handles::remove_session(handle)?;
        // A session that another thread uses, or that a panic has poisoned, is not closed here: its
        // last user frees it and logs its errors.
        let closed = session.try_lock().map_or(Ok(()), |mut session| session.close());
        drop(session);
        closed
    })
}
