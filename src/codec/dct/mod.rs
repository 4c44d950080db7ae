//! The codec `dct` divides an array into small cubes, squares or lines (tiles), applies a discrete
//! cosine transform to each tile, quantises the coefficients with one step for the whole array and
//! codes the integers with few bits.
//!
//! # Tiles
//! Axes of five values or more are transformed; if all axes are shorter, the longest one is (the
//! last of several equal ones). With three transformed axes a tile has 16 or 8 values along each of
//! them, with two axes 32 or 16, with one axis 32; along the other axes a tile has one value.
//! Beyond its end an axis of n values is continued by mirror images: with j = i mod 2n, index i
//! stands for value min(j, 2n-1-j). Tiles are numbered like the values of the array, first axis
//! fastest; so are the values in a tile.
//!
//! # Arithmetic
//! All arithmetic is done in the type of the array, rounded to nearest, never fused. The module
//! `transform` computes the DCT-II, orthonormal up to a factor 1/scale. The forward transform runs
//! along the first axis, then the second, then the third; the inverse runs in the opposite order. A
//! coefficient c becomes an integer q with the sign of c, and q is decoded to c':
//!
//! ```text
//! scale = (2/side)^(dims/2)
//! |q|   = trunc(|c| (scale/step) + 0.45)
//! c'    = q (step scale)
//! ```
//!
//! Both factors, scale/step and step scale, are computed in double precision and rounded once. The
//! coefficients of a tile are ordered by the sum of their frequencies, then by the sum of the
//! squares of their frequencies, then by their numbers in the tile.
//!
//! With a bound b on every error, step = 2.1 b. Where the decoded value y of x violates
//!
//! ```text
//! |x - y| <= b (1 - 2^-22)   (FP64: b (1 - 2^-50))
//! ```
//!
//! the value is corrected to y + m (1.25 b) with the integer
//!
//! ```text
//! m = +-trunc(|x - y| (1 / (1.25 b)) + 0.5)
//! ```
//!
//! With a bound on the root of the mean square of the errors there are no corrections. The step is
//! the bound times 2^(i/16) with about the largest i for which the sum of the squares, each counted
//! in units of 2^-14 step^2 and rounded up, is within the bound. Bisection on a sample of the tiles
//! (`Engine::load_sample`) finds i; then all tiles are coded, and i is raised or lowered until the sum
//! over all tiles is within the bound. The side is the one with which the sample takes fewer bits.
//!
//! A tile is stored raw (its values as they are) if that takes fewer bytes, if the tile has values
//! that are not finite, coefficients of magnitude 2^28 or more, more corrections than a quarter of
//! its values, or a value that stays outside the bound after its correction. The bits of a tile
//! depend on no other tile; only their place in the stream does.
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
//! | ceil(tiles / 8) | one bit per tile; 0: all its values decode to zero, and nothing else is stored of the tile |
//! | ceil(w tiles not empty / 8) | w bits for each other tile: its length in bytes; 0: the tile is stored raw |
//! | ... | the tiles that are not empty, one after the other |
//!
//! A raw tile has the values that are inside the array, in their order. Any other tile of N values
//! has rows of R = 16 coefficients if N = 4096 and of R = 8 otherwise. The tile consists of the
//! following strings of bits, without gaps, and zeros up to the next byte:
//!
//! | bits | |
//! |---|---|
//! | log2(N/R) + 1 | number of rows that are stored; all further rows are zero |
//! | | C + 4, where C is the number of corrections. With s bits below the highest set bit of C + 4: s - 2 in unary, then these s bits |
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
//! The unary code of a number m < 2^15 is m zeros and a one. The distance of a correction is the
//! number of values between this correction and the previous one.
//!
//! | mode | fixed bits | numbers in unary |
//! |---|---|---|
//! | 0: a row of zeros | | |
//! | 1: one coefficient, +1 or -1 | log2(R): place of the coefficient | |
//! | 2: groups of four | R/4: which groups are not zero, the first group in the lowest bit | the magnitudes in these groups |
//! | 3+k | k each: the lowest bits of the magnitudes | the rest of each magnitude (shifted down by k) |
//!
//! A decoder refuses a tile whose strings exceed the tile's bytes, a tile of more bytes than N
//! values take, and a tile whose unary numbers of coefficients take 2^16 bits or more.
//!
//! Every part of a tile can be found in parallel, by prefix sums: the modes, the unary numbers and
//! the signs over the ones of a string, the fixed bits over the modes. `rows::choose` is the
//! encoder's rule for the modes; a decoder does not need it.

mod batch;
mod bits;
mod decode;
mod encode;
mod engine;
mod frame;
pub(super) mod gpu;
mod grid;
mod inside;
mod mean;
mod open;
mod portion;
mod quantiser;
mod rows;
mod sequence;
mod tiles;
mod transform;
mod vector;

#[cfg(test)]
mod sequence_tests;
#[cfg(test)]
mod tests;

/// The numbers of the format that the GPU backend shares with this implementation.
pub(crate) use {
    engine::{longest_directory, sample_tiles},
    grid::{dims, order, sides, Grid},
};

use super::typed::{of_type, sequence_of_type};
use super::{Coder, SequenceCoder, Shape};
use crate::error::{fail, Result};
use engine::Engine;
use sequence::Sequence;

/// Makes a coder for arrays of this shape and allocates its memory.
pub fn coder(shape: Shape) -> Result<Box<dyn Coder>> {
    of_type(shape, most_bytes, Engine::<f32, 16>::new, Engine::<f64, 8>::new)
}

/// Makes a coder for sequences of arrays of this shape, with `frames` frames, and allocates its memory.
pub fn sequence_coder(shape: Shape, frames: usize) -> Result<Box<dyn SequenceCoder>> {
    most_bytes(shape)?;
    sequence_of_type(
        shape,
        engine::max_bytes_of_sequence(shape.n, shape.scalar.bytes() as usize),
        |shape| Sequence::<f32, 16>::new(shape, frames),
        |shape| Sequence::<f64, 8>::new(shape, frames),
    )
}

/// Returns the most bytes of a stream for this shape; fails if no such array can be coded.
pub fn most_bytes(shape: Shape) -> Result<usize> {
    if shape.n.contains(&0) {
        return fail!(Shape, "an array of {:?} values has nothing to code", shape.n);
    }
    Ok(engine::max_bytes(shape.n, shape.scalar.bytes() as usize))
}
