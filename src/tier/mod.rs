//! Tiers: the device cache and the host pool, each one slab, and the events that order their use.
//!
//! Slots are numbered by the plan, in any order; what is kept here is where each one's snapshot
//! lies and what a lane has to wait for before it may touch it. A raw snapshot lies at its slot's
//! place. A compressed one takes the bytes that it has, wherever they are free; where the cache has
//! none left it stays in the pool, and is read from there.

mod arena;
mod field_checksums;
mod packed;
mod shared;
mod snapshot_coder;

use crate::device::{AppMemory, Device, Event, Lane, Place};
use crate::error::{fail, Result};
use crate::fallible_vec;
use crate::layout::{Field, Layout, Levels};
use crate::plan::{Plan, Step, NONE};
use arena::Arena;
pub use field_checksums::FieldChecksums;
pub use shared::PreviousLevels;
use shared::Sharing;
pub use snapshot_coder::SnapshotCoder;
use std::collections::VecDeque;
use std::ffi::c_void;
use std::ops::Range;

/// A device cache slot.
#[derive(Clone)]
struct DeviceSlot {
    /// Where its snapshot is.
    held: Held,
    /// The pool slot that has it, too, if it was written or fetched.
    host: u32,
    /// The upload that fills it, and whether a restore has yet to wait for it.
    filled: Event,
    filling: bool,
    /// The download that reads it, and whether there is one.
    read: Event,
    reading: bool,
    /// Its number among the downloads.
    download: u64,
}

/// Where the snapshot of a device cache slot is.
#[derive(Clone, PartialEq)]
enum Held {
    Nowhere,
    /// In these bytes of the cache.
    InCache(Range<u64>),
    /// In that slot of the pool.
    InPoolSlot(u32),
    /// In these bytes of the pool.
    InPool(Range<u64>),
}

/// A host pool slot.
#[derive(Clone)]
struct HostSlot {
    /// Its bytes of the pool.
    at: Range<u64>,
    /// The state of its snapshot.
    ts: i64,
    /// The download that wrote it, and its number.
    written: Event,
    download: u64,
}

/// What a SAVE did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Saved {
    /// The state.
    pub ts: i64,
    /// Bytes of the snapshot; 0 if nobody will restore it.
    pub bytes: u64,
    /// It crossed the link, or is about to.
    pub written: bool,
}

/// Compression, and the memory of snapshots that differ in size.
struct Compression {
    coder: SnapshotCoder,
    /// Snapshots that are being made, oldest first.
    made: VecDeque<Made>,
    /// Saves and restores so far.
    calls: u64,
    cache: Arena,
    pool: Arena,
    /// The last download, by number, from bytes of the cache, and into bytes of the pool, that
    /// were given back since.
    read: Option<(u64, Event)>,
    written: Option<(u64, Event)>,
    /// Bytes of the largest snapshot so far.
    largest: u64,
}

/// A snapshot that has no place yet.
struct Made {
    stage: usize,
    step: Step,
    ts: i64,
    /// The call that made it, by number.
    call: u64,
}

/// Device cache and host pool of one session.
pub struct Tiers {
    device: Box<dyn Device>,
    layout: Layout,
    compression: Option<Compression>,
    /// Shared time levels of raw snapshots.
    sharing: Option<Sharing>,
    /// Saves of which it is known what they did, and not told yet.
    saved: Vec<Saved>,
    cache: Vec<DeviceSlot>,
    pool: Vec<HostSlot>,
    /// Downloads so far.
    downloads: u64,
    /// Where the memory begins that the application works in beside the slots.
    spare: u64,
    /// The end of what the application's lane has done with the tiers so far.
    app: Event,
}

