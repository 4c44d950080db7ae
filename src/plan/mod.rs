//! Plans: a schedule plus, for every snapshot, where the snapshot lies and when it moves.
//!
//! A snapshot is written once and read a known number of times, so its place can be decided before
//! the run. A replacement policy (`replace`) assigns the device cache slots; snapshots for which
//! the cache has no slot, or which leave the cache before their last use, get host slots. A plan is
//! plain data: one [`Step`] per SAVE and RESTORE action, and the order in which transfers are
//! issued. A plan can be played for any number of shots.
//!
//! `crate::predict` computes how long a plan would take, and `crate::choice` searches the fastest
//! plan that fits the budgets.

mod index;
mod issue;
mod mixed;
mod online;
mod pool;
mod replace;
mod rest;

use crate::error::{fail, Result};
use crate::fallible_vec::{self, filled};
use crate::named::named;
use crate::schedule::Schedule;
use online::Left;
use std::fmt;

pub use index::{Access, Claims, ForwardPhase, Index};
pub use issue::{Issued, Moment};
pub use online::Forward;
pub use rest::Kept;

/// The absence of a number: no slot, no later use.
pub const NONE: u32 = u32::MAX;

/// Number of spare states that a zero-copy session may need in device memory beside the cache: one
/// for the state of a SAVE or RESTORE without a slot, and one for the state before it, which the
/// application may still use.
pub const SPARE_SLOTS: u32 = 2;

/// Bytes of the spare states of a session with `cache` slots and states of `state_bytes` bytes in
/// `parts` parts. A session without zero copy has none. A zero-copy session has them if the application
/// works `beside` the slots, since snapshots are compressed or online, or if there are fewer than two
/// slots for each part.
pub fn spare_bytes(zero_copy: bool, beside: bool, parts: u32, cache: u32, state_bytes: u64) -> u64 {
    let needed = zero_copy && (beside || !Plan::always_has_slot(zero_copy, parts, cache));
    u64::from(if needed { SPARE_SLOTS } else { 0 }).saturating_mul(state_bytes)
}

named! {
    /// The rule for which snapshot leaves the device cache. The values are those of the configuration
    /// key `policy`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    #[repr(i32)]
    pub enum Policy {
        /// Belady's rule (Belady 1966): a snapshot without a later use leaves first, then the snapshot
        /// whose next use is farthest away. A snapshot is written back only if a later RESTORE fetches
        /// the snapshot from the host. A fetch is issued as soon as its slot is free.
        #[default]
        Clairvoyant = 0 => "clairvoyant",
        /// The published baseline of GPUZIP 2.x: the least recently used snapshot leaves, and every
        /// save is written back. A dry run (PSA) finds the prefetches. As in the code of GPUZIP 2.x, a
        /// prefetch is issued once the slot that was used last but one is free, so that a larger cache
        /// does not make the lead longer.
        Lru = 1 => "lru",
    }
}

/// The places that one SAVE or RESTORE uses for one record of its snapshot; a step of the plan.
///
/// A SAVE stores into `slot`, and from there the snapshot is written back to `host` if the step has
/// one. A SAVE without a slot stores straight to `host`. A SAVE with neither stores nothing, since
/// no later RESTORE reads the snapshot; under zero copy the application still computes that state in
/// `slot`, if there are slots ([`Plan::always_has_slot`]). A RESTORE reads from `slot`, into which
/// the snapshot is first fetched from `host` if the step has one. A RESTORE without a slot reads
/// straight from `host`. A SAVE whose part 1 is the record of the state before stores nothing for that
/// part; under zero copy its `slot` is that of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The device cache slot, or [`NONE`].
    pub slot: u32,
    /// The host slot, or [`NONE`].
    pub host: u32,
}

/// A transfer from host to device into the slot of the RESTORE with number `restore`. The transfer is
/// issued right after the step of the plan with number `issue_after`; if both numbers are equal,
/// the transfer is issued when the RESTORE is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fetch {
    /// Number of the step of the plan after which the slot is free and the snapshot is on the host
    /// or on its way there.
    pub issue_after: u32,
    /// Number of the RESTORE that needs the snapshot: the deadline of the transfer.
    pub restore: u32,
    /// As `issue_after`, for a zero-copy application that releases its slot before the next SAVE or
    /// RESTORE: one less where only the application's use of the slot delays the transfer.
    pub released_after: u32,
}

