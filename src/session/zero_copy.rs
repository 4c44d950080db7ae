//! Saves and retrieves without a copy: the application works in the session's memory.

use super::Session;
use crate::device::{AppMemory, Stream};
use crate::error::{fail, Result};
use crate::schedule::{flags, Action, Kind};
use std::ffi::c_void;
use std::time::Instant;

impl Session {
    /// Memory, field by field, in which the application computes u(ts), the state that is saved
    /// next. On its stream it may write there from now on, and must not any more once
    /// `save_commit` is called; it may read there until the next save or retrieve is done.
    pub fn save_begin(
        &mut self,
        ts: i64,
        nfields: usize,
        stream: Stream,
    ) -> Result<Vec<*mut c_void>> {
        self.check_zero_copy("save_begin")?;
        self.check_count(nfields)?;
        let tick = match self.tick {
            Some(tick) if is_before_save(tick.action) && tick.end as i64 == ts => tick,
            _ => self.expect(Kind::Save, ts)?,
        };
        self.open()?;
        let engine = self.engine()?;
        let (step, spare) = (engine.plan.steps[tick.event], engine.spare(tick.event));
        let pointers =
            engine.call(stream, "save_begin", |engine| engine.tiers.begin_save(step, spare))?;
        let memory = self.layout.fields.iter().zip(&pointers).map(|(field, &address)| {
            // SAFETY: the session's own memory, the application's until the save is committed.
            unsafe { AppMemory::new(address.cast(), field.bytes().unwrap_or(0) as usize) }
        });
        let begun = Some((tick.event, memory.collect()));
        self.engine()?.begun = begun;
        Ok(pointers)
    }

    /// Stores u(ts), which the application has computed in the memory that `save_begin` gave.
    pub fn save_commit(&mut self, ts: i64, stream: Stream) -> Result<()> {
        self.check_zero_copy("save_commit")?;
        let tick = self.expect(Kind::Save, ts)?;
        let memory = match &self.engine()?.begun {
            Some((event, memory)) if *event == tick.event => memory.clone(),
            _ => return fail!(State, "save_commit of state {ts} without save_begin"),
        };
        self.store(tick, stream, &memory, |tiers, step, _, spare| {
            tiers.commit_save(step, ts, spare)
        })
    }

    /// Memory, field by field, that holds u(ts) on the stream until the next save or retrieve is
    /// done, or until `retrieve_release`. It must not be written to, unless the action has the
    /// flag LAST_USE.
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
        let pointers =
            self.fetch(tick, stream, |tiers, step, _, spare| tiers.acquire(step, ts, last, spare))?;
        self.engine()?.acquired = Some((tick.event, ts));
        Ok(pointers)
    }

    /// Takes back the memory that `retrieve_acquire` gave, once what is on the stream so far is
    /// done. Transfers that waited for nothing else are issued.
    pub fn retrieve_release(&mut self, ts: i64, stream: Stream) -> Result<()> {
        self.process.check()?;
        self.check_zero_copy("retrieve_release")?;
        let begin = Instant::now();
        let engine = self.engine()?;
        let event = match engine.acquired {
            Some((event, acquired)) if acquired == ts => event,
            Some((_, acquired)) => return fail!(State, "retrieve_release of state {ts}: the application has state {acquired}"),
            None => {
                return fail!(State, "retrieve_release of state {ts}: not acquired, released already, or another save or retrieve came")
            }
        };
        engine.call(stream, "release", |engine| engine.issue_released(event))?;
        engine.acquired = None;
        self.stats.restore += begin.elapsed().as_secs_f64();
        Ok(())
    }

    pub(super) fn check_zero_copy(&self, call: &str) -> Result<()> {
        if !self.config.zero_copy {
            return fail!(
                State,
                "{call}: the session copies; set zero_copy = 1 to work in its memory"
            );
        }
        Ok(())
    }
}

/// A FORWARD that computes the state of the next SAVE.
fn is_before_save(action: Action) -> bool {
    action.kind == Kind::Forward && action.flags & flags::NEXT_IS_SAVE != 0
}