impl Tiers {
    /// The tiers of `plan` on a device whose slabs are reserved: for compressed snapshots `cache`
    /// bytes of the one and `pool` of the other.
    pub fn new(
        mut device: Box<dyn Device>,
        layout: Layout,
        plan: &Plan,
        coder: Option<SnapshotCoder>,
        cache: u64,
        pool: u64,
    ) -> Result<Self> {
        let app = device.event()?;
        let compression = coder.map(|coder| Compression {
            coder,
            made: VecDeque::new(),
            calls: 0,
            cache: Arena::new(cache),
            pool: Arena::new(pool),
            read: None,
            written: None,
            largest: 0,
        });
        let (saved, cached, pooled) = (Vec::new(), Vec::new(), Vec::new());
        let (sharing, downloads, spare) = (None, 0, cache);
        let mut tiers = Tiers {
            device,
            layout,
            compression,
            sharing,
            saved,
            cache: cached,
            pool: pooled,
            downloads,
            spare,
            app,
        };
        tiers.fit(plan)?;
        Ok(tiers)
    }

    /// The same for raw snapshots that share these time levels.
    pub fn sharing_levels(
        device: Box<dyn Device>,
        layout: Layout,
        plan: &Plan,
        levels: Levels,
        checksums: FieldChecksums,
    ) -> Result<Self> {
        let mut tiers = Self::new(device, layout, plan, None, 0, 0)?;
        tiers.sharing = Some(Sharing::new(levels, checksums));
        tiers.fit(plan)?;
        Ok(tiers)
    }

    /// Takes on another plan; every slot is empty then.
    pub fn fit(&mut self, plan: &Plan) -> Result<()> {
        let (device, host) = (plan.device_slots, plan.host_slots);
        self.fit_slots(plan)
            .map_err(|e| e.within(format_args!("{device} device and {host} host slots")))
    }

    fn fit_slots(&mut self, plan: &Plan) -> Result<()> {
        fallible_vec::up_to(&mut self.cache, plan.device_slots as usize)?;
        fallible_vec::up_to(&mut self.pool, plan.host_slots as usize)?;
        for _ in self.cache.len()..plan.device_slots as usize {
            let (filled, read) = (self.device.event()?, self.device.event()?);
            self.cache.push(DeviceSlot {
                held: Held::Nowhere,
                host: NONE,
                filled,
                filling: false,
                read,
                reading: false,
                download: 0,
            });
        }
        for _ in self.pool.len()..plan.host_slots as usize {
            let written = self.device.event()?;
            self.pool.push(HostSlot { at: 0..0, ts: -1, written, download: 0 });
        }
        if let Some(sharing) = &mut self.sharing {
            sharing.fit(plan, &mut || self.device.event())?;
        }
        if let Some(compression) = &mut self.compression {
            // A snapshot is in bytes of the cache or of the pool, for its cache slot or its pool
            // slot.
            compression.cache.fit(self.cache.len())?;
            compression.pool.fit(self.cache.len() + self.pool.len())?;
        }
        self.empty();
        Ok(())
    }

    /// The device, for its traffic and times.
    pub fn device(&mut self) -> &mut dyn Device {
        &mut *self.device
    }

    /// Forgets all snapshots once everything under way is done.
    pub fn clear(&mut self) -> Result<()> {
        self.device.synchronize()?;
        self.device.forget_stream();
        let checked = self.check();
        self.empty();
        checked
    }

    /// Fails if a call so far gave or took what it must not; the device must be done with them.
    fn check(&mut self) -> Result<()> {
        self.compression.as_mut().map_or(Ok(()), |c| c.coder.check())?;
        self.sharing.as_mut().map_or(Ok(()), |s| s.checksums.check(&mut *self.device))
    }

    /// Whether restores may turn out later to have failed.
    pub fn is_checked_later(&self) -> bool {
        self.compression.as_ref().is_some_and(|c| c.coder.lag() > 0)
            || matches!(self.sharing, Some(Sharing { checksums: FieldChecksums::Gpu(_), .. }))
    }

    /// Waits for all calls, and fails if one of them gave what it must not.
    pub fn finish(&mut self) -> Result<()> {
        self.device.finish_calls()?;
        self.check()
    }

    /// What saves did, of those of which it is known since this was asked last.
    pub fn saved(&mut self) -> Vec<Saved> {
        std::mem::take(&mut self.saved)
    }

