//! The snapshot coder compresses states into snapshots and decompresses them, on the device of the
//! tiers.
//!
//! On the host a snapshot is complete when the call returns. A GPU completes a snapshot later, so
//! the host does not know its size yet: the snapshot waits in one of a few staging buffers until a
//! later call asks for the size. Which call asks depends on the sequence of calls alone, never on
//! how far the GPU has come.

use super::lane_coder::LaneCoder;
use crate::codec::gpu::{GpuCodec, Report};
use crate::codec::{Record, Sequence, Settings, SnapshotCodec, FRAMES};
use crate::device::cuda::LockedMemory;
use crate::device::{discard, AppMemory, Coding, Device, Event, Lane, Place, Slab};
use crate::error::{fail, Error, Result};
use crate::layout::{aligned, Layout, Parts};
use std::collections::VecDeque;

/// Number of staging buffers on a GPU. With two buffers, the size of a snapshot is asked for at the
/// second save after the save that made the snapshot.
const BUFFERS: usize = 2;
/// Restores on a GPU whose reports may be unread.
const REPORTS: usize = 64;

/// A compressed record in a tier or in a staging buffer.
#[derive(Clone, Copy, Debug)]
pub struct CodedRecord {
    /// Where its bytes begin.
    pub place: Place,
    /// Number of bytes.
    pub bytes: u64,
    /// The part of a state whose fields are decoded.
    pub part: usize,
    /// Whether the record is part 0 of the state before, which is decoded into part 1.
    pub as_previous: bool,
}

impl CodedRecord {
    fn record(&self) -> Record {
        match self.as_previous {
            true => Record::AsPrevious,
            false => Record::Part(self.part),
        }
    }
}

/// Compresses and decompresses snapshots.
pub enum SnapshotCoder {
    /// On the calling thread.
    Host {
        /// The codec.
        codec: Box<SnapshotCodec>,
        /// The staging buffer.
        buffer: Slab,
        /// Bytes of the record of each part in the staging buffer.
        bytes: [u64; 2],
        /// States in sequence: those that are taken, each with the number of the staging buffer in which its
        /// record is to be completed.
        taken: Vec<(usize, i64)>,
    },
    /// On the transfer lanes of the host.
    Lanes(Box<LaneCoder>),
    /// On a GPU, by kernels.
    Gpu(Box<GpuCoder>),
    /// Nowhere: a prediction assumes that every snapshot has these bytes.
    Assumed {
        /// Bytes of the record of each part; with one part the second number is 0.
        bytes: [u64; 2],
    },
}

/// The share of a state that some of its parts are, by their compressed bytes.
fn share(all: &[u64; 2], some: &[u64]) -> f64 {
    some.iter().sum::<u64>() as f64 / all.iter().sum::<u64>().max(1) as f64
}

/// A snapshot coder on a GPU.
pub struct GpuCoder {
    codec: GpuCodec,
    /// Bytes of a staging buffer, and offset in bytes of the first staging buffer in the device
    /// slab.
    buffer_bytes: u64,
    at: u64,
    /// Page-locked reports, which kernels store: one for each staging buffer, then one for
    /// each restore under way.
    reports: LockedMemory,
    made: Vec<Event>,
    /// Restores whose reports are unread, oldest first: number of the report and time step of the
    /// state.
    restored: VecDeque<(usize, i64)>,
    read: Vec<Event>,
    next: usize,
}

impl SnapshotCoder {
    /// Makes a snapshot coder on the host.
    pub fn on_host(codec: SnapshotCodec) -> Result<Self> {
        Ok(SnapshotCoder::Host {
            buffer: Slab::new(codec.capacity() as u64)?,
            codec: Box::new(codec),
            bytes: [0; 2],
            taken: Vec::new(),
        })
    }

    /// Makes a snapshot coder on a GPU: compiles and loads the kernels, and allocates their work
    /// memory.
    pub fn on_gpu(
        device: &mut (impl Device + ?Sized),
        settings: &Settings,
        layout: &Layout,
        parts: &Parts,
    ) -> Result<Self> {
        if settings.sequences {
            return fail!(
                Unsupported,
                "sequences = 1 has no kernels: use sequences = 0 on CUDA, or the host backend"
            );
        }
        let buffer_bytes = Self::buffer_bytes(settings, layout)?;
        let mut made = None;
        device.run(&mut |queue, architecture| {
            let reports = LockedMemory::new(((BUFFERS + REPORTS) * size_of::<Report>()) as u64)?;
            made = Some((GpuCodec::new(settings, layout, parts, architecture, queue)?, reports));
            Ok(())
        })?;
        let Some((codec, reports)) = made else {
            return fail!(Unsupported, "the device has no kernels");
        };
        let mut gpu = Box::new(GpuCoder {
            codec,
            buffer_bytes,
            at: 0,
            reports,
            made: Vec::new(),
            restored: VecDeque::new(),
            read: Vec::new(),
            next: 0,
        });
        let events = gpu.make_events(device);
        let mut coder = SnapshotCoder::Gpu(gpu);
        events.inspect_err(|_| coder.close(device))?;
        Ok(coder)
    }

