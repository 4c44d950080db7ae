//! Encodes a batch of tiles in two steps. The first step loads and transforms the tiles. The second
//! step quantises, decodes again and checks the decoded values against the bound; it can be
//! repeated with other quantisers. The bits of a tile are those that the module `rows` writes.

use super::batch::{back, load, most_corrections, store, Batch, OVERWRITTEN};
use super::bits::LONGEST;
use super::grid::{mirror, Grid};
use super::inside::Inside;
use super::quantiser::{Number, Quantiser, ENERGY};
use super::rows::{Correction, LIMIT};
use super::transform::transform;
use super::vector::{transpose, Vector};
use crate::codec::simd::{array, level, prefetch, Kernel};

/// Added to the magnitude of a scaled coefficient before the fraction is cut off. The constant is
/// below 1/2 because small magnitudes are more frequent than large ones.
const ROUND: f64 = 0.45;

/// How far ahead of its use input memory is prefetched, in units of `L` values of each tile.
const READ_AHEAD: usize = 16;

impl<T: Number, const L: usize> Batch<T, L> {
    /// Loads the tiles `ids` into slot `slot` and transforms them along all axes but the last. A tile
    /// whose values are all at most `small` is loaded as a tile of zeros: this is for quantisers whose
    /// `small` is not less than this one, so that the stream is the same.
    #[inline(always)]
    pub(super) fn load_side<const S: usize>(
        &mut self,
        grid: &Grid,
        x: &[T],
        slot: usize,
        ids: &[usize; L],
        small: T,
    ) {
        self.level = level();
        self.gather::<S>(grid, x, slot, ids);
        let largest = self.largest[slot].0;
        let counts: [bool; L] = array(|l| largest[l] > small);
        if counts == [false; L] {
            return;
        }
        let places = slot * grid.room()..(slot + 1) * grid.room();
        let (original, ahead) = (&mut self.original[places.clone()], &mut self.ahead[places]);
        if counts != [true; L] {
            // Tiny numbers, which many processors are slow with, end here.
            let factors: [T; L] = array(|l| T::from_i32(counts[l].into()));
            for x in original.as_chunks_mut::<S>().0 {
                for l in 0..L {
                    x.iter_mut().for_each(|x| x.0[l] = x.0[l] * factors[l]);
                }
            }
        }
        transform_ahead::<T, L, S>(original, ahead, grid);
    }

