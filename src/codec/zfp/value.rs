//! The values of a block, and the fixed-point numbers that stand for them.

use crate::scalar::Real;

/// A type of values, `N` of which fill 64 bytes.
pub trait Value<const N: usize>: Real {
    /// Fixed-point numbers of the same size. Their arithmetic wraps.
    type Int: Int;
    /// Bits of the exponent.
    const EXPONENT: u32;

    /// The bits.
    fn int_bits(self) -> Self::Int;
    /// The value of these bits.
    fn of_int_bits(bits: Self::Int) -> Self;
    /// The product's integer part, which is less than 2^(width - 1).
    ///
    /// # Safety
    /// It must be.
    unsafe fn quantized(self, scale: Self) -> Self::Int;
    /// The nearest value times a power of two.
    fn value(int: Self::Int, scale: Self) -> Self;
    /// The lanes as words.
    fn words(lanes: [Self::Int; N]) -> [u64; 8];
    /// The words as lanes.
    fn lanes(words: [u64; 8]) -> [Self::Int; N];
}

/// Two's complement.
pub trait Int: Copy + Default + Ord + Send + Sync + 'static {
    /// The least one.
    const LEAST: Self;
    /// The bits but the sign.
    fn magnitude(self) -> Self;
    /// a + b
    fn plus(self, b: Self) -> Self;
    /// a - b
    fn minus(self, b: Self) -> Self;
    /// floor(a / 2)
    fn half(self) -> Self;
    /// 2a
    fn twice(self) -> Self;
    /// a >> bits, as a small number
    fn above(self, bits: u32) -> u32;
    /// To base -2.
    fn negabinary(self) -> Self;
    /// From base -2.
    fn binary(self) -> Self;
}

macro_rules! value {
    ($float:ident, $int:ident, $uint:ident, $lanes:literal, $exponent:literal) => {
        impl Value<$lanes> for $float {
            type Int = $int;
            const EXPONENT: u32 = $exponent;

            #[inline(always)]
            fn int_bits(self) -> $int {
                $float::to_bits(self) as $int
            }
            #[inline(always)]
            fn of_int_bits(bits: $int) -> Self {
                $float::from_bits(bits as $uint)
            }
            #[inline(always)]
            unsafe fn quantized(self, scale: Self) -> $int {
                // SAFETY: the caller's promise.
                unsafe { (self * scale).to_int_unchecked() }
            }
            #[inline(always)]
            fn value(int: $int, scale: Self) -> Self {
                int as $float * scale
            }
            #[inline(always)]
            fn words(lanes: [$int; $lanes]) -> [u64; 8] {
                // SAFETY: 64 bytes each, of which all values are valid.
                unsafe { std::mem::transmute::<[$int; $lanes], [u64; 8]>(lanes.map($int::to_le)) }
                    .map(u64::from_le)
            }
            #[inline(always)]
            fn lanes(words: [u64; 8]) -> [$int; $lanes] {
                // SAFETY: 64 bytes each, of which all values are valid.
                unsafe { std::mem::transmute::<[u64; 8], [$int; $lanes]>(words.map(u64::to_le)) }
                    .map($int::from_le)
            }
        }

        impl Int for $int {
            const LEAST: Self = $int::MIN;
            #[inline(always)]
            fn magnitude(self) -> Self {
                self & $int::MAX
            }
            #[inline(always)]
            fn plus(self, b: Self) -> Self {
                self.wrapping_add(b)
            }
            #[inline(always)]
            fn minus(self, b: Self) -> Self {
                self.wrapping_sub(b)
            }
            #[inline(always)]
            fn half(self) -> Self {
                self >> 1
            }
            #[inline(always)]
            fn twice(self) -> Self {
                self << 1
            }
            #[inline(always)]
            fn above(self, bits: u32) -> u32 {
                (self >> bits) as u32
            }
            #[inline(always)]
            fn negabinary(self) -> Self {
                const TWOS: $int = ($uint::MAX / 3 * 2) as $int;
                self.wrapping_add(TWOS) ^ TWOS
            }
            #[inline(always)]
            fn binary(self) -> Self {
                const TWOS: $int = ($uint::MAX / 3 * 2) as $int;
                (self ^ TWOS).wrapping_sub(TWOS)
            }
        }
    };
}

value!(f32, i32, u32, 16, 8);
value!(f64, i64, u64, 8, 11);
