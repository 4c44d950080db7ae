//! Which files are opened, and what a failed write leaves behind. `tests/host/files.rs` does the same to
//! each file of the library.

use super::*;
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::PathBuf;

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("gpuzip-files-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir(&folder).unwrap();
    folder
}

fn fifo(path: &Path) {
    let name = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: a string that ends with NUL.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
}

fn names(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn only_regular_files_are_opened() {
    let folder = folder("kinds");
    fifo(&folder.join("fifo"));
    let _socket = std::os::unix::net::UnixListener::bind(folder.join("socket")).unwrap();
    symlink(folder.join("fifo"), folder.join("link")).unwrap();
    let path = |name: &str| if name.starts_with('/') { name.into() } else { folder.join(name) };
    for (name, text) in [
        ("fifo", "a FIFO"),
        ("link", "a FIFO"),
        ("socket", "a socket"),
        ("/dev/zero", "a device"),
        ("/dev/full", "a device"),
        ("/dev/tty", "a device"),
        ("/", "a folder"),
    ] {
        let file = path(name);
        let errors = [
            open(&file, 9).unwrap_err(),
            read(&file, 9).unwrap_err(),
            open_to_write(&file).unwrap_err(),
            open_to_append(&file).unwrap_err(),
            replace(&file, b"x").unwrap_err(),
        ];
        for error in errors {
            assert!(
                error.to_string().contains(text)
                    && error.to_string().contains("give a regular file"),
                "{name}: {error}"
            );
        }
    }
    std::fs::write(folder.join("ten"), b"0123456789").unwrap();
    assert_eq!(read(&folder.join("ten"), 10).unwrap(), b"0123456789");
    assert!(read(&folder.join("ten"), 9).unwrap_err().to_string().contains("at most 9 bytes"));
    assert!(read(&folder.join("none"), 9).is_err_and(|e| e.kind() == io::ErrorKind::NotFound));
    // No call has made or changed a file.
    assert_eq!(names(&folder), ["fifo", "link", "socket", "ten"]);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_file_is_replaced_in_one_piece_with_its_permissions_and_through_links() {
    let folder = folder("replace");
    let file = folder.join("file");
    replace(&file, b"one").unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).unwrap();
    symlink("file", folder.join("link")).unwrap();
    symlink("nothing", folder.join("dangling")).unwrap();
    replace(&folder.join("link"), b"two").unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), b"two");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    assert!(std::fs::symlink_metadata(folder.join("link")).unwrap().is_symlink());
    assert!(replace(&folder.join("dangling"), b"x").is_err());
    assert!(
        replace(&folder.join("missing/file"), b"x").is_err()
            && replace(Path::new("/"), b"x").is_err()
    );
    assert!(replace(&folder.join(".."), b"x").is_err() && replace(Path::new(""), b"x").is_err());
    // A name of the greatest length leaves room for a temporary file, whose name is shorter.
    let long = folder.join("n".repeat(255));
    replace(&long, b"three").unwrap();
    std::fs::remove_file(long).unwrap();
    assert_eq!(names(&folder), ["dangling", "file", "link"]);
    std::fs::remove_dir_all(folder).unwrap();
}

/// Makes user 65534 the owner of a file, folder or link, if this process may.
fn give_away(path: &Path) -> bool {
    std::os::unix::fs::lchown(path, Some(65534), None).is_ok()
}

#[test]
fn no_file_is_changed_through_a_link_of_others() {
    let path = folder("links");
    let victim = path.join("victim");
    std::fs::write(&victim, "precious").unwrap();
    std::fs::hard_link(&victim, path.join("hard")).unwrap();
    symlink("victim", path.join("theirs")).unwrap();
    symlink("theirs", path.join("mine")).unwrap();
    let within = Folder::open(&path).unwrap();
    let (hard, soft) = (OsStr::new("hard"), OsStr::new("mine"));
    for opened in [
        open_to_write(&path.join(hard)),
        open_to_append(&path.join(hard)),
        within.open_private(hard),
        within.lock_file(hard),
    ] {
        assert!(opened.unwrap_err().to_string().contains("has 2 names (hard links)"));
    }
    assert!(within.open_private(soft).is_err() && within.lock_file(soft).is_err());
    assert!(within.create_private(hard).is_err() && within.create_private(soft).is_err());
    // A file that is replaced keeps its other names.
    replace(&path.join(hard), b"new").unwrap();
    assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
    // This user's own links are followed, and those of others are not.
    drop(open_to_append(&path.join(soft)).unwrap());
    if give_away(&path.join("theirs")) {
        for error in [
            open_to_write(&path.join(soft)).unwrap_err(),
            open_to_append(&path.join("theirs")).unwrap_err(),
            replace(&path.join(soft), b"x").unwrap_err(),
        ] {
            assert!(error.to_string().contains("is a symbolic link of user 65534"), "{error}");
        }
    }
    assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
    std::fs::remove_dir_all(path).unwrap();
}

