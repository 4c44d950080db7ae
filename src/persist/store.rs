//! One rank's generations in a folder: written beside the older ones, published in one step, and
//! removed when newer ones were read back.

use super::container::{Container, ContainerWriter};
use super::format::{Header, Origin, RecordHead, MOST_RANKS};
use super::journal::{self, Line};
use super::names::{files_in, FileName, LAST_GENERATION};
use crate::error::{fail, text, Code, Error, Result};
use crate::fallible_vec;
use crate::files::{self, Folder};
use crate::process::Process;
use std::ffi::OsString;
use std::fmt::Display;
use std::fs::{DirBuilder, File, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Generations that stay in the folder: if the newest cannot be read, the one before it is there.
pub const KEPT: usize = 2;
/// A rank's lock is waited for at most this long: time for a killed process to end.
const PATIENCE: Duration = Duration::from_millis(500);
/// Most bytes of the text in a lock file that is shown.
const LONGEST_OWNER: u64 = 200;

/// A container that is open for reading.
pub type Reader = Container<File>;

/// One rank's generations in a folder. The rank's lock is held until the store is dropped.
pub struct Store {
    pub(super) folder: Arc<Folder>,
    /// The folder's path, for messages.
    pub(super) path: PathBuf,
    pub(super) rank: u32,
    pub(super) ranks: u32,
    /// Number of the next generation.
    pub(super) next: u64,
    /// Generations that this process read completely, and found right.
    verified: Vec<u64>,
    /// All ranks have published this generation or a newer one.
    pub(super) confirmed: u64,
    lock: File,
    process: Process,
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
        let opened = if strict { Folder::trusted_or_new(dir) } else { open_folder(dir) };
        let opened = opened.map_err(|e| {
            let is_dangling = dir.is_symlink() && !dir.exists();
            let hint = if is_dangling { " (a symbolic link to nothing)" } else { "" };
            Error::from(e).within(format_args!("folder of restart files {}{hint}", dir.display()))
        })?;
        let folder = Arc::new(opened);
        let lock = take_lock(&folder, rank).map_err(|e| e.within(dir.display()))?;
        let mut store = Store {
            folder,
            path: dir.to_path_buf(),
            rank,
            ranks,
            next: 1,
            verified: Vec::new(),
            confirmed: 0,
            lock,
            process: Process::current(),
        };
        store.sweep()?;
        let newest = store.generations()?.last().copied().unwrap_or(0);
        let published = store.published().iter().map(|line| line.generation).max().unwrap_or(0);
        store.next = 1 + newest.max(published.min(LAST_GENERATION));
        Ok(store)
    }

    /// Begins to write the next generation. What is written becomes visible when it is published. A
    /// writer that is dropped removes its file.
    pub fn begin(&mut self, header: Header) -> Result<Writer> {
        self.process.check()?;
        if self.next > LAST_GENERATION {
            return fail!(Io, "{}: there are no more numbers for generations", self.path.display());
        }
        let origin = Origin {
            generation: self.next,
            rank: self.rank,
            ranks: self.ranks,
            confirmed: self.confirmed,
            time: now(),
        };
        let name = FileName::Temporary(self.next);
        // The number is used up even if this fails: other ranks give it to their part.
        self.next += 1;
        let made = self.make(name).map_err(Error::from).and_then(|file| {
            let Header { shot, it, .. } = header;
            let line = Line { generation: origin.generation, shot, it, bytes: 0 };
            let temporary = Temporary {
                folder: Arc::clone(&self.folder),
                name: Some(name.text(self.rank)),
                process: self.process,
            };
            Ok(Writer {
                writer: ContainerWriter::new(file, &header, &origin)?,
                temporary,
                line,
                path: self.path.clone(),
            })
        });
        made.map_err(|e| e.within(self.place(name)))
    }

    /// Creates a temporary file. One of this name is a dead writer's: this process has the lock.
    fn make(&self, name: FileName) -> io::Result<File> {
        let name = OsString::from(name.text(self.rank));
        match self.folder.create_private(&name) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                self.folder.remove(&name)?;
                self.folder.create_private(&name)
            }
            result => result,
        }
    }

    /// Publishes a generation: puts its bytes on the disk, gives the file its name, puts the name
    /// on the disk, and appends a line to the journal. Then reads the generation back and removes
    /// generations that are no longer needed: those older than the `KEPT` newest that this process
    /// has read completely, and older than the one that all ranks have (`confirm`). Returns the
    /// number of the generation. If this fails, the older generations are as they were.
    pub fn publish(&mut self, finished: Finished) -> Result<u64> {
        self.process.check()?;
        let Finished { file, mut temporary, line } = finished;
        let generation = line.generation;
        let name = FileName::Generation(generation);
        let place = |e: Error| {
            e.within(format_args!(
                "generation {generation} may be lost, and the older ones are as they were: {}",
                self.place(name)
            ))
        };
        if !Arc::ptr_eq(&temporary.folder, &self.folder) {
            return fail!(Argument, "a generation is published by the store that began it");
        }
        file.sync_all().map_err(Error::from).map_err(place)?;
        temporary.rename(&name.text(self.rank)).map_err(Error::from).map_err(place)?;
        self.folder.sync().map_err(Error::from).map_err(place)?;
        if let Err(e) = journal::append(&self.folder, &self.journal(), line) {
            let place = self.place(FileName::Journal);
            log::warn!(
                "{place}: {e}: the journal lacks generation {generation}, which is complete"
            );
        }
        drop(file);
        let reread = self.open_generation(generation, true).and_then(|reader| reader.verify());
        if let Err(e) = reread {
            // A generation that can be read and is wrong is of no use to anybody.
            if e.code == Code::Stream {
                let _ = self.folder.remove(name.text(self.rank).as_ref());
            }
            return Err(place(e.within("reading it back")));
        }
        self.verified(generation)?;
        if self.ranks == 1 {
            self.confirmed = self.confirmed.max(generation);
        }
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

    /// Notes that this process has read a generation completely.
    pub(super) fn verified(&mut self, generation: u64) -> Result<()> {
        if self.verified.contains(&generation) {
            return Ok(());
        }
        fallible_vec::push(&mut self.verified, generation)?;
        self.verified.sort_unstable();
        Ok(())
    }

    /// Removes the generations that are no longer needed. One that cannot be removed stays.
    fn prune(&mut self) {
        let Some(second) = self.verified.len().checked_sub(KEPT) else { return };
        let oldest = self.verified[second].min(self.confirmed);
        let removed = self.generations().and_then(|all| {
            all.into_iter().filter(|generation| *generation < oldest).try_for_each(|generation| {
                let name = FileName::Generation(generation);
                self.folder.remove(name.text(self.rank).as_ref()).map_err(Error::from)
            })
        });
        match removed {
            Ok(()) => self.verified.retain(|generation| *generation >= oldest),
            Err(e) => log::warn!(
                "{}: generations that are no longer needed stay: {e}",
                self.path.display()
            ),
        }
    }

    /// Returns the numbers of this rank's published generations, in rising order.
    pub fn generations(&self) -> Result<Vec<u64>> {
        let files = files_in(&self.folder, &self.path, Some(self.rank))?;
        let mut found = fallible_vec::with_room(files.len())?;
        found.extend(files.iter().filter_map(|(_, name)| match *name {
            FileName::Generation(generation) => Some(generation),
            _ => None,
        }));
        found.sort_unstable();
        Ok(found)
    }

    /// Returns what the journal says; nothing if the journal cannot be read.
    fn published(&self) -> Vec<Line> {
        journal::read(&self.folder, &self.journal()).unwrap_or_else(|e| {
            log::warn!("{}: the journal is not used: {e}", self.path.display());
            Vec::new()
        })
    }

    /// Opens a generation and checks that it is the one that its name says. With `from_disk`, bytes
    /// that the system keeps in memory are read from the disk again where possible.
    pub(super) fn open_generation(&self, generation: u64, from_disk: bool) -> Result<Reader> {
        let name = FileName::Generation(generation);
        let file = self.folder.open_to_read(name.text(self.rank).as_ref())?;
        let found = file.metadata()?;
        warn_of_stranger(&self.place(name), &found);
        if from_disk {
            files::forget_cached(&file);
        }
        let reader = Container::open(file)?;
        check_origin(reader.origin, self.rank, generation)?;
        Ok(reader)
    }

    /// Removes this rank's temporary files: their writers died.
    fn sweep(&self) -> Result<()> {
        for (rank, name) in files_in(&self.folder, &self.path, Some(self.rank))? {
            if !matches!(name, FileName::Temporary(_)) {
                continue;
            }
            if let Err(e) = self.folder.remove(name.text(rank).as_ref()) {
                log::warn!("{}: a file of a dead process stays: {e}", self.place(name));
            }
        }
        Ok(())
    }

    fn journal(&self) -> OsString {
        FileName::Journal.text(self.rank).into()
    }

    fn place(&self, name: FileName) -> String {
        self.path.join(name.text(self.rank)).display().to_string()
    }
}

