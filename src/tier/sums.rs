//! Checksums of levels, with which a SAVE checks that the previous level of its state is the level of
//! the state that the application saved or restored one time step before. There is one checksum for each
//! field that has a previous level: of the last state alone.

use crate::codec::checksum;
use crate::codec::gpu::FieldSum;
use crate::device::{discard, AppMemory, Device, Lane, Place};
use crate::error::{fail, Result};
use crate::layout::aligned;

/// Computes checksums of levels and compares them.
pub enum Sums {
    /// On the calling thread.
    Host(HostSums),
    /// On a GPU, by a kernel.
    Gpu(Box<GpuSums>),
    /// Nowhere: a prediction compares nothing.
    Absent,
}

/// Checksums on the calling thread.
pub struct HostSums {
    /// Number of checksums.
    count: usize,
    /// Those of the last state; none if they are not known.
    known: Vec<u64>,
}

/// Checksums on a GPU.
pub struct GpuSums {
    sum: FieldSum,
    /// Number of checksums.
    count: usize,
    /// Offset in bytes of the work memory in the device slab.
    at: u64,
    /// Whether the checksums are those of the last state.
    is_known: bool,
    /// Whether a comparison was enqueued since `check` last read the verdict.
    is_asked: bool,
}

/// Offsets in bytes within the work memory, after the part that the kernel uses: the verdict (0, or
/// the name of a field that differs), and the checksums.
const VERDICT: u64 = FieldSum::WORK;
const SUMS: u64 = VERDICT + 8;

/// Bytes of a field with strides between its rows that are gathered at a time. A multiple of the
/// checksum's word of 8 bytes.
const PIECE: usize = 1 << 14;

impl Sums {
    /// Makes `count` checksums on the host.
    pub fn on_host(count: usize) -> Self {
        Sums::Host(HostSums { count, known: Vec::new() })
    }

    /// Makes `count` checksums on a GPU: compiles and loads the kernel.
    pub fn on_gpu(device: &mut (impl Device + ?Sized), count: usize) -> Result<Self> {
        let mut sum = None;
        device.run(&mut |_, architecture| {
            sum = Some(FieldSum::new(architecture)?);
            Ok(())
        })?;
        let Some(sum) = sum else { return fail!(Unsupported, "the device has no kernels") };
        Ok(Sums::Gpu(Box::new(GpuSums { sum, count, at: 0, is_known: false, is_asked: false })))
    }

    /// Bytes of the device slab that the checksums need.
    pub fn device_bytes(&self) -> u64 {
        match self {
            Sums::Host(_) | Sums::Absent => 0,
            Sums::Gpu(gpu) => Self::bytes_on_gpu(gpu.count),
        }
    }

    /// Bytes of the device slab that `count` checksums on a GPU need.
    pub fn bytes_on_gpu(count: usize) -> u64 {
        aligned(SUMS + 8 * count as u64)
    }

    /// Sets the offset `at`, in bytes, of the work memory in the device slab, and enqueues its
    /// clearing.
    pub fn settle_at(&mut self, device: &mut (impl Device + ?Sized), at: u64) -> Result<()> {
        let Sums::Gpu(gpu) = self else { return Ok(()) };
        gpu.at = at;
        let bytes = Self::bytes_on_gpu(gpu.count);
        let address = device.pointer(Place::Device(at), bytes)? as u64;
        device.run(&mut |queue, _| queue.fill(address, 0, bytes))
    }

    /// Keeps the checksum of `field` as number `k`, on the application's lane.
    pub fn keep(
        &mut self,
        device: &mut (impl Device + ?Sized),
        k: usize,
        field: AppMemory,
    ) -> Result<()> {
        match self {
            Sums::Absent => Ok(()),
            Sums::Host(HostSums { count, known }) => {
                known.resize(*count, 0);
                known[k] = of_host(field);
                Ok(())
            }
            Sums::Gpu(gpu) => {
                gpu.is_known = true;
                let to = device.pointer(gpu.place(k), 8)? as u64;
                gpu.enqueue(device, field, [to, 0, 0, 0])
            }
        }
    }

    /// Forgets the checksums: they are not those of the last state.
    pub fn forget(&mut self) {
        match self {
            Sums::Absent => {}
            Sums::Host(sums) => sums.known.clear(),
            Sums::Gpu(gpu) => gpu.is_known = false,
        }
    }

