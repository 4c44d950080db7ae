//! The session: follows a schedule for one application, or for one device of it, and stores and
//! restores the application's snapshots.
//!
//! Every call takes one straight way: action -> step of the plan -> tier -> codec -> device.

mod accounting;
mod array;
mod basis;
mod calls;
mod check;
mod engine;
mod export;
mod generation;
mod memory;
mod names;
mod open;
mod performance_log;
mod persist;
mod restart;
mod shot;
mod timeline;
mod tuning;
mod zero_copy;

use crate::choice::{Here, SharedSchedule, Tick, TierSpec};
use crate::config::Config;
use crate::device::AppField;
use crate::error::{fail, Result};
use crate::persist::Name;
use crate::plan::Plan;
use crate::process::Process;
use crate::schedule::{flags, Action, Kind};
use basis::Basis;
use engine::Engine;
use shot::Shot;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::time::Instant;
use timeline::Watch;

pub use array::Array;
pub use basis::{estimate, Estimate};
pub use persist::{AgreeMin, Due, Persist, RunStage};
pub use restart::Position;

/// A session: what the C handle `gpuzip_t` stands for.
pub struct Session {
    schedule: Arc<SharedSchedule>,
    /// The session's number among the sessions that follow the schedule.
    number: u64,
    /// What the session plans by.
    basis: Basis,
    /// The plan and the memory in which it is played; `None` before the device is known. After a new
    /// decision it plays an old plan, and is left before the next shot.
    engine: Option<Engine>,
    shot: Shot,
    watch: Watch,
    /// The restart files, once they are open.
    persist: Option<Box<Persist>>,
    /// The names of the fields; empty: they have none.
    names: Vec<Name>,
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
        let config = config.checking(shared.config().schedule.check).with(|c| {
            c.tiers.default_budgets = false;
            // The actions of the schedule cannot say what memory each session hands out.
            c.tiers.shared_levels &= !c.tiers.zero_copy;
        });
        Self::join(shared, config.into(), fields)
    }

    /// Returns the schedule that this session follows.
    pub fn schedule(&self) -> &Arc<SharedSchedule> {
        &self.schedule
    }

    /// Returns the plan of this session, and decides the schedule if it is not decided yet.
    pub fn plan(&self) -> Result<Arc<Plan>> {
        self.schedule.decide()?;
        match self.engine_of_decision() {
            Some(engine) => Ok(engine.whole_plan().clone()),
            None => self.schedule.plan(self.tiers()),
        }
    }

    /// Returns the engine, if its plan belongs to the schedule's last decision.
    fn engine_of_decision(&self) -> Option<&Engine> {
        let (_, decision) = self.schedule.decision();
        self.engine.as_ref().filter(|engine| engine.decision == decision)
    }

    /// Returns the tiers that the plan is made for, by the storage option that the schedule's decision
    /// took: they fit the memory once this is reserved. Before the decision it is the first option.
    pub fn tiers(&self) -> &TierSpec {
        match self.engine_of_decision() {
            Some(engine) => &engine.spec,
            None => self.basis.option(self.schedule.decision().0),
        }
    }

    /// Returns `device_budget` and `host_budget` of the plan, in bytes; 0: no budget.
    pub fn budgets(&self) -> (u64, u64) {
        (self.basis.job.device_budget, self.basis.job.host_budget)
    }

    fn engine(&mut self) -> Result<&mut Engine> {
        match &mut self.engine {
            Some(engine) => Ok(engine),
            None if self.basis.target.is_none() => fail!(
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
        self.check_running()?;
        self.check_begun()?;
        Ok(self.flagged(self.schedule.peek(Some(self.here()))?))
    }

    /// Moves the schedule to its next action, follows it, and returns the action.
    pub fn get_action(&mut self) -> Result<Tick> {
        self.check_served()?;
        self.check_begun()?;
        self.prepare_action(self.shot.tick.map_or(0, |tick| tick.it + 1))?;
        if (self.is_checked_later() || self.is_measured() || self.end_check().is_err())
            && self.schedule.peek_kind(self.here())? == Some(Kind::Terminate)
        {
            self.conclude(self.is_last_sweep())?;
        }
        let tick = self.flagged(self.schedule.advance(Some(self.here()))?);
        self.follow(tick);
        Ok(tick)
    }

    /// Returns the next action as `get_action` does, or `None` if the next action is the first
    /// BACKWARD. The session then stays before that BACKWARD.
    pub fn get_forward_action(&mut self) -> Result<Option<Tick>> {
        self.check_served()?;
        let backward_steps = self.shot.stats.backward_steps;
        if backward_steps > 0 && backward_steps == self.shot.carried.backward_steps {
            // The shot went on within its reverse sweep.
            return Ok(None);
        }
        if backward_steps > 0 {
            return fail!(State, "the shot is being reversed: call setup for the next shot first");
        }
        match self.schedule.peek_kind(self.here())? {
            Some(Kind::Backward) => Ok(None),
            _ => self.get_action().map(Some),
        }
    }

    /// Fails if the current action of this session is not `tick`.
    pub fn check_at(&self, tick: Tick) -> Result<()> {
        match self.shot.tick {
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
            let at = current.map_or(-1, |tick| tick.it);
            return fail!(State, "dispatch to action {it}: the schedule is at action {at}");
        };
        if self.shot.tick.is_some_and(|mine| (mine.sweep, mine.it) == (tick.sweep, it)) {
            return Ok(());
        }
        self.check_served()?;
        self.here().check(tick.sweep, it - 1)?;
        self.prepare_action(it)?;
        if tick.action.kind == Kind::Terminate {
            self.conclude(self.is_last_sweep())?;
        }
        self.follow(tick);
        Ok(())
    }

    /// Adds what the session's memory says of an action: whether the memory of a previous time level is
    /// that of the state before.
    fn flagged(&self, mut tick: Tick) -> Tick {
        let is_of_memory = matches!(tick.action.kind, Kind::Save | Kind::Restore)
            || zero_copy::is_before_save(tick.action);
        let is_shared = |engine: &Engine| engine.tiers.shares_memory(tick.step);
        if is_of_memory && self.engine.as_ref().is_some_and(is_shared) {
            tick.action.flags |= flags::SHARED_LEVEL;
        }
        tick
    }

    /// Where this session is in the actions of its schedule.
    fn here(&self) -> Here {
        Here { sweep: self.shot.sweep, it: self.shot.tick.map_or(-1, |tick| tick.it) }
    }

    fn check_running(&self) -> Result<()> {
        self.process.check()?;
        if let Some(why) = &self.shot.stopped {
            return fail!(State, "this shot was stopped ({why}): call setup for the next one");
        }
        Ok(())
    }

    fn check_served(&self) -> Result<()> {
        self.check_running()?;
        match self.shot.tick {
            Some(Tick { action: Action { kind, ts, .. }, it, .. }) if !self.shot.served => {
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
        (self.shot.tick, self.shot.since) = (Some(tick), Some(now));
        self.shot.served = !matches!(tick.action.kind, Kind::Save | Kind::Restore);
        self.timeline_action(tick);
        self.shot.is_rewound = false;
        if tick.action.kind == Kind::Terminate && self.is_last_sweep() {
            self.end_shot();
        }
        let steps = u64::from(tick.end - tick.action.ts + 1);
        let steps = |kind: Kind| if tick.action.kind == kind { steps } else { 0 };
        let (forward, backward) = (steps(Kind::Forward), steps(Kind::Backward));
        self.shot.stats.forward_steps += forward;
        self.shot.stats.backward_steps += backward;
        if let Some(tuner) = self.engine.as_mut().and_then(|engine| engine.tuner.as_mut()) {
            tuner.steps(forward, backward);
        }
    }

    fn is_measured(&self) -> bool {
        self.engine.as_ref().is_some_and(|engine| engine.tuner.is_some())
    }

    fn is_checked_later(&self) -> bool {
        self.shot.stats.backward_steps > 0
            && self.engine.as_ref().is_some_and(|engine| engine.tiers.is_checked_later())
    }

    /// Prepares action `it`: opens the device, takes the whole plan once the forward phase of the shot has
    /// ended, which another session of the schedule may have told, and limits how far the host runs
    /// ahead: it blocks until, with action `it`, at most `max_in_flight` actions have not ended on the
    /// device. If this fails, action `it` has changed nothing.
    fn prepare_action(&mut self, it: i64) -> Result<()> {
        self.open()?;
        self.follow_end()?;
        let most = match self.basis.job.config.device.max_in_flight {
            0 => 64,
            actions => actions.into(),
        };
        if let Some(engine) = &mut self.engine {
            self.shot.stats.run_ahead_wait += engine.tiers.device().keep_up(it, most)?;
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
