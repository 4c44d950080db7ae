use super::super::bfp::BlockFloat;
use super::super::fp16::Fp16;
use super::super::simd::{levels, set_level};
use super::*;
use crate::scalar::{Array, ArrayMut, Real};
use proptest::prelude::*;
use std::ops::Range;

const ANY: Bound = Bound::Max(1.0);

/// A type of values whose slices become arrays of codecs.
pub trait Sliced: Real {
    fn array(x: &[Self]) -> Array<'_>;
    fn array_mut(x: &mut [Self]) -> ArrayMut<'_>;
}

macro_rules! sliced {
    ($float:ident, $variant:ident) => {
        impl Sliced for $float {
            fn array(x: &[Self]) -> Array<'_> {
                Array::$variant(x)
            }
            fn array_mut(x: &mut [Self]) -> ArrayMut<'_> {
                ArrayMut::$variant(x)
            }
        }
    };
}
sliced!(f32, F32);
sliced!(f64, F64);

/// The shape of an array of `n` values.
pub fn line<T: Real>(n: usize) -> Shape {
    Shape { n: [n, 1, 1], scalar: T::SCALAR }
}

/// Returns the payload, which must be equal at every instruction set.
pub fn coded<F: Format, T: Sliced>(x: &[T]) -> Option<Vec<u8>> {
    let mut coder = coder::<F>(line::<T>(x.len())).unwrap();
    let streams = levels().into_iter().map(|level| {
        set_level(level);
        let mut to = vec![0xaa; coder.max_bytes()];
        coder.compress(T::array(x), ANY, &mut to).unwrap().map(|bytes| {
            assert_eq!(bytes, to.len());
            to
        })
    });
    streams.reduce(|a, b| if a == b { a } else { panic!("the levels differ") }).unwrap()
}

/// Returns the decoded values, which must be finite and equal at every instruction set.
pub fn decoded<F: Format, T: Sliced>(from: &[u8], n: usize) -> Result<Vec<T>> {
    let mut coder = coder::<F>(line::<T>(n))?;
    let arrays = levels().into_iter().map(|level| {
        set_level(level);
        let mut x = vec![T::from_f64(f64::NAN); n];
        coder.decompress(from, T::array_mut(&mut x))?;
        assert!(x.iter().all(|x| x.is_finite()), "a value was not written");
        Ok(x)
    });
    let arrays = arrays.collect::<Result<Vec<_>>>()?;
    let bits = |x: &Vec<T>| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert!(arrays.iter().all(|x| bits(x) == bits(&arrays[0])), "the levels differ");
    Ok(arrays.into_iter().next().unwrap())
}

/// Fields that are smooth, noisy, sparse, constant or of mixed magnitudes (from 2^-`spread` to
/// 2^`spread`), with the exponent of a power of two that scales them.
pub fn fields(
    constant: f64,
    spread: f64,
    scales: Range<i32>,
) -> impl Strategy<Value = (Vec<f64>, i32)> {
    let values = (1..300usize, 0..5, any::<u64>()).prop_map(move |(n, kind, seed)| {
        let mut state = seed;
        let mut noise = move || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
        };
        let value = |i: usize| match kind {
            0 => (i as f64 / 7.0).sin(),
            1 => noise(),
            2 => [0.0, -0.0, 1.0, noise()][(noise() * 2.0 + 2.0) as usize],
            3 => constant,
            _ => noise() * 2f64.powi((noise() * spread) as i32),
        };
        (0..n).map(value).collect()
    });
    (values, scales)
}

