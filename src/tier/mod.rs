//! Tiers: the device cache, the host pool and the disk. Each tier is one slab or file, and events
//! order the lanes that use the tier.
//!
//! The tiers play a plan: this folder alone says which waits, copies and records a step of the plan
//! consists of. A session plays its plan on a device with memory. `crate::predict` plays a plan on a
//! device whose lanes are clocks.
//!
//! The plan numbers the slots. The tiers keep, for each slot, where the slot's snapshot lies and
//! which events a lane waits for before the lane touches these bytes. A raw snapshot lies at a
//! fixed offset, slot number times slot size. A compressed snapshot takes as many bytes as it has,
//! wherever an `Arena` finds them free. If the cache has too few free bytes, the compressed
//! snapshot stays in the pool, and a RESTORE reads the snapshot from there. With mixed storage the
//! first slots of the cache hold raw snapshots, and compressed snapshots take bytes behind them.

mod arena;
mod disk;
mod field_checksums;
#[cfg(test)]
mod judge_tests;
mod packed;
mod raw;
mod shared;
mod slots;
mod snapshot_coder;

use crate::device::{AppMemory, Device, Place, Traffic, PIECE};
use crate::error::{fail, Result};
use crate::fallible_vec;
use crate::layout::{Layout, Levels};
use crate::plan::{Issued, Moment, Plan, PreviousLevel, Step, NONE, SPARE_SLOTS};
use crate::together::{refused, Mode};
pub use disk::staging_bytes;
use disk::Disk;
pub use field_checksums::FieldChecksums;
use packed::CodedStore;
use raw::RawStore;
use shared::SharingStore;
pub use slots::Saved;
use slots::Slots;
pub use snapshot_coder::SnapshotCoder;
use std::ffi::c_void;
use std::ops::Deref;
use std::sync::Arc;

/// Where the previous time level of one snapshot is, in the cache and in the pool.
pub type PreviousLevels = (PreviousLevel, PreviousLevel);

/// A SAVE or RESTORE of u(ts) that a store plays.
struct Play {
    /// The step of the plan.
    step: Step,
    previous_levels: PreviousLevels,
    ts: i64,
    /// A RESTORE: no later RESTORE reads the snapshot.
    last: bool,
    /// Number of the spare buffer that is used if the step has no slot.
    spare: u32,
}

/// A way to store snapshots in the slots of the tiers. Each function without a comment is documented
/// at the function of `Tiers` that has its name and calls it.
trait Store: Send {
    /// Takes on a plan, whose slots exist already.
    fn fit(&mut self, _: &mut Slots, _: &Plan) -> Result<()> {
        Ok(())
    }

    /// Empties all slots. The device has no work.
    fn empty(&mut self, slots: &mut Slots);

    /// Notes a SAVE or RESTORE, of this store or of another one.
    fn next_call(&mut self, _: &mut Slots) -> Result<()> {
        Ok(())
    }

    /// Stores u(ts), for a step that stores the snapshot somewhere.
    fn save(&mut self, slots: &mut Slots, play: &Play, fields: &[AppMemory]) -> Result<()>;

    /// Issues the upload of a RESTORE's snapshot into its slot. The upload begins after all work
    /// that the application's lane has so far.
    fn fetch(&mut self, slots: &mut Slots, step: Step, levels: PreviousLevels) -> Result<()>;

    /// Restores u(ts). Returns whether the snapshot had to cross the link.
    fn restore(&mut self, slots: &mut Slots, play: &Play, fields: &[AppMemory]) -> Result<bool>;

    fn begin_save(&mut self, _: &mut Slots, _: Step, _: u32) -> Result<Vec<*mut c_void>> {
        refused([Mode::SharedLevels, Mode::ZeroCopy])
    }

    fn commit_save(&mut self, _: &mut Slots, _: &Play) -> Result<()> {
        refused([Mode::SharedLevels, Mode::ZeroCopy])
    }

    /// Returns the addresses, and whether the snapshot had to cross the link.
    fn acquire(&mut self, _: &mut Slots, _: &Play) -> Result<(Vec<*mut c_void>, bool)> {
        refused([Mode::SharedLevels, Mode::ZeroCopy])
    }

    fn stored(&mut self, _: &mut Slots, _: Step, _: i64) -> Result<Stored> {
        refused([Mode::SharedLevels, Mode::WithinShot])
    }

