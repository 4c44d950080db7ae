//! Compressed snapshots in the tiers: each takes the bytes that it has.

use super::{DeviceSlot, Held, HostSlot, Saved, Tiers};
use crate::device::{AppMemory, Event, Lane, Place};
use crate::error::{fail, Result};
use crate::plan::{Step, NONE};
use std::ops::Range;
use std::time::Instant;

/// The later of two downloads.
fn later(a: Option<(u64, Event)>, b: (u64, Event)) -> Option<(u64, Event)> {
    a.filter(|a| a.0 > b.0).or(Some(b))
}

impl Tiers {
    pub(super) fn save_compressed(&mut self, step: Step, ts: i64, fields: &[AppMemory]) -> Result<Saved> {
        let bytes = self.compress(fields)?;
        let in_cache = step.slot != NONE && self.place_in_cache(step.slot, bytes);
        if step.host != NONE {
            self.place_in_pool(step.host, ts, bytes)?;
        }
        if in_cache {
            if let Some((_, read)) = self.compression.as_ref().and_then(|c| c.read) {
                self.device.wait(Lane::App, read)?;
            }
            self.unstage(self.in_slot(step.slot, 0), bytes)?;
            self.cache[step.slot as usize].host = step.host;
            self.write_back(step)?;
            return Ok(Saved { bytes, written: step.host != NONE });
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
        self.unstage(Place::Host(at.start), bytes)?;
        if let Some(slot) = self.cache.get_mut(step.slot as usize) {
            (slot.held, slot.host) = (held, step.host);
        }
        Ok(Saved { bytes, written: true })
    }

    fn compress(&mut self, fields: &[AppMemory]) -> Result<u64> {
        let Some(c) = &mut self.compression else { return fail!(State, "no codec") };
        let begin = Instant::now();
        // SAFETY: the fields are host memory, checked against the session's device, as promised for `AppMemory`.
        let bytes = unsafe { c.codec.compress(fields, c.stage.bytes_mut()) }? as u64;
        c.compress += begin.elapsed().as_secs_f64();
        c.largest = c.largest.max(bytes);
        Ok(bytes)
    }

    /// Copies a snapshot from where it was made.
    fn unstage(&mut self, to: Place, bytes: u64) -> Result<()> {
        match &self.compression {
            Some(c) => self.device.copy(Lane::App, to, Place::App(c.stage.memory()), bytes),
            None => Ok(()),
        }
    }

    pub(super) fn restore_compressed(&mut self, step: Step, ts: i64, last: bool, fields: &[AppMemory]) -> Result<bool> {
        let held = match self.cache.get(step.slot as usize) {
            Some(slot) => slot.held.clone(),
            None => Held::InPoolSlot(step.host),
        };
        let Some(c) = &mut self.compression else { return fail!(State, "no codec") };
        let (moved, from) = match held {
            Held::InCache(at) => {
                let DeviceSlot { filled, filling, .. } = self.cache[step.slot as usize];
                if filling {
                    self.device.wait(Lane::App, filled)?;
                    self.cache[step.slot as usize].filling = false;
                }
                let address = self.device.pointer(Place::Device(at.start), at.end - at.start)?;
                // SAFETY: these bytes of the device slab, host memory here, hold the snapshot; no lane writes them before this returns.
                (step.host != NONE, unsafe { std::slice::from_raw_parts(address.cast::<u8>(), (at.end - at.start) as usize) })
            }
            held => {
                let (at, written) = match held {
                    Held::InPoolSlot(host) => (self.pool[host as usize].at.clone(), Some(self.pool[host as usize].written)),
                    Held::InPool(at) => (at, c.written.map(|(_, event)| event)),
                    _ => return fail!(Device, "the snapshot of state {ts} is in no tier"),
                };
                if let Some(written) = written {
                    self.device.wait(Lane::App, written)?;
                }
                let bytes = at.end - at.start;
                self.device.copy(Lane::App, Place::App(c.stage.memory()), Place::Host(at.start), bytes)?;
                (true, &c.stage.bytes()[..bytes as usize])
            }
        };
        let begin = Instant::now();
        // SAFETY: the fields are host memory, checked against the session's device, as promised for `AppMemory`.
        unsafe { c.codec.decompress(from, fields) }.map_err(|e| e.within(format_args!("the snapshot of state {ts}")))?;
        c.decompress += begin.elapsed().as_secs_f64();
        if last {
            self.forget(step, ts);
        }
        Ok(moved)
    }

    /// Gives back the bytes of a snapshot that nobody needs any more.
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

    /// Makes room for a snapshot in a cache slot, in place of what is there. Says whether there is any.
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

    /// Makes room for a snapshot in a pool slot, in place of what is there.
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
        // A cache slot that has its snapshot there keeps it.
        match self.cache.iter_mut().find(|cached| cached.held == Held::InPoolSlot(slot)) {
            Some(cached) => cached.held = Held::InPool(at),
            None => c.pool.give(at),
        }
    }

    /// Bytes of the pool. If there are enough, but in pieces, everything moves together first, for which all lanes must be idle.
    fn take_of_pool(&mut self, bytes: u64) -> Result<Range<u64>> {
        let Some(c) = &mut self.compression else { return fail!(State, "no codec") };
        if let Some(at) = c.pool.take(bytes) {
            return Ok(at);
        }
        self.device.synchronize()?;
        let slots = self.pool.iter_mut().map(|slot| &mut slot.at).filter(|at| !at.is_empty());
        let overflow = self.cache.iter_mut().filter_map(|slot| if let Held::InPool(at) = &mut slot.held { Some(at) } else { None });
        let mut taken: Vec<&mut Range<u64>> = slots.chain(overflow).collect();
        taken.sort_by_key(|at| at.start);
        c.pool.clear();
        for at in taken {
            let size = at.end - at.start;
            let Some(to) = c.pool.take(size) else { return fail!(Memory, "the pool has less memory than it holds") };
            let (from, dest) = (self.device.pointer(Place::Host(at.start), size)?, self.device.pointer(Place::Host(to.start), size)?);
            // SAFETY: both ranges lie in the host slab, as just checked, and no lane is at work; what they share is copied as if at once.
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
