//! The search: finds the plan of the portfolio with the shortest predicted time within the budgets.
//!
//! A schedule whose lower bound is no better than the best plan so far is not simulated, no schedule
//! is simulated twice, and a simulation ends as soon as the stream has waited too long to win. These
//! only save time. For long problems the number of simulations is limited, and the most promising
//! schedules are simulated first. The result depends on nothing but the arguments, never on measured
//! time, and every rank finds the same plan.

use super::bound::{bound, stream, Counted, Kinds, LowerBound};
use super::portfolio::{neighbours, portfolio, Spacing};
use super::storage::Cut;
use super::tier_spec::{slots_for_part, TierSpec};
use crate::error::{fail, Code, Error, Result};
use crate::fallible_vec;
use crate::plan::{Index, Plan};
use crate::predict::{simulate_within, Limit, Simulation};
use crate::schedule::{Algorithm, Schedule};
use std::collections::HashMap;
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// The best plan only.
    #[default]
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
    // Revolve takes the fewest forward steps: where even Revolve takes too many, nothing is searched.
    if let Some(held) = alternatives.iter().map(|sessions| limits(sessions, most).0).max() {
        let all = steps.saturating_sub(1).max(1);
        Schedule::revolve(steps, held.clamp(1, all))?.check_length()?;
    }
    let mut too_long = None;
    let (within, most_work) = match keep {
        Keep::Families => (f64::MAX, MOST_WORK),
        Keep::Best if steps <= SHORT => (NEARLY_BEST, u64::MAX),
        Keep::Best if steps <= LONG => (1.0, u64::MAX),
        Keep::Best => (1.0, MOST_WORK),
    };
    let mut stage = |alternatives: &[Vec<TierSpec>], cut: bool, before: [&[Candidate]; 2]| {
        let mut search = Search { alternatives, within, most_work, ..Search::default() };
        search.stage = (0..alternatives.len()).filter(|&k| search.is_cut(k) == cut).collect();
        before.concat().into_iter().for_each(|candidate| search.keep_better(candidate));
        search.run(steps, most)?;
        too_long = search.too_long.or(too_long.take());
        Result::Ok(search.found)
    };
    // First without the disk, then with it, and each time whole states first, then states in levels, which
    // must beat what was found before them. What is found with less does not depend on what else there is,
    // so that neither a disk nor levels make a plan slower.
    let (mut whole, mut found) = (Vec::new(), Vec::new());
    for alternatives in [&without_disk(alternatives)[..], alternatives] {
        whole = stage(alternatives, false, [&whole, &[]])?;
        found = stage(alternatives, true, [&whole, &found])?;
    }
    if found.is_empty() {
        let largest = |sessions: &&Vec<TierSpec>| sessions.iter().map(TierSpec::least_budget).max();
        let least = || fail_least(alternatives.iter().min_by_key(largest).into_iter().flatten());
        return too_long.map_or_else(least, Err);
    }
    found.sort_by(|a, b| a.simulation.makespan.total_cmp(&b.simulation.makespan));
    Ok(found)
}

/// Returns the storage options without their disks; none if there is no disk.
fn without_disk(alternatives: &[Vec<TierSpec>]) -> Vec<Vec<TierSpec>> {
    if !alternatives.iter().flatten().any(TierSpec::has_disk) {
        return Vec::new();
    }
    let of_option =
        |sessions: &Vec<TierSpec>| sessions.iter().map(TierSpec::without_disk).collect();
    alternatives.iter().map(of_option).collect()
}

/// Returns the number of snapshots that every session can hold, and the slots of the smallest
/// cache that can hold all snapshots inside an interval.
pub(super) fn limits(sessions: &[TierSpec], most: u32) -> (u32, u32) {
    let most = sessions.iter().map(|tiers| tiers.capacity(most)).min().unwrap_or(most);
    (most, sessions.iter().filter_map(TierSpec::inner_slots).min().unwrap_or(most))
}

