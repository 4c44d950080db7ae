//! The stream of one array: a header of 64 bytes and a payload. A compressed snapshot is the
//! sequence of the streams of its fields.
//!
//! | bytes | header, little-endian |
//! |---|---|
//! | 0..3 | `gpz` |
//! | 3 | version of this format: `2` (version 1 had another checksum) |
//! | 4 | the codec, as in the configuration key `compressor` |
//! | 5 | payload: 0 raw values, 1 coded values, 2 one value that all values of the array equal, 3 the mask of the array, whose values are the next stream |
//! | 6 | type, as GPUZIP_TYPE_*; types other than FP32 (0) and FP64 (1) are stored raw |
//! | 7 | 0 |
//! | 8..10 | number of the field in the snapshot |
//! | 10..12 | 0, or j + 1: the array is the earlier field j of the snapshot minus this field |
//! | 12..16 | parameter of the codec (zfp: bits per value) |
//! | 16..40 | extents n1, n2, n3 |
//! | 40..48 | the absolute error bound that holds; 0: no bound was asked for |
//! | 48..56 | bytes of the payload |
//! | 56..64 | checksum of the 56 bytes before it and of the payload |
//!
//! The next stream begins at the next multiple of 64 bytes; the bytes between the streams are zero.

use super::checksum::checksum;
use super::coder::Shape;
use crate::error::{fail, Result};
use crate::layout::Field;
use crate::scalar::Scalar;

/// Bytes of a header; streams begin at multiples of this number of bytes.
pub const HEADER: usize = 64;

const MAGIC: [u8; 4] = *b"gpz2";

/// What the payload of a stream contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Content {
    /// The values, raw.
    Raw = 0,
    /// The values, coded by the codec.
    Coded = 1,
    /// One FP64 value that all values of the array equal.
    Constant = 2,
    /// Which values of the array in the next stream are masked, and their bits (`fill_value`).
    Mask = 3,
}

/// The header of a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Header {
    /// The codec, as in the configuration key `compressor`.
    pub codec: u8,
    /// What the payload contains.
    pub content: Content,
    /// Number of the field in the snapshot.
    pub field: u16,
    /// Number of another field j: the coded array is field j minus this field.
    pub reference: Option<u16>,
    /// Parameter of the codec.
    pub parameter: u32,
    /// Shape and type of the array.
    pub shape: Shape,
    /// The absolute error bound that holds; 0: no bound was asked for.
    pub bound: f64,
    /// Bytes of the payload.
    pub payload: usize,
}

/// Returns the bytes of a stream with a payload of `payload` bytes: header, payload and padding.
pub fn padded(payload: usize) -> usize {
    HEADER.saturating_add(payload).checked_next_multiple_of(HEADER).unwrap_or(usize::MAX)
}

impl Header {
    /// Completes the stream whose payload is at `to[HEADER..]`: writes header, checksum and
    /// padding. Returns the bytes of the stream, padding included.
    pub fn seal(&self, to: &mut [u8]) -> usize {
        let end = padded(self.payload);
        to[HEADER + self.payload..end].fill(0);
        to[..4].copy_from_slice(&MAGIC);
        to[4..8].copy_from_slice(&[self.codec, self.content as u8, self.shape.scalar as u8, 0]);
        to[8..10].copy_from_slice(&self.field.to_le_bytes());
        to[10..12].copy_from_slice(&self.reference.map_or(0, |k| k + 1).to_le_bytes());
        to[12..16].copy_from_slice(&self.parameter.to_le_bytes());
        for (k, n) in self.shape.n.into_iter().enumerate() {
            to[16 + 8 * k..24 + 8 * k].copy_from_slice(&(n as u64).to_le_bytes());
        }
        to[40..48].copy_from_slice(&self.bound.to_le_bytes());
        to[48..56].copy_from_slice(&(self.payload as u64).to_le_bytes());
        let sum = sum_of(to, self.payload);
        to[56..64].copy_from_slice(&sum.to_le_bytes());
        end
    }

    /// Reads the stream at the beginning of `from`. Returns its header, its payload, and the bytes
    /// of the stream with padding. Fails if the stream is cut off, damaged or inconsistent; only
    /// the codec can check the content of a coded payload.
    pub fn open(from: &[u8]) -> Result<(Header, &[u8], usize)> {
        let word = |k: usize| u64::from_le_bytes(from[k..k + 8].try_into().unwrap_or_default());
        check_magic(from)?;
        let payload =
            usize::try_from(word(48)).ok().filter(|&payload| padded(payload) <= from.len());
        let Some(payload) = payload else {
            return fail!(
                Stream,
                "a stream of {} bytes, and its header announces a payload of {}: it is cut off",
                from.len(),
                word(48)
            );
        };
        if sum_of(from, payload) != word(56) {
            return fail!(
                Stream,
                "the checksum of a stream of {} bytes does not match: it is damaged",
                HEADER + payload
            );
        }
        let header = Self::parse(from)?;
        Ok((header, &from[HEADER..HEADER + payload], padded(payload)))
    }

