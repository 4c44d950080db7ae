//! The slots of the tiers, the events that order the use of the slots, and the device. Every way to
//! store snapshots works on these.

use super::disk::Disk;
use crate::device::{AppMemory, Device, Event, Lane, Place};
use crate::error::{fail, Result};
use crate::fallible_vec;
use crate::layout::Layout;
use crate::plan::{Plan, Step, NONE};
use std::ffi::c_void;
use std::ops::Range;

/// A slot of the device cache.
#[derive(Clone)]
pub struct DeviceSlot {
    /// Where the snapshot of this slot lies.
    pub held: Held,
    /// Time step of the state whose snapshot the slot holds, or will hold when the upload under way
    /// has ended; -1 if the slot holds no snapshot.
    pub ts: i64,
    /// Compressed snapshots: the pool slot that also holds the snapshot, or [`NONE`].
    pub host: u32,
    /// The end of the upload into this slot, and whether a RESTORE has yet to wait for that upload.
    pub filled: Event,
    pub filling: bool,
    /// If that upload is of a snapshot from disk: number of the operations of the lane of disk reads
    /// with which the snapshot is in host memory; otherwise 0.
    pub from_disk: u64,
    /// The end of the download from this slot, and whether a download was issued.
    pub read: Event,
    pub reading: bool,
    /// The end of that download, for lanes that read the pool slot to which it went; and its number,
    /// counted over all downloads of the session.
    pub written: Event,
    pub download: u64,
}

/// Where the snapshot of a device cache slot lies. Ranges are in bytes of a slab.
#[derive(Clone, PartialEq)]
pub enum Held {
    Nowhere,
    /// In these bytes of the cache.
    InCache(Range<u64>),
    /// In this slot of the pool.
    InPoolSlot(u32),
    /// In these bytes of the pool, outside all pool slots.
    InPool(Range<u64>),
}

/// A slot of the host pool.
pub struct HostSlot {
    /// The bytes of the pool, or of the disk, that the snapshot takes.
    pub at: Range<u64>,
    /// Compressed snapshots: the cache slot for which the snapshot stayed in this slot, if that is
    /// what the cache slot still holds ([`Held::InPoolSlot`]).
    pub reader: u32,
    /// Time step of the snapshot's state; -1 if the slot is empty.
    pub ts: i64,
    /// Whether the slot is one on disk whose snapshot lies in host memory all the same, since the
    /// snapshot is larger than the slot.
    pub is_oversized: bool,
    /// A slot on disk: the end of the write of its snapshot.
    pub written: Event,
    /// The download into this slot, if there was one.
    pub download: Download,
}

/// A download: its number, and the cache slot from which it went. A pool has any number of slots and
/// the cache has few: a pool slot has no event, but finds that of its download in the cache slot.
#[derive(Clone, Copy)]
pub struct Download {
    number: u64,
    slot: u32,
}

impl Download {
    pub const NONE: Self = Download { number: 0, slot: NONE };

    /// Returns the later of two downloads.
    pub fn or_later(self, other: Self) -> Self {
        if other.number > self.number {
            other
        } else {
            self
        }
    }
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

/// The slots of the device cache and of the host pool of one session, with the device.
pub struct Slots {
    pub device: Box<dyn Device>,
    pub layout: Layout,
    pub cache: Vec<DeviceSlot>,
    pub pool: Vec<HostSlot>,
    pub disk: Disk,
    /// What saves did that `Tiers::saved` has not returned yet.
    pub saved: Vec<Saved>,
    /// Number of downloads so far.
    pub downloads: u64,
    /// Offset in the device slab, in bytes, of the spare memory in which the application works
    /// beside the slots.
    pub spare: u64,
    /// Recorded on the application's lane before a transfer, which waits for this event.
    pub app: Event,
}

impl Slots {
    /// Makes no slots yet. Spare memory begins `spare` bytes behind the start of the device slab.
    /// `app` is an event of the device.
    pub fn new(device: Box<dyn Device>, app: Event, layout: Layout, spare: u64) -> Self {
        let (cache, pool, saved) = (Vec::new(), Vec::new(), Vec::new());
        let disk = Disk::default();
        Slots { device, layout, cache, pool, disk, saved, downloads: 0, spare, app }
    }

