//! The entry points of `libnvrtc`. They touch nothing of the driver.

use super::{Handle, Out};
use crate::nvrtc::{Program, LOWERED, MINOR};
use crate::table::Table;
use std::ffi::{c_char, CStr, CString};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

type Result<T = ()> = std::result::Result<T, i32>;

const INVALID_INPUT: i32 = 3;
const INVALID_PROGRAM: i32 = 4;
const COMPILATION: i32 = 6;
const NO_EXPRESSIONS_AFTER_COMPILATION: i32 = 8;
const NO_LOWERED_NAMES_BEFORE_COMPILATION: i32 = 9;
const EXPRESSION_NOT_VALID: i32 = 10;

fn programs() -> MutexGuard<'static, Table<Program>> {
    static PROGRAMS: LazyLock<Mutex<Table<Program>>> =
        LazyLock::new(|| Mutex::new(Table::new(0x60_0000_0000)));
    PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn with(program: Handle, body: impl FnOnce(&mut Program) -> Result) -> i32 {
    let mut programs = programs();
    let result =
        programs.find(program).ok_or(INVALID_PROGRAM).and_then(|index| body(&mut programs[index]));
    result.err().unwrap_or(0)
}

/// # Safety
/// `text` must be null or a C string.
unsafe fn owned(text: *const c_char) -> Result<String> {
    if text.is_null() {
        return Err(INVALID_INPUT);
    }
    // SAFETY: promised by the caller.
    Ok(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// # Safety
/// `texts` must be null or point to `count` pointers for [`owned`].
unsafe fn owned_array(count: i32, texts: *const *const c_char) -> Result<Vec<String>> {
    let count = usize::try_from(count).map_err(|_| INVALID_INPUT)?;
    if count > 0 && texts.is_null() {
        return Err(INVALID_INPUT);
    }
    // SAFETY: promised by the caller.
    (0..count).map(|k| unsafe { owned(texts.add(k).read()) }).collect()
}

/// # Safety
/// `out` must be null or have room for the text and its NUL.
unsafe fn copy_text(text: &str, out: *mut c_char) -> Result {
    if out.is_null() {
        return Err(INVALID_INPUT);
    }
    // SAFETY: promised by the caller.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), out.cast(), text.len());
        out.add(text.len()).write(0);
    }
    Ok(())
}

fn put<T>(out: &Out<T>, value: T) -> Result {
    out.set(value).map_err(|_| INVALID_INPUT)
}

macro_rules! nvrtc {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),*) $body:expr;)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// The pointers must be null or as NVRTC's documentation asks.
            #[no_mangle]
            #[allow(non_snake_case, reason = "the name is NVRTC's")]
            pub unsafe extern "C" fn $name($($arg: $type),*) -> i32 {
                $body
            }
        )*
    };
}

