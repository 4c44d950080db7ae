//! Tests the capture of streams: what is recorded, and what is forbidden meanwhile.

mod common;

use common::*;

const GLOBAL: u32 = 0;
const THREAD_LOCAL: u32 = 1;
const RELAXED: u32 = 2;

fn state(stream: Handle) -> u32 {
    let mut state = 9;
    ok(cuStreamIsCapturing(stream, Out::from(&mut state)));
    state
}

/// Ends a capture and returns its status and the number of operations in its graph.
fn end(stream: Handle) -> (Status, usize) {
    let (mut graph, mut nodes) = (0, 0);
    let status = cuStreamEndCapture(stream, Out::from(&mut graph));
    if status == SUCCESS {
        ok(cuGraphGetNodes(graph, std::ptr::null_mut(), Out::from(&mut nodes)));
        ok(cuGraphDestroy(graph));
    }
    (status, nodes)
}

/// Gives the calling thread a mode and returns the mode before.
fn exchange(mut mode: u32) -> u32 {
    ok(cuThreadExchangeStreamCaptureMode(Out::from(&mut mode)));
    mode
}

#[test]
fn captured_operations_do_not_run() {
    let _session = Session::new(0, Mode::Early);
    let (s, device, e) = (stream(NON_BLOCKING), device_memory(10), event(2));
    ok(cuMemsetD8Async(device, 1, 10, s));
    assert_eq!((state(s), end(s).0), (0, ILLEGAL_STATE));
    ok(cuStreamBeginCapture_v2(s, GLOBAL));
    assert_eq!(cuStreamBeginCapture_v2(s, GLOBAL), ILLEGAL_STATE);
    ok(cuMemsetD8Async(device, 2, 10, s));
    ok(cuEventRecord(e, s));
    ok(cuStreamWaitEvent(s, e, 0));
    assert_eq!((state(s), end(s), state(s)), (1, (SUCCESS, 2), 0));
    // SAFETY: within the allocation, on which no operation is queued.
    assert_eq!(unsafe { (device as *const u8).read() }, 1);
}

#[test]
fn what_a_capture_forbids_makes_it_invalid() {
    let _session = Session::new(0, Mode::Random);
    let (s, other, e, captured) = (stream(NON_BLOCKING), stream(NON_BLOCKING), event(2), event(2));
    ok(cuEventRecord(e, other));
    type Call<'a> = &'a dyn Fn() -> Status;
    let calls: [(Call, Status); 5] = [
        (&|| cuStreamSynchronize(s), STREAM_CAPTURE_UNSUPPORTED),
        (&|| cuStreamQuery(s), STREAM_CAPTURE_UNSUPPORTED),
        (&|| cuStreamWaitEvent(s, e, 0), STREAM_CAPTURE_ISOLATION),
        (&|| cuEventQuery(captured), CAPTURED_EVENT),
        (&|| cuEventSynchronize(captured), CAPTURED_EVENT),
    ];
    for (number, (call, expected)) in calls.into_iter().enumerate() {
        ok(cuStreamBeginCapture_v2(s, RELAXED));
        ok(cuEventRecord(captured, s));
        assert_eq!(call(), expected, "call {number}");
        assert_eq!((state(s), end(s).0), (2, STREAM_CAPTURE_INVALIDATED), "call {number}");
    }
    ok(cuStreamSynchronize(other));
}

