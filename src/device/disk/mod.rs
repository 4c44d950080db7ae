//! The disk of a device: files without a name, and two lanes, each a worker thread, that write
//! snapshots from host memory and read them back.
//!
//! Every snapshot gets a checksum when it is written, which is kept in memory and compared when the
//! snapshot is read. A lane that fails goes on with its next operation, so that nothing that waits
//! for the lane waits for ever; the first failure is kept, and the session's next call tells it.

mod space;

pub use space::{DiskSpace, DIRECT_FROM};

use super::recorder::Log;
use super::worker::{Progress, Task, Worker};
use super::{Address, Lane, Place};
use crate::error::{fail, Error, Result};
use crate::guarded::locked;
use crate::timeline::Label;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The error of a device without a disk that is asked for one.
pub fn no_disk<T>() -> Result<T> {
    fail!(Device, "the device has no disk")
}

/// A transfer between host memory and disk.
#[derive(Clone, Copy)]
pub struct Passing {
    /// The place in host memory.
    pub memory: Place,
    /// Offset on disk, in bytes.
    at: u64,
    to_disk: bool,
}

impl Passing {
    /// The transfer that a copy between two places is, if one of the places is on disk.
    pub fn of(to: Place, from: Place) -> Option<Self> {
        match (to, from) {
            (Place::Disk(at), memory) => Some(Passing { memory, at, to_disk: true }),
            (memory, Place::Disk(at)) => Some(Passing { memory, at, to_disk: false }),
            _ => None,
        }
    }
}

/// The first failure of the disk lanes since the failures were forgotten.
#[derive(Default)]
struct Faults(Mutex<Option<Error>>);

impl Faults {
    /// Runs work of a lane, and keeps its error or panic.
    fn keep(&self, work: impl FnOnce() -> Result<()>) {
        let result = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
            fail!(Panic, "a defect in gpuzip: the thread of a disk lane panicked")
        });
        if let Err(error) = result {
            locked(&self.0).get_or_insert(error);
        }
    }
}

/// An operation of a disk lane.
struct Operation {
    faults: Arc<Faults>,
    work: Work,
}

/// What a disk lane does.
pub enum Work {
    /// Waits until the other lane has done this number of tasks since it was made.
    Wait(Arc<Progress>, u64),
    /// Calls a function, which waits.
    Call(Box<dyn FnOnce() -> Result<()> + Send>),
    /// Transfers a snapshot.
    Pass(Pass),
    /// Sets a word, if there is one, to a number, for a stream that waits for it. The word outlives
    /// the lanes.
    Post(Option<Word>, u32),
}

/// The address of a number that CUDA streams wait for.
#[derive(Clone, Copy)]
pub struct Word(pub *const AtomicU32);

// SAFETY: a word outlives the lanes, as `Work::Post` requires, and is an atomic.
unsafe impl Send for Word {}

/// A transfer of a snapshot.
pub struct Pass {
    space: Arc<DiskSpace>,
    slot: u32,
    address: Address,
    bytes: usize,
    to_disk: bool,
    /// Time step of the snapshot's state.
    ts: i64,
    /// The log and the label of the transfer's span, if spans are kept.
    span: Option<(Arc<Log>, Label)>,
}

impl Task for Operation {
    fn run(self) {
        match self.work {
            Work::Wait(lane, sequence) => self.faults.keep(|| lane.wait(sequence)),
            Work::Call(call) => self.faults.keep(call),
            Work::Pass(pass) => self.faults.keep(|| pass.run()),
            Work::Post(None, _) => {}
            // SAFETY: the word outlives the lanes.
            Work::Post(Some(word), number) => unsafe { (*word.0).store(number, Ordering::Release) },
        }
    }
}

impl Pass {
    fn run(self) -> Result<()> {
        let begin = Instant::now();
        let (address, bytes) = (self.address.0, self.bytes);
        // SAFETY: the range was checked at enqueuing; earlier waits order all uses of these bytes.
        let memory = unsafe { std::slice::from_raw_parts_mut(address, bytes) };
        let passed = match self.to_disk {
            true => self.space.write(self.slot, memory),
            false => self.space.read(self.slot, memory),
        };
        if let Some((log, label)) = self.span {
            log.add(label, begin, Instant::now());
        }
        passed.map_err(|e| e.within(format_args!("the snapshot of state {} on disk", self.ts)))
    }
}

pub struct DiskLanes {
    read: Worker<Operation>,
    write: Worker<Operation>,
    space: Arc<DiskSpace>,
    faults: Arc<Faults>,
    /// Time step of the state whose snapshot the next transfers move.
    pub ts: i64,
}

impl DiskLanes {
    /// Starts the lanes of `space`.
    pub fn new(space: DiskSpace) -> Result<Self> {
        Ok(DiskLanes {
            read: Worker::start(c"gpuzip-diskread", None)?,
            write: Worker::start(c"gpuzip-diskwrit", None)?,
            space: Arc::new(space),
            faults: Arc::default(),
            ts: -1,
        })
    }

    pub fn push(&mut self, lane: Lane, work: Work) -> Result<()> {
        let worker = match lane {
            Lane::DiskRead => &mut self.read,
            Lane::DiskWrite => &mut self.write,
            _ => return fail!(Device, "{lane:?} is no lane of the disk"),
        };
        worker.push(Operation { faults: self.faults.clone(), work })
    }

    /// How many operations a lane has done, and how many were enqueued on it; `None` if the lane is
    /// none of the disk.
    pub fn progress(&self, lane: Lane) -> Option<(&Arc<Progress>, u64)> {
        match lane {
            Lane::DiskRead => Some(self.read.progress()),
            Lane::DiskWrite => Some(self.write.progress()),
            _ => None,
        }
    }

    /// The processor time that the lanes have taken so far.
    pub fn processor_time(&self) -> Duration {
        self.read.processor_time() + self.write.processor_time()
    }

    /// Enqueues a transfer of `bytes` bytes at `address`.
    pub(super) fn pass(
        &mut self,
        lane: Lane,
        transfer: Passing,
        address: Address,
        bytes: u64,
        span: Option<(Arc<Log>, Label)>,
    ) -> Result<()> {
        let slot = self.space.slot_at(transfer.at, bytes)?;
        let (space, to_disk, ts) = (self.space.clone(), transfer.to_disk, self.ts);
        let bytes = bytes as usize;
        self.push(lane, Work::Pass(Pass { space, slot, address, bytes, to_disk, ts, span }))
    }

    /// Fails if a lane has failed.
    pub fn check(&self) -> Result<()> {
        locked(&self.faults.0).clone().map_or(Ok(()), Err)
    }

    /// Waits for the first `read` operations of the lane of reads, and fails if a lane has failed.
    pub fn finish_read(&self, read: u64) -> Result<()> {
        self.read.progress().0.wait(read)?;
        self.check()
    }

    /// Forgets all failures. The lanes have no work.
    pub fn forget_faults(&self) {
        *locked(&self.faults.0) = None;
    }

    /// Waits for all operations.
    pub fn finish(&self) -> Result<()> {
        self.read.finish()?;
        self.write.finish()
    }
}
