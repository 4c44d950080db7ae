//! The slabs of a CUDA device, and whose memory a pointer is.

use super::driver::{self, cu};
use crate::device::slab::Slab;
use crate::device::AppMemory;
use crate::error::Result;
use cudarc::driver::sys::{CUmemorytype, CUpointer_attribute};
use std::ffi::c_void;

/// Whose memory an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// Ordinary or page-locked host memory.
    Host,
    /// Memory of this device.
    Device(i32),
    /// Managed memory, which every device and the host can use; made on this device.
    Managed(i32),
}

/// Finds out whose memory it is. A process without a CUDA driver, or one that has not initialised it, has host memory only.
pub fn locate(memory: AppMemory) -> Location {
    if !driver::is_in_process() || driver::load().is_err() {
        return Location::Host;
    }
    let pointer = memory.address as u64;
    let (mut kind, mut managed, mut ordinal) = (0u32, 0u32, 0i32);
    let ask = |value: *mut c_void, attribute| cu!(cuPointerGetAttribute(value, attribute, pointer)).is_ok();
    if !ask((&raw mut kind).cast(), CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE) {
        return Location::Host;
    }
    ask((&raw mut ordinal).cast(), CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
    ask((&raw mut managed).cast(), CUpointer_attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED);
    match kind {
        _ if managed != 0 => Location::Managed(ordinal),
        kind if kind == CUmemorytype::CU_MEMORYTYPE_DEVICE as u32 => Location::Device(ordinal),
        _ => Location::Host,
    }
}

/// Device memory in one piece.
#[derive(Default)]
pub struct DeviceSlab {
    address: u64,
    bytes: u64,
}

impl DeviceSlab {
    /// In the current context.
    pub fn new(bytes: u64) -> Result<Self> {
        let mut slab = DeviceSlab { address: 0, bytes };
        if bytes > 0 {
            if let Err(error) = cu!(cuMemAlloc_v2(&mut slab.address, bytes as usize)) {
                slab.bytes = 0;
                return Err(error.within(format_args!("{bytes} bytes of device memory")));
            }
        }
        Ok(slab)
    }

    pub fn address(&self) -> u64 {
        self.address
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for DeviceSlab {
    fn drop(&mut self) {
        if self.bytes > 0 {
            let _ = cu!(cuMemFree_v2(self.address));
        }
    }
}

/// Host memory in one piece, page-locked where the system allows it.
#[derive(Default)]
pub enum HostSlab {
    #[default]
    None,
    Locked {
        address: *mut c_void,
        bytes: u64,
    },
    Pageable(Slab),
}

impl HostSlab {
    /// In the current context. Memory that cannot be page-locked is used as it is: the driver stages its copies.
    pub fn new(bytes: u64) -> Result<Self> {
        if bytes == 0 {
            return Ok(HostSlab::None);
        }
        let mut address = std::ptr::null_mut();
        match cu!(cuMemHostAlloc(&mut address, bytes as usize, 0)) {
            Ok(()) => Ok(HostSlab::Locked { address, bytes }),
            Err(error) => {
                log::warn!("{bytes} bytes of host memory cannot be page-locked ({error}): transfers will be slower and block the host");
                Slab::new(bytes).map(HostSlab::Pageable)
            }
        }
    }

    pub fn address(&self) -> u64 {
        match self {
            HostSlab::None => 0,
            HostSlab::Locked { address, .. } => *address as u64,
            HostSlab::Pageable(slab) => slab.address() as u64,
        }
    }

    pub fn bytes(&self) -> u64 {
        match self {
            HostSlab::None => 0,
            HostSlab::Locked { bytes, .. } => *bytes,
            HostSlab::Pageable(slab) => slab.bytes() as u64,
        }
    }
}

impl Drop for HostSlab {
    fn drop(&mut self) {
        if let HostSlab::Locked { address, .. } = self {
            let _ = cu!(cuMemFreeHost(*address));
        }
    }
}
