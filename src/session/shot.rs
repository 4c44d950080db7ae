//! The start and the end of a shot.

use super::check::Check;
use super::engine::{Engine, Whole};
use super::Session;
use crate::choice::Tick;
use crate::device::AppMemory;
use crate::error::{fail, Result};
use crate::schedule::Kind;
use crate::stats::Stats;
use std::sync::Arc;
use std::time::Instant;

/// The shot in which the session takes part.
#[derive(Default)]
pub(super) struct Shot {
    /// The number of the shot, as the schedule counts, and the current action of the session there.
    pub(super) sweep: u64,
    pub(super) tick: Option<Tick>,
    /// Whether the current action needs no further call: its SAVE or RESTORE is done, or it is
    /// another action.
    pub(super) served: bool,
    /// Whether the current action is TERMINATE and another reverse sweep begins after it.
    pub(super) is_rewound: bool,
    /// The reason for which the application stopped this shot.
    pub(super) stopped: Option<String>,
    /// The time at which the application got its current action.
    pub(super) since: Option<Instant>,
    pub(super) stats: Stats,
    /// The statistics with which this shot went on from a restart file; zero for any other shot.
    pub(super) carried: Stats,
    /// Bytes of the largest compressed snapshot that the shot, or the shot before the first one, had
    /// in the session that wrote a restart file, for the session that goes on from it.
    pub(super) largest_before: u64,
    /// The memory of the fields of the last save or retrieve; its fields were found not to overlap.
    pub(super) disjoint: Vec<AppMemory>,
    /// States that were exported in this shot, each with its folder: hashes in rising order.
    pub(super) exported: Vec<u64>,
    /// The states of this shot, if they are checked.
    pub(super) check: Check,
    /// Number of shots of this session that reached TERMINATE.
    pub(super) shots: u64,
    /// Whether this shot is counted in `shots`, or has failed in its last check and the application
    /// was told so.
    pub(super) ended: bool,
}

impl Session {
    /// Prepares a shot: rewinds the schedule, forgets all snapshots and clears the statistics. The
    /// plan stays, unless a new decision or the measured size of compressed snapshots changes it.
    pub fn setup(&mut self) -> Result<()> {
        self.process.check()?;
        self.end_reversed_shot()?;
        // Ends the application's last action.
        self.record(|device, _| Ok(device.break_off()?));
        self.leave_old_plan();
        if self.shot.tick.is_some() && self.is_measured() {
            self.end_tuning();
        }
        let largest = self.largest();
        self.shot.largest_before = 0;
        self.engine.as_mut().map_or(Ok(()), Engine::reset)?;
        self.shot.sweep = self.schedule.rewind()?;
        if let Some(engine) = &mut self.engine {
            match engine.whole.take() {
                // The memory is that of the rest: the next action opens the device anew.
                Some(Whole { anew: Some(_), .. }) => self.engine = None,
                _ if self.schedule.steps() == 0 => {
                    engine.tiers.complete(self.schedule.plan(&engine.spec)?)
                }
                Some(whole) => engine.tiers.fit(whole.plan)?,
                None => {}
            }
            self.replan(largest)?;
        }
        let Shot { sweep, shots, .. } = self.shot;
        self.shot = Shot { sweep, shots, ..Shot::default() };
        self.watch.range = None;
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
        let mut planned = Ok(());
        if steps != i64::from(self.schedule.steps()) {
            self.schedule.rewind()?;
            planned = self.plan_for(steps);
        }
        self.setup()?;
        planned
    }

    /// Begins another reverse sweep over the states of this shot, after TERMINATE.
    pub fn rewind(&mut self) -> Result<()> {
        self.check_running()?;
        let sweeps = self.schedule.sweeps();
        match self.shot.tick {
            Some(tick) if tick.action.kind == Kind::Terminate => {}
            tick => {
                let at = tick.map_or(-1, |tick| tick.it);
                return fail!(State, "rewind at action {at}: a reverse sweep ends with TERMINATE");
            }
        }
        if self.is_last_sweep() {
            return fail!(State, "rewind: the plan is for sweeps = {sweeps} reverse sweeps, which have ended; set sweeps in the configuration to as many as there will be, or call setup for the next shot");
        }
        self.shot.is_rewound = true;
        Ok(())
    }