    /// Bytes of one staging buffer on a GPU.
    fn buffer_bytes(settings: &Settings, layout: &Layout) -> Result<u64> {
        Ok(aligned(SnapshotCodec::output_bytes(settings, layout)? as u64))
    }

    /// Bytes of device memory that a snapshot coder on a GPU takes in all.
    pub fn gpu_bytes(settings: &Settings, layout: &Layout) -> Result<u64> {
        let buffers = Self::buffer_bytes(settings, layout)?.saturating_mul(BUFFERS as u64);
        Ok(buffers.saturating_add(GpuCodec::bytes_for(settings, layout)?))
    }

    fn gpu(&self) -> Option<&GpuCoder> {
        match self {
            SnapshotCoder::Gpu(gpu) => Some(gpu),
            _ => None,
        }
    }

    /// The coder of the transfer lanes, if these code.
    pub fn lanes(&self) -> Option<&LaneCoder> {
        match self {
            SnapshotCoder::Lanes(lanes) => Some(lanes),
            _ => None,
        }
    }

    /// As `lanes`, to give these work.
    pub fn lanes_mut(&mut self) -> Option<&mut LaneCoder> {
        match self {
            SnapshotCoder::Lanes(lanes) => Some(lanes),
            _ => None,
        }
    }

    /// Bytes of the device slab that the staging buffers take.
    pub fn device_bytes(&self) -> u64 {
        self.gpu().map_or(0, |gpu| BUFFERS as u64 * gpu.buffer_bytes)
    }

    /// Bytes of device memory that the coder has allocated itself, outside the device slab.
    pub fn own_bytes(&self) -> u64 {
        self.gpu().map_or(0, |gpu| gpu.codec.bytes())
    }

    /// Sets the offset `at`, in bytes, of the first staging buffer in the device slab.
    pub fn settle_at(&mut self, at: u64) {
        if let SnapshotCoder::Gpu(gpu) = self {
            gpu.at = at;
        }
    }

    /// How many snapshots may wait in staging buffers before the size of the first one is asked
    /// for.
    pub fn lag(&self) -> usize {
        match self {
            SnapshotCoder::Gpu(_) => BUFFERS,
            SnapshotCoder::Lanes(lanes) => lanes.buffers(),
            SnapshotCoder::Host { codec, .. } if codec.is_in_sequences() => FRAMES - 1,
            SnapshotCoder::Host { .. } | SnapshotCoder::Assumed { .. } => 0,
        }
    }

    /// How many snapshots may be in staging buffers.
    pub fn buffers(&self) -> usize {
        match self {
            SnapshotCoder::Lanes(lanes) => lanes.buffers(),
            _ => self.lag().max(1) + usize::from(self.is_in_sequences()),
        }
    }

    /// Whether the records of states lean on those of later states.
    pub fn is_in_sequences(&self) -> bool {
        match self {
            SnapshotCoder::Host { codec, .. } => codec.is_in_sequences(),
            SnapshotCoder::Lanes(lanes) => lanes.is_in_sequences(),
            _ => false,
        }
    }

    /// Whether the record in staging buffer `k` waits for those of later states.
    pub fn is_taken(&self, k: usize) -> bool {
        matches!(self, SnapshotCoder::Host { taken, .. } if taken.iter().any(|&(of, _)| of == k))
    }

    /// Whether the coder finds errors of a restore only after the restore has returned.
    pub fn is_checked_later(&self) -> bool {
        matches!(self, SnapshotCoder::Lanes(_) | SnapshotCoder::Gpu(_))
    }

    /// Forgets all states in sequence. The device has no work.
    pub fn forget(&mut self) {
        match self {
            SnapshotCoder::Host { codec, taken, .. } => {
                taken.clear();
                codec.sequence().into_iter().for_each(Sequence::clear);
            }
            SnapshotCoder::Lanes(lanes) => lanes.forget(),
            _ => {}
        }
    }

    /// Makes of the record `from`, of part 0 of state `ts` in a sequence, one that leans only on the states for
    /// which `is_kept` holds, and passes it to `sink`. The device has no work.
    pub fn lean_less(
        &mut self,
        ts: i64,
        from: &[u8],
        is_kept: impl Fn(i64) -> bool,
        sink: impl FnOnce(&[u8]) -> Result<()>,
    ) -> Result<()> {
        match self {
            SnapshotCoder::Host { codec, buffer, .. } => {
                let made = codec.lean_less(ts, from, is_kept, buffer.bytes_mut());
                sink(&buffer.bytes()[..made.map_err(|e| of_state(e, ts))?])
            }
            SnapshotCoder::Lanes(lanes) => lanes.lean_less(ts, from, is_kept, sink),
            _ => fail!(State, "no sequence"),
        }
    }

