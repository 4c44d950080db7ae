//! The frame of the codecs `fp16` and `bfp`: payloads whose size depends on the shape of the array
//! alone. A payload is a head followed by a body; the modules of the formats say what is in both.

use super::coder::{Bound, Coder, Shape};
use crate::error::{fail, Result};
use crate::scalar::{Array, ArrayMut, Real};
use std::marker::PhantomData;

/// A format whose payloads have one size for all arrays of a shape.
pub trait Format: Values<f32> + Values<f64> + Send {
    /// Name of the codec.
    const NAME: &'static str;
    /// Returns the sizes of head and body in bytes; `None` if a size overflows.
    fn sizes(values: usize, bytes_of_value: usize) -> Option<(usize, usize)>;
}

/// The arithmetic of a format for values of type `T`. Head and body have the sizes that
/// `Format::sizes` returns for the array `x`.
pub trait Values<T> {
    /// Writes head and body. Returns false if the format cannot code the array.
    fn encode(x: &[T], head: &mut [u8], body: &mut [u8]) -> bool;
    /// Reads head and body. Returns false if the head is damaged.
    fn decode(head: &[u8], body: &[u8], x: &mut [T]) -> bool;
}

/// Coder for arrays of one shape. It keeps no data between calls.
#[derive(Debug)]
pub struct Fixed<F> {
    shape: Shape,
    /// Size of the head, in bytes.
    head: usize,
    /// Size of the payload, in bytes.
    bytes: usize,
    format: PhantomData<F>,
}

impl<F: Format> Fixed<F> {
    /// Makes a coder for arrays of this shape. Fails if the size of the payload overflows.
    pub fn new(shape: Shape) -> Result<Self> {
        let values = shape.n.iter().try_fold(1usize, |values, &n| values.checked_mul(n));
        let sizes = values.and_then(|values| F::sizes(values, shape.scalar.bytes() as usize));
        let bytes = sizes.and_then(|(head, body)| Some((head, head.checked_add(body)?)));
        match bytes.filter(|&(_, bytes)| bytes <= isize::MAX as usize) {
            Some((head, bytes)) => Ok(Fixed { shape, head, bytes, format: PhantomData }),
            None => fail!(Shape, "{}: {:?} values have no size in bytes", F::NAME, shape.n),
        }
    }

    fn check<T: Real>(&self, values: usize, fits: bool, bytes: usize) -> Result<()> {
        let (name, Shape { n, scalar }) = (F::NAME, self.shape);
        if T::SCALAR != scalar {
            return fail!(Shape, "{name}: made for another type than {:?}", T::SCALAR);
        }
        if values != self.shape.values() || !fits {
            return fail!(Shape, "{name}: {values} values and {bytes} bytes do not fit {n:?}");
        }
        Ok(())
    }

    fn encode<T: Real>(&self, x: &[T], to: &mut [u8]) -> Result<Option<usize>>
    where
        F: Values<T>,
    {
        self.check::<T>(x.len(), to.len() >= self.bytes, to.len())?;
        let (head, body) = to[..self.bytes].split_at_mut(self.head);
        Ok(F::encode(x, head, body).then_some(self.bytes))
    }

    fn decode<T: Real>(&self, from: &[u8], x: &mut [T]) -> Result<()>
    where
        F: Values<T>,
    {
        self.check::<T>(x.len(), from.len() == self.bytes, from.len())?;
        let (head, body) = from.split_at(self.head);
        if !F::decode(head, body, x) {
            return fail!(Stream, "{}: an exponent is damaged", F::NAME);
        }
        Ok(())
    }
}

impl<F: Format> Coder for Fixed<F> {
    fn max_bytes(&self) -> usize {
        self.bytes
    }

    fn compress(&mut self, x: Array<'_>, _: Bound, to: &mut [u8]) -> Result<Option<usize>> {
        match x {
            Array::F32(x) => self.encode(x, to),
            Array::F64(x) => self.encode(x, to),
        }
    }

    fn decompress(&mut self, from: &[u8], x: ArrayMut<'_>) -> Result<()> {
        match x {
            ArrayMut::F32(x) => self.decode(from, x),
            ArrayMut::F64(x) => self.decode(from, x),
        }
    }
}

#[cfg(test)]
#[path = "fixed_tests.rs"]
pub mod tests;
