//! `bfp`: block floating point. 32 FP32 values take 33 bytes, 32 FP64 values take 34 bytes; the
//! size depends on the shape of the array alone.
//!
//! The array is cut into blocks of 32 consecutive values; the last block may be shorter. A block
//! has one exponent E. A value x becomes the integer q = x 2^-k, rounded to nearest, ties to even,
//! |q| <= 127, and comes back as q 2^k, where B is the bias of the IEEE format, 127 (FP64: 1023),
//! and
//!
//!   k = E - B - 6
//!   E = max(8, biased exponent of (128 / 127.5) max |x| over the block)
//!
//! The encoder applies the factor 128 / 127.5 by adding 2^-7 of a binade to the bits of max |x|: E
//! is one larger where max |x| >= 127.5 2^k would round to 128. E >= 8 makes denormals 0 and every
//! decoded value normal or 0, so that the result does not depend on whether the processor flushes
//! denormals.
//!
//! Error:
//!
//!   |x - decoded x| <= 2^(k-1) <= max(max |x| over the block / 127, 2^-126)   (FP64: 2^-1022)
//!
//! -0 becomes 0. The codec ignores the caller's error bound. Blocks are independent of each other:
//! one pass over the array suffices, with one thread or one warp per block.
//!
//! The codec refuses an array that contains NaN, an infinity or a magnitude of (2 - 2^-7) 2^127
//! (FP64: 2^1023) or more; the caller then stores the array raw.
//!
//! Layout of the payload for n values in N = ceil(n / 32) blocks:
//!
//! | byte | contents (little-endian) |
//! |---|---|
//! | 0 | exponents E of the N blocks, 8..=254 (FP64: 2046), u8 each (FP64: u16) |
//! | N (FP64: 2 N) | zeros up to the next multiple of 16 |
//! | that multiple of 16 | integers q of the n values in order, i8 each; -128 does not occur |

use super::fixed::{Format, Values};
use super::simd::{dispatch, Kernel};
use crate::scalar::Real;

/// Values per block.
const BLOCK: usize = 32;
/// The integers begin at a multiple of this number of bytes.
const ALIGN: usize = 16;
/// The smallest E. Blocks that contain only zeros and denormals have it, too.
const LEAST: u16 = 8;

/// The format `bfp`.
#[derive(Debug)]
pub enum BlockFloat {}

impl Format for BlockFloat {
    const NAME: &'static str = "bfp";

    fn sizes(values: usize, bytes_of_value: usize) -> Option<(usize, usize)> {
        Some((exponent_bytes(values, bytes_of_value).checked_next_multiple_of(ALIGN)?, values))
    }
}

/// Returns the size in bytes of the exponents of an array.
fn exponent_bytes(values: usize, bytes_of_value: usize) -> usize {
    values.div_ceil(BLOCK) * (bytes_of_value / 4)
}

impl<T: Arithmetic> Values<T> for BlockFloat {
    fn encode(x: &[T], head: &mut [u8], q: &mut [u8]) -> bool {
        let (exponents, padding) = head.split_at_mut(exponent_bytes(x.len(), T::BYTES));
        padding.fill(0);
        dispatch(Encode { x, exponents, q })
    }

    fn decode(head: &[u8], q: &[u8], x: &mut [T]) -> bool {
        let (exponents, padding) = head.split_at(exponent_bytes(x.len(), T::BYTES));
        padding.iter().all(|&byte| byte == 0) && dispatch(Decode { exponents, q, x })
    }
}

/// Arithmetic of the format for one type of value.
pub trait Arithmetic: Real {
    /// The biased exponent that infinities and NaNs have in the IEEE format.
    const INFINITE: u16;
    /// Returns E of a block, or at least `INFINITE` if the block cannot be coded.
    fn exponent(x: &[Self; BLOCK]) -> u16;
    /// Writes each x * scale, rounded to an integer, to `q`.
    fn integers(x: &[Self], scale: Self, q: &mut [u8]);
}

