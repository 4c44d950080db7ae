//! Working memory to code and decode `L` tiles at a time, one tile per SIMD lane. The result for a
//! tile does not depend on the other tiles of its batch.

use super::bits::MORE;
use super::grid::Grid;
use super::open::TileBuffer;
use super::quantiser::Number;
use super::rows::{Correction, Strings};
use super::transform::transform;
use super::vector::Vector;
use crate::codec::simd::Level;
use crate::error::Result;
use crate::fallible_vec;

/// Working memory for a batch of `L` tiles.
pub(super) struct Batch<T, const L: usize> {
    /// The values of the tiles during the transforms; at the end the decoded values.
    pub(super) x: Vec<Vector<T, L>>,
    /// The values of the tiles before coding.
    pub(super) original: Vec<Vector<T, L>>,
    /// The quantised coefficients.
    pub(super) q: Vec<Vector<i32, L>>,
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
}

/// The largest number of corrections of a tile of `values` values.
pub(super) fn most_corrections(values: usize) -> usize {
    values / 4
}

impl<T: Number, const L: usize> Batch<T, L> {
    /// Allocates working memory for tiles of up to `values` values, stored in `places` elements
    /// (`Grid::room`).
    pub fn new(values: usize, places: usize) -> Result<Self> {
        let zeros = Vector([T::default(); L]);
        Ok(Batch {
            x: fallible_vec::filled(zeros, places)?,
            original: fallible_vec::filled(zeros, places)?,
            q: fallible_vec::filled(Vector([0; L]), places)?,
            level: Level::Portable,
            sums: fallible_vec::filled(Vector([0; L]), values / 8)?,
            corrections: fallible_vec::filled(Correction::default(), L * most_corrections(values))?,
            count: [0; L],
            raw: [false; L],
            energy: [0; L],
            strings: Strings::new(values)?,
            opened: fallible_vec::filled(TileBuffer::new(values)?, L)?,
            numbers: fallible_vec::filled(0, most_corrections(values) + MORE)?,
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

/// Inverts `encode::ahead`. Along the first axis, coefficients from index `used` on are zero.
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
