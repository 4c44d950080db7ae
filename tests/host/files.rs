//! Everything that can be wrong with a file of the library: configuration, recorded schedule,
//! profile, timeline, performance log (tests/cuda/images.rs covers files of compiled kernels).
//! A file that cannot be read is an error that names the file; a file that cannot be written is a
//! warning. The session's states stay right, no signal ends the process, no call hangs, and no file
//! is left half written.

mod child;

use crate::common;
use child::{report, run, run_with, spawn, Report};
use common::tempdir;
use gpuzip::predict::Profile;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
#[ignore = "runs in a process of its own"]
fn plays() {
    child::play();
}

/// Name of each file that a session reads, and the configuration lines that name it.
const READ: [(&str, &str); 2] = [
    ("trace", "checkpointing_algorithm = trace\ntrace_file_path = trace\n"),
    ("profile", "profile_path = profile\n"),
];
const WRITTEN: [(&str, &str); 3] = [
    ("profile", "profile_path = profile\n"),
    ("timeline", "trace_out = timeline\n"),
    ("gpuzip_performance.csv", "enable_performance_log = 1\n"),
];
const BASE: &str = "backend = host\nlog_level = debug\n";
const PLAN: &str =
    "checkpointing_algorithm = revolve\ncheckpointing_snaps = 3\ncache_capacity = 1\n";

/// A configuration with `lines`, and with `PLAN` where `lines` name no algorithm.
fn config(lines: &str) -> String {
    let plan = if lines.contains("checkpointing_algorithm") { "" } else { PLAN };
    format!("{BASE}{plan}{lines}")
}

/// A configuration that makes a session write all files of `WRITTEN`.
fn all_written() -> String {
    config(&WRITTEN.map(|(_, line)| line).concat())
}

/// Creates the folder of case `name` in the folder `test`.
fn case(test: &Path, name: &str) -> PathBuf {
    let folder = test.join(name);
    std::fs::create_dir(&folder).unwrap();
    folder
}

fn make_fifo(path: &Path) {
    let name = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: `name` is a NUL-terminated string that outlives the call.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.retain(|name| !matches!(name.as_str(), "report" | "session.cfg"));
    names.sort();
    names
}

/// Checks that the timeline is complete JSON and returns its number of ended shots.
fn shots_in(timeline: &Path) -> usize {
    let text = std::fs::read(timeline).unwrap();
    let whole: serde_json::Value = serde_json::from_slice(&text)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&text)));
    whole["traceEvents"].as_array().unwrap().iter().filter(|event| event["name"] == "shot").count()
}

/// Checks that every row of a performance log is complete and returns their number.
fn rows_in(log: &Path) -> usize {
    let text = std::fs::read_to_string(log).unwrap();
    assert!(text.ends_with('\n'), "{text}");
    let cells: Vec<usize> = text.lines().map(|line| line.split(',').count()).collect();
    assert!(text.starts_with("process,shot,") && cells.iter().all(|n| *n == cells[0]), "{text}");
    cells.len() - 1
}

/// An object in the place of a regular file: its name, the function that creates the object at a
/// path, and a part of the message about it.
type Obstacle = (&'static str, fn(&Path), &'static str);

fn obstacles() -> [Obstacle; 6] {
    [
        ("fifo", make_fifo, "is a FIFO (a pipe): give a regular file"),
        ("device", |path| symlink("/dev/zero", path).unwrap(), "is a device: give a regular file"),
        (
            "socket",
            |path| drop(std::os::unix::net::UnixListener::bind(path).unwrap()),
            "is a socket: give a regular file",
        ),
        ("folder", |path| std::fs::create_dir(path).unwrap(), "is a folder: give a regular file"),
        ("loop", |path| symlink(path.file_name().unwrap(), path).unwrap(), "symbolic links"),
        (
            "large",
            |path| std::fs::File::create(path).unwrap().set_len(1 << 34).unwrap(),
            "is too large",
        ),
    ]
}

