//! With GPUZIP_TEST_LONG=1, runs the library and its programs under tools that check memory and
//! threads; tests/sanitizers.sh names the programs of each tool.

use crate::common;
use crate::common::cases::long;
use common::{library, root, run, scratch, stdout};
use std::process::Command;

/// Runs one tool, and prints the output of its script: toolchain, programs, skipped parts.
fn watched_by(tool: &str) {
    if !long() {
        println!("skipped: {tool}: GPUZIP_TEST_LONG=1 runs it");
        return;
    }
    let folder = scratch(&format!("sanitizers-{tool}"));
    let mut command = Command::new("sh");
    command.arg(root().join("tests/sanitizers.sh")).arg(tool).arg(&folder);
    // The script chooses the toolchain itself.
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
