//! The bytes of a container. All numbers of the format are little-endian; the payloads of the
//! records have the byte order of the machine that wrote them. `docs/persist-format.md` describes
//! the format for readers of the file; a test keeps its tables equal to this file's constants.
//!
//! A container is: header, payloads without gaps, index, footer. Every byte belongs to exactly one of the
//! four, and each of the four has a checksum (CRC32C), so that no changed byte goes unnoticed. The footer
//! repeats the header's checksum and holds the index's: parts of two containers do not fit together. The
//! index says of each record in which container its payload is: this one, or that of an older generation of
//! the rank, if the record has not changed since.

use super::fingerprint::{Fingerprint, MOST_VALUES};
use super::name::{Name, LONGEST_NAME};
use super::names::LAST_GENERATION;
use crate::error::{fail, Result};
use crate::fallible_vec;
use crate::named::named;

/// The first bytes of a container. The first byte is no text, and the last one is changed by
/// programs that translate ends of lines.
pub const MAGIC: [u8; 8] = *b"\x89gpzgen\n";
/// The last bytes of a container.
pub const END: [u8; 8] = *b"gpzgend\n";
/// The version of this format.
pub const VERSION: u32 = 4;
/// The byte order of payloads: this number in the order of the machine that wrote them.
pub const BYTE_ORDER: u32 = u32::from_le_bytes(0x0102_0304u32.to_ne_bytes());

/// Bytes of the header before the fingerprint.
pub const HEADER: usize = 96;
/// Bytes of a value of the fingerprint: name and number.
pub const VALUE: usize = LONGEST_NAME + 8;
/// Bytes of the header behind the fingerprint: the checksum.
pub const HEADER_END: usize = 8;
/// Bytes of a record in the index.
pub const ENTRY: usize = 72 + LONGEST_NAME;
/// Bytes of the footer.
pub const FOOTER: usize = 56;
/// Most records of a container.
pub const MOST_RECORDS: u64 = 1 << 20;

/// Most bytes of payloads that are in memory at a time: 1 MiB.
pub const PIECE: usize = 1 << 20;

/// Most bytes of a header, of any version.
const LONGEST_HEADER: usize = 1 << 16;

/// Most ranks of a run.
pub const MOST_RANKS: u32 = 1 << 24;

/// What a generation is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// What must be equal in the run that goes on from the generation.
    pub fingerprint: Fingerprint,
    /// Number of the shot that the run goes on with.
    pub shot: i64,
    /// Number of the action in the shot that was the last one before the generation; -1: the
    /// generation is of the start of the shot.
    pub it: i64,
}

/// Whose generation a container is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Number of the generation, from 1 on.
    pub generation: u64,
    /// The rank that wrote the container.
    pub rank: u32,
    /// Number of ranks of the run.
    pub ranks: u32,
    /// When this generation was begun, all ranks had this generation or a newer one; 0: not known.
    pub confirmed: u64,
    /// Seconds from 1970 to the start of the writing, by the machine's clock. Only shown.
    pub time: i64,
    /// The start of the program that wrote it.
    pub start: Start,
}

/// A start of the program, and where it went on; going on from another generation in the same process is one, too.
/// All ranks have the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Start {
    /// A random number, from 1 to 2^63 - 1.
    pub number: u64,
    /// The number of the start from whose generation this one went on; 0: it began anew.
    pub parent: u64,
    /// The number of that generation; 0: it began anew.
    pub from: u64,
}

named! {
    /// What a record holds.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[repr(u32)]
    pub enum Kind {
        /// An array of the application.
        Array = 0 => "array",
        /// A snapshot, as it lies in a tier: raw or a codec's stream.
        Snapshot = 1 => "snapshot",
        /// Anything else that the session keeps.
        Other = 2 => "other",
    }
}

/// What is known of a record before its bytes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHead {
    /// What the record holds.
    pub kind: Kind,
    /// The name of the record. Names need not differ.
    pub name: Name,
    /// Time step of a snapshot; otherwise a number of the writer's own.
    pub ts: i64,
    /// The codec that made the bytes, as in the configuration key `compressor`; 0: none.
    pub codec: u32,
    /// Bytes before the codec; equal to `stored_bytes` without a codec.
    pub raw_bytes: u64,
    /// Bytes of the payload.
    pub stored_bytes: u64,
}

