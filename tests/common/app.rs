//! An application on CUDA devices that consists of driver calls alone, so that it runs on the
//! software driver and on a real one.
//!
//! The states are known in advance and lie in page-locked memory. FORWARD copies the next state
//! into the fields. After SAVE and BACKWARD the application poisons the fields on the same stream.
//! The fields that every RESTORE and BACKWARD finds are copied out and compared at the end, so that
//! anything that the library does too early or too late shows in the copied bytes.

mod callbacks;
pub mod device;
mod jobs;
mod left;
pub mod plain;

use super::memory::FieldMemory;
use super::play::{self, insist, is_end, is_raw, App, Slots};
use crate::common::emu;
use cudarc::driver::sys::{self, CUevent, CUstream};
use device::{field_at, Own, Pinned, Primary};
use gpuzip::choice::{SharedSchedule, Tick};
use gpuzip::codec::{Method, Settings, SnapshotCodec};
use gpuzip::device::{AppField, AppMemory, Stream};
use gpuzip::error::Result;
use gpuzip::layout::{Field, Layout};
use gpuzip::scalar::Scalar;
use gpuzip::schedule::{Algorithm, Kind};
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
    jobs::{config, draw_job, job, raw_tiers, reference, Draws, Job, Streams, MEMORY},
    left::{run_left, Left},
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

/// Returns the fields of a state: unequal sizes, both types.
pub fn shapes() -> Vec<Field> {
    let field = |n, scalar| Field { n, scalar, previous_of: None };
    vec![field([24, 4, 1], Scalar::F32), field([33, 1, 1], Scalar::F64)]
}

/// Returns the fields of a job's states. With shared time levels, field 1 is the previous time
/// level of field 0.
fn shapes_of(job: &Job) -> Vec<Field> {
    let mut shapes = shapes();
    if job.config.tiers.shared_levels {
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
struct Part<'a> {
    job: Job,
    state_bytes: usize,
    own_streams: Vec<Own>,
    /// The streams of the application's calls.
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
    states: Pinned,
    seen: Pinned,
    room: usize,
    /// What the host's codec makes of each state, if snapshots are compressed.
    decoded: Option<Vec<u8>>,
    /// Whether the live state comes from a snapshot.
    restored: bool,
    /// The number of saves and retrieves.
    served: usize,
    /// The time step of the state that each place of `seen` must hold, and whether the state comes
    /// from a snapshot.
    expected: Vec<(u32, bool)>,
    /// With zero copy, how slots are used.
    slots: Option<Slots<'a>>,
    primary: Primary,
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

impl<'a> Part<'a> {
    fn new(ordinal: i32, job: &Job, seed: u64) -> Self {
        let shapes = shapes_of(job);
        let state_bytes = shapes.iter().map(|f| f.bytes().unwrap() as usize).sum::<usize>();
        let primary = Primary::new(ordinal);
        let own_streams: Vec<Own> = match job.streams {
            Streams::Default => vec![],
            Streams::Own => vec![Own::new()],
            Streams::Alternating | Streams::Independent => vec![Own::new(), Own::new()],
        };
        let mut streams: Vec<CUstream> = own_streams.iter().map(|own| own.0).collect();
        if streams.is_empty() {
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
        let states = Pinned::new(state_bytes as u64 * u64::from(job.steps));
        let compression = &job.config.codec.settings;
        let mut values: Vec<u8> = if compression.method == Method::None {
            let byte = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(seed) >> 48;
            (0..state_bytes as u64 * u64::from(job.steps)).map(|i| byte(i) as u8).collect()
        } else {
            (0..job.steps).flat_map(|ts| numbers(ts, seed)).collect()
        };
        if job.config.tiers.shared_levels {
            chain_levels(&shapes, &mut values);
        }
        // SAFETY: the allocation has as many bytes as `values`.
        unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), states.0.cast(), values.len()) };
        let decoded = (compression.method != Method::None).then(|| decoded(compression, &values));
        let room = LOOKS_PER_STEP * job.steps as usize;
        Part {
            job: job.clone(),
            state_bytes,
            own_streams,
            streams,
            handover,
            turn: 0,
            fields,
            own,
            states,
            seen: Pinned::new((state_bytes * room) as u64),
            room,
            decoded,
            restored: false,
            served: 0,
            expected: Vec::new(),
            slots: None,
            primary,
        }
    }

    /// Returns the range of addresses to which checked fields are copied.
    fn seen(&self) -> std::ops::Range<u64> {
        let start = self.seen.0 as u64;
        start..start + (self.state_bytes * self.room) as u64
    }

    fn enter(&self) {
        ok!(cuCtxSetCurrent(self.primary.context));
    }

    fn on(&self) -> CUstream {
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
            ok!(cuEventRecord(self.handover, self.on()));
        }
        self.turn += 1;
        if shared {
            ok!(cuStreamWaitEvent(self.on(), self.handover, 0));
        }
    }

    /// Makes the state `SPOILED` right. No work that reads the states is left on the device.
    fn mend_spoiled(&mut self) {
        let fields: Vec<Field> = self.set().iter().map(|(field, _)| *field).collect();
        if let Some(at) = spoiled_byte(&fields) {
            // SAFETY: the byte lies within the states, and nothing else uses them now.
            unsafe { *self.states.0.cast::<u8>().add(at) ^= 1 };
        }
    }

    /// Gives memory of a pool back at this point of the stream, and takes other memory.
    fn renew(&mut self) {
        let (stream, set) = (self.on(), self.turn % self.fields.len());
        for ((field, address), own) in self.fields[set].iter_mut().zip(&mut self.own[set]) {
            own.renew(field.bytes().unwrap() as usize, stream);
            *address = own.address;
        }
    }

    /// Waits for the application's streams and returns the number of copied states that are wrong.
    fn wrong_states(&mut self) -> usize {
        self.enter();
        for stream in &self.streams {
            ok!(cuStreamSynchronize(*stream));
        }
        let state = |base: &Pinned, i: usize| {
            let at = base.0.wrapping_byte_add(self.state_bytes * i);
            // SAFETY: within the allocation, which no copy touches any more.
            unsafe { std::slice::from_raw_parts(at.cast::<u8>(), self.state_bytes) }
        };
        let right = |ts: u32, restored: bool| match &self.decoded {
            Some(decoded) if restored => {
                &decoded[self.state_bytes * ts as usize..][..self.state_bytes]
            }
            _ => state(&self.states, ts as usize),
        };
        let wrong = self
            .expected
            .iter()
            .enumerate()
            .filter(|(i, &(ts, restored))| state(&self.seen, *i) != right(ts, restored))
            .count();
        self.expected.clear();
        wrong
    }
}

