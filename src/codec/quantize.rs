//! What the codecs that quantise before they predict share: the quantiser, and whole numbers as bit
//! planes.
//!
//! A value x becomes q = round(x / s) and comes back as x^ = q s, s being the quantum. All
//! arithmetic is that of the array's type, one rounding per operation, to nearest even
//! (`__fmul_rn`, `__fadd_rn`, `__int2float_rn` and their double counterparts): q = bits(x * (1 / s)
//! + M) - bits(M) as 32-bit words, with M = 1.5 * 2^23 (FP64: 1.5 * 2^52, low words), which rounds
//! half to even. A value is coded so only where |x - x^| <= bound was found to hold in the
//! arithmetic of the decoder; what that takes out (NaN, infinities, |q| >= 2^22 in FP32, an unlucky
//! rounding) the codecs store as it is.
//!
//! The quantum is a little less than twice the bound, so that roundings of x^ stay within it:
//! `unit`, which is twice the bound, times 511/512, 31/32 or 3/4 in FP64, rounded towards zero to
//! the type. Likewise, what |x - x^| is compared with is the bound times 1 - 2^-20.
//!
//! The bound of a mean square, t, is not one of single errors. Where s = sqrt(12) t is measured to
//! keep it, that is the unit, only the first quantum is used, and |x - x^| may be up to `unit`;
//! otherwise t is the bound of every value.

// Arrays side by side, indexed: what the compiler vectorises, and how the formulas are written.
#![allow(clippy::needless_range_loop)]

use super::coder::{Bound, Shape};
use super::simd::{dispatch, Kernel, Level};
use crate::error::{fail, Result};
use crate::scalar::{Array, Real};

/// Values of a line.
pub(super) const LINE: usize = 32;
/// Lines that are worked on at a time, so that loops are long enough to be vectorised.
pub(super) const LINES: usize = 64;
/// Their numbers, line by line.
pub(super) const TILE: usize = LINES * LINE;
/// Rows of eight numbers among them.
pub(super) const ROWS: usize = TILE / 8;
pub(super) type Numbers = [i32; TILE];

/// A type that can be quantised.
pub(super) trait Quantised: Real {
    /// Rounds what is added to it: its last place is 1.
    const MAGIC: Self;
    /// Largest and smallest bound that is used; a larger one is cut, a smaller one not coded.
    const BOUNDS: [f64; 2];
    /// The whole number in the sum of it and `MAGIC`.
    fn whole(sum: Self) -> i32;
    /// The nearest value.
    fn from_i32(q: i32) -> Self;
    /// Appends the bits of a value, little-endian.
    fn put(self, to: &mut [u8]);
    /// The value of `BYTES` bytes.
    fn get(from: &[u8]) -> Self;

    /// Rounds towards zero.
    fn down(x: f64) -> Self {
        let near = Self::from_f64(x);
        if near.to_f64() > x {
            Self::from_bits(near.to_bits() - 1)
        } else {
            near
        }
    }
}

macro_rules! quantised {
    ($float:ident, $magic:literal, $bounds:expr, |$sum:ident| $whole:expr) => {
        impl Quantised for $float {
            const MAGIC: Self = $magic;
            const BOUNDS: [f64; 2] = $bounds;
            #[inline(always)]
            fn whole($sum: Self) -> i32 {
                $whole
            }
            #[inline(always)]
            fn from_i32(q: i32) -> Self {
                q as $float
            }
            #[inline(always)]
            fn put(self, to: &mut [u8]) {
                to.copy_from_slice(&self.to_le_bytes());
            }
            #[inline(always)]
            fn get(from: &[u8]) -> Self {
                let mut bytes = [0; size_of::<$float>()];
                bytes.copy_from_slice(from);
                $float::from_le_bytes(bytes)
            }
        }
    };
}

/// 2^n.
const fn power(n: i64) -> f64 {
    f64::from_bits(((1023 + n) as u64) << 52)
}