    /// Reads the header at the beginning of `from`, without the payload. Returns it with the bytes of the
    /// stream, padding included.
    pub fn peek(from: &[u8]) -> Result<(Header, usize)> {
        check_magic(from)?;
        let header = Self::parse(from)?;
        Ok((header, padded(header.payload)))
    }

    /// Reads the header of a stream, whose magic has been checked.
    fn parse(from: &[u8]) -> Result<Header> {
        let word = |k: usize| u64::from_le_bytes(from[k..k + 8].try_into().unwrap_or_default());
        let half = |k: usize| u16::from_le_bytes([from[k], from[k + 1]]);
        let contents = [Content::Raw, Content::Coded, Content::Constant, Content::Mask];
        let Some(&content) = contents.get(from[5] as usize) else {
            return fail!(Stream, "content {} of a stream: not of this version", from[5]);
        };
        let Some(scalar) = Scalar::of_number(from[6].into()) else {
            return fail!(Stream, "type {} of a stream: not of this version", from[6]);
        };
        if content != Content::Raw && !scalar.is_coded() {
            let (content, name) = (from[5], scalar.name());
            return fail!(
                Stream,
                "content {content} of a stream of {name}: such values are stored as they are"
            );
        }
        let n = [word(16), word(24), word(32)];
        if n.contains(&0) || (Field { n, scalar, previous_of: None }).bytes().is_none() {
            return fail!(Stream, "extents {n:?} of a stream do not fit the address space");
        }
        let shape = Shape { n: n.map(|n| n as usize), scalar };
        let payload = word(48) as usize;
        let expected = match content {
            Content::Raw => shape.bytes(),
            Content::Coded | Content::Mask => payload,
            Content::Constant => 8,
        };
        if payload != expected {
            return fail!(Stream, "a payload of {payload} bytes where {expected} are needed");
        }
        let parameter = u32::from_le_bytes([from[12], from[13], from[14], from[15]]);
        let (codec, bound) = (from[4], f64::from_bits(word(40)));
        let (field, reference) = (half(8), half(10).checked_sub(1));
        Ok(Header { codec, content, field, reference, parameter, shape, bound, payload })
    }
}

/// Copies the mask at the beginning of `from`, if there is one, to `to`. Returns the bytes of its stream.
pub fn copy_mask(from: &[u8], to: &mut [u8]) -> Result<usize> {
    match Header::open(from)? {
        (Header { content: Content::Mask, .. }, _, bytes) => {
            to[..bytes].copy_from_slice(&from[..bytes]);
            Ok(bytes)
        }
        _ => Ok(0),
    }
}

fn check_magic(from: &[u8]) -> Result<()> {
    if from.len() < HEADER || from[..3] != MAGIC[..3] {
        return fail!(Stream, "these {} bytes do not begin a gpuzip stream", from.len());
    }
    if from[3] != MAGIC[3] {
        let [theirs, ours] = [from[3], MAGIC[3]].map(|version| (version as char).escape_default());
        return fail!(Stream, "a gpuzip stream of version {theirs}: this library reads version {ours}; compress again with this library");
    }
    Ok(())
}

/// Computes the checksum of a stream. The header before the checksum is words 0 to 6, the checksum
/// itself would be word 7, and the payload begins at word 8.
fn sum_of(stream: &[u8], payload: usize) -> u64 {
    checksum(&stream[..56], 0).wrapping_add(checksum(&stream[HEADER..HEADER + payload], 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_opens_and_any_changed_bit_is_noticed() {
        let shape = Shape { n: [3, 5, 1], scalar: Scalar::F32 };
        let header = Header {
            codec: 5,
            content: Content::Coded,
            field: 1,
            reference: Some(0),
            parameter: 7,
            shape,
            bound: 1e-3,
            payload: 77,
        };
        let mut stream = vec![0xAB; 1000];
        let end = header.seal(&mut stream);
        assert_eq!(end, 192);
        let (read, payload, bytes) = Header::open(&stream).unwrap();
        assert_eq!((read, payload, bytes), (header, &[0xAB; 77][..], 192));
        for bit in 0..(HEADER + 77) * 8 {
            stream[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::open(&stream).is_err(), "bit {bit}");
            stream[bit / 8] ^= 1 << (bit % 8);
        }
        for cut in 0..end {
            assert!(Header::open(&stream[..cut]).is_err(), "cut at {cut}");
        }
    }
}
