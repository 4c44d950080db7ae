//! `gpuzip inspect` on folders of restart files: right, damaged, in use, and none.

#[path = "../../../tests/common/cases.rs"]
pub mod cases;
#[path = "../../../tests/common/hostile.rs"]
pub(super) mod hostile;

use super::draw::{self, Draw};
use gpuzip::persist::{
    FileName, Fingerprint, Finished, Header, Kind, Name, RecordHead, Store, Writer, MOST_RANKS,
};
use hostile::Hostile;
use serde_json::{json, Value};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("inspect-{name}"));
    let _ = std::fs::remove_dir_all(&path);
    path
}

fn inspect(folder: &Path, options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpuzip"));
    command.arg("inspect").arg(folder).args(options).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

pub(super) fn lines(folder: &Path, options: &[&str]) -> Vec<String> {
    let output = inspect(folder, options);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).lines().map(str::to_owned).collect()
}

pub(super) fn json_of(folder: &Path) -> Value {
    serde_json::from_slice(&inspect(folder, &["--json"]).stdout).unwrap()
}

/// Opens the store of a rank, in start 7 of the program.
pub(super) fn opened(path: &Path, rank: u32, ranks: u32) -> Store {
    let mut store = Store::open(path, rank, ranks, false).unwrap();
    let least = &mut |value: i64| Ok(if value < 0 { value } else { 7 });
    Store::agree_numbers(Some(&mut store), least).unwrap();
    store
}

/// Begins a generation of a shot, with an image of 2 KiB and a snapshot that lorenzo made 100 bytes
/// of.
pub(super) fn begun(store: &mut Store, shot: i64, it: i64) -> Writer {
    let mut fingerprint = Fingerprint::new();
    fingerprint.add("steps", 300).unwrap();
    let mut writer = store.begin(Header { fingerprint, shot, it }).unwrap();
    for (kind, name, ts, codec, raw_bytes, stored_bytes) in
        [(Kind::Array, "image", -1, 0, 2048, 2048), (Kind::Snapshot, "snapshot", 17, 4, 4096, 100)]
    {
        let name = Name::new(name).unwrap();
        let head = RecordHead { kind, name, ts, codec, raw_bytes, stored_bytes };
        writer.record(head).unwrap();
        writer.write(&vec![7; stored_bytes as usize]).unwrap();
    }
    writer
}

pub(super) fn publish(store: &mut Store, shot: i64, it: i64) -> u64 {
    let finished: Finished = begun(store, shot, it).finish().unwrap();
    store.publish(finished).unwrap()
}

pub(super) fn generation(folder: &Path, rank: u32, generation: u64) -> PathBuf {
    folder.join(FileName::Generation(generation).text(rank))
}

/// Changes the byte of a file that is `before_end` bytes before its end.
pub(super) fn damage(file: &Path, before_end: usize) {
    let mut bytes = std::fs::read(file).unwrap();
    let at = bytes.len() - before_end;
    bytes[at] ^= 1;
    std::fs::write(file, bytes).unwrap();
}

/// Bytes of the index and the footer of a generation of two records.
pub(super) const END: usize = 2 * 152 + 56;

/// What older files hold is shown, and missing with them.
#[test]
fn records_in_older_files_are_shown() {
    let path = folder("older");
    let mut store = opened(&path, 0, 1);
    store.whole_every(9);
    (1..=2).for_each(|shot| assert_eq!(publish(&mut store, shot, -1), shot as u64));
    let size = std::fs::metadata(generation(&path, 0, 2)).unwrap().len();
    assert_eq!(size, std::fs::metadata(generation(&path, 0, 1)).unwrap().len() - 2148);
    let found = lines(&path, &["--records"]);
    assert_eq!(
        found[1..4],
        [
            format!("  generation 2: start of shot 2, {size} B, 2 records, 2 of them in older files: right"),
            "    array image, 2.0 KiB, in generation 1: right".into(),
            "    snapshot of time step 17, 100 B by lorenzo (4.0 KiB raw), in generation 1: right".into(),
        ]
    );
    let records = &json_of(&path)["ranks"][0]["generations"][0]["records"];
    assert_eq!(records[1]["in_generation"], json!(1));
    std::fs::remove_file(generation(&path, 0, 1)).unwrap();
    let output = inspect(&path, &[]);
    let found = text(&output.stdout);
    assert!(found.contains("  generation 2: cannot be used: "), "{found}");
    assert!(found.contains("a part of it is in the file of generation 1"), "{found}");
    std::fs::remove_dir_all(path).unwrap();
}

