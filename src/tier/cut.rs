//! A cut through a shot: the records that a restart file holds, and a session that goes on from it.

use super::extent::{Extent, In};
use super::play::{record as record_of, Stored};
use super::{SnapshotCoder, Tiers};
use crate::device::{Device, Lane, Place, PIECE};
use crate::error::{fail, Result};
use crate::fallible_vec;
use crate::plan::{Moment, Plan, Step, NONE};
use std::ops::Deref;

impl<P: Deref<Target = Plan>, D: Device + ?Sized> Tiers<P, D> {
    /// Places all snapshots that wait in staging buffers, and waits for all work of the device, so that
    /// `read_stored` and `load` may touch the slots. Fails if a disk lane has failed: a record that came
    /// from disk may be another one then. Call this between `enter` and `leave`.
    pub fn settle(&mut self) -> Result<()> {
        self.place_but(0)?;
        self.device.synchronize()?;
        self.device.check_disk()?;
        self.order.all_seen();
        Ok(())
    }

    /// Passes a record that lies in the slots `at` to `sink`, from memory rather than from disk: first
    /// `None`, then its bytes in pieces of at most [`PIECE`] bytes. `later`: the states and slots of the next
    /// records of part 0 that are read so, at most two, the next one first. Call `settle` before.
    pub fn read_stored(
        &mut self,
        at: Step,
        (ts, part): (i64, usize),
        later: &[(i64, Step)],
        mut sink: impl FnMut(Stored, Option<&[u8]>) -> Result<()>,
    ) -> Result<()> {
        let fetched = self.fetched(at, record_of(ts, part));
        let x = fetched.map_or_else(|| self.best_of(at, (ts, part)), Ok)?;
        let is_raw = fetched.is_some() || self.is_in_cache(x) && at.slot < self.raw_slots;
        let is_coded = self.storage.coder.is_some() && !is_raw;
        let bytes = self.extents[x].bytes;
        let stored = Stored { ts, part, bytes, is_coded };
        let coder = self.storage.coder.as_ref();
        let is_in_sequence = is_coded && coder.is_some_and(SnapshotCoder::is_in_sequences);
        // No record can lean on one that is written raw.
        let is_coded = |&&(ts, at): &&(i64, Step)| {
            at.slot >= self.raw_slots && self.fetched(at, record_of(ts, 0)).is_none()
        };
        let later: Vec<_> = later.iter().filter(is_coded).copied().collect();
        if is_in_sequence && part == 0 && later.len() < 2 {
            let last = later.last().map_or(ts, |&(last, _)| last);
            for &later in later.iter().rev() {
                self.lean_less(later, last, |_| Ok(()))?;
            }
            return self.lean_less((ts, at), last, |record| {
                sink(Stored { bytes: record.len() as u64, ..stored }, None)?;
                record.chunks(PIECE).try_for_each(|piece| sink(stored, Some(piece)))
            });
        }
        sink(stored, None)?;
        let mut piece = fallible_vec::filled(0u8, bytes.min(PIECE as u64) as usize)?;
        let place = self.in_memory(x, ts)?;
        let device = &mut *self.device;
        let mut at = 0;
        while at < bytes {
            let piece = &mut piece[..(bytes - at).min(PIECE as u64) as usize];
            device.read(place.plus(at), piece)?;
            sink(stored, Some(piece))?;
            at += piece.len() as u64;
        }
        Ok(())
    }

    /// The extent of the cache into which a lane has decoded a record of a sequence from the slots `at`, if it
    /// has: the states on which the record leans may be gone.
    fn fetched(&self, at: Step, record: i64) -> Option<usize> {
        let lanes = self.storage.coder.as_ref().and_then(SnapshotCoder::lanes);
        lanes.filter(|lanes| lanes.is_in_sequences() && at.slot == NONE)?;
        let in_cache = (0..self.cache.slots.len()).filter_map(|k| self.cache.named(k as u32));
        let is_it = |x: &usize| {
            let Extent { record: held, is_decoded, pool_slot, .. } = self.extents[*x];
            is_decoded && held == record && pool_slot == at.host
        };
        in_cache.filter(|&x| self.is_in_cache(x)).find(is_it)
    }

