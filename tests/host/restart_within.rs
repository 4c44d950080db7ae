//! Restart at every action: a session that goes on from a generation serves the same actions, restores
//! the same bits and counts the same as the session that was not interrupted.

use crate::common::app::Draw;
use crate::common::prelude::*;
use crate::common::{emu, emu::emulated, wave};
use gpuzip::codec::FillValue;
use gpuzip::persist::Name;
use gpuzip::session::Array;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use wave::{folder, resume, session, write, App, Job, Memory, N};

/// Bytes of a slot.
const STATE: u64 = 8 * N as u64 + 512;

fn draw_job(seed: u64, managed: bool) -> Job {
    let mut draw = Draw(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1);
    let algorithm = match draw.below(9) {
        algorithm @ 0..6 => Some(ALGORITHMS[algorithm as usize]),
        6 => None,
        _ => Some(Algorithm::Online),
    };
    let is_online = algorithm == Some(Algorithm::Online);
    let methods = [Method::None, Method::None, Method::Lorenzo, Method::Dct, Method::Fp16];
    let method = methods[draw.below(5) as usize].clone();
    let mixed = method != Method::None && draw.below(2) == 0;
    let slots = u64::from(1 + draw.below(5));
    // Raw snapshots for which device and host have no room, on disk.
    let disk = !mixed && method == Method::None && draw.below(2) == 0;
    let device_budget = match mixed {
        true => slots * STATE + if managed { 400_000 } else { 0 },
        false => 0,
    };
    let host_slots = match (disk, algorithm) {
        // Four of them are the staging buffers of the disk.
        (true, _) => 5 + u64::from(draw.below(2)),
        (false, None) => 3 + u64::from(draw.below(6)),
        (false, Some(_)) => 0,
    };
    let is_lru = !mixed && !disk && draw.below(4) == 0 && algorithm.is_some() && !is_online;
    let config = Config::default().with(|c| {
        c.schedule.algorithm = algorithm;
        c.schedule.snapshots = match algorithm {
            Some(Algorithm::StoreAll) => 0,
            _ if disk => 8 + draw.below(6),
            _ => 2 + draw.below(6),
        };
        c.tiers.cache = if mixed { 0 } else { draw.below(6) };
        c.tiers.device_budget = device_budget;
        c.tiers.host_budget = host_slots * STATE;
        c.tiers.disk_budget = if disk { 30 * STATE } else { 0 };
        c.tiers.policy = if is_lru { Policy::Lru } else { Policy::Clairvoyant };
        c.device.backend = if managed { Backend::Cuda } else { Backend::Host };
        c.schedule.range_actions = draw.below(2) == 0;
        c.schedule.adjoint_every = if is_online { 1 } else { [1, 1, 1, 3][draw.below(4) as usize] };
        c.device.max_in_flight = [1, 3, 64][draw.below(3) as usize];
        c.tiers.mixed_storage = mixed.then_some(true);
        c.codec.settings = coding(method, ErrorBound::OfMax(1e-3));
    });
    let steps = 2 + i64::from(draw.below(18));
    match is_online && draw.below(3) > 0 {
        true => Job { config, steps: 0, ends: Some((steps as u32 - 1, draw.below(2) == 0)) },
        false => Job { config, steps, ends: None },
    }
}

fn app(job: &Job, managed: bool) -> App {
    App { ends: job.ends, ..App::new(managed) }
}

/// Returns a job that differs from `job` in its numbers of slots only.
fn other_memory(job: &Job) -> Job {
    let config = job.config.clone().with(|c| {
        c.tiers.cache = job.config.tiers.cache + 2;
        c.tiers.host_budget =
            job.config.tiers.host_budget + if job.config.tiers.host_budget > 0 { STATE } else { 0 };
    });
    Job { config, ..job.clone() }
}

