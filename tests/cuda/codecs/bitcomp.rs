//! Bitcomp on a device: libnvcomp compresses, gpuzip's kernels work before and after it. libnvcomp
//! defines the bytes of its streams; these tests check that host and device read each other's
//! payloads within the bound.

use super::{every_kind, on_a_gpu, settings, two_groups, BOUNDS, LARGE, SHAPES};
use crate::common::rig::{Kind, Rig, KINDS};
use crate::common::{self, emu, here, nvcomp, only_if};
use gpuzip::codec::{Content, Delta, ErrorBound, Header, Method};
use gpuzip::scalar::Scalar;

const DELTAS: [Delta; 3] =
    [Delta::Fraction(2e-3), Delta::Range { fraction: 1e-3, sigmas: 3.0 }, Delta::Static(1e-3)];

fn bitcomp(sparse: bool) -> Method {
    Method::Bitcomp { sparse }
}

/// Returns true in the process that has the software driver and the stand-in for libnvcomp.
fn inside(name: &str) -> bool {
    inside_with(name, "whole", "-DWHOLE")
}

fn inside_with(name: &str, library: &str, define: &str) -> bool {
    let kernels = emu::images();
    let variables = |library: &str| {
        emu::inside(
            name,
            &[("GPUZIP_CACHE_DIR", kernels.to_str().unwrap()), (nvcomp::PATH, library)],
        )
    };
    let inside = common::have("c++") && variables(&nvcomp::stand_in(library, define));
    if inside {
        assert_eq!(emu::reset(1, emu::RANDOM, 1, 1 << 28), 0);
    }
    inside
}

/// Exchanges streams of all shapes, both types and all kinds of values, of one field and of a pair,
/// under all bounds; returns how many arrays were coded.
fn exchange_all(strict: bool) -> usize {
    let (mut seed, mut coded) = (0, 0);
    for n in SHAPES {
        for scalar in [Scalar::F32, Scalar::F64] {
            for (b, bound) in BOUNDS.into_iter().chain(DELTAS.map(ErrorBound::Delta)).enumerate() {
                let settings = settings(bitcomp(b % 3 == 1), bound);
                let mut one = Rig::skewed(settings.clone(), &[(n, scalar, None)], seed / 8 % 2);
                let mut pair = Rig::skewed(
                    settings,
                    &[(n, scalar, None), (n, scalar, Some(0))],
                    seed / 16 % 2,
                );
                // With the first bound all kinds, in the short test every second one; every fourth
                // kind with each other bound.
                let every = if b == 0 { every_kind() } else { 4 };
                for (k, &kind) in KINDS.iter().enumerate().filter(|(k, _)| k % every == b % every) {
                    seed += 1;
                    coded += one.exchange(kind, seed + k as u64, strict)
                        + pair.exchange(kind, seed + k as u64, strict);
                }
            }
        }
    }
    coded
}

#[test]
fn host_and_device_read_each_other() {
    if inside("bitcomp::host_and_device_read_each_other") {
        let coded = exchange_all(true);
        assert!(coded > 300, "{coded} arrays coded");
    }
}

/// Fields of different shapes, and three time levels: every shape has a stream of its own, and all
/// shapes share one work array.
#[test]
fn groups() {
    only_if!(inside(here!()));
    let fields = two_groups([52, 9, 1], [400, 1, 1]);
    for bound in [ErrorBound::OfMax(1e-3), ErrorBound::Psnr(60.0), ErrorBound::Delta(DELTAS[1])] {
        let mut rig = Rig::new(settings(bitcomp(false), bound), &fields);
        for (seed, &kind) in KINDS.iter().enumerate() {
            rig.exchange(kind, seed as u64, true);
        }
    }
}

/// The stand-in for libnvcomp rounds more coarsely than it is asked to.
#[test]
fn what_breaks_the_bound_is_stored_as_it_is() {
    only_if!(inside_with(here!(), "coarse", "-DCOARSE=2"));
    for bound in [ErrorBound::OfMax(1e-3), ErrorBound::Psnr(70.0), ErrorBound::Delta(DELTAS[0])] {
        for scalar in [Scalar::F32, Scalar::F64] {
            let mut rig = Rig::new(
                settings(bitcomp(false), bound),
                &[([300, 1, 1], scalar, None), ([300, 1, 1], scalar, Some(0))],
            );
            for kind in [Kind::Smooth, Kind::Noise] {
                let stream = rig.made(kind, 3);
                let (header, ..) = Header::open(&stream).unwrap();
                assert_eq!(header.content, Content::Raw, "{bound:?}, {kind:?}");
            }
        }
    }
}

/// libnvcomp never gets a damaged payload: its stand-in would end the process.
#[test]
fn damaged_streams() {
    only_if!(inside(here!()));
    for scalar in [Scalar::F32, Scalar::F64] {
        let mut rig = Rig::new(
            settings(bitcomp(false), ErrorBound::OfMax(1e-3)),
            &[([300, 1, 1], scalar, None)],
        );
        let stream = rig.made(Kind::Smooth, 3);
        let (header, ..) = Header::open(&stream).unwrap();
        assert_eq!(header.content, Content::Coded);
        let mut bad = stream.clone();
        for bit in (0..8 * (64 + header.payload)).step_by(7) {
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(rig.read(&bad).is_err(), "bit {bit}");
            bad[bit / 8] = stream[bit / 8];
        }
        for cut in (0..stream.len()).step_by(8) {
            assert!(rig.read(&stream[..cut]).is_err(), "cut at {cut}");
        }
        // With a right checksum: exponents of the unit (a power of 2) out of range, and payloads
        // that are too short or too long.
        for unit in [i64::MIN, -1023, 1024, i64::MAX] {
            bad[64..72].copy_from_slice(&unit.to_le_bytes());
            let bytes = header.seal(&mut bad);
            assert!(!rig.survives(&bad[..bytes], true), "2^{unit}");
        }
        for payload in [1, 7, 8] {
            let mut bad = stream.clone();
            let bytes = Header { payload, ..header }.seal(&mut bad);
            assert!(!rig.survives(&bad[..bytes], false), "{payload} bytes");
        }
        let mut long = [stream.clone(), vec![0; 1 << 16]].concat();
        let bytes = Header { payload: 1 << 16, ..header }.seal(&mut long);
        assert!(!rig.survives(&long[..bytes], true));
        assert!(rig.read(&stream).is_ok());
    }
}

/// Whether GPUZIP_TEST_BITCOMP=1 asks for tests with NVIDIA's library and the library is found;
/// prints the reason if not.
pub fn is_there() -> bool {
    let wanted = std::env::var_os("GPUZIP_TEST_BITCOMP").is_some_and(|value| value == "1");
    let missing =
        if wanted { bitcomp(false).missing() } else { Some("GPUZIP_TEST_BITCOMP is not 1".into()) };
    missing.iter().for_each(|reason| println!("skipped: bitcomp, {reason}"));
    missing.is_none()
}

/// With NVIDIA's library and a GPU; the GPU bundle runs this test.
#[test]
fn on_the_real_driver() {
    if !on_a_gpu() || !is_there() {
        return;
    }
    println!("bitcomp: {} arrays coded", exchange_all(false));
    for (n, scalar) in LARGE {
        for sparse in [false, true] {
            let mut rig = Rig::new(
                settings(bitcomp(sparse), ErrorBound::OfMax(1e-3)),
                &[(n, scalar, None), (n, scalar, Some(0))],
            );
            for (seed, &kind) in KINDS.iter().enumerate() {
                rig.exchange(kind, seed as u64, false);
            }
        }
    }
}
