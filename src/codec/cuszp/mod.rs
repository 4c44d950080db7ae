//! `cuszp`: the one-dimensional layout of cuSZp 2 in its outlier mode, in an implementation of
//! gpuzip's own.
//!
//! Values are quantised and taken in blocks of 32. Within a block, every integer is replaced by its
//! difference to the integer before it, and the block stores as many bit planes as its largest
//! difference needs: Huang, Di, Yu, Li, Cappello, "cuSZp: An Ultra-fast GPU Error-bounded Lossy
//! Compression Framework with Optimized End-to-End Performance", SC'23. The
//! outlier mode, which may store the first number of a block apart: Huang, Di, Li, Cappello,
//! "cuSZp2: A GPU Lossy Compressor with Extreme Throughput and Optimized Compression Ratio", SC'24.
//!
//! # Stream
//! All numbers are little-endian. The array is taken as one dimension, n1 fastest; its last block
//! may be partial.
//!
//! | offset | bytes | contents |
//! |---|---|---|
//! | 0 | 8 | the quantum s, FP64; the type of the array holds s exactly |
//! | 8 | number of blocks | one rate byte per block of 32 values |
//! | 8 + number of blocks | | the blocks, one after the other |
//!
//! | rate byte | bytes | block |
//! |---|---|---|
//! | 0 | 0 | all values are +0 |
//! | w = 1..31 | 4 + 4 w | signs, planes 0 .. w - 1 |
//! | r(k, w) | k + 4 + 4 w | first magnitude, signs, planes of the others |
//! | 0x7F | values x size | the values, raw: an extension of gpuzip |
//!
//! where r(k, w) = 0x80 + 0x20 (k - 1) + w, k = 1..4, w = 0..31.
//!
//! The numbers of a block are q0, q1 - q0, q2 - q1 and so on as 32-bit words modulo 2^32, and 0
//! behind the last value. Signs take four bytes and so does every plane: bit 7 - i of byte j
//! belongs to number 8 j + i; plane p holds bit p of the magnitudes. If the first number is stored
//! apart, its bits in the planes are 0. Quantisation is described in quantize.rs.
//!
//! # Differences from the CUDA implementation of the authors
//! - The quantum is in the stream and is 511/512 of twice the bound; in the CUDA implementation it
//!   is an argument, twice the bound.
//! - There are as many rate bytes as blocks; the CUDA implementation pads the blocks to multiples
//!   of 1024.
//! - NaN, infinities and blocks that would break the bound are stored raw; the CUDA implementation
//!   does not keep them.
//! - The decoder writes blocks of zeros; the CUDA implementation leaves their values as they were.
//! - Halves are rounded to even; in the CUDA implementation, away from zero or up.
//!
//! Apart from these differences the bytes should be equal, which has not been checked by running
//! the CUDA implementation.
//!
//! # Encoder
//! A block stores its first number apart if that makes the block smaller. A block is stored raw if
//! a value does not keep its bound or if 31 planes are not enough.

mod decode;
mod encode;
pub(super) mod gpu;
#[cfg(test)]
mod tests;

use super::coder::{Bound, Coder, Shape};
use super::quantize::{check_size, choose, Numbers, Quantised, Quantum, LINE, LINES, TILE};
use super::simd::{dispatch, level};
use super::typed::{of_type, Codes};
use crate::error::Result;
use crate::fallible_vec::filled;
use decode::Decode;
use encode::Encode;

/// Rate byte of a block that is stored raw.
const AS_IS: u8 = 0x7F;
/// Largest number of bytes of 64 blocks, and room behind them for reads and writes of whole words.
const ROOM: usize = TILE * 8 + 256;

/// Makes a coder for arrays of this shape, which it takes as one-dimensional.
pub fn coder(shape: Shape) -> Result<Box<dyn Coder>> {
    of_type(shape, most_bytes, Cuszp::<f32>::new, Cuszp::<f64>::new)
}

/// Returns the largest number of bytes of the stream of an array of this shape: a block of 31
/// planes takes no more bytes than 32 values. Fails if no such array can be coded.
pub fn most_bytes(shape: Shape) -> Result<usize> {
    check_size(&shape)?;
    Ok(8 + shape.values().div_ceil(LINE) * (1 + LINE * shape.scalar.bytes() as usize))
}

struct Cuszp<T> {
    /// Working memory: a vector of one element.
    work: Vec<Work<T>>,
}

/// Working memory for 64 blocks. The alignment and the order of the fields keep every vector within
/// one cache line.
#[derive(Clone)]
#[repr(C, align(64))]
struct Work<T> {
    values: [T; TILE],
    numbers: [Numbers; 2],
    /// One byte of every number; the eight bytes of a row are in reverse order.
    bytes: [u8; TILE],
    rows: [u8; TILE],
    /// Element k: planes 8 k to 8 k + 7 of every block.
    planes: [[u8; TILE]; 4],
    signs: [u32; LINES],
    /// Number of planes up to the last one that is not empty: for all numbers of a block, and for
    /// all numbers but the first.
    widths: [[u8; LINES]; 2],
    stream: [u8; ROOM],
}

impl<T: Quantised> Cuszp<T> {
    fn new(_: Shape) -> Result<Self> {
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
        Ok(Cuszp { work: filled(work, 1)? })
    }
}

impl<T: Quantised> Codes<T> for Cuszp<T> {
    const NAME: &'static str = "cuszp";

    fn encode(&mut self, x: &[T], bound: Bound, to: &mut [u8]) -> Result<Option<usize>> {
        let Some(choice) = choose(x, bound) else { return Ok(None) };
        let quantum = Quantum::levels(choice.unit, choice.bound)[0];
        let size = dispatch(Encode { work: &mut self.work[0], x, quantum, to });
        Ok(Some(size).filter(|&size| size <= size_of_val(x)))
    }

    fn decode(&mut self, from: &[u8], x: &mut [T]) -> Option<()> {
        dispatch(Decode { work: &mut self.work[0], from, x, level: level() })
    }
}
