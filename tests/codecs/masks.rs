//! Masked values (`fill_value`): they come back bit for bit, do not count for the bound of the others, and
//! cost little.

use crate::snapshots::{check_field, codec, compress, decompress, methods, settings, value, State};
use gpuzip::codec::{Content, ErrorBound, FillValue, Header, Method, Settings, SnapshotCodec};
use gpuzip::layout::{Field, Layout};
use gpuzip::scalar::Scalar;
use proptest::prelude::*;

/// Whether value i of an array is masked, in one of the kinds: none, all, one, at random, or land beside a
/// coast line that changes a little from plane to plane.
fn is_land(kind: usize, seed: u64, i: usize, n: [u64; 3]) -> bool {
    let hash = (seed ^ (i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)).rotate_left(31);
    let hash = hash.wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 40;
    let [x, y, z] =
        [i as u64 % n[0], i as u64 / n[0] % n[1], i as u64 / n[0] / n[1]].map(|x| x as f64);
    let phase = (seed % 100) as f64;
    match kind {
        0 => false,
        1 => true,
        2 => i as u64 == seed % n.iter().product::<u64>(),
        3 => hash % 100 < seed % 100,
        _ => {
            let coast =
                (x / 19.0 + phase).sin() + (y / 15.0).cos() + 0.4 * (x / 3.0 - y / 5.0).sin();
            coast + 0.06 * z > 0.7
        }
    }
}

fn bits(state: &State, k: usize) -> Vec<&[u8]> {
    state.data[k].chunks(state.fields[k].scalar.bytes() as usize).collect()
}

/// The same state with NaN where `of` holds the value `fill`.
fn without(state: &State, of: &State, fill: &[Vec<u8>]) -> State {
    let mut state = state.clone();
    for (k, fill) in fill.iter().enumerate() {
        let size = state.fields[k].scalar.bytes() as usize;
        let nan = if size == 4 {
            f32::NAN.to_le_bytes().to_vec()
        } else {
            f64::NAN.to_le_bytes().to_vec()
        };
        let values = state.data[k].chunks_mut(size).zip(bits(of, k));
        values.filter(|(_, x)| *x == fill).for_each(|(to, _)| to.copy_from_slice(&nan));
    }
    state
}

fn masks_in(mut stream: &[u8]) -> usize {
    let mut count = 0;
    while !stream.is_empty() {
        let (header, _, bytes) = Header::open(stream).unwrap();
        count += usize::from(header.content == Content::Mask);
        stream = &stream[bytes..];
    }
    count
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, max_shrink_iters: 500, ..ProptestConfig::default() })]

    #[test]
    fn masked_values_come_back_and_others_keep_the_bound(
        method in prop::sample::select(methods()),
        n in prop_oneof![
            (1..300u64).prop_map(|n| [n, 1, 1]), (1..90u64, 1..40u64).prop_map(|(a, b)| [a, b, 1]),
            (1..70u64, 1..12u64, 1..9u64).prop_map(|(a, b, c)| [a, b, c]), (1..3u64, 1..50u64).prop_map(|(a, b)| [1, a * 9, b]),
        ],
        kinds in prop::collection::vec((0..11usize, 0..6usize, any::<bool>()), 4), double in any::<bool>(), seed in any::<u64>(),
        fill in prop::sample::select(vec![FillValue::Nan, FillValue::Number(1e20), FillValue::Number(0.0), FillValue::Number(-9999.0)]),
        bound in prop_oneof![
            (-8..0i32).prop_map(|e| ErrorBound::OfMax(10f64.powi(e))), (-12..6i32).prop_map(|e| ErrorBound::Absolute(10f64.powi(e))),
            (-8..0i32).prop_map(|e| ErrorBound::OfRange(10f64.powi(e))), (10..150i32).prop_map(|d| ErrorBound::Psnr(d as f64)),
        ],
    ) {
        let scalar = if double { Scalar::F64 } else { Scalar::F32 };
        let own = Field { n, scalar, previous_of: None };
        let fields = [own, Field { previous_of: Some(0), ..own }, Field { scalar: Scalar::F64, ..own }, Field { previous_of: Some(1), ..own }];
        let number = match fill {
            FillValue::Nan => f64::from_bits(f64::NAN.to_bits() | seed >> 13),
            FillValue::Number(number) => number,
        };
        // Levels have one mask, or each its own.
        let land = |k: usize| if kinds[k].2 { (kinds[k].1, seed + k as u64) } else { (kinds[0].1, seed) };
        let state = State::new(&fields, |k, i| match is_land(land(k).0, land(k).1, i, n) {
            true => number,
            false => value(kinds[if k == 2 { 2 } else { 0 }].0, seed, k, i, n),
        });
        // The bits of the masked values of each field.
        let mark: Vec<Vec<u8>> = (0..4).map(|k| {
            let nan = state.values(k).iter().position(|x| x.is_nan());
            match (fill, fields[k].scalar) {
                (FillValue::Nan, _) => nan.map_or(Vec::new(), |i| bits(&state, k)[i].to_vec()),
                (_, Scalar::F32) => (number as f32).to_le_bytes().to_vec(),
                _ => number.to_le_bytes().to_vec(),
            }
        }).collect();
        let settings = Settings { fill_value: Some(fill), ..settings(&method, bound) };
        let mut coder = codec(&settings, &fields);
        let stream = compress(&mut coder, &state);
        prop_assert!(stream.len() as u64 <= SnapshotCodec::max_bytes(&Layout::new(fields.to_vec()).unwrap()));
        prop_assert!(masks_in(&stream) == 0 || method.is_bounded());
        let plain = super::snapshots::settings(&method, bound);
        // A decoder needs no fill value.
        for settings in [&settings, &plain] {
            let back = decompress(&mut codec(settings, &fields), &stream, &fields).unwrap();
            if method.keeps_masked() {
                for (k, mark) in mark.iter().enumerate() {
                    let kept = bits(&state, k).into_iter().zip(bits(&back, k)).all(|(x, y)| *x != mark[..] || x == y);
                    prop_assert!(kept, "{method:?} field {k}: masked values come back");
                }
                let (unmasked, back) = (without(&state, &state, &mark), without(&back, &state, &mark));
                (0..4).for_each(|k| check_field(&method, bound, &unmasked, &back, k, fields[k].previous_of));
            }
        }
        // A state without masked values has the bytes that it has without the key.
        if masks_in(&stream) == 0 && (0..4).all(|k| bits(&state, k).iter().all(|x| **x != mark[k][..])) {
            prop_assert!(stream == compress(&mut codec(&plain, &fields), &state));
        }
    }
}

