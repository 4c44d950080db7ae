//! Encodes a batch of tiles: transforms, quantises, decodes again and checks the decoded values
//! against the bound. The bits of a tile are those that the module `rows` writes.

use super::batch::{back, load, most_corrections, store, Batch};
use super::bits::LONGEST;
use super::grid::{mirror, Grid};
use super::quantiser::{Number, Quantiser, ENERGY};
use super::rows::{Correction, LIMIT};
use super::transform::transform;
use super::vector::{transpose, Vector};
use crate::codec::simd::{level, prefetch, Kernel};

/// Added to the magnitude of a scaled coefficient before the fraction is cut off. The constant is
/// below 1/2 because small magnitudes are more frequent than large ones.
const ROUND: f64 = 0.45;

/// How far ahead of its use input memory is prefetched, in units of `L` values of each tile.
const READ_AHEAD: usize = 16;

impl<T: Number, const L: usize> Batch<T, L> {
    #[inline(always)]
    fn encode_side<const S: usize>(
        &mut self,
        grid: &Grid,
        q: &Quantiser<T>,
        x: &[T],
        ids: &[usize; L],
    ) {
        match self.quantise_side::<S>(grid, q, x, ids) {
            true => self.make_strings(grid),
            false => self.strings.clear(),
        }
    }

    /// Quantises the tiles `ids`, and checks or measures the errors. Returns false, with `q` untouched, if
    /// all coefficients are zero.
    #[inline(always)]
    pub(super) fn quantise_side<const S: usize>(
        &mut self,
        grid: &Grid,
        q: &Quantiser<T>,
        x: &[T],
        ids: &[usize; L],
    ) -> bool {
        self.level = level();
        self.gather::<S>(grid, x, ids);
        self.count = [0; L];
        self.raw = [false; L];
        self.energy = [0; L];
        if self.negligible(grid, q) {
            if q.most.is_none() {
                self.x[..grid.room()].fill(Vector([T::default(); L]));
                self.measure::<S>(grid, q, ids);
            }
            return false;
        }
        ahead::<T, L, S>(&self.original, &mut self.x, grid);
        let used = self.quantise::<S>(grid, q);
        back::<T, L, S>(&mut self.x, grid, used);
        self.check::<S>(grid, q, ids);
        true
    }

    /// Makes the bit strings of the tiles whose coefficients are in `q`.
    #[inline(always)]
    pub(super) fn make_strings(&mut self, grid: &Grid) {
        match grid.values() {
            4096 => self.sum_rows::<16>(grid),
            _ => self.sum_rows::<8>(grid),
        }
    }

    /// Returns true if all values are so small that all coefficients become zero. The caller then
    /// skips the transforms; the stream is the same with and without this test.
    #[inline(always)]
    fn negligible(&self, grid: &Grid, q: &Quantiser<T>) -> bool {
        // The magnitude of a coefficient is at most the sum of the magnitudes of the values.
        let small = q.step * T::from_f64(0.5) / T::from_i32(grid.values() as i32);
        let small = if q.most.is_some_and(|most| most < small) { T::default() } else { small };
        let mut large = Vector([0u32; L]);
        for x in self.original[..grid.room()].chunks(64) {
            for x in x {
                for l in 0..L {
                    let fits = x.0[l].abs() <= small;
                    large.0[l] |= u32::from(!fits);
                }
            }
            if large.0 != [0; L] {
                return false;
            }
        }
        true
    }

    /// Transforms along the last axis, quantises, and transforms the quantised coefficients back
    /// along the last axis. Returns a count: along the first axis, coefficients from this index on
    /// are zero.
    #[inline(always)]
    fn quantise<const S: usize>(&mut self, grid: &Grid, q: &Quantiser<T>) -> usize {
        let (columns, stride) = (grid.values() / S, grid.stride());
        let mut used = 0;
        let limit = T::from_i32(LIMIT as i32 - 1);
        let round = T::from_f64(ROUND);
        let mut wild = Vector([0u32; L]);
        for c in 0..columns {
            let mut line = transform::<T, L, S, false>(&load(&self.x, c, stride));
            let mut some = Vector([0i32; L]);
            for (i, y) in line.iter_mut().enumerate() {
                let to = &mut self.q[c + i * stride];
                for l in 0..L {
                    let scaled = y.0[l].abs() * q.inverse;
                    let fits = scaled < limit;
                    wild.0[l] |= u32::from(!fits);
                    let magnitude = (if fits { scaled } else { T::default() } + round).trunc();
                    let signed = if y.0[l] < T::default() { -magnitude } else { magnitude };
                    to.0[l] = signed;
                    some.0[l] |= signed;
                    y.0[l] = T::from_i32(signed) * q.step;
                }
            }
            if some.0.iter().fold(0, |any, s| any | s) != 0 {
                used = used.max(c % S + 1);
                line = transform::<T, L, S, true>(&line);
            }
            store(&mut self.x, c, stride, &line);
        }
        self.raw = wild.0.map(|w| w != 0);
        used
    }

