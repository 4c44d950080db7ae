//! `lorenzo`: integers predicted by the Lorenzo predictor within small tiles; every row of eight
//! residuals is stored with as many bits as the largest residual of the row needs.
//!
//! The encoder quantises values first (quantize.rs) and predicts afterwards, so that a tile depends
//! on no other tile and the prediction loses nothing. The residual of the Lorenzo predictor
//! (Ibarria et al., "Out-of-core compression and decompression of large n-dimensional scalar
//! fields", 2003) is one difference along each dimension. Every difference makes the integers of a
//! smooth field smaller, but the rounding noise larger by sqrt(2). Therefore each tile records how
//! many differences it takes.
//!
//! # Stream
//! Numbers are little-endian, bit 0 is the lowest bit. Extents of 1 are dropped. A tile has 64
//! lines of 32 values along n1:
//!
//! | array | tile n1 x n2 x n3 | line r of a tile | dimensions of the differences, in order |
//! |---|---|---|---|
//! | 3-D | 32 x 8 x 8 | n2 = r mod 8, n3 = r / 8 | 1 2 3 1 2 3 |
//! | 2-D | 32 x 64 | n2 = r | 1 2 1 2 |
//! | 1-D | 2048 | values 32 r .. 32 r + 31 | 1 1 1 |
//!
//! Tiles are numbered with n1 fastest. A group has 64 consecutive tiles, where the first has a
//! number that is a multiple of 64.
//!
//! | offset | bytes | contents |
//! |---|---|---|
//! | 0 | 8 | unit of the quantum, FP64 |
//! | 8 + 16 g | 8 | bit t: tile t of group g is stored; if not set, its values are +0 |
//! | 16 + 16 g | 8 | offset of group g, counted from the first group |
//! | 8 + 16 groups | | the groups, one after the other |
//!
//! A group contains its stored tiles, then the size of each of them in bytes, 16 bits each.
//!
//! A raw tile, used if the tile cannot be coded or would not be smaller, has byte 0xFF and then its
//! values, line by line. All other tiles:
//!
//! | offset | bytes | contents |
//! |---|---|---|
//! | 0 | 1 | bits 0..4: least width b; bits 5..7: bits of a width k, 0..5 |
//! | 1 | 1 | bits 0..2: differences taken; bits 3..4: level of the quantum, 0..2; bits 5..7: 0 |
//! | 2 | 32 k | 256 widths less b: 32 rows of width k |
//! | 2 + 32 k | sum of the widths | magnitudes of the 2048 residuals, line by line: 256 rows |
//! | behind the rows | | signs of the residuals other than 0, in order: 1 bit each, 1 is negative |
//!
//! The width of each of the 256 rows of magnitudes is at most 31. Bit i of the sequence of signs is
//! bit i mod 8 of byte i / 8; the bits behind the last sign are 0.
//!
//! A row is eight numbers of width w and takes w bytes: bit i of byte j is bit j of number i.
//! Residuals are 32-bit words modulo 2^32. A difference along a dimension subtracts from every
//! number the number before it in the tile (in 1-D: before it among all 2048), or nothing if there
//! is none. Places beyond the array have residual 0 and contribute to no other value.
//!
//! # Encoder
//! The encoder takes the first level of the quantum at which all values of the tile keep their
//! bound. A tile is stored raw if no level keeps the bound, if a magnitude is 2^31, or if the raw
//! tile is not larger. A tile is empty if all its integers are 0.
//!
//! The encoder tries 2, 3, 5 and 6 differences (2-D: 1, 2, 3, 4; 1-D: 1, 2, 3) in this order and
//! stops when the next number does not lower the cost. The cost is a sum over every eight
//! consecutive lines (0 .. 7 and so on) and the 32 places along them: the bits of the largest
//! magnitude among the eight residuals at a place. For the cost, places beyond the array repeat the
//! quantised value before them: along n1, then n2, then n3 (in 1-D: the last value).

mod decode;
mod encode;
pub(super) mod gpu;
pub(super) mod grid;
pub(super) mod predict;
mod rows;
#[cfg(test)]
mod tests;
pub(super) mod tiles;

