//! What is in a folder of generations, of all ranks, for a reader that changes nothing and takes no
//! lock: a run may be writing to the folder at the same time.

use gpuzip::error::{Error, Result};
use gpuzip::files::{self, Folder};
use gpuzip::persist::{self, files_in, read_journal, FileName, Line, Reader};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// The generations in a folder when it was listed.
pub struct Listing {
    folder: Folder,
    path: PathBuf,
    /// Each file with its rank.
    files: Vec<(u32, FileName)>,
}

impl Listing {
    /// Lists a folder.
    pub fn of(dir: &Path) -> Result<Self> {
        let folder = Folder::open(dir).map_err(|e| Error::from(e).within(dir.display()))?;
        let files = files_in(&folder, dir, None)?;
        Ok(Listing { folder, path: dir.to_path_buf(), files })
    }

    /// Returns the ranks that have files in the folder, in rising order.
    pub fn ranks(&self) -> BTreeSet<u32> {
        self.files.iter().map(|(rank, _)| *rank).collect()
    }

    /// Returns the numbers of a rank's published generations, in rising order.
    pub fn generations(&self, rank: u32) -> BTreeSet<u64> {
        let generation = |file: &(u32, FileName)| match *file {
            (of, FileName::Generation(generation)) if of == rank => Some(generation),
            _ => None,
        };
        self.files.iter().filter_map(generation).collect()
    }

    /// Returns whether the folder has a file of a generation now.
    pub fn has(&self, rank: u32, generation: u64) -> bool {
        let name = OsString::from(FileName::Generation(generation).text(rank));
        !matches!(self.folder.open_to_read(&name), Err(e) if e.kind() == io::ErrorKind::NotFound)
    }

    /// Returns the number of a rank's files that are being written, or whose writer died.
    pub fn unfinished(&self, rank: u32) -> usize {
        let is_own =
            |(of, name): &(u32, FileName)| *of == rank && matches!(name, FileName::Temporary(_));
        self.files.iter().filter(|file| is_own(file)).count()
    }

    /// Opens a generation; checks all of it but the payloads.
    pub fn open(&self, rank: u32, generation: u64) -> Result<Reader> {
        let name = FileName::Generation(generation).text(rank);
        persist::open(&self.path.join(name), Some((rank, generation)))
    }

    /// Returns the valid lines of a rank's journal, oldest first; none if there is no journal.
    pub fn journal(&self, rank: u32) -> Result<Vec<Line>> {
        let name = OsString::from(FileName::Journal.text(rank));
        read_journal(&self.folder, &name).map_err(|e| e.within(self.path.join(&name).display()))
    }

    /// Returns whether a process holds a rank's lock. The lock is free again at once.
    pub fn is_in_use(&self, rank: u32) -> bool {
        let name = OsString::from(FileName::Lock.text(rank));
        let Ok(file) = self.folder.open_to_read(&name) else { return false };
        let is_free = files::try_lock(&file).unwrap_or(true);
        files::unlock(&file);
        !is_free
    }
}
