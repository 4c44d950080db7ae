//! A stream of tiles: which of them are stored, where they lie, and how their values are read and
//! written. The codecs `lorenzo` and `lossless` share it; each codes single tiles in its own way.

use super::super::quantize::{put_word, word, LINE, LINES, TILE};
use super::super::simd::{prefetch, Kernel};
use super::grid::{Grid, TilePlace};
use super::{AS_IS, GROUP};
use crate::scalar::Real;

/// Codes single tiles.
pub(in crate::codec) trait Tiles<T> {
    /// Codes the first of two places of `x`; the second one is the next tile, whose values are worth a
    /// prefetch. Returns the size of the tile in bytes, `usize::MAX` if the tile cannot be coded, or
    /// `None` if it is empty.
    fn encode(&mut self, x: &[T], places: [&TilePlace; 2]) -> Option<usize>;

    /// Returns the bytes of the tile that was coded last.
    fn bytes(&self) -> &[u8];

    /// Decodes a tile that is neither empty nor raw into the first of two places of `x`. Returns `None`
    /// if the tile is damaged.
    fn decode(&mut self, tile: &[u8], x: &mut [T], places: [&TilePlace; 2]) -> Option<()>;
}

/// Codes an array: `head` is the first word of the stream.
pub(in crate::codec) struct Encode<'a, T, C> {
    pub grid: &'a Grid,
    pub tiles: C,
    pub x: &'a [T],
    pub head: u64,
    pub to: &'a mut [u8],
}

impl<T: Real, C: Tiles<T>> Kernel for Encode<'_, T, C> {
    type Output = usize;

    /// Codes the array and returns the bytes of the stream.
    #[inline(always)]
    fn run(self) -> usize {
        let Encode { grid, mut tiles, x, head, to } = self;
        put_word(to, 0, head);
        let head = grid.head();
        let mut at = head;
        if grid.count() == 0 {
            return at;
        }
        let mut next = grid.place(0);
        for group in 0..grid.groups() {
            let (mut stored, mut sizes, mut count) = (0u64, [0u16; GROUP], 0);
            put_word(to, 16 + 16 * group, (at - head) as u64);
            for t in 0..GROUP.min(grid.count() - group * GROUP) {
                let place = next;
                next = grid.place((group * GROUP + t + 1).min(grid.count() - 1));
                let Some(size) = tiles.encode(x, [&place, &next]) else { continue };
                let as_is = 1 + place.values() * T::BYTES;
                let size = if size < as_is {
                    to[at..at + size].copy_from_slice(&tiles.bytes()[..size]);
                    size
                } else {
                    put_as_is(x, &place, &mut to[at..at + as_is]);
                    as_is
                };
                at += size;
                stored |= 1 << t;
                sizes[count] = size as u16;
                count += 1;
            }
            put_word(to, 8 + 16 * group, stored);
            for (to, size) in to[at..at + 2 * count].chunks_exact_mut(2).zip(sizes) {
                to.copy_from_slice(&size.to_le_bytes());
            }
            at += 2 * count;
        }
        at
    }
}

/// Bytes of the stream that are prefetched for the next tile.
const AHEAD: usize = 1024;

/// Decodes an array from a stream.
pub(in crate::codec) struct Decode<'a, T, C> {
    pub grid: &'a Grid,
    pub tiles: C,
    pub from: &'a [u8],
    pub x: &'a mut [T],
}

impl<T: Real, C: Tiles<T>> Kernel for Decode<'_, T, C> {
    type Output = Option<()>;

    /// Decodes the array. Returns `None` if the stream is damaged.
    #[inline(always)]
    fn run(self) -> Option<()> {
        let Decode { grid, mut tiles, from, x } = self;
        let (head, body) = from.split_at_checked(grid.head())?;
        if grid.count() == 0 {
            return body.is_empty().then_some(());
        }
        let mut next = grid.place(0);
        for group in 0..grid.groups() {
            let begin = usize::try_from(word(head, 16 + 16 * group)).ok()?;
            let end = if group + 1 < grid.groups() {
                usize::try_from(word(head, 32 + 16 * group)).ok()?
            } else {
                body.len()
            };
            let group_bytes = body.get(begin..end)?;
            let stored = word(head, 8 + 16 * group);
            let count = GROUP.min(grid.count() - group * GROUP);
            if stored.leading_zeros() < (GROUP - count) as u32 {
                return None;
            }
            let (mut left, sizes) = group_bytes.split_at_checked(
                group_bytes.len().checked_sub(2 * stored.count_ones() as usize)?,
            )?;
            let mut sizes = sizes.chunks_exact(2);
            for t in 0..count {
                let place = next;
                next = grid.place((group * GROUP + t + 1).min(grid.count() - 1));
                if stored >> t & 1 == 0 {
                    place.lines().for_each(|line| x[line].fill(T::default()));
                    continue;
                }
                let size = sizes.next()?;
                let (tile, rest) =
                    left.split_at_checked(u16::from_le_bytes([size[0], size[1]]) as usize)?;
                left = rest;
                // Prefetches the bytes of the next tile.
                for at in (0..AHEAD).step_by(64) {
                    prefetch::<_, false>(left, at);
                }
                match *tile.first()? {
                    AS_IS => get_as_is(&tile[1..], &place, x)?,
                    _ => tiles.decode(tile, x, [&place, &next])?,
                }
            }
            if !left.is_empty() {
                return None;
            }
        }
        Some(())
    }
}

