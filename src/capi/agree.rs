//! Ranks in lockstep: fingerprints of schedules, and one schedule for all.

use super::entry::{entry, entry_that_frees, write};
use super::float::in_caller;
use super::handles::{self, with_session};
use super::types::*;
use crate::choice::agree;
use crate::error::{fail, Result};
use std::ffi::c_void;

/// A number that two schedules have in common if an application gets the same actions from both, in
/// the same order and with the same flags, and practically never otherwise (2 different ones with
/// probability 2^-64). It depends on nothing but the actions: compare it between ranks, machines
/// and runs. It takes a pass over the schedule, which is decided by this call if it is not yet.
///
/// # Safety
/// `fingerprint` is NULL or points to a number.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_fingerprint(
    handle: *mut gpuzip_t,
    fingerprint: *mut u64,
) -> gpuzip_status_t {
    entry("gpuzip_fingerprint", || {
        let shared = with_session(handle, |session| Ok(session.schedule().clone()))?;
        // SAFETY: by this function's contract.
        unsafe { write(fingerprint, "fingerprint", shared.fingerprint()?) }
    })
}

/// As `gpuzip_fingerprint`, of a schedule.
///
/// # Safety
/// `fingerprint` is NULL or points to a number.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_schedule_fingerprint(
    schedule: *mut gpuzip_schedule_t,
    fingerprint: *mut u64,
) -> gpuzip_status_t {
    entry("gpuzip_schedule_fingerprint", || {
        let shared = handles::schedule(schedule)?;
        // SAFETY: by this function's contract.
        unsafe { write(fingerprint, "fingerprint", shared.fingerprint()?) }
    })
}

/// Makes ranks that compute one grid together have one schedule. A plan depends on the size of
/// states and on budgets; slabs of 101 and of 100 planes may be planned with 19 and 20 snapshots,
/// and then the first exchange of halos that one rank wants and the other does not waits for
/// ever. Call it on every rank after `gpuzip_init` (and after `gpuzip_profile_import`, which plans
/// anew), before the first action or after TERMINATE.
///
/// All ranks get the schedule of the one with the fewest snapshots (of several such ranks the one
/// with the smallest numbers in the other parameters); a session whose own schedule was another one
/// plans and allocates anew with its next action. Cache and codec of each rank stay its own. The
/// result is success on all ranks, with equal fingerprints, or an error on all: where a rank has
/// failed that is its own error, and GPUZIP_ERR_SCHEDULE on the others.
///
/// `least` is called 5 times on every rank, whatever becomes of the ranks; `user` is handed to it.
/// A rank without a session, since `gpuzip_init` failed there, takes part with `handle` NULL, so
/// that the others do not wait for it. If `least` itself fails, it is not called again, and the
/// result there is GPUZIP_ERR_CALLBACK.
///
/// # Safety
/// `least` is NULL or does what `gpuzip_least_t` says, with `user`.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_agree(
    handle: *mut gpuzip_t,
    least: gpuzip_least_t,
    user: *mut c_void,
) -> gpuzip_status_t {
    // Never refused for want of memory: the other ranks would wait for this one.
    entry_that_frees("gpuzip_agree", || {
        let Some(least) = least else { return fail!(Argument, "least is NULL") };
        let shared = with_session(handle, |session| Ok(session.schedule().clone()));
        agree(shared.as_deref().map_err(Clone::clone), |mut value| -> Result<i64> {
            // SAFETY: by this function's contract.
            match in_caller(|| unsafe { least(user, &mut value) }) {
                0 => Ok(value),
                other => {
                    fail!(Callback, "callback least returned {other}: ranks are no longer in step")
                }
            }
        })
    })
}
