//! Kernels: modules on a device, and launches on a stream.

use super::driver::{self, cu, status};
use super::images::{self, Source};
use crate::device::{Lane, Stream};
use crate::error::{fail, Result};
use cudarc::driver::sys::{CUfunction, CUfunction_attribute, CUmodule, CUstream};
use std::ffi::{c_void, CStr};

/// The most blocks of a launch. CUDA allows far more in one dimension; kernels loop over the values
/// that are left.
const MOST_BLOCKS: u64 = 1 << 20;

/// What a device offers to codecs that run as CUDA kernels. Other devices take these functions as
/// they are.
pub trait Launcher {
    /// The queue of `lane` on which kernels are enqueued. Call this between `enter` and `leave`.
    fn launches(&self, lane: Lane) -> Result<Queue> {
        let _ = lane;
        fail!(Unsupported, "this backend runs no kernels")
    }

    /// Calls `body` with a queue that has no other work, and with the architecture for which
    /// kernels have to be compiled. Returns when all work that `body` enqueued has ended. Call this
    /// outside `enter` and `leave`.
    fn run(&mut self, body: &mut dyn FnMut(&Queue, u32) -> Result<()>) -> Result<()> {
        let _ = body;
        fail!(Unsupported, "this backend runs no kernels")
    }

    /// Calls `body`, which releases kernels, once all calls have ended: a module must not be unloaded
    /// while kernels of it are queued. If this fails, `body` may not have been called. Call this
    /// outside `enter` and `leave`.
    fn release(&mut self, body: &mut dyn FnMut()) -> Result<()> {
        let _ = body;
        fail!(Unsupported, "this backend runs no kernels")
    }
}

/// A kernel image that is loaded in a context.
pub struct Module(CUmodule);

// SAFETY: handles of the driver may be used from any thread.
unsafe impl Send for Module {}

impl Module {
    /// Loads a cubin, or another image, in the current context. Returns `None` if the driver does
    /// not accept the image.
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
        Ok(Function(function))
    }

    /// Gives up the module without unloading it: it belongs to another process.
    pub fn forget(self) {
        std::mem::forget(self);
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        let _ = cu!(cuModuleUnload(self.0));
    }
}

/// A kernel of a module, valid as long as the module is loaded.
#[derive(Clone, Copy)]
pub struct Function(CUfunction);

impl Function {
    /// A function without a kernel, which cannot be launched.
    pub fn none() -> Self {
        Function(std::ptr::null_mut())
    }
}

// SAFETY: handles of the driver may be used from any thread.
unsafe impl Send for Function {}

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
arguments! { i32 u32 u64 f64 [u64; 3] [u64; 4] [u64; 8] }

/// A stream of the current context, on which kernels are enqueued.
#[derive(Clone, Copy)]
pub struct Queue(CUstream);

impl Queue {
    /// Makes a queue of the application's stream, or of another stream of the current context.
    pub fn new(stream: Stream) -> Self {
        Queue(stream.0.cast())
    }

    /// The stream.
    pub fn stream(&self) -> Stream {
        Stream(self.0.cast())
    }

    /// Enqueues a kernel of `blocks` blocks of `threads` threads with `shared` bytes of dynamic
    /// shared memory. `blocks` is raised to 1 or lowered to 2^20. The arguments must be those that
    /// the kernel declares, in number and type.
    pub fn launch(
        &self,
        function: Function,
        blocks: u64,
        threads: u32,
        shared: u32,
        arguments: &[&dyn Argument],
    ) -> Result<()> {
        let mut addresses = [std::ptr::null_mut(); 16];
        for (address, argument) in addresses.iter_mut().zip(arguments) {
            *address = argument.address();
        }
        let blocks = blocks.clamp(1, MOST_BLOCKS) as u32;
        cu!(cuLaunchKernel(
            function.0,
            blocks,
            1u32,
            1u32,
            threads,
            1u32,
            1u32,
            shared,
            self.0,
            addresses.as_mut_ptr(),
            std::ptr::null_mut::<*mut c_void>()
        ))
    }

    /// Enqueues a copy of `bytes` bytes between any two addresses.
    pub fn copy(&self, to: u64, from: u64, bytes: u64) -> Result<()> {
        cu!(cuMemcpyAsync(to, from, bytes as usize, self.0))
    }

    /// Waits for the work of the stream.
    pub fn finish(&self) -> Result<()> {
        cu!(cuStreamSynchronize(self.0))
    }

    /// Enqueues the filling of `bytes` bytes of device memory at `at` with `byte`.
    pub fn fill(&self, at: u64, byte: u8, bytes: u64) -> Result<()> {
        cu!(cuMemsetD8Async(at, byte, bytes as usize, self.0))
    }
}
