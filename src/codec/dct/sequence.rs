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
//! A *frame* holds the coefficients q of all tiles of one array, their step and their corrections. The
//! largest tiles are used. Let q1 and q2 be the coefficients, at the same place, of the next and the second
//! next array, with the steps s1 and s2, and s the step of the array itself. A tile that leans on
//!
//! ```text
//! 0 arrays stores  q
//! 1 array          q - round(q1 (s1 / s))
//! 2 arrays         q - round(q1 (2 s1 / s) - q2 (s2 / s))
//! ```
//!
//! with all arithmetic in double precision; `round` adds 1/2 to the magnitude, cuts off the fraction, turns
//! magnitudes of 2^31 or more into 0 and then limits them to 2^23. An
//! array does not lean on one whose step is more than 16 times larger or smaller, nor a tile on one that is
//! stored raw. The encoder takes the number of arrays for which the estimate `price` is least.
//!
//! # Stream
//! As the stream of one array (module `dct`), with these additions:
//!
//! | bytes | |
//! |---|---|
//! | 2 | number of later arrays on which tiles may lean: 1 or 2; 0: none, and no tile has the next row's bits |
//! | 4..8 | checksum of the coefficients of these arrays' frames |
//!
//! | bits | |
//! |---|---|
//! | 2, at the beginning of a tile | number of later arrays on which the tile leans |
//!
//! An empty tile has coefficients that are all zero; a tile whose stored differences are zero is not empty. A
//! tile with a coefficient of magnitude 2^22 or more is stored raw.

use super::batch::{most_corrections, store, Batch};
use super::engine::{lines, longest_directory, Engine, Head, Later, HEADER, RAW, UNIT};
use super::grid::Grid;
use super::mean::{holds, step_of};
use super::quantiser::{Number, Quantiser};
use super::rows::{Correction, LEAN_BITS};
use super::transform::transform;
use super::vector::Vector;
use crate::codec::simd::{dispatch, level, Kernel};
use crate::codec::typed::CodesSequences;
use crate::codec::{Bound, Shape};
use crate::error::Result;
use crate::fallible_vec;

/// Ratio of the step to the bound on every error. Differences in time take few bits, so that corrections weigh
/// more than in an array by itself, where the ratio is larger.
const STEP: f64 = 1.8;
/// A tile with coefficients of this magnitude or more is stored raw: all others then take fewer bits than
/// their values do.
const LARGE: u32 = 1 << 22;
/// Most magnitude of a prediction.
const FARTHEST: i32 = 1 << 23;
/// Most ratio of the steps of arrays that lean on each other.
const STEP_RATIO: f64 = 16.0;
/// Number of values of an array for each correction that a frame has room for.
const PER_CORRECTION: usize = 16;

/// How a frame holds a tile.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Kind {
    /// All coefficients are zero, and there are no corrections.
    #[default]
    Empty,
    Coded,
    /// The values of the tile, 32 bits in the place of a coefficient.
    Raw,
}

/// The coefficients of one array.
#[derive(Default)]
struct Frame<const L: usize> {
    /// For each batch of `L` tiles their coefficients as `Batch::q` has them, and for values of 8 bytes the
    /// same number of vectors for the upper halves of raw values.
    q: Vec<Vector<i32, L>>,
    kinds: Vec<Kind>,
    corrections: Vec<Correction>,
    /// Most corrections of an array.
    room: usize,
    /// For each tile the end of its corrections.
    ends: Vec<u32>,
    step: f64,
    unit: f64,
    sum: u32,
    is_full: bool,
}

