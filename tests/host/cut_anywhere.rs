//! A generation wherever a shot can be cut: after every action, while the application holds memory of
//! the session, and while snapshots are on their way. A session that goes on from there restores the
//! same bits and counts the same as one that was never cut. The states are tiny and the shots short, so
//! that a test plays many plans.

use crate::common;
use crate::common::cases::cases;
use common::tempdir;
use gpuzip::codec::{ErrorBound, Method, Settings};
use gpuzip::config::{Backend, Config};
use gpuzip::device::{AppField, AppMemory, Stream};
use gpuzip::error::{Code, Result};
use gpuzip::layout::Field;
use gpuzip::persist::Name;
use gpuzip::scalar::Scalar;
use gpuzip::schedule::{flags, Algorithm, Kind};
use gpuzip::session::{Array, Session};
use std::path::{Path, PathBuf};
use std::ptr::null_mut;

const STREAM: Stream = Stream(null_mut());

/// Values of a raw state, and of one that a codec compresses.
const RAW: usize = 1;
const CODED: usize = 512;

#[derive(Clone, Debug)]
struct Job {
    config: Config,
    steps: i64,
    /// Values of a state.
    values: usize,
    /// Zero copy: whether `save_begin` comes with the FORWARD before its SAVE, and whether a restored
    /// state is released before the next action.
    begins: bool,
    releases: bool,
}

/// A generation after action `it`, or, if `inside`, while that action is served: before `save_begin` of
/// a FORWARD, and before the application releases a restored state.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cut {
    it: i64,
    inside: bool,
}

/// What an application sees of a shot: number, kind and restored bits of every action, and the
/// statistics that do not depend on time.
type Seen = (Vec<(i64, i32, u64)>, Vec<u64>);

struct App<'a> {
    job: &'a Job,
    dir: &'a Path,
    session: Option<Session>,
    state: Vec<f64>,
    begun: bool,
}

/// The value of every element of u(ts).
fn value(ts: i64) -> f64 {
    (ts * 3 + 1) as f64
}

fn open(job: &Job, dir: &Path) -> Result<Session> {
    let field = Field { n: [job.values as u64, 1, 1], scalar: Scalar::F64, previous_of: None };
    let config = Config { persist_dir: Some(dir.into()), ..job.config.clone() };
    let mut session = Session::new(config, job.steps, &[AppField { field, memory: None }])?;
    session.persist_open((0, 1), Box::new(Ok))?;
    Ok(session)
}

impl<'a> App<'a> {
    fn new(job: &'a Job, dir: &'a Path) -> Result<Self> {
        let _ = std::fs::remove_dir_all(dir);
        let session = Some(open(job, dir)?);
        Ok(App { job, dir, session, state: vec![0.0; job.values], begun: false })
    }

    fn session(&mut self) -> &mut Session {
        self.session.as_mut().unwrap()
    }

    fn field(&mut self) -> AppField {
        let n = [self.job.values as u64, 1, 1];
        let field = Field { n, scalar: Scalar::F64, previous_of: None };
        let bytes = size_of_val(&self.state[..]);
        // SAFETY: the state outlives the session's calls, which copy before they return.
        let memory = unsafe { AppMemory::new(self.state.as_mut_ptr().cast(), bytes) };
        AppField { field, memory: Some(memory) }
    }

    /// Writes a generation after action `it`, and goes on from it with a new session.
    fn cut(&mut self, it: i64) {
        let field = self.field();
        let arrays = [Array { name: Name::new("u").unwrap(), field, changes_within: true }];
        let job = self.job;
        let failed = |e| panic!("{job:?}, action {it}: {e}");
        self.session().persist_write(0, &arrays, STREAM).unwrap_or_else(failed);
        self.session().persist_wait().unwrap();
        // One session at a time uses a folder.
        self.session = None;
        self.session = Some(open(self.job, self.dir).unwrap());
        let found = self.session().persist_find().unwrap().unwrap();
        assert_eq!((found.shot, found.it), (0, it));
        self.session().persist_read(&arrays, STREAM).unwrap_or_else(failed);
        self.begun = false;
    }

    fn begin(&mut self, ts: i64) {
        let at = self.session().save_begin(ts, 1, STREAM).unwrap()[0].cast::<f64>();
        // SAFETY: the session hands out memory for one state.
        unsafe { std::slice::from_raw_parts_mut(at, self.job.values) }.fill(value(ts));
        self.begun = true;
    }

    fn save(&mut self, ts: i64) {
        if !self.job.config.zero_copy {
            self.state.fill(value(ts));
            let field = self.field();
            return self.session().save(ts, &[field], STREAM).unwrap();
        }
        if !self.begun {
            self.begin(ts);
        }
        self.session().save_commit(ts, STREAM).unwrap();
        self.begun = false;
    }

    /// Restores u(ts), and returns its bits. The application overwrites a state that it may overwrite.
    fn restore(&mut self, ts: i64, is_last: bool) -> u64 {
        if !self.job.config.zero_copy {
            let field = self.field();
            self.session().retrieve(ts, &[field], STREAM).unwrap();
        } else {
            let at = self.session().retrieve_acquire(ts, 1, STREAM).unwrap()[0].cast::<f64>();
            // SAFETY: the session hands out memory for one state.
            let given = unsafe { std::slice::from_raw_parts_mut(at, self.job.values) };
            self.state.copy_from_slice(given);
            if is_last {
                given.fill(-1.0);
            }
        }
        self.state.iter().fold(0, |hash: u64, v| hash.rotate_left(5) ^ v.to_bits())
    }