quantised!(f32, 12_582_912.0, [power(-128), power(121)], |sum| f32::to_bits(sum)
    .wrapping_sub(f32::to_bits(Self::MAGIC))
    as i32);
quantised!(f64, 6_755_399_441_055_744.0, [power(-930), power(1001)], |sum| f64::to_bits(sum)
    as i32);

/// Quantum / unit, exact.
const LEVELS: [f64; 3] = [511.0 / 512.0, 31.0 / 32.0, 3.0 / 4.0];

/// A quantum and what it must keep.
#[derive(Clone, Copy)]
pub(super) struct Quantum<T> {
    pub step: T,
    inverse: T,
    /// Largest |x - x^|.
    bound: T,
}

impl<T: Quantised> Quantum<T> {
    /// The quanta of a unit.
    pub fn levels(unit: f64, bound: f64) -> [Self; 3] {
        // A difference rounded to this is, unrounded, still within the bound.
        let bound = T::down(bound * (1.0 - power(-20)));
        LEVELS.map(|level| {
            let step = T::down(unit * level);
            Quantum { step, inverse: T::from_i32(1) / step, bound }
        })
    }

    /// Quantises values; false if one of them does not come back within the bound.
    #[inline(always)]
    pub fn quantise<const N: usize>(&self, x: &[T; N], q: &mut [i32; N]) -> bool {
        let mut good = 1;
        for i in 0..N {
            q[i] = T::whole(x[i] * self.inverse + T::MAGIC);
            let error = (x[i] - T::from_i32(q[i]) * self.step).abs();
            // False for NaN.
            good &= (error <= self.bound) as i32;
        }
        good != 0
    }
}

/// What a coder quantises with.
#[derive(Clone, Copy)]
pub(super) struct Choice {
    /// Goes into the stream.
    pub unit: f64,
    /// What a single value must keep.
    pub bound: f64,
    /// How many of the levels may be tried.
    pub levels: usize,
}

/// `Rms(t)`: the errors of a quantum s spread evenly over +-s/2 unless the field is special, so
/// that s = sqrt(12) t should do. Whether it does is found out by measuring; if not, every single
/// error is kept below t. `None`: not a bound to code with.
pub(super) fn choose<T: Quantised>(x: &[T], bound: Bound) -> Option<Choice> {
    const SQRT_12: f64 = 3.464_101_615_137_754_6;
    let [least, most] = T::BOUNDS;
    // None for NaN.
    let value = Some(bound.value()).filter(|&value| value >= least)?.min(most);
    if let Bound::Rms(target) = bound {
        if target <= most / 4.0 {
            let unit = SQRT_12 * target;
            if dispatch(MeanSquare { x, quantum: Quantum::levels(unit, unit)[0], target }) {
                return Some(Choice { unit, bound: unit, levels: 1 });
            }
        }
    }
    Some(Choice { unit: 2.0 * value, bound: value, levels: LEVELS.len() })
}

/// Whether the mean square of the errors is at most target^2. They are summed as whole numbers, |x
/// - x^| / s * 2^12 rounded up: in any order, the sum is the same. Values that the quantum cannot
/// code count as 0, as they will be stored as they are, and are left out of the mean.
struct MeanSquare<'a, T> {
    x: &'a [T],
    quantum: Quantum<T>,
    target: f64,
}

