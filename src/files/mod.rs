//! All files that the library opens or writes: configuration, trace, profile, timeline, performance
//! log, compiled kernels, and the files of snapshots on disk.
//!
//! - Only regular files are opened. A FIFO, a device, a socket or a folder is an error that says
//!   so, and opening one never waits.
//! - A file that is read whole has a size limit, and refused memory is an error.
//! - No file is written through a link that another user can have made: a symbolic link must be this
//!   user's or root's, and a file that is changed in its place must have one name (no hard links).
//! - No descriptor is 0, 1 or 2, even if the application has closed these: what a program prints
//!   never lands in a file of the library.
//! - A write that fails raises no signal (`quiet`) and leaves nothing behind: the file is as it
//!   was, and no temporary file remains.

mod folder;
mod quiet;
mod scratch;

pub use folder::{replace, stranger, Folder};
pub use quiet::quietly;
pub use scratch::{Page, Scratch, PAGE};

use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// Most bytes of a configuration file: some 50 keys with a path each take 200 kB.
pub const LARGEST_CONFIG: u64 = 1 << 20;
/// Most bytes of a profile, which has 100 bytes and 60 more for each measured codec.
pub const LARGEST_PROFILE: u64 = 1 << 20;
/// Most bytes of a recorded schedule: 32 for each of 2^28 actions.
pub const LARGEST_TRACE: u64 = 1 << 33;
/// Most bytes of a compiled kernel; the largest one has 0.5 MB.
pub const LARGEST_IMAGE: u64 = 1 << 26;

/// Opening never waits for the other end of a FIFO and never makes a terminal the controlling one;
/// `exec` closes the descriptor.
const FLAGS: i32 = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
/// The first descriptor that does not belong to a standard stream.
const FIRST_DESCRIPTOR: i32 = 3;

/// FNV-1a, 64 bits: the same in every build, unlike the standard library's hasher.
pub fn hash(bytes: impl IntoIterator<Item = u8>) -> u64 {
    let add = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, add)
}

/// Opens a regular file of at most `limit` bytes for reading.
pub fn open(path: &Path, limit: u64) -> io::Result<File> {
    let file = checked_open(path, OpenOptions::new().read(true), 0)?;
    check_size(file.metadata()?.len(), limit)?;
    Ok(file)
}

/// Returns the bytes of a regular file, at most `limit` bytes.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_all(&open(path, limit)?, limit)
}

/// Reads the rest of an open file. Fails if the file has, or grows to, more than `limit` bytes.
fn read_all(file: &File, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // `read_to_end` reserves memory before it reads, and returns an error if that is refused.
    file.take(limit + 1).read_to_end(&mut bytes)?;
    check_size(bytes.len() as u64, limit)?;
    Ok(bytes)
}

/// Opens a regular file for writing, and creates it if it is missing. Its content stays.
pub fn open_to_write(path: &Path) -> io::Result<File> {
    open_to_change(path, OpenOptions::new().read(true).write(true).create(true).truncate(false))
}

/// Opens a file as `open_to_write` does, for appending: every write goes behind the file's end.
pub fn open_to_append(path: &Path) -> io::Result<File> {
    open_to_change(path, OpenOptions::new().read(true).append(true).create(true))
}

/// Waits at most `patience` for the lock of a file (flock). The lock keeps out other processes, and
/// other openings of the file in this process, until the file is closed. If the file system has no
/// locks, this succeeds at once and keeps nobody out.
pub fn lock(file: &File, patience: Duration) -> io::Result<()> {
    let begin = Instant::now();
    let mut pause = Duration::from_micros(100);
    while !try_lock(file)? {
        if begin.elapsed() >= patience {
            return Err(io::Error::new(
                io::ErrorKind::WouldBlock,
                format!("another process has held its lock for {patience:?}"),
            ));
        }
        std::thread::sleep(pause);
        pause = (2 * pause).min(Duration::from_millis(20));
    }
    Ok(())
}

/// Takes the lock of a file if it is free, and returns whether it was free. On a file system
/// without locks it always is.
pub fn try_lock(file: &File) -> io::Result<bool> {
    // SAFETY: the descriptor belongs to `file`, which is open.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EWOULDBLOCK | libc::EINTR) => Ok(false),
        Some(libc::ENOLCK | libc::EOPNOTSUPP | libc::ENOSYS) => Ok(true),
        _ => Err(error),
    }
}

/// Releases the lock of a file. Closing the file would not, as long as a forked child has a copy of
/// the descriptor.
pub fn unlock(file: &File) {
    // SAFETY: the descriptor belongs to `file`, which is open.
    unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_UN) };
}

