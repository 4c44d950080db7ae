//! The choice of a schedule and its plans from a configuration.

use super::bound::steps_alone;
use super::refine::search_and_refine;
use super::search::{clearly_less, fail_least, Candidate};
use super::storage::Cut;
use super::tier_spec::TierSpec;
use crate::config::Config;
use crate::error::{fail, Code, Error, Result};
use crate::plan::{Index, Plan};
use crate::predict::{simulate_within, Limit};
use crate::schedule::{adjust, Algorithm, MacroSteps, Schedule, Trace};
use crate::together::Mode;
use std::sync::Arc;

/// A schedule, and a plan of it for each session.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Index of the storage option that the plans use, in the list of every session.
    pub alternative: usize,
    /// The schedule.
    pub schedule: Schedule,
    /// One plan per session, in the order of the sessions.
    pub plans: Vec<Arc<Plan>>,
    /// The predicted seconds of the slowest session, where a prediction decided.
    pub predicted: Option<f64>,
}

/// Decides the schedule and the plans for `steps` time steps. `sessions` has the storage options of
/// each session, such as different codecs; option k of one session goes with option k of the
/// others, and a session with fewer options repeats its last one.
///
/// The number of snapshots is the first of these that applies: GPUZIP's `adjust`, if the
/// configuration asks for it; the configured number; the largest number for which every plan fits
/// its host budget; without budgets, `adjust` for Revolve and what the chunks need for zCut. For
/// `auto`, a [`search`] takes the schedule with the shortest predicted time among those that fit
/// the snapshots and budgets; with neither set, `auto` is Revolve. Of several storage options, the
/// one with the shortest predicted time is taken.
///
/// With `adjoint_every` all of this counts macro-steps instead of time steps: the schedule is one
/// for the macro-steps, and so are costs and numbers of snapshots.
pub fn choose_among(config: &Config, steps: u32, sessions: &[Vec<TierSpec>]) -> Result<Choice> {
    let ways = sessions.iter().map(|options| options.len() as u64).filter(|&ways| ways > 1).max();
    config
        .modes()
        .with(Mode::UnknownSteps, steps == 0)
        .with(Mode::Ways, ways.unwrap_or(0))
        .check()?;
    let macro_steps = MacroSteps::new(config.schedule.adjoint_every, steps);
    let of_macro_steps = |options: &Vec<TierSpec>| {
        let of_schedule = |tiers: &TierSpec| TierSpec {
            sweeps: config.schedule.sweeps.max(1),
            ..tiers.clone().in_macro_steps(macro_steps)
        };
        options.iter().map(of_schedule).collect()
    };
    let sessions: Vec<Vec<TierSpec>> = sessions.iter().map(of_macro_steps).collect();
    let (every, count) = (macro_steps.every(), macro_steps.count());
    let choice =
        choose_steps(config, count, &sessions).map_err(|error| match every > 1 && steps > 0 {
            false => error,
            true => error.within(format_args!(
                "adjoint_every = {every}: {steps} time steps are {count} steps of the schedule"
            )),
        })?;
    Ok(Choice { schedule: choice.schedule.in_macro_steps(macro_steps), ..choice })
}

