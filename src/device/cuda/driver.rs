//! The CUDA driver, called with care: present or an error, every result checked, the caller's
//! context always restored.

use crate::error::{fail, Code, Error, Result};
use crate::process::Process;
use cudarc::driver::sys::{CUcontext, CUdevice, CUdevice_attribute, CUresult, CUstream};
use std::ffi::{c_char, c_void, CStr, CString};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

/// The oldest driver that has all we use: CUDA 12.0's.
const OLDEST_DRIVER: i32 = 12000;

/// Every function that this library calls. A driver that lacks one is refused before the first
/// call.
const FUNCTIONS: [&CStr; 37] = [
    c"cuInit",
    c"cuDriverGetVersion",
    c"cuGetErrorName",
    c"cuDeviceGetCount",
    c"cuDeviceGet",
    c"cuDeviceGetName",
    c"cuDeviceTotalMem_v2",
    c"cuDevicePrimaryCtxRetain",
    c"cuDevicePrimaryCtxRelease_v2",
    c"cuCtxPushCurrent_v2",
    c"cuCtxPopCurrent_v2",
    c"cuCtxGetDevice",
    c"cuMemGetInfo_v2",
    c"cuMemAlloc_v2",
    c"cuMemFree_v2",
    c"cuMemHostAlloc",
    c"cuMemFreeHost",
    c"cuMemcpyAsync",
    c"cuPointerGetAttributes",
    c"cuCtxGetCurrent",
    c"cuStreamGetCtx",
    c"cuStreamCreate",
    c"cuStreamDestroy_v2",
    c"cuStreamSynchronize",
    c"cuStreamWaitEvent",
    c"cuEventCreate",
    c"cuEventDestroy_v2",
    c"cuEventRecord",
    c"cuEventQuery",
    c"cuEventSynchronize",
    c"cuEventElapsedTime",
    c"cuDeviceGetAttribute",
    c"cuMemsetD8Async",
    c"cuModuleLoadData",
    c"cuModuleGetFunction",
    c"cuModuleUnload",
    c"cuLaunchKernel",
];

/// The driver's library, by the name that CUDA programs have it loaded by, and by the one that they
/// link with.
const NAMES: [&CStr; 2] = [c"libcuda.so.1", c"libcuda.so"];

/// What a driver function returns. cudarc declares an enumeration, and a newer driver's code that
/// is not in it would be undefined behaviour: its declarations give us the arguments, and the
/// result is a number.
pub type Status = i32;

pub const SUCCESS: Status = CUresult::CUDA_SUCCESS as Status;
pub const NOT_READY: Status = CUresult::CUDA_ERROR_NOT_READY as Status;
pub const NOT_INITIALIZED: Status = CUresult::CUDA_ERROR_NOT_INITIALIZED as Status;
pub const INVALID_IMAGE: Status = CUresult::CUDA_ERROR_INVALID_IMAGE as Status;
pub const NO_BINARY_FOR_GPU: Status = CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU as Status;
const OUT_OF_MEMORY: Status = CUresult::CUDA_ERROR_OUT_OF_MEMORY as Status;

/// How cudarc declares a function.
pub trait Declaration {
    /// How the driver has it.
    type Function: Copy;
}

macro_rules! declarations {
    ($(($($argument:ident)*))*) => {
        $(impl<$($argument),*> Declaration for unsafe fn($($argument),*) -> CUresult {
            type Function = unsafe extern "C" fn($($argument),*) -> Status;
        })*
    };
}
declarations! { (A) (A B) (A B C) (A B C D) (A B C D E F G H I J K) }

/// The function of this declaration and name; see `lookup`.
///
/// # Safety
/// As `lookup`.
pub unsafe fn declared<D: Declaration>(_: D, name: &str, found: &AtomicPtr<c_void>) -> D::Function {
    // SAFETY: by this function's contract.
    unsafe { lookup(name, found) }
}

/// The function of this name, looked up once: `found` is where it is.
///
/// # Safety
/// The library has been found, `F` is a pointer to a function, the one of that name, and `found` is
/// used for no other.
unsafe fn lookup<F: Copy>(name: &str, found: &AtomicPtr<c_void>) -> F {
    if found.load(Ordering::Relaxed).is_null() {
        let symbol = CString::new(name).map_or(std::ptr::null_mut(), |name| symbol(&name));
        assert!(!symbol.is_null(), "the CUDA driver lacks {name}");
        found.store(symbol, Ordering::Relaxed);
    }
    // SAFETY: both are pointers, and this one is not NULL.
    unsafe { std::mem::transmute_copy(&found.load(Ordering::Relaxed)) }
}

