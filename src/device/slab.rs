//! Big pieces of host memory.

use super::thread::Thread;
use super::{AppMemory, Rows};
use crate::error::{fail, Result};
use crate::process::Process;
use crate::scalar::Real;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// Which pages a slab has, where the system offers huge ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pages {
    /// Huge ones, unless a trial shows that touching them for the first time costs much more than
    /// touching ordinary ones.
    #[default]
    Measured,
    /// Huge ones.
    Huge,
    /// Ordinary ones.
    Small,
}

/// Bytes that a trial touches, in pages of each kind; a slab that is less than four times as large
/// has huge pages without a trial.
const TRIAL: usize = 16 << 20;

/// How much more time huge pages may cost at the first touch than ordinary ones. Copies to and from
/// them are 9 to 21 % faster ever after.
const DEARER: f64 = 1.5;

/// Anonymous memory, mapped in one piece. A mapping that fails is an error, never an abort.
pub struct Slab {
    address: *mut u8,
    bytes: usize,
}

// SAFETY: the slab owns its mapping; who reads and writes it when is decided by the lanes.
unsafe impl Send for Slab {}

impl Slab {
    /// `bytes` bytes of zeros.
    pub fn new(bytes: u64) -> Result<Self> {
        Self::with(bytes, Pages::Measured)
    }

    /// `bytes` bytes of zeros in such pages.
    pub fn with(bytes: u64, pages: Pages) -> Result<Self> {
        if bytes == 0 {
            return Ok(Slab { address: std::ptr::NonNull::dangling().as_ptr(), bytes: 0 });
        }
        let Some(size) = usize::try_from(bytes).ok().filter(|&size| size <= isize::MAX as usize)
        else {
            return fail!(Memory, "{bytes} bytes of snapshots do not fit the address space");
        };
        let (access, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new anonymous mapping touches no memory of anybody.
        let address = unsafe { libc::mmap(std::ptr::null_mut(), size, access, kind, -1, 0) };
        if address == libc::MAP_FAILED {
            let reason = std::io::Error::last_os_error();
            return fail!(Memory, "cannot allocate {bytes} bytes for snapshots ({reason}): lower the budgets or the number of snapshots");
        }
        let slab = Slab { address: address.cast(), bytes: size };
        match pages {
            Pages::Small => slab.advise(0, size, libc::MADV_NOHUGEPAGE),
            Pages::Measured if size >= 4 * TRIAL && slab.huge_pages_are_dear() => {
                slab.advise(TRIAL, size - TRIAL, libc::MADV_NOHUGEPAGE)
            }
            _ => slab.advise(0, size, libc::MADV_HUGEPAGE),
        };
        Ok(slab)
    }

    /// Touches a piece in huge pages and the next one in ordinary ones, which it leaves like that,
    /// and compares the time of this thread. On a virtual machine a huge page may be memory
    /// that its host has yet to find, where ordinary pages were in use before.
    fn huge_pages_are_dear(&self) -> bool {
        let touched = |from: usize, advice: i32| {
            self.advise(from, TRIAL, advice);
            let begin = thread_seconds();
            let done = self.advise(from, TRIAL, libc::MADV_POPULATE_WRITE);
            done.then(|| thread_seconds() - begin)
        };
        match (touched(0, libc::MADV_HUGEPAGE), touched(TRIAL, libc::MADV_NOHUGEPAGE)) {
            (Some(huge), Some(small)) => huge > DEARER * small,
            _ => false,
        }
    }

    /// Advises the system about `bytes` bytes from the offset `from`, which lie in the slab. No
    /// advice that is given here changes any content.
    fn advise(&self, from: usize, bytes: usize, advice: i32) -> bool {
        // SAFETY: the range is in the slab's own mapping.
        unsafe { libc::madvise(self.address.add(from).cast(), bytes, advice) == 0 }
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

    /// Starts a thread that touches every page, so that the application finds its memory there. The
    /// slab must outlive it.
    pub fn touch_ahead(&self) -> Option<Toucher> {
        let slab = Slab { address: self.address, bytes: self.bytes };
        Toucher::start(ManuallyDrop::new(slab))
    }
}

/// Seconds that this thread has computed.
fn thread_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place is this function's own.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

impl Drop for Slab {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: the mapping was made with this size, and the lanes that use it have ended.
            unsafe { libc::munmap(self.address.cast(), self.bytes) };
        }
    }
}

/// A thread that touches the pages of a slab, from its first to its last. It is best effort: a page
/// that it cannot have, or has not reached yet, comes at its first use. Dropping this ends the
/// thread.
pub struct Toucher {
    stop: Arc<AtomicBool>,
    thread: Option<Thread>,
    /// The process that has the thread; a fork does not inherit it.
    process: Process,
}

impl Toucher {
    /// Bytes between two looks at whether to go on.
    const PIECE: usize = 8 << 20;

    fn start(slab: ManuallyDrop<Slab>) -> Option<Self> {
        if slab.bytes == 0 {
            return None;
        }
        let (stop, process) = (Arc::new(AtomicBool::new(false)), Process::current());
        let stopped = stop.clone();
        let run = move || {
            let whole = slab;
            let pieces = (0..whole.bytes).step_by(Self::PIECE);
            for from in pieces.take_while(|_| !stopped.load(Ordering::Relaxed)) {
                if !whole.advise(
                    from,
                    Self::PIECE.min(whole.bytes - from),
                    libc::MADV_POPULATE_WRITE,
                ) {
                    return;
                }
            }
        };
        let thread = Thread::start(c"gpuzip-touch", run).ok()?;
        Some(Toucher { stop, thread: Some(thread), process })
    }
}

impl Drop for Toucher {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // In a forked child there is no such thread: joining it would wait for ever.
        if let Some(thread) = self.thread.take().filter(|_| self.process.is_current()) {
            thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the pages are, all of the memory is there, reads as zeros and keeps what is written
    /// while it is touched ahead.
    #[test]
    fn pages_of_any_kind_are_memory() {
        for pages in [Pages::Measured, Pages::Huge, Pages::Small] {
            for bytes in [1, 4096, 5 * TRIAL + 4097] {
                let mut slab = Slab::with(bytes as u64, pages).unwrap();
                assert!(
                    slab.bytes().iter().step_by(4096).all(|&byte| byte == 0) && slab.len() == bytes
                );
                let toucher = slab.touch_ahead();
                slab.bytes_mut().iter_mut().step_by(4096).for_each(|byte| *byte = 7);
                drop(toucher);
                assert!(
                    slab.bytes().iter().step_by(4096).all(|&byte| byte == 7)
                        && slab.bytes()[bytes - 1] < 8
                );
            }
        }
        assert!(Slab::with(0, Pages::Small).unwrap().touch_ahead().is_none());
    }

    /// A slab that goes while its pages are touched waits for that to end.
    #[test]
    fn touching_ends_with_its_owner() {
        for _ in 0..20 {
            let slab = Slab::with(1 << 30, Pages::Small).unwrap();
            drop(slab.touch_ahead());
        }
    }
}
