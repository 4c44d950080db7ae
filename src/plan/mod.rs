//! Plans: a schedule plus, for every snapshot, where it lives and when it moves.
//!
//! A snapshot is written once and read a known number of times, so its place can be decided before
//! the run: device cache slots are given by a replacement policy (`replace`), host slots by what
//! that policy leaves without a place. A plan is plain data: it holds one [`Step`] per SAVE and
//! RESTORE and the order in which transfers are issued, and can be played for any number of shots.
//!
//! What a plan would take is known before the run, too: a [`Profile`] says what steps and copies
//! cost, [`Costs`] what that makes of a snapshot, and [`simulate()`] plays the plan against it.
//! [`search`] does that for a portfolio of schedules and takes the quickest one that fits the
//! budgets.

mod index;
mod replace;
mod time_levels;

use crate::error::Result;
use crate::fallible_vec::{self, filled};
use crate::schedule::Schedule;
use std::fmt;

pub use index::{Event, Index};
pub use time_levels::{PreviousLevel, Shares};

/// "No slot", "no further use": the absence of an index.
pub const NONE: u32 = u32::MAX;

/// Slots beside the cache for an application that works in the slots: for the state of an event
/// without a slot, and the one before it.
pub const SPARE_SLOTS: u32 = 2;

/// How the device cache chooses what to replace. The numbers are those of the configuration's
/// `policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Policy {
    /// By the known schedule: dead snapshots first, then the one needed furthest in the future. A
    /// snapshot is written back only if it will be fetched, and a fetch is issued as soon as
    /// its slot is free.
    Clairvoyant = 0,
    /// GPUZIP 2.x's published baseline: least recently used, every save written back, prefetches
    /// found by a dry run (PSA) and issued once the slot used last but one is free, as its
    /// code does, which keeps the lead short however large the cache.
    Lru = 1,
}

impl Policy {
    /// The name that the command line and the configuration use.
    pub fn name(self) -> &'static str {
        match self {
            Policy::Clairvoyant => "clairvoyant",
            Policy::Lru => "lru",
        }
    }
}

/// Where one SAVE or RESTORE takes place.
///
/// SAVE: into `slot`, and from there to `host` if it has one; without a slot straight to `host`;
/// with neither, nothing is stored, since nobody will restore it. RESTORE: from `slot`, into which
/// it is fetched from `host` if it has one; without a slot straight from `host`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The device cache slot, or [`NONE`].
    pub slot: u32,
    /// The host slot, or [`NONE`].
    pub host: u32,
}

/// A host-to-device transfer into the slot of the RESTORE `event`, to be issued right after the
/// event `issue_after`; if both are the same, when the RESTORE asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fetch {
    /// The event after which the slot is free and the snapshot is on its way to the host.
    pub issue_after: u32,
    /// The RESTORE that needs it: the deadline.
    pub event: u32,
    /// The same as `issue_after`, if the application gives back what it was handed before the next
    /// event: one earlier where nothing but its hand on the slot is in the way.
    pub released_after: u32,
}

/// What a plan moves.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// SAVE events.
    pub saves: u64,
    /// RESTORE events.
    pub restores: u64,
    /// Restores found in the device cache without any transfer.
    pub hits: u64,
    /// Restores whose snapshot has to come from the host: restores = hits + misses.
    pub misses: u64,
    /// Misses whose transfer is issued ahead of the restore.
    pub prefetches: u64,
    /// Host-to-device transfers.
    pub h2d: u64,
    /// Device-to-host transfers.
    pub d2h: u64,
    /// Forward and backward steps between the issue of a prefetch and its use: the least, 0 if
    /// there is no prefetch.
    pub min_lead: u64,
    /// The same: the mean.
    pub mean_lead: f64,
}

