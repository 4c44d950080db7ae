//! Worker threads: each is a lane that runs its tasks in order.

use super::thread::Thread;
use crate::error::{fail, Result};
use crate::fallible_vec;
use crate::process::Process;
use std::collections::VecDeque;
use std::ffi::CStr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Tasks that a worker's queue has room for from its start. How many tasks wait depends on how fast
/// the threads are; with this room the queue seldom takes memory during a run.
const ROOM: usize = 32;

/// Work of a worker thread.
pub trait Task: Send + 'static {
    /// Does the work.
    fn run(self);
}

/// How many tasks of a worker are done. Other threads wait for this number.
#[derive(Default)]
pub struct Progress {
    reached: Mutex<Reached>,
    changed: Condvar,
}

#[derive(Default)]
struct Reached {
    done: u64,
    /// True if no further task will be done.
    ended: bool,
}

impl Progress {
    fn lock(&self) -> MutexGuard<'_, Reached> {
        self.reached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the first `sequence` tasks are done.
    pub fn has(&self, sequence: u64) -> bool {
        self.lock().done >= sequence
    }

    /// Blocks the calling thread until the first `sequence` tasks are done.
    pub fn wait(&self, sequence: u64) -> Result<()> {
        let mut reached = self.lock();
        while reached.done < sequence && !reached.ended {
            reached = self.changed.wait(reached).unwrap_or_else(PoisonError::into_inner);
        }
        if reached.done < sequence {
            return fail!(Device, "a transfer lane has stopped");
        }
        Ok(())
    }

    fn advance(&self) {
        self.lock().done += 1;
        self.changed.notify_all();
    }
}

/// The tasks that a worker has yet to begin.
struct Queue<T> {
    state: Mutex<Waiting<T>>,
    changed: Condvar,
}

struct Waiting<T> {
    tasks: VecDeque<T>,
    /// True if no task will be added any more.
    closed: bool,
}

impl<T> Queue<T> {
    fn lock(&self) -> MutexGuard<'_, Waiting<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next task and returns it; `None` once the queue is closed and empty.
    fn next(&self) -> Option<T> {
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

/// A thread with its tasks.
pub struct Worker<T: Task> {
    queue: Arc<Queue<T>>,
    /// How many tasks are done.
    pub progress: Arc<Progress>,
    /// Number of tasks that the worker has been given.
    pub pushed: u64,
    thread: Option<Thread>,
    /// The process that owns the thread; a forked child does not have the thread.
    process: Process,
}

impl<T: Task> Worker<T> {
    /// Starts a thread named `name`.
    pub fn start(name: &CStr) -> Result<Self> {
        let tasks: VecDeque<T> = fallible_vec::with_room(ROOM)?.into();
        let waiting = Waiting { tasks, closed: false };
        let queue = Arc::new(Queue { state: Mutex::new(waiting), changed: Condvar::new() });
        let progress = Arc::new(Progress::default());
        let (tasks, ending) = (queue.clone(), Ending(progress.clone()));
        let run = move || {
            let ending = ending;
            while let Some(task) = tasks.next() {
                task.run();
                ending.0.advance();
            }
        };
        let thread = Some(Thread::start(name, run)?);
        Ok(Worker { queue, progress, pushed: 0, thread, process: Process::current() })
    }

    /// Gives the worker a task.
    pub fn push(&mut self, task: T) -> Result<()> {
        fallible_vec::push_back(&mut self.queue.lock().tasks, task)?;
        self.pushed += 1;
        self.queue.changed.notify_all();
        Ok(())
    }

    /// Waits until all tasks so far are done.
    pub fn finish(&self) -> Result<()> {
        self.progress.wait(self.pushed)
    }

    /// Ends the thread after its last task. In a forked child, which does not have the thread,
    /// nothing is done: joining the thread would wait for ever.
    pub fn stop(&mut self) {
        let Some(thread) = self.thread.take().filter(|_| self.process.is_current()) else { return };
        self.queue.lock().closed = true;
        self.queue.changed.notify_all();
        thread.join();
    }
}

impl<T: Task> Drop for Worker<T> {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Tells those who wait when the worker ends, by a panic or not. Without this, code that waits for
/// the worker would wait for ever.
struct Ending(Arc<Progress>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.lock().ended = true;
        self.0.changed.notify_all();
    }
}
