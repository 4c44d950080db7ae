//! Handles: numbers that look like pointers and are looked up, never dereferenced. A stale, foreign or mixed-up handle is an error.

use super::types::{gpuzip_schedule_t, gpuzip_t};
use crate::cursor::Cursor;
use crate::error::{fail, Result};
use crate::session::Session;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// The live handles of one kind.
struct Table<T> {
    live: RwLock<BTreeMap<usize, Arc<T>>>,
    kind: &'static str,
}

static SESSIONS: Table<Mutex<Session>> = Table { live: RwLock::new(BTreeMap::new()), kind: "gpuzip_t" };
static SCHEDULES: Table<Cursor> = Table { live: RwLock::new(BTreeMap::new()), kind: "gpuzip_schedule_t" };

/// Numbers are never used twice, and never by both kinds.
static NEXT: AtomicUsize = AtomicUsize::new(0x1000);

impl<T> Table<T> {
    fn insert(&self, value: Arc<T>) -> usize {
        let handle = NEXT.fetch_add(16, Ordering::Relaxed);
        self.live.write().unwrap_or_else(PoisonError::into_inner).insert(handle, value);
        handle
    }

    fn get(&self, handle: usize) -> Result<Arc<T>> {
        self.live.read().unwrap_or_else(PoisonError::into_inner).get(&handle).cloned().ok_or(()).or_else(|()| self.unknown(handle))
    }

    fn remove(&self, handle: usize) -> Result<Arc<T>> {
        self.live.write().unwrap_or_else(PoisonError::into_inner).remove(&handle).ok_or(()).or_else(|()| self.unknown(handle))
    }

    fn unknown(&self, handle: usize) -> Result<Arc<T>> {
        match handle {
            0 => fail!(Argument, "the {} handle is NULL", self.kind),
            _ => fail!(Handle, "{handle:#x} is no live {} handle: was it finalized or released before?", self.kind),
        }
    }
}

pub(super) fn add_session(session: Session) -> *mut gpuzip_t {
    SESSIONS.insert(Arc::new(Mutex::new(session))) as *mut gpuzip_t
}

pub(super) fn add_schedule(cursor: Arc<Cursor>) -> *mut gpuzip_schedule_t {
    SCHEDULES.insert(cursor) as *mut gpuzip_schedule_t
}

/// Runs `body` on a live session.
pub(super) fn with_session<R>(handle: *mut gpuzip_t, body: impl FnOnce(&mut Session) -> Result<R>) -> Result<R> {
    let session = SESSIONS.get(handle as usize)?;
    let Ok(mut session) = session.lock() else {
        return fail!(Poisoned, "the session is unusable after an internal error: finalize it");
    };
    body(&mut session)
}

pub(super) fn schedule(handle: *mut gpuzip_schedule_t) -> Result<Arc<Cursor>> {
    SCHEDULES.get(handle as usize)
}

pub(super) fn remove_session(handle: *mut gpuzip_t) -> Result<()> {
    SESSIONS.remove(handle as usize).map(drop)
}

pub(super) fn remove_schedule(handle: *mut gpuzip_schedule_t) -> Result<()> {
    SCHEDULES.remove(handle as usize).map(drop)
}
