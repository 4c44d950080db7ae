//! What the tests of kernels share: NVIDIA's compilers, processes that interpret PTX, two threads of
//! work.

use crate::common::{emu, root, scratch, stdout};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

/// Runs a script of tests/ that installs a compiler and prints its path. Returns the path, or prints
/// that the test is skipped.
pub fn installed(script: &str) -> Option<String> {
    let output = Command::new("sh").arg(root().join("tests").join(script)).output().unwrap();
    if output.status.success() {
        return Some(stdout(&output).trim().to_string());
    }
    println!("skipped: {}", String::from_utf8_lossy(&output.stderr).trim());
    None
}

/// Returns the environment of a process whose driver interprets PTX that the NVRTC in the folder
/// `nvrtc` makes.
pub fn interpreting(nvrtc: &str) -> [(&'static str, String); 5] {
    [
        ("CUDA_EMU_KERNELS", "ptx".into()),
        ("CUDA_EMU_ARGUMENTS", "null-behind".into()),
        ("CUDA_EMU_NVRTC", nvrtc.into()),
        ("CUDA_EMU_PTX_CACHE", scratch("ptx").display().to_string()),
        ("GPUZIP_CACHE_DIR", emu::images_of("ptx").display().to_string()),
    ]
}

/// Calls `work` for all items, on two threads. Returns the results in the order of the items.
pub fn on_two_threads<T: Sync, R: Send>(all: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let thread = || {
        while let Some((i, item)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|i| Some((i, all.get(i)?)))
        {
            let result = work(item);
            results.lock().unwrap().push((i, result));
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(thread);
        thread();
    });
    let mut results = results.into_inner().unwrap();
    results.sort_by_key(|(i, _)| *i);
    results.into_iter().map(|(_, result)| result).collect()
}
