//! A stop of a run. Each test runs alone in a process, in which it requests a stop: a request holds for
//! the whole process.

use crate::common::prelude::*;
use crate::common::wave::{persisting, resume, session, write, App, Job, N};
use gpuzip::capi::gpuzip_request_stop;
use gpuzip::session::AgreeMin;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{mpsc, Arc, Barrier};
use std::time::Duration;

/// Makes an application whose states get rougher from step to step, so that the largest compressed
/// snapshot of a shot is not that of the shot before.
fn rough() -> App {
    let source = |shot, ts, i| (i as f32 * (ts + 1) as f32 * (1 + 30 * shot) as f32 * 0.01).sin();
    App { source, ..App::new(false) }
}

/// Runs shot `shot`, up to `most` actions.
fn run(session: &mut Session, app: &mut App, shot: u32, most: usize) {
    app.shot = shot;
    app.begin();
    for _ in 0..most {
        if step(session, app).unwrap().is_none() {
            return app.add_up();
        }
    }
}

fn job() -> Job {
    Job {
        config: config(None, 10, 0).with(|c| c.restart.stop_budget = 60.0),
        steps: 80,
        ends: None,
    }
}

#[test]
fn a_stop_within_a_shot_keeps_the_plan_of_its_begin() {
    let Some(_) = alone("a_stop_within_a_shot_keeps_the_plan_of_its_begin") else { return };
    gpuzip_request_stop();
    let state = 8 * N as u64 + 512;
    for slots in [5, 6, 7] {
        let config = config(Algorithm::Revolve, 10, 0).with(|c| {
            c.tiers.device_budget = slots * state;
            c.tiers.host_budget = 12 * state;
            c.tiers.mixed_storage = Some(true);
            c.codec.compression_factor = 2.0;
            c.codec.settings = coding(Method::Lorenzo, ErrorBound::OfMax(1e-3));
            c.restart.stop_budget = 1e-9;
        });
        let job = Job { config, steps: 80, ends: None };
        let mut whole = rough();
        let mut one = Session::new(job.config.clone(), job.steps, &whole.levels()).unwrap();
        for shot in 0..3 {
            one.setup().unwrap();
            run(&mut one, &mut whole, shot, usize::MAX);
        }
        drop(one);
        for stop_in in 0..3 {
            let dir = tempdir("stop-plan");
            let mut first = rough();
            let mut one = session(&job, &dir, &first).unwrap();
            for shot in 0..=stop_in {
                one.setup().unwrap();
                let most = if shot == stop_in { 60 } else { usize::MAX };
                run(&mut one, &mut first, shot, most);
            }
            write(&mut one, stop_in.into(), &first).unwrap();
            drop(one);
            let mut second = rough();
            let (mut two, shot, it) = resume(&job, &dir, &second).unwrap();
            assert_eq!((shot, it), (stop_in.into(), -1));
            for shot in stop_in..3 {
                if shot > stop_in {
                    two.setup().unwrap();
                }
                run(&mut two, &mut second, shot, usize::MAX);
            }
            let images = [&whole, &second].map(|app| app.stack.bytes().to_vec());
            assert!(images[0] == images[1], "{slots} slots, a stop in shot {stop_in}");
        }
    }
}

/// Without time for the state, the start of the shot is not written over a later generation within it.
#[test]
fn a_stop_without_time_keeps_the_generation_within_the_shot() {
    let Some(_) = alone("a_stop_without_time_keeps_the_generation_within_the_shot") else { return };
    let (dir, mut app) = (tempdir("stop-within"), rough());
    let job = Job { config: job().config.with(|c| c.restart.stop_budget = 1e-9), ..job() };
    let mut one = session(&job, &dir, &app).unwrap();
    one.setup().unwrap();
    run(&mut one, &mut app, 0, 50);
    write(&mut one, 0, &app).unwrap();
    for _ in 0..20 {
        step(&mut one, &mut app).unwrap();
    }
    gpuzip_request_stop();
    write(&mut one, 0, &app).unwrap();
    drop(one);
    let mut second = rough();
    let (mut two, shot, it) = resume(&job, &dir, &second).unwrap();
    assert_eq!((shot, it), (0, 49));
    second.finish(&mut two).unwrap();
    let mut whole = rough();
    let mut one = Session::new(job.config.clone(), job.steps, &whole.levels()).unwrap();
    run(&mut one, &mut whole, 0, usize::MAX);
    assert!(whole.stack.bytes() == second.stack.bytes());
}

