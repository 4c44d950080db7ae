//! Shared by the codecs that quantise values before they predict them: the kernel of
//! kernels/quantize.cuh that finds the quantum for a bound, and the launches of their own kernels.

use super::{blocks, Kernel, Kernels, Modules, Values};
use crate::codec::Shape;
use crate::device::cuda::Argument;
use crate::device::Queue;
use crate::error::{fail, Result};
use std::ffi::CStr;

/// Bytes of the quanta, at the beginning of the scratch memory.
pub const QUANTA: u64 = 128;

/// Values that a thread block codes.
pub const TILE: u64 = 2048;

const THREADS: u32 = 256;
/// Largest number of blocks of a pass over an array: about as many as a GPU runs at a time.
const BLOCKS: u64 = 1024;

/// The kernels of a codec for arrays of one shape. The first one runs before the coding of an array:
/// it writes the quanta, and zeros behind them.
pub struct Tiled {
    pub values: u64,
    pub tiles: u64,
    /// Words of 8 bytes that are zero behind the quanta.
    zeros: u64,
    prepare: Kernel,
    encode: Kernel,
    pub decode: Kernel,
}

impl Tiled {
    /// Loads the kernels; `names`: those that code and decode an array of `tiles` tiles.
    pub fn new(
        shape: Shape,
        tiles: u64,
        zeros: u64,
        kernels: &Kernels,
        names: [&CStr; 2],
        modules: &mut Modules,
    ) -> Result<Self> {
        let (n, Kernels(codec, _)) = (shape.n, kernels);
        if u32::try_from(tiles).is_err() {
            return fail!(
                Shape,
                "an array of {n:?} values has too many tiles for {codec} on a GPU"
            );
        }
        let source = kernels.of(shape.scalar);
        let prepare = modules.kernel(&source, c"quantize_prepare", THREADS)?;
        let [encode, decode] = names.map(|name| modules.kernel(&source, name, THREADS));
        let (values, encode, decode) = (shape.values() as u64, encode?, decode?);
        Ok(Tiled { values, tiles, zeros, prepare, encode, decode })
    }

    /// Returns the bytes of scratch memory.
    pub fn scratch(&self) -> u64 {
        QUANTA + 8 * self.zeros
    }

    /// Enqueues the kernels that code the array `x` for the job at address `job`. The coding kernel
    /// takes `array` behind the addresses of the array, and `more` at the end.
    pub fn encode(
        &self,
        queue: &Queue,
        x: Values,
        [job, scratch]: [u64; 2],
        array: &dyn Argument,
        more: &[&dyn Argument],
    ) -> Result<()> {
        let zeros = scratch + QUANTA;
        let arguments: [&dyn Argument; 7] =
            [&x.x, &x.later, &self.values, &job, &scratch, &zeros, &self.zeros];
        self.prepare.launch(queue, blocks(self.values, THREADS, 16).min(BLOCKS), &arguments)?;
        let arguments: [&dyn Argument; 6] = [&x.x, &x.later, array, &job, &scratch, &zeros];
        let arguments = [&arguments[..], more].concat();
        parts(self.tiles).try_for_each(|(_, blocks)| self.encode.launch(queue, blocks, &arguments))
    }
}

/// Largest number of blocks of a launch.
const LAUNCH: u64 = 1 << 20;

/// Returns first tile and number of tiles of each launch with one block per tile; `tiles` < 2^32.
pub fn parts(tiles: u64) -> impl Iterator<Item = (u32, u64)> {
    (0..tiles).step_by(LAUNCH as usize).map(move |first| (first as u32, LAUNCH.min(tiles - first)))
}
