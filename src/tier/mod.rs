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

mod arena;
mod coding;
mod cut;
mod disk;
mod extent;
mod handed;
#[cfg(test)]
mod judge_tests;
mod order;
mod room;
mod snapshot_coder;
mod store;
#[cfg(test)]
mod store_tests;
mod sums;

use crate::device::{AppMemory, Device, Place, Traffic};
use crate::error::Result;
use crate::layout::{Layout, Parts};
use crate::plan::{Issued, Level, Moment, Plan, Step, NONE, SPARE_SLOTS};
pub use disk::staging_bytes;
pub use snapshot_coder::{CodedRecord, SnapshotCoder};
use std::ffi::c_void;
use std::ops::Deref;
use std::sync::Arc;
use store::Store;
pub use sums::Sums;

/// The number of the record that holds part `part` of u(ts).
fn record(ts: i64, part: usize) -> i64 {
    2 * ts + part as i64
}

/// The time step of the state of a record.
fn state_of(record: i64) -> i64 {
    record >> 1
}

/// A SAVE or RESTORE of u(ts) that the store plays.
struct Play<'p> {
    /// One step of the plan for each part.
    steps: &'p [Step],
    /// What part 1 is.
    level: Level,
    ts: i64,
    /// Number of the spare state that is used where a step has no slot.
    spare: u32,
    /// Whether the next SAVE compares its previous level with this state's level.
    is_claimed: bool,
    /// Zero copy: whether the application works in the slots, and not in spare memory.
    in_slots: bool,
}

impl Play<'_> {
    /// What part `part` is.
    fn level_of(&self, part: usize) -> Level {
        if part == 1 {
            self.level
        } else {
            Level::Own
        }
    }

    /// The number of the record of part `part`.
    fn record(&self, part: usize) -> i64 {
        match self.level_of(part) {
            Level::Own => record(self.ts, part),
            Level::Claimed | Level::Shared => record(self.ts - 1, 0),
        }
    }

    /// The parts that a SAVE stores somewhere, with their steps.
    fn made(&self) -> impl Iterator<Item = (usize, Step)> + '_ {
        self.steps.iter().copied().enumerate().filter(|(part, step)| {
            let is_stored = step.slot != NONE || step.host != NONE;
            is_stored && self.level_of(*part) == Level::Own
        })
    }
}

/// What a SAVE did with its snapshot.
#[derive(Clone, Copy, Debug, Default)]
pub struct Saved {
    /// Time step of the saved state.
    pub ts: i64,
    /// Bytes of the snapshot; 0 if no RESTORE reads the snapshot, which is then not stored.
    pub bytes: u64,
    /// Records of the snapshot that cross the link to the host.
    pub written: u32,
}

/// The bytes of a record as they lie in a tier.
#[derive(Clone, Copy, Debug)]
pub struct Stored {
    record: i64,
    place: Place,
    /// Number of bytes of the record.
    pub bytes: u64,
    /// Whether the bytes are the stream of a codec; otherwise they are fields, at the offsets of their part.
    pub is_coded: bool,
}

/// What a RESTORE found.
#[derive(Clone, Copy, Debug)]
pub struct Restored {
    /// Records of the snapshot that had to cross the link.
    pub moved: u32,
    /// Whether the snapshot's transfer into the cache was issued before the RESTORE.
    pub prefetched: bool,
    /// Whether that transfer had not ended when the RESTORE came.
    pub late: bool,
}

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

    /// Frees what the codec and the checksums have on the device.
    pub fn close(&mut self, device: &mut dyn Device) {
        self.coder.iter_mut().for_each(|coder| coder.close(device));
        self.sums.iter_mut().for_each(|sums| sums.close(device));
    }
}

/// Device cache, host pool and disk of one session, on which a plan is played. `P` is how the tiers
/// hold the plan: a session shares it, a prediction borrows it. An action is the number of a SAVE or
/// RESTORE among all SAVEs and RESTOREs of the plan.
pub struct Tiers<P = Arc<Plan>> {
    plan: P,
    store: Store,
    /// The plan's transfers to the device that are issued already.
    issued: Issued,
    /// The traffic of the transfers that `release` has issued since the last step was played. A
    /// session that goes on from here issues them after its first step.
    early: Traffic,
}

