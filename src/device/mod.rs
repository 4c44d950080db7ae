//! Devices: memory, and copies that are ordered on lanes.
//!
//! A lane runs its operations in the order in which they were enqueued; operations of different
//! lanes are ordered by events alone. On a GPU a lane is a stream; on the host backend the caller's
//! lane is the calling thread, and the two transfer lanes are worker threads.

pub mod cuda;
mod host;
mod overlap;
mod packed;
mod recorder;
mod rows;
mod slab;
mod thread;

use crate::error::Result;
use crate::layout::Field;
use crate::trace::{Label, Span};
use cuda::Queue;
use std::ffi::c_void;

pub use cuda::CudaDevice;
pub use host::HostDevice;
pub(crate) use overlap::check_disjoint;
pub(crate) use packed::Packed;
pub use recorder::Coding;
pub use rows::Rows;
pub use slab::Pages;
pub(crate) use slab::Slab;

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

/// A point on a lane, to be recorded and waited for any number of times. A wait is for the record
/// that was last when it was enqueued.
#[derive(Clone, Copy, Debug)]
pub struct Event(usize);

/// The application's stream in one call: a `CUstream`, NULL on the host backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream(pub *mut c_void);

// SAFETY: a stream handle is a name; the driver's functions that take it may be called from any
// thread.
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
    /// `bytes` bytes at `address` must be readable and, for a restore, writable, and untouched by
    /// anybody else, until the call that they are given to has returned and, on a GPU, the work
    /// that it enqueued on the caller's stream is done.
    pub unsafe fn new(address: *mut u8, bytes: usize) -> Self {
        AppMemory { address, rows: Rows::contiguous(bytes) }
    }

    /// # Safety
    /// As `new`, for the bytes of the rows; those between rows belong to somebody else and are
    /// neither read nor written.
    pub unsafe fn in_rows(address: *mut u8, rows: Rows) -> Self {
        AppMemory { address, rows }
    }

    /// Its first byte.
    pub(crate) fn address(&self) -> *mut u8 {
        self.address
    }

    /// Bytes of its values.
    pub(crate) fn bytes(&self) -> usize {
        self.rows.bytes()
    }

    /// Bytes from its first value to behind its last one: more than `bytes` where rows or planes
    /// are apart.
    pub fn span(&self) -> usize {
        self.rows.span()
    }

    /// How its values lie.
    pub(crate) fn rows(&self) -> Rows {
        self.rows
    }
}

/// A field of the application: its shape, and where it is now.
#[derive(Clone, Copy, Debug)]
pub struct AppField {
    /// Shape and type, which must be those given at init.
    pub field: Field,
    /// Its memory; `None` if the application named none.
    pub memory: Option<AppMemory>,
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

/// Bytes that were copied, by direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Across the link, to the device.
    pub h2d_bytes: u64,
    /// Across the link, to the host.
    pub d2h_bytes: u64,
    /// Between fields and cache slots.
    pub d2d_bytes: u64,
}

/// Which way a copy crosses the link, if it does.
enum Crossing {
    None,
    ToDevice,
    ToHost,
}

impl Traffic {
    /// Counts a copy.
    fn count(&mut self, to: Place, from: Place, bytes: u64) -> Crossing {
        let on_host = |place| matches!(place, Place::Host(_));
        let (count, crossing) = match (on_host(to), on_host(from)) {
            (true, false) => (&mut self.d2h_bytes, Crossing::ToHost),
            (false, true) => (&mut self.h2d_bytes, Crossing::ToDevice),
            _ => (&mut self.d2d_bytes, Crossing::None),
        };
        *count += bytes;
        crossing
    }
}

/// A device with its two slabs of memory. Dropping it waits for what is under way.
pub trait Device: Send {
    /// Allocates the device slab; once, before any copy.
    fn reserve_device(&mut self, bytes: u64) -> Result<()>;

    /// Prepares the device slab for its use, where its memory comes page by page, in the
    /// background.
    fn touch_ahead(&mut self) {}

    /// Allocates the host slab; once, before any copy.
    fn reserve_host(&mut self, bytes: u64) -> Result<()>;