/// Runs a shot, and the second one as far as the action `stop`, and writes a generation there, with
/// `late` before the application has told that its forward phase has ended. Returns the application.
fn stopped(job: &Job, managed: bool, dir: &Path, stop: usize, late: bool) -> App {
    let _ = std::fs::remove_dir_all(dir);
    let _ = std::fs::remove_dir_all(shared(dir));
    let mut first = app(job, managed);
    let mut one = session(job, dir, &first).unwrap();
    first.shot(&mut one).unwrap();
    one.setup().unwrap();
    first.begin();
    first.told.clear();
    first.ends = first.ends.filter(|_| !late);
    for k in 0..=stop {
        step(&mut one, &mut first).unwrap();
        // What is unchanged is in older generations.
        if job.config.restart.whole_every > 0 && k % 3 == 0 && k < stop {
            write(&mut one, 1, &first).unwrap();
        }
    }
    write(&mut one, 1, &first).unwrap_or_else(|e| panic!("{job:?}, action {stop}: {e}"));
    drop(one);
    if job.config.restart.shared_folder.is_some() {
        // The node is lost.
        std::fs::remove_dir_all(dir).unwrap();
    }
    first
}

/// The shared folder of the runs in a folder.
fn shared(dir: &Path) -> PathBuf {
    dir.with_extension("shared")
}

/// Runs two shots without interruption, and then for every action of the second one with an
/// interruption behind it. Returns the number of interruptions.
fn check(job: &Job, managed: bool, name: &str) -> usize {
    let dir = folder(name);
    let mut whole = app(job, managed);
    let mut one = match session(job, &dir, &whole) {
        Ok(session) => session,
        // Some draws have no plan.
        Err(error) if matches!(error.code, Code::Budget | Code::Config | Code::Unsupported) => {
            return 0
        }
        Err(error) => panic!("{job:?}: {error}"),
    };
    whole.shot(&mut one).unwrap();
    // The second shot: its plan may follow from the sizes of the first one's snapshots.
    one.setup().unwrap();
    whole.begin();
    whole.told.clear();
    let stacked = whole.stack.bytes().to_vec();
    whole.finish(&mut one).unwrap();
    let expected = counts(&one.stats().unwrap());
    drop(one);

    let actions = whole.told.len() - 1;
    for stop in 0..actions {
        let restart = |c: &mut Config| {
            c.restart.shared_folder = (stop % 5 == 3).then(|| shared(&dir));
            c.restart.whole_every = if stop % 4 == 1 { 5 } else { 0 };
        };
        let job = &Job { config: job.config.clone().with(restart), ..job.clone() };
        let of = whole.told[stop];
        let end = |(last, after)| {
            let kind = if after { Kind::Save } else { Kind::Forward };
            (of.1, of.3) == (kind as i32, last)
        };
        if job.ends.is_some_and(end) {
            stopped(job, managed, &dir, stop, true);
            let mut third = app(job, managed);
            let mut three = resume(job, &dir, &third).unwrap().0;
            three.end_forward().unwrap();
            third.finish(&mut three).unwrap();
            assert!(whole.told.ends_with(&third.told), "{job:?}, before the end {stop}");
            assert_eq!(third.told.len() + stop + 1, whole.told.len(), "{job:?}");
            assert_eq!(counts(&three.stats().unwrap()), expected, "{job:?}, before the end {stop}");
        }
        let first = stopped(job, managed, &dir, stop, false);

        let mut second = app(job, managed);
        let (mut two, shot, it) =
            resume(job, &dir, &second).unwrap_or_else(|e| panic!("{job:?}, action {stop}: {e}"));
        assert_eq!((shot, it), (1, stop as i64));
        assert!(second.stack.bytes() == &stacked[..], "{job:?}, action {stop}");
        // The forward sweep of a shot that was being reversed is over.
        if first.told.iter().any(|told| told.1 == Kind::Backward as i32) {
            assert!(two.get_forward_action().unwrap().is_none());
        }
        // The generation of a session that went on is as good as that of the first one.
        if stop % 3 == 1 {
            two.persist_write(1, &second.arrays(), HOST).unwrap();
            drop(two);
            second = app(job, managed);
            two = resume(job, &dir, &second).unwrap().0;
        }
        // A session with other memory goes on by a plan of its own.
        if stop % 4 == 2 && job.config.tiers.mixed_storage.is_none() {
            let other = other_memory(job);
            drop(two);
            second = app(job, managed);
            two = match resume(&other, &dir, &second) {
                Ok((session, ..)) => session,
                Err(error) if error.code == Code::Budget => continue,
                Err(error) => panic!("{job:?}, {other:?}, action {stop}: {error}"),
            };
            second.told = first.told.clone();
            second.finish(&mut two).unwrap_or_else(|e| panic!("{job:?}, action {stop}: {e}"));
            assert_eq!(whole.told, second.told, "{job:?}, other memory, action {stop}");
            assert!(whole.stack.bytes() == second.stack.bytes(), "{job:?}, action {stop}");
            // The next shot has the plan of the whole schedule again.
            two.setup().unwrap();
            second.shot(&mut two).unwrap();
            assert_eq!(two.stats().unwrap().saves, expected[0], "{job:?}");
            continue;
        }
        if stop % 4 == 2 && job.config.tiers.mixed_storage.is_some() {
            drop(two);
            refuses_other_storage(job, &dir, managed);
            continue;
        }
        second.told = first.told.clone();
        second
            .finish(&mut two)
            .unwrap_or_else(|e| panic!("{job:?}, action {stop} of {actions}: {e}"));
        let differs = whole.told.iter().zip(&second.told).position(|(a, b)| a != b);
        assert_eq!(differs, None, "{job:?}, stopped after action {stop} of {actions}");
        assert_eq!(whole.told.len(), second.told.len());
        assert!(whole.stack.bytes() == second.stack.bytes(), "{job:?}, action {stop}");
        assert_eq!(counts(&two.stats().unwrap()), expected, "{job:?}, action {stop}");
    }
    let _ = std::fs::remove_dir_all(&dir);
    let _ = std::fs::remove_dir_all(shared(&dir));
    actions
}

