//! Divides an array into tiles.

use crate::codec::simd::array;
use crate::error::Result;
use crate::fallible_vec;

/// An axis with fewer values is not transformed; along such an axis tiles have one value.
const SHORTEST: usize = 5;

/// The largest side of a tile.
pub(super) const LONGEST_SIDE: usize = 32;

/// The tiling of an array with tiles of one size.
pub(crate) struct Grid {
    /// Values of a tile along each axis that is transformed.
    pub side: usize,
    /// Number of axes that are transformed.
    pub dims: usize,
    /// Extents of the array.
    pub n: [usize; 3],
    /// Extents of a tile: `side` or 1.
    pub t: [usize; 3],
    /// Tiles along each axis.
    pub m: [usize; 3],
    /// Places of the coefficients in memory, in the order of the rows: by increasing frequency.
    pub order: Vec<u32>,
    /// For each coefficient with frequency zero along the last axis its index in this order. This
    /// coefficient is the first in the order of all coefficients of its column (the coefficients
    /// that differ only in the frequency along the last axis).
    pub rank: Vec<u32>,
}

/// Returns the number of axes that are transformed.
pub(crate) fn dims(n: [usize; 3]) -> usize {
    axes(n).into_iter().filter(|&is_transformed| is_transformed).count()
}

/// Returns for each axis whether the axis is transformed.
fn axes(n: [usize; 3]) -> [bool; 3] {
    let mut axes = n.map(|n| n >= SHORTEST);
    if axes == [false; 3] {
        let longest = (0..3).rev().max_by_key(|&a| n[a]).unwrap_or(0);
        axes[longest] = true;
    }
    axes
}

/// Returns the possible sides of tiles with `dims` transformed axes, the largest first.
pub(crate) fn sides(dims: usize) -> &'static [usize] {
    match dims {
        3 => &[16, 8],
        2 => &[32, 16],
        _ => &[32],
    }
}

/// Returns the extents of a tile, `side` or 1, and the number of tiles along each axis.
pub(crate) fn tiling(n: [usize; 3], side: usize) -> ([usize; 3], [usize; 3]) {
    let t = axes(n).map(|active| if active { side } else { 1 });
    (t, std::array::from_fn(|a| n[a].div_ceil(t[a])))
}

impl Grid {
    pub fn new(n: [usize; 3], side: usize) -> Result<Self> {
        let (t, m) = tiling(n, side);
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

    /// Returns the distance in memory between neighbours along the last axis, in elements. With
    /// more than one transformed axis the distance is odd, so that the values of a column do not
    /// all fall into the same few sets of the processor's cache.
    #[inline(always)]
    pub fn stride(&self) -> usize {
        self.values() / self.side + usize::from(self.dims > 1)
    }

    /// Returns the place in memory of the p-th value of a tile.
    #[inline(always)]
    pub fn at(&self, p: usize) -> usize {
        p + if self.dims > 1 {
            p >> (self.side.trailing_zeros() as usize * (self.dims - 1))
        } else {
            0
        }
    }

    /// Returns the number of elements in memory that a tile takes, padding included.
    pub fn room(&self) -> usize {
        self.stride() * self.side
    }

    pub fn tiles(&self) -> usize {
        self.m[0] * self.m[1] * self.m[2]
    }

    pub fn values(&self) -> usize {
        self.t[0] * self.t[1] * self.t[2]
    }

    /// Returns the number of coefficients of a row.
    #[inline(always)]
    pub fn row(&self) -> usize {
        if self.values() == 4096 {
            16
        } else {
            8
        }
    }

    /// Returns the coordinates of the p-th value in its tile.
    #[inline(always)]
    pub fn coordinates(&self, p: usize) -> [usize; 3] {
        let [first, second] = [self.t[0].trailing_zeros(), self.t[1].trailing_zeros()];
        [p & (self.t[0] - 1), p >> first & (self.t[1] - 1), p >> (first + second)]
    }

    /// Returns the index in the array of the value at coordinates `at`.
    #[inline(always)]
    pub fn index(&self, at: [usize; 3]) -> usize {
        (at[2] * self.n[1] + at[1]) * self.n[0] + at[0]
    }

    /// Returns the coordinates of a tile in units of tiles.
    pub fn place(&self, tile: usize) -> [usize; 3] {
        [tile % self.m[0], tile / self.m[0] % self.m[1], tile / self.m[0] / self.m[1]]
    }

    /// Returns first value and extents of the part of a tile that is inside the array.
    pub fn inside(&self, tile: usize) -> ([usize; 3], [usize; 3]) {
        let place = self.place(tile);
        let first = array(|a| place[a] * self.t[a]);
        (first, array(|a| self.t[a].min(self.n[a].saturating_sub(first[a]))))
    }

    /// Returns how many values of a tile are inside the array.
    pub fn values_inside(&self, tile: usize) -> usize {
        self.inside(tile).1.iter().product()
    }
}

/// Returns the index of the value that stands for `i` on an axis of `n` values and mirror images.
#[inline(always)]
pub(crate) fn mirror(i: usize, n: usize) -> usize {
    let i = if i < 2 * n { i } else { i % (2 * n) };
    i.min(2 * n - 1 - i)
}

/// Returns the places of a tile in the order of its coefficients (module `dct`).
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
