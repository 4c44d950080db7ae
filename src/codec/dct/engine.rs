//! Codes whole arrays of one type: chooses tile side and step, writes directory and payload.

use super::batch::Batch;
use super::bits::Reader;
use super::decode::Decode;
use super::encode::Encode;
use super::grid::{dims, sides, tiling, Grid};
use super::quantiser::{Number, Quantiser, ENERGY};
use crate::codec::simd::dispatch;
use crate::codec::typed::Codes;
use crate::codec::{Bound, Shape};
use crate::error::Result;
use crate::fallible_vec;

/// Bytes of the header, which precedes the directory.
pub(super) const HEADER: usize = 24;
/// Ratio of the step to the bound on every error. With this step some errors exceed the bound;
/// their corrections take fewer bits than a smaller step would.
pub(super) const STEP: f64 = 2.1;
/// Ratio of the unit of the corrections to the bound on every error.
pub(super) const UNIT: f64 = 1.25;
/// Stands for a raw tile in the array `lengths`.
pub(super) const RAW: u32 = u32::MAX;
/// Number of steps tried for a bound on the mean square, each 2^(1/16) times the previous one.
pub(super) const STEPS: usize = 16 * 16;
/// 2^(i/16), i = 0, ..., 15.
#[rustfmt::skip]
const OCTAVE: [f64; 16] = [
    1.0, 1.0442737824274138, 1.0905077326652577, 1.1387886347566916,
    1.189207115002721, 1.241857812073484, 1.2968395546510096, 1.3542555469368927,
    std::f64::consts::SQRT_2, 1.4768261459394993, 1.5422108254079407, 1.6104903319492543,
    1.681792830507429, 1.7562521603732995, 1.8340080864093424, 1.9152065613971474,
];

pub(super) struct Engine<T, const L: usize> {
    /// The tilings to choose from, the one with the largest tiles first.
    pub(super) grids: Vec<Grid>,
    pub(super) batch: Batch<T, L>,
    /// Length of each tile in bytes; 0 for an empty tile, `RAW` for a raw tile.
    pub(super) lengths: Vec<u32>,
    /// Output for one tile when only the number of its bytes matters.
    spare: Vec<u8>,
}

impl<T: Number, const L: usize> Engine<T, L> {
    pub fn new(shape: Shape) -> Result<Self> {
        let n = shape.n;
        let dims = dims(n);
        let mut grids = fallible_vec::with_room(2)?;
        for &side in sides(dims) {
            grids.push(Grid::new(n, side)?);
        }
        let values = grids.iter().map(Grid::values).max().unwrap_or(0);
        let tiles = grids.iter().map(Grid::tiles).max().unwrap_or(0);
        Ok(Engine {
            batch: Batch::new(values, grids.iter().map(Grid::room).max().unwrap_or(0))?,
            grids,
            lengths: fallible_vec::filled(0, tiles)?,
            spare: fallible_vec::filled(0, values * T::BYTES + 16)?,
        })
    }

    fn values(&self) -> usize {
        self.grids[0].n.iter().product()
    }

    /// Codes `x` so that every error is at most `most`.
    fn compress_within(&mut self, x: &[T], most: f64, to: &mut [u8]) -> Option<usize> {
        let (step, unit) = (most * STEP, most * UNIT);
        let quantiser = |grid: &Grid| Quantiser::new(grid, step, unit, Some(most));
        let mut best = None;
        for g in 0..self.grids.len() {
            let q = quantiser(&self.grids[g])?;
            let bits = if self.grids.len() > 1 { self.sample(g, &q, x).bits } else { 0 };
            if best.is_none_or(|(least, _)| bits < least) {
                best = Some((bits, g));
            }
        }
        let (_, g) = best?;
        let q = quantiser(&self.grids[g])?;
        let (bytes, _) = self.code(g, &q, x, to)?;
        self.shorter(self.finish(g, (step, unit), Later::NONE, bytes, to))
    }

