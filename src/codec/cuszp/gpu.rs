//! `cuszp` on a GPU, by the kernels of kernels/cuszp.cu.

use crate::codec::gpu::quantize::{parts, Prepare, QUANTA, TILE};
use crate::codec::gpu::{kernels, GpuCoder, Kernel, Kernels, Modules, Values};
use crate::codec::Shape;
use crate::device::cuda::Argument;
use crate::device::Queue;
use crate::error::{fail, Result};

const THREADS: u32 = 256;

pub const KERNELS: Kernels = kernels!("cuszp", "quantize.cuh" "cuszp.cu");

pub struct Cuszp {
    values: u64,
    tiles: u64,
    prepare: Prepare,
    encode: Kernel,
    decode: Kernel,
}

impl Cuszp {
    pub fn new(shape: Shape, modules: &mut Modules) -> Result<Self> {
        let source = KERNELS.of(shape.scalar);
        let values = shape.values() as u64;
        let tiles = values.div_ceil(TILE);
        if u32::try_from(tiles).is_err() {
            let n = shape.n;
            return fail!(Shape, "an array of {n:?} values is too large for cuszp on a GPU");
        }
        Ok(Cuszp {
            values,
            tiles,
            // One word per tile for the decoupled look-back (Merrill and Garland 2016).
            prepare: Prepare::new(shape, tiles, &source, modules)?,
            encode: modules.kernel(&source, c"cuszp_encode", THREADS)?,
            decode: modules.kernel(&source, c"cuszp_decode", THREADS)?,
        })
    }
}

impl GpuCoder for Cuszp {
    fn scratch(&self) -> u64 {
        self.prepare.scratch()
    }

    fn compress(&self, queue: &Queue, x: Values, job: u64, scratch: u64) -> Result<()> {
        self.prepare.enqueue(queue, x, job, scratch)?;
        let status = scratch + QUANTA;
        for (_, blocks) in parts(self.tiles) {
            let arguments: [&dyn Argument; 6] =
                [&x.x, &x.later, &self.values, &job, &scratch, &status];
            self.encode.launch(queue, blocks, &arguments)?;
        }
        Ok(())
    }

    fn decompress(&self, queue: &Queue, x: Values, job: u64, scratch: u64) -> Result<()> {
        queue.fill(scratch, 0, 8 * self.tiles)?;
        for (_, blocks) in parts(self.tiles) {
            self.decode.launch(queue, blocks, &[&x.x, &x.later, &self.values, &job, &scratch])?;
        }
        Ok(())
    }
}