/// A record of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// What was known before the bytes were written.
    pub head: RecordHead,
    /// CRC32C of the payload.
    pub crc: u32,
    /// The generation that was the first one to hold this record with these bytes.
    pub since: u64,
}

/// Where the payload of a record is: in the file of its generation or of an older one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The generation whose file holds the payload.
    pub generation: u64,
    /// Where the payload begins in that file, in bytes.
    pub offset: u64,
    /// The bytes that it takes there.
    pub bytes: u64,
    /// Whether it is packed there without loss (`pack.rs`); if not, it has the bytes of the record.
    pub is_packed: bool,
}

/// The end of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footer {
    /// Bytes of the whole file, footer included.
    pub length: u64,
    /// Where the index begins in the file, in bytes.
    pub index: u64,
    /// Number of records.
    pub records: u64,
    /// The generation, as in the header.
    pub generation: u64,
    /// Checksum of the header, as in the header.
    pub header_crc: u32,
    /// CRC32C of the index.
    pub index_crc: u32,
}

/// Returns the error of a damaged container.
pub(super) fn damaged<T>(what: std::fmt::Arguments<'_>) -> Result<T> {
    fail!(Stream, "is damaged: {what}")
}

/// Reads numbers and names from bytes, one after another. The bytes are as many as are read.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(count);
        self.0 = rest;
        bytes
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N));
        array
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    fn i64(&mut self) -> i64 {
        i64::from_le_bytes(self.array())
    }

    fn name(&mut self) -> Option<Name> {
        Name::read(self.bytes(LONGEST_NAME))
    }
}

impl Header {
    /// Returns the bytes of the header of a container, and its checksum.
    pub(super) fn to_bytes(&self, origin: &Origin) -> Result<(Vec<u8>, u32)> {
        let values = self.fingerprint.values();
        let length = HEADER + values.len() * VALUE + HEADER_END;
        let mut bytes = fallible_vec::with_room(length)?;
        bytes.extend(MAGIC);
        for number in [VERSION, BYTE_ORDER, length as u32, values.len() as u32] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(origin.generation.to_le_bytes());
        bytes.extend(self.shot.to_le_bytes());
        bytes.extend(self.it.to_le_bytes());
        bytes.extend(origin.rank.to_le_bytes());
        bytes.extend(origin.ranks.to_le_bytes());
        bytes.extend(origin.confirmed.to_le_bytes());
        bytes.extend(origin.time.to_le_bytes());
        bytes.extend(origin.start.number.to_le_bytes());
        bytes.extend(origin.start.parent.to_le_bytes());
        bytes.extend(origin.start.from.to_le_bytes());
        for (name, value) in values {
            bytes.extend(name.bytes());
            bytes.extend(value.to_le_bytes());
        }
        bytes.extend([0; 4]);
        let crc = crc32c::crc32c(&bytes);
        bytes.extend(crc.to_le_bytes());
        Ok((bytes, crc))
    }

    /// Returns the bytes of a header, if its fixed part is not of this version or byte order.
    pub(super) fn length_of_other(fixed: &[u8; HEADER]) -> Option<usize> {
        let mut fields = Fields(fixed);
        let is_own = fields.array() == MAGIC;
        let (version, order, length) = (fields.u32(), fields.u32(), fields.u32() as usize);
        let is_other = (version, order) != (VERSION, BYTE_ORDER);
        (is_own && is_other && (HEADER_END + 20..=LONGEST_HEADER).contains(&length))
            .then_some(length)
    }

    /// Fails if a header that is not of this version or byte order is right by its checksum: all versions have it
    /// at the end of the header.
    pub(super) fn check_other(bytes: &[u8]) -> Result<()> {
        let (covered, end) = bytes.split_at(bytes.len() - 4);
        if crc32c::crc32c(covered) != Fields(end).u32() {
            return Ok(());
        }
        let mut fields = Fields(&covered[MAGIC.len()..]);
        match (fields.u32(), fields.u32()) {
            (VERSION, order) => fail!(
                Config,
                "was written by a machine of another byte order, {order:#010x}; this machine's is {BYTE_ORDER:#010x}"
            ),
            (version, _) => fail!(
                Config,
                "has version {version} of the format, and this gpuzip reads version {VERSION}: use the gpuzip that wrote it"
            ),
        }
    }