    /// Compares the decoded values with the original values and notes a correction for each value
    /// outside the bound, or sums up the squared errors if the bound is on the mean square.
    #[inline(always)]
    fn check<const S: usize>(&mut self, grid: &Grid, q: &Quantiser<T>, ids: &[usize; L]) {
        let values = grid.values();
        let Some(most) = q.most else { return self.measure::<S>(grid, q, ids) };
        let inside: [[usize; 3]; L] = std::array::from_fn(|l| grid.inside(ids[l]).1);
        for p in 0..values {
            let (o, d) = (&self.original[grid.at(p)], &self.x[grid.at(p)]);
            let mut misses = Vector([0u32; L]);
            let mut any = 0;
            for l in 0..L {
                let fits = (o.0[l] - d.0[l]).abs() <= most;
                misses.0[l] = u32::from(!fits);
                any |= misses.0[l];
            }
            if any != 0 {
                for l in 0..L {
                    if misses.0[l] != 0 && !self.raw[l] && within(grid, inside[l], p) {
                        self.correct(grid, q, most, l, p);
                    }
                }
            }
        }
    }

    /// Notes a correction for value `p` of lane `l`, or marks the tile as raw if no correction
    /// brings the value within the bound.
    #[inline(always)]
    fn correct(&mut self, grid: &Grid, q: &Quantiser<T>, most: T, l: usize, p: usize) {
        let (o, d) = (self.original[grid.at(p)].0[l], self.x[grid.at(p)].0[l]);
        let units = (o - d).abs() * q.per_unit;
        let room = most_corrections(grid.values());
        let few = units < T::from_i32(LONGEST.into());
        if self.count[l] == room || !few {
            self.raw[l] = true;
            return;
        }
        let magnitude = (units + T::from_f64(0.5)).trunc();
        let level = if o < d { -magnitude } else { magnitude };
        let corrected = d + T::from_i32(level) * q.unit;
        let fits = (o - corrected).abs() <= most;
        if level == 0 || !fits {
            self.raw[l] = true;
            return;
        }
        self.corrections[l * room + self.count[l]] = Correction { at: p as u32, level };
        self.count[l] += 1;
    }

    /// Sums up the squared errors of the values inside the array, per tile.
    #[inline(always)]
    fn measure<const S: usize>(&mut self, grid: &Grid, q: &Quantiser<T>, ids: &[usize; L]) {
        let values = grid.values();
        let inside: [[usize; 3]; L] = std::array::from_fn(|l| grid.inside(ids[l]).1);
        let whole = inside.iter().all(|&inside| inside == grid.t);
        let mut wild = Vector([0u32; L]);
        for first in (0..values).step_by(32) {
            let mut sums = Vector([0u32; L]);
            for p in first..first + 32 {
                let (o, d) = (&self.original[grid.at(p)], &self.x[grid.at(p)]);
                for l in 0..L {
                    let u = (o.0[l] - d.0[l]) * q.per_step;
                    let square = u * u;
                    let fits = square < T::from_i32(1 << 10);
                    let unit = (if fits { square } else { T::default() } * T::from_f64(ENERGY))
                        .trunc() as u32
                        + 1;
                    let counts = whole || within(grid, inside[l], p);
                    wild.0[l] |= u32::from(!fits & counts);
                    sums.0[l] += if counts { unit } else { 0 };
                }
            }
            for l in 0..L {
                self.energy[l] += u64::from(sums.0[l]);
            }
        }
        for l in 0..L {
            self.raw[l] |= wild.0[l] != 0;
            if self.raw[l] {
                self.energy[l] = 0;
            }
        }
    }

    /// Sums up the magnitudes of each row and makes the bit strings of the tiles.
    #[inline(always)]
    fn sum_rows<const R: usize>(&mut self, grid: &Grid) {
        for (row, sum) in grid.order.chunks_exact(R).zip(&mut self.sums) {
            let mut sums = [0u32; L];
            for &p in row {
                let q = &self.q[p as usize];
                for l in 0..L {
                    sums[l] += q.0[l].unsigned_abs();
                }
            }
            sum.0 = sums;
        }
        self.strings.make::<R>(&self.q, &grid.order, &self.sums[..grid.values() / R]);
    }

