//! What a codec does with one array.

use crate::error::Result;
use crate::scalar::Scalar;
use crate::scalar::{Array, ArrayMut};

/// What the error of an array must not exceed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// |x - decoded x| <= this, for every finite value.
    Max(f64),
    /// The root of the mean of (x - decoded x)^2 over the array.
    Rms(f64),
}

impl Bound {
    /// Its number.
    pub fn value(self) -> f64 {
        match self {
            Bound::Max(value) | Bound::Rms(value) => value,
        }
    }

    /// The same kind of bound, with this number if it is less.
    pub fn at_most(self, value: f64) -> Self {
        match self {
            Bound::Max(b) => Bound::Max(b.min(value)),
            Bound::Rms(b) => Bound::Rms(b.min(value)),
        }
    }
}

/// Codes arrays of one shape and type. What it needs for that it allocates when it is made, never
/// later.
///
/// What `compress` gives is a pure function of its arguments, whatever instruction set runs it and
/// whatever was coded before, and every part of it can be made in parallel: kernels must give the
/// same bytes.
///
/// A bounded coder may rely on what its caller checks: the bound b is positive, every finite |x| <=
/// 2^28 b, and 2^-100 <= max |x| <= 2^120 (FP64: 2^-900, 2^1000). NaN and infinities may stand
/// anywhere and must come back with the same bits.
pub trait Coder: Send {
    /// Most bytes that `compress` gives.
    fn max_bytes(&self) -> usize;

    /// Codes `x` into the beginning of `to`, which has `max_bytes` bytes, and returns how many it
    /// took. What is behind them in `to` is undefined afterwards. `None`: it cannot code this
    /// array, or needs more bytes than the array has.
    fn compress(&mut self, x: Array<'_>, bound: Bound, to: &mut [u8]) -> Result<Option<usize>>;

    /// Decodes all of `from` into `x`, every value of which is written. Whatever the bytes are, it
    /// neither panics nor reads beyond them.
    fn decompress(&mut self, from: &[u8], x: ArrayMut<'_>) -> Result<()>;
}

/// The shape that a coder is made for: extents, n1 fastest, and type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Extents; 1 where a dimension is not used.
    pub n: [usize; 3],
    /// Type of the values.
    pub scalar: Scalar,
}

impl Shape {
    /// Values of an array.
    pub fn values(&self) -> usize {
        self.n[0] * self.n[1] * self.n[2]
    }

    /// Bytes of an array.
    pub fn bytes(&self) -> usize {
        self.values() * self.scalar.bytes() as usize
    }

    /// The extents other than 1, in their order: a plane is a plane however it is declared.
    pub fn dims(&self) -> Vec<usize> {
        self.n.into_iter().filter(|&n| n > 1).collect()
    }
}
