//! The kernels of the codecs on the software driver: the bytes of the host codecs, and their values back.

mod common;
#[allow(dead_code)] // Each test program uses a part of it.
#[path = "cuda/emu.rs"]
mod emu;
#[path = "gpu_codecs/rig.rs"]
mod rig;

use gpuzip::codec::{ErrorBound, Method, Settings};
use gpuzip::snapshot::Scalar;
use rig::{Kind, Rig, KINDS};

fn settings(method: Method, bound: ErrorBound) -> Settings {
    Settings { method, bound, reject_nonfinite: false }
}

const BOUNDS: [ErrorBound; 5] = [
    ErrorBound::OfMax(1e-3),
    ErrorBound::OfMax(1e-5),
    ErrorBound::Absolute(1e-4),
    ErrorBound::OfRange(1e-2),
    ErrorBound::Psnr(70.0),
];

/// Shapes that fit tiles and that do not, of one to three dimensions.
const SHAPES: [[u64; 3]; 9] =
    [[1, 1, 1], [5, 1, 1], [300, 1, 1], [2049, 1, 1], [33, 31, 1], [7, 1, 40], [16, 16, 16], [33, 10, 9], [20, 18, 35]];

/// One codec against the host's: all shapes, both types, all kinds of values, one field and a pair.
fn check(name: &str, method: Method, bounds: &[ErrorBound]) {
    if !common::have("c++") || !emu::inside(name, &[("GPUZIP_CACHE_DIR", common::scratch(name).to_str().unwrap())]) {
        return;
    }
    assert_eq!(emu::reset(1, emu::RANDOM, 1, 1 << 28), 0);
    let mut seed = 0;
    for n in SHAPES {
        for scalar in [Scalar::F32, Scalar::F64] {
            for (b, &bound) in bounds.iter().enumerate() {
                let mut one = Rig::new(settings(method.clone(), bound), &[(n, scalar, None)]);
                let mut pair = Rig::new(settings(method.clone(), bound), &[(n, scalar, None), (n, scalar, Some(0))]);
                // Every kind with the first bound, some with the others.
                for (k, &kind) in KINDS.iter().enumerate().filter(|(k, _)| b == 0 || k % 4 == b % 4) {
                    seed += 1;
                    one.check(kind, seed + k as u64);
                    pair.check(kind, seed + k as u64);
                }
            }
        }
    }
}

#[test]
fn fp16() {
    check("fp16", Method::Fp16, &BOUNDS[..1]);
}

#[test]
fn lorenzo() {
    check("lorenzo", Method::Lorenzo, &BOUNDS);
}

#[test]
fn cuszp() {
    check("cuszp", Method::Cuszp { plain: false }, &BOUNDS);
}

#[test]
fn cuszp_plain() {
    check("cuszp_plain", Method::Cuszp { plain: true }, &BOUNDS);
}

/// Three time levels, two groups, both types.
#[test]
fn groups() {
    if !common::have("c++") || !emu::inside("groups", &[("GPUZIP_CACHE_DIR", common::scratch("groups").to_str().unwrap())]) {
        return;
    }
    assert_eq!(emu::reset(1, emu::RANDOM, 1, 1 << 28), 0);
    let (a, b) = ([12, 9, 1], [40, 1, 1]);
    let fields = [(a, Scalar::F64, Some(2)), (b, Scalar::F32, None), (a, Scalar::F64, None), (a, Scalar::F64, Some(0)), (b, Scalar::F32, Some(1))];
    let mut rig = Rig::new(settings(Method::Fp16, ErrorBound::DEFAULT), &fields);
    for (seed, &kind) in KINDS.iter().enumerate() {
        rig.check(kind, seed as u64);
    }
}

/// Every bit of a stream that changes is noticed, and every cut.
#[test]
fn damage() {
    if !common::have("c++") || !emu::inside("damage", &[("GPUZIP_CACHE_DIR", common::scratch("damage").to_str().unwrap())]) {
        return;
    }
    assert_eq!(emu::reset(1, emu::RANDOM, 1, 1 << 28), 0);
    let mut rig = Rig::new(settings(Method::Fp16, ErrorBound::DEFAULT), &[([6, 3, 1], Scalar::F32, None), ([6, 3, 1], Scalar::F32, Some(0))]);
    let stream = rig.made(Kind::Smooth, 3);
    let mut bad = stream.clone();
    // Two streams: a header and 16 + 2 * 18 bytes each; what is behind a payload is not read.
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
