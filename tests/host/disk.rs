//! Sessions whose snapshots go to disk: every restored state is the one that was saved, a fault of
//! the disk is an error, and no file stays.

mod faults;

use crate::common;
use common::{alone, limit_files, tempdir};
use faults::nameless_in;
use gpuzip::codec::{ErrorBound, Method, Settings};
use gpuzip::config::{Backend, Config};
use gpuzip::device::{AppField, AppMemory, Stream};
use gpuzip::error::{Code, Error, Result};
use gpuzip::layout::Field;
use gpuzip::plan::Policy;
use gpuzip::predict::simulate;
use gpuzip::scalar::Scalar;
use gpuzip::schedule::{Algorithm, Kind};
use gpuzip::session::Session;
use proptest::prelude::*;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The calling thread as a stream.
const HOST: Stream = Stream(std::ptr::null_mut());

/// An application whose state is one field of FP32 values, each of which follows from time step and
/// position.
struct App {
    field: Field,
    data: Vec<f32>,
    ts: u32,
    shot: u32,
    /// If not 0, all states have one value at all positions, but those of every `quiet`-th time step.
    quiet: u32,
}

fn value(shot: u32, ts: u32, i: usize) -> f32 {
    ((i as u32).wrapping_mul(2_654_435_761) >> 20) as f32 + (37 * ts + 1000 * shot) as f32
}

impl App {
    fn new(values: u64, shot: u32) -> Self {
        let field = Field { n: [values, 1, 1], scalar: Scalar::F32, previous_of: None };
        let mut app = App { field, data: vec![0.0; values as usize], ts: 0, shot, quiet: 0 };
        app.at(0);
        app
    }

    fn at(&mut self, ts: u32) {
        self.ts = ts;
        let mut data = std::mem::take(&mut self.data);
        data.iter_mut().enumerate().for_each(|(i, x)| *x = self.value(ts, i));
        self.data = data;
    }

    fn value(&self, ts: u32, i: usize) -> f32 {
        value(self.shot, ts, if self.quiet > 0 && ts % self.quiet != 0 { 0 } else { i })
    }

    fn fields(&mut self) -> [AppField; 1] {
        // SAFETY: the vector outlives the call that gets the field, and no other code touches the
        // vector during this call.
        let memory = unsafe { AppMemory::new(self.data.as_mut_ptr().cast(), 4 * self.data.len()) };
        [AppField { field: self.field, memory: Some(memory) }]
    }

    /// The largest difference between the values and those of u(ts).
    fn error(&self, ts: u32) -> f32 {
        let differ = |(i, x): (usize, &f32)| (x - self.value(ts, i)).abs();
        self.data.iter().enumerate().map(differ).fold(0.0, f32::max)
    }
}

/// Runs a shot, whose restored states differ from the saved ones by at most `bound`. `before` is
/// called before every retrieve.
fn shot(
    session: &mut Session,
    app: &mut App,
    bound: f32,
    mut before: impl FnMut(u32),
) -> Result<()> {
    app.at(0);
    loop {
        let tick = session.get_action()?;
        let ts = tick.action.ts;
        match tick.action.kind {
            Kind::Forward => (ts..=tick.end).for_each(|ts| app.at(ts)),
            Kind::Save => session.save(ts.into(), &app.fields(), HOST)?,
            Kind::Restore => {
                before(ts);
                app.data.fill(f32::NAN);
                session.retrieve(ts.into(), &app.fields(), HOST)?;
                assert!(app.error(ts) <= bound, "state {ts}: {}", app.error(ts));
                app.at(ts);
            }
            Kind::Backward => assert_eq!(app.ts, ts),
            Kind::Terminate => return Ok(()),
            Kind::Error => panic!("the schedule has failed"),
        }
    }
}

