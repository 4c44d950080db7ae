//! Random use and misuse of the C ABI by programs that keep a copy of every state.
//! `GPUZIP_TEST_LONG=1` runs the numbers of sessions and calls that docs/evidence.md states, with its
//! seeds.

use crate::common;
use crate::common::cases::cases;
use common::{compile_c, compile_everything, folder_in_memory, root, run, stdout, tempdir};
use std::process::Command;

const FLAGS: [&str; 7] = ["-std=gnu11", "-g", "-O2", "-pthread", "-Wall", "-Wextra", "-Werror"];

/// Jobs that found an error once: a restart between the last step and the call that ends the forward
/// phase, and a generation of a compressed record on disk that a slot of the cache names.
const FOUND: [u64; 2] = [6_005_848, 6_005_997];

/// Random sessions that combine everything a session can be asked for: one at a time with faults of
/// memory and files, eight at a time, and eight at a time with faults. The program compares every
/// restored state with its own copy, and looks for what is left in the end.
#[test]
fn random_sessions_restore_what_they_saved() {
    let faults = ["failing_memory", "faults"];
    let program = compile_everything(&tempdir("everything"), &FLAGS, &faults);
    for job in FOUND {
        let dir = folder_in_memory(&format!("everything-{job}"));
        let args = [format!("{job}"), "1".into()];
        run(Command::new(&program).args(args).current_dir(&dir));
        std::fs::remove_dir_all(dir).unwrap();
    }
    let parts = [(0, 80_000, "1"), (1_000_000, 25_000, "8"), (2_000_000, 25_000, "8 faults")];
    let parts = parts.map(|(first, full, how)| {
        // The last of the jobs have their files on the disk.
        let name = format!("everything-{first}");
        let dir = if first < 2_000_000 { folder_in_memory(&name) } else { tempdir(&name) };
        let program = program.clone();
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
    let program = compile_c(&dir, "cc", &FLAGS, &root().join("tests/c/stress_misuse.c"));
    let calls = cases(2_000_000 / 10, 2_000_000);
    let printed =
        stdout(&run(Command::new(program).current_dir(&dir).args(["1", &calls.to_string()])));
    print!("{printed}");
    assert!(printed.starts_with(&format!("{calls} calls from 8 threads")), "{printed}");
}
