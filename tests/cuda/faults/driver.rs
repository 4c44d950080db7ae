//! Drivers that cannot be used, and programs that must not call the driver.

use super::*;

/// Checks that the CUDA backend, without a usable driver, fails with a text that contains `part`,
/// and that the host backend works.
fn cuda_is_refused_with(part: &str) {
    let error = gpuzip::device::CudaDevice::new(0).err().expect("no usable driver");
    assert!(error.message.contains(part), "{error}");
    host_session_works();
}

#[test]
fn a_driver_that_is_too_old() {
    emulated!(&[("CUDA_EMU_DRIVER_VERSION", "11080")]);
    cuda_is_refused_with("supports CUDA 11.8");
}

#[test]
fn a_machine_without_devices() {
    emulated!(&[("CUDA_EMU_DEVICES", "0")]);
    cuda_is_refused_with("CUDA_ERROR_NO_DEVICE");
}

/// Compiles a library that stands for a driver, and returns its path.
fn compiled(name: &str, source: &str) -> std::path::PathBuf {
    let library = common::tempdir(&format!("{name}-{}", std::process::id())).join("stub.so");
    let file = library.with_extension("c");
    std::fs::write(&file, source).unwrap();
    common::compile_library(&file, library)
}

/// Returns the path of a library that has two functions of a driver.
fn stub() -> std::path::PathBuf {
    let source = "int cuInit(unsigned flags) { return flags != 0; }
        int cuDriverGetVersion(int *v) { *v = 12040; return 0; }";
    compiled("stub", source)
}

#[test]
fn a_driver_that_lacks_a_function() {
    let is_parent = std::env::var_os("GPUZIP_TEST_EMULATED").is_none();
    let library = if is_parent { stub() } else { Default::default() };
    if emu::inside_with(here!(), &library, &[]) {
        cuda_is_refused_with("the CUDA driver lacks cu");
    }
}

/// Returns the path of a library as the toolkit's folder lib64/stubs has it, for linking where there is
/// no driver: it has all functions, and each returns CUDA_ERROR_STUB_LIBRARY.
fn toolkit_stub() -> std::path::PathBuf {
    let symbols = common::stdout(&common::run(
        std::process::Command::new("nm").args(["-D", "--defined-only", "-j"]).arg(emu::driver()),
    ));
    let functions: String = symbols
        .lines()
        .filter(|name| name.starts_with("cu"))
        .map(|name| format!("int {name}(void) {{ return 34; }}\n"))
        .collect();
    compiled("toolkit-stub", &functions)
}

#[test]
fn the_stub_of_the_toolkit_is_no_driver() {
    let is_parent = std::env::var_os("GPUZIP_TEST_EMULATED").is_none();
    let library = if is_parent { toolkit_stub() } else { Default::default() };
    if emu::inside_with(here!(), &library, &[]) {
        cuda_is_refused_with("stub for linking, not a driver");
    }
}

/// Programs use the driver by the name libcuda.so.1. A library of the name libcuda.so may be another
/// file: the toolkit's stub, or a second copy of the driver in Windows Subsystem for Linux.
#[test]
fn the_driver_is_the_library_that_programs_use() {
    const NAME: &str = "the_driver_is_the_library_that_programs_use";
    let folder = (std::env::var_os("GPUZIP_TEST_EMULATED").is_none()).then(|| {
        let folder = emu::folder_with(&format!("{NAME}-both"), &emu::driver());
        std::fs::remove_file(folder.join("libcuda.so")).unwrap();
        std::fs::copy(stub(), folder.join("libcuda.so")).unwrap();
        folder.display().to_string()
    });
    if emu::inside(NAME, &[("LD_LIBRARY_PATH", &folder.unwrap_or_default())]) {
        assert_eq!(gpuzip::device::cuda::devices().unwrap().len(), 1);
        assert_eq!(emu::calls("cuInit"), 1, "calls of libcuda.so.1");
    }
}

#[test]
fn no_driver_at_all() {
    if gpuzip::device::cuda::devices().is_ok() {
        println!("skipped: this machine has a CUDA driver");
        return;
    }
    cuda_is_refused_with("libcuda");
}

/// A session on the host backend does not initialise CUDA, even if libcuda is loaded, for example
/// by a CUDA-aware MPI.
#[test]
fn host_codes_do_not_initialise_cuda() {
    emulated!();
    assert_eq!(emu::calls("cuInit"), 0);
    host_session_works();
    assert_eq!(emu::calls("cuInit"), 0);
}

#[test]
fn a_forked_child_calls_no_driver() {
    emulated!();
    // After a failed start of CUDA, a forked child can start CUDA.
    emu::fail("cuInit", 1, 719);
    assert_eq!(gpuzip::device::cuda::devices().unwrap_err().code, Code::Device);
    assert_eq!(
        status_of_child(|| gpuzip::device::cuda::devices().is_ok_and(|devices| devices.len() == 1)),
        0
    );
    let app = application();
    let fields = app.field();
    let mut session = at_first_save(reference(Policy::Lru, 2).config, &fields).unwrap();
    session.save(0, &fields, HOST).unwrap();
    let calls = emu::counters().calls;
    let in_child = || {
        let refused = session.stats().is_err_and(|error| error.code == Code::Forked);
        drop(session);
        refused && emu::counters().calls == calls
    };
    assert_eq!(status_of_child(in_child), 0);
}

/// Runs `body` in a forked child and returns the status with which the child ends: 0 if `body` is
/// true.
fn status_of_child(body: impl FnOnce() -> bool) -> i32 {
    // SAFETY: the child uses no state of other threads and ends by _exit.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let right = body();
        // SAFETY: _exit only ends the process.
        unsafe { libc::_exit(i32::from(!right)) };
    }
    let mut status = -1;
    // SAFETY: `child` is a child of this process, and `status` is live.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    status
}
