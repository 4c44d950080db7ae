//! Slabs: large pieces of host memory.

use super::thread::{processor_time, Thread};
use super::{AppMemory, Rows};
use crate::error::{fail, Result};
use crate::scalar::Real;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// Bytes that a trial touches in pages of each kind. A slab of less than four times this size gets
/// huge pages without a trial.
const TRIAL: usize = 16 << 20;

/// The largest ratio of first-touch times, huge over ordinary pages, for which huge pages are
/// taken. Later copies to and from huge pages are 9 to 21 % faster.
const DEARER: f64 = 1.5;

/// Bytes that a `Toucher` touches between two checks whether to stop.
const TOUCHED: usize = 8 << 20;

/// Anonymous memory, mapped in one piece. If the mapping fails, the caller gets an error.
pub struct Slab {
    address: *mut u8,
    bytes: usize,
}

// SAFETY: the slab owns its mapping. The lanes decide who reads and writes it when.
unsafe impl Send for Slab {}

impl Slab {
    /// Maps `bytes` bytes of zeros. Their pages are huge if the system offers huge pages, unless a
    /// trial shows that the first touch of huge pages costs much more than that of ordinary pages.
    pub fn new(bytes: u64) -> Result<Self> {
        let slab = Self::map(bytes, 0)?;
        let size = slab.bytes;
        if size >= 4 * TRIAL && slab.huge_pages_are_dear() {
            slab.advise(TRIAL, size - TRIAL, libc::MADV_NOHUGEPAGE);
        } else if size > 0 {
            slab.advise(0, size, libc::MADV_HUGEPAGE);
        }
        Ok(slab)
    }

    /// Maps `bytes` bytes of zeros in huge pages for page-locking. A part of them may never be
    /// used: the system promises no memory for them. A forked child does not have the mapping, so
    /// that a fork does not move pages to which a device writes. Pages come from the NUMA node
    /// `node` as long as it has free ones, wherever the thread runs that touches them first: a
    /// device reaches the memory of other nodes through the link between processors only.
    pub fn to_lock(bytes: u64, node: Option<u32>) -> Result<Self> {
        let slab = Self::map(bytes, libc::MAP_NORESERVE)?;
        if slab.bytes > 0 {
            slab.advise(0, slab.bytes, libc::MADV_HUGEPAGE);
            slab.advise(0, slab.bytes, libc::MADV_DONTFORK);
            node.into_iter().for_each(|node| slab.prefer(node));
        }
        Ok(slab)
    }

    /// Asks the system for pages of the NUMA node `node`. A system that refuses gives pages of the
    /// node of the thread that touches them first, which are as right.
    fn prefer(&self, node: u32) {
        const NODES: usize = 1024;
        let mut nodes = [0u64; NODES / 64];
        let Some(word) = nodes.get_mut(node as usize / 64) else { return };
        *word |= 1 << (node % 64);
        // SAFETY: the range is the slab's own mapping, of which no page is touched yet; the system
        // reads `NODES` bits of `nodes`. It reads one bit less than it is told.
        unsafe {
            let (at, length) = (self.address, self.bytes);
            let set = nodes.as_ptr();
            libc::syscall(libc::SYS_mbind, at, length, libc::MPOL_PREFERRED, set, NODES + 1, 0);
        }
    }

    fn map(bytes: u64, flags: i32) -> Result<Self> {
        if bytes == 0 {
            return Ok(Slab { address: std::ptr::NonNull::dangling().as_ptr(), bytes: 0 });
        }
        let Some(size) = usize::try_from(bytes).ok().filter(|&size| size <= isize::MAX as usize)
        else {
            return fail!(Memory, "{bytes} bytes of snapshots do not fit the address space");
        };
        let (access, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags);
        // SAFETY: a new anonymous mapping touches no memory that is in use.
        let address = unsafe { libc::mmap(std::ptr::null_mut(), size, access, kind, -1, 0) };
        if address == libc::MAP_FAILED {
            let reason = std::io::Error::last_os_error();
            return fail!(Memory, "cannot allocate {bytes} bytes for snapshots ({reason}): lower the budgets or the number of snapshots");
        }
        Ok(Slab { address: address.cast(), bytes: size })
    }