    /// Makes the slots that `plan` has more than there are.
    pub fn fit(&mut self, plan: &Plan) -> Result<()> {
        fallible_vec::up_to(&mut self.cache, plan.device_slots as usize)?;
        fallible_vec::up_to(&mut self.pool, plan.host_slots as usize)?;
        for _ in self.cache.len()..plan.device_slots as usize {
            let device = &mut self.device;
            let (filled, read, written) = (device.event()?, device.event()?, device.event()?);
            self.cache.push(DeviceSlot {
                held: Held::Nowhere,
                ts: -1,
                host: NONE,
                filled,
                filling: false,
                from_disk: 0,
                read,
                reading: false,
                written,
                download: 0,
            });
        }
        for _ in self.pool.len()..plan.host_slots as usize {
            let written = self.device.disk_event()?;
            self.pool.push(HostSlot {
                at: 0..0,
                reader: NONE,
                ts: -1,
                is_oversized: false,
                written,
                download: Download::NONE,
            });
        }
        Ok(())
    }

    /// Empties all slots. Snapshots of `slot_bytes` bytes lie at fixed offsets, slot number times
    /// `slot_bytes`; for `None` a slot has no bytes until a snapshot is placed.
    pub fn empty(&mut self, slot_bytes: Option<u64>) {
        let offset = |k: usize, bytes: u64| (k as u64).saturating_mul(bytes);
        let fixed = |k: usize| slot_bytes.map(|bytes| offset(k, bytes)..offset(k + 1, bytes));
        for (k, slot) in self.cache.iter_mut().enumerate() {
            slot.held = fixed(k).map_or(Held::Nowhere, Held::InCache);
            (slot.ts, slot.filling, slot.reading) = (-1, false, false);
        }
        for (k, slot) in self.pool.iter_mut().enumerate() {
            let on_disk = self.disk.slots as usize;
            slot.at = fixed(if k < on_disk { k } else { k - on_disk }).unwrap_or(0..0);
            (slot.ts, slot.is_oversized, slot.download) = (-1, false, Download::NONE);
        }
        self.saved.clear();
    }

    /// Makes the application's lane wait until the slot of a SAVE may be overwritten, that is,
    /// until the download from that slot has ended.
    pub fn clear_for_save(&mut self, step: Step) -> Result<()> {
        match self.cache.get(step.slot as usize) {
            Some(&DeviceSlot { read, reading: true, .. }) => self.device.wait(Lane::App, read),
            _ => Ok(()),
        }
    }

    /// Issues the download of a snapshot from its cache slot to its pool slot, if the step has
    /// both.
    pub fn write_back(&mut self, step: Step) -> Result<()> {
        let Some(slot) = self.cache.get_mut(step.slot as usize) else { return Ok(()) };
        slot.reading = step.host != NONE;
        if step.host == NONE {
            return Ok(());
        }
        let read = slot.read;
        self.number_download(step);
        self.device.record(Lane::App, self.app)?;
        self.device.wait(Lane::Download, self.app)?;
        let (to, from) = (self.begin_write(Lane::Download, step.host)?, self.in_slot(step.slot, 0));
        self.device.copy(Lane::Download, to, from, self.pool_bytes(step.host))?;
        self.device.record(Lane::Download, read)?;
        self.end_write(Lane::Download, step.host)
    }

    /// Counts the download of a step, whose cache slot and pool slot remember its number.
    pub fn number_download(&mut self, step: Step) {
        self.downloads += 1;
        self.cache[step.slot as usize].download = self.downloads;
        let download = Download { number: self.downloads, slot: step.slot };
        self.pool[step.host as usize].download = download;
    }

