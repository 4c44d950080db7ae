//! The C ABI as the targets call it: every status is checked, and only panics are printed to stderr
//! from the library's log.

use gpuzip::capi::*;
use std::ffi::{c_char, c_void, CStr, CString};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Returns an error status as `Err`. Panics if gpuzip caught a panic, or if there is no error text.
pub fn checked(status: i32) -> Result<(), i32> {
    assert!(
        !matches!(status, GPUZIP_ERR_PANIC | GPUZIP_ERR_POISONED),
        "status {status}: {}",
        last_error()
    );
    if status == GPUZIP_OK {
        return Ok(());
    }
    // SAFETY: names of statuses are static strings.
    let name = unsafe { CStr::from_ptr(gpuzip_status_string(status)) };
    assert!(status < 0 && name != c"unknown status", "status {status}");
    assert!(!last_error().is_empty(), "status {status} without a text");
    Err(status)
}

/// Returns the text of this thread's last error.
pub fn last_error() -> String {
    // SAFETY: the text belongs to this thread and ends with a NUL.
    unsafe { CStr::from_ptr(gpuzip_last_error()) }
        .to_str()
        .expect("error texts are UTF-8")
        .to_owned()
}

/// Receives log lines, which must be UTF-8. Prints only panics; the library logs every panic of
/// this process, the targets' panics included.
unsafe extern "C" fn filter(level: i32, message: *const c_char, _: *mut c_void) {
    assert!((0..=3).contains(&level));
    // SAFETY: the message is valid during the call.
    let message = unsafe { CStr::from_ptr(message) }.to_str().expect("log lines are UTF-8");
    if message.starts_with("internal error") {
        eprintln!("{message}");
    }
}

/// Returns the folder of this process for files that inputs are written to. From the first call on,
/// the library logs to `filter`.
pub fn folder() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        assert_eq!(gpuzip_set_log_callback(Some(filter), std::ptr::null_mut()), GPUZIP_OK);
        assert_eq!(gpuzip_set_log_level(3), GPUZIP_OK);
        tempfile::Builder::new().prefix("gpuzip-fuzz-").tempdir().expect("a temporary folder")
    });
    folder.path()
}

/// Writes an input to this thread's file for the target `name` and returns the path.
pub fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let thread = format!("{:?}", std::thread::current().id());
    let path = folder().join(name.to_owned() + &thread.replace(|c: char| !c.is_ascii_digit(), ""));
    std::fs::write(&path, bytes).expect("the temporary folder can be written");
    path
}

/// Returns the path as a C string.
pub fn c_path(path: &Path) -> CString {
    CString::new(path.to_str().expect("temporary folders have UTF-8 names"))
        .expect("no NUL in a path")
}

/// Returns gpuzip's default configuration.
pub fn config() -> gpuzip_config_t {
    let mut config = std::mem::MaybeUninit::uninit();
    // SAFETY: gpuzip_config_init fills the whole struct.
    unsafe {
        assert_eq!(gpuzip_config_init(config.as_mut_ptr()), GPUZIP_OK);
        config.assume_init()
    }
}

/// Returns a field without memory.
pub fn field(n: [u64; 3], scalar: i32, role: i32) -> gpuzip_field_t {
    // SAFETY: all zero is a valid value of every member.
    let zero: gpuzip_field_t = unsafe { std::mem::zeroed() };
    gpuzip_field_t { n1: n[0], n2: n[1], n3: n[2], r#type: scalar, role, ..zero }
}

/// Calls `gpuzip_memory_required` for fields without memory.
pub fn memory_required(
    config: &gpuzip_config_t,
    steps: i32,
    fields: &[gpuzip_field_t],
) -> Result<gpuzip_summary_t, i32> {
    let mut summary = gpuzip_summary_t {
        struct_size: size_of::<gpuzip_summary_t>() as u64,
        ..Default::default()
    };
    // SAFETY: the pointers are to live values; the configuration's strings are NULL or live.
    checked(unsafe {
        gpuzip_memory_required(config, steps, fields.as_ptr(), fields.len() as u32, &mut summary)
    })?;
    Ok(summary)
}
