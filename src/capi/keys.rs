//! The table of the configuration's keys, one row for each. Configuration files, environment
//! variables, error texts and the command `gpuzip config` follow from this table.

use super::defaults::DEFAULT;
use super::entry::text_of;
use super::types::*;
use crate::codec;
use crate::config::shown;
use crate::error::{fail, Result};
use crate::numbers;
use crate::persist::MOST_INCREMENTAL;
use crate::schedule::{Algorithm, MOST_CHECKS};
use std::ffi::c_char;

/// A key: a field of `gpuzip_config_t` that files and variables may set.
pub struct Key {
    /// The name of the field. The environment variable is `GPUZIP_` and this name in capitals.
    pub name: &'static str,
    /// The unit of the key's number, or what the number counts; empty if it has no unit.
    pub unit: &'static str,
    /// The values that the key accepts.
    pub allowed: Allowed,
    /// The meaning of the key, in one line.
    pub doc: &'static str,
    slot: for<'a> fn(&'a mut gpuzip_config_t) -> Slot<'a>,
}

/// The values that a key accepts.
pub enum Allowed {
    /// Named numbers, given by name or number. A number with several names is shown by its first
    /// name.
    Names(&'static [(&'static str, i32)]),
    /// Named codecs, given by name or number, or the number of a registered codec.
    Codecs(&'static [(&'static str, i32)]),
    /// Numbers from the first to the second, both included.
    Numbers(f64, f64),
    /// The path of a file.
    Files,
    /// Texts of this form.
    Texts(&'static str),
}

