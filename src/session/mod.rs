//! The session: follows a schedule for one application, or for one device of it, and stores and
//! restores the application's snapshots.
//!
//! Every call takes one straight way: action -> step of the plan -> tier -> codec -> device.

mod accounting;
mod array;
mod calls;
mod engine;
mod estimate;
mod generation;
mod open;
mod performance_log;
mod persist;
mod replan;
mod restart;
mod shot;
mod timeline;
mod tuning;
mod zero_copy;

use crate::choice::{Here, Job, Promise, SharedSchedule, StorageOption, Target, Tick, TierSpec};
use crate::codec::Settings;
use crate::config::Config;
use crate::device::{AppField, AppMemory};
use crate::error::{fail, Result};
use crate::layout::Layout;
use crate::plan::Plan;
use crate::predict::Profile;
use crate::process::Process;
use crate::schedule::{Action, Kind};
use crate::stats::Stats;
use crate::timeline::{nvtx, TimelineFile};
use engine::Engine;
use restart::Indexed;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::time::Instant;

pub use array::Array;
pub use estimate::{estimate, Estimate};
pub use persist::{AgreeMin, Due, Found, Persist};
pub use restart::{Position, Snapshot};

/// A session: what the C handle `gpuzip_t` stands for.
pub struct Session {
    schedule: Arc<SharedSchedule>,
    /// The session's number among the sessions that follow the schedule.
    number: u64,
    /// What the plan follows.
    job: Job,
    /// The host memory that the session's budgets promise, if the library chose the budgets.
    promise: Option<Promise>,
    layout: Layout,
    /// The storage options of this session; the schedule's decision takes one of them.
    options: Vec<StorageOption>,
    /// The storage option that the decision with sequence number `decision` took. Until that
    /// decision is known, `decision` is `None` and this is the first option.
    option: StorageOption,
    decision: Option<u64>,
    /// The device of the session; `None` until the configuration or the fields tell it.
    target: Option<Target>,
    engine: Option<Engine>,
    /// The number of the shot in which this session takes part, and its current action there.
    sweep: u64,
    tick: Option<Tick>,
    /// Whether the current action needs no further call: its SAVE or RESTORE is done, or it is
    /// another action.
    served: bool,
    /// The reason for which the application stopped this shot.
    stopped: Option<String>,
    /// The time at which the application got its current action.
    since: Instant,
    stats: Stats,
    /// The statistics with which this shot went on from a restart file; zero for any other shot.
    carried: Stats,
    /// Bytes of the largest compressed snapshot that the shot, or the shot before the first one, had
    /// in the session that wrote a restart file, for the session that goes on from it.
    largest_before: u64,
    /// Bytes of a snapshot by which the plan was made after the decision; 0: by the decision itself.
    planned_by: u64,
    /// The restart files, once they are open.
    persist: Option<Box<Persist>>,
    /// The index of the schedule, once a restart file within a shot was written or read.
    indexed: Option<Box<Indexed>>,
    /// Number of shots that reached TERMINATE.
    shots: u64,
    /// Whether the current shot is counted in `shots`, or has failed in its last check and the
    /// application was told so.
    ended: bool,
    /// Whether the current or the next shot is measured, and the profile (or the error) of the last
    /// measured shot.
    tuning: bool,
    measured: Option<Result<Profile>>,
    /// The timeline, if `trace_out` asks for it.
    timeline: Option<TimelineFile>,
    /// The NVTX range of the current action, if a profiler listens.
    range: Option<nvtx::Action>,
    /// The memory of the fields of the last save or retrieve; its fields were found not to overlap.
    disjoint: Vec<AppMemory>,
    process: Process,
}

impl Session {
    /// Makes a session with a schedule of its own, plans, and allocates the memory if the device is
    /// known.
    pub fn new(config: Config, steps: i64, fields: &[AppField]) -> Result<Self> {
        let config = Arc::new(config);
        let shared = Arc::new(SharedSchedule::new(config.clone(), steps)?);
        let mut session = Self::join(shared, config, fields)?;
        session.plan()?;
        session.open()?;
        Ok(session)
    }

    /// Makes a session that follows the schedule `shared`. Its budgets are those of its
    /// configuration, without defaults: how many sessions will share the memory is not known. Its
    /// memory is allocated at the first action, or at the first save if only the fields of that
    /// save tell the device.
    pub fn attach(
        shared: Arc<SharedSchedule>,
        config: Config,
        fields: &[AppField],
    ) -> Result<Self> {
        Self::join(shared, config.with(|c| c.tiers.default_budgets = false).into(), fields)
    }

    /// Returns the schedule that this session follows.
    pub fn schedule(&self) -> &Arc<SharedSchedule> {
        &self.schedule
    }

