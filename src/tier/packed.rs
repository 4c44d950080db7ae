//! Compressed snapshots in the tiers. Each snapshot takes as many bytes of a slab as it has.

use super::{DeviceSlot, Held, HostSlot, Made, Saved, Tiers};
use crate::device::{AppMemory, Event, Lane, Place};
use crate::error::{fail, Result};
use crate::fallible_vec;
use crate::plan::{Step, NONE};
use std::ops::Range;

/// Returns the later of two downloads, by number.
fn later(a: Option<(u64, Event)>, b: (u64, Event)) -> Option<(u64, Event)> {
    a.filter(|a| a.0 > b.0).or(Some(b))
}

impl Tiers {
    /// Compresses the state u(ts) into a staging buffer, and places the snapshots that are due.
    pub(super) fn save_compressed(
        &mut self,
        step: Step,
        ts: i64,
        fields: &[AppMemory],
    ) -> Result<()> {
        self.next_call()?;
        let stage = self.free_stage()?;
        self.device.concerns(ts);
        let Some(c) = &mut self.compression else { return fail!(State, "no codec") };
        c.coder.make(&mut *self.device, stage, fields)?;
        c.made.push_back(Made { stage, step, ts, call: c.calls });
        self.place_made(|made, lag| made > lag)
    }

    /// Counts a save or restore and places the snapshots that are due by that count. Which
    /// snapshots are due depends on the count alone, never on how far the GPU has come.
    fn next_call(&mut self) -> Result<()> {
        let Some(c) = &mut self.compression else { return fail!(State, "no codec") };
        c.calls += 1;
        let (calls, lag) = (c.calls, c.coder.lag() as u64);
        while self
            .compression
            .as_ref()
            .and_then(|c| c.made.front())
            .is_some_and(|made| made.call + lag < calls)
        {
            self.place_oldest()?;
        }
        Ok(())
    }

    /// Places snapshots, oldest first, while `due` returns true for the number of snapshots that
    /// wait in staging buffers and the coder's lag.
    fn place_made(&mut self, due: impl Fn(usize, usize) -> bool) -> Result<()> {
        while self.compression.as_ref().is_some_and(|c| due(c.made.len(), c.coder.lag())) {
            self.place_oldest()?;
        }
        Ok(())
    }

    /// Number of a staging buffer without a snapshot. Places the oldest snapshot if all buffers are
    /// full.
    fn free_stage(&mut self) -> Result<usize> {
        self.place_made(|made, lag| made >= lag.max(1))?;
        let Some(c) = &self.compression else { return fail!(State, "no codec") };
        Ok((0..c.coder.lag().max(1))
            .find(|&k| c.made.iter().all(|made| made.stage != k))
            .unwrap_or(0))
    }

    /// Places the snapshots that a transfer or restore of `step` reads, and those whose slot `step`
    /// reuses.
    pub(super) fn place_made_for(&mut self, step: Step) -> Result<()> {
        let touches = |made: &Made| {
            let same = |a: u32, b: u32| a != NONE && a == b;
            same(made.step.slot, step.slot) || same(made.step.host, step.host)
        };
        while self.compression.as_ref().is_some_and(|c| c.made.iter().any(touches)) {
            self.place_oldest()?;
        }
        Ok(())
    }

