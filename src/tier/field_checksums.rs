//! Checksums of fields, with which a SAVE checks that a field of this state equals a field of
//! another state. A snapshot's checksums lie in its slot.

use crate::codec::checksum;
use crate::codec::gpu::FieldSum;
use crate::device::{AppMemory, Device, Lane, Place};
use crate::error::{fail, Result};
use crate::layout::Levels;

/// Computes checksums of fields and compares them with stored checksums.
pub enum FieldChecksums {
    /// On the calling thread.
    Host,
    /// On a GPU, by a kernel.
    Gpu(Box<GpuChecksums>),
    /// Nowhere: a prediction compares nothing.
    Absent,
}

/// Checksums on a GPU.
pub struct GpuChecksums {
    sum: Option<FieldSum>,
    /// Offset in bytes of the work memory in the device slab.
    at: u64,
    /// Whether a comparison was enqueued since `check` last read the verdict.
    is_asked: bool,
}

/// Offsets in bytes within the work memory, after the part that the kernel uses: the verdict (0, or
/// the name of a field that differs), and a checksum on its way to or from the host pool.
const VERDICT: u64 = FieldSum::WORK;
const PASSING: u64 = VERDICT + 8;

/// Bytes of a field with strides between its rows that are gathered at a time. A multiple of the
/// checksum's word of 8 bytes.
const PIECE: usize = 1 << 14;

impl FieldChecksums {
    /// Makes checksums on a GPU: compiles and loads the kernel.
    pub fn on_gpu(device: &mut dyn Device) -> Result<Self> {
        let mut sum = None;
        device.run(&mut |_, architecture| {
            sum = Some(FieldSum::new(architecture)?);
            Ok(())
        })?;
        Ok(FieldChecksums::Gpu(Box::new(GpuChecksums { sum, at: 0, is_asked: false })))
    }

    /// Bytes of the device slab that the checksums need.
    pub fn device_bytes(&self) -> u64 {
        match self {
            FieldChecksums::Host | FieldChecksums::Absent => 0,
            FieldChecksums::Gpu(_) => Levels::WORK_BYTES,
        }
    }

    /// Sets the offset `at`, in bytes, of the work memory in the device slab, and enqueues its
    /// clearing.
    pub fn settle_at(&mut self, device: &mut dyn Device, at: u64) -> Result<()> {
        let FieldChecksums::Gpu(gpu) = self else { return Ok(()) };
        gpu.at = at;
        let address = device.pointer(Place::Device(at), Levels::WORK_BYTES)? as u64;
        device.run(&mut |queue, _| queue.fill(address, 0, Levels::WORK_BYTES))
    }

    /// Stores the checksum of `field` at `to`, on the application's lane. A copy of 8 bytes would queue
    /// behind the chunks of write-backs and prefetches: in the host pool the kernel itself writes and
    /// reads checksums, as far as the pool is page-locked.
    pub fn keep(&mut self, device: &mut dyn Device, field: AppMemory, to: Place) -> Result<()> {
        match (self, to) {
            (FieldChecksums::Absent, _) => Ok(()),
            (FieldChecksums::Host, _) => {
                let word = device.pointer(to, 8)?.cast::<u64>();
                // SAFETY: on the host backend `to` is host memory: eight aligned bytes of a slab,
                // which no other lane uses now.
                unsafe { word.write(of_host(field)) };
                Ok(())
            }
            (FieldChecksums::Gpu(gpu), _) if device.is_for_kernels(to, 8) => {
                gpu.enqueue(device, field, [device.pointer(to, 8)? as u64, 0, 0, 0])
            }
            (FieldChecksums::Gpu(gpu), _) => {
                let passing = Place::Device(gpu.at + PASSING);
                gpu.enqueue(device, field, [device.pointer(passing, 8)? as u64, 0, 0, 0])?;
                device.copy(Lane::App, to, passing, 8)
            }
        }
    }

    /// Compares the checksum of `field`, which is field number `i` of state `ts`, with the checksum
    /// stored at `with`. On the host a difference is an error of this call, on a GPU of a later
    /// `check`.
    pub fn compare(
        &mut self,
        device: &mut dyn Device,
        field: AppMemory,
        with: Place,
        ts: i64,
        i: usize,
    ) -> Result<()> {
        let gpu = match self {
            FieldChecksums::Absent => return Ok(()),
            FieldChecksums::Host => {
                let word = device.pointer(with, 8)?.cast::<u64>();
                // SAFETY: on the host backend `with` is eight aligned bytes of a slab, which no
                // other lane writes now.
                return if unsafe { word.read() } == of_host(field) {
                    Ok(())
                } else {
                    refuse(ts, i)
                };
            }
            FieldChecksums::Gpu(gpu) => gpu,
        };
        let with = match device.is_for_kernels(with, 8) {
            true => with,
            false => {
                let passing = Place::Device(gpu.at + PASSING);
                device.copy(Lane::App, passing, with, 8)?;
                passing
            }
        };
        let [with, verdict] =
            [with, Place::Device(gpu.at + VERDICT)].map(|place| device.pointer(place, 8));
        gpu.is_asked = true;
        gpu.enqueue(device, field, [0, with? as u64, verdict? as u64, name(ts, i)])
    }

    /// Fails if a comparison since the previous call found a difference. The device must have ended
    /// all comparisons.
    pub fn check(&mut self, device: &mut dyn Device) -> Result<()> {
        let FieldChecksums::Gpu(gpu) = self else { return Ok(()) };
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

    /// Releases the kernel.
    pub fn close(&mut self, device: &mut dyn Device) {
        let FieldChecksums::Gpu(gpu) = self else { return };
        let mut sum = gpu.sum.take();
        let closed = device.release(&mut || drop(sum.take()));
        if closed.is_err() {
            // Without the context there is no driver call that could release the module, and a
            // forked child must not call the driver.
            sum.into_iter().for_each(FieldSum::forget);
        }
    }
}

impl GpuChecksums {
    fn enqueue(&self, device: &dyn Device, field: AppMemory, what: [u64; 4]) -> Result<()> {
        let Some(sum) = &self.sum else { return fail!(State, "no checksums") };
        let work = device.pointer(Place::Device(self.at), FieldSum::WORK)? as u64;
        sum.enqueue(
            &device.launches(Lane::App)?,
            field.address() as u64,
            field.bytes() as u64,
            work,
            what,
        )
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
