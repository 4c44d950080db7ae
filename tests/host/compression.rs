//! Sessions with compressed snapshots on the host backend: every restored state has the bits that
//! decoding the saved state gives, wherever the snapshot was kept, and no budget is exceeded.

mod failures;

use gpuzip::choice::Target;
use gpuzip::choice::{SharedSchedule, Tick};
use gpuzip::codec::{plugin, Bound, Coder, ErrorBound, Method, Settings, Shape, SnapshotCodec};
use gpuzip::config::{Backend, Config};
use gpuzip::device::{AppField, AppMemory, Memory, Stream};
use gpuzip::error::{Code, Result};
use gpuzip::layout::{Field, Layout};
use gpuzip::plan::{Counts, Plan, Policy, Step, NONE};
use gpuzip::scalar::Scalar;
use gpuzip::scalar::{Array, ArrayMut};
use gpuzip::schedule::{flags, Algorithm, Kind};
use gpuzip::session::Session;
use gpuzip::stats::Stats;
use gpuzip::tier::{SnapshotCoder, Tiers};
use proptest::prelude::*;
use std::sync::{Arc, OnceLock};

const HOST: Stream = Stream(std::ptr::null_mut());

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
    let register =
        || plugin::register("trimmed", Box::new(|shape| Ok(Box::new(Trimmed(shape))))).unwrap();
    Method::Plugin(*NUMBER.get_or_init(register))
}

/// Returns the fields of a state: two time levels in FP32 and a field in FP64.
fn fields(n: u64) -> Vec<Field> {
    let field = |n: [u64; 3], scalar, previous_of| Field { n, scalar, previous_of };
    vec![
        field([n, 3, 1], Scalar::F32, None),
        field([n, 3, 1], Scalar::F32, Some(0)),
        field([n / 2 + 1, 1, 1], Scalar::F64, None),
    ]
}

/// An application whose state is known at every time step: a front that moves into the grid; every
/// `noisy` time steps the values behind the front are noise, which does not compress.
struct App {
    fields: Vec<Field>,
    data: Vec<Vec<u8>>,
}

impl App {
    fn new(fields: &[Field]) -> Self {
        App {
            fields: fields.to_vec(),
            data: fields.iter().map(|f| vec![0; f.bytes().unwrap() as usize]).collect(),
        }
    }

    fn set(&mut self, ts: i64, noisy: i64) {
        for (k, (field, data)) in self.fields.iter().zip(&mut self.data).enumerate() {
            let values = field.n.iter().product::<u64>() as usize;
            let value = |i: usize| {
                let t = ts - i64::from(k == 1);
                let front = (13 * ts as usize) % (2 * values + 1);
                match i < front {
                    true if noisy > 0 && ts % noisy == 0 => {
                        ((i * 2654435761 + t as usize * 40503) % 65521) as f64 - 3e4
                    }
                    true => (0.1 * (i as f64 + 0.3 * t as f64)).sin(),
                    false => 0.0,
                }
            };
            for i in 0..values {
                match field.scalar {
                    Scalar::F32 => {
                        data[4 * i..][..4].copy_from_slice(&(value(i) as f32).to_le_bytes())
                    }
                    _ => data[8 * i..][..8].copy_from_slice(&value(i).to_le_bytes()),
                }
            }
        }
    }

    fn spoil(&mut self) {
        self.data.iter_mut().for_each(|data| data.fill(0xEE));
    }

    fn memory(&mut self) -> Vec<AppMemory> {
        // SAFETY: the vectors outlive the calls that the memory is made for, and nothing else
        // touches them meanwhile.
        self.data
            .iter_mut()
            .map(|data| unsafe { AppMemory::new(data.as_mut_ptr(), data.len()) })
            .collect()
    }

    fn app_fields(&mut self) -> Vec<AppField> {
        let memory = self.memory();
        self.fields
            .iter()
            .zip(memory)
            .map(|(&field, memory)| AppField { field, memory: Some(memory) })
            .collect()
    }
}

/// Computes what a codec makes of the states.
struct Expected {
    codec: SnapshotCodec,
    stream: Vec<u8>,
    noisy: i64,
}

impl Expected {
    fn new(settings: &Settings, fields: &[Field], noisy: i64) -> Self {
        let codec =
            SnapshotCodec::new(settings.clone(), &Layout::new(fields.to_vec()).unwrap()).unwrap();
        Expected { stream: vec![0; codec.capacity()], codec, noisy }
    }

    /// Returns the fields of u(ts).
    fn raw(&self, ts: i64, fields: &[Field]) -> Vec<Vec<u8>> {
        let mut app = App::new(fields);
        app.set(ts, self.noisy);
        app.data
    }

