//! libnvcomp, opened at run time, never linked and never shipped.
//!
//! `GPUZIP_NVCOMP` names its file; else it is libnvcomp.so.6, .5 or .4 of the system's library
//! path. Used are the native functions of nvcomp's documentation (docs.nvidia.com/cuda/nvcomp):
//! those that run on the host, and those that enqueue on a plan's stream.

use crate::codec::coder::Shape;
use crate::device::Stream;
use crate::error::{fail, Result};
use crate::scalar::Real;
use once_cell::race::OnceBox;
use std::ffi::{c_int, c_void, CStr, CString};

/// The environment variable that names the library's file.
pub const PATH: &str = "GPUZIP_NVCOMP";
/// Names to look for without it.
const NAMES: [&str; 3] = ["libnvcomp.so.6", "libnvcomp.so.5", "libnvcomp.so.4"];

/// `bitcompDataType_t`.
const FP32: c_int = 9;
const FP64: c_int = 10;
/// `bitcompMode_t`.
pub const LOSSY_TO_SIGNED: c_int = 1;
/// Room for Bitcomp's header, and for what it may read behind a stream's end, in 8-byte words.
pub const SLACK: usize = 64;

pub type Handle = *mut c_void;

macro_rules! functions {
    ($(#[$doc:meta])* $name:ident: $($field:ident = $symbol:literal: fn($($argument:ty),*) -> $output:ty;)*) => {
        $(#[$doc])*
        pub struct $name {
            $(pub $field: unsafe extern "C" fn($($argument),*) -> $output,)*
        }

        impl $name {
            /// Looks all functions up. The error is the name of one that is missing.
            fn of(library: *mut c_void) -> std::result::Result<Self, &'static CStr> {
                Ok($name {
                    $($field: {
                        // SAFETY: the library is open.
                        let address = unsafe { libc::dlsym(library, $symbol.as_ptr()) };
                        if address.is_null() {
                            return Err($symbol);
                        }
                        // SAFETY: nvcomp 4, 5 and 6 declare this function with these types (its enumerations are ints).
                        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) -> $output>(address) }
                    },)*
                })
            }
        }
    };
}

functions! {
    /// What runs on the host, when it is called.
    Host:
    create_plan = c"bitcompCreatePlan": fn(*mut Handle, usize, c_int, c_int, c_int) -> c_int;
    destroy_plan = c"bitcompDestroyPlan": fn(Handle) -> c_int;
    compress_fp32 = c"bitcompHostCompressLossy_fp32": fn(Handle, *const f32, *mut c_void, f32) -> c_int;
    compress_fp64 = c"bitcompHostCompressLossy_fp64": fn(Handle, *const f64, *mut c_void, f64) -> c_int;
    uncompress = c"bitcompHostUncompress": fn(Handle, *const c_void, *mut c_void) -> c_int;
    max_bytes = c"bitcompMaxBuflen": fn(usize) -> usize;
    compressed_size = c"bitcompGetCompressedSize": fn(*const c_void, *mut usize) -> c_int;
    compressed_info = c"bitcompGetCompressedInfo": fn(*const c_void, *mut usize, *mut usize, *mut c_int, *mut c_int, *mut c_int) -> c_int;
}

functions! {
    /// What runs on a device, on the plan's stream; all addresses are of memory that the device can use.
    Device:
    set_stream = c"bitcompSetStream": fn(Handle, *mut c_void) -> c_int;
    compress_fp32 = c"bitcompCompressLossy_fp32": fn(Handle, *const f32, *mut c_void, f32) -> c_int;
    compress_fp64 = c"bitcompCompressLossy_fp64": fn(Handle, *const f64, *mut c_void, f64) -> c_int;
    uncompress = c"bitcompUncompress": fn(Handle, *const c_void, *mut c_void) -> c_int;
    compressed_size = c"bitcompGetCompressedSizeAsync": fn(*const c_void, *mut usize, *mut c_void) -> c_int;
}

/// An opened libnvcomp. It stays open until the process ends.
pub struct Library {
    pub name: String,
    pub host: Host,
    /// Or the name of a function that it lacks.
    device: std::result::Result<Device, &'static CStr>,
}

impl Library {
    /// The library of this process, opened by the first call that finds one: where there was none,
    /// the next call looks again.
    pub fn get() -> Result<&'static Library> {
        static LIBRARY: OnceBox<Library> = OnceBox::new();
        let open = || match std::env::var(PATH) {
            Ok(path) => Library::open(&[&path]),
            Err(_) => Library::open(&NAMES),
        };
        LIBRARY.get_or_try_init(|| open().map(Box::new))
    }

    /// Opens the first of these files that is a libnvcomp.
    pub fn open(names: &[&str]) -> Result<Library> {
        let mut tried = Vec::new();
        for name in names {
            match Library::of(name) {
                Ok(library) => return Ok(library),
                Err(reason) => tried.push(reason),
            }
        }
        fail!(
            Unsupported,
            "bitcomp needs NVIDIA's nvcomp 4, 5 or 6: install it, or name its libnvcomp.so in {PATH} (tried: {})",
            tried.join("; ")
        )
    }

    fn of(name: &str) -> std::result::Result<Library, String> {
        let library = open(name)?;
        let host = Host::of(library)
            .map_err(|symbol| format!("{name} lacks {}", symbol.to_string_lossy()))?;
        Ok(Library { name: name.into(), host, device: Device::of(library) })
    }

    pub fn check(&self, status: c_int, call: &str) -> Result<()> {
        match status {
            0 => Ok(()),
            _ => fail!(Device, "bitcomp: {call} of {} failed with status {status}", self.name),
        }
    }
}

