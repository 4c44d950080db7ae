use super::super::quantize::tests::{
    all_sizes, keeps_bounds, print, ratios, round_trip, survives_damage,
};
use super::super::quantize::word;
use super::*;
use crate::scalar::{Array, Scalar};

#[test]
fn bounds_hold_and_levels_agree() {
    keeps_bounds(coder);
}

#[test]
fn sizes_and_shapes() {
    all_sizes(coder);
}

#[test]
fn damaged_streams() {
    survives_damage(coder);
}

#[test]
fn ratios_on_snapshots() {
    ratios(coder, &[("gempy2_3d_100x100x100_step0400_curr.f32", 1e-3, 5.1)]);
}

#[test]
#[ignore = "prints ratios and speeds"]
fn print_ratios_and_speeds() {
    print(coder);
}

/// A block of zeros takes one byte.
#[test]
fn zeros_take_no_payload() {
    assert_eq!(round_trip(coder, [3200, 1, 1], &[0f32; 3200], Bound::Max(1.0)), Some(8 + 100));
}

/// Writes the published layout value by value.
fn published(x: &[f64], step: f64) -> Vec<u8> {
    let bits = |x: u32| 32 - x.leading_zeros() as usize;
    let (mut rates, mut payload) = (Vec::new(), Vec::new());
    for block in x.chunks(32) {
        let mut before = 0;
        let mut numbers = [0i32; 32];
        for (number, x) in numbers.iter_mut().zip(block) {
            let q = (x / step).round_ties_even() as i32;
            (*number, before) = (q - before, q);
        }
        let mut magnitudes = numbers.map(i32::unsigned_abs);
        let rate = bits(magnitudes.into_iter().max().unwrap_or(0));
        let others = bits(magnitudes[1..].iter().copied().max().unwrap_or(0));
        let apart = bits(magnitudes[0]).div_ceil(8);
        let is_apart = if rate > 0 { 4 + 4 * rate } else { 0 } > 4 + apart + 4 * others;
        let planes = if is_apart { others } else { rate };
        rates.push(if is_apart { 0x80 | (apart - 1) << 5 | others } else { rate } as u8);
        if is_apart {
            payload.extend(&magnitudes[0].to_le_bytes()[..apart]);
            magnitudes[0] = 0;
        }
        let mut plane = |bit: &dyn Fn(usize) -> bool| {
            for byte in 0..4 {
                payload.push((0..8).map(|i| (bit(8 * byte + i) as u8) << (7 - i)).sum::<u8>());
            }
        };
        if rate > 0 {
            plane(&|i| numbers[i] < 0);
            for p in 0..planes {
                plane(&|i| magnitudes[i] >> p & 1 != 0);
            }
        }
    }
    rates.extend(payload);
    rates
}

#[test]
fn the_layout_is_the_published_one() {
    for (amplitude, offset) in [(3.0, 0.0), (100.0, 1000.0), (1e5, -3e6)] {
        let x: Vec<f64> = (0..5000).map(|i| (i as f64 * 0.05).sin() * amplitude + offset).collect();
        let mut coder = coder(Shape { n: [5000, 1, 1], scalar: Scalar::F64 }).unwrap();
        let mut to = vec![0; coder.max_bytes()];
        let size = coder.compress(Array::F64(&x), Bound::Max(0.3), &mut to).unwrap().unwrap();
        let step = f64::from_bits(word(&to, 0));
        assert!((0.598..0.6).contains(&step));
        assert!(to[8..size] == published(&x, step), "amplitude {amplitude}");
    }
}
