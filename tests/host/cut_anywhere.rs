//! A generation wherever a shot can be cut: after every action, while the application holds memory of
//! the session, and while snapshots are on their way. A session that goes on from there restores the
//! same bits and counts the same as one that was never cut, however its snapshots are stored. The states
//! are tiny and the shots short, so that a test plays many plans.

mod app;

use crate::common::prelude::*;
use crate::common::wave::folder;
use app::Stepper;
use std::cell::Cell;
use std::path::Path;

/// Values of a level that is stored raw, and of one that a codec compresses.
const RAW: usize = 1;
const CODED: usize = 512;

/// The error bound of the codecs that keep one, as a fraction of the largest value.
const BOUND: f64 = 1e-3;

/// How an application works with its session.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Works {
    /// The session copies the fields.
    Copies,
    /// In memory of the session, which takes a restored state back at the next action.
    InSlots,
    /// In memory of the session, to which it gives a restored state back at once.
    AndReleases,
}

/// Who codes which snapshots.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Coded {
    /// The calling thread, all of them.
    All,
    /// The calling thread, those that leave the cache (mixed storage).
    Moved,
    /// This number of threads, those that leave the cache.
    ByLanes(u32),
    /// All of them as a sequence, by so many threads of the lanes, or by the calling thread.
    InSequence(u32),
}

/// How a job stores its snapshots.
#[derive(Clone, Debug)]
struct Storing {
    method: Method,
    coded: Coded,
    /// Whether a snapshot is two records, of which two states may share one.
    levels: bool,
    disk: bool,
    works: Works,
}

#[derive(Clone, Debug)]
struct Job {
    config: Config,
    steps: i64,
    storing: Storing,
}

/// A generation after action `it`, or, if `inside`, while that action is served: before `save_begin` of
/// a FORWARD, and before the application releases a restored state.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cut {
    it: i64,
    inside: bool,
    /// Generations in turn: a session that has just gone on is cut again.
    times: u32,
    /// Whether the session that goes on has other budgets, and so makes a plan of its own for the rest.
    replans: bool,
}

/// What an application sees of a shot: number and kind of every action, the checksum of the state that
/// was restored last, and the statistics that do not depend on time.
type Seen = (Vec<(i64, Kind, u64)>, Vec<u64>);

const ALL_WORKS: [Works; 3] = [Works::Copies, Works::InSlots, Works::AndReleases];

/// The ways to store snapshots of whole states that are tried with each shot of at most 8 steps.
fn few_storing() -> Vec<Storing> {
    let all = [
        (Method::None, Coded::All, false),
        (Method::None, Coded::All, true),
        (Method::Fp16, Coded::All, false),
        (Method::Fp16, Coded::Moved, false),
    ];
    let with = |works| {
        let storing = |(method, coded, disk)| Storing { method, coded, levels: false, disk, works };
        all.clone().map(storing)
    };
    ALL_WORKS.into_iter().flat_map(with).collect()
}

/// All ways to store snapshots.
fn all_storing() -> Vec<Storing> {
    let alone = [
        Method::None,
        Method::Zfp { rate: 16 },
        Method::Cuszp,
        Method::Lorenzo,
        Method::Dct,
        Method::Fp16,
        Method::Bfp,
    ];
    let other = |coded| [Method::Fp16, Method::Lorenzo].map(|method| (method, coded));
    let other = [Coded::Moved, Coded::ByLanes(1), Coded::ByLanes(2)].into_iter().flat_map(other);
    let alone = alone.into_iter().map(|method| (method, Coded::All));
    let methods = alone.chain(other).collect::<Vec<_>>();
    let mut all = Vec::new();
    for (levels, disk) in [(false, false), (false, true), (true, false), (true, true)] {
        for works in ALL_WORKS {
            let storing = |(method, coded)| Storing { method, coded, levels, disk, works };
            all.extend(methods.iter().cloned().map(storing));
        }
    }
    all
}

impl Storing {
    /// Raw snapshots of whole states.
    fn raw(disk: bool, works: Works) -> Self {
        Storing { method: Method::None, coded: Coded::All, levels: false, disk, works }
    }

