//! Streams of an application that come and go, on a driver that ends the process when a destroyed stream
//! is used.

use crate::common::{self, app, emu};
use app::{config, ok, MEMORY};
use cudarc::driver::sys::{self, CUcontext, CUstream};
use gpuzip::config::Config;
use gpuzip::device::{AppField, AppMemory, Stream};
use gpuzip::layout::Field;
use gpuzip::plan::Policy;
use gpuzip::scalar::Scalar;
use gpuzip::schedule::{Algorithm, Kind};
use gpuzip::session::Session;
use std::ffi::c_void;
use std::ptr::null_mut;

const BYTES: usize = 400;
const STEPS: i64 = 12;

/// An application with one field, whose every byte is the number of the state. Each save and retrieve
/// is on a new stream; the stream of the call before is destroyed right after it.
struct App {
    context: CUcontext,
    address: u64,
    seen: *mut u8,
    stream: CUstream,
}

impl App {
    fn new() -> Self {
        let (mut context, mut address, mut seen) = (null_mut(), 0, null_mut::<c_void>());
        ok!(cuInit(0));
        ok!(cuDevicePrimaryCtxRetain(&mut context, 0));
        ok!(cuCtxSetCurrent(context));
        ok!(cuMemAlloc_v2(&mut address, BYTES));
        ok!(cuMemHostAlloc(&mut seen, BYTES, 0));
        App { context, address, seen: seen.cast(), stream: null_mut() }
    }

    fn fields(&self) -> [AppField; 1] {
        let field = Field { n: [BYTES as u64 / 4, 1, 1], scalar: Scalar::F32, previous_of: None };
        // SAFETY: memory of the device that lives as long as the application.
        let memory = unsafe { AppMemory::new(self.address as *mut u8, BYTES) };
        [AppField { field, memory: Some(memory) }]
    }

    /// Calls the library on a new stream, which waits for the work of the stream before; then destroys
    /// the stream before.
    fn on_a_new_stream(&mut self, call: impl FnOnce(&Self, Stream)) {
        let (mut stream, mut order) = (null_mut(), null_mut());
        ok!(cuStreamCreate(&mut stream, 1));
        ok!(cuEventCreate(&mut order, 2));
        let before = std::mem::replace(&mut self.stream, stream);
        if !before.is_null() {
            ok!(cuEventRecord(order, before));
            ok!(cuStreamWaitEvent(stream, order, 0));
        }
        call(self, Stream(stream.cast()));
        if !before.is_null() {
            ok!(cuStreamDestroy_v2(before));
        }
        ok!(cuEventDestroy_v2(order));
    }

    fn destroy_stream(&mut self) {
        let stream = std::mem::replace(&mut self.stream, null_mut());
        if !stream.is_null() {
            ok!(cuStreamDestroy_v2(stream));
        }
    }

    /// Runs a shot up to its `end`-th action or TERMINATE, and then destroys the last stream. Returns
    /// whether this was TERMINATE.
    fn shot(&mut self, session: &mut Session, end: usize) -> bool {
        for number in 0.. {
            if number == end {
                break;
            }
            let tick = session.get_action().unwrap();
            let ts = tick.action.ts;
            match tick.action.kind {
                Kind::Save => self.on_a_new_stream(|app, stream| {
                    let value = ts as u8;
                    ok!(cuMemsetD8Async(app.address, value, BYTES, stream.0.cast()));
                    session.save(ts.into(), &app.fields(), stream).unwrap();
                }),
                Kind::Restore => self.on_a_new_stream(|app, stream| {
                    session.retrieve(ts.into(), &app.fields(), stream).unwrap();
                    let (to, stream): (*mut c_void, CUstream) = (app.seen.cast(), stream.0.cast());
                    ok!(cuMemcpyDtoHAsync_v2(to, app.address, BYTES, stream));
                    ok!(cuStreamSynchronize(stream));
                    // SAFETY: the copy has ended, and nothing else writes there.
                    let seen = unsafe { std::slice::from_raw_parts(app.seen, BYTES) };
                    assert!(seen.iter().all(|&byte| byte == ts as u8), "state {ts}");
                }),
                Kind::Terminate => {
                    self.destroy_stream();
                    return true;
                }
                Kind::Forward | Kind::Backward | Kind::Error => {}
            }
        }
        self.destroy_stream();
        false
    }
}

impl Drop for App {
    fn drop(&mut self) {
        self.destroy_stream();
        // SAFETY: `new` made all of these, and nothing uses them any more.
        unsafe {
            let _ = sys::cuMemFree_v2(self.address);
            let _ = sys::cuMemFreeHost(self.seen.cast());
            let _ = sys::cuCtxSetCurrent(null_mut());
            assert!(!self.context.is_null());
            let _ = sys::cuDevicePrimaryCtxRelease_v2(0);
        }
    }
}

/// The sessions: raw ones, with and without a cache, one with a timeline, one that is measured.
fn configs() -> Vec<Config> {
    let base = |cache| Config {
        max_in_flight: 1,
        ..config(Algorithm::Revolve, 3, cache, Policy::Clairvoyant)
    };
    let timeline = common::scratch("cuda-streams").join("run-%p.json");
    vec![base(0), base(2), Config { trace_out: Some(timeline), ..base(2) }]
}

/// The application destroys its stream after any action. Statistics, waits, the next shot and the end
/// of the session do without it.
#[test]
fn a_destroyed_stream_is_not_used() {
    let variables = [("CUDA_EMU_DESTROYED_STREAMS", "abort")];
    if !emu::inside("a_destroyed_stream_is_not_used", &variables) {
        return;
    }
    for (number, config) in configs().into_iter().enumerate() {
        for end in 0.. {
            let seed = 100 * number as u64 + end as u64;
            let mode = [emu::RANDOM, emu::LATE, emu::EARLY][end % 3];
            assert_eq!(emu::reset(seed, mode, 1, MEMORY), 0, "seed {seed}");
            let mut app = App::new();
            let mut session = Session::new(config.clone(), STEPS, &app.fields()).unwrap();
            session.setup().unwrap();
            let is_over = app.shot(&mut session, end);
            session.stats().unwrap();
            session.synchronize().unwrap();
            if end % 2 == 0 {
                session.setup().unwrap();
                assert!(app.shot(&mut session, usize::MAX));
            }
            drop(session);
            if is_over {
                break;
            }
        }
    }
}

/// The driver ends the process indeed: the library needs the stream of a shot that goes on.
#[test]
fn a_destroyed_stream_ends_the_process_where_it_is_used() {
    let name = "a_destroyed_stream_ends_the_process_where_it_is_used";
    if std::env::var_os("GPUZIP_TEST_EMULATED").is_none() {
        let output = common::again(name)
            .env("GPUZIP_TEST_EMULATED", "1")
            .env("CUDA_EMU_DESTROYED_STREAMS", "abort")
            .env("LD_LIBRARY_PATH", emu::folder_with(name, &emu::driver()))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("or a destroyed one"), "{said}");
        return;
    }
    let mut app = App::new();
    let mut session = Session::new(configs().remove(0), STEPS, &app.fields()).unwrap();
    session.setup().unwrap();
    assert!(!app.shot(&mut session, 4));
    while session.get_action().is_ok() {}
}
