//! The C functions of the driver, in one file per subject. Each function has the name of NVIDIA's
//! function; the documentation of the CUDA driver API says what it does.

pub mod context;
pub mod control;
pub mod copy;
pub mod device;
pub mod event;
pub mod ipc;
pub mod mapped;
pub mod memory;
pub mod module;
pub mod nvrtc;
pub mod pointer;
pub mod pool;
pub mod stream;

use crate::status::{Result, INVALID_VALUE};
use std::marker::PhantomData;

/// An opaque handle: `CUcontext`, `CUstream`, `CUevent`...
pub type Handle = usize;
/// A `CUdeviceptr`, or a host pointer.
pub type Address = usize;

/// A pointer through which a function writes a result.
#[repr(transparent)]
pub struct Out<'a, T>(*mut T, PhantomData<&'a mut T>);

impl<'a, T> Out<'a, T> {
    /// The null pointer.
    pub fn null() -> Self {
        Self(std::ptr::null_mut(), PhantomData)
    }

    /// Returns `CUDA_ERROR_INVALID_VALUE` for a null pointer.
    fn check(&self) -> Result {
        if self.0.is_null() {
            return Err(INVALID_VALUE);
        }
        Ok(())
    }

    /// Writes the result of `make`, which is not called for a null pointer.
    fn give(&self, make: impl FnOnce() -> Result<T>) -> Result {
        self.check()?;
        self.set(make()?)
    }

    /// Writes the result.
    fn set(&self, value: T) -> Result {
        self.check()?;
        // SAFETY: the pointer came from a reference, or the C caller promises that it may be
        // written; `check` has refused null.
        unsafe { self.0.write(value) };
        Ok(())
    }
}

impl<'a, T> From<&'a mut T> for Out<'a, T> {
    fn from(target: &'a mut T) -> Self {
        Self(target, PhantomData)
    }
}

/// Defines entry points that do not wait for operations.
macro_rules! exports {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),*) |$driver:pat_param| $body:expr;)*) => {
        $(
            $(#[$doc])*
            #[no_mangle]
            #[allow(non_snake_case, reason = "the name is the driver's")]
            pub extern "C" fn $name($($arg: $type),*) -> $crate::status::Status {
                $crate::driver::call($crate::call::Call::$name, |$driver| $body)
            }
        )*
    };
}
pub(crate) use exports;
