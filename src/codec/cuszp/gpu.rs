//! `cuszp` on a GPU, by the kernels of kernels/cuszp.cu.

use crate::codec::gpu::quantize::{parts, Tiled, TILE};
use crate::codec::gpu::{kernels, GpuCoder, Kernels, Modules, Room, Values};
use crate::codec::Shape;
use crate::device::Queue;
use crate::error::Result;

pub const KERNELS: Kernels = kernels!("cuszp", "quantize.cuh" "cuszp.cu");

pub struct Cuszp(Tiled);

impl Cuszp {
    pub fn new(shape: Shape, modules: &mut Modules) -> Result<Self> {
        let (tiles, names) =
            ((shape.values() as u64).div_ceil(TILE), [c"cuszp_encode", c"cuszp_decode"]);
        // One word per tile for the decoupled look-back (Merrill and Garland 2016).
        Tiled::new(shape, tiles, tiles, &KERNELS, names, modules).map(Cuszp)
    }
}

impl GpuCoder for Cuszp {
    fn scratch(&self) -> u64 {
        self.0.scratch()
    }

    fn compress(&self, queue: &Queue, x: Values, job: u64, room: Room) -> Result<()> {
        self.0.encode(queue, x, [job, room.scratch], &self.0.values, &[])
    }

    fn decompress(&self, queue: &Queue, x: Values, job: u64, room: Room) -> Result<()> {
        let (Tiled { values, tiles, decode, .. }, scratch) = (&self.0, room.scratch);
        queue.fill(scratch, 0, 8 * tiles)?;
        for (_, blocks) in parts(*tiles) {
            decode.launch(queue, blocks, &[&x.x, &x.later, values, &job, &scratch])?;
        }
        Ok(())
    }
}
