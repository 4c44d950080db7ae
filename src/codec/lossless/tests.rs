use super::super::fixed::tests::Sliced;
use super::super::quantize::tests::{all_sizes, field, survives_damage, Tested};
use super::super::simd::{levels, set_level};
use super::*;
use proptest::prelude::*;

/// Codes and decodes an array at every instruction set: the bytes must be equal, and every value must
/// come back with its bits. Returns the stream, or `None` if the array was not coded.
fn round_trip<T: Sliced>(n: [usize; 3], x: &[T]) -> Option<Vec<u8>> {
    let mut coder = coder(Shape { n, scalar: T::SCALAR }).unwrap();
    let mut first = None;
    for level in levels() {
        set_level(level);
        let mut to = vec![level as u8; coder.max_bytes()];
        let size = coder.compress(T::array(x), Bound::Max(0.0), &mut to).unwrap();
        let stream = size.map(|size| to[..size].to_vec());
        if let Some(stream) = &stream {
            assert!(stream.len() <= size_of_val(x));
            let mut y = vec![T::from_bits(0x7FF5_5A5A_7FA5_5A5A); x.len()];
            coder.decompress(stream, T::array_mut(&mut y)).unwrap();
            for (i, (x, y)) in x.iter().zip(&y).enumerate() {
                assert_eq!(x.to_bits(), y.to_bits(), "{n:?} at {i}: {x:?} became {y:?}");
            }
        }
        assert!(*first.get_or_insert_with(|| stream.clone()) == stream, "{level:?} differs");
    }
    first.flatten()
}

