//! The frame of gpuzip's own codecs: a codec implements [`Codes`] for one type of values, and
//! [`of_type`] makes a [`Coder`] of it, which checks the arguments of each call.

use super::coder::{Bound, Coder, SequenceCoder, Shape};
use crate::device::Team;
use crate::error::{fail, Result};
use crate::scalar::{Array, ArrayMut, Real, Scalar};
use std::marker::PhantomData;
use std::sync::Arc;

/// Codes arrays of one shape whose values have type `T`. The arrays that it gets have this shape.
pub trait Codes<T>: Send {
    const NAME: &'static str;

    /// Does what `Coder::join` does.
    fn join(&mut self, _team: &Arc<Team>) -> Result<()> {
        Ok(())
    }

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
    fn join(&mut self, team: &Arc<Team>) -> Result<()> {
        self.codec.join(team)
    }

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

/// Codes sequences of arrays of one shape whose values have type `T`, as `SequenceCoder` says. The arrays
/// that it gets have this shape, and the buffers room for every stream.
pub trait CodesSequences<T>: Send {
    const NAME: &'static str;

    fn join(&mut self, team: &Arc<Team>) -> Result<()>;

    fn take(&mut self, k: usize, x: &[T], bound: Bound) -> Option<()>;
    fn code(&mut self, k: usize, later: &[usize], to: &mut [u8]) -> Option<(usize, usize)>;
    fn open(&mut self, k: usize, later: &[usize], from: &[u8]) -> Option<()>;
    fn leans(&self, stream: &[u8]) -> bool;
    fn forget(&mut self, k: usize);
    fn is_full(&self, k: usize) -> bool;
    fn values(&mut self, k: usize, x: &mut [T]) -> Option<()>;
}

/// Makes the coder for sequences of arrays of this shape, whose streams have at most `most` bytes.
pub fn sequence_of_type<A: CodesSequences<f32> + 'static, B: CodesSequences<f64> + 'static>(
    shape: Shape,
    most: usize,
    single: impl FnOnce(Shape) -> Result<A>,
    double: impl FnOnce(Shape) -> Result<B>,
) -> Result<Box<dyn SequenceCoder>> {
    Ok(match shape.scalar {
        Scalar::F32 => Box::new(Typed { shape, most, codec: single(shape)?, values: PhantomData }),
        Scalar::F64 => Box::new(Typed { shape, most, codec: double(shape)?, values: PhantomData }),
        scalar => return scalar.not_coded(),
    })
}

impl<T: Real, C: CodesSequences<T>> SequenceCoder for Typed<T, C> {
    fn join(&mut self, team: &Arc<Team>) -> Result<()> {
        self.codec.join(team)
    }

    fn max_bytes(&self) -> usize {
        self.most
    }

    fn take(&mut self, k: usize, x: Array<'_>, bound: Bound) -> Result<bool> {
        match T::of(x).filter(|x| x.len() == self.shape.values()) {
            Some(x) => Ok(self.codec.take(k, x, bound).is_some()),
            None => fail!(Shape, "{}: the array is not one of {:?}", C::NAME, self.shape),
        }
    }

    fn code(&mut self, k: usize, later: &[usize], to: &mut [u8]) -> Result<(usize, usize)> {
        let (room, most) = (to.len(), self.most);
        if room < most {
            return fail!(Argument, "{}: room for {room} bytes, not {most}", C::NAME);
        }
        match self.codec.code(k, later, to) {
            Some(made) => Ok(made),
            None => fail!(State, "{}: no array to code in frame {k}", C::NAME),
        }
    }

    fn open(&mut self, k: usize, later: &[usize], from: &[u8]) -> Result<()> {
        match self.codec.open(k, later, from) {
            Some(()) => Ok(()),
            None => {
                let bytes = from.len();
                fail!(
                    Stream,
                    "{}: {bytes} bytes are no stream of {:?} after the {} arrays that were opened before",
                    C::NAME,
                    self.shape,
                    later.len()
                )
            }
        }
    }

    fn leans(&self, stream: &[u8]) -> bool {
        self.codec.leans(stream)
    }

    fn forget(&mut self, k: usize) {
        self.codec.forget(k);
    }

    fn is_full(&self, k: usize) -> bool {
        self.codec.is_full(k)
    }

    fn values(&mut self, k: usize, x: ArrayMut<'_>) -> Result<()> {
        let Some(x) = T::of_mut(x).filter(|x| x.len() == self.shape.values()) else {
            return fail!(Shape, "{}: the array is not one of {:?}", C::NAME, self.shape);
        };
        match self.codec.values(k, x) {
            Some(()) => Ok(()),
            None => fail!(State, "{}: no array is open in frame {k}", C::NAME),
        }
    }
}
