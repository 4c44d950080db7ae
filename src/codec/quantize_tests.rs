//! Shared by the tests of the codecs that quantise values.

use super::*;
use crate::codec::fixed::tests::Sliced;
use crate::codec::{simd, Coder};
use crate::scalar::Scalar;
use crate::scalar::{Array, ArrayMut};
use proptest::prelude::*;
use std::path::PathBuf;

/// Makes the coder to be tested, for arrays of a shape.
pub(crate) type Make = fn(Shape) -> Result<Box<dyn Coder>>;

/// Bits of a NaN that no decoder produces: it marks values that were not written.
const UNTOUCHED: u64 = 0x7FF5_5A5A_7FA5_5A5A;

/// A type of values with the range that the tests use.
pub(crate) trait Tested: Quantised + Sliced {
    /// Exponents of the least and the largest maximum of a test array, to the base 2.
    const EXPONENTS: [i32; 2];
}

macro_rules! tested {
    ($float:ident, $exponents:expr) => {
        impl Tested for $float {
            const EXPONENTS: [i32; 2] = $exponents;
        }
    };
}
tested!(f32, [-100, 120]);
tested!(f64, [-900, 1000]);

/// Returns the largest finite magnitude.
fn maximum<T: Real>(x: &[T]) -> f64 {
    x.iter().filter(|x| x.is_finite()).fold(0.0, |max, x| max.max(x.abs().to_f64()))
}

/// Codes and decodes an array at every instruction set. The bytes must be equal, and so must the
/// decoded values, which must keep the bound. Returns the size in bytes, or `None` if the array was
/// not coded.
pub(crate) fn round_trip<T: Tested>(
    make: Make,
    n: [usize; 3],
    x: &[T],
    bound: Bound,
) -> Option<usize> {
    let shape = Shape { n, scalar: T::SCALAR };
    let mut coder = make(shape).unwrap();
    let mut first: Option<(Option<Vec<u8>>, Vec<u64>)> = None;
    for level in simd::levels() {
        simd::set_level(level);
        let mut to = vec![level as u8; coder.max_bytes()];
        let size = coder.compress(T::array(x), bound, &mut to).unwrap();
        let stream = size.map(|size| to[..size].to_vec());
        let mut y = vec![T::from_bits(UNTOUCHED); x.len()];
        if let Some(stream) = &stream {
            assert!(stream.len() <= size_of_val(x));
            coder.decompress(stream, T::array_mut(&mut y)).unwrap();
            check(x, &y, bound);
        }
        let y = y.into_iter().map(T::to_bits).collect();
        match &first {
            None => first = Some((stream, y)),
            Some(first) => assert!(*first == (stream, y), "{level:?} differs"),
        }
    }
    first.and_then(|(stream, _)| stream).map(|stream| stream.len())
}

/// Checks the bound in double precision, and that values that are not finite come back with the
/// same bits.
fn check<T: Real>(x: &[T], y: &[T], bound: Bound) {
    let (mut sum, mut count) = (0.0, 0.0);
    for (i, (&x, &y)) in x.iter().zip(y).enumerate() {
        if !x.is_finite() {
            assert_eq!(x.to_bits(), y.to_bits(), "at {i}");
            continue;
        }
        let error = x.to_f64() - y.to_f64();
        if let Bound::Max(bound) = bound {
            assert!(error.abs() <= bound, "{x:?} became {y:?} at {i}, bound {bound:e}");
        }
        sum += (error / bound.value()).powi(2);
        count += 1.0;
    }
    if let Bound::Rms(_) = bound {
        assert!(sum <= count * (1.0 + 1e-9), "mean square {} of what it may be", sum / count);
    }
}

