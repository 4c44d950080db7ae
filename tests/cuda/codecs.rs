//! The kernels of the codecs, on the software driver: they make the same bytes as the host codecs,
//! and decode them to the same values.

mod bitcomp;
mod dct;

use crate::common::cases::{cases, long};
use crate::common::{self, emu, here, only_if, rig, tests_of};
use gpuzip::codec::{Content, ErrorBound, Header, Method, Settings, CODECS};
use gpuzip::scalar::Scalar;
use rig::{Draw, Kind, Rig, KINDS};
use std::path::PathBuf;

fn settings(method: Method, bound: ErrorBound) -> Settings {
    Settings { method, bound, ..Settings::default() }
}

const BOUNDS: [ErrorBound; 5] = [
    ErrorBound::OfMax(1e-3),
    ErrorBound::OfMax(1e-5),
    ErrorBound::Absolute(1e-4),
    ErrorBound::OfRange(1e-2),
    ErrorBound::Psnr(70.0),
];

/// Error bounds for the tests with recorded wavefields.
const REAL: [ErrorBound; 4] = [
    ErrorBound::OfMax(1e-2),
    ErrorBound::OfMax(1e-4),
    ErrorBound::Psnr(60.0),
    ErrorBound::Psnr(100.0),
];

const REAL_DCT: [ErrorBound; 3] =
    [ErrorBound::OfMax(1e-3), ErrorBound::OfMax(1e-4), ErrorBound::Psnr(80.0)];

/// Shapes of one to three dimensions, some of them multiples of the codecs' tiles and some not.
const SHAPES: [[u64; 3]; 9] = [
    [1, 1, 1],
    [5, 1, 1],
    [300, 1, 1],
    [2049, 1, 1],
    [33, 31, 1],
    [7, 1, 40],
    [16, 16, 16],
    [33, 10, 9],
    [20, 18, 35],
];

/// Compares a codec's kernels with its host version: all shapes, both types, all kinds of values,
/// one field and a pair of time levels.
fn check(name: &str, method: Method, bounds: &[ErrorBound]) {
    if inside(name) {
        check_shapes(method, bounds);
    }
}

fn check_shapes(method: Method, bounds: &[ErrorBound]) {
    let mut seed = 0;
    for (s, n) in SHAPES.into_iter().enumerate() {
        for scalar in [Scalar::F32, Scalar::F64] {
            for (b, &bound) in bounds.iter().enumerate() {
                let (of_one, of_pair) =
                    ([(n, scalar, None)], [(n, scalar, None), (n, scalar, Some(0))]);
                let mut one = Rig::skewed(settings(method.clone(), bound), &of_one, seed / 8 % 2);
                let mut pair =
                    Rig::skewed(settings(method.clone(), bound), &of_pair, seed / 16 % 2);
                // With the first bound all kinds, in the short test every second one; with each other
                // bound every fourth kind, and the kinds with values that are not finite, which a
                // bound may count or leave out.
                let turn = s + usize::from(scalar == Scalar::F64);
                let (every, turn) = if b == 0 { (every_kind(), turn) } else { (4, b) };
                let drawn = |k: usize, kind| {
                    k % every == turn % every || matches!(kind, Kind::NotFinite | Kind::Bits)
                };
                for (k, &kind) in KINDS.iter().enumerate().filter(|&(k, &kind)| drawn(k, kind)) {
                    seed += 1;
                    one.check(kind, seed + k as u64);
                    pair.check(kind, seed + k as u64);
                }
            }
        }
    }
}

/// Returns 2 where the short test draws every second kind of values, and 1 otherwise.
fn every_kind() -> usize {
    if on_a_gpu() {
        1
    } else {
        cases(2, 1)
    }
}

/// Compares a codec's kernels with its host version on a piece of GemPy's wavefields, both time
/// levels, if the files are found in the folder that `GPUZIP_SHARED` names, or else in `../shared`.
fn check_real(name: &str, method: Method, bounds: &[ErrorBound]) {
    let shared = std::env::var_os("GPUZIP_SHARED")
        .map_or_else(|| common::root().join("../shared"), PathBuf::from);
    let file = |level: &str| {
        std::fs::read(shared.join(format!("data/gempy2_3d_100x100x100_step0400_{level}.f32"))).ok()
    };
    let (Some(curr), Some(prev)) = (file("curr"), file("prev")) else {
        println!("skipped: no wavefields (set GPUZIP_SHARED)");
        return;
    };
    only_if!(inside(name));
    let n = cases([50, 30, 20], [100, 100, 100]);
    let piece = |field: &[u8]| {
        let line = |i: usize| {
            (20 * (i / n[1] % 2) + (i % n[1]) + 100 * (i / n[1])) * 400 % (field.len() - 400)
        };
        (0..n[1] * n[2])
            .flat_map(|i| field[line(i)..line(i) + 4 * n[0]].to_vec())
            .collect::<Vec<u8>>()
    };
    let n64 = n.map(|n| n as u64);
    for &bound in bounds {
        let mut pair = Rig::new(
            settings(method.clone(), bound),
            &[(n64, Scalar::F32, None), (n64, Scalar::F32, Some(0))],
        );
        pair.compare("a wavefield", vec![piece(&curr), piece(&prev)]);
    }
}