/// A read of a record from disk into a slot in host memory, from which all RESTOREs read the record. The
/// read is issued right after the step with number `issue_after`, before the transfers to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// Number of the step of the plan after which the slot is free.
    pub issue_after: u32,
    /// Number of the SAVE's step that wrote the record to disk.
    pub save: u32,
    /// The host slot in memory.
    pub to: u32,
}

/// How a SAVE or RESTORE of a state in two parts treats its previous time level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// As a record of its own.
    #[default]
    Own,
    /// A SAVE: part 0 of the state before, whose record stays, is this level.
    Claimed,
    /// A RESTORE: from the record of part 0 of the state before.
    Shared,
}

/// Totals of a plan, as `gpuzip_summary_t` of the C interface describes them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct Counts {
    pub saves: u64,
    pub restores: u64,
    pub hits: u64,
    /// Restores of which a record has to come from the host; restores = hits + misses.
    pub misses: u64,
    pub prefetches: u64,
    pub h2d: u64,
    pub d2h: u64,
    /// The least lead in forward and backward steps of the schedule; 0 if there is no prefetch.
    pub min_lead: u64,
    pub mean_lead: f64,
}

/// A plan: where every snapshot of a schedule lies over time, and every transfer.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The policy that made the plan.
    pub policy: Policy,
    /// Device cache slots that the policy was allowed to use.
    pub cache: u32,
    /// Whether the application works in the slots (zero copy).
    pub zero_copy: bool,
    /// Whether states are in two parts: each SAVE and RESTORE then has two steps, part 0 first.
    pub in_levels: bool,
    /// Mixed storage: the slots of the device cache with smaller numbers hold raw snapshots, all
    /// other slots compressed ones. 0: all snapshots are stored in the same way.
    pub raw_slots: u32,
    /// Device cache slots that the plan uses.
    pub device_slots: u32,
    /// Host slots that the plan uses.
    pub host_slots: u32,
    /// If the pool is in order for a disk (`sort_pool`): the number of its slots on disk; else 0.
    pub on_disk: u32,
    /// One step for each part of each SAVE and RESTORE action, in the order of the schedule.
    pub steps: Vec<Step>,
    /// Transfers to the device in the order of their issue; transfers that are issued together in
    /// the order of their deadlines.
    pub fetches: Vec<Fetch>,
    /// Reads from disk into host memory, in the order of their issue. All other records on disk pass
    /// through staging buffers whenever they are fetched.
    pub reads: Vec<Read>,
    /// Totals of the plan.
    pub counts: Counts,
    /// With two parts: for each SAVE and RESTORE action, its previous time level. Empty if all are
    /// records of their own.
    pub levels: Vec<Level>,
    /// Online, before the forward phase has ended: what the steps of the next SAVEs follow from.
    pub forward: Option<Box<Forward>>,
    /// Online: snapshots are dropped without a RESTORE, so that a host slot may be free while the
    /// download of its dropped snapshot goes on.
    pub drops: bool,
}

impl Plan {
    /// Plans `schedule` for a device cache of `cache` slots.
    pub fn new(schedule: &Schedule, cache: u32, policy: Policy) -> Result<Self> {
        Self::of(&Index::new(schedule)?, cache, policy)
    }

    /// Plans an indexed schedule.
    pub fn of(index: &Index, cache: u32, policy: Policy) -> Result<Self> {
        Self::made(index, cache, policy, false)
    }

    /// Plans an indexed schedule for zero copy: the slot of a SAVE or RESTORE stays untouched until
    /// the next SAVE or RESTORE has ended. With two slots or more, every SAVE and RESTORE has a slot.
    pub fn handing_over(index: &Index, cache: u32) -> Result<Self> {
        Self::made(index, cache, Policy::Clairvoyant, true)
    }

    /// Plans an indexed schedule for snapshots that transfer lanes code on their way between a cache of raw
    /// states and the host: with a slot or more, every RESTORE has one, and so has every SAVE of a snapshot
    /// that is read later, so that the calling thread codes nothing.
    pub fn coded_by_lanes(index: &Index, cache: u32, zero_copy: bool) -> Result<Self> {
        let plan = Self::made_through(index, cache, Policy::Clairvoyant, zero_copy, true)?;
        Ok(Plan { raw_slots: cache, ..plan })
    }

    /// Whether a plan with `cache` slots gives every SAVE and RESTORE a slot for each of its `parts`
    /// parts: under zero copy with two slots or more for each part, one for the state of the action and
    /// one for the state before it, which the application may still use. Such a plan needs no spare
    /// states.
    pub fn always_has_slot(zero_copy: bool, parts: u32, cache: u32) -> bool {
        zero_copy && cache / parts >= SPARE_SLOTS
    }

