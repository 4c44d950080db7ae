//! The store: plays the SAVEs, transfers and RESTOREs of a plan, record by record.
//!
//! Every read of a record asks for it by its number (`Store::expect`): bytes of another state are an
//! error, never a state.

use super::disk::Disk;
use super::extent::{Extent, In, Tier, NO_RECORD};
use super::order::Order;
use super::{state_of, CodedRecord, Play, Saved, SnapshotCoder, Storage, Sums};
use crate::device::{AppMemory, Device, Event, Lane, Place};
use crate::error::{fail, Result};
use crate::layout::{Layout, Parts};
use crate::plan::{Level, Plan, Step, NONE};
use std::collections::VecDeque;

/// The device, the bytes of the tiers, and the records in them.
pub struct Store {
    pub device: Box<dyn Device>,
    pub layout: Layout,
    /// How a state is cut into records.
    pub parts: Parts,
    pub cache: Tier,
    pub pool: Tier,
    pub disk: Disk,
    pub extents: Vec<Extent>,
    /// Numbers of extents that no slot names.
    pub unused: Vec<u32>,
    /// Slots of the cache with smaller numbers hold raw records; all other records go through the coder,
    /// if there is one.
    pub raw_slots: u32,
    pub coder: Option<SnapshotCoder>,
    /// Snapshots in staging buffers, oldest first: compressed, but not yet placed in a tier.
    pub staged: VecDeque<Staged>,
    /// Number of SAVEs and RESTOREs so far.
    pub calls: u64,
    /// The checksums that a SAVE compares its previous level with, where levels are shared.
    pub sums: Option<Sums>,
    pub order: Order,
    /// What saves did that `Tiers::saved` has not returned yet.
    pub saved: Vec<Saved>,
    /// Bytes of the largest compressed record of this sweep.
    pub largest: u64,
    /// Offset in the device slab, in bytes, of the spare memory in which the application works
    /// beside the slots.
    pub spare: u64,
    /// Zero copy: extents in which the application may work until its next SAVE or RESTORE.
    pub in_hand: Vec<usize>,
}

/// A compressed snapshot in a staging buffer.
pub struct Staged {
    pub buffer: usize,
    pub ts: i64,
    /// The records that were made, with their steps.
    pub made: [Option<(i64, Step)>; 2],
    /// Number of the SAVE that made the snapshot (`Store::calls`).
    pub call: u64,
}

/// What a copy reads.
#[derive(Clone, Copy)]
pub enum From<'a> {
    Extent(usize),
    Place(Place),
    /// The fields of a part of the application's state.
    Fields(usize, &'a [AppMemory]),
    /// The bytes are in the extent already: the application has computed there.
    Here,
}

/// What a copy writes.
#[derive(Clone, Copy)]
pub enum To<'a> {
    Extent(usize),
    Place(Place),
    /// The fields of a part of the application's state, from a record of its own or of the state before.
    Fields(usize, Level, &'a [AppMemory]),
}

impl From<'_> {
    fn extent(self) -> Option<usize> {
        match self {
            From::Extent(x) => Some(x),
            _ => None,
        }
    }
}

impl To<'_> {
    fn extent(self) -> Option<usize> {
        match self {
            To::Extent(x) => Some(x),
            _ => None,
        }
    }
}

impl Store {
    /// A store without slots. `app` is an event of the device; compressed records have `cache` bytes of
    /// the device slab, behind which spare memory begins, and `pool` bytes of the host slab.
    pub fn new(
        device: Box<dyn Device>,
        app: Event,
        layout: Layout,
        Storage { parts, coder, sums }: Storage,
        cache: u64,
        pool: u64,
    ) -> Self {
        Store {
            device,
            layout,
            parts,
            cache: Tier::new(cache, true),
            pool: Tier::new(pool, false),
            disk: Disk::default(),
            extents: Vec::new(),
            unused: Vec::new(),
            raw_slots: 0,
            coder,
            staged: VecDeque::new(),
            calls: 0,
            sums,
            order: Order::new(app),
            saved: Vec::new(),
            largest: 0,
            spare: cache,
            in_hand: Vec::new(),
        }
    }

    /// Fails if the device has found that a restored state or a level is wrong. The device must have
    /// ended all calls.
    pub fn check(&mut self) -> Result<()> {
        self.coder.as_mut().map_or(Ok(()), SnapshotCoder::check)?;
        self.sums.as_mut().map_or(Ok(()), |sums| sums.check(&mut *self.device))
    }

