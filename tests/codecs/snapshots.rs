//! Codecs as sessions and the C ABI use them: error bounds of whole snapshots, pairs of time
//! levels, values that are not finite, damaged streams.

use crate::common::checksum::reseal;
use crate::common::draw::Draw;
use crate::damage::changes::{damage_payload, pieces, reseal_all};
use gpuzip::codec::{
    simd, Bound, Content, ErrorBound, Header, Method, Settings, Shape, SnapshotCodec, CODECS,
};
use gpuzip::device::AppMemory;
use gpuzip::error::Code;
use gpuzip::layout::{Field, Layout};
use gpuzip::scalar::Scalar;
use gpuzip::scalar::{Array, ArrayMut};
use proptest::prelude::*;

/// Fields and the bytes of their values.
#[derive(Clone, Debug)]
pub struct State {
    pub fields: Vec<Field>,
    pub data: Vec<Vec<u8>>,
}

impl State {
    pub fn new(fields: &[Field], value: impl Fn(usize, usize) -> f64) -> Self {
        let bytes = |(k, field): (usize, &Field)| {
            let values = (0..field.n.iter().product::<u64>() as usize).map(|i| value(k, i));
            match field.scalar {
                Scalar::F32 => values.flat_map(|x| (x as f32).to_le_bytes()).collect(),
                _ => values.flat_map(f64::to_le_bytes).collect::<Vec<u8>>(),
            }
        };
        State { fields: fields.to_vec(), data: fields.iter().enumerate().map(bytes).collect() }
    }

