//! The cost model: seconds of every time step, copy and transfer, and bytes of every snapshot.

use super::profile::{seconds, CodecProfile, Profile};
use crate::error::{fail, Result};
use crate::schedule::MacroSteps;
use std::ops::Range;
use std::sync::Arc;

/// Seconds of the forward steps or of the backward steps.
#[derive(Clone, Debug, PartialEq)]
pub enum Times {
    /// The same number of seconds for every time step.
    Each(f64),
    /// The n time steps are divided into as many parts of equal length as there are values; a step of
    /// part k takes the k-th value, in seconds. n = 0: not known yet, and every step takes the mean.
    Parts(Arc<[f64]>, u32),
    /// A step stands for a macro-step, whose time steps take these times.
    Macro(Arc<Times>, MacroSteps),
}

impl Times {
    /// Seconds of the step ts -> ts+1.
    #[inline]
    pub fn of(&self, ts: u32) -> f64 {
        match self {
            Times::Each(seconds) => *seconds,
            Times::Parts(parts, 0) => mean(parts),
            Times::Parts(parts, steps) => {
                let part = u64::from(ts) * parts.len() as u64 / u64::from(*steps);
                parts.get(part as usize).copied().unwrap_or(0.0)
            }
            Times::Macro(times, of) => match &**times {
                Times::Each(seconds) => *seconds * of.of(ts).len() as f64,
                times => of.of(ts).map(|ts| times.of(ts)).sum(),
            },
        }
    }

    /// Seconds of the steps ts -> ts+1 for each ts of `steps`.
    #[inline]
    pub fn sum(&self, steps: Range<u32>) -> f64 {
        match self {
            Times::Each(seconds) => *seconds * steps.len() as f64,
            _ => steps.map(|ts| self.of(ts)).sum(),
        }
    }

    /// Seconds of the first `steps` steps.
    pub fn total(&self, steps: u32) -> f64 {
        match self {
            Times::Each(seconds) => *seconds * steps as f64,
            Times::Parts(parts, 0) => mean(parts) * steps as f64,
            Times::Parts(parts, all) => {
                let (all, count) = (u64::from(*all), parts.len() as u64);
                // The first step of part k.
                let first = |k: u64| (k * all).div_ceil(count).min(u64::from(steps));
                let seconds = |(k, s): (u64, &f64)| (first(k + 1) - first(k)) as f64 * s;
                (0..).zip(parts.iter()).map(seconds).sum()
            }
            Times::Macro(times, of) => times.total(of.of(steps).start),
        }
    }

    /// The mean of the seconds of a time step.
    pub fn mean(&self) -> f64 {
        match self {
            Times::Each(seconds) => *seconds,
            Times::Parts(values, _) => mean(values),
            Times::Macro(times, _) => times.mean(),
        }
    }

    /// Seconds of the fastest step. A last macro-step that is shorter than the others counts only
    /// if it is the only one, since no FORWARD repeats it.
    pub fn least(&self) -> f64 {
        match self {
            Times::Each(seconds) => *seconds,
            Times::Parts(parts, 0) => mean(parts),
            Times::Parts(seconds, _) => seconds.iter().copied().fold(f64::INFINITY, f64::min),
            Times::Macro(times, of) => match &**times {
                Times::Each(_) => self.of(0),
                _ => (0..(of.count() - 1).max(1)).map(|k| self.of(k)).fold(f64::INFINITY, f64::min),
            },
        }
    }

    /// The times of macro-steps whose time steps take these times.
    fn of_macro_steps(self, macro_steps: MacroSteps) -> Self {
        let known = match self {
            Times::Parts(parts, _) => Times::Parts(parts, macro_steps.time_steps()),
            times => times,
        };
        match macro_steps.every() {
            1 => known,
            _ => Times::Macro(Arc::new(known), macro_steps),
        }
    }