    fn values(&self) -> usize {
        if self.method == Method::None {
            RAW
        } else {
            CODED
        }
    }

    /// How far a restored value may be from the exact one, as a fraction of the largest value. A previous
    /// level that a RESTORE brought back was saved again, with the error of a level and of a difference.
    fn allowed(&self) -> f64 {
        match self.method {
            Method::None => 0.0,
            Method::Cuszp | Method::Lorenzo | Method::Dct => 3.0 * BOUND,
            _ => 0.1,
        }
    }
}

fn app_of(job: &Job) -> Stepper<'static> {
    Stepper::new(job.storing.values(), job.storing.allowed(), None)
}

fn open(job: &Job, dir: &Path) -> Result<Session> {
    let config = job.config.clone().with(|c| c.restart.folder = Some(dir.into()));
    let mut session =
        Session::new(config, job.steps, &unplaced(&app::shapes(job.storing.values())))?;
    session.persist_open((0, 1), Box::new(Ok))?;
    Ok(session)
}

/// Returns a job that has one slot more or less in the device cache than `job`, by the action `it`.
fn other_memory(job: &Job, it: i64) -> Job {
    let cache = job.config.tiers.cache;
    let cache = if it % 3 == 0 && cache > 0 { cache - 1 } else { cache + 1 };
    let config = job.config.clone().with(|c| {
        c.tiers.cache = cache;
        // Without a cache, host memory also holds the two states in which the application works.
        if cache == 0 && c.tiers.zero_copy {
            c.tiers.host_budget += c.tiers.host_budget / 2;
        }
    });
    Job { config, ..job.clone() }
}

/// Writes a generation after action `it`, and returns a new session of `job` that goes on from there.
/// Fails if a session of `job` does not go on from there.
fn cut(job: &Job, dir: &Path, mut session: Session, app: &mut Stepper, it: i64) -> Result<Session> {
    session.persist_write(0, &app.arrays(), HOST).unwrap();
    session.persist_wait().unwrap();
    // One session at a time uses a folder.
    drop(session);
    let lost = app.forget();
    let mut session = open(job, dir)?;
    let found = &session.persist_find()?.unwrap().header;
    assert_eq!((found.shot, found.it), (0, it));
    session.persist_read(&app.arrays(), HOST)?;
    assert!(app.has(&lost), "{job:?}, action {it}: another live state came back");
    Ok(session)
}

/// Plays a shot with these cuts.
fn play(job: &Job, dir: &Path, cuts: &[Cut]) -> Result<Seen> {
    let _ = std::fs::remove_dir_all(dir);
    let (mut session, holds) = (open(job, dir)?, Cell::new(false));
    let mut app = app_of(job);
    let releases = || job.storing.works == Works::AndReleases && !holds.get();
    app.slots = job.config.tiers.zero_copy.then(|| Slots::new(true, releases));
    let mut told = Vec::new();
    let due = |it, inside| cuts.iter().find(|cut| (cut.it, cut.inside) == (it, inside));
    let made = |mut session, app: &mut Stepper, here: Option<&Cut>| -> Result<Session> {
        let Some(here) = here else { return Ok(session) };
        let then = if here.replans { &other_memory(job, here.it) } else { job };
        for _ in 0..here.times {
            session = cut(then, dir, session, app, here.it)?;
        }
        Ok(session)
    };
    loop {
        let tick = session.get_action().unwrap();
        let (it, kind) = (tick.it, tick.action.kind);
        let inside = due(it, true);
        holds.set(inside.is_some());
        let begins = kind == Kind::Forward && tick.action.flags & flags::NEXT_IS_SAVE != 0;
        if begins {
            session = made(session, &mut app, inside)?;
        }
        app.serve(&mut session, tick)?;
        if kind == Kind::Terminate {
            break;
        }
        if kind == Kind::Restore {
            session = made(session, &mut app, inside)?;
        }
        told.push((it, kind, app.restored));
        session = made(session, &mut app, due(it, false))?;
    }
    assert_eq!(i64::from(app.reversed), job.steps);
    session.synchronize().unwrap();
    let mut counts = counts(&session.stats()?);
    if matches!(job.storing.coded, Coded::InSequence(_)) {
        // A generation ends a sequence, whose last record takes more bytes.
        counts.pop();
    }
    Ok((told, counts))
}

