//! The host backend: RAM is its device memory, the calling thread is the application's stream, two worker threads are the transfer lanes.
//!
//! With a link bandwidth set, whatever crosses from one memory to the other takes at least the time that such a link would need, so that
//! an accelerator's balance can be studied without one.

use super::{Device, Event, Lane, Place, Traffic};
use crate::error::{fail, Result};
use crate::fork::Process;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The host as a device.
pub struct HostDevice {
    device: Slab,
    host: Slab,
    link: Link,
    upload: Worker,
    download: Worker,
    traffic: Traffic,
    /// The process that owns the worker threads; a fork does not inherit them.
    process: Process,
}

impl HostDevice {
    /// Starts the two transfer lanes. `link_bandwidth` is in bytes per second each way; 0 is no simulation.
    pub fn new(link_bandwidth: f64) -> Result<Self> {
        let link = Link { bandwidth: link_bandwidth, free: Instant::now() };
        Ok(HostDevice {
            device: Slab::new(0)?,
            host: Slab::new(0)?,
            upload: Worker::start("gpuzip-upload", link.clone())?,
            download: Worker::start("gpuzip-download", link.clone())?,
            link,
            traffic: Traffic::default(),
            process: Process::current(),
        })
    }

    fn worker(&mut self, lane: Lane) -> Option<&mut Worker> {
        match lane {
            Lane::App => None,
            Lane::Upload => Some(&mut self.upload),
            Lane::Download => Some(&mut self.download),
        }
    }

    fn queue(&self, lane: Lane) -> Option<&Arc<Queue>> {
        match lane {
            Lane::App => None,
            Lane::Upload => Some(&self.upload.queue),
            Lane::Download => Some(&self.download.queue),
        }
    }

    fn address(&self, place: Place, bytes: u64) -> Result<Address> {
        let (slab, offset) = match place {
            Place::Device(offset) => (&self.device, offset),
            Place::Host(offset) => (&self.host, offset),
            Place::App(memory) if bytes <= memory.bytes as u64 => return Ok(Address(memory.address)),
            Place::App(memory) => return fail!(Device, "a copy of {bytes} bytes exceeds a field of {}", memory.bytes),
        };
        if offset.checked_add(bytes).is_none_or(|end| end > slab.bytes as u64) {
            return fail!(Device, "a copy of {bytes} bytes at {offset} exceeds its slab of {}", slab.bytes);
        }
        // SAFETY: the offset lies within the slab's mapping, as just checked.
        Ok(Address(unsafe { slab.address.add(offset as usize) }))
    }
}

impl Device for HostDevice {
    fn reserve(&mut self, device_bytes: u64, host_bytes: u64) -> Result<()> {
        self.device = Slab::new(device_bytes)?;
        self.device.populate();
        self.host = Slab::new(host_bytes)?;
        Ok(())
    }

    fn copy(&mut self, lane: Lane, to: Place, from: Place, bytes: u64) -> Result<()> {
        let copy = Copy { to: self.address(to, bytes)?, from: self.address(from, bytes)?, bytes: bytes as usize, crosses: false };
        let crosses = match (to, from) {
            (Place::Host(_), Place::Device(_) | Place::App(_)) => {
                self.traffic.d2h_bytes += bytes;
                true
            }
            (Place::Device(_) | Place::App(_), Place::Host(_)) => {
                self.traffic.h2d_bytes += bytes;
                true
            }
            _ => false,
        };
        let copy = Copy { crosses, ..copy };
        match self.worker(lane) {
            Some(worker) => worker.push(Task::Copy(copy)),
            None => copy.run(&mut self.link),
        }
        Ok(())
    }

    fn record(&mut self, lane: Lane) -> Event {
        let sequence = self.worker(lane).map_or(0, |worker| worker.pushed);
        Event { lane, sequence }
    }

    fn wait(&mut self, lane: Lane, event: Event) -> Result<()> {
        // The application's lane runs at once, so its events are always past; so are those of the lane itself.
        let Some(other) = self.queue(event.lane).filter(|_| event.lane != lane).cloned() else { return Ok(()) };
        match self.worker(lane) {
            None => other.wait(event.sequence),
            Some(_) if other.lock().done >= event.sequence => Ok(()),
            Some(worker) => {
                worker.push(Task::Wait(other, event.sequence));
                Ok(())
            }
        }
    }

    fn is_done(&self, event: Event) -> bool {
        self.queue(event.lane).is_none_or(|queue| queue.lock().done >= event.sequence)
    }

    fn synchronize(&mut self) -> Result<()> {
        self.upload.queue.wait(self.upload.pushed)?;
        self.download.queue.wait(self.download.pushed)
    }

    fn traffic(&self) -> Traffic {
        self.traffic
    }
}

impl Drop for HostDevice {
    fn drop(&mut self) {
        if !self.process.is_current() {
            // In a forked child the workers do not exist; joining them would wait for ever.
            std::mem::forget(self.upload.thread.take());
            std::mem::forget(self.download.thread.take());
            return;
        }
        self.upload.stop();
        self.download.stop();
    }
}

/// Anonymous memory, mapped in one piece with huge pages where the system has them. A mapping that fails is an error, never an abort.
struct Slab {
    address: *mut u8,
    bytes: usize,
}

