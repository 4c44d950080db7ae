//! The integer of a value, and the bits that the value loses by the alignment.

use crate::scalar::Real;

/// How the values of a tile are aligned.
#[derive(Clone, Copy)]
pub(super) struct Scale {
    /// E, the exponent field to which the values are aligned.
    pub top: u32,
    /// z, the lowest bits of the significands, which are 0 in all values.
    pub zeros: u32,
    /// Digits that a value with exponent field E keeps, and digits that it loses.
    pub kept: u32,
    pub lost: u32,
}

/// A type whose values are split into an integer and lost bits.
pub(super) trait Exact: Real {
    /// An integer with the bits of a value.
    type Word: Copy + Default + Into<u64> + Send + 'static;
    /// K, the most digits of the integers.
    const KEPT: u32;
    /// The exponent field of infinities and NaN.
    const NOT_FINITE: u32;

    /// Number of values whose lost bits fit a word behind the first seven bits.
    const TOGETHER: usize;

    /// Returns the exponent field, the significand and the bits of the value.
    fn fields(self) -> (u32, Self::Word, Self::Word);
    /// Returns the bits that `a` or `b` has.
    fn or(a: Self::Word, b: Self::Word) -> Self::Word;
    /// Returns the low bits of `bits`.
    fn word(bits: u64) -> Self::Word;
    /// Returns the integer, the number of lost bits and the lost bits.
    fn split(self, scale: Scale) -> (i32, i32, Self::Word);
    /// Returns the number of bits that the value with this integer has lost.
    fn count(integer: i32, scale: Scale) -> i32;
    /// Returns the value with this integer and this number of lost bits; they are the lowest ones of
    /// `lost`.
    fn join(integer: i32, count: i32, lost: Self::Word, scale: Scale) -> Self;

    /// Returns the scale of a tile with E and z; `None` if no value has them.
    fn scale(top: u32, zeros: u32) -> Option<Scale> {
        let digits = Self::DIGITS.checked_sub(zeros).filter(|&digits| digits > 0)?;
        let kept = digits.min(Self::KEPT);
        (1..Self::NOT_FINITE).contains(&top).then_some(Scale {
            top,
            zeros,
            kept,
            lost: digits - kept,
        })
    }
}

macro_rules! exact {
    ($float:ident, $bits:ident, $kept:literal, $together:literal) => {
        impl Exact for $float {
            type Word = $bits;
            const KEPT: u32 = $kept;
            const TOGETHER: usize = $together;
            const NOT_FINITE: u32 = (1 << ($bits::BITS - Self::MANTISSA_DIGITS)) - 1;

            #[inline(always)]
            fn fields(self) -> (u32, $bits, $bits) {
                let bits = $float::to_bits(self);
                let exponent = (bits >> (Self::MANTISSA_DIGITS - 1)) as u32 & Self::NOT_FINITE;
                let fraction = bits & ((1 << (Self::MANTISSA_DIGITS - 1)) - 1);
                (
                    exponent,
                    fraction | ((exponent != 0) as $bits) << (Self::MANTISSA_DIGITS - 1),
                    bits,
                )
            }

            #[inline(always)]
            fn or(a: $bits, b: $bits) -> $bits {
                a | b
            }

            #[inline(always)]
            fn word(bits: u64) -> $bits {
                bits as $bits
            }

            #[inline(always)]
            fn split(self, scale: Scale) -> (i32, i32, $bits) {
                let (exponent, significand, bits) = self.fields();
                let significand = significand >> scale.zeros;
                let count = (scale.top - exponent.max(1) + scale.lost).min($bits::BITS - 1);
                let (magnitude, sign) =
                    ((significand >> count) as i32, -((bits >> ($bits::BITS - 1)) as i32));
                let count = if magnitude == 0 { 0 } else { count };
                (
                    (magnitude ^ sign) - sign,
                    count as i32,
                    significand & (((1 as $bits) << count).wrapping_sub(1)),
                )
            }

            #[inline(always)]
            fn count(integer: i32, scale: Scale) -> i32 {
                let digits = 32 - integer.unsigned_abs().leading_zeros();
                let shift = scale.kept.saturating_sub(digits).min(scale.top - 1);
                (if integer == 0 { 0 } else { shift + scale.lost }) as i32
            }

            #[inline(always)]
            fn join(integer: i32, count: i32, lost: $bits, scale: Scale) -> Self {
                let count = count as u32;
                let lost = lost & (((1 as $bits) << count).wrapping_sub(1));
                let significand = (integer.unsigned_abs() as $bits) << count | lost;
                let sign = ((integer as u32 >> 31) as $bits) << ($bits::BITS - 1);
                // The hidden bit of the significand adds 1 to the exponent field.
                let exponent = (scale.top + scale.lost).wrapping_sub(1 + count) as $bits;
                let bits = (exponent << (Self::MANTISSA_DIGITS - 1))
                    .wrapping_add(significand << scale.zeros);
                $float::from_bits(if integer == 0 { 0 } else { bits | sign })
            }
        }
    };
}

exact!(f32, u32, 24, 2);
exact!(f64, u64, 28, 1);
