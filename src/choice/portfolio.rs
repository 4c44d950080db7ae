//! The portfolio: the schedules that a search tries, of every algorithm and with parameters on a
//! coarse grid.

use crate::error::Result;
use crate::fallible_vec;
use crate::schedule::Schedule;

/// How close to each other the parameters of the portfolio's schedules are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Spacing {
    /// For long problems, whose schedules take long to simulate.
    Coarse,
    /// For short problems. A search that finds the best schedule of a fine grid and then varies it
    /// hardly ever ends beside a better one: of 10,000 random pairs of budgets, the greater one gives a
    /// slower plan in 1 pair, by 0.06 %; with the coarse grid in 8 of 3,000, by up to 5.6 %.
    Fine,
}

/// Returns numbers from `low` to `high`: every small number, then numbers that are one `part`-th
/// apart, and `high`.
fn ladder(low: u32, high: u32, part: u32) -> Vec<u32> {
    let next = |&x: &u32| x.checked_add((x / part).max(1)).filter(|&x| x < high - 1);
    let mut rungs: Vec<u32> =
        std::iter::successors(Some(low).filter(|_| low + 1 < high), next).collect();
    // `high - 1` is a rung, too: an application that works in the slots may occupy one slot.
    rungs.extend([high.saturating_sub(1), high].into_iter().filter(|&x| x >= low));
    rungs.dedup();
    rungs
}

/// Returns numbers below `high`, each larger than the one before by one `part`-th, rounded up. They are
/// the same ones for all values of `high`, so that a larger `high` adds numbers and takes none away.
fn spread(high: u32, part: u32) -> Vec<u32> {
    std::iter::successors(Some(1), |&x: &u32| x.checked_add(x.div_ceil(part)))
        .take_while(|&x| x < high)
        .collect()
}

/// Up to this number of time steps, the portfolio has all variants of Revolve.
pub(super) const FEW_STEPS: u32 = 32;

/// Returns schedules for `steps` time steps that store at most `most` snapshots at a time; the
/// device cache has `cache` slots.
pub(super) fn portfolio(steps: u32, most: u32, cache: u32, grid: Spacing) -> Result<Vec<Schedule>> {
    let all = steps.saturating_sub(1).max(1);
    let is_fine = grid == Spacing::Fine;
    // Each number of slots, or of starts of intervals, is one `part`-th larger than the one before.
    let part = if is_fine { 8 } else { 2 };
    let mut members = Vec::new();
    if most >= all {
        fallible_vec::push(&mut members, Schedule::store_all(steps)?)?;
    }
    for snapshots in ladder(1, most.min(all), 20) {
        let revolve = Schedule::revolve(steps, snapshots)?;
        if cache > 0 && snapshots > cache {
            // Fewer slots than there are leave some for the application and for uploads that run
            // ahead. On the fine grid, a larger cache has the schedules of every smaller one, too.
            let many = if is_fine { usize::MAX } else { 3 };
            let fewer = spread(cache, part).into_iter().rev().take(many);
            for slots in [cache, cache - 1].into_iter().chain(fewer).filter(|&slots| slots > 0) {
                fallible_vec::push(&mut members, revolve.clone().through(slots))?;
            }
        }
        if steps <= FEW_STEPS {
            // The variants differ in which of the best advances they take.
            for through in (1..snapshots).filter(|&through| through != cache) {
                fallible_vec::push(&mut members, revolve.clone().through(through))?;
            }
        }
        fallible_vec::push(&mut members, revolve)?;
    }
    let numbers = ladder(1, most.min(all), 10).into_iter().rev();
    for snapshots in numbers.step_by(if is_fine { 1 } else { 4 }) {
        fallible_vec::push(&mut members, Schedule::uniform(steps, snapshots)?)?;
    }
    let counts = ladder(2, most.min(all).saturating_add(1), 10).into_iter();
    let mut chunks: Vec<u32> = counts.map(|count| steps.div_ceil(count)).collect();
    chunks.dedup();
    for chunk in chunks {
        divided(&mut members, steps, most, chunk, &inner_slots(cache, chunk))?;
    }
    // Fewer starts of intervals need fewer transfers and more forward steps. An interval has two states
    // at least.
    let all_starts = most.saturating_sub(cache).min(steps / 2).max(1);
    let least = if is_fine { 1 } else { all_starts / 16 };
    let fewer = spread(all_starts, part).into_iter().filter(|&starts| starts >= least);
    // Fewer slots inside an interval leave slots for the starts of more intervals.
    let left = if is_fine { 2 } else { 0 };
    for starts in fewer.chain(all_starts..=all_starts.saturating_add(left)) {
        let chunks = ladder(2, steps / starts, 10);
        let is_coarse = !is_fine && starts < all_starts;
        for chunk in chunks.into_iter().step_by(if is_coarse { 2 } else { 1 }) {
            // Without numbers that do not depend on the cache, 310 steps found short intervals with one slot only
            // from some budgets, and a quarter more of host memory made the plan 4.8 % slower.
            let of_cache = (0..=left.max(1)).map(|less| cache.saturating_sub(less));
            let few = if is_fine { spread(chunk, 1) } else { Vec::new() };
            for inner in of_cache.chain(few) {
                let snapshots = starts.saturating_add(inner).min(most);
                nested(&mut members, steps, snapshots, chunk, &[inner])?;
            }
        }
    }
    // All slots, with numbers inside an interval that do not depend on the cache.
    for chunk in ladder(2, steps / 2, if is_fine { 10 } else { 5 }) {
        nested(&mut members, steps, most, chunk, &spread(chunk, if is_fine { 4 } else { 2 }))?;
    }
    if steps <= FEW_STEPS {
        for chunk in 2..steps {
            for snapshots in 2..=most.min(steps) {
                nested(&mut members, steps, snapshots, chunk, &[cache, cache.saturating_sub(1)])?;
            }
        }
    }
    Ok(members)
}

