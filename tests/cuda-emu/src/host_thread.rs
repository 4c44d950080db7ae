//! Host functions run on a thread of the driver, as they do in a real one, without the driver's
//! lock: one that needs a lock of the application waits for it and stops nothing but its stream.

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::mpsc::{channel, Sender};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// A `CUhostFn`.
pub type HostFn = extern "C" fn(*mut c_void);

/// How long a call waits for a host function to return before it goes on without it. One that
/// returns by then is deterministic.
const PATIENCE: Duration = Duration::from_millis(100);
/// How long a waiting call sleeps before it looks again.
const SLICE: Duration = Duration::from_millis(20);

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

/// Whether this is the thread of the host functions, where no driver call is permitted.
pub fn inside() -> bool {
    INSIDE.get()
}

/// Starts a host function, and gives it a moment to return.
pub fn start(op: u64, function: HostFn, data: usize) {
    static SENDER: OnceLock<Mutex<Sender<Job>>> = OnceLock::new();
    let sender =
        SENDER.get_or_init(|| Mutex::new(spawn())).lock().unwrap_or_else(PoisonError::into_inner);
    sender.send(Job { op, function, data }).expect("the thread of the host functions");
    let wait = SIGNAL.wait_timeout_while(finished(), PATIENCE, |list| !list.contains(&op));
    drop(wait);
}

/// Takes the operations whose host function has returned.
pub fn collect() -> Vec<u64> {
    std::mem::take(&mut finished())
}

/// Waits a moment for a host function to return. The driver's lock must not be held.
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
