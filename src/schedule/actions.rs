//! The iterator over the actions of a schedule.

use super::action::{flags, Action, Kind};
use super::intervals::Sweep;
use super::online::Phases;
use super::trace::Replay;

/// Iterates over the actions of a schedule.
#[derive(Clone, Debug)]
pub struct Actions {
    source: Source,
    furthest: u32,
    reversing: bool,
}

/// Where the actions of a schedule come from.
#[derive(Clone, Debug)]
pub(super) enum Source {
    Sweep(Sweep),
    Online(Box<Phases>),
    Trace(Replay),
}

impl Iterator for Actions {
    type Item = Action;

    #[inline(always)]
    fn next(&mut self) -> Option<Action> {
        let mut action = match &mut self.source {
            Source::Sweep(sweep) => sweep.next()?,
            Source::Online(phases) => phases.next()?,
            Source::Trace(replay) => replay.next()?,
        };
        match action.kind {
            Kind::Forward if action.ts <= self.furthest => action.flags |= flags::RECOMPUTE,
            Kind::Forward => self.furthest = action.ts,
            Kind::Backward if !self.reversing => {
                self.reversing = true;
                action.flags |= flags::FIRST_BACKWARD;
            }
            Kind::Terminate => self.reversing = false,
            _ => {}
        }
        Some(action)
    }
}

impl Actions {
    pub(super) fn new(source: Source) -> Self {
        Actions { source, furthest: 0, reversing: false }
    }

    /// The snapshot that is gone with the action that `next` returned last, although no RESTORE has read
    /// it for the last time: in an online schedule, the snapshot that a SAVE replaces, and the one of
    /// the last state.
    pub fn dropped(&self) -> Option<u32> {
        match &self.source {
            Source::Online(phases) => phases.dropped,
            _ => None,
        }
    }

    /// Skips the FORWARD actions that come next and differ from `last`, the FORWARD that `next`
    /// returned last, in nothing but their time step. Returns their number; it may be less than
    /// there are.
    #[inline]
    pub fn skip_like(&mut self, last: Action) -> u32 {
        let Source::Sweep(sweep) = &mut self.source else { return 0 };
        if last.flags & flags::RECOMPUTE != 0 {
            return sweep.skip_to(self.furthest);
        }
        let skipped = sweep.skip_to(u32::MAX);
        self.furthest += skipped;
        skipped
    }

    /// All actions but FORWARD, without flags that depend on other actions, each with the number of FORWARDs before it.
    pub fn stops(mut self) -> impl Iterator<Item = (u32, Action)> {
        std::iter::from_fn(move || {
            if let Source::Sweep(sweep) = &mut self.source {
                return sweep.advance(true);
            }
            let mut forwards = 0;
            loop {
                match self.next()? {
                    action if action.kind != Kind::Forward => return Some((forwards, action)),
                    _ => forwards += 1,
                }
            }
        })
    }
}
