//! Reads the bits of a tile. Any bits are safe to read: bits that are no valid tile are refused.

use super::bits::{Reader, MORE};
use super::rows::{distance_bits, fixed_bits, Correction, GROUPS, LAST, LIMIT, ONE, RICE};
use crate::error::Result;
use crate::fallible_vec;

/// The unary numbers of a tile's coefficients take fewer bits than this.
const UNARY: u64 = 1 << 16;

/// Mode and fixed bits of a row that are known before its numbers are read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Head {
    mode: u8,
    /// The groups of four that have unary numbers, one bit per group; in mode `ONE` the place of
    /// the coefficient.
    named: u8,
}

impl Head {
    /// Makes the head of a row of `R` coefficients; `fixed` begins with the row's fixed bits.
    #[inline(always)]
    fn new<const R: usize>(mode: u8, fixed: u64) -> Self {
        let (fixed, all) = (fixed as u8, (1 << (R / 4)) - 1);
        let named = match u32::from(mode) {
            0 => 0,
            ONE => fixed & (R as u8 - 1),
            GROUPS => fixed & all,
            _ => all,
        };
        Head { mode, named }
    }

    /// Returns how many unary numbers the row has.
    #[inline(always)]
    fn numbers(self) -> usize {
        if u32::from(self.mode) == ONE {
            0
        } else {
            4 * self.named.count_ones() as usize
        }
    }
}

/// Working memory for one tile that is read.
#[derive(Clone)]
pub(super) struct TileBuffer {
    heads: Vec<Head>,
    numbers: Vec<u16>,
}

impl TileBuffer {
    /// Allocates working memory for tiles of up to `values` values.
    pub fn new(values: usize) -> Result<Self> {
        Ok(TileBuffer {
            heads: fallible_vec::filled(Head::default(), values / 8)?,
            numbers: fallible_vec::filled(0, values + MORE)?,
        })
    }
}

/// Reads a tile row by row. The default is a tile of zeros.
#[derive(Clone, Copy, Default)]
pub(super) struct Opened<'a> {
    /// Number of rows that are stored; all further rows are zero.
    pub rows: usize,
    corrections: usize,
    /// Length of the tile in bits.
    bits: u64,
    heads: &'a [Head],
    /// The unary numbers of the tile's coefficients; `next` is the index of the next number.
    numbers: &'a [u16],
    next: usize,
    fixed: Reader<'a>,
    signs: Reader<'a>,
}

impl<'a> Opened<'a> {
    /// Begins to read a tile of `values` values, which begins at bit `at`. Returns `None` if the bits are no
    /// valid tile.
    #[inline(always)]
    pub fn new<const R: usize>(
        values: usize,
        from: &'a [u8],
        at: u32,
        room: &'a mut TileBuffer,
    ) -> Option<Self> {
        let mut head = Reader::new(from, at.into());
        let rows = head.get((values / R).ilog2() + 1) as usize;
        let size = head.unary()? + 2;
        if rows > values / R || size > 20 {
            return None;
        }
        let corrections = (head.get(size) as usize | 1 << size) - 4;
        let heads = room.heads.get_mut(..rows)?;
        let numbers = &mut room.numbers[..];
        read_modes(&mut head, heads, numbers)?;
        let fixed = head;
        let mut count = 0;
        for row in heads.iter_mut() {
            *row = Head::new::<R>(row.mode, head.ahead());
            head.at += u64::from(fixed_bits::<R>(row.mode.into()));
            count += row.numbers();
        }
        let begin = head.at;
        head.unaries(count, numbers)?;
        let bits = 8 * from.len() as u64;
        let (next, signs) = (0, head);
        let opened = Opened { rows, corrections, bits, heads, numbers, next, fixed, signs };
        (head.at - begin < UNARY).then_some(opened)
    }

