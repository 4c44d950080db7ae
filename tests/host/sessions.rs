//! Whole sweeps on the host backend: every restored state must be the one that was saved, bit for
//! bit, whatever the schedule, the policy, the tiers and the timing.

use gpuzip::choice::{SharedSchedule, Tick};
use gpuzip::config::{Backend, Config};
use gpuzip::device::{AppField, AppMemory, Stream};
use gpuzip::error::Code;
use gpuzip::layout::Field;
use gpuzip::plan::Policy;
use gpuzip::scalar::Scalar;
use gpuzip::schedule::{flags, Algorithm, Kind};
use gpuzip::session::Session;
use proptest::prelude::*;
use std::sync::Arc;

/// An application whose every step depends on every bit of the state before.
struct App {
    fields: Vec<(Field, Vec<u8>)>,
}

impl App {
    fn new(shapes: &[Field], seed: u8) -> Self {
        let fill = |f: &Field| {
            (0..f.bytes().unwrap()).map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed)).collect()
        };
        App { fields: shapes.iter().map(|f| (*f, fill(f))).collect() }
    }

    fn forward(&mut self) {
        for (_, data) in &mut self.fields {
            let mut carry = *data.last().unwrap();
            for byte in data.iter_mut() {
                carry = carry.rotate_left(3) ^ byte.wrapping_mul(5).wrapping_add(17);
                *byte = carry;
            }
        }
    }

    fn state(&self) -> Vec<Vec<u8>> {
        self.fields.iter().map(|(_, data)| data.clone()).collect()
    }

    fn spoil(&mut self) {
        self.fields.iter_mut().for_each(|(_, data)| data.fill(0xee));
    }

    fn app_fields(&mut self) -> Vec<AppField> {
        let one = |(field, data): &mut (Field, Vec<u8>)| {
            // SAFETY: the vector outlives the call that the field is made for, and no other code
            // touches the vector during this call.
            let memory = unsafe { AppMemory::new(data.as_mut_ptr(), data.len()) };
            AppField { field: *field, memory: Some(memory) }
        };
        self.fields.iter_mut().map(one).collect()
    }
}

/// The calling thread as a stream.
const HOST: Stream = Stream(std::ptr::null_mut());

/// Fields with shapes but without memory.
fn unplaced(shapes: &[Field]) -> Vec<AppField> {
    shapes.iter().map(|&field| AppField { field, memory: None }).collect()
}

fn shapes(sizes: &[(u64, bool)]) -> Vec<Field> {
    let scalar = |double| if double { Scalar::F64 } else { Scalar::F32 };
    sizes
        .iter()
        .map(|&(n, double)| Field {
            n: [n, 1 + n % 3, 1 + n % 2],
            scalar: scalar(double),
            previous_of: None,
        })
        .collect()
}

