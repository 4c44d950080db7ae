//! Whole sweeps on the host backend: every restored state must be the one that was saved, bit for
//! bit, whatever the schedule, the policy, the tiers and the timing.

use crate::common::prelude::*;
use proptest::prelude::*;
use std::sync::Arc;

fn shapes(sizes: &[(u64, bool)]) -> Vec<Field> {
    let scalar = |double| if double { Scalar::F64 } else { Scalar::F32 };
    sizes.iter().map(|&(n, double)| field([n, 1 + n % 3, 1 + n % 2], scalar(double))).collect()
}

/// Runs `shots` sweeps with one session per seed, all on one shared schedule. An online schedule is not
/// told the number of steps before the forward phase ends, and every shot has another one.
fn run(config: &Config, most: u32, shapes: &[Field], seeds: &[u8], shots: u8) {
    let open = config.schedule.algorithm == Some(Algorithm::Online);
    let given = if open { 0 } else { most };
    let cursor = Arc::new(SharedSchedule::new(config.clone(), given as i64).unwrap());
    let mut sessions: Vec<Session> = seeds
        .iter()
        .map(|_| Session::attach(cursor.clone(), config.clone(), &unplaced(shapes)).unwrap())
        .collect();
    let mut apps: Vec<HostApp> = seeds.iter().map(|_| HostApp::new(shapes, noise)).collect();
    let every = config.schedule.adjoint_every.max(1);
    for shot in 0..shots {
        let steps = if open { 1 + (most - 1) / u32::from(shot + 1) } else { most };
        let saves_last = (seeds[0] ^ shot) % 2 == 1;
        apps.iter_mut()
            .zip(seeds)
            .for_each(|(app, seed)| app.seed = u64::from(*seed) + u64::from(shot));
        sessions.iter_mut().for_each(|s| s.setup().unwrap());
        while let Some(tick) = step_all(&mut sessions, &mut apps).unwrap() {
            if open && is_end(tick, steps, saves_last) {
                sessions.last_mut().unwrap().end_forward().unwrap();
            }
            if tick.action.kind == Kind::Backward {
                assert!(tick.action.ts % every == 0 && tick.end < tick.action.ts + every);
            }
        }
        assert!(apps.iter().all(|app| app.reversed == steps));
        let slot = sessions[0].tiers().slot_bytes;
        let plan = sessions[0].plan().unwrap();
        let forward_steps = cursor.decide().unwrap().forward_steps() * u64::from(every);
        for session in &mut sessions {
            let (stats, counts) = (session.stats().unwrap(), plan.counts);
            assert_eq!((stats.saves, stats.restores), (counts.saves, counts.restores));
            assert_eq!((stats.forward_steps, stats.backward_steps), (forward_steps, steps as u64));
            assert_eq!(
                (stats.hits, stats.misses, stats.prefetches),
                (counts.hits, counts.misses, counts.prefetches)
            );
            assert_eq!((stats.h2d, stats.d2h), (counts.h2d, counts.d2h));
            assert!(stats.late_prefetches <= stats.prefetches);
            assert_eq!(stats.write_backs_avoided, counts.saves - counts.d2h);
            assert!(
                stats.h2d_bytes <= counts.h2d * slot && stats.h2d_bytes * 64 >= counts.h2d,
                "what crossed is what was planned"
            );
            assert!(stats.d2h_bytes <= counts.d2h * slot && stats.d2h_bytes * 64 >= counts.d2h);
            assert_eq!(stats.peak_device_bytes, plan.device_slots as u64 * slot);
            assert!(stats.stall <= stats.save + stats.restore);
        }
    }
}

#[test]
fn every_algorithm_policy_and_capacity() {
    let shapes = shapes(&[(37, false), (5, true)]);
    for algorithm in ALGORITHMS {
        for policy in [Policy::Clairvoyant, Policy::Lru] {
            for cache in 0..=8 {
                let base = config(algorithm, 12, cache).with(|c| c.tiers.policy = policy);
                for range_actions in [false, true] {
                    let config = base.clone().with(|c| c.schedule.range_actions = range_actions);
                    run(&config, 61, &shapes, &[1, 77], 2);
                    let sparse = config.with(|c| {
                        c.schedule.snapshots = 6;
                        c.schedule.adjoint_every = 3;
                    });
                    run(&sparse, 91, &shapes, &[1, 77], 2);
                }
            }
        }
    }
}

