//! The calls on schedules: alone, or shared by several sessions.

use super::checked::adopted;
use super::entry::{entry, entry_that_frees, Out};
use super::handles;
use super::types::*;
use crate::choice::{lower_bound, SharedSchedule, Tick, TierSpec};
use crate::error::{fail, Result};
use crate::plan::{Plan, Policy};
use crate::predict::simulate;
use crate::schedule::{validate_schedule, Action, Algorithm, Schedule, Summary};
use crate::stop;
use std::sync::Arc;

/// Converts an action to the struct of the ABI.
pub(super) fn action_of(tick: Tick) -> gpuzip_action_t {
    let Tick { it, action, end, .. } = tick;
    let interrupt = if stop::seconds_left().is_some() { GPUZIP_FLAG_INTERRUPT } else { 0 };
    gpuzip_action_t {
        r#type: action.kind as i32,
        ts: action.ts as i32,
        ts_end: end as i32,
        flags: action.flags | interrupt,
        it,
        reserved: [0; 2],
    }
}

/// Additions of the dynamic programs for the bound in a summary: at most some 0.1 s.
const BOUND_WORK: u64 = 300_000_000;

/// The plan of a session, its tiers, and its budgets.
pub(super) struct Planned<'a> {
    pub plan: &'a Plan,
    pub tiers: &'a TierSpec,
    /// `device_budget` and `host_budget` in bytes; 0: no budget.
    pub budgets: (u64, u64),
    /// The predicted seconds of a shot, if they are known.
    pub predicted: Option<f64>,
}

/// Fills the summary of a schedule, with or without range actions, and of a session's plan if there
/// is one.
pub(super) fn summarize(
    schedule: &Schedule,
    ranges: bool,
    planned: Option<Planned>,
) -> Result<gpuzip_summary_t> {
    schedule.check_length()?;
    let macro_steps = schedule.macro_steps();
    let counts = match schedule.steps {
        // The counts follow from the number of steps.
        0 => Summary::default(),
        _ => validate_schedule(schedule, ranges)?,
    };
    let mut summary = gpuzip_summary_t {
        algorithm: schedule.algorithm as i32,
        steps: macro_steps.time_steps() as i32,
        snapshots: i32::try_from(schedule.snapshots).unwrap_or(i32::MAX),
        chunk: i32::try_from(schedule.chunk).unwrap_or(i32::MAX),
        forward_steps: counts.forward_steps,
        saves: counts.saves,
        restores: counts.restores,
        backward_steps: counts.backward_steps,
        max_live: counts.max_live as u64,
        actions: match schedule.algorithm {
            // Its FORWARDs are validated one by one.
            Algorithm::Online if schedule.steps > 0 => {
                let count = |n, (action, _): (Action, u32)| action.check_memory().map(|()| n + 1);
                schedule.ranges(ranges).try_fold(0u64, count)?
            }
            _ => counts.actions,
        },
        ..Default::default()
    };
    if let Some(Planned { plan, tiers, budgets, predicted }) = planned {
        (summary.device_budget, summary.host_budget) = budgets;
        summary.compressor = tiers.storage.codec.method.number().into();
        summary.raw_slots = i32::try_from(plan.raw_slots).unwrap_or(i32::MAX);
        summary.policy = plan.policy as i32;
        summary.cache = i32::try_from(plan.cache).unwrap_or(i32::MAX);
        summary.h2d = plan.counts.h2d;
        summary.d2h = plan.counts.d2h;
        summary.hits = plan.counts.hits;
        summary.misses = plan.counts.misses;
        summary.prefetches = plan.counts.prefetches;
        // A plan counts macro-steps.
        let every = macro_steps.every();
        summary.min_lead = plan.counts.min_lead.saturating_mul(every.into());
        summary.mean_lead = plan.counts.mean_lead * f64::from(every);
        summary.slot_bytes = tiers.slot_bytes;
        summary.device_bytes = tiers.device_bytes(plan);
        summary.host_bytes = match budgets.1 {
            // Compressed snapshots share the bytes of the host budget, however many slots they have.
            most if most > 0 && tiers.costs.compressed => tiers.bytes_of(plan).1.min(most),
            _ => tiers.bytes_of(plan).1,
        };
        summary.disk_bytes = tiers.disk_bytes(plan);
        if summary.device_bytes.max(summary.host_bytes) == u64::MAX {
            return fail!(Memory, "snapshots of {} bytes do not fit any memory", tiers.slot_bytes);
        }
        // The steps of the plan are macro-steps, those of the session's tiers are time steps.
        let tiers = tiers.clone().in_macro_steps(macro_steps);
        let is_known = schedule.steps > 0 && tiers.costs.check(schedule.steps).is_ok();
        if is_known && plan.policy == Policy::Clairvoyant {
            let simulated = || simulate(schedule, plan, &tiers.costs, tiers.budgets);
            summary.predicted_s = match predicted {
                Some(seconds) => seconds,
                None => simulated()?.makespan,
            };
            let bound = lower_bound(schedule.steps, &tiers, BOUND_WORK)?;
            // The bound is one of nested schedules. A trace of another kind may be faster.
            summary.bound_s = bound.min(summary.predicted_s);
        }
    }
    Ok(summary)
}

