//! The coefficients of one array of a sequence (module `sequence`), kept until the arrays that lean on them have
//! been coded, and what they predict.
//!
//! Only rows that have a coefficient other than zero in one of the tiles of a batch are kept, read and coded.

use super::batch::{most_corrections, Batch};
use super::grid::Grid;
use super::portion::portions;
use super::quantiser::Number;
use super::rows::Correction;
use super::vector::Vector;
use crate::error::Result;
use crate::fallible_vec;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Most magnitude of a prediction.
const FARTHEST: i32 = 1 << 23;
/// Most ratio of the steps of arrays that lean on each other.
const STEP_RATIO: f64 = 16.0;
/// Number of values of an array for each correction that a frame has room for.
const PER_CORRECTION: usize = 16;
/// The weight of row r in the mark of a tile is 2r + 1 times this odd number.
const WEIGHT: u32 = 0x9e37_79b1;

/// How a frame holds a tile.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Kind {
    /// All coefficients are zero, and there are no corrections.
    #[default]
    Empty,
    Coded,
    /// The values of the tile, 32 bits in the place of a coefficient.
    Raw,
}

/// A bit for each row of a tile.
pub(super) type Bits = [u64; 4];

/// Whether bit `r` is set.
#[inline(always)]
pub(super) fn has(bits: &Bits, r: usize) -> bool {
    bits[r / 64] >> (r % 64) & 1 != 0
}

/// Returns the numbers of the bits that are set, in order.
#[inline(always)]
pub(super) fn set_bits(mut bits: Bits) -> impl Iterator<Item = usize> {
    let mut word = 0;
    std::iter::from_fn(move || {
        while word < bits.len() && bits[word] == 0 {
            word += 1;
        }
        let left = bits.get_mut(word)?;
        let bit = left.trailing_zeros() as usize;
        *left &= *left - 1;
        Some(64 * word + bit)
    })
}

/// The rows of a batch of tiles that are not zero, one after the other.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a, const L: usize> {
    pub vectors: &'a [Vector<i32, L>],
    pub present: Bits,
}

impl<'a, const L: usize> Rows<'a, L> {
    pub const NONE: Self = Rows { vectors: &[], present: [0; 4] };

    /// Whether row `r` is not zero.
    #[inline(always)]
    pub fn has(&self, r: usize) -> bool {
        has(&self.present, r)
    }

    /// Returns row `r`, of `R` coefficients, and forgets it, or `zero` if it is absent. Rows must be asked for in
    /// order.
    #[inline(always)]
    pub fn next<'b, const R: usize>(
        &mut self,
        r: usize,
        zero: &'b [Vector<i32, L>; R],
    ) -> &'b [Vector<i32, L>; R]
    where
        'a: 'b,
    {
        if !self.has(r) {
            return zero;
        }
        let Some((row, rest)) = self.vectors.split_first_chunk() else { return zero };
        self.vectors = rest;
        row
    }
}

/// Rows of a batch of tiles that are being kept.
pub(super) struct Keeper<'a, const L: usize> {
    to: &'a mut Vec<Vector<i32, L>>,
    pub present: Bits,
    /// For each tile a mark: the sum over its rows of their coefficients, coefficient i rotated to the left by i
    /// bits, times the weight of the row.
    pub marks: Vector<u32, L>,
    /// For each tile the bits that one of its magnitudes has.
    pub any: Vector<u32, L>,
}

impl<'a, const L: usize> Keeper<'a, L> {
    #[inline(always)]
    pub fn new(to: &'a mut Vec<Vector<i32, L>>) -> Self {
        Keeper { to, present: [0; 4], marks: Vector([0; L]), any: Vector([0; L]) }
    }

    /// Keeps row `r` unless it is zero. Rows must be kept in order.
    #[inline(always)]
    pub fn keep<const R: usize>(&mut self, r: usize, row: &[Vector<i32, L>; R]) {
        let weight = weight(r);
        let mut any = 0;
        for l in 0..L {
            let (mut some, mut mark) = (0, 0u32);
            for (i, q) in row.iter().enumerate() {
                some |= q.0[l].unsigned_abs();
                mark = mark.wrapping_add((q.0[l] as u32).rotate_left(i as u32));
            }
            self.any.0[l] |= some;
            self.marks.0[l] = self.marks.0[l].wrapping_add(mark.wrapping_mul(weight));
            any |= some;
        }
        if any == 0 {
            return;
        }
        self.present[r / 64] |= 1 << (r % 64);
        self.to.extend_from_slice(row);
    }
}

/// The weight of row `r` in the mark of a tile.
#[inline(always)]
fn weight(r: usize) -> u32 {
    (2 * r as u32 + 1).wrapping_mul(WEIGHT)
}

/// The coefficients of one array.
pub(super) struct Frame<const L: usize> {
    /// The coefficients of each portion.
    pub parts: Vec<Part<L>>,
    /// Most corrections of an array.
    pub room: usize,
    pub step: f64,
    pub unit: f64,
    /// The sum of the marks of all tiles.
    pub sum: u32,
    pub is_full: bool,
}

