//! `lorenzo`: whole numbers predicted by the Lorenzo predictor within small tiles, and rows of
//! eight coded with as many bits as the largest.
//!
//! Values are quantised first (quantize.rs) and predicted then, so that tiles need nothing but
//! themselves and differences lose nothing: the residual of the Lorenzo predictor (Ibarria et al.,
//! "Out-of-core compression and decompression of large n-dimensional scalar fields", 2003) is one
//! difference along each dimension. Every difference makes a smooth field smaller and the rounding
//! noise larger by sqrt(2), so that every tile says how many of them it takes.
//!
//! # Stream
//! Numbers are little-endian, bit 0 is the lowest. Extents of 1 are dropped. A tile is 64 lines of
//! 32 values along n1:
//!
//! | array | tile n1 x n2 x n3 | line r of a tile | differences, in this order |
//! |---|---|---|---|
//! | 3-D | 32 x 8 x 8 | n2 = r mod 8, n3 = r / 8 | 1 2 3 1 2 3 |
//! | 2-D | 32 x 64 | n2 = r | 1 2 1 2 |
//! | 1-D | 2048 | values 32 r .. 32 r + 31 | 1 1 1 |
//!
//! Tiles are numbered with n1 fastest; 64 consecutive ones, from a multiple of 64 on, are a group.
//!
//! | offset | size | what |
//! |---|---|---|
//! | 0 | 8 | unit of the quantum, FP64 |
//! | 8 + 16 g | 8 | group g: bit t set: its tile t is stored; not set: all values are +0 |
//! | 16 + 16 g | 8 | group g: where it begins, from the end of this table |
//! | 8 + 16 groups | | the groups one after the other: their stored tiles, then the bytes that each of these takes, 16 bits each |
//!
//! A tile as it is, when it cannot be coded or would not be smaller: byte 0 is 0xFF; then the
//! values that it has, line by line. Any other:
//!
//! | offset | size | what |
//! |---|---|---|
//! | 0 | 1 | bits 0..4: least width b; bits 5..7: bits of a width k, 0..5 |
//! | 1 | 1 | bits 0..2: differences taken; bits 3..4: level of the quantum, 0..2; bits 5..7: 0 |
//! | 2 | 32 k | 256 widths less b: 32 rows of width k |
//! | 2 + 32 k | sum of the widths | magnitudes of the 2048 residuals, line by line: 256 rows of their widths, 31 at most |
//! | then | | signs of the residuals that are not 0, 1 for negative: bit i of the sequence is bit i mod 8 of byte i / 8; 0 behind the last |
//!
//! A row is eight numbers of width w: w bytes, bit i of byte j being bit j of number i. Residuals
//! are 32-bit words modulo 2^32: a difference along a dimension takes from every number the one
//! before it in the tile (in 1-D: in all of the 2048), or nothing where there is none. Places
//! beyond the array have residual 0 and count for no other.
//!
//! # Encoder
//! It takes the first level of the quantum at which all values keep their bound. A tile is stored
//! as it is where they do at none, where a magnitude is 2^31, or where that is not larger. A tile
//! is empty when no value needs another number than 0.
//!
//! Of the numbers of differences 2, 3, 5, 6 (2-D: 1, 2, 3, 4; 1-D: 1, 2, 3) it goes on to the next
//! one while that costs less, the cost being a sum over eight consecutive lines, 0 .. 7 and so on,
//! and the 32 places along them: the bits of the largest magnitude there. For that, places beyond
//! the array repeat the quantised value before them: along n1, then n2, then n3 (in 1-D: the last
//! one).

mod decode;
mod encode;
mod grid;
mod predict;
mod rows;
#[cfg(test)]
mod tests;

use super::coder::{Bound, Coder, Shape};
use super::quantize::{check_size, choose, values, Numbers, Quantised, TILE};
use super::simd::{dispatch, level};
use crate::error::{fail, Result};
use crate::fallible_vec::filled;
use crate::scalar::Scalar;
use crate::scalar::{Array, ArrayMut};
use decode::Decode;
use encode::Encode;
pub(super) use grid::Grid;
use rows::{Rows, ROOM};

