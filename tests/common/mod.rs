//! Helpers that test programs share: paths, compilers, and processes.
#![allow(dead_code)] // Each test program uses a part of it.

pub mod app;
pub mod c_abi;
pub mod cases;
pub mod checksum;
pub mod commands;
pub mod cut;
pub mod device_calls;
pub mod draw;
pub mod emu;
#[path = "../../c-examples/rtm3d_cuda/tests/example.rs"]
pub mod example;
pub mod guarded;
pub mod host;
pub mod hostile;
pub mod memory;
pub mod nvcomp;
pub mod nvrtc;
pub mod order;
pub mod pages;
pub mod play;
pub mod prelude;
pub mod reading;
pub mod rig;
pub mod venv;
pub mod wave;

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, OnceLock};
use std::thread::ThreadId;

/// The root of the repository.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Makes and returns an empty folder. It is the caller's until the process ends: who asks for `name`
/// in another thread or process meanwhile gets `name-1` or a later number. A thread that asks again
/// gets the same folder, emptied.
pub fn tempdir(name: &str) -> PathBuf {
    static OWNED: Mutex<Vec<(ThreadId, PathBuf, File)>> = Mutex::new(Vec::new());
    let this = std::thread::current().id();
    let of_name = scratch(name);
    let mut owned = OWNED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let free =
        (0..).map(|k| if k == 0 { of_name.clone() } else { scratch(&format!("{name}-{k}")) });
    for dir in free {
        if !owned.iter().any(|(thread, path, _)| *thread == this && *path == dir) {
            let lock = File::create(format!("{}.lock", dir.display())).unwrap();
            // SAFETY: the call takes a descriptor that is open.
            if unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
                continue;
            }
            owned.push((this, dir.clone(), lock));
        }
        std::fs::remove_dir_all(&dir).unwrap();
        std::fs::create_dir(&dir).unwrap();
        return dir;
    }
    unreachable!()
}

/// Makes and returns a folder without emptying it, for files that a test shares with the processes
/// that it starts.
pub fn scratch(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// Makes and returns an empty folder in memory, where there is such a place, since fsync takes most of
/// the time of some tests on a disk. The caller removes it.
pub fn folder_in_memory(name: &str) -> PathBuf {
    let memory = Path::new("/dev/shm").join(format!("gpuzip-{name}-{}", std::process::id()));
    match std::fs::create_dir(&memory) {
        Ok(()) => memory,
        Err(_) => tempdir(name),
    }
}

/// Compiles tests/c/everything.c and what belongs to it.
pub fn compile_everything(dir: &Path, flags: &[&str], more: &[&str]) -> PathBuf {
    let own = [
        "everything",
        "everything_draw",
        "everything_shot",
        "everything_restart",
        "everything_quality",
    ];
    let names = own.iter().chain(&["stress_state"]).chain(more);
    let sources: Vec<PathBuf> =
        names.map(|name| root().join(format!("tests/c/{name}.c"))).collect();
    let sources: Vec<&Path> = sources.iter().map(PathBuf::as_path).collect();
    compile_c_with(dir, "cc", &[&["-frounding-math", "-pthread"], flags].concat(), &sources)
}

/// Returns `LD_LIBRARY_PATH` without the folders that `cargo test` puts in front. From these
/// folders the loader would take a library that `cargo build` left there, instead of the library
/// that a program was linked with.
pub fn library_path() -> std::ffi::OsString {
    let path = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    std::env::join_paths(
        std::env::split_paths(&path).filter(|folder| !folder.starts_with(target())),
    )
    .unwrap()
}

/// Removes the variables that tell `make` and `make install` what to do.
pub fn plain(make: &mut Command) -> &mut Command {
    for name in ["MAKEFLAGS", "MAKELEVEL", "MFLAGS", "FC"] {
        make.env_remove(name);
    }
    for name in ["PREFIX", "DESTDIR", "LIBDIR", "INCLUDEDIR", "BINDIR"] {
        make.env_remove(name);
    }
    make
}

/// The text of `gpuzip_last_error` for the calling thread.
pub fn last_error() -> String {
    // SAFETY: never NULL; the text ends with a NUL and is the thread's own.
    let text = unsafe { std::ffi::CStr::from_ptr(gpuzip::capi::gpuzip_last_error()) };
    text.to_string_lossy().into_owned()
}

/// Runs a command that must succeed.
pub fn run(command: &mut Command) -> Output {
    if command.get_envs().all(|(name, _)| name != "LD_LIBRARY_PATH") {
        command.env("LD_LIBRARY_PATH", library_path());
    }
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
    output
}

/// The standard output of a process, as text.
pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Whether a program can be started. If not, prints that the test is skipped.
pub fn have(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok_and(|o| o.status.success());
    if !found {
        println!("skipped: {program} is not installed");
    }
    found
}

/// Ends a test unless the condition holds.
#[allow(unused_macros)]
macro_rules! only_if {
    ($condition:expr) => {
        if !$condition {
            return;
        }
    };
}
#[allow(unused_imports)]
pub(crate) use only_if;

/// Ends a test, which is thereby skipped, unless all of these programs can be started.
#[allow(unused_macros)]
macro_rules! needs {
    ($($program:expr),+) => {
        $crate::common::only_if!($($crate::common::have($program))&&+)
    };
}
#[allow(unused_imports)]
pub(crate) use needs;

/// A program under valgrind, which fails for errors of memory and for leaks of these kinds.
pub fn valgrind(program: &Path, kinds: &str) -> Command {
    let mut command = Command::new("valgrind");
    // The codecs have blocks of straight vector code that exceed valgrind's default limit.
    command.args(["-q", "--vex-guest-max-insns=20", "--error-exitcode=9", "--leak-check=full"]);
    let kinds = ["show-leak-kinds", "errors-for-leak-kinds"].map(|key| format!("--{key}={kinds}"));
    command.args(kinds).arg(program);
    command
}

/// Defines tests that call one of a few functions: `name: function(arguments);`. Each function gets the
/// path of its test first.
#[allow(unused_macros)]
macro_rules! tests_of {
    ($($test:ident: $check:ident($($argument:expr),*);)*) => {
        $(#[test]
        fn $test() {
            $check($crate::common::here!(), $($argument),*);
        })*
    };
}
#[allow(unused_imports)]
pub(crate) use tests_of;

/// The path of the test in which this stands, as the test harness names it.
#[allow(unused_macros)]
macro_rules! here {
    () => {{
        fn here() {}
        $crate::common::path_of(here)
    }};
}
#[allow(unused_imports)]
pub(crate) use here;

/// Returns the path of the test around a function, without the name of the program.
pub fn path_of<F>(_: F) -> &'static str {
    let path = std::any::type_name::<F>();
    path.split_once("::").and_then(|(_, path)| path.rsplit_once("::")).unwrap().0
}