#[test]
fn what_is_no_regular_file_is_refused_when_it_is_read() {
    let test = tempdir("files-read");
    for (kind, make, text) in obstacles() {
        for (file, lines) in READ {
            let folder = case(&test, &format!("{kind}-{file}"));
            make(&folder.join(file));
            let Report { text: said, .. } = run(&folder, &config(lines), "");
            let error = said.lines().next().unwrap();
            assert!(
                error.starts_with("gpuzip_init: ") && error.contains(file) && error.contains(text),
                "{kind}: {said}"
            );
        }
        // The configuration file itself.
        let file = test.join(format!("{kind}.cfg"));
        make(&file);
        let error = gpuzip::capi::Loaded::new(Some(&file)).err().unwrap().to_string();
        assert!(
            error.contains(&file.display().to_string()) && error.contains(text),
            "{kind}: {error}"
        );
    }
    assert!(gpuzip::capi::Loaded::new(Some(&test.join("none")))
        .is_err_and(|e| e.message.contains("No such file")));
}

#[test]
fn what_is_no_regular_file_is_a_warning_when_it_is_written() {
    let test = tempdir("files-written");
    for (kind, make, text) in obstacles().into_iter().filter(|(kind, ..)| *kind != "large") {
        // A session reads its profile before writing it, and refuses it while reading.
        for (file, lines) in &WRITTEN[1..] {
            let folder = case(&test, &format!("{kind}-{file}"));
            make(&folder.join(file));
            let Report { text: said, .. } = run(&folder, &config(lines), "");
            assert!(
                said.starts_with("ok\n") && said.contains(text) && said.contains(file),
                "{kind}: {said}"
            );
            assert_eq!(names(&folder), [*file], "{kind}");
        }
    }
}

#[test]
fn folders_that_are_missing_or_not_to_be_written_are_warnings() {
    let test = tempdir("files-folders");
    let lines =
        "profile_path = sub/profile\ntrace_out = sub/timeline\nenable_performance_log = 1\n";
    let play = |folder: &Path, obstacle: &str| {
        let log = |command: &mut Command| {
            command.env("GPUZIP_PERFORMANCE_LOG", "sub/log");
        };
        run_with(folder, &config(lines), obstacle, &log).text
    };
    let missing = case(&test, "missing");
    let said = play(&missing, "");
    assert!(
        said.starts_with("ok\n") && said.matches("No such file or directory").count() == 3,
        "{said}"
    );
    assert!(names(&missing).is_empty());
    // SAFETY: geteuid takes no pointer and cannot fail.
    let obstacle = if unsafe { libc::geteuid() } == 0 { "user" } else { "" };
    let closed = case(&test, "read-only");
    std::fs::create_dir(closed.join("sub")).unwrap();
    std::fs::set_permissions(closed.join("sub"), PermissionsExt::from_mode(0o555)).unwrap();
    if obstacle == "user" && !can_be_entered_by_others(&closed) {
        return println!(
            "skipped: {} cannot be entered by a user who is not root",
            closed.display()
        );
    }
    let said = play(&closed, obstacle);
    assert!(said.starts_with("ok\n") && said.matches("Permission denied").count() == 3, "{said}");
    assert!(names(&closed.join("sub")).is_empty());
}

fn can_be_entered_by_others(folder: &Path) -> bool {
    folder.ancestors().all(|folder| {
        std::fs::metadata(folder).is_ok_and(|found| found.permissions().mode() & 0o5 == 0o5)
    })
}

/// The operating system's limit on the size of files stands for a full disk: the write that passes
/// the limit writes the bytes that fit; the next write fails and raises SIGXFSZ, whose default
/// action ends the process.
#[test]
fn where_there_is_no_room_files_stay_whole() {
    let test = tempdir("files-full");
    let first = case(&test, "first");
    assert!(run(&first, &all_written(), "shots=2").text.starts_with("ok\n"));
    let size = |file: &str| std::fs::metadata(first.join(file)).unwrap().len();
    let [profile, timeline, log] = WRITTEN.map(|(file, _)| size(file));
    let mut limits = vec![0, 1, profile - 1, log - 1, log + 1, log + 40];
    limits.extend((1..6).map(|k| k * timeline / 6));
    for limit in limits {
        let folder = case(&test, &format!("limit-{limit}"));
        for (file, _) in WRITTEN {
            std::fs::copy(first.join(file), folder.join(file)).unwrap();
        }
        let said = run(&folder, &all_written(), &format!("shots=2 fsize={limit}")).text;
        assert!(said.starts_with("ok\n") && said.contains("File too large"), "{limit}: {said}");
        let mut left = names(&folder);
        left.sort();
        assert_eq!(
            left,
            ["gpuzip_performance.csv", "profile", "timeline"],
            "{limit}: no temporary file"
        );
        // A profile is shorter by what could not be measured, and so a limit below the size of the
        // old one may leave room for a new one.
        let profile_now = std::fs::read(folder.join("profile")).unwrap();
        let is_old = profile_now == std::fs::read(first.join("profile")).unwrap();
        assert!(is_old || profile_now.len() as u64 <= limit, "{limit}: {profile_now:?}");
        assert!(Profile::from_bytes(&profile_now).is_ok(), "{limit}: {profile_now:?}");
        // No limit leaves room for a new timeline, so the old timeline stays.
        let same = |file: &str| {
            std::fs::read(folder.join(file)).unwrap() == std::fs::read(first.join(file)).unwrap()
        };
        assert!(same("timeline"), "{limit}: the old timeline");
        assert!(rows_in(&folder.join("gpuzip_performance.csv")) >= 2, "{limit}");
        // Rows that a later session appends do not run into an earlier, incomplete row.
        assert!(run(&folder, &config(WRITTEN[2].1), "").text.starts_with("ok\n"));
        assert!(rows_in(&folder.join("gpuzip_performance.csv")) >= 3, "{limit}");
    }
}