/// A reference to a field of the configuration, by the field's type.
enum Slot<'a> {
    Int(&'a mut i32),
    Float(&'a mut f32),
    Double(&'a mut f64),
    Bytes(&'a mut u64),
    Bandwidth(&'a mut f64),
    Text(&'a mut *const c_char),
    Path(&'a mut *mut c_char),
}

macro_rules! keys {
    ($($name:ident: $type:ident, $unit:literal, $allowed:expr, $doc:literal;)*) => {
        /// All keys, in the order of the fields.
        pub const KEYS: &[Key] = &[$(Key {
            name: stringify!($name),
            unit: $unit,
            allowed: $allowed,
            doc: $doc,
            slot: |config| Slot::$type(&mut config.$name),
        }),*];
    };
}

use Allowed::{Codecs, Files, Names, Numbers, Texts};

/// Whole numbers from 0 on.
const COUNT: Allowed = Numbers(0.0, i32::MAX as f64);
/// Numbers from 0 on.
const POSITIVE: Allowed = Numbers(0.0, f64::MAX);
const NO_YES: Allowed =
    Names(&[("false", 0), ("true", 1), ("no", 0), ("yes", 1), ("off", 0), ("on", 1)]);
/// The algorithms and `auto` in the order of their numbers.
const ALGORITHM_NAMES: [(&str, i32); Algorithm::ALL.len() + 1] = {
    let mut names = [("auto", GPUZIP_ALGORITHM_AUTO); Algorithm::ALL.len() + 1];
    let mut k = 0;
    while k < Algorithm::ALL.len() {
        let number = Algorithm::ALL[k] as i32;
        let place = if number < GPUZIP_ALGORITHM_AUTO { k } else { k + 1 };
        names[place] = (Algorithm::ALL[k].name(), number);
        k += 1;
    }
    names
};
const ALGORITHMS: Allowed = Names(&ALGORITHM_NAMES);
/// The codecs in the order of their numbers, zfp under a second name as well, and `auto`.
const CODEC_NAMES: [(&str, i32); codec::CODECS.len() + 2] = {
    let mut names = [("auto", GPUZIP_COMPRESSOR_AUTO); codec::CODECS.len() + 2];
    let (mut k, mut next) = (0, 0);
    while k < codec::CODECS.len() {
        let number = codec::CODECS[k].number as i32;
        names[next] = (codec::CODECS[k].name, number);
        next += 1;
        if number == GPUZIP_COMPRESSOR_ZFP {
            names[next] = ("cuzfp", number);
            next += 1;
        }
        k += 1;
    }
    names
};
const CODECS: Allowed = Codecs(&CODEC_NAMES);

keys! {
    checkpointing_algorithm: Int, "", ALGORITHMS, "the schedule; auto: the schedule with the shortest predicted time within the budgets";
    checkpointing_snaps: Int, "snapshots", COUNT, "snapshots that may be stored at a time, an error if the budgets hold fewer; 0: what fits the budgets, or what the algorithm needs";
    cache_capacity: Int, "snapshots", COUNT, "snapshots for which the device cache has room; 0: no cache, from 2 on with prefetch; with device_budget: the most snapshots";
    compressor: Int, "", CODECS, "the codec of snapshots; auto: the codec with the shortest predicted time that keeps error_bound, or none";
    log_level: Int, "", Names(&[("debug", 0), ("info", 1), ("warn", 2), ("error", 3)]), "the least important level that is logged, for the whole process";
    enable_performance_log: Int, "", NO_YES, "append one CSV row per shot to gpuzip_performance.csv, or to the file that GPUZIP_PERFORMANCE_LOG names";
    enable_compression_rate_log: Int, "", NO_YES, "log the compression ratio of every snapshot, at level info";
    compression_factor: Float, "ratio", POSITIVE, "the compression ratio that budgets are planned with; 0 or 1: snapshots are planned with their raw size";
    trace_file_path: Path, "", Files, "the file with the recorded schedule of algorithm trace";
    revolve_log_level: Int, "", Numbers(i32::MIN as f64, i32::MAX as f64), "without effect, accepted because GPUZIP 2.x has this key; log_level decides";
    zfp_bit_rate: Int, "bits per value", Numbers(0.0, 64.0), "the rate of zfp: 1 to 32 (FP64: to 64); 0: 8";
    cuszp_err_bound: Double, "of the range", POSITIVE, "the bound of cuszp if error_bound is not set, as in GPUZIP 2.x";
    float_kind: Text, "", Names(&[("float", 0), ("double", 1)]), "the type of fields in calls that give only extents (the GPUZIP 2.x headers); not set: float";
    bitcomp_delta_config: Int, "", Names(&[("maximum", 0), ("statistics", 1), ("delta", 2)]), "what sets the quantisation step (delta) of bitcomp if error_bound is not set";
    bitcomp_range_fraction: Double, "of the maximum", POSITIVE, "bitcomp with bitcomp_delta_config maximum or statistics: the delta, as a part of the maximum or of the range";
    bitcomp_num_sigma: Double, "standard deviations", POSITIVE, "bitcomp with bitcomp_delta_config statistics: the range from which the delta follows";
    bitcomp_delta: Double, "", POSITIVE, "bitcomp with bitcomp_delta_config delta: the delta, in the unit of the field";
    bitcomp_algorithm: Int, "", Names(&[("default", 0), ("sparse", 1)]), "the algorithm of bitcomp; sparse is for arrays with many zeros";
    backend: Int, "", Names(&[("fields", 0), ("host", 1), ("cuda", 2)]), "where snapshots are kept; fields: where the memory of the fields is";
    device: Int, "", COUNT, "the CUDA device; 0: the device of the fields, or else the current device; k+1: CUDA device k";
    device_budget: Bytes, "bytes", POSITIVE, "most device memory that a session takes; 0: cache_capacity decides";
    host_budget: Bytes, "bytes", POSITIVE, "most host memory for snapshots; 0: what the plan needs; for auto without any budget at most half of the free memory";
    disk_budget: Bytes, "bytes", POSITIVE, "most disk space for snapshots that host_budget has no room for; 0: none go to disk";
    policy: Int, "", Names(&[("clairvoyant", GPUZIP_POLICY_CLAIRVOYANT), ("lru", GPUZIP_POLICY_LRU)]), "which snapshot leaves the device cache; clairvoyant: the one that is needed last; lru: as in GPUZIP 2.x";
    error_bound_mode: Int, "", Names(&[("max", 0), ("absolute", 1), ("range", 2), ("psnr", 3)]), "what error_bound is relative to; psnr: error_bound is a target in dB";
    error_bound: Double, "by its mode", POSITIVE, "the bound of codecs that keep one; 0: 1e-3 of the maximum or of the range";
    nonfinite: Int, "", Names(&[("store", 0), ("error", 1)]), "what a codec does with NaN and infinities: store them exactly, or refuse the save";
    max_in_flight: Int, "actions", COUNT, "most actions that the host runs ahead of a GPU; 0: 64";
    range_actions: Int, "", NO_YES, "consecutive FORWARDs are one action, from ts to ts_end";
    snapshot_rule: Int, "", Names(&[("budgets", 0), ("adjust", 1)]), "what decides the number of snapshots: checkpointing_snaps or the budgets, or GPUZIP 2.x's rule";
    schedule_chunk: Int, "states", COUNT, "states per chunk of zcut or per interval of two-level and hrevolve; 0: gpuzip chooses";
    uniform_reading: Int, "", Names(&[("inside", 0), ("published", 1)]), "uniform: inside: free slots reverse each interval; published: as in GPUZIP 2.x, quadratic in the interval";
    zero_copy: Int, "", NO_YES, "the application computes in memory of the session, such as the slots of the device cache; its fields are not copied";
    link_bandwidth: Bandwidth, "bytes/s", POSITIVE, "host backend: bandwidth of a simulated link, each way; 0: no simulated link";
    profile_path: Text, "", Files, "the file with measured costs: auto reads the file if it exists, gpuzip_autotune writes it";
    trace_out: Text, "", Files, "the file for a timeline of the run, for ui.perfetto.dev and gpuzip report; %r: rank, %p: process";
    persist_dir: Text, "", Files, "the folder of restart files, which the application asks for (gpuzip_persist_open)";
    persist_overhead: Double, "of the run time", Numbers(0.0, 1.0), "most of the run time that restart files take: the application's wait, and the processor time of the thread that writes; 0: 0.035";
    stop_budget_s: Double, "s", POSITIVE, "most time that a requested stop may take; 0: 1.5";
    shared_levels: Int, "", NO_YES, "two consecutive snapshots store the time level that they share once";
    mixed_storage: Int, "", Names(&[("planned", 0), ("always", 1), ("never", 2)]), "snapshots that stay on the device are raw, those that go to the host compressed; planned: with compressor auto and without zero_copy, where it is faster";
    adjoint_every: Int, "time steps", COUNT, "the adjoint needs every k-th state only, and BACKWARDs are ranges of k steps; 0 and 1: every state";
    difference_bound: Int, "", Names(&[("auto", 0), ("always", 1)]), "states in which the difference of a field and its previous level keeps a bound of its own; auto: those that steps start from; always: all";
    strict: Int, "", NO_YES, "restart files that another user could have made or changed; false: a warning, true: an error";
    disk_path: Text, "", Files, "the folders of snapshots on disk, separated by colons, one on each disk; not set: TMPDIR, or else /var/tmp";
    device_reserve: Bytes, "bytes", POSITIVE, "device memory that is left to the application; 0: the larger of 512 MiB and 2 % of the device's memory, at most an eighth of it";
    codec_threads: Int, "threads", Numbers(-1.0, 64.0), "host backend: most threads that code snapshots while the application computes, where that is faster; 0: as many as the profile has idle processors; -1: the calling thread codes";
    sequences: Int, "", NO_YES, "host backend, dct, store-all or auto: where all states are kept, a snapshot holds the difference to what the next two states predict";
    quality: Text, "", Texts("gradient:ERROR or image:PSNR in dB"), "the error of the result, such as gradient:1e-3 or image:60dB, from which an application that measures its result chooses error_bound";
    fill_value: Text, "", Texts("nan or a number"), "host backend, codecs with an error bound: the value where fields have none, such as land; it is kept exactly and does not count for the bound";
    sweeps: Int, "", COUNT, "reverse sweeps over the states of one forward sweep, each after gpuzip_rewind; 0 and 1: one";
    check: Int, "times", Numbers(0.0, MOST_CHECKS as f64), "every state is computed so many times again and compared with the first time, which finds incomplete states; 3 or more: and steps that are not deterministic";
    persist_shared_dir: Text, "", Files, "a second folder for restart files, which outlives the node: generations of persist_dir are copied there in the background";
    persist_whole_every: Int, "generations", Numbers(0.0, MOST_INCREMENTAL as f64), "every k-th generation of restart files holds everything; the others refer to older ones for what has not changed; 0 and 1: all hold everything";
    persist_stages: Text, "", Texts("names with commas or spaces between"), "the stages that generations of restart files pass: compress, which packs the copies in persist_shared_dir without loss, and those that the application registers; not set: all that it registers";
}

/// Keys that earlier versions had. Files and variables may still set them to anything, without
/// effect but for the warning `of_retired`.
pub const RETIRED: &[&str] = &["huge_pages"];

/// Returns the warning for a retired key that is set.
pub(super) fn of_retired(name: &str) -> String {
    format!("{name} has no effect any more and can be removed")
}

impl Key {
    /// Sets the key's field from the text of a file or an environment variable. `keep` turns a text
    /// into a C string that stays valid until the process ends.
    pub(super) fn set(
        &self,
        config: &mut gpuzip_config_t,
        value: &str,
        keep: impl FnOnce(&str) -> Result<*const c_char>,
    ) -> Result<()> {
        let named = self.number_of(value);
        let whole = || {
            named
                .or_else(|| i32::try_from(numbers::whole(value)?).ok())
                .filter(|n| self.allows(f64::from(*n)))
        };
        let real = || numbers::real(value).filter(|n| self.allows(*n));
        let bandwidth = || numbers::bandwidth(value).filter(|n| self.allows(*n));
        let stored = match (self.slot)(config) {
            Slot::Int(slot) => whole().map(|value| *slot = value),
            Slot::Float(slot) => real().map(|value| *slot = value as f32),
            Slot::Double(slot) => real().map(|value| *slot = value),
            Slot::Bytes(slot) => numbers::bytes(value).map(|value| *slot = value),
            Slot::Bandwidth(slot) => bandwidth().map(|value| *slot = value),
            Slot::Text(slot) => {
                let text = match (&self.allowed, named) {
                    (Names(_), None) if !value.is_empty() => None,
                    (Names(_), _) => Some(keep(&value.to_ascii_lowercase())?),
                    _ => Some(keep(value)?),
                };
                text.map(|text| *slot = text)
            }
            Slot::Path(slot) => Some(keep(value)?).map(|text| *slot = text.cast_mut()),
        };
        match stored {
            Some(()) => Ok(()),
            None => fail!(Config, "{} = {}: use {}", self.name, shown(value), self.choices()),
        }
    }

    fn names(&self) -> &'static [(&'static str, i32)] {
        match self.allowed {
            Names(names) | Codecs(names) => names,
            _ => &[],
        }
    }

    /// Returns the number of a name. Upper and lower case are equal, and so are `-` and `_`.
    fn number_of(&self, value: &str) -> Option<i32> {
        let same = |name: &str| name.bytes().map(fold).eq(value.bytes().map(fold));
        self.names().iter().find(|(name, _)| same(name)).map(|(_, number)| *number)
    }

    fn allows(&self, number: f64) -> bool {
        match self.allowed {
            Codecs(_) if (64.0..=255.0).contains(&number) => true,
            Names(names) | Codecs(names) => names.iter().any(|(_, n)| f64::from(*n) == number),
            Numbers(least, most) => (least..=most).contains(&number),
            Files | Texts(_) => false,
        }
    }

    /// Returns the names of the values that the key accepts.
    pub fn value_names(&self) -> impl Iterator<Item = &'static str> {
        self.names().iter().map(|(name, _)| *name)
    }

    /// Returns the first name of the value that `text` stands for in a configuration: a name in upper
    /// or lower case, with `-` or `_`, or the value's number. `None` if `text` is no such value.
    pub fn value_name(&self, text: &str) -> Option<&'static str> {
        let number = || i32::try_from(numbers::whole(text)?).ok();
        let number = self.number_of(text).or_else(number)?;
        self.name_of(number)
    }

    /// Returns the first name of a number.
    fn name_of(&self, number: i32) -> Option<&'static str> {
        self.names().iter().find(|(_, named)| *named == number).map(|(name, _)| *name)
    }

    /// Describes the values that the key accepts, for error texts.
    pub fn choices(&self) -> String {
        let numbered = |names: &[(&str, i32)]| {
            let first = names.iter().filter(|(name, number)| self.name_of(*number) == Some(*name));
            let shown = first.map(|(name, number)| format!("{name} ({number})"));
            shown.collect::<Vec<_>>().join(", ")
        };
        match ((self.slot)(&mut DEFAULT.clone()), &self.allowed) {
            (Slot::Text(_), Names(names)) => names.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(" or "),
            (_, Names(names)) => numbered(names),
            (_, Codecs(names)) => numbered(names) + ", or 64 to 255 for a codec that the application registers",
            (Slot::Int(_), Numbers(least, most)) => format!("a whole number from {least} to {most}"),
            (Slot::Bytes(_), _) => "a byte count below 2^64: K, M, G, T or KiB to TiB are powers of 1024, kB to TB of 1000".into(),
            (Slot::Bandwidth(_), _) => "bytes per second: K, M, G, T or KiB to TiB are powers of 1024, kB to TB of 1000".into(),
            (_, Numbers(..)) => "a number from 0 on".into(),
            (_, Files) => "a path".into(),
            (_, Texts(form)) => (*form).into(),
        }
    }

    /// Returns the key's value in a configuration, as a file would give it; empty if it is not set.
    ///
    /// # Safety
    /// The strings of `config` are NULL or valid.
    pub(super) unsafe fn value_of(&self, config: &gpuzip_config_t) -> String {
        // SAFETY: by this function's contract.
        let text =
            |pointer| unsafe { text_of(pointer) }.unwrap_or_default().to_string_lossy().into();
        match (self.slot)(&mut config.clone()) {
            Slot::Int(value) => {
                self.name_of(*value).map_or_else(|| value.to_string(), str::to_owned)
            }
            Slot::Float(value) => value.to_string(),
            Slot::Double(value) | Slot::Bandwidth(value) => value.to_string(),
            Slot::Bytes(value) => value.to_string(),
            Slot::Text(value) => text(*value),
            Slot::Path(value) => text(value.cast_const()),
        }
    }

    /// Returns the key's default value; empty if it has none.
    pub fn default_value(&self) -> String {
        // SAFETY: the strings of the default configuration are NULL.
        unsafe { self.value_of(&DEFAULT) }
    }
}

fn fold(byte: u8) -> u8 {
    match byte {
        b'-' => b'_',
        byte => byte.to_ascii_lowercase(),
    }
}
