//! The error of the application's result as the setting: a shot is run with raw snapshots and with some
//! bounds of the codec, and the bound is taken whose result is as near as was asked. This is an estimate
//! for all other shots, and a check measures it on one of them.
//!
//! Each run is a session of its own, made by the application: nothing here knows of sessions.

mod search;
mod target;

use crate::codec::ErrorBound;
use crate::error::{fail, Result};
use search::{Outcome, Search, Tried};

pub use target::{Compared, Target, Values};

/// The loosest bound, as a fraction of a maximum or a range: of a field within a larger one nothing is
/// left.
const LOOSEST: f64 = 0.5;

/// A run of a shot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Run {
    /// With raw snapshots; its result is the reference.
    Raw,
    /// With this `error_bound`.
    Coded(f64),
    /// No run whose result is wanted: `error_bound` of the shots that follow.
    Settled(f64),
}

/// The choice of a bound.
#[derive(Debug)]
pub struct Quality {
    target: Target,
    /// `error_bound_mode`.
    mode: i32,
    /// The loosest `error_bound` that the configuration allows.
    loosest: f64,
    run: Run,
    /// Whether the application has asked for `run`, so that the next result is that of this run.
    is_running: bool,
    /// The result of the run with raw snapshots; empty if no shot is being measured.
    reference: Vec<Values>,
    /// What was measured of the result that is not judged yet.
    compared: Vec<Compared>,
    search: Search,
    found: Found,
}

/// What was measured so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Found {
    /// The chosen `error_bound`; 0: none yet.
    pub bound: f64,
    /// The error of the last judged run with a codec, in the unit of the target; 0: none.
    pub error: f64,
    /// The error of the run that settled `bound`.
    pub settled_error: f64,
    /// The field of the result that had this error.
    pub field: usize,
    /// Runs that were judged, over all shots.
    pub runs: u32,
    /// Shots that were measured to the end.
    pub shots: u32,
}

impl Quality {
    /// Begins with a target and a codec's bound. `is_limit`: the bound is the loosest one to take;
    /// otherwise nothing limits it.
    pub fn new(target: Target, bound: ErrorBound, is_limit: bool) -> Self {
        let (mode, given) = bound.key();
        let loosest = if is_limit { given } else { LOOSEST };
        let mut quality = Quality {
            target,
            mode,
            loosest,
            run: Run::Raw,
            is_running: false,
            reference: Vec::new(),
            compared: Vec::new(),
            search: Search::new(0.0),
            found: Found::default(),
        };
        quality.search = Search::new(quality.size(loosest));
        quality
    }

    /// Returns the target.
    pub fn target(&self) -> Target {
        self.target
    }

    /// Returns what was measured so far.
    pub fn found(&self) -> Found {
        self.found
    }

    /// Returns the next run of this shot. Until a result was judged it is the same run.
    pub fn next_run(&mut self) -> Run {
        self.is_running = !matches!(self.run, Run::Settled(_));
        self.run
    }

    /// Begins to measure the next shot: with raw snapshots, and with the bound that is settled.
    pub fn check(&mut self) -> Result<()> {
        let Run::Settled(bound) = self.run else {
            return fail!(State, "a shot is being measured: give its results first, until gpuzip_quality_next says that no run is left");
        };
        self.search = Search::new(self.size(bound));
        (self.run, self.is_running) = (Run::Raw, false);
        Ok(())
    }

    /// Takes the result of the run, or this rank's part of it, and returns what its error follows from.
    pub fn compare(&mut self, result: Vec<Values>) -> Result<&[Compared]> {
        if !self.is_running {
            return fail!(State, "no run's result is wanted: call gpuzip_quality_next first, and run the shot if it says so");
        }
        if self.run == Run::Raw {
            self.reference = result;
            self.compared = target::compare(&self.reference, &self.reference)?;
            return Ok(&self.compared);
        }
        let shapes = |of: &[Values]| of.iter().map(Values::shape).collect::<Vec<_>>();
        let (now, before) = (shapes(&result), shapes(&self.reference));
        if now != before {
            return fail!(
                Shape,
                "the result has {now:?} (values, bytes of each) in its fields, and that of the run with raw snapshots has {before:?}: give the \
                 results of one shot"
            );
        }
        self.compared = target::compare(&result, &self.reference)?;
        Ok(&self.compared)
    }