/// Returns the error of budgets that hold no snapshot of these sessions, each with the first of its storage
/// options.
pub(super) fn fail_least<'a, T>(sessions: impl IntoIterator<Item = &'a TierSpec>) -> Result<T> {
    let Some(largest) = sessions.into_iter().max_by_key(|tiers| tiers.least_budget()) else {
        return fail!(Budget, "no schedule fits the budgets");
    };
    let least = largest.least_budget();
    let raised = largest.only_budget();
    let raised = raised.map_or("device_budget or host_budget".into(), |(key, bytes)| {
        format!("{key}, {bytes} bytes,")
    });
    let also = match largest.beside_snapshots {
        0 => "",
        _ => ", with the memory in which the application and codecs work,",
    };
    fail!(
        Budget,
        "no schedule fits the budgets: one snapshot{also} takes {least} bytes; raise {raised} to at least that"
    )
}

/// Up to this number of time steps the portfolio has the fine spacing. Of a longer problem, a part is
/// searched first.
const SHORT: u32 = 2_000;

/// Up to this number of time steps a search for the best plan simulates every schedule that may be the
/// best; for more, and in a part, the simulations are limited (`MOST_WORK`). Without the limit a search for
/// 90,000 steps, with levels, a codec and a disk at once, takes 10 s.
const LONG: u32 = 20_000;

/// As `LONG`, for a search that compares families of schedules and simulates more of them; nor is a part
/// searched.
const SHORT_FOR_FAMILIES: u32 = 10_000;

/// A search for the best plan of at most `SHORT` steps also varies the best plan of each family that takes
/// less than this many times the best one. It costs little there, and finds better plans than variations
/// of the best one alone: of 1597 random problems 57 plans became faster, by up to 4.4 %.
const NEARLY_BEST: f64 = 1.05;

/// The most times that the neighbours of the best plan are tried. For a part with at most `SHORT` steps
/// they are tried once.
const MOST_ROUNDS: u32 = 12;

/// A search begins with a part of the problem: the steps divided by this number.
const PART: u32 = 8;

/// The most work of the search for a part is `MOST_WORK`, or that of a longer part, divided by this number.
const WORK_OF_PART: u64 = 4;

/// The most SAVEs and RESTOREs that a search for more than `LONG` steps plans and simulates; one core plans
/// and simulates some 10^7 of them in a second.
const MOST_WORK: u64 = 5_000_000;

/// Returns the time, in seconds, below which another prediction is less than `makespan` by more than
/// the rounding errors of predictions.
pub(super) fn clearly_less(makespan: f64) -> f64 {
    makespan * (1.0 - 1e-9)
}

/// What tells a schedule with a storage option from all others of a search: the number of the storage
/// option, and the schedule's algorithm and parameters.
type Key = (usize, Algorithm, [u32; 4]);

fn key(alternative: usize, schedule: &Schedule) -> Key {
    let Schedule { algorithm, snapshots, chunk, .. } = *schedule;
    (alternative, algorithm, [snapshots, chunk, schedule.inner(), schedule.cache()])
}

#[derive(Default)]
struct Search<'a> {
    alternatives: &'a [Vec<TierSpec>],
    /// The alternatives whose schedules are tried now.
    stage: Vec<usize>,
    /// A family's best plan is kept if it takes less than this many times the best plan of all. A family is
    /// an algorithm with a storage option.
    within: f64,
    /// The most SAVEs and RESTOREs that are planned and simulated, unless all families of a short problem
    /// are kept.
    most_work: u64,
    /// Whether the problem is a part of a longer one, and has at most `SHORT` steps.
    is_short_part: bool,
    /// The best plan of each family so far, as far as they are kept.
    found: Vec<Candidate>,
    /// The schedules that were simulated.
    tried: Vec<Tried>,
    /// The schedules that were simulated, or cannot be faster than a plan that was found. The time to
    /// beat only falls, so that none of these schedules needs a second look.
    settled: HashMap<Key, ()>,
    /// SAVEs and RESTOREs of the schedules of this stage that were simulated, and of the last one of them.
    /// Of states in levels each counts twice.
    work: u64,
    last_work: u64,
    /// The error for the last schedule that has too many actions, or takes too much memory, to be
    /// planned.
    too_long: Option<Error>,
}

