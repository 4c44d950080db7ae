//! How much faster any schedule could be: a lower bound of the run time of every nested schedule
//! within the budgets; and the schedules that come with the bound, which are tried as plans.
//!
//! A run takes at least as long as the application's stream computes, copies and codes, as long as
//! the uploads and the disk reads take after the forward sweep, and as long as the downloads and the disk
//! writes take. A weighted mean of these is a bound, too, and its least value over all nested schedules
//! is found by dynamic programming, since the mean is a sum of prices: of forward steps, saves, restores
//! and transfers (Lagrange multipliers; see `schedule::Priced`). The weights are those, of a few, with
//! the largest bound. The bound ignores waits that no weight shows, and so cannot always be reached.
//!
//! A plan that uses a disk has slots in host memory beside the staging buffers only; on disk the bound
//! has as many slots as are asked for.

use super::portfolio::FEW_STEPS;
use super::refine::{refine, Starts};
use super::search::{clearly_less, evaluate, Candidate};
use super::storage::Cut;
use super::tier_spec::TierSpec;
use crate::error::Result;
use crate::predict::{Budgets, Costs};
use crate::schedule::{forward_steps, Priced, Prices, Schedule};

/// A lower bound, and the best plan of the priced schedules.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// No nested schedule within the budgets is faster, with any of the storage options; in seconds.
    pub seconds: f64,
    /// Whether the bound knows the transfers. If not, the problem is too large for the dynamic
    /// program, and the bound counts steps and restores only.
    pub has_transfers: bool,
    /// The best plan of a priced schedule, if it is faster than the plan that was to be beaten.
    pub better: Option<Candidate>,
}

/// Weights of the uploads and of the downloads, the most promising first.
const WEIGHTS: [(f64, f64); 9] = [
    (0.0, 0.0),
    (0.1, 0.1),
    (0.15, 0.1),
    (0.2, 0.1),
    (0.15, 0.15),
    (0.05, 0.05),
    (0.2, 0.2),
    (0.3, 0.1),
    (0.3, 0.2),
];

/// With a disk: weights of the uploads and of one lane of the disk (`Problem::weights`). Of 60 random problems
/// like those of `benches/three_levels.py`, the best bound by the first five is on average 0.9 % below the
/// best by all of 64 pairs, and by all nine 0.2 %.
const WEIGHTS_WITH_DISK: [(f64, f64); WEIGHTS.len()] = [
    (0.05, 0.03),
    (0.0, 0.15),
    (0.1, 0.0),
    (0.05, 0.0),
    (0.0, 0.05),
    (0.0, 0.3),
    (0.15, 0.0),
    (0.0, 0.0),
    (0.0, 0.2),
];

/// All pairs of these weights are tried afterwards, where problems are small.
const MORE_WEIGHTS: [f64; 7] = [0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4];

/// Weights of the lanes beside the application's stream.
#[derive(Clone, Copy, Debug, Default)]
struct Weights {
    up: f64,
    down: f64,
    read: f64,
    write: f64,
}

impl Weights {
    /// The weight of the application's stream.
    fn stream(&self) -> f64 {
        1.0 - self.up - self.down - self.read - self.write
    }
}

/// One session with one storage option.
struct Problem<'a> {
    steps: u32,
    tiers: &'a TierSpec,
    costs: &'a Costs,
    /// Slots of the device cache and of the host pool in memory, at most one per state; and whether
    /// snapshots may also lie on disk.
    cache: u32,
    host: u32,
    has_disk: bool,
    /// Seconds of the stream for a SAVE and a RESTORE, at least.
    save: f64,
    restore: f64,
    /// Seconds of the stream that a SAVE takes more if its snapshot goes to the host, and a RESTORE
    /// if its snapshot comes from there.
    more_save: f64,
    more_restore: f64,
}

