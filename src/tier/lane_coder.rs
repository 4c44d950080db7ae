//! A coder for the transfer lanes of the host backend: records are raw in the device cache and compressed
//! everywhere else. The lane of downloads compresses a record on its way to the pool, and the lane of
//! uploads decompresses it on its way back, while the application computes.
//!
//! The number of codecs is the number of threads that code at a time: with one codec the two lanes take
//! turns.

use crate::codec::{Record, SnapshotCodec};
use crate::device::{
    AppMemory, CodesRecords, Coding, Device, Event, Lane, Place, RecordCoding, Slab, Work,
};
use crate::error::{Error, Result};
use crate::fallible_vec::with_room;
use crate::guarded::locked;
use crate::layout::{Layout, Parts};
use std::sync::{Arc, Mutex};

/// Most staging buffers: so many records may be compressed, or wait for it, before the calling thread
/// waits for the first of them.
pub const MOST_BUFFERS: u32 = 8;

/// A codec with room for the fields of a record.
struct Coder {
    codec: SnapshotCodec,
    fields: Vec<AppMemory>,
}

/// The size of the record in a staging buffer, or why there is none.
type Made = Mutex<Result<u64>>;

/// What the lanes and the calling thread share.
struct Shared {
    /// One for each thread that codes at a time. The lane of uploads takes the last one, all others
    /// the first.
    coders: Vec<Mutex<Coder>>,
    /// Staging buffers for compressed records, and behind them one for the calling thread.
    buffers: Vec<Mutex<Slab>>,
    made: Vec<Made>,
    /// Where each field lies in a raw record, and its bytes.
    places: Vec<(u64, u64)>,
    /// The first error of a decompression that no RESTORE has reported yet.
    fault: Mutex<Option<Error>>,
}

/// The coder of one session.
pub struct LaneCoder {
    shared: Arc<Shared>,
    /// For each staging buffer, when its record is made, and when the record has left it.
    made: Vec<Event>,
    placed: Vec<Event>,
    raw_bytes: u64,
}

impl LaneCoder {
    /// Makes a coder for whole states of `layout` with `buffers` staging buffers. `codec` makes a codec; there
    /// are `threads` of them, at most one for each lane.
    pub fn new(
        device: &mut (impl Device + ?Sized),
        layout: &Layout,
        parts: &Parts,
        [threads, buffers]: [u32; 2],
        codec: impl Fn() -> Result<SnapshotCodec>,
    ) -> Result<Self> {
        let places = parts.places(0, false).map(|(field, at)| (at, layout.bytes[field])).collect();
        let coder =
            |_| Ok(Mutex::new(Coder { codec: codec()?, fields: with_room(layout.bytes.len())? }));
        let coders = (0..threads.clamp(1, 2)).map(coder).collect::<Result<Vec<_>>>()?;
        let capacity = locked(&coders[0]).codec.capacity() as u64;
        let count = buffers.clamp(1, MOST_BUFFERS) as usize;
        let buffers = (0..=count).map(|_| Ok(Mutex::new(Slab::new(capacity)?)));
        let shared = Shared {
            buffers: buffers.collect::<Result<_>>()?,
            made: (0..=count).map(|_| Mutex::new(Ok(0))).collect(),
            coders,
            places,
            fault: Mutex::new(None),
        };
        let mut events = || (0..count).map(|_| device.event()).collect::<Result<_>>();
        let (made, placed) = (events()?, events()?);
        let raw_bytes = parts.parts[0].bytes;
        Ok(LaneCoder { shared: Arc::new(shared), made, placed, raw_bytes })
    }

    /// Number of the staging buffers of the lanes.
    pub fn buffers(&self) -> usize {
        self.made.len()
    }

    /// Where staging buffer number `k` is; the one behind the last is the calling thread's.
    pub fn buffer(&self, k: usize) -> Place {
        Place::App(locked(&self.shared.buffers[k]).memory())
    }

    /// The event that the lane of downloads records when the record in staging buffer `k` has left it.
    pub fn placed(&self, k: usize) -> Event {
        self.placed[k]
    }

    /// Enqueues the compression of the raw record at `raw` into staging buffer `k` on the lane of downloads.
    pub fn compress(
        &self,
        device: &mut (impl Device + ?Sized),
        k: usize,
        raw: Place,
    ) -> Result<()> {
        self.enqueue(device, Lane::Download, raw, Work::Compress { buffer: k })?;
        device.record(Lane::Download, self.made[k])
    }

    /// Enqueues the decompression of `bytes` bytes at `from`, the record of state `ts`, into the raw record at
    /// `raw`.
    pub fn decompress(
        &self,
        device: &mut (impl Device + ?Sized),
        lane: Lane,
        ts: i64,
        (from, bytes): (Place, u64),
        raw: Place,
    ) -> Result<()> {
        self.enqueue(device, lane, raw, Work::Decompress { from, bytes, ts })
    }

