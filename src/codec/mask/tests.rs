use super::*;
use crate::codec::value_range::ValueRange;
use proptest::prelude::*;

macro_rules! arrays {
    ($($float:ty: $variant:ident),*) => {$(
        impl<'a> From<&'a [$float]> for Array<'a> {
            fn from(x: &'a [$float]) -> Self {
                Array::$variant(x)
            }
        }
        impl<'a> From<&'a mut [$float]> for ArrayMut<'a> {
            fn from(x: &'a mut [$float]) -> Self {
                ArrayMut::$variant(x)
            }
        }
    )*};
}

arrays!(f32: F32, f64: F64);

/// Whether value i is masked, by a kind of mask: none, all, at random, one value, or a coast line.
fn is_masked(kind: u8, n: [usize; 3], seed: u64, i: usize) -> bool {
    let noise = |i: u64| (seed ^ i).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29) % 1000;
    let [x, y, z] = [i % n[0], i / n[0] % n[1], i / n[0] / n[1]].map(|x| x as f64);
    let coast = (x / 9.0 + seed as f64).sin() + (y / 7.0).cos() + (x * y / 300.0).sin();
    match kind {
        0 => false,
        1 => true,
        2 => noise(i as u64) < seed % 1000,
        3 => i as u64 == seed % (n[0] * n[1] * n[2]) as u64,
        _ => coast + 0.1 * z > 0.5 || noise(i as u64) < 3,
    }
}

fn array<T: Real>(n: [usize; 3], kind: u8, seed: u64, fill: T) -> Vec<T> {
    let value = |i: usize| match i % 71 {
        70 if seed % 3 == 0 => T::from_f64(f64::INFINITY),
        69 if seed % 3 == 0 => T::from_f64(f64::NAN),
        _ => T::from_f64((0.01 * i as f64).sin() - 0.5),
    };
    let count = n[0] * n[1] * n[2];
    (0..count).map(|i| if is_masked(kind, n, seed, i) { fill } else { value(i) }).collect()
}

/// The masked values come back, what is coded in their place is finite and between the others.
fn check<T: Real>(n: [usize; 3], kind: u8, seed: u64, fill: FillValue, masked: T)
where
    for<'a> Array<'a>: From<&'a [T]>,
    for<'a> ArrayMut<'a>: From<&'a mut [T]>,
{
    let shape = Shape { n, scalar: T::SCALAR };
    let x = array(n, kind, seed, masked);
    let mut mask = Mask::new(shape).unwrap();
    mask.find(fill, Array::from(&x[..]));
    let value = fill.find(&x);
    let is_it = |x: &T| Some(x.to_bits()) == value.map(Real::to_bits);
    assert_eq!(mask.count(), x.iter().filter(|x| is_it(x)).count() as u64);
    if mask.count() == 0 {
        return;
    }
    let mut filled = x.clone();
    mask.fill(ArrayMut::from(&mut filled[..]));
    let others: Vec<T> = x.iter().filter(|x| !is_it(x)).copied().collect();
    assert_eq!(ValueRange::of(&filled), ValueRange::of(&others));
    assert!(x.iter().zip(&filled).all(|(x, y)| is_it(x) || x.to_bits() == y.to_bits()));

    let mut to = vec![0xA5; most_bytes(shape)];
    let mut read = Mask::to_read([shape].into_iter()).unwrap();
    for is_before in [false, true] {
        let bytes = mask.write(is_before, &mut to);
        let payload = &to[HEADER..][..bytes];
        assert!(read.read(shape, false, payload).is_err() == is_before);
        read.read(shape, is_before, payload).unwrap();
        read.put(ArrayMut::from(&mut filled[..]));
        assert!(x.iter().zip(&filled).all(|(x, y)| x.to_bits() == y.to_bits()));
        if !is_before {
            // Damage ends in an error or in another mask.
            let mut damaged = payload.to_vec();
            let at = seed as usize % bytes;
            damaged[at] ^= 1 << (seed % 8);
            let _ = Mask::to_read([shape].into_iter()).unwrap().read(shape, false, &damaged);
            let _ = Mask::to_read([shape].into_iter()).unwrap().read(shape, true, &payload[..at]);
            read.read(shape, false, payload).unwrap();
        }
    }
}

