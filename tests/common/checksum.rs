//! The checksum of a stream, computed one word at a time, which src/codec/checksum.rs describes; and a
//! hash.

/// Returns the part of the checksum that `bytes` contribute. Their first word has the index `first`
/// in the stream.
pub fn checksum(bytes: &[u8], first: u64) -> u64 {
    let mix = |i: u64| {
        let x = i.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ x >> 31
    };
    let term = |(k, piece): (usize, &[u8])| {
        let (mut word, index) = ([0; 8], first + k as u64);
        word[..piece.len()].copy_from_slice(piece);
        let x = u64::from_le_bytes(word) ^ mix(index % 256);
        (mix(!(index / 256)) | 1)
            .wrapping_mul(x.wrapping_add(u64::from(x as u32).wrapping_mul(x >> 32)))
    };
    bytes.chunks(8).enumerate().map(term).fold(0, u64::wrapping_add)
}

/// Corrects the checksum of the array whose stream begins at `stream[0]`. Returns false if the
/// payload of the array does not end within `stream`.
pub fn reseal(stream: &mut [u8]) -> bool {
    if stream.len() < 64 {
        return false;
    }
    let bytes = u64::from_le_bytes(stream[48..56].try_into().unwrap()) as usize;
    let Some(payload) = stream.get(64..).and_then(|rest| rest.get(..bytes)) else { return false };
    let sum = checksum(&stream[..56], 0).wrapping_add(checksum(payload, 8));
    stream[56..64].copy_from_slice(&sum.to_le_bytes());
    true
}

/// Returns the FNV-1a hash of bytes.
pub fn fnv<'a>(bytes: impl IntoIterator<Item = &'a u8>) -> u64 {
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}
