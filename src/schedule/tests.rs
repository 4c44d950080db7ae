use super::revolve::Range;
use super::*;
use crate::error::Code;
use proptest::prelude::*;

fn counts(schedule: &Schedule) -> Summary {
    let summary = validate(schedule.actions(), schedule.steps, Some(schedule.snapshots)).unwrap();
    assert_eq!(summary.forward_steps, schedule.forward_steps(), "closed form of {schedule:?}");
    assert_eq!(
        summary.saves + summary.restores,
        schedule.accesses().unwrap(),
        "closed form of {schedule:?}"
    );
    assert_eq!(summary.backward_steps, schedule.steps as u64);
    summary
}

fn text(schedule: &Schedule) -> String {
    let mut out = Vec::new();
    trace::write(schedule.actions(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn the_sequence_that_everything_must_serve() {
    let expected = "0 SAVE\n1 FORWARD\n2 FORWARD\n2 BACKWARD\n0 RESTORE\n1 FORWARD\n1 BACKWARD\n0 RESTORE\n0 BACKWARD\n0 TERMINATE\n";
    assert_eq!(text(&Schedule::revolve(3, 1).unwrap()), expected);
}

#[test]
fn revolve_is_optimal_in_steps_and_writes() {
    for n in 1..=300 {
        for s in 1..=20 {
            let summary = counts(&Schedule::revolve(n, s).unwrap());
            assert_eq!(
                summary.forward_steps,
                forward_steps(n as u64, s as u64),
                "n = {n}, s = {s}"
            );
            assert_eq!(summary.saves, writes(n as u64, s as u64), "n = {n}, s = {s}");
            assert_eq!(summary.restores, n as u64 - 1);
        }
    }
}

/// The smallest advance among those that are optimal in forward steps and writes, by trying all of
/// them.
fn smallest_best_advance(n: u64, s: u64) -> u64 {
    let cost = |j: u64| {
        let (upper, lower) = (n - j, j);
        let steps = j + forward_steps(upper, s - 1) + forward_steps(lower, s);
        (
            steps,
            u64::from(upper > 1)
                + writes(upper, s - 1).saturating_sub(1)
                + writes(lower, s).saturating_sub(1),
            j,
        )
    };
    (1..n).map(cost).min().unwrap().2
}

#[test]
fn revolve_takes_the_smallest_best_advance() {
    for n in 3..=200u32 {
        for s in 2..(n - 1).min(30) {
            let first_split = Range::new(0, n, s).split().base;
            assert_eq!(
                first_split as u64,
                smallest_best_advance(n as u64, s as u64),
                "n = {n}, s = {s}"
            );
        }
    }
}

#[test]
fn large_schedules_are_optimal() {
    for (n, s) in [
        (3001, 7),
        (3751, 8),
        (6751, 8),
        (3751, 149),
        (10_000, 50),
        (100_000, 100),
        (1_000_000, 10),
        (1_000_000, 100),
    ] {
        let summary = counts(&Schedule::revolve(n, s).unwrap());
        assert_eq!(
            (summary.forward_steps, summary.saves),
            (forward_steps(n as u64, s as u64), writes(n as u64, s as u64))
        );
    }
    // The published counts of the three data sets that GPUZIP 2.x was timed with.
    for (n, s, forwards, saves) in
        [(3001, 7, 18_004, 1285), (6751, 8, 42_568, 3432), (3751, 8, 21_252, 1716)]
    {
        let summary = counts(&Schedule::revolve(n, s).unwrap());
        assert_eq!(
            (summary.forward_steps, summary.saves, summary.restores),
            (forwards, saves, n as u64 - 1)
        );
    }
}

#[test]
fn one_state_needs_no_snapshot() {
    for schedule in [
        Schedule::revolve(1, 5),
        Schedule::store_all(1),
        Schedule::uniform(1, 1),
        Schedule::zcut(1, 0, 0),
        Schedule::two_level(1, 1, 0, 0),
        Schedule::hrevolve(1, 1, 0, 0),
    ] {
        assert_eq!(text(&schedule.unwrap()), "0 BACKWARD\n0 TERMINATE\n");
    }
}

#[test]
fn store_all_computes_each_state_once() {
    for n in [2, 3, 17, 1000] {
        let summary = counts(&Schedule::store_all(n).unwrap());
        assert_eq!(
            summary,
            Summary {
                forward_steps: n as u64 - 1,
                saves: n as u64 - 1,
                restores: n as u64 - 1,
                backward_steps: n as u64,
                max_live: n - 1,
                actions: 4 * n as u64 - 2
            }
        );
    }
}

#[test]
fn uniform_is_correct_and_not_quadratic() {
    for n in 1..=120 {
        for s in 1..=40 {
            let ours = counts(&Schedule::uniform(n, s).unwrap());
            let published = counts(&Schedule::uniform_published(n, s).unwrap());
            assert!(ours.forward_steps <= published.forward_steps, "n = {n}, s = {s}");
        }
    }
    // With at least 2 sqrt(n) snapshots, which hold the starts and one whole interval, every state
    // is computed at most twice.
    for (n, s) in [(100, 20), (3751, 123), (3751, 149), (10_000, 200), (1_000_000, 2000)] {
        let summary = counts(&Schedule::uniform(n, s).unwrap());
        assert!(
            summary.forward_steps <= 2 * n as u64,
            "n = {n}, s = {s}: {}",
            summary.forward_steps
        );
    }
    // With sqrt(n) snapshots, Revolve's optimum is 2.5 n. Even intervals need at most a quarter
    // more.
    let summary = counts(&Schedule::uniform(10_000, 100).unwrap());
    assert!(
        summary.forward_steps as f64 <= 1.25 * forward_steps(10_000, 100) as f64,
        "{}",
        summary.forward_steps
    );
    // Uniform as published is quadratic in the length of an interval.
    let published = counts(&Schedule::uniform_published(10_000, 100).unwrap());
    assert_eq!(published.forward_steps, 9900 + 100 * 99 * 100 / 2);
}

/// A defect of GPUZIP 2.x: its Uniform continued from a state that no RESTORE had made live. The
/// validator refuses such a schedule, and this test counts the RESTORE actions.
#[test]
fn published_uniform_restores_once_for_every_backward() {
    let actions: Vec<_> = Schedule::uniform_published(20, 4).unwrap().actions().collect();
    let saves: Vec<_> = actions.iter().filter(|a| a.kind == Kind::Save).map(|a| a.ts).collect();
    assert_eq!(saves, [0, 5, 10, 15]);
    assert_eq!(actions.iter().filter(|a| a.kind == Kind::Restore).count(), 19);
}

#[test]
fn uniform_starts_are_rounded_half_to_even() {
    let saves = |n, s| -> Vec<u32> {
        Schedule::uniform_published(n, s)
            .unwrap()
            .actions()
            .filter(|a| a.kind == Kind::Save)
            .map(|a| a.ts)
            .collect()
    };
    assert_eq!(saves(10, 4), [0, 2, 5, 8]); // 0, 2.5, 5, 7.5
    assert_eq!(saves(7, 2), [0, 4]); // 3.5 -> 4
}

#[test]
fn zcut_has_its_published_counts() {
    for (n, m) in [(3751u32, 35u32), (1000, 32), (100, 10), (37, 7), (12, 20), (12, 1)] {
        let schedule = Schedule::zcut(n, 0, m).unwrap();
        let summary = counts(&schedule);
        let (n, m) = (n as u64, m.min(n) as u64);
        let chunks = n.div_ceil(m);
        let last = n - (chunks - 1) * m;
        assert_eq!(summary.forward_steps, 2 * n - last - chunks, "n = {n}, m = {m}");
        assert!(summary.max_live as u64 <= chunks + m);
        if m > 1 {
            let single = u64::from(last == 1);
            assert_eq!(summary.saves, n - chunks - single, "n = {n}, m = {m}");
        }
    }
    assert_eq!(Schedule::zcut(10_000, 200, 0).unwrap().chunk, 100);
    assert_eq!(Schedule::zcut(3751, 149, 0).unwrap().chunk, 33);
    // Too few slots for all states of a chunk: Revolve reverses the chunk with the slots that there
    // are.
    counts(&Schedule::zcut(200, 12, 0).unwrap());
    counts(&Schedule::zcut(200, 25, 10).unwrap());
    let error = Schedule::zcut(200, 12, 10).unwrap_err();
    assert_eq!(error.code, Code::Config);
    assert!(
        error.message.contains("checkpointing_snaps = 12") && error.message.contains("20"),
        "{error}"
    );
}

#[test]
fn two_level_has_its_formula() {
    for (n, length, c) in
        [(3751u32, 26u32, 4u32), (100, 7, 3), (37, 7, 1), (12, 20, 4), (3751, 8, 8)]
    {
        let count = n.div_ceil(length);
        let schedule = Schedule::two_level(n, count - 1 + c, length, c).unwrap();
        let summary = counts(&schedule);
        let (k, l) = (count as u64, length.min(n) as u64);
        let last = n as u64 - (k - 1) * l;
        assert_eq!(
            summary.forward_steps,
            (k - 1) * l + (k - 1) * forward_steps(l, c as u64) + forward_steps(last, c as u64)
        );
    }
    for (n, s) in [(3751, 149), (100, 5), (100, 99), (100, 1), (5, 200)] {
        counts(&Schedule::two_level(n, s, 0, 0).unwrap());
    }
    assert!(Schedule::two_level(3751, 100, 26, 4).unwrap_err().message.contains("145"));
    // `inner` is a limit: more slots than the checkpoints leave are no error.
    assert_eq!(
        counts(&Schedule::two_level(100, 4, 0, 6).unwrap()),
        counts(&Schedule::two_level(100, 4, 0, 0).unwrap())
    );
    assert_eq!(counts(&Schedule::two_level(100, 12, 10, 9).unwrap()).max_live, 12);
}

/// K intervals of L states, of which Revolve stores H starts and which Revolve reverses with c slots
/// each: L t(K, H) + (K - 1) t(L, c) + t(n - (K - 1) L, c) forward steps.
#[test]
fn nested_schedules_have_their_formula() {
    for (n, length, starts, c) in [
        (3751u32, 10u32, 30u32, 3u32),
        (3751, 14, 30, 4),
        (100, 7, 3, 3),
        (37, 7, 1, 1),
        (1000, 2, 5, 1),
        (12, 20, 4, 4),
        (101, 10, 2, 4),
    ] {
        let schedule = Schedule::hrevolve(n, starts + c, length, c).unwrap();
        let (k, l) = (n.div_ceil(length) as u64, length.min(n) as u64);
        let last = n as u64 - (k - 1) * l;
        assert_eq!(
            counts(&schedule).forward_steps,
            l * forward_steps(k, starts as u64)
                + (k - 1) * forward_steps(l, c as u64)
                + forward_steps(last, c as u64)
        );
    }
    // All starts fit: the schedule takes as many steps as two-level, the nested schedule with all
    // starts.
    let nested = Schedule::hrevolve(3751, 148, 26, 4).unwrap();
    let two_level = Schedule::two_level(3751, 148, 26, 4).unwrap();
    assert_eq!(counts(&nested).forward_steps, counts(&two_level).forward_steps);
    // One slot is left for the starts; one snapshot is Revolve with one slot.
    assert_eq!(counts(&Schedule::hrevolve(100, 5, 10, 9).unwrap()).max_live, 5);
    assert_eq!(counts(&Schedule::hrevolve(20, 1, 5, 2).unwrap()).forward_steps, 190);
    assert!(Schedule::hrevolve(20, 5, 1, 2).unwrap_err().message.contains("chunk = 1"));
    // The length that gpuzip chooses has no more steps than lengths beside it.
    let chosen = Schedule::hrevolve(3751, 34, 0, 4).unwrap();
    for length in 2..60 {
        let other = Schedule::hrevolve(3751, 34, length, 4).unwrap();
        assert!(chosen.forward_steps() <= other.forward_steps(), "{length}");
    }
}

#[test]
fn every_schedule_survives_a_round_trip_through_a_trace() {
    for schedule in [
        Schedule::revolve(100, 5),
        Schedule::uniform(100, 12),
        Schedule::uniform_published(40, 4),
        Schedule::zcut(100, 0, 10),
        Schedule::two_level(100, 20, 0, 4),
        Schedule::hrevolve(100, 9, 8, 3),
        Schedule::store_all(30),
    ] {
        let schedule = schedule.unwrap();
        let trace = Trace::read(text(&schedule).as_bytes(), Some(schedule.steps)).unwrap();
        let replay = Schedule::trace(Arc::new(trace));
        assert!(replay.actions().eq(schedule.actions()), "flags too: {schedule:?}");
    }
}

#[test]
fn traces_are_read_strictly() {
    for (input, part) in [
        ("", "no BACKWARD"),
        ("0 SAVE\n", "no BACKWARD"),
        ("0 BACKWARD\n", "without TERMINATE"),
        ("0 BACKWARD\n0 TERMINATE\n0 BACKWARD\n", "reverses 2"),
        ("0 BACKWARD\n0 TERMINATE\n0 TERMINATE\n", "has 1 in each of 2 sweeps"),
        ("0 BACKWARD\n0 TERMINATE\n0 BACKWARD\n0 TERMINATE\n", "action 2"),
        ("0 BACKWARD 1\n0 TERMINATE\n", "line 1"),
        ("0 BACKWARD\n0 JUMP\n", "line 2: \"JUMP\""),
        ("0 backward\n", "\"backward\""),
        ("-1 BACKWARD\n", "\"-1\""),
        ("4294967296 BACKWARD\n", "4294967296"),
        ("0 RESTORE\n0 BACKWARD\n0 TERMINATE\n", "no snapshot of it is stored"),
        ("1 SAVE\n0 BACKWARD\n0 TERMINATE\n", "live state is 0"),
        ("2 FORWARD\n0 BACKWARD\n0 TERMINATE\n", "live state is 0"),
        ("99 RESTORE\n0 BACKWARD\n0 TERMINATE\n", "no snapshot"),
    ] {
        let error = Trace::read(input.as_bytes(), Some(1)).unwrap_err();
        assert!(
            error.message.contains(part)
                || Trace::read(input.as_bytes(), None).unwrap_err().message.contains(part),
            "{input:?}: {error}"
        );
    }
    let long = vec![b'0'; 1 << 20];
    assert!(Trace::read(&long[..], None).unwrap_err().message.contains("longer"));
    let words = "0 SAVE_INTERMEDIARY\n1 FORWARD\n\n1 FIRSTURN\n0 RESTORE\n0 BACKWARD\n0 TERMINATE";
    assert_eq!(Trace::read(words.as_bytes(), Some(2)).unwrap().summary.saves, 1);
    assert_eq!(Trace::load("/no/such/trace".as_ref(), None).unwrap_err().code, Code::Io);
}

/// Ranges, split into single actions again.
fn expanded(schedule: &Schedule, join: bool) -> Vec<Action> {
    let steps = |(action, end): (Action, u32)| {
        let flags_at =
            move |ts| if ts < end { action.flags & !flags::NEXT_IS_SAVE } else { action.flags };
        (action.ts..=end).map(move |ts| Action { ts, flags: flags_at(ts), ..action })
    };
    schedule.ranges(join).flat_map(steps).collect()
}

/// The actions of a schedule, with those that `skip_like` skips made from the action before them.
fn with_skipped(schedule: &Schedule) -> Vec<Action> {
    let (mut actions, mut all) = (schedule.actions(), Vec::new());
    while let Some(action) = actions.next() {
        let skipped = if action.kind == Kind::Forward { actions.skip_like(action) } else { 0 };
        all.extend((0..=skipped).map(|k| Action { ts: action.ts + k, ..action }));
    }
    all
}

/// Checks that skipping leaves out no other action, that ranges contain the schedule's actions, and
/// that no two consecutive ranges could be joined.
fn check_ranges(schedule: &Schedule) {
    let actions: Vec<Action> = schedule.actions().collect();
    assert_eq!(with_skipped(schedule), actions, "{schedule:?}");
    assert_eq!(expanded(schedule, true), actions, "{schedule:?}");
    assert_eq!(expanded(schedule, false), actions, "{schedule:?}");
    assert!(schedule.ranges(false).all(|(action, end)| action.ts == end));
    let ranges: Vec<(Action, u32)> = schedule.ranges(true).collect();
    for pair in ranges.windows(2) {
        let [(first, end), (second, _)] = pair else { unreachable!() };
        let forward = first.kind == Kind::Forward && second.kind == Kind::Forward;
        assert!(
            !forward || (first.flags ^ second.flags) & flags::RECOMPUTE != 0,
            "{first:?} to {end} and {second:?} of {schedule:?}"
        );
        assert!(first.kind == Kind::Forward || first.ts == *end);
    }
}

#[test]
fn ranges_end_where_the_recomputed_steps_do() {
    let ranges: Vec<(Kind, u32, u32, u32)> = Schedule::revolve(6, 1)
        .unwrap()
        .ranges(true)
        .take(5)
        .map(|(a, end)| (a.kind, a.ts, end, a.flags))
        .collect();
    let expected = [
        (Kind::Save, 0, 0, 0),
        (Kind::Forward, 1, 5, 0),
        (Kind::Backward, 5, 5, flags::FIRST_BACKWARD),
        (Kind::Restore, 0, 0, 0),
        (Kind::Forward, 1, 4, flags::RECOMPUTE),
    ];
    assert_eq!(ranges, expected);
    // A trace that goes back before it has reached every state.
    let input = "0 SAVE\n1 FORWARD\n2 FORWARD\n0 RESTORE\n1 FORWARD\n2 FORWARD\n3 FORWARD\n3 SAVE\n3 BACKWARD\n\
                 0 RESTORE\n1 FORWARD\n2 FORWARD\n2 BACKWARD\n0 RESTORE\n1 FORWARD\n1 BACKWARD\n0 RESTORE\n0 BACKWARD\n0 TERMINATE\n";
    let schedule = Schedule::trace(Arc::new(Trace::read(input.as_bytes(), None).unwrap()));
    let forwards: Vec<_> = schedule
        .ranges(true)
        .filter(|(a, _)| a.kind == Kind::Forward)
        .map(|(a, end)| (a.ts, end, a.flags))
        .collect();
    let (again, saved) = (flags::RECOMPUTE, flags::NEXT_IS_SAVE);
    assert_eq!(forwards, [(1, 2, 0), (1, 2, again), (3, 3, saved), (1, 2, again), (1, 1, again)]);
    check_ranges(&schedule);
}

#[test]
fn a_save_that_nobody_restores_is_marked() {
    let input = "0 SAVE\n1 FORWARD\n1 SAVE\n1 BACKWARD\n0 RESTORE\n0 BACKWARD\n0 TERMINATE\n";
    let trace = Trace::read(input.as_bytes(), None).unwrap();
    assert_eq!(trace.summary.max_live, 1);
    assert_eq!(trace.actions[2].flags & flags::LAST_USE, flags::LAST_USE);
}

#[test]
fn parameters_are_checked() {
    assert_eq!(Schedule::revolve(0, 1).unwrap_err().code, Code::Argument);
    assert_eq!(Schedule::revolve(u32::MAX, 1).unwrap_err().code, Code::Argument);
    assert_eq!(Schedule::revolve(10, 0).unwrap_err().code, Code::Config);
    assert_eq!(Schedule::uniform(10, 0).unwrap_err().code, Code::Config);
}

#[test]
fn the_validator_sees_every_broken_rule() {
    let good: Vec<Action> = Schedule::revolve(12, 3).unwrap().actions().collect();
    assert!(validate(good.iter().copied(), 12, Some(3)).is_ok());
    assert!(validate(good.iter().copied(), 12, Some(2)).is_err(), "the limit");
    assert!(validate(good.iter().copied(), 13, Some(3)).is_err(), "the number of steps");
    for i in 0..good.len() {
        let mut missing = good.clone();
        missing.remove(i);
        assert!(validate(missing, 12, Some(3)).is_err(), "without action {i}");
        let mut doubled = good.clone();
        doubled.insert(i, good[i]);
        // A second RESTORE of the same state is harmless unless the first one freed the snapshot.
        let harmless = good[i].kind == Kind::Restore && good[i].flags & flags::LAST_USE == 0;
        assert_eq!(validate(doubled, 12, Some(3)).is_ok(), harmless, "action {i} twice");
        for flag in [flags::RECOMPUTE, flags::FIRST_BACKWARD, flags::LAST_USE, flags::NEXT_IS_SAVE]
        {
            let mut lying = good.clone();
            lying[i].flags ^= flag;
            let used = matches!(
                (good[i].kind, flag),
                (Kind::Forward, flags::RECOMPUTE | flags::NEXT_IS_SAVE)
                    | (Kind::Backward, flags::FIRST_BACKWARD)
                    | (Kind::Restore | Kind::Save, flags::LAST_USE)
            );
            assert!(!used || validate(lying, 12, Some(3)).is_err(), "flag {flag} of action {i}");
        }
    }
}

/// A schedule that takes too long to run is refused before its actions are generated. The error
/// says how many forward steps the schedule has, and what to do.
#[test]
fn schedules_without_end_are_refused() {
    for schedule in [Schedule::revolve(100_000, 1), Schedule::uniform_published(1_000_000, 3)] {
        let schedule = schedule.unwrap();
        let refused = [schedule.check_length(), crate::plan::Index::new(&schedule).map(drop)]
            .map(Result::unwrap_err);
        for error in refused {
            assert_eq!(error.code, Code::Budget);
            assert!(error.message.contains(&schedule.forward_steps().to_string()), "{error}");
            assert!(error.message.contains("raise checkpointing_snaps"), "{error}");
        }
    }
    assert!(Schedule::revolve(40_000, 1).unwrap().check_length().is_ok());
}

/// If planning takes long, a text says how many forward steps the schedule has, and what to do.
#[test]
fn long_planning_is_explained() {
    let why = |steps| Schedule::revolve(steps, 1).unwrap().why_it_takes_long();
    assert_eq!(why(14_000), None);
    let text = why(46_000).unwrap();
    for part in
        ["1057977000 forward steps", "46000 time steps", "1 snapshots", "checkpointing_snaps"]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
}

/// A trace has at most as many actions as the longest sensible schedule: n(n-1)/2 forward steps,
/// each state saved, n restores and n adjoints.
#[test]
fn a_trace_is_no_longer_than_its_time_steps_need() {
    for n in 1..6 {
        let schedule = Schedule::revolve(n, 1).unwrap();
        let mut text = text(&schedule);
        assert!(Trace::read(text.as_bytes(), Some(n)).is_ok());
        text.insert_str(0, &"0 SAVE\n0 RESTORE\n".repeat((n * (n + 1)) as usize));
        let error = Trace::read(text.as_bytes(), Some(n)).unwrap_err();
        let (line, most) = (n * (n + 1) + 3, n * (n + 1) + 2);
        assert!(
            error.message.contains(&format!("line {line}: more than {most} actions")),
            "{error}"
        );
    }
}

proptest! {
    #[test]
    fn every_schedule_is_valid(n in 1u32..3000, s in 1u32..200, m in 0u32..100, c in 0u32..20) {
        counts(&Schedule::revolve(n, s).unwrap());
        counts(&Schedule::uniform(n, s).unwrap());
        if let Ok(schedule) = Schedule::zcut(n, s, m) { counts(&schedule); }
        counts(&Schedule::zcut(n, 0, m).unwrap());
        if let Ok(schedule) = Schedule::two_level(n, s, m, c) { counts(&schedule); }
        if let Ok(schedule) = Schedule::hrevolve(n, s, m, c) { counts(&schedule); }
    }

    #[test]
    fn ranges_are_the_schedule(n in 1u32..500, s in 1u32..60, m in 0u32..100, c in 0u32..20) {
        let schedules = [
            Schedule::revolve(n, s), Schedule::uniform(n, s), Schedule::uniform_published(n.min(100), s), Schedule::zcut(n, s, m),
            Schedule::zcut(n, 0, m), Schedule::two_level(n, s, m, c), Schedule::hrevolve(n, s, m + 1, c), Schedule::hrevolve(n, s, 0, c), Schedule::store_all(n),
        ];
        for schedule in schedules.into_iter().flatten() {
            check_ranges(&schedule);
            let trace = Trace::read(text(&schedule).as_bytes(), None).unwrap();
            check_ranges(&Schedule::trace(Arc::new(trace)));
        }
    }

    #[test]
    fn parsers_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), lines in "([0-9]{0,3} ?(FORWARD|SAVE|RESTORE|BACKWARD|TERMINATE)?\n){0,20}") {
        let _ = Trace::read(&bytes[..], None);
        let _ = Trace::read(lines.as_bytes(), None);
    }
}

/// A trace is accepted or refused alike, whether the number of time steps is known before it is
/// read or is what the trace reverses.
#[test]
fn a_trace_with_too_many_actions_is_refused_without_the_number_of_steps_too() {
    for saves in 1..5 {
        let text = "0 SAVE\n".repeat(saves) + "0 BACKWARD\n0 TERMINATE\n";
        let read = |steps| Trace::read(text.as_bytes(), steps).is_ok();
        assert_eq!((read(None), read(Some(1))), (saves < 3, saves < 3), "{saves} saves");
    }
}
