//! Faults of the file system under persistence: a process that publishes generations is killed at
//! every call, each call fails in every way, and calls fail at random. Whatever happened, the next
//! process finds the newest complete generation, with the bytes that were written. `tests/c/faults.c`
//! makes the calls fail.

mod hostile;

use crate::common::cases::{cases, long};
use crate::common::{self, hostile as mutations, wave};
use common::{faults_library, folder_in_memory, tempdir};
use gpuzip::error::Result;
use gpuzip::persist::{Container, FileName, Fingerprint, Header, Kind, Name, RecordHead, Store};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

/// Lengths of the records of a generation in bytes: one is longer than a piece of 1 MiB.
const LENGTHS: [usize; 3] = [10, 3000, (1 << 20) + 4097];
/// Names of the variables that tell the child process what to do.
const FOLDER: &str = "PERSIST_FOLDER";
const ROUNDS: &str = "PERSIST_ROUNDS";
const LIMIT: &str = "PERSIST_LIMIT";

fn fingerprint() -> Fingerprint {
    let mut fingerprint = Fingerprint::new();
    fingerprint.add("steps", 300).unwrap();
    fingerprint
}

/// The value of every byte of record `k` of the generation of a shot.
fn byte(shot: i64, k: usize) -> u8 {
    (shot * 3 + k as i64) as u8
}

fn publish(store: &mut Store, shot: i64) -> Result<u64> {
    let mut writer = store.begin(Header { fingerprint: fingerprint(), shot, it: -1 })?;
    for (k, length) in LENGTHS.into_iter().enumerate() {
        writer.record(RecordHead {
            kind: Kind::Array,
            name: Name::new(&format!("array {k}"))?,
            ts: -1,
            codec: 0,
            raw_bytes: length as u64,
            stored_bytes: length as u64,
        })?;
        let bytes = vec![byte(shot, k); length];
        for piece in bytes.chunks(300_000) {
            writer.write(piece)?;
        }
    }
    let finished = writer.finish()?;
    store.publish(finished)
}

/// Returns number and shot of the newest generation, both 0 if there is none. Panics if its bytes
/// are wrong.
fn newest(store: &mut Store) -> Result<(u64, i64)> {
    let Some(reader) = store.newest(&fingerprint(), &mut |value| Ok(value))? else {
        return Ok((0, 0));
    };
    let shot = reader.header.shot;
    assert_eq!(reader.records.len(), LENGTHS.len(), "WRONG: records of shot {shot}");
    for (k, length) in LENGTHS.into_iter().enumerate() {
        let mut bytes = Vec::new();
        reader.read(k, &mut |piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        })?;
        assert!(bytes == vec![byte(shot, k); length], "WRONG: record {k} of shot {shot}");
    }
    Ok((reader.origin.generation, shot))
}

#[test]
#[ignore = "runs in a process of its own"]
fn plays_hostile_files() {
    hostile::plays();
}

/// Files that somebody made with right checksums and absurd numbers.
#[test]
fn hostile_files_end_no_process_and_take_no_memory() {
    hostile::run();
}

/// The child process: opens the folder, goes on from the newest generation and publishes one
/// generation for each of three shots, as often as PERSIST_ROUNDS says. Errors are what the faults
/// are for. Number and shot of each published generation are appended to the file `acknowledged`
/// beside the folder.
#[test]
#[ignore = "runs in a process of its own"]
fn plays() {
    let folder = PathBuf::from(std::env::var(FOLDER).unwrap());
    let rounds: u32 = std::env::var(ROUNDS).unwrap().parse().unwrap();
    if let Ok(limit) = std::env::var(LIMIT) {
        let limit = limit.parse().unwrap();
        let limit = libc::rlimit { rlim_cur: limit, rlim_max: limit };
        // SAFETY: the pointer is to a live value; the limit is this process's own.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) }, 0);
    }
    let beside = folder.parent().unwrap().join("acknowledged");
    let mut acknowledged = OpenOptions::new().append(true).create(true).open(beside).unwrap();
    for _ in 0..rounds {
        let Ok(mut store) = Store::open(&folder, 0, 1, false) else { continue };
        let Ok((_, from)) = newest(&mut store) else { continue };
        for shot in from + 1..=from + 3 {
            if let Ok(generation) = publish(&mut store, shot) {
                acknowledged.write_all(format!("{generation} {shot}\n").as_bytes()).unwrap();
            }
        }
    }
}

