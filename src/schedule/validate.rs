//! The validator: replays a schedule against a model application and proves that the schedule
//! reverses every state, each one while it is live.

use super::{flags, Action, Algorithm, Kind, MacroSteps, Schedule};
use crate::error::{fail, Result};
use crate::fallible_vec::filled;

/// Counts of a schedule's actions and snapshots, as `gpuzip_summary_t` of the C interface describes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Summary {
    pub forward_steps: u64,
    pub saves: u64,
    pub restores: u64,
    pub backward_steps: u64,
    /// The most snapshots that are stored at a time. A snapshot is stored from its SAVE to its last
    /// RESTORE.
    pub max_live: u32,
    pub actions: u64,
}

/// The live state of an application that begins a further reverse sweep.
const NO_STATE: u32 = u32::MAX;

/// A model application: which state is live, which states are stored, and which are reversed.
struct Model {
    live: u32,
    /// Last time step of the next BACKWARD, plus one.
    backward: u32,
    macro_steps: MacroSteps,
    /// Reverse sweeps that are still to end.
    sweeps: u32,
    stored: Vec<bool>,
    count: u32,
    furthest: u32,
    /// BACKWARD steps of this reverse sweep.
    reversed: u64,
    /// The action before, and the last time step that it covers.
    previous: Option<(Action, u32)>,
    summary: Summary,
}

/// Replays `actions` for `steps` time steps and returns their counts, or the first broken rule with
/// its action. The rules: every FORWARD starts from the live state; every RESTORE names a stored
/// snapshot; at most `limit` snapshots are stored; every BACKWARD has its state live; all n states
/// are reversed, in order; and the flags are true.
pub fn validate(
    actions: impl IntoIterator<Item = Action>,
    steps: u32,
    limit: Option<u32>,
) -> Result<Summary> {
    let single = actions.into_iter().map(|action| (action, action.ts));
    validate_ranges(single, (MacroSteps::new(1, steps), 1), limit)
}

/// Replays actions of `sweeps` reverse sweeps as the application gets them, each with the last time
/// step that it covers, by the rules of `validate`. A further sweep has no state live until its first
/// RESTORE. Besides, every BACKWARD covers one whole macro-step, whose first state
/// is live, and what a flag of a range of FORWARDs says is true for every time step of the range.
pub fn validate_ranges(
    actions: impl IntoIterator<Item = (Action, u32)>,
    (macro_steps, sweeps): (MacroSteps, u32),
    limit: Option<u32>,
) -> Result<Summary> {
    let mut model = Model::new(macro_steps, sweeps)?;
    for (it, action) in actions.into_iter().enumerate() {
        model.step(it, action, None, limit)?;
    }
    model.end()
}

/// As [`validate_ranges`], for a schedule whose FORWARDs are joined if `join`. The snapshots of an
/// online schedule may be dropped without a RESTORE, which only the schedule itself knows; its
/// FORWARDs are validated one by one.
pub fn validate_schedule(schedule: &Schedule, join: bool) -> Result<Summary> {
    let (macro_steps, limit) = (schedule.macro_steps(), Some(schedule.snapshots));
    if schedule.algorithm != Algorithm::Online {
        return validate_ranges(schedule.ranges(join), (macro_steps, schedule.sweeps), limit);
    }
    let (mut model, mut actions) = (Model::new(macro_steps, 1)?, schedule.actions());
    let mut it = 0;
    while let Some(action) = actions.next() {
        model.step(it, (action, action.ts), actions.dropped(), limit)?;
        it += 1;
    }
    model.end()
}

impl Model {
    fn new(macro_steps: MacroSteps, sweeps: u32) -> Result<Self> {
        let steps = macro_steps.time_steps();
        Ok(Model {
            live: 0,
            backward: steps,
            macro_steps,
            sweeps,
            stored: filled(false, steps as usize)?,
            count: 0,
            furthest: 0,
            reversed: 0,
            previous: None,
            summary: Summary::default(),
        })
    }

    /// Applies action number `it`, with which the snapshot `dropped` is gone.
    fn step(
        &mut self,
        it: usize,
        (action, end): (Action, u32),
        dropped: Option<u32>,
        limit: Option<u32>,
    ) -> Result<()> {
        dropped
            .map_or(Ok(()), |ts| self.drop_snapshot(ts))
            .and_then(|()| self.apply(action, end, limit))
            .map_err(|e| e.within(format_args!("action {it}, {:?} {}", action.kind, action.ts)))
    }

    fn end(self) -> Result<Summary> {
        match self.previous {
            Some((Action { kind: Kind::Terminate, .. }, _)) if self.sweeps == 0 => Ok(self.summary),
            _ => fail!(Schedule, "the schedule ends without TERMINATE"),
        }
    }

    fn drop_snapshot(&mut self, ts: u32) -> Result<()> {
        match self.stored.get_mut(ts as usize) {
            Some(stored) if *stored => {
                *stored = false;
                self.count -= 1;
                Ok(())
            }
            _ => fail!(Schedule, "drops the snapshot of {ts}, which is not stored"),
        }
    }

