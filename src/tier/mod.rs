//! Tiers: the device cache, the host pool and the disk. Each tier is one slab or file, and events
//! order the lanes that use the tier.
//!
//! The tiers play a plan: this folder alone says which waits, copies and records a step of the plan
//! consists of. A session plays its plan on a device with memory. `crate::predict` plays a plan on a
//! device whose lanes are clocks.
//!
//! A snapshot is one record, the whole state, or two, its parts ([`Parts`]). The plan numbers the slots
//! of records. The tiers keep, for each slot, in which bytes the record of the slot lies (`extent`), and
//! which operations a lane waits for before the lane touches these bytes (`order`). A raw record lies
//! at a fixed offset, slot number times slot size. A compressed record takes as many bytes as it has,
//! wherever an `Arena` finds them free. If the cache has too few free bytes, the compressed record stays
//! in the pool, and a RESTORE reads the record from there. With mixed storage the first slots of the
//! cache hold raw records, and compressed records take bytes behind them.

mod actions;
mod arena;
mod coding;
mod copies;
mod cut;
mod disk;
mod extent;
mod handed;
#[cfg(test)]
mod judge_tests;
mod lane_coder;
mod order;
mod play;
#[cfg(test)]
mod pool_tests;
mod room;
mod snapshot_coder;
mod sums;

use crate::device::{Device, Traffic};
use crate::error::Result;
use crate::layout::{Layout, Parts};
use crate::plan::{Issued, Plan};
use coding::Staged;
use disk::Disk;
use extent::{Extent, Tier};
use order::Order;
use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Arc;

pub use disk::staging_bytes;
pub use lane_coder::{buffers_for, LaneCoder, MOST_BUFFERS};
pub use play::{Restored, Saved, Stored};
pub use snapshot_coder::{CodedRecord, SnapshotCoder};
pub use sums::Sums;

/// How snapshots are stored in the tiers, with the codec and the checksums that work on the device.
pub struct Storage {
    /// How a state is cut into records.
    pub parts: Parts,
    /// Compresses records; `None`: all records are raw. With mixed storage the records in the first slots
    /// of the cache are raw.
    pub coder: Option<SnapshotCoder>,
    /// Compares levels; `None` if states share none.
    pub sums: Option<Sums>,
}

impl Storage {
    /// Bytes of the device slab, beside the cache, in which the codec and the checksums work.
    pub fn device_bytes(&self) -> u64 {
        let coder = self.coder.as_ref().map_or(0, SnapshotCoder::device_bytes);
        coder + self.sums.as_ref().map_or(0, Sums::device_bytes)
    }

    /// Bytes of device memory that the codec has allocated itself, outside the device slab.
    pub fn own_bytes(&self) -> u64 {
        self.coder.as_ref().map_or(0, SnapshotCoder::own_bytes)
    }

    /// Sets the offset `at` of these bytes in the device slab.
    pub fn settle_at(&mut self, device: &mut dyn Device, at: u64) -> Result<()> {
        let coder = self.coder.as_ref().map_or(0, SnapshotCoder::device_bytes);
        self.coder.iter_mut().for_each(|coder| coder.settle_at(at));
        self.sums.as_mut().map_or(Ok(()), |sums| sums.settle_at(device, at + coder))
    }

    /// Fails if the device has found that a restored state or a level is wrong. The device must have
    /// ended all calls.
    fn check(&mut self, device: &mut (impl Device + ?Sized)) -> Result<()> {
        self.coder.as_mut().map_or(Ok(()), SnapshotCoder::check)?;
        self.sums.as_mut().map_or(Ok(()), |sums| sums.check(device))
    }

    /// Frees what the codec and the checksums have on the device.
    pub fn close(&mut self, device: &mut (impl Device + ?Sized)) {
        self.coder.iter_mut().for_each(|coder| coder.close(device));
        self.sums.iter_mut().for_each(|sums| sums.close(device));
    }
}

/// Device cache, host pool and disk of one session, on which a plan is played. `P` is how the tiers
/// hold the plan: a session shares it, a prediction borrows it. An action is the number of a SAVE or
/// RESTORE among all SAVEs and RESTOREs of the plan.
pub struct Tiers<P = Arc<Plan>, D: Device + ?Sized = dyn Device> {
    plan: P,
    device: Box<D>,
    layout: Layout,
    storage: Storage,
    cache: Tier,
    pool: Tier,
    disk: Disk,
    extents: Vec<Extent>,
    /// Numbers of extents that no slot names.
    unused: Vec<u32>,
    /// Slots of the cache with smaller numbers hold raw records; all other records go through the coder,
    /// if there is one.
    raw_slots: u32,
    /// Snapshots in staging buffers, oldest first: compressed, but not yet placed in a tier.
    staged: VecDeque<Staged>,
    /// Number of SAVEs and RESTOREs so far.
    calls: u64,
    order: Order,
    /// The plan's transfers to the device that are issued already.
    issued: Issued,
    /// The traffic of the transfers that `release` has issued since the last step was played. A
    /// session that goes on from here issues them after its first step.
    early: Traffic,
    /// What saves did that `saved` has not returned yet.
    saved: Vec<Saved>,
    /// Bytes of the largest compressed record of this sweep.
    largest: u64,
    /// Bytes of all compressed records of this sweep, before and after their compression.
    coded: [u64; 2],
    /// Offset in the device slab, in bytes, of the spare memory in which the application works
    /// beside the slots.
    spare: u64,
    /// Zero copy: extents in which the application may work until its next SAVE or RESTORE.
    in_hand: Vec<usize>,
}

