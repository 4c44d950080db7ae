//! Schedules: the actions of an adjoint code, in order, with which the code visits n states in
//! reverse while few of them are stored.
//!
//! The states are u(0), ..., u(n). `FORWARD ts` computes u(ts) from u(ts-1). `SAVE ts` stores the
//! live state u(ts). `RESTORE ts` makes u(ts) live again. `BACKWARD ts` is the adjoint of the step
//! ts -> ts+1 and needs u(ts) live. A schedule has BACKWARD for n-1, ..., 0, once each. No FORWARD
//! computes u(n). A schedule of k reverse sweeps goes on after TERMINATE: k times it has BACKWARD for
//! n-1, ..., 0, and TERMINATE, and every sweep but the first begins with a RESTORE.
//!
//! With macro-steps of k time steps, state i of the schedule is u(ik), and its steps are
//! macro-steps; [`Ranges`] has the actions in time steps.
//!
//! A schedule knows neither sizes nor devices. Every algorithm returns one action per call in O(1)
//! time, with O(snapshots) memory.

mod action;
mod actions;
mod checked;
mod intervals;
mod macro_steps;
mod online;
mod priced;
mod ranges;
mod records;
mod revolve;
mod terms;
pub mod trace;
mod transfers;
mod tree;
mod validate;

use crate::error::{fail, Result};
use crate::named::named;
use actions::Source;
use intervals::{Intervals, Sweep};
use online::{Ended, Online, Phases};
use std::sync::Arc;
use trace::Replay;

pub use action::{flags, Action, Kind};
pub use actions::Actions;
pub use checked::MOST_CHECKS;
pub use macro_steps::MacroSteps;
pub use online::{Rule, Saving};
pub use priced::{Priced, Prices};
pub use ranges::Ranges;
pub use records::Records;
pub use revolve::{adjust, beta, forward_steps, writes};
pub use terms::{mixed, Terms};
pub use trace::Trace;
pub use transfers::Transfers;
pub use tree::Tree;
pub use validate::{validate, validate_ranges, validate_schedule, Summary};

named! {
    /// The algorithm of a schedule; the constructors of [`Schedule`] describe them. The values and the
    /// names are those of the configuration key `checkpointing_algorithm`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[allow(missing_docs)]
    #[repr(i32)]
    pub enum Algorithm {
        Trace = 0 => "trace",
        Revolve = 1 => "revolve",
        Uniform = 2 => "uniform",
        Zcut = 3 => "zcut",
        TwoLevel = 5 => "two-level",
        StoreAll = 6 => "store-all",
        Hrevolve = 8 => "hrevolve",
        Online = 9 => "online",
    }
}

/// A schedule with all its parameters: plain data, from which the actions can be generated any
/// number of times.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Number of steps: the time steps n, or the macro-steps that they form; 0: the forward phase goes
    /// on without end (`Schedule::online_open`).
    pub steps: u32,
    /// The most snapshots that are stored at a time.
    pub snapshots: u32,
    /// States of a chunk or interval; 0 if the algorithm has none.
    pub chunk: u32,
    macro_steps: MacroSteps,
    /// Number of reverse sweeps over the states, at least 1.
    sweeps: u32,
    form: Form,
}

#[derive(Clone, Debug)]
enum Form {
    Intervals(Intervals),
    Online(Online),
    Trace(Arc<Trace>),
}

/// The most time steps: more do not fit the 32-bit `ts` of the C interface.
pub const MAX_STEPS: u32 = i32::MAX as u32;

/// Forward steps of the longest schedule that can be planned; planning such a schedule takes about
/// half a minute on one core.
pub const MOST_FORWARD_STEPS: u64 = 1 << 30;

/// Forward steps from which planning takes more than a few seconds.
const MANY_FORWARD_STEPS: u64 = 100_000_000;

/// Returns a valid number of time steps, or an error.
pub fn check_steps(steps: i64) -> Result<u32> {
    match u32::try_from(steps) {
        Ok(valid) if (1..=MAX_STEPS).contains(&valid) => Ok(valid),
        _ => fail!(Argument, "steps = {steps}: give 1 to {MAX_STEPS} time steps"),
    }
}