/// Calls a driver function: its status.
macro_rules! status {
    ($function:ident($($argument:expr),* $(,)?)) => {{
        static FOUND: std::sync::atomic::AtomicPtr<std::ffi::c_void> = std::sync::atomic::AtomicPtr::new(std::ptr::null_mut());
        let declaration: unsafe fn($($crate::device::cuda::driver::any!($argument)),*) -> _ = cudarc::driver::sys::$function;
        // SAFETY: the driver is loaded and has this function; what the arguments must keep is said where they are made.
        unsafe { $crate::device::cuda::driver::declared(declaration, stringify!($function), &FOUND)($($argument),*) }
    }};
}

/// Calls a driver function and checks its result.
macro_rules! cu {
    ($function:ident($($argument:expr),* $(,)?)) => {
        $crate::device::cuda::driver::check($crate::device::cuda::driver::status!($function($($argument),*)), stringify!($function))
    };
}

macro_rules! any {
    ($argument:expr) => {
        _
    };
}
pub(super) use {any, cu, status};

/// An error of the driver, with its name.
pub fn check(result: Status, call: &str) -> Result<()> {
    let code = match result {
        SUCCESS => return Ok(()),
        OUT_OF_MEMORY => Code::Memory,
        _ => Code::Device,
    };
    type GetErrorName = unsafe extern "C" fn(Status, *mut *const c_char) -> Status;
    static FOUND: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    let mut name = std::ptr::null();
    // SAFETY: the driver is loaded, or there would be no result; the name lives for ever.
    let name = unsafe {
        match lookup::<GetErrorName>("cuGetErrorName", &FOUND)(result, &mut name) {
            SUCCESS if !name.is_null() => CStr::from_ptr(name).to_string_lossy().into_owned(),
            _ => format!("error {result}"),
        }
    };
    Err(Error::new(code, format!("{call}: {name}")))
}

/// Twice the number of the process that has begun to initialise the driver, and 1 more once the
/// driver is initialised there. 0: no process has begun, or the last attempt failed.
static BEGUN: AtomicU64 = AtomicU64::new(0);

/// Whether this process was forked from one that had begun to initialise the driver: CUDA does not
/// work in such a child.
pub fn is_parents() -> bool {
    let begun = BEGUN.load(Ordering::Acquire);
    begun != 0 && begun / 2 != Process::current().number()
}

/// Loads and initialises the driver, once. The error says what is missing; it is not for ever, so
/// the next call tries again.
pub fn load() -> Result<()> {
    if is_parents() {
        return fail!(
            Forked,
            "CUDA was initialised before this process was forked, and CUDA does not work in a child: fork first, or start the child by exec"
        );
    }
    let begun = 2 * Process::current().number();
    if BEGUN.load(Ordering::Acquire) != begun + 1 {
        library()?;
        let _ = BEGUN.compare_exchange(0, begun, Ordering::AcqRel, Ordering::Acquire);
        if let Err(error) = try_load() {
            // A child may try it then. Another thread's success stays.
            let _ = BEGUN.compare_exchange(begun, 0, Ordering::AcqRel, Ordering::Acquire);
            return Err(error);
        }
        BEGUN.store(begun + 1, Ordering::Release);
    }
    Ok(())
}

fn try_load() -> Result<()> {
    if let Some(name) = FUNCTIONS.iter().find(|name| !has(name)) {
        return fail!(
            Device,
            "the CUDA driver lacks {}: install a driver for CUDA 12 or newer",
            name.to_string_lossy()
        );
    }
    let mut version = 0;
    cu!(cuDriverGetVersion(&mut version))?;
    if version < OLDEST_DRIVER {
        return fail!(
            Device,
            "the CUDA driver supports CUDA {}.{}: install one for CUDA 12 or newer",
            version / 1000,
            version % 1000 / 10
        );
    }
    cu!(cuInit(0))
}

