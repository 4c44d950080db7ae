//! The types of a field's values, and the floating-point ones that codecs compute with.

use crate::error::{fail, Result};
use std::fmt::Debug;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

/// The type of a field's values. The numbers are those of `gpuzip_field_t.type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Scalar {
    /// 32-bit IEEE.
    F32 = 0,
    /// 64-bit IEEE.
    F64 = 1,
    /// 8-bit integer.
    I8 = 2,
    /// 16-bit integer.
    I16 = 3,
    /// 32-bit integer.
    I32 = 4,
    /// 64-bit integer.
    I64 = 5,
    /// Complex: two 32-bit IEEE.
    ComplexF32 = 6,
    /// Complex: two 64-bit IEEE.
    ComplexF64 = 7,
    /// A byte of whatever the application keeps there.
    Byte = 8,
}

impl Scalar {
    /// All types, each at its number.
    pub const ALL: [Scalar; 9] = [
        Scalar::F32,
        Scalar::F64,
        Scalar::I8,
        Scalar::I16,
        Scalar::I32,
        Scalar::I64,
        Scalar::ComplexF32,
        Scalar::ComplexF64,
        Scalar::Byte,
    ];

    /// The type with this number, if there is one.
    pub fn of_number(number: i32) -> Option<Self> {
        usize::try_from(number).ok().and_then(|number| Self::ALL.get(number)).copied()
    }

    /// Bytes of one value.
    pub fn bytes(self) -> u64 {
        match self {
            Scalar::I8 | Scalar::Byte => 1,
            Scalar::I16 => 2,
            Scalar::F32 | Scalar::I32 => 4,
            Scalar::F64 | Scalar::I64 | Scalar::ComplexF32 => 8,
            Scalar::ComplexF64 => 16,
        }
    }

    /// Whether codecs work on such values. A snapshot has all others as they are, whatever the
    /// codec.
    pub fn is_coded(self) -> bool {
        matches!(self, Scalar::F32 | Scalar::F64)
    }

    /// The error of a codec that is asked to code such values.
    pub fn not_coded<T>(self) -> Result<T> {
        fail!(
            Unsupported,
            "{}: codecs code FP32 and FP64; values of other types are stored as they are",
            self.name()
        )
    }

    /// Its name in the C ABI.
    pub fn name(self) -> &'static str {
        match self {
            Scalar::F32 => "GPUZIP_TYPE_F32",
            Scalar::F64 => "GPUZIP_TYPE_F64",
            Scalar::I8 => "GPUZIP_TYPE_I8",
            Scalar::I16 => "GPUZIP_TYPE_I16",
            Scalar::I32 => "GPUZIP_TYPE_I32",
            Scalar::I64 => "GPUZIP_TYPE_I64",
            Scalar::ComplexF32 => "GPUZIP_TYPE_COMPLEX_F32",
            Scalar::ComplexF64 => "GPUZIP_TYPE_COMPLEX_F64",
            Scalar::Byte => "GPUZIP_TYPE_BYTE",
        }
    }
}

/// A floating-point type that codecs work on. Arithmetic is IEEE and never fused, so that every
/// machine gets the same bits.
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
    /// Its number in the C ABI.
    const SCALAR: Scalar;
    /// Bytes of a value.
    const BYTES: usize;
    /// Bits of the significand, the hidden one included.
    const DIGITS: u32;

    /// The nearest value.
    fn from_f64(x: f64) -> Self;
    /// Exact.
    fn to_f64(self) -> f64;
    /// The absolute value.
    fn abs(self) -> Self;
    /// Neither NaN nor infinite.
    fn is_finite(self) -> bool;
    /// The bits, in the low end of a word.
    fn to_bits(self) -> u64;
    /// The value of these bits; those beyond its size do not count.
    fn from_bits(bits: u64) -> Self;
    /// An array of these values.
    fn array(x: &[Self]) -> Array<'_>;
    /// The same, to be filled.
    fn array_mut(x: &mut [Self]) -> ArrayMut<'_>;
    /// The array as one of this type.
    fn of<'a>(array: Array<'a>) -> Option<&'a [Self]>;
}

macro_rules! real {
    ($float:ident, $bits:ident, $variant:ident, $digits:literal) => {
        impl Real for $float {
            const SCALAR: Scalar = Scalar::$variant;
            const BYTES: usize = size_of::<$float>();
            const DIGITS: u32 = $digits;

            #[inline(always)]
            fn from_f64(x: f64) -> Self {
                x as $float
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
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
            fn array(x: &[Self]) -> Array<'_> {
                Array::$variant(x)
            }
            fn array_mut(x: &mut [Self]) -> ArrayMut<'_> {
                ArrayMut::$variant(x)
            }
            fn of<'a>(array: Array<'a>) -> Option<&'a [Self]> {
                match array {
                    Array::$variant(values) => Some(values),
                    _ => None,
                }
            }
        }
    };
}

real!(f32, u32, F32, 24);
real!(f64, u64, F64, 53);

/// An array to be coded.
#[derive(Clone, Copy, Debug)]
pub enum Array<'a> {
    /// FP32 values.
    F32(&'a [f32]),
    /// FP64 values.
    F64(&'a [f64]),
}

/// An array to be filled.
#[derive(Debug)]
pub enum ArrayMut<'a> {
    /// FP32 values.
    F32(&'a mut [f32]),
    /// FP64 values.
    F64(&'a mut [f64]),
}

/// The bytes of values; any bytes are values.
macro_rules! bytes {
    ($values:expr) => {
        // SAFETY: the memory of the slice, seen as bytes for as long as the slice is borrowed.
        unsafe { std::slice::from_raw_parts($values.as_ptr().cast::<u8>(), size_of_val($values)) }
    };
}

impl<'a> Array<'a> {
    /// The values as bytes.
    pub fn bytes(self) -> &'a [u8] {
        match self {
            Array::F32(x) => bytes!(x),
            Array::F64(x) => bytes!(x),
        }
    }
}

impl ArrayMut<'_> {
    /// The values as bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let (address, bytes) = match self {
            ArrayMut::F32(x) => (x.as_mut_ptr().cast::<u8>(), size_of_val(*x)),
            ArrayMut::F64(x) => (x.as_mut_ptr().cast::<u8>(), size_of_val(*x)),
        };
        // SAFETY: the memory of the slice, seen as bytes while it is borrowed; any bytes are
        // values.
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
