//! Worker threads: each is a lane that runs its tasks in order.

use super::team::Team;
use super::thread::Thread;
use crate::error::{fail, Result};
use crate::fallible_vec;
use crate::guarded::locked;
use std::collections::VecDeque;
use std::ffi::CStr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Tasks that a worker's queue has room for from its start. How many tasks wait depends on how fast
/// the threads are; with this room the queue seldom takes memory during a run.
const ROOM: usize = 32;

/// Work of a worker thread.
pub trait Task: Send + 'static {
    fn run(self);
}

/// A value that threads wait for.
#[derive(Default)]
struct Monitor<T> {
    value: Mutex<T>,
    changed: Condvar,
}

impl<T> Monitor<T> {
    /// Blocks the calling thread as long as `is_early` is true of the value.
    fn wait(&self, is_early: impl FnMut(&mut T) -> bool) -> MutexGuard<'_, T> {
        let waited = self.changed.wait_while(locked(&self.value), is_early);
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the value, and wakes all threads that wait for it.
    fn change(&self, change: impl FnOnce(&mut T)) {
        change(&mut locked(&self.value));
        self.changed.notify_all();
    }
}

/// How many tasks of a worker are done. Other threads wait for this number.
#[derive(Default)]
pub struct Progress(Monitor<Reached>);

#[derive(Default)]
struct Reached {
    done: u64,
    /// True if no further task will be done.
    ended: bool,
}

impl Progress {
    /// Whether the first `sequence` tasks are done.
    pub fn has(&self, sequence: u64) -> bool {
        locked(&self.0.value).done >= sequence
    }

    /// Whether `wait` returns at once.
    pub fn is_over(&self, sequence: u64) -> bool {
        let reached = locked(&self.0.value);
        reached.done >= sequence || reached.ended
    }

    /// Blocks the calling thread until the first `sequence` tasks are done.
    pub fn wait(&self, sequence: u64) -> Result<()> {
        let reached = self.0.wait(|reached| reached.done < sequence && !reached.ended);
        if reached.done < sequence {
            return fail!(Device, "a transfer lane has stopped");
        }
        Ok(())
    }
}

/// The tasks that a worker has yet to begin.
struct Queue<T> {
    tasks: VecDeque<T>,
    /// True if no task will be added any more.
    closed: bool,
}

impl<T> Monitor<Queue<T>> {
    /// Waits for the next task and returns it; `None` once the queue is closed and empty.
    fn next(&self) -> Option<T> {
        self.wait(|queue| queue.tasks.is_empty() && !queue.closed).tasks.pop_front()
    }
}

/// A thread with its tasks.
pub struct Worker<T: Task> {
    queue: Arc<Monitor<Queue<T>>>,
    /// How many tasks are done.
    progress: Arc<Progress>,
    /// Number of tasks that the worker has been given.
    pushed: u64,
    thread: Option<Thread>,
}

impl<T: Task> Worker<T> {
    /// Starts a thread named `name`, which tells a team of each task that is done.
    pub fn start(name: &CStr, team: Option<Arc<Team>>) -> Result<Self> {
        let tasks: VecDeque<T> = fallible_vec::with_room(ROOM)?.into();
        let value = Mutex::new(Queue { tasks, closed: false });
        let queue = Arc::new(Monitor { value, changed: Condvar::new() });
        let progress = Arc::new(Progress::default());
        let (tasks, ending) = (queue.clone(), Ending(progress.clone(), team));
        let run = move || {
            let ending = ending;
            while let Some(task) = tasks.next() {
                task.run();
                ending.change(|reached| reached.done += 1);
            }
        };
        let thread = Some(Thread::start(name, run)?);
        Ok(Worker { queue, progress, pushed: 0, thread })
    }

    pub fn push(&mut self, task: T) -> Result<()> {
        fallible_vec::push_back(&mut locked(&self.queue.value).tasks, task)?;
        self.pushed += 1;
        self.queue.changed.notify_all();
        Ok(())
    }

    /// As `push`, but the calling thread runs a task that `is_short`, without counting it, if the worker
    /// has nothing to do: it takes longer to wake the worker.
    pub fn take(&mut self, task: T, is_short: bool) -> Result<()> {
        if !is_short || !self.progress.has(self.pushed) {
            return self.push(task);
        }
        task.run();
        Ok(())
    }

    /// How many tasks are done, and how many the worker was given.
    pub fn progress(&self) -> (&Arc<Progress>, u64) {
        (&self.progress, self.pushed)
    }

    /// Waits until all tasks so far are done.
    pub fn finish(&self) -> Result<()> {
        self.progress.wait(self.pushed)
    }

    /// The processor time that the worker has taken so far.
    pub fn processor_time(&self) -> Duration {
        self.thread.as_ref().map_or(Duration::ZERO, Thread::processor_time)
    }

    /// Ends the thread after its last task. In a forked child nothing is done.
    pub fn stop(&mut self) {
        let Some(thread) = self.thread.take().filter(Thread::is_here) else { return };
        self.queue.change(|queue| queue.closed = true);
        thread.join();
    }
}

impl<T: Task> Drop for Worker<T> {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Wakes all who wait when the worker ends, by a panic or not: else they would wait for ever.
struct Ending(Arc<Progress>, Option<Arc<Team>>);

impl Ending {
    /// Changes what is reached, and tells those who wait for it.
    fn change(&self, change: impl FnOnce(&mut Reached)) {
        self.0 .0.change(change);
        self.1.iter().for_each(|team| team.notify());
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.change(|reached| reached.ended = true);
    }
}
