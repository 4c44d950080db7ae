//! The allocator of the library. Rust aborts the process if an allocation fails whose caller cannot
//! handle the failure, such as the allocation of a box, a text or a list of fields. If the system
//! refuses such a request, this allocator serves it from a reserve of static memory. The reserve
//! does not serve requests above `LARGEST` bytes: their size depends on steps, snapshots, values or
//! files, and their callers use `fallible_vec`, which reports the failure.
//!
//! A smaller request whose caller handles the failure (`may_fail`) is not served from the reserve
//! either: the reserve is for the requests that cannot fail.
//!
//! A sequence of calls cannot use up the reserve: while blocks of the reserve are in use and the
//! system has no memory, `lease` admits a call into the library only if the reserve has as many
//! free bytes as a call may need. Blocks are taken and given back by single atomic operations, so
//! that any thread may do so at any time. A forked child forgets the leases of its parent's
//! threads.
//!
//! The feature `reserve`, which is on by default for the C libraries, makes this the allocator of
//! the whole program. Without the feature the program keeps its own allocator, and Rust aborts the
//! process where this file says that the reserve serves a request.

use crate::process::{Count, Process};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Blocks in a group, whose use the bits of one word describe. A request gets at most one group.
const GROUP: usize = 64;
/// Number of groups of small blocks, and bytes of a small block. Small requests take large blocks
/// when no small blocks are free.
const SMALL: (usize, usize) = (128, 256);
/// Number of groups of large blocks, and bytes of a large block.
const LARGE: (usize, usize) = (24, 4096);
const SMALL_BYTES: usize = SMALL.0 * GROUP * SMALL.1;
/// Bytes of the reserve: 8 MiB. The zeros are not stored in the library's file, and they take
/// address space but no memory until they are used.
const BYTES: usize = SMALL_BYTES + LARGE.0 * GROUP * LARGE.1;

/// Bytes of the largest request that the reserve serves: enough for a list with one item for each
/// of the 1024 fields of a state. The caller of a larger request must handle its failure.
pub const LARGEST: usize = 128 << 10;

/// Bytes of the reserve that one call may use: more than any call of the C ABI was seen to use
/// (tests/c/oom.c).
const OF_A_CALL: usize = 512 << 10;
/// Bytes that are not leased: for calls of other threads that began before memory ran out.
const UNLEASED: usize = BYTES / 2;

#[repr(C, align(4096))]
struct Memory(UnsafeCell<[u8; BYTES]>);

// SAFETY: a byte belongs to the owner of its block, as the bits of `TAKEN` say; the reserve itself
// never reads or writes the bytes.
unsafe impl Sync for Memory {}

static MEMORY: Memory = Memory(UnsafeCell::new([0; BYTES]));
/// One bit for each block, small blocks first; the bit is set while the block is in use.
static TAKEN: [AtomicU64; SMALL.0 + LARGE.0] = [const { AtomicU64::new(0) }; SMALL.0 + LARGE.0];
/// Bytes of the blocks in use.
static USED: AtomicUsize = AtomicUsize::new(0);
/// Bytes that are leased to calls in progress.
static LEASED: Count = Count::new();

thread_local! {
    /// Whether the caller of the current request of this thread handles its failure.
    static MAY_FAIL: Cell<bool> = const { Cell::new(false) };
}

/// Runs a request for memory whose caller handles the failure: the reserve does not serve it.
#[inline]
pub fn may_fail<R>(request: impl FnOnce() -> R) -> R {
    let before = MAY_FAIL.replace(true);
    let result = request();
    MAY_FAIL.set(before);
    result
}

/// The system's allocator, with the reserve behind it.
pub struct Allocator;

#[cfg_attr(feature = "reserve", global_allocator)]
#[cfg_attr(not(feature = "reserve"), allow(dead_code))]
static ALLOCATOR: Allocator = Allocator;

