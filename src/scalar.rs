//! The types of a field's values, and the floating-point types that codecs compute with.

use crate::error::{fail, Result};
use crate::named::named;
use std::fmt::Debug;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

named! {
    /// The type of a field's values. The numbers are those of `gpuzip_field_t.type`, and the places
    /// in `ALL`; the names are those of the C ABI.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[repr(i32)]
    pub enum Scalar {
        /// 32-bit floating point, IEEE 754 binary32.
        F32 = 0 => "GPUZIP_TYPE_F32",
        /// 64-bit floating point, IEEE 754 binary64.
        F64 = 1 => "GPUZIP_TYPE_F64",
        /// 8-bit integer.
        I8 = 2 => "GPUZIP_TYPE_I8",
        /// 16-bit integer.
        I16 = 3 => "GPUZIP_TYPE_I16",
        /// 32-bit integer.
        I32 = 4 => "GPUZIP_TYPE_I32",
        /// 64-bit integer.
        I64 = 5 => "GPUZIP_TYPE_I64",
        /// Complex number of two binary32 values.
        ComplexF32 = 6 => "GPUZIP_TYPE_COMPLEX_F32",
        /// Complex number of two binary64 values.
        ComplexF64 = 7 => "GPUZIP_TYPE_COMPLEX_F64",
        /// A byte without a meaning for gpuzip.
        Byte = 8 => "GPUZIP_TYPE_BYTE",
    }
}

impl Scalar {
    /// Returns the type with this number, if there is one.
    pub fn of_number(number: i32) -> Option<Self> {
        usize::try_from(number).ok().and_then(|number| Self::ALL.get(number)).copied()
    }

    /// Returns the bytes of one value.
    pub fn bytes(self) -> u64 {
        match self {
            Scalar::I8 | Scalar::Byte => 1,
            Scalar::I16 => 2,
            Scalar::F32 | Scalar::I32 => 4,
            Scalar::F64 | Scalar::I64 | Scalar::ComplexF32 => 8,
            Scalar::ComplexF64 => 16,
        }
    }

    /// Returns whether codecs compress values of this type. A snapshot stores values of all other
    /// types uncompressed, whatever the codec.
    pub fn is_coded(self) -> bool {
        matches!(self, Scalar::F32 | Scalar::F64)
    }

    /// Returns the error of a codec that is given values of this type.
    pub fn not_coded<T>(self) -> Result<T> {
        fail!(
            Unsupported,
            "{}: codecs code FP32 and FP64; values of other types are stored as they are",
            self.name()
        )
    }
}

/// A floating-point type that codecs work on. The arithmetic is that of IEEE 754 without fused
/// multiply-add, so that every machine computes the same bits.
pub trait Real:
    Copy
    + Debug
    + Default
    + PartialOrd
    + Send
    + Sync
    + 'static
    + Add<Output = Self>
    + AddAssign
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    /// The type as a [`Scalar`].
    const SCALAR: Scalar;
    /// Bytes of one value.
    const BYTES: usize;
    /// Bits of the significand, the hidden bit included.
    const DIGITS: u32;
    /// Bias of the exponent of the IEEE format.
    const BIAS: i32;

    /// Returns the value nearest to `x`.
    fn from_f64(x: f64) -> Self;
    /// Returns the value as FP64, exactly.
    fn to_f64(self) -> f64;
    /// Returns the value nearest to `i`.
    fn from_i32(i: i32) -> Self;
    /// Returns 2^k, which must be a normal number.
    fn power(k: i32) -> Self;
    /// Returns the absolute value.
    fn abs(self) -> Self;
    /// Returns whether the value is neither NaN nor infinite.
    fn is_finite(self) -> bool;
    /// Returns the bits of the value in the low end of a word.
    fn to_bits(self) -> u64;
    /// Returns the value with these bits; the bits above its size are ignored.
    fn from_bits(bits: u64) -> Self;
    /// Writes the bits of the value to `to`, which has the bytes of one value, little-endian.
    fn put(self, to: &mut [u8]);
    /// Reads the value from the `BYTES` bytes of `from`, little-endian.
    fn get(from: &[u8]) -> Self;
    /// Returns the slice in `array`; `None` if its values have another type.
    fn of<'a>(array: Array<'a>) -> Option<&'a [Self]>;
    /// Returns the slice in `array`, to be written; `None` if its values have another type.
    fn of_mut<'a>(array: ArrayMut<'a>) -> Option<&'a mut [Self]>;
}

