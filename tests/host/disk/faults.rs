//! Disks that fail, are full or change bytes, and what stays of a session on disk: nothing.

use super::*;

/// Plays a shot. `before` is called before every retrieve.
fn before_restores(
    session: &mut Session,
    app: &mut HostApp,
    mut before: impl FnMut(),
) -> Result<()> {
    play_with(session, app, |_, tick| {
        if tick.action.kind == Kind::Restore {
            before();
        }
    })
}

/// A snapshot whose bytes on disk were changed is not restored: the shot fails with an error that
/// names the state, and the next shot is right.
#[test]
fn changed_bytes_are_an_error() {
    for values in SIZES {
        for changed in ["all", "one bit"] {
            let folder = tempdir(&format!("disk-changed-{values}-{}", &changed[..3]));
            let (mut session, mut app) = on_disk(&folder, values);
            let open = nameless_in(&folder);
            assert_eq!(open.len(), 1);
            let file = std::fs::OpenOptions::new().read(true).write(true).open(&open[0]).unwrap();
            let length = file.metadata().unwrap().len();
            let spoil = || {
                let mut bytes = vec![0; length as usize];
                file.read_exact_at(&mut bytes, 0).unwrap();
                match changed {
                    "all" => bytes.iter_mut().for_each(|byte| *byte ^= 0x55),
                    _ => bytes.iter_mut().step_by(4 * values as usize).for_each(|byte| *byte ^= 4),
                }
                file.write_all_at(&bytes, 0).unwrap();
            };
            let mut times = 0;
            let ended = before_restores(&mut session, &mut app, || {
                times += 1;
                if times == 1 {
                    spoil();
                }
            });
            refused(ended, Code::Io, &["the snapshot of state ", "CRC32C"]);
            let again = session
                .get_action()
                .and_then(|tick| session.retrieve(tick.action.ts.into(), &app.fields(), HOST));
            assert!(again.is_err());
            session.setup().unwrap();
            app.seed = 7;
            app.shot(&mut session).unwrap();
        }
    }
}

