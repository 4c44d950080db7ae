//! The software CUDA driver, as a test sees it: processes whose libcuda is the software driver, and
//! the functions that control the driver.

use crate::common::tempdir;
// The types alone: the functions are those of the loaded driver, which `control` finds.
use cuda_emu::Mode;
pub use cuda_emu::{Entry, KernelCounts, Kind, Totals};
use std::ffi::{c_char, c_void, CStr, CString};
use std::path::{Path, PathBuf};

pub const RANDOM: i32 = Mode::Random as i32;
pub const LATE: i32 = Mode::Late as i32;
pub const EARLY: i32 = Mode::Early as i32;
pub const TIMED: i32 = Mode::Timed as i32;

/// Returns the mode of the driver for a seed: in turn all modes, the random one twice.
pub fn mode(seed: u64) -> i32 {
    [RANDOM, LATE, RANDOM, TIMED, EARLY][seed as usize % 5]
}

/// Ends a test here, which runs again in a process whose libcuda is the software driver, with these
/// environment variables; in that process the test goes on. With `kernels` the process also has a folder
/// for compiled kernels, and where there is no compiler the test is skipped.
#[allow(unused_macros)]
macro_rules! emulated {
    () => {
        emulated!(&[])
    };
    (kernels) => {
        $crate::common::only_if!($crate::common::emu::with_kernels($crate::common::here!()))
    };
    ($variables:expr) => {
        $crate::common::only_if!($crate::common::emu::inside($crate::common::here!(), $variables))
    };
}
#[allow(unused_imports)]
pub(crate) use emulated;

/// Runs the test `name` of this program again in a process whose libcuda is the software driver.
/// Returns true in that process.
///
/// In the parent, waits for that process, fails if the test fails there, and returns false.
pub fn inside(name: &str, variables: &[(&str, &str)]) -> bool {
    inside_with(name, &driver(), variables)
}

/// Runs the test `name` as `inside` does, with a folder for compiled kernels. Returns false, too, where
/// no compiler for the kernels is installed.
pub fn with_kernels(name: &str) -> bool {
    super::have("c++") && inside(name, &[("GPUZIP_CACHE_DIR", images().to_str().unwrap())])
}

/// Returns the path of the software driver: cargo puts the library beside the test programs.
pub fn driver() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name("libcuda_emu.so")
}

/// Returns the folder for compiled kernels of the path that `CUDA_EMU_KERNELS` names.
pub fn images() -> PathBuf {
    let is_ptx = std::env::var_os("CUDA_EMU_KERNELS").is_some_and(|path| path == "ptx");
    images_of(if is_ptx { "ptx" } else { "host" })
}

/// Returns the folder for compiled kernels that the path `path` runs, `host` or `ptx`. The library
/// takes any image of a source and an architecture, whatever compiler made it: so each path has a
/// folder of its own, whose name changes with what turns sources into images.
pub fn images_of(path: &str) -> PathBuf {
    let makers = [
        include_str!("../cuda-emu/kernel.h"),
        include_str!("../cuda-emu/kernel_intrinsics.h"),
        include_str!("../cuda-emu/src/nvrtc.rs"),
        include_str!("../cuda-emu/src/nvidia.rs"),
        include_str!("../nvrtc.sh"),
    ];
    let mut hash = std::collections::hash_map::DefaultHasher::new();
    std::hash::Hash::hash(&makers, &mut hash);
    crate::common::scratch(&format!("kernels-{path}-{:016x}", std::hash::Hasher::finish(&hash)))
}

/// Makes and returns a folder in which `library` is libcuda and libnvrtc.
pub fn folder_with(name: &str, library: &Path) -> PathBuf {
    // A colon would separate folders in LD_LIBRARY_PATH.
    let folder = tempdir(&format!("cuda-{}", name.replace("::", "-")));
    for link in ["libcuda.so", "libcuda.so.1"] {
        std::os::unix::fs::symlink(library, folder.join(link)).unwrap();
    }
    // libnvrtc is a copy: the loader knows one file by one name only, and a link to the driver
    // would have the name of libcuda.
    std::fs::copy(library, folder.join("libnvrtc.so")).unwrap();
    folder
}

/// Runs the test as `inside` does, with any library as libcuda.
pub fn inside_with(name: &str, library: &Path, variables: &[(&str, &str)]) -> bool {
    if std::env::var_os("GPUZIP_TEST_EMULATED").is_some() {
        return true;
    }
    let output = super::again(name)
        .env("GPUZIP_TEST_EMULATED", "1")
        .env("RUST_BACKTRACE", "0")
        .env("LD_LIBRARY_PATH", folder_with(name, library))
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(
        output.status.success() && out.contains("1 passed"),
        "{name}: {}\n{out}\n{err}",
        output.status
    );
    print!("{out}");
    false
}

