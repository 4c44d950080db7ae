//! Codecs as a session and the C ABI use them: bounds on whole snapshots, pairs of time levels, values that are not finite, and streams
//! that are damaged.

use gpuzip::codec::{simd, ErrorBound, Method, Settings, SnapshotCodec};
use gpuzip::device::AppMemory;
use gpuzip::error::Code;
use gpuzip::snapshot::{Field, Layout, Scalar};
use proptest::prelude::*;

/// Fields with their values, as doubles.
#[derive(Clone, Debug)]
struct State {
    fields: Vec<Field>,
    data: Vec<Vec<u8>>,
}

impl State {
    fn new(fields: &[Field], value: impl Fn(usize, usize) -> f64) -> Self {
        let bytes = |(k, field): (usize, &Field)| {
            let values = (0..field.n.iter().product::<u64>() as usize).map(|i| value(k, i));
            match field.scalar {
                Scalar::F32 => values.flat_map(|x| (x as f32).to_le_bytes()).collect(),
                Scalar::F64 => values.flat_map(f64::to_le_bytes).collect::<Vec<u8>>(),
            }
        };
        State { fields: fields.to_vec(), data: fields.iter().enumerate().map(bytes).collect() }
    }

    fn values(&self, k: usize) -> Vec<f64> {
        match self.fields[k].scalar {
            Scalar::F32 => self.data[k].chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap()) as f64).collect(),
            Scalar::F64 => self.data[k].chunks(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect(),
        }
    }

    fn memory(&mut self) -> Vec<AppMemory> {
        // SAFETY: the vectors outlive the call that the memory is made for, and nothing else touches them meanwhile.
        self.data.iter_mut().map(|data| unsafe { AppMemory::new(data.as_mut_ptr(), data.len()) }).collect()
    }
}

fn codec(settings: &Settings, fields: &[Field]) -> SnapshotCodec {
    SnapshotCodec::new(settings.clone(), &Layout::new(fields.to_vec()).unwrap()).unwrap()
}

fn compress(codec: &mut SnapshotCodec, state: &State) -> Vec<u8> {
    let mut stream = vec![0xA5; codec.room()];
    let mut state = state.clone();
    // SAFETY: the fields are our own.
    let bytes = unsafe { codec.compress(&state.memory(), &mut stream) }.unwrap();
    stream.truncate(bytes);
    stream
}

fn decompress(codec: &mut SnapshotCodec, stream: &[u8], fields: &[Field]) -> gpuzip::error::Result<State> {
    let mut state = State::new(fields, |_, _| f64::NAN);
    // SAFETY: the fields are our own.
    unsafe { codec.decompress(stream, &state.memory()) }?;
    Ok(state)
}

fn settings(method: &Method, bound: ErrorBound) -> Settings {
    Settings { method: method.clone(), bound, reject_nonfinite: false }
}

/// Checks what a bound promises of one array: `x` was coded, `y` came back.
fn check_bound(bound: ErrorBound, x: &[f64], y: &[f64], what: &str) {
    let finite: Vec<(f64, f64)> = x.iter().copied().zip(y.iter().copied()).filter(|(x, _)| x.is_finite()).collect();
    let max = finite.iter().fold(0.0, |m: f64, (x, _)| m.max(x.abs()));
    let (low, high) = finite.iter().fold((f64::MAX, f64::MIN), |(low, high), (x, _)| (low.min(*x), high.max(*x)));
    let worst = finite.iter().fold(0.0, |m: f64, (x, y)| m.max((x - y).abs()));
    match bound {
        ErrorBound::OfMax(b) => assert!(worst <= b * max, "{what}: {worst:e} > {b} * {max:e}"),
        ErrorBound::Absolute(b) => assert!(worst <= b, "{what}: {worst:e} > {b:e}"),
        ErrorBound::OfRange(b) => assert!(worst <= b * (high - low), "{what}: {worst:e} > {b} * {:e}", high - low),
        ErrorBound::Psnr(db) if !finite.is_empty() => {
            let mse = finite.iter().map(|(x, y)| (x - y) * (x - y)).sum::<f64>() / x.len() as f64;
            let limit = (high - low) * 10f64.powf(-db / 20.0);
            assert!(mse.sqrt() <= limit * (1.0 + 1e-9), "{what}: rms {:e} > {limit:e}", mse.sqrt());
        }
        _ => {}
    }
}