    /// Returns the bytes of the snapshot of u(ts) and the fields that this snapshot decodes to.
    fn of(&mut self, ts: i64, fields: &[Field]) -> (u64, Vec<Vec<u8>>) {
        let mut app = App::new(fields);
        app.set(ts, self.noisy);
        // SAFETY: the fields are the application's, and nobody else uses them now.
        unsafe {
            let bytes = self.codec.compress(&app.memory(), &mut self.stream).unwrap();
            app.spoil();
            self.codec.decompress(&self.stream[..bytes], &app.memory()).unwrap();
            (bytes as u64, app.data)
        }
    }
}

/// Whether the snapshot of a SAVE or RESTORE is raw: with mixed storage, where its slot says so.
fn is_raw(session: &mut Session, tick: Tick) -> Result<bool> {
    let plan = session.plan()?;
    Ok(plan.steps[tick.step].slot < plan.raw_slots)
}

/// The bytes of the snapshot of a SAVE.
fn bytes_of(
    session: &mut Session,
    tick: Tick,
    expected: &mut Expected,
    fields: &[Field],
) -> Result<u64> {
    let raw = Layout::new(fields.to_vec())?.slot_bytes;
    Ok(match is_raw(session, tick)? {
        true => raw,
        false => expected.of(tick.action.ts as i64, fields).0,
    })
}

/// Runs `shots` shots, checks every restored state and the budgets, and returns the statistics of
/// each shot.
fn run(
    config: &Config,
    steps: u32,
    fields: &[Field],
    noisy: i64,
    shots: usize,
) -> Result<Vec<Stats>> {
    let mut app = App::new(fields);
    let mut expected = Expected::new(&config.compression, fields, noisy);
    let mut session = Session::new(config.clone(), steps as i64, &app.app_fields())?;
    let mut all = Vec::new();
    for _ in 0..shots {
        session.setup()?;
        let (mut stored, mut begun) = (0, false);
        loop {
            let tick = session.get_action()?;
            let ts = tick.action.ts as i64;
            match tick.action.kind {
                Kind::Forward
                    if config.zero_copy && tick.action.flags & flags::NEXT_IS_SAVE != 0 =>
                {
                    app.set(ts, noisy);
                    put(&app, &session.save_begin(ts, fields.len(), HOST)?);
                    begun = true;
                }
                Kind::Save if config.zero_copy => {
                    if !std::mem::take(&mut begun) {
                        app.set(ts, noisy);
                        put(&app, &session.save_begin(ts, fields.len(), HOST)?);
                    }
                    session.save_commit(ts, HOST)?;
                    stored += bytes_of(&mut session, tick, &mut expected, fields)?;
                }
                Kind::Save => {
                    app.set(ts, noisy);
                    session.save(ts, &app.app_fields(), HOST)?;
                    stored += bytes_of(&mut session, tick, &mut expected, fields)?;
                }
                Kind::Restore => {
                    if config.zero_copy {
                        let pointers = session.retrieve_acquire(ts, fields.len(), HOST)?;
                        app.spoil();
                        take(&mut app, &pointers);
                    } else {
                        app.spoil();
                        session.retrieve(ts, &app.app_fields(), HOST)?;
                    }
                    let right = match is_raw(&mut session, tick)? {
                        true => expected.raw(ts, fields),
                        false => expected.of(ts, fields).1,
                    };
                    assert!(app.data == right, "state {ts}");
                }
                Kind::Terminate => break,
                _ => {}
            }
        }
        let stats = session.stats()?;
        assert!(stats.stored_bytes <= stored, "{stats:?}");
        assert_eq!(stats.restores, stats.hits + stats.misses);
        if config.device_budget > 0 {
            assert!(stats.peak_device_bytes <= config.device_budget, "{stats:?}");
        }
        if config.host_budget > 0 {
            assert!(stats.peak_host_bytes <= config.host_budget, "{stats:?}");
        }
        all.push(stats);
    }
    Ok(all)
}

/// Copies the application's fields into the session's memory for a state.
fn put(app: &App, pointers: &[*mut std::ffi::c_void]) {
    for (data, &to) in app.data.iter().zip(pointers) {
        // SAFETY: the session's memory for this field, which is the application's until the commit.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), to.cast(), data.len()) };
    }
}

fn take(app: &mut App, pointers: &[*mut std::ffi::c_void]) {
    for (data, &from) in app.data.iter_mut().zip(pointers) {
        // SAFETY: the session's memory, which holds this field.
        unsafe { std::ptr::copy_nonoverlapping(from.cast(), data.as_mut_ptr(), data.len()) };
    }
}

fn config(algorithm: Algorithm, snapshots: u32, cache: u32) -> Config {
    let compression =
        Settings { method: trimmed(), bound: ErrorBound::Absolute(0.02), reject_nonfinite: false };
    Config {
        algorithm: Some(algorithm),
        snapshots,
        cache,
        compression,
        backend: Backend::Host,
        ..Config::default()
    }
}

