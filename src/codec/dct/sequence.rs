//! Codes the arrays of a sequence of neighbouring times: a tile is stored as the difference between its
//! coefficients and what the same tile of the next one or two *later* arrays predicts. So a sequence is
//! decoded backwards, as an adjoint run asks for its states, and only the two arrays decoded last are needed
//! to decode the next one.
//!
//! An array is quantised when it is there (`take`), and coded when the two later ones have been quantised
//! (`code`). What an array decodes to follows from the array and its bound alone, never from the arrays on
//! which it leans: a sequence may end, or begin anew, at any array without changing a bit of any state.
//!
//! # Frames and prediction
//! A *frame* (module `frame`) holds the coefficients q of all tiles of one array, their step and their
//! corrections. The largest tiles are used. Let q1 and q2 be the coefficients, at the same place, of the next
//! and the second next array, with the steps s1 and s2, and s the step of the array itself. A tile that leans on
//!
//! ```text
//! 0 arrays stores  q
//! 1 array          q - round(q1 (s1 / s))
//! 2 arrays         q - round(q1 (2 s1 / s) - q2 (s2 / s))
//! ```
//!
//! The three ratios in brackets are computed in double precision and rounded to single precision, in which all
//! other arithmetic is done. `round` adds 1/2 to the magnitude, cuts off the fraction, turns magnitudes of 2^31
//! or more into 0 and then limits them to 2^23. An array does not lean on one whose step is more than 16 times
//! larger or smaller, nor a tile on one that is stored raw. The encoder takes the number of arrays for which the
//! estimate `price` is least.
//!
//! # Stream
//! As the stream of one array (module `dct`), with these additions:
//!
//! | bytes | |
//! |---|---|
//! | 2 | number of later arrays on which tiles may lean: 1 or 2; 0: none, and no tile has the next row's bits |
//! | 4..8 | checksum of these frames: that of the next array; if tiles may lean on two, rotated to the left by one bit, exclusive-or that of the second next array |
//!
//! | bits | |
//! |---|---|
//! | 2, at the beginning of a tile | number of later arrays on which the tile leans |
//!
//! The checksum of a frame is the sum over its tiles, and their rows r, of (2r+1) 0x9e3779b1 times the sum of the
//! row's coefficients, coefficient i rotated to the left by i bits, all modulo 2^32. A raw tile has its values in
//! the place of coefficients (of 8 bytes first all lower halves, then the upper ones behind as many places as a
//! tile has).
//!
//! An empty tile has coefficients that are all zero; a tile whose stored differences are zero is not empty. A
//! tile with a coefficient of magnitude 2^22 or more is stored raw.

use super::batch::{most_corrections, Batch};
use super::encode::is_row;
use super::engine::{self, lines, longest_directory, tiles_of, Engine, Head, HEADER, RAW, UNIT};
use super::frame::{has, later_sum, set_bits, Bits, Frame, Keeper, Kind, Later, Rows};
use super::grid::Grid;
use super::mean::{holds, step_of};
use super::portion::{join, portions, AllCoded, Coded, Output, MOST_PORTIONS};
use super::quantiser::{Number, Quantiser};
use super::rows::LEAN_BITS;
use super::tiles::Tiles;
use super::vector::Vector;
use crate::codec::simd::{array, dispatch, level, Kernel};
use crate::codec::typed::CodesSequences;
use crate::codec::{Bound, Shape};
use crate::device::{share, Team};
use crate::error::Result;
use crate::fallible_vec;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::Arc;

/// Ratio of the step to the bound on every error. Differences in time take few bits, so that corrections weigh
/// more than in an array by itself, where the ratio is larger.
const STEP: f64 = 1.8;
/// A tile with coefficients of this magnitude or more is stored raw: all others then take fewer bits than
/// their values do.
const LARGE: u32 = 1 << 22;

/// Codes the arrays of sequences of one shape.
pub struct Sequence<T, const L: usize> {
    engine: Engine<T, L>,
    frames: Vec<Frame<L>>,
    /// 0, 1, 2, ...: the places of coefficients that are in the order of the rows.
    in_order: Vec<u32>,
}

impl<T: Number, const L: usize> Sequence<T, L> {
    pub fn new(shape: Shape, frames: usize) -> Result<Self> {
        let engine = Engine::new(shape)?;
        let grid = &engine.grids[0];
        let in_order = fallible_vec::collected(0..grid.values() as u32)?;
        let mut made = Sequence { frames: fallible_vec::with_room(frames)?, in_order, engine };
        made.make_frames(frames)?;
        Ok(made)
    }

