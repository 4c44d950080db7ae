//! The checksum of a field, by the kernel of kernels/levels.cu.

use super::{blocks, kernels, Kernel, Kernels, Modules};
use crate::device::Queue;
use crate::error::Result;
use crate::scalar::Scalar;

const THREADS: u32 = 256;

/// The kernel reads words, whatever the type of the values.
pub(super) const KERNELS: Kernels = kernels!("levels", "levels.cu");

/// The checksum kernel, loaded on one device.
pub struct FieldSum {
    sum: Kernel,
    /// The modules of the kernels, which stay loaded as long as this object lives.
    _modules: Modules,
}

impl FieldSum {
    /// Bytes of working memory, which must be zero before the kernel and is zero afterwards.
    pub const WORK: u64 = 16;

    /// Compiles and loads the kernel for devices of this architecture.
    pub fn new(architecture: u32) -> Result<Self> {
        let (mut modules, source) = (Modules::new(architecture), KERNELS.of(Scalar::F32));
        Ok(FieldSum { sum: modules.kernel(&source, c"level_sum", THREADS)?, _modules: modules })
    }

    /// Enqueues the kernel that computes the checksum of the `bytes` bytes at `field`; `bytes` is a
    /// multiple of 4. `field`, `work`, `to`, `with` and `verdict` are addresses of device memory,
    /// `to` and `with` also of page-locked host memory; `to`, `with` and `verdict` point to words
    /// of 64 bits. If `to` is not 0, the kernel writes the checksum there. If `with` is not 0 and
    /// the word there differs from the checksum, the kernel sets the word at `verdict` to `name`,
    /// unless that word is not 0.
    pub fn enqueue(
        &self,
        queue: &Queue,
        field: u64,
        bytes: u64,
        work: u64,
        [to, with, verdict, name]: [u64; 4],
    ) -> Result<()> {
        let (words, ends) = (bytes / 4, [to, with, verdict, name]);
        self.sum.launch(queue, blocks(words, THREADS, 16), &[&field, &words, &work, &ends])
    }
}
