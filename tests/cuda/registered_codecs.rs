//! Codecs of the application with functions for device memory: these write the bytes of the functions for host
//! memory, without the session and in sessions; the host waits for nothing, and what goes wrong is an error.

use crate::common::app::{draw_job, emulate, ok, reference, run, Draws, Job};
use crate::common::c_abi::{refused, works};
use crate::common::cut;
use crate::common::device_calls::{codec, shape, spread, Bench};
use crate::common::emu;
use crate::common::prelude::*;
use crate::common::rig::{values, Draw, Kind};
use crate::device_codecs::{check_codec, start};
use cudarc::driver::sys::{CUfunction, CUmodule, CUstream};
use emu::emulated;
use gpuzip::capi::*;
use std::ffi::{c_void, CStr, CString};
use std::mem::offset_of;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// The kernels of the quantiser: values in multiples of 2 bounds as 16 bits, up to the last one that is not 0,
/// behind the multiple. The work space has the number of these values, and whether one is out of range.
const SOURCE: &str = r#"
typedef unsigned long long u64;
struct Job { double bound; u64 bytes; int go, status; u64 reserved; };

template <typename Real> static __device__ void pack(const Real *x, u64 n, unsigned char *to, const Job *job, u64 *work)
{
    const double quantum = 2 * job->bound;
    const u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i == 0)
        *(double *)to = quantum;
    if (i >= n)
        return;
    const double q = rint((double)x[i] / quantum);
    if (!(fabs(q) <= 32767)) {
        work[1] = 1;
        return;
    }
    ((short *)to)[4 + i] = (short)q;
    if (q != 0)
        atomicMax(&work[0], i + 1);
}

template <typename Real> static __device__ void unpack(Real *x, u64 n, const unsigned char *from, const Job *job)
{
    const u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (!job->go || i >= n)
        return;
    const int held = i < (job->bytes - 8) / 2;
    x[i] = (Real)(held ? (double)((const short *)from)[4 + i] * *(const double *)from : 0);
}

extern "C" __global__ void pack_f32(const float *x, u64 n, unsigned char *to, const Job *job, u64 *work) { pack(x, n, to, job, work); }
extern "C" __global__ void pack_f64(const double *x, u64 n, unsigned char *to, const Job *job, u64 *work) { pack(x, n, to, job, work); }
extern "C" __global__ void unpack_f32(float *x, u64 n, const unsigned char *from, const Job *job) { unpack(x, n, from, job); }
extern "C" __global__ void unpack_f64(double *x, u64 n, const unsigned char *from, const Job *job) { unpack(x, n, from, job); }

/* Tells the size; `more`: added to it, and `status`: instead of success. */
extern "C" __global__ void tell(Job *job, const u64 *work, u64 more, int status)
{
    job->bytes = 8 + 2 * work[0] + more;
    job->status = status ? status : work[1] != 0;
}
"#;

/// A mistake that the functions of a quantiser make.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(i32)]
enum Mistake {
    None,
    /// `device_compress` tells a byte more than there is room for.
    MoreBytes,
    /// `device_compress` sets a negative status.
    NotCompressed,
    /// `device_decompress` sets a status.
    NotDecompressed,
    /// The functions cannot enqueue their work.
    NotEnqueued,
    /// `max_bytes` is too small for what was written before.
    LittleRoom,
}

/// A quantiser: `user` of its functions.
struct Quantiser {
    /// Addresses of the kernels: pack and unpack for FP32 and FP64, and tell.
    kernels: [u64; 5],
    mistake: AtomicI32,
    /// The status of a call on device memory from inside `device_compress`.
    inner: AtomicI32,
    calls: AtomicU64,
}

