//! `cuszp`: the one-dimensional layout of cuSZp 2, own implementation.
//!
//! Blocks of 32 values, quantised, the difference to the value before within the block, and as many
//! bit planes as the largest of them needs: Huang, Di, Yu, Li, Cappello, "cuSZp: An Ultra-fast GPU
//! Error-bounded Lossy Compression Framework with Optimized End-to-End Performance", SC'23; the
//! mode that keeps the first number of a block apart: Huang, Di, Li, Cappello, "cuSZp2: A GPU Lossy
//! Compressor with Extreme Throughput and Optimized Compression Ratio", SC'24.
//!
//! # Stream
//! Little-endian. The array is taken as one dimension, n1 fastest; its last block may be partial.
//!
//! | offset | size | what |
//! |---|---|---|
//! | 0 | 8 | the quantum s, FP64; the type of the array holds it exactly |
//! | 8 | blocks | a rate byte per block of 32 values |
//! | 8 + blocks | | the blocks one after the other |
//!
//! | rate byte | bytes | a block |
//! |---|---|---|
//! | 0 | 0 | all values are +0 |
//! | w = 1..31 | 4 + 4 w | signs, planes 0 .. w - 1 |
//! | 0x80 + 0x20 (k - 1) + w (`Outlier` only), k = 1..4, w = 0..31 | k + 4 + 4 w | magnitude of the first number, signs, planes of the others |
//! | 0x7F | values x size | the values it has, as they are: our extension |
//!
//! The numbers of a block are q0, q1 - q0, q2 - q1 and so on as 32-bit words modulo 2^32, 0 behind
//! the last value. Signs and planes are four bytes each: bit 7 - i of byte j is for number 8 j + i;
//! plane p holds bit p of the magnitudes. Where the first number is apart, its bits are 0 in the
//! planes. Quantisation is described in quantize.rs.
//!
//! # What differs from the CUDA implementation
//! The quantum is in the stream (there, it is an argument, twice the bound; here 511/512 of that).
//! There are as many rate bytes as blocks (there, blocks are padded to multiples of 1024). NaN,
//! infinities, and blocks that would break the bound are stored as they are (there, they are not
//! kept). Blocks of zeros are written when decoded (there, they are left as they were). Halves are
//! rounded to even (there, away from zero or up). Apart from that bytes should be the same, which
//! has not been checked by running it.
//!
//! # Encoder
//! With `Outlier`, a block keeps its first number apart if that makes it smaller. A block is stored
//! as it is when a value does not keep its bound or 31 planes do not do.

mod decode;
mod encode;
#[cfg(test)]
mod tests;

use super::coder::{Bound, Coder, Shape};
use super::quantize::{check_size, choose, values, Numbers, Quantised, Quantum, LINE, LINES, TILE};
use super::simd::{dispatch, level};
use crate::error::{fail, Result};
use crate::fallible_vec::filled;
use crate::scalar::Scalar;
use crate::scalar::{Array, ArrayMut};
use decode::Decode;
use encode::Encode;

/// Rate byte of a block that is stored as it is.
const AS_IS: u8 = 0x7F;
/// Bytes of 64 blocks, at most, and room behind them for whole words.
const ROOM: usize = TILE * 8 + 256;

/// What a block may look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// All numbers in planes.
    Plain,
    /// The first number of a block apart where that is smaller.
    Outlier,
}

/// Codes arrays of one length.
pub struct Cuszp {
    len: usize,
    scalar: Scalar,
    mode: Mode,
    work: Works,
}

/// One of what the kernels work in.
enum Works {
    F32(Vec<Work<f32>>),
    F64(Vec<Work<f64>>),
}

