//! Random use and misuse of the C ABI by programs that keep a copy of every state.
//! `GPUZIP_TEST_LONG=1` runs ten times as many sessions and calls, with the seeds and counts that
//! docs/environment.md states.

mod common;

use common::{library, root, run, stdout, tempdir};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns `full` with GPUZIP_TEST_LONG, else a tenth of `full`.
fn share(full: u64) -> u64 {
    if std::env::var_os("GPUZIP_TEST_LONG").is_some() {
        full
    } else {
        full / 10
    }
}

fn compile(dir: &Path, name: &str, sources: &[&str]) -> PathBuf {
    let (program, library) = (dir.join(name), library().display().to_string());
    let flags =
        ["-std=gnu11", "-g", "-O2", "-pthread", "-frounding-math", "-Wall", "-Wextra", "-Werror"];
    let sources = sources.iter().map(|source| root().join("tests/c").join(source));
    run(Command::new("cc")
        .args(flags)
        .arg("-I")
        .arg(root().join("include"))
        .args(sources)
        .arg("-o")
        .arg(&program)
        .args([
            &format!("-L{library}"),
            "-lgpuzip",
            &format!("-Wl,-rpath,{library}"),
            "-lm",
            "-ldl",
        ]));
    program
}

/// Random sessions that combine everything a session can be asked for, with faults of memory and
/// files (one thread), and eight at a time (no faults). The program compares every restored state
/// with its own copy.
#[test]
fn random_sessions_restore_what_they_saved() {
    let sources = ["", "_draw", "_shot", "_restart"].map(|part| format!("everything{part}.c"));
    let mut sources: Vec<_> = sources.iter().map(String::as_str).collect();
    sources.extend(["stress_state.c", "failing_memory.c", "faults.c"]);
    let program = compile(&tempdir("everything"), "everything", &sources);
    let half = share(16_000) / 2;
    let parts: Vec<_> = [("0", "1"), ("1000000", "8")]
        .map(|(first, threads)| {
            let (program, dir) = (program.clone(), tempdir(&format!("everything-{threads}")));
            std::thread::spawn(move || {
                stdout(&run(Command::new(program).current_dir(dir).args([
                    first,
                    &half.to_string(),
                    threads,
                ])))
            })
        })
        .into_iter()
        .map(|part| part.join().unwrap())
        .collect();
    for printed in parts {
        print!("{printed}");
        assert!(printed.starts_with(&format!("{half} jobs: ")), "{printed}");
        assert!(!printed.contains(" 0 restarts"), "{printed}");
    }
}

/// Eight threads that share handles make wrong calls and, between these, run ordinary sessions.
#[test]
fn misuse_from_threads_is_always_an_error() {
    let dir = tempdir("stress_misuse");
    let program = compile(&dir, "stress_misuse", &["stress_misuse.c"]);
    let calls = share(2_000_000);
    let printed =
        stdout(&run(Command::new(program).current_dir(&dir).args(["1", &calls.to_string()])));
    print!("{printed}");
    assert!(printed.starts_with(&format!("{calls} calls from 8 threads")), "{printed}");
}
