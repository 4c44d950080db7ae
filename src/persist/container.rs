//! A container: written from begin to end, and read with every byte checked. Bytes go through
//! pieces of at most `PIECE` bytes, however long a record is.

use super::format::{
    damaged, Footer, Header, Origin, Record, RecordHead, ENTRY, FOOTER, HEADER, HEADER_END,
    MOST_RECORDS,
};
use crate::error::{fail, Result};
use crate::fallible_vec;
use crate::files::quietly;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

/// Most bytes that are in memory at a time: 1 MiB.
pub const PIECE: usize = 1 << 20;

/// Where the bytes of a container come from: a file, or memory.
pub trait Source {
    /// Returns the number of bytes.
    fn length(&self) -> io::Result<u64>;
    /// Fills `to` with the bytes from `offset` on; fails if there are fewer.
    fn read_at(&self, offset: u64, to: &mut [u8]) -> io::Result<()>;
}

impl Source for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, offset: u64, to: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(to, offset)
    }
}

impl Source for &[u8] {
    fn length(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_at(&self, offset: u64, to: &mut [u8]) -> io::Result<()> {
        let from = usize::try_from(offset).ok().and_then(|offset| self.get(offset..));
        let from = from.and_then(|from| from.get(..to.len()));
        to.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// Writes a container to `to`, which is empty.
pub(super) struct ContainerWriter<W> {
    pub to: W,
    /// Bytes that are not written yet, at most `PIECE`.
    buffer: Vec<u8>,
    /// Bytes of the container so far, those in `buffer` included.
    length: u64,
    records: Vec<Record>,
    /// Bytes that the last record still lacks.
    missing: u64,
    generation: u64,
    header_crc: u32,
    /// Whether an earlier write failed: the container cannot be completed.
    failed: bool,
}

impl<W: Write> ContainerWriter<W> {
    pub fn new(to: W, header: &Header, origin: &Origin) -> Result<Self> {
        let (bytes, header_crc) = header.to_bytes(origin)?;
        let mut writer = ContainerWriter {
            to,
            buffer: fallible_vec::with_room(PIECE)?,
            length: 0,
            records: Vec::new(),
            missing: 0,
            generation: origin.generation,
            header_crc,
            failed: false,
        };
        writer.put(&bytes)?;
        Ok(writer)
    }

    /// Begins the next record.
    pub fn record(&mut self, head: RecordHead) -> Result<()> {
        self.check_complete()?;
        if self.records.len() as u64 == MOST_RECORDS {
            return fail!(Argument, "a generation has at most {MOST_RECORDS} records");
        }
        fallible_vec::push(&mut self.records, Record { head, offset: self.length, crc: 0 })?;
        self.missing = head.stored_bytes;
        Ok(())
    }

    /// Writes the next bytes of the record.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let (count, missing) = (bytes.len() as u64, self.missing);
        if count > missing {
            return fail!(Argument, "{count} bytes for a record that lacks {missing} bytes");
        }
        self.put(bytes)?;
        self.missing = missing - count;
        if let Some(record) = self.records.last_mut() {
            record.crc = crc32c::crc32c_append(record.crc, bytes);
        }
        Ok(())
    }

    /// Writes index and footer, and returns the footer.
    pub fn finish(&mut self) -> Result<Footer> {
        self.check_complete()?;
        let index = self.length;
        let mut index_crc = 0;
        for k in 0..self.records.len() {
            let entry = self.records[k].to_bytes();
            index_crc = crc32c::crc32c_append(index_crc, &entry);
            self.put(&entry)?;
        }
        let footer = Footer {
            length: self.length + FOOTER as u64,
            index,
            records: self.records.len() as u64,
            generation: self.generation,
            header_crc: self.header_crc,
            index_crc,
        };
        self.put(&footer.to_bytes())?;
        self.flush()?;
        Ok(footer)
    }

    fn check_complete(&self) -> Result<()> {
        match self.records.last() {
            Some(Record { head, .. }) if self.missing > 0 => fail!(
                State,
                "{} of the {} bytes of the record {} are missing: write them first",
                self.missing,
                head.stored_bytes,
                head.name
            ),
            _ => Ok(()),
        }
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        if self.failed {
            return fail!(Io, "an earlier write to it failed");
        }
        if self.buffer.len() + bytes.len() > PIECE {
            self.flush()?;
        }
        if bytes.len() >= PIECE {
            self.write_out(bytes)?;
        } else {
            // The buffer has room for `PIECE` bytes, so that nothing is allocated.
            self.buffer.extend_from_slice(bytes);
        }
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        let buffer = std::mem::take(&mut self.buffer);
        let written = self.write_out(&buffer);
        self.buffer = buffer;
        self.buffer.clear();
        written
    }

    fn write_out(&mut self, bytes: &[u8]) -> Result<()> {
        let written = quietly(|| self.to.write_all(bytes));
        self.failed = written.is_err();
        Ok(written?)
    }
}

/// A container that is open for reading.
pub struct Container<S> {
    source: S,
    /// What the generation is of.
    pub header: Header,
    /// Whose generation it is.
    pub origin: Origin,
    /// Bytes of the file.
    pub length: u64,
    /// The records in the order in which they were written.
    pub records: Vec<Record>,
}

/// A container that is open for reading.
pub type Reader = Container<File>;

impl<S: Source> Container<S> {
    /// Opens a container and checks all of it but the payloads of its records.
    pub fn open(source: S) -> Result<Self> {
        let length = source.length()?;
        let least = (HEADER + HEADER_END + FOOTER) as u64;
        if length < least {
            return damaged(format_args!("it has {length} bytes, and the shortest has {least}"));
        }
        let mut fixed = [0; HEADER];
        source.read_at(0, &mut fixed)?;
        let header_bytes = Header::length(&fixed)?;
        if length < (header_bytes + FOOTER) as u64 {
            return damaged(format_args!(
                "it has {length} bytes, and header and footer have {}",
                header_bytes + FOOTER
            ));
        }
        let mut bytes = fallible_vec::filled(0, header_bytes)?;
        source.read_at(0, &mut bytes)?;
        let (header, origin, header_crc) = Header::from_bytes(&bytes)?;
        let mut end = [0; FOOTER];
        source.read_at(length - FOOTER as u64, &mut end)?;
        let footer = Footer::from_bytes(&end, length, header_bytes as u64, header_crc)?;
        let (start, end) = (origin.generation, footer.generation);
        if start != end {
            return damaged(format_args!(
                "its start is of generation {start} and its end of generation {end}"
            ));
        }
        let records = read_index(&source, &footer, header_bytes as u64)?;
        Ok(Container { source, header, origin, length, records })
    }

    /// Gives the payload of record `k` to `sink`, in pieces of at most 1 MiB in their order. If the
    /// bytes differ from those that were written, this fails, after `sink` got them: what `sink`
    /// got is valid only if this succeeds.
    pub fn read(&self, k: usize, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let Some(record) = self.records.get(k) else {
            return fail!(Argument, "record {k} of a generation with {}", self.records.len());
        };
        let mut missing = record.head.stored_bytes;
        let mut buffer = fallible_vec::filled(0, missing.min(PIECE as u64) as usize)?;
        let (mut crc, mut offset) = (0, record.offset);
        while missing > 0 {
            let piece = &mut buffer[..missing.min(PIECE as u64) as usize];
            self.source.read_at(offset, piece)?;
            crc = crc32c::crc32c_append(crc, piece);
            sink(piece)?;
            offset += piece.len() as u64;
            missing -= piece.len() as u64;
        }
        match crc == record.crc {
            true => Ok(()),
            false => damaged(format_args!(
                "the checksum of record {k} ({} {}) is {crc:#010x} and was {:#010x} when it was written",
                record.head.kind.name(),
                record.head.name,
                record.crc
            )),
        }
    }

    /// Gives all bytes of the file to `sink`, unchecked, in pieces of at most 1 MiB in their order.
    pub fn copy(&self, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut buffer = fallible_vec::filled(0, self.length.min(PIECE as u64) as usize)?;
        for offset in (0..self.length).step_by(PIECE) {
            let piece = &mut buffer[..(self.length - offset).min(PIECE as u64) as usize];
            self.source.read_at(offset, piece)?;
            sink(piece)?;
        }
        Ok(())
    }

    /// Reads all payloads and checks them.
    pub fn verify(&self) -> Result<()> {
        (0..self.records.len()).try_for_each(|k| self.read(k, &mut |_| Ok(())))
    }
}

/// Fails if a container is not the one that its file name says.
pub fn check_origin(origin: Origin, rank: u32, generation: u64) -> Result<()> {
    let Origin { rank: of, generation: found, .. } = origin;
    if (of, found) == (rank, generation) {
        return Ok(());
    }
    fail!(
        Stream,
        "is generation {found} of rank {of} under the name of another: the file was renamed or copied"
    )
}

/// Reads the index, whose checksum must be the footer's. The payloads lie behind the header without
/// gaps and end where the index begins.
fn read_index(source: &impl Source, footer: &Footer, header: u64) -> Result<Vec<Record>> {
    let mut records = fallible_vec::with_room(footer.records as usize)?;
    let most = PIECE / ENTRY;
    let mut buffer = fallible_vec::filled(0, most.min(footer.records as usize) * ENTRY)?;
    let (mut crc, mut payload) = (0, header);
    for begin in (0..footer.records).step_by(most) {
        let count = most.min((footer.records - begin) as usize);
        let piece = &mut buffer[..count * ENTRY];
        source.read_at(footer.index + begin * ENTRY as u64, piece)?;
        crc = crc32c::crc32c_append(crc, piece);
        for (k, entry) in (begin..).zip(piece.as_chunks::<ENTRY>().0) {
            let record = Record::from_bytes(entry, k, payload)?;
            let end = payload.checked_add(record.head.stored_bytes);
            let Some(end) = end.filter(|end| *end <= footer.index) else {
                return damaged(format_args!("record {k} is longer than the file"));
            };
            payload = end;
            fallible_vec::push(&mut records, record)?;
        }
    }
    if crc != footer.index_crc {
        return damaged(format_args!("the checksum of its index is wrong"));
    }
    match payload == footer.index {
        true => Ok(records),
        false => damaged(format_args!("its records end before its index begins")),
    }
}

#[cfg(test)]
#[path = "container_tests.rs"]
mod tests;
