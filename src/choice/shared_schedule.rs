//! The schedule shared by sessions: its parameters, its plans, and its current action.

use crate::choice::{choose_among, choose_schedule, Choice, TierSpec};
use crate::config::Config;
use crate::environment;
use crate::error::{fail, Result};
use crate::plan::Plan;
use crate::schedule::{
    validate_schedule, Action, Algorithm, Kind, MacroSteps, Ranges, Schedule, Terms,
};
use crate::together::{Mode, Modes};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// The current action, and its place in the shot.
#[derive(Clone, Copy, Debug)]
pub struct Tick {
    /// Number of the shot; each rewind of the schedule begins a new one.
    pub sweep: u64,
    /// Number of actions since the rewind; the first action has 0.
    pub it: i64,
    /// Number of SAVEs and RESTOREs before this action: the index of the action's step in the plan.
    pub step: usize,
    /// The action.
    pub action: Action,
    /// The last time step of a range of FORWARDs, and of the macro-step of a BACKWARD; of any other
    /// action, its own time step.
    pub end: u32,
}

/// Where a session is in the actions of its schedule.
#[derive(Clone, Copy, Debug)]
pub struct Here {
    /// Number of the shot.
    pub sweep: u64,
    /// Number of the current action; -1: before the first one.
    pub it: i64,
}

impl Here {
    /// Fails unless the schedule is at action `it` of shot `sweep`.
    pub fn check(self, sweep: u64, it: i64) -> Result<()> {
        let mine = self.it;
        if sweep != self.sweep {
            return fail!(State, "the schedule was rewound: call setup for this session too");
        }
        if mine != it {
            return fail!(State, "this session is at action {mine}, the schedule was at {it}: dispatch every action, or call setup");
        }
        Ok(())
    }
}

/// Why a schedule is decided anew, which says when that is allowed:
///
/// | why | allowed |
/// |---|---|
/// | `OtherTiers` | between shots |
/// | `OtherSteps` | between shots, for the only session; the number is known, before and afterwards |
/// | `Backend` | during the first SAVE of a shot, for the only session, and untold |
/// | `LessDisk` | before the first action, untold; or as `Backend` |
///
/// Untold: neither the application nor another rank was told of the schedule.
#[derive(Clone, Copy, Debug)]
pub enum Why {
    /// A session has other tiers, by other speeds.
    OtherTiers,
    /// A session has this number of time steps from now on.
    OtherSteps(i64),
    /// The fields of the first SAVE have told the backend.
    Backend,
    /// A session found less disk than was planned.
    LessDisk,
}

/// A schedule shared by sessions: one caller advances it, and any number of sessions follow it.
pub struct SharedSchedule {
    config: Arc<Config>,
    /// Number of time steps; 0: each shot tells it at the end of its forward phase. Changes while
    /// `state` is locked.
    steps: AtomicU32,
    state: Mutex<State>,
}

struct State {
    /// The tiers of every storage option of each session, by the session's number.
    sessions: BTreeMap<u64, Vec<TierSpec>>,
    attached: u64,
    decided: Option<Choice>,
    /// The decision with an endless schedule, while the number of steps of the current shot is known
    /// and `decided` is the schedule for that number.
    open: Option<Choice>,
    /// How often the schedule was decided anew.
    decisions: u64,
    /// Whether the application or another rank was told of the schedule. From then on the schedule
    /// is decided anew only if the application asks for that.
    told: bool,
    actions: Option<Ranges>,
    sweep: u64,
    step: usize,
    current: Option<Tick>,
}

impl SharedSchedule {
    /// Makes a schedule for `steps` time steps; 0 for algorithm online: not known yet. Its parameters
    /// are decided at the first action, when the tiers of all sessions are known.
    pub fn new(config: impl Into<Arc<Config>>, steps: i64) -> Result<Self> {
        let config = config.into();
        let steps = config.check_steps(steps)?;
        let state = State {
            sessions: BTreeMap::new(),
            attached: 0,
            decided: None,
            open: None,
            decisions: 0,
            told: false,
            actions: None,
            sweep: 0,
            step: 0,
            current: None,
        };
        Ok(SharedSchedule { config, steps: steps.into(), state: Mutex::new(state) })
    }