/// Appends a record in one write. If only a part of it fits, the file is cut back to `length`, its
/// size before.
pub fn append(mut file: &File, length: u64, record: &[u8]) -> io::Result<()> {
    quietly(|| file.write_all(record)).inspect_err(|_| drop(file.set_len(length)))
}

/// Appends a record in one write to a file to which other processes may be appending. If only a
/// part of the record fits, that part stays, because records of other processes may lie behind it.
pub fn append_shared(mut file: &File, record: &[u8]) -> io::Result<()> {
    let written = quietly(|| loop {
        match file.write(record) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    })?;
    match written == record.len() {
        true => Ok(()),
        false => Err(io::Error::new(
            io::ErrorKind::WriteZero,
            format!("{written} of {} bytes were written", record.len()),
        )),
    }
}

/// Overwrites the end of a file of `length` bytes, from `offset` on, with `bytes`. The bytes behind
/// `length` are written first and those before it last: if there is no room, the file is cut back
/// to what it was.
pub fn write_over_end(file: &File, offset: u64, length: u64, bytes: &[u8]) -> io::Result<()> {
    let (head, tail) = bytes.split_at(bytes.len().min((length - offset) as usize));
    quietly(|| file.write_all_at(tail, length)).inspect_err(|_| drop(file.set_len(length)))?;
    quietly(|| file.write_all_at(head, offset))
}

/// Replaces the content of a file of `length` bytes by `bytes`. They are first written behind the
/// end of the file: if there is no room, the file is cut back to what it was; otherwise there is
/// also room for them at its beginning.
pub fn write_over_all(file: &File, length: u64, bytes: &[u8]) -> io::Result<()> {
    quietly(|| file.write_all_at(bytes, length)).inspect_err(|_| drop(file.set_len(length)))?;
    quietly(|| file.write_all_at(bytes, 0))?;
    file.set_len(bytes.len() as u64)
}

/// Lets the system forget the bytes of a file that are in memory and on the disk, so that they are
/// read from the disk the next time, if the system can.
pub fn forget_cached(file: &File) {
    // SAFETY: the descriptor of an open file; the call only gives advice.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
}

/// Opens a file as `checked_open` does, to change it in its place. Fails if the path is a symbolic
/// link of another user or if the file has a second name: the bytes would go to a file that this
/// user did not choose.
fn open_to_change(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let file = checked_open(&folder::target_of(path)?, options, libc::O_NOFOLLOW)?;
    check_names(&file.metadata()?)?;
    Ok(file)
}

fn checked_open(path: &Path, options: &mut OpenOptions, more: i32) -> io::Result<File> {
    // The kind is checked before the file is opened, because opening a device or a FIFO can have
    // effects, and again afterwards, because the path may name another file by then.
    if let Ok(found) = std::fs::metadata(path) {
        check_kind(&found)?;
    }
    let file = options.custom_flags(FLAGS | more).open(path)?;
    check_kind(&file.metadata()?)?;
    above_standard(file)
}

/// Returns the file under a descriptor that belongs to no standard stream.
fn above_standard(file: File) -> io::Result<File> {
    if file.as_raw_fd() >= FIRST_DESCRIPTOR {
        return Ok(file);
    }
    // `try_clone` of the standard library duplicates to descriptors from 3 on.
    let duplicate = file.try_clone()?;
    match duplicate.as_raw_fd() >= FIRST_DESCRIPTOR {
        true => Ok(duplicate),
        false => refused("no descriptor above the standard streams' is to be had".into()),
    }
}

/// Returns the error of a file that the library does not use.
fn refused<T>(why: String) -> io::Result<T> {
    Err(io::Error::other(why))
}

fn check_kind(found: &Metadata) -> io::Result<()> {
    match found.is_file() {
        true => Ok(()),
        false => refused(format!("is {}: give a regular file", kind_of(found.file_type()))),
    }
}

/// Refuses to change a file that has other names: another user may have made a hard link to it.
fn check_names(found: &Metadata) -> io::Result<()> {
    match found.nlink() {
        0 | 1 => Ok(()),
        names => refused(format!("has {names} names (hard links), and would be changed under all of them: remove this name")),
    }
}

fn kind_of(kind: FileType) -> &'static str {
    match kind {
        kind if kind.is_dir() => "a folder",
        kind if kind.is_fifo() => "a FIFO (a pipe)",
        kind if kind.is_socket() => "a socket",
        kind if kind.is_char_device() || kind.is_block_device() => "a device",
        _ => "no regular file",
    }
}

fn check_size(bytes: u64, limit: u64) -> io::Result<()> {
    match bytes <= limit {
        true => Ok(()),
        false => refused(format!("is too large: such a file has at most {limit} bytes")),
    }
}

#[cfg(test)]
mod tests;