    /// The times of a sweep with one `part`-th of the time steps, which take as long as the steps at
    /// the same places of the whole sweep.
    fn for_part(&self, part: u32) -> Self {
        match self {
            Times::Each(seconds) => Times::Each(*seconds),
            Times::Parts(parts, steps) => Times::Parts(parts.clone(), steps.div_ceil(part)),
            Times::Macro(times, of) => Times::Macro(
                Arc::new(times.for_part(part)),
                MacroSteps::new(of.every(), of.time_steps().div_ceil(part)),
            ),
        }
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The costs of everything that a plan consists of, in seconds, for snapshots of one layout and
/// codec.
#[derive(Clone, Debug, PartialEq)]
pub struct Costs {
    /// Forward steps.
    pub forward: Times,
    /// Backward steps.
    pub backward: Times,
    /// Copying a snapshot between the fields and a slot, in seconds.
    pub copy: f64,
    /// Compressing a state, in seconds; 0 for raw snapshots.
    pub compress: f64,
    /// Decompressing a snapshot, in seconds; 0 for raw snapshots.
    pub decompress: f64,
    /// Moving a snapshot from host to device memory, in seconds.
    pub upload: f64,
    /// Moving a snapshot from device to host memory, in seconds.
    pub download: f64,
    /// Reading a snapshot from disk, in seconds.
    pub disk_read: f64,
    /// Writing a snapshot to disk, in seconds.
    pub disk_write: f64,
    /// Bytes of a state.
    pub state_bytes: u64,
    /// Bytes of a snapshot, on average: the costs of copies and transfers are those of this number
    /// of bytes. Where snapshots share time levels these are the bytes of a whole state, and a copy
    /// of a part takes its part of the time.
    pub stored_bytes: u64,
    /// Bytes of a snapshot that cross the link, or that go to disk.
    pub moved_bytes: u64,
    /// Bytes of a snapshot's slot, enough for the largest snapshot.
    pub slot_bytes: u64,
    /// Bytes of a slot for a raw record, where others are compressed.
    pub raw_slot_bytes: u64,
    /// Bytes of a state that are the previous time level of its other fields, if snapshots share
    /// time levels; else 0.
    pub previous_bytes: u64,
    /// Whether one copy engine serves both directions of the link, which then take turns.
    pub one_engine: bool,
    /// Whether snapshots are compressed. A compressed snapshot has no fixed place in a slot, and
    /// waits for the download from any bytes that were freed before.
    pub compressed: bool,
}

impl Default for Costs {
    /// Costs in units of a forward step. A backward step takes one unit, too. Snapshots have one
    /// byte and cost nothing.
    fn default() -> Self {
        let free = Profile { forward_ms: 1e3, backward_ms: 1e3, ..Profile::free() };
        Costs::new(&free, 1, None)
    }
}

impl Costs {
    /// The costs of `profile` for states of `state_bytes` bytes, raw or compressed with `codec`.
    ///
    /// A raw SAVE or RESTORE copies the state within the device. A compressed state is coded on the
    /// application's stream: a SAVE copies the result to its slot, a RESTORE decodes from the slot.
    pub fn new(profile: &Profile, state_bytes: u64, codec: Option<&CodecProfile>) -> Self {
        let shrunk = |ratio: f64| (state_bytes as f64 / ratio).ceil() as u64;
        let (stored_bytes, slot_bytes) =
            codec.map_or((state_bytes, state_bytes), |c| (shrunk(c.ratio), shrunk(c.worst_ratio)));
        let scale = profile.scale(state_bytes) / 1e3;
        let times = |each: f64, of: usize| match &profile.steps[..] {
            [] => Times::Each(each * scale),
            parts => Times::Parts(parts.iter().map(|part| part[of] * scale).collect(), 0),
        };
        Costs {
            forward: times(profile.forward_ms, 0),
            backward: times(profile.backward_ms, 1),
            copy: seconds(stored_bytes, profile.d2d_gbs),
            compress: codec.map_or(0.0, |c| seconds(state_bytes, c.compress_gbs)),
            decompress: codec.map_or(0.0, |c| seconds(state_bytes, c.decompress_gbs)),
            upload: seconds(stored_bytes, profile.h2d_gbs),
            download: seconds(stored_bytes, profile.d2h_gbs),
            disk_read: seconds(stored_bytes, profile.disk_read_gbs),
            disk_write: seconds(stored_bytes, profile.disk_write_gbs),
            state_bytes,
            stored_bytes,
            moved_bytes: stored_bytes,
            slot_bytes,
            raw_slot_bytes: state_bytes,
            previous_bytes: 0,
            one_engine: profile.has_one_engine(),
            compressed: codec.is_some(),
        }
    }

    /// These costs of compressed snapshots if lanes code them, `threads` at a time: the application copies raw
    /// states, and a transfer takes the time of coding and of moving what comes of it. Where threads do not share
    /// the work on a state, there is one for each direction.
    pub fn by_lanes(self, threads: u32, is_shared: bool) -> Self {
        let share = if is_shared { f64::from(threads.max(1)) } else { 1.0 };
        Costs {
            copy: self.raw_copy(),
            compress: 0.0,
            decompress: 0.0,
            upload: self.upload + self.decompress / share,
            download: self.compress / share + self.download,
            stored_bytes: self.state_bytes,
            one_engine: threads == 1 || is_shared,
            compressed: false,
            ..self
        }
    }

    /// Seconds of copying a raw state within the device.
    pub fn raw_copy(&self) -> f64 {
        self.copy * (self.state_bytes as f64 / self.stored_bytes.max(1) as f64)
    }

    /// The costs of a schedule for the time steps of `macro_steps`, whose steps are macro-steps, from
    /// the costs of time steps.
    pub fn in_macro_steps(self, macro_steps: MacroSteps) -> Self {
        Costs {
            forward: self.forward.of_macro_steps(macro_steps),
            backward: self.backward.of_macro_steps(macro_steps),
            ..self
        }
    }

    /// The costs of a sweep with one `part`-th of the time steps.
    pub(crate) fn for_part(&self, part: u32) -> Self {
        Costs {
            forward: self.forward.for_part(part),
            backward: self.backward.for_part(part),
            ..self.clone()
        }
    }

    /// Fails if a time of one of `steps` steps is negative, infinite or not a number.
    pub fn check(&self, steps: u32) -> Result<()> {
        for (name, times) in [("forward", &self.forward), ("backward", &self.backward)] {
            if !(times.least() >= 0.0 && times.total(steps).is_finite()) {
                return fail!(Argument, "{name} times must be numbers of seconds, none negative");
            }
        }
        let Costs { copy, compress, decompress, upload, download, .. } = *self;
        let disk = [self.disk_read, self.disk_write];
        let transfers = [copy, compress, decompress, upload, download].into_iter().chain(disk);
        if !transfers.into_iter().all(|seconds| seconds >= 0.0 && seconds.is_finite()) {
            return fail!(Argument, "speeds and ratios must be greater than 0: {self:?}");
        }
        Ok(())
    }

    /// The part of a snapshot's bytes that is not the previous time level of other fields; 1 if
    /// snapshots share no time levels.
    pub fn own_part(&self) -> f64 {
        1.0 - self.previous_bytes as f64 / self.state_bytes.max(1) as f64
    }

    /// The ideal of the problem, in seconds: n forward steps, n backward steps in each reverse sweep, and
    /// nothing else.
    pub fn problem_ideal(&self, steps: u32, sweeps: u32) -> f64 {
        self.forward.total(steps) + f64::from(sweeps) * self.backward.total(steps)
    }
}