impl<T: Quantised> Kernel for MeanSquare<'_, T> {
    type Output = bool;

    #[inline(always)]
    fn run(self) -> bool {
        const SCALE: i32 = 1 << 12;
        let Quantum { step, inverse, bound } = self.quantum;
        let (mut sum, mut count) = (0u64, 0u64);
        for part in self.x.chunks(TILE) {
            // What is not there is not coded.
            let mut x = [T::from_f64(f64::INFINITY); TILE];
            x[..part.len()].copy_from_slice(part);
            // Squares below 2^25, 64 for a lane.
            let (mut sums, mut counts) = ([0u32; LINE], [0u32; LINE]);
            for line in x.as_chunks::<LINE>().0 {
                for i in 0..LINE {
                    let error = (line[i]
                        - T::from_i32(T::whole(line[i] * inverse + T::MAGIC)) * step)
                        .abs();
                    let coded = (error <= bound) as u32;
                    // Rounded to nearest: with 1 more it is an upper bound.
                    let error = T::whole(error * inverse * T::from_i32(SCALE) + T::MAGIC)
                        .wrapping_add(1) as u32;
                    sums[i] += error.wrapping_mul(error) & coded.wrapping_neg();
                    counts[i] += coded;
                }
            }
            for i in 0..LINE {
                sum += sums[i] as u64;
                count += counts[i] as u64;
            }
        }
        // The whole numbers may be off by the roundings of `inverse` and of the product, 2^-22 of
        // them at most.
        let unit = step.to_f64() / self.target / SCALE as f64 * (1.0 + power(-20));
        sum as f64 * unit * unit <= count as f64
    }
}

/// An 8 x 8 matrix of bits transposed: bit j of byte i becomes bit i of byte j.
#[inline(always)]
pub(super) fn transposed(mut bits: u64) -> u64 {
    let swap = (bits ^ (bits >> 7)) & 0x00AA_00AA_00AA_00AA;
    bits ^= swap ^ (swap << 7);
    let swap = (bits ^ (bits >> 14)) & 0x0000_CCCC_0000_CCCC;
    bits ^= swap ^ (swap << 14);
    let swap = (bits ^ (bits >> 28)) & 0x0000_0000_F0F0_F0F0;
    bits ^ swap ^ (swap << 28)
}

/// Bytes, eight at a time, as rows of eight bits: bit i of byte j of a row is bit j of byte i, or
/// of byte 7 - i if they are taken `BACKWARDS`.
#[inline(always)]
pub(super) fn to_rows<const BACKWARDS: bool>(bytes: &[u8; TILE], rows: &mut [u8; TILE]) {
    for j in 0..ROWS {
        let eight = word(bytes, 8 * j);
        put_word(rows, 8 * j, transposed(if BACKWARDS { eight.swap_bytes() } else { eight }));
    }
}

/// The inverse of `to_rows`.
#[inline(always)]
pub(super) fn to_bytes<const BACKWARDS: bool>(rows: &[u8; TILE], bytes: &mut [u8; TILE]) {
    for j in 0..ROWS {
        let eight = transposed(word(rows, 8 * j));
        put_word(bytes, 8 * j, if BACKWARDS { eight.swap_bytes() } else { eight });
    }
}

/// The low `bytes` bytes of a word, all of it if it has no more.
#[inline(always)]
pub(super) fn low_bytes(word: u64, bytes: usize) -> u64 {
    if bytes >= 8 {
        word
    } else {
        word & ((1 << (8 * bytes)) - 1)
    }
}

/// How many bytes from the lowest on hold all bits of a word.
#[inline(always)]
pub(super) fn used_bytes(word: u64) -> usize {
    (71 - word.leading_zeros() as usize) / 8
}

/// Eight bytes as a word. `at + 8` must be within the slice.
#[inline(always)]
pub(super) fn word(from: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&from[at..at + 8]);
    u64::from_le_bytes(bytes)
}

/// Writes a word.
#[inline(always)]
pub(super) fn put_word(to: &mut [u8], at: usize, word: u64) {
    to[at..at + 8].copy_from_slice(&word.to_le_bytes());
}

/// Takes from every number the one `BACK` places before it, save the first ones. Loops go over as
/// much as they can and know how far, as the compiler vectorises those best.
#[inline(always)]
pub(super) fn difference_back<const BACK: usize, const LEN: usize>(
    from: &[i32; LEN],
    to: &mut [i32; LEN],
) {
    to[..BACK].copy_from_slice(&from[..BACK]);
    for i in BACK..LEN {
        to[i] = from[i].wrapping_sub(from[i - BACK]);
    }
}