/// The coefficients of the tiles of a portion of an array.
pub(super) struct Part<const L: usize> {
    /// Number of the portion, and its tiles.
    pub number: usize,
    pub tiles: Range<usize>,
    /// The rows that are kept, batch by batch. A batch with a raw tile has all rows, and for values of 8 bytes
    /// as many vectors more for the upper halves of the values.
    pub rows: Vec<Vector<i32, L>>,
    /// For each batch where its rows begin, and which it has.
    begins: Vec<usize>,
    present: Vec<Bits>,
    kinds: Vec<Kind>,
    corrections: Vec<Correction>,
    /// For each tile the end of its corrections.
    ends: Vec<u32>,
    /// The sum of the marks of the tiles.
    pub sum: u32,
}

impl<const L: usize> Frame<L> {
    /// Stands for a frame that is being filled elsewhere.
    pub const EMPTY: Self =
        Frame { parts: Vec::new(), room: 0, step: 1.0, unit: 1.0, sum: 0, is_full: false };

    /// Makes a frame for arrays of `words` times 4 bytes a value, which `threads` threads fill.
    pub fn new(grid: &Grid, words: usize, threads: usize) -> Result<Self> {
        let room = grid.n.iter().product::<usize>() / PER_CORRECTION;
        let part = |(number, tiles)| Part::new(grid, words, number, tiles, room);
        let portions = portions::<L>(grid.tiles(), threads);
        let mut parts = fallible_vec::with_room(portions.len())?;
        portions.enumerate().map(part).try_for_each(|part| part.map(|part| parts.push(part)))?;
        Ok(Frame { parts, room, ..Self::EMPTY })
    }

    /// Begins to fill the frame.
    pub fn begin(&mut self, step: f64, unit: f64) {
        self.parts.iter_mut().for_each(Part::clear);
        (self.step, self.unit, self.sum, self.is_full) = (step, unit, 0, false);
    }

    /// Notes that all parts are full.
    pub fn end(&mut self) {
        self.sum = self.parts.iter().map(|part| part.sum).fold(0, u32::wrapping_add);
        self.is_full = true;
    }

    /// Whether arrays with this frame may lean on `later`.
    pub fn may_lean_on(&self, later: &Self) -> bool {
        let ratio = later.step / self.step;
        later.is_full && (1.0 / STEP_RATIO..=STEP_RATIO).contains(&ratio)
    }
}

impl<const L: usize> Part<L> {
    fn new(
        grid: &Grid,
        words: usize,
        number: usize,
        tiles: Range<usize>,
        room: usize,
    ) -> Result<Self> {
        let batches = tiles.len().div_ceil(L);
        let room = room.min(tiles.len() * most_corrections(grid.values()));
        Ok(Part {
            number,
            rows: fallible_vec::with_room(batches * grid.values() * words)?,
            begins: fallible_vec::with_room(batches)?,
            present: fallible_vec::with_room(batches)?,
            kinds: fallible_vec::filled(Kind::Empty, tiles.len())?,
            corrections: fallible_vec::with_room(room)?,
            ends: fallible_vec::filled(0, tiles.len())?,
            tiles,
            sum: 0,
        })
    }

    fn clear(&mut self) {
        self.rows.clear();
        self.begins.clear();
        self.present.clear();
        self.corrections.clear();
        self.sum = 0;
    }

    /// Notes that the rows from `begin` on are those of the next batch, and which they are.
    pub fn add_batch(&mut self, begin: usize, present: Bits) {
        self.begins.push(begin);
        self.present.push(present);
    }

