//! `fp16`: scaled half precision. The payload has half the bytes of FP32 or a quarter of the bytes
//! of FP64; the size depends on the shape of the array alone.
//!
//! A value x becomes h(x 2^s), where h rounds to the nearest IEEE 754 binary16 value (a half), ties
//! to even, and comes back as h 2^-s. The array has one exponent s. This s brings the largest
//! magnitude of the array just below the largest half:
//!
//!   m = max |x|
//!   s = min(S, 15 - floor(log2(m)))    one less where m 2^s >= 65520 would round to infinity
//!   s = 0                              where m = 0
//!
//! S is 101 for FP32 and 997 for FP64. With this S, neither the values that matter nor the decoded
//! values are denormal in the type of the array, so that the result does not depend on whether the
//! processor flushes denormals. Subnormal halves are kept.
//!
//! Error:
//!
//!   |x - decoded x| <= max(2^-11 |x|, 2^(-25-s)) <= 2^-11 m
//!
//! The sign of zero is kept. The codec ignores the caller's error bound.
//!
//! The codec refuses an array that contains NaN or an infinity, an array with 0 < m < 2^(-14-S),
//! and an array whose largest magnitude would round to 2^128 (FP64: 2^1024); the caller then stores
//! the array raw.
//!
//! | byte | contents (little-endian) |
//! |---|---|
//! | 0 | s, -112..=101 (FP64: -1008..=997), i32 |
//! | 4 | 12 bytes of 0 |
//! | 16 | halves in the order of the array, u16 each |

use super::fixed::{Format, Values};
use super::simd::{dispatch, each, Kernel};
use crate::scalar::Real;

/// Bytes before the halves: a multiple of 16, so that vectors of halves are aligned.
const HEAD: usize = 16;

/// The format `fp16`.
#[derive(Debug)]
pub enum Fp16 {}

impl Format for Fp16 {
    const NAME: &'static str = "fp16";

    fn sizes(values: usize, _: usize) -> Option<(usize, usize)> {
        Some((HEAD, values.checked_mul(2)?))
    }
}

impl<T: Arithmetic> Values<T> for Fp16 {
    fn encode(x: &[T], head: &mut [u8], halves: &mut [u8]) -> bool {
        let Some(s) = exponent::<T>(dispatch(Peak(x))) else { return false };
        head.fill(0);
        head[..4].copy_from_slice(&s.to_le_bytes());
        let (scale, halves) = (T::power(s), halves.as_chunks_mut().0);
        each(x, halves, |x, half| *half = x.half(scale).to_le_bytes());
        true
    }

    fn decode(head: &[u8], halves: &[u8], x: &mut [T]) -> bool {
        let s = i32::from_le_bytes([head[0], head[1], head[2], head[3]]);
        if !(T::LEAST..=T::MOST).contains(&s) || head[4..] != [0; HEAD - 4] {
            return false;
        }
        let (step, halves) = (T::power(-s), halves.as_chunks().0);
        each(halves, x, |half, x| *x = T::of_half(u16::from_le_bytes(*half), step));
        true
    }
}

/// Returns s of an array whose largest |x| has the bits `peak`, or `None` if it cannot be coded.
fn exponent<T: Arithmetic>(peak: u64) -> Option<i32> {
    if peak == 0 {
        return Some(0);
    }
    let digits = T::DIGITS - 1;
    let finite = peak < T::from_f64(f64::INFINITY).to_bits();
    let least = T::power(-14 - T::MOST).to_bits();
    // The sum raises magnitudes of 65520 = (2 - 2^-11) 2^15 and above, relative to their binade, to
    // the next power of two.
    let power = ((peak + (1 << (digits - 11))) >> digits) as i32 - T::BIAS;
    (finite && power <= T::BIAS && peak >= least).then(|| T::MOST.min(15 - power))
}

/// Arithmetic of the format for one type of value.
pub trait Arithmetic: Real {
    /// The smallest s: the one of arrays with the largest magnitude that can be coded.
    const LEAST: i32;
    /// The largest s.
    const MOST: i32;
    /// Returns the larger of `peak` and |x|, compared as bits.
    fn larger(peak: Self, x: Self) -> Self;
    /// Returns the bits of the half nearest to self * scale.
    fn half(self, scale: Self) -> u16;
    /// Returns the value of a half times `step`. The exponent of infinite halves counts as one more
    /// binade of finite values.
    fn of_half(half: u16, step: Self) -> Self;
}

