//! Shots of an application whose kernels are as slow as it likes: a state is written and checked on
//! the device, so that its size is limited by the device alone.

use super::gpu::{self, Gpu, Memory, Own, Pair};
use crate::common::app::device::{field_at, order};
use crate::common::app::ok;
use crate::common::play::{self, App as _};
use crate::common::prelude::*;
use cudarc::driver::sys::{self, CUstream};
use gpuzip::device::Stream;
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
    /// The application's own fields: with zero copy, `fields` may be in memory of the library.
    home: Vec<(Field, u64)>,
    memory: Vec<Memory>,
    streams: Vec<CUstream>,
    own: Vec<Own>,
    turn: usize,
    rounds: u32,
    /// In 1/1024: how far restored values may be off.
    tolerance: u32,
    wrong: Memory,
    looks: usize,
    /// Whether no context is current while the library is called.
    pub calls_without_context: bool,
    /// With zero copy, how slots are used.
    slots: Option<Slots<'static>>,
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
        let wrong = Memory::new(4 * LOOKS as u64);
        gpu::set(wrong.0, 0, 4 * LOOKS);
        let own = match streams {
            Streams::Null | Streams::Legacy | Streams::PerThread => vec![],
            Streams::Blocking => vec![Own::with(0)],
            Streams::NonBlocking => vec![Own::new()],
            Streams::Urgent => {
                let (mut least, mut greatest, mut stream) = (0, 0, null_mut());
                ok!(cuCtxGetStreamPriorityRange(&mut least, &mut greatest));
                ok!(cuStreamCreateWithPriority(&mut stream, 1, greatest));
                vec![Own(stream)]
            }
            Streams::Alternating => vec![Own::new(), Own::new()],
        };
        let streams = match streams {
            Streams::Null => vec![null_mut()],
            Streams::Legacy => vec![std::ptr::without_provenance_mut(1)],
            Streams::PerThread => vec![std::ptr::without_provenance_mut(2)],
            _ => own.iter().map(|own| own.0).collect(),
        };
        App {
            gpu,
            home: counts.iter().map(field).zip(at.iter().copied()).collect(),
            fields: counts.iter().map(field).zip(at.iter().copied()).collect(),
            memory: Vec::new(),
            streams,
            own,
            turn: 0,
            rounds,
            tolerance: 0,
            wrong,
            looks: 0,
            calls_without_context: false,
            slots: None,
            timed: None,
        }
    }

    /// Allows restored values to be off by as much as a codec with an absolute bound of 0.25.
    pub fn lossy(mut self) -> Self {
        self.tolerance = 257;
        self
    }

    pub fn on(&self) -> CUstream {
        self.streams[self.turn % self.streams.len()]
    }

    /// Goes on with the next stream, which waits for the present one.
    fn next_stream(&mut self) {
        let before = self.on();
        self.turn += 1;
        if self.streams.len() > 1 {
            order(before, self.on());
        }
    }

    pub fn app_fields(&self) -> Vec<AppField> {
        self.fields.iter().map(|&(field, address)| field_at(address, field)).collect()
    }

    /// Makes a call of the library, which is timed, and before which the context may be put away.
    fn call<T>(&mut self, kind: usize, call: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
        let mut result = None;
        let calls = |app: &Self| {
            if app.calls_without_context {
                ok!(cuCtxSetCurrent(null_mut()));
            }
            let result = call(app);
            ok!(cuCtxSetCurrent(app.gpu.context()));
            result
        };
        match self.timed.take() {
            None => calls(self),
            Some(mut pairs) => {
                pairs[kind].push(Pair::around(self.on(), || result = Some(calls(self))));
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
        if self.slots.is_none() {
            self.forward(0);
        }
        loop {
            let tick = session.get_action().unwrap();
            if !goes_on(tick.action.kind) {
                return Some(tick.action.ts);
            }
            self.serve(session, tick).unwrap();
            if tick.action.kind == Kind::Terminate {
                return None;
            }
        }
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
        self.slots = config.tiers.zero_copy.then(|| Slots::new(true, || false));
        let mut session = Session::new(config, steps, &self.app_fields()).unwrap();
        session.setup().unwrap();
        self.run(&mut session, |_| true);
        self.fields.clone_from(&self.home);
        self.outcome()
    }
}

impl play::App for App<'_> {
    fn fields(&mut self) -> Vec<AppField> {
        self.app_fields()
    }

    fn stream(&self) -> Stream {
        Stream(self.on().cast())
    }

    /// Enqueues the writing of a state.
    fn forward(&mut self, ts: u32) {
        for (i, &(field, at)) in self.fields.iter().enumerate() {
            self.gpu.fill(self.on(), at, field.n[0], 8 * ts + i as u32, self.rounds);
        }
    }

    /// Enqueues a check of all fields.
    fn look(&mut self, ts: u32) {
        for (i, &(field, at)) in self.fields.iter().enumerate() {
            assert!(self.looks < LOOKS);
            let (state, counter) = (8 * ts + i as u32, self.wrong.0 + 4 * self.looks as u64);
            self.gpu.check(self.on(), at, field.n[0], state, self.tolerance, counter);
            self.looks += 1;
        }
    }

    fn poison(&mut self) {
        for &(field, at) in &self.fields {
            let bytes = field.bytes().unwrap() as usize;
            ok!(cuMemsetD8Async(at, 0xee, bytes, self.on()));
        }
    }

    fn place(&mut self, at: Vec<*mut c_void>) {
        self.fields.iter_mut().zip(at).for_each(|((_, to), at)| *to = at as u64);
    }

    fn forward_beside(&mut self, ts: u32) {
        let slot = std::mem::replace(&mut self.fields, self.home.clone());
        self.forward(ts);
        self.fields = slot;
    }

    fn serve(&mut self, session: &mut Session, tick: Tick) -> Result<()> {
        if let Some(mut slots) = self.slots.take() {
            let served = slots.serve(self, session, tick);
            self.slots = Some(slots);
            return served;
        }
        let (ts, fields) = (i64::from(tick.action.ts), self.app_fields());
        match tick.action.kind {
            Kind::Save => {
                self.call(0, |app| session.save(ts, &fields, app.stream()))?;
                self.poison();
                self.next_stream();
            }
            Kind::Restore => {
                self.poison();
                self.call(1, |app| session.retrieve(ts, &fields, app.stream()))?;
                self.look(tick.action.ts);
                self.next_stream();
            }
            _ => play::serve(self, session, tick)?,
        }
        Ok(())
    }
}

impl Drop for App<'_> {
    fn drop(&mut self) {
        // SAFETY: live streams.
        unsafe {
            let _ = sys::cuCtxSetCurrent(self.gpu.context());
            for own in &self.own {
                let _ = sys::cuStreamSynchronize(own.0);
            }
        }
    }
}

/// Rounds of work per value with which a kernel that writes `count` values takes about `seconds`.
pub fn rounds_for(gpu: &Gpu, count: u64, seconds: f64) -> u32 {
    if gpu.is_software() {
        return 2;
    }
    let (memory, own) = (Memory::new(4 * count), Own::new());
    let stream = own.0;
    let run =
        |rounds| Pair::around(stream, || gpu.fill(stream, memory.0, count, 0, rounds)).seconds();
    run(1);
    let taken = run(100);
    (100.0 * seconds / taken).max(1.0) as u32
}
