use super::super::quantize::tests::{
    all_sizes, field, keeps_bounds, print, ratios, round_trip, survives_damage, Tested,
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
    ratios(
        coder,
        &[
            ("gempy2_3d_100x100x100_step0400_curr.f32", 1e-2, 20.0),
            ("gempy2_3d_100x100x100_step0400_curr.f32", 1e-3, 11.4),
            ("gempy2_3d_100x100x100_step0400_curr.f32", 1e-4, 6.9),
            ("gempy2_3d_100x100x100_step0800_curr.f32", 1e-3, 9.5),
        ],
    );
}

#[test]
#[ignore = "prints ratios and speeds"]
fn print_ratios_and_speeds() {
    print(coder);
}

/// A tile of zeros takes two bits and a quarter of a byte: a group of 64 tiles takes 16 bytes.
#[test]
fn empty_tiles_cost_bits() {
    let mut x = vec![0f32; 256 * 64 * 64];
    assert_eq!(round_trip(coder, [256, 64, 64], &x, Bound::Max(1e-3)), Some(8 + 8 * 16));
    // All values are below the bound.
    x.fill(9e-4);
    assert_eq!(round_trip(coder, [256, 64, 64], &x, Bound::Max(1e-3)), Some(8 + 8 * 16));
}

#[test]
fn what_no_memory_holds_is_refused() {
    assert!(coder(Shape { n: [1 << 30, 1 << 30, 1 << 30], scalar: Scalar::F64 }).is_err());
    assert!(coder(Shape { n: [1 << 20, 1 << 11, 1 << 9], scalar: Scalar::F64 }).is_ok());
}

/// Checks the bytes of a stream of one value other than 0.
#[test]
fn a_stream_by_hand() {
    let x: Vec<f32> = (0..2048).map(|i| if i == 37 { 2.0 } else { 0.0 }).collect();
    let mut coder = coder(Shape { n: [32, 8, 8], scalar: Scalar::F32 }).unwrap();
    let mut to = vec![0; coder.max_bytes()];
    let size = coder.compress(Array::F32(&x), Bound::Max(0.25), &mut to).unwrap().unwrap();
    // q = 4 in the second line, at 5. Two differences, the fewest that the encoder takes, are +4 -4
    // in this line and -4 +4 in the line behind it.
    let tile = &to[24..size - 2];
    assert_eq!(to[..8], 0.5f64.to_le_bytes());
    assert_eq!((word(&to, 8), word(&to, 16)), (1, 0));
    assert_eq!(to[size - 2..size], (tile.len() as u16).to_le_bytes());
    // The widths are 0 or 3: two bits each. Rows 4 and 8 have width 3.
    assert_eq!(tile[..2], [2 << 5, 2]);
    let mut widths = [0; 64];
    (widths[0], widths[1], widths[2], widths[3]) = (1 << 4, 1 << 4, 1, 1);
    assert_eq!(tile[2..66], widths);
    assert_eq!(tile[66..], [0, 0, 3 << 5, 0, 0, 3 << 5, 0b0110]);
}

