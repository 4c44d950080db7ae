//! `zfp` (Lindstrom 2014) on a GPU, by the kernels of kernels/zfp.cu.

use super::Blocks;
use crate::codec::gpu::fixed::Fixed;
use crate::codec::gpu::{blocks, kernels, Kernels, Modules};
use crate::codec::Shape;
use crate::device::cuda::Argument;
use crate::error::Result;
use crate::scalar::Scalar;

pub const KERNELS: Kernels = kernels!("zfp", "zfp.cu");

/// Makes the coder; a thread codes one zfp block.
pub fn coder(shape: Shape, rate: u32, modules: &mut Modules) -> Result<Fixed> {
    let host = Blocks::of(shape, rate)?;
    // The extents other than 1, then ones.
    let mut n = [1u64; 3];
    n.iter_mut().zip(shape.dims()).for_each(|(n, extent)| *n = extent as u64);
    let names = match host.dims {
        1 => [c"zfp_encode_1", c"zfp_decode_1"],
        2 => [c"zfp_encode_2", c"zfp_decode_2"],
        _ => [c"zfp_encode_3", c"zfp_decode_3"],
    };
    let threads = if host.dims == 3 && shape.scalar == Scalar::F64 { 64 } else { 128 };
    let source = KERNELS.of(shape.scalar);
    let [encode, decode] = names.map(|name| modules.kernel(&source, name, threads));
    let blocks = blocks(host.grid.blocks() as u64, threads, 1);
    let size: Vec<Box<dyn Argument + Send>> = vec![Box::new(n), Box::new(host.spec.bits)];
    Ok(Fixed { encode: encode?, decode: decode?, blocks, size })
}