    fn lock(&self) -> Result<MutexGuard<'_, State>> {
        match self.state.lock() {
            Ok(state) => Ok(state),
            Err(_) => fail!(Poisoned, "the schedule is unusable after an internal error"),
        }
    }

    /// Returns the number of time steps, n; 0: every shot has its own.
    pub fn steps(&self) -> u32 {
        self.steps.load(Ordering::Relaxed)
    }

    /// Returns the macro-steps that the time steps form.
    pub fn macro_steps(&self) -> MacroSteps {
        MacroSteps::new(self.config.schedule.adjoint_every, self.steps())
    }

    /// Ends the forward phase of this shot, whose number of time steps was not known, for a session
    /// that is `here`. The live state is the one of the current action, u(n-1).
    pub fn end_forward(&self, here: Here) -> Result<()> {
        let mut state = self.lock()?;
        if self.steps() > 0 {
            return fail!(
                State,
                "the number of steps is known, {}: only a session with steps = 0 ends its forward phase",
                self.steps()
            );
        }
        state.check(here)?;
        if let (Some(_), Some(ended)) = (&state.open, &state.decided) {
            return fail!(
                State,
                "the forward phase of this shot has ended already, after {} steps",
                ended.schedule.steps
            );
        }
        let (Some(tick), Some(choice)) = (state.current, &state.decided) else {
            return fail!(State, "no state is live before the first action: call get_action, and end the forward phase when its last state is live");
        };
        let (steps, snapshots, alternative) =
            (tick.end + 1, choice.schedule.snapshots, choice.alternative);
        let schedule = Schedule::online(steps, snapshots, tick.action.kind == Kind::Save)?;
        schedule.check_length()?;
        validate_if_asked(&schedule, false)?;
        let mut actions = schedule.actions();
        for (_, action) in (0..=tick.it).zip(&mut actions) {
            action.check_memory()?;
        }
        log::info!(
            "online: the forward phase has ended after {steps} steps, {} forward steps in all",
            schedule.forward_steps()
        );
        state.actions =
            Some(Ranges::new(actions, schedule.macro_steps(), self.config.schedule.range_actions));
        let ended = Choice { alternative, schedule, plans: Vec::new() };
        state.open = state.decided.replace(ended);
        Ok(())
    }

    /// Whether the number of time steps of this shot was not known before its forward phase ended,
    /// and that phase has ended.
    pub fn has_ended(&self) -> Result<bool> {
        Ok(self.lock()?.open.is_some())
    }

    /// Returns the configuration that the schedule was made with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Adds a session with the tiers of its storage options. If the schedule is not decided yet,
    /// they count in the decision; otherwise the session's plan must fit the decided schedule.
    /// Returns the session's number and the number of the current shot.
    pub fn attach(&self, options: Vec<TierSpec>) -> Result<(u64, u64)> {
        let mut state = self.lock()?;
        if let Some(choice) = &state.decided {
            match options.get(choice.alternative).or(options.last()) {
                Some(tiers) => plan_for(choice, tiers)?,
                None => return fail!(Argument, "a session that stores nothing"),
            };
        }
        state.attached += 1;
        let number = state.attached;
        state.sessions.insert(number, options);
        Ok((number, state.sweep))
    }

    /// Decides the schedule anew with other tiers of session `number`, if that is allowed now. If it
    /// fails, nothing has changed.
    pub fn decide_anew(&self, why: Why, number: u64, options: Vec<TierSpec>) -> Result<()> {
        let steps = match why {
            Why::OtherSteps(steps) => self.config.check_steps(steps)?,
            _ => self.steps(),
        };
        let mut state = self.lock()?;
        let begun = state.check_change(why, number, steps == 0 || self.steps() == 0)?;
        let mut sessions = state.sessions.clone();
        sessions.insert(number, options);
        let choice = decide(&self.config, steps, &sessions)?;
        let mut actions = actions_of(&choice.schedule, &self.config);
        if begun.is_some_and(|begun| actions.next() != Some((begun.action, begun.end))) {
            return fail!(State, "another schedule would begin otherwise");
        }
        self.steps.store(steps, Ordering::Relaxed);
        state.sessions = sessions;
        state.take(choice);
        if begun.is_some() {
            state.actions = Some(actions);
        }
        Ok(())
    }

    /// Decides the schedule if necessary and returns it. Fails in the middle of a shot, when ranks
    /// can no longer agree on another schedule.
    pub fn agreeable(&self) -> Result<Schedule> {
        let mut state = self.lock()?;
        state.check_between_shots()?;
        Ok(state.decide(&self.config, self.steps())?.schedule.clone())
    }

    /// Takes the schedule that `terms` describe, if it differs from the decided one. Valid between
    /// shots only.
    pub fn take_terms(&self, terms: Terms) -> Result<()> {
        let mut state = self.lock()?;
        state.check_between_shots()?;
        state.told = true;
        let decided = state.decide(&self.config, self.steps())?;
        if decided.schedule.terms() == terms {
            return Ok(());
        }
        let first = decided.alternative;
        let sessions: Vec<Vec<TierSpec>> = state.sessions.values().cloned().collect();
        let macro_steps = self.macro_steps();
        let schedule = Schedule::of_terms(macro_steps.count(), terms)?.in_macro_steps(macro_steps);
        let choice = choose_schedule(schedule, &sessions, first)?;
        log::info!(
            "{}: {} snapshots, as other ranks have them",
            choice.schedule.algorithm.name(),
            choice.schedule.snapshots
        );
        state.take(choice);
        Ok(())
    }

    /// Returns a 64-bit fingerprint of the actions that the application gets; see
    /// `Schedule::fingerprint`.
    pub fn fingerprint(&self) -> Result<u64> {
        self.tell()?.fingerprint(self.config.schedule.range_actions)
    }

    /// Returns the index of the chosen storage option, and how often the schedule was decided anew.
    /// A session whose plan belongs to an earlier decision needs a new plan.
    pub fn alternative(&self) -> Result<(usize, u64)> {
        let mut state = self.lock()?;
        let alternative = state.decide(&self.config, self.steps())?.alternative;
        Ok((alternative, state.decisions))
    }

    /// Returns how often the schedule was decided anew.
    pub fn decisions(&self) -> Result<u64> {
        Ok(self.lock()?.decisions)
    }

    /// Removes a session: it counts in no later decision.
    pub fn detach(&self, number: u64) {
        if let Ok(mut state) = self.state.lock() {
            state.sessions.remove(&number);
        }
    }

    /// Decides the schedule and the plans, if they are not decided yet, and returns the schedule.
    pub fn decide(&self) -> Result<Schedule> {
        Ok(self.lock()?.decide(&self.config, self.steps())?.schedule.clone())
    }

    /// Does what `decide` does, for the application, which has been told of the schedule from then on.
    pub fn tell(&self) -> Result<Schedule> {
        let mut state = self.lock()?;
        state.told = true;
        Ok(state.decide(&self.config, self.steps())?.schedule.clone())
    }

    /// Returns the plan for a session with these tiers.
    pub fn plan(&self, tiers: &TierSpec) -> Result<Arc<Plan>> {
        plan_for(self.lock()?.decide(&self.config, self.steps())?, tiers)
    }

    /// Moves on to the next action and returns it. If a session moves the schedule, `here` is where the
    /// session is.
    pub fn advance(&self, here: Option<Here>) -> Result<Tick> {
        let mut state = self.lock()?;
        here.map_or(Ok(()), |here| state.check(here))?;
        let Some((action, end)) = state.actions(&self.config, self.steps())?.next() else {
            return fail!(State, "the sweep has terminated: only setup is valid now");
        };
        action.check_memory()?;
        let tick = state.tick(action, end);
        state.step += usize::from(matches!(action.kind, Kind::Save | Kind::Restore));
        state.current = Some(tick);
        Ok(tick)
    }

    /// Returns the next action and stays before it; `here` as for `advance`. The application has been
    /// told of the schedule from then on.
    pub fn peek(&self, here: Option<Here>) -> Result<Tick> {
        let mut state = self.lock()?;
        here.map_or(Ok(()), |here| state.check(here))?;
        state.told = true;
        match state.actions(&self.config, self.steps())?.peek() {
            Some((action, end)) => {
                action.check_memory()?;
                Ok(state.tick(action, end))
            }
            None => fail!(State, "the sweep has terminated: only setup is valid now"),
        }
    }

    /// Returns the kind of the next action, for a session that is `here`; `None` after TERMINATE.
    pub fn peek_kind(&self, here: Here) -> Result<Option<Kind>> {
        let mut state = self.lock()?;
        state.check(here)?;
        Ok(state.actions(&self.config, self.steps())?.peek_kind())
    }

    /// Returns how many SAVEs and RESTOREs are among the actions of a shot up to action `it`. Walks
    /// through these actions.
    pub fn accesses_until(&self, it: i64) -> Result<usize> {
        Ok(self.lock()?.until(&self.config, self.steps(), it)?.1)
    }

    /// Returns the modes of the schedule that decide what its session `number` may do with a shot.
    pub fn modes(&self, number: u64) -> Result<Modes> {
        let modes = self.lock()?.modes(number).with(Mode::UnknownSteps, self.steps() == 0);
        Ok(modes.with(Mode::Online, self.config.schedule.algorithm == Some(Algorithm::Online)))
    }

    /// Moves the schedule, before the first action of a shot, to action `it`, as if all actions up to
    /// it had been done, and returns that action. `first` is the number of the plan's step for the
    /// next SAVE or RESTORE.
    pub fn resume(&self, it: i64, first: usize) -> Result<Tick> {
        let mut state = self.lock()?;
        if let Some(tick) = state.current {
            return fail!(State, "the schedule is at action {}: a shot goes on from a restart file before its first action", tick.it);
        }
        let (actions, _, (action, end)) = state.until(&self.config, self.steps(), it)?;
        let is_access = matches!(action.kind, Kind::Save | Kind::Restore);
        let step = first.wrapping_sub(usize::from(is_access));
        let tick = Tick { sweep: state.sweep, it, step, action, end };
        (state.actions, state.current, state.step) = (Some(actions), Some(tick), first);
        state.told = true;
        Ok(tick)
    }

    /// Returns the current action; `None` before the first one.
    pub fn current(&self) -> Result<Option<Tick>> {
        Ok(self.lock()?.current)
    }

    /// Returns to the state before the first action, and returns the number of the new shot.
    /// Begins no new shot if the schedule is there already: every session of a shared schedule may
    /// call this. The actions begin anew even then: memory may have run out before the first one.
    pub fn rewind(&self) -> Result<u64> {
        let mut state = self.lock()?;
        if state.current.is_some() {
            state.sweep += 1;
            if let Some(open) = state.open.take() {
                state.decided = Some(open);
            }
        }
        (state.actions, state.current, state.step) = (None, None, 0);
        Ok(state.sweep)
    }
}

