//! Scratch files: files without a name, which are gone when they are closed, also when the process
//! is killed.

use super::folder::retried;
use super::{above_standard, quietly, Folder, FLAGS};
use crate::process::Process;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Offsets, lengths and addresses of direct reads and writes are multiples of this number of bytes,
/// which is a multiple of the block size of common disks.
pub const PAGE: usize = 4096;

/// A file without a name.
pub struct Scratch {
    file: File,
    /// Whether reads and writes go past the page cache.
    direct: AtomicBool,
    /// The process that made the file.
    process: Process,
}

/// Frees the room of the file: a forked child may hold the file open for longer.
impl Drop for Scratch {
    fn drop(&mut self) {
        if self.process.is_current() {
            // The room is free without this, too, when no process has the file open.
            let _ = self.file.set_len(0);
        }
    }
}

/// A page of memory at an address that direct reads and writes can use.
#[repr(C, align(4096))]
pub struct Page([u8; PAGE]);

impl Default for Page {
    fn default() -> Self {
        Page([0; PAGE])
    }
}

impl Scratch {
    /// Makes a file in `folder`. With `direct`, reads and writes go past the page cache if the file
    /// system can do that.
    pub fn new(folder: &Path, direct: bool) -> io::Result<Self> {
        Ok(Scratch::of(nameless(folder)?, direct))
    }

    fn of(file: File, direct: bool) -> Self {
        let scratch = Scratch { file, direct: false.into(), process: Process::current() };
        scratch.direct.store(direct && scratch.set_direct(true), Ordering::Relaxed);
        scratch
    }

    /// Switches transfers past the page cache on or off. Returns whether the file system can do
    /// that. The switch is not set when the file is created: a file system that refuses the switch
    /// may leave the file behind.
    fn set_direct(&self, on: bool) -> bool {
        let descriptor = self.file.as_raw_fd();
        // SAFETY: the descriptor is that of an open file.
        unsafe {
            let flags = libc::fcntl(descriptor, libc::F_GETFL);
            let flags = if on { flags | libc::O_DIRECT } else { flags & !libc::O_DIRECT };
            libc::fcntl(descriptor, libc::F_SETFL, flags) == 0
        }
    }

    /// Whether reads and writes go past the page cache.
    pub fn is_direct(&self) -> bool {
        self.direct.load(Ordering::Relaxed)
    }

