//! The functions of modules and kernels.

#![allow(
    clippy::not_unsafe_ptr_arg_deref,
    reason = "safe to declare, like the other entry points; the caller is C"
)]

use super::{exports, Handle, Out};
use crate::call::Call;
use crate::driver::call;
use crate::status::{Status, INVALID_VALUE, NOT_SUPPORTED};
use std::ffi::{c_char, c_void, CStr};

exports! {
    /// Loads an image that the software NVRTC made; any other image is `INVALID_IMAGE`.
    fn cuModuleLoadData(module: Out<Handle>, image: *const c_void) |driver| {
        // SAFETY: the caller gives an image; an image of the software NVRTC is a C string.
        module.give(|| unsafe { driver.module_load(image.cast()) })
    };
    /// Gives the kernel with a name.
    fn cuModuleGetFunction(function: Out<Handle>, module: Handle, name: *const c_char) |driver| {
        function.check()?;
        if name.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the caller gives a C string.
        let name = unsafe { CStr::from_ptr(name) }.to_str().map_err(|_| INVALID_VALUE)?;
        function.set(driver.module_function(module, name)?)
    };
    /// Unloads a module. Queued kernels of the module fail when they run; NVIDIA does not say what
    /// becomes of them.
    fn cuModuleUnload(module: Handle) |driver| driver.module_unload(module);
    /// Gives an attribute of a kernel; the values are those of a simple kernel.
    fn cuFuncGetAttribute(value: Out<i32>, attribute: i32, function: Handle) |driver| value.give(|| driver.function_attribute(function, attribute));
}

/// Enqueues a kernel with a copy of its arguments. The number and the types of the arguments are
/// checked as far as memory shows them for PTX, else not; `extra` is not supported.
#[no_mangle]
#[allow(non_snake_case, clippy::too_many_arguments, reason = "the driver's signature")]
pub extern "C" fn cuLaunchKernel(
    function: Handle,
    grid_x: u32,
    grid_y: u32,
    grid_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    shared: u32,
    stream: Handle,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Status {
    call(Call::cuLaunchKernel, |driver| {
        if !extra.is_null() {
            return Err(NOT_SUPPORTED);
        }
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        // SAFETY: the caller gives a pointer to each argument.
        unsafe { driver.launch(function, grid, block, shared, stream, parameters) }
    })
}
