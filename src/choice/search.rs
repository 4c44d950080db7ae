//! The search: the quickest plan of a portfolio that fits the budgets, found by simulation.
//!
//! Bounds come first: a schedule whose lower bound is no better than the best plan so far is not
//! simulated, and a simulation ends when it has waited too long to win. Neither changes the result,
//! which depends on nothing but the arguments: every rank finds the same one.

use super::bound::{bound, Bound};
use super::portfolio::{neighbours, portfolio};
use super::tier_spec::TierSpec;
use crate::error::{fail, Error, Result};
use crate::fallible_vec;
use crate::plan::{Index, Plan};
use crate::predict::{simulate_within, Simulation};
use crate::schedule::{Algorithm, Schedule};
use std::sync::Arc;

/// A plan of the portfolio with its predicted times.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Which of the alternatives it is for.
    pub alternative: usize,
    /// The schedule.
    pub schedule: Schedule,
    /// One plan per session, in their order.
    pub plans: Vec<Arc<Plan>>,
    /// What the slowest session would take.
    pub simulation: Simulation,
}

/// What a search keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The best plan alone.
    Best,
    /// The best plan of each algorithm and alternative, to be compared.
    Families,
}

/// Searches the quickest plans for `steps` steps with at most `most` snapshots stored. An
/// alternative, a codec for one, is all sessions that follow the schedule, of which the slowest
/// counts. The result is sorted, the quickest first.
pub fn search(
    steps: u32,
    most: u32,
    alternatives: &[Vec<TierSpec>],
    keep: Keep,
) -> Result<Vec<Candidate>> {
    for sizes in alternatives.iter().flatten() {
        sizes.costs.check(steps)?;
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

/// Snapshots that all sessions hold, and the slots of the smallest cache.
fn limits(sessions: &[TierSpec], most: u32) -> (u32, u32) {
    let most = sessions.iter().map(|sizes| sizes.capacity(most)).min().unwrap_or(most);
    (most, sessions.iter().filter_map(|sizes| sizes.cache).min().unwrap_or(most))
}

fn fail_least<T>(alternatives: &[Vec<TierSpec>]) -> Result<T> {
    let largest = |sessions: &Vec<TierSpec>| sessions.iter().map(|sizes| sizes.slot_bytes).max();
    let least = alternatives.iter().filter_map(largest).min().unwrap_or(0);
    fail!(Budget, "no schedule fits the budgets: one snapshot has {least} bytes; raise device_budget or host_budget to at least that")
}

struct Search<'a> {
    alternatives: &'a [Vec<TierSpec>],
    keep: Keep,
    /// The best of each family so far, or the best of all.
    found: Vec<Candidate>,
    /// Why the last schedule was left out that is too long to be planned.
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
            for sizes in &self.alternatives[alternative] {
                let bound = bound(&schedule, sizes)?;
                largest =
                    largest.filter(|largest| largest.makespan > bound.makespan).or(Some(bound));
            }
            if let Some(bound) = largest {
                bounded.push((bound, alternative, schedule));
            }
        }
        // The order of equals is that of the portfolio, and nothing is allocated.
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

    fn rival(&self, alternative: usize, algorithm: Algorithm) -> Option<usize> {
        let same =
            |c: &Candidate| c.alternative == alternative && c.schedule.algorithm == algorithm;
        self.found.iter().position(|c| self.keep == Keep::Best || same(c))
    }

    /// The makespan below which a plan is worth keeping.
    fn to_beat(&self, alternative: usize, algorithm: Algorithm) -> f64 {
        self.rival(alternative, algorithm)
            .map_or(f64::INFINITY, |k| self.found[k].simulation.makespan)
    }

    fn attempt(&mut self, alternative: usize, schedule: Schedule) -> Result<()> {
        #[cfg(test)]
        tests::ATTEMPTS.with(|attempts| attempts.set(attempts.get() + 1));
        let limit = self.to_beat(alternative, schedule.algorithm);
        let Some((plans, simulation)) =
            evaluate(&schedule, &self.alternatives[alternative], limit)?
        else {
            return Ok(());
        };
        let candidate = Candidate { alternative, plans, simulation, schedule };
        match self.rival(alternative, candidate.schedule.algorithm) {
            Some(k) => self.found[k] = candidate,
            None => self.found.push(candidate),
        }
        Ok(())
    }
}

/// The plans of a schedule for all sessions and the slowest's simulation; `None` if one does not
/// fit, or is no quicker than `limit`.
fn evaluate(
    schedule: &Schedule,
    sessions: &[TierSpec],
    limit: f64,
) -> Result<Option<(Vec<Arc<Plan>>, Simulation)>> {
    let index = Index::new(schedule)?;
    let mut plans: Vec<Arc<Plan>> = Vec::new();
    let mut slowest = Simulation::default();
    for sizes in sessions {
        let plan = sizes.plan_of(&index, schedule.snapshots, &plans)?;
        if sizes.check(&plan).is_err() {
            return Ok(None);
        }
        let patience = limit - bound(schedule, sizes)?.stream;
        match simulate_within(schedule, &plan, &sizes.costs, sizes.budgets, patience)? {
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
