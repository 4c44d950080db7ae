//! A device with the kernels of `kernels.cu`: a GPU, or the software driver.

use crate::common::app::device::Primary;
pub use crate::common::app::device::{Memory, Own, Pair, Pinned};
use crate::common::app::ok;
use cudarc::driver::sys::{self, CUcontext, CUstream};
use gpuzip::device::cuda::{devices, Argument, DeviceInfo, Module, Source};
use gpuzip::device::Stream;
use gpuzip::device::{Function, Queue};
use std::ffi::{CStr, CString};

/// The kernels, compiled as the library's are; `make gpu-bundle` compiles them in advance.
pub fn source() -> Source {
    Source {
        name: "gpu_machine",
        parts: &[("gpu_machine/kernels.cu", include_str!("kernels.cu"))],
        double: false,
    }
}

/// A value in a row of results, as JSON.
pub trait Json {
    fn json(&self) -> String;
}

macro_rules! json {
    ($format:literal: $($T:ty),*) => {
        $(impl Json for $T {
            fn json(&self) -> String {
                format!($format, self)
            }
        })*
    };
}
json!("{}": bool, i32, u32, u64, usize);
json!("{:.6}": f64);
json!("\"{}\"": &str, String);

impl<T: Json> Json for Option<T> {
    fn json(&self) -> String {
        self.as_ref().map_or("null".to_owned(), Json::json)
    }
}

/// Prints a row of the results as a JSON object. `device` is its name, and whether it is the software
/// driver's.
pub fn print_row(device: (&str, bool), probe: &str, members: &[(&str, &dyn Json)]) {
    let members: String =
        members.iter().map(|(name, value)| format!(", \"{name}\": {}", value.json())).collect();
    let (device, software) = device;
    println!(
        "{{\"probe\": \"{probe}\", \"device\": \"{device}\", \"software\": {software}{members}}}"
    );
}

/// A device and its kernels.
pub struct Gpu {
    pub info: DeviceInfo,
    fill: Function,
    check: Function,
    through: Function,
    report: Function,
    fault: Function,
    _module: Module,
    primary: Primary,
}

impl Gpu {
    /// Makes the device's primary context current and loads the kernels.
    pub fn new(ordinal: i32) -> Self {
        let info = devices().unwrap().swap_remove(ordinal as usize);
        let primary = Primary::new(ordinal);
        let module = Module::of(&source(), info.architecture).unwrap();
        let function = |name: &CStr| module.function(name).unwrap();
        let [fill, check, through, report, fault] =
            [c"fill", c"check", c"through", c"report", c"fault"].map(function);
        Gpu { info, fill, check, through, report, fault, _module: module, primary }
    }

    pub fn context(&self) -> CUcontext {
        self.primary.context
    }

    /// Whether the device is the software driver's: its times mean nothing.
    pub fn is_software(&self) -> bool {
        self.info.name.contains("software")
    }

    /// Returns one size for a GPU and another one for the software driver.
    pub fn size<T>(&self, gpu: T, software: T) -> T {
        if self.is_software() {
            software
        } else {
            gpu
        }
    }

    /// Prints a row of the results: what was run where, and these members.
    pub fn row(&self, probe: &str, members: &[(&str, &dyn Json)]) {
        print_row((&self.info.name, self.is_software()), probe, members);
    }

    /// Returns a measured figure; the software driver has none.
    pub fn figure(&self, value: f64) -> Option<f64> {
        (!self.is_software()).then_some(value)
    }

    fn launch(&self, stream: CUstream, function: Function, count: u64, of: &[&dyn Argument]) {
        let blocks = count.div_ceil(256).min(self.size(4096, 4));
        Queue(Stream(stream.cast())).launch(function, blocks, 256, of).unwrap();
    }

    /// Enqueues the writing of a state into `count` values, slowly by `rounds`.
    pub fn fill(&self, stream: CUstream, at: u64, count: u64, state: u32, rounds: u32) {
        self.launch(stream, self.fill, count, &[&at, &count, &state, &rounds]);
    }

    /// Enqueues the check of a state. The kernel adds the number of wrong values to the word at
    /// `wrong`.
    pub fn check(&self, s: CUstream, at: u64, count: u64, state: u32, of_1024: u32, wrong: u64) {
        self.launch(s, self.check, count, &[&at, &count, &state, &of_1024, &wrong]);
    }

    /// Enqueues a kernel that reads and writes `count` values `rounds` times.
    pub fn through(&self, stream: CUstream, at: u64, count: u64, rounds: u32) {
        self.launch(stream, self.through, count, &[&at, &count, &rounds]);
    }

    /// Enqueues a kernel that stores 32 bytes at `to`.
    pub fn report(&self, stream: CUstream, to: u64, word: u64) {
        self.launch(stream, self.report, 1, &[&to, &word]);
    }

    /// Enqueues a kernel that fails if the word at `at` is 0.
    pub fn fault(&self, stream: CUstream, at: u64) {
        self.launch(stream, self.fault, 1, &[&at]);
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // SAFETY: the context is live; a failure changes nothing.
        let _ = unsafe { sys::cuCtxSynchronize() };
    }
}

/// Whether the driver has the function `name`; the software driver lacks some.
pub fn driver_has(name: &str) -> bool {
    let name = CString::new(name).unwrap();
    // SAFETY: the library is loaded already; the symbol is looked up, not called.
    unsafe {
        let library = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW);
        !library.is_null() && !libc::dlsym(library, name.as_ptr()).is_null()
    }
}

/// Sets `bytes` bytes of device memory. The driver's function alone may return before the memory is
/// set, which other streams do not wait for.
pub fn set(at: u64, byte: u8, bytes: usize) {
    ok!(cuMemsetD8_v2(at, byte, bytes));
    ok!(cuCtxSynchronize());
}