/// Tiles of a group.
const GROUP: usize = 64;
/// First byte of a tile that is stored as it is.
const AS_IS: u8 = 0xFF;

/// Codes arrays of one shape.
pub struct Lorenzo {
    scalar: Scalar,
    grid: Grid,
    work: Works,
}

/// One of what the kernels work in.
enum Works {
    F32(Vec<Work<f32>>),
    F64(Vec<Work<f64>>),
}

/// What the kernels work in. Aligned, in this order, so that no vector lies across two cache lines.
#[derive(Clone)]
#[repr(C, align(64))]
struct Work<T> {
    values: [T; TILE],
    numbers: [Numbers; 3],
    rows: Rows,
    bytes: [u8; ROOM],
}

impl<T: Quantised> Work<T> {
    /// One.
    fn new() -> Result<Vec<Self>> {
        filled(
            Work {
                values: [T::default(); TILE],
                numbers: [[0; TILE]; 3],
                rows: Rows::NEW,
                bytes: [0; ROOM],
            },
            1,
        )
    }
}

impl Lorenzo {
    /// A coder for arrays of this shape.
    pub fn new(shape: &Shape) -> Result<Self> {
        check_size(shape)?;
        let work = match shape.scalar {
            Scalar::F32 => Works::F32(Work::new()?),
            Scalar::F64 => Works::F64(Work::new()?),
            other => return other.not_coded(),
        };
        Ok(Lorenzo { scalar: shape.scalar, grid: Grid::new(shape), work })
    }
}

impl Grid {
    fn encode<T: Quantised>(
        &self,
        work: &mut [Work<T>],
        x: Array<'_>,
        bound: Bound,
        to: &mut [u8],
    ) -> Result<Option<usize>> {
        let Some(x) = values::<T>(x, self.values()) else {
            return fail!(
                Shape,
                "the array is not one of {} values of type {:?}",
                self.values(),
                T::SCALAR
            );
        };
        let Some(choice) = choose(x, bound) else { return Ok(None) };
        let size =
            dispatch(Encode { grid: self, work: &mut work[0], x, choice, to, level: level() });
        Ok(Some(size).filter(|&size| size <= size_of_val(x)))
    }

    fn decode<T: Quantised>(&self, work: &mut [Work<T>], from: &[u8], x: &mut [T]) -> Result<()> {
        if x.len() != self.values() {
            return fail!(Shape, "an array of {} values, not {}", x.len(), self.values());
        }
        match dispatch(Decode { grid: self, work: &mut work[0], from, x, level: level() }) {
            Some(()) => Ok(()),
            None => fail!(
                Stream,
                "not a stream of lorenzo for {:?} values of type {:?}: it is damaged",
                self.n,
                T::SCALAR
            ),
        }
    }
}

impl Coder for Lorenzo {
    fn max_bytes(&self) -> usize {
        // A tile takes a byte more than its values, and two for its size.
        self.grid.head() + 3 * self.grid.count() + self.grid.values() * self.scalar.bytes() as usize
    }

    fn compress(&mut self, x: Array<'_>, bound: Bound, to: &mut [u8]) -> Result<Option<usize>> {
        if to.len() < self.max_bytes() {
            return fail!(
                Argument,
                "room for {} bytes where lorenzo may need {}",
                to.len(),
                self.max_bytes()
            );
        }
        match &mut self.work {
            Works::F32(work) => self.grid.encode(work, x, bound, to),
            Works::F64(work) => self.grid.encode(work, x, bound, to),
        }
    }

    fn decompress(&mut self, from: &[u8], x: ArrayMut<'_>) -> Result<()> {
        match (&mut self.work, x) {
            (Works::F32(work), ArrayMut::F32(x)) => self.grid.decode(work, from, x),
            (Works::F64(work), ArrayMut::F64(x)) => self.grid.decode(work, from, x),
            _ => fail!(Shape, "the array is not one of type {:?}", self.scalar),
        }
    }
}
