//! Zero copy: the application works in the slots of raw records, or in spare memory beside them.

use super::copies::{From, To};
use super::extent::NO_RECORD;
use super::play::{Play, Restored};
use super::{SnapshotCoder, Sums, Tiers};
use crate::device::{AppMemory, Device, Lane, Place};
use crate::error::Result;
use crate::plan::{Level, Moment, Plan, Step, NONE};
use std::ffi::c_void;
use std::ops::Deref;

impl<P: Deref<Target = Plan>, D: Device + ?Sized> Tiers<P, D> {
    /// Whether the memory from `begin_save` and `acquire` for the previous time level of the state of this
    /// SAVE or RESTORE is that of the state before.
    pub fn shares_memory(&self, action: usize) -> bool {
        let is_shared = self.plan.level_of(action) != Level::Own;
        let is_raw = self.storage.coder.is_none() || self.codes_by_lanes();
        is_shared && self.plan.zero_copy && is_raw
    }

    /// Whether the application works in the slots of a SAVE or RESTORE, and not in spare memory.
    fn is_in_slots(&self, play: &Play) -> bool {
        self.plan.zero_copy && !self.codes(play)
    }

    /// Begins the SAVE number `action`: at its `addresses` the application may compute u(ts). The slots of
    /// the step are empty from now on. A previous level that is the record of the state before is there
    /// already, for reading only.
    pub fn begin_save(&mut self, action: usize, ts: i64) -> Result<()> {
        let play = &Play::of(&self.plan, action, ts);
        let is_in_slots = self.is_in_slots(play);
        let has_slot = |(_, step): &(usize, &Step)| is_in_slots && step.slot != NONE;
        for (part, step) in play.steps().iter().enumerate().filter(has_slot) {
            if part == 1 && play.level == Level::Claimed {
                self.expect(true, step.slot, play.record(part))?;
            } else if let Some(x) =
                self.take_in_cache(step.slot, self.storage.parts.parts[part].bytes)
            {
                let to = Some((&self.extents[x].marks, &self.cache.freed));
                self.order.before(&mut *self.device, Lane::App, None, to)?;
            }
        }
        Ok(())
    }

    /// As `save`, for the state u(ts) that the application has computed at the addresses from
    /// `begin_save`.
    pub fn commit_save(&mut self, action: usize, ts: i64) -> Result<()> {
        self.device.check_disk()?;
        self.take_back()?;
        let play = &Play::of(&self.plan, action, ts);
        if self.is_in_slots(play) {
            self.next_call()?;
            let (place, fields) = self.spare_record(play)?;
            self.put_raw(play, |part, step| match (step.slot, &fields) {
                (NONE, Some(fields)) => From::Fields(part, fields),
                (NONE, None) => From::Place(place),
                _ => From::Here,
            })?;
            self.hand(play);
        } else {
            self.store(play, &self.spare_fields(play.spare)?)?;
        }
        self.issue(Moment::After(action))
    }

    /// As `restore`, but the application finds u(ts) at the `addresses` of the RESTORE: in the step's slots,
    /// or in spare memory, into which the state is copied or decoded.
    pub fn acquire(&mut self, action: usize, ts: i64, last: bool) -> Result<Restored> {
        self.read_by(action, ts, |tiers, play| tiers.hand_out(play, last))
    }

    /// Plays a RESTORE without the transfers, and returns how many records had to cross the link.
    fn hand_out(&mut self, play: &Play, last: bool) -> Result<u32> {
        self.take_back()?;
        if !self.is_in_slots(play) {
            return self.bring(play, last, &self.spare_fields(play.spare)?);
        }
        self.next_call()?;
        self.device.concerns(play.ts);
        let ((place, fields), mut moved) = (self.spare_record(play)?, 0);
        for (part, &step) in play.steps().iter().enumerate() {
            let (level, from) = (play.level_of(part), self.find(step, play.record(part))?);
            moved += u32::from(step.host != NONE);
            if step.slot == NONE {
                let to = match &fields {
                    Some(fields) => To::Fields(part, level, fields),
                    None => To::Place(place),
                };
                self.read(Lane::App, from, to)?;
            } else {
                self.arrive(from)?;
                if last && level == Level::Own {
                    self.extents[from].record = NO_RECORD;
                    if self.codes_by_lanes() {
                        self.forget_in_pool(self.extents[from].pool_slot, play.record(part));
                    }
                }
            }
        }
        if self.codes_by_lanes() {
            self.storage.coder.as_mut().map_or(Ok(()), SnapshotCoder::check)?;
        }
        self.hand(play);
        Ok(moved)
    }

    /// Makes the application's lane wait until it may read an extent of the cache.
    pub(super) fn arrive(&mut self, from: usize) -> Result<()> {
        let read = std::mem::take(&mut self.extents[from].from_disk);
        if read > 0 {
            self.device.finish_read(read)?;
        }
        let from = Some(&self.extents[from].marks);
        self.order.before(&mut *self.device, Lane::App, from, None)
    }

    /// Notes which extents the application works in from now on. Of a state there no checksums are known.
    fn hand(&mut self, play: &Play) {
        self.storage.sums.iter_mut().for_each(Sums::forget);
        for step in play.steps() {
            self.in_hand.extend(self.cache.named(step.slot));
        }
    }

    /// Notes that the work of the application in the extents that it was given is enqueued.
    pub(super) fn take_back(&mut self) -> Result<()> {
        while let Some(x) = self.in_hand.pop() {
            self.done(Lane::App, [Some(x), None])?;
        }
        Ok(())
    }

    /// The addresses of the fields of u(ts), the state of the SAVE or RESTORE number `action`: in its slots,
    /// or in spare memory.
    pub fn addresses(&self, action: usize, ts: i64) -> Result<Vec<*mut c_void>> {
        let play = &Play::of(&self.plan, action, ts);
        let mut pointers = vec![std::ptr::null_mut(); self.layout.bytes.len()];
        let is_in_slots = self.is_in_slots(play);
        for part in 0..self.storage.parts.parts.len() {
            // An open plan has no steps yet for a SAVE that has not come.
            let step = play.steps().get(part).filter(|_| is_in_slots);
            let x = step.and_then(|step| self.cache.named(step.slot));
            let shares = x.is_some() && play.level_of(part) != Level::Own;
            for (field, at) in self.storage.parts.places(part, shares) {
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

    /// The spare state of a SAVE or RESTORE with a step without a slot. The record of a whole state is
    /// copied there in one piece; of states in two parts the fields lie elsewhere than in a record.
    fn spare_record(&self, play: &Play) -> Result<(Place, Option<Vec<AppMemory>>)> {
        let is_cut = play.steps().len() > 1 && play.steps().iter().any(|step| step.slot == NONE);
        let fields = is_cut.then(|| self.spare_fields(play.spare)).transpose()?;
        Ok((self.spare_place(play.spare), fields))
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