/// Defect 5 of GPUZIP 2.x: its host pool was a stack, and a schedule that does not use snapshots as
/// a stack ended the program.
#[test]
fn traces_that_are_no_stack_are_replayed() {
    for (n, stride) in [(2, 1), (13, 1), (40, 3), (61, 5)] {
        let path = trace_that_is_no_stack(&tempdir("sessions-trace"), n, stride);
        for policy in [Policy::Clairvoyant, Policy::Lru] {
            for cache in 0..=6 {
                let config = config(Algorithm::Trace, 0, cache).with(|c| {
                    c.tiers.policy = policy;
                    c.schedule.trace_file = Some(path.clone());
                    c.schedule.range_actions = cache % 2 == 1;
                });
                run(&config, n, &shapes(&[(19, false), (8, true)]), &[5], 2);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2500))]

    #[test]
    fn random_sessions_restore_every_state(
        algorithm in 0usize..9, snapshots in 1u32..30, cache in 0u32..10, lru: bool, published: bool, steps in 1u32..90, chunk in 0u32..20,
        ranges: bool, every in 1u32..7, sizes in proptest::collection::vec((1u64..200, any::<bool>()), 1..5), seeds in proptest::collection::vec(any::<u8>(), 1..4), shots in 1u8..3,
        is_slow in prop::bool::weighted(0.1),
    ) {
        let algorithm = [Algorithm::Revolve, Algorithm::Revolve, Algorithm::Uniform, Algorithm::Zcut, Algorithm::TwoLevel, Algorithm::StoreAll, Algorithm::Hrevolve, Algorithm::Online, Algorithm::Online][algorithm];
        let policy = if lru && algorithm != Algorithm::Online { Policy::Lru } else { Policy::Clairvoyant };
        let chunk = if algorithm == Algorithm::Zcut && chunk.saturating_mul(snapshots) >= steps { chunk } else { 0 };
        let every = if algorithm == Algorithm::Online { 1 } else { every };
        // With a slow simulated link, transfers overlap with all later actions.
        let (link_bandwidth, steps) = if is_slow { (5e7, steps.min(24)) } else { (0.0, steps) };
        let config = config(algorithm, snapshots, cache).with(|c| {
            c.schedule.uniform_published = published;
            c.schedule.range_actions = ranges;
            c.schedule.adjoint_every = every;
            c.schedule.chunk = chunk;
            c.tiers.policy = policy;
            c.device.link_bandwidth = link_bandwidth;
        });
        run(&config, steps, &shapes(&sizes), &seeds, shots);
    }
}

#[test]
fn a_slow_link_takes_its_time() {
    let shape = [field([25_000, 1, 1], Scalar::F32)];
    let config = config(Algorithm::Revolve, 3, 0).with(|c| c.device.link_bandwidth = 1e7);
    let mut session = open(&config, 4, &shape).unwrap();
    let stats = HostApp::new(&shape, noise).shot(&mut session).unwrap();
    let ideal = (stats.h2d_bytes + stats.d2h_bytes) as f64 / 1e7;
    assert_eq!(stats.h2d_bytes + stats.d2h_bytes, 600_000);
    assert!(stats.stall >= ideal, "{} s for {} s of transfers", stats.stall, ideal);
}

#[test]
fn wrong_order_is_an_error_that_changes_nothing() {
    let shape = shapes(&[(10, false)]);
    let mut session = open(&config(Algorithm::Revolve, 1, 1), 3, &shape).unwrap();
    let mut app = HostApp::new(&shape, noise);
    // Defect 11 of GPUZIP 2.x: a retrieve before the save.
    refused(session.retrieve(0, &app.fields(), HOST), Code::State, &[]);
    let first = session.get_action().unwrap();
    assert_eq!(first.action.kind, Kind::Save);
    refused(session.retrieve(0, &app.fields(), HOST), Code::State, &[]);
    refused(session.save(1, &app.fields(), HOST), Code::State, &[]);
    refused(session.save(0, &[], HOST), Code::Shape, &[]);
    assert_eq!(session.get_action().unwrap_err().code, Code::State, "the save is not done");
    app.serve(&mut session, first).unwrap();
    refused(session.save(0, &app.fields(), HOST), Code::State, &[]);
    let mut other = HostApp::new(&shapes(&[(11, false)]), noise);
    play_with(&mut session, &mut app, |session, tick| {
        if tick.action.kind == Kind::Restore {
            let wrong = session.retrieve(tick.action.ts.into(), &other.fields(), HOST);
            refused(wrong, Code::Shape, &[]);
        }
    })
    .unwrap();
    assert_eq!(app.reversed, 3);
    assert_eq!(session.get_action().unwrap_err().code, Code::State, "after TERMINATE");
    refused(session.dispatch(0), Code::State, &[]);
    session.setup().unwrap();
    assert_eq!(session.get_action().unwrap().action.kind, Kind::Save);
}