impl State {
    /// Fails unless a session that is `here` is at the current action.
    fn check(&self, here: Here) -> Result<()> {
        here.check(self.sweep, self.current.map_or(-1, |tick| tick.it))
    }

    /// Fails if the schedule cannot be decided anew now; the table at [`Why`] says when it can.
    /// `is_open`: the number of time steps, before or afterwards, is not known. Returns the first SAVE
    /// of the shot, if it has begun: the new schedule must begin with the same SAVE.
    fn check_change(&self, why: Why, number: u64, is_open: bool) -> Result<Option<Tick>> {
        let modes = self.modes(number).with(Mode::OtherSteps, true);
        match (why, self.current) {
            (Why::OtherTiers, _) => self.check_between_shots().map(|()| None),
            (Why::OtherSteps(_), _) => {
                self.check_between_shots()?;
                modes.with(Mode::UnknownSteps, is_open).check().map(|()| None)
            }
            (Why::LessDisk, None) => self.check_untold().map(|()| None),
            (Why::Backend | Why::LessDisk, Some(tick))
                if tick.it == 0 && tick.action.kind == Kind::Save =>
            {
                self.check_untold()?;
                if self.sessions.len() != 1 || !self.sessions.contains_key(&number) {
                    return fail!(State, "{} sessions follow the schedule", self.sessions.len());
                }
                Ok(Some(tick))
            }
            (Why::Backend | Why::LessDisk, _) => {
                fail!(State, "the schedule is past its first SAVE")
            }
        }
    }

