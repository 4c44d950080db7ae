//! The disk, on which the pool slots with the lowest numbers lie: a plan gives these numbers to the
//! snapshots that it needs least often.
//!
//! A snapshot passes through a staging buffer in host memory on its way to disk, and through
//! another one on its way back. Each direction has two staging buffers, so that one transfer fills
//! a buffer while another transfer empties the other buffer.

use crate::device::{Device, Event, Lane, Place, DIRECT_FROM};
use crate::error::Result;
use crate::files::PAGE;
use std::ops::Range;

/// Staging buffers in each direction.
const BUFFERS: usize = 2;

/// Number of staging buffers of a disk, both directions together. Each takes the host memory of one
/// snapshot.
const STAGING_BUFFERS: u64 = 2 * BUFFERS as u64;

/// Bytes of a staging buffer for snapshots of `slot_bytes` bytes: whole pages, if snapshots go past
/// the page cache.
fn buffer_bytes(slot_bytes: u64) -> u64 {
    let page = PAGE as u64;
    match slot_bytes < DIRECT_FROM {
        true => slot_bytes,
        false => slot_bytes.div_ceil(page).saturating_mul(page),
    }
}

/// Returns the bytes of host memory that the staging buffers of a disk take for snapshots of
/// `slot_bytes` bytes.
pub fn staging_bytes(slot_bytes: u64) -> u64 {
    let buffer = buffer_bytes(slot_bytes);
    // Where the memory before the buffers does not end with a page, the buffers begin with the next.
    let gap = if buffer == slot_bytes { 0 } else { PAGE as u64 };
    STAGING_BUFFERS.saturating_mul(buffer).saturating_add(gap)
}

/// Which pool slots lie on disk, and the staging buffers of their snapshots.
#[derive(Default)]
pub struct Disk {
    /// Pool slots with smaller numbers lie on disk.
    pub slots: u32,
    /// Bytes of a slot on disk.
    slot_bytes: u64,
    /// To disk, and back: the staging buffers, and how many snapshots have passed so far.
    leaving: Passage,
    coming: Passage,
}

/// The staging buffers of one direction, which snapshots use in turn.
#[derive(Default)]
struct Passage {
    buffers: Vec<Buffer>,
    passed: usize,
}

/// A staging buffer, `at` bytes behind the start of the host slab. Its events are recorded when a
/// snapshot has arrived in the buffer, and when the snapshot has left the buffer.
#[derive(Clone, Copy)]
struct Buffer {
    at: u64,
    filled: Event,
    free: Event,
}

impl Passage {
    fn new(device: &mut dyn Device, at: u64, buffer_bytes: u64) -> Result<Self> {
        let mut buffer = |k: usize| {
            let (filled, free) = (device.event()?, device.event()?);
            Ok(Buffer { at: at + k as u64 * buffer_bytes, filled, free })
        };
        Ok(Passage { buffers: (0..BUFFERS).map(&mut buffer).collect::<Result<_>>()?, passed: 0 })
    }

    /// The staging buffer of the next snapshot.
    fn next(&self) -> Buffer {
        self.buffers[self.passed % BUFFERS]
    }
}

impl Disk {
    /// Puts the first `slots` pool slots, of `slot_bytes` bytes each, on the disk of `device`. The
    /// staging buffers take `staging_bytes` bytes of the host slab, `at` bytes behind its start.
    pub fn new(device: &mut dyn Device, slots: u32, slot_bytes: u64, at: u64) -> Result<Self> {
        let bytes = buffer_bytes(slot_bytes);
        let at = if bytes == slot_bytes { at } else { at.next_multiple_of(PAGE as u64) };
        let leaving = Passage::new(device, at, bytes)?;
        let coming = Passage::new(device, at + BUFFERS as u64 * bytes, bytes)?;
        Ok(Disk { slots, slot_bytes, leaving, coming })
    }

    /// Whether pool slot `host` lies on disk.
    pub fn has(&self, host: u32) -> bool {
        host < self.slots
    }

