//! `--every`: schedules and plans of macro-steps.

use super::{is_refused, json, number, succeeds};
use std::path::PathBuf;

#[test]
fn backwards_are_ranges_of_time_steps() {
    let line = "schedule --algorithm revolve --steps 10 --snapshots 1 --every 4 --print";
    let lines = succeeds(&format!("{line} --range"));
    let expected = "0 SAVE\n1..8 FORWARD\n8..9 BACKWARD\n0 RESTORE\n1..4 FORWARD\n4..7 BACKWARD\n0 RESTORE\n0..3 BACKWARD\n0 TERMINATE\n";
    assert_eq!(lines, expected);
    let single: Vec<String> = succeeds(line).lines().map(String::from).collect();
    assert_eq!(single.iter().filter(|line| line.ends_with(" FORWARD")).count(), 12);
    assert!(single.contains(&"8..9 BACKWARD".into()) && single.contains(&"7 FORWARD".into()));
}

/// A schedule of macro-steps has the snapshots of a schedule with as many steps.
#[test]
fn counts_are_of_time_steps() {
    for algorithm in ["revolve", "uniform", "hrevolve", "two-level"] {
        let counts = |options: &str| {
            json(&format!("plan --algorithm {algorithm} --snapshots 6 --cache 2 {options}"))
        };
        let whole = counts("--steps 40");
        for steps in [194, 196, 200] {
            let sparse = counts(&format!("--steps {steps} --every 5"));
            assert_eq!(number(&sparse, "steps"), f64::from(steps));
            assert_eq!(number(&sparse, "backward_steps"), f64::from(steps));
            assert_eq!(number(&sparse, "every"), 5.0);
            for name in ["forward_steps", "min_lead", "mean_lead"] {
                let ratio = number(&sparse, name) / number(&whole, name);
                if steps > 195 {
                    assert!((ratio - 5.0).abs() < 1e-9, "{name}: {sparse}");
                }
            }
            for name in ["saves", "restores", "max_live", "h2d", "d2h", "snapshots"] {
                if steps > 195 {
                    assert_eq!(number(&sparse, name), number(&whole, name), "{name}");
                }
            }
        }
    }
}

/// k time steps that count as one are planned as one step of k times the length.
#[test]
fn plans_are_those_of_longer_steps() {
    let costs = "--state-bytes 1GB --link-gbs 9 --device-budget 4GB --host-budget 30GB";
    let whole = json(&format!("plan --steps 200 --forward-ms 40 --backward-ms 60 {costs}"));
    let sparse =
        json(&format!("plan --steps 800 --forward-ms 10 --backward-ms 15 --every 4 {costs}"));
    for name in ["predicted_s", "bound_s", "over_problem_ideal", "host_peak", "device_peak"] {
        let (a, b) = (number(&sparse, name), number(&whole, name));
        assert!((a - b).abs() <= 1e-9 * b, "{name}: {a}, {b}");
    }
    assert_eq!(number(&sparse, "every"), 4.0);
    assert!(sparse["config"].as_array().unwrap().contains(&"adjoint_every = 4".into()));
    assert!(!whole["config"].to_string().contains("adjoint_every"));
    // The more steps count as one, the shorter the time.
    let time = |every: u32| {
        let line =
            format!("plan --steps 799 --forward-ms 10 --backward-ms 15 --every {every} {costs}");
        number(&json(&line), "over_problem_ideal")
    };
    let times = [1, 2, 4, 8, 16, 799].map(time);
    assert!(times.is_sorted_by(|a, b| a > b) && times[5] < 1.001, "{times:?}");
    let table = succeeds(&format!("plan --steps 799 --forward-ms 10 --every 4 {costs}"));
    assert!(table.contains("799 time steps count as 200 steps"), "{table}");
}

/// The trace of a plan counts macro-steps and is replayed with the same --every.
#[test]
fn traces_count_macro_steps() {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("{}-every.trace", std::process::id()));
    let file = path.to_str().unwrap();
    succeeds(&format!(
        "plan --steps 99 --state-bytes 1GB --device-budget 3GB --every 5 --trace-out {file}"
    ));
    let trace = json(&format!("schedule --algorithm trace --trace {file} --steps 99 --every 5"));
    assert_eq!(number(&trace, "backward_steps"), 99.0);
    assert_eq!(number(&json(&format!("schedule --algorithm trace --trace {file}")), "steps"), 20.0);
    is_refused(&format!("schedule --algorithm trace --trace {file} --every 5"), "give --steps");
    is_refused(&format!("schedule --algorithm trace --trace {file} --steps 99"), "reverses 20");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn impossible_values_are_refused() {
    let line = "schedule --algorithm revolve --steps 10 --snapshots 2";
    for value in ["0", "-1", "x", "3000000000", "1.5"] {
        is_refused(&format!("{line} --every {value}"), "from 1 to");
    }
    let whole = json(&format!("{line} --every 2147483647"));
    assert_eq!((number(&whole, "forward_steps"), number(&whole, "actions")), (0.0, 2.0));
}
