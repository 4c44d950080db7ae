//! The codec `zfp` at a fixed rate: bit for bit the stream of libzfp 1.0 (its codec version 5) for
//! 1-D to 3-D arrays of FP32 and FP64.
//!
//! This is an independent implementation of P. Lindstrom, "Fixed-Rate Compressed Floating-Point
//! Arrays", IEEE TVCG 20 (2014), in the version that the zfp documentation describes today. Extents
//! of 1 do not count as dimensions; the number of dimensions d is 1 to 3. The stream has no header,
//! and the error has no bound.
//!
//! # Stream
//! Let W be the bits of a value and E the bits of its exponent (FP32: 32 and 8, FP64: 64 and 11).
//! The array is divided into blocks of 4^d values. Blocks, and the values in a block, are numbered
//! x fastest, then y, then z. Every block takes B = max(rate 4^d, 1 + E) bits, which depend on this
//! block only:
//!
//! | bits | what |
//! |---|---|
//! | B b | 1; or 0: all values of block b are 0, and so are the block's other bits |
//! | B b + 1 ... B b + E | e, lowest bit first |
//! | B b + E + 1 ... B (b + 1) - 1 | bit planes, cut off or followed by zeros |
//! | B blocks ... | zeros, to a multiple of 64 |
//!
//! Bit i of the stream is bit i % 8 of byte i / 8. libzfp may end the stream with the byte of the
//! last block's last bit; the decoder accepts both lengths.
//!
//! A block is coded in seven steps:
//!
//! 1. Padding: a row of 4 with n < 4 values inside the array is padded along x, then y, then z.
//!    Value i >= n becomes value n - 1, except that value 3 becomes value 0.
//! 2. Exponent: e is 1 + the biased exponent of the block's largest magnitude, and 1 if that
//!    magnitude is denormal. Every value is x = f 2^(e - bias) with |f| < 1, bias = 2^(E - 1) - 1.
//! 3. Fixed point: a value becomes the integer part of f 2^(W - 2). If e < W - 2, libzfp's scale
//!    factor overflows, and every value becomes -2^(W - 1); arrays of numbers below 2^-98 (FP64:
//!    2^-962) should therefore be scaled. All further arithmetic is on W-bit integers and wraps.
//! 4. Transform along x, then y, then z: `transform::lift` on every row of 4.
//! 5. Order: the arrays `ORDER_1`, `ORDER_2`, `ORDER_3` of the module `transform` give the place of
//!    each coefficient, x + 4y + 16z.
//! 6. Negabinary: (c + 1010...10) xor 1010...10, binary.
//! 7. Bit planes from W - 1 down to W - min(W, e - bias + 1074 + 2 (d + 1)), coded as the module
//!    `embed` describes.
//!
//! The decoder inverts steps 7 to 3. The missing bits of a plane that was cut off are zeros, with
//! one exception: if a group test said 1 and the 1 announced by the test is cut off, the next
//! coefficient gets this 1. A decoded value is the W-bit integer, rounded to nearest even to the
//! type of the array, times 2^(e - bias - W + 2) (a denormal number or 0 where the type requires
//! it); the product is rounded to nearest even, in CUDA `__fmul_rn(__int2float_rn(i), s)`.
//!
//! # Implementation
//! A vector has 64 bytes: 16 SIMD lanes of FP32 or 8 of FP64. In the transform a lane holds one
//! block. A batch is 16 rows of 4 vectors: 16 (FP64: 8) blocks of 3-D arrays, 4 times as many of
//! 2-D, 16 times as many of 1-D arrays. One transposition of 64 x 512 bits turns the coefficients
//! of a batch into bit planes. 2-D blocks of few bits are coded 32 at a time. At rates where a 1-D
//! block has bits for its exponent only, no bit planes are computed. A batch has 1024 (FP64: 512)
//! values, so that every batch begins at a whole 64-bit word of the stream.

mod block_bits;
mod blocks;
#[cfg(target_arch = "x86_64")]
mod bmi;
mod embed;
mod few;
pub(super) mod gpu;
mod planes;
mod transform;
mod value;