/// A folder of generations, and what its runs were told.
struct Case {
    dir: PathBuf,
    folder: PathBuf,
}

impl Case {
    /// Makes the folder; `None` without the library that makes calls fail.
    fn new(name: &str) -> Option<Self> {
        faults_library()?;
        // No fault depends on a real disk.
        let dir = folder_in_memory(name);
        let folder = dir.join("restart");
        fs::create_dir(&folder).unwrap();
        Some(Case { dir, folder })
    }

    /// Empties the folder.
    fn reset(&self) {
        fs::remove_dir_all(&self.folder).unwrap();
        fs::create_dir(&self.folder).unwrap();
        let _ = fs::remove_file(self.dir.join("acknowledged"));
    }

    /// Runs the child with faults. Returns how it ended and the faults that it had, one a line.
    fn play(&self, faults: &str, rounds: u32) -> (ExitStatus, String) {
        self.play_with(faults, rounds, &|_| ())
    }

    /// Runs the child as `play` does, with what `change` adds to its command. The child has no other
    /// variables: no HOME, no USER, no PATH.
    fn play_with(
        &self,
        faults: &str,
        rounds: u32,
        change: &dyn Fn(&mut Command),
    ) -> (ExitStatus, String) {
        let log = self.dir.join("faults");
        let _ = fs::remove_file(&log);
        let mut command = common::again("persist_faults::plays");
        command
            .env_clear()
            .env(FOLDER, &self.folder)
            .env(ROUNDS, rounds.to_string())
            .env("GPUZIP_FAULTS_DIR", &self.folder)
            .env("GPUZIP_FAULTS", faults)
            .env("GPUZIP_FAULTS_LOG", &log)
            .env("LD_PRELOAD", faults_library().unwrap());
        change(&mut command);
        let output = command.output().unwrap();
        let killed = output.status.signal() == Some(libc::SIGKILL);
        assert!(
            output.status.success() || killed,
            "{faults}: {}\n{}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        (output.status, fs::read_to_string(&log).unwrap_or_default())
    }

    /// Number and shot of the newest generation that the child was told is on the disk; 0 and 0 if
    /// there is none. A later generation can have an earlier shot: a process that cannot read the
    /// newest generations goes on from an older one.
    fn acknowledged(&self) -> (u64, i64) {
        let text = fs::read_to_string(self.dir.join("acknowledged")).unwrap_or_default();
        let pair = |line: &str| {
            let (generation, shot) = line.split_once(' ').unwrap();
            (generation.parse().unwrap(), shot.parse().unwrap())
        };
        text.lines().map(pair).max().unwrap_or((0, 0))
    }

    /// Goes on without faults. Nothing that was acknowledged may be lost, and a file that a dead
    /// writer left is gone.
    fn check(&self, what: &str) {
        let mut store =
            Store::open(&self.folder, 0, 1, false).unwrap_or_else(|e| panic!("{what}: {e}"));
        let acknowledged = self.acknowledged();
        let found = match newest(&mut store) {
            Ok(found) => found,
            // A bit of the first generation was flipped, and the process was killed before it read
            // the generation back: an error tells it, and nothing that was acknowledged is lost.
            Err(e) if what.starts_with("random") && acknowledged == (0, 0) => {
                assert!(e.message.contains("no generation can be read"), "{what}: {e}");
                drop(store);
                return self.reset();
            }
            Err(e) => panic!("{what}: {e}"),
        };
        assert!(
            found.0 > acknowledged.0 || found == acknowledged,
            "{what}: found {found:?}, and {acknowledged:?} was published"
        );
        let next = publish(&mut store, found.1 + 1).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(newest(&mut store).unwrap(), (next, found.1 + 1), "{what}");
        for entry in fs::read_dir(&self.folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(!name.ends_with(".tmp"), "{what}: {name}");
        }
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Returns the kinds of the calls that a run of that many rounds makes without faults, in their
/// order.
fn calls(case: &Case, rounds: u32) -> Vec<String> {
    case.reset();
    let (_, log) = case.play("any:*:none", rounds);
    case.check("no fault");
    assert_eq!(case.acknowledged(), (3 * u64::from(rounds), 3 * i64::from(rounds)));
    log.lines().map(|line| line.trim_end_matches(" none").to_owned()).collect()
}

/// Lets call n of a run of three generations have the fault, for every n that it can have.
fn exhaust(fault: &str) {
    let Some(case) = Case::new(&format!("persist-{fault}")) else { return };
    // Long tests have a second process's part in the run, which finds generations.
    let rounds = cases(1, 2);
    let calls = calls(&case, rounds);
    let moves = |call: &str| matches!(call, "read" | "write");
    let mut faults = 0;
    for (n, call) in (1..).zip(&calls) {
        if matches!(fault, "short" | "flip") && !moves(call) {
            continue;
        }
        case.reset();
        let rule = format!("any:{n}:{fault}");
        let (status, log) = case.play(&rule, rounds);
        let what = format!("{rule} ({call})");
        let dies = matches!(fault, "kill" | "torn" | "power");
        assert_eq!((status.signal().is_some(), log.lines().count()), (dies, 1), "{what}");
        case.check(&what);
        faults += 1;
    }
    assert!(faults > 20, "{fault}: {faults} faults in {} calls", calls.len());
    println!("{fault}: {faults} faults, none with a wrong result");
}

#[test]
fn a_process_killed_at_any_call_leaves_the_newest_complete_generation() {
    exhaust("kill");
}

#[test]
fn a_process_killed_within_any_write_leaves_the_newest_complete_generation() {
    exhaust("torn");
}

#[test]
fn a_power_cut_at_any_call_leaves_the_newest_complete_generation() {
    exhaust("power");
}

#[test]
fn an_error_of_any_call_leaves_the_newest_complete_generation() {
    ["EIO", "ENOSPC"].into_iter().for_each(exhaust);
}

#[test]
fn an_unusual_error_of_any_call_leaves_the_newest_complete_generation() {
    let all = ["EINTR", "EINVAL", "EXDEV", "EROFS"];
    let long = long();
    all.into_iter().take(if long { 4 } else { 2 }).for_each(exhaust);
}

#[test]
fn short_writes_and_reads_and_flipped_bits_leave_the_newest_complete_generation() {
    ["short", "flip"].into_iter().for_each(exhaust);
}

/// What does no harm is no error: interrupted calls, short reads and writes.
#[test]
fn interrupted_and_short_calls_are_made_again() {
    let Some(case) = Case::new("persist-again") else { return };
    let calls = calls(&case, 1);
    let all_short = (1..=calls.len()).step_by(3).map(|n| format!("any:{n}:EINTR"));
    for rules in all_short.collect::<Vec<_>>().chunks(15) {
        case.reset();
        let (_, log) = case.play(&rules.join(","), 1);
        assert_eq!((case.acknowledged(), log.lines().count()), ((3, 3), rules.len()), "{rules:?}");
    }
    for rule in ["write:*:short", "read:*:short"] {
        case.reset();
        let (_, log) = case.play(rule, 1);
        assert_eq!(case.acknowledged(), (3, 3), "{rule}");
        assert!(log.lines().count() > 40, "{rule}: {log}");
    }
}

/// A disk that stays full or broken: every generation fails, no call hangs, and the last generation
/// stays.
#[test]
fn a_disk_that_stays_full_or_broken_keeps_what_it_has() {
    let Some(case) = Case::new("persist-stays") else { return };
    for rule in
        ["write:1+:ENOSPC", "write:1+:EIO", "fsync:1+:EIO", "rename:1+:EROFS", "open:4+:EACCES"]
    {
        case.reset();
        case.play("any:9999:none", 1);
        assert_eq!(case.acknowledged(), (3, 3));
        let (_, log) = case.play(rule, 2);
        assert_eq!(case.acknowledged(), (3, 3), "{rule}");
        assert!(log.lines().count() >= 2, "{rule}: {log}");
        case.check(rule);
    }
}

/// Faults of all kinds at random, with the same seeds each time: 1,200, in long tests 12,000.
#[test]
fn random_faults_give_no_wrong_result() {
    let Some(case) = Case::new("persist-random") else { return };
    let long = long();
    let (most, mut faults, mut kills, mut seed) = (if long { 12_000 } else { 1200 }, 0, 0, 0);
    while faults < most {
        if seed % 20 == 0 {
            case.reset();
        }
        let rule = format!("random:{}:{seed}", [10, 30, 100][seed % 3]);
        let (status, log) = case.play(&rule, 20);
        case.check(&rule);
        faults += log.lines().count();
        kills += usize::from(status.signal().is_some());
        seed += 1;
    }
    assert!(kills > 10, "{kills} kills");
    println!(
        "{faults} faults in {seed} processes, {kills} of them killed; none with a wrong result"
    );
}

/// A limit on the size of files (`ulimit -f`): the write that passes it raises SIGXFSZ, whose
/// default action ends the process. Here it is an error.
#[test]
fn a_limit_on_the_size_of_files_is_an_error_and_no_signal() {
    let Some(case) = Case::new("persist-limit") else { return };
    case.play("", 1);
    assert_eq!(case.acknowledged(), (3, 3));
    for limit in [1, 100, 4096, 1 << 20, (1 << 20) + 4096] {
        let (status, _) = case.play_with("", 2, &|command| {
            command.env(LIMIT, limit.to_string());
        });
        assert!(status.success());
        assert_eq!(case.acknowledged(), (3, 3), "{limit} bytes");
    }
    case.check("limit");
}

/// Runs `body` in a folder that is a file system of its own, of 3.5 MB, which only root can mount.
fn on_a_small_disk(name: &str, body: impl Fn(&Path) + std::panic::RefUnwindSafe) {
    let dir = tempdir(name);
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=3500k", "none"]).arg(&dir);
    if !mount.output().is_ok_and(|output| output.status.success()) {
        return println!("skipped: this user may not mount a file system");
    }
    let result = std::panic::catch_unwind(|| body(&dir));
    assert!(Command::new("umount").arg(&dir).status().unwrap().success());
    result.unwrap();
}

#[test]
fn a_full_file_system_keeps_the_last_generations() {
    on_a_small_disk("persist-full", |dir| {
        let mut store = Store::open(&dir.join("restart"), 0, 1, false).unwrap();
        for shot in [1, 2, 3] {
            publish(&mut store, shot).unwrap();
        }
        // There is room for three generations of 1 MiB, and now only for two.
        fs::write(dir.join("other"), vec![1; 800_000]).unwrap();
        for shot in [4, 5] {
            let error = publish(&mut store, shot).unwrap_err();
            assert!(error.message.contains("No space left on device"), "{error}");
            assert_eq!(newest(&mut store).unwrap(), (3, 3));
        }
        fs::remove_file(dir.join("other")).unwrap();
        publish(&mut store, 6).unwrap();
        assert_eq!(newest(&mut store).unwrap().1, 6);
    });
}

#[test]
fn a_read_only_file_system_is_an_error_and_can_be_listed() {
    on_a_small_disk("persist-read-only", |dir| {
        let folder = dir.join("restart");
        let mut store = Store::open(&folder, 0, 1, false).unwrap();
        publish(&mut store, 1).unwrap();
        drop(store);
        let remount = |how: &str| {
            let status = Command::new("mount").args(["-o", how]).arg(dir).status();
            assert!(status.unwrap().success());
        };
        remount("remount,ro");
        let error = Store::open(&folder, 0, 1, false).err().unwrap();
        assert!(
            error.message.contains("Read-only file system")
                && error.message.contains(folder.to_str().unwrap()),
            "{error}"
        );
        let new = Store::open(&dir.join("new"), 0, 1, false).err().unwrap();
        assert!(new.message.contains("Read-only file system"), "{new}");
        let file = File::open(folder.join(FileName::Generation(1).text(0))).unwrap();
        Container::open(file).unwrap().verify().unwrap();
        remount("remount,rw");
        assert_eq!(newest(&mut Store::open(&folder, 0, 1, false).unwrap()).unwrap(), (1, 1));
    });
}