macro_rules! lane {
    ($float:ident, $bits:ident, $signed:ident, $bias:literal) => {
        impl Arithmetic for $float {
            const INFINITE: u16 = 2 * $bias + 1;

            #[inline(always)]
            fn exponent(x: &[Self; BLOCK]) -> u16 {
                const DIGITS: u32 = $float::MANTISSA_DIGITS - 1;
                // The bits of magnitudes, as integers, have the order finite < infinite < NaN.
                let mut peaks = [(LEAST as $signed) << DIGITS; 8];
                for x in x.as_chunks::<8>().0 {
                    for (peak, x) in peaks.iter_mut().zip(x) {
                        *peak = ($float::to_bits($float::abs(*x)) as $signed).max(*peak);
                    }
                }
                let peaks: [_; 4] = std::array::from_fn(|i| peaks[i].max(peaks[i + 4]));
                let peak = peaks[0].max(peaks[2]).max(peaks[1].max(peaks[3]));
                ((peak as $bits + (1 << (DIGITS - 7))) >> DIGITS) as u16
            }

            #[inline(always)]
            fn integers(x: &[Self], scale: Self, q: &mut [u8]) {
                // The last bit of x * scale + 1.5 2^DIGITS weighs 1: the sum is rounded once, ties
                // to even, and its low byte is q.
                const MAGIC: $float = (3u64 << ($float::MANTISSA_DIGITS - 2)) as $float;
                for (q, x) in q.iter_mut().zip(x) {
                    *q = $float::to_bits(x * scale + MAGIC) as u8;
                }
            }
        }
    };
}

lane!(f32, u32, i32, 127);
lane!(f64, u64, i64, 1023);

/// Returns `BLOCK` in a way that the compiler cannot see through. The compiler would unroll a loop
/// of known length first and then fail to vectorise it.
#[inline(always)]
fn length() -> usize {
    std::hint::black_box(BLOCK).min(BLOCK)
}

/// Codes one block: writes its integers and returns E, or `None` if the block cannot be coded.
#[inline(always)]
fn encode<T: Arithmetic>(x: &[T; BLOCK], q: &mut [u8; BLOCK]) -> Option<u16> {
    let exponent = T::exponent(x);
    if exponent >= T::INFINITE {
        return None;
    }
    let scale = T::power(T::BIAS + 6 - exponent as i32);
    let n = length();
    T::integers(&x[..n], scale, &mut q[..n]);
    Some(exponent)
}

/// Writes each q * step to `x`.
#[inline(always)]
fn decode<T: Real>(q: &[u8], step: T, x: &mut [T]) {
    for (x, q) in x.iter_mut().zip(q) {
        *x = T::from_i32(*q as i8 as i32) * step;
    }
}

/// Codes all blocks; the output says whether every block could be coded.
struct Encode<'a, T> {
    x: &'a [T],
    exponents: &'a mut [u8],
    q: &'a mut [u8],
}

impl<T: Arithmetic> Kernel for Encode<'_, T> {
    type Output = bool;

    #[inline(always)]
    fn run(self) -> bool {
        let (x, x_rest) = self.x.as_chunks();
        let (q, q_rest) = self.q.as_chunks_mut();
        let mut exponents = self.exponents.chunks_exact_mut(T::BYTES / 4);
        // The early return keeps compilers from assigning one block to each SIMD lane, which would
        // need gather instructions.
        for ((x, q), to) in x.iter().zip(q).zip(&mut exponents) {
            let Some(exponent) = encode(x, q) else { return false };
            to.copy_from_slice(&exponent.to_le_bytes()[..T::BYTES / 4]);
        }
        // At most one block is left, a shorter one.
        for to in exponents {
            let (mut last, mut last_q) = ([T::default(); BLOCK], [0; BLOCK]);
            last[..x_rest.len()].copy_from_slice(x_rest);
            let Some(exponent) = encode(&last, &mut last_q) else { return false };
            q_rest.copy_from_slice(&last_q[..x_rest.len()]);
            to.copy_from_slice(&exponent.to_le_bytes()[..T::BYTES / 4]);
        }
        true
    }
}

/// Decodes all blocks; the output says whether every exponent is in range.
struct Decode<'a, T> {
    exponents: &'a [u8],
    q: &'a [u8],
    x: &'a mut [T],
}

