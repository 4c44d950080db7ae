//! How far the host runs ahead of a CUDA device, on the software CUDA driver: never further than
//! `max_in_flight` actions, and without a wait if the device keeps up.

use crate::common::{app, emu, order};
use app::{config, host_syncs, ok, MEMORY};
use cudarc::driver::sys::{CUevent, CUstream};
use gpuzip::choice::{choose, TierSpec};
use gpuzip::config::Config;
use gpuzip::device::{AppField, AppMemory, Stream};
use gpuzip::layout::Field;
use gpuzip::plan::Policy;
use gpuzip::scalar::Scalar;
use gpuzip::schedule::{Algorithm, Kind};
use gpuzip::session::Session;
use order::{sites, Roles};
use std::ptr::null_mut;

/// Room, in bytes, for one byte of each action of the longest run here.
const ACTIONS: usize = 2000;

/// An application that ends every action with the copy of a byte to page-locked memory, `arrived`.
struct App {
    streams: Vec<CUstream>,
    turn: usize,
    handover: CUevent,
    field: u64,
    arrived: *mut u8,
}

impl App {
    fn new(streams: usize) -> Self {
        let (mut context, mut handover, mut field, mut arrived) =
            (null_mut(), null_mut(), 0, null_mut());
        ok!(cuInit(0));
        ok!(cuDevicePrimaryCtxRetain(&mut context, 0));
        ok!(cuCtxSetCurrent(context));
        ok!(cuEventCreate(&mut handover, 2));
        ok!(cuMemAlloc_v2(&mut field, 400));
        ok!(cuMemHostAlloc(&mut arrived, ACTIONS, 0));
        let mut all = vec![null_mut(); streams.max(1)];
        for stream in all.iter_mut().take(streams) {
            ok!(cuStreamCreate(stream, 1));
        }
        App { streams: all, turn: 0, handover, field, arrived: arrived.cast() }
    }

    fn stream(&self) -> CUstream {
        self.streams[self.turn % self.streams.len()]
    }

    /// Goes on with the next stream, after the work on the current one.
    fn next_stream(&mut self) {
        ok!(cuEventRecord(self.handover, self.stream()));
        self.turn += 1;
        ok!(cuStreamWaitEvent(self.stream(), self.handover, 0));
    }

    fn fields(&self) -> [AppField; 1] {
        let field = Field { n: [100, 1, 1], scalar: Scalar::F32, previous_of: None };
        // SAFETY: device memory that lives until the application does.
        [AppField { field, memory: Some(unsafe { AppMemory::new(self.field as *mut u8, 400) }) }]
    }

    /// Returns how many actions before action `it` have not ended.
    fn unfinished(&self, it: i64) -> usize {
        // SAFETY: within the allocation; a byte that a copy writes meanwhile is written once.
        (0..it as usize).filter(|&i| unsafe { self.arrived.add(i).read_volatile() } != 0xee).count()
    }
}

impl Drop for App {
    fn drop(&mut self) {
        ok!(cuCtxSynchronize());
        self.streams
            .iter()
            .filter(|stream| !stream.is_null())
            .for_each(|stream| ok!(cuStreamDestroy_v2(*stream)));
        ok!(cuEventDestroy_v2(self.handover));
        ok!(cuMemFree_v2(self.field));
        ok!(cuMemFreeHost(self.arrived.cast()));
        ok!(cuDevicePrimaryCtxRelease_v2(0));
    }
}

/// What a run observed: the most actions that had not ended when an action was handed out, this
/// action included; how often the library made the host wait; the seconds that the library reports
/// for these waits; the library's events at the first BACKWARD and at the end.
#[derive(Debug, Default)]
struct Ahead {
    most: usize,
    syncs: u64,
    seconds: f64,
    events: (u64, u64),
}

fn run(config: &Config, steps: i64, streams: usize, shots: usize) -> Ahead {
    run_armed(config, steps, streams, shots, || {})
}

fn run_armed(
    config: &Config,
    steps: i64,
    streams: usize,
    shots: usize,
    arm: impl FnOnce(),
) -> Ahead {
    let mut app = App::new(streams);
    arm();
    let mut session = Session::new(config.clone(), steps, &app.fields()).unwrap();
    let mut ahead = Ahead::default();
    for _ in 0..shots {
        session.setup().unwrap();
        ok!(cuCtxSynchronize());
        // SAFETY: within the allocation, which no copy touches any more.
        unsafe { std::ptr::write_bytes(app.arrived, 0, ACTIONS) };
        let before = host_syncs();
        loop {
            let tick = session.get_action().unwrap();
            ahead.most = ahead.most.max(app.unfinished(tick.it) + 1);
            let ts = tick.action.ts as i64;
            match tick.action.kind {
                Kind::Save => {
                    app.next_stream();
                    session.save(ts, &app.fields(), Stream(app.stream().cast())).unwrap();
                }
                Kind::Restore => {
                    app.next_stream();
                    session.retrieve(ts, &app.fields(), Stream(app.stream().cast())).unwrap();
                }
                Kind::Terminate => break,
                _ => assert_eq!(emu::work(app.stream().cast(), 1e-3), 0),
            }
            if tick.action.kind == Kind::Backward && ahead.events.0 == 0 {
                ahead.events.0 = emu::counters().events;
            }
            ok!(cuMemsetD8Async(app.field, 0xee, 1, app.stream()));
            // SAFETY: within the allocation.
            let to = unsafe { app.arrived.add(tick.it as usize) };
            ok!(cuMemcpyDtoHAsync_v2(to.cast(), app.field, 1, app.stream()));
        }
        ahead.syncs += host_syncs() - before;
        ahead.seconds += session.stats().unwrap().run_ahead_wait;
    }
    ahead.events.1 = emu::counters().events;
    session.synchronize().unwrap();
    assert_eq!(emu::spins(), 0, "a thread that waits for the device sleeps");
    ahead
}