impl<const L: usize> Frame<L> {
    fn new(grid: &Grid, words: usize) -> Result<Self> {
        let tiles = grid.tiles();
        let vectors = tiles.div_ceil(L) * grid.room() * words;
        let values = grid.n.iter().product::<usize>();
        Ok(Frame {
            q: fallible_vec::filled(Vector([0; L]), vectors)?,
            kinds: fallible_vec::filled(Kind::Empty, tiles)?,
            corrections: fallible_vec::with_room(values / PER_CORRECTION)?,
            room: values / PER_CORRECTION,
            ends: fallible_vec::filled(0, tiles)?,
            step: 1.0,
            unit: 1.0,
            sum: 0,
            is_full: false,
        })
    }

    /// Begins to fill the frame.
    fn begin(&mut self, step: f64, unit: f64) {
        self.corrections.clear();
        (self.step, self.unit, self.sum, self.is_full) = (step, unit, 0, false);
    }

    /// The corrections of a tile.
    fn corrections_of(&self, tile: usize) -> &[Correction] {
        let begin = if tile == 0 { 0 } else { self.ends[tile - 1] };
        &self.corrections[begin as usize..self.ends[tile] as usize]
    }

    /// Adds a tile that the batch holds in lane `l`. Returns `None` if there is no room for its corrections.
    fn add<T>(
        &mut self,
        batch: &Batch<T, L>,
        grid: &Grid,
        (tile, l): (usize, usize),
    ) -> Option<()> {
        let room = most_corrections(grid.values());
        let corrections = &batch.corrections[l * room..l * room + batch.count[l]];
        let corrections = if self.kinds[tile] == Kind::Raw { &[] } else { corrections };
        if corrections.len() > self.room - self.corrections.len() {
            return None;
        }
        self.corrections.extend_from_slice(corrections);
        self.ends[tile] = self.corrections.len() as u32;
        Some(())
    }

    /// Whether arrays with this frame may lean on `later`.
    fn may_lean_on(&self, later: &Self) -> bool {
        let ratio = later.step / self.step;
        later.is_full && (1.0 / STEP_RATIO..=STEP_RATIO).contains(&ratio)
    }
}

/// Codes the arrays of sequences of one shape.
pub struct Sequence<T, const L: usize> {
    engine: Engine<T, L>,
    frames: Vec<Frame<L>>,
    /// The differences to what one and two later arrays predict.
    leaning: [Vec<Vector<i32, L>>; 2],
}

impl<T: Number, const L: usize> Sequence<T, L> {
    pub fn new(shape: Shape, frames: usize) -> Result<Self> {
        let engine = Engine::new(shape)?;
        let grid = &engine.grids[0];
        let differences = || fallible_vec::filled(Vector([0; L]), grid.room());
        let leaning = [differences()?, differences()?];
        let frame = |_| Frame::new(grid, T::BYTES / 4);
        let frames = (0..frames).map(frame).collect::<Result<_>>()?;
        Ok(Sequence { frames, leaning, engine })
    }

