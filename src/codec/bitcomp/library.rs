//! libnvcomp, opened at run time; gpuzip neither links nor ships libnvcomp.
//!
//! The environment variable `GPUZIP_NVCOMP` names the file of the library; without the variable,
//! libnvcomp.so.6, .5 or .4 on the system's library path is opened. This module calls the native
//! functions of nvcomp's documentation (docs.nvidia.com/cuda/nvcomp).

use crate::codec::coder::Shape;
use crate::device::Stream;
use crate::environment;
use crate::error::{fail, Result};
use crate::scalar::Scalar;
use crate::shared_library::{self, functions};
use once_cell::race::OnceBox;
use std::ffi::{c_int, c_void, CStr, CString};

/// The environment variable that names the library's file.
pub const PATH: &str = "GPUZIP_NVCOMP";
/// File names to try if the environment variable is not set.
const NAMES: [&str; 3] = ["libnvcomp.so.6", "libnvcomp.so.5", "libnvcomp.so.4"];

/// Values of `bitcompDataType_t`.
const FP32: c_int = 9;
const FP64: c_int = 10;
/// Value of `bitcompMode_t`: lossy compression to signed integers.
pub const LOSSY_TO_SIGNED: c_int = 1;
/// Room for Bitcomp's header and for reads of Bitcomp behind the end of a stream, in 8-byte words.
pub const SLACK: usize = 64;

/// A plan of libnvcomp.
pub type Handle = *mut c_void;

functions! {
    /// Functions that run on the host, during the call.
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
    /// Functions that enqueue kernels on the stream of a plan; every address must be of memory that
    /// the device can access.
    Device:
    set_stream = c"bitcompSetStream": fn(Handle, *mut c_void) -> c_int;
    compress_fp32 = c"bitcompCompressLossy_fp32": fn(Handle, *const f32, *mut c_void, f32) -> c_int;
    compress_fp64 = c"bitcompCompressLossy_fp64": fn(Handle, *const f64, *mut c_void, f64) -> c_int;
    uncompress = c"bitcompUncompress": fn(Handle, *const c_void, *mut c_void) -> c_int;
    compressed_size = c"bitcompGetCompressedSizeAsync": fn(*const c_void, *mut usize, *mut c_void) -> c_int;
}

/// An opened libnvcomp. The library stays open until the process ends.
pub struct Library {
    /// File name of the library.
    pub name: String,
    /// The functions that run on the host.
    pub host: Host,
    /// The functions that run on a device, or the name of one that the library lacks.
    device: std::result::Result<Device, &'static CStr>,
}

impl Library {
    /// Returns the library of this process, which the first call that finds one opens.
    pub fn get() -> Result<&'static Library> {
        static LIBRARY: OnceBox<Library> = OnceBox::new();
        let open = || match environment::text(PATH) {
            Some(path) => Library::open(&[&path]),
            None => Library::open(&NAMES),
        };
        LIBRARY.get_or_try_init(|| open().map(Box::new))
    }

    /// Opens the first of these files that is a libnvcomp; the error names all of them.
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
        let path = CString::new(name).map_err(|_| format!("{name:?} is not a file name"))?;
        let library = shared_library::open(&path)?;
        let host = Host::of(library)
            .map_err(|symbol| format!("{name} lacks {}", symbol.to_string_lossy()))?;
        Ok(Library { name: name.into(), host, device: Device::of(library) })
    }

    /// Returns an error that names the function `call` if `status` is not 0.
    pub fn check(&self, status: c_int, call: &str) -> Result<()> {
        match status {
            0 => Ok(()),
            _ => fail!(Device, "bitcomp: {call} of {} failed with status {status}", self.name),
        }
    }
}

/// A plan of Bitcomp for arrays of one shape.
pub struct Plan {
    pub library: &'static Library,
    pub handle: Handle,
    pub shape: Shape,
}

// SAFETY: a plan belongs to no thread; only its coder, on one thread at a time, uses the plan.
unsafe impl Send for Plan {}

impl Plan {
    /// Makes a plan; `algorithm`: 0 default, 1 for arrays with many zeros.
    pub fn new(library: &'static Library, shape: Shape, algorithm: i32) -> Result<Self> {
        let (mut handle, kind, mode) = (std::ptr::null_mut(), data_type(shape), LOSSY_TO_SIGNED);
        // SAFETY: `handle` is a local variable that the call writes.
        let status = unsafe {
            (library.host.create_plan)(&mut handle, shape.bytes(), kind, mode, algorithm)
        };
        library.check(status, "bitcompCreatePlan")?;
        Ok(Plan { library, handle, shape })
    }

    /// Returns the largest number of 8-byte words of a stream.
    pub fn most_words(&self) -> usize {
        // SAFETY: the function takes a number and accesses no memory of the caller.
        unsafe { (self.library.host.max_bytes)(self.shape.bytes()) }.div_ceil(8)
    }

    /// Makes `stream` the stream of the plan and returns the functions that run on a device.
    fn device(&self, stream: Stream) -> Result<&Device> {
        let Library { name, device, .. } = self.library;
        let device = match device {
            Ok(device) => device,
            Err(symbol) => {
                let symbol = symbol.to_string_lossy();
                return fail!(Unsupported, "bitcomp on CUDA: {name} lacks {symbol}");
            }
        };
        // SAFETY: the plan and the caller's stream are alive.
        let set = unsafe { (device.set_stream)(self.handle, stream.0.cast()) };
        self.library.check(set, "bitcompSetStream")?;
        Ok(device)
    }

    /// Enqueues the coding, with delta 1, of the array at `from` into the stream at `to`, which has
    /// room for `most_words` words, and the writing of the stream's size in bytes to `size`. All
    /// addresses are of device memory.
    pub fn enqueue_compress(&self, stream: Stream, from: u64, to: u64, size: u64) -> Result<()> {
        let (device, handle, to) = (self.device(stream)?, self.handle, to as *mut c_void);
        // SAFETY: only the device accesses these addresses; the caller says that they are valid.
        unsafe {
            let status = match data_type(self.shape) {
                FP32 => (device.compress_fp32)(handle, from as *const f32, to, 1.0),
                _ => (device.compress_fp64)(handle, from as *const f64, to, 1.0),
            };
            self.library.check(status, "bitcompCompressLossy")?;
            let status = (device.compressed_size)(to, size as *mut usize, stream.0.cast());
            self.library.check(status, "bitcompGetCompressedSizeAsync")
        }
    }

    /// Enqueues the decoding of the stream at `from` into the array at `to`. `from` must hold a
    /// stream of an array of this shape: nothing is checked.
    pub fn enqueue_uncompress(&self, stream: Stream, from: u64, to: u64) -> Result<()> {
        let device = self.device(stream)?;
        // SAFETY: only the device accesses these addresses; the caller says that they are valid.
        let status =
            unsafe { (device.uncompress)(self.handle, from as *const c_void, to as *mut c_void) };
        self.library.check(status, "bitcompUncompress")
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        // SAFETY: this library made the plan, and nothing uses the plan after this call.
        unsafe { (self.library.host.destroy_plan)(self.handle) };
    }
}

/// Returns the `bitcompDataType_t` of the values.
pub fn data_type(shape: Shape) -> c_int {
    match shape.scalar {
        Scalar::F32 => FP32,
        _ => FP64,
    }
}
