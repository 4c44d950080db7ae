//! Devices: memory, and copies that are ordered on lanes.
//!
//! A lane runs its operations in the order in which they were enqueued. Operations of different
//! lanes are ordered by events alone. On a GPU a lane is a stream. On the host backend the
//! application's lane is the calling thread, and the two transfer lanes are worker threads. The
//! lanes of the disk are worker threads on every device.

mod contiguous;
pub mod cuda;
mod disk;
mod host;
mod lane_coding;
mod launcher;
mod overlap;
mod recorder;
mod rows;
mod slab;
mod team;
mod thread;
mod worker;

use crate::error::{fail, Result};
use crate::layout::Field;
use disk::DiskLanes;
use overlap::touches;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

pub(crate) use contiguous::Contiguous;
pub use cuda::CudaDevice;
pub use disk::{DiskSpace, DIRECT_FROM};
pub use host::HostDevice;
pub(crate) use lane_coding::{CodesRecords, RecordCoding, RecordName, Work};
pub use launcher::{DeviceMemory, Function, Launcher, Queue};
pub(crate) use overlap::memory_of;
pub use recorder::{Coding, Recorder, Times};
pub use rows::Rows;
pub(crate) use slab::Slab;
pub use team::{share, Team};
pub use thread::in_background;
pub(crate) use thread::{processor_time, Thread};

/// A queue of operations that run in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// The application's stream.
    App,
    /// Transfers from host to device memory.
    Upload,
    /// Transfers from device to host memory.
    Download,
    /// Transfers from disk to host memory.
    DiskRead,
    /// Transfers from host memory to disk.
    DiskWrite,
}

/// A point on a lane, named by its number among the events of one device. An event can be recorded
/// and waited for any number of times. A wait refers to the record that was the last one when the
/// wait was enqueued.
#[derive(Clone, Copy, Debug)]
pub struct Event(pub(crate) usize);

/// The application's stream in one call: a `CUstream`; NULL on the host backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream(pub *mut c_void);

// SAFETY: handles of a driver may be used from any thread.
unsafe impl Send for Stream {}

/// A field in the application's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppMemory {
    address: *mut u8,
    rows: Rows,
}

// SAFETY: the promise of `AppMemory::new` does not depend on the thread.
unsafe impl Send for AppMemory {}

impl AppMemory {
    /// # Safety
    /// Until the call that gets this memory has returned and, on a GPU, until the work that this
    /// call enqueued on the caller's stream has ended: `bytes` bytes at `address` must be readable
    /// and, for a restore, writable, and no other code may read or write them.
    pub unsafe fn new(address: *mut u8, bytes: usize) -> Self {
        AppMemory { address, rows: Rows::contiguous(bytes) }
    }

    /// # Safety
    /// As `new`, for the bytes of the rows. The bytes between the rows belong to the caller and are
    /// neither read nor written.
    pub unsafe fn in_rows(address: *mut u8, rows: Rows) -> Self {
        AppMemory { address, rows }
    }

    /// Address of the first byte.
    pub(crate) fn address(&self) -> *mut u8 {
        self.address
    }

    /// Bytes of the values.
    pub(crate) fn bytes(&self) -> usize {
        self.rows.bytes()
    }

    /// Bytes from the first value to the end of the last one, gaps included.
    pub fn span(&self) -> usize {
        self.rows.span()
    }

    /// The contiguous parts of the values, in order, each of at most `longest` bytes.
    pub(crate) fn parts(self, longest: usize) -> impl Iterator<Item = AppMemory> {
        let (address, row) = (self.address, self.rows.row());
        self.rows.starts().flat_map(move |start| {
            (0..row).step_by(longest.max(1)).map(move |at| AppMemory {
                // SAFETY: the part lies in the memory of the values.
                address: unsafe { address.add(start + at) },
                rows: Rows::contiguous((row - at).min(longest)),
            })
        })
    }

    /// How the values lie in memory.
    pub(crate) fn rows(&self) -> Rows {
        self.rows
    }
}

/// A field of the application: its shape, and its current memory.
#[derive(Clone, Copy, Debug)]
pub struct AppField {
    /// Shape and type, which must be those given when the session was made.
    pub field: Field,
    /// Memory of the field; `None` if the application gave none.
    pub memory: Option<AppMemory>,
}