// SAFETY: memory comes from the system's allocator or from the reserve, which gives every block to
// one owner at a time; the address tells which of the two it comes from.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `alloc`, which is the same for the system.
        let memory = unsafe { System.alloc(layout) };
        if memory.is_null() {
            return take(layout);
        }
        memory
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract, which is the same for the system.
        let memory = unsafe { System.alloc_zeroed(layout) };
        if !memory.is_null() {
            return memory;
        }
        let memory = take(layout);
        if !memory.is_null() {
            // SAFETY: `take` has just given this memory, `layout.size()` bytes.
            unsafe { memory.write_bytes(0, layout.size()) };
        }
        memory
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        match offset_of(memory) {
            // SAFETY: the memory is not in the reserve, so the system gave it, with this layout.
            None => unsafe { System.dealloc(memory, layout) },
            Some(offset) => give(offset, layout),
        }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if offset_of(memory).is_none() {
            // SAFETY: the memory is not in the reserve, so the system gave it, with this layout.
            let grown = unsafe { System.realloc(memory, layout, size) };
            if !grown.is_null() || size > LARGEST {
                return grown;
            }
        }
        // SAFETY: the caller promises that the size is not 0 and fits the alignment. The old memory
        // has `layout.size()` bytes and the new memory `size` bytes, and they do not overlap.
        unsafe {
            let moved = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !moved.is_null() {
                moved.copy_from_nonoverlapping(memory, size.min(layout.size()));
                self.dealloc(memory, layout);
            }
            moved
        }
    }
}

fn start() -> *mut u8 {
    MEMORY.0.get().cast()
}

/// Returns the offset of an address in the reserve; `None` if the address is not in the reserve.
#[inline(always)]
fn offset_of(memory: *mut u8) -> Option<usize> {
    let offset = (memory as usize).wrapping_sub(start() as usize);
    (offset < BYTES).then_some(offset)
}

/// A group of blocks: its word of `TAKEN`, the bytes of a block, and the offset of the first block
/// in the reserve.
struct Group {
    taken: &'static AtomicU64,
    block: usize,
    first: usize,
}

impl Group {
    fn new(k: usize) -> Self {
        let (block, first) = match k.checked_sub(SMALL.0) {
            None => (SMALL.1, k * GROUP * SMALL.1),
            Some(k) => (LARGE.1, SMALL_BYTES + k * GROUP * LARGE.1),
        };
        Group { taken: &TAKEN[k], block, first }
    }

    /// Returns the group that contains the byte at `offset` in the reserve.
    fn at(offset: usize) -> Self {
        match offset.checked_sub(SMALL_BYTES) {
            None => Self::new(offset / (GROUP * SMALL.1)),
            Some(beyond) => Self::new(SMALL.0 + beyond / (GROUP * LARGE.1)),
        }
    }

    /// Returns the number of blocks that a request takes.
    fn blocks(&self, layout: Layout) -> usize {
        layout.size().div_ceil(self.block).max(1)
    }

    /// Takes adjacent blocks, and returns the offset of the first one in the reserve; `None` if the
    /// group has no such gap.
    fn take(&self, layout: Layout) -> Option<usize> {
        let blocks = self.blocks(layout);
        if blocks > GROUP || layout.align() > self.block {
            return None;
        }
        let mut taken = self.taken.load(Ordering::Relaxed);
        loop {
            let at = first_gap(taken, blocks)?;
            match self.taken.compare_exchange_weak(
                taken,
                taken | bits(blocks) << at,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    USED.fetch_add(blocks * self.block, Ordering::Relaxed);
                    return Some(self.first + at * self.block);
                }
                Err(now) => taken = now,
            }
        }
    }

    /// Gives back the blocks that `take` took.
    fn give(&self, offset: usize, layout: Layout) {
        let (blocks, at) = (self.blocks(layout), (offset - self.first) / self.block);
        self.taken.fetch_and(!(bits(blocks) << at), Ordering::Release);
        USED.fetch_sub(blocks * self.block, Ordering::Relaxed);
    }
}

