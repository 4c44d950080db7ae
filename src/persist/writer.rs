//! Writes a container from begin to end. Bytes go through pieces of at most `PIECE` bytes, however long a record is.

use super::format::{
    Footer, Header, Origin, Place, Record, RecordHead, FOOTER, MOST_RECORDS, PIECE,
};
use super::older::{Block, Held, Notes};
use crate::error::{fail, Result};
use crate::fallible_vec;
use crate::files::quietly;
use std::io::Write;

/// Writes a container to `to`, which is empty.
pub(super) struct ContainerWriter<W> {
    pub to: W,
    /// Bytes that are not written yet, at most `PIECE`.
    buffer: Vec<u8>,
    /// Bytes of the container so far, those in `buffer` included.
    length: u64,
    records: Vec<Record>,
    /// Where the payload of each record is.
    places: Vec<Place>,
    /// Bytes that the last record still lacks.
    missing: u64,
    generation: u64,
    header_crc: u32,
    /// Whether an earlier write failed: the container cannot be completed.
    failed: bool,
    /// What is noted for the next generation, and compared with the last one; `None`: nothing.
    notes: Option<Notes>,
}

impl<W: Write> ContainerWriter<W> {
    pub fn new(to: W, header: &Header, origin: &Origin, notes: Option<Notes>) -> Result<Self> {
        let (bytes, header_crc) = header.to_bytes(origin)?;
        let mut writer = ContainerWriter {
            to,
            buffer: fallible_vec::with_room(PIECE)?,
            length: 0,
            records: Vec::new(),
            places: Vec::new(),
            missing: 0,
            generation: origin.generation,
            header_crc,
            failed: false,
            notes,
        };
        writer.put(&bytes)?;
        Ok(writer)
    }

    /// Begins the next record.
    pub fn record(&mut self, head: RecordHead) -> Result<()> {
        let place = self.here(head.stored_bytes);
        self.push(Record { head, crc: 0, since: self.generation }, place)?;
        self.missing = head.stored_bytes;
        match &mut self.notes {
            Some(notes) => notes.begin(&head),
            None => Ok(()),
        }
    }

    /// Adds a record whose payload is in an older container.
    pub fn refer(&mut self, record: Record, place: Place) -> Result<()> {
        self.push(record, place)
    }

    /// Begins the next record, whose bytes an older generation was the first to hold.
    pub fn copied(&mut self, record: Record) -> Result<()> {
        self.push(Record { crc: 0, ..record }, self.here(record.head.stored_bytes))?;
        self.missing = record.head.stored_bytes;
        Ok(())
    }

    /// Writes the next bytes of a record that is packed, whose checksum is known.
    pub fn put_packed(&mut self, bytes: &[u8]) -> Result<()> {
        if let Some(place) = self.places.last_mut() {
            place.bytes += bytes.len() as u64;
        }
        self.put(bytes)
    }

    pub fn push(&mut self, record: Record, place: Place) -> Result<()> {
        self.check_complete()?;
        if self.records.len() as u64 == MOST_RECORDS {
            return fail!(Argument, "a generation has at most {MOST_RECORDS} records");
        }
        fallible_vec::push(&mut self.places, place)?;
        fallible_vec::push(&mut self.records, record)
    }

    /// Gives the records, which were written in this order, the order of their numbers.
    pub fn arrange(&mut self, order: &[usize]) -> Result<()> {
        let mut all = fallible_vec::with_room(order.len())?;
        let records = self.records.iter().zip(&self.places);
        all.extend(order.iter().zip(records).map(|(k, (record, place))| (*k, *record, *place)));
        all.sort_unstable_by_key(|(k, ..)| *k);
        for (k, record, place) in all {
            (self.records[k], self.places[k]) = (record, place);
        }
        Ok(())
    }

    /// The place of the next payload, of `bytes` bytes, in this container.
    pub fn here(&self, bytes: u64) -> Place {
        let (generation, offset) = (self.generation, self.length);
        Place { generation, offset, bytes, is_packed: false }
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
        if let Some(record) = self.records.last_mut() {
            record.crc = crc32c::crc32c_append(record.crc, bytes);
        }
        self.missing = missing - count;
        match self.notes.take() {
            None => self.put(bytes),
            Some(mut notes) => {
                let written = self.put_noted(&mut notes, bytes);
                self.failed |= written.is_err();
                self.notes = Some(notes);
                written
            }
        }
    }

    /// Writes the next bytes of a record, but for those that the last generation holds.
    fn put_noted(&mut self, notes: &mut Notes, bytes: &[u8]) -> Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (bytes, behind) = rest.split_at(rest.len().min(PIECE - notes.block.len()));
            rest = behind;
            let is_last = self.missing == 0 && rest.is_empty();
            if notes.block.is_empty() && (is_last || bytes.len() == PIECE) {
                self.put_block(notes, bytes, is_last)?;
                continue;
            }
            // The block has room for `PIECE` bytes, so that nothing is allocated.
            notes.block.extend_from_slice(bytes);
            if is_last || notes.block.len() == PIECE {
                let mut block = std::mem::take(&mut notes.block);
                self.put_block(notes, &block, is_last)?;
                block.clear();
                notes.block = block;
            }
        }
        Ok(())
    }

    fn put_block(&mut self, notes: &mut Notes, block: &[u8], is_last: bool) -> Result<()> {
        let (Some(record), Some(place)) = (self.records.last_mut(), self.places.last_mut()) else {
            return Ok(());
        };
        match notes.note(block, is_last.then_some(record.crc))? {
            Block::Held => Ok(()),
            Block::AllHeld(older, since) => {
                (*place, record.since) = (older, since);
                Ok(())
            }
            Block::New(before, older) => {
                if before > 0 {
                    notes.read(before, older, &mut |bytes| self.put(bytes))?;
                }
                self.put(block)
            }
        }
    }

    /// Returns what the container holds, for the next generation to compare with; `None` if nothing was noted.
    pub fn held(&mut self) -> Result<Option<Held>> {
        let whole_bytes = self.length + self.held_bytes();
        let Some(notes) = &mut self.notes else { return Ok(None) };
        notes.held(&self.records, &self.places, whole_bytes).map(Some)
    }

    /// Returns the bytes of the records that older containers hold.
    pub fn held_bytes(&self) -> u64 {
        let all = self.records.iter().zip(&self.places);
        let held = all.filter(|(_, place)| place.generation != self.generation);
        held.map(|(record, _)| record.head.stored_bytes).sum()
    }

    /// Writes index and footer, and returns the footer.
    pub fn finish(&mut self) -> Result<Footer> {
        self.check_complete()?;
        let index = self.length;
        let mut index_crc = 0;
        for k in 0..self.records.len() {
            let entry = self.records[k].to_bytes(self.places[k]);
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