/// What the kernels work in: 64 blocks. Aligned, in this order, so that no vector lies across two
/// cache lines.
#[derive(Clone)]
#[repr(C, align(64))]
struct Work<T> {
    values: [T; TILE],
    numbers: [Numbers; 2],
    /// One byte of every number, the eight of a row backwards.
    bytes: [u8; TILE],
    rows: [u8; TILE],
    /// Planes 8 k to 8 k + 7 of every block.
    planes: [[u8; TILE]; 4],
    signs: [u32; LINES],
    /// Planes up to the last one that is not empty: of all numbers of a block, of all but the
    /// first.
    widths: [[u8; LINES]; 2],
    stream: [u8; ROOM],
}

impl<T: Quantised> Work<T> {
    /// One.
    fn new() -> Result<Vec<Self>> {
        let work = Work {
            values: [T::default(); TILE],
            numbers: [[0; TILE]; 2],
            bytes: [0; TILE],
            rows: [0; TILE],
            planes: [[0; TILE]; 4],
            signs: [0; LINES],
            widths: [[0; LINES]; 2],
            stream: [0; ROOM],
        };
        filled(work, 1)
    }
}

impl Cuszp {
    /// A coder for arrays of this shape, which is one-dimensional to it.
    pub fn new(shape: &Shape, mode: Mode) -> Result<Self> {
        check_size(shape)?;
        let work = match shape.scalar {
            Scalar::F32 => Works::F32(Work::new()?),
            Scalar::F64 => Works::F64(Work::new()?),
            other => return other.not_coded(),
        };
        Ok(Cuszp { len: shape.values(), scalar: shape.scalar, mode, work })
    }
}

impl Coder for Cuszp {
    fn max_bytes(&self) -> usize {
        // A block of 31 planes takes no more than 32 values.
        8 + self.len.div_ceil(LINE) * (1 + LINE * self.scalar.bytes() as usize)
    }

    fn compress(&mut self, x: Array<'_>, bound: Bound, to: &mut [u8]) -> Result<Option<usize>> {
        if to.len() < self.max_bytes() {
            return fail!(
                Argument,
                "room for {} bytes where cuszp may need {}",
                to.len(),
                self.max_bytes()
            );
        }
        match &mut self.work {
            Works::F32(work) => encode(&mut work[0], self.len, self.mode, x, bound, to),
            Works::F64(work) => encode(&mut work[0], self.len, self.mode, x, bound, to),
        }
    }

    fn decompress(&mut self, from: &[u8], x: ArrayMut<'_>) -> Result<()> {
        match (&mut self.work, x) {
            (Works::F32(work), ArrayMut::F32(x)) => {
                decode(&mut work[0], self.len, self.mode, from, x)
            }
            (Works::F64(work), ArrayMut::F64(x)) => {
                decode(&mut work[0], self.len, self.mode, from, x)
            }
            _ => fail!(Shape, "the array is not one of type {:?}", self.scalar),
        }
    }
}

fn encode<T: Quantised>(
    work: &mut Work<T>,
    len: usize,
    mode: Mode,
    x: Array<'_>,
    bound: Bound,
    to: &mut [u8],
) -> Result<Option<usize>> {
    let Some(x) = values::<T>(x, len) else {
        return fail!(Shape, "the array is not one of {len} values of type {:?}", T::SCALAR);
    };
    let Some(choice) = choose(x, bound) else { return Ok(None) };
    let quantum = Quantum::levels(choice.unit, choice.bound)[0];
    let size = dispatch(Encode { work, x, quantum, mode, to });
    Ok(Some(size).filter(|&size| size <= size_of_val(x)))
}

fn decode<T: Quantised>(
    work: &mut Work<T>,
    len: usize,
    mode: Mode,
    from: &[u8],
    x: &mut [T],
) -> Result<()> {
    if x.len() != len {
        return fail!(Shape, "an array of {} values, not {len}", x.len());
    }
    match dispatch(Decode { work, from, x, mode, level: level() }) {
        Some(()) => Ok(()),
        None => fail!(
            Stream,
            "not a stream of cuszp for {len} values of type {:?}: it is damaged",
            T::SCALAR
        ),
    }
}
