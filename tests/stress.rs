//! Random use and misuse of the C ABI by programs that know every state themselves.
//! `GPUZIP_TEST_LONG=1` runs ten times as much, with the seeds and counts that docs/environment.md
//! states.

mod common;

use common::{library, root, run, stdout, tempdir};
use std::path::{Path, PathBuf};
use std::process::Command;

/// How much of a full run is due: CI runs a tenth.
fn share(full: u64) -> u64 {
    if std::env::var_os("GPUZIP_TEST_LONG").is_some() {
        full
    } else {
        full / 10
    }
}

fn compile(dir: &Path, name: &str, sources: &[&str]) -> PathBuf {
    let (program, library) = (dir.join(name), library().display().to_string());
    let flags = [
        "-std=c11",
        "-g",
        "-O2",
        "-pthread",
        "-frounding-math",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-pedantic",
    ];
    let sources = sources.iter().map(|source| root().join("tests/c").join(source));
    run(Command::new("cc")
        .args(flags)
        .arg("-I")
        .arg(root().join("include"))
        .args(sources)
        .arg("-o")
        .arg(&program)
        .args([&format!("-L{library}"), "-lgpuzip", &format!("-Wl,-rpath,{library}"), "-lm"]));
    program
}

/// All algorithms, codecs, policies, budgets, zero copy, shared levels, callbacks and shared
/// schedules, under every rounding mode and with denormals flushed: every restored state beside the
/// program's own copy of it.
#[test]
fn random_sessions_restore_what_they_saved() {
    let dir = tempdir("stress_sessions");
    let program = compile(&dir, "stress_sessions", &["stress_sessions.c", "stress_state.c"]);
    let half = share(100_000) / 2;
    let parts: Vec<_> = [0, 50_000]
        .map(|first: u64| {
            let (program, dir) = (program.clone(), dir.clone());
            std::thread::spawn(move || {
                stdout(&run(Command::new(program)
                    .current_dir(dir)
                    .arg(first.to_string())
                    .arg(half.to_string())))
            })
        })
        .into_iter()
        .map(|part| part.join().unwrap())
        .collect();
    for printed in parts {
        print!("{printed}");
        assert!(printed.starts_with(&format!("{half} jobs: ")), "{printed}");
    }
}

/// Wrong calls from eight threads that share their handles, with ordinary sessions between them.
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
