//! Mixed storage: raw snapshots in the first slots of the device cache, compressed snapshots in all
//! other slots of the cache and in the pool.

use super::packed::Packed;
use super::raw::Raw;
use super::slots::{Held, Slots};
use super::{PreviousLevels, Room, Store, Stored};
use crate::device::AppMemory;
use crate::error::Result;
use crate::plan::{Plan, Step};
use std::ffi::c_void;

/// The store of raw and of compressed snapshots. A raw snapshot never leaves its slot of the cache,
/// which lies at a fixed offset, slot number times the bytes of a state.
pub struct Mixed {
    raw: Raw,
    packed: Packed,
    /// Slots of the cache with smaller numbers hold raw snapshots.
    raw_slots: u32,
}

impl Mixed {
    /// Makes the store; `packed` stores the compressed snapshots.
    pub fn new(packed: Packed) -> Self {
        Mixed { raw: Raw, packed, raw_slots: 0 }
    }

    /// The store of a step's snapshot.
    fn of(&mut self, step: Step) -> &mut dyn Store {
        match step.slot < self.raw_slots {
            true => &mut self.raw,
            false => &mut self.packed,
        }
    }

    /// As `of`, for a SAVE or RESTORE. Compressed snapshots that wait in staging buffers are placed
    /// after a number of SAVEs and RESTOREs; this call counts those of raw snapshots, too.
    fn call(&mut self, slots: &mut Slots, step: Step) -> Result<&mut dyn Store> {
        if step.slot < self.raw_slots {
            self.packed.next_call(slots)?;
        }
        Ok(self.of(step))
    }
}

impl Store for Mixed {
    fn fit(&mut self, slots: &mut Slots, plan: &Plan) -> Result<()> {
        self.raw_slots = plan.raw_slots;
        // A plan may use fewer slots than the cache has.
        let bytes = plan.bytes_of_slots(plan.device_slots, slots.layout.slot_bytes, 0);
        self.packed.leave_to_others(bytes)?;
        self.packed.fit(slots, plan)
    }

    fn empty(&mut self, slots: &mut Slots) {
        self.packed.empty(slots);
        let bytes = slots.layout.slot_bytes;
        for (k, slot) in (0..u64::from(self.raw_slots)).zip(&mut slots.cache) {
            slot.held = Held::InCache(k * bytes..(k + 1) * bytes);
        }
    }

    fn save(
        &mut self,
        slots: &mut Slots,
        step: Step,
        previous_levels: PreviousLevels,
        ts: i64,
        fields: &[AppMemory],
    ) -> Result<()> {
        self.call(slots, step)?.save(slots, step, previous_levels, ts, fields)
    }

    fn fetch(
        &mut self,
        slots: &mut Slots,
        step: Step,
        previous_levels: PreviousLevels,
    ) -> Result<()> {
        self.of(step).fetch(slots, step, previous_levels)
    }

    fn restore(
        &mut self,
        slots: &mut Slots,
        step: Step,
        previous_levels: PreviousLevels,
        read: (i64, bool),
        fields: &[AppMemory],
    ) -> Result<bool> {
        self.call(slots, step)?.restore(slots, step, previous_levels, read, fields)
    }

    fn begin_save(
        &mut self,
        slots: &mut Slots,
        step: Step,
        spare: u32,
    ) -> Result<Vec<*mut c_void>> {
        self.of(step).begin_save(slots, step, spare)
    }

    fn commit_save(&mut self, slots: &mut Slots, step: Step, ts: i64, spare: u32) -> Result<()> {
        self.call(slots, step)?.commit_save(slots, step, ts, spare)
    }

    fn acquire(
        &mut self,
        slots: &mut Slots,
        step: Step,
        read: (i64, bool),
        spare: u32,
    ) -> Result<(Vec<*mut c_void>, bool)> {
        self.call(slots, step)?.acquire(slots, step, read, spare)
    }

    fn stored(&mut self, slots: &mut Slots, at: Step, ts: i64) -> Result<Stored> {
        self.of(at).stored(slots, at, ts)
    }

    fn settle(&mut self, slots: &mut Slots) -> Result<()> {
        self.packed.settle(slots)
    }

    fn make_room(
        &mut self,
        slots: &mut Slots,
        step: Step,
        ts: i64,
        stored: (u64, bool),
    ) -> Result<Room> {
        self.of(step).make_room(slots, step, ts, stored)
    }

    fn check(&mut self, slots: &mut Slots) -> Result<()> {
        self.packed.check(slots)
    }

    fn is_checked_later(&self) -> bool {
        self.packed.is_checked_later()
    }

    fn largest(&self) -> u64 {
        self.packed.largest()
    }

    fn peaks(&self) -> Option<(u64, u64)> {
        self.packed.peaks()
    }

    fn close(&mut self, slots: &mut Slots) {
        self.packed.close(slots);
    }
}
