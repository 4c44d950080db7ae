//! Decodes a batch of tiles. The module `open` reads the bits of one tile.

use super::batch::{back, load, most_corrections, store, Batch};
use super::grid::Grid;
use super::open::Opened;
use super::portion::Output;
use super::quantiser::{Number, Quantiser};
use super::tiles::Tiles;
use super::transform::transform;
use super::vector::{transpose, Vector};
use crate::codec::simd::{level, Kernel};

/// Coefficients of a tile that are unpacked together: one or two rows.
const BLOCK: usize = 16;

/// How far ahead of its use output memory is prefetched, in units of `L` values of each tile.
const WRITE_AHEAD: usize = 8;

impl<T: Number, const L: usize> Batch<T, L> {
    #[inline(always)]
    fn decode_side<const S: usize>(
        &mut self,
        grid: &Grid,
        q: &Quantiser<T>,
        bytes: &[Option<&[u8]>],
        ids: &[usize],
        x: &mut Output<'_, T>,
    ) -> Option<()> {
        self.level = level();
        let end = self.read::<false>(grid, q.step, bytes, 0)?;
        self.finish::<S>(grid, q, ids, end, x);
        Some(())
    }

    /// Transforms the tiles back, corrects the values and writes them to `x`. In the order of the rows, all
    /// coefficients from index `end` on are zero.
    #[inline(always)]
    pub(super) fn finish<const S: usize>(
        &mut self,
        grid: &Grid,
        q: &Quantiser<T>,
        ids: &[usize],
        end: usize,
        x: &mut Output<'_, T>,
    ) {
        let values = grid.values();
        let (columns, stride) = (values / S, grid.stride());
        let mut used = 0;
        for c in 0..columns {
            if (grid.rank[c] as usize) < end {
                used = used.max(c % S + 1);
                let line = transform::<T, L, S, true>(&load(&self.x, c, stride));
                store(&mut self.x, c, stride, &line);
            }
        }
        back::<T, L, S>(&mut self.x, grid, used);
        self.apply_corrections(grid, q);
        let tiles = Tiles::new(grid, ids);
        for p in (0..WRITE_AHEAD * L).step_by(L) {
            tiles.prefetch::<T, S>(grid, p, x);
        }
        for p in (0..values).step_by(L) {
            tiles.prefetch::<T, S>(grid, p + WRITE_AHEAD * L, x);
            let mut rows = [Vector([T::default(); L]); L];
            transpose(&self.x[grid.at(p)..].as_chunks().0[0], &mut rows, self.level);
            tiles.store::<T, S>(grid, p, &rows, x);
        }
    }

    /// Reads the tiles' coefficients, times `step` into `x` or, with `INTEGERS`, as they are and in the order of
    /// the rows into `q`, and their corrections. A tile begins at bit `at` of its bytes. Returns a count: in the
    /// order of the rows, all coefficients from this index on are zero; those of `q` are not written. Returns
    /// `None` if the bits are no valid tile.
    #[inline(always)]
    pub(super) fn read<const INTEGERS: bool>(
        &mut self,
        grid: &Grid,
        step: T,
        bytes: &[Option<&[u8]>],
        at: u32,
    ) -> Option<usize> {
        match grid.values() {
            4096 => self.read_rows::<16, INTEGERS>(grid, step, bytes, at),
            _ => self.read_rows::<8, INTEGERS>(grid, step, bytes, at),
        }
    }

    #[inline(always)]
    fn apply_corrections(&mut self, grid: &Grid, q: &Quantiser<T>) {
        let room = most_corrections(grid.values());
        for l in 0..L {
            for c in &self.corrections[l * room..l * room + self.count[l]] {
                self.x[grid.at(c.at as usize)].0[l] += T::from_i32(c.level) * q.unit;
            }
        }
    }