/// Damages payloads and makes their checksums right again: the device must refuse the streams that
/// the host refuses, and touch no memory but the stream and the fields.
fn check_damaged(name: &str, method: Method) {
    only_if!(inside(name));
    let times = cases(45, 500);
    let (mut draw, mut refused, mut read) = (Draw::new(7), 0, 0);
    for n in [[300, 1, 1], [2100, 1, 1], [45, 70, 1], [40, 9, 17]] {
        for (scalar, kind) in [Scalar::F32, Scalar::F64]
            .into_iter()
            .flat_map(|s| [Kind::Smooth, Kind::NotFinite, Kind::Sparse].map(|k| (s, k)))
        {
            let mut rig =
                Rig::new(settings(method.clone(), ErrorBound::OfMax(1e-3)), &[(n, scalar, None)]);
            let stream = rig.made(kind, 5);
            let (header, ..) = Header::open(&stream).unwrap();
            if header.content != Content::Coded {
                continue;
            }
            assert!(rig.survives(&stream, false));
            for time in 0..times {
                let is_read = rig.survives_damage(&stream, time, &mut draw);
                *(if is_read { &mut read } else { &mut refused }) += 1;
            }
        }
    }
    assert!(refused > 20 && read > 50, "{refused} refused, {read} read");
}

tests_of! {
    fp16: check(Method::Fp16, &BOUNDS[..1]);
    lorenzo: check(Method::Lorenzo, &BOUNDS);
    lorenzo_on_wavefields: check_real(Method::Lorenzo, &REAL);
    lorenzo_of_damaged_streams: check_damaged(Method::Lorenzo);
    cuszp: check(Method::Cuszp, &BOUNDS);
    cuszp_on_wavefields: check_real(Method::Cuszp, &REAL);
    cuszp_of_damaged_streams: check_damaged(Method::Cuszp);
    bfp: check(Method::Bfp, &BOUNDS[..1]);
    bfp_on_wavefields: check_real(Method::Bfp, &BOUNDS[..1]);
    bfp_of_damaged_streams: check_damaged(Method::Bfp);
    zfp_on_wavefields: check_real(Method::Zfp { rate: 8 }, &BOUNDS[..1]);
    zfp_of_damaged_streams: check_damaged(Method::Zfp { rate: 9 });
    dct_on_wavefields: check_real(Method::Dct, &REAL_DCT);
    dct_of_damaged_streams: check_damaged(Method::Dct);
}

/// On very smooth fields, tiles take the most differences that the encoder tries.
#[test]
fn lorenzo_takes_all_differences() {
    only_if!(inside(here!()));
    for (n, most) in [([40, 9, 10], 6), ([40, 70, 1], 4), ([2100, 1, 1], 3)] {
        let value = |i: u64| {
            (0.03 * (i % n[0] + 1) as f64).sin()
                * (0.04 * (i / n[0] % n[1] + i / n[0] / n[1] + 9) as f64).cos()
        };
        let field: Vec<u8> = (0..n[0] * n[1] * n[2]).flat_map(|i| value(i).to_le_bytes()).collect();
        let mut rig =
            Rig::new(settings(Method::Lorenzo, ErrorBound::OfMax(1e-7)), &[(n, Scalar::F64, None)]);
        let stream = rig.compare("a very smooth field", vec![field]);
        // The second byte of the first tile; the header (64 bytes), and the unit and the table of
        // one group (24 bytes), precede the tile.
        assert_eq!(stream[64 + 24 + 1] & 7, most, "{n:?}");
    }
}

