//! The slabs of a CUDA device, and the location of memory.

use super::driver::{self, cu, status};
use crate::device::slab::Slab;
use crate::device::AppMemory;
use crate::error::Result;
use cudarc::driver::sys::{CUmemorytype, CUpointer_attribute};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Where memory is located.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// Ordinary or page-locked host memory.
    Host,
    /// Memory of the device with this number.
    Device(i32),
    /// Managed memory, allocated on this device, which the host and every device can use.
    Managed(i32),
}

/// Determines where memory is located, without initialising CUDA. A process without a CUDA driver,
/// a process that has not initialised CUDA, and a child forked after the initialisation have host
/// memory only. If the driver cannot tell, this is an error: using device memory as host memory
/// would crash the process.
pub fn locate(memory: AppMemory) -> Result<Location> {
    Ok(match attributes_of(memory.address() as u64)? {
        Attributes { managed, ordinal, .. } if managed != 0 => Location::Managed(ordinal),
        Attributes { kind, ordinal, .. } if kind == CUmemorytype::CU_MEMORYTYPE_DEVICE as u32 => {
            Location::Device(ordinal)
        }
        _ => Location::Host,
    })
}

/// Whether memory is page-locked host memory, which kernels can write.
pub fn is_page_locked(memory: AppMemory) -> Result<bool> {
    let found = attributes_of(memory.address() as u64)?;
    Ok(found.managed == 0 && found.kind == CUmemorytype::CU_MEMORYTYPE_HOST as u32)
}

/// What the driver says of memory: a `CUmemorytype`, 0 for memory that it does not know; whether the memory is
/// managed; and its device.
#[derive(Default)]
struct Attributes {
    kind: u32,
    managed: u32,
    ordinal: i32,
}

fn attributes_of(address: u64) -> Result<Attributes> {
    if !driver::is_in_process() || driver::is_parents() {
        return Ok(Attributes::default());
    }
    driver::library()?;
    // The function is looked up until it is found, not for every field of every call.
    static FOUND: AtomicBool = AtomicBool::new(false);
    if !FOUND.load(Ordering::Relaxed) && !driver::has("cuPointerGetAttributes") {
        return Ok(Attributes::default());
    }
    FOUND.store(true, Ordering::Relaxed);
    let mut found = Attributes::default();
    let mut attributes = [
        CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        CUpointer_attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
    ];
    let mut values = [
        (&raw mut found.kind).cast::<c_void>(),
        (&raw mut found.managed).cast(),
        (&raw mut found.ordinal).cast(),
    ];
    // As many attributes as values; each value has the size of its attribute.
    let names = attributes.as_mut_ptr();
    let result = status!(cuPointerGetAttributes(3, names, values.as_mut_ptr(), address));
    if [driver::NOT_INITIALIZED, driver::STUB_LIBRARY].contains(&result) {
        return Ok(Attributes::default());
    }
    driver::check(result, "cuPointerGetAttributes").map(|()| found)
}

/// Device memory in one piece.
#[derive(Default)]
pub struct DeviceSlab {
    pub address: u64,
    pub bytes: u64,
}

impl DeviceSlab {
    /// Allocates `bytes` bytes in the current context.
    pub fn new(bytes: u64) -> Result<Self> {
        let mut address = 0;
        if bytes > 0 {
            cu!(cuMemAlloc_v2(&mut address, bytes as usize))
                .map_err(|e| e.within(format_args!("{bytes} bytes of device memory")))?;
        }
        Ok(DeviceSlab { address, bytes })
    }
}

impl Drop for DeviceSlab {
    fn drop(&mut self) {
        if self.bytes > 0 {
            let _ = cu!(cuMemFree_v2(self.address));
        }
    }
}

/// Page-locked host memory of the driver. Kernels use the memory by the address that the host uses,
/// as addresses are unified on 64-bit systems.
pub struct LockedMemory(*mut c_void);

// SAFETY: the memory belongs to this object; events decide who reads and writes it when.
unsafe impl Send for LockedMemory {}

impl LockedMemory {
    /// Allocates `bytes` bytes in the current context.
    pub fn new(bytes: u64) -> Result<Self> {
        let mut address = std::ptr::null_mut();
        cu!(cuMemHostAlloc(&mut address, bytes as usize, 0))
            .map_err(|e| e.within(format_args!("{bytes} bytes of page-locked host memory")))?;
        Ok(LockedMemory(address))
    }

