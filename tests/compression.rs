//! Sessions with compressed snapshots on the host backend: every restored state is what decoding the saved one gives, bit for bit, wherever
//! it was kept meanwhile, and no budget is exceeded.

use gpuzip::codec::{plugin, Array, ArrayMut, Bound, Coder, ErrorBound, Method, Settings, Shape, SnapshotCodec};
use gpuzip::config::{Backend, Config};
use gpuzip::device::{AppField, AppMemory, Stream};
use gpuzip::error::{Code, Result};
use gpuzip::plan::Policy;
use gpuzip::schedule::{flags, Algorithm, Kind};
use gpuzip::session::Session;
use gpuzip::snapshot::{Field, Layout, Scalar};
use gpuzip::stats::Stats;
use proptest::prelude::*;
use std::sync::OnceLock;

const HOST: Stream = Stream(std::ptr::null_mut());

/// A codec whose sizes differ much: bytes of quantised values, up to the last that is not zero.
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
    let register = || plugin::register("trimmed", Box::new(|shape| Ok(Box::new(Trimmed(shape))))).unwrap();
    Method::Plugin(*NUMBER.get_or_init(register))
}

/// Two time levels and a field of doubles.
fn fields(n: u64) -> Vec<Field> {
    let field = |n: [u64; 3], scalar, previous_of| Field { n, scalar, previous_of };
    vec![field([n, 3, 1], Scalar::F32, None), field([n, 3, 1], Scalar::F32, Some(0)), field([n / 2 + 1, 1, 1], Scalar::F64, None)]
}

/// An application whose state is known for every step: a front that moves in, now and then noise, which does not compress.
struct App {
    fields: Vec<Field>,
    data: Vec<Vec<u8>>,
}

impl App {
    fn new(fields: &[Field]) -> Self {
        App { fields: fields.to_vec(), data: fields.iter().map(|f| vec![0; f.bytes().unwrap() as usize]).collect() }
    }

    fn set(&mut self, ts: i64, noisy: i64) {
        for (k, (field, data)) in self.fields.iter().zip(&mut self.data).enumerate() {
            let values = field.n.iter().product::<u64>() as usize;
            let value = |i: usize| {
                let t = ts - i64::from(k == 1);
                let front = (13 * ts as usize) % (2 * values + 1);
                match i < front {
                    true if noisy > 0 && ts % noisy == 0 => ((i * 2654435761 + t as usize * 40503) % 65521) as f64 - 3e4,
                    true => (0.1 * (i as f64 + 0.3 * t as f64)).sin(),
                    false => 0.0,
                }
            };
            for i in 0..values {
                match field.scalar {
                    Scalar::F32 => data[4 * i..][..4].copy_from_slice(&(value(i) as f32).to_le_bytes()),
                    Scalar::F64 => data[8 * i..][..8].copy_from_slice(&value(i).to_le_bytes()),
                }
            }
        }
    }

    fn spoil(&mut self) {
        self.data.iter_mut().for_each(|data| data.fill(0xEE));
    }

    fn memory(&mut self) -> Vec<AppMemory> {
        // SAFETY: the vectors outlive the calls that the memory is made for, and nothing else touches them meanwhile.
        self.data.iter_mut().map(|data| unsafe { AppMemory::new(data.as_mut_ptr(), data.len()) }).collect()
    }

    fn app_fields(&mut self) -> Vec<AppField> {
        let memory = self.memory();
        self.fields.iter().zip(memory).map(|(&field, memory)| AppField { field, memory: Some(memory) }).collect()
    }
}

/// What the states become when they are saved and restored.
struct Expected {
    codec: SnapshotCodec,
    stream: Vec<u8>,
    noisy: i64,
}

impl Expected {
    fn new(settings: &Settings, fields: &[Field], noisy: i64) -> Self {
        let codec = SnapshotCodec::new(settings.clone(), &Layout::new(fields.to_vec()).unwrap()).unwrap();
        Expected { stream: vec![0; codec.room()], codec, noisy }
    }

