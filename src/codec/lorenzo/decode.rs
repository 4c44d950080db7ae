//! The decoder: from tiles to values.

use super::super::quantize::{
    low_bytes, put_word, transposed, word, Quantised, Quantum, LINE, LINES, ROWS, TILE,
};
use super::super::simd::{prefetch, Kernel, Level};
use super::encode::fetch;
use super::grid::{Grid, TilePlace};
use super::predict::sum;
use super::rows::{CODED, EIGHT};
use super::{Work, AS_IS, GROUP};

/// Bytes of the stream that are prefetched for the next tile.
const AHEAD: usize = 1024;

pub(super) struct Decode<'a, T> {
    pub grid: &'a Grid,
    pub work: &'a mut Work<T>,
    pub from: &'a [u8],
    pub x: &'a mut [T],
    pub level: Level,
}

impl<T: Quantised> Kernel for Decode<'_, T> {
    type Output = Option<()>;

    /// Decodes the array. Returns `None` if the stream is damaged.
    #[inline(always)]
    fn run(self) -> Option<()> {
        let Decode { grid, work, from, x, level } = self;
        let (head, body) = from.split_at_checked(grid.head())?;
        let unit = f64::from_bits(word(head, 0));
        if !(unit > 0.0 && unit.is_finite()) {
            return None;
        }
        if grid.count() == 0 {
            return body.is_empty().then_some(());
        }
        let quanta = Quantum::<T>::levels(unit, unit);
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
            let tiles = GROUP.min(grid.count() - group * GROUP);
            if stored.leading_zeros() < (GROUP - tiles) as u32 {
                return None;
            }
            let (mut left, sizes) = group_bytes.split_at_checked(
                group_bytes.len().checked_sub(2 * stored.count_ones() as usize)?,
            )?;
            let mut sizes = sizes.chunks_exact(2);
            for t in 0..tiles {
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
                decode(work, tile, x, &quanta, grid, [&place, &next], level)?;
            }
            if !left.is_empty() {
                return None;
            }
        }
        Some(())
    }
}

#[inline(always)]
fn decode<T: Quantised>(
    work: &mut Work<T>,
    tile: &[u8],
    x: &mut [T],
    quanta: &[Quantum<T>; 3],
    grid: &Grid,
    [place, next]: [&TilePlace; 2],
    level: Level,
) -> Option<()> {
    let Work { values, numbers: [numbers, ..], rows, bytes } = work;
    if *tile.first()? == AS_IS {
        return get_as_is(&tile[1..], place, x);
    }
    bytes[..CODED].get_mut(..tile.len())?.copy_from_slice(tile);
    let (least, bits) = (bytes[0] & 31, bytes[0] as usize >> 5);
    let (taken, step) = (bytes[1] as usize & 7, bytes[1] as usize >> 3);
    let quantum = quanta.get(step)?;
    let differences = grid.differences.get(..taken)?;
    if bits > 5 || tile.len() < 2 + 32 * bits {
        return None;
    }
    let (mut sum_, mut most) = (0, 0);
    let mut widths = [0; ROWS / 8];
    for (i, widths) in widths.iter_mut().enumerate() {
        *widths = low_bytes(word(bytes, 2 + bits * i), bits);
    }
    for i in 0..ROWS / 8 {
        put_word(&mut rows.widths, 8 * i, transposed(widths[i]) + least as u64 * EIGHT);
    }
    for width in rows.widths {
        sum_ += width as usize;
        most = width.max(most);
    }
    fetch::<_, true>(x, next, 0);
    let at = 2 + 32 * bits;
    if most > 31 || tile.len() < at + sum_ {
        return None;
    }
    if rows.get(bytes, at, sum_, most as usize, numbers, level) != tile.len() {
        return None;
    }
    fetch::<_, true>(x, next, 1);
    for &along in differences {
        sum(numbers, along, place, level);
    }
    fetch::<_, true>(x, next, 2);
    for i in 0..TILE {
        values[i] = T::from_i32(numbers[i]) * quantum.step;
    }
    fetch::<_, true>(x, next, 3);
    for r in 0..LINES {
        let (first, len) = place.line(r);
        if len == LINE {
            x[first..first + LINE].copy_from_slice(&values[LINE * r..LINE * r + LINE]);
        } else if len > 0 {
            x[first..first + len].copy_from_slice(&values[LINE * r..LINE * r + len]);
        }
    }
    Some(())
}

/// Reads a raw tile. Returns `None` if `from` has another length than the values of the tile.
fn get_as_is<T: Quantised>(from: &[u8], place: &TilePlace, x: &mut [T]) -> Option<()> {
    if from.len() != place.values() * T::BYTES {
        return None;
    }
    let mut from = from.chunks_exact(T::BYTES);
    for line in place.lines() {
        x[line].iter_mut().zip(&mut from).for_each(|(x, from)| *x = T::get(from));
    }
    Some(())
}
