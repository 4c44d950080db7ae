//! Shared time levels on the host backend: every restored state is complete and right, whatever the
//! schedule, the tiers and the timing; a shared time level is stored and moved once; and an
//! application that changes its previous time level never gets a wrong state.

use crate::common::host;
use crate::common::prelude::*;
use crate::common::wave;
use gpuzip::choice::Coded;
use gpuzip::predict::Profile;
use proptest::prelude::*;

/// Two time levels of a wave in FP32, two of a wave in FP64, and a field without a previous time
/// level.
fn fields(n: u64) -> Vec<Field> {
    let single = field([n, 3, 1], Scalar::F32);
    let double = field([n / 2 + 1, 3, 1], Scalar::F64);
    vec![
        Field { previous_of: Some(1), ..single },
        single,
        double,
        field([7, 3, 1], Scalar::F32),
        Field { previous_of: Some(2), ..double },
    ]
}

/// The fields that are previous time levels, by number.
const PREVIOUS: [usize; 2] = [0, 4];

fn config(algorithm: Option<Algorithm>, snapshots: u32, cache: u32) -> Config {
    host::config(algorithm, snapshots, cache).with(|c| c.tiers.shared_levels = true)
}

fn run(config: &Config, steps: u32, n: u64, seed: u8) -> Stats {
    let fields = fields(n);
    let mut session = open(config, steps, &fields).unwrap();
    let mut app = HostApp::new(&fields, noise);
    let mut shot = |seed: u8| {
        app.seed = seed.into();
        session.setup().unwrap();
        let stats = app.shot(&mut session).unwrap();
        assert_eq!(app.reversed, steps);
        stats
    };
    let (first, again) = (shot(seed), shot(seed ^ 0x5a));
    let counts = |s: &Stats| {
        let bytes = [s.h2d_bytes, s.d2h_bytes, s.stored_bytes];
        (s.saves, s.restores, bytes, s.peak_device_bytes, s.peak_host_bytes)
    };
    assert_eq!(counts(&first), counts(&again));
    first
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(1500, 20_000)))]

    #[test]
    fn every_restore_is_whole(
        algorithm in 0usize..7, snapshots in 1u32..40, cache in 0u32..12, steps in 1u32..70, chunk in 0u32..16, ranges: bool, slow: bool,
        n in 1u64..60, seed: u8,
    ) {
        let algorithms = [Algorithm::Revolve, Algorithm::Uniform, Algorithm::Zcut, Algorithm::TwoLevel, Algorithm::StoreAll, Algorithm::Zcut, Algorithm::Hrevolve];
        let chunk = if algorithm == 2 && chunk.saturating_mul(snapshots) >= steps { chunk } else { 0 };
        let link_bandwidth = if slow { 2e8 } else { 0.0 };
        let snapshots = if algorithm == 5 { 0 } else { snapshots };
        let config = config(Some(algorithms[algorithm]), snapshots, cache).with(|c| {
            c.schedule.chunk = chunk;
            c.device.link_bandwidth = link_bandwidth;
            c.schedule.range_actions = ranges;
        });
        let stats = run(&config, steps, n, seed);
        let plain = run(&config.with(|c| c.tiers.shared_levels = false), steps, n, seed);
        prop_assert_eq!(stats.restores, plain.restores);
        if matches!(algorithm, 3 | 6) {
            // These schedules follow from the number of slots, of which a level takes one, too.
            return Ok(());
        }
        prop_assert_eq!(stats.saves, plain.saves);
        // A slot has the bytes of the larger level, which are 256 more than those of the other one.
        let least = |own: u64, plain: u64, count: u64| own <= plain + 256 * count;
        prop_assert!(least(stats.stored_bytes, plain.stored_bytes, stats.saves));
        prop_assert!(least(stats.d2h_bytes, plain.d2h_bytes, stats.d2h) && least(stats.h2d_bytes, plain.h2d_bytes, stats.h2d));
        let (device, host) = (stats.peak_device_bytes, stats.peak_host_bytes);
        prop_assert!(least(device, plain.peak_device_bytes, steps.into()) && least(host, plain.peak_host_bytes, steps.into()));
    }

    /// Sessions stay within their budgets, and every plan within a budget gives the right states.
    #[test]
    fn budgets_are_kept(device in 0u64..40, host in 0u64..60, steps in 2u32..60, algorithm in 0usize..4, seed: u8) {
        let algorithm = [None, Some(Algorithm::Revolve), Some(Algorithm::StoreAll), Some(Algorithm::Zcut)][algorithm];
        let state = 4096;
        let (device_budget, host_budget) = (device * state / 2, host * state / 2);
        let config = config(algorithm, 0, 0).with(|c| {
            c.tiers.device_budget = device_budget;
            c.tiers.host_budget = host_budget;
        });
        let fields = fields(50);
        if let Some(mut session) = open_within_budgets(&config, steps, &fields) {
            let mut app = HostApp::new(&fields, noise);
            app.seed = seed.into();
            let stats = app.shot(&mut session).unwrap();
            prop_assert!(device_budget == 0 || stats.peak_device_bytes <= device_budget);
            prop_assert!(host_budget == 0 || stats.peak_host_bytes <= host_budget);
        }
    }
}