    /// The bytes of the snapshot of u(ts), and what they decode to.
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

/// Runs `shots` sweeps; the statistics of each.
fn run(config: &Config, steps: u32, fields: &[Field], noisy: i64, shots: usize) -> Result<Vec<Stats>> {
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
                Kind::Forward if config.zero_copy && tick.action.flags & flags::NEXT_IS_SAVE != 0 => {
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
                    stored += expected.of(ts, fields).0;
                }
                Kind::Save => {
                    app.set(ts, noisy);
                    session.save(ts, &app.app_fields(), HOST)?;
                    stored += expected.of(ts, fields).0;
                }
                Kind::Restore if config.zero_copy => {
                    let pointers = session.retrieve_acquire(ts, fields.len(), HOST)?;
                    app.spoil();
                    take(&mut app, &pointers);
                    assert!(app.data == expected.of(ts, fields).1, "state {ts}");
                }
                Kind::Restore => {
                    app.spoil();
                    session.retrieve(ts, &app.app_fields(), HOST)?;
                    assert!(app.data == expected.of(ts, fields).1, "state {ts}");
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

/// Writes the application's state to the session's memory, and reads it there.
fn put(app: &App, pointers: &[*mut std::ffi::c_void]) {
    for (data, &to) in app.data.iter().zip(pointers) {
        // SAFETY: memory of the session for this field, ours until it is committed.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), to.cast(), data.len()) };
    }
}

fn take(app: &mut App, pointers: &[*mut std::ffi::c_void]) {
    for (data, &from) in app.data.iter_mut().zip(pointers) {
        // SAFETY: memory of the session that holds this field.
        unsafe { std::ptr::copy_nonoverlapping(from.cast(), data.as_mut_ptr(), data.len()) };
    }
}

fn config(algorithm: Algorithm, snapshots: u32, cache: u32) -> Config {
    let compression = Settings { method: trimmed(), bound: ErrorBound::Absolute(0.02), reject_nonfinite: false };
    Config { algorithm: Some(algorithm), snapshots, cache, compression, backend: Backend::Host, ..Config::default() }
}

fn raw_bytes(fields: &[Field]) -> u64 {
    SnapshotCodec::max_bytes(&Layout::new(fields.to_vec()).unwrap())
}

#[test]
fn every_algorithm_policy_and_capacity() {
    let fields = fields(40);
    for algorithm in [Algorithm::Revolve, Algorithm::Uniform, Algorithm::Zcut, Algorithm::TwoLevel, Algorithm::StoreAll] {
        for policy in [Policy::Clairvoyant, Policy::Lru] {
            for cache in 0..=6 {
                run(&Config { policy, ..config(algorithm, 12, cache) }, 61, &fields, 7, 2).unwrap();
            }
        }
        for cache in 0..=3 {
            run(&Config { zero_copy: true, ..config(algorithm, 12, cache) }, 61, &fields, 7, 2).unwrap();
        }
    }
}

/// A budget for three raw snapshots holds many compressed ones: in the first shot if the ratio is announced, in the second anyway.
#[test]
fn a_byte_budget_holds_as_many_as_fit() {
    let fields = fields(400);
    let raw = raw_bytes(&fields);
    let compression = Settings { method: trimmed(), bound: ErrorBound::Absolute(0.02), reject_nonfinite: false };
    let base = Config { device_budget: 3 * raw, compression, ..config(Algorithm::Revolve, 12, 0) };
    let unknown = run(&base, 200, &fields, 0, 3).unwrap();
    assert!(unknown[0].misses > 0 && unknown[1].misses < unknown[0].misses, "{unknown:?}");
    assert_eq!(unknown[1].misses, unknown[2].misses);
    let announced = run(&Config { compression_factor: 2.0, ..base.clone() }, 200, &fields, 0, 1).unwrap();
    assert!(announced[0].misses < unknown[0].misses);
    // One raw snapshot needs more than this.
    let small = run(&Config { device_budget: raw / 2, ..base }, 200, &fields, 0, 2).unwrap();
    assert!(small[0].hits == 0 && small[1].hits > 0, "{small:?}");
}

/// More was announced than the data give: what the cache has no room for is kept in host memory, and if that has a budget the error says
/// what to do.
#[test]
fn a_ratio_that_is_not_reached_costs_time_or_is_an_error() {
    let fields = fields(40);
    let raw = raw_bytes(&fields);
    let optimist = Config { compression_factor: 50.0, device_budget: 2 * raw, ..config(Algorithm::Revolve, 12, 0) };
    for noisy in [1, 2, 3] {
        run(&optimist, 100, &fields, noisy, 2).unwrap();
    }
    let error = run(&Config { host_budget: 2 * raw, ..optimist }, 100, &fields, 1, 1).unwrap_err();
    assert_eq!(error.code, Code::Budget);
    assert!(error.message.contains("host_budget") && error.message.contains("compression_factor"), "{error}");
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
                    if let Err(error) = session.save(tick.action.ts as i64, &app.app_fields(), HOST) {
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
        budgets in (0..6u64, 0..20u64), policy in prop::sample::select(vec![Policy::Clairvoyant, Policy::Lru]), zero_copy in any::<bool>(),
        algorithm in prop::sample::select(vec![Algorithm::Revolve, Algorithm::Uniform, Algorithm::Zcut, Algorithm::TwoLevel]),
        link in any::<bool>(),
    ) {
        let fields = fields(n);
        let raw = raw_bytes(&fields);
        let config = Config {
            policy, zero_copy: zero_copy && policy == Policy::Clairvoyant, compression_factor: factor as f64,
            device_budget: budgets.0 * raw / 2, host_budget: budgets.1 * raw,
            link_bandwidth: if link { 5e7 } else { 0.0 }, ..config(algorithm, snapshots, cache)
        };
        if let Err(error) = run(&config, steps, &fields, noisy, 2) {
            prop_assert_eq!(error.code, Code::Budget, "{}", error);
        }
    }
}
