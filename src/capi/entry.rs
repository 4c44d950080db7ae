//! What every function of the C ABI shares: panics become statuses, each thread keeps the text of
//! its last error, and pointers are checked.

use super::float;
use super::types::*;
use crate::error::{self, fail, Code, Result};
use crate::reserve;
use crate::schedule::Algorithm;
use std::cell::Cell;
use std::ffi::{c_char, CStr};
use std::panic::{catch_unwind, AssertUnwindSafe};

/// Bytes of the longest error text that is kept, its NUL included.
const LAST_ERROR_BYTES: usize = 2048;

thread_local! {
    /// The thread's error text. The buffer never moves, so a pointer to it stays valid after later
    /// errors.
    static LAST_ERROR: [Cell<u8>; LAST_ERROR_BYTES] = const { [const { Cell::new(0) }; LAST_ERROR_BYTES] };
}

/// The part of the thread's error buffer that is not written yet. Text is dropped that leaves no byte
/// for the NUL.
struct LastError<'a>(&'a [Cell<u8>]);

impl std::fmt::Write for LastError<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let room = text.len().min(self.0.len() - 1);
        let end = (0..=room).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
        let (to, rest) = self.0.split_at(end);
        for (to, byte) in to.iter().zip(text.bytes()) {
            to.set(if byte == 0 { b'?' } else { byte });
        }
        self.0 = rest;
        if end < text.len() {
            return Err(std::fmt::Error);
        }
        Ok(())
    }
}

/// Keeps the text of an error, without allocating memory.
fn set_last_error(text: std::fmt::Arguments) {
    let keep = |buffer: &[Cell<u8>; LAST_ERROR_BYTES]| {
        let mut last = LastError(buffer);
        // A formatting error only cuts the text short.
        let _ = std::fmt::Write::write_fmt(&mut last, text);
        last.0[0].set(0);
    };
    // A thread that is ending has lost its buffer; the text is then dropped.
    let _ = LAST_ERROR.try_with(keep);
}

/// Runs `body` and then gives the thread's last error the text that it had before, if it had one.
pub(super) fn keeping_last_error<R>(body: impl FnOnce() -> R) -> R {
    let before = LAST_ERROR.try_with(Clone::clone);
    let result = body();
    if let Some(before) = before.ok().filter(|text| text[0].get() != 0) {
        let _ =
            LAST_ERROR.try_with(|now| now.iter().zip(&before).for_each(|(to, from)| to.swap(from)));
    }
    result
}

/// Shows "rank k: " before the text of an error where a launcher has started several ranks.
struct Rank(Option<u32>);

impl std::fmt::Display for Rank {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.map_or(Ok(()), |rank| write!(f, "rank {rank}: "))
    }
}

/// Runs the body of a call in the library's floating-point environment. A panic does not leave the
/// call, and the error of the call becomes the thread's last error. If the reserve of memory that
/// every call may need is used up, the call is refused.
pub(super) fn entry(name: &str, body: impl FnOnce() -> Result<()>) -> gpuzip_status_t {
    admitted(name, reserve::lease(false), body)
}

/// Runs a call that gives memory back, or that other ranks wait for, and is therefore never
/// refused. The part of the reserve that this call may need, for instance to write the end of a
/// timeline, is withheld from calls on other threads.
pub(super) fn entry_that_frees(name: &str, body: impl FnOnce() -> Result<()>) -> gpuzip_status_t {
    admitted(name, reserve::lease(true), body)
}

fn admitted(
    name: &str,
    lease: Option<reserve::Lease>,
    body: impl FnOnce() -> Result<()>,
) -> gpuzip_status_t {
    let Some(_lease) = lease else {
        set_last_error(format_args!(
            "{name}: the system has no memory left, and the library's own reserve is in use: finalize sessions, release schedules or free \
             memory of the application's, then call again"
        ));
        return GPUZIP_ERR_MEMORY;
    };
    crate::process::watch();
    float::in_library(|| status_of(name, body))
}

fn status_of(name: &str, body: impl FnOnce() -> Result<()>) -> gpuzip_status_t {
    let result = catch_unwind(AssertUnwindSafe(|| {
        #[cfg(test)]
        super::tests::panic_if_armed(name);
        body()
    }));
    let result = result.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("unknown");
        fail!(Panic, "internal error, please report it: {text}")
    });
    let Err(error) = result else { return GPUZIP_OK };
    let rank = Rank(crate::timeline::rank());
    log::debug!("{rank}{name}: {error}");
    set_last_error(format_args!("{rank}{name}: {error}"));
    error.code as gpuzip_status_t
}