    pub fn values(&self, k: usize) -> Vec<f64> {
        match self.fields[k].scalar {
            Scalar::F32 => self.data[k]
                .chunks(4)
                .map(|b| f32::from_le_bytes(b.try_into().unwrap()) as f64)
                .collect(),
            _ => {
                self.data[k].chunks(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect()
            }
        }
    }

    pub fn memory(&mut self) -> Vec<AppMemory> {
        // SAFETY: the vectors outlive the call that the memory is made for, and nothing else
        // touches them meanwhile.
        self.data
            .iter_mut()
            .map(|data| unsafe { AppMemory::new(data.as_mut_ptr(), data.len()) })
            .collect()
    }
}

pub fn codec(settings: &Settings, fields: &[Field]) -> SnapshotCodec {
    SnapshotCodec::new(settings.clone(), &Layout::new(fields.to_vec()).unwrap()).unwrap()
}

pub fn compress(codec: &mut SnapshotCodec, state: &State) -> Vec<u8> {
    let mut stream = vec![0xA5; codec.capacity()];
    let mut state = state.clone();
    // SAFETY: the fields are vectors of this test.
    let bytes = unsafe { codec.compress(&state.memory(), &mut stream) }.unwrap();
    stream.truncate(bytes);
    stream
}

pub fn decompress(
    codec: &mut SnapshotCodec,
    stream: &[u8],
    fields: &[Field],
) -> gpuzip::error::Result<State> {
    let mut state = State::new(fields, |_, _| f64::NAN);
    // SAFETY: the fields are vectors of this test.
    unsafe { codec.decompress(stream, &state.memory()) }?;
    Ok(state)
}

pub fn settings(method: &Method, bound: ErrorBound) -> Settings {
    Settings { method: method.clone(), bound, ..Settings::default() }
}

/// Checks the promise of an error bound for one array with the values `x` and their errors.
pub fn check_bound(bound: ErrorBound, x: &[f64], errors: &[f64], what: &str) {
    let finite: Vec<(f64, f64)> =
        x.iter().copied().zip(errors.iter().copied()).filter(|(x, _)| x.is_finite()).collect();
    assert!(finite.iter().all(|(_, error)| error.is_finite()), "{what}: finite values stay so");
    let max = finite.iter().fold(0.0, |m: f64, (x, _)| m.max(x.abs()));
    let (low, high) =
        finite.iter().fold((f64::MAX, f64::MIN), |(low, high), (x, _)| (low.min(*x), high.max(*x)));
    let range = (high - low).clamp(0.0, f64::MAX);
    let worst = finite.iter().fold(0.0, |m: f64, (_, error)| m.max(error.abs()));
    match bound {
        ErrorBound::OfMax(b) => assert!(worst <= b * max, "{what}: {worst:e} > {b} * {max:e}"),
        ErrorBound::Absolute(b) => assert!(worst <= b, "{what}: {worst:e} > {b:e}"),
        ErrorBound::OfRange(b) => {
            assert!(worst <= b * range, "{what}: {worst:e} > {b} * {range:e}")
        }
        ErrorBound::Psnr(db) if !finite.is_empty() => {
            // Errors are divided by the largest one, because their squares might overflow.
            let unit = worst.max(f64::MIN_POSITIVE);
            let mse = finite.iter().map(|(_, error)| (error / unit) * (error / unit)).sum::<f64>()
                / finite.len() as f64;
            let limit = range * 10f64.powf(-db / 20.0);
            assert!(
                mse.sqrt() * unit <= limit * (1.0 + 1e-9) + f64::MIN_POSITIVE,
                "{what}: rms {:e} > {limit:e}",
                mse.sqrt() * unit
            );
        }
        _ => {}
    }
}

/// A PSNR is one of the finite values: NaN in most of an array do not weaken the bound on the others.
#[test]
fn the_psnr_is_that_of_the_finite_values() {
    let n = [256, 256, 1];
    for (method, scalar) in
        methods().iter().flat_map(|m| [Scalar::F32, Scalar::F64].map(|scalar| (m, scalar)))
    {
        let fields = [Field { n, scalar, previous_of: None }];
        for last in [3, 25, 255] {
            let wave = |_, i: usize| match i / 256 <= last {
                true => (0.05 * (i % 256) as f64).sin() * (0.3 * (i / 256) as f64).cos(),
                false => [f64::NAN, f64::INFINITY][i % 2],
            };
            check(method, ErrorBound::Psnr(60.0), &State::new(&fields, wave));
        }
    }
}

fn check(method: &Method, bound: ErrorBound, state: &State) -> usize {
    let mut codec = codec(&settings(method, bound), &state.fields);
    let stream = compress(&mut codec, state);
    assert!(
        stream.len() as u64
            <= SnapshotCodec::max_bytes(&Layout::new(state.fields.clone()).unwrap()),
        "{method:?}"
    );
    let back = decompress(&mut codec, &stream, &state.fields).unwrap();
    (0..state.fields.len())
        .for_each(|k| check_field(method, bound, state, &back, k, state.fields[k].previous_of));
    stream.len()
}

/// Checks that field `k` of `state` came `back` within the bound; the bound is that of the difference to
/// field `later`, if there is one.
pub fn check_field(
    method: &Method,
    bound: ErrorBound,
    state: &State,
    back: &State,
    k: usize,
    later: Option<u32>,
) {
    let errors = |k: usize| {
        state.values(k).iter().zip(back.values(k)).map(|(x, y)| x - y).collect::<Vec<f64>>()
    };
    let (x, y) = (state.values(k), back.values(k));
    let same = |(x, y): (&f64, &f64)| x.is_finite() && y.is_finite() || x.to_bits() == y.to_bits();
    assert!(x.iter().zip(&y).all(same), "{method:?} field {k}: NaN and infinities survive");
    if method.is_lossless() {
        assert!(state.data[k] == back.data[k], "{method:?} field {k}: every bit comes back");
    }
    if !method.is_bounded() {
        return;
    }
    let what = format!("{method:?} field {k} {:?}", state.fields[k]);
    match later {
        None => check_bound(bound, &x, &errors(k), &what),
        Some(j) => {
            let values = state.values(j as usize);
            let difference: Vec<f64> = match state.fields[k].scalar {
                Scalar::F32 => {
                    values.iter().zip(&x).map(|(a, b)| (*a as f32 - *b as f32) as f64).collect()
                }
                _ => values.iter().zip(&x).map(|(a, b)| a - b).collect(),
            };
            // `errors` are those of the exact difference, whereas `difference` is rounded to
            // the type of the field; `slack` allows for that rounding.
            let errors: Vec<f64> =
                errors(j as usize).iter().zip(errors(k)).map(|(a, b)| a - b).collect();
            let slack =
                if let Scalar::F64 = state.fields[k].scalar { 1.0 + 1e-9 } else { 1.0 + 1e-6 };
            let loosened = match bound {
                ErrorBound::OfMax(b) => ErrorBound::OfMax(b * slack),
                ErrorBound::OfRange(b) => ErrorBound::OfRange(b * slack),
                ErrorBound::Absolute(b) => ErrorBound::Absolute(b * slack),
                other => other,
            };
            check_bound(loosened, &difference, &errors, &format!("{what}, difference"));
        }
    }
}

/// Returns value `i` of field `k`, for one of the kinds of data that codecs meet.
pub fn value(kind: usize, seed: u64, k: usize, i: usize, n: [u64; 3]) -> f64 {
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
        7 if hash.is_multiple_of(17) => {
            [f64::NAN, f64::INFINITY, f64::NEG_INFINITY][hash as usize % 3]
        }
        7 => smooth,
        8 => 1e-42 * smooth,
        9 if hash.is_multiple_of(5) => -0.0,
        9 => smooth * 1e-3 + if i % 97 == 3 { 1.0 } else { 0.0 },
        _ => 1.0 + 1e-6 * smooth,
    }
}

