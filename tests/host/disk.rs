//! Sessions whose snapshots go to disk: every restored state is the one that was saved, a fault of
//! the disk is an error, and no file stays.

mod faults;

use crate::common;
use crate::common::host;
use crate::common::prelude::*;
use gpuzip::predict::simulate;
use proptest::prelude::*;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// A value of an application whose states are one rough field of FP32 values.
fn rough(shot: u64, ts: i64, _: usize, i: usize) -> f64 {
    let place = (i as u32).wrapping_mul(2_654_435_761) >> 20;
    f64::from(place) + (37 * ts) as f64 + (1000 * shot) as f64
}

fn app_of(values: u64) -> HostApp<'static> {
    HostApp::new(&[field([values, 1, 1], Scalar::F32)], rough)
}

fn open(config: Config, steps: u32, app: &HostApp) -> Result<Session> {
    Session::new(config, steps.into(), &unplaced(&app.shapes))
}

/// The bytes that a snapshot takes on disk: whole pages in each folder.
fn on_pages(slot: u64, folders: u64) -> u64 {
    slot.div_ceil(folders).next_multiple_of(4096) * folders
}

/// A configuration with room for these numbers of snapshots of `slot` bytes on the device, in host
/// memory and in one folder.
fn config(algorithm: Option<Algorithm>, snapshots: u32, slots: [u64; 3], slot: u64) -> Config {
    let [device, host, disk] = slots;
    host::config(algorithm, snapshots, 0).with(|c| {
        c.tiers.device_budget = device * slot;
        c.tiers.host_budget = host * slot;
        c.tiers.disk_budget = disk * on_pages(slot, 1);
    })
}

/// A session of 90 steps, with a disk in `folder`, whose snapshots of `values` FP32 values go to disk.
fn on_disk(folder: &Path, values: u64) -> (Session, HostApp<'static>) {
    let config = config(Some(Algorithm::Revolve), 20, [2, 6, 40], 4 * values)
        .with(|c| c.tiers.disk_folders = vec![folder.into()]);
    let app = app_of(values);
    (open(config, 90, &app).unwrap(), app)
}

/// Sizes of snapshots that go through the page cache, and past it.
const SIZES: [u64; 2] = [64, 1 << 18];