    pub fn address(&self) -> u64 {
        self.0 as u64
    }
}

impl Drop for LockedMemory {
    fn drop(&mut self) {
        let _ = cu!(cuMemFreeHost(self.0));
    }
}

/// Bytes of a segment: the part of the host memory that is page-locked in one call. A pool that
/// grows by a segment has at most this number of bytes page-locked for nothing, and the save that
/// needs them waits for one call.
static SEGMENT: AtomicU64 = AtomicU64::new(256 << 20);

/// Sets the bytes of a segment for all slabs that are made later: for tests, whose slabs are small.
#[doc(hidden)]
pub fn set_segment_bytes(bytes: u64) {
    SEGMENT.store(bytes.max(1), Ordering::Relaxed);
}

/// Host memory at contiguous addresses, which is page-locked segment by segment as far as the
/// system allows. The driver copies from and to the rest through buffers of its own.
#[derive(Default)]
pub struct HostSlab {
    slab: Option<Slab>,
    segment: u64,
    /// Bytes from the start that are page-locked: whole segments, or all bytes.
    locked: u64,
    /// Bytes from the start that are to be page-locked.
    wanted: u64,
    /// Whether a segment could not be page-locked; none is tried afterwards.
    is_refused: bool,
}

impl HostSlab {
    /// Maps `bytes` bytes by [`Slab::to_lock`], and page-locks none.
    pub fn new(bytes: u64, node: Option<u32>) -> Result<Self> {
        let slab = (bytes > 0).then(|| Slab::to_lock(bytes, node)).transpose()?;
        Ok(HostSlab { slab, segment: SEGMENT.load(Ordering::Relaxed), ..Default::default() })
    }

    /// Notes that the first `bytes` bytes are to be page-locked; true if `lock` has to be called.
    pub fn want(&mut self, bytes: u64) -> bool {
        self.wanted = self.wanted.max(bytes.min(self.bytes()));
        self.locked < self.wanted && !self.is_refused
    }

    /// Page-locks the segments of the wanted bytes in the current context, as the system allows.
    pub fn lock(&mut self) {
        while self.want(0) {
            let size = self.segment.min(self.bytes() - self.locked);
            let at = (self.address() + self.locked) as *mut c_void;
            match cu!(cuMemHostRegister_v2(at, size as usize, 0)) {
                Ok(()) => self.locked += size,
                Err(error) => {
                    self.is_refused = true;
                    log::warn!(
                        "{} bytes of host memory are page-locked, and {size} bytes more cannot be ({error}): copies of snapshots beyond these \
                         bytes are slower and block the host; lower host_budget, or raise the limit of locked memory (ulimit -l)",
                        self.locked
                    );
                }
            }
        }
    }

    /// Bytes that were to be page-locked and are not.
    pub fn pageable_bytes(&self) -> u64 {
        self.wanted.saturating_sub(self.locked)
    }

    /// Splits `bytes` bytes from `offset` on at multiples of `longest` and at the borders of
    /// segments: one call of the driver cannot copy bytes that are page-locked in part, or by two
    /// calls. Returns the offset of each part within these bytes, and its bytes.
    pub fn parts(&self, offset: u64, bytes: u64, longest: u64) -> impl Iterator<Item = (u64, u64)> {
        let (segment, end) = (self.segment.max(1), offset + bytes);
        let mut at = offset;
        std::iter::from_fn(move || {
            let to_border = |every: u64| every - at % every;
            let part = to_border(segment).min(to_border(longest)).min(end - at);
            let begin = at - offset;
            at += part;
            (part > 0).then_some((begin, part))
        })
    }

    pub fn address(&self) -> u64 {
        self.slab.as_ref().map_or(0, |slab| slab.address() as u64)
    }

    pub fn bytes(&self) -> u64 {
        self.slab.as_ref().map_or(0, |slab| slab.len() as u64)
    }
}

impl Drop for HostSlab {
    fn drop(&mut self) {
        let mut at = 0;
        while at < self.locked {
            if cu!(cuMemHostUnregister((self.address() + at) as *mut c_void)).is_err() {
                // The driver may still use the pages: they stay mapped.
                self.slab.take().into_iter().for_each(std::mem::forget);
                return;
            }
            at += self.segment;
        }
    }
}
