//! NVRTC, the library that compiles kernels: only the first compilation opens it.

use crate::environment;
use crate::error::{fail, Code, Error, Result};
use crate::fallible_vec;
use crate::shared_library::{self, functions};
use once_cell::race::OnceBox;
use std::ffi::{c_char, c_void, CStr, CString, OsString};
use std::os::unix::ffi::OsStrExt;

type Program = *mut c_void;
/// The result of an NVRTC function: a number, for the reason of [`super::driver::Status`].
type Status = i32;

functions! {
    /// The functions of NVRTC.
    Nvrtc:
    version = c"nvrtcVersion": fn(*mut i32, *mut i32) -> Status;
    create = c"nvrtcCreateProgram": fn(*mut Program, *const c_char, *const c_char, i32, *const *const c_char, *const *const c_char) -> Status;
    compile = c"nvrtcCompileProgram": fn(Program, i32, *const *const c_char) -> Status;
    cubin_size = c"nvrtcGetCUBINSize": fn(Program, *mut usize) -> Status;
    cubin = c"nvrtcGetCUBIN": fn(Program, *mut c_char) -> Status;
    ptx_size = c"nvrtcGetPTXSize": fn(Program, *mut usize) -> Status;
    ptx = c"nvrtcGetPTX": fn(Program, *mut c_char) -> Status;
    architecture_count = c"nvrtcGetNumSupportedArchs": fn(*mut i32) -> Status;
    architectures = c"nvrtcGetSupportedArchs": fn(*mut i32) -> Status;
    log_size = c"nvrtcGetProgramLogSize": fn(Program, *mut usize) -> Status;
    log = c"nvrtcGetProgramLog": fn(Program, *mut c_char) -> Status;
    destroy = c"nvrtcDestroyProgram": fn(*mut Program) -> Status;
    error = c"nvrtcGetErrorString": fn(Status) -> *const c_char;
}

/// NVRTC's functions. As long as the library is missing, every call looks for it again.
fn nvrtc() -> Result<&'static Nvrtc> {
    static FOUND: OnceBox<Nvrtc> = OnceBox::new();
    match FOUND.get_or_try_init(|| find().map(Box::new).ok_or(())) {
        Ok(nvrtc) => Ok(nvrtc),
        Err(()) => fail!(
            Device,
            "no NVRTC (libnvrtc.so.12 or newer) to compile kernels with, on this machine's library path or in lib64 of the CUDA toolkit that \
             CUDA_HOME names: install it, or run `gpuzip kernels --prebuild` where it is and let GPUZIP_CACHE_DIR name the folder"
        ),
    }
}

/// Names of NVRTC's library: the name for linking, then the names in CUDA 13, 12, and 11.2 to 11.8.
const NAMES: [&CStr; 4] =
    [c"libnvrtc.so", c"libnvrtc.so.13", c"libnvrtc.so.12", c"libnvrtc.so.11.2"];

/// Finds NVRTC where the loader looks for libraries, or in a CUDA toolkit that the loader does not
/// know. Programs with the rights of another user than their caller read no variable, as the loader
/// then ignores LD_LIBRARY_PATH.
fn find() -> Option<Nvrtc> {
    // SAFETY: the call reads a number that the kernel gave the process.
    let is_trusted = unsafe { libc::getauxval(libc::AT_SECURE) } == 0;
    let toolkits =
        ["CUDA_HOME", "CUDA_PATH"].map(|name| environment::value(name).filter(|_| is_trusted));
    let in_toolkit = |folder: OsString| {
        NAMES.into_iter().find_map(|name| {
            let path = [folder.as_bytes(), b"/lib64/", name.to_bytes()].concat();
            open(&CString::new(path).ok()?)
        })
    };
    NAMES.into_iter().find_map(open).or_else(|| toolkits.into_iter().flatten().find_map(in_toolkit))
}

/// The functions of the library `name`; `None` if the library is missing or lacks a function.
fn open(name: &CStr) -> Option<Nvrtc> {
    Nvrtc::of(shared_library::open(name).ok()?).ok()
}