fn job(algorithm: Algorithm, steps: i64, snapshots: u32, cache: u32, storing: &Storing) -> Job {
    let Storing { method, coded, levels, disk, works } = storing.clone();
    let mixed = coded == Coded::Moved;
    let threads = match coded {
        Coded::ByLanes(threads) | Coded::InSequence(threads) => threads,
        _ => 0,
    };
    let layout = Layout::new(app::shapes(storing.values())).unwrap();
    let state = layout.slot_bytes;
    let snapshots = if algorithm == Algorithm::StoreAll { 0 } else { snapshots };
    let config = config(algorithm, snapshots, if mixed { 0 } else { cache }).with(|c| {
        c.tiers.device_budget = if mixed { u64::from(cache + 2) * state } else { 0 };
        // Four of the slots are the staging buffers of the disk.
        c.tiers.host_budget = if disk { (4 + u64::from(cache % 2)) * state } else { 0 };
        c.tiers.disk_budget = if disk { 1 << 20 } else { 0 };
        c.tiers.zero_copy = works != Works::Copies;
        c.tiers.shared_levels = levels;
        c.tiers.mixed_storage = mixed.then_some(true);
        c.codec.compression_factor = if mixed || threads > 0 { 2.0 } else { 0.0 };
        c.codec.threads = Some(threads);
        c.codec.settings = coding(method, ErrorBound::OfMax(BOUND));
        c.codec.settings.sequences = matches!(coded, Coded::InSequence(_));
    });
    Job { config, steps, storing: storing.clone() }
}

/// Cuts a shot of `job` everywhere, in turn; in every `twice`-th place a second time, at once or some
/// actions later, and in as many places so that a session with other budgets goes on. Returns the number
/// of shots that were cut.
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
        let seen = play(job, dir, cuts).unwrap_or_else(|e| panic!("{job:?}, {cuts:?}: {e}"));
        assert_eq!(whole, seen, "{job:?}, {cuts:?}");
        1
    };
    let mut shots = 0;
    for (k, &(it, kind, _)) in whole.0.iter().enumerate() {
        let inside = job.config.tiers.zero_copy && matches!(kind, Kind::Forward | Kind::Restore);
        for inside in [false, true].into_iter().take(1 + usize::from(inside)) {
            let cut = Cut { it, inside, times: 1, replans: false };
            shots += played(&[cut]);
            if k % twice == 1 {
                let later = Cut { it: it + 1 + k as i64 % 5, inside: false, ..cut };
                shots += played(&[Cut { times: 2, ..cut }, later]);
            }
            if k % twice == 2 && job.storing.coded == Coded::All {
                shots += goes_on_with_other_budgets(job, dir, Cut { replans: true, ..cut }, &whole);
            }
        }
    }
    shots
}

/// Checks that a session of other budgets restores the same bits as the shot `whole`. Returns 1 if there
/// is such a session.
fn goes_on_with_other_budgets(job: &Job, dir: &Path, cut: Cut, whole: &Seen) -> usize {
    match play(job, dir, &[cut]) {
        Ok((told, _)) => assert_eq!(whole.0, told, "{job:?}, {cut:?}"),
        Err(error) => panic!("{job:?}, {cut:?}: {error}"),
    }
    1
}

/// All jobs of `steps` time steps, with caches of less than `caches` snapshots.
fn jobs(steps: i64, caches: u32, storing: &[Storing]) -> Vec<Job> {
    let mut jobs = Vec::new();
    for (snapshots, cache) in (1..=steps as u32).flat_map(|s| (0..caches).map(move |c| (s, c))) {
        for storing in storing {
            let counts = |algorithm: &_| *algorithm != Algorithm::StoreAll || snapshots == 1;
            let algorithms = ALGORITHMS.into_iter().filter(counts);
            jobs.extend(algorithms.map(|a| job(a, steps, snapshots, cache, storing)));
        }
    }
    jobs
}