    /// Does the work of `read` for rows of `R` coefficients.
    #[inline(always)]
    fn read_rows<const R: usize, const INTEGERS: bool>(
        &mut self,
        grid: &Grid,
        step: T,
        bytes: &[Option<&[u8]>],
        at: u32,
    ) -> Option<usize> {
        let values = grid.values();
        let room = most_corrections(values);
        let mut tiles = [Opened::default(); L];
        for ((tile, bytes), room) in tiles.iter_mut().zip(bytes).zip(&mut self.opened) {
            if let Some(bytes) = bytes {
                *tile = Opened::new::<R>(values, bytes, at, room)?;
            }
        }
        let end = tiles.iter().map(|tile| tile.rows).max().unwrap_or(0);
        let (stored, zeros) = grid.order.split_at((end * R).next_multiple_of(BLOCK));
        for (block, places) in stored.chunks_exact(BLOCK).enumerate() {
            let mut rows = [[0u32; BLOCK]; L];
            for l in 0..L {
                for (part, row) in rows[l].chunks_exact_mut(R).enumerate() {
                    let r = block * (BLOCK / R) + part;
                    if let (true, Some(row)) = (r < tiles[l].rows, row.first_chunk_mut::<R>()) {
                        tiles[l].row(r, row)?;
                    }
                }
            }
            let mut magnitudes = [Vector([0u32; L]); BLOCK];
            for (part, to) in magnitudes.as_chunks_mut::<L>().0.iter_mut().enumerate() {
                let mut from = [Vector([0u32; L]); L];
                for (to, from) in from.iter_mut().zip(&rows) {
                    to.0.copy_from_slice(&from[part * L..(part + 1) * L]);
                }
                transpose(&from, to, self.level);
            }
            for (part, (places, magnitudes)) in
                places.chunks_exact(R).zip(magnitudes.chunks_exact(R)).enumerate()
            {
                let mut signs = Vector([0u32; L]);
                for l in 0..L {
                    signs.0[l] = tiles[l].signs();
                }
                let mut nonzero = Vector([0u32; L]);
                for (i, (&place, magnitude)) in places.iter().zip(magnitudes).enumerate() {
                    let mut q = Vector([0i32; L]);
                    for l in 0..L {
                        let a = magnitude.0[l];
                        let negative = -((signs.0[l] & 1) as i32);
                        signs.0[l] >>= u32::from(a != 0);
                        nonzero.0[l] += u32::from(a != 0);
                        q.0[l] = (a as i32 ^ negative) - negative;
                    }
                    if INTEGERS {
                        self.q[block * BLOCK + part * R + i] = q;
                        continue;
                    }
                    for l in 0..L {
                        self.x[place as usize].0[l] = T::from_i32(q.0[l]) * step;
                    }
                }
                for l in 0..L {
                    tiles[l].skip_signs(nonzero.0[l]);
                }
            }
        }
        if !INTEGERS {
            for &place in zeros {
                self.x[place as usize] = Vector([T::default(); L]);
            }
        }
        self.count = [0; L];
        for l in 0..L {
            self.count[l] = tiles[l].corrections(
                values,
                &mut self.corrections[l * room..(l + 1) * room],
                &mut self.numbers,
            )?;
        }
        Some(end * R)
    }
}

/// Decodes up to `L` tiles into the tiles `ids` of `x`. `bytes[l]` holds the bits of tile `ids[l]`;
/// `None` stands for a tile of zeros. The output is `None` if the bits are no valid tile.
pub(super) struct Decode<'a, 'b, T, const L: usize> {
    pub batch: &'a mut Batch<T, L>,
    pub grid: &'a Grid,
    pub q: &'a Quantiser<T>,
    pub bytes: &'a [Option<&'a [u8]>],
    pub ids: &'a [usize],
    pub x: &'a mut Output<'b, T>,
}

impl<T: Number, const L: usize> Kernel for Decode<'_, '_, T, L> {
    type Output = Option<()>;

    #[inline(always)]
    fn run(self) -> Option<()> {
        let Decode { batch, grid, q, bytes, ids, x } = self;
        match grid.side {
            8 => batch.decode_side::<8>(grid, q, bytes, ids, x),
            16 => batch.decode_side::<16>(grid, q, bytes, ids, x),
            _ => batch.decode_side::<32>(grid, q, bytes, ids, x),
        }
    }
}
