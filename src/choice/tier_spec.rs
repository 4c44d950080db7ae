//! The specification of a session's tiers: slots, budgets, bytes and costs.

use super::job::{slots_of, Job};
use super::storage::{Coded, Cut, Storage, LEAST_RAW};
use crate::device::DiskSpace;
use crate::error::{fail, Result};
use crate::layout::ALIGNMENT;
use crate::plan::{spare_bytes, Claims, Index, Plan, Policy};
use crate::predict::{Budgets, Costs};
use crate::schedule::{Algorithm, MacroSteps, Schedule};
use crate::tier::buffers_for;
use std::sync::Arc;

/// A storage option of one session: how snapshots are stored, the bytes of a snapshot, the capacity of
/// each tier, and the costs of moving snapshots.
#[derive(Clone, Debug)]
pub struct TierSpec {
    /// How snapshots are stored. A slot holds one record of a snapshot.
    pub storage: Storage,
    /// Bytes that the plan counts for one snapshot.
    pub slot_bytes: u64,
    /// Slots of the device cache; `None`: one for each snapshot.
    pub cache: Option<u32>,
    /// Mixed storage: this number of the device cache's slots hold raw states, and the others
    /// compressed snapshots of `slot_bytes` bytes, which are the only ones that go to the host.
    /// `None`: all snapshots are stored in the same way.
    pub raw_slots: Option<u32>,
    /// Slots of the host pool, in memory and on disk; `None`: as many as the plan needs.
    pub host: Option<u32>,
    /// Bytes of the device cache, if they are not `slot_bytes` times the slots: for compressed
    /// snapshots.
    pub packed_bytes: Option<u64>,
    /// Bytes of host memory for compressed snapshots, if they are limited.
    pub pool_bytes: Option<u64>,
    /// Bytes of device memory beside the cache; they count in the device budget, or in the one memory of a CPU.
    pub beside_cache: u64,
    /// Bytes of a budget, if there is only one, that are for other things than snapshots of `slot_bytes` bytes.
    pub beside_snapshots: u64,
    /// Seconds of steps, copies, codec calls and transfers.
    pub costs: Costs,
    /// The limits of the tiers in bytes that the simulator must keep.
    pub budgets: Budgets,
    /// The bytes of device memory and of host memory that the tiers are made of; 0: no limit.
    pub memory: (u64, u64),
    /// Number of folders over which snapshots on disk are striped.
    pub folders: usize,
    /// Which states may share a record with the state before.
    pub claims: Claims,
    /// Reverse sweeps of a schedule for these tiers.
    pub sweeps: u32,
}

/// The least number of slots for compressed snapshots with mixed storage: in one a snapshot is read,
/// into one the next snapshot arrives, and from one a snapshot leaves.
const LEAST_CODED: u32 = 3;

