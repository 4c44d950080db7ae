//! Timelines of runs on the CUDA backend, on the software driver: a timeline has every action, its
//! sums and counts are those of the statistics and of the plan, and the host waits for the timeline
//! only at TERMINATE. In virtual time the spans are right to the microsecond.

use crate::common::emu::emulated;
use crate::common::play::play;
use crate::common::prelude::*;
use crate::common::{self, app, emu, reading};
use app::plain::{Plain, Step};
use app::{config, draw_job, emulate, run, Draws, Job, MEMORY};
use common::checksum::fnv;
use gpuzip::choice::choose_among;
use gpuzip::schedule::Action;
use reading::{shots, Shot};
use std::path::Path;

/// Bytes of a snapshot.
const SLOT: u64 = 1024;

fn actions_of(job: &Job) -> (Vec<(Action, u32)>, gpuzip::plan::Counts) {
    let choice =
        choose_among(&job.config, job.steps, &[vec![app::raw_tiers(&job.config, SLOT)]]).unwrap();
    (choice.schedule.ranges(job.config.schedule.range_actions).collect(), choice.plans[0].counts)
}

#[test]
fn every_action_and_every_transfer_is_in_the_file() {
    emulated!();
    let folder = common::tempdir("cuda-timeline");
    for seed in 0..300 {
        let path = folder.join(format!("{seed}.json"));
        let mut job = draw_job(seed, &Draws { lru: 3, shots: 1..4, ..Draws::PLAIN });
        job.config.report.trace_out = Some(path.clone());
        let outcome = emulate(&job, seed, emu::mode(seed), MEMORY, || run(&job, seed));
        let (found, (actions, plan)) = (shots(&path), actions_of(&job));
        assert_eq!(found.len(), job.shots as usize);
        found
            .iter()
            .zip(&outcome.stats)
            .for_each(|(shot, stats)| shot.check(&actions, stats, &plan));
        std::fs::remove_file(path).unwrap();
    }
}

/// However many actions a shot has, the host waits for the timeline only at TERMINATE.
#[test]
fn only_the_end_of_a_shot_waits() {
    emulated!();
    let folder = common::tempdir("cuda-timeline-waits");
    let mut waits = Vec::new();
    for (k, steps) in [20, 80, 160].into_iter().enumerate() {
        let base = app::reference(Policy::Clairvoyant, 3);
        let config =
            base.config.with(|c| c.report.trace_out = Some(folder.join(format!("{k}.json"))));
        assert_eq!(emu::reset(1, emu::RANDOM, 1, 16 * MEMORY), 0);
        waits.push(run(&Job { config, steps, ..base }, 1).unwrap().syncs);
    }
    assert!(waits.iter().all(|&count| count <= 6), "{waits:?}");
}

/// Seconds of a time step, and of the transfer of a state.
const STEP: f64 = 1e-3;
const TRANSFER: f64 = 2.5e-3;
const VALUES: usize = 1000;

/// Runs a shot in virtual time, with time steps of `STEP` seconds, and returns its timeline and its
/// statistics.
fn timed(config: Config, steps: i64, path: &Path) -> (Shot, gpuzip::stats::Stats) {
    let bandwidth = 4.0 * VALUES as f64 / TRANSFER;
    assert_eq!(emu::bandwidth(bandwidth, bandwidth, 1e12), 0);
    let mut app = Plain::on_default(VALUES, Step::Takes(STEP));
    app.set(0x3c);
    let config = config.with(|c| {
        c.device.backend = Backend::Cuda;
        c.device.ordinal = Some(0);
        c.report.trace_out = Some(path.into());
        c.device.max_in_flight = 1 << 20;
    });
    let mut session = Session::new(config, steps, &app.field()).unwrap();
    play(&mut session, &mut app).unwrap();
    let stats = session.stats().unwrap();
    drop(session);
    (shots(path).pop().unwrap(), stats)
}

fn close(a: f64, b: f64, tolerance: f64) {
    assert!((a - b).abs() <= tolerance, "{a} and {b}");
}

/// Spans are those of virtual time: steps and transfers take their configured times, and the stream
/// of the application computes or waits all the time.
#[test]
fn spans_are_those_of_virtual_time() {
    emulated!();
    let folder = common::tempdir("cuda-timeline-virtual");
    for (k, range_actions) in [false, true].into_iter().enumerate() {
        assert_eq!(emu::reset(1, emu::TIMED, 1, MEMORY), 0);
        let config = config(Algorithm::Revolve, 5, 2, Policy::Clairvoyant)
            .with(|c| c.schedule.range_actions = range_actions);
        let (shot, stats) = timed(config, 60, &folder.join(format!("{k}.json")));
        for span in shot.row("compute") {
            let count =
                span.arguments["last"].as_i64().map_or(1, |last| last - span.argument("state") + 1);
            close(span.length / 1e6, STEP * count as f64, 2e-6);
        }
        for row in ["h2d", "d2h", "h2d on the stream", "d2h on the stream"] {
            for span in shot.row(row) {
                // A transfer may wait for the copy engine while another transfer uses it, on the
                // application's stream too.
                assert!(
                    span.length / 1e6 >= TRANSFER * 0.999 && span.length / 1e6 <= 2.1 * TRANSFER,
                    "{span:?}"
                );
            }
        }
        let (compute, stall) = (shot.seconds("compute", &[]), shot.seconds("stall", &[]));
        close(compute, (stats.forward_steps + stats.backward_steps) as f64 * STEP, 1e-4);
        close(stall, stats.stall, 1e-6);
        assert!(stall > 0.1 * compute, "transfers are waited for");
        close(shot.about["makespan_s"].as_f64().unwrap(), compute + stall, 0.01 * compute);
    }
}