/// Prefetches a quarter of a tile, to be read or, with `WRITE`, to be written. The quarters of the
/// next tile are prefetched one by one while the tile before it is processed.
#[inline(always)]
pub(in crate::codec) fn fetch<T, const WRITE: bool>(x: &[T], place: &TilePlace, quarter: usize) {
    for r in LINES / 4 * quarter..LINES / 4 * (quarter + 1) {
        let first = place.line(r).0;
        // The last value is prefetched as well: a line of the tile that begins in the middle of a
        // cache line covers one more cache line.
        for i in (0..LINE).step_by(64 / size_of::<T>()).chain([LINE - 1]) {
            prefetch::<_, WRITE>(x, first + i);
        }
    }
}

/// Copies the values of a tile to `to`. Places beyond the array repeat the value before them.
#[inline(always)]
pub(in crate::codec) fn load<T: Real>(x: &[T], place: &TilePlace, to: &mut [T; TILE]) {
    for r in 0..LINES {
        let (first, len) = place.line(r);
        let (before, line) = to.split_at_mut(r * LINE);
        let line = &mut line[..LINE];
        if len == LINE {
            line.copy_from_slice(&x[first..first + LINE]);
        } else if len > 0 {
            line[..len].copy_from_slice(&x[first..first + len]);
            line[len..].fill(x[first + len - 1]);
        } else if place.chain {
            line.fill(before[r * LINE - 1]);
        } else {
            let back = if r % place.height >= place.extent[1] { 1 } else { place.height };
            line.copy_from_slice(&before[(r - back) * LINE..][..LINE]);
        }
    }
}

/// Copies the values of a tile to their places in `x`.
#[inline(always)]
pub(in crate::codec) fn store<T: Real>(values: &[T; TILE], place: &TilePlace, x: &mut [T]) {
    for r in 0..LINES {
        let (first, len) = place.line(r);
        if len == LINE {
            x[first..first + LINE].copy_from_slice(&values[LINE * r..LINE * r + LINE]);
        } else if len > 0 {
            x[first..first + len].copy_from_slice(&values[LINE * r..LINE * r + len]);
        }
    }
}

/// Sets the numbers at places beyond the array to 0.
#[inline(always)]
pub(in crate::codec) fn clear_outside<N: Copy + Default>(
    numbers: &mut [N; TILE],
    place: &TilePlace,
) {
    if !place.whole() {
        for (r, line) in numbers.chunks_exact_mut(LINE).enumerate() {
            line[place.line(r).1..].fill(N::default());
        }
    }
}

fn put_as_is<T: Real>(x: &[T], place: &TilePlace, to: &mut [u8]) {
    to[0] = AS_IS;
    let mut to = to[1..].chunks_exact_mut(T::BYTES);
    for line in place.lines() {
        // The values come first in the zip: a zip takes an item from its first iterator before it
        // finds that the second one is at its end.
        x[line].iter().zip(&mut to).for_each(|(x, to)| x.put(to));
    }
}

/// Reads a raw tile. Returns `None` if `from` has another length than the values of the tile.
fn get_as_is<T: Real>(from: &[u8], place: &TilePlace, x: &mut [T]) -> Option<()> {
    if from.len() != place.values() * T::BYTES {
        return None;
    }
    let mut from = from.chunks_exact(T::BYTES);
    for line in place.lines() {
        x[line].iter_mut().zip(&mut from).for_each(|(x, from)| *x = T::get(from));
    }
    Some(())
}
