//! Codes blocks of 4 values (1-D). Such a block is small enough for tables of all possible planes.
//! 4 blocks are decoded at a time (a step), one plane of each, then the next plane. A plane of a
//! block is a nibble; a word has 16 planes. Once all 4 coefficients are significant, the nibbles
//! are the bits of the stream.

use super::block_bits::{low, peek, Head, Spec, Writer, WORDS};
use super::planes::Matrix;

/// Number of blocks that are decoded at a time.
const STEP: usize = 4;

/// Number of planes for which 64 bits of the stream suffice.
const CHUNK: u32 = 8;

/// Returns the row of the first word and the column of the words of a block's `W` planes in a
/// matrix. The first word has the lowest planes; the other words are in the rows below it.
#[inline(always)]
fn place<const W: usize>(block: usize) -> (usize, usize) {
    let lanes = 512 / W;
    let (group, lane) = (block / lanes, block % lanes);
    (4 * group + lane * (W / 16) % 4, lane * W / 64)
}

/// Returns the nibbles of word `word` that belong to planes from `lowest` on; the other nibbles
/// become 0.
#[inline(always)]
fn above(nibbles: u64, lowest: u32, word: u32) -> u64 {
    nibbles & low(4 * (16 * word + 16).saturating_sub(lowest))
}

/// Writes a block whose exponent is not 0.
#[inline(always)]
pub fn put_block<const W: usize>(
    spec: &Spec,
    m: &Matrix,
    block: usize,
    exponent: u32,
    out: &mut Writer<'_>,
) {
    let (mut bits, mut count) = (1 | u64::from(exponent) << 1, 1 + spec.exponent);
    let (mut n, mut left) = (0, spec.bits - count);
    let (row, column) = place::<W>(block);
    for word in (0..W as u32 / 16).rev() {
        // The planes below the lowest plane become zeros, and so does the rest of the block.
        let mut nibbles =
            above(m[(row + word as usize) % 64][column % 8], spec.lowest(exponent), word);
        let mut planes = 16;
        while planes > 0 && left > 0 && n < 4 {
            if count > 64 - 2 * MOST {
                out.put(bits, count);
                (bits, count) = (0, 0);
            }
            let coded = PAIRS[n as usize][nibbles as usize % 256];
            bits |= u64::from(coded.bits) << count;
            count += u32::from(coded.count);
            left = left.saturating_sub(coded.count.into());
            n = coded.n;
            nibbles >>= 8;
            planes -= 2;
        }
        if left == 0 {
            break;
        }
        if planes > 0 {
            out.put(bits, count);
            (bits, count) = (nibbles, 4 * planes);
            left = left.saturating_sub(count);
        }
    }
    out.put(bits, count);
}

/// Reads blocks as `embed::decode` does. The matrix must be 0.
#[inline(always)]
pub fn decode<const W: usize>(
    spec: &Spec,
    words: &[u64; WORDS],
    exponents: &mut [u32],
    m: &mut Matrix,
) {
    for (step, exponents) in exponents.chunks_mut(STEP).enumerate() {
        // Blocks behind the last block of the batch are decoded, too; the results are not used.
        let (mut at, mut end, mut lowest, mut n) = ([0; STEP], [0; STEP], [0; STEP], [0u8; STEP]);
        for i in 0..STEP {
            let head = Head::read(spec, words, STEP * step + i);
            (at[i], end[i], lowest[i]) = (head.at, head.at + head.left, spec.lowest(head.exponent));
            if let Some(exponent) = exponents.get_mut(i) {
                *exponent = head.exponent;
            }
        }
        let mut open = true;
        for word in (0..W as u32 / 16).rev() {
            let mut nibbles = [0; STEP];
            for shift in [0, 4 * CHUNK] {
                if open {
                    let from: [u64; STEP] = std::array::from_fn(|i| peek(words, at[i]));
                    let verbatim = (0..STEP).all(|i| n[i] == 4 || at[i] == end[i]);
                    open = if verbatim {
                        copy_planes(from, &mut at, &end, shift, &mut nibbles)
                    } else {
                        get_planes(from, &mut at, &end, shift, &mut n, &mut nibbles)
                    };
                }
            }
            for i in 0..STEP {
                let (row, column) = place::<W>(STEP * step + i);
                m[(row + word as usize) % 64][column % 8] = above(nibbles[i], lowest[i], word);
            }
            if !open {
                break;
            }
        }
    }
}

/// Reads blocks as `decode` does; each block has at most `MOST` bits behind its exponent.
#[inline(always)]
pub fn decode_few<const W: usize>(
    spec: &Spec,
    words: &[u64; WORDS],
    exponents: &mut [u32],
    m: &mut Matrix,
) {
    for (block, exponent) in exponents.iter_mut().enumerate() {
        let head = Head::read(spec, words, block);
        *exponent = head.exponent;
        let (row, column) = place::<W>(block);
        let nibbles = FEW[head.left as usize % 8][peek(words, head.at) as usize % (1 << MOST)];
        m[(row + W / 16 - 1) % 64][column % 8] = nibbles.into();
    }
}

/// Copies `CHUNK` planes of blocks whose coefficients are all significant. Returns false if all
/// blocks are finished.
#[inline(always)]
fn copy_planes(
    from: [u64; STEP],
    at: &mut [u32; STEP],
    end: &[u32; STEP],
    shift: u32,
    nibbles: &mut [u64; STEP],
) -> bool {
    let mut open = false;
    for i in 0..STEP {
        let count = (end[i] - at[i]).min(4 * CHUNK);
        nibbles[i] |= (from[i] & low(count)) << shift;
        at[i] += count;
        open |= at[i] < end[i];
    }
    open
}

