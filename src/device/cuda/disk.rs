//! How the streams of a CUDA device and the lanes of its disk, which are threads of the host, wait
//! for one another.
//!
//! A disk lane waits for an event of the driver in its own thread. A stream waits for a number in
//! page-locked memory that the disk lane sets; if the driver cannot do that, the calling thread
//! waits. A function that the driver calls in a stream (cuLaunchHostFunc) would not do: functions
//! of all streams may share one thread, and one that waits for a disk would stop the others.
//!
//! No lane waits for work that is enqueued later than the wait, so that waits never form a circle.

use super::driver::{self, cu, status, Current};
use super::{new_event, LockedMemory};
use crate::device::disk::Word;
use crate::device::{Lane, Stream};
use crate::error::Result;
use crate::fallible_vec;
use cudarc::driver::sys::{CUcontext, CUevent, CUstream, CUstreamWaitValue_flags};

use std::sync::atomic::AtomicU32;
use std::sync::Arc;

/// An event of the driver, shared with the disk lanes that wait for it.
pub struct DriverEvent(pub CUevent);

// SAFETY: handles of the driver may be used from any thread.
unsafe impl Send for DriverEvent {}
// SAFETY: as above; an event has no state in this process.
unsafe impl Sync for DriverEvent {}

/// Returns a function that blocks the thread that calls it until the work before the event has ended.
pub fn wait_for(event: Arc<DriverEvent>, context: CUcontext) -> impl FnOnce() -> Result<()> + Send {
    let handle = Stream(context.cast());
    move || {
        // Moves the handle as a whole, which may go to another thread.
        let handle = handle;
        let _current = Current::new(handle.0.cast())?;
        cu!(cuEventSynchronize(event.0))
    }
}

/// An event of the device, and where it was recorded last.
pub struct Recorded {
    /// The event of the driver; `None` until an event of disk lanes is recorded on a stream.
    pub event: Option<Arc<DriverEvent>>,
    /// The disk lane on which the event was recorded last, and the number of operations of this
    /// lane up to the record; `None`: the event was recorded on a stream, or never.
    pub on_disk: Option<(Lane, u64)>,
}

#[derive(Default)]
pub struct Events {
    pub all: Vec<Recorded>,
    /// Events of the driver that were replaced while a disk lane waited for them.
    retired: Vec<Arc<DriverEvent>>,
}

impl Events {
    /// Adds an event and returns its number.
    pub fn add(&mut self, event: Option<Arc<DriverEvent>>) -> Result<usize> {
        fallible_vec::push(&mut self.all, Recorded { event, on_disk: None })?;
        Ok(self.all.len() - 1)
    }

    /// Returns the event of the driver to be recorded on a stream. If a disk lane still waits for
    /// an earlier record, this is another event: a disk lane that waits for an event waits for its
    /// last record, not for the last one when the wait was enqueued.
    pub fn recorded(&mut self, number: usize) -> Result<CUevent> {
        let Recorded { event, on_disk } = &mut self.all[number];
        *on_disk = None;
        if let Some(event) = event.as_ref().filter(|event| Arc::strong_count(event) == 1) {
            return Ok(event.0);
        }
        let free = self.retired.iter().position(|event| Arc::strong_count(event) == 1);
        let other = match free {
            Some(k) => self.retired.swap_remove(k),
            None => make()?,
        };
        fallible_vec::more(&mut self.retired, 1)?;
        let handle = other.0;
        self.retired.extend(event.replace(other));
        Ok(handle)
    }

    /// Returns all events, for the caller to destroy.
    pub fn drain(&mut self) -> impl Iterator<Item = CUevent> + '_ {
        let all = self.all.drain(..).filter_map(|recorded| recorded.event);
        all.chain(self.retired.drain(..)).map(|event| event.0)
    }
}

pub fn make() -> Result<Arc<DriverEvent>> {
    Ok(Arc::new(DriverEvent(new_event(false)?)))
}

/// Two numbers in page-locked memory, which streams wait for: the number of operations that the
/// lane of disk reads has done, and that of the lane of disk writes.
pub struct Words(LockedMemory);

/// Bytes between the two numbers.
const APART: usize = 128;

impl Words {
    /// Allocates the numbers, both 0, in the current context; `None` if streams of this driver
    /// cannot wait for numbers, or the memory is refused.
    pub fn new() -> Option<Self> {
        if !driver::has("cuStreamWaitValue32_v2") {
            return None;
        }
        let memory = LockedMemory::new(2 * APART as u64).ok()?;
        // SAFETY: the memory was just allocated with this size.
        unsafe { (memory.address() as *mut u8).write_bytes(0, 2 * APART) };
        Some(Words(memory))
    }

    /// Returns the number of a disk lane.
    pub fn of(&self, lane: Lane) -> Word {
        let at = if lane == Lane::DiskWrite { APART } else { 0 };
        // SAFETY: both numbers lie in the memory of this object.
        Word(unsafe { (self.0.address() as *mut u8).add(at) }.cast::<AtomicU32>())
    }

    /// Makes `stream` wait until a disk lane's number reaches `number`; false if the driver cannot.
    pub fn wait(&self, lane: Lane, number: u64, stream: CUstream) -> Result<bool> {
        let address = self.of(lane).0 as u64;
        let reached = CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_GEQ as u32;
        // Numbers are compared as on a circle: only their last 32 bits count.
        match status!(cuStreamWaitValue32_v2(stream, address, number as u32, reached)) {
            driver::NOT_SUPPORTED => Ok(false),
            result => driver::check(result, "cuStreamWaitValue32").map(|()| true),
        }
    }
}