/// Sums along lines of 32, each for itself unless they `chain`.
#[inline(always)]
pub(super) fn scan(x: &mut Numbers, chain: bool, level: Level) {
    #[cfg(target_arch = "x86_64")]
    match level {
        // SAFETY: the level is one that the machine has.
        Level::Avx512 => return unsafe { scan_avx512(x, chain) },
        // SAFETY: as above.
        Level::Avx2 => return unsafe { scan_avx2(x, chain) },
        Level::Portable => {}
    }
    let _ = level;
    let mut sum = 0i32;
    for line in x.chunks_exact_mut(LINE) {
        if !chain {
            sum = 0;
        }
        for x in line {
            sum = sum.wrapping_add(*x);
            *x = sum;
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn scan_avx2(x: &mut Numbers, chain: bool) {
    use std::arch::x86_64::*;
    let last = _mm256_set1_epi32(7);
    let mut carry = _mm256_setzero_si256();
    for (i, x) in x.chunks_exact_mut(8).enumerate() {
        if !chain && i % 4 == 0 {
            carry = _mm256_setzero_si256();
        }
        // SAFETY: these are 8 numbers.
        let mut sum = unsafe { _mm256_loadu_si256(x.as_ptr().cast()) };
        sum = _mm256_add_epi32(sum, _mm256_slli_si256::<4>(sum));
        sum = _mm256_add_epi32(sum, _mm256_slli_si256::<8>(sum));
        // The sum of the low half, for the high half.
        let low = _mm256_permute2x128_si256::<0x08>(sum, sum);
        sum = _mm256_add_epi32(sum, _mm256_shuffle_epi32::<0xFF>(low));
        // SAFETY: as above.
        unsafe { _mm256_storeu_si256(x.as_mut_ptr().cast(), _mm256_add_epi32(sum, carry)) };
        carry = _mm256_add_epi32(carry, _mm256_permutevar8x32_epi32(sum, last));
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn scan_avx512(x: &mut Numbers, chain: bool) {
    use std::arch::x86_64::*;
    let zero = _mm512_setzero_si512();
    let last = _mm512_set1_epi32(15);
    let mut carry = zero;
    for (i, x) in x.chunks_exact_mut(16).enumerate() {
        if !chain && i % 2 == 0 {
            carry = zero;
        }
        // SAFETY: these are 16 numbers.
        let mut sum = unsafe { _mm512_loadu_si512(x.as_ptr().cast()) };
        sum = _mm512_add_epi32(sum, _mm512_alignr_epi32::<15>(sum, zero));
        sum = _mm512_add_epi32(sum, _mm512_alignr_epi32::<14>(sum, zero));
        sum = _mm512_add_epi32(sum, _mm512_alignr_epi32::<12>(sum, zero));
        sum = _mm512_add_epi32(sum, _mm512_alignr_epi32::<8>(sum, zero));
        // SAFETY: as above.
        unsafe { _mm512_storeu_si512(x.as_mut_ptr().cast(), _mm512_add_epi32(sum, carry)) };
        carry = _mm512_add_epi32(carry, _mm512_permutexvar_epi32(last, sum));
    }
}

/// Refuses arrays that no memory holds: sizes of streams are computed from here on without looking.
pub(super) fn check_size(shape: &Shape) -> Result<()> {
    let values = shape.n.into_iter().try_fold(1usize, usize::checked_mul);
    match values.filter(|&values| values <= usize::MAX / 32) {
        Some(_) => Ok(()),
        None => fail!(Shape, "an array of {:?} values is too large", shape.n),
    }
}

/// The array as one of a type, of the length that it must have.
pub(super) fn values<'a, T: Real>(array: Array<'a>, len: usize) -> Option<&'a [T]> {
    T::of(array).filter(|values| values.len() == len)
}

#[cfg(test)]
#[path = "quantize_tests.rs"]
pub(super) mod tests;
