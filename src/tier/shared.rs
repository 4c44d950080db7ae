//! Raw snapshots that share time levels. A slot holds the state's own fields. The previous time
//! level lies in a place beside the slots, or is not stored again: it is the current time level of
//! the snapshot one time step before, in the slot of that snapshot. The plan says which.
//!
//! That the previous time level of u(t) equals the current time level of u(t-1) is a promise of the
//! application. Every SAVE checks this promise by checksums: each slot holds the checksums of its
//! current time level. A broken promise fails the shot: on the host at the SAVE, on a GPU before
//! TERMINATE.

use super::field_checksums::FieldChecksums;
use super::{Saved, Tiers};
use crate::device::{AppMemory, Event, Lane, Place};
use crate::error::{fail, Result};
use crate::fallible_vec;
use crate::layout::{Levels, PreviousField};
use crate::plan::{Plan, PreviousLevel, Step, NONE};

/// What tiers with shared time levels have beside slots.
pub(super) struct Sharing {
    levels: Levels,
    pub(super) checksums: FieldChecksums,
    /// Offset of the first place for a previous time level, in bytes, in the cache and in the pool.
    device: u64,
    host: u64,
    /// For each place of the cache, the event after the last download from the place, and whether
    /// there was a download since the last SAVE into the place.
    places: Vec<(Event, bool)>,
    /// Bytes that the plan needs in the cache and in the pool.
    bytes: (u64, u64),
}

/// Where the previous time level of one snapshot is, in the cache and in the pool.
pub type PreviousLevels = (PreviousLevel, PreviousLevel);

impl Sharing {
    pub fn new(levels: Levels, checksums: FieldChecksums) -> Self {
        Sharing { levels, checksums, device: 0, host: 0, places: Vec::new(), bytes: (0, 0) }
    }

    /// Bytes of a slot.
    pub fn own_bytes(&self) -> u64 {
        self.levels.own_bytes
    }

    /// Bytes that the plan needs in the cache and in the pool.
    pub fn bytes(&self) -> (u64, u64) {
        self.bytes
    }

    /// Replaces the plan. `event` creates an event of the device.
    pub fn fit(&mut self, plan: &Plan, event: &mut dyn FnMut() -> Result<Event>) -> Result<()> {
        let (device, host) = plan.places();
        for _ in self.places.len()..device as usize {
            fallible_vec::push(&mut self.places, (event()?, false))?;
        }
        let of = |count: u32, bytes: u64| u64::from(count) * bytes;
        let Levels { own_bytes, previous_bytes, .. } = self.levels;
        (self.device, self.host) =
            (of(plan.device_slots, own_bytes), of(plan.host_slots, own_bytes));
        self.bytes = (
            self.device + of(device, previous_bytes) + self.checksums.device_bytes(),
            self.host + of(host, previous_bytes),
        );
        Ok(())
    }

    pub fn empty(&mut self) {
        self.places.iter_mut().for_each(|place| place.1 = false);
    }

    /// The place of each field of the previous time level of a snapshot in the cache, with the
    /// number of the field. Empty if the previous time level is not there.
    fn in_cache(&self, past: PreviousLevel) -> Vec<(usize, Place)> {
        self.places_of(past, Place::Device(self.device), Place::Device(0))
    }

    /// The place of each field of the previous time level of a snapshot in the pool, as `in_cache`.
    fn in_pool(&self, past: PreviousLevel) -> Vec<(usize, Place)> {
        self.places_of(past, Place::Host(self.host), Place::Host(0))
    }

