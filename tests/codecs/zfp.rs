//! Compares gpuzip's zfp streams of a fixed rate (Lindstrom 2014) with those of libzfp.

mod fixtures;
mod libzfp;

use crate::common::draw::Draw;
use gpuzip::codec::{simd, Bound, Coder, Method, Shape};
use gpuzip::error::Result;
use gpuzip::scalar::Scalar;
use gpuzip::scalar::{Array, ArrayMut};
use libzfp::Libzfp;
use proptest::prelude::*;

/// The coder of arrays of this shape at `rate` bits per value.
fn coder(shape: Shape, rate: u32) -> Result<Box<dyn Coder>> {
    Ok(Method::Zfp { rate }.coder(shape)?.unwrap())
}

/// Codes `x` into `to`, and returns whether zfp can code this array.
fn encode(zfp: &mut dyn Coder, x: Array<'_>, to: &mut [u8]) -> Result<bool> {
    let bytes = zfp.compress(x, Bound::Max(1.0), to)?;
    assert!(bytes.is_none_or(|bytes| bytes == zfp.max_bytes()));
    Ok(bytes.is_some())
}

/// A type of values, with the operations that the tests need.
trait Value: Copy + PartialEq + std::fmt::Debug {
    const SCALAR: Scalar;
    /// The number of the type in libzfp's enum `zfp_type`.
    const TYPE: i32;
    const MOST: u32;
    fn array(x: &[Self]) -> Array<'_>;
    fn array_mut(x: &mut [Self]) -> ArrayMut<'_>;
    fn bits(self) -> u64;
    fn is_finite(self) -> bool;
    fn of_bits(bits: u64) -> Self;
    fn of(x: f64) -> Self;
}

macro_rules! value {
    ($float:ident, $bits:ident, $variant:ident, $number:literal, $most:literal) => {
        impl Value for $float {
            const SCALAR: Scalar = Scalar::$variant;
            const TYPE: i32 = $number;
            const MOST: u32 = $most;
            fn array(x: &[Self]) -> Array<'_> {
                Array::$variant(x)
            }
            fn array_mut(x: &mut [Self]) -> ArrayMut<'_> {
                ArrayMut::$variant(x)
            }
            fn bits(self) -> u64 {
                self.to_bits() as u64
            }
            fn is_finite(self) -> bool {
                $float::is_finite(self)
            }
            fn of_bits(bits: u64) -> Self {
                $float::from_bits(bits as $bits)
            }
            fn of(x: f64) -> Self {
                x as $float
            }
        }
    };
}

value!(f32, u32, F32, 3, 32);
value!(f64, u64, F64, 4, 64);

/// Number of kinds of values that `field` makes.
const KINDS: usize = 7;

fn field<T: Value>(kind: usize, dims: &[usize], seed: u64) -> Vec<T> {
    let mut random = Draw(seed);
    let nx = dims[0];
    let ny = dims.get(1).copied().unwrap_or(1);
    (0..dims.iter().product())
        .map(|i: usize| {
            let (x, y, z) = ((i % nx) as f64, (i / nx % ny) as f64, (i / nx / ny) as f64);
            // A parabola per axis: smooth, and with the same bits on every machine.
            let smooth = (x - 7.25) * (x - 20.0) * 0.01 - (y - 3.0) * (y + 1.5) * 0.03
                + (z - 2.0) * z * 0.05;
            let noise = random.value();
            match kind {
                0 => T::of(smooth),
                1 => T::of(noise),
                2 => T::of(if i / 50 % 2 == 0 { 0.0 } else { smooth * noise }),
                3 => T::of(smooth * 1e30),
                // Finite values with every exponent, including denormals and -0.
                4 => loop {
                    let value = T::of_bits(random.bits());
                    if value.is_finite() {
                        break value;
                    }
                },
                // Denormals and values near them.
                5 => T::of_bits(
                    random.bits()
                        & if T::MOST == 32 { 0x8fff_ffff } else { 0x803f_ffff_ffff_ffff }
                            >> (i / 64 % 8),
                ),
                _ => T::of(-1.0 + 1e-6 * (noise * 4.0).floor()),
            }
        })
        .collect()
}

fn shape<T: Value>(dims: &[usize]) -> Shape {
    let mut n = [1; 3];
    n[..dims.len()].copy_from_slice(dims);
    Shape { n, scalar: T::SCALAR }
}

const DIMS: [&[usize]; 12] = [
    &[1],
    &[3],
    &[64],
    &[1031],
    &[2, 2],
    &[5, 7],
    &[64, 4],
    &[67, 33],
    &[4, 4, 4],
    &[2, 3, 5],
    &[64, 8, 4],
    &[35, 14, 9],
];

