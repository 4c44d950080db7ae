//! Shared by the codecs that quantise values before they predict them: the kernel of
//! kernels/quantize.cuh that finds the quantum for a bound.

use super::{blocks, Kernel, Modules, Values};
use crate::codec::Shape;
use crate::device::cuda::{Argument, Source};
use crate::device::Queue;
use crate::error::Result;

/// Bytes of the quanta, at the beginning of the scratch memory.
pub const QUANTA: u64 = 128;

/// Values that a thread block codes.
pub const TILE: u64 = 2048;

const THREADS: u32 = 256;
/// Largest number of blocks of a pass over an array: about as many as a GPU runs at a time.
const BLOCKS: u64 = 1024;

/// The kernel that runs before a coder's own kernel: it writes the quanta and zeros behind them.
pub struct Prepare {
    values: u64,
    zeros: u64,
    prepare: Kernel,
}

impl Prepare {
    /// Makes the kernel, which writes `zeros` words of 8 bytes behind the quanta.
    pub fn new(shape: Shape, zeros: u64, source: &Source, modules: &mut Modules) -> Result<Self> {
        Ok(Prepare {
            values: shape.values() as u64,
            zeros,
            prepare: modules.kernel(source, c"quantize_prepare", THREADS)?,
        })
    }

    /// Returns the bytes of scratch memory.
    pub fn scratch(&self) -> u64 {
        QUANTA + 8 * self.zeros
    }

    /// Enqueues the kernel for the array `x` and the job at address `job`.
    pub fn enqueue(&self, queue: &Queue, x: Values, job: u64, scratch: u64) -> Result<()> {
        let zeros = scratch + QUANTA;
        let arguments: [&dyn Argument; 7] =
            [&x.x, &x.later, &self.values, &job, &scratch, &zeros, &self.zeros];
        self.prepare.launch(queue, blocks(self.values, THREADS, 16).min(BLOCKS), &arguments)
    }
}

/// Largest number of blocks of a launch.
const LAUNCH: u64 = 1 << 20;

/// Returns first tile and number of tiles of each launch with one block per tile; `tiles` < 2^32.
pub fn parts(tiles: u64) -> impl Iterator<Item = (u32, u64)> {
    (0..tiles).step_by(LAUNCH as usize).map(move |first| (first as u32, LAUNCH.min(tiles - first)))
}
