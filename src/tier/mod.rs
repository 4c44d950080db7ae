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

/// A slot of the device cache.
#[derive(Clone)]
struct DeviceSlot {
    /// Where the snapshot of this slot lies.
    held: Held,
    /// Compressed snapshots: the pool slot that also holds the snapshot, or [`NONE`].
    host: u32,
    /// The end of the upload into this slot, and whether a RESTORE has yet to wait for that upload.
    filled: Event,
    filling: bool,
    /// The end of the download from this slot, and whether a download was issued.
    read: Event,
    reading: bool,
    /// Number of that download, counted over all downloads of the session.
    download: u64,
}

/// Where the snapshot of a device cache slot lies. Ranges are in bytes of a slab.
#[derive(Clone, PartialEq)]
enum Held {
    Nowhere,
    /// In these bytes of the cache.
    InCache(Range<u64>),
    /// In this slot of the pool.
    InPoolSlot(u32),
    /// In these bytes of the pool, outside all pool slots.
    InPool(Range<u64>),
}

/// A slot of the host pool.
#[derive(Clone)]
struct HostSlot {
    /// The bytes of the pool that the snapshot takes.
    at: Range<u64>,
    /// Time step of the snapshot's state; -1 if the slot is empty.
    ts: i64,
    /// The end of the download into this slot, and the number of that download.
    written: Event,
    download: u64,
}

/// What a SAVE did with its snapshot.
#[derive(Clone, Copy, Debug, Default)]
pub struct Saved {
    /// Time step of the saved state.
    pub ts: i64,
    /// Bytes of the snapshot; 0 if no RESTORE reads the snapshot, which is then not stored.
    pub bytes: u64,
    /// Whether the snapshot crosses the link to the host.
    pub written: bool,
}

/// The codec, and the memory of compressed snapshots, which differ in size.
struct Compression {
    coder: SnapshotCoder,
    /// Snapshots in staging buffers, oldest first: compressed, but not yet placed in a tier.
    made: VecDeque<Made>,
    /// Number of saves and restores so far.
    calls: u64,
    cache: Arena,
    pool: Arena,
    /// The latest download, by number, from bytes of the cache that were freed since, and the
    /// latest download into bytes of the pool that were freed since. A lane waits for these
    /// downloads before it writes freed bytes again.
    read: Option<(u64, Event)>,
    written: Option<(u64, Event)>,
    /// Bytes of the largest compressed snapshot of this sweep.
    largest: u64,
}

/// A compressed snapshot in a staging buffer, not yet placed in a tier. `stage` is the number of
/// the staging buffer.
struct Made {
    stage: usize,
    step: Step,
    ts: i64,
    /// Number of the save that made the snapshot (`Compression::calls`).
    call: u64,
}

/// Device cache and host pool of one session.
pub struct Tiers {
    device: Box<dyn Device>,
    layout: Layout,
    compression: Option<Compression>,
    /// Shared time levels, if raw snapshots share them.
    sharing: Option<Sharing>,
    /// What saves did that `saved` has not returned yet.
    saved: Vec<Saved>,
    cache: Vec<DeviceSlot>,
    pool: Vec<HostSlot>,
    /// Number of downloads so far.
    downloads: u64,
    /// Offset in the device slab, in bytes, of the spare memory in which the application works
    /// beside the slots.
    spare: u64,
    /// Recorded on the application's lane before a transfer, which waits for this event.
    app: Event,
}

impl Tiers {
    /// Makes the tiers of `plan` on a device whose slabs are reserved. Compressed snapshots get
    /// `cache` bytes of the device slab and `pool` bytes of the host slab; raw snapshots ignore
    /// both numbers except that spare memory begins at `cache`.
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

    /// Makes the tiers of `plan` for raw snapshots that share the time levels `levels`.
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

