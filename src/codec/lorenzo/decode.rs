//! The decoder of a tile.

use super::super::quantize::{
    low_bytes, put_word, transposed, word, Quantised, Quantum, ROWS, TILE,
};
use super::super::simd::Level;
use super::grid::{Grid, TilePlace};
use super::predict::sum;
use super::rows::{CODED, EIGHT};
use super::tiles::{fetch, store};
use super::Work;

/// Decodes a tile that is not raw. Returns `None` if it is damaged.
#[inline(always)]
pub(super) fn decode<T: Quantised>(
    work: &mut Work<T>,
    tile: &[u8],
    x: &mut [T],
    quanta: &[Quantum<T>; 3],
    grid: &Grid,
    [place, next]: [&TilePlace; 2],
    level: Level,
) -> Option<()> {
    let Work { values, numbers: [numbers, ..], rows, bytes } = work;
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
    store(values, place, x);
    Some(())
}
