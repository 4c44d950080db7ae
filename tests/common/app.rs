//! An application on CUDA devices that consists of driver calls alone, so that it runs on the
//! software driver and on a real one.
//!
//! The states are known in advance and lie in page-locked memory. FORWARD copies the next state
//! into the fields. After SAVE and BACKWARD the application poisons the fields on the same stream.
//! The fields that every RESTORE and BACKWARD finds are copied out and compared at the end, so that
//! anything that the library does too early or too late shows in the copied bytes.

mod callbacks;
mod left;
mod zero_copy;

use super::memory::FieldMemory;
use crate::common::emu;
use cudarc::driver::sys::{self, CUcontext, CUevent, CUstream};
use gpuzip::choice::{SharedSchedule, Tick};
use gpuzip::codec::{Method, Settings, SnapshotCodec};
use gpuzip::config::Config;
use gpuzip::device::{AppField, AppMemory, Stream};
use gpuzip::error::{Error, Result};
use gpuzip::layout::{Field, Layout};
use gpuzip::plan::Policy;
use gpuzip::scalar::Scalar;
use gpuzip::schedule::{flags, Algorithm, Kind};
use gpuzip::session::Session;
use gpuzip::stats::Stats;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

macro_rules! ok {
    ($function:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: arguments are live objects of this application, or places for results.
        let result = unsafe { cudarc::driver::sys::$function($($argument),*) };
        assert_eq!(result, cudarc::driver::sys::CUresult::CUDA_SUCCESS, stringify!($function));
    }};
}
#[allow(unused_imports)] // Not every test program uses the macro.
pub(crate) use ok;
#[allow(unused_imports)] // As above.
pub use {
    callbacks::run_by_callbacks,
    left::{run_left, Left},
    zero_copy::{run_zero_copy, run_zero_copy_armed},
};

/// A small generator, so that a seed names a job.
pub struct Draw(pub u64);

impl Draw {
    pub fn below(&mut self, n: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as u32 % n
    }
}

/// The streams of the application's calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streams {
    /// The legacy default stream.
    Default,
    /// One non-blocking stream, which the application has created.
    Own,
    /// Two streams of the application in turn, ordered by the application's events.
    Alternating,
    /// Two streams of the application in turn. Each has fields of its own, so that the application
    /// has nothing to order.
    Independent,
}

/// Bytes of device memory, enough for every job here.
pub const MEMORY: u64 = 1 << 20;

/// A job: one schedule, one session per device.
#[derive(Clone, Debug)]
pub struct Job {
    pub config: Config,
    pub steps: u32,
    pub devices: i32,
    pub shots: u32,
    pub streams: Streams,
    /// Repeats each failed call once, and goes on.
    pub stubborn: bool,
}

/// Returns the fields of a state: unequal sizes, both types.
pub fn shapes() -> Vec<Field> {
    let field = |n, scalar| Field { n, scalar, previous_of: None };
    vec![field([24, 4, 1], Scalar::F32), field([33, 1, 1], Scalar::F64)]
}

/// Returns the fields of a job's states. With shared time levels, field 1 is the previous time
/// level of field 0.
fn shapes_of(job: &Job) -> Vec<Field> {
    let mut shapes = shapes();
    if job.config.shared_levels {
        shapes.insert(1, Field { previous_of: Some(0), ..shapes[0] });
    }
    shapes
}

/// The state whose previous time level `chain_levels` makes wrong; 0 for none.
pub static SPOILED: AtomicU32 = AtomicU32::new(0);

/// Makes field 1 of every state but the first equal to field 0 of the state before, except in the
/// state `SPOILED`.
fn chain_levels(shapes: &[Field], states: &mut [u8]) {
    let level = shapes[0].bytes().unwrap() as usize;
    let bytes: usize = shapes.iter().map(|f| f.bytes().unwrap() as usize).sum();
    (bytes..states.len())
        .step_by(bytes)
        .for_each(|at| states.copy_within(at - bytes..at - bytes + level, at + level));
    if let Some(at) = spoiled_byte(shapes) {
        states[at] ^= 1;
    }
}

/// Returns the place of the byte of all states that is wrong in the state `SPOILED`.
fn spoiled_byte(shapes: &[Field]) -> Option<usize> {
    let spoiled = SPOILED.load(Ordering::Relaxed) as usize;
    let bytes: usize = shapes.iter().map(|f| f.bytes().unwrap() as usize).sum();
    let level = shapes[0].bytes().unwrap() as usize;
    (spoiled > 0).then(|| spoiled * bytes + 2 * level - 1)
}

