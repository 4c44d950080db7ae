use super::*;
use crate::codec::fixed::tests::Sliced;
use crate::codec::simd;
use crate::codec::Bound;
use crate::device::Team;
use crate::scalar::{Array, ArrayMut, Real, Scalar};
use proptest::prelude::*;
use std::path::PathBuf;

pub(super) fn random(state: &mut u64) -> f64 {
    *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    (*state >> 11) as f64 / (1u64 << 53) as f64 - 0.5
}

/// The kinds of test arrays.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Smooth,
    Noise,
    Constant,
    Zero,
    Spikes,
    Mixed,
    Holes,
}

pub(super) const KINDS: [Kind; 7] =
    [Kind::Smooth, Kind::Noise, Kind::Constant, Kind::Zero, Kind::Spikes, Kind::Mixed, Kind::Holes];

/// Returns a test array of magnitude about `scale`.
pub(super) fn array<V: Real>(kind: Kind, n: [usize; 3], scale: f64, seed: u64) -> Vec<V> {
    let mut state = seed;
    let [a, b, c] = [0; 3].map(|_| 0.1 + random(&mut state).abs());
    let values = n.iter().product::<usize>();
    (0..values)
        .map(|p| {
            let [i, j, k] = [p % n[0], p / n[0] % n[1], p / n[0] / n[1]].map(|i| i as f64);
            let noise = random(&mut state);
            let smooth = (a * i + 0.3).sin() * (b * j + 0.2 * i).cos() * (c * k + 1.0).cos();
            V::from_f64(match kind {
                Kind::Smooth => scale * smooth,
                Kind::Noise => scale * noise,
                Kind::Constant => scale,
                Kind::Zero => 0.0,
                Kind::Spikes => scale * if noise > 0.49 { 1.0 } else { 1e-5 * smooth },
                Kind::Mixed => scale * noise * 2f64.powi((random(&mut state) * 60.0) as i32 - 30),
                Kind::Holes if noise > 0.495 => {
                    [f64::NAN, f64::INFINITY, f64::NEG_INFINITY][(noise * 3e4) as usize % 3]
                }
                Kind::Holes => scale * smooth,
            })
        })
        .collect()
}

/// Codes and decodes `x`, checks the bound and the length of the stream, and returns the stream.
fn check<V: Sliced>(coder: &mut dyn Coder, x: &[V], bound: Bound) -> Option<Vec<u8>> {
    let mut to = vec![0xa5; coder.max_bytes()];
    let size = coder.compress(V::array(x), bound, &mut to).unwrap()?;
    assert!(size < size_of_val(x));
    to.truncate(size);
    let mut y = vec![V::from_f64(f64::NAN); x.len()];
    coder.decompress(&to, V::array_mut(&mut y)).unwrap();
    within(x, &y, bound);
    Some(to)
}

/// Checks that `y`, decoded from `x`, keeps a bound.
pub(super) fn within<V: Real>(x: &[V], y: &[V], bound: Bound) {
    let mut sum = 0.0;
    for (p, (&x, &y)) in x.iter().zip(y).enumerate() {
        if x.to_f64().is_finite() {
            let e = (x.to_f64() - y.to_f64()).abs();
            sum += (e / bound.value()).powi(2);
            if let Bound::Max(most) = bound {
                assert!(e <= most, "value {p}: {x:?} became {y:?}, beyond {most}");
            }
        } else {
            assert_eq!(x.to_bits(), y.to_bits(), "value {p}");
        }
    }
    if let Bound::Rms(_) = bound {
        let relative = (sum / x.len() as f64).sqrt();
        assert!(relative <= 1.0, "{relative} of the target");
    }
}

pub(super) fn largest<V: Real>(x: &[V]) -> f64 {
    x.iter().map(|x| x.to_f64().abs()).filter(|x| x.is_finite()).fold(0.0, f64::max)
}

fn check_kinds<V: Sliced>(n: [usize; 3], scale: f64, relative: f64, seed: u64) {
    let mut coder = coder(Shape { n, scalar: V::SCALAR }).unwrap();
    for kind in KINDS {
        let x = array::<V>(kind, n, scale, seed);
        let bound = relative * if largest(&x) > 0.0 { largest(&x) } else { 1.0 };
        let a = check(&mut *coder, &x, Bound::Max(bound));
        check(&mut *coder, &x, Bound::Rms(bound));
        // The stream does not depend on what the coder coded before.
        assert_eq!(a, check(&mut *coder, &x, Bound::Max(bound)), "{kind:?}");
    }
}

#[test]
fn every_length() {
    for n in 1..300 {
        check_kinds::<f32>([n, 1, 1], 1.0, 1e-3, n as u64);
        if n % 3 == 0 || n < 100 {
            check_kinds::<f64>([1, 1, n], 1.0, 1e-4, n as u64);
        }
    }
}