nvrtc! {
    /// 12.x: images that were compiled with other headers are another version's.
    fn nvrtcVersion(major: Out<i32>, minor: Out<i32>) put(&major, 12).and_then(|()| put(&minor, MINOR)).err().unwrap_or(0);
    /// Copies a source and its headers.
    fn nvrtcCreateProgram(
        program: Out<Handle>, source: *const c_char, name: *const c_char, count: i32, headers: *const *const c_char, names: *const *const c_char
    ) {
        let create = || {
            // SAFETY: promised by the caller.
            let (source, name) = unsafe { (owned(source)?, owned(name).unwrap_or_else(|_| "default_program".into())) };
            // SAFETY: promised by the caller.
            let (texts, names) = unsafe { (owned_array(count, headers)?, owned_array(count, names)?) };
            let headers = names.into_iter().zip(texts).collect();
            let mut programs = programs();
            let index = programs.insert(Program { source, name, headers, ..Program::default() });
            put(&program, programs.handle(index))
        };
        create().err().unwrap_or(0)
    };
    /// Forgets a program; what was loaded of it stays.
    fn nvrtcDestroyProgram(program: Out<Handle>) {
        // SAFETY: the caller gives a pointer to a handle, or null.
        let handle = unsafe { program.0.as_mut() };
        let Some(handle) = handle else { return INVALID_PROGRAM };
        let mut programs = programs();
        let Some(index) = programs.find(*handle) else { return INVALID_PROGRAM };
        programs.remove(index);
        *handle = 0;
        0
    };
    /// Runs the C++ compiler.
    fn nvrtcCompileProgram(program: Handle, count: i32, options: *const *const c_char) with(program, |program| {
        // SAFETY: promised by the caller.
        let options = unsafe { owned_array(count, options) }?;
        program.compile(&options).then_some(()).ok_or(COMPILATION)
    });
    /// With the NUL.
    fn nvrtcGetPTXSize(program: Handle, size: Out<usize>) with(program, |program| put(&size, program.image.len() + 1));
    /// What the driver loads.
    fn nvrtcGetPTX(program: Handle, text: *mut c_char) with(program, |program| {
        // SAFETY: promised by the caller.
        unsafe { copy_text(&program.image, text) }
    });
    /// The compiled image, which is the PTX as well.
    fn nvrtcGetCUBINSize(program: Handle, size: Out<usize>) with(program, |program| put(&size, program.image.len() + 1));
    /// The compiled image, which is the PTX as well.
    fn nvrtcGetCUBIN(program: Handle, text: *mut c_char) with(program, |program| {
        // SAFETY: promised by the caller.
        unsafe { copy_text(&program.image, text) }
    });
    /// With the NUL.
    fn nvrtcGetProgramLogSize(program: Handle, size: Out<usize>) with(program, |program| put(&size, program.log.len() + 1));
    /// What the compiler said.
    fn nvrtcGetProgramLog(program: Handle, text: *mut c_char) with(program, |program| {
        // SAFETY: promised by the caller.
        unsafe { copy_text(&program.log, text) }
    });
    /// Asks for an instance of a template, or a kernel in a namespace.
    fn nvrtcAddNameExpression(program: Handle, expression: *const c_char) with(program, |program| {
        if !program.image.is_empty() {
            return Err(NO_EXPRESSIONS_AFTER_COMPILATION);
        }
        // SAFETY: promised by the caller.
        let expression = unsafe { owned(expression) }?;
        let name = CString::new(format!("{LOWERED}{}", program.expressions.len())).map_err(|_| INVALID_INPUT)?;
        program.expressions.push((expression, name));
        Ok(())
    });
    /// The name of what was asked for, which lives as long as the program.
    fn nvrtcGetLoweredName(program: Handle, expression: *const c_char, name: Out<*const c_char>) with(program, |program| {
        if program.image.is_empty() {
            return Err(NO_LOWERED_NAMES_BEFORE_COMPILATION);
        }
        // SAFETY: promised by the caller.
        let expression = unsafe { owned(expression) }?;
        let known = program.expressions.iter().find(|known| known.0 == expression).ok_or(EXPRESSION_NOT_VALID)?;
        put(&name, known.1.as_ptr())
    });
}

/// The name of a code.
#[no_mangle]
#[allow(non_snake_case, reason = "the name is NVRTC's")]
pub extern "C" fn nvrtcGetErrorString(code: i32) -> *const c_char {
    let text = match code {
        0 => c"NVRTC_SUCCESS",
        INVALID_INPUT => c"NVRTC_ERROR_INVALID_INPUT",
        INVALID_PROGRAM => c"NVRTC_ERROR_INVALID_PROGRAM",
        COMPILATION => c"NVRTC_ERROR_COMPILATION",
        NO_EXPRESSIONS_AFTER_COMPILATION => c"NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION",
        NO_LOWERED_NAMES_BEFORE_COMPILATION => c"NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION",
        EXPRESSION_NOT_VALID => c"NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID",
        _ => c"NVRTC_ERROR unknown",
    };
    text.as_ptr()
}
