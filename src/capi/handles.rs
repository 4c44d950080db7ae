//! Handles: numbers that look like pointers. The library looks them up and never dereferences them,
//! so a stale or foreign handle, or a handle of the wrong kind, is an error. A handle has the number
//! of its process, so that no process takes the handle of another one for its own.

use super::float::in_caller;
use super::quality_runs::QualityRuns;
use super::types::{gpuzip_quality_t, gpuzip_schedule_t, gpuzip_t};
use crate::choice::SharedSchedule;
use crate::error::{fail, Result};
use crate::guarded::Guarded;
use crate::session::Session;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// The live handles of this process.
struct Handles {
    /// The first count that this process may have given to a handle; smaller ones are counts of the
    /// handles of the process that this one was forked from.
    first: usize,
    sessions: BTreeMap<usize, Arc<Mutex<Session>>>,
    schedules: BTreeMap<usize, Arc<SharedSchedule>>,
    qualities: BTreeMap<usize, Arc<Mutex<QualityRuns>>>,
}

impl Handles {
    const fn from(first: usize) -> Self {
        Handles {
            first,
            sessions: BTreeMap::new(),
            schedules: BTreeMap::new(),
            qualities: BTreeMap::new(),
        }
    }

    /// Returns the error for a handle that is not live.
    #[cold]
    fn unknown<R>(&self, handle: usize, kind: &str) -> Result<R> {
        let (process, count) = (handle >> COUNT_BITS, handle % (1 << COUNT_BITS));
        let is_handle = count >= FIRST && count % STEP == 0;
        match handle {
            0 => fail!(Argument, "the {kind} handle is NULL: it was not made, or is finalized"),
            _ if is_handle && process != this_process() && count < self.first => {
                fail!(Forked, "{handle:#x} is a handle of the process that this one was forked from: make a new {kind} after fork")
            }
            _ if is_handle && process != this_process() => fail!(
                Handle,
                "{handle:#x} is a {kind} handle of process {process}, if of any: make a new {kind} in each process"
            ),
            _ => fail!(
                Handle,
                "{handle:#x} is no live {kind} handle: was it finalized or released before?"
            ),
        }
    }
}

const FIRST: usize = 0x1000;
const STEP: usize = 16;
/// Bits of a handle that count; the bits above are the process id, of which Linux has at most 2^22.
const COUNT_BITS: u32 = 40;
const SESSION: &str = "gpuzip_t";
const SCHEDULE: &str = "gpuzip_schedule_t";
const QUALITY: &str = "gpuzip_quality_t";

/// The count of the next handle. No number is given twice or to both kinds of handle, and a forked
/// child gives no count that its parent gave before the fork.
static NEXT: AtomicUsize = AtomicUsize::new(FIRST);

static HANDLES: Guarded<Handles> =
    Guarded::new(Handles::from(FIRST), || Handles::from(NEXT.load(Ordering::Relaxed)));

fn this_process() -> usize {
    std::process::id() as usize
}

fn next() -> usize {
    (this_process() << COUNT_BITS) + NEXT.fetch_add(STEP, Ordering::Relaxed)
}

pub(super) fn add_session(session: Session) -> Result<*mut gpuzip_t> {
    let (mut handles, session) = (HANDLES.write()?, Arc::new(Mutex::new(session)));
    let handle = next();
    handles.sessions.insert(handle, session);
    Ok(handle as *mut gpuzip_t)
}

pub(super) fn add_schedule(shared: Arc<SharedSchedule>) -> Result<*mut gpuzip_schedule_t> {
    let mut handles = HANDLES.write()?;
    let handle = next();
    handles.schedules.insert(handle, shared);
    Ok(handle as *mut gpuzip_schedule_t)
}

