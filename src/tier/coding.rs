//! Compressed snapshots on their way from the coder to the tiers.
//!
//! A GPU completes a snapshot later than the call that made it, so its size is not known at once: the
//! snapshot waits in a staging buffer, and is placed after a number of SAVEs and RESTOREs, never by
//! time.

use super::copies::From;
use super::play::{part_of, state_of, Play, Saved};
use super::{SnapshotCoder, Tiers};
use crate::device::{AppMemory, Device, Lane, RecordName};
use crate::error::{fail, Result};
use crate::plan::{Plan, Step, NONE};
use std::ops::Deref;

/// A compressed snapshot in a staging buffer.
pub struct Staged {
    buffer: usize,
    ts: i64,
    /// The records that were made, with their steps.
    made: [Option<(i64, Step)>; 2],
    /// Number of the SAVE that made the snapshot (`Tiers::calls`).
    call: u64,
    /// Whether a transfer lane makes the record, which is raw in the cache.
    by_lane: bool,
}

impl<P: Deref<Target = Plan>, D: Device + ?Sized> Tiers<P, D> {
    /// Counts a SAVE or RESTORE and places the snapshots that are due by that count.
    pub(super) fn next_call(&mut self) -> Result<()> {
        self.calls += 1;
        let lag = self.lag() as u64;
        while self.staged.front().is_some_and(|staged| staged.call + lag < self.calls) {
            self.place_oldest()?;
        }
        Ok(())
    }

    /// How many snapshots may wait in staging buffers before the size of the first one is asked for.
    pub(super) fn lag(&self) -> usize {
        self.storage.coder.as_ref().map_or(0, |coder| coder.lag())
    }

    /// Compresses the state of a SAVE into a staging buffer, and places the snapshots that are due.
    pub(super) fn code(&mut self, play: &Play, fields: &[AppMemory]) -> Result<()> {
        let buffer = self.buffer_of_caller()?;
        self.device.concerns(play.ts);
        let Some(coder) = &mut self.storage.coder else { return fail!(State, "no codec") };
        let is_of_lanes = coder.lanes().is_some();
        coder.make(&mut *self.device, buffer, (play.ts, play.made().count()), fields)?;
        let is_made = is_of_lanes || coder.is_in_sequences() && !coder.is_taken(buffer);
        let mut made = [None; 2];
        play.made().for_each(|(part, step)| made[part] = Some((play.record(part), step)));
        let (call, by_lane) = (self.calls, false);
        let staged = Staged { buffer, ts: play.ts, made, call, by_lane };
        if is_made {
            // Older records of the same slots are placed first, so that this one stays there.
            play.steps().iter().try_for_each(|&step| self.place_made_for(step))?;
            return self.place(staged);
        }
        self.staged.push_back(staged);
        self.place_but(self.lag())
    }

    /// Lets the lane of downloads compress a raw record of the cache, which it then takes to the record's
    /// slot in the pool.
    pub(super) fn code_by_lane(&mut self, record: i64, step: Step, x: usize) -> Result<()> {
        let (buffer, ts) = (self.free_buffer()?, state_of(record));
        let Tiers { device, order, extents, storage, .. } = self;
        let Some(lanes) = storage.coder.as_mut().and_then(SnapshotCoder::lanes_mut) else {
            return fail!(State, "no codec");
        };
        order.before(&mut **device, Lane::Download, Some(&extents[x].marks), None)?;
        let name = RecordName { ts, part: part_of(record) };
        lanes.compress(&mut **device, name, buffer, extents[x].place())?;
        self.done(Lane::Download, [Some(x), None])?;
        let mut made = [None; 2];
        made[part_of(record)] = Some((record, step));
        self.staged.push_back(Staged { buffer, ts, made, call: self.calls, by_lane: true });
        Ok(())
    }

    /// Places snapshots, oldest first, until at most `left` wait in staging buffers.
    pub(super) fn place_but(&mut self, left: usize) -> Result<()> {
        while self.staged.len() > left {
            self.place_oldest()?;
        }
        Ok(())
    }

    /// Number of the staging buffer in which the application's lane works. It has one of its own where the
    /// transfer lanes code.
    pub(super) fn buffer_of_caller(&mut self) -> Result<usize> {
        match self.storage.coder.as_ref().and_then(SnapshotCoder::lanes) {
            Some(lanes) => Ok(lanes.buffers()),
            None => self.free_buffer(),
        }
    }

    /// Number of a staging buffer without a snapshot. Places the oldest snapshot if all buffers are
    /// full.
    fn free_buffer(&mut self) -> Result<usize> {
        let buffers = self.storage.coder.as_ref().map_or(1, SnapshotCoder::buffers);
        self.place_but(buffers - 1)?;
        Ok((0..buffers).find(|&k| self.staged.iter().all(|staged| staged.buffer != k)).unwrap_or(0))
    }

    /// Places the snapshots that a transfer or restore of `step` reads, and those whose slot `step`
    /// reuses.
    pub(super) fn place_made_for(&mut self, step: Step) -> Result<()> {
        let same = |a: u32, b: u32| a != NONE && a == b;
        let touches = |staged: &Staged| {
            let mut made = staged.made.iter().flatten();
            // A record that a lane compresses has its slot in the cache already.
            let is_new = !staged.by_lane;
            made.any(|(_, of)| is_new && same(of.slot, step.slot) || same(of.host, step.host))
        };
        while self.staged.iter().any(touches) {
            self.place_oldest()?;
        }
        Ok(())
    }

    /// Copies the oldest snapshot from its staging buffer into its slots. Blocks the calling thread until
    /// the size of that snapshot is known.
    fn place_oldest(&mut self) -> Result<()> {
        self.staged.pop_front().map_or(Ok(()), |staged| self.place(staged))
    }

    fn place(&mut self, Staged { buffer, ts, made, by_lane, .. }: Staged) -> Result<()> {
        let Some(coder) = &mut self.storage.coder else { return fail!(State, "no codec") };
        let sizes = coder
            .size(&mut *self.device, buffer)
            .map_err(|e| e.within(format_args!("the snapshot of state {ts}")))?;
        let placed = coder.lanes().filter(|_| by_lane).map(|lanes| lanes.placed(buffer));
        let from = [0, 1].map(|part| {
            let at = coder.record(buffer, part);
            placed.map_or(From::Place(at), |event| From::Buffer(at, event))
        });
        self.device.concerns(ts);
        let mut saved = Saved { ts, bytes: sizes.iter().sum(), written: 0 };
        self.largest = sizes.into_iter().fold(self.largest, u64::max);
        for (part, bytes) in sizes.into_iter().enumerate().filter(|&(part, _)| made[part].is_some())
        {
            self.coded[0] += self.storage.parts.parts[part].bytes;
            self.coded[1] += bytes;
        }
        for ((made, bytes), from) in made.into_iter().zip(sizes).zip(from) {
            match made {
                Some((record, step)) if by_lane => {
                    let y = self.take_in_pool(step.host, bytes)?;
                    self.extents[y].record = record;
                    self.write(Lane::Download, from, y)?;
                    saved.written += 1;
                }
                Some((record, step)) => {
                    saved.written += u32::from(self.put(record, step, bytes, from)?)
                }
                None => {}
            }
        }
        self.saved.push(saved);
        Ok(())
    }
}
