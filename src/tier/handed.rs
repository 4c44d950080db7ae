//! Zero copy: the application works in the slots of raw records, or in spare memory beside them.

use super::store::{From, Store, To};
use super::{Play, Saved};
use crate::device::{AppMemory, Lane, Place};
use crate::error::Result;
use crate::plan::{Level, Step, NONE};
use std::ffi::c_void;

impl Store {
    /// The addresses at which the application may compute the fields of a state before its SAVE: in the
    /// slots of the step, which are empty from now on, or in spare memory. A previous level that is the
    /// record of the state before is there already, for reading only.
    pub fn begin_save(&mut self, play: &Play) -> Result<Vec<*mut c_void>> {
        if !play.in_slots || self.codes(play) {
            return self.addresses(play, |_| None);
        }
        for (part, step) in play.steps.iter().enumerate().filter(|(_, step)| step.slot != NONE) {
            if part == 1 && play.level == Level::Claimed {
                self.expect(true, step.slot, play.record(part))?;
            } else if let Some(x) = self.take_in_cache(step.slot, self.parts.parts[part].bytes) {
                let to = Some((&self.extents[x].marks, &self.cache.freed));
                self.order.before(&mut *self.device, Lane::App, None, to)?;
            }
        }
        self.addresses(play, |part| Some(play.steps[part].slot))
    }

    /// Plays the SAVE of a state that the application has computed at the addresses from `begin_save`.
    pub fn commit_save(&mut self, play: &Play) -> Result<()> {
        self.take_back()?;
        if !play.in_slots || self.codes(play) {
            let fields = self.spare_fields(play.spare)?;
            return self.save(play, &fields);
        }
        self.next_call()?;
        self.device.concerns(play.ts);
        let mut saved = Saved { ts: play.ts, bytes: 0, written: 0 };
        for (part, step) in play.made() {
            let bytes = self.parts.parts[part].bytes;
            let fields = self.spare_part(play, step)?;
            let from = match (step.slot, &fields) {
                (NONE, Some(fields)) => From::Fields(part, fields),
                (NONE, None) => From::Place(self.spare_place(play.spare)),
                _ => From::Here,
            };
            saved.written += u32::from(self.put(play.record(part), step, bytes, from)?);
            saved.bytes += bytes;
        }
        self.saved.push(saved);
        self.hand(play);
        Ok(())
    }

    /// Plays a RESTORE and returns the addresses of the state, and how many records had to cross the link.
    pub fn acquire(&mut self, play: &Play, last: bool) -> Result<(Vec<*mut c_void>, u32)> {
        self.take_back()?;
        if !play.in_slots || self.codes(play) {
            let fields = self.spare_fields(play.spare)?;
            let moved = self.restore(play, last, &fields)?;
            return Ok((self.addresses(play, |_| None)?, moved));
        }
        self.next_call()?;
        self.device.concerns(play.ts);
        let mut moved = 0;
        for (part, &step) in play.steps.iter().enumerate() {
            let (level, from) = (play.level_of(part), self.find(step, play.record(part))?);
            moved += u32::from(step.host != NONE);
            if step.slot == NONE {
                let fields = self.spare_part(play, step)?;
                let to = match &fields {
                    Some(fields) => To::Fields(part, level, fields),
                    None => To::Place(self.spare_place(play.spare)),
                };
                self.read(Lane::App, from, to)?;
            } else {
                self.arrive(from)?;
                if last && level == Level::Own {
                    self.extents[from].record = super::extent::NO_RECORD;
                }
            }
        }
        self.hand(play);
        Ok((self.addresses(play, |part| Some(play.steps[part].slot))?, moved))
    }

    /// Makes the application's lane wait until it may read an extent of the cache.
    pub fn arrive(&mut self, from: usize) -> Result<()> {
        let read = std::mem::take(&mut self.extents[from].from_disk);
        if read > 0 {
            self.device.finish_read(read)?;
        }
        let from = Some(&self.extents[from].marks);
        self.order.before(&mut *self.device, Lane::App, from, None)
    }

    /// Notes which extents the application works in from now on.
    fn hand(&mut self, play: &Play) {
        for step in play.steps {
            self.in_hand.extend(self.cache.named(step.slot));
        }
    }

    /// Notes that the work of the application in the extents that it was given is enqueued.
    pub fn take_back(&mut self) -> Result<()> {
        while let Some(x) = self.in_hand.pop() {
            self.done(Lane::App, Some(x), None)?;
        }
        Ok(())
    }

    /// The addresses of the fields of a state. `slot` returns the slot of a part; NONE or nothing: the part
    /// is in spare memory.
    fn addresses(
        &self,
        play: &Play,
        slot: impl Fn(usize) -> Option<u32>,
    ) -> Result<Vec<*mut c_void>> {
        let mut pointers = vec![std::ptr::null_mut(); self.layout.bytes.len()];
        for part in 0..self.parts.parts.len() {
            let x = slot(part).and_then(|slot| self.cache.named(slot));
            let shares = x.is_some() && play.level_of(part) != Level::Own;
            for (field, at) in self.parts.places(part, shares) {
                let place = match x {
                    Some(x) => self.extents[x].place().plus(at),
                    None => self.spare_place(play.spare).plus(self.layout.offsets[field]),
                };
                pointers[field] = self.device.pointer(place, self.layout.bytes[field])?;
            }
        }
        Ok(pointers)
    }

    /// The place of spare state number `spare`.
    fn spare_place(&self, spare: u32) -> Place {
        Place::Device(self.spare + u64::from(spare) * self.layout.slot_bytes)
    }

    /// The fields of the spare state of a step without a slot, if a record has not the layout of a state.
    fn spare_part(&self, play: &Play, step: Step) -> Result<Option<Vec<AppMemory>>> {
        match step.slot == NONE && self.parts.parts.len() > 1 {
            true => Ok(Some(self.spare_fields(play.spare)?)),
            false => Ok(None),
        }
    }

    /// The fields of spare state number `spare`.
    fn spare_fields(&self, spare: u32) -> Result<Vec<AppMemory>> {
        let place = self.spare_place(spare);
        let fields = self.layout.bytes.iter().zip(&self.layout.offsets);
        let memory = |(&bytes, &at): (&u64, &u64)| {
            let address = self.device.pointer(place.plus(at), bytes)?;
            // SAFETY: the address is memory of the device slab, which only the application's lane uses.
            Ok(unsafe { AppMemory::new(address.cast(), bytes as usize) })
        };
        fields.map(memory).collect()
    }
}
