//! Codes whole arrays of one type: chooses tile side and step, writes directory and payload.

use super::batch::{Batch, OVERWRITTEN};
use super::bits::Reader;
use super::decode::Decode;
use super::encode::{Code, Load};
use super::grid::{dims, sides, tiling, Grid};
use super::portion::{join, portions, AllCoded, Coded, Output, MOST_PORTIONS};
use super::quantiser::{Number, Quantiser};
use crate::codec::simd::dispatch;
use crate::codec::typed::Codes;
use crate::codec::{Bound, Shape};
use crate::device::{share, Team};
use crate::error::Result;
use crate::fallible_vec;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

/// Bytes of the header, which precedes the directory.
pub(super) const HEADER: usize = 24;
/// Ratio of the step to the bound on every error. With this step some errors exceed the bound;
/// their corrections take fewer bits than a smaller step would.
const STEP: f64 = 2.1;
/// Ratio of the unit of the corrections to the bound on every error.
pub(super) const UNIT: f64 = 1.25;
/// Stands for a raw tile in the array `lengths`.
pub(super) const RAW: u32 = u32::MAX;

pub(super) struct Engine<T, const L: usize> {
    /// The tilings to choose from, the one with the largest tiles first.
    pub(super) grids: Vec<Grid>,
    /// Working memory for each thread that codes. Slot 0 is for a pass over all tiles; the others, which only
    /// the first one has, hold the sample.
    pub(super) seats: Vec<Batch<T, L>>,
    /// The threads that share the work, if there are any.
    pub(super) team: Option<Arc<Team>>,
    /// Length of each tile in bytes; 0 for an empty tile, `RAW` for a raw tile.
    pub(super) lengths: Vec<u32>,
    /// The tiles of the sample, batch by batch; the last one is repeated where the last batch has more
    /// lanes than there are tiles.
    sample: Vec<[usize; L]>,
    /// Number of tiles in the sample, and how many of their values are inside the array.
    sampled: usize,
    sampled_values: usize,
}

