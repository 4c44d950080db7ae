//! Shots of an application whose kernels are as slow as it likes: a state is written and checked on
//! the device, so that its size is limited by the device alone.

use super::gpu::{self, Gpu, Memory, Pair};
use crate::common::app::ok;
use cudarc::driver::sys::{self, CUevent, CUstream};
use gpuzip::config::Config;
use gpuzip::device::{AppField, AppMemory, Stream};
use gpuzip::error::Result;
use gpuzip::layout::Field;
use gpuzip::scalar::Scalar;
use gpuzip::schedule::{flags, Kind};
use gpuzip::session::Session;
use std::ffi::c_void;
use std::ptr::null_mut;

/// The application's streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streams {
    /// NULL, the legacy default stream.
    Null,
    /// `CU_STREAM_LEGACY`.
    Legacy,
    /// `CU_STREAM_PER_THREAD`.
    PerThread,
    /// A stream that synchronises with the legacy default stream.
    Blocking,
    NonBlocking,
    /// A stream of the highest priority.
    Urgent,
    /// Two streams in turn, ordered by an event of the application.
    Alternating,
}

/// The most checks of a shot.
const LOOKS: usize = 4000;

/// The application.
pub struct App<'a> {
    gpu: &'a Gpu,
    fields: Vec<(Field, u64)>,
    memory: Vec<Memory>,
    streams: Vec<CUstream>,
    turn: usize,
    handover: CUevent,
    rounds: u32,
    /// In 1/1024: how far restored values may be off.
    tolerance: u32,
    wrong: Memory,
    looks: usize,
    /// Whether no context is current while the library is called.
    pub calls_without_context: bool,
    /// Times of the saves and of the retrieves on the application's stream.
    pub timed: Option<[Vec<Pair>; 2]>,
}

/// What a shot has shown.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Checks of fields, and those that found a wrong value.
    pub looks: usize,
    pub wrong: usize,
}

impl<'a> App<'a> {
    /// Makes an application with fields of these numbers of FP32 values, in memory of its own.
    pub fn new(gpu: &'a Gpu, counts: &[u64], streams: Streams, rounds: u32) -> Self {
        let memory: Vec<Memory> = counts.iter().map(|count| Memory::new(4 * count)).collect();
        let at: Vec<u64> = memory.iter().map(|memory| memory.0).collect();
        let mut app = Self::at(gpu, counts, &at, streams, rounds);
        app.memory = memory;
        app
    }

    /// Makes an application whose fields are at these addresses.
    pub fn at(gpu: &'a Gpu, counts: &[u64], at: &[u64], streams: Streams, rounds: u32) -> Self {
        let field = |&n1: &u64| Field { n: [n1, 1, 1], scalar: Scalar::F32, previous_of: None };
        let mut handover = null_mut();
        ok!(cuEventCreate(&mut handover, 2));
        let wrong = Memory::new(4 * LOOKS as u64);
        gpu::set(wrong.0, 0, 4 * LOOKS);
        let made = |flags: u32| {
            let mut stream = null_mut();
            ok!(cuStreamCreate(&mut stream, flags));
            stream
        };
        let streams = match streams {
            Streams::Null => vec![null_mut()],
            Streams::Legacy => vec![std::ptr::without_provenance_mut(1)],
            Streams::PerThread => vec![std::ptr::without_provenance_mut(2)],
            Streams::Blocking => vec![made(0)],
            Streams::NonBlocking => vec![made(1)],
            Streams::Urgent => {
                let (mut least, mut greatest, mut stream) = (0, 0, null_mut());
                ok!(cuCtxGetStreamPriorityRange(&mut least, &mut greatest));
                ok!(cuStreamCreateWithPriority(&mut stream, 1, greatest));
                vec![stream]
            }
            Streams::Alternating => vec![made(1), made(1)],
        };
        App {
            gpu,
            fields: counts.iter().map(field).zip(at.iter().copied()).collect(),
            memory: Vec::new(),
            streams,
            turn: 0,
            handover,
            rounds,
            tolerance: 0,
            wrong,
            looks: 0,
            calls_without_context: false,
            timed: None,
        }
    }

