//! Streams of an application that come and go, on a driver that ends the process when a destroyed stream
//! is used.

use crate::common::emu::emulated;
use crate::common::prelude::*;
use crate::common::{self, app, emu};
use app::device::{order, Own};
use app::plain::{Plain, Step};
use app::{config, MEMORY};
use std::ptr::null_mut;

const STEPS: i64 = 12;

/// Runs a shot up to its `end`-th action or TERMINATE, and then destroys the last stream. Each save and
/// retrieve is on a new stream, which waits for the work of the stream before; the stream before is
/// destroyed right after the call. Returns whether the last action was TERMINATE.
fn shot(app: &mut Plain, session: &mut Session, end: usize) -> bool {
    let mut is_over = false;
    app.on = null_mut();
    for _ in 0..end {
        let tick = session.get_action().unwrap();
        is_over = tick.action.kind == Kind::Terminate;
        if is_over {
            break;
        }
        if matches!(tick.action.kind, Kind::Save | Kind::Restore) {
            let (before, new) = (app.own.pop(), Own::new());
            before.iter().for_each(|before| order(before.0, new.0));
            app.on = new.0;
            app.own.push(new);
            if tick.action.ts == 0 && tick.action.kind == Kind::Save {
                app.forward(0);
            }
            app.serve(session, tick).unwrap();
            drop(before);
        } else if tick.action.kind == Kind::Forward {
            app.serve(session, tick).unwrap();
        }
    }
    app.own.clear();
    is_over
}

/// Makes an application without a stream of its own.
fn application() -> Plain {
    Plain::on_default(100, Step::Number)
}

/// The sessions: raw ones, with and without a cache, one with a timeline, one that is measured.
fn configs() -> Vec<Config> {
    let base = |cache| {
        config(Algorithm::Revolve, 3, cache, Policy::Clairvoyant)
            .with(|c| c.device.max_in_flight = 1)
    };
    let timeline = common::scratch("cuda-streams").join("run-%p.json");
    vec![base(0), base(2), base(2).with(|c| c.report.trace_out = Some(timeline))]
}

/// The application destroys its stream after any action. Statistics, waits, the next shot and the end
/// of the session do without it.
#[test]
fn a_destroyed_stream_is_not_used() {
    let variables = [("CUDA_EMU_DESTROYED_STREAMS", "abort")];
    emulated!(&variables);
    for (number, config) in configs().into_iter().enumerate() {
        for end in 0.. {
            let seed = 100 * number as u64 + end as u64;
            let mode = [emu::RANDOM, emu::LATE, emu::EARLY][end % 3];
            assert_eq!(emu::reset(seed, mode, 1, MEMORY), 0, "seed {seed}");
            let mut app = application();
            let mut session = Session::new(config.clone(), STEPS, &app.field()).unwrap();
            session.setup().unwrap();
            let is_over = shot(&mut app, &mut session, end);
            session.stats().unwrap();
            session.synchronize().unwrap();
            if end % 2 == 0 {
                session.setup().unwrap();
                assert!(shot(&mut app, &mut session, usize::MAX));
            }
            drop(session);
            if is_over {
                break;
            }
        }
    }
}

/// The driver ends the process indeed: the library needs the stream of a shot that goes on.
#[test]
fn a_destroyed_stream_ends_the_process_where_it_is_used() {
    let name = "a_destroyed_stream_ends_the_process_where_it_is_used";
    if std::env::var_os("GPUZIP_TEST_EMULATED").is_none() {
        let output = common::again(name)
            .env("GPUZIP_TEST_EMULATED", "1")
            .env("CUDA_EMU_DESTROYED_STREAMS", "abort")
            .env("LD_LIBRARY_PATH", emu::folder_with(name, &emu::driver()))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("or a destroyed one"), "{said}");
        return;
    }
    let mut app = application();
    let mut session = Session::new(configs().remove(0), STEPS, &app.field()).unwrap();
    session.setup().unwrap();
    assert!(!shot(&mut app, &mut session, 4));
    while session.get_action().is_ok() {}
}