/// With zero copy a cache of fewer than two slots for each level leaves the application spare memory,
/// which the device budget holds, too. The cache has slots of a level, of which a budget may hold fewer
/// than two for each state that it holds.
#[test]
fn zero_copy_with_levels_keeps_the_device_budget() {
    let (own, past) = bytes(50);
    let budgets = (own..=4 * (own + past)).step_by(256);
    let mut in_levels = 0;
    for (budget, steps) in budgets.flat_map(|budget| (2..6).map(move |steps| (budget, steps))) {
        let config = config(Some(Algorithm::Revolve), steps - 1, 7).with(|c| {
            c.tiers.zero_copy = true;
            c.tiers.device_budget = budget;
        });
        let Some(session) = open_within_budgets(&config, steps, &fields(50)) else { continue };
        let plan = session.plan().unwrap();
        let needed = session.tiers().device_bytes(&plan);
        assert!(needed <= budget, "{needed} bytes of a device budget of {budget}");
        in_levels += u32::from(plan.in_levels);
    }
    assert!(in_levels > 5, "{in_levels}");
}

/// Returns sizes in bytes, with each field padded to a multiple of 256: first of all fields that
/// are not previous time levels, then of the previous time levels.
fn bytes(n: u64) -> (u64, u64) {
    let padded = |field: &Field| field.bytes().unwrap().next_multiple_of(256);
    let fields = fields(n);
    let past = PREVIOUS.iter().map(|&past| padded(&fields[past])).sum::<u64>();
    (fields.iter().map(padded).sum::<u64>() - past, past)
}

/// Every stored state takes a slot for its own time level; only the first state also takes one for its
/// previous time level.
#[test]
fn storing_all_states_takes_one_level_each() {
    let (n, steps) = (200, 50u32);
    let (own, past) = bytes(n);
    let all = u64::from(steps) - 1;
    let on_host = run(&config(Some(Algorithm::StoreAll), 0, 0), steps, n, 3);
    assert_eq!(
        (on_host.peak_host_bytes, on_host.stored_bytes),
        ((all + 1) * own, all * own + past)
    );
    let on_device = run(&config(Some(Algorithm::StoreAll), 0, steps), steps, n, 3);
    assert_eq!(
        (on_device.peak_device_bytes, on_device.peak_host_bytes, on_device.d2h_bytes),
        ((all + 1) * own, 0, 0)
    );
    let both = run(&config(Some(Algorithm::StoreAll), 0, 5), steps, n, 3);
    let plain = run(
        &config(Some(Algorithm::StoreAll), 0, 5).with(|c| c.tiers.shared_levels = false),
        steps,
        n,
        3,
    );
    assert!(
        both.d2h_bytes * 100 <= plain.d2h_bytes * 100 * (own + past / 10) / (own + past),
        "{both:?} {plain:?}"
    );
    assert!(both.peak_host_bytes <= (all - 5) * own + 2 * past, "{both:?}");
}

/// With shared time levels nearly twice as many raw states fit a budget, and the planner uses this.
#[test]
fn twice_as_many_states_fit() {
    let (own, past) = bytes(200);
    let (steps, budget) = (40u32, 39 * own + 2 * past + 256);
    let shared = config(None, 0, 0).with(|c| c.tiers.device_budget = budget);
    let plain = shared.clone().with(|c| c.tiers.shared_levels = false);
    let fields = fields(200);
    let [mut shared, mut plain] =
        [shared, plain].map(|config| open(&config, steps, &fields).unwrap());
    let stats = [&mut shared, &mut plain]
        .map(|session| HostApp::new(&fields, noise).shot(session).unwrap());
    assert_eq!(shared.schedule().decide().unwrap().algorithm, Algorithm::StoreAll);
    assert_eq!(stats[0].forward_steps, u64::from(steps) - 1);
    assert!(stats[1].forward_steps > stats[0].forward_steps);
}

