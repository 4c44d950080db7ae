//! Blocks of 16 values of which the stream has few bits: 32 blocks in step, a lane of 32 bits each.

// Lanes are counted.
#![allow(clippy::needless_range_loop)]

use super::block_bits::{low, peek, Head, Spec, Writer, WORDS};
use super::planes::Matrix;
use crate::codec::simd::Kernel;

/// Most bits of the planes of a block.
pub const MOST: u32 = 31;

/// Blocks in step.
const STEP: usize = 32;
/// Values of a block.
const SIZE: u32 = 16;

/// `embed::encode` of such blocks.
pub struct Encode<'a> {
    /// How they are coded.
    pub spec: &'a Spec,
    /// Their planes.
    pub planes: &'a Matrix,
    /// Their biased exponents.
    pub exponents: &'a [u32],
    /// Where the bits of the batch go.
    pub words: &'a mut [u64; WORDS],
}

impl Kernel for Encode<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Encode { spec, planes, exponents, words } = self;
        let mut out = Writer::new(words);
        for (step, exponents) in exponents.chunks(STEP).enumerate() {
            let mut codes = Codes { bits: [0; STEP], at: [0; STEP], end: [0; STEP], n: [0; STEP] };
            let mut lowest = [0; STEP];
            for (l, &exponent) in exponents.iter().enumerate() {
                codes.end[l] = if exponent == 0 { 0 } else { spec.left() };
                lowest[l] = spec.lowest(exponent);
            }
            for plane in (0..spec.width).rev() {
                for l in 0..STEP {
                    codes.end[l] = if plane < lowest[l] {
                        codes.end[l].min(codes.at[l])
                    } else {
                        codes.end[l]
                    };
                }
                if (0..STEP).all(|l| codes.at[l] >= codes.end[l]) {
                    break;
                }
                codes.plane(get_plane(spec, planes, step, plane as usize));
            }
            for (l, &exponent) in exponents.iter().enumerate() {
                let head = u64::from(exponent != 0) | u64::from(exponent) << 1;
                out.put(
                    head | (u64::from(codes.bits[l]) & low(codes.end[l])) << (1 + spec.exponent),
                    spec.bits,
                );
            }
        }
    }
}

/// The planes of the blocks of a step so far.
struct Codes {
    /// Their bits, and what is cut behind them.
    bits: [u32; STEP],
    /// How many these are, up to `MOST`.
    at: [u32; STEP],
    /// How many there may be.
    end: [u32; STEP],
    /// Coefficients known to count.
    n: [u32; STEP],
}

impl Codes {
    /// Appends a plane of all blocks.
    #[inline(always)]
    fn plane(&mut self, x: [u32; STEP]) {
        let Codes { bits, at, end, n } = self;
        let (mut rest, mut open) = ([0; STEP], [0; STEP]);
        for l in 0..STEP {
            bits[l] |= (x[l] & ((1 << n[l]) - 1)) << at[l];
            at[l] = (at[l] + n[l]).min(MOST);
            rest[l] = x[l] >> n[l];
            open[l] = u32::from(at[l] < end[l]) & u32::from(n[l] < SIZE);
        }
        while open != [0; STEP] {
            for l in 0..STEP {
                let test = u32::from(rest[l] != 0) & open[l];
                // A run of zeros and its 1, which is not there where one coefficient is left.
                let most = (SIZE - 1).wrapping_sub(n[l]);
                let zeros = trailing_zeros(rest[l]).min(most);
                let one = u32::from(zeros < most);
                let (taken, known) = if test != 0 { (zeros + one, zeros + 1) } else { (0, 0) };
                bits[l] |= (test | (test & one) << taken) << at[l];
                at[l] = (at[l] + open[l] + taken).min(MOST);
                rest[l] >>= known;
                n[l] += known;
                open[l] = test & u32::from(at[l] < end[l]) & u32::from(n[l] < SIZE);
            }
        }
    }
}

/// `embed::decode` of such blocks.
pub struct Decode<'a> {
    /// How they are coded.
    pub spec: &'a Spec,
    /// The bits of a batch.
    pub words: &'a [u64; WORDS],
    /// Where their biased exponents go.
    pub exponents: &'a mut [u32],
    /// Where their planes go.
    pub planes: &'a mut Matrix,
}

impl Kernel for Decode<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Decode { spec, words, exponents, planes } = self;
        *planes = [[0; 8]; 64];
        for (step, exponents) in exponents.chunks_mut(STEP).enumerate() {
            // Blocks behind the last one are decoded, too, and not used.
            let (mut blocks, mut lowest) =
                (Blocks { bits: [0; STEP], left: [0; STEP], n: [0; STEP] }, [0; STEP]);
            for l in 0..STEP {
                let head = Head::read(spec, words, STEP * step + l);
                blocks.bits[l] = (peek(words, head.at) & low(head.left)) as u32;
                blocks.left[l] = head.left;
                lowest[l] = spec.lowest(head.exponent);
                if let Some(exponent) = exponents.get_mut(l) {
                    *exponent = head.exponent;
                }
            }
            let zeros = blocks.skip_zeros();
            for plane in (0..spec.width.saturating_sub(zeros)).rev() {
                for l in 0..STEP {
                    blocks.left[l] = if plane < lowest[l] { 0 } else { blocks.left[l] };
                }
                if blocks.left == [0; STEP] {
                    break;
                }
                set_plane(spec, planes, step, plane as usize, &blocks.plane());
            }
        }
    }
}

