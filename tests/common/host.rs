//! An application in host memory whose states are known: each value follows from the time step, the
//! field and the position. Every restored state is compared, bit for bit, with the saved one, or with
//! what the session's codec makes of it.

use super::draw::Draw;
use super::play::{self, is_raw, unplaced, App, Slots};
use gpuzip::choice::Tick;
use gpuzip::codec::{ErrorBound, Method, Settings, SnapshotCodec};
use gpuzip::config::{Backend, Config};
use gpuzip::device::{AppField, AppMemory};
use gpuzip::error::{Code, Result};
use gpuzip::layout::{Field, Layout};
use gpuzip::persist::Name;
use gpuzip::scalar::Scalar;
use gpuzip::schedule::{Algorithm, Kind};
use gpuzip::session::{Array, Session};
use gpuzip::stats::Stats;
use std::collections::HashSet;
use std::ffi::c_void;
use std::time::{Duration, Instant};

/// A configuration of the host backend with default values for everything else.
pub fn config(algorithm: impl Into<Option<Algorithm>>, snapshots: u32, cache: u32) -> Config {
    let algorithm = algorithm.into();
    Config::default().with(|c| {
        c.schedule.algorithm = algorithm;
        c.schedule.snapshots = snapshots;
        c.tiers.cache = cache;
        c.device.backend = Backend::Host;
    })
}

/// Returns the settings of a codec.
pub fn coding(method: Method, bound: ErrorBound) -> Settings {
    Settings { method, bound, ..Settings::default() }
}

pub fn field(n: [u64; 3], scalar: Scalar) -> Field {
    Field { n, scalar, previous_of: None }
}

/// Returns a session for fields whose memory the calls give.
pub fn open(config: &Config, steps: u32, shapes: &[Field]) -> Result<Session> {
    Session::new(config.clone(), steps.into(), &unplaced(shapes))
}

/// Returns a session as `open` does; `None` if the budgets have no room for any plan.
pub fn open_within_budgets(config: &Config, steps: u32, shapes: &[Field]) -> Option<Session> {
    match open(config, steps, shapes) {
        Err(error) if error.code == Code::Budget => None,
        session => Some(session.unwrap()),
    }
}

/// Returns a value between -1 and 1 that differs from seed to seed, from time step to time step, and
/// from value to value, without any order.
pub fn noise(seed: u64, ts: i64, k: usize, i: usize) -> f64 {
    Draw(seed << 48 ^ (k as u64) << 40 ^ (ts as u64) << 24 ^ i as u64).value()
}

/// The values of states: value `i` of field `k` of u(ts). Arguments: seed, `ts`, `k`, `i`; `noise` is
/// one. The previous time level of u(0) has the time step -1.
pub type Values<'a> = Box<dyn Fn(u64, i64, usize, usize) -> f64 + 'a>;

/// Changes the fields of u(ts); arguments `ts` and the bytes of each field.
pub type Change<'a> = Box<dyn Fn(u32, &mut [Vec<u8>]) + 'a>;

pub struct HostApp<'a> {
    pub shapes: Vec<Field>,
    pub values: Values<'a>,
    pub seed: u64,
    /// What a state has beside `values`.
    pub change: Change<'a>,
    /// With zero copy, how slots are used.
    pub slots: Option<Slots<'a>>,
    /// The memory of the fields; with zero copy they lie in a slot of the session.
    own: Vec<Vec<u8>>,
    /// Where the fields lie.
    at: Vec<*mut u8>,
    /// The time step of the live state.
    pub live: u32,
    /// The bytes that the fields must hold; `None` where the live state is not in the fields yet, or
    /// not any more.
    right: Option<Vec<Vec<u8>>>,
    /// The codec of the session, made when the first coded snapshot is met.
    codec: Option<(Settings, SnapshotCodec)>,
    /// Where lanes code, the time steps of the states that were decoded for a RESTORE since their SAVE.
    decoded: HashSet<u32>,
    /// With a codec, bytes of the snapshots that this shot has saved.
    pub stored: u64,
    /// The number of time steps that are reversed, and the last of them.
    pub reversed: u32,
    last: u32,
    /// The time that a step forward and a step backward take at least.
    pub times: [Duration; 2],
    /// The seconds that all these steps have taken by the application's clock, and their numbers.
    spent: [(f64, u32); 2],
}