use super::quantize::check_size;
use super::simd::{self, Level};
use super::typed::{of_type, Codes};
use super::{Bound, Coder, Shape};
use crate::error::{fail, Result};
use crate::fallible_vec::filled;
use crate::scalar::Scalar;
use block_bits::{Spec, WORDS};
use blocks::{gather, scatter, Grid, Position};
use embed::Portable;
use planes::Matrix;
use transform::{Batch, Forward, Inverse};
use value::Value;

/// Makes a coder for arrays of this shape at `rate` bits per value, 1 to 32 (FP64: 1 to 64). Arrays
/// with values that are NaN or infinite cannot be coded.
pub fn coder(shape: Shape, rate: u32) -> Result<Box<dyn Coder>> {
    let blocks = Blocks::of(shape, rate)?;
    let most_bytes = |_| Ok(blocks.bytes());
    of_type(shape, most_bytes, |_| Zfp::<f32, 16>::new(blocks), |_| Zfp::<f64, 8>::new(blocks))
}

/// Returns the bytes of a stream for this shape and rate; fails if no such array can be coded.
pub fn most_bytes(shape: Shape, rate: u32) -> Result<usize> {
    Ok(Blocks::of(shape, rate)?.bytes())
}

/// How an array is divided into blocks: the parameters of a block, the number of its dimensions,
/// the blocks, and the bits of all blocks.
#[derive(Clone, Copy)]
struct Blocks {
    spec: Spec,
    grid: Grid,
    dims: u32,
    bits: usize,
}

impl Blocks {
    /// Returns the bytes of a stream: whole words of 64 bits.
    fn bytes(&self) -> usize {
        self.bits.div_ceil(64) * 8
    }

    fn of(shape: Shape, rate: u32) -> Result<Self> {
        let (most, exponent, width) = match shape.scalar {
            Scalar::F32 => (32, <f32 as Value<16>>::EXPONENT, 32),
            Scalar::F64 => (64, <f64 as Value<8>>::EXPONENT, 64),
            other => return other.not_coded(),
        };
        if !(1..=most).contains(&rate) {
            return fail!(Config, "zfp_bit_rate = {rate}: 1 to {most} bits per value of this type");
        }
        check_size(&shape)?;
        let extents = shape.dims();
        let grid = Grid::new(&extents);
        let dims = extents.len().max(1) as u32;
        let size = 1 << (2 * dims);
        // As in libzfp: a block has at least its exponent; bit planes go down to 2^-1074, and
        // 2 (dims + 1) planes further because the transform can enlarge values.
        let block_bits = (size * rate).max(1 + exponent);
        let planes = 1074 + 2 * (dims + 1) - ((1 << (exponent - 1)) - 1);
        let spec = Spec { size, bits: block_bits, width, exponent, planes };
        // An array has no more blocks than values.
        match grid.blocks().checked_mul(block_bits as usize) {
            Some(bits) if shape.values() > 0 => Ok(Blocks { spec, grid, dims, bits }),
            _ => fail!(Shape, "zfp: {:?} values are none, or have no size in bytes", shape.n),
        }
    }

    /// Returns for each batch its number of blocks, and where its blocks begin and end in a stream
    /// of `len` bytes.
    fn batches(self, len: usize) -> impl Iterator<Item = (usize, usize, usize)> {
        let (blocks, batch, bits) =
            (self.grid.blocks(), self.spec.batch(), self.spec.bits as usize);
        let bytes = move |blocks: usize| ((blocks * bits).div_ceil(64) * 8).min(len);
        (0..blocks).step_by(batch).map(move |first| {
            let count = batch.min(blocks - first);
            (count, bytes(first), bytes(first + count))
        })
    }

    /// Returns whether blocks are coded many at a time with vector instructions (module `few`).
    fn few(&self) -> bool {
        let spec = &self.spec;
        spec.size == 16 && spec.left() <= few::MOST && simd::level() != Level::Portable
    }

