//! A folder that is opened once: its files are opened, replaced and removed by their names in it,
//! even if the folder's path is changed meanwhile.

use super::{
    above_standard, check_kind, check_names, check_size, checked_open, quietly, read_all, refused,
    FLAGS,
};
use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

/// Mode bits: write permission of the group and of others.
const OTHERS_WRITE: u32 = 0o022;
/// Mode of a file for this user alone.
const PRIVATE: libc::mode_t = 0o600;
/// Most temporary names that are tried: they are random, and repeated collisions are no accident.
const NAMES_TRIED: u32 = 16;
/// Most symbolic links that lead to a file, as on Linux.
const MOST_LINKS: u32 = 40;

/// Replaces the content of the file at `path` by `bytes`, or creates the file. A reader finds all
/// old bytes or all new bytes, also after a crash. If anything fails, the old file stays as it was.
/// The new file has the permissions of the old one. A symbolic link stays, and the file that it
/// names is replaced.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let link = path;
    let path = target_of(link)?;
    let old = match std::fs::symlink_metadata(&path) {
        // A file that this user may not write is not replaced either.
        Ok(_) => {
            let old = checked_open(&path, OpenOptions::new().write(true), libc::O_NOFOLLOW)?;
            Some(Permissions::from_mode(old.metadata()?.permissions().mode() & 0o777))
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound && path == link => None,
        Err(e) => return Err(e),
    };
    let name = path.file_name().ok_or_else(|| io::Error::other("names no file"))?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    Folder::open(parent.unwrap_or(Path::new(".")))?.replace(name, &[bytes], old)
}

/// Returns the path of the file that a symbolic link names, or `path` itself. Fails if the link, or
/// one that it leads to, belongs to another user than this process's and root.
pub(super) fn target_of(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_path_buf();
    for _ in 0..MOST_LINKS {
        let mut options = OpenOptions::new();
        let options = options.read(true).custom_flags(libc::O_PATH | libc::O_NOFOLLOW | FLAGS);
        // A path that cannot be opened so is opened by the caller, which gets the reason.
        let Ok(link) = options.open(&path) else { return Ok(path) };
        let found = link.metadata()?;
        if !found.is_symlink() {
            return Ok(path);
        }
        if let Some(owner) = stranger(&found) {
            return refused(format!("is a symbolic link of user {owner}: name the file itself"));
        }
        path.pop();
        path.push(read_link(&link)?);
    }
    Err(io::Error::from_raw_os_error(libc::ELOOP))
}