/// Runs a shot with zero copy, as `shot`.
fn shot_in_slots(session: &mut Session, app: &mut App, bound: f32) -> Result<()> {
    let values = app.data.len();
    // SAFETY: the library hands out memory for the values of the field.
    let memory = |at: Vec<*mut std::ffi::c_void>| unsafe {
        std::slice::from_raw_parts_mut(at[0].cast::<f32>(), values)
    };
    app.at(0);
    loop {
        let tick = session.get_action()?;
        let ts = tick.action.ts;
        match tick.action.kind {
            Kind::Forward => (ts..=tick.end).for_each(|ts| app.at(ts)),
            Kind::Save => {
                let slot = memory(session.save_begin(ts.into(), 1, HOST)?);
                slot.copy_from_slice(&app.data);
                session.save_commit(ts.into(), HOST)?;
            }
            Kind::Restore => {
                let slot = memory(session.retrieve_acquire(ts.into(), 1, HOST)?);
                app.data.copy_from_slice(slot);
                session.retrieve_release(ts.into(), HOST)?;
                assert!(app.error(ts) <= bound, "state {ts}: {}", app.error(ts));
                app.at(ts);
            }
            Kind::Backward => assert_eq!(app.ts, ts),
            Kind::Terminate => return Ok(()),
            Kind::Error => panic!("the schedule has failed"),
        }
    }
}

/// The bytes that a snapshot takes on disk: whole pages in each folder.
fn on_pages(slot: u64, folders: u64) -> u64 {
    slot.div_ceil(folders).next_multiple_of(4096) * folders
}

/// A configuration with room for these numbers of snapshots of `slot` bytes on the device, in host memory and in
/// one folder.
fn config(algorithm: Option<Algorithm>, snapshots: u32, slots: [u64; 3], slot: u64) -> Config {
    let [device, host, disk] = slots;
    Config {
        algorithm,
        snapshots,
        device_budget: device * slot,
        host_budget: host * slot,
        disk_budget: disk * on_pages(slot, 1),
        backend: Backend::Host,
        ..Config::default()
    }
}

fn unplaced(app: &App) -> [AppField; 1] {
    [AppField { field: app.field, memory: None }]
}

/// A session of 90 steps, with a disk in `folder`, whose snapshots of `values` FP32 values go to disk.
fn on_disk(folder: &Path, values: u64) -> (Session, App) {
    let config = Config {
        disk_folders: vec![folder.into()],
        ..config(Some(Algorithm::Revolve), 20, [2, 6, 40], 4 * values)
    };
    let app = App::new(values, 0);
    (Session::new(config, 90, &unplaced(&app)).unwrap(), app)
}

/// Sizes of snapshots that go through the page cache, and past it.
const SIZES: [u64; 2] = [64, 1 << 18];

#[test]
fn snapshots_beyond_host_memory_go_to_disk() {
    for values in SIZES {
        let (mut session, mut app) = on_disk(&tempdir(&format!("disk-{values}")), values);
        for k in 0..3 {
            app.shot = k;
            shot(&mut session, &mut app, 0.0, |_| {}).unwrap();
            let stats = session.stats().unwrap();
            assert!(stats.disk_writes > 10 && stats.disk_reads > 10, "{stats:?}");
            assert_eq!(stats.disk_bytes, (stats.disk_writes + stats.disk_reads) * 4 * values);
            assert_eq!(stats.peak_host_bytes, 6 * 4 * values);
            session.setup().unwrap();
        }
    }
}

