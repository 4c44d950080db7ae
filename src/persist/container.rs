//! A container: read with every byte checked, and copied. Bytes go through
//! pieces of at most `PIECE` bytes, however long a record is.

use super::format::{
    damaged, Footer, Header, Kind, Origin, Place, Record, RecordHead, ENTRY, FOOTER, HEADER,
    HEADER_END, PIECE,
};
use super::name::Name;
use super::pack::{slabs, Packer};
use super::shapes::{FieldAt, Shapes, SHAPES};
use super::writer::ContainerWriter;
use crate::codec::HEADER as STREAM_HEADER;
use crate::error::{fail, Code, Error, Result};
use crate::fallible_vec;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

/// Most bytes of a record of the library's own that is read as a whole.
const LONGEST_OWN: u64 = 1 << 18;

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

/// A container that is open for reading.
pub struct Container<S> {
    source: S,
    /// The containers of older generations that hold payloads of this one, with their numbers.
    others: Vec<(u64, S)>,
    /// What the generation is of.
    pub header: Header,
    /// Whose generation it is.
    pub origin: Origin,
    /// Bytes of the file.
    pub length: u64,
    /// The records in the order in which they were written.
    pub records: Vec<Record>,
    /// Where the payload of each record is.
    pub places: Vec<Place>,
}

/// A container that is open for reading.
pub type Reader = Container<File>;

impl<S: Source> Container<S> {
    /// Opens a container and checks all of it but the payloads of its records. Those that are in older
    /// generations can be read after `open_others`.
    pub fn open(source: S) -> Result<Self> {
        let length = source.length()?;
        let least = (HEADER + HEADER_END + FOOTER) as u64;
        if length < least {
            return damaged(format_args!("it has {length} bytes, and the shortest has {least}"));
        }
        let mut fixed = [0; HEADER];
        source.read_at(0, &mut fixed)?;
        if let Some(bytes) = Header::length_of_other(&fixed).filter(|n| *n as u64 <= length) {
            let mut header = fallible_vec::filled(0, bytes)?;
            source.read_at(0, &mut header)?;
            Header::check_other(&header)?;
        }
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
        let (records, places) = read_index(&source, &footer, header_bytes as u64)?;
        Ok(Container { source, others: Vec::new(), header, origin, length, records, places })
    }

