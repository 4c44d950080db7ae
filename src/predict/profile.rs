//! Profiles: the time that an application on a machine needs for a step, a copy and a snapshot. A
//! profile is the input of the cost model.
//!
//! A profile is plain data. A plan that is chosen by a profile depends on nothing else, so all
//! ranks with the same profile choose the same plan.

use crate::codec::Settings;
use crate::error::{fail, Result};
use crate::fallible_vec::with_room;

/// Limits of a profile's numbers. Within these limits no cost and no sum of costs leaves the range
/// of FP64.
const MOST_STATE_BYTES: u64 = 1 << 60;
const MOST_MS: f64 = 1e12;
const LEAST_GBS: f64 = 1e-9;
const LEAST_RATIO: f64 = 1e-3;
const MOST_RATIO: f64 = 1e9;
const MOST_PROCESSORS: f64 = 1e6;

/// The most parts of a sweep whose steps have times of their own.
pub const MOST_PARTS: usize = 4096;

/// Bytes per second of 1 GB/s.
const GIGA: f64 = 1e9;

/// Measured or assumed speeds. Bandwidths are in GB/s (1e9 bytes per second) of the bytes that
/// move. A transfer of infinite bandwidth costs nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Backend on which the profile was measured, as the configuration key `backend`; 0: any
    /// backend.
    pub backend: i32,
    /// Bytes of the states whose steps were measured. Steps of larger states take longer in
    /// proportion. 0: the times hold for states of any size.
    pub state_bytes: u64,
    /// One forward step, in milliseconds.
    pub forward_ms: f64,
    /// One backward step, in milliseconds.
    pub backward_ms: f64,
    /// The link from host to device memory, in GB/s.
    pub h2d_gbs: f64,
    /// The link from device to host memory, in GB/s.
    pub d2h_gbs: f64,
    /// Both directions of the link together while snapshots move both ways, in GB/s. 0: not measured;
    /// each direction is then as fast as alone.
    pub both_gbs: f64,
    /// Copying a state within device memory, as a raw SAVE or RESTORE does, in GB/s.
    pub d2d_gbs: f64,
    /// Reading snapshots from disk, in GB/s.
    pub disk_read_gbs: f64,
    /// Writing snapshots to disk, in GB/s.
    pub disk_write_gbs: f64,
    /// Processors that this process may use and that the application's steps leave idle, on average; 0 on a
    /// GPU, or if nothing was measured.
    pub idle_processors: f64,
    /// Milliseconds of a forward and of a backward step in each part of the sweep, which has as many
    /// parts of equal length as there are entries, at most [`MOST_PARTS`]. Empty: every step takes
    /// `forward_ms` or `backward_ms`, which are else the means.
    pub steps: Vec<[f64; 2]>,
    /// Speeds and ratios of codecs on snapshots of this application. Raw snapshots need no entry.
    pub codecs: Vec<CodecProfile>,
}

/// Speed and ratio of one codec. Throughputs are in GB/s of uncompressed bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CodecProfile {
    /// Number of the codec, as the configuration key `compressor`.
    pub compressor: i32,
    /// Parameter of the codec (zfp: bits per value). If `parameter`, `bound_mode` and `bound` are
    /// all 0, the entry holds for every setting of the codec.
    pub parameter: u32,
    /// Mode of the error bound, as `ErrorBound::key` returns it.
    pub bound_mode: i32,
    /// The error bound; 0: none, or any.
    pub bound: f64,
    /// Whether the figures are of snapshots in a sequence (`Settings::sequences`).
    pub sequences: bool,
    /// Compression, in GB/s.
    pub compress_gbs: f64,
    /// Decompression, in GB/s.
    pub decompress_gbs: f64,
    /// Raw bytes over stored bytes, of all snapshots of a sweep together. Determines the bytes that
    /// move.
    pub ratio: f64,
    /// Raw bytes over stored bytes of the snapshot that compresses worst. Determines the bytes of a
    /// slot.
    pub worst_ratio: f64,
}

impl Profile {
    /// The assumed profile of a code on the host backend or, where `on_host` is false, on a GPU: sessions
    /// without a profile and `gpuzip plan` without measured speeds plan by it. `link` is that of
    /// [`Profile::typical_host`].
    pub fn typical(on_host: bool, state_bytes: u64, link: f64) -> Self {
        match on_host {
            true => Self::typical_host(state_bytes, link),
            false => Self::typical_gpu(state_bytes),
        }
    }

