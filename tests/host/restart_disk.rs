//! Restart files and snapshots on disk together: where the disk has no room any more, or fails while
//! restart files are written and read, a run ends with an error or goes on with the right bits.

use crate::common::checksum::fnv;
use crate::common::play::App as _;
use crate::common::prelude::*;
use crate::common::{self, wave};
use common::faults_library;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use wave::{folder, resume, session, write, App, Job, N};

/// Bytes of a snapshot, and the bytes that it takes on disk.
const STATE: u64 = (4 * N as u64).next_multiple_of(256) * 2;
const PAGES: u64 = STATE.next_multiple_of(4096);

/// A job of two shots whose snapshots go to disk in `dir`.
fn job(dir: &Path, algorithm: Option<Algorithm>) -> Job {
    let disk = dir.join("disk");
    std::fs::create_dir_all(&disk).unwrap();
    let config = Config::default().with(|c| {
        c.schedule.algorithm = algorithm;
        c.schedule.snapshots = if algorithm.is_some() { 9 } else { 0 };
        c.tiers.device_budget = 2 * STATE;
        c.tiers.host_budget = 6 * STATE;
        c.tiers.disk_budget = 12 * PAGES;
        c.tiers.disk_folders = vec![disk];
        c.device.backend = Backend::Host;
    });
    Job { config, steps: 18, ends: None }
}

/// A run that goes on from restart files in `dir` where there are any, and writes more of them. Returns
/// a hash of its sums over two shots. Panics with `WRONG` if a restored state is not the one of its
/// time step.
fn run(dir: &Path) -> Result<u64> {
    let job = job(dir, Some(Algorithm::Revolve));
    let mut app = App::new(false);
    app.begin();
    let states: Vec<u64> = (0..job.steps as u32)
        .map(|ts| {
            if ts > 0 {
                app.forward(ts);
            }
            app.live()
        })
        .collect();
    app.begin();
    let mut session = session(&job, &dir.join("restart"), &app)?;
    let (mut shot, mut within) = (0, false);
    if let Some(found) = session.persist_find()? {
        (shot, within) = (found.header.shot, found.header.it >= 0);
        session.persist_read(&app.arrays(), HOST)?;
    }
    while shot < 2 {
        if !std::mem::take(&mut within) {
            session.setup()?;
            app.begin();
            session.persist_write(shot, &app.arrays(), HOST)?;
        }
        while let Some(tick) = step(&mut session, &mut app)? {
            let ts = tick.action.ts;
            if tick.action.kind == Kind::Restore {
                assert_eq!(app.live(), states[ts as usize], "WRONG: state {ts}");
            }
            if tick.it % 9 == 4 {
                session.persist_write(shot, &app.arrays(), HOST)?;
            }
        }
        app.add_up();
        shot += 1;
    }
    let disk_reads = session.stats()?.disk_reads;
    session.close()?;
    assert!(disk_reads > 0, "no snapshot was on disk");
    Ok(fnv(app.stack.bytes().iter()))
}

/// The variable that tells the child process its folder.
const FOLDER: &str = "RESTART_DISK_FOLDER";

/// The child process: one run. Its errors are what the faults are for.
#[test]
#[ignore = "runs in a process of its own"]
fn plays() {
    match run(&PathBuf::from(std::env::var(FOLDER).unwrap())) {
        Ok(hash) => println!("stack {hash:016x}"),
        Err(error) => println!("failed: {error}"),
    }
}

