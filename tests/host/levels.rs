//! Shared time levels on the host backend: every restored state is complete and right, whatever the
//! schedule, the tiers and the timing; a shared time level is stored and moved once; and an
//! application that changes its previous time level never gets a wrong state.

use crate::common::cases::cases;
use gpuzip::config::{Backend, Config};
use gpuzip::device::{AppField, AppMemory, Stream};
use gpuzip::error::{Code, Result};
use gpuzip::layout::Field;
use gpuzip::plan::Policy;
use gpuzip::scalar::Scalar;
use gpuzip::schedule::{Algorithm, Kind};
use gpuzip::session::Session;
use gpuzip::stats::Stats;
use proptest::prelude::*;

const HOST: Stream = Stream(std::ptr::null_mut());

/// Two time levels of a wave in FP32, two of a wave in FP64, and a field without a previous time
/// level.
fn fields(n: u64) -> Vec<Field> {
    let field = |n: u64, scalar, previous_of| Field { n: [n, 3, 1], scalar, previous_of };
    vec![
        field(n, Scalar::F32, Some(1)),
        field(n, Scalar::F32, None),
        field(n / 2 + 1, Scalar::F64, None),
        field(7, Scalar::F32, None),
        field(n / 2 + 1, Scalar::F64, Some(2)),
    ]
}

/// Pairs (previous time level, field), by number.
const PAIRS: [(usize, usize); 2] = [(0, 1), (4, 2)];

#[derive(Clone, PartialEq, Debug)]
struct App {
    data: Vec<Vec<u8>>,
}

impl App {
    fn new(fields: &[Field], seed: u8) -> Self {
        let fill = |(k, f): (usize, &Field)| {
            (0..f.bytes().unwrap())
                .map(|i| (i as u8).wrapping_mul(31 + k as u8).wrapping_add(seed))
                .collect()
        };
        App { data: fields.iter().enumerate().map(fill).collect() }
    }

    /// Computes each new time level from both old ones; the newer old level becomes the previous
    /// time level.
    fn forward(&mut self) {
        for (past, present) in PAIRS {
            let mut carry = 1u8;
            let mut next = self.data[past].clone();
            for (new, &old) in next.iter_mut().zip(&self.data[present]) {
                carry = carry.rotate_left(3) ^ old.wrapping_mul(5) ^ new.wrapping_add(17);
                *new = carry;
            }
            self.data[past] = std::mem::replace(&mut self.data[present], next);
        }
        let mut carry = 0u8;
        for byte in &mut self.data[3] {
            carry = carry.rotate_left(1) ^ byte.wrapping_add(3);
            *byte = carry;
        }
    }

    fn app_fields(&mut self, fields: &[Field]) -> Vec<AppField> {
        let one = |(&field, data): (&Field, &mut Vec<u8>)| {
            // SAFETY: the vector outlives the call that the field is made for, and no other code
            // touches the vector during this call.
            let memory = unsafe { AppMemory::new(data.as_mut_ptr(), data.len()) };
            AppField { field, memory: Some(memory) }
        };
        fields.iter().zip(&mut self.data).map(one).collect()
    }
}

fn unplaced(fields: &[Field]) -> Vec<AppField> {
    fields.iter().map(|&field| AppField { field, memory: None }).collect()
}

/// Runs a shot and checks every restored state; `spoil(ts, app)` may change the application's state
/// after each step.
fn shot(
    session: &mut Session,
    fields: &[Field],
    steps: u32,
    seed: u8,
    spoil: impl Fn(u32, &mut App),
) -> Result<Stats> {
    let mut app = App::new(fields, seed);
    let mut twin = app.clone();
    let all: Vec<App> =
        (0..steps).map(|t| (twin.clone(), twin.forward(), spoil(t + 1, &mut twin)).0).collect();
    session.setup()?;
    let mut reversed = 0;
    loop {
        let tick = session.get_action()?;
        let ts = tick.action.ts;
        match tick.action.kind {
            Kind::Forward => (ts..=tick.end).for_each(|ts| (app.forward(), spoil(ts, &mut app)).1),
            Kind::Save => session.save(ts.into(), &app.app_fields(fields), HOST)?,
            Kind::Restore => {
                app.data.iter_mut().for_each(|data| data.fill(0xEE));
                session.retrieve(ts.into(), &app.app_fields(fields), HOST)?;
                assert!(app == all[ts as usize], "state {ts}");
            }
            Kind::Backward => {
                assert!(app == all[ts as usize], "state {ts} to reverse");
                reversed += 1;
            }
            Kind::Terminate | Kind::Error => break,
        }
    }
    assert_eq!(reversed, steps);
    session.stats()
}

fn config(algorithm: Option<Algorithm>, snapshots: u32, cache: u32) -> Config {
    Config {
        algorithm,
        snapshots,
        cache,
        backend: Backend::Host,
        shared_levels: true,
        ..Config::default()
    }
}