    /// As `in_cache`, for the tier whose places begin at `places` and whose slots begin at `slots`.
    fn places_of(&self, past: PreviousLevel, places: Place, slots: Place) -> Vec<(usize, Place)> {
        let Levels { own_bytes, previous_bytes, past: fields, .. } = &self.levels;
        let place = |field: &PreviousField| match past {
            PreviousLevel::Nowhere => None,
            PreviousLevel::Place(k) => {
                Some((field.field, places.plus(u64::from(k) * previous_bytes + field.at)))
            }
            PreviousLevel::Slot(k) => {
                Some((field.field, slots.plus(u64::from(k) * own_bytes + field.of)))
            }
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

    /// Copies a state's own fields from the application to a slot (`save`) or back.
    fn copy_own(&mut self, fields: &[AppMemory], slot: Place, save: bool) -> Result<()> {
        for (i, at) in self.sharing()?.levels.own.clone() {
            let (app, slot, bytes) = (Place::App(fields[i]), slot.plus(at), self.field_bytes(i));
            let (to, from) = if save { (slot, app) } else { (app, slot) };
            self.device.copy(Lane::App, to, from, bytes)?;
        }
        Ok(())
    }

    pub(super) fn save_shared(
        &mut self,
        step: Step,
        previous_levels: PreviousLevels,
        ts: i64,
        fields: &[AppMemory],
    ) -> Result<()> {
        self.clear_for_save(step)?;
        self.store_in_pool(step, ts);
        if let PreviousLevel::Place(k) = previous_levels.0 {
            self.clear_place(Lane::App, k)?;
        }
        let cached = step.slot != NONE;
        let slot = if cached { self.in_slot(step.slot, 0) } else { self.in_pool(step.host) };
        self.copy_own(fields, slot, true)?;
        self.keep_sums(fields, slot)?;
        match if cached { previous_levels.0 } else { previous_levels.1 } {
            PreviousLevel::Slot(other) => self.compare(ts, fields, other, cached)?,
            past => {
                let to = if cached {
                    self.sharing()?.in_cache(past)
                } else {
                    self.sharing()?.in_pool(past)
                };
                for (i, to) in to {
                    self.device.copy(Lane::App, to, Place::App(fields[i]), self.field_bytes(i))?;
                }
            }
        }
        if cached && step.host != NONE {
            self.write_back_shared(step, previous_levels, ts, fields)?;
        } else if let Some(slot) = self.cache.get_mut(step.slot as usize) {
            slot.reading = false;
        }
        let of = if cached { previous_levels.0 } else { previous_levels.1 };
        let levels = &self.sharing()?.levels;
        let bytes = levels.own_bytes
            + if matches!(of, PreviousLevel::Slot(_)) { 0 } else { levels.previous_bytes };
        self.saved.push(Saved { ts, bytes, written: step.host != NONE });
        Ok(())
    }

    /// Makes `lane` wait until the last download from place `k` of the cache has ended.
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

    /// Stores in `slot` the checksums of those fields that are the previous time level of the next
    /// state.
    fn keep_sums(&mut self, fields: &[AppMemory], slot: Place) -> Result<()> {
        let Some(Sharing { levels, checksums, .. }) = &mut self.sharing else { return Ok(()) };
        levels.past.iter().try_for_each(|past| {
            checksums.keep(&mut *self.device, fields[past.present], slot.plus(past.sum))
        })
    }

    /// Compares the previous time level of state `ts` with the checksums of the snapshot one time
    /// step before, which is in slot `other` of the cache or of the pool. This call first waits on
    /// the application's lane for the download into a pool slot.
    fn compare(&mut self, ts: i64, fields: &[AppMemory], other: u32, in_cache: bool) -> Result<()> {
        if !in_cache {
            self.device.wait(Lane::App, self.pool[other as usize].written)?;
        }
        let Some(Sharing { levels, checksums, .. }) = &mut self.sharing else { return Ok(()) };
        let at = u64::from(other) * levels.own_bytes;
        let slot = if in_cache { Place::Device(at) } else { Place::Host(at) };
        let device = &mut *self.device;
        levels.past.iter().try_for_each(|past| {
            checksums.compare(device, fields[past.field], slot.plus(past.sum), ts, past.field)
        })
    }

    /// Issues the download of a snapshot from its cache slot. The previous time level is downloaded
    /// only if the plan gives it a place of its own in the pool.
    fn write_back_shared(
        &mut self,
        step: Step,
        previous_levels: PreviousLevels,
        ts: i64,
        fields: &[AppMemory],
    ) -> Result<()> {
        let (from, to) = (
            self.sharing()?.in_cache(previous_levels.0),
            self.sharing()?.in_pool(previous_levels.1),
        );
        if let (PreviousLevel::Slot(other), false) =
            (previous_levels.1, matches!(previous_levels.0, PreviousLevel::Slot(_)))
        {
            self.compare(ts, fields, other, false)?;
        }
        self.device.record(Lane::App, self.app)?;
        self.device.wait(Lane::Download, self.app)?;
        let own_bytes = self.sharing()?.own_bytes();
        self.device.copy(
            Lane::Download,
            self.in_pool(step.host),
            self.in_slot(step.slot, 0),
            own_bytes,
        )?;
        if let PreviousLevel::Place(_) = previous_levels.1 {
            for (&(i, to), &(_, from)) in to.iter().zip(&from) {
                self.device.copy(Lane::Download, to, from, self.field_bytes(i))?;
            }
        }
        self.read_by_download(step.slot)?;
        match previous_levels.0 {
            PreviousLevel::Slot(other) => self.read_by_download(other)?,
            PreviousLevel::Place(k) => {
                let read = self.sharing()?.places[k as usize].0;
                self.device.record(Lane::Download, read)?;
                self.sharing()?.places[k as usize].1 = true;
            }
            PreviousLevel::Nowhere => {}
        }
        self.device.record(Lane::Download, self.pool[step.host as usize].written)
    }

    /// Records on the download lane that all downloads so far read cache slot `slot`.
    fn read_by_download(&mut self, slot: u32) -> Result<()> {
        let slot = &mut self.cache[slot as usize];
        slot.reading = true;
        self.device.record(Lane::Download, slot.read)
    }

    /// Makes `lane` wait for the downloads into pool slot `host` and, if the snapshot's previous
    /// time level lies in another pool slot, into that slot.
    fn await_pool(&mut self, lane: Lane, host: u32, past: PreviousLevel) -> Result<()> {
        self.device.wait(lane, self.pool[host as usize].written)?;
        match past {
            PreviousLevel::Slot(other) => self.device.wait(lane, self.pool[other as usize].written),
            _ => Ok(()),
        }
    }

    pub(super) fn fetch_shared(
        &mut self,
        step: Step,
        previous_levels: PreviousLevels,
    ) -> Result<()> {
        let slot = self.cache[step.slot as usize].clone();
        self.device.concerns(self.pool[step.host as usize].ts);
        self.device.record(Lane::App, self.app)?;
        self.device.wait(Lane::Upload, self.app)?;
        if slot.reading {
            self.device.wait(Lane::Upload, slot.read)?;
        }
        if let PreviousLevel::Place(k) = previous_levels.0 {
            self.clear_place(Lane::Upload, k)?;
        }
        self.await_pool(Lane::Upload, step.host, previous_levels.1)?;
        let own_bytes = self.sharing()?.own_bytes();
        self.device.copy(
            Lane::Upload,
            self.in_slot(step.slot, 0),
            self.in_pool(step.host),
            own_bytes,
        )?;
        let (to, from) = (
            self.sharing()?.in_cache(previous_levels.0),
            self.sharing()?.in_pool(previous_levels.1),
        );
        for ((i, to), (_, from)) in to.into_iter().zip(from) {
            self.device.copy(Lane::Upload, to, from, self.field_bytes(i))?;
        }
        self.device.record(Lane::Upload, slot.filled)?;
        let slot = &mut self.cache[step.slot as usize];
        (slot.host, slot.filling, slot.reading) = (step.host, true, false);
        Ok(())
    }

    pub(super) fn restore_shared(
        &mut self,
        step: Step,
        previous_levels: PreviousLevels,
        fields: &[AppMemory],
    ) -> Result<bool> {
        let (from, past) = if step.slot == NONE {
            self.await_pool(Lane::App, step.host, previous_levels.1)?;
            (self.in_pool(step.host), self.sharing()?.in_pool(previous_levels.1))
        } else {
            self.await_fetch(step)?;
            (self.in_slot(step.slot, 0), self.sharing()?.in_cache(previous_levels.0))
        };
        self.copy_own(fields, from, false)?;
        for (i, from) in past {
            self.device.copy(Lane::App, Place::App(fields[i]), from, self.field_bytes(i))?;
        }
        Ok(step.host != NONE)
    }
}