    fn check_untold(&self) -> Result<()> {
        match self.told {
            true => fail!(State, "the application or another rank was told of the schedule already, by a summary, a peek or a fingerprint"),
            false => Ok(()),
        }
    }

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

    /// Returns the number of sessions as a mode, unless session `number` is the only one.
    fn modes(&self, number: u64) -> Modes {
        let is_alone = self.sessions.len() == 1 && self.sessions.contains_key(&number);
        let sessions = if is_alone { 0 } else { self.sessions.len() as u64 };
        Modes::default().with(Mode::Sessions, sessions)
    }

    /// Returns the actions of a shot behind action `it`, the number of SAVEs and RESTOREs up to that
    /// action, and the action.
    fn until(
        &mut self,
        config: &Config,
        steps: u32,
        it: i64,
    ) -> Result<(Ranges, usize, (Action, u32))> {
        let schedule = &self.decide(config, steps)?.schedule;
        let mut actions = actions_of(schedule, config);
        let (mut accesses, mut last) = (0, None);
        for (_, (action, end)) in (0..=it).zip(&mut actions) {
            action.check_memory()?;
            accesses += usize::from(matches!(action.kind, Kind::Save | Kind::Restore));
            last = Some((action, end));
        }
        match last {
            Some(last) if last.0.kind != Kind::Terminate => Ok((actions, accesses, last)),
            _ => fail!(Argument, "action {it}: the schedule has fewer actions"),
        }
    }