/// Decides as `choose_among`, where `steps` and costs are those of the steps of the schedule. With `check`,
/// the schedule is the one that is chosen otherwise, with the computations of the check, or one of fewer
/// snapshots if these are too many for the budgets.
fn choose_steps(config: &Config, steps: u32, sessions: &[Vec<TierSpec>]) -> Result<Choice> {
    let times = config.schedule.check;
    let chosen = choose_unchecked(config, steps, sessions);
    if times == 0 || steps == 0 {
        return chosen;
    }
    // A number of snapshots that was set for compressed ones may be too large for raw ones.
    let with = |snapshots| config.clone().with(|c| c.schedule.snapshots = snapshots);
    let mut chosen = match chosen {
        Err(error) if error.code == Code::Budget => {
            choose_unchecked(&with(0), steps, sessions).map_err(|_| error)?
        }
        chosen => chosen?,
    };
    // The check stores a snapshot more, which may take more than one slot.
    let named = config.schedule.algorithm;
    let is_given = matches!(named, Some(Algorithm::Trace | Algorithm::StoreAll));
    let mut most = u32::MAX;
    for less in (0..32).map(|k| 1 << k) {
        let Choice { alternative: k, schedule, .. } = &chosen;
        match choose_schedule(schedule.checked(times)?, sessions, *k) {
            Err(error) => {
                let is_least = is_given || most.min(schedule.snapshots) < 2;
                if error.code != Code::Budget || is_least {
                    return Err(error.within(format_args!("check = {times}, with raw snapshots")));
                }
                most = most.min(schedule.snapshots).saturating_sub(less).max(1);
                chosen = choose_unchecked(&with(most), steps, sessions)?;
            }
            choice => return choice,
        }
    }
    Ok(chosen)
}

fn choose_unchecked(config: &Config, steps: u32, sessions: &[Vec<TierSpec>]) -> Result<Choice> {
    let count = sessions.iter().map(Vec::len).max().unwrap_or(1);
    let alternatives: Vec<_> = (0..count).map(|k| alternative(sessions, k)).collect();
    if let Some(choice) = searched(config, steps, &alternatives)? {
        return Ok(choice);
    }
    if let [sessions] = &alternatives[..] {
        return choose_by_rule(config, steps, sessions);
    }
    quickest(config, steps, &alternatives)
}

/// Returns storage option number `k` of each session; a session with fewer options repeats its last one.
fn alternative(sessions: &[Vec<TierSpec>], k: usize) -> Vec<TierSpec> {
    sessions.iter().filter_map(|options| options.get(k).or(options.last()).cloned()).collect()
}

/// Returns the choice by rule for the storage option with the shortest predicted time.
fn quickest(config: &Config, steps: u32, alternatives: &[Vec<TierSpec>]) -> Result<Choice> {
    let (mut best, mut least, mut failure) = (None, f64::INFINITY, None);
    for (alternative, sessions) in alternatives.iter().enumerate() {
        let choice = match choose_by_rule(config, steps, sessions) {
            Ok(choice) => choice,
            // Snapshots that lean on each other are not for every schedule.
            Err(error) if matches!(error.code, Code::Budget | Code::Unsupported) => {
                failure = failure.or(Some(error));
                continue;
            }
            Err(error) => return Err(error),
        };
        // Of options that take equally long the first is taken. Snapshots that share time levels
        // come before whole states, for they are smaller, and raw states before coded ones.
        let limit = clearly_less(least);
        let mut slowest = 0.0f64;
        for (tiers, plan) in sessions.iter().zip(&choice.plans) {
            tiers.costs.check(steps)?;
            let (schedule, costs) = (&choice.schedule, &tiers.costs);
            let within = Limit { makespan: limit, stream: steps_alone(schedule, costs) };
            let run = simulate_within((schedule, None), plan, costs, tiers.budgets, within)?;
            slowest = slowest.max(run.map_or_else(|slower| slower, |run| run.makespan));
        }
        if slowest < limit {
            let predicted = Some(slowest);
            (best, least) = (Some(Choice { alternative, predicted, ..choice }), slowest);
        }
    }
    best.map_or_else(|| none_fits(failure), Ok)
}

/// Returns the failure of one of the storage options, of which none fits.
fn none_fits(failure: Option<Error>) -> Result<Choice> {
    let none = || fail!(Config, "there is no way to store snapshots to choose from");
    failure.map_or_else(none, Err)
}

