//! The residuals of a tile as rows of eight numbers, stored bit by bit.

use super::super::quantize::{
    low_bytes, put_word, to_bytes, to_rows, transposed, used_bytes, word, Numbers, ROWS, TILE,
};
use super::super::simd::Level;

/// Largest number of bytes of a coded tile, and the same with room behind it for reads and writes
/// of whole words.
pub(super) const CODED: usize = 2 + 32 * 5 + ROWS * 31 + TILE / 8;
pub(super) const ROOM: usize = CODED + 320;
/// Eight bytes of value 1.
pub(super) const EIGHT: u64 = 0x0101_0101_0101_0101;

/// The rows of a tile. A row has eight bytes: byte j holds bit j of each of eight numbers.
#[derive(Clone)]
#[repr(C, align(64))]
pub(super) struct Rows {
    /// Element k: bits 8 k to 8 k + 7 of the magnitudes.
    slices: [[u8; TILE]; 4],
    /// Per row, one bit for each number: whether the number is negative, and whether it differs
    /// from 0.
    signs: [u8; ROWS],
    used: [u8; ROWS],
    /// Widths of the rows, in bits.
    pub widths: [u8; ROWS],
    /// Working memory: one byte of every number.
    bytes: [u8; TILE],
}

/// Returns one bit for each number of a row: whether any bit of the number is set.
#[inline(always)]
fn any(mut row: u64) -> u8 {
    row |= row >> 32;
    row |= row >> 16;
    (row | row >> 8) as u8
}

impl Rows {
    pub(super) const NEW: Self = Rows {
        slices: [[0; TILE]; 4],
        signs: [0; ROWS],
        used: [0; ROWS],
        widths: [0; ROWS],
        bytes: [0; TILE],
    };

    /// Splits the residuals into rows. The magnitudes have at most `slices` bytes; with `narrow`,
    /// at most seven bits, and the sign is the eighth.
    #[inline(always)]
    pub(super) fn fill(&mut self, x: &Numbers, slices: usize, narrow: bool) {
        let Rows { slices: rows, signs, used, widths, bytes } = self;
        if narrow {
            for i in 0..TILE {
                bytes[i] = x[i].unsigned_abs() as u8 | (x[i] as u32 >> 24) as u8 & 0x80;
            }
            to_rows::<false>(bytes, &mut rows[0]);
            for j in 0..ROWS {
                // The last byte of the row has the signs; in the stream the next row overwrites it.
                let row = word(&rows[0], 8 * j);
                let magnitudes = row & (u64::MAX >> 8);
                signs[j] = (row >> 56) as u8;
                used[j] = any(magnitudes);
                widths[j] = used_bytes(magnitudes) as u8;
            }
            return;
        }
        for i in 0..TILE {
            bytes[i] = (x[i] as u32 >> 31) as u8;
        }
        to_rows::<false>(bytes, &mut rows[0]);
        for j in 0..ROWS {
            (signs[j], used[j], widths[j]) = (rows[0][8 * j], 0, 0);
        }
        for (k, rows) in rows[..slices].iter_mut().enumerate() {
            for i in 0..TILE {
                bytes[i] = (x[i].unsigned_abs() >> (8 * k)) as u8;
            }
            to_rows::<false>(bytes, rows);
            for j in 0..ROWS {
                let row = word(rows, 8 * j);
                used[j] |= any(row);
                widths[j] = if row == 0 { widths[j] } else { (8 * k + used_bytes(row)) as u8 };
            }
        }
    }

    /// Writes a tile to `to` and returns its size in bytes. `how` is the second byte of the tile.
    #[inline(always)]
    pub(super) fn put(
        &self,
        to: &mut [u8; ROOM],
        slices: usize,
        how: usize,
        level: Level,
    ) -> usize {
        let (mut least, mut most) = (31, 0);
        for j in 0..ROWS {
            least = least.min(self.widths[j]);
            most = most.max(self.widths[j]);
        }
        let bits = 8 - (most - least).leading_zeros() as usize;
        to[0] = least | (bits as u8) << 5;
        to[1] = how as u8;
        let mut widths = [0; ROWS / 8];
        for i in 0..ROWS / 8 {
            widths[i] = transposed(word(&self.widths, 8 * i) - least as u64 * EIGHT);
        }
        let mut at = 2;
        for widths in widths {
            put_word(to, at, widths);
            at += bits;
        }
        for j in 0..ROWS {
            put_word(to, at, word(&self.slices[0], 8 * j));
            for k in 1..slices {
                put_word(to, at + 8 * k, word(&self.slices[k], 8 * j));
            }
            at += self.widths[j] as usize;
        }
        let (mut gathered, used) = (words(&self.signs), words(&self.used));
        apply::<true>(&mut gathered, &used, level);
        let (mut signs, mut len) = (0u64, 0);
        for i in 0..ROWS / 8 {
            let (more, count) = (gathered[i], used[i].count_ones());
            signs |= more << len;
            put_word(to, at, signs);
            if len + count >= 64 {
                at += 8;
                // Two shifts, because one shift by 64 is not defined.
                signs = more >> (63 - len) >> 1;
                len = len + count - 64;
            } else {
                len += count;
            }
        }
        put_word(to, at, signs);
        at + len.div_ceil(8) as usize
    }