/// Checks that both libraries make the same stream of `x`, and decode the stream to the same
/// values.
fn compare<T: Value>(library: &Libzfp, dims: &[usize], rate: u32, x: &[T], what: &str) {
    let mut zfp = coder(shape::<T>(dims), rate).unwrap();
    let (mut ours, mut theirs) = (vec![0xaa; zfp.max_bytes()], vec![0; zfp.max_bytes()]);
    assert!(encode(&mut *zfp, T::array(x), &mut ours).unwrap());
    let len = library.compress(x, dims, rate, &mut theirs);
    assert!(ours.len() - len < 8, "{what}: {} and {len} bytes", ours.len());
    if let Some(at) = ours.iter().zip(&theirs).position(|(a, b)| a != b) {
        panic!("{what}: byte {at} of {len} is {:02x}, not {:02x}", ours[at], theirs[at]);
    }
    both_decode::<T>(library, &mut *zfp, dims, rate, &ours, what);
}

fn both_decode<T: Value>(
    library: &Libzfp,
    zfp: &mut dyn Coder,
    dims: &[usize],
    rate: u32,
    stream: &[u8],
    what: &str,
) {
    let len: usize = dims.iter().product();
    let (mut ours, mut theirs) = (vec![T::of(7.0); len], vec![T::of(-7.0); len]);
    zfp.decompress(stream, T::array_mut(&mut ours)).unwrap();
    library.decompress(stream, dims, rate, &mut theirs);
    if let Some(at) = ours.iter().zip(&theirs).position(|(a, b)| a.bits() != b.bits()) {
        panic!("{what}: value {at} of {len} is {:?}, not {:?}", ours[at], theirs[at]);
    }
}

fn compare_all<T: Value>(library: &Libzfp) {
    for (seed, dims) in DIMS.iter().enumerate() {
        for kind in 0..KINDS {
            let x = field::<T>(kind, dims, seed as u64);
            for rate in 1..=T::MOST {
                compare(
                    library,
                    dims,
                    rate,
                    &x,
                    &format!("{dims:?} {:?} kind {kind} rate {rate}", T::SCALAR),
                );
            }
        }
    }
}

#[test]
fn streams_and_values_are_those_of_libzfp() {
    let Some(library) = Libzfp::open() else { return };
    compare_all::<f32>(&library);
    compare_all::<f64>(&library);
}

#[test]
fn so_are_those_of_every_length() {
    let Some(library) = Libzfp::open() else { return };
    for n in 1..=300 {
        for rate in [1, 5, 8, 32] {
            compare(
                &library,
                &[n],
                rate,
                &field::<f32>(n % KINDS, &[n], n as u64),
                &format!("{n} F32 rate {rate}"),
            );
            compare(
                &library,
                &[n],
                rate,
                &field::<f64>(n % KINDS, &[n], n as u64),
                &format!("{n} F64 rate {rate}"),
            );
        }
    }
}

/// Encodes a field and writes random bytes to random places of the stream: as many bytes as the
/// stream has, or three.
fn damaged<T: Value>(zfp: &mut dyn Coder, dims: &[usize], random: &mut Draw) -> Vec<u8> {
    let mut stream = vec![0; zfp.max_bytes()];
    assert!(encode(
        &mut *zfp,
        T::array(&field::<T>(random.bits() as usize % KINDS, dims, 5)),
        &mut stream
    )
    .unwrap());
    let changed = if random.bits() % 2 == 0 { stream.len() } else { 3 };
    for _ in 0..changed {
        let at = random.bits() as usize % stream.len();
        stream[at] = random.bits() as u8;
    }
    stream
}

fn decode_damaged<T: Value>(library: Option<&Libzfp>) {
    let mut random = Draw(9);
    for dims in [&[77][..], &[19, 9], &[9, 6, 5]] {
        for rate in 1..=T::MOST {
            let mut zfp = coder(shape::<T>(dims), rate).unwrap();
            for _ in 0..4 {
                let stream = damaged::<T>(&mut *zfp, dims, &mut random);
                match library {
                    Some(library) => both_decode::<T>(
                        library,
                        &mut *zfp,
                        dims,
                        rate,
                        &stream,
                        &format!("{dims:?} rate {rate}"),
                    ),
                    None => every_value_is_written::<T>(&mut *zfp, dims, &stream),
                }
            }
        }
    }
}

fn every_value_is_written<T: Value>(zfp: &mut dyn Coder, dims: &[usize], stream: &[u8]) {
    let len: usize = dims.iter().product();
    let (mut one, mut other) = (vec![T::of(7.0); len], vec![T::of(-7.0); len]);
    zfp.decompress(stream, T::array_mut(&mut one)).unwrap();
    zfp.decompress(stream, T::array_mut(&mut other)).unwrap();
    assert!(one.iter().zip(&other).all(|(a, b)| a.bits() == b.bits()));
}