    /// The rows of the batch whose first tile is `first`.
    pub fn batch(&self, first: usize) -> Rows<'_, L> {
        let b = (first - self.tiles.start) / L;
        let end = self.begins.get(b + 1).copied().unwrap_or(self.rows.len());
        Rows { vectors: &self.rows[self.begins[b]..end], present: self.present[b] }
    }

    /// The kinds of the tiles of the batch whose first tile is `first`.
    pub fn kinds(&self, first: usize) -> &[Kind] {
        let kinds = &self.kinds[first - self.tiles.start..];
        &kinds[..kinds.len().min(L)]
    }

    /// Whether the batch whose first tile is `first` has nothing but empty tiles.
    pub fn is_empty(&self, first: usize) -> bool {
        self.kinds(first).iter().all(|&kind| kind == Kind::Empty)
    }

    /// The corrections of a tile.
    pub fn corrections_of(&self, tile: usize) -> &[Correction] {
        let at = tile - self.tiles.start;
        let begin = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.corrections[begin as usize..self.ends[at] as usize]
    }

    /// Adds a tile of this kind, in lane `l` of `batch`, with its mark and its corrections. `left` counts how many
    /// corrections there still is room for in the frame. Returns `None` if there is no room for them.
    pub fn add<T>(
        &mut self,
        batch: &Batch<T, L>,
        grid: &Grid,
        (tile, l): (usize, usize),
        (kind, mark): (Kind, u32),
        left: &AtomicUsize,
    ) -> Option<()> {
        let room = most_corrections(grid.values());
        let corrections = &batch.corrections[l * room..l * room + batch.count[l]];
        let corrections = if kind == Kind::Raw { &[] } else { corrections };
        let count = corrections.len();
        let take = |left: usize| left.checked_sub(count);
        left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
        self.corrections.extend_from_slice(corrections);
        let at = tile - self.tiles.start;
        (self.kinds[at], self.ends[at]) = (kind, self.corrections.len() as u32);
        self.sum = self.sum.wrapping_add(mark);
        Some(())
    }

    /// Puts the values of a raw tile into lane `l` of the batch that was added last. Returns the mark of the tile.
    pub fn put_raw<T: Number>(
        &mut self,
        grid: &Grid,
        l: usize,
        values: impl Iterator<Item = T>,
    ) -> u32 {
        let (Some(&begin), Some(present)) = (self.begins.last(), self.present.last_mut()) else {
            return 0;
        };
        let (row, room) = (grid.row(), grid.values());
        let mut from = self.rows.len();
        if from != begin + room * T::BYTES / 4 {
            // Rows that are absent become rows of zeros, the last one first: none is overwritten by one before.
            self.rows.resize(begin + room * T::BYTES / 4, Vector([0; L]));
            for r in (0..room / row).rev() {
                let to = begin + r * row;
                if has(present, r) {
                    from -= row;
                    self.rows.copy_within(from..from + row, to);
                } else {
                    self.rows[to..to + row].fill(Vector([0; L]));
                }
                present[r / 64] |= 1 << (r % 64);
            }
            self.rows[begin + room..].fill(Vector([0; L]));
        }
        let batch = &mut self.rows[begin..];
        batch.iter_mut().for_each(|q| q.0[l] = 0);
        for (p, value) in values.enumerate() {
            let bits = value.to_bits();
            batch[p].0[l] = bits as u32 as i32;
            if T::BYTES == 8 {
                batch[room + p].0[l] = (bits >> 32) as u32 as i32;
            }
        }
        let mark = |(p, q): (usize, &Vector<i32, L>)| {
            (q.0[l] as u32).rotate_left((p % row) as u32).wrapping_mul(weight(p / row))
        };
        batch.iter().enumerate().map(mark).fold(0, u32::wrapping_add)
    }

    /// The value at place `p` of the raw tile in lane `l` of the batch whose first tile is `first`.
    pub fn raw_value<T: Number>(&self, grid: &Grid, first: usize, p: usize, l: usize) -> T {
        let q = &self.batch(first).vectors;
        let low = u64::from(q[p].0[l] as u32);
        let high = if T::BYTES == 8 { u64::from(q[grid.values() + p].0[l] as u32) } else { 0 };
        T::from_bits(low | high << 32)
    }
}

/// The checksum of the frames on which an array leans.
pub(super) fn later_sum<const L: usize>(later: [Option<&Frame<L>>; 2]) -> u32 {
    later.iter().flatten().fold(0u32, |sum, frame| sum.rotate_left(1) ^ frame.sum)
}

/// Batches of the two later frames.
#[derive(Clone, Copy)]
pub(super) struct Later<'a, const L: usize> {
    pub rows: [Rows<'a, L>; 2],
    /// On how many of the two tiles each tile may lean.
    pub most: [u8; L],
    /// Step of the next frame over that of the frame that leans on it, the same times 2, and that of the second
    /// next frame.
    ratios: [f32; 3],
}

impl<'a, const L: usize> Later<'a, L> {
    /// The batch whose first tile is `first`, in portion `number`, of the frames on which a frame with this step
    /// may lean.
    pub fn new(
        frames: [Option<&'a Frame<L>>; 2],
        step: f64,
        (number, first): (usize, usize),
    ) -> Self {
        let mut later = Later { rows: [Rows::NONE; 2], most: [0; L], ratios: [0.0; 3] };
        let ratio = |k: usize| frames[k].map_or(0.0, |frame| frame.step / step);
        later.ratios = [ratio(0) as f32, (2.0 * ratio(0)) as f32, ratio(1) as f32];
        for (k, frame) in frames.into_iter().enumerate() {
            let Some(frame) = frame else { break };
            let part = &frame.parts[number];
            later.rows[k] = part.batch(first);
            for (most, kind) in later.most.iter_mut().zip(part.kinds(first)) {
                *most += u8::from(usize::from(*most) == k && *kind != Kind::Raw);
            }
        }
        later
    }

    /// What the coefficients `q` and `r` of the next and the second next frame predict for a tile that leans on one
    /// tile, and on two.
    #[inline(always)]
    pub fn predict(&self, q: i32, r: i32) -> [i32; 2] {
        let [one, two, far] = self.ratios;
        let q = q as f32;
        [rounded(q * one), rounded(q * two - r as f32 * far)]
    }
}

/// Adds 1/2 to the magnitude and cuts off the fraction; returns at most `FARTHEST` in magnitude.
#[inline(always)]
fn rounded(x: f32) -> i32 {
    let half = if x < 0.0 { -0.5 } else { 0.5 };
    let rounded: i32 = Number::trunc(x + half);
    rounded.clamp(-FARTHEST, FARTHEST)
}
