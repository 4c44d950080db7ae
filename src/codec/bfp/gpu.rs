//! `bfp` on a GPU, by the kernels of kernels/bfp.cu.

use crate::codec::gpu::fixed::Fixed;
use crate::codec::gpu::{Modules, COMMON};
use crate::codec::Shape;
use crate::device::cuda::Source;
use crate::error::Result;
use crate::scalar::Scalar;

/// Values per thread, as in the kernels.
const EACH: u64 = 8;

pub fn source(scalar: Scalar) -> Source {
    const PARTS: [(&str, &str); 2] = [COMMON, ("bfp.cu", include_str!("../../../kernels/bfp.cu"))];
    Source { name: "bfp", parts: &PARTS, double: scalar == Scalar::F64 }
}

pub fn coder(shape: Shape, modules: &mut Modules) -> Result<Fixed> {
    let names = [c"bfp_encode", c"bfp_decode"];
    Fixed::new(shape, &source(shape.scalar), names, EACH, modules)
}