thread_local! {
    /// The function of the application that this thread runs in the middle of a call, with the locks
    /// of that call held.
    static INNER: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// The caller's function of a stage, in texts of errors.
pub(super) const STAGE: &str = "callback run";

/// Runs `body`, which calls the function `name` of the application, in the middle of a call. Until
/// `body` returns, calls of this thread on sessions and schedules are errors: they might wait for
/// ever for a lock that this thread holds itself, or for a thread that waits for this one.
pub(super) fn in_inner<R>(name: &'static str, body: impl FnOnce() -> R) -> R {
    // A thread that is ending has lost its mark, and has left every call.
    let mark = |name| INNER.try_with(|inner| inner.replace(name)).unwrap_or(None);
    let outer = mark(Some(name));
    let result = in_caller(body);
    mark(outer);
    result
}

/// Returns the function of the application that this thread runs in the middle of a call, if any.
pub(super) fn inner() -> Option<&'static str> {
    INNER.try_with(Cell::get).unwrap_or(None)
}

/// Fails within a function that [`in_inner`] runs.
pub(super) fn refuse_inner() -> Result<()> {
    inner().map_or(Ok(()), |name| {
        fail!(
            State,
            "{name} makes this call, and the library waits for {name}: make the call after {name} has returned"
        )
    })
}

/// Locks a live session and runs `body` on it.
pub(super) fn with_session<R>(
    handle: *mut gpuzip_t,
    body: impl FnOnce(&mut Session) -> Result<R>,
) -> Result<R> {
    refuse_inner()?;
    let handles = HANDLES.read()?;
    let found = handles.sessions.get(&(handle as usize)).cloned();
    let Some(session) = found else { return handles.unknown(handle as usize, SESSION) };
    drop(handles);
    let Ok(mut session) = session.lock() else {
        return fail!(Poisoned, "the session is unusable after an internal error: finalize it");
    };
    body(&mut session).map_err(|error| session.named(error))
}

pub(super) fn schedule(handle: *mut gpuzip_schedule_t) -> Result<Arc<SharedSchedule>> {
    refuse_inner()?;
    let handles = HANDLES.read()?;
    let found = handles.schedules.get(&(handle as usize)).cloned();
    found.map_or_else(|| handles.unknown(handle as usize, SCHEDULE), Ok)
}

/// Removes a session's handle. The session is freed when no thread uses it any more.
pub(super) fn remove_session(handle: *mut gpuzip_t) -> Result<Arc<Mutex<Session>>> {
    let mut handles = HANDLES.write()?;
    let found = handles.sessions.remove(&(handle as usize));
    found.map_or_else(|| handles.unknown(handle as usize, SESSION), Ok)
}

/// Removes a schedule's handle. The caller frees the schedule, which may take a while, without the lock.
pub(super) fn remove_schedule(handle: *mut gpuzip_schedule_t) -> Result<Arc<SharedSchedule>> {
    let mut handles = HANDLES.write()?;
    let found = handles.schedules.remove(&(handle as usize));
    found.map_or_else(|| handles.unknown(handle as usize, SCHEDULE), Ok)
}

pub(super) fn add_quality(quality: QualityRuns) -> Result<*mut gpuzip_quality_t> {
    let (mut handles, quality) = (HANDLES.write()?, Arc::new(Mutex::new(quality)));
    let handle = next();
    handles.qualities.insert(handle, quality);
    Ok(handle as *mut gpuzip_quality_t)
}

/// Locks a live choice of a bound and runs `body` on it.
pub(super) fn with_quality<R>(
    handle: *mut gpuzip_quality_t,
    body: impl FnOnce(&mut QualityRuns) -> Result<R>,
) -> Result<R> {
    let handles = HANDLES.read()?;
    let found = handles.qualities.get(&(handle as usize)).cloned();
    let Some(quality) = found else { return handles.unknown(handle as usize, QUALITY) };
    drop(handles);
    let Ok(mut quality) = quality.lock() else {
        return fail!(Poisoned, "the handle is unusable after an internal error: close it");
    };
    body(&mut quality)
}

/// Removes the handle of a choice of a bound.
pub(super) fn remove_quality(handle: *mut gpuzip_quality_t) -> Result<()> {
    let mut handles = HANDLES.write()?;
    let found = handles.qualities.remove(&(handle as usize));
    found.map_or_else(|| handles.unknown(handle as usize, QUALITY), |_| Ok(()))
}
