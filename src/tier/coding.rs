//! Compressed snapshots on their way from the coder to the tiers.
//!
//! A GPU completes a snapshot later than the call that made it, so its size is not known at once: the
//! snapshot waits in a staging buffer, and is placed after a number of SAVEs and RESTOREs, never by
//! time.

use super::copies::From;
use super::play::{Play, Saved};
use super::Tiers;
use crate::device::{AppMemory, Device};
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
        let buffer = self.free_buffer()?;
        self.device.concerns(play.ts);
        let Some(coder) = &mut self.storage.coder else { return fail!(State, "no codec") };
        coder.make(&mut *self.device, buffer, play.made().count(), fields)?;
        let mut made = [None; 2];
        play.made().for_each(|(part, step)| made[part] = Some((play.record(part), step)));
        self.staged.push_back(Staged { buffer, ts: play.ts, made, call: self.calls });
        self.place_but(self.lag())
    }

    /// Places snapshots, oldest first, until at most `left` wait in staging buffers.
    pub(super) fn place_but(&mut self, left: usize) -> Result<()> {
        while self.staged.len() > left {
            self.place_oldest()?;
        }
        Ok(())
    }

    /// Number of a staging buffer without a snapshot. Places the oldest snapshot if all buffers are
    /// full.
    pub(super) fn free_buffer(&mut self) -> Result<usize> {
        let buffers = self.lag().max(1);
        self.place_but(buffers - 1)?;
        Ok((0..buffers).find(|&k| self.staged.iter().all(|staged| staged.buffer != k)).unwrap_or(0))
    }

    /// Places the snapshots that a transfer or restore of `step` reads, and those whose slot `step`
    /// reuses.
    pub(super) fn place_made_for(&mut self, step: Step) -> Result<()> {
        let same = |a: u32, b: u32| a != NONE && a == b;
        let touches = |staged: &Staged| {
            let made = staged.made.iter().flatten();
            made.into_iter().any(|(_, of)| same(of.slot, step.slot) || same(of.host, step.host))
        };
        while self.staged.iter().any(touches) {
            self.place_oldest()?;
        }
        Ok(())
    }

    /// Copies the oldest snapshot from its staging buffer into its slots. Blocks the calling thread until
    /// the size of that snapshot is known.
    fn place_oldest(&mut self) -> Result<()> {
        let Some(Staged { buffer, ts, made, .. }) = self.staged.pop_front() else { return Ok(()) };
        let Some(coder) = &mut self.storage.coder else { return fail!(State, "no codec") };
        let sizes = coder
            .size(&mut *self.device, buffer)
            .map_err(|e| e.within(format_args!("the snapshot of state {ts}")))?;
        let from = [0, 1].map(|part| From::Place(coder.record(buffer, part)));
        self.device.concerns(ts);
        let mut saved = Saved { ts, bytes: sizes.iter().sum(), written: 0 };
        self.largest = sizes.into_iter().fold(self.largest, u64::max);
        for ((made, bytes), from) in made.into_iter().zip(sizes).zip(from) {
            if let Some((record, step)) = made {
                saved.written += u32::from(self.put(record, step, bytes, from)?);
            }
        }
        self.saved.push(saved);
        Ok(())
    }
}