/// Fills a mounted file system instead of limiting the size of files. Only root may mount one.
#[test]
fn a_full_disk_is_a_warning() {
    let test = tempdir("files-disk");
    let disk = case(&test, "disk");
    common::on_small_disk(&disk, "64k", || {
        for file in ["session.cfg", "report"] {
            std::fs::write(test.join(file), "").unwrap();
        }
        let lines =
            "profile_path = disk/profile\ntrace_out = disk/timeline\nenable_performance_log = 1\n";
        let play = |shots: u32| {
            let log = |command: &mut Command| {
                command.env("GPUZIP_PERFORMANCE_LOG", "disk/log");
            };
            run_with(&test, &config(lines), &format!("shots={shots}"), &log).text
        };
        assert!(play(1).starts_with("ok\n"));
        // Leave at most a page or two of the file system free.
        let used: u64 = names(&disk)
            .iter()
            .map(|name| std::fs::metadata(disk.join(name)).unwrap().len().next_multiple_of(4096))
            .sum();
        std::fs::write(disk.join("rest"), vec![1; (65536 - used) as usize]).unwrap();
        let said = play(40);
        assert!(said.starts_with("ok\n") && said.contains("No space left on device"), "{said}");
        gpuzip::predict::Profile::from_bytes(&std::fs::read(disk.join("profile")).unwrap())
            .unwrap();
        assert!(rows_in(&disk.join("log")) >= 1);
        if disk.join("timeline").exists() {
            shots_in(&disk.join("timeline"));
        }
        assert!(!names(&disk).iter().any(|name| name.ends_with(".part")));
    });
}

/// Where descriptors 0 to 2 are closed, no file of the library gets one of these descriptors:
/// otherwise the application's output would be written into the file.
#[test]
fn closed_standard_streams_are_not_taken() {
    let test = tempdir("files-closed");
    let trace = gpuzip::schedule::Schedule::revolve(20, 3).unwrap();
    gpuzip::schedule::trace::write(
        trace.actions(),
        std::fs::File::create(test.join("trace")).unwrap(),
    )
    .unwrap();
    let traced = config(&format!("{}{}", READ[0].1, WRITTEN.map(|(_, line)| line).concat()));
    for (lines, closed) in [
        (&traced, "closed"),
        (&all_written(), "closed=0"),
        (&traced, "closed=1"),
        (&all_written(), "closed=2"),
    ] {
        let said = run(&test, lines, &format!("{closed} logs shots=2")).text;
        assert!(said.starts_with("ok\n"), "{closed}: {said}");
        assert_eq!(shots_in(&test.join("timeline")), 2, "{closed}");
    }
    assert_eq!(rows_in(&test.join("gpuzip_performance.csv")), 8);
    gpuzip::predict::Profile::from_bytes(&std::fs::read(test.join("profile")).unwrap()).unwrap();
}

/// The library also writes log lines to stderr: neither a pipe whose reader is gone (SIGPIPE) nor a
/// file that may not grow (SIGXFSZ) ends the application.
#[test]
fn log_lines_that_cannot_be_written_end_nothing() {
    let test = tempdir("files-log");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let file = || std::fs::File::create(test.join("stderr")).unwrap();
    let said = run_with(&test, &config(""), "logs", &|command| {
        command.stderr(writer.try_clone().unwrap());
    });
    assert!(said.text.starts_with("ok\n"));
    let said = run_with(&test, &config(""), "logs fsize=0", &|command| {
        command.stderr(file());
    });
    assert!(said.text.starts_with("ok\n"));
    let said = run(&test, &config("error_bound = 1e-3\n"), "logs").stderr;
    assert!(said.contains("error_bound = 0.001 with compressor = 0 (none)"), "{said}");
}

