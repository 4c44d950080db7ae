//! Raw snapshots that share time levels. A slot holds the state's own fields. The previous time
//! level lies in a place beside the slots, or is not stored again: it is the current time level of
//! the snapshot one time step before, in the slot of that snapshot. The plan says which.
//!
//! That the previous time level of u(t) equals the current time level of u(t-1) is a promise of the
//! application. Every SAVE checks this promise by checksums: each slot holds the checksums of its
//! current time level. A broken promise fails the shot: on the host at the SAVE, on a GPU before
//! TERMINATE.

use super::field_checksums::FieldChecksums;
use super::raw::place_of;
use super::slots::{Saved, Slots};
use super::{Play, PreviousLevels, Store};
use crate::device::{AppMemory, Event, Lane, Place};
use crate::error::Result;
use crate::fallible_vec;
use crate::layout::{Levels, PreviousField};
use crate::plan::{Plan, PreviousLevel, Step, NONE};

/// What tiers with shared time levels have beside slots.
pub struct SharingStore {
    levels: Levels,
    checksums: FieldChecksums,
    /// Offset of the first place for a previous time level, in bytes, in the cache and in the pool.
    device: u64,
    host: u64,
    /// For each place of the cache, the event after the last download from the place, and whether
    /// there was a download since the last SAVE into the place.
    places: Vec<(Event, bool)>,
    /// Bytes that the plan needs in the cache and in the pool.
    bytes: (u64, u64),
}

impl SharingStore {
    pub fn new(levels: Levels, checksums: FieldChecksums) -> Self {
        SharingStore { levels, checksums, device: 0, host: 0, places: Vec::new(), bytes: (0, 0) }
    }

    /// Bytes of a slot.
    pub fn own_bytes(&self) -> u64 {
        self.levels.own_bytes
    }

    /// The place of each field of the previous time level of a snapshot in the cache, with the
    /// number of the field. Empty if the previous time level is not there.
    fn in_cache(&self, previous: PreviousLevel) -> Vec<(usize, Place)> {
        self.places_of(previous, Place::Device(self.device), Place::Device(0))
    }

    /// The place of each field of the previous time level of a snapshot in the pool, as `in_cache`.
    fn in_pool(&self, previous: PreviousLevel) -> Vec<(usize, Place)> {
        self.places_of(previous, Place::Host(self.host), Place::Host(0))
    }

    /// As `in_cache`, for the tier whose places begin at `places` and whose slots begin at `slots`.
    fn places_of(
        &self,
        previous: PreviousLevel,
        places: Place,
        slots: Place,
    ) -> Vec<(usize, Place)> {
        let Levels { own_bytes, previous_bytes, previous: fields, .. } = &self.levels;
        let place = |field: &PreviousField| match previous {
            PreviousLevel::Nowhere => None,
            PreviousLevel::Place(k) => {
                Some((field.field, places.plus(u64::from(k) * previous_bytes + field.at)))
            }
            PreviousLevel::Slot(k) => {
                Some((field.field, slots.plus(u64::from(k) * own_bytes + field.current_at)))
            }
        };
        fields.iter().filter_map(place).collect()
    }

    /// Copies a state's own fields from the application to a slot (`save`) or back.
    fn copy_own(
        &mut self,
        slots: &mut Slots,
        fields: &[AppMemory],
        slot: Place,
        save: bool,
    ) -> Result<()> {
        for (i, at) in self.levels.own.clone() {
            let (app, slot, bytes) = (Place::App(fields[i]), slot.plus(at), slots.layout.bytes[i]);
            let (to, from) = if save { (slot, app) } else { (app, slot) };
            slots.device.copy(Lane::App, to, from, bytes)?;
        }
        Ok(())
    }

    /// Makes `lane` wait until the last download from place `k` of the cache has ended.
    fn clear_place(&mut self, slots: &mut Slots, lane: Lane, k: u32) -> Result<()> {
        let (read, reading) = self.places[k as usize];
        if reading {
            slots.device.wait(lane, read)?;
        }
        if lane == Lane::App {
            self.places[k as usize].1 = false;
        }
        Ok(())
    }

