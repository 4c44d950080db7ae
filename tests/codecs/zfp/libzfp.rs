//! Loads libzfp, the reference implementation, where it is installed.

use super::Value;
use libc::{c_double, c_int, c_uint, c_void, size_t};
use std::ffi::CStr;

type Pointer = *mut c_void;

/// The functions of libzfp that compression at a fixed rate needs.
pub struct Libzfp {
    stream_open: unsafe extern "C" fn(Pointer, size_t) -> Pointer,
    stream_close: unsafe extern "C" fn(Pointer),
    zfp_stream_open: unsafe extern "C" fn(Pointer) -> Pointer,
    zfp_stream_close: unsafe extern "C" fn(Pointer),
    zfp_stream_set_rate: unsafe extern "C" fn(Pointer, c_double, c_int, c_uint, c_int) -> c_double,
    zfp_field_1d: unsafe extern "C" fn(Pointer, c_int, size_t) -> Pointer,
    zfp_field_2d: unsafe extern "C" fn(Pointer, c_int, size_t, size_t) -> Pointer,
    zfp_field_3d: unsafe extern "C" fn(Pointer, c_int, size_t, size_t, size_t) -> Pointer,
    zfp_field_free: unsafe extern "C" fn(Pointer),
    zfp_compress: unsafe extern "C" fn(Pointer, Pointer) -> size_t,
    zfp_decompress: unsafe extern "C" fn(Pointer, Pointer) -> size_t,
}

impl Libzfp {
    /// Loads the installed library; `None` if there is none.
    pub fn open() -> Option<Libzfp> {
        let names = [c"libzfp.so.1", c"libzfp.so"];
        // SAFETY: libzfp runs no code when it is loaded.
        let library = names
            .into_iter()
            .map(|name| unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) })
            .find(|library| !library.is_null());
        if library.is_none() {
            println!("skipped: libzfp is not installed");
        }
        let library = library?;
        macro_rules! symbols {
            ($($name:ident),*) => {
                Libzfp { $($name: {
                    let name = CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()).unwrap();
                    // SAFETY: `library` is open, and `name` is NUL-terminated.
                    let symbol = unsafe { libc::dlsym(library, name.as_ptr()) };
                    assert!(!symbol.is_null(), "libzfp has no {name:?}");
                    // SAFETY: the types of the members are the types of the functions in zfp.h.
                    unsafe { std::mem::transmute_copy(&symbol) }
                }),* }
            };
        }
        Some(symbols!(
            stream_open,
            stream_close,
            zfp_stream_open,
            zfp_stream_close,
            zfp_stream_set_rate,
            zfp_field_1d,
            zfp_field_2d,
            zfp_field_3d,
            zfp_field_free,
            zfp_compress,
            zfp_decompress
        ))
    }

    /// Compresses an array, whose first extent varies fastest, into `to`, which must have room for
    /// the stream. Returns the length of the stream in bytes.
    pub fn compress<T: Value>(&self, x: &[T], dims: &[usize], rate: u32, to: &mut [u8]) -> usize {
        assert_eq!(x.len(), dims.iter().product::<usize>());
        // SAFETY: zfp_compress reads the array `x` and writes at most `to.len()` bytes to `to`.
        unsafe {
            self.run::<T>(
                x.as_ptr() as Pointer,
                dims,
                rate,
                to.as_mut_ptr().cast(),
                to.len(),
                self.zfp_compress,
            )
        }
    }

    /// Decompresses the stream `from` into the array `x`. Returns the bytes that libzfp has read.
    pub fn decompress<T: Value>(
        &self,
        from: &[u8],
        dims: &[usize],
        rate: u32,
        x: &mut [T],
    ) -> usize {
        assert_eq!(x.len(), dims.iter().product::<usize>());
        // SAFETY: zfp_decompress reads at most `from.len()` bytes of `from` and writes the array
        // `x`.
        unsafe {
            self.run::<T>(
                x.as_mut_ptr().cast(),
                dims,
                rate,
                from.as_ptr() as Pointer,
                from.len(),
                self.zfp_decompress,
            )
        }
    }

    /// Calls `action`, which is zfp_compress or zfp_decompress; returns the bytes of the stream.
    ///
    /// # Safety
    /// `x` and the `len` bytes at `bytes` must be valid for the reads and writes of `action`.
    unsafe fn run<T: Value>(
        &self,
        x: Pointer,
        dims: &[usize],
        rate: u32,
        bytes: Pointer,
        len: usize,
        action: unsafe extern "C" fn(Pointer, Pointer) -> size_t,
    ) -> usize {
        // SAFETY: the caller promises valid ranges; each object is closed once, after its last use.
        unsafe {
            let field = match *dims {
                [nx] => (self.zfp_field_1d)(x, T::TYPE, nx),
                [nx, ny] => (self.zfp_field_2d)(x, T::TYPE, nx, ny),
                [nx, ny, nz] => (self.zfp_field_3d)(x, T::TYPE, nx, ny, nz),
                _ => panic!("{dims:?}"),
            };
            let bits = (self.stream_open)(bytes, len);
            let stream = (self.zfp_stream_open)(bits);
            (self.zfp_stream_set_rate)(
                stream,
                c_double::from(rate),
                T::TYPE,
                dims.len() as c_uint,
                0,
            );
            let done = action(stream, field);
            (self.zfp_stream_close)(stream);
            (self.stream_close)(bits);
            (self.zfp_field_free)(field);
            assert!(done > 0 && done <= len, "libzfp: {done} of {len} bytes");
            done
        }
    }
}