/// Compression on a GPU takes the time of its kernels, in the statistics as in the timeline.
#[test]
fn compression_is_timed() {
    emulated!(kernels);
    let folder = common::tempdir("cuda-timeline-codec");
    let compression = coding(Method::Fp16, ErrorBound::DEFAULT);
    let config = config(Algorithm::Revolve, 5, 2, Policy::Clairvoyant)
        .with(|c| c.codec.settings = compression);
    let mut per = Vec::new();
    for (k, seconds) in [0.0, 1e-4, 2e-4].into_iter().enumerate() {
        assert_eq!(emu::reset(1, emu::TIMED, 1, 1 << 22), 0);
        assert_eq!(emu::launch(seconds), 0);
        let (shot, stats) = timed(config.clone(), 30, &folder.join(format!("{k}.json")));
        close(shot.seconds("codec", &["compress"]), stats.compress, 1e-6);
        close(shot.seconds("codec", &["decompress"]), stats.decompress, 1e-6);
        per.push((
            stats.compress / stats.saves as f64 / 1e-4,
            stats.decompress / stats.restores as f64 / 1e-4,
        ));
    }
    assert_eq!(emu::launch(0.0), 0);
    println!("kernels of a save and of a restore: {per:?}");
    close(per[0].0 + per[0].1, 0.0, 1e-2);
    // Every snapshot takes the same whole number of kernels.
    close(per[1].0, per[1].0.round(), 1e-2);
    close(per[1].1, per[1].1.round(), 1e-2);
    assert!(per[1].0 >= 4.0 && per[1].1 >= 4.0, "{per:?}");
    close(per[2].0, 2.0 * per[1].0, 1e-2);
    close(per[2].1, 2.0 * per[1].1, 1e-2);
}

/// Kernels with names of their own take times of their own. A session's coding takes what the times of
/// its launches add up to, in virtual time as in the statistics.
#[test]
fn every_kernel_takes_its_own_time() {
    const TIMES: [(&str, f64); 5] = [
        ("snapshot_survey", 1.5e-4),
        ("half_encode", 3e-4),
        ("snapshot_seal", 2e-5),
        ("half_decode", 7e-4),
        ("snapshot_conclude", 5e-5),
    ];
    let images = emu::images();
    let times = TIMES.map(|(name, seconds)| format!("{name}:{seconds}")).join(",");
    let variables =
        [("GPUZIP_CACHE_DIR", images.to_str().unwrap()), ("CUDA_EMU_KERNEL_TIMES", &times)];
    if !common::have("c++") || !emu::inside("every_kernel_takes_its_own_time", &variables) {
        return;
    }
    let folder = common::tempdir("cuda-timeline-kernels");
    let compression = coding(Method::Fp16, ErrorBound::DEFAULT);
    let config = config(Algorithm::Revolve, 5, 2, Policy::Clairvoyant)
        .with(|c| c.codec.settings = compression);
    assert_eq!(emu::reset(1, emu::TIMED, 1, 1 << 22), 0);
    emu::start_history();
    let (shot, stats) = timed(config, 30, &folder.join("shot.json"));
    let history = emu::history();
    // The first argument of a launch stands for the launch; its entry has the FNV-1a of the name.
    let launches = |name: &str| {
        let hash = fnv(name.as_bytes());
        let is_launch = |entry: &&emu::Entry| {
            (entry.kind, entry.event, entry.from) == (emu::Kind::Argument, hash, 0)
        };
        history.iter().filter(is_launch).count() as u64
    };
    let [survey, encode, seal, decode, conclude] = TIMES.map(|(name, _)| launches(name));
    assert_eq!((survey, encode, decode), (stats.saves, stats.saves, stats.restores));
    assert_eq!((seal, conclude), (stats.saves, stats.restores));
    let sum: f64 = TIMES.iter().map(|(name, time)| launches(name) as f64 * time).sum();
    close(stats.compress + stats.decompress, sum, 1e-5 * sum);
    close(shot.seconds("codec", &[]), sum, 1e-5 * sum);
    // The application's stream waits for its codec.
    let (compute, stall) = (shot.seconds("compute", &[]), shot.seconds("stall", &[]));
    assert!(stall >= sum, "{stall} {sum}");
    close(shot.about["makespan_s"].as_f64().unwrap(), compute + stall, 1e-5);
}
