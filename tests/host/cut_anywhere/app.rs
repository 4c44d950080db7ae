//! The application whose shots are cut. It computes the previous time level of a state from the live
//! state, as programs do: where a RESTORE has brought back what a codec made of a level, the next state
//! has this level. The live state is the application's, goes into restart files and comes back from them.

use crate::common::checksum::checksum;
use crate::common::play;
use crate::common::prelude::*;
use gpuzip::persist::Name;
use gpuzip::session::Array;
use std::ffi::c_void;

/// A time level in FP64, its previous time level, and a field without one.
pub fn shapes(values: usize) -> Vec<Field> {
    let level = field([values as u64, 1, 1], Scalar::F64);
    vec![level, Field { previous_of: Some(0), ..level }, field([3, 1, 1], Scalar::F32)]
}

/// Value `i` of field `k` of u(ts).
fn value(ts: i64, k: usize, i: usize) -> f64 {
    let more = (7 * ts + 13 * i as i64).rem_euclid(17) as f64 / 64.0;
    (3 * ts + k as i64 + 1) as f64 + more
}

pub struct Stepper<'a> {
    pub shapes: Vec<Field>,
    /// How far a restored value may be from the exact one, as a fraction of the largest value; 0: every
    /// bit must be right.
    pub allowed: f64,
    pub slots: Option<Slots<'a>>,
    /// The live state, in memory of the application: the bytes of each field.
    state: Vec<Vec<u8>>,
    live: u32,
    /// The memory of the fields of calls that copy.
    own: Vec<Vec<u8>>,
    /// Where the fields lie: in `own`, or with zero copy in a slot of the session.
    at: Vec<*mut u8>,
    /// The bytes that the fields must hold at `at`, if they must hold any.
    right: Option<Vec<Vec<u8>>>,
    /// The flags of the action that is served.
    flags: u32,
    /// The checksum of the state that the last RESTORE has brought back.
    pub restored: u64,
    /// The number of time steps that are reversed.
    pub reversed: u32,
}

impl<'a> Stepper<'a> {
    pub fn new(values: usize, allowed: f64, slots: Option<Slots<'a>>) -> Self {
        let shapes = shapes(values);
        let memory = || shapes.iter().map(|field| vec![0xEE; field.bytes().unwrap() as usize]);
        let (mut own, state) = (memory().collect::<Vec<_>>(), memory().collect());
        let at = own.iter_mut().map(|field| field.as_mut_ptr()).collect();
        let (right, flags, restored, reversed) = (None, 0, 0, 0);
        let live = 0;
        let mut app = Stepper {
            shapes,
            allowed,
            slots,
            state,
            live,
            own,
            at,
            right,
            flags,
            restored,
            reversed,
        };
        app.state = (0..app.shapes.len()).map(|k| app.exact(0, k)).collect();
        app
    }

    /// Returns the bytes of field `k` of u(ts) in a run without a codec.
    fn exact(&self, ts: u32, k: usize) -> Vec<u8> {
        let field = &self.shapes[k];
        let (k, ts) = match field.previous_of {
            Some(later) => (later as usize, i64::from(ts) - 1),
            None => (k, ts.into()),
        };
        let values = (0..field.n[0] as usize).map(|i| value(ts, k, i));
        match field.scalar {
            Scalar::F32 => values.flat_map(|x| (x as f32).to_le_bytes()).collect(),
            _ => values.flat_map(f64::to_le_bytes).collect(),
        }
    }

    /// Computes u(ts) from u(ts - 1), the live state.
    fn advance(&mut self, ts: u32) {
        assert_eq!(self.live + 1, ts);
        let next = |(k, field): (usize, &Field)| match field.previous_of {
            Some(later) => self.state[later as usize].clone(),
            None => self.exact(ts, k),
        };
        self.state = self.shapes.iter().enumerate().map(next).collect();
        self.live = ts;
    }

    /// The bytes of each field where it lies.
    fn data(&self) -> Vec<Vec<u8>> {
        let bytes = |(&at, own): (&*mut u8, &Vec<u8>)| {
            // SAFETY: the memory of this field, which the library does not write between calls.
            unsafe { std::slice::from_raw_parts(at.cast_const(), own.len()) }.to_vec()
        };
        self.at.iter().zip(&self.own).map(bytes).collect()
    }

    /// Whether the application may write field `k`: not a level that is the memory of the state before.
    fn may_write(&self, k: usize) -> bool {
        self.flags & flags::SHARED_LEVEL == 0 || self.shapes[k].previous_of.is_none()
    }

    /// Puts the live state where the fields lie.
    fn put(&mut self) {
        for (k, state) in self.state.iter().enumerate().filter(|(k, _)| self.may_write(*k)) {
            // SAFETY: the memory of this field, which the library does not use between calls.
            unsafe { std::ptr::copy_nonoverlapping(state.as_ptr(), self.at[k], state.len()) };
        }
        assert_eq!(self.data(), self.state, "a level of u({}) that is there already", self.live);
        self.right = Some(self.state.clone());
    }