/// Rates at which blocks share words of the stream and at which they do not, down to blocks that
/// hold only their exponent; extents with every remainder modulo the block's side, 4.
#[test]
fn zfp() {
    only_if!(inside(here!()));
    let lines = [[1, 1, 1], [3, 1, 1], [6, 1, 1], [1, 1031, 1]];
    let planes = [[2, 2, 1], [7, 5, 1], [9, 1, 14], [66, 43, 1]];
    let volumes = [[2, 3, 2], [5, 6, 7], [10, 3, 9], [8, 13, 4], [33, 18, 23]];
    let mut seed = 0;
    for n in lines.into_iter().chain(planes).chain(volumes) {
        for (scalar, most) in [(Scalar::F32, 32), (Scalar::F64, 64)] {
            for rate in
                [1, 2, 3, 5, 8, 13, 16, 21, 32, 47, 64].into_iter().filter(|&rate| rate <= most)
            {
                let settings = settings(Method::Zfp { rate }, ErrorBound::DEFAULT);
                let mut rig =
                    Rig::skewed(settings, &[(n, scalar, None), (n, scalar, Some(0))], seed / 8 % 2);
                for &kind in KINDS.iter().skip(seed as usize % 3).step_by(3) {
                    seed += 1;
                    rig.check(kind, seed);
                }
            }
        }
    }
}

#[test]
fn dct() {
    only_if!(inside(here!()));
    check_shapes(Method::Dct, if long() { &BOUNDS } else { &BOUNDS[..1] });
    dct::dct_of_many_tiles();
}

/// Returns true in the process that has the software driver, if a compiler for its kernels is
/// found.
fn inside(name: &str) -> bool {
    let inside = emu::with_kernels(name);
    if inside {
        assert_eq!(emu::reset(1, emu::RANDOM, 1, 1 << 28), 0);
    }
    inside
}

/// Returns three time levels of FP64 values and two of FP32 values, with these shapes.
fn two_groups(a: [u64; 3], b: [u64; 3]) -> [([u64; 3], Scalar, Option<u32>); 5] {
    [
        (a, Scalar::F64, Some(2)),
        (b, Scalar::F32, None),
        (a, Scalar::F64, None),
        (a, Scalar::F64, Some(0)),
        (b, Scalar::F32, Some(1)),
    ]
}

/// The large arrays of the tests on a GPU.
const LARGE: [([u64; 3], Scalar); 3] =
    [([131, 97, 113], Scalar::F32), ([700, 333, 1], Scalar::F64), ([300_007, 1, 1], Scalar::F32)];

/// A layout with three time levels in two groups and both types.
#[test]
fn groups() {
    only_if!(inside(here!()));
    let fields = two_groups([12, 9, 1], [40, 1, 1]);
    let mut rig = Rig::new(settings(Method::Fp16, ErrorBound::DEFAULT), &fields);
    for (seed, &kind) in KINDS.iter().enumerate() {
        rig.check(kind, seed as u64);
    }
}

/// States that are cut into records of one time level each: a field of its own beside a pair; three time
/// levels, of which the oldest is in the record of the newest; and two fields that are the previous level
/// of the same field.
#[test]
fn records() {
    only_if!(inside(here!()));
    let (n, m) = ([12, 9, 5], [40, 7, 1]);
    for (m_index, method) in methods().into_iter().enumerate() {
        for (k, fields) in [
            &two_groups(n, m)[..],
            &[(n, Scalar::F32, Some(1)), (n, Scalar::F32, None), (m, Scalar::F64, None)],
            &[(m, Scalar::F64, None), (m, Scalar::F64, Some(0)), (m, Scalar::F64, Some(0))],
        ]
        .into_iter()
        .enumerate()
        {
            for bound in [ErrorBound::OfMax(1e-3), ErrorBound::Psnr(60.0)] {
                let mut rig = Rig::of_levels(settings(method.clone(), bound), fields);
                let drawn = |i: usize| every_kind() == 1 || (i + k + m_index).is_multiple_of(2);
                for (i, &kind) in KINDS.iter().enumerate().filter(|&(i, _)| drawn(i)) {
                    rig.check_records(kind, (i + 10 * k) as u64);
                }
            }
        }
    }
}

/// The device refuses a stream in which any bit is changed, and a stream that is cut anywhere.
#[test]
fn damage() {
    only_if!(inside(here!()));
    let mut rig = Rig::new(
        settings(Method::Fp16, ErrorBound::DEFAULT),
        &[([6, 3, 1], Scalar::F32, None), ([6, 3, 1], Scalar::F32, Some(0))],
    );
    let stream = rig.made(Kind::Smooth, 3);
    let mut bad = stream.clone();
    // Two streams of 128 bytes, each with a header (64 bytes) and a payload (16 + 2 * 18 bytes);
    // the bytes behind a payload are not read.
    for bit in (0..8 * stream.len()).filter(|bit| bit / 8 % 128 < 64 + 52) {
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(rig.read(&bad).is_err(), "bit {bit}");
        bad[bit / 8] = stream[bit / 8];
    }
    for cut in (0..stream.len()).step_by(8) {
        assert!(rig.read(&stream[..cut]).is_err(), "cut at {cut}");
    }
    assert!(rig.read(&stream).is_ok());
}