    /// Makes the file `bytes` bytes long, whole pages, and reserves the room for these bytes. If
    /// there is less room, the file becomes empty, and the error is `ErrorKind::StorageFull`. On a
    /// file system that cannot reserve room, `files` files of this length must find room now; if
    /// others take the room later, that is an error when bytes are written.
    pub fn reserve(&self, bytes: u64, files: u64) -> io::Result<()> {
        let length =
            libc::off_t::try_from(bytes).map_err(|_| full("the file would be too long"))?;
        if length == 0 {
            return self.file.set_len(0);
        }
        let descriptor = self.file.as_raw_fd();
        // SAFETY: the descriptor is that of an open file.
        let reserve = || unsafe { libc::fallocate(descriptor, 0, 0, length) };
        let Err(e) = quietly(|| retried(reserve)) else { return Ok(()) };
        match e.raw_os_error() {
            Some(libc::EOPNOTSUPP | libc::ENOSYS) => self.extend(bytes, files),
            Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG) => {
                self.file.set_len(0)?;
                Err(full(&e.to_string()))
            }
            _ => Err(e),
        }
    }

    /// Makes the file `bytes` bytes long without reserving room, if there is room for `files` such
    /// files; otherwise does as `reserve`.
    fn extend(&self, bytes: u64, files: u64) -> io::Result<()> {
        self.file.set_len(0)?;
        match self.room().filter(|&room| room < bytes.saturating_mul(files)) {
            Some(room) => Err(full(&format!("the file system has room for {room} bytes"))),
            None => quietly(|| self.file.set_len(bytes)),
        }
    }

    /// The number of the file system of the file; `None` if the system does not tell.
    pub fn file_system(&self) -> Option<u64> {
        self.file.metadata().ok().map(|found| found.dev())
    }

    /// Writes `bytes` at the offset `at`. `page` is memory for this call to work in.
    pub fn write(&self, at: u64, bytes: &[u8], page: &mut Page) -> io::Result<()> {
        let whole = bytes.len() / PAGE * PAGE;
        self.retry(|direct| {
            if !direct {
                return quietly(|| self.file.write_all_at(bytes, at));
            }
            let (pages, rest) = bytes.split_at(whole);
            quietly(|| {
                self.file.write_all_at(pages, at)?;
                if rest.is_empty() {
                    return Ok(());
                }
                page.0[..rest.len()].copy_from_slice(rest);
                page.0[rest.len()..].fill(0);
                self.file.write_all_at(&page.0, at + whole as u64)
            })
        })?;
        self.drop_cached(at, bytes.len());
        Ok(())
    }

    /// Reads `bytes.len()` bytes at the offset `at`. `page` is memory for this call to work in.
    pub fn read(&self, at: u64, bytes: &mut [u8], page: &mut Page) -> io::Result<()> {
        let whole = bytes.len() / PAGE * PAGE;
        self.retry(|direct| {
            if !direct {
                return self.file.read_exact_at(bytes, at);
            }
            let (pages, rest) = bytes.split_at_mut(whole);
            self.file.read_exact_at(pages, at)?;
            if !rest.is_empty() {
                self.file.read_exact_at(&mut page.0, at + whole as u64)?;
                rest.copy_from_slice(&page.0[..rest.len()]);
            }
            Ok(())
        })?;
        self.drop_cached(at, bytes.len());
        Ok(())
    }

    /// Runs `transfer`, which is told whether to transfer past the page cache. If the file system
    /// refuses that, all transfers from then on go through the page cache.
    fn retry(&self, mut transfer: impl FnMut(bool) -> io::Result<()>) -> io::Result<()> {
        let direct = self.is_direct();
        match transfer(direct) {
            Err(e) if direct && e.raw_os_error() == Some(libc::EINVAL) => {
                if !self.set_direct(false) {
                    return Err(e);
                }
                self.direct.store(false, Ordering::Relaxed);
                transfer(false)
            }
            result => result,
        }
    }

    /// Waits until what was written is on the disk.
    pub fn settle(&self) -> io::Result<()> {
        quietly(|| self.file.sync_data())?;
        self.drop_cached(0, 0);
        Ok(())
    }

    /// Asks the system to keep a range that was transferred through the page cache there no longer:
    /// the memory of the cache is not counted in any budget. No bytes: up to the end of the file.
    fn drop_cached(&self, at: u64, bytes: usize) {
        if !self.is_direct() {
            let (at, bytes) = (at as libc::off_t, bytes as libc::off_t);
            // SAFETY: the descriptor is that of an open file. The advice changes no byte.
            unsafe {
                libc::posix_fadvise(self.file.as_raw_fd(), at, bytes, libc::POSIX_FADV_DONTNEED)
            };
        }
    }

    /// Bytes that this user can still write to the file system; `None` if the system does not tell.
    pub fn room(&self) -> Option<u64> {
        let mut found = MaybeUninit::<libc::statvfs>::uninit();
        // SAFETY: an open file; `found` has room for the answer, read only if there is one.
        unsafe {
            if libc::fstatvfs(self.file.as_raw_fd(), found.as_mut_ptr()) != 0 {
                return None;
            }
            let found = found.assume_init();
            Some(found.f_bavail.saturating_mul(found.f_frsize))
        }
    }

    /// Whether the file lies in main memory: in a tmpfs or ramfs.
    pub fn is_in_memory(&self) -> bool {
        const RAMFS: i64 = 0x8584_58f6;
        const TMPFS: i64 = 0x0102_1994;
        let mut found = MaybeUninit::<libc::statfs>::uninit();
        // SAFETY: as in `room`.
        unsafe {
            libc::fstatfs(self.file.as_raw_fd(), found.as_mut_ptr()) == 0
                && matches!(found.assume_init().f_type, RAMFS | TMPFS)
        }
    }
}

fn full(reason: &str) -> io::Error {
    io::Error::new(ErrorKind::StorageFull, reason.to_string())
}

