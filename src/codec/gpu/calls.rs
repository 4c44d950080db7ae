//! Codecs on device memory without a session: work of a call on a stream, in work memory that the application
//! gives or that this process keeps.
//!
//! Kernels are loaded by the first call that needs them and stay loaded until the process ends, so that
//! no call has to wait for the device to unload them.

use super::rows::{self, RowKernels};
use super::snapshot::{codec_failed, Coded, SnapshotKernels};
use super::Modules;
use crate::codec::snapshot_codec::not_finite;
use crate::codec::streams::Record;
use crate::codec::table::Method;
use crate::codec::Settings;
use crate::device::cuda::{DeviceSlab, Primary};
use crate::device::{AppMemory, Queue, Stream};
use crate::error::{fail, Code, Result};
use crate::guarded::{locked, Guarded};
use crate::layout::{aligned, Layout};
use std::sync::Mutex;

/// Most pairs of settings and layout whose kernels are kept for a device.
const KEPT: usize = 64;

/// What a call gives beside the stream of bytes.
pub(crate) struct DeviceCall<'a> {
    /// The name of the call.
    pub name: &'static str,
    /// Number of the device.
    pub ordinal: i32,
    pub settings: &'a Settings,
    pub layout: &'a Layout,
    /// The fields, in device memory.
    pub fields: &'a [AppMemory],
    pub memory: Memory,
    /// The stream of the call's work.
    pub stream: Stream,
}

/// Memory of a call.
#[derive(Clone, Copy)]
pub(crate) enum Memory {
    /// The application's: the address of at least `work_bytes` bytes, a multiple of 256, and that of a
    /// gpuzip_codec_result_t that kernels can write. The call does not wait for the device.
    Given { work: u64, result: u64 },
    /// So many bytes of work memory that this process keeps. The call waits for the device.
    Own { work_bytes: u64 },
}

/// What the kernels tell of a call: gpuzip_codec_result_t of src/capi/types.rs.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Told {
    bytes: u64,
    status: i32,
    field: i32,
    count: u64,
    reserved: u64,
}

impl Told {
    /// The bytes of the stream, or the error that the kernels found.
    fn bytes(self) -> Result<u64> {
        match self.status {
            0 => Ok(self.bytes),
            status if status == Code::Values as i32 => not_finite(self.field as usize, self.count),
            status if status == Code::Argument as i32 => codec_failed(self.field),
            _ => fail!(
                Stream,
                "array of field {}: the stream is damaged or cut off, or of other arrays",
                self.field
            ),
        }
    }
}

/// The kernels for one pair of settings and layout.
struct Kept {
    settings: Settings,
    layout: Layout,
    kernels: SnapshotKernels,
    rows: RowKernels,
}

/// What this process keeps for a device.
struct OnDevice {
    primary: Primary,
    modules: Modules,
    /// The pair that was used last is the last one.
    kept: Vec<Kept>,
    /// Work memory of calls that wait for the device.
    own: DeviceSlab,
}

impl OnDevice {
    fn new(ordinal: i32) -> Result<Self> {
        let primary = Primary::keep(ordinal)?;
        let modules = Modules::new(primary.architecture);
        Ok(OnDevice { primary, modules, kept: Vec::new(), own: DeviceSlab::new(0)? })
    }
}

static DEVICES: Guarded<Mutex<Vec<OnDevice>>> =
    Guarded::new(Mutex::new(Vec::new()), || Mutex::new(Vec::new()));

/// Returns the bytes of work memory of a call; `are_apart`: for each field, whether its rows are apart.
pub(crate) fn work_bytes(settings: &Settings, layout: &Layout, are_apart: &[bool]) -> Result<u64> {
    let own = SnapshotKernels::bytes_for(settings, layout)?;
    Ok(own.saturating_add(rows::bytes(layout, are_apart)))
}

/// Enqueues the coding of the fields into a stream at the address `to`, a multiple of 64 with the room that
/// `SnapshotCodec::output_bytes` tells. A call in memory of its own returns the bytes of the stream.
pub(crate) fn encode(call: &DeviceCall, to: u64) -> Result<u64> {
    enqueue(call, [Code::Values, Code::Argument], |queue, kept, places, [work, report]| {
        kept.rows.gather(queue, call.fields, places)?;
        kept.kernels.compress(queue, work, 1, places, to, report)
    })
}

/// Enqueues the decoding of the stream at the address `from`, a multiple of 64, into the fields. The stream ends
/// within `bytes` bytes. A call in memory of its own returns the bytes of the stream.
pub(crate) fn decode(call: &DeviceCall, from: u64, bytes: u64) -> Result<u64> {
    let coded = Coded { at: from, bytes, is_whole: false };
    enqueue(call, [Code::Values, Code::Stream], |queue, kept, places, [work, report]| {
        let record = Record::Part(0);
        kept.kernels.decompress(queue, work, record, coded, places, report)?;
        kept.rows.scatter(queue, call.fields, places)
    })
}

