//! The plans of schedules of all kinds, as the table `golden.txt` has them: a change of the library
//! that is not meant to change plans must not change this table. A row has a schedule and hashes of its
//! plans, of each kind those for several caches: fingerprints, and the bits of the times that the
//! simulator predicts. `GPUZIP_UPDATE_PLANS=1 cargo test --test host reference::` rewrites the table.

use gpuzip::plan::{Claims, Index, Plan, Policy};
use gpuzip::predict::{simulate, Budgets, Costs, Times};
use gpuzip::schedule::{MacroSteps, Schedule};
use std::fmt::Write as _;

const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/host/reference/golden.txt");

fn costs(n: u32, coded: bool) -> Costs {
    let times = |a: f64| (0..n).map(|ts| a + 0.1 * f64::from(ts % 7)).collect();
    Costs {
        forward: Times::Parts(times(1.0), n),
        backward: Times::Parts(times(2.3), n),
        copy: 0.15,
        compress: if coded { 0.21 } else { 0.0 },
        decompress: if coded { 0.13 } else { 0.0 },
        upload: if coded { 0.7 } else { 2.1 },
        download: if coded { 0.9 } else { 2.7 },
        disk_read: 3.5,
        disk_write: 5.2,
        state_bytes: 1024,
        stored_bytes: if coded { 300 } else { 1024 },
        slot_bytes: if coded { 384 } else { 1024 },
        compressed: coded,
        ..Costs::default()
    }
}

/// The names of the kinds of plans, each a column.
const KINDS: [&str; 7] = ["raw", "LRU", "disk", "coded", "zero-copy", "mixed", "shared"];

fn plan(kind: &str, index: &Index, cache: u32) -> Plan {
    match kind {
        "LRU" => Plan::of(index, cache, Policy::Lru),
        "zero-copy" => Plan::handing_over(index, cache),
        "mixed" => Plan::mixed(index, cache, 2, cache % 2 == 1),
        "shared" => Plan::of(&index.in_levels(Claims::All).unwrap(), cache, Policy::Clairvoyant),
        _ => Plan::of(index, cache, Policy::Clairvoyant),
    }
    .unwrap()
}

/// One hash of a kind's plans for all caches.
fn hash(kind: &str, schedule: &Schedule, index: &Index, plans: &mut u64) -> u64 {
    let n = schedule.macro_steps().time_steps();
    let mut costs = costs(n, matches!(kind, "coded" | "mixed"));
    costs.previous_bytes = if kind == "shared" { 400 } else { 0 };
    let costs = costs.in_macro_steps(schedule.macro_steps());
    // Host memory of six slots, four of which are the staging buffers of the disk.
    let host = if kind == "disk" { 6 * costs.slot_bytes } else { u64::MAX };
    [0, 1, 2, 3, 5, 9].into_iter().fold(0, |hash, cache| {
        let plan = plan(kind, index, cache);
        let budgets = Budgets { host, ..Budgets::NONE };
        let found = simulate(schedule, &plan, &costs, budgets).unwrap();
        *plans += 1;
        [plan.fingerprint(), found.makespan.to_bits()].into_iter().fold(hash, |hash: u64, word| {
            (hash ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
        })
    })
}

#[test]
fn plans_are_those_of_the_table() {
    let (mut table, mut plans) = (format!("schedule {}\n", KINDS.join(" ")), 0);
    for (n, s) in [1, 2, 5, 9, 24, 60, 150].into_iter().flat_map(|n| [(n, 1), (n, 3), (n, 8)]) {
        let in_threes = |schedule: Schedule| {
            schedule.in_macro_steps(MacroSteps::new(3, 3 * n - u32::from(n > 1)))
        };
        let schedules = [
            ("revolve", Schedule::revolve(n, s)),
            ("uniform", Schedule::uniform(n, s)),
            ("two-level", Schedule::two_level(n, s, 0, 0)),
            ("hrevolve", Schedule::hrevolve(n, s, 0, 0)),
            ("zcut", Schedule::zcut(n, 0, s)),
            ("store-all", Schedule::store_all(n)),
            ("macro-steps", Schedule::revolve(n, s).map(in_threes)),
        ];
        for (name, schedule) in schedules {
            let Ok(schedule) = schedule else { continue };
            let index = Index::new(&schedule).unwrap();
            write!(table, "{name}-{n}-{s}").unwrap();
            for kind in KINDS {
                write!(table, " {:016x}", hash(kind, &schedule, &index, &mut plans)).unwrap();
            }
            table.push('\n');
        }
    }
    assert!(plans > 2000, "{plans}");
    if std::env::var_os("GPUZIP_UPDATE_PLANS").is_some() {
        return std::fs::write(TABLE, table).unwrap();
    }
    let expected = std::fs::read_to_string(TABLE).unwrap();
    for (line, was) in table.lines().zip(expected.lines()) {
        assert_eq!(
            line, was,
            "plans changed; if that is meant, GPUZIP_UPDATE_PLANS=1 rewrites {TABLE}"
        );
    }
    assert_eq!(table.len(), expected.len(), "rows of {TABLE}");
}
