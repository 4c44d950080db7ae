//! The answer of `gpuzip plan` in one sentence, and what would change it.

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

/// A lever is the time of the plan that the changed options give, and its change is against the plan of
/// now.
#[test]
fn levers_are_priced_by_the_search() {
    let line = |device: &str, more: &str| {
        format!("plan --steps 500 --state-bytes 1M --forward-ms 1 --link-gbs 9 --d2d-gbs 100 --device-budget {device} --host-budget 20M {more}")
    };
    let found = json(&line("8M", ""));
    let now = number(&found, "predicted_s");
    let levers = found["levers"].as_array().unwrap();
    for (name, options) in [
        ("zero copy", line("8M", "--zero-copy")),
        ("a codec of ratio 4 at 200 GB/s", line("8M", "--ratio 4")),
        ("a codec of ratio 10 at 200 GB/s", line("8M", "--ratio 10")),
        ("25 % more device memory", line("10M", "")),
        ("25 % more host memory", line("8M", "").replace("20M", "25M")),
        ("if the adjoint needs only every 2nd state", line("8M", "--every 2")),
    ] {
        let is_it = |lever: &&Value| lever["lever"].as_str().unwrap().starts_with(name);
        let lever = levers.iter().find(is_it).unwrap_or_else(|| panic!("{name} in {found}"));
        let changed = number(&json(&options), "predicted_s");
        assert_eq!(number(lever, "predicted_s"), changed, "{name}");
        assert!((number(lever, "change") - (changed / now - 1.0)).abs() < 1e-12, "{name}");
        assert!(number(lever, "change").abs() >= 1e-3, "{lever}");
    }
    assert_eq!(levers.len(), 6, "no disk, which could be left out: {found}");
    let text = succeeds(&line("8M", ""));
    let least = number(&levers[0], "change") * 100.0;
    assert!(text.contains(&format!("{least:+.1} %")), "{least} in {text}");

    // What is given is no lever, nor is what changes nothing.
    let given = json(&line("8M", "--zero-copy --every 2 --ratio 3")).to_string();
    for name in ["zero copy (", "a codec of", "every 2nd"] {
        assert!(!given.contains(name), "{name} in {given}");
    }
    let enough = json(&line("600M", ""));
    let names = enough["levers"].to_string();
    assert!(!names.contains("memory") && names.contains("zero copy"), "{enough}");
    let named = json(&line("8M", "--algorithm revolve --snapshots 9"));
    assert_eq!(named["levers"].as_array().unwrap().len(), 0);
}

/// On a CPU there is one memory, and a disk that is used can be left out.
#[test]
fn levers_of_a_cpu_with_a_disk() {
    let cpu = "plan --steps 400 --state-bytes 100M --cpu --host-budget 2G --disk-gbs 8";
    let found = json(&format!("{cpu} --disk-budget 10G"));
    let lever = |name: &str| {
        let all = found["levers"].as_array().unwrap();
        let lever = all.iter().find(|lever| lever["lever"] == name);
        number(lever.unwrap_or_else(|| panic!("{name} in {found}")), "predicted_s")
    };
    let without = json(cpu);
    assert_eq!(lever("without the disk"), number(&without, "predicted_s"));
    let more = json(&format!("{cpu} --disk-budget 12.5G"));
    assert_eq!(lever("25 % more disk"), number(&more, "predicted_s"));
    assert!(!found.to_string().contains("device memory"), "{found}");
}

/// Of a long problem some levers are left out, always the same ones, and named.
#[test]
fn levers_of_long_problems_are_left_out() {
    let found = json("plan --steps 3e5 --state-bytes 1G --device-budget 8G --host-budget 30G");
    let left_out = found["levers_left_out"].as_array().unwrap();
    let short = json("plan --steps 300 --state-bytes 1G --device-budget 8G --host-budget 30G");
    assert!(!left_out.is_empty() && short["levers_left_out"].as_array().unwrap().is_empty());
    let text = succeeds("plan --steps 3e5 --state-bytes 1G --device-budget 8G --host-budget 30G");
    let line = text.lines().find(|line| line.contains("--thorough prices all")).unwrap();
    assert!(left_out.iter().all(|name| line.contains(name.as_str().unwrap())), "{line}");
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

/// Levers are differences of two plans of the search, also where --thorough finds a quicker plan by dynamic
/// programming, which is not asked for any lever.
#[test]
fn levers_compare_like_with_like() {
    let problem = "plan --steps 300 --state-bytes 1G --forward-ms 10 --link-gbs 9 --device-budget 4G --host-budget 6G";
    let (quick, thorough) = (json(problem), json(&format!("{problem} --thorough")));
    assert!(number(&thorough, "predicted_s") < number(&quick, "predicted_s"));
    assert!(!quick["levers"].as_array().unwrap().is_empty());
    assert_eq!(quick["levers"], thorough["levers"]);
}
