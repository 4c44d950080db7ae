//! Measurement of a shot: the seconds of its steps, and of copies and codecs on its states. The
//! result is a [`Profile`].

mod fit;
mod probe;

use crate::available;
use crate::choice::{Job, Target};
use crate::device::{AppMemory, Stream};
use crate::error::{fail, Error, Result};
use crate::fallible_vec;
use crate::layout::Layout;
use crate::predict::Profile;
use fit::Fit;
use probe::Probe;
use std::collections::VecDeque;

/// Number of equal parts of the time steps, in each of which one state is sampled: in a wave
/// simulation the states change as the waves fill the model. Of an unknown number of steps, one
/// state is sampled between each power of 2 and the next.
const SAMPLES: u64 = 8;

/// What comes before a call.
enum Before {
    /// It is the first call of the shot.
    Nothing,
    /// These numbers of forward and backward steps, which have ended.
    Steps(u64, u64),
    /// Steps that go on after the call.
    Unfinished,
}

/// What was measured of one shot so far.
pub struct Tuner {
    target: Target,
    job: Job,
    layout: Layout,
    steps: u64,
    probe: Option<Probe>,
    /// Bit k: a state of part k (`part`) has been sampled.
    tried: u64,
    /// Forward and backward steps since the last call.
    since: (u64, u64),
    /// For each call whose time is not known yet, what came before it.
    stretches: VecDeque<Before>,
    called: bool,
    /// Whether the next call begins the state of a step that the application computes after it.
    begins: bool,
    /// Seconds before such a call, which belong to the same steps as those after it.
    begun: f64,
    fit: Fit,
    /// The error for which the shot cannot be measured.
    failed: Option<Error>,
}

impl Tuner {
    /// Makes a tuner for a shot of `steps` time steps on `target`, which samples states with the codecs
    /// of `job`. 0 steps: their number is not known.
    pub fn new(target: Target, job: Job, layout: &Layout, steps: u32) -> Self {
        Tuner {
            target,
            job,
            layout: layout.clone(),
            steps: steps.into(),
            probe: None,
            tried: 0,
            since: (0, 0),
            stretches: VecDeque::new(),
            called: false,
            begins: false,
            begun: 0.0,
            fit: Fit::default(),
            failed: None,
        }
    }

    /// Notes that the application now computes these numbers of steps.
    pub fn steps(&mut self, forward: u64, backward: u64) {
        self.since.0 += forward;
        self.since.1 += backward;
    }

    /// Notes that the next call asks for the memory in which the application then computes the last of
    /// the steps that it was told (zero copy): their interval goes on.
    pub fn begins(&mut self) {
        self.begins = true;
    }

    /// Notes that the application is in a call: an interval of steps has ended.
    pub fn called(&mut self) {
        let stretch = match (self.called, std::mem::take(&mut self.begins)) {
            (false, _) => Before::Nothing,
            (true, true) => Before::Unfinished,
            (true, false) => {
                let (forward, backward) = std::mem::take(&mut self.since);
                Before::Steps(forward, backward)
            }
        };
        if let Err(error) = fallible_vec::push_back(&mut self.stretches, stretch) {
            self.failed = Some(error);
        }
        self.called = true;
    }

    /// Takes the seconds between calls: one number for each call, in the order of the calls.
    pub fn gaps(&mut self, gaps: Vec<f64>) {
        for seconds in gaps {
            match self.stretches.pop_front() {
                Some(Before::Steps(forward, backward)) => {
                    let seconds = seconds + std::mem::take(&mut self.begun);
                    self.fit.add(forward, backward, seconds);
                }
                Some(Before::Unfinished) => self.begun += seconds,
                Some(Before::Nothing) | None => {}
            }
        }
    }

    /// Returns whether u(ts) is to be sampled. u(0) usually has no waves yet: codecs are not tried
    /// on u(0), copies are.
    pub fn wants(&self, ts: i64) -> bool {
        self.failed.is_none() && self.tried >> self.part(ts) & 1 == 0
    }

    /// Returns the index of the part of the time steps (`SAMPLES`) that `ts` lies in; 63 for u(0).
    fn part(&self, ts: i64) -> u64 {
        match self.steps {
            _ if ts == 0 => 63,
            0 => (ts as u64).ilog2().into(),
            steps => (ts as u64).saturating_mul(SAMPLES) / steps % SAMPLES,
        }
    }

    /// Samples u(ts), which is in `fields` on `stream`. An error is kept for `finish`: sampling
    /// does not make the shot fail.
    pub fn sample(&mut self, ts: i64, fields: &[AppMemory], stream: Stream) {
        self.tried |= 1 << self.part(ts);
        self.failed = self.attempt(ts, fields, stream).err();
    }

    fn attempt(&mut self, ts: i64, fields: &[AppMemory], stream: Stream) -> Result<()> {
        let probe = match self.probe.take() {
            Some(probe) => probe,
            None => Probe::new(self.target, &self.job, &self.layout)?,
        };
        let probe = self.probe.insert(probe);
        probe.copies(fields, stream)?;
        match ts {
            0 => Ok(()),
            ts => probe.codecs(ts, fields, stream),
        }
    }

    /// Returns the profile of the shot, or the error for which there is none. `busy` is the number of
    /// processors that the application's steps kept busy, if it is known.
    pub fn finish(mut self, busy: Option<f64>) -> Result<Profile> {
        if let Some(error) = self.failed.take() {
            return Err(error.within("the shot could not be measured"));
        }
        let (Some((forward, backward)), Some(speeds)) =
            (self.fit.solve(), self.probe.as_ref().and_then(Probe::speeds))
        else {
            return fail!(
                State,
                "the shot has too few saves and restores to measure anything: measure one with more time steps"
            );
        };
        let backend = if self.target == Target::Host { 1 } else { 2 };
        let (forward_ms, backward_ms) = (forward * 1e3, backward * 1e3);
        let idle = |busy: f64| (f64::from(available::processors()) - busy).max(0.0);
        let idle_processors = busy.map_or(0.0, idle);
        Ok(Profile { backend, forward_ms, backward_ms, idle_processors, ..speeds })
    }
}
