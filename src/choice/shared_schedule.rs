//! The schedule shared by sessions: its parameters, its plans, and its current action.

use crate::choice::{choose_among, choose_schedule, Choice, TierSpec};
use crate::config::Config;
use crate::environment;
use crate::error::{fail, Result};
use crate::plan::Plan;
use crate::schedule::{validate_schedule, Action, Kind, MacroSteps, Ranges, Schedule, Terms};
use crate::together::{Mode, Modes};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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

/// Why a schedule is decided anew, which says when that is allowed, and what may change:
///
/// | why | allowed | may change |
/// |---|---|---|
/// | `OtherTiers` | between shots | everything but the number of steps |
/// | `Terms` | between shots | the schedule, to the one that is given |
/// | `OtherSteps` | between shots, for the only session; the number is known, before and afterwards | everything |
/// | `Backend` | during the first SAVE of a shot, for the only session, and untold | all after this SAVE |
/// | `LessDisk` | before the first action, untold; or as `Backend` | as for `OtherTiers`; or as `Backend` |
///
/// Untold: neither the application nor another rank was told of the schedule. A cache that must
/// shrink and snapshots of another size than planned are not in the table: they change the plan of
/// one session for the schedule as it is ([`SharedSchedule::plan`]).
#[derive(Clone, Copy, Debug)]
pub enum Why {
    /// A session has other tiers, by other speeds.
    OtherTiers,
    /// Other ranks have the schedule that these terms describe.
    Terms(Terms),
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
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    config: Arc<Config>,
    /// Number of time steps; 0: each shot tells it at the end of its forward phase.
    steps: u32,
    /// The tiers of every storage option of each session, by the session's number.
    sessions: BTreeMap<u64, Vec<TierSpec>>,
    attached: u64,
    decided: Option<Choice>,
    /// The schedule of this shot, in place of the decided one without end, once the forward phase of
    /// the shot has told the number of steps.
    ended: Option<Choice>,
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
        let state = State { config: config.clone(), steps, ..State::default() };
        Ok(SharedSchedule { config, state: Mutex::new(state) })
    }

    fn lock(&self) -> Result<MutexGuard<'_, State>> {
        match self.state.lock() {
            Ok(state) => Ok(state),
            Err(_) => fail!(Poisoned, "the schedule is unusable after an internal error"),
        }
    }

    /// Returns the number of time steps, n; 0: every shot has its own.
    pub fn steps(&self) -> u32 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).steps
    }

    /// Returns the macro-steps that the time steps form.
    pub fn macro_steps(&self) -> MacroSteps {
        MacroSteps::new(self.config.schedule.adjoint_every, self.steps())
    }

    /// Ends the forward phase of this shot, whose number of time steps was not known, for a session
    /// that is `here`. The live state is the one of the current action, u(n-1).
    pub fn end_forward(&self, here: Here) -> Result<()> {
        let mut state = self.lock()?;
        if let steps @ 1.. = state.steps {
            return fail!(State, "the number of steps is known, {steps}: only a session with steps = 0 ends its forward phase");
        }
        state.check(here)?;
        if let Some(Choice { schedule: Schedule { steps, .. }, .. }) = state.ended {
            return fail!(
                State,
                "the forward phase of this shot has ended already, after {steps} steps"
            );
        }
        let (Some(tick), Some(choice)) = (state.current, &state.decided) else {
            return fail!(State, "no state is live before the first action: call get_action, and end the forward phase when its last state is live");
        };
        let is_after_save = tick.action.kind == Kind::Save;
        let ended = ended_after(choice, (tick.end + 1, is_after_save))?;
        log::info!(
            "online: the forward phase has ended after {} steps, {} forward steps in all",
            ended.schedule.steps,
            ended.schedule.forward_steps()
        );
        state.ended = Some(ended);
        let (actions, ..) = state.until(tick.it).inspect_err(|_| state.ended = None)?;
        state.actions = Some(actions);
        Ok(())
    }

    /// Returns after how many time steps the forward phase of this shot has ended, and whether after the
    /// SAVE of its last state; `None` if it has not ended, or if the number was known before.
    pub fn end(&self) -> Result<Option<(u32, bool)>> {
        let end = |ended: &Choice| (ended.schedule.steps, ended.schedule.ends_after_save());
        Ok(self.lock()?.ended.as_ref().map(end))
    }

    /// Lets the forward phase of this shot, which has had no action yet, end where the one of another
    /// session did (`end`).
    pub fn end_as(&self, end: (u32, bool)) -> Result<()> {
        let mut state = self.lock()?;
        state.ended = Some(ended_after(state.decide()?, end)?);
        Ok(())
    }

    /// Decides the schedule, if it is not decided yet, and returns the one of all shots: that of this
    /// shot, or the one without end if each shot has its own number of time steps.
    pub fn of_all_shots(&self) -> Result<Schedule> {
        let mut state = self.lock()?;
        state.decide()?;
        state.decided.as_ref().map_or_else(no_schedule, |choice| Ok(choice.schedule.clone()))
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
        if let Some(choice) = state.choice() {
            match options.get(choice.alternative).or(options.last()) {
                Some(tiers) => tiers.plan_for(&choice.schedule, &choice.plans)?,
                None => return fail!(Argument, "a session that stores nothing"),
            };
        }
        state.attached += 1;
        let number = state.attached;
        state.sessions.insert(number, options);
        Ok((number, state.sweep))
    }

    /// Decides the schedule anew, if that is allowed now. `tiers`: the number of a session that has other
    /// tiers now, and the tiers of its storage options. If this fails, nothing has changed.
    pub fn decide_anew(&self, why: Why, tiers: Option<(u64, Vec<TierSpec>)>) -> Result<()> {
        let mut state = self.lock()?;
        let steps = match why {
            Why::OtherSteps(steps) => self.config.check_steps(steps)?,
            _ => state.steps,
        };
        let begun = state.check_change(why, tiers.as_ref().map_or(0, |tiers| tiers.0), steps)?;
        let mut sessions = state.sessions.clone();
        sessions.extend(tiers);
        let choice = match why {
            Why::Terms(terms) if state.decide()?.schedule.terms() == terms => return Ok(()),
            Why::Terms(terms) => state.choice_of(terms)?,
            _ => decide(&self.config, steps, &sessions)?,
        };
        let mut actions = actions_of(&choice.schedule, self.config.schedule.range_actions);
        if begun.is_some_and(|begun| actions.next() != Some((begun.action, begun.end))) {
            return fail!(State, "another schedule would begin otherwise");
        }
        (state.steps, state.sessions) = (steps, sessions);
        (state.decided, state.ended) = (Some(choice), None);
        state.decisions += 1;
        if begun.is_some() || state.current.is_none() {
            state.actions = begun.map(|_| actions);
        }
        Ok(())
    }

    /// Returns a 64-bit fingerprint of the actions that the application gets; see
    /// `Schedule::fingerprint`.
    pub fn fingerprint(&self) -> Result<u64> {
        self.tell()?.fingerprint(self.config.schedule.range_actions)
    }

    /// Returns the index of the chosen storage option, 0 before there is a decision, and how often the
    /// schedule was decided anew. A session whose plan belongs to an earlier decision needs a new plan.
    pub fn decision(&self) -> (usize, u64) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (state.choice().map_or(0, |choice| choice.alternative), state.decisions)
    }

    /// Removes a session: it counts in no later decision.
    pub fn detach(&self, number: u64) {
        if let Ok(mut state) = self.state.lock() {
            state.sessions.remove(&number);
        }
    }

    /// Decides the schedule and the plans, if they are not decided yet, and returns the schedule.
    pub fn decide(&self) -> Result<Schedule> {
        Ok(self.lock()?.decide()?.schedule.clone())
    }

    /// Does what `decide` does, for the application, which has been told of the schedule from then on.
    pub fn tell(&self) -> Result<Schedule> {
        let mut state = self.lock()?;
        state.told = true;
        Ok(state.decide()?.schedule.clone())
    }

    /// Returns the plan for a session with these tiers.
    pub fn plan(&self, tiers: &TierSpec) -> Result<Arc<Plan>> {
        let mut state = self.lock()?;
        let Choice { schedule, plans, .. } = state.decide()?;
        tiers.plan_for(schedule, plans)
    }

    /// Moves on to the next action and returns it. If a session moves the schedule, `here` is where the
    /// session is.
    pub fn advance(&self, here: Option<Here>) -> Result<Tick> {
        let mut state = self.lock()?;
        let tick = state.next(here, true)?;
        state.step += usize::from(matches!(tick.action.kind, Kind::Save | Kind::Restore));
        state.current = Some(tick);
        Ok(tick)
    }

    /// Returns the next action and stays before it; `here` as for `advance`. The application has been
    /// told of the schedule from then on.
    pub fn peek(&self, here: Option<Here>) -> Result<Tick> {
        let mut state = self.lock()?;
        let tick = state.next(here, false)?;
        state.told = true;
        Ok(tick)
    }

    /// Returns the kind of the next action, for a session that is `here`; `None` after TERMINATE.
    pub fn peek_kind(&self, here: Here) -> Result<Option<Kind>> {
        let mut state = self.lock()?;
        state.check(here)?;
        Ok(state.actions()?.peek().map(|(action, _)| action.kind))
    }

    /// Returns how many SAVEs and RESTOREs are among the actions of a shot up to action `it`. Walks
    /// through these actions.
    pub fn accesses_until(&self, it: i64) -> Result<usize> {
        Ok(self.lock()?.until(it)?.1)
    }

    /// Returns the modes of the schedule that decide what its session `number` may do with a shot.
    pub fn modes(&self, number: u64) -> Result<Modes> {
        Ok(self.lock()?.modes(number))
    }

    /// Moves the schedule, before the first action of a shot, to action `it`, as if all actions up to
    /// it had been done, and returns that action. `first` is the number of the plan's step for the
    /// next SAVE or RESTORE.
    pub fn resume(&self, it: i64, first: usize) -> Result<Tick> {
        let mut state = self.lock()?;
        if let Some(tick) = state.current {
            return fail!(State, "the schedule is at action {}: a shot goes on from a restart file before its first action", tick.it);
        }
        let (actions, _, (action, end)) = state.until(it)?;
        let is_access = matches!(action.kind, Kind::Save | Kind::Restore);
        let step = first.wrapping_sub(usize::from(is_access));
        let tick = Tick { sweep: state.sweep, it, step, action, end };
        (state.actions, state.current, state.step) = (Some(actions), Some(tick), first);
        state.told = true;
        Ok(tick)
    }

    /// Returns the number of reverse sweeps of a shot.
    pub fn sweeps(&self) -> u32 {
        self.config.schedule.sweeps.max(1)
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
        state.sweep += u64::from(state.current.is_some());
        (state.ended, state.actions, state.current, state.step) = (None, None, None, 0);
        Ok(state.sweep)
    }
}