impl<'a> Problem<'a> {
    fn new(steps: u32, tiers: &'a TierSpec) -> Self {
        let all = steps.saturating_sub(1).max(1);
        let costs = &tiers.costs;
        let own = costs.own_part();
        // A snapshot without a slot on the device goes straight to the host and back.
        let (save, restore) = match tiers.storage.zero_copy {
            true => (0.0, 0.0),
            false => (own * costs.copy.min(costs.download), own * costs.copy.min(costs.upload)),
        };
        let decoded = if costs.compressed { 0.0 } else { restore };
        let (mut save, mut restore) = (costs.compress + save, costs.decompress + decoded);
        let (mut more_save, mut more_restore) = (0.0, 0.0);
        if tiers.raw_slots.is_some() {
            // What goes to the host is compressed; whatever else is cheaper may be raw.
            let raw = if tiers.storage.zero_copy { 0.0 } else { costs.raw_copy() };
            (more_save, more_restore) = ((save - raw).max(0.0), (restore - raw).max(0.0));
            (save, restore) = (save.min(raw), restore.min(raw));
        }
        let beside_staging = tiers.beside_staging();
        Problem {
            steps,
            tiers,
            costs,
            cache: tiers.cache.unwrap_or(all).min(all),
            host: beside_staging.or(tiers.host).unwrap_or(all).min(all),
            has_disk: beside_staging.is_some(),
            save,
            restore,
            more_save,
            more_restore,
        }
    }

    /// The bound from forward steps and restores alone, in seconds.
    fn of_steps(&self) -> f64 {
        let (n, costs) = (self.steps as u64, self.costs);
        let slots = self.tiers.capacity(u32::MAX).max(1);
        let repeated = forward_steps(n, slots as u64).saturating_sub(n - 1);
        costs.forward.total(self.steps - 1)
            + repeated as f64 * costs.forward.least()
            + costs.backward.total(self.steps)
            + (n - 1) as f64 * self.restore
            + if n > 1 { self.save } else { 0.0 }
            + self.of_further_sweeps()
    }

    /// The least seconds of the application's stream in the reverse sweeps after the first one: a sweep
    /// computes every state that is not stored when it begins.
    fn of_further_sweeps(&self) -> f64 {
        let computed = self.steps.saturating_sub(self.tiers.capacity(u32::MAX));
        let one = f64::from(computed) * self.costs.forward.least()
            + self.costs.backward.total(self.steps)
            + f64::from(self.steps) * self.restore;
        f64::from(self.tiers.sweeps - 1) * one
    }

    /// How often the dynamic program can run with `work` additions. The prices know no shared time
    /// levels.
    fn runs(&self, work: u64) -> usize {
        let slots = (u64::from(self.cache) + 1).saturating_mul(u64::from(self.host) + 1);
        let places = if self.has_disk { 5 } else { 3 };
        let additions = slots.saturating_mul(places * u64::from(self.steps).pow(2) / 2);
        let is_priced = self.tiers.storage.cut == Cut::Whole && self.costs.forward.least() > 0.0;
        let runs = if is_priced { work / additions.max(1) } else { 0 };
        // Where nothing is transferred the first weights, none, give the largest bound.
        let most = if self.host == 0 && !self.has_disk { 1 } else { usize::MAX };
        usize::try_from(runs).unwrap_or(most).min(most)
    }