impl App for Part<'_> {
    fn fields(&mut self) -> Vec<AppField> {
        self.set().iter().map(|&(field, address)| field_at(address, field)).collect()
    }

    fn stream(&self) -> Stream {
        Stream(self.on().cast())
    }

    fn is_stubborn(&self) -> bool {
        self.job.stubborn
    }

    fn forward(&mut self, ts: u32) {
        self.restored = false;
        let mut from = self.states.0.wrapping_byte_add(self.state_bytes * ts as usize);
        for (field, address) in self.set() {
            let bytes = field.bytes().unwrap() as usize;
            ok!(cuMemcpyHtoDAsync_v2(*address, from, bytes, self.on()));
            from = from.wrapping_byte_add(bytes);
        }
    }

    fn saved(&mut self, _: &mut Session, tick: Tick) -> Result<()> {
        self.served += 1;
        // Only an online schedule saves the last state. BACKWARD follows.
        if tick.action.ts + 1 < self.job.steps {
            self.poison();
            self.renew();
            self.next_stream();
        }
        Ok(())
    }

    fn restored(&mut self, session: &mut Session, tick: Tick) -> Result<()> {
        self.served += 1;
        self.restored = !is_raw(session, tick)?;
        Ok(())
    }

    /// Copies the fields out, for the comparison with state `ts` at the end.
    fn look(&mut self, ts: u32) {
        let mut to = self.seen.0.wrapping_byte_add(self.state_bytes * self.expected.len());
        assert!(self.expected.len() < self.room, "too many looks");
        for (field, address) in self.set() {
            let bytes = field.bytes().unwrap() as usize;
            ok!(cuMemcpyDtoHAsync_v2(to, *address, bytes, self.on()));
            to = to.wrapping_byte_add(bytes);
        }
        self.expected.push((ts, self.restored));
    }

    fn poison(&mut self) {
        for (field, address) in self.set() {
            ok!(cuMemsetD8Async(*address, 0xee, field.bytes().unwrap() as usize, self.on()));
        }
    }

    fn place(&mut self, at: Vec<*mut c_void>) {
        for ((_, address), at) in self.fields[0].iter_mut().zip(at) {
            *address = at as u64;
        }
    }

    fn forward_beside(&mut self, ts: u32) {
        let (shapes, restored) = (shapes_of(&self.job), self.restored);
        let slot = std::mem::replace(&mut self.fields[0], named(&shapes, &self.own[0]));
        self.forward(ts);
        (self.fields[0], self.restored) = (slot, restored);
    }

    fn serve(&mut self, session: &mut Session, tick: Tick) -> Result<()> {
        self.enter();
        let alternates = self.job.streams == Streams::Alternating;
        if let Some(mut slots) = self.slots.take() {
            if alternates {
                self.next_stream();
            }
            let served = slots.serve(self, session, tick);
            self.slots = Some(slots);
            return served;
        }
        play::serve(self, session, tick)?;
        // The restored state is on this stream. Alternating streams share the fields, so that the
        // application can go on with the next stream after a handover; independent streams have
        // fields of their own.
        if alternates && tick.action.kind == Kind::Restore {
            self.next_stream();
        }
        Ok(())
    }
}

