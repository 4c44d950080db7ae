//! Calls of the library beside captures of streams into CUDA graphs, on the software CUDA driver: a
//! call on a captured stream is refused and leaves the capture as it is, and no call disturbs a
//! capture of another thread.

use crate::common::{app, emu};
use app::{config, ok};
use cudarc::driver::sys::{self, CUcontext, CUgraph, CUresult, CUstream, CUstreamCaptureMode};
use gpuzip::codec::{ErrorBound, Method, Settings};
use gpuzip::config::Config;
use gpuzip::device::{AppField, AppMemory, Stream};
use gpuzip::error::Code;
use gpuzip::layout::Field;
use gpuzip::plan::Policy;
use gpuzip::scalar::Scalar;
use gpuzip::schedule::{Algorithm, Kind};
use gpuzip::session::Session;
use std::ptr::null_mut;
use std::sync::mpsc::channel;

/// Bytes of device memory.
const MEMORY: u64 = 1 << 26;
const BYTES: usize = 400;
const STEPS: i64 = 12;
const GLOBAL: CUstreamCaptureMode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;

/// An application with one field and two streams; `blocking` synchronises with the default stream.
struct App {
    context: CUcontext,
    field: u64,
    own: CUstream,
    blocking: CUstream,
}

impl App {
    fn new() -> Self {
        let mut app = App { context: null_mut(), field: 0, own: null_mut(), blocking: null_mut() };
        ok!(cuInit(0));
        ok!(cuDevicePrimaryCtxRetain(&mut app.context, 0));
        ok!(cuCtxSetCurrent(app.context));
        ok!(cuMemAlloc_v2(&mut app.field, BYTES));
        ok!(cuStreamCreate(&mut app.own, 1));
        ok!(cuStreamCreate(&mut app.blocking, 0));
        app
    }

    fn fields(&self) -> [AppField; 1] {
        let field = Field { n: [BYTES as u64 / 4, 1, 1], scalar: Scalar::F32, previous_of: None };
        // SAFETY: device memory that lives until the application does.
        [AppField { field, memory: Some(unsafe { AppMemory::new(self.field as *mut u8, BYTES) }) }]
    }

    /// Sets all values of the field to those of state `ts`.
    fn step(&self, ts: u32) {
        ok!(cuMemsetD8Async(self.field, ts as u8, BYTES, self.own));
    }

    /// Makes the stream `after` wait for the stream `before`.
    fn order(&self, before: CUstream, after: CUstream) {
        let mut event = null_mut();
        ok!(cuEventCreate(&mut event, 2));
        ok!(cuEventRecord(event, before));
        ok!(cuStreamWaitEvent(after, event, 0));
        ok!(cuEventDestroy_v2(event));
    }

    /// Checks that the field is state `ts`; waits for the device.
    fn check(&self, ts: u32) {
        let mut found = [0u8; BYTES];
        ok!(cuStreamSynchronize(self.own));
        ok!(cuMemcpyDtoH_v2(found.as_mut_ptr().cast(), self.field, BYTES));
        assert!(found.iter().all(|&byte| byte == ts as u8), "state {ts}: {found:?}");
    }
}

impl Drop for App {
    fn drop(&mut self) {
        ok!(cuCtxSynchronize());
        ok!(cuStreamDestroy_v2(self.own));
        ok!(cuStreamDestroy_v2(self.blocking));
        ok!(cuMemFree_v2(self.field));
        ok!(cuDevicePrimaryCtxRelease_v2(0));
    }
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
    let raw = Config { max_in_flight: 1, ..config(Algorithm::Revolve, 3, 2, Policy::Clairvoyant) };
    let compression =
        Settings { method: Method::Fp16, bound: ErrorBound::DEFAULT, reject_nonfinite: false };
    [raw.clone(), Config { compression, max_in_flight: 64, ..raw }]
}

/// Runs a shot. `call` gets the session, the action's kind and its time step, and makes the call.
fn shot(
    app: &App,
    session: &mut Session,
    mut begin: impl FnMut(),
    mut call: impl FnMut(&mut Session, Kind, i64),
    mut end: impl FnMut(),
) {
    loop {
        begin();
        let action = session.get_action().unwrap().action;
        end();
        match action.kind {
            Kind::Forward => app.step(action.ts),
            Kind::Save | Kind::Restore => {
                if action.kind == Kind::Save && action.ts == 0 {
                    app.step(0);
                }
                call(session, action.kind, action.ts as i64);
            }
            Kind::Terminate => break,
            _ => {}
        }
    }
}

