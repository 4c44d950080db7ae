//! Kernels: modules on a device, and launches on a stream.

use super::driver::{self, cu, status};
use super::images::{self, Source};
use crate::device::{Function, Queue};
use crate::error::Result;
use cudarc::driver::sys::{CUfunction_attribute, CUmodule, CUstream};
use std::ffi::{c_void, CStr};

/// The most blocks of a launch, far below CUDA's limit: kernels loop over the values that are left.
const MOST_BLOCKS: u64 = 1 << 20;

/// Words of the longest argument of a kernel: with the other arguments less than CUDA's limit of 4 KiB.
pub const WORDS: usize = 448;

/// A kernel image that is loaded in a context.
pub struct Module(CUmodule);

// SAFETY: handles of the driver may be used from any thread.
unsafe impl Send for Module {}

impl Module {
    /// Loads an image in the current context; `None` if the driver does not accept the image.
    fn load(image: &[u8]) -> Result<Option<Self>> {
        let mut module = std::ptr::null_mut();
        match status!(cuModuleLoadData(&mut module, image.as_ptr().cast::<c_void>())) {
            driver::INVALID_IMAGE
            | driver::NO_BINARY_FOR_GPU
            | driver::INVALID_PTX
            | driver::UNSUPPORTED_PTX_VERSION => Ok(None),
            result => driver::check(result, "cuModuleLoadData").map(|()| Some(Module(module))),
        }
    }

    /// Loads the module of a source from the best image that the driver accepts.
    pub fn of(source: &Source, architecture: u32) -> Result<Self> {
        images::offer(source, architecture, &mut Self::load)
    }

    /// The kernel with this name, loaded on the device. A driver that loads lazily would else load
    /// the kernel's code at the first launch, and may wait there for the device (CUDA Programming
    /// Guide, "Lazy Loading"). The number of registers is an attribute of the loaded code.
    pub fn function(&self, name: &CStr) -> Result<Function> {
        let (mut function, mut registers) = (std::ptr::null_mut(), 0);
        cu!(cuModuleGetFunction(&mut function, self.0, name.as_ptr()))
            .and_then(|()| {
                let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_NUM_REGS;
                cu!(cuFuncGetAttribute(&mut registers, attribute, function))
            })
            .map_err(|e| e.within(format_args!("kernel {name:?}")))?;
        Ok(Function(function.cast()))
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        let _ = cu!(cuModuleUnload(self.0));
    }
}

/// An argument of a kernel: plain data, copied at the launch.
pub trait Argument {
    /// Address of the argument.
    fn address(&self) -> *mut c_void;
}

macro_rules! arguments {
    ($($type:ty)*) => {
        $(impl Argument for $type {
            fn address(&self) -> *mut c_void {
                std::ptr::from_ref(self).cast_mut().cast()
            }
        })*
    };
}
arguments! { i32 u32 u64 f64 [u64; 3] [u64; 4] [u64; 8] [u64; WORDS] }

impl Queue {
    /// Enqueues a kernel of `blocks` blocks of `threads` threads. `blocks` is raised to 1 or
    /// lowered to 2^20. The arguments must be those that the kernel declares, in number and type.
    pub fn launch(
        &self,
        function: Function,
        blocks: u64,
        threads: u32,
        arguments: &[&dyn Argument],
    ) -> Result<()> {
        let mut addresses = [std::ptr::null_mut(); 16];
        for (address, argument) in addresses.iter_mut().zip(arguments) {
            *address = argument.address();
        }
        let blocks = blocks.clamp(1, MOST_BLOCKS) as u32;
        cu!(cuLaunchKernel(
            function.0.cast(),
            blocks,
            1u32,
            1u32,
            threads,
            1u32,
            1u32,
            0u32,
            self.handle(),
            addresses.as_mut_ptr(),
            std::ptr::null_mut::<*mut c_void>()
        ))
    }

    /// Enqueues a copy of `bytes` bytes between any two addresses.
    pub fn copy(&self, to: u64, from: u64, bytes: u64) -> Result<()> {
        cu!(cuMemcpyAsync(to, from, bytes as usize, self.handle()))
    }

    /// Waits for the work of the stream.
    pub fn finish(&self) -> Result<()> {
        cu!(cuStreamSynchronize(self.handle()))
    }

    /// Enqueues the filling of `bytes` bytes of device memory at `at` with `byte`.
    pub fn fill(&self, at: u64, byte: u8, bytes: u64) -> Result<()> {
        cu!(cuMemsetD8Async(at, byte, bytes as usize, self.handle()))
    }

    fn handle(&self) -> CUstream {
        self.0 .0.cast()
    }
}
