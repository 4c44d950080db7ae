//! The links between host and device in virtual time, on the software CUDA driver: a run takes as long
//! as the simulator predicts, and transfers leave the link to others at the end of each chunk.

use crate::common::emu::emulated;
use crate::common::play::play;
use crate::common::prelude::*;
use crate::common::{self, app, emu};
use app::device::{Own, Pinned};
use app::ok;
use app::plain::{Plain, Step};
use gpuzip::device::set_chunk_bytes;
use gpuzip::predict::{simulate, Budgets, Costs, Times};
use std::path::Path;

/// Values of a state, which is one field, and its bytes. Predictions know no fields: the fields of a
/// RESTORE without a slot could each wait for a chunk.
const VALUES: usize = 2048;
const STATE: usize = 4 * VALUES;
/// Bytes of device memory of the software driver.
const MEMORY: u64 = 1 << 20;
/// Seconds of a time step, and of a snapshot's copy within the device.
const STEP: f64 = 1e-3;
const COPY: f64 = 2e-4;
/// Bytes of a chunk.
const CHUNK: usize = STATE / 8;

/// Makes an application on the software driver in virtual time, whose time steps take `STEP` seconds.
/// `upload` and `download` are the seconds of a snapshot's transfer.
fn application(upload: f64, download: f64) -> Plain {
    assert_eq!(emu::reset(1, emu::TIMED, 1, MEMORY), 0);
    let speed = |seconds: f64| STATE as f64 / seconds;
    assert_eq!(emu::bandwidth(speed(upload), speed(download), speed(COPY)), 0);
    Plain::new(VALUES, Step::Takes(STEP))
}

fn session(app: &Plain, config: Config, steps: i64) -> Session {
    let place = config.with(|c| {
        c.device.backend = Backend::Cuda;
        c.device.ordinal = Some(0);
    });
    Session::new(place.with(|c| c.device.max_in_flight = 1 << 20), steps, &app.field()).unwrap()
}