macro_rules! lane {
    ($float:ident, $bits:ident, $signed:ident, $bias:literal, $least:literal, $most:literal) => {
        impl Arithmetic for $float {
            const LEAST: i32 = $least;
            const MOST: i32 = $most;

            #[inline(always)]
            fn larger(peak: Self, x: Self) -> Self {
                // The bits of magnitudes, as integers, have the order finite < infinite < NaN.
                let (a, b) =
                    ($float::to_bits(peak) as $signed, $float::to_bits($float::abs(x)) as $signed);
                $float::from_bits(if a > b { a } else { b } as $bits)
            }

            #[inline(always)]
            fn half(self, scale: Self) -> u16 {
                const DIGITS: u32 = $float::MANTISSA_DIGITS - 1;
                let scaled = self * scale;
                let sign = ($float::to_bits(scaled) >> ($bits::BITS - 16)) as u16 & 0x8000;
                // 2^e: the binade of the scaled value, or 2^-14, the binade of the smallest normal
                // half, if that is larger.
                let binade = $float::from_bits(
                    $float::to_bits(scaled) & (((1 << ($bits::BITS - 1 - DIGITS)) - 1) << DIGITS),
                );
                let binade = $float::to_bits(if binade > Self::power(-14) {
                    binade
                } else {
                    Self::power(-14)
                });
                // The last bit of |scaled| + 2^(e + DIGITS - 10) weighs 2^(e - 10), as the last bit
                // of the half does: the sum is rounded once, ties to even.
                let magic = binade + ((DIGITS as $bits - 10) << DIGITS);
                let sum = $float::to_bits($float::abs(scaled) + $float::from_bits(magic));
                // The leading significand bit of a normal half adds one to its exponent field.
                let binades = (binade >> (DIGITS - 10)) as u16;
                (sum as u16)
                    .wrapping_sub(magic as u16)
                    .wrapping_add(binades.wrapping_sub((($bias - 14) << 10) as u16))
                    | sign
            }

            #[inline(always)]
            fn of_half(half: u16, step: Self) -> Self {
                const DIGITS: u32 = $float::MANTISSA_DIGITS - 1;
                let shifted = ((half & 0x7fff) as $bits) << (DIGITS - 10);
                let normal = $float::from_bits(shifted + (($bias - 15) << DIGITS));
                let subnormal =
                    $float::from_bits(shifted + (($bias - 14) << DIGITS)) - Self::power(-14);
                let value = if half & 0x7c00 == 0 { subnormal } else { normal };
                let sign = ((half & 0x8000) as $bits) << ($bits::BITS - 16);
                $float::from_bits($float::to_bits(value) | sign) * step
            }
        }
    };
}

lane!(f32, u32, i32, 127, -112, 101);
lane!(f64, u64, i64, 1023, -1008, 997);

/// Finds the bits of max |x|; NaN counts as larger than infinity.
struct Peak<'a, T>(&'a [T]);