/// Source of a library that is loaded before libc: every write writes at most 7 bytes, and every
/// other write is interrupted (EINTR).
const SLOW: &str = "
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <unistd.h>
static int calls;
ssize_t write(int fd, const void *from, size_t n)
{
    ssize_t (*next)(int, const void *, size_t) = (ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, \"write\");
    if (fd < 3) return next(fd, from, n);
    if (__atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) % 2) { errno = EINTR; return -1; }
    usleep(20);
    return next(fd, from, n < 7 ? n : 7);
}
ssize_t pwrite64(int fd, const void *from, size_t n, off64_t at)
{
    ssize_t (*next)(int, const void *, size_t, off64_t) = (ssize_t (*)(int, const void *, size_t, off64_t))dlsym(RTLD_NEXT, \"pwrite64\");
    if (__atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) % 2) { errno = EINTR; return -1; }
    return next(fd, from, n < 7 ? n : 7, at);
}
";

/// While three processes write slowly, a reader always finds a complete profile, and the processes'
/// rows in one performance log do not mix.
#[test]
fn short_and_interrupted_writes_make_whole_files() {
    if !common::have("cc") {
        return;
    }
    let test = tempdir("files-slow");
    std::fs::write(test.join("slow.c"), SLOW).unwrap();
    let library = test.join("slow.so");
    common::run(
        Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(&library)
            .arg(test.join("slow.c"))
            .arg("-ldl"),
    );
    let folders = [0, 1, 2].map(|k| case(&test, &format!("process-{k}")));
    let children = folders.each_ref().map(|folder| {
        let lines = all_written().replace("= profile", "= ../profile");
        spawn(folder, &lines, "shots=4", &|command| {
            command.env("LD_PRELOAD", &library).env("GPUZIP_PERFORMANCE_LOG", "../log");
        })
    });
    let mut children: Vec<_> = children.into_iter().collect();
    let mut seen = 0;
    while children.iter_mut().any(|child| child.try_wait().unwrap().is_none()) {
        if let Ok(bytes) = std::fs::read(test.join("profile")) {
            gpuzip::predict::Profile::from_bytes(&bytes)
                .unwrap_or_else(|e| panic!("{} bytes: {e}", bytes.len()));
            seen += 1;
        }
    }
    for (folder, child) in folders.iter().zip(children) {
        let said = report(folder, child).text;
        assert!(said.starts_with("ok\n") && !said.contains("could not"), "{said}");
        assert_eq!(shots_in(&folder.join("timeline")), 4);
    }
    println!("{seen} reads of the profile");
    assert_eq!(rows_in(&test.join("log")), 12);
    assert!(!names(&test).iter().any(|name| name.ends_with(".part")));
}

/// A timeline has one writer: while a process writes `run.json`, a second process writes
/// `run-2.json`; after both have ended, a third process replaces `run.json`.
#[test]
fn processes_with_one_timeline_do_not_share_it() {
    let test = tempdir("files-two");
    let lines = config("trace_out = ../run.json\n");
    let folders = [0, 1, 2].map(|k| case(&test, &format!("process-{k}")));
    let mut first = spawn(&folders[0], &lines, "waits shots=3", &|_| ());
    let mut line = String::new();
    let mut output = std::io::BufReader::new(first.stdout.take().unwrap());
    while !line.contains("ready") {
        line.clear();
        assert_ne!(std::io::BufRead::read_line(&mut output, &mut line).unwrap(), 0);
    }
    assert!(run(&folders[1], &lines, "shots=2").text.starts_with("ok\n"));
    drop(first.stdin.take());
    std::io::copy(&mut output, &mut std::io::sink()).unwrap();
    assert!(report(&folders[0], first).text.starts_with("ok\n"));
    assert_eq!((shots_in(&test.join("run.json")), shots_in(&test.join("run-2.json"))), (3, 2));
    assert!(run(&folders[2], &lines, "shots=1").text.starts_with("ok\n"));
    assert_eq!((shots_in(&test.join("run.json")), shots_in(&test.join("run-2.json"))), (1, 2));
    assert!(!test.join("run-3.json").exists());
}