/// The memory that a copy reads or writes. Offsets are in bytes.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// The device slab, from this offset.
    Device(u64),
    /// The host slab, from this offset.
    Host(u64),
    /// The disk, from this offset.
    Disk(u64),
    /// A field of the application, from its start. Counts as device memory.
    App(AppMemory),
}

impl Place {
    /// The place `bytes` bytes further on. A field of the application stays as it is.
    pub fn plus(self, bytes: u64) -> Self {
        match self {
            Place::Device(offset) => Place::Device(offset + bytes),
            Place::Host(offset) => Place::Host(offset + bytes),
            Place::Disk(offset) => Place::Disk(offset + bytes),
            Place::App(memory) => Place::App(memory),
        }
    }
}

/// The memory that a device provides for snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// The device slab, for the device cache.
    Device,
    /// The host slab, for the host pool.
    Host,
}

/// Checked memory that a lane may use.
#[derive(Clone, Copy)]
struct Address(*mut u8);

// SAFETY: the session orders all uses of an address by events, and the slabs outlive the workers.
unsafe impl Send for Address {}

/// Bytes that were copied, by direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Across the link, to the device.
    pub h2d_bytes: u64,
    /// Across the link, to the host.
    pub d2h_bytes: u64,
    /// Between fields and cache slots.
    pub d2d_bytes: u64,
    /// Between host memory and disk, both ways.
    pub disk_bytes: u64,
    /// Snapshots read from disk.
    pub disk_reads: u64,
    /// Snapshots written to disk.
    pub disk_writes: u64,
}

/// Most bytes that one call of `Device::read` or `Device::write` copies for a restart file.
pub const PIECE: usize = 1 << 20;

/// Most bytes of a chunk ([`chunk_bytes`]): 2.7 ms at 25 GB/s, so that the start of a copy, a few
/// microseconds, is less than a thousandth of the chunk.
static CHUNK: AtomicU64 = AtomicU64::new(64 << 20);

/// Returns the most bytes of a chunk. A transfer lane moves a snapshot in chunks, each a copy of
/// its own: a copy engine of a GPU finishes the copy that it has begun before it takes one of
/// another stream, such as the copy of a RESTORE without a slot, or one of the application's own.
pub(crate) fn chunk_bytes() -> u64 {
    CHUNK.load(Ordering::Relaxed)
}

/// Sets the bytes of a chunk for later transfers: for tests, whose snapshots are small.
#[doc(hidden)]
pub fn set_chunk_bytes(bytes: u64) {
    CHUNK.store(bytes.max(1), Ordering::Relaxed);
}

/// The direction in which a copy crosses the link.
pub(crate) enum Crossing {
    None,
    ToDevice,
    ToHost,
}

impl std::ops::Sub for Traffic {
    type Output = Traffic;

    /// What was copied after `before`.
    fn sub(self, before: Self) -> Self {
        Traffic {
            h2d_bytes: self.h2d_bytes - before.h2d_bytes,
            d2h_bytes: self.d2h_bytes - before.d2h_bytes,
            d2d_bytes: self.d2d_bytes - before.d2d_bytes,
            disk_bytes: self.disk_bytes - before.disk_bytes,
            disk_reads: self.disk_reads - before.disk_reads,
            disk_writes: self.disk_writes - before.disk_writes,
        }
    }
}

impl Traffic {
    /// Counts a copy.
    pub(crate) fn count(&mut self, to: Place, from: Place, bytes: u64) -> Crossing {
        let on_host = |place| matches!(place, Place::Host(_));
        self.disk_reads += u64::from(matches!(from, Place::Disk(_)));
        self.disk_writes += u64::from(matches!(to, Place::Disk(_)));
        let (count, crossing) = match (on_host(to), on_host(from)) {
            _ if matches!((to, from), (Place::Disk(_), _) | (_, Place::Disk(_))) => {
                (&mut self.disk_bytes, Crossing::None)
            }
            (true, false) => (&mut self.d2h_bytes, Crossing::ToHost),
            (false, true) => (&mut self.h2d_bytes, Crossing::ToDevice),
            _ => (&mut self.d2d_bytes, Crossing::None),
        };
        *count = count.saturating_add(bytes);
        crossing
    }
}

