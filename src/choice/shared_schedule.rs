//! The schedule that sessions share: its parameters, its plans, and the cursor that says which
//! action is current.

use crate::choice::{choose_among, choose_schedule, Choice, TierSpec};
use crate::config::Config;
use crate::error::{fail, Result};
use crate::plan::Plan;
use crate::schedule::{check_steps, validate, Action, Kind, Ranges, Schedule, Terms};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// The current action, and where in the sweep it stands.
#[derive(Clone, Copy, Debug)]
pub struct Tick {
    /// Which sweep: rewinding begins a new one.
    pub sweep: u64,
    /// Actions since the rewind, the first is 0.
    pub it: i64,
    /// SAVEs and RESTOREs before this action: the index of its step in the plan.
    pub event: usize,
    /// The action.
    pub action: Action,
    /// The last time step of a range of FORWARDs; else the action's own.
    pub end: u32,
}

/// A schedule with a cursor, driven by one caller and followed by any number of sessions.
pub struct SharedSchedule {
    config: Config,
    steps: u32,
    state: Mutex<State>,
}

struct State {
    /// What the sessions that follow offer, by the number that each was given.
    sessions: BTreeMap<u64, Vec<TierSpec>>,
    attached: u64,
    decided: Option<Choice>,
    /// How often it was decided anew.
    decisions: u64,
    /// The application, or another rank, has been told of the schedule: only the application may
    /// have it decided anew, by a call for that.
    told: bool,
    actions: Option<Ranges>,
    sweep: u64,
    event: usize,
    current: Option<Tick>,
}

impl SharedSchedule {
    /// A schedule for `steps` time steps. Its parameters are decided at the first action, when the
    /// sizes of all sessions are known.
    pub fn new(config: Config, steps: i64) -> Result<Self> {
        let steps = check_steps(steps)?;
        let state = State {
            sessions: BTreeMap::new(),
            attached: 0,
            decided: None,
            decisions: 0,
            told: false,
            actions: None,
            sweep: 0,
            event: 0,
            current: None,
        };
        Ok(SharedSchedule { config, steps, state: Mutex::new(state) })
    }