    fn empty(&mut self) {
        let slot_bytes = self.sharing.as_ref().map_or(self.layout.slot_bytes, Sharing::own_bytes);
        self.sharing.iter_mut().for_each(Sharing::empty);
        let fixed = |k: usize| k as u64 * slot_bytes..(k as u64 + 1) * slot_bytes;
        for (k, slot) in self.cache.iter_mut().enumerate() {
            slot.held =
                if self.compression.is_none() { Held::InCache(fixed(k)) } else { Held::Nowhere };
            (slot.filling, slot.reading) = (false, false);
        }
        for (k, slot) in self.pool.iter_mut().enumerate() {
            slot.at = if self.compression.is_none() { fixed(k) } else { 0..0 };
        }
        self.saved.clear();
        if let Some(compression) = &mut self.compression {
            compression.made.clear();
            compression.cache.clear();
            compression.pool.clear();
            (compression.read, compression.written) = (None, None);
            compression.largest = 0;
        }
    }

    /// Bytes of the largest compressed snapshot of this sweep.
    pub fn largest(&self) -> u64 {
        self.compression.as_ref().map_or(0, |c| c.largest)
    }

    /// The most bytes of device memory and pool that compressed snapshots have reached to, with
    /// what the codec works in on a GPU; `None` if snapshots are raw.
    pub fn peaks(&self) -> Option<(u64, u64)> {
        if let Some(sharing) = &self.sharing {
            return Some(sharing.bytes());
        }
        self.compression
            .as_ref()
            .map(|c| (c.cache.peak() + c.coder.device_bytes() + c.coder.own_bytes(), c.pool.peak()))
    }

    /// Stores the fields, u(ts), where `step` says. They have been read when the application's lane
    /// gets past this.
    pub fn save(
        &mut self,
        step: Step,
        previous_levels: PreviousLevels,
        ts: i64,
        fields: &[AppMemory],
    ) -> Result<()> {
        if step.slot == NONE && step.host == NONE {
            self.saved.push(Saved { ts, bytes: 0, written: false });
            return Ok(());
        }
        self.device.concerns(ts);
        if self.compression.is_some() {
            return self.save_compressed(step, ts, fields);
        }
        if self.sharing.is_some() {
            return self.save_shared(step, previous_levels, ts, fields);
        }
        self.clear_for_save(step)?;
        let to =
            if step.slot == NONE { self.in_pool(step.host) } else { self.in_slot(step.slot, 0) };
        for ((field, &offset), &memory) in
            self.layout.fields.iter().zip(&self.layout.offsets).zip(fields)
        {
            self.device.copy(
                Lane::App,
                to.plus(offset),
                Place::App(memory),
                field.bytes().unwrap_or(0),
            )?;
        }
        self.write_back(step)?;
        self.store_in_pool(step, ts);
        self.saved.push(Saved { ts, bytes: self.layout.slot_bytes, written: step.host != NONE });
        Ok(())
    }

    /// The application's lane waits until the slot of a SAVE may be overwritten.
    fn clear_for_save(&mut self, step: Step) -> Result<()> {
        match self.cache.get(step.slot as usize) {
            Some(&DeviceSlot { read, reading: true, .. }) => self.device.wait(Lane::App, read),
            _ => Ok(()),
        }
    }

    /// Sends a snapshot that is in its slot on to the host, if it has a place there.
    fn write_back(&mut self, step: Step) -> Result<()> {
        let Some(slot) = self.cache.get_mut(step.slot as usize) else { return Ok(()) };
        slot.reading = step.host != NONE;
        if step.host != NONE {
            let (read, host) = (slot.read, &self.pool[step.host as usize]);
            let (written, bytes) = (host.written, host.at.end - host.at.start);
            self.device.record(Lane::App, self.app)?;
            self.device.wait(Lane::Download, self.app)?;
            self.device.copy(
                Lane::Download,
                self.in_pool(step.host),
                self.in_slot(step.slot, 0),
                bytes,
            )?;
            self.device.record(Lane::Download, read)?;
            self.device.record(Lane::Download, written)?;
            self.downloads += 1;
            self.cache[step.slot as usize].download = self.downloads;
            self.pool[step.host as usize].download = self.downloads;
        }
        Ok(())
    }