    /// The event at the end of a download, or `None` if the application's lane has waited for that
    /// download: before another download from its cache slot begins, the application's lane has filled
    /// the slot, or waited for an upload into the slot, and either comes after the first download.
    pub fn end_of(&self, download: Download) -> Option<Event> {
        let slot = self.cache.get(download.slot as usize);
        slot.filter(|slot| slot.download == download.number).map(|slot| slot.written)
    }

    /// The event at the end of the download into pool slot `host` in host memory; `None` as for
    /// `end_of`.
    pub fn written(&self, host: u32) -> Option<Event> {
        self.end_of(self.pool[host as usize].download)
    }

    /// The place to which `lane` copies a snapshot that goes to pool slot `host`. If the slot is on
    /// disk, `lane` waits for a staging buffer. In host memory, `lane` need not wait for the last
    /// download into the slot: the download lane has that download before it, and the application's
    /// lane has waited for a RESTORE of the snapshot. A dropped snapshot has no RESTORE, but no SAVE of
    /// a schedule that drops snapshots goes past a cache to the pool, unless compressed snapshots
    /// find no room in the cache; then the lane has waited for `CodedStore::written`.
    pub fn begin_write(&mut self, lane: Lane, host: u32) -> Result<Place> {
        if self.is_on_disk(host) {
            return self.disk.leave(&mut *self.device, lane);
        }
        Ok(self.in_pool(host))
    }

    /// Issues what follows the copy by `lane` to the place from `begin_write`: the write to disk,
    /// and the record of the slot's event. A copy on the application's lane to host memory needs no
    /// event, since every later transfer waits for that lane.
    pub fn end_write(&mut self, lane: Lane, host: u32) -> Result<()> {
        if self.is_on_disk(host) {
            let HostSlot { written, .. } = self.pool[host as usize];
            let (to, bytes) = (self.pool[host as usize].at.start, self.pool_bytes(host));
            return self.disk.write(&mut *self.device, lane, to, bytes, written);
        }
        match self.written(host).filter(|_| lane != Lane::App) {
            Some(written) => self.device.record(lane, written),
            None => Ok(()),
        }
    }

    /// The place from which `lane` copies the snapshot in pool slot `host`. `lane` waits until the
    /// snapshot is there, except for one case: the application's lane does not wait for a download
    /// to host memory.
    pub fn begin_read(&mut self, lane: Lane, host: u32) -> Result<Place> {
        if self.is_on_disk(host) {
            let HostSlot { written, .. } = self.pool[host as usize];
            let (from, bytes) = (self.pool[host as usize].at.start, self.pool_bytes(host));
            return self.disk.read(&mut *self.device, lane, from, bytes, written);
        }
        if let Some(written) = self.written(host).filter(|_| lane != Lane::App) {
            self.device.wait(lane, written)?;
        }
        Ok(self.in_pool(host))
    }

    /// Ends what `begin_read` began, after the copy by `lane`.
    pub fn end_read(&mut self, lane: Lane, host: u32) -> Result<()> {
        if self.is_on_disk(host) {
            return self.disk.arrive(&mut *self.device, lane);
        }
        Ok(())
    }

    /// Notes that the slots of a SAVE, as many as the step has, hold u(ts).
    pub fn hold(&mut self, step: Step, ts: i64) {
        if let Some(slot) = self.cache.get_mut(step.slot as usize) {
            slot.ts = ts;
        }
        if let Some(slot) = self.pool.get_mut(step.host as usize) {
            slot.ts = ts;
        }
    }

    /// Notes that cache slot `slot`, if it is one, holds no snapshot: the application may write there.
    pub fn hand_out(&mut self, slot: u32) {
        if let Some(slot) = self.cache.get_mut(slot as usize) {
            slot.ts = -1;
        }
    }

