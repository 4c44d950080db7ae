//! Coders of the codecs whose payloads have a fixed size (zfp, fp16, bfp): one kernel codes an array,
//! one decodes it.

use super::{blocks, kernels, GpuCoder, Kernel, Kernels, Modules, Room, Values};
use crate::codec::Shape;
use crate::device::cuda::Argument;
use crate::device::Queue;
use crate::error::Result;
use std::ffi::CStr;

const THREADS: u32 = 256;

pub const FP16: Kernels = kernels!("half", "half.cu");
pub const BFP: Kernels = kernels!("bfp", "bfp.cu");

/// Makes the coder of `fp16`. A thread codes 4 values.
pub fn fp16(shape: Shape, modules: &mut Modules) -> Result<Fixed> {
    of_values(shape, &FP16, [c"half_encode", c"half_decode"], 4, modules)
}

/// Makes the coder of `bfp`. A thread codes 8 values.
pub fn bfp(shape: Shape, modules: &mut Modules) -> Result<Fixed> {
    of_values(shape, &BFP, [c"bfp_encode", c"bfp_decode"], 8, modules)
}

fn of_values(
    shape: Shape,
    kernels: &Kernels,
    names: [&CStr; 2],
    each: u64,
    modules: &mut Modules,
) -> Result<Fixed> {
    let values = shape.values() as u64;
    let source = kernels.of(shape.scalar);
    let [encode, decode] = names.map(|name| modules.kernel(&source, name, THREADS));
    let blocks = blocks(values, THREADS, each);
    Ok(Fixed { encode: encode?, decode: decode?, blocks, size: vec![Box::new(values)] })
}

/// The two kernels for arrays of one shape.
pub struct Fixed {
    pub encode: Kernel,
    pub decode: Kernel,
    /// Thread blocks of a kernel.
    pub blocks: u64,
    /// The arguments of a kernel between the addresses of the array and that of the job.
    pub size: Vec<Box<dyn Argument + Send>>,
}

impl Fixed {
    fn launch(&self, queue: &Queue, kernel: Kernel, x: Values, job: u64) -> Result<()> {
        let mut arguments: Vec<&dyn Argument> = vec![&x.x, &x.later];
        arguments.extend(self.size.iter().map(|size| &**size as &dyn Argument));
        arguments.push(&job);
        kernel.launch(queue, self.blocks, &arguments)
    }
}

impl GpuCoder for Fixed {
    fn compress(&self, queue: &Queue, x: Values, job: u64, _: Room) -> Result<()> {
        self.launch(queue, self.encode, x, job)
    }

    fn decompress(&self, queue: &Queue, x: Values, job: u64, _: Room) -> Result<()> {
        self.launch(queue, self.decode, x, job)
    }
}