    /// Makes the frames, for the threads that the engine has room for.
    fn make_frames(&mut self, frames: usize) -> Result<()> {
        let Engine { grids, seats, .. } = &self.engine;
        self.frames.clear();
        for _ in 0..frames {
            self.frames.push(Frame::new(&grids[0], T::BYTES / 4, seats.len())?);
        }
        Ok(())
    }

    /// Quantises `x` into frame `k`. Returns the sum of the squares of the errors if `most` is `None`.
    fn quantise(
        &mut self,
        k: usize,
        x: &[T],
        (step, unit): (f64, f64),
        most: Option<f64>,
    ) -> Option<u64> {
        let Sequence { engine: Engine { grids, seats, team, .. }, frames, .. } = self;
        let (frame, grid) = (&mut frames[k], &grids[0]);
        let q = Quantiser::new(grid, step, unit, most)?;
        frame.begin(step, unit);
        let (left, energy) = (AtomicUsize::new(frame.room), AtomicU64::new(0));
        let is_full = every(team, seats, &mut frame.parts, |batch, part| {
            let Range { start, end } = part.tiles;
            for first in (start..end).step_by(L) {
                let ids = array(|l| (first + l).min(end - 1));
                let begin = part.rows.len();
                let rows = &mut part.rows;
                let (present, kinds, mut marks) =
                    dispatch(Take { batch, grid, q: &q, x, ids: &ids, rows });
                part.add_batch(begin, present);
                for l in 0..L.min(end - first) {
                    let tile = first + l;
                    if kinds[l] == Kind::Raw {
                        batch.energy[l] = 0;
                        marks[l] = part.put_raw(grid, l, values_of(grid, tile, x));
                    }
                    part.add(batch, grid, (tile, l), (kinds[l], marks[l]), &left)?;
                    energy.fetch_add(batch.energy[l], Ordering::Relaxed);
                }
            }
            Some(())
        });
        is_full.then(|| frame.end())?;
        Some(energy.into_inner())
    }

    /// Quantises `x` into frame `k` so that the root of the mean square of the errors is at most `target`.
    fn quantise_mean(&mut self, k: usize, x: &[T], target: f64) -> Option<()> {
        let mut index = self.engine.find_step(0, x, target)?.index;
        loop {
            let step = target * step_of(index);
            let energy = self.quantise(k, x, (step, step), None)?;
            if holds(energy, step, target, x.len()) {
                return Some(());
            }
            let enough = |by: usize| holds(energy, step / step_of(by), target, x.len());
            let by = (1..=index).find(|&by| enough(by)).unwrap_or(1);
            index = index.checked_sub(by)?;
        }
    }
}

impl<T: Number, const L: usize> CodesSequences<T> for Sequence<T, L> {
    const NAME: &'static str = "dct";

    fn join(&mut self, team: &Arc<Team>) -> Result<()> {
        self.engine.join(team)?;
        self.make_frames(self.frames.len())
    }

    fn take(&mut self, k: usize, x: &[T], bound: Bound) -> Option<()> {
        self.frames[k].is_full = false;
        match bound {
            Bound::Max(most) => {
                self.quantise(k, x, (most * STEP, most * UNIT), Some(most)).map(|_| ())
            }
            Bound::Rms(target) => self.quantise_mean(k, x, target),
        }
    }