impl Quantiser {
    /// Compiles the kernels and registers the codec. Returns it with its number.
    fn register(name: &CStr) -> (&'static Self, i32) {
        let image = CString::new(cudarc::nvrtc::compile_ptx(SOURCE).unwrap().to_src()).unwrap();
        let mut module: CUmodule = null_mut();
        ok!(cuModuleLoadData(&mut module, image.as_ptr().cast()));
        let kernels = [c"pack_f32", c"pack_f64", c"unpack_f32", c"unpack_f64", c"tell"];
        let kernels = kernels.map(|name| {
            let mut function: CUfunction = null_mut();
            ok!(cuModuleGetFunction(&mut function, module, name.as_ptr()));
            function as u64
        });
        let [mistake, inner] = [Mistake::None as i32, 0].map(AtomicI32::new);
        let made = Quantiser { kernels, mistake, inner, calls: AtomicU64::new(0) };
        let made: &'static Self = Box::leak(Box::new(made));
        let table = gpuzip_codec_plugin_t {
            struct_size: size_of::<gpuzip_codec_plugin_t>() as u64,
            name: name.as_ptr(),
            user: (&raw const *made).cast_mut().cast(),
            max_bytes: Some(max_bytes),
            compress: Some(compress),
            decompress: Some(decompress),
            device_compress: Some(device_compress),
            device_decompress: Some(device_decompress),
            device_work: Some(device_work),
            reserved: 0,
        };
        let mut number = 0;
        // SAFETY: the table lives, and its functions do what they should.
        works(unsafe { gpuzip_codec_register(&table, &mut number) });
        (made, number)
    }

    fn make(&self, mistake: Mistake) {
        self.mistake.store(mistake as i32, Ordering::Relaxed);
    }

    fn makes(&self, mistake: Mistake) -> bool {
        self.mistake.load(Ordering::Relaxed) == mistake as i32
    }

    /// Enqueues a kernel for `threads` threads.
    fn launch(&self, kernel: usize, threads: u64, stream: *mut c_void, arguments: &mut [u64]) {
        let mut all: Vec<*mut c_void> =
            arguments.iter_mut().map(|a| (&raw mut *a).cast()).collect();
        let (function, blocks) = (self.kernels[kernel] as CUfunction, threads.div_ceil(128) as u32);
        let (block, stream) = (if threads == 1 { 1 } else { 128 }, stream as CUstream);
        let all = all.as_mut_ptr();
        ok!(cuLaunchKernel(function, blocks, 1, 1, block, 1, 1, 0, stream, all, null_mut()));
    }
}

/// The codec and the array of a call.
fn of<'a>(user: *mut c_void, field: *const gpuzip_field_t) -> (&'a Quantiser, gpuzip_field_t) {
    // SAFETY: `user` is the quantiser, which lives for ever; the library gives a field.
    unsafe { (&*user.cast::<Quantiser>(), *field) }
}

fn count(field: &gpuzip_field_t) -> u64 {
    field.n1 * field.n2 * field.n3
}

unsafe extern "C" fn max_bytes(user: *mut c_void, field: *const gpuzip_field_t) -> u64 {
    let (quantiser, field) = of(user, field);
    if quantiser.makes(Mistake::LittleRoom) {
        8
    } else {
        8 + 2 * count(&field)
    }
}

unsafe extern "C" fn compress(
    user: *mut c_void,
    field: *const gpuzip_field_t,
    _rms: i32,
    bound: f64,
    to: *mut c_void,
    capacity: u64,
    bytes: *mut u64,
) -> i32 {
    let (_, field) = of(user, field);
    let (quantum, count) = (2.0 * bound, count(&field) as usize);
    let x = |i: usize| match field.r#type {
        // SAFETY: the array has so many values.
        GPUZIP_TYPE_F32 => f64::from(unsafe { *field.data.cast::<f32>().add(i) }),
        // SAFETY: as above.
        _ => unsafe { *field.data.cast::<f64>().add(i) },
    };
    let mut made = quantum.to_le_bytes().to_vec();
    let mut end = 8;
    for i in 0..count {
        let q = (x(i) / quantum).round_ties_even();
        if !(-32767.0..=32767.0).contains(&q) {
            return 1;
        }
        made.extend((q as i16).to_le_bytes());
        end = if q != 0.0 { made.len() } else { end };
    }
    if end as u64 > capacity {
        return 1;
    }
    // SAFETY: there is room for these bytes, and a place for their number.
    unsafe {
        to.cast::<u8>().copy_from_nonoverlapping(made.as_ptr(), end);
        *bytes = end as u64;
    }
    0
}

