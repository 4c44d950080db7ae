//! `bfp` on a GPU, by the kernels of kernels/bfp.cu.

use super::{blocks, GpuCoder, Modules, Values, COMMON};
use crate::codec::Shape;
use crate::device::cuda::Source;
use crate::device::{Function, Queue};
use crate::error::Result;
use crate::scalar::Scalar;

const THREADS: u32 = 256;
/// Values per thread, as in the kernels.
const EACH: u64 = 8;

pub(super) fn source(scalar: Scalar) -> Source {
    const PARTS: [(&str, &str); 2] = [COMMON, ("bfp.cu", include_str!("../../../kernels/bfp.cu"))];
    Source { name: "bfp", parts: &PARTS, double: scalar == Scalar::F64 }
}

pub(super) struct Bfp {
    values: u64,
    encode: Function,
    decode: Function,
}

impl Bfp {
    pub fn new(shape: Shape, modules: &mut Modules) -> Result<Self> {
        let source = source(shape.scalar);
        Ok(Bfp {
            values: shape.values() as u64,
            encode: modules.kernel(&source, c"bfp_encode")?,
            decode: modules.kernel(&source, c"bfp_decode")?,
        })
    }
}

impl GpuCoder for Bfp {
    fn compress(&self, queue: &Queue, x: Values, job: u64, _: u64) -> Result<()> {
        queue.launch(
            self.encode,
            blocks(self.values, THREADS, EACH),
            THREADS,
            0,
            &[&x.x, &x.later, &self.values, &job],
        )
    }

    fn decompress(&self, queue: &Queue, x: Values, job: u64, _: u64) -> Result<()> {
        queue.launch(
            self.decode,
            blocks(self.values, THREADS, EACH),
            THREADS,
            0,
            &[&x.x, &x.later, &self.values, &job],
        )
    }
}