    fn code(&mut self, k: usize, later: &[usize], to: &mut [u8]) -> Option<(usize, usize)> {
        let Sequence { engine, frames, in_order } = self;
        let frame = Some(&frames[k]).filter(|frame| frame.is_full)?;
        let later = later.iter().take(2).map(|&k| &frames[k]);
        let mut found = [None; 2];
        let leans = later.take_while(|later| frame.may_lean_on(later));
        found.iter_mut().zip(leans).for_each(|(to, later)| *to = Some(later));
        let count = found.iter().flatten().count();
        let Engine { grids, seats, lengths, team, .. } = engine;
        let grid = &grids[0];
        let payload = to.get_mut(HEADER + longest_directory(grid, T::BYTES)..)?;
        let all = portions::<L>(grid.tiles(), seats.len());
        let most = |_| grid.values() * T::BYTES;
        let mut all = AllCoded::new(all, &mut lengths[..grid.tiles()], payload, most)?;
        let is_coded = every(team, seats, all.portions(), |batch, portion| {
            let Coded { number, tiles, lengths, to, end, .. } = portion;
            let part = &frame.parts[*number];
            for first in tiles.clone().step_by(L) {
                let kinds = part.kinds(first);
                let lengths = &mut lengths[first - tiles.start..];
                if part.is_empty(first) {
                    lengths[..kinds.len()].fill(0);
                    continue;
                }
                let (rows, later) =
                    (part.batch(first), Later::new(found, frame.step, (*number, first)));
                let leans = dispatch(Lean { batch, grid, rows, later, kinds, in_order });
                for (l, &kind) in kinds.iter().enumerate() {
                    let tile = first + l;
                    let to = &mut to[*end..];
                    if kind == Kind::Raw {
                        let bytes = grid.values_inside(tile) * T::BYTES;
                        for (p, to) in to[..bytes].chunks_exact_mut(T::BYTES).enumerate() {
                            part.raw_value::<T>(grid, first, p, l).put(to);
                        }
                        (lengths[l], *end) = (RAW, *end + bytes);
                        continue;
                    }
                    if kind == Kind::Empty {
                        lengths[l] = 0;
                        continue;
                    }
                    let (room, corrections) =
                        (most_corrections(grid.values()), part.corrections_of(tile));
                    batch.corrections[l * room..][..corrections.len()].copy_from_slice(corrections);
                    (batch.count[l], batch.raw[l]) = (corrections.len(), false);
                    let lean = (count > 0).then_some(leans[l]);
                    let length = batch.write(grid, l, lean, to, grid.values() * T::BYTES)?;
                    (lengths[l], *end) = (length as u32, *end + length);
                }
            }
            Some(())
        });
        let written = all.written();
        let end = is_coded.then(|| join(payload, written))?;
        let later = engine::Later { count: count as u8, sum: later_sum(found) };
        Some((engine.assemble(0, (frame.step, frame.unit), later, end, to), count))
    }

    fn open(&mut self, k: usize, later: &[usize], from: &[u8]) -> Option<()> {
        self.frames[k].is_full = false;
        let (g, head, payload) = self.engine.begin(from)?;
        let count = usize::from(head.later.count);
        if g != 0 || count > later.len().min(2) {
            return None;
        }
        let mut frame = std::mem::replace(&mut self.frames[k], Frame::EMPTY);
        let mut found = [None; 2];
        found.iter_mut().zip(&later[..count]).for_each(|(to, &k)| *to = Some(&self.frames[k]));
        let opened = self.engine.open_frame(&mut frame, found, head, payload);
        self.frames[k] = frame;
        opened
    }

    fn leans(&self, stream: &[u8]) -> bool {
        stream.get(2).is_some_and(|&count| count > 0)
    }

    fn forget(&mut self, k: usize) {
        self.frames[k].is_full = false;
    }

    fn is_full(&self, k: usize) -> bool {
        self.frames[k].is_full
    }

    fn values(&mut self, k: usize, x: &mut [T]) -> Option<()> {
        let (frame, Engine { grids, seats, team, .. }) = (&self.frames[k], &mut self.engine);
        let grid = &grids[0];
        if !frame.is_full {
            return None;
        }
        let q = Quantiser::new(grid, frame.step, frame.unit, None)?;
        let room = most_corrections(grid.values());
        let x = Output::new(x);
        let mut numbers: [usize; MOST_PORTIONS] = std::array::from_fn(|k| k);
        let numbers = &mut numbers[..frame.parts.len()];
        share(team.as_deref(), seats, numbers, |batch, number| {
            // SAFETY: no value is of two portions.
            let mut x = unsafe { x.other() };
            let part = &frame.parts[*number];
            let Range { start, end } = part.tiles;
            for first in (start..end).step_by(L) {
                let kinds = part.kinds(first);
                let ids: [usize; L] = array(|l| (first + l).min(end - 1));
                let ids = &ids[..kinds.len()];
                if part.is_empty(first) {
                    dispatch(Clear::<T, L> { grid, ids, x: &mut x });
                    continue;
                }
                batch.count = [0; L];
                for l in 0..kinds.len() {
                    let corrections = part.corrections_of(first + l);
                    batch.corrections[l * room..][..corrections.len()].copy_from_slice(corrections);
                    batch.count[l] = corrections.len();
                }
                let rows = part.batch(first);
                dispatch(Values { batch, grid, q: &q, rows, ids, x: &mut x });
                for l in (0..kinds.len()).filter(|&l| kinds[l] == Kind::Raw) {
                    let mut p = 0;
                    lines(grid, first + l, |line| {
                        x.values(line.start, line.len()).iter_mut().for_each(|x| {
                            *x = part.raw_value(grid, first, p, l);
                            p += 1;
                        });
                    });
                }
            }
        });
        Some(())
    }
}

