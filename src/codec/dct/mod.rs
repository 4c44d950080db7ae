//! `dct`: small cubes, squares or lines of an array, transformed by cosines, quantised with one
//! step and coded with few bits.
//!
//! # Tiles
//! Axes of five values or more are transformed, shorter ones are not (if all are short, the longest
//! one is, the last of those that are equal). With three such axes tiles have 16 or 8 values along
//! each, with two 32 or 16, with one 32, and 1 along the others; which of the two sides an array
//! has is written in the stream. What is outside the array is continued by mirror images: value i
//! of an axis of n values is that at min(j, 2n-1-j), j = i mod 2n. Tiles are numbered like values,
//! first axis fastest; so are the values in a tile.
//!
//! # Arithmetic
//! Everything is done in the type of the array, rounded to nearest, never fused. `transform` has
//! the DCT-II, which is orthonormal but for a factor (side/2)^(dims/2) = 1/scale. It goes along the
//! first axis, then the second, then the third; the inverse goes back. A coefficient c becomes the
//! integer of magnitude trunc(|c| (scale/step) + 0.45), and that becomes q (step scale) again; both
//! factors are made in double precision and rounded once. The order of the coefficients in a tile
//! is that of the sum of their frequencies, then of the sum of the squares of these, then of their
//! numbers.
//!
//! Bound on every error, b: step = 2.1 b; where the decoded value y of x has !(|x - y| <= b (1 -
//! 2^-22)), FP64 b (1 - 2^-50), it is corrected to y + m (1.25 b) with the integer m = +-trunc(|x -
//! y| (1 / (1.25 b)) + 0.5).
//!
//! Bound on the root of the mean square: no corrections; the step is the bound times 2^(i/16),
//! about the largest for which the sum of the squares, counted in units of 2^-14 step^2 that are
//! rounded up, is within the bound: found by bisection on a sample of the tiles, then checked on
//! all of them, and raised or lowered until it fits. The side is the one with which the sample
//! takes fewer bits; `Sample` says which tiles those are.
//!
//! A tile is stored as it is if that takes fewer bytes, if it has values that are not finite,
//! coefficients of magnitude 2^28 or more, more corrections than a quarter of its values, or one
//! that does not do. Nothing about a tile depends on another one, but for its place.
//!
//! # Stream
//! Numbers are little-endian; strings of bits begin with the lowest bit of the first byte.
//!
//! | bytes | |
//! |---|---|
//! | 0 | side: 8, 16 or 32 |
//! | 1 | w: bits of a length, at most 24 |
//! | 2..8 | 0 |
//! | 8..16 | step, FP64 |
//! | 16..24 | unit of the corrections, FP64 |
//! | ceil(tiles / 8) | a bit per tile, 0: all its values decode to zero, and nothing else is stored of it |
//! | ceil(w tiles not empty / 8) | w bits for each other tile: its bytes, 0: values as they are |
//! | ... | the tiles that are not empty, one after the other |
//!
//! A tile that is stored as it is has the values that are inside the array, in their order. Any
//! other tile of N values has rows of R = 16 coefficients if N = 4096 and of 8 otherwise, and these
//! strings of bits, one directly behind the other, zeros up to the next byte:
//!
//! | bits | |
//! |---|---|
//! | log2(N/R) + 1 | rows that are stored; all others are zero |
//! | | C + 4, C being the number of corrections: with s bits behind its highest one, s - 2 in unary and these s bits |
//! | 5 | mode of the first row (if there is any) |
//! | | for each further row the change of the mode, 0, -1, +1, -2, +2, ... as 0, 1, 2, 3, 4, ... in unary |
//! | | for each row the fixed bits that its mode asks for |
//! | | for each row its numbers in unary |
//! | 1 each | for each coefficient that is not zero its sign, 1: negative |
//! | k each | for each correction the lowest k bits of its distance, k = floor(log2(max(1, floor(floor(11 N/16) / max(1, C))))) |
//! | | for each correction the rest of its distance (shifted down by k) in unary |
//! | | for each correction its magnitude less 1 in unary |
//! | 1 each | for each correction its sign, 1: negative |
//!
//! A number in unary is so many zeros, less than 2^15, and a one. The distance of a correction is
//! the number of values between it and the one before.
//!
//! | mode | fixed bits | unary |
//! |---|---|---|
//! | 0: a row of zeros | | |
//! | 1: one coefficient, +1 or -1 | log2(R): its place | |
//! | 2: groups of four | R/4: which are not zero, the first lowest | the magnitudes in those |
//! | 3+k | k each: the lowest bits of the magnitudes | the rest of each magnitude (shifted down by k) |
//!
//! All of that is within the tile's bytes, which are no more than N values take, and the numbers of
//! its coefficients in unary are fewer than 2^16 bits. A decoder refuses what is not.
//!
//! So every part of a tile can be found in parallel: the modes by a prefix sum over the ones of a
//! string, fixed bits by one over the modes, unary numbers and signs again by ones. `rows::choose`
//! has the rule for the modes, of which a decoder knows nothing.

// One index runs through the lanes of several arrays: loops of that form are what vectorises.
#![allow(clippy::needless_range_loop)]

mod batch;
mod bits;
mod engine;
mod grid;
mod lanes;
mod open;
mod quantiser;
mod rows;
mod tiles;
mod transform;

#[cfg(test)]
mod measure;
#[cfg(test)]
mod tests;

/// What kernels have to know of the tiles.
pub(crate) use {
    engine::{longest_directory, sample_tiles},
    grid::{axes, order, sides, Grid},
};

use super::{Bound, Coder, Shape};
use crate::error::{fail, Result};
use crate::scalar::Scalar;
use crate::scalar::{Array, ArrayMut};
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
                other => return other.not_coded(),
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