/// The snapshots of an online schedule fill host memory before they go to disk, and the forward phase
/// may end at any time step.
#[test]
fn online_snapshots_fill_host_memory_first() {
    const SLOT: u64 = 4096;
    let (mut with_disk, mut without) = (0, 0);
    for end in 1..60 {
        let config = Config {
            disk_folders: vec![tempdir("disk-online")],
            ..config(Some(Algorithm::Online), 14, [3, 7, 41], SLOT)
        };
        let mut app = App::new(SLOT / 4, 0);
        let mut session = Session::new(config, 0, &unplaced(&app)).unwrap();
        app.at(0);
        let mut has_ended = false;
        loop {
            let tick = session.get_action().unwrap();
            let ts = tick.action.ts;
            match tick.action.kind {
                Kind::Forward => (ts..=tick.end).for_each(|ts| app.at(ts)),
                Kind::Save => session.save(ts.into(), &app.fields(), HOST).unwrap(),
                Kind::Restore => {
                    app.data.fill(f32::NAN);
                    session.retrieve(ts.into(), &app.fields(), HOST).unwrap();
                    assert_eq!(app.error(ts), 0.0, "state {ts}");
                    app.at(ts);
                }
                Kind::Backward => assert_eq!(app.ts, ts),
                _ => break,
            }
            let is_saved = session.peek_action().unwrap().action.kind != Kind::Save;
            if !has_ended && app.ts >= end && is_saved {
                session.end_forward().unwrap();
                has_ended = true;
            }
        }
        let stats = session.stats().unwrap();
        assert!(stats.peak_host_bytes <= 7 * SLOT, "{stats:?}");
        // Three snapshots are in the cache, and three in host memory beside four staging buffers.
        assert!(stats.disk_writes == 0 || stats.d2h > 3, "{stats:?}");
        with_disk += u32::from(stats.disk_writes > 0);
        without += u32::from(stats.disk_writes == 0 && stats.d2h > 0);
    }
    assert!(with_disk > 10 && without > 0, "{with_disk} {without}");
}

/// A trace whose snapshots are not freed in the order of a stack.
fn trace(folder: &Path, n: u32, stride: u32) -> PathBuf {
    let mut lines: Vec<String> = (0..n)
        .flat_map(|t| {
            let forward = (t > 0).then(|| format!("{t} FORWARD"));
            forward.into_iter().chain((t % stride == 0).then(|| format!("{t} SAVE")))
        })
        .collect();
    lines.push(format!("{} BACKWARD", n - 1));
    for t in (0..n - 1).rev() {
        let nearest = t - t % stride;
        let from = nearest / (1 + t % 3) / stride * stride;
        lines.push(format!("{from} RESTORE"));
        lines.extend((from + 1..=t).map(|s| format!("{s} FORWARD")));
        lines.push(format!("{t} BACKWARD"));
    }
    lines.push("0 TERMINATE\n".into());
    let path = folder.join(format!("{n}-{stride}.trace"));
    std::fs::write(&path, lines.join("\n")).unwrap();
    path
}

