//! A team of threads that share the parts of one piece of work with the thread that has it. A thread that waits
//! for something else may help meanwhile.

use super::thread::Thread;
use crate::error::Result;
use crate::fallible_vec;
use crate::guarded::locked;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Pieces of work that may be under way at once: of the threads of all lanes and of the application.
const MOST_JOBS: usize = 8;

/// The threads, and the work that they share.
pub struct Team {
    shared: Arc<Shared>,
    threads: Mutex<Vec<Thread>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The work under way whose parts may not all be taken.
    jobs: [Option<Open>; MOST_JOBS],
    /// Threads that work on a part now, but those that help while they wait for something else.
    busy: usize,
    /// Most threads that shall be busy; the threads of the team help only if fewer are.
    most: usize,
    closed: bool,
}

/// A job whose owner waits until nobody helps.
#[derive(Clone, Copy)]
struct Open(*const Job<'static>);

// SAFETY: a job may be used by any thread as long as its owner waits for those that help.
unsafe impl Send for Open {}

/// Work in parts, each of which one thread does. Every thread has a seat of its own.
struct Job<'a> {
    work: &'a (dyn Fn(usize, usize) + Sync),
    parts: usize,
    next: AtomicUsize,
    seats: usize,
    /// Seats that are taken, and threads that help now.
    taken: AtomicUsize,
    helpers: AtomicUsize,
    /// Parts that a thread has done: fewer than all if one has panicked.
    done: AtomicUsize,
}

impl Job<'_> {
    /// Does parts that nobody does yet, as long as `goes_on`.
    fn take_parts(&self, seat: usize, goes_on: impl Fn() -> bool) {
        while goes_on() {
            let part = self.next.fetch_add(1, Ordering::Relaxed);
            if part >= self.parts {
                return;
            }
            (self.work)(seat, part);
            self.done.fetch_add(1, Ordering::Release);
        }
    }

    fn has_room(&self) -> bool {
        self.next.load(Ordering::Relaxed) < self.parts
            && self.taken.load(Ordering::Relaxed) < self.seats
    }
}

impl Shared {
    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Helps with a job that has room, as long as `goes_on`; an error if there is none.
    fn help<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        is_member: bool,
        goes_on: impl Fn() -> bool,
    ) -> std::result::Result<MutexGuard<'a, State>, MutexGuard<'a, State>> {
        // SAFETY: the owner of a job takes it out, with the lock held, before the job ends.
        let jobs = state.jobs.iter().flatten().map(|open| unsafe { &*open.0 });
        let Some(job) = jobs.into_iter().find(|job| job.has_room()) else { return Err(state) };
        // From here on the owner waits until this thread does not help any more.
        job.helpers.fetch_add(1, Ordering::Relaxed);
        let seat = job.taken.fetch_add(1, Ordering::Relaxed);
        state.busy += usize::from(is_member);
        drop(state);
        let helps = Helps { shared: self, job, is_member };
        job.take_parts(seat, goes_on);
        drop(helps);
        Ok(locked(&self.state))
    }
}

/// A thread that helps. At the end, by a panic or not, it helps no more.
struct Helps<'a> {
    shared: &'a Shared,
    job: &'a Job<'static>,
    is_member: bool,
}

impl Drop for Helps<'_> {
    fn drop(&mut self) {
        let mut state = locked(&self.shared.state);
        state.busy -= usize::from(self.is_member);
        // The last use of the job, whose owner sees it with the lock held.
        self.job.helpers.fetch_sub(1, Ordering::Release);
        drop(state);
        self.shared.changed.notify_all();
    }
}

/// A job under way. At the end, by a panic or not, its owner waits for all who help.
struct UnderWay<'a> {
    shared: &'a Shared,
    at: usize,
    job: &'a Job<'a>,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut state = locked(&self.shared.state);
        state.jobs[self.at] = None;
        state.busy -= 1;
        while self.job.helpers.load(Ordering::Acquire) > 0 {
            state = self.shared.wait(state);
        }
    }
}

impl Team {
    /// Makes a team without threads of its own.
    pub fn new() -> Arc<Self> {
        Arc::new(Team { shared: Arc::default(), threads: Mutex::default() })
    }

    /// Starts threads so that with the one that has work `threads` work at a time.
    pub fn grow(&self, threads: usize) -> Result<()> {
        let mut own = locked(&self.threads);
        locked(&self.shared.state).most = threads;
        while own.len() + 1 < threads {
            let shared = self.shared.clone();
            let run = move || {
                let mut state = locked(&shared.state);
                while !state.closed {
                    let may_help = state.busy < state.most;
                    let helped =
                        if may_help { shared.help(state, true, || true) } else { Err(state) };
                    state = helped.unwrap_or_else(|state| shared.wait(state));
                }
            };
            fallible_vec::push(&mut own, Thread::start(c"gpuzip-code", run)?)?;
        }
        Ok(())
    }

    /// Threads that may have a seat at a piece of work: those that work at a time, and one that waits for
    /// something else.
    pub fn seats(&self) -> usize {
        locked(&self.shared.state).most + 1
    }

    /// Wakes a thread that is in `help_until`.
    pub fn notify(&self) {
        drop(locked(&self.shared.state));
        self.shared.changed.notify_all();
    }

