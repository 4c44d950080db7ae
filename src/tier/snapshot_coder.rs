//! What makes compressed snapshots on the device of the tiers, and takes them apart.
//!
//! On the host that is done when the call returns. A GPU does it later, so that nobody knows the
//! size of a snapshot yet: it stays in one of a few stages until later calls want to know, and by
//! then it is there. What those calls do depends on which calls they are, never on how
//! far the device has come.

use crate::codec::gpu::{GpuCodec, Report};
use crate::codec::{Settings, SnapshotCodec};
use crate::device::cuda::HostSlab;
use crate::device::{AppMemory, Coding, Device, Event, Lane, Place, Slab};
use crate::error::{fail, Error, Result};
use crate::layout::{Layout, ALIGNMENT};
use std::collections::VecDeque;

/// Snapshots that may be on their way, each in its stage: with two, what a save made is asked for
/// at the second save behind it.
const STAGES: usize = 2;
/// Reports of restores that may not have been read yet.
const REPORTS: usize = 64;

/// Makes and reads snapshots.
pub enum SnapshotCoder {
    /// On the calling thread.
    Host {
        /// The codec.
        codec: Box<SnapshotCodec>,
        /// Where snapshots are made.
        stage: Slab,
        /// Bytes of the one that is there.
        bytes: u64,
    },
    /// By kernels.
    Gpu(Box<GpuCoder>),
}

/// The state of a coder on a GPU.
pub struct GpuCoder {
    codec: Option<GpuCodec>,
    /// Bytes of a stage, and where the first one is in the device slab.
    room: u64,
    at: u64,
    /// Page-locked reports: of the stages, then of restores.
    reports: HostSlab,
    made: Vec<Event>,
    /// Restores whose reports have not been read, oldest first: place among the reports, and
    /// state.
    restored: VecDeque<(usize, i64)>,
    read: Vec<Event>,
    next: usize,
}

impl SnapshotCoder {
    /// On the host.
    pub fn on_host(codec: SnapshotCodec) -> Result<Self> {
        Ok(SnapshotCoder::Host {
            stage: Slab::new(codec.room() as u64)?,
            codec: Box::new(codec),
            bytes: 0,
        })
    }

    /// On a GPU: compiles and loads the kernels, and takes what memory they work in.
    pub fn on_gpu(device: &mut dyn Device, settings: &Settings, layout: &Layout) -> Result<Self> {
        let room = Self::stage_bytes(settings, layout)?;
        let mut coder = None;
        device.run(&mut |queue, architecture| {
            let reports = HostSlab::new(((STAGES + REPORTS) * size_of::<Report>()) as u64)?;
            let codec = Some(GpuCodec::new(settings, layout, architecture, queue)?);
            let (made, read, restored) = (Vec::new(), Vec::new(), VecDeque::new());
            coder = Some(GpuCoder { codec, room, at: 0, reports, made, restored, read, next: 0 });
            Ok(())
        })?;
        let Some(mut coder) = coder else { return fail!(Unsupported, "the device has no kernels") };
        for events in [(&mut coder.made, STAGES), (&mut coder.read, REPORTS)] {
            for _ in 0..events.1 {
                events.0.push(device.event()?);
            }
        }
        Ok(SnapshotCoder::Gpu(Box::new(coder)))
    }

    /// Bytes of one stage on a GPU.
    fn stage_bytes(settings: &Settings, layout: &Layout) -> Result<u64> {
        Ok((SnapshotCodec::new(settings.clone(), layout)?.room() as u64)
            .next_multiple_of(ALIGNMENT))
    }

    /// Bytes of device memory that one on a GPU has.
    pub fn gpu_bytes(settings: &Settings, layout: &Layout) -> Result<u64> {
        let stages = Self::stage_bytes(settings, layout)?.saturating_mul(STAGES as u64);
        Ok(stages.saturating_add(GpuCodec::bytes_for(settings, layout)?))
    }

    /// Bytes of the device slab that it needs.
    pub fn device_bytes(&self) -> u64 {
        match self {
            SnapshotCoder::Host { .. } => 0,
            SnapshotCoder::Gpu(gpu) => STAGES as u64 * gpu.room,
        }
    }

    /// Bytes of device memory that it has beside those.
    pub fn own_bytes(&self) -> u64 {
        match self {
            SnapshotCoder::Host { .. } => 0,
            SnapshotCoder::Gpu(gpu) => gpu.codec.as_ref().map_or(0, GpuCodec::bytes),
        }
    }

    /// Tells where in the device slab its bytes begin.
    pub fn settle_at(&mut self, at: u64) {
        if let SnapshotCoder::Gpu(gpu) = self {
            gpu.at = at;
        }
    }

    /// How many snapshots may be made before the size of the first one is asked for.
    pub fn lag(&self) -> usize {
        match self {
            SnapshotCoder::Host { .. } => 0,
            SnapshotCoder::Gpu(_) => STAGES,
        }
    }

    /// Where a snapshot is made.
    pub fn stage(&self, k: usize) -> Place {
        match self {
            SnapshotCoder::Host { stage, .. } => Place::App(stage.memory()),
            SnapshotCoder::Gpu(gpu) => Place::Device(gpu.at + k as u64 * gpu.room),
        }
    }

