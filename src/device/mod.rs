//! Devices: memory, and copies that are ordered on lanes.
//!
//! A lane runs its operations in the order in which they were enqueued; operations of different lanes are ordered by events alone. On a
//! GPU a lane is a stream; on the host backend the caller's lane is the calling thread, and the two transfer lanes are worker threads.

mod host;

use crate::error::Result;

pub use host::HostDevice;

/// Where operations are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// The application's stream.
    App,
    /// Transfers from host to device memory.
    Upload,
    /// Transfers from device to host memory.
    Download,
}

/// A point on a lane: all that was enqueued there before.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    lane: Lane,
    sequence: u64,
}

/// A field in the application's memory.
#[derive(Clone, Copy, Debug)]
pub struct AppMemory {
    address: *mut u8,
    bytes: usize,
}

// SAFETY: the promise of `AppMemory::new` does not depend on the thread.
unsafe impl Send for AppMemory {}

impl AppMemory {
    /// # Safety
    /// `bytes` bytes at `address` must be readable and, for a restore, writable, and untouched by anybody else, until the call that they
    /// are given to has returned and, on a GPU, the work that it enqueued on the caller's stream is done.
    pub unsafe fn new(address: *mut u8, bytes: usize) -> Self {
        AppMemory { address, bytes }
    }
}

/// Memory that a copy reads or writes.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// The device slab, from this offset.
    Device(u64),
    /// The host slab, from this offset.
    Host(u64),
    /// A field of the application, from its start. It counts as device memory.
    App(AppMemory),
}

impl Place {
    /// The same memory, `bytes` further on; an application field has no further.
    pub fn plus(self, bytes: u64) -> Self {
        match self {
            Place::Device(offset) => Place::Device(offset + bytes),
            Place::Host(offset) => Place::Host(offset + bytes),
            Place::App(memory) => Place::App(memory),
        }
    }
}

/// Bytes and transfers that crossed the link between host and device memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// To the device.
    pub h2d_bytes: u64,
    /// To the host.
    pub d2h_bytes: u64,
}

/// A device with its two slabs of memory. Dropping it waits for what is under way.
pub trait Device: Send {
    /// Allocates the device slab and the host slab; once, before any copy.
    fn reserve(&mut self, device_bytes: u64, host_bytes: u64) -> Result<()>;

    /// Enqueues a copy of `bytes` bytes. Places are checked against their slabs.
    fn copy(&mut self, lane: Lane, to: Place, from: Place, bytes: u64) -> Result<()>;

    /// The point after everything that is enqueued on `lane` so far.
    fn record(&mut self, lane: Lane) -> Event;

    /// What is enqueued on `lane` from now on runs after `event`.
    fn wait(&mut self, lane: Lane, event: Event) -> Result<()>;

    /// Whether everything before `event` is done; never waits.
    fn is_done(&self, event: Event) -> bool;

    /// Blocks the calling thread until all lanes are idle.
    fn synchronize(&mut self) -> Result<()>;

    /// What has crossed the link since the device was made.
    fn traffic(&self) -> Traffic;
}
