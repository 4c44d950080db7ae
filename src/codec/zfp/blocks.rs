//! Divides an array into blocks of 4^d values each, x fastest, then y, then z. Blocks that reach
//! beyond the array are padded.

use super::transform::Batch;
use super::value::Value;
use crate::codec::simd::prefetch;

/// How far ahead of its use memory is prefetched, in groups of `N` blocks side by side.
const AHEAD: usize = 2;

/// The blocks of an array, in the order of the stream.
#[derive(Clone, Copy, Debug)]
pub struct Grid {
    /// Extents of the array; 1 in directions that the array does not have.
    n: [usize; 3],
    /// Extents of a block.
    block: [usize; 3],
    /// Number of blocks in each direction.
    blocks: [usize; 3],
}

/// Position of the next block, in blocks along x, y and z.
#[derive(Clone, Copy, Debug, Default)]
pub struct Position([usize; 3]);

impl Grid {
    /// Divides an array of one to three extents, n1 fastest.
    pub fn new(dims: &[usize]) -> Grid {
        let mut grid = Grid { n: [1; 3], block: [1; 3], blocks: [1; 3] };
        for (i, &n) in dims.iter().enumerate().take(3) {
            (grid.n[i], grid.block[i], grid.blocks[i]) = (n, 4, n.div_ceil(4));
        }
        grid
    }

    pub fn blocks(&self) -> usize {
        self.blocks.iter().product()
    }

    /// Returns whether the next `count` blocks are side by side in x and inside the array.
    fn whole(&self, at: Position, count: usize) -> bool {
        let Position([x, y, z]) = at;
        4 * (x + count) <= self.n[0]
            && (y + 1) * self.block[1] <= self.n[1]
            && (z + 1) * self.block[2] <= self.n[2]
    }

    fn index(&self, x: usize, y: usize, z: usize) -> usize {
        x + self.n[0] * (y + self.n[1] * z)
    }

    /// Returns the index of the first value of a block.
    fn origin(&self, at: Position) -> usize {
        let Position([x, y, z]) = at;
        self.index(4 * x, self.block[1] * y, self.block[2] * z)
    }

    fn advance(&self, at: &mut Position, count: usize) {
        let Position([x, y, z]) = at;
        *x += count;
        while *x >= self.blocks[0] {
            *x -= self.blocks[0];
            *y += 1;
            if *y == self.blocks[1] {
                *y = 0;
                *z += 1;
            }
        }
    }

    /// Returns for each row of a block its number and the distance in the array between its first
    /// value and the block's first value.
    fn rows(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        (0..self.block[2]).flat_map(move |z| {
            (0..self.block[1]).map(move |y| (y + self.block[1] * z, self.index(0, y, z)))
        })
    }

    /// Returns the extents of the part of a block that is inside the array.
    fn extents(&self, at: Position) -> [usize; 3] {
        std::array::from_fn(|i| (self.n[i] - self.block[i] * at.0[i]).min(self.block[i]))
    }
}

/// Returns the index of the value that stands for value `i` of a row of 4, if the first `n` values
/// of the row are inside the array: `i` itself if i < n; otherwise n - 1, but 0 for i = 3.
fn padded(i: usize, n: usize) -> usize {
    match i {
        _ if i < n => i,
        3 => 0,
        _ => n - 1,
    }
}

/// Prefetches memory `AHEAD` groups of `N` blocks behind index `at`.
#[inline(always)]
fn ahead<T, const N: usize, const WRITE: bool>(x: &[T], at: usize) {
    for line in 0..4 {
        prefetch::<T, WRITE>(x, at + 4 * N * AHEAD + N * line);
    }
}

/// Copies the next `count` blocks of `from` into a batch. Unused lanes become 0.
pub fn gather<T: Value<N>, const N: usize>(
    grid: &Grid,
    from: &[T],
    at: &mut Position,
    count: usize,
    batch: &mut Batch<T, N>,
) {
    let rows_of = grid.block[1] * grid.block[2];
    for (group, rows) in batch.rows.chunks_exact_mut(rows_of).enumerate() {
        let lanes = count.saturating_sub(N * group).min(N);
        if lanes == N && grid.whole(*at, N) {
            let origin = grid.origin(*at);
            for (row, offset) in grid.rows() {
                ahead::<T, N, false>(from, origin + offset);
                rows[row].as_flattened_mut().copy_from_slice(&from[origin + offset..][..4 * N]);
            }
            grid.advance(at, N);
            continue;
        }
        for lane in 0..lanes {
            gather_block(grid, from, *at, rows, lane);
            grid.advance(at, 1);
        }
        rows.iter_mut().for_each(|row| row[lanes..].fill([T::default(); 4]));
    }
}

fn gather_block<T: Copy, const N: usize>(
    grid: &Grid,
    from: &[T],
    at: Position,
    rows: &mut [[[T; 4]; N]],
    lane: usize,
) {
    let origin = grid.origin(at);
    if grid.whole(at, 1) {
        for (row, offset) in grid.rows() {
            rows[row][lane].copy_from_slice(&from[origin + offset..][..4]);
        }
        return;
    }
    let [nx, ny, nz] = grid.extents(at);
    for (row, _) in grid.rows() {
        let (y, z) = (padded(row % grid.block[1], ny), padded(row / grid.block[1], nz));
        let first = origin + grid.index(0, y, z);
        rows[row][lane] = std::array::from_fn(|x| from[first + padded(x, nx)]);
    }
}

/// Copies the first `count` blocks of a batch to the next blocks of `to`.
pub fn scatter<T: Value<N>, const N: usize>(
    grid: &Grid,
    batch: &Batch<T, N>,
    at: &mut Position,
    count: usize,
    to: &mut [T],
) {
    let rows_of = grid.block[1] * grid.block[2];
    for (group, rows) in batch.rows.chunks_exact(rows_of).enumerate() {
        let lanes = count.saturating_sub(N * group).min(N);
        if lanes == N && grid.whole(*at, N) {
            let origin = grid.origin(*at);
            for (row, offset) in grid.rows() {
                ahead::<T, N, true>(to, origin + offset);
                to[origin + offset..][..4 * N].copy_from_slice(rows[row].as_flattened());
            }
            grid.advance(at, N);
            continue;
        }
        for lane in 0..lanes {
            scatter_block(grid, rows, lane, *at, to);
            grid.advance(at, 1);
        }
    }
}

fn scatter_block<T: Copy, const N: usize>(
    grid: &Grid,
    rows: &[[[T; 4]; N]],
    lane: usize,
    at: Position,
    to: &mut [T],
) {
    let origin = grid.origin(at);
    let [nx, ny, nz] = grid.extents(at);
    for (row, offset) in grid.rows() {
        if row % grid.block[1] < ny && row / grid.block[1] < nz {
            to[origin + offset..][..nx].copy_from_slice(&rows[row][lane][..nx]);
        }
    }
}