/// Returns the number of snapshots of an online schedule: the configured one, or else as many as fit
/// the smallest tiers. If the snapshots do not all fit the device cache, the host pool has a slot for
/// each of them: which ones are written to it depends on when the forward phase ends.
fn online_snapshots(config: &Config, sessions: &[TierSpec]) -> Result<u32> {
    if config.schedule.snapshots > 0 {
        return Ok(config.schedule.snapshots);
    }
    let held = |tiers: &TierSpec| {
        Some(tiers.host?.max(tiers.cache.unwrap_or(0)) / tiers.storage.cut as u32)
    };
    match sessions.iter().filter_map(held).min() {
        Some(0) => fail_least(sessions),
        Some(snapshots) => Ok(snapshots),
        None => default_snapshots(config, 0),
    }
}

/// Returns the choice that the configured numbers determine, without a prediction.
fn choose_by_rule(config: &Config, steps: u32, sessions: &[TierSpec]) -> Result<Choice> {
    if config.schedule.algorithm == Some(Algorithm::Trace) {
        let Some(path) = &config.schedule.trace_file else {
            return fail!(Config, "checkpointing_algorithm = 0 (trace) needs trace_file_path; a struct that is all zero has this algorithm, too: call gpuzip_config_init first");
        };
        let schedule = Schedule::trace(Arc::new(Trace::load(path, Some(steps))?));
        return finish(schedule.in_sweeps(config.schedule.sweeps)?, sessions);
    }
    let all = all_states(config, steps);
    if config.schedule.algorithm == Some(Algorithm::Online) && !config.schedule.adjust_snapshots {
        let snapshots = online_snapshots(config, sessions)?;
        let schedule = match steps {
            0 => Schedule::online_open(snapshots)?,
            _ => Schedule::online(steps, snapshots, false)?,
        };
        return finish(schedule, sessions);
    }
    let snapshots = match config.schedule.snapshots {
        _ if config.schedule.adjust_snapshots => adjust(steps as u64).min(all),
        0 => match most_that_fits(config, steps, sessions)? {
            Some(choice) => return Ok(choice),
            None => default_snapshots(config, steps)?,
        },
        set => set,
    };
    if config.schedule.algorithm == Some(Algorithm::StoreAll) && (1..all).contains(&snapshots) {
        log::warn!(
            "checkpointing_snaps = {snapshots} has no effect: store-all keeps all {all} states; use checkpointing_algorithm = 4 (auto), which keeps as \
             many as checkpointing_snaps says"
        );
    }
    finish(make(config, steps, snapshots, inner_slots(sessions))?, sessions)
}

/// Returns the choice with the shortest predicted time, if the algorithm is `auto` and something
/// limits the number of snapshots; otherwise `None`.
fn searched(config: &Config, steps: u32, alternatives: &[Vec<TierSpec>]) -> Result<Option<Choice>> {
    let sessions = alternatives.first().map_or(&[][..], Vec::as_slice);
    let limited = config.schedule.snapshots > 0
        || config.schedule.adjust_snapshots
        || sessions.iter().any(|tiers| tiers.host.is_some());
    if config.schedule.algorithm.is_some() || sessions.is_empty() || !limited {
        return Ok(None);
    }
    let most = match config.schedule.snapshots {
        _ if config.schedule.adjust_snapshots => adjust(steps as u64),
        0 => u32::MAX,
        set => set,
    };
    let Candidate { alternative, schedule, plans, simulation } =
        search_and_refine(steps, most, alternatives)?;
    Ok(Some(Choice { alternative, schedule, plans, predicted: Some(simulation.makespan) }))
}

/// Returns the snapshots inside an interval of two-level or hrevolve: the slots of the smallest device
/// cache. If no session has a cache, returns 0, with which the schedule chooses the number.
fn inner_slots(sessions: &[TierSpec]) -> u32 {
    sessions.iter().filter_map(TierSpec::inner_slots).min().unwrap_or(0)
}

/// The most snapshots that a schedule may need: of every state but the last one, which is live when the
/// forward phase ends, or of every state if several reverse sweeps begin with it.
fn all_states(config: &Config, steps: u32) -> u32 {
    let live = u32::from(config.schedule.sweeps <= 1);
    steps.saturating_sub(live).max(1)
}