fn check(steps: u32, snapshots: u32) -> Result<()> {
    check_steps(steps as i64)?;
    if snapshots == 0 {
        return fail!(
            Config,
            "checkpointing_snaps = 0: this algorithm needs the number of snapshots, at least 1"
        );
    }
    Ok(())
}

impl Schedule {
    fn of(algorithm: Algorithm, snapshots: u32, chunk: u32, intervals: Intervals) -> Self {
        Self::with(algorithm, intervals.steps, snapshots, chunk, Form::Intervals(intervals))
    }

    fn with(algorithm: Algorithm, steps: u32, snapshots: u32, chunk: u32, form: Form) -> Self {
        let macro_steps = MacroSteps::new(1, steps);
        Schedule { algorithm, steps, snapshots, chunk, macro_steps, sweeps: 1, form }
    }

    /// Revolve with `snapshots` slots, the slot of the initial state included.
    pub fn revolve(steps: u32, snapshots: u32) -> Result<Self> {
        check(steps, snapshots)?;
        Ok(Self::of(Algorithm::Revolve, snapshots, 0, Intervals::whole(steps, snapshots)))
    }

    /// Chooses, among the schedules with as few forward steps, one that moves least or nearly least
    /// through a device cache of `cache` slots. This schedule may save a few snapshots more, but
    /// more of them have their last use in the cache. `cache` = 0 chooses the schedule with the
    /// fewest saves. A trace and an online schedule stay as they are.
    pub fn through(self, cache: u32) -> Self {
        let form = match self.form {
            Form::Intervals(intervals) => Form::Intervals(Intervals { cache, ..intervals }),
            other => other,
        };
        Schedule { form, ..self }
    }

    /// Slots of the device cache for which the schedule was chosen; 0: no cache.
    pub fn cache(&self) -> u32 {
        self.intervals().map_or(0, |intervals| intervals.cache)
    }

    /// Store-all: saves every state but the last one, once each.
    pub fn store_all(steps: u32) -> Result<Self> {
        check(steps, 1)?;
        let snapshots = (steps - 1).max(1);
        Ok(Self::of(Algorithm::StoreAll, snapshots, 0, Intervals::whole(steps, snapshots)))
    }

    /// Uniform: even intervals. Some of the `snapshots` slots hold the starts of the intervals; all
    /// slots that are free at a time reverse the current interval by Revolve. The number of
    /// intervals is the one with the fewest forward steps.
    pub fn uniform(steps: u32, snapshots: u32) -> Result<Self> {
        check(steps, snapshots)?;
        let intervals = Intervals::fewest_steps(steps, snapshots, u32::MAX, 1);
        Ok(Self::of(Algorithm::Uniform, snapshots, intervals.longest(), intervals))
    }

    /// Uniform as the authors of GPUZIP 2.x published it, a baseline for comparison: `snapshots`
    /// checkpoints at
    /// round(i n / snapshots).
    /// Every BACKWARD restores the last checkpoint and computes forward again, which is quadratic
    /// in the length of an interval.
    pub fn uniform_published(steps: u32, snapshots: u32) -> Result<Self> {
        check(steps, snapshots)?;
        let intervals = Intervals::even(steps, snapshots.min(steps), snapshots, 1);
        Ok(Self::of(Algorithm::Uniform, snapshots, intervals.longest(), intervals))
    }