/// Checks that with mixed storage no session of other budgets goes on: it would compress other
/// snapshots, and restore other bits.
fn refuses_other_storage(job: &Job, dir: &Path, managed: bool) {
    let of = |change: &dyn Fn(&mut Config)| {
        let mut job = job.clone();
        change(&mut job.config);
        job
    };
    for other in [
        of(&|config| config.tiers.mixed_storage = Some(false)),
        of(&|config| config.tiers.device_budget += STATE),
        of(&|config| config.tiers.device_budget += 3 * STATE),
    ] {
        let app = App::new(managed);
        let Ok(mut session) = session(&other, dir, &app) else { continue };
        session.persist_find().unwrap().unwrap();
        let error = session.persist_read(&app.arrays(), HOST).unwrap_err();
        assert!(matches!(error.code, Code::Config | Code::Budget), "{other:?}: {error}");
        assert!(app.stack.bytes().iter().all(|byte| *byte == 0), "an array was changed");
        // No shot begins as if nothing had failed.
        refused(session.get_action(), Code::State, &[]);
        session.setup().unwrap();
        session.get_action().unwrap();
    }
}

/// A job with mixed storage.
fn mixed_job() -> Job {
    let config = config(Algorithm::Revolve, 8, 0).with(|c| {
        c.tiers.device_budget = 8 * STATE;
        c.tiers.mixed_storage = Some(true);
        c.codec.compression_factor = 2.0;
        c.codec.settings = coding(Method::Lorenzo, ErrorBound::OfMax(1e-3));
    });
    Job { config, steps: 40, ends: None }
}

#[test]
fn the_begin_of_a_shot_needs_the_budgets_of_its_mixed_storage() {
    let (job, dir) = (mixed_job(), folder("restart-begin"));
    let mut app = App::new(false);
    let mut one = session(&job, &dir, &app).unwrap();
    app.shot(&mut one).unwrap();
    write(&mut one, 1, &app).unwrap();
    one.setup().unwrap();
    app.shot(&mut one).unwrap();
    drop(one);
    refuses_other_storage(&job, &dir, false);
    let mut again = App::new(false);
    let mut two = resume(&job, &dir, &again).unwrap().0;
    again.shot(&mut two).unwrap();
    assert!(app.stack.bytes() == again.stack.bytes());
    let _ = std::fs::remove_dir_all(&dir);
}