macro_rules! real {
    ($float:ident, $bits:ident, $variant:ident, $digits:literal, $bias:literal) => {
        impl Real for $float {
            const SCALAR: Scalar = Scalar::$variant;
            const BYTES: usize = size_of::<$float>();
            const DIGITS: u32 = $digits;
            const BIAS: i32 = $bias;

            #[inline(always)]
            fn from_f64(x: f64) -> Self {
                x as $float
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }
            #[inline(always)]
            fn from_i32(i: i32) -> Self {
                i as $float
            }
            #[inline(always)]
            fn power(k: i32) -> Self {
                $float::from_bits(((k + $bias) as $bits) << ($digits - 1))
            }
            #[inline(always)]
            fn abs(self) -> Self {
                $float::abs(self)
            }
            #[inline(always)]
            fn is_finite(self) -> bool {
                $float::is_finite(self)
            }
            #[inline(always)]
            fn to_bits(self) -> u64 {
                $float::to_bits(self) as u64
            }
            #[inline(always)]
            fn from_bits(bits: u64) -> Self {
                $float::from_bits(bits as $bits)
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
            fn of<'a>(array: Array<'a>) -> Option<&'a [Self]> {
                match array {
                    Array::$variant(values) => Some(values),
                    _ => None,
                }
            }
            fn of_mut<'a>(array: ArrayMut<'a>) -> Option<&'a mut [Self]> {
                match array {
                    ArrayMut::$variant(values) => Some(values),
                    _ => None,
                }
            }
        }
    };
}

real!(f32, u32, F32, 24, 127);
real!(f64, u64, F64, 53, 1023);

/// An array that a codec compresses.
#[derive(Clone, Copy, Debug)]
pub enum Array<'a> {
    /// FP32 values.
    F32(&'a [f32]),
    /// FP64 values.
    F64(&'a [f64]),
}

/// An array that a codec fills.
#[derive(Debug)]
pub enum ArrayMut<'a> {
    /// FP32 values.
    F32(&'a mut [f32]),
    /// FP64 values.
    F64(&'a mut [f64]),
}

impl<'a> Array<'a> {
    /// Returns the number of values.
    pub fn count(self) -> usize {
        match self {
            Array::F32(x) => x.len(),
            Array::F64(x) => x.len(),
        }
    }

    /// Returns the memory of the values as bytes.
    pub fn bytes(self) -> &'a [u8] {
        let (address, bytes) = match self {
            Array::F32(x) => (x.as_ptr().cast(), size_of_val(x)),
            Array::F64(x) => (x.as_ptr().cast(), size_of_val(x)),
        };
        // SAFETY: the bytes are the memory of the slice, and are borrowed as long as the slice.
        unsafe { std::slice::from_raw_parts(address, bytes) }
    }
}

impl ArrayMut<'_> {
    /// Returns the memory of the values as bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let (address, bytes) = match self {
            ArrayMut::F32(x) => (x.as_mut_ptr().cast::<u8>(), size_of_val(*x)),
            ArrayMut::F64(x) => (x.as_mut_ptr().cast::<u8>(), size_of_val(*x)),
        };
        // SAFETY: the bytes of the slice, borrowed as long as it; every bit pattern is a value.
        unsafe { std::slice::from_raw_parts_mut(address, bytes) }
    }

    /// Sets all values to `x`.
    pub fn fill(&mut self, x: f64) {
        match self {
            ArrayMut::F32(values) => values.fill(x as f32),
            ArrayMut::F64(values) => values.fill(x),
        }
    }
}
