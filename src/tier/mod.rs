//! Tiers: the device cache and the host pool. Each tier is one slab, and events order the lanes
//! that use the slab.
//!
//! The plan numbers the slots. The tiers keep, for each slot, where the slot's snapshot lies and
//! which events a lane waits for before the lane touches these bytes. A raw snapshot lies at a
//! fixed offset, slot number times slot size. A compressed snapshot takes as many bytes as it has,
//! wherever an `Arena` finds them free. If the cache has too few free bytes, the compressed
//! snapshot stays in the pool, and a RESTORE reads the snapshot from there.

mod arena;
mod field_checksums;
mod packed;
mod raw;
mod shared;
mod slots;
mod snapshot_coder;

use crate::device::{AppMemory, Device};
use crate::error::{fail, Result};
use crate::layout::{Layout, Levels};
use crate::plan::{Plan, PreviousLevel, Step, NONE};
pub use field_checksums::FieldChecksums;
use packed::Packed;
use raw::Raw;
use shared::Shared;
pub use slots::Saved;
use slots::Slots;
pub use snapshot_coder::SnapshotCoder;
use std::ffi::c_void;

/// Where the previous time level of one snapshot is, in the cache and in the pool.
pub type PreviousLevels = (PreviousLevel, PreviousLevel);

/// A way to store snapshots in the slots of the tiers. `step` is the step of the plan. Each function
/// is documented at the function of `Tiers` that has its name and calls it.
trait Store: Send {
    /// Takes on a plan, whose slots exist already.
    fn fit(&mut self, _: &mut Slots, _: &Plan) -> Result<()> {
        Ok(())
    }

    /// Empties all slots. The device has no work.
    fn empty(&mut self, slots: &mut Slots);

    /// Stores u(ts), for a step that stores the snapshot somewhere.
    fn save(
        &mut self,
        slots: &mut Slots,
        step: Step,
        previous_levels: PreviousLevels,
        ts: i64,
        fields: &[AppMemory],
    ) -> Result<()>;

    fn fetch(
        &mut self,
        slots: &mut Slots,
        step: Step,
        previous_levels: PreviousLevels,
    ) -> Result<()>;

    /// Restores u(ts) for `read` = (ts, whether no later RESTORE reads the snapshot).
    fn restore(
        &mut self,
        slots: &mut Slots,
        step: Step,
        previous_levels: PreviousLevels,
        read: (i64, bool),
        fields: &[AppMemory],
    ) -> Result<bool>;

    fn begin_save(&mut self, _: &mut Slots, _: Step, _: u32) -> Result<Vec<*mut c_void>> {
        without_zero_copy()
    }

    fn commit_save(&mut self, _: &mut Slots, _: Step, _: i64, _: u32) -> Result<()> {
        without_zero_copy()
    }

    fn acquire(
        &mut self,
        _: &mut Slots,
        _: Step,
        _: (i64, bool),
        _: u32,
    ) -> Result<(Vec<*mut c_void>, bool)> {
        without_zero_copy()
    }

    fn check(&mut self, _: &mut Slots) -> Result<()> {
        Ok(())
    }

    fn is_checked_later(&self) -> bool {
        false
    }

    fn largest(&self) -> u64 {
        0
    }

    fn peaks(&self) -> Option<(u64, u64)> {
        None
    }

    /// Frees what the store has on the device.
    fn close(&mut self, _: &mut Slots) {}
}

fn without_zero_copy<T>() -> Result<T> {
    fail!(
        Unsupported,
        "shared_levels = 1: snapshots that share time levels are copied; set zero_copy = 0"
    )
}

/// Device cache and host pool of one session.
pub struct Tiers {
    slots: Slots,
    store: Box<dyn Store>,
}

impl Tiers {
    /// Makes the tiers of `plan` on a device whose slabs are reserved. Compressed snapshots get
    /// `cache` bytes of the device slab and `pool` bytes of the host slab; raw snapshots ignore
    /// both numbers except that spare memory begins at `cache`.
    pub fn new(
        device: Box<dyn Device>,
        layout: Layout,
        plan: &Plan,
        coder: Option<SnapshotCoder>,
        cache: u64,
        pool: u64,
    ) -> Result<Self> {
        let store: Box<dyn Store> = match coder {
            Some(coder) => Box::new(Packed::new(coder, cache, pool)),
            None => Box::new(Raw),
        };
        Self::of(Slots::new(device, layout, cache)?, store, plan)
    }

    /// Makes the tiers of `plan` for raw snapshots that share the time levels `levels`.
    pub fn sharing_levels(
        device: Box<dyn Device>,
        layout: Layout,
        plan: &Plan,
        levels: Levels,
        checksums: FieldChecksums,
    ) -> Result<Self> {
        let store = Box::new(Shared::new(levels, checksums));
        Self::of(Slots::new(device, layout, 0)?, store, plan)
    }