    fn play(mut self, cuts: &[Cut]) -> Seen {
        let mut told = Vec::new();
        loop {
            let tick = self.session().get_action().unwrap();
            let (it, action) = (tick.it, tick.action);
            let (ts, zero_copy) = (i64::from(action.ts), self.job.config.zero_copy);
            let is_cut = |inside| cuts.contains(&Cut { it, inside });
            let mut bits = 0;
            match action.kind {
                Kind::Terminate => break,
                Kind::Forward if zero_copy && action.flags & flags::NEXT_IS_SAVE != 0 => {
                    if is_cut(true) {
                        self.cut(it);
                    }
                    if self.job.begins {
                        self.begin(tick.end.into());
                    }
                }
                Kind::Save => self.save(ts),
                Kind::Restore => {
                    bits = self.restore(ts, action.flags & flags::LAST_USE != 0);
                    if self.job.values == RAW {
                        assert_eq!(bits, value(ts).to_bits(), "{:?}, {it}, {cuts:?}", self.job);
                    }
                    if is_cut(true) {
                        self.cut(it);
                    } else if zero_copy && self.job.releases {
                        self.session().retrieve_release(ts, STREAM).unwrap();
                    }
                }
                _ => {}
            }
            told.push((it, action.kind as i32, bits));
            if is_cut(false) {
                self.cut(it);
            }
        }
        self.session().synchronize().unwrap();
        let s = self.session().stats().unwrap();
        let places = [s.hits, s.misses, s.prefetches, s.h2d, s.d2h, s.disk_reads, s.disk_writes];
        let all = [s.saves, s.restores, s.raw_bytes, s.stored_bytes, s.write_backs_avoided];
        (told, places.into_iter().chain(all).collect())
    }
}

/// How a job stores its snapshots.
const STORAGE: [(Method, bool, bool); 4] = [
    (Method::None, false, false),
    (Method::None, true, false),
    (Method::Fp16, false, false),
    (Method::Fp16, false, true),
];

const ALGORITHMS: [Algorithm; 6] = [
    Algorithm::Revolve,
    Algorithm::Uniform,
    Algorithm::Zcut,
    Algorithm::TwoLevel,
    Algorithm::StoreAll,
    Algorithm::Hrevolve,
];

fn job(algorithm: Algorithm, steps: i64, snapshots: u32, cache: u32, kind: usize) -> Job {
    let (method, disk, mixed) = STORAGE[kind % STORAGE.len()].clone();
    let values = if method == Method::None { RAW } else { CODED };
    // A slot has whole 256 bytes.
    let state = (values as u64 * 8).next_multiple_of(256);
    let config = Config {
        algorithm: Some(algorithm),
        snapshots: if algorithm == Algorithm::StoreAll { 0 } else { snapshots },
        cache: if mixed { 0 } else { cache },
        device_budget: if mixed { u64::from(cache + 2) * state } else { 0 },
        // Four of the slots are the staging buffers of the disk.
        host_budget: if disk { (4 + u64::from(cache % 2)) * state } else { 0 },
        disk_budget: if disk { 1 << 20 } else { 0 },
        zero_copy: kind / STORAGE.len() > 0,
        backend: Backend::Host,
        mixed_storage: mixed.then_some(true),
        compression_factor: if mixed { 2.0 } else { 0.0 },
        compression: Settings { method, bound: ErrorBound::OfMax(1e-3), ..Settings::default() },
        ..Config::default()
    };
    Job { config, steps, values, begins: true, releases: kind / STORAGE.len() == 2 }
}

/// Cuts a shot of `job` everywhere, in turn, and in every `twice`-th place a second time, some actions
/// later. Returns the number of shots that were cut.
fn check(job: &Job, dir: &Path, twice: usize) -> usize {
    let whole = match App::new(job, dir) {
        Ok(app) => app.play(&[]),
        // Some combinations have no plan.
        Err(error) if matches!(error.code, Code::Budget | Code::Config | Code::Unsupported) => {
            return 0
        }
        Err(error) => panic!("{job:?}: {error}"),
    };
    let played = |cuts: &[Cut]| {
        let cut = App::new(job, dir).unwrap().play(cuts);
        assert_eq!(whole, cut, "{job:?}, {cuts:?}");
        1
    };
    let mut shots = 0;
    for (k, &(it, kind, _)) in whole.0.iter().enumerate() {
        let inside =
            job.config.zero_copy && (kind == Kind::Forward as i32 || kind == Kind::Restore as i32);
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

/// A folder in memory, where there is one: these tests publish very many generations.
fn folder(name: &str) -> PathBuf {
    let memory = Path::new("/dev/shm");
    match memory.is_dir() {
        true => memory.join(format!("gpuzip-{name}-{}", std::process::id())),
        false => tempdir(name),
    }
}

#[test]
fn a_slot_that_the_application_holds_is_never_read_for_a_generation() {
    let dir = folder("cut-held");
    let mut job = job(Algorithm::TwoLevel, 25, 0, 2, STORAGE.len() + 1);
    job.config.chunk = 3;
    let [.., disk_reads, disk_writes, _, _, _, _, _] =
        App::new(&job, &dir).unwrap().play(&[]).1[..]
    else {
        unreachable!()
    };
    assert!(disk_reads > 0 && disk_writes > 0);
    assert!(check(&job, &dir, 7) > 100);
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
