//! The integer of a value, and the bits that the value loses by the alignment.

use crate::scalar::Real;
use std::ops::BitOr;

/// The most digits of an integer.
const KEPT: u32 = 31;
/// The most bits that a value loses.
pub(super) const MOST: usize = 14;

/// How the values of a tile are aligned.
#[derive(Clone, Copy)]
pub(super) struct Scale {
    /// E, the exponent field to which the values are aligned.
    pub top: u32,
    /// z, the lowest bits of the significands, which are 0 in all values.
    pub zeros: u32,
    /// Low bytes of the significands behind the zeros that are stored as they are.
    pub low: u32,
    /// Digits that a value with exponent field E keeps.
    pub kept: u32,
}

impl Scale {
    /// Returns the number of bits that the value with this integer has lost.
    #[inline(always)]
    pub(super) fn count(&self, integer: i32) -> u16 {
        let digits = 32 - integer.unsigned_abs().leading_zeros();
        let count = self.kept.saturating_sub(digits).min(self.top - 1).min(MOST as u32);
        (if integer == 0 { 0 } else { count }) as u16
    }
}

/// A type whose values are split into an integer and lost bits.
pub(super) trait Exact: Real {
    /// An integer with the bits of a value.
    type Word: Copy + Default + PartialEq + Into<u64> + BitOr<Output = Self::Word>;
    /// The exponent field of infinities and NaN.
    const NOT_FINITE: u32;

    /// Returns the exponent field, the significand and the bits of the value.
    fn fields(self) -> (u32, Self::Word, Self::Word);
    /// Returns the integer, the number of lost bits and the lost bits.
    fn split(self, scale: Scale) -> (i32, u16, u16);
    /// Returns the value with this integer and this number of lost bits; they are the lowest ones of
    /// `lost`. Its low bytes are 0.
    fn join(integer: i32, count: u16, lost: u16, scale: Scale) -> Self;

    /// Returns the scale of a tile with E and z; `None` if no value has them.
    fn scale(top: u32, zeros: u32) -> Option<Scale> {
        let digits = Self::DIGITS.checked_sub(zeros).filter(|&digits| digits > 0)?;
        let low = digits.saturating_sub(KEPT).div_ceil(8);
        let of_tile = Scale { top, zeros, low, kept: digits - 8 * low };
        (1..Self::NOT_FINITE).contains(&top).then_some(of_tile)
    }
}

macro_rules! exact {
    ($float:ident, $bits:ident) => {
        impl Exact for $float {
            type Word = $bits;
            const NOT_FINITE: u32 = (1 << ($bits::BITS - Self::MANTISSA_DIGITS)) - 1;

            #[inline(always)]
            fn fields(self) -> (u32, $bits, $bits) {
                let bits = $float::to_bits(self);
                let exponent = (bits >> (Self::MANTISSA_DIGITS - 1)) as u32 & Self::NOT_FINITE;
                let fraction = bits & ((1 << (Self::MANTISSA_DIGITS - 1)) - 1);
                let hidden = ((exponent != 0) as $bits) << (Self::MANTISSA_DIGITS - 1);
                (exponent, fraction | hidden, bits)
            }

            #[inline(always)]
            fn split(self, scale: Scale) -> (i32, u16, u16) {
                let (exponent, significand, bits) = self.fields();
                let significand = (significand >> (scale.zeros + 8 * scale.low)) as u32;
                let count = scale.top - exponent.max(1);
                let magnitude = significand >> if count > MOST as u32 { 31 } else { count };
                let sign = -((bits >> ($bits::BITS - 1)) as i32);
                let count = if magnitude == 0 { 0 } else { count };
                let lost = significand & ((1 << (count & 31)) - 1);
                ((magnitude as i32 ^ sign) - sign, count as u16, lost as u16)
            }

            #[inline(always)]
            fn join(integer: i32, count: u16, lost: u16, scale: Scale) -> Self {
                let count = count as u32;
                let lost = lost as u32 & ((1 << (count & 31)) - 1);
                let significand = (integer.unsigned_abs() << (count & 31) | lost) as $bits;
                let sign = ((integer as u32 >> 31) as $bits) << ($bits::BITS - 1);
                // The hidden bit of the significand adds 1 to the exponent field.
                let exponent = scale.top.wrapping_sub(1 + count) as $bits;
                let bits = (exponent << (Self::MANTISSA_DIGITS - 1))
                    .wrapping_add(significand << (scale.zeros + 8 * scale.low));
                $float::from_bits(if integer == 0 { 0 } else { bits | sign })
            }
        }
    };
}

exact!(f32, u32);
exact!(f64, u64);