fn make(config: &Config, steps: u32, snapshots: u32, inner: u32) -> Result<Schedule> {
    let all = all_states(config, steps);
    let schedule = match config.schedule.algorithm {
        None if snapshots >= all => Schedule::store_all(steps),
        None | Some(Algorithm::Revolve) => Schedule::revolve(steps, snapshots),
        Some(Algorithm::StoreAll) => Schedule::store_all(steps),
        Some(Algorithm::Uniform) if config.schedule.uniform_published => {
            Schedule::uniform_published(steps, snapshots)
        }
        Some(Algorithm::Uniform) => Schedule::uniform(steps, snapshots),
        Some(Algorithm::Zcut) => Schedule::zcut(steps, snapshots, config.schedule.chunk),
        Some(Algorithm::TwoLevel) => {
            Schedule::two_level(steps, snapshots, config.schedule.chunk, inner)
        }
        Some(Algorithm::Hrevolve) => {
            Schedule::hrevolve(steps, snapshots, config.schedule.chunk, inner)
        }
        Some(Algorithm::Online) => Schedule::online(steps, snapshots, false),
        Some(Algorithm::Trace) => fail!(Config, "a trace has no parameters"),
    };
    schedule?.in_sweeps(config.schedule.sweeps)
}

fn default_snapshots(config: &Config, steps: u32) -> Result<u32> {
    match config.schedule.algorithm {
        None | Some(Algorithm::Revolve) => Ok(adjust(steps as u64)),
        Some(Algorithm::Zcut | Algorithm::StoreAll | Algorithm::Trace) => Ok(0),
        Some(algorithm) => {
            fail!(Config, "checkpointing_snaps = 0: {} needs the number of snapshots, or a device_budget or host_budget", algorithm.name())
        }
    }
}