    /// Writes the tile of lane `l` to `to` if its bits take fewer than `most` bytes. Returns the number
    /// of bytes, 0 if all values of the tile decode to zero; `None` if the tile must be stored raw.
    /// With `lean` the tile leans on that many later ones, and is stored even if all coefficients are zero.
    pub fn write(
        &self,
        grid: &Grid,
        l: usize,
        lean: Option<u8>,
        to: &mut [u8],
        most: usize,
    ) -> Option<usize> {
        let values = grid.values();
        if self.raw[l] {
            return None;
        }
        let room = most_corrections(values);
        let corrections = &self.corrections[l * room..l * room + self.count[l]];
        if corrections.is_empty() && self.strings.empty(l) && lean.is_none() {
            return Some(0);
        }
        if values == 4096 {
            self.strings.write::<16>(values, l, lean, corrections, to, most)
        } else {
            self.strings.write::<8>(values, l, lean, corrections, to, most)
        }
    }

    /// Loads the tiles `ids`; values outside the array are mirror images of values inside.
    #[inline(always)]
    fn gather<const S: usize>(&mut self, grid: &Grid, x: &[T], ids: &[usize; L]) {
        let inside: [_; L] = std::array::from_fn(|l| grid.inside(ids[l]));
        // First index of each tile that is inside the array as a whole and has lines of `S` values.
        let whole: [_; L] = std::array::from_fn(|l| {
            (inside[l].1 == grid.t && grid.t[0] == S).then(|| grid.index(inside[l].0))
        });
        let piece = S.min(L);
        for p in (0..grid.values()).step_by(L) {
            let mut rows = [Vector([T::default(); L]); L];
            for i in (0..L).step_by(piece) {
                let ahead = grid.index(grid.coordinates(p + i));
                let soon = (p + i + READ_AHEAD * L).min(grid.values() - L);
                let soon = grid.index(grid.coordinates(soon));
                for l in 0..L {
                    if let Some(begin) = whole[l] {
                        prefetch::<_, false>(x, begin + soon);
                        rows[l].0[i..i + piece].copy_from_slice(&x[begin + ahead..][..piece]);
                    }
                }
            }
            for l in 0..L {
                if whole[l].is_none() {
                    self.gather_part(grid, x, inside[l].0, p, &mut rows[l].0);
                }
            }
            let to = &mut self.original[grid.at(p)..].as_chunks_mut().0[0];
            transpose(&rows, to, self.level);
        }
    }

    /// Loads values `p` to `p + L` of a tile at `first` that is partly outside the array.
    #[inline(always)]
    fn gather_part(&self, grid: &Grid, x: &[T], first: [usize; 3], p: usize, to: &mut [T; L]) {
        let [n1, n2, n3] = grid.n;
        let piece = grid.t[0].min(L);
        for (i, to) in to.chunks_exact_mut(piece).enumerate() {
            let at = grid.coordinates(p + i * piece);
            let line = (mirror(first[2] + at[2], n3) * n2 + mirror(first[1] + at[1], n2)) * n1;
            let line = &x[line..][..n1];
            match line.get(first[0] + at[0]..first[0] + at[0] + piece) {
                Some(from) => to.copy_from_slice(from),
                None => {
                    for (i, to) in to.iter_mut().enumerate() {
                        *to = line[mirror(first[0] + at[0] + i, n1)];
                    }
                }
            }
        }
    }
}

/// Encodes the tiles `ids` of `x`.
pub(super) struct Encode<'a, T, const L: usize> {
    pub batch: &'a mut Batch<T, L>,
    pub grid: &'a Grid,
    pub q: &'a Quantiser<T>,
    pub x: &'a [T],
    pub ids: &'a [usize; L],
}

impl<T: Number, const L: usize> Kernel for Encode<'_, T, L> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Encode { batch, grid, q, x, ids } = self;
        match grid.side {
            8 => batch.encode_side::<8>(grid, q, x, ids),
            16 => batch.encode_side::<16>(grid, q, x, ids),
            _ => batch.encode_side::<32>(grid, q, x, ids),
        }
    }
}

/// Returns true if place `p` of a tile is in the part of the tile with the extents `inside`.
#[inline(always)]
fn within(grid: &Grid, inside: [usize; 3], p: usize) -> bool {
    p % grid.t[0] < inside[0]
        && p / grid.t[0] % grid.t[1] < inside[1]
        && p / grid.t[0] / grid.t[1] < inside[2]
}

/// Transforms along all axes but the last, beginning with the first axis.
#[inline(always)]
fn ahead<T: Number, const L: usize, const S: usize>(
    from: &[Vector<T, L>],
    to: &mut [Vector<T, L>],
    grid: &Grid,
) {
    let (values, stride) = (grid.values(), grid.stride());
    if grid.dims == 1 {
        return to[..values].copy_from_slice(&from[..values]);
    }
    for (from, to) in from.chunks_exact(stride).zip(to.chunks_exact_mut(stride)).take(S) {
        for first in (0..values / S).step_by(S) {
            store(to, first, 1, &transform::<T, L, S, false>(&load(from, first, 1)));
        }
        if grid.dims == 3 {
            for first in 0..S {
                let line = transform::<T, L, S, false>(&load(to, first, S));
                store(to, first, S, &line);
            }
        }
    }
}