impl<'a> HostApp<'a> {
    pub fn new(shapes: &[Field], values: impl Fn(u64, i64, usize, usize) -> f64 + 'a) -> Self {
        let memory = |field: &Field| vec![0xEE; field.bytes().unwrap() as usize];
        let mut app = HostApp {
            shapes: shapes.to_vec(),
            values: Box::new(values),
            seed: 0,
            change: Box::new(|_, _| {}),
            slots: None,
            own: shapes.iter().map(memory).collect(),
            at: Vec::new(),
            live: 0,
            right: None,
            codec: None,
            decoded: HashSet::new(),
            stored: 0,
            reversed: 0,
            last: 0,
            times: [Duration::ZERO; 2],
            spent: [(0.0, 0); 2],
        };
        app.begin();
        app
    }

    /// Makes u(0) the live state, in the application's own memory.
    pub fn begin(&mut self) {
        self.at = self.own.iter_mut().map(|field| field.as_mut_ptr()).collect();
        (self.live, self.right) = (0, None);
        (self.stored, self.reversed, self.last) = (0, 0, 0);
        self.slots.iter_mut().for_each(Slots::clear);
    }

    /// Returns the bytes of the fields of u(ts).
    pub fn state(&self, ts: u32) -> Vec<Vec<u8>> {
        let bytes = |(k, field): (usize, &Field)| {
            let (k, ts) = match field.previous_of {
                Some(later) => (later as usize, i64::from(ts) - 1),
                None => (k, i64::from(ts)),
            };
            let count = field.n.iter().product::<u64>() as usize;
            let values = (0..count).map(|i| (self.values)(self.seed, ts, k, i));
            match field.scalar {
                Scalar::F32 => values.flat_map(|x| (x as f32).to_le_bytes()).collect(),
                Scalar::F64 => values.flat_map(f64::to_le_bytes).collect(),
                // The bits of the values, as many as there is room for.
                other => values
                    .flat_map(|x| x.to_le_bytes().repeat(2))
                    .take(count * other.bytes() as usize)
                    .collect(),
            }
        };
        let mut state = self.shapes.iter().enumerate().map(bytes).collect::<Vec<Vec<u8>>>();
        (self.change)(ts, &mut state);
        state
    }

    /// Puts u(ts) into the fields.
    pub fn set(&mut self, ts: u32) {
        let state = self.state(ts);
        for (&to, from) in self.at.iter().zip(&state) {
            // SAFETY: the memory of this field, which the library does not use between calls.
            unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
        }
        (self.live, self.right) = (ts, Some(state));
    }

    /// Returns the bytes of each field.
    pub fn data(&self) -> impl Iterator<Item = &[u8]> {
        self.at.iter().zip(&self.own).map(|(&at, own)| {
            // SAFETY: the memory of this field, which the library does not write between calls.
            unsafe { std::slice::from_raw_parts(at.cast_const(), own.len()) }
        })
    }

    /// Returns the bytes of the snapshot of u(ts), and the fields that a restore makes of them.
    fn through_codec(&mut self, session: &mut Session, tick: Tick) -> Result<(u64, Vec<Vec<u8>>)> {
        let mut state = self.state(tick.action.ts);
        let layout = Layout::new(self.shapes.clone())?;
        let settings = session.tiers().storage.codec.clone();
        if matches!(session.tiers().storage.coded, gpuzip::choice::Coded::ByLanes(_)) {
            // The cache has the bits of the SAVE until a lane has decoded the record of the pool.
            let is_fetched = session.plan()?.steps[tick.step].host != gpuzip::plan::NONE;
            match (tick.action.kind, is_fetched) {
                (Kind::Restore, true) => _ = self.decoded.insert(tick.action.ts),
                (Kind::Save, _) => _ = self.decoded.remove(&tick.action.ts),
                _ => {}
            }
            if !self.decoded.contains(&tick.action.ts) {
                return Ok((layout.slot_bytes, state));
            }
        } else if settings.method == Method::None || is_raw(session, tick)? {
            return Ok((layout.slot_bytes, state));
        }
        if self.codec.as_ref().is_none_or(|(of, _)| *of != settings) {
            self.codec = Some((settings.clone(), SnapshotCodec::new(settings, &layout)?));
        }
        let (_, codec) = self.codec.as_mut().unwrap();
        let mut stream = vec![0; codec.capacity()];
        let memory = |field: &mut Vec<u8>| {
            // SAFETY: the vector outlives the calls of the codec, and nothing else uses it meanwhile.
            unsafe { AppMemory::new(field.as_mut_ptr(), field.len()) }
        };
        let fields: Vec<AppMemory> = state.iter_mut().map(memory).collect();
        // SAFETY: `fields` are the memory of the layout's fields.
        let bytes = unsafe {
            let bytes = codec.compress(&fields, &mut stream)?;
            codec.decompress(&stream[..bytes], &fields)?;
            bytes
        };
        Ok((bytes as u64, state))
    }

