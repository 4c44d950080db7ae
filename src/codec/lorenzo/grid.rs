//! The tiles of an array.

use super::super::coder::Shape;
use super::super::quantize::{LINE, LINES, TILE};
use super::GROUP;
use std::ops::Range;

/// How an array is cut into tiles.
#[derive(Clone, Debug)]
pub(in crate::codec) struct Grid {
    /// Extents of the array without extents of 1, n1 fastest.
    pub n: [usize; 3],
    /// Extents of a tile.
    pub tile: [usize; 3],
    /// Tiles per dimension.
    pub tiles: [usize; 3],
    /// Dimensions (1, 2, 3) along which differences are taken, in order.
    pub differences: &'static [usize],
    /// Numbers of differences that the encoder tries.
    pub tries: &'static [usize],
}

/// Position of a tile in its array.
#[derive(Clone, Copy)]
pub(in crate::codec) struct TilePlace {
    /// Index of the first value of the tile in the array.
    pub first: usize,
    /// Distance from line to line and from plane to plane, in values of the array.
    pub strides: [usize; 2],
    /// Extents of the part of the tile in the array: values of a line, lines of a plane, planes.
    pub extent: [usize; 3],
    /// Lines per plane of a whole tile.
    pub height: usize,
    /// True in 1-D, where each line continues the line before it.
    pub chain: bool,
}

impl Grid {
    /// Cuts arrays of this shape into tiles.
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

    pub(in crate::codec) fn count(&self) -> usize {
        self.tiles.iter().product()
    }

    pub(in crate::codec) fn groups(&self) -> usize {
        self.count().div_ceil(GROUP)
    }

    /// Returns the offset of the first group in the stream, in bytes.
    pub(in crate::codec) fn head(&self) -> usize {
        8 + 16 * self.groups()
    }

    #[inline(always)]
    pub(in crate::codec) fn place(&self, tile: usize) -> TilePlace {
        let [t1, t2, _] = self.tiles;
        let at = [tile % t1, tile / t1 % t2, tile / t1 / t2];
        let (mut low, mut extent) = ([0; 3], [0; 3]);
        for d in 0..3 {
            low[d] = at[d] * self.tile[d];
            extent[d] = self.tile[d].min(self.n[d] - low[d]);
        }
        let first = low[0] + self.n[0] * (low[1] + self.n[1] * low[2]);
        if self.tile[0] == TILE {
            TilePlace { first, strides: [LINE, 0], extent, height: LINES, chain: true }
        } else {
            let strides = [self.n[0], self.n[0] * self.n[1]];
            TilePlace { first, strides, extent, height: self.tile[1], chain: false }
        }
    }
}

impl TilePlace {
    /// Returns the index in the array of the first value of a line, and how many values it has.
    #[inline(always)]
    pub(in crate::codec) fn line(&self, line: usize) -> (usize, usize) {
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

    /// Returns the values of each line in the array, of the lines that have any.
    pub(in crate::codec) fn lines(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let lines = (0..LINES).map(|line| self.line(line)).filter(|&(_, len)| len > 0);
        lines.map(|(first, len)| first..first + len)
    }

    /// Returns the number of values of the tile that lie in the array.
    pub(in crate::codec) fn values(&self) -> usize {
        self.extent.iter().product()
    }

    /// Returns whether the whole tile lies in the array.
    pub(in crate::codec) fn whole(&self) -> bool {
        self.values() == TILE
    }
}
