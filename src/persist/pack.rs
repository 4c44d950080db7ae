//! Payloads that are packed without loss, as those of copies on the shared level may be.
//!
//! A packed payload is a sequence of streams of the codec `lossless` (codec/stream.rs), each of a *slab*: at most
//! `PIECE` bytes of the record, with their type and extents. What is not shorter when it is coded, such as noise and the
//! bytes between fields, is in streams of up to `PIECE` bytes as it is. A record that is shorter than that and has
//! nothing else is not packed; others take at most 256 bytes more for each begun `PIECE`.

use super::format::PIECE;
use super::shapes::FieldAt;
use crate::codec::{Content, Header, Method, Settings, Shape, SnapshotCodec, HEADER};
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
        gap.into_iter().chain(field.map(words)).flat_map(slabs_of)
    })
}

/// Returns the bytes of `field` as a field of a type that the codec codes, which keeps every bit, whatever it means:
/// both parts of a complex number are values, and four bytes of integers are one. A field whose lines are no such
/// values stays as it is.
fn words(field: Field) -> Field {
    let scalar = match field.scalar {
        Scalar::F64 | Scalar::ComplexF64 => Scalar::F64,
        _ => Scalar::F32,
    };
    let mut n = field.n;
    match n[0].checked_mul(field.scalar.bytes()) {
        Some(line) if line % scalar.bytes() == 0 => n[0] = line / scalar.bytes(),
        _ => return field,
    }
    Field { n, scalar, previous_of: None }
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
    /// Room for a header, and the bytes since the last stream that are not coded.
    uncoded: Vec<u8>,
}

impl Packer {
    pub fn new() -> Result<Self> {
        let values = fallible_vec::filled(0, PIECE / 8)?;
        let (packed, uncoded) = (Vec::new(), Vec::new());
        Ok(Packer { codec: None, values, filled: 0, packed, uncoded })
    }

    /// The bytes of the slab.
    fn values(&mut self) -> &mut [u8] {
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

    /// Adds a slab that is complete. Gives the streams that are complete then to `put`.
    pub fn add(&mut self, slab: Field, put: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let bytes = slab.bytes().unwrap_or(0) as usize;
        // A stream pays for a header of its own and one of the bytes before it.
        let most = bytes.saturating_sub(2 * HEADER);
        if slab.scalar.is_coded() && most > HEADER {
            let coded = self.code(slab)?;
            if coded <= most {
                self.flush(put)?;
                return put(&self.packed[..coded]);
            }
        }
        if self.uncoded.len() + bytes > HEADER + PIECE {
            self.flush(put)?;
        }
        if self.uncoded.is_empty() {
            fallible_vec::up_to(&mut self.uncoded, PIECE + 2 * HEADER)?;
            self.uncoded.resize(HEADER, 0);
        }
        let (begin, end) = (self.uncoded.len(), self.uncoded.len() + bytes);
        self.uncoded.resize(end, 0);
        let mut uncoded = std::mem::take(&mut self.uncoded);
        uncoded[begin..].copy_from_slice(&self.values()[..bytes]);
        self.uncoded = uncoded;
        Ok(())
    }

    /// Gives the bytes that are not coded to `put`, as a stream.
    pub fn flush(&mut self, put: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let payload = self.uncoded.len().saturating_sub(HEADER);
        if payload == 0 {
            return Ok(());
        }
        let shape = Shape { n: [payload, 1, 1], scalar: Scalar::Byte };
        let (codec, content) = (Method::Lossless.number(), Content::Raw);
        let (field, reference, parameter, bound) = (0, None, 0, 0.0);
        let header = Header { codec, content, field, reference, parameter, shape, bound, payload };
        self.uncoded.resize((HEADER + payload).next_multiple_of(HEADER), 0);
        let bytes = header.seal(&mut self.uncoded);
        put(&self.uncoded[..bytes])?;
        self.uncoded.truncate(HEADER);
        Ok(())
    }

    /// Takes the bytes that are not coded: those of a record of which no stream is complete.
    pub fn take_uncoded(&mut self, put: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        put(self.uncoded.get(HEADER..).unwrap_or_default())?;
        self.uncoded.truncate(HEADER);
        Ok(())
    }

    /// Codes a slab. Returns the bytes of its stream.
    fn code(&mut self, slab: Field) -> Result<usize> {
        let memory = self.memory(slab);
        let codec = self.codec(slab)?;
        let most = codec.capacity();
        let missing = most.saturating_sub(self.packed.len());
        fallible_vec::more(&mut self.packed, missing)?;
        self.packed.resize(most.max(self.packed.len()), 0);
        let Some((_, codec)) = &mut self.codec else { return Ok(usize::MAX) };
        // SAFETY: the memory of the slab, which nothing else uses now.
        unsafe { codec.compress(&[memory], &mut self.packed) }
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
            false => fail!(Stream, "it holds a stream that is no slab"),
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
