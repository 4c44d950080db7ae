//! `gpuzip_codec_encode` and `gpuzip_codec_decode`: codecs on device memory without a session. The streams are
//! those of the host's calls, the host waits for nothing, and wrong arguments are refused by name.

use crate::common::app::device::{Memory, Own, Primary};
use crate::common::app::ok;
use crate::common::c_abi::{refused, works};
use crate::common::cases::cases;
use crate::common::device_calls::{codec, shape, spread, Bench, Shape};
use crate::common::rig::{values, Draw, Kind, KINDS};
use crate::common::{emu, nvcomp};
use emu::emulated;
use gpuzip::capi::*;
use gpuzip::scalar::Scalar;
use std::ffi::c_void;
use std::ptr::null_mut;

const PAIR: &[i32] = &[0, 1];

/// The codecs whose kernels write the bytes of the host's codecs.
const CODECS: [i32; 6] = [
    GPUZIP_COMPRESSOR_ZFP,
    GPUZIP_COMPRESSOR_CUSZP,
    GPUZIP_COMPRESSOR_LORENZO,
    GPUZIP_COMPRESSOR_DCT,
    GPUZIP_COMPRESSOR_FP16,
    GPUZIP_COMPRESSOR_BFP,
];

/// Shapes without gaps, with gaps between rows, between planes, and between both.
fn shapes(scalar: Scalar) -> [Shape; 6] {
    [
        shape([300, 1, 1], scalar, [0, 0]),
        shape([33, 31, 1], scalar, [40, 0]),
        shape([20, 18, 9], scalar, [0, 0]),
        shape([20, 18, 9], scalar, [20, 400]),
        shape([19, 10, 11], scalar, [24, 24 * 12]),
        shape([70, 3, 2], scalar, [71, 0]),
    ]
}

/// Compares streams and fields of one codec: both types, all shapes, one field and a pair, and several bounds.
pub fn check_codec(compressor: i32, same_bytes: bool) {
    let (mut seed, mut coded) = (0, 0);
    for scalar in [Scalar::F32, Scalar::F64] {
        for shape in shapes(scalar) {
            for (mode, bound) in [(0, 1e-3), (1, 1e-4), (3, 70.0)] {
                let config = gpuzip_config_t {
                    error_bound_mode: mode,
                    error_bound: bound,
                    ..codec(compressor)
                };
                let pair: Vec<_> = PAIR.iter().map(|&role| (shape.clone(), role)).collect();
                for shapes in [&pair[..1], &pair[..]] {
                    let bench = Bench::new(config, shapes);
                    let kinds = [Kind::Wave, Kind::Smooth, KINDS[seed as usize % KINDS.len()]];
                    for kind in &kinds[..cases(2, 3)] {
                        seed += 1;
                        let mut draw = Draw::new(seed);
                        let given: Vec<_> = (0..shapes.len())
                            .map(|i| values(*kind, shape.n, scalar, i as f64, &mut draw))
                            .collect();
                        coded += usize::from(bench.check(&given, same_bytes));
                    }
                }
            }
        }
    }
    assert!(coded > 10, "{compressor}: {coded}");
}

pub fn start() -> Primary {
    assert_eq!(emu::reset(1, emu::RANDOM, 1, 1 << 28), 0);
    Primary::new(0)
}

#[test]
fn the_streams_are_the_hosts_and_nobody_waits() {
    emulated!(kernels);
    let _primary = start();
    CODECS.iter().for_each(|&compressor| check_codec(compressor, true));
}

/// libnvcomp defines the bytes of Bitcomp's streams: here each side reads the other's.
#[test]
fn bitcomp_is_exchanged() {
    let library = nvcomp::stand_in("whole", "-DWHOLE");
    let images = emu::images();
    emulated!(&[("GPUZIP_CACHE_DIR", images.to_str().unwrap()), (nvcomp::PATH, &library)]);
    let _primary = start();
    check_codec(GPUZIP_COMPRESSOR_BITCOMP, false);
}