impl<T: Number, const L: usize> Engine<T, L> {
    pub fn new(shape: Shape) -> Result<Self> {
        let n = squeezed(shape.n);
        let dims = dims(n);
        let mut grids = fallible_vec::with_room(2)?;
        for &side in sides(dims) {
            grids.push(Grid::new(n, side)?);
        }
        let tiles = grids.iter().map(Grid::tiles).max().unwrap_or(0);
        let slots = |grid: &Grid| {
            let parts = grids[0].values() / grid.values();
            (sample_tiles(&grids[0]) * parts).div_ceil(L)
        };
        Ok(Engine {
            seats: one(Batch::new(&grids, |grid| 1 + slots(grid))?)?,
            team: None,
            sample: fallible_vec::filled([0; L], grids.iter().map(slots).max().unwrap_or(0))?,
            sampled: 0,
            sampled_values: 0,
            lengths: fallible_vec::filled(0, tiles)?,
            grids,
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
            let bits = if self.grids.len() > 1 {
                self.load_sample(g, x, q.small(&self.grids[g]));
                self.sample_bits(g, &q).0
            } else {
                0
            };
            if best.is_none_or(|(least, _)| bits < least) {
                best = Some((bits, g));
            }
        }
        let (_, g) = best?;
        let q = quantiser(&self.grids[g])?;
        let bytes = self.code(g, &[q], x, |_| true, &mut [0], self.payload(g, to)?)?;
        self.finish(g, step, unit, bytes, to)
    }

    /// Loads a sample of the tiles, for quantisers whose `small` is not less than this one. The
    /// choice of the sample depends only on the shape: one in 32 of the largest tiles, but at least
    /// 16, scattered over the array; with smaller tiles, all tiles that these largest tiles contain.
    pub(super) fn load_sample(&mut self, g: usize, x: &[T], small: T) {
        let Engine { grids, seats, sample, sampled, sampled_values, .. } = self;
        let batch = &mut seats[0];
        let (large, grid) = (&grids[0], &grids[g]);
        let tiles = large.tiles();
        let count = sample_tiles(large);
        let parts: [usize; 3] = std::array::from_fn(|a| large.t[a] / grid.t[a]);
        let all = parts.iter().product::<usize>();
        (*sampled, *sampled_values) = (0, 0);
        for s in 0..count * all {
            let tile = if count == tiles { s / all } else { scattered(s / all, tiles) };
            let (place, part) = (large.place(tile), s % all);
            let part = [part % parts[0], part / parts[0] % parts[1], part / parts[0] / parts[1]];
            let at: [usize; 3] = std::array::from_fn(|a| place[a] * parts[a] + part[a]);
            if (0..3).all(|a| at[a] < grid.m[a]) {
                let id = (at[2] * grid.m[1] + at[1]) * grid.m[0] + at[0];
                sample[*sampled / L][*sampled % L..].fill(id);
                *sampled += 1;
                *sampled_values += grid.values_inside(id);
            }
        }
        for (b, ids) in sample[..sampled.div_ceil(L)].iter().enumerate() {
            dispatch(Load { batch, grid, x, slot: 1 + b, ids, small });
        }
    }

    /// Returns the squared error of the sample and its number of values. Ends early when `may_hold`
    /// refuses the squared error so far.
    pub(super) fn sample_energy(
        &mut self,
        g: usize,
        q: &Quantiser<T>,
        may_hold: impl Fn(u64, usize) -> bool,
    ) -> (u64, usize) {
        let Engine { grids, seats, sample, sampled, sampled_values, .. } = self;
        let batch = &mut seats[0];
        let (grid, mut energy) = (&grids[g], 0);
        for (b, ids) in sample[..sampled.div_ceil(L)].iter().enumerate() {
            dispatch(Code { batch, grid, q, slot: 1 + b, ids, strings: false });
            energy += batch.energy[..L.min(*sampled - b * L)].iter().sum::<u64>();
            if !may_hold(energy, *sampled_values) {
                break;
            }
        }
        (energy, *sampled_values)
    }

    /// Returns the number of bits of the sample, with those of the directory, its number of values, and
    /// how much the squared errors of its tiles differ: the difference to be expected between the
    /// sample and the array, relative to the squared error.
    pub(super) fn sample_bits(&mut self, g: usize, q: &Quantiser<T>) -> (u64, f64, f64) {
        let Engine { grids, seats, sample, sampled, .. } = self;
        let batch = &mut seats[0];
        let (grid, mut bits) = (&grids[g], 0);
        let (mut sum, mut values) = (0.0, 0.0);
        // Sums of squares and products of squared errors and numbers of values.
        let (mut squares, mut products, mut value_squares) = (0.0, 0.0, 0.0);
        for (b, ids) in sample[..sampled.div_ceil(L)].iter().enumerate() {
            dispatch(Code { batch, grid, q, slot: 1 + b, ids, strings: true });
            for (l, &id) in ids.iter().enumerate().take(*sampled - b * L) {
                let inside = grid.values_inside(id);
                let most = inside * T::BYTES;
                bits += match batch.length(grid, l, None, most) {
                    Some(0) => 1,
                    bytes => 12 + 8 * bytes.unwrap_or(most) as u64,
                };
                let (energy, inside) = (batch.energy[l] as f64, inside as f64);
                (sum, values) = (sum + energy, values + inside);
                squares += energy * energy;
                products += energy * inside;
                value_squares += inside * inside;
            }
        }
        let mean = sum / values;
        let deviation = squares - 2.0 * mean * products + mean * mean * value_squares;
        let missing = 1.0 - *sampled as f64 / grid.tiles() as f64;
        (bits, values, (deviation * missing).max(0.0).sqrt() / sum.max(1.0))
    }

    /// Returns the part of the output where the payload is written at first: behind the longest
    /// possible directory.
    pub(super) fn payload<'a>(&self, g: usize, to: &'a mut [u8]) -> Option<&'a mut [u8]> {
        to.get_mut(HEADER + longest_directory(&self.grids[g], T::BYTES)..)
    }

    /// Quantises all tiles with each of the quantisers and adds up their squared errors. Codes the
    /// tiles with the last quantiser into `to`, and returns their bytes. Once `may_hold` refuses the
    /// squared error so far, which it is also asked before the first tile, the remaining tiles are
    /// only measured, and the function returns `None`.
    pub(super) fn code(
        &mut self,
        g: usize,
        qs: &[Quantiser<T>],
        x: &[T],
        may_hold: impl Fn(u64) -> bool + Sync,
        energies: &mut [u64],
        to: &mut [u8],
    ) -> Option<usize> {
        let Engine { grids, seats, lengths, team, .. } = self;
        let (grid, slot) = (&grids[g], 0);
        let smaller = |a: T, b: T| if b < a { b } else { a };
        let small = qs.iter().map(|q| q.small(grid)).reduce(smaller)?;
        let tiles = grid.tiles();
        let makes_strings = may_hold(0);
        // The squared error so far with the last quantiser, of the tiles of all portions.
        let so_far = AtomicU64::new(0);
        let most = |tile: usize| grid.values_inside(tile) * T::BYTES;
        let all = portions::<L>(tiles, seats.len());
        let mut all = AllCoded::new(all, &mut lengths[..tiles], to, most)?;
        share(team.as_deref(), seats, all.portions(), |batch, portion| {
            let Coded { tiles, lengths, to, end, energies, is_coded, .. } = portion;
            let mut strings = makes_strings;
            for first in tiles.clone().step_by(L) {
                let ids = &std::array::from_fn(|l| (first + l).min(tiles.end - 1));
                dispatch(Load { batch, grid, x, slot, ids, small });
                for (i, (q, energy)) in qs.iter().zip(&mut *energies).enumerate() {
                    let is_last = i + 1 == qs.len();
                    dispatch(Code { batch, grid, q, slot, ids, strings: is_last && strings });
                    let own = batch.energy[..L.min(tiles.end - first)].iter().sum::<u64>();
                    *energy += own;
                    if is_last && strings {
                        strings = may_hold(so_far.fetch_add(own, Ordering::Relaxed) + own);
                    }
                }
                if !strings {
                    continue;
                }
                for l in 0..L.min(tiles.end - first) {
                    let bytes = grid.values_inside(first + l) * T::BYTES;
                    let to = &mut to[*end..];
                    let length = batch.write(grid, l, None, to, bytes);
                    lengths[first + l - tiles.start] = length.map_or(RAW, |length| length as u32);
                    if length.is_none() {
                        let mut to = to.chunks_exact_mut(T::BYTES);
                        lines(grid, first + l, |line| {
                            x[line].iter().zip(&mut to).for_each(|(x, to)| x.put(to));
                        });
                    }
                    *end += length.unwrap_or(bytes);
                }
            }
            *is_coded = strings;
        });
        energies.fill(0);
        for portion in all.portions() {
            energies.iter_mut().zip(&portion.energies).for_each(|(all, own)| *all += own);
        }
        let is_coded = all.portions().iter().all(|portion| portion.is_coded);
        let written = all.written();
        is_coded.then(|| join(to, written))
    }

    /// Allocates working memory for each thread of `team` that may code at a time.
    pub(super) fn join(&mut self, team: &Arc<Team>) -> Result<()> {
        self.seats.truncate(1);
        while self.seats.len() < team.seats() {
            fallible_vec::push(&mut self.seats, Batch::new(&self.grids, |_| 1)?)?;
        }
        self.team = Some(team.clone());
        Ok(())
    }

    /// Returns the length of the stream of an array by itself, made by `assemble`, in bytes. Returns `None`
    /// if the stream is not shorter than the array.
    pub(super) fn finish(
        &self,
        g: usize,
        step: f64,
        unit: f64,
        payload: usize,
        to: &mut [u8],
    ) -> Option<usize> {
        let bytes = self.assemble(g, (step, unit), Later::NONE, payload, to);
        (bytes < self.values() * T::BYTES).then_some(bytes)
    }

    /// Writes header and directory, moves the payload directly behind them and returns the length
    /// of the stream in bytes.
    pub(super) fn assemble(
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

    /// Divides the tiles of a stream and its payload into portions. Returns `None` if the payload has too few or
    /// too many bytes.
    pub(super) fn divided<'a>(&self, g: usize, mut payload: &'a [u8]) -> Option<Divided<'a>> {
        let (grid, mut count) = (&self.grids[g], 0);
        let mut divided: [_; MOST_PORTIONS] = std::array::from_fn(|_| (0..0, &[][..]));
        for (tiles, to) in portions::<L>(grid.tiles(), self.seats.len()).zip(&mut divided) {
            let bytes = tiles.clone().try_fold(0usize, |bytes, tile| {
                bytes.checked_add(bytes_of::<T>(grid, &self.lengths, tile))
            });
            let (own, behind) = payload.split_at_checked(bytes?)?;
            (*to, payload, count) = ((tiles, own), behind, count + 1);
        }
        payload.is_empty().then_some((divided, count))
    }
}

