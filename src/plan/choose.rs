//! From a configuration to a schedule and its plans.

use super::search::{search, Keep};
use super::{simulate, Budgets, CodecProfile, Costs, Index, Plan, Policy, Profile};
use crate::codec::{Method, Settings};
use crate::config::{Backend, Config};
use crate::error::{fail, Code, Result};
use crate::schedule::{adjust, Algorithm, Schedule, Trace};
use crate::snapshot::Levels;
use std::sync::Arc;

/// Slots beside the cache for an application that works in the slots: for the state of an event without a slot, and the one before it.
pub const SPARE_SLOTS: u32 = 2;

/// What one session offers: the bytes of its snapshots, where they may be, and what it costs to move them.
#[derive(Clone, Debug)]
pub struct Sizes {
    /// Bytes of one snapshot.
    pub slot_bytes: u64,
    /// Slots of the device cache; `None`: as many as there are snapshots.
    pub cache: Option<u32>,
    /// Slots of the host pool; `None`: as many as the plan needs.
    pub host: Option<u32>,
    /// The replacement policy.
    pub policy: Policy,
    /// The application works in the slots.
    pub hands_over: bool,
    /// Bytes of the device cache, if they do not depend on the slots.
    pub room: Option<u64>,
    /// Bytes of device memory for other things, of the budget, too.
    pub aside: u64,
    /// What steps, copies and transfers cost.
    pub costs: Costs,
    /// The tiers in bytes, where they are limited.
    pub budgets: Budgets,
    /// Snapshots share time levels.
    pub shared: Option<Shared>,
}

/// What a plan with shared time levels must fit: a slot has a state's own fields, a place those of the previous level that are not shared.
#[derive(Clone, Debug, PartialEq)]
pub struct Shared {
    /// Bytes of a place.
    pub past_bytes: u64,
    /// Bytes of the device cache and of the host pool, where they are limited.
    pub device: Option<u64>,
    /// The same of the pool.
    pub host: Option<u64>,
}

/// Places that slots leave room for: of the state at rest, and of the first one that is evicted or fetched.
const LEAST_PLACES: u64 = 2;

impl Sizes {
    /// Tiers that fill `budgets` with snapshots of `state_bytes` bytes, raw or through a codec, under the clairvoyant policy.
    pub fn filling(budgets: Budgets, profile: &Profile, state_bytes: u64, codec: Option<&CodecProfile>) -> Self {
        let costs = Costs::new(profile, state_bytes, codec);
        let slot_bytes = costs.slot_bytes;
        let cache = u32::try_from(budgets.device / slot_bytes.max(1)).unwrap_or(u32::MAX - 1);
        let host = Some(budgets.slots_outside(slot_bytes));
        let (policy, hands_over, room, aside) = (Policy::Clairvoyant, false, None, 0);
        Sizes { slot_bytes, cache: Some(cache), host, policy, hands_over, room, aside, costs, budgets, shared: None }
    }

    /// The same with raw snapshots that share time levels: of a state `past_bytes` bytes are the previous level of its other fields.
    pub fn filling_shared(budgets: Budgets, profile: &Profile, state_bytes: u64, past_bytes: u64) -> Self {
        let own_bytes = state_bytes.saturating_sub(past_bytes).max(1);
        let least = LEAST_PLACES.saturating_mul(past_bytes);
        let left = |budget: u64| budget.saturating_sub(least);
        let within = Budgets { device: left(budgets.device), host: left(budgets.host), disk: 0 };
        let filled = Self::filling(within, profile, own_bytes, None);
        let mut costs = Costs { slot_bytes: own_bytes, ..Costs::new(profile, state_bytes, None) };
        costs.download *= own_bytes as f64 / state_bytes.max(1) as f64;
        let shared = Some(Shared { past_bytes, device: Some(budgets.device), host: Some(budgets.host) });
        Sizes { slot_bytes: own_bytes, costs, budgets: Budgets::NONE, shared, ..filled }
    }

    /// The tiers of a session that is configured by `config` and whose snapshots have `slot_bytes` bytes, `raw` before compression.
    ///
    /// The device cache has `cache_capacity` slots, or what `device_budget` holds, at most `cache_capacity` if that is set; for `auto`
    /// with nothing set, it has room for all snapshots. The host pool has what `host_budget` holds; without one, what the plan needs, or
    /// nothing if only a device budget decides the snapshots. An application that works in the slots needs two of the budget beside the
    /// cache, for states that have no slot.
    pub fn new(config: &Config, slot_bytes: u64, raw: u64) -> Self {
        let spare = if config.zero_copy { SPARE_SLOTS as u64 } else { 0 }.saturating_mul(raw);
        Self::stored(config, &config.compression, slot_bytes, raw, spare)
    }