    /// Checks the fixed part of a header and returns the bytes of the whole header.
    pub(super) fn length(fixed: &[u8; HEADER]) -> Result<usize> {
        let mut fields = Fields(fixed);
        if fields.array() != MAGIC {
            return fail!(Stream, "is no restart file of gpuzip: its first bytes are others");
        }
        let (version, order) = (fields.u32(), fields.u32());
        if version != VERSION {
            return damaged(format_args!("its header says version {version} of the format"));
        }
        if order != BYTE_ORDER {
            return damaged(format_args!("its header says byte order {order:#010x}"));
        }
        let (length, values) = (fields.u32() as usize, fields.u32() as usize);
        if values > MOST_VALUES || length != HEADER + values * VALUE + HEADER_END {
            return damaged(format_args!("its header has {length} bytes for {values} values"));
        }
        Ok(length)
    }

    /// Reads a header of the length that `length` returned; returns its checksum, too.
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<(Header, Origin, u32)> {
        let (covered, end) = bytes.split_at(bytes.len() - 4);
        let crc = Fields(end).u32();
        if crc32c::crc32c(covered) != crc {
            return damaged(format_args!("the checksum of its header is wrong"));
        }
        let mut fields = Fields(&covered[20..]);
        let values = fields.u32();
        let generation = fields.u64();
        let (shot, it) = (fields.i64(), fields.i64());
        let (rank, ranks) = (fields.u32(), fields.u32());
        let (confirmed, time) = (fields.u64(), fields.i64());
        let start = Start { number: fields.u64(), parent: fields.u64(), from: fields.u64() };
        let origin = Origin { generation, rank, ranks, confirmed, time, start };
        check_numbers(&origin, shot, it)?;
        let mut fingerprint = Fingerprint::new();
        for k in 0..values {
            let (name, value) = (fields.name(), fields.u64());
            let Some(name) = name else {
                return damaged(format_args!("value {k} of its fingerprint has no name"));
            };
            fingerprint.add_named(name, value)?;
        }
        Ok((Header { fingerprint, shot, it }, origin, crc))
    }
}

/// Fails if a header whose checksum is right holds a number that no writer writes.
fn check_numbers(origin: &Origin, shot: i64, it: i64) -> Result<()> {
    let Origin { generation, rank, ranks, start, .. } = *origin;
    if !(1..=LAST_GENERATION).contains(&generation) {
        return damaged(format_args!(
            "its header says generation {generation}: generations are numbered from 1 to {LAST_GENERATION}"
        ));
    }
    if ranks > MOST_RANKS || rank >= ranks {
        return damaged(format_args!(
            "its header says rank {rank} of {ranks} ranks: a run has at most {MOST_RANKS} ranks, numbered from 0"
        ));
    }
    if start.number == 0 || (start.parent == 0) != (start.from == 0) || start.from > LAST_GENERATION
    {
        return damaged(format_args!(
            "its header says start {}, which went on from generation {} of start {}: starts and generations are numbered from 1, and both are 0 if it began anew",
            start.number, start.from, start.parent
        ));
    }
    if shot < 0 || it < -1 {
        return damaged(format_args!(
            "its header says shot {shot} and action {it}: both are numbered from 0, and action -1 is the start of the shot"
        ));
    }
    Ok(())
}