/// A device with two slabs of memory. Dropping a device waits for all work under way.
///
/// Only these functions block the calling thread until work has ended on the device: `finish`,
/// `finish_read`, `keep_up`, `finish_calls`, `synchronize`, the drop, `leave` after an error,
/// `spans` of [`Recorder`] for all spans, and `run` of [`Launcher`]. On the host backend, work on the
/// application's lane (copies, and waits for a transfer) is done in the calling thread.
pub trait Device: Recorder + Launcher + Send {
    /// Provides `bytes` bytes of `memory`, in place of the bytes before. Call this before any copy.
    fn reserve(&mut self, memory: Memory, bytes: u64) -> Result<()>;

    /// Page-locks the first `bytes` bytes of the host slab, as far as the system allows. Returns
    /// the bytes that this call and earlier ones could not page-lock. The default is that of a
    /// device to which page-locked memory is of no use.
    fn lock(&mut self, _bytes: u64) -> Result<u64> {
        Ok(0)
    }

    /// Free and total bytes of the device's memory; `None` if that is main memory.
    fn memory(&self) -> Result<Option<DeviceMemory>> {
        Ok(None)
    }

    /// Number of copy engines of the device: with one, both directions of the link take turns. The
    /// default is that of a device whose directions are independent of one another.
    fn copy_engines(&self) -> Result<u32> {
        Ok(2)
    }

    /// Takes `space` as the device's disk, in place of the disk before, and starts the disk lanes.
    fn mount(&mut self, space: DiskSpace) -> Result<()>;

    /// The threads that share the work of coding; `None` if nothing is coded by the lanes of this device.
    fn team(&self) -> Option<&Arc<Team>> {
        None
    }

    /// The lanes of the device's disk; `None` without a disk, or with a simulated one.
    fn disk(&self) -> Option<&DiskLanes> {
        None
    }

    /// Number of operations that were enqueued on a lane of the disk so far.
    fn issued(&self, lane: Lane) -> u64 {
        self.disk().and_then(|disk| disk.progress(lane)).map_or(0, |(_, issued)| issued)
    }

    /// Blocks the calling thread until the first `read` operations of the lane of disk reads have
    /// ended. Fails if a disk lane has failed: the snapshot that was read last may then be wrong.
    fn finish_read(&mut self, read: u64) -> Result<()> {
        self.disk().map_or(Ok(()), |disk| disk.finish_read(read))
    }

    /// Starts touching the pages of the device slab in the background, before their first use.
    fn touch_ahead(&mut self) {}