    /// Codes `x` so that the root of the mean square of the errors is at most `target`.
    fn compress_mean(&mut self, x: &[T], target: f64, to: &mut [u8]) -> Option<usize> {
        let mut best = None;
        for g in 0..self.grids.len() {
            let (index, bits) = self.find_step(g, x, target)?;
            if best.is_none_or(|(least, _, _)| bits < least) {
                best = Some((bits, g, index));
            }
        }
        let (_, g, mut index) = best?;
        // The steps with an index of `end` or more are too large.
        let mut end = STEPS;
        loop {
            let step = target * step_of(index);
            let q = Quantiser::new(&self.grids[g], step, step, None)?;
            let (bytes, energy) = self.code(g, &q, x, to)?;
            // The squares of the errors grow at most about as fast as the square of the step.
            if holds(energy, step, target, x.len()) {
                let room = |by: usize| holds(energy, step * step_of(by), target, x.len());
                let by = (1..end - index).take_while(|&by| room(by)).count();
                if by == 0 {
                    return self.shorter(self.finish(g, (step, step), Later::NONE, bytes, to));
                }
                index += by;
            } else {
                end = index;
                let enough = |by: usize| holds(energy, step / step_of(by), target, x.len());
                index = (1..=index)
                    .find(|&by| enough(by))
                    .map_or(index.checked_sub(1)?, |by| index - by);
            }
        }
    }

    /// Returns the index of the largest step with which the sample keeps the target, and the number
    /// of bits of the sample with this step.
    pub(super) fn find_step(&mut self, g: usize, x: &[T], target: f64) -> Option<(usize, u64)> {
        let (mut low, mut high) = (0, STEPS);
        let mut bits = u64::MAX;
        while high - low > 1 {
            let middle = (low + high) / 2;
            let step = target * step_of(middle);
            let sample = self.sample(g, &Quantiser::new(&self.grids[g], step, step, None)?, x);
            if holds(sample.energy, step, target, sample.values) {
                (low, bits) = (middle, sample.bits);
            } else {
                high = middle;
            }
        }
        Some((low, bits))
    }

    /// Codes a sample of the tiles and counts the bits. The choice of the sample depends only on
    /// the shape: one in 32 of the largest tiles, but at least 16, scattered over the array; with
    /// smaller tiles, all tiles that these largest tiles contain.
    fn sample(&mut self, g: usize, q: &Quantiser<T>, x: &[T]) -> Sampled {
        let Engine { grids, batch, spare, .. } = self;
        let (large, grid) = (&grids[0], &grids[g]);
        let tiles = large.tiles();
        let count = sample_tiles(large);
        let mut sampled = Sampled { bits: 0, energy: 0, values: 0 };
        let mut ids = [0; L];
        let mut filled = 0;
        let parts: [usize; 3] = std::array::from_fn(|a| large.t[a] / grid.t[a]);
        let all = parts.iter().product::<usize>();
        for s in 0..count * all {
            let tile = if count == tiles { s / all } else { scattered(s / all, tiles) };
            let (place, part) = (large.place(tile), s % all);
            let part = [part % parts[0], part / parts[0] % parts[1], part / parts[0] / parts[1]];
            let at: [usize; 3] = std::array::from_fn(|a| place[a] * parts[a] + part[a]);
            if (0..3).all(|a| at[a] < grid.m[a]) {
                ids[filled] = (at[2] * grid.m[1] + at[1]) * grid.m[0] + at[0];
                filled += 1;
            }
            if filled == L || (filled > 0 && s + 1 == count * all) {
                let last = ids[filled - 1];
                ids[filled..].fill(last);
                dispatch(Encode { batch, grid, q, x, ids: &ids });
                for (l, &id) in ids.iter().enumerate().take(filled) {
                    let values = grid.values_inside(id);
                    sampled.values += values;
                    sampled.energy += batch.energy[l];
                    sampled.bits += match batch.write(grid, l, None, spare, values * T::BYTES) {
                        Some(0) => 1,
                        bytes => 12 + 8 * bytes.unwrap_or(values * T::BYTES) as u64,
                    };
                }
                filled = 0;
            }
        }
        sampled
    }

