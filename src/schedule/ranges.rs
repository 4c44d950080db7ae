//! The actions as the application gets them: macro-steps as time steps, and consecutive FORWARD
//! actions joined into one for applications that compute several time steps in one call.

use super::{flags, Action, Actions, Kind, MacroSteps};
use std::iter::Peekable;

/// The actions of a schedule, each with the last time step that the action covers: its own time
/// step, or the end of a range of FORWARD actions, or the last step of the macro-step that a
/// BACKWARD action reverses.
#[derive(Clone, Debug)]
pub struct Ranges {
    actions: Peekable<Actions>,
    macro_steps: MacroSteps,
    join: bool,
    /// Whether FORWARD actions are joined from the first BACKWARD on.
    join_later: bool,
    /// The rest of a macro-step whose first FORWARD actions have been returned: the next one, and
    /// the time step of the last one.
    rest: Option<(Action, u32)>,
    /// The next action, if ranges are joined and the action was looked at.
    ahead: Option<(Action, u32)>,
}

impl Ranges {
    /// Joins consecutive FORWARD actions if `join`. The flag RECOMPUTE holds for all steps of a
    /// range: a range ends where the flag changes. The flag NEXT_IS_SAVE holds for the last state
    /// of a range. `actions` are those of a schedule for `macro_steps`: state i of the schedule is
    /// the state at which macro-step i begins.
    pub fn new(actions: Actions, macro_steps: MacroSteps, join: bool) -> Self {
        let actions = actions.peekable();
        Ranges { actions, macro_steps, join, join_later: false, rest: None, ahead: None }
    }

    /// Joins consecutive FORWARD actions from the first BACKWARD on, if `join`: of a forward phase whose
    /// end was not known, the application got every FORWARD by itself.
    pub fn joined_in_reverse(self, join: bool) -> Self {
        Ranges { join_later: join, ..self }
    }

    /// The next action and the last time step of its range. The action stays the next one.
    pub fn peek(&mut self) -> Option<(Action, u32)> {
        self.ahead = self.next();
        self.ahead
    }

    /// Makes an action that was taken the next one again.
    pub fn put_back(&mut self, next: (Action, u32)) {
        self.ahead = Some(next);
    }

    /// Takes the next action of the schedule, or of the macro-step that was begun.
    #[inline]
    fn take(&mut self) -> Option<(Action, u32)> {
        if let Some((step, last)) = self.rest {
            self.rest = None;
            return Some(self.first_of(step, last));
        }
        let next = self.actions.next()?;
        let (mut action, mut end) = self.in_time_steps(next);
        self.join |= self.join_later && action.kind == Kind::Backward;
        if action.kind != Kind::Forward {
            return Some((action, end));
        }
        if !self.join {
            return Some(self.first_of(action, end));
        }
        while let Some(next) = self
            .actions
            .next_if(|next| next.kind == Kind::Forward && recompute(*next) == recompute(action))
        {
            let (step, last) = self.in_time_steps(next);
            action.flags |= step.flags;
            end = last;
        }
        Some((action, end))
    }

    /// Returns the first of the FORWARD actions from `action` to time step `last`, and keeps the
    /// others for later.
    #[inline]
    fn first_of(&mut self, action: Action, last: u32) -> (Action, u32) {
        if action.ts == last {
            return (action, last);
        }
        self.rest = Some((Action { ts: action.ts + 1, ..action }, last));
        // The state that is saved is the one at the end of the macro-step.
        (Action { flags: action.flags & !flags::NEXT_IS_SAVE, ..action }, action.ts)
    }

    /// Returns an action of the schedule with the time steps that it stands for.
    #[inline]
    fn in_time_steps(&self, action: Action) -> (Action, u32) {
        if self.macro_steps.every() == 1 {
            return (action, action.ts);
        }
        let (ts, end) = match action.kind {
            Kind::Forward => {
                let steps = self.macro_steps.of(action.ts.saturating_sub(1));
                (steps.start + 1, steps.end)
            }
            Kind::Backward => {
                let steps = self.macro_steps.of(action.ts);
                (steps.start, steps.end.saturating_sub(1))
            }
            Kind::Save | Kind::Restore => {
                let ts = self.macro_steps.of(action.ts).start;
                (ts, ts)
            }
            Kind::Terminate | Kind::Error => (action.ts, action.ts),
        };
        (Action { ts, ..action }, end)
    }
}

impl Iterator for Ranges {
    type Item = (Action, u32);

    #[inline]
    fn next(&mut self) -> Option<(Action, u32)> {
        self.ahead.take().or_else(|| self.take())
    }
}

fn recompute(action: Action) -> bool {
    action.flags & flags::RECOMPUTE != 0
}
