//! One rank's generations in one folder. A run has one such folder, or two *levels*: a near one, such as a
//! disk of the node, and a shared one that outlives the node.

use super::container::{check_origin, Container, Reader};
use super::format::{Footer, Origin};
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
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A lock is waited for at most this long: time for a killed process to end.
const PATIENCE: Duration = Duration::from_millis(500);
/// Most bytes of the text in a lock file that is shown.
const LONGEST_OWNER: u64 = 200;

/// One rank's generations in one folder.
#[derive(Clone)]
pub(super) struct Level {
    pub folder: Arc<Folder>,
    /// The folder's path.
    pub path: PathBuf,
    pub rank: u32,
}

impl Level {
    /// Opens a folder, and makes it, for this user alone, if it is missing. With `strict`, fails for a
    /// folder of another user than this process's and root, and for one to which others can write.
    pub fn open(dir: &Path, rank: u32, strict: bool) -> Result<Self> {
        let opened = if strict { Folder::trusted_or_new(dir) } else { open_folder(dir) };
        let opened = opened.map_err(|e| {
            let is_dangling = dir.is_symlink() && !dir.exists();
            let hint = match is_dangling {
                true => " (a symbolic link to nothing)",
                false if dir.is_file() => " (a file: name a folder)",
                false => "",
            };
            Error::from(e).within(format_args!("folder of restart files {}{hint}", dir.display()))
        })?;
        Ok(Level { folder: Arc::new(opened), path: dir.to_path_buf(), rank })
    }

    /// Whether two levels are of one folder, whatever the paths.
    pub fn is_same_folder(&self, other: &Level) -> Result<bool> {
        let number =
            |level: &Level| level.folder.metadata().map(|found| (found.dev(), found.ino()));
        Ok(number(self)? == number(other)?)
    }

    /// Returns a number that tells this folder from others that may come to have its path; 0: not known.
    pub fn identity(&self) -> u64 {
        self.folder.metadata().map_or(0, identity)
    }

    /// Whether a path leads to this folder.
    pub fn is_at(&self, path: &Path) -> bool {
        let found = std::fs::metadata(path).map(identity);
        found.is_ok_and(|found| found == self.identity())
    }

    /// Whether the folder has a generation, which may be damaged.
    pub fn has(&self, generation: u64) -> bool {
        generation > 0 && self.has_file(FileName::Generation(generation))
    }

    /// Whether the folder has a file of the rank, whatever is in it.
    pub fn has_file(&self, name: FileName) -> bool {
        self.folder.open_to_read(name.text(self.rank).as_ref()).is_ok()
    }

    /// Takes the rank's lock.
    pub fn lock(&self) -> Result<Lock> {
        let role = text(format_args!("as rank {}", self.rank));
        let locked = Lock::take(&self.folder, &FileName::Lock.text(self.rank), &role);
        locked.map_err(|e| e.within(self.path.display()))
    }

    /// Returns the numbers of the rank's published generations, in rising order.
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
    pub fn published(&self) -> Vec<Line> {
        journal::read(&self.folder, &self.journal()).unwrap_or_else(|e| {
            log::warn!("{}: the journal is not used: {e}", self.path.display());
            Vec::new()
        })
    }

    /// Returns the largest number of a generation that is or was published here; 0: none is known.
    pub fn last_number(&self) -> Result<u64> {
        let newest = self.generations()?.last().copied().unwrap_or(0);
        let published = self.published().iter().map(|line| line.generation).max().unwrap_or(0);
        Ok(newest.max(published.min(LAST_GENERATION)))
    }

    /// Opens a generation and checks that it is the one that its name says. With `from_disk`, bytes
    /// that the system keeps in memory are read from the disk again where possible.
    pub fn read(&self, generation: u64, from_disk: bool) -> Result<Reader> {
        let name = FileName::Generation(generation);
        let file = self.folder.open_to_read(name.text(self.rank).as_ref())?;
        warn_of_stranger(&self.place(name), &file.metadata()?);
        if from_disk {
            files::forget_cached(&file);
        }
        let mut reader = Container::open(file)?;
        check_origin(reader.origin, self.rank, generation)?;
        reader.open_others(&mut |other| self.open_file(other))?;
        Ok(reader)
    }

