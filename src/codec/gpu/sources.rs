//! The sources of all kernels.

use super::{registered, rows, snapshot, sum, Kernels};
use crate::codec::table::CODECS;
use crate::device::cuda::Source;
use crate::scalar::Scalar;

/// Returns all kernel sources, to be compiled in advance.
pub fn sources() -> Vec<Source> {
    let of_codecs = CODECS.iter().flat_map(|codec| codec.kernels);
    let both = |kernels: &Kernels| [Scalar::F32, Scalar::F64].map(|scalar| kernels.of(scalar));
    let all = [snapshot::KERNELS, rows::KERNELS, registered::KERNELS];
    let sources: Vec<Source> = all.iter().chain(of_codecs).flat_map(both).collect();
    sources.into_iter().chain([sum::KERNELS.of(Scalar::F32)]).collect()
}
