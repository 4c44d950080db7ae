//! Registered codecs on a device: the application's functions, and before and after them the kernels of
//! kernels/registered.cu.

use super::{blocks, kernels, GpuCoder, Kernel, Kernels, Modules, Room, Values};
use crate::codec::plugin::{DeviceCall, DeviceCoder};
use crate::codec::Shape;
use crate::device::Queue;
use crate::error::Result;
use crate::layout::aligned;

const THREADS: u32 = 256;
/// Values or words per thread in a pass over an array or a payload.
const EACH: u64 = 8;
/// Offset in the scratch memory, in bytes, of the payload; the call is at 0. Behind the payload are an array
/// of values and the work space of the application.
const PAYLOAD: u64 = 256;

pub(super) const KERNELS: Kernels = kernels!("registered", "registered.cu");

/// The application enqueues its work in every case: whether there is an array to code is known to the
/// device alone.
pub struct Registered {
    coder: Box<dyn DeviceCoder>,
    shape: Shape,
    /// True if bounds limit the root mean square error.
    rms: bool,
    /// Bytes of the application's work space.
    work_bytes: u64,
    pose: Kernel,
    take: Kernel,
    give: Kernel,
    store: Kernel,
}

impl Registered {
    pub fn new(
        coder: Box<dyn DeviceCoder>,
        shape: Shape,
        rms: bool,
        modules: &mut Modules,
    ) -> Result<Self> {
        let source = KERNELS.of(shape.scalar);
        let mut kernel = |name| modules.kernel(&source, name, THREADS);
        Ok(Registered {
            shape,
            rms,
            work_bytes: coder.work_bytes(),
            pose: kernel(c"registered_pose")?,
            take: kernel(c"registered_take")?,
            give: kernel(c"registered_give")?,
            store: kernel(c"registered_store")?,
            coder,
        })
    }

    /// Returns the addresses of the array of values and of the application's work space.
    fn places(&self, scratch: u64) -> [u64; 2] {
        let array = scratch + PAYLOAD + aligned(self.coder.max_bytes());
        [array, array + aligned(self.shape.bytes() as u64)]
    }

    /// Returns what the application gets: `x` itself, or the array of values in its place if there is a
    /// later time level.
    fn call(&self, queue: &Queue, x: Values, scratch: u64) -> DeviceCall {
        let [array, work] = self.places(scratch);
        let x = if x.later == 0 { x.x } else { array };
        DeviceCall { stream: queue.0, x, payload: scratch + PAYLOAD, job: scratch, work }
    }

    /// Thread blocks of a pass over the values, and of one over the payload.
    fn blocks(&self) -> [u64; 2] {
        let words = self.coder.max_bytes() / 8 + 1;
        [self.shape.values() as u64, words].map(|work| blocks(work, THREADS, EACH))
    }
}

impl GpuCoder for Registered {
    fn scratch(&self) -> u64 {
        self.places(0)[1].saturating_add(self.work_bytes)
    }

    fn may_fail(&self) -> bool {
        true
    }

    fn compress(&self, queue: &Queue, x: Values, job: u64, room: Room) -> Result<()> {
        let call = self.call(queue, x, room.scratch);
        let [values, most] = [self.shape.values() as u64, self.coder.max_bytes()];
        let [of_values, of_payload] = self.blocks();
        let [array, _] = self.places(room.scratch);
        let count = if x.later == 0 { 1 } else { of_values };
        self.pose.launch(queue, count, &[&x.x, &x.later, &values, &array, &job, &call.job])?;
        self.coder.compress(call, self.rms)?;
        self.take.launch(queue, of_payload, &[&job, &call.job, &call.payload, &most])
    }

    fn decompress(&self, queue: &Queue, x: Values, job: u64, room: Room) -> Result<()> {
        let call = self.call(queue, x, room.scratch);
        let [values, most] = [self.shape.values() as u64, self.coder.max_bytes()];
        let [of_values, of_payload] = self.blocks();
        let [array, _] = self.places(room.scratch);
        self.give.launch(queue, of_payload, &[&job, &call.job, &call.payload, &most])?;
        self.coder.decompress(call)?;
        let count = if x.later == 0 { 1 } else { of_values };
        self.store.launch(queue, count, &[&x.x, &x.later, &values, &array, &job, &call.job])
    }
}
