//! The encoder of a tile.

use super::super::quantize::{used_bytes, Quantised, Quantum, TILE};
use super::super::simd::Level;
use super::grid::{Grid, TilePlace};
use super::predict::{best_of_tries, Residuals};
use super::tiles::{clear_outside, fetch, load};
use super::Work;

/// Codes a tile into `work.bytes` and returns its size in bytes, `usize::MAX` if the tile cannot be
/// coded, or `None` if the tile is empty.
#[inline(always)]
pub(super) fn encode<T: Quantised>(
    work: &mut Work<T>,
    x: &[T],
    quanta: &[Quantum<T>],
    grid: &Grid,
    [place, next]: [&TilePlace; 2],
    level: Level,
) -> Option<usize> {
    let Work { values, numbers, rows, bytes } = work;
    load(x, place, values);
    fetch::<_, false>(x, next, 0);
    fetch::<_, false>(x, next, 1);
    let mut step = 0;
    while !quanta[step].quantise(values, &mut numbers[0]) {
        step += 1;
        if step == quanta.len() {
            return Some(usize::MAX);
        }
    }
    let mut any = 0;
    for i in 0..TILE {
        any |= numbers[0][i];
    }
    if any == 0 {
        return None;
    }
    fetch::<_, false>(x, next, 2);
    fetch::<_, false>(x, next, 3);
    let Some(Residuals { at, taken, bits }) = best_of_tries(numbers, grid, place) else {
        return Some(usize::MAX);
    };
    let numbers = &mut numbers[at];
    clear_outside(numbers, place);
    let slices = used_bytes(bits as u64).max(1);
    rows.fill(numbers, slices, bits < 128);
    Some(rows.put(bytes, slices, taken | step << 3, level))
}
