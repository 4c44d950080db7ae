//! When memory runs out, calls return an error or the right states, and the process never ends. The
//! test program is tests/c/oom.c.

use crate::common::cases::long;
use crate::common::{self, emu};
use common::{compile_c_with, library_path, root, run, stdout, tempdir};
use std::path::Path;
use std::process::Command;

/// Compiles tests/c/oom.c with its failing allocator into `dir`.
fn program(dir: &Path) -> Command {
    let flags = [
        "-std=gnu11",
        "-O2",
        "-Wall",
        "-Wextra",
        "-Wno-missing-field-initializers",
        "-Werror",
        "-pthread",
    ];
    let sources =
        ["oom.c", "oom_state.c", "failing_memory.c"].map(|name| root().join("tests/c").join(name));
    let program = compile_c_with(dir, "cc", &flags, &sources.each_ref().map(|path| path.as_path()));
    let mut command = Command::new(program);
    command.current_dir(dir);
    command
}

/// Makes allocations fail one at a time in the kinds of sessions that the pattern in `which`
/// selects: all allocations with `GPUZIP_TEST_LONG`, else a sample.
fn allocations_fail(folder: &str, which: [&str; 2]) {
    let dir = tempdir(folder);
    let most = if long() { "0" } else { "2" };
    let printed = stdout(&run(program(&dir).args(which).args(["--most", most])));
    println!("{printed}");
    assert!(printed.contains("aborts 0, wrong 0"), "{printed}");
}

/// Sessions of every kind but those of the next tests.
#[test]
fn every_allocation_may_fail() {
    allocations_fail("oom", ["--but", "@(shapes*|codec-shapes*|threads*|repeat*)"]);
}

/// 300 to 1000 fields of FP32 with 19 different lengths, raw and by every codec.
#[test]
fn every_allocation_may_fail_with_fields_of_many_shapes() {
    allocations_fail("oom-shapes", ["--only", "@(shapes*|codec-shapes*)"]);
}

/// Several threads have a session each at the same time.
#[test]
fn every_allocation_may_fail_while_other_threads_have_sessions() {
    let which = if long() { "threads*" } else { "threads?(-mixed|-codecs|-calls)" };
    allocations_fail("oom-threads", ["--only", which]);
}

/// `gpuzip_init` fails repeatedly, leaks no memory, and succeeds once there is memory again.
#[test]
fn sessions_begin_once_there_is_memory_again() {
    let which = if long() { "repeat*" } else { "repeat-@(store-all|trace|files|shapes)" };
    allocations_fail("oom-repeat", ["--only", which]);
}

/// Allocations fail in sessions on the software CUDA driver: only allocations of the library, not
/// those of the driver.
#[test]
fn every_allocation_may_fail_on_cuda() {
    let dir = tempdir("oom-cuda");
    let folder = emu::folder_with("oom", &emu::driver());
    let path =
        std::env::join_paths(std::iter::once(folder).chain(std::env::split_paths(&library_path())))
            .unwrap();
    let mut modes = vec![
        "store-all-cache",
        "revolve",
        "lru",
        "zero-copy",
        "shared-levels",
        "run",
        "attach",
        "trace-out",
        "store-all-large",
    ];
    if long() {
        modes.extend([
            "fp16",
            "bfp",
            "trace-out-large",
            "fields",
            "two-level",
            "autotune",
            "threads",
            "repeat-revolve",
        ]);
    }
    let cache = emu::images();
    for mode in modes {
        let most = if long() && mode != "autotune" { "0" } else { "3" };
        let mut command = program(&dir);
        command
            .args(["--cuda", "--only", mode, "--most", most])
            .env("LD_LIBRARY_PATH", &path)
            .env("CUDA_EMU_MODE", "early");
        let printed = stdout(&run(command.env("GPUZIP_CACHE_DIR", &cache)));
        println!("{printed}");
        assert!(printed.contains("aborts 0, wrong 0"), "{printed}");
    }
}

/// A schedule that stores all of 300,000 states, under several limits of the process's address
/// space: under some of these limits allocations fail.
#[test]
fn a_limit_of_the_address_space_is_an_error() {
    let dir = tempdir("oom-limit");
    let limits: Vec<u64> = (0..17).map(|k| (100 + 6 * k) << 20).collect();
    let limits = if long() { limits } else { limits.into_iter().step_by(2).collect() };
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
