//! How far the host runs ahead of a CUDA device, on the software CUDA driver: never further than
//! `max_in_flight` actions, and without a wait if the device keeps up.

use crate::common::emu::emulated;
use crate::common::play;
use crate::common::prelude::*;
use crate::common::{app, emu, order};
use app::device::{order as in_order, Own, Pinned};
use app::plain::{Plain, Step};
use app::{config, host_syncs, ok, MEMORY};
use gpuzip::choice::choose_among;
use gpuzip::device::Stream;
use order::{sites, Roles};

/// Room, in bytes, for one byte of each action of the longest run here.
const ACTIONS: usize = 2000;

/// An application that ends every action with the copy of a byte to page-locked memory, `arrived`. Each
/// save and retrieve is on the next of its streams.
struct Late {
    plain: Plain,
    arrived: Pinned,
    turn: usize,
    ahead: Ahead,
}

impl Late {
    fn new(streams: usize) -> Self {
        let mut plain = Plain::on_default(100, Step::Takes(1e-3));
        plain.own = (0..streams).map(|_| Own::new()).collect();
        plain.on = plain.own.first().map_or(plain.on, |own| own.0);
        Late { plain, arrived: Pinned::new(ACTIONS as u64), turn: 0, ahead: Ahead::default() }
    }

    /// Returns how many actions before action `it` have not ended.
    fn unfinished(&self, it: i64) -> usize {
        let arrived = self.arrived.0.cast::<u8>();
        // SAFETY: within the allocation; a byte that a copy writes meanwhile is written once.
        (0..it as usize).filter(|&i| unsafe { arrived.add(i).read_volatile() } != 0xee).count()
    }
}

impl App for Late {
    fn fields(&mut self) -> Vec<AppField> {
        self.plain.fields()
    }

    fn stream(&self) -> Stream {
        self.plain.stream()
    }

    fn forward(&mut self, ts: u32) {
        self.plain.forward(ts);
    }

    fn backward(&mut self, tick: Tick) {
        self.plain.backward(tick);
    }

    fn serve(&mut self, session: &mut Session, tick: Tick) -> Result<()> {
        self.ahead.most = self.ahead.most.max(self.unfinished(tick.it) + 1);
        let plain = &mut self.plain;
        if matches!(tick.action.kind, Kind::Save | Kind::Restore) && plain.own.len() > 1 {
            self.turn += 1;
            let next = plain.own[self.turn % plain.own.len()].0;
            in_order(plain.on, next);
            plain.on = next;
        }
        play::serve(self, session, tick)?;
        let plain = &self.plain;
        if tick.action.kind == Kind::Backward && self.ahead.events.0 == 0 {
            self.ahead.events.0 = emu::counters().events;
        }
        if tick.action.kind != Kind::Terminate {
            ok!(cuMemsetD8Async(plain.memory.0, 0xee, 1, plain.on));
            let to = self.arrived.0.wrapping_byte_add(tick.it as usize);
            ok!(cuMemcpyDtoHAsync_v2(to, plain.memory.0, 1, plain.on));
        }
        Ok(())
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
    let mut app = Late::new(streams);
    arm();
    let mut session = Session::new(config.clone(), steps, &app.fields()).unwrap();
    for _ in 0..shots {
        session.setup().unwrap();
        ok!(cuCtxSynchronize());
        // SAFETY: within the allocation, which no copy touches any more.
        unsafe { std::ptr::write_bytes(app.arrived.0.cast::<u8>(), 0, ACTIONS) };
        let before = host_syncs();
        play::play(&mut session, &mut app).unwrap();
        app.ahead.syncs += host_syncs() - before;
        app.ahead.seconds += session.stats().unwrap().run_ahead_wait;
    }
    app.ahead.events.1 = emu::counters().events;
    session.synchronize().unwrap();
    assert_eq!(emu::spins(), 0, "a thread that waits for the device sleeps");
    app.ahead
}

fn job(max_in_flight: u32) -> Config {
    config(Algorithm::Revolve, 3, 2, Policy::Clairvoyant)
        .with(|c| c.device.max_in_flight = max_in_flight)
}

/// However late the device is, and however many actions pass without a save or retrieve: a run of
/// 60 steps with three snapshots has hundreds of FORWARDs, about 40 of which follow one another
/// after the first SAVE.
#[test]
fn the_host_is_never_further_ahead_than_allowed() {
    emulated!();
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
    emulated!();
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
    emulated!();
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
    let plan =
        choose_among(&config, 20, &[vec![app::raw_tiers(&config, 512)]]).unwrap().plans[0].clone();
    let history = emu::history();
    let records = sites(&history, &Roles::new(&history, plan.device_slots, false)).records;
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
    emulated!();
    assert_eq!(emu::reset(1, emu::RANDOM, 1, MEMORY), 0);
    let mut app = Plain::new(100, Step::Takes(1e-3));
    let mut session = Session::new(job(1), 9, &app.field()).unwrap();
    for _ in 0..3 {
        session.setup().unwrap();
        app.own[0] = Own::new();
        app.on = app.own[0].0;
        for _ in 0..4 {
            play::step(&mut session, &mut app).unwrap();
        }
    }
}
