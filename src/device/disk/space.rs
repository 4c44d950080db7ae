//! The room for snapshots on disk: one file in each of the configured folders, over which every
//! snapshot is striped, and the checksums of the snapshots.

use crate::device::worker::{Task, Worker};
use crate::device::Address;
use crate::error::{self, fail, Code, Error, Result};
use crate::fallible_vec;
use crate::files::{Page, Scratch, PAGE};
use crate::guarded::locked;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Snapshots of at least this number of bytes go past the page cache. For smaller ones the calls of
/// the system would take longer than the copy to the page cache, which holds many of them.
pub const DIRECT_FROM: u64 = 1 << 20;

/// Slots for snapshots on disk.
///
/// A snapshot is cut into as many pieces of whole pages as there are files. Piece f of slot k lies
/// in file f, k times `piece_bytes` bytes behind the start of the file.
pub struct DiskSpace {
    files: Vec<Arc<Folder>>,
    slots: u32,
    slot_bytes: u64,
    piece_bytes: u64,
    /// The snapshots in the slots.
    records: Mutex<Vec<Record>>,
    /// The threads that move all pieces but the first: of reads, and of writes.
    helpers: [Mutex<Vec<Worker<Piece>>>; 2],
}

/// A file, and the folder in which it was made.
struct Folder {
    path: PathBuf,
    file: Scratch,
    /// Number of files of the space on the file system of this file, this one included.
    beside: u64,
}

/// The snapshot in a slot: its length (0: none that can be read), and the CRC32C of its bytes.
#[derive(Clone, Copy, Default)]
struct Record {
    bytes: u64,
    checksum: u32,
}

impl DiskSpace {
    /// Makes a file in each of `folders` and reserves room for `slots` snapshots of at most
    /// `slot_bytes` bytes. If there is less room, the result has as many slots as there is room
    /// for, maybe none.
    pub fn reserve(folders: &[PathBuf], slots: u32, slot_bytes: u64) -> Result<Self> {
        let make = |path: &PathBuf| {
            match Scratch::new(path, slot_bytes >= DIRECT_FROM) {
            Ok(file) => Ok(Folder { path: path.clone(), file, beside: 1 }),
            Err(e) => fail!(
                Io,
                "no file for snapshots can be made in {} ({e}): make the folder, or name others in disk_path, or set disk_budget = 0",
                path.display()
            ),
        }
        };
        let mut files: Vec<_> = folders.iter().map(make).collect::<Result<_>>()?;
        let systems: Vec<_> = files.iter().map(|folder| folder.file.file_system()).collect();
        for (folder, system) in files.iter_mut().zip(&systems) {
            folder.beside = systems.iter().filter(|other| *other == system).count() as u64;
        }
        let files: Vec<_> = files.into_iter().map(Arc::new).collect();
        let piece_bytes = piece_of(slot_bytes, files.len());
        let mut space = DiskSpace {
            files,
            slots,
            slot_bytes,
            piece_bytes,
            records: Mutex::default(),
            helpers: Default::default(),
        };
        while !space.is_reserved()? {
            space.slots = space.fewer();
        }
        *locked(&space.records) = fallible_vec::filled(Record::default(), space.slots as usize)?;
        for helpers in &space.helpers {
            let mut helpers = locked(helpers);
            for _ in 1..space.files.len() {
                fallible_vec::push(&mut helpers, Worker::start(c"gpuzip-stripe", None)?)?;
            }
        }
        Ok(space)
    }

    /// The bytes of disk that a slot for snapshots of at most `slot_bytes` bytes takes in `folders`
    /// folders: whole pages in each of them.
    pub fn bytes_of_slot(slot_bytes: u64, folders: usize) -> u64 {
        piece_of(slot_bytes, folders).saturating_mul(folders.max(1) as u64)
    }

    /// Tries to reserve the room for all slots.
    fn is_reserved(&self) -> Result<bool> {
        let bytes = u64::from(self.slots).saturating_mul(self.piece_bytes);
        for folder in &self.files {
            match folder.file.reserve(bytes, folder.beside) {
                Ok(()) => {}
                Err(e) if e.kind() == ErrorKind::StorageFull && self.slots > 0 => {
                    // What the other files have taken must be free again before `room` is asked.
                    for folder in &self.files {
                        folder.file.reserve(0, 1).map_err(|e| self.error(e, "cut"))?;
                    }
                    return Ok(false);
                }
                Err(e) => return Err(self.error(e, "extended")),
            }
        }
        Ok(true)
    }

    /// A smaller number of slots, for which there may be room.
    fn fewer(&self) -> u32 {
        let room_of = |folder: &Arc<Folder>| Some(folder.file.room()? / folder.beside);
        let room = self.files.iter().filter_map(room_of).min();
        let slots = room.map_or(u64::MAX, |room| room / self.piece_bytes.max(1));
        let less = self.slots - self.slots.div_ceil(16);
        u32::try_from(slots).unwrap_or(u32::MAX).min(less)
    }

    /// Number of slots.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// The folders whose files lie in main memory.
    pub fn in_memory(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().filter(|f| f.file.is_in_memory()).map(|f| f.path.as_path())
    }

