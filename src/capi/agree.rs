//! Calls for ranks in lockstep: fingerprints of schedules, and one common schedule for all ranks.

use super::entry::{entry_that_frees, keeping_last_error, Out};
use super::float::in_caller;
use super::handles::{self, with_session};
use super::types::*;
use crate::choice::agree;
use crate::error::{fail, Result};
use std::ffi::c_void;

/// Computes the fingerprint of the session's schedule: a 64-bit number that is equal for two
/// schedules if both give the application the same actions, in the same order and with the same
/// flags. Two different schedules have equal fingerprints with probability 2^-64. The fingerprint
/// depends on the actions only, so it can be compared between ranks, machines and runs. The call
/// passes once over the schedule; if the schedule is not decided yet, the call decides it.
///
/// # Safety
/// `fingerprint` is NULL or points to a number.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_fingerprint(
    handle: *mut gpuzip_t,
    fingerprint: *mut u64,
) -> gpuzip_status_t {
    // SAFETY: by this function's contract.
    unsafe { Out::new(fingerprint, "fingerprint") }.fill("gpuzip_fingerprint", || {
        with_session(handle, |session| Ok(session.schedule().clone()))?.fingerprint()
    })
}

/// Computes the fingerprint of a schedule by itself, as `gpuzip_fingerprint` does for a session.
///
/// # Safety
/// `fingerprint` is NULL or points to a number.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_schedule_fingerprint(
    schedule: *mut gpuzip_schedule_t,
    fingerprint: *mut u64,
) -> gpuzip_status_t {
    // SAFETY: by this function's contract.
    unsafe { Out::new(fingerprint, "fingerprint") }
        .fill("gpuzip_schedule_fingerprint", || handles::schedule(schedule)?.fingerprint())
}

/// Fails if a callback that finds a minimum over all ranks returned another status than 0.
pub(super) fn in_step(callback: &str, status: i32) -> Result<()> {
    match status {
        0 => Ok(()),
        _ => fail!(Callback, "{callback} returned {status}: ranks are no longer in step"),
    }
}

/// Gives all ranks that compute one grid together one schedule. A plan depends on the size of the
/// states and on the budgets: ranks with slabs of 101 and of 100 planes may plan with 19 and 20
/// snapshots. One rank then waits for ever in an exchange of halos that the other rank does not
/// take part in. Call this function on every rank after `gpuzip_init` (and after
/// `gpuzip_profile_import`, which makes a new plan), before the first action or after TERMINATE.
///
/// All ranks get the schedule of the rank with the fewest snapshots; among several ranks with that
/// number, the schedule with the smallest values of the other parameters. A session whose schedule
/// changes by this makes a new plan and allocates its memory again with its next action. Each rank
/// keeps its own device cache and codec. Either all ranks return success and have equal
/// fingerprints, or all ranks return an error: a rank that failed returns its own error, the other
/// ranks return GPUZIP_ERR_SCHEDULE.
///
/// `least` is called 5 times on every rank, even where the rank has failed, with `user` as its
/// first argument. A rank whose `gpuzip_init` failed calls `gpuzip_agree` with `handle` NULL, so
/// that the other ranks do not wait for it; `gpuzip_last_error` then still returns the error of
/// `gpuzip_init`. If `least` returns an error, the library does not call
/// it again, and this rank returns GPUZIP_ERR_CALLBACK.
///
/// # Safety
/// `least` is NULL or does what `gpuzip_least_t` says, with `user`.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_agree(
    handle: *mut gpuzip_t,
    least: gpuzip_least_t,
    user: *mut c_void,
) -> gpuzip_status_t {
    // This call is never refused for lack of memory: the other ranks would wait for this rank.
    let call = || {
        entry_that_frees("gpuzip_agree", || {
            let Some(least) = least else { return fail!(Argument, "least is NULL") };
            let shared = with_session(handle, |session| Ok(session.schedule().clone()));
            agree(shared.as_deref().map_err(Clone::clone), |mut value| {
                // SAFETY: by this function's contract.
                let status = in_caller(|| unsafe { least(user, &mut value) });
                in_step("callback least", status).map(|()| value)
            })
        })
    };
    // The reason why a rank has no session is in the thread's last error.
    if handle.is_null() && least.is_some() {
        return keeping_last_error(call);
    }
    call()
}
