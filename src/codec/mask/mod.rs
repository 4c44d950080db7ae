//! Masked values: those that the configuration key `fill_value` names, such as the land of an ocean model.
//! They are stored as a mask, and the codec codes an array in which a smooth continuation of their
//! neighbours stands at their places.

mod bits;
mod fill;

use super::coder::Shape;
use super::simd::{dispatch, Kernel};
use super::stream::{padded, HEADER};
use crate::error::{fail, Result};
use crate::fallible_vec::{filled, more, with_room};
use crate::numbers;
use crate::scalar::{Array, ArrayMut, Real};
use bits::{code, Grid, Reader, Writer};

/// The value that stands where an array has none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FillValue {
    /// `nan`: the first NaN of an array, and all values with its bits.
    Nan,
    /// A number, converted to the type of an array: all values with its bits, so that 0 is not -0.
    Number(f64),
}

impl FillValue {
    /// Reads the text of the key `fill_value`.
    pub fn of(text: &str) -> Result<Self> {
        match text.to_ascii_lowercase().as_str() {
            "nan" => Ok(FillValue::Nan),
            number => match numbers::real(number) {
                Some(number) => Ok(FillValue::Number(number)),
                None => fail!(
                    Config,
                    "fill_value = {text}: use nan, or the number that stands where a field has no value, such as 1e20 or -9999"
                ),
            },
        }
    }

    /// Returns the masked value in `x`; `None` if no value is masked.
    fn find<T: Real>(self, x: &[T]) -> Option<T> {
        match self {
            #[allow(clippy::eq_op)] // NaN alone is not equal to itself.
            FillValue::Nan => {
                let piece = x.chunks(PIECE).find(|piece| dispatch(Any(piece, |x: T| x != x)))?;
                piece.iter().copied().find(|x| x != x)
            }
            FillValue::Number(number) => {
                let bits = T::from_f64(number).to_bits();
                let is_it = move |x: T| x.to_bits() == bits;
                let is_there = x.chunks(PIECE).any(|piece| dispatch(Any(piece, is_it)));
                // A number beyond the range of the type is no value of it.
                (is_there && T::from_f64(number).is_finite()).then(|| T::from_bits(bits))
            }
        }
    }
}

impl std::fmt::Display for FillValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FillValue::Nan => write!(f, "nan"),
            FillValue::Number(number) => write!(f, "{number:?}"),
        }
    }
}

/// Values that are searched at a time.
const PIECE: usize = 4096;

/// Whether a function holds for any of the values.
struct Any<'a, T, F>(&'a [T], F);

impl<T: Real, F: Fn(T) -> bool> Kernel for Any<'_, T, F> {
    type Output = bool;

    #[inline(always)]
    fn run(self) -> bool {
        self.0.iter().fold(false, |any, &x| any | (self.1)(x))
    }
}

/// Sets bit i of a row where value i has the given bits. Returns their number, and whether any bit has changed.
struct Compare<'a, T>(&'a [T], u64, &'a mut [u64]);

impl<T: Real> Kernel for Compare<'_, T> {
    type Output = (u64, bool);

    #[inline(always)]
    fn run(self) -> (u64, bool) {
        let Compare(x, bits, words) = self;
        let (mut count, mut has_changed) = (0, false);
        for (word, x) in words.iter_mut().zip(x.chunks(64)) {
            let same = x.iter().fold(0u32, |count, x| count + u32::from(x.to_bits() == bits));
            let now = match same as usize {
                0 => 0,
                all if all == x.len() => u64::MAX >> (64 - all),
                _ => (0..x.len()).fold(0, |word, i| word | u64::from(x[i].to_bits() == bits) << i),
            };
            has_changed |= now != *word;
            *word = now;
            count += u64::from(same);
        }
        (count, has_changed)
    }
}

/// The masked values of one array.
pub struct Mask {
    grid: Grid,
    /// One bit for each value, 1 if it is masked, as `Grid` says.
    words: Vec<u64>,
    /// The bits of the masked values, and their number.
    value: u64,
    count: u64,
    /// The words as they were coded last, or nothing: land seldom moves from state to state.
    coded: Vec<u8>,
}