impl Drop for Part<'_> {
    fn drop(&mut self) {
        // After a sticky error of the device nothing can be freed, so results are ignored.
        // SAFETY: everything was made by `new` and is not used any more.
        unsafe {
            let _ = sys::cuCtxSetCurrent(self.primary.context);
            self.own.iter().flatten().for_each(FieldMemory::free);
            let _ = sys::cuEventDestroy_v2(self.handover);
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

/// Runs a job.
pub fn run(job: &Job, seed: u64) -> Result<Outcome> {
    run_armed(job, seed, || {})
}

/// Runs a job as `run` does. `arm` is called once the application has allocated its memory, before
/// it calls the library.
pub fn run_armed(job: &Job, seed: u64, arm: impl FnOnce()) -> Result<Outcome> {
    run_tuned(job, seed, arm, |_| Ok(()), |_| Ok(()))
}

/// Runs a job as `run_armed` does. `before_shot` and `after_shot` are called for every session
/// before and after each shot.
pub fn run_tuned(
    job: &Job,
    seed: u64,
    arm: impl FnOnce(),
    before_shot: impl FnMut(&mut Session) -> Result<()>,
    after_shot: impl FnMut(&mut Session) -> Result<()>,
) -> Result<Outcome> {
    let mut parts: Vec<Part> =
        (0..job.devices).map(|k| Part::new(k, job, seed + k as u64)).collect();
    arm();
    run_parts(job, seed, &mut parts, before_shot, after_shot)
}

/// Runs a job's first shot on one device with zero copy, as `run_armed` does. Each state is computed in
/// the memory that the library hands out, and is checked there again just before the next save or
/// retrieve. The application gives memory of a restored state back whenever `releases` says so. If
/// streams alternate, each call is on the next stream.
pub fn run_zero_copy(
    job: &Job,
    seed: u64,
    releases: impl FnMut() -> bool,
    arm: impl FnOnce(),
) -> Result<Outcome> {
    let config = job.config.clone().with(|c| c.tiers.zero_copy = true);
    let job = Job { config, devices: 1, shots: 1, ..job.clone() };
    let mut part = Part::new(0, &job, seed);
    part.slots = Some(Slots::new(true, releases));
    arm();
    run_parts(&job, seed, &mut [part], |_| Ok(()), |_| Ok(()))
}

fn run_parts(
    job: &Job,
    seed: u64,
    parts: &mut [Part],
    mut before_shot: impl FnMut(&mut Session) -> Result<()>,
    mut after_shot: impl FnMut(&mut Session) -> Result<()>,
) -> Result<Outcome> {
    // The sessions of an online schedule learn the number of steps at the end of the forward phase.
    let open = job.config.schedule.algorithm == Some(Algorithm::Online);
    let steps = if open { 0 } else { job.steps };
    let cursor = Arc::new(SharedSchedule::new(job.config.clone(), steps as i64)?);
    let mut sessions = Vec::new();
    for part in parts.iter_mut() {
        sessions.push(Session::attach(cursor.clone(), job.config.clone(), &part.fields())?);
    }
    let mut outcome = Outcome { seen: parts[0].seen(), ..Outcome::default() };
    for shot in 0..job.shots {
        for session in &mut sessions {
            session.setup()?;
            before_shot(session)?;
        }
        let before = host_syncs();
        for part in parts.iter_mut().filter(|part| part.slots.is_none()) {
            part.enter();
            part.forward(0);
        }
        let mut is_open = open;
        while let Some(tick) = play::step_all(&mut sessions, parts)? {
            if is_open && is_end(tick, job.steps, (seed + u64::from(shot)) % 2 == 1) {
                insist(job.stubborn, || sessions[0].end_forward())?;
                is_open = false;
            }
        }
        outcome.syncs += host_syncs() - before;
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

/// Runs a job by `run` on a freshly reset driver, whose devices have `memory` bytes each. Every state
/// must be right, and no object of the driver may be left over.
pub fn emulate(
    job: &Job,
    seed: u64,
    mode: i32,
    memory: u64,
    run: impl FnOnce() -> Result<Outcome>,
) -> Outcome {
    assert_eq!(emu::reset(seed, mode, job.devices, memory), 0, "left over before seed {seed}");
    let outcome = run().unwrap_or_else(|e| panic!("seed {seed}, {job:?}: {e}"));
    assert_eq!(outcome.wrong, 0, "seed {seed}, mode {mode}: {job:?}");
    let left = emu::counters();
    let all = (left.streams, left.events, left.allocations, left.host_allocations, left.retained);
    assert_eq!(all, (0, 0, 0, 0, 0), "seed {seed}: {left:?}");
    outcome
}

/// Returns the number of host synchronisations that the software driver has counted; 0 on a real driver.
pub fn host_syncs() -> u64 {
    match std::env::var_os("GPUZIP_TEST_GPU") {
        None => emu::counters().host_syncs,
        Some(_) => 0,
    }
}