/// An application, such as one with a sponge, changes its previous time level after all steps or
/// after one step. Then no restore returns a wrong state, and an error names field and state.
#[test]
fn levels_that_are_not_each_others_are_refused() {
    let (fields, steps) = (fields(40), 30);
    for cache in [0, 1, 3, 40] {
        for (from, to) in [(0, steps), (7, 8), (29, 30)] {
            let config = config(Some(Algorithm::StoreAll), 0, cache);
            let mut session = open(&config, steps, &fields).unwrap();
            let mut app = HostApp::new(&fields, noise);
            app.change = Box::new(move |ts, state| {
                if (from..to).contains(&ts) {
                    *state[4].last_mut().unwrap() ^= 1;
                }
            });
            match app.shot(&mut session) {
                // Only the last state is changed, and the last state is never saved.
                Ok(_) => assert_eq!((from, to), (29, 30)),
                ended => {
                    let first = format!("field 4 of state {} ", from.max(1));
                    refused(ended, Code::Values, &[&first]);
                    refused(session.get_action(), Code::State, &[]);
                }
            }
            session.setup().unwrap();
            HostApp::new(&fields, noise).shot(&mut session).unwrap();
        }
    }
}

/// The checksum notices a change of one half of an 8-byte word whatever the other half is. The
/// values of `hiding` would make a weaker checksum 0: a product of both halves of word w, each plus
/// a multiple of w.
#[test]
fn no_value_hides_a_change_of_the_level() {
    let (fields, steps, words) = (fields(40), 12, 60);
    let hiding = |w: usize| {
        0u32.wrapping_sub(0x7F4A_7C15u32.wrapping_add(0x9E37_79B1u32.wrapping_mul(w as u32)))
            .to_le_bytes()
    };
    // All states in host memory, or all in the cache: the previous time level of each state is
    // stored with the state before.
    for (changed, cache) in (0..words).flat_map(|changed| [(changed, 0), (changed, steps)]) {
        let config = config(Some(Algorithm::StoreAll), 0, cache);
        let mut session = open(&config, steps, &fields).unwrap();
        let mut app = HostApp::new(&fields, noise);
        app.change = Box::new(move |ts, state| {
            for level in &mut state[..2] {
                (0..words).for_each(|w| level[8 * w..8 * w + 4].copy_from_slice(&hiding(w)));
            }
            if ts == 7 {
                state[0][8 * changed + 5] ^= 0x10;
            }
        });
        refused(app.shot(&mut session), Code::Values, &["field 0 of state 7 "]);
    }
}

/// Snapshots are stored whole where the layout has no previous time level. Policy LRU is refused.
#[test]
fn what_cannot_be_shared_is_not() {
    let mut alone = fields(20);
    alone.iter_mut().for_each(|field| field.previous_of = None);
    let config = config(Some(Algorithm::StoreAll), 0, 4);
    let mut session = open(&config, 20, &alone).unwrap();
    HostApp::new(&alone, noise).shot(&mut session).unwrap();
    let lru = config.with(|c| c.tiers.policy = Policy::Lru);
    let error = open(&lru, 20, &fields(20)).err().unwrap();
    assert!(error.message.starts_with("shared_levels = 1 with policy = 1 (lru)"), "{error}");
}

/// A wave that a source excites all the time.
fn excited() -> wave::App {
    let mut app = wave::App::new(false);
    app.source = |_, ts, i| {
        let near = (i as f32 - wave::N as f32 / 3.0) / 40.0;
        (ts as f32 * 0.02).sin() * (-near * near).exp()
    };
    app
}

/// In a sequence a snapshot holds what the two states after it do not tell, here of a wave whose time levels are
/// shared; what is restored is within the bound of what a run without a codec restores.
#[test]
fn a_sequence_stores_what_later_states_do_not_tell() {
    let bound = 1e-5;
    let run = |method: Method, sequences: bool, every: u32| {
        let config = config(Some(Algorithm::StoreAll), 0, 0).with(|c| {
            c.codec.settings = coding(method, ErrorBound::OfMax(bound));
            c.codec.settings.sequences = sequences;
            c.schedule.adjoint_every = every;
        });
        let mut app = excited();
        let mut session = Session::new(config, 240, &app.levels()).unwrap();
        app.shot(&mut session).unwrap();
        (session.stats().unwrap().stored_bytes, app.sum.floats().to_vec())
    };
    let near = |exact: &[f32], other: &[f32]| {
        let most = exact.iter().fold(0f32, |most, x| most.max(x.abs()));
        let worst = exact.iter().zip(other).fold(0f32, |worst, (a, b)| worst.max((a - b).abs()));
        assert!(worst < 3.0 * bound as f32 * most, "{worst} of {most}");
    };
    for every in [1, 3] {
        let (_, exact) = run(Method::None, false, every);
        let (alone, of_alone) = run(Method::Dct, false, every);
        let (in_sequence, of_sequence) = run(Method::Dct, true, every);
        near(&exact, &of_alone);
        near(&exact, &of_sequence);
        // States some steps apart share no level, whose differences are then most of the bytes.
        let least = if every == 1 { 2 * alone / 3 } else { alone };
        assert!(in_sequence < least, "every {every}: {alone} and {in_sequence} bytes");
    }
}

