//! A codec on a device with memory of its own, for sessions.

use super::snapshot::{Coded, SnapshotKernels};
use super::Modules;
use crate::codec::streams::Record;
use crate::codec::Settings;
use crate::device::cuda::DeviceSlab;
use crate::device::Queue;
use crate::error::Result;
use crate::layout::{Layout, Parts};

/// Codes the snapshots of one layout on one device. All memory is allocated when the codec is made,
/// once for all parts.
pub struct GpuCodec {
    kernels: SnapshotKernels,
    /// The modules of the kernels, which stay loaded as long as this object lives.
    _modules: Modules,
    memory: DeviceSlab,
}

impl GpuCodec {
    /// Makes a codec for snapshots of `layout`, cut into `parts`, on a device of this architecture, in
    /// the current context. Enqueues the preparation of the codec's memory on `queue`.
    pub fn new(
        settings: &Settings,
        layout: &Layout,
        parts: &Parts,
        architecture: u32,
        queue: &Queue,
    ) -> Result<Self> {
        let mut modules = Modules::new(architecture);
        let kernels = SnapshotKernels::new(settings, layout, parts, &mut modules)?;
        let memory = DeviceSlab::new(kernels.bytes())?;
        kernels.prepare(queue, memory.address)?;
        Ok(GpuCodec { kernels, _modules: modules, memory })
    }

    /// Returns the bytes of device memory that a codec with these settings would hold.
    pub fn bytes_for(settings: &Settings, layout: &Layout) -> Result<u64> {
        SnapshotKernels::bytes_for(settings, layout)
    }

    /// Returns the bytes of device memory that the codec holds.
    pub fn bytes(&self) -> u64 {
        self.memory.bytes
    }

    /// Where the record of part `part` begins behind the address that `compress` gets, in bytes.
    pub fn begin(&self, part: usize) -> u64 {
        self.kernels.begin(part)
    }

    /// Enqueues the coding of the first `parts` parts of the fields, as `SnapshotKernels::compress`.
    pub fn compress(
        &self,
        queue: &Queue,
        parts: usize,
        fields: &[u64],
        stage: u64,
        report: u64,
    ) -> Result<()> {
        self.kernels.compress(queue, self.memory.address, parts, fields, stage, report)
    }

    /// Enqueues the decoding of the record of `bytes` bytes at the device address `from`, a multiple
    /// of 64, as `SnapshotKernels::decompress`.
    pub fn decompress(
        &self,
        queue: &Queue,
        record: Record,
        (from, bytes): (u64, u64),
        fields: &[u64],
        report: u64,
    ) -> Result<()> {
        let coded = Coded { at: from, bytes, is_whole: true };
        self.kernels.decompress(queue, self.memory.address, record, coded, fields, report)
    }
}