impl State {
    /// Fails unless a session that is `here` is at the current action.
    fn check(&self, here: Here) -> Result<()> {
        here.check(self.sweep, self.current.map_or(-1, |tick| tick.it))
    }

    /// The schedule of this shot, if it is decided.
    fn choice(&self) -> Option<&Choice> {
        self.ended.as_ref().or(self.decided.as_ref())
    }

    /// Fails if the schedule cannot be decided anew now; the table at [`Why`] says when it can.
    /// `steps`: the number of time steps afterwards. Returns the first SAVE of the shot, if it has
    /// begun: the new schedule must begin with the same SAVE.
    fn check_change(&mut self, why: Why, number: u64, steps: u32) -> Result<Option<Tick>> {
        match (why, self.current) {
            (Why::OtherTiers | Why::Terms(_), _) => self.check_between_shots().map(|()| None),
            (Why::OtherSteps(_), _) => {
                self.check_between_shots()?;
                let is_unknown = steps == 0 || self.steps == 0;
                let modes = self.modes(number).with(Mode::OtherSteps, true);
                modes.with(Mode::UnknownSteps, is_unknown).check().map(|()| None)
            }
            (Why::LessDisk, None) => self.check_untold().map(|()| None),
            (Why::Backend | Why::LessDisk, Some(tick))
                if tick.it == 0 && tick.action.kind == Kind::Save =>
            {
                self.check_untold()?;
                if !self.is_alone(number) {
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
        if self.told {
            return fail!(State, "the application or another rank was told of the schedule already, by a summary, a peek or a fingerprint");
        }
        Ok(())
    }

    fn check_between_shots(&mut self) -> Result<()> {
        // An open schedule has no end; its actions are not looked at.
        let is_last =
            self.steps == 0 || self.actions.as_mut().is_none_or(|actions| actions.peek().is_none());
        let is_over = |tick: &Tick| tick.action.kind == Kind::Terminate && is_last;
        if let Some(tick) = self.current.filter(|tick| !is_over(tick)) {
            return fail!(
                State,
                "the schedule is at action {}: plan anew between shots, after the last TERMINATE or setup",
                tick.it
            );
        }
        Ok(())
    }

    fn is_alone(&self, number: u64) -> bool {
        self.sessions.len() == 1 && self.sessions.contains_key(&number)
    }

    /// Returns the modes of the schedule. The number of sessions is one, unless session `number` is the
    /// only one.
    fn modes(&self, number: u64) -> Modes {
        let sessions = if self.is_alone(number) { 0 } else { self.sessions.len() as u64 };
        Modes::default().with(Mode::Sessions, sessions).with(Mode::UnknownSteps, self.steps == 0)
    }

    /// Returns the actions of a shot behind action `it`, the number of SAVEs and RESTOREs up to that
    /// action, and the action.
    fn until(&mut self, it: i64) -> Result<(Ranges, usize, (Action, u32))> {
        let mut actions = self.all_actions()?;
        let (mut accesses, mut last) = (0, None);
        for (_, (action, end)) in (0..=it).zip(&mut actions) {
            action.check_memory()?;
            accesses += usize::from(matches!(action.kind, Kind::Save | Kind::Restore));
            last = Some((action, end));
        }
        match last {
            Some(last) if actions.peek().is_some() => Ok((actions, accesses, last)),
            _ => fail!(Argument, "action {it}: the schedule has fewer actions"),
        }
    }

    /// Returns the choice of the schedule that `terms` describe, as other ranks have it, for the storage
    /// options of today's choice first.
    fn choice_of(&mut self, terms: Terms) -> Result<Choice> {
        let first = self.decide()?.alternative;
        let sessions: Vec<Vec<TierSpec>> = self.sessions.values().cloned().collect();
        let macro_steps = MacroSteps::new(self.config.schedule.adjoint_every, self.steps);
        let schedule = Schedule::of_terms(macro_steps.count(), terms)?;
        let of_config = &self.config.schedule;
        let schedule = schedule.in_sweeps(of_config.sweeps)?.in_macro_steps(macro_steps);
        let schedule = schedule.checked(of_config.check)?;
        let choice = choose_schedule(schedule, &sessions, first)?;
        let Schedule { algorithm, snapshots, .. } = choice.schedule;
        log::info!("{}: {snapshots} snapshots, as other ranks have them", algorithm.name());
        Ok(choice)
    }

    /// Returns the next action; `here` is where the session is that asks. The schedule stays before the
    /// action unless the action `is_taken`.
    #[inline(always)]
    fn next(&mut self, here: Option<Here>, is_taken: bool) -> Result<Tick> {
        here.map_or(Ok(()), |here| self.check(here))?;
        let actions = self.actions()?;
        let next = if is_taken { actions.next() } else { actions.peek() };
        let Some((action, end)) = next else {
            return fail!(State, "the sweep has terminated: only setup is valid now");
        };
        action.check_memory().inspect_err(|_| actions.put_back((action, end)))?;
        let it = self.current.map_or(0, |tick| tick.it + 1);
        Ok(Tick { sweep: self.sweep, it, step: self.step, action, end })
    }

    /// Returns the actions of a shot as the application gets them.
    fn all_actions(&mut self) -> Result<Ranges> {
        let (join, is_ended) = (self.config.schedule.range_actions, self.ended.is_some());
        let schedule = &self.decide()?.schedule;
        Ok(actions_of(schedule, join && !is_ended).joined_in_reverse(join))
    }

    /// Returns the actions of this shot that are still to come.
    fn actions(&mut self) -> Result<&mut Ranges> {
        if self.actions.is_none() {
            self.actions = Some(self.all_actions()?);
        }
        self.actions.as_mut().map_or_else(no_schedule, Ok)
    }

    fn decide(&mut self) -> Result<&Choice> {
        if self.decided.is_none() {
            self.decided = Some(decide(&self.config, self.steps, &self.sessions)?);
        }
        self.choice().map_or_else(no_schedule, Ok)
    }
}

fn no_schedule<T>() -> Result<T> {
    fail!(State, "no schedule")
}

/// The FORWARDs of an endless schedule are not joined to ranges, since its forward phase may end after
/// any step.
fn actions_of(schedule: &Schedule, join: bool) -> Ranges {
    schedule.ranges(join && schedule.steps > 0)
}

/// The choice for a shot whose forward phase has ended after so many time steps, and maybe after the SAVE
/// of its last state.
fn ended_after(choice: &Choice, (steps, after_save): (u32, bool)) -> Result<Choice> {
    let schedule = Schedule::online(steps, choice.schedule.snapshots, after_save)?;
    schedule.check_length()?;
    validate_if_asked(&schedule, false)?;
    let alternative = choice.alternative;
    Ok(Choice { alternative, schedule, plans: Vec::new(), predicted: None })
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
