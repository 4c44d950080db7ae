//! The functions of events.

use super::{exports, Handle, Out};
use crate::call::Call;
use crate::driver::{call_and_wait, Driver};
use crate::status::Status;

exports! {
    /// Makes an event. Flags: 1 blocking wait, 2 no timing, 4 shared by processes (needs 2).
    fn cuEventCreate(event: Out<Handle>, flags: u32) |driver| event.give(|| driver.event_create(flags));
    /// Destroys an event; a queued record of the event still runs.
    fn cuEventDestroy_v2(event: Handle) |driver| driver.event_destroy(event);
    /// Records the event at the end of the stream; event and stream must be of one context.
    fn cuEventRecord(event: Handle, stream: Handle) |driver| driver.event_record(event, stream);
    /// Answers whether the last record of the event has run.
    fn cuEventQuery(event: Handle) |driver| driver.event_query(event);
    /// Gives the virtual milliseconds between the records of two events.
    fn cuEventElapsedTime(milliseconds: Out<f32>, start: Handle, end: Handle) |driver| milliseconds.give(|| driver.event_elapsed(start, end));
}

/// Waits until the last record of the event has run.
#[no_mangle]
#[allow(non_snake_case, reason = "the name is the driver's")]
pub extern "C" fn cuEventSynchronize(event: Handle) -> Status {
    let begin = |driver: &mut Driver| {
        driver.current()?;
        let event = driver.event(event)?;
        driver.refuse_captured_event(event)?;
        let work: Vec<_> = driver.events[event].record.into_iter().collect();
        let must_wait = work.iter().any(|record| !driver.reached(*record));
        driver.spins += u64::from(must_wait && !driver.events[event].is_blocking);
        Ok((driver.host_sync(work), driver.events[event].context))
    };
    call_and_wait(Call::cuEventSynchronize, begin, |driver, context| driver.healthy(context))
}
