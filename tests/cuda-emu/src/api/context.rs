//! The functions of contexts and of each thread's stack of current contexts.

use super::{exports, Handle, Out};
use crate::call::Call;
use crate::driver::{call_and_wait, Driver};
use crate::faults::Drop;
use crate::status::{Result, Status};
use crate::stream::Point;

exports! {
    /// Retains the primary context of a device.
    fn cuDevicePrimaryCtxRetain(context: Out<Handle>, device: i32) |driver| context.give(|| driver.primary_retain(device));
    /// Makes a context for the application and pushes it on this thread's stack.
    fn cuCtxCreate_v2(context: Out<Handle>, _flags: u32, device: i32) |driver| context.give(|| driver.context_create(device));
    /// Replaces the context on top of this thread's stack; a null handle pops it.
    fn cuCtxSetCurrent(context: Handle) |driver| driver.set_current(context);
    /// Gives the context on top of this thread's stack, null if the stack is empty.
    fn cuCtxGetCurrent(context: Out<Handle>) |driver| context.set(driver.current_handle());
    /// Pushes a context.
    fn cuCtxPushCurrent_v2(context: Handle) |driver| driver.push_current(context);
    /// Pops this thread's stack; the pointer `context` may be null.
    fn cuCtxPopCurrent_v2(context: Out<Handle>) |driver| {
        let popped = driver.pop_current()?;
        context.set(popped).or(Ok(()))
    };
    /// The device of the current context.
    fn cuCtxGetDevice(device: Out<i32>) |driver| {
        let context = driver.current_device_context()?;
        device.set(driver.contexts[context].device as i32)
    };
    /// Gives the range of stream priorities: only 0. Either pointer may be null.
    fn cuCtxGetStreamPriorityRange(least: Out<i32>, greatest: Out<i32>) |driver| {
        driver.current()?;
        [least, greatest].into_iter().filter(|out| out.check().is_ok()).try_for_each(|out| out.set(0))
    };
}

/// Releases the primary context; the last release ends it.
#[no_mangle]
#[allow(non_snake_case, reason = "the name is the driver's")]
pub extern "C" fn cuDevicePrimaryCtxRelease_v2(device: i32) -> Status {
    let begin = |driver: &mut Driver| {
        let last = driver.primary_release(device)?;
        Ok((last.map_or_else(Vec::new, |context| driver.all_work(context)), last))
    };
    call_and_wait(Call::cuDevicePrimaryCtxRelease_v2, begin, end)
}

/// Finishes the work of a context of the application, then ends the context.
#[no_mangle]
#[allow(non_snake_case, reason = "the name is the driver's")]
pub extern "C" fn cuCtxDestroy_v2(context: Handle) -> Status {
    let begin = |driver: &mut Driver| {
        let context = driver.context_to_destroy(context)?;
        Ok((driver.all_work(context), Some(context)))
    };
    call_and_wait(Call::cuCtxDestroy_v2, begin, end)
}

/// Waits for all work of the current context.
#[no_mangle]
#[allow(non_snake_case, reason = "the name is the driver's")]
pub extern "C" fn cuCtxSynchronize() -> Status {
    let begin = |driver: &mut Driver| {
        let context = driver.current()?;
        let work = driver.all_work(context);
        Ok((driver.host_sync(work), context))
    };
    call_and_wait(Call::cuCtxSynchronize, begin, |driver, context| driver.healthy(context))
}

fn end(driver: &mut Driver, context: Option<usize>) -> Result {
    context.into_iter().for_each(|context| driver.end_context(context));
    Ok(())
}

impl Driver {
    /// Counts a host synchronisation and returns the operations to wait for: `work`, or none if
    /// `emu_drop` loses this synchronisation.
    pub(crate) fn host_sync(&mut self, work: Vec<Point>) -> Vec<Point> {
        self.counters.totals.host_syncs += 1;
        if self.faults.dropped(Drop::Sync) {
            self.counters.totals.dropped += 1;
            return Vec::new();
        }
        work
    }
}
