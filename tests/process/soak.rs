//! Sessions of 10^3 shots and shots of 10^5 actions: memory, descriptors, threads and files stay as
//! they are. The program is tests/c/soak.c; `GPUZIP_TEST_LONG=1` runs all of it.

use crate::common;
use crate::common::cases::long;
use common::{compile_c, root, run, stdout, tempdir};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Few snapshots, most of them in the host pool.
const SMALL: &str = "checkpointing_snaps = 12\n";

/// Configurations, with the words that tests/c/soak.c takes after its numbers.
const KINDS: [(&str, &str, &str); 26] = [
    ("raw", "cache_capacity = 3\n", ""),
    ("link", "cache_capacity = 3\nlink_bandwidth = 4G\n", ""),
    ("lru", "cache_capacity = 3\npolicy = lru\n", ""),
    ("ranges", "cache_capacity = 3\nrange_actions = 1\n", ""),
    ("slots", "cache_capacity = 3\nzero_copy = 1\n", "slots"),
    ("dct", "cache_capacity = 3\ncompressor = dct\nerror_bound = 1e-3\n", ""),
    ("lorenzo", "device_budget = 20K\nhost_budget = 90K\ncompressor = lorenzo\n", ""),
    ("zfp", "cache_capacity = 3\ncompressor = zfp\nlink_bandwidth = 4G\n", ""),
    ("fp16", "device_budget = 30K\nhost_budget = 60K\ncompressor = fp16\n", ""),
    ("mixed", "device_budget = 60K\nhost_budget = 120K\ncompression_factor = 3\ncompressor = dct\nmixed_storage = 1\n", ""),
    ("reopen", "cache_capacity = 3\ncompressor = dct\n", "reopen"),
    ("steps", "cache_capacity = 3\n", "steps"),
    ("steps-dct", "cache_capacity = 3\ncompressor = dct\n", "steps"),
    ("tune", "cache_capacity = 3\n", "tune"),
    ("online", "cache_capacity = 3\n", "online"),
    ("left", "cache_capacity = 3\nlink_bandwidth = 1G\n", "left"),
    ("left-slots", "cache_capacity = 3\nlink_bandwidth = 1G\nzero_copy = 1\n", "left slots"),
    ("left-dct", "cache_capacity = 3\ncompressor = dct\n", "left"),
    ("disk", "device_budget = 40K\nhost_budget = 40K\ndisk_budget = 200K\n", ""),
    ("disk-dct", "device_budget = 40K\nhost_budget = 40K\ndisk_budget = 200K\ncompressor = dct\n", ""),
    ("disk-reopen", "device_budget = 40K\nhost_budget = 40K\ndisk_budget = 200K\n", "reopen"),
    ("left-disk", "device_budget = 40K\nhost_budget = 40K\ndisk_budget = 200K\n", "left"),
    ("left-online", "cache_capacity = 3\nlink_bandwidth = 1G\n", "left online"),
    ("left-mixed", "device_budget = 60K\nhost_budget = 120K\ncompression_factor = 3\ncompressor = dct\nmixed_storage = 1\n", "left"),
    ("log", "cache_capacity = 3\nenable_performance_log = 1\ntrace_out = soak.trace\n", "files"),
    ("storm", "cache_capacity = 3\nlink_bandwidth = 4G\ncompressor = dct\nprofile_path = soak.profile\nenable_performance_log = 1\ntrace_out = soak.trace\n", "tune files storm"),
];

fn program(dir: &Path) -> PathBuf {
    let flags = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror"];
    compile_c(dir, "cc", &flags, &root().join("tests/c/soak.c"))
}

/// Runs all kinds but those that `is_left_out` names.
fn soak(name: &str, steps: u32, shots: u32, is_left_out: impl Fn(&str) -> bool) {
    let dir = tempdir(name);
    let program = program(&dir);
    for (kind, config, words) in KINDS.iter().filter(|(kind, ..)| !is_left_out(kind)) {
        let folder = dir.join(kind);
        let temporary = folder.join("tmp");
        std::fs::create_dir_all(&temporary).unwrap();
        let algorithm = if kind.ends_with("online") { "online" } else { "revolve" };
        let file = dir.join(format!("{kind}.cfg"));
        let text = format!("checkpointing_algorithm = {algorithm}\n{SMALL}{config}");
        std::fs::write(&file, text).unwrap();
        let mut command = Command::new(&program);
        for (key, _) in std::env::vars().filter(|(key, _)| key.starts_with("GPUZIP_")) {
            command.env_remove(key);
        }
        command.current_dir(&folder).env("TMPDIR", &temporary).arg(&file);
        // Free memory that malloc keeps for a thread counts as used otherwise.
        // One arena: whether threads meet in malloc, and so have one each, is chance.
        let tunables = "tcache_count=0:glibc.malloc.mxfast=0:glibc.malloc.arena_max=1";
        command.env("GLIBC_TUNABLES", format!("glibc.malloc.{tunables}"));
        command.args([steps.to_string(), shots.to_string()]).args(words.split_whitespace());
        println!("{kind}: {}", stdout(&run(&mut command)).trim_end());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

/// One session, or one after another, for many shots: 273,000 actions of each kind in long tests.
#[test]
fn a_thousand_shots_leave_nothing_behind() {
    soak("soak-shots", 60, if long() { 1000 } else { 100 }, |_| false);
}

/// A shot of 2,000,000 actions in long tests, else of 100,000.
#[test]
fn a_hundred_thousand_actions_take_no_more_memory_than_the_first() {
    let steps = if long() { 200_000 } else { 14_000 };
    let of_many_shots = ["reopen", "disk-reopen", "steps", "steps-dct", "tune", "log", "storm"];
    soak("soak-actions", steps, 1, |kind| {
        of_many_shots.contains(&kind) || kind.starts_with("left")
    });
}
