//! The CUDA driver. A missing driver is an error, every result is checked, and the caller's context
//! is always restored.

use crate::device::DeviceMemory;
use crate::error::{fail, Code, Error, Result};
use crate::process::Process;
use crate::shared_library;
use cudarc::driver::sys::{
    CUcontext, CUdevice, CUdevice_attribute as Attribute, CUresult, CUstream, CUstreamCaptureMode,
    CUstreamCaptureStatus,
};
use std::ffi::{c_char, c_void, CStr, CString};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

/// The oldest driver that has all functions that this library calls: that of CUDA 12.0.
const OLDEST_DRIVER: i32 = 12000;

/// Every function that this library calls, but one that it can do without (`disk.rs`). A driver
/// without one of them is refused before the first call.
const FUNCTIONS: &str =
    "cuInit cuDriverGetVersion cuGetErrorName cuDeviceGetCount cuDeviceGet cuDeviceGetName \
    cuDeviceTotalMem_v2 cuDevicePrimaryCtxRetain cuDevicePrimaryCtxRelease_v2 \
    cuCtxPushCurrent_v2 cuCtxPopCurrent_v2 cuCtxGetDevice cuMemGetInfo_v2 cuMemAlloc_v2 \
    cuMemFree_v2 cuMemHostAlloc cuMemFreeHost cuMemHostRegister_v2 cuMemHostUnregister \
    cuMemcpyAsync cuPointerGetAttributes cuCtxGetCurrent cuStreamGetCtx cuStreamCreate \
    cuStreamDestroy_v2 cuStreamSynchronize cuStreamWaitEvent cuStreamIsCapturing \
    cuThreadExchangeStreamCaptureMode cuEventCreate cuEventDestroy_v2 cuEventRecord \
    cuEventQuery cuEventSynchronize cuEventElapsedTime cuDeviceGetAttribute cuMemsetD8Async \
    cuModuleLoadData cuModuleGetFunction cuFuncGetAttribute cuModuleUnload cuLaunchKernel";

/// Names of the driver's library: the name in CUDA programs, and the name for linking.
const NAMES: [&CStr; 2] = [c"libcuda.so.1", c"libcuda.so"];

/// The result of a driver function: a number, since an unknown code of a newer driver would be
/// undefined behaviour in cudarc's enumeration.
pub type Status = i32;

pub const SUCCESS: Status = CUresult::CUDA_SUCCESS as Status;
pub const NOT_READY: Status = CUresult::CUDA_ERROR_NOT_READY as Status;
pub const NOT_INITIALIZED: Status = CUresult::CUDA_ERROR_NOT_INITIALIZED as Status;
/// Every function of the toolkit's stub of the driver returns this status. The stub is for linking.
pub const STUB_LIBRARY: Status = CUresult::CUDA_ERROR_STUB_LIBRARY as Status;
pub const NOT_SUPPORTED: Status = CUresult::CUDA_ERROR_NOT_SUPPORTED as Status;
pub const INVALID_IMAGE: Status = CUresult::CUDA_ERROR_INVALID_IMAGE as Status;
pub const NO_BINARY_FOR_GPU: Status = CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU as Status;
pub const INVALID_PTX: Status = CUresult::CUDA_ERROR_INVALID_PTX as Status;
pub const UNSUPPORTED_PTX_VERSION: Status = CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION as Status;
const STREAM_CAPTURE_IMPLICIT: Status = CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT as Status;
const OUT_OF_MEMORY: Status = CUresult::CUDA_ERROR_OUT_OF_MEMORY as Status;