    fn store_in_pool(&mut self, step: Step, ts: i64) {
        if let Some(slot) = self.pool.get_mut(step.host as usize) {
            slot.ts = ts;
        }
    }

    fn in_pool(&self, slot: u32) -> Place {
        Place::Host(self.pool[slot as usize].at.start)
    }

    /// The place of a cache slot, or, without one, that of the spare memory with this number.
    fn in_slot(&self, slot: u32, spare: u32) -> Place {
        match self.cache.get(slot as usize) {
            Some(DeviceSlot { held: Held::InCache(at), .. }) => Place::Device(at.start),
            _ => Place::Device(self.spare + spare as u64 * self.layout.slot_bytes),
        }
    }

    /// Where the application may compute the state of a SAVE: its slot, or spare memory.
    pub fn begin_save(&mut self, step: Step, spare: u32) -> Result<Vec<*mut c_void>> {
        if self.compression.is_some() {
            return self.pointers(NONE, spare);
        }
        self.clear_for_save(step)?;
        self.pointers(step.slot, spare)
    }

    /// Stores what the application has computed there, u(ts).
    pub fn commit_save(&mut self, step: Step, ts: i64, spare: u32) -> Result<()> {
        if self.compression.is_some() {
            let fields = self.spare_fields(spare)?;
            return self.save(step, PreviousLevels::default(), ts, &fields);
        }
        self.device.concerns(ts);
        let stored = step.slot != NONE || step.host != NONE;
        if step.slot == NONE && step.host != NONE {
            self.device.copy(
                Lane::App,
                self.in_pool(step.host),
                self.in_slot(NONE, spare),
                self.layout.slot_bytes,
            )?;
        } else {
            self.write_back(step)?;
        }
        self.store_in_pool(step, ts);
        self.saved.push(Saved {
            ts,
            bytes: if stored { self.layout.slot_bytes } else { 0 },
            written: step.host != NONE,
        });
        Ok(())
    }

    /// Where the application finds the state of a RESTORE: its slot, or spare memory into which it
    /// is copied or decoded; and whether it had to cross the link.
    pub fn acquire(
        &mut self,
        step: Step,
        ts: i64,
        last: bool,
        spare: u32,
    ) -> Result<(Vec<*mut c_void>, bool)> {
        if self.compression.is_some() {
            let fields = self.spare_fields(spare)?;
            let moved = self.restore(step, PreviousLevels::default(), ts, last, &fields)?;
            return Ok((self.pointers(NONE, spare)?, moved));
        }
        self.device.concerns(ts);
        if step.slot == NONE {
            self.device.copy(
                Lane::App,
                self.in_slot(NONE, spare),
                self.in_pool(step.host),
                self.layout.slot_bytes,
            )?;
        } else {
            self.await_fetch(step)?;
        }
        Ok((self.pointers(step.slot, spare)?, step.host != NONE))
    }

    fn pointers(&self, slot: u32, spare: u32) -> Result<Vec<*mut c_void>> {
        let place = self.in_slot(slot, spare);
        let field = |(field, &offset): (&Field, &u64)| {
            self.device.pointer(place.plus(offset), field.bytes().unwrap_or(0))
        };
        self.layout.fields.iter().zip(&self.layout.offsets).map(field).collect()
    }

    /// Spare memory, as fields.
    fn spare_fields(&self, spare: u32) -> Result<Vec<AppMemory>> {
        let fields = self.layout.fields.iter().map(|field| field.bytes().unwrap_or(0) as usize);
        // SAFETY: memory of the device slab, which only the application's lane uses.
        let memory = |(address, bytes): (*mut c_void, usize)| unsafe {
            AppMemory::new(address.cast(), bytes)
        };
        Ok(self.pointers(NONE, spare)?.into_iter().zip(fields).map(memory).collect())
    }