#[test]
fn sessions_out_of_step_are_told() {
    let shape = shapes(&[(10, false)]);
    let config = config(Algorithm::Revolve, 2, 2);
    let cursor = Arc::new(SharedSchedule::new(config.clone(), 9).unwrap());
    let attach = || Session::attach(cursor.clone(), config.clone(), &unplaced(&shape)).unwrap();
    let (mut a, mut b) = (attach(), attach());
    assert_eq!(step(&mut a, &mut HostApp::new(&shape, noise)).unwrap().unwrap().it, 0);
    assert_eq!(a.get_action().unwrap().it, 1);
    assert_eq!(b.dispatch(0).unwrap_err().code, Code::State, "the schedule is past it");
    assert_eq!(b.dispatch(1).unwrap_err().code, Code::State, "a missed SAVE");
    // A session that is attached during a shot can only begin with the next shot.
    let mut c = attach();
    assert_eq!(c.dispatch(1).unwrap_err().code, Code::State);
    for session in [&mut a, &mut b, &mut c] {
        session.setup().unwrap();
    }
    assert_eq!(b.get_action().unwrap().it, 0);
    a.dispatch(0).unwrap();
    c.dispatch(0).unwrap();
    c.dispatch(0).unwrap();
}

/// `get_forward_action` returns the actions before the first BACKWARD, then `None` at every call;
/// `get_action` continues with the first BACKWARD.
#[test]
fn the_forward_sweep_ends_where_the_reverse_sweep_begins() {
    let shape = shapes(&[(10, false)]);
    let mut app = HostApp::new(&shape, noise);
    for (steps, range_actions) in [(1, false), (1, true), (2, true), (40, false), (40, true)] {
        let config =
            config(Algorithm::Revolve, 4, 2).with(|c| c.schedule.range_actions = range_actions);
        let whole = SharedSchedule::new(config.clone(), steps).unwrap();
        let is_next = |tick: Tick| {
            let expected = whole.advance(None).unwrap();
            assert_eq!(
                (tick.it, tick.action, tick.end),
                (expected.it, expected.action, expected.end)
            );
        };
        let mut session = Session::new(config, steps, &unplaced(&shape)).unwrap();
        for _ in 0..2 {
            while let Some(tick) = session.get_forward_action().unwrap() {
                is_next(tick);
                app.serve(&mut session, tick).unwrap();
                assert_ne!(tick.action.kind, Kind::Backward);
            }
            assert!(session.get_forward_action().unwrap().is_none());
            assert_eq!(session.stats().unwrap().forward_steps, steps as u64 - 1);
            while let Some(tick) = step(&mut session, &mut app).unwrap() {
                is_next(tick);
                if tick.action.kind == Kind::Backward {
                    refused(session.get_forward_action(), Code::State, &["call setup"]);
                }
            }
            assert_eq!(whole.advance(None).unwrap().action.kind, Kind::Terminate);
            session.setup().unwrap();
            whole.rewind().unwrap();
        }
    }
}

#[test]
fn budgets_decide_snapshots_and_are_kept() {
    let shape = [field([1000, 1, 1], Scalar::F32)];
    let slot = 4096u64;
    for (algorithm, device, host) in [
        (None, 4, 10),
        (None, 0, 5),
        (None, 3, 0),
        (Some(Algorithm::Revolve), 2, 20),
        (Some(Algorithm::Uniform), 5, 10),
        (None, 100, 300),
    ] {
        let config = Config::default().with(|c| {
            c.schedule.algorithm = algorithm;
            c.tiers.device_budget = device * slot;
            c.tiers.host_budget = host * slot;
        });
        let session = Session::new(config.clone(), 300, &unplaced(&shape)).unwrap();
        let plan = session.plan().unwrap();
        assert!(
            plan.device_slots as u64 <= device && plan.host_slots as u64 <= host,
            "{} + {} slots",
            plan.device_slots,
            plan.host_slots
        );
        let snapshots = session.schedule().decide().unwrap().snapshots as u64;
        let fills = snapshots >= host.min(299) && snapshots >= device.min(299);
        assert!(algorithm.is_none() || fills, "{snapshots} of {device} + {host}");
        run(&config, 300, &shape, &[1], 1);
    }
    let small = Config::default().with(|c| c.tiers.device_budget = 100);
    refused(open(&small, 300, &shape), Code::Budget, &["4096"]);
    let small = config(Algorithm::Revolve, 20, 1).with(|c| c.tiers.host_budget = 3 * slot);
    refused(open(&small, 300, &shape), Code::Budget, &["host_budget"]);
}

#[test]
fn memory_that_cannot_be_had_is_an_error() {
    let shape = [field([1 << 50, 1, 1], Scalar::F64)];
    refused(open(&config(Algorithm::Revolve, 5, 2), 100, &shape), Code::Memory, &["bytes"]);
}

#[test]
fn a_session_that_is_gone_has_no_say() {
    let config = config(Algorithm::Revolve, 0, 0).with(|c| c.tiers.host_budget = 4096);
    let cursor = Arc::new(SharedSchedule::new(config.clone(), 50).unwrap());
    drop(
        Session::attach(cursor.clone(), config.clone(), &unplaced(&shapes(&[(4000, false)])))
            .unwrap(),
    );
    let mut small = Session::attach(cursor, config, &unplaced(&shapes(&[(4, false)]))).unwrap();
    small.setup().unwrap();
}