/// Cuts a shot of each job everywhere. Returns the numbers of plans, and of shots that were cut.
fn check_all(name: &str, jobs: impl IntoIterator<Item = Job>) -> (usize, usize) {
    let (dir, start) = (folder(name), std::time::Instant::now());
    let shots: Vec<_> = jobs.into_iter().map(|job| check(&job, &dir, 5)).collect();
    let _ = std::fs::remove_dir_all(&dir);
    let (plans, shots) = (shots.iter().filter(|here| **here > 0).count(), shots.iter().sum());
    println!("{plans} plans, {shots} shots that were cut, {:.1} s", start.elapsed().as_secs_f64());
    (plans, shots)
}

#[test]
fn a_slot_that_the_application_holds_is_never_read_for_a_generation() {
    let dir = folder("cut-held");
    let mut job = job(Algorithm::TwoLevel, 25, 0, 2, &Storing::raw(true, Works::InSlots));
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
    let job = job(Algorithm::Revolve, 8, 4, 0, &Storing::raw(false, Works::InSlots));
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
    let job = job(Algorithm::StoreAll, 8, 0, 2, &Storing::raw(true, Works::AndReleases));
    assert!(check(&job, &dir, 7) > 30);
    let _ = std::fs::remove_dir_all(&dir);
}

#[test]
fn a_shot_that_is_cut_anywhere_goes_on_as_if_nothing_had_happened() {
    let storing = few_storing();
    let all = (1..=8).flat_map(|steps| jobs(steps, 5, &storing)).step_by(cases(97, 1));
    let (plans, shots) = check_all("cut-anywhere", all);
    assert!(plans > 60 && shots > 500, "{plans} plans, {shots} shots");
}

/// Each codec, mixed storage, levels and disk, with and without zero copy: all short shots, and some of
/// the longer ones.
#[test]
fn a_shot_goes_on_however_its_snapshots_are_stored() {
    let storing = all_storing();
    let few = (1..4).flat_map(|steps| jobs(steps, 1 + steps as u32, &storing));
    let more = (4..9).flat_map(|steps| jobs(steps, 5, &storing));
    let all = few.step_by(cases(211, 1)).chain(more.step_by(cases(1999, 31)));
    let (plans, shots) = check_all("cut-stored", all);
    assert!(plans > 60 && shots > 500, "{plans} plans, {shots} shots");
}

/// The shortest shots in which a state has the level of the one before, stored as raw and as coded
/// records, with two snapshots or all: none is left out.
#[test]
fn a_shot_of_shared_levels_goes_on_from_each_of_its_actions() {
    let is_one = |storing: &Storing| {
        let is_method = matches!(storing.method, Method::None | Method::Lorenzo);
        is_method
            && storing.levels
            && storing.coded == Coded::All
            && storing.works != Works::InSlots
    };
    let storing: Vec<_> = all_storing().into_iter().filter(is_one).collect();
    let is_short = |job: &Job| job.config.schedule.snapshots % 2 == 0;
    let all = jobs(3, 3, &storing).into_iter().filter(is_short);
    let (plans, shots) = check_all("cut-levels", all);
    assert!(plans > 60 && shots > 500, "{plans} plans, {shots} shots");
}

/// A recorded schedule whose snapshots are no stack: a session with other budgets, which makes a plan of
/// its own for the rest, may have other snapshots in its cache than the one before.
#[test]
fn a_shot_that_is_no_stack_goes_on_with_other_budgets() {
    let dir = folder("cut-no-stack");
    let traces = tempdir("cut-no-stack");
    let is_one = |storing: &Storing| storing.method == Method::None;
    let storing: Vec<_> = all_storing().into_iter().filter(is_one).collect();
    let mut shots = 0;
    let caches = |steps| (2..6).step_by(cases(2, 1)).map(move |cache| (steps, cache));
    for (steps, cache) in (6..cases(7, 14)).flat_map(caches) {
        let trace = trace_that_is_no_stack(&traces, steps, 1);
        for storing in &storing {
            let mut job = job(Algorithm::Trace, steps.into(), 0, cache, storing);
            job.config.schedule.trace_file = Some(trace.clone());
            shots += check(&job, &dir, 3);
        }
    }
    println!("{shots} shots that were cut");
    assert!(shots > 500, "{shots} shots");
    [dir, traces].iter().for_each(|dir| _ = std::fs::remove_dir_all(dir));
}

