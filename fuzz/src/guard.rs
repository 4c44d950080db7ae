//! Memory that ends where an inaccessible page begins: a read or write one byte too far ends the
//! process, with any toolchain.

use std::ffi::c_void;
use std::ptr::null_mut;

/// Room for the longest array or stream of an input.
const ROOM: usize = 1 << 18;
const PAGE: usize = 4096;
/// What stands before the memory in use.
const BEFORE: u8 = 0xA5;
/// How much of that is looked at.
const WATCHED: usize = 64;

/// A piece of memory with a guard page behind it, made once and used for many inputs.
pub struct Guarded {
    begin: *mut u8,
    used: usize,
}

impl Guarded {
    /// A piece of which nothing is used.
    pub fn new() -> Self {
        // SAFETY: a new mapping, of which the last page is made inaccessible.
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

    /// Uses the last `bytes` bytes, all `value`.
    pub fn fill(&mut self, bytes: usize, value: u8) {
        assert!(bytes + WATCHED <= ROOM, "{bytes} bytes for a guarded piece of {ROOM}");
        self.used = bytes;
        // SAFETY: both ranges lie in the accessible part.
        unsafe {
            self.address().sub(WATCHED).write_bytes(BEFORE, WATCHED);
            self.address().write_bytes(value, bytes);
        }
    }

    /// Uses as many bytes as these, with their contents.
    pub fn copy(&mut self, bytes: &[u8]) {
        self.fill(bytes.len(), 0);
        self.bytes_mut().copy_from_slice(bytes);
    }

    fn address(&self) -> *mut u8 {
        // SAFETY: `used` is at most `ROOM`.
        unsafe { self.begin.add(ROOM - self.used) }
    }

    /// Where the used bytes begin.
    pub fn data(&mut self) -> *mut c_void {
        self.address().cast()
    }

    /// The used bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the bytes are accessible, initialised and this value's own.
        unsafe { std::slice::from_raw_parts_mut(self.address(), self.used) }
    }

    /// The used bytes, after a look at those before them.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: as above.
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
        // SAFETY: the mapping that `new` made.
        unsafe { libc::munmap(self.begin.cast(), ROOM + PAGE) };
    }
}