    /// The slot of the cache into which the plan fetches the record of host slot `host` first.
    fn slot_of_fetch(&self, host: u32) -> Option<u32> {
        let steps = self.plan.fetches.iter().map(|fetch| self.plan.steps[fetch.restore as usize]);
        steps.into_iter().find(|step| step.host == host).map(|step| step.slot)
    }

    /// The place of a record, which is read into host memory if it is on disk.
    fn in_memory(&mut self, x: usize, ts: i64) -> Result<Place> {
        let (place, bytes) = (self.extents[x].place(), self.extents[x].bytes);
        let device = &mut *self.device;
        device.concerns(ts);
        if !matches!(place, Place::Disk(_)) {
            return Ok(place);
        }
        let [_, to] = self.disk.next();
        device.copy(Lane::DiskRead, to, place, bytes)?;
        device.finish_read(device.issued(Lane::DiskRead))?;
        Ok(to)
    }

    /// The extent of a record that lies in the slots `at`: in memory rather than on disk.
    fn best_of(&self, at: Step, (ts, part): (i64, usize)) -> Result<usize> {
        let mut found = [None, None];
        for (in_cache, slot) in [(false, at.host), (true, at.slot)] {
            if slot != NONE {
                found[usize::from(in_cache)] =
                    Some(self.expect(in_cache, slot, record_of(ts, part))?);
            }
        }
        // Where lanes code, the cache has the bits that later steps read there. The record of the pool follows
        // from them, unless they have been decoded from it.
        let in_cache = found[1].filter(|&x| self.codes_by_lanes() && !self.extents[x].is_decoded);
        if in_cache.is_some() {
            found[0] = None;
        }
        let in_memory = found.into_iter().flatten().find(|x| self.extents[*x].memory != In::Disk);
        // A slot of the cache may name a record on disk.
        match in_memory.or(found[0]).or(found[1]) {
            Some(x) => Ok(x),
            None => fail!(Device, "the snapshot of state {ts} is in no tier"),
        }
    }

