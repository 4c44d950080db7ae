//! A stop of a run. Each test runs alone in a process, in which it requests a stop: a request holds for
//! the whole process.

use crate::common;
use crate::common::host::{coding, config, field};
use crate::common::play::{self, step, HOST};
use common::{alone, tempdir};
use gpuzip::capi::gpuzip_request_stop;
use gpuzip::choice::Tick;
use gpuzip::codec::{ErrorBound, Method};
use gpuzip::config::Config;
use gpuzip::device::{AppField, AppMemory};
use gpuzip::error::{Code, Result};
use gpuzip::persist::Name;
use gpuzip::scalar::Scalar;
use gpuzip::schedule::{Algorithm, Kind};
use gpuzip::session::{AgreeMin, Array, Session};
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{mpsc, Arc, Barrier};
use std::time::Duration;

/// Values of the state.
const N: usize = 6000;

fn placed(values: &mut [f32]) -> AppField {
    let field = field([values.len() as u64, 1, 1], Scalar::F32);
    // SAFETY: the values outlive their session in every test, and are used by one call at a time.
    let memory = unsafe { AppMemory::new(values.as_mut_ptr().cast(), 4 * values.len()) };
    AppField { field, memory: Some(memory) }
}

/// A run of shots, whose image and restored states make one number.
struct App {
    state: Vec<f32>,
    image: Vec<f32>,
    hash: Vec<f32>,
    shot: u32,
}

impl App {
    fn new() -> Self {
        App { state: vec![0.0; N], image: vec![0.0; N], hash: vec![0.0; N], shot: 0 }
    }

    fn arrays(&mut self) -> Vec<Array> {
        let array = |name, values: &mut [f32], changes_within| Array {
            name: Name::new(name).unwrap(),
            field: placed(values),
            changes_within,
        };
        vec![
            array("image", &mut self.image, false),
            array("hash", &mut self.hash, true),
            array("state", &mut self.state, true),
        ]
    }

    /// Runs shot `shot`, up to `most` actions.
    fn shot(&mut self, session: &mut Session, shot: u32, most: usize) -> Result<()> {
        self.state.fill(0.0);
        self.hash.fill(0.0);
        self.shot = shot;
        for _ in 0..most {
            if step(session, self)?.is_none() {
                for (image, hash) in self.image.iter_mut().zip(&self.hash) {
                    *image += *hash;
                }
                break;
            }
        }
        Ok(())
    }
}

impl play::App for App {
    fn fields(&mut self) -> Vec<AppField> {
        vec![placed(&mut self.state)]
    }

    /// The states get rougher from step to step, so that the largest compressed snapshot of a shot is
    /// not that of the shot before.
    fn forward(&mut self, ts: u32) {
        let rough = (ts + 1) as f32 * (1 + 30 * self.shot) as f32 * 0.01;
        for (i, value) in self.state.iter_mut().enumerate() {
            *value = 0.9 * *value + (i as f32 * rough).sin();
        }
    }

    fn backward(&mut self, _: Tick) {
        for (hash, value) in self.hash.iter_mut().zip(&self.state) {
            *hash = 0.7 * *hash + *value;
        }
    }
}

fn open(config: &Config, dir: Option<&Path>, app: &mut App) -> Session {
    let config = Config { persist_dir: dir.map(Into::into), ..config.clone() };
    let mut session = Session::new(config, 80, &[placed(&mut app.state)]).unwrap();
    if dir.is_some() {
        session.persist_open((0, 1), Box::new(Ok)).unwrap();
    }
    session
}

fn plain() -> Config {
    Config { stop_budget: 60.0, ..config(None, 10, 0) }
}

#[test]
fn a_stop_within_a_shot_keeps_the_plan_of_its_begin() {
    let Some(_) = alone("a_stop_within_a_shot_keeps_the_plan_of_its_begin") else { return };
    gpuzip_request_stop();
    let state = 4 * N as u64 + 512;
    let mut differ = 0;
    for slots in [5, 6, 7] {
        let config = Config {
            algorithm: Some(Algorithm::Revolve),
            device_budget: slots * state,
            host_budget: 12 * state,
            stop_budget: 1e-9,
            mixed_storage: Some(true),
            compression_factor: 2.0,
            compression: coding(Method::Lorenzo, ErrorBound::OfMax(1e-3)),
            ..plain()
        };
        let mut whole = App::new();
        let mut session = open(&config, None, &mut whole);
        for shot in 0..3 {
            session.setup().unwrap();
            whole.shot(&mut session, shot, usize::MAX).unwrap();
        }
        drop(session);
        for stop_in in 0..3 {
            let dir = tempdir("stop-plan");
            let mut first = App::new();
            let mut session = open(&config, Some(&dir), &mut first);
            for shot in 0..=stop_in {
                session.setup().unwrap();
                let most = if shot == stop_in { 60 } else { usize::MAX };
                first.shot(&mut session, shot, most).unwrap();
            }
            session.persist_write(stop_in.into(), &first.arrays(), HOST).unwrap();
            session.persist_wait().unwrap();
            drop(session);
            let mut second = App::new();
            let mut session = open(&config, Some(&dir), &mut second);
            let found = session.persist_find().unwrap().unwrap();
            assert_eq!((found.shot, found.it), (stop_in.into(), -1));
            session.persist_read(&second.arrays(), HOST).unwrap();
            for shot in stop_in..3 {
                if shot > stop_in {
                    session.setup().unwrap();
                }
                second.shot(&mut session, shot, usize::MAX).unwrap();
            }
            differ += usize::from(whole.image != second.image);
        }
    }
    assert_eq!(differ, 0, "images that differ");
}

#[test]
fn an_earlier_lost_generation_does_not_prevent_the_last_one() {
    let Some(_) = alone("an_earlier_lost_generation_does_not_prevent_the_last_one") else { return };
    gpuzip_request_stop();
    let (dir, mut app) = (tempdir("stop-earlier"), App::new());
    let mut session = open(&plain(), Some(&dir), &mut app);
    let arrays = app.arrays();
    session.persist_write(0, &arrays, HOST).unwrap();
    session.persist_wait().unwrap();
    std::fs::create_dir_all(dir.join("gpuzip-r000000-g000000000002.gen/inside")).unwrap();
    session.persist_write(1, &arrays, HOST).unwrap();
    let error = session.persist_write(2, &arrays, HOST).unwrap_err();
    assert!(error.code == Code::Io && error.message.contains("generation 2"), "{error}");
    let found = session.persist_find().unwrap().unwrap();
    assert_eq!((found.generation, found.shot), (3, 2));
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
    let mut app = App::new();
    let config = Config { persist_dir: Some(dir.into()), ..plain() };
    let mut session = Session::new(config, 80, &[placed(&mut app.state)]).unwrap();
    session.persist_open((rank as u32, 2), agree_min).unwrap();
    app.shot(&mut session, 0, 5).unwrap();
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