    /// Replaces the decision by `choice`.
    fn take(&mut self, choice: Choice) {
        self.decided = Some(choice);
        self.open = None;
        self.decisions += 1;
        if self.current.is_none() {
            self.actions = None;
        }
    }

    /// Returns the place of `action`, the one after the current action.
    fn tick(&self, action: Action, end: u32) -> Tick {
        Tick {
            sweep: self.sweep,
            it: self.current.map_or(0, |tick| tick.it + 1),
            step: self.step,
            action,
            end,
        }
    }

    /// Returns the actions of this shot that are still to come.
    fn actions(&mut self, config: &Config, steps: u32) -> Result<&mut Ranges> {
        if self.actions.is_none() {
            let schedule = &self.decide(config, steps)?.schedule;
            self.actions = Some(actions_of(schedule, config));
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

/// Returns the actions as the application gets them. The FORWARDs of an endless schedule are not
/// joined to ranges, since its forward phase may end after any step.
fn actions_of(schedule: &Schedule, config: &Config) -> Ranges {
    schedule.ranges(config.schedule.range_actions && schedule.steps > 0)
}

fn decide(config: &Config, steps: u32, sessions: &BTreeMap<u64, Vec<TierSpec>>) -> Result<Choice> {
    if sessions.is_empty() && config.schedule.algorithm.is_none() {
        log::info!("auto: snapshot sizes are not known: Revolve with GPUZIP's number of snapshots");
    }
    let sessions: Vec<Vec<TierSpec>> = sessions.values().cloned().collect();
    let choice = choose_among(config, steps, &sessions)?;
    let Schedule { algorithm, snapshots, chunk, .. } = choice.schedule;
    validate_if_asked(&choice.schedule, config.schedule.range_actions)?;
    match steps {
        0 => log::info!("{}: {snapshots} snapshots, for any number of steps", algorithm.name()),
        _ => {
            log::info!("{}: {steps} steps, {snapshots} snapshots, chunk {chunk}", algorithm.name())
        }
    }
    Ok(choice)
}

/// Validates a schedule whose number of steps is known, if `GPUZIP_VALIDATE` asks for it.
fn validate_if_asked(schedule: &Schedule, join: bool) -> Result<()> {
    if schedule.steps > 0 && environment::is_on("GPUZIP_VALIDATE") {
        validate_schedule(schedule, join)?;
    }
    Ok(())
}

/// Returns the plan in `choice` that serves a session with these tiers, or a new plan if it fits
/// them.
fn plan_for(choice: &Choice, tiers: &TierSpec) -> Result<Arc<Plan>> {
    let plan = tiers.plan_for(&choice.schedule, &choice.plans)?;
    tiers.check(&plan)?;
    Ok(plan)
}
