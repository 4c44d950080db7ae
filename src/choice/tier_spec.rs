//! The tiers of one session: slots, budgets, bytes and costs.

use crate::codec::{Method, Settings};
use crate::config::{Backend, Config};
use crate::error::{fail, Result};
use crate::layout::Levels;
use crate::plan::{Index, Plan, Policy, SPARE_SLOTS};
use crate::predict::{Budgets, CodecProfile, Costs, Profile};
use crate::schedule::Schedule;
use std::sync::Arc;

/// What one session offers: the bytes of its snapshots, where they may be, and what it costs to
/// move them.
#[derive(Clone, Debug)]
pub struct TierSpec {
    /// Bytes of one snapshot.
    pub slot_bytes: u64,
    /// Slots of the device cache; `None`: as many as there are snapshots.
    pub cache: Option<u32>,
    /// Slots of the host pool; `None`: as many as the plan needs.
    pub host: Option<u32>,
    /// The replacement policy.
    pub policy: Policy,
    /// The application works in the slots.
    pub zero_copy: bool,
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

/// What a plan with shared time levels must fit: a slot has a state's own fields, a place those of
/// the previous level that are not shared.
#[derive(Clone, Debug, PartialEq)]
pub struct Shared {
    /// Bytes of a place.
    pub previous_bytes: u64,
    /// Bytes of the device cache and of the host pool, where they are limited.
    pub device: Option<u64>,
    /// The same of the pool.
    pub host: Option<u64>,
}

/// Places that slots leave room for: of the state at rest, and of the first one that is evicted or
/// fetched.
const LEAST_PLACES: u64 = 2;

impl TierSpec {
    /// Tiers that fill `budgets` with snapshots of `state_bytes` bytes, raw or through a codec,
    /// under the clairvoyant policy.
    pub fn filling(
        budgets: Budgets,
        profile: &Profile,
        state_bytes: u64,
        codec: Option<&CodecProfile>,
    ) -> Self {
        let costs = Costs::new(profile, state_bytes, codec);
        let slot_bytes = costs.slot_bytes;
        let cache = u32::try_from(budgets.device / slot_bytes.max(1)).unwrap_or(u32::MAX - 1);
        let host = Some(budgets.slots_outside(slot_bytes));
        let (policy, zero_copy, room, aside) = (Policy::Clairvoyant, false, None, 0);
        TierSpec {
            slot_bytes,
            cache: Some(cache),
            host,
            policy,
            zero_copy,
            room,
            aside,
            costs,
            budgets,
            shared: None,
        }
    }

    /// The same with raw snapshots that share time levels: of a state `previous_bytes` bytes are
    /// the previous level of its other fields.
    pub fn filling_shared(
        budgets: Budgets,
        profile: &Profile,
        state_bytes: u64,
        previous_bytes: u64,
    ) -> Self {
        let own_bytes = state_bytes.saturating_sub(previous_bytes).max(1);
        let least = LEAST_PLACES.saturating_mul(previous_bytes);
        let left = |budget: u64| budget.saturating_sub(least);
        let within = Budgets { device: left(budgets.device), host: left(budgets.host), disk: 0 };
        let filled = Self::filling(within, profile, own_bytes, None);
        let mut costs = Costs { slot_bytes: own_bytes, ..Costs::new(profile, state_bytes, None) };
        costs.download *= own_bytes as f64 / state_bytes.max(1) as f64;
        let shared =
            Some(Shared { previous_bytes, device: Some(budgets.device), host: Some(budgets.host) });
        TierSpec { slot_bytes: own_bytes, costs, budgets: Budgets::NONE, shared, ..filled }
    }

    /// The tiers of a session that is configured by `config` and whose snapshots have `slot_bytes`
    /// bytes, `raw` before compression.
    ///
    /// The device cache has `cache_capacity` slots, or what `device_budget` holds, at most
    /// `cache_capacity` if that is set; for `auto` with nothing set, it has room for all
    /// snapshots. The host pool has what `host_budget` holds; without one, what the plan needs, or
    /// nothing if only a device budget decides the snapshots. An application that works in the
    /// slots needs two of the budget beside the cache, for states that have no slot.
    pub fn new(config: &Config, slot_bytes: u64, raw: u64) -> Self {
        let spare = if config.zero_copy { SPARE_SLOTS as u64 } else { 0 }.saturating_mul(raw);
        Self::stored(config, &config.compression, slot_bytes, raw, spare)
    }

