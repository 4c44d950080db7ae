//! Schedules that compute every state again, for the check of complete states (configuration key
//! `check`): a step that reads what is not part of the state gives another result the second time.

use super::trace::{set_flags, MOST_ACTIONS};
use super::{flags, Action, Algorithm, Kind, Schedule, Trace};
use crate::error::{fail, Result};
use crate::fallible_vec::{filled, push};
use std::sync::Arc;

/// The most times that a state is computed again.
pub const MOST_CHECKS: u32 = 9;

impl Schedule {
    /// This schedule with a SAVE of every state that is computed, and with `times` computations of u(t+1)
    /// from the snapshot of u(t) before BACKWARD t. The result is recorded. It stores one snapshot more
    /// than this schedule at most. A schedule of one step stays as it is.
    ///
    /// With several reverse sweeps, states whose snapshots are kept for the next sweep are computed again
    /// in the last one.
    pub fn checked(&self, times: u32) -> Result<Self> {
        if times == 0 || self.steps < 2 {
            return Ok(self.clone());
        }
        let pairs = u64::from(self.steps) * u64::from(self.sweeps) * u64::from(3 * times + 3);
        let actions = self.forward_steps().saturating_mul(4).saturating_add(pairs);
        if actions > MOST_ACTIONS {
            return fail!(
                Budget,
                "check = {times}: the schedule of {} time steps would have up to {actions} actions, and a recorded one may have {MOST_ACTIONS}: check a run \
                 of fewer steps",
                self.macro_steps.time_steps()
            );
        }
        let of = self.has_terms().then(|| self.terms());
        let most = |_, _| MOST_ACTIONS as usize;
        let trace = Trace::of_actions(self.with_checks(times)?, Some(self.steps), most)?;
        let trace = Trace { of, ..trace };
        let schedule = Self::trace(Arc::new(trace));
        let algorithm = match self.algorithm {
            // All actions are known: no snapshot is placed before its next use is.
            Algorithm::Online => Algorithm::Trace,
            other => other,
        };
        let (chunk, macro_steps) = (self.chunk, self.macro_steps);
        Ok(Schedule { algorithm, chunk, macro_steps, ..schedule })
    }

    fn with_checks(&self, times: u32) -> Result<Vec<Action>> {
        let mut stored = filled(false, self.steps as usize + 1)?;
        let mut given = Vec::new();
        for action in self.actions() {
            action.check_memory()?;
            push(&mut given, action)?;
        }
        // An online schedule drops snapshots that it does not restore.
        set_flags(&mut given, self.steps)?;
        let mut actions = given.into_iter().peekable();
        let (mut all, mut ends) = (Vec::new(), false);
        let mut put = |kind, ts| push(&mut all, Action::new(kind, ts));
        while let Some(action) = actions.next() {
            let (kind, ts) = (action.kind, action.ts);
            let (next, at) = (actions.peek().map(|next| (next.kind, next.ts)), ts as usize);
            let is_last = action.flags & flags::LAST_USE != 0;
            match kind {
                Kind::Backward if ts + 1 < self.steps && !stored[at + 1] => {
                    if !std::mem::replace(&mut stored[at], true) {
                        // The SAVE of a state that was computed just now is there already.
                        ends = true;
                    }
                    for _ in 0..times {
                        put(Kind::Forward, ts + 1)?;
                        put(Kind::Save, ts + 1)?;
                        put(Kind::Restore, ts)?;
                    }
                }
                Kind::Save => stored[at] = !is_last,
                // The snapshot of a state that is reversed now is kept for the computations from it.
                Kind::Restore if is_last => match next {
                    Some((Kind::Backward, reversed)) if reversed == ts => ends = true,
                    _ => stored[at] = false,
                },
                _ => {}
            }
            put(kind, ts)?;
            match kind {
                Kind::Forward if next != Some((Kind::Save, ts)) && !stored[at] => {
                    put(Kind::Save, ts)?;
                }
                Kind::Backward if std::mem::take(&mut ends) => stored[at] = false,
                _ => {}
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::super::validate_schedule;
    use super::*;

    /// How often each state is computed, and how often a SAVE follows at once.
    fn computed(schedule: &Schedule) -> Vec<[u32; 2]> {
        let mut counts = vec![[0; 2]; schedule.steps as usize];
        let mut actions = schedule.actions().peekable();
        while let Some(action) = actions.next() {
            let next = actions.peek().map(|next| (next.kind, next.ts));
            if action.kind == Kind::Forward {
                counts[action.ts as usize][0] += 1;
                counts[action.ts as usize][1] += u32::from(next == Some((Kind::Save, action.ts)));
            }
        }
        counts
    }

    fn check(schedule: &Schedule, times: u32) {
        let checked = schedule.checked(times).unwrap();
        let summary = validate_schedule(&checked, false).unwrap();
        assert!(summary.max_live <= schedule.snapshots + 1, "{schedule:?}");
        let counts = computed(&checked);
        for (ts, [computed, saved]) in counts.iter().enumerate().skip(1) {
            assert!(*computed > times, "u({ts}) {computed} times: {schedule:?}");
            assert!(*saved > times, "u({ts}) is compared {saved} times: {schedule:?}");
        }
    }

    #[test]
    fn every_state_is_computed_again_and_compared() {
        for steps in 2..=24 {
            for snapshots in 1..=steps {
                let schedules = [
                    Schedule::revolve(steps, snapshots),
                    Schedule::store_all(steps),
                    Schedule::uniform(steps, snapshots),
                    Schedule::uniform_published(steps, snapshots),
                    Schedule::zcut(steps, snapshots, 0),
                    Schedule::two_level(steps, snapshots, 0, 0),
                    Schedule::hrevolve(steps, snapshots, 0, 0),
                    Schedule::online(steps, snapshots, false),
                    Schedule::online(steps, snapshots, true),
                ];
                for schedule in schedules.into_iter().flatten() {
                    (1..=3).for_each(|times| check(&schedule, times));
                    for sweeps in 2..=3 {
                        let swept = schedule.clone().in_sweeps(sweeps);
                        swept.iter().for_each(|swept| check(swept, 1));
                    }
                }
            }
        }
    }

    #[test]
    fn one_step_has_nothing_to_compute_again_and_long_runs_are_refused() {
        let one = Schedule::revolve(1, 1).unwrap();
        assert_eq!(one.checked(2).unwrap().actions().count(), one.actions().count());
        let long = Schedule::store_all(1 << 27).unwrap().checked(1).unwrap_err();
        assert!(long.message.contains("check = 1: the schedule of 134217728"), "{long}");
    }
}
