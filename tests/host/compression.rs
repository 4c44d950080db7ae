//! Sessions with compressed snapshots on the host backend: every restored state has the bits that
//! decoding the saved state gives, wherever the snapshot was kept, and no budget is exceeded.

mod failures;

use crate::common::host;
use crate::common::prelude::*;
use gpuzip::choice::Target;
use gpuzip::codec::{plugin, Bound, Coder, FillValue, Shape};
use gpuzip::device::Memory;
use gpuzip::plan::{Plan, Step, NONE};
use gpuzip::predict::{CodecProfile, Profile};
use gpuzip::scalar::{Array, ArrayMut};
use gpuzip::tier::{SnapshotCoder, Storage, Tiers};
use proptest::prelude::*;
use std::cell::Cell;
use std::sync::{Arc, OnceLock};

/// A codec whose sizes vary widely: each value becomes one byte, a multiple of the quantum, and the
/// trailing zeros are left out.
struct Trimmed(Shape);

impl Coder for Trimmed {
    fn max_bytes(&self) -> usize {
        self.0.values() + 8
    }

    fn compress(&mut self, x: Array<'_>, bound: Bound, to: &mut [u8]) -> Result<Option<usize>> {
        let Array::F32(x) = x else { return Ok(None) };
        let quantum = 2.0 * bound.value();
        to[..8].copy_from_slice(&quantum.to_le_bytes());
        let mut end = 8;
        for (i, &x) in x.iter().enumerate() {
            let q = (x as f64 / quantum).round();
            if !(-127.0..=127.0).contains(&q) {
                return Ok(None);
            }
            to[8 + i] = q as i8 as u8;
            end = if q != 0.0 { 9 + i } else { end };
        }
        Ok(Some(end))
    }

    fn decompress(&mut self, from: &[u8], x: ArrayMut<'_>) -> Result<()> {
        let ArrayMut::F32(x) = x else { return Ok(()) };
        let quantum = f64::from_le_bytes(from[..8].try_into().unwrap());
        x.fill(0.0);
        for (x, &q) in x.iter_mut().zip(&from[8..]) {
            *x = (q as i8 as f64 * quantum) as f32;
        }
        Ok(())
    }
}

fn trimmed() -> Method {
    static NUMBER: OnceLock<u8> = OnceLock::new();
    let register = || {
        plugin::register("trimmed", Box::new(|shape| Ok(Box::new(Trimmed(shape)))), None).unwrap()
    };
    Method::Plugin(*NUMBER.get_or_init(register))
}

/// Returns the fields of a state: two time levels in FP32 and a field in FP64.
fn fields(n: u64) -> Vec<Field> {
    let level = field([n, 3, 1], Scalar::F32);
    vec![level, Field { previous_of: Some(0), ..level }, field([n / 2 + 1, 1, 1], Scalar::F64)]
}

/// Returns the values of states: a front that moves into the grid; every `noisy` time steps the values
/// behind the front are noise, which does not compress.
fn front(fields: &[Field], noisy: i64) -> impl Fn(u64, i64, usize, usize) -> f64 {
    let counts: Vec<i64> = fields.iter().map(|f| f.n.iter().product::<u64>() as i64).collect();
    move |_, ts, k, i| {
        let (front, i) = ((13 * ts) % (2 * counts[k] + 1), i as i64);
        match i < front {
            true if noisy > 0 && ts % noisy == 0 => {
                ((i * 2654435761 + ts * 40503) % 65521) as f64 - 3e4
            }
            true => (0.1 * (i as f64 + 0.3 * ts as f64)).sin(),
            false => 0.0,
        }
    }
}

