//! The plan of an online schedule. In the forward phase, the steps of the plan follow from the
//! schedule's rule alone, one by one, since nobody knows when the phase ends. When it has ended, the
//! reverse phase is planned as for every other schedule, from the slots that the forward phase has
//! left.
//!
//! Snapshots are restored in the descending order of their time steps, whenever the forward phase
//! ends: if the device cache is full, the oldest snapshot leaves it. The rule says which snapshots
//! are dropped if the phase goes on. A snapshot is therefore written to the host pool at its SAVE
//! only if it leaves the cache before it is dropped. If the phase ends earlier, a snapshot that was
//! not written stays in the cache until its last RESTORE.

use super::index::{ForwardPhase, Index};
use super::{Kept, Plan, Step, NONE};
use crate::error::Result;
use crate::fallible_vec::{filled, insert, push, push_back, with_room};
use crate::schedule::Rule;
use std::collections::{HashMap, VecDeque};

/// The most SAVEs by which the rule is played ahead to learn whether a snapshot leaves the cache. A
/// snapshot is written if the answer is not known by then.
const AHEAD: usize = 1024;

/// Entries of snapshots outside the cache that may stay in `Forward::order` in any case.
const FEW: usize = 64;

/// A SAVE of the forward phase that was played ahead.
#[derive(Clone, Copy, Debug)]
struct Planned {
    ts: u32,
    /// The snapshot that it replaces.
    replaces: Option<u32>,
    slot: u32,
    /// Whether the snapshot is written to the pool, if that is known.
    written: Option<bool>,
}

/// The places of the snapshots in the forward phase.
#[derive(Clone, Debug)]
pub struct Forward {
    rule: Rule,
    cache: u32,
    /// Whether the cache may fill up.
    writes: bool,
    /// The SAVEs that were played ahead, and the number of the first one of them.
    ahead: VecDeque<Planned>,
    first: u64,
    /// The slots and the SAVEs' numbers of the snapshots that are in the cache after the last SAVE
    /// that was played ahead, by time step.
    cached: HashMap<u32, (u32, u64)>,
    /// The time steps of these snapshots in ascending order, and between them some of snapshots that
    /// have left the cache since.
    order: VecDeque<u32>,
    /// The time step of the snapshot in each slot of the cache that was used; with mixed storage NONE in a
    /// slot whose snapshot is compressed.
    content: Vec<u32>,
    /// Mixed storage: number of slots for compressed snapshots, those that are written, which take them
    /// in turn; the time steps of their snapshots; and number of compressed snapshots so far.
    coded_slots: Option<u32>,
    coded: Vec<u32>,
    coded_saves: u32,
    /// The pool slots of the written snapshots by time step, and the free pool slots that were used
    /// before, in ascending order.
    in_pool: HashMap<u32, u32>,
    free: Vec<u32>,
    /// Number of pool slots that were never used: those with the lowest numbers, which lie on disk if
    /// there is one.
    unused: u32,
}

impl Forward {
    /// The places for at most `snapshots` snapshots and a device cache of room for `cache` snapshots; with
    /// mixed storage for `cache` raw ones, and `coded_slots` compressed ones beside them.
    fn new(snapshots: u32, cache: u32, coded_slots: Option<u32>) -> Self {
        Forward {
            rule: Rule::new(snapshots),
            cache,
            writes: snapshots > cache,
            ahead: VecDeque::new(),
            first: 0,
            cached: HashMap::new(),
            order: VecDeque::new(),
            content: Vec::new(),
            coded_slots,
            coded: Vec::new(),
            coded_saves: 0,
            in_pool: HashMap::new(),
            free: Vec::new(),
            unused: pool_slots(snapshots, cache),
        }
    }

    /// Plays the next SAVE ahead.
    fn play_ahead(&mut self) -> Result<()> {
        let (ts, saving) = loop {
            let ts = self.rule.live;
            if let Some(saving) = self.rule.next_state()? {
                break (ts, saving);
            }
        };
        let number = self.first + self.ahead.len() as u64;
        let mut slot = NONE;
        if let Some((freed, saved)) = saving.replaces.and_then(|ts| self.cached.remove(&ts)) {
            slot = freed;
            self.settle(saved, false);
        } else if self.cached.len() < self.cache as usize {
            slot = self.cached.len() as u32;
        } else if let Some((freed, saved)) = self.remove_oldest() {
            slot = freed;
            self.settle(saved, true);
        }
        if slot != NONE {
            if self.order.len() > 2 * self.cached.len() + FEW {
                self.order.retain(|ts| self.cached.contains_key(ts));
            }
            push_back(&mut self.order, ts)?;
            insert(&mut self.cached, ts, (slot, number))?;
        }
        let written = match (self.writes, slot) {
            (false, _) => Some(false),
            (true, NONE) => Some(true),
            _ => None,
        };
        push_back(&mut self.ahead, Planned { ts, replaces: saving.replaces, slot, written })
    }

