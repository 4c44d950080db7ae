//! Copies of generations on the shared level.
//!
//! The *order* of a rank is a file in its near folder: where the shared folder is, and which generation is to
//! be copied there. All ranks order the same generations, and the next one only when the copies of the last
//! are complete on all ranks; so the ranks have a generation in common on the shared level at every moment.
//! A *shipper* carries the order out: a thread of the run, or the command `gpuzip flushd`, which goes on when
//! the run is killed. The run holds no lock of the shared folder; a shipper holds that of the rank.
//!
//! A copy holds the same records under the same name, packed without loss if the order says so, and is published in
//! the same way: complete or not there at all. It refers to older copies for the records that they hold.

use super::format::Header;
use super::journal::Line;
use super::level::{is_locked, Level, Lock};
use super::names::{files_in, FileName};
use crate::error::{Code, Error, Result};
use crate::files;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The first bytes of an order.
const MARK: &[u8] = b"gpzo3 ";
/// Bytes of the checksum behind the mark, in hexadecimal, and the space behind it.
const CHECKSUM: usize = 9;
/// Most bytes of an order: mark, checksum, four numbers and a path.
const LONGEST: u64 = 100 + libc::PATH_MAX as u64;
/// The file whose lock the process holds that copies for all ranks of a folder.
const FLUSHER: &str = "gpuzip-flushd.lock";

/// What the shared level is to hold of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Order {
    /// The absolute path of the shared folder.
    pub shared: PathBuf,
    /// The generation that is to be copied; 0: none yet.
    pub generation: u64,
    /// All ranks have this generation there, so that the older ones may go; 0: not known.
    pub complete: u64,
    /// Which folder had it, as [`Level::identity`] tells: another one may have been mounted since.
    pub folder: u64,
    /// Whether copies are packed without loss.
    pub packs: bool,
}

impl Order {
    /// Returns the order of a run that begins with this shared folder: the one that an earlier run has left
    /// for the same folder, or a new one that asks for nothing.
    pub fn begin(near: &Level, shared: &Level, packs: bool) -> Result<Order> {
        let path = std::fs::canonicalize(&shared.path).map_err(|e| {
            Error::from(e).within(format_args!("folder of restart files {}", shared.path.display()))
        })?;
        let known = Order::read(near).unwrap_or_else(|e| {
            log::warn!("{}: {e}", near.place(FileName::Order));
            None
        });
        let known = known.filter(|order| order.shared == path);
        if let Some(order) = known.as_ref().filter(|order| order.packs == packs) {
            return Ok(order.clone());
        }
        let folder = shared.identity();
        let new = Order { shared: path, generation: 0, complete: 0, folder, packs };
        let order = known.map_or(new, |order| Order { packs, ..order });
        order.write(near).map_err(|e| Error::from(e).within(near.place(FileName::Order)))?;
        Ok(order)
    }

