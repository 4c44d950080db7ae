//! Compressed snapshots in the tiers. Each snapshot takes as many bytes of a slab as it has.

use super::arena::Arena;
use super::raw::place_of;
use super::slots::{Download, Held, HostSlot, Saved, Slots};
use super::{Destinations, Play, PreviousLevels, SnapshotCoder, Store, Stored};
use crate::device::{AppMemory, Event, Lane, Place};
use crate::error::{fail, Result};
use crate::fallible_vec;
use crate::plan::{Plan, Step, NONE};
use std::collections::VecDeque;
use std::ffi::c_void;
use std::ops::Range;

/// The store of compressed snapshots: the codec, and the memory of snapshots that differ in size.
pub struct CodedStore {
    coder: SnapshotCoder,
    /// Mixed storage: slots of the cache with smaller numbers hold raw snapshots, each at a fixed
    /// offset, slot number times the bytes of a state.
    raw_slots: u32,
    /// Snapshots in staging buffers, oldest first: compressed, but not yet placed in a tier.
    made: VecDeque<Made>,
    /// Number of saves and restores so far.
    calls: u64,
    /// The bytes of the device cache and of the host pool that no snapshot takes.
    cache_bytes: Arena,
    pool_bytes: Arena,
    /// The latest download that may still read bytes of the cache that are free by now: its number, in
    /// the order of issue, and its event. A lane waits for this download before it writes free bytes
    /// of the cache.
    read: Option<(u64, Event)>,
    /// The latest download into bytes of the pool that were freed since.
    written: Download,
    /// Bytes of the largest compressed snapshot of this sweep.
    largest: u64,
}

/// A compressed snapshot in a staging buffer, not yet placed in a tier. `buffer` is the number of
/// the staging buffer.
struct Made {
    buffer: usize,
    step: Step,
    ts: i64,
    /// Number of the save that made the snapshot (`CodedStore::calls`).
    call: u64,
}

/// Returns the later of two downloads, by number.
fn later(a: Option<(u64, Event)>, b: (u64, Event)) -> Option<(u64, Event)> {
    a.filter(|a| a.0 > b.0).or(Some(b))
}

impl CodedStore {
    /// The store of snapshots that `coder` makes, in `cache` bytes of the device slab and `pool`
    /// bytes of the host slab.
    pub fn new(coder: SnapshotCoder, cache: u64, pool: u64) -> Self {
        CodedStore {
            coder,
            raw_slots: 0,
            made: VecDeque::new(),
            calls: 0,
            cache_bytes: Arena::new(0..cache),
            pool_bytes: Arena::new(0..pool),
            read: None,
            written: Download::NONE,
            largest: 0,
        }
    }

    /// Keeps the first `bytes` bytes of the cache free of compressed snapshots. Fails if the cache
    /// has fewer bytes.
    pub fn leave_to_others(&mut self, bytes: u64) -> Result<()> {
        self.cache_bytes.begin_at(bytes)
    }

    /// Places snapshots, oldest first, while `due` returns true for the number of snapshots that
    /// wait in staging buffers and the coder's lag.
    fn place_made(&mut self, slots: &mut Slots, due: impl Fn(usize, usize) -> bool) -> Result<()> {
        while due(self.made.len(), self.coder.lag()) {
            self.place_oldest(slots)?;
        }
        Ok(())
    }

    /// Number of a staging buffer without a snapshot. Places the oldest snapshot if all buffers are
    /// full.
    fn free_buffer(&mut self, slots: &mut Slots) -> Result<usize> {
        self.place_made(slots, |made, lag| made >= lag.max(1))?;
        Ok((0..self.coder.lag().max(1))
            .find(|&k| self.made.iter().all(|made| made.buffer != k))
            .unwrap_or(0))
    }

    /// Places the snapshots that a transfer or restore of `step` reads, and those whose slot `step`
    /// reuses.
    fn place_made_for(&mut self, slots: &mut Slots, step: Step) -> Result<()> {
        let touches = |made: &Made| {
            let same = |a: u32, b: u32| a != NONE && a == b;
            same(made.step.slot, step.slot) || same(made.step.host, step.host)
        };
        while self.made.iter().any(touches) {
            self.place_oldest(slots)?;
        }
        Ok(())
    }

