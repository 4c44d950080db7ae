//! Refines the schedule of a small problem: single splits are changed as long as the predicted time
//! falls.
//!
//! A schedule that stores snapshots as a stack is a binary tree. A node is a range of states; its
//! upper child is the range above the first advance, its lower child the range below. A rotation of
//! the tree changes one split and leaves all other splits where they are, and rotations lead from any
//! tree to any other.

use super::search::{clearly_less, evaluate, Candidate};
use super::tier_spec::TierSpec;
use crate::error::Result;
use crate::fallible_vec;
use crate::schedule::{Action, Kind, Schedule};
use std::iter::Peekable;

/// A range of states.
#[derive(Clone)]
enum Range {
    One,
    /// The upper and the lower part.
    Split(Box<(Range, Range)>),
}

impl Range {
    fn split(upper: Range, lower: Range) -> Self {
        Range::Split(Box::new((upper, lower)))
    }

    /// Number of states.
    fn len(&self) -> u32 {
        match self {
            Range::One => 1,
            Range::Split(parts) => parts.0.len() + parts.1.len(),
        }
    }
}

/// Reads the actions that reverse u(base) and all states above, where u(base) is live.
/// Returns `None` if the snapshots form no stack.
fn parse(actions: &mut Peekable<impl Iterator<Item = Action>>, base: u32) -> Option<Range> {
    let mut uppers = Vec::new();
    actions.next_if(|next| next.kind == Kind::Save);
    loop {
        let action = actions.next()?;
        match action.kind {
            Kind::Backward if action.ts == base => break,
            Kind::Forward if action.ts == base + 1 => {}
            _ => return None,
        }
        let mut live = action.ts;
        while let Some(step) = actions.next_if(|next| next.kind == Kind::Forward) {
            live = step.ts;
        }
        uppers.push(parse(actions, live)?);
        actions.next_if(|next| next.kind == Kind::Restore && next.ts == base)?;
    }
    Some(uppers.into_iter().rev().fold(Range::One, |lower, upper| Range::split(upper, lower)))
}

/// Adds the actions that reverse a range whose base u(base) is live; `is_stored`: and stored.
fn emit(actions: &mut Vec<Action>, range: &Range, base: u32, is_stored: bool) -> Result<()> {
    let mut act = |kind, ts| fallible_vec::push(actions, Action { kind, ts, flags: 0 });
    let Range::Split(parts) = range else { return act(Kind::Backward, base) };
    if !is_stored {
        act(Kind::Save, base)?;
    }
    let middle = base + parts.1.len();
    (base + 1..=middle).try_for_each(|ts| act(Kind::Forward, ts))?;
    emit(actions, &parts.0, middle, false)?;
    fallible_vec::push(actions, Action { kind: Kind::Restore, ts: base, flags: 0 })?;
    emit(actions, &parts.1, base, true)
}

/// The ranges that one rotation makes of `range`.
fn rotations(range: &Range) -> Vec<Range> {
    let Range::Split(parts) = range else { return Vec::new() };
    let (upper, lower) = &**parts;
    let within_upper = rotations(upper).into_iter().map(|upper| Range::split(upper, lower.clone()));
    let within_lower = rotations(lower).into_iter().map(|lower| Range::split(upper.clone(), lower));
    let mut all: Vec<Range> = within_upper.chain(within_lower).collect();
    if let Range::Split(parts) = upper {
        all.push(Range::split(parts.0.clone(), Range::split(parts.1.clone(), lower.clone())));
    }
    if let Range::Split(parts) = lower {
        all.push(Range::split(Range::split(upper.clone(), parts.0.clone()), parts.1.clone()));
    }
    all
}

/// Returns a plan that is faster than `best` and that no rotation makes faster still; `None` if no
/// rotation helps, or the snapshots of `best` form no stack.
pub(super) fn refine(best: &Candidate, sessions: &[TierSpec]) -> Result<Option<Candidate>> {
    let Some(mut range) = parse(&mut best.schedule.actions().peekable(), 0) else {
        return Ok(None);
    };
    let mut found: Option<Candidate> = None;
    let mut limit = clearly_less(best.simulation.makespan);
    loop {
        let mut step = None;
        for candidate in rotations(&range) {
            let mut actions = Vec::new();
            emit(&mut actions, &candidate, 0, false)?;
            fallible_vec::push(&mut actions, Action { kind: Kind::Terminate, ts: 0, flags: 0 })?;
            let schedule = Schedule::nested(actions)?;
            if let Some((plans, simulation)) = evaluate(&schedule, sessions, limit)? {
                limit = clearly_less(simulation.makespan);
                found = Some(Candidate { schedule, plans, simulation, ..best.clone() });
                step = Some(candidate);
            }
        }
        match step {
            Some(next) => range = next,
            None => return Ok(found),
        }
    }
}
