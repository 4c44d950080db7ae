//! Replacement policies: which device cache slot holds which snapshot, and when.

use super::online::Left;
use super::{Access, Fetch, Index, Plan, Policy, Step, NONE};
use crate::error::Result;
use crate::fallible_vec::{self, filled, push, with_room};
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// The device cache in a dry run of the schedule, without data.
pub(super) struct Cache<'a> {
    index: &'a Index,
    capacity: u32,
    /// Number of slots used so far; slots from this number on are empty.
    pub(super) used: u32,
    /// For each slot, the state that the slot holds, and the last plan step that used the slot.
    content: Vec<u32>,
    last_use: Vec<u32>,
    /// The slot of each state, or NONE.
    place: Vec<u32>,
    /// Number of the SAVE that made each state's current snapshot.
    saved: Vec<u32>,
    /// LRU: the slots by last use, the order of eviction.
    order: BTreeMap<u32, u32>,
    /// Clairvoyant: the next use of each slot's snapshot, and the slot. Entries whose
    /// use has passed are removed only when the heap is full.
    next_uses: BinaryHeap<(u32, u32)>,
    /// Slots whose snapshot has no later use, in the order of their last uses (clairvoyant).
    dead: VecDeque<u32>,
    /// Online: for each state, whether its snapshot is in the cache only and was saved in the forward
    /// phase: it stays in its slot. Empty for other schedules.
    pinned: Vec<bool>,
    /// The transfers to the device so far.
    pub(super) fetches: Vec<Fetch>,
    /// Slots that the access of now must leave as they are, or NONE: those of the other part of its
    /// SAVE or RESTORE, and under zero copy, where the application works in the slots, those of the
    /// SAVE or RESTORE before, which the application may still use.
    zero_copy: bool,
    in_hand: [u32; 2 * MOST_PARTS],
    /// Whether a slot can be in hand at all.
    has_in_hand: bool,
    /// Whether every SAVE and RESTORE gets a slot (`Plan::always_has_slot`, `Index::is_repeated`); without
    /// zero copy, every one whose snapshot is read.
    pub(super) always: bool,
}

const READ_FROM_HOST: u32 = 0;

const MOST_PARTS: usize = 2;

/// Decides under `policy` which device slot each SAVE and RESTORE gets, if any. Host slots are only
/// marked here: a RESTORE that reads from the host gets some `host` other than NONE.
pub(super) fn replace(
    index: &Index,
    capacity: u32,
    policy: Policy,
    (zero_copy, through_slots): (bool, bool),
    left: Option<&Left>,
) -> Result<Plan> {
    let mut cache = Cache::new(index, capacity, zero_copy)?;
    cache.always |= through_slots;
    let mut steps = with_room(index.accesses.len())?;
    if let Some(left) = left {
        steps.extend_from_slice(&left.steps);
        cache.take_over(left, &left.content, 0)?;
    }
    for e in steps.len() as u32..index.accesses.len() as u32 {
        steps.push(match policy {
            Policy::Lru if capacity == 0 => cache.without(e),
            Policy::Clairvoyant => cache.clairvoyant(e)?,
            Policy::Lru => cache.lru(e)?,
        });
    }
    Ok(Plan {
        policy,
        cache: capacity,
        zero_copy,
        in_levels: index.parts > 1,
        device_slots: cache.used,
        steps,
        fetches: cache.fetches,
        drops: left.is_some(),
        ..Plan::default()
    })
}

impl<'a> Cache<'a> {
    /// Makes an empty cache of `capacity` slots.
    pub(super) fn new(index: &'a Index, capacity: u32, zero_copy: bool) -> Result<Self> {
        let most_uses = (2 * capacity as usize).saturating_add(64).min(index.accesses.len());
        Ok(Cache {
            index,
            capacity,
            used: 0,
            content: Vec::new(),
            last_use: Vec::new(),
            place: filled(NONE, index.states)?,
            saved: filled(NONE, index.states)?,
            order: BTreeMap::new(),
            next_uses: with_room(most_uses)?.into(),
            dead: VecDeque::new(),
            pinned: Vec::new(),
            fetches: Vec::new(),
            zero_copy,
            in_hand: [NONE; 2 * MOST_PARTS],
            has_in_hand: zero_copy || index.parts > 1,
            always: Plan::always_has_slot(zero_copy, index.parts, capacity),
        })
    }

    /// Notes that a plan step used memory outside this cache, so that the application works in no slot
    /// of this cache any more.
    pub(super) fn is_left(&mut self) {
        self.in_hand = [NONE; 2 * MOST_PARTS];
    }

    /// Notes the next use of the snapshot of u(ts) in `slot`, so that it can be evicted, unless the host
    /// does not have it and cannot get it.
    fn keep(&mut self, ts: u32, next: u32, slot: u32) {
        if !self.pinned.get(ts as usize).is_some_and(|&pinned| pinned) {
            self.next_uses.push((next, slot));
        }
    }