    /// Touches one piece of the slab in huge pages and the next piece in ordinary pages, and
    /// compares the computing times of this thread. On a virtual machine, the hypervisor may have
    /// to find memory for a huge page, whereas ordinary pages were in use before. The pieces keep
    /// their kinds of pages.
    fn huge_pages_are_dear(&self) -> bool {
        let touched = |from: usize, advice: i32| {
            self.advise(from, TRIAL, advice);
            let begin = processor_time().as_secs_f64();
            let done = self.advise(from, TRIAL, libc::MADV_POPULATE_WRITE);
            done.then(|| processor_time().as_secs_f64() - begin)
        };
        match (touched(0, libc::MADV_HUGEPAGE), touched(TRIAL, libc::MADV_NOHUGEPAGE)) {
            (Some(huge), Some(small)) => huge > DEARER * small,
            _ => false,
        }
    }

    /// Advises the system about `bytes` bytes from the offset `from`; true if the system took the
    /// advice. No advice in this file changes the content of memory.
    fn advise(&self, from: usize, bytes: usize, advice: i32) -> bool {
        // SAFETY: the range lies in the slab's own mapping.
        unsafe { libc::madvise(self.address.add(from).cast(), bytes, advice) == 0 }
    }

    /// Address of the first byte.
    pub fn address(&self) -> *mut u8 {
        self.address
    }

    pub fn len(&self) -> usize {
        self.bytes
    }

    /// All bytes of the slab.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the slab's own mapping, or no byte at all. Any bytes are valid values.
        unsafe { std::slice::from_raw_parts(self.address, self.bytes) }
    }

    /// All bytes of the slab, for writing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the slab's own mapping, or no byte at all, borrowed mutably with the slab.
        unsafe { std::slice::from_raw_parts_mut(self.address, self.bytes) }
    }

    /// All bytes of the slab, as values of type `T`.
    pub fn values_mut<T: Real>(&mut self) -> &mut [T] {
        if self.bytes == 0 {
            return &mut [];
        }
        // SAFETY: as in `bytes_mut`. Pages are aligned for `T`, and any bytes are valid values.
        unsafe { std::slice::from_raw_parts_mut(self.address.cast(), self.bytes / T::BYTES) }
    }

    /// The whole slab, as memory that a lane may copy.
    pub fn memory(&self) -> AppMemory {
        AppMemory { address: self.address, rows: Rows::contiguous(self.bytes) }
    }

    /// Starts a thread that touches every page, so that the application does not wait for pages at
    /// first use. The slab must outlive the returned [`Toucher`].
    pub fn touch_ahead(&self) -> Option<Toucher> {
        if self.bytes == 0 {
            return None;
        }
        let slab = ManuallyDrop::new(Slab { address: self.address, bytes: self.bytes });
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let run = move || {
            let whole = slab;
            let pieces = (0..whole.bytes).step_by(TOUCHED);
            for from in pieces.take_while(|_| !stopped.load(Ordering::Relaxed)) {
                let bytes = TOUCHED.min(whole.bytes - from);
                if !whole.advise(from, bytes, libc::MADV_POPULATE_WRITE) {
                    return;
                }
            }
        };
        let thread = Thread::start(c"gpuzip-touch", run).ok()?;
        Some(Toucher { stop, thread: Some(thread) })
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

/// A thread that touches the pages of a slab in order, until the `Toucher` is dropped. It is a help
/// only: a page that it has not touched comes at its first use.
pub struct Toucher {
    stop: Arc<AtomicBool>,
    thread: Option<Thread>,
}

impl Drop for Toucher {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().into_iter().for_each(Thread::join);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages read as zeros and keep what is written while they are touched ahead.
    #[test]
    fn pages_are_memory() {
        for bytes in [1, 4096, 5 * TRIAL + 4097] {
            let mut slab = Slab::new(bytes as u64).unwrap();
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
        assert!(Slab::new(0).unwrap().touch_ahead().is_none());
    }

    /// A slab that is dropped while its pages are touched waits for the end of the thread.
    #[test]
    fn touching_ends_with_its_owner() {
        for _ in 0..20 {
            let slab = Slab::new(1 << 30).unwrap();
            drop(slab.touch_ahead());
        }
    }
}