/// Runs `shots` shots, checks the budgets, and returns the statistics of each shot.
fn run(
    config: &Config,
    steps: u32,
    fields: &[Field],
    noisy: i64,
    shots: usize,
) -> Result<Vec<Stats>> {
    let mut app = HostApp::new(fields, front(fields, noisy));
    app.slots = config.tiers.zero_copy.then(|| Slots::new(true, || false));
    let mut session = open(config, steps, fields)?;
    let mut shot = || {
        session.setup()?;
        let stats = app.shot(&mut session)?;
        assert!(stats.stored_bytes <= app.stored, "{stats:?}");
        assert_eq!(stats.restores, stats.hits + stats.misses);
        let (device, host) = (config.tiers.device_budget, config.tiers.host_budget);
        assert!(device == 0 || stats.peak_device_bytes <= device, "{stats:?}");
        assert!(host == 0 || stats.peak_host_bytes <= host, "{stats:?}");
        Ok(stats)
    };
    (0..shots).map(|_| shot()).collect()
}

/// Settings of a codec whose snapshots differ much in size.
fn of_many_sizes() -> Settings {
    coding(trimmed(), ErrorBound::Absolute(0.02))
}

fn config(algorithm: Algorithm, snapshots: u32, cache: u32) -> Config {
    host::config(algorithm, snapshots, cache).with(|c| c.codec.settings = of_many_sizes())
}

fn raw_bytes(fields: &[Field]) -> u64 {
    SnapshotCodec::max_bytes(&Layout::new(fields.to_vec()).unwrap())
}

#[test]
fn every_algorithm_policy_and_capacity() {
    let fields = fields(40);
    for algorithm in ALGORITHMS {
        for policy in [Policy::Clairvoyant, Policy::Lru] {
            for cache in 0..=6 {
                run(
                    &config(algorithm, 12, cache).with(|c| c.tiers.policy = policy),
                    61,
                    &fields,
                    7,
                    2,
                )
                .unwrap();
            }
        }
        for cache in 0..=3 {
            run(
                &config(algorithm, 12, cache).with(|c| c.tiers.zero_copy = true),
                61,
                &fields,
                7,
                2,
            )
            .unwrap();
        }
    }
}

/// Mixed storage: raw states come back bit by bit, coded ones as decoded, and the budgets are kept,
/// also by snapshots that are larger than expected. Both kinds occur, and only coded snapshots go to
/// the host.
#[test]
fn raw_and_coded_snapshots_beside_one_another() {
    let fields = fields(400);
    let raw = raw_bytes(&fields);
    let (mut ran, mut both) = (0, 0);
    for algorithm in ALGORITHMS {
        for (states, noisy) in [(4, 0), (5, 7), (9, 3)] {
            for zero_copy in [false, true] {
                let spare = if zero_copy { 2 } else { 0 };
                let config =
                    config(algorithm, if algorithm == Algorithm::StoreAll { 0 } else { 20 }, 0)
                        .with(|c| {
                            c.tiers.zero_copy = zero_copy;
                            c.tiers.mixed_storage = Some(true);
                            c.tiers.device_budget = (states + spare) * raw;
                            c.tiers.host_budget = 100 * raw;
                            c.codec.compression_factor = 4.0;
                        });
                let shots = run(&config, 61, &fields, noisy, 3).unwrap();
                ran += 1;
                let state = Layout::new(fields.clone()).unwrap().slot_bytes;
                for stats in &shots {
                    let moved = stats.d2h_bytes + stats.h2d_bytes;
                    let snapshots = stats.d2h + stats.misses;
                    assert!(noisy > 0 || moved < snapshots * state / 2, "{stats:?}");
                    both += usize::from(stats.write_backs_avoided > 0 && stats.d2h > 0);
                }
            }
        }
    }
    println!("{both} of {} shots with raw and coded snapshots", 3 * ran);
    assert!(both > 2 * ran, "{both} of {}", 3 * ran);
}