/// A function as cudarc declares it.
pub trait Declaration {
    /// The same function as the driver has it, with a number as its result.
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

/// The driver function `name`, with the arguments of cudarc's declaration. `found` as in `lookup`.
///
/// # Safety
/// As `lookup`.
pub unsafe fn declared<D: Declaration>(_: D, name: &str, found: &AtomicPtr<c_void>) -> D::Function {
    // SAFETY: as this function's contract requires.
    unsafe { lookup(name, found) }
}

/// The driver function `name`. The address is looked up once and kept in `found`.
///
/// # Safety
/// The library has been found, `F` is the type of a pointer to the function `name`, and `found` is
/// used for no other function.
unsafe fn lookup<F: Copy>(name: &str, found: &AtomicPtr<c_void>) -> F {
    if found.load(Ordering::Relaxed).is_null() {
        let symbol = symbol(name);
        assert!(!symbol.is_null(), "the CUDA driver lacks {name}");
        found.store(symbol, Ordering::Relaxed);
    }
    // SAFETY: `F` and the loaded value are pointers, and the loaded value is not NULL.
    unsafe { std::mem::transmute_copy(&found.load(Ordering::Relaxed)) }
}

/// Calls a driver function and returns its status.
macro_rules! status {
    ($function:ident($($argument:expr),* $(,)?)) => {{
        static FOUND: std::sync::atomic::AtomicPtr<std::ffi::c_void> = std::sync::atomic::AtomicPtr::new(std::ptr::null_mut());
        let declaration: unsafe fn($($crate::device::cuda::driver::any!($argument)),*) -> _ = cudarc::driver::sys::$function;
        // SAFETY: the driver has this function; the code that makes the arguments keeps to it.
        unsafe { $crate::device::cuda::driver::declared(declaration, stringify!($function), &FOUND)($($argument),*) }
    }};
}

/// Calls a driver function and makes an error of any status but success.
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

/// Makes an error of a status of `call`, with the driver's name of that status.
pub fn check(result: Status, call: &str) -> Result<()> {
    let code = match result {
        SUCCESS => return Ok(()),
        STUB_LIBRARY => {
            return fail!(
                Device,
                "{call}: the libcuda that was found is the CUDA toolkit's stub for linking, not a driver: install NVIDIA's driver, \
                 and take the toolkit's folder lib64/stubs off LD_LIBRARY_PATH"
            )
        }
        OUT_OF_MEMORY => Code::Memory,
        _ => Code::Device,
    };
    type GetErrorName = unsafe extern "C" fn(Status, *mut *const c_char) -> Status;
    static FOUND: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    let mut name = std::ptr::null();
    // SAFETY: the driver is loaded, since it returned a status. The name is never freed.
    let name = unsafe {
        match lookup::<GetErrorName>("cuGetErrorName", &FOUND)(result, &mut name) {
            SUCCESS if !name.is_null() => CStr::from_ptr(name).to_string_lossy().into_owned(),
            _ => format!("error {result}"),
        }
    };
    Err(Error::new(code, format!("{call}: {name}")))
}

/// Twice the number of the process that has begun to initialise the driver, plus 1 once the driver
/// is initialised. 0: no process has begun, or the last attempt failed.
static BEGUN: AtomicU64 = AtomicU64::new(0);

/// Whether this process was forked from a process that had begun to initialise the driver. CUDA
/// does not work in such a child.
pub fn is_parents() -> bool {
    let begun = BEGUN.load(Ordering::Acquire);
    begun != 0 && begun / 2 != Process::current().number()
}

/// Loads and initialises the driver, once per process. After an error, the next call tries again.
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
            // After a failure, a child may try. The success of another thread is kept.
            let _ = BEGUN.compare_exchange(begun, 0, Ordering::AcqRel, Ordering::Acquire);
            return Err(error);
        }
        BEGUN.store(begun + 1, Ordering::Release);
    }
    Ok(())
}

fn try_load() -> Result<()> {
    if let Some(name) = FUNCTIONS.split(' ').find(|name| symbol(name).is_null()) {
        return fail!(
            Device,
            "the CUDA driver lacks {name}: install a driver for CUDA 12 or newer"
        );
    }
    let mut version = 0;
    cu!(cuDriverGetVersion(&mut version))?;
    if version < OLDEST_DRIVER {
        let (major, minor) = (version / 1000, version % 1000 / 10);
        return fail!(
            Device,
            "the CUDA driver supports CUDA {major}.{minor}: install one for CUDA 12 or newer"
        );
    }
    cu!(cuInit(0))
}

/// The driver library once it is open. `dlopen` returns the same handle every time.
static LIBRARY: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Opens the driver library without calling it.
pub fn library() -> Result<()> {
    if !LIBRARY.load(Ordering::Acquire).is_null() {
        return Ok(());
    }
    let Some(library) = NAMES.into_iter().find_map(|name| shared_library::open(name).ok()) else {
        return fail!(Device, "no CUDA driver: libcuda.so.1 is not on this machine's library path");
    };
    LIBRARY.store(library, Ordering::Release);
    Ok(())
}

