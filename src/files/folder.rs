//! A folder, opened once: files in it are opened, replaced and removed by their names there,
//! whatever becomes of the path meanwhile.

use super::{above_standard, check_kind, check_size, checked_open, quietly, read_all, FLAGS};
use std::ffi::{CStr, CString, OsStr};
use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Write permission of the group and of others.
const OTHERS_WRITE: u32 = 0o022;
/// Temporary names that are tried: a random one that exists already is no accident.
const NAMES_TRIED: u32 = 16;

/// Replaces the file at `path` by one with these bytes, or creates it: whoever opens it finds all
/// of the old bytes or all of the new ones, also after a crash. If anything fails the old file
/// stays as it was. A symbolic link stays, and the file that it names is replaced. The new file has
/// the old one's permissions.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let path = target_of(path)?;
    let old = match std::fs::symlink_metadata(&path) {
        // A file that may not be written is not to be replaced either.
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

/// The file that a symbolic link names, or the path itself.
fn target_of(path: &Path) -> io::Result<PathBuf> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_symlink() => path.canonicalize(),
        _ => Ok(path.to_path_buf()),
    }
}

/// An open folder.
pub struct Folder {
    file: File,
    /// Only what nobody else can have changed is read from it.
    trusted: bool,
}

impl Folder {
    /// Opens a folder as it is.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file =
            OpenOptions::new().read(true).custom_flags(FLAGS | libc::O_DIRECTORY).open(path)?;
        Ok(Folder { file: above_standard(file)?, trusted: false })
    }

    /// Opens a folder whose files are going to be trusted: it and they must be this user's, or
    /// root's, and nobody else may write to them.
    pub fn trusted(path: &Path) -> io::Result<Self> {
        let folder = Folder { trusted: true, ..Folder::open(path)? };
        check_owner(&folder.file.metadata()?)?;
        Ok(folder)
    }

    /// As `trusted`, and makes the folder, for this user alone, if it is not there.
    pub fn trusted_or_new(path: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        Folder::trusted(path)
    }

    /// The bytes of a regular file in it, at most `limit`. Links are not followed.
    pub fn read(&self, name: &OsStr, limit: u64) -> io::Result<Vec<u8>> {
        let file = self.open_file(name, libc::O_RDONLY)?;
        check_size(file.metadata()?.len(), limit)?;
        read_all(&file, limit)
    }

    /// Opens a regular file in it for a lock, created if it is not there.
    pub fn lock_file(&self, name: &OsStr) -> io::Result<File> {
        self.open_file(name, libc::O_RDWR | libc::O_CREAT)
    }

    /// Removes a file.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        let name = c_name(name)?;
        // SAFETY: an open folder and a string.
        checked(unsafe { libc::unlinkat(self.file.as_raw_fd(), name.as_ptr(), 0) }).map(drop)
    }

    /// Writes a file of these parts beside `name` and gives it that name when it is whole and on
    /// the disk. Any failure removes it.
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
        // SAFETY: an open folder and strings.
        let renamed = written.and_then(|()| {
            checked(unsafe { libc::renameat(folder, temporary.as_ptr(), folder, name.as_ptr()) })
        });
        match renamed {
            // The name is on the disk too, where the file system can say so; the file is whole
            // under either name.
            Ok(_) => drop(self.file.sync_all()),
            // SAFETY: as above.
            Err(_) => drop(unsafe { libc::unlinkat(folder, temporary.as_ptr(), 0) }),
        }
        renamed.map(drop)
    }

    /// A new file with a name that no other process, thread, container or host draws.
    fn create_temporary(&self) -> io::Result<(CString, File)> {
        let mut tried = 0;
        loop {
            // The standard library seeds each state from the system's random numbers; the process
            // tells a forked child's apart.
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
        // SAFETY: an open folder and a string.
        let descriptor = checked(unsafe {
            libc::openat(
                self.file.as_raw_fd(),
                name.as_ptr(),
                flags | libc::O_NOFOLLOW | FLAGS,
                mode,
            )
        })?;
        // SAFETY: the descriptor is new, and this file's alone.
        above_standard(unsafe { File::from_raw_fd(descriptor) })
    }
}

/// Refuses what somebody else may have written.
fn check_owner(found: &Metadata) -> io::Result<()> {
    // SAFETY: a call without arguments that cannot fail.
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

/// The result of a system call that says by -1 that it failed.
fn checked(result: i32) -> io::Result<i32> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}