#[test]
fn an_earlier_lost_generation_does_not_prevent_the_last_one() {
    let Some(_) = alone("an_earlier_lost_generation_does_not_prevent_the_last_one") else { return };
    gpuzip_request_stop();
    let (dir, app) = (tempdir("stop-earlier"), rough());
    let mut session = session(&job(), &dir, &app).unwrap();
    let arrays = app.arrays();
    write(&mut session, 0, &app).unwrap();
    std::fs::create_dir_all(dir.join("gpuzip-r000000-g000000000002.gen/inside")).unwrap();
    session.persist_write(1, &arrays, HOST).unwrap();
    refused(session.persist_write(2, &arrays, HOST), Code::Io, &["generation 2"]);
    let found = session.persist_find().unwrap().unwrap();
    assert_eq!((found.origin.generation, found.header.shot), (3, 2));
    assert_eq!(session.stats().unwrap().generations, 2);
}

/// Returns the reduction of two threads. Its rank counts its calls in `calls`.
fn agree(
    rank: usize,
    barrier: Arc<Barrier>,
    values: Arc<[AtomicI64; 2]>,
    calls: Arc<AtomicI64>,
) -> AgreeMin {
    Box::new(move |value| {
        calls.fetch_add(1, Ordering::Relaxed);
        values[rank].store(value, Ordering::SeqCst);
        barrier.wait();
        let least = values.iter().map(|value| value.load(Ordering::SeqCst)).min().unwrap();
        barrier.wait();
        Ok(least)
    })
}

/// Runs rank `rank` of two to a stop within a shot. `trouble`: what fails on rank 0 alone.
fn rank(rank: usize, trouble: u32, dir: &Path, agree_min: AgreeMin) -> (Result<()>, Result<()>) {
    let mut app = rough();
    let config = persisting(&job(), dir);
    let mut session = Session::new(config, 80, &app.levels()).unwrap();
    session.persist_open((rank as u32, 2), agree_min).unwrap();
    run(&mut session, &mut app, 0, 5);
    let mut arrays = app.arrays();
    let mut shot = 0;
    match (rank, trouble) {
        // Its file of the start of the shot, or of the action, cannot be made.
        (0, 0 | 1) => {
            let name = format!("gpuzip-r000000-g{:012}.tmp/inside", trouble + 1);
            std::fs::create_dir_all(dir.join(name)).unwrap();
        }
        (0, 2) => arrays[1].field.memory = None,
        (0, 3) => shot = -1,
        // The publication of the generation of the start fails.
        (0, 4) => {
            let name = "gpuzip-r000000-g000000000001.gen/inside";
            std::fs::create_dir_all(dir.join(name)).unwrap();
        }
        // An action that was not served.
        (0, 5) => while session.get_action().unwrap().action.kind == Kind::Forward {},
        _ => {}
    }
    let written = session.persist_write(shot, &arrays, HOST);
    (written, session.persist_wait())
}

#[test]
fn whatever_fails_on_one_rank_no_rank_waits_for_ever() {
    let Some(_) = alone("whatever_fails_on_one_rank_no_rank_waits_for_ever") else { return };
    gpuzip_request_stop();
    for trouble in 0..7 {
        let dir = tempdir("stop-ranks");
        let (barrier, values) =
            (Arc::new(Barrier::new(2)), Arc::new([const { AtomicI64::new(0) }; 2]));
        let (done, results) = mpsc::channel();
        let calls = [(); 2].map(|()| Arc::new(AtomicI64::new(0)));
        for (k, calls) in calls.iter().enumerate() {
            let agree_min = agree(k, barrier.clone(), values.clone(), calls.clone());
            let (done, dir) = (done.clone(), dir.clone());
            std::thread::spawn(move || done.send((k, rank(k, trouble, &dir, agree_min))));
        }
        for _ in 0..2 {
            let result = results.recv_timeout(Duration::from_secs(60));
            let (k, (written, waited)) =
                result.unwrap_or_else(|_| panic!("trouble {trouble}: a rank waits for ever"));
            assert_eq!(written.is_err(), trouble < 6, "trouble {trouble}, rank {k}: {written:?}");
            assert!(waited.is_ok(), "trouble {trouble}, rank {k}: {waited:?}");
        }
        let [a, b] = calls.map(|calls| calls.load(Ordering::Relaxed));
        assert_eq!(a, b, "trouble {trouble}");
    }
}