use super::coder::{Bound, Coder, Shape};
use super::quantize::{check_size, choose, word, Numbers, Quantised, Quantum, TILE};
use super::simd::{dispatch, level, Level};
use super::typed::{of_type, Codes};
use crate::error::Result;
use crate::fallible_vec::filled;
pub(super) use grid::Grid;
use grid::TilePlace;
use rows::{Rows, ROOM};
use tiles::{Decode, Encode, Tiles};

/// Number of tiles of a group.
const GROUP: usize = 64;
/// First byte of a raw tile.
const AS_IS: u8 = 0xFF;

pub fn coder(shape: Shape) -> Result<Box<dyn Coder>> {
    of_type(shape, most_bytes, Lorenzo::<f32>::new, Lorenzo::<f64>::new)
}

/// Returns the most bytes of a stream for this shape: a tile takes at most one byte more than its
/// values, and two bytes for its size. Fails if no such array can be coded.
pub fn most_bytes(shape: Shape) -> Result<usize> {
    check_size(&shape)?;
    let grid = Grid::new(&shape);
    Ok(grid.head() + 3 * grid.count() + shape.bytes())
}

struct Lorenzo<T> {
    grid: Grid,
    /// Working memory: a vector of one element.
    work: Vec<Work<T>>,
}

/// Working memory for one tile. The alignment and the order of the fields keep every vector within
/// one cache line.
#[derive(Clone)]
#[repr(C, align(64))]
struct Work<T> {
    values: [T; TILE],
    numbers: [Numbers; 3],
    rows: Rows,
    bytes: [u8; ROOM],
}

impl<T: Quantised> Lorenzo<T> {
    fn new(shape: Shape) -> Result<Self> {
        let work = Work {
            values: [T::default(); TILE],
            numbers: [[0; TILE]; 3],
            rows: Rows::NEW,
            bytes: [0; ROOM],
        };
        Ok(Lorenzo { grid: Grid::new(&shape), work: filled(work, 1)? })
    }
}

/// Codes the tiles of one array, with the quanta of this array.
struct Coding<'a, T> {
    grid: &'a Grid,
    work: &'a mut Work<T>,
    quanta: [Quantum<T>; 3],
    /// Number of levels of the quantum that the encoder may try, from the first on.
    levels: usize,
    level: Level,
}

impl<T: Quantised> Tiles<T> for Coding<'_, T> {
    #[inline(always)]
    fn encode(&mut self, x: &[T], places: [&TilePlace; 2]) -> Option<usize> {
        let Coding { grid, work, quanta, levels, level } = self;
        encode::encode(work, x, &quanta[..*levels], grid, places, *level)
    }

    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        &self.work.bytes
    }

    #[inline(always)]
    fn decode(&mut self, tile: &[u8], x: &mut [T], places: [&TilePlace; 2]) -> Option<()> {
        decode::decode(self.work, tile, x, &self.quanta, self.grid, places, self.level)
    }
}

impl<T: Quantised> Codes<T> for Lorenzo<T> {
    const NAME: &'static str = "lorenzo";

    fn encode(&mut self, x: &[T], bound: Bound, to: &mut [u8]) -> Result<Option<usize>> {
        let (grid, work) = (&self.grid, &mut self.work[0]);
        let Some(choice) = choose(x, bound) else { return Ok(None) };
        let (quanta, levels) = (Quantum::levels(choice.unit, choice.bound), choice.levels);
        let tiles = Coding { grid, work, quanta, levels, level: level() };
        let size = dispatch(Encode { grid, tiles, x, head: choice.unit.to_bits(), to });
        Ok(Some(size).filter(|&size| size <= size_of_val(x)))
    }

    fn decode(&mut self, from: &[u8], x: &mut [T]) -> Option<()> {
        let (grid, work) = (&self.grid, &mut self.work[0]);
        let unit = f64::from_bits(word(from.get(..8)?, 0));
        if !(unit > 0.0 && unit.is_finite()) {
            return None;
        }
        let quanta = Quantum::levels(unit, unit);
        let tiles = Coding { grid, work, quanta, levels: quanta.len(), level: level() };
        dispatch(Decode { grid, tiles, from, x })
    }
}
