//! The values of a block, and the fixed-point numbers (integers) that stand for them.

use crate::scalar::Real;
use std::num::Wrapping;
use std::ops::{Add, Shl, Shr, Sub};

/// A type of values; `N` values fill 64 bytes.
pub trait Value<const N: usize>: Real {
    /// The fixed-point type, an integer of the same size. Its arithmetic wraps.
    type Int: Int;
    /// Number of bits of the exponent.
    const EXPONENT: u32;

    /// Returns the bits of the value as an integer.
    fn int_bits(self) -> Self::Int;
    /// Returns the value with these bits.
    fn of_int_bits(bits: Self::Int) -> Self;
    /// Returns the integer part of `self * scale`.
    ///
    /// # Safety
    /// The magnitude of the product must be less than 2^(width - 1), where width is the number of
    /// bits of `Int`.
    unsafe fn quantized(self, scale: Self) -> Self::Int;
    /// Returns the value nearest to `int`, times `scale`, a power of two.
    fn value(int: Self::Int, scale: Self) -> Self;
    /// Returns the lanes as 8 words of 64 bits.
    fn words(lanes: [Self::Int; N]) -> [u64; 8];
    /// Returns the 8 words as lanes.
    fn lanes(words: [u64; 8]) -> [Self::Int; N];
}

/// Integers in two's complement whose arithmetic wraps.
pub trait Int:
    Copy
    + Default
    + Ord
    + Send
    + Sync
    + 'static
    + Add<Output = Self>
    + Sub<Output = Self>
    + Shl<usize, Output = Self>
    + Shr<usize, Output = Self>
{
    /// The smallest integer.
    const LEAST: Self;
    /// Returns all bits but the sign.
    fn magnitude(self) -> Self;
    /// Returns a >> bits, which must fit into 32 bits.
    fn above(self, bits: u32) -> u32;
    /// Converts two's complement to base -2 (negabinary).
    fn negabinary(self) -> Self;
    /// Converts base -2 (negabinary) to two's complement.
    fn binary(self) -> Self;
}

macro_rules! value {
    ($float:ident, $int:ident, $uint:ident, $lanes:literal, $exponent:literal) => {
        impl Value<$lanes> for $float {
            type Int = Wrapping<$int>;
            const EXPONENT: u32 = $exponent;

            #[inline(always)]
            fn int_bits(self) -> Wrapping<$int> {
                Wrapping($float::to_bits(self) as $int)
            }
            #[inline(always)]
            fn of_int_bits(bits: Wrapping<$int>) -> Self {
                $float::from_bits(bits.0 as $uint)
            }
            #[inline(always)]
            unsafe fn quantized(self, scale: Self) -> Wrapping<$int> {
                // SAFETY: the caller promises that the product fits into the integer.
                Wrapping(unsafe { (self * scale).to_int_unchecked() })
            }
            #[inline(always)]
            fn value(int: Wrapping<$int>, scale: Self) -> Self {
                int.0 as $float * scale
            }
            #[inline(always)]
            fn words(lanes: [Wrapping<$int>; $lanes]) -> [u64; 8] {
                let lanes = lanes.map(|int| int.0.to_le());
                // SAFETY: both types have 64 bytes, and every bit pattern is valid for both.
                unsafe { std::mem::transmute::<[$int; $lanes], [u64; 8]>(lanes) }.map(u64::from_le)
            }
            #[inline(always)]
            fn lanes(words: [u64; 8]) -> [Wrapping<$int>; $lanes] {
                // SAFETY: both types have 64 bytes, and every bit pattern is valid for both.
                unsafe { std::mem::transmute::<[u64; 8], [$int; $lanes]>(words.map(u64::to_le)) }
                    .map(|int| Wrapping($int::from_le(int)))
            }
        }

        impl Int for Wrapping<$int> {
            const LEAST: Self = Wrapping($int::MIN);
            #[inline(always)]
            fn magnitude(self) -> Self {
                self & Wrapping($int::MAX)
            }
            #[inline(always)]
            fn above(self, bits: u32) -> u32 {
                (self.0 >> bits) as u32
            }
            #[inline(always)]
            fn negabinary(self) -> Self {
                const TWOS: Wrapping<$int> = Wrapping(($uint::MAX / 3 * 2) as $int);
                (self + TWOS) ^ TWOS
            }
            #[inline(always)]
            fn binary(self) -> Self {
                const TWOS: Wrapping<$int> = Wrapping(($uint::MAX / 3 * 2) as $int);
                (self ^ TWOS) - TWOS
            }
        }
    };
}

value!(f32, i32, u32, 16, 8);
value!(f64, i64, u64, 8, 11);
