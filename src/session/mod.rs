//! The session: one application (or one device of it) that follows a schedule and gives and takes
//! snapshots.
//!
//! One straight line: action -> step of the plan -> tier -> codec -> device.

mod accounting;
mod calls;
mod engine;
mod estimate;
mod open;
mod performance_log;
mod tracing;
mod tuning;
mod zero_copy;

use crate::choice::{Promise, SharedSchedule, StorageOption, Target, Tick, TierSpec};
use crate::codec::{Settings, SnapshotCodec};
use crate::config::Config;
use crate::device::{AppField, AppMemory};
use crate::error::{fail, Result};
use crate::layout::Layout;
use crate::plan::Plan;
use crate::predict::Profile;
use crate::process::Process;
use crate::schedule::{trace, Action, Kind};
use crate::stats::Stats;
use crate::trace::{nvtx, Trace};
use engine::Engine;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::time::Instant;

pub use estimate::{estimate, Estimate};

/// One session.
pub struct Session {
    schedule: Arc<SharedSchedule>,
    /// Its number among the sessions that follow the schedule.
    number: u64,
    config: Config,
    /// Where its budgets are the library's choice: the memory that they promise.
    promise: Option<Promise>,
    layout: Layout,
    /// The ways in which it may store snapshots, of which the schedule's decision takes one.
    options: Vec<StorageOption>,
    /// That one, and the sequence number of the decision that took it; `None` until it is known
    /// that the first option is taken.
    option: StorageOption,
    decision: Option<u64>,
    /// What compresses, until the tiers have it; `None`: snapshots are raw.
    codec: Option<SnapshotCodec>,
    /// Where the snapshots are to be, as soon as it is known.
    target: Option<Target>,
    engine: Option<Engine>,
    /// The sweep that this session takes part in, and its current action there.
    sweep: u64,
    tick: Option<Tick>,
    /// Whether the current SAVE or RESTORE is done.
    served: bool,
    /// Why the application broke this shot off.
    stopped: Option<String>,
    /// When the application got its current action.
    since: Instant,
    stats: Stats,
    /// Shots that were run to their end.
    shots: u64,
    /// The current shot is among them, or the check at its end has failed and was told.
    ended: bool,
    /// The shot is to be measured, and what came of it last.
    tuning: bool,
    measured: Option<Result<Profile>>,
    /// If it writes a timeline.
    trace: Option<Trace>,
    /// The current action, where ranges are asked for.
    range: Option<nvtx::Action>,
    /// The application's memory of the last save or retrieve, no two fields of which overlap.
    disjoint: Vec<AppMemory>,
    process: Process,
}

impl Session {
    /// A session of its own, on a schedule of its own.
    pub fn new(config: Config, steps: i64, fields: &[AppField]) -> Result<Self> {
        let shared = Arc::new(SharedSchedule::new(config.clone(), steps)?);
        let mut session = Self::join(shared, config, fields)?;
        session.plan()?;
        session.open()?;
        Ok(session)
    }

    /// Another session on a schedule, with the budgets that its configuration has: how many
    /// sessions will share the memory is not known. Its memory is allocated at its first
    /// action, or where only the fields can tell the device, at its first save.
    pub fn attach(
        shared: Arc<SharedSchedule>,
        config: Config,
        fields: &[AppField],
    ) -> Result<Self> {
        Self::join(shared, Config { default_budgets: false, ..config }, fields)
    }

    /// The schedule that it follows.
    pub fn schedule(&self) -> &Arc<SharedSchedule> {
        &self.schedule
    }

    /// The plan that it plays.
    pub fn plan(&mut self) -> Result<Arc<Plan>> {
        let decision = self.schedule.decisions()?;
        match &self.engine {
            Some(engine) if engine.decision == decision => Ok(engine.plan.clone()),
            _ => {
                self.settle()?;
                self.schedule.plan(&self.option.sizes)
            }
        }
    }

    /// How it stores snapshots.
    pub fn compression(&self) -> &Settings {
        &self.option.compression
    }

    /// Bytes of one snapshot, as planned with.
    pub fn slot_bytes(&self) -> u64 {
        self.option.sizes.slot_bytes
    }

    /// `device_budget` and `host_budget` that it plans within; 0: none.
    pub fn budgets(&self) -> (u64, u64) {
        (self.config.device_budget, self.config.host_budget)
    }

    /// The tiers as they are planned with.
    pub fn sizes(&self) -> &TierSpec {
        &self.option.sizes
    }

