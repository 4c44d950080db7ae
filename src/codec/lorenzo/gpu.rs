//! `lorenzo` on a GPU, by the kernels of kernels/lorenzo.cu.

use super::Grid;
use crate::codec::gpu::quantize::{parts, Prepare, QUANTA};
use crate::codec::gpu::{kernels, GpuCoder, Kernel, Kernels, Modules, Values};
use crate::codec::Shape;
use crate::device::cuda::Argument;
use crate::device::Queue;
use crate::error::{fail, Result};

const THREADS: u32 = 256;

pub const KERNELS: Kernels = kernels!("lorenzo", "quantize.cuh" "lorenzo.cu");

pub struct Lorenzo {
    tiles: u64,
    /// `Grid` of kernels/lorenzo.cu: extents, tiles per dimension, tiles, number of dimensions.
    grid: [u64; 8],
    prepare: Prepare,
    encode: Kernel,
    decode: Kernel,
}

impl Lorenzo {
    pub fn new(shape: Shape, modules: &mut Modules) -> Result<Self> {
        let source = KERNELS.of(shape.scalar);
        let Grid { n, tiles, .. } = Grid::new(&shape);
        let count = tiles.iter().fold(1u64, |count, &tiles| count.saturating_mul(tiles as u64));
        if u32::try_from(count).is_err() {
            return fail!(
                Shape,
                "an array of {n:?} values has too many tiles for lorenzo on a GPU"
            );
        }
        let [n1, n2, n3] = n.map(|n| n as u64);
        let [t1, t2, t3] = tiles.map(|tiles| tiles as u64);
        Ok(Lorenzo {
            tiles: count,
            grid: [n1, n2, n3, t1, t2, t3, count, shape.dims().len().max(1) as u64],
            // Per tile, one word for the decoupled look-back (Merrill and Garland 2016) and half a
            // word for the size of the tile.
            prepare: Prepare::new(shape, count + count.div_ceil(2), &source, modules)?,
            encode: modules.kernel(&source, c"lorenzo_encode", THREADS)?,
            decode: modules.kernel(&source, c"lorenzo_decode", THREADS)?,
        })
    }
}

impl GpuCoder for Lorenzo {
    fn scratch(&self) -> u64 {
        self.prepare.scratch()
    }

    fn compress(&self, queue: &Queue, x: Values, job: u64, scratch: u64) -> Result<()> {
        self.prepare.enqueue(queue, x, job, scratch)?;
        let status = scratch + QUANTA;
        let sizes = status + 8 * self.tiles;
        for (_, blocks) in parts(self.tiles) {
            let arguments: [&dyn Argument; 7] =
                [&x.x, &x.later, &self.grid, &job, &scratch, &status, &sizes];
            self.encode.launch(queue, blocks, &arguments)?;
        }
        Ok(())
    }

    fn decompress(&self, queue: &Queue, x: Values, job: u64, _: u64) -> Result<()> {
        for (first, blocks) in parts(self.tiles) {
            self.decode.launch(queue, blocks, &[&x.x, &x.later, &self.grid, &job, &first])?;
        }
        Ok(())
    }
}