    /// The weights that are tried, the most promising first. Of the disk's lanes the one has a weight that
    /// binds first: reads come after the forward sweep, which takes about half of the time.
    fn weights(&self) -> impl Iterator<Item = Weights> + use<'_> {
        let pairs = MORE_WEIGHTS.into_iter().flat_map(|up| MORE_WEIGHTS.map(|down| (up, down)));
        let first = if self.has_disk { WEIGHTS_WITH_DISK } else { WEIGHTS };
        first.into_iter().chain(pairs).map(|(up, other)| match self.has_disk {
            true if self.costs.disk_write > 2.0 * self.costs.disk_read => {
                Weights { up, write: other, ..Weights::default() }
            }
            true => Weights { up, read: other, ..Weights::default() },
            false => Weights { up, down: other, ..Weights::default() },
        })
    }

    fn priced(&self, weights: &Weights) -> Result<Option<Priced>> {
        let (costs, step) = (self.costs, self.costs.forward.least());
        let Weights { up, down, read, write } = *weights;
        let of_lane = |weight: f64, seconds: f64| weight * seconds / (weights.stream() * step);
        let disk = [of_lane(read, costs.disk_read), of_lane(write, costs.disk_write)];
        let prices = Prices {
            save: self.save / step,
            restore: self.restore / step,
            upload: of_lane(up, costs.upload) + self.more_restore / step,
            download: of_lane(down, costs.download) + self.more_save / step,
            disk: self.has_disk.then_some(disk),
        };
        Priced::new(self.steps, self.cache, self.host, prices)
    }

    /// The bound with these weights, in seconds.
    fn bound(&self, priced: &Priced, weights: &Weights) -> f64 {
        let (costs, step) = (self.costs, self.costs.forward.least());
        let Some(cost) = priced.cost() else { return 0.0 };
        // No RESTORE makes room before the forward sweep has ended, so that all but `cache` uploads
        // and the one under way come after it; and all disk reads but those into the slots on the device
        // and in host memory, and the one under way.
        let sweep = f64::from(self.steps - 1) * step;
        let after =
            |seconds: f64, slots: u32| (sweep - seconds * (f64::from(slots) + 1.0)).max(0.0);
        let stream = cost * step + costs.backward.total(self.steps) + self.of_further_sweeps();
        weights.stream() * stream
            + weights.up * after(costs.upload, self.cache)
            + weights.read * after(costs.disk_read, self.cache.saturating_add(self.host))
    }

    /// The numbers of slots on the device and in host memory whose schedules are tried. A schedule for
    /// fewer slots on the device leaves room for uploads that run ahead; for small problems all numbers
    /// are tried.
    fn slots(&self) -> Vec<(u32, u32)> {
        let most = self.tiers.inner_slots().unwrap_or(self.cache).min(self.cache);
        let (caches, hosts) = match self.steps <= FEW_STEPS {
            true => (0..=self.cache, 0..=self.host),
            false => (most.saturating_sub(1).max(1)..=most, self.host..=self.host),
        };
        let fewer = caches.flat_map(|cache| hosts.clone().map(move |host| (cache, host)));
        let all = (self.cache, self.host);
        [all].into_iter().chain(fewer.filter(|some| *some != all)).collect()
    }

    /// Returns the bound in seconds, and whether it knows the transfers. `attempt` tries a schedule, and
    /// returns the seconds below which a plan is better than those so far; `limit` are these at first.
    fn bounded(
        &self,
        work: u64,
        mut limit: f64,
        mut attempt: impl FnMut(Schedule) -> Result<f64>,
    ) -> Result<(f64, bool)> {
        let (mut longest, mut knows) = (self.of_steps(), false);
        for weights in self.weights().take(self.runs(work)) {
            knows = longest >= limit;
            if knows {
                // Nothing is left to find.
                break;
            }
            let Some(priced) = self.priced(&weights)? else { break };
            knows = true;
            longest = longest.max(self.bound(&priced, &weights));
            for (cache, host) in self.slots() {
                if let Some(schedule) = Schedule::priced(&priced, cache, host)? {
                    limit = attempt(schedule)?;
                }
            }
        }
        Ok((longest, knows))
    }
}

/// The tiers for which a session is bounded. The bound of each list is the least one of its tiers, and the
/// session's bound is the largest one of the lists. A plan has either no disk, or one and slots in host memory
/// beside the staging buffers only; and it has no more slots than both together, the disk as quick as
/// memory.
fn relaxed(tiers: &TierSpec) -> Vec<Vec<TierSpec>> {
    match tiers.beside_staging() {
        Some(_) => vec![
            vec![tiers.without_disk(), tiers.clone()],
            vec![TierSpec { budgets: Budgets::NONE, ..tiers.clone() }],
        ],
        None => vec![vec![tiers.clone()]],
    }
}