/// A transfer plan.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The policy that made it.
    pub policy: Policy,
    /// Device cache slots that the policy could use.
    pub cache: u32,
    /// The application works in the slots.
    pub zero_copy: bool,
    /// Device cache slots that it does use.
    pub device_slots: u32,
    /// Host slots that it uses.
    pub host_slots: u32,
    /// One step per SAVE and RESTORE, in the order of the schedule.
    pub steps: Vec<Step>,
    /// Transfers to the device in the order of their issue, those issued together by deadline.
    pub fetches: Vec<Fetch>,
    /// Its totals.
    pub counts: Counts,
    /// Where snapshots have their past from, if time levels are shared.
    pub shares: Option<Shares>,
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

    /// Plans an indexed schedule for an application that works in the slots: what an event hands
    /// out stays as it is until the next event is done.
    pub fn handing_over(index: &Index, cache: u32) -> Result<Self> {
        Self::made(index, cache, Policy::Clairvoyant, true)
    }

    /// Plans an indexed schedule for states whose previous time levels are shared between
    /// snapshots.
    pub fn sharing(index: &Index, cache: u32) -> Result<Self> {
        let mut plan = Self::of(index, cache, Policy::Clairvoyant)?;
        plan.shares = Some(time_levels::share(index, &plan.steps, &plan.fetches)?);
        Ok(plan)
    }

    /// Where the SAVE or RESTORE `event` has its past, in the cache and in the host pool.
    pub fn previous_levels(&self, event: usize) -> (PreviousLevel, PreviousLevel) {
        self.shares
            .as_ref()
            .map_or_else(Default::default, |shares| (shares.device[event], shares.host[event]))
    }

    /// Places for previous levels, in the cache and in the host pool.
    pub fn places(&self) -> (u32, u32) {
        self.shares.as_ref().map_or((0, 0), |shares| (shares.device_places, shares.host_places))
    }

    fn made(index: &Index, cache: u32, policy: Policy, zero_copy: bool) -> Result<Self> {
        let mut plan = replace::replace(index, cache, policy, zero_copy)?;
        plan.fetches.sort_unstable();
        plan.place_on_host(index)?;
        plan.count(index);
        Ok(plan)
    }

    /// Gives host slots to the snapshots that need one. A host slot is taken at the SAVE and free
    /// again after the last RESTORE that reads it, when the transfer has certainly ended; any
    /// order of lifetimes is possible, and the lowest free slots are reused first.
    fn place_on_host(&mut self, index: &Index) -> Result<()> {
        let (states, write_all) = (index.states, self.policy == Policy::Lru);
        let mut needed = filled(false, states)?;
        let mut last_read = filled(false, self.steps.len())?;
        for (e, event) in index.events.iter().enumerate().rev() {
            let needed = &mut needed[event.ts as usize];
            let step = &mut self.steps[e];
            if !event.save {
                let reads = step.host != NONE;
                last_read[e] = if write_all { event.next == NONE } else { reads && !*needed };
                *needed |= reads;
            } else {
                let direct = step.slot == NONE && event.next != NONE;
                step.host = if direct || *needed || write_all { 0 } else { NONE };
                last_read[e] = step.host != NONE && event.next == NONE;
                *needed = false;
            }
        }
        let mut place = filled(NONE, states)?;
        let mut free = Vec::new();
        for (e, event) in index.events.iter().enumerate() {
            let step = &mut self.steps[e];
            let place = &mut place[event.ts as usize];
            if event.save && step.host != NONE {
                *place = free.pop().unwrap_or(self.host_slots);
                self.host_slots = self.host_slots.max(*place + 1);
            }
            if step.host != NONE {
                step.host = *place;
            }
            if last_read[e] {
                fallible_vec::push(&mut free, *place)?;
            }
        }
        Ok(())
    }

    fn count(&mut self, index: &Index) {
        let mut counts = Counts::default();
        for (step, event) in self.steps.iter().zip(&index.events) {
            let moves = u64::from(step.host != NONE);
            if event.save {
                counts.saves += 1;
                counts.d2h += moves;
            } else {
                counts.restores += 1;
                counts.h2d += moves;
            }
        }
        counts.misses = counts.h2d;
        counts.hits = counts.restores - counts.h2d;
        let clock = |e: u32| index.events[e as usize].clock;
        let leads = self
            .fetches
            .iter()
            .filter(|f| f.issue_after < f.event)
            .map(|f| clock(f.event) - clock(f.issue_after));
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

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = |name: &str, slot: u32| {
            if slot == NONE {
                String::new()
            } else {
                format!(" {name} {slot}")
            }
        };
        let mut fetches = self.fetches.iter().peekable();
        for (e, step) in self.steps.iter().enumerate() {
            writeln!(f, "{e}:{}{}", place("slot", step.slot), place("host", step.host))?;
            while let Some(fetch) = fetches.next_if(|fetch| fetch.issue_after <= e as u32) {
                writeln!(f, "  fetch for {}", fetch.event)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
