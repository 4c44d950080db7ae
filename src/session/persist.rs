//! Restart files of a session: when one is due, and its publication in the background.

use super::Session;
use crate::device::{processor_time, Thread};
use crate::error::{fail, Result};
use crate::guarded::locked;
use crate::persist::{Fingerprint, Finished, Reader, Store};
use crate::process::Process;
use crate::stop;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Finds the minimum over all ranks of a number that each rank gives.
pub type AgreeMin = Box<dyn FnMut(i64) -> Result<i64> + Send>;

/// What `persist_due` found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Nothing is to be written now.
    No = 0,
    /// The bound of the overhead permits another generation.
    Yes = 1,
    /// A stop was requested.
    Stop = 2,
}

/// The restart files of a session.
pub struct Persist {
    store: Option<Store>,
    /// The publication under way.
    publishing: Option<Publishing>,
    /// The share of the run time that restart files may take.
    overhead: f64,
    ranks: u32,
    agree_min: AgreeMin,
    /// When the next generation is due; `None`: now.
    next: Option<Instant>,
    /// Bytes per second of the last generation, until it was durable; 0: none was written.
    bandwidth: f64,
    /// The shot whose start a generation of this process holds.
    pub(super) begun_shot: Option<i64>,
    /// The generation that `persist_find` found, until it is read.
    pub(super) found: Option<Reader>,
    /// The last published generation; 0: none.
    published: u64,
    /// Number of generations written, their bytes, and the seconds that the application waited.
    generations: u64,
    bytes: u64,
    seconds: f64,
    process: Process,
}

/// A publication in the background.
struct Publishing {
    thread: Option<Thread>,
    shared: Arc<Mutex<Publication>>,
    /// Bytes of the generation, and the seconds that writing it took.
    bytes: u64,
    seconds: f64,
    /// The shot of whose begin the generation is.
    begun_shot: Option<i64>,
}

/// What a publication is given, and what it leaves. Meanwhile all of it is `None` or 0.
#[derive(Default)]
struct Publication {
    store: Option<Store>,
    finished: Option<Finished>,
    /// The number of the published generation.
    generation: Option<Result<u64>>,
    time: Duration,
    /// The processor time that it took, until this has put off the next generation.
    processor: Duration,
}

fn publish(shared: &Mutex<Publication>) {
    let (begin, processor) = (Instant::now(), processor_time());
    let mut given = std::mem::take(&mut *locked(shared));
    if let (Some(store), Some(finished)) = (&mut given.store, given.finished.take()) {
        given.generation = Some(store.publish(finished));
        given.processor = processor_time().saturating_sub(processor);
        given.time = begin.elapsed();
        *locked(shared) = given;
    }
}

/// The share of the run time that restart files may take if the configuration does not say.
const DEFAULT_OVERHEAD: f64 = 0.035;
/// The bandwidth that is assumed before one is measured, in bytes per second.
const ASSUMED_BANDWIDTH: f64 = 0.3e9;

impl Persist {
    fn new(store: Option<Store>, overhead: f64, ranks: u32, agree_min: AgreeMin) -> Self {
        Persist {
            store,
            publishing: None,
            overhead,
            ranks,
            agree_min,
            next: None,
            bandwidth: 0.0,
            begun_shot: None,
            found: None,
            published: 0,
            generations: 0,
            bytes: 0,
            seconds: 0.0,
            process: Process::current(),
        }
    }

    /// Returns the store, which an internal error during a publication takes away; no publication is
    /// under way.
    pub(super) fn store(&mut self) -> Result<&mut Store> {
        match &mut self.store {
            Some(store) => Ok(store),
            None => fail!(
                State,
                "an internal error has ended the writing of restart files: finalize the session and go on in \
                 a new one"
            ),
        }
    }

    /// Finds the newest generation that is right on all ranks and has this fingerprint.
    pub(super) fn find(&mut self, expected: &Fingerprint) -> Result<()> {
        let Persist { store: Some(store), agree_min, .. } = self else {
            return self.store().map(drop);
        };
        self.found = store.newest(expected, agree_min)?;
        Ok(())
    }