/// Returns the text of this thread's last error: which call failed, which value was wrong and what
/// to do. Where an MPI launcher has started several ranks, the text begins with the rank: "rank 3:
/// ". The text is empty before the thread's first error; a successful call does not clear it. The
/// pointer stays valid while the thread lives; the thread's next error overwrites the text.
#[no_mangle]
pub extern "C" fn gpuzip_last_error() -> *const c_char {
    LAST_ERROR.try_with(|last| last.as_ptr().cast::<c_char>()).unwrap_or(c"".as_ptr())
}

/// Returns the short name of a status. Never NULL; the string stays valid until the process ends.
#[no_mangle]
pub extern "C" fn gpuzip_status_string(status: gpuzip_status_t) -> *const c_char {
    let code = Code::ALL.into_iter().find(|code| *code as gpuzip_status_t == status);
    let text = match code {
        Some(code) => code.c_name(),
        None if status == GPUZIP_OK => c"success",
        None if status > 0 => c"success with a warning",
        None => c"unknown status",
    };
    text.as_ptr()
}

/// Returns the version of the library, "major.minor.patch". The string stays valid until the
/// process ends.
#[no_mangle]
pub extern "C" fn gpuzip_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Returns the version of the ABI: a program runs with every library that returns the number that
/// the program was compiled with.
#[no_mangle]
pub extern "C" fn gpuzip_abi_version() -> u32 {
    crate::ABI_VERSION
}

/// Returns the name of an algorithm GPUZIP_ALGORITHM_*, as configurations spell it; "unknown" for
/// other numbers. The string stays valid until the process ends.
#[no_mangle]
pub extern "C" fn gpuzip_algorithm_name(algorithm: i32) -> *const c_char {
    let name = match Algorithm::ALL.into_iter().find(|known| *known as i32 == algorithm) {
        Some(known) => known.c_name(),
        None if algorithm == GPUZIP_ALGORITHM_AUTO => c"auto",
        None => c"unknown",
    };
    name.as_ptr()
}

/// An output of a call: where the caller wants the value, and the name of that parameter.
pub(super) struct Out<T> {
    to: *mut T,
    name: &'static str,
}

impl<T> Out<T> {
    /// The output `to`, which the header calls `name`.
    ///
    /// # Safety
    /// `to` is NULL or points to memory for a `T`, as long as this output is used. For
    /// [`Out::fill_sized`], it is NULL or points to a struct that begins with its size in bytes, as
    /// `T` does.
    pub unsafe fn new(to: *mut T, name: &'static str) -> Self {
        Out { to, name }
    }

    /// Runs the body of the call `call`, as [`entry`] does, and writes the value that it returns. If
    /// the pointer is NULL, the call fails before the body runs.
    pub fn fill(self, call: &str, body: impl FnOnce() -> Result<T>) -> gpuzip_status_t {
        entry(call, || {
            not_null(self.to, self.name)?;
            let value = body()?;
            // SAFETY: the pointer is not NULL, so by the contract of `new` it points to a `T`.
            unsafe { self.to.write_unaligned(value) };
            Ok(())
        })
    }

    /// As `fill`, but writes only as many bytes of the struct as the caller's header knows. Bytes of
    /// the caller's struct beyond the library's struct become zero.
    pub fn fill_sized(self, call: &str, body: impl FnOnce() -> Result<T>) -> gpuzip_status_t {
        entry(call, || {
            not_null(self.to, self.name)?;
            let mut value = body()?;
            // SAFETY: the pointer is not NULL, and its struct begins with its size by the contract of
            // `new`.
            let theirs = unsafe { self.to.cast::<u64>().read_unaligned() };
            if !(8..=1 << 16).contains(&theirs) {
                return fail!(
                    Argument,
                    "{}->struct_size = {theirs}: set it to the sizeof of the struct before the call",
                    self.name
                );
            }
            let (bytes, ours) = (theirs as usize, std::mem::size_of::<T>());
            let to = self.to.cast::<u8>();
            // SAFETY: both structs begin with their size; the caller's struct has `bytes` bytes,
            // `value` has `ours` bytes.
            unsafe {
                (&raw mut value).cast::<u64>().write_unaligned(theirs);
                to.write_bytes(0, bytes);
                to.copy_from_nonoverlapping((&raw const value).cast(), bytes.min(ours));
            }
            Ok(())
        })
    }
}

