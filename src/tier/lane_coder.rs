//! A coder for the transfer lanes of the host backend: records are raw in the device cache and compressed
//! everywhere else. The lane of downloads compresses a record on its way to the pool, and the lane of
//! uploads decompresses it on its way back, while the application computes.
//!
//! The number of codecs is the number of threads that code at a time: with one codec the two lanes take
//! turns. In a sequence every record leans on the states that the codec took last, so that there is one codec;
//! a record is completed when the lane has taken two later ones, or when it is placed.

use crate::codec::{Record, Sequence, SnapshotCodec, FRAMES};
use crate::device::{
    AppMemory, CodesRecords, Coding, Device, Event, Lane, Place, RecordCoding, RecordName, Slab,
    Work,
};
use crate::error::{Error, Result};
use crate::fallible_vec::with_room;
use crate::guarded::locked;
use crate::layout::{Layout, Parts};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Most staging buffers: so many records may be compressed, or wait for it, before the calling thread
/// waits for the first of them.
pub const MOST_BUFFERS: u32 = 8;

/// A codec with room for the fields of a record.
struct Coder {
    codec: SnapshotCodec,
    fields: Vec<AppMemory>,
    /// The incomplete records of a sequence: staging buffer and state.
    taken: Vec<(usize, i64)>,
}

/// The bytes of the record of each part in a staging buffer, or why there are none.
type Made = Mutex<Result<[u64; 2]>>;

/// The raw record of a part: its fields, each with its offset and bytes, and the bytes of the record.
struct RawPart {
    places: Vec<(usize, u64, u64)>,
    bytes: u64,
}

/// What the lanes and the calling thread share.
struct Shared {
    /// One for each thread that codes at a time. The lane of uploads takes the last one, all others
    /// the first.
    coders: Vec<Mutex<Coder>>,
    /// Staging buffers for compressed records, and behind them one for the calling thread.
    buffers: Vec<Mutex<Slab>>,
    made: Vec<Made>,
    parts: Vec<RawPart>,
    /// The first error of a decompression that no RESTORE has reported yet.
    fault: Mutex<Option<Error>>,
}

/// The coder of one session.
pub struct LaneCoder {
    shared: Arc<Shared>,
    /// For each staging buffer, when its record is made, and when the record has left it.
    made: Vec<Event>,
    placed: Vec<Event>,
    /// The staging buffers of the incomplete records of a sequence, oldest first.
    taken: VecDeque<usize>,
    is_in_sequences: bool,
    /// Where the record of each part begins in a staging buffer, in bytes.
    begins: [usize; 2],
}

impl LaneCoder {
    /// Makes a coder for states of `layout` that are cut into `parts`, with `buffers` staging buffers. `codec`
    /// makes a codec; there are `threads` of them, at most one for each lane.
    pub fn new(
        device: &mut (impl Device + ?Sized),
        layout: &Layout,
        parts: &Parts,
        [threads, buffers]: [u32; 2],
        codec: impl Fn() -> Result<SnapshotCodec>,
    ) -> Result<Self> {
        let of_part = |part: usize| {
            let places = parts.places(part, false);
            let places = places.map(|(field, at)| (field, at, layout.bytes[field])).collect();
            RawPart { places, bytes: parts.parts[part].bytes }
        };
        let coder = || -> Result<Coder> {
            let fields = with_room(layout.bytes.len())?;
            Ok(Coder { codec: codec()?, fields, taken: with_room(FRAMES)? })
        };
        let first = coder()?;
        let is_in_sequences = first.codec.is_in_sequences();
        let is_shared = first.codec.is_shared_by_threads();
        let capacity = first.codec.capacity() as u64;
        let begins = [0, 1].map(|part| first.codec.begin(part));
        let mut coders = vec![Mutex::new(first)];
        if threads > 1 && !is_in_sequences {
            coders.push(Mutex::new(coder()?));
        }
        if let Some(team) = device.team().filter(|_| is_shared) {
            team.grow(threads as usize)?;
            coders.iter_mut().try_for_each(|coder| {
                coder.get_mut().unwrap_or_else(PoisonError::into_inner).codec.join(team)
            })?;
        }
        let count = buffers_for(buffers, is_in_sequences) as usize;
        let buffers = (0..=count).map(|_| Ok(Mutex::new(Slab::new(capacity)?)));
        let shared = Shared {
            buffers: buffers.collect::<Result<_>>()?,
            made: (0..=count).map(|_| Mutex::new(Ok([0; 2]))).collect(),
            coders,
            parts: (0..parts.parts.len()).map(of_part).collect(),
            fault: Mutex::new(None),
        };
        let mut events = || (0..count).map(|_| device.event()).collect::<Result<_>>();
        let (made, placed) = (events()?, events()?);
        let taken = VecDeque::with_capacity(FRAMES);
        Ok(LaneCoder { shared: Arc::new(shared), made, placed, taken, is_in_sequences, begins })
    }