const ALGORITHMS: [Option<Algorithm>; 8] = [
    None,
    Some(Algorithm::Revolve),
    Some(Algorithm::Uniform),
    Some(Algorithm::Zcut),
    Some(Algorithm::TwoLevel),
    Some(Algorithm::Hrevolve),
    Some(Algorithm::StoreAll),
    Some(Algorithm::Trace),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// Any schedule with any tiers: every state comes back, and a run moves as many snapshots and
    /// bytes to disk and back as its prediction. With zero copy the application works in the slots.
    #[test]
    fn random_sessions_with_a_disk(
        algorithm in 0usize..8, steps in 2u32..80, device in 0u64..8, host in 4u64..9, disk in 1u64..60, blocks in 1u64..7,
        zero_copy: bool, lru: bool, slow: bool, folders in 1usize..4, shots in 1u32..3, stride in 1u32..4, rest in 0u64..4096,
    ) {
        // The bytes of a snapshot are those of its slot: predictions count slots.
        let (values, slot) = (64 * blocks, 256 * blocks);
        let algorithm = ALGORITHMS[algorithm];
        let policy = if lru && !zero_copy && algorithm.is_some() { Policy::Lru } else { Policy::Clairvoyant };
        let name = tempdir_of(folders);
        let traced = algorithm == Some(Algorithm::Trace);
        let config = Config {
            zero_copy,
            policy,
            link_bandwidth: if slow { 1e8 } else { 0.0 },
            disk_folders: name.clone(),
            disk_budget: disk * on_pages(slot, folders as u64) + rest,
            trace_file: traced.then(|| trace(&name[0], steps, stride)),
            ..config(algorithm, 0, [device, host, disk], slot)
        };
        let (mut app, disk_budget) = (App::new(values, 0), config.disk_budget);
        let mut session = match Session::new(config, steps.into(), &unplaced(&app)) {
            Ok(session) => session,
            Err(error) => {
                prop_assert_eq!(error.code, Code::Budget, "{}", error);
                return Ok(());
            }
        };
        for k in 0..shots {
            app.shot = k;
            session.setup().unwrap();
            match zero_copy {
                true => shot_in_slots(&mut session, &mut app, 0.0).unwrap(),
                false => shot(&mut session, &mut app, 0.0, |_| {}).unwrap(),
            }
            let (plan, stats) = (session.plan().unwrap(), session.stats().unwrap());
            let schedule = session.schedule().decide().unwrap();
            let tiers = session.tiers().clone();
            let predicted = simulate(&schedule, &plan, &tiers.costs, tiers.budgets).unwrap();
            prop_assert_eq!(
                (stats.disk_reads, stats.disk_writes, stats.disk_bytes, stats.h2d_bytes, stats.d2h_bytes),
                (predicted.disk_reads, predicted.disk_writes, predicted.disk_bytes, predicted.h2d_bytes, predicted.d2h_bytes)
            );
            prop_assert!(stats.peak_host_bytes <= host * slot);
            prop_assert!(tiers.disk_bytes(&plan) <= disk_budget);
            let files = name.iter().flat_map(|folder| nameless_in(folder));
            let taken: u64 = files.map(|file| std::fs::metadata(file).unwrap().len()).sum();
            prop_assert_eq!(taken, tiers.disk_bytes(&plan));
        }
    }

    /// With codecs, for all snapshots or for those that leave the device only.
    #[test]
    fn random_sessions_with_a_codec_and_a_disk(
        method in 0usize..3, mixed: bool, steps in 2u32..60, device in 0u64..12, host in 4u64..9, disk in 1u64..60, values in 100u64..900, zero_copy: bool, online: bool,
    ) {
        let slot = (4 * values).next_multiple_of(256) + 1024;
        let method = [Method::Lorenzo, Method::Dct, Method::Fp16][method].clone();
        let bound = 40.0;
        let online = online && !zero_copy && !mixed;
        let config = Config {
            zero_copy,
            mixed_storage: mixed.then_some(true),
            compression: Settings { method, bound: ErrorBound::Absolute(f64::from(bound)), reject_nonfinite: false },
            ..config(online.then_some(Algorithm::Online), 0, [device, host, disk], slot)
        };
        let mut app = App::new(values, 0);
        let mut session = match Session::new(config, steps.into(), &unplaced(&app)) {
            Ok(session) => session,
            Err(error) => {
                prop_assert_eq!(error.code, Code::Budget, "{}", error);
                return Ok(());
            }
        };
        for k in 0..2 {
            app.shot = k;
            let ended = match zero_copy {
                true => shot_in_slots(&mut session, &mut app, bound),
                false => shot(&mut session, &mut app, bound, |_| {}),
            };
            ended.unwrap();
            session.setup().unwrap();
        }
    }
}

fn tempdir_of(folders: usize) -> Vec<PathBuf> {
    (0..folders).map(|k| common::scratch(&format!("disk-random-{k}"))).collect()
}

/// Large snapshots over several folders, past the page cache.
#[test]
fn large_snapshots_are_striped() {
    for (folders, values) in [(2, 300_007u64), (3, 1 << 19), (7, 1 << 18)] {
        let slot = (4 * values).next_multiple_of(256);
        let config = Config {
            disk_folders: (0..folders).map(|k| tempdir(&format!("disk-large-{k}"))).collect(),
            ..config(Some(Algorithm::Revolve), 12, [2, 6, 40], slot)
        };
        let mut app = App::new(values, 0);
        let mut session = Session::new(config, 40, &unplaced(&app)).unwrap();
        shot(&mut session, &mut app, 0.0, |_| {}).unwrap();
        assert!(session.stats().unwrap().disk_reads > 3);
    }
}