    /// Opens the file of a generation.
    pub fn open_file(&self, generation: u64) -> io::Result<File> {
        self.folder.open_to_read(FileName::Generation(generation).text(self.rank).as_ref())
    }

    /// Returns the bytes of the rank's generations from `first` on.
    pub fn bytes_since(&self, first: u64) -> Result<u64> {
        let numbers = self.generations()?.into_iter().filter(|number| *number >= first);
        numbers.map(|number| Ok(self.open_file(number)?.metadata()?.len())).sum()
    }

    /// Returns the newest generation before `generation` of which this is a copy or a successor: of its start.
    pub fn newest_like(&self, of: &Reader) -> Result<Option<Reader>> {
        let older = |number: &u64| *number < of.origin.generation;
        for number in self.generations()?.into_iter().rev().filter(older) {
            match self.read(number, false) {
                Ok(reader) if reader.origin.start == of.origin.start => return Ok(Some(reader)),
                Err(e) if e.code == Code::Memory => return Err(e),
                _ => {}
            }
        }
        Ok(None)
    }

    /// Opens a generation and reads all of it.
    pub fn read_right(&self, generation: u64, from_disk: bool) -> Result<Reader> {
        let reader = self.read(generation, from_disk)?;
        reader.verify().map(|()| reader)
    }