impl Drop for Store {
    /// Gives the lock back, even if a forked child has a copy of the descriptor.
    fn drop(&mut self) {
        if self.process.is_current() {
            files::unlock(&self.lock);
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
        let footer = self.writer.finish().map_err(|e| self.within(e))?;
        let line = Line { bytes: footer.length, ..self.line };
        Ok(Finished { file: self.writer.to, temporary: self.temporary, line })
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
}

/// A temporary file, which is removed when it is dropped, unless it was renamed.
struct Temporary {
    folder: Arc<Folder>,
    name: Option<String>,
    process: Process,
}

impl Temporary {
    fn rename(&mut self, to: &str) -> io::Result<()> {
        if let Some(name) = &self.name {
            self.folder.rename(name.as_ref(), to.as_ref())?;
            self.name = None;
        }
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let (Some(name), true) = (&self.name, self.process.is_current()) {
            let _ = self.folder.remove(name.as_ref());
        }
    }
}

/// Fails if a container is not the one that its file name says.
pub fn check_origin(origin: Origin, rank: u32, generation: u64) -> Result<()> {
    let Origin { rank: of, generation: found, .. } = origin;
    if (of, found) == (rank, generation) {
        return Ok(());
    }
    fail!(
        Stream,
        "is generation {found} of rank {of} under the name of another: the file was renamed or copied"
    )
}

fn open_folder(dir: &Path) -> io::Result<Folder> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let folder = Folder::open(dir)?;
    warn_of_stranger(&dir.display(), &folder.metadata()?);
    Ok(folder)
}

/// Warns that a folder or a file belongs to another user than this process's and root.
fn warn_of_stranger(place: &dyn Display, found: &Metadata) {
    if let Some(owner) = files::stranger(found) {
        log::warn!(
            "{place} belongs to user {owner}, who could have put wrong numbers there: set strict = 1 to refuse such restart files"
        );
    }
}

/// Takes the lock of a rank, and writes into the lock file who has it.
fn take_lock(folder: &Folder, rank: u32) -> Result<File> {
    let name = OsString::from(FileName::Lock.text(rank));
    let named = |e: io::Error| Error::from(e).within(name.display());
    let file = folder.open_private(&name).map_err(named)?;
    match files::lock(&file, PATIENCE) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
            let owner = folder.read(&name, LONGEST_OWNER).unwrap_or_default();
            let owner = String::from_utf8_lossy(&owner);
            return fail!(
                Io,
                "another process uses this folder as rank {rank} ({}): end that process, or give each run a folder of its own",
                owner.trim().escape_debug()
            );
        }
        Err(e) => return Err(named(e)),
    }
    // Only for the message above: nothing else reads the text.
    let host = files::read("/proc/sys/kernel/hostname".as_ref(), 100).unwrap_or_default();
    let (id, host) = (std::process::id(), String::from_utf8_lossy(&host));
    let owner = text(format_args!("process {id} on {}\n", host.trim()));
    let _ =
        file.set_len(0).and_then(|()| files::quietly(|| file.write_all_at(owner.as_bytes(), 0)));
    Ok(file)
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}

#[cfg(test)]
#[path = "store_tests.rs"]
pub(super) mod tests;
