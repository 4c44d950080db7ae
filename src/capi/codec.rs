//! The calls that use codecs without a session, and register codecs of the application.

use super::checked::checked;
use super::device_codec::{
    compress_on_device, decompress_on_device, header_on_device, is_on_device, layout_of,
    settings_of,
};
use super::entry::{entry, not_null, read_options, zero_words, Out};
use super::handles::in_inner;
use super::session::app_fields;
use super::types::*;
use crate::choice::Target;
use crate::codec::plugin::{self, DeviceCall, DeviceCoder, DeviceFactory};
use crate::codec::{Bound, Coder, Content, Header, Method, Settings, Shape, SnapshotCodec};
use crate::config::Backend;
use crate::device::{memory_of, AppField, AppMemory, Stream};
use crate::error::{fail, Code, Result};
use crate::layout::Layout;
use crate::scalar::{Array, ArrayMut, Scalar};
use std::ffi::{c_void, CStr};

/// Returns the layout of the fields, whose memory must be on the host.
fn host_layout_of(fields: &[AppField]) -> Result<Layout> {
    Target::Host.check(fields)?;
    layout_of(fields)
}

/// Whether kernels are to code these fields. Memory that host and device can use is the host's where all is.
fn are_on_device(fields: &[AppField], stream: *const c_void) -> Result<bool> {
    is_on_device(fields.iter().filter_map(|field| field.memory).chain([located(stream)]))
}

/// Memory of the caller that is only located.
fn located(memory: *const c_void) -> AppMemory {
    // SAFETY: the memory is not used.
    unsafe { AppMemory::new(memory.cast_mut().cast(), 1) }
}

/// Returns the bytes of the caller's compressed stream.
///
/// # Safety
/// `stream` is NULL or points to `bytes` bytes, which do not change while the result is used.
unsafe fn stream_of<'a>(stream: *const c_void, bytes: u64) -> Result<&'a [u8]> {
    not_null(stream, "stream")?;
    let Some(len) = usize::try_from(bytes).ok().filter(|&len| len <= isize::MAX as usize) else {
        return fail!(Argument, "bytes = {bytes}: no stream is that long");
    };
    // SAFETY: by this function's contract.
    Ok(unsafe { std::slice::from_raw_parts(stream.cast(), len) })
}

/// Computes `*bytes`, the room in bytes that `gpuzip_codec_compress` and `gpuzip_codec_encode` need for
/// these fields: at least as much as any stream of them takes. The `data` of the fields may be NULL. With
/// `backend` 1 (host) data in device memory is refused.
///
/// # Safety
/// `config` and `bytes` are NULL or valid; `fields` points to `nfields` fields.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_codec_bound(
    config: *const gpuzip_config_t,
    fields: *const gpuzip_field_t,
    nfields: u32,
    bytes: *mut u64,
) -> gpuzip_status_t {
    // SAFETY: by this function's contract.
    unsafe { Out::new(bytes, "bytes") }.fill("gpuzip_codec_bound", || {
        // SAFETY: by this function's contract.
        let (config, fields) = unsafe { (checked(config)?, app_fields(fields, nfields)?) };
        if config.device.backend == Backend::Host {
            Target::Host.check(&fields)?;
        }
        Ok(SnapshotCodec::output_bytes(&settings_of(config)?, &layout_of(&fields)?)? as u64)
    })
}

/// Compresses arrays, with the codec and the error bound of `config`, into one stream at `stream`. `capacity` is the room at `stream` in bytes, at least what
/// `gpuzip_codec_bound` computes; `*bytes` becomes the size of the stream in bytes. A field with
/// the role k+1 is coded as field k minus this field, as in a session. The stream is complete when
/// the call returns.
///
/// Arrays in memory of a CUDA device are compressed by kernels into the same bytes, at a multiple of 64 in
/// memory of that device. Their work follows that of the legacy default stream, and so waits for all streams
/// that are not `cudaStreamNonBlocking`; the library keeps the work space, of `gpuzip_codec_work` bytes, for
/// the next call. `gpuzip_codec_encode` says what has kernels, and works on a stream of the application without
/// waiting. Managed memory counts as the host's, unless the stream or a field is in device memory.
///
/// # Safety
/// `config` and `bytes` are NULL or valid; `fields` points to `nfields` fields with their data;
/// `stream` points to `capacity` bytes that do not overlap the fields.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_codec_compress(
    config: *const gpuzip_config_t,
    fields: *const gpuzip_field_t,
    nfields: u32,
    stream: *mut c_void,
    capacity: u64,
    bytes: *mut u64,
) -> gpuzip_status_t {
    // SAFETY: by this function's contract.
    unsafe { Out::new(bytes, "bytes") }.fill("gpuzip_codec_compress", || {
        not_null(stream, "stream")?;
        // SAFETY: by this function's contract.
        let (config, fields) = unsafe { (checked(config)?, app_fields(fields, nfields)?) };
        if config.device.backend != Backend::Host && are_on_device(&fields, stream)? {
            return compress_on_device(config, &fields, stream, capacity);
        }
        let mut codec = SnapshotCodec::new(settings_of(config)?, &host_layout_of(&fields)?)?;
        let memory = memory_of(&fields)?;
        let capacity = usize::try_from(capacity).unwrap_or(usize::MAX).min(codec.capacity());
        // SAFETY: `stream` has `capacity` bytes apart from the fields, and the fields are readable
        // host memory, by this function's contract.
        let size = unsafe {
            codec.compress(&memory, std::slice::from_raw_parts_mut(stream.cast(), capacity))
        };
        Ok(size? as u64)
    })
}

