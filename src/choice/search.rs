//! The search: finds the plan of the portfolio with the shortest predicted time within the budgets.
//!
//! A schedule whose lower bound is no better than the best plan so far is not simulated, and a
//! simulation ends as soon as the stream has waited too long to win. Both only save time: the
//! result depends on nothing but the arguments, and every rank finds the same plan.

use super::bound::{bound, Bound};
use super::portfolio::{neighbours, portfolio};
use super::tier_spec::TierSpec;
use crate::error::{fail, Code, Error, Result};
use crate::fallible_vec;
use crate::plan::{Index, Plan};
use crate::predict::{simulate_within, Simulation};
use crate::schedule::{Algorithm, Schedule};
use std::sync::Arc;

/// A plan of the portfolio with its predicted times.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Index of the storage option that the plans use, in `alternatives`.
    pub alternative: usize,
    /// The schedule.
    pub schedule: Schedule,
    /// One plan per session, in the order of the sessions.
    pub plans: Vec<Arc<Plan>>,
    /// The simulation of the slowest session.
    pub simulation: Simulation,
}

/// Which plans a search keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The best plan only.
    Best,
    /// The best plan of each algorithm with each storage option, for a comparison.
    Families,
}

/// Returns the plans with the shortest predicted times for `steps` time steps and at most `most`
/// stored snapshots, the fastest first. Each entry of `alternatives` is a storage option (such as a
/// codec) of all sessions that follow the schedule; the slowest session counts.
pub fn search(
    steps: u32,
    most: u32,
    alternatives: &[Vec<TierSpec>],
    keep: Keep,
) -> Result<Vec<Candidate>> {
    for tiers in alternatives.iter().flatten() {
        tiers.costs.check(steps)?;
    }
    let mut search = Search { alternatives, keep, found: Vec::new(), too_long: None };
    let mut members = Vec::new();
    for (alternative, sessions) in alternatives.iter().enumerate() {
        let (most, cache) = limits(sessions, most);
        for schedule in portfolio(steps, most, cache)? {
            fallible_vec::push(&mut members, (alternative, schedule))?;
        }
    }
    search.try_all(members)?;
    for closely in [false, true] {
        let near: Vec<_> =
            search.found.iter().map(|c| (c.alternative, c.schedule.clone())).collect();
        let mut members = Vec::new();
        for (alternative, schedule) in near {
            let (most, cache) = limits(&alternatives[alternative], most);
            for schedule in neighbours(&schedule, most, cache, closely)? {
                fallible_vec::push(&mut members, (alternative, schedule))?;
            }
        }
        search.try_all(members)?;
    }
    if search.found.is_empty() {
        return search.too_long.map_or_else(|| fail_least(alternatives), Err);
    }
    let mut found = search.found;
    found.sort_by(|a, b| a.simulation.makespan.total_cmp(&b.simulation.makespan));
    Ok(found)
}

/// Returns the number of snapshots that every session can hold, and the slots of the smallest
/// cache.
fn limits(sessions: &[TierSpec], most: u32) -> (u32, u32) {
    let most = sessions.iter().map(|tiers| tiers.capacity(most)).min().unwrap_or(most);
    (most, sessions.iter().filter_map(|tiers| tiers.cache).min().unwrap_or(most))
}

fn fail_least<T>(alternatives: &[Vec<TierSpec>]) -> Result<T> {
    let largest = |sessions: &Vec<TierSpec>| sessions.iter().map(|tiers| tiers.slot_bytes).max();
    let least = alternatives.iter().filter_map(largest).min().unwrap_or(0);
    fail!(Budget, "no schedule fits the budgets: one snapshot has {least} bytes; raise device_budget or host_budget to at least that")
}

/// Returns the time, in seconds, below which another prediction is less than `makespan` by more than
/// the rounding errors of predictions.
pub(super) fn clearly_less(makespan: f64) -> f64 {
    makespan * (1.0 - 1e-9)
}

struct Search<'a> {
    alternatives: &'a [Vec<TierSpec>],
    keep: Keep,
    /// The best plan of each family so far, or the best of all, as `keep` says.
    found: Vec<Candidate>,
    /// The error for the last schedule that has too many actions, or takes too much memory, to be
    /// planned.
    too_long: Option<Error>,
}