    /// As `Tiers::peaks`, for a plan that is played.
    pub fn peaks(&self, plan: &Plan) -> (u64, u64) {
        let beside = self.sums.as_ref().map_or(0, Sums::device_bytes);
        let (device, host) = match &self.coder {
            None => {
                let bytes = |slots: u32| u64::from(slots).saturating_mul(self.parts.slot_bytes());
                (bytes(plan.device_slots), bytes(plan.host_slots.saturating_sub(self.disk.slots)))
            }
            Some(coder) => {
                let coder = coder.device_bytes() + coder.own_bytes();
                (self.cache.arena.peak() + coder, self.pool.arena.peak())
            }
        };
        (device.saturating_add(beside), host)
    }

    /// Plays a SAVE of the state in `fields`.
    pub fn save(&mut self, play: &Play, fields: &[AppMemory]) -> Result<()> {
        if play.level == Level::Claimed {
            self.compare(play.ts, fields)?;
        }
        if play.made().next().is_none() {
            self.saved.push(Saved { ts: play.ts, bytes: 0, written: 0 });
        } else if self.codes(play) {
            self.next_call()?;
            self.code(play, fields)?;
        } else {
            self.next_call()?;
            self.device.concerns(play.ts);
            let mut saved = Saved { ts: play.ts, bytes: 0, written: 0 };
            for (part, step) in play.made() {
                let bytes = self.parts.parts[part].bytes;
                let from = From::Fields(part, fields);
                saved.written += u32::from(self.put(play.record(part), step, bytes, from)?);
                saved.bytes += bytes;
            }
            self.saved.push(saved);
        }
        self.keep_sums(play, fields)
    }

    /// Whether the snapshot of a SAVE or RESTORE is compressed.
    pub fn codes(&self, play: &Play) -> bool {
        self.coder.is_some() && play.steps.iter().any(|step| step.slot >= self.raw_slots)
    }

    /// Puts a record of `bytes` bytes into the slots of its step: into the cache, if the step has a slot
    /// there and the cache has room, and from there to the host slot; otherwise straight to the host.
    /// Returns whether the record crosses the link.
    pub fn put(&mut self, record: i64, step: Step, bytes: u64, from: From) -> Result<bool> {
        let in_cache = match from {
            From::Here => self.cache.named(step.slot),
            _ => self.take_in_cache(step.slot, bytes),
        };
        let in_pool = self.room_in_pool(record, step, in_cache, bytes)?;
        if let Some(x) = in_cache {
            self.write(Lane::App, from, x)?;
        }
        match (in_cache, in_pool) {
            (Some(x), Some(y)) => self.write(Lane::Download, From::Extent(x), y)?,
            (None, Some(y)) => self.write(Lane::App, from, y)?,
            (_, None) => {}
        }
        Ok(in_pool.is_some())
    }