/// Returns a word whose lowest `count` bits are set; `count` is 1 to 64.
fn bits(count: usize) -> u64 {
    u64::MAX >> (GROUP - count)
}

/// Returns the lowest position from which on `count` bits of `taken` are clear.
fn first_gap(taken: u64, count: usize) -> Option<usize> {
    let (mut begins, mut length) = (!taken, 1);
    while length < count {
        let more = length.min(count - length);
        begins &= begins >> more;
        length += more;
    }
    (begins != 0).then(|| begins.trailing_zeros() as usize)
}

/// Returns memory of the reserve; null if the request is too large, if its caller handles the
/// failure, or if too few blocks are free.
#[cold]
fn take(layout: Layout) -> *mut u8 {
    // While a thread ends, its flag may be gone already: the request is then served.
    if layout.size() > LARGEST || MAY_FAIL.try_with(Cell::get).unwrap_or(false) {
        return std::ptr::null_mut();
    }
    let offset = (0..TAKEN.len()).find_map(|k| Group::new(k).take(layout));
    offset.map_or(std::ptr::null_mut(), |offset| start().wrapping_add(offset))
}

#[cold]
fn give(offset: usize, layout: Layout) {
    Group::at(offset).give(offset, layout);
}

/// The right of one call to use bytes of the reserve, and the process that gave the right.
pub struct Lease(usize, Process);

/// Admits a call. Returns `None` if the system has no memory and the rest of the reserve might be
/// less than the call needs, unless the call `is_needed`, because it frees memory or because other
/// ranks wait for it. Other calls are admitted only if the reserve has enough for both.
#[inline(always)]
pub fn lease(is_needed: bool) -> Option<Lease> {
    if USED.load(Ordering::Relaxed) == 0 {
        return Some(Lease(0, Process::current()));
    }
    lease_of(|| is_needed || has_memory())
}

/// Returns whether the system can give as many bytes as a call may need.
fn has_memory() -> bool {
    let Ok(layout) = Layout::from_size_align(OF_A_CALL, 16) else { return false };
    // SAFETY: the size is above 0, and the memory is given back at once with the same layout.
    unsafe {
        let memory = System.alloc(layout);
        if !memory.is_null() {
            System.dealloc(memory, layout);
        }
        !memory.is_null()
    }
}