    /// Copies the oldest snapshot from its staging buffer: to the cache, if its step has a cache slot
    /// and the cache has room; to the pool, if the step has a pool slot or the cache has no room.
    /// Blocks the calling thread until the size of that snapshot is known.
    fn place_oldest(&mut self, slots: &mut Slots) -> Result<()> {
        let Some(Made { buffer, step, ts, .. }) = self.made.pop_front() else { return Ok(()) };
        let bytes = self
            .coder
            .size(&mut *slots.device, buffer)
            .map_err(|e| e.within(format_args!("the snapshot of state {ts}")))?;
        self.largest = self.largest.max(bytes);
        let from = self.coder.buffer(buffer);
        slots.device.concerns(ts);
        let in_cache = step.slot != NONE && self.place_in_cache(slots, step.slot, ts, bytes);
        if step.host != NONE {
            self.place_in_pool(slots, step.host, ts, bytes)?;
        }
        if in_cache {
            if let Some((_, read)) = self.read {
                slots.device.wait(Lane::App, read)?;
            }
            slots.device.copy(Lane::App, slots.in_slot(step.slot, 0), from, bytes)?;
            slots.cache[step.slot as usize].host = step.host;
            slots.write_back(step)?;
            slots.saved.push(Saved { ts, bytes, written: step.host != NONE });
            return Ok(());
        }
        let outside = match step.host {
            NONE => Some(self.take_of_pool(slots, bytes)?),
            _ => None,
        };
        if let Some(written) = slots.end_of(self.written) {
            slots.device.wait(Lane::App, written)?;
        }
        if let Some(at) = outside {
            slots.device.copy(Lane::App, Place::Host(at.start), from, bytes)?;
            if let Some(slot) = slots.cache.get_mut(step.slot as usize) {
                (slot.held, slot.host, slot.ts) = (Held::InPool(at), NONE, ts);
            }
        } else {
            let to = slots.begin_write(Lane::App, step.host)?;
            slots.device.copy(Lane::App, to, from, bytes)?;
            slots.end_write(Lane::App, step.host)?;
            slots.stay_in_pool(step);
        }
        slots.saved.push(Saved { ts, bytes, written: true });
        Ok(())
    }

    /// Frees the bytes of a snapshot that no later RESTORE reads.
    fn forget(&mut self, slots: &mut Slots, step: Step, ts: i64) -> Result<()> {
        let host = match slots.cache.get(step.slot as usize) {
            Some(slot) => slot.host,
            None => step.host,
        };
        if step.slot != NONE {
            self.leave_cache(slots, step.slot);
        }
        match slots.pool.get(host as usize) {
            Some(slot) if slot.ts == ts => self.leave_pool(slots, host),
            _ => Ok(()),
        }
    }

    /// Empties cache slot `slot` and takes `bytes` bytes of the cache for its snapshot, of u(ts). Returns false, with
    /// the slot empty, if the cache has no free range that long.
    fn place_in_cache(&mut self, slots: &mut Slots, slot: u32, ts: i64, bytes: u64) -> bool {
        self.leave_cache(slots, slot);
        let Some(at) = self.cache_bytes.take(bytes) else { return false };
        let slot = &mut slots.cache[slot as usize];
        (slot.held, slot.ts) = (Held::InCache(at), ts);
        true
    }

    fn leave_cache(&mut self, slots: &mut Slots, slot: u32) {
        let slot = &mut slots.cache[slot as usize];
        match std::mem::replace(&mut slot.held, Held::Nowhere) {
            Held::InCache(at) => {
                self.cache_bytes.give(at);
                if slot.reading {
                    self.read = later(self.read, (slot.download, slot.read));
                }
            }
            Held::InPool(at) => self.pool_bytes.give(at),
            Held::InPoolSlot(_) | Held::Nowhere => {}
        }
        (slot.ts, slot.filling, slot.reading) = (-1, false, false);
    }

