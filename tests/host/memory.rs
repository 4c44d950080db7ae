//! Defect 10 of GPUZIP 2.x: a cache leaked per shot, and vectors grew. The test runs
//! alone in a process, whose memory it measures.

use crate::common::prelude::*;

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
        let compression = coding(method, ErrorBound::Absolute(0.1));
        let config = config(Algorithm::Revolve, 9, 0).with(|c| {
            c.tiers.device_budget = 8000;
            c.codec.settings = compression;
        });
        let shapes = [field([400, 1, 1], Scalar::F32)];
        let mut session = open(&config, 80, &shapes).unwrap();
        let mut app = HostApp::new(&shapes, |shot, ts, _, i| {
            let is_old = i >= (shot as usize * 37 + ts as usize) % 400;
            (i * (shot as usize - usize::from(is_old)) % 23) as f64
        });
        let mut sweep = || {
            app.seed += 1;
            session.setup().unwrap();
            app.shot(&mut session).unwrap();
        };
        (0..50).for_each(|_| sweep());
        let before = resident_pages();
        (0..1000).for_each(|_| sweep());
        // A leak of one snapshot per shot alone would be 400 pages.
        let grown = resident_pages().saturating_sub(before);
        assert!(grown < 100, "{grown} pages in 1000 shots");
    }
}