/// The address of a function, or NULL. Callers have opened the library.
fn symbol(name: &str) -> *mut c_void {
    let Ok(name) = CString::new(name) else { return std::ptr::null_mut() };
    // SAFETY: the symbol is looked up, not called, and the library is open.
    unsafe { libc::dlsym(LIBRARY.load(Ordering::Acquire), name.as_ptr()) }
}

/// Whether the library has the function `name`.
pub fn has(name: &str) -> bool {
    !symbol(name).is_null()
}

/// Whether this process has loaded the library `name`.
fn is_open(name: &CStr) -> bool {
    // SAFETY: a library that is loaded already runs no code when it is opened once more and closed.
    unsafe {
        let library = libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        !library.is_null() && libc::dlclose(library) == 0
    }
}

/// Whether this process has loaded a CUDA driver. Without a driver, no memory can be on a device.
/// Looks through the loaded libraries only if libraries were loaded since the last look.
pub fn is_in_process() -> bool {
    static FOUND: AtomicBool = AtomicBool::new(false);
    /// Number of libraries that had been loaded at the last look that found no driver.
    static LOADS: AtomicU64 = AtomicU64::new(0);

    unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _: usize, loads: *mut c_void) -> i32 {
        // SAFETY: the linker passes a valid entry, and `loads` points to the two numbers below.
        let (info, [before, now]) = unsafe { (&*info, &mut *loads.cast::<[u64; 2]>()) };
        *now = info.dlpi_adds;
        if *before == *now {
            return 2;
        }
        if info.dlpi_name.is_null() {
            return 0;
        }
        // SAFETY: the name is a string.
        let name = unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes();
        i32::from(name.windows(10).any(|w| w == b"libcuda.so"))
    }

    if !FOUND.load(Ordering::Relaxed) && Process::current().is_child() {
        // Another thread may have held the lock of `dl_iterate_phdr` at the fork; glibc gives the
        // child a new lock for dlopen only.
        FOUND.store(is_open(c"libcuda.so.1") || is_open(c"libcuda.so"), Ordering::Relaxed);
    } else if !FOUND.load(Ordering::Relaxed) {
        let mut loads = [LOADS.load(Ordering::Relaxed), 0];
        // SAFETY: `look` has the required type and keeps no pointer.
        match unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut loads).cast()) } {
            1 => FOUND.store(true, Ordering::Relaxed),
            _ => LOADS.store(loads[1], Ordering::Relaxed),
        }
    }
    FOUND.load(Ordering::Relaxed)
}

/// Properties of a device.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    /// The name of the device.
    pub name: String,
    /// Bytes of the device's memory.
    pub memory_bytes: u64,
    /// The architecture for which kernels are compiled: 90 for sm_90.
    pub architecture: u32,
}

pub fn device_count() -> Result<i32> {
    load()?;
    let mut count = 0;
    cu!(cuDeviceGetCount(&mut count))?;
    Ok(count)
}

pub fn device(ordinal: i32) -> Result<CUdevice> {
    let (count, mut device) = (device_count()?, 0);
    if !(0..count).contains(&ordinal) {
        return fail!(Config, "CUDA device {ordinal}: this machine has {count}, numbered from 0");
    }
    cu!(cuDeviceGet(&mut device, ordinal)).map(|()| device)
}

/// The value of an attribute of a device, by the number of the attribute: cudarc's enumeration does
/// not have each attribute for each version of CUDA.
fn attribute(device: CUdevice, number: i32) -> Result<i32> {
    type GetAttribute = unsafe extern "C" fn(*mut i32, i32, CUdevice) -> Status;
    static FOUND: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    let mut value = 0;
    // SAFETY: the driver is loaded, since `device` comes from it; the driver writes one integer.
    let status = unsafe {
        lookup::<GetAttribute>("cuDeviceGetAttribute", &FOUND)(&mut value, number, device)
    };
    check(status, "cuDeviceGetAttribute").map(|()| value)
}

/// Number of engines of a device that copy while kernels run.
pub fn copy_engines(device: CUdevice) -> Result<u32> {
    let count = attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT as i32)?;
    Ok(count.max(0) as u32)
}

