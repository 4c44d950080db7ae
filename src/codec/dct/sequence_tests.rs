use super::tests::{array, largest, random, Kind, KINDS};
use super::*;
use crate::codec::fixed::tests::Sliced;
use crate::codec::simd;
use crate::codec::Bound;
use crate::device::Team;
use crate::scalar::{Real, Scalar};
use proptest::prelude::*;
use std::sync::Arc;

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
/// `ends(t)`: no array before t leans on one from t on. The threads of a team may share the work.
fn check<V: Sliced>(
    n: [usize; 3],
    arrays: &[Vec<V>],
    bound: impl Fn(&[V]) -> Bound,
    ends: impl Fn(usize) -> bool,
    team: Option<&Arc<Team>>,
) -> Made {
    let shape = Shape { n, scalar: V::SCALAR };
    let made = || {
        let mut coder = sequence_coder(shape, 3).unwrap();
        team.iter().for_each(|team| coder.join(team).unwrap());
        coder
    };
    let mut coder = made();
    let mut alone = super::coder(shape).unwrap();
    let mut to = vec![0xa5; coder.max_bytes()];
    let mut y = vec![V::from_f64(0.0); arrays[0].len()];
    let (mut streams, mut waiting) = (vec![None; arrays.len()], std::collections::VecDeque::new());
    let mut code = |coder: &mut dyn SequenceCoder,
                    waiting: &mut std::collections::VecDeque<usize>| {
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
    let mut decoder = made();
    let mut open = Vec::new();
    for (t, x) in arrays.iter().enumerate().rev() {
        let Some((stream, leans)) = &streams[t] else {
            open.clear();
            continue;
        };
        open.truncate(2);
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
        if rms {
            Bound::Rms(bound)
        } else {
            Bound::Max(bound)
        }
    }
}

/// A case is a chain at each of three instruction levels (where the machine has them) and one that ends, of both
/// types: with `GPUZIP_TEST_LONG` more than 10,000 chains.
fn cases() -> ProptestConfig {
    ProptestConfig::with_cases(if std::env::var_os("GPUZIP_TEST_LONG").is_some() {
        1300
    } else {
        60
    })
}

proptest! {
    #![proptest_config(cases())]

    /// Bounds are kept, and neither where a sequence ends nor the instruction set changes a decoded bit. Threads
    /// that share the work change no byte.
    #[test]
    fn chains(n in [1usize..36, 1usize..36, 1usize..20], length in 1usize..9, digits in 1.0f64..7.0, rms: bool, exponent in -60i32..60, seed: u64, end in 1usize..9) {
        fn all<V: Sliced>(n: [usize; 3], length: usize, (digits, rms): (f64, bool), scale: f64, seed: u64, end: usize) {
            let arrays = sequence::<V>(n, scale, seed, length);
            let team = Team::new();
            team.grow(1 + seed as usize % 3).unwrap();
            let mut first: Option<Made> = None;
            for level in simd::levels() {
                simd::set_level(level);
                let made = check(n, &arrays, relative(digits, rms), |_| false, None);
                let first = first.get_or_insert_with(|| made.clone());
                assert!(*first == made, "{level:?} differs");
            }
            let first = first.unwrap();
            let cut = check(n, &arrays, relative(digits, rms), |t| t % end == 0, None);
            assert!(first.1 == cut.1, "bits follow from where the sequence ends");
            let shared = check(n, &arrays, relative(digits, rms), |_| false, Some(&team));
            assert!(first == shared, "bytes follow from the threads that share the work");
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
    let (streams, _) = check(n, &arrays, relative(3.0, false), |_| false, None);
    let mut coder = sequence_coder(shape, 3).unwrap();
    let team = Team::new();
    team.grow(2).unwrap();
    coder.join(&team).unwrap();
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
