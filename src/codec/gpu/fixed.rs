//! Coder of the codecs whose payloads have a fixed size: one kernel codes an array, one decodes it.

use super::{blocks, GpuCoder, Kernel, Modules, Values};
use crate::codec::Shape;
use crate::device::cuda::Source;
use crate::device::Queue;
use crate::error::Result;
use std::ffi::CStr;

const THREADS: u32 = 256;

/// The two kernels for arrays of one shape.
pub struct Fixed {
    values: u64,
    /// Values per thread, as in the kernels.
    each: u64,
    encode: Kernel,
    decode: Kernel,
}

impl Fixed {
    /// Loads the kernels, named in the order encode, decode. A thread codes `each` values.
    pub fn new(
        shape: Shape,
        source: &Source,
        names: [&CStr; 2],
        each: u64,
        modules: &mut Modules,
    ) -> Result<Self> {
        let [encode, decode] = names;
        Ok(Fixed {
            values: shape.values() as u64,
            each,
            encode: modules.kernel(source, encode, THREADS)?,
            decode: modules.kernel(source, decode, THREADS)?,
        })
    }

    fn launch(&self, queue: &Queue, kernel: Kernel, x: Values, job: u64) -> Result<()> {
        let blocks = blocks(self.values, THREADS, self.each);
        kernel.launch(queue, blocks, &[&x.x, &x.later, &self.values, &job])
    }
}

impl GpuCoder for Fixed {
    fn compress(&self, queue: &Queue, x: Values, job: u64, _: u64) -> Result<()> {
        self.launch(queue, self.encode, x, job)
    }

    fn decompress(&self, queue: &Queue, x: Values, job: u64, _: u64) -> Result<()> {
        self.launch(queue, self.decode, x, job)
    }
}