/// All CUDA devices in the order of their numbers. The error says why there is no driver.
pub fn devices() -> Result<Vec<DeviceInfo>> {
    let info = |ordinal| {
        let (mut device, mut name, mut memory_bytes) = (0, [0; 128], 0);
        cu!(cuDeviceGet(&mut device, ordinal))?;
        cu!(cuDeviceGetName(name.as_mut_ptr(), name.len() as i32 - 1, device))?;
        cu!(cuDeviceTotalMem_v2(&mut memory_bytes, device))?;
        // SAFETY: the driver wrote a string that is shorter than the buffer.
        let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned();
        let (memory_bytes, architecture) = (memory_bytes as u64, architecture(device)?);
        Ok(DeviceInfo { name, memory_bytes, architecture })
    };
    (0..device_count()?).map(info).collect()
}

/// Number of the device of the calling thread's current context, if the thread has one.
pub fn current_device() -> Option<i32> {
    load().ok()?;
    let mut device = 0;
    cu!(cuCtxGetDevice(&mut device)).ok().map(|()| device)
}

/// Number of CUDA devices, if this process has initialised CUDA. Does not initialise it.
fn count_if_started() -> Option<i32> {
    if !is_in_process() || is_parents() || library().is_err() || !has("cuDeviceGetCount") {
        return None;
    }
    let mut count = 0;
    (status!(cuDeviceGetCount(&mut count)) == SUCCESS).then_some(count)
}

/// Whether the application or this library has initialised CUDA in this process.
pub fn is_started() -> bool {
    count_if_started().is_some()
}

/// Number of a device whose kernels can use ordinary host memory, as on GH200 and under Linux's
/// heterogeneous memory management; `None` if there is none, or CUDA is not initialised in this
/// process.
pub fn device_with_pageable_access() -> Option<i32> {
    let count = count_if_started()?;
    if !has("cuDeviceGet") || !has("cuDeviceGetAttribute") {
        return None;
    }
    let can = |ordinal: &i32| {
        let (mut device, which) = (0, Attribute::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS as i32);
        cu!(cuDeviceGet(&mut device, *ordinal)).is_ok()
            && attribute(device, which).is_ok_and(|value| value != 0)
    };
    (0..count).find(can)
}

/// At least one of these files exists if an NVIDIA driver serves devices: two of the kernel module,
/// one of Windows Subsystem for Linux, and two of Tegra.
const DEVICE_FILES: [&str; 5] =
    ["/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg", "/dev/nvmap", "/dev/nvhost-ctrl"];

/// Whether memory of this process may be on a CUDA device, now or later. Does not initialise CUDA,
/// which takes device memory and does not work in a child forked afterwards.
pub fn may_have_device() -> bool {
    if is_parents() {
        return false;
    }
    match count_if_started() {
        Some(count) => count > 0,
        // A container may show the files of its host and lack the library.
        None => {
            DEVICE_FILES.iter().any(|file| std::path::Path::new(file).exists()) && library().is_ok()
        }
    }
}

/// Free and total bytes of a device's memory. If the current context is not on that device, the
/// device's primary context is created for the question.
pub fn free_memory(ordinal: i32) -> Result<DeviceMemory> {
    if current_device() == Some(ordinal) {
        return free_here();
    }
    let (device, mut context) = (device(ordinal)?, std::ptr::null_mut());
    cu!(cuDevicePrimaryCtxRetain(&mut context, device))?;
    let free = Current::new(context).and_then(|_current| free_here());
    cu!(cuDevicePrimaryCtxRelease_v2(device))?;
    free
}

/// Free and total bytes of memory of the current context's device.
pub fn free_here() -> Result<DeviceMemory> {
    let (mut free, mut total) = (0, 0);
    cu!(cuMemGetInfo_v2(&mut free, &mut total))?;
    Ok(DeviceMemory { free: free as u64, total: total as u64 })
}

/// Fails if no session can use a CUDA device on this machine; the error says what to do.
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

/// Whether `stream` is NULL (0), CU_STREAM_LEGACY (1) or CU_STREAM_PER_THREAD (2).
fn is_default(stream: CUstream) -> bool {
    (stream as usize) < 3
}

/// Fails if the current context, to which the default streams belong, is another one than the
/// device's primary context on the same device: such streams cannot be ordered with gpuzip's.
fn check_default_stream(stream: CUstream, context: CUcontext, ordinal: i32) -> Result<()> {
    let (mut current, mut device) = (std::ptr::null_mut(), 0);
    cu!(cuCtxGetCurrent(&mut current))?;
    if !current.is_null() && current != context {
        cu!(cuCtxGetDevice(&mut device))?;
        if device == ordinal {
            return foreign_stream(stream, ordinal);
        }
    }
    Ok(())
}