/// Calls `work` for each item as `share` does. Returns whether all calls returned something.
fn every<S: Send, I: Send>(
    team: &Option<Arc<Team>>,
    seats: &mut [S],
    items: &mut [I],
    work: impl Fn(&mut S, &mut I) -> Option<()> + Sync,
) -> bool {
    let has_failed = AtomicBool::new(false);
    share(team.as_deref(), seats, items, |seat, item| {
        if work(seat, item).is_none() {
            has_failed.store(true, Ordering::Relaxed);
        }
    });
    !has_failed.into_inner()
}

impl<T: Number, const L: usize> Engine<T, L> {
    /// Reads the tiles of a stream into a frame; `later` are the frames on which they may lean, as the header
    /// says. Returns `None` if the stream is damaged, or leans on other arrays.
    fn open_frame(
        &mut self,
        frame: &mut Frame<L>,
        later: [Option<&Frame<L>>; 2],
        head: Head,
        payload: &[u8],
    ) -> Option<()> {
        frame.begin(head.step, head.unit);
        let leans_on = |later: &&Frame<L>| frame.may_lean_on(later);
        let is_whole = later.iter().flatten().all(leans_on);
        if !is_whole || later_sum(later) != head.later.sum {
            return None;
        }
        let (leans, left) = (head.later.count > 0, AtomicUsize::new(frame.room));
        let (divided, _) = self.divided(0, payload)?;
        let Engine { grids, seats, lengths, team, .. } = self;
        let grid = &grids[0];
        let is_full = every(team, seats, &mut frame.parts, |batch, part| {
            let (Range { start, end }, number) = (part.tiles.clone(), part.number);
            let mut rest = divided[number].1;
            for first in (start..end).step_by(L) {
                let tiles = first..end.min(first + L);
                let [bytes, raw] = tiles_of::<T, L>(grid, lengths, tiles.clone(), &mut rest)?;
                let (begin, near) =
                    (part.rows.len(), Later::new(later, head.step, (number, first)));
                let rows = &mut part.rows;
                let (present, marks) = dispatch(Open { batch, grid, bytes, near, leans, rows })?;
                part.add_batch(begin, present);
                for (l, tile) in tiles.enumerate() {
                    let kind_and_mark = match (bytes[l], raw[l]) {
                        (None, None) => (Kind::Empty, marks[l]),
                        (Some(_), _) => (Kind::Coded, marks[l]),
                        (None, Some(raw)) => {
                            let values = raw.chunks_exact(T::BYTES).map(T::get);
                            (Kind::Raw, part.put_raw(grid, l, values))
                        }
                    };
                    part.add(batch, grid, (tile, l), kind_and_mark, &left)?;
                }
            }
            Some(())
        });
        is_full.then(|| frame.end())
    }
}

/// An estimate of the bits of a row of `R` coefficients from the sum of their magnitudes.
#[inline(always)]
fn price<const R: usize>(sum: u32) -> u32 {
    let r = R as u32;
    let k = 31 - ((sum / r) | 1).leading_zeros();
    let rice = r * (k + 1) + (sum >> k);
    let groups = (r / 4 + 4 * sum.min(r / 4)).saturating_add(sum);
    let magnitudes = if sum == 0 { 0 } else { groups.min(rice) };
    magnitudes + sum.min(r)
}

/// The values of a tile of `x`, in the order of the array.
fn values_of<'a, T: Number>(
    grid: &'a Grid,
    tile: usize,
    x: &'a [T],
) -> impl Iterator<Item = T> + 'a {
    let (first, inside) = grid.inside(tile);
    (0..inside[0] * inside[1] * inside[2]).map(move |p| {
        let at = [p % inside[0], p / inside[0] % inside[1], p / inside[0] / inside[1]];
        x[grid.index([first[0] + at[0], first[1] + at[1], first[2] + at[2]])]
    })
}

