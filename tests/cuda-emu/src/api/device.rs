//! Initialisation, errors and devices.

use super::{exports, Out};
use crate::status::{name, Status, INVALID_VALUE, NOT_FOUND, NO_DEVICE};
use std::ffi::{c_char, CStr};

/// The name that `cuDeviceGetName` gives.
const NAME: &CStr = c"gpuzip software device";

exports! {
    /// Initialises the driver; all other calls fail before this call.
    fn cuInit(flags: u32) |driver| {
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        if driver.devices.is_empty() {
            return Err(NO_DEVICE);
        }
        driver.initialised = true;
        Ok(())
    };
    /// Gives the CUDA version, `1000 * major + 10 * minor`.
    fn cuDriverGetVersion(version: Out<i32>) |driver| version.set(driver.settings.version);
    /// Gives the name of an error code.
    fn cuGetErrorName(code: Status, text: Out<*const c_char>) |_| {
        text.set(name(code).map_or(std::ptr::null(), CStr::as_ptr))?;
        name(code).map(|_| ()).ok_or(INVALID_VALUE)
    };
    /// Gives the number of devices.
    fn cuDeviceGetCount(count: Out<i32>) |driver| count.set(driver.devices.len() as i32);
    /// Gives the device with the number `ordinal`.
    fn cuDeviceGet(device: Out<i32>, ordinal: i32) |driver| device.set(driver.device(ordinal)? as i32);
    /// Writes the name of a device, at most `len` bytes with the NUL.
    fn cuDeviceGetName(name: Out<c_char>, len: i32, device: i32) |driver| {
        driver.device(device)?;
        name.check()?;
        let len = usize::try_from(len).ok().filter(|len| *len > 0).ok_or(INVALID_VALUE)?;
        let text = &NAME.to_bytes()[..NAME.to_bytes().len().min(len - 1)];
        // SAFETY: the caller promises `len` bytes at `name`; the text and its NUL take no more.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr(), name.0.cast(), text.len());
            name.0.add(text.len()).write(0);
        }
        Ok(())
    };
    /// Gives the value of a device attribute.
    fn cuDeviceGetAttribute(value: Out<i32>, attribute: i32, device: i32) |driver| {
        driver.device(device)?;
        let known = match attribute {
            88 => Some(driver.settings.pageable_access),
            40 => Some(driver.settings.copy_engines),
            75 => Some(driver.settings.architecture / 10),
            76 => Some(driver.settings.architecture % 10),
            _ => device_attribute(attribute, device),
        };
        value.set(known.ok_or(INVALID_VALUE)?)
    };
    /// Gives the memory of a device in bytes.
    fn cuDeviceTotalMem_v2(bytes: Out<usize>, device: i32) |driver| {
        driver.device(device)?;
        bytes.set(driver.settings.memory as usize)
    };
}

/// Returns the value of a `CUdevice_attribute`, but the compute capability and pageable access: the value of an ordinary
/// device, or 0 for a feature that this driver does not have.
fn device_attribute(attribute: i32, device: i32) -> Option<i32> {
    let known = match attribute {
        1..=3 => 1024,        // threads per block, block dimensions x and y
        4 => 64,              // block dimension z
        5 => i32::MAX,        // grid dimension x
        6 | 7 => 65_535,      // grid dimensions y and z
        8 => 48 << 10,        // shared memory per block
        10 => 32,             // warp size
        13 | 36 => 1_400_000, // clock and memory clock, kHz
        16 => 108,            // multiprocessors
        33 => device + 1,     // PCI bus
        // overlap, map, concurrency, unified addressing, priorities, managed, register, mapping, pools
        15 | 19 | 31 | 41 | 78 | 83 | 91 | 99 | 102 | 115 => 1,
        37 => 5120,           // bus width, bits
        38 => 40 << 20,       // L2
        39 => 2048,           // threads per multiprocessor
        81 | 97 => 163 << 10, // shared memory per multiprocessor, and opt-in per block
        _ => 0,
    };
    (1..=160).contains(&attribute).then_some(known)
}

/// Gives none of NVIDIA's private tables: NVRTC asks for one when it finds a libcuda.
#[no_mangle]
#[allow(non_snake_case, reason = "the name is the driver's")]
pub extern "C" fn cuGetExportTable(table: Out<usize>, _id: *const u8) -> Status {
    let _ = table.set(0);
    NOT_FOUND
}