/// Decompresses a stream that `gpuzip_codec_compress` made, in this process or another, into the
/// fields. The fields must have the shapes, types and roles of the arrays that were compressed.
/// Whatever the bytes of the stream are, the call either fills the arrays or returns an error. Stream and
/// fields are in host memory, or both in memory of one CUDA device, as for `gpuzip_codec_compress`; the stream
/// there may end before `bytes` bytes do.
///
/// # Safety
/// `stream` points to `bytes` bytes; `fields` points to `nfields` fields with writable data.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_codec_decompress(
    stream: *const c_void,
    bytes: u64,
    fields: *const gpuzip_field_t,
    nfields: u32,
) -> gpuzip_status_t {
    entry("gpuzip_codec_decompress", || {
        // SAFETY: by this function's contract.
        let fields = unsafe { app_fields(fields, nfields) }?;
        not_null(stream, "stream")?;
        if are_on_device(&fields, stream)? {
            return decompress_on_device(stream, bytes, &fields);
        }
        let layout = host_layout_of(&fields)?;
        // SAFETY: by this function's contract.
        let stream = unsafe { stream_of(stream, bytes) }?;
        let (header, ..) = Header::open(stream)?;
        let method = Method::of_stream(header.codec, header.parameter)?;
        let mut codec = SnapshotCodec::new(Settings { method, ..Settings::default() }, &layout)?;
        // SAFETY: the fields are writable host memory by this function's contract.
        unsafe { codec.decompress(stream, &memory_of(&fields)?) }
    })
}

/// Describes array number `index` of a compressed stream, counted from 0 in the order of the
/// stream. Of a stream in memory of a CUDA device only the headers up to that of this array are read: `arrays`
/// becomes 0, and the stream may end before `bytes` bytes do.
///
/// # Safety
/// `stream` points to `bytes` bytes; `info` is NULL or points to a `gpuzip_codec_info_t` whose
/// `struct_size` is set.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_codec_info(
    stream: *const c_void,
    bytes: u64,
    index: u32,
    info: *mut gpuzip_codec_info_t,
) -> gpuzip_status_t {
    // SAFETY: by this function's contract.
    unsafe { Out::new(info, "info") }.fill_sized("gpuzip_codec_info", || {
        not_null(stream, "stream")?;
        let on_device = is_on_device([located(stream)])?;
        // Returns the header at `at`, and the bytes of its part of the stream; `None` at the end.
        let next = |at: u64| {
            if on_device {
                return header_on_device("gpuzip_codec_info", stream, at, bytes).map(Some);
            }
            // SAFETY: by this function's contract.
            let rest = &unsafe { stream_of(stream, bytes) }?[at as usize..];
            if rest.is_empty() {
                return Ok(None);
            }
            Header::open(rest).map(|(header, _, bytes)| Some((header, bytes as u64)))
        };
        let (mut arrays, mut found, mut of_mask, mut at) = (0, None, 0, 0);
        while let Some((header, bytes)) =
            next(at).map_err(|e| e.within(format_args!("array {arrays}")))?
        {
            at += bytes;
            // A mask belongs to the array that follows.
            if header.content == Content::Mask {
                of_mask += bytes;
                continue;
            }
            if arrays == index {
                found = Some((header, of_mask + bytes));
                if on_device {
                    arrays = 0;
                    break;
                }
            }
            (arrays, of_mask) = (arrays + 1, 0);
        }
        let Some((header, bytes)) = found else {
            return fail!(Argument, "index = {index}: the stream has {arrays} arrays");
        };
        let [n1, n2, n3] = header.shape.n.map(|n| n as u64);
        Ok(gpuzip_codec_info_t {
            arrays,
            compressor: header.codec as i32,
            content: header.content as i32,
            r#type: header.shape.scalar as i32,
            field: header.field as i32,
            reference: header.reference.map_or(-1, i32::from),
            n1,
            n2,
            n3,
            bound: header.bound,
            raw_bytes: header.shape.bytes() as u64,
            stored_bytes: bytes,
            ..Default::default()
        })
    })
}