#[test]
fn any_bytes_decode_to_an_array() {
    decode_damaged::<f32>(None);
    decode_damaged::<f64>(None);
}

proptest! {
    #[test]
    fn arrays_of_any_shape_decode_from_any_bytes(
        dims in prop::collection::vec(1usize..24, 1..=3),
        rate in 1u32..=64,
        bytes in prop::collection::vec(any::<u8>(), 0..600),
        cut in 0usize..2000,
    ) {
        let mut wide = coder(shape::<f64>(&dims), rate).unwrap();
        let mut narrow = coder(shape::<f32>(&dims), rate.min(32)).unwrap();
        let stream = |len| bytes.iter().copied().chain([0x5a, 0xff, 1]).cycle().take(len).collect::<Vec<u8>>();
        let (most, most_narrow) = (wide.max_bytes(), narrow.max_bytes());
        every_value_is_written::<f64>(&mut *wide, &dims, &stream(most));
        every_value_is_written::<f32>(&mut *narrow, &dims, &stream(most_narrow));
        if cut + 8 <= most {
            let mut x = vec![0.0; dims.iter().product()];
            prop_assert!(wide.decompress(&stream(cut), ArrayMut::F64(&mut x)).is_err());
        }
    }
}

#[test]
fn any_bytes_decode_as_with_libzfp() {
    let Some(library) = Libzfp::open() else { return };
    decode_damaged::<f32>(Some(&library));
    decode_damaged::<f64>(Some(&library));
}

