use super::*;
use crate::choice::{search, Cut, Job, Keep, State, Storage};
use crate::config::Backend;
use crate::plan::{Level, Policy};
use crate::predict::{Budgets, Profile};

const STATE: u64 = 1 << 20;

fn configured(device: u64, host: u64) -> Config {
    Config::default().with(|c| {
        c.tiers.device_budget = device * STATE;
        c.tiers.host_budget = host * STATE;
    })
}

fn tiers(config: &Config) -> TierSpec {
    let job = Job::new(config.clone(), State::Bytes { all: STATE, previous: 0 });
    TierSpec::of(&Storage::raw(&job), &job).unwrap()
}

/// Decides for sessions that have one storage option each.
fn choose(config: &Config, steps: u32, sessions: &[TierSpec]) -> Result<Choice> {
    let sessions: Vec<Vec<TierSpec>> = sessions.iter().map(|tiers| vec![tiers.clone()]).collect();
    choose_among(config, steps, &sessions)
}

fn chosen(config: &Config, steps: u32) -> Choice {
    choose(config, steps, &[tiers(config)]).unwrap()
}

/// Predicted seconds of a choice.
fn predicted(config: &Config, choice: &Choice) -> f64 {
    let tiers = tiers(config);
    crate::predict::simulate(&choice.schedule, &choice.plans[0], &tiers.costs, Budgets::NONE)
        .unwrap()
        .makespan
}

/// `auto` is compared with every algorithm that a user could name, within the same budgets.
#[test]
fn auto_is_no_slower_than_any_algorithm_by_name() {
    for backend in [Backend::Cuda, Backend::Host] {
        for (device, host, zero_copy) in [
            (4, 40, false),
            (1, 20, false),
            (20, 0, false),
            (10, 500, false),
            (0, 30, false),
            (4, 40, true),
            (3, 20, true),
        ] {
            let auto = configured(device, host).with(|c| {
                c.device.backend = backend;
                c.tiers.zero_copy = zero_copy;
            });
            let ours = predicted(&auto, &chosen(&auto, 700));
            for algorithm in
                [Algorithm::Revolve, Algorithm::Uniform, Algorithm::TwoLevel, Algorithm::Hrevolve]
            {
                let named = auto.clone().with(|c| c.schedule.algorithm = Some(algorithm));
                let theirs = predicted(&named, &chosen(&named, 700));
                assert!(
                    ours <= theirs * (1.0 + 1e-12),
                    "{device} + {host}: {ours}, {} takes {theirs}",
                    algorithm.name()
                );
            }
        }
    }
}

/// A named schedule has as many snapshots as its budgets hold, whether states are whole or in levels: with
/// one more the plan does not fit.
#[test]
fn named_schedules_take_what_fits() {
    for algorithm in [Algorithm::Revolve, Algorithm::Uniform] {
        for (device, host) in [(0, 5), (0, 40), (3, 6), (4, 40), (9, 31), (20, 200)] {
            let named = configured(device, host).with(|c| {
                c.tiers.shared_levels = true;
                c.schedule.algorithm = Some(algorithm);
            });
            let state = State::Bytes { all: STATE, previous: STATE / 2 };
            let job = Job::new(named.clone(), state);
            for tiers in crate::choice::storage_options(&job).unwrap() {
                let choice = choose(&named, 700, std::slice::from_ref(&tiers)).unwrap();
                let snapshots = choice.schedule.snapshots;
                let least = host as u32;
                let what = format!("{} {device} {host} {:?}", algorithm.name(), tiers.storage.cut);
                assert!(snapshots >= least, "{what}: {snapshots} snapshots");
                let more = named.clone().with(|c| c.schedule.snapshots = snapshots + 1);
                let error = choose(&more, 700, &[tiers]);
                assert!(error.is_err_and(|e| e.code == Code::Budget), "{what}: {snapshots} + 1");
            }
        }
    }
}