/// A mask that codes one array after the other gives the bytes of a new one, and so does the one that reads them.
fn check_again<T: Real>(n: [usize; 3], kinds: [u8; 4], seed: u64, masked: T)
where
    for<'a> Array<'a>: From<&'a [T]>,
    for<'a> ArrayMut<'a>: From<&'a mut [T]>,
{
    let shape = Shape { n, scalar: T::SCALAR };
    let mut used = Mask::new(shape).unwrap();
    let mut read = Mask::to_read([shape].into_iter()).unwrap();
    for kind in kinds {
        let x = array(n, kind, seed, masked);
        let mut fresh = Mask::new(shape).unwrap();
        let fill = FillValue::Number(masked.to_f64());
        let made = [&mut used, &mut fresh].map(|mask| {
            mask.find(fill, Array::from(&x[..]));
            let mut to = vec![0xA5; most_bytes(shape)];
            let bytes = mask.write(false, &mut to);
            to[HEADER..][..bytes].to_vec()
        });
        if fresh.count() == 0 {
            continue;
        }
        assert_eq!(made[0], made[1]);
        for _ in 0..2 {
            read.read(shape, false, &made[0]).unwrap();
            let mut y = vec![T::default(); x.len()];
            read.put(ArrayMut::from(&mut y[..]));
            let is_right = |(x, y): (&T, &T)| {
                (x.to_bits() == masked.to_bits()) == (y.to_bits() == masked.to_bits())
            };
            assert!(x.iter().zip(&y).all(is_right));
            let mut damaged = made[0].clone();
            damaged[HEAD - 8] ^= 1;
            assert!(read.read(shape, false, &damaged).is_err());
        }
    }
}

proptest! {
    #[test]
    fn masked_values_come_back_and_their_places_are_filled(
        row in prop::sample::select(vec![1usize, 3, 63, 64, 65, 200]), rows in 1usize..12, planes in 1usize..4,
        kind in 0u8..5, seed in any::<u64>(), is_double in any::<bool>(), fill in 0..4usize,
    ) {
        let (n, payload) = ([row, rows, planes], f64::from_bits(f64::NAN.to_bits() | 5 << 40));
        let fill = [FillValue::Nan, FillValue::Number(1e20), FillValue::Number(0.0), FillValue::Number(1e300)][fill];
        let masked = if let FillValue::Number(number) = fill { number } else { payload };
        match is_double {
            true => check(n, kind, seed, fill, masked),
            false => check(n, kind, seed, fill, masked as f32),
        }
        let kinds = [kind, (kind + seed as u8 % 3) % 5, kind, 4];
        check_again(n, kinds, seed, 1e20f64);
        check_again(n, kinds, seed, 1e20f32);
    }
}

/// The coast of an ocean of many planes takes a few per mille of the values, and a mask of noise what its bits do.
#[test]
fn masks_are_small() {
    let bytes = |n: [usize; 3], kind: u8, seed: u64| {
        let x = array(n, kind, seed, f32::NAN);
        let shape = Shape { n, scalar: f32::SCALAR };
        let mut mask = Mask::new(shape).unwrap();
        mask.find(FillValue::Nan, Array::F32(&x));
        (mask.write(false, &mut vec![0; most_bytes(shape)]) as f64) / shape.bytes() as f64
    };
    assert!(bytes([300, 200, 1], 1, 0) < 3e-4);
    let coast = |i: usize, n: usize| {
        let (x, y, z) = (i % n, i / n % n, i / n / n);
        let (x, y) = (x as f64 / 40.0, y as f64 / 40.0);
        (x.sin() + y.cos() + (2.3 * x * y).sin() + 0.4 * (7.0 * x - 3.0 * y).cos())
            + 0.05 * z as f64
            > 0.6
    };
    for (planes, most) in [(1, 5e-3), (30, 2e-3)] {
        let n = [256, 256, planes];
        let x: Vec<f32> = (0..n[0] * n[1] * planes)
            .map(|i| if coast(i, n[0]) { f32::NAN } else { 1.0 })
            .collect();
        let shape = Shape { n, scalar: f32::SCALAR };
        let mut mask = Mask::new(shape).unwrap();
        mask.find(FillValue::Nan, Array::F32(&x));
        let part = mask.write(false, &mut vec![0; most_bytes(shape)]) as f64 / shape.bytes() as f64;
        println!("{n:?}: {} of {} masked, {part:.5} of the values", mask.count(), x.len());
        assert!(part < most, "{n:?}: {part}");
    }
    assert!(bytes([300, 200, 1], 2, 500) < 1.0 / 30.0);
}

#[test]
fn texts_of_the_key() {
    assert_eq!(FillValue::of("NaN").unwrap(), FillValue::Nan);
    assert_eq!(FillValue::of("-9.96921e36").unwrap(), FillValue::Number(-9.96921e36));
    for text in ["none", "1e999", "inf", "1 2", "0x7f"] {
        let error = FillValue::of(text).unwrap_err();
        assert!(error.message.contains(&format!("fill_value = {text}: use nan")), "{error}");
    }
}