    /// Starts the transfer of a RESTORE's snapshot into its slot, after everything on the
    /// application's lane so far.
    pub fn fetch(&mut self, step: Step, previous_levels: PreviousLevels) -> Result<()> {
        if self.sharing.is_some() {
            return self.fetch_shared(step, previous_levels);
        }
        self.place_made_for(step)?;
        let host = self.pool[step.host as usize].clone();
        let bytes = host.at.end - host.at.start;
        self.device.concerns(host.ts);
        if self.compression.is_some() && !self.place_in_cache(step.slot, bytes) {
            let slot = &mut self.cache[step.slot as usize];
            (slot.held, slot.host) = (Held::InPoolSlot(step.host), step.host);
            return Ok(());
        }
        let DeviceSlot { filled, read, reading, .. } = self.cache[step.slot as usize];
        self.device.record(Lane::App, self.app)?;
        self.device.wait(Lane::Upload, self.app)?;
        if reading {
            self.device.wait(Lane::Upload, read)?;
        }
        if let Some((_, read)) = self.compression.as_ref().and_then(|c| c.read) {
            self.device.wait(Lane::Upload, read)?;
        }
        self.device.wait(Lane::Upload, host.written)?;
        self.device.copy(
            Lane::Upload,
            self.in_slot(step.slot, 0),
            Place::Host(host.at.start),
            bytes,
        )?;
        self.device.record(Lane::Upload, filled)?;
        let slot = &mut self.cache[step.slot as usize];
        (slot.host, slot.filling, slot.reading) = (step.host, true, false);
        Ok(())
    }

    /// Whether the transfer that a RESTORE needs is still under way.
    pub fn is_late(&self, step: Step) -> Result<bool> {
        match self.cache.get(step.slot as usize) {
            Some(slot) if slot.filling => Ok(!self.device.is_done(slot.filled)?),
            _ => Ok(false),
        }
    }

    /// Restores the fields, u(ts), from where `step` says; with `last`, nobody will need that
    /// snapshot any more. They hold the state when the application's lane gets past this.
    /// Returns whether the snapshot had to cross the link.
    pub fn restore(
        &mut self,
        step: Step,
        previous_levels: PreviousLevels,
        ts: i64,
        last: bool,
        fields: &[AppMemory],
    ) -> Result<bool> {
        self.device.concerns(ts);
        if self.compression.is_some() {
            return self.restore_compressed(step, ts, last, fields);
        }
        if self.sharing.is_some() {
            return self.restore_shared(step, previous_levels, fields);
        }
        let from = if step.slot == NONE {
            // Nothing to wait for: what took the snapshot's slot waited for its download, and the
            // application's lane for that.
            self.in_pool(step.host)
        } else {
            self.await_fetch(step)?;
            self.in_slot(step.slot, 0)
        };
        for ((field, &offset), &memory) in
            self.layout.fields.iter().zip(&self.layout.offsets).zip(fields)
        {
            self.device.copy(
                Lane::App,
                Place::App(memory),
                from.plus(offset),
                field.bytes().unwrap_or(0),
            )?;
        }
        Ok(step.host != NONE)
    }

    /// The application's lane waits for the upload into the slot of a RESTORE, if it needs one.
    fn await_fetch(&mut self, step: Step) -> Result<()> {
        let DeviceSlot { filled, filling, .. } = self.cache[step.slot as usize];
        if filling {
            self.device.wait(Lane::App, filled)?;
        } else if step.host != NONE {
            return fail!(
                Device,
                "the snapshot in slot {} was never fetched from host slot {}",
                step.slot,
                step.host
            );
        }
        self.cache[step.slot as usize].filling = false;
        Ok(())
    }
}

impl Drop for Tiers {
    fn drop(&mut self) {
        if let Some(c) = &mut self.compression {
            c.coder.close(&mut *self.device);
        }
        if let Some(s) = &mut self.sharing {
            s.checksums.close(&mut *self.device);
        }
    }
}