fn job(max_in_flight: u32) -> Config {
    Config { max_in_flight, ..config(Algorithm::Revolve, 3, 2, Policy::Clairvoyant) }
}

/// However late the device is, and however many actions pass without a save or retrieve: a run of
/// 60 steps with three snapshots has hundreds of FORWARDs, about 40 of which follow one another
/// after the first SAVE.
#[test]
fn the_host_is_never_further_ahead_than_allowed() {
    if !emu::inside("the_host_is_never_further_ahead_than_allowed", &[]) {
        return;
    }
    for streams in 0..3 {
        for max in [1, 2, 3, 4, 7, 8, 9, 16, 33, 64] {
            assert_eq!(emu::reset(1, emu::LATE, 1, MEMORY), 0);
            let ahead = run(&job(max), 60, streams, 2);
            let (max, slack) = (max as usize, max as usize / 4);
            assert!(
                (max - slack..=max).contains(&ahead.most),
                "{streams} streams, at most {max}: {ahead:?}"
            );
            assert!(ahead.syncs > 0 && ahead.seconds > 0.0, "{ahead:?}");
            for seed in 0..10 {
                assert_eq!(
                    emu::reset(seed, [emu::RANDOM, emu::TIMED][seed as usize % 2], 1, MEMORY),
                    0
                );
                let ahead = run(&job(max as u32), 60, streams, 2);
                assert!(
                    ahead.most <= max,
                    "{streams} streams, seed {seed}, at most {max}: {ahead:?}"
                );
            }
        }
    }
}

/// Marks on the stream do not wait: the host never waits for a device that keeps up, and the
/// library uses the events of marks again.
#[test]
fn a_device_that_keeps_up_is_not_waited_for() {
    if !emu::inside("a_device_that_keeps_up_is_not_waited_for", &[]) {
        return;
    }
    for max in [1, 2, 8, 64] {
        assert_eq!(emu::reset(1, emu::EARLY, 1, MEMORY), 0);
        let ahead = run(&job(max), 60, 1, 3);
        assert_eq!((ahead.most, ahead.syncs, ahead.seconds), (1, 0, 0.0), "{ahead:?}");
        assert_eq!(
            ahead.events.0, ahead.events.1,
            "no event is made once the run is under way: {ahead:?}"
        );
    }
    // The host does not wait either for a late device if `max_in_flight` allows the device to be
    // late.
    assert_eq!(emu::reset(1, emu::LATE, 1, MEMORY), 0);
    assert_eq!(run(&job(1 << 20), 60, 1, 1).syncs, 0);
}

/// Without any one of its marks, the library lets the host run one action too far ahead.
#[test]
fn every_mark_is_needed() {
    if !emu::inside("every_mark_is_needed", &[]) {
        return;
    }
    let config = job(4);
    let lost = |k: u64| {
        assert_eq!(emu::reset(1, emu::LATE, 1, MEMORY), 0);
        run_armed(&config, 20, 1, 1, || {
            emu::start_history();
            emu::lose("record", k);
        })
        .most
    };
    assert_eq!(lost(0), 4);
    let plan = choose(&config, 20, &[TierSpec::new(&config, 512, 512)]).unwrap().plans[0].clone();
    let history = emu::history();
    let records = sites(&history, &Roles::new(&history, plan.device_slots, false), false).records;
    let mut marks: Vec<u64> = (1..)
        .zip(&records)
        .filter(|(_, site)| **site == Some("mark between actions"))
        .map(|(k, _)| k)
        .collect();
    // The run ends before the host would wait for the last three marks.
    marks.truncate(marks.len() - 3);
    assert!(marks.len() > 50 && marks.into_iter().all(|k| lost(k) == 5));
}

/// After `setup` the library does not use the stream of the last call: the application may destroy
/// the stream before the next shot, or before it finalizes.
#[test]
fn between_shots_the_stream_may_go() {
    if !emu::inside("between_shots_the_stream_may_go", &[]) {
        return;
    }
    assert_eq!(emu::reset(1, emu::RANDOM, 1, MEMORY), 0);
    let mut app = App::new(1);
    let mut session = Session::new(job(1), 9, &app.fields()).unwrap();
    for _ in 0..3 {
        session.setup().unwrap();
        ok!(cuStreamDestroy_v2(app.stream()));
        ok!(cuStreamCreate(&mut app.streams[0], 1));
        for _ in 0..4 {
            let action = session.get_action().unwrap().action;
            if action.kind == Kind::Save {
                session.save(action.ts as i64, &app.fields(), Stream(app.stream().cast())).unwrap();
            }
        }
    }
}