    /// Codes all tiles, and returns their bytes and squared error. The payload begins where the
    /// longest possible directory ends.
    fn code(&mut self, g: usize, q: &Quantiser<T>, x: &[T], to: &mut [u8]) -> Option<(usize, u64)> {
        let Engine { grids, batch, lengths, .. } = self;
        let grid = &grids[g];
        let to = to.get_mut(HEADER + longest_directory(grid, T::BYTES)..)?;
        let tiles = grid.tiles();
        let (mut end, mut energy) = (0, 0);
        for first in (0..tiles).step_by(L) {
            let ids = std::array::from_fn(|l| (first + l).min(tiles - 1));
            dispatch(Encode { batch, grid, q, x, ids: &ids });
            for l in 0..L.min(tiles - first) {
                let bytes = grid.values_inside(first + l) * T::BYTES;
                let to = &mut to[end..];
                let length = batch.write(grid, l, None, to, bytes);
                lengths[first + l] = length.map_or(RAW, |length| length as u32);
                if length.is_none() {
                    let mut to = to.chunks_exact_mut(T::BYTES);
                    lines(grid, first + l, |line| {
                        x[line].iter().zip(&mut to).for_each(|(x, to)| x.put(to));
                    });
                }
                end += length.unwrap_or(bytes);
                energy += batch.energy[l];
            }
        }
        Some((end, energy))
    }

    /// Returns the length of a stream if it is shorter than the array.
    fn shorter(&self, bytes: usize) -> Option<usize> {
        (bytes < self.values() * T::BYTES).then_some(bytes)
    }

    /// Writes header and directory, moves the payload directly behind them and returns the length
    /// of the stream in bytes.
    pub(super) fn finish(
        &self,
        g: usize,
        (step, unit): (f64, f64),
        later: Later,
        payload: usize,
        to: &mut [u8],
    ) -> usize {
        let grid = &self.grids[g];
        let lengths = &self.lengths[..grid.tiles()];
        let coded = || lengths.iter().filter(|&&l| l != 0);
        let longest = coded().filter(|&&l| l != RAW).max().copied().unwrap_or(0);
        let width = width(longest as usize);
        let begin = HEADER + directory_bytes(lengths.len(), coded().count(), width);
        let from = HEADER + longest_directory(grid, T::BYTES);
        to.copy_within(from..from + payload, begin);
        to[..begin].fill(0);
        to[0] = grid.side as u8;
        to[1] = width as u8;
        to[2] = later.count;
        to[4..8].copy_from_slice(&later.sum.to_le_bytes());
        to[8..16].copy_from_slice(&step.to_le_bytes());
        to[16..24].copy_from_slice(&unit.to_le_bytes());
        let (map, table) = to[HEADER..begin].split_at_mut(lengths.len().div_ceil(8));
        let mut at = 0u64;
        for (tile, &length) in lengths.iter().enumerate().filter(|(_, &l)| l != 0) {
            map[tile / 8] |= 1 << (tile % 8);
            if length != RAW {
                put(table, at, length);
            }
            at += u64::from(width);
        }
        begin + payload
    }

