//! The configuration: its checked values, and the parser of its `key = value` files.

use crate::codec::{Method, Settings};
use crate::environment;
use crate::error::{fail, Result};
use crate::persist::Name;
use crate::plan::Policy;
use crate::predict::Profile;
use crate::quality::Target;
use crate::schedule::{check_steps, Algorithm, MAX_STEPS};
use crate::together::{Mode, Modes};
use std::path::PathBuf;

/// The kind of device that a session is on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// The kind of device whose memory holds the fields.
    #[default]
    ByFields,
    /// The host: main memory serves as device memory.
    Host,
    /// A CUDA device.
    Cuda,
}

/// A checked configuration. Nothing changes it: what a session finds out about its job is
/// [`crate::choice`]'s `Job`. The number 0 means "not set" unless a field says otherwise. A field whose
/// name is that of a key means what the key does: `gpuzip_config_t` of the C interface describes it.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Which states are saved, and which actions the application gets.
    pub schedule: ScheduleOptions,
    /// Where snapshots live, and how much memory they may take.
    pub tiers: TierOptions,
    /// The device, and what is known of its speeds.
    pub device: DeviceOptions,
    /// How snapshots are compressed.
    pub codec: CodecOptions,
    /// Logs and timelines.
    pub report: ReportOptions,
    /// Restart files.
    pub restart: RestartOptions,
}

/// Which states are saved, and which actions the application gets.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct ScheduleOptions {
    /// The algorithm; `None` lets the library choose (`auto`).
    pub algorithm: Option<Algorithm>,
    /// The number of snapshots that the schedule may store at a time; 0: what fits the budgets, or
    /// what the algorithm needs.
    pub snapshots: u32,
    /// States of a chunk (zCut) or of an interval (two-level); 0: the library chooses.
    pub chunk: u32,
    /// Whether GPUZIP 2.x's rule gives the number of snapshots, whatever the budgets.
    pub adjust_snapshots: bool,
    /// Whether Uniform has the actions that GPUZIP 2.x published.
    pub uniform_published: bool,
    /// The trace file of `Algorithm::Trace`.
    pub trace_file: Option<PathBuf>,
    pub range_actions: bool,
    pub adjoint_every: u32,
    /// Reverse sweeps over the states of one forward phase; 0 and 1: one.
    pub sweeps: u32,
    /// How often every state is computed again and compared; 0: not at all.
    pub check: u32,
}

/// Where snapshots live, and how much memory they may take.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct TierOptions {
    /// `cache_capacity`: snapshots for which the device cache has room.
    pub cache: u32,
    pub policy: Policy,
    pub device_budget: u64,
    /// Bytes of device memory that the session leaves to the application;
    /// [`Config::reserve_of`] says what 0 stands for.
    pub device_reserve: u64,
    pub host_budget: u64,
    pub disk_budget: u64,
    /// The folders over whose disks the snapshots on disk are striped; empty: `TMPDIR`, or else
    /// /var/tmp.
    pub disk_folders: Vec<PathBuf>,
    /// Whether a session takes a share of the free memory if its algorithm is `auto` and neither
    /// budgets nor snapshots are set.
    pub default_budgets: bool,
    pub zero_copy: bool,
    pub shared_levels: bool,
    /// Whether snapshots that stay on the device are raw and those that go to the host compressed;
    /// `None`: as is faster, where the planner chooses the codec.
    pub mixed_storage: Option<bool>,
}

/// The device, and what is known of its speeds.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct DeviceOptions {
    /// The kind of device that the session is on.
    pub backend: Backend,
    /// The ordinal of the CUDA device; `None`: the device of the fields, or else the current
    /// device.
    pub ordinal: Option<i32>,
    pub max_in_flight: u32,
    /// Bandwidth of a simulated link between device and host memory, in bytes per second in each
    /// direction; 0: as fast as memory.
    pub link_bandwidth: f64,
    /// The speeds of steps, copies and codecs that `auto` plans with; `None`: typical speeds of the
    /// backend.
    pub profile: Option<Profile>,
    /// The file to which a measured profile is written.
    pub profile_file: Option<PathBuf>,
}

/// The most threads that code.
pub const MOST_THREADS: u32 = 64;