    /// Places all snapshots that wait in staging buffers.
    fn settle(&mut self, _: &mut Slots) -> Result<()> {
        Ok(())
    }

    /// Makes room for the snapshot of u(ts) of `stored`, in the slots of a step, and returns where
    /// its bytes go. The lanes have no work.
    fn make_room(
        &mut self,
        _: &mut Slots,
        _: Step,
        _: i64,
        _: (u64, bool),
    ) -> Result<Destinations> {
        refused([Mode::SharedLevels, Mode::WithinShot])
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

/// The bytes of a snapshot as they lie in a tier.
#[derive(Clone, Copy, Debug)]
pub struct Stored {
    /// Time step of the state.
    ts: i64,
    place: Place,
    /// Number of bytes of the snapshot.
    pub bytes: u64,
    /// Whether the bytes are the stream of a codec; otherwise they are the fields, at the offsets of the
    /// layout.
    pub is_coded: bool,
}

/// The one or two places to which the bytes of a snapshot go.
type Destinations = [Option<Place>; 2];

/// What a RESTORE found.
#[derive(Clone, Copy, Debug)]
pub struct Restored {
    /// Whether the snapshot had to cross the link.
    pub moved: bool,
    /// Whether the snapshot's transfer into the cache was issued before the RESTORE.
    pub prefetched: bool,
    /// Whether that transfer had not ended when the RESTORE came.
    pub late: bool,
}

/// How snapshots are stored in the tiers, with the codec or the checksums that work on the device.
pub enum Storage {
    /// Raw states.
    Raw,
    /// Compressed states; with mixed storage also raw states, in the first slots of the cache.
    Coded(SnapshotCoder),
    /// Raw states that share time levels.
    Sharing(Levels, FieldChecksums),
}

impl Storage {
    /// Bytes of the device slab, beside the cache, in which the codec or the checksums work.
    pub fn device_bytes(&self) -> u64 {
        match self {
            Storage::Raw => 0,
            Storage::Coded(coder) => coder.device_bytes(),
            Storage::Sharing(_, checksums) => checksums.device_bytes(),
        }
    }

    /// Bytes of device memory that the codec has allocated itself, outside the device slab.
    pub fn own_bytes(&self) -> u64 {
        match self {
            Storage::Coded(coder) => coder.own_bytes(),
            Storage::Raw | Storage::Sharing(..) => 0,
        }
    }

    /// Sets the offset `at` of these bytes in the device slab.
    pub fn settle_at(&mut self, device: &mut dyn Device, at: u64) -> Result<()> {
        match self {
            Storage::Raw => Ok(()),
            Storage::Coded(coder) => {
                coder.settle_at(at);
                Ok(())
            }
            Storage::Sharing(_, checksums) => checksums.settle_at(device, at),
        }
    }

    /// Frees what the codec or the checksums have on the device.
    pub fn close(&mut self, device: &mut dyn Device) {
        match self {
            Storage::Raw => {}
            Storage::Coded(coder) => coder.close(device),
            Storage::Sharing(_, checksums) => checksums.close(device),
        }
    }
}

/// Device cache, host pool and disk of one session, on which a plan is played. `P` is how the tiers
/// hold the plan: a session shares it, a prediction borrows it.
pub struct Tiers<P = Arc<Plan>> {
    plan: P,
    slots: Slots,
    /// Mixed storage: slots of the cache with smaller numbers than `raw_slots` hold raw snapshots,
    /// which never leave these slots. All other snapshots are those of `store`.
    raw: RawStore,
    raw_slots: u32,
    store: Box<dyn Store>,
    /// The plan's transfers to the device that are issued already.
    issued: Issued,
    /// The traffic of the transfers that `release` has issued since the last step was played. A
    /// session that goes on from here issues them after its first step.
    early: Traffic,
}

impl<P: Deref<Target = Plan>> Tiers<P> {
    /// Makes the tiers of `plan` on a device whose slabs are reserved. Compressed snapshots get
    /// `cache` bytes of the device slab and `pool` bytes of the host slab; raw snapshots ignore
    /// both numbers except that spare memory begins at `cache`.
    pub fn new(
        mut device: Box<dyn Device>,
        layout: Layout,
        plan: P,
        mut storage: Storage,
        cache: u64,
        pool: u64,
    ) -> Result<Self> {
        let app = device.event().inspect_err(|_| storage.close(&mut *device))?;
        let store: Box<dyn Store> = match storage {
            Storage::Raw => Box::new(RawStore),
            Storage::Coded(coder) => Box::new(CodedStore::new(coder, cache, pool)),
            Storage::Sharing(levels, checksums) => Box::new(SharingStore::new(levels, checksums)),
        };
        Self::of(Slots::new(device, app, layout, cache), store, plan)
    }

    fn of(slots: Slots, store: Box<dyn Store>, plan: P) -> Result<Self> {
        let (issued, early) = (Issued::default(), Traffic::default());
        let mut tiers = Tiers { plan, slots, raw: RawStore, raw_slots: 0, store, issued, early };
        tiers.fitted()?;
        Ok(tiers)
    }

    /// Replaces the plan. All slots are empty afterwards. If this fails, the old plan stays.
    pub fn fit(&mut self, plan: P) -> Result<()> {
        let before = std::mem::replace(&mut self.plan, plan);
        self.fitted().inspect_err(|_| self.plan = before)
    }

    /// Makes the slots of the plan, all of them empty.
    fn fitted(&mut self) -> Result<()> {
        let plan = &*self.plan;
        self.raw_slots = plan.raw_slots;
        let fitted = self.slots.fit(plan).and_then(|()| self.store.fit(&mut self.slots, plan));
        let (device, host) = (plan.device_slots, plan.host_slots);
        fitted.map_err(|e| e.within(format_args!("{device} device and {host} host slots")))?;
        self.empty();
        Ok(())
    }

    /// The plan that is played.
    pub fn plan(&self) -> &P {
        &self.plan
    }

    /// Puts the first `slots` pool slots on the device's disk, where each takes `slot_bytes` bytes.
    /// [`staging_bytes`] bytes of the host slab from `at` on are the staging buffers. All slots are
    /// empty afterwards.
    pub fn use_disk(&mut self, slots: u32, slot_bytes: u64, at: u64) -> Result<()> {
        self.slots.disk = Disk::new(&mut *self.slots.device, slots, slot_bytes, at)?;
        self.empty();
        Ok(())
    }

    /// Number of pool slots on disk.
    pub fn on_disk(&self) -> u32 {
        self.slots.disk.slots
    }

    /// The store of a step's snapshot.
    fn store_of(&mut self, step: Step) -> (&mut dyn Store, &mut Slots) {
        match step.slot < self.raw_slots {
            true => (&mut self.raw, &mut self.slots),
            false => (&mut *self.store, &mut self.slots),
        }
    }

    /// As `store_of`, for a SAVE or RESTORE. Compressed snapshots that wait in staging buffers are
    /// placed after a number of SAVEs and RESTOREs; this call counts those of raw snapshots, too.
    fn called(&mut self, step: Step) -> Result<(&mut dyn Store, &mut Slots)> {
        if step.slot < self.raw_slots {
            self.store.next_call(&mut self.slots)?;
        }
        Ok(self.store_of(step))
    }

    fn empty(&mut self) {
        self.store.empty(&mut self.slots);
        (self.issued, self.early) = (Issued::default(), Traffic::default());
    }

    /// The device of these tiers, for reading its traffic and times.
    pub fn device(&mut self) -> &mut dyn Device {
        &mut *self.slots.device
    }

    /// Waits for all work of the device, then empties all slots. Fails as `check` does.
    pub fn clear(&mut self) -> Result<()> {
        self.slots.device.synchronize()?;
        self.slots.device.forget_stream();
        self.slots.device.forget_faults();
        let checked = self.store.check(&mut self.slots);
        self.empty();
        checked
    }

    /// Whether an error of a restore can become known only after the restore has returned.
    pub fn is_checked_later(&self) -> bool {
        self.store.is_checked_later()
    }

    /// Waits for all calls of the device. Fails if one of these calls reported an error.
    pub fn finish(&mut self) -> Result<()> {
        self.slots.device.finish_calls()?;
        self.slots.device.check_disk()?;
        self.store.check(&mut self.slots)
    }

    /// What saves did, for all saves that were placed since the previous call of this function.
    pub fn saved(&mut self) -> impl Iterator<Item = Saved> + '_ {
        self.slots.saved.drain(..)
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

    /// Plays the SAVE that is step `number` of the plan: stores the state u(ts), whose fields are
    /// `fields`. The fields are read in the order of the application's lane: work enqueued on that
    /// lane after this call may overwrite the fields.
    pub fn save(&mut self, number: usize, ts: i64, fields: &[AppMemory]) -> Result<()> {
        self.catch_up(number)?;
        let step = self.plan.steps[number];
        if step.slot == NONE && step.host == NONE {
            self.slots.saved.push(Saved { ts, bytes: 0, written: false });
        } else {
            self.slots.device.concerns(ts);
            let play = self.step(number, ts, false);
            let (store, slots) = self.called(step)?;
            store.save(slots, &play, fields)?;
        }
        self.issue(Moment::After(number))
    }

    /// Addresses at which the application may compute the fields of a state before the SAVE that is
    /// step `number` of the plan: in the step's slot, or in a spare buffer.
    pub fn begin_save(&mut self, number: usize) -> Result<Vec<*mut c_void>> {
        let step = self.plan.steps[number];
        let (store, slots) = self.store_of(step);
        store.begin_save(slots, step, spare(number))
    }

    /// As `save`, for the state u(ts) that the application has computed at the addresses from
    /// `begin_save`.
    pub fn commit_save(&mut self, number: usize, ts: i64) -> Result<()> {
        self.slots.device.check_disk()?;
        let play = self.step(number, ts, false);
        let (store, slots) = self.called(play.step)?;
        store.commit_save(slots, &play)?;
        self.issue(Moment::After(number))
    }

    /// Plays the RESTORE that is step `number` of the plan: restores the state u(ts) into `fields`.
    /// The fields hold the state when the application's lane has passed this call. `last`: no later
    /// RESTORE reads this snapshot.
    pub fn restore(
        &mut self,
        number: usize,
        ts: i64,
        last: bool,
        fields: &[AppMemory],
    ) -> Result<Restored> {
        let play = self.step(number, ts, last);
        let ((), restored) = self.read(number, |store, slots| {
            slots.device.concerns(ts);
            Ok(((), store.restore(slots, &play, fields)?))
        })?;
        Ok(restored)
    }

    /// As `restore`, but returns the addresses at which the application finds the fields of u(ts):
    /// in the step's slot, or in a spare buffer, into which the state is copied or decoded.
    pub fn acquire(
        &mut self,
        number: usize,
        ts: i64,
        last: bool,
    ) -> Result<(Vec<*mut c_void>, Restored)> {
        let play = self.step(number, ts, last);
        self.read(number, |store, slots| store.acquire(slots, &play))
    }

    /// Issues the transfers that waited only until the application gave back the addresses from
    /// `acquire`. `number` is the RESTORE's step of the plan, after which no other step was played.
    pub fn release(&mut self, number: usize) -> Result<()> {
        let before = self.slots.device.traffic() - self.early;
        let issued = self.issue(Moment::Released(number));
        self.early = self.slots.device.traffic() - before;
        issued
    }

    /// Returns the traffic of transfers that the first step of a session that goes on from here
    /// issues once more.
    pub fn early(&self) -> Traffic {
        self.early
    }

    /// Places all snapshots that wait in staging buffers, and waits for all work of the device, so that
    /// `stored`, `read_stored` and `load` may touch the slots. Call this between `enter` and `leave`.
    pub fn settle(&mut self) -> Result<()> {
        self.store.settle(&mut self.slots)?;
        self.slots.device.synchronize()
    }

    /// Finds the bytes of the snapshot of u(ts), which lies in the slots `at`. Fails if the store knows
    /// otherwise. Call `settle` before.
    pub fn stored(&mut self, at: Step, ts: i64) -> Result<Stored> {
        let (store, slots) = self.store_of(at);
        store.stored(slots, at, ts)
    }

    /// Passes the bytes of a snapshot to `sink`, in pieces of at most [`PIECE`] bytes. Call `settle`
    /// before.
    pub fn read_stored(
        &mut self,
        stored: Stored,
        sink: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut piece = fallible_vec::filled(0u8, stored.bytes.min(PIECE as u64) as usize)?;
        let Slots { device, disk, .. } = &mut self.slots;
        device.concerns(stored.ts);
        let place = match stored.place {
            Place::Disk(from) => disk.read_now(&mut **device, from, stored.bytes)?,
            place => place,
        };
        let mut at = 0;
        while at < stored.bytes {
            let piece_bytes = (stored.bytes - at).min(PIECE as u64) as usize;
            let piece = &mut piece[..piece_bytes];
            device.read(place.plus(at), piece)?;
            sink(piece)?;
            at += piece_bytes as u64;
        }
        Ok(())
    }

    /// Plays step `number` of the plan as a SAVE of u(ts) whose snapshot `source` passes on piece by
    /// piece: `bytes` bytes, the stream of a codec if `is_coded`.
    pub fn load(
        &mut self,
        number: usize,
        ts: i64,
        (bytes, is_coded): (u64, bool),
        source: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>,
    ) -> Result<()> {
        let step = self.plan.steps[number];
        self.settle()?;
        let (store, slots) = self.store_of(step);
        let room = store.make_room(slots, step, ts, (bytes, is_coded))?;
        let Slots { device, disk, .. } = &mut self.slots;
        let device = &mut **device;
        device.concerns(ts);
        let mut at = 0;
        source(&mut |piece| {
            let end = at + piece.len() as u64;
            if end > bytes {
                return fail!(Stream, "the snapshot of state {ts} has more than {bytes} bytes");
            }
            for place in room.iter().flatten() {
                let place = match place {
                    Place::Disk(_) => disk.passage(),
                    place => *place,
                };
                device.write(place.plus(at), piece)?;
            }
            at = end;
            Ok(())
        })?;
        if at != bytes {
            return fail!(Stream, "the snapshot of state {ts} has {at} bytes instead of {bytes}");
        }
        for place in room.into_iter().flatten() {
            if let Place::Disk(to) = place {
                disk.write_now(device, to, bytes)?;
            }
        }
        self.issue(Moment::After(number))
    }

    /// Plays a RESTORE. `body` reads the snapshot, and returns a result and whether the snapshot had
    /// to cross the link.
    fn read<R>(
        &mut self,
        number: usize,
        body: impl FnOnce(&mut dyn Store, &mut Slots) -> Result<(R, bool)>,
    ) -> Result<(R, Restored)> {
        self.catch_up(number)?;
        let step = self.plan.steps[number];
        let prefetched =
            step.slot != NONE && step.host != NONE && self.issued.has(&self.plan, number);
        self.issue(Moment::Restore(number))?;
        let late = prefetched && self.slots.is_late(step)?;
        let (store, slots) = self.called(step)?;
        let (result, moved) = body(store, slots)?;
        self.issue(Moment::After(number))?;
        Ok((result, Restored { moved, prefetched, late }))
    }

    /// Fails if a disk lane has failed. Issues the transfers that were due before step `number` of
    /// the plan: there are such transfers only if the plan was completed since the step before, at the end of an online forward phase.
    fn catch_up(&mut self, number: usize) -> Result<()> {
        self.slots.device.check_disk()?;
        match number.checked_sub(1) {
            Some(before) if self.plan.drops => self.issue(Moment::After(before)),
            _ => Ok(()),
        }
    }

    /// Issues the transfers that are due at `moment`, in the plan's order. Each transfer begins
    /// after all work that the application's lane has so far.
    fn issue(&mut self, moment: Moment) -> Result<()> {
        if !matches!(moment, Moment::Released(_)) {
            self.early = Traffic::default();
        }
        while let Some(fetch) = self.issued.due(&self.plan, moment) {
            let number = fetch.restore as usize;
            let (step, levels) = (self.plan.steps[number], self.plan.previous_levels(number));
            let (store, slots) = self.store_of(step);
            store.fetch(slots, step, levels)?;
        }
        Ok(())
    }

    /// Step `number` of the plan as a SAVE or RESTORE of u(ts).
    fn step(&self, number: usize, ts: i64, last: bool) -> Play {
        let (step, previous_levels) = (self.plan.steps[number], self.plan.previous_levels(number));
        Play { step, previous_levels, ts, last, spare: spare(number) }
    }
}

impl Tiers {
    /// Extends an open plan, which grows with each SAVE, up to the step `number`.
    pub fn reach(&mut self, number: usize) -> Result<()> {
        match self.plan.is_open() && self.plan.steps.len() <= number {
            true => Arc::make_mut(&mut self.plan).reach(number),
            false => Ok(()),
        }
    }

    /// Goes on with `plan`, which begins with the steps of the open plan so far.
    pub fn complete(&mut self, plan: Arc<Plan>) {
        self.plan = plan;
    }
}

/// The number of the spare buffer for a step of the plan that has no slot in the device cache.
/// Neighbouring steps have different spare buffers.
fn spare(number: usize) -> u32 {
    number as u32 % SPARE_SLOTS
}

impl<P> Drop for Tiers<P> {
    fn drop(&mut self) {
        self.store.close(&mut self.slots);
    }
}