/// What a payload holds, in its first byte: the bits are those of the mask before in the same record, or are
/// coded, or are as they are. Bytes 8..16 are the bits of the masked values, and 16..24 their number.
const AS_BEFORE: u8 = 0;
const CODED: u8 = 1;
const AS_IT_IS: u8 = 2;
/// Bytes before the bits of a mask.
const HEAD: usize = 24;

fn grid_of(shape: Shape) -> Grid {
    let mut n = [1; 3];
    n.iter_mut().zip(shape.dims()).for_each(|(n, extent)| *n = extent);
    Grid { n }
}

/// The most bytes of the stream of the mask of an array.
pub fn most_bytes(shape: Shape) -> usize {
    padded(HEAD + 8 * grid_of(shape).words())
}

/// Returns the payload of a mask as that of one that stands alone: a payload may say that its bits are those of the
/// mask before in the same record, whose payload, standing alone, is `before`.
pub fn alone(payload: &[u8], before: &[u8]) -> Vec<u8> {
    match (payload.first(), before.first()) {
        // The masked values may have another type.
        (Some(&AS_BEFORE), Some(kind)) if payload.len() == HEAD && before.len() > HEAD => {
            [&[*kind], &payload[1..], &before[HEAD..]].concat()
        }
        _ => payload.to_vec(),
    }
}

impl Mask {
    /// The mask of an array of this shape, no value masked.
    pub fn new(shape: Shape) -> Result<Self> {
        let grid = grid_of(shape);
        Ok(Mask { grid, words: filled(0, grid.words())?, value: 0, count: 0, coded: Vec::new() })
    }

    /// A mask to read those of arrays of these shapes into.
    pub fn to_read(shapes: impl Iterator<Item = Shape>) -> Result<Self> {
        let words = shapes.map(|shape| grid_of(shape).words()).max().unwrap_or(0);
        Ok(Mask {
            grid: Grid { n: [0; 3] },
            words: with_room(words)?,
            value: 0,
            count: 0,
            coded: Vec::new(),
        })
    }

    /// The number of masked values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether the same values are masked.
    pub fn has_places_of(&self, other: &Mask) -> bool {
        let is_none = self.count == 0 && other.count == 0;
        let is_like = self.grid == other.grid && self.count == other.count;
        is_none || is_like && self.words == other.words
    }

    /// The words of row `r`, counted through all planes.
    fn words_of(&self, r: usize) -> &[u64] {
        &self.words[r * self.grid.row()..][..self.grid.row()]
    }

    /// Finds the masked values of `x`, which has the mask's shape.
    pub fn find(&mut self, fill: FillValue, x: Array<'_>) {
        match x {
            Array::F32(x) => self.find_in(fill, x),
            Array::F64(x) => self.find_in(fill, x),
        }
    }

    fn find_in<T: Real>(&mut self, fill: FillValue, x: &[T]) {
        self.count = 0;
        let Some(value) = fill.find(x) else { return };
        self.value = value.to_bits();
        for (x, words) in x.chunks(self.grid.n[0]).zip(self.words.chunks_mut(self.grid.row())) {
            let (count, has_changed) = dispatch(Compare(x, self.value, words));
            self.count += count;
            if has_changed {
                self.coded.clear();
            }
        }
    }

    /// Writes the payload of the mask to `to[HEADER..]`, which has `most_bytes` bytes with the header. `before`
    /// is the mask before in the same record. Returns the bytes of the payload.
    pub fn write(&mut self, is_as_before: bool, to: &mut [u8]) -> usize {
        let (head, to) = to[HEADER..].split_at_mut(HEAD);
        let plain = 8 * self.words.len();
        let (kind, bytes) = match is_as_before {
            true => (AS_BEFORE, 0),
            false => match self.code(&mut to[..plain]) {
                Some(bytes) => (CODED, bytes),
                None => {
                    let words = to.chunks_exact_mut(8).zip(&self.words);
                    words.for_each(|(to, word)| to.copy_from_slice(&word.to_le_bytes()));
                    (AS_IT_IS, plain)
                }
            },
        };
        head[..8].copy_from_slice(&[kind, 0, 0, 0, 0, 0, 0, 0]);
        head[8..16].copy_from_slice(&self.value.to_le_bytes());
        head[16..].copy_from_slice(&self.count.to_le_bytes());
        HEAD + bytes
    }

