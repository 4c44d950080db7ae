//! A codec that keeps the first half of the values, and gives 0 back for the others, by copies of the driver alone.

use super::app::ok;
use super::c_abi::works;
use gpuzip::capi::*;
use gpuzip::codec::Method;
use std::ffi::c_void;
use std::mem::offset_of;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether `device_compress` sets a negative status.
pub static FAILS: AtomicBool = AtomicBool::new(false);

/// Registers the codec, which a process can do once.
pub fn register() -> Method {
    let table = gpuzip_codec_plugin_t {
        struct_size: size_of::<gpuzip_codec_plugin_t>() as u64,
        name: c"cut".as_ptr(),
        user: null_mut(),
        max_bytes: Some(max_bytes),
        compress: Some(compress),
        decompress: Some(decompress),
        device_compress: Some(device_compress),
        device_decompress: Some(device_decompress),
        device_work: None,
        reserved: 0,
    };
    let mut number = 0;
    // SAFETY: the table lives, and its functions do what they should.
    works(unsafe { gpuzip_codec_register(&table, &mut number) });
    Method::Plugin(number as u8)
}

/// The bytes that are kept, and those of the other values.
fn sizes(field: *const gpuzip_field_t) -> (gpuzip_field_t, usize, usize) {
    // SAFETY: the library gives a field.
    let field = unsafe { *field };
    let value = [4, 8][field.r#type as usize];
    let count = (field.n1 * field.n2 * field.n3) as usize;
    let kept = count.div_ceil(2) * value;
    (field, kept, count * value - kept)
}

unsafe extern "C" fn max_bytes(_: *mut c_void, field: *const gpuzip_field_t) -> u64 {
    sizes(field).1 as u64
}

unsafe extern "C" fn compress(
    _: *mut c_void,
    field: *const gpuzip_field_t,
    _rms: i32,
    _bound: f64,
    to: *mut c_void,
    _capacity: u64,
    bytes: *mut u64,
) -> i32 {
    let (field, kept, _) = sizes(field);
    // SAFETY: there is room for `max_bytes` bytes, and a place for their number.
    unsafe {
        to.cast::<u8>().copy_from_nonoverlapping(field.data.cast(), kept);
        *bytes = kept as u64;
    }
    0
}

unsafe extern "C" fn decompress(
    _: *mut c_void,
    from: *const c_void,
    _bytes: u64,
    field: *const gpuzip_field_t,
) -> i32 {
    let (field, kept, rest) = sizes(field);
    // SAFETY: the array has these bytes.
    unsafe {
        field.data.cast::<u8>().copy_from_nonoverlapping(from.cast(), kept);
        field.data.cast::<u8>().add(kept).write_bytes(0, rest);
    }
    0
}

unsafe extern "C" fn device_compress(
    _: *mut c_void,
    field: *const gpuzip_field_t,
    _rms: i32,
    to: *mut c_void,
    _capacity: u64,
    job: *mut gpuzip_codec_job_t,
    _work: *mut c_void,
    stream: *mut c_void,
) -> i32 {
    let (field, kept, _) = sizes(field);
    ok!(cuMemcpyDtoDAsync_v2(to as u64, field.data as u64, kept, stream.cast()));
    let at = job as u64 + offset_of!(gpuzip_codec_job_t, bytes) as u64;
    for (at, byte) in (at..).zip(kept.to_le_bytes()) {
        ok!(cuMemsetD8Async(at, byte, 1, stream.cast()));
    }
    if FAILS.load(Ordering::Relaxed) {
        let at = job as u64 + offset_of!(gpuzip_codec_job_t, status) as u64;
        ok!(cuMemsetD8Async(at, 0xFF, 4, stream.cast()));
    }
    0
}

unsafe extern "C" fn device_decompress(
    _: *mut c_void,
    from: *const c_void,
    _capacity: u64,
    field: *const gpuzip_field_t,
    _job: *mut gpuzip_codec_job_t,
    _work: *mut c_void,
    stream: *mut c_void,
) -> i32 {
    let (field, kept, rest) = sizes(field);
    ok!(cuMemcpyDtoDAsync_v2(field.data as u64, from as u64, kept, stream.cast()));
    if rest > 0 {
        ok!(cuMemsetD8Async(field.data as u64 + kept as u64, 0, rest, stream.cast()));
    }
    0
}