/// Returns the address of a function of the driver's control interface.
fn control(name: &CStr) -> *mut c_void {
    // SAFETY: the library is loaded already, or is the driver that cudarc will load; symbols are
    // looked up, not called.
    unsafe {
        let library = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW);
        assert!(!library.is_null(), "no software driver");
        let symbol = libc::dlsym(library, name.as_ptr());
        assert!(!symbol.is_null(), "no {name:?}");
        symbol
    }
}

macro_rules! controls {
    ($($(#[doc = $doc:literal])* $name:ident as $symbol:literal ($($argument:ident: $kind:ty),*) -> $result:ty;)*) => {
        $($(#[doc = $doc])*
        pub fn $name($($argument: $kind),*) -> $result {
            type Function = unsafe extern "C" fn($($kind),*) -> $result;
            // SAFETY: the types are those of cuda_emu::api::control.
            unsafe { std::mem::transmute::<*mut c_void, Function>(control($symbol))($($argument),*) }
        })*
    };
}

controls! {
    /// Starts again. Nonzero if objects or operations are still alive; then nothing is reset.
    reset as c"emu_reset" (seed: u64, mode: i32, devices: i32, bytes_per_device: u64) -> i32;
    read_counters as c"emu_counters" (out: *mut Totals) -> i32;
    fail_raw as c"emu_fail" (name: *const c_char, k: i64, code: i32) -> i32;
    drop_raw as c"emu_drop" (kind: *const c_char, k: u64) -> i32;
    calls_raw as c"emu_calls" (name: *const c_char) -> u64;
    /// Enqueues computation that takes this many seconds of virtual time.
    work as c"emu_work" (stream: *mut c_void, seconds: f64) -> i32;
    /// Sets the virtual seconds that every kernel takes; a reset keeps them.
    launch as c"emu_launch" (seconds: f64) -> i32;
    /// Limits the bytes of page-locked memory until the next reset.
    pin_at_most as c"emu_pinned" (bytes: u64) -> ();
    /// Returns the number of waits for events by a thread that may have spun.
    spins as c"emu_spins" () -> u64;
    struck_raw as c"emu_struck" () -> *const c_char;
    /// Keeps a history from now on.
    start_history as c"emu_history_start" () -> ();
    read_history as c"emu_history" (entries: *mut Entry, room: u64) -> u64;
    /// Counts from now on what interpreted kernels do, from zero.
    count_kernels as c"emu_count_kernels" () -> ();
    /// Returns the number of calls that waited because the queue of their stream was full.
    full_queues as c"emu_full_queues" () -> u64;
    /// Writes the handle of bytes of device memory that another process has.
    ipc as c"emu_ipc" (handle: *mut c_void, bytes: u64) -> i32;
    read_kernels as c"emu_kernels" (kernels: *mut KernelCounts, room: u64) -> u64;
    /// Sets the bytes per second of virtual time of each direction; a reset keeps them.
    bandwidth as c"emu_bandwidth" (h2d: f64, d2h: f64, d2d: f64) -> i32;
    /// Returns the host's virtual time in seconds.
    host_clock as c"emu_host_clock" () -> f64;
}

/// Returns the counters since the last reset.
pub fn counters() -> Totals {
    let mut counters = Totals::default();
    assert_eq!(read_counters(&mut counters), 0);
    counters
}

/// Returns the driver calls since `start_history`.
pub fn history() -> Vec<Entry> {
    let mut entries = vec![Entry::default(); read_history(std::ptr::null_mut(), 0) as usize];
    read_history(entries.as_mut_ptr(), entries.len() as u64);
    entries
}

/// Returns what the launches of each interpreted kernel have done since `count_kernels`.
pub fn kernels() -> Vec<KernelCounts> {
    let room = read_kernels(std::ptr::null_mut(), 0) as usize;
    let mut all = Vec::with_capacity(room);
    let count = read_kernels(all.as_mut_ptr(), room as u64) as usize;
    assert!(count <= room);
    // SAFETY: the driver has written `count` entries, for which there was room.
    unsafe { all.set_len(count) };
    all
}

/// Makes the k-th call of `name` from now fail with `code`, for k < 0 every call from the |k|-th
/// on, for k = 0 none. The name `*` is any call, `exec` the execution of a copy.
pub fn fail(name: &str, k: i64, code: i32) {
    let name = CString::new(name).unwrap();
    assert_eq!(fail_raw(name.as_ptr(), k, code), 0);
}

/// Returns the function whose call was made to fail last, if any has since the last reset.
pub fn struck() -> Option<&'static str> {
    let name = struck_raw();
    // SAFETY: NULL, or a constant of the library.
    (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_str().unwrap())
}

/// Loses the k-th wait, record, sync or wait for a value from now; 0 loses none.
pub fn lose(kind: &str, k: u64) {
    let kind = CString::new(kind).unwrap();
    assert_eq!(drop_raw(kind.as_ptr(), k), 0);
}

/// Returns the number of calls of a driver function since the last reset.
pub fn calls(name: &str) -> u64 {
    let name = CString::new(name).unwrap();
    calls_raw(name.as_ptr())
}