/// Where the disk has less room than the plan needs, the plan is made anew; without room, there is
/// no disk.
#[test]
fn less_room_is_a_smaller_plan() {
    let Some(folder) = alone("less_room_is_a_smaller_plan") else { return };
    for values in SIZES {
        let slot = 4 * values;
        let config =
            Config { disk_folders: vec![folder.clone()], ..config(None, 0, [2, 6, 60], slot) };
        let mut app = App::new(values, 0);
        limit_files(libc::RLIM_INFINITY);
        let mut most = Session::new(config.clone(), 90, &unplaced(&app)).unwrap();
        let plan = most.plan().unwrap();
        let needed = most.tiers().disk_bytes(&plan);
        drop(most);
        assert!(needed > 30 * slot, "{needed}");
        for room in [20 * slot.max(4096), 3 * slot.max(4096), 1, 0] {
            limit_files(room);
            let mut session = Session::new(config.clone(), 90, &unplaced(&app)).unwrap();
            shot(&mut session, &mut app, 0.0, |_| {}).unwrap();
            let plan = session.plan().unwrap();
            let taken = session.tiers().disk_bytes(&plan);
            assert!(taken <= room, "{taken} of {room}");
            let writes = session.stats().unwrap().disk_writes;
            assert_eq!(writes > 0, taken > 0);
            assert!(taken > 0 || room < 10 * slot.max(4096));
        }
        limit_files(libc::RLIM_INFINITY);
        // A named number of snapshots does not fit a smaller disk: the error says what is missing.
        limit_files(3 * slot.max(4096));
        let config = Config { algorithm: Some(Algorithm::Revolve), snapshots: 40, ..config };
        let error = Session::new(config, 90, &unplaced(&app)).err().unwrap();
        assert_eq!(error.code, Code::Budget, "{error}");
        let text = &error.message;
        assert!(text.contains("has room for") && text.contains("disk_path"), "{text}");
        limit_files(libc::RLIM_INFINITY);
    }
}

/// A snapshot takes whole pages in each folder, which count in `disk_budget`: a budget for less than one
/// snapshot is an error that says what is missing.
#[test]
fn a_disk_budget_for_less_than_one_snapshot_is_an_error() {
    let folder = tempdir("disk-less");
    let app = App::new(64, 0);
    for folders in 1..4u64 {
        let of = |disk_budget: u64| {
            let config = Config {
                disk_budget,
                disk_folders: vec![folder.clone(); folders as usize],
                ..config(Some(Algorithm::Revolve), 9, [2, 6, 0], 256)
            };
            Session::new(config, 90, &unplaced(&app))
        };
        for disk_budget in [1, 4096 * folders - 1] {
            let error = of(disk_budget).err().unwrap();
            assert_eq!(error.code, Code::Budget, "{error}");
            let needed = format!("a snapshot takes {} bytes of disk", 4096 * folders);
            for part in [&format!("disk_budget = {disk_budget}:"), &needed, "pages of 4096 bytes"] {
                assert!(error.message.contains(part), "{part}: {error}");
            }
        }
        // Two snapshots on the device, two in host memory beside the staging buffers, and five on disk.
        assert!(of(5 * 4096 * folders).is_ok());
        let error = of(5 * 4096 * folders - 1).err().unwrap();
        assert_eq!(error.code, Code::Budget, "{error}");
    }
}

/// Snapshots that are striped over folders on two file systems come back, and a file system with
/// less room than the other one limits both.
#[test]
fn folders_may_lie_on_two_file_systems() {
    use std::os::unix::fs::MetadataExt;
    let memory = Path::new("/dev/shm").join(format!("gpuzip-disk-{}", std::process::id()));
    let disk = tempdir("disk-two");
    let device = |path: &Path| std::fs::metadata(path).map(|found| found.dev()).ok();
    if std::fs::create_dir(&memory).is_err() || device(&memory) == device(&disk) {
        let _ = std::fs::remove_dir(&memory);
        return println!("skipped: /dev/shm is no file system beside that of {}", disk.display());
    }
    let result = std::panic::catch_unwind(|| {
        for values in [64u64, 1000, (1 << 18) + 5] {
            for folders in [[&memory, &disk], [&disk, &memory]] {
                let slot = (4 * values).next_multiple_of(256);
                let config = Config {
                    disk_folders: folders.map(Clone::clone).to_vec(),
                    disk_budget: 40 * on_pages(slot, 2),
                    ..config(Some(Algorithm::Revolve), 20, [2, 6, 0], slot)
                };
                let mut app = App::new(values, 0);
                let mut session = Session::new(config, 90, &unplaced(&app)).unwrap();
                for k in 0..2 {
                    app.shot = k;
                    shot(&mut session, &mut app, 0.0, |_| {}).unwrap();
                    assert!(session.stats().unwrap().disk_reads > 10);
                    session.setup().unwrap();
                }
                let lengths = folders.map(|folder| {
                    let files = nameless_in(folder);
                    assert_eq!(files.len(), 1, "{}", folder.display());
                    std::fs::metadata(&files[0]).unwrap().len()
                });
                assert!(lengths[0] > 0 && lengths[0] == lengths[1], "{lengths:?}");
            }
        }
    });
    std::fs::remove_dir_all(&memory).unwrap();
    result.unwrap();
}