/// Copies device memory at `from` to `to`, and waits for the copy and for all earlier work of the legacy
/// default stream.
pub(crate) fn receive(ordinal: i32, name: &'static str, from: u64, to: &mut [u8]) -> Result<()> {
    let primary = with_device(ordinal, |device| Ok(device.primary))?;
    primary.enqueue(Stream(std::ptr::null_mut()), name, |queue| {
        queue.copy(to.as_mut_ptr() as u64, from, to.len() as u64)?;
        queue.finish()
    })
}

fn with_device<T>(ordinal: i32, body: impl FnOnce(&mut OnDevice) -> Result<T>) -> Result<T> {
    let of_process = DEVICES.read()?;
    let mut devices = locked(&of_process);
    let known = match devices.iter().position(|device| device.primary.ordinal() == ordinal) {
        Some(known) => known,
        None => {
            devices.push(OnDevice::new(ordinal)?);
            devices.len() - 1
        }
    };
    body(&mut devices[known])
}

/// Runs `body` with the kernels of the call, the addresses of contiguous fields, and the addresses of the work
/// memory and of the report, and enqueues before it the preparation of the work memory and after it the
/// result; `codes`: what the errors 1 and 2 of the report mean. In memory of its own it waits, and returns the
/// bytes of the stream.
fn enqueue(
    call: &DeviceCall,
    codes: [Code; 2],
    body: impl FnOnce(&Queue, &Kept, &[u64], [u64; 2]) -> Result<()>,
) -> Result<u64> {
    let statuses = codes.map(|code| code as i32);
    let (primary, own, result) = with_device(call.ordinal, |device| {
        let OnDevice { primary, modules, kept, own } = device;
        primary.enqueue(call.stream, call.name, |queue| {
            let kept = find(kept, modules, call)?;
            let (work, result, own) = match call.memory {
                Memory::Given { work, result } => (work, result, None),
                Memory::Own { work_bytes } => {
                    let (result, end) = (aligned(work_bytes), size_of::<Told>() as u64);
                    // What is kept is taken, and freed before more is allocated.
                    let mut slab = std::mem::replace(own, DeviceSlab::new(0)?);
                    if slab.bytes < result + end {
                        drop(slab);
                        slab = DeviceSlab::new(result + end)?;
                    }
                    (slab.address, slab.address + result, Some(slab))
                }
            };
            kept.kernels.prepare(queue, work)?;
            let places = kept.rows.places(call.fields, work + kept.kernels.bytes());
            let report = kept.kernels.own_report(work);
            body(queue, kept, &places, [work, report])?;
            kept.kernels.tell(queue, report, statuses, result)?;
            Ok((*primary, own, result))
        })
    })?;
    let Some(slab) = own else { return Ok(0) };
    // Other threads may make calls while this one waits.
    let mut told = Told::default();
    let slab = primary.enqueue(call.stream, call.name, move |queue| {
        queue.copy(&raw mut told as u64, result, size_of::<Told>() as u64)?;
        queue.finish().map(|()| (slab, told))
    });
    let (slab, told) = slab?;
    with_device(call.ordinal, |OnDevice { primary, own, .. }| {
        // The smaller one is freed, in its context.
        primary.enqueue(call.stream, call.name, |_| {
            let (less, more) = match slab.bytes < own.bytes {
                true => (slab, std::mem::replace(own, DeviceSlab::new(0)?)),
                false => (std::mem::replace(own, DeviceSlab::new(0)?), slab),
            };
            *own = more;
            drop(less);
            Ok(())
        })
    })?;
    told.bytes()
}

/// Returns the kernels of the call, which become the last ones of `kept`.
fn find<'a>(kept: &'a mut Vec<Kept>, modules: &mut Modules, call: &DeviceCall) -> Result<&'a Kept> {
    let is_of_call = |of: &Kept| (&of.settings, &of.layout) == (call.settings, call.layout);
    let found = match kept.iter().position(is_of_call) {
        Some(at) => kept.remove(at),
        None => {
            let (settings, layout) = (call.settings.clone(), call.layout.clone());
            let kernels = SnapshotKernels::new(&settings, &layout, &layout.whole(), modules)?;
            let rows = RowKernels::new(&layout, modules)?;
            Kept { settings, layout, kernels, rows }
        }
    };
    if kept.len() == KEPT {
        let oldest = kept.remove(0);
        // The device may still use Bitcomp's plans, which therefore stay.
        if matches!(oldest.settings.method, Method::Bitcomp { .. }) {
            std::mem::forget(oldest);
        }
    }
    kept.push(found);
    Ok(&kept[kept.len() - 1])
}
