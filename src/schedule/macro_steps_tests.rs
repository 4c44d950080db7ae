use super::*;
use crate::schedule::{flags, validate, validate_ranges, Action, Kind, Schedule, Trace};
use std::sync::Arc;

/// Schedules of every algorithm for `steps` steps, with the most snapshots of each.
fn schedules(steps: u32) -> Vec<Schedule> {
    let mut all = vec![Schedule::store_all(steps), Schedule::zcut(steps, 0, 0)];
    for snapshots in [1, 2, 3, 5] {
        all.extend([
            Schedule::revolve(steps, snapshots),
            Schedule::revolve(steps, snapshots).map(|schedule| schedule.through(2)),
            Schedule::uniform(steps, snapshots),
            Schedule::uniform_published(steps, snapshots),
            Schedule::zcut(steps, snapshots, 3),
            Schedule::two_level(steps, snapshots, 4, 2),
            Schedule::hrevolve(steps, snapshots, 0, 0),
        ]);
    }
    let mut all: Vec<Schedule> = all.into_iter().flatten().collect();
    let recorded: Vec<Schedule> = all
        .iter()
        .map(|schedule| Trace::new(schedule.actions().collect(), Some(steps)).unwrap())
        .map(|trace| Schedule::trace(Arc::new(trace)))
        .collect();
    all.extend(recorded);
    all
}

/// The actions of a schedule for macro-steps of `k` out of `n` time steps, in time steps, made one
/// macro-step at a time without regard to speed.
fn in_time_steps(schedule: &Schedule, k: u32, n: u32) -> Vec<(Action, u32)> {
    let mut all = Vec::new();
    for action in schedule.actions() {
        let at = |ts, end, flags| (Action { ts, flags, ..action }, end);
        match action.kind {
            Kind::Forward => {
                for ts in (action.ts - 1) * k + 1..=action.ts * k {
                    let is_last = ts == action.ts * k;
                    let flags =
                        if is_last { action.flags } else { action.flags & !flags::NEXT_IS_SAVE };
                    all.push(at(ts, ts, flags));
                }
            }
            Kind::Backward => {
                let last = (action.ts * k + k).min(n) - 1;
                all.push(at(action.ts * k, last, action.flags));
            }
            Kind::Save | Kind::Restore => all.push(at(action.ts * k, action.ts * k, action.flags)),
            Kind::Terminate | Kind::Error => all.push((action, action.ts)),
        }
    }
    all
}

/// Runs the actions as an application does: u is the number of the live state, and snapshots are
/// numbers.
fn run(actions: &[(Action, u32)], k: u32, n: u32) {
    let (mut live, mut adjoint) = (0, n);
    let mut stored = std::collections::BTreeMap::new();
    let mut computed = std::collections::BTreeSet::from([0]);
    for (it, &(action, end)) in actions.iter().enumerate() {
        let has = |flag| action.flags & flag != 0;
        match action.kind {
            Kind::Forward => {
                for ts in action.ts..=end {
                    assert_eq!(live + 1, ts, "action {it}");
                    assert_eq!(computed.insert(ts), !has(flags::RECOMPUTE), "action {it}");
                    live = ts;
                }
                let next = actions[it + 1].0;
                assert_eq!(has(flags::NEXT_IS_SAVE), next.kind == Kind::Save, "action {it}");
            }
            Kind::Save => assert_eq!(stored.insert(action.ts, live), None, "action {it}"),
            Kind::Restore if has(flags::LAST_USE) => live = stored.remove(&action.ts).unwrap(),
            Kind::Restore => live = stored[&action.ts],
            Kind::Backward => {
                assert_eq!(has(flags::FIRST_BACKWARD), adjoint == n, "action {it}");
                assert_eq!((live, action.ts % k), (action.ts, 0), "action {it}");
                for ts in (action.ts..=end).rev() {
                    assert_eq!(adjoint, ts + 1, "action {it}");
                    adjoint = ts;
                }
            }
            Kind::Terminate => assert_eq!((it + 1, adjoint), (actions.len(), 0)),
            Kind::Error => panic!("action {it}"),
        }
    }
}

/// Joins consecutive FORWARDs with the same RECOMPUTE.
fn joined(actions: &[(Action, u32)]) -> Vec<(Action, u32)> {
    let mut all: Vec<(Action, u32)> = Vec::new();
    let again = |action: Action| action.flags & flags::RECOMPUTE;
    for &(action, end) in actions {
        match all.last_mut() {
            Some((first, last))
                if (first.kind, action.kind) == (Kind::Forward, Kind::Forward)
                    && again(*first) == again(action) =>
            {
                first.flags |= action.flags;
                *last = end;
            }
            _ => all.push((action, end)),
        }
    }
    all
}

