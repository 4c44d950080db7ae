//! Which values of an array make a tile.

use super::super::coder::Shape;
use super::super::quantize::{LINE, LINES, TILE};
use super::GROUP;

/// How an array is cut into tiles.
#[derive(Clone, Debug)]
pub(in crate::codec) struct Grid {
    /// Extents, n1 fastest.
    pub n: [usize; 3],
    /// Extents of a tile.
    pub tile: [usize; 3],
    /// Tiles per dimension.
    pub tiles: [usize; 3],
    /// Along which dimensions differences are taken, one after the other.
    pub differences: &'static [usize],
    /// How many of them the encoder tries.
    pub tries: &'static [usize],
}

/// Where a tile is in its array.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub first: usize,
    /// Values from line to line and from plane to plane.
    pub strides: [usize; 2],
    /// Values along n1, lines of a plane, planes.
    pub extent: [usize; 3],
    /// Lines of a plane of a whole tile.
    pub height: usize,
    /// Lines continue one another.
    pub chain: bool,
}

impl Grid {
    pub(in crate::codec) fn new(shape: &Shape) -> Self {
        let dims = shape.dims();
        let (tile, differences, tries): (_, &[usize], &[usize]) = match dims.len() {
            3 => ([LINE, 8, 8], &[1, 2, 3, 1, 2, 3], &[2, 3, 5, 6]),
            2 => ([LINE, LINES, 1], &[1, 2, 1, 2], &[1, 2, 3, 4]),
            _ => ([TILE, 1, 1], &[1, 1, 1], &[1, 2, 3]),
        };
        let mut n = [1; 3];
        n[..dims.len()].copy_from_slice(&dims);
        if shape.values() == 0 {
            n = [0; 3];
        }
        let tiles = [0, 1, 2].map(|d| n[d].div_ceil(tile[d]));
        Grid { n, tile, tiles, differences, tries }
    }

    pub(super) fn values(&self) -> usize {
        self.n.iter().product()
    }

    pub(super) fn count(&self) -> usize {
        self.tiles.iter().product()
    }

    pub(super) fn groups(&self) -> usize {
        self.count().div_ceil(GROUP)
    }

    /// Where the groups begin.
    pub(super) fn head(&self) -> usize {
        8 + 16 * self.groups()
    }

    #[inline(always)]
    pub(super) fn place(&self, tile: usize) -> Place {
        let [t1, t2, _] = self.tiles;
        let at = [tile % t1, tile / t1 % t2, tile / t1 / t2];
        let (mut low, mut extent) = ([0; 3], [0; 3]);
        for d in 0..3 {
            low[d] = at[d] * self.tile[d];
            extent[d] = self.tile[d].min(self.n[d] - low[d]);
        }
        let first = low[0] + self.n[0] * (low[1] + self.n[1] * low[2]);
        if self.tile[0] == TILE {
            Place { first, strides: [LINE, 0], extent, height: LINES, chain: true }
        } else {
            Place {
                first,
                strides: [self.n[0], self.n[0] * self.n[1]],
                extent,
                height: self.tile[1],
                chain: false,
            }
        }
    }
}

impl Place {
    /// Where a line begins and how many values it has.
    #[inline(always)]
    pub(super) fn line(&self, line: usize) -> (usize, usize) {
        let (i2, i3) = if self.height == LINES { (line, 0) } else { (line % 8, line / 8) };
        let first = self.first + i2 * self.strides[0] + i3 * self.strides[1];
        if self.chain {
            (first, self.extent[0].saturating_sub(line * LINE).min(LINE))
        } else if i2 < self.extent[1] && i3 < self.extent[2] {
            (first, self.extent[0])
        } else {
            (first, 0)
        }
    }

    pub(super) fn values(&self) -> usize {
        self.extent.iter().product()
    }

    pub(super) fn whole(&self) -> bool {
        self.values() == TILE
    }
}