    fn enqueue(
        &self,
        device: &mut (impl Device + ?Sized),
        lane: Lane,
        raw: Place,
        work: Work,
    ) -> Result<()> {
        let (coder, raw_bytes) = (self.shared.clone(), self.raw_bytes);
        device.code(lane, RecordCoding { coder, raw, raw_bytes, work })
    }

    /// Compresses a state into the buffer of the calling thread.
    pub fn make(&self, device: &mut (impl Device + ?Sized), fields: &[AppMemory]) -> Result<()> {
        let k = self.made.len();
        device.begin_coding(Coding::Compress, 1.0)?;
        // SAFETY: the fields are host memory, as promised for `AppMemory`.
        let made = unsafe { self.shared.compress_fields(fields, k) };
        device.end_coding()?;
        *locked(&self.shared.made[k]) = made;
        Ok(())
    }

    /// Bytes of the record in staging buffer `k`. Blocks the calling thread until they are known.
    pub fn size(&self, device: &mut (impl Device + ?Sized), k: usize) -> Result<u64> {
        self.made.get(k).map_or(Ok(()), |&event| device.wait(Lane::App, event))?;
        locked(&self.shared.made[k]).clone()
    }

    /// Lets every record have this number of bytes, for a device that compresses nothing.
    #[cfg(test)]
    pub fn assume(&self, bytes: u64) {
        self.shared.made.iter().for_each(|made| *locked(made) = Ok(bytes));
    }

    /// Decodes the record of `bytes` bytes at `from` into the fields, in the calling thread.
    pub fn open(
        &self,
        device: &mut (impl Device + ?Sized),
        (from, bytes): (Place, u64),
        fields: &[AppMemory],
    ) -> Result<()> {
        let from = device.pointer(from, bytes)?.cast::<u8>();
        device.begin_coding(Coding::Decompress, 1.0)?;
        // SAFETY: the record is readable, and no lane writes it before this call returns; the fields are
        // host memory, as promised for `AppMemory`.
        let opened = unsafe {
            let from = std::slice::from_raw_parts(from, bytes as usize);
            locked(&self.shared.coders[0]).codec.decompress_record(Record::Part(0), from, fields)
        };
        device.end_coding()?;
        opened
    }

    /// Fails if a lane could not decompress a record.
    pub fn check(&self) -> Result<()> {
        match locked(&self.shared.fault).take() {
            None => Ok(()),
            Some(fault) => Err(fault),
        }
    }
}

impl Shared {
    /// # Safety
    /// The fields are readable, and nobody else uses the buffer.
    unsafe fn compress_fields(&self, fields: &[AppMemory], k: usize) -> Result<u64> {
        let mut coder = locked(&self.coders[0]);
        let mut buffer = locked(&self.buffers[k]);
        // SAFETY: by this function's contract.
        let made = unsafe { coder.codec.compress(fields, buffer.bytes_mut()) }?;
        Ok(made as u64)
    }

    /// Lets `coder` name the fields of the raw record at `raw`.
    ///
    /// # Safety
    /// The promise of `AppMemory::new` holds for the bytes of a record at `raw`.
    unsafe fn name_fields(&self, coder: &mut Coder, raw: *mut u8) {
        coder.fields.clear();
        let place = |&(at, bytes): &(u64, u64)| {
            // SAFETY: the field lies in the record.
            unsafe { AppMemory::new(raw.add(at as usize), bytes as usize) }
        };
        coder.fields.extend(self.places.iter().map(place));
    }
}

impl CodesRecords for Shared {
    unsafe fn compress(&self, raw: *mut u8, buffer: usize) {
        let made = {
            let mut coder = locked(&self.coders[0]);
            let mut to = locked(&self.buffers[buffer]);
            // SAFETY: by this function's contract.
            unsafe { self.name_fields(&mut coder, raw) };
            let Coder { codec, fields } = &mut *coder;
            // SAFETY: the fields are those of the record.
            unsafe { codec.compress(fields, to.bytes_mut()) }
        };
        *locked(&self.made[buffer]) = made.map(|bytes| bytes as u64);
    }

    unsafe fn decompress(&self, ts: i64, coded: *const u8, bytes: usize, raw: *mut u8) {
        let Some(coder) = self.coders.last() else { return };
        let mut coder = locked(coder);
        // SAFETY: by this function's contract.
        let opened = unsafe {
            self.name_fields(&mut coder, raw);
            let from = std::slice::from_raw_parts(coded, bytes);
            let Coder { codec, fields } = &mut *coder;
            codec.decompress_record(Record::Part(0), from, fields)
        };
        if let Err(error) = opened {
            let error = error.within(format_args!("the snapshot of state {ts}"));
            locked(&self.fault).get_or_insert(error);
        }
    }
}
