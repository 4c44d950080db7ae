//! SAVEs and RESTOREs of the plan, with the transfers that are due before and after them.

use super::copies::{From, To};
use super::play::{Play, Restored, Saved};
use super::{CodedRecord, Tiers};
use crate::device::{AppMemory, Lane, Traffic};
use crate::error::{fail, Result};
use crate::plan::{Level, Moment, Plan, Step, NONE};
use std::ops::Deref;

impl<P: Deref<Target = Plan>> Tiers<P> {
    /// Plays the SAVE number `action`: stores the state u(ts), whose fields are `fields`. The fields are
    /// read in the order of the application's lane: work enqueued on that lane after this call may
    /// overwrite the fields.
    pub fn save(&mut self, action: usize, ts: i64, fields: &[AppMemory]) -> Result<()> {
        self.catch_up(action)?;
        self.store.save(&play(&self.plan, action, ts), fields)?;
        self.issue(Moment::After(action))
    }

    /// Plays a SAVE of the state in `fields`.
    pub fn save(&mut self, play: &Play, fields: &[AppMemory]) -> Result<()> {
        if play.level == Level::Claimed {
            self.compare(play.ts, fields)?;
        }
        if play.made().next().is_none() {
            self.saved.push(Saved { ts: play.ts, bytes: 0, written: 0 });
        } else if self.codes(play) {
            self.next_call()?;
            self.code(play, fields)?;
        } else {
            self.next_call()?;
            self.device.concerns(play.ts);
            let mut saved = Saved { ts: play.ts, bytes: 0, written: 0 };
            for (part, step) in play.made() {
                let bytes = self.parts.parts[part].bytes;
                let from = From::Fields(part, fields);
                saved.written += u32::from(self.put(play.record(part), step, bytes, from)?);
                saved.bytes += bytes;
            }
            self.saved.push(saved);
        }
        self.keep_sums(play, fields)
    }

    /// Whether the snapshot of a SAVE or RESTORE is compressed.
    pub fn codes(&self, play: &Play) -> bool {
        self.coder.is_some() && play.steps.iter().any(|step| step.slot >= self.raw_slots)
    }

    /// Plays the RESTORE number `action`: restores the state u(ts) into `fields`. The fields hold the
    /// state when the application's lane has passed this call. `last`: no later RESTORE reads this
    /// snapshot.
    pub fn restore(
        &mut self,
        action: usize,
        ts: i64,
        last: bool,
        fields: &[AppMemory],
    ) -> Result<Restored> {
        let read = |store: &mut Store, play: &Play| Ok(((), store.restore(play, last, fields)?));
        Ok(self.read(action, ts, read)?.1)
    }

    /// Plays a RESTORE into `fields`. `last`: no later RESTORE reads the snapshot. Returns how many
    /// records had to cross the link.
    pub fn restore(&mut self, play: &Play, last: bool, fields: &[AppMemory]) -> Result<u32> {
        self.next_call()?;
        self.device.concerns(play.ts);
        let mut moved = 0;
        for (part, &step) in play.steps.iter().enumerate() {
            let level = play.level_of(part);
            if self.codes(play) {
                self.place_made_for(step)?;
                moved += u32::from(self.open(play, part, fields)?);
            } else {
                let from = self.find(step, play.record(part))?;
                self.read(Lane::App, from, To::Fields(part, level, fields))?;
                moved += u32::from(step.host != NONE);
            }
        }
        if last && self.codes(play) {
            let own =
                play.steps.iter().enumerate().filter(|(k, _)| play.level_of(*k) == Level::Own);
            own.for_each(|(part, step)| self.forget(*step, play.record(part)));
        }
        self.keep_sums(play, fields)?;
        Ok(moved)
    }

    /// Decodes the record of part `part` of a RESTORE. Returns whether the record had to cross the link.
    fn open(&mut self, play: &Play, part: usize, fields: &[AppMemory]) -> Result<bool> {
        let step = play.steps[part];
        let from = self.find(step, play.record(part))?;
        let bytes = self.extents[from].bytes;
        let is_in_cache = self.is_in_cache(from);
        let place = match is_in_cache {
            true => self.extents[from].place(),
            false => {
                let buffer = self.free_buffer()?;
                let Some(coder) = &self.coder else { return fail!(State, "no codec") };
                let to = coder.buffer(buffer);
                self.device.concerns(play.ts);
                self.read(Lane::App, from, To::Place(to))?;
                to
            }
        };
        if is_in_cache {
            self.arrive(from)?;
        }
        self.device.concerns(play.ts);
        let as_previous = play.level_of(part) != Level::Own;
        let record = CodedRecord { place, bytes, part, as_previous };
        let Store { device, coder, .. } = self;
        let Some(coder) = coder else { return fail!(State, "no codec") };
        coder.open(&mut **device, play.ts, record, fields)?;
        if is_in_cache {
            self.done(Lane::App, Some(from), None)?;
        }
        Ok(!is_in_cache || step.host != NONE)
    }