    /// Number of parts of a state: 1 or 2.
    #[inline]
    pub fn parts(&self) -> usize {
        1 + usize::from(self.in_levels)
    }

    /// The configuration's `cache_capacity` for this plan: snapshots whose records the cache holds.
    pub fn cached_snapshots(&self) -> u32 {
        self.cache.div_ceil(self.parts() as u32)
    }

    /// Number of the SAVE or RESTORE that step `number` is a part of.
    #[inline]
    pub fn action_of(&self, number: u32) -> usize {
        (number >> u32::from(self.in_levels)) as usize
    }

    /// The steps of the SAVE or RESTORE `action`, one for each part.
    pub fn steps_of(&self, action: usize) -> &[Step] {
        let parts = self.parts();
        self.steps.get(action * parts..(action + 1) * parts).unwrap_or_default()
    }

    /// The previous time level of the SAVE or RESTORE `action`.
    pub fn level_of(&self, action: usize) -> Level {
        self.levels.get(action).copied().unwrap_or_default()
    }

    /// Bytes of the first `slots` slots of the device cache, of which each holds a snapshot of
    /// `slot_bytes` bytes, or with mixed storage, where its number says so, a raw record in
    /// `raw_slot_bytes` bytes.
    pub fn bytes_of_slots(&self, slots: u32, raw_slot_bytes: u64, slot_bytes: u64) -> u64 {
        let raw = slots.min(self.raw_slots);
        let bytes = |slots: u32, each: u64| u64::from(slots).saturating_mul(each);
        bytes(raw, raw_slot_bytes).saturating_add(bytes(slots - raw, slot_bytes))
    }

    fn made(index: &Index, cache: u32, policy: Policy, zero_copy: bool) -> Result<Self> {
        Self::made_through(index, cache, policy, zero_copy, false)
    }

    /// `through_slots`: every RESTORE, and every SAVE of a snapshot that is read later, has a slot.
    fn made_through(
        index: &Index,
        cache: u32,
        policy: Policy,
        zero_copy: bool,
        through_slots: bool,
    ) -> Result<Self> {
        let left = match &index.forward {
            None => None,
            Some(phase) if policy == Policy::Clairvoyant => {
                Some(Left::by(index, phase, cache, None)?)
            }
            Some(_) => return fail!(Unsupported, "an online schedule is planned by policy = 0"),
        };
        // The SAVE of an online schedule may replace the snapshot in its slot after the application has
        // begun to compute the state, which it therefore does in spare memory.
        let zero_copy = zero_copy && left.is_none();
        let is_clairvoyant = policy == Policy::Clairvoyant;
        let kind = (zero_copy, through_slots || is_clairvoyant && index.is_repeated);
        let mut plan = replace::replace(index, cache, policy, kind, left.as_ref())?;
        plan.fetches.sort_unstable();
        plan.place_on_host(index, left.as_ref())?;
        plan.count(index);
        plan.levels = levels_of(index)?;
        Ok(plan)
    }