    fn lock(&self) -> Result<MutexGuard<'_, State>> {
        match self.state.lock() {
            Ok(state) => Ok(state),
            Err(_) => fail!(Poisoned, "the schedule is unusable after an internal error"),
        }
    }

    /// Time steps, n.
    pub fn steps(&self) -> u32 {
        self.steps
    }

    /// The configuration it was made with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Announces a session and the sizes of its alternatives. Before the schedule is decided they
    /// count in the decision; later its plan must fit what is decided. Returns the session's
    /// number and the current sweep.
    pub fn attach(&self, offers: Vec<TierSpec>) -> Result<(u64, u64)> {
        let mut state = self.lock()?;
        if let Some(choice) = &state.decided {
            match offers.get(choice.alternative).or(offers.last()) {
                Some(sizes) => plan_for(choice, sizes)?,
                None => return fail!(Argument, "a session that stores nothing"),
            };
        }
        state.attached += 1;
        let number = state.attached;
        state.sessions.insert(number, offers);
        Ok((number, state.sweep))
    }

    /// Decides anew, between shots, with other sizes of one session. If that is impossible nothing
    /// changes.
    pub fn replan(&self, number: u64, offers: Vec<TierSpec>) -> Result<()> {
        let mut state = self.lock()?;
        state.check_between_shots()?;
        let mut sessions = state.sessions.clone();
        sessions.insert(number, offers);
        let choice = decide(&self.config, self.steps, &sessions)?;
        state.sessions = sessions;
        state.take(choice);
        Ok(())
    }

    /// The schedule, if ranks may still agree on another one: between shots.
    pub fn agreeable(&self) -> Result<Schedule> {
        let mut state = self.lock()?;
        state.check_between_shots()?;
        Ok(state.decide(&self.config, self.steps)?.schedule.clone())
    }

    /// Takes on the schedule of these numbers, if it is another one than that decided.
    pub fn take_terms(&self, terms: Terms) -> Result<()> {
        let mut state = self.lock()?;
        state.check_between_shots()?;
        state.told = true;
        let decided = state.decide(&self.config, self.steps)?;
        if decided.schedule.terms() == terms {
            return Ok(());
        }
        let first = decided.alternative;
        let sessions: Vec<Vec<TierSpec>> = state.sessions.values().cloned().collect();
        let choice = choose_schedule(Schedule::of_terms(self.steps, terms)?, &sessions, first)?;
        log::info!(
            "{}: {} snapshots, as other ranks have them",
            choice.schedule.algorithm.name(),
            choice.schedule.snapshots
        );
        state.take(choice);
        Ok(())
    }

    /// A number of the actions as the application gets them; see `Schedule::fingerprint`.
    pub fn fingerprint(&self) -> Result<u64> {
        Ok(self.tell()?.fingerprint(self.config.range_actions))
    }

    /// Decides anew with other sizes of the only session, at the SAVE with which every sweep of
    /// more than one step begins, unless the application was told more of the schedule than
    /// that SAVE.
    pub fn replan_at_start(&self, number: u64, offers: Vec<TierSpec>) -> Result<()> {
        let mut state = self.lock()?;
        let Some(tick) =
            state.current.filter(|tick| tick.it == 0 && tick.action.kind == Kind::Save)
        else {
            return fail!(State, "the schedule is past its first SAVE");
        };
        if state.told {
            return fail!(State, "the application or another rank was told of the schedule already, by a summary, a peek or a fingerprint");
        }
        if state.sessions.len() != 1 || !state.sessions.contains_key(&number) {
            return fail!(State, "{} sessions follow the schedule", state.sessions.len());
        }
        let sessions = BTreeMap::from([(number, offers)]);
        let choice = decide(&self.config, self.steps, &sessions)?;
        let mut actions = Ranges::new(choice.schedule.actions(), self.config.range_actions);
        match actions.next() {
            Some((action, end)) if (action, end) == (tick.action, tick.end) => {}
            _ => return fail!(State, "another schedule would begin otherwise"),
        }
        (state.sessions, state.decided, state.actions) = (sessions, Some(choice), Some(actions));
        state.decisions += 1;
        Ok(())
    }

    /// Which alternative of those that sessions offer was chosen, and how often that was decided
    /// anew: a session whose plan is of an earlier decision needs another one.
    pub fn alternative(&self) -> Result<(usize, u64)> {
        let mut state = self.lock()?;
        let alternative = state.decide(&self.config, self.steps)?.alternative;
        Ok((alternative, state.decisions))
    }

    /// How often the schedule was decided anew.
    pub fn decisions(&self) -> Result<u64> {
        Ok(self.lock()?.decisions)
    }

    /// Forgets a session: it counts in no decision that is still to come.
    pub fn detach(&self, number: u64) {
        if let Ok(mut state) = self.state.lock() {
            state.sessions.remove(&number);
        }
    }

    /// Decides schedule and plans now, if they are not yet, and returns the schedule.
    pub fn decide(&self) -> Result<Schedule> {
        Ok(self.lock()?.decide(&self.config, self.steps)?.schedule.clone())
    }

    /// As `decide`, for the application: `replan_at_start` changes nothing any more.
    pub fn tell(&self) -> Result<Schedule> {
        let mut state = self.lock()?;
        state.told = true;
        Ok(state.decide(&self.config, self.steps)?.schedule.clone())
    }

    /// The plan for a session with these sizes.
    pub fn plan(&self, sizes: &TierSpec) -> Result<Arc<Plan>> {
        plan_for(self.lock()?.decide(&self.config, self.steps)?, sizes)
    }

    /// Moves on to the next action.
    pub fn advance(&self) -> Result<Tick> {
        self.advance_if(|_, _| Ok(()))
    }

    /// Moves on to the next action if `ready` accepts the sweep and the current action.
    pub fn advance_if(&self, ready: impl FnOnce(u64, Option<Tick>) -> Result<()>) -> Result<Tick> {
        let mut state = self.lock()?;
        ready(state.sweep, state.current)?;
        let Some((action, end)) = state.actions(&self.config, self.steps)?.next() else {
            return fail!(State, "the sweep has terminated: only setup is valid now");
        };
        if action.kind == Kind::Error {
            return fail!(Memory, "there is no memory to go on with the schedule: free memory, then call setup for a new shot");
        }
        let tick = state.tick(action, end);
        state.event += usize::from(matches!(action.kind, Kind::Save | Kind::Restore));
        state.current = Some(tick);
        Ok(tick)
    }

    /// The next action, which stays the next one, if `ready` accepts the sweep and the current
    /// action. The application is told of it: `replan_at_start` changes nothing any more.
    pub fn peek_if(&self, ready: impl FnOnce(u64, Option<Tick>) -> Result<()>) -> Result<Tick> {
        let mut state = self.lock()?;
        ready(state.sweep, state.current)?;
        state.told = true;
        match state.actions(&self.config, self.steps)?.peek() {
            Some((action, end)) => Ok(state.tick(action, end)),
            None => fail!(State, "the sweep has terminated: only setup is valid now"),
        }
    }

    /// The next action, which stays the next one.
    pub fn peek(&self) -> Result<Tick> {
        self.peek_if(|_, _| Ok(()))
    }

    /// What the next action does, if `ready` accepts the sweep and the current action. `None` after
    /// TERMINATE.
    pub fn peek_kind_if(
        &self,
        ready: impl FnOnce(u64, Option<Tick>) -> Result<()>,
    ) -> Result<Option<Kind>> {
        let mut state = self.lock()?;
        ready(state.sweep, state.current)?;
        Ok(state.actions(&self.config, self.steps)?.peek_kind())
    }

    /// The current action, if the sweep has begun.
    pub fn current(&self) -> Result<Option<Tick>> {
        Ok(self.lock()?.current)
    }

    /// Goes back to before the first action, and returns the sweep that begins. At the beginning
    /// already, nothing changes: every session of a shared schedule may ask for it.
    pub fn rewind(&self) -> Result<u64> {
        let mut state = self.lock()?;
        if state.current.is_some() {
            state.sweep += 1;
            (state.actions, state.current, state.event) = (None, None, 0);
        }
        Ok(state.sweep)
    }
}