/// A stream that waits for an event of a captured stream joins the capture, which ends well only after
/// a stream of it has waited for all that the other one was given.
#[test]
fn a_stream_joins_a_capture() {
    let _session = Session::new(0, Mode::Early);
    let (s, other, third) = (stream(NON_BLOCKING), stream(NON_BLOCKING), stream(NON_BLOCKING));
    let (device, fork, join) = (device_memory(10), event(2), event(2));
    let begin = || {
        ok(cuStreamBeginCapture_v2(s, RELAXED));
        ok(cuEventRecord(fork, s));
        ok(cuStreamWaitEvent(other, fork, 0));
        ok(cuMemsetD8Async(device, 2, 10, other));
    };
    begin();
    assert_eq!((state(s), state(other), state(third)), (1, 1, 0));
    assert_eq!(cuStreamBeginCapture_v2(other, RELAXED), ILLEGAL_STATE);
    ok(cuEventRecord(join, other));
    ok(cuStreamWaitEvent(s, join, 0));
    assert_eq!((end(s), state(other)), ((SUCCESS, 3), 0));
    // SAFETY: within the allocation, on which no operation is queued.
    assert_ne!(unsafe { (device as *const u8).read() }, 2, "nothing has run");

    begin();
    assert_eq!(end(s).0, STREAM_CAPTURE_UNJOINED);
    begin();
    ok(cuEventRecord(join, other));
    ok(cuMemsetD8Async(device, 3, 10, other));
    ok(cuStreamWaitEvent(s, join, 0));
    assert_eq!(end(s).0, STREAM_CAPTURE_UNJOINED, "the last memset");
    begin();
    assert_eq!(end(other).0, STREAM_CAPTURE_UNMATCHED);
    assert_eq!((state(s), end(s).0), (2, STREAM_CAPTURE_INVALIDATED));
    begin();
    assert_eq!(cuStreamSynchronize(other), STREAM_CAPTURE_UNSUPPORTED);
    assert_eq!(end(s).0, STREAM_CAPTURE_INVALIDATED);
    begin();
    ok(cuStreamBeginCapture_v2(third, RELAXED));
    assert_eq!(cuStreamWaitEvent(third, fork, 0), STREAM_CAPTURE_MERGE);
    assert_eq!((end(third).0, end(s).0), (STREAM_CAPTURE_INVALIDATED, STREAM_CAPTURE_INVALIDATED));
    // The event was recorded in a capture that has ended.
    assert_eq!(cuStreamWaitEvent(other, fork, 0), STREAM_CAPTURE_ISOLATION);
}

#[test]
fn the_legacy_stream_is_forbidden_beside_a_blocking_one() {
    let _session = Session::new(0, Mode::Random);
    let (blocking, device) = (stream(0), device_memory(10));
    assert_eq!(cuStreamBeginCapture_v2(0, GLOBAL), STREAM_CAPTURE_UNSUPPORTED);
    ok(cuStreamBeginCapture_v2(blocking, GLOBAL));
    let mut state = 0;
    assert_eq!(cuStreamIsCapturing(0, Out::from(&mut state)), STREAM_CAPTURE_IMPLICIT);
    assert_eq!(end(blocking), (SUCCESS, 0), "the question is allowed");
    ok(cuStreamBeginCapture_v2(blocking, GLOBAL));
    assert_eq!(cuMemsetD8Async(device, 1, 10, 0), STREAM_CAPTURE_IMPLICIT);
    assert_eq!(end(blocking).0, STREAM_CAPTURE_INVALIDATED);
}

/// A capture of the mode GLOBAL forbids all threads, and one of the mode THREAD_LOCAL its own
/// thread, to wait, query or allocate; a thread of the mode RELAXED may.
#[test]
fn the_modes_of_threads_and_captures() {
    let session = Session::new(0, Mode::Random);
    let (s, e) = (stream(NON_BLOCKING), event(2));
    let in_thread = |mode: u32| {
        let context = session.context;
        std::thread::spawn(move || {
            ok(cuCtxSetCurrent(context));
            assert_eq!(exchange(mode), GLOBAL);
            let status = cuEventQuery(e);
            (status, cuStreamEndCapture(s, Out::from(&mut 0)))
        })
        .join()
        .unwrap()
    };
    for (capture, thread, is_allowed) in [
        (GLOBAL, GLOBAL, false),
        (GLOBAL, THREAD_LOCAL, true),
        (GLOBAL, RELAXED, true),
        (THREAD_LOCAL, GLOBAL, true),
        (THREAD_LOCAL, THREAD_LOCAL, true),
    ] {
        ok(cuStreamBeginCapture_v2(s, capture));
        let (status, ended) = in_thread(thread);
        let what = format!("capture {capture}, thread {thread}");
        assert_eq!(status, if is_allowed { SUCCESS } else { STREAM_CAPTURE_UNSUPPORTED }, "{what}");
        assert_eq!(ended, STREAM_CAPTURE_WRONG_THREAD, "{what}");
        let expected = if is_allowed { SUCCESS } else { STREAM_CAPTURE_INVALIDATED };
        assert_eq!(end(s).0, expected, "{what}");
    }
    ok(cuStreamBeginCapture_v2(s, THREAD_LOCAL));
    assert_eq!(cuEventQuery(e), STREAM_CAPTURE_UNSUPPORTED);
    assert_eq!(end(s).0, STREAM_CAPTURE_INVALIDATED);
    ok(cuStreamBeginCapture_v2(s, THREAD_LOCAL));
    assert_eq!(exchange(RELAXED), GLOBAL);
    ok(cuEventQuery(e));
    assert_eq!(exchange(GLOBAL), RELAXED);
    assert_eq!(end(s).0, SUCCESS);
    assert_eq!(cuThreadExchangeStreamCaptureMode(Out::from(&mut 3)), INVALID_VALUE);
}