    fn code(&mut self, to: &mut [u8]) -> Option<usize> {
        if !self.coded.is_empty() {
            to[..self.coded.len()].copy_from_slice(&self.coded);
            return Some(self.coded.len());
        }
        let mut writer = Writer::new(to);
        code(&mut writer, self.grid, &mut self.words, Writer::is_full);
        let bytes = writer.finish()?;
        self.keep_coded(&to[..bytes]);
        Some(bytes)
    }

    /// Keeps the bytes as which the words were coded, if there is memory for them.
    fn keep_coded(&mut self, bytes: &[u8]) {
        self.coded.clear();
        if more(&mut self.coded, bytes.len()).is_ok() {
            self.coded.extend_from_slice(bytes);
        }
    }

    /// Reads the payload of the mask of an array of this shape. `has_before`: this mask is the one before in
    /// the same record.
    pub fn read(&mut self, shape: Shape, has_before: bool, from: &[u8]) -> Result<()> {
        let grid = grid_of(shape);
        let is_before = has_before && self.grid == grid;
        if self.grid != grid {
            self.coded.clear();
            self.words.clear();
            more(&mut self.words, grid.words())?;
            self.words.resize(grid.words(), 0);
            self.grid = grid;
        }
        match self.read_words(is_before, from) {
            Some(()) => Ok(()),
            None => fail!(Stream, "{} bytes are no mask of {shape}", from.len()),
        }
    }

    fn read_words(&mut self, is_before: bool, from: &[u8]) -> Option<()> {
        let (head, from) = from.split_at_checked(HEAD)?;
        let word = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).ok();
        (self.value, self.count) = (word(&head[8..16])?, word(&head[16..])?);
        let is_read = match head[0] {
            AS_BEFORE => is_before && from.is_empty(),
            CODED if !from.is_empty() && self.coded == from => true,
            CODED => {
                self.coded.clear();
                let mut reader = Reader::new(from);
                code(&mut reader, self.grid, &mut self.words, |_| false);
                let is_at_end = reader.is_at_end();
                if is_at_end {
                    self.keep_coded(from);
                }
                is_at_end
            }
            AS_IT_IS => {
                self.coded.clear();
                let words = self.words.iter_mut().zip(from.chunks_exact(8));
                words.for_each(|(to, from)| *to = word(from).unwrap_or(0));
                from.len() == 8 * self.words.len()
            }
            _ => false,
        };
        let row = self.grid.row();
        let is_valid = |(w, &word): (usize, &u64)| word & !self.grid.valid(w % row) == 0;
        let count: u64 = self.words.iter().map(|word| u64::from(word.count_ones())).sum();
        let is_right = count == self.count && self.words.iter().enumerate().all(is_valid);
        (is_read && is_right && head[1..8] == [0; 7]).then_some(())
    }

    /// Sets the masked values of `x`, which has the mask's shape.
    pub fn put(&self, x: ArrayMut<'_>) {
        match x {
            ArrayMut::F32(x) => self.put_in(x, Real::from_bits(self.value)),
            ArrayMut::F64(x) => self.put_in(x, Real::from_bits(self.value)),
        }
    }

    /// Sets the masked values of `x`, which has the mask's shape, to NaN.
    pub fn put_nan(&self, x: ArrayMut<'_>) {
        match x {
            ArrayMut::F32(x) if self.count > 0 => self.put_in(x, f32::NAN),
            ArrayMut::F64(x) if self.count > 0 => self.put_in(x, f64::NAN),
            _ => {}
        }
    }

    fn put_in<T: Real>(&self, x: &mut [T], value: T) {
        for (x, words) in x.chunks_mut(self.grid.n[0]).zip(self.words.chunks(self.grid.row())) {
            runs(words, x.len(), |run| x[run].fill(value));
        }
    }
}

/// Calls `each` with the runs of bits that are set in the words of a row of `n` values.
fn runs(words: &[u64], n: usize, mut each: impl FnMut(std::ops::Range<usize>)) {
    let next = |from: usize, flip: u64| {
        let mut at = from;
        while at < n {
            let word = (words[at / 64] ^ flip) >> (at % 64);
            if word != 0 {
                return (at + word.trailing_zeros() as usize).min(n);
            }
            at = (at / 64 + 1) * 64;
        }
        n
    };
    let mut at = next(0, 0);
    while at < n {
        let end = next(at, u64::MAX);
        each(at..end);
        at = next(end, 0);
    }
}

#[cfg(test)]
mod tests;