    /// Notes the next use after the access `e`, which is `access`, of the snapshot in `slot`.
    fn keep_after(&mut self, e: u32, access: Access, slot: u32) {
        if self.next_uses.len() == self.next_uses.capacity() {
            self.next_uses.retain(|&(next, _)| next > e);
        }
        self.keep(access.ts, access.next, slot);
    }

    /// Takes over the cache as the forward phase of an online schedule has left it: with `content` in its
    /// slots, of which the first one is slot `first` of the plan.
    pub(super) fn take_over(&mut self, left: &Left, content: &[u32], first: u32) -> Result<()> {
        self.used = content.len() as u32;
        self.content = fallible_vec::copied(content)?;
        self.last_use = filled(NONE, content.len())?;
        self.pinned = fallible_vec::copied(&left.pinned)?;
        for (e, step) in left.steps.iter().enumerate() {
            self.saved[self.index.accesses[e].ts as usize] = e as u32;
            let slot = step.slot.checked_sub(first).unwrap_or(NONE);
            self.last_use.get_mut(slot as usize).into_iter().for_each(|last| *last = e as u32);
        }
        for (slot, &ts) in (0..).zip(content) {
            let save = self.saved.get(ts as usize).map(|save| *save as usize);
            match save.map_or(NONE, |save| self.index.accesses[save].next) {
                NONE => self.dead.push_back(slot),
                next => {
                    self.place[ts as usize] = slot;
                    self.keep(ts, next, slot);
                }
            }
        }
        Ok(())
    }

    fn without(&self, e: u32) -> Step {
        let is_save = self.index.accesses[e as usize].save;
        Step { slot: NONE, host: if is_save { NONE } else { READ_FROM_HOST } }
    }

    /// Belady's rule (Belady 1966) with bypass. A snapshot takes the slot of a snapshot without a
    /// later use, else of the snapshot whose next use is farthest away. If the new snapshot's own
    /// next use is farther still, the new snapshot gets no slot. No replacement policy has fewer
    /// fetches.
    ///
    /// The rule does not weigh write-backs. In generated schedules the snapshots form a stack, and
    /// then the sum of fetches and write-backs is the least possible as well. In a trace, evicting
    /// a snapshot that the host already holds instead of one that is needed later can save a
    /// write-back.
    ///
    /// Among slots without a later use, a SAVE takes the slot freed last and a fetch takes the slot
    /// freed first: slots freed earlier give fetches a longer lead.
    ///
    /// Under zero copy with two slots or more for each part, every step gets a slot: the application
    /// needs memory in any case, and a slot serves as well as memory beside the slots.
    pub(super) fn clairvoyant(&mut self, e: u32) -> Result<Step> {
        if self.capacity == 0 {
            return Ok(self.without(e));
        }
        let access = self.index.accesses[e as usize];
        let ts = access.ts as usize;
        let part = self.begin(e);
        let (slot, host) = if access.save {
            if access.is_claim() {
                // Under zero copy the application reads the level where it is.
                let slot = if self.zero_copy { self.place[ts] } else { NONE };
                self.in_hand[part] = slot;
                if slot != NONE {
                    self.last_use[slot as usize] = e;
                    if access.next != NONE {
                        self.keep_after(e, access, slot);
                    }
                }
                return Ok(Step { slot, host: NONE });
            }
            self.saved[ts] = e;
            if access.next == NONE && !(self.always && self.zero_copy) {
                return Ok(Step { slot: NONE, host: NONE });
            }
            let free = self.dead(true).or_else(|| self.empty());
            (free.or_else(|| self.evict_furthest(access.next, e)), NONE)
        } else if self.place[ts] != NONE {
            (Some(self.place[ts]), NONE)
        } else {
            let free = self.empty().or_else(|| self.dead(false));
            let slot = free.or_else(|| self.evict_furthest(access.next, e));
            if let Some(slot) = slot {
                let (free, released) = self.free_since(slot);
                let saved = self.saved[ts];
                let (issue_after, released_after) = (free.max(saved), released.max(saved));
                push(&mut self.fetches, Fetch { issue_after, restore: e, released_after })?;
            }
            (slot, READ_FROM_HOST)
        };
        if self.has_in_hand {
            self.in_hand[part] = slot.unwrap_or(NONE);
        }
        let Some(slot) = slot else { return Ok(Step { slot: NONE, host }) };
        self.hold(slot, access.ts, e);
        if access.next == NONE {
            self.place[ts] = NONE;
            self.dead.push_back(slot);
        } else {
            self.keep_after(e, access, slot);
        }
        Ok(Step { slot, host })
    }