/// Whether tests run on a real CUDA driver, as in the GPU bundle.
fn on_a_gpu() -> bool {
    std::env::var_os("GPUZIP_TEST_GPU").is_some()
}

/// Whether the driver is the software driver, on which the GPU bundle is tried at small sizes.
fn is_software() -> bool {
    gpuzip::device::cuda::devices().unwrap()[0].name.contains("software")
}

/// The codecs whose kernels write the bytes of the host codecs.
fn methods() -> Vec<Method> {
    let own = CODECS.iter().map(|codec| codec.method.clone());
    own.filter(|m| !matches!(m, Method::None | Method::Bitcomp { .. } | Method::Lossless)).collect()
}

/// On a GPU all codecs, types and kinds of values give the bytes of the host codecs. The GPU bundle
/// runs this test first.
#[test]
fn on_the_real_driver() {
    if !on_a_gpu() {
        println!("skipped: GPUZIP_TEST_GPU is not set");
        return;
    }
    for method in methods() {
        if is_software() {
            small_shapes(method);
            continue;
        }
        check_shapes(method.clone(), &BOUNDS);
        for (n, scalar) in LARGE {
            let mut rig = Rig::new(
                settings(method.clone(), ErrorBound::OfMax(1e-3)),
                &[(n, scalar, None), (n, scalar, Some(0))],
            );
            for (seed, &kind) in KINDS.iter().enumerate() {
                rig.check(kind, seed as u64);
            }
        }
        println!("{}: identical", method.name());
    }
}

/// Compares a codec with its host version in three shapes, both types, with two bounds.
fn small_shapes(method: Method) {
    for n in [[300, 1, 1], [33, 31, 1], [33, 10, 9]] {
        for scalar in [Scalar::F32, Scalar::F64] {
            for bound in [ErrorBound::OfMax(1e-3), ErrorBound::Psnr(70.0)] {
                if bound != ErrorBound::OfMax(1e-3) && !method.is_bounded() {
                    continue;
                }
                let pair = [(n, scalar, None), (n, scalar, Some(0))];
                let mut rig = Rig::new(settings(method.clone(), bound), &pair);
                rig.check(Kind::Smooth, 1);
                rig.check(Kind::NotFinite, 2);
            }
        }
    }
}

/// All codecs, at sizes for programs that check every access of a kernel: compute-sanitizer in the
/// GPU bundle.
#[test]
fn under_sanitizers() {
    if on_a_gpu() || inside("under_sanitizers") {
        methods().into_iter().for_each(small_shapes);
    }
}

/// A hundred times the same stream and the same values of each codec, those of the host: a race that
/// shows seldom shows here. `dct`, whose kernels order most among themselves, is first.
#[test]
fn a_hundred_times() {
    if !on_a_gpu() && !inside("a_hundred_times") {
        return;
    }
    let (n, times) = if is_software() { ([33, 31, 1], 3) } else { ([131, 97, 65], 100) };
    for method in methods() {
        for scalar in [Scalar::F32, Scalar::F64] {
            let pair = [(n, scalar, None), (n, scalar, Some(0))];
            let mut rig = Rig::new(settings(method.clone(), ErrorBound::OfMax(1e-3)), &pair);
            let (stream, hash) = rig.repeats(Kind::Smooth, 5, times);
            println!(
                "{{\"codec\": \"{}\", \"type\": \"{}\", \"values\": {}, \"times\": {times}, \"bytes\": {}, \"hash\": \"{hash:016x}\", \
                 \"identical\": true}}",
                method.name(),
                scalar.name(),
                2 * n.iter().product::<u64>(),
                stream.len()
            );
        }
    }
}

/// The value at index `i` of a wave in a cube of `extent`^3 values whose front is `front` points from
/// the centre.
fn wave_at(i: usize, extent: usize, front: f64) -> f32 {
    let at = |i: usize| i as f64 - extent as f64 / 2.0;
    let (x, y, z) = (at(i % extent), at(i / extent % extent), at(i / extent / extent));
    let value = [(0.0, 1.0), (0.3, -0.6), (-0.2, 0.4)].map(|(shift, amplitude)| {
        let r = ((x - shift * extent as f64).powi(2) + y * y + (z + shift * 50.0).powi(2)).sqrt();
        let a = (front - r).max(0.0) * 0.6;
        amplitude * a.sin() * (-a / 60.0).exp() / (r + 4.0) * a.min(1.0)
    });
    value.iter().sum::<f64>() as f32
}