unsafe extern "C" fn decompress(
    user: *mut c_void,
    from: *const c_void,
    bytes: u64,
    field: *const gpuzip_field_t,
) -> i32 {
    let (_, field) = of(user, field);
    // SAFETY: the library gives the bytes.
    let from = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), bytes as usize) };
    let quantum = f64::from_le_bytes(from[..8].try_into().unwrap());
    for i in 0..count(&field) as usize {
        let q = from[8..].chunks(2).nth(i).map_or(0, |q| i16::from_le_bytes([q[0], q[1]]));
        let x = f64::from(q) * quantum;
        // SAFETY: the array has so many values.
        unsafe {
            match field.r#type {
                GPUZIP_TYPE_F32 => *field.data.cast::<f32>().add(i) = x as f32,
                _ => *field.data.cast::<f64>().add(i) = x,
            }
        }
    }
    0
}

unsafe extern "C" fn device_work(_: *mut c_void, _: *const gpuzip_field_t) -> u64 {
    16
}

unsafe extern "C" fn device_compress(
    user: *mut c_void,
    field: *const gpuzip_field_t,
    _rms: i32,
    to: *mut c_void,
    capacity: u64,
    job: *mut gpuzip_codec_job_t,
    work: *mut c_void,
    stream: *mut c_void,
) -> i32 {
    let (codec, field) = of(user, field);
    assert_eq!((to as u64 % 256, work as u64 % 256, field.pitch2, field.role), (0, 0, 0, 0));
    assert_eq!(
        capacity,
        (8 + 2 * count(&field)).min(count(&field) * [4, 8][field.r#type as usize])
    );
    let mut bytes = 0;
    let config = crate::common::c_abi::config();
    let fields = [field];
    // SAFETY: the call is refused before it uses the arguments.
    codec.inner.store(
        unsafe { gpuzip_codec_compress(&config, fields.as_ptr(), 1, to, 1 << 20, &mut bytes) },
        Ordering::Relaxed,
    );
    codec.calls.fetch_add(1, Ordering::Relaxed);
    if codec.makes(Mistake::NotEnqueued) {
        return 7;
    }
    ok!(cuMemsetD8Async(work as u64, 0, 16, stream as CUstream));
    let (n, scalar) = (count(&field), field.r#type as usize);
    let mut arguments = [field.data as u64, n, to as u64, job as u64, work as u64];
    codec.launch(scalar, n, stream, &mut arguments);
    let more = if codec.makes(Mistake::MoreBytes) { capacity } else { 0 };
    let status = if codec.makes(Mistake::NotCompressed) { -3i32 } else { 0 };
    codec.launch(4, 1, stream, &mut [job as u64, work as u64, more, status as u32 as u64]);
    0
}

unsafe extern "C" fn device_decompress(
    user: *mut c_void,
    from: *const c_void,
    _capacity: u64,
    field: *const gpuzip_field_t,
    job: *mut gpuzip_codec_job_t,
    _work: *mut c_void,
    stream: *mut c_void,
) -> i32 {
    let (codec, field) = of(user, field);
    codec.calls.fetch_add(1, Ordering::Relaxed);
    if codec.makes(Mistake::NotEnqueued) {
        return 7;
    }
    if codec.makes(Mistake::NotDecompressed) {
        let at = job as u64 + offset_of!(gpuzip_codec_job_t, status) as u64;
        ok!(cuMemsetD8Async(at, 1, 1, stream as CUstream));
    }
    let (n, scalar) = (count(&field), field.r#type as usize);
    let mut arguments = [field.data as u64, n, from as u64, job as u64];
    codec.launch(2 + scalar, n, stream, &mut arguments);
    0
}

#[test]
fn the_streams_are_those_of_the_functions_for_the_host() {
    emulated!(kernels);
    let _primary = start();
    let (codec, number) = Quantiser::register(c"quantiser");
    check_codec(number, true);
    assert!(codec.calls.load(Ordering::Relaxed) > 100);
}

/// Mistakes of the application are errors of the call that shows them, and of no other.
#[test]
fn mistakes_are_errors() {
    emulated!(kernels);
    let _primary = start();
    let (quantiser, number) = Quantiser::register(c"quantiser");
    let of = |n: u64| {
        let shapes = [
            (shape([n, 9, 1], Scalar::F64, [0, 0]), 0),
            (shape([n, 9, 1], Scalar::F64, [0, 0]), 1),
        ];
        Bench::new(codec(number), &shapes)
    };
    let fill = |bench: &Bench| {
        let mut draw = Draw::new(3);
        for (k, (memory, (shape, _))) in bench.fields.iter().zip(&bench.shapes).enumerate() {
            let given = values(Kind::Wave, shape.n, Scalar::F64, k as f64, &mut draw);
            bench.send(memory.0, &spread(shape, &given, 0x5A));
        }
    };
    let told = |bench: &Bench| {
        let result = bench.result();
        (result.status, result.field, result.bytes)
    };
    let bench = of(64);
    fill(&bench);
    works(bench.encode());
    let (status, _, made) = told(&bench);
    assert_eq!(status, GPUZIP_OK);
    let stream = bench.receive(bench.coded.0, made as usize);
    // The call from inside did not wait for ever for the outer one.
    assert_eq!(quantiser.inner.load(Ordering::Relaxed), GPUZIP_ERR_STATE);
    for mistake in [Mistake::MoreBytes, Mistake::NotCompressed] {
        quantiser.make(mistake);
        works(bench.encode());
        // The stream of field 1, with differences, comes behind that of field 0.
        assert_eq!(told(&bench), (GPUZIP_ERR_ARGUMENT, 0, 0), "{mistake:?}");
        let (fields, mut bytes) = (bench.fields(), 0);
        let (to, room) = (bench.coded.0 as *mut c_void, bench.room);
        // SAFETY: all pointers are to live memory of the sizes given.
        let status = unsafe {
            gpuzip_codec_compress(&bench.config, fields.as_ptr(), 2, to, room, &mut bytes)
        };
        refused(status, GPUZIP_ERR_ARGUMENT, "a registered codec failed to compress field 0");
    }
    quantiser.make(Mistake::NotEnqueued);
    refused(
        bench.encode(),
        GPUZIP_ERR_ARGUMENT,
        "device_compress of a registered codec returned 7",
    );
    refused(bench.decode(made), GPUZIP_ERR_ARGUMENT, "device_decompress of a registered codec");
    quantiser.make(Mistake::None);
    bench.send(bench.coded.0, &stream);
    works(bench.decode(made));
    assert_eq!(told(&bench), (GPUZIP_OK, 0, made));
    quantiser.make(Mistake::NotDecompressed);
    works(bench.decode(made));
    assert_eq!(told(&bench).0, GPUZIP_ERR_STREAM);
    quantiser.make(Mistake::None);
    fill(&bench);
    works(bench.encode());
    assert_eq!(told(&bench), (GPUZIP_OK, 0, made));
    assert!(bench.receive(bench.coded.0, made as usize) == stream);
    // A payload that is longer than the room of its reader is not copied there.
    let other = of(33);
    fill(&other);
    works(other.encode());
    let made = told(&other).2;
    quantiser.make(Mistake::LittleRoom);
    let fields = other.fields();
    // SAFETY: all pointers are to live memory of the sizes given. Kernels for this order of the fields do not
    // exist yet.
    unsafe {
        let mut work = 0;
        works(gpuzip_codec_work(&other.config, fields.as_ptr(), 1, &mut work));
        assert!(work < other.work_bytes);
        let (coded, work) = (other.coded.0 as *const c_void, other.work.0 as *mut c_void);
        let (config, result) = (&other.config, other.result.0.cast());
        let stream = other.stream.0.cast();
        works(gpuzip_codec_decode(
            config,
            coded,
            made,
            fields.as_ptr(),
            1,
            work,
            other.work_bytes,
            result,
            stream,
        ));
    }
    assert_eq!(told(&other).0, GPUZIP_ERR_STREAM);
}

#[test]
fn functions_come_in_pairs_and_are_needed_on_a_device() {
    emulated!(kernels);
    let _primary = start();
    let table = |device_compress, device_decompress, device_work| gpuzip_codec_plugin_t {
        struct_size: size_of::<gpuzip_codec_plugin_t>() as u64,
        name: c"of the host".as_ptr(),
        user: null_mut(),
        max_bytes: Some(cut::max_bytes),
        compress: Some(cut::compress),
        decompress: Some(cut::decompress),
        device_compress,
        device_decompress,
        device_work,
        reserved: 0,
    };
    let mut number = 0;
    // SAFETY: the table lives, and its functions do what they should.
    let mut register =
        |table: gpuzip_codec_plugin_t| unsafe { gpuzip_codec_register(&table, &mut number) };
    for table in [
        table(Some(cut::device_compress), None, None),
        table(None, Some(cut::device_decompress), None),
        table(None, None, Some(device_work)),
    ] {
        refused(register(table), GPUZIP_ERR_ARGUMENT, "\"of the host\": device_compress and");
    }
    let reserved = gpuzip_codec_plugin_t { reserved: 1, ..table(None, None, None) };
    refused(register(reserved), GPUZIP_ERR_ARGUMENT, "reserved");
    works(register(table(None, None, None)));
    let shapes = shape([64, 9, 1], Scalar::F32, [0, 0]);
    let field = [shapes.field(null_mut(), 0)];
    let mut bytes = 0;
    // SAFETY: all pointers are to live values.
    let status = unsafe { gpuzip_codec_work(&codec(number), field.as_ptr(), 1, &mut bytes) };
    refused(
        status,
        GPUZIP_ERR_UNSUPPORTED,
        "\"of the host\" was registered without device_compress",
    );
}

/// In sessions every restore is that of the functions for host memory, in whatever order operations run.
#[test]
fn sessions_use_the_functions() {
    emulated!(kernels);
    let method = cut::register();
    let (seeds, mut coded) = (cases(40, 3000), 0);
    for seed in 0..seeds {
        let methods = std::slice::from_ref(&method);
        let of = Draws {
            algorithms: &ALGORITHMS,
            methods,
            steps: 1..21,
            lru: 4,
            devices: 1..3,
            ..Draws::PLAIN
        };
        let job = draw_job(seed, &of);
        let outcome = emulate(&job, seed, emu::mode(seed), 1 << 26, || run(&job, seed));
        coded += outcome.stats.iter().filter(|stats| stats.stored_bytes < stats.raw_bytes).count();
    }
    assert!(coded as u64 > seeds / 2, "{coded}");
    // A save that the codec fails is an error of a later call.
    cut::FAILS.store(true, Ordering::Relaxed);
    let settings = coding(method, ErrorBound::DEFAULT);
    let job = reference(Policy::Clairvoyant, 2);
    let job = Job { config: job.config.with(|c| c.codec.settings = settings), ..job };
    assert_eq!(emu::reset(1, emu::RANDOM, 1, 1 << 26), 0);
    let failed = run(&job, 1).map(|outcome| outcome.wrong);
    crate::common::play::refused(
        failed,
        Code::Argument,
        &["a registered codec failed to compress"],
    );
}