/// How snapshots are compressed.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct CodecOptions {
    /// The codec of the snapshots and its error bound.
    pub settings: Settings,
    /// Whether the planner chooses between raw snapshots and the codecs that keep the bound of
    /// `settings`.
    pub any_codec: bool,
    /// The error of the application's result from which the bound is to be chosen.
    pub quality: Option<Target>,
    pub compression_factor: f64,
    pub difference_bound: bool,
    /// `codec_threads`: threads of the host backend that may code beside the calling thread; `None`: as many
    /// as the profile's idle processors, at most [`MOST_THREADS`].
    pub threads: Option<u32>,
}

/// Logs and timelines.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct ReportOptions {
    /// Whether the ratio of every snapshot is logged.
    pub log_ratio: bool,
    /// Whether the performance log gets a row for every shot.
    pub performance_log: bool,
    pub trace_out: Option<PathBuf>,
}

/// Restart files.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct RestartOptions {
    /// The folder of restart files.
    pub folder: Option<PathBuf>,
    /// The folder of their copies.
    pub shared_folder: Option<PathBuf>,
    /// Every generation whose number is a multiple of this holds everything; 0 and 1: all do.
    pub whole_every: u32,
    /// The stages that generations pass; none: all that the application registers.
    pub stages: Vec<Name>,
    pub strict: bool,
    /// Most of the run time that restart files may take; 0: the default.
    pub overhead: f64,
    /// Most seconds that a requested stop may take; 0: the default.
    pub stop_budget: f64,
}

impl Config {
    /// Returns the configuration after `change`.
    pub fn with(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self);
        self
    }

    /// Returns the configuration with states that are computed `times` times again and compared. Snapshots
    /// are then raw, since a state that is computed from a compressed one may differ.
    pub fn checking(self, times: u32) -> Self {
        self.with(|c| {
            if c.schedule.check.max(times) > 0 {
                c.schedule.check = c.schedule.check.max(times);
                (c.codec, c.tiers.mixed_storage) = (CodecOptions::default(), None);
            }
        })
    }

    /// Returns the folders of the snapshots on disk.
    pub fn disk_folders(&self) -> Vec<PathBuf> {
        if !self.tiers.disk_folders.is_empty() {
            return self.tiers.disk_folders.clone();
        }
        vec![environment::path("TMPDIR").unwrap_or_else(|| PathBuf::from("/var/tmp"))]
    }

    /// Returns the bytes of device memory that the session leaves to the application on a device
    /// with `total` bytes: `device_reserve`, or by default the larger of 512 MiB and 2 % of the
    /// device's memory, but at most an eighth of it. Modules, libraries and frameworks that the
    /// application loads later take device memory, too.
    pub fn reserve_of(&self, total: u64) -> u64 {
        match self.tiers.device_reserve {
            0 => (total / 50).max(512 << 20).min(total / 8),
            bytes => bytes,
        }
    }

    /// Returns the modes that the configuration asks for.
    pub fn modes(&self) -> Modes {
        let Settings { method, reject_nonfinite, sequences, .. } = &self.codec.settings;
        let every = if self.schedule.adjoint_every > 1 { self.schedule.adjoint_every } else { 0 };
        Modes::default()
            .with(Mode::ZeroCopy, self.tiers.zero_copy)
            .with(Mode::Lru, self.tiers.policy == Policy::Lru)
            .with(Mode::SharedLevels, self.tiers.shared_levels)
            .with(Mode::MixedStorage, self.tiers.mixed_storage == Some(true))
            .with(Mode::Codec, method.number())
            .with(Mode::NoCodec, *method == Method::None && !self.codec.any_codec)
            .with(Mode::AutoCodec, self.codec.any_codec)
            .with(Mode::RejectNonfinite, *reject_nonfinite)
            .with(Mode::Sequences, *sequences)
            .with(Mode::Disk, self.tiers.disk_budget)
            .with(Mode::NoHostBudget, self.tiers.host_budget == 0)
            .with(Mode::Check, self.schedule.check)
            .with(Mode::MacroSteps, every)
            .with(Mode::Sweeps, if self.schedule.sweeps > 1 { self.schedule.sweeps } else { 0 })
            .with(Mode::Online, self.schedule.algorithm == Some(Algorithm::Online))
            .with(Mode::SnapshotRule, self.schedule.adjust_snapshots)
    }

    /// Fails if the configuration asks for something that only the host backend has.
    pub fn check_on_cuda(&self) -> Result<()> {
        match self.codec.settings.fill_value {
            Some(fill) => fail!(
                Unsupported,
                "fill_value = {fill} has no kernels: leave it out on CUDA, or use the host backend"
            ),
            None => Ok(()),
        }
    }

    /// Checks the number of time steps; 0 is allowed for algorithm `online` only.
    pub fn check_steps(&self, steps: i64) -> Result<u32> {
        match steps {
            0 if self.schedule.algorithm == Some(Algorithm::Online) => Ok(0),
            0 => fail!(
                Argument,
                "steps = 0: give 1 to {MAX_STEPS} time steps, or checkpointing_algorithm = 9 (online) if their number is not known yet"
            ),
            steps => check_steps(steps),
        }
    }
}

