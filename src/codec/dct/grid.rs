//! How an array is divided into tiles.

use crate::error::Result;
use crate::fallible_vec;

/// An axis shorter than this is not transformed: each of its planes has tiles of its own.
const SHORTEST: usize = 5;

/// Tiles of one size that cover an array.
pub(crate) struct Grid {
    /// Values along each axis that is transformed.
    pub side: usize,
    /// Axes that are transformed.
    pub dims: usize,
    /// Extents of the array.
    pub n: [usize; 3],
    /// Extents of a tile: `side` or 1.
    pub t: [usize; 3],
    /// Tiles along each axis.
    pub m: [usize; 3],
    /// Where the coefficients stand in memory, by falling importance.
    pub order: Vec<u32>,
    /// The rank in that order of each coefficient that is constant along the last axis: of a
    /// column, the first.
    pub rank: Vec<u32>,
}

/// The axes that are transformed.
pub(crate) fn axes(n: [usize; 3]) -> [bool; 3] {
    let mut axes = n.map(|n| n >= SHORTEST);
    if axes == [false; 3] {
        let longest = (0..3).rev().max_by_key(|&a| n[a]).unwrap_or(0);
        axes[longest] = true;
    }
    axes
}

/// The sides that tiles of so many dimensions may have, the largest first.
pub(crate) fn sides(dims: usize) -> &'static [usize] {
    match dims {
        3 => &[16, 8],
        2 => &[32, 16],
        _ => &[32],
    }
}

impl Grid {
    pub fn new(n: [usize; 3], side: usize) -> Result<Self> {
        let t = axes(n).map(|active| if active { side } else { 1 });
        let m = std::array::from_fn(|a| n[a].div_ceil(t[a]));
        let dims = t.iter().filter(|&&t| t > 1).count();
        let order = order(side, dims)?;
        let mut rank = fallible_vec::filled(0, order.len() / side)?;
        for (r, &p) in order.iter().enumerate() {
            if let Some(rank) = rank.get_mut(p as usize) {
                *rank = r as u32;
            }
        }
        let mut grid = Grid { side, dims, n, t, m, order, rank };
        for i in 0..grid.order.len() {
            grid.order[i] = grid.at(grid.order[i] as usize) as u32;
        }
        Ok(grid)
    }

    /// Distance in memory along the last axis. It is odd where it can be, or else all values of a
    /// column would compete for the same few lines of the cache.
    #[inline(always)]
    pub fn stride(&self) -> usize {
        self.values() / self.side + usize::from(self.dims > 1)
    }

    /// Where the p-th value of a tile stands in memory.
    #[inline(always)]
    pub fn at(&self, p: usize) -> usize {
        p + if self.dims > 1 {
            p >> (self.side.trailing_zeros() as usize * (self.dims - 1))
        } else {
            0
        }
    }

    /// Places in memory.
    pub fn room(&self) -> usize {
        self.stride() * self.side
    }

    /// Tiles of the array.
    pub fn tiles(&self) -> usize {
        self.m[0] * self.m[1] * self.m[2]
    }

    /// Values of a tile.
    pub fn values(&self) -> usize {
        self.t[0] * self.t[1] * self.t[2]
    }

    /// Coordinates in a tile of its p-th value.
    #[inline(always)]
    pub fn coordinates(&self, p: usize) -> [usize; 3] {
        let shift = self.t.map(usize::trailing_zeros);
        [p & (self.t[0] - 1), p >> shift[0] & (self.t[1] - 1), p >> (shift[0] + shift[1])]
    }

    /// The place of a tile among the tiles.
    pub fn place(&self, tile: usize) -> [usize; 3] {
        [tile % self.m[0], tile / self.m[0] % self.m[1], tile / self.m[0] / self.m[1]]
    }

    /// First value and extents of the part of a tile that is in the array.
    pub fn inside(&self, tile: usize) -> ([usize; 3], [usize; 3]) {
        let place = self.place(tile);
        let first: [usize; 3] = std::array::from_fn(|a| place[a] * self.t[a]);
        (first, std::array::from_fn(|a| self.t[a].min(self.n[a].saturating_sub(first[a]))))
    }

    /// Values of a tile that are in the array.
    pub fn values_inside(&self, tile: usize) -> usize {
        self.inside(tile).1.iter().product()
    }
}

/// The index that stands for `i` when an array of `n` values is continued by its mirror image.
#[inline(always)]
pub(crate) fn mirror(i: usize, n: usize) -> usize {
    let i = if i < 2 * n { i } else { i % (2 * n) };
    i.min(2 * n - 1 - i)
}

/// The places of a tile by the sum of their frequencies, then by the sum of the squares, then in
/// their order.
pub(crate) fn order(side: usize, dims: usize) -> Result<Vec<u32>> {
    let values = side.pow(dims as u32);
    let mut order = fallible_vec::with_room(values)?;
    order.extend(0..values as u32);
    order.sort_unstable_by_key(|&p| {
        let p = p as usize;
        let f = [p % side, p / side % side, p / side / side];
        (f[0] + f[1] + f[2], f[0] * f[0] + f[1] * f[1] + f[2] * f[2], p)
    });
    Ok(order)
}