    /// zCut with chunks of `chunk` states. `chunk` = 0 takes the smallest m with
    /// ceil(n/m) + m <= snapshots.
    /// The first sweep saves the start of each chunk. Then, from the last chunk to the first, every
    /// state of a chunk is saved and reversed, except the chunk's last state, which is reversed
    /// while it is live. K chunks, the last one of m_last states, take
    /// 2n - m_last - K forward steps and n - K saves.
    /// `snapshots` = 0 takes as many snapshots as the chunks need. With fewer snapshots, Revolve
    /// reverses each chunk with the slots that there are.
    pub fn zcut(steps: u32, snapshots: u32, chunk: u32) -> Result<Self> {
        check(steps, 1)?;
        let need = |m: u32| steps.div_ceil(m) as u64 + m as u64;
        let chunk = match (chunk, snapshots) {
            (0, 0) => (steps as f64).sqrt().ceil() as u32,
            (0, s) => {
                let root = (steps as f64).sqrt().ceil() as u32;
                (1..=root)
                    .find(|&m| need(m) <= s as u64)
                    .unwrap_or_else(|| Intervals::fewest_steps(steps, s, u32::MAX, 1).longest())
            }
            (m, _) => m.min(steps),
        };
        let snapshots = if snapshots == 0 {
            need(chunk).min((steps - 1).max(1) as u64) as u32
        } else {
            snapshots
        };
        let intervals = Intervals::of_length(steps, chunk, snapshots, u32::MAX)?;
        Ok(Self::of(Algorithm::Zcut, snapshots, chunk, intervals))
    }

    /// Two-level: checkpoints every `chunk` states, and Revolve inside each interval with at most
    /// `inner` slots. `inner` includes the slot of the interval's checkpoint, and is lowered to the
    /// slots that the checkpoints leave of `snapshots`. `chunk` = 0 takes the interval length with
    /// the fewest forward steps; `inner` = 0 takes all slots that are left.
    pub fn two_level(steps: u32, snapshots: u32, chunk: u32, inner: u32) -> Result<Self> {
        check(steps, snapshots)?;
        let intervals = if chunk == 0 {
            Intervals::fewest_steps_fixed(steps, snapshots, inner)
        } else {
            let chunk = chunk.min(steps);
            let left = snapshots.saturating_sub(steps.div_ceil(chunk) - 1);
            let inner = if inner == 0 { left } else { inner.min(left) }.max(1);
            Intervals::of_length(steps, chunk, snapshots, inner)?
        };
        Ok(Self::of(Algorithm::TwoLevel, snapshots, intervals.longest(), intervals))
    }

    /// Nested: intervals of `chunk` states. Revolve over the intervals, each of which counts as one
    /// state, stores at most `snapshots - inner` starts of intervals at a time, and Revolve with at
    /// most `inner` slots reverses each interval. `inner` includes the slot of the interval's start
    /// and leaves at least one slot for starts. `chunk` = 0 takes the interval length with the fewest
    /// forward steps; `inner` = 0 takes half of the slots.
    pub fn hrevolve(steps: u32, snapshots: u32, chunk: u32, inner: u32) -> Result<Self> {
        check(steps, snapshots)?;
        if chunk == 1 {
            return fail!(
                Config,
                "schedule_chunk = 1: an interval of a nested schedule has at least 2 states; for one state take revolve"
            );
        }
        let inner = if inner == 0 { snapshots / 2 } else { inner.min(snapshots - 1) };
        let intervals = match (inner, chunk) {
            // One slot is for the only interval.
            (0, _) => Intervals::nested(steps, steps, 1, 1),
            (_, 0) => Intervals::fewest_steps_nested(steps, snapshots - inner, inner),
            _ => Intervals::nested(steps, chunk.min(steps), snapshots - inner, inner),
        };
        Ok(Self::of(Algorithm::Hrevolve, intervals.snapshots, intervals.longest(), intervals))
    }

    /// Online with `snapshots` slots: the forward phase goes on without end. `steps` is 0.
    pub fn online_open(snapshots: u32) -> Result<Self> {
        check(1, snapshots)?;
        let online = Online { slots: snapshots, after_save: false, ended: None };
        Ok(Self::with(Algorithm::Online, 0, snapshots, 0, Form::Online(online)))
    }

