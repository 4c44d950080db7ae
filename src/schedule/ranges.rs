//! Range actions: consecutive FORWARD actions joined into one, for applications that compute
//! several time steps in one call.

use super::{flags, Action, Actions, Kind};
use std::iter::Peekable;

/// The actions of a schedule, each with the last time step that the action covers: its own time
/// step, or the end of a range of FORWARD actions.
#[derive(Clone, Debug)]
pub struct Ranges {
    actions: Peekable<Actions>,
    join: bool,
    /// The next action, if ranges are joined and the action was looked at.
    ahead: Option<(Action, u32)>,
}

impl Ranges {
    /// Joins consecutive FORWARD actions if `join`. The flag RECOMPUTE holds for all steps of a
    /// range: a range ends where the flag changes. The flag NEXT_IS_SAVE holds for the last state
    /// of a range.
    pub fn new(actions: Actions, join: bool) -> Self {
        Ranges { actions: actions.peekable(), join, ahead: None }
    }

    /// The next action and the last time step of its range. The action stays the next one.
    pub fn peek(&mut self) -> Option<(Action, u32)> {
        if !self.join {
            return self.actions.peek().map(|&action| (action, action.ts));
        }
        if self.ahead.is_none() {
            self.ahead = self.next_joined();
        }
        self.ahead
    }

    /// The kind of the next action, which stays the next one.
    pub fn peek_kind(&mut self) -> Option<Kind> {
        self.ahead
            .map(|(action, _)| action.kind)
            .or_else(|| self.actions.peek().map(|action| action.kind))
    }

    /// Returns the next action, with FORWARD actions joined.
    fn next_joined(&mut self) -> Option<(Action, u32)> {
        if let Some(ahead) = self.ahead.take() {
            return Some(ahead);
        }
        let mut action = self.actions.next()?;
        let mut end = action.ts;
        while action.kind == Kind::Forward {
            let Some(step) = self.actions.next_if(|next| {
                next.kind == Kind::Forward && recompute(*next) == recompute(action)
            }) else {
                break;
            };
            end = step.ts;
            action.flags |= step.flags;
        }
        Some((action, end))
    }
}

impl Iterator for Ranges {
    type Item = (Action, u32);

    #[inline]
    fn next(&mut self) -> Option<(Action, u32)> {
        if self.join {
            return self.next_joined();
        }
        self.actions.next().map(|action| (action, action.ts))
    }
}

fn recompute(action: Action) -> bool {
    action.flags & flags::RECOMPUTE != 0
}