pub fn methods() -> Vec<Method> {
    let own = CODECS.iter().map(|codec| codec.method.clone());
    own.filter(|m| *m != Method::None && m.missing().is_none()).collect()
}

/// cuszp has no parameter: streams whose header has one are refused, with a text that names it.
#[test]
fn cuszp_takes_no_parameter() {
    let n = [33, 12, 9];
    let fields = [Field { n, scalar: Scalar::F32, previous_of: None }];
    let state = State::new(&fields, |k, i| value(0, 5, k, i, n));
    let settings = settings(&Method::Cuszp, ErrorBound::DEFAULT);
    let good = compress(&mut codec(&settings, &fields), &state);
    let read = |stream: &[u8]| {
        let (header, ..) = Header::open(stream)?;
        let method = Method::of_stream(header.codec, header.parameter)?;
        decompress(&mut codec(&settings.with(method), &fields), stream, &fields)
    };
    assert!(read(&good).is_ok());
    for parameter in [1u32, 2, u32::MAX] {
        let mut bad = good.clone();
        bad[12..16].copy_from_slice(&parameter.to_le_bytes());
        assert!(reseal(&mut bad));
        let error = read(&bad).err().unwrap();
        let named = error.message.contains(&format!("codec 3 with parameter {parameter}"));
        assert!(error.code == Code::Stream && named, "{error}");
    }
}

#[test]
fn bits_are_equal_at_every_level() {
    let n = [70, 37, 19];
    for method in methods() {
        for scalar in [Scalar::F32, Scalar::F64] {
            for bound in [ErrorBound::DEFAULT, ErrorBound::OfMax(1e-5), ErrorBound::Psnr(80.0)] {
                let fields = [
                    Field { n, scalar, previous_of: None },
                    Field { n, scalar, previous_of: Some(0) },
                ];
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
                    assert!(
                        outcomes.windows(2).all(|w| w[0] == w[1]),
                        "{method:?} {scalar:?} {bound:?} kind {kind}"
                    );
                }
            }
        }
    }
}

/// A pair of time levels takes fewer bytes as one level and a difference than as two levels whose
/// errors keep the bound of the difference.
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
        // The amplitude of the difference is a tenth of the amplitude of a level.
        let apart = check(&method, ErrorBound::OfMax(0.5e-4), &State::new(&[own, own], wave));
        assert!(together < apart, "{method:?}: {together} {apart}");
    }
}