/// A field of an ocean: eddies and a slope from north to south, less with depth; land has no value.
pub fn ocean(n: [u64; 3], fill: Option<f64>) -> State {
    let fields = [Field { n, scalar: Scalar::F32, previous_of: None }];
    State::new(&fields, |_, i| {
        let [x, y, z] =
            [i as u64 % n[0], i as u64 / n[0] % n[1], i as u64 / n[0] / n[1]].map(|x| x as f64);
        let eddies = (x / 9.0 + 0.3 * (y / 11.0).sin()).sin() * (y / 8.0).cos()
            + 0.3 * (x / 4.3 - y / 5.1 + z).sin();
        // Continents: a coast of a scale of a hundred values, ragged by a few.
        let coast = (x / 57.0 + 3.0).sin() + (y / 45.0).cos() + 0.1 * (x / 3.0 - y / 5.0).sin();
        match fill.filter(|_| coast + 0.06 * z > 0.7) {
            Some(fill) => fill,
            None => 12.0 + 10.0 * (y / n[1] as f64) + 2.0 * eddies * (-z / 10.0).exp(),
        }
    })
}

/// Under lorenzo and cuszp a masked field takes no more bytes than the same field without land. Under dct, whose
/// tiles of 16³ values nearly all have a coast here, it has at least 0.6 of the ratio.
#[test]
fn masks_cost_little_ratio() {
    let n = [360, 240, 16];
    for method in [Method::Dct, Method::Lorenzo, Method::Cuszp] {
        let size = |fill_value: Option<FillValue>, fill: Option<f64>| {
            let settings = Settings { fill_value, ..settings(&method, ErrorBound::OfMax(1e-3)) };
            let state = ocean(n, fill);
            compress(&mut codec(&settings, &state.fields), &state).len()
        };
        let (whole, least) = (size(None, None), if method == Method::Dct { 0.6 } else { 1.0 });
        for (fill, number) in [(FillValue::Nan, f64::NAN), (FillValue::Number(1e20), 1e20)] {
            let (with, unnamed) = (size(Some(fill), Some(number)), size(None, Some(number)));
            println!("{method:?} {fill}: {whole} bytes without land, {with} with a mask, {unnamed} without the key");
            assert!(
                with as f64 <= whole as f64 / least,
                "{method:?} {fill}: {with} of {whole} bytes"
            );
        }
    }
}
