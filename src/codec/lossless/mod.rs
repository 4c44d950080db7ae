//! `lossless`: every bit of every value comes back; smooth fields take fewer bytes.
//!
//! The values of a tile are aligned to the largest exponent of the tile, as integers of at most 31 digits.
//! The integers are predicted and stored as those of `lorenzo`: differences along the dimensions, in rows
//! of fixed width (lorenzo/mod.rs has tiles, differences and rows). The bits that a value loses by the
//! alignment are stored as they are. No rounding takes part: the prediction and the alignment are integer
//! arithmetic. That a predicted floating-point number is coded by the difference of integers is from
//! Lindstrom and Isenburg, "Fast and Efficient Compression of Floating-Point Data", IEEE TVCG 12 (2006);
//! their integers are the bits of single values, without a common exponent.
//!
//! # Stream
//! The stream is that of `lorenzo`, with 1 in place of the unit; a tile that is not stored has the value
//! +0 (all bits 0) everywhere. A tile that is not raw:
//!
//! | bytes | contents |
//! |---|---|
//! | 1 | z, the number of lowest bits of the significands that are 0 in all values |
//! | 1 | bits 0..2: differences taken; bits 3..4: low bytes b of the residuals, 0..3; bit 5: there are values apart; bits 6..7: 0 |
//! | 2 | E, the largest exponent field of the values, at least 1 |
//! | 1 | the least width of a row |
//! | 1 | bits of a width k, 0..6 |
//! | 32 k | 256 widths less the least one: 32 rows of width k. A width is at most 32 - 8 b |
//! | sum of the widths | 256 rows of the residuals without their b low bytes, line by line |
//! | b times the values | the low bytes: the lowest one of every residual, line by line, then the next ones; places beyond the array have none |
//! | c times the values | the low bytes of the significands, in the same order |
//! | | the lost bits, in four runs |
//! | 32 | if bit 5 is set: a bit for each byte of the mask of values apart, a bit per value; 1 if the byte is not 0 |
//! | | if bit 5 is set: the bytes of the mask that are not 0, then the values apart, raw |
//!
//! A residual r is stored as 2 r, or as -2 r - 1 if it is negative: 32 bits.
//!
//! With P digits of the type (24; FP64: 53), hidden bit included, and e the exponent field of a value, at
//! least 1, its significand s = significand / 2^z has at most P - z digits. The lowest c bytes of s are
//! stored as they are: as few as leave at most 31 digits (FP32: c = 0). Of the digits above them E - e are
//! lost; the other ones are the magnitude of the integer. If more than 14 would be lost, or all of them,
//! the integer is 0 and no bits are lost; the value is apart, unless it is +0.
//! Run k of the lost bits has those of the values i, i + 512, i + 1024 and i + 1536 of the tile, one after
//! the other, for i from 128 k to 128 k + 127. The lost bits of a value begin with the lowest one. Places
//! beyond the array have none. Bits begin at the lowest bit of a byte. A run begins at a byte.
//!
//! # Encoder
//! The differences are those that `lorenzo` takes. b is the largest number for which rows of whole bytes
//! waste at most a quarter of a bit per value. A tile is stored raw if it has a value that is not finite or
//! if the raw tile is not larger.

mod lost;
mod rows;
#[cfg(test)]
mod tests;
mod tile;
mod value;

use super::coder::{Bound, Coder, Shape};
use super::lorenzo::tiles::{Decode, Encode};
use super::lorenzo::{most_bytes as most, Grid};
use super::quantize::{word, Numbers, TILE};
use super::simd::{dispatch, level};
use super::typed::{of_type, Codes};
use crate::error::Result;
use crate::fallible_vec::filled;
use lost::Lost;
use rows::Rows;
use tile::Coding;
use value::Exact;

/// The first word of a stream, which tells it from those that gpuzip wrote before.
const FORMAT: u64 = 1;
/// Room for a tile and for reads and writes of whole words behind it: a power of two, within which
/// places need no check, and the room. A tile has at most 230 bytes, 4 of every residual, and 11 and a
/// bit of every value.
const BYTES: usize = (1 << 15) + SPARE;
/// The room for words.
const SPARE: usize = 64;
type Room = [u8; BYTES];

/// Makes a coder for arrays of this shape.
pub fn coder(shape: Shape) -> Result<Box<dyn Coder>> {
    of_type(shape, most_bytes, Lossless::<f32>::new, Lossless::<f64>::new)
}

/// Returns the most bytes of a stream for this shape: a tile takes at most three bytes more than its
/// values. Fails if no such array can be coded.
pub fn most_bytes(shape: Shape) -> Result<usize> {
    most(shape)
}

struct Lossless<T: Exact> {
    grid: Grid,
    /// Working memory: a vector of one element.
    work: Vec<Work<T>>,
}

/// Working memory for one tile. The alignment and the order of the fields keep every vector within
/// one cache line.
#[derive(Clone)]
#[repr(C, align(64))]
struct Work<T: Exact> {
    values: [T; TILE],
    numbers: [Numbers; 3],
    lost: Lost,
    /// A byte of every value.
    single: [u8; TILE],
    rows: Rows,
    bytes: Room,
}

impl<T: Exact> Lossless<T> {
    fn new(shape: Shape) -> Result<Self> {
        let work = Work {
            values: [T::default(); TILE],
            numbers: [[0; TILE]; 3],
            lost: Lost::NEW,
            single: [0; TILE],
            rows: Rows::NEW,
            bytes: [0; BYTES],
        };
        Ok(Lossless { grid: Grid::new(&shape), work: filled(work, 1)? })
    }
}

impl<T: Exact> Codes<T> for Lossless<T> {
    const NAME: &'static str = "lossless";

    fn encode(&mut self, x: &[T], _: Bound, to: &mut [u8]) -> Result<Option<usize>> {
        let (grid, work) = (&self.grid, &mut self.work[0]);
        let tiles = Coding { grid, work, level: level() };
        let size = dispatch(Encode { grid, tiles, x, head: FORMAT, to });
        Ok(Some(size).filter(|&size| size <= size_of_val(x)))
    }

    fn decode(&mut self, from: &[u8], x: &mut [T]) -> Option<()> {
        let (grid, work) = (&self.grid, &mut self.work[0]);
        if word(from.get(..8)?, 0) != FORMAT {
            return None;
        }
        let tiles = Coding { grid, work, level: level() };
        dispatch(Decode { grid, tiles, from, x })
    }
}
