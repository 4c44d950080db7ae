//! A folder that is opened once: its files are opened, replaced and removed by their names in it,
//! even if the folder's path is changed meanwhile.

use super::{above_standard, check_kind, check_size, checked_open, quietly, read_all, FLAGS};
use std::ffi::{CStr, CString, OsStr};
use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Mode bits: write permission of the group and of others.
const OTHERS_WRITE: u32 = 0o022;
/// Most temporary names that are tried. The names are random, so that repeated collisions are no
/// accident.
const NAMES_TRIED: u32 = 16;

/// Replaces the content of the file at `path` by `bytes`, or creates the file. A reader finds all
/// old bytes or all new bytes, also after a crash. If anything fails, the old file stays as it was.
/// The new file has the permissions of the old one. A symbolic link stays, and the file that it
/// names is replaced.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let path = target_of(path)?;
    let old = match std::fs::symlink_metadata(&path) {
        // A file that this user may not write is not replaced either.
        Ok(_) => Some(
            checked_open(&path, OpenOptions::new().write(true))?.metadata()?.permissions().mode()
                & 0o777,
        ),
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        Err(e) => return Err(e),
    };
    let name = path.file_name().ok_or_else(|| io::Error::other("names no file"))?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    Folder::open(parent.unwrap_or(Path::new(".")))?.replace(
        name,
        &[bytes],
        old.map(Permissions::from_mode),
    )
}

/// Returns the path of the file that a symbolic link names, or `path` itself.
fn target_of(path: &Path) -> io::Result<PathBuf> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_symlink() => path.canonicalize(),
        _ => Ok(path.to_path_buf()),
    }
}

/// An open folder.
pub struct Folder {
    file: File,
    /// Whether only files are read that no other user can have changed.
    trusted: bool,
}

impl Folder {
    /// Opens a folder with any owner and any mode.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file =
            OpenOptions::new().read(true).custom_flags(FLAGS | libc::O_DIRECTORY).open(path)?;
        Ok(Folder { file: above_standard(file)?, trusted: false })
    }

    /// Opens a folder whose files are to be trusted: the folder and its files must belong to this
    /// user or to root, and nobody else may have permission to write to them.
    pub fn trusted(path: &Path) -> io::Result<Self> {
        let folder = Folder { trusted: true, ..Folder::open(path)? };
        check_owner(&folder.file.metadata()?)?;
        Ok(folder)
    }

    /// Opens a folder as `trusted` does, and first creates it, for this user alone, if it is
    /// missing.
    pub fn trusted_or_new(path: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        Folder::trusted(path)
    }

    /// Returns the bytes of a regular file, at most `limit` bytes. Does not follow symbolic links.
    pub fn read(&self, name: &OsStr, limit: u64) -> io::Result<Vec<u8>> {
        let file = self.open_file(name, libc::O_RDONLY)?;
        check_size(file.metadata()?.len(), limit)?;
        read_all(&file, limit)
    }

    /// Opens a regular file for a lock, and creates the file if it is missing.
    pub fn lock_file(&self, name: &OsStr) -> io::Result<File> {
        self.open_file(name, libc::O_RDWR | libc::O_CREAT)
    }

    /// Removes a file.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        let name = c_name(name)?;
        // SAFETY: the descriptor of an open folder, and a string that ends with NUL.
        checked(unsafe { libc::unlinkat(self.file.as_raw_fd(), name.as_ptr(), 0) }).map(drop)
    }

    /// Replaces the file `name` by one with the bytes of all `parts`. They are written to a
    /// temporary file, which gets the name `name` when it is complete and on the disk. If anything
    /// fails, the temporary file is removed.
    pub fn replace(
        &self,
        name: &OsStr,
        parts: &[&[u8]],
        permissions: Option<Permissions>,
    ) -> io::Result<()> {
        let name = c_name(name)?;
        let (temporary, file) = self.create_temporary()?;
        let written = quietly(|| {
            parts.iter().try_for_each(|part| (&file).write_all(part))?;
            permissions.map_or(Ok(()), |permissions| file.set_permissions(permissions))?;
            file.sync_all()
        });
        let folder = self.file.as_raw_fd();
        let renamed = written.and_then(|()| {
            // SAFETY: the descriptor of an open folder, and strings that end with NUL.
            checked(unsafe { libc::renameat(folder, temporary.as_ptr(), folder, name.as_ptr()) })
        });
        match renamed {
            // Puts the new name on the disk, too. A failure does not matter: the file is complete
            // under its old name or its new one.
            Ok(_) => drop(self.file.sync_all()),
            // SAFETY: the descriptor of an open folder, and a string that ends with NUL.
            Err(_) => drop(unsafe { libc::unlinkat(folder, temporary.as_ptr(), 0) }),
        }
        renamed.map(drop)
    }

    /// Creates a file with a random name that no other process, thread, container or host chooses.
    fn create_temporary(&self) -> io::Result<(CString, File)> {
        let mut tried = 0;
        loop {
            // The standard library seeds each `RandomState` with random numbers of the system; the
            // process number distinguishes a forked child from its parent.
            let random = RandomState::new().hash_one(std::process::id());
            let temporary = c_name(OsStr::new(&format!(".gpuzip-{random:016x}.part")))?;
            match self.open_at(&temporary, libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && tried < NAMES_TRIED => {
                    tried += 1
                }
                result => return result.map(|file| (temporary, file)),
            }
        }
    }

    fn open_file(&self, name: &OsStr, flags: i32) -> io::Result<File> {
        let file = self.open_at(&c_name(name)?, flags)?;
        let found = file.metadata()?;
        check_kind(&found)?;
        if self.trusted {
            check_owner(&found)?;
        }
        Ok(file)
    }

    fn open_at(&self, name: &CStr, flags: i32) -> io::Result<File> {
        let mode: libc::mode_t = 0o666 & !if self.trusted { OTHERS_WRITE } else { 0 };
        // SAFETY: the descriptor of an open folder, and a string that ends with NUL.
        let descriptor = checked(unsafe {
            libc::openat(
                self.file.as_raw_fd(),
                name.as_ptr(),
                flags | libc::O_NOFOLLOW | FLAGS,
                mode,
            )
        })?;
        // SAFETY: `openat` has just returned the descriptor, and only this file owns it.
        above_standard(unsafe { File::from_raw_fd(descriptor) })
    }
}

/// Refuses a file or folder that another user may have written.
fn check_owner(found: &Metadata) -> io::Result<()> {
    // SAFETY: `geteuid` has no arguments and cannot fail.
    let user = unsafe { libc::geteuid() };
    if found.uid() != user && found.uid() != 0 {
        return Err(io::Error::other(format!(
            "belongs to user {} and not to user {user}, whose process this is",
            found.uid()
        )));
    }
    let mode = found.permissions().mode();
    match mode & OTHERS_WRITE {
        0 => Ok(()),
        _ => Err(io::Error::other(format!(
            "has mode {:o}, so that others may write to it (chmod go-w)",
            mode & 0o7777
        ))),
    }
}

fn c_name(name: &OsStr) -> io::Result<CString> {
    CString::new(name.as_bytes()).map_err(|_| io::Error::other("contains a NUL"))
}

/// Turns the result of a system call, where -1 means failure, into a `Result`.
fn checked(result: i32) -> io::Result<i32> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}
