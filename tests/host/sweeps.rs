//! Several reverse sweeps over the states of one forward sweep: every restored state is the one that
//! was saved, in every sweep, and what is counted is what is planned. tests/c/everything.c draws sweeps
//! together with everything else; tests/process/stress.rs runs it.

use crate::common::prelude::*;

fn shapes() -> Vec<Field> {
    vec![field([40, 3, 1], Scalar::F64), field([17, 1, 1], Scalar::F32)]
}

/// Plays the rest of a sweep, to TERMINATE.
fn sweep(session: &mut Session, app: &mut HostApp<'_>) {
    app.reversed = 0;
    while step(session, app).unwrap().is_some() {}
    assert_eq!(app.reversed, 23);
}

#[test]
fn every_sweep_restores_what_was_saved() {
    let draw = &mut Draw(9);
    for algorithm in ALGORITHMS {
        for snapshots in [1, 3, 8, 22, 23, 40] {
            for sweeps in [2, 3, 10] {
                let every = 1 + draw.below(2) as u32;
                let cache = draw.below(5) as u32;
                let policy = [Policy::Clairvoyant, Policy::Lru][draw.below(2)];
                let config = config(algorithm, snapshots, cache).with(|c| {
                    (c.schedule.sweeps, c.schedule.adjoint_every) = (sweeps, every);
                    (c.tiers.policy, c.schedule.range_actions) = (policy, draw.below(2) == 1);
                });
                // A slot for the last state, which is alone in its interval, may be missing.
                let Ok(mut session) = open(&config, 23, &shapes()) else { continue };
                let about = format!("{algorithm:?}, {snapshots} snapshots, {sweeps} sweeps");
                let mut app = HostApp::new(&shapes(), noise);
                for shot in 0..2 {
                    app.seed = shot;
                    session.setup().unwrap();
                    for k in 1..=sweeps {
                        sweep(&mut session, &mut app);
                        let told = if k < sweeps { "rewind begins" } else { "only setup" };
                        refused(session.get_action(), Code::State, &[told]);
                        assert_eq!(session.rewind().is_ok(), k < sweeps, "{about}");
                    }
                    let (stats, plan) = (session.stats().unwrap(), session.plan().unwrap());
                    let counts = plan.counts;
                    assert_eq!((stats.saves, stats.restores), (counts.saves, counts.restores));
                    assert_eq!((stats.h2d, stats.d2h), (counts.h2d, counts.d2h), "{about}");
                    assert_eq!(stats.backward_steps, u64::from(sweeps) * 23, "{about}");
                }
            }
        }
    }
}

#[test]
fn a_shot_may_end_after_any_sweep_and_a_rewind_elsewhere_changes_nothing() {
    let config = config(Algorithm::Revolve, 5, 2).with(|c| c.schedule.sweeps = 4);
    let mut session = open(&config, 23, &shapes()).unwrap();
    let mut app = HostApp::new(&shapes(), noise);
    refused(session.rewind(), Code::State, &["action -1"]);
    for sweeps in [4, 2, 1, 3, 4] {
        for k in 0..sweeps {
            if k > 0 {
                session.rewind().unwrap();
                session.rewind().unwrap();
                let next = session.peek_action().unwrap();
                assert_eq!(next.action.kind, Kind::Restore);
                assert!(session.get_forward_action().is_err(), "there is no forward sweep");
            }
            assert!(step(&mut session, &mut app).unwrap().is_some());
            refused(session.rewind(), Code::State, &["ends with TERMINATE"]);
            sweep(&mut session, &mut app);
        }
        assert_eq!(session.stats().unwrap().backward_steps, 23 * sweeps);
        session.setup().unwrap();
        app.seed += 1;
    }
}

/// What k sweeps store and compute: at most what k runs compute, and with a slot for each state nothing
/// is computed again.
#[test]
fn five_sweeps_take_far_fewer_steps_than_five_runs() {
    let steps = |snapshots: u32, sweeps: u32| {
        let config = config(Algorithm::Revolve, snapshots, 0).with(|c| c.schedule.sweeps = sweeps);
        SharedSchedule::new(config, 1000).unwrap().decide().unwrap().forward_steps()
    };
    assert_eq!((5 * steps(100, 1), steps(100, 5)), (9490, 5534));
    assert_eq!(steps(1000, 5), 999);
    for snapshots in [1, 2, 5, 10, 30, 300] {
        assert!(steps(snapshots, 5) <= 5 * steps(snapshots, 1), "{snapshots}");
    }
}

#[test]
fn online_schedules_have_one_sweep() {
    let online = config(Algorithm::Online, 4, 2).with(|c| c.schedule.sweeps = 2);
    refused(open(&online, 9, &shapes()), Code::Unsupported, &["sweeps = 2", "online"]);
}