/// Calls on one stream, in the same work space and with another layout each time, follow one another without a
/// wait; the result of each lies in device memory.
#[test]
fn calls_follow_one_another_in_the_same_work_space() {
    emulated!(kernels);
    let _primary = start();
    let benches: Vec<Bench> = CODECS
        .iter()
        .zip(shapes(Scalar::F32))
        .map(|(&compressor, shape)| {
            Bench::new(codec(compressor), &[(shape.clone(), 0), (shape, 1)])
        })
        .collect();
    let work_bytes = benches.iter().map(|bench| bench.work_bytes).max().unwrap();
    let (work, results) = (Memory::new(work_bytes), Memory::new(32 * 2 * benches.len() as u64));
    let stream = Own::new();
    let mut images = Vec::new();
    for bench in &benches {
        let mut draw = Draw::new(9);
        for (i, ((shape, _), memory)) in bench.shapes.iter().zip(&bench.fields).enumerate() {
            let given = values(Kind::Wave, shape.n, shape.scalar, i as f64, &mut draw);
            images.push(spread(shape, &given, 0x5A));
            bench.send(memory.0, images.last().unwrap());
        }
    }
    let before = emu::counters().host_syncs;
    for (k, bench) in benches.iter().enumerate() {
        let fields = bench.fields();
        let result = |i: u64| (results.0 + 32 * (2 * k as u64 + i)) as *mut gpuzip_codec_result_t;
        // SAFETY: all pointers are to live memory of the sizes given.
        unsafe {
            works(gpuzip_codec_encode(
                &bench.config,
                fields.as_ptr(),
                2,
                bench.coded.0 as *mut c_void,
                bench.room,
                work.0 as *mut c_void,
                work_bytes,
                result(0),
                stream.0.cast(),
            ));
            works(gpuzip_codec_decode(
                &bench.config,
                bench.coded.0 as *const c_void,
                bench.room,
                fields.as_ptr(),
                2,
                work.0 as *mut c_void,
                work_bytes,
                result(1),
                stream.0.cast(),
            ));
        }
    }
    assert_eq!(emu::counters().host_syncs, before, "the host waited");
    ok!(cuStreamSynchronize(stream.0));
    let told = benches[0].receive(results.0, 64 * benches.len());
    for pair in told.chunks(64) {
        // The status is behind the bytes, and both calls had the same stream.
        assert_eq!((&pair[..16], &pair[8..16]), (&pair[32..48], &[0u8; 8][..]));
        assert_ne!(pair[..8], [0; 8]);
    }
}

/// The calls that wait do the same to device memory: the stream of `gpuzip_codec_encode`, its arrays, and its
/// values, and errors that the device finds.
#[test]
fn calls_that_wait_take_device_memory() {
    emulated!(kernels);
    let _primary = start();
    for (seed, &compressor) in (0..).zip(&CODECS) {
        for scalar in [Scalar::F32, Scalar::F64] {
            let rows = shape([33, 10, 3], scalar, [40, 0]);
            let bench = Bench::new(codec(compressor), &[(rows.clone(), 0), (rows.clone(), 1)]);
            let mut draw = Draw::new(seed);
            for (k, memory) in bench.fields.iter().enumerate() {
                let given = values(Kind::Wave, rows.n, scalar, k as f64, &mut draw);
                bench.send(memory.0, &spread(&rows, &given, 0x5A));
            }
            works(bench.encode());
            let made = bench.result();
            let stream = bench.receive(bench.coded.0, made.bytes as usize);
            bench.send(bench.coded.0, &vec![0xA5; bench.room as usize]);
            let (fields, to, mut bytes) = (bench.fields(), bench.coded.0 as *mut c_void, 0);
            let mut info = [gpuzip_codec_info_t {
                struct_size: size_of::<gpuzip_codec_info_t>() as u64,
                ..Default::default()
            }; 4];
            // SAFETY: all pointers are to live memory of the sizes given.
            unsafe {
                let (config, room) = (&bench.config, bench.room);
                works(gpuzip_codec_compress(config, fields.as_ptr(), 2, to, room, &mut bytes));
                assert_eq!(bytes, made.bytes);
                assert!(bench.receive(bench.coded.0, stream.len()) == stream);
                for index in 0..2 {
                    let on_host = stream.as_ptr().cast();
                    works(gpuzip_codec_info(on_host, bytes, index, &mut info[index as usize]));
                    works(gpuzip_codec_info(to, room, index, &mut info[2 + index as usize]));
                }
                // Of a stream on the device the number of arrays is not told.
                info[2..].iter_mut().for_each(|info| info.arrays += 2);
                let fields_of = |info: &gpuzip_codec_info_t| format!("{info:?}");
                assert_eq!(
                    info[..2].iter().map(fields_of).collect::<Vec<_>>(),
                    info[2..].iter().map(fields_of).collect::<Vec<_>>()
                );
                works(bench.decode(bytes));
                bench.result();
            }
            let size = rows.places().1 * scalar.bytes() as usize;
            let images: Vec<_> = bench.fields.iter().map(|m| bench.receive(m.0, size)).collect();
            for room in [bytes, bench.room] {
                bench.fields.iter().for_each(|m| bench.send(m.0, &vec![0x5A; size]));
                // SAFETY: as above.
                works(unsafe { gpuzip_codec_decompress(to, room, fields.as_ptr(), 2) });
                let found: Vec<_> = bench.fields.iter().map(|m| bench.receive(m.0, size)).collect();
                assert!(found == images, "{compressor}");
            }
            for (damage, part) in [(70, "damaged"), (0, "do not begin"), (49, "stream")] {
                let mut damaged = stream.clone();
                damaged[damage] ^= 0x10;
                bench.send(bench.coded.0, &damaged);
                // SAFETY: as above.
                let status = unsafe { gpuzip_codec_decompress(to, bytes, fields.as_ptr(), 2) };
                refused(status, GPUZIP_ERR_STREAM, part);
            }
            // SAFETY: as above.
            let status = unsafe { gpuzip_codec_decompress(to, 63, fields.as_ptr(), 2) };
            refused(status, GPUZIP_ERR_STREAM, "cut off");
            let strict = gpuzip_config_t { nonfinite: 1, ..bench.config };
            let nan = [f64::NAN.to_le_bytes().to_vec(), f32::NAN.to_le_bytes().to_vec()];
            bench.send(bench.fields[1].0, &nan[usize::from(scalar == Scalar::F32)]);
            // SAFETY: as above.
            let status = unsafe {
                gpuzip_codec_compress(&strict, fields.as_ptr(), 2, to, bench.room, &mut bytes)
            };
            refused(status, GPUZIP_ERR_VALUES, "field 1 holds 1 values");
        }
    }
}