    fn apply(&mut self, action: Action, end: u32, limit: Option<u32>) -> Result<()> {
        // The ERROR may come at any place, and breaks no rule of checkpointing.
        action.check_memory()?;
        let previous = self.previous.replace((action, end));
        match previous {
            Some((Action { kind: Kind::Terminate, .. }, _)) if self.sweeps == 0 => {
                return fail!(Schedule, "comes after TERMINATE")
            }
            Some((Action { kind: Kind::Forward, flags, .. }, last)) => {
                let saves = action.kind == Kind::Save && action.ts == last;
                if (flags & flags::NEXT_IS_SAVE != 0) != saves {
                    return fail!(Schedule, "NEXT_IS_SAVE of the FORWARD before it is wrong");
                }
            }
            _ => {}
        }
        self.summary.actions += 1;
        match action.kind {
            Kind::Forward => self.forward(action, end),
            Kind::Backward => self.reverse(action, end),
            _ if end != action.ts => {
                fail!(
                    Schedule,
                    "ends at {end} and begins at {}: only FORWARD and BACKWARD cover several steps; give \
                     both the same step",
                    action.ts
                )
            }
            Kind::Save => self.save(action, limit),
            Kind::Restore => self.restore(action),
            Kind::Terminate if self.backward > 0 => {
                fail!(Schedule, "state {} was never reversed", self.backward - 1)
            }
            Kind::Terminate if self.sweeps > 1 => {
                (self.live, self.backward) = (NO_STATE, self.macro_steps.time_steps());
                (self.sweeps, self.reversed) = (self.sweeps - 1, 0);
                Ok(())
            }
            Kind::Terminate if self.count > 0 => {
                fail!(Schedule, "{} snapshots were never freed by LAST_USE", self.count)
            }
            Kind::Terminate => {
                self.sweeps = 0;
                Ok(())
            }
            Kind::Error => Ok(()),
        }
    }

    fn forward(&mut self, action: Action, end: u32) -> Result<()> {
        if u64::from(action.ts) != u64::from(self.live) + 1
            || end < action.ts
            || end as usize >= self.stored.len()
        {
            let (live, steps) = (self.live, self.stored.len());
            return fail!(Schedule, "goes to {end}: the live state is {live} of {steps}");
        }
        let (first_is_known, last_is_known) = (action.ts <= self.furthest, end <= self.furthest);
        let recompute = action.flags & flags::RECOMPUTE != 0;
        if (recompute, recompute) != (first_is_known, last_is_known) {
            return fail!(
                Schedule,
                "goes to {end}: RECOMPUTE is wrong: steps up to {} were computed before",
                self.furthest
            );
        }
        self.summary.forward_steps += u64::from(end - action.ts) + 1;
        self.live = end;
        self.furthest = self.furthest.max(end);
        Ok(())
    }

    fn save(&mut self, action: Action, limit: Option<u32>) -> Result<()> {
        self.summary.saves += 1;
        if action.ts != self.live {
            return fail!(Schedule, "the live state is {}", self.live);
        }
        if action.flags & flags::LAST_USE != 0 {
            return Ok(());
        }
        if std::mem::replace(&mut self.stored[action.ts as usize], true) {
            return fail!(Schedule, "its snapshot is stored already");
        }
        self.count += 1;
        self.summary.max_live = self.summary.max_live.max(self.count);
        match limit {
            Some(limit) if self.count > limit => {
                fail!(Schedule, "{} snapshots are stored, {limit} are allowed", self.count)
            }
            _ => Ok(()),
        }
    }

    fn restore(&mut self, action: Action) -> Result<()> {
        self.summary.restores += 1;
        if !self.stored.get(action.ts as usize).is_some_and(|stored| *stored) {
            return fail!(Schedule, "no snapshot of it is stored");
        }
        self.live = action.ts;
        match action.flags & flags::LAST_USE {
            0 => Ok(()),
            _ => self.drop_snapshot(action.ts),
        }
    }

    fn reverse(&mut self, action: Action, end: u32) -> Result<()> {
        let first = self.reversed == 0;
        if action.ts != self.live {
            return fail!(Schedule, "the live state is {}", self.live);
        }
        if self.backward != end.saturating_add(1) {
            let next = self.backward.saturating_sub(1);
            return fail!(Schedule, "begins with step {end}: step {next} has to be reversed first");
        }
        let steps = self.macro_steps.of(action.ts / self.macro_steps.every());
        if steps != (action.ts..self.backward) {
            return fail!(
                Schedule,
                "begins with step {end}: the steps from {} down to {} are reversed together",
                steps.end.saturating_sub(1),
                steps.start
            );
        }
        if (action.flags & flags::FIRST_BACKWARD != 0) != first {
            return fail!(Schedule, "FIRST_BACKWARD is wrong");
        }
        self.reversed += u64::from(end - action.ts) + 1;
        self.summary.backward_steps += u64::from(end - action.ts) + 1;
        self.backward = action.ts;
        Ok(())
    }
}