/// Plans a given schedule for the sessions, with storage option number `first` if the plans fit the
/// budgets then, or else with the first option for which they do.
pub fn choose_schedule(
    schedule: Schedule,
    sessions: &[Vec<TierSpec>],
    first: usize,
) -> Result<Choice> {
    let count = sessions.iter().map(Vec::len).max().unwrap_or(1);
    let mut failure = None;
    for k in [first].into_iter().chain((0..count).filter(|&k| k != first)) {
        match finish(schedule.clone(), &alternative(sessions, k)) {
            Ok(choice) => return Ok(Choice { alternative: k, ..choice }),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    none_fits(failure)
}

/// Plans a schedule for every session and checks that each plan fits its tiers.
fn finish(schedule: Schedule, sessions: &[TierSpec]) -> Result<Choice> {
    let choice = plan_all(schedule, sessions)?;
    for (tiers, plan) in sessions.iter().zip(&choice.plans) {
        tiers.check(plan)?;
    }
    Ok(choice)
}

/// Plans a schedule for every session; sessions with equal caches share a plan.
fn plan_all(schedule: Schedule, sessions: &[TierSpec]) -> Result<Choice> {
    let mut plans: Vec<Arc<Plan>> = Vec::new();
    let is_indexed = schedule.steps > 0 && !sessions.is_empty();
    let index = is_indexed.then(|| Index::new(&schedule)).transpose()?;
    for tiers in sessions {
        plans.push(tiers.plan_of(index.as_ref(), schedule.snapshots, &plans)?);
    }
    Ok(Choice { alternative: 0, schedule, plans, predicted: None })
}

/// Returns the largest number from `low` to `high` for which `attempt` succeeds, and what it returns, if
/// it succeeds for all smaller numbers. Otherwise `attempt` tells by how much less a number must be, at
/// least.
fn largest<T>(
    low: u32,
    high: u32,
    attempt: impl Fn(u32) -> Result<std::result::Result<T, u32>>,
) -> Result<Option<(u32, T)>> {
    let (mut above, mut next, mut best) = (high + 1, high, None);
    let mut is_first = true;
    loop {
        match attempt(next)? {
            Ok(found) => best = Some((next, found)),
            Err(less) => above = next + 1 - less.clamp(1, next),
        }
        let least = best.as_ref().map_or(low, |(number, _)| number + 1);
        if least >= above {
            return Ok(best);
        }
        // The number that is told is mostly small enough.
        let is_told = std::mem::take(&mut is_first);
        next = if is_told { above - 1 } else { least + (above - 1 - least) / 2 };
    }
}

/// Returns the schedule with the most snapshots whose plans fit the host budgets; `None` if no
/// session has a budget.
///
/// S snapshots of P records each, on C device slots and H host slots, always fit for P S <= H. They never
/// do if S > H + C, or if they have more than H + C records, which is counted in less time than a plan
/// takes.
fn most_that_fits(config: &Config, steps: u32, sessions: &[TierSpec]) -> Result<Option<Choice>> {
    let bounds = sessions.iter().filter_map(|s| {
        let records = s.storage.cut as u32;
        s.host.map(|host| (host / records, host.saturating_add(s.cache.unwrap_or(0))))
    });
    let Some((low, high)) = bounds.reduce(|a, b| (a.0.min(b.0), a.1.min(b.1))) else {
        return Ok(None);
    };
    let all = all_states(config, steps);
    let (low, high) = (low.clamp(1, all), high.min(all));
    let of = |snapshots: u32| make(config, steps, snapshots, inner_slots(sessions));
    let over = |s: &TierSpec, slots: u64, has: u32| {
        slots.saturating_sub(has.into()).div_ceil(s.storage.cut as u64) as u32
    };
    let is_cut = |s: &&TierSpec| s.storage.cut == Cut::Levels;
    let has_room = |snapshots: u32| {
        let schedule = of(snapshots)?;
        let cut: Vec<_> = sessions.iter().filter(is_cut).collect();
        let records = if cut.is_empty() { None } else { schedule.records()? };
        let most = records.map_or(0, |records| records.most);
        let less = cut.into_iter().map(|s| over(s, most, s.capacity(u32::MAX))).max();
        Ok(less.filter(|&less| less > 0).map_or(Ok(()), Err))
    };
    let attempt = |snapshots: u32| {
        let choice = plan_all(of(snapshots)?, sessions)?;
        let of_plan = |(s, plan): (&TierSpec, &Arc<Plan>)| {
            over(s, plan.host_slots.into(), s.host.unwrap_or(u32::MAX))
        };
        let less = sessions.iter().zip(&choice.plans).map(of_plan).max().unwrap_or(0);
        Ok(if less == 0 { Ok(choice) } else { Err(less) })
    };
    let high = if high > 0 { largest(low, high, has_room)? } else { None };
    let best = high.map_or(Ok(None), |(high, ())| largest(low.min(high), high, attempt))?;
    if let Some((_, best)) = best {
        return Ok(Some(best));
    }
    if config.schedule.algorithm == Some(Algorithm::StoreAll) {
        let one = |s: &TierSpec| s.slot_bytes * s.storage.cut as u64;
        let needed =
            |s: &TierSpec| u64::from(all).saturating_mul(one(s)).saturating_add(s.beside_snapshots);
        let most = |of: &dyn Fn(&TierSpec) -> u64| sessions.iter().map(of).max().unwrap_or(0);
        let raised = sessions.first().and_then(TierSpec::only_budget);
        return fail!(
            Budget,
            "store-all keeps {all} states of {} bytes, and the budgets hold fewer: raise {} to {} bytes, or use checkpointing_algorithm = 4 (auto), which \
             keeps as many states as fit",
            most(&one),
            raised.map_or("device_budget and host_budget together", |(key, _)| key),
            most(&needed)
        );
    }
    fail_least(sessions)
}

#[cfg(test)]
#[path = "choose_tests.rs"]
mod tests;