impl TierSpec {
    /// Returns the tiers of a job whose snapshots are stored like this.
    ///
    /// The device cache has `cache_capacity` slots, or the slots that `device_budget` holds, at
    /// most `cache_capacity` if that is set; for `auto` with nothing set, it has a slot for each
    /// snapshot. Compressed snapshots get all of the device budget, but at most the bytes that
    /// `cache_capacity` snapshots can take. The host pool has the slots that `host_budget` holds.
    /// Without `host_budget` it has what the plan needs, or nothing if only a device budget decides
    /// the number of snapshots. The spare slots of an application that works in the slots, and the
    /// work space of kernels, are part of the device budget, or of the one memory of a CPU.
    pub fn of(storage: &Storage, job: &Job) -> Result<Self> {
        if let Coded::ByLanes(raw) = storage.coded {
            return Self::by_lanes(storage, job, raw);
        }
        let (beside_cache, slot_bytes) = (storage.beside_cache(job)?, storage.slot_bytes(job)?);
        if (1..beside_cache).contains(&job.device_budget) {
            return fail!(
                Budget,
                "device_budget = {}: {beside_cache} bytes are for other things than snapshots: raise device_budget to at least {} bytes",
                job.device_budget,
                beside_cache.saturating_add(slot_bytes * storage.cut as u64)
            );
        }
        let left = job.device_budget.saturating_sub(beside_cache);
        let is_limited = job.device_budget > 0;
        let held = if is_limited { slots_of(left, slot_bytes) } else { u32::MAX };
        let cap = job.state.most_coded_bytes().saturating_mul(job.config.tiers.cache.into());
        let most_bytes = if cap > 0 { left.min(cap) } else { left };
        let is_packed = storage.coded != Coded::None && left > 0;
        let folders = job.config.tiers.disk_folders.len().max(1);
        let beside_snapshots = if is_limited || job.has_one_memory() { beside_cache } else { 0 };
        let host = match job.has_one_memory() {
            true => job.host_budget.saturating_sub(beside_cache),
            false => job.host_budget,
        };
        let schedule = &job.config.schedule;
        let is_of_device =
            job.device_budget > 0 && schedule.snapshots == 0 && !schedule.adjust_snapshots;
        let on_disk = DiskSpace::bytes_of_slot(slot_bytes, folders).max(1);
        // The bytes of the snapshots for which the disk has whole pages.
        let disk = match job.disk_budget {
            u64::MAX => u64::MAX,
            disk => (disk / on_disk).saturating_mul(slot_bytes),
        };
        let outside = Budgets { device: u64::MAX, host, disk };
        let tiers = TierSpec {
            storage: storage.clone(),
            slot_bytes,
            cache: job.most_slots().map(|most| most.saturating_mul(storage.cut as u32).min(held)),
            raw_slots: None,
            host: match job.host_budget {
                0 => is_of_device.then_some(0),
                _ => Some(outside.slots_outside(slot_bytes)),
            },
            packed_bytes: is_packed.then_some(most_bytes / ALIGNMENT * ALIGNMENT),
            // Of a host_budget that is all device memory, nothing is left for the pool.
            pool_bytes: (job.host_budget > 0 || job.config.tiers.host_budget > 0).then_some(host),
            beside_cache,
            beside_snapshots,
            costs: storage.costs(job, slot_bytes),
            budgets: if job.disk_budget == 0 { Budgets::NONE } else { outside },
            memory: (job.device_budget, job.host_budget),
            folders,
            claims: match storage.coded {
                Coded::None => Claims::All,
                _ if job.config.codec.difference_bound => Claims::None,
                _ => Claims::OfStatesNotSteppedFrom,
            },
            sweeps: schedule.sweeps.max(1),
        };
        match storage.coded {
            Coded::Moved(raw) => tiers.mixed(raw),
            _ => Ok(tiers),
        }
    }

    /// Returns the tiers whose snapshots the transfer lanes code: `raw` raw states of a budget that is for
    /// both tiers, or the raw states that the device budget or `cache_capacity` allow, and compressed
    /// snapshots in the rest, of which a few are in staging buffers.
    fn by_lanes(storage: &Storage, job: &Job, raw: u32) -> Result<Self> {
        let slot_bytes = storage.slot_bytes(job)?;
        let (parts, raw_slot) = (storage.cut as u32, storage.costs(job, slot_bytes).raw_slot_bytes);
        let named = job.config.tiers.cache.saturating_mul(parts);
        let (cache, left) = match raw.saturating_mul(parts) {
            0 if job.device_budget > 0 => {
                let held = slots_of(job.device_budget, raw_slot);
                (if named > 0 { held.min(named) } else { held }, job.host_budget)
            }
            0 => (named, job.host_budget),
            raw => {
                let budget = job.device_budget.max(job.host_budget);
                (raw, budget.saturating_sub(u64::from(raw).saturating_mul(raw_slot)))
            }
        };
        // One buffer is the calling thread's.
        let buffers = buffers_for(cache, storage.codec.sequences) + 1;
        let staged = u64::from(buffers).saturating_mul(slot_bytes);
        let is_limited = job.device_budget > 0 || job.host_budget > 0;
        let pool = left.saturating_sub(staged);
        // Beside the state in hand an application that works in the slots has the one before.
        let least = if storage.zero_copy { LEAST_RAW * parts } else { LEAST_RAW };
        if cache < least || is_limited && pool < slot_bytes {
            return fail!(
                Budget,
                "codec_threads = {}: {cache} raw snapshots of {raw_slot} bytes and {left} bytes for compressed ones of {slot_bytes} bytes",
                job.codec_threads()
            );
        }
        // The pool is that of snapshots which the calling thread codes.
        let all = Storage { coded: Coded::All, ..storage.clone() };
        let pool_alone =
            Job { device_budget: 0, host_budget: pool, beside_cache: Some(0), ..job.clone() };
        let of_all = Self::of(&all, &pool_alone)?;
        Ok(TierSpec {
            storage: storage.clone(),
            cache: Some(cache),
            raw_slots: Some(cache),
            packed_bytes: None,
            pool_bytes: is_limited.then_some(pool),
            beside_snapshots: u64::from(raw.saturating_mul(parts))
                .saturating_mul(raw_slot)
                .saturating_add(staged),
            memory: (job.device_budget, job.host_budget),
            costs: storage.costs(job, slot_bytes),
            claims: if parts > 1 { of_all.claims } else { Claims::None },
            ..of_all
        })
    }