/// A schedule that may be simulated.
struct Waiting {
    /// What was learned of the most similar schedule, by which the seconds of the shot are guessed, and
    /// how unlike this schedule is (`Traits::distance`).
    gaps: f64,
    distance: f64,
    bound: LowerBound,
    /// What the bound counts so far.
    counted: Counted,
    traits: Traits,
    schedule: Schedule,
}

impl Waiting {
    /// Guesses anew by a schedule that was simulated, if no schedule so far was more similar. The less alike
    /// the two are, the nearer are the gaps to the usual ones, if these are smaller: what is known of a
    /// schedule says little of one that is very different, which may be much better.
    fn learn(&mut self, tried: &Tried) {
        let distance = self.traits.distance(&tried.traits);
        if distance <= self.distance && distance.is_finite() {
            let usual = USUAL_GAPS.min(tried.gaps);
            (self.distance, self.gaps) = (distance, usual + (tried.gaps - usual) / distance);
        }
    }

    /// Returns what the bound shall count before the schedule is simulated; `None` if that is counted.
    fn uncounted(&self, is_cut: bool) -> Option<Counted> {
        match self.counted {
            Counted::Steps => Some(Counted::Transfers),
            Counted::Transfers if is_cut => Some(Counted::Records),
            _ => None,
        }
    }
}

/// A schedule that was simulated, by which guesses for similar schedules become better.
struct Tried {
    traits: Traits,
    /// See `LowerBound::gaps`; an estimate for a schedule whose simulation was given up.
    gaps: f64,
}

/// What the schedules of an algorithm with a storage option are compared by.
#[derive(Clone, Copy)]
struct Traits {
    alternative: usize,
    algorithm: Algorithm,
    /// The states of an interval, or the snapshots if there are no intervals.
    size: f64,
    /// The slots inside an interval, and the starts that are stored; 1 if there are no intervals.
    inner: f64,
    starts: f64,
    /// Whether the schedule was chosen for the device cache, and whether the snapshots inside an interval
    /// leave a slot of it, into which the next start may come ahead.
    uses: [bool; 2],
}

impl Traits {
    /// `cache`: the snapshots for which the device cache has room.
    fn of(alternative: usize, schedule: &Schedule, cache: u32) -> Self {
        let inner = schedule.inner();
        let [size, inner, starts] = match schedule.chunk {
            0 => [schedule.snapshots, 1, 1],
            chunk => [chunk, inner, schedule.snapshots.saturating_sub(inner)],
        }
        .map(|count| f64::from(count.max(1)));
        let uses = [schedule.cache() > 0, schedule.chunk > 0 && schedule.inner() < cache];
        Traits { alternative, algorithm: schedule.algorithm, size, inner, starts, uses }
    }

    /// How unlike the gaps of two schedules are expected to be; 1: alike; infinite if they have other
    /// algorithms or storage options. No logarithms, whose last digits depend on the machine.
    fn distance(&self, other: &Traits) -> f64 {
        if (self.alternative, self.algorithm) != (other.alternative, other.algorithm) {
            return f64::INFINITY;
        }
        let ratio = |a: f64, b: f64| if a > b { a / b } else { b / a };
        let inner = ratio(self.inner, other.inner);
        let otherwise = self.uses.iter().zip(other.uses).filter(|(a, b)| **a != *b).count();
        let numbers = ratio(self.size, other.size) * ratio(self.starts, other.starts);
        numbers * inner * inner * [1.0, 3.0, 9.0][otherwise]
    }
}