/// Draws fields that are previous time levels of one another, in any order and without a cycle: for
/// each field the number of the field that it precedes, if any.
pub fn roles() -> impl Strategy<Value = Vec<Option<u32>>> {
    (1..6usize, any::<u64>()).prop_map(|(count, seed)| {
        // The field `rank[k]` precedes one of the fields `rank[0..k]`, or none.
        let mut draw = Draw(seed);
        let mut rank: Vec<usize> = (0..count).collect();
        for i in (1..count).rev() {
            rank.swap(i, draw.below(i + 1));
        }
        let mut roles = vec![None; count];
        for k in 1..count {
            let j = draw.below(k + 1);
            roles[rank[k]] = (j < k).then(|| rank[j] as u32);
        }
        roles
    })
}

/// Draws extents of one to three dimensions.
fn extents() -> impl Strategy<Value = [u64; 3]> {
    prop_oneof![
        Just([1, 1, 1]),
        (1..3000u64).prop_map(|n| [n, 1, 1]),
        (1..80u64, 1..80u64).prop_map(|(a, b)| [a, b, 1]),
        (1..40u64, 1..24u64, 1..20u64).prop_map(|(a, b, c)| [a, b, c]),
        (1..100u64).prop_map(|b| [1, 7, b]),
    ]
}