impl Search<'_> {
    /// Tries schedules, the most promising first.
    fn try_all(&mut self, members: Vec<(usize, Schedule)>) -> Result<()> {
        let mut bounded: Vec<(Bound, usize, Schedule)> = fallible_vec::with_room(members.len())?;
        for (alternative, schedule) in members {
            if let Err(error) = schedule.check_length() {
                self.too_long = Some(error);
                continue;
            }
            let mut largest: Option<Bound> = None;
            for tiers in &self.alternatives[alternative] {
                let bound = bound(&schedule, tiers)?;
                largest =
                    largest.filter(|largest| largest.makespan > bound.makespan).or(Some(bound));
            }
            if let Some(bound) = largest {
                bounded.push((bound, alternative, schedule));
            }
        }
        // Equal guesses keep the order of the portfolio; an unstable sort allocates nothing.
        for (k, member) in bounded.iter_mut().enumerate() {
            member.0.rank = k;
        }
        bounded.sort_unstable_by(|a, b| {
            a.0.guess().total_cmp(&b.0.guess()).then(a.0.rank.cmp(&b.0.rank))
        });
        for (bound, alternative, schedule) in bounded {
            if bound.makespan < self.to_beat(alternative, schedule.algorithm) {
                self.attempt(alternative, schedule)?;
            }
        }
        Ok(())
    }

    /// Returns the index of the plan in `found` that a new plan must beat.
    fn rival(&self, alternative: usize, algorithm: Algorithm) -> Option<usize> {
        let same =
            |c: &Candidate| c.alternative == alternative && c.schedule.algorithm == algorithm;
        self.found.iter().position(|c| self.keep == Keep::Best || same(c))
    }

    /// Returns the makespan, in seconds, below which a plan is kept.
    fn to_beat(&self, alternative: usize, algorithm: Algorithm) -> f64 {
        self.rival(alternative, algorithm)
            .map_or(f64::INFINITY, |k| clearly_less(self.found[k].simulation.makespan))
    }

    fn attempt(&mut self, alternative: usize, schedule: Schedule) -> Result<()> {
        #[cfg(test)]
        tests::ATTEMPTS.with(|attempts| attempts.set(attempts.get() + 1));
        let limit = self.to_beat(alternative, schedule.algorithm);
        let evaluated = match evaluate(&schedule, &self.alternatives[alternative], limit) {
            // A plan for which there is no memory now cannot be played either.
            Err(error) if error.code == Code::Memory => {
                self.too_long = Some(error);
                return Ok(());
            }
            evaluated => evaluated?,
        };
        let Some((plans, simulation)) = evaluated else { return Ok(()) };
        let candidate = Candidate { alternative, plans, simulation, schedule };
        match self.rival(alternative, candidate.schedule.algorithm) {
            Some(k) => self.found[k] = candidate,
            None => self.found.push(candidate),
        }
        Ok(())
    }
}

/// Returns the plans of a schedule for all sessions and the simulation of the slowest; `None` if a
/// plan does not fit its tiers or takes `limit` seconds or longer.
pub(super) fn evaluate(
    schedule: &Schedule,
    sessions: &[TierSpec],
    limit: f64,
) -> Result<Option<(Vec<Arc<Plan>>, Simulation)>> {
    let index = Index::new(schedule)?;
    let mut plans: Vec<Arc<Plan>> = Vec::new();
    let mut slowest = Simulation::default();
    for tiers in sessions {
        let plan = tiers.plan_of(&index, schedule.snapshots, &plans)?;
        if tiers.check(&plan).is_err() {
            return Ok(None);
        }
        let patience = limit - bound(schedule, tiers)?.stream;
        match simulate_within(schedule, &plan, &tiers.costs, tiers.budgets, patience)? {
            Some(simulation) if simulation.makespan < limit => {
                if simulation.makespan >= slowest.makespan {
                    slowest = simulation;
                }
            }
            _ => return Ok(None),
        }
        plans.push(plan);
    }
    Ok(Some((plans, slowest)))
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