/// The schedule of a generation needs the memory of its run.
#[test]
fn less_memory_than_before_is_told_with_its_remedy() {
    let job = |slots| {
        let config = config(None, 0, 0).with(|c| c.tiers.host_budget = slots * STATE);
        Job { config, steps: 60, ends: None }
    };
    let dir = folder("restart-less");
    stopped(&job(12), false, &dir, 40, false);
    let app = App::new(false);
    let texts = ["the budgets of the run that wrote them", "host_budget"];
    refused(resume(&job(5), &dir, &app).map(drop), Code::Budget, &texts);
    resume(&job(14), &dir, &app).unwrap();
    let _ = std::fs::remove_dir_all(&dir);
}

/// Snapshots are decoded as they were coded: a session goes on with the settings of the codec that wrote
/// them; with others it is refused, and says its own.
#[test]
fn a_generation_is_for_the_settings_that_coded_it() {
    let job = |change: &dyn Fn(&mut Settings)| {
        let config = config(Algorithm::Revolve, 6, 2).with(|c| {
            c.codec.settings = coding(Method::Lorenzo, ErrorBound::OfMax(1e-3));
            c.codec.settings.fill_value = Some(FillValue::of("nan").unwrap());
            change(&mut c.codec.settings);
        });
        Job { config, steps: 30, ends: None }
    };
    let (same, dir) = (job(&|_| ()), folder("restart-settings"));
    let first = stopped(&same, false, &dir, 40, false);
    type Change<'a> = (&'a dyn Fn(&mut Settings), &'a [&'a str]);
    let others: [Change; 5] = [
        (&|s| s.fill_value = None, &["other values of the codec's settings"]),
        (&|s| s.fill_value = Some(FillValue::of("0").unwrap()), &["fill_value 0"]),
        (&|s| s.bound = ErrorBound::OfMax(1e-2), &["error_bound 0.01", "fill_value nan"]),
        (&|s| s.bound = ErrorBound::Absolute(1e-3), &["error_bound_mode 1"]),
        (&|s| s.method = Method::Dct, &["compressor"]),
    ];
    for (change, texts) in others {
        let app = App::new(false);
        refused(resume(&job(change), &dir, &app).map(drop), Code::Config, texts);
        assert!(app.stack.bytes().iter().all(|byte| *byte == 0), "an array was changed");
    }
    let mut second = App::new(false);
    let mut two = resume(&same, &dir, &second).unwrap().0;
    second.told = first.told;
    second.finish(&mut two).unwrap();
    let _ = std::fs::remove_dir_all(&dir);
}

#[test]
fn a_lost_generation_is_told_and_its_begin_is_written_again() {
    let (job, dir) =
        (Job { config: config(None, 4, 0), steps: 12, ends: None }, folder("restart-lost"));
    let app = App::new(false);
    let blocked = |generation: u32| {
        let name = format!("gpuzip-r000000-g{generation:012}.gen");
        std::fs::create_dir_all(dir.join(name).join("inside")).unwrap();
    };
    let mut one = session(&job, &dir, &app).unwrap();
    blocked(1);
    refused(write(&mut one, 0, &app), Code::Io, &[]);
    assert_eq!(one.stats().unwrap().generations, 0, "a lost generation does not count");
    write(&mut one, 0, &app).unwrap();
    assert_eq!(one.stats().unwrap().generations, 1);
    blocked(3);
    one.persist_write(1, &app.arrays(), HOST).unwrap();
    refused(one.close(), Code::Io, &[]);
    let mut arrays = app.arrays();
    arrays[0].name = Name::new("gpuzip position").unwrap();
    refused(one.persist_write(2, &arrays, HOST), Code::Argument, &["gpuzip position"]);
    drop(one);
    let _ = std::fs::remove_dir_all(&dir);
}

