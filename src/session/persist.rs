//! Restart files of a session: when one is due, and its publication in the background.

use super::Session;
use crate::device::{in_background, processor_time, Thread};
use crate::error::{fail, Result};
use crate::fallible_vec::push;
use crate::guarded::locked;
use crate::persist::{Fingerprint, Finished, Line, Name, Reader, Shipper, Store};
use crate::process::Process;
use crate::stop;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Finds the minimum over all ranks of a number that each rank gives.
pub type AgreeMin = Box<dyn FnMut(i64) -> Result<i64> + Send>;

/// What a stage does with each generation that is on the disk: its file, and what it is of.
pub type RunStage = Box<dyn FnMut(&Path, Line) -> Result<()> + Send>;

/// The stage that packs copies without loss, in the key `persist_stages`.
const COMPRESS: &str = "compress";

/// A stage that generations pass when they are on the disk.
struct Stage {
    name: Name,
    priority: i32,
    run: RunStage,
}

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
    /// Whether the ranks have called for a generation since they last settled. This is equal on all ranks;
    /// `publishing` is not where a file could be written on some ranks only.
    pub(super) is_unsettled: bool,
    /// The share of the run time that restart files may take.
    overhead: f64,
    ranks: u32,
    agree_min: AgreeMin,
    /// The application's stages by their priority, when no publication is under way.
    stages: Vec<Stage>,
    /// Whether there is a shared level, and whether all ranks are known to say the same.
    is_shared: bool,
    has_agreed: bool,
    /// When the next generation is due; `None`: now.
    next: Option<Instant>,
    /// Bytes per second of the last generation of at least `LATENCY_BYTES`, until it was durable, and the
    /// seconds that the last one of fewer bytes took; what is assumed, before one was written.
    bandwidth: f64,
    latency: f64,
    /// The shot from whose start, or from within which, the newest generation of this process goes on.
    pub(super) held_shot: Option<i64>,
    /// The generation that `persist_find` found, until it is read.
    pub(super) found: Option<Reader>,
    /// The thread that copies a generation to the shared level, and whether it has ended.
    shipping: Option<(Thread, Arc<AtomicBool>)>,
    /// The last published generation; 0: none.
    published: u64,
    /// Number of generations written, their bytes, those that older ones hold, and the seconds that the
    /// application waited.
    generations: u64,
    bytes: u64,
    held_bytes: u64,
    seconds: f64,
    process: Process,
}

/// A publication in the background.
struct Publishing {
    thread: Option<Thread>,
    shared: Arc<Mutex<Publication>>,
    /// Bytes of the generation, those that older ones hold, and the seconds that writing it took.
    bytes: u64,
    held_bytes: u64,
    seconds: f64,
    /// The shot of the generation.
    held_shot: i64,
}

/// What a publication is given, and what it leaves. Meanwhile all of it is `None` or 0.
#[derive(Default)]
struct Publication {
    store: Option<Store>,
    finished: Option<Finished>,
    stages: Vec<Stage>,
    /// The number of the published generation.
    generation: Option<Result<u64>>,
    time: Duration,
    /// The processor time that it took, until this has put off the next generation.
    processor: Duration,
}

/// Copies to the shared level. If that fails, the run goes on, and so does the next copying. After a stop the
/// time is the application's: what is missing is copied by `gpuzip flushd`, or when the run goes on.
fn ship(shipper: &Shipper) {
    in_background();
    let shipped = shipper.ship(&mut |_| match stop::seconds_left() {
        Some(left) if left < 0.0 => fail!(Io, "the time of the stop is over"),
        _ => Ok(()),
    });
    if let Err(error) = shipped {
        log::warn!(
            "the copies of restart files in the shared folder are not the newest ones: {error}"
        );
    }
}

fn publish(shared: &Mutex<Publication>) {
    let (begin, processor) = (Instant::now(), processor_time());
    let mut given = std::mem::take(&mut *locked(shared));
    if let (Some(store), Some(finished)) = (&mut given.store, given.finished.take()) {
        let line = finished.line();
        let published = store.publish(finished);
        if let Ok(generation) = published {
            let file = store.file(generation);
            let place = file.display();
            for Stage { name, run, .. } in &mut given.stages {
                if let Err(error) = run(&file, line) {
                    log::warn!("{place}: stage {name}: {error}: the generation counts, and passes no further stage");
                    break;
                }
            }
        }
        given.generation = Some(published);
        given.processor = processor_time().saturating_sub(processor);
        given.time = begin.elapsed();
        *locked(shared) = given;
    }
}