    /// Quantises `x` into frame `k`. Returns the sum of the squares of the errors if `most` is `None`.
    fn quantise(
        &mut self,
        k: usize,
        x: &[T],
        (step, unit): (f64, f64),
        most: Option<f64>,
    ) -> Option<u64> {
        let (frame, Engine { grids, batch, .. }) = (&mut self.frames[k], &mut self.engine);
        let grid = &grids[0];
        let q = Quantiser::new(grid, step, unit, most)?;
        frame.begin(step, unit);
        let mut energy = 0;
        let (tiles, size) = (grid.tiles(), grid.room() * T::BYTES / 4);
        for first in (0..tiles).step_by(L) {
            let to = &mut frame.q[first / L * size..][..size];
            let ids = std::array::from_fn(|l| (first + l).min(tiles - 1));
            let (kinds, sums) = dispatch(Take { batch, grid, q: &q, x, ids: &ids, to });
            for l in 0..L.min(tiles - first) {
                frame.kinds[first + l] = kinds[l];
                frame.sum = frame.sum.wrapping_add(sums[l]);
                frame.add(batch, grid, (first + l, l))?;
                energy += batch.energy[l];
            }
        }
        frame.is_full = true;
        Some(energy)
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
        let Sequence { engine, frames, leaning } = self;
        let frame = Some(&frames[k]).filter(|frame| frame.is_full)?;
        let later = later.iter().take(2).map(|&k| &frames[k]);
        let mut found = [None; 2];
        let leans = later.take_while(|later| frame.may_lean_on(later));
        found.iter_mut().zip(leans).for_each(|(to, later)| *to = Some(later));
        let count = found.iter().flatten().count();
        let sum = later_sum(found);
        let Engine { grids, batch, lengths, .. } = engine;
        let grid = &grids[0];
        let (tiles, size) = (grid.tiles(), grid.room() * T::BYTES / 4);
        let payload = to.get_mut(HEADER + longest_directory(grid, T::BYTES)..)?;
        let mut end = 0;
        for (first, q) in (0..tiles).step_by(L).zip(frame.q.chunks_exact(size)) {
            let later = found.map(|f| f.map(|f| Near::of(f, frame.step, first, first / L * size)));
            let kinds = &frame.kinds[first..tiles.min(first + L)];
            let leans = dispatch(Lean { batch, grid, q, later, leaning, kinds });
            for (l, &kind) in kinds.iter().enumerate() {
                let tile = first + l;
                let to = &mut payload[end..];
                if kind == Kind::Raw {
                    let raw = |p: usize| raw_value::<T, L>(q, grid.room(), p, l);
                    let bytes = grid.values_inside(tile) * T::BYTES;
                    (0..).zip(to[..bytes].chunks_exact_mut(T::BYTES)).for_each(|(p, to)| {
                        raw(p).put(to);
                    });
                    (lengths[tile], end) = (RAW, end + bytes);
                    continue;
                }
                if kind == Kind::Empty {
                    lengths[tile] = 0;
                    continue;
                }
                let (room, corrections) =
                    (most_corrections(grid.values()), frame.corrections_of(tile));
                batch.corrections[l * room..][..corrections.len()].copy_from_slice(corrections);
                (batch.count[l], batch.raw[l]) = (corrections.len(), false);
                let lean = (count > 0).then_some(leans[l]);
                let length = batch.write(grid, l, lean, to, grid.values() * T::BYTES)?;
                (lengths[tile], end) = (length as u32, end + length);
            }
        }
        let later = Later { count: count as u8, sum };
        Some((engine.assemble(0, (frame.step, frame.unit), later, end, to), count))
    }

    fn open(&mut self, k: usize, later: &[usize], from: &[u8]) -> Option<()> {
        self.frames[k].is_full = false;
        let (g, head, mut rest) = self.engine.begin(from)?;
        let count = usize::from(head.later.count);
        if g != 0 || count > later.len() {
            return None;
        }
        let mut frame = std::mem::take(&mut self.frames[k]);
        let later: [Option<&Frame<L>>; 2] =
            std::array::from_fn(|i| later[..count].get(i).map(|&k| &self.frames[k]));
        let opened = self.engine.open_frame(&mut frame, later, head, &mut rest);
        frame.is_full = opened.is_some() && rest.is_empty();
        let is_full = frame.is_full;
        self.frames[k] = frame;
        is_full.then_some(())
    }

    fn forget(&mut self, k: usize) {
        self.frames[k].is_full = false;
    }

    fn is_full(&self, k: usize) -> bool {
        self.frames[k].is_full
    }