/// Opens a library; the error is the system's text.
fn open(name: &str) -> std::result::Result<*mut c_void, String> {
    let path = CString::new(name).map_err(|_| format!("{name:?} is not a file name"))?;
    // SAFETY: the path is a C string; opening a library runs its initialisers, as the user wants
    // who installed it.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if !library.is_null() {
        return Ok(library);
    }
    // SAFETY: the text belongs to this thread until its next call of these functions.
    let text = unsafe {
        let text = libc::dlerror();
        if text.is_null() { c"unknown error" } else { CStr::from_ptr(text) }
            .to_string_lossy()
            .into_owned()
    };
    Err(if text.contains(name) { text } else { format!("{name}: {text}") })
}

/// A plan of Bitcomp's, for arrays of one shape.
pub struct Plan {
    pub library: &'static Library,
    pub handle: Handle,
    shape: Shape,
}

// SAFETY: a plan belongs to no thread, and only its coder uses it, which one thread has at a time.
unsafe impl Send for Plan {}

impl Plan {
    /// `algorithm`: 0 default, 1 for arrays with many zeros.
    pub fn new(library: &'static Library, shape: Shape, algorithm: i32) -> Result<Self> {
        if !matches!(algorithm, 0 | 1) {
            return fail!(
                Config,
                "bitcomp_algorithm = {algorithm}: known are 0 (default) and 1 (sparse)"
            );
        }
        let mut handle = std::ptr::null_mut();
        // SAFETY: the handle is written.
        let status = unsafe {
            (library.host.create_plan)(
                &mut handle,
                shape.bytes(),
                data_type(shape),
                LOSSY_TO_SIGNED,
                algorithm,
            )
        };
        library.check(status, "bitcompCreatePlan")?;
        Ok(Plan { library, handle, shape })
    }

    /// Most 8-byte words of a stream.
    pub fn most_words(&self) -> usize {
        // SAFETY: a function of a number.
        unsafe { (self.library.host.max_bytes)(self.shape.bytes()) }.div_ceil(8)
    }

    fn device(&self, stream: Stream) -> Result<&Device> {
        let device = match &self.library.device {
            Ok(device) => device,
            Err(symbol) => {
                return fail!(
                    Unsupported,
                    "bitcomp on CUDA: {} lacks {}",
                    self.library.name,
                    symbol.to_string_lossy()
                )
            }
        };
        // SAFETY: the plan is alive, and the caller's stream is.
        self.library.check(
            unsafe { (device.set_stream)(self.handle, stream.0.cast()) },
            "bitcompSetStream",
        )?;
        Ok(device)
    }

    /// Enqueues the coding, with delta 1, of the array at `from` into the stream at `to`, which has
    /// `most_words`, and the writing of its bytes to `size`, all in device memory.
    pub fn enqueue_compress(&self, stream: Stream, from: u64, to: u64, size: u64) -> Result<()> {
        let device = self.device(stream)?;
        // SAFETY: nothing is done here with these addresses; the device finds there what the caller
        // promises.
        unsafe {
            let status = match data_type(self.shape) {
                FP32 => {
                    (device.compress_fp32)(self.handle, from as *const f32, to as *mut c_void, 1.0)
                }
                _ => {
                    (device.compress_fp64)(self.handle, from as *const f64, to as *mut c_void, 1.0)
                }
            };
            self.library.check(status, "bitcompCompressLossy")?;
            let status =
                (device.compressed_size)(to as *const c_void, size as *mut usize, stream.0.cast());
            self.library.check(status, "bitcompGetCompressedSizeAsync")
        }
    }

    /// Enqueues the decoding of the stream at `from` into the array at `to`. It must be a stream of
    /// such an array: nothing is checked.
    pub fn enqueue_uncompress(&self, stream: Stream, from: u64, to: u64) -> Result<()> {
        let device = self.device(stream)?;
        // SAFETY: as above.
        let status =
            unsafe { (device.uncompress)(self.handle, from as *const c_void, to as *mut c_void) };
        self.library.check(status, "bitcompUncompress")
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        // SAFETY: the plan was made by this library and is not used again.
        unsafe { (self.library.host.destroy_plan)(self.handle) };
    }
}

pub fn data_type(shape: Shape) -> c_int {
    if shape.scalar == f32::SCALAR {
        FP32
    } else {
        FP64
    }
}
