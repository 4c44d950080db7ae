//! `fp16` on a GPU, by the kernels of kernels/half.cu.

use crate::codec::gpu::fixed::Fixed;
use crate::codec::gpu::{Modules, COMMON};
use crate::codec::Shape;
use crate::device::cuda::Source;
use crate::error::Result;
use crate::scalar::Scalar;

/// Values per thread, as in the kernels.
const EACH: u64 = 4;

pub fn source(scalar: Scalar) -> Source {
    const PARTS: [(&str, &str); 2] =
        [COMMON, ("half.cu", include_str!("../../../kernels/half.cu"))];
    Source { name: "half", parts: &PARTS, double: scalar == Scalar::F64 }
}

pub fn coder(shape: Shape, modules: &mut Modules) -> Result<Fixed> {
    let names = [c"half_encode", c"half_decode"];
    Fixed::new(shape, &source(shape.scalar), names, EACH, modules)
}