    /// The same with snapshots that are compressed like this, and so many bytes of the device budget for other things than the cache.
    pub fn stored(config: &Config, compression: &Settings, slot_bytes: u64, raw: u64, aside: u64) -> Self {
        let slots = |budget: u64| u32::try_from(budget / slot_bytes.max(1)).unwrap_or(u32::MAX - 1);
        let cache = match (config.device_budget, config.cache) {
            (0, 0) if config.algorithm.is_none() && config.host_budget == 0 => None,
            (0, cache) => Some(cache),
            (budget, 0) => Some(slots(budget.saturating_sub(aside))),
            (budget, most) => Some(slots(budget.saturating_sub(aside)).min(most)),
        };
        let host = match config.host_budget {
            0 if config.device_budget > 0 && config.snapshots == 0 && !config.adjust_snapshots => Some(0),
            0 => None,
            budget => Some(slots(budget)),
        };
        let costs = costs(config, compression, slot_bytes, raw);
        let (policy, hands_over, budgets) = (config.policy, config.zero_copy, Budgets::NONE);
        Sizes { slot_bytes, cache, host, policy, hands_over, room: None, aside, costs, budgets, shared: None }
    }

    /// The same with raw snapshots that share time levels.
    pub fn sharing(config: &Config, levels: &Levels, raw: u64) -> Self {
        let least = LEAST_PLACES.saturating_mul(levels.past_bytes);
        let left = |budget: u64, aside: u64| if budget == 0 { 0 } else { budget.saturating_sub(aside).max(1) };
        let slots = left(config.device_budget, Levels::WORK_BYTES);
        let within = Config { device_budget: left(slots, least), host_budget: left(config.host_budget, least), ..config.clone() };
        let mut sizes = Self::stored(&within, &config.compression.with(Method::None), levels.own_bytes, raw, 0);
        // Consecutive snapshots go to the host without their past.
        sizes.costs.download *= levels.own_bytes as f64 / raw.max(1) as f64;
        let limit = |budget: u64| Some(budget).filter(|&budget| budget > 0);
        let (device, host) = (limit(slots), limit(config.host_budget));
        sizes.aside = if config.backend == Backend::Cuda { Levels::WORK_BYTES } else { 0 };
        sizes.shared = Some(Shared { past_bytes: levels.past_bytes, device, host });
        sizes
    }

    /// Bytes of device memory that a plan takes.
    pub fn device_bytes(&self, plan: &Plan) -> u64 {
        self.cache_bytes(plan).saturating_add(self.aside)
    }

    /// Bytes of the device cache of a plan.
    pub fn cache_bytes(&self, plan: &Plan) -> u64 {
        self.room.unwrap_or(self.bytes_of(plan).0)
    }

    /// Most snapshots that the tiers hold, if that is less than `most`.
    pub(super) fn capacity(&self, most: u32) -> u32 {
        let cache = self.cache.unwrap_or(most);
        match self.host {
            // With the published policy every snapshot has a place on the host.
            Some(host) if self.policy == Policy::Lru && cache > 0 => host.min(most),
            Some(host) => host.saturating_add(cache).min(most),
            None => most,
        }
    }

    /// The plan of an indexed schedule for these sizes: one of `plans`, or a new one.
    pub(super) fn plan_of(&self, index: &Index, snapshots: u32, plans: &[Arc<Plan>]) -> Result<Arc<Plan>> {
        match plans.iter().find(|plan| self.is_of(plan, snapshots)) {
            Some(plan) => Ok(plan.clone()),
            None => Ok(Arc::new(self.plan(index, snapshots)?)),
        }
    }

    fn plan(&self, index: &Index, snapshots: u32) -> Result<Plan> {
        let cache = self.cache.unwrap_or(snapshots);
        if self.hands_over {
            return Plan::handing_over(index, cache);
        }
        if self.shared.is_some() {
            return Plan::sharing(index, cache);
        }
        Plan::of(index, cache, self.policy)
    }

    /// Whether a plan is the one that these sizes ask for.
    fn is_of(&self, plan: &Plan, snapshots: u32) -> bool {
        plan.cache == self.cache.unwrap_or(snapshots)
            && plan.policy == self.policy
            && plan.hands_over == self.hands_over
            && plan.shares.is_some() == self.shared.is_some()
    }