    /// Online, as it is if the forward phase ends after the FORWARD to u(n-1), n = `steps`. With
    /// `after_save`, it ends after the SAVE of u(n-1), if the forward phase saves this state: the
    /// snapshot is dropped, and its slot was wasted.
    pub fn online(steps: u32, snapshots: u32, after_save: bool) -> Result<Self> {
        check(steps, snapshots)?;
        // No schedule takes fewer forward steps than Revolve, and the rule sees all states.
        Self::revolve(steps, snapshots)?
            .check_length()
            .map_err(|e| e.within("online takes no fewer steps than revolve"))?;
        let ended = Some(Arc::new(Ended::after(steps - 1, snapshots, after_save)?));
        let online = Online { slots: snapshots, after_save, ended };
        Ok(Self::with(Algorithm::Online, steps, snapshots, 0, Form::Online(online)))
    }

    /// Whether the forward phase of an online schedule ends after the SAVE of its last state, if the
    /// forward phase saves this state.
    pub fn ends_after_save(&self) -> bool {
        matches!(&self.form, Form::Online(online) if online.after_save)
    }

    /// A recorded schedule.
    pub fn trace(trace: Arc<Trace>) -> Self {
        let (sweeps, Summary { backward_steps, max_live, .. }) = (trace.sweeps, trace.summary);
        let steps = backward_steps as u32 / sweeps;
        let of_one = Self::with(Algorithm::Trace, steps, max_live, 0, Form::Trace(trace));
        Schedule { sweeps, ..of_one }
    }

    /// The cheapest nested schedule of these prices with at most `cache` slots on the device and `host`
    /// slots on the host, recorded; `None` if there is none.
    pub fn priced(priced: &Priced, cache: u32, host: u32) -> Result<Option<Self>> {
        let actions = priced.actions(cache, host)?;
        actions.map(|actions| Self::nested(Trace::new(actions, None)?)).transpose()
    }

    /// The nested schedule of a tree, recorded.
    pub fn of_tree(tree: Tree) -> Result<Self> {
        Self::nested(Trace { tree: Some(tree), ..Trace::new(tree.actions()?, None)? })
    }

    /// The nested schedule that a trace records.
    fn nested(trace: Trace) -> Result<Self> {
        Ok(Schedule { algorithm: Algorithm::Hrevolve, ..Self::trace(Arc::new(trace)) })
    }

    /// Lets each step of the schedule stand for one of `macro_steps`; both have the same number.
    pub fn in_macro_steps(self, macro_steps: MacroSteps) -> Self {
        debug_assert_eq!(self.steps, macro_steps.count());
        Schedule { macro_steps, ..self }
    }

    /// The same algorithm with the same slots for `sweeps` reverse sweeps over one forward phase. The
    /// sweeps but the last leave snapshots for the next one: the starts of intervals if all of them are
    /// stored, and else u(0), from which the next sweep does what the first one did.
    ///
    /// Revolve and Uniform take even intervals whose number gives the fewest forward steps of all sweeps
    /// together. Store-all saves the last state, too, since a sweep begins with it. A trace of several
    /// sweeps is for as many.
    pub fn in_sweeps(self, sweeps: u32) -> Result<Self> {
        if let Form::Trace(trace) = &self.form {
            let recorded = trace.sweeps;
            if recorded > 1 && recorded != sweeps {
                return fail!(Config, "sweeps = {sweeps}: the trace has {recorded} reverse sweeps; set sweeps to {recorded}, or give a trace of one");
            }
            if recorded > 1 {
                return Ok(self);
            }
        }
        if sweeps <= 1 {
            return Ok(Schedule { sweeps: 1, ..self });
        }
        let Schedule { algorithm, steps, snapshots, chunk, macro_steps, form, .. } = self;
        let (mut snapshots, mut chunk) = (snapshots, chunk);
        let form = match form {
            Form::Online(_) => return fail!(Unsupported, "sweeps = {sweeps} with checkpointing_algorithm = 9 (online): its snapshots are chosen for one reverse sweep; give the number of steps and another algorithm"),
            // One state: only here does no action save u(0).
            Form::Trace(_) if steps == 1 => {
                return Schedule { macro_steps, ..Self::revolve(1, 1)? }.in_sweeps(sweeps);
            }
            Form::Trace(trace) => Form::Trace(trace),
            Form::Intervals(_) if algorithm == Algorithm::StoreAll => {
                snapshots = steps;
                Form::Intervals(Intervals::of_length(steps, 1, steps, 1)?)
            }
            Form::Intervals(intervals) => {
                let is_free = intervals.spacing.is_none() && intervals.inner == u32::MAX;
                let cache = intervals.cache;
                let intervals = match is_free {
                    true => Intervals::fewest_steps(steps, snapshots, u32::MAX, sweeps),
                    false => intervals,
                };
                let count = intervals.count;
                if intervals.starts == u32::MAX && count > snapshots {
                    return fail!(Config, "sweeps = {sweeps} with checkpointing_snaps = {snapshots}: the starts of {count} chunks stay stored; raise checkpointing_snaps to {count} or schedule_chunk");
                }
                if algorithm == Algorithm::Uniform {
                    chunk = intervals.longest();
                }
                Form::Intervals(Intervals { cache, ..intervals })
            }
        };
        Ok(Schedule { algorithm, steps, snapshots, chunk, macro_steps, sweeps, form })
    }

