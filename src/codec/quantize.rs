//! Shared by the codecs that quantise values before they predict them (lorenzo, cuszp): the
//! quantiser, and integers as bit planes.
//!
//! A value x becomes the integer q = round(x / s) and comes back as x^ = q s; s is the quantum. All
//! arithmetic is in the type of the array, with one rounding per operation, to nearest even
//! (`__fmul_rn`, `__fadd_rn`, `__int2float_rn` and their double counterparts). In 32-bit words,
//!
//!   q = bits(x * (1 / s) + M) - bits(M),   M = 1.5 * 2^23   (FP64: M = 1.5 * 2^52, low words)
//!
//! which rounds half to even. A value is coded as q only if |x - x^| <= bound holds in the
//! arithmetic of the decoder. The codecs store the other values raw: NaN, infinities, values with a
//! magnitude of q of 2^22 or more (FP32), and values with an unlucky rounding.
//!
//! The quantum is a little less than twice the bound, so that the roundings of x^ stay within the
//! bound. It is the unit, which is twice the bound, times 511/512, 31/32 or 3/4, computed in FP64
//! and rounded towards zero to the type of the array. For the same reason |x - x^| is compared with
//! the bound times 1 - 2^-20.
//!
//! A bound t of the root mean square does not limit single errors. The encoder first measures
//! whether the unit s = sqrt(12) t keeps the root mean square, as it does for errors spread evenly
//! over +-s/2. If it does, the encoder uses the quantum 511/512 s alone, and |x - x^| may be as
//! large as s. If it does not, every single value keeps the bound t.

use super::coder::{Bound, Shape};
use super::simd::{dispatch, Kernel, Level};
use crate::error::{fail, Result};
use crate::scalar::Real;

/// Number of values of a line.
pub(super) const LINE: usize = 32;
/// Number of lines that are processed together, so that loops are long enough to be vectorised.
pub(super) const LINES: usize = 64;
/// Number of values of `LINES` lines.
pub(super) const TILE: usize = LINES * LINE;
/// Number of rows of eight values in a tile.
pub(super) const ROWS: usize = TILE / 8;
/// The integers of a tile, line by line.
pub(super) type Numbers = [i32; TILE];

/// A type whose values can be quantised.
pub(super) trait Quantised: Real {
    /// A sum with `MAGIC` is rounded to an integer, because its last place weighs 1.
    const MAGIC: Self;
    /// Smallest and largest bound: a larger bound is reduced to the largest; with a smaller bound
    /// the array is not coded.
    const BOUNDS: [f64; 2];

    /// Returns the integer that was added to `MAGIC` to give `sum`.
    #[inline(always)]
    fn whole(sum: Self) -> i32 {
        sum.to_bits().wrapping_sub(Self::MAGIC.to_bits()) as i32
    }

    /// Rounds a positive `x` towards zero to this type.
    fn down(x: f64) -> Self {
        let near = Self::from_f64(x);
        if near.to_f64() > x {
            Self::from_bits(near.to_bits() - 1)
        } else {
            near
        }
    }
}

/// Returns 2^n.
const fn power(n: i64) -> f64 {
    f64::from_bits(((1023 + n) as u64) << 52)
}

impl Quantised for f32 {
    const MAGIC: Self = 12_582_912.0;
    const BOUNDS: [f64; 2] = [power(-128), power(121)];
}

impl Quantised for f64 {
    const MAGIC: Self = 6_755_399_441_055_744.0;
    const BOUNDS: [f64; 2] = [power(-930), power(1001)];
}

/// The ratios quantum / unit, exact in FP64. The index is the level of a quantum.
const LEVELS: [f64; 3] = [511.0 / 512.0, 31.0 / 32.0, 3.0 / 4.0];

/// A quantum and the bound that its quantised values must keep.
#[derive(Clone, Copy)]
pub(super) struct Quantum<T> {
    /// The quantum s.
    pub step: T,
    /// 1 / s, rounded.
    inverse: T,
    /// Largest |x - x^| of a value that is coded.
    bound: T,
}