    fn engine(&mut self) -> Result<&mut Engine> {
        match &mut self.engine {
            Some(engine) => Ok(engine),
            None if self.target.is_none() => fail!(
                State,
                "the session has no device yet: with backend = 0 the memory of the fields tells it, and no field with data was given so far; set \
                 backend = 1 (host) or backend = 2 (CUDA) in the configuration, or give the fields with their data at init"
            ),
            None => fail!(State, "the session has no device yet: call get_action first"),
        }
    }

    /// Prepares a shot: rewinds the schedule, forgets all snapshots, clears the statistics. The
    /// plan is kept.
    pub fn setup(&mut self) -> Result<()> {
        self.process.check()?;
        self.end_reversed_shot()?;
        self.trace_break();
        self.leave_old_plan()?;
        if self.tick.is_some() && self.is_measured() {
            self.end_tuning();
        }
        if let Some(engine) = &mut self.engine {
            let largest = engine.tiers.largest();
            engine.reset()?;
            self.replan(largest)?;
        }
        self.sweep = self.schedule.rewind()?;
        (self.tick, self.served, self.stopped, self.range, self.ended) =
            (None, true, None, None, false);
        self.stats = Stats::default();
        if !self.is_measured() {
            self.begin_tuning();
        }
        self.trace_setup();
        Ok(())
    }

    /// A shot that the application left after its last BACKWARD, without TERMINATE, ends here: with
    /// the check and the line in the performance log that TERMINATE would have given. A failed
    /// check is told once; the call after it goes on.
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

    /// Ends the session: a shot that is reversed ends well or with an error. Of a shot that was
    /// broken off, too, it is told whether a state was not what had been saved, if that was not
    /// told before. Whatever this returns, the session can be dropped.
    pub fn close(&mut self) -> Result<()> {
        if !self.process.is_current() {
            return Ok(());
        }
        self.end_reversed_shot()?;
        match self
            .engine
            .as_mut()
            .filter(|engine| engine.broken.is_none() && engine.tiers.is_checked_later())
        {
            Some(engine) if self.stats.restores > 0 && !self.ended => engine.finish(),
            _ => Ok(()),
        }
    }

    /// What `get_action` would give next; nothing changes. The schedule is decided by this call if
    /// it is not yet.
    pub fn peek_action(&self) -> Result<Tick> {
        self.process.check()?;
        if let Some(why) = &self.stopped {
            return fail!(State, "this shot was stopped ({why}): call setup for the next one");
        }
        self.schedule.peek_if(|sweep, current| {
            self.check_position(sweep, current.map_or(-1, |tick| tick.it))
        })
    }

    /// The next action: advances the schedule and follows it.
    pub fn get_action(&mut self) -> Result<Tick> {
        self.process.check()?;
        self.check_served()?;
        self.open()?;
        self.keep_up(self.tick.map_or(0, |tick| tick.it + 1))?;
        let here = |this: &Self, sweep, current: Option<Tick>| {
            this.check_position(sweep, current.map_or(-1, |tick| tick.it))
        };
        if (self.is_checked_later() || self.is_measured())
            && self.schedule.peek_kind_if(|sweep, current| here(self, sweep, current))?
                == Some(Kind::Terminate)
        {
            self.conclude_once()?;
        }
        let tick = self.schedule.advance_if(|sweep, current| here(self, sweep, current))?;
        self.follow(tick);
        Ok(tick)
    }

    /// The next action, as `get_action`; `None` where the first BACKWARD is next, before which this
    /// session stays.
    pub fn get_forward_action(&mut self) -> Result<Option<Tick>> {
        self.process.check()?;
        self.check_served()?;
        if self.stats.backward_steps > 0 {
            return fail!(State, "the shot is being reversed: call setup for the next shot first");
        }
        self.open()?;
        match self.schedule.peek_kind_if(|sweep, current| {
            self.check_position(sweep, current.map_or(-1, |tick| tick.it))
        })? {
            Some(Kind::Backward) => Ok(None),
            _ => self.get_action().map(Some),
        }
    }

    /// Fails if this session is no longer at the action that `tick` is.
    pub fn check_at(&self, tick: Tick) -> Result<()> {
        match self.tick {
            Some(mine) if (mine.sweep, mine.it) == (tick.sweep, tick.it) => Ok(()),
            _ => fail!(
                State,
                "the session was moved from action {} by another call: leave it to the run",
                tick.it
            ),
        }
    }