    /// The plan for these sizes: one of `plans`, or a new one.
    pub fn plan_for(&self, schedule: &Schedule, plans: &[Arc<Plan>]) -> Result<Arc<Plan>> {
        match plans.iter().find(|plan| self.is_of(plan, schedule.snapshots)) {
            Some(plan) => Ok(plan.clone()),
            None => Ok(Arc::new(self.plan(&Index::new(schedule)?, schedule.snapshots)?)),
        }
    }

    fn admits(&self, plan: &Plan) -> bool {
        let (device, host) = self.bytes_of(plan);
        let within = |limit: fn(&Shared) -> Option<u64>, bytes: u64| self.shared.as_ref().and_then(limit).is_none_or(|most| bytes <= most);
        self.host.is_none_or(|slots| plan.host_slots <= slots) && within(|s| s.device, device) && within(|s| s.host, host)
    }

    /// Bytes of the cache and of the pool that a plan needs.
    pub fn bytes_of(&self, plan: &Plan) -> (u64, u64) {
        let past = self.shared.as_ref().map_or(0, |shared| shared.past_bytes);
        let bytes = |slots: u32, places: u32| {
            let places = u64::from(places).saturating_mul(past);
            u64::from(slots).saturating_mul(self.slot_bytes).saturating_add(places)
        };
        let (device, host) = plan.places();
        (bytes(plan.device_slots, device), bytes(plan.host_slots, host))
    }

    /// An error that says what the plan needs, if it does not fit.
    pub fn check(&self, plan: &Plan) -> Result<()> {
        if self.admits(plan) {
            return Ok(());
        }
        let (device, host) = self.bytes_of(plan);
        if self.host.is_none_or(|slots| plan.host_slots <= slots) {
            return fail!(
                Budget,
                "with shared_levels = 1 the plan needs {device} bytes of the device and {host} of the host: raise the budgets"
            );
        }
        fail!(
            Budget,
            "the plan stores {} snapshots of {} bytes in host memory, and host_budget holds {}: raise host_budget to {} bytes or the device \
             cache, or lower checkpointing_snaps",
            plan.host_slots,
            self.slot_bytes,
            self.host.unwrap_or(0),
            (plan.host_slots as u64).saturating_mul(self.slot_bytes)
        )
    }
}

/// What a configuration's snapshots cost: by its profile, or by what is assumed where it has none.
fn costs(config: &Config, compression: &Settings, slot_bytes: u64, raw: u64) -> Costs {
    let host = config.backend == Backend::Host;
    let profile = config.profile.clone().unwrap_or_else(|| match host {
        true => Profile::typical_host(raw, config.link_bandwidth),
        false => Profile::typical_gpu(raw),
    });
    let ratio = raw as f64 / slot_bytes.max(1) as f64;
    let codec = match i32::from(compression.method.number()) {
        0 => None,
        number => Some(profile.codec(compression).cloned().unwrap_or_else(|| CodecProfile::typical(number, ratio, host))),
    };
    Costs { slot_bytes, ..Costs::new(&profile, raw, codec.as_ref()) }
}

/// A schedule and, for each session, its plan.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Which of the alternatives it is for.
    pub alternative: usize,
    /// The schedule.
    pub schedule: Schedule,
    /// One plan per session, in their order.
    pub plans: Vec<Arc<Plan>>,
}

/// Decides schedule and plans for `steps` time steps and the given sessions, each of which offers alternatives, a codec for one; one that
/// offers fewer than others has its last one instead of those that it lacks.
///
/// The number of snapshots is the configured one; or GPUZIP's `adjust`; or the most for which every plan fits the host budget; or,
/// without budgets, `adjust` for Revolve and what the chunks need for zCut. `auto` is the quickest schedule that a [`search`] finds among
/// those that fit the snapshots and budgets; with neither it is Revolve. Of alternatives the one is taken that is predicted to be quickest.
pub fn choose_among(config: &Config, steps: u32, sessions: &[Vec<Sizes>]) -> Result<Choice> {
    let count = sessions.iter().map(Vec::len).max().unwrap_or(1);
    let of = |k: usize| sessions.iter().filter_map(|offers| offers.get(k).or(offers.last()).cloned()).collect();
    let alternatives: Vec<Vec<Sizes>> = (0..count).map(of).collect();
    if let Some(choice) = searched(config, steps, &alternatives)? {
        return Ok(choice);
    }
    if let [sessions] = &alternatives[..] {
        return choose_by_rule(config, steps, sessions);
    }
    quickest(config, steps, &alternatives)
}

