//! Random use and misuse of the C ABI by programs that keep a copy of every state.
//! `GPUZIP_TEST_LONG=1` runs the numbers of sessions and calls that docs/environment.md states, with its
//! seeds.

use crate::common;
use crate::common::cases::cases;
use common::{compile_c_with, root, run, stdout, tempdir};
use std::path::{Path, PathBuf};
use std::process::Command;

fn compile(dir: &Path, sources: &[&str]) -> PathBuf {
    let flags =
        ["-std=gnu11", "-g", "-O2", "-pthread", "-frounding-math", "-Wall", "-Wextra", "-Werror"];
    let sources: Vec<PathBuf> =
        sources.iter().map(|source| root().join("tests/c").join(source)).collect();
    let sources: Vec<&Path> = sources.iter().map(PathBuf::as_path).collect();
    compile_c_with(dir, "cc", &flags, &sources)
}

/// A folder for the files of the jobs from `first` on: on the disk for the last of them, in memory,
/// if there is such a place, for the others, since fsync takes most of the time on a disk.
fn folder(first: u64) -> PathBuf {
    let name = format!("everything-{first}");
    let memory = Path::new("/dev/shm").join(format!("gpuzip-{name}-{}", std::process::id()));
    match first < 2_000_000 && std::fs::create_dir(&memory).is_ok() {
        true => memory,
        false => tempdir(&name),
    }
}

/// Random sessions that combine everything a session can be asked for: one at a time with faults of
/// memory and files, eight at a time, and eight at a time with faults. The program compares every
/// restored state with its own copy, and looks for what is left in the end.
#[test]
fn random_sessions_restore_what_they_saved() {
    let sources = ["", "_draw", "_shot", "_restart"].map(|part| format!("everything{part}.c"));
    let mut sources: Vec<_> = sources.iter().map(String::as_str).collect();
    sources.extend(["stress_state.c", "failing_memory.c", "faults.c"]);
    let program = compile(&tempdir("everything"), &sources);
    let parts = [(0, 80_000, "1"), (1_000_000, 25_000, "8"), (2_000_000, 25_000, "8 faults")];
    let parts = parts.map(|(first, full, how)| {
        let (program, dir) = (program.clone(), folder(first));
        std::thread::spawn(move || {
            let jobs = cases(full / 50, full);
            let mut run_of = Command::new(program);
            run_of.args([format!("{first}"), format!("{jobs}")]).args(how.split(' '));
            let printed = stdout(&run(run_of.current_dir(&dir)));
            std::fs::remove_dir_all(dir).unwrap();
            (jobs, printed)
        })
    });
    for (jobs, printed) in parts.map(|part| part.join().unwrap()) {
        print!("{printed}");
        assert!(printed.starts_with(&format!("{jobs} jobs: ")), "{printed}");
        for none in [" 0 of them while memory was out", " 0 restarts"] {
            assert!(!printed.contains(none), "{printed}");
        }
    }
}

/// Eight threads that share handles make wrong calls and, between these, run ordinary sessions.
#[test]
fn misuse_from_threads_is_always_an_error() {
    let dir = tempdir("stress_misuse");
    let program = compile(&dir, &["stress_misuse.c"]);
    let calls = cases(2_000_000 / 10, 2_000_000);
    let printed =
        stdout(&run(Command::new(program).current_dir(&dir).args(["1", &calls.to_string()])));
    print!("{printed}");
    assert!(printed.starts_with(&format!("{calls} calls from 8 threads")), "{printed}");
}
