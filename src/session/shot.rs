//! The start and the end of a shot.

use super::engine::Whole;
use super::Session;
use crate::error::Result;
use crate::schedule::Kind;
use crate::stats::Stats;
use std::time::Instant;

impl Session {
    /// Prepares a shot: rewinds the schedule, forgets all snapshots and clears the statistics. The
    /// plan stays, unless a new decision or the measured size of compressed snapshots changes it.
    pub fn setup(&mut self) -> Result<()> {
        self.process.check()?;
        self.end_reversed_shot()?;
        self.timeline_break();
        self.leave_old_plan()?;
        if self.tick.is_some() && self.is_measured() {
            self.end_tuning();
        }
        let largest = self.largest();
        self.largest_before = 0;
        if let Some(engine) = &mut self.engine {
            engine.reset()?;
            self.sweep = self.schedule.rewind()?;
            match engine.whole.take() {
                // The memory is that of the rest: the next action opens the device anew.
                Some(Whole { anew: Some(_), .. }) => self.engine = None,
                Some(whole) => engine.tiers.fit(whole.plan)?,
                None => {}
            }
        }
        if let Some(engine) = &mut self.engine {
            if self.schedule.steps() == 0 {
                engine.tiers.complete(self.schedule.plan(&self.option.tiers)?);
            }
            self.replan(largest)?;
        }
        self.sweep = self.schedule.rewind()?;
        (self.tick, self.served, self.stopped, self.range, self.ended) =
            (None, true, None, None, false);
        (self.stats, self.carried) = (Stats::default(), Stats::default());
        if !self.is_measured() {
            self.begin_tuning();
        }
        self.timeline_setup();
        Ok(())
    }

    /// Prepares a shot of `steps` time steps, with a plan for that number. If there is no such plan,
    /// returns the error and prepares a shot of as many steps as before.
    pub fn setup_steps(&mut self, steps: i64) -> Result<()> {
        self.process.check()?;
        self.end_reversed_shot()?;
        if steps != i64::from(self.schedule.steps()) {
            self.schedule.rewind()?;
            let planned = self.plan_for(steps);
            self.setup()?;
            return planned;
        }
        self.setup()
    }

    /// Ends the forward phase of a shot whose number of time steps was not known: the state of the
    /// current action is its last one.
    pub fn end_forward(&mut self) -> Result<()> {
        self.process.check()?;
        self.check_served()?;
        self.schedule.end_forward(self.here())?;
        self.follow_end()
    }

    /// Ends a shot that the application left after its last BACKWARD, without asking for TERMINATE.
    /// The shot gets the check and the line of the performance log that TERMINATE would have given.
    /// If the check fails, this call returns its error; the next call goes on.
    fn end_reversed_shot(&mut self) -> Result<()> {
        let is_reversed =
            self.tick.is_some_and(|tick| tick.action.kind == Kind::Backward && tick.action.ts == 0);
        let is_broken = self.stopped.is_some()
            || self.engine.as_ref().is_some_and(|engine| engine.broken.is_some());
        if !is_reversed || self.ended || is_broken {
            return Ok(());
        }
        self.ended = true;
        self.account(Instant::now());
        self.conclude()?;
        self.end_shot();
        Ok(())
    }

    /// Ends the session. Returns an error if a restored state differed from the saved one and no
    /// earlier call said so, even if the shot was broken off. The session can be dropped whatever
    /// this returns.
    pub fn close(&mut self) -> Result<()> {
        if !self.process.is_current() {
            return Ok(());
        }
        // A lost generation is told, too, unless another error is.
        let settled = self.persist.as_mut().map_or(Ok(()), |persist| persist.settle());
        self.end_reversed_shot()?;
        let checked = match self
            .engine
            .as_mut()
            .filter(|engine| engine.broken.is_none() && engine.tiers.is_checked_later())
        {
            Some(engine) if self.stats.restores > 0 && !self.ended => engine.finish(),
            _ => Ok(()),
        };
        checked.and(settled)
    }

    /// Stops this shot: every call but setup and the end of the session then fails with `why`.
    pub fn stop(&mut self, why: &str) {
        self.stopped = Some(why.into());
    }

    /// Does what must precede TERMINATE: fails if a restored state differed from the saved one, for
    /// which it waits for the device if the comparison runs there, and ends the measurement of the
    /// shot.
    fn conclude(&mut self) -> Result<()> {
        if let Some(engine) = self.engine.as_mut().filter(|engine| engine.tiers.is_checked_later())
        {
            engine.finish()?;
        }
        self.conclude_tuning()
    }

    /// Calls `conclude` at TERMINATE. If it fails, the shot counts as ended, so that neither setup
    /// nor the end of the session returns the error again.
    pub(super) fn conclude_once(&mut self) -> Result<()> {
        self.conclude().inspect_err(|_| self.ended = true)
    }
}
