//! Codecs on device memory without a session: the calls that do not wait for the device, and what the calls of
//! codec.rs do for device memory.

use super::checked::checked;
use super::entry::{entry, not_null, Out};
use super::handles::refuse_inner;
use super::session::app_fields;
use super::types::*;
use crate::choice::Target;
use crate::codec::gpu::{self, DeviceCall, Memory};
use crate::codec::{Content, Header, Method, Settings, SnapshotCodec, HEADER};
use crate::config::Config;
use crate::device::cuda::{self, Location};
use crate::device::{memory_of, AppField, AppMemory, Rows, Stream};
use crate::error::{fail, Result};
use crate::layout::{Layout, ALIGNMENT};
use std::ffi::c_void;

/// Alignment of a compressed stream in device memory, in bytes.
const STREAM_ALIGNMENT: u64 = 64;

/// Returns the layout of the fields.
pub(super) fn layout_of(fields: &[AppField]) -> Result<Layout> {
    Layout::new(fields.iter().map(|f| f.field).collect())
}

/// Returns the codec settings of a configuration; `compressor` must name one codec, not auto.
pub(super) fn settings_of(config: Config) -> Result<Settings> {
    if config.codec.any_codec {
        return fail!(Config, "compressor = 15 (auto): it is a session's planner that chooses; name a codec, GPUZIP_COMPRESSOR_*");
    }
    Ok(config.codec.settings)
}

/// Returns the codec's settings for a device.
fn device_settings(config: Config) -> Result<Settings> {
    config.check_on_cuda()?;
    // A stream without a session is in no sequence.
    Ok(Settings { sequences: false, ..settings_of(config)? })
}

/// Computes `*bytes`, the work space in bytes that `gpuzip_codec_encode` and `gpuzip_codec_decode` need for
/// these fields and the codec of `config`. Fields with pitches that leave gaps need more. The `data` of the
/// fields may be NULL. The call does not use the device.
///
/// # Safety
/// `config` and `bytes` are NULL or valid; `fields` points to `nfields` fields.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_codec_work(
    config: *const gpuzip_config_t,
    fields: *const gpuzip_field_t,
    nfields: u32,
    bytes: *mut u64,
) -> gpuzip_status_t {
    // SAFETY: by this function's contract.
    unsafe { Out::new(bytes, "bytes") }.fill("gpuzip_codec_work", || {
        // SAFETY: by this function's contract.
        let (config, given) = unsafe { (checked(config)?, app_fields(fields, nfields)?) };
        let layout = layout_of(&given)?;
        let is_apart = |i: usize| {
            // SAFETY: by this function's contract, and `app_fields` has checked the pointer.
            let at = unsafe { fields.add(i).read_unaligned() };
            Rows::of(&given[i].field, at.pitch2, at.pitch3).map(|rows| !rows.is_contiguous())
        };
        let are_apart = (0..given.len()).map(is_apart).collect::<Result<Vec<_>>>()?;
        gpu::work_bytes(&device_settings(config)?, &layout, &are_apart)
    })
}

/// Compresses arrays in device or managed memory of one CUDA device, as `gpuzip_codec_compress` does for
/// host memory and into the same bytes, at `coded`, a multiple of 64 in memory of that device. `capacity`
/// is the room there in bytes, at least what `gpuzip_codec_bound` computes.
///
/// All work is enqueued on `stream`, a `cudaStream_t` of the device's primary context, and the host waits for
/// nothing; only the first call with a codec and a type on a device loads kernels, and may wait for that.
/// Until the stream has come to the end of the work, the arrays, `coded` and `work` must stay as they are.
/// `work` is `work_bytes` bytes of device memory at a multiple of 256, at least what `gpuzip_codec_work`
/// computes; it need not be the same memory, nor the same contents, in another call. The kernels write
/// `*result`, which is in device, managed or page-locked host memory. The arrays may have pitches that
/// leave gaps. Compressor 0, lossless and a registered codec without `device_compress` have no kernels: the
/// result is GPUZIP_ERR_UNSUPPORTED, as for fields that are not of FP32 or FP64.
///
/// # Safety
/// `config` is NULL or valid; `fields` points to `nfields` fields with their data; `coded` and `work` point
/// to memory of their sizes, which overlaps neither the other nor the fields; `result` is memory for a
/// result; `stream` is a stream.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_codec_encode(
    config: *const gpuzip_config_t,
    fields: *const gpuzip_field_t,
    nfields: u32,
    coded: *mut c_void,
    capacity: u64,
    work: *mut c_void,
    work_bytes: u64,
    result: *mut gpuzip_codec_result_t,
    stream: *mut c_void,
) -> gpuzip_status_t {
    const NAME: &str = "gpuzip_codec_encode";
    entry(NAME, || {
        // SAFETY: by this function's contract.
        let (config, fields) = unsafe { (checked(config)?, app_fields(fields, nfields)?) };
        let ready = Ready::of(config, &fields)?;
        let to = ready.room(coded, "coded", capacity)?;
        let work = (work, work_bytes);
        gpu::encode(&ready.call(NAME, work, result, stream)?, to).map(drop)
    })
}