// SAFETY: the slab owns its mapping; who reads and writes it when is decided by the lanes.
unsafe impl Send for Slab {}

impl Slab {
    fn new(bytes: u64) -> Result<Self> {
        if bytes == 0 {
            return Ok(Slab { address: std::ptr::NonNull::dangling().as_ptr(), bytes: 0 });
        }
        let Some(size) = usize::try_from(bytes).ok().filter(|&size| size <= isize::MAX as usize) else {
            return fail!(Memory, "{bytes} bytes of snapshots do not fit the address space");
        };
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new anonymous mapping touches no memory of anybody.
        let address = unsafe { libc::mmap(std::ptr::null_mut(), size, access, kind, -1, 0) };
        if address == libc::MAP_FAILED {
            let reason = std::io::Error::last_os_error();
            return fail!(Memory, "cannot allocate {bytes} bytes for snapshots ({reason}): lower the budgets or the number of snapshots");
        }
        // SAFETY: the range is the mapping just made; the advice changes no content.
        unsafe { libc::madvise(address, size, libc::MADV_HUGEPAGE) };
        Ok(Slab { address: address.cast(), bytes: size })
    }

    /// Touches every page, so that no shot pays for page faults. Best effort: a page that cannot be had now is had at its first use.
    fn populate(&mut self) {
        if self.bytes > 0 {
            // SAFETY: the range is this slab's own mapping.
            unsafe { libc::madvise(self.address.cast(), self.bytes, libc::MADV_POPULATE_WRITE) };
        }
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

/// Checked memory that a lane may use.
#[derive(Clone, Copy)]
struct Address(*mut u8);

// SAFETY: the session orders all uses of an address by events; the slabs outlive the workers.
unsafe impl Send for Address {}

#[derive(Clone, Copy)]
struct Copy {
    to: Address,
    from: Address,
    bytes: usize,
    crosses: bool,
}

impl Copy {
    fn run(self, link: &mut Link) {
        let begin = Instant::now();
        // SAFETY: both ranges were checked when the copy was enqueued, and slabs and fields never overlap one another.
        unsafe { std::ptr::copy_nonoverlapping(self.from.0, self.to.0, self.bytes) };
        if self.crosses {
            link.pace(begin, self.bytes);
        }
    }
}

/// A simulated link: one direction, one transfer at a time.
#[derive(Clone)]
struct Link {
    bandwidth: f64,
    /// When the transfers so far would have ended.
    free: Instant,
}

impl Link {
    /// Blocks until the link would have moved `bytes`, begun at `begin` or when it was free. Sleeping late is made up for by the next one.
    fn pace(&mut self, begin: Instant, bytes: usize) {
        if self.bandwidth > 0.0 {
            self.free = self.free.max(begin) + Duration::from_secs_f64(bytes as f64 / self.bandwidth);
            std::thread::sleep(self.free.saturating_duration_since(Instant::now()));
        }
    }
}

enum Task {
    Copy(Copy),
    Wait(Arc<Queue>, u64),
}

/// The tasks of a worker, and how many are done.
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    tasks: VecDeque<Task>,
    done: u64,
    /// No task will be added, or none will be done any more.
    closed: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self, sequence: u64) -> Result<()> {
        let mut state = self.lock();
        while state.done < sequence && !state.closed {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.done < sequence {
            return fail!(Device, "a transfer lane has stopped");
        }
        Ok(())
    }

    /// The next task; `None` once the queue is closed and empty.
    fn next(&self) -> Option<Task> {
        let mut state = self.lock();
        loop {
            if let Some(task) = state.tasks.pop_front() {
                return Some(task);
            }
            if state.closed {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A transfer lane.
struct Worker {
    queue: Arc<Queue>,
    pushed: u64,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    fn start(name: &str, mut link: Link) -> Result<Self> {
        let queue = Arc::new(Queue { state: Mutex::default(), changed: Condvar::new() });
        let tasks = queue.clone();
        let run = move || {
            block_signals();
            while let Some(task) = tasks.next() {
                match task {
                    Task::Copy(copy) => copy.run(&mut link),
                    // A lane that stopped does so only when the device is dropped: nobody waits for this copy any more.
                    Task::Wait(other, sequence) => drop(other.wait(sequence)),
                }
                tasks.lock().done += 1;
                tasks.changed.notify_all();
            }
        };
        match std::thread::Builder::new().name(name.into()).spawn(run) {
            Ok(thread) => Ok(Worker { queue, pushed: 0, thread: Some(thread) }),
            Err(e) => fail!(Device, "cannot start a transfer thread: {e}"),
        }
    }

    fn push(&mut self, task: Task) {
        self.pushed += 1;
        self.queue.lock().tasks.push_back(task);
        self.queue.changed.notify_all();
    }

    fn stop(&mut self) {
        self.queue.lock().closed = true;
        self.queue.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Signals are for the application's threads.
fn block_signals() {
    // SAFETY: the set is initialised by sigfillset before its use; the mask concerns this thread alone.
    unsafe {
        let mut all = std::mem::MaybeUninit::uninit();
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), std::ptr::null_mut());
    }
}
