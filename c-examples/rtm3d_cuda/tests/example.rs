//! The programs of c-examples/rtm3d_cuda, built without nvcc on a stand-in for the CUDA runtime.

use crate::common::{library, root, run};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Words of C that the kernels' file gets from headers.
const HEAD: &str = "typedef unsigned long size_t; typedef long ptrdiff_t;\n#define HALO 4\n\
    struct grid_t { size_t e1, e2, e3; };\n\
    struct medium_t { grid_t grid; const float *scale, *damp1, *damp2, *damp3; };\n";

/// Cells around the grid that stay zero.
pub const HALO: usize = 4;

/// The kernels' `view_t`: extents of the arrays, and addresses of the medium's arrays.
#[repr(C)]
pub struct View {
    pub extents: [i32; 3],
    pub scale: u64,
    pub damp: [u64; 3],
}

/// Returns the kernels without the functions of the host that launch them, as NVRTC takes them.
pub fn kernels() -> String {
    let file = root().join("c-examples/rtm3d_cuda/kernels.cu");
    let text = std::fs::read_to_string(file).unwrap();
    let (kernels, _) = text.split_once("static int multiprocessors()").expect("kernels first");
    kernels
        .replace("#include \"kernels.h\"", HEAD)
        .replace("static view_t view", "static __device__ view_t view")
        .replace("static __global__", "extern \"C\" __global__")
}

/// Translates a CUDA source to C++: a kernel launch `f<<<...>>>(...)` becomes the macro
/// `CUDA_LAUNCH(f, (...), (...))` of the stand-in for the runtime. The kernel `f` becomes the function
/// `f_kernel`, since a function `f` of the host may exist, too.
pub fn in_cpp(source: &str) -> String {
    let mut text = source.to_string();
    while let Some(open) = text.find("<<<") {
        let name =
            text[..open].rfind(|c: char| !c.is_alphanumeric() && c != '_').map_or(0, |at| at + 1);
        let close = open + text[open..].find(">>>(").expect("a launch");
        let end = close + text[close..].find(");").expect("its end");
        let call = format!(
            "CUDA_LAUNCH({}, ({}), ({}));",
            &text[name..open],
            &text[open + 3..close],
            &text[close + 4..end]
        );
        let kernel = text[name..open].to_string();
        text.replace_range(name..end + 2, &call);
        let named = [format!(" {kernel}("), format!("\n{kernel}(")];
        match named.iter().find_map(|named| text.find(named)) {
            Some(at) => text.insert_str(at + 1 + kernel.len(), "_kernel"),
            // An earlier launch has named the kernel.
            None => assert!(text.contains(&format!(" {kernel}_kernel(")), "{kernel}"),
        }
    }
    text
}

/// Builds a program of rtm3d_cuda from `parts` in the folder `dir`, with the folder `runtime` of a
/// stand-in for the CUDA runtime and with more arguments of g++; returns the paths of this program
/// and of rtm3d.
pub fn build(dir: &Path, runtime: &str, parts: &[&str], more: &[String]) -> (PathBuf, PathBuf) {
    build_with(dir, runtime, parts, more, &[])
}

/// Builds as `build` does, with words of the sources replaced, such as sizes that are a GPU's.
pub fn build_with(
    dir: &Path,
    runtime: &str,
    parts: &[&str],
    more: &[String],
    words: &[(&str, &str)],
) -> (PathBuf, PathBuf) {
    let (cuda, rtm3d) = (root().join("c-examples/rtm3d_cuda"), root().join("c-examples/rtm3d"));
    let (build, lib) =
        (format!("BUILD={}", dir.display()), format!("GPUZIP_LIB={}", library().display()));
    run(Command::new("make").args(["-j2", "-C"]).arg(&rtm3d).args([&build, &lib]));
    let mut compile = Command::new("g++");
    compile.args(["-std=c++17", "-O2", "-U_FORTIFY_SOURCE", "-ffp-contract=off", "-fopenmp"]);
    for include in [root().join(runtime), cuda.clone(), rtm3d, root().join("include")] {
        compile.arg("-I").arg(include);
    }
    for part in ["cuda", "gpu_bench", "gpu_shot", "kernels"].iter().chain(parts) {
        let source = std::fs::read_to_string(cuda.join(format!("{part}.cu"))).unwrap();
        let translated = dir.join(format!("{part}.cpp"));
        let source = words.iter().fold(source, |text, (from, to)| text.replace(from, to));
        std::fs::write(&translated, in_cpp(&source)).unwrap();
        compile.arg(translated);
    }
    for object in
        std::fs::read_dir(dir.join("rtm3d.obj")).unwrap().map(|entry| entry.unwrap().path())
    {
        if !["main.o", "bench.o"].contains(&object.file_name().unwrap().to_str().unwrap()) {
            compile.arg(object);
        }
    }
    let lib = library().display();
    let program = dir.join("rtm3d_cuda");
    run(compile
        .arg("-o")
        .arg(&program)
        .args([&format!("-L{lib}"), "-lgpuzip", &format!("-Wl,-rpath,{lib}"), "-lm"])
        .args(more));
    (program, dir.join("rtm3d"))
}