/// Damaged payloads of `n` values are decoded or refused; payloads that are too short are
/// refused.
fn check_damaged<F: Format, T: Sliced>(n: usize, at: prop::sample::Index, seed: u64) {
    let x: Vec<T> = (0..n).map(|i| T::from_f64(i as f64)).collect();
    let mut stream = coded::<F, T>(&x).unwrap();
    *at.get_mut(&mut stream[..]) = seed as u8;
    let _ = decoded::<F, T>(&stream, n);
    let head = Fixed::<F>::new(line::<T>(n)).unwrap().head;
    for from in [head, 0] {
        let mut state = seed;
        for to in &mut stream[from..] {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
            *to = (state >> 33) as u8;
        }
        let _ = decoded::<F, T>(&stream, n);
    }
    stream.truncate(at.index(stream.len()));
    assert!(decoded::<F, T>(&stream, n).is_err());
}

proptest! {
    #[test]
    fn any_bytes_are_decoded_or_refused(n in 1..200usize, at in any::<prop::sample::Index>(), seed in any::<u64>()) {
        check_damaged::<Fp16, f32>(n, at, seed);
        check_damaged::<Fp16, f64>(n, at, seed);
        check_damaged::<BlockFloat, f32>(n, at, seed);
        check_damaged::<BlockFloat, f64>(n, at, seed);
    }
}

/// Arrays and payloads of another size or type than the coder's are errors, and so is a damaged
/// head.
fn check_refusals<F: Format>() {
    let mut coder = coder::<F>(line::<f32>(10)).unwrap();
    let bytes = coder.max_bytes();
    let stream = coded::<F, f32>(&[1.0; 10]).unwrap();
    assert!(coder.compress(Array::F64(&[0.0; 10]), ANY, &mut [0; 100]).is_err());
    assert!(coder.compress(Array::F32(&[0.0; 9]), ANY, &mut [0; 100]).is_err());
    assert!(coder.compress(Array::F32(&[0.0; 10]), ANY, &mut vec![0; bytes - 1]).is_err());
    assert!(coder.decompress(&stream, ArrayMut::F32(&mut [0.0; 10])).is_ok());
    assert!(coder.decompress(&stream, ArrayMut::F64(&mut [0.0; 10])).is_err());
    assert!(coder.decompress(&stream[1..], ArrayMut::F32(&mut [0.0; 10])).is_err());
    assert!(coder.decompress(&vec![255; bytes], ArrayMut::F32(&mut [0.0; 10])).is_err());
    let huge = Shape { n: [usize::MAX, 1, 1], scalar: f32::SCALAR };
    assert!(super::coder::<F>(huge).is_err());
}

#[test]
fn another_size_or_type_is_an_error() {
    check_refusals::<Fp16>();
    check_refusals::<BlockFloat>();
}

/// Codes GemPy's wavefields if the folder `GPUZIP_SHARED` (default: `../shared`) has them.
fn check_wavefields<F: Format>(least_ratio: f64, least_psnr: f64) {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let shared =
        std::env::var_os("GPUZIP_SHARED").map_or_else(|| root.join("../shared"), Into::into);
    for step in ["0400", "0800"] {
        let Ok(bytes) =
            std::fs::read(shared.join(format!("data/gempy2_3d_100x100x100_step{step}_curr.f32")))
        else {
            println!("skipped: no wavefields (set GPUZIP_SHARED)");
            return;
        };
        let x: Vec<f32> =
            bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
        let stream = coded::<F, f32>(&x).unwrap();
        let y = decoded::<F, f32>(&stream, x.len()).unwrap();
        let square = x.iter().zip(&y).map(|(&x, &y)| (x as f64 - y as f64).powi(2)).sum::<f64>()
            / x.len() as f64;
        let range =
            x.iter().fold(f32::MIN, |a, &x| a.max(x)) - x.iter().fold(f32::MAX, |a, &x| a.min(x));
        let psnr = 20.0 * (range as f64 / square.sqrt()).log10();
        let ratio = bytes.len() as f64 / stream.len() as f64;
        println!("{} step {step}: ratio {ratio:.3}, {psnr:.1} dB", F::NAME);
        assert!(ratio > least_ratio && psnr > least_psnr);
    }
}

#[test]
fn real_wavefields() {
    check_wavefields::<Fp16>(1.9999, 94.0);
    check_wavefields::<BlockFloat>(3.878, 65.0);
}