impl<T: Arithmetic> Kernel for Decode<'_, T> {
    type Output = bool;

    #[inline(always)]
    fn run(self) -> bool {
        let mut valid = true;
        let (q, q_rest) = self.q.as_chunks::<BLOCK>();
        let (x, x_rest) = self.x.as_chunks_mut::<BLOCK>();
        let blocks = x.len();
        let mut step = |block| {
            let mut exponent = [0; 2];
            let from = &self.exponents[T::BYTES / 4 * block..][..T::BYTES / 4];
            exponent[..T::BYTES / 4].copy_from_slice(from);
            let exponent = u16::from_le_bytes(exponent);
            valid &= (LEAST..T::INFINITE).contains(&exponent);
            let exponent = exponent.clamp(LEAST, T::INFINITE - 1);
            T::power(exponent as i32 - T::BIAS - 6)
        };
        for (block, (q, x)) in q.iter().zip(x).enumerate() {
            let n = length();
            decode(&q[..n], step(block), &mut x[..n]);
        }
        if !q_rest.is_empty() {
            decode(q_rest, step(blocks), x_rest);
        }
        valid
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixed::bytes as fixed_size;
    use super::super::fixed::tests as fixed;
    use super::super::Shape;
    use super::*;
    use crate::error::Result;
    use fixed::{line, Sliced};
    use proptest::prelude::*;

    fn coded<T: Arithmetic + Sliced>(x: &[T]) -> Option<Vec<u8>> {
        fixed::coded::<BlockFloat, T>(x)
    }

    fn decoded<T: Arithmetic + Sliced>(from: &[u8], n: usize) -> Result<Vec<T>> {
        fixed::decoded::<BlockFloat, T>(from, n)
    }

    /// Codes as the module's documentation says, by division and rounding in double precision, one
    /// value at a time. FP32 only, because double precision is exact for FP32 values.
    fn by_the_text(x: &[f32]) -> Vec<u8> {
        let exponents = x.chunks(BLOCK).map(|block| {
            let peak = block.iter().fold(0f32, |peak, x| peak.max(x.abs())) as f64;
            let mut k = -125;
            while (peak / 2f64.powi(k)).round_ties_even() > 127.0 {
                k += 1;
            }
            (k + 127 + 6) as u8
        });
        let exponents: Vec<u8> = exponents.collect();
        let integers = x.chunks(BLOCK).zip(&exponents).flat_map(|(block, &exponent)| {
            let step = 2f64.powi(exponent as i32 - 133);
            block.iter().map(move |&x| (x as f64 / step).round_ties_even() as i8 as u8)
        });
        let mut stream = exponents.clone();
        stream.resize(exponents.len().next_multiple_of(16), 0);
        stream.extend(integers);
        stream
    }

    fn check<T: Arithmetic + Sliced>(x: &[T]) -> std::result::Result<(), TestCaseError> {
        let stream = coded(x).expect("finite values");
        prop_assert_eq!(stream.len(), fixed_size::<BlockFloat>(line::<T>(x.len())).unwrap());
        let y = decoded::<T>(&stream, x.len()).unwrap();
        let least = T::power(i32::from(LEAST) - T::BIAS - 6).to_f64() / 2.0;
        for (x, y) in x.chunks(BLOCK).zip(y.chunks(BLOCK)) {
            let bound = x.iter().fold(0f64, |peak, x| peak.max(x.to_f64().abs()));
            for (x, y) in x.iter().zip(y) {
                prop_assert!(
                    (x.to_f64() - y.to_f64()).abs() <= (bound / 127.0).max(least),
                    "{:?} became {:?}",
                    x,
                    y
                );
            }
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn bounded_and_as_the_text_says((x, scale) in fixed::fields(0.996_093_75, 60.0, -100..60)) {
            let single: Vec<f32> = x.iter().map(|x| (x * 2f64.powi(scale)) as f32).collect();
            check(&single)?;
            prop_assert_eq!(coded(&single).unwrap(), by_the_text(&single));
            check(&x.iter().map(|x| x * 2f64.powi(8 * scale)).collect::<Vec<f64>>())?;
        }

        #[test]
        fn any_bits_are_coded_or_refused(bits in prop::collection::vec(any::<u32>(), 1..100)) {
            let x: Vec<f32> = bits.iter().map(|&bits| f32::from_bits(bits)).collect();
            match coded(&x) {
                Some(_) => check(&x)?,
                None => prop_assert!(x.iter().any(|x| x.abs().to_bits() >= 0x7f7f_0000)),
            }
        }
    }

    #[test]
    fn what_is_not_finite_is_refused() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX] {
            for at in [0, 40, 69] {
                let mut x = [1f32; 70];
                x[at] = bad;
                assert!(coded(&x).is_none());
                assert!(
                    coded(&x.map(|x| if x == f32::MAX { f64::MAX } else { x as f64 })).is_none()
                );
            }
        }
    }

    #[test]
    fn sizes() {
        let bytes = |shape: Shape| fixed_size::<BlockFloat>(shape).unwrap();
        assert_eq!((bytes(line::<f32>(1)), bytes(line::<f64>(33))), (17, 16 + 33));
        assert_eq!(bytes(line::<f32>(1 << 20)) * 32, (1 << 20) * 33);
        assert_eq!(bytes(line::<f64>(1 << 20)) * 32, (1 << 20) * 34);
    }
}