/// Returns value `i` of field `k`, for kinds of data with extreme magnitudes.
pub fn extreme(kind: usize, seed: u64, k: usize, i: usize, n: [u64; 3], double: bool) -> f64 {
    let smooth = value(0, seed, k, i, n);
    let (largest, least) = if double { (f64::MAX, 5e-324) } else { (f32::MAX as f64, 1.4e-45) };
    let sign = if i % 2 == 0 { 1.0 } else { -1.0 };
    match kind {
        0 => smooth * largest,
        1 => sign * largest,
        2 => largest * (1.0 - (i + k) as f64 * 1e-7),
        3 => sign * least * (i % 9) as f64,
        4 if i % 31 == 0 => [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, largest][(i / 31 + k) % 4],
        4 => smooth,
        5 => 1e8 + smooth + k as f64,
        6 => sign * 0.0,
        7 => [1.0, 1e-10, 1e10][(i + k) % 3],
        8 => smooth * if double { 2f64.powi(1000) } else { 2f64.powi(120) },
        9 => smooth * if double { 2f64.powi(-900) } else { 2f64.powi(-100) },
        10 => {
            if i == 7 {
                largest
            } else {
                smooth
            }
        }
        11 => largest - (i % 5) as f64 * largest * 2f64.powi(-9) * smooth.abs(),
        12 => 3.0 + k as f64,
        _ => value(kind - 13, seed, k, i, n),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 800, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    /// Bounds hold whatever the roles, the magnitudes and the bounds are, for fields of one shape and
    /// one of another shape and type.
    #[test]
    fn bounds_hold_at_the_edges(
        method in prop::sample::select(methods()),
        n in prop_oneof![
            (1..300u64).prop_map(|n| [n, 1, 1]), (1..40u64, 1..40u64).prop_map(|(a, b)| [a, b, 1]),
            (1..20u64, 1..20u64, 1..20u64).prop_map(|(a, b, c)| [a, b, c]), (1..3u64, 1..50u64).prop_map(|(a, b)| [1, a * 9, b]),
        ],
        kinds in prop::collection::vec(0..23usize, 6), roles in roles(), double in any::<bool>(), seed in any::<u64>(),
        bound in prop_oneof![
            (-12..2i32).prop_map(|e| ErrorBound::OfMax(10f64.powi(e))), (-320..309i32).prop_map(|e| ErrorBound::Absolute(10f64.powi(e))),
            (-12..6i32).prop_map(|e| ErrorBound::Absolute(10f64.powi(e))),
            (-12..2i32).prop_map(|e| ErrorBound::OfRange(10f64.powi(e))), (-100..400i32).prop_map(|d| ErrorBound::Psnr(d as f64)),
        ],
    ) {
        let scalar = if double { Scalar::F64 } else { Scalar::F32 };
        let mut fields: Vec<Field> = roles.iter().map(|&previous_of| Field { n, scalar, previous_of }).collect();
        fields.push(Field { n: [n[0], 1, 1], scalar: Scalar::F64, previous_of: None });
        let same = seed.is_multiple_of(3);
        check(&method, bound, &State::new(&fields, |k, i| extreme(kinds[if same { 0 } else { k }], seed, k, i, n, double)));
    }

}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    /// A coder writes at most `max_bytes` bytes, and its streams do not depend on the arrays that
    /// it coded before.
    #[test]
    fn coders_need_no_more_than_they_say_and_remember_nothing(
        method in prop::sample::select(methods()),
        n in extents(),
        kinds in prop::collection::vec(0..11usize, 1..5), double in any::<bool>(), seed in any::<u64>(), rms in any::<bool>(),
        exponents in prop::collection::vec(-8..0i32, 5),
    ) {
        let shape = Shape { n: n.map(|n| n as usize), scalar: if double { Scalar::F64 } else { Scalar::F32 } };
        let mut used = method.coder(shape).unwrap().unwrap();
        for (k, &kind) in kinds.iter().enumerate() {
            let x: Vec<f64> = (0..shape.values()).map(|i| value(kind, seed, k, i, n)).collect();
            let single: Vec<f32> = x.iter().map(|&x| x as f32).collect();
            let array = if double { Array::F64(&x) } else { Array::F32(&single) };
            let most = x.iter().filter(|x| x.is_finite()).fold(0f64, |m, x| m.max(x.abs()));
            let bound = most.max(1e-30) * 10f64.powi(exponents[k]);
            let bound = if rms { Bound::Rms(bound) } else { Bound::Max(bound) };
            let mut fresh = method.coder(shape).unwrap().unwrap();
            let streams = [&mut used, &mut fresh].map(|coder| {
                let mut to = vec![0x5A; coder.max_bytes()];
                let bytes = coder.compress(array, bound, &mut to).unwrap();
                to.truncate(bytes.unwrap_or(0));
                let (mut y, mut wide) = (vec![f32::NAN; shape.values()], vec![f64::NAN; shape.values()]);
                if bytes.is_some() {
                    coder.decompress(&to, if double { ArrayMut::F64(&mut wide) } else { ArrayMut::F32(&mut y) }).unwrap();
                }
                (bytes, to, y.iter().map(|y| y.to_bits()).collect::<Vec<_>>(), wide.iter().map(|y| y.to_bits()).collect::<Vec<_>>())
            });
            prop_assert!(streams[0] == streams[1]);
        }
    }

    /// A damaged payload under a right checksum ends in an error or in values, the same at every
    /// instruction level, and leaves nothing behind in the coder.
    #[test]
    fn forged_payloads_do_no_harm(
        method in prop::sample::select(methods()),
        n in extents(),
        kind in prop::sample::select(vec![0, 1, 6, 7, 9, 10]), double in any::<bool>(), seed in any::<u64>(),
        bound in prop_oneof![(1..6i32).prop_map(|e| ErrorBound::OfMax(10f64.powi(-e))), (20..110i32).prop_map(|d| ErrorBound::Psnr(d as f64))],
    ) {
        let scalar = if double { Scalar::F64 } else { Scalar::F32 };
        let fields = [Field { n, scalar, previous_of: None }, Field { n, scalar, previous_of: Some(0) }];
        let mut codec = codec(&settings(&method, bound), &fields);
        let good = compress(&mut codec, &State::new(&fields, |k, i| value(kind, seed, k, i, n)));
        let data = decompress(&mut codec, &good, &fields).unwrap().data;
        let (mut bad, mut draw) = (good.clone(), Draw(seed));
        let which = draw.below(2);
        for _ in 0..1 + draw.below(4) {
            let piece = pieces(&bad)[which];
            damage_payload(draw.below(8), &mut bad, piece, &good, &mut draw);
        }
        reseal_all(&mut bad);
        let outcomes: Vec<_> = simd::levels()
            .into_iter()
            .map(|level| {
                simd::set_level(level);
                let outcome = decompress(&mut codec, &bad, &fields).map(|state| state.data).map_err(|error| error.code);
                prop_assert!(decompress(&mut codec, &good, &fields).unwrap().data == data);
                Ok(outcome)
            })
            .collect::<Result<_, _>>()?;
        prop_assert!(outcomes.windows(2).all(|w| w[0] == w[1]));
        prop_assert!(outcomes[0].as_ref().err().is_none_or(|code| *code == Code::Stream));
    }
}