    fn set(&self, slot: u32, record: Record) {
        if let Some(place) = locked(&self.records).get_mut(slot as usize) {
            *place = record;
        }
    }

    /// The slot at the offset `at`, for a snapshot of `bytes` bytes.
    pub(super) fn slot_at(&self, at: u64, bytes: u64) -> Result<u32> {
        let slot = at / self.slot_bytes.max(1);
        if at % self.slot_bytes.max(1) != 0 || bytes > self.slot_bytes || slot >= self.slots.into()
        {
            return fail!(
                Device,
                "a transfer of {bytes} bytes at {at} does not fit the {} slots of {} bytes on disk",
                self.slots,
                self.slot_bytes
            );
        }
        Ok(slot as u32)
    }

    /// Writes a snapshot.
    pub fn write(&self, slot: u32, bytes: &mut [u8]) -> Result<()> {
        self.set(slot, Record::default());
        let record = Record { bytes: bytes.len() as u64, checksum: crc32c::crc32c(bytes) };
        self.transfer(slot, bytes, true).map_err(|e| self.error(e, "written"))?;
        self.set(slot, record);
        Ok(())
    }

    /// Waits until all snapshots that were written are on the disk.
    pub fn settle(&self) -> Result<()> {
        let mut files = self.files.iter();
        files.try_for_each(|folder| folder.file.settle()).map_err(|e| self.error(e, "written"))
    }

    /// Reads a snapshot, and compares its checksum.
    pub fn read(&self, slot: u32, bytes: &mut [u8]) -> Result<()> {
        let record = locked(&self.records).get(slot as usize).copied().unwrap_or_default();
        if record.bytes != bytes.len() as u64 {
            return fail!(Io, "it was not written: an earlier transfer has failed");
        }
        self.transfer(slot, bytes, false).map_err(|e| self.error(e, "read"))?;
        let checksum = crc32c::crc32c(bytes);
        if checksum != record.checksum {
            return fail!(
                Io,
                "its bytes are not those that were written (CRC32C {checksum:08x} instead of {:08x}): the disk of {} is failing, or another \
                 program has written to the file",
                record.checksum,
                self.folders()
            );
        }
        Ok(())
    }

    /// Transfers all pieces of a snapshot.
    fn transfer(&self, slot: u32, bytes: &mut [u8], to_disk: bool) -> io::Result<()> {
        let at = u64::from(slot) * self.piece_bytes;
        let piece = piece_of(bytes.len() as u64, self.files.len()) as usize;
        let mut helpers = locked(&self.helpers[usize::from(to_disk)]);
        let outcome: Arc<Mutex<Option<io::Error>>> = Arc::default();
        let mut pieces =
            self.files.iter().zip(bytes.chunks_mut(piece.max(1))).map(|(folder, piece)| Piece {
                folder: folder.clone(),
                at,
                bytes: piece.len(),
                address: Address(piece.as_mut_ptr()),
                to_disk,
                outcome: outcome.clone(),
            });
        let first = pieces.next();
        let mut refused = None;
        for (piece, helper) in pieces.zip(helpers.iter_mut()) {
            refused = refused.or(helper.push(piece).err());
        }
        first.into_iter().for_each(Task::run);
        for helper in helpers.iter() {
            refused = refused.or(helper.finish().err());
        }
        if let Some(error) = refused {
            return Err(error.into());
        }
        let failed = locked(&outcome).take();
        failed.map_or(Ok(()), Err)
    }

    /// The folders of the files, separated by colons.
    pub fn folders(&self) -> String {
        self.files.iter().map(|f| f.path.display().to_string()).collect::<Vec<_>>().join(":")
    }

    fn error(&self, e: io::Error, done: &str) -> Error {
        let remedy = match e.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                "there is no room: free space there, or name other folders in disk_path"
            }
            ErrorKind::UnexpectedEof => {
                "another program has cut the file, or the file system has failed: name other folders in disk_path"
            }
            _ => "the disk or its file system has failed: name other folders in disk_path",
        };
        let folders = self.folders();
        error::of(Code::Io, format_args!("it cannot be {done} in {folders} ({e}): {remedy}"))
    }
}

/// Bytes of each piece but the last of a snapshot of `bytes` bytes in `files` files.
fn piece_of(bytes: u64, files: usize) -> u64 {
    bytes.div_ceil(files.max(1) as u64).checked_next_multiple_of(PAGE as u64).unwrap_or(u64::MAX)
}

/// The transfer of a piece of a snapshot.
struct Piece {
    folder: Arc<Folder>,
    at: u64,
    address: Address,
    bytes: usize,
    to_disk: bool,
    /// The first error of the pieces.
    outcome: Arc<Mutex<Option<io::Error>>>,
}

impl Task for Piece {
    fn run(self) {
        let mut page = Page::default();
        // SAFETY: a piece of the memory of `transfer`, which waits for this task. Pieces are
        // disjoint.
        let memory = unsafe { std::slice::from_raw_parts_mut(self.address.0, self.bytes) };
        let passed = match self.to_disk {
            true => self.folder.file.write(self.at, memory, &mut page),
            false => self.folder.file.read(self.at, memory, &mut page),
        };
        if let Err(e) = passed {
            locked(&self.outcome).get_or_insert(e);
        }
    }
}