    /// Reads header and directory of a stream, and returns the number of its tiling, what its header says,
    /// and the payload. Returns `None` if they are damaged.
    pub(super) fn begin<'a>(&mut self, from: &'a [u8]) -> Option<(usize, Head, &'a [u8])> {
        let header = from.first_chunk::<HEADER>()?;
        let [side, width, count, zero, ..] = *header;
        let number = |at: usize| Some(f64::from_le_bytes(*header.get(at..)?.first_chunk::<8>()?));
        let (step, unit) = (number(8)?, number(16)?);
        let sum = u32::from_le_bytes(*header[4..].first_chunk()?);
        let g = self.grids.iter().position(|grid| grid.side == usize::from(side))?;
        let grid = &self.grids[g];
        if !(step > 0.0 && unit > 0.0 && step.is_finite() && unit.is_finite())
            || u32::from(width) > 24
            || zero != 0
        {
            return None;
        }
        let (map, rest) = from.get(HEADER..)?.split_at_checked(grid.tiles().div_ceil(8))?;
        let lengths = self.lengths.get_mut(..grid.tiles())?;
        let coded = (0..lengths.len()).filter(|&tile| map[tile / 8] >> (tile % 8) & 1 != 0).count();
        let (table, payload) =
            rest.split_at_checked((coded as u64 * u64::from(width)).div_ceil(8) as usize)?;
        let mut table = Reader::new(table, 0);
        for (tile, length) in lengths.iter_mut().enumerate() {
            *length = 0;
            if map[tile / 8] >> (tile % 8) & 1 != 0 {
                *length = match table.get(width.into()) as u32 {
                    0 => RAW,
                    length if length as usize > grid.values() * T::BYTES => return None,
                    length => length,
                };
            }
        }
        Some((g, Head { step, unit, later: Later { count, sum } }, payload))
    }

    /// Takes the bytes of the tiles from `first` on, at most `L`, from the front of `rest`: of each tile its
    /// bits, or if it is stored raw its values. Returns `None` if there are too few.
    pub(super) fn tiles_of<'a>(
        &self,
        g: usize,
        first: usize,
        rest: &mut &'a [u8],
    ) -> Option<[[Option<&'a [u8]>; L]; 2]> {
        let grid = &self.grids[g];
        let mut tiles = [[None; L]; 2];
        for l in 0..L.min(grid.tiles() - first) {
            let length = self.lengths[first + l];
            let is_raw = length == RAW;
            let size = match is_raw {
                true => grid.values_inside(first + l) * T::BYTES,
                false => length as usize,
            };
            if size > 0 {
                let (tile, behind) = rest.split_at_checked(size)?;
                *rest = behind;
                tiles[usize::from(is_raw)][l] = Some(tile);
            }
        }
        Some(tiles)
    }
}

impl<T: Number, const L: usize> Codes<T> for Engine<T, L> {
    const NAME: &'static str = "dct";

    fn encode(&mut self, x: &[T], bound: Bound, to: &mut [u8]) -> Result<Option<usize>> {
        Ok(match bound {
            _ if !(bound.value() > 0.0 && bound.value().is_finite()) => None,
            Bound::Max(most) => self.compress_within(x, most, to),
            Bound::Rms(target) => self.compress_mean(x, target, to),
        })
    }

    fn decode(&mut self, from: &[u8], x: &mut [T]) -> Option<()> {
        let (g, head, mut rest) = self.begin(from)?;
        if head.later != Later::NONE {
            return None;
        }
        let q = Quantiser::new(&self.grids[g], head.step, head.unit, None)?;
        for first in (0..self.grids[g].tiles()).step_by(L) {
            let [bytes, raw] = self.tiles_of(g, first, &mut rest)?;
            let Engine { grids, batch, .. } = self;
            let grid = &grids[g];
            let tiles = L.min(grid.tiles() - first);
            let ids: [usize; L] = std::array::from_fn(|l| first + l.min(tiles - 1));
            let (q, bytes, ids) = (&q, &bytes[..tiles], &ids[..tiles]);
            dispatch(Decode { batch, grid, q, bytes, ids, x })?;
            for (l, raw) in raw.iter().enumerate() {
                let Some(raw) = *raw else { continue };
                let mut values = raw.chunks_exact(T::BYTES);
                lines(grid, first + l, |line| {
                    x[line].iter_mut().zip(&mut values).for_each(|(x, value)| *x = T::get(value));
                });
            }
        }
        rest.is_empty().then_some(())
    }
}

/// What the header of a stream says.
pub(super) struct Head {
    pub step: f64,
    pub unit: f64,
    pub later: Later,
}

/// On how many later arrays the tiles of a stream may lean, and the checksum of these arrays' coefficients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Later {
    pub count: u8,
    pub sum: u32,
}

