//! The launches and driver calls of a save and a restore, in a shot after the first one.

use super::table::Row;
use super::{codecs, wavefield};
use crate::common::app::device::{field_at, Memory, Own, Primary};
use crate::common::app::ok;
use crate::common::emu;
use crate::common::prelude::*;
use gpuzip::device::Stream;

/// Number of time steps and of snapshots of Revolve.
const STEPS: u32 = 12;
const SNAPSHOTS: u32 = 4;
/// The shape of both time levels.
const N: [u64; 3] = [16, 16, 16];

/// Returns a row per codec and place of the snapshots: all in the device cache, or with 2 slots
/// there and the rest in host memory.
pub fn rows() -> Vec<Row> {
    let raw = (Method::None, vec![("-", ErrorBound::OfMax(1e-3))]);
    let mut rows = Vec::new();
    for (method, bounds) in [raw].into_iter().chain(codecs()) {
        for (name, bound) in bounds.into_iter().filter(|(name, _)| *name != "1e-5") {
            for (way, cache) in [("device", SNAPSHOTS), ("link", 2)] {
                let figures = shot(coding(method.clone(), bound), cache);
                rows.push(Row::new(format!("session {} {name} {way}", method.name()), figures));
            }
        }
    }
    rows
}

/// The calls so far: kernel launches and all.
fn calls() -> [u64; 2] {
    [emu::calls("cuLaunchKernel"), emu::counters().calls]
}

/// Runs two shots, and counts in the second one.
fn shot(compression: Settings, cache: u32) -> Vec<(&'static str, f64)> {
    assert_eq!(emu::reset(1, emu::EARLY, 1, 1 << 28), 0);
    let _primary = Primary::new(0);
    let (stream, level) = (Own::new(), wavefield(N, Scalar::F32));
    let memory = [(); 2].map(|()| Memory::new(level.len() as u64));
    let fields = [(None, &memory[0]), (Some(0), &memory[1])].map(|(previous_of, memory)| {
        ok!(cuMemcpyHtoD_v2(memory.0, level.as_ptr().cast(), level.len()));
        field_at(memory.0, Field { n: N, scalar: Scalar::F32, previous_of })
    });
    let algorithm = Some(Algorithm::Revolve);
    let config = Config::default().with(|c| {
        c.schedule.algorithm = algorithm;
        c.schedule.snapshots = SNAPSHOTS;
        c.tiers.cache = cache;
        c.codec.settings = compression;
    });
    let mut session = Session::new(config, STEPS.into(), &fields).unwrap();
    // Saves and restores, and the calls in them and in `get_action`.
    let (mut count, mut sums, mut actions) = ([0; 2], [[0; 2]; 2], 0);
    for shot in 0..2 {
        session.setup().unwrap();
        loop {
            let before = calls();
            let action = session.get_action().unwrap().action;
            let between = calls();
            let (ts, on) = (action.ts.into(), Stream(stream.0.cast()));
            let kind = match action.kind {
                Kind::Save => session.save(ts, &fields, on).map(|()| 0).unwrap(),
                Kind::Restore => session.retrieve(ts, &fields, on).map(|()| 1).unwrap(),
                Kind::Terminate => break,
                _ => 2,
            };
            if shot == 1 {
                actions += between[1] - before[1];
                if kind < 2 {
                    count[kind] += 1;
                    let now = calls();
                    (0..2).for_each(|i| sums[kind][i] += now[i] - between[i]);
                }
            }
        }
        ok!(cuStreamSynchronize(stream.0));
    }
    let mean = |kind: usize, what: usize| sums[kind][what] as f64 / f64::from(count[kind]);
    vec![
        ("save_launches", mean(0, 0)),
        ("save_calls", mean(0, 1)),
        ("restore_launches", mean(1, 0)),
        ("restore_calls", mean(1, 1)),
        ("get_action_calls", actions as f64 / f64::from(count[0] + count[1])),
    ]
}