impl<P: Deref<Target = Plan>, D: Device + ?Sized> Tiers<P, D> {
    /// Makes the tiers of `plan` on a device whose slabs are reserved. Compressed records get
    /// `cache` bytes of the device slab and `pool` bytes of the host slab; raw records ignore
    /// both numbers except that spare memory begins at `cache`.
    pub fn new(
        mut device: Box<D>,
        layout: Layout,
        plan: P,
        mut storage: Storage,
        cache: u64,
        pool: u64,
    ) -> Result<Self> {
        let app = device.event().inspect_err(|_| storage.close(&mut *device))?;
        let mut tiers = Tiers {
            plan,
            device,
            layout,
            storage,
            cache: Tier::new(cache, true),
            pool: Tier::new(pool, false),
            disk: Disk::default(),
            extents: Vec::new(),
            unused: Vec::new(),
            raw_slots: 0,
            staged: VecDeque::new(),
            calls: 0,
            order: Order::new(app),
            issued: Issued::default(),
            early: Traffic::default(),
            saved: Vec::new(),
            largest: 0,
            coded: [0; 2],
            spare: cache,
            in_hand: Vec::new(),
        };
        tiers.fitted()?;
        Ok(tiers)
    }

    /// Replaces the plan. All slots are empty afterwards. If this fails, the old plan stays. The device
    /// has no work.
    pub fn fit(&mut self, plan: P) -> Result<()> {
        let before = std::mem::replace(&mut self.plan, plan);
        self.fitted().inspect_err(|_| self.plan = before)
    }

    /// The plan that is played.
    pub fn plan(&self) -> &P {
        &self.plan
    }

    /// Number of pool slots on disk.
    pub fn on_disk(&self) -> u32 {
        self.disk.slots
    }

    /// The device of these tiers, for reading its traffic and times.
    pub fn device(&mut self) -> &mut D {
        &mut self.device
    }

    /// Waits for all work of the device, then empties all slots. Fails as `finish` does.
    pub fn clear(&mut self) -> Result<()> {
        self.device.synchronize()?;
        self.device.forget_stream();
        self.device.forget_faults();
        let checked = self.storage.check(&mut *self.device);
        self.empty();
        checked
    }

    /// Whether an error of a restore can become known only after the restore has returned.
    pub fn is_checked_later(&self) -> bool {
        let coder = self.storage.coder.as_ref();
        coder.is_some_and(SnapshotCoder::is_checked_later)
            || matches!(self.storage.sums, Some(Sums::Gpu(_)))
    }

    /// Waits for all calls of the device. Fails if one of these calls reported an error, or found that a
    /// restored state or a level is wrong.
    pub fn finish(&mut self) -> Result<()> {
        self.device.finish_calls()?;
        self.device.check_disk()?;
        self.storage.check(&mut *self.device)
    }

    /// What saves did, for all saves that were placed since the previous call of this function.
    pub fn saved(&mut self) -> impl Iterator<Item = Saved> + '_ {
        self.saved.drain(..)
    }

    /// Bytes of the largest compressed record of this sweep.
    pub fn largest(&self) -> u64 {
        self.largest
    }

    /// Bytes of all records that were compressed in this sweep, before and after.
    pub fn coded(&self) -> [u64; 2] {
        self.coded
    }

    /// Bytes that records occupy at most in device memory and in the pool, device memory of the codec
    /// and the checksums included.
    pub fn peaks(&self) -> (u64, u64) {
        let bytes = |slots: u32| u64::from(slots).saturating_mul(self.storage.parts.slot_bytes());
        let (device, host) = match &self.storage.coder {
            None => {
                let in_memory = self.plan.host_slots.saturating_sub(self.disk.slots);
                (bytes(self.plan.device_slots), bytes(in_memory))
            }
            Some(_) => (self.cache.arena.peak(), self.pool.arena.peak()),
        };
        let beside = self.storage.device_bytes() + self.storage.own_bytes();
        (device.saturating_add(beside), host)
    }

    /// Returns the traffic of transfers that the first step of a session that goes on from here
    /// issues once more.
    pub fn early(&self) -> Traffic {
        self.early
    }
}

impl Tiers {
    /// Extends an open plan, which grows with each SAVE, up to the SAVE `action`.
    pub fn reach(&mut self, action: usize) -> Result<()> {
        match self.plan.is_open() && self.plan.steps_of(action).is_empty() {
            true => Arc::make_mut(&mut self.plan).reach(action),
            false => Ok(()),
        }
    }

    /// Goes on with `plan`, which begins with the steps of the open plan so far.
    pub fn complete(&mut self, plan: Arc<Plan>) {
        self.plan = plan;
    }
}

impl<P, D: Device + ?Sized> Drop for Tiers<P, D> {
    fn drop(&mut self) {
        self.storage.close(&mut *self.device);
    }
}
