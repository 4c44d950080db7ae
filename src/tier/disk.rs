//! The disk, on which the pool slots with the lowest numbers lie: a plan gives these numbers to the
//! snapshots that it needs longest (`sort_pool` in `crate::plan`).
//!
//! A record passes through a staging buffer in host memory on its way to disk. On its way back it goes to
//! a slot in host memory if the plan has a `Read` for it, and through another staging buffer if not. Each
//! direction has two staging buffers, so that one transfer fills a buffer while
//! another transfer empties the other buffer.

use super::extent::{Extent, In};
use crate::device::{Device, Place, DIRECT_FROM};
use crate::error::Result;
use crate::files::PAGE;

/// Staging buffers in each direction.
const BUFFERS: usize = 2;

/// Number of staging buffers of a disk, both directions together. Each takes the host memory of one
/// record.
const STAGING_BUFFERS: u64 = 2 * BUFFERS as u64;

/// Bytes of a staging buffer for records of `slot_bytes` bytes: whole pages, if records go past the
/// page cache.
fn buffer_bytes(slot_bytes: u64) -> u64 {
    let page = PAGE as u64;
    match slot_bytes < DIRECT_FROM {
        true => slot_bytes,
        false => slot_bytes.div_ceil(page).saturating_mul(page),
    }
}

/// Returns the bytes of host memory that the staging buffers of a disk take for records of
/// `slot_bytes` bytes.
pub fn staging_bytes(slot_bytes: u64) -> u64 {
    let buffer = buffer_bytes(slot_bytes);
    // Where the memory before the buffers does not end with a page, the buffers begin with the next.
    let gap = if buffer == slot_bytes { 0 } else { PAGE as u64 };
    STAGING_BUFFERS.saturating_mul(buffer).saturating_add(gap)
}

/// Which pool slots lie on disk, and the staging buffers of their records. The buffers are the first
/// extents of the store: those to disk, then those from disk.
#[derive(Default)]
pub struct Disk {
    /// Pool slots with smaller numbers lie on disk.
    pub slots: u32,
    /// Bytes of a slot on disk.
    pub slot_bytes: u64,
    /// The staging buffers as they are before any transfer.
    buffers: Vec<Extent>,
    /// Number of records that have left for the disk, and that have come from it.
    passed: [usize; 2],
}

impl Disk {
    /// Number of the store's extents that are staging buffers, if there is a disk.
    pub const EXTENTS: usize = 2 * BUFFERS;

    /// Puts the first `slots` pool slots, of `slot_bytes` bytes each, on the disk of `device`. The
    /// staging buffers take `staging_bytes` bytes of the host slab, `at` bytes behind its start.
    pub fn new(
        device: &mut (impl Device + ?Sized),
        slots: u32,
        slot_bytes: u64,
        at: u64,
    ) -> Result<Self> {
        let bytes = buffer_bytes(slot_bytes);
        let at = if bytes == slot_bytes { at } else { at.next_multiple_of(PAGE as u64) };
        let mut buffers = Vec::new();
        for k in 0..STAGING_BUFFERS {
            let (filled, emptied) = (device.event()?.0 as u32, device.event()?.0 as u32);
            let extent = Extent::new(In::Host, at + k * bytes, filled, emptied);
            buffers.push(Extent { names: 1, ..extent });
        }
        Ok(Disk { slots, slot_bytes, buffers, passed: [0; 2] })
    }

    /// The staging buffers as the first extents of the store.
    pub fn buffers(&self) -> impl Iterator<Item = Extent> + '_ {
        self.buffers.iter().cloned()
    }

    /// Whether pool slot `host` lies on disk.
    pub fn has(&self, host: u32) -> bool {
        host < self.slots
    }

    /// Numbers of the extents through which the next records go to disk and from disk.
    fn next_extents(&self) -> [usize; 2] {
        let [left, came] = self.passed.map(|passed| passed % BUFFERS);
        [left, BUFFERS + came]
    }

    /// Begins the way of a record to disk, or `from_disk`: returns the number of the extent through
    /// which it goes.
    pub fn begin(&mut self, from_disk: bool) -> usize {
        let extent = self.next_extents()[usize::from(from_disk)];
        self.passed[usize::from(from_disk)] += 1;
        extent
    }

    /// The staging buffers of the next records to disk and from disk. The lanes have no work.
    pub fn next(&self) -> [Place; 2] {
        self.next_extents().map(|x| self.buffers[x].place())
    }
}
