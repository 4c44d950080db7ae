//! The kernels of the codecs as NVIDIA's compiler makes them: the PTX that a GPU would be given,
//! interpreted by the software driver with every access checked and blocks, warps and lanes
//! interleaved by a seed. The kernels must make the bytes of the host codecs, and no check may
//! report anything. Without NVIDIA's NVRTC, which tests/nvrtc.sh installs, these tests are skipped.

mod plants;

use super::rtm3d;
use super::tools::{installed, interpreting, on_two_threads};
use crate::common::app::device::{Memory, Own, Primary};
use crate::common::app::ok;
use crate::common::cases::long;
use crate::common::cut;
use crate::common::device_calls::{codec, shape, Bench};
use crate::common::{self, emu, here, nvcomp, only_if, rig, tests_of};

use gpuzip::capi::*;
use gpuzip::codec::gpu::FieldSum;
use gpuzip::codec::{checksum, Content, ErrorBound, Header, Method, Settings};
use gpuzip::device::Queue;
use gpuzip::device::Stream;
use gpuzip::scalar::Scalar;
use rig::{values, Draw, Kind, Rig, KINDS};
use std::sync::OnceLock;

/// Runs the test `name` in a process whose driver interprets PTX. Returns true in that process.
fn inside(name: &str) -> bool {
    inside_with(name, &[])
}

/// As `inside`, with more variables.
fn inside_with(name: &str, more: &[(&str, &str)]) -> bool {
    if std::env::var_os("GPUZIP_TEST_EMULATED").is_some() {
        assert_eq!(emu::reset(1, emu::RANDOM, 1, 1 << 28), 0);
        return true;
    }
    let Some(folder) = installed("nvrtc.sh") else { return false };
    let variables = interpreting(&folder);
    let variables = variables.iter().map(|(name, value)| (*name, value.as_str()));
    emu::inside(name, &variables.chain(more.iter().copied()).collect::<Vec<_>>())
}

/// Shapes of one to three dimensions, with whole tiles of the codecs and with parts of tiles.
const SHAPES: [[u64; 3]; 6] =
    [[1, 1, 1], [300, 1, 1], [1100, 1, 1], [33, 31, 1], [16, 16, 16], [33, 10, 9]];

/// Compares a codec's kernels with its host version, under 24 seeds (in long tests 288; of the six
/// codecs 1,728): each round of 12 has all shapes, both types and all kinds of values. The seed draws
/// the rest of the matrix: the bound, one field or a pair of time levels, addresses that are a
/// multiple of 256 bytes or one value behind it. Every launch draws an interleaving of its own.
fn check(name: &str, method: Method, bounds: &[ErrorBound]) {
    if !inside(name) {
        return;
    }
    for seed in 0..if long() { 288 } else { 24 } {
        assert_eq!(emu::reset(seed, emu::RANDOM, 1, 1 << 28), 0);
        let (round, place) = (seed as usize / 12, seed as usize % 12);
        let (n, scalar) = (SHAPES[place / 2], [Scalar::F32, Scalar::F64][place % 2]);
        let mut draw = Draw::new(seed);
        let mut below = |count: usize| (draw.bits() >> 33) as usize % count;
        let settings = settings(&method, bounds[below(bounds.len())]);
        let fields = [(n, scalar, None), (n, scalar, Some(0))];
        let fields = &fields[..1 + below(2)];
        let mut rig = Rig::skewed(settings, fields, below(2) as u64);
        rig.check(KINDS[(place * 5 + round) % KINDS.len()], seed);
    }
}

fn settings(method: &Method, bound: ErrorBound) -> Settings {
    Settings { method: method.clone(), bound, ..Settings::default() }
}

