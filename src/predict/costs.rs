//! The cost model: seconds of every step, copy and transfer, and bytes of every snapshot.

use super::profile::{seconds, CodecProfile, Profile};
use crate::error::{fail, Result};
use std::sync::Arc;

/// Seconds of the steps of one kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Times {
    /// The same for every step.
    Each(f64),
    /// The step ts -> ts+1 takes the `ts`-th of these n values.
    PerStep(Arc<[f64]>),
}

impl Times {
    /// Seconds of the step ts -> ts+1.
    #[inline]
    pub fn of(&self, ts: u32) -> f64 {
        match self {
            Times::Each(seconds) => *seconds,
            Times::PerStep(seconds) => seconds.get(ts as usize).copied().unwrap_or(0.0),
        }
    }

    /// Seconds of all n steps.
    pub fn total(&self, steps: u32) -> f64 {
        match self {
            Times::Each(seconds) => *seconds * steps as f64,
            Times::PerStep(seconds) => seconds.iter().take(steps as usize).sum(),
        }
    }

    /// Seconds of the quickest step.
    pub fn least(&self) -> f64 {
        match self {
            Times::Each(seconds) => *seconds,
            Times::PerStep(seconds) => seconds.iter().copied().fold(f64::INFINITY, f64::min),
        }
    }
}

/// What everything costs that a plan is made of, in seconds, for snapshots of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Costs {
    /// FORWARD steps.
    pub forward: Times,
    /// BACKWARD steps.
    pub backward: Times,
    /// Copying a snapshot between the fields and a slot.
    pub copy: f64,
    /// Compressing a state; 0 for raw snapshots.
    pub compress: f64,
    /// Decompressing one.
    pub decompress: f64,
    /// Moving a snapshot from host to device memory.
    pub upload: f64,
    /// Moving one from device to host memory.
    pub download: f64,
    /// Reading one from disk.
    pub disk_read: f64,
    /// Writing one to disk.
    pub disk_write: f64,
    /// Bytes of a state.
    pub state_bytes: u64,
    /// Bytes of a snapshot that move, in the mean.
    pub stored_bytes: u64,
    /// Bytes of a snapshot's slot, which the largest one fits.
    pub slot_bytes: u64,
    /// Snapshots are compressed: they have no place of their own in a slot, and wait for any that
    /// gave its bytes back.
    pub compressed: bool,
}

impl Default for Costs {
    /// The unit is a forward step, and a backward step takes as long; snapshots are one byte and
    /// cost nothing.
    fn default() -> Self {
        let free = Profile { forward_ms: 1e3, backward_ms: 1e3, ..Profile::free() };
        Costs::new(&free, 1, None)
    }
}

impl Costs {
    /// The costs of a profile for states of `state_bytes` bytes, raw or through a codec.
    ///
    /// A raw SAVE or RESTORE copies the state within the device. A compressed one is coded on the
    /// application's stream; what comes out is copied to its slot at a SAVE and read from there
    /// at a RESTORE.
    pub fn new(profile: &Profile, state_bytes: u64, codec: Option<&CodecProfile>) -> Self {
        let shrunk = |ratio: f64| (state_bytes as f64 / ratio).ceil() as u64;
        let (stored_bytes, slot_bytes) =
            codec.map_or((state_bytes, state_bytes), |c| (shrunk(c.ratio), shrunk(c.worst_ratio)));
        Costs {
            forward: Times::Each(profile.forward_ms * profile.scale(state_bytes) / 1e3),
            backward: Times::Each(profile.backward_ms * profile.scale(state_bytes) / 1e3),
            copy: seconds(stored_bytes, profile.d2d_gbs),
            compress: codec.map_or(0.0, |c| seconds(state_bytes, c.compress_gbs)),
            decompress: codec.map_or(0.0, |c| seconds(state_bytes, c.decompress_gbs)),
            upload: seconds(stored_bytes, profile.h2d_gbs),
            download: seconds(stored_bytes, profile.d2h_gbs),
            disk_read: seconds(stored_bytes, profile.disk_read_gbs),
            disk_write: seconds(stored_bytes, profile.disk_write_gbs),
            state_bytes,
            stored_bytes,
            slot_bytes,
            compressed: codec.is_some(),
        }
    }

    /// Refuses what no machine has: times that are negative or no numbers.
    pub fn check(&self, steps: u32) -> Result<()> {
        for (name, times) in [("forward", &self.forward), ("backward", &self.backward)] {
            if let Times::PerStep(values) = times {
                if values.len() != steps as usize {
                    return fail!(
                        Argument,
                        "{} {name} times for {steps} steps: give one for each",
                        values.len()
                    );
                }
            }
            if !(times.least() >= 0.0 && times.total(steps).is_finite()) {
                return fail!(Argument, "{name} times must be numbers of seconds, none negative");
            }
        }
        let transfers = [
            self.copy,
            self.compress,
            self.decompress,
            self.upload,
            self.download,
            self.disk_read,
            self.disk_write,
        ];
        if !transfers.iter().all(|&seconds| seconds >= 0.0 && seconds.is_finite()) {
            return fail!(Argument, "speeds and ratios must be greater than 0: {self:?}");
        }
        Ok(())
    }

    /// Seconds of the application's stream in a SAVE that waits for nothing.
    pub fn save(&self) -> f64 {
        self.compress + self.copy
    }

    /// The same for a RESTORE.
    pub fn restore(&self) -> f64 {
        if self.compressed {
            self.decompress
        } else {
            self.copy
        }
    }

    /// The ideal of the problem: n forward and n backward steps, nothing else.
    pub fn problem_ideal(&self, steps: u32) -> f64 {
        self.forward.total(steps) + self.backward.total(steps)
    }
}