    /// Stores in `slot` the checksums of those fields that are the previous time level of the next
    /// state.
    fn keep_sums(&mut self, slots: &mut Slots, fields: &[AppMemory], slot: Place) -> Result<()> {
        let SharingStore { levels, checksums, .. } = self;
        levels.previous.iter().try_for_each(|pair| {
            checksums.keep(&mut *slots.device, fields[pair.current], slot.plus(pair.checksum_at))
        })
    }

    /// Compares the previous time level of state `ts` with the checksums of the snapshot one time
    /// step before, which is in slot `other` of the cache or of the pool. This call first waits on
    /// the application's lane for the download into a pool slot.
    fn compare(
        &mut self,
        slots: &mut Slots,
        ts: i64,
        fields: &[AppMemory],
        other: u32,
        in_cache: bool,
    ) -> Result<()> {
        let written = if in_cache { None } else { slots.written(other) };
        if let Some(written) = written {
            slots.device.wait(Lane::App, written)?;
        }
        let SharingStore { levels, checksums, .. } = self;
        let at = u64::from(other) * levels.own_bytes;
        let slot = if in_cache { Place::Device(at) } else { Place::Host(at) };
        let device = &mut *slots.device;
        levels.previous.iter().try_for_each(|pair| {
            checksums.compare(
                device,
                fields[pair.field],
                slot.plus(pair.checksum_at),
                ts,
                pair.field,
            )
        })
    }

    /// Issues the download of a snapshot from its cache slot. The previous time level is downloaded
    /// only if the plan gives it a place of its own in the pool.
    fn write_back_shared(
        &mut self,
        slots: &mut Slots,
        play: &Play,
        fields: &[AppMemory],
    ) -> Result<()> {
        let Play { step, previous_levels, ts, .. } = *play;
        let (from, to) = (self.in_cache(previous_levels.0), self.in_pool(previous_levels.1));
        if let (PreviousLevel::Slot(other), false) =
            (previous_levels.1, matches!(previous_levels.0, PreviousLevel::Slot(_)))
        {
            self.compare(slots, ts, fields, other, false)?;
        }
        slots.device.record(Lane::App, slots.app)?;
        slots.device.wait(Lane::Download, slots.app)?;
        let own_bytes = self.own_bytes();
        slots.device.copy(
            Lane::Download,
            slots.in_pool(step.host),
            slots.in_slot(step.slot, 0),
            own_bytes,
        )?;
        if let PreviousLevel::Place(_) = previous_levels.1 {
            for (&(i, to), &(_, from)) in to.iter().zip(&from) {
                slots.device.copy(Lane::Download, to, from, slots.layout.bytes[i])?;
            }
        }
        self.read_by_download(slots, step.slot)?;
        match previous_levels.0 {
            PreviousLevel::Slot(other) => self.read_by_download(slots, other)?,
            PreviousLevel::Place(k) => {
                let read = self.places[k as usize].0;
                slots.device.record(Lane::Download, read)?;
                self.places[k as usize].1 = true;
            }
            PreviousLevel::Nowhere => {}
        }
        slots.number_download(step);
        match slots.written(step.host) {
            Some(written) => slots.device.record(Lane::Download, written),
            None => Ok(()),
        }
    }

    /// Records on the download lane that all downloads so far read cache slot `slot`.
    fn read_by_download(&mut self, slots: &mut Slots, slot: u32) -> Result<()> {
        let slot = &mut slots.cache[slot as usize];
        slot.reading = true;
        slots.device.record(Lane::Download, slot.read)
    }

    /// Makes `lane` wait for the downloads into pool slot `host` and, if the snapshot's previous
    /// time level lies in another pool slot, into that slot.
    fn await_pool(
        &mut self,
        slots: &mut Slots,
        lane: Lane,
        host: u32,
        previous: PreviousLevel,
    ) -> Result<()> {
        let other = match previous {
            PreviousLevel::Slot(other) => Some(other),
            _ => None,
        };
        for host in [Some(host), other].into_iter().flatten() {
            if let Some(written) = slots.written(host) {
                slots.device.wait(lane, written)?;
            }
        }
        Ok(())
    }
}

