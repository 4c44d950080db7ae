//! NVIDIA's NVRTC from tests/nvrtc.sh, in a process that finds its library: machine code of the
//! kernels, and the log of the assembler. Test programs share what was compiled.

use super::scratch;
use cudarc::nvrtc::{result, sys};
use gpuzip::device::cuda::Source;
use std::ffi::{CStr, CString};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Compiles a source for an architecture; returns the log, with registers, shared memory and spills
/// of each kernel, and the ELF file.
pub fn compiled(source: &Source, architecture: u32) -> (String, Vec<u8>) {
    let options = [source.options(architecture), vec!["--ptxas-options=-v".to_owned()]].concat();
    let (mut major, mut minor) = (0, 0);
    // SAFETY: both pointers are of variables of this function.
    unsafe { sys::nvrtcVersion(&mut major, &mut minor) };
    let mut hash = DefaultHasher::new();
    (source.text(), &options, major, minor).hash(&mut hash);
    let kept = scratch("cubins").join(format!("{:016x}.cubin", hash.finish()));
    let log_of = |image: &std::path::Path| image.with_extension("log");
    if let (Ok(image), Ok(log)) = (fs::read(&kept), fs::read_to_string(log_of(&kept))) {
        return (log, image);
    }
    let (log, image) = compile(source, &options);
    // The image comes last, and whole: other processes read it only with its log.
    let new = kept.with_extension(std::process::id().to_string());
    fs::write(log_of(&kept), &log).unwrap();
    fs::write(&new, &image).and_then(|()| fs::rename(&new, &kept)).unwrap();
    (log, image)
}

fn compile(source: &Source, options: &[String]) -> (String, Vec<u8>) {
    let program = result::create_program(&CString::new(source.text()).unwrap(), None).unwrap();
    // SAFETY: `program` lives until it is destroyed below; NVRTC ends the log with a zero byte, and
    // writes as many bytes of the image as it has said.
    unsafe {
        let compiled = result::compile_program(program, options);
        let log = result::get_program_log(program).unwrap();
        let log = CStr::from_ptr(log.as_ptr()).to_string_lossy().into_owned();
        assert!(compiled.is_ok(), "{} with {options:?}: {log}", source.name);
        let mut bytes = 0;
        assert_eq!(sys::nvrtcGetCUBINSize(program, &mut bytes), sys::nvrtcResult::NVRTC_SUCCESS);
        let mut image = vec![0u8; bytes];
        let got = sys::nvrtcGetCUBIN(program, image.as_mut_ptr().cast());
        assert_eq!(got, sys::nvrtcResult::NVRTC_SUCCESS);
        result::destroy_program(program).unwrap();
        (log, image)
    }
}
