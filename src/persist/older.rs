//! What the last generation holds, so that the next one need not write it again.
//!
//! A record is known again by its head, a hash of each block of its bytes (64 bits, SipHash with random keys)
//! and the checksum of all of them (32 bits): nothing is read. While a record is equal to the older one, nothing
//! of it is written. From the first block that differs on it is written; the blocks before it come out of the
//! older file.

use super::format::{Place, Record, RecordHead, PIECE};
use crate::error::{text, Code, Error, Result};
use crate::fallible_vec;
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// What a generation holds, by its records' heads in rising order.
pub(super) struct Held {
    records: Vec<HeldRecord>,
    /// Bytes of a file that holds all of the generation.
    pub whole_bytes: u64,
    keys: RandomState,
    /// Whether a file of it could not be read when a block of it was needed.
    is_unreadable: AtomicBool,
}

struct HeldRecord {
    record: Record,
    place: Place,
    /// The hashes of the record's blocks, each of `PIECE` bytes but for the last one.
    hashes: Vec<u64>,
}

impl Held {
    /// Returns the generations whose files hold the records.
    pub fn generations(&self) -> impl Iterator<Item = u64> + '_ {
        self.records.iter().map(|held| held.place.generation)
    }

    /// Whether no file of it was found to be unreadable.
    pub fn is_readable(&self) -> bool {
        !self.is_unreadable.load(Ordering::Relaxed)
    }

    fn find(&self, head: &RecordHead) -> Option<usize> {
        let found = self.records.binary_search_by_key(&key(head), |held| key(&held.record.head));
        found.ok().filter(|k| self.records[*k].record.head == *head)
    }
}

fn key(head: &RecordHead) -> impl Ord {
    (head.kind as u32, head.ts, *head.name.bytes())
}

/// Opens the file of a generation of the rank.
pub(super) type Open = Box<dyn Fn(u64) -> io::Result<File> + Send>;

/// The last generation, and its files.
pub(super) struct Older {
    pub held: Arc<Held>,
    pub open: Open,
}

/// Notes the blocks of the records that are written, and compares them with those of the last generation.
pub(super) struct Notes {
    older: Option<Older>,
    keys: RandomState,
    /// The record of the last generation that this one is equal to so far.
    like: Option<usize>,
    /// The hashes of the blocks of each record.
    hashes: Vec<Vec<u64>>,
    /// The begin of a block, with room for `PIECE` bytes.
    pub block: Vec<u8>,
}

/// Where the bytes of a block are.
pub(super) enum Block {
    /// The last generation holds the block, and those before it.
    Held,
    /// The last generation holds the whole record, at this place, and this generation was the first to hold it.
    AllHeld(Place, u64),
    /// No file has the block. The last generation holds so many blocks before it, from this place on.
    New(u64, Place),
}

impl Notes {
    pub fn new(older: Option<Older>) -> Result<Notes> {
        let block = fallible_vec::with_room(PIECE)?;
        let keys = older.as_ref().map_or_else(RandomState::new, |older| older.held.keys.clone());
        Ok(Notes { older, keys, like: None, hashes: Vec::new(), block })
    }

    /// Begins the next record.
    pub fn begin(&mut self, head: &RecordHead) -> Result<()> {
        self.like = self.older.as_ref().and_then(|older| older.held.find(head));
        fallible_vec::push(&mut self.hashes, Vec::new())
    }

    /// Notes the next block of the record. `crc`, with the last block, is the checksum of the whole record.
    pub fn note(&mut self, block: &[u8], crc: Option<u32>) -> Result<Block> {
        let mut hasher = self.keys.build_hasher();
        hasher.write(block);
        let hash = hasher.finish();
        let mut place = Place { generation: 0, offset: 0, bytes: 0, is_packed: false };
        let Some(hashes) = self.hashes.last_mut() else { return Ok(Block::New(0, place)) };
        let mut number = hashes.len();
        fallible_vec::push(hashes, hash)?;
        match (self.like.take(), &self.older) {
            (Some(like), Some(older)) => {
                let held = &older.held.records[like];
                place = held.place;
                let is_same = held.hashes.get(number) == Some(&hash);
                match crc {
                    None if is_same => {
                        self.like = Some(like);
                        return Ok(Block::Held);
                    }
                    Some(crc) if is_same && crc == held.record.crc => {
                        return Ok(Block::AllHeld(place, held.record.since));
                    }
                    _ => {}
                }
            }
            _ => number = 0,
        }
        Ok(Block::New(number as u64, place))
    }

    /// Reads the first `count` blocks of the record, which the last generation holds from `place` on.
    pub fn read(
        &self,
        count: u64,
        place: Place,
        sink: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let (Some(older), Some(hashes)) = (&self.older, self.hashes.last()) else { return Ok(()) };
        let mut block = fallible_vec::filled(0, PIECE)?;
        let read = |file: &File, k: u64, known: u64, block: &mut [u8]| {
            file.read_exact_at(block, place.offset + k * PIECE as u64)?;
            let mut hasher = self.keys.build_hasher();
            hasher.write(block);
            let is_right = hasher.finish() == known;
            is_right.then_some(()).ok_or(io::ErrorKind::InvalidData.into())
        };
        let failed = |error: io::Error| {
            older.held.is_unreadable.store(true, Ordering::Relaxed);
            let why = match error.kind() {
                io::ErrorKind::UnexpectedEof => "was cut short".to_owned(),
                io::ErrorKind::InvalidData => "was changed".to_owned(),
                _ => format!("cannot be read: {error}"),
            };
            text(format_args!(
                "the file of generation {}, which holds a part of this one, {why}; the next generation holds everything",
                place.generation
            ))
        };
        let failed = |error| Error::new(Code::Stream, failed(error));
        let file = (older.open)(place.generation).map_err(failed)?;
        for (k, known) in (0..count).zip(hashes) {
            read(&file, k, *known, &mut block).map_err(failed)?;
            sink(&block)?;
        }
        Ok(())
    }

    /// Returns what the next generation compares with.
    pub fn held(&mut self, records: &[Record], places: &[Place], whole_bytes: u64) -> Result<Held> {
        let mut held = fallible_vec::with_room(records.len())?;
        let all = records.iter().zip(places).zip(std::mem::take(&mut self.hashes));
        held.extend(all.map(|((record, place), hashes)| HeldRecord {
            record: *record,
            place: *place,
            hashes,
        }));
        held.sort_unstable_by_key(|held| key(&held.record.head));
        let is_unreadable = AtomicBool::new(false);
        Ok(Held { records: held, whole_bytes, keys: self.keys.clone(), is_unreadable })
    }
}