    /// Whether no reverse sweep is planned after the current one.
    pub(super) fn is_last_sweep(&self) -> bool {
        let (sweeps, steps) = (self.schedule.sweeps(), self.schedule.steps());
        sweeps == 1 || self.shot.stats.backward_steps >= u64::from(sweeps) * u64::from(steps)
    }

    /// Fails if the current action is TERMINATE and the next reverse sweep is not begun.
    pub(super) fn check_begun(&self) -> Result<()> {
        let is_over = self.shot.tick.is_some_and(|tick| tick.action.kind == Kind::Terminate);
        if is_over && !self.shot.is_rewound && !self.is_last_sweep() {
            return fail!(State, "the sweep has terminated: rewind begins the next sweep of sweeps = {}, setup the next shot", self.schedule.sweeps());
        }
        Ok(())
    }

    /// Ends the forward phase of a shot whose number of time steps was not known: the state of the
    /// current action is its last one.
    pub fn end_forward(&mut self) -> Result<()> {
        self.process.check()?;
        self.check_served()?;
        self.schedule.end_forward(self.here())?;
        self.follow_end()
    }

    /// Takes the whole plan of this shot once its forward phase has ended.
    pub(super) fn follow_end(&mut self) -> Result<()> {
        let Some(engine) = &mut self.engine else { return Ok(()) };
        if engine.tiers.plan().is_open() && self.schedule.end()?.is_some() {
            let mut plan = self.schedule.plan(&engine.spec)?;
            if let Some(Whole { plan: whole, ahead, kept, .. }) = &mut engine.whole {
                let done = *ahead + kept.len() as i64;
                let rest = plan.rest(kept, done.max(0) as usize)?;
                *whole = std::mem::replace(&mut plan, Arc::new(rest));
            }
            engine.tiers.complete(plan);
        }
        Ok(())
    }

    /// Ends a shot that the application left after the last BACKWARD of a reverse sweep, without asking for
    /// TERMINATE, or after TERMINATE, without the sweeps that were planned after it.
    /// The shot gets the check and the line of the performance log that TERMINATE would have given.
    /// If the check fails, this call returns its error; the next call goes on.
    fn end_reversed_shot(&mut self) -> Result<()> {
        let is_last = |tick: Tick| match tick.action.kind {
            Kind::Backward => tick.action.ts == 0,
            kind => kind == Kind::Terminate,
        };
        let is_reversed = self.shot.tick.is_some_and(is_last);
        let is_broken = self.shot.stopped.is_some()
            || self.engine.as_ref().is_some_and(|engine| engine.broken.is_some());
        if !is_reversed || self.shot.ended || is_broken {
            return Ok(());
        }
        self.account(Instant::now());
        self.conclude(true)?;
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
        let is_unchecked = self.shot.stats.restores > 0 && !self.shot.ended;
        let checked = match &mut self.engine {
            Some(engine) if is_unchecked && engine.broken.is_none() => engine.check(),
            _ => Ok(()),
        };
        checked.and(settled)
    }

    /// Stops this shot: every call but setup and the end of the session then fails with `why`.
    pub fn stop(&mut self, why: &str) {
        self.shot.stopped = Some(why.into());
    }

    /// Does what must precede TERMINATE, which ends the shot if `is_last`: fails if a restored state differed from the saved one, for
    /// which it waits for the device if the comparison runs there, and ends the measurement of the
    /// shot. If this fails, the shot counts as ended, so that neither setup nor the end of the session
    /// returns the error again.
    pub(super) fn conclude(&mut self, is_last: bool) -> Result<()> {
        let checked = self.engine.as_mut().map_or(Ok(()), Engine::check);
        checked
            .and_then(|()| self.end_check())
            .and_then(|()| if is_last { self.conclude_tuning() } else { Ok(()) })
            .inspect_err(|_| self.shot.ended = true)
    }
}