    /// Removes the oldest snapshot from the cache; returns its slot and the number of its SAVE.
    fn remove_oldest(&mut self) -> Option<(u32, u64)> {
        loop {
            let ts = self.order.pop_front()?;
            if let Some(oldest) = self.cached.remove(&ts) {
                return Some(oldest);
            }
        }
    }

    /// Notes whether the snapshot of SAVE number `saved` has to be written, unless it is played
    /// already.
    fn settle(&mut self, saved: u64, written: bool) {
        let place = saved.checked_sub(self.first).and_then(|at| self.ahead.get_mut(at as usize));
        if let Some(planned) = place.filter(|planned| planned.written.is_none()) {
            planned.written = Some(written);
        }
    }

    /// The snapshots that the SAVEs so far have left, by time step, and where they are.
    fn held(&self) -> Result<Vec<(u32, Step)>> {
        let Forward { content, coded, in_pool, .. } = self;
        let mut held = with_room(content.len() + coded.len() + in_pool.len())?;
        // A snapshot in a slot for compressed ones may have been dropped.
        let coded = (self.cache..).zip(coded).filter(|(_, ts)| in_pool.contains_key(ts));
        let cached = (0..).zip(content).filter(|(_, ts)| **ts != NONE).chain(coded);
        held.extend(cached.map(|(slot, ts)| (*ts, Step { slot, host: NONE })));
        held.extend(in_pool.iter().map(|(ts, host)| (*ts, Step { slot: NONE, host: *host })));
        held.sort_unstable_by_key(|(ts, _)| *ts);
        held.dedup_by(|(other, also), (ts, at)| {
            let is_same = other == ts;
            if is_same {
                // NONE is the largest number.
                *at = Step { slot: at.slot.min(also.slot), host: at.host.min(also.host) };
            }
            is_same
        });
        Ok(held)
    }

    /// The step of the plan for the next SAVE.
    fn next_save(&mut self) -> Result<Step> {
        let known = |planned: &Planned| planned.written.is_some();
        while self.ahead.len() < AHEAD && !self.ahead.front().is_some_and(known) {
            self.play_ahead()?;
        }
        let Some(Planned { ts, replaces, slot, written }) = self.ahead.pop_front() else {
            return Ok(Step { slot: NONE, host: NONE });
        };
        self.first += 1;
        if let Some(freed) = replaces.and_then(|ts| self.in_pool.remove(&ts)) {
            let at = self.free.partition_point(|&free| free < freed);
            push(&mut self.free, freed)?;
            self.free[at..].rotate_right(1);
        }
        let mut host = NONE;
        if written.unwrap_or(true) {
            // The highest free number: slots in host memory come before slots on disk.
            host = self.free.pop().unwrap_or_else(|| {
                self.unused = self.unused.saturating_sub(1);
                self.unused
            });
            insert(&mut self.in_pool, ts, host)?;
        }
        let is_coded = host != NONE && self.coded_slots.is_some();
        hold(&mut self.content, slot, if is_coded { NONE } else { ts })?;
        let slot = match self.coded_slots {
            Some(0) if is_coded => NONE,
            Some(coded) if is_coded => {
                let slot = self.coded_saves % coded;
                self.coded_saves = self.coded_saves.wrapping_add(1);
                hold(&mut self.coded, slot, ts)?;
                self.cache + slot
            }
            _ => slot,
        };
        Ok(Step { slot, host })
    }
}

/// Notes the snapshot in a slot, the next one that was never used or another one; NONE is no slot.
fn hold(content: &mut Vec<u32>, slot: u32, ts: u32) -> Result<()> {
    match content.get_mut(slot as usize) {
        Some(content) => *content = ts,
        None if slot != NONE => push(content, ts)?,
        None => {}
    }
    Ok(())
}

/// The steps of a SAVE of a snapshot, one for each part: the parts of a snapshot have neighbouring slots.
fn in_parts(Step { slot, host }: Step, parts: u32) -> impl Iterator<Item = Step> {
    let of = move |slot: u32, part| if slot == NONE { NONE } else { slot * parts + part };
    (0..parts).map(move |part| Step { slot: of(slot, part), host: of(host, part) })
}