impl State {
    fn check_between_shots(&self) -> Result<()> {
        if let Some(tick) = self.current.filter(|tick| tick.action.kind != Kind::Terminate) {
            return fail!(
                State,
                "the schedule is at action {}: plan anew between shots, after TERMINATE or setup",
                tick.it
            );
        }
        Ok(())
    }

    /// Takes another decision than that before.
    fn take(&mut self, choice: Choice) {
        self.decided = Some(choice);
        self.decisions += 1;
        if self.current.is_none() {
            self.actions = None;
        }
    }

    /// The action after the current one, at its place in the sweep.
    fn tick(&self, action: Action, end: u32) -> Tick {
        Tick {
            sweep: self.sweep,
            it: self.current.map_or(0, |tick| tick.it + 1),
            event: self.event,
            action,
            end,
        }
    }

    /// The actions of this sweep that are still to come.
    fn actions(&mut self, config: &Config, steps: u32) -> Result<&mut Ranges> {
        if self.actions.is_none() {
            self.actions = Some(Ranges::new(
                self.decide(config, steps)?.schedule.actions(),
                config.range_actions,
            ));
        }
        match &mut self.actions {
            Some(actions) => Ok(actions),
            None => fail!(State, "no schedule"),
        }
    }

    fn decide(&mut self, config: &Config, steps: u32) -> Result<&Choice> {
        if self.decided.is_none() {
            self.decided = Some(decide(config, steps, &self.sessions)?);
        }
        match &self.decided {
            Some(choice) => Ok(choice),
            None => fail!(State, "no schedule"),
        }
    }
}

fn decide(config: &Config, steps: u32, sessions: &BTreeMap<u64, Vec<TierSpec>>) -> Result<Choice> {
    if sessions.is_empty() && config.algorithm.is_none() {
        log::info!("auto: snapshot sizes are not known: Revolve with GPUZIP's number of snapshots");
    }
    let sessions: Vec<Vec<TierSpec>> = sessions.values().cloned().collect();
    let choice = choose_among(config, steps, &sessions)?;
    let Schedule { algorithm, snapshots, chunk, .. } = choice.schedule;
    if std::env::var_os("GPUZIP_VALIDATE").is_some_and(|v| v == "1") {
        validate(choice.schedule.actions(), steps, Some(snapshots))?;
    }
    log::info!("{}: {steps} steps, {snapshots} snapshots, chunk {chunk}", algorithm.name());
    Ok(choice)
}

/// The plan among those of `choice` that serves a session with these sizes, or a new one if it fits
/// them.
fn plan_for(choice: &Choice, sizes: &TierSpec) -> Result<Arc<Plan>> {
    let plan = sizes.plan_for(&choice.schedule, &choice.plans)?;
    sizes.check(&plan)?;
    Ok(plan)
}