/// The profile decides: `auto` uses a link that costs nothing and avoids a link that is slow.
#[test]
fn auto_follows_the_profile() {
    let with = |gbs: f64| {
        let profile = Profile { h2d_gbs: gbs, d2h_gbs: gbs, ..Profile::typical_gpu(STATE) };
        chosen(&configured(4, 400).with(|c| c.device.profile = Some(profile)), 400)
    };
    assert_eq!(with(1e6).schedule.algorithm, Algorithm::StoreAll);
    let slow = with(0.01);
    assert!(slow.plans[0].counts.h2d == 0 && slow.schedule.snapshots <= 4, "{:?}", slow.schedule);
    let (a, b) = (with(25.0), with(25.0));
    assert_eq!(
        (format!("{:?}", a.schedule), &a.plans[0].steps),
        (format!("{:?}", b.schedule), &b.plans[0].steps)
    );
}

#[test]
fn auto_keeps_the_limits_that_are_set() {
    for (device, host) in [(4, 10), (0, 5), (3, 0), (100, 300)] {
        for zero_copy in [false, true] {
            for policy in [Policy::Clairvoyant, Policy::Lru] {
                // Zero copy needs the memory of two states.
                let device = if zero_copy { device.max(2) } else { device };
                let config = configured(device, host).with(|c| {
                    c.tiers.zero_copy = zero_copy;
                    c.tiers.policy = policy;
                });
                if policy == Policy::Lru && (zero_copy || host == 0) {
                    continue;
                }
                let plan = &chosen(&config, 300).plans[0];
                assert!(
                    plan.device_slots as u64 <= device && plan.host_slots as u64 <= host,
                    "{config:?}: {} {}",
                    plan.device_slots,
                    plan.host_slots
                );
                assert_eq!((plan.policy, plan.zero_copy), (policy, zero_copy));
            }
        }
    }
    let capped = Config::default().with(|c| {
        c.schedule.snapshots = 6;
        c.tiers.cache = 2;
    });
    assert!(chosen(&capped, 300).schedule.snapshots <= 6);
    let ruled = Config::default().with(|c| {
        c.schedule.adjust_snapshots = true;
        c.tiers.cache = 2;
    });
    assert!(chosen(&ruled, 300).schedule.snapshots <= adjust(300));
}

/// Without copies another plan is best, and `auto` takes that plan where the application works in
/// the slots: the first plan of the search over tiers that are priced with zero copy.
#[test]
fn auto_prices_plans_with_zero_copy() {
    // A copy takes half of a step, a transfer twelve steps.
    let profile = Profile {
        h2d_gbs: STATE as f64 / 12e6,
        d2h_gbs: STATE as f64 / 12e6,
        d2d_gbs: STATE as f64 / 5e5 * 2.0,
        forward_ms: 1.0,
        backward_ms: 1.0,
        ..Profile::typical_gpu(STATE)
    };
    let config = |zero_copy| {
        configured(4, 30).with(|c| {
            c.tiers.zero_copy = zero_copy;
            c.device.profile = Some(profile.clone());
        })
    };
    let [copying, handing] = [false, true].map(|zero_copy| {
        let config = config(zero_copy);
        let choice = chosen(&config, 600);
        let seconds = predicted(&config, &choice);
        (choice, seconds)
    });
    let expected =
        search(600, u32::MAX, &[vec![tiers(&config(true))]], Keep::Best).unwrap().swap_remove(0);
    assert_eq!(handing.1, expected.simulation.makespan);
    assert_eq!(format!("{:?}", handing.0.schedule), format!("{:?}", expected.schedule));
    assert!(handing.0.plans[0].zero_copy && expected.simulation.copying == 0.0);
    assert_eq!(handing.0.plans[0].cache, 4, "no memory beside the slots");
    assert!(handing.1 < 0.95 * copying.1, "{} beside {}", handing.1, copying.1);
    // The plan for copies, played without copies, is slower than the plan made for zero copy.
    let other = choose_schedule(copying.0.schedule, &[vec![tiers(&config(true))]], 0).unwrap();
    assert!(handing.1 < predicted(&config(true), &other));
}

#[test]
fn auto_without_limits_is_revolve_by_the_published_rule() {
    let choice = chosen(&Config::default(), 300);
    assert_eq!(
        (choice.schedule.algorithm, choice.schedule.snapshots),
        (Algorithm::Revolve, adjust(300))
    );
    assert_eq!(
        choose(&configured(4, 10), 300, &[]).unwrap().schedule.algorithm,
        Algorithm::Revolve
    );
}

