//! What codecs that run as kernels ask of a device.

use super::{Lane, Stream};
use crate::error::{fail, Result};
use std::ffi::c_void;

/// What a device offers to codecs that run as CUDA kernels. Other devices take these functions as
/// they are.
pub trait Launcher {
    /// The queue of `lane` on which kernels are enqueued. Call this between `enter` and `leave`.
    fn launches(&self, _lane: Lane) -> Result<Queue> {
        fail!(Unsupported, "this backend runs no kernels")
    }

    /// Calls `body` with a queue that has no other work, and with the architecture for which
    /// kernels have to be compiled. Returns when all work that `body` enqueued has ended. Call this
    /// outside `enter` and `leave`.
    fn run(&mut self, _body: &mut dyn FnMut(&Queue, u32) -> Result<()>) -> Result<()> {
        fail!(Unsupported, "this backend runs no kernels")
    }

    /// Calls `body`, which releases kernels, once all calls have ended: a module must not be
    /// unloaded while kernels of it are queued. If this fails, `body` may not have been called.
    /// Call this outside `enter` and `leave`.
    fn release(&mut self, _body: &mut dyn FnMut()) -> Result<()> {
        fail!(Unsupported, "this backend runs no kernels")
    }
}

/// A kernel of a module, valid as long as the module is loaded.
#[derive(Clone, Copy)]
pub struct Function(pub(super) *mut c_void);

impl Function {
    /// A function without a kernel, which cannot be launched.
    pub fn none() -> Self {
        Function(std::ptr::null_mut())
    }
}

// SAFETY: handles of a driver may be used from any thread.
unsafe impl Send for Function {}

/// A stream of the current context, on which kernels are enqueued.
#[derive(Clone, Copy)]
pub struct Queue(pub Stream);

/// Bytes of a device's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceMemory {
    /// Bytes that nobody has taken.
    pub free: u64,
    /// All bytes.
    pub total: u64,
}