    /// Assigns host slots to the snapshots that need one. A host slot is taken at the SAVE and is
    /// free again after the last RESTORE that reads it, since the transfer has ended by then.
    /// Lifetimes may overlap in any way. The slot that was freed last is reused first.
    ///
    /// The host slots of an online schedule's forward phase, `left`, are decided already, and so is
    /// their number: the tiers exist. The highest free number is used first, because the slots with
    /// the lowest numbers lie on disk if there is one. A slot of `left` is free again after the last
    /// RESTORE of its snapshot, wherever that RESTORE reads.
    fn place_on_host(&mut self, index: &Index, left: Option<&Left>) -> Result<()> {
        let (states, write_all) = (index.states, self.policy == Policy::Lru);
        let mut needed = filled(false, states)?;
        let mut last_read = filled(false, self.steps.len())?;
        let mut place = filled(NONE, states)?;
        let mut free = Vec::new();
        let first = left.map_or(0, |left| left.steps.len());
        if let Some(left) = left {
            self.host_slots = left.pool_slots;
            let mut taken = filled(false, left.pool_slots as usize)?;
            for (&ts, &host) in &left.in_pool {
                // The snapshot of the last state is dropped.
                let is_needed = ts as usize + (index.parts as usize) < states;
                taken[host as usize] = is_needed;
                place[ts as usize] = if is_needed { host } else { NONE };
            }
            let mut empty = (0..left.pool_slots).filter(|&host| !taken[host as usize]);
            empty.try_for_each(|host| fallible_vec::push(&mut free, host))?;
        }
        let steps = self.steps.iter_mut().zip(&mut last_read);
        for (access, (step, last_read)) in index.accesses.iter().zip(steps).skip(first).rev() {
            if access.is_claim() {
                continue;
            }
            let kept = place[access.ts as usize] != NONE;
            let needed = &mut needed[access.ts as usize];
            if !access.save {
                let reads = step.host != NONE;
                let at_last_use = write_all || kept;
                *last_read = if at_last_use { access.next == NONE } else { reads && !*needed };
                *needed |= reads;
            } else {
                let direct = step.slot == NONE && access.next != NONE;
                step.host = if direct || *needed || write_all { 0 } else { NONE };
                *last_read = step.host != NONE && access.next == NONE;
                *needed = false;
            }
        }
        let steps = self.steps.iter_mut().zip(&last_read);
        for (access, (step, last_read)) in index.accesses.iter().zip(steps).skip(first) {
            let place = &mut place[access.ts as usize];
            if step.host != NONE {
                if access.save {
                    *place = free.pop().unwrap_or(self.host_slots);
                    self.host_slots = self.host_slots.max(*place + 1);
                }
                step.host = *place;
            }
            if *last_read {
                fallible_vec::push(&mut free, *place)?;
            }
        }
        Ok(())
    }

    fn count(&mut self, index: &Index) {
        let mut counts = match self.in_levels {
            false => totals::<1>(&self.steps, &index.accesses),
            true => totals::<2>(&self.steps, &index.accesses),
        };
        counts.hits = counts.restores - counts.misses;
        let clock = |e: u32| index.accesses[e as usize].clock;
        let is_ahead = |f: &&Fetch| self.action_of(f.issue_after) < self.action_of(f.restore);
        let ahead = self.fetches.iter().filter(is_ahead);
        let leads = ahead.map(|f| clock(f.restore) - clock(f.issue_after));
        let (mut sum, mut least) = (0u128, u64::MAX);
        for lead in leads {
            counts.prefetches += 1;
            sum += lead as u128;
            least = least.min(lead);
        }
        if counts.prefetches > 0 {
            counts.min_lead = least;
            counts.mean_lead = sum as f64 / counts.prefetches as f64;
        }
        self.counts = counts;
    }
}

/// The numbers of SAVEs, RESTOREs, misses and transfers of a plan whose states have `PARTS` parts.
fn totals<const PARTS: usize>(steps: &[Step], accesses: &[Access]) -> Counts {
    let mut counts = Counts::default();
    for (steps, accesses) in steps.chunks_exact(PARTS).zip(accesses.chunks_exact(PARTS)) {
        let moves = steps.iter().filter(|step| step.host != NONE).count() as u64;
        if accesses[0].save {
            counts.saves += 1;
            counts.d2h += moves;
        } else {
            counts.restores += 1;
            counts.h2d += moves;
            counts.misses += u64::from(moves > 0);
        }
    }
    counts
}

/// The previous time level of each SAVE and RESTORE; empty if all are records of their own.
fn levels_of(index: &Index) -> Result<Vec<Level>> {
    if index.parts == 1 {
        return Ok(Vec::new());
    }
    let level = |uses: &[Access]| match (uses[1].is_shared, uses[1].save) {
        (false, _) => Level::Own,
        (true, true) => Level::Claimed,
        (true, false) => Level::Shared,
    };
    fallible_vec::collected(index.accesses.chunks(2).map(level))
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = |name: &str, slot: u32| match slot {
            NONE => String::new(),
            slot => format!(" {name} {slot}"),
        };
        let mut fetches = self.fetches.iter().peekable();
        let mut reads = self.reads.iter().peekable();
        for (e, step) in self.steps.iter().enumerate() {
            writeln!(f, "{e}:{}{}", place("slot", step.slot), place("host", step.host))?;
            while let Some(read) = reads.next_if(|read| read.issue_after <= e as u32) {
                writeln!(f, "  read what {} saved to host {}", read.save, read.to)?;
            }
            while let Some(fetch) = fetches.next_if(|fetch| fetch.issue_after <= e as u32) {
                writeln!(f, "  fetch for {}", fetch.restore)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod fewest_tests;
#[cfg(test)]
pub(crate) mod tests;