    /// Number of reverse sweeps.
    pub fn sweeps(&self) -> u32 {
        self.sweeps
    }

    /// Number of RESTOREs: of every state but the one that is live when a reverse sweep begins, and of
    /// the state with which a further sweep begins.
    pub fn restores(&self) -> u64 {
        u64::from(self.sweeps) * u64::from(self.steps) - 1
    }

    /// The time steps that the steps of the schedule stand for.
    pub fn macro_steps(&self) -> MacroSteps {
        self.macro_steps
    }

    /// Generates the actions as the application gets them: in time steps, and with consecutive
    /// FORWARDs joined if `join`.
    pub fn ranges(&self, join: bool) -> Ranges {
        Ranges::new(self.actions(), self.macro_steps, join)
    }

    /// Whether the actions are recorded, and not generated from the parameters.
    pub fn is_recorded(&self) -> bool {
        matches!(self.form, Form::Trace(_))
    }

    /// Whether the schedule reverses intervals one after the other, and is neither recorded nor online.
    pub fn is_of_intervals(&self) -> bool {
        self.intervals().is_some()
    }

    fn intervals(&self) -> Option<&Intervals> {
        match &self.form {
            Form::Intervals(intervals) => Some(intervals),
            Form::Online(_) | Form::Trace(_) => None,
        }
    }

    /// The tree that the schedule was made from, if it was.
    pub fn tree(&self) -> Option<Tree> {
        match &self.form {
            Form::Trace(trace) => trace.tree,
            Form::Intervals(_) | Form::Online(_) => None,
        }
    }

    /// Whether `terms` describe the schedule.
    pub fn has_terms(&self) -> bool {
        match &self.form {
            Form::Trace(trace) => trace.tree.is_some() || trace.of.is_some(),
            Form::Intervals(_) | Form::Online(_) => true,
        }
    }

    /// Generates the actions from the first one to TERMINATE.
    pub fn actions(&self) -> Actions {
        let source = match &self.form {
            Form::Intervals(intervals) => Source::Sweep(Sweep::new(intervals.clone(), self.sweeps)),
            Form::Online(online) => Source::Online(Box::new(Phases::new(online, self.steps))),
            Form::Trace(trace) => Source::Trace(Replay::new(trace.clone(), self.sweeps)),
        };
        Actions::new(source)
    }

    /// Number of SAVE and RESTORE actions, by a formula where one exists.
    pub fn accesses(&self) -> Result<u64> {
        match &self.form {
            Form::Intervals(intervals) => Ok(intervals.saves(self.sweeps)? + self.restores()),
            Form::Online(Online { slots, ended: Some(ended), .. }) => {
                let saves = ended
                    .sum(self.steps - 1, *slots, |n, s| revolve::writes(n, s).saturating_sub(1));
                Ok(ended.saves + saves + self.steps as u64 - 1)
            }
            Form::Online(_) => Ok(0),
            Form::Trace(trace) => {
                // A repetition restores u(0) where the first one saves it.
                let recorded = trace.summary.saves + trace.summary.restores;
                Ok(recorded * u64::from(self.sweeps / trace.sweeps))
            }
        }
    }

