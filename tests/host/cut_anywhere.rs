//! A generation wherever a shot can be cut: after every action, while the application holds memory of
//! the session, and while snapshots are on their way. A session that goes on from there restores the
//! same bits and counts the same as one that was never cut. The states are tiny and the shots short, so
//! that a test plays many plans.

use crate::common::prelude::*;
use crate::common::wave::folder;
use std::cell::Cell;
use std::path::Path;

/// Values of a raw state, and of one that a codec compresses.
const RAW: usize = 1;
const CODED: usize = 512;

#[derive(Clone, Debug)]
struct Job {
    config: Config,
    steps: i64,
    /// Values of a state.
    values: usize,
    /// Zero copy: whether a restored state is released before the next action.
    releases: bool,
}

/// A generation after action `it`, or, if `inside`, while that action is served: before `save_begin` of
/// a FORWARD, and before the application releases a restored state.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cut {
    it: i64,
    inside: bool,
}

/// What an application sees of a shot whose restored states are right: number and kind of every
/// action, and the statistics that do not depend on time.
type Seen = (Vec<(i64, Kind)>, Vec<u64>);

fn app_of<'a>(job: &Job) -> HostApp<'a> {
    let shapes = [field([job.values as u64, 1, 1], Scalar::F64)];
    HostApp::new(&shapes, |_, ts, _, _| (ts * 3 + 1) as f64)
}

fn open(job: &Job, dir: &Path) -> Result<Session> {
    let config = job.config.clone().with(|c| c.restart.folder = Some(dir.into()));
    let mut session = Session::new(config, job.steps, &unplaced(&app_of(job).shapes))?;
    session.persist_open((0, 1), Box::new(Ok))?;
    Ok(session)
}

/// Writes a generation after action `it`, and returns a new session that goes on from there.
fn cut(job: &Job, dir: &Path, mut session: Session, app: &mut HostApp, it: i64) -> Session {
    let arrays = app.arrays();
    let failed = |e| panic!("{job:?}, action {it}: {e}");
    session.persist_write(0, &arrays, HOST).unwrap_or_else(failed);
    session.persist_wait().unwrap();
    // One session at a time uses a folder.
    drop(session);
    let mut session = open(job, dir).unwrap();
    let found = session.persist_find().unwrap().unwrap();
    assert_eq!((found.shot, found.it), (0, it));
    session.persist_read(&arrays, HOST).unwrap_or_else(failed);
    app.slots.iter_mut().for_each(Slots::clear);
    session
}

/// Plays a shot with these cuts.
fn play(job: &Job, dir: &Path, cuts: &[Cut]) -> Result<Seen> {
    let _ = std::fs::remove_dir_all(dir);
    let (mut session, holds) = (open(job, dir)?, Cell::new(false));
    let mut app = app_of(job);
    if job.config.tiers.zero_copy {
        app.slots = Some(Slots::new(true, || job.releases && !holds.get()));
    }
    let mut told = Vec::new();
    loop {
        let tick = session.get_action().unwrap();
        let (it, kind) = (tick.it, tick.action.kind);
        let inside = cuts.contains(&Cut { it, inside: true });
        holds.set(inside);
        let begins = kind == Kind::Forward && tick.action.flags & flags::NEXT_IS_SAVE != 0;
        if begins && inside {
            session = cut(job, dir, session, &mut app, it);
        }
        app.serve(&mut session, tick).unwrap();
        if kind == Kind::Terminate {
            break;
        }
        if kind == Kind::Restore && inside {
            session = cut(job, dir, session, &mut app, it);
        }
        told.push((it, kind));
        if cuts.contains(&Cut { it, inside: false }) {
            session = cut(job, dir, session, &mut app, it);
        }
    }
    assert_eq!(i64::from(app.reversed), job.steps);
    session.synchronize().unwrap();
    Ok((told, counts(&session.stats()?)))
}

/// How a job stores its snapshots.
const STORAGE: [(Method, bool, bool); 4] = [
    (Method::None, false, false),
    (Method::None, true, false),
    (Method::Fp16, false, false),
    (Method::Fp16, false, true),
];

fn job(algorithm: Algorithm, steps: i64, snapshots: u32, cache: u32, kind: usize) -> Job {
    let (method, disk, mixed) = STORAGE[kind % STORAGE.len()].clone();
    let values = if method == Method::None { RAW } else { CODED };
    // A slot has whole 256 bytes.
    let state = (values as u64 * 8).next_multiple_of(256);
    let snapshots = if algorithm == Algorithm::StoreAll { 0 } else { snapshots };
    let config = config(algorithm, snapshots, if mixed { 0 } else { cache }).with(|c| {
        c.tiers.device_budget = if mixed { u64::from(cache + 2) * state } else { 0 };
        // Four of the slots are the staging buffers of the disk.
        c.tiers.host_budget = if disk { (4 + u64::from(cache % 2)) * state } else { 0 };
        c.tiers.disk_budget = if disk { 1 << 20 } else { 0 };
        c.tiers.zero_copy = kind / STORAGE.len() > 0;
        c.tiers.mixed_storage = mixed.then_some(true);
        c.codec.compression_factor = if mixed { 2.0 } else { 0.0 };
        c.codec.settings = coding(method, ErrorBound::OfMax(1e-3));
    });
    Job { config, steps, values, releases: kind / STORAGE.len() == 2 }
}

