//! Measuring a shot: what its steps take, and what copies and codecs do to its states. What comes
//! out is a [`Profile`].

mod fit;
mod probe;

use crate::choice::Target;
use crate::codec::Settings;
use crate::config::Config;
use crate::device::{AppMemory, Stream};
use crate::error::{fail, Error, Result};
use crate::fallible_vec;
use crate::layout::Layout;
use crate::predict::Profile;
use fit::Fit;
use probe::Probe;
use std::collections::VecDeque;

/// Parts of the sweep, in each of which one state is tried: waves fill the model little by little.
const SAMPLES: u64 = 8;

/// What is measured of one shot.
pub struct Tuner {
    target: Target,
    config: Config,
    layout: Layout,
    steps: u64,
    codecs: Vec<Settings>,
    probe: Option<Probe>,
    /// In which parts a state has been tried, by bit; and whether one at rest has.
    tried: u64,
    tried_rest: bool,
    /// Forward and backward steps since the last call.
    since: (u64, u64),
    /// Those before each call whose time is not known yet; `None` before the first one of the
    /// shot.
    stretches: VecDeque<Option<(u64, u64)>>,
    called: bool,
    fit: Fit,
    /// Why the shot cannot be measured.
    failed: Option<Error>,
}

impl Tuner {
    /// For a shot of `steps` steps on a device, with these codecs to try.
    pub fn new(
        target: Target,
        config: &Config,
        layout: &Layout,
        steps: u32,
        codecs: Vec<Settings>,
    ) -> Self {
        Tuner {
            target,
            config: config.clone(),
            layout: layout.clone(),
            steps: steps.into(),
            codecs,
            probe: None,
            tried: 0,
            tried_rest: false,
            since: (0, 0),
            stretches: VecDeque::new(),
            called: false,
            fit: Fit::default(),
            failed: None,
        }
    }

    /// The application computes so many steps now.
    pub fn steps(&mut self, forward: u64, backward: u64) {
        self.since.0 += forward;
        self.since.1 += backward;
    }

    /// The application is in a call.
    pub fn called(&mut self) {
        let stretch = std::mem::take(&mut self.since);
        if let Err(error) =
            fallible_vec::push_back(&mut self.stretches, self.called.then_some(stretch))
        {
            self.failed = Some(error);
        }
        self.called = true;
    }

    /// Seconds between calls, in order, one number for each call.
    pub fn gaps(&mut self, gaps: Vec<f64>) {
        for seconds in gaps {
            if let Some(Some((forward, backward))) = self.stretches.pop_front() {
                self.fit.add(forward, backward, seconds);
            }
        }
    }

    /// Whether u(ts) is worth a trial. State 0 is at rest as a rule: codecs make nothing of it, but
    /// it can be copied.
    pub fn wants(&self, ts: i64) -> bool {
        let tried = if ts == 0 { self.tried_rest } else { self.tried >> self.part(ts) & 1 == 1 };
        self.failed.is_none() && !tried
    }

    fn part(&self, ts: i64) -> u64 {
        (ts as u64).saturating_mul(SAMPLES) / self.steps.max(1) % SAMPLES
    }

    /// Tries u(ts), which is in the fields on the stream. A failure is kept for the end: the shot
    /// itself has no part in it.
    pub fn sample(&mut self, ts: i64, fields: &[AppMemory], stream: Stream) {
        match ts {
            0 => self.tried_rest = true,
            ts => self.tried |= 1 << self.part(ts),
        }
        self.failed = self.attempt(ts, fields, stream).err();
    }

    fn attempt(&mut self, ts: i64, fields: &[AppMemory], stream: Stream) -> Result<()> {
        let probe = match self.probe.take() {
            Some(probe) => probe,
            None => Probe::new(self.target, &self.config, &self.layout, &self.codecs)?,
        };
        let probe = self.probe.insert(probe);
        probe.copies(fields, stream)?;
        match ts {
            0 => Ok(()),
            ts => probe.codecs(ts, fields, stream),
        }
    }

    /// The profile of the shot, or why there is none.
    pub fn finish(mut self) -> Result<Profile> {
        if let Some(error) = self.failed.take() {
            return Err(error.within("the shot could not be measured"));
        }
        let (Some((forward, backward)), Some(findings)) =
            (self.fit.solve(), self.probe.as_mut().and_then(Probe::findings))
        else {
            return fail!(
                State,
                "a shot of {} steps with too few saves and restores to measure anything",
                self.steps
            );
        };
        let backend = if self.target == Target::Host { 1 } else { 2 };
        let (forward_ms, backward_ms) = (forward * 1e3, backward * 1e3);
        let state_bytes = self.layout.slot_bytes;
        let probe::Findings { h2d_gbs, d2h_gbs, d2d_gbs, codecs } = findings;
        // Nothing is on disk that could be measured.
        let disk = Profile::typical_gpu(state_bytes);
        Ok(Profile {
            backend,
            state_bytes,
            forward_ms,
            backward_ms,
            h2d_gbs,
            d2h_gbs,
            d2d_gbs,
            codecs,
            ..disk
        })
    }
}
