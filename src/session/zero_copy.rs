//! Zero copy: the application computes in the session's memory, and saves and retrieves copy
//! nothing.

use super::Session;
use crate::device::{AppMemory, Stream};
use crate::error::{fail, Result};
use crate::schedule::{flags, Action, Kind};
use std::ffi::c_void;

impl Session {
    /// Returns one device address per field, where the application computes u(ts), the state that
    /// is saved next. On `stream` the application may write there from now on until it calls
    /// `save_commit`, and may read there until the next save or retrieve is done. The session owns
    /// the memory.
    pub fn save_begin(
        &mut self,
        ts: i64,
        nfields: usize,
        stream: Stream,
    ) -> Result<Vec<*mut c_void>> {
        self.check_zero_copy("save_begin")?;
        self.check_count(nfields)?;
        let tick = match self.shot.tick {
            Some(tick) if is_before_save(tick.action) && tick.end as i64 == ts => tick,
            _ => self.expect(Kind::Save, ts)?,
        };
        self.open()?;
        let engine = self.engine()?;
        if let (Some(tuner), Kind::Forward) = (&mut engine.tuner, tick.action.kind) {
            tuner.begins();
        }
        let pointers = engine.call(stream, "save_begin", |engine| {
            engine.tiers.begin_save(tick.step, ts)?;
            engine.tiers.addresses(tick.step, ts)
        })?;
        let memory = self.basis.layout.bytes.iter().zip(&pointers).map(|(&bytes, &address)| {
            // SAFETY: the session owns this memory, `bytes` bytes per field, and the application
            // alone uses it until it commits the save.
            unsafe { AppMemory::new(address.cast(), bytes as usize) }
        });
        let begun = Some((tick.step, memory.collect()));
        self.engine()?.begun = begun;
        Ok(pointers)
    }

    /// Stores u(ts), which the application has computed in the memory from `save_begin`.
    pub fn save_commit(&mut self, ts: i64, stream: Stream) -> Result<()> {
        self.check_zero_copy("save_commit")?;
        let tick = self.expect(Kind::Save, ts)?;
        let memory = match &self.engine()?.begun {
            Some((step, memory)) if *step == tick.step => memory.clone(),
            _ => return fail!(State, "save_commit of state {ts} without save_begin"),
        };
        self.store(tick, stream, &memory, |tiers| tiers.commit_save(tick.step, ts))
    }

    /// Returns one address per field, where u(ts) lies, on `stream`, until the next save or
    /// retrieve is done or until `retrieve_release`. The application may write there only if the
    /// action has the flag LAST_USE. The session owns the memory.
    pub fn retrieve_acquire(
        &mut self,
        ts: i64,
        nfields: usize,
        stream: Stream,
    ) -> Result<Vec<*mut c_void>> {
        self.check_zero_copy("retrieve_acquire")?;
        self.check_count(nfields)?;
        let tick = self.expect(Kind::Restore, ts)?;
        let last = tick.action.flags & flags::LAST_USE != 0;
        let pointers = self.fetch(stream, |tiers| {
            let restored = tiers.acquire(tick.step, ts, last)?;
            Ok((tiers.addresses(tick.step, ts)?, restored))
        })?;
        self.engine()?.acquired = Some((tick.step, ts));
        Ok(pointers)
    }

    /// Takes back the memory from `retrieve_acquire`, once everything that is on `stream` now is
    /// done, and issues the transfers that waited only for this memory.
    pub fn retrieve_release(&mut self, ts: i64, stream: Stream) -> Result<()> {
        self.process.check()?;
        self.check_zero_copy("retrieve_release")?;
        let engine = self.engine()?;
        let step = match engine.acquired {
            Some((step, acquired)) if acquired == ts => step,
            Some((_, acquired)) => return fail!(State, "retrieve_release of state {ts}: the application has state {acquired}"),
            None => {
                return fail!(State, "retrieve_release of state {ts}: not acquired, released already, or another save or retrieve came")
            }
        };
        engine.call(stream, "release", |engine| engine.tiers.release(step))?;
        engine.acquired = None;
        self.shot.stats.restore += engine.seconds;
        Ok(())
    }

    pub(super) fn check_zero_copy(&self, call: &str) -> Result<()> {
        if !self.basis.job.config.tiers.zero_copy {
            return fail!(
                State,
                "{call}: the session copies; set zero_copy = 1 to work in its memory"
            );
        }
        Ok(())
    }
}

/// Returns whether the action is a FORWARD that computes the state of the next SAVE.
pub(super) fn is_before_save(action: Action) -> bool {
    action.kind == Kind::Forward && action.flags & flags::NEXT_IS_SAVE != 0
}