    fn encode(&self, planes: &Matrix, exponents: &[u32], words: &mut [u64; WORDS]) {
        let spec = &self.spec;
        if self.few() {
            return simd::dispatch(few::Encode { spec, planes, exponents, words });
        }
        #[cfg(target_arch = "x86_64")]
        if simd::level() == Level::Avx512 {
            // SAFETY: machines of this level have BMI1, BMI2, LZCNT and POPCNT.
            return unsafe { encode_bmi(spec, planes, exponents, words) };
        }
        embed::encode::<Portable>(spec, planes, exponents, words);
    }

    fn decode(&self, words: &[u64; WORDS], exponents: &mut [u32], planes: &mut Matrix) {
        let spec = &self.spec;
        if self.few() {
            return simd::dispatch(few::Decode { spec, words, exponents, planes });
        }
        #[cfg(target_arch = "x86_64")]
        if simd::level() == Level::Avx512 {
            // SAFETY: machines of this level have BMI1, BMI2, LZCNT and POPCNT.
            return unsafe { decode_bmi(spec, words, exponents, planes) };
        }
        embed::decode::<Portable>(spec, words, exponents, planes);
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "bmi1,bmi2,lzcnt,popcnt")]
fn encode_bmi(spec: &Spec, planes: &Matrix, exponents: &[u32], words: &mut [u64; WORDS]) {
    embed::encode::<bmi::Bmi>(spec, planes, exponents, words);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "bmi1,bmi2,lzcnt,popcnt")]
fn decode_bmi(spec: &Spec, words: &[u64; WORDS], exponents: &mut [u32], planes: &mut Matrix) {
    embed::decode::<bmi::Bmi>(spec, words, exponents, planes);
}

/// Codes arrays of one shape at a fixed rate.
struct Zfp<T: Value<N>, const N: usize> {
    blocks: Blocks,
    /// Working memory for one batch: a vector of one element.
    batch: Vec<Batch<T, N>>,
}

impl<T: Value<N>, const N: usize> Zfp<T, N> {
    fn new(blocks: Blocks) -> Result<Self> {
        Ok(Zfp { blocks, batch: filled(Batch::new(), 1)? })
    }
}

impl<T: Value<N>, const N: usize> Codes<T> for Zfp<T, N> {
    const NAME: &'static str = "zfp";

    fn encode(&mut self, x: &[T], _: Bound, to: &mut [u8]) -> Result<Option<usize>> {
        let (blocks, batch, mut at) = (self.blocks, &mut self.batch[0], Position::default());
        for (count, begin, end) in blocks.batches(blocks.bytes()) {
            gather(&blocks.grid, x, &mut at, count, batch);
            let (dims, coded) = (blocks.dims, blocks.spec.left() > 0);
            if !simd::dispatch(Forward { batch, dims, coded }) {
                return Ok(None);
            }
            let Batch { planes, exponents, words, .. } = &mut *batch;
            blocks.encode(planes, &exponents[..count], words);
            for (to, word) in to[begin..end].chunks_exact_mut(8).zip(&*words) {
                to.copy_from_slice(&word.to_le_bytes());
            }
        }
        Ok(Some(blocks.bytes()))
    }

    fn decode(&mut self, from: &[u8], x: &mut [T]) -> Option<()> {
        let (blocks, batch, mut at) = (self.blocks, &mut self.batch[0], Position::default());
        // The last bytes of the stream may be missing: they contain no bits of blocks.
        if !(blocks.bits.div_ceil(8)..=blocks.bytes()).contains(&from.len()) {
            return None;
        }
        if blocks.spec.left() == 0 {
            // The stream has only the exponents of the blocks; coefficients without bits are zeros.
            x.fill(T::default());
            return Some(());
        }
        for (count, begin, end) in blocks.batches(from.len()) {
            let whole_words = from[begin..end].chunks_exact(8);
            let (tail, whole) = (whole_words.remainder(), whole_words.len());
            let Batch { planes, exponents, words, .. } = &mut *batch;
            for (word, from) in words.iter_mut().zip(whole_words) {
                *word = u64::from_le_bytes(from.try_into().expect("8 bytes"));
            }
            words[whole] = tail.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
            blocks.decode(words, &mut exponents[..count], planes);
            simd::dispatch(Inverse { batch, dims: blocks.dims });
            scatter(&blocks.grid, batch, &mut at, count, x);
        }
        Some(())
    }
}