impl Store for SharingStore {
    fn fit(&mut self, slots: &mut Slots, plan: &Plan) -> Result<()> {
        let (device, host) = plan.places();
        for _ in self.places.len()..device as usize {
            fallible_vec::push(&mut self.places, (slots.device.event()?, false))?;
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

    fn empty(&mut self, slots: &mut Slots) {
        slots.empty(Some(self.own_bytes()));
        self.places.iter_mut().for_each(|place| place.1 = false);
    }

    fn save(&mut self, slots: &mut Slots, play: &Play, fields: &[AppMemory]) -> Result<()> {
        let Play { step, previous_levels, ts, .. } = *play;
        slots.clear_for_save(step)?;
        slots.hold(step, ts);
        if let PreviousLevel::Place(k) = previous_levels.0 {
            self.clear_place(slots, Lane::App, k)?;
        }
        let cached = step.slot != NONE;
        let slot = if cached { slots.in_slot(step.slot, 0) } else { slots.in_pool(step.host) };
        self.copy_own(slots, fields, slot, true)?;
        self.keep_sums(slots, fields, slot)?;
        match if cached { previous_levels.0 } else { previous_levels.1 } {
            PreviousLevel::Slot(other) => self.compare(slots, ts, fields, other, cached)?,
            previous => {
                let to = if cached { self.in_cache(previous) } else { self.in_pool(previous) };
                for (i, to) in to {
                    slots.device.copy(
                        Lane::App,
                        to,
                        Place::App(fields[i]),
                        slots.layout.bytes[i],
                    )?;
                }
            }
        }
        if cached && step.host != NONE {
            self.write_back_shared(slots, play, fields)?;
        } else if let Some(slot) = slots.cache.get_mut(step.slot as usize) {
            slot.reading = false;
        }
        let of = if cached { previous_levels.0 } else { previous_levels.1 };
        let levels = &self.levels;
        let bytes = levels.own_bytes
            + if matches!(of, PreviousLevel::Slot(_)) { 0 } else { levels.previous_bytes };
        slots.saved.push(Saved { ts, bytes, written: step.host != NONE });
        Ok(())
    }

    fn fetch(&mut self, slots: &mut Slots, step: Step, levels: PreviousLevels) -> Result<()> {
        slots.device.concerns(slots.pool[step.host as usize].ts);
        slots.begin_upload(step)?;
        if let PreviousLevel::Place(k) = levels.0 {
            self.clear_place(slots, Lane::Upload, k)?;
        }
        self.await_pool(slots, Lane::Upload, step.host, levels.1)?;
        let own_bytes = self.own_bytes();
        slots.device.copy(
            Lane::Upload,
            slots.in_slot(step.slot, 0),
            slots.in_pool(step.host),
            own_bytes,
        )?;
        let (to, from) = (self.in_cache(levels.0), self.in_pool(levels.1));
        for ((i, to), (_, from)) in to.into_iter().zip(from) {
            slots.device.copy(Lane::Upload, to, from, slots.layout.bytes[i])?;
        }
        slots.end_upload(step)
    }

    fn restore(&mut self, slots: &mut Slots, play: &Play, fields: &[AppMemory]) -> Result<bool> {
        let Play { step, previous_levels, ts, .. } = *play;
        slots.expect(place_of(step), ts)?;
        let (from, previous) = if step.slot == NONE {
            self.await_pool(slots, Lane::App, step.host, previous_levels.1)?;
            (slots.in_pool(step.host), self.in_pool(previous_levels.1))
        } else {
            slots.await_fetch(step)?;
            (slots.in_slot(step.slot, 0), self.in_cache(previous_levels.0))
        };
        self.copy_own(slots, fields, from, false)?;
        for (i, from) in previous {
            slots.device.copy(Lane::App, Place::App(fields[i]), from, slots.layout.bytes[i])?;
        }
        Ok(step.host != NONE)
    }

    fn check(&mut self, slots: &mut Slots) -> Result<()> {
        self.checksums.check(&mut *slots.device)
    }

    fn is_checked_later(&self) -> bool {
        matches!(self.checksums, FieldChecksums::Gpu(_))
    }

    fn peaks(&self) -> Option<(u64, u64)> {
        Some(self.bytes)
    }

    fn close(&mut self, slots: &mut Slots) {
        self.checksums.close(&mut *slots.device);
    }
}