/// Returns schedules like `best` with parameters between those of the portfolio. The first pass
/// varies the number of snapshots or the interval length. With `closely`, the range is narrower,
/// the number of snapshots inside an interval varies, too, and two-level schedules with more of
/// them than the cache has slots also appear in the variant that moves fewest snapshots through the
/// cache.
pub(super) fn neighbours(
    best: &Schedule,
    most: u32,
    cache: u32,
    closely: bool,
) -> Result<Vec<Schedule>> {
    use crate::schedule::Algorithm::{Hrevolve, Revolve, TwoLevel, Uniform, Zcut};
    let (steps, inner) = (best.steps, best.inner());
    // The first of the numbers, or closely all of them.
    let tried = |near: &'_ [u32]| near[..if closely { near.len() } else { 1 }].to_vec();
    let mut members = Vec::new();
    match best.algorithm {
        Revolve => {
            let through = best.cache();
            let caches = tried(&[through, through.saturating_sub(1), (through + 1).min(cache)]);
            for s in around(best.snapshots, most, closely) {
                for &cache in &caches {
                    let schedule = Schedule::revolve(steps, s)?.through(cache);
                    fallible_vec::push(&mut members, schedule)?;
                }
            }
        }
        Uniform => around(best.snapshots, most, closely)
            .try_for_each(|s| fallible_vec::push(&mut members, Schedule::uniform(steps, s)?))?,
        Zcut | TwoLevel => {
            let counts = around(steps.div_ceil(best.chunk), steps, closely);
            let mut chunks: Vec<u32> = counts.map(|count| steps.div_ceil(count)).collect();
            chunks.dedup();
            let quarter = inner.div_ceil(4);
            let (less, more) = (inner.saturating_sub(quarter), inner.saturating_add(quarter));
            let tried = tried(&[inner, inner - 1, inner + 1, less, more]);
            for chunk in chunks {
                divided(&mut members, steps, most, chunk, &tried)?;
            }
            // Shorter intervals; a few of their starts are not stored.
            for chunk in best.chunk.saturating_sub(2)..=best.chunk {
                nested(&mut members, steps, most, chunk, &[inner, inner.saturating_sub(1)])?;
            }
            let starts = steps.div_ceil(best.chunk) - 1;
            for starts in [20, 8, 4].map(|part| starts - starts.div_ceil(part)) {
                let snapshots = starts.max(1).saturating_add(inner);
                nested(&mut members, steps, snapshots.min(most), best.chunk, &[inner])?;
            }
            for k in 0..if closely && cache > 0 { members.len() } else { 0 } {
                if members[k].algorithm == TwoLevel && members[k].inner() > cache {
                    let through = members[k].clone().through(cache);
                    fallible_vec::push(&mut members, through)?;
                }
            }
        }
        Hrevolve => {
            let reach = if closely { 1 } else { (best.chunk / 10).max(1) };
            let chunks = best.chunk.saturating_sub(reach)..=best.chunk.saturating_add(reach);
            let tried = tried(&[inner, inner - 1, inner + 1, cache.saturating_sub(2)]);
            for chunk in chunks.step_by((reach / 4).max(1) as usize) {
                nested(&mut members, steps, most, chunk, &tried)?;
                if best.snapshots < most {
                    nested(&mut members, steps, best.snapshots, chunk, &tried)?;
                }
            }
            let starts = best.snapshots - inner;
            let by = |part: u32| starts.div_ceil(part);
            let fewer = [1, by(20), by(8), by(4), by(2)].map(|less| starts.saturating_sub(less));
            let more = [1, by(20), by(8), by(4)].map(|more| starts.saturating_add(more));
            for starts in fewer.into_iter().chain(more) {
                let snapshots = starts.max(1).saturating_add(inner).min(most);
                for chunk in [best.chunk, best.chunk - 1, best.chunk + 1] {
                    nested(&mut members, steps, snapshots, chunk, &[inner])?;
                }
            }
        }
        _ => {}
    }
    let key = |s: &Schedule| (s.snapshots, s.chunk, s.inner(), s.cache());
    members.retain(|member| key(member) != key(best));
    Ok(members)
}

