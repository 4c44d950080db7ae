//! The slabs of a CUDA device, and whose memory a pointer is.

use super::driver::{self, cu, status};
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

/// Finds out whose memory it is, without initialising CUDA: a process without a driver, one that
/// has not initialised it, or a child that was forked since, has host memory only. That the driver
/// cannot tell is an error: to take device memory for host memory would be the end of the process.
pub fn locate(memory: AppMemory) -> Result<Location> {
    if !driver::is_in_process() || driver::is_parents() {
        return Ok(Location::Host);
    }
    driver::library()?;
    if !driver::has(c"cuPointerGetAttributes") {
        return Ok(Location::Host);
    }
    let (mut kind, mut managed, mut ordinal) = (0u32, 0u32, 0i32);
    let mut attributes = [
        CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        CUpointer_attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
    ];
    let mut values =
        [(&raw mut kind).cast::<c_void>(), (&raw mut managed).cast(), (&raw mut ordinal).cast()];
    // As many attributes as places, each of its attribute's size.
    let result = status!(cuPointerGetAttributes(
        3,
        attributes.as_mut_ptr(),
        values.as_mut_ptr(),
        memory.address as u64
    ));
    if result == driver::NOT_INITIALIZED {
        return Ok(Location::Host);
    }
    driver::check(result, "cuPointerGetAttributes")?;
    Ok(match kind {
        _ if managed != 0 => Location::Managed(ordinal),
        kind if kind == CUmemorytype::CU_MEMORYTYPE_DEVICE as u32 => Location::Device(ordinal),
        _ => Location::Host,
    })
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

    /// Leaves the memory to the process that owns it.
    pub fn forget(self) {
        std::mem::forget(self);
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

// SAFETY: the slab owns its memory; who reads and writes it when is decided by the lanes.
unsafe impl Send for HostSlab {}

impl HostSlab {
    /// In the current context. Memory that cannot be page-locked is used as it is: the driver
    /// stages its copies.
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

    /// Leaves the memory to the process that owns it.
    pub fn forget(self) {
        std::mem::forget(self);
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
            HostSlab::Pageable(slab) => slab.len() as u64,
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