#[cold]
fn lease_of(has_memory: impl FnOnce() -> bool) -> Option<Lease> {
    let leased = LEASED.add(OF_A_CALL as u64) as usize;
    let lease = Lease(OF_A_CALL, Process::current());
    let used = USED.load(Ordering::Relaxed);
    (used.saturating_add(leased) <= BYTES - UNLEASED || has_memory()).then_some(lease)
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.0 > 0 && self.1.is_current() {
            LEASED.take(self.0 as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::Mutex;

    /// The tests run one at a time, because they share the reserve of the process.
    static ALONE: Mutex<()> = Mutex::new(());

    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes, 8).unwrap()
    }

    fn give_back(memory: *mut u8, bytes: usize) {
        give(offset_of(memory).unwrap(), layout(bytes));
    }

    proptest! {
        /// A gap is clear, is the lowest one, and is found if there is one.
        #[test]
        fn gaps(taken in any::<u64>(), also in any::<u64>(), count in 1..=64usize) {
            let taken = taken & also;
            let clear = |at: &usize| (*at..at + count).all(|bit| taken >> bit & 1 == 0);
            prop_assert_eq!(first_gap(taken, count), (0..=64 - count).find(clear));
        }

        /// Blocks in use never overlap, are aligned and keep their content; at the end all are free
        /// again.
        #[test]
        fn pieces_never_overlap(requests in prop::collection::vec((1..LARGEST + 1, any::<prop::sample::Index>()), 1..100)) {
            let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
            let mut pieces: Vec<(*mut u8, usize, u8)> = Vec::new();
            for (k, (bytes, which)) in requests.into_iter().enumerate() {
                if k % 3 == 2 {
                    let (memory, bytes, value) = pieces.swap_remove(which.index(pieces.len()));
                    // SAFETY: this test holds the block and has written all of its bytes.
                    let is_whole = unsafe { std::slice::from_raw_parts(memory, bytes) }.iter().all(|&byte| byte == value);
                    prop_assert!(is_whole);
                    give_back(memory, bytes);
                } else {
                    let memory = take(layout(bytes));
                    prop_assert!(!memory.is_null() && memory as usize % SMALL.1 == 0);
                    // SAFETY: this test has just taken these bytes.
                    unsafe { memory.write_bytes(k as u8, bytes) };
                    pieces.push((memory, bytes, k as u8));
                }
            }
            pieces.into_iter().for_each(|(memory, bytes, _)| give_back(memory, bytes));
            prop_assert_eq!(USED.load(Ordering::Relaxed), 0);
            prop_assert!(TAKEN.iter().all(|word| word.load(Ordering::Relaxed) == 0));
        }
    }

    #[test]
    fn the_reserve_serves_what_is_small_and_all_of_its_bytes() {
        let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
        assert!(take(layout(LARGEST + 1)).is_null());
        assert!(take(Layout::from_size_align(8, 2 * LARGE.1).unwrap()).is_null());
        for size in [1, SMALL.1, LARGE.1] {
            let all: Vec<*mut u8> =
                std::iter::from_fn(|| Some(take(layout(size))).filter(|memory| !memory.is_null()))
                    .collect();
            let fit = if size == LARGE.1 { BYTES / LARGE.1 } else { (SMALL.0 + LARGE.0) * GROUP };
            assert_eq!(all.len(), fit);
            all.into_iter().for_each(|memory| give_back(memory, size));
            assert_eq!(USED.load(Ordering::Relaxed), 0);
        }
    }

    /// Memory moves from the reserve to the system when it grows, with its content.
    #[test]
    fn what_grows_leaves_the_reserve() {
        let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
        let small = take(layout(100));
        // SAFETY: every access stays within the size that the memory has at that point.
        unsafe {
            small.write_bytes(7, 100);
            let large = ALLOCATOR.realloc(small, layout(100), 2 * LARGEST);
            assert!(offset_of(large).is_none() && (0..100).all(|i| large.add(i).read() == 7));
            ALLOCATOR.dealloc(large, layout(2 * LARGEST));
        }
        assert_eq!(USED.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn calls_are_refused_before_the_reserve_is_used_up() {
        let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
        let unused: Vec<_> = (0..1000).map(|_| lease(false)).collect();
        assert!(unused.iter().all(Option::is_some), "an unused reserve admits any number of calls");
        drop(unused);
        let one = take(layout(1));
        let without_memory = || lease_of(|| false);
        let calls: Vec<_> = (0..1000).map_while(|_| without_memory()).collect();
        assert_eq!(calls.len(), (BYTES - UNLEASED) / OF_A_CALL - 1);
        assert!(
            without_memory().is_none() && lease(false).is_some(),
            "a call is refused only while the system has no memory"
        );
        let never_refused = lease(true);
        drop(calls);
        let beside: Vec<_> = (0..1000).map_while(|_| without_memory()).collect();
        assert_eq!(
            beside.len(),
            (BYTES - UNLEASED) / OF_A_CALL - 2,
            "one call less beside a call that is never refused"
        );
        drop((beside, never_refused));
        assert_eq!(LEASED.add(0), 0);
        assert!(without_memory().is_some());
        give_back(one, 1);
    }

    /// A caller that handles failures gets the system's answer, not memory of the reserve.
    #[test]
    fn the_reserve_is_for_those_who_do_not_ask() {
        let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
        assert!(may_fail(|| take(layout(100))).is_null());
        let one = take(layout(100));
        assert!(!one.is_null());
        let lease = lease_of(|| false);
        assert!(lease.is_some() && LEASED.add(0) == OF_A_CALL as u64);
        drop(lease);
        assert_eq!(LEASED.add(0), 0);
        give_back(one, 100);
    }
}