    /// Returns `job` with the memory that these tiers are made of.
    pub fn job_of(&self, job: &Job) -> Job {
        let (device_budget, host_budget) = self.memory;
        Job { device_budget, host_budget, ..job.clone() }
    }

    /// Returns the key and the bytes of the budget that these tiers are made of, if it is only one.
    pub(super) fn only_budget(&self) -> Option<(&'static str, u64)> {
        match self.memory {
            (0, host @ 1..) => Some(("host_budget", host)),
            (device @ 1.., 0) => Some(("device_budget", device)),
            _ => None,
        }
    }

    /// Returns the bytes of a budget, if there is only one, that hold one snapshot.
    pub(super) fn least_budget(&self) -> u64 {
        (self.slot_bytes * self.storage.cut as u64).saturating_add(self.beside_snapshots)
    }

    /// Returns the tiers for a schedule whose steps are macro-steps.
    pub fn in_macro_steps(self, macro_steps: MacroSteps) -> Self {
        // Neighbouring states of the schedule are then some time steps apart.
        let claims = if macro_steps.every() > 1 { Claims::None } else { self.claims };
        TierSpec { costs: self.costs.in_macro_steps(macro_steps), claims, ..self }
    }

    /// Returns these tiers for mixed storage with `raw` raw states in the device cache, and compressed snapshots
    /// in the rest of it; 0: raw states take as much as leaves room for [`LEAST_CODED`] compressed snapshots.
    fn mixed(&self, raw: u32) -> Result<Self> {
        let (state, slot) = (self.costs.state_bytes, self.slot_bytes);
        let coded = u64::from(LEAST_CODED).saturating_mul(slot);
        let left = self.packed_bytes.unwrap_or(0).saturating_sub(coded);
        let most = self.cache.unwrap_or(0).saturating_sub(LEAST_CODED);
        let most = slots_of(left, state).min(most);
        match self.with_raw(if raw > 0 { raw.min(most) } else { most }) {
            Some(mixed) => Ok(mixed),
            None => fail!(
                Budget,
                "mixed_storage = 1 needs a device_budget with room for {LEAST_RAW} raw states of {state} bytes and {LEAST_CODED} compressed snapshots, \
                 which are planned with {slot} bytes each: raise device_budget and cache_capacity; tell the ratio by compression_factor or a profile; \
                 or use mixed_storage = 0"
            ),
        }
    }

    /// Returns these tiers of compressed snapshots for mixed storage with `raw` raw states in the device
    /// cache, and compressed snapshots in the rest of it. The number of raw states alone decides which
    /// snapshots of a schedule are compressed. Returns `None` if the tiers do not hold compressed
    /// snapshots under the clairvoyant policy within a budget of device memory, or if there is no room
    /// for [`LEAST_RAW`] raw states and [`LEAST_CODED`] compressed snapshots.
    pub fn with_raw(&self, raw: u32) -> Option<Self> {
        let (state, slot, most) = (self.costs.state_bytes, self.slot_bytes, self.cache?);
        let is_possible = self.costs.compressed
            && self.storage.policy == Policy::Clairvoyant
            && self.storage.cut == Cut::Whole
            && (1..state).contains(&slot);
        if !is_possible {
            return None;
        }
        let left = self.packed_bytes?.saturating_sub(u64::from(raw).saturating_mul(state));
        let coded = slots_of(left, slot).min(most.saturating_sub(raw));
        (raw >= LEAST_RAW && coded >= LEAST_CODED).then(|| TierSpec {
            cache: Some(raw + coded),
            raw_slots: Some(raw),
            ..self.clone()
        })
    }

    /// Returns tiers with a quarter less of the slots that `plan` has on the device.
    pub fn with_fewer_slots(&self, plan: &Plan) -> Self {
        let fewer = |slots: u32| slots - slots.div_ceil(4);
        let used = self.raw_slots.map(|raw| raw.min(plan.device_slots));
        let raw = used.map(fewer);
        let cache = raw.unwrap_or(0) + fewer(plan.device_slots - used.unwrap_or(0));
        TierSpec { cache: Some(cache), raw_slots: raw, packed_bytes: None, ..self.clone() }
    }

