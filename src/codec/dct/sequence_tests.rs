use super::tests::{array, largest, random, Kind, KINDS};
use super::*;
use crate::codec::fixed::tests::Sliced;
use crate::codec::simd;
use crate::codec::Bound;
use crate::scalar::{Real, Scalar};
use proptest::prelude::*;

/// The arrays of a sequence: neighbours differ little, as states of a wave do, and some not at all, or
/// altogether.
fn sequence<V: Real>(n: [usize; 3], scale: f64, seed: u64, length: usize) -> Vec<Vec<V>> {
    let mut state = seed;
    let mut kind = KINDS[seed as usize % KINDS.len()];
    let (mut from, mut to): (Vec<V>, Vec<V>) =
        (array(kind, n, scale, seed), array(Kind::Smooth, n, scale, seed ^ 5));
    (0..length)
        .map(|t| {
            match (random(&mut state).abs() * 40.0) as u32 {
                0 => {
                    kind = KINDS[(random(&mut state).abs() * 14.0) as usize % KINDS.len()];
                    (from, to) = (array(kind, n, scale, seed ^ t as u64), from.clone());
                }
                1 => from.iter_mut().for_each(|x| *x = *x * V::from_f64(1e-3)),
                2 => to = from.clone(),
                _ => {}
            }
            let share = V::from_f64(0.5 + 0.5 * (0.2 * t as f64).cos());
            let mix = |(&a, &b): (&V, &V)| a * share + b * (V::from_f64(1.0) - share);
            from.iter().zip(&to).map(mix).collect()
        })
        .collect()
}

/// What a chain makes of a sequence: the streams, and the bits that it decodes to.
type Made = (Vec<Vec<u8>>, Vec<Vec<u64>>);

/// Codes a sequence with three frames, decodes it backwards with three, and checks the bound of each array.
/// `ends(t)`: no array before t leans on one from t on.
fn check<V: Sliced>(
    n: [usize; 3],
    arrays: &[Vec<V>],
    bound: impl Fn(&[V]) -> Bound,
    ends: impl Fn(usize) -> bool,
) -> Made {
    let shape = Shape { n, scalar: V::SCALAR };
    let mut coder = sequence_coder(shape, 3).unwrap();
    let mut alone = super::coder(shape).unwrap();
    let mut to = vec![0xa5; coder.max_bytes()];
    let mut y = vec![V::from_f64(0.0); arrays[0].len()];
    let (mut streams, mut waiting) = (vec![None; arrays.len()], std::collections::VecDeque::new());
    let mut code = |coder: &mut dyn SequenceCoder, waiting: &mut std::collections::VecDeque<usize>| {
        let t = waiting.pop_front().unwrap();
        let later: Vec<usize> = waiting.iter().map(|t| t % 3).collect();
        let (bytes, leans) = coder.code(t % 3, &later, &mut to).unwrap();
        assert!(leans <= later.len());
        streams[t] = Some((to[..bytes].to_vec(), leans));
    };
    for (t, x) in arrays.iter().enumerate() {
        if ends(t) || waiting.len() == 3 {
            while !waiting.is_empty() && (ends(t) || waiting.len() == 3) {
                code(&mut *coder, &mut waiting);
            }
        }
        match coder.take(t % 3, V::array(x), bound(x)).unwrap() {
            true => waiting.push_back(t),
            false => (0..waiting.len()).for_each(|_| code(&mut *coder, &mut waiting)),
        }
    }
    (0..waiting.len()).for_each(|_| code(&mut *coder, &mut waiting));
    let mut bits = vec![Vec::new(); arrays.len()];
    let mut decoder = sequence_coder(shape, 3).unwrap();
    let mut open = Vec::new();
    for (t, x) in arrays.iter().enumerate().rev() {
        let Some((stream, leans)) = &streams[t] else {
            open.clear();
            continue;
        };
        open.truncate(*leans);
        decoder.open(t % 3, &open, stream).unwrap();
        open.insert(0, t % 3);
        decoder.values(t % 3, V::array_mut(&mut y)).unwrap();
        super::tests::within(x, &y, bound(x));
        bits[t] = y.iter().map(|y| y.to_bits()).collect();
        if *leans == 0 {
            // An array that leans on none is one that the codec for single arrays decodes.
            alone.decompress(stream, V::array_mut(&mut y)).unwrap();
            assert!(bits[t].iter().zip(&y).all(|(a, y)| *a == y.to_bits()));
        } else {
            assert!(alone.decompress(stream, V::array_mut(&mut y)).is_err());
        }
    }
    (streams.into_iter().map(|s| s.map_or(Vec::new(), |(s, _)| s)).collect(), bits)
}