fn raw_bytes(fields: &[Field]) -> u64 {
    SnapshotCodec::max_bytes(&Layout::new(fields.to_vec()).unwrap())
}

#[test]
fn every_algorithm_policy_and_capacity() {
    let fields = fields(40);
    for algorithm in [
        Algorithm::Revolve,
        Algorithm::Uniform,
        Algorithm::Zcut,
        Algorithm::TwoLevel,
        Algorithm::Hrevolve,
        Algorithm::StoreAll,
    ] {
        for policy in [Policy::Clairvoyant, Policy::Lru] {
            for cache in 0..=6 {
                run(&Config { policy, ..config(algorithm, 12, cache) }, 61, &fields, 7, 2).unwrap();
            }
        }
        for cache in 0..=3 {
            run(&Config { zero_copy: true, ..config(algorithm, 12, cache) }, 61, &fields, 7, 2)
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
    for algorithm in [
        Algorithm::Revolve,
        Algorithm::Uniform,
        Algorithm::Zcut,
        Algorithm::TwoLevel,
        Algorithm::Hrevolve,
        Algorithm::StoreAll,
    ] {
        for (states, noisy) in [(4, 0), (5, 7), (9, 3)] {
            for zero_copy in [false, true] {
                let spare = if zero_copy { 2 } else { 0 };
                let config = Config {
                    zero_copy,
                    mixed_storage: Some(true),
                    device_budget: (states + spare) * raw,
                    host_budget: 100 * raw,
                    compression_factor: 4.0,
                    ..config(algorithm, if algorithm == Algorithm::StoreAll { 0 } else { 20 }, 0)
                };
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

/// Runs a shot and returns what every SAVE and RESTORE has made: its state, whether the snapshot is
/// raw, and the bits after the call.
fn seen(session: &mut Session, app: &mut App, noisy: i64) -> Vec<(i64, bool, Vec<Vec<u8>>)> {
    let mut all = Vec::new();
    loop {
        let tick = session.get_action().unwrap();
        let ts = tick.action.ts as i64;
        match tick.action.kind {
            Kind::Save => {
                app.set(ts, noisy);
                session.save(ts, &app.app_fields(), HOST).unwrap();
            }
            Kind::Restore => {
                app.spoil();
                session.retrieve(ts, &app.app_fields(), HOST).unwrap();
            }
            Kind::Terminate => return all,
            _ => continue,
        }
        all.push((ts, is_raw(session, tick).unwrap(), app.data.clone()));
    }
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
            let config = Config {
                mixed_storage: Some(true),
                device_budget: quarters * raw / 4,
                host_budget: 100 * raw,
                compression_factor: 3.0,
                ..config(algorithm, if algorithm == Algorithm::StoreAll { 0 } else { 20 }, 0)
            };
            // A shot of noise is compressed less than expected, one of fronts more.
            let shots = [0, 1, 0, 3];
            let of = |before: &[i64], shot: i64| {
                let mut app = App::new(&fields);
                let mut session = Session::new(config.clone(), 61, &app.app_fields()).unwrap();
                let first = session.plan().unwrap();
                for &noisy in before {
                    seen(&mut session, &mut app, noisy);
                    session.setup().unwrap();
                }
                let is_same = session.plan().unwrap().steps == first.steps;
                (seen(&mut session, &mut app, shot), is_same)
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

/// A schedule may need fewer raw slots than there are.
#[test]
fn raw_slots_may_be_left_over() {
    let fields = fields(400);
    let (raw, mut ran) = (raw_bytes(&fields), 0);
    for steps in 1..9 {
        for cache in 12..40 {
            let config = Config {
                mixed_storage: Some(true),
                compression_factor: 4.0,
                device_budget: cache * raw / 4,
                ..config(Algorithm::Revolve, 12, 0)
            };
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
    let small = Config {
        mixed_storage: Some(true),
        device_budget: 2 * raw,
        compression_factor: 4.0,
        ..config(Algorithm::Revolve, 12, 0)
    };
    let error = run(&small, 61, &fields, 0, 1).unwrap_err();
    assert_eq!(error.code, Code::Budget);
    assert!(error.message.contains("mixed_storage = 1") && error.message.contains("device_budget"));
    run(&Config { mixed_storage: Some(false), ..small }, 61, &fields, 0, 1).unwrap();
}

/// A device budget of three raw snapshots holds more than three compressed ones: in the first shot
/// if `compression_factor` announces the ratio, and from the second shot on without it.
#[test]
fn a_byte_budget_holds_as_many_as_fit() {
    let fields = fields(400);
    let raw = raw_bytes(&fields);
    let compression =
        Settings { method: trimmed(), bound: ErrorBound::Absolute(0.02), reject_nonfinite: false };
    let base = Config { device_budget: 3 * raw, compression, ..config(Algorithm::Revolve, 12, 0) };
    let unknown = run(&base, 200, &fields, 0, 3).unwrap();
    assert!(unknown[0].misses > 0 && unknown[1].misses < unknown[0].misses, "{unknown:?}");
    assert_eq!(unknown[1].misses, unknown[2].misses);
    let announced =
        run(&Config { compression_factor: 2.0, ..base.clone() }, 200, &fields, 0, 1).unwrap();
    assert!(announced[0].misses < unknown[0].misses);
    // This budget is smaller than a raw snapshot.
    let small = run(&Config { device_budget: raw / 2, ..base }, 200, &fields, 0, 2).unwrap();
    assert!(small[0].hits == 0 && small[1].hits > 0, "{small:?}");
}

#[test]
fn nan_is_kept_or_refused() {
    let fields = fields(40);
    for (reject, outcome) in [(false, None), (true, Some(Code::Values))] {
        let mut c = config(Algorithm::StoreAll, 0, 2);
        c.compression.reject_nonfinite = reject;
        let mut app = App::new(&fields);
        let mut session = Session::new(c, 5, &app.app_fields()).unwrap();
        let mut saved = Vec::new();
        let result = loop {
            let tick = session.get_action().unwrap();
            match tick.action.kind {
                Kind::Save => {
                    app.set(tick.action.ts as i64 + 1, 0);
                    app.data[1][4..8].copy_from_slice(&f32::NAN.to_le_bytes());
                    saved.push(app.data[1][4..8].to_vec());
                    if let Err(error) = session.save(tick.action.ts as i64, &app.app_fields(), HOST)
                    {
                        break Some(error);
                    }
                }
                Kind::Restore => {
                    session.retrieve(tick.action.ts as i64, &app.app_fields(), HOST).unwrap();
                    assert_eq!(&app.data[1][4..8], saved[0].as_slice());
                }
                Kind::Terminate => break None,
                _ => {}
            }
        };
        assert_eq!(result.as_ref().map(|e| e.code), outcome, "{result:?}");
        assert!(result.is_none_or(|e| e.message.contains("field 1 holds 1 ")));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn random_jobs(
        steps in 1..120u32, snapshots in 1..20u32, cache in 0..8u32, n in 1..60u64, noisy in 0..9i64, factor in 0..8u32,
        budgets in (0..6u64, 0..20u64), edge in (0..5u64, 0..5u64), policy in prop::sample::select(vec![Policy::Clairvoyant, Policy::Lru]), zero_copy in any::<bool>(),
        algorithm in prop::sample::select(vec![Algorithm::Revolve, Algorithm::Uniform, Algorithm::Zcut, Algorithm::TwoLevel, Algorithm::Hrevolve]),
        link in any::<bool>(),
    ) {
        let fields = fields(n);
        let raw = raw_bytes(&fields);
        let config = Config {
            policy, zero_copy: zero_copy && policy == Policy::Clairvoyant, compression_factor: factor as f64,
            device_budget: (budgets.0 * raw / 2).saturating_sub([0, 1, 255, 256, 257][edge.0 as usize]),
            host_budget: (budgets.1 * raw).saturating_sub([0, 1, 255, 256, 257][edge.1 as usize]),
            link_bandwidth: if link { 5e7 } else { 0.0 }, ..config(algorithm, snapshots, cache)
        };
        if let Err(error) = run(&config, steps, &fields, noisy, 2) {
            prop_assert_eq!(error.code, Code::Budget, "{}", error);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// While a transfer takes long, nothing overwrites the bytes of its snapshot.
    #[test]
    fn slow_links_change_nothing(
        steps in 20..60u32, snapshots in 3..12u32, cache in 1..6u32, n in 20..60u64, noisy in 2..6i64, budget in 2..7u64,
        policy in prop::sample::select(vec![Policy::Clairvoyant, Policy::Lru, Policy::Lru]), bandwidth in prop::sample::select(vec![2e5, 1e6, 5e6]),
        algorithm in prop::sample::select(vec![Algorithm::Revolve, Algorithm::Uniform, Algorithm::Zcut, Algorithm::TwoLevel, Algorithm::Hrevolve]),
        host in 0..9u64,
    ) {
        let fields = fields(n);
        let raw = raw_bytes(&fields);
        let config = Config {
            policy, compression_factor: 4.0, device_budget: budget * raw / 2, link_bandwidth: bandwidth, host_budget: host * raw,
            ..config(algorithm, snapshots, cache)
        };
        if let Err(error) = run(&config, steps, &fields, noisy, 2) {
            prop_assert_eq!(error.code, Code::Budget, "{}", error);
        }
    }
}
