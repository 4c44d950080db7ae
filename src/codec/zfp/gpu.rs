//! `zfp` (Lindstrom 2014) on a GPU, by the kernels of kernels/zfp.cu.

use super::Zfp as Host;
use crate::codec::gpu::{blocks, GpuCoder, Kernel, Modules, Values, COMMON};
use crate::codec::Shape;
use crate::device::cuda::Source;
use crate::device::Queue;
use crate::error::Result;
use crate::scalar::Scalar;

pub fn source(scalar: Scalar) -> Source {
    const PARTS: [(&str, &str); 2] = [COMMON, ("zfp.cu", include_str!("../../../kernels/zfp.cu"))];
    Source { name: "zfp", parts: &PARTS, double: scalar == Scalar::F64 }
}

pub struct Zfp {
    /// The extents other than 1, then ones.
    n: [u64; 3],
    /// Thread blocks of a kernel; a thread codes one zfp block.
    blocks: u64,
    /// Bits of a zfp block.
    bits: u32,
    encode: Kernel,
    decode: Kernel,
}

impl Zfp {
    pub fn new(shape: Shape, rate: u32, modules: &mut Modules) -> Result<Self> {
        let host = Host::new(shape, rate)?;
        let mut n = [1; 3];
        n.iter_mut().zip(shape.dims()).for_each(|(n, extent)| *n = extent as u64);
        let (encode, decode) = match host.dims() {
            1 => (c"zfp_encode_1", c"zfp_decode_1"),
            2 => (c"zfp_encode_2", c"zfp_decode_2"),
            _ => (c"zfp_encode_3", c"zfp_decode_3"),
        };
        let threads = if host.dims() == 3 && shape.scalar == Scalar::F64 { 64 } else { 128 };
        let source = source(shape.scalar);
        let (encode, decode) =
            (modules.kernel(&source, encode, threads)?, modules.kernel(&source, decode, threads)?);
        let blocks = blocks(host.blocks() as u64, threads, 1);
        Ok(Zfp { n, blocks, bits: host.block_bits(), encode, decode })
    }

    fn launch(&self, queue: &Queue, kernel: Kernel, x: Values, job: u64) -> Result<()> {
        kernel.launch(queue, self.blocks, &[&x.x, &x.later, &self.n, &self.bits, &job])
    }
}

impl GpuCoder for Zfp {
    fn compress(&self, queue: &Queue, x: Values, job: u64, _: u64) -> Result<()> {
        self.launch(queue, self.encode, x, job)
    }

    fn decompress(&self, queue: &Queue, x: Values, job: u64, _: u64) -> Result<()> {
        self.launch(queue, self.decode, x, job)
    }
}