#[inline]
pub(super) fn not_null<T>(pointer: *const T, name: &str) -> Result<()> {
    if pointer.is_null() {
        return fail!(Argument, "{name} is NULL");
    }
    Ok(())
}

/// Largest `struct_size` in bytes that is believed; a larger one comes from uninitialised memory.
const LARGEST_INPUT: u64 = 4096;

/// Copies an input struct whose header may be newer than this library. Bytes beyond `T` must be
/// zero: a newer member that is zero asks for nothing. `size` is the `struct_size` of the caller's
/// struct; `remedy` is what the error text advises for a size that no version has.
///
/// # Safety
/// `input` points to `size` bytes, if `size` is at least the size of `T` and at most
/// `LARGEST_INPUT`.
pub(super) unsafe fn read_sized<T: Copy>(
    input: *const T,
    name: &str,
    size: u64,
    remedy: &str,
    wrong: Code,
) -> Result<T> {
    let ours = std::mem::size_of::<T>();
    if !(ours as u64..=LARGEST_INPUT).contains(&size) || !size.is_multiple_of(8) {
        let text = format_args!("{name}->struct_size = {size}: this library has {ours}; {remedy}");
        return Err(error::of(wrong, text));
    }
    // SAFETY: `input` points to `size` bytes by this function's contract, at least the size of `T`.
    let (beyond, copy) = unsafe {
        (
            std::slice::from_raw_parts(input.cast::<u8>().add(ours), size as usize - ours),
            input.read_unaligned(),
        )
    };
    match beyond.iter().position(|&byte| byte != 0) {
        None => Ok(copy),
        Some(at) => fail!(
            Unsupported,
            "{name}->struct_size = {size}, of a newer header: this library (version {}) has {ours}, and byte {} is not zero; set the newer \
             fields to 0, or run with the newer library",
            env!("CARGO_PKG_VERSION"),
            ours + at
        ),
    }
}

/// Copies an input struct that begins with its size, as `read_sized` does.
///
/// # Safety
/// `input` is NULL or points to a `T` that begins with its size in bytes.
pub(super) unsafe fn read_options<T: Copy>(input: *const T, name: &str) -> Result<T> {
    not_null(input, name)?;
    let of = std::any::type_name::<T>().rsplit("::").next().unwrap_or_default();
    let remedy = format!("set it to sizeof({of})");
    // SAFETY: `input` is not NULL, so by this function's contract it begins with its size.
    unsafe {
        let size = input.cast::<u64>().read_unaligned();
        read_sized(input, name, size, &remedy, Code::Argument)
    }
}

/// Refuses reserved words that are not zero: a newer header may have members there.
#[inline]
pub(super) fn zero_words(name: &str, words: &[u64], wrong: Code) -> Result<()> {
    let Some(i) = words.iter().position(|word| *word != 0) else { return Ok(()) };
    let word = words[i];
    let place = if words.len() > 1 { format!("[{i}]") } else { String::new() };
    let version = env!("CARGO_PKG_VERSION");
    let remedy = "set the struct to zero before its members, or run with the newer library whose header it was compiled with";
    let text = format_args!(
        "{name}{place} = {word}: it must be 0 in this library (version {version}); {remedy}"
    );
    Err(error::of(wrong, text))
}

/// Returns what the number `value` stands for, one of `choices` counted from 0; `text` lists them.
pub(super) fn choice<T: Copy>(name: &str, value: i32, choices: &[T], text: &str) -> Result<T> {
    match usize::try_from(value).ok().and_then(|value| choices.get(value)) {
        Some(choice) => Ok(*choice),
        None => fail!(Config, "{name} = {value}: use {text}"),
    }
}

/// Returns a C string, or fails if it is NULL.
///
/// # Safety
/// `text` is NULL or a NUL-terminated string that outlives the result.
pub(super) unsafe fn text<'a>(text: *const c_char, name: &str) -> Result<&'a CStr> {
    not_null(text, name)?;
    // SAFETY: `text` is not NULL, so by this function's contract it is a string.
    Ok(unsafe { CStr::from_ptr(text) })
}

/// Returns a configuration's string, or `None` for NULL.
///
/// # Safety
/// `pointer` is NULL or a string that outlives the result.
pub(super) unsafe fn text_of<'a>(pointer: *const c_char) -> Option<&'a CStr> {
    // SAFETY: by this function's contract.
    (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) })
}
