//! Refines schedules of a small problem: one or two splits at a time are changed as long as the
//! predicted time falls.

use super::portfolio::{portfolio, Spacing};
use super::search::{clearly_less, evaluate, limits, search, Candidate, Keep};
use super::tier_spec::TierSpec;
use crate::error::Result;
use crate::schedule::{Schedule, Tree};

/// The most schedules that are refined for each number of snapshots, and the most that are refined by two
/// rotations at a time in all. With these numbers sessions find the optimum of 182 of 196 small problems; with 12
/// and 12 they find 179, with 6 and 24 they find 174, and with 3 and 3 they find 167 in a quarter of the time.
const MOST_STARTS: usize = 12;
const MOST_BY_PAIRS: usize = 24;

/// Schedules to begin with, each with its predicted seconds: of each number of snapshots the
/// fastest ones. Trees with unlike numbers of snapshots are many rotations apart.
#[derive(Default)]
pub(super) struct Starts(Vec<(f64, Schedule)>);

impl Starts {
    /// Adds a schedule. Of schedules that take equally long the first one stays.
    pub fn add(&mut self, found: &Candidate) {
        let (seconds, schedule) = (found.simulation.makespan, &found.schedule);
        let same = |k: &usize| self.0[*k].1.snapshots == schedule.snapshots;
        let alike: Vec<usize> = (0..self.0.len()).filter(same).collect();
        let is_equal = |k: &usize| {
            let other = self.0[*k].0;
            clearly_less(other) <= seconds && clearly_less(seconds) <= other
        };
        if alike.iter().any(is_equal) {
            return;
        }
        if alike.len() < MOST_STARTS {
            return self.0.push((seconds, schedule.clone()));
        }
        let slowest = alike.into_iter().max_by(|a, b| self.0[*a].0.total_cmp(&self.0[*b].0));
        if let Some(slowest) = slowest.filter(|slowest| seconds < self.0[*slowest].0) {
            self.0[slowest] = (seconds, schedule.clone());
        }
    }
}

/// Schedules that become faster by rotations.
struct Climb<'a> {
    alternative: usize,
    sessions: &'a [TierSpec],
    /// The most snapshots.
    most: u32,
    tree: Tree,
    seconds: f64,
    found: Option<Candidate>,
}

impl Climb<'_> {
    /// Takes a tree if its schedule is faster. Returns whether it is.
    fn attempt(&mut self, tree: Tree) -> Result<bool> {
        let schedule = Schedule::of_tree(tree)?;
        if schedule.snapshots > self.most {
            return Ok(false);
        }
        let limit = clearly_less(self.seconds);
        let found = evaluate(schedule, self.alternative, self.sessions, limit)?.ok();
        let is_faster = found.is_some();
        if let Some(found) = found {
            (self.tree, self.seconds) = (tree, found.simulation.makespan);
            self.found = Some(found);
        }
        Ok(is_faster)
    }

    /// Rotates as long as that makes the schedule faster.
    fn up(&mut self) -> Result<()> {
        let mut is_faster = true;
        while std::mem::take(&mut is_faster) {
            for tree in self.tree.rotations() {
                is_faster |= self.attempt(tree)?;
            }
        }
        Ok(())
    }

    /// Rotates as long as one or two rotations at a time make the schedule faster.
    fn up_by_pairs(&mut self) -> Result<()> {
        'again: loop {
            self.up()?;
            for between in self.tree.rotations() {
                for tree in between.rotations() {
                    if self.attempt(tree)? {
                        continue 'again;
                    }
                }
            }
            return Ok(());
        }
    }
}

/// Up to this number of time steps sessions refine their plan, which takes 0.3 s at most.
const FEW_FOR_SESSIONS: u32 = 24;

/// Returns the plan that a session with the algorithm `auto` chooses: the one with the shortest predicted
/// time, as [`search`] finds it, refined if it has few steps. `most` and `alternatives` are those of
/// [`search`].
pub fn search_and_refine(
    steps: u32,
    most: u32,
    alternatives: &[Vec<TierSpec>],
) -> Result<Candidate> {
    let best = search(steps, most, alternatives, Keep::Best)?.swap_remove(0);
    if steps > FEW_FOR_SESSIONS {
        return Ok(best);
    }
    let refined = refine(&best, Starts::default(), &alternatives[best.alternative], most)?;
    Ok(refined.unwrap_or(best))
}

/// Returns a plan with at most `most` snapshots that is faster than `best`, and that neither one nor two
/// rotations make faster still; `None` if there is none. `starts`, `best` and the schedules of the portfolio
/// are what the search for it begins with.
pub(super) fn refine(
    best: &Candidate,
    mut starts: Starts,
    sessions: &[TierSpec],
    most: u32,
) -> Result<Option<Candidate>> {
    let (alternative, (held, cache)) = (best.alternative, limits(sessions, most));
    for schedule in portfolio(best.schedule.steps, held, cache, Spacing::Coarse)? {
        evaluate(schedule, alternative, sessions, f64::INFINITY)?
            .iter()
            .for_each(|s| starts.add(s));
    }
    starts.add(best);
    let mut climbs: Vec<Climb> = Vec::new();
    for (seconds, schedule) in starts.0 {
        if let Some(tree) = Tree::like(schedule.actions()) {
            let mut climb = Climb { alternative, sessions, most, tree, seconds, found: None };
            climb.up()?;
            climbs.push(climb);
        }
    }
    climbs.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    climbs.dedup_by(|a, b| clearly_less(a.seconds) <= b.seconds);
    climbs.truncate(MOST_BY_PAIRS);
    for climb in &mut climbs {
        climb.up_by_pairs()?;
    }
    let highest = climbs.into_iter().min_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let limit = clearly_less(best.simulation.makespan);
    Ok(highest.filter(|highest| highest.seconds < limit).and_then(|highest| highest.found))
}