    /// Publishes a generation in the background. `seconds`: what writing it took.
    pub(super) fn publish(
        &mut self,
        finished: Finished,
        seconds: f64,
        begun_shot: Option<i64>,
    ) -> Result<()> {
        let bytes = finished.bytes();
        self.store()?;
        let (store, finished) = (self.store.take(), Some(finished));
        let given = Publication { store, finished, ..Publication::default() };
        let shared = Arc::new(Mutex::new(given));
        let theirs = shared.clone();
        let thread = match Thread::start(c"gpuzip-persist", move || publish(&theirs)) {
            Ok(thread) => Some(thread),
            Err(error) => {
                log::info!("{error}: the generation is published while the application waits");
                publish(&shared);
                // This processor time is a part of the wait.
                locked(&shared).processor = Duration::ZERO;
                None
            }
        };
        self.publishing = Some(Publishing { thread, shared, bytes, seconds, begun_shot });
        Ok(())
    }

    /// Waits for the publication under way, and returns its error.
    pub(super) fn settle(&mut self) -> Result<()> {
        let Some(publishing) = self.publishing.take() else { return Ok(()) };
        let Publishing { thread, shared, bytes, seconds, begun_shot } = publishing;
        thread.into_iter().for_each(Thread::join);
        let mut left = locked(&shared);
        let (Some(store), Some(generation)) = (left.store.take(), left.generation.take()) else {
            return fail!(Panic, "internal error, please report it: a generation was not published, and this session writes no more of them");
        };
        self.store = Some(store);
        self.published = generation?;
        (self.generations, self.bytes) = (self.generations + 1, self.bytes + bytes);
        self.begun_shot = begun_shot.or(self.begun_shot);
        self.bandwidth = bytes as f64 / (seconds + left.time.as_secs_f64()).max(1e-6);
        Ok(())
    }

    /// As `settle`. With several ranks, all of them call this function, and all fail if one does.
    pub(super) fn settle_all(&mut self) -> Result<()> {
        let settled = self.settle();
        if self.ranks == 1 {
            return settled;
        }
        let settled = settled.and_then(|()| self.store().map(drop));
        let published = if settled.is_ok() { self.published as i64 } else { -1 };
        let least = (self.agree_min)(published)?;
        // A rank that began fewer generations than the others, because a call failed on it alone, would
        // give its next one the number of another state.
        match &mut self.store {
            Some(store) => store.agree_numbers(&mut self.agree_min)?,
            None => drop((self.agree_min)(0)?),
        }
        settled?;
        if least < 0 {
            return fail!(
                Io,
                "another rank could not write its part of the generation: its message says why"
            );
        }
        self.store()?.confirm(least as u64);
        Ok(())
    }

    /// Returns `result`; with several ranks, an error on each of them if one has an error.
    pub(super) fn together<R>(&mut self, result: Result<R>) -> Result<R> {
        if !self.all(result.is_ok())? && result.is_ok() {
            return fail!(Io, "the call failed on another rank: its message says why");
        }
        result
    }

    /// Whether all ranks say `yes`.
    pub(super) fn all(&mut self, yes: bool) -> Result<bool> {
        match self.ranks {
            1 => Ok(yes),
            _ => Ok((self.agree_min)(yes.into())? != 0),
        }
    }

    /// The seconds that a generation of `bytes` bytes is expected to take until it is durable.
    pub(super) fn expected_seconds(&self, bytes: u64) -> f64 {
        let bandwidth = if self.bandwidth > 0.0 { self.bandwidth } else { ASSUMED_BANDWIDTH };
        0.02 + bytes as f64 / bandwidth
    }

    /// Counts the seconds that the application waited, since `begin`: with the processor time of the
    /// publication, they decide when the next generation is due.
    pub(super) fn waited(&mut self, begin: Instant) {
        let seconds = begin.elapsed().as_secs_f64();
        self.seconds += seconds;
        self.next = Some(self.later(Instant::now(), seconds));
    }

    /// Returns when the next generation is due that, without `seconds` seconds of work for the last
    /// one, would be due at `next`.
    fn later(&self, next: Instant, seconds: f64) -> Instant {
        let pause = Duration::try_from_secs_f64(seconds / self.overhead);
        let most = Duration::from_secs(1 << 30);
        next.checked_add(pause.unwrap_or(most).min(most)).unwrap_or(next)
    }

    /// Puts the next generation off by the processor time of a publication that has ended: a thread of
    /// the application may have waited for this processor.
    fn count_processor(&mut self) {
        let (Some(publishing), Some(next)) = (&self.publishing, self.next) else { return };
        let processor = std::mem::take(&mut locked(&publishing.shared).processor);
        self.next = Some(self.later(next, processor.as_secs_f64()));
    }

