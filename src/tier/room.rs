//! Room for records: the slots of a plan, and the bytes that they take and free.

use super::disk::Disk;
use super::extent::{Extent, In, Slot, NO_RECORD};
use super::order::NO_EVENT;
use super::{SnapshotCoder, Tiers};
use crate::device::{Device, Traffic};
use crate::error::{fail, Result};
use crate::fallible_vec;
use crate::plan::{Issued, Plan, Step, NONE};
use std::ops::Deref;

impl<P: Deref<Target = Plan>, D: Device + ?Sized> Tiers<P, D> {
    /// Makes the slots of the plan, all of them empty. The device has no work.
    pub(super) fn fitted(&mut self) -> Result<()> {
        let (device, host) = (self.plan.device_slots, self.plan.host_slots);
        let grown = self.grow(device as usize, host as usize);
        grown.map_err(|e| e.within(format_args!("{device} device and {host} host slots")))?;
        self.empty();
        Ok(())
    }

    /// Makes the slots that the plan has more than there are.
    fn grow(&mut self, device: usize, host: usize) -> Result<()> {
        fallible_vec::up_to(&mut self.cache.slots, device)?;
        fallible_vec::up_to(&mut self.pool.slots, host)?;
        for _ in self.cache.slots.len()..device {
            let (filled, emptied) = (self.device.event()?.0 as u32, self.device.event()?.0 as u32);
            self.cache.slots.push(Slot { filled, emptied, ..Slot::EMPTY });
        }
        for _ in self.pool.slots.len()..host {
            self.pool.slots.push(Slot::EMPTY);
        }
        let slots = self.cache.slots.len() + self.pool.slots.len();
        fallible_vec::up_to(&mut self.extents, slots + Disk::EXTENTS)?;
        fallible_vec::up_to(&mut self.unused, slots)?;
        self.raw_slots = match self.storage.coder {
            Some(_) => self.plan.raw_slots,
            None => NONE,
        };
        if self.storage.coder.is_some() {
            // A plan may use fewer slots than the cache has.
            let planned = self.plan.device_slots;
            let bytes = self.plan.bytes_of_slots(planned, self.storage.parts.slot_bytes(), 0);
            self.cache.arena.begin_at(bytes)?;
            // Each slot holds at most one range of bytes; the record of a cache slot may lie in the
            // pool.
            self.cache.arena.fit(self.cache.slots.len())?;
            self.pool.arena.fit(slots)?;
        }
        Ok(())
    }

    /// Puts the first `slots` pool slots on the device's disk, where each takes `slot_bytes` bytes.
    /// [`super::staging_bytes`] bytes of the host slab from `at` on are the staging buffers. All slots are
    /// empty afterwards.
    pub fn use_disk(&mut self, slots: u32, slot_bytes: u64, at: u64) -> Result<()> {
        for slot in self.pool.slots.iter_mut().take(slots as usize) {
            slot.filled = self.device.disk_event()?.0 as u32;
            slot.emptied = self.device.disk_event()?.0 as u32;
        }
        self.disk = Disk::new(&mut *self.device, slots, slot_bytes, at)?;
        self.empty();
        Ok(())
    }

    /// Empties all slots. The device has no work.
    pub(super) fn empty(&mut self) {
        self.extents.clear();
        self.unused.clear();
        self.extents.extend(self.disk.buffers());
        let on_disk = self.disk.slots as usize;
        let raw_pool = self.storage.coder.is_none();
        let slot_bytes = self.storage.parts.slot_bytes();
        let extents = &mut self.extents;
        let mut own = |slot: &mut Slot, memory, at: u64| {
            slot.own = extents.len() as u32;
            let extent = Extent::new(memory, at, slot.filled, slot.emptied);
            extents.push(Extent { names: 1, ..extent });
        };
        for (k, slot) in self.cache.slots.iter_mut().enumerate() {
            slot.own = NONE;
            if k < self.raw_slots as usize {
                own(slot, In::Device, (k as u64).saturating_mul(slot_bytes));
            }
            slot.extent = slot.own;
        }
        for (k, slot) in self.pool.slots.iter_mut().enumerate() {
            slot.own = NONE;
            if k < on_disk {
                own(slot, In::Disk, (k as u64).saturating_mul(self.disk.slot_bytes));
            } else if raw_pool {
                own(slot, In::Host, ((k - on_disk) as u64).saturating_mul(slot_bytes));
            }
            slot.extent = slot.own;
        }
        self.cache.clear(true);
        self.pool.clear(false);
        self.staged.clear();
        self.storage.coder.iter_mut().for_each(SnapshotCoder::forget);
        self.saved.clear();
        self.in_hand.clear();
        self.order.all_seen();
        (self.largest, self.coded) = (0, [0; 2]);
        (self.issued, self.early) = (Issued::default(), Traffic::default());
    }

    /// Empties a cache slot and takes `bytes` bytes for its next record. Returns no extent, with the slot
    /// empty, if it is no slot or if the cache has no free range that long.
    pub(super) fn take_in_cache(&mut self, slot: u32, bytes: u64) -> Option<usize> {
        let Slot { own, filled, emptied, .. } = *self.cache.slots.get(slot as usize)?;
        self.leave(true, slot);
        if own != NONE {
            (self.extents[own as usize].bytes, self.extents[own as usize].is_decoded) =
                (bytes, false);
            return Some(own as usize);
        }
        let at = self.cache.arena.take(bytes)?;
        let x = self.add(Extent { bytes, ..Extent::new(In::Device, at.start, filled, emptied) });
        self.name(slot, x);
        Some(x)
    }