impl Record {
    pub(super) fn to_bytes(self, place: Place) -> [u8; ENTRY] {
        let head = &self.head;
        let mut bytes = [0; ENTRY];
        bytes[..4].copy_from_slice(&(head.kind as u32).to_le_bytes());
        bytes[4..8].copy_from_slice(&head.codec.to_le_bytes());
        bytes[8..16].copy_from_slice(&head.ts.to_le_bytes());
        bytes[16..24].copy_from_slice(&place.offset.to_le_bytes());
        bytes[24..32].copy_from_slice(&head.stored_bytes.to_le_bytes());
        bytes[32..40].copy_from_slice(&head.raw_bytes.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.crc.to_le_bytes());
        bytes[44..48].copy_from_slice(&u32::from(place.is_packed).to_le_bytes());
        bytes[48..56].copy_from_slice(&place.generation.to_le_bytes());
        bytes[56..64].copy_from_slice(&self.since.to_le_bytes());
        bytes[64..72].copy_from_slice(&place.bytes.to_le_bytes());
        bytes[72..].copy_from_slice(head.name.bytes());
        bytes
    }

    /// Reads record `k` of the index of generation `of`, and the place of its payload.
    pub(super) fn from_bytes(bytes: &[u8; ENTRY], k: u64, of: u64) -> Result<(Record, Place)> {
        let mut fields = Fields(bytes);
        let (kind, codec, ts) = (fields.u32(), fields.u32(), fields.i64());
        let kind = Kind::ALL.into_iter().find(|known| *known as u32 == kind);
        let (begin, stored_bytes, raw_bytes) = (fields.u64(), fields.u64(), fields.u64());
        let (crc, packing) = (fields.u32(), fields.u32());
        let (generation, since, bytes) = (fields.u64(), fields.u64(), fields.u64());
        let name = fields.name();
        let is_sized = codec != 0 || raw_bytes == stored_bytes;
        let is_numbered = 0 < since && since <= generation && generation <= of;
        let is_placed = begin.checked_add(bytes).is_some();
        let is_packed = packing == 1 && codec == 0;
        let is_whole = packing == 0 && bytes == stored_bytes;
        let is_record = is_sized && is_numbered && is_placed && (is_packed || is_whole);
        match (kind, name, is_record) {
            (Some(kind), Some(name), true) => {
                let head = RecordHead { kind, name, ts, codec, raw_bytes, stored_bytes };
                Ok((Record { head, crc, since }, Place { generation, offset: begin, bytes, is_packed }))
            }
            _ => damaged(format_args!(
                "entry {k} of its index, with offset {begin} in generation {generation}, since {since}, {stored_bytes} bytes ({raw_bytes} bytes before codec {codec}, {bytes} in packing {packing}), is no record"
            )),
        }
    }
}

impl Footer {
    pub(super) fn to_bytes(self) -> [u8; FOOTER] {
        let mut bytes = [0; FOOTER];
        bytes[..8].copy_from_slice(&self.length.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.index.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.records.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.generation.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.header_crc.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.index_crc.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..44]);
        bytes[44..48].copy_from_slice(&crc.to_le_bytes());
        bytes[48..].copy_from_slice(&END);
        bytes
    }

    /// Reads the footer of a file of `length` bytes whose header has `header` bytes and the given
    /// checksum. What it says is checked against the length of the file, so that no number in the
    /// file leads to more memory or reading than the file is long.
    pub(super) fn from_bytes(
        bytes: &[u8; FOOTER],
        length: u64,
        header: u64,
        header_crc: u32,
    ) -> Result<Footer> {
        let mut fields = Fields(bytes);
        let footer = Footer {
            length: fields.u64(),
            index: fields.u64(),
            records: fields.u64(),
            generation: fields.u64(),
            header_crc: fields.u32(),
            index_crc: fields.u32(),
        };
        let (zero, crc) = (fields.u32(), fields.u32());
        if fields.array() != END || crc32c::crc32c(&bytes[..44]) != crc || zero != 0 {
            return damaged(format_args!(
                "it has {length} bytes, and its end is missing or changed"
            ));
        }
        if footer.length != length {
            return damaged(format_args!(
                "it has {length} bytes, and had {} when it was written",
                footer.length
            ));
        }
        if footer.header_crc != header_crc {
            return damaged(format_args!("its start and its end are of different generations"));
        }
        let end = length - FOOTER as u64;
        let fits = footer.records <= MOST_RECORDS
            && footer.index >= header
            && footer.index.checked_add(footer.records * ENTRY as u64) == Some(end);
        match fits {
            true => Ok(footer),
            false => damaged(format_args!("its index does not fit its length")),
        }
    }
}
