//! Memory between pages without access: an access beside it ends the process.

pub const PAGE: usize = 4096;

/// Whole pages of zeros, between two pages without access.
pub struct Guarded {
    at: *mut u8,
    bytes: usize,
}

impl Guarded {
    /// Makes memory of at least `bytes` bytes.
    pub fn new(bytes: usize) -> Self {
        let bytes = bytes.next_multiple_of(PAGE);
        // SAFETY: new pages, of which the first and the last stay without access.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let all = bytes + 2 * PAGE;
            let pages = libc::mmap(std::ptr::null_mut(), all, libc::PROT_NONE, flags, -1, 0);
            assert_ne!(pages, libc::MAP_FAILED);
            let at = pages.cast::<u8>().add(PAGE);
            let access = libc::PROT_READ | libc::PROT_WRITE;
            assert_eq!(libc::mprotect(at.cast(), bytes, access), 0);
            Guarded { at, bytes }
        }
    }

    pub fn all(&mut self) -> &mut [u8] {
        // SAFETY: the accessible pages, which `self` owns.
        unsafe { std::slice::from_raw_parts_mut(self.at, self.bytes) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the pages that `new` mapped, to which no reference is left.
        unsafe { libc::munmap(self.at.sub(PAGE).cast(), self.bytes + 2 * PAGE) };
    }
}