    /// Passes on what the record of state `ts` in the slots `at` becomes if it leans on no state after `last`,
    /// the last one whose record is left: a session that goes on from here has none of those on which it leans.
    /// The states on which it does lean were the last ones that were taken or read.
    fn lean_less(
        &mut self,
        (ts, at): (i64, Step),
        last: i64,
        sink: impl FnOnce(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let x = self.best_of(at, (ts, 0))?;
        let mut from = fallible_vec::filled(0u8, self.extents[x].bytes as usize)?;
        let place = self.in_memory(x, ts)?;
        for (k, piece) in from.chunks_mut(PIECE).enumerate() {
            self.device.read(place.plus((k * PIECE) as u64), piece)?;
        }
        let Some(coder) = &mut self.storage.coder else { return fail!(State, "no codec") };
        coder.lean_less(ts, &from, |of| of <= last, sink)
    }

    /// Plays the SAVE number `action` for a record whose bytes `source` passes on piece by piece.
    pub fn load(
        &mut self,
        action: usize,
        stored: Stored,
        source: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>,
    ) -> Result<()> {
        self.settle()?;
        let mut step = self.plan.steps_of(action)[0];
        let Stored { ts, bytes, is_coded, .. } = stored;
        let by_lanes = self.codes_by_lanes();
        // A record that was decoded already when the file was written.
        let fetched = self
            .slot_of_fetch(step.host)
            .filter(|_| by_lanes && !is_coded && step.slot == NONE && step.host != NONE);
        let host = step.host;
        if let Some(slot) = fetched {
            step = Step { slot, host: NONE };
        }
        self.check_kind(step, stored)?;
        if is_coded {
            self.largest = self.largest.max(bytes);
        }
        let record = record_of(ts, stored.part);
        // Where lanes code, one of the two tiers gets the record, and the other one then gets it from there.
        let x = match by_lanes && is_coded {
            true => None,
            false => self.take_in_cache(step.slot, bytes),
        };
        let y = match by_lanes {
            true if is_coded => Some(self.take_in_pool(step.host, bytes)?),
            true => None,
            false => self.room_in_pool(record, step, x, bytes)?,
        };
        [x, y].into_iter().flatten().for_each(|x| self.extents[x].record = record);
        let places = [x, y].map(|x| x.map(|x| self.extents[x].place()));
        let passage = match self.disk.slots {
            0 => Place::Host(0),
            _ => self.disk.next()[0],
        };
        self.device.concerns(ts);
        let mut at = 0;
        source(&mut |piece| {
            let end = at + piece.len() as u64;
            if end > bytes {
                return fail!(Stream, "the snapshot of state {ts} has more than {bytes} bytes");
            }
            for place in places.iter().flatten() {
                let place = match place {
                    Place::Disk(_) => passage,
                    place => *place,
                };
                self.device.write(place.plus(at), piece)?;
            }
            at = end;
            Ok(())
        })?;
        if at != bytes {
            return fail!(Stream, "the snapshot of state {ts} has {at} bytes instead of {bytes}");
        }
        for place in places.into_iter().flatten() {
            if let Place::Disk(_) = place {
                self.device.copy(Lane::DiskWrite, place, passage, bytes)?;
                self.device.synchronize()?;
                self.device.check_disk()?;
            }
        }
        match (x, y) {
            (Some(x), None) if fetched.is_some() => {
                (self.extents[x].is_decoded, self.extents[x].pool_slot) = (true, host);
            }
            (Some(x), None) if by_lanes && step.host != NONE => {
                self.extents[x].pool_slot = step.host;
                self.code_by_lane(record, step, x)?;
            }
            (None, Some(_)) if by_lanes && step.slot != NONE => self.fetch(step)?,
            _ => {}
        }
        self.issue(Moment::After(action))
    }

    /// Fails unless a record of a restart file is as this session stores it.
    fn check_kind(&self, step: Step, Stored { ts, part, bytes, is_coded }: Stored) -> Result<()> {
        let by_lanes = self.codes_by_lanes();
        if by_lanes && is_coded && step.host == NONE {
            return fail!(
                Stream,
                "the snapshot of state {ts} is compressed, and this session reads it raw"
            );
        }
        let is_raw = match by_lanes {
            true => !is_coded && step.slot != NONE,
            false => self.storage.coder.is_none() || step.slot < self.raw_slots,
        };
        let expected = self.storage.parts.parts[part].bytes;
        if is_raw && (is_coded || bytes != expected) {
            return fail!(
                Stream,
                "the snapshot of state {ts} has {bytes} bytes{}, and this session stores raw snapshots of {expected} bytes",
                if is_coded { " of a codec" } else { "" }
            );
        }
        if !is_raw && !is_coded {
            return fail!(
                Stream,
                "the snapshot of state {ts} is raw, and this session stores it compressed"
            );
        }
        Ok(())
    }

    /// The checksums of the level of the last state, for a restart file. Call `settle` before.
    pub fn sums(&mut self) -> Result<Vec<u64>> {
        let sums = self.storage.sums.as_ref();
        sums.map_or(Ok(Vec::new()), |sums| sums.words(&mut *self.device))
    }

    /// Takes the checksums of the level of the last state from a restart file. Call `settle` before.
    pub fn take_sums(&mut self, words: &[u64]) -> Result<()> {
        let sums = self.storage.sums.as_mut();
        sums.map_or(Ok(()), |sums| sums.take(&mut *self.device, words))
    }
}
