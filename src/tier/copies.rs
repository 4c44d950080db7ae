//! Records on their way: into the cache and the pool, from one to the other, and to and from the
//! application.
//!
//! Every read of a record asks for it by its number (`Tiers::expect`): bytes of another state are an
//! error, never a state.

use super::extent::{Extent, In, NO_RECORD};
use super::order::{Marks, NO_EVENT};
use super::play::{part_of, state_of};
use super::{SnapshotCoder, Tiers};
use crate::device::{AppMemory, Device, Event, Lane, Place, RecordName};
use crate::error::{fail, Result};
use crate::plan::{Level, Plan, Read, Step, NONE};
use std::ops::Deref;

/// What a copy reads.
#[derive(Clone, Copy)]
pub enum From<'a> {
    Extent(usize),
    Place(Place),
    /// A staging buffer of a transfer lane, and the event that the lane records when it has read the buffer.
    Buffer(Place, Event),
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

impl<P: Deref<Target = Plan>, D: Device + ?Sized> Tiers<P, D> {
    /// Puts a record of `bytes` bytes into the slots of its step: into the cache, if the step has a slot
    /// there and the cache has room, and from there to the host slot; otherwise straight to the host.
    /// Returns whether the record crosses the link.
    pub(super) fn put(&mut self, record: i64, step: Step, bytes: u64, from: From) -> Result<bool> {
        let in_cache = match from {
            From::Here => self.cache.named(step.slot),
            _ => self.take_in_cache(step.slot, bytes),
        };
        if let Some(x) = in_cache.filter(|_| self.codes_by_lanes()) {
            (self.extents[x].record, self.extents[x].pool_slot) = (record, step.host);
            self.write(Lane::App, from, x)?;
            if step.host != NONE {
                self.code_by_lane(record, step, x)?;
            }
            return Ok(step.host != NONE);
        }
        let in_pool = self.room_in_pool(record, step, in_cache, bytes)?;
        let (mut lane, mut from) = (Lane::App, from);
        if let Some(x) = in_cache {
            self.write(lane, from, x)?;
            (lane, from) = (Lane::Download, From::Extent(x));
        }
        if let Some(y) = in_pool {
            self.write(lane, from, y)?;
        }
        Ok(in_pool.is_some())
    }

    /// Issues the upload of the record of a RESTORE's step into its slot. The upload begins after all
    /// work that the application's lane has so far. If the cache has too few free bytes, the record
    /// stays in the pool.
    #[inline(never)]
    pub(super) fn fetch(&mut self, step: Step) -> Result<()> {
        self.place_made_for(step)?;
        let is_here = |x: usize| {
            let Extent { is_decoded, pool_slot, .. } = self.extents[x];
            self.codes_by_lanes() && is_decoded && pool_slot == step.host
        };
        // A slot on disk names its own extent, even if that holds no record.
        let holds_one = |y: &usize| self.extents[*y].record != NO_RECORD;
        let Some(from) = self.pool.named(step.host).filter(holds_one) else {
            // A restart file held the record as it was decoded.
            if self.cache.named(step.slot).is_some_and(is_here) {
                return Ok(());
            }
            return fail!(Schedule, "internal error, please report it: the plan fetches from host slot {}, which is empty", step.host);
        };
        // The RESTORE checks that this is its record.
        let record = self.extents[from].record;
        self.device.concerns(state_of(record));
        let bytes = match self.codes_by_lanes() {
            true => self.storage.parts.parts[part_of(record)].bytes,
            false => self.extents[from].bytes,
        };
        let Some(to) = self.take_in_cache(step.slot, bytes) else {
            self.name(step.slot, from);
            return Ok(());
        };
        self.order.after_app(&mut *self.device, Lane::Upload)?;
        self.extents[to].record = record;
        let from_disk = self.read(Lane::Upload, from, To::Extent(to))?;
        let to = &mut self.extents[to];
        to.is_decoded = true;
        (to.record, to.pool_slot, to.from_disk) = (record, step.host, from_disk);
        Ok(())
    }

    /// Issues a read of the plan from disk into host memory.
    #[inline(never)]
    pub(super) fn read_into_memory(&mut self, read: Read) -> Result<()> {
        let step = Step { slot: NONE, host: self.plan.steps[read.save as usize].host };
        self.place_made_for(step)?;
        let Some(from) = self.pool.named(step.host) else {
            return fail!(Schedule, "internal error, please report it: the plan reads from host slot {}, which is empty", step.host);
        };
        let Extent { record, bytes, .. } = self.extents[from];
        if self.extents[from].memory != In::Disk {
            // A compressed record that was too large for its place on disk.
            self.leave(false, read.to);
            self.pool.slots[read.to as usize].extent = from as u32;
            (self.extents[from].names, self.extents[from].pool_slot) =
                (self.extents[from].names + 1, read.to);
            self.leave(false, step.host);
            return Ok(());
        }
        self.device.concerns(state_of(record));
        let to = self.take_in_pool(read.to, bytes)?;
        self.copy(Lane::DiskRead, From::Extent(from), To::Extent(to), bytes)?;
        self.extents[to].record = record;
        self.extents[to].from_disk = self.device.issued(Lane::DiskRead);
        Ok(())
    }

    /// The extent from which a RESTORE's step reads: that of the cache, if the step has one.
    pub(super) fn find(&self, step: Step, record: i64) -> Result<usize> {
        match step.slot {
            NONE => self.expect(false, step.host, record),
            slot => self.expect(true, slot, record),
        }
    }