/// Threads that code: a state that is restored from the cache has its bits, one from the pool those of the
/// decoded snapshot, and budgets are kept, whether both tiers share one or not.
#[test]
fn threads_code_what_leaves_the_cache() {
    let fields = fields(400);
    let state = Layout::new(fields.clone()).unwrap().slot_bytes;
    let (mut ran, mut by_threads) = (0, 0);
    for algorithm in ALGORITHMS {
        let all = algorithm == Algorithm::StoreAll;
        for (threads, noisy, zero_copy) in
            [(1, 0, false), (2, 7, false), (1, 7, true), (2, 0, true)]
        {
            for (device, host) in [(0, if all { 40 } else { 14 }), (14, 0), (3, 40)] {
                let config = config(algorithm, if all { 0 } else { 10 }, 0).with(|c| {
                    c.tiers.zero_copy = zero_copy;
                    c.tiers.device_budget = device * state;
                    c.tiers.host_budget = host * state;
                    c.codec.compression_factor = 3.0;
                    c.codec.settings = coding(Method::Lorenzo, ErrorBound::Absolute(0.02));
                    c.codec.threads = Some(threads);
                    // Steps that take long enough for a thread to be worth it.
                    let steps = Profile { forward_ms: 1.0, backward_ms: 1.0, ..Profile::free() };
                    let codec =
                        CodecProfile { compress_gbs: 1e-2, ..CodecProfile::of(&c.codec.settings) };
                    let codec = CodecProfile {
                        decompress_gbs: 1e-2,
                        ratio: 3.0,
                        worst_ratio: 3.0,
                        ..codec
                    };
                    c.device.profile = Some(Profile { codecs: vec![codec], ..steps });
                });
                // Noise may be larger than what is planned.
                let shots = match run(&config, 61, &fields, noisy, 2) {
                    Err(error) if error.code == Code::Budget => continue,
                    shots => shots.unwrap(),
                };
                ran += 1;
                let stats = shots.last().unwrap();
                let used = stats.peak_device_bytes + stats.peak_host_bytes;
                assert!(used <= (device + host) * state, "{stats:?}");
                by_threads += usize::from(stats.hits > 0 && stats.d2h > 0 && stats.compress > 0.0);
            }
        }
    }
    println!("{by_threads} of {ran} jobs whose snapshots threads have coded");
    assert!(by_threads > 20, "{by_threads} of {ran}");
}

/// Runs a shot and returns what every SAVE and RESTORE has made: its state, whether the snapshot is
/// raw, and the bits after the call.
fn seen(session: &mut Session, app: &mut HostApp) -> Vec<(u32, bool, Vec<Vec<u8>>)> {
    let mut all = Vec::new();
    while let Some(tick) = step(session, app).unwrap() {
        if matches!(tick.action.kind, Kind::Save | Kind::Restore) {
            let bits = app.data().map(Into::into).collect();
            all.push((tick.action.ts, is_raw(session, tick).unwrap(), bits));
        }
    }
    all
}

/// With mixed storage, which snapshots of a shot are compressed does not depend on the shots before
/// it, and so neither do the bits that it restores, although later shots get other plans.
#[test]
fn the_bits_of_a_shot_do_not_depend_on_the_shots_before_it() {
    let fields = fields(400);
    let raw = raw_bytes(&fields);
    let (mut replanned, mut both) = (0, 0);
    for algorithm in [Algorithm::Revolve, Algorithm::Hrevolve, Algorithm::StoreAll] {
        for quarters in 14..30 {
            let config =
                config(algorithm, if algorithm == Algorithm::StoreAll { 0 } else { 20 }, 0).with(
                    |c| {
                        c.tiers.mixed_storage = Some(true);
                        c.tiers.device_budget = quarters * raw / 4;
                        c.tiers.host_budget = 100 * raw;
                        c.codec.compression_factor = 3.0;
                    },
                );
            // A shot of noise is compressed less than expected, one of fronts more.
            let shots = [0, 1, 0, 3];
            let of = |before: &[i64], shot: i64| {
                let mut session = open(&config, 61, &fields).unwrap();
                let app = |noisy: i64| HostApp::new(&fields, front(&fields, noisy));
                let first = session.plan().unwrap();
                for &noisy in before {
                    app(noisy).shot(&mut session).unwrap();
                    session.setup().unwrap();
                }
                let is_same = session.plan().unwrap().steps == first.steps;
                (seen(&mut session, &mut app(shot)), is_same)
            };
            for (k, &shot) in shots.iter().enumerate().skip(1) {
                let (alone, _) = of(&[], shot);
                for before in [&shots[..k], &shots[k - 1..k]] {
                    let (after, is_same) = of(before, shot);
                    assert!(alone == after, "{algorithm:?}, {quarters} quarters, {before:?}");
                    replanned += usize::from(!is_same);
                }
                both += usize::from(alone.iter().any(|save| save.1 != alone[0].1));
            }
        }
    }
    println!("{replanned} of 288 shots were planned anew, {both} of 144 have both kinds");
    assert!(replanned > 50 && both > 100, "{replanned} {both}");
}