    fn values(&mut self, k: usize, x: &mut [T]) -> Option<()> {
        let (frame, Engine { grids, batch, .. }) = (&self.frames[k], &mut self.engine);
        let grid = &grids[0];
        if !frame.is_full {
            return None;
        }
        let q = Quantiser::new(grid, frame.step, frame.unit, None)?;
        let (tiles, size) = (grid.tiles(), grid.room() * T::BYTES / 4);
        let room = most_corrections(grid.values());
        for (first, from) in (0..tiles).step_by(L).zip(frame.q.chunks_exact(size)) {
            let count = L.min(tiles - first);
            batch.count = [0; L];
            for l in 0..count {
                let corrections = frame.corrections_of(first + l);
                batch.corrections[l * room..][..corrections.len()].copy_from_slice(corrections);
                batch.count[l] = corrections.len();
            }
            let ids: [usize; L] = std::array::from_fn(|l| first + l.min(count - 1));
            dispatch(Values { batch, grid, q: &q, from, ids: &ids[..count], x });
            for l in (0..count).filter(|&l| frame.kinds[first + l] == Kind::Raw) {
                let mut p = 0;
                lines(grid, first + l, |line| {
                    x[line].iter_mut().for_each(|x| {
                        *x = raw_value(from, grid.room(), p, l);
                        p += 1;
                    });
                });
            }
        }
        Some(())
    }
}

impl<T: Number, const L: usize> Engine<T, L> {
    /// Reads the tiles of a stream into a frame; `later` are the frames on which they may lean, as the header
    /// says. Returns `None` if the stream is damaged, or leans on other arrays.
    fn open_frame(
        &mut self,
        frame: &mut Frame<L>,
        later: [Option<&Frame<L>>; 2],
        head: Head,
        rest: &mut &[u8],
    ) -> Option<()> {
        frame.begin(head.step, head.unit);
        let leans_on = |later: &&Frame<L>| frame.may_lean_on(later);
        let is_whole = later.iter().flatten().all(leans_on);
        if !is_whole || later_sum(later) != head.later.sum {
            return None;
        }
        let (tiles, size) = (self.grids[0].tiles(), self.grids[0].room() * T::BYTES / 4);
        let (step, count) = (frame.step, usize::from(head.later.count));
        for (first, b) in (0..tiles).step_by(L).zip(0..) {
            let [bytes, raw] = self.tiles_of(0, first, rest)?;
            let Engine { grids, batch, .. } = self;
            let grid = &grids[0];
            let near = later.map(|f| f.map(|f| Near::of(f, step, first, b * size)));
            let to = &mut frame.q[b * size..][..size];
            let sums = dispatch(Open { batch, grid, bytes, raw, near, count, to })?;
            for l in 0..L.min(tiles - first) {
                frame.kinds[first + l] = match (bytes[l], raw[l]) {
                    (None, None) => Kind::Empty,
                    (Some(_), _) => Kind::Coded,
                    (None, Some(_)) => Kind::Raw,
                };
                frame.sum = frame.sum.wrapping_add(sums[l]);
                frame.add(batch, grid, (first + l, l))?;
            }
        }
        Some(())
    }
}

/// The checksum of the frames on which an array leans.
fn later_sum<const L: usize>(later: [Option<&Frame<L>>; 2]) -> u32 {
    later.iter().flatten().fold(0u32, |sum, frame| sum.rotate_left(1) ^ frame.sum)
}

/// A batch of tiles of a later frame.
#[derive(Clone, Copy)]
struct Near<'a, const L: usize> {
    q: &'a [Vector<i32, L>],
    kinds: &'a [Kind],
    /// Its step over that of the frame that leans on it.
    ratio: f64,
}

impl<'a, const L: usize> Near<'a, L> {
    /// The batch of `frame` with tile `first` and the vectors from `at` on, for a frame with this step.
    fn of(frame: &'a Frame<L>, step: f64, first: usize, at: usize) -> Self {
        let end = frame.kinds.len().min(first + L);
        Near { q: &frame.q[at..], kinds: &frame.kinds[first..end], ratio: frame.step / step }
    }

    /// Whether tile `l` may be leaned on.
    fn serves(&self, l: usize) -> bool {
        self.kinds.get(l).is_some_and(|&kind| kind != Kind::Raw)
    }
}