/// Fails if `stream`, which is no default stream, belongs to another context than the device's
/// primary one. Call this where a context is current: the application may have none.
fn check_stream(stream: CUstream, context: CUcontext, ordinal: i32) -> Result<()> {
    let mut of = std::ptr::null_mut();
    cu!(cuStreamGetCtx(stream, &mut of))?;
    if !of.is_null() && of != context {
        return foreign_stream(stream, ordinal);
    }
    Ok(())
}

fn foreign_stream(stream: CUstream, ordinal: i32) -> Result<()> {
    fail!(Argument, "stream = {stream:p} belongs to another context than device {ordinal}'s primary one, which gpuzip uses")
}

/// Whether `stream` is being captured into a CUDA graph. True also for the default stream while a
/// stream that synchronises with the default stream is being captured.
pub fn is_capturing(stream: CUstream) -> Result<bool> {
    const NONE: u32 = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE as u32;
    let mut state = NONE;
    match status!(cuStreamIsCapturing(stream, (&raw mut state).cast())) {
        STREAM_CAPTURE_IMPLICIT => Ok(true),
        result => check(result, "cuStreamIsCapturing").map(|()| state != NONE),
    }
}

/// Fails if `stream` is being captured into a CUDA graph: the work of `call` would not run now.
fn refuse_capture(stream: CUstream, call: &str) -> Result<()> {
    if is_capturing(stream)? {
        return fail!(
            Argument,
            "{call}: stream = {stream:p} is being captured into a CUDA graph, or is the default stream while such a capture goes on; a graph \
             would record this call and not run it: end the capture before the call, and keep calls of gpuzip out of graphs"
        );
    }
    Ok(())
}

/// Makes a context current until this object is dropped, which restores the caller's context.
///
/// Meanwhile the calling thread's mode of stream captures is RELAXED: in the mode GLOBAL, calls
/// that wait, query or allocate would fail during a capture of another thread, and would make that
/// capture invalid. The library works on streams that are not captured only.
pub struct Current {
    /// The mode of the calling thread before; `None`: the driver did not change it.
    mode: Option<u32>,
}

impl Current {
    pub fn new(context: CUcontext) -> Result<Self> {
        cu!(cuCtxPushCurrent_v2(context))?;
        const RELAXED: u32 = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED as u32;
        Ok(Current { mode: exchange_mode(RELAXED) })
    }
}

/// Sets the calling thread's mode of stream captures, and returns the mode before; `None` if the
/// driver refuses. Then later calls of the library report what is wrong with the context.
fn exchange_mode(mut mode: u32) -> Option<u32> {
    let result = status!(cuThreadExchangeStreamCaptureMode((&raw mut mode).cast()));
    (result == SUCCESS).then_some(mode)
}

impl Drop for Current {
    fn drop(&mut self) {
        self.mode.and_then(exchange_mode);
        let mut context = std::ptr::null_mut();
        let _ = cu!(cuCtxPopCurrent_v2(&mut context));
    }
}

/// Makes the device's primary context current for the call `call` on the application's stream. Fails if
/// the stream belongs to another context or is being captured.
pub fn enter(
    stream: CUstream,
    (context, ordinal): (CUcontext, i32),
    call: &'static str,
) -> Result<Current> {
    if is_default(stream) {
        check_default_stream(stream, context, ordinal)?;
    }
    let current = Current::new(context)?;
    if !is_default(stream) {
        check_stream(stream, context, ordinal)?;
    }
    refuse_capture(stream, call)?;
    Ok(current)
}

/// Number of the NUMA node whose memory is closest to the device; `None` if the system has no such
/// nodes, or the driver cannot tell (before CUDA 12.2).
pub fn closest_node(device: CUdevice) -> Option<u32> {
    const HOST_NUMA_ID: i32 = 134;
    attribute(device, HOST_NUMA_ID).ok().and_then(|node| u32::try_from(node).ok())
}

/// The architecture for which kernels are compiled: 10 times the compute capability, as in sm_90.
pub fn architecture(device: CUdevice) -> Result<u32> {
    let major = attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR as i32)?;
    let minor = attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR as i32)?;
    Ok(10 * major as u32 + minor as u32)
}
