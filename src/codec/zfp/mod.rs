//! zfp at a fixed rate: the stream of libzfp 1.0 (codec 5), bit for bit, of 1-D to 3-D arrays of
//! FP32 and FP64.
//!
//! Own implementation of P. Lindstrom, "Fixed-Rate Compressed Floating-Point Arrays", IEEE TVCG 20
//! (2014), as the zfp documentation describes it today. Extents of 1 do not count, so that d is 1
//! to 3. There is no header and no bound on the error.
//!
//! # Stream
//! With W the bits of a value and E those of its exponent (32 and 8, 64 and 11), the array is cut
//! into blocks of 4^d values, x fastest, then y, then z; so are the values of a block. Of every
//! block the stream has B = max(rate 4^d, 1 + E) bits, a pure function of it:
//!
//! | bits | what |
//! |---|---|
//! | B b | 1; 0: all values of block b are 0, and so are all bits |
//! | B b + 1 ... B b + E | e, low bit first |
//! | B b + E + 1 ... B (b + 1) - 1 | bit planes, cut or followed by zeros |
//! | B blocks ... | zeros, to a multiple of 64 |
//!
//! Bit i is bit i % 8 of byte i / 8. libzfp may end the stream with its last bit's byte; both
//! lengths are decoded.
//!
//! 1. Padding: of a row of 4 that has n values in the array, value i >= n is value n - 1, but value
//!    3 is value 0; along x, then y, then z.
//! 2. e is 1 + the biased exponent of the block's largest magnitude, 1 if that is denormal. It is x
//!    = f 2^(e - bias), |f| < 1, for every value, bias = 2^(E - 1) - 1.
//! 3. Fixed point: the integer part of f 2^(W - 2), but -2^(W - 1) for every value where e < W - 2,
//!    since there libzfp's scale factor overflows: arrays of numbers below 2^-98 (2^-962) should be
//!    scaled. From here on arithmetic is that of W-bit integers and wraps.
//! 4. Transform along x, then y, then z: `lanes::lift` on every row of 4.
//! 5. Order: `lanes::ORDER_1`, `ORDER_2`, `ORDER_3`, place x + 4y + 16z of each coefficient.
//! 6. Negabinary: (c + 1010...10) xor 1010...10, binary.
//! 7. Bit planes from W - 1 down to W - min(W, e - bias + 1074 + 2 (d + 1)), coded as `embed` says.
//!
//! The decoder undoes 7 to 3. A plane that was cut has zeros behind, except that where a group test
//! said 1 and its 1 is cut off, that 1 is the next coefficient's. A value is the W-bit integer,
//! rounded to nearest even to the type of the array, times 2^(e - bias - W + 2), a denormal number
//! or 0 where that must be, the product rounded to nearest even: `__fmul_rn(__int2float_rn(i), s)`.
//!
//! # Here
//! 64 bytes are a vector, a lane of it is one block in the transform, and a batch is 16 rows of 4
//! such vectors: 16 (8) blocks of 3-D, four times as many of 2-D. A batch's coefficients become bit
//! planes by one transposition of 64 x 512 bits, those of 1-D strings of nibbles. 2-D blocks of few
//! bits are coded 32 in step, and of 1-D ones that are no more than their exponents no planes are
//! made. Every batch begins at a whole word of the stream, since it is 1024 (512) values.

#[cfg(target_arch = "x86_64")]
mod block_bits;
mod blocks;
mod bmi;
mod embed;
mod few;
mod lanes;
mod planes;
mod short;
mod value;

use super::simd::{self, Level};
use super::{Bound, Coder, Shape};
use crate::error::{fail, Result};
use crate::fallible_vec::filled;
use crate::scalar::Scalar;
use crate::scalar::{Array, ArrayMut};
use block_bits::{Spec, WORDS};
use blocks::{gather, scatter, Grid, SharedSchedule};
use embed::Portable;
use lanes::{Batch, Forward, Inverse};
use planes::Matrix;
use value::Value;

/// A coder of a fixed rate. Its error has no bound, and NaN and infinities no code.
pub struct Zfp {
    shape: Shape,
    values: usize,
    grid: Grid,
    dims: u32,
    spec: Spec,
    /// Bytes of a stream, and those that have bits in them.
    bytes: usize,
    used: usize,
    work: Work,
}

/// What one batch needs.
enum Work {
    F32(Vec<Room<f32, 16>>),
    F64(Vec<Room<f64, 8>>),
}

#[derive(Clone)]
struct Room<T: Value<N>, const N: usize> {
    batch: Batch<T, N>,
    words: [u64; WORDS],
}