/// A long shot whose snapshots stay, and surveys in which one array of eight changes: incremental generations have
/// a quarter of the bytes, and a restart reads the same bits.
#[test]
fn an_incremental_run_writes_a_quarter_of_the_bytes() {
    let config = |every| config(Algorithm::Revolve, 40, 0).with(|c| c.restart.whole_every = every);
    let job = Job { config: config(50), steps: 400, ends: None };
    let quarter = |one: &mut Session| {
        let stats = one.stats().unwrap();
        let (bytes, held) = (stats.persist_bytes, stats.persist_held_bytes);
        assert!(4 * bytes < bytes + held, "{bytes} bytes, and {held} that older ones hold");
    };
    let dir = folder("restart-quarter");
    let mut app = App::new(false);
    let mut one = session(&job, &dir, &app).unwrap();
    one.setup().unwrap();
    app.begin();
    while app.told.len() < 300 {
        step(&mut one, &mut app).unwrap();
        if app.told.len() >= 100 && app.told.len() % 5 == 0 {
            write(&mut one, 0, &app).unwrap();
        }
    }
    quarter(&mut one);
    app.told.clear();
    app.finish(&mut one).unwrap();
    drop(one);
    let mut second = App::new(false);
    let (mut two, _, it) = resume(&job, &dir, &second).unwrap();
    assert_eq!(it, 299);
    second.finish(&mut two).unwrap();
    assert_eq!(app.told, second.told);
    assert!(app.stack.bytes() == second.stack.bytes());
    drop(two);
    let _ = std::fs::remove_dir_all(&dir);

    let arrays: Vec<Memory> = (0..8).map(|_| Memory::new(40_000, false)).collect();
    let named = |arrays: &[Memory]| -> Vec<Array> {
        let names = (0..8).map(|k| Name::new(&format!("image {k}")).unwrap());
        let array = |(name, memory): (Name, &Memory)| Array {
            name,
            field: memory.field(None),
            changes_within: false,
        };
        names.zip(arrays).map(array).collect()
    };
    let mut one = session(&job, &dir, &app).unwrap();
    for shot in 0..20 {
        arrays[5].floats()[shot] = 1.0;
        one.persist_write(shot as i64, &named(&arrays), HOST).unwrap();
        one.persist_wait().unwrap();
    }
    quarter(&mut one);
    drop(one);
    let read: Vec<Memory> = (0..8).map(|_| Memory::new(40_000, false)).collect();
    let mut two = session(&job, &dir, &app).unwrap();
    assert_eq!(two.persist_find().unwrap().unwrap().header.shot, 19);
    two.persist_read(&named(&read), HOST).unwrap();
    assert!(arrays.iter().zip(&read).all(|(a, b)| a.bytes() == b.bytes()));
    let _ = std::fs::remove_dir_all(&dir);
}

/// Checks the jobs of `count` seeds. Every kind of snapshot must be among them.
fn every_seed(count: u64, managed: bool, name: &str) {
    let (mut stops, mut kinds) = (0, std::collections::BTreeSet::new());
    for job in (0..count).map(|seed| draw_job(seed, managed)) {
        let here = check(&job, managed, name);
        if here > 0 {
            let config = &job.config;
            let is_coded = config.codec.settings.method.number() > 0;
            kinds.insert((config.tiers.mixed_storage, is_coded, config.tiers.disk_budget > 0));
        }
        stops += here;
    }
    let expected =
        [(None, false, false), (None, false, true), (None, true, false), (Some(true), true, false)];
    assert!(
        stops > 10 * count as usize && expected.iter().all(|kind| kinds.contains(kind)),
        "{stops}, {kinds:?}"
    );
}

#[test]
fn a_restart_after_every_action_goes_on_as_if_nothing_had_happened() {
    every_seed(cases(40, 2000), false, "restart-host");
}

#[test]
fn a_restart_on_a_gpu_goes_on_as_if_nothing_had_happened() {
    emulated!(kernels);
    assert_eq!(emu::reset(1, emu::RANDOM, 1, 64 << 20), 0);
    let mut context = null_mut();
    // SAFETY: places for results, and the context is kept to the end.
    unsafe {
        use cudarc::driver::sys::{cuCtxSetCurrent, cuDevicePrimaryCtxRetain, cuInit, CUresult};
        assert_eq!(cuInit(0), CUresult::CUDA_SUCCESS);
        assert_eq!(cuDevicePrimaryCtxRetain(&mut context, 0), CUresult::CUDA_SUCCESS);
        assert_eq!(cuCtxSetCurrent(context), CUresult::CUDA_SUCCESS);
    }
    every_seed(cases(14, 300), true, "restart-gpu");
}