impl Nvrtc {
    fn check(&self, status: Status, call: &str) -> Result<()> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: the text is NULL or a string that is never freed.
        let name = unsafe {
            let text = (self.error)(status);
            if text.is_null() {
                "an error".into()
            } else {
                CStr::from_ptr(text).to_string_lossy()
            }
        };
        Err(Error::new(Code::Device, format!("{call}: {name}")))
    }
}

/// NVRTC's version, major and minor.
pub fn version() -> Result<(i32, i32)> {
    let nvrtc = nvrtc()?;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: both results are written to variables of this function.
    nvrtc.check(unsafe { (nvrtc.version)(&mut major, &mut minor) }, "nvrtcVersion")?;
    Ok((major, minor))
}

/// The architectures for which this NVRTC compiles: 90 for sm_90.
pub fn architectures() -> Result<Vec<u32>> {
    let nvrtc = nvrtc()?;
    let mut count = 0;
    // SAFETY: the count is written to a variable of this function.
    nvrtc.check(unsafe { (nvrtc.architecture_count)(&mut count) }, "nvrtcGetNumSupportedArchs")?;
    let mut all = fallible_vec::filled(0i32, count.max(0) as usize)?;
    // SAFETY: `all` has room for as many numbers as NVRTC counts.
    nvrtc.check(unsafe { (nvrtc.architectures)(all.as_mut_ptr()) }, "nvrtcGetSupportedArchs")?;
    Ok(all.into_iter().map(|architecture| architecture as u32).collect())
}

/// What NVRTC makes of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Machine code of one architecture.
    Cubin,
    /// Text that the driver compiles for its device.
    Ptx,
}

/// Compiles a source. `name` is the source's name in messages.
pub fn compile(source: &str, name: &str, options: &[String], form: Form) -> Result<Vec<u8>> {
    let nvrtc = nvrtc()?;
    let text = |text: &str| {
        let bytes = fallible_vec::copied(text.as_bytes())
            .and_then(|mut bytes| fallible_vec::push(&mut bytes, 0).map(|()| bytes))?;
        CString::from_vec_with_nul(bytes)
            .map_err(|e| Error::new(Code::Argument, format!("{name}: {e}")))
    };
    let (source, file) = (text(source)?, text(name)?);
    let options = options.iter().map(|option| text(option)).collect::<Result<Vec<_>>>()?;
    let options: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
    let (mut program, none) = (std::ptr::null_mut(), std::ptr::null());
    // SAFETY: the strings outlive the program, and there are no headers.
    let created =
        unsafe { (nvrtc.create)(&mut program, source.as_ptr(), file.as_ptr(), 0, none, none) };
    nvrtc.check(created, "nvrtcCreateProgram")?;
    // SAFETY: the program exists, and there are `options.len()` options.
    let compiled = unsafe { (nvrtc.compile)(program, options.len() as i32, options.as_ptr()) };
    let image = match nvrtc.check(compiled, "nvrtcCompileProgram") {
        Ok(()) if form == Form::Ptx => read(nvrtc, program, nvrtc.ptx_size, nvrtc.ptx),
        Ok(()) => read(nvrtc, program, nvrtc.cubin_size, nvrtc.cubin),
        Err(error) => {
            let log = read(nvrtc, program, nvrtc.log_size, nvrtc.log).unwrap_or_default();
            let log = String::from_utf8_lossy(&log);
            Err(error.within(format_args!("{name}: {}", log.trim_end_matches(['\0', '\n']))))
        }
    };
    // SAFETY: the program exists until this call.
    unsafe { (nvrtc.destroy)(&mut program) };
    image
}

type Size = unsafe extern "C" fn(Program, *mut usize) -> Status;
type Get = unsafe extern "C" fn(Program, *mut c_char) -> Status;

fn read(nvrtc: &Nvrtc, program: Program, size: Size, get: Get) -> Result<Vec<u8>> {
    let mut bytes = 0;
    // SAFETY: the program exists, and the size is written to a variable of this function.
    nvrtc.check(unsafe { size(program, &mut bytes) }, "NVRTC's size of a result")?;
    let mut result = fallible_vec::filled(0u8, bytes)?;
    // SAFETY: `result` has as many bytes as NVRTC asks for.
    nvrtc.check(unsafe { get(program, result.as_mut_ptr().cast()) }, "a result of NVRTC")?;
    Ok(result)
}
