//! Streams.

use super::{exports, Handle, Out};
use crate::call::Call;
use crate::driver::{call_and_wait, Driver};
use crate::execute::Action;
use crate::host_thread::HostFn;
use crate::status::{Status, INVALID_VALUE};
use std::ffi::c_void;

exports! {
    /// Flags: 0 synchronises with the legacy default stream, 1 does not.
    fn cuStreamCreate(stream: Out<Handle>, flags: u32) |driver| {
        stream.check()?;
        stream.set(driver.stream_create(flags)?)
    };
    /// The priority is ignored.
    fn cuStreamCreateWithPriority(stream: Out<Handle>, flags: u32, _priority: i32) |driver| {
        stream.check()?;
        stream.set(driver.stream_create(flags)?)
    };
    /// What is queued still runs.
    fn cuStreamDestroy_v2(stream: Handle) |driver| driver.stream_destroy(stream);
    /// Whether all has run.
    fn cuStreamQuery(stream: Handle) |driver| driver.stream_query(stream);
    /// What follows in the stream waits for the last record of the event so far.
    fn cuStreamWaitEvent(stream: Handle, event: Handle, flags: u32) |driver| driver.stream_wait(stream, event, flags);
    /// The context of a stream.
    fn cuStreamGetCtx(stream: Handle, context: Out<Handle>) |driver| {
        context.check()?;
        context.set(driver.stream_context(stream)?)
    };
    /// Calls a function of the host, on a thread of the driver, where no driver call is permitted.
    fn cuLaunchHostFunc(stream: Handle, function: Option<HostFn>, data: *mut c_void) |driver| {
        let stream = driver.stream(stream)?;
        driver.enqueue(stream, Action::Host(function.ok_or(INVALID_VALUE)?, data as usize), Vec::new());
        Ok(())
    };
}

/// Waits for all that is in the stream.
#[no_mangle]
#[allow(non_snake_case, reason = "the name is the driver's")]
pub extern "C" fn cuStreamSynchronize(stream: Handle) -> Status {
    let begin = |driver: &mut Driver| {
        let stream = driver.stream(stream)?;
        let work = vec![driver.last(stream)];
        Ok((driver.host_sync(work), driver.streams[stream].context))
    };
    call_and_wait(Call::cuStreamSynchronize, begin, |driver, context| driver.healthy(context))
}