/// Runs `shots` sweeps with one session per seed, all on one shared schedule, and checks every
/// restored and every reversed state against a run that keeps all states. An online schedule is not
/// told the number of steps before the forward phase ends, and every shot has another one.
fn run(config: &Config, most: u32, shapes: &[Field], seeds: &[u8], shots: u8) {
    let open = config.algorithm == Some(Algorithm::Online);
    let given = if open { 0 } else { most };
    let cursor = Arc::new(SharedSchedule::new(config.clone(), given as i64).unwrap());
    let mut sessions: Vec<Session> = seeds
        .iter()
        .map(|_| Session::attach(cursor.clone(), config.clone(), &unplaced(shapes)).unwrap())
        .collect();
    let every = config.adjoint_every;
    for shot in 0..shots {
        let steps = if open { 1 + (most - 1) / u32::from(shot + 1) } else { most };
        let mut apps: Vec<App> =
            seeds.iter().map(|seed| App::new(shapes, seed.wrapping_add(shot))).collect();
        let all: Vec<Vec<_>> = apps
            .iter()
            .map(|app| {
                let mut twin = App { fields: app.fields.clone() };
                (0..steps).map(|_| (twin.state(), twin.forward()).0).collect()
            })
            .collect();
        sessions.iter_mut().for_each(|s| s.setup().unwrap());
        let (mut reversed, mut is_open) = (steps, open);
        loop {
            let tick = sessions[0].get_action().unwrap();
            let ts = tick.action.ts as i64;
            for ((session, app), all) in sessions.iter_mut().zip(&mut apps).zip(&all) {
                session.dispatch(tick.it).unwrap();
                match tick.action.kind {
                    Kind::Forward => (tick.action.ts..=tick.end).for_each(|_| app.forward()),
                    Kind::Save => session.save(ts, &app.app_fields(), HOST).unwrap(),
                    Kind::Restore => {
                        app.spoil();
                        session.retrieve(ts, &app.app_fields(), HOST).unwrap();
                        assert_eq!(app.state(), all[ts as usize], "state {ts}");
                    }
                    Kind::Backward => {
                        assert_eq!(app.state(), all[ts as usize], "state {ts} to reverse");
                        assert_eq!((tick.action.ts % every, tick.end), (0, reversed - 1));
                        assert!(tick.end < tick.action.ts + every);
                    }
                    Kind::Terminate | Kind::Error => {}
                }
            }
            if is_open && tick.end + 1 == steps {
                let waits = tick.action.flags & flags::NEXT_IS_SAVE != 0;
                if !waits || (seeds[0] ^ shot) % 2 == 0 {
                    sessions.last_mut().unwrap().end_forward().unwrap();
                    is_open = false;
                }
            }
            if tick.action.kind == Kind::Backward {
                reversed = tick.action.ts;
            }
            if tick.action.kind == Kind::Terminate {
                break;
            }
        }
        assert_eq!(reversed, 0);
        let slot = sessions[0].slot_bytes();
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

fn config(algorithm: Algorithm, snapshots: u32, cache: u32, policy: Policy) -> Config {
    Config {
        algorithm: Some(algorithm),
        snapshots,
        cache,
        policy,
        backend: Backend::Host,
        ..Config::default()
    }
}

#[test]
fn every_algorithm_policy_and_capacity() {
    let shapes = shapes(&[(37, false), (5, true)]);
    for algorithm in [
        Algorithm::Revolve,
        Algorithm::Uniform,
        Algorithm::Zcut,
        Algorithm::TwoLevel,
        Algorithm::Hrevolve,
        Algorithm::StoreAll,
    ] {
        for policy in [Policy::Clairvoyant, Policy::Lru] {
            for cache in 0..=8 {
                for range_actions in [false, true] {
                    run(
                        &Config { range_actions, ..config(algorithm, 12, cache, policy) },
                        61,
                        &shapes,
                        &[1, 77],
                        2,
                    );
                    let sparse = config(algorithm, 6, cache, policy);
                    run(
                        &Config { range_actions, adjoint_every: 3, ..sparse },
                        91,
                        &shapes,
                        &[1, 77],
                        2,
                    );
                }
            }
        }
    }
}

/// A trace that saves every `stride`-th state and restores near and far states in turn, so that the
/// lifetimes of snapshots do not end in the order of a stack.
fn trace_that_is_no_stack(n: u32, stride: u32) -> String {
    let mut lines: Vec<String> = (0..n)
        .flat_map(|t| {
            let forward = (t > 0).then(|| format!("{t} FORWARD"));
            forward.into_iter().chain((t % stride == 0).then(|| format!("{t} SAVE")))
        })
        .collect();
    lines.push(format!("{} BACKWARD", n - 1));
    for t in (0..n - 1).rev() {
        let nearest = t - t % stride;
        let from = nearest / (1 + t % 3) / stride * stride;
        lines.push(format!("{from} RESTORE"));
        lines.extend((from + 1..=t).map(|s| format!("{s} FORWARD")));
        lines.push(format!("{t} BACKWARD"));
    }
    lines.push("0 TERMINATE\n".into());
    lines.join("\n")
}

/// Defect 5 of GPUZIP 2.x: its host pool was a stack, and a schedule that does not use snapshots as
/// a stack ended the program.
#[test]
fn traces_that_are_no_stack_are_replayed() {
    for (n, stride) in [(2, 1), (13, 1), (40, 3), (61, 5)] {
        let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("no-stack-{n}-{stride}.trace"));
        std::fs::write(&path, trace_that_is_no_stack(n, stride)).unwrap();
        for policy in [Policy::Clairvoyant, Policy::Lru] {
            for cache in 0..=6 {
                let config = Config {
                    trace_file: Some(path.clone()),
                    range_actions: cache % 2 == 1,
                    ..config(Algorithm::Trace, 0, cache, policy)
                };
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
    ) {
        let algorithm = [Algorithm::Revolve, Algorithm::Revolve, Algorithm::Uniform, Algorithm::Zcut, Algorithm::TwoLevel, Algorithm::StoreAll, Algorithm::Hrevolve, Algorithm::Online, Algorithm::Online][algorithm];
        let policy = if lru && algorithm != Algorithm::Online { Policy::Lru } else { Policy::Clairvoyant };
        let chunk = if algorithm == Algorithm::Zcut && chunk.saturating_mul(snapshots) >= steps { chunk } else { 0 };
        let every = if algorithm == Algorithm::Online { 1 } else { every };
        let config = Config { uniform_published: published, range_actions: ranges, adjoint_every: every, chunk, ..config(algorithm, snapshots, cache, policy) };
        run(&config, steps, &shapes(&sizes), &seeds, shots);
    }

    /// With a slow simulated link, transfers overlap with all later actions.
    #[test]
    fn slow_links_change_nothing(seed in any::<u8>(), cache in 0u32..6, snapshots in 2u32..10, lru: bool, online: bool) {
        let (algorithm, lru) = if online { (Algorithm::Online, false) } else { (Algorithm::Revolve, lru) };
        let policy = if lru { Policy::Lru } else { Policy::Clairvoyant };
        let config = Config { link_bandwidth: 5e7, ..config(algorithm, snapshots, cache, policy) };
        run(&config, 24, &shapes(&[(40, true)]), &[seed], 1);
    }
}

#[test]
fn a_slow_link_takes_its_time() {
    let shape = [Field { n: [25_000, 1, 1], scalar: Scalar::F32, previous_of: None }];
    let config =
        Config { link_bandwidth: 1e7, ..config(Algorithm::Revolve, 3, 0, Policy::Clairvoyant) };
    let mut session = Session::new(config, 4, &unplaced(&shape)).unwrap();
    let mut app = App::new(&shape, 3);
    session.setup().unwrap();
    loop {
        let action = session.get_action().unwrap().action;
        match action.kind {
            Kind::Save => session.save(action.ts as i64, &app.app_fields(), HOST).unwrap(),
            Kind::Restore => session.retrieve(action.ts as i64, &app.app_fields(), HOST).unwrap(),
            Kind::Terminate => break,
            _ => {}
        }
    }
    let stats = session.stats().unwrap();
    let ideal = (stats.h2d_bytes + stats.d2h_bytes) as f64 / 1e7;
    assert_eq!(stats.h2d_bytes + stats.d2h_bytes, 600_000);
    assert!(stats.stall >= ideal, "{} s for {} s of transfers", stats.stall, ideal);
}

#[test]
fn wrong_order_is_an_error_that_changes_nothing() {
    let shape = shapes(&[(10, false)]);
    let mut session =
        Session::new(config(Algorithm::Revolve, 1, 1, Policy::Clairvoyant), 3, &unplaced(&shape))
            .unwrap();
    let mut app = App::new(&shape, 9);
    let state = app.state();
    let code = |result: gpuzip::error::Result<()>| result.unwrap_err().code;
    // Defect 11 of GPUZIP 2.x: a retrieve before the save.
    assert_eq!(code(session.retrieve(0, &app.app_fields(), HOST)), Code::State);
    assert_eq!(session.get_action().unwrap().action.kind, Kind::Save);
    assert_eq!(code(session.retrieve(0, &app.app_fields(), HOST)), Code::State);
    assert_eq!(code(session.save(1, &app.app_fields(), HOST)), Code::State);
    assert_eq!(code(session.save(0, &[], HOST)), Code::Shape);
    assert_eq!(session.get_action().unwrap_err().code, Code::State, "the save is not done");
    session.save(0, &app.app_fields(), HOST).unwrap();
    assert_eq!(code(session.save(0, &app.app_fields(), HOST)), Code::State);
    let mut other = App::new(&shapes(&[(11, false)]), 1);
    loop {
        let action = session.get_action().unwrap().action;
        match action.kind {
            Kind::Restore => {
                assert_eq!(
                    code(session.retrieve(action.ts as i64, &other.app_fields(), HOST)),
                    Code::Shape
                );
                app.spoil();
                session.retrieve(action.ts as i64, &app.app_fields(), HOST).unwrap();
                assert_eq!(app.state(), state);
            }
            Kind::Terminate => break,
            _ => {}
        }
    }
    assert_eq!(session.get_action().unwrap_err().code, Code::State, "after TERMINATE");
    assert_eq!(code(session.dispatch(0)), Code::State);
    session.setup().unwrap();
    assert_eq!(session.get_action().unwrap().action.kind, Kind::Save);
}

#[test]
fn sessions_out_of_step_are_told() {
    let shape = shapes(&[(10, false)]);
    let config = config(Algorithm::Revolve, 2, 2, Policy::Clairvoyant);
    let cursor = Arc::new(SharedSchedule::new(config.clone(), 9).unwrap());
    let attach = || Session::attach(cursor.clone(), config.clone(), &unplaced(&shape)).unwrap();
    let (mut a, mut b) = (attach(), attach());
    let mut app = App::new(&shape, 4);
    assert_eq!(a.get_action().unwrap().it, 0);
    a.save(0, &app.app_fields(), HOST).unwrap();
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
    let mut app = App::new(&shape, 3);
    for (steps, range_actions) in [(1, false), (1, true), (2, true), (40, false), (40, true)] {
        let config =
            Config { range_actions, ..config(Algorithm::Revolve, 4, 2, Policy::Clairvoyant) };
        let whole = SharedSchedule::new(config.clone(), steps).unwrap();
        let mut session = Session::new(config, steps, &unplaced(&shape)).unwrap();
        for _ in 0..2 {
            let mut serve = |session: &mut Session, tick: Tick| {
                let expected = whole.advance().unwrap();
                assert_eq!(
                    (tick.it, tick.action, tick.end),
                    (expected.it, expected.action, expected.end)
                );
                match tick.action.kind {
                    Kind::Save => {
                        session.save(tick.action.ts as i64, &app.app_fields(), HOST).unwrap()
                    }
                    Kind::Restore => {
                        session.retrieve(tick.action.ts as i64, &app.app_fields(), HOST).unwrap()
                    }
                    _ => {}
                }
            };
            while let Some(tick) = session.get_forward_action().unwrap() {
                serve(&mut session, tick);
                assert_ne!(tick.action.kind, Kind::Backward);
            }
            assert!(session.get_forward_action().unwrap().is_none());
            assert_eq!(session.stats().unwrap().forward_steps, steps as u64 - 1);
            loop {
                let tick = session.get_action().unwrap();
                serve(&mut session, tick);
                if tick.action.kind == Kind::Terminate {
                    break;
                }
                if tick.action.kind == Kind::Backward {
                    let error = session.get_forward_action().unwrap_err();
                    assert!(error.message.contains("call setup"), "{error}");
                }
            }
            session.setup().unwrap();
            whole.rewind().unwrap();
        }
    }
}

#[test]
fn budgets_decide_snapshots_and_are_kept() {
    let shape = [Field { n: [1000, 1, 1], scalar: Scalar::F32, previous_of: None }];
    let slot = 4096u64;
    for (algorithm, device, host) in [
        (None, 4, 10),
        (None, 0, 5),
        (None, 3, 0),
        (Some(Algorithm::Revolve), 2, 20),
        (Some(Algorithm::Uniform), 5, 10),
        (None, 100, 300),
    ] {
        let config = Config {
            algorithm,
            device_budget: device * slot,
            host_budget: host * slot,
            ..Config::default()
        };
        let mut session = Session::new(config.clone(), 300, &unplaced(&shape)).unwrap();
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
    let refuse = |config: Config| Session::new(config, 300, &unplaced(&shape)).err().unwrap();
    let error = refuse(Config { device_budget: 100, ..Config::default() });
    assert_eq!(error.code, Code::Budget);
    assert!(error.message.contains("4096"), "{error}");
    let algorithm = Some(Algorithm::Revolve);
    let error = refuse(Config {
        algorithm,
        snapshots: 20,
        cache: 1,
        host_budget: 3 * slot,
        ..Config::default()
    });
    assert_eq!(error.code, Code::Budget);
    assert!(error.message.contains("host_budget"), "{error}");
}

#[test]
fn memory_that_cannot_be_had_is_an_error() {
    let shape = [Field { n: [1 << 50, 1, 1], scalar: Scalar::F64, previous_of: None }];
    let error =
        Session::new(config(Algorithm::Revolve, 5, 2, Policy::Clairvoyant), 100, &unplaced(&shape))
            .err()
            .unwrap();
    assert_eq!(error.code, Code::Memory);
    assert!(error.message.contains("bytes"), "{error}");
}

#[test]
fn a_session_that_is_gone_has_no_say() {
    let config =
        Config { host_budget: 4096, ..config(Algorithm::Revolve, 0, 0, Policy::Clairvoyant) };
    let cursor = Arc::new(SharedSchedule::new(config.clone(), 50).unwrap());
    drop(
        Session::attach(cursor.clone(), config.clone(), &unplaced(&shapes(&[(4000, false)])))
            .unwrap(),
    );
    let mut small = Session::attach(cursor, config, &unplaced(&shapes(&[(4, false)]))).unwrap();
    small.setup().unwrap();
}
