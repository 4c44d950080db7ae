//! What an application has on a device. Each object ends with its variable; results are ignored there,
//! since after a sticky error of the device nothing can be freed.

use super::ok;
use cudarc::driver::sys::{self, CUcontext, CUevent, CUstream};
use gpuzip::device::{AppField, AppMemory};
use gpuzip::layout::Field;
use gpuzip::scalar::Scalar;
use std::ffi::c_void;
use std::ptr::null_mut;

/// The primary context of a device, which `new` makes current. It must be the last to end.
pub struct Primary {
    pub context: CUcontext,
    ordinal: i32,
}

impl Primary {
    pub fn new(ordinal: i32) -> Self {
        let (mut context, mut device) = (null_mut(), 0);
        ok!(cuInit(0));
        ok!(cuDeviceGet(&mut device, ordinal));
        ok!(cuDevicePrimaryCtxRetain(&mut context, device));
        ok!(cuCtxSetCurrent(context));
        Primary { context, ordinal }
    }
}

impl Drop for Primary {
    fn drop(&mut self) {
        // SAFETY: `new` has retained the context.
        let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.ordinal) };
    }
}

/// Returns a field without gaps at an address.
pub fn field_at(address: u64, field: Field) -> AppField {
    let bytes = field.bytes().unwrap() as usize;
    // SAFETY: the tests give memory that lives until the session has ended.
    AppField { field, memory: Some(unsafe { AppMemory::new(address as *mut u8, bytes) }) }
}

/// Device memory.
pub struct Memory(pub u64);

impl Memory {
    pub fn new(bytes: u64) -> Self {
        let mut address = 0;
        ok!(cuMemAlloc_v2(&mut address, bytes as usize));
        Memory(address)
    }

    /// Returns a field of `count` FP32 values at the start of the memory.
    pub fn field(&self, count: usize, previous_of: Option<u32>) -> AppField {
        field_at(self.0, Field { n: [count as u64, 1, 1], scalar: Scalar::F32, previous_of })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: `new` made the memory.
        let _ = unsafe { sys::cuMemFree_v2(self.0) };
    }
}

/// Page-locked host memory.
pub struct Pinned(pub *mut c_void);

impl Pinned {
    pub fn new(bytes: u64) -> Self {
        let mut address = null_mut();
        ok!(cuMemHostAlloc(&mut address, bytes as usize, 0));
        Pinned(address)
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: `new` made the memory.
        let _ = unsafe { sys::cuMemFreeHost(self.0) };
    }
}

/// A stream that the application has created.
pub struct Own(pub CUstream);

impl Own {
    /// Makes a stream that does not synchronise with the default stream.
    pub fn new() -> Self {
        Self::with(1)
    }

    /// Makes a stream with the flags of `cuStreamCreate`.
    pub fn with(flags: u32) -> Self {
        let mut stream = null_mut();
        ok!(cuStreamCreate(&mut stream, flags));
        Own(stream)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // SAFETY: `with` made the stream.
        let _ = unsafe { sys::cuStreamDestroy_v2(self.0) };
    }
}

/// Makes the stream `after` wait for what the stream `before` has been given.
pub fn order(before: CUstream, after: CUstream) {
    let mut event: CUevent = null_mut();
    ok!(cuEventCreate(&mut event, 2));
    ok!(cuEventRecord(event, before));
    ok!(cuStreamWaitEvent(after, event, 0));
    ok!(cuEventDestroy_v2(event));
}

/// A pair of events around work on a stream.
pub struct Pair([CUevent; 2]);

impl Pair {
    /// Runs `body` between the two events.
    pub fn around(stream: CUstream, body: impl FnOnce()) -> Self {
        let mut events = [null_mut(); 2];
        events.iter_mut().for_each(|event| ok!(cuEventCreate(event, 0)));
        ok!(cuEventRecord(events[0], stream));
        body();
        ok!(cuEventRecord(events[1], stream));
        Pair(events)
    }

    /// Whether the second event is still to come.
    pub fn is_running(&self) -> bool {
        // SAFETY: a live event.
        unsafe { sys::cuEventQuery(self.0[1]) == sys::CUresult::CUDA_ERROR_NOT_READY }
    }

    /// Waits for the second event and returns the seconds between the two.
    pub fn seconds(self) -> f64 {
        let mut milliseconds = 0.0f32;
        ok!(cuEventSynchronize(self.0[1]));
        ok!(cuEventElapsedTime(&mut milliseconds, self.0[0], self.0[1]));
        self.0.iter().for_each(|event| ok!(cuEventDestroy_v2(*event)));
        f64::from(milliseconds) / 1e3
    }
}