    /// Judges the run by what `compare` returned for the whole result, which ranks have put together.
    /// If this fails, the run's result is still wanted.
    pub fn judge(&mut self, whole: &[Compared]) -> Result<()> {
        if !self.is_running || self.compared.is_empty() {
            return fail!(State, "no result was compared: call gpuzip_quality_compare first");
        }
        let (now, compared) = (whole.len(), self.compared.len());
        if now != compared {
            return fail!(Argument, "nfields = {now}: the result that was compared has {compared}");
        }
        let (fraction, field) = target::worst(self.target, whole, self.run == Run::Raw)?;
        if let Run::Coded(bound) = self.run {
            self.found.error = self.target.in_unit(fraction);
            self.found.field = field;
            self.run = self.after(bound, fraction / self.target.fraction())?;
        } else {
            self.run = Run::Coded(self.first());
        }
        self.found.runs += 1;
        (self.is_running, self.compared) = (false, Vec::new());
        if let Run::Settled(bound) = self.run {
            self.reference = Vec::new();
            self.found.shots += 1;
            self.found.bound = bound;
            self.tell();
        }
        Ok(())
    }

    /// Returns the run that follows a run with `bound` and this error, in parts of the largest error that
    /// is allowed.
    fn after(&mut self, bound: f64, error: f64) -> Result<Run> {
        let tried = Tried { bound: self.size(bound), error };
        let is_kept = self.found.bound == bound && error <= 1.0;
        let outcome =
            if is_kept { Outcome::Take(tried) } else { self.search.tried(tried.bound, error) };
        match outcome {
            Outcome::Try(size) => Ok(Run::Coded(self.value(size))),
            Outcome::Take(taken) => {
                self.found.settled_error =
                    self.target.in_unit(taken.error * self.target.fraction());
                Ok(Run::Settled(self.value(taken.bound)))
            }
            Outcome::Fail => fail!(
                Values,
                "quality = {}: no bound keeps it; with error_bound = {} the result has {}: ask for less, begin with a tighter error_bound, or \
                 find out why runs of one shot differ (compressor = 0 twice should give the same bits)",
                self.target,
                self.shown(bound),
                self.target.shown(self.found.error)
            ),
        }
    }

    /// Returns the bound to try first: the one that is settled, or else the error that is asked for, as a
    /// fraction (images of rtm3d with dct have 1.4 times the relative error of the bound); an absolute
    /// bound, whose unit nobody knows here, begins at the loosest one.
    fn first(&self) -> f64 {
        match self.found.bound {
            0.0 if self.mode == 1 => self.loosest,
            0.0 => self.value(self.target.fraction()),
            settled => settled,
        }
    }

    /// Returns the size of an `error_bound`, to which errors are about proportional.
    fn size(&self, value: f64) -> f64 {
        if self.mode == 3 {
            10f64.powf(-value / 20.0)
        } else {
            value
        }
    }

    /// Returns the `error_bound` of this size, with three digits (in dB two behind the point), at most the
    /// loosest one.
    fn value(&self, size: f64) -> f64 {
        if size >= self.size(self.loosest) {
            return self.loosest;
        }
        let (text, is_psnr) = match self.mode {
            3 => (format!("{:.2}", -20.0 * size.log10()), true),
            _ => (format!("{size:.2e}"), false),
        };
        let value = text.parse().unwrap_or(size);
        if is_psnr {
            value.max(self.loosest)
        } else {
            value.min(self.loosest)
        }
    }

    /// Returns an `error_bound` as text.
    fn shown(&self, bound: f64) -> String {
        if self.mode == 3 {
            bound.to_string()
        } else {
            format!("{bound:e}")
        }
    }

    fn tell(&self) {
        let Found { bound, settled_error, runs, shots, .. } = self.found;
        log::info!(
            "quality = {}: error_bound = {} with error_bound_mode = {}; the result of shot {shots} that was measured has {} ({runs} runs). Other \
             shots may differ: gpuzip_quality_check measures one",
            self.target,
            self.shown(bound),
            self.mode,
            self.target.shown(settled_error)
        );
    }
}

#[cfg(test)]
mod tests;
