//! `bitcomp`: NVIDIA Bitcomp, from the libnvcomp that the user has installed.
//!
//! The library is opened at run time, never linked and never shipped. `GPUZIP_NVCOMP` names its file; else it is libnvcomp.so.6, .5 or .4
//! of the system's library path. Used are the native functions for the host, as nvcomp's documentation has them
//! (docs.nvidia.com/cuda/nvcomp), in the mode "lossy to signed integers": x becomes the integer nearest to x / delta, and the integers
//! are packed. The payload is what Bitcomp writes, unchanged; its size is in its own header.
//!
//! From nvcomp 5.2 on delta is rounded down to a power of two. Here it always is one, so that every version gives the same error: products
//! with it are exact. Every array is decoded again before it is accepted.

use super::coder::{Bound, Coder, Shape};
use super::real::{Array, ArrayMut, Real};
use crate::error::{fail, Code, Result};
use crate::room::filled;
use std::ffi::{c_int, c_void, CStr, CString};
use std::sync::OnceLock;

/// The environment variable that names the library's file.
const PATH: &str = "GPUZIP_NVCOMP";
/// Names to look for without it.
const NAMES: [&str; 3] = ["libnvcomp.so.6", "libnvcomp.so.5", "libnvcomp.so.4"];

/// `bitcompDataType_t`.
const FP32: c_int = 9;
const FP64: c_int = 10;
/// `bitcompMode_t`.
const LOSSY_TO_SIGNED: c_int = 1;
/// Room for Bitcomp's header, and for what it may read behind a stream's end, in 8-byte words.
const SLACK: usize = 64;

type Handle = *mut c_void;