    /// Opens the older generations that hold payloads of this one.
    pub fn open_others(&mut self, open: &mut dyn FnMut(u64) -> io::Result<S>) -> Result<()> {
        let of = self.origin;
        for Place { generation, .. } in &self.places {
            let is_open = |(number, _): &(u64, S)| number == generation;
            if *generation == of.generation || self.others.iter().any(is_open) {
                continue;
            }
            let of_part = |e: Error| {
                e.within(format_args!(
                    "the file of generation {generation}, which holds a part of it"
                ))
            };
            let source = match open(*generation) {
                Ok(source) => source,
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    return damaged(format_args!(
                        "a part of it is in the file of generation {generation}, which is missing"
                    ))
                }
                // That a file cannot be opened now does not say that it is not right.
                Err(e) => return Err(of_part(e.into())),
            };
            let other = Container::open(source).map_err(of_part)?;
            let Origin { generation: number, rank, ranks, start, .. } = other.origin;
            if (number, rank, ranks, start) != (*generation, of.rank, of.ranks, of.start) {
                return damaged(format_args!(
                    "a part of it is in the file of generation {generation}, and the file of this name is another one"
                ));
            }
            fallible_vec::push(&mut self.others, (*generation, other.source))?;
        }
        Ok(())
    }

    /// Whether all payloads are in this container.
    pub fn is_whole(&self) -> bool {
        self.places.iter().all(|place| place.generation == self.origin.generation)
    }

    /// Gives the payload of record `k` to `sink`, in pieces of at most 1 MiB in their order. If the
    /// bytes differ from those that were written, this fails, after `sink` got them: what `sink`
    /// got is valid only if this succeeds.
    pub fn read(&self, k: usize, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let Some(record) = self.records.get(k) else {
            return fail!(Argument, "record {k} of a generation with {}", self.records.len());
        };
        let place = self.places[k];
        let generation = place.generation;
        let other = self.others.iter().find(|(number, _)| *number == generation);
        let source = match other {
            Some((_, source)) => source,
            None if generation == self.origin.generation => &self.source,
            None => {
                return fail!(State, "record {k} is in generation {generation}, which is not open")
            }
        };
        let read_at = |offset, piece: &mut [u8]| {
            source.read_at(offset, piece).or_else(|e| match e.kind() {
                io::ErrorKind::UnexpectedEof => {
                    damaged(format_args!("the file of generation {generation} was cut short"))
                }
                _ => Err(e.into()),
            })
        };
        let mut crc = 0;
        let mut take = |piece: &[u8]| {
            crc = crc32c::crc32c_append(crc, piece);
            sink(piece)
        };
        match place.is_packed {
            true => unpack(place, record.head.stored_bytes, &read_at, &mut take).map_err(|e| {
                let RecordHead { kind, name, .. } = record.head;
                match e.code {
                    Code::Stream => {
                        e.within(format_args!("is damaged: record {k} ({} {name})", kind.name()))
                    }
                    _ => e,
                }
            })?,
            false => {
                let longest = place.bytes.min(PIECE as u64);
                let mut buffer = fallible_vec::filled(0, longest as usize)?;
                for begin in (0..place.bytes).step_by(PIECE) {
                    let piece = &mut buffer[..longest.min(place.bytes - begin) as usize];
                    read_at(place.offset + begin, piece)?;
                    take(piece)?;
                }
            }
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

    /// Writes this generation into `to`. A payload that the container `there` holds is referred to and not
    /// written. Payloads that are in this container come first: they have the same places in a copy of all.
    /// With `packs`, arrays and snapshots that no codec made are packed where that makes them shorter. `pace` is
    /// called before each piece with its bytes: it may wait, and ends the copying by an error.
    pub(super) fn copy_into<W: Write>(
        &self,
        to: W,
        there: Option<&Self>,
        packs: bool,
        pace: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<(W, Footer)> {
        let mut writer = ContainerWriter::new(to, &self.header, &self.origin, None)?;
        let mut order = fallible_vec::with_room(self.records.len())?;
        order.extend(0..self.records.len());
        order.sort_unstable_by_key(|k| {
            let Place { generation, offset, .. } = self.places[*k];
            (u64::MAX - generation, offset, self.places[*k].bytes, *k)
        });
        let mut packing = if packs { Some((self.shapes()?, Packer::new()?)) } else { None };
        let mut next = 0;
        for &k in &order {
            let record = &self.records[k];
            // Both have their records in about the same order.
            let known = there.and_then(|there| {
                let count = there.records.len();
                let found = (0..count).map(|i| (next + i) % count);
                let found = { found }.find(|j| there.records[*j] == *record)?;
                next = found + 1;
                Some(there.places[found])
            });
            if let Some(place) = known.filter(|_| record.since < self.origin.generation) {
                writer.refer(*record, place)?;
                continue;
            }
            let is_packed = record.head.codec == 0 && record.head.kind != Kind::Other;
            if let Some((shapes, packer)) = packing.as_mut().filter(|_| is_packed) {
                let fields = shapes.of_raw(&self.records, k);
                self.pack(k, &fields, &mut writer, packer, pace)?;
                continue;
            }
            writer.copied(*record)?;
            self.read(k, &mut |piece| {
                pace(piece.len() as u64)?;
                writer.write(piece)
            })?;
        }
        writer.arrange(&order)?;
        let footer = writer.finish()?;
        Ok((writer.to, footer))
    }

    /// Reads a record of the library's own; `None` if the generation does not hold it.
    pub fn own(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let name = Name::new(name)?;
        let is_it = |record: &Record| record.head.kind == Kind::Other && record.head.name == name;
        let Some(k) = self.records.iter().position(is_it) else { return Ok(None) };
        let bytes = self.records[k].head.stored_bytes;
        if bytes > LONGEST_OWN {
            return damaged(format_args!("its record {name} has {bytes} bytes"));
        }
        let mut all = fallible_vec::with_room(bytes as usize)?;
        self.read(k, &mut |piece| {
            // There is room for all bytes of the record.
            all.extend_from_slice(piece);
            Ok(())
        })?;
        Ok(Some(all))
    }

    /// Reads the shapes of what the generation holds; none if another program than a session wrote it.
    pub fn shapes(&self) -> Result<Shapes> {
        self.own(SHAPES)?.map_or_else(|| Ok(Shapes::default()), |bytes| Shapes::of_bytes(&bytes))
    }

    /// Writes record `k`, with these fields, as the next one of `writer`: packed, if that makes it shorter or if it is
    /// longer than a piece.
    fn pack<W: Write>(
        &self,
        k: usize,
        fields: &[FieldAt],
        writer: &mut ContainerWriter<W>,
        packer: &mut Packer,
        pace: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        let (record, mut has_begun) = (self.records[k], false);
        let mut put = |has_begun: &mut bool, bytes: &[u8]| {
            if !std::mem::replace(has_begun, true) {
                writer.push(record, Place { is_packed: true, ..writer.here(0) })?;
            }
            writer.put_packed(bytes)
        };
        let mut slabs = slabs(fields, record.head.stored_bytes);
        let mut slab = slabs.next();
        self.read(k, &mut |mut piece| {
            pace(piece.len() as u64)?;
            while let Some(of) = slab.filter(|_| !piece.is_empty()) {
                let (taken, is_complete) = packer.fill(&of, piece);
                piece = &piece[taken..];
                if is_complete {
                    slab = slabs.next();
                    packer.add(of, &mut |bytes| put(&mut has_begun, bytes))?;
                }
            }
            Ok(())
        })?;
        if has_begun {
            return packer.flush(&mut |bytes| put(&mut has_begun, bytes));
        }
        writer.copied(record)?;
        packer.take_uncoded(&mut |bytes| writer.write(bytes))
    }

    /// Reads all payloads and checks them.
    pub fn verify(&self) -> Result<()> {
        (0..self.records.len()).try_for_each(|k| self.read(k, &mut |_| Ok(())))
    }

    /// Reads and checks the payloads that are in this container.
    pub(super) fn verify_own(&self) -> Result<()> {
        let own = |k: &usize| self.places[*k].generation == self.origin.generation;
        (0..self.records.len()).filter(own).try_for_each(|k| self.read(k, &mut |_| Ok(())))
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

/// Gives the bytes of a packed payload, of a record of `missing` bytes, to `take`, one slab after the other.
fn unpack(
    place: Place,
    mut missing: u64,
    read_at: &dyn Fn(u64, &mut [u8]) -> Result<()>,
    take: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let (mut packer, mut stream) = (Packer::new()?, Vec::new());
    let (mut offset, end) = (place.offset, place.offset + place.bytes);
    while offset < end {
        let mut header = [0; STREAM_HEADER];
        let left = usize::try_from(end - offset).unwrap_or(usize::MAX);
        if left < header.len() {
            return fail!(Stream, "its packed bytes were cut short");
        }
        read_at(offset, &mut header)?;
        let (slab, bytes) = Packer::peek(&header, missing)?;
        if bytes > left {
            return fail!(Stream, "its packed bytes were cut short");
        }
        fallible_vec::up_to(&mut stream, bytes)?;
        stream.resize(bytes, 0);
        read_at(offset, &mut stream)?;
        let values = packer.unpack(slab, &stream)?;
        take(values)?;
        offset += bytes as u64;
        missing -= values.len() as u64;
    }
    match missing {
        0 => Ok(()),
        _ => fail!(Stream, "its packed bytes lack {missing} of it"),
    }
}

/// Reads the index, whose checksum must be the footer's. The payloads of this container, in any order, lie behind
/// the header without gaps and end where the index begins.
fn read_index(
    source: &impl Source,
    footer: &Footer,
    header: u64,
) -> Result<(Vec<Record>, Vec<Place>)> {
    let mut records = fallible_vec::with_room(footer.records as usize)?;
    let mut places = fallible_vec::with_room(footer.records as usize)?;
    let most = PIECE / ENTRY;
    let mut buffer = fallible_vec::filled(0, most.min(footer.records as usize) * ENTRY)?;
    let (mut crc, mut own) = (0, Vec::new());
    for begin in (0..footer.records).step_by(most) {
        let count = most.min((footer.records - begin) as usize);
        let piece = &mut buffer[..count * ENTRY];
        source.read_at(footer.index + begin * ENTRY as u64, piece)?;
        crc = crc32c::crc32c_append(crc, piece);
        for (k, entry) in (begin..).zip(piece.as_chunks::<ENTRY>().0) {
            let (record, place) = Record::from_bytes(entry, k, footer.generation)?;
            if place.generation == footer.generation {
                fallible_vec::push(&mut own, (place.offset, place.bytes))?;
            }
            fallible_vec::push(&mut records, record)?;
            fallible_vec::push(&mut places, place)?;
        }
    }
    if crc != footer.index_crc {
        return damaged(format_args!("the checksum of its index is wrong"));
    }
    own.sort_unstable();
    let end = own.iter().try_fold(header, |end, &(begin, bytes)| {
        (begin == end).then_some(end.checked_add(bytes)).flatten()
    });
    match end == Some(footer.index) {
        true => Ok((records, places)),
        false => {
            damaged(format_args!("its records are not what lies between its header and its index"))
        }
    }
}

#[cfg(test)]
#[path = "container_tests.rs"]
mod tests;
