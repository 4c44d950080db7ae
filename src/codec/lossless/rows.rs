//! The residuals of a tile as rows of eight numbers, stored bit by bit. The rows have no signs and leave
//! low bytes out; other than that, they are those of `lorenzo`.

use super::super::quantize::{
    low_bytes, put_word, to_bytes, to_rows, transposed, used_bytes, word, Numbers, ROWS, TILE,
};
use super::{BYTES, SPARE};

/// Eight bytes of value 1.
const EIGHT: u64 = 0x0101_0101_0101_0101;

/// Working memory.
#[derive(Clone)]
#[repr(C, align(64))]
pub(super) struct Rows {
    /// Element k: the rows of byte k of every number, from the lowest byte on that is in rows.
    slices: [[u8; TILE]; 4],
    /// Element i is the byte of number i that is on its way into the rows, or out of them.
    bytes: [u8; TILE],
    /// Widths of the rows, in bits.
    widths: [u8; ROWS],
}

impl Rows {
    pub(super) const NEW: Self =
        Rows { slices: [[0; TILE]; 4], bytes: [0; TILE], widths: [0; ROWS] };

    /// Writes the widths and the rows of the numbers without their `low` low bytes to `to` from `at` on.
    /// Returns where they end.
    #[inline(always)]
    pub(super) fn put(
        &mut self,
        x: &Numbers,
        low: usize,
        to: &mut [u8; BYTES],
        mut at: usize,
    ) -> usize {
        let Rows { slices, bytes, widths } = self;
        let mut all = 0;
        for i in 0..TILE {
            all |= x[i] as u32;
        }
        let count = used_bytes(all as u64).saturating_sub(low);
        widths.fill(0);
        for (k, rows) in slices[..count].iter_mut().enumerate() {
            for i in 0..TILE {
                bytes[i] = (x[i] as u32 >> (8 * (low + k))) as u8;
            }
            to_rows::<false>(bytes, rows);
            for j in 0..ROWS {
                let row = word(rows, 8 * j);
                widths[j] = if row == 0 { widths[j] } else { (8 * k + used_bytes(row)) as u8 };
            }
        }
        let (mut least, mut most) = (32, 0);
        for j in 0..ROWS {
            least = least.min(widths[j]);
            most = most.max(widths[j]);
        }
        let bits = 8 - (most - least).leading_zeros() as usize;
        to[at..at + 2].copy_from_slice(&[least, bits as u8]);
        at += 2;
        for i in 0..ROWS / 8 {
            put_word(to, at, transposed(word(widths, 8 * i) - least as u64 * EIGHT));
            at += bits;
        }
        match count {
            0 => at,
            1 => put_rows::<1>(slices, widths, to, at),
            2 => put_rows::<2>(slices, widths, to, at),
            _ => put_rows::<4>(slices, widths, to, at),
        }
    }

    /// Reads what `put` wrote; the low bytes of the numbers are 0. Returns where the rows end, or `None`
    /// if that is behind `end`.
    #[inline(always)]
    pub(super) fn get(
        &mut self,
        from: &[u8; BYTES],
        mut at: usize,
        end: usize,
        low: usize,
        x: &mut Numbers,
    ) -> Option<usize> {
        let Rows { slices, bytes, widths } = self;
        let (least, bits) = (from[at], from[at + 1] as usize);
        at += 2;
        if bits > 6 || least > 32 || end < at + ROWS / 8 * bits {
            return None;
        }
        let (mut sum, mut most) = (0, 0);
        for i in 0..ROWS / 8 {
            let eight = transposed(low_bytes(word(from, at), bits)) + least as u64 * EIGHT;
            put_word(widths, 8 * i, eight);
            at += bits;
        }
        for &width in widths.iter() {
            sum += width as usize;
            most = width.max(most);
        }
        if most as usize > 32 - 8 * low || end < at + sum {
            return None;
        }
        let count = (most as usize).div_ceil(8);
        match count {
            0 => {}
            1 => get_rows::<1>(from, at, widths, slices),
            2 => get_rows::<2>(from, at, widths, slices),
            _ => get_rows::<4>(from, at, widths, slices),
        }
        x.fill(0);
        for (k, rows) in slices[..count].iter().enumerate() {
            to_bytes::<false>(rows, bytes);
            for i in 0..TILE {
                x[i] |= (bytes[i] as i32) << (8 * (low + k));
            }
        }
        Some(at + sum)
    }
}

/// Writes the rows, of at most `N` bytes of every number.
#[inline(always)]
fn put_rows<const N: usize>(
    slices: &[[u8; TILE]; 4],
    widths: &[u8; ROWS],
    to: &mut [u8; BYTES],
    mut at: usize,
) -> usize {
    for j in 0..ROWS {
        for k in 0..N {
            put_word(to, at % (BYTES - SPARE) + 8 * k, word(&slices[k], 8 * j));
        }
        at += widths[j] as usize;
    }
    at
}

/// Reads what `put_rows` wrote.
#[inline(always)]
fn get_rows<const N: usize>(
    from: &[u8; BYTES],
    mut at: usize,
    widths: &[u8; ROWS],
    slices: &mut [[u8; TILE]; 4],
) {
    for j in 0..ROWS {
        let width = widths[j] as usize;
        for k in 0..N {
            let row = word(from, at % (BYTES - SPARE) + 8 * k);
            let row = if 8 * k < width { low_bytes(row, width - 8 * k) } else { 0 };
            put_word(&mut slices[k], 8 * j, row);
        }
        at += width;
    }
}
