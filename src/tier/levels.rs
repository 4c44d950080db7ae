//! Raw snapshots that share time levels: a slot has a state's own fields, and its past, the previous time level, is in a place beside the
//! slots or, unwritten, in the slot of the snapshot one step before. The plan says which.
//!
//! That the past is the other one's present is the application's word. It is compared at every SAVE: a shot in which it does not hold ends
//! there, and no wrong state is ever restored.

use super::{Saved, Tiers};
use crate::device::{AppMemory, Event, Lane, Place};
use crate::error::{fail, Result};
use crate::plan::{Past, Plan, Step, NONE};
use crate::snapshot::Levels;

/// What tiers with shared time levels have beside slots.
pub(super) struct Sharing {
    levels: Levels,
    /// Where places begin in the cache and in the pool.
    device: u64,
    host: u64,
    /// For each place of the cache, the last download that reads it, if there is one.
    places: Vec<(Event, bool)>,
    /// Bytes of the plan in the cache and in the pool.
    bytes: (u64, u64),
}

/// The pasts of a snapshot, in the cache and in the pool.
pub type Pasts = (Past, Past);

impl Sharing {
    pub fn new(levels: Levels) -> Self {
        Sharing { levels, device: 0, host: 0, places: Vec::new(), bytes: (0, 0) }
    }

    /// Bytes of a slot.
    pub fn own_bytes(&self) -> u64 {
        self.levels.own_bytes
    }

    /// Bytes of the plan in the cache and in the pool.
    pub fn bytes(&self) -> (u64, u64) {
        self.bytes
    }

    /// Takes on a plan.
    pub fn fit(&mut self, plan: &Plan, event: &mut dyn FnMut() -> Result<Event>) -> Result<()> {
        let (device, host) = plan.places();
        for _ in self.places.len()..device as usize {
            self.places.push((event()?, false));
        }
        let of = |count: u32, bytes: u64| u64::from(count) * bytes;
        let Levels { own_bytes, past_bytes, .. } = self.levels;
        (self.device, self.host) = (of(plan.device_slots, own_bytes), of(plan.host_slots, own_bytes));
        self.bytes = (self.device + of(device, past_bytes), self.host + of(host, past_bytes));
        Ok(())
    }

    pub fn empty(&mut self) {
        self.places.iter_mut().for_each(|place| place.1 = false);
    }

    /// Where the past of a snapshot in the cache is, field by field: number of the field, and place.
    fn in_cache(&self, past: Past) -> Vec<(usize, Place)> {
        let Levels { own_bytes, past_bytes, past: fields, .. } = &self.levels;
        let place = |&(i, at, of): &(usize, u64, u64)| match past {
            Past::Nowhere => None,
            Past::Place(k) => Some((i, Place::Device(self.device + u64::from(k) * past_bytes + at))),
            Past::Slot(k) => Some((i, Place::Device(u64::from(k) * own_bytes + of))),
        };
        fields.iter().filter_map(place).collect()
    }

    /// The same in the pool.
    fn in_pool(&self, past: Past) -> Vec<(usize, Place)> {
        let Levels { own_bytes, past_bytes, past: fields, .. } = &self.levels;
        let place = |&(i, at, of): &(usize, u64, u64)| match past {
            Past::Nowhere => None,
            Past::Place(k) => Some((i, Place::Host(self.host + u64::from(k) * past_bytes + at))),
            Past::Slot(k) => Some((i, Place::Host(u64::from(k) * own_bytes + of))),
        };
        fields.iter().filter_map(place).collect()
    }
}

impl Tiers {
    fn sharing(&mut self) -> Result<&mut Sharing> {
        match &mut self.sharing {
            Some(sharing) => Ok(sharing),
            None => fail!(State, "no time levels"),
        }
    }

    fn field_bytes(&self, i: usize) -> u64 {
        self.layout.fields[i].bytes().unwrap_or(0)
    }

    /// Copies the own fields between the application and a slot.
    fn copy_own(&mut self, fields: &[AppMemory], slot: Place, save: bool) -> Result<()> {
        for (i, at) in self.sharing()?.levels.own.clone() {
            let (app, slot, bytes) = (Place::App(fields[i]), slot.plus(at), self.field_bytes(i));
            let (to, from) = if save { (slot, app) } else { (app, slot) };
            self.device.copy(Lane::App, to, from, bytes)?;
        }
        Ok(())
    }

    pub(super) fn save_shared(&mut self, step: Step, pasts: Pasts, ts: i64, fields: &[AppMemory]) -> Result<()> {
        self.clear_for_save(step)?;
        self.store_in_pool(step, ts);
        if let Past::Place(k) = pasts.0 {
            self.clear_place(Lane::App, k)?;
        }
        let cached = step.slot != NONE;
        let slot = if cached { self.in_slot(step.slot, 0) } else { self.in_pool(step.host) };
        self.copy_own(fields, slot, true)?;
        let (past, to) = if cached { (pasts.0, self.sharing()?.in_cache(pasts.0)) } else { (pasts.1, self.sharing()?.in_pool(pasts.1)) };
        for (i, to) in to {
            match past {
                Past::Slot(other) => self.compare(ts, i, fields[i], to, (!cached).then_some(other))?,
                _ => self.device.copy(Lane::App, to, Place::App(fields[i]), self.field_bytes(i))?,
            }
        }
        if cached && step.host != NONE {
            self.write_back_shared(step, pasts, ts, fields)?;
        } else if let Some(slot) = self.cache.get_mut(step.slot as usize) {
            slot.reading = false;
        }
        let of = if cached { pasts.0 } else { pasts.1 };
        let levels = &self.sharing()?.levels;
        let bytes = levels.own_bytes + if matches!(of, Past::Slot(_)) { 0 } else { levels.past_bytes };
        self.saved.push(Saved { ts, bytes, written: step.host != NONE });
        Ok(())
    }