/// One device's part of the application.
struct Part {
    state_bytes: usize,
    ordinal: i32,
    context: CUcontext,
    streams: Vec<CUstream>,
    /// Orders the part's own streams when they alternate.
    handover: CUevent,
    turn: usize,
    /// One set of fields, or one set for each stream.
    fields: Vec<Vec<(Field, u64)>>,
    /// The memory of the fields that the application has allocated, per set. With zero copy, `fields`
    /// may refer to memory of the library instead.
    own: Vec<Vec<FieldMemory>>,
    /// Page-locked memory: all states, and room for the copies of all fields that are checked.
    states: *mut u8,
    seen: *mut u8,
    room: usize,
    /// What the host's codec makes of each state, if snapshots are compressed.
    decoded: Option<Vec<u8>>,
    /// Whether the live state comes from a snapshot.
    restored: bool,
    /// The time step of the state that each place of `seen` must hold, and whether the state comes
    /// from a snapshot.
    expected: Vec<(u32, bool)>,
}

/// Returns the fields of a set with the addresses of their memory.
fn named(shapes: &[Field], memory: &[FieldMemory]) -> Vec<(Field, u64)> {
    shapes.iter().copied().zip(memory.iter().map(|own| own.address)).collect()
}

/// Copies of the fields for which `seen` has room, per time step: far more than any job here makes,
/// repeated FORWARDs included.
const LOOKS_PER_STEP: usize = 40;