    /// Allows restored values to be off by as much as a codec with an absolute bound of 0.25.
    pub fn lossy(mut self) -> Self {
        self.tolerance = 257;
        self
    }

    pub fn stream(&self) -> CUstream {
        self.streams[self.turn % self.streams.len()]
    }

    /// Goes on with the next stream, which waits for the present one.
    fn next_stream(&mut self) {
        if self.streams.len() > 1 {
            ok!(cuEventRecord(self.handover, self.stream()));
            self.turn += 1;
            ok!(cuStreamWaitEvent(self.stream(), self.handover, 0));
        }
    }

    pub fn app_fields(&self) -> Vec<AppField> {
        let one = |&(field, address): &(Field, u64)| {
            let bytes = field.bytes().unwrap() as usize;
            // SAFETY: memory that lives as long as the application.
            AppField { field, memory: Some(unsafe { AppMemory::new(address as *mut u8, bytes) }) }
        };
        self.fields.iter().map(one).collect()
    }

    /// Enqueues the writing of a state.
    pub fn forward(&self, ts: u32) {
        for (i, &(field, at)) in self.fields.iter().enumerate() {
            self.gpu.fill(self.stream(), at, field.n[0], 8 * ts + i as u32, self.rounds);
        }
    }

    /// Enqueues a check of all fields.
    pub fn look(&mut self, ts: u32) {
        for (i, &(field, at)) in self.fields.iter().enumerate() {
            assert!(self.looks < LOOKS);
            let (state, counter) = (8 * ts + i as u32, self.wrong.0 + 4 * self.looks as u64);
            self.gpu.check(self.stream(), at, field.n[0], state, self.tolerance, counter);
            self.looks += 1;
        }
    }

    fn poison(&self) {
        for &(field, at) in &self.fields {
            let bytes = field.bytes().unwrap() as usize;
            ok!(cuMemsetD8Async(at, 0xee, bytes, self.stream()));
        }
    }

    /// Makes a call of the library, which is timed, and before which the context may be put away.
    fn call<T>(&mut self, kind: usize, call: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
        let mut result = None;
        let calls = |app: &Self| {
            if app.calls_without_context {
                ok!(cuCtxSetCurrent(null_mut()));
            }
            let result = call(app);
            ok!(cuCtxSetCurrent(app.gpu.context));
            result
        };
        match self.timed.take() {
            None => calls(self),
            Some(mut pairs) => {
                pairs[kind].push(Pair::around(self.stream(), || result = Some(calls(self))));
                self.timed = Some(pairs);
                result.unwrap()
            }
        }
    }

    /// Runs a shot, or its first actions: until `goes_on` is false for an action. Returns the time
    /// step of this action.
    pub fn run(
        &mut self,
        session: &mut Session,
        mut goes_on: impl FnMut(Kind) -> bool,
    ) -> Option<u32> {
        self.forward(0);
        loop {
            let tick = session.get_action().unwrap();
            if !goes_on(tick.action.kind) {
                return Some(tick.action.ts);
            }
            let (ts, step) = (tick.action.ts, tick.action.ts as i64);
            match tick.action.kind {
                Kind::Forward => (ts..=tick.end).for_each(|ts| self.forward(ts)),
                Kind::Save => {
                    let fields = self.app_fields();
                    self.call(0, |app| session.save(step, &fields, Stream(app.stream().cast())))
                        .unwrap();
                    self.poison();
                    self.next_stream();
                }
                Kind::Restore => {
                    self.poison();
                    let fields = self.app_fields();
                    self.call(1, |app| {
                        session.retrieve(step, &fields, Stream(app.stream().cast()))
                    })
                    .unwrap();
                    self.look(ts);
                    self.next_stream();
                }
                Kind::Backward => {
                    self.look(ts);
                    self.poison();
                }
                Kind::Terminate => return None,
                Kind::Error => {}
            }
        }
    }