/// Returns the bound of a session from those of its relaxed tiers: the function `of` returns the seconds, and
/// whether they know the transfers, for tiers and for its share of `work`.
fn of_relaxed(
    tiers: &TierSpec,
    work: u64,
    mut of: impl FnMut(&TierSpec, u64) -> Result<(f64, bool)>,
) -> Result<(f64, bool)> {
    let lists = relaxed(tiers);
    let share = work / lists.iter().flatten().count() as u64;
    let (mut longest, mut knows) = (0.0f64, false);
    for list in &lists {
        let (mut shortest, mut knows_all) = (f64::INFINITY, true);
        for tiers in list {
            let (seconds, knows_lanes) = of(tiers, share)?;
            (shortest, knows_all) = (shortest.min(seconds), knows_all && knows_lanes);
        }
        (longest, knows) = (longest.max(shortest), knows || knows_all);
    }
    Ok((longest, knows))
}

/// Returns seconds such that no nested schedule for `steps` time steps is faster on `tiers`. `work` is
/// the most additions of the dynamic programs, as for `certify`; if they need more, the bound counts
/// steps and restores only. It tries the first weights only, which takes a sixth of the time of all, and
/// mostly gives the same bound.
pub fn lower_bound(steps: u32, tiers: &TierSpec, work: u64) -> Result<f64> {
    let of = |tiers: &TierSpec, share: u64| {
        let problem = Problem::new(steps, tiers);
        let mut longest = problem.of_steps();
        let runs = problem.runs(share).min(WEIGHTS.len());
        for weights in problem.weights().take(runs) {
            let Some(priced) = problem.priced(&weights)? else { break };
            longest = longest.max(problem.bound(&priced, &weights));
        }
        Ok((longest, runs > 0))
    };
    Ok(of_relaxed(tiers, work, of)?.0)
}

/// Bounds the time of `steps` time steps from below and tries the priced schedules. Each entry of
/// `alternatives` is a storage option of all sessions that follow the schedule. `best` is the best
/// plan so far. `work` is the most additions of the dynamic programs; some
/// 7 10^9 take a second.
pub fn certify(
    steps: u32,
    alternatives: &[Vec<TierSpec>],
    best: &Candidate,
    work: u64,
) -> Result<Certificate> {
    let mut certificate = Certificate { seconds: f64::INFINITY, has_transfers: true, better: None };
    let share = work / alternatives.len().max(1) as u64;
    let is_small = steps <= FEW_STEPS;
    let mut limit = clearly_less(best.simulation.makespan);
    let mut starts: Vec<Starts> = alternatives.iter().map(|_| Starts::default()).collect();
    for (alternative, sessions) in alternatives.iter().enumerate() {
        let (mut slowest, mut knows) = (0.0f64, false);
        for tiers in sessions {
            // Half of the work is for the schedules of the dynamic program.
            let share = share / sessions.len().max(1) as u64 / 2;
            let of = |tiers: &TierSpec, share: u64| {
                let to_beat = limit;
                let attempt = |schedule: Schedule| {
                    let most = if is_small { f64::INFINITY } else { limit };
                    let Ok(found) = evaluate(schedule, alternative, sessions, most)? else {
                        return Ok(limit);
                    };
                    let seconds = found.simulation.makespan;
                    if is_small {
                        starts[alternative].add(&found);
                    }
                    if seconds < limit {
                        limit = clearly_less(seconds);
                        certificate.better = Some(found);
                    }
                    Ok(limit)
                };
                Problem::new(steps, tiers).bounded(share, to_beat, attempt)
            };
            let (seconds, knows_lanes) = of_relaxed(tiers, share, of)?;
            (slowest, knows) = (slowest.max(seconds), knows || knows_lanes);
        }
        certificate.seconds = certificate.seconds.min(slowest);
        certificate.has_transfers &= knows;
    }
    if is_small {
        let best = certificate.better.as_ref().unwrap_or(best);
        let starts = starts.swap_remove(best.alternative);
        let refined = refine(best, starts, &alternatives[best.alternative], u32::MAX)?;
        certificate.better = refined.or(certificate.better);
    }
    Ok(certificate)
}

#[cfg(test)]
#[path = "certificate_tests.rs"]
mod tests;
