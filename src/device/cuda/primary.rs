//! A device's primary context, for calls without a session.

use super::driver::{self, cu};
use crate::device::{Queue, Stream};
use crate::error::Result;
use cudarc::driver::sys::CUcontext;

/// The primary context of a device, which this process keeps until it ends.
#[derive(Clone, Copy)]
pub struct Primary {
    ordinal: i32,
    context: CUcontext,
    /// The architecture for which kernels have to be compiled: 90 for sm_90.
    pub architecture: u32,
}

// SAFETY: handles of the driver may be used from any thread.
unsafe impl Send for Primary {}

impl Primary {
    /// Keeps the primary context of device `ordinal`.
    pub fn keep(ordinal: i32) -> Result<Self> {
        let (device, mut context) = (driver::device(ordinal)?, std::ptr::null_mut());
        let architecture = driver::architecture(device)?;
        cu!(cuDevicePrimaryCtxRetain(&mut context, device))?;
        Ok(Primary { ordinal, context, architecture })
    }

    /// The number of the device.
    pub fn ordinal(&self) -> i32 {
        self.ordinal
    }

    /// Runs `body`, which enqueues the work of the call `call` on the application's stream. The stream is checked, and the caller's context is current again afterwards.
    pub fn enqueue<T>(
        &self,
        stream: Stream,
        call: &'static str,
        body: impl FnOnce(&Queue) -> Result<T>,
    ) -> Result<T> {
        let _current = driver::enter(stream.0.cast(), (self.context, self.ordinal), call)?;
        body(&Queue(stream))
    }
}