    /// The assumed profile of a GPU behind PCIe, if nothing is measured, for states of
    /// `state_bytes` bytes.
    ///
    /// An acoustic FP32 step moves 16 to 20 bytes per grid point, and the state has 8 bytes per
    /// grid point. At half of an A100's 1.56 TB/s, a forward step therefore runs through its state
    /// at 400 GB/s. An adjoint step with imaging moves 40 bytes per grid point and needs 2.5 times
    /// as long. PCIe 4 moves 25 GB/s in one direction: one raw snapshot takes the time of 16
    /// forward steps. A copy within the device reads and writes the state.
    pub fn typical_gpu(state_bytes: u64) -> Self {
        Self::of_speeds(state_bytes, 400.0, 25.0, 500.0)
    }

    /// The assumed profile of a CPU, whose host and device memory are the same. A forward step runs
    /// through its state at 6 GB/s (0.75 Gpoint/s of an acoustic pair on one core), and copies run
    /// at 10 GB/s. `link` limits transfers between the tiers, in bytes per second; 0: no limit.
    pub fn typical_host(state_bytes: u64, link: f64) -> Self {
        let link = if link > 0.0 { link / GIGA } else { f64::INFINITY };
        Self::of_speeds(state_bytes, 6.0, link.min(10.0), 10.0)
    }

    /// A profile in which everything takes no time.
    pub fn free() -> Self {
        let free = f64::INFINITY;
        Profile {
            backend: 0,
            state_bytes: 0,
            forward_ms: 0.0,
            backward_ms: 0.0,
            h2d_gbs: free,
            d2h_gbs: free,
            both_gbs: 0.0,
            d2d_gbs: free,
            disk_read_gbs: free,
            disk_write_gbs: free,
            idle_processors: 0.0,
            steps: Vec::new(),
            codecs: Vec::new(),
        }
    }

    fn of_speeds(state_bytes: u64, step_gbs: f64, link_gbs: f64, d2d_gbs: f64) -> Self {
        let forward_ms = state_bytes as f64 / (step_gbs * GIGA) * 1e3;
        Profile {
            state_bytes,
            forward_ms,
            backward_ms: 2.5 * forward_ms,
            h2d_gbs: link_gbs,
            d2h_gbs: link_gbs,
            d2d_gbs,
            disk_read_gbs: 2.0,
            disk_write_gbs: 2.0,
            ..Self::free()
        }
    }

    /// Gives the steps of each part of the sweep times of their own, in milliseconds of a forward and
    /// of a backward step of a state of `bytes` bytes. Without any, every step takes the means.
    pub fn with_steps(self, steps: &[[f64; 2]], bytes: u64) -> Result<Self> {
        check_parts(steps)?;
        let scale = self.scale(bytes).max(f64::MIN_POSITIVE);
        let mut parts = with_room(steps.len())?;
        parts.extend(steps.iter().map(|part| part.map(|ms| ms / scale)));
        let mean = |of: usize| {
            parts.iter().map(|part: &[f64; 2]| part[of]).sum::<f64>() / parts.len() as f64
        };
        let profile = match parts.is_empty() {
            true => Profile { steps: parts, ..self },
            false => Profile { forward_ms: mean(0), backward_ms: mean(1), steps: parts, ..self },
        };
        profile.check()?;
        Ok(profile)
    }

    /// Whether the two directions of the link take turns, as on a device with one copy engine: if the
    /// time for a snapshot each way is nearer to the sum of the times alone than to the longer one.
    pub(super) fn has_one_engine(&self) -> bool {
        let (up, down) = (1.0 / self.h2d_gbs, 1.0 / self.d2h_gbs);
        self.both_gbs > 0.0 && 2.0 / self.both_gbs > up.max(down) + 0.5 * up.min(down)
    }

    /// GB/s of both directions of another link together, on the device that was measured: 0, each
    /// direction as fast as alone, unless its directions take turns.
    pub fn both_gbs_of(&self, h2d_gbs: f64, d2h_gbs: f64) -> f64 {
        match self.has_one_engine() {
            true => Self::in_turns(h2d_gbs, d2h_gbs),
            false => 0.0,
        }
    }

    /// GB/s of both directions together if they take turns.
    pub fn in_turns(h2d_gbs: f64, d2h_gbs: f64) -> f64 {
        2.0 / (1.0 / h2d_gbs + 1.0 / d2h_gbs)
    }

    /// The entry of a codec with these settings, if the profile has one. Of snapshots in a sequence that were
    /// not measured it knows what it knows of those by themselves.
    pub fn codec(&self, settings: &Settings) -> Option<&CodecProfile> {
        let entry = |sequences: bool| {
            self.codecs.iter().find(|codec| codec.sequences == sequences && codec.is_of(settings))
        };
        entry(settings.sequences).or_else(|| entry(false))
    }

