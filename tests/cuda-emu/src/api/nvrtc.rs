//! The entry points of `libnvrtc`, which do not use the driver's state.

use super::{Handle, Out};
use crate::nvidia;
use crate::nvrtc::{architectures, Program, Target, MINOR};
use crate::settings::Kernels;
use crate::table::Table;
use std::ffi::{c_char, CStr};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

type Result<T = ()> = std::result::Result<T, i32>;

const INVALID_INPUT: i32 = 3;
const INVALID_PROGRAM: i32 = 4;
const INVALID_OPTION: i32 = 5;
const COMPILATION: i32 = 6;

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
    // SAFETY: the caller promises a C string; `text` is not null here.
    Ok(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// # Safety
/// `texts` must be null or point to `count` pointers for [`owned`].
unsafe fn owned_array(count: i32, texts: *const *const c_char) -> Result<Vec<String>> {
    let count = usize::try_from(count).map_err(|_| INVALID_INPUT)?;
    if count > 0 && texts.is_null() {
        return Err(INVALID_INPUT);
    }
    // SAFETY: the caller promises `count` pointers, each null or to a C string.
    (0..count).map(|k| unsafe { owned(texts.add(k).read()) }).collect()
}

/// # Safety
/// `out` must be null or have room for the text and its NUL.
unsafe fn copy_text(text: &str, out: *mut c_char) -> Result {
    if out.is_null() {
        return Err(INVALID_INPUT);
    }
    // SAFETY: the caller promises room for the text and its NUL; `out` is not null here.
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
            /// The pointers must be null or valid as NVRTC's documentation requires.
            #[no_mangle]
            #[allow(non_snake_case, reason = "the name is NVRTC's")]
            pub unsafe extern "C" fn $name($($arg: $type),*) -> i32 {
                $body
            }
        )*
    };
}

nvrtc! {
    /// Gives version 12.x, where x changes with the headers that are compiled with every kernel, so
    /// that images made with other headers belong to another version.
    /// NVIDIA's compiler has versions of its own here, apart from those of machine code.
    fn nvrtcVersion(major: Out<i32>, minor: Out<i32>) {
        let version = match Kernels::from_env() {
            Kernels::Host => (12, MINOR),
            Kernels::Ptx => (12, 1_000_000 + nvidia::version().1),
        };
        put(&major, version.0).and_then(|()| put(&minor, version.1)).err().unwrap_or(0)
    };
    /// Makes a program with a copy of a source and of its headers.
    fn nvrtcCreateProgram(
        program: Out<Handle>, source: *const c_char, name: *const c_char, count: i32, headers: *const *const c_char, names: *const *const c_char
    ) {
        let create = || {
            // SAFETY: the caller promises that both pointers are null or C strings.
            let (source, name) = unsafe { (owned(source)?, owned(name).unwrap_or_else(|_| "default_program".into())) };
            // SAFETY: the caller promises `count` C strings in each array.
            let (texts, names) = unsafe { (owned_array(count, headers)?, owned_array(count, names)?) };
            let headers = names.into_iter().zip(texts).collect();
            let mut programs = programs();
            let index = programs.insert(Program { source, name, headers, ..Program::default() });
            put(&program, programs.handle(index))
        };
        create().err().unwrap_or(0)
    };
    /// Destroys a program; modules loaded from its image stay.
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
    /// Compiles the program with the C++ compiler, or with NVIDIA's to PTX.
    fn nvrtcCompileProgram(program: Handle, count: i32, options: *const *const c_char) with(program, |program| {
        // SAFETY: the caller promises `count` C strings in `options`.
        let options = unsafe { owned_array(count, options) }?;
        let target = Target::of(&options);
        if target.is_some_and(|target| !architectures().contains(&target.architecture)) {
            program.log = "nvrtc: error: invalid value for --gpu-architecture (-arch)\n".into();
            return Err(INVALID_OPTION);
        }
        let done = match Kernels::from_env() {
            Kernels::Host => program.compile(&options),
            Kernels::Ptx => nvidia::compile(program, &options),
        };
        done.then_some(()).ok_or(COMPILATION)
    });
    /// Gives the number of architectures that the compiler knows.
    fn nvrtcGetNumSupportedArchs(count: Out<i32>) {
        put(&count, architectures().len() as i32).err().unwrap_or(0)
    };
    /// Writes the architectures that the compiler knows.
    fn nvrtcGetSupportedArchs(list: *mut i32) {
        if list.is_null() {
            return INVALID_INPUT;
        }
        let all = architectures();
        // SAFETY: the caller promises room for the number that nvrtcGetNumSupportedArchs gives.
        unsafe { std::ptr::copy_nonoverlapping(all.as_ptr(), list, all.len()) };
        0
    };
    /// Gives the bytes of the PTX with its NUL.
    fn nvrtcGetPTXSize(program: Handle, size: Out<usize>) with(program, |program| put(&size, program.image_as(false).len() + 1));
    /// Writes the PTX: an image that the driver loads.
    fn nvrtcGetPTX(program: Handle, text: *mut c_char) with(program, |program| {
        // SAFETY: the caller promises room for the size that nvrtcGetPTXSize gives.
        unsafe { copy_text(&program.image_as(false), text) }
    });
    /// Gives the bytes of the CUBIN.
    fn nvrtcGetCUBINSize(program: Handle, size: Out<usize>) with(program, |program| put(&size, program.image_as(true).len() + 1));
    /// Writes the CUBIN: an image that the driver loads.
    fn nvrtcGetCUBIN(program: Handle, text: *mut c_char) with(program, |program| {
        // SAFETY: the caller promises room for the size that nvrtcGetCUBINSize gives.
        unsafe { copy_text(&program.image_as(true), text) }
    });
    /// Gives the bytes of the log with its NUL.
    fn nvrtcGetProgramLogSize(program: Handle, size: Out<usize>) with(program, |program| put(&size, program.log.len() + 1));
    /// Writes the log: the messages of the compiler.
    fn nvrtcGetProgramLog(program: Handle, text: *mut c_char) with(program, |program| {
        // SAFETY: the caller promises room for the size that nvrtcGetProgramLogSize gives.
        unsafe { copy_text(&program.log, text) }
    });
}

/// Returns the name of an error code.
#[no_mangle]
#[allow(non_snake_case, reason = "the name is NVRTC's")]
pub extern "C" fn nvrtcGetErrorString(code: i32) -> *const c_char {
    let text = match code {
        0 => c"NVRTC_SUCCESS",
        INVALID_INPUT => c"NVRTC_ERROR_INVALID_INPUT",
        INVALID_PROGRAM => c"NVRTC_ERROR_INVALID_PROGRAM",
        INVALID_OPTION => c"NVRTC_ERROR_INVALID_OPTION",
        COMPILATION => c"NVRTC_ERROR_COMPILATION",
        _ => c"NVRTC_ERROR unknown",
    };
    text.as_ptr()
}