#[test]
fn errors_on_the_device_are_in_the_result() {
    emulated!(kernels);
    let _primary = start();
    let of = |config| {
        let shapes: Vec<_> =
            PAIR.iter().map(|&role| (shape([64, 9, 1], Scalar::F32, [0, 0]), role)).collect();
        Bench::new(config, &shapes)
    };
    let bench = of(gpuzip_config_t { nonfinite: 1, ..codec(GPUZIP_COMPRESSOR_DCT) });
    let given = |kind| {
        let mut draw = Draw::new(3);
        values(kind, [64, 9, 1], Scalar::F32, 0.0, &mut draw)
    };
    bench.send(bench.fields[0].0, &given(Kind::Wave));
    let mut bad = given(Kind::Smooth);
    bad[8..12].copy_from_slice(&f32::NAN.to_le_bytes());
    bench.send(bench.fields[1].0, &bad);
    works(bench.encode());
    let result = bench.result();
    assert_eq!(
        (result.status, result.field, result.count, result.bytes),
        (GPUZIP_ERR_VALUES, 1, 1, 0)
    );
    // Without the NaN the stream is made; then each damage and each cut is found, and another codec, too.
    bench.send(bench.fields[1].0, &given(Kind::Smooth));
    works(bench.encode());
    let made = bench.result();
    assert_eq!(made.status, GPUZIP_OK);
    let stream = bench.receive(bench.coded.0, made.bytes as usize);
    for at in (0..stream.len()).step_by(64) {
        let mut damaged = stream.clone();
        damaged[at] ^= 1;
        bench.send(bench.coded.0, &damaged);
        works(bench.decode(bench.room));
        assert_eq!(bench.result().status, GPUZIP_ERR_STREAM, "{at}");
        bench.send(bench.coded.0, &stream);
        works(bench.decode(at as u64));
        assert_eq!(bench.result().status, GPUZIP_ERR_STREAM, "cut at {at}");
    }
    let other = of(codec(GPUZIP_COMPRESSOR_LORENZO));
    other.send(other.coded.0, &stream);
    works(other.decode(made.bytes));
    assert_eq!((other.result().status, other.result().bytes), (GPUZIP_ERR_STREAM, 0));
    works(bench.decode(made.bytes));
    assert_eq!((bench.result().status, bench.result().bytes), (GPUZIP_OK, made.bytes));
}