/// A plane of the blocks of a step, from where `Spec::lane` says.
#[inline(always)]
fn get_plane(spec: &Spec, m: &Matrix, step: usize, plane: usize) -> [u32; STEP] {
    let mut x = [0; STEP];
    if spec.width == 32 {
        for k in 0..8 {
            let (even, odd) =
                (m[plane % 32][k] >> (32 * step % 64), m[plane % 32 + 32][k] >> (32 * step % 64));
            x[2 * k] = even as u32 & 0xffff;
            x[2 * k + 1] = odd as u32 & 0xffff;
            x[2 * k + 16] = even as u32 >> 16;
            x[2 * k + 17] = odd as u32 >> 16;
        }
    } else {
        for k in 0..8 {
            let word = m[plane % 64][k];
            x[k] = word as u32 & 0xffff;
            x[8 + k] = word as u32 >> 16;
            x[16 + k] = (word >> 32) as u32 & 0xffff;
            x[24 + k] = (word >> 48) as u32;
        }
    }
    x
}

/// Puts a plane of the blocks of a step where `Spec::lane` says.
#[inline(always)]
fn set_plane(spec: &Spec, m: &mut Matrix, step: usize, plane: usize, x: &[u32; STEP]) {
    if spec.width == 32 {
        for k in 0..8 {
            m[plane % 32][k] |= u64::from(x[2 * k] | x[16 + 2 * k] << 16) << (32 * step % 64);
            m[plane % 32 + 32][k] |=
                u64::from(x[2 * k + 1] | x[17 + 2 * k] << 16) << (32 * step % 64);
        }
    } else {
        for k in 0..8 {
            m[plane % 64][k] |=
                u64::from(x[k] | x[8 + k] << 16) | u64::from(x[16 + k] | x[24 + k] << 16) << 32;
        }
    }
}

/// What is left of the blocks of a step.
struct Blocks {
    /// Their bits, and zeros behind them.
    bits: [u32; STEP],
    /// How many these are.
    left: [u32; STEP],
    /// Coefficients known to count.
    n: [u32; STEP],
}

impl Blocks {
    /// Goes behind the planes that are zero in all blocks, and returns how many there are: at the
    /// top some always are.
    #[inline(always)]
    fn skip_zeros(&mut self) -> u32 {
        let any = self.bits.iter().fold(0, |any, bits| any | bits);
        let zeros = any.trailing_zeros();
        for l in 0..STEP {
            self.bits[l] = self.bits[l].checked_shr(zeros).unwrap_or(0);
            self.left[l] = self.left[l].saturating_sub(zeros);
        }
        zeros
    }

    /// Reads a plane of all blocks.
    #[inline(always)]
    fn plane(&mut self) -> [u32; STEP] {
        let Blocks { bits, left, n } = self;
        let (mut x, mut open) = ([0; STEP], [0; STEP]);
        for l in 0..STEP {
            let known = n[l].min(left[l]);
            x[l] = bits[l] & ((1 << known) - 1);
            bits[l] >>= known;
            left[l] -= known;
            open[l] = u32::from(left[l] > 0) & u32::from(n[l] < SIZE);
        }
        while open != [0; STEP] {
            for l in 0..STEP {
                let test = bits[l] & open[l];
                bits[l] >>= open[l];
                left[l] -= open[l];
                // A run of zeros and its 1. Where the block ends, or one coefficient is left, the 1
                // is not there.
                let most = (SIZE - 1).wrapping_sub(n[l]).min(left[l]);
                let zeros = trailing_zeros(bits[l]).min(most);
                let taken = zeros + u32::from(zeros < most);
                let (taken, known) = if test != 0 { (taken, zeros + 1) } else { (0, 0) };
                bits[l] >>= taken;
                left[l] -= taken;
                n[l] += known;
                x[l] |= (test << n[l]) >> 1;
                open[l] = test & u32::from(left[l] > 0) & u32::from(n[l] < SIZE);
            }
        }
        x
    }
}

/// Those of `x`, or a large number if there is no one. The exponent of a number tells, as it does
/// on machines that count no zeros of several numbers at once.
#[inline(always)]
fn trailing_zeros(x: u32) -> u32 {
    let lowest = (x & x.wrapping_neg()) as i32;
    ((lowest as f32).to_bits() >> 23).wrapping_sub(127)
}