/// Returns a state of numbers. In some fields the maximum is far above the other values, some
/// fields are constant, and few values are not finite.
fn numbers(ts: u32, seed: u64) -> Vec<u8> {
    let mut draw = Draw((seed ^ u64::from(ts) << 20).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut bytes = Vec::new();
    for field in shapes() {
        let (kind, values) = (draw.below(16), field.bytes().unwrap() / field.scalar.bytes());
        for i in 0..values {
            let x = (i as f64 / 5.0 + f64::from(ts)).sin() + f64::from(draw.below(1000)) * 1e-4;
            let x = match kind {
                0 => 0.25,
                1 if i == 17 => f64::INFINITY,
                2 if i == 3 => 1e6,
                _ => x,
            };
            match field.scalar {
                Scalar::F32 => bytes.extend((x as f32).to_le_bytes()),
                _ => bytes.extend(x.to_le_bytes()),
            }
        }
    }
    bytes
}

/// Returns the states after coding and decoding by the host's codec.
fn decoded(settings: &Settings, states: &[u8]) -> Vec<u8> {
    let mut codec = SnapshotCodec::new(settings.clone(), &Layout::new(shapes()).unwrap()).unwrap();
    let mut states = states.to_vec();
    let mut stream = vec![0; codec.capacity()];
    for state in states.chunks_exact_mut(state_bytes()) {
        let (mut fields, mut at) = (Vec::new(), state.as_mut_ptr());
        for field in shapes() {
            let bytes = field.bytes().unwrap() as usize;
            // SAFETY: the fields of a state lie one behind the other, at multiples of 8 bytes,
            // within the state.
            unsafe {
                fields.push(AppMemory::new(at, bytes));
                at = at.add(bytes);
            }
        }
        // SAFETY: `fields` are the memory of this state, which nothing else uses.
        unsafe {
            let bytes = codec.compress(&fields, &mut stream).unwrap();
            codec.decompress(&stream[..bytes], &fields).unwrap();
        }
    }
    states
}

fn state_bytes() -> usize {
    shapes().iter().map(|f| f.bytes().unwrap() as usize).sum()
}

impl Part {
    fn new(ordinal: i32, job: &Job, seed: u64) -> Self {
        let shapes = shapes_of(job);
        let state_bytes = shapes.iter().map(|f| f.bytes().unwrap() as usize).sum::<usize>();
        let (mut context, mut device) = (std::ptr::null_mut(), 0);
        ok!(cuInit(0));
        ok!(cuDeviceGet(&mut device, ordinal));
        ok!(cuDevicePrimaryCtxRetain(&mut context, device));
        ok!(cuCtxSetCurrent(context));
        let own = match job.streams {
            Streams::Default => 0,
            Streams::Own => 1,
            Streams::Alternating | Streams::Independent => 2,
        };
        let mut streams = vec![std::ptr::null_mut(); own];
        for stream in &mut streams {
            ok!(cuStreamCreate(stream, 1));
        }
        if own == 0 {
            streams.push(std::ptr::null_mut());
        }
        let mut handover = std::ptr::null_mut();
        ok!(cuEventCreate(&mut handover, 2));
        let sets = if job.streams == Streams::Independent { 2 } else { 1 };
        let own: Vec<Vec<FieldMemory>> = (0..sets)
            .map(|set| {
                let bytes = |field: &Field| field.bytes().unwrap() as usize;
                shapes.iter().map(|field| FieldMemory::new(bytes(field), streams[set])).collect()
            })
            .collect();
        let fields = own.iter().map(|set| named(&shapes, set)).collect();
        let pinned = |bytes: usize| {
            let mut address: *mut c_void = std::ptr::null_mut();
            ok!(cuMemHostAlloc(&mut address, bytes, 0));
            address.cast::<u8>()
        };
        let states = pinned(state_bytes * job.steps as usize);
        let compression = &job.config.compression;
        let mut values: Vec<u8> = if compression.method == Method::None {
            (0..state_bytes * job.steps as usize)
                .map(|i| {
                    (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(seed).to_le_bytes()
                        [6]
                })
                .collect()
        } else {
            (0..job.steps).flat_map(|ts| numbers(ts, seed)).collect()
        };
        if job.config.shared_levels {
            chain_levels(&shapes, &mut values);
        }
        // SAFETY: the allocation has as many bytes as `values`.
        unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), states, values.len()) };
        let decoded = (compression.method != Method::None).then(|| decoded(compression, &values));
        let seen = pinned(state_bytes * LOOKS_PER_STEP * job.steps as usize);
        Part {
            state_bytes,
            ordinal,
            context,
            streams,
            handover,
            turn: 0,
            fields,
            own,
            states,
            seen,
            room: LOOKS_PER_STEP * job.steps as usize,
            decoded,
            restored: false,
            expected: Vec::new(),
        }
    }

    /// Returns the range of addresses to which checked fields are copied.
    fn seen(&self) -> std::ops::Range<u64> {
        let start = self.seen as u64;
        start..start + (self.state_bytes * self.room) as u64
    }

    fn enter(&self) {
        ok!(cuCtxSetCurrent(self.context));
    }

    fn stream(&self) -> CUstream {
        self.streams[self.turn % self.streams.len()]
    }

    fn set(&self) -> &[(Field, u64)] {
        &self.fields[self.turn % self.fields.len()]
    }

    /// Goes on with the next stream. If the streams share fields, the next stream waits for the
    /// current one.
    fn next_stream(&mut self) {
        let shared = self.streams.len() > self.fields.len();
        if shared {
            ok!(cuEventRecord(self.handover, self.stream()));
        }
        self.turn += 1;
        if shared {
            ok!(cuStreamWaitEvent(self.stream(), self.handover, 0));
        }
    }

    fn forward(&mut self, ts: u32) {
        self.restored = false;
        let mut from = self.states as usize + self.state_bytes * ts as usize;
        for (field, address) in self.set() {
            let bytes = field.bytes().unwrap() as usize;
            ok!(cuMemcpyHtoDAsync_v2(*address, from as *const c_void, bytes, self.stream()));
            from += bytes;
        }
    }

    /// Makes the state `SPOILED` right. No work that reads the states is left on the device.
    fn mend_spoiled(&mut self) {
        let fields: Vec<Field> = self.set().iter().map(|(field, _)| *field).collect();
        if let Some(at) = spoiled_byte(&fields) {
            // SAFETY: the byte lies within the states, and nothing else uses them now.
            unsafe { *self.states.add(at) ^= 1 };
        }
    }

    /// Does what the action of `tick` asks of the application.
    fn serve(&mut self, job: &Job, session: &mut Session, tick: Tick) -> Result<()> {
        self.enter();
        let (ts, stream) = (tick.action.ts, Stream(self.stream().cast()));
        match tick.action.kind {
            Kind::Forward => (ts..=tick.end).for_each(|ts| self.forward(ts)),
            Kind::Save => {
                insist(job, || session.save(ts as i64, &self.app_fields(), stream))?;
                // Only an online schedule saves the last state. BACKWARD follows.
                if ts + 1 < job.steps {
                    self.poison();
                    self.renew();
                    self.next_stream();
                }
            }
            Kind::Restore => {
                self.poison();
                insist(job, || session.retrieve(ts as i64, &self.app_fields(), stream))?;
                self.restored = !is_raw(session, tick)?;
                self.look(ts);
                // The restored state is on this stream. Alternating streams share the fields, so
                // that the application can go on with the next stream after a handover; independent
                // streams have fields of their own.
                if job.streams == Streams::Alternating {
                    self.next_stream();
                }
            }
            Kind::Backward => {
                self.look(ts);
                self.poison();
            }
            Kind::Terminate | Kind::Error => {}
        }
        Ok(())
    }

    fn poison(&mut self) {
        for (field, address) in self.set() {
            ok!(cuMemsetD8Async(*address, 0xee, field.bytes().unwrap() as usize, self.stream()));
        }
    }

    /// Gives memory of a pool back at this point of the stream, and takes other memory.
    fn renew(&mut self) {
        let (stream, set) = (self.stream(), self.turn % self.fields.len());
        for ((field, address), own) in self.fields[set].iter_mut().zip(&mut self.own[set]) {
            own.renew(field.bytes().unwrap() as usize, stream);
            *address = own.address;
        }
    }

    /// Copies the fields out, for the comparison with state `ts` at the end.
    fn look(&mut self, ts: u32) {
        let mut to = self.seen as usize + self.state_bytes * self.expected.len();
        assert!(self.expected.len() < self.room, "too many looks");
        for (field, address) in self.set() {
            let bytes = field.bytes().unwrap() as usize;
            ok!(cuMemcpyDtoHAsync_v2(to as *mut c_void, *address, bytes, self.stream()));
            to += bytes;
        }
        self.expected.push((ts, self.restored));
    }

    fn app_fields(&self) -> Vec<AppField> {
        let one = |&(field, address): &(Field, u64)| {
            // SAFETY: device memory that lives until the part does.
            let memory =
                unsafe { AppMemory::new(address as *mut u8, field.bytes().unwrap() as usize) };
            AppField { field, memory: Some(memory) }
        };
        self.set().iter().map(one).collect()
    }

    /// Waits for the application's streams and returns the number of copied states that are wrong.
    fn wrong_states(&mut self) -> usize {
        self.enter();
        for stream in &self.streams {
            ok!(cuStreamSynchronize(*stream));
        }
        let state = |base: *mut u8, i: usize| {
            // SAFETY: within the allocation, which no copy touches any more.
            unsafe { std::slice::from_raw_parts(base.add(self.state_bytes * i), self.state_bytes) }
        };
        let right = |ts: u32, restored: bool| match &self.decoded {
            Some(decoded) if restored => {
                &decoded[self.state_bytes * ts as usize..][..self.state_bytes]
            }
            _ => state(self.states, ts as usize),
        };
        let wrong = self
            .expected
            .iter()
            .enumerate()
            .filter(|(i, &(ts, restored))| state(self.seen, *i) != right(ts, restored))
            .count();
        self.expected.clear();
        wrong
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // After a sticky error of the device nothing can be freed, so results are ignored.
        // SAFETY: everything was made by `new` and is not used any more.
        unsafe {
            let _ = sys::cuCtxSetCurrent(self.context);
            self.own.iter().flatten().for_each(FieldMemory::free);
            for stream in self.streams.iter().filter(|s| !s.is_null()) {
                let _ = sys::cuStreamDestroy_v2(*stream);
            }
            let _ = sys::cuEventDestroy_v2(self.handover);
            let _ = sys::cuMemFreeHost(self.states.cast());
            let _ = sys::cuMemFreeHost(self.seen.cast());
            let _ = sys::cuCtxSetCurrent(std::ptr::null_mut());
            let _ = sys::cuDevicePrimaryCtxRelease_v2(self.ordinal);
        }
    }
}