#[test]
fn snapshots_beyond_host_memory_go_to_disk() {
    for values in SIZES {
        let (mut session, mut app) = on_disk(&tempdir(&format!("disk-{values}")), values);
        for k in 0..3 {
            app.seed = k;
            let stats = app.shot(&mut session).unwrap();
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
        let config = config(Some(Algorithm::Online), 14, [3, 7, 41], SLOT)
            .with(|c| c.tiers.disk_folders = vec![tempdir("disk-online")]);
        let mut app = app_of(SLOT / 4);
        let mut session = open(config, 0, &app).unwrap();
        while let Some(tick) = step(&mut session, &mut app).unwrap() {
            if is_end(tick, end, true) {
                session.end_forward().unwrap();
            }
        }
        assert_eq!(app.reversed, end);
        let stats = session.stats().unwrap();
        assert!(stats.peak_host_bytes <= 7 * SLOT, "{stats:?}");
        // Three snapshots are in the cache, and three in host memory beside four staging buffers.
        assert!(stats.disk_writes == 0 || stats.d2h > 3, "{stats:?}");
        with_disk += u32::from(stats.disk_writes > 0);
        without += u32::from(stats.disk_writes == 0 && stats.d2h > 0);
    }
    assert!(with_disk > 10 && without > 0, "{with_disk} {without}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1200))]

    /// Any schedule with any tiers, and codecs for all snapshots or for those that leave the device
    /// only: every state comes back. With zero copy the application works in the slots. Without a codec
    /// a run moves as many snapshots and bytes to disk and back as its prediction.
    #[test]
    fn random_sessions_with_a_disk(
        algorithm in prop::option::of(prop::sample::select([&ALGORITHMS[..], &[Algorithm::Trace, Algorithm::Online]].concat())),
        steps in 2u32..80, device in 0u64..12, host in 4u64..9, disk in 1u64..60, values in 1u64..900, rest in 0u64..4096, folders in 1usize..4, stride in 1u32..4,
        method in prop::option::of(prop::sample::select(vec![Method::Lorenzo, Method::Dct, Method::Fp16])),
        zero_copy: bool, lru: bool, mixed: bool, slow: bool, shots in 1u64..3,
    ) {
        // The bytes of a raw snapshot are those of its slot: predictions count slots.
        let (values, coded) = if method.is_some() { (values, 1024) } else { (values.next_multiple_of(64), 0) };
        let slot = (4 * values).next_multiple_of(256) + coded;
        let (mixed, online) = (mixed && method.is_some(), algorithm == Some(Algorithm::Online));
        let algorithm = algorithm.filter(|_| !online || method.is_some() && !mixed && !zero_copy);
        let is_lru = lru && !zero_copy && !mixed && !online && algorithm.is_some();
        let policy = if is_lru { Policy::Lru } else { Policy::Clairvoyant };
        let name: Vec<PathBuf> = (0..folders).map(|k| common::scratch(&format!("disk-random-{k}"))).collect();
        let traced = algorithm == Some(Algorithm::Trace);
        let config = config(algorithm, 0, [device, host, disk], slot).with(|c| {
            c.tiers.zero_copy = zero_copy;
            c.tiers.policy = policy;
            c.tiers.mixed_storage = mixed.then_some(true);
            c.codec.settings = coding(method.clone().unwrap_or(Method::None), ErrorBound::Absolute(40.0));
            c.device.link_bandwidth = if slow { 1e8 } else { 0.0 };
            c.tiers.disk_folders = name.clone();
            c.tiers.disk_budget = disk * on_pages(slot, folders as u64) + rest;
            c.schedule.trace_file = traced.then(|| trace_that_is_no_stack(&name[0], steps, stride));
        });
        let mut app = app_of(values);
        app.slots = zero_copy.then(|| Slots::new(false, || true));
        let Some(mut session) = open_within_budgets(&config, steps, &app.shapes) else { return Ok(()) };
        for k in 0..shots {
            app.seed = k;
            session.setup().unwrap();
            let (stats, plan) = (app.shot(&mut session).unwrap(), session.plan().unwrap());
            prop_assert_eq!(app.reversed, steps);
            if method.is_some() {
                continue;
            }
            let schedule = session.schedule().decide().unwrap();
            let tiers = session.tiers().clone();
            let predicted = simulate(&schedule, &plan, &tiers.costs, tiers.budgets).unwrap();
            prop_assert_eq!(
                (stats.disk_reads, stats.disk_writes, stats.disk_bytes, stats.h2d_bytes, stats.d2h_bytes),
                (predicted.disk_reads, predicted.disk_writes, predicted.disk_bytes, predicted.h2d_bytes, predicted.d2h_bytes)
            );
            prop_assert!(stats.peak_host_bytes <= host * slot);
            prop_assert!(tiers.disk_bytes(&plan) <= config.tiers.disk_budget);
            let taken = name.iter().map(|folder| bytes_of(&nameless_in(folder))).sum::<u64>();
            prop_assert_eq!(taken, tiers.disk_bytes(&plan));
        }
    }
}

/// Large snapshots over several folders, past the page cache.
#[test]
fn large_snapshots_are_striped() {
    for (folders, values) in [(2, 300_007u64), (3, 1 << 19), (7, 1 << 18)] {
        let slot = (4 * values).next_multiple_of(256);
        let config = config(Some(Algorithm::Revolve), 12, [2, 6, 40], slot).with(|c| {
            c.tiers.disk_folders =
                (0..folders).map(|k| tempdir(&format!("disk-large-{k}"))).collect()
        });
        let mut app = app_of(values);
        let mut session = open(config, 40, &app).unwrap();
        assert!(app.shot(&mut session).unwrap().disk_reads > 3);
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
            config(None, 0, [2, 6, 60], slot).with(|c| c.tiers.disk_folders = vec![folder.clone()]);
        let mut app = app_of(values);
        limit_files(libc::RLIM_INFINITY);
        let most = open(config.clone(), 90, &app).unwrap();
        let plan = most.plan().unwrap();
        let needed = most.tiers().disk_bytes(&plan);
        drop(most);
        assert!(needed > 30 * slot, "{needed}");
        for room in [20 * slot.max(4096), 3 * slot.max(4096), 1, 0] {
            limit_files(room);
            let mut session = open(config.clone(), 90, &app).unwrap();
            app.shot(&mut session).unwrap();
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
        let config = config.with(|c| {
            c.schedule.algorithm = Some(Algorithm::Revolve);
            c.schedule.snapshots = 40;
        });
        refused(open(config, 90, &app), Code::Budget, &["has room for", "disk_path"]);
        limit_files(libc::RLIM_INFINITY);
    }
}

/// A snapshot takes whole pages in each folder, which count in `disk_budget`: a budget for less than one
/// snapshot is an error that says what is missing.
#[test]
fn a_disk_budget_for_less_than_one_snapshot_is_an_error() {
    let folder = tempdir("disk-less");
    let app = app_of(64);
    for folders in 1..4u64 {
        let of = |disk_budget: u64| {
            let config = config(Some(Algorithm::Revolve), 9, [2, 6, 0], 256).with(|c| {
                c.tiers.disk_budget = disk_budget;
                c.tiers.disk_folders = vec![folder.clone(); folders as usize];
            });
            open(config, 90, &app)
        };
        for disk_budget in [1, 4096 * folders - 1] {
            let needed = format!("a snapshot takes {} bytes of disk", 4096 * folders);
            let given = format!("disk_budget = {disk_budget}:");
            refused(of(disk_budget), Code::Budget, &[&given, &needed, "pages of 4096 bytes"]);
        }
        // Two snapshots on the device, two in host memory beside the staging buffers, and five on disk.
        assert!(of(5 * 4096 * folders).is_ok());
        refused(of(5 * 4096 * folders - 1), Code::Budget, &[]);
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
                let config = config(Some(Algorithm::Revolve), 20, [2, 6, 0], slot).with(|c| {
                    c.tiers.disk_folders = folders.map(Clone::clone).to_vec();
                    c.tiers.disk_budget = 40 * on_pages(slot, 2);
                });
                let mut app = app_of(values);
                let mut session = open(config, 90, &app).unwrap();
                for k in 0..2 {
                    app.seed = k;
                    assert!(app.shot(&mut session).unwrap().disk_reads > 10);
                    session.setup().unwrap();
                }
                let lengths = folders.map(|folder| {
                    let files = nameless_in(folder);
                    assert_eq!(files.len(), 1, "{}", folder.display());
                    bytes_of(&files)
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
    let config = config(None, 0, [2, 6, 60], 4096).with(|c| c.tiers.disk_folders = vec![folder]);
    let mut app = app_of(1024);
    let mut taken = |session: &mut Session| {
        app.shot(session).unwrap();
        let plan = session.plan().unwrap();
        session.tiers().disk_bytes(&plan)
    };
    limit_files(12 * 4096);
    let mut session = open(config.clone(), 90, &app_of(1024)).unwrap();
    assert!((1..=12 * 4096).contains(&taken(&mut session)));
    limit_files(libc::RLIM_INFINITY);
    session.setup_steps(91).unwrap();
    let mut fresh = open(config, 91, &app_of(1024)).unwrap();
    let expected = taken(&mut fresh);
    assert!(expected > 12 * 4096, "{expected}");
    assert_eq!(taken(&mut session), expected);
}

/// A compressed snapshot that is larger than its place on disk stays in host memory, if there is room.
#[test]
fn a_snapshot_that_does_not_fit_its_place_stays_in_host_memory() {
    let values = 1024;
    let config = config(Some(Algorithm::Revolve), 60, [0, 1000, 0], 1024).with(|c| {
        c.codec.settings = coding(Method::Lorenzo, ErrorBound::Absolute(1e-3));
        c.codec.compression_factor = 6.4;
    });
    let mut app = app_of(values);
    let slot = open(config.clone(), 120, &app).unwrap().tiers().slot_bytes;
    let with = |host: u64| {
        config.clone().with(|c| {
            c.tiers.host_budget = host * slot;
            c.tiers.disk_budget = 100 * on_pages(slot, 1);
        })
    };
    // States have one value at all positions, except every 31st state.
    app.values = Box::new(|shot, ts, k, i| rough(shot, ts, k, if ts % 31 == 0 { i } else { 0 }));
    let mut session = open(with(4 + 30), 120, &app).unwrap();
    for k in 0..3 {
        app.seed = k;
        let stats = app.shot(&mut session).unwrap();
        assert!(stats.disk_writes > 10 && stats.peak_host_bytes <= 34 * slot, "{stats:?}");
        session.setup().unwrap();
    }
    let (plan, schedule) = (session.plan().unwrap(), session.schedule().decide().unwrap());
    let on_disk = session.tiers().on_disk(&plan);
    let saves =
        schedule.actions().filter(|action| matches!(action.kind, Kind::Save | Kind::Restore));
    let large = saves.zip(&plan.steps).filter(|(action, step)| {
        action.kind == Kind::Save && action.ts % 31 == 0 && step.host < on_disk
    });
    assert!(large.count() > 0, "no snapshot was larger than its place");

    // All snapshots are too large, and host memory has room for the staging buffers only.
    app.values = Box::new(rough);
    let mut session = open(with(4), 120, &app).unwrap();
    let parts = ["its place on disk", "compression_factor"];
    refused(app.shot(&mut session), Code::Budget, &parts);
}
