//! The disk, on which the pool slots with the lowest numbers lie: a plan gives these numbers to the
//! snapshots that it needs least often.
//!
//! A snapshot passes through a staging buffer in host memory on its way to disk, and through
//! another one on its way back. Each direction has two staging buffers, so that one transfer fills
//! a buffer while another transfer empties the other buffer.

use crate::device::{Device, Event, Lane, Memory, Place};
use crate::error::{fail, Result};
use std::ops::Range;

/// Staging buffers in each direction.
const BUFFERS: usize = 2;

/// Number of staging buffers of a disk, both directions together. Each takes the host memory of one
/// snapshot.
pub const STAGING_BUFFERS: u64 = 2 * BUFFERS as u64;

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

/// A staging buffer, `at` bytes behind the begin of the host slab. Its events are recorded when a
/// snapshot has arrived in the buffer, and when the snapshot has left the buffer.
#[derive(Clone, Copy)]
struct Buffer {
    at: u64,
    filled: Event,
    free: Event,
}

impl Passage {
    fn new(device: &mut dyn Device, at: u64, slot_bytes: u64) -> Result<Self> {
        let mut buffer = |k: usize| {
            let (filled, free) = (device.event()?, device.event()?);
            Ok(Buffer { at: at + k as u64 * slot_bytes, filled, free })
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
    /// staging buffers begin `at` bytes behind the begin of the host slab.
    pub fn new(device: &mut dyn Device, slots: u32, slot_bytes: u64, at: u64) -> Result<Self> {
        device.reserve(Memory::Disk, u64::from(slots).saturating_mul(slot_bytes))?;
        let leaving = Passage::new(device, at, slot_bytes)?;
        let coming = Passage::new(device, at + BUFFERS as u64 * slot_bytes, slot_bytes)?;
        Ok(Disk { slots, slot_bytes, leaving, coming })
    }

    /// Whether pool slot `host` lies on disk.
    pub fn has(&self, host: u32) -> bool {
        host < self.slots
    }

    /// The bytes of the disk that a snapshot of `bytes` bytes takes in pool slot `host`.
    pub fn place(&self, host: u32, bytes: u64) -> Result<Range<u64>> {
        if bytes > self.slot_bytes {
            return fail!(
                Budget,
                "a snapshot of {bytes} bytes does not fit its place of {} bytes on disk: raise disk_budget or lower compression_factor",
                self.slot_bytes
            );
        }
        let at = u64::from(host).saturating_mul(self.slot_bytes);
        Ok(at..at.saturating_add(bytes))
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
    /// until the snapshot is there.
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
        Ok(Place::Host(at))
    }

    /// Ends the way of a snapshot from disk: `lane` has copied the snapshot from the place that
    /// `read` returned.
    pub fn arrive(&mut self, device: &mut dyn Device, lane: Lane) -> Result<()> {
        let Buffer { free, .. } = self.coming.next();
        self.coming.passed += 1;
        device.record(lane, free)
    }
}
