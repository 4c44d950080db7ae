//! Calls of the library beside captures of streams into CUDA graphs, on the software CUDA driver: a
//! call on a captured stream is refused and leaves the capture as it is, and no call disturbs a
//! capture of another thread.

use crate::common::emu::emulated;
use crate::common::play;
use crate::common::prelude::*;
use crate::common::{app, emu};
use app::device::{order, Own};
use app::plain::{Plain, Step};
use app::{config, ok};
use cudarc::driver::sys::{self, CUcontext, CUgraph, CUresult, CUstream, CUstreamCaptureMode};
use gpuzip::device::Stream;
use std::ptr::null_mut;
use std::sync::mpsc::channel;

/// Bytes of device memory.
const MEMORY: u64 = 1 << 26;
const STEPS: i64 = 12;
const GLOBAL: CUstreamCaptureMode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;

/// Makes an application with two streams: its own one, and one that synchronises with the default
/// stream.
fn application(checks: bool) -> (Plain, Own) {
    (Plain::new(100, if checks { Step::Number } else { Step::Takes(0.0) }), Own::with(0))
}

/// Ends the capture of `stream`, which must be valid, and returns the number of operations in its
/// graph.
fn end_capture(stream: CUstream) -> usize {
    let (mut graph, mut nodes): (CUgraph, usize) = (null_mut(), 0);
    ok!(cuStreamEndCapture(stream, &mut graph));
    ok!(cuGraphGetNodes(graph, null_mut(), &mut nodes));
    ok!(cuGraphDestroy(graph));
    nodes
}

/// Small configurations: raw with marks before every action, and compressed.
fn configs() -> [Config; 2] {
    let raw =
        config(Algorithm::Revolve, 3, 2, Policy::Clairvoyant).with(|c| c.device.max_in_flight = 1);
    let compression = coding(Method::Fp16, ErrorBound::DEFAULT);
    [
        raw.clone(),
        raw.with(|c| {
            c.codec.settings = compression;
            c.device.max_in_flight = 64;
        }),
    ]
}

/// A save or retrieve on a stream that is being captured is an error that names the capture. The
/// capture stays valid and empty, and the same call succeeds after the capture. So is a call on a stream
/// that has joined the capture of another stream, and on the default stream while a stream that synchronises with it is being captured. Nor do the marks before
/// actions get into a capture.
#[test]
fn a_call_in_a_capture_is_refused() {
    emulated!(kernels);
    for (seed, config) in configs().into_iter().enumerate() {
        assert_eq!(emu::reset(seed as u64, emu::RANDOM, 1, MEMORY), 0);
        let (mut app, blocking) = application(config.codec.settings.method == Method::None);
        let mut session = Session::new(config, STEPS, &app.field()).unwrap();
        let (own, blocking, fields, mut refused) = (app.on, blocking.0, app.field(), 0);
        let mut refuse = |session: &mut Session, kind, ts: u32, stream: CUstream| {
            let error = match kind {
                Kind::Save => session.save(ts.into(), &fields, Stream(stream.cast())),
                _ => session.retrieve(ts.into(), &fields, Stream(stream.cast())),
            };
            let error = error.unwrap_err();
            assert_eq!(error.code, Code::Argument, "{error}");
            assert!(error.message.contains("captured into a CUDA graph"), "{error}");
            refused += 1;
        };
        app.forward(0);
        loop {
            ok!(cuStreamBeginCapture_v2(own, GLOBAL));
            let tick = session.get_action().unwrap();
            assert_eq!(end_capture(own), 0);
            let (kind, ts) = (tick.action.kind, tick.action.ts);
            if matches!(kind, Kind::Save | Kind::Restore) {
                for (captured, stream) in [(own, own), (blocking, null_mut())] {
                    ok!(cuStreamBeginCapture_v2(captured, GLOBAL));
                    refuse(&mut session, kind, ts, stream);
                    assert_eq!(end_capture(captured), 0, "nothing was recorded");
                }
                // A stream that has joined a capture, by a wait for an event of the captured stream.
                ok!(cuStreamBeginCapture_v2(blocking, GLOBAL));
                order(blocking, own);
                refuse(&mut session, kind, ts, own);
                order(own, blocking);
                assert_eq!(end_capture(blocking), 2, "the application's two records alone");
            }
            app.serve(&mut session, tick).unwrap();
            if kind == Kind::Terminate {
                break;
            }
        }
        assert!(refused > 20, "{refused}");
    }
}

/// While another thread captures in the mode GLOBAL, which forbids all threads to wait, query or
/// allocate, a session is opened, runs a shot and ends, and the capture stays valid.
#[test]
fn a_capture_of_another_thread_is_left_alone() {
    emulated!(kernels);
    for (seed, config) in configs().into_iter().enumerate() {
        assert_eq!(emu::reset(seed as u64, emu::RANDOM, 1, MEMORY), 0);
        let (mut app, blocking) = application(false);
        let (stream, context) = (blocking.0 as usize, app.primary.context as usize);
        let (begun, has_begun) = channel();
        let (end, may_end) = channel::<()>();
        let capturing = std::thread::spawn(move || {
            ok!(cuCtxSetCurrent(context as CUcontext));
            ok!(cuStreamBeginCapture_v2(stream as CUstream, GLOBAL));
            begun.send(()).unwrap();
            may_end.recv().unwrap();
            end_capture(stream as CUstream)
        });
        has_begun.recv().unwrap();
        let mut session = Session::new(config, STEPS, &app.field()).unwrap();
        play::play(&mut session, &mut app).unwrap();
        session.synchronize().unwrap();
        session.close().unwrap();
        drop(session);
        end.send(()).unwrap();
        assert_eq!(capturing.join().unwrap(), 0);
        // The application's own calls are in the mode that it had before.
        ok!(cuStreamBeginCapture_v2(app.on, GLOBAL));
        // SAFETY: the call takes no pointer of this application.
        let result = unsafe { sys::cuCtxSynchronize() };
        assert_eq!(result, CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        let mut graph = null_mut();
        // SAFETY: a live stream, and a place for the result.
        let result = unsafe { sys::cuStreamEndCapture(app.on, &mut graph) };
        assert_eq!(result, CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
}