/// Returns schedules for `steps` time steps and at most `most` snapshots that are like `schedule`, which
/// is for one `PART`-th of the steps. Intervals have the same length. One schedule has `PART` times as
/// many snapshots, or starts of intervals; in another a time step is computed as often on average. A
/// schedule for the device cache of the part, `caches.0`, becomes one for the cache of the whole
/// problem, `caches.1`.
fn longer(schedule: &Schedule, steps: u32, most: u32, caches: (u32, u32)) -> Result<Vec<Schedule>> {
    let (chunk, inner) = (schedule.chunk, schedule.inner());
    let through = match schedule.cache() {
        cache if cache == caches.0 => caches.1,
        cache => cache,
    };
    let starts = || steps.div_ceil(chunk.max(1)) - 1;
    // Schedules of the whole problem with a number of snapshots, or of starts.
    let with = |slots: u32| match schedule.algorithm {
        Algorithm::StoreAll => Schedule::revolve(steps, slots),
        Algorithm::Revolve => Ok(Schedule::revolve(steps, slots)?.through(through)),
        Algorithm::Uniform => Schedule::uniform(steps, slots),
        _ => Schedule::hrevolve(steps, slots.saturating_add(inner), chunk, inner),
    };
    let (own, most_slots) = match schedule.algorithm {
        Algorithm::StoreAll if most >= steps - 1 => return Ok(vec![Schedule::store_all(steps)?]),
        Algorithm::StoreAll | Algorithm::Revolve | Algorithm::Uniform => (schedule.snapshots, most),
        Algorithm::Zcut if starts() + inner <= most => {
            return Ok(vec![Schedule::zcut(steps, starts() + inner, chunk)?])
        }
        Algorithm::TwoLevel if starts() + inner <= most => {
            let two_level = Schedule::two_level(steps, starts() + inner, chunk, inner)?;
            return Ok(vec![two_level.through(through)]);
        }
        Algorithm::Hrevolve if inner < most => (schedule.snapshots - inner, most - inner),
        _ => return Ok(Vec::new()),
    };
    let by_memory = own.saturating_mul(PART).min(most_slots);
    let computed = |schedule: &Schedule| {
        u128::from(schedule.forward_steps()) * u128::from(steps) / u128::from(schedule.steps)
    };
    // The least number of slots, found by bisection, with which no more is computed.
    let (mut by_work, mut enough) = (1, most_slots);
    while by_work < enough {
        let middle = by_work + (enough - by_work) / 2;
        match u128::from(with(middle)?.forward_steps()) <= computed(schedule) {
            true => enough = middle,
            false => by_work = middle + 1,
        }
    }
    let mut slots = vec![by_memory, by_work];
    slots.dedup();
    slots.into_iter().map(with).collect()
}

/// The part of a transfer's time that usually does not overlap with the stream.
const USUAL_GAPS: f64 = 0.3;

/// As `USUAL_GAPS`, as long as no schedule of the same algorithm has been simulated: a search of a long
/// problem, which simulates few schedules, tries another algorithm before it varies one.
const UNKNOWN_GAPS: f64 = 0.1;