/// A recorded schedule whose snapshots form no stack, so that RESTOREs without a slot come while
/// prefetches are under way.
fn trace(path: &Path, steps: u64, seed: u64) {
    let mut draws = (0..).map(|k: u64| (k * 48_271 + seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut draw = |below: u64| (draws.next().unwrap() >> 33) % below;
    let (mut text, mut stored, mut live) = (String::from("0 SAVE\n"), vec![0], 0);
    for target in (0..steps).rev() {
        let below: Vec<u64> = stored.iter().copied().filter(|&s| s <= target).collect();
        let from = below[draw(below.len() as u64) as usize];
        if target + 1 < steps {
            text += &format!("{from} RESTORE\n");
            live = from;
        }
        while live < target {
            live += 1;
            text += &format!("{live} FORWARD\n");
            if !stored.contains(&live) && draw(3) == 0 {
                stored.push(live);
                text += &format!("{live} SAVE\n");
            }
        }
        text += &format!("{target} BACKWARD\n");
    }
    std::fs::write(path, text + "0 TERMINATE\n").unwrap();
}

/// The schedules and caches whose runs are compared with their predictions.
fn configs() -> Vec<Config> {
    let folder = common::tempdir("cuda-links");
    let of = |algorithm, snapshots, cache| {
        let algorithm = Some(algorithm);
        Config::default().with(|c| {
            c.schedule.algorithm = algorithm;
            c.schedule.snapshots = snapshots;
            c.tiers.cache = cache;
            c.tiers.policy = Policy::Clairvoyant;
        })
    };
    let mut configs = vec![
        of(Algorithm::Revolve, 4, 1),
        of(Algorithm::Revolve, 6, 2),
        of(Algorithm::Revolve, 8, 4),
        of(Algorithm::Uniform, 8, 2),
        of(Algorithm::StoreAll, 0, 3),
        of(Algorithm::Zcut, 20, 2),
        of(Algorithm::Revolve, 20, 2),
        of(Algorithm::Revolve, 6, 3).with(|c| c.tiers.zero_copy = true),
        of(Algorithm::Revolve, 6, 2).with(|c| c.tiers.policy = Policy::Lru),
    ];
    for seed in 0..4 {
        let path = folder.join(format!("{seed}.trace"));
        trace(&path, 40, seed);
        let traced = of(Algorithm::Trace, 0, 2 + seed as u32);
        configs.push(traced.with(|c| c.schedule.trace_file = Some(path)));
    }
    configs
}

/// Runs a shot. Returns the seconds that the library made the application's stream
/// wait or copy: in virtual time, as predicted, and as predicted for two copy engines.
fn stalls(config: &Config, upload: f64, download: f64, one_engine: bool) -> (f64, f64, f64) {
    let mut app = application(upload, download);
    app.slots = config.tiers.zero_copy.then(|| Slots::new(true, || false));
    // The directions meet in long runs alone, where snapshots are saved again.
    let steps = if config.schedule.trace_file.is_some() { 40 } else { 300 };
    let mut session = session(&app, config.clone(), steps);
    play(&mut session, &mut app).unwrap();
    session.synchronize().unwrap();
    let stall = session.stats().unwrap().stall;
    let (schedule, plan) = (session.schedule().decide().unwrap(), session.plan().unwrap());
    let costs = Costs {
        forward: Times::Each(STEP),
        backward: Times::Each(STEP),
        copy: COPY,
        upload,
        download,
        one_engine,
        ..session.tiers().costs.clone()
    };
    drop(session);
    let predicted = |costs| simulate(&schedule, &plan, &costs, Budgets::NONE).unwrap().stall();
    (stall, predicted(costs.clone()), predicted(Costs { one_engine: false, ..costs }))
}

/// Fast links hide all transfers, slow ones make every transfer late.
const LINKS: [(f64, f64); 5] =
    [(3e-4, 3e-4), (2.6e-3, 2.6e-3), (7.3e-3, 4.1e-3), (16e-3, 16e-3), (2e-3, 30e-3)];

#[test]
fn a_run_takes_the_time_that_is_predicted() {
    emulated!();
    compare(false);
}

/// On a device with one copy engine, too, on which the directions take turns.
#[test]
fn a_run_with_one_copy_engine_takes_the_time_that_is_predicted() {
    emulated!(&[("CUDA_EMU_COPY_ENGINES", "1")]);
    compare(true);
}

fn compare(one_engine: bool) {
    let (mut interrupted, mut slower) = (0, 0);
    for config in configs() {
        for (upload, download) in LINKS {
            set_chunk_bytes(STATE as u64);
            let (_, whole, _) = stalls(&config, upload, download, one_engine);
            set_chunk_bytes(CHUNK as u64);
            let (stall, predicted, other) = stalls(&config, upload, download, one_engine);
            slower += u32::from(predicted > 1.001 * other);
            interrupted += u32::from(predicted < 0.999 * whole);
            assert!(
                (stall - predicted).abs() < 1e-4 * predicted + 1e-5,
                "{stall} s of stall, {predicted} s predicted, transfers of {upload} and {download} s: {config:?}"
            );
        }
    }
    println!("chunks shorten {interrupted} runs, one engine makes {slower} longer");
    assert_eq!(slower > 0, one_engine);
    assert!(interrupted > 0, "no transfer is interrupted in any of these runs");
}

/// The application stores four bytes per time step in host memory, on a stream of its own, while
/// snapshots are written back and fetched: it waits for one chunk of a snapshot at most.
#[test]
fn a_copy_of_the_application_waits_for_one_chunk() {
    emulated!();
    let download = 16e-3;
    let longest = |chunk: usize| {
        set_chunk_bytes(chunk as u64);
        let mut app = application(download, download);
        let (own, at, mut longest) = (Own::new(), Pinned::new(4), 0.0f64);
        let config = Config::default().with(|c| {
            c.schedule.algorithm = Some(Algorithm::StoreAll);
            c.tiers.cache = 2;
            c.tiers.policy = Policy::Clairvoyant;
        });
        let (mut session, field) = (session(&app, config, 12), app.memory.0);
        play_with(&mut session, &mut app, |_, tick| {
            if matches!(tick.action.kind, Kind::Forward | Kind::Backward) {
                let begin = emu::host_clock();
                ok!(cuMemcpyDtoHAsync_v2(at.0, field, 4, own.0));
                ok!(cuStreamSynchronize(own.0));
                longest = longest.max(emu::host_clock() - begin);
            }
        })
        .unwrap();
        longest
    };
    let (whole, chunk) = (longest(STATE), longest(CHUNK));
    println!("{:.2} ms, in chunks {:.2} ms", 1e3 * whole, 1e3 * chunk);
    assert!(whole > 0.5 * download && chunk < 1.1 * download / 8.0, "{whole} s, {chunk} s");
}