    /// Compares the checksum of `field`, which is field number `i` of state `ts`, with checksum number
    /// `k`, if that is known: an application that works in the slots has levels without checksums, and another
    /// session may go on from its restart files. On the host a difference is an error of this call, on a GPU of
    /// a later `check`.
    pub fn compare(
        &mut self,
        device: &mut (impl Device + ?Sized),
        k: usize,
        field: AppMemory,
        ts: i64,
        i: usize,
    ) -> Result<()> {
        match self {
            Sums::Absent => Ok(()),
            Sums::Host(sums) => match sums.known.get(k) {
                Some(&sum) if sum != of_host(field) => refuse(ts, i),
                _ => Ok(()),
            },
            Sums::Gpu(gpu) if !gpu.is_known => Ok(()),
            Sums::Gpu(gpu) => {
                let with = device.pointer(gpu.place(k), 8)? as u64;
                let verdict = device.pointer(Place::Device(gpu.at + VERDICT), 8)? as u64;
                gpu.is_asked = true;
                gpu.enqueue(device, field, [0, with, verdict, name(ts, i)])
            }
        }
    }

    /// Returns the checksums, for a restart file; none if they are not known. The lanes have no work.
    pub fn words(&self, device: &mut (impl Device + ?Sized)) -> Result<Vec<u64>> {
        match self {
            Sums::Absent => Ok(Vec::new()),
            Sums::Host(sums) => Ok(sums.known.clone()),
            Sums::Gpu(gpu) if !gpu.is_known => Ok(Vec::new()),
            Sums::Gpu(gpu) => {
                let mut bytes = vec![0; 8 * gpu.count];
                device.read(gpu.place(0), &mut bytes)?;
                Ok(bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect())
            }
        }
    }

    /// Takes the checksums of a restart file. The lanes have no work.
    pub fn take(&mut self, device: &mut (impl Device + ?Sized), words: &[u64]) -> Result<()> {
        let is_unknown = words.iter().all(|&word| word == 0);
        match self {
            // Older files have zeros for checksums that are not known.
            Sums::Host(sums) if is_unknown => sums.known.clear(),
            Sums::Gpu(gpu) if is_unknown => gpu.is_known = false,
            Sums::Host(sums) if sums.count == words.len() => sums.known = words.to_vec(),
            Sums::Gpu(gpu) if gpu.count == words.len() => {
                gpu.is_known = true;
                let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                device.write(gpu.place(0), &bytes)?;
            }
            Sums::Absent => {}
            _ => return fail!(Stream, "the position of the shot has {} checksums of levels, and not those of this session", words.len()),
        }
        Ok(())
    }

    /// Fails if a comparison since the previous call found a difference. The device must have ended
    /// all comparisons.
    pub fn check(&mut self, device: &mut (impl Device + ?Sized)) -> Result<()> {
        let Sums::Gpu(gpu) = self else { return Ok(()) };
        if !std::mem::take(&mut gpu.is_asked) {
            return Ok(());
        }
        let verdict = device.pointer(Place::Device(gpu.at + VERDICT), 8)? as u64;
        let mut name = 0u64;
        device.run(&mut |queue, _| {
            queue.copy(&raw mut name as u64, verdict, 8)?;
            queue.fill(verdict, 0, 8)
        })?;
        match name {
            0 => Ok(()),
            name => refuse((name >> 16) as i64, (name & 0xffff) as usize - 1),
        }
    }

    /// Releases the kernel. No other function may be called afterwards.
    pub fn close(&mut self, device: &mut (impl Device + ?Sized)) {
        if let Sums::Gpu(_) = self {
            discard(device, std::mem::replace(self, Sums::Absent));
        }
    }
}

impl GpuSums {
    /// The place of checksum number `k`.
    fn place(&self, k: usize) -> Place {
        Place::Device(self.at + SUMS + 8 * k as u64)
    }

    fn enqueue(
        &self,
        device: &(impl Device + ?Sized),
        field: AppMemory,
        what: [u64; 4],
    ) -> Result<()> {
        let work = device.pointer(Place::Device(self.at), FieldSum::WORK)? as u64;
        let (queue, bytes) = (device.launches(Lane::App)?, field.bytes() as u64);
        self.sum.enqueue(&queue, field.address() as u64, bytes, work, what)
    }
}

/// Names field `i` of state `ts` by a number that is not 0. A state has at most 1024 fields.
fn name(ts: i64, i: usize) -> u64 {
    (ts as u64) << 16 | (i as u64 + 1)
}

fn of_host(field: AppMemory) -> u64 {
    if field.rows().is_contiguous() {
        // SAFETY: host memory of the application, valid as `AppMemory` promises.
        return checksum(unsafe { std::slice::from_raw_parts(field.address(), field.bytes()) }, 0);
    }
    let (mut piece, mut sum) = ([0; PIECE], 0u64);
    // SAFETY: host memory of the application, valid as `AppMemory` promises.
    unsafe {
        field.rows().pieces(field.address(), &mut piece, |piece, before| {
            sum = sum.wrapping_add(checksum(piece, before as u64 / 8))
        })
    };
    sum
}

fn refuse(ts: i64, i: usize) -> Result<()> {
    fail!(
        Values,
        "shared_levels = 1: field {i} of state {ts} is not what the field that it is the previous level of was in state {}; use 0 if steps or \
         sources change it afterwards",
        ts - 1
    )
}
