//! The validator: replays a schedule against a model application and proves that the schedule
//! reverses every state, each one while it is live.

use super::{flags, Action, Kind};
use crate::error::{fail, Result};
use crate::fallible_vec::filled;

/// Counts of a schedule's actions and snapshots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// FORWARD actions.
    pub forward_steps: u64,
    /// SAVE actions.
    pub saves: u64,
    /// RESTORE actions.
    pub restores: u64,
    /// BACKWARD actions.
    pub backward_steps: u64,
    /// The most snapshots that are stored at a time. A snapshot is stored from its SAVE to its last
    /// RESTORE.
    pub max_live: u32,
    /// All actions, TERMINATE included.
    pub actions: u64,
}

/// A model application: which state is live, which states are stored, and which are reversed.
struct Model {
    live: u32,
    /// Time step of the next BACKWARD, plus one.
    backward: u32,
    stored: Vec<bool>,
    count: u32,
    furthest: u32,
    previous: Option<Action>,
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
    let mut model = Model {
        live: 0,
        backward: steps,
        stored: filled(false, steps as usize)?,
        count: 0,
        furthest: 0,
        previous: None,
        summary: Summary::default(),
    };
    for (it, action) in actions.into_iter().enumerate() {
        model
            .apply(action, limit)
            .map_err(|e| e.within(format_args!("action {it}, {:?} {}", action.kind, action.ts)))?;
    }
    match model.previous {
        Some(Action { kind: Kind::Terminate, .. }) => Ok(model.summary),
        _ => fail!(Schedule, "the schedule ends without TERMINATE"),
    }
}

impl Model {
    fn apply(&mut self, action: Action, limit: Option<u32>) -> Result<()> {
        let previous = self.previous.replace(action);
        match previous {
            Some(Action { kind: Kind::Terminate, .. }) => {
                return fail!(Schedule, "comes after TERMINATE")
            }
            Some(Action { kind: Kind::Forward, ts, flags }) => {
                let saves = action.kind == Kind::Save && action.ts == ts;
                if (flags & flags::NEXT_IS_SAVE != 0) != saves {
                    return fail!(Schedule, "NEXT_IS_SAVE of the FORWARD before it is wrong");
                }
            }
            _ => {}
        }
        self.summary.actions += 1;
        match action.kind {
            Kind::Forward => self.forward(action),
            Kind::Save => self.save(action, limit),
            Kind::Restore => self.restore(action),
            Kind::Backward => self.reverse(action),
            Kind::Terminate if self.backward > 0 => {
                fail!(Schedule, "state {} was never reversed", self.backward - 1)
            }
            Kind::Terminate if self.count > 0 => {
                fail!(Schedule, "{} snapshots were never freed by LAST_USE", self.count)
            }
            Kind::Terminate => Ok(()),
            Kind::Error => {
                fail!(Memory, "there is no memory to go on with the schedule: take fewer snapshots")
            }
        }
    }

    fn forward(&mut self, action: Action) -> Result<()> {
        self.summary.forward_steps += 1;
        if action.ts != self.live + 1 || action.ts as usize >= self.stored.len() {
            return fail!(Schedule, "the live state is {} of {}", self.live, self.stored.len());
        }
        if (action.flags & flags::RECOMPUTE != 0) != (action.ts <= self.furthest) {
            return fail!(
                Schedule,
                "RECOMPUTE is wrong: steps up to {} were computed before",
                self.furthest
            );
        }
        self.live = action.ts;
        self.furthest = self.furthest.max(action.ts);
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
        match self.stored.get_mut(action.ts as usize) {
            Some(stored) if *stored => {
                if action.flags & flags::LAST_USE != 0 {
                    *stored = false;
                    self.count -= 1;
                }
                self.live = action.ts;
                Ok(())
            }
            _ => fail!(Schedule, "no snapshot of it is stored"),
        }
    }

    fn reverse(&mut self, action: Action) -> Result<()> {
        let first = self.summary.backward_steps == 0;
        self.summary.backward_steps += 1;
        if action.ts != self.live {
            return fail!(Schedule, "the live state is {}", self.live);
        }
        if action.ts + 1 != self.backward {
            return fail!(
                Schedule,
                "state {} has to be reversed first",
                self.backward.saturating_sub(1)
            );
        }
        if (action.flags & flags::FIRST_BACKWARD != 0) != first {
            return fail!(Schedule, "FIRST_BACKWARD is wrong");
        }
        self.backward = action.ts;
        Ok(())
    }
}
