//! Modules and kernels: not yet.

use super::{exports, Handle, Out};
use crate::status::NOT_SUPPORTED;
use std::ffi::{c_char, c_void};

exports! {
    /// Not supported.
    fn cuModuleLoadData(_module: Out<Handle>, _image: *const c_void) |_| Err(NOT_SUPPORTED);
    /// Not supported.
    fn cuModuleGetFunction(_function: Out<Handle>, _module: Handle, _name: *const c_char) |_| Err(NOT_SUPPORTED);
    /// Not supported.
    fn cuModuleUnload(_module: Handle) |_| Err(NOT_SUPPORTED);
}

/// Not supported.
#[no_mangle]
#[allow(non_snake_case, clippy::too_many_arguments, reason = "the driver's signature")]
pub extern "C" fn cuLaunchKernel(
    _function: Handle,
    _grid_x: u32,
    _grid_y: u32,
    _grid_z: u32,
    _block_x: u32,
    _block_y: u32,
    _block_z: u32,
    _shared: u32,
    _stream: Handle,
    _parameters: *mut *mut c_void,
    _extra: *mut *mut c_void,
) -> crate::status::Status {
    crate::driver::call(crate::call::Call::cuLaunchKernel, |_| Err(NOT_SUPPORTED))
}
