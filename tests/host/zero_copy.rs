//! Zero copy on the host backend: the application computes in slots of the cache, and restored
//! states are in slots, too.

use crate::common::host;
use crate::common::prelude::*;
use proptest::prelude::*;

fn shapes() -> [Field; 2] {
    [field([60, 2, 1], Scalar::F32), field([17, 1, 1], Scalar::F64)]
}

fn config(algorithm: Algorithm, snapshots: u32, cache: u32) -> Config {
    host::config(algorithm, snapshots, cache).with(|c| c.tiers.zero_copy = true)
}

fn open(config: Config, steps: u32) -> Result<Session> {
    host::open(&config, steps, &shapes())
}

fn session(config: Config, steps: u32) -> Session {
    open(config, steps).unwrap()
}

/// Runs one sweep: the application computes every saved state in a slot, finds it again at every
/// RESTORE, and the slot keeps its values until the next SAVE or RESTORE, or until the state is
/// released, where `releases` returns true.
fn sweep(session: &mut Session, steps: u32, releases: impl FnMut() -> bool) {
    let mut app = HostApp::new(&shapes(), noise);
    app.slots = Some(Slots::new(true, releases));
    session.setup().unwrap();
    let stats = app.shot(session).unwrap();
    assert_eq!(stats.backward_steps, steps as u64);
    assert_eq!(stats.hits + stats.misses, stats.restores);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn states_stay_until_the_next_event(
        algorithm in 0usize..6, snapshots in 1u32..14, cache in 0u32..9, steps in 1u32..70, slow: bool, ranges: bool, every in 1u32..6,
        releases in proptest::collection::vec(any::<bool>(), 1..9),
    ) {
        let algorithm = ALGORITHMS[algorithm];
        let link_bandwidth = if slow { 5e8 } else { 0.0 };
        let mut session = session(config(algorithm, snapshots, cache).with(|c| {
            c.device.link_bandwidth = link_bandwidth;
            c.schedule.range_actions = ranges;
            c.schedule.adjoint_every = every;
        }), steps);
        let mut releases = releases.into_iter().cycle();
        sweep(&mut session, steps, || releases.next() == Some(true));
        sweep(&mut session, steps, || releases.next() == Some(true));
        let (plan, stats) = (session.plan().unwrap(), session.stats().unwrap());
        let bytes = session.tiers().slot_bytes;
        prop_assert_eq!((stats.h2d_bytes, stats.d2h_bytes), (plan.counts.h2d * bytes, plan.counts.d2h * bytes));
    }
}

/// While the number of steps is not known, the plan has no step yet for a SAVE that has not come: the
/// application gets spare memory for it.
#[test]
fn an_open_plan_has_memory_for_the_next_save() {
    for cache in 0..4 {
        let mut session = session(config(Algorithm::Online, 3, cache), 0);
        let mut saves = 0;
        while saves < 20 {
            let tick = session.get_action().unwrap();
            if tick.action.kind == Kind::Save {
                let ts = tick.action.ts.into();
                let pointers = session.save_begin(ts, 2, HOST).unwrap();
                assert!(pointers.iter().all(|pointer| !pointer.is_null()), "{cache} slots, {ts}");
                session.save_commit(ts, HOST).unwrap();
                saves += 1;
            }
        }
    }
}

#[test]
fn wrong_order_is_told() {
    let mut copying =
        session(config(Algorithm::Revolve, 2, 2).with(|c| c.tiers.zero_copy = false), 5);
    copying.get_action().unwrap();
    refused(copying.save_begin(0, 2, HOST), Code::State, &[]);
    let mut session = session(config(Algorithm::Revolve, 2, 2), 5);
    session.get_action().unwrap();
    refused(session.save_commit(0, HOST), Code::State, &[]);
    refused(session.save_begin(1, 2, HOST), Code::State, &[]);
    refused(session.save_begin(0, 1, HOST), Code::Shape, &[]);
    refused(session.retrieve_acquire(0, 2, HOST), Code::State, &[]);
    session.save_begin(0, 2, HOST).unwrap();
    session.save_commit(0, HOST).unwrap();
    refused(session.save_commit(0, HOST), Code::State, &[]);
}

#[test]
fn only_what_was_acquired_is_released() {
    let mut copying =
        session(config(Algorithm::Revolve, 2, 2).with(|c| c.tiers.zero_copy = false), 5);
    copying.get_action().unwrap();
    let refuse = |session: &mut Session, ts, part: &str| {
        refused(session.retrieve_release(ts, HOST), Code::State, &[part]);
    };
    refuse(&mut copying, 0, "zero_copy = 1");
    let mut session = session(config(Algorithm::Revolve, 2, 2), 9);
    refuse(&mut session, 0, "not acquired");
    let mut released = 0;
    loop {
        let action = session.get_action().unwrap().action;
        let ts = action.ts as i64;
        match action.kind {
            Kind::Save => {
                refuse(&mut session, ts, "not acquired");
                session.save_begin(ts, 2, HOST).unwrap();
                session.save_commit(ts, HOST).unwrap();
                refuse(&mut session, ts, "another save or retrieve came");
            }
            Kind::Restore => {
                refuse(&mut session, ts, "not acquired");
                session.retrieve_acquire(ts, 2, HOST).unwrap();
                refuse(&mut session, ts + 1, "has state");
                session.retrieve_release(ts, HOST).unwrap();
                refuse(&mut session, ts, "released already");
                released += 1;
            }
            Kind::Terminate => break,
            _ => {}
        }
    }
    assert!(released > 2);
    session.setup().unwrap();
    refuse(&mut session, 0, "not acquired");
}

/// All of the device budget is slots if it holds two or more of them. A session with one slot, here
/// because the configuration allows one, has two spare slots beside it.
#[test]
fn spare_slots_come_out_of_the_budget() {
    let slot = session(config(Algorithm::Revolve, 2, 2), 5).tiers().slot_bytes;
    for (slots, cap, expected, device) in [(8, 0, 8, 8), (2, 0, 2, 2), (8, 5, 5, 5), (3, 1, 1, 3)] {
        let mut session = session(
            config(Algorithm::Revolve, 0, cap).with(|c| {
                c.tiers.device_budget = slots * slot + slot / 2;
                c.tiers.host_budget = 40 * slot;
            }),
            60,
        );
        sweep(&mut session, 60, || true);
        assert_eq!(session.plan().unwrap().cache, expected);
        assert_eq!(session.stats().unwrap().peak_device_bytes, device * slot);
    }
    let config = config(Algorithm::Revolve, 0, 0).with(|c| c.tiers.device_budget = slot);
    // One slot and two spare ones do not fit.
    refused(open(config, 60), Code::Budget, &[]);
}