/// A save or retrieve on a stream that is being captured is an error that names the capture. The
/// capture stays valid and empty, and the same call succeeds after the capture. So is a call on a stream
/// that has joined the capture of another stream, and on the default stream while a stream that synchronises with it is being captured. Nor do the marks before
/// actions get into a capture.
#[test]
fn a_call_in_a_capture_is_refused() {
    if !emu::with_kernels("a_call_in_a_capture_is_refused") {
        return;
    }
    for (seed, config) in configs().into_iter().enumerate() {
        assert_eq!(emu::reset(seed as u64, emu::RANDOM, 1, MEMORY), 0);
        let app = App::new();
        let is_exact = config.compression.method == Method::None;
        let mut session = Session::new(config, STEPS, &app.fields()).unwrap();
        let mut refused = 0;
        let make = |session: &mut Session, kind, ts, stream: CUstream| {
            let (fields, stream) = (app.fields(), Stream(stream.cast()));
            match kind {
                Kind::Save => session.save(ts, &fields, stream),
                _ => session.retrieve(ts, &fields, stream),
            }
        };
        let call = |session: &mut Session, kind, ts| {
            let mut refuse = |session: &mut Session, stream: CUstream| {
                let error = make(session, kind, ts, stream).unwrap_err();
                assert_eq!(error.code, Code::Argument, "{error}");
                assert!(error.message.contains("captured into a CUDA graph"), "{error}");
                refused += 1;
            };
            for (captured, stream) in [(app.own, app.own), (app.blocking, null_mut())] {
                ok!(cuStreamBeginCapture_v2(captured, GLOBAL));
                refuse(session, stream);
                assert_eq!(end_capture(captured), 0, "nothing was recorded");
            }
            // A stream that has joined a capture, by a wait for an event of the captured stream.
            ok!(cuStreamBeginCapture_v2(app.blocking, GLOBAL));
            app.order(app.blocking, app.own);
            refuse(session, app.own);
            app.order(app.own, app.blocking);
            assert_eq!(end_capture(app.blocking), 2, "the application's two records alone");
            make(session, kind, ts, app.own).unwrap();
            if kind == Kind::Restore && is_exact {
                app.check(ts as u32);
            }
        };
        let begin = || ok!(cuStreamBeginCapture_v2(app.own, GLOBAL));
        shot(&app, &mut session, begin, call, || assert_eq!(end_capture(app.own), 0));
        assert!(refused > 20, "{refused}");
    }
}

/// While another thread captures in the mode GLOBAL, which forbids all threads to wait, query or
/// allocate, a session is opened, runs a shot and ends, and the capture stays valid.
#[test]
fn a_capture_of_another_thread_is_left_alone() {
    if !emu::with_kernels("a_capture_of_another_thread_is_left_alone") {
        return;
    }
    for (seed, config) in configs().into_iter().enumerate() {
        assert_eq!(emu::reset(seed as u64, emu::RANDOM, 1, MEMORY), 0);
        let app = App::new();
        let (stream, context) = (app.blocking as usize, app.context as usize);
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
        let mut session = Session::new(config, STEPS, &app.fields()).unwrap();
        let call = |session: &mut Session, kind, ts| {
            let (fields, stream) = (app.fields(), Stream(app.own.cast()));
            match kind {
                Kind::Save => session.save(ts, &fields, stream).unwrap(),
                _ => session.retrieve(ts, &fields, stream).unwrap(),
            }
        };
        shot(&app, &mut session, || (), call, || ());
        session.synchronize().unwrap();
        session.close().unwrap();
        drop(session);
        end.send(()).unwrap();
        assert_eq!(capturing.join().unwrap(), 0);
        // The application's own calls are in the mode that it had before.
        ok!(cuStreamBeginCapture_v2(app.own, GLOBAL));
        // SAFETY: the call takes no pointer of this application.
        let result = unsafe { sys::cuCtxSynchronize() };
        assert_eq!(result, CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        let mut graph = null_mut();
        // SAFETY: a live stream, and a place for the result.
        let result = unsafe { sys::cuStreamEndCapture(app.own, &mut graph) };
        assert_eq!(result, CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
}