/// In a raw stream the checksum detects every flipped bit of an FP32 value, whatever the other half
/// of the 64-bit word is. The other halves here are those for which a checksum made of products
/// (half 0 + a w + b)(half 1 + c w + d), with w the number of the word, would multiply the flipped
/// half by 0.
#[test]
fn no_value_hides_another() {
    let words = 600;
    for (value, factor, beside) in
        [(0x7F4A_7C15u32, 0x9E37_79B1u32, 1), (0xC2B2_AE3D, 0x85EB_CA77, 0)]
    {
        let hiding = |w: usize| {
            f32::from_bits(0u32.wrapping_sub(value.wrapping_add(factor.wrapping_mul(8 + w as u32))))
        };
        let fields =
            [Field { n: [2 * words as u64, 1, 1], scalar: Scalar::F32, previous_of: None }];
        let mut state = State::new(&fields, |_, _| 1.0);
        (0..words).for_each(|w| {
            state.data[0][8 * w + 4 * (1 - beside)..][..4].copy_from_slice(&hiding(w).to_le_bytes())
        });
        let mut codec = codec(&Settings::default(), &fields);
        let stream = compress(&mut codec, &state);
        for (w, bit) in (0..words).flat_map(|w| [0, 7, 31].map(|bit| (w, bit))) {
            let mut bad = stream.clone();
            bad[64 + 8 * w + 4 * beside + bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                decompress(&mut codec, &bad, &fields).unwrap_err().code,
                Code::Stream,
                "word {w}, bit {bit}"
            );
        }
    }
}

/// Without a codec every bit survives, also the signs of zeros and pairs of time levels.
#[test]
fn raw_values_are_kept_bit_by_bit() {
    for scalar in [Scalar::F32, Scalar::F64] {
        let own = Field { n: [3, 1, 1], scalar, previous_of: None };
        let fields = [own, Field { previous_of: Some(0), ..own }];
        for state in [
            State::new(&fields, |_, i| if i == 1 { -0.0 } else { 0.0 }),
            State::new(&fields, |k, i| [i as f64 * 1e-30, 1.0][k]),
        ] {
            let mut codec = codec(&Settings::default(), &fields);
            let stream = compress(&mut codec, &state);
            assert!(decompress(&mut codec, &stream, &fields).unwrap().data == state.data);
        }
    }
}

/// A codec whose payloads have a fixed size may need more bytes than the array has.
#[test]
fn streams_longer_than_the_array_are_stored_raw() {
    let field = Field { n: [5, 1, 1], scalar: Scalar::F32, previous_of: None };
    let state = State::new(&[field], |_, i| i as f64);
    for rate in [32, 24] {
        let settings = settings(&Method::Zfp { rate }, ErrorBound::DEFAULT);
        let snapshot = compress(&mut codec(&settings, &state.fields), &state);
        let (header, payload, _) = Header::open(&snapshot).unwrap();
        assert_eq!(header.content, Content::Raw, "rate {rate}");
        assert_eq!(payload, state.data[0]);
    }
}