impl<T: Number, const L: usize> Batch<T, L> {
    /// Quantises the tiles `ids` of `x`. Returns false, with `q` untouched, if all coefficients are zero.
    #[inline(always)]
    fn load_and_quantise<const S: usize>(
        &mut self,
        grid: &Grid,
        q: &Quantiser<T>,
        x: &[T],
        ids: &[usize; L],
    ) -> bool {
        self.load_side::<S>(grid, x, 0, ids, q.small(grid));
        self.code_side::<S>(grid, q, 0, ids, false)
    }
}

/// Quantises the tiles `ids` of `x` and appends their rows to those of a frame. Returns which rows are there, and
/// the kinds and marks of the tiles. Of raw tiles the values are not there yet.
struct Take<'a, T, const L: usize> {
    batch: &'a mut Batch<T, L>,
    grid: &'a Grid,
    q: &'a Quantiser<T>,
    x: &'a [T],
    ids: &'a [usize; L],
    rows: &'a mut Vec<Vector<i32, L>>,
}

impl<T: Number, const L: usize> Kernel for Take<'_, T, L> {
    type Output = (Bits, [Kind; L], [u32; L]);

    #[inline(always)]
    fn run(self) -> Self::Output {
        let Take { batch, grid, q, x, ids, rows } = self;
        let is_some = match grid.side {
            8 => batch.load_and_quantise::<8>(grid, q, x, ids),
            16 => batch.load_and_quantise::<16>(grid, q, x, ids),
            _ => batch.load_and_quantise::<32>(grid, q, x, ids),
        };
        if !is_some {
            return ([0; 4], [Kind::Empty; L], [0; L]);
        }
        let keeper = match grid.row() {
            16 => kept::<T, L, 16>(batch, grid, rows),
            _ => kept::<T, L, 8>(batch, grid, rows),
        };
        let mut kinds = [Kind::Coded; L];
        for l in 0..L {
            if batch.raw[l] || keeper.any.0[l] >= LARGE {
                kinds[l] = Kind::Raw;
            } else if keeper.any.0[l] == 0 && batch.count[l] == 0 {
                kinds[l] = Kind::Empty;
            }
        }
        (keeper.present, kinds, keeper.marks.0)
    }
}

/// Keeps the rows, of `R` coefficients, of the tiles that were quantised.
#[inline(always)]
fn kept<'a, T, const L: usize, const R: usize>(
    batch: &Batch<T, L>,
    grid: &Grid,
    rows: &'a mut Vec<Vector<i32, L>>,
) -> Keeper<'a, L> {
    let mut keeper = Keeper::new(rows);
    for (r, places) in grid.order.chunks_exact(R).enumerate() {
        if is_row(&batch.is_some, places) {
            let mut row = [Vector([0; L]); R];
            for (to, &p) in row.iter_mut().zip(places) {
                *to = batch.q[p as usize];
            }
            keeper.keep(r, &row);
        }
    }
    keeper
}

/// Makes the bit strings of a batch of tiles of a frame. Returns for each tile on how many later ones it
/// leans.
struct Lean<'a, T, const L: usize> {
    batch: &'a mut Batch<T, L>,
    grid: &'a Grid,
    rows: Rows<'a, L>,
    kinds: &'a [Kind],
    later: Later<'a, L>,
    in_order: &'a [u32],
}

impl<T: Number, const L: usize> Kernel for Lean<'_, T, L> {
    type Output = [u8; L];

    #[inline(always)]
    fn run(self) -> [u8; L] {
        match self.grid.row() {
            16 => self.run_rows::<16>(),
            _ => self.run_rows::<8>(),
        }
    }
}