    /// Reads the residuals of a tile, whose rows begin at `at`; `sum` is the sum of all widths and
    /// `most` the largest width. Returns where the tile ends.
    #[inline(always)]
    pub(super) fn get(
        &mut self,
        from: &[u8; ROOM],
        mut at: usize,
        sum: usize,
        most: usize,
        x: &mut Numbers,
        level: Level,
    ) -> usize {
        let Rows { slices: rows, signs, used, widths, bytes } = self;
        let mut signs_at = 8 * (at + sum);
        let slices = most.div_ceil(8).max(1);
        let narrow = most < 8;
        for j in 0..ROWS {
            let width = widths[j] as usize;
            if narrow {
                put_word(&mut rows[0], 8 * j, word(from, at) & ((1 << (8 * width)) - 1));
            } else {
                for (k, rows) in rows[..slices].iter_mut().enumerate() {
                    put_word(
                        rows,
                        8 * j,
                        low_bytes(word(from, at + 8 * k), width.saturating_sub(8 * k)),
                    );
                }
            }
            at += width;
        }
        for j in 0..ROWS {
            used[j] = any(word(&rows[0], 8 * j));
        }
        for rows in &rows[1..slices] {
            for j in 0..ROWS {
                used[j] |= any(word(rows, 8 * j));
            }
        }
        let (mut scattered, used) = ([0; ROWS / 8], words(used));
        for i in 0..ROWS / 8 {
            // Reads 64 bits that begin at any bit.
            let (byte, bit) = (signs_at / 8, signs_at % 8);
            scattered[i] = word(from, byte) >> bit | (from[byte + 8] as u64) << 1 << (63 - bit);
            signs_at += used[i].count_ones() as usize;
        }
        apply::<false>(&mut scattered, &used, level);
        for i in 0..ROWS / 8 {
            put_word(signs, 8 * i, scattered[i]);
        }
        if narrow {
            for j in 0..ROWS {
                let row = word(&rows[0], 8 * j) | (signs[j] as u64) << 56;
                put_word(&mut rows[0], 8 * j, row);
            }
            to_bytes::<false>(&rows[0], bytes);
            for i in 0..TILE {
                let (magnitude, sign) = ((bytes[i] & 0x7F) as i32, (bytes[i] as i8 >> 7) as i32);
                x[i] = (magnitude ^ sign) - sign;
            }
            return signs_at.div_ceil(8);
        }
        x.fill(0);
        for (k, rows) in rows[..slices].iter().enumerate() {
            to_bytes::<false>(rows, bytes);
            for i in 0..TILE {
                x[i] |= (bytes[i] as i32) << (8 * k);
            }
        }
        for j in 0..ROWS {
            put_word(&mut rows[0], 8 * j, signs[j] as u64);
        }
        to_bytes::<false>(&rows[0], bytes);
        for i in 0..TILE {
            let sign = -(bytes[i] as i32);
            x[i] = (x[i] ^ sign).wrapping_sub(sign);
        }
        signs_at.div_ceil(8)
    }
}

/// Computes one step of `gather`, which moves bits by the power of two `by`. Returns the bits to be
/// moved, the mask after the step, and the `zeros` of the next step.
#[inline(always)]
fn step(mask: u64, zeros: u64, by: u32) -> (u64, u64, u64) {
    let mut odd = zeros ^ zeros << 1;
    odd ^= odd << 2;
    odd ^= odd << 4;
    odd ^= odd << 8;
    odd ^= odd << 16;
    odd ^= odd << 32;
    let moved = odd & mask;
    (moved, (mask ^ moved) | moved >> by, zeros & !odd)
}

/// Moves the bits of a word at which the mask has ones together, from the lowest bit on. A bit
/// moves by the number of zeros of the mask below it; bit k of this number moves it by 2^k (Warren,
/// "Hacker's Delight", compress). Instructions for this exist, but on some processors with AVX2
/// they are slower.
#[inline(always)]
fn gather(bits: u64, mask: u64) -> u64 {
    let (mut bits, mut mask, mut zeros) = (bits & mask, mask, !mask << 1);
    for k in 0..6 {
        let moved;
        (moved, mask, zeros) = step(mask, zeros, 1 << k);
        bits = (bits & !moved) | (bits & moved) >> (1 << k);
    }
    bits
}

/// Spreads the lowest bits of a word to the places at which the mask has ones: the inverse of
/// `gather`. The result is 0 where the mask has zeros.
#[inline(always)]
fn scatter(bits: u64, mask: u64) -> u64 {
    let (mut bits, mut left, mut zeros, mut moved) = (bits, mask, !mask << 1, [0; 6]);
    for k in 0..6 {
        (moved[k], left, zeros) = step(left, zeros, 1 << k);
    }
    for k in (0..6).rev() {
        let to = moved[k];
        bits = (bits & !to) | (bits << (1 << k)) & to;
    }
    bits & mask
}

/// Applies `gather`, or else `scatter`, to every word with the mask of the same index.
#[inline(always)]
fn apply<const GATHER: bool>(bits: &mut [u64; ROWS / 8], masks: &[u64; ROWS / 8], level: Level) {
    #[cfg(target_arch = "x86_64")]
    if level == Level::Avx512 {
        use std::arch::x86_64::{_pdep_u64, _pext_u64};
        for i in 0..ROWS / 8 {
            let (word, mask) = (bits[i], masks[i]);
            // SAFETY: the machine has AVX-512, and `levels` reports it only together with BMI2.
            bits[i] = unsafe {
                if GATHER {
                    _pext_u64(word, mask)
                } else {
                    _pdep_u64(word, mask)
                }
            };
        }
        return;
    }
    let _ = level;
    for i in 0..ROWS / 8 {
        bits[i] = if GATHER { gather(bits[i], masks[i]) } else { scatter(bits[i], masks[i]) };
    }
}

#[inline(always)]
fn words(bytes: &[u8; ROWS]) -> [u64; ROWS / 8] {
    std::array::from_fn(|i| word(bytes, 8 * i))
}