impl Search<'_> {
    /// Finds the best plans of the alternatives of `stage` for `steps` time steps and at most `most`
    /// snapshots.
    fn run(&mut self, steps: u32, most: u32) -> Result<()> {
        let is_short = steps <= if self.compares() { SHORT_FOR_FAMILIES } else { SHORT };
        let limit = if is_short && self.compares() { u64::MAX } else { self.most_work };
        if !is_short {
            let members = self.ask_part(steps, most)?;
            self.try_all(members, limit)?;
        }
        let is_fine = steps <= SHORT && !self.is_short_part;
        let grid = if is_fine { Spacing::Fine } else { Spacing::Coarse };
        let mut members = Vec::new();
        for &alternative in &self.stage {
            let (most, cache) = limits(&self.alternatives[alternative], most);
            for schedule in portfolio(steps, most, cache, grid)? {
                fallible_vec::push(&mut members, (alternative, schedule))?;
            }
        }
        self.try_all(members, limit / 2)?;
        self.try_neighbours(most, false, limit - limit / 4)?;
        // Neighbours of a better plan may be better still.
        for _ in 0..if self.is_short_part { 1 } else { MOST_ROUNDS } {
            let before = self.found.iter().map(|c| c.simulation.makespan).sum::<f64>();
            self.try_neighbours(most, true, limit)?;
            if self.found.iter().map(|c| c.simulation.makespan).sum::<f64>() >= before {
                break;
            }
        }
        Ok(())
    }

    /// Searches a problem with one `PART`-th of the steps, and takes over what was learned of the
    /// gaps. Returns schedules of the whole problem that are like the best ones of the part.
    fn ask_part(&mut self, steps: u32, most: u32) -> Result<Vec<(usize, Schedule)>> {
        let (part, mut like) = (steps.div_ceil(PART), Vec::new());
        for &alternative in &self.stage {
            let sessions = &self.alternatives[alternative];
            let smaller =
                [sessions.iter().map(|tiers| tiers.for_part(PART, steps)).collect::<Vec<_>>()];
            let is_short_part = part <= SHORT;
            let mut search = Search {
                alternatives: &smaller,
                stage: vec![0],
                within: 1.0,
                most_work: self.most_work.min(MOST_WORK) / WORK_OF_PART,
                is_short_part,
                ..Search::default()
            };
            let fewer = most.div_ceil(PART).max(slots_for_part(PART, steps, most));
            search.run(part, fewer)?;
            let (most, cache) = limits(sessions, most);
            let (most_of_part, cache_of_part) = limits(&smaller[0], fewer);
            for found in search.found {
                for schedule in longer(&found.schedule, steps, most, (cache_of_part, cache))? {
                    fallible_vec::push(&mut like, (alternative, schedule))?;
                }
            }
            for mut tried in search.tried {
                tried.traits.alternative = alternative;
                match tried.traits.algorithm {
                    Algorithm::Revolve | Algorithm::Uniform => {
                        tried.traits.size *= f64::from(PART);
                    }
                    _ => tried.traits.starts *= f64::from(most) / f64::from(most_of_part),
                }
                fallible_vec::push(&mut self.tried, tried)?;
            }
        }
        Ok(like)
    }

    /// Tries schedules with parameters near those of the plans in `found`, with their storage options, or
    /// else with those of this stage.
    fn try_neighbours(&mut self, most: u32, closely: bool, limit: u64) -> Result<()> {
        let mut members = Vec::new();
        for Candidate { alternative: own, schedule, .. } in &self.found {
            let is_own = self.stage.contains(own);
            for &alternative in self.stage.iter().filter(|&k| !is_own || k == own) {
                let (most, cache) = limits(&self.alternatives[alternative], most);
                for schedule in neighbours(schedule, most, cache, closely)? {
                    fallible_vec::push(&mut members, (alternative, schedule))?;
                }
            }
        }
        self.try_all(members, limit)
    }

    /// Tries schedules, the most promising first, as long as less than `limit` SAVEs and RESTOREs
    /// have been simulated in all, with half of the next schedule, which counts as long as the last one.
    /// A schedule is tried in any case if the search keeps no plan of it yet.
    fn try_all(&mut self, members: Vec<(usize, Schedule)>, limit: u64) -> Result<()> {
        let mut waiting: Vec<Waiting> = fallible_vec::with_room(members.len())?;
        let mut listed: HashMap<Key, ()> = HashMap::new();
        for (alternative, schedule) in members {
            let Ok(schedule) = in_sweeps(schedule, &self.alternatives[alternative]) else {
                continue;
            };
            let this = key(alternative, &schedule);
            if self.settled.contains_key(&this) || listed.contains_key(&this) {
                continue;
            }
            fallible_vec::insert(&mut listed, this, ())?;
            if let Err(error) = schedule.check_length() {
                self.too_long = Some(error);
                continue;
            }
            let Some(bound) = self.bound(alternative, &schedule, Counted::Steps)? else {
                fallible_vec::insert(&mut self.settled, this, ())?;
                continue;
            };
            let (gaps, distance) = (UNKNOWN_GAPS, f64::INFINITY);
            let cache = limits(&self.alternatives[alternative], u32::MAX).1;
            let traits = Traits::of(alternative, &schedule, cache);
            let counted = Counted::Steps;
            let mut new = Waiting { gaps, distance, bound, counted, traits, schedule };
            self.tried.iter().for_each(|tried| new.learn(tried));
            waiting.push(new);
        }
        loop {
            let guesses = waiting.iter().map(|w| w.bound.guess(w.gaps)).enumerate();
            let Some((next, _)) = guesses.min_by(|a, b| a.1.total_cmp(&b.1)) else { break };
            let first = &mut waiting[next];
            let Traits { alternative, algorithm, .. } = first.traits;
            let to_beat = self.to_beat(alternative, algorithm);
            let is_in_time =
                self.work.saturating_add(self.last_work / 2) < limit || to_beat == f64::INFINITY;
            let more = first.uncounted(self.is_cut(alternative));
            if let Some(more) = more.filter(|_| is_in_time) {
                // Most schedules never come first, so that only few are counted.
                match self.bound(alternative, &first.schedule, more)? {
                    Some(bound) => (first.bound, first.counted) = (bound, more),
                    None => {
                        let this = key(alternative, &waiting.remove(next).schedule);
                        fallible_vec::insert(&mut self.settled, this, ())?;
                    }
                }
                continue;
            }
            // The order of the others stays: it decides between equal guesses.
            let Waiting { bound, traits, schedule, .. } = waiting.remove(next);
            if bound.makespan < to_beat && is_in_time {
                fallible_vec::insert(&mut self.settled, key(alternative, &schedule), ())?;
                self.attempt(bound, traits, schedule)?;
                waiting.retain(|w| {
                    w.bound.makespan < self.to_beat(w.traits.alternative, w.traits.algorithm)
                });
                if let Some(tried) = self.tried.last() {
                    waiting.iter_mut().for_each(|w| w.learn(tried));
                }
            }
        }
        Ok(())
    }

    /// Whether states are stored in levels.
    fn is_cut(&self, alternative: usize) -> bool {
        self.alternatives[alternative].iter().any(|tiers| tiers.storage.cut == Cut::Levels)
    }

    /// Returns the bounds of the session with the largest bound; `None` if the schedule cannot be
    /// faster than the plan that it must beat, or does not fit the tiers.
    fn bound(
        &self,
        alternative: usize,
        schedule: &Schedule,
        counted: Counted,
    ) -> Result<Option<LowerBound>> {
        let limit = self.to_beat(alternative, schedule.algorithm);
        let mut largest: Option<LowerBound> = None;
        if !self.alternatives[alternative].iter().all(|tiers| tiers.suits(schedule)) {
            return Ok(None);
        }
        for tiers in &self.alternatives[alternative] {
            let Some(bound) = bound(schedule, tiers, counted, limit)? else { return Ok(None) };
            largest = largest.filter(|largest| largest.makespan > bound.makespan).or(Some(bound));
        }
        Ok(largest.filter(|bound| bound.makespan < limit))
    }

    /// Whether all families are kept, for a comparison.
    fn compares(&self) -> bool {
        self.within == f64::MAX
    }

    /// Returns the index of the plan in `found` of a family.
    fn rival(&self, alternative: usize, algorithm: Algorithm) -> Option<usize> {
        let same =
            |c: &Candidate| c.alternative == alternative && c.schedule.algorithm == algorithm;
        self.found.iter().position(same)
    }

    /// Returns the most seconds of a plan that is kept because it is nearly the best.
    fn kept(&self) -> f64 {
        let times = self.found.iter().map(|c| c.simulation.makespan);
        self.within * times.fold(f64::INFINITY, f64::min)
    }

    /// Returns the makespan, in seconds, below which a plan is kept.
    fn to_beat(&self, alternative: usize, algorithm: Algorithm) -> f64 {
        let rival = self.rival(alternative, algorithm);
        let of_family = rival.map_or(f64::INFINITY, |k| self.found[k].simulation.makespan);
        clearly_less(of_family.min(self.kept()))
    }

    fn attempt(&mut self, bound: LowerBound, traits: Traits, schedule: Schedule) -> Result<()> {
        let Traits { alternative, algorithm, .. } = traits;
        let limit = self.to_beat(alternative, algorithm);
        let sessions = &self.alternatives[alternative];
        let actions = schedule.accesses()?.saturating_add(schedule.forward_steps() / 8);
        let records = sessions.iter().map(|tiers| tiers.storage.cut as u64).sum();
        self.last_work = actions.saturating_mul(records);
        self.work = self.work.saturating_add(self.last_work);
        let evaluated = match evaluate(schedule, alternative, sessions, limit) {
            // A plan for which there is no memory now cannot be played either.
            Err(error) if error.code == Code::Memory => {
                self.too_long = Some(error);
                return Ok(());
            }
            evaluated => evaluated?,
        };
        let makespan = match &evaluated {
            Ok(candidate) => candidate.simulation.makespan,
            Err(about) => *about,
        };
        let gaps = if makespan.is_finite() { bound.gaps(makespan) } else { 0.0 };
        fallible_vec::push(&mut self.tried, Tried { traits, gaps })?;
        evaluated.into_iter().for_each(|candidate| self.keep_better(candidate));
        Ok(())
    }

    /// Keeps a plan, unless one of its family that was found is at least as good, and drops the plans that
    /// take too long beside it.
    fn keep_better(&mut self, new: Candidate) {
        match self.rival(new.alternative, new.schedule.algorithm) {
            Some(k) if self.found[k].simulation.makespan <= new.simulation.makespan => {}
            Some(k) => self.found[k] = new,
            None => self.found.push(new),
        }
        let most = self.kept();
        self.found.retain(|c| c.simulation.makespan <= most);
    }
}

