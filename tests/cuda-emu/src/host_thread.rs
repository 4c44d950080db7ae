//! Runs host functions on a thread of the driver, as NVIDIA's driver does, and without the driver's
//! lock: a host function that waits for a lock of the application stops only its own stream.

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::mpsc::{channel, Sender};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// A `CUhostFn`.
pub type HostFn = extern "C" fn(*mut c_void);

/// The time that a call waits for a host function to return before the call goes on. A host
/// function that returns within this time keeps the run deterministic.
const PATIENCE: Duration = Duration::from_millis(100);
/// The longest time that [`wait`] sleeps. A stream that waits for a number in memory is not told when
/// the number changes.
const SLICE: Duration = Duration::from_micros(100);

struct Job {
    op: u64,
    function: HostFn,
    data: usize,
}

static FINISHED: Mutex<Vec<u64>> = Mutex::new(Vec::new());
static SIGNAL: Condvar = Condvar::new();

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether the calling thread is the thread of the host functions, which must not call the
/// driver.
pub fn inside() -> bool {
    INSIDE.get()
}

/// Starts a host function, and waits at most `PATIENCE` for its return.
pub fn start(op: u64, function: HostFn, data: usize) {
    static SENDER: OnceLock<Mutex<Sender<Job>>> = OnceLock::new();
    let sender =
        SENDER.get_or_init(|| Mutex::new(spawn())).lock().unwrap_or_else(PoisonError::into_inner);
    sender.send(Job { op, function, data }).expect("the thread of the host functions");
    let wait = SIGNAL.wait_timeout_while(finished(), PATIENCE, |list| !list.contains(&op));
    drop(wait);
}

/// Returns the operations whose host functions have returned since the last call.
pub fn collect() -> Vec<u64> {
    std::mem::take(&mut finished())
}

/// Waits at most `SLICE` for a host function to return. The caller must not hold the driver's lock.
pub fn wait() {
    let (list, _) = SIGNAL
        .wait_timeout_while(finished(), SLICE, |list| list.is_empty())
        .unwrap_or_else(PoisonError::into_inner);
    drop(list);
}

fn finished() -> MutexGuard<'static, Vec<u64>> {
    FINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn spawn() -> Sender<Job> {
    let (sender, receiver) = channel::<Job>();
    std::thread::spawn(move || {
        INSIDE.set(true);
        for job in receiver {
            (job.function)(job.data as *mut c_void);
            finished().push(job.op);
            SIGNAL.notify_all();
        }
    });
    sender
}
