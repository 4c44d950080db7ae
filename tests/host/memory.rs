//! Defect 10 of GPUZIP 2.x: a cache leaked per shot, and vectors grew. The test runs
//! alone in a process, whose memory it measures.

use crate::common::alone;
use gpuzip::codec::{ErrorBound, Method, Settings};
use gpuzip::config::{Backend, Config};
use gpuzip::device::{AppField, AppMemory, Stream};
use gpuzip::layout::Field;
use gpuzip::scalar::Scalar;
use gpuzip::schedule::{Algorithm, Kind};
use gpuzip::session::Session;

fn resident_pages() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse().unwrap()
}

/// Memory does not grow after the first shots, with raw snapshots and with compressed snapshots of
/// changing sizes.
#[test]
fn memory_is_flat_over_many_shots() {
    let Some(_) = alone("memory_is_flat_over_many_shots") else { return };
    for method in [Method::None, Method::Dct] {
        let compression =
            Settings { method, bound: ErrorBound::Absolute(0.1), reject_nonfinite: false };
        let algorithm = Some(Algorithm::Revolve);
        let config = Config {
            algorithm,
            snapshots: 9,
            device_budget: 8000,
            compression,
            backend: Backend::Host,
            ..Config::default()
        };
        let field = Field { n: [400, 1, 1], scalar: Scalar::F32, previous_of: None };
        let mut data = vec![0f32; 400];
        let mut session = Session::new(config, 80, &[AppField { field, memory: None }]).unwrap();
        let mut shot = 0;
        let mut sweep = || {
            session.setup().unwrap();
            shot += 1;
            loop {
                let action = session.get_action().unwrap().action;
                data.iter_mut()
                    .take((shot * 37 + action.ts as usize) % 400)
                    .enumerate()
                    .for_each(|(i, x)| *x = (i * shot % 23) as f32);
                // SAFETY: the vector outlives the calls, and no other code touches it during them.
                let memory = unsafe { AppMemory::new(data.as_mut_ptr().cast(), 1600) };
                let fields = [AppField { field, memory: Some(memory) }];
                match action.kind {
                    Kind::Save => session
                        .save(action.ts as i64, &fields, Stream(std::ptr::null_mut()))
                        .unwrap(),
                    Kind::Restore => session
                        .retrieve(action.ts as i64, &fields, Stream(std::ptr::null_mut()))
                        .unwrap(),
                    Kind::Terminate => break,
                    _ => {}
                }
            }
        };
        (0..50).for_each(|_| sweep());
        let before = resident_pages();
        (0..1000).for_each(|_| sweep());
        // A leak of one snapshot per shot alone would be 400 pages.
        let grown = resident_pages().saturating_sub(before);
        assert!(grown < 100, "{grown} pages in 1000 shots");
    }
}
