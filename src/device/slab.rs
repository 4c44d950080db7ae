//! Big pieces of host memory.

use super::{AppMemory, Rows};
use crate::codec::Real;
use crate::error::{fail, Result};

/// Anonymous memory, mapped in one piece with huge pages where the system has them. A mapping that fails is an error, never an abort.
pub struct Slab {
    address: *mut u8,
    bytes: usize,
}

// SAFETY: the slab owns its mapping; who reads and writes it when is decided by the lanes.
unsafe impl Send for Slab {}

impl Slab {
    /// `bytes` bytes of zeros.
    pub fn new(bytes: u64) -> Result<Self> {
        if bytes == 0 {
            return Ok(Slab { address: std::ptr::NonNull::dangling().as_ptr(), bytes: 0 });
        }
        let Some(size) = usize::try_from(bytes).ok().filter(|&size| size <= isize::MAX as usize) else {
            return fail!(Memory, "{bytes} bytes of snapshots do not fit the address space");
        };
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new anonymous mapping touches no memory of anybody.
        let address = unsafe { libc::mmap(std::ptr::null_mut(), size, access, kind, -1, 0) };
        if address == libc::MAP_FAILED {
            let reason = std::io::Error::last_os_error();
            return fail!(Memory, "cannot allocate {bytes} bytes for snapshots ({reason}): lower the budgets or the number of snapshots");
        }
        // SAFETY: the range is the mapping just made; the advice changes no content.
        unsafe { libc::madvise(address, size, libc::MADV_HUGEPAGE) };
        Ok(Slab { address: address.cast(), bytes: size })
    }

    /// Its first byte.
    pub fn address(&self) -> *mut u8 {
        self.address
    }

    /// Its size.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the slab's own mapping, or no byte; any bytes are valid.
        unsafe { std::slice::from_raw_parts(self.address, self.bytes) }
    }

    /// Its bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, borrowed from the slab.
        unsafe { std::slice::from_raw_parts_mut(self.address, self.bytes) }
    }

    /// Its bytes as values.
    pub fn values_mut<T: Real>(&mut self) -> &mut [T] {
        if self.bytes == 0 {
            return &mut [];
        }
        // SAFETY: as above; pages are aligned, and any bytes are values.
        unsafe { std::slice::from_raw_parts_mut(self.address.cast(), self.bytes / T::BYTES) }
    }

    /// All of it, as memory that a lane may copy.
    pub fn memory(&self) -> AppMemory {
        AppMemory { address: self.address, rows: Rows::contiguous(self.bytes) }
    }

    /// Touches every page, so that no shot pays for page faults. Best effort: a page that cannot be had now is had at its first use.
    pub fn populate(&mut self) {
        if self.bytes > 0 {
            // SAFETY: the range is this slab's own mapping.
            unsafe { libc::madvise(self.address.cast(), self.bytes, libc::MADV_POPULATE_WRITE) };
        }
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: the mapping was made with this size, and the lanes that use it have ended.
            unsafe { libc::munmap(self.address.cast(), self.bytes) };
        }
    }
}