/// A wave in a cube of `extent`^3 FP32 values whose front is `reach` * `extent` points from the
/// centre; the second field is the wave one time step earlier. All processors compute: on one, the
/// waves of 400^3 points would take half a minute.
fn wave(extent: usize, reach: f64) -> Vec<Vec<u8>> {
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get());
    let count = extent.pow(3).div_ceil(threads);
    let level = |step: f64| {
        let mut bytes = vec![0; 4 * extent.pow(3)];
        std::thread::scope(|scope| {
            for (thread, part) in bytes.chunks_mut(4 * count).enumerate() {
                scope.spawn(move || {
                    for (i, value) in part.chunks_exact_mut(4).enumerate() {
                        let front = reach * extent as f64 - step;
                        let at = wave_at(thread * count + i, extent, front);
                        value.copy_from_slice(&at.to_le_bytes());
                    }
                });
            }
        });
        bytes
    };
    vec![level(0.0), level(0.4)]
}

/// A codec for the two fields of `wave`, with a bound relative to the largest value.
fn wave_rig(method: &Method, extent: usize, bound: f64) -> Rig {
    let n = [extent as u64; 3];
    let fields = [(n, Scalar::F32, None), (n, Scalar::F32, Some(0))];
    Rig::new(settings(method.clone(), ErrorBound::OfMax(bound)), &fields)
}

/// Compresses a wave once with every codec: a profiler, under which the GPU bundle runs this test,
/// sees every encoder once.
#[test]
fn encoders() {
    if !on_a_gpu() {
        println!("skipped: GPUZIP_TEST_GPU is not set");
        return;
    }
    let extent = if is_software() { 20 } else { 256 };
    let fields = wave(extent, 1.2);
    for method in methods() {
        let bytes = wave_rig(&method, extent, 1e-3).make(&fields).len();
        println!(
            "{{\"probe\": \"encoded\", \"codec\": \"{}\", \"raw_bytes\": {}, \"bytes\": {bytes}}}",
            method.name(),
            8 * extent.pow(3)
        );
    }
}

/// Prints one JSON object per codec, bound, grid and fill, with the throughput in GB/s of
/// uncompressed data for compression, decompression, and a copy on the device. The rows that tell
/// most come first: a time limit cuts the last ones.
#[test]
fn throughput() {
    if !on_a_gpu() && !inside("throughput") {
        return;
    }
    let is_gpu = !is_software();
    let extents: &[usize] = if is_gpu { &[400, 256, 128] } else { &[20] };
    let bitcomp = (is_gpu && bitcomp::is_there()).then_some(Method::Bitcomp { sparse: false });
    for &extent in extents {
        for (fill, reach) in [("filled", 1.2), ("half", 0.3)] {
            let fields = wave(extent, reach);
            let raw = fields.iter().map(Vec::len).sum::<usize>() as f64;
            for method in methods().into_iter().chain(bitcomp.clone()) {
                let bounds = if method.is_bounded() { &[1e-2, 1e-3, 1e-4][..] } else { &[1e-3] };
                for &bound in bounds {
                    let mut rig = wave_rig(&method, extent, bound);
                    let ([compress, decompress, copy], bytes) =
                        rig.time(&fields, if is_gpu { 21 } else { 1 });
                    // The software driver's times are no figures.
                    let figure = |value: f64| {
                        if is_gpu {
                            format!("{value:.3}")
                        } else {
                            "null".to_owned()
                        }
                    };
                    let gbs = |seconds: f64| figure(raw / seconds / 1e9);
                    let bound =
                        if method.is_bounded() { format!("{bound:e}") } else { "null".into() };
                    println!(
                        "{{\"codec\": \"{}\", \"bound\": {bound}, \"extent\": {extent}, \"fill\": \"{fill}\", \"raw_bytes\": {raw}, \"ratio\": {:.3}, \
                         \"compress_gbs\": {}, \"decompress_gbs\": {}, \"copy_gbs\": {}, \"compress_of_copy\": {}, \"decompress_of_copy\": {}}}",
                        method.name(),
                        raw / bytes as f64,
                        gbs(compress),
                        gbs(decompress),
                        gbs(copy),
                        figure(copy / compress),
                        figure(copy / decompress)
                    );
                    assert!(
                        bytes > 0 && (bytes as f64) < raw,
                        "{} does not compress a wave",
                        method.name()
                    );
                }
            }
        }
    }
}