#[test]
fn wrong_arguments_are_refused_by_name() {
    emulated!(kernels);
    let _primary = start();
    let bench =
        Bench::new(codec(GPUZIP_COMPRESSOR_FP16), &[(shape([64, 9, 1], Scalar::F32, [0, 0]), 0)]);
    bench.send(bench.fields[0].0, &vec![0; 64 * 9 * 4]);
    let mut host = vec![0u64; 1 << 10];
    let on_host: *mut c_void = host.as_mut_ptr().cast();
    let config = bench.config;
    let encode = |config: &gpuzip_config_t, change: &dyn Fn(&mut Arguments)| {
        let mut given = Arguments {
            field: bench.fields()[0],
            coded: bench.coded.0 as *mut c_void,
            capacity: bench.room,
            work: bench.work.0 as *mut c_void,
            work_bytes: bench.work_bytes,
            result: bench.result.0,
        };
        change(&mut given);
        let Arguments { field, coded, capacity, work, work_bytes, result } = given;
        // SAFETY: a call that is refused uses no memory.
        unsafe {
            gpuzip_codec_encode(
                config,
                &field,
                1,
                coded,
                capacity,
                work,
                work_bytes,
                result.cast(),
                bench.stream.0.cast(),
            )
        }
    };
    let argument = |change: &dyn Fn(&mut Arguments), part: &str| {
        refused(encode(&config, change), GPUZIP_ERR_ARGUMENT, part)
    };
    argument(&|a| a.field.data = on_host, "host memory");
    argument(&|a| a.field.data = null_mut(), "field 0: data is NULL");
    argument(&|a| a.coded = on_host, "coded = ");
    argument(&|a| a.coded = null_mut(), "coded is NULL");
    argument(&|a| a.coded = a.coded.wrapping_byte_add(8), "no multiple of 64");
    argument(&|a| a.capacity -= 1, "gpuzip_codec_bound");
    argument(&|a| a.work = on_host, "work = ");
    argument(&|a| a.work = a.work.wrapping_byte_add(64), "no multiple of 256");
    argument(&|a| a.work_bytes -= 1, "gpuzip_codec_work");
    argument(&|a| a.result = on_host, "page-locked");
    argument(&|a| a.result = a.result.wrapping_byte_add(4), "no multiple of 8");
    argument(&|a| a.result = null_mut(), "result is NULL");
    let unsupported = |config: &gpuzip_config_t, change: &dyn Fn(&mut Arguments), part: &str| {
        refused(encode(config, change), GPUZIP_ERR_UNSUPPORTED, part)
    };
    unsupported(&config, &|a| a.field.r#type = GPUZIP_TYPE_I32, "field 0");
    unsupported(&codec(GPUZIP_COMPRESSOR_LOSSLESS), &|_| {}, "lossless");
    unsupported(&codec(GPUZIP_COMPRESSOR_NONE), &|_| {}, "none");
    let auto = gpuzip_config_t { error_bound: 1e-3, ..codec(GPUZIP_COMPRESSOR_AUTO) };
    refused(encode(&auto, &|_| {}), GPUZIP_ERR_CONFIG, "auto");
    let on_the_host = gpuzip_config_t { backend: 1, ..config };
    refused(encode(&on_the_host, &|_| {}), GPUZIP_ERR_ARGUMENT, "gpuzip_codec_compress");
    // The calls that wait take streams and fields in one memory.
    let (mut field, mut bytes) = (bench.fields()[0], 0);
    // SAFETY: a call that is refused uses no memory.
    let compress = |config: &gpuzip_config_t, field: &gpuzip_field_t, to, bytes: &mut u64| unsafe {
        gpuzip_codec_compress(config, field, 1, to, 8 << 10, bytes)
    };
    let status = compress(&config, &field, on_host, &mut bytes);
    refused(status, GPUZIP_ERR_ARGUMENT, "is host memory");
    let status = compress(&on_the_host, &field, on_host, &mut bytes);
    refused(status, GPUZIP_ERR_ARGUMENT, "field 0");
    // SAFETY: as above.
    refused(
        unsafe { gpuzip_codec_bound(&on_the_host, &field, 1, &mut bytes) },
        GPUZIP_ERR_ARGUMENT,
        "field 0",
    );
    // SAFETY: as above.
    let status = unsafe { gpuzip_codec_decompress(on_host, 64, &field, 1) };
    refused(status, GPUZIP_ERR_ARGUMENT, "is host memory");
    let on_device = bench.coded.0 as *mut c_void;
    field.data = on_host;
    let status = compress(&config, &field, on_device, &mut bytes);
    refused(status, GPUZIP_ERR_ARGUMENT, "the fields are in host memory");
    // SAFETY: as above.
    let status = unsafe { gpuzip_codec_decompress(on_device, bench.room, &field, 1) };
    refused(status, GPUZIP_ERR_STREAM, "do not begin a gpuzip stream");
    works(encode(&config, &|_| {}));
    assert_eq!(bench.result().status, GPUZIP_OK);
}

/// What a call gets.
struct Arguments {
    field: gpuzip_field_t,
    coded: *mut c_void,
    capacity: u64,
    work: *mut c_void,
    work_bytes: u64,
    result: *mut c_void,
}
