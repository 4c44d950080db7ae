//! The functions that copy memory and set memory.

use super::{exports, Address, Handle};
use crate::call::Call;
use crate::driver::{call_and_wait, Driver};
use crate::execute::{Action, Copy, Direction, Side};
use crate::memory::{Life, Place, Region};
use crate::status::{Result, Status, INVALID_VALUE};
use crate::stream::Point;

/// The legacy default stream.
const LEGACY: Handle = 1;

/// A copy as the caller requests it.
struct Request {
    to: Address,
    from: Address,
    len: usize,
    stream: Handle,
    /// The direction in the function's name; `None` if the pointers determine the direction.
    direction: Option<Direction>,
    /// True for `cuMemcpyHtoD` and `cuMemcpyDtoH`, which return when the copy has run.
    synchronous: bool,
}

/// A copy after its checks.
struct Checked {
    request: Request,
    stream: usize,
    /// True if the destination is pageable memory.
    to_pageable: bool,
    from_pageable: bool,
    direction: Direction,
    device: usize,
}

/// Defines functions that copy; those without a stream use the legacy default stream, and the host
/// waits.
macro_rules! copies {
    ($($(#[$doc:meta])* $name:ident($($stream:ident)?) $direction:expr;)*) => {
        $(
            $(#[$doc])*
            #[no_mangle]
            #[allow(non_snake_case, reason = "the name is the driver's")]
            pub extern "C" fn $name(to: Address, from: Address, len: usize $(, $stream: Handle)?) -> Status {
                let given: Option<Handle> = None $(.or(Some($stream)))?;
                let (stream, synchronous) = (given.unwrap_or(LEGACY), given.is_none());
                copy(Call::$name, Request { to, from, len, stream, direction: $direction, synchronous })
            }
        )*
    };
}

copies! {
    /// Copies in the direction that the pointers determine.
    cuMemcpyAsync(stream) None;
    /// Copies from the host to a device.
    cuMemcpyHtoDAsync_v2(stream) Some(Direction::HostToDevice);
    /// Copies from a device to the host.
    cuMemcpyDtoHAsync_v2(stream) Some(Direction::DeviceToHost);
    /// Copies within a device or between two devices.
    cuMemcpyDtoDAsync_v2(stream) Some(Direction::DeviceToDevice);
    /// Copies to a device. From pageable memory the call returns when the bytes are in a staging
    /// buffer.
    cuMemcpyHtoD_v2() Some(Direction::HostToDevice);
    /// Copies from a device.
    cuMemcpyDtoH_v2() Some(Direction::DeviceToHost);
}

exports! {
    /// Sets bytes of device memory.
    fn cuMemsetD8Async(to: Address, value: u8, len: usize, stream: Handle) |driver| driver.set_bytes(to, value, len, stream);
    /// Sets bytes of device memory in the legacy default stream; the host does not wait.
    fn cuMemsetD8_v2(to: Address, value: u8, len: usize) |driver| driver.set_bytes(to, value, len, LEGACY);
}

/// Enqueues a copy. The copy reads and writes page-locked memory when it runs. From pageable memory
/// the bytes are read into a staging buffer before the call returns, after all earlier operations
/// of the stream have run; by `CUDA_EMU_PAGEABLE_COPIES=late`, an asynchronous copy to a device reads
/// the bytes when the copy runs. To pageable memory the bytes are written before the call returns.
fn copy(call: Call, request: Request) -> Status {
    let begin = |driver: &mut Driver| {
        let Some(checked) = driver.check_copy(request)? else { return Ok((Vec::new(), None)) };
        driver.counters.copy(checked.direction, checked.request.len);
        let pageable = checked.to_pageable || checked.from_pageable;
        driver.counters.totals.pageable_copies += u64::from(pageable);
        let is_late = driver.settings.reads_pageable_late
            && checked.direction == Direction::HostToDevice
            && !checked.request.synchronous;
        let waits = checked.request.synchronous || pageable && !is_late;
        driver.counters.totals.host_syncs += u64::from(waits);
        if checked.from_pageable && !checked.to_pageable && !is_late {
            return Ok((vec![driver.last(checked.stream)], Some((checked, true))));
        }
        let point = driver.queue_copy(&checked, false);
        let wait = checked.to_pageable || checked.request.synchronous;
        Ok((if wait { vec![point] } else { Vec::new() }, Some((checked, false))))
    };
    call_and_wait(call, begin, |driver, state| {
        let Some((checked, stage)) = state else { return Ok(()) };
        driver.healthy(driver.streams[checked.stream].context)?;
        if stage {
            driver.queue_copy(&checked, true);
        }
        Ok(())
    })
}

impl Driver {
    /// Checks a copy as the driver does before it accepts it; `None` if there is nothing to copy.
    fn check_copy(&mut self, request: Request) -> Result<Option<Checked>> {
        let stream = self.stream(request.stream)?;
        if request.len == 0 {
            return Ok(None);
        }
        let (to, from) =
            (self.known(request.to, request.len)?, self.known(request.from, request.len)?);
        let on_device =
            |region: &Option<Region>| region.is_some_and(|region| region.kind.is_device());
        let direction = match (on_device(&from), on_device(&to)) {
            (false, true) => Direction::HostToDevice,
            (true, false) => Direction::DeviceToHost,
            (true, true) => Direction::DeviceToDevice,
            (false, false) => Direction::HostToHost,
        };
        if request.direction.is_some_and(|promised| promised != direction) {
            return Err(INVALID_VALUE);
        }
        let own = self.contexts[self.streams[stream].context].device;
        let device = match direction {
            Direction::HostToDevice => to.map_or(own, |region| region.device),
            Direction::DeviceToHost => from.map_or(own, |region| region.device),
            Direction::DeviceToDevice | Direction::HostToHost => own,
        };
        let (to_pageable, from_pageable) = (to.is_none(), from.is_none());
        Ok(Some(Checked { request, stream, to_pageable, from_pageable, direction, device }))
    }

    /// Returns the region that contains a range of addresses, `None` for pageable memory.
    fn known(&self, address: Address, len: usize) -> Result<Option<Region>> {
        if address == 0 {
            return Err(INVALID_VALUE);
        }
        match self.memory.place(address, len) {
            Place::Inside(region) if region.life != Life::Going => Ok(Some(region)),
            Place::Inside(_) | Place::Across => Err(INVALID_VALUE),
            Place::Elsewhere => Ok(None),
        }
    }

    fn queue_copy(&mut self, checked: &Checked, stage: bool) -> Point {
        let &Request { to, from, len, .. } = &checked.request;
        let to = if checked.to_pageable { Side::Pageable(to) } else { Side::Known(to) };
        let from = match (checked.from_pageable, stage) {
            (false, _) => Side::Known(from),
            (true, false) if checked.to_pageable => Side::Pageable(from),
            (true, false) => Side::Late(from),
            (true, true) => {
                // SAFETY: the caller of the driver function promises that these bytes may be read
                // until the function returns.
                Side::Staged(unsafe { std::slice::from_raw_parts(from as *const u8, len) }.to_vec())
            }
        };
        let (direction, device) = (checked.direction, checked.device);
        self.enqueue_copy(
            checked.stream,
            Copy { to, from, len, done: 0, backwards: false, direction, device },
        )
    }

    fn set_bytes(&mut self, to: Address, value: u8, len: usize, stream: Handle) -> Result {
        let stream = self.stream(stream)?;
        if len == 0 {
            return Ok(());
        }
        self.known(to, len)?.filter(|region| region.kind.is_device()).ok_or(INVALID_VALUE)?;
        self.enqueue(stream, Action::Set(to, value, len), Vec::new());
        Ok(())
    }
}