/// Portions of the tiles of a stream, each with its bytes, and the number of portions.
pub(super) type Divided<'a> = ([(Range<usize>, &'a [u8]); MOST_PORTIONS], usize);

/// The bytes of a tile whose length the directory tells.
fn bytes_of<T: Number>(grid: &Grid, lengths: &[u32], tile: usize) -> usize {
    match lengths[tile] {
        RAW => grid.values_inside(tile) * T::BYTES,
        length => length as usize,
    }
}

/// Takes the bytes of `tiles`, at most `L`, from the front of `rest`: of each tile its bits, or if it is stored
/// raw its values. Returns `None` if there are too few.
pub(super) fn tiles_of<'a, T: Number, const L: usize>(
    grid: &Grid,
    lengths: &[u32],
    tiles: Range<usize>,
    rest: &mut &'a [u8],
) -> Option<[[Option<&'a [u8]>; L]; 2]> {
    let mut found = [[None; L]; 2];
    for (l, tile) in tiles.enumerate().take(L) {
        let size = bytes_of::<T>(grid, lengths, tile);
        if size > 0 {
            found[usize::from(lengths[tile] == RAW)][l] = Some(rest.split_off(..size)?);
        }
    }
    Some(found)
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

    fn join(&mut self, team: &Arc<Team>) -> Result<()> {
        self.join(team)
    }

    fn decode(&mut self, from: &[u8], x: &mut [T]) -> Option<()> {
        let (g, head, payload) = self.begin(from)?;
        if head.later != Later::NONE {
            return None;
        }
        let q = Quantiser::new(&self.grids[g], head.step, head.unit, None)?;
        let (mut divided, count) = self.divided(g, payload)?;
        let Engine { grids, seats, lengths, team, .. } = self;
        let (grid, x, is_damaged) = (&grids[g], Output::new(x), AtomicBool::new(false));
        share(team.as_deref(), seats, &mut divided[..count], |batch, (tiles, rest)| {
            // SAFETY: no value is of two portions.
            let mut x = unsafe { x.other() };
            let mut decode = |first: usize| {
                let tiles = first..tiles.end.min(first + L);
                let [bytes, raw] = tiles_of::<T, L>(grid, lengths, tiles.clone(), rest)?;
                let ids: [usize; L] = std::array::from_fn(|l| (first + l).min(tiles.end - 1));
                let (q, bytes, ids) = (&q, &bytes[..tiles.len()], &ids[..tiles.len()]);
                dispatch(Decode { batch, grid, q, bytes, ids, x: &mut x })?;
                for (l, raw) in raw.iter().enumerate() {
                    let Some(raw) = *raw else { continue };
                    let mut values = raw.chunks_exact(T::BYTES);
                    lines(grid, first + l, |line| {
                        let x = x.values(line.start, line.len());
                        x.iter_mut().zip(&mut values).for_each(|(x, value)| *x = T::get(value));
                    });
                }
                Some(())
            };
            if tiles.clone().step_by(L).try_for_each(&mut decode).is_none() {
                is_damaged.store(true, Ordering::Relaxed);
            }
        });
        (!is_damaged.into_inner()).then_some(())
    }
}

/// A vector of one item.
fn one<T>(item: T) -> Result<Vec<T>> {
    let mut items = Vec::new();
    fallible_vec::push(&mut items, item)?;
    Ok(items)
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
    sides(dims).iter().map(directory).max().unwrap_or(0)
        + n.iter().product::<usize>() * bytes
        + OVERWRITTEN
}

/// Returns the most bytes of the stream of an array of a sequence: as `max_bytes`, but each of the largest tiles
/// may take the bytes of all its values, also of those outside the array.
pub(super) fn max_bytes_of_sequence(n: [usize; 3], bytes: usize) -> usize {
    let (t, m) = tiling(n, sides(dims(n))[0]);
    let [values, tiles] = [t, m].map(|extents| extents.iter().product::<usize>());
    HEADER
        + directory_bytes(tiles, tiles, width(values * bytes))
        + tiles * values * bytes
        + OVERWRITTEN
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

/// Returns how many of the largest tiles are in the sample.
pub(crate) fn sample_tiles(large: &Grid) -> usize {
    (large.tiles() / 32).max(16).min(large.tiles())
}

/// Returns tile s of the sample: the fractional part of s times the golden ratio, times `tiles`.
fn scattered(s: usize, tiles: usize) -> usize {
    let fraction = (s as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((u128::from(fraction) * tiles as u128) >> 64) as usize
}

/// Returns the extents of an array of the same values without extents of 1: those come last. All
/// tiles and their numbers stay the same, and lines along the first axis are as long as can be.
fn squeezed(n: [usize; 3]) -> [usize; 3] {
    let mut squeezed = [1; 3];
    squeezed.iter_mut().zip(n.into_iter().filter(|&n| n > 1)).for_each(|(to, n)| *to = n);
    squeezed
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