/// While several threads replace a file, every reader finds a complete one.
#[test]
fn readers_of_a_file_that_is_replaced_find_whole_ones() {
    let folder = folder("readers");
    let file = folder.join("file");
    let content = |byte: u8| vec![byte; 1000 + byte as usize];
    replace(&file, &content(1)).unwrap();
    std::thread::scope(|scope| {
        let writers: Vec<_> = (2u8..6)
            .map(|byte| {
                scope.spawn({
                    let file = &file;
                    move || (0..20).for_each(|_| replace(file, &content(byte)).unwrap())
                })
            })
            .collect();
        while writers.iter().any(|writer| !writer.is_finished()) {
            let found = read(&file, LARGEST_PROFILE).unwrap();
            assert!(
                (1..6).contains(&found[0]) && found == content(found[0]),
                "{} bytes",
                found.len()
            );
        }
    });
    assert_eq!(names(&folder), ["file"]);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_trusted_folder_is_this_users_alone_and_follows_no_links() {
    let path = folder("trusted");
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap()
    };
    let made = path.join("a/b");
    let folder = Folder::trusted_or_new(&made).unwrap();
    assert_eq!(std::fs::metadata(&made).unwrap().permissions().mode() & 0o777, 0o700);
    let name = OsStr::new("file");
    folder.replace(name, &[b"im", b"age"], None).unwrap();
    assert_eq!(folder.read(name, 9).unwrap(), b"image");
    for open_to in [0o666, 0o620, 0o602] {
        mode(&made.join("file"), open_to);
        assert!(
            folder.read(name, 9).unwrap_err().to_string().contains("others may write"),
            "{open_to:o}"
        );
    }
    for open_to in [0o777, 0o770, 0o702] {
        mode(&made, open_to);
        assert!(
            Folder::trusted(&made).is_err_and(|e| e.to_string().contains("chmod go-w")),
            "{open_to:o}"
        );
    }
    mode(&made, 0o755);
    assert!(Folder::trusted(&made).is_ok());
    symlink("file", made.join("link")).unwrap();
    fifo(&made.join("lock"));
    assert!(folder.read(OsStr::new("link"), 9).is_err());
    assert!(folder.lock_file(OsStr::new("lock")).unwrap_err().to_string().contains("FIFO"));
    assert!(folder.lock_file(OsStr::new("link")).is_err());
    // The folder has another path now, and its descriptor still names it.
    std::fs::rename(path.join("a"), path.join("c")).unwrap();
    folder.replace(OsStr::new("new"), &[b"x"], None).unwrap();
    assert!(path.join("c/b/new").exists());
    std::fs::remove_dir_all(path).unwrap();
}

#[test]
fn locks_keep_others_out_and_waiting_ends() {
    let folder = folder("locks");
    let path = folder.join("file");
    let (first, second) = (open_to_write(&path).unwrap(), open_to_append(&path).unwrap());
    assert!(try_lock(&first).unwrap() && !try_lock(&second).unwrap());
    assert_eq!(
        lock(&second, Duration::from_millis(2)).unwrap_err().kind(),
        io::ErrorKind::WouldBlock
    );
    drop(first);
    lock(&second, Duration::ZERO).unwrap();
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn the_end_of_a_file_is_written_over() {
    let folder = folder("end");
    let file = open_to_write(&folder.join("file")).unwrap();
    for (offset, bytes) in [(0, "[1]"), (2, ",2]"), (4, "]"), (4, ",3,4]")] {
        write_over_end(&file, offset, file.metadata().unwrap().len(), bytes.as_bytes()).unwrap();
    }
    assert_eq!(read(&folder.join("file"), 99).unwrap(), b"[1,2,3,4]");
    std::fs::remove_dir_all(folder).unwrap();
}

/// A signal that the application had pending before a write stays; a signal that the write raises
/// is removed.
#[test]
fn a_write_raises_no_signal_and_takes_none_away() {
    let broken_pipe = || {
        let (reader, mut writer) = std::io::pipe().unwrap();
        drop(reader);
        quietly(|| writer.write_all(b"x")).unwrap_err().kind()
    };
    // SAFETY: the sets are initialised before they are used; the mask and the signal are this
    // thread's; the action of SIGPIPE, which Rust programs ignore, is restored at the end.
    unsafe {
        let before = libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        assert_eq!(broken_pipe(), io::ErrorKind::BrokenPipe);
        let (mut set, mut pending): (libc::sigset_t, libc::sigset_t) =
            (std::mem::zeroed(), std::mem::zeroed());
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGPIPE);
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        assert_eq!(broken_pipe(), io::ErrorKind::BrokenPipe);
        libc::sigpending(&mut pending);
        assert_eq!(libc::sigismember(&pending, libc::SIGPIPE), 0, "the write's own was taken back");
        libc::pthread_kill(libc::pthread_self(), libc::SIGPIPE);
        assert_eq!(broken_pipe(), io::ErrorKind::BrokenPipe);
        libc::sigpending(&mut pending);
        assert_eq!(
            libc::sigismember(&pending, libc::SIGPIPE),
            1,
            "the application's own is still there"
        );
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
        libc::signal(libc::SIGPIPE, before);
    }
}
