//! The slabs of a CUDA device, and the location of memory.

use super::driver::{self, cu, status};
use crate::device::slab::Slab;
use crate::device::AppMemory;
use crate::error::Result;
use cudarc::driver::sys::{CUmemorytype, CUpointer_attribute};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

/// Where memory is located.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// Ordinary or page-locked host memory.
    Host,
    /// Memory of the device with this number.
    Device(i32),
    /// Managed memory, which the host and every device can use; allocated on the device with this
    /// number.
    Managed(i32),
}

/// Determines where memory is located, without initialising CUDA. A process without a CUDA driver,
/// a process that has not initialised CUDA, and a child forked after the initialisation have host
/// memory only. If the driver cannot tell, this is an error: using device memory as host memory
/// would crash the process.
pub fn locate(memory: AppMemory) -> Result<Location> {
    if !driver::is_in_process() || driver::is_parents() {
        return Ok(Location::Host);
    }
    driver::library()?;
    if !has_pointer_attributes() {
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
    // As many attributes as values; each value has the size of its attribute.
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

/// Whether the driver can tell where memory is. The function is looked up until it is found, not for
/// every field of every call.
fn has_pointer_attributes() -> bool {
    static FOUND: AtomicBool = AtomicBool::new(false);
    if !FOUND.load(Ordering::Relaxed) {
        FOUND.store(driver::has(c"cuPointerGetAttributes"), Ordering::Relaxed);
    }
    FOUND.load(Ordering::Relaxed)
}

/// Device memory in one piece.
#[derive(Default)]
pub struct DeviceSlab {
    address: u64,
    bytes: u64,
}

impl DeviceSlab {
    /// Allocates `bytes` bytes in the current context.
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

    /// Gives up the memory without freeing it: it belongs to another process.
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

/// Host memory in one piece, page-locked if the system allows it.
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

// SAFETY: the slab owns its memory. The lanes decide who reads and writes it when.
unsafe impl Send for HostSlab {}

impl HostSlab {
    /// Allocates `bytes` bytes in the current context. Memory that cannot be page-locked stays
    /// pageable: the driver then copies through buffers of its own.
    pub fn new(bytes: u64) -> Result<Self> {
        if bytes == 0 {
            return Ok(HostSlab::None);
        }
        match Self::locked(bytes) {
            Err(error) => {
                log::warn!("{bytes} bytes of host memory cannot be page-locked ({error}): transfers will be slower and block the host");
                Slab::new(bytes).map(HostSlab::Pageable)
            }
            locked => locked,
        }
    }

    /// Allocates `bytes` bytes of page-locked memory in the current context. Kernels use the memory
    /// by the address that the host uses, as addresses are unified on 64-bit systems.
    pub fn locked(bytes: u64) -> Result<Self> {
        let mut address = std::ptr::null_mut();
        cu!(cuMemHostAlloc(&mut address, bytes as usize, 0))
            .map_err(|e| e.within(format_args!("{bytes} bytes of page-locked host memory")))?;
        Ok(HostSlab::Locked { address, bytes })
    }

    /// Gives up the memory without freeing it: it belongs to another process.
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