    /// Whether the records of states lean on those of later states.
    pub fn is_in_sequences(&self) -> bool {
        self.is_in_sequences
    }

    /// Forgets all states in sequence. The lanes have no work.
    pub fn forget(&mut self) {
        self.taken.clear();
        let mut coder = locked(&self.shared.coders[0]);
        coder.taken.clear();
        coder.codec.sequence().into_iter().for_each(Sequence::clear);
    }

    /// Makes of the record `from`, of part 0 of state `ts` in a sequence, one in the buffer of the calling
    /// thread that leans only on the states for which `is_kept` holds, and passes it to `sink`.
    pub fn lean_less(
        &self,
        ts: i64,
        from: &[u8],
        is_kept: impl Fn(i64) -> bool,
        sink: impl FnOnce(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut coder = locked(&self.shared.coders[0]);
        let mut buffer = locked(&self.shared.buffers[self.made.len()]);
        let made = coder.codec.lean_less(ts, from, is_kept, buffer.bytes_mut());
        let made = made.map_err(|e| e.within(format_args!("the snapshot of state {ts}")))?;
        sink(&buffer.bytes()[..made])
    }

    /// Number of the staging buffers of the lanes.
    pub fn buffers(&self) -> usize {
        self.made.len()
    }

    /// Where staging buffer number `k` is; the one behind the last is the calling thread's.
    pub fn buffer(&self, k: usize) -> Place {
        Place::App(locked(&self.shared.buffers[k]).memory())
    }

    /// Where the record of part `part` begins in staging buffer number `k`.
    pub fn record(&self, k: usize, part: usize) -> Place {
        let memory = locked(&self.shared.buffers[k]).memory();
        let begin = self.begins[part];
        // SAFETY: the record lies within the buffer, whose bytes stay where they are.
        Place::App(unsafe { AppMemory::new(memory.address().add(begin), memory.bytes() - begin) })
    }

    /// The event that the lane of downloads records when the record in staging buffer `k` has left it.
    pub fn placed(&self, k: usize) -> Event {
        self.placed[k]
    }

    /// Enqueues the compression of the raw record at `raw` into staging buffer `k` on the lane of downloads.
    pub fn compress(
        &mut self,
        device: &mut (impl Device + ?Sized),
        name: RecordName,
        k: usize,
        raw: Place,
    ) -> Result<()> {
        self.enqueue(device, Lane::Download, Work::Compress { name, raw, buffer: k })?;
        if !self.is_in_sequences || name.part != 0 {
            return device.record(Lane::Download, self.made[k]);
        }
        self.taken.push_back(k);
        match self.taken.len() == FRAMES {
            true => self.complete_oldest(device),
            false => Ok(()),
        }
    }

    /// Enqueues the completion of the oldest incomplete record.
    fn complete_oldest(&mut self, device: &mut (impl Device + ?Sized)) -> Result<()> {
        let Some(k) = self.taken.pop_front() else { return Ok(()) };
        self.enqueue(device, Lane::Download, Work::Complete { buffer: k })?;
        device.record(Lane::Download, self.made[k])
    }

    /// Enqueues the decompression of `bytes` bytes at `from` into the raw record at `raw`.
    pub fn decompress(
        &self,
        device: &mut (impl Device + ?Sized),
        lane: Lane,
        name: RecordName,
        (from, bytes): (Place, u64),
        raw: Place,
    ) -> Result<()> {
        self.enqueue(device, lane, Work::Decompress { name, from, bytes, raw })
    }

    fn enqueue(&self, device: &mut (impl Device + ?Sized), lane: Lane, work: Work) -> Result<()> {
        device.code(lane, RecordCoding { coder: self.shared.clone(), work })
    }

    /// Compresses the first `parts` parts of a state into the buffer of the calling thread.
    pub fn make(
        &self,
        device: &mut (impl Device + ?Sized),
        parts: usize,
        fields: &[AppMemory],
    ) -> Result<()> {
        let k = self.made.len();
        device.begin_coding(Coding::Compress, 1.0)?;
        // SAFETY: the fields are host memory, as promised for `AppMemory`.
        let made = unsafe { self.shared.compress_fields(parts, fields, k) };
        device.end_coding()?;
        *locked(&self.shared.made[k]) = made;
        Ok(())
    }

    /// Bytes of the record of each part in staging buffer `k`. Blocks the calling thread until they are known.
    pub fn size(&mut self, device: &mut (impl Device + ?Sized), k: usize) -> Result<[u64; 2]> {
        while self.taken.contains(&k) {
            self.complete_oldest(device)?;
        }
        self.made.get(k).map_or(Ok(()), |&event| device.wait(Lane::App, event))?;
        locked(&self.shared.made[k]).clone()
    }

    /// Lets every record have this number of bytes, for a device that compresses nothing.
    #[cfg(test)]
    pub fn assume(&self, bytes: u64) {
        self.shared.made.iter().for_each(|made| *locked(made) = Ok([bytes, 0]));
    }

    /// Decodes a record of state `ts`, `bytes` bytes at `from`, into the fields, in the calling thread.
    pub fn open(
        &self,
        device: &mut (impl Device + ?Sized),
        (ts, record): (i64, Record),
        (from, bytes): (Place, u64),
        fields: &[AppMemory],
    ) -> Result<()> {
        let from = device.pointer(from, bytes)?.cast::<u8>();
        device.begin_coding(Coding::Decompress, 1.0)?;
        // SAFETY: the record is readable, and no lane writes it before this call returns; the fields are
        // host memory, as promised for `AppMemory`.
        let opened = unsafe {
            let from = std::slice::from_raw_parts(from, bytes as usize);
            locked(&self.shared.coders[0]).codec.decompress_in_sequence(ts, record, from, fields)
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

/// Number of the staging buffers of the lanes beside a cache of `slots` records. In a sequence a record waits
/// for two later ones.
pub fn buffers_for(slots: u32, is_in_sequences: bool) -> u32 {
    let least = if is_in_sequences { FRAMES as u32 + 1 } else { 1 };
    slots.clamp(least, MOST_BUFFERS)
}

impl Shared {
    /// # Safety
    /// The fields are readable, and nobody else uses the buffer.
    unsafe fn compress_fields(
        &self,
        parts: usize,
        fields: &[AppMemory],
        k: usize,
    ) -> Result<[u64; 2]> {
        let mut coder = locked(&self.coders[0]);
        let mut buffer = locked(&self.buffers[k]);
        // SAFETY: by this function's contract.
        let made = unsafe { coder.codec.compress_parts(0..parts, fields, buffer.bytes_mut()) }?;
        Ok(made.map(|made| made as u64))
    }

    /// Lets `coder` name the fields of the raw record at `raw`, of part `part`. All others have no bytes.
    ///
    /// # Safety
    /// The promise of `AppMemory::new` holds for the bytes of the record.
    unsafe fn name_fields(&self, coder: &mut Coder, part: usize, raw: *mut u8) {
        coder.fields.clear();
        let fields: usize = self.parts.iter().map(|part| part.places.len()).sum();
        // SAFETY: no bytes are promised.
        coder.fields.resize(fields, unsafe { AppMemory::new(raw, 0) });
        for &(field, at, bytes) in &self.parts[part].places {
            // SAFETY: the field lies in the record.
            coder.fields[field] = unsafe { AppMemory::new(raw.add(at as usize), bytes as usize) };
        }
    }
}

impl CodesRecords for Shared {
    fn raw_bytes(&self, part: usize) -> u64 {
        self.parts[part].bytes
    }

    unsafe fn compress(&self, RecordName { ts, part }: RecordName, raw: *const u8, k: usize) {
        let made = {
            let mut coder = locked(&self.coders[0]);
            // SAFETY: by this function's contract; no field is written.
            unsafe { self.name_fields(&mut coder, part, raw.cast_mut()) };
            let Coder { codec, fields, taken } = &mut *coder;
            if codec.is_in_sequences() && part == 0 {
                let is_free = |of: i64| taken.iter().all(|&(_, ts)| of != ts);
                // SAFETY: the fields are those of the record.
                let result = unsafe { codec.take(ts, fields, is_free) };
                taken.push((k, ts));
                result.map(|()| [0; 2])
            } else {
                let mut to = locked(&self.buffers[k]);
                // SAFETY: the fields are those of the record.
                unsafe { codec.compress_parts(part..part + 1, fields, to.bytes_mut()) }
            }
        };
        *locked(&self.made[k]) = made.map(|made| made.map(|bytes| bytes as u64));
    }

    fn complete(&self, k: usize) {
        let mut coder = locked(&self.coders[0]);
        let Some(at) = coder.taken.iter().position(|&(of, _)| of == k) else { return };
        let (_, ts) = coder.taken.remove(at);
        let mut made = locked(&self.made[k]);
        if let (Ok(_), Some(sequence)) = (&*made, coder.codec.sequence()) {
            let mut to = locked(&self.buffers[k]);
            *made = sequence.complete(ts, to.bytes_mut()).map(|bytes| [bytes as u64, 0]);
        }
    }

    unsafe fn decompress(&self, RecordName { ts, part }: RecordName, coded: &[u8], raw: *mut u8) {
        let Some(coder) = self.coders.last() else { return };
        let mut coder = locked(coder);
        // SAFETY: by this function's contract.
        let opened = unsafe {
            self.name_fields(&mut coder, part, raw);
            let Coder { codec, fields, .. } = &mut *coder;
            codec.decompress_in_sequence(ts, Record::Part(part), coded, fields)
        };
        if let Err(error) = opened {
            let error = error.within(format_args!("the snapshot of state {ts}"));
            locked(&self.fault).get_or_insert(error);
        }
    }
}