    /// Takes bytes of the pool for a record that needs some beside those in the cache, and notes the
    /// record in both.
    pub fn room_in_pool(
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

    /// Issues the upload of the record of a RESTORE's step into its slot. The upload begins after all
    /// work that the application's lane has so far. If the cache has too few free bytes, the record
    /// stays in the pool.
    pub fn fetch(&mut self, step: Step) -> Result<()> {
        self.place_made_for(step)?;
        let Some(from) = self.pool.named(step.host) else {
            return fail!(Schedule, "internal error, please report it: the plan fetches from host slot {}, which is empty", step.host);
        };
        // The RESTORE checks that this is its record.
        let record = self.extents[from].record;
        self.device.concerns(state_of(record));
        let Some(to) = self.take_in_cache(step.slot, self.extents[from].bytes) else {
            self.name(step.slot, from);
            return Ok(());
        };
        self.order.after_app(&mut *self.device, Lane::Upload)?;
        self.read(Lane::Upload, from, To::Extent(to))?;
        let comes_from_disk = self.extents[from].memory == In::Disk;
        let to = &mut self.extents[to];
        (to.record, to.pool_slot) = (record, step.host);
        to.from_disk = if comes_from_disk { self.device.issued(Lane::DiskRead) } else { 0 };
        Ok(())
    }

    /// Plays a RESTORE into `fields`. `last`: no later RESTORE reads the snapshot. Returns how many
    /// records had to cross the link.
    pub fn restore(&mut self, play: &Play, last: bool, fields: &[AppMemory]) -> Result<u32> {
        self.next_call()?;
        self.device.concerns(play.ts);
        let mut moved = 0;
        for (part, &step) in play.steps.iter().enumerate() {
            let level = play.level_of(part);
            if self.codes(play) {
                self.place_made_for(step)?;
                moved += u32::from(self.open(play, part, fields)?);
            } else {
                let from = self.find(step, play.record(part))?;
                self.read(Lane::App, from, To::Fields(part, level, fields))?;
                moved += u32::from(step.host != NONE);
            }
        }
        if last && self.codes(play) {
            let own =
                play.steps.iter().enumerate().filter(|(k, _)| play.level_of(*k) == Level::Own);
            own.for_each(|(part, step)| self.forget(*step, play.record(part)));
        }
        self.keep_sums(play, fields)?;
        Ok(moved)
    }

    /// Whether an upload that a RESTORE needs has not ended yet.
    pub fn is_late(&mut self, play: &Play) -> Result<bool> {
        for step in play.steps {
            let Some(x) = self.cache.named(step.slot) else { continue };
            let written = self.extents[x].marks.written;
            if let Some(event) = self.order.unseen_upload(written) {
                if !self.device.is_done(event)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// The extent from which a RESTORE's step reads: that of the cache, if the step has one.
    pub fn find(&self, step: Step, record: i64) -> Result<usize> {
        match step.slot {
            NONE => self.expect(false, step.host, record),
            slot => self.expect(true, slot, record),
        }
    }

    /// The extent of a slot of the cache or of the pool. Fails unless it holds `record`.
    pub fn expect(&self, in_cache: bool, slot: u32, record: i64) -> Result<usize> {
        let (tier, name) = match in_cache {
            true => (&self.cache, "device cache"),
            false => (&self.pool, "host pool"),
        };
        let held = tier.named(slot).map_or(NO_RECORD, |x| self.extents[x].record);
        match tier.named(slot) {
            Some(x) if held == record => Ok(x),
            _ => fail!(
                Schedule,
                "internal error, please report it: the plan reads the snapshot of state {} from slot {slot} of the {name}, which holds that of state {} (-1: none)",
                state_of(record),
                state_of(held)
            ),
        }
    }

    /// Copies to an extent on `lane`, by way of a staging buffer if the extent lies on disk.
    pub fn write(&mut self, lane: Lane, from: From, to: usize) -> Result<()> {
        if self.extents[to].memory != In::Disk {
            return self.copy(lane, from, To::Extent(to), self.extents[to].bytes);
        }
        let (buffer, bytes) = (self.disk.leave(), self.extents[to].bytes);
        self.copy(lane, from, To::Extent(buffer), bytes)?;
        self.copy(Lane::DiskWrite, From::Extent(buffer), To::Extent(to), bytes)
    }

    /// Copies from an extent on `lane`, by way of a staging buffer if the extent lies on disk. If `lane`
    /// is the application's and the record comes from disk, the calling thread waits until the record is
    /// in host memory, and this function fails if it is not the one that was written.
    pub fn read(&mut self, lane: Lane, from: usize, to: To) -> Result<()> {
        let bytes = self.extents[from].bytes;
        let mut source = from;
        let mut read = std::mem::take(&mut self.extents[from].from_disk);
        if self.extents[from].memory == In::Disk {
            source = self.disk.come();
            self.copy(Lane::DiskRead, From::Extent(from), To::Extent(source), bytes)?;
            read = self.device.issued(Lane::DiskRead);
        }
        if lane == Lane::App && read > 0 {
            self.device.finish_read(read)?;
        }
        self.copy(lane, From::Extent(source), to, bytes)
    }

    /// Copies `bytes` bytes on `lane`, after all that must come before.
    fn copy(&mut self, lane: Lane, from: From, to: To, bytes: u64) -> Result<()> {
        let Store { device, layout, parts, extents, order, cache, pool, .. } = self;
        let device = &mut **device;
        let (source, target) = (from.extent(), to.extent());
        let written = target.map(|x| match extents[x].memory {
            In::Device => (&extents[x].marks, &cache.freed),
            _ => (&extents[x].marks, &pool.freed),
        });
        order.before(device, lane, source.map(|x| &extents[x].marks), written)?;
        let place = |x: Option<usize>| x.map(|x| extents[x].place());
        match (from, to) {
            (From::Fields(part, fields), _) => {
                let Some(to) = place(target) else { return fail!(Device, "no place for a record") };
                for (field, at) in parts.places(part, false) {
                    let (app, bytes) = (Place::App(fields[field]), layout.bytes[field]);
                    device.copy(lane, to.plus(at), app, bytes)?;
                }
            }
            (_, To::Fields(part, level, fields)) => {
                let Some(from) = place(source) else { return fail!(Device, "no record to copy") };
                for (field, at) in parts.places(part, level != Level::Own) {
                    let (app, bytes) = (Place::App(fields[field]), layout.bytes[field]);
                    device.copy(lane, app, from.plus(at), bytes)?;
                }
            }
            (From::Here, _) => {}
            (From::Extent(_) | From::Place(_), To::Extent(_) | To::Place(_)) => {
                let from = if let From::Place(from) = from { Some(from) } else { place(source) };
                let to = if let To::Place(to) = to { Some(to) } else { place(target) };
                let (Some(from), Some(to)) = (from, to) else { return fail!(Device, "no place") };
                device.copy(lane, to, from, bytes)?;
            }
        }
        self.done(lane, source, target)
    }

    /// Counts an operation of a lane that has read an extent and written another one.
    pub fn done(&mut self, lane: Lane, from: Option<usize>, to: Option<usize>) -> Result<()> {
        let Store { device, extents, order, .. } = self;
        let [source, target] = [from, to].map(|x| x.map(|x| &extents[x].marks));
        let [read, written] = order.after(&mut **device, lane, source, target)?;
        from.into_iter().for_each(|x| extents[x].marks.is_read(read));
        to.into_iter().for_each(|x| extents[x].marks.is_written(written));
        Ok(())
    }

    /// Decodes the record of part `part` of a RESTORE. Returns whether the record had to cross the link.
    fn open(&mut self, play: &Play, part: usize, fields: &[AppMemory]) -> Result<bool> {
        let step = play.steps[part];
        let from = self.find(step, play.record(part))?;
        let bytes = self.extents[from].bytes;
        let is_in_cache = self.is_in_cache(from);
        let place = match is_in_cache {
            true => self.extents[from].place(),
            false => {
                let buffer = self.free_buffer()?;
                let Some(coder) = &self.coder else { return fail!(State, "no codec") };
                let to = coder.buffer(buffer);
                self.device.concerns(play.ts);
                self.read(Lane::App, from, To::Place(to))?;
                to
            }
        };
        if is_in_cache {
            self.arrive(from)?;
        }
        self.device.concerns(play.ts);
        let as_previous = play.level_of(part) != Level::Own;
        let record = CodedRecord { place, bytes, part, as_previous };
        let Store { device, coder, .. } = self;
        let Some(coder) = coder else { return fail!(State, "no codec") };
        coder.open(&mut **device, play.ts, record, fields)?;
        if is_in_cache {
            self.done(Lane::App, Some(from), None)?;
        }
        Ok(!is_in_cache || step.host != NONE)
    }

    /// Whether an extent is of the device cache.
    pub fn is_in_cache(&self, x: usize) -> bool {
        self.extents[x].memory == In::Device
    }

    /// Keeps the checksums of a state's level, if the next SAVE compares with them.
    fn keep_sums(&mut self, play: &Play, fields: &[AppMemory]) -> Result<()> {
        let Some(sums) = self.sums.as_mut().filter(|_| play.is_claimed) else { return Ok(()) };
        let device = &mut *self.device;
        let mut levels = self.parts.previous.iter().enumerate();
        levels.try_for_each(|(k, level)| sums.keep(device, k, fields[level.later]))
    }

    /// Compares the previous level of state `ts` with the checksums of the level of the state before.
    fn compare(&mut self, ts: i64, fields: &[AppMemory]) -> Result<()> {
        let Some(sums) = &mut self.sums else { return fail!(State, "no checksums") };
        let device = &mut *self.device;
        let mut levels = self.parts.previous.iter().enumerate();
        levels.try_for_each(|(k, level)| {
            sums.compare(device, k, fields[level.field], ts, level.field)
        })
    }

    /// Frees the bytes of a compressed record that no later RESTORE reads.
    fn forget(&mut self, step: Step, record: i64) {
        let host = match self.cache.named(step.slot) {
            Some(x) => self.extents[x].pool_slot,
            None => step.host,
        };
        self.leave(true, step.slot);
        if self.pool.named(host).is_some_and(|y| self.extents[y].record == record) {
            self.leave(false, host);
        }
    }
}