impl<T: Number, const L: usize> Lean<'_, T, L> {
    #[inline(always)]
    fn run_rows<const R: usize>(self) -> [u8; L] {
        let Lean { batch, grid, rows, kinds, later, in_order } = self;
        let leans = cheapest::<L, R>(rows, &later);
        let mut coded = Vector([0i32; L]);
        for (l, kind) in kinds.iter().enumerate() {
            coded.0[l] = -i32::from(*kind == Kind::Coded);
        }
        let masks = masks(&leans);
        let sums = &mut batch.sums[..grid.values() / R];
        sums.fill(Vector([0; L]));
        let zero = [Vector([0; L]); R];
        let mut from = [rows, later.rows[0], later.rows[1]];
        for r in set_bits(any_of(from)) {
            let [own, near, far] = &mut from;
            let [own, near, far] = [own.next(r, &zero), near.next(r, &zero), far.next(r, &zero)];
            for (i, to) in batch.q[r * R..][..R].iter_mut().enumerate() {
                for l in 0..L {
                    let [one, two] = later.predict(near[i].0[l], far[i].0[l]);
                    let predicted = one & masks[0].0[l] | two & masks[1].0[l];
                    to.0[l] = own[i].0[l].wrapping_sub(predicted) & coded.0[l];
                    sums[r].0[l] += to.0[l].unsigned_abs();
                }
            }
        }
        batch.strings.make::<R>(&batch.q, in_order, sums);
        leans
    }
}

/// The rows that are present in one of the batches.
#[inline(always)]
fn any_of<const L: usize>(rows: [Rows<'_, L>; 3]) -> Bits {
    let mut any = [0; 4];
    for rows in rows {
        for (any, present) in any.iter_mut().zip(rows.present) {
            *any |= present;
        }
    }
    any
}

/// All bits for the tiles that lean on one tile, and for those that lean on two.
#[inline(always)]
fn masks<const L: usize>(leans: &[u8; L]) -> [Vector<i32, L>; 2] {
    let mut masks = [Vector([0i32; L]); 2];
    for l in 0..L {
        masks[0].0[l] = -i32::from(leans[l] == 1);
        masks[1].0[l] = -i32::from(leans[l] == 2);
    }
    masks
}

/// Returns for each tile of a batch with these rows on how many later ones it leans with the fewest bits, by an
/// estimate.
#[inline(always)]
fn cheapest<const L: usize, const R: usize>(rows: Rows<'_, L>, later: &Later<'_, L>) -> [u8; L] {
    if later.most == [0; L] {
        return [0; L];
    }
    let mut prices = [Vector([0u32; L]); 3];
    let zero = [Vector([0; L]); R];
    let [mut own, mut near, mut far] = [rows, later.rows[0], later.rows[1]];
    for r in set_bits(any_of([rows, near, far])) {
        let own = own.next(r, &zero);
        if !(near.has(r) | far.has(r)) {
            // The row takes as many bits each time.
            continue;
        }
        let [near, far] = [near.next(r, &zero), far.next(r, &zero)];
        let mut sums = [Vector([0u32; L]); 3];
        for i in 0..R {
            for l in 0..L {
                let [one, two] = later.predict(near[i].0[l], far[i].0[l]);
                let q = own[i].0[l];
                sums[0].0[l] = sums[0].0[l].wrapping_add(q.unsigned_abs());
                let differences = [q.wrapping_sub(one), q.wrapping_sub(two)];
                sums[1].0[l] = sums[1].0[l].wrapping_add(differences[0].unsigned_abs());
                sums[2].0[l] = sums[2].0[l].wrapping_add(differences[1].unsigned_abs());
            }
        }
        for (sums, price_of) in sums.iter().zip(&mut prices) {
            for l in 0..L {
                price_of.0[l] = price_of.0[l].wrapping_add(price::<R>(sums.0[l]));
            }
        }
    }
    let mut leans = [0; L];
    for l in 0..L {
        for lean in 1..=later.most[l] {
            if prices[usize::from(lean)].0[l] < prices[usize::from(leans[l])].0[l] {
                leans[l] = lean;
            }
        }
    }
    leans
}

/// Reads a batch of tiles and appends their rows to those of a frame. Returns which rows are there and the marks
/// of the tiles, or `None` if they are damaged. Of raw tiles the values are not there yet.
struct Open<'a, T, const L: usize> {
    batch: &'a mut Batch<T, L>,
    grid: &'a Grid,
    bytes: [Option<&'a [u8]>; L],
    near: Later<'a, L>,
    /// Whether tiles begin with the number of later ones on which they lean.
    leans: bool,
    rows: &'a mut Vec<Vector<i32, L>>,
}

impl<T: Number, const L: usize> Kernel for Open<'_, T, L> {
    type Output = Option<(Bits, [u32; L])>;

    #[inline(always)]
    fn run(self) -> Self::Output {
        match self.grid.row() {
            16 => self.run_rows::<16>(),
            _ => self.run_rows::<8>(),
        }
    }
}