impl<T: Value<N>, const N: usize> Room<T, N> {
    fn new() -> Result<Vec<Self>> {
        filled(Room { batch: Batch::new(), words: [0; WORDS] }, 1)
    }
}

impl Zfp {
    /// For arrays of this shape at `rate` bits per value, 1 to 32 (FP64: 64). Extents of 1 do not
    /// count as dimensions.
    pub fn new(shape: Shape, rate: u32) -> Result<Self> {
        let (most, exponent, width) = match shape.scalar {
            Scalar::F32 => (32, <f32 as Value<16>>::EXPONENT, 32),
            Scalar::F64 => (64, <f64 as Value<8>>::EXPONENT, 64),
            other => return other.not_coded(),
        };
        if !(1..=most).contains(&rate) {
            return fail!(Config, "zfp_bit_rate = {rate}: 1 to {most} bits per value of this type");
        }
        let dims = shape.dims();
        let grid = Grid::new(&dims);
        let d = dims.len().max(1) as u32;
        let size = 1 << (2 * d);
        // As libzfp: a block has at least its exponent, and bit planes down to 2^-1074 and 2 (d +
        // 1) more for the transform.
        let bits = (size * rate).max(1 + exponent);
        let spec = Spec {
            size,
            bits,
            width,
            exponent,
            planes: 1074 + 2 * (d + 1) - ((1 << (exponent - 1)) - 1),
        };
        let Some((values, bits)) = sizes(&shape, &grid, bits) else {
            return fail!(Shape, "zfp: {:?} values are none, or have no size in bytes", shape.n);
        };
        let work = match shape.scalar {
            Scalar::F32 => Work::F32(Room::new()?),
            _ => Work::F64(Room::new()?),
        };
        Ok(Zfp {
            shape,
            values,
            grid,
            dims: d,
            spec,
            bytes: bits.div_ceil(64) * 8,
            used: bits.div_ceil(8),
            work,
        })
    }
}

/// Values of an array and bits of its stream, unless it is empty or beyond the address space.
fn sizes(shape: &Shape, grid: &Grid, block_bits: u32) -> Option<(usize, usize)> {
    let values = shape
        .n
        .iter()
        .try_fold(1usize, |product, &n| product.checked_mul(n))
        .filter(|&values| values > 0)?;
    values.checked_mul(shape.scalar.bytes() as usize)?;
    // No more blocks than values.
    Some((values, grid.blocks().checked_mul(block_bits as usize)?))
}

/// What the coding of one array needs beside its room.
#[derive(Clone, Copy)]
struct Job {
    grid: Grid,
    dims: u32,
    spec: Spec,
    bmi: bool,
    /// Blocks are coded many in step, which the machine has vectors for.
    few: bool,
}

impl Job {
    /// The batches: how many blocks each has.
    fn batches(&self) -> impl Iterator<Item = usize> {
        let (blocks, batch) = (self.grid.blocks(), self.spec.batch());
        (0..blocks).step_by(batch).map(move |first| batch.min(blocks - first))
    }

    /// False: a value is not finite.
    fn compress<T: Value<N>, const N: usize>(
        &self,
        x: &[T],
        room: &mut Room<T, N>,
        to: &mut [u8],
    ) -> bool {
        let (mut at, mut begin) = (SharedSchedule::default(), 0);
        for count in self.batches() {
            gather(&self.grid, x, &mut at, count, &mut room.batch);
            if !simd::dispatch(Forward {
                batch: &mut room.batch,
                dims: self.dims,
                coded: self.spec.left() > 0,
            }) {
                return false;
            }
            let Batch { planes, exponents, .. } = &room.batch;
            self.encode(planes, &exponents[..count], &mut room.words);
            let end = begin + (count * self.spec.bits as usize).div_ceil(64) * 8;
            for (to, word) in to[begin..end].chunks_exact_mut(8).zip(&room.words) {
                to.copy_from_slice(&word.to_le_bytes());
            }
            begin = end;
        }
        true
    }