    /// Frees the bytes of a compressed record that no later RESTORE reads.
    fn forget(&mut self, step: Step, record: i64) {
        let host = match self.cache.named(step.slot) {
            Some(x) => self.extents[x].pool_slot,
            None => step.host,
        };
        self.leave(true, step.slot);
        if self.pool.named(host).is_some_and(|y| self.extents[y].record == record) {
            self.leave(false, host);
        }
    }

    /// Keeps the checksums of a state's level, if the next SAVE compares with them.
    fn keep_sums(&mut self, play: &Play, fields: &[AppMemory]) -> Result<()> {
        let Some(sums) = self.sums.as_mut().filter(|_| play.is_claimed) else { return Ok(()) };
        let device = &mut *self.device;
        let mut levels = self.parts.previous.iter().enumerate();
        levels.try_for_each(|(k, level)| sums.keep(device, k, fields[level.later]))
    }

    /// Compares the previous level of state `ts` with the checksums of the level of the state before.
    fn compare(&mut self, ts: i64, fields: &[AppMemory]) -> Result<()> {
        let Some(sums) = &mut self.sums else { return fail!(State, "no checksums") };
        let device = &mut *self.device;
        let mut levels = self.parts.previous.iter().enumerate();
        levels.try_for_each(|(k, level)| {
            sums.compare(device, k, fields[level.field], ts, level.field)
        })
    }

    /// Issues the transfers that waited only until the application gave back the addresses from
    /// `acquire`. `action` is the RESTORE's number, after which no other step was played.
    pub fn release(&mut self, action: usize) -> Result<()> {
        self.store.take_back()?;
        let before = self.store.device.traffic() - self.early;
        let issued = self.issue(Moment::Released(action));
        self.early = self.store.device.traffic() - before;
        issued
    }

    /// Plays a RESTORE. `body` reads the snapshot, and returns a result and the number of records that had
    /// to cross the link.
    fn read<R>(
        &mut self,
        action: usize,
        ts: i64,
        body: impl FnOnce(&mut Store, &Play) -> Result<(R, u32)>,
    ) -> Result<(R, Restored)> {
        self.catch_up(action)?;
        let is_fetched = |step: &Step| step.slot != NONE && step.host != NONE;
        let is_fetched = self.plan.steps_of(action).iter().any(is_fetched);
        let prefetched = is_fetched && self.issued.has(&self.plan, action);
        self.issue(Moment::Restore(action))?;
        let play = play(&self.plan, action, ts);
        let late = prefetched && self.store.is_late(&play)?;
        let (result, moved) = body(&mut self.store, &play)?;
        self.issue(Moment::After(action))?;
        Ok((result, Restored { moved, prefetched, late }))
    }

    /// Whether an upload that a RESTORE needs has not ended yet.
    pub fn is_late(&mut self, play: &Play) -> Result<bool> {
        for step in play.steps {
            let Some(x) = self.cache.named(step.slot) else { continue };
            let written = self.extents[x].marks.written;
            if let Some(event) = self.order.unseen_upload(written) {
                if !self.device.is_done(event)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Fails if a disk lane has failed. Issues the transfers that were due before the SAVE or RESTORE
    /// `action`: there are such transfers only if the plan was completed since the one before, at the end
    /// of an online forward phase.
    fn catch_up(&mut self, action: usize) -> Result<()> {
        self.store.device.check_disk()?;
        match action.checked_sub(1) {
            Some(before) if self.plan.drops => self.issue(Moment::After(before)),
            _ => Ok(()),
        }
    }

    /// Issues the transfers that are due at `moment`, in the plan's order. Each transfer begins
    /// after all work that the application's lane has so far.
    fn issue(&mut self, moment: Moment) -> Result<()> {
        if !matches!(moment, Moment::Released(_)) {
            self.early = Traffic::default();
        }
        while let Some(fetch) = self.issued.due(&self.plan, moment) {
            self.store.fetch(self.plan.steps[fetch.restore as usize])?;
        }
        Ok(())
    }
}