    /// Creates the temporary file of a generation. One of this name is a dead writer's: the caller has the
    /// rank's lock.
    pub fn create(&self, generation: u64) -> io::Result<(File, Temporary)> {
        let name = FileName::Temporary(generation).text(self.rank);
        let file = match self.folder.create_private(name.as_ref()) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                self.folder.remove(name.as_ref())?;
                self.folder.create_private(name.as_ref())?
            }
            result => result?,
        };
        Ok((file, self.temporary(name)))
    }

    /// Gives a published generation a second name: that of a temporary file in the folder of `to`, which has
    /// none of this name.
    pub fn link(&self, generation: u64, to: &Level) -> io::Result<(File, Temporary)> {
        let name = FileName::Temporary(generation).text(to.rank);
        let own = FileName::Generation(generation).text(self.rank);
        self.folder.link(own.as_ref(), &to.folder, name.as_ref())?;
        let temporary = to.temporary(name);
        let file =
            to.folder.open_to_read(FileName::Temporary(generation).text(to.rank).as_ref())?;
        Ok((file, temporary))
    }

    fn temporary(&self, name: String) -> Temporary {
        let folder = Arc::clone(&self.folder);
        Temporary { folder, name: Some(name), process: Process::current() }
    }

    /// Puts the bytes of a file on the disk, gives it the name of a generation, and puts the name on the disk.
    fn settle(&self, file: &File, mut temporary: Temporary, generation: u64) -> io::Result<()> {
        file.sync_all()?;
        temporary.rename(&FileName::Generation(generation).text(self.rank))?;
        self.folder.sync()
    }

    /// Publishes a generation whose bytes are written: puts them on the disk, gives the file its name, puts
    /// the name on the disk, appends a line to the journal, and reads the file back. If this fails, the
    /// other generations are as they were.
    pub fn publish(&self, file: File, temporary: Temporary, line: Line) -> Result<()> {
        let generation = line.generation;
        let name = FileName::Generation(generation);
        self.settle(&file, temporary, generation)?;
        if let Err(e) = journal::append(&self.folder, &self.journal(), line) {
            let place = self.place(FileName::Journal);
            log::warn!(
                "{place}: {e}: the journal lacks generation {generation}, which is complete"
            );
        }
        drop(file);
        let reread = self.read(generation, true).and_then(|reader| reader.verify_own());
        reread.map_err(|e| {
            // A generation that can be read and is wrong is of no use to anybody.
            if e.code == Code::Stream {
                let _ = self.remove(name);
            }
            e.within("reading it back")
        })
    }

    /// Removes the generations before `oldest`, but for `kept` and those that others refer to. One that cannot
    /// be removed stays; returns whether all went.
    pub fn remove_before(&self, oldest: u64, kept: Option<u64>) -> bool {
        let removed = self.remove_all(&mut |number| number < oldest && Some(number) != kept);
        let path = self.path.display();
        removed
            .map_err(|e| log::warn!("{path}: generations that are no longer needed stay: {e}"))
            .is_ok()
    }

    /// Removes the generations for which `is_old` holds, but for those that the others refer to.
    pub fn remove_all(&self, is_old: &mut dyn FnMut(u64) -> bool) -> Result<()> {
        let (all, mut needed) = (self.generations()?, Vec::new());
        if !all.iter().any(|number| is_old(*number)) {
            return Ok(());
        }
        let mut removed = Ok(());
        // A generation refers to older ones, so that it is known of each one by then whether others refer to it.
        for number in all.into_iter().rev() {
            if is_old(number) && !needed.contains(&number) {
                let name = FileName::Generation(number);
                let kept =
                    self.remove(name).map_err(|e| Error::from(e).within(name.text(self.rank)));
                removed = removed.and(kept);
                continue;
            }
            match self.open_file(number).map_err(Error::from).and_then(Container::open) {
                Ok(reader) => {
                    for place in &reader.places {
                        if place.generation != number && !needed.contains(&place.generation) {
                            fallible_vec::push(&mut needed, place.generation)?;
                        }
                    }
                }
                // Nothing goes on from it, so that it needs no other.
                Err(e) if e.code == Code::Stream => {}
                Err(e) => return Err(e.within(FileName::Generation(number).text(self.rank))),
            }
        }
        removed
    }

    /// Removes the rank's temporary files: their writers died. The caller has the rank's lock.
    pub fn sweep(&self) -> Result<()> {
        for (_, name) in files_in(&self.folder, &self.path, Some(self.rank))? {
            if !matches!(name, FileName::Temporary(_)) {
                continue;
            }
            if let Err(e) = self.remove(name) {
                log::warn!("{}: a file of a dead process stays: {e}", self.place(name));
            }
        }
        Ok(())
    }

    pub fn remove(&self, name: FileName) -> io::Result<()> {
        self.folder.remove(name.text(self.rank).as_ref())
    }

    fn journal(&self) -> OsString {
        FileName::Journal.text(self.rank).into()
    }

    pub fn place(&self, name: FileName) -> String {
        self.path.join(name.text(self.rank)).display().to_string()
    }
}