    /// Staging buffer number `k`.
    pub fn buffer(&self, k: usize) -> Place {
        match self {
            SnapshotCoder::Host { buffer, .. } => Place::App(buffer.memory()),
            SnapshotCoder::Lanes(lanes) => lanes.buffer(k),
            SnapshotCoder::Gpu(gpu) => Place::Device(gpu.at + k as u64 * gpu.buffer_bytes),
            SnapshotCoder::Assumed { .. } => Place::Device(0),
        }
    }

    /// Where the record of part `part` begins in staging buffer number `k`.
    pub fn record(&self, k: usize, part: usize) -> Place {
        match self {
            SnapshotCoder::Host { codec, buffer, .. } => {
                let memory = buffer.memory();
                let begin = codec.begin(part);
                // SAFETY: the record lies within the buffer, whose bytes stay where they are.
                Place::App(unsafe {
                    AppMemory::new(memory.address().add(begin), memory.bytes() - begin)
                })
            }
            SnapshotCoder::Gpu(gpu) => self.buffer(k).plus(gpu.codec.begin(part)),
            SnapshotCoder::Lanes(lanes) => lanes.record(k, part),
            SnapshotCoder::Assumed { .. } => self.buffer(k),
        }
    }

    /// Compresses the first `parts` parts of the fields of state `ts` into staging buffer `k`, on the
    /// application's lane.
    pub fn make(
        &mut self,
        device: &mut (impl Device + ?Sized),
        k: usize,
        (ts, parts): (i64, usize),
        fields: &[AppMemory],
    ) -> Result<()> {
        let buffer = self.buffer(k);
        match self {
            SnapshotCoder::Host { codec, taken, .. } if codec.is_in_sequences() && parts == 1 => {
                device.begin_coding(Coding::Compress, 1.0)?;
                let is_free = |of: i64| taken.iter().all(|&(_, ts)| of != ts);
                // SAFETY: the fields are host memory, checked against the session's device, as
                // promised for `AppMemory`.
                unsafe { codec.take(ts, fields, is_free) }?;
                taken.push((k, ts));
                device.end_coding()
            }
            SnapshotCoder::Host { codec, buffer, bytes, .. } => {
                device.begin_coding(Coding::Compress, 1.0)?;
                // SAFETY: the fields are host memory, checked against the session's device, as
                // promised for `AppMemory`.
                let made = unsafe { codec.compress_parts(0..parts, fields, buffer.bytes_mut()) }?;
                *bytes = made.map(|bytes| bytes as u64);
                device.end_coding()
            }
            SnapshotCoder::Lanes(lanes) => lanes.make(device, parts, fields),
            SnapshotCoder::Gpu(gpu) => {
                let buffer = device.pointer(buffer, gpu.buffer_bytes)? as u64;
                let queue = device.launches(Lane::App)?;
                device.begin_coding(Coding::Compress, 1.0)?;
                gpu.codec.compress(&queue, parts, &addresses(fields), buffer, gpu.report(k))?;
                device.end_coding()?;
                device.record(Lane::App, gpu.made[k])
            }
            SnapshotCoder::Assumed { bytes } => {
                device.begin_coding(Coding::Compress, share(bytes, &bytes[..parts]))?;
                device.end_coding()
            }
        }
    }

    /// Bytes of the record of each part in staging buffer `k`. Blocks the calling thread until the
    /// GPU has made the records.
    pub fn size(&mut self, device: &mut (impl Device + ?Sized), k: usize) -> Result<[u64; 2]> {
        match self {
            SnapshotCoder::Host { codec, buffer, bytes, taken } => {
                let waits = taken.iter().position(|&(of, _)| of == k);
                if let (Some(at), Some(sequence)) = (waits, codec.sequence()) {
                    let (_, ts) = taken.remove(at);
                    device.begin_coding(Coding::Compress, 1.0)?;
                    *bytes = [sequence.complete(ts, buffer.bytes_mut())? as u64, 0];
                    device.end_coding()?;
                }
                Ok(*bytes)
            }
            SnapshotCoder::Assumed { bytes } => Ok(*bytes),
            SnapshotCoder::Lanes(lanes) => lanes.size(device, k),
            SnapshotCoder::Gpu(gpu) => {
                device.finish(gpu.made[k])?;
                gpu.read_report(k).check_made()
            }
        }
    }

