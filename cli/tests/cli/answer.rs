//! The answer of `gpuzip plan` in one sentence.

use super::predict::RAW;
use super::{json, number, succeeds};
use serde_json::Value;

/// The sentence is the first line, and its numbers are those of the plan.
#[test]
fn the_answer_comes_first() {
    for (more, parts, binds) in [
        (
            "",
            ["with raw snapshots in ", "GiB of host memory: ", "recomputed steps are"],
            "recomputation",
        ),
        (
            " --ratio 4 --codec-gbs 126",
            ["compressed", "device memory and", "recomputed steps"],
            "recomputation",
        ),
    ] {
        let found = json(&format!("{RAW}{more}"));
        let answer = found["answer"].as_str().unwrap();
        assert_eq!(succeeds(&format!("{RAW}{more}")).lines().next(), Some(answer));
        parts.iter().for_each(|part| assert!(answer.contains(part), "{part} in {answer}"));
        let algorithm = found["configuration"]["checkpointing_algorithm"].as_str().unwrap();
        assert!(answer.starts_with(algorithm), "{answer}");
        let (time, over) = (number(&found, "predicted_s"), number(&found, "over_problem_ideal"));
        assert!(answer.contains(&format!("{time:.2} s a shot, {over:.2} times")), "{answer}");
        assert_eq!(found["binds"], binds);
        let ideal = time / over;
        let recomputed = time - ideal - number(&found, "stall_s");
        let share = recomputed / (time - ideal);
        assert!((number(&found, "binds_share") - share).abs() < 1e-9, "{found}");
        assert!(answer.contains(&format!("{:.0} %", share * 100.0)), "{answer}");
        // The sentence rounds up.
        let above = answer.split("at most ").nth(1).unwrap().split(' ').next().unwrap();
        let above: f64 = above.parse().unwrap();
        let exact = (number(&found, "over_bound") - 1.0) * 100.0;
        assert!(above >= exact - 1e-3 && above < exact + 0.1, "{above} for {exact}");
    }
}

/// What takes most of the time above the steps alone is found by its own part of the time.
#[test]
fn what_binds_is_named() {
    let all =
        "plan --steps 60 --state-bytes 1G --forward-ms 10 --d2d-gbs 500 --algorithm store-all";
    for (more, binds, part) in [
        ("--link-gbs 9 --device-budget 70G", "copies", "copies of snapshots are 100 %"),
        ("--device-budget 20G --ratio 4 --codec-gbs 30", "codec", "decompression are 99 %"),
        ("--device-budget 5G --link-gbs 5 --host-budget 70G", "link", "waits for the link are"),
        (
            "--device-budget 5G --link-gbs 50 --host-budget 10G --disk-budget 70G --disk-gbs 1",
            "disk",
            "GiB of device memory, 9.0 GiB of host memory and 50.0 GiB of disk: ",
        ),
    ] {
        let found = json(&format!("{all} {more}"));
        let answer = found["answer"].as_str().unwrap();
        assert!(found["binds"] == binds && answer.contains(part), "{found}");
        assert!(!answer.contains("at most"), "a named schedule has no bound: {answer}");
    }
    let free = json("plan --steps 60 --state-bytes 1G --device-budget 70G --zero-copy");
    assert!(free["binds"].is_null(), "{free}");
    assert!(free["answer"].as_str().unwrap().contains("nothing takes time beside them"));
}

/// Plans that are more than 10 % slower than the best one, and GPUZIP 2.x's recipes, are for `--all`.
#[test]
fn losers_are_shown_when_asked_for() {
    let (few, all) = (json(RAW), json(&format!("{RAW} --all")));
    let best = number(&few, "predicted_s");
    let rows = |found: &Value| found["ranked"].as_array().unwrap().clone();
    let is_near = |row: &&Value| number(row, "predicted_s") <= 1.1 * best;
    assert_eq!(rows(&few), rows(&all).iter().filter(is_near).cloned().collect::<Vec<_>>());
    assert!(rows(&few).len() < rows(&all).len());
    let is_recipe = |row: &Value| row["policy"] == "lru";
    assert!(!rows(&few).iter().any(is_recipe) && rows(&all).iter().any(is_recipe));
    let text = succeeds(RAW);
    assert!(text.contains("--all shows them") && !text.contains("revolve, lru"), "{text}");
    assert!(!succeeds(&format!("{RAW} --all")).contains("--all shows them"));
}