/// Runs the child in `dir` with faults. Returns the hash of its sums, or nothing if it failed or was
/// killed, and what it said; and the faults that it had, one a line.
fn play(dir: &Path, faults: &str) -> (Option<String>, String, String) {
    let log = dir.with_extension("faults");
    let _ = std::fs::remove_file(&log);
    let mut command = common::again("restart_disk::plays");
    command
        .env(FOLDER, dir)
        .env("GPUZIP_FAULTS_DIR", dir)
        .env("GPUZIP_FAULTS", faults)
        .env("GPUZIP_FAULTS_LOG", &log)
        .env("LD_PRELOAD", faults_library().unwrap());
    let output = command.output().unwrap();
    let text = format!(
        "{faults}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    let was_killed = output.status.signal() == Some(libc::SIGKILL);
    assert!((output.status.success() || was_killed) && !text.contains("WRONG"), "{text}");
    let stack = text.lines().find_map(|line| line.split_once("stack ")).map(|line| line.1.into());
    assert!(stack.is_some() || was_killed || text.contains("failed: "), "{text}");
    (stack, text, std::fs::read_to_string(&log).unwrap_or_default())
}

/// Calls on the files of snapshots and of restart files fail, one in each process, or end it: the run
/// has an error or the right sums, and the process after it goes on to the right sums.
#[test]
fn one_fault_of_any_call_gives_no_wrong_state() {
    if faults_library().is_none() {
        return;
    }
    let dir = folder("restart-disk-one");
    let fresh = || {
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
    };
    fresh();
    let (expected, text, log) = play(&dir, "any:*:none");
    let expected = Some(expected.unwrap_or_else(|| panic!("{text}")));
    let calls: Vec<&str> = log.lines().collect();
    let (mut ended, mut went_on) = (0, 0);
    for (k, fault) in
        ["EIO", "ENOSPC", "flip", "kill", "torn", "short", "EINTR"].into_iter().enumerate()
    {
        // Another part of the calls for each fault.
        for n in (1 + 2 * k..=calls.len()).step_by(if long() { 1 } else { 14 }) {
            let is_move = calls[n - 1].starts_with("read") || calls[n - 1].starts_with("write");
            if matches!(fault, "flip" | "short") && !is_move {
                continue;
            }
            fresh();
            let (stack, text, _) = play(&dir, &format!("any:{n}:{fault}"));
            match stack.is_some() {
                true => assert_eq!(stack, expected, "{text}"),
                false => ended += 1,
            }
            let (stack, after, _) = play(&dir, "");
            assert_eq!(stack, expected, "{}\n{text}\n{after}", calls[n - 1]);
            went_on += 1;
        }
    }
    let _ = std::fs::remove_dir_all(&dir);
    println!("{} calls, {went_on} faults, after {ended} of which the run ended", calls.len());
    assert!(ended > 20 && went_on > 100, "{ended} {went_on}");
}

/// Many calls of a process fail at random.
#[test]
fn random_faults_give_no_wrong_state() {
    if faults_library().is_none() {
        return;
    }
    let dir = folder("restart-disk-random");
    std::fs::create_dir_all(&dir).unwrap();
    let (expected, ..) = play(&dir, "");
    let (mut faults, mut lost) = (0, 0);
    for seed in 0..if long() { 400 } else { 12 } {
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        for k in 0..8 {
            let (stack, text, log) =
                play(&dir, &format!("random:{}:{}", 5 + 4 * k, 100 * seed + k));
            faults += log.lines().count();
            if stack.is_some() {
                assert_eq!(stack, expected, "{text}");
            }
        }
        let (stack, text, _) = play(&dir, "");
        // Bits of all generations were flipped, and the processes ended before they had read them
        // back.
        match stack {
            None if text.contains("no generation can be read") => lost += 1,
            stack => assert_eq!(stack, expected, "{text}"),
        }
    }
    let _ = std::fs::remove_dir_all(&dir);
    println!("{faults} faults; {lost} runs had no right generation any more, and said so");
    assert!(faults > 50 && lost < 3, "{faults} {lost}");
}

/// A run that goes on where the disk has less room than when it stopped takes a plan that fits, or has
/// an error that says what is missing; with the room it goes on with the same bits.
#[test]
fn less_room_than_at_the_stop_goes_on_or_names_the_disk() {
    let Some(dir) = alone("less_room_than_at_the_stop_goes_on_or_names_the_disk") else { return };
    let (job, files) = (job(&dir, None), dir.join("restart"));
    let mut whole = App::new(false);
    let mut one = session(&job, &files, &whole).unwrap();
    let plan = one.plan().unwrap();
    let needed = one.tiers().disk_bytes(&plan);
    assert!(needed > 3 * PAGES, "{needed}");
    whole.begin();
    // To the first RESTORE: no snapshot of the forward sweep has been used up.
    while step(&mut one, &mut whole).unwrap().unwrap().action.kind != Kind::Restore {}
    write(&mut one, 0, &whole).unwrap();
    whole.finish(&mut one).unwrap();
    drop(one);
    let (mut went_on, mut failed) = (0, 0);
    for room in 0..=needed / PAGES {
        limit_files(room * PAGES);
        let mut app = App::new(false);
        match resume(&job, &files, &app) {
            Ok((mut two, ..)) => {
                app.finish(&mut two).unwrap();
                assert!(app.stack.bytes() == whole.stack.bytes(), "room {room}");
                went_on += 1;
            }
            no_room => {
                let folder = job.config.tiers.disk_folders[0].to_str().unwrap();
                let parts = ["has room for", "bytes of snapshots", "disk_path", "free space there"];
                refused(no_room, Code::Budget, &[&parts[..], &[folder]].concat());
                failed += 1;
            }
        }
        limit_files(libc::RLIM_INFINITY);
    }
    println!("{went_on} runs went on, {failed} had no room");
    assert!(went_on > 0 && failed > 0, "{went_on} {failed}");
}
