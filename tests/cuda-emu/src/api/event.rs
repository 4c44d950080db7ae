//! Events.

use super::{exports, Handle, Out};
use crate::call::Call;
use crate::driver::{call_and_wait, Driver};
use crate::status::Status;

exports! {
    /// Flags: 1 blocking, 2 without timing, 4 between processes (with 2).
    fn cuEventCreate(event: Out<Handle>, flags: u32) |driver| {
        event.check()?;
        event.set(driver.event_create(flags)?)
    };
    /// A queued record still runs.
    fn cuEventDestroy_v2(event: Handle) |driver| driver.event_destroy(event);
    /// Marks the end of the stream; both must be of one context.
    fn cuEventRecord(event: Handle, stream: Handle) |driver| driver.event_record(event, stream);
    /// Whether the last record has run.
    fn cuEventQuery(event: Handle) |driver| driver.event_query(event);
    /// Virtual milliseconds between two records.
    fn cuEventElapsedTime(milliseconds: Out<f32>, start: Handle, end: Handle) |driver| {
        milliseconds.check()?;
        milliseconds.set(driver.event_elapsed(start, end)?)
    };
}

/// Waits for the last record.
#[no_mangle]
#[allow(non_snake_case, reason = "the name is the driver's")]
pub extern "C" fn cuEventSynchronize(event: Handle) -> Status {
    let begin = |driver: &mut Driver| {
        driver.current()?;
        let event = driver.event(event)?;
        let work = driver.events[event].record.into_iter().collect();
        Ok((driver.host_sync(work), driver.events[event].context))
    };
    call_and_wait(Call::cuEventSynchronize, begin, |driver, context| driver.healthy(context))
}
