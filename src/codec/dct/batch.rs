//! Working memory to code and decode `L` tiles at a time, one tile per SIMD lane. The result for a
//! tile does not depend on the other tiles of its batch.

use super::bits::MORE;
use super::grid::{Grid, LONGEST_SIDE};
use super::open::TileBuffer;
use super::quantiser::Number;
use super::rows::{Correction, Strings};
use super::transform::transform;
use super::vector::Vector;
use crate::codec::simd::Level;
use crate::error::Result;
use crate::fallible_vec;

/// Bytes that a writer may overwrite behind the bytes of a tile.
pub(super) const OVERWRITTEN: usize = 16;

/// Working memory for a batch of `L` tiles.
pub(super) struct Batch<T, const L: usize> {
    /// The values of the tiles during the transforms; at the end the decoded values.
    pub(super) x: Vec<Vector<T, L>>,
    /// The values of the tiles before coding. Each slot has the tiles of one batch, so that several
    /// batches can be coded again with another step.
    pub(super) original: Vec<Vector<T, L>>,
    /// The same tiles, transformed along all axes but the last.
    pub(super) ahead: Vec<Vector<T, L>>,
    /// For each slot the largest magnitude of each tile; infinite if a value is not finite.
    pub(super) largest: Vec<Vector<T, L>>,
    /// For each tile and each axis the indices of the tile's values along this axis, times the
    /// distance of neighbours in the array.
    pub(super) places: Vec<[[usize; LONGEST_SIDE]; 3]>,
    /// The quantised coefficients.
    pub(super) q: Vec<Vector<i32, L>>,
    /// Whether a quantised coefficient of one of the tiles is not zero.
    pub(super) is_some: Vec<bool>,
    pub(super) level: Level,
    /// For each row the sum of the magnitudes of its coefficients.
    pub(super) sums: Vec<Vector<u32, L>>,
    pub(super) corrections: Vec<Correction>,
    pub(super) count: [usize; L],
    /// Tiles that must be stored raw.
    pub(super) raw: [bool; L],
    /// For each tile the sum of its squared errors, in units of step^2 / `ENERGY`.
    pub(super) energy: [u64; L],
    pub(super) strings: Strings<L>,
    pub(super) opened: Vec<TileBuffer>,
    /// Working memory for the unary numbers of corrections.
    pub(super) numbers: Vec<u16>,
    /// The bytes of a tile where there is no room for what a writer may overwrite behind them.
    pub(super) tail: Vec<u8>,
}

/// The largest number of corrections of a tile of `values` values.
pub(super) fn most_corrections(values: usize) -> usize {
    values / 4
}

impl<T: Number, const L: usize> Batch<T, L> {
    /// Allocates working memory to code tiles of these tilings, and of each tiling as many slots as
    /// `slots` says.
    pub fn new(grids: &[Grid], slots: impl Fn(&Grid) -> usize) -> Result<Self> {
        let most = |of: &dyn Fn(&Grid) -> usize| grids.iter().map(of).max().unwrap_or(0);
        let (values, places) = (most(&Grid::values), most(&Grid::room));
        let kept = most(&|grid| slots(grid) * grid.room());
        let zeros = Vector([T::default(); L]);
        Ok(Batch {
            x: fallible_vec::filled(zeros, places)?,
            original: fallible_vec::filled(zeros, kept)?,
            ahead: fallible_vec::filled(zeros, kept)?,
            largest: fallible_vec::filled(zeros, most(&slots))?,
            places: fallible_vec::filled([[0; LONGEST_SIDE]; 3], L)?,
            q: fallible_vec::filled(Vector([0; L]), places)?,
            is_some: fallible_vec::filled(false, places)?,
            level: Level::Portable,
            sums: fallible_vec::filled(Vector([0; L]), values / 8)?,
            corrections: fallible_vec::filled(Correction::default(), L * most_corrections(values))?,
            count: [0; L],
            raw: [false; L],
            energy: [0; L],
            strings: Strings::new(values)?,
            opened: fallible_vec::filled(TileBuffer::new(values)?, L)?,
            numbers: fallible_vec::filled(0, most_corrections(values) + MORE)?,
            tail: fallible_vec::filled(0, values * T::BYTES + OVERWRITTEN)?,
        })
    }
}

/// Loads one line of `S` values of each tile, `stride` elements apart.
#[inline(always)]
pub(super) fn load<T: Number, const L: usize, const S: usize>(
    x: &[Vector<T, L>],
    first: usize,
    stride: usize,
) -> [Vector<T, L>; S] {
    let mut line = [Vector([T::default(); L]); S];
    for (i, to) in line.iter_mut().enumerate() {
        *to = x[first + i * stride];
    }
    line
}

/// Inverts `encode::transform_ahead`. Along the first axis, coefficients from index `used` on are zero.
#[inline(always)]
pub(super) fn back<T: Number, const L: usize, const S: usize>(
    x: &mut [Vector<T, L>],
    grid: &Grid,
    used: usize,
) {
    if grid.dims == 1 || used == 0 {
        return;
    }
    for x in x.chunks_exact_mut(grid.stride()).take(S) {
        if grid.dims == 3 {
            for first in 0..used {
                let line = transform::<T, L, S, true>(&load(x, first, S));
                store(x, first, S, &line);
            }
        }
        for first in (0..grid.values() / S).step_by(S) {
            let line = transform::<T, L, S, true>(&load(x, first, 1));
            store(x, first, 1, &line);
        }
    }
}

/// Stores one line of `S` values of each tile, `stride` elements apart.
#[inline(always)]
pub(super) fn store<T: Number, const L: usize, const S: usize>(
    x: &mut [Vector<T, L>],
    first: usize,
    stride: usize,
    line: &[Vector<T, L>; S],
) {
    for (i, y) in line.iter().enumerate() {
        x[first + i * stride] = *y;
    }
}