#[test]
fn the_newest_generation_that_is_right_on_all_ranks_would_be_restored() {
    let path = folder("ranks");
    for rank in [0, 1] {
        let mut store = opened(&path, rank, 2);
        for shot in 1..=4 {
            publish(&mut store, shot, if shot == 4 { 12 } else { -1 });
            store.confirm(shot as u64);
        }
    }
    let size = std::fs::metadata(generation(&path, 0, 4)).unwrap().len();
    let shown = format!("{:.1} KiB", size as f64 / 1024.0);
    let right = |number: u64, place: &str| {
        format!("  generation {number}: {place}, {shown}, 2 records: right")
    };
    let expected = |rank: u32| {
        vec![
            format!("rank {rank}, 4 generations in the journal"),
            right(4, "shot 4 after action 12"),
            right(3, "start of shot 3"),
        ]
    };
    let mut all = [expected(0), expected(1)].concat();
    all.push("would be restored: generation 4, shot 4 after action 12".into());
    assert_eq!(lines(&path, &[]), all);
    // The snapshot of rank 1's newest generation is damaged: its last byte lies before the index.
    damage(&generation(&path, 1, 4), END + 1);
    let found = lines(&path, &[]);
    assert_eq!(found[..4], all[..4]);
    assert!(found[4].ends_with("2 records: 1 of 2 records damaged"), "{found:?}");
    let begin =
        "    snapshot of time step 17, 100 B by lorenzo (4.0 KiB raw): is damaged: the checksum";
    assert!(found[5].starts_with(begin), "{found:?}");
    assert_eq!(found[7], "would be restored: generation 3, start of shot 3");
    assert_eq!(found.len(), 8);
    let value = json_of(&path);
    assert_eq!(
        value["restored"],
        json!({ "generation": 3, "shot": 3, "it": -1, "missing": 0, "missing_ranks": [] })
    );
    let newest = &value["ranks"][1]["generations"][0];
    assert_eq!((&newest["right"], &newest["bytes"]), (&json!(false), &json!(size)));
    assert!(newest["reason"].as_str().unwrap().contains("the checksum of record 1"));
    let verdicts: Vec<_> =
        newest["records"].as_array().unwrap().iter().map(|record| &record["right"]).collect();
    assert_eq!(verdicts, [&json!(true), &json!(false)]);
    assert_eq!(newest["fingerprint"], json!({ "steps": 300 }));
    assert_eq!(value["ranks"][0]["journal"], json!([1, 2, 3, 4]));
    let record = json!({
        "kind": "snapshot", "name": "snapshot", "ts": 17, "codec": 4, "raw_bytes": 4096,
        "stored_bytes": 100, "packed_bytes": null, "in_generation": 3, "right": true, "reason": null,
    });
    assert_eq!(value["ranks"][0]["generations"][1]["records"][1], record);
    // All records.
    let found = lines(&path, &["--records"]);
    assert_eq!(found.len(), 3 + 2 * 4 + 4);
    assert_eq!(found[2], "    array image, 2.0 KiB: right");
    // A header that is damaged makes the generation of no use at all.
    damage(&generation(&path, 0, 3), size as usize - 30);
    let output = inspect(&path, &[]);
    assert_eq!(output.status.code(), Some(2));
    let found = text(&output.stdout);
    assert!(
        found.contains("  generation 3: cannot be used: ") && found.contains("header"),
        "{found}"
    );
    let error = text(&output.stderr);
    assert!(
        error.contains("nothing can be restored: no generation can be read on all ranks"),
        "{error}"
    );
    std::fs::remove_dir_all(path).unwrap();
}

#[test]
fn ranks_whose_files_are_elsewhere_are_named() {
    let path = folder("elsewhere");
    publish(&mut Store::open(&path, 2, 4, false).unwrap(), 5, -1);
    assert_eq!(
        lines(&path, &[]).last().unwrap(),
        "would be restored: generation 1, start of shot 5, if 3 other ranks have it, too, whose files are not here: 0, 1, 3"
    );
    assert_eq!(json_of(&path)["restored"]["missing_ranks"], json!([0, 1, 3]));
    std::fs::remove_dir_all(path).unwrap();
}

/// A file of a few hundred bytes that says it is of as many ranks as a run can have: of the ranks
/// without files, the lowest thousand are listed, and all are counted.
#[test]
fn a_file_that_states_millions_of_ranks_takes_no_memory_for_them() {
    let path = folder("millions");
    publish(&mut Store::open(&path, 1, MOST_RANKS, false).unwrap(), 5, -1);
    assert_eq!(
        lines(&path, &[]).last().unwrap(),
        "would be restored: generation 1, start of shot 5, if 16777215 other ranks have it, too, whose files are not here: 0, 2, 3, 4, 5, 6, 7, 8, ..."
    );
    let restored = &json_of(&path)["restored"];
    let listed: Vec<u32> = serde_json::from_value(restored["missing_ranks"].clone()).unwrap();
    assert!(listed.into_iter().eq((0..=1000).filter(|rank| *rank != 1)));
    assert_eq!(restored["missing"], json!(MOST_RANKS - 1));
    std::fs::remove_dir_all(path).unwrap();
}