/// Reads `CHUNK` planes of each block. Returns false if all blocks are finished.
#[inline(always)]
fn get_planes(
    mut from: [u64; STEP],
    at: &mut [u32; STEP],
    end: &[u32; STEP],
    shift: u32,
    n: &mut [u8; STEP],
    nibbles: &mut [u64; STEP],
) -> bool {
    for plane in 0..CHUNK {
        let mut open = 0;
        for i in 0..STEP {
            // A finished block has no bits left; the table has an entry for that.
            let left = (end[i] - at[i]).min(MOST);
            open |= left;
            let coded =
                PLANES[left as usize % 8][n[i] as usize % 5][from[i] as usize % (1 << MOST)];
            nibbles[i] |= u64::from(coded.bits) << (shift + 4 * plane);
            from[i] >>= coded.count;
            at[i] += u32::from(coded.count);
            n[i] = coded.n;
        }
        if open == 0 {
            return false;
        }
    }
    true
}

/// The largest number of bits that a plane of 4 coefficients takes in the stream.
pub const MOST: u32 = 7;

/// A plane of 4 coefficients, coded or decoded.
#[derive(Clone, Copy)]
#[repr(align(4))]
pub struct Short {
    /// The bits of the plane (decoded) or its code (coded).
    pub bits: u8,
    /// Number of bits of the code.
    pub count: u8,
    /// Number of significant coefficients after this plane.
    pub n: u8,
}

/// Two coded planes of 4 coefficients.
#[derive(Clone, Copy)]
#[repr(align(4))]
pub struct Pair {
    /// The code of the two planes.
    pub bits: u16,
    /// Number of bits of the code.
    pub count: u8,
    /// Number of significant coefficients after these planes.
    pub n: u8,
}

/// The code of two planes. First index: number of significant coefficients; second index: the bits
/// of the two planes, the upper plane in the lowest bits.
pub static PAIRS: [[Pair; 256]; 5] = {
    let mut table = [[Pair { bits: 0, count: 0, n: 0 }; 256]; 5];
    let mut i = 0;
    while i < 5 * 256 {
        let first = code_of((i / 256) as u8, (i % 16) as u8);
        let second = code_of(first.n, (i / 16 % 16) as u8);
        let bits = first.bits as u16 | (second.bits as u16) << first.count;
        table[i / 256][i % 256] = Pair { bits, count: first.count + second.count, n: second.n };
        i += 1;
    }
    table
};

/// The planes of a block. First index: number of bits of the block; second index: the next bits of
/// the stream. The top plane is in the lowest bits.
pub static FEW: [[u32; 1 << MOST]; MOST as usize + 1] = {
    let mut table = [[0; 1 << MOST]; MOST as usize + 1];
    let mut i = 0;
    while i < (MOST as usize + 1) << MOST {
        let (mut left, mut code) = ((i >> MOST) as u8, (i % (1 << MOST)) as u8);
        let (mut n, mut shift) = (0, 0);
        while left > 0 {
            let plane = plane_of(left, n, code);
            table[i >> MOST][i % (1 << MOST)] |= (plane.bits as u32) << shift;
            (left, code, n, shift) = (left - plane.count, code >> plane.count, plane.n, shift + 4);
        }
        i += 1;
    }
    table
};

/// A decoded plane. First index: number of bits that are left, `MOST` for more; second index:
/// number of significant coefficients; third index: the next bits of the stream.
pub static PLANES: [[[Short; 1 << MOST]; 5]; MOST as usize + 1] = {
    let mut table = [[[Short { bits: 0, count: 0, n: 0 }; 1 << MOST]; 5]; MOST as usize + 1];
    let mut i = 0;
    while i < (5 * (MOST as usize + 1)) << MOST {
        let (left, n, code) = ((i >> MOST) / 5, (i >> MOST) % 5, i % (1 << MOST));
        table[left][n][code] = plane_of(left as u8, n as u8, code as u8);
        i += 1;
    }
    table
};

/// Codes a plane bit by bit, `n` coefficients being significant.
const fn code_of(mut n: u8, x: u8) -> Short {
    let (mut bits, mut count) = (x & ((1 << n) - 1), n);
    while n < 4 {
        if x >> n == 0 {
            count += 1;
            break;
        }
        bits |= 1 << count;
        count += 1;
        while n < 3 {
            bits |= (x >> n & 1) << count;
            count += 1;
            if x >> n & 1 == 1 {
                break;
            }
            n += 1;
        }
        n += 1;
    }
    Short { bits, count, n }
}

/// Decodes a plane bit by bit. If the bits end in a run of zeros, the next coefficient gets the 1
/// that the run leads to.
const fn plane_of(left: u8, mut n: u8, code: u8) -> Short {
    let mut count = if n < left { n } else { left };
    let mut bits = code & ((1 << count) - 1);
    while n < 4 && count < left {
        count += 1;
        if code >> (count - 1) & 1 == 0 {
            break;
        }
        while n < 3 && count < left {
            count += 1;
            if code >> (count - 1) & 1 == 1 {
                break;
            }
            n += 1;
        }
        bits |= 1 << n;
        n += 1;
    }
    Short { bits, count, n }
}