/// How many of the later tiles in lane `l` may be leaned on.
fn most<const L: usize>(later: &[Option<Near<'_, L>>; 2], l: usize) -> u8 {
    later.iter().take_while(|near| near.is_some_and(|near| near.serves(l))).count() as u8
}

/// What `later` predicts for place `p` of each tile if it leans on one tile, and on two.
#[inline(always)]
fn predictions<const L: usize>(later: &[Option<Near<'_, L>>; 2], p: usize) -> [Vector<i32, L>; 2] {
    let mut predicted = [Vector([0; L]); 2];
    let Some(near) = later[0] else { return predicted };
    let q = &near.q[p];
    for l in 0..L {
        predicted[0].0[l] = rounded(f64::from(q.0[l]) * near.ratio);
    }
    let Some(far) = later[1] else { return predicted };
    let (twice, r) = (2.0 * near.ratio, &far.q[p]);
    for l in 0..L {
        predicted[1].0[l] = rounded(f64::from(q.0[l]) * twice - f64::from(r.0[l]) * far.ratio);
    }
    predicted
}

/// Adds 1/2 to the magnitude and cuts off the fraction; returns at most `FARTHEST` in magnitude.
#[inline(always)]
fn rounded(x: f64) -> i32 {
    let half = if x < 0.0 { -0.5 } else { 0.5 };
    let rounded: i32 = Number::trunc(x + half);
    rounded.clamp(-FARTHEST, FARTHEST)
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

/// Marks of 32 bits of a batch of coefficients, one for each tile: they differ if the coefficients do.
#[inline(always)]
fn sums<const L: usize>(q: &[Vector<i32, L>]) -> [u32; L] {
    let mut sums = Vector([0u32; L]);
    for q in q {
        for l in 0..L {
            sums.0[l] = sums.0[l].rotate_left(1) ^ q.0[l] as u32;
        }
    }
    sums.0
}

/// The value at place `p` of the raw tile in lane `l` of a frame's batch.
fn raw_value<T: Number, const L: usize>(
    q: &[Vector<i32, L>],
    room: usize,
    p: usize,
    l: usize,
) -> T {
    let low = u64::from(q[p].0[l] as u32);
    let high = if T::BYTES == 8 { u64::from(q[room + p].0[l] as u32) } else { 0 };
    T::from_bits(low | high << 32)
}

/// Puts raw values into lane `l` of a frame's batch.
#[inline(always)]
fn put_raw<T: Number, const L: usize>(
    q: &mut [Vector<i32, L>],
    room: usize,
    l: usize,
    values: impl Iterator<Item = T>,
) {
    q.iter_mut().for_each(|q| q.0[l] = 0);
    for (p, value) in values.enumerate() {
        let bits = value.to_bits();
        q[p].0[l] = bits as u32 as i32;
        if T::BYTES == 8 {
            q[room + p].0[l] = (bits >> 32) as u32 as i32;
        }
    }
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

/// Quantises the tiles `ids` of `x` into a frame's batch. Returns their kinds and the checksums of their
/// coefficients.
struct Take<'a, T, const L: usize> {
    batch: &'a mut Batch<T, L>,
    grid: &'a Grid,
    q: &'a Quantiser<T>,
    x: &'a [T],
    ids: &'a [usize; L],
    to: &'a mut [Vector<i32, L>],
}

impl<T: Number, const L: usize> Kernel for Take<'_, T, L> {
    type Output = ([Kind; L], [u32; L]);

    #[inline(always)]
    fn run(self) -> Self::Output {
        let Take { batch, grid, q, x, ids, to } = self;
        let is_some = match grid.side {
            8 => batch.load_and_quantise::<8>(grid, q, x, ids),
            16 => batch.load_and_quantise::<16>(grid, q, x, ids),
            _ => batch.load_and_quantise::<32>(grid, q, x, ids),
        };
        if !is_some {
            to.fill(Vector([0; L]));
            return ([Kind::Empty; L], sums(to));
        }
        let (low, high) = to.split_at_mut(grid.room());
        high.fill(Vector([0; L]));
        let mut any = Vector([0u32; L]);
        for (to, q) in low.iter_mut().zip(&batch.q) {
            *to = *q;
            for l in 0..L {
                any.0[l] |= q.0[l].unsigned_abs();
            }
        }
        let mut kinds = [Kind::Coded; L];
        for l in 0..L {
            if batch.raw[l] || any.0[l] >= LARGE {
                kinds[l] = Kind::Raw;
                batch.energy[l] = 0;
                let (first, inside) = grid.inside(ids[l]);
                let values = (0..inside[0] * inside[1] * inside[2]).map(|p| {
                    let at = [p % inside[0], p / inside[0] % inside[1], p / inside[0] / inside[1]];
                    x[grid.index(std::array::from_fn(|a| first[a] + at[a]))]
                });
                put_raw(to, grid.room(), l, values);
            } else if any.0[l] == 0 && batch.count[l] == 0 {
                kinds[l] = Kind::Empty;
            }
        }
        (kinds, sums(to))
    }
}

/// Makes the bit strings of a batch of tiles of a frame. Returns for each tile on how many later ones it
/// leans.
struct Lean<'a, T, const L: usize> {
    batch: &'a mut Batch<T, L>,
    grid: &'a Grid,
    q: &'a [Vector<i32, L>],
    kinds: &'a [Kind],
    later: [Option<Near<'a, L>>; 2],
    leaning: &'a mut [Vec<Vector<i32, L>>; 2],
}

impl<T: Number, const L: usize> Kernel for Lean<'_, T, L> {
    type Output = [u8; L];

    #[inline(always)]
    fn run(self) -> [u8; L] {
        let Lean { batch, grid, q, kinds, later, leaning } = self;
        let q = &q[..grid.room()];
        let mut leans = [0; L];
        if later[0].is_some() {
            for (p, q) in q.iter().enumerate() {
                let predicted = predictions(&later, p);
                for (to, predicted) in leaning.iter_mut().zip(predicted) {
                    for l in 0..L {
                        to[p].0[l] = q.0[l].wrapping_sub(predicted.0[l]);
                    }
                }
            }
            let most = std::array::from_fn(|l| most(&later, l));
            leans = match grid.values() {
                4096 => cheapest::<L, 16>(grid, [q, &leaning[0], &leaning[1]], &most),
                _ => cheapest::<L, 8>(grid, [q, &leaning[0], &leaning[1]], &most),
            };
        }
        let is_coded: [bool; L] = std::array::from_fn(|l| kinds.get(l) == Some(&Kind::Coded));
        for (p, (to, q)) in batch.q.iter_mut().zip(q).enumerate() {
            for l in 0..L {
                let stored = match leans[l] {
                    0 => q.0[l],
                    1 => leaning[0][p].0[l],
                    _ => leaning[1][p].0[l],
                };
                to.0[l] = if is_coded[l] { stored } else { 0 };
            }
        }
        batch.make_strings(grid);
        leans
    }
}

/// Returns for each tile which of the three arrays of numbers takes the fewest bits, by an estimate, of
/// those with a number up to `most`.
#[inline(always)]
fn cheapest<const L: usize, const R: usize>(
    grid: &Grid,
    from: [&[Vector<i32, L>]; 3],
    most: &[u8; L],
) -> [u8; L] {
    let mut prices = [Vector([0u32; L]); 3];
    for row in grid.order.chunks_exact(R) {
        for (from, price_of) in from.iter().zip(&mut prices) {
            let mut sums = Vector([0u32; L]);
            for &p in row {
                for l in 0..L {
                    sums.0[l] = sums.0[l].wrapping_add(from[p as usize].0[l].unsigned_abs());
                }
            }
            for l in 0..L {
                price_of.0[l] = price_of.0[l].wrapping_add(price::<R>(sums.0[l]));
            }
        }
    }
    std::array::from_fn(|l| {
        let few = |&lean: &u8| prices[usize::from(lean)].0[l];
        (0..=most[l]).min_by_key(few).unwrap_or(0)
    })
}

/// Reads a batch of tiles into a frame's batch; of raw tiles the values. Returns the checksums of the tiles, or
/// `None` if they are damaged.
struct Open<'a, T, const L: usize> {
    batch: &'a mut Batch<T, L>,
    grid: &'a Grid,
    bytes: [Option<&'a [u8]>; L],
    raw: [Option<&'a [u8]>; L],
    near: [Option<Near<'a, L>>; 2],
    /// On how many later arrays tiles may lean.
    count: usize,
    to: &'a mut [Vector<i32, L>],
}

impl<T: Number, const L: usize> Kernel for Open<'_, T, L> {
    type Output = Option<[u32; L]>;

    #[inline(always)]
    fn run(self) -> Option<[u32; L]> {
        let Open { batch, grid, bytes, raw, near, count, to } = self;
        let (mut leans, mut at) = ([0u8; L], 0);
        if count > 0 {
            at = LEAN_BITS;
            for l in 0..L {
                let first = bytes[l].and_then(|bytes| bytes.first()).copied().unwrap_or(0);
                leans[l] = first & ((1 << LEAN_BITS) - 1);
                if leans[l] > most(&near, l) {
                    return None;
                }
            }
        }
        batch.level = level();
        batch.read::<true>(grid, T::default(), &bytes, at)?;
        let (low, high) = to.split_at_mut(grid.room());
        high.fill(Vector([0; L]));
        for (p, (to, q)) in low.iter_mut().zip(&batch.q).enumerate() {
            let [one, two] = predictions(&near, p);
            for l in 0..L {
                let predicted = match leans[l] {
                    0 => 0,
                    1 => one.0[l],
                    _ => two.0[l],
                };
                to.0[l] = q.0[l].wrapping_add(predicted);
            }
        }
        for (l, raw) in raw.iter().enumerate() {
            if let Some(raw) = raw {
                put_raw(to, grid.room(), l, raw.chunks_exact(T::BYTES).map(T::get));
            }
        }
        Some(sums(to))
    }
}

/// Writes the values of a batch of tiles of a frame into the tiles `ids` of `x`; those of raw tiles are
/// arbitrary.
struct Values<'a, T, const L: usize> {
    batch: &'a mut Batch<T, L>,
    grid: &'a Grid,
    q: &'a Quantiser<T>,
    from: &'a [Vector<i32, L>],
    ids: &'a [usize],
    x: &'a mut [T],
}

impl<T: Number, const L: usize> Kernel for Values<'_, T, L> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        match self.grid.side {
            8 => self.run_side::<8>(),
            16 => self.run_side::<16>(),
            _ => self.run_side::<32>(),
        }
    }
}

impl<T: Number, const L: usize> Values<'_, T, L> {
    #[inline(always)]
    fn run_side<const S: usize>(self) {
        let Values { batch, grid, q, from, ids, x } = self;
        let (columns, stride) = (grid.values() / S, grid.stride());
        batch.level = level();
        let mut used = 0;
        for c in 0..columns {
            let mut line = [Vector([T::default(); L]); S];
            let mut any = Vector([0i32; L]);
            for (i, to) in line.iter_mut().enumerate() {
                let from = &from[c + i * stride];
                for l in 0..L {
                    any.0[l] |= from.0[l];
                    to.0[l] = T::from_i32(from.0[l]) * q.step;
                }
            }
            if any.0.iter().fold(0, |any, a| any | a) != 0 {
                used = used.max(c % S + 1);
                line = transform::<T, L, S, true>(&line);
            }
            store(&mut batch.x, c, stride, &line);
        }
        batch.finish::<S>(grid, q, ids, used, x);
    }
}
