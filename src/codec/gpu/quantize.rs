//! What the codecs that quantise before they predict share: the quantum that keeps a bound, by
//! kernels/quantize.cuh.

use super::{blocks, Modules, Values};
use crate::codec::Shape;
use crate::device::cuda::{Function, Queue, Source};
use crate::error::Result;

/// Part of their sources.
pub(super) const QUANTIZE: (&str, &str) =
    ("quantize.cuh", include_str!("../../../kernels/quantize.cuh"));
/// Bytes that the quanta have at the beginning of the scratch memory.
pub(super) const QUANTA: u64 = 128;

/// Values that a block of threads codes.
pub(super) const TILE: u64 = 2048;

const THREADS: u32 = 256;
/// Blocks that a pass over an array takes at most: what a GPU runs at a time.
const BLOCKS: u64 = 1024;

/// What goes before a coder's own kernel: the quanta, and zeros behind them.
pub(super) struct Prepare {
    values: u64,
    zeros: u64,
    prepare: Function,
}

impl Prepare {
    /// With this many words of zeros.
    pub fn new(shape: Shape, zeros: u64, source: &Source, modules: &mut Modules) -> Result<Self> {
        Ok(Prepare {
            values: shape.values() as u64,
            zeros,
            prepare: modules.kernel(source, c"quantize_prepare")?,
        })
    }

    /// Bytes of scratch memory.
    pub fn scratch(&self) -> u64 {
        QUANTA + 8 * self.zeros
    }

    pub fn enqueue(&self, queue: &Queue, x: Values, job: u64, scratch: u64) -> Result<()> {
        let zeros = scratch + QUANTA;
        let arguments: [&dyn crate::device::cuda::Argument; 7] =
            [&x.x, &x.later, &self.values, &job, &scratch, &zeros, &self.zeros];
        queue.launch(
            self.prepare,
            blocks(self.values, THREADS, 16).min(BLOCKS),
            THREADS,
            0,
            &arguments,
        )
    }
}

/// One launch takes so many blocks at most.
const LAUNCH: u64 = 1 << 20;

/// The launches of a kernel with a block per tile: the first tile, and how many. `tiles` is below
/// 2^32.
pub(super) fn parts(tiles: u64) -> impl Iterator<Item = (u32, u64)> {
    (0..tiles).step_by(LAUNCH as usize).map(move |first| (first as u32, LAUNCH.min(tiles - first)))
}