/// Returns a pseudo-random number between -1 and 1 for every i, the same on every machine.
fn noise(seed: u64, i: u64) -> f64 {
    let mut x = (seed ^ i.wrapping_mul(0x9E37_79B9_7F4A_7C15)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x ^= x >> 29;
    x = x.wrapping_mul(0x94D0_49BB_1331_11EB);
    (x >> 11) as f64 * (0.5f64).powi(52) - 1.0
}

/// Number of kinds of test fields.
const KINDS: u32 = 8;

/// Makes a field of a kind with a maximum of at most 2^exponent. Unless `special` is 0, every
/// `special`-th value is not finite.
pub(crate) fn field<T: Tested>(
    n: [usize; 3],
    kind: u32,
    exponent: i32,
    special: usize,
    seed: u64,
) -> Vec<T> {
    let scale = 2f64.powi(exponent);
    let value = |i: usize| {
        let at = [i % n[0], i / n[0] % n[1], i / n[0] / n[1]].map(|i| i as f64);
        let wave = (at[0] * 0.21 + at[1] * 0.13 + seed as f64 * 1e-3).sin()
            * (at[1] * 0.17 - at[2] * 0.11).cos();
        match kind {
            0 => wave,
            1 => noise(seed, i as u64),
            2 => 0.7,
            3 => 0.0,
            // Small values in the first half, large ones in the second half.
            4 => wave * if i * 2 < n.iter().product() { 1e-6 } else { 1.0 },
            // Noise of mixed exponents.
            5 => noise(seed, i as u64) * 2f64.powi(-((noise(!seed, i as u64) + 1.0) * 20.0) as i32),
            // One value of 1 in a field of zeros.
            6 => (i == seed as usize % n.iter().product::<usize>()) as u32 as f64,
            // Values of a few powers of two, which fall between two integers for some bounds.
            _ => [1.0, -1.0, 0.5, -0.25][(noise(seed, i as u64).abs() * 4.0) as usize % 4],
        }
    };
    let not_finite = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -f64::NAN];
    (0..n.iter().product())
        .map(|i| match special {
            0 => T::from_f64(value(i) * scale),
            _ if (i + seed as usize).is_multiple_of(special) => {
                T::from_f64(not_finite[i / special % 4])
            }
            _ => T::from_f64(value(i) * scale),
        })
        .collect()
}

/// Returns a bound of 2^-`bits` times the maximum, or of 1 for a field of zeros.
fn relative<T: Real>(x: &[T], bits: f64, rms: bool) -> Bound {
    let max = maximum(x);
    let value = if max == 0.0 { 1.0 } else { max * 2f64.powf(-bits) };
    if rms {
        Bound::Rms(value)
    } else {
        Bound::Max(value)
    }
}

fn one<T: Tested>(
    make: Make,
    n: [usize; 3],
    (kind, place, bits, special, rms): (u32, f64, f64, usize, bool),
    seed: u64,
) {
    let [least, most] = T::EXPONENTS;
    let exponent =
        (least + 41).max((least as f64 + place * (most - least) as f64) as i32).min(most);
    let x: Vec<T> = field(n, kind, exponent, special, seed);
    round_trip(make, n, &x, relative(&x, bits, rms));
}

/// Checks fields of all kinds and shapes with bounds from the maximum down to 2^-27.9 of the
/// maximum.
pub(crate) fn keeps_bounds(make: Make) {
    let shapes = prop_oneof![
        (1usize..5000).prop_map(|n| [n, 1, 1]),
        (1usize..100, 1usize..140).prop_map(|(a, b)| [a, b, 1]),
        (1usize..70, 1usize..20, 1usize..20).prop_map(|(a, b, c)| [a, b, c]),
    ];
    let what =
        (0..KINDS, 0.0..1.0, 0.0..27.9, prop_oneof![Just(0usize), 1usize..3000], any::<bool>());
    proptest!(ProptestConfig::with_cases(300), |(n in shapes, what in what, double: bool, seed in 0u64..1 << 40)| {
        if double {
            one::<f64>(make, n, what, seed);
        } else {
            one::<f32>(make, n, what, seed);
        }
    });
}