/// The driver library, once it is open; it stays so. `dlopen` twice gives the same one.
static LIBRARY: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Finds the driver library, without calling it.
pub fn library() -> Result<()> {
    if !LIBRARY.load(Ordering::Acquire).is_null() {
        return Ok(());
    }
    // SAFETY: loading the driver library runs its initialisers, as for every CUDA program.
    let open =
        |name: &CStr| unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    let found = NAMES.into_iter().map(open).find(|library| !library.is_null());
    let Some(library) = found else {
        return fail!(Device, "no CUDA driver: libcuda.so.1 is not on this machine's library path");
    };
    LIBRARY.store(library, Ordering::Release);
    Ok(())
}

/// The address of a function, or NULL; callers have found the library.
fn symbol(name: &CStr) -> *mut c_void {
    // SAFETY: a symbol is looked up, not called; the library is open.
    unsafe { libc::dlsym(LIBRARY.load(Ordering::Acquire), name.as_ptr()) }
}

/// Whether the library has a function.
pub fn has(name: &CStr) -> bool {
    !symbol(name).is_null()
}

/// Whether this process has a CUDA driver loaded already. Without one no memory can be a device's.
/// Looks at the list of loaded libraries when that has grown, else at a number.
pub fn is_in_process() -> bool {
    static FOUND: AtomicBool = AtomicBool::new(false);
    /// Libraries loaded up to the last look that found none.
    static LOADS: AtomicU64 = AtomicU64::new(0);

    unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _: usize, loads: *mut c_void) -> i32 {
        // SAFETY: the linker hands out a valid entry, and `loads` are the numbers below.
        let (info, [before, now]) = unsafe { (&*info, &mut *loads.cast::<[u64; 2]>()) };
        *now = info.dlpi_adds;
        if *before == *now {
            return 2;
        }
        // SAFETY: the name is a string, or NULL.
        let named = !info.dlpi_name.is_null()
            && unsafe { CStr::from_ptr(info.dlpi_name) }
                .to_bytes()
                .windows(10)
                .any(|w| w == b"libcuda.so");
        if named {
            return 1;
        }
        0
    }

    if !FOUND.load(Ordering::Relaxed) {
        let mut loads = [LOADS.load(Ordering::Relaxed), 0];
        // SAFETY: `look` has the type that is asked for and keeps nothing.
        match unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut loads).cast()) } {
            1 => FOUND.store(true, Ordering::Relaxed),
            _ => LOADS.store(loads[1], Ordering::Relaxed),
        }
    }
    FOUND.load(Ordering::Relaxed)
}

/// What a device is.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    /// Its name.
    pub name: String,
    /// Its memory.
    pub memory_bytes: u64,
    /// What its kernels are compiled for: 90 is sm_90.
    pub architecture: u32,
}

/// Number of devices.
pub fn device_count() -> Result<i32> {
    load()?;
    let mut count = 0;
    cu!(cuDeviceGetCount(&mut count))?;
    Ok(count)
}

/// All devices, in the order of their ordinals; an error says why there is no driver.
pub fn devices() -> Result<Vec<DeviceInfo>> {
    let info = |ordinal| {
        let (mut device, mut name, mut memory_bytes) = (0, [0; 128], 0);
        cu!(cuDeviceGet(&mut device, ordinal))?;
        cu!(cuDeviceGetName(name.as_mut_ptr(), name.len() as i32 - 1, device))?;
        cu!(cuDeviceTotalMem_v2(&mut memory_bytes, device))?;
        // SAFETY: the driver wrote a string that is shorter than the buffer.
        let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned();
        Ok(DeviceInfo {
            name,
            memory_bytes: memory_bytes as u64,
            architecture: architecture(device)?,
        })
    };
    (0..device_count()?).map(info).collect()
}

/// The device of the calling thread's current context, if it has one.
pub fn current_device() -> Option<i32> {
    load().ok()?;
    let mut device = 0;
    cu!(cuCtxGetDevice(&mut device)).ok().map(|()| device)
}

/// Devices, if the application or this library has started CUDA in this process. CUDA is not
/// started to find out.
fn count_if_started() -> Option<i32> {
    if !is_in_process() || is_parents() || library().is_err() || !has(c"cuDeviceGetCount") {
        return None;
    }
    let mut count = 0;
    (status!(cuDeviceGetCount(&mut count)) == SUCCESS).then_some(count)
}

/// Whether CUDA was started in this process, by the application or by this library.
pub fn is_started() -> bool {
    count_if_started().is_some()
}