impl Reader {
    /// Writes this generation into a temporary file of a level. A payload that the container `there`, which is
    /// on that level, holds is referred to. With `packs`, payloads are packed without loss. `pace` is called before
    /// each piece with its bytes: it may wait, and ends the copying by an error.
    pub(super) fn copy_to(
        &self,
        to: &Level,
        there: Option<&Reader>,
        packs: bool,
        pace: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<(File, Temporary, Footer)> {
        let (file, temporary) = to.create(self.origin.generation)?;
        let (file, footer) = self.copy_into(file, there, packs, pace)?;
        Ok((file, temporary, footer))
    }
}

/// A temporary file, which is removed when it is dropped, unless it was renamed.
pub(super) struct Temporary {
    pub folder: Arc<Folder>,
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

/// Opens the file of a generation, and those of older generations beside it that hold parts of it. Fails if it is
/// not of rank and generation `of`, where they are given.
pub fn open(path: &Path, of: Option<(u32, u64)>) -> Result<Reader> {
    let open_file = |path: &Path| files::open(path, u64::MAX);
    let opened = open_file(path).map_err(Error::from).and_then(Container::open);
    let opened = opened.and_then(|mut reader| {
        let Origin { rank, generation, .. } = reader.origin;
        let (rank, generation) = of.unwrap_or((rank, generation));
        check_origin(reader.origin, rank, generation)?;
        reader.open_others(&mut |other| {
            open_file(&path.with_file_name(FileName::Generation(other).text(rank)))
        })?;
        Ok(reader)
    });
    opened.map_err(|e| e.within(path.display()))
}

/// Opens a generation, published or temporary, of the rank and the number that its name says.
fn open_named(path: &Path) -> Result<Reader> {
    match path.file_name().and_then(FileName::read) {
        Some((rank, FileName::Generation(number) | FileName::Temporary(number))) => {
            open(path, Some((rank, number)))
        }
        _ => fail!(
            Argument,
            "{} is no name of a generation, such as gpuzip-r000003-g000000000017.gen",
            path.display()
        ),
    }
}

/// Reads all of a generation, published or temporary, and fails if it is not right or is not the one that its
/// name says.
pub fn check(path: &Path) -> Result<()> {
    open_named(path)?.verify().map_err(|e| e.within(path.display()))
}

/// Writes the file of a generation anew, with all that older generations hold of it. One that refers to none
/// stays as it is. The caller has the rank's lock, and no generation is being written or published.
pub fn make_whole(path: &Path) -> Result<()> {
    let reader = open_named(path)?;
    if reader.is_whole() {
        return Ok(());
    }
    let of = |e: Error| e.within(path.display());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let level = Level::open(folder.unwrap_or(".".as_ref()), reader.origin.rank, false)?;
    let (file, temporary, _) = reader.copy_to(&level, None, false, &mut |_| Ok(())).map_err(of)?;
    level.settle(&file, temporary, reader.origin.generation).map_err(|e| of(e.into()))
}

fn identity(found: Metadata) -> u64 {
    files::hash([found.dev(), found.ino()].into_iter().flat_map(u64::to_le_bytes))
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

/// The lock of a file in a folder, which is given back when this is dropped.
pub(super) struct Lock(File, Process);

impl Lock {
    /// Takes the lock of the file `name`, and writes into the file who has it. `role` says as what.
    pub fn take(folder: &Folder, name: &str, role: &str) -> Result<Lock> {
        let name = OsString::from(name);
        let named = |e: io::Error| Error::from(e).within(name.display());
        let file = folder.open_private(&name).map_err(named)?;
        match files::lock(&file, PATIENCE) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                let owner = folder.read(&name, LONGEST_OWNER).unwrap_or_default();
                let owner = String::from_utf8_lossy(&owner);
                return fail!(
                    Io,
                    "another process uses this folder {role} ({}): end that process, or give each run a folder of its own; if the process is a rank of this run, give each rank its number and the number of ranks",
                    owner.trim().escape_debug()
                );
            }
            Err(e) => return Err(named(e)),
        }
        // Only for the message above: nothing else reads the text.
        let host = files::read("/proc/sys/kernel/hostname".as_ref(), 100).unwrap_or_default();
        let (id, host) = (std::process::id(), String::from_utf8_lossy(&host));
        let owner = text(format_args!("process {id} on {}\n", host.trim()));
        let _ = file
            .set_len(0)
            .and_then(|()| files::quietly(|| file.write_all_at(owner.as_bytes(), 0)));
        Ok(Lock(file, Process::current()))
    }
}

impl Drop for Lock {
    /// Gives the lock back, even if a forked child has a copy of the descriptor.
    fn drop(&mut self) {
        if self.1.is_current() {
            files::unlock(&self.0);
        }
    }
}

/// Whether a process holds the lock of the file `name`. The lock is free again at once.
pub(super) fn is_locked(folder: &Folder, name: &str) -> bool {
    let Ok(file) = folder.open_to_read(name.as_ref()) else { return false };
    let is_free = files::try_lock(&file).unwrap_or(true);
    if is_free {
        files::unlock(&file);
    }
    !is_free
}