    /// Fails unless the slots `at`, one or two, hold u(ts). Every read of a snapshot asks this: no
    /// wrong state is handed to the application or written to a restart file.
    pub fn expect(&self, at: Step, ts: i64) -> Result<()> {
        let in_cache =
            self.cache.get(at.slot as usize).map(|slot| ("device cache", at.slot, slot.ts));
        let in_pool = self.pool.get(at.host as usize).map(|slot| ("host pool", at.host, slot.ts));
        let held = [in_cache, in_pool].into_iter().flatten();
        match held.into_iter().find(|(_, _, held)| *held != ts) {
            None => Ok(()),
            Some((tier, slot, held)) => fail!(
                Schedule,
                "internal error, please report it: the plan reads the snapshot of state {ts} from slot {slot} of the {tier}, which holds that of state {held} (-1: none)"
            ),
        }
    }

    /// The place in host memory of pool slot `slot`.
    pub fn in_pool(&self, slot: u32) -> Place {
        Place::Host(self.pool[slot as usize].at.start)
    }

    /// Whether `slot` is a pool slot whose snapshot lies in host memory.
    pub fn is_in_memory(&self, slot: u32) -> bool {
        slot != NONE && !self.is_on_disk(slot)
    }

    /// Whether `slot` is a pool slot whose snapshot lies on disk.
    pub fn is_on_disk(&self, slot: u32) -> bool {
        self.disk.has(slot) && !self.pool[slot as usize].is_oversized
    }

    /// The place of pool slot `slot`, in host memory or on disk.
    pub fn in_host(&self, slot: u32) -> Place {
        match self.is_on_disk(slot) {
            true => Place::Disk(self.pool[slot as usize].at.start),
            false => self.in_pool(slot),
        }
    }

    /// Bytes of the snapshot in pool slot `slot`.
    pub fn pool_bytes(&self, slot: u32) -> u64 {
        let at = &self.pool[slot as usize].at;
        at.end - at.start
    }

    /// The place of cache slot `slot`; for `slot` = [`NONE`], the place of spare buffer number
    /// `spare`.
    pub fn in_slot(&self, slot: u32, spare: u32) -> Place {
        match self.cache.get(slot as usize) {
            Some(DeviceSlot { held: Held::InCache(at), .. }) => Place::Device(at.start),
            _ => Place::Device(self.spare + spare as u64 * self.layout.slot_bytes),
        }
    }

    pub fn pointers(&self, slot: u32, spare: u32) -> Result<Vec<*mut c_void>> {
        let place = self.in_slot(slot, spare);
        let field =
            |(&bytes, &offset): (&u64, &u64)| self.device.pointer(place.plus(offset), bytes);
        self.layout.bytes.iter().zip(&self.layout.offsets).map(field).collect()
    }

    /// The fields of spare buffer number `spare`.
    pub fn spare_fields(&self, spare: u32) -> Result<Vec<AppMemory>> {
        // SAFETY: the addresses are memory of the device slab, which only the application's lane
        // uses.
        let memory = |(address, &bytes): (*mut c_void, &u64)| unsafe {
            AppMemory::new(address.cast(), bytes as usize)
        };
        Ok(self.pointers(NONE, spare)?.into_iter().zip(&self.layout.bytes).map(memory).collect())
    }

    /// Copies the fields of a state on the application's lane to `place`, each to its offset in the
    /// layout.
    pub fn copy_in(&mut self, place: Place, fields: &[AppMemory]) -> Result<()> {
        for (i, &memory) in fields.iter().enumerate() {
            let (at, bytes) = (place.plus(self.layout.offsets[i]), self.layout.bytes[i]);
            self.device.copy(Lane::App, at, Place::App(memory), bytes)?;
        }
        Ok(())
    }

    /// Copies the fields of a state on the application's lane from `place`, each from its offset in
    /// the layout.
    pub fn copy_out(&mut self, place: Place, fields: &[AppMemory]) -> Result<()> {
        for (i, &memory) in fields.iter().enumerate() {
            let (at, bytes) = (place.plus(self.layout.offsets[i]), self.layout.bytes[i]);
            self.device.copy(Lane::App, Place::App(memory), at, bytes)?;
        }
        Ok(())
    }

