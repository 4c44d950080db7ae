//! Target for whole sessions: the driver of all combinations (`tests/c/everything*.c`), whose choices
//! are the bytes of the input. It compares every restored state with its own copy.

use crate::abi::{c_path, folder};
use std::ffi::c_char;

extern "C-unwind" {
    fn everything_of_bytes(place: *const c_char, bytes: *const u8, n: usize);
}

/// Called by the driver after a failed check, which it has printed.
#[no_mangle]
extern "C-unwind" fn stress_failed() {
    panic!("a check of the driver failed");
}

/// Runs the target. Two bytes are one choice; behind the end of the input the driver draws on.
pub fn run(data: &[u8]) {
    let place = c_path(folder());
    // SAFETY: the path and the bytes live during the call.
    unsafe { everything_of_bytes(place.as_ptr(), data.as_ptr(), data.len()) };
}
