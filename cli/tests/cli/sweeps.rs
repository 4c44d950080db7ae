//! `--sweeps`: schedules and plans of several reverse sweeps over one forward phase.

use super::{is_refused, json, number, succeeds, temporary};
use std::path::PathBuf;

#[test]
fn a_listing_has_all_sweeps_and_is_read_again() {
    let line = "schedule --algorithm revolve --steps 3 --snapshots 2 --sweeps 2";
    let lines = succeeds(&format!("{line} --print"));
    let expected = "0 SAVE\n1 FORWARD\n1 SAVE\n2 FORWARD\n2 BACKWARD\n1 RESTORE\n1 BACKWARD\n0 RESTORE\n0 BACKWARD\n0 TERMINATE\n\
                    0 RESTORE\n1 FORWARD\n1 SAVE\n2 FORWARD\n2 BACKWARD\n1 RESTORE\n1 BACKWARD\n0 RESTORE\n0 BACKWARD\n0 TERMINATE\n";
    assert_eq!(lines, expected);
    let file = temporary("sweeps.trace", lines.as_bytes());
    let traced = format!("schedule --algorithm trace --trace {} --steps 3", file.display());
    assert_eq!(succeeds(&format!("{traced} --sweeps 2 --print")), expected);
    is_refused(&traced, "set sweeps to 2");
    is_refused(&format!("{line} --sweeps 0"), "--sweeps");
}

/// Counts come from formulas where a replay would take long, and are those of a replay.
#[test]
fn counts_are_of_all_sweeps() {
    let counts = |k: u32| {
        json(&format!("schedule --algorithm revolve --steps 1000 --snapshots 100 --sweeps {k}"))
    };
    let (one, five) = (counts(1), counts(5));
    assert_eq!([&one, &five].map(|c| number(c, "forward_steps")), [1898.0, 5534.0]);
    assert_eq!((number(&five, "backward_steps"), number(&five, "sweeps")), (5000.0, 5.0));
    assert_eq!(number(&five, "restores"), 4999.0);
    assert!(one.get("sweeps").is_none());
}

/// The time of k sweeps is at least that of one forward and k reverse sweeps, and at most that of k shots.
#[test]
fn sweeps_are_planned_together() {
    for costs in [
        "--cpu --host-budget 100GB",
        "--device-budget 5GB --host-budget 95GB --link-gbs 20",
        "--cpu --host-budget 50GB --disk-budget 1TB --disk-gbs 5",
        "--cpu --host-budget 60GB --ratio 8 --codec-gbs 4",
        "--device-budget 9GB --host-budget 30GB --ratio 20 --thorough",
    ] {
        let plan = |k: u32| {
            json(&format!("plan --steps 300 --state-bytes 1GB --forward-ms 100 --backward-ms 200 --sweeps {k} {costs}"))
        };
        let (one, five) = (plan(1), plan(5));
        let [of_one, of_five] = [&one, &five].map(|found| number(found, "predicted_s"));
        let alone = 300.0 * (0.1 + 5.0 * 0.2);
        assert!(of_five >= alone && of_five < 5.0 * of_one, "{costs}: {of_one}, {of_five}");
        assert!((number(&five, "over_problem_ideal") - of_five / alone).abs() < 1e-9, "{five}");
        assert!(number(&five, "bound_s") <= of_five && number(&five, "bound_s") >= alone);
        assert!(five["answer"].as_str().unwrap().contains("a shot of 5 reverse sweeps"), "{five}");
        let has_key = |found: &serde_json::Value| {
            found["config"].as_array().unwrap().contains(&"sweeps = 5".into())
        };
        assert!(has_key(&five) && !has_key(&one));
    }
}

/// Drawings say how many sweeps they show, and have no recipe of GPUZIP 2.x, which has one sweep, beside several.
#[test]
fn drawings_have_all_sweeps() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("sweeps-drawn");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let plan = "plan --steps 30 --state-bytes 1GB --device-budget 5GB --host-budget 20GB";
    for (options, in_title, has_recipe) in
        [("", "n = 30, ", true), ("--sweeps 3", "n = 30, 3 reverse sweeps, ", false)]
    {
        succeeds(&format!("{plan} {options} --svg {}", folder.display()));
        let (timeline, memory) = (read("timeline.svg"), read("memory.svg"));
        assert!(timeline.contains(in_title) && memory.contains(in_title), "{timeline}");
        assert!(timeline.contains("The whole run: the share of the time"), "{timeline}");
        assert_eq!(memory.contains("GPUZIP 2.x"), has_recipe, "{options}");
        let file = folder.join("schedule.svg");
        let schedule = "schedule --algorithm revolve --steps 30 --snapshots 6";
        succeeds(&format!("{schedule} {options} --svg {}", file.display()));
        assert!(read("schedule.svg").contains(in_title));
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_has_one_sweep_is_refused() {
    let plan = "plan --steps 100 --state-bytes 1GB --cpu --host-budget 20GB --sweeps 3";
    is_refused(&format!("{plan} --sequence-ratio 9"), "--sweeps 3 with --sequence-ratio");
    is_refused(&format!("{plan} --online --snapshots 9"), "online");
}