    /// Empties pool slot `slot` and takes `bytes` bytes of the pool for the snapshot of state `ts`.
    fn place_in_pool(&mut self, slots: &mut Slots, slot: u32, ts: i64, bytes: u64) -> Result<()> {
        self.leave_pool(slots, slot)?;
        let is_oversized = slots.disk.has(slot) && !slots.disk.holds(bytes);
        slots.pool[slot as usize].is_oversized = is_oversized;
        slots.pool[slot as usize].at = if slots.is_on_disk(slot) {
            slots.disk.place(slot, bytes)
        } else {
            let taken = self.take_of_pool(slots, bytes);
            match is_oversized {
                true => taken
                    .map_err(|e| e.within("a snapshot that is larger than its place on disk"))?,
                false => taken?,
            }
        };
        slots.pool[slot as usize].ts = ts;
        Ok(())
    }

    fn leave_pool(&mut self, slots: &mut Slots, slot: u32) -> Result<()> {
        let is_on_disk = slots.is_on_disk(slot);
        let HostSlot { at, reader, ts, download, .. } = &mut slots.pool[slot as usize];
        *ts = -1;
        let at = std::mem::take(at);
        if at.is_empty() {
            return Ok(());
        }
        // If a cache slot reads its snapshot from this pool slot, the cache slot keeps the bytes.
        let cached = slots.cache.get_mut(*reader as usize);
        let cached = cached.filter(|cached| cached.held == Held::InPoolSlot(slot));
        if is_on_disk {
            return match cached {
                Some(_) => fail!(
                    Unsupported,
                    "a snapshot on disk would be overwritten before its last use, because compressed snapshots do not fit device_budget: raise device_budget"
                ),
                None => Ok(()),
            };
        }
        self.written = self.written.or_later(*download);
        match cached {
            Some(cached) => cached.held = Held::InPool(at),
            None => self.pool_bytes.give(at),
        }
        Ok(())
    }

    /// Takes `bytes` bytes of the pool. If no free range is that long, this function waits for all
    /// lanes and moves the snapshots of the pool next to one another. Fails if the pool has too few free bytes
    /// in all.
    fn take_of_pool(&mut self, slots: &mut Slots, bytes: u64) -> Result<Range<u64>> {
        if let Some(at) = self.pool_bytes.take(bytes) {
            slots.device.lock(at.end)?;
            return Ok(at);
        }
        slots.device.synchronize()?;
        let on_disk = slots.disk.slots as usize;
        let pool = slots.pool.iter_mut().enumerate();
        let in_memory = pool.filter(|(k, slot)| *k >= on_disk || slot.is_oversized);
        let in_slots = in_memory.map(|(_, slot)| &mut slot.at).filter(|at| !at.is_empty());
        let overflow = slots.cache.iter_mut().filter_map(|slot| {
            if let Held::InPool(at) = &mut slot.held {
                Some(at)
            } else {
                None
            }
        });
        let mut taken: Vec<&mut Range<u64>> = Vec::new();
        in_slots.chain(overflow).try_for_each(|at| fallible_vec::push(&mut taken, at))?;
        taken.sort_unstable_by_key(|at| at.start);
        self.pool_bytes.clear();
        for at in taken {
            let size = at.end - at.start;
            let Some(to) = self.pool_bytes.take(size) else {
                return fail!(Memory, "internal error, please report it: the snapshots of the pool do not fit the pool after they were moved together");
            };
            slots.device.move_in_pool(to.start, at.start, size)?;
            *at = to;
        }
        match self.pool_bytes.take(bytes) {
            Some(at) => Ok(at),
            None => fail!(
                Budget,
                "a snapshot of {bytes} bytes does not fit host memory any more, of which {} bytes are free: raise host_budget, or lower \
                 compression_factor or checkpointing_snaps",
                self.pool_bytes.free_bytes()
            ),
        }
    }
}

impl Store for CodedStore {
    fn fit(&mut self, slots: &mut Slots, plan: &Plan) -> Result<()> {
        self.raw_slots = plan.raw_slots;
        if plan.raw_slots > 0 {
            // A plan may use fewer slots than the cache has.
            let bytes = plan.bytes_of_slots(plan.device_slots, slots.layout.slot_bytes, 0);
            self.leave_to_others(bytes)?;
        }
        // Each cache slot and each pool slot holds at most one range of bytes; a snapshot of a
        // cache slot may lie in the pool.
        self.cache_bytes.fit(slots.cache.len())?;
        self.pool_bytes.fit(slots.cache.len() + slots.pool.len())
    }

