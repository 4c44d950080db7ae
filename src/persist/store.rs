//! One rank's generations in a folder: written beside the older ones, published in one step, and
//! removed when newer ones were read back.

use super::container::Reader;
use super::format::{Header, Origin, RecordHead, Start, MOST_RANKS};
use super::journal::Line;
use super::level::{Level, Lock, Temporary};
use super::names::{FileName, LAST_GENERATION};
use super::older::{Held, Notes, Older};
use super::ship::{is_copied, Order, Shipper};
use super::writer::ContainerWriter;
use crate::error::{fail, Code, Error, Result};
use crate::fallible_vec;
use crate::files;
use crate::process::Process;
use std::collections::hash_map::RandomState;
use std::fs::File;
use std::hash::{BuildHasher, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Generations that stay in the folder: if the newest cannot be read, the one before it is there.
pub const KEPT: usize = 2;
/// Most generations of which one may be in the files: each of them is open while it is read.
pub const MOST_INCREMENTAL: u32 = 100;

/// Returns the minimum over all ranks of a number that each rank gives. All ranks call it equally
/// often. With one rank, it returns its argument.
pub type AgreeMin<'a> = &'a mut dyn FnMut(i64) -> Result<i64>;

/// One rank's generations in a folder, and their copies in a shared one if the store has one. The rank's
/// lock in the first folder is held until the store is dropped.
pub struct Store {
    pub(super) near: Level,
    pub(super) shared: Option<Shared>,
    pub(super) ranks: u32,
    /// Number of the next generation.
    pub(super) next: u64,
    /// Generations that this process read completely, and found right.
    verified: Vec<u64>,
    /// All ranks have published this generation or a newer one.
    pub(super) confirmed: u64,
    pub(super) start: Start,
    /// Every generation whose number is a multiple of this is written whole, and the others refer to older ones.
    whole_every: u64,
    /// The last generation that was published whole, and the last one that was begun to be.
    whole: u64,
    begun_whole: u64,
    /// What the last published generation holds.
    held: Option<Arc<Held>>,
    _lock: Lock,
    pub(super) strict: bool,
    process: Process,
}

/// The shared level of a store, to which a [`Shipper`] copies what the order asks for.
pub(super) struct Shared {
    pub level: Level,
    order: Order,
    /// Whether the generation of the order is there, as far as this process knows.
    is_shipped: bool,
}

impl Store {
    /// Opens a folder of generations for `rank` of `ranks` ranks, and makes the folder, for this
    /// user alone, if it is missing. Takes the rank's lock, and removes what writers that died have
    /// left behind. The lock of a process that died is free.
    ///
    /// A folder of another user than this process's and root is taken with a warning, and so are
    /// generations: groups share folders, and a container or a file server may show other owners.
    /// With `strict`, this fails for such a folder, and for one to which others can write, and no
    /// file of such an owner or mode is used.
    pub fn open(dir: &Path, rank: u32, ranks: u32, strict: bool) -> Result<Store> {
        if ranks == 0 || ranks > MOST_RANKS || rank >= ranks {
            return fail!(
                Argument,
                "rank = {rank} of ranks = {ranks}: ranks is a number from 1 to {MOST_RANKS}, and rank one from 0 to ranks - 1"
            );
        }
        let near = Level::open(dir, rank, strict)?;
        let mut store = Store {
            _lock: near.lock()?,
            near,
            shared: None,
            ranks,
            next: 1,
            verified: Vec::new(),
            confirmed: 0,
            start: Start { number: random(), ..Start::default() },
            whole_every: 1,
            whole: 0,
            begun_whole: 0,
            held: None,
            strict,
            process: Process::current(),
        };
        store.near.sweep()?;
        store.next = 1 + store.near.last_number()?;
        Ok(store)
    }

    /// Gives the store a second level: a folder that outlives the node, such as one of a parallel file
    /// system. A [`Shipper`] copies generations there. To be called before the first generation is begun. Fails if
    /// both folders have generations and nothing was to be copied from the one to the other: they are of two runs.
    /// With `packs`, the copies are packed without loss.
    pub fn share(&mut self, dir: &Path, packs: bool) -> Result<()> {
        let level = Level::open(dir, self.near.rank, self.strict)?;
        if level.is_same_folder(&self.near)? {
            return fail!(
                Config,
                "persist_dir and persist_shared_dir are one folder, {}: name a second one, or leave persist_shared_dir away",
                dir.display()
            );
        }
        // A folder whose generations were to be copied has an order, and one without a journal has files that were
        // brought there, such as by `gpuzip_mpi_recover`.
        let is_other =
            self.near.has_file(FileName::Journal) && !self.near.has_file(FileName::Order);
        if is_other && !level.generations()?.is_empty() {
            return fail!(
                Config,
                "{} has restart files of a run, and those in {}, such as a clone, were never copied there: give this run a persist_shared_dir of its own, or an empty persist_dir, with which it goes on from the shared one",
                dir.display(),
                self.near.path.display()
            );
        }
        self.next = self.next.max(1 + level.last_number()?);
        let order = Order::begin(&self.near, &level, packs)?;
        let is_shipped = is_copied(&self.near, &level, order.generation);
        self.shared = Some(Shared { level, order, is_shipped });
        Ok(())
    }

    /// Has generations whose number is no multiple of `every` refer to older ones for the records that have not
    /// changed since, instead of holding them. When the files since the last one that holds everything have more
    /// bytes than `KEPT` such generations, the next one holds everything, too, unless there was no room for the last
    /// such one.
    pub fn whole_every(&mut self, every: u32) {
        self.whole_every = every.max(1).into();
    }

    /// Whether the store has a second level.
    pub fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// Begins to write the next generation. What is written becomes visible when it is published. A
    /// writer that is dropped removes its file.
    pub fn begin(&mut self, header: Header) -> Result<Writer> {
        self.process.check()?;
        if self.next > LAST_GENERATION {
            return fail!(
                Io,
                "{}: there are no more numbers for generations: remove the file with the number {LAST_GENERATION}, if it is a copy, or name another folder",
                self.near.path.display()
            );
        }
        let origin = Origin {
            generation: self.next,
            rank: self.near.rank,
            ranks: self.ranks,
            confirmed: self.confirmed,
            time: now(),
            start: self.start,
        };
        let name = FileName::Temporary(self.next);
        // The number is used up even if this fails: other ranks give it to their part.
        self.next += 1;
        let held = self.held.clone().filter(|held| {
            let mut files = held.generations();
            // Files of which little is needed may have many bytes.
            let most = (KEPT as u64).saturating_mul(held.whole_bytes);
            let is_short = self.begun_whole != self.whole;
            origin.generation % self.whole_every != 0
                && (is_short || self.near.bytes_since(self.whole).is_ok_and(|bytes| bytes <= most))
                && held.is_readable()
                && files.all(|number| self.near.has(number))
        });
        if held.is_none() {
            self.begun_whole = origin.generation;
        }
        let notes = match self.whole_every {
            1 => None,
            _ => {
                let near = self.near.clone();
                let open = Box::new(move |number| near.open_file(number));
                Some(Notes::new(held.map(|held| Older { held, open }))?)
            }
        };
        let created = self.near.create(origin.generation).map_err(Error::from);
        let made = created.and_then(|(file, temporary)| {
            let Header { shot, it, .. } = header;
            let line = Line { generation: origin.generation, shot, it, bytes: 0 };
            Ok(Writer {
                writer: ContainerWriter::new(file, &header, &origin, notes)?,
                temporary,
                line,
                path: self.near.path.clone(),
            })
        });
        made.map_err(|e| e.within(self.near.place(name)))
    }

    /// Publishes a generation: puts its bytes on the disk, gives the file its name, puts the name
    /// on the disk, and appends a line to the journal. Then reads the generation back and removes
    /// generations that are no longer needed: those older than the `KEPT` newest that this process
    /// has read completely, older than the one that all ranks have (`confirm`), and referred to by none. Returns the
    /// number of the generation. If this fails, the older generations are as they were.
    pub fn publish(&mut self, finished: Finished) -> Result<u64> {
        self.process.check()?;
        let Finished { file, temporary, line, held, .. } = finished;
        let generation = line.generation;
        if !Arc::ptr_eq(&temporary.folder, &self.near.folder) {
            return fail!(Argument, "a generation is published by the store that began it");
        }
        self.near.publish(file, temporary, line).map_err(|e| {
            e.within(format_args!(
                "generation {generation} may be lost, and the older ones are as they were: {}",
                self.near.place(FileName::Generation(generation))
            ))
        })?;
        self.held = held.map(Arc::new);
        if self.begun_whole == generation {
            self.whole = generation;
        }
        self.verified(generation)?;
        if self.ranks == 1 {
            self.confirmed = self.confirmed.max(generation);
        }
        self.look();
        self.prune();
        Ok(generation)
    }

    /// Tells the store that every rank has published `generation`. With more than one rank,
    /// `publish` removes no generation that is newer than, or the same as, the one last told: a
    /// rank that is slower than this one may have nothing newer. Call it with the minimum over all
    /// ranks of what `publish` last returned, before the next generation is begun. With one rank
    /// there is no need to.
    pub fn confirm(&mut self, generation: u64) {
        self.confirmed = self.confirmed.max(generation);
    }

    /// Removes what this process has published and not all ranks have, but for the newest: nothing goes on from it,
    /// and where one rank has no room for its parts, those of the others would fill their folders. No rank is
    /// publishing.
    pub fn keep_common(&mut self) {
        let Some(newest) = self.verified.last().copied() else { return };
        let (verified, confirmed) = (&mut self.verified, self.confirmed);
        let is_lost = |number| number > confirmed && number != newest;
        let removed =
            self.near.remove_all(&mut |number| is_lost(number) && verified.contains(&number));
        if removed.is_ok() {
            verified.retain(|number| !is_lost(*number) || self.near.has(*number));
        }
    }

    /// Notes that the run goes on from a generation: what is written from now on is of a start whose parent
    /// is the generation's. Called on all ranks, with their parts of one generation.
    pub fn went_on(&mut self, from: Origin) {
        let (parent, from) = (from.start.number, from.generation);
        let numbers = [self.start.number, parent, from];
        let number = files::hash(numbers.into_iter().flat_map(u64::to_le_bytes));
        self.start = Start { number: start_number(number), parent, from };
        self.held = None;
    }

    /// Notes that this process has read a generation completely.
    pub(super) fn verified(&mut self, generation: u64) -> Result<()> {
        if self.verified.contains(&generation) {
            return Ok(());
        }
        fallible_vec::push(&mut self.verified, generation)?;
        self.verified.sort_unstable();
        Ok(())
    }

    /// Looks whether what was ordered is on the shared level now. `publish` does so, too.
    pub fn look(&mut self) {
        let Some(Shared { level, order, is_shipped }) = &mut self.shared else { return };
        if !level.is_at(&order.shared) {
            // The folder was removed or mounted anew: the one that has its name now counts.
            if let Ok(now) = Level::open(&order.shared, level.rank, self.strict) {
                *level = now;
            }
        }
        let number = order.generation;
        let is_right = *is_shipped || is_copied(&self.near, level, number);
        *is_shipped = is_right && level.has(number);
    }

    /// Removes the generations that are no longer needed.
    fn prune(&mut self) {
        let Some(second) = self.verified.len().checked_sub(KEPT) else { return };
        let oldest = self.verified[second].min(self.confirmed);
        if self.near.remove_before(oldest, self.shipping()) {
            self.verified.retain(|generation| *generation >= oldest);
        }
    }

    /// Returns the generation that is to be copied to the shared level and, as far as this process knows, is
    /// not there yet.
    fn shipping(&self) -> Option<u64> {
        let shared = self.shared.as_ref().filter(|shared| !shared.is_shipped)?;
        Some(shared.order.generation).filter(|generation| self.near.has(*generation))
    }

    /// Has `generation`, which all ranks have published, copied to the shared level, if the copies of the
    /// generation before are complete on all ranks. All ranks that have a shared level call this together;
    /// `published` is equal on all of them. Returns the shipper of this rank's part, if it is not copied yet.
    pub fn ship(&mut self, published: u64, agree_min: AgreeMin) -> Result<Option<Shipper>> {
        self.look();
        let shipping = self.shipping();
        let Some(shared) = &mut self.shared else { return Ok(None) };
        let mine = match shipping {
            Some(_) => -1,
            None if shared.is_shipped => shared.order.generation as i64,
            None => 0,
        };
        let (least, most) = (agree_min(mine)?, -agree_min(-mine)?);
        if least >= 0 && published > shared.order.generation {
            // Copies that some rank lacks do not count: the older ones stay.
            let all_have = if least == most { least as u64 } else { 0 };
            let folder = shared.level.identity();
            let before = if folder == shared.order.folder { shared.order.complete } else { 0 };
            let complete = all_have.max(before);
            shared.order =
                Order { generation: published, complete, folder, ..shared.order.clone() };
            shared.is_shipped = false;
            shared.order.write(&self.near).unwrap_or_else(|e| {
                let place = self.near.place(FileName::Order);
                log::warn!(
                    "{place}: {e}: generation {published} is not copied to the shared folder"
                );
                shared.order.generation = 0;
            });
        }
        Ok(self.shipping().map(|_| Shipper::new(self.near.clone(), self.strict)))
    }

    /// Returns the numbers of this rank's published generations on all levels, in rising order.
    pub fn generations(&self) -> Result<Vec<u64>> {
        let mut found = self.near.generations()?;
        if let Some(shared) = &self.shared {
            for generation in shared.level.generations()? {
                fallible_vec::push(&mut found, generation)?;
            }
            found.sort_unstable();
            found.dedup();
        }
        Ok(found)
    }

    /// Returns the path of a generation in the first folder.
    pub fn file(&self, generation: u64) -> PathBuf {
        self.near.path.join(FileName::Generation(generation).text(self.near.rank))
    }

    /// Reads a generation completely, from the first level that has it right. Fails with the reasons of all
    /// levels that have it.
    pub(super) fn read_right(&self, generation: u64) -> Result<Reader> {
        let near = self.near.read_right(generation, false);
        let (Err(near), Some(shared)) = (&near, &self.shared) else { return near };
        let has_near = self.near.has(generation);
        match shared.level.read_right(generation, false) {
            Ok(reader) => {
                let folder = shared.level.path.display();
                log::info!("generation {generation} of rank {}: from {folder}", self.near.rank);
                if has_near {
                    log::warn!(
                        "{}: {near}: its copy is taken",
                        self.near.place(FileName::Generation(generation))
                    );
                }
                Ok(reader)
            }
            Err(e) if e.code == Code::Memory || !has_near => Err(e),
            Err(_) if !shared.level.has(generation) => self.near.read_right(generation, false),
            Err(e) => fail!(Stream, "{near}; its copy in {} {e}", shared.level.path.display()),
        }
    }
}

/// Writes a generation: each record with `record` and then its bytes with `write`.
pub struct Writer {
    writer: ContainerWriter<File>,
    temporary: Temporary,
    /// The line of the journal; the bytes are known at the end.
    line: Line,
    path: PathBuf,
}

impl Writer {
    /// Begins the next record. The bytes of the record before must be complete.
    pub fn record(&mut self, head: RecordHead) -> Result<()> {
        let written = self.writer.record(head);
        written.map_err(|e| self.within(e))
    }

    /// Writes the next bytes of the record: `stored_bytes` in all, in any number of pieces.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.writer.write(bytes);
        written.map_err(|e| self.within(e))
    }

    /// Ends the generation. The result is not visible yet: `Store::publish` makes it so.
    pub fn finish(mut self) -> Result<Finished> {
        let finished = self.writer.finish().and_then(|footer| Ok((footer, self.writer.held()?)));
        let (footer, held) = finished.map_err(|e| self.within(e))?;
        let (line, held_bytes) =
            (Line { bytes: footer.length, ..self.line }, self.writer.held_bytes());
        Ok(Finished { file: self.writer.to, temporary: self.temporary, line, held, held_bytes })
    }

    fn within(&self, e: Error) -> Error {
        e.within(format_args!("generation {} in {}", self.line.generation, self.path.display()))
    }
}

/// A generation whose bytes are written, and which is not published.
pub struct Finished {
    file: File,
    temporary: Temporary,
    line: Line,
    held: Option<Held>,
    held_bytes: u64,
}

impl Finished {
    /// Returns the number of the generation.
    pub fn generation(&self) -> u64 {
        self.line.generation
    }

    /// Returns the bytes of the file.
    pub fn bytes(&self) -> u64 {
        self.line.bytes
    }

    /// Returns the bytes that older generations hold, which were not written.
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// Returns what the journal will say of it.
    pub fn line(&self) -> Line {
        self.line
    }
}

/// Returns the number of a start that follows from a number of 64 bits.
fn start_number(number: u64) -> u64 {
    (number >> 1).max(1)
}

/// Returns a random number of a start, from the source that the system gives hash tables.
fn random() -> u64 {
    start_number(RandomState::new().build_hasher().finish())
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}

#[cfg(test)]
#[path = "store_tests.rs"]
pub(super) mod tests;
