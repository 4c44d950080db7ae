//! SAVEs and RESTOREs of the plan, with the transfers that are due before and after them.

use super::copies::{From, To};
use super::play::{Play, Restored, Saved};
use super::{CodedRecord, SnapshotCoder, Tiers};
use crate::device::{AppMemory, Device, Lane, Traffic};
use crate::error::{fail, Result};
use crate::plan::{Level, Moment, Plan, Step, NONE};
use std::ops::Deref;

impl<P: Deref<Target = Plan>, D: Device + ?Sized> Tiers<P, D> {
    /// Plays the SAVE number `action`: stores the state u(ts), whose fields are `fields`. The fields are
    /// read in the order of the application's lane: work enqueued on that lane after this call may
    /// overwrite the fields.
    pub fn save(&mut self, action: usize, ts: i64, fields: &[AppMemory]) -> Result<()> {
        self.catch_up(action)?;
        self.store(&Play::of(&self.plan, action, ts), fields)?;
        self.issue(Moment::After(action))
    }

    /// Plays a SAVE of the state in `fields`, without the transfers.
    pub(super) fn store(&mut self, play: &Play, fields: &[AppMemory]) -> Result<()> {
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
            self.put_raw(play, |part, _| From::Fields(part, fields))?;
        }
        self.keep_sums(play, fields)
    }

    /// Puts the raw records of a SAVE into their slots. `from` tells what is read for a part.
    pub(super) fn put_raw<'a>(
        &mut self,
        play: &Play,
        from: impl Fn(usize, Step) -> From<'a>,
    ) -> Result<()> {
        self.device.concerns(play.ts);
        let mut saved = Saved { ts: play.ts, bytes: 0, written: 0 };
        for (part, step) in play.made() {
            let bytes = self.storage.parts.parts[part].bytes;
            let crosses = self.put(play.record(part), step, bytes, from(part, step))?;
            saved.written += u32::from(crosses);
            saved.bytes += bytes;
        }
        // What a lane compresses has its bytes when it is placed.
        if saved.written == 0 || !self.codes_by_lanes() {
            self.saved.push(saved);
        }
        Ok(())
    }

    /// Whether the snapshot of a SAVE or RESTORE is compressed.
    pub(super) fn codes(&self, play: &Play) -> bool {
        let is_coded = |(part, step): (usize, &Step)| {
            step.slot >= self.raw_slots && play.level_of(part) != Level::Claimed
        };
        self.storage.coder.is_some() && play.steps().iter().enumerate().any(is_coded)
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
        self.read_by(action, ts, |tiers, play| tiers.bring(play, last, fields))
    }

    /// Plays a RESTORE into `fields`, without the transfers. `last`: no later RESTORE reads the snapshot.
    /// Returns how many records had to cross the link.
    pub(super) fn bring(&mut self, play: &Play, last: bool, fields: &[AppMemory]) -> Result<u32> {
        self.next_call()?;
        self.device.concerns(play.ts);
        let is_coded = self.codes(play);
        let is_in_sequences = SnapshotCoder::is_in_sequences;
        if is_coded && self.storage.coder.as_ref().is_some_and(is_in_sequences) {
            // What is restored may lean on all records that wait.
            self.place_but(0)?;
        }
        let mut moved = 0;
        for (part, &step) in play.steps().iter().enumerate() {
            let level = play.level_of(part);
            if is_coded {
                self.place_made_for(step)?;
                moved += u32::from(self.open(play, part, fields)?);
            } else {
                let from = self.find(step, play.record(part))?;
                self.read(Lane::App, from, To::Fields(part, level, fields))?;
                moved += u32::from(step.host != NONE);
            }
        }
        let by_lanes = self.codes_by_lanes();
        if by_lanes {
            self.storage.coder.as_mut().map_or(Ok(()), SnapshotCoder::check)?;
        }
        let is_packed = is_coded || by_lanes;
        for (part, &step) in play.steps().iter().enumerate().filter(|_| last && is_packed) {
            if play.level_of(part) == Level::Own {
                self.forget(step, play.record(part));
            }
        }
        self.keep_sums(play, fields)?;
        Ok(moved)
    }

    /// Decodes the record of part `part` of a RESTORE. Returns whether the record had to cross the link.
    fn open(&mut self, play: &Play, part: usize, fields: &[AppMemory]) -> Result<bool> {
        let step = play.steps()[part];
        let from = self.find(step, play.record(part))?;
        let bytes = self.extents[from].bytes;
        let is_in_cache = self.is_in_cache(from);
        let place = if is_in_cache {
            self.arrive(from)?;
            self.extents[from].place()
        } else {
            let buffer = self.buffer_of_caller()?;
            let Some(coder) = &self.storage.coder else { return fail!(State, "no codec") };
            let to = coder.buffer(buffer);
            self.device.concerns(play.ts);
            self.read(Lane::App, from, To::Place(to))?;
            to
        };
        self.device.concerns(play.ts);
        let as_previous = play.level_of(part) != Level::Own;
        let record = CodedRecord { place, bytes, part, as_previous };
        let Some(coder) = &mut self.storage.coder else { return fail!(State, "no codec") };
        coder.open(&mut *self.device, play.ts, record, fields)?;
        if is_in_cache {
            self.done(Lane::App, [Some(from), None])?;
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
        self.forget_in_pool(host, record);
    }

    /// Frees the bytes of a compressed record in pool slot `host`, if it is there.
    pub(super) fn forget_in_pool(&mut self, host: u32, record: i64) {
        if self.pool.named(host).is_some_and(|y| self.extents[y].record == record) {
            self.leave(false, host);
        }
    }

    /// Keeps the checksums of a state's level if the next SAVE compares with them; else none are known.
    fn keep_sums(&mut self, play: &Play, fields: &[AppMemory]) -> Result<()> {
        let Some(sums) = &mut self.storage.sums else { return Ok(()) };
        if !play.is_claimed {
            sums.forget();
            return Ok(());
        }
        let device = &mut *self.device;
        let mut levels = self.storage.parts.previous.iter().enumerate();
        levels.try_for_each(|(k, level)| sums.keep(device, k, fields[level.later]))
    }

    /// Compares the previous level of state `ts` with the checksums of the level of the state before.
    fn compare(&mut self, ts: i64, fields: &[AppMemory]) -> Result<()> {
        let Some(sums) = &mut self.storage.sums else { return fail!(State, "no checksums") };
        let device = &mut *self.device;
        let mut levels = self.storage.parts.previous.iter().enumerate();
        levels.try_for_each(|(k, level)| {
            sums.compare(device, k, fields[level.field], ts, level.field)
        })
    }

    /// Plays a RESTORE with its transfers. `body` reads the snapshot, and returns the number of records
    /// that had to cross the link.
    pub(super) fn read_by(
        &mut self,
        action: usize,
        ts: i64,
        body: impl FnOnce(&mut Self, &Play) -> Result<u32>,
    ) -> Result<Restored> {
        self.catch_up(action)?;
        let play = Play::of(&self.plan, action, ts);
        let is_fetched = play.steps().iter().any(|step| step.slot != NONE && step.host != NONE);
        let prefetched = is_fetched && self.issued.has(&self.plan, action);
        self.issue(Moment::Restore(action))?;
        let late = prefetched && self.is_late(&play)?;
        let moved = body(self, &play)?;
        self.issue(Moment::After(action))?;
        Ok(Restored { moved, prefetched, late })
    }

    /// Whether an upload that a RESTORE needs has not ended yet.
    fn is_late(&mut self, play: &Play) -> Result<bool> {
        for step in play.steps() {
            let Some(x) = self.cache.named(step.slot) else { continue };
            if let Some(event) = self.order.unseen_upload(self.extents[x].marks.written) {
                if !self.device.is_done(event)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Issues the transfers that waited only until the application gave back the addresses from
    /// `acquire`. `action` is the RESTORE's number, after which no other step was played.
    pub fn release(&mut self, action: usize) -> Result<()> {
        self.take_back()?;
        let before = self.device.traffic() - self.early;
        let issued = self.issue(Moment::Released(action));
        self.early = self.device.traffic() - before;
        issued
    }

    /// Fails if a disk lane has failed. Issues the transfers that were due before the SAVE or RESTORE
    /// `action`: there are such transfers only if the plan was completed since the one before, at the end
    /// of an online forward phase.
    fn catch_up(&mut self, action: usize) -> Result<()> {
        self.device.check_disk()?;
        match action.checked_sub(1) {
            Some(before) if self.plan.drops => self.issue(Moment::After(before)),
            _ => Ok(()),
        }
    }

    /// Issues the transfers that are due at `moment`, in the plan's order. Each transfer begins
    /// after all work that the application's lane has so far.
    #[inline]
    pub(super) fn issue(&mut self, moment: Moment) -> Result<()> {
        if !matches!(moment, Moment::Released(_)) {
            self.early = Traffic::default();
        }
        while let Some(read) = self.issued.due_read(&self.plan, moment) {
            self.read_into_memory(read)?;
        }
        while let Some(fetch) = self.issued.due(&self.plan, moment) {
            self.fetch(self.plan.steps[fetch.restore as usize])?;
        }
        Ok(())
    }
}