/// Opens a new file without a name in `folder`. If the file system has no such files, the file gets
/// a random name, which is removed at once.
fn nameless(folder: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    match options.custom_flags(FLAGS | libc::O_TMPFILE).open(folder) {
        Ok(file) => above_standard(file),
        // A file system without such files, or (EISDIR) a system that does not know them.
        Err(e) if matches!(e.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR)) => {
            Folder::open(folder)?.create_nameless()
        }
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> std::path::PathBuf {
        std::env::temp_dir()
    }

    /// Bytes of any length, at any page, come back as they were written, past the page cache and
    /// through it, in files of either kind.
    #[test]
    fn what_is_written_is_read() {
        let mut memory = vec![0u8; 20 * PAGE];
        let start = memory.as_ptr().align_offset(PAGE);
        let mut page = Page::default();
        let mut direct = 0;
        for is_direct in [false, true] {
            let nameless = Scratch::new(&folder(), is_direct).unwrap();
            let removed = Folder::open(&folder()).unwrap().create_nameless().unwrap();
            let removed = Scratch::of(removed, is_direct);
            for scratch in [nameless, removed] {
                direct += usize::from(scratch.is_direct());
                scratch.reserve(64 * PAGE as u64, 1).unwrap();
                assert_eq!(scratch.file.metadata().unwrap().len(), 64 * PAGE as u64);
                assert!(scratch.room().is_some());
                for (k, bytes) in
                    [1, 511, PAGE - 1, PAGE, 3 * PAGE + 17, 8 * PAGE].into_iter().enumerate()
                {
                    let at = (8 * k * PAGE) as u64;
                    let from = &mut memory[start..start + bytes];
                    from.iter_mut().enumerate().for_each(|(i, byte)| *byte = (i * 7 + k) as u8);
                    scratch.write(at, from, &mut page).unwrap();
                }
                for (k, bytes) in
                    [1, 511, PAGE - 1, PAGE, 3 * PAGE + 17, 8 * PAGE].into_iter().enumerate()
                {
                    let to = &mut memory[start..start + bytes];
                    to.fill(0);
                    scratch.read((8 * k * PAGE) as u64, to, &mut page).unwrap();
                    assert!(to.iter().enumerate().all(|(i, &byte)| byte == (i * 7 + k) as u8));
                }
                let end = scratch.read(64 * PAGE as u64, &mut [0; 9], &mut page).unwrap_err();
                assert_eq!(end.kind(), ErrorKind::UnexpectedEof);
            }
        }
        assert!(direct % 2 == 0);
    }

    /// A transfer that the system refuses past the page cache goes through the page cache.
    #[test]
    fn a_refused_direct_transfer_goes_through_the_page_cache() {
        let scratch = Scratch::new(&folder(), true).unwrap();
        scratch.reserve(8 * PAGE as u64, 1).unwrap();
        let memory: Vec<u8> = (0..4 * PAGE).map(|i| (i % 251) as u8).collect();
        let start = memory.as_ptr().align_offset(PAGE) + 1;
        let mut page = Page::default();
        scratch.write(0, &memory[start..start + PAGE], &mut page).unwrap();
        let mut read = vec![0; PAGE];
        scratch.read(0, &mut read, &mut page).unwrap();
        assert_eq!(read, memory[start..start + PAGE]);
    }

    /// Where room cannot be reserved, files that do not find room together are refused, and stay
    /// empty.
    #[test]
    fn a_file_that_is_only_extended_needs_room() {
        let scratch = Scratch::new(&folder(), false).unwrap();
        let length = || scratch.file.metadata().unwrap().len();
        scratch.extend(PAGE as u64, 2).unwrap();
        assert_eq!(length(), PAGE as u64);
        let error = scratch.extend(PAGE as u64, u64::MAX).unwrap_err();
        assert_eq!((error.kind(), length()), (ErrorKind::StorageFull, 0), "{error}");
        assert_eq!(scratch.extend(1 << 62, 1).unwrap_err().kind(), ErrorKind::StorageFull);
    }

    /// A descriptor that another process holds does not keep the room of a file that its owner has
    /// closed.
    #[test]
    fn a_closed_file_takes_no_room() {
        let scratch = Scratch::new(&folder(), false).unwrap();
        scratch.reserve(64 * PAGE as u64, 1).unwrap();
        let held = scratch.file.try_clone().unwrap();
        drop(scratch);
        let found = held.metadata().unwrap();
        assert_eq!((found.len(), found.blocks()), (0, 0));
    }

    #[test]
    fn a_folder_that_is_none_is_an_error() {
        let path = folder().join("gpuzip-no-such-folder");
        assert_eq!(Scratch::new(&path, true).err().unwrap().kind(), ErrorKind::NotFound);
    }
}