    /// Returns the snapshots inside an interval for which the device cache has room; `None`: for all.
    pub fn inner_slots(&self) -> Option<u32> {
        self.raw_slots.or(self.cache).map(|slots| slots / self.storage.cut as u32)
    }

    /// Returns the bytes of device memory that a plan takes.
    pub fn device_bytes(&self, plan: &Plan) -> u64 {
        // Tiers without a limit have counted no spare slots; a plan of one slot needs them.
        self.cache_bytes(plan).saturating_add(self.beside_cache.max(self.spare_bytes(plan)))
    }

    /// Returns the bytes of the spare slots of a plan.
    pub fn spare_bytes(&self, plan: &Plan) -> u64 {
        let Storage { cut, zero_copy, .. } = self.storage;
        let beside = self.storage.works_beside_slots() || plan.drops;
        spare_bytes(zero_copy, beside, cut as u32, plan.cache, self.costs.state_bytes)
    }

    /// Returns the bytes of the device cache of a plan.
    pub fn cache_bytes(&self, plan: &Plan) -> u64 {
        self.packed_bytes.unwrap_or(self.bytes_of(plan).0)
    }

    /// Returns the number of snapshots, or records of states in levels, that the tiers hold, at most `most`.
    pub(super) fn capacity(&self, most: u32) -> u32 {
        let cache = self.cache.unwrap_or(most);
        match self.host {
            // Under LRU, as GPUZIP published it, every snapshot also has a slot in the host pool.
            Some(host) if self.storage.policy == Policy::Lru && cache > 0 => host.min(most),
            Some(host) => host.saturating_add(cache).min(most),
            None => most,
        }
    }

    /// Returns tiers that stand for these in a problem with one `part`-th of the `steps` time steps: the best
    /// intervals depend on how often a time step is computed, and on the slots of the device cache, whose
    /// number stays unless it is large.
    pub(super) fn for_part(&self, part: u32, steps: u32) -> Self {
        const FEW_SLOTS: u32 = 16;
        let cache = |slots: u32| slots.min(FEW_SLOTS.max(slots.div_ceil(part)));
        // Compressed snapshots only pass through the device cache.
        let raw_slots = self.raw_slots.map(cache);
        let passed = |raw: u32| self.cache.map_or(0, |all| all - raw);
        let budgets = match self.has_disk() {
            true => self.budgets.for_part(part, self.slot_bytes),
            false => Budgets::NONE,
        };
        TierSpec {
            cache: match (self.raw_slots, raw_slots) {
                (Some(all), Some(raw)) => Some(raw + passed(all)),
                _ => self.cache.map(cache),
            },
            raw_slots,
            host: match self.has_disk() {
                true => Some(budgets.slots_outside(self.slot_bytes)),
                false => self.host.map(|slots| {
                    let parts = self.storage.cut as u32;
                    let all = slots.saturating_add(self.cache.unwrap_or(0)) / parts;
                    let held = slots_for_part(part, steps, all).saturating_mul(parts);
                    let beside = held.saturating_sub(self.cache.map_or(0, cache));
                    beside.clamp(slots.div_ceil(part), slots)
                }),
            },
            packed_bytes: None,
            costs: self.costs.for_part(part),
            budgets,
            ..self.clone()
        }
    }

    /// Returns the plan of an indexed schedule for these tiers: one of `plans`, or a new one. Without an
    /// index the schedule is one whose forward phase has not ended.
    pub(super) fn plan_of(
        &self,
        index: Option<&Index>,
        snapshots: u32,
        plans: &[Arc<Plan>],
    ) -> Result<Arc<Plan>> {
        match (plans.iter().find(|plan| self.is_of(plan, snapshots)), index) {
            (Some(plan), _) => Ok(plan.clone()),
            (None, Some(index)) if self.needs_stack() && !index.is_stack() => fail!(
                Unsupported,
                "sequences = 1, or shared_levels = 1 with codec_threads, and a schedule that does not restore every state once, in reverse order: \
                 use store-all, or neither"
            ),
            (None, Some(index)) => Ok(Arc::new(self.plan(index, snapshots)?)),
            (None, None) => {
                let (cache, parts) = (self.cache_for(snapshots), self.storage.cut as u32);
                Ok(Arc::new(Plan::open(snapshots, parts, cache, self.raw_slots)))
            }
        }
    }

    /// Whether the tiers may hold the snapshots of a schedule: those that need all states restored once, in
    /// reverse order, hold them for store-all.
    pub(super) fn suits(&self, schedule: &Schedule) -> bool {
        schedule.algorithm == Algorithm::StoreAll || !self.needs_stack()
    }