/// The share of the run time that restart files may take if the configuration does not say.
const DEFAULT_OVERHEAD: f64 = 0.035;
/// The bandwidth that is assumed before one is measured, in bytes per second.
const ASSUMED_BANDWIDTH: f64 = 0.3e9;
/// The seconds that a generation without bytes is assumed to take.
const ASSUMED_LATENCY: f64 = 0.02;
/// A generation of fewer bytes takes the time of fsync and rename, whatever its bytes.
const LATENCY_BYTES: u64 = 1 << 20;

impl Persist {
    fn new(store: Option<Store>, overhead: f64, ranks: u32, agree_min: AgreeMin) -> Self {
        Persist {
            is_shared: store.as_ref().is_some_and(Store::is_shared),
            store,
            publishing: None,
            is_unsettled: false,
            overhead,
            ranks,
            agree_min,
            stages: Vec::new(),
            has_agreed: ranks == 1,
            next: None,
            bandwidth: ASSUMED_BANDWIDTH,
            latency: ASSUMED_LATENCY,
            held_shot: None,
            found: None,
            shipping: None,
            published: 0,
            generations: 0,
            bytes: 0,
            held_bytes: 0,
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

    /// Fails if some ranks have a shared level and others have none: they would wait for each other.
    fn agree_levels(&mut self) -> Result<()> {
        if self.has_agreed {
            return Ok(());
        }
        let is_shared = self.is_shared;
        let (all, none) = (self.all(is_shared)?, self.all(!is_shared)?);
        self.has_agreed = all || none;
        match self.has_agreed {
            true => Ok(()),
            false => fail!(
                Config,
                "persist_shared_dir is set on some ranks only: set it on all ranks or on none"
            ),
        }
    }

    /// Finds the newest generation that is right on all ranks and has this fingerprint. It is copied to the
    /// shared level if that lacks it, as in a run that begins with a clone.
    pub(super) fn find(&mut self, expected: &Fingerprint) -> Result<()> {
        self.agree_levels()?;
        let Persist { store: Some(store), agree_min, .. } = self else {
            return self.store().map(drop);
        };
        self.found = store.newest(expected, agree_min)?;
        match self.found.as_ref().map(|found| found.origin.generation) {
            Some(generation) => self.ship(generation),
            None => Ok(()),
        }
    }

    /// Publishes a generation in the background. `seconds`: what writing it took.
    pub(super) fn publish(
        &mut self,
        finished: Finished,
        seconds: f64,
        held_shot: i64,
    ) -> Result<()> {
        let (bytes, held_bytes) = (finished.bytes(), finished.held_bytes());
        self.store()?;
        let (store, finished) = (self.store.take(), Some(finished));
        let stages = std::mem::take(&mut self.stages);
        let given = Publication { store, finished, stages, ..Publication::default() };
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
        self.publishing =
            Some(Publishing { thread, shared, bytes, held_bytes, seconds, held_shot });
        Ok(())
    }

    /// Waits for the publication under way, and returns its error.
    pub(super) fn settle(&mut self) -> Result<()> {
        let Some(publishing) = self.publishing.take() else { return Ok(()) };
        let Publishing { thread, shared, bytes, held_bytes, seconds, held_shot } = publishing;
        thread.into_iter().for_each(Thread::join);
        let mut left = locked(&shared);
        let (Some(store), Some(generation)) = (left.store.take(), left.generation.take()) else {
            return fail!(Panic, "internal error, please report it: a generation was not published, and this session writes no more of them");
        };
        self.store = Some(store);
        self.stages = std::mem::take(&mut left.stages);
        self.published = generation?;
        (self.generations, self.bytes) = (self.generations + 1, self.bytes + bytes);
        self.held_bytes += held_bytes;
        self.held_shot = Some(held_shot);
        self.measured(bytes, seconds + left.time.as_secs_f64());
        drop(left);
        match self.ranks {
            1 => self.ship(self.published),
            _ => Ok(()),
        }
    }

    /// Has the generation `published`, which all ranks have, copied to the shared level.
    fn ship(&mut self, published: u64) -> Result<()> {
        let Persist { store: Some(store), agree_min, .. } = self else { return Ok(()) };
        let Some(shipper) = store.ship(published, agree_min)? else { return Ok(()) };
        if self.shipping.as_ref().is_some_and(|(_, is_over)| !is_over.load(Ordering::Acquire))
            || shipper.has_flusher()
        {
            return Ok(());
        }
        self.join_shipping();
        let is_over = Arc::new(AtomicBool::new(false));
        let theirs = is_over.clone();
        let thread = Thread::start(c"gpuzip-ship", move || {
            ship(&shipper);
            theirs.store(true, Ordering::Release);
        });
        match thread {
            Ok(thread) => self.shipping = Some((thread, is_over)),
            Err(error) => log::warn!("{error}: generation {published} is copied later"),
        }
        Ok(())
    }

    /// Waits until what is being copied to the shared level is there.
    fn join_shipping(&mut self) {
        self.shipping.take().into_iter().for_each(|(thread, _)| thread.join());
    }

    /// As `settle`. With several ranks, all of them call this function, and all fail if one does.
    pub(super) fn settle_all(&mut self) -> Result<()> {
        self.is_unsettled = false;
        let settled = self.settle();
        if self.ranks == 1 {
            return settled;
        }
        self.agree_levels()?;
        let settled = settled.and_then(|()| self.store().map(drop));
        let published = if settled.is_ok() { self.published as i64 } else { -1 };
        let least = (self.agree_min)(published)?;
        // A rank that began fewer generations than the others, because a call failed on it alone, would
        // give its next one the number of another state.
        Store::agree_numbers(self.store.as_mut(), &mut self.agree_min)?;
        if let Some(store) = &mut self.store {
            store.confirm(least.max(0) as u64);
            store.keep_common();
        }
        settled?;
        if least < 0 {
            return fail!(
                Io,
                "another rank could not write its part of the generation: its message says why"
            );
        }
        self.ship(least as u64)
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

    /// Notes the seconds that a generation of `bytes` bytes took until it was durable.
    fn measured(&mut self, bytes: u64, seconds: f64) {
        match bytes < LATENCY_BYTES {
            true => self.latency = seconds,
            false => self.bandwidth = bytes as f64 / seconds.max(1e-6),
        }
    }

    /// The seconds that a generation of `bytes` bytes is expected to take until it is durable.
    pub(super) fn expected_seconds(&self, bytes: u64) -> f64 {
        self.latency + bytes as f64 / self.bandwidth
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
        self.agree_levels()?;
        self.count_processor();
        let is_under_way =
            |publishing: &Publishing| locked(&publishing.shared).generation.is_none();
        let own = match (&self.next, &self.publishing) {
            _ if stop::seconds_left().is_some() => Due::Stop,
            (_, Some(publishing)) if is_under_way(publishing) => Due::No,
            (Some(next), _) if Instant::now() < *next => Due::No,
            _ => Due::Yes,
        };
        let is_over = !self.publishing.as_ref().is_some_and(is_under_way);
        // A stop of one rank stops all; a generation is due when it is due on all. One that is over on all
        // is copied to the shared level at once.
        let order = [Due::Stop, Due::No, Due::No, Due::Yes];
        let mine = match own {
            Due::Stop => 0,
            Due::No => 1 + i64::from(is_over),
            Due::Yes => 3,
        };
        let least = if self.ranks == 1 { mine } else { (self.agree_min)(mine)? };
        if least >= 2 && self.is_unsettled && self.is_shared {
            self.settle_all()?;
        }
        Ok(order.get(least.max(0) as usize).copied().unwrap_or(Due::No))
    }
}

impl Drop for Persist {
    fn drop(&mut self) {
        // A forked child does not have the thread.
        if self.process.is_current() {
            self.settle().unwrap_or_else(|error| log::error!("restart files: {error}"));
            self.join_shipping();
            // What is copied now may be an older generation, and so may be what is ordered.
            for _ in 0..if self.ranks == 1 { 2 } else { 0 } {
                self.store.iter_mut().for_each(Store::look);
                let shipped = self.ship(self.published);
                shipped.unwrap_or_else(|error| log::error!("restart files: {error}"));
                self.join_shipping();
            }
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
        let mut store = Store::open(dir, rank, ranks, restart.strict)?;
        store.whole_every(restart.whole_every);
        let packs = restart.stages.iter().any(|name| name.as_str() == COMPRESS);
        match &restart.shared_folder {
            Some(dir) => store.share(dir, packs)?,
            None if packs => {
                return fail!(
                    Config,
                    "persist_stages has the stage {COMPRESS}, which packs copies, and persist_shared_dir is not set: name the folder of the copies, or leave {COMPRESS} out"
                )
            }
            None => {}
        }
        self.persist = Some(Box::new(Persist::new(Some(store), overhead, ranks, agree_min)));
        Ok(())
    }

    /// Has every generation pass a stage when it is on the disk, in the thread that has put it there.
    pub fn persist_stage(&mut self, name: Name, priority: i32, run: RunStage) -> Result<()> {
        self.with_persist(|_, persist| {
            let is_between = |c: char| c == ',' || c.is_whitespace();
            if name.as_str() == COMPRESS || name.as_str().contains(is_between) {
                return fail!(
                    Argument,
                    "a stage of the name \"{name}\": {COMPRESS} is the library's own, and names have no commas and no spaces"
                );
            }
            if persist.stages.iter().any(|stage| stage.name == name) {
                return fail!(Argument, "a stage of the name {name} is registered already");
            }
            if persist.generations > 0 || persist.publishing.is_some() {
                return fail!(State, "a generation was written already: register stages before the first gpuzip_persist_write");
            }
            push(&mut persist.stages, Stage { name, priority, run })?;
            persist.stages.sort_by_key(|stage| stage.priority);
            Ok(())
        })
    }

    /// Keeps the stages that the configuration asks for. Fails if it asks for one that nobody has registered.
    pub(super) fn keep_stages(&self, persist: &mut Persist) -> Result<()> {
        let asked = &self.basis.job.config.restart.stages;
        if asked.is_empty() || persist.generations > 0 || persist.publishing.is_some() {
            return Ok(());
        }
        let is_known = |name: &&Name| {
            name.as_str() == COMPRESS || persist.stages.iter().any(|stage| stage.name == **name)
        };
        if let Some(name) = asked.iter().find(|name| !is_known(name)) {
            return fail!(
                Config,
                "persist_stages has the stage {name}, which is not registered, and is not {COMPRESS}, the library's own: call gpuzip_persist_stage_register, or leave {name} out"
            );
        }
        persist.stages.retain(|stage| asked.contains(&stage.name));
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

    /// Puts the last generation, when it is durable on all ranks, or the one that this session went on from,
    /// into the folder `to`. All ranks call this together.
    pub fn persist_clone(&mut self, to: &Path) -> Result<()> {
        self.with_persist(|_, persist| {
            let begin = Instant::now();
            persist.settle_all()?;
            let cloned = persist.store().and_then(|store| store.clone_to(to));
            let cloned = persist.together(cloned);
            persist.seconds += begin.elapsed().as_secs_f64();
            cloned.map(drop)
        })
    }

    /// Number of generations that this session published, their bytes, those that older ones hold, and the seconds
    /// that the application waited for them.
    pub(super) fn persisted(&self) -> (u64, u64, u64, f64) {
        let numbers = |persist: &Persist| {
            let is_published = |publishing: &&Publishing| {
                matches!(locked(&publishing.shared).generation, Some(Ok(_)))
            };
            let last = persist.publishing.as_ref().filter(is_published);
            let (more, bytes, held) =
                last.map_or((0, 0, 0), |publishing| (1, publishing.bytes, publishing.held_bytes));
            let (generations, bytes) = (persist.generations + more, persist.bytes + bytes);
            (generations, bytes, persist.held_bytes + held, persist.seconds)
        };
        self.persist.as_deref().map_or((0, 0, 0, 0.0), numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A small generation tells of the latency of the disk and nothing of its bandwidth.
    #[test]
    fn a_small_generation_does_not_make_a_disk_slow() {
        let mut persist = Persist::new(None, 0.5, 1, Box::new(Ok));
        for (bytes, seconds, expected) in [
            (0, 0.0, 0.02 + 3e9 / ASSUMED_BANDWIDTH),
            (1000, 0.5, 0.5 + 3e9 / ASSUMED_BANDWIDTH),
            (1 << 30, 1.0, 0.5 + 3e9 / (1u64 << 30) as f64),
        ] {
            if bytes > 0 {
                persist.measured(bytes, seconds);
            }
            assert_eq!(persist.expected_seconds(3_000_000_000), expected);
        }
    }

    /// A second of a processor at an overhead of a half puts the next generation off by two seconds, once,
    /// and only when the publication has ended.
    #[test]
    fn the_processor_time_of_a_publication_counts() {
        let shared = Arc::new(Mutex::new(Publication::default()));
        let (thread, bytes, held_bytes, seconds, held_shot) = (None, 0, 0, 0.0, 0);
        let of = shared.clone();
        let publishing = Publishing { thread, shared: of, bytes, held_bytes, seconds, held_shot };
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