    /// Begins a call of the application with the name `call`. Until `leave`, `stream` is the
    /// application's lane, and its work is ordered after the previous call.
    fn enter(&mut self, stream: Stream, call: &'static str) -> Result<()>;

    /// Ends the call that `enter` began, and returns its seconds on the calling thread.
    fn leave(&mut self) -> Result<f64>;

    /// Address and bytes of the device slab and of the host slab. The default is that of a device
    /// without memory.
    fn slabs(&self) -> [(u64, u64); 2] {
        [(0, 0); 2]
    }

    /// The address of `bytes` bytes at `place`. Fails if the place exceeds its slab or its field.
    fn pointer(&self, place: Place, bytes: u64) -> Result<*mut c_void> {
        let [device, host] = self.slabs();
        let ((base, size), offset) = match place {
            Place::Device(offset) => (device, offset),
            Place::Host(offset) => (host, offset),
            Place::App(memory) => ((memory.address as u64, memory.bytes() as u64), 0),
            Place::Disk(_) => return fail!(Device, "a place on disk has no address"),
        };
        if offset.checked_add(bytes).is_none_or(|end| end > size) {
            return fail!(Device, "a copy of {bytes} bytes at {offset} exceeds its {size} bytes");
        }
        Ok((base + offset) as *mut c_void)
    }

    /// Moves `bytes` bytes within the host slab, from offset `from` to offset `to`; the two ranges
    /// may overlap. The lanes have no work: `synchronize` has returned, and nothing came after it.
    fn move_in_pool(&mut self, to: u64, from: u64, bytes: u64) -> Result<()> {
        let from = self.pointer(Place::Host(from), bytes)?;
        let to = self.pointer(Place::Host(to), bytes)?;
        // SAFETY: both ranges lie in the host slab, which no lane uses now. They may overlap.
        unsafe { std::ptr::copy(from.cast::<u8>(), to.cast::<u8>(), bytes as usize) };
        Ok(())
    }

    /// Copies the bytes at `place` into `to` and returns when they are there. A slab or the disk is
    /// read only while the lanes have no work, as for `move_in_pool`; a field of the application in
    /// the order of the application's lane, between `enter` and `leave`.
    fn read(&mut self, place: Place, to: &mut [u8]) -> Result<()> {
        let from = self.pointer(place, to.len() as u64)?;
        // SAFETY: the bytes lie in their slab or field, which no lane writes now; `to` lies apart.
        unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>(), to.as_mut_ptr(), to.len()) };
        Ok(())
    }

    /// Copies the bytes of `from` to `place` and returns when they are there; otherwise as `read`.
    fn write(&mut self, place: Place, from: &[u8]) -> Result<()> {
        let to = self.pointer(place, from.len() as u64)?;
        // SAFETY: as in `read`; no lane reads the bytes at `place` now.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.cast::<u8>(), from.len()) };
        Ok(())
    }

    /// Makes an event. A wait for an event that was never recorded ends at once.
    fn event(&mut self) -> Result<Event>;

    /// Makes an event that lanes of the disk record. There may be one for each of 10^5 snapshots on
    /// disk: it takes nothing of a GPU's driver.
    fn disk_event(&mut self) -> Result<Event> {
        self.event()
    }

    /// Enqueues a copy of `bytes` bytes. Fails if a place exceeds its slab or its field.
    fn copy(&mut self, lane: Lane, to: Place, from: Place, bytes: u64) -> Result<()>;

    /// Enqueues the coding of a record on a transfer lane. The default is that of a device whose transfer
    /// lanes only copy.
    fn code(&mut self, _lane: Lane, _work: RecordCoding) -> Result<()> {
        fail!(Unsupported, "the transfer lanes of this device do not code snapshots")
    }

    /// Records `event` on `lane`: it is reached when all work enqueued there so far has ended.
    fn record(&mut self, lane: Lane, event: Event) -> Result<()>;

    /// Makes all work that is enqueued on `lane` after this call wait for `event`.
    fn wait(&mut self, lane: Lane, event: Event) -> Result<()>;

    /// Whether all work before `event` has ended. Never blocks.
    fn is_done(&mut self, event: Event) -> Result<bool>;

    /// Blocks the calling thread until all work before `event`, which was recorded on the application's
    /// lane, has ended. Call this between `enter` and `leave`. The default is that of a device whose
    /// calls end before they return.
    fn finish(&mut self, _event: Event) -> Result<()> {
        Ok(())
    }

    /// Bounds how far the host runs ahead of the device. Before the application gets its action
    /// `it`, blocks the calling thread until all actions up to `it - ahead` have ended on the
    /// stream of the last call. Returns the seconds of this wait; 0 before the first call. The
    /// default is that of a device whose calls end before they return, which needs no wait.
    fn keep_up(&mut self, _it: i64, _ahead: i64) -> Result<f64> {
        Ok(0.0)
    }

    /// Blocks the calling thread until all calls have ended on the device. The default is that of a
    /// device whose calls end before they return.
    fn finish_calls(&mut self) -> Result<()> {
        Ok(())
    }

    /// Blocks the calling thread until all calls have ended and the transfer lanes are idle.
    fn synchronize(&mut self) -> Result<()>;

    /// Forgets the application's stream, which the application may destroy afterwards. The default
    /// is that of a device that keeps no stream from call to call.
    fn forget_stream(&mut self) {}

    /// Bytes that were copied since the device was made.
    fn traffic(&self) -> Traffic;

    /// Whether a field of the application overlaps the device slab or the host slab.
    fn owns(&self, field: AppMemory) -> bool {
        self.slabs().into_iter().any(|(address, bytes)| touches(field, address, bytes))
    }

    /// Fails if a disk lane has failed since `forget_faults`. Never blocks.
    fn check_disk(&self) -> Result<()> {
        self.disk().map_or(Ok(()), DiskLanes::check)
    }

    /// Forgets the failures of the disk lanes. The lanes have no work.
    fn forget_faults(&self) {
        self.disk().into_iter().for_each(DiskLanes::forget_faults);
    }
}

/// Drops what has kernels or memory of a device, once all calls have ended. Without the context no
/// driver call could release it, and a forked child must not call the driver: it is forgotten.
pub(crate) fn discard<T>(device: &mut (impl Device + ?Sized), kernels: T) {
    let mut kernels = Some(kernels);
    if device.release(&mut || drop(kernels.take())).is_err() {
        std::mem::forget(kernels);
    }
}