/// Damages payloads and makes their checksums right again: the device must refuse the streams that
/// the host refuses, and no check may report anything.
///
/// There are 3 streams with 12 damages each; in long tests 12 streams with 75 damages each, so that
/// each shape has both types, all bounds, and fields at odd addresses.
fn check_damaged(name: &str, method: Method) {
    if !inside(name) {
        return;
    }
    let (rounds, times) = if long() { (4, 75) } else { (1, 12) };
    let (mut draw, mut refused, mut read) = (Draw::new(11), 0, 0);
    for i in 0..3 * rounds {
        assert_eq!(emu::reset(i as u64, emu::RANDOM, 1, 1 << 28), 0);
        let (n, round) = ([[300, 1, 1], [45, 70, 1], [40, 9, 17]][i % 3], i / 3);
        let scalar = [Scalar::F32, Scalar::F64][(i % 3 + round + method.name().len()) % 2];
        let settings = settings(&method, BOUNDS[round]);
        let mut rig = Rig::skewed(settings, &[(n, scalar, None)], round as u64 / 2 % 2);
        let stream = rig.made([Kind::Smooth, Kind::Sparse][i % 2], 5 + round as u64);
        let (header, ..) = Header::open(&stream).unwrap();
        assert_eq!(header.content, Content::Coded);
        for time in 0..times {
            let is_read = rig.survives_damage(&stream, time, &mut draw);
            *(if is_read { &mut read } else { &mut refused }) += 1;
        }
    }
    assert!(refused > 2 && read + refused == 3 * rounds * times, "{refused} refused, {read} read");
}

const BOUNDS: [ErrorBound; 4] = [
    ErrorBound::OfMax(1e-3),
    ErrorBound::Absolute(1e-4),
    ErrorBound::OfRange(1e-2),
    ErrorBound::OfMax(1e-5),
];

tests_of! {
    fp16: check(Method::Fp16, &BOUNDS[..1]);
    bfp: check(Method::Bfp, &BOUNDS[..1]);
    cuszp: check(Method::Cuszp, &BOUNDS);
    lorenzo: check(Method::Lorenzo, &BOUNDS);
    dct: check(Method::Dct, &[ErrorBound::OfMax(1e-3), ErrorBound::Psnr(70.0), BOUNDS[3]]);
    zfp: check(Method::Zfp { rate: 8 }, &BOUNDS[..1]);
    damaged_fp16: check_damaged(Method::Fp16);
    damaged_bfp: check_damaged(Method::Bfp);
    damaged_cuszp: check_damaged(Method::Cuszp);
    damaged_lorenzo: check_damaged(Method::Lorenzo);
    damaged_dct: check_damaged(Method::Dct);
    damaged_zfp: check_damaged(Method::Zfp { rate: 9 });
}

/// Fields of more tiles than blocks are resident, so that blocks wait for each other.
#[test]
fn many_tiles() {
    only_if!(inside(here!()));
    let all = [
        (Method::Lorenzo, [64, 40, 40], Scalar::F32),
        (Method::Lorenzo, [150, 131, 1], Scalar::F64),
        (Method::Cuszp, [40_000, 1, 1], Scalar::F32),
        (Method::Dct, [40, 33, 18], Scalar::F64),
        (Method::Dct, [60_000, 1, 1], Scalar::F32),
    ];
    for (i, (method, n, scalar)) in all.into_iter().enumerate() {
        for seed in 0..if long() { 20 } else { 1 } {
            assert_eq!(emu::reset(seed, emu::RANDOM, 1, 1 << 28), 0);
            let settings = settings(&method, ErrorBound::OfMax(1e-3));
            let mut rig = Rig::new(settings, &[(n, scalar, None)]);
            rig.check([Kind::Sparse, Kind::Smooth, Kind::Wave][(i + seed as usize) % 3], seed);
        }
    }
}

/// The kernels beside libnvcomp, of which there is a stand-in.
#[test]
fn bitcomp() {
    if !common::have("cc") {
        return;
    }
    let library = nvcomp::stand_in("whole", "-DWHOLE");
    only_if!(inside_with(here!(), &[(nvcomp::PATH, &library)]));
    let mut coded = 0;
    for (seed, n) in SHAPES.into_iter().enumerate() {
        for scalar in [Scalar::F32, Scalar::F64] {
            let bound = [ErrorBound::OfMax(1e-3), ErrorBound::Psnr(60.0)][seed % 2];
            let method = Method::Bitcomp { sparse: seed % 3 == 1 };
            let fields = [(n, scalar, None), (n, scalar, Some(0))];
            let mut rig = Rig::skewed(settings(&method, bound), &fields, seed as u64 % 2);
            coded += rig.exchange(KINDS[seed % KINDS.len()], seed as u64, true);
        }
    }
    assert!(coded > 5, "{coded} arrays coded");
}