/// Adds nested schedules with intervals of `chunk` states, the numbers `inner` of snapshots inside an
/// interval, and all other snapshots at starts of intervals.
fn nested(
    members: &mut Vec<Schedule>,
    steps: u32,
    most: u32,
    chunk: u32,
    inner: &[u32],
) -> Result<()> {
    for &inner in inner {
        if chunk >= 2 && chunk < steps && inner >= 1 && inner < chunk && inner < most {
            fallible_vec::push(members, Schedule::hrevolve(steps, most, chunk, inner)?)?;
        }
    }
    Ok(())
}

/// Returns at most nine numbers from `x` less a tenth to `x` plus a tenth, none above `high`; with
/// `closely`, `x` and one number on either side.
fn around(x: u32, high: u32, closely: bool) -> impl Iterator<Item = u32> {
    let reach = (x / if closely { 80 } else { 10 }).max(1);
    let apart = if closely { reach } else { (reach / 4).max(1) };
    (x.saturating_sub(reach).max(1)..=x.saturating_add(reach).min(high)).step_by(apart as usize)
}

/// Returns numbers of snapshots inside an interval of `chunk` states that are worth a try with `cache` slots
/// on the device: `cache`, one less, one more, and numbers that do not depend on the cache.
fn inner_slots(cache: u32, chunk: u32) -> Vec<u32> {
    let cache = cache.max(1);
    let mut inner = spread(chunk, 4);
    inner.extend([cache - 1, cache, cache + 1, chunk - 1]);
    inner
}

/// Adds schedules with intervals of `chunk` states and the numbers `inner` of snapshots inside an
/// interval: zCut, which stores all states of an interval, and two-level.
fn divided(
    members: &mut Vec<Schedule>,
    steps: u32,
    most: u32,
    chunk: u32,
    inner: &[u32],
) -> Result<()> {
    let starts = steps.div_ceil(chunk) - 1;
    let left = most.saturating_sub(starts).min(chunk - 1);
    if left == 0 || starts == 0 {
        return Ok(());
    }
    let mut inner: Vec<u32> = inner.iter().map(|&c| c.min(left)).filter(|&c| c > 0).collect();
    inner.sort_unstable();
    inner.dedup();
    for inner in inner {
        let member = match inner + 1 == chunk {
            true => Schedule::zcut(steps, starts + inner, chunk)?,
            false => Schedule::two_level(steps, starts + inner, chunk, inner)?,
        };
        fallible_vec::push(members, member)?;
    }
    Ok(())
}
