//! Writes decoded tiles into the array.

use super::grid::Grid;
use super::portion::Output;
use super::vector::Vector;
use crate::codec::simd::prefetch_at;

/// The tiles of a batch that are written into the array.
pub(super) struct Tiles<const L: usize> {
    pub count: usize,
    /// First index of each tile in the array, and the extents of its part inside the array.
    begin: [usize; L],
    inside: [[usize; 3]; L],
    /// True if every tile is inside the array as a whole.
    whole: bool,
}

impl<const L: usize> Tiles<L> {
    #[inline(always)]
    pub fn new(grid: &Grid, ids: &[usize]) -> Self {
        let mut tiles =
            Tiles { count: ids.len().min(L), begin: [0; L], inside: [[0; 3]; L], whole: true };
        for (l, &id) in ids.iter().enumerate().take(L) {
            let (first, inside) = grid.inside(id);
            tiles.begin[l] = grid.index(first);
            tiles.inside[l] = inside;
            tiles.whole &= inside == grid.t;
        }
        tiles
    }

    /// Prefetches the cache lines that values `p` to `p + L` will be written to: a store that waits
    /// for its line holds up all stores that follow.
    #[inline(always)]
    pub fn prefetch<T, const S: usize>(&self, grid: &Grid, p: usize, x: &Output<'_, T>) {
        if !self.whole || p >= grid.values() {
            return;
        }
        for i in (0..L).step_by(S.min(L)) {
            let ahead = grid.index(grid.coordinates(p + i));
            for begin in &self.begin[..self.count] {
                x.address(begin + ahead).into_iter().for_each(prefetch_at::<T, true>);
            }
        }
    }

    /// Stores values `p` to `p + L` of each tile.
    #[inline(always)]
    pub fn store<T: Copy, const S: usize>(
        &self,
        grid: &Grid,
        p: usize,
        rows: &[Vector<T, L>; L],
        x: &mut Output<'_, T>,
    ) {
        let piece = S.min(L);
        if self.whole && grid.t[0] == S {
            for i in (0..L).step_by(piece) {
                let ahead = grid.index(grid.coordinates(p + i));
                for (row, begin) in rows.iter().zip(&self.begin[..self.count]) {
                    let to = x.values(begin + ahead, piece);
                    to.copy_from_slice(&row.0[i..i + piece]);
                }
            }
            return;
        }
        let piece = grid.t[0].min(L);
        for i in (0..L).step_by(piece) {
            let at = grid.coordinates(p + i);
            let ahead = grid.index(at);
            for (l, row) in rows.iter().enumerate().take(self.count) {
                let inside = self.inside[l];
                if (0..3).all(|a| at[a] < inside[a]) {
                    let count = piece.min(inside[0] - at[0]);
                    let to = x.values(self.begin[l] + ahead, count);
                    // A copy of a number of values that the compiler knows is no call.
                    match to.first_chunk_mut::<L>() {
                        Some(to) => *to = row.0,
                        None => to.copy_from_slice(&row.0[i..i + count]),
                    }
                }
            }
        }
    }

    /// Stores zeros into the tiles.
    #[inline(always)]
    pub fn clear<T: Copy + Default, const S: usize>(&self, grid: &Grid, x: &mut Output<'_, T>) {
        let zeros = [Vector([T::default(); L]); L];
        for p in (0..grid.values()).step_by(L) {
            self.store::<T, S>(grid, p, &zeros, x);
        }
    }
}