    /// Decodes a record of state `ts` into the fields of its part, on the application's lane. The
    /// fields of part 0 of a state must be decoded before those of part 1.
    pub fn open(
        &mut self,
        device: &mut (impl Device + ?Sized),
        ts: i64,
        coded: CodedRecord,
        fields: &[AppMemory],
    ) -> Result<()> {
        match self {
            SnapshotCoder::Host { codec, buffer, .. } => {
                let bytes = coded.bytes;
                let from = match coded.place {
                    Place::App(_) => &buffer.bytes()[..bytes as usize],
                    // SAFETY: `from` is `bytes` bytes of the device slab, which is host memory on
                    // this backend. These bytes hold the snapshot, and no lane writes them before
                    // this call returns.
                    from => unsafe {
                        let address = device.pointer(from, bytes)?.cast::<u8>();
                        std::slice::from_raw_parts(address, bytes as usize)
                    },
                };
                device.begin_coding(Coding::Decompress, 1.0)?;
                // SAFETY: the fields are host memory, checked against the session's device, as
                // promised for `AppMemory`.
                unsafe {
                    let of = ts - i64::from(coded.as_previous);
                    codec.decompress_in_sequence(of, coded.record(), from, fields)
                }
                .map_err(|e| of_state(e, ts))?;
                device.end_coding()
            }
            SnapshotCoder::Lanes(lanes) => {
                let name = (ts - i64::from(coded.as_previous), coded.record());
                let from = (coded.place, coded.bytes);
                lanes.open(device, name, from, fields).map_err(|e| of_state(e, ts))
            }
            SnapshotCoder::Gpu(gpu) => gpu.open(device, ts, coded, fields),
            SnapshotCoder::Assumed { bytes } => {
                let part = &bytes[coded.part..=coded.part];
                device.begin_coding(Coding::Decompress, share(bytes, part))?;
                device.end_coding()
            }
        }
    }

    /// Fails if the kernels of a restore so far reported an error. The device must have ended all
    /// restores.
    pub fn check(&mut self) -> Result<()> {
        self.lanes().map_or(Ok(()), LaneCoder::check)?;
        let SnapshotCoder::Gpu(gpu) = self else { return Ok(()) };
        while let Some((k, ts)) = gpu.restored.pop_front() {
            gpu.read_report(BUFFERS + k).check().map_err(|e| of_state(e, ts))?;
        }
        Ok(())
    }

    /// Releases the kernels and the reports. No other function may be called afterwards.
    pub fn close(&mut self, device: &mut (impl Device + ?Sized)) {
        if let SnapshotCoder::Gpu(_) = self {
            discard(device, std::mem::replace(self, SnapshotCoder::Assumed { bytes: [0; 2] }));
        }
    }
}

impl GpuCoder {
    /// Makes the events of the staging buffers and the reports.
    fn make_events(&mut self, device: &mut (impl Device + ?Sized)) -> Result<()> {
        for (events, count) in [(&mut self.made, BUFFERS), (&mut self.read, REPORTS)] {
            for _ in 0..count {
                events.push(device.event()?);
            }
        }
        Ok(())
    }

    fn report(&self, k: usize) -> u64 {
        self.reports.address() + (k * size_of::<Report>()) as u64
    }

    fn read_report(&self, k: usize) -> Report {
        // SAFETY: the report lies within the allocation and is aligned. The kernel that wrote the
        // report has ended, as the caller made sure.
        unsafe { (self.report(k) as *const Report).read_volatile() }
    }

    fn open(
        &mut self,
        device: &mut (impl Device + ?Sized),
        ts: i64,
        coded: CodedRecord,
        fields: &[AppMemory],
    ) -> Result<()> {
        // Reads the report of the restore that was `REPORTS` restores ago, so that its memory is
        // free.
        if let Some((k, ts)) =
            self.restored.front().copied().filter(|_| self.restored.len() == REPORTS)
        {
            self.restored.pop_front();
            device.finish(self.read[k])?;
            self.read_report(BUFFERS + k).check().map_err(|e| of_state(e, ts))?;
        }
        let from = (device.pointer(coded.place, coded.bytes)? as u64, coded.bytes);
        let queue = device.launches(Lane::App)?;
        let k = self.next % REPORTS;
        device.begin_coding(Coding::Decompress, 1.0)?;
        let report = self.report(BUFFERS + k);
        self.codec.decompress(&queue, coded.record(), from, &addresses(fields), report)?;
        device.end_coding()?;
        device.record(Lane::App, self.read[k])?;
        self.restored.push_back((k, ts));
        self.next += 1;
        Ok(())
    }
}

fn addresses(fields: &[AppMemory]) -> Vec<u64> {
    fields.iter().map(|memory| memory.address() as u64).collect()
}

fn of_state(error: Error, ts: i64) -> Error {
    error.within(format_args!("the snapshot of state {ts}"))
}
