//! The residuals of a tile as rows of eight numbers, stored bit by bit. The rows have no signs and leave
//! low bytes out; other than that, they are those of `lorenzo`.

use super::super::lorenzo::grid::TilePlace;
use super::super::quantize::{
    put_word, transposed, used_bytes, word, Numbers, LINE, LINES, ROWS, TILE,
};
use super::{Room, BYTES, SPARE};

/// Eight bytes of value 1.
const EIGHT: u64 = 0x0101_0101_0101_0101;

type Bytes = [u8; TILE];
type Widths = [u8; ROWS];

/// Working memory.
#[derive(Clone)]
#[repr(C, align(64))]
pub(super) struct Rows {
    /// Element k: byte k of every number, or the rows of these bytes.
    bytes: [Bytes; 4],
    /// Widths of the rows, in bits.
    widths: Widths,
}

impl Rows {
    pub(super) const NEW: Self = Rows { bytes: [[0; TILE]; 4], widths: [0; ROWS] };

    /// Writes the numbers to `to` from `at` on: their widths, the rows and the low bytes. Returns the
    /// number of low bytes, and where they end.
    #[inline(always)]
    pub(super) fn put(
        &mut self,
        x: &Numbers,
        place: &TilePlace,
        to: &mut Room,
        mut at: usize,
    ) -> (usize, usize) {
        let Rows { bytes, widths } = self;
        let all = x.iter().fold(0, |all, &x| all | x as u32);
        let count = used_bytes(all as u64);
        for (k, bytes) in bytes[..count].iter_mut().enumerate() {
            for i in 0..TILE {
                bytes[i] = (x[i] as u32 >> (8 * k)) as u8;
            }
        }
        let mut columns = [0; ROWS];
        for (k, bytes) in bytes[..count].iter().enumerate() {
            for j in 0..ROWS {
                let mut row = word(bytes, 8 * j);
                row |= row >> 32;
                row |= row >> 16;
                row |= row >> 8;
                columns[j] |= (row as u32 & 0xFF) << (8 * k);
            }
        }
        for j in 0..ROWS {
            widths[j] = (32 - columns[j].leading_zeros()) as u8;
        }
        let wasted = |low: usize| {
            widths.iter().map(|&width| (8 * low as u32).saturating_sub(width as u32)).sum::<u32>()
        };
        let low = (1..4).rev().find(|&low| 4 * wasted(low) <= ROWS as u32).unwrap_or(0);
        for bytes in &mut bytes[low..count] {
            for j in 0..ROWS {
                let row = word(bytes, 8 * j);
                put_word(bytes, 8 * j, transposed(row));
            }
        }
        let (mut least, mut most) = (32, 0);
        for j in 0..ROWS {
            widths[j] = widths[j].saturating_sub(8 * low as u8);
            least = least.min(widths[j]);
            most = most.max(widths[j]);
        }
        let bits = 8 - (most - least).leading_zeros() as usize;
        to[at..at + 2].copy_from_slice(&[least, bits as u8]);
        at += 2;
        let mut eights = [0; ROWS / 8];
        for i in 0..ROWS / 8 {
            eights[i] = transposed(word(widths, 8 * i) - least as u64 * EIGHT);
        }
        for eight in eights {
            put_word(to, at, eight);
            at += bits;
        }
        let rows = &bytes[low..count];
        at = match count - low {
            0 => at,
            1 => put_rows::<1>(rows, widths, to, at),
            2 => put_rows::<2>(rows, widths, to, at),
            3 => put_rows::<3>(rows, widths, to, at),
            _ => put_rows::<4>(rows, widths, to, at),
        };
        for bytes in &bytes[..low] {
            at = parts(place, at, |i, at, n| to[at..at + n].copy_from_slice(&bytes[i..i + n]));
        }
        (low, at)
    }

