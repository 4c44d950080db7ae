//! Coding on the transfer lanes of the host backend: threads code records while the application computes.

use super::Place;
use std::sync::Arc;

/// Codes records on any thread.
pub trait CodesRecords: Send + Sync {
    /// Compresses the raw record at `raw` into staging buffer `buffer`, and keeps its size or the error for
    /// whoever places the record.
    ///
    /// # Safety
    /// The bytes of a record at `raw` are readable, and nobody writes them or uses the buffer meanwhile.
    unsafe fn compress(&self, raw: *mut u8, buffer: usize);

    /// Decompresses the `bytes` bytes at `coded`, the record of state `ts`, into the raw record at `raw`. An
    /// error is kept for the RESTORE of the state.
    ///
    /// # Safety
    /// The coded bytes are readable, those of a record at `raw` are writable, and nobody else uses either.
    unsafe fn decompress(&self, ts: i64, coded: *const u8, bytes: usize, raw: *mut u8);
}

/// A record that a transfer lane compresses or decompresses.
pub struct RecordCoding {
    pub coder: Arc<dyn CodesRecords>,
    /// The raw record, and its number of bytes.
    pub raw: Place,
    pub raw_bytes: u64,
    pub work: Work,
}

/// What is done with a raw record.
pub enum Work {
    /// It is compressed into the staging buffer with this number.
    Compress { buffer: usize },
    /// It comes from `bytes` compressed bytes at `from`, the record of state `ts`.
    Decompress { from: Place, bytes: u64, ts: i64 },
}
