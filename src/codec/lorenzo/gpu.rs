//! `lorenzo` on a GPU, by the kernels of kernels/lorenzo.cu.

use super::Grid;
use crate::codec::gpu::quantize::{parts, Tiled, QUANTA};
use crate::codec::gpu::{kernels, GpuCoder, Kernels, Modules, Room, Values};
use crate::codec::Shape;
use crate::device::cuda::Argument;
use crate::device::Queue;
use crate::error::Result;

pub const KERNELS: Kernels = kernels!("lorenzo", "quantize.cuh" "lorenzo.cu");

pub struct Lorenzo {
    tiled: Tiled,
    /// `Grid` of kernels/lorenzo.cu: extents, tiles per dimension, tiles, number of dimensions.
    grid: [u64; 8],
}

impl Lorenzo {
    pub fn new(shape: Shape, modules: &mut Modules) -> Result<Self> {
        let Grid { n, tiles, .. } = Grid::new(&shape);
        let ([n1, n2, n3], [t1, t2, t3]) = (n.map(|n| n as u64), tiles.map(|t| t as u64));
        let count = t1.saturating_mul(t2).saturating_mul(t3);
        let names = [c"lorenzo_encode", c"lorenzo_decode"];
        // Per tile, one word for the decoupled look-back (Merrill and Garland 2016) and half a word
        // for the size of the tile.
        let zeros = count.saturating_add(count.div_ceil(2));
        Ok(Lorenzo {
            tiled: Tiled::new(shape, count, zeros, &KERNELS, names, modules)?,
            grid: [n1, n2, n3, t1, t2, t3, count, shape.dims().len().max(1) as u64],
        })
    }
}

impl GpuCoder for Lorenzo {
    fn scratch(&self) -> u64 {
        self.tiled.scratch()
    }

    fn compress(&self, queue: &Queue, x: Values, job: u64, room: Room) -> Result<()> {
        let scratch = room.scratch;
        let sizes = scratch + QUANTA + 8 * self.tiled.tiles;
        self.tiled.encode(queue, x, [job, scratch], &self.grid, &[&sizes])
    }

    fn decompress(&self, queue: &Queue, x: Values, job: u64, _: Room) -> Result<()> {
        for (first, blocks) in parts(self.tiled.tiles) {
            let arguments: [&dyn Argument; 5] = [&x.x, &x.later, &self.grid, &job, &first];
            self.tiled.decode.launch(queue, blocks, &arguments)?;
        }
        Ok(())
    }
}