/// Checks every size from 1 to 300 and shapes that are no multiples of a tile.
pub(crate) fn all_sizes(make: Make) {
    let mut shapes: Vec<_> = (1..=300).map(|n| [n, 1, 1]).collect();
    shapes.extend([
        [2047, 1, 1],
        [2048, 1, 1],
        [2049, 1, 1],
        [1, 77, 1],
        [1, 3, 99],
        [33, 65, 1],
        [31, 63, 1],
        [32, 64, 1],
        [5, 1, 700],
    ]);
    shapes.extend([
        [32, 8, 8],
        [33, 9, 9],
        [31, 7, 7],
        [64, 16, 8],
        [2, 2, 2],
        [3, 50, 50],
        [100, 3, 5],
        [7, 100, 2],
        [65, 70, 9],
    ]);
    for n in shapes {
        for kind in [0, 1] {
            let what = (kind, 0.5, 9.0, if n[0] % 3 == 0 { 40 } else { 0 }, false);
            one::<f32>(make, n, what, 1);
            one::<f64>(make, n, what, 2);
        }
    }
}

/// Decodes damaged streams: the decoder must not panic, and must write every value when it reports
/// no error.
pub(crate) fn survives_damage(make: Make) {
    fn try_one<T: Tested>(coder: &mut dyn Coder, stream: &[u8], y: &mut [T]) {
        y.fill(T::from_bits(UNTOUCHED));
        if coder.decompress(stream, T::array_mut(y)).is_ok() {
            let untouched = T::from_bits(UNTOUCHED).to_bits();
            assert!(y.iter().all(|y| y.to_bits() != untouched), "not all is written");
        }
    }
    fn damage<T: Tested>(
        make: Make,
        n: [usize; 3],
        what: (u32, u32, usize),
        places: &[(f64, u8, bool)],
        cut: f64,
        seed: u64,
    ) {
        let (kind, bits, special) = what;
        let x: Vec<T> = field(n, kind, 0, special, seed);
        let mut coder = make(Shape { n, scalar: T::SCALAR }).unwrap();
        let mut to = vec![0; coder.max_bytes()];
        let mut y = x.clone();
        if let Some(size) =
            coder.compress(T::array(&x), relative(&x, bits as f64, false), &mut to).unwrap()
        {
            let mut stream = to[..size].to_vec();
            try_one(&mut *coder, &stream[..(size as f64 * cut) as usize], &mut y);
            for &(place, value, beginning) in places {
                let at = if beginning {
                    (place * 200.0) as usize % size
                } else {
                    (place * size as f64) as usize
                };
                stream[at] = value;
            }
            try_one(&mut *coder, &stream, &mut y);
            stream.push(0);
            try_one(&mut *coder, &stream, &mut y);
        }
        let size = (to.len() as f64 * cut) as usize;
        let random: Vec<u8> =
            (0..size as u64).map(|i| (noise(seed, i) * 1e6) as i64 as u8).collect();
        try_one(&mut *coder, &random, &mut y);
    }
    let shapes =
        prop_oneof![Just([3000, 1, 1]), Just([40, 70, 1]), Just([40, 9, 17]), Just([100, 1, 1])];
    let what = (0..KINDS, 1u32..22, prop_oneof![Just(0usize), Just(900)]);
    let places = prop::collection::vec((0.0..1.0, any::<u8>(), any::<bool>()), 1..8);
    proptest!(ProptestConfig::with_cases(400), |(n in shapes, what in what, places in places, cut in 0.0..1.0, double: bool, seed: u32)| {
        if double {
            damage::<f64>(make, n, what, &places, cut, seed as u64);
        } else {
            damage::<f32>(make, n, what, &places, cut, seed as u64);
        }
    });
}

/// Reads the FP32 values of a file.
fn values_of(file: &std::path::Path) -> Vec<f32> {
    let bytes = std::fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    bytes.chunks_exact(4).map(f32::get).collect()
}

/// Checks compression ratios on real snapshots, if they are installed. `least` lists file, error
/// bound relative to the maximum, and least ratio; all files have extents 100 x 100 x 100.
pub(crate) fn ratios(make: Make, least: &[(&str, f64, f64)]) {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let shared =
        std::env::var_os("GPUZIP_SHARED").map_or_else(|| root.join("../shared"), PathBuf::from);
    for &(name, tolerance, least) in least {
        let file = shared.join("data").join(name);
        if !file.exists() {
            println!("skipped: no {} (set GPUZIP_SHARED)", file.display());
            continue;
        }
        let x = values_of(&file);
        let size = round_trip(make, [100; 3], &x, Bound::Max(maximum(&x) * tolerance)).unwrap();
        let ratio = size_of_val(&x[..]) as f64 / size as f64;
        assert!(ratio >= least, "{name} at {tolerance:e}: {ratio:.2}");
    }
}

