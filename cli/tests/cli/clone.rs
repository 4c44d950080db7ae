//! `gpuzip clone`, and `gpuzip inspect --tree` on the runs that begin with clones.

use super::inspect::{damage, generation, json_of, lines, opened, publish, END};
use super::text;
use gpuzip::persist::{Fingerprint, Store};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("clone-{name}"));
    let _ = fs::remove_dir_all(&path);
    path
}

fn clone(from: &Path, to: &Path, options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpuzip"));
    command.arg("clone").arg(from).arg(to).args(options).output().unwrap()
}

/// Goes on from the newest generation of a folder of one rank, if it has one, and writes the next `count`.
fn run(path: &Path, count: i64) {
    let mut fingerprint = Fingerprint::new();
    fingerprint.add("steps", 300).unwrap();
    let mut store = Store::open(path, 0, 1, false).unwrap();
    let mut shot = 0;
    if let Some(found) = store.newest(&fingerprint, &mut |value| Ok(value)).unwrap() {
        shot = found.header.shot;
        store.went_on(found.origin);
    }
    for k in 1..=count {
        publish(&mut store, shot + k, -1);
    }
}

#[test]
fn a_clone_has_the_newest_generation_of_all_ranks_or_the_one_that_is_asked_for() {
    let path = folder("ranks");
    let own = path.join("run");
    for rank in [0, 1] {
        let mut store = opened(&own, rank, 2);
        for shot in 1..=3 {
            publish(&mut store, shot, -1);
        }
    }
    let right = |to: &str, options: &[&str]| {
        let output = clone(&own, &path.join(to), options);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout).to_owned()
    };
    let told = right("newest", &[]);
    assert!(told.starts_with("generation 3, start of shot 3: files of 2 rank(s), "), "{told}");
    assert!(told.contains("of which 2 share their bytes with"), "{told}");
    damage(&generation(&own, 1, 3), END + 1);
    assert!(json_of(&path.join("newest"))["restored"].is_null(), "one file, two names");
    assert!(right("before", &[]).starts_with("generation 2, "));
    assert!(right("first", &["--generation", "1"]).starts_with("generation 1, start of shot 1"));
    let restored = json_of(&path.join("first"))["restored"].clone();
    assert_eq!((&restored["generation"], &restored["missing"]), (&1.into(), &0.into()));
    for (to, options, reason) in [
        ("first", &[][..], "has generation 1 of rank 0: give each clone a folder of its own"),
        ("none", &["--generation", "9"], "rank 0 has no right generation 9 there"),
        ("none", &["--generation", "3"], "rank 1"),
    ] {
        let output = clone(&own, &path.join(to), options);
        assert!(!output.status.success() && text(&output.stderr).contains(reason), "{output:?}");
        assert!(to != "none" || !path.join(to).exists());
    }
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn a_tree_shows_which_start_went_on_from_which() {
    let path = folder("tree");
    let of = |name: &str| path.join(name);
    run(&of("base"), 2);
    for name in ["long", "short"] {
        assert!(clone(&of("base"), &of(name), &[]).status.success());
    }
    run(&of("short"), 1);
    run(&of("base"), 3);
    let folders = [of("long"), of("short")].map(|folder| folder.display().to_string());
    let options = ["--tree", &folders[0], &folders[1]];
    let output = lines(&of("base"), &options);
    // The numbers of starts are random: they stand for themselves by the order in which they appear.
    let mut names = Vec::new();
    let mut shown = Vec::new();
    for line in &output {
        let words = line.trim_start().split(' ').map(|word| {
            let is_number = word.len() == 16 && word.chars().all(|c| c.is_ascii_hexdigit());
            if !is_number {
                return word.replace(&format!("{}/", path.display()), "");
            }
            let known = names.iter().position(|name| name == word);
            let k = known.unwrap_or_else(|| {
                names.push(word.to_owned());
                names.len() - 1
            });
            format!("R{k}")
        });
        let indent = " ".repeat(line.len() - line.trim_start().len());
        shown.push(indent + &words.collect::<Vec<_>>().join(" "));
    }
    let short_first = shown[3].ends_with("in short");
    let short = "      generation 3: start of shot 3; 1 of 1 ranks in short";
    let base = [
        "      generation 4: start of shot 4; 1 of 1 ranks in base",
        "      generation 5: start of shot 5; 1 of 1 ranks in base",
    ];
    let mut expected = vec![
        "start R0 began anew",
        "  generation 2: start of shot 2; 1 of 1 ranks in long, 1 of 1 ranks in short",
        "    start R1 went on from generation 2",
    ];
    let second = "    start R2 went on from generation 2";
    if short_first {
        expected.extend([short, second]);
        expected.extend(base);
    } else {
        expected.extend(base);
        expected.extend([second, short]);
    }
    assert_eq!(shown, expected, "{output:?}");
    // Without the folder of its parent a run is shown by itself.
    let alone = lines(&of("base"), &["--tree"]);
    assert_eq!(alone.len(), 3);
    assert!(alone[0].contains(" went on from generation 2 of start "), "{alone:?}");
    assert!(alone[0].ends_with(", of which nothing is left here"), "{alone:?}");
    fs::remove_dir_all(path).unwrap();
}