/// The checksum of a field, by all blocks of a grid: the last block uses and resets the sum.
#[test]
fn levels() {
    only_if!(inside(here!()));
    for seed in 0..if long() { 200 } else { 12 } {
        assert_eq!(emu::reset(seed, emu::RANDOM, 1, 1 << 28), 0);
        sum_fields(seed);
    }
}

/// Calls without a session, on fields with gaps between their rows: the host's bytes, and nothing written to a gap.
#[test]
fn calls() {
    only_if!(inside(here!()));
    for seed in 0..if long() { 200 } else { 16 } {
        call(seed, CALLED[seed as usize % 4]());
    }
}

/// Codecs that are called without a session, the last one a registered one.
const CALLED: [fn() -> i32; 4] =
    [|| GPUZIP_COMPRESSOR_FP16, || GPUZIP_COMPRESSOR_LORENZO, || GPUZIP_COMPRESSOR_DCT, registered];

/// A registered codec.
fn registered() -> i32 {
    static CUT: OnceLock<u8> = OnceLock::new();
    i32::from(*CUT.get_or_init(|| cut::register().number()))
}

/// The kernels of the example `rtm3d_cuda`.
#[test]
fn rtm3d_cuda() {
    only_if!(inside(here!()));
    for seed in 0..if long() { 100 } else { 6 } {
        rtm3d::run(seed);
    }
}

/// Codes a field, or a pair of time levels, by `gpuzip_codec_encode` and `gpuzip_codec_decode`. These keep what
/// they load, so the driver cannot be reset between two calls.
fn call(seed: u64, compressor: i32) {
    let _primary = Primary::new(0);
    let scalar = [Scalar::F32, Scalar::F64][seed as usize % 2];
    let rows = shape([33, 5, 4], scalar, [[40, 0], [0, 170], [36, 200]][seed as usize % 3]);
    let shapes = [(rows.clone(), 0), (rows, 1)];
    let bench = Bench::new(codec(compressor), &shapes[..1 + seed as usize / 4 % 2]);
    let mut draw = Draw::new(seed);
    let given: Vec<_> = bench
        .shapes
        .iter()
        .map(|(shape, role)| values(Kind::Wave, shape.n, scalar, f64::from(*role), &mut draw))
        .collect();
    bench.check(&given, true);
}

/// Compares checksums of fields by the kernel with those of the host.
fn sum_fields(seed: u64) {
    let _primary = Primary::new(0);
    let stream = Own::new();
    let queue = Queue(Stream(stream.0.cast()));
    let sum = FieldSum::new(gpuzip::device::cuda::devices().unwrap()[0].architecture).unwrap();
    let bytes = [4, 4096 * 5 + 4, 80_000][seed as usize % 3];
    let memory = [Memory::new(bytes as u64), Memory::new(40)];
    let (field, words, stream) = (memory[0].0, memory[1].0, stream.0);
    let mut draw = Draw::new(seed);
    let values: Vec<u8> = (0..bytes).map(|_| (draw.bits() >> 20) as u8).collect();
    let expected = checksum(&values, 0);
    // The sum is stored; it is not the one expected in the first use, and is in the second.
    let mut host = [0u64, 0, 1, expected, 0];
    ok!(cuMemcpyHtoDAsync_v2(field, values.as_ptr().cast(), bytes, stream));
    ok!(cuMemcpyHtoDAsync_v2(words, host.as_ptr().cast(), 40, stream));
    let at = |word: u64| words + 8 * word;
    for (to, with, name) in [(at(2), at(3), 9), (0, at(2), 8), (at(3), 0, 7)] {
        sum.enqueue(&queue, field, bytes as u64, words, [to, with, at(4), name]).unwrap();
    }
    ok!(cuMemcpyDtoHAsync_v2(host.as_mut_ptr().cast(), words, 40, stream));
    ok!(cuStreamSynchronize(stream));
    assert_eq!(host, [0, 0, expected, expected, 0]);
}

/// The codec of a planted bug, by its name, and the bound.
fn method_of(name: &str) -> (Method, ErrorBound) {
    let method = match name {
        "fp16" => Method::Fp16,
        "bfp" => Method::Bfp,
        "cuszp" => Method::Cuszp,
        "lorenzo" => Method::Lorenzo,
        "zfp" => Method::Zfp { rate: 8 },
        "bitcomp" => Method::Bitcomp { sparse: false },
        _ => Method::Dct,
    };
    (method, if name.ends_with("psnr") { ErrorBound::Psnr(70.0) } else { ErrorBound::OfMax(1e-3) })
}