    /// The most slots for one interval, the slot of its start included: for two-level, the number
    /// that the schedule was made with; else the number that its longest interval can use.
    pub fn inner(&self) -> u32 {
        let of = |intervals: &Intervals| intervals.slots(0).min(intervals.longest().max(2) - 1);
        self.intervals().map_or(0, of)
    }

    /// Whether the number of slots inside an interval is a parameter of the algorithm.
    pub fn has_inner_slots(&self) -> bool {
        matches!(self.algorithm, Algorithm::TwoLevel | Algorithm::Hrevolve)
    }

    /// Numbers of transfers of the best plan (clairvoyant policy) through a device cache of `cache`
    /// slots, without making the plan. If more than `enough` snapshots are fetched, the numbers are
    /// lower bounds, and `h2d` is above `enough`. `None` for a trace and for several sweeps, whose
    /// snapshots may form no stack, and for an online schedule, whose transfers do not depend on what
    /// follows.
    pub fn transfers(&self, cache: u32, enough: u64) -> Result<Option<Transfers>> {
        let Some(intervals) = self.intervals().filter(|_| self.sweeps == 1) else {
            return Ok(None);
        };
        if cache == 0 {
            let restores = self.restores();
            return Ok(Some(Transfers { h2d: restores, d2h: self.accesses()? - restores }));
        }
        transfers::of_intervals(intervals, cache, enough).map(Some)
    }

    /// What the SAVEs store if each state is two records, its time level and the previous one; `None` for
    /// a trace, for an online schedule and for several sweeps, whose snapshots may form no stack.
    pub fn records(&self) -> Result<Option<Records>> {
        let intervals = self.intervals().filter(|_| self.sweeps == 1);
        intervals.map(records::of_intervals).transpose()
    }

    /// Forward steps, and the states that are reversed by the reverse sweeps after the first one.
    fn work(&self) -> u64 {
        let again = u64::from(self.sweeps - 1) * u64::from(self.steps);
        self.forward_steps().saturating_add(again)
    }

    /// Fails for a schedule with more than [`MOST_FORWARD_STEPS`] forward steps, or states of further
    /// sweeps: planning and running it would take too long.
    pub fn check_length(&self) -> Result<()> {
        if self.work() <= MOST_FORWARD_STEPS {
            return Ok(());
        }
        let length = self.length();
        fail!(Budget, "{length}, and a schedule may have {MOST_FORWARD_STEPS}: raise checkpointing_snaps or the budgets")
    }

    /// A text that says why planning takes long; `None` if planning takes seconds at most.
    pub fn why_it_takes_long(&self) -> Option<String> {
        (self.work() > MANY_FORWARD_STEPS).then(|| {
            self.length()
                + ", and planning walks through all of them: seconds for every 10^8; with more snapshots (checkpointing_snaps or the budgets) \
                 there are fewer steps"
        })
    }

    fn length(&self) -> String {
        let (name, forward) = (self.algorithm.name(), self.work());
        let (snapshots, steps) = (self.snapshots, self.steps);
        let sweeps = match self.sweeps {
            1 => String::new(),
            sweeps => format!(" in {sweeps} sweeps, with the steps that are reversed again,"),
        };
        format!("{name} with {snapshots} snapshots takes{sweeps} {forward} forward steps to reverse {steps} time steps")
    }

    /// Number of forward steps, by a formula where one exists.
    pub fn forward_steps(&self) -> u64 {
        match &self.form {
            Form::Intervals(intervals) => intervals.forward_steps(self.sweeps),
            Form::Online(Online { slots, ended: Some(ended), .. }) => {
                let last = self.steps - 1;
                u64::from(last) + ended.sum(last, *slots, revolve::forward_steps)
            }
            Form::Online(_) => 0,
            Form::Trace(trace) => {
                trace.summary.forward_steps * u64::from(self.sweeps / trace.sweeps)
            }
        }
    }
}

#[cfg(test)]
mod sweeps_tests;
#[cfg(test)]
mod tests;