impl<P: Deref<Target = Plan>> Tiers<P> {
    /// Makes the tiers of `plan` on a device whose slabs are reserved. Compressed records get
    /// `cache` bytes of the device slab and `pool` bytes of the host slab; raw records ignore
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
        let store = Store::new(device, app, layout, storage, cache, pool);
        let (issued, early) = (Issued::default(), Traffic::default());
        let mut tiers = Tiers { plan, store, issued, early };
        tiers.fitted()?;
        Ok(tiers)
    }

    /// Replaces the plan. All slots are empty afterwards. If this fails, the old plan stays. The device
    /// has no work.
    pub fn fit(&mut self, plan: P) -> Result<()> {
        let before = std::mem::replace(&mut self.plan, plan);
        self.fitted().inspect_err(|_| self.plan = before)
    }

    /// Makes the slots of the plan, all of them empty.
    fn fitted(&mut self) -> Result<()> {
        let (device, host) = (self.plan.device_slots, self.plan.host_slots);
        let fitted = self.store.fit(&self.plan);
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
        self.store.use_disk(slots, slot_bytes, at)?;
        self.empty();
        Ok(())
    }

    /// Number of pool slots on disk.
    pub fn on_disk(&self) -> u32 {
        self.store.disk.slots
    }

    fn empty(&mut self) {
        self.store.empty();
        (self.issued, self.early) = (Issued::default(), Traffic::default());
    }

    /// The device of these tiers, for reading its traffic and times.
    pub fn device(&mut self) -> &mut dyn Device {
        &mut *self.store.device
    }

    /// Waits for all work of the device, then empties all slots. Fails as `check` does.
    pub fn clear(&mut self) -> Result<()> {
        self.store.device.synchronize()?;
        self.store.device.forget_stream();
        self.store.device.forget_faults();
        let checked = self.store.check();
        self.empty();
        checked
    }

    /// Whether an error of a restore can become known only after the restore has returned.
    pub fn is_checked_later(&self) -> bool {
        let coder = self.store.coder.as_ref().is_some_and(|coder| coder.lag() > 0);
        coder || matches!(self.store.sums, Some(Sums::Gpu(_)))
    }

    /// Waits for all calls of the device. Fails if one of these calls reported an error.
    pub fn finish(&mut self) -> Result<()> {
        self.store.device.finish_calls()?;
        self.store.device.check_disk()?;
        self.store.check()
    }

    /// What saves did, for all saves that were placed since the previous call of this function.
    pub fn saved(&mut self) -> impl Iterator<Item = Saved> + '_ {
        self.store.saved.drain(..)
    }

    /// Bytes of the largest compressed record of this sweep.
    pub fn largest(&self) -> u64 {
        self.store.largest
    }

    /// Bytes that records occupy at most in device memory and in the pool, device memory of the codec
    /// and the checksums included.
    pub fn peaks(&self) -> (u64, u64) {
        self.store.peaks(&self.plan)
    }

    /// Plays the SAVE number `action`: stores the state u(ts), whose fields are `fields`. The fields are
    /// read in the order of the application's lane: work enqueued on that lane after this call may
    /// overwrite the fields.
    pub fn save(&mut self, action: usize, ts: i64, fields: &[AppMemory]) -> Result<()> {
        self.catch_up(action)?;
        self.store.save(&play(&self.plan, action, ts), fields)?;
        self.issue(Moment::After(action))
    }

    /// Addresses at which the application may compute the fields of a state before the SAVE number
    /// `action`, of u(ts): in the step's slots, or in spare memory.
    pub fn begin_save(&mut self, action: usize, ts: i64) -> Result<Vec<*mut c_void>> {
        self.store.begin_save(&play(&self.plan, action, ts))
    }

    /// Whether the memory from `begin_save` and `acquire` for the previous time level of the state of this
    /// SAVE or RESTORE is that of the state before.
    pub fn shares_memory(&self, action: usize) -> bool {
        let is_shared = self.plan.level_of(action) != Level::Own;
        is_shared && self.plan.zero_copy && self.store.coder.is_none()
    }

    /// As `save`, for the state u(ts) that the application has computed at the addresses from
    /// `begin_save`.
    pub fn commit_save(&mut self, action: usize, ts: i64) -> Result<()> {
        self.store.device.check_disk()?;
        self.store.commit_save(&play(&self.plan, action, ts))?;
        self.issue(Moment::After(action))
    }

    /// Plays the RESTORE number `action`: restores the state u(ts) into `fields`. The fields hold the
    /// state when the application's lane has passed this call. `last`: no later RESTORE reads this
    /// snapshot.
    pub fn restore(
        &mut self,
        action: usize,
        ts: i64,
        last: bool,
        fields: &[AppMemory],
    ) -> Result<Restored> {
        let read = |store: &mut Store, play: &Play| Ok(((), store.restore(play, last, fields)?));
        Ok(self.read(action, ts, read)?.1)
    }

    /// As `restore`, but returns the addresses at which the application finds the fields of u(ts):
    /// in the step's slots, or in spare memory, into which the state is copied or decoded.
    pub fn acquire(
        &mut self,
        action: usize,
        ts: i64,
        last: bool,
    ) -> Result<(Vec<*mut c_void>, Restored)> {
        self.read(action, ts, |store, play| store.acquire(play, last))
    }

    /// Issues the transfers that waited only until the application gave back the addresses from
    /// `acquire`. `action` is the RESTORE's number, after which no other step was played.
    pub fn release(&mut self, action: usize) -> Result<()> {
        self.store.take_back()?;
        let before = self.store.device.traffic() - self.early;
        let issued = self.issue(Moment::Released(action));
        self.early = self.store.device.traffic() - before;
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
        self.store.settle()
    }

    /// Finds the bytes of part `part` of the snapshot of u(ts), which lies in the slots `at`. Fails if the
    /// store knows otherwise. Call `settle` before.
    pub fn stored(&mut self, at: Step, ts: i64, part: usize) -> Result<Stored> {
        self.store.stored(at, record(ts, part))
    }

    /// Passes the bytes of a record to `sink`, in pieces of at most [`crate::device::PIECE`] bytes. Call
    /// `settle` before.
    pub fn read_stored(
        &mut self,
        stored: Stored,
        sink: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        self.store.read_stored(stored, sink)
    }

    /// Plays the SAVE number `action` for part `part` of u(ts), whose bytes `source` passes on piece by
    /// piece: `bytes` bytes, the stream of a codec if `is_coded`.
    pub fn load(
        &mut self,
        action: usize,
        (ts, part): (i64, usize),
        stored: (u64, bool),
        source: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>,
    ) -> Result<()> {
        self.settle()?;
        let step = self.plan.steps_of(action)[0];
        self.store.load(step, record(ts, part), stored, source)?;
        self.issue(Moment::After(action))
    }

    /// The checksums of the level of the last state, for a restart file. Call `settle` before.
    pub fn sums(&mut self) -> Result<Vec<u64>> {
        let Store { sums, device, .. } = &mut self.store;
        sums.as_ref().map_or(Ok(Vec::new()), |sums| sums.words(&mut **device))
    }

    /// Takes the checksums of the level of the last state from a restart file. Call `settle` before.
    pub fn take_sums(&mut self, words: &[u64]) -> Result<()> {
        let Store { sums, device, .. } = &mut self.store;
        sums.as_mut().map_or(Ok(()), |sums| sums.take(&mut **device, words))
    }

    /// Plays a RESTORE. `body` reads the snapshot, and returns a result and the number of records that had
    /// to cross the link.
    fn read<R>(
        &mut self,
        action: usize,
        ts: i64,
        body: impl FnOnce(&mut Store, &Play) -> Result<(R, u32)>,
    ) -> Result<(R, Restored)> {
        self.catch_up(action)?;
        let is_fetched = |step: &Step| step.slot != NONE && step.host != NONE;
        let is_fetched = self.plan.steps_of(action).iter().any(is_fetched);
        let prefetched = is_fetched && self.issued.has(&self.plan, action);
        self.issue(Moment::Restore(action))?;
        let play = play(&self.plan, action, ts);
        let late = prefetched && self.store.is_late(&play)?;
        let (result, moved) = body(&mut self.store, &play)?;
        self.issue(Moment::After(action))?;
        Ok((result, Restored { moved, prefetched, late }))
    }

    /// Fails if a disk lane has failed. Issues the transfers that were due before the SAVE or RESTORE
    /// `action`: there are such transfers only if the plan was completed since the one before, at the end
    /// of an online forward phase.
    fn catch_up(&mut self, action: usize) -> Result<()> {
        self.store.device.check_disk()?;
        match action.checked_sub(1) {
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
            self.store.fetch(self.plan.steps[fetch.restore as usize])?;
        }
        Ok(())
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

/// The SAVE or RESTORE number `action` of a plan, of u(ts).
fn play(plan: &Plan, action: usize, ts: i64) -> Play<'_> {
    let is_claimed = plan.level_of(action + 1) == Level::Claimed;
    // Neighbouring actions have different spare states.
    let spare = action as u32 % SPARE_SLOTS;
    let (steps, level) = (plan.steps_of(action), plan.level_of(action));
    Play { steps, level, ts, spare, is_claimed, in_slots: plan.zero_copy }
}

impl<P> Drop for Tiers<P> {
    fn drop(&mut self) {
        let Store { coder, sums, device, .. } = &mut self.store;
        coder.iter_mut().for_each(|coder| coder.close(&mut **device));
        sums.iter_mut().for_each(|sums| sums.close(&mut **device));
    }
}