/// Returns the path that an open symbolic link holds.
fn read_link(link: &File) -> io::Result<PathBuf> {
    let mut bytes = [0u8; libc::PATH_MAX as usize];
    // SAFETY: an open link, an empty path, and memory of the length that is given.
    let length = unsafe {
        libc::readlinkat(link.as_raw_fd(), c"".as_ptr(), bytes.as_mut_ptr().cast(), bytes.len())
    };
    match usize::try_from(length) {
        Ok(length) if length < bytes.len() => Ok(OsStr::from_bytes(&bytes[..length]).into()),
        Ok(_) => Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG)),
        Err(_) => Err(io::Error::last_os_error()),
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

    /// Opens a folder as `trusted` does; a missing one is first created, for this user alone.
    pub fn trusted_or_new(path: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        Folder::trusted(path)
    }

    /// Returns owner and mode of the folder.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.file.metadata()
    }

    /// Returns the bytes of a regular file, at most `limit` bytes. Does not follow symbolic links.
    pub fn read(&self, name: &OsStr, limit: u64) -> io::Result<Vec<u8>> {
        let file = self.open_to_read(name)?;
        check_size(file.metadata()?.len(), limit)?;
        read_all(&file, limit)
    }

    /// Opens a regular file for a lock, and creates the file if it is missing.
    pub fn lock_file(&self, name: &OsStr) -> io::Result<File> {
        self.open_file(name, libc::O_RDWR | libc::O_CREAT, self.mode())
    }

    /// Opens a regular file for reading. Does not follow symbolic links.
    pub fn open_to_read(&self, name: &OsStr) -> io::Result<File> {
        self.open_file(name, libc::O_RDONLY, 0)
    }

    /// Creates a file for this user alone, for reading and writing. The name must be free.
    pub fn create_private(&self, name: &OsStr) -> io::Result<File> {
        self.open_file(name, libc::O_RDWR | libc::O_CREAT | libc::O_EXCL, PRIVATE)
    }

    /// Opens a regular file for reading and writing, and creates it for this user alone if it is
    /// missing. Does not follow symbolic links.
    pub fn open_private(&self, name: &OsStr) -> io::Result<File> {
        self.open_file(name, libc::O_RDWR | libc::O_CREAT, PRIVATE)
    }

    /// Removes a file.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        let name = c_name(name)?;
        // SAFETY: the descriptor of an open folder, and a string that ends with NUL.
        retried(|| unsafe { libc::unlinkat(self.file.as_raw_fd(), name.as_ptr(), 0) }).map(drop)
    }

    /// Gives a file another name in this folder. A file that has the new name is replaced.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        let (from, to, folder) = (c_name(from)?, c_name(to)?, self.file.as_raw_fd());
        // SAFETY: the descriptor of an open folder, and strings that end with NUL.
        retried(|| unsafe { libc::renameat(folder, from.as_ptr(), folder, to.as_ptr()) }).map(drop)
    }

    /// Gives a file a second name, in the folder `to` of the same file system. The name must be free.
    pub fn link(&self, from: &OsStr, to: &Folder, name: &OsStr) -> io::Result<()> {
        let (from, name) = (c_name(from)?, c_name(name)?);
        let (own, to) = (self.file.as_raw_fd(), to.file.as_raw_fd());
        // SAFETY: the descriptors of open folders, and strings that end with NUL.
        retried(|| unsafe { libc::linkat(own, from.as_ptr(), to, name.as_ptr(), 0) }).map(drop)
    }

    /// Puts the names of the folder's files on the disk. A file system that cannot do so for a
    /// folder (EINVAL, EOPNOTSUPP) keeps names safe by itself or not at all: that is no error.
    pub fn sync(&self) -> io::Result<()> {
        match self.file.sync_all() {
            Err(e) if matches!(e.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP)) => Ok(()),
            result => result,
        }
    }

    /// Calls `visit` with the name of every entry of the folder but `.` and `..`, in any order,
    /// until `visit` fails.
    pub fn names<E: From<io::Error>>(
        &self,
        visit: &mut dyn FnMut(&OsStr) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut entries = Entries::of(self)?;
        while let Some(name) = entries.next()? {
            if !matches!(name.as_bytes(), b"." | b"..") {
                visit(name)?;
            }
        }
        Ok(())
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
        self.replace_by(name, |mut file| {
            parts.iter().try_for_each(|part| file.write_all(part))?;
            permissions.map_or(Ok(()), |permissions| file.set_permissions(permissions))?;
            file.sync_all()
        })?;
        // Puts the new name on the disk, too. A failure does not matter: the file is complete under
        // its old name or its new one.
        drop(self.file.sync_all());
        Ok(())
    }

    /// Replaces the file `name` by one whose bytes `write` writes: a temporary file, which gets the name
    /// `name` when it is complete. It need not be on the disk then. If anything fails, the temporary file
    /// is removed, and the file `name` is as it was.
    pub fn replace_by(
        &self,
        name: &OsStr,
        write: impl FnOnce(&File) -> io::Result<()>,
    ) -> io::Result<()> {
        let (temporary, file) = self.create(libc::O_WRONLY, self.mode())?;
        let written = quietly(|| write(&file)).and_then(|()| close(file));
        let renamed = written.and_then(|()| self.rename(&temporary, name));
        renamed.inspect_err(|_| drop(self.remove(&temporary)))
    }

    /// Creates a file for reading and writing by this user alone, and removes its name at once.
    pub(super) fn create_nameless(&self) -> io::Result<File> {
        let (name, file) = self.create(libc::O_RDWR, 0o600)?;
        self.remove(&name)?;
        Ok(file)
    }

    /// Creates a file with a random name that no other process, thread, container or host chooses.
    fn create(&self, flags: i32, mode: libc::mode_t) -> io::Result<(OsString, File)> {
        let mut tried = 0;
        loop {
            // The standard library seeds each `RandomState` with random numbers of the system; the
            // process number distinguishes a forked child from its parent.
            let random = RandomState::new().hash_one(std::process::id());
            let temporary = OsString::from(format!(".gpuzip-{random:016x}.part"));
            match self.open_at(&c_name(&temporary)?, flags | libc::O_CREAT | libc::O_EXCL, mode) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && tried < NAMES_TRIED => {
                    tried += 1
                }
                result => return result.map(|file| (temporary, file)),
            }
        }
    }

    /// Returns the mode of a new file that is not for this user alone.
    fn mode(&self) -> libc::mode_t {
        0o666 & !if self.trusted { OTHERS_WRITE } else { 0 }
    }

    fn open_file(&self, name: &OsStr, flags: i32, mode: libc::mode_t) -> io::Result<File> {
        let file = self.open_at(&c_name(name)?, flags, mode)?;
        let found = file.metadata()?;
        check_kind(&found)?;
        if self.trusted {
            check_owner(&found)?;
        }
        if flags & libc::O_ACCMODE != libc::O_RDONLY {
            check_names(&found)?;
        }
        Ok(file)
    }

    fn open_at(&self, name: &CStr, flags: i32, mode: libc::mode_t) -> io::Result<File> {
        // SAFETY: the descriptor of an open folder, and a string that ends with NUL.
        let descriptor = retried(|| unsafe {
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

/// Closes a file. A file system that writes later, such as NFS, may tell only now that it had no room.
fn close(file: File) -> io::Result<()> {
    // SAFETY: the descriptor of an open file, which nothing uses from now on.
    match unsafe { libc::close(IntoRawFd::into_raw_fd(file)) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns the user of this process.
fn user() -> libc::uid_t {
    // SAFETY: `geteuid` has no arguments and cannot fail.
    unsafe { libc::geteuid() }
}

/// Returns the owner of a file or folder if that is another user than this process's and root.
pub fn stranger(found: &Metadata) -> Option<libc::uid_t> {
    Some(found.uid()).filter(|owner| *owner != user() && *owner != 0)
}

/// Refuses a file or folder that another user may have written.
fn check_owner(found: &Metadata) -> io::Result<()> {
    if let Some(owner) = stranger(found) {
        let user = user();
        return refused(format!(
            "belongs to user {owner} and not to user {user}, whose process this is"
        ));
    }
    let mode = found.permissions().mode() & 0o7777;
    match mode & OTHERS_WRITE {
        0 => Ok(()),
        _ => refused(format!("has mode {mode:o}, so that others may write to it (chmod go-w)")),
    }
}

/// The names in a folder, read one after another (`readdir`).
struct Entries(NonNull<libc::DIR>);

impl Entries {
    fn of(folder: &Folder) -> io::Result<Self> {
        // The stream owns its descriptor, and reads from the folder's beginning.
        let own = IntoRawFd::into_raw_fd(folder.open_at(c".", libc::O_DIRECTORY, 0)?);
        // SAFETY: an open folder's descriptor, which the stream owns if the call succeeds.
        match NonNull::new(unsafe { libc::fdopendir(own) }) {
            Some(stream) => Ok(Entries(stream)),
            None => {
                let error = io::Error::last_os_error();
                // SAFETY: the call failed, so the descriptor is still this function's.
                drop(unsafe { File::from_raw_fd(own) });
                Err(error)
            }
        }
    }

    /// Returns the next name, which is valid until the next call.
    fn next(&mut self) -> io::Result<Option<&OsStr>> {
        // SAFETY: this thread's error number, and an open stream that this object alone uses. The
        // name in the entry ends with NUL and is valid until the next call.
        unsafe {
            *libc::__errno_location() = 0;
            match libc::readdir(self.0.as_ptr()) {
                entry if entry.is_null() => match *libc::__errno_location() {
                    0 => Ok(None),
                    error => Err(io::Error::from_raw_os_error(error)),
                },
                entry => {
                    let name = CStr::from_ptr((&raw const (*entry).d_name).cast());
                    Ok(Some(OsStr::from_bytes(name.to_bytes())))
                }
            }
        }
    }
}

impl Drop for Entries {
    fn drop(&mut self) {
        // SAFETY: the stream is open, and nothing uses it from now on.
        unsafe { libc::closedir(self.0.as_ptr()) };
    }
}

/// Makes a system call, where -1 means failure, again as long as a signal interrupts it.
pub(super) fn retried(mut call: impl FnMut() -> i32) -> io::Result<i32> {
    loop {
        match call() {
            -1 => match io::Error::last_os_error() {
                e if e.kind() == io::ErrorKind::Interrupted => {}
                e => return Err(e),
            },
            result => return Ok(result),
        }
    }
}

fn c_name(name: &OsStr) -> io::Result<CString> {
    CString::new(name.as_bytes()).map_err(|_| io::Error::other("contains a NUL"))
}
