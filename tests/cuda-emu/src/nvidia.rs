//! NVIDIA's own NVRTC, which makes the PTX that a GPU would be given. The folder of its library is
//! in the variable `CUDA_EMU_NVRTC`.

use crate::nvrtc::Program;
use std::collections::hash_map::DefaultHasher;
use std::env::var_os;
use std::ffi::{c_char, c_void, CString};
use std::hash::{Hash, Hasher};
use std::path::PathBuf;
use std::sync::LazyLock;

type Handle = *mut c_void;
type Texts = *const *const c_char;

/// The architecture of the PTX where the program does not ask for one.
const ARCHITECTURE: &str = "--gpu-architecture=compute_80";

/// The functions of NVRTC that are used here.
struct Functions {
    version: unsafe extern "C" fn(*mut i32, *mut i32) -> i32,
    create:
        unsafe extern "C" fn(*mut Handle, *const c_char, *const c_char, i32, Texts, Texts) -> i32,
    destroy: unsafe extern "C" fn(*mut Handle) -> i32,
    compile: unsafe extern "C" fn(Handle, i32, Texts) -> i32,
    ptx_size: unsafe extern "C" fn(Handle, *mut usize) -> i32,
    ptx: unsafe extern "C" fn(Handle, *mut c_char) -> i32,
    log_size: unsafe extern "C" fn(Handle, *mut usize) -> i32,
    log: unsafe extern "C" fn(Handle, *mut c_char) -> i32,
}

static FUNCTIONS: LazyLock<Result<Functions, String>> = LazyLock::new(load);

fn load() -> Result<Functions, String> {
    let folder = var_os("CUDA_EMU_NVRTC").ok_or("CUDA_EMU_NVRTC names no folder")?;
    let file = PathBuf::from(folder).join("libnvrtc.so.12");
    let path = CString::new(file.as_os_str().as_encoded_bytes()).map_err(|e| e.to_string())?;
    // SAFETY: `path` is a C string; loading NVRTC runs its initialisers, as in every program that
    // uses it.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if library.is_null() {
        return Err(format!("{} cannot be loaded", file.display()));
    }
    macro_rules! get {
        ($name:literal) => {{
            // SAFETY: the library is open, and the name is a C string.
            let symbol = unsafe { libc::dlsym(library, $name.as_ptr()) };
            if symbol.is_null() {
                return Err(format!("{} has no {:?}", file.display(), $name));
            }
            // SAFETY: the function has this type in NVRTC's documentation.
            unsafe { std::mem::transmute_copy(&symbol) }
        }};
    }
    Ok(Functions {
        version: get!(c"nvrtcVersion"),
        create: get!(c"nvrtcCreateProgram"),
        destroy: get!(c"nvrtcDestroyProgram"),
        compile: get!(c"nvrtcCompileProgram"),
        ptx_size: get!(c"nvrtcGetPTXSize"),
        ptx: get!(c"nvrtcGetPTX"),
        log_size: get!(c"nvrtcGetProgramLogSize"),
        log: get!(c"nvrtcGetProgramLog"),
    })
}

/// Returns the version of NVRTC, major and minor; (0, 0) if it cannot be loaded.
pub fn version() -> (i32, i32) {
    let (mut major, mut minor) = (0, 0);
    if let Ok(nvrtc) = &*FUNCTIONS {
        // SAFETY: both pointers are of variables of this function.
        unsafe { (nvrtc.version)(&mut major, &mut minor) };
    }
    (major, minor)
}

/// Compiles the program to PTX with line numbers. Returns whether that worked; the log has the
/// reason if not. The PTX is kept in the folder that `CUDA_EMU_PTX_CACHE` names.
pub fn compile(program: &mut Program, options: &[String]) -> bool {
    let options = options_for_ptx(options);
    if let Some(change) = planted() {
        program.source = program.source.replace(&change.0, &change.1);
    }
    let mut hash = DefaultHasher::new();
    (&program.source, &program.headers, &options, version()).hash(&mut hash);
    let kept = var_os("CUDA_EMU_PTX_CACHE")
        .map(|folder| PathBuf::from(folder).join(format!("{:016x}.ptx", hash.finish())));
    if let Some(text) = kept.as_ref().and_then(|path| std::fs::read_to_string(path).ok()) {
        program.image = text;
        return true;
    }
    let done = match &*FUNCTIONS {
        Ok(nvrtc) => nvrtc.compile(program, &options),
        Err(why) => Err(why.clone()),
    };
    if let Err(log) = done {
        program.log = log;
        return false;
    }
    if let Some(path) = kept {
        // Several processes may write; each puts a whole file in place.
        let new = path.with_extension(format!("{}", std::process::id()));
        let _ = path.parent().map(std::fs::create_dir_all);
        let _ = std::fs::write(&new, &program.image).and_then(|()| std::fs::rename(&new, &path));
    }
    true
}