/// Returns the CPU time of this thread in seconds: other work on the machine does not count.
fn seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a local variable that the call may write.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Prints ratios and speeds at every instruction set for the FP32 files in `GPUZIP_FIELDS`
/// (separated by colons), whose extents are in `GPUZIP_DIMS` (n1,n2,n3).
pub(crate) fn print(make: Make) {
    let files = std::env::var("GPUZIP_FIELDS").expect("GPUZIP_FIELDS=FILE:FILE");
    let dims = std::env::var("GPUZIP_DIMS").expect("GPUZIP_DIMS=n1,n2,n3");
    let mut n = [1; 3];
    for (n, dim) in n.iter_mut().zip(dims.split(',')) {
        *n = dim.parse().unwrap();
    }
    for file in files.split(':') {
        println!("{file}");
        let x = values_of(file.as_ref());
        let mut y = vec![0.0; x.len()];
        for tolerance in [1e-2, 1e-3, 1e-4, 1e-5] {
            for level in simd::levels() {
                simd::set_level(level);
                let mut coder = make(Shape { n, scalar: Scalar::F32 }).unwrap();
                let mut to = vec![0; coder.max_bytes()];
                let bound = Bound::Max(maximum(&x) * tolerance);
                let (mut size, mut best) = (0, [f64::INFINITY; 3]);
                for _ in 0..9 {
                    let mut time = |i: usize, action: &mut dyn FnMut()| {
                        let start = seconds();
                        action();
                        best[i] = best[i].min(seconds() - start);
                    };
                    time(0, &mut || {
                        size = coder
                            .compress(Array::F32(&x), bound, &mut to)
                            .unwrap()
                            .expect("it can be coded")
                    });
                    time(1, &mut || coder.decompress(&to[..size], ArrayMut::F32(&mut y)).unwrap());
                    check(&x, &y, bound);
                    time(2, &mut || std::hint::black_box(&mut y).copy_from_slice(&x));
                }
                let bytes = size_of_val(&x[..]) as f64;
                let [compress, decompress, copy] = best.map(|time| bytes / time / 1e9);
                println!(
                    "  {tolerance:e} {level:?}: ratio {:.2}, compress {compress:.2} GB/s ({:.2} of memcpy), decompress {decompress:.2} ({:.2}), memcpy {copy:.2}",
                    bytes / size as f64,
                    compress / copy,
                    decompress / copy,
                );
            }
        }
    }
}

#[test]
fn transposing_twice_is_nothing() {
    for i in 0..1000 {
        let bits = (noise(1, i) * 2f64.powi(62)) as i64 as u64;
        assert_eq!(transposed(transposed(bits)), bits);
        for j in 0..64 {
            assert_eq!(transposed(bits) >> j & 1, bits >> (j % 8 * 8 + j / 8) & 1);
        }
    }
}

#[test]
fn quanta_stay_below_twice_the_bound() {
    for exponent in -128..121 {
        let bound = 1.1 * 2f64.powi(exponent);
        for quantum in Quantum::<f32>::levels(2.0 * bound, bound) {
            assert!(
                quantum.step > 0.0
                    && (quantum.step as f64) < 2.0 * bound
                    && quantum.inverse.is_finite()
            );
            assert!((quantum.bound as f64) < bound);
        }
    }
}

/// For noise, the errors use up the bound of the root mean square: the quantum is larger than a
/// bound of single errors would allow.
#[test]
fn a_mean_square_takes_a_larger_quantum() {
    let x: Vec<f32> = field([100_000, 1, 1], 1, 0, 0, 7);
    let choice = choose(&x, Bound::Rms(1e-3)).unwrap();
    assert!(choice.unit > 3.4e-3 && choice.unit < 3.5e-3);
    // Errors that are not spread evenly: the bound must hold for every single value.
    let x = vec![choice.unit as f32 * 0.49; 1000];
    assert_eq!(choose(&x, Bound::Rms(1e-3)).unwrap().unit, 2e-3);
}