/// Returns cargo's target folder, from the path of a test program: <target>/<profile>/deps/<name>.
pub fn target() -> PathBuf {
    std::env::current_exe().unwrap().ancestors().nth(3).unwrap().to_path_buf()
}

/// Returns the folder of this build of the tests, <target>/<profile>.
pub fn built() -> PathBuf {
    std::env::current_exe().unwrap().ancestors().nth(2).unwrap().to_path_buf()
}

/// Returns a folder with the `libgpuzip.so` that was built together with this program, with the
/// checks of its profile, for tests that need no build of the library but the tests' own.
pub fn library_of_tests() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let folder = scratch("library-of-tests");
        for name in ["libgpuzip.so", concat!("libgpuzip.so.", env!("CARGO_PKG_VERSION_MAJOR"))] {
            // Another program may have made the link already.
            let _ =
                std::os::unix::fs::symlink(built().join("deps/libgpuzip.so"), folder.join(name));
        }
        folder
    })
}

/// Returns the folder with the `libgpuzip.so` that `cargo build --release` makes, after building it
/// once in each process.
pub fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        // The packages that `make build` builds: others would have other features of dependencies
        // and so build the library again.
        let packages = ["-p", "gpuzip", "-p", "gpuzip-cli"];
        run(Command::new(env!("CARGO"))
            .current_dir(root())
            .args(["build", "--release", "--quiet"])
            .args(packages));
        target().join("release")
    })
}

/// Returns the program rtm3d, after building it once in each process.
pub fn rtm3d() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let program = scratch("rtm").join("rtm3d");
        run(Command::new("make")
            .args(["-s", "-j2", "-C"])
            .arg(root().join("c-examples/rtm3d"))
            .arg(format!("BUILD={}", scratch("rtm").display()))
            .arg(format!("GPUZIP_LIB={}", library().display()))
            .arg(&program));
        program
    })
}

/// The folder `data` with real models and wavefields, below the folder that `GPUZIP_SHARED` names or
/// `../shared`.
pub fn data() -> Option<PathBuf> {
    let shared =
        std::env::var_os("GPUZIP_SHARED").map_or_else(|| root().join("../shared"), PathBuf::from);
    let data = shared.join("data");
    if data.is_dir() {
        return Some(data);
    }
    println!("skipped: no real models (set GPUZIP_SHARED)");
    None
}

/// Compiles a C program against the library and returns its path. `flags` come before the source.
pub fn compile_c(dir: &Path, compiler: &str, flags: &[&str], source: &Path) -> PathBuf {
    compile_c_with(dir, compiler, flags, &[source])
}