/// The error of store-all beyond the budgets says how many bytes all states need, not one state.
#[test]
fn store_all_says_what_it_needs() {
    let config = |host_budget| {
        Config::default().with(|c| {
            c.schedule.algorithm = Some(Algorithm::StoreAll);
            c.tiers.host_budget = host_budget;
        })
    };
    let chosen = |config: &Config| choose(config, 300, &[tiers(config)]);
    let error = chosen(&config(10 * STATE)).unwrap_err();
    assert_eq!(error.code, Code::Budget);
    for part in [
        "299 states".into(),
        format!("raise host_budget to {} bytes", 299 * STATE),
        "(auto)".into(),
    ] {
        assert!(error.message.contains(&part), "{part} in {error}");
    }
    assert_eq!(chosen(&config(299 * STATE)).unwrap().schedule.algorithm, Algorithm::StoreAll);
}

#[test]
fn sessions_plan_together() {
    let (small, large) = (configured(2, 10), configured(20, 100));
    let sessions = [tiers(&large), tiers(&small)];
    let choice = choose(&small, 300, &sessions).unwrap();
    assert!(
        choice.plans[1].host_slots <= 10
            && choice.plans[1].device_slots <= 2
            && choice.plans[0].cache == 20
    );
}

/// With `adjoint_every` = k, everything is decided as for n / k steps, rounded up, each of which
/// takes as long as k time steps.
#[test]
fn macro_steps_are_planned_as_longer_steps() {
    let timed = |k: f64| Profile {
        forward_ms: 3.0 * k,
        backward_ms: 5.0 * k,
        h2d_gbs: 0.2,
        d2h_gbs: 0.2,
        ..Profile::typical_gpu(STATE)
    };
    let planned = |a: &Algorithm| !matches!(a, Algorithm::Trace | Algorithm::Online);
    let all = Algorithm::ALL.into_iter().filter(planned).map(Some);
    for algorithm in all.chain([None]) {
        for (every, count) in [(2, 150), (4, 75), (7, 43), (300, 1), (1, 300)] {
            let time_steps = every * count;
            let (device, host) =
                if algorithm == Some(Algorithm::StoreAll) { (9, 300) } else { (4, 10) };
            let whole = configured(device, host).with(|c| {
                c.schedule.algorithm = algorithm;
                c.device.profile = Some(timed(every as f64));
            });
            let config = whole.clone().with(|c| {
                c.schedule.adjoint_every = every;
                c.device.profile = Some(timed(1.0));
            });
            let (sparse, whole) = (chosen(&config, time_steps), chosen(&whole, count));
            assert_eq!(sparse.schedule.terms(), whole.schedule.terms());
            assert_eq!(sparse.plans[0].steps, whole.plans[0].steps);
            assert_eq!(sparse.schedule.macro_steps(), MacroSteps::new(every, time_steps));
            // A number of time steps that is no multiple of k.
            if count > 1 && every > 1 {
                let shorter = chosen(&config, time_steps - 1).schedule;
                assert_eq!(shorter.steps, count);
                assert_eq!(shorter.macro_steps().time_steps(), time_steps - 1);
            }
        }
    }
}

/// An online schedule reverses every step by itself, whether the number of steps is known or not.
#[test]
fn online_schedules_have_no_macro_steps() {
    for steps in [0, 300] {
        let config = configured(4, 10).with(|c| {
            c.schedule.algorithm = Some(Algorithm::Online);
            c.schedule.adjoint_every = 2;
        });
        let error = choose(&config, steps, &[tiers(&config)]).unwrap_err();
        assert_eq!(error.code, Code::Unsupported);
        assert!(
            error.message.contains("adjoint_every = 2 with checkpointing_algorithm = 9"),
            "{error}"
        );
    }
}