    /// Fails if a restored state is not near enough to the exact one.
    fn compare(&self) {
        let values = |bytes: &[u8]| -> Vec<f64> {
            bytes.as_chunks().0.iter().map(|x| f64::from_le_bytes(*x)).collect()
        };
        let largest = |most: f64, x: f64| most.max(x.abs());
        let exact: Vec<_> = (0..self.shapes.len()).map(|k| self.exact(self.live, k)).collect();
        let most = exact[..2].iter().flat_map(|level| values(level)).fold(0.0, largest);
        for (k, (restored, exact)) in self.state.iter().zip(&exact).enumerate() {
            if self.allowed == 0.0 {
                assert!(restored == exact, "field {k} of u({})", self.live);
            } else if self.shapes[k].scalar == Scalar::F64 {
                let pairs = values(restored).into_iter().zip(values(exact));
                let worst = pairs.map(|(x, y)| x - y).fold(0.0, largest);
                let is_near = worst <= self.allowed * most;
                assert!(is_near, "field {k} of u({}): {worst} of {most}", self.live);
            }
        }
    }

    /// The live state as arrays of restart files.
    pub fn arrays(&mut self) -> Vec<Array> {
        let array = |(k, (&field, bytes)): (usize, (&Field, &mut Vec<u8>))| {
            // SAFETY: the memory outlives the call that the array is made for.
            let memory = unsafe { AppMemory::new(bytes.as_mut_ptr(), bytes.len()) };
            let field = AppField { field, memory: Some(memory) };
            Array { name: Name::new(&format!("field {k}")).unwrap(), field, changes_within: true }
        };
        self.shapes.iter().zip(&mut self.state).enumerate().map(array).collect()
    }

    /// Loses all that a process loses that ends, and returns what it had in the live state.
    pub fn forget(&mut self) -> Vec<Vec<u8>> {
        self.right = None;
        self.slots.iter_mut().for_each(Slots::clear);
        let lost = self.state.clone();
        self.state.iter_mut().for_each(|field| field.fill(0xEE));
        lost
    }

    /// Whether the live state is this one.
    pub fn has(&self, state: &[Vec<u8>]) -> bool {
        self.state == state
    }
}

impl App for Stepper<'_> {
    fn fields(&mut self) -> Vec<AppField> {
        let placed = |(&field, (&at, own)): (&Field, (&*mut u8, &Vec<u8>))| {
            // SAFETY: the memory outlives the call that the field is made for, and no other code
            // touches the memory during this call.
            let memory = unsafe { AppMemory::new(at, own.len()) };
            AppField { field, memory: Some(memory) }
        };
        self.shapes.iter().zip(self.at.iter().zip(&self.own)).map(placed).collect()
    }

    fn forward(&mut self, ts: u32) {
        self.advance(ts);
    }

    fn saved(&mut self, _: &mut Session, _: Tick) -> Result<()> {
        self.poison();
        Ok(())
    }

    fn restored(&mut self, _: &mut Session, tick: Tick) -> Result<()> {
        (self.live, self.state) = (tick.action.ts, self.data());
        self.compare();
        self.restored =
            (0..).zip(&self.state).fold(0, |sum, (k, bytes)| sum ^ checksum(bytes, 1000 * k));
        self.right = Some(self.state.clone());
        Ok(())
    }

    fn look(&mut self, ts: u32) {
        assert!(self.right.as_ref().is_none_or(|right| *right == self.data()), "state {ts}");
    }

    fn poison(&mut self) {
        for (k, own) in self.own.iter().enumerate().filter(|(k, _)| self.may_write(*k)) {
            // SAFETY: as in `put`.
            unsafe { std::ptr::write_bytes(self.at[k], 0xEE, own.len()) };
        }
        self.right = None;
    }

    fn backward(&mut self, tick: Tick) {
        assert_eq!(self.live, tick.action.ts);
        self.reversed += tick.end + 1 - tick.action.ts;
    }

    fn place(&mut self, at: Vec<*mut c_void>) {
        self.at = at.into_iter().map(|field| field.cast()).collect();
    }

    fn begun(&mut self, ts: u32) {
        self.forward_beside(ts);
        self.put();
    }

    fn forward_beside(&mut self, ts: u32) {
        if self.live != ts {
            self.advance(ts);
        }
    }

    fn serve(&mut self, session: &mut Session, tick: Tick) -> Result<()> {
        self.flags = tick.action.flags;
        match self.slots.take() {
            Some(mut slots) => {
                let served = slots.serve(self, session, tick);
                self.slots = Some(slots);
                served
            }
            None => {
                self.flags &= !flags::SHARED_LEVEL;
                if tick.action.kind == Kind::Save {
                    self.put();
                }
                play::serve(self, session, tick)
            }
        }
    }
}
