//! Streams of the codec dct with many tiles, and with strings at the limits of their lengths.

use super::*;

/// Further bounds, and arrays of many tiles: a sample of tiles decides the tile's side, thread
/// blocks wait for each other, and several thread blocks move the bytes.
pub(super) fn dct_of_many_tiles() {
    let (tight, mean) = (ErrorBound::OfMax(1e-5), ErrorBound::Psnr(70.0));
    let mut sides = Vec::new();
    let mut check = |n, scalar, bound, kinds: &[Kind]| {
        let mut rig = Rig::new(settings(Method::Dct, bound), &[(n, scalar, None)]);
        for (seed, &kind) in kinds.iter().enumerate() {
            let stream = rig.check(kind, seed as u64);
            // The first byte of the payload is the side of the tiles.
            sides.extend(
                (stream[5] == 1).then_some((n.iter().filter(|&&n| n > 4).count(), stream[64])),
            );
        }
    };
    check([50, 49, 33], Scalar::F32, tight, &[Kind::Wave, Kind::Spike]);
    check([50, 49, 33], Scalar::F32, ErrorBound::OfMax(1e-2), &[Kind::Smooth, Kind::Sparse]);
    check([40, 33, 18], Scalar::F64, tight, &[Kind::Smooth, Kind::Noise]);
    check([3, 37, 40], Scalar::F64, tight, &[Kind::Mixed, Kind::NotFinite]);
    check([161, 130, 1], Scalar::F32, tight, &[Kind::Noise, Kind::Sparse, Kind::Wave]);
    check([161, 130, 1], Scalar::F64, ErrorBound::OfMax(1e-2), &[Kind::Smooth]);
    check([130_000, 1, 1], Scalar::F32, tight, &[Kind::Noise, Kind::Sparse, Kind::Wave]);
    check([2, 3, 4], Scalar::F32, tight, &[Kind::Smooth]);
    check([37, 18, 20], Scalar::F32, mean, &[Kind::Smooth, Kind::Spike, Kind::Mixed]);
    check([37, 18, 9], Scalar::F64, mean, &[Kind::Wave, Kind::NotFinite]);
    check([90, 40, 1], Scalar::F32, mean, &[Kind::Smooth, Kind::Sparse, Kind::Noise]);
    check([2000, 1, 1], Scalar::F64, mean, &[Kind::Smooth, Kind::Spike, Kind::Bits]);
    check([2000, 1, 1], Scalar::F32, ErrorBound::Psnr(20.0), &[Kind::Noise, Kind::Wave]);
    if long() {
        // Many tiles of zeros, so that other tiles are moved far; and enough other tiles that
        // they are moved in several pieces.
        check([2_000_000, 1, 1], Scalar::F32, tight, &[Kind::Sparse]);
    }
    for side in [(3, 16), (3, 8), (2, 32), (2, 16), (1, 32)] {
        assert!(sides.contains(&side), "nothing was coded with {side:?} dimensions and side");
    }
}

/// A payload of `dct` for 16^3 values with one tile of `bytes` bytes, or of as many bytes as the
/// tile needs. The tile has one row, or two rows if there is a `change` of the mode, which is a
/// number in unary, too. The first coefficients are `numbers` in unary.
fn dct_payload(change: Option<usize>, numbers: &[usize], bytes: Option<usize>) -> Vec<u8> {
    let rows = if change.is_some() { 2 } else { 1 };
    let mut text = vec![b"100000000", b"010000000"][rows - 1].to_vec();
    // No corrections; the mode in which all numbers are in unary.
    text.extend(b"10011000");
    text.extend(change.map_or(Vec::new(), |change| [vec![b'0'; change], vec![b'1']].concat()));
    numbers.iter().for_each(|&number| text.extend([vec![b'0'; number], vec![b'1']].concat()));
    // The other coefficients are zeros; then follow the signs.
    text.extend(vec![b'1'; 16 * rows - numbers.len()]);
    text.extend(vec![b'1'; numbers.len()]);
    let bytes = bytes.unwrap_or(text.len().div_ceil(8));
    text.resize(8 * bytes, b'0');
    let tile =
        text.chunks(8).map(|bits| bits.iter().rev().fold(0, |byte, bit| 2 * byte + (bit - b'0')));
    let numbers = [1.0f64; 2].into_iter().flat_map(f64::to_le_bytes);
    let length = (bytes as u32).to_le_bytes();
    [16, 24, 0, 0, 0, 0, 0, 0]
        .into_iter()
        .chain(numbers)
        .chain([1])
        .chain(length[..3].to_vec())
        .chain(tile)
        .collect()
}

/// The device refuses numbers in unary that are too long, alone or together, and tiles with more
/// bytes than their values have.
#[test]
fn dct_of_strings_that_are_too_long() {
    only_if!(inside(here!()));
    let mut rig =
        Rig::new(settings(Method::Dct, ErrorBound::OfMax(1e-3)), &[([16; 3], Scalar::F64, None)]);
    let (header, ..) = Header::open(&rig.made(Kind::Smooth, 5)).unwrap();
    assert_eq!(header.content, Content::Coded);
    let mut reads = |change, numbers: &[usize], bytes| {
        let payload = dct_payload(change, numbers, bytes);
        let mut stream = [vec![0; 64], payload.clone(), vec![0; 64]].concat();
        let mut header = header;
        header.payload = payload.len();
        let bytes = header.seal(&mut stream);
        rig.survives(&stream[..bytes], true)
    };
    assert!(
        reads(None, &[3], None)
            && reads(None, &[3], Some(1 << 15))
            && !reads(None, &[3], Some(1 + (1 << 15)))
    );
    let longest = (1 << 15) - 1;
    assert!(
        reads(None, &[longest], None)
            && !reads(None, &[longest + 1], None)
            && !reads(None, &[3 + (1 << 16)], None)
    );
    // With the 14 other numbers of one bit each, the limit is just below 2^16 bits in all.
    assert!(
        reads(None, &[longest, longest - 15], None) && !reads(None, &[longest, longest - 14], None)
    );
    assert!(reads(Some(0), &[3], None) && !reads(Some(1 << 16), &[3], None));
}