/// Masked values of both types come back bit for bit from every kind of storage, and all other values as the
/// codec gives them.
#[test]
fn masked_values_come_back() {
    let (fields, steps) = (fields(100), 41);
    let raw = raw_bytes(&fields);
    let is_land = |i: usize| i % 7 < 2;
    let mut ran = 0;
    for (fill, value) in [("nan", f64::NAN), ("1e20", 1e20)] {
        for method in [Method::Lorenzo, Method::Dct] {
            for kind in ["all", "mixed", "zero copy", "threads"] {
                let config = config(Algorithm::Revolve, 12, 3).with(|c| {
                    c.codec.settings = coding(method.clone(), ErrorBound::OfMax(1e-3));
                    c.codec.settings.fill_value = Some(FillValue::of(fill).unwrap());
                    c.codec.compression_factor = 3.0;
                    c.tiers.zero_copy = kind == "zero copy";
                    c.codec.threads = (kind == "threads").then_some(1);
                    if kind == "mixed" {
                        c.tiers.cache = 0;
                        c.tiers.mixed_storage = Some(true);
                        c.tiers.device_budget = 5 * raw;
                    }
                });
                let sea = front(&fields, 0);
                let mut app = HostApp::new(&fields, move |of, ts, k, i| match is_land(i) {
                    true => value,
                    false => sea(of, ts, k, i),
                });
                app.slots = config.tiers.zero_copy.then(|| Slots::new(true, || false));
                let mut session = open(&config, steps, &fields).unwrap();
                while let Some(tick) = step(&mut session, &mut app).unwrap() {
                    if tick.action.kind != Kind::Restore {
                        continue;
                    }
                    ran += 1;
                    if config.tiers.zero_copy {
                        // The slot was compared when it was handed out, and is the session's again.
                        continue;
                    }
                    for (field, bytes) in fields.iter().zip(app.data()) {
                        let (wide, land) = (field.scalar == Scalar::F64, value.to_le_bytes());
                        let narrow = (value as f32).to_le_bytes();
                        let (size, land) = if wide { (8, &land[..]) } else { (4, &narrow[..]) };
                        let values = bytes.chunks(size).enumerate();
                        let mut lands = values.filter(|(i, _)| is_land(*i));
                        assert!(lands.all(|(_, bits)| bits == land), "{config:?}, {tick:?}");
                    }
                }
            }
        }
    }
    assert_eq!(ran, 16 * (steps - 1), "restores");
}

/// A schedule may need fewer raw slots than there are.
#[test]
fn raw_slots_may_be_left_over() {
    let fields = fields(400);
    let (raw, mut ran) = (raw_bytes(&fields), 0);
    for steps in 1..9 {
        for cache in 12..40 {
            let config = config(Algorithm::Revolve, 12, 0).with(|c| {
                c.tiers.mixed_storage = Some(true);
                c.codec.compression_factor = 4.0;
                c.tiers.device_budget = cache * raw / 4;
            });
            match run(&config, steps, &fields, 0, 1) {
                Ok(_) => ran += 1,
                Err(error) => assert_eq!(error.code, Code::Budget, "{error}"),
            }
        }
    }
    assert!(ran > 100, "{ran}");
}

/// What mixed storage cannot have is refused with what it needs.
#[test]
fn mixed_storage_needs_room_for_both() {
    let fields = fields(400);
    let raw = raw_bytes(&fields);
    let small = config(Algorithm::Revolve, 12, 0).with(|c| {
        c.tiers.mixed_storage = Some(true);
        c.tiers.device_budget = 2 * raw;
        c.codec.compression_factor = 4.0;
    });
    let parts = ["mixed_storage = 1", "device_budget"];
    refused(run(&small, 61, &fields, 0, 1), Code::Budget, &parts);
    run(&small.with(|c| c.tiers.mixed_storage = Some(false)), 61, &fields, 0, 1).unwrap();
}