    fn decompress<T: Value<N>, const N: usize>(
        &self,
        from: &[u8],
        room: &mut Room<T, N>,
        x: &mut [T],
    ) {
        if self.spec.left() == 0 {
            // Blocks are their exponents, and coefficients without bits are zeros.
            return x.fill(T::default());
        }
        let (mut at, mut begin) = (SharedSchedule::default(), 0);
        for count in self.batches() {
            let end = (begin + (count * self.spec.bits as usize).div_ceil(64) * 8).min(from.len());
            let words = from[begin..end].chunks_exact(8);
            let (tail, whole) = (words.remainder(), words.len());
            for (word, from) in room.words.iter_mut().zip(words) {
                *word = u64::from_le_bytes(from.try_into().expect("8 bytes"));
            }
            room.words[whole] =
                tail.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
            let Batch { planes, exponents, .. } = &mut room.batch;
            self.decode(&room.words, &mut exponents[..count], planes);
            simd::dispatch(Inverse { batch: &mut room.batch, dims: self.dims });
            scatter(&self.grid, &room.batch, &mut at, count, x);
            begin = end;
        }
    }

    fn encode(&self, planes: &Matrix, exponents: &[u32], words: &mut [u64; WORDS]) {
        if self.few {
            return simd::dispatch(few::Encode { spec: &self.spec, planes, exponents, words });
        }
        #[cfg(target_arch = "x86_64")]
        if self.bmi {
            // SAFETY: the machine has it.
            return unsafe { encode_bmi(&self.spec, planes, exponents, words) };
        }
        embed::encode::<Portable>(&self.spec, planes, exponents, words);
    }

    fn decode(&self, words: &[u64; WORDS], exponents: &mut [u32], planes: &mut Matrix) {
        if self.few {
            return simd::dispatch(few::Decode { spec: &self.spec, words, exponents, planes });
        }
        #[cfg(target_arch = "x86_64")]
        if self.bmi {
            // SAFETY: the machine has it.
            return unsafe { decode_bmi(&self.spec, words, exponents, planes) };
        }
        embed::decode::<Portable>(&self.spec, words, exponents, planes);
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

impl Zfp {
    fn job(&self) -> Job {
        let (level, spec) = (simd::level(), self.spec);
        let few = spec.size == 16 && spec.left() <= few::MOST && level != Level::Portable;
        Job { grid: self.grid, dims: self.dims, spec, bmi: level == Level::Avx512, few }
    }

    /// Dimensions of the blocks.
    pub(super) fn dims(&self) -> u32 {
        self.dims
    }

    /// Blocks of an array.
    pub(super) fn blocks(&self) -> usize {
        self.grid.blocks()
    }

    /// Bits of a block in the stream.
    pub(super) fn block_bits(&self) -> u32 {
        self.spec.bits
    }

    /// Codes `x` into `to`, which has `max_bytes` bytes, all of which it fills, be they fewer than
    /// the array has or not. False: a value is NaN or infinite, which zfp has no code for.
    pub fn encode(&mut self, x: Array<'_>, to: &mut [u8]) -> Result<bool> {
        let job = self.job();
        let len = match x {
            Array::F32(x) => x.len(),
            Array::F64(x) => x.len(),
        };
        if len != self.values || to.len() < self.bytes {
            return fail!(
                Shape,
                "zfp: {len} values into {} bytes do not fit {:?}",
                to.len(),
                self.shape.n
            );
        }
        match (&mut self.work, x) {
            (Work::F32(room), Array::F32(x)) => Ok(job.compress(x, &mut room[0], to)),
            (Work::F64(room), Array::F64(x)) => Ok(job.compress(x, &mut room[0], to)),
            _ => fail!(Shape, "zfp: made for another type than {:?}", self.shape.scalar),
        }
    }
}

impl Coder for Zfp {
    /// What every array takes.
    fn max_bytes(&self) -> usize {
        self.bytes
    }

    fn compress(&mut self, x: Array<'_>, _: Bound, to: &mut [u8]) -> Result<Option<usize>> {
        if self.bytes > self.shape.bytes() {
            return Ok(None);
        }
        Ok(self.encode(x, to)?.then_some(self.bytes))
    }

    fn decompress(&mut self, from: &[u8], x: ArrayMut<'_>) -> Result<()> {
        let job = self.job();
        let len = match &x {
            ArrayMut::F32(x) => x.len(),
            ArrayMut::F64(x) => x.len(),
        };
        if len != self.values || !(self.used..=self.bytes).contains(&from.len()) {
            return fail!(
                Shape,
                "zfp: {} bytes do not hold {len} values of {:?}",
                from.len(),
                self.shape.n
            );
        }
        match (&mut self.work, x) {
            (Work::F32(room), ArrayMut::F32(x)) => job.decompress(from, &mut room[0], x),
            (Work::F64(room), ArrayMut::F64(x)) => job.decompress(from, &mut room[0], x),
            _ => return fail!(Shape, "zfp: made for another type than {:?}", self.shape.scalar),
        }
        Ok(())
    }
}