impl<T: Quantised> Quantum<T> {
    /// Returns the quanta of a unit, one per level, all with the same bound.
    pub fn levels(unit: f64, bound: f64) -> [Self; 3] {
        // If the rounded difference keeps this bound, the exact difference keeps the given one.
        let bound = T::down(bound * (1.0 - power(-20)));
        LEVELS.map(|level| {
            let step = T::down(unit * level);
            Quantum { step, inverse: T::from_i32(1) / step, bound }
        })
    }

    /// Quantises the values; returns false if one of them does not come back within the bound.
    #[inline(always)]
    pub fn quantise<const N: usize>(&self, x: &[T; N], q: &mut [i32; N]) -> bool {
        let mut good = 1;
        for i in 0..N {
            q[i] = T::whole(x[i] * self.inverse + T::MAGIC);
            let error = (x[i] - T::from_i32(q[i]) * self.step).abs();
            // The comparison is false for NaN.
            good &= (error <= self.bound) as i32;
        }
        good != 0
    }
}

/// The unit and the bound with which a coder quantises an array.
#[derive(Clone, Copy)]
pub(super) struct Choice {
    /// The unit that the encoder writes to the stream.
    pub unit: f64,
    /// Largest |x - x^| of a value that is coded.
    pub bound: f64,
    /// Number of levels that the encoder may try, from the first on.
    pub levels: usize,
}

/// Chooses the unit and the bound for an array. Returns `None` if the bound is NaN or too small.
pub(super) fn choose<T: Quantised>(x: &[T], bound: Bound) -> Option<Choice> {
    const SQRT_12: f64 = 3.464_101_615_137_754_6;
    let [least, most] = T::BOUNDS;
    // The filter gives `None` for NaN.
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

/// Computes whether the mean square of the errors is at most target^2. Errors are summed as the
/// integers |x - x^| / s * 2^12, rounded up, so that the sum does not depend on the order. Values
/// that the quantum cannot code do not count, because the codec stores them raw.
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
            // Infinities fill the places behind the last value: they are not counted as coded.
            let mut x = [T::from_f64(f64::INFINITY); TILE];
            x[..part.len()].copy_from_slice(part);
            // A lane sums 64 squares below 2^25 each: no overflow.
            let (mut sums, mut counts) = ([0u32; LINE], [0u32; LINE]);
            for line in x.as_chunks::<LINE>().0 {
                for i in 0..LINE {
                    let error = (line[i]
                        - T::from_i32(T::whole(line[i] * inverse + T::MAGIC)) * step)
                        .abs();
                    let coded = (error <= bound) as u32;
                    // The product is rounded to nearest; 1 more makes it an upper bound.
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
        // The integers may be too small by the roundings of `inverse` and of the product,
        // relatively 2^-22 at most.
        let unit = step.to_f64() / self.target / SCALE as f64 * (1.0 + power(-20));
        sum as f64 * unit * unit <= count as f64
    }
}

/// Returns a transposed 8 x 8 matrix of bits: bit j of byte i becomes bit i of byte j.
#[inline(always)]
pub(super) fn transposed(mut bits: u64) -> u64 {
    let swap = (bits ^ (bits >> 7)) & 0x00AA_00AA_00AA_00AA;
    bits ^= swap ^ (swap << 7);
    let swap = (bits ^ (bits >> 14)) & 0x0000_CCCC_0000_CCCC;
    bits ^= swap ^ (swap << 14);
    let swap = (bits ^ (bits >> 28)) & 0x0000_0000_F0F0_F0F0;
    bits ^ swap ^ (swap << 28)
}

/// Transposes the bits of every eight bytes into a row: bit i of byte j of the row is bit j of byte
/// i, or, with `BACKWARDS`, bit j of byte 7 - i.
#[inline(always)]
pub(super) fn to_rows<const BACKWARDS: bool>(bytes: &[u8; TILE], rows: &mut [u8; TILE]) {
    for j in 0..ROWS {
        let eight = word(bytes, 8 * j);
        put_word(rows, 8 * j, transposed(if BACKWARDS { eight.swap_bytes() } else { eight }));
    }
}

/// Transposes rows back into bytes: the inverse of `to_rows`.
#[inline(always)]
pub(super) fn to_bytes<const BACKWARDS: bool>(rows: &[u8; TILE], bytes: &mut [u8; TILE]) {
    for j in 0..ROWS {
        let eight = transposed(word(rows, 8 * j));
        put_word(bytes, 8 * j, if BACKWARDS { eight.swap_bytes() } else { eight });
    }
}

/// Returns the low `bytes` bytes of a word, or the whole word if `bytes` is 8 or more.
#[inline(always)]
pub(super) fn low_bytes(word: u64, bytes: usize) -> u64 {
    if bytes >= 8 {
        word
    } else {
        word & ((1 << (8 * bytes)) - 1)
    }
}

/// Returns how many bytes, from the lowest on, hold all bits of a word that are set.
#[inline(always)]
pub(super) fn used_bytes(word: u64) -> usize {
    (71 - word.leading_zeros() as usize) / 8
}

/// Reads eight bytes as a little-endian word. `at + 8` must be within the slice.
#[inline(always)]
pub(super) fn word(from: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&from[at..at + 8]);
    u64::from_le_bytes(bytes)
}