macro_rules! library {
    ($($field:ident = $symbol:literal: fn($($argument:ty),*) -> $output:ty;)*) => {
        /// An opened libnvcomp. It stays open until the process ends.
        pub struct Library {
            name: String,
            $($field: unsafe extern "C" fn($($argument),*) -> $output,)*
        }

        impl Library {
            /// Looks all functions up. The error is the name of one that is missing.
            fn of(name: &str, library: *mut c_void) -> std::result::Result<Self, &'static CStr> {
                Ok(Library {
                    name: name.into(),
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

library! {
    create_plan = c"bitcompCreatePlan": fn(*mut Handle, usize, c_int, c_int, c_int) -> c_int;
    destroy_plan = c"bitcompDestroyPlan": fn(Handle) -> c_int;
    compress_fp32 = c"bitcompHostCompressLossy_fp32": fn(Handle, *const f32, *mut c_void, f32) -> c_int;
    compress_fp64 = c"bitcompHostCompressLossy_fp64": fn(Handle, *const f64, *mut c_void, f64) -> c_int;
    uncompress = c"bitcompHostUncompress": fn(Handle, *const c_void, *mut c_void) -> c_int;
    max_bytes = c"bitcompMaxBuflen": fn(usize) -> usize;
    compressed_size = c"bitcompGetCompressedSize": fn(*const c_void, *mut usize) -> c_int;
    compressed_info = c"bitcompGetCompressedInfo": fn(*const c_void, *mut usize, *mut usize, *mut c_int, *mut c_int, *mut c_int) -> c_int;
}

impl Library {
    /// The library of this process, opened by the first call. Its error, too, is kept.
    pub fn get() -> Result<&'static Library> {
        static LIBRARY: OnceLock<Result<Library>> = OnceLock::new();
        let open = || match std::env::var(PATH) {
            Ok(path) => Library::open(&[&path]),
            Err(_) => Library::open(&NAMES),
        };
        LIBRARY.get_or_init(open).as_ref().map_err(Clone::clone)
    }

    /// Opens the first of these files that is a libnvcomp.
    pub fn open(names: &[&str]) -> Result<Library> {
        let mut tried = Vec::new();
        for name in names {
            match open(name)
                .and_then(|library| Library::of(name, library).map_err(|symbol| format!("{name} lacks {}", symbol.to_string_lossy())))
            {
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

    fn check(&self, status: c_int, call: &str) -> Result<()> {
        match status {
            0 => Ok(()),
            _ => fail!(Device, "bitcomp: {call} of {} failed with status {status}", self.name),
        }
    }
}

/// Opens a library; the error is the system's text.
fn open(name: &str) -> std::result::Result<*mut c_void, String> {
    let path = CString::new(name).map_err(|_| format!("{name:?} is not a file name"))?;
    // SAFETY: the path is a C string; opening a library runs its initialisers, as the user wants who installed it.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if !library.is_null() {
        return Ok(library);
    }
    // SAFETY: the text belongs to this thread until its next call of these functions.
    let text = unsafe {
        let text = libc::dlerror();
        if text.is_null() { c"unknown error" } else { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    };
    Err(if text.contains(name) { text } else { format!("{name}: {text}") })
}

/// How GPUZIP 2.x's configuration chooses delta for an array. The error is delta / 2: the bound is `Bound::Max(delta / 2)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Delta {
    /// Mode 0: this fraction of max |x|.
    Fraction(f64),
    /// Mode 1: a fraction of the width of [mean - sigmas sigma, mean + sigmas sigma].
    Range {
        /// The fraction.
        fraction: f64,
        /// Standard deviations on either side of the mean.
        sigmas: f64,
    },
    /// Mode 2: this one.
    Static(f64),
}

impl Delta {
    /// From `bitcomp_delta_config`, `bitcomp_range_fraction`, `bitcomp_num_sigma` and `bitcomp_delta`; what a mode does not use is not
    /// looked at.
    pub fn from_config(mode: i32, fraction: f64, sigmas: f64, delta: f64) -> Result<Delta> {
        if matches!(mode, 0 | 1) && !(fraction > 0.0 && fraction < 1.0) {
            return fail!(
                Config,
                "bitcomp_range_fraction = {fraction}: with bitcomp_delta_config = {mode} it must lie between 0 and 1 (where GPUZIP 2.x \
                 divided by it, give its inverse)"
            );
        }
        match mode {
            0 => Ok(Delta::Fraction(fraction)),
            1 if sigmas > 0.0 && sigmas.is_finite() => Ok(Delta::Range { fraction, sigmas }),
            1 => fail!(Config, "bitcomp_num_sigma = {sigmas}: with bitcomp_delta_config = 1 it must be positive and finite"),
            2 if delta > 0.0 && delta.is_finite() => Ok(Delta::Static(delta)),
            2 => fail!(Config, "bitcomp_delta = {delta}: with bitcomp_delta_config = 2 it must be positive and finite"),
            _ => fail!(Config, "bitcomp_delta_config = {mode}: known are 0 (fraction of the maximum), 1 (statistical range), 2 (static)"),
        }
    }

    /// Numbers of its own among the modes of error bounds, and its value.
    pub(super) fn key(self) -> (i32, f64) {
        match self {
            Delta::Fraction(fraction) => (4, fraction),
            Delta::Range { fraction, sigmas } => (5, 2.0 * sigmas * fraction),
            Delta::Static(delta) => (6, delta),
        }
    }

    /// Delta of an array, positive and finite. A constant array has no range: the fraction is then one of its maximum; and where all
    /// values are 0 every delta is exact, and it is 1.
    pub fn of(self, array: &Statistics) -> f64 {
        let delta = match self {
            Delta::Static(delta) => return delta,
            Delta::Range { fraction, sigmas } if array.sigma > 0.0 => (2.0 * sigmas * array.sigma).min(f64::MAX) * fraction,
            Delta::Fraction(fraction) | Delta::Range { fraction, .. } => fraction * array.peak,
        };
        match array.peak == 0.0 {
            true => 1.0,
            false => delta.max(f64::MIN_POSITIVE),
        }
    }
}

/// What deltas depend on, over the finite values of an array.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Statistics {
    /// max |x|.
    pub peak: f64,
    /// The standard deviation, by 1 / n.
    pub sigma: f64,
}

impl Statistics {
    /// Of an array; all zero if nothing in it is finite.
    pub fn of(x: Array<'_>) -> Self {
        match x {
            Array::F32(x) => Self::of_values(x),
            Array::F64(x) => Self::of_values(x),
        }
    }

    fn of_values<T: Real>(x: &[T]) -> Self {
        let finite = || x.iter().filter(|x| x.is_finite()).map(|x| x.to_f64());
        let peak = finite().fold(0f64, |peak, x| peak.max(x.abs()));
        let n = finite().count() as f64;
        if peak == 0.0 {
            return Self::default();
        }
        // Relative to the maximum, or the squares might overflow.
        let mean = finite().map(|x| x / peak).sum::<f64>() / n;
        let variance = finite().map(|x| (x / peak - mean) * (x / peak - mean)).sum::<f64>() / n;
        Statistics { peak, sigma: peak * variance.sqrt() }
    }
}

/// A plan of Bitcomp's.
struct Plan {
    library: &'static Library,
    handle: Handle,
}

// SAFETY: a plan belongs to no thread, and only its coder, by `&mut`, uses it.
unsafe impl Send for Plan {}

impl Drop for Plan {
    fn drop(&mut self) {
        // SAFETY: the plan was made by this library and is not used again.
        unsafe { (self.library.destroy_plan)(self.handle) };
    }
}

/// Bitcomp for arrays of one shape.
pub struct Bitcomp {
    shape: Shape,
    plan: Plan,
    /// A stream, aligned as Bitcomp wants it.
    stream: Vec<u64>,
    /// An array decoded again.
    again: Vec<u64>,
}

impl Bitcomp {
    /// For arrays of this shape; `algorithm`: 0 default, 1 for arrays with many zeros.
    pub fn new(shape: Shape, algorithm: i32) -> Result<Self> {
        Self::with(Library::get()?, shape, algorithm)
    }

    fn with(library: &'static Library, shape: Shape, algorithm: i32) -> Result<Self> {
        if !matches!(algorithm, 0 | 1) {
            return fail!(Config, "bitcomp_algorithm = {algorithm}: known are 0 (default) and 1 (sparse)");
        }
        let mut handle = std::ptr::null_mut();
        // SAFETY: the handle is written.
        let status = unsafe { (library.create_plan)(&mut handle, shape.bytes(), data_type(shape), LOSSY_TO_SIGNED, algorithm) };
        library.check(status, "bitcompCreatePlan")?;
        let plan = Plan { library, handle };
        // SAFETY: a function of a number.
        let most = unsafe { (library.max_bytes)(shape.bytes()) };
        Ok(Bitcomp { shape, plan, stream: filled(0, most.div_ceil(8) + SLACK)?, again: filled(0, shape.bytes().div_ceil(8))? })
    }

    fn encode<T: Lane>(&mut self, x: &[T], bound: Bound, to: &mut [u8]) -> Result<Option<usize>> {
        if x.len() != self.shape.values() || T::SCALAR != self.shape.scalar {
            return fail!(Shape, "bitcomp: {} values do not fit {:?}", x.len(), self.shape);
        }
        // The error is uniform in +-delta/2 as a rule, and then its rms is delta / sqrt(12); +-delta/2 always.
        let deltas = match bound {
            Bound::Max(bound) => [2.0 * bound, 0.0],
            Bound::Rms(bound) => [12f64.sqrt() * bound, 2.0 * bound],
        };
        for delta in deltas {
            let Some(delta) = T::delta(delta) else { continue };
            let bytes = self.quantised(x, delta)?;
            if bytes > to.len().min(self.shape.bytes()) {
                return Ok(None);
            }
            if self.kept(x, bound)? {
                // SAFETY: bytes of integers, no more than the vector has.
                to[..bytes].copy_from_slice(unsafe { std::slice::from_raw_parts(self.stream.as_ptr().cast(), bytes) });
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }

    /// Codes into `stream` and returns the bytes it took.
    fn quantised<T: Lane>(&mut self, x: &[T], delta: T) -> Result<usize> {
        let Plan { library, handle } = self.plan;
        let mut bytes = 0;
        // SAFETY: the plan is for as many values as `x` has, and `stream` has what Bitcomp says it needs at most.
        unsafe {
            library.check(T::compress(library, handle, x.as_ptr(), self.stream.as_mut_ptr().cast(), delta), "bitcompHostCompressLossy")?;
            library.check((library.compressed_size)(self.stream.as_ptr().cast(), &mut bytes), "bitcompGetCompressedSize")?;
        }
        match bytes <= (self.stream.len() - SLACK) * 8 {
            true => Ok(bytes),
            false => fail!(Device, "bitcomp: {} wrote {bytes} bytes, more than it may", library.name),
        }
    }

    /// Decodes `stream` and says whether the bound holds and what is not finite came back.
    fn kept<T: Lane>(&mut self, x: &[T], bound: Bound) -> Result<bool> {
        let Plan { library, handle } = self.plan;
        // SAFETY: `stream` was just made by this plan; `again` has the bytes of the array.
        let status = unsafe { (library.uncompress)(handle, self.stream.as_ptr().cast(), self.again.as_mut_ptr().cast()) };
        library.check(status, "bitcompHostUncompress")?;
        // SAFETY: `again` has room for the array, aligned for 8-byte values; every bit pattern is a value.
        let again = unsafe { std::slice::from_raw_parts(self.again.as_ptr().cast::<T>(), x.len()) };
        let error = |(x, y): (&T, &T)| match x.is_finite() {
            true => (x.to_f64() - y.to_f64()).abs(),
            false if x.to_bits() == y.to_bits() => 0.0,
            false => f64::NAN,
        };
        let errors = x.iter().zip(again).map(error);
        Ok(match bound {
            // A comparison with NaN is false.
            Bound::Max(bound) => errors.fold(true, |kept, error| kept & (error <= bound)),
            Bound::Rms(bound) => (errors.map(|error| (error / bound) * (error / bound)).sum::<f64>() / x.len() as f64).sqrt() <= 1.0,
        })
    }

    fn decode<T: Lane>(&mut self, from: &[u8], x: &mut [T]) -> Result<()> {
        let Plan { library, handle } = self.plan;
        let most = (self.stream.len() - SLACK) * 8;
        if x.len() != self.shape.values() || T::SCALAR != self.shape.scalar || from.len() > most {
            return fail!(Shape, "bitcomp: {} bytes for {} values do not fit {:?}", from.len(), x.len(), self.shape);
        }
        let words = from.len() / 8;
        self.stream[words..words + SLACK].fill(0);
        // SAFETY: the vector has more than `from.len()` bytes, and every byte is part of an integer.
        let stream = unsafe { std::slice::from_raw_parts_mut(self.stream.as_mut_ptr().cast::<u8>(), from.len()) };
        stream.copy_from_slice(from);
        let (mut stored, mut raw, mut scalar, mut mode, mut algorithm) = (from.len(), 0, -1, -1, -1);
        // SAFETY: `stream` holds a header's worth of bytes, and all pointers are written.
        let status = unsafe {
            (library.compressed_info)(self.stream.as_ptr().cast(), &mut stored, &mut raw, &mut scalar, &mut mode, &mut algorithm)
        };
        let expected = (from.len(), self.shape.bytes(), data_type(self.shape), LOSSY_TO_SIGNED);
        if status != 0 || (stored, raw, scalar, mode) != expected {
            return fail!(Stream, "bitcomp: the {} bytes are not a stream of {} values", from.len(), x.len());
        }
        // SAFETY: the stream says that it decodes to what `x` has.
        let status = unsafe { (library.uncompress)(handle, self.stream.as_ptr().cast(), x.as_mut_ptr().cast()) };
        library.check(status, "bitcompHostUncompress").map_err(|e| crate::error::Error::new(Code::Stream, e.message))
    }
}

fn data_type(shape: Shape) -> c_int {
    if shape.scalar == f32::SCALAR {
        FP32
    } else {
        FP64
    }
}

impl Coder for Bitcomp {
    /// What Bitcomp may need beyond the array's size is never given.
    fn max_bytes(&self) -> usize {
        self.shape.bytes()
    }

    fn compress(&mut self, x: Array<'_>, bound: Bound, to: &mut [u8]) -> Result<Option<usize>> {
        match x {
            Array::F32(x) => self.encode(x, bound, to),
            Array::F64(x) => self.encode(x, bound, to),
        }
    }

    /// The bytes must be whole: behind its header Bitcomp checks nothing, and damaged bytes may end the process. A checksum goes first.
    fn decompress(&mut self, from: &[u8], x: ArrayMut<'_>) -> Result<()> {
        match x {
            ArrayMut::F32(x) => self.decode(from, x),
            ArrayMut::F64(x) => self.decode(from, x),
        }
    }
}

/// A type that Bitcomp codes.
trait Lane: Real {
    /// The largest power of two that is no larger, if that is a normal number.
    fn delta(delta: f64) -> Option<Self>;
    /// The function for it.
    ///
    /// # Safety
    /// As the plan says: values behind `x`, and room behind `to`.
    unsafe fn compress(library: &Library, handle: Handle, x: *const Self, to: *mut c_void, delta: Self) -> c_int;
}

macro_rules! lane {
    ($float:ident, $compress:ident) => {
        impl Lane for $float {
            fn delta(delta: f64) -> Option<Self> {
                let power = f64::from_bits(delta.min($float::MAX as f64).to_bits() & f64::INFINITY.to_bits());
                (power >= $float::MIN_POSITIVE as f64).then_some(power as $float)
            }

            unsafe fn compress(library: &Library, handle: Handle, x: *const Self, to: *mut c_void, delta: Self) -> c_int {
                // SAFETY: the caller's.
                unsafe { (library.$compress)(handle, x, to, delta) }
            }
        }
    };
}

lane!(f32, compress_fp32);
lane!(f64, compress_fp64);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::PathBuf;
    use std::process::Command;

    /// A stand-in: rounds to multiples of delta, `COARSE` times coarser, and stores their upper three bytes behind a header. Without
    /// `COARSE` it lacks a function.
    const STAND_IN: &str = r#"
        #include <math.h>
        #include <stdlib.h>
        #include <string.h>
        #ifndef COARSE
        #define COARSE 1
        #define LACKING
        #endif
        typedef struct { size_t n; int type; } Plan;
        typedef struct { size_t stored, n; int type, mode; } Head;
        int bitcompCreatePlan(Plan **plan, size_t n, int type, int mode, int algorithm) {
            *plan = malloc(sizeof(Plan));
            (*plan)->n = n, (*plan)->type = type;
            return !(mode == 1 && algorithm < 2);
        }
        int bitcompDestroyPlan(Plan *plan) { free(plan); return 0; }
        size_t bitcompMaxBuflen(size_t n) { return n + sizeof(Head); }
        #define CODE(name, real) \
            int name(Plan *plan, const real *x, char *to, real delta) { \
                size_t i, n = sizeof(real) == 4 ? plan->n / 4 : 0; \
                Head head = {sizeof head + 3 * n, plan->n, plan->type, 1}; \
                memcpy(to, &head, sizeof head); \
                for (i = 0; i < n; i++) { \
                    float y = isfinite(x[i]) ? rint(x[i] / delta / COARSE) * delta * COARSE : x[i]; \
                    memcpy(to + sizeof head + 3 * i, (char *)&y + 1, 3); \
                } \
                return 0; \
            }
        CODE(bitcompHostCompressLossy_fp32, float)
        CODE(bitcompHostCompressLossy_fp64, double)
        int bitcompHostUncompress(Plan *plan, const char *from, char *x) {
            size_t i;
            memset(x, 0, plan->n);
            for (i = 0; i < plan->n / 4; i++) memcpy(x + 4 * i + 1, from + sizeof(Head) + 3 * i, 3);
            return 0;
        }
        int bitcompGetCompressedSize(const Head *head, size_t *size) { *size = head->stored; return 0; }
        #ifndef LACKING
        int bitcompGetCompressedInfo(const Head *head, size_t *stored, size_t *n, int *type, int *mode, int *algorithm) {
            *stored = head->stored, *n = head->n, *type = head->type, *mode = head->mode, *algorithm = 0;
            return 0;
        }
        #endif
    "#;

    /// The stand-in compiled with a definition, unless there is no C compiler.
    fn stand_in(name: &str, define: &str) -> Option<PathBuf> {
        let stem = std::env::temp_dir().join(format!("gpuzip-bitcomp-{}-{name}", std::process::id()));
        let (source, library) = (stem.with_extension("c"), stem.with_extension("so"));
        std::fs::write(&source, STAND_IN).unwrap();
        let status = Command::new("cc").args(["-shared", "-fPIC", define]).arg(&source).arg("-o").arg(&library).arg("-lm").status();
        std::fs::remove_file(source).unwrap();
        if status.is_err() {
            println!("skipped: no C compiler");
            return None;
        }
        assert!(status.unwrap().success());
        Some(library)
    }

    fn opened(name: &str, define: &str) -> Option<&'static Library> {
        let path = stand_in(name, define)?;
        let library = Library::open(&[path.to_str().unwrap()]).unwrap();
        std::fs::remove_file(path).unwrap();
        Some(Box::leak(Box::new(library)))
    }

    fn shape<T: Real>(n: usize) -> Shape {
        Shape { n: [n, 1, 1], scalar: T::SCALAR }
    }

    #[test]
    fn a_missing_library_is_an_error_that_names_what_was_tried() {
        let error = Library::open(&["/nowhere/libnvcomp.so.6", "libnvcomp-of-nobody.so", "a\0b"]).err().unwrap();
        assert_eq!(error.code, Code::Unsupported);
        for part in ["/nowhere/libnvcomp.so.6", "libnvcomp-of-nobody.so", "a\\0b", PATH, "No such file"] {
            assert!(error.message.contains(part), "{part:?} is not in {:?}", error.message);
        }
    }

    #[test]
    fn a_missing_function_is_an_error_that_names_it() {
        let Some(path) = stand_in("lacking", "-DWHATEVER") else { return };
        let error = Library::open(&[path.to_str().unwrap()]).err().unwrap();
        std::fs::remove_file(path).unwrap();
        assert_eq!(error.code, Code::Unsupported);
        assert!(error.message.contains("bitcomp-") && error.message.contains("lacks bitcompGetCompressedInfo"), "{}", error.message);
    }

    #[test]
    fn what_breaks_the_bound_is_not_given() {
        let (Some(fine), Some(coarse)) = (opened("fine", "-DCOARSE=1"), opened("coarse", "-DCOARSE=2")) else { return };
        let mut x: Vec<f32> = (0..100).map(|i| (i as f32 / 5.0).sin()).collect();
        (x[3], x[4], x[5]) = (f32::NAN, f32::INFINITY, -0.0);
        let mut to = [0; 400];
        for bound in [Bound::Max(0.01), Bound::Rms(0.01)] {
            let mut coder = Bitcomp::with(coarse, shape::<f32>(100), 0).unwrap();
            assert_eq!(coder.compress(Array::F32(&x), bound, &mut to).unwrap(), matches!(bound, Bound::Rms(_)).then_some(324));
            let mut coder = Bitcomp::with(fine, shape::<f32>(100), 1).unwrap();
            assert_eq!(coder.compress(Array::F32(&x), bound, &mut to).unwrap(), Some(324));
        }
        let mut coder = Bitcomp::with(fine, shape::<f32>(100), 0).unwrap();
        for bound in [1e-50, -1.0, f64::NAN] {
            assert_eq!(coder.compress(Array::F32(&x), Bound::Max(bound), &mut to).unwrap(), None);
        }
        assert!(coder.compress(Array::F64(&[0.0; 100]), Bound::Max(1.0), &mut to).is_err());
        assert!(coder.compress(Array::F32(&[0.0; 99]), Bound::Max(1.0), &mut to).is_err());
        assert!(Bitcomp::with(fine, shape::<f32>(100), 2).is_err());
    }

    #[test]
    fn a_stream_of_something_else_is_refused() {
        let Some(library) = opened("else", "-DCOARSE=1") else { return };
        let mut coder = Bitcomp::with(library, shape::<f32>(100), 0).unwrap();
        let mut to = [0; 400];
        let bytes = coder.compress(Array::F32(&[1.0; 100]), Bound::Max(0.1), &mut to).unwrap().unwrap();
        let mut x = [0.0; 100];
        assert!(coder.decompress(&to[..bytes], ArrayMut::F32(&mut x)).is_ok());
        for from in [&to[..bytes - 1], &to[..bytes + 1], &to[..0], &[0; 324], &[1; 500], &[9; 401]] {
            assert!(coder.decompress(from, ArrayMut::F32(&mut x)).is_err());
        }
        assert!(coder.decompress(&to[..bytes], ArrayMut::F64(&mut [0.0; 100])).is_err());
        let mut other = Bitcomp::with(library, shape::<f32>(99), 0).unwrap();
        assert!(other.decompress(&to[..bytes], ArrayMut::F32(&mut x[..99])).is_err());
    }

    #[test]
    fn configured_deltas() {
        for (mode, fraction, sigmas, delta) in
            [(0, 0.0, 1.0, 1.0), (0, 1e3, 1.0, 1.0), (1, 0.1, 0.0, 1.0), (1, 0.0, 1.0, 1.0), (1, 0.1, f64::NAN, 1.0), (2, 0.1, 1.0, 0.0)]
        {
            assert_eq!(Delta::from_config(mode, fraction, sigmas, delta).unwrap_err().code, Code::Config);
        }
        for delta in [f64::NAN, f64::INFINITY, -1e-8] {
            assert!(Delta::from_config(2, 0.0, 0.0, delta).is_err() && Delta::from_config(0, delta, 0.0, 0.0).is_err());
        }
        assert!(Delta::from_config(3, 0.1, 1.0, 1.0).is_err() && Delta::from_config(-1, 0.1, 1.0, 1.0).is_err());

        let [fraction, range, fixed] = [0, 1, 2].map(|mode| Delta::from_config(mode, 0.01, 3.0, 1e-8).unwrap());
        let of = |x: &[f64]| [fraction, range, fixed].map(|delta| delta.of(&Statistics::of(Array::F64(x))));
        assert_eq!(of(&[1.0, -4.0, 1.0, 2.0, f64::NAN, f64::INFINITY]), [0.04, 0.01 * 6.0 * (5.5f64).sqrt(), 1e-8]);
        assert_eq!(of(&[7.0; 10]), [0.07, 0.07, 1e-8]);
        assert_eq!(of(&[0.0; 10]), [1.0, 1.0, 1e-8]);
        assert_eq!(of(&[f64::NAN]), [1.0, 1.0, 1e-8]);
        assert_eq!(of(&[5e-324, 0.0])[..2], [f64::MIN_POSITIVE; 2]);
        for delta in of(&[f64::MAX, -f64::MAX]) {
            assert!(delta > 0.0 && delta.is_finite());
        }
    }

    #[test]
    fn deltas_are_powers_of_two() {
        assert_eq!([1.0, 0.75, 3.9, 2f64.powi(-126)].map(f32::delta), [Some(1.0), Some(0.5), Some(2.0), Some(f32::MIN_POSITIVE)]);
        assert_eq!((f32::delta(1e-45), f64::delta(5e-324), f64::delta(0.0)), (None, None, None));
        assert_eq!((f32::delta(f64::MAX), f64::delta(f64::INFINITY)), (Some(2f32.powi(127)), Some(2f64.powi(1023))));
    }

    fn wanted() -> bool {
        std::env::var_os("GPUZIP_TEST_BITCOMP").is_some_and(|value| value == "1")
    }

    /// NVIDIA's, if the user wants it tested.
    fn real() -> Option<&'static Library> {
        if !wanted() {
            println!("skipped: GPUZIP_TEST_BITCOMP is not 1");
            return None;
        }
        Library::get().map_err(|e| println!("skipped: {e}")).ok()
    }

    /// Whether it was coded; if so, within the bound.
    fn check<T: Lane>(x: &[T], bound: Bound) -> bool {
        let mut coder = Bitcomp::new(shape::<T>(x.len()), 0).unwrap();
        let mut to = vec![0; coder.max_bytes()];
        let Some(bytes) = coder.compress(T::array(x), bound, &mut to).unwrap() else { return false };
        let mut y = vec![T::from_f64(f64::NAN); x.len()];
        coder.decompress(&to[..bytes], T::array_mut(&mut y)).unwrap();
        let mut square = 0.0;
        for (x, y) in x.iter().zip(&y) {
            let error = (x.to_f64() - y.to_f64()).abs();
            assert!(x.to_bits() == y.to_bits() || error <= bound.value() || matches!(bound, Bound::Rms(_)), "{x:?} became {y:?}");
            square += if x.is_finite() { error * error } else { 0.0 };
        }
        assert!((square / x.len() as f64).sqrt() <= bound.value());
        assert!(
            coder.decompress(&to[..bytes - 1], T::array_mut(&mut y)).is_err() && coder.decompress(&[0; 64], T::array_mut(&mut y)).is_err()
        );
        true
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if wanted() { 100 } else { 1 }))]
        #[test]
        fn real_bitcomp_keeps_the_bound(n in 1..300usize, scale in -60..60, digits in 1..20, seed: u64) {
            if real().is_none() {
                return Ok(());
            }
            let mut state = seed;
            let mut noise = || {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
            };
            let mut x: Vec<f64> = (0..n).map(|i| ((i as f64 / 9.0).sin() + 0.1 * noise()) * 2f64.powi(scale)).collect();
            let bound = 2f64.powi(scale - digits) * 1.3;
            check(&x, Bound::Max(bound));
            let mut single: Vec<f32> = x.iter().map(|&x| x as f32).collect();
            check(&single, Bound::Rms(bound));
            (x[n / 2], x[n / 3], single[n / 2], single[n / 3]) = (f64::NAN, f64::INFINITY, f32::NAN, f32::NEG_INFINITY);
            check(&x, Bound::Rms(bound));
            check(&single, Bound::Max(bound));
        }
    }

    #[test]
    fn real_bitcomp_on_real_wavefields() {
        let Some(library) = real() else { return };
        println!("{}", library.name);
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let shared = std::env::var_os("GPUZIP_SHARED").map_or_else(|| root.join("../shared"), Into::into);
        let Ok(bytes) = std::fs::read(shared.join("data/gempy2_3d_100x100x100_step0400_curr.f32")) else {
            println!("skipped: no wavefields (set GPUZIP_SHARED)");
            return;
        };
        let x: Vec<f32> = bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
        let statistics = Statistics::of(Array::F32(&x));
        let mut coder = Bitcomp::with(library, Shape { n: [100; 3], scalar: f32::SCALAR }, 0).unwrap();
        let mut to = vec![0; coder.max_bytes()];
        let deltas = [Delta::Fraction(2e-3), Delta::Range { fraction: 1e-3, sigmas: 3.0 }, Delta::Static(1e-3 * statistics.peak)];
        for delta in deltas {
            let bound = Bound::Max(delta.of(&statistics) / 2.0);
            assert!(check(&x, bound));
            let stored = coder.compress(Array::F32(&x), bound, &mut to).unwrap().unwrap();
            println!(
                "{delta:?}: bound {:.1e} of the maximum, ratio {:.2}",
                bound.value() / statistics.peak,
                bytes.len() as f64 / stored as f64
            );
        }
    }
}
