//! States on a GPU that a session writes for other programs: read in the order of the stream.

use crate::common::emu::emulated;
use crate::common::play::App;
use crate::common::prelude::*;
use crate::common::{app, emu};
use app::plain::{Plain, Step};
use app::MEMORY;
use std::path::Path;

const STEPS: i64 = 12;
const COUNT: usize = 700;

/// Whether the file of u(ts) holds the number of the state in every byte.
fn is_right(dir: &Path, ts: u32) -> bool {
    let file = std::fs::read(dir.join(format!("field0-{ts:09}.npy"))).unwrap();
    let text = "{'descr': '<f4', 'fortran_order': False, 'shape': (700,), }";
    let header = [b"\x93NUMPY\x01\x00\x76\x00", format!("{text:117}\n").as_bytes()].concat();
    file == [header, vec![ts as u8; 4 * COUNT]].concat()
}

/// The file holds what the work before the call on the stream has computed, and not what comes after it;
/// every restored state is right, too. An array in host memory is written as one on the device.
#[test]
fn exported_states_are_those_of_the_stream() {
    emulated!();
    for seed in 0..30 {
        let dir = tempdir("export-cuda");
        assert_eq!(emu::reset(seed, emu::mode(seed), 1, MEMORY), 0, "left over before {seed}");
        let mut app = match seed % 2 {
            0 => Plain::new(COUNT, Step::Number),
            _ => Plain::on_default(COUNT, Step::Number),
        };
        let config = app::config(Algorithm::Revolve, 3, 2, Policy::Clairvoyant);
        let mut session = Session::new(config, STEPS, &app.field()).unwrap();
        app.forward(0);
        session.export(&dir, 0, &app.field(), app.stream()).unwrap();
        loop {
            let tick = session.get_action().unwrap();
            app.serve(&mut session, tick).unwrap();
            match tick.action.kind {
                Kind::Forward => {
                    session.export(&dir, tick.end.into(), &app.field(), app.stream()).unwrap();
                }
                Kind::Terminate => break,
                _ => {}
            }
        }
        assert!(app.right > 0);
        let files = std::fs::read_dir(&dir).unwrap().count();
        assert_eq!(files, STEPS as usize, "seed {seed}");
        assert!((0..STEPS as u32).all(|ts| is_right(&dir, ts)), "seed {seed}");
        let mut own = vec![77u8; 4 * COUNT];
        // SAFETY: the vector outlives the call.
        let memory = unsafe { AppMemory::new(own.as_mut_ptr(), own.len()) };
        let on_host = [AppField { memory: Some(memory), ..app.field()[0] }];
        session.export(&dir, 77, &on_host, app.stream()).unwrap();
        assert!(is_right(&dir, 77), "seed {seed}");
    }
}

/// Exports between the steps of an action do not change the measured time of a step: 1 ms of virtual time.
#[test]
fn steps_between_exports_are_measured_as_without() {
    emulated!();
    let measured = |every: usize| {
        let dir = tempdir("export-tuned");
        assert_eq!(emu::reset(7, emu::TIMED, 1, MEMORY), 0);
        let mut app = Plain::on_default(COUNT, Step::Takes(1e-3));
        let config = app::config(Algorithm::Revolve, 3, 2, Policy::Clairvoyant)
            .with(|c| c.schedule.range_actions = true);
        let mut session = Session::new(config, 40, &app.field()).unwrap();
        session.autotune().unwrap();
        loop {
            let tick = session.get_action().unwrap();
            match tick.action.kind {
                Kind::Forward => (tick.action.ts..=tick.end).for_each(|ts| {
                    app.forward(ts);
                    if ts as usize % every == 0 {
                        session.export(&dir, ts.into(), &app.field(), app.stream()).unwrap();
                    }
                }),
                Kind::Terminate => break,
                _ => app.serve(&mut session, tick).unwrap(),
            }
        }
        let profile = session.profile().unwrap();
        let files = std::fs::read_dir(&dir).unwrap().count();
        ([profile.forward_ms, profile.backward_ms], files)
    };
    let (without, none) = measured(usize::MAX);
    assert!(without.iter().all(|ms| (ms - 1.0).abs() < 1e-2) && none == 0, "{without:?}");
    for every in [1, 3] {
        let (with, files) = measured(every);
        assert!(with.iter().all(|ms| (ms - 1.0).abs() < 1e-2) && files > 10, "{with:?}, {files}");
    }
}