    /// Runs a shot with zero copy: states are computed and checked in the library's memory.
    pub fn run_in_slots(&mut self, session: &mut Session) {
        let own = self.fields.clone();
        let count = own.len();
        let at = |own: &[(Field, u64)], slots: Vec<*mut c_void>| -> Vec<(Field, u64)> {
            own.iter().zip(slots).map(|((field, _), at)| (*field, at as u64)).collect()
        };
        let mut handed = None;
        loop {
            let tick = session.get_action().unwrap();
            let (action, ts) = (tick.action, tick.end);
            let stream = Stream(self.stream().cast());
            let for_save = action.flags & flags::NEXT_IS_SAVE != 0;
            match action.kind {
                Kind::Forward if !for_save => {
                    self.fields.clone_from(&own);
                    self.forward(ts);
                }
                Kind::Forward | Kind::Save if for_save || handed != Some(ts) => {
                    let slots = session.save_begin(ts as i64, count, stream).unwrap();
                    self.fields = at(&own, slots);
                    self.forward(ts);
                    handed = Some(ts);
                    if action.kind == Kind::Save {
                        session.save_commit(ts as i64, stream).unwrap();
                    }
                }
                Kind::Save => session.save_commit(ts as i64, stream).unwrap(),
                Kind::Restore => {
                    let slots = session.retrieve_acquire(ts as i64, count, stream).unwrap();
                    self.fields = at(&own, slots);
                    self.look(ts);
                    handed = Some(ts);
                    if action.flags & flags::LAST_USE != 0 {
                        self.poison();
                        handed = None;
                    }
                }
                Kind::Terminate => break,
                Kind::Forward | Kind::Backward | Kind::Error => {}
            }
        }
        self.fields = own;
    }

    /// Waits for the application's streams and returns what the checks have found.
    pub fn outcome(&mut self) -> Outcome {
        for stream in &self.streams {
            ok!(cuStreamSynchronize(*stream));
        }
        let mut counts = vec![0u32; self.looks];
        if self.looks > 0 {
            ok!(cuMemcpyDtoH_v2(counts.as_mut_ptr().cast(), self.wrong.0, 4 * self.looks));
            gpu::set(self.wrong.0, 0, 4 * self.looks);
        }
        self.looks = 0;
        let wrong = counts.iter().filter(|count| **count > 0).count();
        Outcome { looks: counts.len(), wrong }
    }

    /// Runs a whole shot of a session with `config`.
    pub fn shot(&mut self, config: Config, steps: i64) -> Outcome {
        let in_slots = config.zero_copy;
        let mut session = Session::new(config, steps, &self.app_fields()).unwrap();
        session.setup().unwrap();
        if in_slots {
            self.run_in_slots(&mut session);
        } else {
            self.run(&mut session, |_| true);
        }
        self.outcome()
    }
}

impl Drop for App<'_> {
    fn drop(&mut self) {
        // SAFETY: streams and events of `at`; after a sticky error nothing can be freed.
        unsafe {
            let _ = sys::cuCtxSetCurrent(self.gpu.context);
            for stream in self.streams.iter().filter(|stream| stream.addr() > 2) {
                let _ = sys::cuStreamSynchronize(*stream);
                let _ = sys::cuStreamDestroy_v2(*stream);
            }
            let _ = sys::cuEventDestroy_v2(self.handover);
        }
        self.memory.clear();
    }
}

/// Rounds of work per value with which a kernel that writes `count` values takes about `seconds`.
pub fn rounds_for(gpu: &Gpu, count: u64, seconds: f64) -> u32 {
    if gpu.is_software() {
        return 2;
    }
    let (memory, stream) = (Memory::new(4 * count), gpu::stream());
    let run =
        |rounds| Pair::around(stream, || gpu.fill(stream, memory.0, count, 0, rounds)).seconds();
    run(1);
    let taken = run(100);
    ok!(cuStreamDestroy_v2(stream));
    (100.0 * seconds / taken).max(1.0) as u32
}