    /// Takes the time of a step forward (`kind` 0) or backward (`kind` 1).
    fn compute(&mut self, kind: usize) {
        let start = Instant::now();
        while start.elapsed() < self.times[kind] {
            std::hint::spin_loop();
        }
        let (seconds, steps) = self.spent[kind];
        self.spent[kind] = (seconds + start.elapsed().as_secs_f64(), steps + 1);
    }

    /// Returns the mean milliseconds of a step forward and of a step backward.
    pub fn mean_ms(&self) -> [f64; 2] {
        self.spent.map(|(seconds, steps)| 1e3 * seconds / f64::from(steps))
    }

    /// Returns the application's own memory as an array of restart files.
    pub fn arrays(&mut self) -> Vec<Array> {
        let at = self.own.iter_mut().map(|field| field.as_mut_ptr()).collect::<Vec<_>>();
        let array = |(k, field)| Array {
            name: Name::new(&format!("field {k}")).unwrap(),
            field,
            changes_within: true,
        };
        self.placed(&at).into_iter().enumerate().map(array).collect()
    }

    /// Returns the fields with memory at these places.
    fn placed(&self, at: &[*mut u8]) -> Vec<AppField> {
        let placed = |(&field, (&at, own)): (&Field, (&*mut u8, &Vec<u8>))| {
            // SAFETY: the memory outlives the call that the field is made for, and no other code
            // touches the memory during this call.
            let memory = unsafe { AppMemory::new(at, own.len()) };
            AppField { field, memory: Some(memory) }
        };
        self.shapes.iter().zip(at.iter().zip(&self.own)).map(placed).collect()
    }

    /// Plays the rest of a shot, and returns its statistics.
    pub fn shot(&mut self, session: &mut Session) -> Result<Stats> {
        play::play(session, self)?;
        session.stats()
    }
}

impl App for HostApp<'_> {
    fn fields(&mut self) -> Vec<AppField> {
        self.placed(&self.at)
    }

    fn forward(&mut self, ts: u32) {
        assert_eq!(self.live + 1, ts);
        self.compute(0);
        (self.live, self.right) = (ts, None);
    }

    fn saved(&mut self, _: &mut Session, _: Tick) -> Result<()> {
        self.poison();
        Ok(())
    }

    fn restored(&mut self, session: &mut Session, tick: Tick) -> Result<()> {
        self.live = tick.action.ts;
        self.right = Some(self.through_codec(session, tick)?.1);
        Ok(())
    }

    fn look(&mut self, ts: u32) {
        if let Some(right) = &self.right {
            assert!(self.data().eq(right), "state {ts}");
        }
    }

    fn poison(&mut self) {
        for (&at, own) in self.at.iter().zip(&self.own) {
            // SAFETY: as for `set`.
            unsafe { std::ptr::write_bytes(at, 0xEE, own.len()) };
        }
        self.right = None;
    }

    fn backward(&mut self, tick: Tick) {
        assert_eq!(self.live, tick.action.ts);
        assert!(self.reversed == 0 || tick.end + 1 == self.last, "{tick:?} behind {}", self.last);
        (tick.action.ts..=tick.end).for_each(|_| self.compute(1));
        self.reversed += tick.end + 1 - tick.action.ts;
        self.last = tick.action.ts;
    }

    fn place(&mut self, at: Vec<*mut c_void>) {
        self.at = at.into_iter().map(|field| field.cast()).collect();
    }

    fn begun(&mut self, ts: u32) {
        self.compute(0);
        self.set(ts);
    }

    fn forward_beside(&mut self, ts: u32) {
        self.compute(0);
        self.live = ts;
    }

    fn serve(&mut self, session: &mut Session, tick: Tick) -> Result<()> {
        match tick.action.kind {
            Kind::Terminate => assert_eq!(self.last, 0),
            _ if tick.it == 0 => self.begin(),
            _ => {}
        }
        match self.slots.take() {
            Some(mut slots) => {
                let served = slots.serve(self, session, tick);
                self.slots = Some(slots);
                served?;
            }
            None => {
                if tick.action.kind == Kind::Save {
                    self.set(self.live);
                }
                play::serve(self, session, tick)?;
            }
        }
        if tick.action.kind == Kind::Save && session.tiers().storage.codec.method != Method::None {
            self.stored += self.through_codec(session, tick)?.0;
        }
        Ok(())
    }
}
