//! NVTX ranges, for Nsight Systems and similar tools. If `GPUZIP_NVTX=1` asks for them and an NVTX
//! library is installed, actions are ranges of the process, and calls of the library are ranges of
//! the calling thread. Otherwise nothing is loaded and nothing happens.

use crate::environment;
use crate::shared_library::{self, functions};
use once_cell::race::OnceBox;
use std::ffi::{c_char, c_int, c_void, CStr, CString};

/// Libraries that contain the functions below: from CUDA before version 13, and from NVTX itself.
const LIBRARIES: [&CStr; 3] =
    [c"libnvToolsExt.so.1", c"libnvtx3interop.so.1", c"libnvtx3interop.so"];

functions! {
    /// The functions of NVTX that gpuzip calls.
    Library:
    push = c"nvtxRangePushA": fn(*const c_char) -> c_int;
    pop = c"nvtxRangePop": fn() -> c_int;
    start = c"nvtxRangeStartA": fn(*const c_char) -> u64;
    end = c"nvtxRangeEnd": fn(u64) -> ();
}

/// Returns the library, which is looked for only once: every action asks for it, and ranges that
/// begin in the middle of a run are of no use.
fn library() -> Option<&'static Library> {
    static LIBRARY: OnceBox<Option<Library>> = OnceBox::new();
    LIBRARY
        .get_or_init(|| Box::new(environment::is_on("GPUZIP_NVTX").then(find).flatten()))
        .as_ref()
}

/// Returns whether ranges are asked for and an NVTX library was found.
pub fn is_on() -> bool {
    library().is_some()
}

fn find() -> Option<Library> {
    let found = LIBRARIES.into_iter().find_map(|name| shared_library::open(name).ok());
    let found = found.and_then(|library| Library::of(library).ok());
    if found.is_none() {
        log::warn!("GPUZIP_NVTX = 1: neither libnvToolsExt.so.1 nor libnvtx3interop.so is on this machine's library path: no NVTX ranges");
    }
    found
}

/// A range of the calling thread; it ends when it is dropped in this thread.
pub struct Range(&'static Library);

/// Begins a range of this thread for a call of the library, if ranges are on.
pub fn range(call: &str) -> Option<Range> {
    let library = library()?;
    let name = CString::new(format!("gpuzip {call}")).ok()?;
    // SAFETY: a function of NVTX, and a string that ends with NUL.
    unsafe { (library.push)(name.as_ptr()) };
    Some(Range(library))
}

impl Drop for Range {
    fn drop(&mut self) {
        // SAFETY: a function of NVTX; this thread has begun a range.
        unsafe { (self.0.pop)() };
    }
}

/// A range of the process; it ends when it is dropped in any thread.
pub struct Action(&'static Library, u64);

/// Begins a range of the process for an action that leads to the state `ts`, if ranges are on.
pub fn action(action: &str, ts: u32) -> Option<Action> {
    let library = library()?;
    let name = CString::new(format!("{action} {ts}")).ok()?;
    // SAFETY: a function of NVTX, and a string that ends with NUL.
    Some(Action(library, unsafe { (library.start)(name.as_ptr()) }))
}

impl Drop for Action {
    fn drop(&mut self) {
        // SAFETY: a function of NVTX, and the number of a range that NVTX has returned.
        unsafe { (self.0.end)(self.1) };
    }
}