    /// Reads the order of a rank; `None` if there is none, or a torn one.
    pub fn read(near: &Level) -> Result<Option<Order>> {
        match near.folder.read(FileName::Order.text(near.rank).as_ref(), LONGEST) {
            Ok(bytes) => Ok(Order::of_bytes(&bytes)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    /// Writes the order in its place: a reader that finds half of it waits for the rest. It need not be on
    /// the disk: after a power cut the run orders anew.
    pub fn write(&self, near: &Level) -> io::Result<()> {
        let file = near.folder.open_private(FileName::Order.text(near.rank).as_ref())?;
        let bytes = self.to_bytes();
        files::quietly(|| file.write_all_at(&bytes, 0))?;
        file.set_len(bytes.len() as u64)
    }

    fn to_bytes(&self) -> Vec<u8> {
        let Order { shared, generation, complete, folder, packs } = self;
        let mut rest =
            format!("{generation} {complete} {folder} {} ", u8::from(*packs)).into_bytes();
        rest.extend_from_slice(shared.as_os_str().as_bytes());
        let checksum = format!("{:08x} ", crc32c::crc32c(&rest));
        [MARK, checksum.as_bytes(), &rest].concat()
    }

    fn of_bytes(bytes: &[u8]) -> Option<Order> {
        let rest = bytes.strip_prefix(MARK)?.get(CHECKSUM..)?;
        let mut parts = rest.splitn(5, |byte| *byte == b' ');
        let mut number = || std::str::from_utf8(parts.next()?).ok()?.parse().ok();
        let (generation, complete, folder, packs) =
            (number()?, number()?, number()?, number()? == 1);
        let shared = Path::new(OsStr::from_bytes(parts.next()?)).to_path_buf();
        let order = Order { shared, generation, complete, folder, packs };
        (order.shared.is_absolute() && order.to_bytes() == bytes).then_some(order)
    }
}

/// Whether the shared level has the copy of a generation. One of its number that another run has left there
/// is another generation.
pub(super) fn is_copied(near: &Level, shared: &Level, generation: u64) -> bool {
    let open = |level: &Level| level.read(generation, false).ok();
    let (Some(near), Some(copy)) = (open(near), open(shared)) else { return false };
    (near.origin, &near.header, &near.records) == (copy.origin, &copy.header, &copy.records)
}

/// What a shipper has copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shipped {
    /// Number of generations.
    pub generations: u64,
    /// Bytes of their files.
    pub bytes: u64,
}

/// Copies one rank's generations to the shared folder of its order.
pub struct Shipper {
    near: Level,
    strict: bool,
}

impl Shipper {
    pub(super) fn new(near: Level, strict: bool) -> Self {
        Shipper { near, strict }
    }

    /// Whether a process of its own copies for this folder (`gpuzip flushd`).
    pub fn has_flusher(&self) -> bool {
        is_locked(&self.near.folder, FLUSHER)
    }

    /// Whether a run holds the rank's lock.
    pub fn is_in_use(&self) -> bool {
        is_locked(&self.near.folder, &FileName::Lock.text(self.near.rank))
    }

    /// The rank whose generations are copied.
    pub fn rank(&self) -> u32 {
        self.near.rank
    }

    /// Copies the generation of the order, if the shared folder lacks it. If no run uses the rank's files,
    /// it may have been killed before it ordered its last generations: then every generation is copied that
    /// is newer than the newest in the shared folder, the newest one first. `pace` is called before each
    /// piece with its bytes: it may wait, and ends the copying by an error. What was copied completely stays.
    pub fn ship(&self, pace: &mut dyn FnMut(u64) -> Result<()>) -> Result<Shipped> {
        let Some(order) = Order::read(&self.near)? else { return Ok(Shipped::default()) };
        let is_running = self.is_in_use();
        let near = self.near.generations()?;
        if is_running && !near.contains(&order.generation) {
            return Ok(Shipped::default());
        }
        let shared = Level::open(&order.shared, self.near.rank, self.strict)?;
        let newest = shared.generations()?.last().copied().unwrap_or(0);
        let is_wanted = |generation: &u64| match is_running {
            true => *generation == order.generation && !is_copied(&self.near, &shared, *generation),
            false => *generation > newest,
        };
        let wanted = near.into_iter().rev().filter(is_wanted);
        let (mut shipped, mut lock) = (Shipped::default(), None);
        for generation in wanted {
            if lock.is_none() {
                lock = Some(shared.lock()?);
                shared.sweep()?;
            }
            if let Some(bytes) = self.copy(&shared, generation, order.packs, pace)? {
                shipped.generations += 1;
                shipped.bytes += bytes;
            }
        }
        let is_same = shared.identity() == order.folder;
        if shipped.generations > 0 && shared.has(order.generation) && is_same {
            shared.remove_before(order.complete, None);
        }
        Ok(shipped)
    }

    /// Copies a generation, and returns its bytes; `None` if the run has removed it meanwhile.
    fn copy(
        &self,
        shared: &Level,
        generation: u64,
        packs: bool,
        pace: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<Option<u64>> {
        let reader = match self.near.read(generation, false) {
            Ok(reader) => reader,
            Err(_) if !self.near.has(generation) => return Ok(None),
            Err(e) => return self.damaged(generation, e),
        };
        let there = shared.newest_like(&reader)?;
        let copied = reader.copy_to(shared, there.as_ref(), packs, pace).and_then(|copied| {
            let (file, temporary, footer) = copied;
            let (Header { shot, it, .. }, bytes) = (&reader.header, footer.length);
            let line = Line { generation, shot: *shot, it: *it, bytes };
            shared.publish(file, temporary, line).map(|()| bytes)
        });
        match copied {
            Ok(bytes) => Ok(Some(bytes)),
            Err(e) if e.code == Code::Stream => match self.near.read_right(generation, true) {
                Err(e) => self.damaged(generation, e),
                Ok(_) => Err(e.within(shared.place(FileName::Generation(generation)))),
            },
            Err(e) => Err(e.within(shared.place(FileName::Generation(generation)))),
        }
    }

    /// Removes a generation that can be read and is wrong: the order waits for it for ever otherwise.
    fn damaged(&self, generation: u64, e: Error) -> Result<Option<u64>> {
        if e.code != Code::Stream {
            return Err(e);
        }
        // It may have been written anew meanwhile, or what it refers to removed with it.
        match self.near.read_right(generation, true) {
            Ok(_) => return Err(e),
            Err(again) if again.code != Code::Stream => return Err(again),
            Err(_) => {}
        }
        let name = FileName::Generation(generation);
        log::warn!("{} {e}: it is removed", self.near.place(name));
        self.near.remove(name)?;
        Ok(None)
    }
}

/// The process that copies for all ranks of a folder. One process at a time can be it.
pub struct Flusher {
    near: Level,
    strict: bool,
    _lock: Lock,
}

impl Flusher {
    /// Takes the folder `dir` of restart files, and makes it if it is missing.
    pub fn open(dir: &Path, strict: bool) -> Result<Self> {
        let near = Level::open(dir, 0, strict)?;
        let lock = Lock::take(&near.folder, FLUSHER, "to copy its generations");
        let lock = lock.map_err(|e| e.within(dir.display()))?;
        Ok(Flusher { near, strict, _lock: lock })
    }

    /// Returns a shipper for each rank that has a shared folder.
    pub fn shippers(&self) -> Result<Vec<Shipper>> {
        let files = files_in(&self.near.folder, &self.near.path, None)?;
        let orders = files.iter().filter(|(_, name)| matches!(name, FileName::Order));
        let of = |rank| Shipper::new(Level { rank, ..self.near.clone() }, self.strict);
        Ok(orders.map(|(rank, _)| of(*rank)).collect())
    }
}

/// Returns the shared folder of the lowest rank's order in a folder of restart files, if it has one.
pub fn shared_folder(dir: &Path) -> Result<Option<PathBuf>> {
    let folder = files::Folder::open(dir).map_err(|e| Error::from(e).within(dir.display()))?;
    let mut near = Level { folder: folder.into(), path: dir.to_path_buf(), rank: 0 };
    let files = files_in(&near.folder, dir, None)?;
    let orders = files.iter().filter(|(_, name)| matches!(name, FileName::Order));
    let Some(rank) = orders.map(|(rank, _)| *rank).min() else { return Ok(None) };
    near.rank = rank;
    Ok(Order::read(&near)?.map(|order| order.shared))
}

#[cfg(test)]
#[path = "ship_tests.rs"]
mod tests;