fn check(method: &Method, bound: ErrorBound, state: &State) -> usize {
    let mut codec = codec(&settings(method, bound), &state.fields);
    let stream = compress(&mut codec, state);
    assert!(stream.len() as u64 <= SnapshotCodec::max_bytes(&Layout::new(state.fields.clone()).unwrap()), "{method:?}");
    let back = decompress(&mut codec, &stream, &state.fields).unwrap();
    for k in 0..state.fields.len() {
        let (x, y) = (state.values(k), back.values(k));
        let same = |(x, y): (&f64, &f64)| x.is_finite() && y.is_finite() || x.to_bits() == y.to_bits();
        assert!(x.iter().zip(&y).all(same), "{method:?} field {k}: NaN and infinities survive");
        if !method.is_bounded() {
            continue;
        }
        let what = format!("{method:?} field {k} {:?}", state.fields[k]);
        match state.fields[k].previous_of {
            None => check_bound(bound, &x, &y, &what),
            Some(j) => {
                let (later, decoded) = (state.values(j as usize), back.values(j as usize));
                let difference: Vec<f64> = match state.fields[k].scalar {
                    Scalar::F32 => later.iter().zip(&x).map(|(a, b)| (*a as f32 - *b as f32) as f64).collect(),
                    Scalar::F64 => later.iter().zip(&x).map(|(a, b)| a - b).collect(),
                };
                let of_decoded: Vec<f64> = decoded.iter().zip(&y).map(|(a, b)| a - b).collect();
                // The difference in FP32 is rounded: what the application has is the exact one.
                let exact: Vec<f64> = later.iter().zip(&x).map(|(a, b)| a - b).collect();
                let exact: Vec<f64> = exact.iter().zip(&difference).map(|(e, d)| if d.is_finite() { *e } else { f64::NAN }).collect();
                let slack = if let Scalar::F64 = state.fields[k].scalar { 1.0 + 1e-9 } else { 1.0 + 1e-6 };
                let loosened = match bound {
                    ErrorBound::OfMax(b) => ErrorBound::OfMax(b * slack),
                    ErrorBound::OfRange(b) => ErrorBound::OfRange(b * slack),
                    ErrorBound::Absolute(b) => ErrorBound::Absolute(b * slack),
                    other => other,
                };
                check_bound(loosened, &exact, &of_decoded, &format!("{what}, difference"));
            }
        }
    }
    stream.len()
}