#[test]
fn macro_steps_become_time_steps() {
    let mut count = 0;
    for n in 1..=40 {
        for k in 1..=9 {
            let macro_steps = MacroSteps::new(k, n);
            for schedule in schedules(macro_steps.count()) {
                let schedule = schedule.in_macro_steps(macro_steps);
                let expected = in_time_steps(&schedule, k, n);
                let single: Vec<_> = schedule.ranges(false).collect();
                assert_eq!(single, expected, "n = {n}, k = {k}, {schedule:?}");
                run(&single, k, n);
                let ranges: Vec<_> = schedule.ranges(true).collect();
                assert_eq!(ranges, joined(&expected), "n = {n}, k = {k}, {schedule:?}");
                let forward_steps =
                    expected.iter().filter(|(a, _)| a.kind == Kind::Forward).count();
                for actions in [single, ranges] {
                    let most = Some(schedule.snapshots);
                    let found =
                        validate_ranges(actions.iter().copied(), (macro_steps, 1), most).unwrap();
                    assert_eq!(found.forward_steps, forward_steps as u64);
                    assert_eq!(found.forward_steps, schedule.forward_steps() * u64::from(k));
                    assert_eq!(found.backward_steps, u64::from(n));
                    assert_eq!(found.actions, actions.len() as u64);
                }
                count += 1;
            }
        }
    }
    assert!(count > 10_000);
}

/// Looking at the next action, at any place, changes nothing.
#[test]
fn what_comes_next_is_what_was_looked_at() {
    for (n, k) in [(23, 4), (24, 4), (7, 9)] {
        let macro_steps = MacroSteps::new(k, n);
        let revolve = Schedule::revolve(macro_steps.count(), 2).unwrap();
        let schedule = revolve.in_macro_steps(macro_steps);
        for join in [false, true] {
            let expected: Vec<_> = schedule.ranges(join).collect();
            for looked in 0..3 {
                let mut ranges = schedule.ranges(join);
                for &next in &expected {
                    for _ in 0..looked {
                        assert_eq!(ranges.peek(), Some(next));
                    }
                    assert_eq!(ranges.next(), Some(next));
                }
                assert_eq!((ranges.peek(), ranges.peek(), ranges.next()), (None, None, None));
            }
        }
    }
}

#[test]
fn the_validator_sees_every_broken_rule_of_ranges() {
    let macro_steps = MacroSteps::new(4, 22);
    let schedule = Schedule::revolve(6, 2).unwrap().in_macro_steps(macro_steps);
    for join in [false, true] {
        let good: Vec<_> = schedule.ranges(join).collect();
        let check = |actions: &[(Action, u32)], macro_steps| {
            validate_ranges(actions.iter().copied(), (macro_steps, 1), Some(2))
        };
        assert!(check(&good, macro_steps).is_ok());
        for other in [MacroSteps::new(4, 21), MacroSteps::new(4, 23), MacroSteps::new(1, 22)] {
            assert!(check(&good, other).is_err(), "{other:?}");
        }
        for i in 0..good.len() {
            let mut missing = good.clone();
            missing.remove(i);
            assert!(check(&missing, macro_steps).is_err(), "without action {i}");
            for end in [good[i].1.wrapping_sub(1), good[i].1 + 1] {
                let mut other = good.clone();
                other[i].1 = end;
                let is_last = good[i].0.kind == Kind::Terminate;
                assert!(is_last || check(&other, macro_steps).is_err(), "action {i} to {end}");
            }
            for flag in
                [flags::RECOMPUTE, flags::FIRST_BACKWARD, flags::LAST_USE, flags::NEXT_IS_SAVE]
            {
                let mut lying = good.clone();
                lying[i].0.flags ^= flag;
                let used = matches!(
                    (good[i].0.kind, flag),
                    (Kind::Forward, flags::RECOMPUTE | flags::NEXT_IS_SAVE)
                        | (Kind::Backward, flags::FIRST_BACKWARD)
                        | (Kind::Restore | Kind::Save, flags::LAST_USE)
                );
                assert!(!used || check(&lying, macro_steps).is_err(), "flag {flag} of action {i}");
            }
        }
    }
    // A range that mixes steps with and without RECOMPUTE.
    let mixed = [(Kind::Save, 0, 0, 0), (Kind::Forward, 1, 4, 0), (Kind::Restore, 0, 0, 0)]
        .into_iter()
        .chain([(Kind::Forward, 1, 8, flags::RECOMPUTE)])
        .map(|(kind, ts, end, flags)| (Action { kind, ts, flags }, end));
    let error = validate_ranges(mixed, (MacroSteps::new(4, 12), 1), None).unwrap_err();
    assert!(error.message.contains("RECOMPUTE is wrong"), "{error}");
    // The whole schedule at once, one step at a time, is valid for k = 1 only.
    let single = Schedule::revolve(6, 2).unwrap();
    assert!(validate(single.actions(), 6, Some(2)).is_ok());
    assert!(validate_ranges(single.ranges(false), (MacroSteps::new(2, 6), 1), None).is_err());
}

#[test]
fn macro_steps_of_extreme_numbers() {
    const MOST: u32 = crate::schedule::MAX_STEPS;
    for (every, steps, count, last) in [
        (0, 5, 5, 4..5),
        (1, MOST, MOST, MOST - 1..MOST),
        (MOST, MOST, 1, 0..MOST),
        (MOST, 3, 1, 0..3),
        (MOST - 1, MOST, 2, MOST - 1..MOST),
        (2, MOST, 1 << 30, MOST - 1..MOST),
    ] {
        let macro_steps = MacroSteps::new(every, steps);
        assert_eq!(macro_steps.count(), count);
        assert_eq!(macro_steps.of(count - 1), last);
        assert_eq!(macro_steps.of(count), steps..steps);
    }
}
