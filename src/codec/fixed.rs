//! The codecs `fp16` and `bfp`: payloads whose size depends on the shape of the array alone. A
//! payload is a head followed by a body; the modules of the formats say what is in both.

use super::coder::{Bound, Coder, Shape};
use super::typed::{of_type, Codes};
use crate::error::{fail, Result};
use std::marker::PhantomData;

/// A format whose payloads have one size for all arrays of a shape.
pub trait Format: Values<f32> + Values<f64> + Send + 'static {
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

/// Makes a coder of the format for arrays of this shape.
pub fn coder<F: Format>(shape: Shape) -> Result<Box<dyn Coder>> {
    of_type(shape, bytes::<F>, Fixed::<F>::new, Fixed::<F>::new)
}

/// Returns the bytes of the payload of an array of this shape. Fails if they overflow.
pub fn bytes<F: Format>(shape: Shape) -> Result<usize> {
    Fixed::<F>::new(shape).map(|fixed| fixed.bytes)
}

/// Codes arrays of one shape. It keeps no data between calls.
struct Fixed<F> {
    /// Size of the head, in bytes.
    head: usize,
    /// Size of the payload, in bytes.
    bytes: usize,
    format: PhantomData<F>,
}

impl<F: Format> Fixed<F> {
    fn new(shape: Shape) -> Result<Self> {
        let values = shape.n.iter().try_fold(1usize, |values, &n| values.checked_mul(n));
        let sizes = values.and_then(|values| F::sizes(values, shape.scalar.bytes() as usize));
        let bytes = sizes.and_then(|(head, body)| Some((head, head.checked_add(body)?)));
        match bytes.filter(|&(_, bytes)| bytes <= isize::MAX as usize) {
            Some((head, bytes)) => Ok(Fixed { head, bytes, format: PhantomData }),
            None => fail!(Shape, "{}: {:?} values have no size in bytes", F::NAME, shape.n),
        }
    }
}

impl<T, F: Format + Values<T>> Codes<T> for Fixed<F> {
    const NAME: &'static str = F::NAME;

    fn encode(&mut self, x: &[T], _: Bound, to: &mut [u8]) -> Result<Option<usize>> {
        let (head, body) = to[..self.bytes].split_at_mut(self.head);
        Ok(F::encode(x, head, body).then_some(self.bytes))
    }

    fn decode(&mut self, from: &[u8], x: &mut [T]) -> Option<()> {
        let (head, body) = from.split_at_checked(self.head)?;
        (from.len() == self.bytes && F::decode(head, body, x)).then_some(())
    }
}

#[cfg(test)]
#[path = "fixed_tests.rs"]
pub mod tests;