    /// Begins a call of the application, named `call`: its lane is `stream` until `leave`, and goes
    /// on from the call before.
    fn enter(&mut self, stream: Stream, call: &'static str) -> Result<()>;

    /// Ends the call.
    fn leave(&mut self) -> Result<()>;

    /// The address of a place, for the application to work there.
    fn pointer(&self, place: Place, bytes: u64) -> Result<*mut c_void>;

    /// Whether a field of the application has a byte of the device slab or of the host slab.
    fn owns(&self, field: AppMemory) -> bool;

    /// A new event, with nothing before it.
    fn event(&mut self) -> Result<Event>;

    /// Enqueues a copy of `bytes` bytes. Places are checked against their slabs.
    fn copy(&mut self, lane: Lane, to: Place, from: Place, bytes: u64) -> Result<()>;

    /// Makes `event` the point after everything that is enqueued on `lane` so far.
    fn record(&mut self, lane: Lane, event: Event) -> Result<()>;

    /// What is enqueued on `lane` from now on runs after `event`.
    fn wait(&mut self, lane: Lane, event: Event) -> Result<()>;

    /// Whether everything before `event` is done; never waits.
    fn is_done(&self, event: Event) -> Result<bool>;

    /// Blocks the calling thread until everything before `event` is done, in a call.
    fn finish(&mut self, event: Event) -> Result<()>;

    /// A lane as what kernels are enqueued on, in a call.
    fn launches(&self, lane: Lane) -> Result<Queue>;

    /// Runs `body` with a stream on which nothing else is, outside of a call, and tells it what
    /// kernels have to be compiled for. What it enqueues is done when this returns.
    fn run(&mut self, body: &mut dyn FnMut(&Queue, u32) -> Result<()>) -> Result<()>;

    /// Before the application gets its action `it`: blocks the calling thread until all up to
    /// action `it - ahead` has ended on the stream of the last call, and returns the seconds
    /// that this took. Before the first call there is nothing to wait for.
    fn keep_up(&mut self, it: i64, ahead: i64) -> Result<f64>;

    /// Blocks the calling thread until all calls have ended.
    fn finish_calls(&mut self) -> Result<()>;

    /// Blocks the calling thread until all calls have ended and the transfer lanes are idle.
    fn synchronize(&mut self) -> Result<()>;

    /// Forgets the application's stream, which may be gone from now on.
    fn forget_stream(&mut self);

    /// What has been copied since the device was made.
    fn traffic(&self) -> Traffic;

    /// Seconds that the application's stream has spent between `enter` and `leave`.
    fn stalled(&mut self) -> Result<f64>;

    /// From now on, or no longer, measures the time between calls.
    fn time_gaps(&mut self, on: bool);

    /// Seconds of the application's stream from the end of the call before to the begin of each
    /// call, in order, one number for each call of which it is known by now and was not told
    /// yet; NaN for a call with none before.
    fn gaps(&mut self) -> Result<Vec<f64>>;

    /// What is enqueued on the application's lane from here to `end_coding` is `coding`; in a call.
    fn begin_coding(&mut self, coding: Coding) -> Result<()>;

    /// Ends that.
    fn end_coding(&mut self) -> Result<()>;

    /// Seconds that the application's stream has spent compressing, and decompressing.
    fn coded(&mut self) -> Result<(f64, f64)>;

    /// Keeps spans from now on. Without this call nothing is kept, and the next three do nothing.
    fn keep_spans(&mut self) -> Result<()>;

    /// The application begins `action`, outside of a call: it computes if that is in the row of
    /// that name, until it is in a call or begins another one. `None`: the sweep is over.
    fn begin_action(&mut self, action: Option<Label>) -> Result<()>;

    /// What is copied and coded from now on is the state `ts`.
    fn concerns(&mut self, ts: i64);

    /// The spans that have ended and were not given yet, of each row in their order.
    fn spans(&mut self) -> Result<Vec<Span>>;

    /// Nobody asks for spans any more: none are kept from now on.
    fn close_spans(&mut self);

    /// Blocks the calling thread until all spans that have begun have ended, outside of a call.
    fn finish_spans(&mut self) -> Result<()>;
}
