//! The frame of gpuzip's own codecs: a codec implements [`Codes`] for one type of values, and
//! [`of_type`] makes a [`Coder`] of it, which checks the arguments of each call.

use super::coder::{Bound, Coder, Shape};
use crate::error::{fail, Result};
use crate::scalar::{Array, ArrayMut, Real, Scalar};
use std::marker::PhantomData;

/// Codes arrays of one shape whose values have type `T`. The arrays that it gets have this shape.
pub trait Codes<T>: Send {
    const NAME: &'static str;

    /// Does what `Coder::compress` does.
    fn encode(&mut self, x: &[T], bound: Bound, to: &mut [u8]) -> Result<Option<usize>>;

    /// Does what `Coder::decompress` does. Returns `None` if the payload is damaged.
    fn decode(&mut self, from: &[u8], x: &mut [T]) -> Option<()>;
}

/// The coder of a codec for arrays of one shape, of values of type `T`.
struct Typed<T, C> {
    shape: Shape,
    /// The largest number of bytes of a payload.
    most: usize,
    codec: C,
    values: PhantomData<fn() -> T>,
}

/// Makes the coder for arrays of this shape, whose payloads have at most as many bytes as `most_bytes`
/// returns, by the function for their type of values.
pub fn of_type<A: Codes<f32> + 'static, B: Codes<f64> + 'static>(
    shape: Shape,
    most_bytes: impl FnOnce(Shape) -> Result<usize>,
    single: impl FnOnce(Shape) -> Result<A>,
    double: impl FnOnce(Shape) -> Result<B>,
) -> Result<Box<dyn Coder>> {
    if !shape.scalar.is_coded() {
        return shape.scalar.not_coded();
    }
    let most = most_bytes(shape)?;
    Ok(match shape.scalar {
        Scalar::F32 => Box::new(Typed { shape, most, codec: single(shape)?, values: PhantomData }),
        _ => Box::new(Typed { shape, most, codec: double(shape)?, values: PhantomData }),
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
        self.most
    }

    fn compress(&mut self, x: Array<'_>, bound: Bound, to: &mut [u8]) -> Result<Option<usize>> {
        let (room, most) = (to.len(), self.most);
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