    /// Replaces the plan. All slots are empty afterwards.
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
            // Each cache slot and each pool slot holds at most one range of bytes; a snapshot of a
            // cache slot may lie in the pool.
            compression.cache.fit(self.cache.len())?;
            compression.pool.fit(self.cache.len() + self.pool.len())?;
        }
        self.empty();
        Ok(())
    }

    /// The device of these tiers, for reading its traffic and times.
    pub fn device(&mut self) -> &mut dyn Device {
        &mut *self.device
    }

    /// Waits for all work of the device, then empties all slots. Fails as `check` does.
    pub fn clear(&mut self) -> Result<()> {
        self.device.synchronize()?;
        self.device.forget_stream();
        let checked = self.check();
        self.empty();
        checked
    }

    /// Fails if a codec or a checksum reported an error so far. The device must have ended all
    /// calls.
    fn check(&mut self) -> Result<()> {
        self.compression.as_mut().map_or(Ok(()), |c| c.coder.check())?;
        self.sharing.as_mut().map_or(Ok(()), |s| s.checksums.check(&mut *self.device))
    }

    /// Whether an error of a restore can become known only after the restore has returned.
    pub fn is_checked_later(&self) -> bool {
        self.compression.as_ref().is_some_and(|c| c.coder.lag() > 0)
            || matches!(self.sharing, Some(Sharing { checksums: FieldChecksums::Gpu(_), .. }))
    }

    /// Waits for all calls of the device. Fails if one of these calls reported an error.
    pub fn finish(&mut self) -> Result<()> {
        self.device.finish_calls()?;
        self.check()
    }

    /// What saves did, for all saves that were placed since the previous call of this function.
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

    /// Bytes that snapshots occupy at most in device memory and in the pool, device memory of the
    /// codec or the checksums included; `None` for raw snapshots without shared time levels.
    pub fn peaks(&self) -> Option<(u64, u64)> {
        if let Some(sharing) = &self.sharing {
            return Some(sharing.bytes());
        }
        self.compression
            .as_ref()
            .map(|c| (c.cache.peak() + c.coder.device_bytes() + c.coder.own_bytes(), c.pool.peak()))
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

    /// Makes the application's lane wait until the slot of a SAVE may be overwritten, that is,
    /// until the download from that slot has ended.
    fn clear_for_save(&mut self, step: Step) -> Result<()> {
        match self.cache.get(step.slot as usize) {
            Some(&DeviceSlot { read, reading: true, .. }) => self.device.wait(Lane::App, read),
            _ => Ok(()),
        }
    }

    /// Issues the download of a snapshot from its cache slot to its pool slot, if the step has
    /// both.
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

    /// The place of cache slot `slot`; for `slot` = [`NONE`], the place of spare buffer number
    /// `spare`.
    fn in_slot(&self, slot: u32, spare: u32) -> Place {
        match self.cache.get(slot as usize) {
            Some(DeviceSlot { held: Held::InCache(at), .. }) => Place::Device(at.start),
            _ => Place::Device(self.spare + spare as u64 * self.layout.slot_bytes),
        }
    }

    /// Addresses at which the application may compute the fields of a state before a SAVE: in the
    /// step's slot, or in spare buffer number `spare`.
    pub fn begin_save(&mut self, step: Step, spare: u32) -> Result<Vec<*mut c_void>> {
        if self.compression.is_some() {
            return self.pointers(NONE, spare);
        }
        self.clear_for_save(step)?;
        self.pointers(step.slot, spare)
    }

    /// Stores the state u(ts) that the application has computed at the addresses from `begin_save`.
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

    /// The fields of spare buffer number `spare`.
    fn spare_fields(&self, spare: u32) -> Result<Vec<AppMemory>> {
        let fields = self.layout.fields.iter().map(|field| field.bytes().unwrap_or(0) as usize);
        // SAFETY: the addresses are memory of the device slab, which only the application's lane
        // uses.
        let memory = |(address, bytes): (*mut c_void, usize)| unsafe {
            AppMemory::new(address.cast(), bytes)
        };
        Ok(self.pointers(NONE, spare)?.into_iter().zip(fields).map(memory).collect())
    }

    /// Issues the upload of a RESTORE's snapshot into its slot. The upload begins after all work
    /// that the application's lane has so far.
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

    /// Whether the upload that a RESTORE needs has not ended yet.
    pub fn is_late(&self, step: Step) -> Result<bool> {
        match self.cache.get(step.slot as usize) {
            Some(slot) if slot.filling => Ok(!self.device.is_done(slot.filled)?),
            _ => Ok(false),
        }
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
        self.device.concerns(ts);
        if self.compression.is_some() {
            return self.restore_compressed(step, ts, last, fields);
        }
        if self.sharing.is_some() {
            return self.restore_shared(step, previous_levels, fields);
        }
        let from = if step.slot == NONE {
            // No wait is needed: the operation that took the snapshot's cache slot waited for the
            // download from that slot, and the application's lane has waited for that operation.
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

    /// Makes the application's lane wait for the upload into the slot of a RESTORE, if there is an
    /// upload.
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
