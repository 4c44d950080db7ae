//! The library and its programs under tools that watch memory and threads, where GPUZIP_TEST_LONG=1
//! asks for it: tests/sanitizers.sh says what each runs.

mod common;

use common::{library, root, run, scratch, stdout};
use std::process::Command;

/// Runs one tool, and prints what its script says: which toolchain, which programs, what was
/// skipped.
fn watched_by(tool: &str) {
    if std::env::var_os("GPUZIP_TEST_LONG").is_none() {
        println!("skipped: {tool}: GPUZIP_TEST_LONG=1 runs it");
        return;
    }
    let folder = scratch(&format!("sanitizers-{tool}"));
    let mut command = Command::new("sh");
    command.arg(root().join("tests/sanitizers.sh")).arg(tool).arg(&folder);
    // The toolchain is the script's choice.
    for name in ["RUSTUP_TOOLCHAIN", "RUSTC", "RUSTFLAGS", "CARGO"] {
        command.env_remove(name);
    }
    if tool == "memcheck" {
        command.env("LIBRARY", library());
    }
    println!("{}", stdout(&run(&mut command)));
}

#[test]
fn programs_are_clean_under_address_and_undefined_behaviour_sanitizer() {
    watched_by("address");
}

#[test]
fn sessions_in_threads_are_clean_under_thread_sanitizer() {
    watched_by("threads");
}

#[test]
fn programs_are_clean_under_memcheck() {
    watched_by("memcheck");
}

#[test]
fn plain_parts_are_clean_under_miri() {
    watched_by("miri");
}