    /// Whether all states have to be restored once, in reverse order, and no step is computed from one.
    fn needs_stack(&self) -> bool {
        let Storage { cut, coded, codec, .. } = &self.storage;
        codec.sequences || *cut == Cut::Levels && matches!(coded, Coded::ByLanes(_))
    }

    /// Slots of the device cache for a schedule of `snapshots` snapshots.
    fn cache_for(&self, snapshots: u32) -> u32 {
        self.cache.unwrap_or(snapshots.saturating_mul(self.storage.cut as u32))
    }

    /// Returns the index of a schedule, with states cut as in these tiers; `None` if its forward phase has
    /// not ended. Of the states that are stored after the first `done` accesses, those of `shared` have
    /// the level of the state before.
    pub fn index(
        &self,
        schedule: &Schedule,
        done: usize,
        shared: impl IntoIterator<Item = u32>,
    ) -> Result<Option<Index>> {
        let index = (schedule.steps > 0).then(|| Index::new(schedule)).transpose()?;
        match (index, self.storage.cut) {
            (Some(index), Cut::Levels) => {
                index.in_levels_after(done, shared, self.claims_of(schedule.snapshots)).map(Some)
            }
            (index, _) => Ok(index),
        }
    }

    /// Which states of a schedule of `snapshots` snapshots share levels, if states are cut.
    fn claims_of(&self, snapshots: u32) -> Claims {
        let (parts, cache) = (self.storage.cut as u32, self.cache_for(snapshots));
        // In spare states the application has no other state's level.
        let is_spare = self.storage.zero_copy && !Plan::always_has_slot(true, parts, cache);
        match self.claims {
            Claims::All if is_spare => Claims::None,
            claims => claims,
        }
    }

    /// Whether a schedule of `snapshots` snapshots may have states that share levels.
    pub(super) fn shares_levels(&self, snapshots: u32) -> bool {
        self.storage.cut == Cut::Levels && self.claims_of(snapshots) != Claims::None
    }

    fn plan(&self, index: &Index, snapshots: u32) -> Result<Plan> {
        if self.storage.cut == Cut::Levels && index.parts == 1 {
            return self.plan(&index.in_levels(self.claims_of(snapshots))?, snapshots);
        }
        let cache = self.cache_for(snapshots);
        let by_lanes = matches!(self.storage.coded, Coded::ByLanes(_));
        let mut plan = match self.raw_slots {
            _ if by_lanes => Plan::coded_by_lanes(index, cache, self.storage.zero_copy)?,
            Some(raw) => {
                Plan::mixed(index, raw, cache.saturating_sub(raw), self.storage.zero_copy)?
            }
            None if self.storage.zero_copy => Plan::handing_over(index, cache)?,
            None => Plan::of(index, cache, self.storage.policy)?,
        };
        // Which records an online schedule drops is not known when it writes them.
        if index.forward.is_none() {
            let memory = plan.host_slots - self.on_disk(&plan);
            plan.sort_pool(index, memory, self.host.unwrap_or(u32::MAX))?;
        }
        Ok(plan)
    }

    /// Whether snapshots may lie on disk.
    pub(super) fn has_disk(&self) -> bool {
        self.budgets != Budgets::NONE
    }

    /// Returns the slots in host memory of a plan that uses the disk; `None` if no plan does.
    pub(super) fn beside_staging(&self) -> Option<u32> {
        self.budgets.slots_beside_staging(self.slot_bytes)
    }

    /// Returns the most slots in host memory of a plan that uses no disk.
    pub(super) fn most_in_memory(&self) -> u32 {
        Budgets { disk: 0, ..self.budgets }.slots_outside(self.slot_bytes)
    }

    /// Returns these tiers without their disk.
    pub(super) fn without_disk(&self) -> Self {
        let in_memory = |_| self.most_in_memory();
        let host = if self.has_disk() { self.host.map(in_memory) } else { self.host };
        TierSpec { host, budgets: Budgets::NONE, ..self.clone() }
    }

    /// Returns whether `plan` is a plan for these tiers.
    fn is_of(&self, plan: &Plan, snapshots: u32) -> bool {
        plan.cache == self.cache_for(snapshots)
            && plan.raw_slots == self.raw_slots.unwrap_or(0)
            && plan.policy == self.storage.policy
            && (plan.zero_copy == self.storage.zero_copy || plan.drops)
            && plan.in_levels == (self.storage.cut == Cut::Levels)
            && (plan.on_disk == 0 || plan.on_disk == self.on_disk(plan))
    }