/// Cuts a shot of `job` everywhere, in turn, and in every `twice`-th place a second time, some actions
/// later. Returns the number of shots that were cut.
fn check(job: &Job, dir: &Path, twice: usize) -> usize {
    let whole = match play(job, dir, &[]) {
        Ok(seen) => seen,
        // Some combinations have no plan.
        Err(error) if matches!(error.code, Code::Budget | Code::Config | Code::Unsupported) => {
            return 0
        }
        Err(error) => panic!("{job:?}: {error}"),
    };
    let played = |cuts: &[Cut]| {
        assert_eq!(whole, play(job, dir, cuts).unwrap(), "{job:?}, {cuts:?}");
        1
    };
    let mut shots = 0;
    for (k, &(it, kind)) in whole.0.iter().enumerate() {
        let inside = job.config.tiers.zero_copy && matches!(kind, Kind::Forward | Kind::Restore);
        for inside in [false, true].into_iter().take(1 + usize::from(inside)) {
            let cut = Cut { it, inside };
            shots += played(&[cut]);
            if k % twice == 1 {
                let later = Cut { it: it + 1 + k as i64 % 5, inside: false };
                shots += played(&[cut, later]);
            }
        }
    }
    shots
}

#[test]
fn a_slot_that_the_application_holds_is_never_read_for_a_generation() {
    let dir = folder("cut-held");
    let mut job = job(Algorithm::TwoLevel, 25, 0, 2, STORAGE.len() + 1);
    job.config.schedule.chunk = 3;
    let [.., disk_reads, disk_writes, _, _, _] = play(&job, &dir, &[]).unwrap().1[..] else {
        unreachable!()
    };
    assert!(disk_reads > 0 && disk_writes > 0);
    assert!(check(&job, &dir, 7) > 100);
    let _ = std::fs::remove_dir_all(&dir);
}

/// A session goes on after a generation, whether the application holds a slot then or not.
#[test]
fn a_generation_may_be_written_while_the_application_holds_a_slot() {
    let (dir, mut turn) = (folder("cut-writes"), 0);
    let job = job(Algorithm::Revolve, 8, 4, 0, STORAGE.len());
    let mut session = open(&job, &dir).unwrap();
    let mut app = app_of(&job);
    let releases = || {
        turn += 1;
        turn % 2 == 0
    };
    app.slots = Some(Slots::new(true, releases));
    let (mut begun, mut acquired) = (0, 0);
    while let Some(Tick { action, .. }) = step(&mut session, &mut app).unwrap() {
        session.persist_write(0, &app.arrays(), HOST).unwrap();
        begun += u32::from(action.flags & flags::NEXT_IS_SAVE != 0);
        acquired += u32::from(action.kind == Kind::Restore);
    }
    assert!(begun > 0 && acquired > 2);
    drop(session);
    let _ = std::fs::remove_dir_all(&dir);
}

/// A transfer that the release of a state has issued is issued once more after a restart, and counts
/// once.
#[test]
fn a_transfer_that_a_release_has_issued_counts_once() {
    let dir = folder("cut-early");
    let job = job(Algorithm::StoreAll, 8, 0, 2, 2 * STORAGE.len() + 1);
    assert!(job.releases && check(&job, &dir, 7) > 30);
    let _ = std::fs::remove_dir_all(&dir);
}

#[test]
fn a_shot_that_is_cut_anywhere_goes_on_as_if_nothing_had_happened() {
    let dir = folder("cut-anywhere");
    let every = cases(97, 1);
    let (mut jobs, mut shots, mut number) = (0, 0, 0);
    for (steps, snapshots, cache, kind) in (1..=8i64).flat_map(|steps| {
        let inner = move |snapshots| {
            (0..5)
                .flat_map(move |cache| (0..12).map(move |kind| (cache, kind)))
                .map(move |(cache, kind)| (steps, snapshots, cache, kind))
        };
        (1..=steps as u32).flat_map(inner)
    }) {
        for algorithm in ALGORITHMS {
            number += 1;
            if number % every != 0 || (algorithm == Algorithm::StoreAll && snapshots > 1) {
                continue;
            }
            let here = check(&job(algorithm, steps, snapshots, cache, kind), &dir, 5);
            (jobs, shots) = (jobs + usize::from(here > 0), shots + here);
        }
    }
    println!("{jobs} plans, {shots} shots that were cut");
    assert!(jobs > 60 && shots > 500, "{jobs} plans, {shots} shots");
    let _ = std::fs::remove_dir_all(&dir);
}