    /// Moves the oldest snapshot from its staging buffer to the tier that its step names. Blocks
    /// the calling thread until the size of that snapshot is known.
    fn place_oldest(&mut self) -> Result<()> {
        let Some(c) = &mut self.compression else { return fail!(State, "no codec") };
        let Some(Made { stage, step, ts, .. }) = c.made.pop_front() else { return Ok(()) };
        let bytes = c
            .coder
            .size(&mut *self.device, stage)
            .map_err(|e| e.within(format_args!("the snapshot of state {ts}")))?;
        c.largest = c.largest.max(bytes);
        let from = c.coder.stage(stage);
        self.device.concerns(ts);
        let in_cache = step.slot != NONE && self.place_in_cache(step.slot, bytes);
        if step.host != NONE {
            self.place_in_pool(step.host, ts, bytes)?;
        }
        if in_cache {
            if let Some((_, read)) = self.compression.as_ref().and_then(|c| c.read) {
                self.device.wait(Lane::App, read)?;
            }
            self.device.copy(Lane::App, self.in_slot(step.slot, 0), from, bytes)?;
            self.cache[step.slot as usize].host = step.host;
            self.write_back(step)?;
            self.saved.push(Saved { ts, bytes, written: step.host != NONE });
            return Ok(());
        }
        let (at, held) = if step.host != NONE {
            (self.pool[step.host as usize].at.clone(), Held::InPoolSlot(step.host))
        } else {
            let at = self.take_of_pool(bytes)?;
            (at.clone(), Held::InPool(at))
        };
        if let Some((_, written)) = self.compression.as_ref().and_then(|c| c.written) {
            self.device.wait(Lane::App, written)?;
        }
        self.device.copy(Lane::App, Place::Host(at.start), from, bytes)?;
        if let Some(slot) = self.cache.get_mut(step.slot as usize) {
            (slot.held, slot.host) = (held, step.host);
        }
        self.saved.push(Saved { ts, bytes, written: true });
        Ok(())
    }

    pub(super) fn restore_compressed(
        &mut self,
        step: Step,
        ts: i64,
        last: bool,
        fields: &[AppMemory],
    ) -> Result<bool> {
        self.next_call()?;
        self.place_made_for(step)?;
        let held = match self.cache.get(step.slot as usize) {
            Some(slot) => slot.held.clone(),
            None => Held::InPoolSlot(step.host),
        };
        let (moved, from, bytes) = match held {
            Held::InCache(at) => {
                let DeviceSlot { filled, filling, .. } = self.cache[step.slot as usize];
                if filling {
                    self.device.wait(Lane::App, filled)?;
                    self.cache[step.slot as usize].filling = false;
                }
                (step.host != NONE, Place::Device(at.start), at.end - at.start)
            }
            held => {
                let stage = self.free_stage()?;
                let Some(c) = &self.compression else { return fail!(State, "no codec") };
                let (at, written) = match held {
                    Held::InPoolSlot(host) => (
                        self.pool[host as usize].at.clone(),
                        Some(self.pool[host as usize].written),
                    ),
                    Held::InPool(at) => (at, c.written.map(|(_, event)| event)),
                    _ => return fail!(Device, "the snapshot of state {ts} is in no tier"),
                };
                let (to, bytes) = (c.coder.stage(stage), at.end - at.start);
                self.device.concerns(ts);
                if let Some(written) = written {
                    self.device.wait(Lane::App, written)?;
                }
                self.device.copy(Lane::App, to, Place::Host(at.start), bytes)?;
                (true, to, bytes)
            }
        };
        let Some(c) = &mut self.compression else { return fail!(State, "no codec") };
        self.device.concerns(ts);
        c.coder.open(&mut *self.device, ts, from, bytes, fields)?;
        if last {
            self.forget(step, ts);
        }
        Ok(moved)
    }

    /// Frees the bytes of a snapshot that no later RESTORE reads.
    fn forget(&mut self, step: Step, ts: i64) {
        let host = match self.cache.get(step.slot as usize) {
            Some(slot) => slot.host,
            None => step.host,
        };
        if step.slot != NONE {
            self.leave_cache(step.slot);
        }
        if self.pool.get(host as usize).is_some_and(|slot| slot.ts == ts) {
            self.leave_pool(host);
        }
    }

