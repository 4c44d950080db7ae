//! Codecs on device memory without a session: work of a call on the application's stream, in work memory
//! that the application gives.
//!
//! Kernels are loaded by the first call that needs them and stay loaded until the process ends, so that
//! no call has to wait for the device to unload them.

use super::rows::{self, RowKernels};
use super::snapshot::{Coded, SnapshotKernels};
use super::Modules;
use crate::codec::streams::Record;
use crate::codec::table::Method;
use crate::codec::Settings;
use crate::device::cuda::Primary;
use crate::device::{AppMemory, Queue, Stream};
use crate::error::{Code, Result};
use crate::guarded::{locked, Guarded};
use crate::layout::Layout;
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
    /// Address of the work memory, a multiple of 256, of at least `work_bytes` bytes.
    pub work: u64,
    /// Address of a gpuzip_codec_result_t that kernels can write.
    pub result: u64,
    /// The application's stream.
    pub stream: Stream,
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
}

static DEVICES: Guarded<Mutex<Vec<OnDevice>>> =
    Guarded::new(Mutex::new(Vec::new()), || Mutex::new(Vec::new()));

/// Returns the bytes of work memory of a call; `are_apart`: for each field, whether its rows are apart.
pub(crate) fn work_bytes(settings: &Settings, layout: &Layout, are_apart: &[bool]) -> Result<u64> {
    let own = SnapshotKernels::bytes_for(settings, layout)?;
    Ok(own.saturating_add(rows::bytes(layout, are_apart)))
}

/// Enqueues the coding of the fields into a stream at the address `to`, a multiple of 64 with the room that
/// `SnapshotCodec::output_bytes` tells.
pub(crate) fn encode(call: &DeviceCall, to: u64) -> Result<()> {
    enqueue(call, |queue, kept, places, report| {
        kept.rows.gather(queue, call.fields, places)?;
        kept.kernels.compress(queue, call.work, 1, places, to, report)
    })
}

/// Enqueues the decoding of the stream at the address `from`, a multiple of 64, into the fields. The stream ends
/// within `bytes` bytes.
pub(crate) fn decode(call: &DeviceCall, from: u64, bytes: u64) -> Result<()> {
    let coded = Coded { at: from, bytes, is_whole: false };
    enqueue(call, |queue, kept, places, report| {
        let record = Record::Part(0);
        kept.kernels.decompress(queue, call.work, record, coded, places, report)?;
        kept.rows.scatter(queue, call.fields, places)
    })
}

/// Runs `body` with the kernels of the call, the addresses of contiguous fields, and the address of the
/// report, and enqueues before it the preparation of the work memory and after it the result.
fn enqueue(
    call: &DeviceCall,
    body: impl FnOnce(&Queue, &Kept, &[u64], u64) -> Result<()>,
) -> Result<()> {
    let of_process = DEVICES.read()?;
    let mut devices = locked(&of_process);
    let known = devices.iter().position(|device| device.primary.ordinal() == call.ordinal);
    let known = match known {
        Some(known) => known,
        None => {
            let primary = Primary::keep(call.ordinal)?;
            let modules = Modules::new(primary.architecture);
            devices.push(OnDevice { primary, modules, kept: Vec::new() });
            devices.len() - 1
        }
    };
    let OnDevice { primary, modules, kept } = &mut devices[known];
    primary.enqueue(call.stream, call.name, |queue| {
        let kept = find(kept, modules, call)?;
        kept.kernels.prepare(queue, call.work)?;
        let places = kept.rows.places(call.fields, call.work + kept.kernels.bytes());
        let report = kept.kernels.own_report(call.work);
        body(queue, kept, &places, report)?;
        let statuses = [Code::Values, Code::Stream].map(|code| code as i32);
        kept.kernels.tell(queue, report, statuses, call.result)
    })
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
