//! Coding on the transfer lanes of the host backend: threads code records while the application computes.

use super::Place;
use std::sync::Arc;

/// A record: part `part` of the state of time step `ts`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordName {
    pub ts: i64,
    pub part: usize,
}

/// Codes records on any thread.
pub trait CodesRecords: Send + Sync {
    /// Bytes of a raw record of part `part`.
    fn raw_bytes(&self, part: usize) -> u64;

    /// Compresses the raw record at `raw` into staging buffer `buffer`, and keeps its size or the error for
    /// whoever places the record. A record of a sequence is completed later.
    ///
    /// # Safety
    /// The bytes of the record at `raw` are readable, and nobody writes them or uses the buffer meanwhile.
    unsafe fn compress(&self, name: RecordName, raw: *const u8, buffer: usize);

    /// Completes the record of a sequence that was compressed into staging buffer `buffer`.
    fn complete(&self, buffer: usize);

    /// Decompresses the bytes `coded` of a record into the raw record at `raw`. An error is kept for the
    /// RESTORE of the state.
    ///
    /// # Safety
    /// The bytes of the record at `raw` are writable, and nobody else uses them.
    unsafe fn decompress(&self, name: RecordName, coded: &[u8], raw: *mut u8);
}

/// A record that a transfer lane compresses or decompresses.
pub struct RecordCoding {
    pub coder: Arc<dyn CodesRecords>,
    pub work: Work,
}

/// What a transfer lane does with a record.
pub enum Work {
    /// Compresses the raw record at `raw` into the staging buffer with this number.
    Compress { name: RecordName, raw: Place, buffer: usize },
    /// Completes the record of a sequence in the staging buffer with this number.
    Complete { buffer: usize },
    /// Decompresses `bytes` bytes at `from` into the raw record at `raw`.
    Decompress { name: RecordName, from: Place, bytes: u64, raw: Place },
}