/// NaN is refused in every time level, also where differences cannot be coded.
#[test]
fn nan_is_refused_in_every_level() {
    let own = Field { n: [9, 1, 1], scalar: Scalar::F32, previous_of: None };
    let fields =
        [own, Field { previous_of: Some(0), ..own }, Field { previous_of: Some(1), ..own }];
    for bad in 0..3 {
        let mut state = State::new(&fields, |k, i| {
            if (k, i) == (bad, 4) {
                f64::NAN
            } else {
                1e8 + (i % 2 * 8 + k * 16) as f64
            }
        });
        let settings = Settings {
            reject_nonfinite: true,
            ..settings(&Method::Lorenzo, ErrorBound::OfMax(1e-3))
        };
        let mut codec = codec(&settings, &fields);
        let mut stream = vec![0; codec.capacity()];
        // SAFETY: the fields are vectors of this test.
        let error = unsafe { codec.compress(&state.memory(), &mut stream) }.unwrap_err();
        assert_eq!(error.code, Code::Values, "{error}");
    }
}

#[test]
fn huge_shapes_are_refused() {
    for method in methods() {
        for n in [
            [1 << 58, 1, 1],
            [1 << 60, 1, 1],
            [1 << 61, 1, 1],
            [1 << 30, 1 << 30, 1],
            [1 << 20, 1 << 20, 1 << 20],
            [(1 << 61) - 1, 1, 1],
        ] {
            for scalar in [Scalar::F32, Scalar::F64] {
                let field = Field { n, scalar, previous_of: None };
                if let Ok(layout) =
                    Layout::new(vec![field, Field { previous_of: Some(0), ..field }])
                {
                    assert!(SnapshotCodec::new(settings(&method, ErrorBound::DEFAULT), &layout)
                        .is_err());
                }
                if let Ok(layout) = Layout::new(vec![field]) {
                    let _ = SnapshotCodec::new(settings(&method, ErrorBound::DEFAULT), &layout);
                }
            }
        }
    }
}

#[test]
fn a_record_that_leans_on_states_that_are_gone_is_not_made_anew() {
    let fields = [
        Field { n: [24, 20, 18], scalar: Scalar::F32, previous_of: None },
        Field { n: [40, 24, 1], scalar: Scalar::F64, previous_of: None },
    ];
    let states: Vec<State> = (0..3)
        .map(|t| {
            let wave = |k: usize, i: usize| (0.02 * i as f64 + 0.1 * (t + k) as f64).sin();
            State::new(&fields, wave)
        })
        .collect();
    let method = Method::Dct;
    let settings = Settings { sequences: true, ..settings(&method, ErrorBound::OfMax(1e-3)) };
    let mut coder = codec(&settings, &fields);
    for (t, state) in states.iter().enumerate() {
        // SAFETY: the fields are vectors of this test.
        unsafe { coder.take(t as i64, &state.clone().memory(), |_| false) }.unwrap();
    }
    let mut records = vec![vec![0xA5; coder.capacity()]; 3];
    for (t, record) in records.iter_mut().enumerate() {
        let bytes = coder.sequence().unwrap().complete(t as i64, record).unwrap();
        record.truncate(bytes);
    }
    let mut to = vec![0; coder.capacity()];
    let mut other = codec(&settings, &fields);
    let refused = other.lean_less(0, &records[0], |_| true, &mut to).unwrap_err();
    assert_eq!(refused.code, Code::Stream);
    assert!(refused.message.contains("field 0 of state 0 leans on later states"), "{refused:?}");
    // The same record after the states on which it leans.
    for t in [2, 1] {
        let bytes = other.lean_less(t, &records[t as usize], |_| true, &mut to).unwrap();
        assert_eq!(to[..bytes], records[t as usize], "state {t}");
    }
    let bytes = other.lean_less(0, &records[0], |of| of == 0, &mut to).unwrap();
    let mut alone = codec(&settings, &fields);
    alone.lean_less(0, &to[..bytes], |_| true, &mut vec![0; coder.capacity()]).unwrap();
}