    /// Least recently used, as GPUZIP 2.x published it: a snapshot without a later use is treated
    /// like all others. GPUZIP 2.x has two CUDA streams per slot and lets a prefetch begin while the
    /// application works in the slot that was used last: the prefetch waits for the slot that was
    /// used last but one.
    fn lru(&mut self, e: u32) -> Result<Step> {
        let access = self.index.accesses[e as usize];
        let ts = access.ts as usize;
        let hit = !access.save && self.place[ts] != NONE;
        if access.save {
            self.saved[ts] = e;
        }
        let slot = if hit {
            self.place[ts]
        } else {
            let last_but_one = self.order.keys().rev().nth(1).copied();
            let slot =
                self.empty().or_else(|| self.order.pop_first().map(|(_, slot)| slot)).unwrap_or(0);
            if !access.save {
                let free = if self.capacity == 1 { e } else { last_but_one.unwrap_or(0) };
                let issue_after = free.max(self.saved[ts]);
                let fetch = Fetch { issue_after, restore: e, released_after: issue_after };
                push(&mut self.fetches, fetch)?;
            }
            slot
        };
        if hit {
            self.order.remove(&self.last_use[slot as usize]);
        }
        self.hold(slot, access.ts, e);
        self.order.insert(e, slot);
        Ok(Step { slot, host: if access.save || hit { NONE } else { READ_FROM_HOST } })
    }

    /// Begins the access `e`. Returns its part.
    fn begin(&mut self, e: u32) -> usize {
        if !self.has_in_hand {
            return 0;
        }
        let parts = self.index.parts;
        let part = e % parts;
        if part == 0 {
            let [a, b, ..] = self.in_hand;
            self.in_hand = match self.zero_copy {
                true => [NONE, NONE, a, b],
                false => [NONE; 2 * MOST_PARTS],
            };
        }
        part as usize
    }

    fn is_in_hand(&self, slot: u32) -> bool {
        self.has_in_hand && self.in_hand.contains(&slot)
    }

    fn empty(&mut self) -> Option<u32> {
        (self.used < self.capacity).then(|| {
            self.used += 1;
            self.content.push(NONE);
            self.last_use.push(NONE);
            self.used - 1
        })
    }

    /// The slot freed last, or else the one freed first, whose snapshot has no later use, unless it is
    /// in hand.
    fn dead(&mut self, last: bool) -> Option<u32> {
        if !self.has_in_hand {
            return if last { self.dead.pop_back() } else { self.dead.pop_front() };
        }
        let is_free = |slot: &u32| !self.is_in_hand(*slot);
        let mut dead = self.dead.iter();
        let i = if last { dead.rposition(is_free) } else { dead.position(is_free) };
        self.dead.remove(i?)
    }

    /// The slot whose snapshot has the farthest next use after plan step `e`, of the slots that are not
    /// in hand, if that use is later than `next` or every step gets a slot.
    fn evict_furthest(&mut self, next: u32, e: u32) -> Option<u32> {
        let next = if self.always { e } else { next };
        if !self.has_in_hand {
            return self.pop_later_than(next.max(e));
        }
        let mut in_hand = [None; 2 * MOST_PARTS];
        for entry in &mut in_hand {
            match self.next_uses.peek().is_some_and(|&(_, slot)| self.is_in_hand(slot)) {
                true => *entry = self.next_uses.pop(),
                false => break,
            }
        }
        let evicted = self.pop_later_than(next.max(e));
        self.next_uses.extend(in_hand.into_iter().flatten());
        evicted
    }

    /// Takes the farthest next use from the heap, if it is later than plan step `e`. Returns its slot.
    fn pop_later_than(&mut self, e: u32) -> Option<u32> {
        match self.next_uses.peek() {
            Some((farthest, _)) if *farthest > e => self.next_uses.pop().map(|(_, slot)| slot),
            _ => None,
        }
    }

    /// Returns the values `issue_after` and `released_after` of a fetch into a slot, without regard
    /// to the snapshot. Both are e, the last plan step that used the slot; for zero copy,
    /// `issue_after` is that of the next SAVE or RESTORE, and so is `released_after` if step e is a
    /// SAVE. 0 if no plan step has used the slot.
    fn free_since(&self, slot: u32) -> (u32, u32) {
        let parts = self.index.parts;
        match self.last_use[slot as usize] {
            NONE => (0, 0),
            e if !self.zero_copy => (e, e),
            e if self.index.accesses[e as usize].save => (e + parts, e + parts),
            e => (e + parts, e),
        }
    }

    fn hold(&mut self, slot: u32, ts: u32, e: u32) {
        let content = std::mem::replace(&mut self.content[slot as usize], ts);
        if content != NONE && content != ts && self.place[content as usize] == slot {
            self.place[content as usize] = NONE;
        }
        self.place[ts as usize] = slot;
        self.last_use[slot as usize] = e;
    }
}