    /// Breaks this shot off: only setup can follow.
    pub fn stop(&mut self, why: &str) {
        self.stopped = Some(why.into());
    }

    /// Follows the schedule to its current action, which must be `it`. If it is there already,
    /// nothing happens.
    pub fn dispatch(&mut self, it: i64) -> Result<()> {
        self.process.check()?;
        let current = self.schedule.current()?;
        let Some(tick) = current.filter(|tick| tick.it == it) else {
            return fail!(
                State,
                "dispatch to action {it}: the schedule is at action {}",
                current.map_or(-1, |tick| tick.it)
            );
        };
        if self.tick.is_some_and(|mine| (mine.sweep, mine.it) == (tick.sweep, it)) {
            return Ok(());
        }
        self.check_served()?;
        self.check_position(tick.sweep, it - 1)?;
        self.open()?;
        self.keep_up(it)?;
        if tick.action.kind == Kind::Terminate {
            self.conclude_once()?;
        }
        self.follow(tick);
        Ok(())
    }

    /// This session must be at action `it` of `sweep` to go on.
    fn check_position(&self, sweep: u64, it: i64) -> Result<()> {
        let mine = self.tick.map_or(-1, |tick| tick.it);
        if sweep != self.sweep {
            return fail!(State, "the schedule was rewound: call setup for this session too");
        }
        if mine != it {
            return fail!(State, "this session is at action {mine}, the schedule was at {it}: dispatch every action, or call setup");
        }
        Ok(())
    }

    fn check_served(&self) -> Result<()> {
        if let Some(why) = &self.stopped {
            return fail!(State, "this shot was stopped ({why}): call setup for the next one");
        }
        match self.tick {
            Some(Tick { action: Action { kind, ts, .. }, it, .. }) if !self.served => {
                let call = if kind == Kind::Save { "save" } else { "retrieve" };
                fail!(
                    State,
                    "action {it}, {} {ts}, was not served: call {call} before the next action",
                    trace::name(kind)
                )
            }
            _ => Ok(()),
        }
    }

    fn follow(&mut self, tick: Tick) {
        let now = Instant::now();
        self.account(now);
        (self.tick, self.since) = (Some(tick), now);
        self.served = !matches!(tick.action.kind, Kind::Save | Kind::Restore);
        self.trace_action(tick);
        let (mut forward, mut backward) = (0, 0);
        match tick.action.kind {
            Kind::Forward => forward = (tick.end - tick.action.ts + 1) as u64,
            Kind::Backward => backward = 1,
            Kind::Terminate => self.end_shot(),
            _ => {}
        }
        self.stats.forward_steps += forward;
        self.stats.backward_steps += backward;
        if let Some(tuner) = self.engine.as_mut().and_then(|engine| engine.tuner.as_mut()) {
            tuner.steps(forward, backward);
        }
    }

    /// Before TERMINATE: no shot ends well in which a state was not what had been saved. Waits for
    /// the device if that is known later only.
    fn conclude(&mut self) -> Result<()> {
        if let Some(engine) = self.engine.as_mut().filter(|engine| engine.tiers.is_checked_later())
        {
            engine.finish()?;
        }
        self.conclude_tuning()
    }

    /// The same at TERMINATE itself: if it fails, that was told, and setup or the end of the
    /// session does not tell it again.
    fn conclude_once(&mut self) -> Result<()> {
        self.conclude().inspect_err(|_| self.ended = true)
    }

    fn is_measured(&self) -> bool {
        self.engine.as_ref().is_some_and(|engine| engine.tuner.is_some())
    }

    fn is_checked_later(&self) -> bool {
        self.stats.backward_steps > 0
            && self.engine.as_ref().is_some_and(|engine| engine.tiers.is_checked_later())
    }

    /// Before action `it`, which may change nothing if this fails: lets the device come so near
    /// that with this action no more than `max_in_flight` have not ended.
    fn keep_up(&mut self, it: i64) -> Result<()> {
        if let Some(engine) = &mut self.engine {
            self.stats.run_ahead_wait +=
                engine.tiers.device().keep_up(it, self.config.max_in_flight as i64)?;
        }
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // A panic in here would be one in a destructor.
        if let Ok(Err(error)) = catch_unwind(AssertUnwindSafe(|| self.close())) {
            log::error!("at the end of a session: {error}");
        }
        self.schedule.detach(self.number);
        self.close_trace();
    }
}