    /// Returns the plan of `schedule` for these tiers: one of `plans`, or a new one. Fails if it does
    /// not fit them.
    pub fn plan_for(&self, schedule: &Schedule, plans: &[Arc<Plan>]) -> Result<Arc<Plan>> {
        let is_new = !plans.iter().any(|plan| self.is_of(plan, schedule.snapshots));
        let index = (is_new && schedule.steps > 0).then(|| Index::new(schedule)).transpose()?;
        let plan = self.plan_of(index.as_ref(), schedule.snapshots, plans)?;
        self.check(&plan)?;
        Ok(plan)
    }

    /// Returns a plan for `index`, the rest of an indexed schedule of `snapshots` snapshots. Fails if it
    /// does not fit these tiers.
    pub fn plan_of_rest(&self, index: &Index, snapshots: u32) -> Result<Plan> {
        let plan = self.plan(index, snapshots)?;
        self.check(&plan)?;
        Ok(plan)
    }

    /// Returns whether a plan fits these tiers.
    pub(super) fn admits(&self, plan: &Plan) -> bool {
        let has_room = match self.memory {
            (0, host @ 1..) => self.beside_snapshots <= host,
            _ => true,
        };
        has_room && self.host.is_none_or(|slots| plan.host_slots <= slots)
    }

    /// Returns the number of pool slots of a plan that lie on disk.
    pub fn on_disk(&self, plan: &Plan) -> u32 {
        self.budgets.on_disk(plan.host_slots, self.slot_bytes)
    }

    /// Returns the bytes of disk that a snapshot takes: whole pages in each folder.
    pub fn bytes_on_disk(&self) -> u64 {
        DiskSpace::bytes_of_slot(self.slot_bytes, self.folders)
    }

    /// Returns the bytes of disk that a plan needs.
    pub fn disk_bytes(&self, plan: &Plan) -> u64 {
        u64::from(self.on_disk(plan)).saturating_mul(self.bytes_on_disk())
    }

    /// Returns the bytes of the device cache and of host memory that a plan needs.
    pub fn bytes_of(&self, plan: &Plan) -> (u64, u64) {
        let device =
            plan.bytes_of_slots(plan.device_slots, self.costs.raw_slot_bytes, self.slot_bytes);
        let (host, _) = self.budgets.bytes_outside(plan.host_slots, self.slot_bytes);
        (device, host)
    }

    /// Fails if a plan does not fit these tiers, with an error that says what the plan needs.
    pub fn check(&self, plan: &Plan) -> Result<()> {
        if self.admits(plan) {
            return Ok(());
        }
        let beside = match self.memory {
            // A host_budget that is all device memory has to grow by the pool.
            (device, 0) if self.pool_bytes.is_some() => device,
            (0, _) => self.beside_snapshots,
            _ => 0,
        };
        fail!(
            Budget,
            "the plan stores {} snapshots of {} bytes in host memory, and host_budget{} holds {}: raise host_budget to {} bytes or the device \
             cache, or lower checkpointing_snaps",
            plan.host_slots,
            self.slot_bytes,
            if (1..u64::MAX).contains(&self.budgets.disk) { " with disk_budget" } else { "" },
            self.host.unwrap_or(0),
            (plan.host_slots as u64).saturating_mul(self.slot_bytes).saturating_add(beside)
        )
    }
}

/// Returns the least number of slots with which Revolve computes a time step of one `part`-th of the `steps`
/// time steps no more often, on average, than a time step of all of them with `slots` slots: one `part`-th
/// of the slots if there are many, and nearly all of them if there are few.
pub(super) fn slots_for_part(part: u32, steps: u32, slots: u32) -> u32 {
    let fewer = steps.div_ceil(part);
    let computed = |steps: u32, slots: u32| {
        let most = steps.saturating_sub(1).max(1);
        Schedule::revolve(steps, slots.clamp(1, most)).map_or(0, |s| u128::from(s.forward_steps()))
    };
    let all = computed(steps, slots) * u128::from(fewer);
    let (mut least, mut enough) = (1, slots.max(1));
    while least < enough {
        let middle = least + (enough - least) / 2;
        match computed(fewer, middle) * u128::from(steps) <= all {
            true => enough = middle,
            false => least = middle + 1,
        }
    }
    least
}

#[cfg(test)]
#[path = "tier_spec_tests.rs"]
pub(super) mod tests;