    /// Empties a pool slot and takes `bytes` bytes for its next record, in host memory or on disk.
    pub(super) fn take_in_pool(&mut self, host: u32, bytes: u64) -> Result<usize> {
        let own = self.pool.slots[host as usize].own;
        let is_in_use = own != NONE && self.extents[own as usize].names > 1;
        if is_in_use && self.pool.slots[host as usize].extent == own {
            return fail!(
                Budget,
                "a snapshot on disk would be overwritten before its last use, because compressed snapshots do not fit the device cache: raise device_budget, or host_budget if that alone is set"
            );
        }
        self.leave(false, host);
        let is_on_disk = self.disk.has(host);
        if own != NONE && (!is_on_disk || bytes <= self.disk.slot_bytes) {
            self.extents[own as usize].bytes = bytes;
            self.extents[own as usize].pool_slot = host;
            return Ok(own as usize);
        }
        let taken = self.take_of_pool(bytes);
        let larger = "a snapshot that is larger than its place on disk";
        let y = taken.map_err(|e| if is_on_disk { e.within(larger) } else { e })?;
        self.pool.slots[host as usize].extent = y as u32;
        (self.extents[y].names, self.extents[y].pool_slot) = (1, host);
        Ok(y)
    }

    /// Takes bytes of the pool for a record that needs some beside those in the cache, and notes the
    /// record in both.
    pub(super) fn room_in_pool(
        &mut self,
        record: i64,
        step: Step,
        in_cache: Option<usize>,
        bytes: u64,
    ) -> Result<Option<usize>> {
        let in_pool = match (step.host, in_cache) {
            (NONE, Some(_)) => None,
            (NONE, None) => Some(self.take_of_pool(bytes)?),
            (host, _) => Some(self.take_in_pool(host, bytes)?),
        };
        for x in in_cache.into_iter().chain(in_pool) {
            self.extents[x].record = record;
        }
        match (in_cache, in_pool) {
            (Some(x), _) => self.extents[x].pool_slot = step.host,
            (None, Some(y)) => self.name(step.slot, y),
            (None, None) => {}
        }
        Ok(in_pool)
    }

    /// Takes `bytes` bytes of the pool, which no slot names yet. If no free range is that long, this
    /// function waits for all lanes and moves the records of the pool next to one another. Fails if the
    /// pool has too few free bytes in all.
    pub(super) fn take_of_pool(&mut self, bytes: u64) -> Result<usize> {
        let mut at = self.pool.arena.take(bytes);
        if at.is_none() {
            self.device.synchronize()?;
            self.order.all_seen();
            let mut taken: Vec<&mut Extent> = Vec::new();
            let in_arena = self.extents.iter_mut().skip(self.disk.buffers().count());
            in_arena
                .filter(|extent| extent.memory == In::Host && extent.names > 0)
                .try_for_each(|extent| fallible_vec::push(&mut taken, extent))?;
            taken.sort_unstable_by_key(|extent| extent.at);
            self.pool.arena.clear();
            for extent in taken {
                let Some(to) = self.pool.arena.take(extent.bytes) else {
                    return fail!(Memory, "internal error, please report it: the snapshots of the pool do not fit the pool after they were moved together");
                };
                self.device.move_in_pool(to.start, extent.at, extent.bytes)?;
                extent.at = to.start;
            }
            at = self.pool.arena.take(bytes);
        }
        let Some(at) = at else {
            return fail!(
                Budget,
                "a snapshot of {bytes} bytes does not fit host memory any more, of which {} bytes are free: raise host_budget, or lower \
                 compression_factor or checkpointing_snaps",
                self.pool.arena.free_bytes()
            );
        };
        self.device.lock(at.end)?;
        Ok(self.add(Extent { bytes, ..Extent::new(In::Host, at.start, NO_EVENT, NO_EVENT) }))
    }

    /// Adds an extent whose bytes were taken from an arena.
    fn add(&mut self, mut extent: Extent) -> usize {
        extent.marks.is_fresh = true;
        let x = self.unused.pop().map_or(self.extents.len(), |x| x as usize);
        match self.extents.get_mut(x) {
            Some(unused) => *unused = extent,
            None => self.extents.push(extent),
        }
        x
    }

    /// Lets a cache slot, which is empty, name an extent. Does nothing if `slot` is no slot.
    pub(super) fn name(&mut self, slot: u32, x: usize) {
        if let Some(slot) = self.cache.slots.get_mut(slot as usize) {
            slot.extent = x as u32;
            self.extents[x].names += 1;
        }
    }

    /// Empties a slot of the cache or of the pool, if it is one. An extent that no slot names any more
    /// is free, unless it is a slot's own.
    pub(super) fn leave(&mut self, in_cache: bool, slot: u32) {
        let tier = if in_cache { &mut self.cache } else { &mut self.pool };
        let Some(slot) = tier.slots.get_mut(slot as usize) else { return };
        let x = std::mem::replace(&mut slot.extent, slot.own);
        let is_own = x == slot.own;
        let Some(extent) = self.extents.get_mut(x as usize) else { return };
        if !is_own {
            extent.names -= 1;
            if extent.names > 0 {
                return;
            }
            let tier = match extent.memory {
                In::Device => &mut self.cache,
                _ => &mut self.pool,
            };
            tier.freed.add(&extent.marks);
            tier.arena.give(extent.at..extent.at + extent.bytes);
            self.unused.push(x);
        }
        (extent.record, extent.from_disk) = (NO_RECORD, 0);
    }
}