/// Compiles a C program from several sources, of which the first names the program, against the
/// library and returns its path.
pub fn compile_c_with(dir: &Path, compiler: &str, flags: &[&str], sources: &[&Path]) -> PathBuf {
    compile_against(library(), dir, compiler, flags, sources)
}

/// Compiles a C program as `compile_c_with` does, against the library in a folder.
pub fn compile_against(
    library: &Path,
    dir: &Path,
    compiler: &str,
    flags: &[&str],
    sources: &[&Path],
) -> PathBuf {
    let program = dir.join(sources[0].file_stem().unwrap());
    let lib = library.display().to_string();
    run(Command::new(compiler)
        .args(flags)
        .arg("-I")
        .arg(root().join("include"))
        .args(sources)
        .arg("-o")
        .arg(&program)
        .args([&format!("-L{lib}"), "-lgpuzip", &format!("-Wl,-rpath,{lib}"), "-lm", "-ldl"]));
    program
}

/// Returns the path of the test `name` of this program, as the test harness names it. `name` may be
/// the last parts of the path: exactly one test must have them.
pub fn test_path(name: &str) -> String {
    static TESTS: OnceLock<Vec<String>> = OnceLock::new();
    let tests = TESTS.get_or_init(|| {
        let list = Command::new(std::env::current_exe().unwrap()).arg("--list").output().unwrap();
        stdout(&list)
            .lines()
            .filter_map(|line| line.strip_suffix(": test"))
            .map(Into::into)
            .collect()
    });
    let end = format!("::{name}");
    let mut found = tests.iter().filter(|test| *test == name || test.ends_with(&end));
    match (found.next(), found.next()) {
        (Some(test), None) => test.clone(),
        (test, other) => panic!("one test must be named {name}: {test:?}, {other:?}"),
    }
}

/// Returns the command that runs the test `name` of this program again, alone in a process. The test
/// may be one that is ignored.
pub fn again(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([&test_path(name), "--exact", "--include-ignored"]);
    command.args(["--nocapture", "--test-threads=1"]);
    command
}

/// Runs the test `name` of this program again, alone in a process, with a folder of its own. Returns
/// the folder in that process; in the parent, waits for that process and returns `None`.
pub fn alone(name: &str) -> Option<PathBuf> {
    const FOLDER: &str = "GPUZIP_TEST_FOLDER";
    if let Some(folder) = std::env::var_os(FOLDER) {
        return Some(folder.into());
    }
    let output = again(name).env(FOLDER, tempdir(&format!("alone-{name}"))).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("1 passed"), "{output:?}");
    print!("{text}");
    None
}

/// Returns the descriptors of this process that are open on files without a name in `folder`.
pub fn nameless_in(folder: &Path) -> Vec<PathBuf> {
    let all = std::fs::read_dir("/proc/self/fd").unwrap();
    all.filter_map(|entry| {
        let entry = entry.ok()?.path();
        let file = std::fs::read_link(&entry).ok()?;
        let text = file.display().to_string();
        (file.starts_with(folder) && text.ends_with("(deleted)")).then_some(entry)
    })
    .collect()
}

/// Returns the bytes of these files.
pub fn bytes_of(files: &[PathBuf]) -> u64 {
    files.iter().map(|file| std::fs::metadata(file).unwrap().len()).sum()
}

/// Runs `body` while a file system of `size` in main memory is mounted on `folder`. Only root may mount
/// one; for other users the test is skipped.
pub fn on_small_disk(folder: &Path, size: &str, body: impl FnOnce() + std::panic::UnwindSafe) {
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "none"]).arg(folder);
    if !mount.output().is_ok_and(|output| output.status.success()) {
        return println!("skipped: this user may not mount a file system");
    }
    let result = std::panic::catch_unwind(body);
    run(Command::new("umount").arg(folder));
    result.unwrap();
}

/// Limits the bytes of every file that this process writes.
pub fn limit_files(bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the call reads the limit only.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) }, 0);
}

/// Compiles a shared library from a C source, and returns its path.
pub fn compile_library(source: &Path, library: PathBuf) -> PathBuf {
    run(Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&library)
        .arg(source)
        .arg("-ldl"));
    library
}

/// Compiles `tests/c/faults.c`, the library that makes file-system calls fail, once in each process;
/// `None` without a compiler.
pub fn faults_library() -> Option<&'static Path> {
    static LIBRARY: OnceLock<Option<PathBuf>> = OnceLock::new();
    let built = LIBRARY.get_or_init(|| {
        let library = || tempdir(&format!("faults-library-{}", std::process::id()));
        have("cc")
            .then(|| compile_library(&root().join("tests/c/faults.c"), library().join("faults.so")))
    });
    built.as_deref()
}