/// Number of places in the pool of an online schedule of `snapshots` snapshots, with room for `cache`
/// snapshots in the device cache.
fn pool_slots(snapshots: u32, cache: u32) -> u32 {
    snapshots * u32::from(snapshots > cache)
}

/// What the forward phase has left to the reverse phase.
pub(super) struct Left {
    /// The steps of the plan so far.
    pub steps: Vec<Step>,
    /// The number of the record in each slot of the cache that was used, or NONE; and in each slot for
    /// compressed records, with mixed storage.
    pub content: Vec<u32>,
    pub coded: Vec<u32>,
    /// The pool slots of the records that were written, and the number of all pool slots.
    pub in_pool: HashMap<u32, u32>,
    pub pool_slots: u32,
    /// For each record, whether it is in the cache only.
    pub pinned: Vec<bool>,
}

impl Left {
    /// Plays the forward phase of an indexed online schedule; `cache` and `coded_slots` as for
    /// `Forward::new`, in slots.
    pub fn by(
        index: &Index,
        phase: &ForwardPhase,
        cache: u32,
        coded_slots: Option<u32>,
    ) -> Result<Self> {
        let (parts, cache) = (index.parts, cache / index.parts);
        let mut forward = Forward::new(phase.snapshots, cache, coded_slots);
        let mut steps = with_room(index.accesses.len())?;
        for _ in 0..phase.saves / parts as usize {
            let step = forward.next_save()?;
            in_parts(step, parts).try_for_each(|step| push(&mut steps, step))?;
        }
        let records = |ts: u32| (0..parts).map(move |part| ts.saturating_mul(parts) + part);
        let (mut content, mut in_pool) = (Vec::new(), HashMap::new());
        let mut cached = forward.content.iter().flat_map(|ts| records(*ts));
        cached.try_for_each(|record| push(&mut content, record))?;
        for (ts, host) in forward.in_pool {
            for (record, slot) in records(ts).zip(records(host)) {
                insert(&mut in_pool, record, slot)?;
            }
        }
        let pool_slots = parts * pool_slots(phase.snapshots, cache);
        let mut pinned = filled(false, index.states)?;
        let in_cache_only = |record: &&u32| **record != NONE && !in_pool.contains_key(record);
        for record in content.iter().filter(in_cache_only) {
            pinned[*record as usize] = true;
        }
        Ok(Left { steps, content, coded: forward.coded, in_pool, pool_slots, pinned })
    }
}

impl Plan {
    /// The plan of an online schedule whose forward phase has not ended: it has the slots for
    /// `snapshots` snapshots of states in `parts` parts, and no steps yet. With mixed storage `raw_slots`
    /// slots of the cache are for raw snapshots.
    pub fn open(snapshots: u32, parts: u32, cache: u32, raw_slots: Option<u32>) -> Self {
        let room = raw_slots.unwrap_or(cache) / parts;
        let coded_slots = raw_slots.map(|raw| cache.saturating_sub(raw));
        Plan {
            cache,
            raw_slots: raw_slots.unwrap_or(0),
            in_levels: parts > 1,
            // The reverse phase may use the slot that is left over.
            device_slots: if snapshots < room { parts * snapshots } else { cache },
            host_slots: parts * pool_slots(snapshots, room),
            forward: Some(Box::new(Forward::new(snapshots, room, coded_slots))),
            drops: true,
            ..Plan::default()
        }
    }

    /// Whether the plan grows with the SAVEs of a forward phase that has not ended.
    pub fn is_open(&self) -> bool {
        self.forward.is_some()
    }

    /// The records that the SAVEs of an open plan have left so far, in the order of their numbers.
    pub(super) fn held(&self, forward: &Forward) -> Result<Vec<Kept>> {
        let parts = self.parts() as u32;
        let records = |(ts, step): (u32, Step)| {
            in_parts(step, parts).zip(ts * parts..).map(|(at, record)| Kept { record, at })
        };
        let held = forward.held()?;
        let mut kept = with_room(held.len() * parts as usize)?;
        kept.extend(held.into_iter().flat_map(records));
        Ok(kept)
    }

    /// Adds steps to an open plan, up to those of the SAVE `action`.
    pub fn reach(&mut self, action: usize) -> Result<()> {
        let parts = self.parts();
        let Some(forward) = &mut self.forward else { return Ok(()) };
        while self.steps.len() / parts <= action {
            let step = forward.next_save()?;
            in_parts(step, parts as u32).try_for_each(|step| push(&mut self.steps, step))?;
        }
        Ok(())
    }
}