/// Every planted bug is found by the check that it is for, and every kernel file has one.
#[test]
fn planted_bugs_are_found() {
    let Some(folder) = installed("nvrtc.sh") else { return };
    if !common::have("cc") {
        return;
    }
    let files = std::fs::read_dir(common::root().join("kernels")).unwrap();
    for name in files.map(|entry| entry.unwrap().file_name().into_string().unwrap()) {
        let planted = plants::PLANTS.iter().any(|plant| plant.file == name);
        assert!(planted || name.ends_with(".md"), "{name} has no planted bug");
    }
    let library = nvcomp::stand_in("whole", "-DWHOLE");
    let plants: Vec<usize> = (0..plants::PLANTS.len()).collect();
    let missed = on_two_threads(&plants, |&number| not_found(number, &folder, &library));
    let missed: Vec<String> = missed.into_iter().flatten().collect();
    assert!(missed.is_empty(), "{} bugs not found:\n{}", missed.len(), missed.join("\n"));
}

/// Returns why a planted bug was not found, if it was not.
fn not_found(number: usize, folder: &str, library: &str) -> Option<String> {
    let plant = &plants::PLANTS[number];
    let text = std::fs::read_to_string(common::root().join("kernels").join(plant.file)).unwrap();
    assert!(text.contains(plant.old), "{}: no longer has {:?}", plant.file, plant.old);
    let output = common::again("planted_bug")
        .env("GPUZIP_TEST_EMULATED", "1")
        .env("RUST_BACKTRACE", "0")
        .env("LD_LIBRARY_PATH", emu::folder_with(&format!("plant-{number}"), &emu::driver()))
        .envs(interpreting(folder))
        .env("CUDA_EMU_PLANT", format!("{}\n=>\n{}", plant.old, plant.new))
        .env(nvcomp::PATH, library)
        .env("GPUZIP_CACHE_DIR", common::tempdir(&format!("plant-{number}-images")))
        .env("GPUZIP_TEST_PLANT", number.to_string())
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    let found = plant.faults.iter().any(|fault| {
        err.lines()
            .any(|line| line.contains("cuda-emu: kernel") && line.contains(&format!(": {fault}: ")))
    });
    (output.status.success() || !found).then(|| {
        let last: Vec<&str> = err.lines().filter(|line| line.contains("cuda-emu")).collect();
        format!("{number}: {} {:?}: {}", plant.file, plant.old, last.join("\n"))
    })
}

#[test]
#[ignore = "runs in a process with a planted bug"]
fn planted_bug() {
    let number: usize = std::env::var("GPUZIP_TEST_PLANT").unwrap().parse().unwrap();
    for seed in 0..24 {
        match plants::PLANTS[number].run {
            plants::Run::Levels => {
                assert_eq!(emu::reset(seed, emu::RANDOM, 1, 1 << 28), 0);
                sum_fields(seed);
            }
            plants::Run::Rows | plants::Run::Registered => {
                if seed == 0 {
                    assert_eq!(emu::reset(seed, emu::RANDOM, 1, 1 << 28), 0);
                }
                let is_registered = matches!(plants::PLANTS[number].run, plants::Run::Registered);
                let codec = if is_registered { 3 } else { seed as usize % 3 };
                call(seed, CALLED[codec]());
            }
            plants::Run::Rtm3d => rtm3d::run(seed),
            plants::Run::Codec(name, n, double) => {
                assert_eq!(emu::reset(seed, emu::RANDOM, 1, 1 << 28), 0);
                let (method, bound) = method_of(name);
                let scalar = if double { Scalar::F64 } else { Scalar::F32 };
                let mut rig = Rig::new(settings(&method, bound), &[(n, scalar, None)]);
                let kind = [Kind::Smooth, Kind::Noise, Kind::Sparse][seed as usize % 3];
                if name == "bitcomp" {
                    rig.exchange(kind, seed, true);
                } else {
                    rig.check(kind, seed);
                }
            }
        }
    }
}
