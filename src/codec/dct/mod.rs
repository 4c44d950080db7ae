//! dct
mod batch;
mod bits;
mod engine;
mod grid;
mod lanes;
mod rows;
mod transform;

#[cfg(test)]
mod tests;

use super::{Array, ArrayMut, Bound, Coder, Real, Shape};
use crate::error::{fail, Result};
use crate::snapshot::Scalar;
use engine::Engine;

/// The coder for arrays of one shape.
pub struct Dct {
    engine: Typed,
}

enum Typed {
    F32(Box<Engine<f32, 16>>),
    F64(Box<Engine<f64, 8>>),
}

impl Dct {
    /// A coder for arrays of this shape, with the memory that it needs.
    pub fn new(shape: Shape) -> Result<Self> {
        if shape.n.contains(&0) {
            return fail!(Shape, "an array of {:?} values has nothing to code", shape.n);
        }
        Ok(Dct {
            engine: match shape.scalar {
                Scalar::F32 => Typed::F32(Box::new(Engine::new(shape.n)?)),
                Scalar::F64 => Typed::F64(Box::new(Engine::new(shape.n)?)),
            },
        })
    }
}

impl Coder for Dct {
    fn max_bytes(&self) -> usize {
        match &self.engine {
            Typed::F32(engine) => engine.max_bytes(),
            Typed::F64(engine) => engine.max_bytes(),
        }
    }

    fn compress(&mut self, x: Array<'_>, bound: Bound, to: &mut [u8]) -> Result<Option<usize>> {
        match (&mut self.engine, x) {
            (Typed::F32(engine), Array::F32(x)) => engine.compress(x, bound, to),
            (Typed::F64(engine), Array::F64(x)) => engine.compress(x, bound, to),
            _ => fail!(Shape, "this coder was made for values of the other type"),
        }
    }

    fn decompress(&mut self, from: &[u8], x: ArrayMut<'_>) -> Result<()> {
        match (&mut self.engine, x) {
            (Typed::F32(engine), ArrayMut::F32(x)) => engine.decompress(from, x),
            (Typed::F64(engine), ArrayMut::F64(x)) => engine.decompress(from, x),
            _ => fail!(Shape, "this coder was made for values of the other type"),
        }
    }
}