/// The outcome of a job.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Number of wrong states among those that the application checked.
    pub wrong: usize,
    /// The statistics of every session in every shot.
    pub stats: Vec<Stats>,
    /// Bytes that the application itself copied: to the device, to the host.
    pub own_bytes: (u64, u64),
    /// The range of addresses of the first device's part to which checked fields are copied.
    pub seen: std::ops::Range<u64>,
    /// Host synchronisations between setup and TERMINATE, as `syncs` counts them.
    pub syncs: u64,
}

/// Whether the snapshot of a SAVE or RESTORE is a raw one beside compressed ones.
fn is_raw(session: &mut Session, tick: Tick) -> Result<bool> {
    let plan = session.plan()?;
    Ok(plan.steps[tick.step].slot < plan.raw_slots)
}

fn insist<R>(job: &Job, mut call: impl FnMut() -> Result<R>) -> Result<R> {
    call().or_else(|error| if job.stubborn { call() } else { Err(error) })
}

/// Runs a job. `syncs` returns the number of host synchronisations so far.
pub fn run(job: &Job, seed: u64, syncs: impl Fn() -> u64) -> Result<Outcome> {
    run_armed(job, seed, syncs, || {})
}

/// Runs a job as `run` does. `arm` is called once the application has allocated its memory, before
/// it calls the library.
pub fn run_armed(
    job: &Job,
    seed: u64,
    syncs: impl Fn() -> u64,
    arm: impl FnOnce(),
) -> Result<Outcome> {
    run_tuned(job, seed, syncs, arm, |_| Ok(()), |_| Ok(()))
}

