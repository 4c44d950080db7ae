//! `fp16` on a GPU, by the kernels of kernels/half.cu.

use super::{blocks, GpuCoder, Modules, Values, COMMON};
use crate::codec::Shape;
use crate::device::cuda::Source;
use crate::device::{Function, Queue};
use crate::error::Result;
use crate::scalar::Scalar;

const THREADS: u32 = 256;

pub(super) fn source(scalar: Scalar) -> Source {
    const PARTS: [(&str, &str); 2] =
        [COMMON, ("half.cu", include_str!("../../../kernels/half.cu"))];
    Source { name: "half", parts: &PARTS, double: scalar == Scalar::F64 }
}

pub(super) struct Half {
    values: u64,
    encode: Function,
    decode: Function,
}

impl Half {
    pub fn new(shape: Shape, modules: &mut Modules) -> Result<Self> {
        let source = source(shape.scalar);
        Ok(Half {
            values: shape.values() as u64,
            encode: modules.kernel(&source, c"half_encode")?,
            decode: modules.kernel(&source, c"half_decode")?,
        })
    }
}

impl GpuCoder for Half {
    fn compress(&self, queue: &Queue, x: Values, job: u64, _: u64) -> Result<()> {
        queue.launch(
            self.encode,
            blocks(self.values, THREADS, 4),
            THREADS,
            0,
            &[&x.x, &x.later, &self.values, &job],
        )
    }

    fn decompress(&self, queue: &Queue, x: Values, job: u64, _: u64) -> Result<()> {
        queue.launch(
            self.decode,
            blocks(self.values, THREADS, 4),
            THREADS,
            0,
            &[&x.x, &x.later, &self.values, &job],
        )
    }
}