fn run(config: &Config, steps: u32, n: u64, seed: u8) -> Stats {
    let fields = fields(n);
    let mut session = Session::new(config.clone(), steps.into(), &unplaced(&fields)).unwrap();
    let first = shot(&mut session, &fields, steps, seed, |_, _| {}).unwrap();
    let again = shot(&mut session, &fields, steps, seed ^ 0x5a, |_, _| {}).unwrap();
    let counts = |s: &Stats| {
        (
            s.saves,
            s.restores,
            s.h2d_bytes,
            s.d2h_bytes,
            s.stored_bytes,
            s.peak_device_bytes,
            s.peak_host_bytes,
        )
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
        let config = Config { chunk, link_bandwidth, range_actions: ranges, ..config(Some(algorithms[algorithm]), snapshots, cache) };
        let stats = run(&config, steps, n, seed);
        let plain = run(&Config { shared_levels: false, ..config }, steps, n, seed);
        prop_assert_eq!((stats.saves, stats.restores, stats.hits, stats.h2d), (plain.saves, plain.restores, plain.hits, plain.h2d));
        // The checksums of a snapshot take 256 bytes.
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
        let config = Config { device_budget, host_budget, ..config(algorithm, 0, 0) };
        let fields = fields(50);
        match Session::new(config, steps.into(), &unplaced(&fields)) {
            Err(error) => prop_assert!(error.code == Code::Budget, "{}", error),
            Ok(mut session) => {
                let stats = shot(&mut session, &fields, steps, seed, |_, _| {}).unwrap();
                prop_assert!(device_budget == 0 || stats.peak_device_bytes <= device_budget);
                prop_assert!(host_budget == 0 || stats.peak_host_bytes <= host_budget);
            }
        }
    }
}

/// Returns sizes in bytes, with each field padded to a multiple of 256: first of all fields that
/// are not previous time levels, with 256 bytes of checksums; then of the previous time levels.
fn bytes(n: u64) -> (u64, u64) {
    let padded = |field: &Field| field.bytes().unwrap().next_multiple_of(256);
    let fields = fields(n);
    let past = PAIRS.iter().map(|&(past, _)| padded(&fields[past])).sum::<u64>();
    (fields.iter().map(padded).sum::<u64>() - past + 256, past)
}

/// Every stored state takes the bytes of its own time level; only the first state also takes those
/// of its previous time level.
#[test]
fn storing_all_states_takes_one_level_each() {
    let (n, steps) = (200, 50u32);
    let (own, past) = bytes(n);
    let all = u64::from(steps) - 1;
    let on_host = run(&config(Some(Algorithm::StoreAll), 0, 0), steps, n, 3);
    assert_eq!(
        (on_host.peak_host_bytes, on_host.stored_bytes),
        (all * own + past, all * own + past)
    );
    let on_device = run(&config(Some(Algorithm::StoreAll), 0, steps), steps, n, 3);
    assert_eq!(
        (on_device.peak_device_bytes, on_device.peak_host_bytes, on_device.d2h_bytes),
        (all * own + past, 0, 0)
    );
    let both = run(&config(Some(Algorithm::StoreAll), 0, 5), steps, n, 3);
    let plain = run(
        &Config { shared_levels: false, ..config(Some(Algorithm::StoreAll), 0, 5) },
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
    let shared = Config { device_budget: budget, ..config(None, 0, 0) };
    let plain = Config { shared_levels: false, ..shared.clone() };
    let fields = fields(200);
    let open =
        |config: &Config| Session::new(config.clone(), steps.into(), &unplaced(&fields)).unwrap();
    let [mut shared, mut plain] = [open(&shared), open(&plain)];
    let stats = [&mut shared, &mut plain]
        .map(|session| shot(session, &fields, steps, 1, |_, _| {}).unwrap());
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
            let mut session = Session::new(
                config(Some(Algorithm::StoreAll), 0, cache),
                steps.into(),
                &unplaced(&fields),
            )
            .unwrap();
            let sponge = |ts: u32, app: &mut App| {
                if (from..to).contains(&ts) {
                    *app.data[4].last_mut().unwrap() ^= 1;
                }
            };
            match shot(&mut session, &fields, steps, 9, sponge) {
                // Only the last state is changed, and the last state is never saved.
                Ok(_) => assert_eq!((from, to), (29, 30)),
                Err(error) => {
                    let first = from.max(1);
                    assert!(
                        error.code == Code::Values
                            && error.message.contains(&format!("field 4 of state {first} ")),
                        "{error}"
                    );
                    let error = session.get_action().unwrap_err();
                    assert_eq!(error.code, Code::State, "{error}");
                }
            }
            shot(&mut session, &fields, steps, 9, |_, _| {}).unwrap();
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
        let mut session = Session::new(
            config(Some(Algorithm::StoreAll), 0, cache),
            steps.into(),
            &unplaced(&fields),
        )
        .unwrap();
        let spoil = |ts: u32, app: &mut App| {
            (0..words).for_each(|w| app.data[1][8 * w..8 * w + 4].copy_from_slice(&hiding(w)));
            if ts == 7 {
                app.data[0][8 * changed + 5] ^= 0x10;
            }
        };
        let error = shot(&mut session, &fields, steps, 3, spoil).unwrap_err();
        assert!(
            error.code == Code::Values && error.message.contains("field 0 of state 7 "),
            "{error}"
        );
    }
}

/// Snapshots are stored whole where the layout has no previous time level. Policy LRU is refused.
#[test]
fn what_cannot_be_shared_is_not() {
    let mut alone = fields(20);
    alone.iter_mut().for_each(|field| field.previous_of = None);
    let config = config(Some(Algorithm::StoreAll), 0, 4);
    let mut session = Session::new(config.clone(), 20, &unplaced(&alone)).unwrap();
    shot(&mut session, &alone, 20, 2, |_, app| app.data[4][0] ^= 1).unwrap();
    let lru = Config { policy: Policy::Lru, ..config };
    let error = Session::new(lru, 20, &unplaced(&fields(20))).err().unwrap();
    assert!(error.message.starts_with("shared_levels = 1 with policy = 1 (lru)"), "{error}");
}
