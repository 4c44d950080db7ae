//! Blocks of 4 values: few enough for tables of all planes, and so short that 4 blocks are decoded in step, each plane of all at once.

use super::embed::{peek, Lane, Spec, WORDS};
use super::planes::Matrix;

/// Blocks in step.
const STEP: usize = 4;

/// `embed::decode`; the matrix must be 0.
#[inline(always)]
pub fn decode(spec: &Spec, words: &[u64; WORDS], exponents: &mut [u32], m: &mut Matrix) {
    for (step, exponents) in exponents.chunks_mut(STEP).enumerate() {
        let lanes: [Lane; STEP] = std::array::from_fn(|i| spec.lane(STEP * step + i));
        let (mut at, mut end, mut lowest, mut n) = ([0; STEP], [0; STEP], [0; STEP], [0u8; STEP]);
        for (i, exponent) in exponents.iter_mut().enumerate() {
            let begin = (STEP * step + i) as u32 * spec.bits;
            let head = peek(words, begin);
            *exponent = (head >> 1) as u32 % (1 << spec.exponent);
            lowest[i] = spec.lowest(*exponent);
            (at[i], end[i]) = (begin + 1 + spec.exponent, begin + spec.bits);
            if head & 1 == 0 {
                (*exponent, at[i]) = (0, end[i]);
            }
        }
        for plane in (0..spec.width).rev() {
            let mut open = 0;
            for i in 0..STEP {
                // A block that is done has no bits left, which the table knows.
                let left = if plane < lowest[i] { 0 } else { (end[i] - at[i]).min(MOST) };
                open |= left;
                let coded = PLANES[left as usize % 8][n[i] as usize % 5][peek(words, at[i]) as usize % (1 << MOST)];
                lanes[i].set(m, plane, coded.bits.into());
                at[i] += u32::from(coded.count);
                n[i] = coded.n;
            }
            if open == 0 {
                break;
            }
        }
    }
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

/// By the coefficients known to count and the bits: the code.
pub static CODES: [[Short; 16]; 5] = {
    let mut table = [[Short { bits: 0, count: 0, n: 0 }; 16]; 5];
    let mut i = 0;
    while i < 5 * 16 {
        table[i / 16][i % 16] = code_of((i / 16) as u8, (i % 16) as u8);
        i += 1;
    }
    table
};

/// By the bits that are left, `MOST` for more, the coefficients known to count, and the bits that are next: the plane.
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