/// Returns the change of a source that a test asks for, to see whether the checks find it:
/// `CUDA_EMU_PLANT` is the old text, the line `=>`, and the new text.
fn planted() -> Option<(String, String)> {
    let text = std::env::var("CUDA_EMU_PLANT").ok()?;
    let (old, new) = text.split_once("\n=>\n")?;
    Some((old.to_owned(), new.to_owned()))
}

/// Returns the options for PTX of the virtual architecture instead of machine code.
fn options_for_ptx(options: &[String]) -> Vec<String> {
    let mut all: Vec<String> = vec!["-lineinfo".into()];
    for option in options {
        all.push(option.replace("--gpu-architecture=sm_", "--gpu-architecture=compute_"));
    }
    if !options.iter().any(|option| option.contains("-arch")) {
        all.push(ARCHITECTURE.into());
    }
    all
}

impl Functions {
    fn compile(&self, program: &mut Program, options: &[String]) -> Result<(), String> {
        let text = |text: &str| CString::new(text).map_err(|e| e.to_string());
        let all = |texts: &mut dyn Iterator<Item = &str>| {
            texts.map(text).collect::<Result<Vec<CString>, String>>()
        };
        let source = text(&program.source)?;
        let name = text(&program.name)?;
        let headers = all(&mut program.headers.iter().map(|header| header.1.as_str()))?;
        let names = all(&mut program.headers.iter().map(|header| header.0.as_str()))?;
        let options = all(&mut options.iter().map(String::as_str))?;
        let pointers = |texts: &[CString]| texts.iter().map(|t| t.as_ptr()).collect::<Vec<_>>();
        let (headers_at, names_at) = (pointers(&headers), pointers(&names));
        let options_at = pointers(&options);
        let mut handle = std::ptr::null_mut();
        // SAFETY: all texts are C strings that live to the end of this function, and the counts are
        // those of the lists.
        unsafe {
            let status = (self.create)(
                &mut handle,
                source.as_ptr(),
                name.as_ptr(),
                headers.len() as i32,
                headers_at.as_ptr(),
                names_at.as_ptr(),
            );
            if status != 0 {
                return Err(format!("nvrtcCreateProgram: {status}"));
            }
            let status = (self.compile)(handle, options.len() as i32, options_at.as_ptr());
            program.log = self.text(handle, self.log_size, self.log);
            if status == 0 {
                program.image = self.text(handle, self.ptx_size, self.ptx);
            }
            (self.destroy)(&mut handle);
            if status == 0 {
                Ok(())
            } else {
                Err(program.log.clone())
            }
        }
    }

    /// Returns a text of a program.
    ///
    /// # Safety
    /// The program must exist, and the functions must be NVRTC's for the size and the text.
    unsafe fn text(
        &self,
        program: Handle,
        size: unsafe extern "C" fn(Handle, *mut usize) -> i32,
        get: unsafe extern "C" fn(Handle, *mut c_char) -> i32,
    ) -> String {
        let mut bytes = 0;
        // SAFETY: the program exists, and `bytes` is a variable of this function.
        unsafe { size(program, &mut bytes) };
        let mut text = vec![0u8; bytes.max(1)];
        // SAFETY: the text has room for as many bytes as NVRTC asks for.
        unsafe { get(program, text.as_mut_ptr().cast()) };
        text.truncate(text.iter().position(|&byte| byte == 0).unwrap_or(text.len()));
        String::from_utf8_lossy(&text).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_code_becomes_ptx() {
        let options = options_for_ptx(&["-DX=1".into(), "--gpu-architecture=sm_90".into()]);
        assert_eq!(options, ["-lineinfo", "-DX=1", "--gpu-architecture=compute_90"]);
        assert_eq!(options_for_ptx(&[]), ["-lineinfo", ARCHITECTURE]);
    }
}