    /// The same with snapshots that are compressed like this, and so many bytes of the device
    /// budget for other things than the cache.
    pub fn stored(
        config: &Config,
        compression: &Settings,
        slot_bytes: u64,
        raw: u64,
        aside: u64,
    ) -> Self {
        let slots = |budget: u64| u32::try_from(budget / slot_bytes.max(1)).unwrap_or(u32::MAX - 1);
        let cache = match (config.device_budget, config.cache) {
            (0, 0) if config.algorithm.is_none() && config.host_budget == 0 => None,
            (0, cache) => Some(cache),
            (budget, 0) => Some(slots(budget.saturating_sub(aside))),
            (budget, most) => Some(slots(budget.saturating_sub(aside)).min(most)),
        };
        let host = match config.host_budget {
            0 if config.device_budget > 0 && config.snapshots == 0 && !config.adjust_snapshots => {
                Some(0)
            }
            0 => None,
            budget => Some(slots(budget)),
        };
        let costs = costs(config, compression, slot_bytes, raw);
        let (policy, zero_copy, budgets) = (config.policy, config.zero_copy, Budgets::NONE);
        TierSpec {
            slot_bytes,
            cache,
            host,
            policy,
            zero_copy,
            room: None,
            aside,
            costs,
            budgets,
            shared: None,
        }
    }

    /// The same with raw snapshots that share time levels.
    pub fn sharing(config: &Config, levels: &Levels, raw: u64) -> Self {
        let least = LEAST_PLACES.saturating_mul(levels.previous_bytes);
        let left = |budget: u64, aside: u64| {
            if budget == 0 {
                0
            } else {
                budget.saturating_sub(aside).max(1)
            }
        };
        let slots = left(config.device_budget, Levels::WORK_BYTES);
        let within = Config {
            device_budget: left(slots, least),
            host_budget: left(config.host_budget, least),
            ..config.clone()
        };
        let mut sizes =
            Self::stored(&within, &config.compression.with(Method::None), levels.own_bytes, raw, 0);
        // Consecutive snapshots go to the host without their past.
        sizes.costs.download *= levels.own_bytes as f64 / raw.max(1) as f64;
        let limit = |budget: u64| Some(budget).filter(|&budget| budget > 0);
        let (device, host) = (limit(slots), limit(config.host_budget));
        sizes.aside = if config.backend == Backend::Cuda { Levels::WORK_BYTES } else { 0 };
        sizes.shared = Some(Shared { previous_bytes: levels.previous_bytes, device, host });
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
    pub(super) fn plan_of(
        &self,
        index: &Index,
        snapshots: u32,
        plans: &[Arc<Plan>],
    ) -> Result<Arc<Plan>> {
        match plans.iter().find(|plan| self.is_of(plan, snapshots)) {
            Some(plan) => Ok(plan.clone()),
            None => Ok(Arc::new(self.plan(index, snapshots)?)),
        }
    }

    fn plan(&self, index: &Index, snapshots: u32) -> Result<Plan> {
        let cache = self.cache.unwrap_or(snapshots);
        if self.zero_copy {
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
            && plan.zero_copy == self.zero_copy
            && plan.shares.is_some() == self.shared.is_some()
    }

    /// The plan for these sizes: one of `plans`, or a new one.
    pub fn plan_for(&self, schedule: &Schedule, plans: &[Arc<Plan>]) -> Result<Arc<Plan>> {
        match plans.iter().find(|plan| self.is_of(plan, schedule.snapshots)) {
            Some(plan) => Ok(plan.clone()),
            None => Ok(Arc::new(self.plan(&Index::new(schedule)?, schedule.snapshots)?)),
        }
    }

    pub(super) fn admits(&self, plan: &Plan) -> bool {
        let (device, host) = self.bytes_of(plan);
        let within = |limit: fn(&Shared) -> Option<u64>, bytes: u64| {
            self.shared.as_ref().and_then(limit).is_none_or(|most| bytes <= most)
        };
        self.host.is_none_or(|slots| plan.host_slots <= slots)
            && within(|s| s.device, device)
            && within(|s| s.host, host)
    }

    /// Bytes of the cache and of the pool that a plan needs.
    pub fn bytes_of(&self, plan: &Plan) -> (u64, u64) {
        let past = self.shared.as_ref().map_or(0, |shared| shared.previous_bytes);
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
        number => Some(
            profile
                .codec(compression)
                .cloned()
                .unwrap_or_else(|| CodecProfile::typical(number, ratio, host)),
        ),
    };
    Costs { slot_bytes, ..Costs::new(&profile, raw, codec.as_ref()) }
}