    /// Reads the magnitudes of row `r` into `row`. Rows must be read in order.
    #[inline(always)]
    pub fn row<const R: usize>(&mut self, r: usize, row: &mut [u32; R]) -> Option<()> {
        let head = self.heads[r];
        let mode = u32::from(head.mode);
        if mode == ONE {
            *row = [0; R];
            row[usize::from(head.named) % R] = 1;
        } else {
            for (g, row) in row.chunks_exact_mut(4).enumerate() {
                let some = head.named >> g & 1;
                let four = self.numbers.get(self.next..)?.first_chunk::<4>()?;
                for (to, &number) in row.iter_mut().zip(four) {
                    *to = u32::from(number & u16::from(some).wrapping_neg());
                }
                self.next += 4 * usize::from(some);
            }
        }
        if mode > RICE {
            return low_bits::<R>(row, mode - RICE, &mut self.fixed);
        }
        self.fixed.at += u64::from(fixed_bits::<R>(mode));
        Some(())
    }

    /// Returns the signs of the next nonzero coefficients, the first of them in the lowest bit.
    #[inline(always)]
    pub fn signs(&self) -> u32 {
        self.signs.ahead() as u32
    }

    #[inline(always)]
    pub fn skip_signs(&mut self, count: u32) {
        self.signs.at += u64::from(count);
    }

    /// Reads the corrections into `to`, after all rows, and returns their number. Returns `None` if
    /// they are invalid or a string went beyond the tile's end, where all bits are read as zeros.
    #[inline(always)]
    pub fn corrections(
        self,
        values: usize,
        to: &mut [Correction],
        numbers: &mut [u16],
    ) -> Option<usize> {
        let to = to.get_mut(..self.corrections)?;
        let end = read_corrections(values, self.signs, to, numbers)?;
        (end <= self.bits).then_some(to.len())
    }
}

/// Reads the modes of the rows. `numbers` is working memory.
#[inline(always)]
fn read_modes(from: &mut Reader<'_>, heads: &mut [Head], numbers: &mut [u16]) -> Option<()> {
    let Some((first, further)) = heads.split_first_mut() else { return Some(()) };
    let mut mode = from.get(5) as u32;
    first.mode = mode as u8;
    from.unaries(further.len(), numbers)?;
    for (row, &mut change) in further.iter_mut().zip(numbers) {
        mode = changed(mode, change.into());
        if mode > LAST {
            return None;
        }
        row.mode = mode as u8;
    }
    Some(())
}

/// Inverts `rows::change`. An invalid change gives a mode beyond `LAST`.
#[inline(always)]
fn changed(from: u32, change: u32) -> u32 {
    from.wrapping_add((change / 2) ^ (change % 2).wrapping_neg())
}

/// Appends `k` fixed bits below the bits of each item.
#[inline(always)]
fn low_bits<const R: usize>(row: &mut [u32; R], k: u32, fixed: &mut Reader<'_>) -> Option<()> {
    let mut high = 0;
    for &mut v in row.iter_mut() {
        high |= v;
    }
    if high >= LIMIT >> k {
        return None;
    }
    if k <= 14 {
        for four in row.chunks_exact_mut(4) {
            let word = fixed.get(4 * k);
            for (i, v) in four.iter_mut().enumerate() {
                *v = *v << k | (word >> (i as u32 * k)) as u32 & ((1 << k) - 1);
            }
        }
    } else {
        for v in row {
            *v = *v << k | fixed.get(k) as u32;
        }
    }
    Some(())
}

/// Reads the corrections. Returns the position of the first bit behind them, or `None` if a
/// correction is outside the tile.
#[inline(always)]
fn read_corrections(
    values: usize,
    mut from: Reader<'_>,
    corrections: &mut [Correction],
    numbers: &mut [u16],
) -> Option<u64> {
    if corrections.is_empty() {
        return Some(from.at);
    }
    let k = distance_bits(values, corrections.len());
    for c in corrections.iter_mut() {
        c.at = from.get(k) as u32;
    }
    from.unaries(corrections.len(), numbers)?;
    let mut next = 0;
    for (c, &high) in corrections.iter_mut().zip(&*numbers) {
        c.at += next + (u32::from(high) << k);
        next = c.at + 1;
        if c.at as usize >= values {
            return None;
        }
    }
    from.unaries(corrections.len(), numbers)?;
    for (c, &more) in corrections.iter_mut().zip(&*numbers) {
        let magnitude = i32::from(more) + 1;
        c.level = if from.get(1) != 0 { -magnitude } else { magnitude };
    }
    Some(from.at)
}