#[test]
fn magnitudes() {
    for exponent in [-90, -40, 0, 40, 100, 119] {
        check_kinds::<f32>([40, 20, 17], 2f64.powi(exponent), 1e-3, 5);
        check_kinds::<f32>([33, 9, 1], 2f64.powi(exponent), 2f64.powi(-27), 6);
    }
    for exponent in [-890, 0, 999] {
        check_kinds::<f64>([40, 20, 17], 2f64.powi(exponent), 1e-6, 7);
        check_kinds::<f64>([33, 9, 1], 2f64.powi(exponent), 2f64.powi(-27), 8);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn odd_shapes(n in [1usize..40, 1usize..40, 1usize..24], digits in 1i32..8, exponent in -60i32..60, seed: u64) {
        check_kinds::<f32>(n, 2f64.powi(exponent), 10f64.powi(-digits), seed);
        check_kinds::<f64>(n, 2f64.powi(exponent), 10f64.powi(-digits), seed);
    }

    #[test]
    fn damaged_streams(n in [1usize..40, 1usize..20, 1usize..20], seed: u64, changes in proptest::collection::vec((any::<u32>(), any::<u8>()), 1..6), cut: u16) {
        let mut state = seed;
        let kind = KINDS[(random(&mut state).abs() * 14.0) as usize % KINDS.len()];
        let mut coder = coder(Shape { n, scalar: Scalar::F32 }).unwrap();
        let x = array::<f32>(kind, n, 1.0, seed);
        let mut y = vec![0.0; x.len()];
        if let Some(stream) = check(&mut *coder, &x, Bound::Max(1e-3)) {
            let mut bad = stream.clone();
            for (at, bits) in changes {
                let at = at as usize % bad.len();
                bad[at] ^= bits;
            }
            let _ = coder.decompress(&bad, ArrayMut::F32(&mut y));
            bad.truncate(usize::from(cut) % (bad.len() + 1));
            let _ = coder.decompress(&bad, ArrayMut::F32(&mut y));
            prop_assert!(coder.decompress(&stream[..stream.len() - 1], ArrayMut::F32(&mut y)).is_err());
        }
    }

    #[test]
    fn random_streams(mut bytes in proptest::collection::vec(any::<u8>(), 0..3000), side in 0usize..3, width in 1u8..14, seed: u64) {
        let n = [[19, 18, 17], [40, 40, 1], [300, 1, 1]][side];
        if bytes.len() > 24 {
            bytes[0] = [8, 32, 32][side];
            bytes[1] = width;
            bytes[2..8].fill(0);
            bytes[8..16].copy_from_slice(&1f64.to_le_bytes());
            bytes[16..24].copy_from_slice(&1f64.to_le_bytes());
            if seed % 2 == 0 {
                // Most tiles are made empty, so that the lengths of the others fit into the bytes.
                bytes[24..].iter_mut().take(3).for_each(|b| *b &= 0x11);
            }
        }
        let values = n.iter().product();
        let _ = coder(Shape { n, scalar: Scalar::F32 }).unwrap().decompress(&bytes, ArrayMut::F32(&mut vec![0.0; values]));
        let _ = coder(Shape { n, scalar: Scalar::F64 }).unwrap().decompress(&bytes, ArrayMut::F64(&mut vec![0.0; values]));
    }
}

/// Unary numbers, short and long, are the same whether they are read one by one or all at once.
#[test]
fn unary_numbers() {
    let mut state = 5;
    for count in [0, 1, 7, 8, 60, 500] {
        let numbers: Vec<u16> =
            (0..count).map(|_| ((2.0 * random(&mut state)).powi(8) * 2000.0) as u16).collect();
        let (mut bytes, mut to) = (vec![0; 1 << 17], vec![0; count + 1 + bits::MORE]);
        let mut pen = bits::Pen::default();
        numbers.iter().for_each(|&n| pen.unary(&mut bytes, 0, n.into()));
        let len = pen.bits();
        bytes.truncate(len.div_ceil(8) as usize);
        let mut reader = bits::Reader::new(&bytes, 0);
        reader.unaries(count, &mut to).unwrap();
        assert_eq!((reader.at, &to[..count]), (len, &numbers[..]));
        assert!(bits::Reader::new(&bytes, 0).unaries(count + 1, &mut to).is_none());
        let mut reader = bits::Reader::new(&bytes, 0);
        assert!(numbers.iter().all(|&n| reader.unary() == Some(n.into())));
    }
    // The longest unary number is read at every position in a window.
    for before in 0..64 {
        let read = |number: u16| {
            let (mut bytes, mut to) = (vec![0; 1 << 13], [0; 65 + bits::MORE]);
            let mut pen = bits::Pen::default();
            (0..before).for_each(|_| pen.unary(&mut bytes, 0, 0));
            pen.unary(&mut bytes, 0, number.into());
            bits::Reader::new(&bytes, 0).unaries(before + 1, &mut to).map(|()| to[before])
        };
        assert_eq!((read(bits::LONGEST - 1), read(bits::LONGEST)), (Some(bits::LONGEST - 1), None));
    }
}

/// Random bits of a tile are read or refused.
#[test]
fn random_tiles() {
    let (mut state, mut read) = (3, 0);
    let mut room = open::TileBuffer::new(512).unwrap();
    for _ in 0..20_000 {
        let bytes: Vec<u8> = (0..(random(&mut state).abs() * 400.0) as usize)
            .map(|_| (random(&mut state) * 255.9) as i32 as u8)
            .collect();
        let mut all = || {
            let mut tile = open::Opened::new::<8>(512, &bytes, 0, &mut room)?;
            for r in 0..tile.rows {
                let mut row = [0; 8];
                tile.row(r, &mut row)?;
                tile.skip_signs(row.iter().filter(|&&a| a != 0).count() as u32);
            }
            tile.corrections(
                512,
                &mut [rows::Correction::default(); 128],
                &mut [0; 128 + bits::MORE],
            )
        };
        read += usize::from(all().is_some());
    }
    assert!(read > 0);
}

#[test]
fn the_same_bits_at_every_level() {
    fn streams<V: Sliced>() -> Vec<(Option<Vec<u8>>, Vec<u64>)> {
        let mut all = Vec::new();
        for n in [[70, 35, 33], [40, 17, 9], [100, 70, 1], [3, 60, 50], [1000, 1, 1]] {
            let made = || coder(Shape { n, scalar: V::SCALAR }).unwrap();
            let (mut coder, mut shared) = (made(), made());
            let team = Team::new();
            team.grow(2).unwrap();
            shared.join(&team).unwrap();
            for kind in KINDS {
                for bound in
                    [Bound::Max(1e-2), Bound::Max(1e-4), Bound::Max(1e-7), Bound::Rms(1e-3)]
                {
                    let x = array::<V>(kind, n, 1.0, 11);
                    let stream = check(&mut *coder, &x, bound);
                    let mut y = vec![V::from_f64(0.0); x.len()];
                    if let Some(stream) = &stream {
                        coder.decompress(stream, V::array_mut(&mut y)).unwrap();
                    }
                    // Threads that share the work change no byte.
                    assert!(check(&mut *shared, &x, bound) == stream, "{n:?} {bound:?}");
                    all.push((stream, y.iter().map(|y| y.to_bits()).collect()));
                }
            }
        }
        all
    }
    let mut expected = None;
    for level in simd::levels() {
        simd::set_level(level);
        let streams = (streams::<f32>(), streams::<f64>());
        let expected = expected.get_or_insert_with(|| streams.clone());
        assert!(*expected == streams, "{level:?} differs");
    }
}

/// Extents of 1 change nothing in the stream, wherever they are.
#[test]
fn extents_of_one() {
    for (short, shapes) in [
        ([300, 200, 1], [[1, 300, 200], [300, 1, 200]]),
        ([37, 3, 1], [[1, 37, 3], [37, 1, 3]]),
        ([4, 4, 1], [[1, 4, 4], [4, 1, 4]]),
        ([2000, 1, 1], [[1, 2000, 1], [1, 1, 2000]]),
    ] {
        let x = array::<f32>(Kind::Smooth, short, 1.0, 7);
        for bound in [Bound::Max(1e-3), Bound::Rms(1e-3)] {
            let stream =
                |n| check(&mut *coder(Shape { n, scalar: Scalar::F32 }).unwrap(), &x, bound);
            let expected = stream(short);
            assert!(shapes.into_iter().all(|n| stream(n) == expected), "{shapes:?}");
        }
    }
}

#[test]
fn mean_square_near_the_target() {
    let n = [100, 90, 80];
    let mut coder = coder(Shape { n, scalar: Scalar::F32 }).unwrap();
    let x = array::<f32>(Kind::Smooth, n, 1.0, 1);
    let mut to = vec![0; coder.max_bytes()];
    let mut y = vec![0.0; x.len()];
    for target in [1e-2, 1e-3, 1e-4, 1e-5] {
        let size = coder.compress(Array::F32(&x), Bound::Rms(target), &mut to).unwrap().unwrap();
        coder.decompress(&to[..size], ArrayMut::F32(&mut y)).unwrap();
        let sum: f64 = x.iter().zip(&y).map(|(&x, &y)| (f64::from(x) - f64::from(y)).powi(2)).sum();
        let rms = (sum / x.len() as f64).sqrt();
        assert!(rms <= target && rms > 0.9 * target, "{rms} for {target}");
    }
}

#[test]
fn real_snapshots() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let shared =
        std::env::var_os("GPUZIP_SHARED").map_or_else(|| root.join("../shared"), PathBuf::from);
    for (step, least) in [("0400", 26.5), ("0800", 21.0)] {
        let Ok(bytes) =
            std::fs::read(shared.join(format!("data/gempy2_3d_100x100x100_step{step}_curr.f32")))
        else {
            println!("skipped: no real snapshots (set GPUZIP_SHARED)");
            return;
        };
        let x: Vec<f32> = bytes
            .chunks_exact(4)
            .filter_map(|b| Some(f32::from_le_bytes(b.try_into().ok()?)))
            .collect();
        let mut coder = coder(Shape { n: [100; 3], scalar: Scalar::F32 }).unwrap();
        let stream = check(&mut *coder, &x, Bound::Max(1e-3 * largest(&x))).unwrap();
        let ratio = bytes.len() as f64 / stream.len() as f64;
        assert!(ratio >= least, "step {step}: {ratio}");
    }
}