    /// Before a place of the cache is written: its last download has read it.
    fn clear_place(&mut self, lane: Lane, k: u32) -> Result<()> {
        let (read, reading) = self.sharing()?.places[k as usize];
        if reading {
            self.device.wait(lane, read)?;
        }
        if lane == Lane::App {
            self.sharing()?.places[k as usize].1 = false;
        }
        Ok(())
    }

    /// Refuses a state whose past is not what the snapshot one step before has, which for a slot of the pool may still be on its way.
    fn compare(&mut self, ts: i64, i: usize, field: AppMemory, with: Place, on_host: Option<u32>) -> Result<()> {
        if let Some(slot) = on_host {
            self.device.wait(Lane::App, self.pool[slot as usize].written)?;
        }
        let bytes = field.bytes();
        let other = self.device.pointer(with, bytes as u64)?;
        // SAFETY: host memory, on the only backend that shares time levels: the application's, as promised for `AppMemory`, and the slot's,
        // which no lane writes now.
        let same = unsafe { std::slice::from_raw_parts(field.address(), bytes) == std::slice::from_raw_parts(other.cast::<u8>(), bytes) };
        if !same {
            return fail!(
                Values,
                "shared_levels = 1: field {i} of state {ts} is not what the field that it is the previous level of was in state {}; use 0 if \
                 steps or sources change it afterwards",
                ts - 1
            );
        }
        Ok(())
    }

    /// Sends the snapshot in a slot on to the host, its past only if it is not there.
    fn write_back_shared(&mut self, step: Step, pasts: Pasts, ts: i64, fields: &[AppMemory]) -> Result<()> {
        let (from, to) = (self.sharing()?.in_cache(pasts.0), self.sharing()?.in_pool(pasts.1));
        if let Past::Slot(other) = pasts.1 {
            for &(i, at) in to.iter().filter(|_| !matches!(pasts.0, Past::Slot(_))) {
                self.compare(ts, i, fields[i], at, Some(other))?;
            }
        }
        self.device.record(Lane::App, self.app)?;
        self.device.wait(Lane::Download, self.app)?;
        let own_bytes = self.sharing()?.own_bytes();
        self.device.copy(Lane::Download, self.in_pool(step.host), self.in_slot(step.slot, 0), own_bytes)?;
        if let Past::Place(_) = pasts.1 {
            for (&(i, to), &(_, from)) in to.iter().zip(&from) {
                self.device.copy(Lane::Download, to, from, self.field_bytes(i))?;
            }
        }
        self.read_by_download(step.slot)?;
        match pasts.0 {
            Past::Slot(other) => self.read_by_download(other)?,
            Past::Place(k) => {
                let read = self.sharing()?.places[k as usize].0;
                self.device.record(Lane::Download, read)?;
                self.sharing()?.places[k as usize].1 = true;
            }
            Past::Nowhere => {}
        }
        self.device.record(Lane::Download, self.pool[step.host as usize].written)
    }

    /// A slot of the cache is read by what the download lane does up to now.
    fn read_by_download(&mut self, slot: u32) -> Result<()> {
        let slot = &mut self.cache[slot as usize];
        slot.reading = true;
        self.device.record(Lane::Download, slot.read)
    }

    /// What was downloaded into the slots of the pool that hold a snapshot is there when `lane` gets past this.
    fn await_pool(&mut self, lane: Lane, host: u32, past: Past) -> Result<()> {
        self.device.wait(lane, self.pool[host as usize].written)?;
        match past {
            Past::Slot(other) => self.device.wait(lane, self.pool[other as usize].written),
            _ => Ok(()),
        }
    }

    pub(super) fn fetch_shared(&mut self, step: Step, pasts: Pasts) -> Result<()> {
        let slot = self.cache[step.slot as usize].clone();
        self.device.concerns(self.pool[step.host as usize].ts);
        self.device.record(Lane::App, self.app)?;
        self.device.wait(Lane::Upload, self.app)?;
        if slot.reading {
            self.device.wait(Lane::Upload, slot.read)?;
        }
        if let Past::Place(k) = pasts.0 {
            self.clear_place(Lane::Upload, k)?;
        }
        self.await_pool(Lane::Upload, step.host, pasts.1)?;
        let own_bytes = self.sharing()?.own_bytes();
        self.device.copy(Lane::Upload, self.in_slot(step.slot, 0), self.in_pool(step.host), own_bytes)?;
        let (to, from) = (self.sharing()?.in_cache(pasts.0), self.sharing()?.in_pool(pasts.1));
        for ((i, to), (_, from)) in to.into_iter().zip(from) {
            self.device.copy(Lane::Upload, to, from, self.field_bytes(i))?;
        }
        self.device.record(Lane::Upload, slot.filled)?;
        let slot = &mut self.cache[step.slot as usize];
        (slot.host, slot.filling, slot.reading) = (step.host, true, false);
        Ok(())
    }

    pub(super) fn restore_shared(&mut self, step: Step, pasts: Pasts, fields: &[AppMemory]) -> Result<bool> {
        let (from, past) = if step.slot == NONE {
            self.await_pool(Lane::App, step.host, pasts.1)?;
            (self.in_pool(step.host), self.sharing()?.in_pool(pasts.1))
        } else {
            self.await_fetch(step)?;
            (self.in_slot(step.slot, 0), self.sharing()?.in_cache(pasts.0))
        };
        self.copy_own(fields, from, false)?;
        for (i, from) in past {
            self.device.copy(Lane::App, Place::App(fields[i]), from, self.field_bytes(i))?;
        }
        Ok(step.host != NONE)
    }
}