    /// Returns the plan of this session, and decides the schedule if it is not decided yet.
    pub fn plan(&mut self) -> Result<Arc<Plan>> {
        let decision = self.schedule.decisions()?;
        match &self.engine {
            Some(engine) if engine.decision == decision => {
                Ok(engine.whole.as_ref().map_or(engine.tiers.plan(), |whole| &whole.plan).clone())
            }
            _ => {
                self.settle()?;
                self.schedule.plan(&self.option.tiers)
            }
        }
    }

    /// Returns how the session compresses snapshots.
    pub fn compression(&self) -> &Settings {
        &self.option.storage.codec
    }

    /// Returns the bytes of one snapshot that the plan counts with.
    pub fn slot_bytes(&self) -> u64 {
        self.option.tiers.slot_bytes
    }

    /// Returns `device_budget` and `host_budget` of the plan, in bytes; 0: no budget.
    pub fn budgets(&self) -> (u64, u64) {
        (self.job.device_budget, self.job.host_budget)
    }

    /// Returns the tiers that the plan is made for.
    pub fn tiers(&self) -> &TierSpec {
        &self.option.tiers
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

    /// Returns the action that `get_action` would return, and stays before it. Decides the schedule
    /// if it is not decided yet.
    pub fn peek_action(&self) -> Result<Tick> {
        self.process.check()?;
        if let Some(why) = &self.stopped {
            return fail!(State, "this shot was stopped ({why}): call setup for the next one");
        }
        self.schedule.peek(Some(self.here()))
    }

    /// Moves the schedule to its next action, follows it, and returns the action.
    pub fn get_action(&mut self) -> Result<Tick> {
        self.process.check()?;
        self.check_served()?;
        self.open()?;
        self.keep_up(self.tick.map_or(0, |tick| tick.it + 1))?;
        if (self.is_checked_later() || self.is_measured())
            && self.schedule.peek_kind(self.here())? == Some(Kind::Terminate)
        {
            self.conclude_once()?;
        }
        let tick = self.schedule.advance(Some(self.here()))?;
        self.follow(tick);
        Ok(tick)
    }

    /// Returns the next action as `get_action` does, or `None` if the next action is the first
    /// BACKWARD. The session then stays before that BACKWARD.
    pub fn get_forward_action(&mut self) -> Result<Option<Tick>> {
        self.process.check()?;
        self.check_served()?;
        let backward_steps = self.stats.backward_steps;
        if backward_steps > 0 && backward_steps == self.carried.backward_steps {
            // The shot went on within its reverse sweep.
            return Ok(None);
        }
        if backward_steps > 0 {
            return fail!(State, "the shot is being reversed: call setup for the next shot first");
        }
        self.open()?;
        match self.schedule.peek_kind(self.here())? {
            Some(Kind::Backward) => Ok(None),
            _ => self.get_action().map(Some),
        }
    }

    /// Fails if the current action of this session is not `tick`.
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

    /// Follows the schedule to its current action, whose number must be `it`. Does nothing if the
    /// session is at this action already.
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
        self.here().check(tick.sweep, it - 1)?;
        self.open()?;
        self.keep_up(it)?;
        if tick.action.kind == Kind::Terminate {
            self.conclude_once()?;
        }
        self.follow(tick);
        Ok(())
    }

    /// Where this session is in the actions of its schedule.
    fn here(&self) -> Here {
        Here { sweep: self.sweep, it: self.tick.map_or(-1, |tick| tick.it) }
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
                    kind.name()
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
        self.timeline_action(tick);
        let (mut forward, mut backward) = (0, 0);
        match tick.action.kind {
            Kind::Forward => forward = (tick.end - tick.action.ts + 1) as u64,
            Kind::Backward => backward = (tick.end - tick.action.ts + 1) as u64,
            Kind::Terminate => self.end_shot(),
            _ => {}
        }
        self.stats.forward_steps += forward;
        self.stats.backward_steps += backward;
        if let Some(tuner) = self.engine.as_mut().and_then(|engine| engine.tuner.as_mut()) {
            tuner.steps(forward, backward);
        }
    }

    fn is_measured(&self) -> bool {
        self.engine.as_ref().is_some_and(|engine| engine.tuner.is_some())
    }

    fn is_checked_later(&self) -> bool {
        self.stats.backward_steps > 0
            && self.engine.as_ref().is_some_and(|engine| engine.tiers.is_checked_later())
    }

    /// Limits how far the host runs ahead: blocks until, with action `it`, at most `max_in_flight`
    /// actions have not ended on the device. If this fails, action `it` has changed nothing.
    fn keep_up(&mut self, it: i64) -> Result<()> {
        let most = match self.job.config.device.max_in_flight {
            0 => 64,
            actions => actions.into(),
        };
        if let Some(engine) = &mut self.engine {
            self.stats.run_ahead_wait += engine.tiers.device().keep_up(it, most)?;
        }
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // A panic that leaves a destructor may abort the process.
        if let Ok(Err(error)) = catch_unwind(AssertUnwindSafe(|| self.close())) {
            log::error!("at the end of a session: {error}");
        }
        self.schedule.detach(self.number);
        self.close_timeline();
    }
}