/// Runs a job as `run_armed` does. `before_shot` and `after_shot` are called for every session
/// before and after each shot.
pub fn run_tuned(
    job: &Job,
    seed: u64,
    syncs: impl Fn() -> u64,
    arm: impl FnOnce(),
    mut before_shot: impl FnMut(&mut Session) -> Result<()>,
    mut after_shot: impl FnMut(&mut Session) -> Result<()>,
) -> Result<Outcome> {
    let mut parts: Vec<Part> =
        (0..job.devices).map(|k| Part::new(k, job, seed + k as u64)).collect();
    arm();
    // The sessions of an online schedule learn the number of steps at the end of the forward phase.
    let open = job.config.algorithm == Some(Algorithm::Online);
    let steps = if open { 0 } else { job.steps };
    let cursor = Arc::new(SharedSchedule::new(job.config.clone(), steps as i64)?);
    let mut sessions = Vec::new();
    for part in &parts {
        sessions.push(Session::attach(cursor.clone(), job.config.clone(), &part.app_fields())?);
    }
    let mut outcome = Outcome { seen: parts[0].seen(), ..Outcome::default() };
    for shot in 0..job.shots {
        for session in &mut sessions {
            session.setup()?;
            before_shot(session)?;
        }
        let before = syncs();
        parts.iter_mut().for_each(|part| (part.enter(), part.forward(0)).1);
        let mut is_open = open;
        loop {
            let tick = insist(job, || sessions[0].get_action())?;
            for (session, part) in sessions.iter_mut().zip(&mut parts) {
                insist(job, || session.dispatch(tick.it))?;
                part.serve(job, session, tick)?;
            }
            if is_open && tick.end + 1 == job.steps {
                let waits = tick.action.flags & flags::NEXT_IS_SAVE != 0;
                if !waits || (seed + u64::from(shot)) % 2 == 0 {
                    insist(job, || sessions[0].end_forward())?;
                    is_open = false;
                }
            }
            if tick.action.kind == Kind::Terminate {
                break;
            }
        }
        outcome.syncs += syncs() - before;
        for (part, session) in parts.iter_mut().zip(&mut sessions) {
            let looks = part.expected.len() as u64;
            outcome.wrong += part.wrong_states();
            let stats = session.stats()?;
            outcome.own_bytes.0 += (stats.forward_steps + 1) * part.state_bytes as u64;
            outcome.own_bytes.1 += looks * part.state_bytes as u64;
            outcome.stats.push(stats);
            after_shot(session)?;
        }
    }
    Ok(outcome)
}

/// Returns a configuration with default values for everything else.
pub fn config(algorithm: Algorithm, snapshots: u32, cache: u32, policy: Policy) -> Config {
    Config { algorithm: Some(algorithm), snapshots, cache, policy, ..Config::default() }
}

/// Returns the number of host synchronisations that the software driver has counted.
pub fn host_syncs() -> u64 {
    emu::counters().host_syncs
}

/// Returns the job on which the tests count transfers and make calls fail.
pub fn reference(policy: Policy, cache: u32) -> Job {
    let config = Config { max_in_flight: 1 << 20, ..config(Algorithm::Revolve, 6, cache, policy) };
    Job { config, steps: 40, devices: 1, shots: 1, streams: Streams::Own, stubborn: false }
}