/// Decompresses a stream of `gpuzip_codec_encode` or `gpuzip_codec_compress` into arrays in device or managed
/// memory. The stream begins at `coded`, a multiple of 64 in memory of their device, and ends within the
/// `bytes` bytes there: `bytes` may be the room for the stream where the host does not know its size. Whatever
/// these bytes are, the kernels read no others, and write only the arrays, `work` and `*result`.
///
/// `config` names the codec that made the stream, with `zfp_bit_rate` or `bitcomp_algorithm`, because the host
/// does not read the stream; the error bound is in the stream. The other arguments, and the order on `stream`,
/// are as for `gpuzip_codec_encode`.
///
/// # Safety
/// As for `gpuzip_codec_encode`; the data of the fields is writable.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_codec_decode(
    config: *const gpuzip_config_t,
    coded: *const c_void,
    bytes: u64,
    fields: *const gpuzip_field_t,
    nfields: u32,
    work: *mut c_void,
    work_bytes: u64,
    result: *mut gpuzip_codec_result_t,
    stream: *mut c_void,
) -> gpuzip_status_t {
    const NAME: &str = "gpuzip_codec_decode";
    entry(NAME, || {
        // SAFETY: by this function's contract.
        let (config, fields) = unsafe { (checked(config)?, app_fields(fields, nfields)?) };
        let ready = Ready::of(config, &fields)?;
        let from = ready.address(coded, "coded", STREAM_ALIGNMENT)?;
        let work = (work, work_bytes);
        gpu::decode(&ready.call(NAME, work, result, stream)?, from, bytes).map(drop)
    })
}

