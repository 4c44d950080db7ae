//! Memory that runs out: an error or the right states, and never the end of the process. See tests/c/oom.c.

mod common;
#[path = "cuda/emu.rs"]
#[allow(dead_code)] // Each test program uses a part of it.
mod emu;

use common::{compile_c_with, library_path, root, run, stdout, tempdir};
use std::path::Path;
use std::process::Command;

fn is_long() -> bool {
    std::env::var_os("GPUZIP_TEST_LONG").is_some()
}

/// The program, in a folder of its own.
fn program(dir: &Path) -> Command {
    let flags = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Wno-missing-field-initializers", "-Werror", "-pthread"];
    let allocator = root().join("tests/c/failing_memory.c");
    let program = compile_c_with(dir, "cc", &flags, &[&root().join("tests/c/oom.c"), &allocator]);
    let mut command = Command::new(program);
    command.current_dir(dir);
    command
}

/// Every allocation of sessions of every kind fails in turn; a part of them without `GPUZIP_TEST_LONG`.
#[test]
fn every_allocation_may_fail() {
    let dir = tempdir("oom");
    let most = if is_long() { "0" } else { "2" };
    let printed = stdout(&run(program(&dir).args(["--most", most])));
    println!("{printed}");
    assert!(printed.contains("aborts 0, wrong 0"), "{printed}");
}

/// The same on the CUDA path: only what the library itself asks for fails, not what the software driver does.
#[test]
fn every_allocation_may_fail_on_cuda() {
    let dir = tempdir("oom-cuda");
    let folder = emu::folder_with("oom", &emu::driver());
    let path = std::env::join_paths(std::iter::once(folder).chain(std::env::split_paths(&library_path()))).unwrap();
    let mut modes =
        vec!["store-all-cache", "revolve", "lru", "zero-copy", "shared-levels", "run", "attach", "trace-out", "store-all-large"];
    if is_long() {
        modes.extend(["fp16", "bfp", "trace-out-large", "fields", "two-level", "autotune"]);
    }
    let cache = common::scratch("oom-kernels");
    for mode in modes {
        let most = if is_long() && mode != "autotune" { "0" } else { "3" };
        let mut command = program(&dir);
        command.args(["--cuda", "--only", mode, "--most", most]).env("LD_LIBRARY_PATH", &path).env("CUDA_EMU_MODE", "early");
        let printed = stdout(&run(command.env("GPUZIP_CACHE_DIR", &cache)));
        println!("{printed}");
        assert!(printed.contains("aborts 0, wrong 0"), "{printed}");
    }
}

/// 300,000 steps that store every state, where the process may have less and less address space: some of these limits end a process that
/// takes its memory for granted.
#[test]
fn a_limit_of_the_address_space_is_an_error() {
    let dir = tempdir("oom-limit");
    let limits: Vec<u64> = (0..17).map(|k| (100 + 6 * k) << 20).collect();
    let limits = if is_long() { limits } else { limits.into_iter().step_by(2).collect() };
    let program = program(&dir);
    let mut refused = 0;
    for limit in limits {
        let mut command = Command::new(program.get_program());
        let printed = stdout(&run(command.current_dir(&dir).args(["--limit", &limit.to_string()])));
        refused += usize::from(!printed.contains("the right states"));
        println!("{printed}");
    }
    assert!(refused > 0, "none of the limits is one");
}