/// Bytes that were changed on disk come into no restart file, also where the snapshot is in memory already
/// and not restored yet: if a file is written after the change, no changed snapshot is left, and the shot
/// ends.
#[test]
fn changed_bytes_come_into_no_restart_file() {
    let (mut refused, mut written) = (0, 0);
    for (changed_at, later) in (1..90).flat_map(|k| (0..6).map(move |later| (k, later))) {
        let folder = tempdir("disk-changed-restart");
        let config = config(Some(Algorithm::Revolve), 20, [2, 6, 40], 256).with(|c| {
            c.tiers.disk_folders = vec![folder.clone()];
            c.restart.folder = Some(folder.join("restart"));
        });
        let mut app = app_of(64);
        let mut session = open(config, 90, &app).unwrap();
        session.persist_open((0, 1), Box::new(Ok)).unwrap();
        let file = &nameless_in(&folder)[0];
        let file = std::fs::OpenOptions::new().read(true).write(true).open(file).unwrap();
        let (mut restores, mut is_written) = (0, false);
        let ended = loop {
            match step(&mut session, &mut app) {
                Ok(Some(tick)) if tick.action.kind == Kind::Restore => restores += 1,
                Ok(Some(_)) => continue,
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
            if restores == changed_at {
                let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
                file.read_exact_at(&mut bytes, 0).unwrap();
                bytes.iter_mut().for_each(|byte| *byte ^= 0x55);
                file.write_all_at(&bytes, 0).unwrap();
            }
            if restores == changed_at + later {
                is_written = session.persist_write(0, &[], HOST).is_ok();
                refused += usize::from(!is_written);
            }
        };
        let at = format!("changed after RESTORE {changed_at}, written after {later} more");
        assert!(!is_written || ended.is_ok(), "{at}: {ended:?}");
        written += usize::from(is_written);
    }
    assert!(refused > 10 && written > 0, "{refused} {written}");
}

/// A disk that fails in the middle of a shot is an error of a later call, at the latest of the
/// restore; nothing hangs, and the session can be used when the disk works again.
#[test]
fn a_failing_disk_is_an_error() {
    let Some(folder) = alone("a_failing_disk_is_an_error") else { return };
    for values in SIZES {
        let (mut session, mut app) = on_disk(&folder, values);
        limit_files(2 * 4 * values);
        let parts = ["the snapshot of state ", folder.to_str().unwrap(), "there is no room"];
        refused(app.shot(&mut session), Code::Io, &parts);
        limit_files(libc::RLIM_INFINITY);
        session.setup().unwrap();
        app.shot(&mut session).unwrap();
    }
}

/// A full file system, and one in main memory. Only root may mount it.
#[test]
fn a_full_file_system_is_a_smaller_plan() {
    let folder = tempdir("disk-mounted");
    common::on_small_disk(&folder, "256k", || {
        let config = config(None, 0, [2, 6, 60], 16384)
            .with(|c| c.tiers.disk_folders = vec![folder.clone(), folder.clone()]);
        let mut app = app_of(4096);
        let mut session = open(config, 90, &app).unwrap();
        app.shot(&mut session).unwrap();
        let plan = session.plan().unwrap();
        let taken = session.tiers().disk_bytes(&plan);
        assert!((8 * 16384..=16 * 16384).contains(&taken), "{taken}");
        assert!(session.stats().unwrap().disk_reads > 0);
    });
}

#[test]
fn a_folder_that_cannot_be_used_is_an_error() {
    let folder = tempdir("disk-none");
    std::fs::write(folder.join("file"), "").unwrap();
    for (name, part) in [("missing", "No such file"), ("file", "Not a directory")] {
        let config = config(Some(Algorithm::Revolve), 20, [2, 6, 40], 256)
            .with(|c| c.tiers.disk_folders = vec![folder.clone(), folder.join(name)]);
        refused(open(config, 90, &app_of(64)), Code::Io, &[part, name, "disk_path"]);
    }
}

/// No file has a name while a session runs, and no descriptor stays when it ends.
#[test]
fn no_file_stays() {
    for values in SIZES {
        let folder = tempdir(&format!("disk-nameless-{values}"));
        let is_empty = || std::fs::read_dir(&folder).unwrap().next().is_none();
        for _ in 0..20 {
            let (mut session, mut app) = on_disk(&folder, values);
            before_restores(&mut session, &mut app, || assert!(is_empty())).unwrap();
            assert_eq!((nameless_in(&folder).len(), is_empty()), (1, true));
            drop(session);
            assert_eq!((nameless_in(&folder).len(), is_empty()), (0, true));
        }
    }
}

/// A process that is killed in the middle of a shot leaves nothing.
#[test]
fn nothing_stays_of_a_killed_process() {
    const NAME: &str = "nothing_stays_of_a_killed_process";
    if let Some(folder) = std::env::var_os("GPUZIP_TEST_KILLED") {
        let (mut session, mut app) = on_disk(Path::new(&folder), 1 << 18);
        let mut restores = 0;
        let _ = before_restores(&mut session, &mut app, || {
            restores += 1;
            if restores == 5 {
                println!("in the middle");
                std::thread::sleep(std::time::Duration::from_secs(600));
            }
        });
        return;
    }
    let folder = tempdir("disk-killed");
    let mut child = common::again(NAME)
        .env("GPUZIP_TEST_KILLED", &folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("in the middle") {
        line.clear();
        assert!(std::io::BufRead::read_line(&mut said, &mut line).unwrap() > 0, "the child ended");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(std::fs::read_dir(&folder).unwrap().next().is_none());
}

/// Over many shots, neither descriptors nor memory grow.
#[test]
fn descriptors_and_memory_are_flat() {
    let Some(folder) = alone("descriptors_and_memory_are_flat") else { return };
    let (mut session, mut app) = on_disk(&folder, 64);
    let mut shots = |count: u64| {
        for k in 0..count {
            app.seed = k;
            session.setup().unwrap();
            app.shot(&mut session).unwrap();
        }
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: u64 = pages.split(' ').nth(1).unwrap().parse().unwrap();
        (std::fs::read_dir("/proc/self/fd").unwrap().count(), pages)
    };
    let before = shots(50);
    let after = shots(600);
    assert_eq!(before.0, after.0);
    assert!(after.1 <= before.1 + 200, "{before:?} {after:?}");
}

/// A forked child cannot use the session of its parent, can drop it, and does not disturb it.
#[test]
fn a_forked_child_leaves_the_disk_alone() {
    let Some(folder) = alone("a_forked_child_leaves_the_disk_alone") else { return };
    let (mut session, mut app) = on_disk(&folder, 1 << 18);
    let mut shared = Some(&mut session as *mut Session);
    let session: &mut Session = &mut session;
    let mut forks = 0;
    before_restores(session, &mut app, || {
        forks += 1;
        if forks % 7 != 3 {
            return;
        }
        // SAFETY: the child uses its own copy of the session, and ends without returning.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::alarm(20);
                let pointer = shared.take().unwrap();
                let code = (*pointer).get_action().err().map(|error| error.code);
                std::ptr::drop_in_place(pointer);
                libc::_exit(i32::from(code != Some(Code::Forked)));
            }
            let mut status = -1;
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
            assert_eq!(status, 0);
        }
    })
    .unwrap();
    assert!(forks > 20);
}