/// States in a sequence: wherever a shot is cut, the records that are left lean on none that are not.
#[test]
fn a_shot_whose_states_are_a_sequence_goes_on() {
    let mut storing = Vec::new();
    for (levels, disk) in [(false, false), (false, true), (true, false), (true, true)] {
        let (method, coded) = (Method::Dct, Coded::InSequence(0));
        storing.extend(ALL_WORKS.map(|works| Storing {
            method: method.clone(),
            coded,
            levels,
            disk,
            works,
        }));
    }
    let is_one = |job: &Job| job.config.schedule.algorithm == Some(Algorithm::StoreAll);
    let all = (1..10).flat_map(|steps| jobs(steps, 4, &storing)).filter(is_one);
    let (plans, shots) = check_all("cut-sequence", all.step_by(cases(7, 1)));
    assert!(plans > 20 && shots > 300, "{plans} plans, {shots} shots");
}

/// Whether the session of a job lets the lanes code, of states that are cut into this number of records.
fn is_by_lanes(job: &Job, records: u32) -> bool {
    let dir = folder(&format!("cut-by-lanes-{records}"));
    let session = open(job, &dir).ok();
    let session = session.filter(|session| session.plan().is_ok());
    session.is_some_and(|session| {
        let storage = &session.tiers().storage;
        let by_lanes = matches!(storage.coded, gpuzip::choice::Coded::ByLanes(_));
        by_lanes && storage.cut as u32 == records
    })
}

/// Transfer lanes that code: short shots whose snapshots leave the cache and come back, with a disk and
/// without.
#[test]
fn a_shot_whose_snapshots_lanes_code_goes_on() {
    let is_one = |storing: &Storing| matches!(storing.coded, Coded::ByLanes(_)) && !storing.levels;
    let storing: Vec<_> = all_storing().into_iter().filter(is_one).collect();
    let all = (3..9).flat_map(|steps| jobs(steps, 5, &storing)).step_by(cases(61, 3));
    let few: Vec<Job> = all.filter(|job| is_by_lanes(job, 1)).collect();
    println!("{}", few.len());
    let (plans, shots) = check_all("cut-lanes", few);
    assert!(plans > 10 && shots > 100, "{plans} plans, {shots} shots");
}

/// Transfer lanes that code shared levels, or states in a sequence.
#[test]
fn a_shot_whose_levels_or_sequences_lanes_code_goes_on() {
    let mut storing = Vec::new();
    let coded = [Coded::ByLanes(1), Coded::ByLanes(2), Coded::InSequence(1)];
    for (coded, levels) in coded.into_iter().flat_map(|coded| [(coded, false), (coded, true)]) {
        let method = if matches!(coded, Coded::InSequence(_)) { Method::Dct } else { Method::Fp16 };
        for (disk, works) in [false, true].into_iter().flat_map(|disk| ALL_WORKS.map(|w| (disk, w)))
        {
            if levels || matches!(coded, Coded::InSequence(_)) {
                storing.push(Storing { method: method.clone(), coded, levels, disk, works });
            }
        }
    }
    let is_one = |job: &Job| job.config.schedule.algorithm == Some(Algorithm::StoreAll);
    let all = (4..12).flat_map(|steps| jobs(steps, 6, &storing)).filter(is_one);
    let few = all.filter(|job| is_by_lanes(job, 1 + u32::from(job.storing.levels)));
    let few: Vec<Job> = few.step_by(cases(5, 1)).collect();
    let (plans, shots) = check_all("cut-lanes-of-levels", few);
    assert!(plans > 20 && shots > 300, "{plans} plans, {shots} shots");
}