/// A device budget of three raw snapshots holds more than three compressed ones: in the first shot
/// if `compression_factor` announces the ratio, and from the second shot on without it.
#[test]
fn a_byte_budget_holds_as_many_as_fit() {
    let fields = fields(400);
    let raw = raw_bytes(&fields);
    let base = config(Algorithm::Revolve, 12, 0).with(|c| c.tiers.device_budget = 3 * raw);
    let unknown = run(&base, 200, &fields, 0, 3).unwrap();
    assert!(unknown[0].misses > 0 && unknown[1].misses < unknown[0].misses, "{unknown:?}");
    assert_eq!(unknown[1].misses, unknown[2].misses);
    let announced =
        run(&base.clone().with(|c| c.codec.compression_factor = 2.0), 200, &fields, 0, 1).unwrap();
    assert!(announced[0].misses < unknown[0].misses);
    // This budget is smaller than a raw snapshot.
    let small = run(&base.with(|c| c.tiers.device_budget = raw / 2), 200, &fields, 0, 2).unwrap();
    assert!(small[0].hits == 0 && small[1].hits > 0, "{small:?}");
}

#[test]
fn nan_is_kept_or_refused() {
    const NAN: [u8; 4] = f32::NAN.to_le_bytes();
    let fields = fields(40);
    for (reject, outcome) in [(false, None), (true, Some(Code::Values))] {
        let mut c = config(Algorithm::StoreAll, 0, 2);
        c.codec.settings.reject_nonfinite = reject;
        let mut app = HostApp::new(&fields, front(&fields, 0));
        app.change = Box::new(|_, state| state[1][4..8].copy_from_slice(&NAN));
        let mut session = open(&c, 5, &fields).unwrap();
        let result = loop {
            match step(&mut session, &mut app) {
                Ok(Some(tick)) if tick.action.kind == Kind::Restore => {
                    assert_eq!(&app.data().nth(1).unwrap()[4..8], NAN);
                }
                Ok(Some(_)) => {}
                ended => break ended.err(),
            }
        };
        assert_eq!(result.as_ref().map(|e| e.code), outcome, "{result:?}");
        assert!(result.is_none_or(|e| e.message.contains("field 1 holds 1 ")));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(340))]

    /// Any budgets: sessions keep them, or are refused. While a transfer over a slow link takes long,
    /// nothing overwrites the bytes of its snapshot.
    #[test]
    fn random_jobs(
        steps in 1..120u32, snapshots in 1..20u32, cache in 0..8u32, n in 1..60u64, noisy in 0..9i64, factor in 0..8u32,
        budgets in (0..6u64, 0..20u64), edge in (0..5u64, 0..5u64), policy in prop::sample::select(vec![Policy::Clairvoyant, Policy::Lru]), zero_copy in any::<bool>(),
        algorithm in prop::sample::select(&ALGORITHMS[..5]), link in prop::sample::select(vec![0.0, 5e7]),
        slow in prop::option::weighted(0.12, prop::sample::select(vec![2e5, 1e6, 5e6])),
    ) {
        let (steps, n) = if slow.is_some() { (20 + steps / 3, 20 + 2 * n / 3) } else { (steps, n) };
        let fields = fields(n);
        let raw = raw_bytes(&fields);
        let config = config(algorithm, snapshots, cache).with(|c| {
            c.tiers.policy = policy;
            c.tiers.zero_copy = zero_copy && policy == Policy::Clairvoyant;
            c.codec.compression_factor = factor as f64;
            c.tiers.device_budget = (budgets.0 * raw / 2).saturating_sub([0, 1, 255, 256, 257][edge.0 as usize]);
            c.tiers.host_budget = (budgets.1 * raw).saturating_sub([0, 1, 255, 256, 257][edge.1 as usize]);
            c.device.link_bandwidth = slow.unwrap_or(link);
        });
        if let Err(error) = run(&config, steps, &fields, noisy, 2) {
            prop_assert_eq!(error.code, Code::Budget, "{}", error);
        }
    }
}