/// The same for sessions with nothing to choose from but schedules.
pub fn choose(config: &Config, steps: u32, sessions: &[Sizes]) -> Result<Choice> {
    let sessions: Vec<Vec<Sizes>> = sessions.iter().map(|sizes| vec![sizes.clone()]).collect();
    choose_among(config, steps, &sessions)
}

/// The alternative whose plan by the rules is predicted to be quickest.
fn quickest(config: &Config, steps: u32, alternatives: &[Vec<Sizes>]) -> Result<Choice> {
    let (mut best, mut least, mut failure) = (None, f64::INFINITY, None);
    for (alternative, sessions) in alternatives.iter().enumerate() {
        let choice = match choose_by_rule(config, steps, sessions) {
            Ok(choice) => choice,
            Err(error) if error.code == Code::Budget => {
                failure = Some(error);
                continue;
            }
            Err(error) => return Err(error),
        };
        let mut slowest = 0.0f64;
        for (sizes, plan) in sessions.iter().zip(&choice.plans) {
            sizes.costs.check(steps)?;
            slowest = slowest.max(simulate(&choice.schedule, plan, &sizes.costs, sizes.budgets)?.makespan);
        }
        if slowest < least {
            (best, least) = (Some(Choice { alternative, ..choice }), slowest);
        }
    }
    match (best, failure) {
        (Some(best), _) => Ok(best),
        (None, Some(error)) => Err(error),
        (None, None) => fail!(Config, "there is no way to store snapshots to choose from"),
    }
}

/// The choice where parameters decide, not predictions.
fn choose_by_rule(config: &Config, steps: u32, sessions: &[Sizes]) -> Result<Choice> {
    if config.algorithm == Some(Algorithm::Trace) {
        let Some(path) = &config.trace_file else {
            return fail!(Config, "checkpointing_algorithm = 0 (trace) needs trace_file_path");
        };
        let schedule = Schedule::trace(Arc::new(Trace::load(path, Some(steps))?));
        return finish(schedule, sessions);
    }
    let all = steps.saturating_sub(1).max(1);
    let snapshots = match config.snapshots {
        _ if config.adjust_snapshots => adjust(steps as u64).min(all),
        0 => match most_that_fits(config, steps, sessions)? {
            Some(choice) => return Ok(choice),
            None => default_snapshots(config, steps)?,
        },
        set => set,
    };
    finish(make(config, steps, snapshots, inner_slots(sessions))?, sessions)
}

/// The quickest schedule, if that is to be found and something limits its snapshots.
fn searched(config: &Config, steps: u32, alternatives: &[Vec<Sizes>]) -> Result<Option<Choice>> {
    let sessions = alternatives.first().map_or(&[][..], Vec::as_slice);
    let limited = config.snapshots > 0 || config.adjust_snapshots || sessions.iter().any(|sizes| sizes.host.is_some());
    if config.algorithm.is_some() || sessions.is_empty() || !limited {
        return Ok(None);
    }
    let most = match config.snapshots {
        _ if config.adjust_snapshots => adjust(steps as u64),
        0 => u32::MAX,
        set => set,
    };
    let best = search(steps, most, alternatives, Keep::Best)?;
    Ok(best.into_iter().next().map(|best| Choice { alternative: best.alternative, schedule: best.schedule, plans: best.plans }))
}

/// Slots inside a two-level interval: those of the smallest device cache; 0, all that are left, if there is none.
fn inner_slots(sessions: &[Sizes]) -> u32 {
    sessions.iter().filter_map(|s| s.cache).min().unwrap_or(0)
}

fn make(config: &Config, steps: u32, snapshots: u32, inner: u32) -> Result<Schedule> {
    let all = steps.saturating_sub(1).max(1);
    match config.algorithm {
        None if snapshots >= all => Schedule::store_all(steps),
        None | Some(Algorithm::Revolve) => Schedule::revolve(steps, snapshots),
        Some(Algorithm::StoreAll) => Schedule::store_all(steps),
        Some(Algorithm::Uniform) if config.uniform_published => Schedule::uniform_published(steps, snapshots),
        Some(Algorithm::Uniform) => Schedule::uniform(steps, snapshots),
        Some(Algorithm::Zcut) => Schedule::zcut(steps, snapshots, config.chunk),
        Some(Algorithm::TwoLevel) => Schedule::two_level(steps, snapshots, config.chunk, inner),
        Some(Algorithm::Trace) => fail!(Config, "a trace has no parameters"),
    }
}