    /// Reads what `put` wrote, with this number of low bytes, and takes the signs back to where they were.
    /// Returns where the numbers end, or `None` if that is behind `end`.
    #[inline(always)]
    pub(super) fn get(
        &mut self,
        from: &Room,
        mut at: usize,
        end: usize,
        low: usize,
        place: &TilePlace,
        x: &mut Numbers,
    ) -> Option<usize> {
        let Rows { bytes, widths } = self;
        let (least, bits) = (from[at], from[at + 1] as usize);
        at += 2;
        if bits > 6 || least > 32 || end < at + ROWS / 8 * bits {
            return None;
        }
        let (mut sum, mut most) = (0, 0);
        let mut eights = [0; ROWS / 8];
        for eight in &mut eights {
            *eight = word(from, at) & ((1 << (8 * bits)) - 1);
            at += bits;
        }
        for i in 0..ROWS / 8 {
            put_word(widths, 8 * i, transposed(eights[i]) + least as u64 * EIGHT);
        }
        for &width in widths.iter() {
            sum += width as usize;
            most = width.max(most);
        }
        let count = low + (most as usize).div_ceil(8);
        if count > 4 || end < at + sum + low * place.values() {
            return None;
        }
        let rows = &mut bytes[low..count];
        match count - low {
            0 => {}
            1 => get_rows::<1>(from, at, widths, rows),
            2 => get_rows::<2>(from, at, widths, rows),
            3 => get_rows::<3>(from, at, widths, rows),
            _ => get_rows::<4>(from, at, widths, rows),
        }
        at += sum;
        for (k, bytes) in rows.iter_mut().enumerate() {
            for j in 0..ROWS {
                let bits = 8 * widths[j].saturating_sub(8 * k as u8).min(8) as u32;
                // Two shifts, because one shift by 64 is not defined.
                let row = word(bytes, 8 * j) & !(u64::MAX << (bits / 2) << (bits - bits / 2));
                put_word(bytes, 8 * j, transposed(row));
            }
        }
        for bytes in &mut bytes[..low] {
            at = parts(place, at, |i, at, n| bytes[i..i + n].copy_from_slice(&from[at..at + n]));
        }
        match count {
            0 => x.fill(0),
            1 => join::<1>(bytes, x),
            2 => join::<2>(bytes, x),
            3 => join::<3>(bytes, x),
            _ => join::<4>(bytes, x),
        }
        Some(at)
    }
}

/// Writes the rows, of at most `N` bytes of every number.
#[inline(always)]
fn put_rows<const N: usize>(
    rows: &[Bytes],
    widths: &Widths,
    to: &mut Room,
    mut at: usize,
) -> usize {
    for j in 0..ROWS {
        for (k, rows) in rows[..N].iter().enumerate() {
            put_word(to, at % (BYTES - SPARE) + 8 * k, word(rows, 8 * j));
        }
        at += widths[j] as usize;
    }
    at
}

/// Reads what `put_rows` wrote, and more behind each row.
#[inline(always)]
fn get_rows<const N: usize>(from: &Room, mut at: usize, widths: &Widths, rows: &mut [Bytes]) {
    for j in 0..ROWS {
        for (k, rows) in rows[..N].iter_mut().enumerate() {
            put_word(rows, 8 * j, word(from, at % (BYTES - SPARE) + 8 * k));
        }
        at += widths[j] as usize;
    }
}

/// Joins the `N` bytes of every number, whose lowest bit is the sign.
#[inline(always)]
fn join<const N: usize>(bytes: &[Bytes; 4], x: &mut Numbers) {
    for i in 0..TILE {
        let mut number = 0;
        for k in 0..N {
            number |= (bytes[k][i] as u32) << (8 * k);
        }
        x[i] = (number >> 1) as i32 ^ -((number & 1) as i32);
    }
}

/// Calls `copy` for parts of the bytes of every value that the array has: it gets their place in the tile,
/// their place in the stream, where the first one is at `at`, and how many bytes may be copied. Returns
/// where the last one ends.
#[inline(always)]
pub(super) fn parts(
    place: &TilePlace,
    mut at: usize,
    mut copy: impl FnMut(usize, usize, usize),
) -> usize {
    if place.whole() {
        copy(0, at, TILE);
        return at + TILE;
    }
    for r in 0..LINES {
        copy(LINE * r, at, LINE);
        at += place.line(r).1;
    }
    at
}