impl<T: Arithmetic> Kernel for Peak<'_, T> {
    type Output = u64;

    #[inline(always)]
    fn run(self) -> u64 {
        let (chunks, rest) = self.0.as_chunks::<32>();
        let mut peaks = [T::default(); 32];
        for chunk in chunks {
            for (peak, &x) in peaks.iter_mut().zip(chunk) {
                *peak = T::larger(*peak, x);
            }
        }
        peaks.iter().chain(rest).fold(T::default(), |peak, &x| T::larger(peak, x)).to_bits()
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixed::tests as fixed;
    use super::*;
    use crate::error::Result;
    use fixed::Sliced;
    use proptest::prelude::*;

    fn coded<T: Arithmetic + Sliced>(x: &[T]) -> Option<Vec<u8>> {
        fixed::coded::<Fp16, T>(x)
    }

    fn decoded<T: Arithmetic + Sliced>(from: &[u8], n: usize) -> Result<Vec<T>> {
        fixed::decoded::<Fp16, T>(from, n)
    }

    /// Computes the bits of the half of a value by division and rounding in double precision.
    fn by_the_text(scaled: f64) -> u16 {
        let sign = if scaled.is_sign_negative() { 0x8000 } else { 0 };
        let mut exponent = -14;
        while (scaled.abs() / 2f64.powi(exponent - 10)).round_ties_even() >= 2048.0 {
            exponent += 1;
        }
        let significand = (scaled.abs() / 2f64.powi(exponent - 10)).round_ties_even() as u16;
        sign | ((((exponent + 14) as u16) << 10) + significand)
    }

    fn check<T: Arithmetic + Sliced>(x: &[T]) -> std::result::Result<(), TestCaseError> {
        let stream = coded(x).expect("an array that can be coded");
        let s = i32::from_le_bytes(stream[..4].try_into().unwrap());
        for (x, half) in x.iter().zip(stream[HEAD..].as_chunks().0) {
            prop_assert_eq!(
                u16::from_le_bytes(*half),
                by_the_text(x.to_f64() * T::power(s).to_f64()),
                "{:?} 2^{}",
                x,
                s
            );
        }
        for (x, y) in x.iter().zip(decoded::<T>(&stream, x.len()).unwrap()) {
            let (x, y) = (x.to_f64(), y.to_f64());
            prop_assert!(
                (x - y).abs() <= (x.abs() / 2048.0).max(2f64.powi(-25 - s)),
                "{} became {}",
                x,
                y
            );
            prop_assert_eq!(x.is_sign_negative(), y.is_sign_negative());
        }
        let peak = x.iter().fold(0f64, |peak, x| peak.max(x.to_f64().abs())) * T::power(s).to_f64();
        prop_assert!(peak < 65520.0 && (peak >= 32752.0 || peak == 0.0 || s == T::MOST));
        Ok(())
    }

    proptest! {
        #[test]
        fn bounded_and_as_the_text_says((x, scale) in fixed::fields(65519.0 / 65536.0, 40.0, -60..80)) {
            check(&x.iter().map(|x| (x * 2f64.powi(scale)) as f32).collect::<Vec<_>>())?;
            check(&x.iter().map(|x| x * 2f64.powi(8 * scale)).collect::<Vec<_>>())?;
        }

        #[test]
        fn any_bits_are_coded_or_refused(bits in prop::collection::vec(any::<u32>(), 1..100)) {
            let x: Vec<f32> = bits.iter().map(|&bits| f32::from_bits(bits)).collect();
            match x.iter().all(|x| x.is_finite()) {
                true if x.iter().any(|x| x.abs() >= 65520.0 * f32::power(112)) => prop_assert!(coded(&x).is_none()),
                true if x.iter().any(|x| x.abs() >= f32::power(-115)) => check(&x)?,
                true => (),
                false => prop_assert!(coded(&x).is_none()),
            }
        }
    }

    #[test]
    fn every_half_comes_back() {
        let halves: Vec<u16> = (0..=u16::MAX).filter(|half| half & 0x7c00 != 0x7c00).collect();
        for s in [-105, 0, 7, 101] {
            let x: Vec<f32> =
                halves.iter().map(|&half| f32::of_half(half, f32::power(-s))).collect();
            let stream = coded(&x).unwrap();
            assert!(stream[HEAD..]
                .as_chunks()
                .0
                .iter()
                .zip(&halves)
                .all(|(to, half)| *to == half.to_le_bytes()));
            assert_eq!(decoded::<f32>(&stream, x.len()).unwrap(), x);
        }
        assert_eq!(
            [1.0, 65504.0, f64::power(-14), f64::power(-24)].map(|x| x.half(1.0)),
            [0x3c00, 0x7bff, 0x400, 1]
        );
    }

    #[test]
    fn tiny_arrays_and_those_with_infinities_are_refused() {
        assert!(coded(&[0f32; 40]).is_some() && coded(&[-0f64; 3]).is_some());
        assert!(
            coded(&[f32::power(-115), 0.0]).is_some() && coded(&[f64::power(-1011), 0.0]).is_some()
        );
        assert!(
            coded(&[f32::from_bits(f32::power(-115).to_bits() - 1)]).is_none()
                && coded(&[f64::MIN_POSITIVE]).is_none()
        );
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -f32::NAN] {
            for at in [0, 40, 69] {
                let mut x = [1f32; 70];
                x[at] = bad;
                assert!(coded(&x).is_none() && coded(&x.map(|x| x as f64)).is_none());
            }
        }
    }

    /// An array that would come back with an infinity is refused; the largest value below that
    /// limit comes back exactly.
    #[test]
    fn the_largest_values_come_back_finite() {
        let (single, double) =
            ([65504.0 * f32::power(112), 1.0], [65504.0 * f64::power(1008), 1.0]);
        assert_eq!(decoded::<f32>(&coded(&single).unwrap(), 2).unwrap()[0], single[0]);
        assert_eq!(decoded::<f64>(&coded(&double).unwrap(), 2).unwrap()[0], double[0]);
        assert!(
            coded(&[65519.0 * f32::power(112)]).is_some()
                && coded(&[65520.0 * f32::power(112)]).is_none()
        );
        assert!(coded(&[f32::MAX, 1.0]).is_none_or(|stream| decoded::<f32>(&stream, 2).is_ok()));
        assert!(coded(&[f64::MAX]).is_none_or(|stream| decoded::<f64>(&stream, 1).is_ok()));
    }
}