/// Where the schedule is chosen, a sequence competes with all else: it is taken where the budget holds every
/// state in it, and shots are right where it is not.
#[test]
fn a_sequence_is_a_way_to_store_snapshots_where_the_schedule_is_chosen() {
    const STEPS: u32 = 240;
    let run = |sequences: bool, threads: u32, budget: u64| {
        let config = config(None, 0, 0).with(|c| {
            c.codec.settings = coding(Method::Dct, ErrorBound::OfMax(1e-5));
            c.codec.settings.sequences = sequences;
            c.codec.compression_factor = 4.0;
            c.codec.threads = Some(threads);
            // Steps that take so long that no state is to be computed again.
            c.device.profile =
                Some(Profile { forward_ms: 1e3, backward_ms: 1e3, ..Profile::free() });
            c.tiers.host_budget = budget;
        });
        let mut app = wave::App::new(false);
        let mut session = Session::new(config, STEPS.into(), &app.levels()).unwrap();
        app.shot(&mut session).unwrap();
        let stats = session.stats().unwrap();
        (session.tiers().storage.clone(), stats, app.sum.floats().to_vec())
    };
    let all = u64::from(STEPS) * (2 * 4 * wave::N as u64);
    let (_, _, exact) = run(false, 0, all);
    let most = exact.iter().fold(0f32, |most, x| most.max(x.abs()));
    for (threads, part, is_enough) in [(0, 2, true), (1, 2, true), (0, 30, false), (1, 30, false)] {
        let (storage, stats, found) = run(true, threads, all / part);
        let is_kept = stats.forward_steps == u64::from(STEPS) - 1;
        assert_eq!((storage.codec.sequences, is_kept), (is_enough, is_enough), "{storage:?}");
        let by_lanes = matches!(storage.coded, Coded::ByLanes(_));
        assert!(by_lanes == (threads > 0) || !is_enough, "{storage:?}");
        let worst = exact.iter().zip(&found).fold(0f32, |worst, (a, b)| worst.max((a - b).abs()));
        assert!(worst < 1e-3 * most, "{worst} of {most}: {storage:?}");
    }
}

/// A measured shot whose snapshots are in a sequence tells their ratio, with which later shots are planned.
#[test]
fn the_ratio_of_a_sequence_is_measured() {
    const STEPS: u32 = 240;
    for threads in [0, 1] {
        let config = config(Some(Algorithm::StoreAll), 0, 4).with(|c| {
            c.codec.settings = coding(Method::Dct, ErrorBound::OfMax(1e-5));
            c.codec.settings.sequences = true;
            c.codec.threads = Some(threads);
        });
        let mut app = excited();
        let mut session = Session::new(config.clone(), STEPS.into(), &app.levels()).unwrap();
        session.autotune().unwrap();
        app.shot(&mut session).unwrap();
        let (stats, profile) = (session.stats().unwrap(), session.profile().unwrap());
        let of = |sequences: bool| {
            let mut entries = profile.codecs.iter().filter(|codec| codec.sequences == sequences);
            (entries.next().unwrap().ratio, entries.count())
        };
        let ((ratio, more), (alone, others)) = (of(true), of(false));
        assert!((more, others) == (0, 0) && ratio > 1.2 * alone, "{profile:?}");
        // The statistics count both levels of a state, of which its snapshot has one. Threads leave the last
        // states raw in the cache.
        let stored = 0.5 * stats.raw_bytes as f64 / stats.stored_bytes as f64;
        assert!(threads > 0 || (ratio / stored - 1.0).abs() < 0.02, "{ratio} {stored}");
        let budget = (1.3 * 0.5 * stats.raw_bytes as f64 / ratio) as u64;
        let small = config.with(|c| {
            c.tiers.host_budget = budget + u64::from(threads) * 16 * 8 * wave::N as u64;
            c.device.profile = Some(profile.clone());
        });
        let mut session = Session::new(small, STEPS.into(), &app.levels()).unwrap();
        app.shot(&mut session).unwrap();
        let stats = session.stats().unwrap();
        assert!(stats.peak_host_bytes + stats.peak_device_bytes < budget + (1 << 20), "{stats:?}");
    }
}
