//! Codecs on a CUDA device: the streams of the host codecs, bit for bit, made by kernels on the
//! application's stream.
//!
//! Nothing here waits for the device, so nothing here knows what became of a stream: all decisions
//! are the kernels', and what has to be known on the host, the size of a snapshot and whether
//! something was wrong, is a [`Report`] in device memory, to be copied when it is due.

mod bfp;
mod bitcomp;
mod cuszp;
mod dct;
mod half;
mod lorenzo;
mod quantize;
mod snapshot;
mod sum;
mod zfp;

pub use snapshot::{GpuCodec, Report};
pub use sum::FieldSum;

use super::{ErrorBound, Method, Settings, Shape};
use crate::device::cuda::{Function, Module, Queue, Source};
use crate::error::{fail, Result};
use crate::scalar::Scalar;
use std::ffi::CStr;

/// Part of every source.
const COMMON: (&str, &str) = ("common.cuh", include_str!("../../../kernels/common.cuh"));

/// An array on the device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Values {
    /// Its address.
    pub x: u64,
    /// The address of a later time level, 0 if there is none: what is coded is that one minus
    /// this.
    pub later: u64,
}

/// Enqueues the kernels that code arrays of one shape. Each of them returns at once where the job
/// says so.
pub(crate) trait GpuCoder: Send {
    /// Bytes of device memory to work in, while one array is coded or decoded.
    fn scratch(&self) -> u64 {
        0
    }

    /// Bytes of device memory that it has for itself all the time.
    fn kept(&self) -> u64 {
        0
    }

    /// Tells where they are, at a multiple of 256, and enqueues what has to be done once.
    fn settle(&mut self, _queue: &Queue, _kept: u64, _scratch: u64) -> Result<()> {
        Ok(())
    }

    /// Codes `x` into the payload of the job at this address, and puts its size there. The same
    /// bytes as `Coder::compress`, but for Bitcomp, whose host functions may have others for
    /// the same values.
    fn compress(&self, queue: &Queue, x: Values, job: u64, scratch: u64) -> Result<()>;

    /// Decodes the payload of the job into `x`, every value of which is written, or says in the job
    /// that it is damaged. `x.later` is meant only if the job says so. Whatever the payload is,
    /// nothing beyond it is read, and nothing but `x` written (of Bitcomp's payloads that can
    /// be said where the checksum is right only: what they hold is as it was made).
    fn decompress(&self, queue: &Queue, x: Values, job: u64, scratch: u64) -> Result<()>;
}

/// The modules of one device that are loaded, each once. By default those of none, for coders that
/// are only asked how much memory they need.
#[derive(Default)]
pub(crate) struct Modules {
    architecture: u32,
    loaded: Vec<(&'static str, bool, Module)>,
}

impl Modules {
    /// For kernels of this architecture.
    pub fn new(architecture: u32) -> Self {
        Modules { architecture, loaded: Vec::new() }
    }

    /// A kernel of a source, compiled and loaded if it is not yet.
    pub fn kernel(&mut self, source: &Source, name: &CStr) -> Result<Function> {
        if self.architecture == 0 {
            return Ok(Function::none());
        }
        let known = |(name, double, _): &&(&str, bool, Module)| {
            (*name, *double) == (source.name, source.double)
        };
        if let Some((_, _, module)) = self.loaded.iter().find(known) {
            return module.function(name);
        }
        let module = Module::of(source, self.architecture)?;
        let function = module.function(name)?;
        self.loaded.push((source.name, source.double, module));
        Ok(function)
    }

    /// Leaves them to the process that owns them.
    pub fn forget(self) {
        self.loaded.into_iter().for_each(|(_, _, module)| module.forget());
    }
}

/// All sources, for those who compile them in advance.
pub fn sources() -> Vec<Source> {
    let both = |source: fn(Scalar) -> Source| [source(Scalar::F32), source(Scalar::F64)];
    let all = [
        snapshot::source,
        half::source,
        bfp::source,
        bitcomp::source,
        zfp::source,
        cuszp::source,
        lorenzo::source,
    ];
    all.into_iter().flat_map(both).chain(dct::sources()).chain([sum::source()]).collect()
}

fn coder(
    settings: &Settings,
    shape: Shape,
    modules: &mut Modules,
) -> Result<Option<Box<dyn GpuCoder>>> {
    let rms = matches!(settings.bound, ErrorBound::Psnr(_));
    Ok(Some(match &settings.method {
        Method::None => return Ok(None),
        Method::Dct => Box::new(dct::Dct::new(shape, rms, modules)?),
        Method::Fp16 => Box::new(half::Half::new(shape, modules)?),
        Method::Zfp { rate } => Box::new(zfp::Zfp::new(shape, *rate, modules)?),
        Method::Bitcomp { sparse } => {
            Box::new(bitcomp::Bitcomp::new(shape, *sparse, rms, modules)?)
        }
        Method::Bfp => Box::new(bfp::Bfp::new(shape, modules)?),
        Method::Cuszp { plain } => Box::new(cuszp::Cuszp::new(shape, *plain, modules)?),
        Method::Lorenzo => Box::new(lorenzo::Lorenzo::new(shape, modules)?),
        other => {
            return fail!(
                Unsupported,
                "compressor {} has no kernels: use another one on CUDA, or the host backend",
                other.name()
            )
        }
    }))
}

/// Threads of a block, and how many blocks so many pieces of work want, each thread doing `each` of
/// them.
fn blocks(work: u64, threads: u32, each: u64) -> u64 {
    work.div_ceil(threads as u64 * each)
}

/// Copies to the device; the memory is pageable: it is read before this returns.
fn send(queue: &Queue, to: u64, text: &[u8]) -> Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    queue.copy(to, text.as_ptr() as u64, text.len() as u64)
}