/// Files of which one is there where a driver of NVIDIA's serves devices: the kernel module's two,
/// that of Windows' Linux, and Tegra's two.
const DEVICE_FILES: [&str; 5] =
    ["/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg", "/dev/nvmap", "/dev/nvhost-ctrl"];

/// Whether memory of this process may be a CUDA device's, now or later. CUDA is not started to find
/// out: that takes device memory, and CUDA does not work in a child that is forked afterwards.
pub fn may_have_device() -> bool {
    may_have_device_by(&DEVICE_FILES)
}

fn may_have_device_by(files: &[&str]) -> bool {
    if is_parents() {
        return false;
    }
    match count_if_started() {
        Some(count) => count > 0,
        // A container may show the files of its machine and lack the library.
        None => files.iter().any(|file| std::path::Path::new(file).exists()) && library().is_ok(),
    }
}

/// Bytes of a device that nobody has taken. Without a current context on it, its primary one is
/// made for the question.
pub fn free_memory(ordinal: i32) -> Result<u64> {
    if current_device() == Some(ordinal) {
        return free_here();
    }
    let count = device_count()?;
    if !(0..count).contains(&ordinal) {
        return fail!(Config, "CUDA device {ordinal}: this machine has {count}, numbered from 0");
    }
    let (mut device, mut context) = (0, std::ptr::null_mut());
    cu!(cuDeviceGet(&mut device, ordinal))?;
    cu!(cuDevicePrimaryCtxRetain(&mut context, device))?;
    let free = Current::new(context).and_then(|_current| free_here());
    cu!(cuDevicePrimaryCtxRelease_v2(device))?;
    free
}

/// The same of the device of the current context.
fn free_here() -> Result<u64> {
    let (mut free, mut total) = (0, 0);
    cu!(cuMemGetInfo_v2(&mut free, &mut total))?;
    Ok(free as u64)
}

/// Whether a session can be on a CUDA device here; an error says what is missing and what to do.
pub fn require_device() -> Result<()> {
    let remedy =
        "install NVIDIA's driver or put its folder on LD_LIBRARY_PATH, or use backend = 1 (host)";
    match device_count() {
        Ok(1..) => Ok(()),
        Ok(_) => fail!(
            Device,
            "backend = 2 (CUDA): the CUDA driver finds no device on this machine; {remedy}"
        ),
        Err(error) if error.code == Code::Forked => Err(error.within("backend = 2 (CUDA)")),
        Err(error) => fail!(Device, "backend = 2 (CUDA): {error}; {remedy}"),
    }
}

/// Streams of another context cannot be ordered with ours. The default streams are those of the
/// context that is current: if that is another one on the same device, what the application means
/// by them is not what we would.
pub fn check_stream(stream: CUstream, context: CUcontext, ordinal: i32) -> Result<()> {
    /// NULL, CU_STREAM_LEGACY and CU_STREAM_PER_THREAD.
    const DEFAULT_STREAMS: usize = 3;
    let mut of = std::ptr::null_mut();
    let is_default = (stream as usize) < DEFAULT_STREAMS;
    if is_default {
        cu!(cuCtxGetCurrent(&mut of))?;
    } else {
        cu!(cuStreamGetCtx(stream, &mut of))?;
    }
    let mut foreign = !of.is_null() && of != context;
    if foreign && is_default {
        let mut device = 0;
        cu!(cuCtxGetDevice(&mut device))?;
        foreign = device == ordinal;
    }
    if foreign {
        return fail!(Argument, "stream = {stream:p} belongs to another context than device {ordinal}'s primary one, which gpuzip uses");
    }
    Ok(())
}

/// A context that is current until this is dropped; then the caller's is again.
pub struct Current(());

impl Current {
    pub fn new(context: CUcontext) -> Result<Self> {
        cu!(cuCtxPushCurrent_v2(context))?;
        Ok(Current(()))
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        let mut context = std::ptr::null_mut();
        let _ = cu!(cuCtxPopCurrent_v2(&mut context));
    }
}

/// What kernels are compiled for: 10 times the compute capability, as in sm_90.
pub fn architecture(device: CUdevice) -> Result<u32> {
    let attribute = |which: CUdevice_attribute| {
        let mut value = 0;
        cu!(cuDeviceGetAttribute(&mut value, which, device)).map(|()| value as u32)
    };
    let major = attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
    Ok(10 * major + attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?)
}
