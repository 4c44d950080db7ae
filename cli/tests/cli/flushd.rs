//! `gpuzip flushd` beside a run that goes on, was killed, or begins again, and `gpuzip inspect` on two levels.

use super::inspect::{begun, damage, generation, json_of, limited, lines, opened, publish, END};
use super::text;
use gpuzip::persist::Store;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The folders of a node and of all nodes.
fn folders(name: &str) -> (PathBuf, PathBuf) {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("flushd-{name}"));
    let _ = fs::remove_dir_all(&path);
    (path.join("node"), path.join("shared"))
}

fn open(node: &Path, shared: &Path, rank: u32, ranks: u32) -> Store {
    let mut store = opened(node, rank, ranks);
    store.share(shared, false).unwrap();
    store
}

/// Publishes a generation, and orders its copy.
fn next(store: &mut Store, shot: i64) -> u64 {
    let number = publish(store, shot, -1);
    store.confirm(number);
    store.ship(number, &mut |value| Ok(value)).unwrap();
    number
}

fn flushd(node: &Path, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpuzip"));
    command.arg("flushd").arg(node).args(options);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Sends a signal, and returns what the process has left.
fn ended(child: Child, signal: libc::c_int) -> Output {
    // SAFETY: the process is this one's child, which is not waited for yet.
    unsafe { libc::kill(child.id() as libc::pid_t, signal) };
    child.wait_with_output().unwrap()
}

/// Waits until a file is there: some 0.1 s where nothing else runs.
fn appears(file: &Path) {
    let begin = Instant::now();
    while !file.exists() {
        assert!(begin.elapsed() < Duration::from_secs(120), "{}", file.display());
        sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_a_killed_run_has_left_is_copied() {
    let (node, shared) = folders("killed");
    for rank in [0, 1] {
        let mut store = open(&node, &shared, rank, 2);
        for shot in 1..=3 {
            next(&mut store, shot);
        }
        // Before its publication was agreed on the run is killed.
        publish(&mut store, 4, 12);
    }
    let output = flushd(&node, &["--once"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).starts_with("copied: "), "{}", text(&output.stdout));
    for rank in [0, 1] {
        let of = |folder| fs::read(generation(folder, rank, 4)).unwrap();
        assert!(of(&node) == of(&shared));
    }
    // The table, and what a restart would find without a node, or with damage on either level.
    let table =
        |number, of, node, shared| format!("{number:>12}  {of:<30}  {node:>12}  {shared:>12}");
    damage(&generation(&node, 0, 4), END + 1);
    let found = lines(&node, &[]);
    for line in [
        table("generation", "of", "node", "shared"),
        table("4", "shot 4 after action 12", "1 of 2", "2 of 2"),
        "would be restored: generation 4, shot 4 after action 12".into(),
    ] {
        assert!(found.contains(&line), "{line}\n{}", found.join("\n"));
    }
    assert_eq!(json_of(&node)["shared"]["ranks"][1]["generations"][0]["generation"], json!(4));
    damage(&generation(&shared, 0, 4), END + 1);
    assert_eq!(
        lines(&node, &[]).last().unwrap(),
        "would be restored: generation 3, start of shot 3"
    );
    fs::remove_dir_all(node.parent().unwrap()).unwrap();
}

#[test]
fn a_run_is_followed_also_after_the_copying_process_was_killed() {
    let (node, shared) = folders("followed");
    let mut store = open(&node, &shared, 0, 1);
    let child = flushd(&node, &[]).spawn().unwrap();
    let first = next(&mut store, 1);
    appears(&generation(&shared, 0, first));
    // A folder has one such process.
    let output = flushd(&node, &["--once"]).output().unwrap();
    let error = text(&output.stderr);
    assert!(
        !output.status.success() && error.contains("another process uses this folder"),
        "{error}"
    );
    assert_eq!(ended(child, libc::SIGKILL).status.code(), None);
    // It was killed in the middle of a copy.
    let second = next(&mut store, 2);
    let half = generation(&shared, 0, second).with_extension("tmp");
    fs::write(&half, [7; 100]).unwrap();
    let child = flushd(&node, &[]).spawn().unwrap();
    appears(&generation(&shared, 0, second));
    let output = ended(child, libc::SIGTERM);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).starts_with("copied: 1 generations"), "{}", text(&output.stdout));
    assert!(!half.exists());
    assert!(
        fs::read(generation(&shared, 0, second)).unwrap()
            == fs::read(generation(&node, 0, second)).unwrap()
    );
    fs::remove_dir_all(node.parent().unwrap()).unwrap();
}

#[test]
fn what_cannot_be_copied_in_time_or_has_no_room_stays_and_is_told() {
    let (node, shared) = folders("no-room");
    let mut store = open(&node, &shared, 0, 1);
    let number = next(&mut store, 1);
    drop(store);
    let mut command = flushd(&node, &["--once"]);
    limited(&mut command, libc::RLIMIT_FSIZE, 1000);
    let slow = ["--limit-gbs", "1e-8", "--grace", "0.05"];
    let late = flushd(&node, &slow).spawn().unwrap();
    sleep(Duration::from_millis(300));
    for (output, reason) in [
        (ended(late, libc::SIGTERM), "the time that --grace gives is over"),
        (command.output().unwrap(), "File too large"),
    ] {
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        for part in [reason, "rank 0: ", "what is missing stays there"] {
            assert!(error.contains(part), "{part}: {error}");
        }
        let left = fs::read_dir(&shared).unwrap().map(|entry| entry.unwrap().file_name());
        let left: Vec<_> = left.filter(|name| !name.to_str().unwrap().ends_with(".lock")).collect();
        assert!(left.is_empty(), "{left:?}");
    }
    assert!(flushd(&node, &["--once"]).output().unwrap().status.success());
    assert!(generation(&shared, 0, number).exists());
    fs::remove_dir_all(node.parent().unwrap()).unwrap();
}

/// A generation that a run has begun to write is none of its copies' business.
#[test]
fn a_folder_without_orders_has_nothing_to_copy() {
    let (node, shared) = folders("nothing");
    let mut store = Store::open(&node, 0, 1, false).unwrap();
    publish(&mut store, 1, -1);
    let unfinished = begun(&mut store, 2, -1);
    let output = flushd(&node, &["--once"]).output().unwrap();
    assert_eq!(text(&output.stdout), "copied: 0 generations, 0 B\n");
    assert!(!shared.exists());
    drop(unfinished);
    fs::remove_dir_all(node.parent().unwrap()).unwrap();
}
