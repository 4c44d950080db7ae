//! Memory that ends where an inaccessible page begins: a read or write one byte beyond its end ends
//! the process, with any toolchain.

use std::ffi::c_void;
use std::ptr::null_mut;

/// Bytes of a piece: enough for the longest array or stream of an input.
const ROOM: usize = 1 << 18;
const PAGE: usize = 4096;
/// Value of the bytes before the used bytes.
const BEFORE: u8 = 0xA5;
/// Number of bytes before the used bytes that are checked.
const WATCHED: usize = 64;

/// A piece of memory with a guard page behind it. It is allocated once and used for many inputs.
pub struct Guarded {
    begin: *mut u8,
    used: usize,
}

impl Guarded {
    /// Allocates a piece with no bytes in use.
    pub fn new() -> Self {
        // SAFETY: the mapping is new; only its last page is made inaccessible.
        unsafe {
            let begin = libc::mmap(
                null_mut(),
                ROOM + PAGE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert_ne!(begin, libc::MAP_FAILED, "no memory for a guarded piece");
            assert_eq!(
                libc::mprotect(begin.cast::<u8>().add(ROOM).cast(), PAGE, libc::PROT_NONE),
                0
            );
            Guarded { begin: begin.cast(), used: 0 }
        }
    }

    /// Uses the last `bytes` bytes of the piece and fills them with `value`.
    pub fn fill(&mut self, bytes: usize, value: u8) {
        assert!(bytes + WATCHED <= ROOM, "{bytes} bytes for a guarded piece of {ROOM}");
        self.used = bytes;
        // SAFETY: both ranges are in the accessible part of the mapping.
        unsafe {
            self.address().sub(WATCHED).write_bytes(BEFORE, WATCHED);
            self.address().write_bytes(value, bytes);
        }
    }

    /// Uses the last `bytes.len()` bytes of the piece and copies `bytes` into them.
    pub fn copy(&mut self, bytes: &[u8]) {
        self.fill(bytes.len(), 0);
        self.bytes_mut().copy_from_slice(bytes);
    }

    fn address(&self) -> *mut u8 {
        // SAFETY: `used` is at most `ROOM`.
        unsafe { self.begin.add(ROOM - self.used) }
    }

    /// Returns the address of the first used byte.
    pub fn data(&mut self) -> *mut c_void {
        self.address().cast()
    }

    /// Returns the used bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the bytes are accessible, initialised and owned by this value.
        unsafe { std::slice::from_raw_parts_mut(self.address(), self.used) }
    }

    /// Returns the used bytes. Panics if the bytes before them have changed.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the bytes are accessible, initialised and owned by this value.
        let (before, used) = unsafe {
            (
                std::slice::from_raw_parts(self.address().sub(WATCHED), WATCHED),
                std::slice::from_raw_parts(self.address(), self.used),
            )
        };
        assert!(before.iter().all(|&byte| byte == BEFORE), "memory before an array was written to");
        used
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: `new` made this mapping.
        unsafe { libc::munmap(self.begin.cast(), ROOM + PAGE) };
    }
}