/// Snapshots that are several steps apart have no time level in common.
#[test]
fn macro_steps_share_no_time_levels() {
    let config = |adjoint_every| {
        configured(20, 90).with(|c| {
            c.tiers.shared_levels = true;
            c.schedule.adjoint_every = adjoint_every;
        })
    };
    let job = Job::new(config(1), State::Bytes { all: STATE, previous: STATE / 2 });
    let cut = Storage { cut: Cut::Levels, ..Storage::raw(&job) };
    let tiers = TierSpec::of(&cut, &job).unwrap();
    let shared = |choice: &Choice| {
        let levels = choice.plans[0].levels.iter();
        levels.filter(|level| **level != Level::Own).count()
    };
    let tiers = std::slice::from_ref(&tiers);
    assert!(shared(&choose(&config(1), 60, tiers).unwrap()) > 0);
    assert_eq!(shared(&choose(&config(3), 60, tiers).unwrap()), 0);
}

/// Of several ways to store the snapshots of a recorded schedule the quickest is taken, also where the
/// schedule restores a state more often than schedules of gpuzip do.
#[test]
fn the_quickest_way_is_taken_for_every_schedule() {
    let mut text = String::from("0 SAVE\n");
    for t in (0..10).rev() {
        text += if t < 9 { "0 RESTORE\n0 RESTORE\n" } else { "" };
        (1..=t).for_each(|u| text += &format!("{u} FORWARD\n"));
        text += &format!("{t} BACKWARD\n");
    }
    text += "0 TERMINATE\n";
    let path = std::env::temp_dir().join(format!("gpuzip-way-{}.trace", std::process::id()));
    std::fs::write(&path, text).unwrap();
    let config = configured(8, 8).with(|c| {
        c.schedule.algorithm = Some(Algorithm::Trace);
        c.schedule.trace_file = Some(path.clone());
    });
    let raw = tiers(&config);
    let with = |copy: f64, compress: f64, decompress: f64| {
        let mut tiers = raw.clone();
        tiers.costs.compressed = compress > 0.0;
        (tiers.costs.copy, tiers.costs.compress, tiers.costs.decompress) =
            (copy, compress, decompress);
        tiers
    };
    // Raw states take 19 copies; compressed ones take long once.
    let ways = [vec![with(50.0, 0.0, 0.0), with(0.0, 100.0, 0.1)]];
    let alone = ways[0].iter().map(|tiers| {
        let choice = choose(&config, 10, std::slice::from_ref(tiers)).unwrap();
        let plan = &choice.plans[0];
        crate::predict::simulate(&choice.schedule, plan, &tiers.costs, Budgets::NONE).unwrap()
    });
    let alone: Vec<f64> = alone.map(|run| run.makespan).collect();
    assert!(alone[1] < alone[0] / 2.0, "{alone:?}");
    let choice = choose_among(&config, 10, &ways).unwrap();
    assert_eq!((choice.alternative, choice.predicted), (1, Some(alone[1])), "{alone:?}");
    std::fs::remove_file(path).unwrap();
}

/// A trace counts macro-steps. A trace of time steps is refused with both numbers.
#[test]
fn a_trace_has_the_macro_steps() {
    let dir = std::env::temp_dir();
    let path = dir.join(format!("gpuzip-macro-steps-{}.trace", std::process::id()));
    let mut text = Vec::new();
    let recorded = Schedule::revolve(6, 2).unwrap();
    crate::schedule::trace::write(recorded.actions(), &mut text).unwrap();
    std::fs::write(&path, text).unwrap();
    let config = |adjoint_every| {
        Config::default().with(|c| {
            c.schedule.algorithm = Some(Algorithm::Trace);
            c.schedule.trace_file = Some(path.clone());
            c.tiers.cache = 2;
            c.schedule.adjoint_every = adjoint_every;
        })
    };
    for steps in 21..=24 {
        let choice = chosen(&config(4), steps);
        let expected = recorded.clone().in_macro_steps(MacroSteps::new(4, steps));
        assert!(choice.schedule.ranges(true).eq(expected.ranges(true)));
    }
    for (every, steps) in [(4, 20), (4, 25), (4, 6), (2, 6)] {
        let config = config(every);
        let error = choose(&config, steps, &[tiers(&config)]).unwrap_err();
        let parts = [format!("adjoint_every = {every}"), format!("{steps} time steps")];
        assert!(parts.iter().all(|part| error.message.contains(part)), "{error}");
    }
    assert!(choose(&config(1), 6, &[tiers(&config(1))]).is_ok());
    std::fs::remove_file(path).unwrap();
}