    fn of(slots: Slots, store: Box<dyn Store>, plan: &Plan) -> Result<Self> {
        let mut tiers = Tiers { slots, store };
        tiers.fit(plan)?;
        Ok(tiers)
    }

    /// Replaces the plan. All slots are empty afterwards.
    pub fn fit(&mut self, plan: &Plan) -> Result<()> {
        let fitted = self.slots.fit(plan).and_then(|()| self.store.fit(&mut self.slots, plan));
        let (device, host) = (plan.device_slots, plan.host_slots);
        fitted.map_err(|e| e.within(format_args!("{device} device and {host} host slots")))?;
        self.store.empty(&mut self.slots);
        Ok(())
    }

    /// The device of these tiers, for reading its traffic and times.
    pub fn device(&mut self) -> &mut dyn Device {
        &mut *self.slots.device
    }

    /// Waits for all work of the device, then empties all slots. Fails as `check` does.
    pub fn clear(&mut self) -> Result<()> {
        self.slots.device.synchronize()?;
        self.slots.device.forget_stream();
        let checked = self.store.check(&mut self.slots);
        self.store.empty(&mut self.slots);
        checked
    }

    /// Whether an error of a restore can become known only after the restore has returned.
    pub fn is_checked_later(&self) -> bool {
        self.store.is_checked_later()
    }

    /// Waits for all calls of the device. Fails if one of these calls reported an error.
    pub fn finish(&mut self) -> Result<()> {
        self.slots.device.finish_calls()?;
        self.store.check(&mut self.slots)
    }

    /// What saves did, for all saves that were placed since the previous call of this function.
    pub fn saved(&mut self) -> Vec<Saved> {
        std::mem::take(&mut self.slots.saved)
    }

    /// Bytes of the largest compressed snapshot of this sweep.
    pub fn largest(&self) -> u64 {
        self.store.largest()
    }

    /// Bytes that snapshots occupy at most in device memory and in the pool, device memory of the
    /// codec or the checksums included; `None` for raw snapshots without shared time levels.
    pub fn peaks(&self) -> Option<(u64, u64)> {
        self.store.peaks()
    }

    /// Stores the state u(ts), whose fields are `fields`, where `step` says. The fields are read in
    /// the order of the application's lane: work enqueued on that lane after this call may
    /// overwrite the fields.
    pub fn save(
        &mut self,
        step: Step,
        previous_levels: PreviousLevels,
        ts: i64,
        fields: &[AppMemory],
    ) -> Result<()> {
        if step.slot == NONE && step.host == NONE {
            self.slots.saved.push(Saved { ts, bytes: 0, written: false });
            return Ok(());
        }
        self.slots.device.concerns(ts);
        self.store.save(&mut self.slots, step, previous_levels, ts, fields)
    }

    /// Addresses at which the application may compute the fields of a state before a SAVE: in the
    /// step's slot, or in spare buffer number `spare`.
    pub fn begin_save(&mut self, step: Step, spare: u32) -> Result<Vec<*mut c_void>> {
        self.store.begin_save(&mut self.slots, step, spare)
    }

    /// Stores the state u(ts) that the application has computed at the addresses from `begin_save`.
    pub fn commit_save(&mut self, step: Step, ts: i64, spare: u32) -> Result<()> {
        self.store.commit_save(&mut self.slots, step, ts, spare)
    }

    /// Addresses at which the application finds the fields of u(ts) after a RESTORE: in the step's
    /// slot, or in spare buffer number `spare`, into which the state is copied or decoded. Also
    /// returns whether the snapshot had to cross the link. `last`: no later RESTORE reads this
    /// snapshot.
    pub fn acquire(
        &mut self,
        step: Step,
        ts: i64,
        last: bool,
        spare: u32,
    ) -> Result<(Vec<*mut c_void>, bool)> {
        self.store.acquire(&mut self.slots, step, (ts, last), spare)
    }

    /// Issues the upload of a RESTORE's snapshot into its slot. The upload begins after all work
    /// that the application's lane has so far.
    pub fn fetch(&mut self, step: Step, previous_levels: PreviousLevels) -> Result<()> {
        self.store.fetch(&mut self.slots, step, previous_levels)
    }

    /// Whether the upload that a RESTORE needs has not ended yet.
    pub fn is_late(&self, step: Step) -> Result<bool> {
        self.slots.is_late(step)
    }

    /// Restores the state u(ts) into `fields` from where `step` says. The fields hold the state
    /// when the application's lane has passed this call. `last`: no later RESTORE reads this
    /// snapshot. Returns whether the snapshot had to cross the link.
    pub fn restore(
        &mut self,
        step: Step,
        previous_levels: PreviousLevels,
        ts: i64,
        last: bool,
        fields: &[AppMemory],
    ) -> Result<bool> {
        self.slots.device.concerns(ts);
        self.store.restore(&mut self.slots, step, previous_levels, (ts, last), fields)
    }
}

impl Drop for Tiers {
    fn drop(&mut self) {
        self.store.close(&mut self.slots);
    }
}
