//! `bitcomp`: libnvcomp's kernels, and before and after them the kernels of kernels/bitcomp.cu.

use super::{Library, Plan, SLACK};
use crate::codec::gpu::{blocks, kernels, GpuCoder, Kernel, Kernels, Modules, Room, Values};
use crate::codec::Shape;
use crate::device::Queue;
use crate::error::Result;

const THREADS: u32 = 256;
/// Values per thread in a pass over an array, and the largest number of blocks of a pass. Every
/// block has one partial sum.
const EACH: u64 = 8;
const BLOCKS: u64 = 4096;
/// Offsets in the scratch memory, in bytes: at 0 the size of a stream, then the partial sums, then
/// an array of values.
const SUMS: u64 = 256;
const ARRAY: u64 = SUMS + 8 * BLOCKS;

pub const KERNELS: Kernels = kernels!("bitcomp", "bitcomp.cu");

/// The host does not know whether there is an array to code or a payload to decode. Bitcomp's
/// kernels therefore always run, on what the array and the stream in device memory hold at that
/// time. The stream of the array before stays in place until an undamaged payload replaces it, so
/// that the stream can always be decoded.
pub struct Bitcomp {
    /// True if bounds limit the root mean square error.
    rms: bool,
    plan: Plan,
    errors: Kernel,
    judge: Kernel,
    scale: Kernel,
    take: Kernel,
    give: Kernel,
    store: Kernel,
}

impl Bitcomp {
    pub fn new(shape: Shape, algorithm: i32, rms: bool, modules: &mut Modules) -> Result<Self> {
        let plan = Plan::new(Library::get()?, shape, algorithm)?;
        let source = KERNELS.of(shape.scalar);
        let mut kernel = |name| modules.kernel(&source, name, THREADS);
        Ok(Bitcomp {
            rms,
            plan,
            errors: kernel(c"bitcomp_errors")?,
            judge: kernel(c"bitcomp_judge")?,
            scale: kernel(c"bitcomp_scale")?,
            take: kernel(c"bitcomp_take")?,
            give: kernel(c"bitcomp_give")?,
            store: kernel(c"bitcomp_store")?,
        })
    }

    fn values(&self) -> u64 {
        self.plan.shape.values() as u64
    }

    fn blocks(&self) -> u64 {
        blocks(self.values(), THREADS, EACH).min(BLOCKS)
    }

    /// Enqueues the check of the error bound. `y` is the device address of the decoded array,
    /// `bytes` the device address of the size of Bitcomp's stream; if both are 0, the check uses
    /// values that are only rounded to multiples of delta.
    fn check(&self, queue: &Queue, x: Values, [y, bytes, job, scratch]: [u64; 4]) -> Result<()> {
        let (values, sums) = (self.values(), scratch + SUMS);
        self.errors.launch(queue, self.blocks(), &[&x.x, &x.later, &values, &y, &job, &sums])?;
        self.judge.launch(queue, 1, &[&job, &values, &sums, &(self.blocks() as u32), &bytes])
    }
}

impl GpuCoder for Bitcomp {
    fn scratch(&self) -> u64 {
        ARRAY + self.plan.shape.bytes() as u64
    }

    fn kept(&self) -> u64 {
        8 * (self.plan.most_words() + SLACK) as u64
    }

    /// Makes the first stream, in the kept memory, from an array of zeros, which also makes Bitcomp load its kernels.
    fn prepare(&self, queue: &Queue, room: Room) -> Result<()> {
        let Room { kept: stream, scratch } = room;
        let array = scratch + ARRAY;
        queue.fill(array, 0, self.plan.shape.bytes() as u64)?;
        self.plan.enqueue_compress(queue.0, array, stream, scratch)?;
        self.plan.enqueue_uncompress(queue.0, stream, array)
    }

    fn compress(&self, queue: &Queue, x: Values, job: u64, room: Room) -> Result<()> {
        let Room { kept: stream, scratch } = room;
        let array = scratch + ARRAY;
        if self.rms {
            self.check(queue, x, [0, 0, job, scratch])?;
        }
        self.scale.launch(queue, self.blocks(), &[&x.x, &x.later, &self.values(), &array, &job])?;
        self.plan.enqueue_compress(queue.0, array, stream, scratch)?;
        self.plan.enqueue_uncompress(queue.0, stream, array)?;
        self.check(queue, x, [array, scratch, job, scratch])?;
        self.take.launch(queue, self.blocks(), &[&job, &stream])
    }

    fn decompress(&self, queue: &Queue, x: Values, job: u64, room: Room) -> Result<()> {
        let Room { kept: stream, scratch } = room;
        let (array, most) = (scratch + ARRAY, 8 * self.plan.most_words() as u64);
        self.give.launch(queue, self.blocks(), &[&job, &stream, &most])?;
        self.plan.enqueue_uncompress(queue.0, stream, array)?;
        self.store.launch(queue, self.blocks(), &[&x.x, &x.later, &self.values(), &array, &job])
    }
}
