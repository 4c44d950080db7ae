//! Codecs on a CUDA device: kernels on the application's stream produce the same bytes as the host
//! codecs.
//!
//! The host never waits for the device in this module, and therefore does not know the result of a
//! kernel: the kernels make all decisions. What the host must learn later, the size of a snapshot
//! and any error, is a [`Report`], which the last kernel stores where the caller wants it.

mod calls;
pub(super) mod fixed;
mod owned;
pub(super) mod quantize;
mod registered;
mod rows;
mod snapshot;
mod sources;
mod sum;

pub(crate) use calls::{decode, encode, receive, work_bytes, DeviceCall, Memory};
pub use owned::GpuCodec;
pub(super) use registered::Registered;
pub use snapshot::Report;
pub use sources::sources;
pub use sum::FieldSum;

use crate::device::cuda::{Argument, Module, Source};
use crate::device::{Function, Queue};
use crate::error::Result;
use crate::scalar::Scalar;
use std::ffi::CStr;

/// The source of kernels, for both types of values: its name, and file names and texts of its parts.
pub(super) struct Kernels(pub &'static str, pub &'static [(&'static str, &'static str)]);

/// The kernels of this name: kernels/common.cuh, a part of definitions if there is one, and files of
/// `kernels`.
macro_rules! kernels {
    ($name:expr, $([$definitions:expr])? $($file:literal)*) => {
        Kernels($name, &[kernels!("common.cuh"), $($definitions,)? $(kernels!($file)),*])
    };
    ($file:literal) => {
        ($file, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/kernels/", $file)))
    };
}
pub(super) use kernels;

impl Kernels {
    /// Returns the source for values of this type.
    pub fn of(&self, scalar: Scalar) -> Source {
        Source { name: self.0, parts: self.1, double: scalar == Scalar::F64 }
    }
}

/// An array in device memory, or the difference of two arrays.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Values {
    /// Address of the array.
    pub x: u64,
    /// Address of a later time level, or 0. If it is not 0, the coded array is `later - x`.
    pub later: u64,
}

/// Addresses of the device memory of a coder, multiples of 256.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// The memory that the coder keeps.
    pub kept: u64,
    /// The scratch memory, which all coders share.
    pub scratch: u64,
}

/// Enqueues the kernels that code arrays of one shape. Every kernel reads its job, a `Job` of
/// kernels/common.cuh in device memory, and returns at once if the job says so.
pub(crate) trait GpuCoder: Send {
    /// Returns the bytes of device memory that the kernels use while one array is coded or decoded.
    fn scratch(&self) -> u64 {
        0
    }

    /// Returns the bytes of device memory that the coder keeps for itself from one array to the next.
    fn kept(&self) -> u64 {
        0
    }

    /// Returns the words that the kept memory must begin with before the first array.
    fn tables(&self) -> Result<Vec<u64>> {
        Ok(Vec::new())
    }

    /// Whether the kernels of `compress` may mark the job as damaged, which is an error of the codec.
    fn may_fail(&self) -> bool {
        false
    }

    /// Enqueues what else must be done in new memory before the first array.
    fn prepare(&self, _queue: &Queue, _room: Room) -> Result<()> {
        Ok(())
    }

    /// Enqueues the coding of `x` into the payload of the job at the address `job`; the kernels
    /// write the size of the payload to the job. The bytes are those of `Coder::compress`, except
    /// for Bitcomp, whose host functions may produce other bytes for the same values.
    fn compress(&self, queue: &Queue, x: Values, job: u64, room: Room) -> Result<()>;

    /// Enqueues the decoding of the payload of the job into `x`. The kernels write every value of
    /// `x`, or mark the job as damaged; they use `x.later` only if the job says so. Whatever the
    /// payload contains, they read nothing beyond it and write nothing but `x`; for Bitcomp only if
    /// the checksum of the stream was right, because libnvcomp does not check its payload.
    fn decompress(&self, queue: &Queue, x: Values, job: u64, room: Room) -> Result<()>;
}

/// A kernel of a loaded module.
#[derive(Clone, Copy)]
pub(crate) struct Kernel {
    function: Function,
    /// Threads of a block, as the kernel declares them.
    threads: u32,
}

impl Kernel {
    /// Enqueues the kernel, as `Queue::launch` does.
    pub fn launch(&self, queue: &Queue, blocks: u64, arguments: &[&dyn Argument]) -> Result<()> {
        queue.launch(self.function, blocks, self.threads, arguments)
    }
}

/// The loaded modules of one device; every module is loaded once. The default loads nothing: it
/// serves coders that are only asked how much memory they need.
#[derive(Default)]
pub(crate) struct Modules {
    architecture: u32,
    loaded: Vec<(&'static str, bool, Module)>,
}

impl Modules {
    /// Makes an empty set of modules for devices of this architecture.
    pub fn new(architecture: u32) -> Self {
        Modules { architecture, loaded: Vec::new() }
    }

    /// Returns a kernel of a source, for blocks of `threads` threads. Compiles and loads the source
    /// if it is not loaded yet.
    pub fn kernel(&mut self, source: &Source, name: &CStr, threads: u32) -> Result<Kernel> {
        if self.architecture == 0 {
            return Ok(Kernel { function: Function::none(), threads });
        }
        let known = |(name, double, _): &(&str, bool, Module)| {
            (*name, *double) == (source.name, source.double)
        };
        let at = match self.loaded.iter().position(known) {
            Some(at) => at,
            None => {
                let module = Module::of(source, self.architecture)?;
                self.loaded.push((source.name, source.double, module));
                self.loaded.len() - 1
            }
        };
        Ok(Kernel { function: self.loaded[at].2.function(name)?, threads })
    }
}

/// Returns the blocks for `work` pieces, with `threads` threads a block and `each` pieces a thread.
pub(super) fn blocks(work: u64, threads: u32, each: u64) -> u64 {
    work.div_ceil(threads as u64 * each)
}