    /// Codes the tiles `ids`, which slot `slot` holds. Without `strings` only their squared errors
    /// are computed, and nothing that `write` and `length` need. Returns false, with `q` untouched, if all
    /// coefficients are zero.
    #[inline(always)]
    pub(super) fn code_side<const S: usize>(
        &mut self,
        grid: &Grid,
        q: &Quantiser<T>,
        slot: usize,
        ids: &[usize; L],
        strings: bool,
    ) -> bool {
        self.count = [0; L];
        self.raw = [false; L];
        let small = q.small(grid);
        if self.largest[slot].0.iter().all(|&largest| largest <= small) {
            // All coefficients become zero, and no value's squared error exceeds one unit.
            self.strings.clear();
            self.energy = array(|l| grid.values_inside(ids[l]) as u64);
            return false;
        }
        self.energy = [0; L];
        let used = self.quantise::<S>(grid, q, slot);
        back::<T, L, S>(&mut self.x, grid, used);
        let inside = Inside::new(grid, ids);
        match q.most {
            Some(most) => self.check::<S>(grid, q, slot, &inside, most),
            None => self.measure::<S>(grid, q, slot, &inside),
        }
        if strings {
            self.make_strings(grid);
        }
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

    /// Transforms along the last axis, quantises, and transforms the quantised coefficients back
    /// along the last axis. Returns a count: along the first axis, coefficients from this index on
    /// are zero.
    #[inline(always)]
    fn quantise<const S: usize>(&mut self, grid: &Grid, q: &Quantiser<T>, slot: usize) -> usize {
        let (columns, stride, room) = (grid.values() / S, grid.stride(), grid.room());
        let ahead = &self.ahead[slot * room..][..room];
        let (x, to, some) = (&mut self.x[..room], &mut self.q[..room], &mut self.is_some[..room]);
        let mut used = 0;
        let limit = T::from_i32(LIMIT as i32 - 1);
        let (round, zero) = (T::from_f64(ROUND), T::default());
        let (step, inverse) = (q.step, q.inverse);
        let mut wild = Vector([0u32; L]);
        for c in 0..columns {
            let mut line = transform::<T, L, S, false>(&load(ahead, c, stride));
            let mut is_column = false;
            for (i, y) in line.iter_mut().enumerate() {
                let mut quantised = Vector([0; L]);
                for l in 0..L {
                    let scaled = y.0[l] * inverse;
                    let fits = scaled.abs() < limit;
                    wild.0[l] |= u32::from(!fits);
                    let half = if scaled < zero { -round } else { round };
                    let signed = (if fits { scaled } else { zero } + half).trunc();
                    quantised.0[l] = signed;
                    y.0[l] = T::from_i32(signed) * step;
                }
                let is_some = quantised.0.iter().fold(0, |any, q| any | q) != 0;
                (to[c + i * stride], some[c + i * stride]) = (quantised, is_some);
                is_column |= is_some;
            }
            if is_column {
                used = used.max(c % S + 1);
                line = transform::<T, L, S, true>(&line);
            }
            store(x, c, stride, &line);
        }
        self.raw = array(|l| wild.0[l] != 0);
        used
    }

    /// Compares the decoded values with the original values and notes a correction for each value
    /// outside the bound.
    #[inline(always)]
    fn check<const S: usize>(
        &mut self,
        grid: &Grid,
        q: &Quantiser<T>,
        slot: usize,
        inside: &Inside<L>,
        most: T,
    ) {
        for line in 0..grid.values() / S {
            let limits = inside.limits::<S>(line);
            let (first, from) = (grid.at(line * S), slot * grid.room());
            for i in 0..S {
                let (o, d) = (self.original[from + first + i], self.x[first + i]);
                let mut misses = Vector([0u32; L]);
                let mut any = 0;
                for l in 0..L {
                    let fits = (o.0[l] - d.0[l]).abs() <= most;
                    misses.0[l] = u32::from(!fits & ((i as u32) < limits.0[l]));
                    any |= misses.0[l];
                }
                if any != 0 {
                    self.correct(grid, q, most, line * S + i, &misses, (o, d));
                }
            }
        }
    }

    /// Notes a correction for value `p`, originally `o` and decoded `d`, in each lane whose bit in
    /// `misses` is set, or marks the tile as raw if no correction brings the value within the bound.
    #[inline(always)]
    fn correct(
        &mut self,
        grid: &Grid,
        q: &Quantiser<T>,
        most: T,
        p: usize,
        misses: &Vector<u32, L>,
        (o, d): (Vector<T, L>, Vector<T, L>),
    ) {
        let (mut levels, mut good) = (Vector([0i32; L]), Vector([0u32; L]));
        let mut lanes = 0u32;
        for l in 0..L {
            let units = (o.0[l] - d.0[l]).abs() * q.per_unit;
            let few = units < T::from_i32(LONGEST.into());
            let units = if few { units } else { T::default() };
            let magnitude = (units + T::from_f64(0.5)).trunc();
            let level = if o.0[l] < d.0[l] { -magnitude } else { magnitude };
            let corrected = d.0[l] + T::from_i32(level) * q.unit;
            let fits = (o.0[l] - corrected).abs() <= most;
            levels.0[l] = level;
            good.0[l] = u32::from(few & (level != 0) & fits);
            lanes |= misses.0[l] << l;
        }
        let room = most_corrections(grid.values());
        while lanes != 0 {
            let l = lanes.trailing_zeros() as usize % L;
            lanes &= lanes - 1;
            if self.raw[l] {
                continue;
            }
            if self.count[l] == room || good.0[l] == 0 {
                self.raw[l] = true;
                continue;
            }
            let correction = Correction { at: p as u32, level: levels.0[l] };
            self.corrections[l * room + self.count[l]] = correction;
            self.count[l] += 1;
        }
    }

    /// Sums up the squared errors of the values inside the array, per tile.
    #[inline(always)]
    fn measure<const S: usize>(
        &mut self,
        grid: &Grid,
        q: &Quantiser<T>,
        slot: usize,
        inside: &Inside<L>,
    ) {
        let original = &self.original[slot * grid.room()..][..grid.room()];
        let lines = grid.values() / S;
        let mut wild = Vector([0u32; L]);
        let mut sums = Vector([0u32; L]);
        for line in 0..lines {
            let limits = inside.limits::<S>(line);
            let places = grid.at(line * S)..grid.at(line * S) + S;
            for (i, (o, d)) in original[places.clone()].iter().zip(&self.x[places]).enumerate() {
                for l in 0..L {
                    let u = (o.0[l] - d.0[l]) * q.per_step;
                    let square = u * u;
                    let fits = square < T::from_i32(1 << 10);
                    let unit = (if fits { square } else { T::default() } * T::from_f64(ENERGY))
                        .trunc() as u32
                        + 1;
                    let counts = (i as u32) < limits.0[l];
                    wild.0[l] |= u32::from(!fits & counts);
                    sums.0[l] += if counts { unit } else { 0 };
                }
            }
            // A value counts for at most 2^24 units and one: the sum of 128 fits into 32 bits.
            if (line + 1) * S % 128 == 0 || line + 1 == lines {
                for l in 0..L {
                    self.energy[l] += u64::from(sums.0[l]);
                }
                sums = Vector([0; L]);
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
            let used = if is_row(&self.is_some, row) { row } else { &[] };
            for &p in used {
                let q = &self.q[p as usize];
                for l in 0..L {
                    sums[l] += q.0[l].unsigned_abs();
                }
            }
            sum.0 = sums;
        }
        self.strings.make::<R>(&self.q, &grid.order, &self.sums[..grid.values() / R]);
    }

    /// Returns the number of bytes that the tile of lane `l` takes, 0 if all its values decode to
    /// zero; `None` if these are not fewer than `most`, or if the tile must be stored raw.
    /// With `lean` the tile leans on that many later ones, and is stored even if all coefficients are zero.
    pub fn length(&self, grid: &Grid, l: usize, lean: Option<u8>, most: usize) -> Option<usize> {
        let values = grid.values();
        if self.raw[l] {
            return None;
        }
        let corrections = self.corrections_of(grid, l);
        if corrections.is_empty() && self.strings.empty(l) && lean.is_none() {
            return Some(0);
        }
        let bits = if values == 4096 {
            self.strings.bits::<16>(values, l, lean, corrections)
        } else {
            self.strings.bits::<8>(values, l, lean, corrections)
        };
        Some(bits.div_ceil(8) as usize).filter(|&bytes| bytes < most)
    }

    /// Writes the tile of lane `l` to `to` if its bits take fewer than `most` bytes. Returns what
    /// `length` returns.
    pub fn write(
        &mut self,
        grid: &Grid,
        l: usize,
        lean: Option<u8>,
        to: &mut [u8],
        most: usize,
    ) -> Option<usize> {
        let (values, length) = (grid.values(), self.length(grid, l, lean, most)?);
        let room = most_corrections(values);
        let corrections = &self.corrections[l * room..l * room + self.count[l]];
        let has_room = to.len() >= length + OVERWRITTEN;
        let bytes = if has_room { &mut *to } else { &mut self.tail[..] };
        match (length, values) {
            (0, _) => return Some(0),
            (_, 4096) => self.strings.write::<16>(values, l, lean, corrections, bytes),
            _ => self.strings.write::<8>(values, l, lean, corrections, bytes),
        }
        if !has_room {
            to[..length].copy_from_slice(&self.tail[..length]);
        }
        Some(length)
    }

    fn corrections_of(&self, grid: &Grid, l: usize) -> &[Correction] {
        let room = most_corrections(grid.values());
        &self.corrections[l * room..l * room + self.count[l]]
    }

    /// Loads the tiles `ids` into slot `slot` and finds the largest magnitude of each tile; values
    /// outside the array are mirror images of values inside.
    #[inline(always)]
    fn gather<const S: usize>(&mut self, grid: &Grid, x: &[T], slot: usize, ids: &[usize; L]) {
        let Batch { places, original, .. } = self;
        let original = &mut original[slot * grid.room()..][..grid.room()];
        let stride = [1, grid.n[0], grid.n[0] * grid.n[1]];
        for (places, &id) in places.iter_mut().zip(ids) {
            let first = grid.inside(id).0;
            for (a, places) in places.iter_mut().enumerate() {
                for (i, place) in places.iter_mut().enumerate().take(grid.t[a]) {
                    *place = mirror(first[a] + i, grid.n[a]) * stride[a];
                }
            }
        }
        let infinity = T::from_f64(f64::INFINITY);
        let mut largest = Vector([T::default(); L]);
        let piece = S.min(L);
        for p in (0..grid.values()).step_by(L) {
            let mut rows = [Vector([T::default(); L]); L];
            if grid.t[0] == S {
                for i in (0..L).step_by(piece) {
                    let soon = (p + i + READ_AHEAD * L).min(grid.values() - L);
                    let (at, soon) = (grid.coordinates(p + i), grid.coordinates(soon));
                    for (row, [i0, i1, i2]) in rows.iter_mut().zip(&*places) {
                        prefetch::<_, false>(x, i0[soon[0]] + i1[soon[1]] + i2[soon[2]]);
                        let line = i1[at[1]] + i2[at[2]];
                        let (row, i0) = (&mut row.0[i..i + piece], &i0[at[0]..at[0] + piece]);
                        // In this case no index is that of a mirror image.
                        if i0[piece - 1] == i0[0] + piece - 1 {
                            row.copy_from_slice(&x[line + i0[0]..][..piece]);
                        } else {
                            row.iter_mut().zip(i0).for_each(|(to, i0)| *to = x[line + i0]);
                        }
                    }
                }
            } else {
                for i in 0..L {
                    let at = grid.coordinates(p + i);
                    for (row, [i0, i1, i2]) in rows.iter_mut().zip(&*places) {
                        row.0[i] = x[i0[at[0]] + i1[at[1]] + i2[at[2]]];
                    }
                }
            }
            let to = &mut original[grid.at(p)..].as_chunks_mut().0[0];
            transpose(&rows, to, self.level);
            for x in to {
                for l in 0..L {
                    let magnitude = x.0[l].abs();
                    let magnitude = if magnitude < infinity { magnitude } else { infinity };
                    let is_larger = magnitude > largest.0[l];
                    largest.0[l] = if is_larger { magnitude } else { largest.0[l] };
                }
            }
        }
        self.largest[slot] = largest;
    }
}

/// Whether a row with these places has a coefficient that is not zero.
#[inline(always)]
pub(super) fn is_row(is_some: &[bool], places: &[u32]) -> bool {
    places.iter().fold(false, |any, &p| any | is_some[p as usize])
}

/// Loads the tiles `ids` of `x` (`Batch::load_side`).
pub(super) struct Load<'a, T, const L: usize> {
    pub batch: &'a mut Batch<T, L>,
    pub grid: &'a Grid,
    pub x: &'a [T],
    pub slot: usize,
    pub ids: &'a [usize; L],
    pub small: T,
}

impl<T: Number, const L: usize> Kernel for Load<'_, T, L> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Load { batch, grid, x, slot, ids, small } = self;
        match grid.side {
            8 => batch.load_side::<8>(grid, x, slot, ids, small),
            16 => batch.load_side::<16>(grid, x, slot, ids, small),
            _ => batch.load_side::<32>(grid, x, slot, ids, small),
        }
    }
}

/// Codes the tiles `ids`, which have been loaded (`Batch::code_side`).
pub(super) struct Code<'a, T, const L: usize> {
    pub batch: &'a mut Batch<T, L>,
    pub grid: &'a Grid,
    pub q: &'a Quantiser<T>,
    pub slot: usize,
    pub ids: &'a [usize; L],
    pub strings: bool,
}

impl<T: Number, const L: usize> Kernel for Code<'_, T, L> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Code { batch, grid, q, slot, ids, strings } = self;
        match grid.side {
            8 => batch.code_side::<8>(grid, q, slot, ids, strings),
            16 => batch.code_side::<16>(grid, q, slot, ids, strings),
            _ => batch.code_side::<32>(grid, q, slot, ids, strings),
        };
    }
}

/// Transforms along all axes but the last, beginning with the first axis.
#[inline(always)]
fn transform_ahead<T: Number, const L: usize, const S: usize>(
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