/// A folder has more files than the command may have open at a time.
#[test]
fn a_folder_of_many_ranks_is_read_with_few_open_files() {
    let path = folder("open-files");
    for rank in 0..40 {
        publish(&mut opened(&path, rank, 40), 5, -1);
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpuzip"));
    limited(&mut command, libc::RLIMIT_NOFILE, 20);
    let output = command.arg("inspect").arg(&path).output().unwrap();
    let last = text(&output.stdout).lines().last();
    assert_eq!(last, Some("would be restored: generation 1, start of shot 5"));
    std::fs::remove_dir_all(path).unwrap();
}

/// Files with right checksums and absurd numbers, a folder of many ranks at a time: 2,000, in long
/// tests 10^5. The command says of each whether it can be used, and never takes 64 MiB of memory.
#[test]
fn hostile_files_are_listed_within_64_mib() {
    const RANKS: u32 = 200;
    let path = folder("hostile");
    publish(&mut Store::open(&path, 0, RANKS, false).unwrap(), 3, 17);
    let real = Hostile::of(&std::fs::read(generation(&path, 0, 1)).unwrap());
    let folders = cases::cases(10, 500);
    let (mut right, mut random) = (0, Draw(32));
    for k in 0..folders {
        for rank in 0..RANKS {
            let bytes = real.clone().of_rank(rank, RANKS).changed(&mut random);
            std::fs::write(generation(&path, rank, 1), bytes).unwrap();
        }
        for options in [&["--json"][..], &[], &["--records"]] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_gpuzip"));
            limited(&mut command, libc::RLIMIT_AS, 64 << 20);
            let output = command.arg("inspect").arg(&path).args(options).output().unwrap();
            let error = text(&output.stderr);
            assert!(matches!(output.status.code(), Some(0 | 2)), "{k} {options:?}: {error}");
            assert!(!error.contains("panicked"), "{k} {options:?}: {error}");
            if options == ["--json"] {
                let value: Value = serde_json::from_slice(&output.stdout).unwrap();
                let ranks = value["ranks"].as_array().unwrap();
                assert_eq!(ranks.len(), RANKS as usize);
                right +=
                    ranks.iter().filter(|rank| rank["generations"][0]["right"] == true).count();
            }
        }
    }
    let files = folders * RANKS as usize;
    assert!((files / 20..files - files / 20).contains(&right), "{right} of {files} are right");
    println!("{files} hostile files, {right} of them with right checksums throughout");
    std::fs::remove_dir_all(path).unwrap();
}

/// Limits what the process of the command may use.
pub(super) fn limited(command: &mut Command, resource: libc::__rlimit_resource_t, most: u64) {
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: between fork and exec the closure makes one system call, which is allowed there.
    unsafe {
        command.pre_exec(move || match libc::setrlimit(resource, &limit) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        })
    };
}

/// Names, lengths and times of change of a folder's files.
fn state(folder: &Path) -> Vec<(std::ffi::OsString, u64, std::time::SystemTime)> {
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let found = entry.metadata().unwrap();
            (entry.file_name(), found.len(), found.modified().unwrap())
        })
        .collect();
    files.sort();
    files
}

#[test]
fn a_folder_in_use_is_read_and_not_changed() {
    let path = folder("in-use");
    let mut store = Store::open(&path, 0, 1, false).unwrap();
    publish(&mut store, 1, -1);
    let writer = begun(&mut store, 2, -1);
    let before = state(&path);
    let found = lines(&path, &[]);
    assert_eq!(
        found[0],
        "rank 0, in use by a process, 1 generation in the journal, 1 unfinished file"
    );
    assert_eq!(found[2], "would be restored: generation 1, start of shot 1");
    assert_eq!(state(&path), before);
    store.publish(writer.finish().unwrap()).unwrap();
    drop(store);
    let rank = &json_of(&path)["ranks"][0];
    assert_eq!((&rank["in_use"], &rank["unfinished"]), (&json!(false), &json!(0)));
    assert_eq!(rank["generations"].as_array().unwrap().len(), 2);
    std::fs::remove_dir_all(path).unwrap();
}

#[test]
fn nothing_to_restore_is_an_error_with_the_reason() {
    let path = folder("nothing");
    let fails = |folder: &Path, reason: &str| {
        let output = inspect(folder, &[]);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(&folder.display().to_string()) && error.contains(reason), "{error}");
    };
    fails(&path, "No such file or directory");
    std::fs::create_dir(&path).unwrap();
    fails(&path, "the folder has no restart files");
    std::fs::write(path.join("other"), "").unwrap();
    fails(&path.join("other"), ": a file: name its folder");
    let mut store = Store::open(&path, 0, 1, false).unwrap();
    fails(&path, "nothing can be restored: no generation was published");
    publish(&mut store, 1, -1);
    std::fs::write(generation(&path, 0, 1), "torn").unwrap();
    fails(&path, "nothing can be restored: no generation of rank 0 can be read");
    let value = json_of(&path);
    assert_eq!(value["restored"], Value::Null);
    assert_eq!(value["reason"], "no generation of rank 0 can be read");
    std::fs::remove_dir_all(path).unwrap();
}