/// A value of one of the kinds of data that codecs meet.
fn value(kind: usize, seed: u64, k: usize, i: usize, n: [u64; 3]) -> f64 {
    let mut hash = seed ^ (i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ k as u64;
    hash = (hash ^ (hash >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    hash ^= hash >> 32;
    let noise = (hash % 20001) as f64 / 10000.0 - 1.0;
    let (a, b) = (i as u64 % n[0], i as u64 / n[0]);
    let t = 0.13 * k as f64;
    let smooth = (0.31 * a as f64 + t).sin() * (0.23 * b as f64 - t).cos();
    match kind {
        0 => smooth,
        1 => noise,
        2 => 3.25,
        3 => 0.0,
        4 => smooth * 1e35,
        5 => smooth * 1e-36,
        6 => noise * 2f64.powi((hash >> 40) as i32 % 100 - 50),
        7 if hash.is_multiple_of(17) => [f64::NAN, f64::INFINITY, f64::NEG_INFINITY][hash as usize % 3],
        7 => smooth,
        8 => 1e-42 * smooth,
        9 if hash.is_multiple_of(5) => -0.0,
        9 => smooth * 1e-3 + if i % 97 == 3 { 1.0 } else { 0.0 },
        _ => 1.0 + 1e-6 * smooth,
    }
}

fn methods() -> Vec<Method> {
    Method::ALL.into_iter().filter(|m| *m != Method::None && m.missing().is_none()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Bounds hold on snapshots of up to three time levels and a field of its own, of every kind of data.
    #[test]
    fn bounds_hold(
        method in prop::sample::select(methods()),
        n in prop_oneof![
            (1..300u64).prop_map(|n| [n, 1, 1]), (1..40u64, 1..40u64).prop_map(|(a, b)| [a, b, 1]),
            (1..20u64, 1..20u64, 1..20u64).prop_map(|(a, b, c)| [a, b, c]), (1..3u64, 1..50u64).prop_map(|(a, b)| [1, a * 9, b]),
        ],
        kind in 0..11usize, levels in 1..4usize, double in any::<bool>(), seed in any::<u64>(),
        bound in prop_oneof![
            (1..7i32).prop_map(|e| ErrorBound::OfMax(10f64.powi(-e))), (-9..3i32).prop_map(|e| ErrorBound::Absolute(10f64.powi(e))),
            (1..6i32).prop_map(|e| ErrorBound::OfRange(10f64.powi(-e))), (20..120i32).prop_map(|d| ErrorBound::Psnr(d as f64)),
        ],
    ) {
        let scalar = if double { Scalar::F64 } else { Scalar::F32 };
        let mut fields: Vec<Field> =
            (0..levels).map(|k| Field { n, scalar, previous_of: k.checked_sub(1).map(|k| k as u32) }).collect();
        fields.push(Field { n: [n[0], 1, 1], scalar: Scalar::F64, previous_of: None });
        check(&method, bound, &State::new(&fields, |k, i| value(kind, seed, k, i, n)));
    }

    /// Whatever a stream holds, decoding it ends, with an error if it is not what was written.
    #[test]
    fn damaged_streams_are_refused(
        method in prop::sample::select(methods()), kind in 0..2usize, seed in any::<u64>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6), cut in any::<prop::sample::Index>(),
    ) {
        let n = [33, 12, 9];
        let fields = [Field { n, scalar: Scalar::F32, previous_of: None }, Field { n, scalar: Scalar::F32, previous_of: Some(0) }];
        let mut codec = codec(&settings(&method, ErrorBound::DEFAULT), &fields);
        let good = compress(&mut codec, &State::new(&fields, |k, i| value(kind, seed, k, i, n)));
        let mut bad = good.clone();
        for (at, byte) in changes {
            let at = at.index(bad.len());
            bad[at] = byte;
        }
        // Padding between streams is not looked at.
        if bad != good {
            if let Err(error) = decompress(&mut codec, &bad, &fields) {
                prop_assert_eq!(error.code, Code::Stream, "{}", error);
            }
        }
        let cut = cut.index(good.len());
        prop_assert!(decompress(&mut codec, &good[..cut], &fields).is_err(), "cut at {}", cut);
    }
}

/// Every instruction set gives the same streams and the same values.
#[test]
fn bits_are_equal_at_every_level() {
    let n = [70, 37, 19];
    for method in methods() {
        for scalar in [Scalar::F32, Scalar::F64] {
            for bound in [ErrorBound::DEFAULT, ErrorBound::OfMax(1e-5), ErrorBound::Psnr(80.0)] {
                let fields = [Field { n, scalar, previous_of: None }, Field { n, scalar, previous_of: Some(0) }];
                for kind in [0, 1, 6, 7, 9] {
                    let state = State::new(&fields, |k, i| value(kind, 5, k, i, n));
                    let mut codec = codec(&settings(&method, bound), &fields);
                    let outcomes: Vec<_> = simd::levels()
                        .into_iter()
                        .map(|level| {
                            simd::set_level(level);
                            let stream = compress(&mut codec, &state);
                            let data = decompress(&mut codec, &stream, &fields).unwrap().data;
                            (stream, data)
                        })
                        .collect();
                    assert!(outcomes.windows(2).all(|w| w[0] == w[1]), "{method:?} {scalar:?} {bound:?} kind {kind}");
                }
            }
        }
    }
}

/// A pair costs less as a level and a difference than as two levels within the same bound of the difference.
#[test]
fn a_pair_is_coded_as_a_difference() {
    let n = [48, 48, 48];
    let wave = |k: usize, i: usize| {
        let (a, b, c) = (i % 48, i / 48 % 48, i / 2304);
        (0.21 * a as f64 + 0.17 * b as f64 + 0.1 * k as f64).sin() * (0.19 * c as f64).cos()
    };
    for method in methods().into_iter().filter(Method::is_bounded) {
        let own = Field { n, scalar: Scalar::F32, previous_of: None };
        let pair = [own, Field { previous_of: Some(0), ..own }];
        let together = check(&method, ErrorBound::DEFAULT, &State::new(&pair, wave));
        // The difference has a tenth of the amplitude.
        let apart = check(&method, ErrorBound::OfMax(0.5e-4), &State::new(&[own, own], wave));
        assert!(together < apart, "{method:?}: {together} {apart}");
    }
}