impl Later {
    pub const NONE: Self = Later { count: 0, sum: 0 };
}

/// Returns 2^(index/16), the ratio of the step with this index to the target.
pub(super) fn step_of(index: usize) -> f64 {
    (0..index / 16).fold(OCTAVE[index % 16], |s, _| s * 2.0)
}

/// Returns whether the errors keep the target, with a margin for the rounding errors of the sum.
pub(super) fn holds(energy: u64, step: f64, target: f64, values: usize) -> bool {
    let relative = step / target;
    energy as f64 * (relative * relative) <= values as f64 * (ENERGY * (1.0 - 1.0 / 65536.0))
}

/// Returns the number of bits of a length up to `longest`.
fn width(longest: usize) -> u32 {
    usize::BITS - longest.leading_zeros()
}

/// Returns the length in bytes of the longest possible directory for values of `bytes` bytes each.
pub(crate) fn longest_directory(grid: &Grid, bytes: usize) -> usize {
    directory_bytes(grid.tiles(), grid.tiles(), width(grid.values() * bytes))
}

/// Returns the most bytes of a stream of values of `bytes` bytes each: header, longest directory,
/// all tiles raw, and 16 bytes that a writer may overwrite behind them.
pub(super) fn max_bytes(n: [usize; 3], bytes: usize) -> usize {
    let dims = dims(n);
    let directory = |&side: &usize| {
        let (t, m) = tiling(n, side);
        let [values, tiles] = [t, m].map(|extents| extents.iter().product::<usize>());
        HEADER + directory_bytes(tiles, tiles, width(values * bytes))
    };
    sides(dims).iter().map(directory).max().unwrap_or(0) + n.iter().product::<usize>() * bytes + 16
}

/// Returns the most bytes of the stream of an array of a sequence: as `max_bytes`, but each of the largest tiles
/// may take the bytes of all its values, also of those outside the array.
pub(super) fn max_bytes_of_sequence(n: [usize; 3], bytes: usize) -> usize {
    let (t, m) = tiling(n, sides(dims(n))[0]);
    let [values, tiles] = [t, m].map(|extents| extents.iter().product::<usize>());
    HEADER + directory_bytes(tiles, tiles, width(values * bytes)) + tiles * values * bytes + 16
}

/// Returns the length in bytes of a directory for `tiles` tiles if `coded` of them are not empty.
fn directory_bytes(tiles: usize, coded: usize, width: u32) -> usize {
    tiles.div_ceil(8) + (coded as u64 * u64::from(width)).div_ceil(8) as usize
}

/// Writes a length of up to 24 bits at bit `at` of the table.
fn put(table: &mut [u8], at: u64, length: u32) {
    let bytes = (u64::from(length) << (at % 8)).to_le_bytes();
    for (to, from) in table[(at / 8) as usize..].iter_mut().zip(bytes) {
        *to |= from;
    }
}

/// Bits, squared error and number of values of the sample.
struct Sampled {
    bits: u64,
    energy: u64,
    values: usize,
}

/// Returns how many of the largest tiles are in the sample.
pub(crate) fn sample_tiles(large: &Grid) -> usize {
    (large.tiles() / 32).max(16).min(large.tiles())
}

/// Returns tile s of the sample: the fractional part of s times the golden ratio, times `tiles`.
fn scattered(s: usize, tiles: usize) -> usize {
    let fraction = (s as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((u128::from(fraction) * tiles as u128) >> 64) as usize
}

/// Calls `line` for each line of the tile inside the array, with the range of its values.
#[inline(always)]
pub(super) fn lines(grid: &Grid, tile: usize, mut line: impl FnMut(std::ops::Range<usize>)) {
    let (first, inside) = grid.inside(tile);
    for k in first[2]..first[2] + inside[2] {
        for j in first[1]..first[1] + inside[1] {
            let begin = grid.index([first[0], j, k]);
            line(begin..begin + inside[0]);
        }
    }
}