    /// Makes a snapshot of the fields in stage `k`, on the application's lane.
    pub fn make(&mut self, device: &mut dyn Device, k: usize, fields: &[AppMemory]) -> Result<()> {
        let stage = self.stage(k);
        match self {
            SnapshotCoder::Host { codec, stage, bytes } => {
                device.begin_coding(Coding::Compress)?;
                // SAFETY: the fields are host memory, checked against the session's device, as
                // promised for `AppMemory`.
                *bytes = unsafe { codec.compress(fields, stage.bytes_mut()) }? as u64;
                device.end_coding()
            }
            SnapshotCoder::Gpu(gpu) => {
                let stage = device.pointer(stage, gpu.room)? as u64;
                let Some(codec) = &gpu.codec else { return fail!(State, "no codec") };
                let queue = device.launches(Lane::App)?;
                device.begin_coding(Coding::Compress)?;
                codec.compress(&queue, &addresses(fields), stage)?;
                device.end_coding()?;
                queue.copy(gpu.report(k), codec.report(), size_of::<Report>() as u64)?;
                device.record(Lane::App, gpu.made[k])
            }
        }
    }

    /// Bytes of the snapshot in stage `k`. Blocks the calling thread until it is made.
    pub fn size(&mut self, device: &mut dyn Device, k: usize) -> Result<u64> {
        match self {
            SnapshotCoder::Host { bytes, .. } => Ok(*bytes),
            SnapshotCoder::Gpu(gpu) => {
                device.finish(gpu.made[k])?;
                gpu.read_report(k)?.check()
            }
        }
    }

    /// Decodes a snapshot in device memory into the fields, on the application's lane.
    pub fn open(
        &mut self,
        device: &mut dyn Device,
        ts: i64,
        from: Place,
        bytes: u64,
        fields: &[AppMemory],
    ) -> Result<()> {
        match self {
            SnapshotCoder::Host { codec, stage, .. } => {
                let from = match from {
                    Place::App(_) => &stage.bytes()[..bytes as usize],
                    // SAFETY: these bytes of the device slab, host memory here, hold the snapshot;
                    // no lane writes them before this returns.
                    from => unsafe {
                        std::slice::from_raw_parts(
                            device.pointer(from, bytes)?.cast::<u8>(),
                            bytes as usize,
                        )
                    },
                };
                device.begin_coding(Coding::Decompress)?;
                // SAFETY: the fields are host memory, checked against the session's device, as
                // promised for `AppMemory`.
                unsafe { codec.decompress(from, fields) }.map_err(|e| of_state(e, ts))?;
                device.end_coding()
            }
            SnapshotCoder::Gpu(gpu) => gpu.open(device, ts, from, bytes, fields),
        }
    }

    /// Fails if a restore so far gave what its snapshot did not say; the device must be done with
    /// them.
    pub fn check(&mut self) -> Result<()> {
        let SnapshotCoder::Gpu(gpu) = self else { return Ok(()) };
        while let Some((k, ts)) = gpu.restored.pop_front() {
            gpu.read_report(STAGES + k)?.check().map_err(|e| of_state(e, ts))?;
        }
        Ok(())
    }

    /// Gives back what it has on the device.
    pub fn close(&mut self, device: &mut dyn Device) {
        let SnapshotCoder::Gpu(gpu) = self else { return };
        let (mut codec, mut reports) = (gpu.codec.take(), std::mem::take(&mut gpu.reports));
        let closed = device.run(&mut |_, _| {
            drop((codec.take(), std::mem::take(&mut reports)));
            Ok(())
        });
        if closed.is_err() {
            // Without the context there is nothing to free it in; a forked child has no right to.
            codec.into_iter().for_each(GpuCodec::forget);
            reports.forget();
        }
    }
}

impl GpuCoder {
    fn report(&self, k: usize) -> u64 {
        self.reports.address() + (k * size_of::<Report>()) as u64
    }

    fn read_report(&self, k: usize) -> Result<Report> {
        if self.reports.bytes() == 0 {
            return fail!(State, "no reports");
        }
        // SAFETY: within the allocation and aligned as it; the copy that wrote it has ended, as the
        // caller made sure.
        Ok(unsafe { (self.report(k) as *const Report).read_volatile() })
    }

    fn open(
        &mut self,
        device: &mut dyn Device,
        ts: i64,
        from: Place,
        bytes: u64,
        fields: &[AppMemory],
    ) -> Result<()> {
        // What was restored `REPORTS` restores ago is looked at, so that its place is free.
        if let Some((k, ts)) =
            self.restored.front().copied().filter(|_| self.restored.len() == REPORTS)
        {
            self.restored.pop_front();
            device.finish(self.read[k])?;
            self.read_report(STAGES + k)?.check().map_err(|e| of_state(e, ts))?;
        }
        let from = device.pointer(from, bytes)? as u64;
        let Some(codec) = &self.codec else { return fail!(State, "no codec") };
        let queue = device.launches(Lane::App)?;
        let k = self.next % REPORTS;
        device.begin_coding(Coding::Decompress)?;
        codec.decompress(&queue, from, bytes, &addresses(fields))?;
        device.end_coding()?;
        queue.copy(self.report(STAGES + k), codec.report(), size_of::<Report>() as u64)?;
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
