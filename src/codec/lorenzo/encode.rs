//! The encoder: from values to tiles.

use super::super::quantize::{put_word, used_bytes, Choice, Quantised, Quantum, LINE, LINES, TILE};
use super::super::simd::{prefetch, Kernel, Level};
use super::grid::{Grid, TilePlace};
use super::predict::{cost, difference};
use super::{Work, AS_IS, GROUP};

pub(super) struct Encode<'a, T> {
    pub grid: &'a Grid,
    pub work: &'a mut Work<T>,
    pub x: &'a [T],
    pub choice: Choice,
    pub to: &'a mut [u8],
    pub level: Level,
}

impl<T: Quantised> Kernel for Encode<'_, T> {
    type Output = usize;

    /// Codes the array and returns the bytes of the stream.
    #[inline(always)]
    fn run(self) -> usize {
        let Encode { grid, work, x, choice, to, level } = self;
        let quanta = Quantum::levels(choice.unit, choice.bound);
        let head = grid.head();
        put_word(to, 0, choice.unit.to_bits());
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
                let Some(size) =
                    encode(work, x, &quanta[..choice.levels], grid, [&place, &next], level)
                else {
                    continue;
                };
                let as_is = 1 + place.values() * T::BYTES;
                let size = if size < as_is {
                    to[at..at + size].copy_from_slice(&work.bytes[..size]);
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

/// Codes a tile into `work.bytes` and returns its size in bytes, `usize::MAX` if the tile cannot be
/// coded, or `None` if the tile is empty.
#[inline(always)]
fn encode<T: Quantised>(
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
    let (mut best, mut taken, mut least, mut bits) = (0, 0, u32::MAX, 0);
    for &tried in grid.tries {
        let mut at = best;
        for &along in &grid.differences[taken..tried] {
            let next = if at == best { (best + 1) % 3 } else { 3 - best - at };
            let Ok([from, to]) = numbers.get_disjoint_mut([at, next]) else {
                return Some(usize::MAX);
            };
            difference(from, to, along, place);
            at = next;
        }
        let (cost, all) = cost(&numbers[at]);
        if cost >= least {
            break;
        }
        (best, taken, least, bits) = (at, tried, cost, all);
    }
    if bits >> 31 != 0 {
        return Some(usize::MAX);
    }
    let numbers = &mut numbers[best];
    if !place.whole() {
        for (r, line) in numbers.chunks_exact_mut(LINE).enumerate() {
            line[place.line(r).1..].fill(0);
        }
    }
    let slices = used_bytes(bits as u64).max(1);
    rows.fill(numbers, slices, bits < 128);
    Some(rows.put(bytes, slices, taken | step << 3, level))
}

/// Prefetches a quarter of a tile, to be read or, with `WRITE`, to be written. The quarters of the
/// next tile are prefetched one by one while the tile before it is processed.
#[inline(always)]
pub(super) fn fetch<T, const WRITE: bool>(x: &[T], place: &TilePlace, quarter: usize) {
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
fn load<T: Quantised>(x: &[T], place: &TilePlace, to: &mut [T; TILE]) {
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

fn put_as_is<T: Quantised>(x: &[T], place: &TilePlace, to: &mut [u8]) {
    to[0] = AS_IS;
    let mut to = to[1..].chunks_exact_mut(T::BYTES);
    for line in place.lines() {
        // The values come first in the zip: a zip takes an item from its first iterator before it
        // finds that the second one is at its end.
        x[line].iter().zip(&mut to).for_each(|(x, to)| x.put(to));
    }
}