/// Continues a 64-bit FNV-1a hash.
fn hash(state: u64, bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes
        .into_iter()
        .fold(state, |state, byte| (state ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// Hash of the streams and the decoded values of all rates, shapes and kinds; `code` returns both for
/// one array at one rate.
fn hash_of_all<T: Value>(mut code: impl FnMut(u32, &[usize], &[T]) -> (Vec<u8>, Vec<T>)) -> u64 {
    let mut state = 0xcbf2_9ce4_8422_2325;
    for rate in 1..=T::MOST {
        for (seed, dims) in DIMS.iter().enumerate() {
            for kind in 0..KINDS {
                let (stream, decoded) = code(rate, dims, &field::<T>(kind, dims, seed as u64));
                let decoded = decoded.iter().flat_map(|x| x.bits().to_le_bytes());
                state = hash(hash(state, stream), decoded);
            }
        }
    }
    state
}

fn our_hash<T: Value>() -> u64 {
    hash_of_all::<T>(|rate, dims, x| {
        let mut zfp = coder(shape::<T>(dims), rate).unwrap();
        let (mut stream, mut decoded) = (vec![0xaa; zfp.max_bytes()], x.to_vec());
        assert!(encode(&mut *zfp, T::array(x), &mut stream).unwrap());
        zfp.decompress(&stream, T::array_mut(&mut decoded)).unwrap();
        (stream, decoded)
    })
}

fn their_hash<T: Value>(library: &Libzfp) -> u64 {
    hash_of_all::<T>(|rate, dims, x| {
        // The bytes behind libzfp's stream are zeros, whatever the size of the words it was built
        // with.
        let (mut stream, mut decoded) =
            (vec![0; coder(shape::<T>(dims), rate).unwrap().max_bytes()], x.to_vec());
        library.compress(x, dims, rate, &mut stream);
        library.decompress(&stream, dims, rate, &mut decoded);
        (stream, decoded)
    })
}

/// The hashes of libzfp 1.0.0 in tests/codecs/zfp/fixtures.rs are ours for every instruction set of this
/// processor; needs no libzfp. With libzfp, `streams_and_values_are_those_of_libzfp` names the array
/// and the rate that differ.
#[test]
fn streams_and_values_are_those_that_libzfp_gave() {
    for level in simd::levels() {
        simd::set_level(level);
        assert_eq!(our_hash::<f32>(), fixtures::F32, "{level:?} F32");
        assert_eq!(our_hash::<f64>(), fixtures::F64, "{level:?} F64");
    }
}

/// Run with `cargo test --test codecs -- zfp:: --ignored --nocapture print_fixtures`.
#[test]
#[ignore = "prints what tests/codecs/zfp/fixtures.rs has"]
fn print_fixtures() {
    let Some(library) = Libzfp::open() else { return };
    println!("F32: {:#018x}", their_hash::<f32>(&library));
    println!("F64: {:#018x}", their_hash::<f64>(&library));
    let stream = |dims: &[usize], rate| {
        let x: Vec<f32> = ramp(dims.iter().product());
        let mut bytes = vec![0; coder(shape::<f32>(dims), rate).unwrap().max_bytes()];
        library.compress(&x, dims, rate, &mut bytes);
        println!("{dims:?} rate {rate}: {bytes:#04x?}");
    };
    stream(&[7], 8);
    stream(&[5, 3], 4);
    stream(&[3, 2, 2], 3);
}

/// The values 1, 1.5, -2, 2.5, 3, -3.5, ...
fn ramp(len: usize) -> Vec<f32> {
    (0..len).map(|i| (1.0 + i as f32 / 2.0) * if i % 3 == 2 { -1.0 } else { 1.0 }).collect()
}

fn stream_of(n: [usize; 3], rate: u32) -> Vec<u8> {
    let mut zfp = coder(Shape { n, scalar: Scalar::F32 }, rate).unwrap();
    let mut stream = vec![0xaa; zfp.max_bytes()];
    assert!(encode(&mut *zfp, Array::F32(&ramp(n.iter().product())), &mut stream).unwrap());
    stream
}

#[test]
fn small_arrays_have_these_streams() {
    assert_eq!(stream_of([7, 1, 1], 8), fixtures::LINE);
    assert_eq!(stream_of([5, 3, 1], 4), fixtures::PLANE);
    assert_eq!(stream_of([3, 2, 2], 3), fixtures::CUBE);
}

#[test]
fn extents_of_1_are_no_dimensions() {
    assert_eq!(stream_of([1, 7, 1], 8), fixtures::LINE);
    assert_eq!(stream_of([1, 5, 3], 4), fixtures::PLANE);
    assert_eq!(stream_of([5, 1, 3], 4), fixtures::PLANE);
}

#[test]
fn what_it_cannot_code_is_none() {
    let bound = Bound::Max(1.0);
    let mut zfp = coder(Shape { n: [100, 1, 1], scalar: Scalar::F32 }, 8).unwrap();
    let mut to = vec![0; zfp.max_bytes()];
    assert_eq!(zfp.compress(Array::F32(&[1.0; 100]), bound, &mut to).unwrap(), Some(104));
    for odd in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for at in [0, 63, 99] {
            let mut x = [1.0; 100];
            x[at] = odd;
            assert_eq!(zfp.compress(Array::F32(&x), bound, &mut to).unwrap(), None);
        }
    }
    // 5 values (20 bytes) take 2 blocks of 16 bytes, more than the raw values: the test
    // `streams_longer_than_the_array_are_stored_raw` has what a snapshot does with them.
    let mut zfp = coder(Shape { n: [5, 1, 1], scalar: Scalar::F32 }, 32).unwrap();
    assert_eq!(zfp.compress(Array::F32(&[1.0; 5]), bound, &mut [0; 32]).unwrap(), Some(32));
    assert!(zfp.compress(Array::F32(&[1.0; 5]), bound, &mut [0; 31]).is_err());
}

#[test]
fn what_does_not_fit_is_an_error() {
    let make = |n, scalar, rate| coder(Shape { n, scalar }, rate).is_ok();
    assert!(make([8; 3], Scalar::F32, 32) && make([8; 3], Scalar::F64, 64));
    assert!(
        !make([8; 3], Scalar::F32, 0)
            && !make([8; 3], Scalar::F32, 33)
            && !make([8; 3], Scalar::F64, 65)
    );
    assert!(
        !make([8, 0, 1], Scalar::F32, 8)
            && !make([1 << 31; 3], Scalar::F32, 8)
            && !make([usize::MAX, 1, 1], Scalar::F64, 64)
    );

    let mut zfp = coder(Shape { n: [100, 1, 1], scalar: Scalar::F32 }, 9).unwrap();
    let (mut x, mut stream) = (ramp(100), vec![0; zfp.max_bytes()]);
    assert_eq!(stream.len(), 120);
    assert!(encode(&mut *zfp, Array::F32(&x), &mut stream[..119]).is_err());
    assert!(encode(&mut *zfp, Array::F32(&x[1..]), &mut stream).is_err());
    assert!(encode(&mut *zfp, Array::F64(&[0.0; 100]), &mut stream).is_err());
    assert!(encode(&mut *zfp, Array::F32(&x), &mut stream).unwrap());
    let expected = {
        zfp.decompress(&stream, ArrayMut::F32(&mut x)).unwrap();
        x.clone()
    };
    // 25 blocks of 36 bits are 113 bytes.
    for len in 0..=stream.len() {
        let decoded = zfp.decompress(&stream[..len], ArrayMut::F32(&mut x));
        assert_eq!(decoded.is_ok(), len >= 113, "{len}");
        assert!(x == expected);
    }
    stream.push(0);
    assert!(zfp.decompress(&stream, ArrayMut::F32(&mut x)).is_err());
    assert!(zfp.decompress(&stream[..120], ArrayMut::F32(&mut x[1..])).is_err());
    assert!(zfp.decompress(&stream[..120], ArrayMut::F64(&mut [0.0; 100])).is_err());
}