/// A disk that had little room for a while does not shrink the plans that are made later.
#[test]
fn later_plans_begin_from_the_configured_disk() {
    let Some(folder) = alone("later_plans_begin_from_the_configured_disk") else { return };
    let config = Config { disk_folders: vec![folder], ..config(None, 0, [2, 6, 60], 4096) };
    let mut app = App::new(1024, 0);
    let mut taken = |session: &mut Session| {
        shot(session, &mut app, 0.0, |_| {}).unwrap();
        let plan = session.plan().unwrap();
        session.tiers().disk_bytes(&plan)
    };
    limit_files(12 * 4096);
    let mut session = Session::new(config.clone(), 90, &unplaced(&App::new(1024, 0))).unwrap();
    assert!((1..=12 * 4096).contains(&taken(&mut session)));
    limit_files(libc::RLIM_INFINITY);
    session.setup_steps(91).unwrap();
    let mut fresh = Session::new(config, 91, &unplaced(&App::new(1024, 0))).unwrap();
    let expected = taken(&mut fresh);
    assert!(expected > 12 * 4096, "{expected}");
    assert_eq!(taken(&mut session), expected);
}

/// A compressed snapshot that is larger than its place on disk stays in host memory, if there is room.
#[test]
fn a_snapshot_that_does_not_fit_its_place_stays_in_host_memory() {
    let values = 1024;
    let compression = Settings {
        method: Method::Lorenzo,
        bound: ErrorBound::Absolute(1e-3),
        reject_nonfinite: false,
    };
    let config = Config {
        compression,
        compression_factor: 8.0,
        ..config(Some(Algorithm::Revolve), 60, [0, 1000, 0], 1024)
    };
    let mut app = App::new(values, 0);
    let slot = Session::new(config.clone(), 120, &unplaced(&app)).unwrap().slot_bytes();
    let with = |host: u64| Config {
        host_budget: host * slot,
        disk_budget: 100 * on_pages(slot, 1),
        ..config.clone()
    };
    app.quiet = 31;
    let mut session = Session::new(with(4 + 30), 120, &unplaced(&app)).unwrap();
    for k in 0..3 {
        app.shot = k;
        shot(&mut session, &mut app, 2e-3, |_| {}).unwrap();
        let stats = session.stats().unwrap();
        assert!(stats.disk_writes > 10 && stats.peak_host_bytes <= 34 * slot, "{stats:?}");
        session.setup().unwrap();
    }
    let (plan, schedule) = (session.plan().unwrap(), session.schedule().decide().unwrap());
    let on_disk = session.tiers().on_disk(&plan);
    let saves =
        schedule.actions().filter(|action| matches!(action.kind, Kind::Save | Kind::Restore));
    let large = saves.zip(&plan.steps).filter(|(action, step)| {
        action.kind == Kind::Save && action.ts % app.quiet == 0 && step.host < on_disk
    });
    assert!(large.count() > 0, "no snapshot was larger than its place");

    // All snapshots are too large, and host memory has room for the staging buffers only.
    app.quiet = 0;
    let mut session = Session::new(with(4), 120, &unplaced(&app)).unwrap();
    let error = shot(&mut session, &mut app, 2e-3, |_| {}).unwrap_err();
    assert_eq!(error.code, Code::Budget, "{error}");
    assert!(error.message.contains("its place on disk"), "{error}");
    assert!(error.message.contains("compression_factor"), "{error}");
}