    /// Issues the upload of a RESTORE's snapshot from its pool slot into its cache slot. The upload
    /// begins after `freed`, too: the last download from bytes that the snapshot takes.
    pub fn upload(&mut self, step: Step, freed: Option<Event>) -> Result<()> {
        self.begin_upload(step)?;
        if let Some(freed) = freed {
            self.device.wait(Lane::Upload, freed)?;
        }
        let (from, to) = (self.begin_read(Lane::Upload, step.host)?, self.in_slot(step.slot, 0));
        self.device.copy(Lane::Upload, to, from, self.pool_bytes(step.host))?;
        self.end_read(Lane::Upload, step.host)?;
        self.end_upload(step)
    }

    /// Makes the upload lane wait for all work that the application's lane has so far, and for the last
    /// download from the cache slot of a step.
    pub fn begin_upload(&mut self, step: Step) -> Result<()> {
        let DeviceSlot { read, reading, .. } = self.cache[step.slot as usize];
        self.device.record(Lane::App, self.app)?;
        self.device.wait(Lane::Upload, self.app)?;
        match reading {
            true => self.device.wait(Lane::Upload, read),
            false => Ok(()),
        }
    }

    /// Notes that the snapshot of a step has been uploaded when the copies on the upload lane end.
    pub fn end_upload(&mut self, step: Step) -> Result<()> {
        self.device.record(Lane::Upload, self.cache[step.slot as usize].filled)?;
        let is_on_disk = self.is_on_disk(step.host);
        let from_disk = if is_on_disk { self.device.issued(Lane::DiskRead) } else { 0 };
        let ts = self.pool[step.host as usize].ts;
        let slot = &mut self.cache[step.slot as usize];
        (slot.ts, slot.host, slot.filling, slot.reading) = (ts, step.host, true, false);
        slot.from_disk = from_disk;
        Ok(())
    }

    /// Makes the application's lane wait for the upload into cache slot `slot`. If the snapshot comes
    /// from disk, the calling thread waits until the snapshot is in host memory, and this function
    /// fails if the snapshot is not the one that was written.
    pub fn await_upload(&mut self, slot: u32) -> Result<()> {
        let DeviceSlot { filled, from_disk, .. } = self.cache[slot as usize];
        if from_disk > 0 {
            self.device.finish_read(from_disk)?;
        }
        self.device.wait(Lane::App, filled)?;
        self.cache[slot as usize].filling = false;
        Ok(())
    }

    /// Notes that the snapshot of a step stays in its pool slot, from which a RESTORE reads the
    /// snapshot: the cache slot of the step, if the step has one, holds no bytes.
    pub fn stay_in_pool(&mut self, step: Step) {
        if let Some(slot) = self.cache.get_mut(step.slot as usize) {
            let pool = &mut self.pool[step.host as usize];
            (slot.held, slot.host, slot.ts) = (Held::InPoolSlot(step.host), step.host, pool.ts);
            pool.reader = step.slot;
        }
    }

    /// Whether the upload that a RESTORE needs has not ended yet.
    pub fn is_late(&mut self, step: Step) -> Result<bool> {
        match self.cache.get(step.slot as usize) {
            Some(&DeviceSlot { filling: true, filled, .. }) => Ok(!self.device.is_done(filled)?),
            _ => Ok(false),
        }
    }

    /// Makes the application's lane wait for the upload into the slot of a RESTORE, if there is an
    /// upload.
    pub fn await_fetch(&mut self, step: Step) -> Result<()> {
        if self.cache[step.slot as usize].filling {
            self.await_upload(step.slot)
        } else if step.host != NONE {
            fail!(
                Device,
                "the snapshot in slot {} was never fetched from host slot {}",
                step.slot,
                step.host
            )
        } else {
            Ok(())
        }
    }
}
