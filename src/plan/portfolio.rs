//! The schedules that a search tries: every algorithm, its parameters coarsely.

use crate::error::Result;
use crate::schedule::Schedule;

/// Numbers from `low` to `high`: all of the small ones, then about 6 % apart, `high` included.
fn ladder(low: u32, high: u32) -> Vec<u32> {
    let next = |&x: &u32| Some(x + (x / 16).max(1)).filter(|&x| x < high);
    let mut rungs: Vec<u32> = std::iter::successors(Some(low).filter(|_| low < high), next).collect();
    rungs.extend((low <= high).then_some(high));
    rungs
}

/// Schedules for `steps` steps that store no more than `most` snapshots at a time, of which `cache` fit the device.
pub(super) fn portfolio(steps: u32, most: u32, cache: u32) -> Result<Vec<Schedule>> {
    let all = steps.saturating_sub(1).max(1);
    let mut members = Vec::new();
    if most >= all {
        members.push(Schedule::store_all(steps)?);
    }
    for snapshots in ladder(1, most.min(all)) {
        members.push(Schedule::revolve(steps, snapshots)?);
    }
    for snapshots in ladder(1, most.min(all)).into_iter().rev().step_by(8) {
        members.push(Schedule::uniform(steps, snapshots)?);
    }
    for count in ladder(2, most.min(all).saturating_add(1)) {
        divided(&mut members, steps, most, cache, steps.div_ceil(count))?;
    }
    Ok(members)
}

/// Schedules near `best`, with parameters between those that the portfolio has.
pub(super) fn neighbours(best: &Schedule, most: u32, cache: u32) -> Result<Vec<Schedule>> {
    use crate::schedule::Algorithm::{Revolve, TwoLevel, Uniform, Zcut};
    let steps = best.steps;
    let around = |x: u32, high: u32| {
        let reach = (x / 16).max(1);
        (x.saturating_sub(reach).max(1)..=x.saturating_add(reach).min(high)).step_by((reach as usize / 4).max(1))
    };
    let mut members = Vec::new();
    match best.algorithm {
        Revolve => around(best.snapshots, most).try_for_each(|s| Schedule::revolve(steps, s).map(|m| members.push(m)))?,
        Uniform => around(best.snapshots, most).try_for_each(|s| Schedule::uniform(steps, s).map(|m| members.push(m)))?,
        Zcut | TwoLevel => {
            let chunks = around(steps.div_ceil(best.chunk), most.saturating_add(1)).map(|count| steps.div_ceil(count));
            chunks.into_iter().try_for_each(|chunk| divided(&mut members, steps, most, cache, chunk))?
        }
        _ => {}
    }
    Ok(members)
}

/// Intervals of `chunk` states, with several numbers of slots inside: zCut, which stores all, and two-level.
fn divided(members: &mut Vec<Schedule>, steps: u32, most: u32, cache: u32, chunk: u32) -> Result<()> {
    let starts = steps.div_ceil(chunk) - 1;
    let left = most.saturating_sub(starts).min(chunk.saturating_sub(1));
    if left == 0 || starts == 0 {
        return Ok(());
    }
    let mut inner: Vec<u32> = ladder(1, left).into_iter().rev().step_by(4).collect();
    inner.extend([cache.saturating_sub(1), cache, cache.saturating_add(1)].into_iter().filter(|c| (1..=left).contains(c)));
    inner.sort_unstable();
    inner.dedup();
    for inner in inner {
        members.push(if inner + 1 == chunk {
            Schedule::zcut(steps, starts + inner, chunk)?
        } else {
            Schedule::two_level(steps, starts + inner, chunk, inner)?
        });
    }
    Ok(())
}