    fn empty(&mut self, slots: &mut Slots) {
        slots.empty(None);
        let bytes = slots.layout.slot_bytes;
        for (k, slot) in (0..u64::from(self.raw_slots)).zip(&mut slots.cache) {
            slot.held = Held::InCache(k * bytes..(k + 1) * bytes);
        }
        self.made.clear();
        self.cache_bytes.clear();
        self.pool_bytes.clear();
        (self.read, self.written) = (None, Download::NONE);
        self.largest = 0;
    }

    /// Counts a save or restore and places the snapshots that are due by that count. Which
    /// snapshots are due depends on the count alone, never on how far the GPU has come.
    fn next_call(&mut self, slots: &mut Slots) -> Result<()> {
        self.calls += 1;
        let (calls, lag) = (self.calls, self.coder.lag() as u64);
        while self.made.front().is_some_and(|made| made.call + lag < calls) {
            self.place_oldest(slots)?;
        }
        Ok(())
    }

    /// Compresses the state u(ts) into a staging buffer, and places the snapshots that are due.
    fn save(&mut self, slots: &mut Slots, play: &Play, fields: &[AppMemory]) -> Result<()> {
        let Play { step, ts, .. } = *play;
        self.next_call(slots)?;
        let buffer = self.free_buffer(slots)?;
        slots.device.concerns(ts);
        self.coder.make(&mut *slots.device, buffer, fields)?;
        self.made.push_back(Made { buffer, step, ts, call: self.calls });
        self.place_made(slots, |made, lag| made > lag)
    }

    fn fetch(&mut self, slots: &mut Slots, step: Step, _: PreviousLevels) -> Result<()> {
        self.place_made_for(slots, step)?;
        let bytes = slots.pool_bytes(step.host);
        let ts = slots.pool[step.host as usize].ts;
        slots.device.concerns(ts);
        if !self.place_in_cache(slots, step.slot, ts, bytes) {
            slots.stay_in_pool(step);
            return Ok(());
        }
        slots.upload(step, self.read.map(|(_, read)| read))
    }

    fn restore(&mut self, slots: &mut Slots, play: &Play, fields: &[AppMemory]) -> Result<bool> {
        let Play { step, ts, last, .. } = *play;
        self.next_call(slots)?;
        self.place_made_for(slots, step)?;
        slots.expect(place_of(step), ts)?;
        let held = match slots.cache.get(step.slot as usize) {
            Some(slot) => slot.held.clone(),
            None => Held::InPoolSlot(step.host),
        };
        let (moved, from, bytes) = match held {
            Held::InCache(at) => {
                if slots.cache[step.slot as usize].filling {
                    slots.await_upload(step.slot)?;
                }
                (step.host != NONE, Place::Device(at.start), at.end - at.start)
            }
            held => {
                let buffer = self.free_buffer(slots)?;
                let to = self.coder.buffer(buffer);
                slots.device.concerns(ts);
                let (bytes, written) = match &held {
                    Held::InPoolSlot(host) => (
                        slots.pool_bytes(*host),
                        slots.written(*host).filter(|_| !slots.is_on_disk(*host)),
                    ),
                    Held::InPool(at) => (at.end - at.start, slots.end_of(self.written)),
                    _ => return fail!(Device, "the snapshot of state {ts} is in no tier"),
                };
                if let Some(written) = written {
                    slots.device.wait(Lane::App, written)?;
                }
                if let Held::InPoolSlot(host) = held {
                    let from = slots.begin_read(Lane::App, host)?;
                    slots.device.copy(Lane::App, to, from, bytes)?;
                    slots.end_read(Lane::App, host)?;
                } else if let Held::InPool(at) = held {
                    slots.device.copy(Lane::App, to, Place::Host(at.start), bytes)?;
                }
                (true, to, bytes)
            }
        };
        slots.device.concerns(ts);
        self.coder.open(&mut *slots.device, ts, from, bytes, fields)?;
        if last {
            self.forget(slots, step, ts)?;
        }
        Ok(moved)
    }