/// Registers a codec of the application for the rest of the process. `*compressor` becomes its
/// number for `gpuzip_config_t.compressor`: 64, 65, ... in the order of registration. A program
/// that reads streams of registered codecs must register the same codecs in the same order.
///
/// # Safety
/// `plugin` is NULL or points to a table whose functions do what `gpuzip_codec_plugin_t` says, from
/// any thread, as long as the process lives.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_codec_register(
    plugin: *const gpuzip_codec_plugin_t,
    compressor: *mut i32,
) -> gpuzip_status_t {
    // SAFETY: by this function's contract.
    unsafe { Out::new(compressor, "compressor") }.fill("gpuzip_codec_register", || {
        // SAFETY: by this function's contract.
        let table = unsafe { read_options(plugin, "plugin") }?;
        zero_words("plugin->reserved", &[table.reserved], Code::Argument)?;
        not_null(table.name, "plugin->name")?;
        // SAFETY: `name` is a string by this function's contract.
        let name = unsafe { CStr::from_ptr(table.name) }.to_string_lossy();
        if table.max_bytes.is_none() || table.compress.is_none() || table.decompress.is_none() {
            return fail!(Argument, "plugin {name:?}: a function is NULL");
        }
        let on_device = table.device_compress.is_some();
        if table.device_decompress.is_some() != on_device
            || (table.device_work.is_some() && !on_device)
        {
            return fail!(
                Argument,
                "plugin {name:?}: device_compress and device_decompress are given both, or neither of them and no device_work"
            );
        }
        let calls = Calls(table);
        let on_device: Option<DeviceFactory> = match on_device {
            true => Some(Box::new(move |shape| Box::new(calls.coder(shape)))),
            false => None,
        };
        let factory = Box::new(move |shape| Ok(Box::new(calls.coder(shape)) as Box<dyn Coder>));
        Ok(plugin::register(&name, factory, on_device)? as i32)
    })
}

/// A registered codec: none of its functions is NULL, and its name is not used any more.
#[derive(Clone, Copy)]
struct Calls(gpuzip_codec_plugin_t);

// SAFETY: the application promised at registration that any thread may call the functions.
unsafe impl Send for Calls {}
// SAFETY: as for `Send`.
unsafe impl Sync for Calls {}

const MAX_BYTES: &str = "function max_bytes of a registered codec";
const COMPRESS: &str = "function compress of a registered codec";
const DECOMPRESS: &str = "function decompress of a registered codec";
const DEVICE_WORK: &str = "function device_work of a registered codec";
const DEVICE_COMPRESS: &str = "function device_compress of a registered codec";
const DEVICE_DECOMPRESS: &str = "function device_decompress of a registered codec";

impl Calls {
    fn coder(&self, shape: Shape) -> Plugin {
        let field = field_of(std::ptr::null_mut(), shape);
        let most = self.0.max_bytes.map_or(0, |max_bytes| {
            // SAFETY: the application promised at registration what `max_bytes` does.
            in_inner(MAX_BYTES, || unsafe { max_bytes(self.0.user, &field) })
        });
        let most = usize::try_from(most).unwrap_or(usize::MAX).min(shape.bytes());
        Plugin { calls: *self, shape, most }
    }
}

struct Plugin {
    calls: Calls,
    shape: Shape,
    most: usize,
}