/// Returns the schedule for the reverse sweeps of the sessions, which are as many for each of them.
fn in_sweeps(schedule: Schedule, sessions: &[TierSpec]) -> Result<Schedule> {
    schedule.in_sweeps(sessions.first().map_or(1, |tiers| tiers.sweeps))
}

/// Plans and simulates a schedule for all sessions, which store snapshots by option number `alternative`.
/// Returns an estimate of the seconds if a plan does not suit or fit its tiers, or takes `limit` or longer.
pub(super) fn evaluate(
    schedule: Schedule,
    alternative: usize,
    sessions: &[TierSpec],
    limit: f64,
) -> Result<std::result::Result<Candidate, f64>> {
    let Ok(schedule) = in_sweeps(schedule, sessions) else { return Ok(Err(limit)) };
    if !sessions.iter().all(|tiers| tiers.suits(&schedule)) {
        return Ok(Err(limit));
    }
    let index = Index::new(&schedule)?;
    let mut plans: Vec<Arc<Plan>> = Vec::new();
    let mut slowest = Simulation::default();
    for tiers in sessions {
        let plan = tiers.plan_of(Some(&index), schedule.snapshots, &plans)?;
        if tiers.check(&plan).is_err() {
            return Ok(Err(limit));
        }
        let stream = stream(&schedule, tiers, Kinds::of(&plan, &index))?;
        let limit = Limit { makespan: limit, stream };
        let indexed = (&schedule, Some(&index));
        match simulate_within(indexed, &plan, &tiers.costs, tiers.budgets, limit)? {
            Ok(simulation) if simulation.makespan >= slowest.makespan => slowest = simulation,
            Ok(_) => {}
            Err(slower) => return Ok(Err(slower)),
        }
        plans.push(plan);
    }
    Ok(Ok(Candidate { alternative, schedule, plans, simulation: slowest }))
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
