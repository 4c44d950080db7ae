//! The checksum of a field by kernels/levels.cu.

use super::{blocks, Modules, COMMON};
use crate::device::cuda::{Function, Queue, Source};
use crate::error::Result;

const THREADS: u32 = 256;

pub(super) fn source() -> Source {
    const PARTS: [(&str, &str); 2] =
        [COMMON, ("levels.cu", include_str!("../../../kernels/levels.cu"))];
    Source { name: "levels", parts: &PARTS, double: false }
}

/// The kernel, loaded on one device.
pub struct FieldSum {
    sum: Function,
    modules: Modules,
}

impl FieldSum {
    /// Bytes that it works in, zeros before and after.
    pub const WORK: u64 = 16;

    /// Compiles and loads it.
    pub fn new(architecture: u32) -> Result<Self> {
        let mut modules = Modules::new(architecture);
        Ok(FieldSum { sum: modules.kernel(&source(), c"level_sum")?, modules })
    }

    /// Enqueues the checksum of `bytes` bytes, a multiple of 4, at `field`; all addresses are
    /// device memory, of words of 64 bits. It is put to `to` if that is not 0. If `with` is not
    /// 0 and something else is there, `verdict` becomes `name` unless it is something already.
    pub fn enqueue(
        &self,
        queue: &Queue,
        field: u64,
        bytes: u64,
        work: u64,
        [to, with, verdict, name]: [u64; 4],
    ) -> Result<()> {
        let words = bytes / 4;
        queue.launch(
            self.sum,
            blocks(words, THREADS, 16),
            THREADS,
            0,
            &[&field, &words, &work, &[to, with, verdict, name]],
        )
    }

    /// Leaves it to the process that owns it.
    pub fn forget(self) {
        self.modules.forget();
    }
}