/// A line of a configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Line number, from 1.
    pub line: usize,
    /// The text left of the `=`.
    pub key: &'a str,
    /// The text right of the `=`, without quotes.
    pub value: &'a str,
}

/// Yields the `key = value` lines of `text`. A `#` outside double quotes begins a comment. Lines
/// may end with CR LF, and the text may begin with a UTF-8 byte order mark.
pub fn entries(text: &str) -> impl Iterator<Item = Result<Entry<'_>>> {
    (1..)
        .zip(text.strip_prefix('\u{feff}').unwrap_or(text).lines())
        .filter_map(|(line, content)| entry(line, content).transpose())
}

fn entry(line: usize, content: &str) -> Result<Option<Entry<'_>>> {
    let content = strip_comment(content).trim();
    if content.is_empty() {
        return Ok(None);
    }
    let Some((key, value)) = content.split_once('=') else {
        return fail!(Parse, "line {line}: {} is not `key = value`", shown(content));
    };
    let (key, value) = (key.trim(), value.trim().trim_end_matches(';').trim());
    let value = value.strip_prefix('"').and_then(|v| v.strip_suffix('"')).unwrap_or(value);
    if key.is_empty() {
        return fail!(Parse, "line {line}: no key before the `=`");
    }
    Ok(Some(Entry { line, key, value }))
}

/// Quotes a text of a file or variable for an error message, shortened so that the rest of the
/// message stays in sight.
pub(crate) fn shown(value: &str) -> String {
    const LONGEST: usize = 100;
    match value.char_indices().nth(LONGEST) {
        None => format!("{value:?}"),
        Some((end, _)) => format!("{:?}... ({} bytes)", &value[..end], value.len()),
    }
}

fn strip_comment(line: &str) -> &str {
    let mut quoted = false;
    for (i, c) in line.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '#' if !quoted => return &line[..i],
            _ => {}
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<Vec<Entry<'_>>> {
        entries(text).collect()
    }

    #[test]
    fn lines_comments_and_quotes() {
        let text = "\u{feff}# GPUZIP\n\ncheckpointing_algorithm = 1 # revolve\r\n trace_file_path=\"a # b.txt\"\nfloat_kind = float;\n";
        let entries = parse(text).unwrap();
        let pairs: Vec<_> = entries.iter().map(|e| (e.line, e.key, e.value)).collect();
        assert_eq!(
            pairs,
            [
                (3, "checkpointing_algorithm", "1"),
                (4, "trace_file_path", "a # b.txt"),
                (5, "float_kind", "float")
            ]
        );
    }

    #[test]
    fn errors_name_the_line() {
        for (text, part) in [("a = 1\nb\n", "line 2: \"b\""), ("= 1", "line 1: no key")] {
            let error = parse(text).unwrap_err();
            assert!(error.message.contains(part), "{error}");
        }
    }

    #[test]
    fn the_reserve_depends_on_the_device() {
        const GIB: u64 = 1 << 30;
        let reserve = |device_reserve: u64, total: u64| {
            Config::default().with(|c| c.tiers.device_reserve = device_reserve).reserve_of(total)
        };
        assert_eq!(reserve(0, 80 * GIB), 80 * GIB / 50);
        assert_eq!([reserve(0, 24 * GIB), reserve(0, 4 * GIB)], [GIB / 2; 2]);
        assert_eq!(reserve(0, GIB), GIB / 8);
        assert_eq!([reserve(1, GIB), reserve(3 * GIB, GIB)], [1, 3 * GIB]);
    }

    proptest! {
        #[test]
        fn never_panics(text in ".{0,200}", lines in "([a-z]{0,3} ?=? ?[\"#0-9a-z]{0,4}\n){0,10}") {
            let _ = parse(&text);
            let _ = parse(&lines);
        }
    }
}
