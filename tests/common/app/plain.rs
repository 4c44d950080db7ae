//! An application with one field, for tests of single calls and of virtual time.

use super::device::{Memory, Own, Pinned, Primary};
use super::ok;
use crate::common::emu;
use crate::common::play::{self, App, Slots};
use cudarc::driver::sys::CUstream;
use gpuzip::choice::Tick;
use gpuzip::device::{AppField, Stream};
use gpuzip::error::Result;
use gpuzip::session::Session;
use std::ffi::c_void;
use std::ptr::null_mut;

/// What a time step does.
pub enum Step {
    /// Every byte of the field becomes the number of the state, which `look` expects.
    Number,
    /// Takes this number of seconds of virtual time.
    Takes(f64),
}

/// An application with a field of FP32 values in plain memory of device 0.
pub struct Plain {
    pub memory: Memory,
    pub count: usize,
    seen: Pinned,
    pub step: Step,
    /// The stream of the application's work and calls.
    pub on: CUstream,
    /// The application's own streams, of which `on` may be one.
    pub own: Vec<Own>,
    /// With zero copy, how slots are used.
    pub slots: Option<Slots<'static>>,
    /// The number of restored states that were right.
    pub right: u32,
    pub primary: Primary,
}

impl Plain {
    /// Makes an application with a field of `count` values, on a stream of its own.
    pub fn new(count: usize, step: Step) -> Self {
        let primary = Primary::new(0);
        let (own, memory) = (vec![Own::new()], Memory::new(4 * count as u64));
        let (seen, on) = (Pinned::new(4 * count as u64), own[0].0);
        Plain { memory, count, seen, step, on, own, slots: None, right: 0, primary }
    }

    /// Makes an application on the legacy default stream.
    pub fn on_default(count: usize, step: Step) -> Self {
        Plain { on: null_mut(), own: Vec::new(), ..Self::new(count, step) }
    }

    pub fn field(&self) -> [AppField; 1] {
        [self.memory.field(self.count, None)]
    }

    /// Sets every byte of the field.
    pub fn set(&self, byte: u8) {
        ok!(cuMemsetD8Async(self.memory.0, byte, 4 * self.count, self.on));
    }
}

impl App for Plain {
    fn fields(&mut self) -> Vec<AppField> {
        self.field().into()
    }

    fn stream(&self) -> Stream {
        Stream(self.on.cast())
    }

    fn forward(&mut self, ts: u32) {
        match self.step {
            Step::Number => self.set(ts as u8),
            Step::Takes(seconds) => assert_eq!(emu::work(self.on.cast(), seconds), 0),
        }
    }

    fn backward(&mut self, tick: Tick) {
        if let Step::Takes(_) = self.step {
            (tick.action.ts..=tick.end).for_each(|ts| self.forward(ts));
        }
    }

    fn look(&mut self, ts: u32) {
        let (Step::Number, bytes) = (&self.step, 4 * self.count) else { return };
        ok!(cuMemcpyDtoHAsync_v2(self.seen.0, self.memory.0, bytes, self.on));
        ok!(cuStreamSynchronize(self.on));
        // SAFETY: page-locked memory of this length, which no copy touches any more.
        let seen = unsafe { std::slice::from_raw_parts(self.seen.0.cast::<u8>(), bytes) };
        assert!(seen.iter().all(|byte| *byte == ts as u8), "state {ts}: {seen:?}");
        self.right += 1;
    }

    fn poison(&mut self) {
        if let Step::Number = self.step {
            self.set(0xee);
        }
    }

    fn place(&mut self, _: Vec<*mut c_void>) {}

    fn forward_beside(&mut self, ts: u32) {
        self.forward(ts);
    }

    fn serve(&mut self, session: &mut Session, tick: Tick) -> Result<()> {
        let Some(mut slots) = self.slots.take() else { return play::serve(self, session, tick) };
        let served = slots.serve(self, session, tick);
        self.slots = Some(slots);
        served
    }
}
