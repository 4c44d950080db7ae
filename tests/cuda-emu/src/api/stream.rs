//! The functions of streams.

use super::{exports, Address, Handle, Out};
use crate::call::Call;
use crate::driver::{call_and_wait, Driver};
use crate::execute::Action;
use crate::host_thread::HostFn;
use crate::status::{Status, INVALID_VALUE, NOT_SUPPORTED};
use std::ffi::c_void;

exports! {
    /// Makes a stream. Flags: 0: the stream synchronises with the legacy default stream, 1: it does
    /// not.
    fn cuStreamCreate(stream: Out<Handle>, flags: u32) |driver| stream.give(|| driver.stream_create(flags));
    /// Makes a stream; the priority is ignored.
    fn cuStreamCreateWithPriority(stream: Out<Handle>, flags: u32, _priority: i32) |driver| stream.give(|| driver.stream_create(flags));
    /// Destroys a stream; its queued operations still run.
    fn cuStreamDestroy_v2(stream: Handle) |driver| driver.stream_destroy(stream);
    /// Answers whether all operations of the stream have run.
    fn cuStreamQuery(stream: Handle) |driver| driver.stream_query(stream);
    /// Makes later operations of the stream wait for the event's last record at the time of this
    /// call.
    fn cuStreamWaitEvent(stream: Handle, event: Handle, flags: u32) |driver| driver.stream_wait(stream, event, flags);
    /// Makes later operations of the stream wait until the number at `address`, in page-locked
    /// memory, has reached `value`, on the circle of 32-bit numbers.
    fn cuStreamWaitValue32_v2(stream: Handle, address: Address, value: u32, flags: u32) |driver| driver.stream_wait_value(stream, address, value, flags);
    /// Gives the context of a stream.
    fn cuStreamGetCtx(stream: Handle, context: Out<Handle>) |driver| context.give(|| driver.stream_context(stream));
    /// Begins a capture. Mode 0: global, 1: of this thread, 2: relaxed.
    fn cuStreamBeginCapture_v2(stream: Handle, mode: u32) |driver| driver.capture_begin(stream, mode);
    /// Ends a capture and gives its graph, or 0 with the error of an invalid capture.
    fn cuStreamEndCapture(stream: Handle, graph: Out<Handle>) |driver| {
        graph.check()?;
        let ended = driver.capture_end(stream);
        graph.set(ended.unwrap_or(0))?;
        ended.map(|_| ())
    };
    /// Gives 0 for a stream that is not being captured, 1 if it is, 2 if its capture is invalid.
    fn cuStreamIsCapturing(stream: Handle, state: Out<u32>) |driver| state.give(|| driver.is_capturing(stream));
    /// Gives the calling thread another mode of captures, and the mode before in its place.
    fn cuThreadExchangeStreamCaptureMode(mode: Out<u32>) |driver| {
        mode.check()?;
        // SAFETY: the caller gives a mode, and `check` has refused null.
        let new = unsafe { mode.0.read() };
        mode.set(driver.exchange_capture_mode(new)?)
    };
    /// Gives the number of operations in a graph; the operations themselves cannot be had.
    fn cuGraphGetNodes(graph: Handle, nodes: *mut Handle, count: Out<usize>) |driver| {
        let graph = driver.graphs.find(graph).ok_or(INVALID_VALUE)?;
        if !nodes.is_null() {
            return Err(NOT_SUPPORTED);
        }
        count.set(driver.graphs[graph] as usize)
    };
    /// Destroys a graph.
    fn cuGraphDestroy(graph: Handle) |driver| {
        let graph = driver.graphs.find(graph).ok_or(INVALID_VALUE)?;
        driver.graphs.remove(graph);
        Ok(())
    };
    /// Enqueues a call of a host function. The function runs on a thread of the driver and must not
    /// call the driver.
    fn cuLaunchHostFunc(stream: Handle, function: Option<HostFn>, data: *mut c_void) |driver| {
        let stream = driver.stream(stream)?;
        driver.enqueue(stream, Action::Host(function.ok_or(INVALID_VALUE)?, data as usize), Vec::new());
        Ok(())
    };
}

/// Waits for all operations of the stream.
#[no_mangle]
#[allow(non_snake_case, reason = "the name is the driver's")]
pub extern "C" fn cuStreamSynchronize(stream: Handle) -> Status {
    let begin = |driver: &mut Driver| {
        let stream = driver.stream(stream)?;
        driver.refuse_captured(stream)?;
        let work = vec![driver.last(stream)];
        Ok((driver.host_sync(work), driver.streams[stream].context))
    };
    call_and_wait(Call::cuStreamSynchronize, begin, |driver, context| driver.healthy(context))
}