/// Writes a word as eight little-endian bytes. `at + 8` must be within the slice.
#[inline(always)]
pub(super) fn put_word(to: &mut [u8], at: usize, word: u64) {
    to[at..at + 8].copy_from_slice(&word.to_le_bytes());
}

/// Subtracts from every number the number `BACK` places before it, if there is one. The compiler
/// vectorises loops of constant length over the whole array best.
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

/// Replaces every number by the sum of the numbers up to it in its line of 32; with `chain`, in the
/// whole tile.
#[inline(always)]
pub(super) fn scan(x: &mut Numbers, chain: bool, level: Level) {
    #[cfg(target_arch = "x86_64")]
    match level {
        // SAFETY: `level` is an instruction set that the machine has.
        #[cfg(avx512)]
        Level::Avx512 => return unsafe { scan_avx512(x, chain) },
        // SAFETY: `level` is an instruction set that the machine has.
        Level::Avx2 => return unsafe { scan_avx2(x, chain) },
        _ => {}
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
        // SAFETY: `x` has 8 numbers, as many as the vector.
        let mut sum = unsafe { _mm256_loadu_si256(x.as_ptr().cast()) };
        sum = _mm256_add_epi32(sum, _mm256_slli_si256::<4>(sum));
        sum = _mm256_add_epi32(sum, _mm256_slli_si256::<8>(sum));
        // The total of the low half of the vector, to be added to the high half.
        let low = _mm256_permute2x128_si256::<0x08>(sum, sum);
        sum = _mm256_add_epi32(sum, _mm256_shuffle_epi32::<0xFF>(low));
        // SAFETY: `x` has 8 numbers, as many as the vector.
        unsafe { _mm256_storeu_si256(x.as_mut_ptr().cast(), _mm256_add_epi32(sum, carry)) };
        carry = _mm256_add_epi32(carry, _mm256_permutevar8x32_epi32(sum, last));
    }
}

#[cfg(avx512)]
#[allow(clippy::incompatible_msrv)] // `avx512` is set where the compiler has these functions.
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
        // SAFETY: `x` has 16 numbers, as many as the vector.
        let mut sum = unsafe { _mm512_loadu_si512(x.as_ptr().cast()) };
        sum = _mm512_add_epi32(sum, _mm512_alignr_epi32::<15>(sum, zero));
        sum = _mm512_add_epi32(sum, _mm512_alignr_epi32::<14>(sum, zero));
        sum = _mm512_add_epi32(sum, _mm512_alignr_epi32::<12>(sum, zero));
        sum = _mm512_add_epi32(sum, _mm512_alignr_epi32::<8>(sum, zero));
        // SAFETY: `x` has 16 numbers, as many as the vector.
        unsafe { _mm512_storeu_si512(x.as_mut_ptr().cast(), _mm512_add_epi32(sum, carry)) };
        carry = _mm512_add_epi32(carry, _mm512_permutexvar_epi32(last, sum));
    }
}

/// Fails for arrays that no memory can hold: the codecs compute sizes of streams without checks for
/// overflow.
pub(super) fn check_size(shape: &Shape) -> Result<()> {
    let values = shape.n.into_iter().try_fold(1usize, usize::checked_mul);
    match values.filter(|&values| values <= usize::MAX / 32) {
        Some(_) => Ok(()),
        None => fail!(Shape, "an array of {:?} values is too large", shape.n),
    }
}

#[cfg(test)]
#[path = "quantize_tests.rs"]
pub(super) mod tests;