fn field_of(data: *mut c_void, shape: Shape) -> gpuzip_field_t {
    let [n1, n2, n3] = shape.n.map(|n| n as u64);
    gpuzip_field_t { data, n1, n2, n3, r#type: shape.scalar as i32, ..Default::default() }
}

impl Coder for Plugin {
    fn max_bytes(&self) -> usize {
        self.most
    }

    fn compress(&mut self, x: Array<'_>, bound: Bound, to: &mut [u8]) -> Result<Option<usize>> {
        let field = field_of(x.bytes().as_ptr().cast_mut().cast(), self.shape);
        let rms = matches!(bound, Bound::Rms(_)) as i32;
        let mut bytes = 0;
        let (Calls(plugin), most, to) = (self.calls, self.most as u64, to.as_mut_ptr().cast());
        let status = plugin.compress.map_or(1, |compress| {
            // SAFETY: the application promised at registration what `compress` does; the array is
            // only read.
            in_inner(COMPRESS, || unsafe {
                compress(plugin.user, &field, rms, bound.value(), to, most, &mut bytes)
            })
        });
        match status {
            0 if bytes <= most => Ok(Some(bytes as usize)),
            0 => fail!(
                Argument,
                "a registered codec wrote {bytes} bytes where it has room for {most}"
            ),
            status if status > 0 => Ok(None),
            status => fail!(Argument, "a registered codec failed to compress: status {status}"),
        }
    }

    fn decompress(&mut self, from: &[u8], mut x: ArrayMut<'_>) -> Result<()> {
        let field = field_of(x.bytes_mut().as_mut_ptr().cast(), self.shape);
        let Calls(plugin) = self.calls;
        let status = plugin.decompress.map_or(-1, |decompress| {
            // SAFETY: the application promised at registration what `decompress` does; the function
            // writes only the values of the array.
            in_inner(DECOMPRESS, || unsafe {
                decompress(plugin.user, from.as_ptr().cast(), from.len() as u64, &field)
            })
        });
        match status {
            0 => Ok(()),
            status => fail!(Stream, "a registered codec failed to decompress: status {status}"),
        }
    }
}

impl Plugin {
    /// Fails if a function of the application could not enqueue its work.
    fn enqueued(name: &str, status: i32) -> Result<()> {
        match status {
            0 => Ok(()),
            status => fail!(Argument, "{name} returned {status}: it could not enqueue its work"),
        }
    }
}

impl DeviceCoder for Plugin {
    fn max_bytes(&self) -> u64 {
        self.most as u64
    }

    fn work_bytes(&self) -> u64 {
        let (Calls(plugin), field) = (self.calls, field_of(std::ptr::null_mut(), self.shape));
        plugin.device_work.map_or(0, |device_work| {
            // SAFETY: the application promised at registration what `device_work` does.
            in_inner(DEVICE_WORK, || unsafe { device_work(plugin.user, &field) })
        })
    }

    fn compress(&self, call: DeviceCall, rms: bool) -> Result<()> {
        let (Calls(plugin), field) = (self.calls, field_of(call.x as *mut c_void, self.shape));
        let [to, job, work] = [call.payload, call.job, call.work].map(|at| at as *mut c_void);
        let (most, Stream(stream)) = (self.most as u64, call.stream);
        let status = plugin.device_compress.map_or(-1, |compress| {
            // SAFETY: the application promised at registration what `device_compress` does; the
            // addresses are device memory of the sizes that it told.
            in_inner(DEVICE_COMPRESS, || unsafe {
                compress(plugin.user, &field, rms as i32, to, most, job.cast(), work, stream)
            })
        });
        Plugin::enqueued(DEVICE_COMPRESS, status)
    }

    fn decompress(&self, call: DeviceCall) -> Result<()> {
        let (Calls(plugin), field) = (self.calls, field_of(call.x as *mut c_void, self.shape));
        let [from, job, work] = [call.payload, call.job, call.work].map(|at| at as *mut c_void);
        let (most, Stream(stream)) = (self.most as u64, call.stream);
        let status = plugin.device_decompress.map_or(-1, |decompress| {
            // SAFETY: as in `compress`.
            in_inner(DEVICE_DECOMPRESS, || unsafe {
                decompress(plugin.user, from, most, &field, job.cast(), work, stream)
            })
        });
        Plugin::enqueued(DEVICE_DECOMPRESS, status)
    }
}

const _: () = {
    let numbers = [
        GPUZIP_TYPE_F32,
        GPUZIP_TYPE_F64,
        GPUZIP_TYPE_I8,
        GPUZIP_TYPE_I16,
        GPUZIP_TYPE_I32,
        GPUZIP_TYPE_I64,
        GPUZIP_TYPE_COMPLEX_F32,
        GPUZIP_TYPE_COMPLEX_F64,
        GPUZIP_TYPE_BYTE,
    ];
    let mut k = 0;
    while k < numbers.len() {
        assert!(numbers[k] as usize == k && Scalar::ALL[k] as i32 == numbers[k]);
        k += 1;
    }
};
