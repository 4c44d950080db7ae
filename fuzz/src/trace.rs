//! Target for trace files: a trace that is read can be written, every policy can plan it, and a
//! session that follows it restores every state.

use crate::abi::{c_path, config, field, file, folder};
use crate::app::Session;
use gpuzip::capi::*;
use gpuzip::plan::{Claims, Index, Plan, Policy};
use gpuzip::schedule::{trace, validate, Kind, Schedule, Trace};
use std::sync::Arc;

/// Largest number of actions of a schedule that a session follows.
const MOST_ACTIONS: usize = 400;

/// Runs the target. The input is a trace file; or, if the first byte is below 9, a cache capacity
/// and one byte per action. Mutations of the second form are more often valid schedules.
pub fn run(data: &[u8]) {
    folder();
    match data.split_first() {
        Some((&cache, actions)) if cache < 9 => check(&written(actions), u32::from(cache)),
        _ => check(data, 3),
    }
}

/// Writes a trace with one action per byte: its kind in the highest three bits, its time step in
/// the others.
fn written(actions: &[u8]) -> Vec<u8> {
    let names = [
        "FORWARD",
        "SAVE",
        "RESTORE",
        "BACKWARD",
        "TERMINATE",
        "FORWARD",
        "SAVE_INTERMEDIARY",
        "FIRSTURN",
    ];
    actions
        .iter()
        .map(|byte| format!("{} {}\n", byte & 31, names[usize::from(byte >> 5)]))
        .collect::<String>()
        .into_bytes()
}

fn check(text: &[u8], cache: u32) {
    let Ok(read) = Trace::read(text, None) else { return };
    let schedule = Schedule::trace(Arc::new(read));
    let actions: Vec<_> = schedule.actions().collect();
    let summary =
        validate(schedule.actions(), schedule.steps, None).expect("what was read is valid");
    let mut again = Vec::new();
    trace::write(actions.iter().copied(), &mut again).expect("memory can be written to");
    let again = Schedule::trace(Arc::new(
        Trace::read(&again[..], Some(schedule.steps)).expect("what was written can be read"),
    ));
    assert!(again.actions().eq(actions.iter().copied()));
    let index = Index::new(&schedule).expect("the schedule is valid");
    let levels = index.in_levels(Claims::All).expect("memory for twice the accesses");
    let plans = [Policy::Clairvoyant, Policy::Lru].map(|policy| Plan::of(&index, cache, policy));
    let of_levels =
        [Plan::of(&levels, cache, Policy::Clairvoyant), Plan::handing_over(&levels, cache.max(4))];
    for plan in plans.into_iter().chain([Plan::handing_over(&index, cache.max(2))]).chain(of_levels)
    {
        let Ok(plan) = plan else { continue };
        assert_eq!((plan.counts.saves, plan.counts.restores), (summary.saves, summary.restores));
        assert_eq!(plan.counts.hits + plan.counts.misses, plan.counts.restores);
    }
    assert_eq!(actions.last().map(|action| action.kind), Some(Kind::Terminate));
    if actions.len() <= MOST_ACTIONS {
        let path = c_path(&file("trace", text));
        let config = gpuzip_config_t {
            checkpointing_algorithm: GPUZIP_ALGORITHM_TRACE,
            cache_capacity: cache as i32,
            trace_file_path: path.as_ptr().cast_mut(),
            backend: 1,
            zero_copy: i32::from(text.len() % 3 == 1),
            shared_levels: i32::from(text.len() % 3 == 2),
            ..config()
        };
        let fields = [field([9, 1, 1], GPUZIP_TYPE_F64, 2), field([9, 1, 1], GPUZIP_TYPE_F64, 0)];
        if let Ok(mut session) = Session::new(&config, schedule.steps as i32, &fields, 0) {
            while !session.step() {}
        }
    }
}