    /// The extent of a slot of the cache or of the pool. Fails unless it holds `record`.
    pub(super) fn expect(&self, in_cache: bool, slot: u32, record: i64) -> Result<usize> {
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
    #[inline]
    pub(super) fn write(&mut self, lane: Lane, from: From, to: usize) -> Result<()> {
        if self.extents[to].memory != In::Disk {
            return self.copy(lane, from, To::Extent(to), self.extents[to].bytes);
        }
        let (buffer, bytes) = (self.disk.begin(false), self.extents[to].bytes);
        self.copy(lane, from, To::Extent(buffer), bytes)?;
        self.copy(Lane::DiskWrite, From::Extent(buffer), To::Extent(to), bytes)
    }

    /// Copies from an extent on `lane`, by way of a staging buffer if the extent lies on disk. If `lane`
    /// is the application's and the record comes from disk, the calling thread waits until the record is
    /// in host memory, and this function fails if it is not the one that was written. Otherwise returns
    /// what the extent that is written then has as its `from_disk`.
    pub(super) fn read(&mut self, lane: Lane, from: usize, to: To) -> Result<u64> {
        let bytes = self.extents[from].bytes;
        let mut source = from;
        let mut read = std::mem::take(&mut self.extents[from].from_disk);
        if self.extents[from].memory == In::Disk {
            source = self.disk.begin(true);
            self.copy(Lane::DiskRead, From::Extent(from), To::Extent(source), bytes)?;
            read = self.device.issued(Lane::DiskRead);
        }
        if lane == Lane::App && read > 0 {
            self.device.finish_read(read)?;
        }
        self.copy(lane, From::Extent(source), to, bytes)?;
        Ok(read)
    }

    /// Copies `bytes` bytes on `lane`, after all that must come before.
    fn copy(&mut self, lane: Lane, from: From, to: To, bytes: u64) -> Result<()> {
        let Tiers { device, layout, storage, extents, order, cache, pool, .. } = self;
        let device = &mut **device;
        let source = if let From::Extent(x) = from { Some(x) } else { None };
        let target = if let To::Extent(x) = to { Some(x) } else { None };
        let (read, written) = (source.map(|x| &extents[x]), target.map(|x| &extents[x]));
        let freed = |x: &Extent| if x.memory == In::Device { &cache.freed } else { &pool.freed };
        let to_write = written.map(|x| (&x.marks, freed(x)));
        order.before(device, lane, read.map(|x| &x.marks), to_write)?;
        let fields = match (from, to) {
            (From::Fields(part, fields), _) => Some((part, false, fields)),
            (_, To::Fields(part, level, fields)) => Some((part, level != Level::Own, fields)),
            _ => None,
        };
        if let (Some((part, of_before, fields)), Some(record)) = (fields, read.or(written)) {
            for (field, at) in storage.parts.places(part, of_before) {
                let (record, app) = (record.place().plus(at), Place::App(fields[field]));
                let (to, from) = if source.is_some() { (app, record) } else { (record, app) };
                device.copy(lane, to, from, layout.bytes[field])?;
            }
        } else if !matches!(from, From::Here) {
            let from = match from {
                From::Place(at) | From::Buffer(at, _) => Some(at),
                _ => read.map(Extent::place),
            };
            let to = if let To::Place(at) = to { Some(at) } else { written.map(Extent::place) };
            let (Some(from), Some(to)) = (from, to) else { return fail!(Device, "no place") };
            let lanes = storage.coder.as_ref().and_then(SnapshotCoder::lanes);
            match (lanes, read.zip(written)) {
                (Some(lanes), Some((read, written)))
                    if read.memory == In::Host && written.memory == In::Device =>
                {
                    let record = written.record;
                    let name = RecordName { ts: state_of(record), part: part_of(record) };
                    lanes.decompress(device, lane, name, (from, bytes), to)?;
                }
                _ => device.copy(lane, to, from, bytes)?,
            }
        }
        let buffer = match from {
            From::Buffer(_, event) => Some(Marks::new(NO_EVENT, event.0 as u32)),
            _ => None,
        };
        self.done_from(lane, buffer, [source, target])
    }

    /// Counts an operation of a lane that has read an extent and written another one.
    pub(super) fn done(&mut self, lane: Lane, copied: [Option<usize>; 2]) -> Result<()> {
        self.done_from(lane, None, copied)
    }

    /// As `done`, for an operation that has read an extent or a staging buffer with these marks.
    fn done_from(
        &mut self,
        lane: Lane,
        buffer: Option<Marks>,
        [from, to]: [Option<usize>; 2],
    ) -> Result<()> {
        let Tiers { device, extents, order, .. } = self;
        let [source, target] = [from, to].map(|x| x.map(|x| &extents[x].marks));
        let source = source.or(buffer.as_ref());
        let [read, written] = order.after(&mut **device, lane, source, target)?;
        from.into_iter().for_each(|x| extents[x].marks.is_read(read));
        to.into_iter().for_each(|x| extents[x].marks.is_written(written));
        Ok(())
    }

    /// Whether records are raw in the cache, and the transfer lanes code those that leave it.
    pub(super) fn codes_by_lanes(&self) -> bool {
        self.storage.coder.as_ref().and_then(SnapshotCoder::lanes).is_some()
    }

    /// Whether an extent is of the device cache.
    pub(super) fn is_in_cache(&self, x: usize) -> bool {
        self.extents[x].memory == In::Device
    }
}