/// Makes a schedule for `steps` time steps (0: as for `gpuzip_init`) that stands before its first
/// action. `config` is copied, strings included. If the budgets decide the number of snapshots, the
/// number is settled at the first action, when all sessions are attached. Without sessions,
/// algorithm `auto` is Revolve with GPUZIP's number of snapshots (`snapshot_rule` 1). On success
/// `*schedule` is a handle; give it back with `gpuzip_schedule_release`.
///
/// # Safety
/// `config` is NULL or points to a configuration; `schedule` is NULL or points to memory for a
/// handle.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_schedule_create(
    config: *const gpuzip_config_t,
    steps: i32,
    schedule: *mut *mut gpuzip_schedule_t,
) -> gpuzip_status_t {
    // SAFETY: by this function's contract.
    unsafe { Out::new(schedule, "schedule") }.fill("gpuzip_schedule_create", || {
        // SAFETY: by this function's contract.
        let shared = SharedSchedule::new(unsafe { adopted(config) }?, steps as i64)?;
        handles::add_schedule(Arc::new(shared))
    })
}

/// Moves the schedule to its next action and writes the action to `*action`. The sessions of the
/// schedule follow with `gpuzip_dispatch`. After the TERMINATE of the last reverse sweep only
/// `gpuzip_schedule_rewind` is valid.
///
/// # Safety
/// `action` is NULL or points to an action.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_schedule_get_action(
    schedule: *mut gpuzip_schedule_t,
    action: *mut gpuzip_action_t,
) -> gpuzip_status_t {
    // SAFETY: by this function's contract.
    unsafe { Out::new(action, "action") }.fill("gpuzip_schedule_get_action", || {
        Ok(action_of(handles::schedule(schedule)?.advance(None)?))
    })
}

/// Writes to `*action` the action that `gpuzip_schedule_get_action` would give next, and changes
/// nothing; the counterpart of `gpuzip_peek_action`.
///
/// # Safety
/// `action` is NULL or points to an action.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_schedule_peek_action(
    schedule: *mut gpuzip_schedule_t,
    action: *mut gpuzip_action_t,
) -> gpuzip_status_t {
    // SAFETY: by this function's contract.
    unsafe { Out::new(action, "action") }.fill("gpuzip_schedule_peek_action", || {
        Ok(action_of(handles::schedule(schedule)?.peek(None)?))
    })
}

/// Moves the schedule back to before its first action. Every session of the schedule then needs
/// `gpuzip_setup`.
#[no_mangle]
pub extern "C" fn gpuzip_schedule_rewind(schedule: *mut gpuzip_schedule_t) -> gpuzip_status_t {
    entry("gpuzip_schedule_rewind", || handles::schedule(schedule)?.rewind().map(drop))
}

/// Computes the summary of a schedule in one pass over it. The members about a plan are 0.
///
/// # Safety
/// `summary` is NULL or points to a summary whose `struct_size` is set.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_schedule_summary(
    schedule: *mut gpuzip_schedule_t,
    summary: *mut gpuzip_summary_t,
) -> gpuzip_status_t {
    // SAFETY: by this function's contract.
    unsafe { Out::new(summary, "summary") }.fill_sized("gpuzip_schedule_summary", || {
        let shared = handles::schedule(schedule)?;
        summarize(&shared.tell()?, shared.config().schedule.range_actions, None)
    })
}

/// Gives a schedule handle back. The schedule itself lives as long as sessions follow it.
#[no_mangle]
pub extern "C" fn gpuzip_schedule_release(schedule: *mut gpuzip_schedule_t) -> gpuzip_status_t {
    entry_that_frees("gpuzip_schedule_release", || handles::remove_schedule(schedule).map(drop))
}