    /// Whether a slot on disk holds a snapshot of `bytes` bytes.
    pub fn holds(&self, bytes: u64) -> bool {
        bytes <= self.slot_bytes
    }

    /// The bytes of the disk that a snapshot of `bytes` bytes takes in pool slot `host`.
    pub fn place(&self, host: u32, bytes: u64) -> Range<u64> {
        let at = u64::from(host).saturating_mul(self.slot_bytes);
        at..at.saturating_add(bytes)
    }

    /// Begins the way of a snapshot to disk: returns the place to which `lane` copies the snapshot
    /// next. `lane` waits until this place is free.
    pub fn leave(&mut self, device: &mut dyn Device, lane: Lane) -> Result<Place> {
        let Buffer { at, free, .. } = self.leaving.next();
        device.wait(lane, free)?;
        Ok(Place::Host(at))
    }

    /// Issues the write of the snapshot of `bytes` bytes that `lane` has copied to the place that
    /// `leave` returned, to the offset `to` on disk. `written` is the event at the end of the
    /// write.
    pub fn write(
        &mut self,
        device: &mut dyn Device,
        lane: Lane,
        to: u64,
        bytes: u64,
        written: Event,
    ) -> Result<()> {
        let Buffer { at, filled, free } = self.leaving.next();
        self.leaving.passed += 1;
        device.record(lane, filled)?;
        device.wait(Lane::DiskWrite, filled)?;
        device.copy(Lane::DiskWrite, Place::Disk(to), Place::Host(at), bytes)?;
        device.record(Lane::DiskWrite, written)?;
        device.record(Lane::DiskWrite, free)
    }

    /// Issues the read of the snapshot of `bytes` bytes at the offset `from` on disk, after the
    /// event `written`: returns the place from which `lane` copies the snapshot next. `lane` waits
    /// until the snapshot is there. If `lane` is the application's, the calling thread waits, too,
    /// and this function fails if the snapshot is not the one that was written; for another lane,
    /// `confirm` does that.
    pub fn read(
        &mut self,
        device: &mut dyn Device,
        lane: Lane,
        from: u64,
        bytes: u64,
        written: Event,
    ) -> Result<Place> {
        let Buffer { at, filled, free } = self.coming.next();
        device.wait(Lane::DiskRead, written)?;
        device.wait(Lane::DiskRead, free)?;
        device.copy(Lane::DiskRead, Place::Host(at), Place::Disk(from), bytes)?;
        device.record(Lane::DiskRead, filled)?;
        device.wait(lane, filled)?;
        if lane == Lane::App {
            device.finish_read(device.issued(Lane::DiskRead))?;
        }
        Ok(Place::Host(at))
    }

    /// Reads the snapshot of `bytes` bytes at the offset `from` on disk into host memory, and returns
    /// when it is there: the place lasts until the next transfer from disk. The lanes have no work.
    pub fn read_now(&self, device: &mut dyn Device, from: u64, bytes: u64) -> Result<Place> {
        let place = Place::Host(self.coming.next().at);
        device.copy(Lane::DiskRead, place, Place::Disk(from), bytes)?;
        device.finish_read(device.issued(Lane::DiskRead))?;
        Ok(place)
    }

    /// The place in host memory from which `write_now` takes a snapshot.
    pub fn passage(&self) -> Place {
        Place::Host(self.leaving.next().at)
    }

    /// Writes the snapshot of `bytes` bytes in `passage` to the offset `to` on disk, and returns when
    /// the place is free again. The lanes have no work.
    pub fn write_now(&self, device: &mut dyn Device, to: u64, bytes: u64) -> Result<()> {
        device.copy(Lane::DiskWrite, Place::Disk(to), self.passage(), bytes)?;
        device.synchronize()?;
        device.check_disk()
    }

    /// Ends the way of a snapshot from disk: `lane` has copied the snapshot from the place that
    /// `read` returned.
    pub fn arrive(&mut self, device: &mut dyn Device, lane: Lane) -> Result<()> {
        let Buffer { free, .. } = self.coming.next();
        self.coming.passed += 1;
        device.record(lane, free)
    }
}