    fn due(&mut self) -> Result<Due> {
        self.count_processor();
        let is_under_way =
            |publishing: &Publishing| locked(&publishing.shared).generation.is_none();
        let own = match (&self.next, &self.publishing) {
            _ if stop::seconds_left().is_some() => Due::Stop,
            (_, Some(publishing)) if is_under_way(publishing) => Due::No,
            (Some(next), _) if Instant::now() < *next => Due::No,
            _ => Due::Yes,
        };
        if self.ranks == 1 {
            return Ok(own);
        }
        // A stop of one rank stops all; a generation is due when it is due on all.
        let order = [Due::Stop, Due::No, Due::Yes];
        let mine = order.iter().position(|due| *due == own).unwrap_or(1);
        let least = (self.agree_min)(mine as i64)?;
        Ok(order.get(least.max(0) as usize).copied().unwrap_or(Due::No))
    }
}

impl Drop for Persist {
    fn drop(&mut self) {
        // A forked child does not have the thread.
        if self.process.is_current() {
            self.settle().unwrap_or_else(|error| log::error!("restart files: {error}"));
        }
    }
}

impl Session {
    /// Opens the folder of restart files for `rank` of `ranks` ranks.
    pub fn persist_open(&mut self, (rank, ranks): (u32, u32), agree_min: AgreeMin) -> Result<()> {
        self.process.check()?;
        let restart = &self.basis.job.config.restart;
        let Some(dir) = &restart.folder else {
            return fail!(
                State,
                "persist_dir is not set: name the folder of restart files in the configuration"
            );
        };
        if self.persist.is_some() {
            return fail!(State, "the restart files of this session are open already");
        }
        let overhead = if restart.overhead == 0.0 { DEFAULT_OVERHEAD } else { restart.overhead };
        let store = Store::open(dir, rank, ranks, restart.strict)?;
        self.persist = Some(Box::new(Persist::new(Some(store), overhead, ranks, agree_min)));
        Ok(())
    }

    /// Lends the restart files to `body`.
    pub(super) fn with_persist<R>(
        &mut self,
        body: impl FnOnce(&mut Self, &mut Persist) -> Result<R>,
    ) -> Result<R> {
        self.process.check()?;
        let Some(mut persist) = self.persist.take() else {
            return fail!(State, "no restart files are open: call gpuzip_persist_open first");
        };
        let result = body(self, &mut persist);
        self.persist = Some(persist);
        result
    }

    /// Says whether a generation is to be written now. All ranks call this together.
    pub fn persist_due(&mut self) -> Result<Due> {
        let shots_only = !self.is_between_shots() && self.check_within_shot().is_err();
        self.with_persist(|_, persist| match persist.due()? {
            Due::Yes if shots_only => Ok(Due::No),
            due => Ok(due),
        })
    }

    /// Waits until the last generation is durable, and returns the error of its publication. All ranks
    /// call this together.
    pub fn persist_wait(&mut self) -> Result<()> {
        self.with_persist(|_, persist| {
            let begin = Instant::now();
            let settled = persist.settle_all();
            persist.seconds += begin.elapsed().as_secs_f64();
            settled
        })
    }

    /// Number of generations that this session published, their bytes, and the seconds that the application
    /// waited for them.
    pub(super) fn persisted(&self) -> (u64, u64, f64) {
        let numbers = |persist: &Persist| {
            let is_published = |publishing: &&Publishing| {
                matches!(locked(&publishing.shared).generation, Some(Ok(_)))
            };
            let last = persist.publishing.as_ref().filter(is_published);
            let (more, bytes) = last.map_or((0, 0), |publishing| (1, publishing.bytes));
            (persist.generations + more, persist.bytes + bytes, persist.seconds)
        };
        self.persist.as_deref().map_or((0, 0, 0.0), numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A second of a processor at an overhead of a half puts the next generation off by two seconds, once,
    /// and only when the publication has ended.
    #[test]
    fn the_processor_time_of_a_publication_counts() {
        let shared = Arc::new(Mutex::new(Publication::default()));
        let (thread, bytes, seconds, begun_shot) = (None, 0, 0.0, None);
        let publishing = Publishing { thread, shared: shared.clone(), bytes, seconds, begun_shot };
        let begin = Instant::now();
        let mut persist = Persist::new(None, 0.5, 1, Box::new(Ok));
        (persist.publishing, persist.next) = (Some(publishing), Some(begin));
        persist.count_processor();
        assert_eq!(persist.next, Some(begin));
        let processor = Duration::from_secs(1);
        *locked(&shared) = Publication { generation: Some(Ok(1)), processor, ..Default::default() };
        for _ in 0..2 {
            persist.count_processor();
            assert_eq!(persist.next, Some(begin + Duration::from_secs(2)));
        }
        // There is nothing to wait for.
        persist.publishing = None;
    }
}
