//! The parts of `make gpu-bundle` that need no GPU: the script that runs the parts, and the tables
//! of the summary.

mod common;

use common::{have, root, run, stdout, tempdir};
use std::process::Command;

/// A line in the format of the program `stall`, with invented numbers.
fn stall(cache: u32, policy: &str, seconds: f64) -> String {
    format!(
        "{{\"device\": \"none\", \"extent\": 400, \"steps\": 3000, \"algorithm\": \"revolve\", \"snapshots\": 20, \"cache\": {cache}, \
         \"policy\": \"{policy}\", \"slot_bytes\": 512000000, \"seconds\": {seconds}, \"forward_step_seconds\": 0.0004, \
         \"backward_step_seconds\": 0.001, \"ideal_of_plan\": 10.0, \"ideal_of_problem\": 5.0, \"h2d_bytes\": 8000000000, \
         \"d2h_bytes\": 4000000000, \"stall\": 5.0, \"image_hash\": \"0123456789abcdef\"}}\n"
    )
}

#[test]
fn tables_are_made_of_what_there_is() {
    if !have("python3") {
        return;
    }
    let dir = tempdir("gpu-bundle");
    let lines = stall(0, "clairvoyant", 40.0)
        + &stall(4, "clairvoyant", 20.0)
        + &stall(4, "lru", 25.0)
        + "{\"cut off";
    std::fs::write(dir.join("stall-revolve.jsonl"), lines).unwrap();
    std::fs::write(
        dir.join("stall-revolve.json"),
        "{\"part\": \"stall-revolve\", \"exit_code\": 124, \"seconds\": 400}\n",
    )
    .unwrap();
    std::fs::write(
        dir.join("suite.json"),
        "{\"part\": \"suite\", \"exit_code\": 0, \"seconds\": 7}\n",
    )
    .unwrap();
    let text =
        stdout(&run(Command::new("python3").arg(root().join("gpu-bundle/summary.py")).arg(&dir)));
    for row in [
        "| stall-revolve | out of time | 400 |",
        "| suite | ok | 7 |",
        "| revolve | 20 | 0 | synchronous | 40.00 | 5.00 (12 %) | 8 | 4 | 1.00 | 4.00 | 8.00 | 1.0 |",
        "| revolve | 20 | 4 | clairvoyant | 20.00 | 5.00 (25 %) | 8 | 4 | 2.00 | 2.00 | 4.00 | 1.0 |",
        "| revolve | 20 | 4 | lru | 25.00 | 5.00 (20 %) | 8 | 4 | 1.60 | 2.50 | 5.00 | 1.0 |",
        "Images: identical",
    ] {
        assert!(text.contains(row), "no {row} in\n{text}");
    }
}

/// The summary names the parts that failed, and is written although they failed.
#[test]
fn a_part_that_fails_stops_nothing() {
    if !have("bash") || !have("python3") {
        return;
    }
    let dir = tempdir("gpu-bundle-run");
    let output = Command::new("bash")
        .arg(root().join("gpu-bundle/run.sh"))
        .arg(dir.join("out"))
        .args(["minimal", "no-such"])
        .output()
        .unwrap();
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("| minimal | FAILED (127)") && text.contains("| no-such | FAILED (2)"),
        "{text}"
    );
    if have("shellcheck") {
        run(Command::new("shellcheck")
            .arg(root().join("gpu-bundle/run.sh"))
            .arg(root().join("gpu-bundle/make.sh")));
    }
}
