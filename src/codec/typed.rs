//! The frame of gpuzip's own codecs: a codec implements [`Codes`] for one type of values, and
//! [`of_type`] makes a [`Coder`] of it, which checks the arguments of each call.

use super::coder::{Bound, Coder, Shape};
use crate::error::{fail, Result};
use crate::scalar::{Array, ArrayMut, Real, Scalar};
use std::marker::PhantomData;

/// Codes arrays of one shape whose values have type `T`. The arrays that it gets have this shape.
pub trait Codes<T>: Send {
    const NAME: &'static str;

    /// Returns the largest number of bytes that `encode` writes.
    fn max_bytes(&self) -> usize;

    /// Does what `Coder::compress` does.
    fn encode(&mut self, x: &[T], bound: Bound, to: &mut [u8]) -> Result<Option<usize>>;

    /// Does what `Coder::decompress` does. Returns `None` if the payload is damaged.
    fn decode(&mut self, from: &[u8], x: &mut [T]) -> Option<()>;
}

/// The coder of a codec for arrays of one shape, of values of type `T`.
struct Typed<T, C> {
    shape: Shape,
    codec: C,
    values: PhantomData<fn() -> T>,
}

/// Makes the coder for arrays of this shape by the function for their type of values.
pub fn of_type<A: Codes<f32> + 'static, B: Codes<f64> + 'static>(
    shape: Shape,
    single: impl FnOnce(Shape) -> Result<A>,
    double: impl FnOnce(Shape) -> Result<B>,
) -> Result<Box<dyn Coder>> {
    Ok(match shape.scalar {
        Scalar::F32 => Box::new(Typed { shape, codec: single(shape)?, values: PhantomData }),
        Scalar::F64 => Box::new(Typed { shape, codec: double(shape)?, values: PhantomData }),
        other => return other.not_coded(),
    })
}

impl<T: Real, C: Codes<T>> Typed<T, C> {
    /// Returns the error of an array that has another size or type than the coder's.
    fn other_array<R>(&self) -> Result<R> {
        fail!(Shape, "{}: the array is not one of {:?}", C::NAME, self.shape)
    }
}

impl<T: Real, C: Codes<T>> Coder for Typed<T, C> {
    fn max_bytes(&self) -> usize {
        self.codec.max_bytes()
    }

    fn compress(&mut self, x: Array<'_>, bound: Bound, to: &mut [u8]) -> Result<Option<usize>> {
        let (room, most) = (to.len(), self.max_bytes());
        let Some(x) = T::of(x).filter(|x| x.len() == self.shape.values()) else {
            return self.other_array();
        };
        if room < most {
            return fail!(Argument, "{}: room for {room} bytes, not {most}", C::NAME);
        }
        self.codec.encode(x, bound, to)
    }

    fn decompress(&mut self, from: &[u8], x: ArrayMut<'_>) -> Result<()> {
        let Some(x) = T::of_mut(x).filter(|x| x.len() == self.shape.values()) else {
            return self.other_array();
        };
        match self.codec.decode(from, x) {
            Some(()) => Ok(()),
            None => {
                let bytes = from.len();
                fail!(Stream, "{}: {bytes} bytes are no stream of {:?}", C::NAME, self.shape)
            }
        }
    }
}