    /// Empties cache slot `slot` and takes `bytes` bytes of the cache for it. Returns false, with
    /// the slot empty, if the cache has no free range that long.
    pub(super) fn place_in_cache(&mut self, slot: u32, bytes: u64) -> bool {
        self.leave_cache(slot);
        let Some(c) = &mut self.compression else { return false };
        match c.cache.take(bytes) {
            Some(at) => self.cache[slot as usize].held = Held::InCache(at),
            None => return false,
        }
        true
    }

    fn leave_cache(&mut self, slot: u32) {
        let slot = &mut self.cache[slot as usize];
        let Some(c) = &mut self.compression else { return };
        match std::mem::replace(&mut slot.held, Held::Nowhere) {
            Held::InCache(at) => {
                c.cache.give(at);
                if slot.reading {
                    c.read = later(c.read, (slot.download, slot.read));
                }
            }
            Held::InPool(at) => c.pool.give(at),
            Held::InPoolSlot(_) | Held::Nowhere => {}
        }
        (slot.filling, slot.reading) = (false, false);
    }

    /// Empties pool slot `slot` and takes `bytes` bytes of the pool for the snapshot of state `ts`.
    fn place_in_pool(&mut self, slot: u32, ts: i64, bytes: u64) -> Result<()> {
        self.leave_pool(slot);
        self.pool[slot as usize].at = self.take_of_pool(bytes)?;
        self.pool[slot as usize].ts = ts;
        Ok(())
    }

    fn leave_pool(&mut self, slot: u32) {
        let HostSlot { at, ts, written, download } = &mut self.pool[slot as usize];
        let Some(c) = &mut self.compression else { return };
        *ts = -1;
        if at.is_empty() {
            return;
        }
        c.written = later(c.written, (*download, *written));
        let at = std::mem::take(at);
        // If a cache slot reads its snapshot from this pool slot, the cache slot keeps the bytes.
        match self.cache.iter_mut().find(|cached| cached.held == Held::InPoolSlot(slot)) {
            Some(cached) => cached.held = Held::InPool(at),
            None => c.pool.give(at),
        }
    }

    /// Takes `bytes` bytes of the pool. If no free range is that long, this function waits for all
    /// lanes and moves all snapshots of the pool together. Fails if the pool has too few free bytes
    /// in all.
    fn take_of_pool(&mut self, bytes: u64) -> Result<Range<u64>> {
        let Some(c) = &mut self.compression else { return fail!(State, "no codec") };
        if let Some(at) = c.pool.take(bytes) {
            return Ok(at);
        }
        self.device.synchronize()?;
        let slots = self.pool.iter_mut().map(|slot| &mut slot.at).filter(|at| !at.is_empty());
        let overflow = self.cache.iter_mut().filter_map(|slot| {
            if let Held::InPool(at) = &mut slot.held {
                Some(at)
            } else {
                None
            }
        });
        let mut taken: Vec<&mut Range<u64>> = Vec::new();
        slots.chain(overflow).try_for_each(|at| fallible_vec::push(&mut taken, at))?;
        taken.sort_unstable_by_key(|at| at.start);
        c.pool.clear();
        for at in taken {
            let size = at.end - at.start;
            let Some(to) = c.pool.take(size) else {
                return fail!(Memory, "the pool has less memory than it holds");
            };
            let (from, dest) = (
                self.device.pointer(Place::Host(at.start), size)?,
                self.device.pointer(Place::Host(to.start), size)?,
            );
            // SAFETY: both ranges lie in the host slab, as `pointer` has checked, and no lane is at
            // work. `ptr::copy` allows the two ranges to overlap.
            unsafe { std::ptr::copy(from.cast::<u8>(), dest.cast::<u8>(), size as usize) };
            *at = to;
        }
        match c.pool.take(bytes) {
            Some(at) => Ok(at),
            None => fail!(
                Budget,
                "a snapshot of {bytes} bytes does not fit host memory any more, of which {} bytes are free: raise host_budget, or lower \
                 compression_factor or checkpointing_snaps",
                c.pool.free_bytes()
            ),
        }
    }
}