/// Returns pseudo-random bits for every i, the same on every machine.
fn random(seed: u64, i: usize) -> u64 {
    let mut x =
        (seed ^ (i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x ^= x >> 29;
    x = x.wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ x >> 32
}

/// Returns an array with values of any bits, or with special values among smooth ones.
fn special<T: Tested>(n: [usize; 3], kind: usize, seed: u64) -> Vec<T> {
    let wave = field::<T>(n, 0, 3, 0, seed);
    let width = 8 * T::BYTES as u32;
    let mantissa = T::DIGITS - 1;
    let sign = 1u64 << (width - 1);
    let infinity = (sign - 1) >> mantissa << mantissa;
    let value = |i: usize| {
        let bits = random(seed, i);
        let low = bits & ((1 << mantissa) - 1);
        let one = sign & bits;
        match (kind, bits >> 33 & 7) {
            // Random bits of all values.
            (0, _) => bits & (sign | (sign - 1)),
            // NaN with payloads, quiet and signalling ones, and infinities.
            (1, 0) => one | infinity | low.max(1),
            (1, 1) => one | infinity,
            // Denormals of both signs.
            (2, _) => one | low >> (bits >> 40 & 15),
            // Zeros of both signs.
            (3, 0..3) => one,
            // Denormals, the smallest normal values, and zeros together.
            (4, 0) => one | low,
            (4, 1) => one,
            (4, _) => one | ((bits >> 60 & 3) + 1) << mantissa | low,
            // The largest values.
            (5, _) => one | (infinity - 1 - (low & 0xFFFF)),
            // Values without low bits.
            (6, _) => (wave[i].to_bits() >> (mantissa - 6)) << (mantissa - 6),
            // Any exponent.
            (7, _) => one | ((bits >> 2) % infinity),
            _ => wave[i].to_bits(),
        }
    };
    (0..n.iter().product()).map(|i| T::from_bits(value(i))).collect()
}

/// Every array of 0 to 200 values and arrays of odd shapes: fields of all kinds, and special values.
fn every_bit_of<T: Tested>() {
    let lines = (0..=200).chain([2047, 2048, 2049, 4100]).map(|n| [n, 1, 1]);
    let shapes = [[33, 65, 1], [31, 7, 1], [1, 129, 1], [5, 3, 2], [33, 9, 17], [65, 1, 9]];
    for (k, n) in lines.chain(shapes).enumerate() {
        for kind in 0..8 {
            round_trip(n, &special::<T>(n, kind, k as u64));
            if n[0] > 0 {
                round_trip(n, &field::<T>(n, kind as u32, k as i32 % 40 - 20, 0, k as u64));
            }
        }
    }
}

#[test]
fn every_bit_comes_back() {
    every_bit_of::<f32>();
    every_bit_of::<f64>();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn any_shape_and_scale(
        n in (1..90usize, 1..40usize, 1..20usize),
        kind in 0..8u32,
        exponents in (-150..128i32, -1060..1000i32),
        nonfinite in prop_oneof![Just(0usize), 2..500usize],
        seed: u64,
    ) {
        let n = [n.0, n.1, n.2];
        round_trip(n, &field::<f32>(n, kind, exponents.0, nonfinite, seed));
        round_trip(n, &field::<f64>(n, kind, exponents.1, nonfinite, seed));
        round_trip(n, &special::<f32>(n, kind as usize, seed));
        round_trip(n, &special::<f64>(n, kind as usize, seed));
    }
}

#[test]
fn sizes_and_shapes() {
    all_sizes(coder);
}

#[test]
fn damaged_streams() {
    survives_damage(coder);
}

/// Streams of values that lose bits, of zeros of both signs and of raw tiles, with bytes changed
/// anywhere, end in values or in an error.
#[test]
fn damaged_bits_end_in_values_or_an_error() {
    fn damage<T: Tested>() {
        let n = [40, 11, 9];
        let mut coder = coder(Shape { n, scalar: T::SCALAR }).unwrap();
        let mut y = vec![T::default(); n.iter().product()];
        for kind in [1, 3, 4, 6, 8] {
            let Some(good) = round_trip(n, &special::<T>(n, kind, 3)) else { continue };
            for k in 0..400 {
                let mut bad = good.clone();
                // The heads of the stream and of its tiles are hit as often as the rest.
                let reach = [bad.len(), 600][k % 2].min(bad.len());
                for hit in 0..1 + k % 3 {
                    let bits = random(k as u64, hit);
                    bad[bits as usize % reach] = (bits >> 32) as u8;
                }
                bad.truncate(
                    bad.len() - [0, 0, 0, random(9, k) as usize % 300][k % 4].min(good.len()),
                );
                set_level(levels()[k % levels().len()]);
                let _ = coder.decompress(&bad, T::array_mut(&mut y));
            }
        }
    }
    damage::<f32>();
    damage::<f64>();
}

/// A smooth field takes fewer bytes than its values.
#[test]
fn smooth_fields_get_smaller() {
    let n = [64, 64, 64];
    let of = |stream: Option<Vec<u8>>| stream.map_or(usize::MAX, |stream| stream.len());
    let size = of(round_trip(n, &field::<f32>(n, 0, 0, 0, 1)));
    assert!(size < 4 * 64 * 64 * 64 * 3 / 4, "{size}");
    let size = of(round_trip(n, &field::<f64>(n, 0, 0, 0, 1)));
    assert!(size < 8 * 64 * 64 * 64 * 9 / 10, "{size}");
}

/// Checks the bytes of a stream of one value other than 0. Streams of the layout before are refused.
#[test]
fn a_stream_by_hand() {
    let x: Vec<f32> = (0..2048).map(|i| if i == 37 { 2.0 } else { 0.0 }).collect();
    let stream = round_trip([32, 8, 8], &x).unwrap();
    let tile = &stream[24..stream.len() - 2];
    // One tile is stored, at offset 0.
    assert_eq!((word(&stream, 0), word(&stream, 8), word(&stream, 16)), (1, 1, 0));
    assert_eq!(stream[stream.len() - 2..], (tile.len() as u16).to_le_bytes());
    // z = 23, so that the integer is 1; two differences, no low bytes, no values apart; E = 128.
    assert_eq!(tile[..4], [23, 2, 128, 0]);
    // The least width, 0, and two bits of every width: rows 4 and 8 have width 2.
    assert_eq!(tile[4..6], [0, 2]);
    let mut widths = [0; 64];
    (widths[1], widths[3]) = (1 << 4, 1);
    assert_eq!(tile[6..70], widths);
    // The residuals are 2 r or -2 r - 1: +1 -1 is 2, 1 at values 5 and 6, and -1 +1 is 1, 2.
    assert_eq!(tile[70..], [1 << 6, 1 << 5, 1 << 5, 1 << 6]);
    let scalar = crate::scalar::Scalar::F32;
    let mut coder = coder(Shape { n: [32, 8, 8], scalar }).unwrap();
    let before = [&[0; 8], &stream[8..]].concat();
    assert!(coder.decompress(&before, f32::array_mut(&mut [0.0; 2048])).is_err());
}