fn relative<V: Sliced>(digits: f64, rms: bool) -> impl Fn(&[V]) -> Bound {
    move |x| {
        let most = match largest(x) {
            0.0 => 1.0,
            most => most,
        };
        let bound = 10f64.powf(-digits) * most;
        if rms { Bound::Rms(bound) } else { Bound::Max(bound) }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Bounds are kept, and neither where a sequence ends nor the instruction set changes a decoded bit.
    #[test]
    fn chains(n in [1usize..36, 1usize..36, 1usize..20], length in 1usize..9, digits in 1.0f64..7.0, rms: bool, exponent in -60i32..60, seed: u64, end in 1usize..9) {
        fn all<V: Sliced>(n: [usize; 3], length: usize, (digits, rms): (f64, bool), scale: f64, seed: u64, end: usize) {
            let arrays = sequence::<V>(n, scale, seed, length);
            let mut first: Option<Made> = None;
            for level in simd::levels() {
                simd::set_level(level);
                let made = check(n, &arrays, relative(digits, rms), |_| false);
                let first = first.get_or_insert_with(|| made.clone());
                assert!(*first == made, "{level:?} differs");
            }
            let cut = check(n, &arrays, relative(digits, rms), |t| t % end == 0);
            assert!(first.unwrap().1 == cut.1, "bits follow from where the sequence ends");
        }
        let scale = 2f64.powi(exponent);
        all::<f32>(n, length, (digits, rms), scale, seed, end);
        all::<f64>(n, length, (digits, rms), scale, seed, end);
    }
}

/// Damaged streams, and streams after other arrays than those they lean on, are refused or decoded to
/// something, and never read beyond their ends.
#[test]
fn damaged_streams_and_other_arrays() {
    let n = [40, 33, 20];
    let shape = Shape { n, scalar: Scalar::F32 };
    let arrays = sequence::<f32>(n, 1.0, 7, 6);
    let (streams, _) = check(n, &arrays, relative(3.0, false), |_| false);
    let mut coder = sequence_coder(shape, 3).unwrap();
    let mut state = 1;
    let open = |coder: &mut dyn SequenceCoder| {
        coder.open(2, &[], &streams[5]).unwrap();
        coder.open(1, &[2], &streams[4]).unwrap();
    };
    open(&mut *coder);
    coder.open(0, &[1, 2], &streams[3]).unwrap();
    assert!(coder.open(0, &[2, 1], &streams[3]).is_err(), "the arrays in another order");
    assert!(coder.open(0, &[1], &streams[3]).is_err(), "too few arrays");
    assert!(coder.open(0, &[1, 2], &streams[2]).is_err(), "other arrays");
    assert!(coder.values(0, crate::scalar::ArrayMut::F32(&mut vec![0.0; shape.values()])).is_err());
    for _ in 0..200 {
        let mut bad = streams[3].clone();
        for _ in 0..3 {
            let at = (random(&mut state).abs() * 2.0 * bad.len() as f64) as usize % bad.len();
            bad[at] ^= (random(&mut state) * 255.0) as i32 as u8;
        }
        if random(&mut state) > 0.3 {
            bad.truncate((random(&mut state).abs() * 2.0 * bad.len() as f64) as usize);
        }
        open(&mut *coder);
        let _ = coder.open(0, &[1, 2], &bad);
    }
}

#[test]
fn scratch() {
    let Ok(root) = std::env::var("SEQ") else { return };
    let mut dirs: Vec<_> = std::fs::read_dir(root).unwrap().map(|d| d.unwrap().path()).collect();
    dirs.sort();
    for dir in dirs.iter().filter(|d| d.is_dir()) {
        let mut files: Vec<_> =
            std::fs::read_dir(dir).unwrap().map(|d| d.unwrap().path()).filter(|p| p.to_str().unwrap().contains("curr")).collect();
        files.sort();
        for three in files.chunks_exact(3) {
            let name = three[0].file_name().unwrap().to_str().unwrap().to_string();
            let n: Vec<usize> = name.split('_').nth(1).unwrap().split('x').map(|x| x.parse().unwrap()).collect();
            let read = |p: &std::path::Path| -> Vec<f32> {
                std::fs::read(p).unwrap().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
            };
            let x: Vec<Vec<f32>> = three.iter().map(|p| read(p)).collect();
            let n = [n[0], n[1], n[2]];
            let shape = Shape { n, scalar: Scalar::F32 };
            let mut alone = coder(shape).unwrap();
            let mut seq = sequence_coder(shape, 3).unwrap();
            let mut to = vec![0; alone.max_bytes().max(seq.max_bytes())];
            let array = |x: &[f32]| crate::scalar::Array::F32(unsafe { std::slice::from_raw_parts(x.as_ptr(), x.len()) });
            let diff: Vec<f32> = x[2].iter().zip(&x[1]).map(|(a, b)| a - b).collect();
            let range = |x: &[f32]| f64::from(x.iter().cloned().fold(f32::MIN, f32::max) - x.iter().cloned().fold(f32::MAX, f32::min));
            let raw = shape.bytes() as f64;
            for mode in ["60 dB", "80 dB", "1e-2", "1e-3", "1e-4"] {
                let b = |x: &[f32]| match mode {
                    "60 dB" => Bound::Rms(range(x) * 1e-3),
                    "80 dB" => Bound::Rms(range(x) * 1e-4),
                    m => Bound::Max(largest(x) * m.parse::<f64>().unwrap()),
                };
                let t0 = std::time::Instant::now();
                let one = alone.compress(array(&x[2]), b(&x[2]), &mut to).unwrap().unwrap();
                let t1 = t0.elapsed().as_secs_f64();
                let two = alone.compress(array(&diff), b(&diff), &mut to).unwrap().unwrap();
                let t0 = std::time::Instant::now();
                for k in 0..3 { assert!(seq.take(k, array(&x[k]), b(&x[k])).unwrap()); }
                let t2 = t0.elapsed().as_secs_f64() / 3.0;
                let t0 = std::time::Instant::now();
                let zero = seq.code(0, &[], &mut to).unwrap().0;
                let first = seq.code(0, &[1], &mut to).unwrap().0;
                let second = seq.code(0, &[1, 2], &mut to).unwrap().0;
                let t3 = t0.elapsed().as_secs_f64() / 3.0;
                println!("{} {mode}: alone {:.1} pair {:.1} of 2 | seq alone {:.1}, first {:.1}, second {:.1}: bytes of pair / second {:.2}, alone/second {:.2}; GB/s alone {:.2} take {:.2} code {:.2}", name, raw / one as f64, 2.0 * raw / (one + two) as f64, raw / zero as f64, raw / first as f64, raw / second as f64, (one + two) as f64 / second as f64, one as f64 / second as f64, raw / t1 / 1e9, raw / t2 / 1e9, raw / t3 / 1e9);
            }
        }
    }
}
