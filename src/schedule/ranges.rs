//! Range actions: FORWARDs in a row as one, for applications that take several time steps in one
//! call.

use super::{flags, Action, Actions, Kind};
use std::iter::Peekable;

/// The actions of a schedule, each with the last time step that it stands for: its own, or the end
/// of a range of FORWARDs.
#[derive(Clone, Debug)]
pub struct Ranges {
    actions: Peekable<Actions>,
    join: bool,
    /// Where FORWARDs are joined, the next action if it was looked at.
    ahead: Option<(Action, u32)>,
}

impl Ranges {
    /// Joins FORWARDs between which nothing else comes, if `join`. RECOMPUTE holds for all steps of
    /// a range, which ends where that changes; NEXT_IS_SAVE for its last state.
    pub fn new(actions: Actions, join: bool) -> Self {
        Ranges { actions: actions.peekable(), join, ahead: None }
    }

    /// The next action and the last step of its range; it stays the next one.
    pub fn peek(&mut self) -> Option<(Action, u32)> {
        if !self.join {
            return self.actions.peek().map(|&action| (action, action.ts));
        }
        if self.ahead.is_none() {
            self.ahead = self.next_joined();
        }
        self.ahead
    }

    /// What the next action does.
    pub fn peek_kind(&mut self) -> Option<Kind> {
        self.ahead
            .map(|(action, _)| action.kind)
            .or_else(|| self.actions.peek().map(|action| action.kind))
    }

    /// The next action, if FORWARDs are joined.
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
