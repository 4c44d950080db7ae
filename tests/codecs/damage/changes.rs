//! What is changed in a stream.

use super::*;

/// Returns the offset of every array in the stream, with the size of its payload, both in bytes.
pub(in super::super) fn pieces(stream: &[u8]) -> Vec<(usize, usize)> {
    let (mut at, mut found) = (0, Vec::new());
    while at + 64 <= stream.len() {
        let payload = u64::from_le_bytes(stream[at + 48..at + 56].try_into().unwrap()) as usize;
        if payload > stream.len() - at - 64 {
            break;
        }
        found.push((at, payload));
        at += (64 + payload).next_multiple_of(64);
    }
    found
}

/// Replaces the payload of the array at offset `at`, which has `old` bytes.
pub(super) fn replace(stream: &mut Vec<u8>, (at, old): (usize, usize), payload: &[u8]) {
    let mut padded = payload.to_vec();
    padded.resize(payload.len().next_multiple_of(64), 0);
    stream.splice(at + 64..at + (64 + old).next_multiple_of(64), padded);
    stream[at + 48..at + 56].copy_from_slice(&(payload.len() as u64).to_le_bytes());
}

/// Damages a stream once: a payload, a field of a header, or whole arrays. `other` is the stream of
/// another case.
pub(super) fn damage(stream: &mut Vec<u8>, other: &[u8], draw: &mut Draw) {
    let found = pieces(stream);
    if found.is_empty() {
        return;
    }
    let (at, len) = draw.of(&found);
    match draw.below(11) {
        kind @ 0..=7 => damage_payload(kind, stream, (at, len), other, draw),
        8 | 9 => {
            // A field of the header: codec, content, type, zero, number, reference, parameter,
            // extents, bound, size of the payload.
            const FIELDS: [(usize, usize); 12] = [
                (0, 4),
                (4, 1),
                (5, 1),
                (6, 1),
                (7, 1),
                (8, 2),
                (10, 2),
                (12, 4),
                (16, 8),
                (24, 8),
                (32, 8),
                (40, 8),
            ];
            let (field, width) = if draw.below(5) == 0 { (48, 8) } else { draw.of(&FIELDS) };
            let value = if draw.below(2) == 0 { draw.below(9) as u64 } else { draw.extreme() };
            stream[at + field..at + field + width].copy_from_slice(&value.to_le_bytes()[..width]);
        }
        _ => {
            // A whole array: dropped, appended a second time, or repeated at the front.
            let end = at + (64 + len).next_multiple_of(64);
            let piece = stream[at..end.min(stream.len())].to_vec();
            match draw.below(3) {
                0 => drop(stream.drain(at..end.min(stream.len()))),
                1 => stream.extend(piece),
                _ => drop(stream.splice(0..0, piece)),
            }
        }
    }
}

/// Damages the payload of the array at offset `at`, which has `len` bytes, in one of 8 kinds of ways.
pub(in super::super) fn damage_payload(
    kind: usize,
    stream: &mut Vec<u8>,
    (at, len): (usize, usize),
    other: &[u8],
    draw: &mut Draw,
) {
    let payload = at + 64..at + 64 + len;
    // Lengths and tables stand in the first bytes of a payload: half of the damage goes there.
    let place = |draw: &mut Draw| {
        if draw.below(2) == 0 {
            draw.below(len.min(64))
        } else {
            draw.below(len)
        }
    };
    match kind {
        0 | 1 if len > 0 => {
            (0..1 + draw.below(8)).for_each(|_| stream[at + 64 + place(draw)] ^= 1 << draw.below(8))
        }
        2 if len > 0 => stream[at + 64 + place(draw)] = draw.of(&[0, 1, 0x7F, 0x80, 0xFF]),
        3 if len > 0 => {
            let begin = place(draw);
            let end = len.min(begin + 1 + draw.below(300));
            let byte = draw.of(&[0, 0xFF, 0x55]);
            stream[payload][begin..end].fill(byte);
        }
        4 if len > 0 => {
            let (width, word) = (draw.of(&[1, 2, 4, 8]), draw.extreme().to_le_bytes());
            let begin = place(draw) / width * width;
            let end = len.min(begin + width);
            stream[payload][begin..end].copy_from_slice(&word[..end - begin]);
        }
        5 => {
            let mut bytes = stream[payload].to_vec();
            match draw.below(3) {
                0 => bytes.truncate(draw.below(len + 1)),
                1 => bytes.resize(len + 1 + draw.below(200), draw.of(&[0, 0xFF, 0x33])),
                _ => drop(bytes.drain(..draw.below(len + 1))),
            }
            replace(stream, (at, len), &bytes);
        }
        6 if len > 0 => {
            let (from, to) = (draw.below(len), draw.below(len));
            let count = draw.below(300).min(len - from.max(to));
            stream[payload].copy_within(from..from + count, to);
        }
        7 => {
            // All or the beginning of a payload of the other stream.
            let theirs = pieces(other);
            if !theirs.is_empty() {
                let (there, bytes) = draw.of(&theirs);
                let mut taken = other[there + 64..there + 64 + bytes].to_vec();
                if draw.below(2) == 0 {
                    let cut = draw.below(bytes.min(len) + 1);
                    taken.truncate(cut);
                    taken.extend(&stream[payload][cut.min(len)..]);
                }
                replace(stream, (at, len), &taken);
            }
        }
        _ => {}
    }
}

/// Corrects the checksums of all arrays that can be found by the sizes in the headers.
pub(in super::super) fn reseal_all(stream: &mut [u8]) {
    for (at, _) in pieces(stream) {
        reseal(&mut stream[at..]);
    }
}