/// Decodes a stream as the module's documentation says, bit by bit.
fn described<T: Quantised>(n: [usize; 3], from: &[u8], coded: &mut [usize; 8]) -> Vec<T> {
    let n: Vec<usize> = n.into_iter().filter(|&n| n > 1).collect();
    let (tile, order): (&[usize], &[usize]) = match n.len() {
        3 => (&[32, 8, 8], &[0, 1, 2, 0, 1, 2]),
        2 => (&[32, 64], &[0, 1, 0, 1]),
        _ => (&[2048], &[0, 0, 0]),
    };
    let n = if n.is_empty() { vec![1] } else { n };
    let tiles: Vec<usize> = n.iter().zip(tile).map(|(n, tile)| n.div_ceil(*tile)).collect();
    let (count, groups) =
        (tiles.iter().product::<usize>(), tiles.iter().product::<usize>().div_ceil(64));
    let mut x = vec![T::default(); n.iter().product()];
    let unit = f64::from_le_bytes(from[..8].try_into().unwrap());
    let mut end_of_last = 0;
    for group in 0..groups {
        let stored = word(from, 8 + 16 * group);
        let mut at = word(from, 16 + 16 * group) as usize + 8 + 16 * groups;
        assert!(group == 0 || at == end_of_last);
        let end = if group + 1 < groups {
            word(from, 32 + 16 * group) as usize + 8 + 16 * groups
        } else {
            from.len()
        };
        end_of_last = end;
        let sizes = end - 2 * stored.count_ones() as usize;
        for (rank, t) in (0..64).filter(|t| stored >> t & 1 != 0).enumerate() {
            assert!(64 * group + t < count);
            let size =
                u16::from_le_bytes([from[sizes + 2 * rank], from[sizes + 2 * rank + 1]]) as usize;
            // The corner of the tile in the array, and the index in the array of number i of the
            // tile.
            let mut number = 64 * group + t;
            let corner: Vec<usize> =
                (0..n.len()).map(|d| (number % tiles[d], number /= tiles[d]).0 * tile[d]).collect();
            let place = |mut i: usize| {
                let (mut place, mut stride) = (0, 1);
                for d in 0..n.len() {
                    let at = corner[d] + i % tile[d];
                    (place, i) = (place + at * stride, i / tile[d]);
                    stride *= n[d];
                    if at >= n[d] {
                        return None;
                    }
                }
                Some(place)
            };
            let bytes = &from[at..at + size];
            at += size;
            if bytes[0] == 0xFF {
                coded[7] += 1;
                for (place, value) in (0..2048).filter_map(place).zip(bytes[1..].chunks(T::BYTES)) {
                    x[place] = T::get(value);
                }
                continue;
            }
            let row = |at: usize, width: usize, i: usize| {
                (0..width).map(|j| (bytes[at + j] as u32 >> i & 1) << j).sum::<u32>()
            };
            let (least, k, taken, level) =
                (bytes[0] & 31, bytes[0] as usize >> 5, bytes[1] as usize & 7, bytes[1] >> 3);
            coded[taken] += 1;
            let widths: Vec<usize> =
                (0..256).map(|j| least as usize + row(2 + j / 8 * k, k, j % 8) as usize).collect();
            let mut at = 2 + 32 * k;
            let mut signs = 8 * (at + widths.iter().sum::<usize>());
            let mut q = Vec::new();
            for width in widths {
                for i in 0..8 {
                    let mut residual = row(at, width, i) as i32;
                    if residual != 0 {
                        residual *= 1 - 2 * (bytes[signs / 8] >> (signs % 8) & 1) as i32;
                        signs += 1;
                    }
                    q.push(residual);
                }
                at += width;
            }
            assert_eq!(signs.div_ceil(8), size);
            for &d in &order[..taken] {
                let stride: usize = tile[..d].iter().product();
                for i in 0..2048 {
                    if !(i / stride).is_multiple_of(tile[d]) {
                        q[i] = q[i].wrapping_add(q[i - stride]);
                    }
                }
            }
            let step = T::down(unit * [511.0 / 512.0, 31.0 / 32.0, 0.75][level as usize]);
            for (i, &q) in q.iter().enumerate() {
                if let Some(place) = place(i) {
                    x[place] = T::from_i32(q) * step;
                }
            }
        }
        assert_eq!(at, sizes);
    }
    x
}

#[test]
fn the_stream_is_as_described() {
    fn one<T: Tested>(n: [usize; 3], kind: u32, bits: i32, coded: &mut [usize; 8]) {
        let x: Vec<T> = field(n, kind, 3, if n[0] & 1 == 0 { 0 } else { 1500 }, 5);
        let mut coder = coder(Shape { n, scalar: T::SCALAR }).unwrap();
        let mut to = vec![0; coder.max_bytes()];
        let Some(size) =
            coder.compress(T::array(&x), Bound::Max(2f64.powi(-bits)), &mut to).unwrap()
        else {
            return;
        };
        let mut y = x.clone();
        coder.decompress(&to[..size], T::array_mut(&mut y)).unwrap();
        let z: Vec<T> = described(n, &to[..size], coded);
        assert!(
            y.iter().zip(&z).all(|(y, z)| y.to_bits() == z.to_bits()),
            "{n:?} kind {kind} bits {bits}"
        );
    }
    let mut coded = [0; 8];
    for n in [
        [100, 20, 40],
        [77, 9, 9],
        [64, 200, 1],
        [45, 1, 130],
        [5001, 1, 1],
        [150_000, 1, 1],
        [1, 1, 1],
    ] {
        for (kind, bits) in [(0, 5), (0, 14), (0, 20), (1, 8), (4, 12), (6, 9)] {
            one::<f32>(n, kind, bits, &mut coded);
            one::<f64>(n, kind, bits, &mut coded);
        }
    }
    assert!(coded[1..=6].iter().all(|&tiles| tiles > 0) && coded[7] > 0, "{coded:?}");
}