    /// Helps with work of the team until `is_done`.
    pub fn help_until(&self, is_done: impl Fn() -> bool) {
        let mut state = locked(&self.shared.state);
        while !is_done() {
            let helped = self.shared.help(state, false, || !is_done());
            state = helped.unwrap_or_else(|state| self.shared.wait(state));
        }
    }

    /// Does `parts` parts of a piece of work, each by `work` with the number of a seat that no other thread has
    /// meanwhile, below `seats`, and that of the part.
    fn run(&self, parts: usize, seats: usize, work: &(dyn Fn(usize, usize) + Sync)) {
        let count = AtomicUsize::default;
        let job = Job {
            work,
            parts,
            seats,
            next: count(),
            taken: count(),
            helpers: count(),
            done: count(),
        };
        job.taken.store(1, Ordering::Relaxed);
        let mut state = locked(&self.shared.state);
        if let Some(at) = state.jobs.iter().position(Option::is_none) {
            // SAFETY: the lifetime is not used; `UnderWay` waits for all threads that use the job.
            let open = unsafe { std::mem::transmute::<*const Job<'_>, *const Job<'static>>(&job) };
            state.jobs[at] = Some(Open(open));
            state.busy += 1;
            drop(state);
            self.shared.changed.notify_all();
            let under_way = UnderWay { shared: &self.shared, at, job: &job };
            job.take_parts(0, || true);
            drop(under_way);
        } else {
            drop(state);
            job.take_parts(0, || true);
        }
        assert_eq!(job.done.load(Ordering::Acquire), parts, "a thread of the team has panicked");
    }

    /// The processor time that the threads of the team have taken so far.
    pub fn processor_time(&self) -> Duration {
        locked(&self.threads).iter().map(Thread::processor_time).sum()
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        let threads = self.threads.get_mut().unwrap_or_else(PoisonError::into_inner);
        let threads = std::mem::take(threads);
        if threads.iter().all(Thread::is_here) {
            locked(&self.shared.state).closed = true;
            self.shared.changed.notify_all();
            threads.into_iter().for_each(Thread::join);
        }
    }
}

/// A slice of whose items each thread uses others.
struct Apart<T>(*mut T, usize);

// SAFETY: `item` hands each item to one thread at a time.
unsafe impl<T: Send> Sync for Apart<T> {}

impl<T> Apart<T> {
    fn of(items: &mut [T]) -> Self {
        Apart(items.as_mut_ptr(), items.len())
    }

    /// # Safety
    /// The slice is borrowed mutably, and nobody else uses item `k` meanwhile.
    #[allow(clippy::mut_from_ref)]
    unsafe fn item(&self, k: usize) -> &mut T {
        assert!(k < self.1);
        // SAFETY: the item is in the slice; the rest is promised.
        unsafe { &mut *self.0.add(k) }
    }
}

/// Calls `work` once for each item, on the threads of the team if there is one. `seats`, at least one, are for
/// as many threads: each thread gets another one.
pub fn share<S: Send, I: Send>(
    team: Option<&Team>,
    seats: &mut [S],
    items: &mut [I],
    work: impl Fn(&mut S, &mut I) + Sync,
) {
    match (team, seats) {
        (Some(team), seats) if seats.len() > 1 && items.len() > 1 => {
            let (count, all) = (seats.len(), items.len());
            let (seats, items) = (Apart::of(seats), Apart::of(items));
            team.run(all, count, &|seat, part| {
                // SAFETY: `run` gives each seat to one thread and each part to one call.
                unsafe { work(seats.item(seat), items.item(part)) }
            });
        }
        (_, [seat, ..]) => items.iter_mut().for_each(|item| work(seat, item)),
        (_, []) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    /// Every part is done once, in seats that no two threads have at once, by the threads of the team and by one
    /// that waits; the team may be used by several threads.
    #[test]
    fn every_part_is_done_once() {
        let team = Team::new();
        team.grow(3).unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| team.help_until(|| is_over.load(Ordering::Relaxed)));
            let owners: Vec<_> = (0..3)
                .map(|owner: usize| {
                    let team = &team;
                    scope.spawn(move || {
                        for round in 0..200 {
                            let mut items = vec![0u64; 1 + (round * 7 + owner) % 40];
                            let mut seats = vec![0u64; 1 + (round + owner) % 5];
                            share(Some(team), &mut seats, &mut items, |seat, item| {
                                let before = *seat;
                                *item += 1;
                                std::hint::black_box((0..round as u64 * 10).sum::<u64>());
                                *seat = before + 1;
                            });
                            assert!(items.iter().all(|&times| times == 1));
                            assert_eq!(seats.iter().sum::<u64>(), items.len() as u64);
                        }
                    })
                })
                .collect();
            owners.into_iter().for_each(|owner| owner.join().unwrap());
            is_over.store(true, Ordering::Relaxed);
            team.notify();
            waiting.join().unwrap();
        });
        assert_eq!(team.seats(), 4);
    }

    /// The panic of a part is that of its owner, whoever did it, and the team goes on.
    #[test]
    fn a_panic_reaches_the_owner() {
        let team = Team::new();
        team.grow(2).unwrap();
        for bad in 0..8 {
            let run = || {
                share(Some(&team), &mut [(), (), ()], &mut [0, 1, 2, 3, 4, 5, 6, 7], |_, item| {
                    if *item == bad {
                        std::panic::resume_unwind(Box::new(()));
                    }
                    std::thread::sleep(Duration::from_micros(50));
                });
            };
            assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err());
        }
    }
}
