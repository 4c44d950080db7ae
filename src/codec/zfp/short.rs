//! Blocks of 4 values: few enough for tables of all planes, and so short that 4 blocks are decoded
//! in step, each plane of all at once. The planes of a block are nibbles, 16 to a word, which are
//! the stream itself once all 4 coefficients count.

use super::block_bits::{low, peek, Head, Spec, Writer, WORDS};
use super::planes::Matrix;

/// Blocks in step.
const STEP: usize = 4;

/// Planes that 64 bits of the stream suffice for.
const CHUNK: u32 = 8;

/// The words of a block's `W` planes: where the lowest one is in a matrix; the next ones are below
/// it.
#[inline(always)]
fn place<const W: usize>(block: usize) -> (usize, usize) {
    let lanes = 512 / W;
    let (group, lane) = (block / lanes, block % lanes);
    (4 * group + lane * (W / 16) % 4, lane * W / 64)
}

/// Those nibbles of word `word` that are planes from `lowest` on.
#[inline(always)]
fn above(nibbles: u64, lowest: u32, word: u32) -> u64 {
    nibbles & low(4 * (16 * word + 16).saturating_sub(lowest))
}

/// Writes a block with this exponent, not 0.
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
        // What is below the lowest plane becomes zeros, as the rest of the block is.
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

/// `embed::decode`; the matrix must be 0.
#[inline(always)]
pub fn decode<const W: usize>(
    spec: &Spec,
    words: &[u64; WORDS],
    exponents: &mut [u32],
    m: &mut Matrix,
) {
    for (step, exponents) in exponents.chunks_mut(STEP).enumerate() {
        // Blocks behind the last one are decoded, too, and not used.
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

/// `decode` where a block has at most `MOST` bits behind its exponent.
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

/// Takes `CHUNK` planes of blocks all coefficients of which count. False: all blocks are done.
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

/// Reads `CHUNK` planes. False: all blocks are done.
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
            // A block that is done has no bits left, which the table knows.
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

/// Most bits of a plane of 4 coefficients.
pub const MOST: u32 = 7;

/// A plane of 4 coefficients.
#[derive(Clone, Copy)]
#[repr(align(4))]
pub struct Short {
    /// Its bits or its code.
    pub bits: u8,
    /// Bits of its code.
    pub count: u8,
    /// Coefficients known to count behind it.
    pub n: u8,
}

/// Two planes of 4 coefficients.
#[derive(Clone, Copy)]
#[repr(align(4))]
pub struct Pair {
    /// Their code.
    pub bits: u16,
    /// Bits of it.
    pub count: u8,
    /// Coefficients known to count behind them.
    pub n: u8,
}

/// By the coefficients known to count and the bits of two planes, the upper one lowest: the code.
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

/// By the bits of a block and the bits that are next: its planes, the top one lowest.
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

/// By the bits that are left, `MOST` for more, the coefficients known to count, and the bits that
/// are next: the plane.
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

/// Group tests, bit by bit.
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

/// The reverse. Where the bits end in a run, the 1 that it leads to is taken to be next.
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