    /// How many times as long the steps of states of `bytes` bytes take as the measured steps.
    pub fn scale(&self, bytes: u64) -> f64 {
        if self.state_bytes == 0 {
            return 1.0;
        }
        bytes as f64 / self.state_bytes as f64
    }

    /// Fails if a number cannot have been measured: states of more than 1 EiB, steps of more than
    /// 30 years, less than 1 byte per second, codecs that make more than 1000 bytes of one byte or
    /// less than one byte of 10^9, or more than 10^6 idle processors. Infinite speeds are allowed.
    pub fn check(&self) -> Result<()> {
        if self.state_bytes > MOST_STATE_BYTES {
            return fail!(
                Argument,
                "state_bytes = {}: at most {MOST_STATE_BYTES}, 1 EiB",
                self.state_bytes
            );
        }
        let within = |name: &str, value: f64, least: f64, most: f64| {
            if value >= least && value <= most {
                return Ok(());
            }
            fail!(Argument, "{name} = {value:?}: it must be from {least:?} to {most:e}")
        };
        check_parts(&self.steps)?;
        within("forward_ms", self.forward_ms, 0.0, MOST_MS)?;
        within("backward_ms", self.backward_ms, 0.0, MOST_MS)?;
        let speed = |name: &str, value: f64| within(name, value, LEAST_GBS, f64::INFINITY);
        speed("h2d_gbs", self.h2d_gbs)?;
        speed("d2h_gbs", self.d2h_gbs)?;
        speed("d2d_gbs", self.d2d_gbs)?;
        speed("disk_read_gbs", self.disk_read_gbs)?;
        speed("disk_write_gbs", self.disk_write_gbs)?;
        if self.both_gbs != 0.0 {
            speed("both_gbs", self.both_gbs)?;
        }
        within("idle_processors", self.idle_processors, 0.0, MOST_PROCESSORS)?;
        for codec in &self.codecs {
            speed("compress_gbs", codec.compress_gbs)?;
            speed("decompress_gbs", codec.decompress_gbs)?;
            within("ratio", codec.ratio, LEAST_RATIO, MOST_RATIO)?;
            within("worst_ratio", codec.worst_ratio, LEAST_RATIO, MOST_RATIO)?;
            within("bound", codec.bound, 0.0, f64::MAX)?;
        }
        Ok(())
    }
}

/// Fails if a sweep has too many parts, or if a step of a part takes a time that cannot be.
fn check_parts(steps: &[[f64; 2]]) -> Result<()> {
    if steps.len() > MOST_PARTS {
        return fail!(
            Argument,
            "{} parts of the sweep: at most {MOST_PARTS}; give means of consecutive steps",
            steps.len()
        );
    }
    for (k, part) in steps.iter().enumerate() {
        for (name, ms) in ["forward_ms", "backward_ms"].into_iter().zip(part) {
            if !(0.0..=MOST_MS).contains(ms) {
                return fail!(Argument, "{name}[{k}] = {ms}: milliseconds from 0 to {MOST_MS:e}");
            }
        }
    }
    Ok(())
}

impl CodecProfile {
    /// The assumed entry of a codec that was not measured: 1 GB/s on a CPU core, 200 GB/s on a GPU,
    /// for compression and for decompression.
    pub fn typical(compressor: i32, ratio: f64, host: bool) -> Self {
        let speed = if host { 1.0 } else { 200.0 };
        CodecProfile {
            compressor,
            compress_gbs: speed,
            decompress_gbs: speed,
            ratio,
            worst_ratio: ratio,
            ..Default::default()
        }
    }

    /// An entry for a codec with these settings, with nothing measured yet. A codec without an error
    /// bound has zeros as its bound.
    pub fn of(settings: &Settings) -> Self {
        let (method, is_bounded) = (&settings.method, settings.method.is_bounded());
        let (bound_mode, bound) = if is_bounded { settings.bound.key() } else { (0, 0.0) };
        let (compressor, parameter) = (method.number().into(), method.parameter());
        let sequences = settings.sequences;
        CodecProfile { compressor, parameter, bound_mode, bound, sequences, ..Default::default() }
    }

    fn is_of(&self, settings: &Settings) -> bool {
        let key = |c: &Self| (c.compressor, c.parameter, c.bound_mode, c.bound);
        let of = Self::of(settings);
        key(self) == key(&of) || key(self) == (of.compressor, 0, 0, 0.0)
    }
}

/// Seconds to move `bytes` bytes at `gbs` GB/s.
pub(super) fn seconds(bytes: u64, gbs: f64) -> f64 {
    bytes as f64 / (gbs * GIGA)
}