impl<T: Number, const L: usize> Open<'_, T, L> {
    #[inline(always)]
    fn run_rows<const R: usize>(self) -> Option<(Bits, [u32; L])> {
        let Open { batch, grid, bytes, near, leans: has_leans, rows } = self;
        let (mut leans, mut at) = ([0u8; L], 0);
        if has_leans {
            at = LEAN_BITS;
            for l in 0..L {
                let first = bytes[l].and_then(|bytes| bytes.first()).copied().unwrap_or(0);
                leans[l] = first & ((1 << LEAN_BITS) - 1);
                if leans[l] > near.most[l] {
                    return None;
                }
            }
        }
        batch.level = level();
        let end = batch.read::<true>(grid, T::default(), &bytes, at)?;
        let masks = masks(&leans);
        let mut keeper = Keeper::new(rows);
        let zero = [Vector([0; L]); R];
        let mut stored = Rows { vectors: &batch.q[..end], present: [0; 4] };
        for r in 0..end / R {
            stored.present[r / 64] |= 1 << (r % 64);
        }
        let mut from = [stored, near.rows[0], near.rows[1]];
        for r in set_bits(any_of(from)) {
            let [own, next, far] = &mut from;
            if !(next.has(r) | far.has(r)) {
                keeper.keep(r, own.next(r, &zero));
                continue;
            }
            let [own, next, far] = [own.next(r, &zero), next.next(r, &zero), far.next(r, &zero)];
            let mut row = [Vector([0; L]); R];
            for (i, to) in row.iter_mut().enumerate() {
                for l in 0..L {
                    let [one, two] = near.predict(next[i].0[l], far[i].0[l]);
                    let predicted = one & masks[0].0[l] | two & masks[1].0[l];
                    to.0[l] = own[i].0[l].wrapping_add(predicted);
                }
            }
            keeper.keep(r, &row);
        }
        Some((keeper.present, keeper.marks.0))
    }
}

/// Writes the values of a batch of tiles of a frame into the tiles `ids` of `x`; those of raw tiles are
/// arbitrary.
struct Values<'a, 'b, T, const L: usize> {
    batch: &'a mut Batch<T, L>,
    grid: &'a Grid,
    q: &'a Quantiser<T>,
    rows: Rows<'a, L>,
    ids: &'a [usize],
    x: &'a mut Output<'b, T>,
}

impl<T: Number, const L: usize> Kernel for Values<'_, '_, T, L> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Values { batch, grid, q, rows, ids, x } = self;
        let end = match grid.row() {
            16 => put::<T, L, 16>(rows, grid, q.step, &mut batch.x),
            _ => put::<T, L, 8>(rows, grid, q.step, &mut batch.x),
        };
        batch.level = level();
        match grid.side {
            8 => batch.finish::<8>(grid, q, ids, end, x),
            16 => batch.finish::<16>(grid, q, ids, end, x),
            _ => batch.finish::<32>(grid, q, ids, end, x),
        }
    }
}

/// Writes zeros into the tiles `ids` of `x`.
struct Clear<'a, 'b, T, const L: usize> {
    grid: &'a Grid,
    ids: &'a [usize],
    x: &'a mut Output<'b, T>,
}

impl<T: Number, const L: usize> Kernel for Clear<'_, '_, T, L> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Clear { grid, ids, x } = self;
        let tiles = Tiles::<L>::new(grid, ids);
        match grid.side {
            8 => tiles.clear::<T, 8>(grid, x),
            16 => tiles.clear::<T, 16>(grid, x),
            _ => tiles.clear::<T, 32>(grid, x),
        }
    }
}

/// Puts the coefficients, times `step`, into their places. Returns a count: in the order of the rows, all
/// coefficients from this index on are zero.
#[inline(always)]
fn put<T: Number, const L: usize, const R: usize>(
    mut rows: Rows<'_, L>,
    grid: &Grid,
    step: T,
    x: &mut [Vector<T, L>],
) -> usize {
    let (zero, present, mut end) = ([Vector([0; L]); R], rows.present, 0);
    for (r, places) in grid.order.chunks_exact(R).enumerate() {
        let row = rows.next(r, &zero);
        for (q, &p) in row.iter().zip(places) {
            for l in 0..L {
                x[p as usize].0[l] = T::from_i32(q.0[l]) * step;
            }
        }
        if has(&present, r) {
            end = (r + 1) * R;
        }
    }
    end
}