/// Whether some of the memory can be used by kernels only.
pub(super) fn is_on_device(memory: impl IntoIterator<Item = AppMemory>) -> Result<bool> {
    for memory in memory {
        if matches!(cuda::locate(memory)?, Location::Device(_)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// `gpuzip_codec_compress` for fields in device memory: returns the bytes of the stream.
pub(super) fn compress_on_device(
    config: Config,
    fields: &[AppField],
    stream: *mut c_void,
    capacity: u64,
) -> Result<u64> {
    let ready = Ready::of(config, fields)?;
    let to = ready.room(stream, "stream", capacity)?;
    gpu::encode(&ready.waiting("gpuzip_codec_compress"), to)
}

/// `gpuzip_codec_decompress` for fields in device memory. The header of the stream names the codec.
pub(super) fn decompress_on_device(
    stream: *const c_void,
    bytes: u64,
    fields: &[AppField],
) -> Result<()> {
    const NAME: &str = "gpuzip_codec_decompress";
    let (header, _) = header_on_device(NAME, stream, 0, bytes)?;
    let method = Method::of_stream(header.codec, header.parameter)?;
    let ready = Ready::of(Config::default().with(|c| c.codec.settings.method = method), fields)?;
    let from = ready.address(stream, "stream", STREAM_ALIGNMENT)?;
    gpu::decode(&ready.waiting(NAME), from, bytes).map(drop)
}

/// Reads the header at `at` of `bytes` bytes of device memory. Returns it with the bytes of its part of the
/// stream.
pub(super) fn header_on_device(
    name: &'static str,
    stream: *const c_void,
    at: u64,
    bytes: u64,
) -> Result<(Header, u64)> {
    refuse_inner()?;
    // SAFETY: the memory is only located; the caller of the ABI promises that it is memory.
    let memory = unsafe { AppMemory::new(stream.cast_mut().cast(), 1) };
    let (Location::Device(ordinal) | Location::Managed(ordinal)) = cuda::locate(memory)? else {
        return fail!(
            Argument,
            "stream = {stream:p} is host memory, and the fields are in memory of a CUDA device: give both in one of them"
        );
    };
    if bytes.saturating_sub(at) < HEADER as u64 {
        return fail!(Stream, "{bytes} bytes do not hold a gpuzip stream: it is cut off");
    }
    let mut header = [0; HEADER];
    gpu::receive(ordinal, name, stream as u64 + at, &mut header)?;
    let (header, size) = Header::peek(&header)?;
    if size as u64 > bytes - at {
        return fail!(
            Stream,
            "a stream of {bytes} bytes, and the header at {at} announces {size}: it is cut off"
        );
    }
    if header.content == Content::Mask {
        return fail!(
            Unsupported,
            "the stream has masks (fill_value), which have no kernels: decompress it in host memory"
        );
    }
    Ok((header, size as u64))
}

/// The checked arguments that both calls have.
struct Ready {
    settings: Settings,
    layout: Layout,
    fields: Vec<AppMemory>,
    ordinal: i32,
    /// Bytes of work space that the call needs.
    work_bytes: u64,
}

impl Ready {
    fn of(config: Config, fields: &[AppField]) -> Result<Self> {
        // Functions of a registered codec run while this thread holds the lock of the device's kernels.
        refuse_inner()?;
        let layout = layout_of(fields)?;
        let memory = memory_of(fields)?;
        let Some(target @ Target::Cuda(ordinal)) = Target::of(&config, fields)? else {
            return fail!(
                Argument,
                "the fields are in host memory, or backend = 1 (host), and kernels work on memory of a CUDA device: give fields and stream in \
                 memory of one device; or both in host memory, to gpuzip_codec_compress and gpuzip_codec_decompress"
            );
        };
        target.check_memory(fields)?;
        let settings = device_settings(config)?;
        let are_apart: Vec<bool> = memory.iter().map(|f| !f.rows().is_contiguous()).collect();
        let work_bytes = gpu::work_bytes(&settings, &layout, &are_apart)?;
        Ok(Ready { settings, layout, fields: memory, ordinal, work_bytes })
    }

    /// Returns the address of the room for a stream.
    fn room(&self, given: *const c_void, name: &str, capacity: u64) -> Result<u64> {
        let needed = SnapshotCodec::output_bytes(&self.settings, &self.layout)? as u64;
        if capacity < needed {
            return fail!(
                Argument,
                "capacity = {capacity}: the stream may take {needed} bytes, as gpuzip_codec_bound computes"
            );
        }
        self.address(given, name, STREAM_ALIGNMENT)
    }

    /// Returns the address of an argument, which must be memory that kernels of the device can use.
    fn address<T>(&self, given: *const T, name: &str, alignment: u64) -> Result<u64> {
        not_null(given, name)?;
        // SAFETY: the memory is only located; the caller of the ABI promises that it is memory.
        let memory = unsafe { AppMemory::new(given.cast_mut().cast(), 1) };
        match cuda::locate(memory)? {
            Location::Device(k) if k != self.ordinal => {
                return fail!(
                    Argument,
                    "{name} = {given:p} is memory of CUDA device {k}, and the fields are on device {}: give memory of that device",
                    self.ordinal
                )
            }
            Location::Host => {
                return fail!(
                    Argument,
                    "{name} = {given:p} is host memory, and the fields are on a CUDA device: give memory of cudaMalloc or cudaMallocManaged"
                )
            }
            Location::Device(_) | Location::Managed(_) => {}
        }
        match given as u64 {
            address if address.is_multiple_of(alignment) => Ok(address),
            _ => fail!(Argument, "{name} = {given:p} is no multiple of {alignment} bytes"),
        }
    }

    fn call(
        &self,
        name: &'static str,
        (work, work_bytes): (*mut c_void, u64),
        result: *mut gpuzip_codec_result_t,
        stream: *mut c_void,
    ) -> Result<DeviceCall<'_>> {
        if work_bytes < self.work_bytes {
            let needed = self.work_bytes;
            return fail!(
                Argument,
                "work_bytes = {work_bytes}: the call needs {needed} bytes of work space, as gpuzip_codec_work computes"
            );
        }
        let work = self.address(work, "work", ALIGNMENT)?;
        let memory = Memory::Given { work, result: self.result(result)? };
        Ok(DeviceCall { name, memory, stream: Stream(stream), ..self.waiting(name) })
    }

    /// A call that waits for the device, on the legacy default stream.
    fn waiting(&self, name: &'static str) -> DeviceCall<'_> {
        DeviceCall {
            name,
            ordinal: self.ordinal,
            settings: &self.settings,
            layout: &self.layout,
            fields: &self.fields,
            memory: Memory::Own { work_bytes: self.work_bytes },
            stream: Stream(std::ptr::null_mut()),
        }
    }

    /// Returns the address of the result, which may be in page-locked memory, too.
    fn result(&self, given: *mut gpuzip_codec_result_t) -> Result<u64> {
        not_null(given, "result")?;
        // SAFETY: as in `address`.
        let memory = unsafe { AppMemory::new(given.cast(), size_of::<gpuzip_codec_result_t>()) };
        if !cuda::is_page_locked(memory)? {
            return self.address(given, "result", 8).map_err(|e| {
                e.within("the device writes the result (page-locked memory will do, too)")
            });
        }
        match given as u64 {
            address if address.is_multiple_of(8) => Ok(address),
            _ => fail!(Argument, "result = {given:p} is no multiple of 8 bytes"),
        }
    }
}
