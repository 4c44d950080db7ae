//! Codes blocks of 16 values (2-D) for which the stream has few bits: 32 blocks at a time, one
//! block in each 32-bit SIMD lane.

use super::block_bits::{low, peek, Head, Spec, Writer, WORDS};
use super::planes::Matrix;
use crate::codec::simd::Kernel;

/// The largest number of bits of a block's planes that this module handles.
pub const MOST: u32 = 31;

/// Number of blocks that are coded at a time (a step).
const STEP: usize = 32;
/// Number of values of a block.
const SIZE: u32 = 16;

/// `embed::encode` for blocks of 16 values with at most `MOST` bits for their planes.
pub struct Encode<'a> {
    pub spec: &'a Spec,
    /// The bit planes of the blocks.
    pub planes: &'a Matrix,
    /// The biased exponents of the blocks.
    pub exponents: &'a [u32],
    /// Output: the bits of the batch.
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

/// The coded planes of the blocks of a step, so far.
struct Codes {
    /// The bits of each block, and bits beyond `end` that will be cut off.
    bits: [u32; STEP],
    /// Number of bits of each block so far, up to `MOST`.
    at: [u32; STEP],
    /// Number of bits that each block may have.
    end: [u32; STEP],
    /// Number of significant coefficients of each block.
    n: [u32; STEP],
}

impl Codes {
    /// Appends a plane of every block.
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
                // A run of zeros and the 1 behind them. If only one coefficient is left, this 1 is
                // not written.
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

/// `embed::decode` for blocks of 16 values with at most `MOST` bits for their planes.
pub struct Decode<'a> {
    pub spec: &'a Spec,
    /// The bits of the batch.
    pub words: &'a [u64; WORDS],
    /// Output: the biased exponents of the blocks.
    pub exponents: &'a mut [u32],
    /// Output: the bit planes of the blocks.
    pub planes: &'a mut Matrix,
}

impl Kernel for Decode<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Decode { spec, words, exponents, planes } = self;
        *planes = [[0; 8]; 64];
        for (step, exponents) in exponents.chunks_mut(STEP).enumerate() {
            // Blocks behind the last block of the batch are decoded, too; the results are not used.
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

/// Reads a plane of the blocks of a step from the matrix `m`, where `Spec::spot` says.
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

/// Adds a plane of the blocks of a step to the matrix `m`, where `Spec::spot` says.
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

/// The bits of the blocks of a step that are not decoded yet.
struct Blocks {
    /// The bits of each block that are left, followed by zeros.
    bits: [u32; STEP],
    /// How many bits of each block are left.
    left: [u32; STEP],
    /// Number of significant coefficients of each block.
    n: [u32; STEP],
}

impl Blocks {
    /// Skips the planes that are zero in all blocks and returns their number. The topmost planes
    /// are always zero.
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

    /// Reads a plane of every block.
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
                // A run of zeros and the 1 behind them. If the block ends in the run, or only one
                // coefficient is left, this 1 is not in the stream.
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

/// Returns the number of trailing zeros of `x`, or a large number if `x` is 0, from the exponent of
/// a floating-point number: AVX2 and older cannot count the zeros of several integers at once.
#[inline(always)]
fn trailing_zeros(x: u32) -> u32 {
    let lowest = (x & x.wrapping_neg()) as i32;
    ((lowest as f32).to_bits() >> 23).wrapping_sub(127)
}