    fn begin_save(&mut self, slots: &mut Slots, _: Step, spare: u32) -> Result<Vec<*mut c_void>> {
        slots.pointers(NONE, spare)
    }

    fn commit_save(&mut self, slots: &mut Slots, play: &Play) -> Result<()> {
        let Play { step, ts, spare, .. } = *play;
        let fields = slots.spare_fields(spare)?;
        if step.slot == NONE && step.host == NONE {
            slots.saved.push(Saved { ts, bytes: 0, written: false });
            return Ok(());
        }
        slots.device.concerns(ts);
        self.save(slots, play, &fields)
    }

    fn acquire(&mut self, slots: &mut Slots, play: &Play) -> Result<(Vec<*mut c_void>, bool)> {
        let fields = slots.spare_fields(play.spare)?;
        slots.device.concerns(play.ts);
        let moved = self.restore(slots, play, &fields)?;
        Ok((slots.pointers(NONE, play.spare)?, moved))
    }

    fn stored(&mut self, slots: &mut Slots, at: Step, ts: i64) -> Result<Stored> {
        let coded = |place, bytes| Ok(Stored { ts, place, bytes, is_coded: true });
        slots.expect(at, ts)?;
        let in_host = |host: u32| coded(slots.in_host(host), slots.pool_bytes(host));
        if slots.is_in_memory(at.host) {
            return in_host(at.host);
        }
        match slots.cache.get(at.slot as usize).map(|slot| slot.held.clone()) {
            Some(Held::InCache(range)) => {
                coded(Place::Device(range.start), range.end - range.start)
            }
            Some(Held::InPool(range)) => coded(Place::Host(range.start), range.end - range.start),
            Some(Held::InPoolSlot(host)) => in_host(host),
            _ if at.host != NONE => in_host(at.host),
            _ => fail!(Device, "the snapshot of state {ts} is in no tier"),
        }
    }

    fn settle(&mut self, slots: &mut Slots) -> Result<()> {
        self.place_made(slots, |made, _| made > 0)
    }

    fn make_room(
        &mut self,
        slots: &mut Slots,
        step: Step,
        ts: i64,
        (bytes, is_coded): (u64, bool),
    ) -> Result<Destinations> {
        if !is_coded {
            return fail!(
                Stream,
                "the snapshot of state {ts} is raw, and this session stores it compressed"
            );
        }
        self.largest = self.largest.max(bytes);
        let in_cache = step.slot != NONE && self.place_in_cache(slots, step.slot, ts, bytes);
        if step.host != NONE {
            self.place_in_pool(slots, step.host, ts, bytes)?;
        }
        let host = (step.host != NONE).then_some(step.host);
        if in_cache {
            slots.cache[step.slot as usize].host = step.host;
            return Ok([Some(slots.in_slot(step.slot, 0)), host.map(|host| slots.in_host(host))]);
        }
        if let Some(host) = host {
            slots.stay_in_pool(step);
            return Ok([Some(slots.in_host(host)), None]);
        }
        let at = self.take_of_pool(slots, bytes)?;
        let place = Place::Host(at.start);
        if let Some(slot) = slots.cache.get_mut(step.slot as usize) {
            (slot.held, slot.host, slot.ts) = (Held::InPool(at), NONE, ts);
        }
        Ok([Some(place), None])
    }

    fn check(&mut self, _: &mut Slots) -> Result<()> {
        self.coder.check()
    }

    fn is_checked_later(&self) -> bool {
        self.coder.lag() > 0
    }

    fn largest(&self) -> u64 {
        self.largest
    }

    fn peaks(&self) -> Option<(u64, u64)> {
        let coder = self.coder.device_bytes() + self.coder.own_bytes();
        Some((self.cache_bytes.peak() + coder, self.pool_bytes.peak()))
    }

    fn close(&mut self, slots: &mut Slots) {
        self.coder.close(&mut *slots.device);
    }
}

#[cfg(test)]
#[path = "packed_tests.rs"]
mod tests;
