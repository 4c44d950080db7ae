//! Payloads that are packed without loss, as those of copies on the shared level may be.
//!
//! A packed payload is a sequence of streams of the codec `lossless` (codec/stream.rs), each of a *slab*: at most
//! `PIECE` bytes of the record, with their type and extents. What the codec does not code, such as integers and the
//! bytes between fields, is in streams as it is.

use super::format::{damaged, PIECE};
use super::shapes::FieldAt;
use crate::codec::{Content, Header, Method, Settings, SnapshotCodec, HEADER};
use crate::device::AppMemory;
use crate::error::{fail, Result};
use crate::fallible_vec;
use crate::layout::{Field, Layout};
use crate::scalar::Scalar;

/// Returns the slabs of a record of `bytes` bytes with these fields, one after the other: as many whole planes of a
/// field as `PIECE` bytes hold, or whole lines of a plane, or values of a line.
pub(super) fn slabs(fields: &[FieldAt], bytes: u64) -> impl Iterator<Item = Field> + '_ {
    let ends = std::iter::once(0).chain(fields.iter().map(end));
    let begins = fields.iter().map(|at| at.offset).chain([bytes]);
    let between = ends.zip(begins).map(|(end, begin)| begin.saturating_sub(end));
    let fields = fields.iter().map(|at| Some(at.field)).chain([None]);
    between.zip(fields).flat_map(|(between, field)| {
        let n = [between, 1, 1];
        let gap = Field { n, scalar: Scalar::Byte, previous_of: None };
        let gap = (between > 0).then_some(gap);
        gap.into_iter().chain(field).flat_map(slabs_of)
    })
}

fn end(at: &FieldAt) -> u64 {
    at.offset.saturating_add(at.field.bytes().unwrap_or(0))
}

fn slabs_of(field: Field) -> impl Iterator<Item = Field> {
    let Field { n, scalar, .. } = field;
    let unit = |dims: usize| n[..dims].iter().product::<u64>() * scalar.bytes();
    let dims = (0..3).rev().find(|dims| unit(*dims) <= PIECE as u64).unwrap_or(0);
    let most = PIECE as u64 / unit(dims);
    let outer = n[dims + 1..].iter().product::<u64>();
    (0..outer).flat_map(move |_| {
        (0..n[dims]).step_by(most as usize).map(move |begin| {
            let mut slab = [1; 3];
            slab[..dims].copy_from_slice(&n[..dims]);
            slab[dims] = most.min(n[dims] - begin);
            Field { n: slab, scalar, previous_of: None }
        })
    })
}

/// Codes and decodes slabs.
pub(super) struct Packer {
    /// The slab that was coded or decoded last, and its codec.
    codec: Option<(Field, SnapshotCodec)>,
    /// The bytes of the slab, aligned for any type, and how many there are so far.
    values: Vec<u64>,
    filled: usize,
    packed: Vec<u8>,
}

impl Packer {
    pub fn new() -> Result<Self> {
        let values = fallible_vec::filled(0, PIECE / 8)?;
        Ok(Packer { codec: None, values, filled: 0, packed: Vec::new() })
    }

    /// The bytes of the slab.
    pub fn values(&mut self) -> &mut [u8] {
        // SAFETY: `values` has `PIECE` bytes, which may have any value, and is borrowed.
        unsafe { std::slice::from_raw_parts_mut(self.values.as_mut_ptr().cast(), PIECE) }
    }

    /// Takes the next bytes of a slab, at most as many as `bytes` has; returns how many, and whether the slab is
    /// complete.
    pub fn fill(&mut self, slab: &Field, bytes: &[u8]) -> (usize, bool) {
        let (begin, most) = (self.filled, slab.bytes().unwrap_or(0) as usize);
        let count = bytes.len().min(most - begin);
        self.values()[begin..begin + count].copy_from_slice(&bytes[..count]);
        self.filled = (begin + count) % most;
        (count, self.filled == 0)
    }

    /// Codes a slab that is complete. Returns its stream.
    pub fn pack(&mut self, slab: Field) -> Result<&[u8]> {
        let memory = self.memory(slab);
        let codec = self.codec(slab)?;
        let most = codec.capacity();
        let missing = most.saturating_sub(self.packed.len());
        fallible_vec::more(&mut self.packed, missing)?;
        self.packed.resize(most.max(self.packed.len()), 0);
        let Some((_, codec)) = &mut self.codec else { return Ok(&[]) };
        // SAFETY: the memory of the slab, which nothing else uses now.
        let bytes = unsafe { codec.compress(&[memory], &mut self.packed) }?;
        Ok(&self.packed[..bytes])
    }

    /// Reads the header of the stream of a slab of at most `most` bytes. Returns the slab and the bytes of the stream.
    pub fn peek(header: &[u8; HEADER], most: u64) -> Result<(Field, usize)> {
        let (header, bytes) = Header::peek(header)?;
        let n = header.shape.n.map(|n| n as u64);
        let slab = Field { n, scalar: header.shape.scalar, previous_of: None };
        let is_slab = slab.bytes().is_some_and(|bytes| bytes <= most.min(PIECE as u64))
            && header.content != Content::Mask
            && header.payload <= header.shape.bytes().max(size_of::<f64>());
        match is_slab {
            true => Ok((slab, bytes)),
            false => damaged(format_args!("a packed record holds a stream that is no slab")),
        }
    }

    /// Decodes the stream of a slab, and returns its bytes.
    pub fn unpack(&mut self, slab: Field, stream: &[u8]) -> Result<&[u8]> {
        let end = HEADER + Header::peek(stream)?.0.payload;
        // No checksum covers the bytes between streams.
        if stream[end..].iter().any(|byte| *byte != 0) {
            return fail!(Stream, "bytes between two streams are not 0");
        }
        let memory = self.memory(slab);
        let codec = self.codec(slab)?;
        // SAFETY: the memory of the slab, which nothing else uses now.
        unsafe { codec.decompress(stream, &[memory]) }?;
        Ok(&self.values()[..slab.bytes().unwrap_or(0) as usize])
    }

    fn memory(&mut self, slab: Field) -> AppMemory {
        let bytes = (slab.bytes().unwrap_or(0) as usize).min(PIECE);
        // SAFETY: the caller uses the memory while `self` is borrowed, and it has at least so many bytes.
        unsafe { AppMemory::new(self.values().as_mut_ptr(), bytes) }
    }

    fn codec(&mut self, slab: Field) -> Result<&mut SnapshotCodec> {
        let known = self.codec.take().filter(|(known, _)| *known == slab);
        let codec = match known {
            Some((_, codec)) => codec,
            None => {
                let settings = Settings { method: Method::Lossless, ..Settings::default() };
                SnapshotCodec::new(settings, &Layout::new(vec![slab])?)?
            }
        };
        Ok(&mut self.codec.insert((slab, codec)).1)
    }
}