fn default_snapshots(config: &Config, steps: u32) -> Result<u32> {
    match config.algorithm {
        None | Some(Algorithm::Revolve) => Ok(adjust(steps as u64)),
        Some(Algorithm::Zcut | Algorithm::StoreAll | Algorithm::Trace) => Ok(0),
        Some(algorithm @ (Algorithm::Uniform | Algorithm::TwoLevel)) => {
            fail!(Config, "checkpointing_snaps = 0: {} needs the number of snapshots, or a device_budget or host_budget", algorithm.name())
        }
    }
}

/// Plans for a schedule that others have chosen: with the alternative that `first` was decided for, if the schedule fits the budgets with it, or
/// else with the first one of those that do.
pub fn choose_schedule(schedule: Schedule, sessions: &[Vec<Sizes>], first: usize) -> Result<Choice> {
    let count = sessions.iter().map(Vec::len).max().unwrap_or(1);
    let mut failure = None;
    for k in [first].into_iter().chain((0..count).filter(|&k| k != first)) {
        let sessions: Vec<Sizes> = sessions.iter().filter_map(|offers| offers.get(k).or(offers.last()).cloned()).collect();
        match finish(schedule.clone(), &sessions) {
            Ok(choice) => return Ok(Choice { alternative: k, ..choice }),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    match failure {
        Some(error) => Err(error),
        None => fail!(Config, "there is no way to store snapshots to choose from"),
    }
}

fn finish(schedule: Schedule, sessions: &[Sizes]) -> Result<Choice> {
    let choice = plan_all(schedule, sessions)?;
    for (sizes, plan) in sessions.iter().zip(&choice.plans) {
        sizes.check(plan)?;
    }
    Ok(choice)
}

/// Plans a schedule for every session; sessions with the same cache share a plan.
fn plan_all(schedule: Schedule, sessions: &[Sizes]) -> Result<Choice> {
    let mut plans: Vec<Arc<Plan>> = Vec::new();
    if !sessions.is_empty() {
        let index = Index::new(&schedule)?;
        for sizes in sessions {
            plans.push(sizes.plan_of(&index, schedule.snapshots, &plans)?);
        }
    }
    Ok(Choice { alternative: 0, schedule, plans })
}

/// The schedule with the most snapshots whose plans fit the host budgets; `None` if no session has a budget.
///
/// S snapshots on C device slots and H host slots always fit for S <= H, and never for S > H + C.
fn most_that_fits(config: &Config, steps: u32, sessions: &[Sizes]) -> Result<Option<Choice>> {
    let bounds = sessions.iter().filter_map(|s| s.host.map(|host| (host, host.saturating_add(s.cache.unwrap_or(0)))));
    let Some((low, high)) = bounds.reduce(|a, b| (a.0.min(b.0), a.1.min(b.1))) else {
        return Ok(None);
    };
    let all = steps.saturating_sub(1).max(1);
    let (mut low, mut high) = (low.min(all), high.min(all));
    let attempt = |snapshots: u32| -> Result<Option<Choice>> {
        if snapshots == 0 {
            return Ok(None);
        }
        let choice = plan_all(make(config, steps, snapshots, inner_slots(sessions))?, sessions)?;
        let fits = sessions.iter().zip(&choice.plans).all(|(sizes, plan)| sizes.admits(plan));
        Ok(fits.then_some(choice))
    };
    let mut best = attempt(high)?;
    if best.is_none() {
        best = attempt(low)?;
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            match attempt(middle)? {
                Some(choice) => (low, best) = (middle, Some(choice)),
                None => high = middle,
            }
        }
    }
    if let Some(choice) = best {
        return Ok(Some(choice));
    }
    let one = sessions.iter().map(|s| s.slot_bytes).max().unwrap_or(0);
    if config.algorithm == Some(Algorithm::StoreAll) {
        return fail!(
            Budget,
            "store-all keeps {all} states of {one} bytes, {} bytes in all, and the budgets hold fewer: raise device_budget and host_budget to that \
             together, or use checkpointing_algorithm = 4 (auto), which keeps as many states as fit",
            u64::from(all).saturating_mul(one)
        );
    }
    fail!(Budget, "no schedule fits the budgets: one snapshot has {one} bytes; raise device_budget or host_budget to at least that")
}

#[cfg(test)]
#[path = "choose_tests.rs"]
mod tests;
