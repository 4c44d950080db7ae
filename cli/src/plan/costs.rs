//! The options that give the costs of steps, copies and snapshots, and the memory.

use super::hardware::{gpus, Gpu, NVME, NVME_SOURCE};
use super::survey::Survey;
use crate::codec::types;
use crate::options::{at_least_one, refuse};
use crate::units::{seconds, size};
use clap::Args;
use gpuzip::choice::{storage_options, Coded, Cut, Job, State, Storage, TierSpec};
use gpuzip::codec::{Method, Settings, CODECS};
use gpuzip::config::{Backend, Config};
use gpuzip::error::{Code, Error, Result};
use gpuzip::layout::{Field, Layout, MAX_FIELDS};
use gpuzip::plan::SPARE_SLOTS;
use gpuzip::predict::{Budgets, CodecProfile, Profile};
use gpuzip::scalar::Scalar;
use gpuzip::schedule::MacroSteps;
use gpuzip::tier::staging_bytes;
use gpuzip::together::{why, Mode};
use serde_json::{json, Value};
use std::fmt;
use std::path::{Path, PathBuf};

/// Costs and budgets. What is not given is the profile's, or what the library assumes of a GPU
/// behind PCIe 4, or of one core of a CPU if no option names a device.
#[derive(Args)]
#[command(
    next_help_heading = "Costs and budgets (predict times, and without --algorithm find the best plan)",
    group = clap::ArgGroup::new("ratios").multiple(true)
)]
pub struct CostOptions {
    /// Bytes of a state; K, M, G and T are powers of 1024, kB, MB, GB and TB of 1000
    #[arg(long, value_name = "BYTES", value_parser = bytes, group = "state", allow_hyphen_values = true)]
    state_bytes: Option<u64>,
    /// The fields of a state in place of its bytes: extents, fastest first, and before a * how many fields
    /// have them; 2*400x400x400,400x400
    #[arg(long, value_name = "[COUNT*]N1[xN2[xN3]],...", value_parser = extents, group = "state", allow_hyphen_values = true)]
    fields: Option<Extents>,
    /// Type of the values of --fields
    #[arg(long = "type", requires = "fields", conflicts_with_all = ["state_bytes", "profile"], default_value = "f32", value_parser = types())]
    scalar: Scalar,
    /// What an application has measured, the file of its profile_path: steps, copies, codecs and
    /// bytes of a state
    #[arg(long, value_name = "FILE", group = "state")]
    profile: Option<PathBuf>,
    /// Milliseconds of a forward step
    #[arg(long, value_name = "MS", requires = "state", value_parser = positive, allow_hyphen_values = true)]
    forward_ms: Option<f64>,
    /// Milliseconds of a backward step; as a forward step if only that is given
    #[arg(long, value_name = "MS", requires = "state", value_parser = positive, allow_hyphen_values = true)]
    backward_ms: Option<f64>,
    /// Milliseconds of the steps where they vary: a line for each of at most 4096 parts of equal length
    /// of the sweep, with the time of a forward and of a backward step
    #[arg(long, value_name = "FILE", requires = "state", conflicts_with_all = ["forward_ms", "backward_ms"])]
    step_ms: Option<PathBuf>,
    /// The GPU: speeds of steps, of copies within the device and of the link that are not given
    #[arg(long, requires = "state", conflicts_with = "profile", value_parser = gpus())]
    gpu: Option<&'static Gpu>,
    /// GB/s of the link: both ways, or to the device and to the host
    #[arg(long, value_name = "GB/S[,GB/S]", requires = "state", value_parser = pair, allow_hyphen_values = true)]
    link_gbs: Option<Pair>,
    /// GB/s of both directions of the link together while snapshots move both ways; without it, as
    /// the profile has it, else each direction as fast as alone
    #[arg(long, value_name = "GB/S", requires = "state", value_parser = positive, allow_hyphen_values = true)]
    both_gbs: Option<f64>,
    /// GB/s of copies within the device
    #[arg(long, value_name = "GB/S", requires = "state", value_parser = positive, allow_hyphen_values = true)]
    d2d_gbs: Option<f64>,
    /// GB/s of the disk: both ways, or of reading and of writing
    #[arg(long, value_name = "GB/S[,GB/S]", requires = "state", value_parser = pair, allow_hyphen_values = true)]
    disk_gbs: Option<Pair>,
    /// The disk is so many NVMe drives; --disk-gbs gives other speeds
    #[arg(long, value_name = "DRIVES", requires = "disk_budget", value_parser = at_least_one, allow_hyphen_values = true)]
    nvme: Option<u32>,
    /// Bytes of device memory for snapshots
    #[arg(long, value_name = "BYTES", requires = "state", value_parser = bytes, allow_hyphen_values = true)]
    device_budget: Option<u64>,
    /// Bytes of host memory for snapshots. Without an option of a device (--gpu, --device-budget, --link-gbs,
    /// --both-gbs, --d2d-gbs, --cache, --links-per-node) or a GPU's profile, as with --cpu
    #[arg(long, value_name = "BYTES", requires = "state", value_parser = bytes, allow_hyphen_values = true)]
    host_budget: Option<u64>,
    /// The application runs on a CPU: --host-budget is all the memory for snapshots, and nothing crosses
    /// a link
    #[arg(long, requires = "host_budget", conflicts_with_all = ["gpu", "device_budget", "link_gbs", "both_gbs"])]
    cpu: bool,
    /// Bytes of disk for snapshots
    #[arg(long, value_name = "BYTES", requires = "state", value_parser = bytes, allow_hyphen_values = true)]
    disk_budget: Option<u64>,
    /// Bytes of a state that are the previous time level of its other fields; plans that keep it
    /// once (shared_levels) are ranked beside
    #[arg(long, value_name = "BYTES", requires = "state", value_parser = bytes, allow_hyphen_values = true)]
    shared_bytes: Option<u64>,
    /// Ratio of a codec, or the mean one and the worst one; plans for raw snapshots are ranked
    /// beside
    #[arg(long, value_name = "RATIO[,RATIO]", requires = "state", group = "ratios", value_parser = pair, allow_hyphen_values = true)]
    ratio: Option<Pair>,
    /// GB/s of the codec on raw bytes: both ways, or of compression and of decompression
    #[arg(long, value_name = "GB/S[,GB/S]", requires = "ratios", value_parser = pair, allow_hyphen_values = true)]
    codec_gbs: Option<Pair>,
    /// On a CPU: ratio of snapshots in a sequence (sequences = 1), where all states are kept; other plans are
    /// ranked beside
    #[arg(long, value_name = "RATIO", requires = "host_budget", group = "ratios", conflicts_with_all = ["gpu", "device_budget", "link_gbs", "both_gbs"], value_parser = positive, allow_hyphen_values = true)]
    sequence_ratio: Option<f64>,
    /// Plans for an application that computes in the slots (zero_copy): a SAVE or RESTORE copies
    /// nothing within the device
    #[arg(long, requires = "state")]
    pub zero_copy: bool,
    /// On a CPU: threads that code snapshots while the application computes (codec_threads), 0 to 64; without
    /// it the idle processors of the profile. Plans whose snapshots the application's thread codes are
    /// ranked beside
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=64), allow_hyphen_values = true)]
    codec_threads: Option<u32>,
}

/// Ranks that share their nodes' memory and links.
#[derive(Args)]
#[command(
    next_help_heading = "Surveys (budgets, link and disk are then a node's, --device-budget a rank's)"
)]
pub struct SurveyOptions {
    /// Ranks in all, one device each
    #[arg(long, value_name = "N", requires = "state", value_parser = at_least_one, allow_hyphen_values = true)]
    ranks: Option<u32>,
    /// Ranks of one node
    #[arg(long, value_name = "M", requires = "ranks", value_parser = at_least_one, allow_hyphen_values = true)]
    ranks_per_node: Option<u32>,
    /// Links of one node, each with --link-gbs
    #[arg(long, value_name = "L", requires = "ranks", value_parser = at_least_one, allow_hyphen_values = true)]
    links_per_node: Option<u32>,
    /// GB/s that a node's host memory reads and writes for all its ranks together; without it, each rank has
    /// enough
    #[arg(long, value_name = "GB/S", requires = "ranks_per_node", value_parser = positive, allow_hyphen_values = true)]
    host_gbs: Option<f64>,
    /// Shots of the survey
    #[arg(long, value_name = "K", requires = "ranks", value_parser = at_least_one, allow_hyphen_values = true)]
    shots: Option<u32>,
}

impl SurveyOptions {
    /// Returns the survey, if the options describe one.
    pub fn survey(&self) -> Option<Survey> {
        let ranks = self.ranks?;
        let (ranks_per_node, links_per_node) =
            (self.ranks_per_node.unwrap_or(1), self.links_per_node.unwrap_or(1));
        Some(Survey {
            ranks,
            ranks_per_node,
            links_per_node,
            host_gbs: self.host_gbs.unwrap_or(f64::INFINITY),
            shots: self.shots.unwrap_or(1).into(),
        })
    }
}

/// Two numbers. The second is usually left out and then equal to the first.
#[derive(Clone, Copy)]
struct Pair(f64, f64);

fn positive(text: &str) -> std::result::Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && !value.is_nan() => Ok(value),
        _ => Err("give a number greater than 0".into()),
    }
}

fn pair(text: &str) -> std::result::Result<Pair, String> {
    match text.split_once(',') {
        None => positive(text).map(|both| Pair(both, both)),
        Some((first, second)) => positive(first).and_then(|a| Ok(Pair(a, positive(second)?))),
    }
    .map_err(|_| "give one number greater than 0, or two with a comma between them".into())
}

/// The extents of each field of a state.
#[derive(Clone)]
struct Extents(Vec<[u64; 3]>);

/// Parses the extents of fields such as `2*400x400x400,400x400`.
fn extents(text: &str) -> std::result::Result<Extents, String> {
    let number = |text: &str| text.parse::<u64>().ok().filter(|&n| n > 0);
    let alike = |text: &str| {
        let (count, of_field) = text.split_once('*').unwrap_or(("1", text));
        let numbers = of_field.split('x').map(number).collect::<Option<Vec<u64>>>()?;
        let mut n = [1; 3];
        n.get_mut(..numbers.len())?.copy_from_slice(&numbers);
        Some((number(count)?, n))
    };
    let mut fields = Vec::new();
    for text in text.split(',') {
        let (count, n) = alike(text).ok_or("give for each field one to three extents with an x between them, all whole numbers from 1 on: 400x400x400; 2*400x400x400 stands for two such fields")?;
        let more = usize::try_from(count).ok().filter(|&count| count <= MAX_FIELDS - fields.len());
        let more = more.ok_or_else(|| format!("a state has at most {MAX_FIELDS} fields"))?;
        fields.extend(std::iter::repeat_n(n, more));
    }
    Ok(Extents(fields))
}

fn bytes(text: &str) -> std::result::Result<u64, String> {
    gpuzip::numbers::bytes(text).ok_or_else(|| BYTES.into())
}

/// How byte counts are written, on the command line and in a configuration.
const BYTES: &str = "give a number of bytes below 2^64: K, M, G, T and KiB to TiB are powers of 1024, kB to TB of 1000";

/// The speeds and the memory of one rank, and the ways to store its snapshots, for planning.
#[derive(Clone)]
pub struct Machine {
    pub profile: Profile,
    pub budgets: Budgets,
    pub state_bytes: u64,
    /// The codecs to consider besides raw snapshots.
    pub codecs: Vec<NamedCodec>,
    /// Most slots of the device cache.
    pub cache: Option<u32>,
    /// Whether the application works in the slots.
    pub zero_copy: bool,
    /// Threads that may code beside the application's; `None`: as the profile says.
    pub codec_threads: Option<u32>,
    /// Whether it runs on a CPU, with one memory and no link.
    pub cpu: bool,
    /// The profile that was given, if one was.
    pub measured: Option<Profile>,
    /// The file of the profile that was given, if one was.
    pub profile_file: Option<PathBuf>,
    /// Bytes of a state that its successor's snapshot has too: the shared time level; 0: none.
    pub previous_bytes: u64,
    /// The fields of a state, if they are told.
    pub layout: Option<Layout>,
    /// The macro-steps that a plan is for; `None`: its steps are time steps.
    pub macro_steps: Option<MacroSteps>,
    /// The time steps, if their number is known, joined to macro-steps or not.
    pub steps: Option<MacroSteps>,
    /// Reverse sweeps over the states of one forward phase.
    pub sweeps: u32,
    /// For each cost: its option, its value and the source of the value.
    pub origins: Vec<(&'static str, String, &'static str)>,
    /// The tiers for each way to store snapshots, as `gpuzip::choice::search` takes them.
    pub alternatives: Vec<Vec<TierSpec>>,
    /// How the snapshots of each alternative are stored.
    pub ways: Vec<Way>,
}

/// The figures of a codec, measured or told by `--ratio`, and its name in tables.
#[derive(Clone)]
pub struct NamedCodec {
    pub name: String,
    pub figures: CodecProfile,
    /// Whether the figures are told. Slots then hold snapshots of the worst ratio that is told, without
    /// the margin for those that were not measured.
    pub is_told: bool,
}

/// A way to store snapshots: a storage option of the library, and the codec if it has one.
#[derive(Clone)]
pub struct Way {
    pub cut: Cut,
    pub coded: Coded,
    pub codec: Option<NamedCodec>,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.codec.as_ref().map_or("raw", |codec| &codec.name);
        let more = match (self.cut, self.coded) {
            (Cut::Levels, _) => ", shared",
            (Cut::Whole, Coded::Moved(_)) => ", mixed",
            (Cut::Whole, Coded::ByLanes(_)) => ", by threads",
            (Cut::Whole, _) => "",
        };
        f.pad(&format!("{name}{more}"))
    }
}

impl CostOptions {
    /// Whether any of these options was given.
    pub fn are_given(&self) -> bool {
        self.state_bytes.is_some() || self.fields.is_some() || self.profile.is_some()
    }

    /// Returns the speeds and the memory of one rank.
    pub fn machine(
        &self,
        cache: Option<u32>,
        survey: Option<Survey>,
        (steps, sweeps): (Option<MacroSteps>, u32),
    ) -> Result<Machine> {
        let macro_steps = steps.filter(|steps| steps.every() > 1);
        let measured = self.profile.as_deref().map(read_profile).transpose()?;
        let of_profile = measured.as_ref().map(|profile| profile.state_bytes);
        let layout = self.layout()?;
        let of_fields = layout.as_ref().map(|layout| layout.slot_bytes);
        let state_bytes = self.state_bytes.or(of_fields).or(of_profile).unwrap_or(0);
        if state_bytes == 0 {
            return refuse("--state-bytes 0: a state has at least one byte".into());
        }
        let origin_of_cpu = self.origin_of_cpu(cache, survey, measured.as_ref());
        let cpu = origin_of_cpu.is_some();
        if self.sequence_ratio.is_some() && !cpu {
            return refuse(
                "--sequence-ratio: snapshots in a sequence are for codes on a CPU: give --cpu, or leave it out"
                    .into(),
            );
        }
        let in_sequence = self.sequence_ratio.filter(|_| sweeps > 1);
        if let Some(why) = in_sequence.and_then(|_| why([Mode::Sequences, Mode::Sweeps])) {
            return refuse(format!(
                "--sweeps {sweeps} with --sequence-ratio: {why}; leave out one"
            ));
        }
        let device = match (self.device_budget, cache, self.host_budget) {
            (_, Some(0), _) => 0,
            (Some(bytes), ..) => bytes,
            (None, Some(slots), _) => {
                let spare = if self.zero_copy { SPARE_SLOTS } else { 0 };
                state_bytes.saturating_mul(u64::from(slots) + u64::from(spare))
            }
            (None, None, Some(_)) => 0,
            (None, None, None) => return refuse(no_budgets()),
        };
        if let Some(bytes) = self.shared_bytes.filter(|&bytes| bytes == 0 || bytes >= state_bytes) {
            return refuse(format!(
                "--shared-bytes {bytes}: a part of the {state_bytes} bytes of a state"
            ));
        }
        let budgets = Budgets {
            device,
            host: self.host_budget.unwrap_or(0),
            disk: self.disk_budget.unwrap_or(0),
        };
        let codecs = self.codecs(measured.as_ref(), cpu);
        let is_measured = measured.is_some();
        let profile = self.speeds(measured.clone(), state_bytes, cpu)?;
        Profile {
            codecs: codecs.iter().map(|codec| codec.figures.clone()).collect(),
            ..profile.clone()
        }
        .check()?;
        let mut origins = self.origins(&profile, is_measured, cpu);
        if self.fields.is_some() {
            let of_values =
                "the bytes of a state: --fields of --type, each in whole units of 256 bytes";
            origins.push(("--state-bytes", state_bytes.to_string(), of_values));
        }
        origins.extend(origin_of_cpu.map(|source| ("--cpu", "one memory, no link".into(), source)));
        let (profile, budgets) = match survey {
            Some(survey) => survey.share(&profile, budgets, cpu),
            None => (profile, budgets),
        };
        let budgets = if cpu { of_cpu(budgets, state_bytes, self.zero_copy) } else { budgets };
        if budgets.device == 0 && budgets.host == 0 {
            return refuse(no_budgets());
        }
        let machine = Machine {
            profile,
            budgets,
            state_bytes,
            codecs,
            cache,
            zero_copy: self.zero_copy,
            codec_threads: self.codec_threads,
            cpu,
            measured,
            profile_file: self.profile.clone(),
            previous_bytes: self.shared_bytes.unwrap_or(0),
            layout,
            steps,
            macro_steps,
            sweeps,
            origins,
            alternatives: Vec::new(),
            ways: Vec::new(),
        };
        machine.with(budgets, cache)
    }

    /// The layout of a state whose fields are told, as a session places them in a snapshot.
    fn layout(&self) -> Result<Option<Layout>> {
        let Some(Extents(fields)) = &self.fields else { return Ok(None) };
        let field = |n: &[u64; 3]| Field { n: *n, scalar: self.scalar, previous_of: None };
        match Layout::new(fields.iter().map(field).collect()) {
            Ok(layout) => Ok(Some(layout)),
            Err(error) => refuse(format!("--fields: {error}: give smaller extents")),
        }
    }

    /// Where it comes from that the application runs on a CPU with one memory; `None`: it has a device. An
    /// option that has a meaning only for a device says that there is one; a profile was measured on one or
    /// the other.
    fn origin_of_cpu(
        &self,
        cache: Option<u32>,
        survey: Option<Survey>,
        measured: Option<&Profile>,
    ) -> Option<&'static str> {
        let speeds = [self.both_gbs, self.d2d_gbs];
        let has_device = self.gpu.is_some()
            || self.device_budget.is_some()
            || self.link_gbs.is_some()
            || speeds.iter().any(Option::is_some)
            || cache.is_some()
            || survey.is_some_and(|survey| survey.links_per_node > 1);
        match measured {
            _ if self.cpu => Some("given"),
            _ if has_device => None,
            Some(profile) => (profile.backend == 1).then_some("from the profile"),
            None => Some("assumed: no option names a device, such as --gpu"),
        }
    }

    fn speeds(&self, measured: Option<Profile>, state_bytes: u64, cpu: bool) -> Result<Profile> {
        let known = match measured {
            Some(profile) => {
                let scale = profile.scale(state_bytes);
                Profile {
                    state_bytes,
                    forward_ms: profile.forward_ms * scale,
                    backward_ms: profile.backward_ms * scale,
                    steps: profile.steps.iter().map(|part| part.map(|ms| ms * scale)).collect(),
                    ..profile
                }
            }
            None => match self.gpu {
                Some(gpu) => gpu.profile(state_bytes),
                None => Profile::typical(cpu, state_bytes, 0.0),
            },
        };
        let known = if cpu { Profile { backend: 1, ..known } } else { known };
        let forward_ms = self.forward_ms.unwrap_or(known.forward_ms);
        let backward = self.forward_ms.map_or(known.backward_ms, |_| forward_ms);
        let link = self.link_gbs.unwrap_or(Pair(known.h2d_gbs, known.d2h_gbs));
        let both_gbs = self.both_gbs.unwrap_or_else(|| match self.link_gbs {
            Some(Pair(up, down)) => known.both_gbs_of(up, down),
            None => known.both_gbs,
        });
        let of_drives = |drives| Pair(NVME.0 * f64::from(drives), NVME.1 * f64::from(drives));
        let disk = self.disk_gbs.or(self.nvme.map(of_drives));
        let disk = disk.unwrap_or(Pair(known.disk_read_gbs, known.disk_write_gbs));
        let is_given = self.forward_ms.or(self.backward_ms).is_some();
        let steps = match &self.step_ms {
            Some(file) => read_steps(file)?,
            None if is_given => Vec::new(),
            None => known.steps.clone(),
        };
        let profile = Profile {
            forward_ms,
            backward_ms: self.backward_ms.unwrap_or(backward),
            h2d_gbs: link.0,
            d2h_gbs: link.1,
            both_gbs,
            d2d_gbs: self.d2d_gbs.unwrap_or(known.d2d_gbs),
            disk_read_gbs: disk.0,
            disk_write_gbs: disk.1,
            ..known
        };
        profile.with_steps(&steps, state_bytes)
    }

    /// Lists every cost with its source: given, measured or assumed.
    fn origins(
        &self,
        profile: &Profile,
        is_measured: bool,
        cpu: bool,
    ) -> Vec<(&'static str, String, &'static str)> {
        let otherwise = match (is_measured, cpu) {
            (true, _) => "from the profile",
            (false, true) => "assumed: one core of a CPU",
            (false, false) if self.gpu.is_some() => "by --gpu",
            (false, false) => "assumed: a GPU behind PCIe 4",
        };
        let source = |given: bool| if given { "given" } else { otherwise };
        let both = |a: f64, b: f64| {
            if a == b {
                format!("{a} GB/s both ways")
            } else {
                format!("{a} and {b} GB/s")
            }
        };
        let forward = match self.step_ms {
            Some(_) => "the mean of --step-ms",
            None => source(self.forward_ms.is_some()),
        };
        let backward = match (self.backward_ms, self.forward_ms) {
            _ if self.step_ms.is_some() => "the mean of --step-ms",
            (None, Some(_)) => "taken from --forward-ms",
            (given, _) => source(given.is_some()),
        };
        let milliseconds = |ms: f64| seconds(ms / 1e3);
        let d2d = match self.zero_copy {
            true => "not copied".into(),
            false => format!("{} GB/s", profile.d2d_gbs),
        };
        let mut origins = vec![
            ("--forward-ms", milliseconds(profile.forward_ms), forward),
            ("--backward-ms", milliseconds(profile.backward_ms), backward),
            ("--link-gbs", both(profile.h2d_gbs, profile.d2h_gbs), source(self.link_gbs.is_some())),
            (
                "--d2d-gbs",
                d2d,
                if self.zero_copy { "zero copy" } else { source(self.d2d_gbs.is_some()) },
            ),
        ];
        origins.extend(self.gpu.map(|gpu| ("--gpu", gpu.name.into(), gpu.source)));
        if cpu {
            origins.retain(|(option, ..)| *option != "--link-gbs");
        } else if profile.both_gbs > 0.0 {
            let source = match (self.both_gbs, self.link_gbs) {
                (None, Some(_)) => {
                    "taken from --link-gbs: the directions take turns in the profile"
                }
                (given, _) => source(given.is_some()),
            };
            origins.insert(3, ("--both-gbs", format!("{} GB/s", profile.both_gbs), source));
        }
        if self.disk_budget.is_some() || self.disk_gbs.is_some() {
            let speeds = both(profile.disk_read_gbs, profile.disk_write_gbs);
            let source = match (self.disk_gbs, self.nvme) {
                (Some(_), _) => "given",
                (None, Some(_)) => NVME_SOURCE,
                (None, None) => "assumed",
            };
            origins.push(("--disk-gbs", speeds, source));
        }
        if self.ratio.or(self.sequence_ratio.map(|ratio| Pair(ratio, ratio))).is_some() {
            let Pair(compress, decompress) = self.codec_gbs.unwrap_or_else(|| typical_codec(cpu));
            origins.push((
                "--codec-gbs",
                both(compress, decompress),
                if self.codec_gbs.is_some() { "given" } else { "assumed" },
            ));
        }
        origins
    }

    /// Lists the codec that the options describe and the codecs that were measured.
    fn codecs(&self, measured: Option<&Profile>, cpu: bool) -> Vec<NamedCodec> {
        let described = self.ratio.map(|Pair(ratio, worst_ratio)| {
            let typical = CodecProfile::typical(0, ratio, cpu);
            let Pair(compress_gbs, decompress_gbs) =
                self.codec_gbs.unwrap_or_else(|| typical_codec(cpu));
            let name = format!("ratio {ratio}");
            let figures = CodecProfile { compress_gbs, decompress_gbs, worst_ratio, ..typical };
            NamedCodec { name, figures, is_told: true }
        });
        let in_sequence = self.sequence_ratio.map(|ratio| {
            let Pair(compress_gbs, decompress_gbs) =
                self.codec_gbs.unwrap_or_else(|| typical_codec(cpu));
            let typical = CodecProfile::typical(0, ratio, cpu);
            let compressor = Method::Dct.number().into();
            let figures = CodecProfile { compress_gbs, decompress_gbs, compressor, ..typical };
            let figures = CodecProfile { sequences: true, ..figures };
            let name = format!("sequence {ratio}");
            NamedCodec { name, figures, is_told: true }
        });
        let named = |codec: &CodecProfile| {
            let own = CODECS.iter().find(|own| i32::from(own.number) == codec.compressor);
            let name = own.map_or_else(
                || format!("compressor {}", codec.compressor),
                |own| own.name.to_string(),
            );
            let name = if codec.bound > 0.0 { format!("{name} {}", codec.bound) } else { name };
            let name = if codec.sequences { format!("{name} in sequence") } else { name };
            NamedCodec { name, figures: codec.clone(), is_told: false }
        };
        described
            .into_iter()
            .chain(in_sequence)
            .chain(measured.into_iter().flat_map(|profile| &profile.codecs).map(named))
            .collect()
    }
}

/// The speeds of a codec that is not measured.
fn typical_codec(cpu: bool) -> Pair {
    let typical = CodecProfile::typical(0, 1.0, cpu);
    Pair(typical.compress_gbs, typical.decompress_gbs)
}

/// The budgets of a session on a CPU, whose main memory is its device memory; with a disk, some of it is
/// for staging buffers and for two states that come from disk. Where too little is left for the device, the
/// session has the host budget alone, and divides it.
pub(super) fn of_cpu(
    Budgets { host: all, disk, .. }: Budgets,
    state_bytes: u64,
    zero_copy: bool,
) -> Budgets {
    let for_disk = staging_bytes(state_bytes).saturating_add(2 * state_bytes.min(u64::MAX / 2));
    let spare = if zero_copy { SPARE_SLOTS } else { 0 };
    let least = state_bytes.saturating_mul(u64::from(spare) + 1);
    match all.checked_sub(if disk > 0 { for_disk } else { 0 }) {
        Some(device) if device >= least => Budgets { device, host: all - device, disk },
        _ => Budgets { device: 0, host: all, disk },
    }
}

fn read_profile(file: &Path) -> Result<Profile> {
    let bytes = gpuzip::files::read(file, gpuzip::files::LARGEST_PROFILE)
        .map_err(|e| Error::new(Code::Io, format!("--profile {}: {e}", file.display())))?;
    Profile::from_bytes(&bytes).map_err(|e| e.within(format_args!("--profile {}", file.display())))
}

/// Reads the milliseconds of a forward and of a backward step in each part of the sweep.
fn read_steps(file: &Path) -> Result<Vec<[f64; 2]>> {
    let of =
        |message: String| Error::new(Code::Io, format!("--step-ms {}: {message}", file.display()));
    let bytes =
        gpuzip::files::read(file, gpuzip::files::LARGEST_PROFILE).map_err(|e| of(e.to_string()))?;
    let text = std::str::from_utf8(&bytes).map_err(|_| of("it is no text".into()))?;
    let mut steps = Vec::new();
    for (k, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let numbers: Vec<f64> =
            line.split_whitespace().map_while(|word| word.parse().ok()).collect();
        match numbers[..] {
            [forward, backward]
                if line.split_whitespace().count() == 2
                    && [forward, backward].iter().all(|ms| *ms > 0.0 && ms.is_finite()) =>
            {
                steps.push([forward, backward])
            }
            _ => {
                return Err(of(format!(
                    "line {}: two numbers greater than 0 are expected, the milliseconds of a forward and of a backward step",
                    k + 1
                )))
            }
        }
    }
    if steps.is_empty() {
        return Err(of("it has no lines".into()));
    }
    Ok(steps)
}

/// Returns the error text for missing budgets: what a session does without budgets, and that this
/// command needs budgets, since it may run on another machine than the session.
fn no_budgets() -> String {
    let taken = gpuzip::available::host()
        .map_or(String::new(), |free| format!(", {} on this one now", size(free.bytes / 2)));
    format!(
        "how much memory is there for snapshots? give --device-budget or --host-budget, or --cache; a session without budgets takes at most half \
         of the memory that is free on its machine{taken}"
    )
}

impl Machine {
    /// Returns this machine with other budgets and another limit for the slots of the device cache.
    /// The ways to store snapshots are those of sessions: without a codec, with each codec, and with
    /// each codec and mixed storage, if there is room for their snapshots.
    pub fn with(mut self, budgets: Budgets, cache: Option<u32>) -> Result<Machine> {
        (self.budgets, self.cache) = (budgets, cache);
        (self.alternatives, self.ways) = (Vec::new(), Vec::new());
        self.add(storage_options(&self.job(None, false))?, None);
        // On a CPU all memory is the device's without the disk, which then is no loss.
        if self.cpu && budgets.disk > 0 && budgets.device > 0 {
            let device = budgets.device.saturating_add(budgets.host);
            let whole = Machine { budgets: Budgets { device, host: 0, disk: 0 }, ..self.clone() };
            self.add(storage_options(&whole.job(None, false))?, None);
        }
        for codec in self.codecs.clone() {
            let in_sequence = codec.figures.sequences;
            for is_mixed in [false, true].into_iter().filter(|mixed| !(*mixed && in_sequence)) {
                match storage_options(&self.job(Some(&codec), is_mixed)) {
                    // A session with compressor = auto leaves out what does not fit, too.
                    Err(error) if error.code == Code::Budget => {}
                    options => self.add(options?, Some(&codec)),
                }
            }
        }
        Ok(self)
    }

    fn add(&mut self, options: Vec<TierSpec>, codec: Option<&NamedCodec>) {
        let in_sequence = codec.is_some_and(|codec| codec.figures.sequences);
        for tiers in options.into_iter().filter(|t| t.storage.codec.sequences == in_sequence) {
            let Storage { cut, coded, .. } = tiers.storage;
            self.ways.push(Way { cut, coded, codec: codec.cloned() });
            self.alternatives.push(vec![match self.steps {
                Some(steps) => tiers.in_macro_steps(steps),
                None => tiers,
            }]);
        }
    }

    /// Says from where a session has these costs. `is_written`: this command writes them to a file.
    pub fn costs_of_session(&self, is_written: bool) -> &'static str {
        let is_profile = |other: &Profile| {
            self.profile == Profile { backend: self.profile.backend, ..other.clone() }
        };
        let is_typical = |NamedCodec { figures, is_told, .. }: &NamedCodec| {
            *is_told && *figures == CodecProfile::typical(0, figures.ratio, self.cpu)
        };
        if is_written || self.measured.as_ref().is_some_and(is_profile) {
            "It has these costs from the profile_path below."
        } else if is_profile(&Profile::typical(self.cpu, self.state_bytes, 0.0))
            && self.codecs.iter().all(is_typical)
        {
            "Without a profile it assumes these costs."
        } else {
            "Without a profile it assumes others: --profile-out FILE writes these, for profile_path."
        }
    }

    /// The number of threads that may code beside the application's.
    pub fn threads(&self) -> u32 {
        self.job(None, false).codec_threads()
    }

    /// Returns the job of a session on this machine that compresses by `codec`.
    fn job(&self, codec: Option<&NamedCodec>, is_mixed: bool) -> Job {
        let mut profile = Profile { codecs: Vec::new(), ..self.profile.clone() };
        let may_lanes_code = self.codec_threads.map_or(profile.idle_processors > 0.0, |n| n > 0);
        let config = Config::default().with(|c| {
            c.schedule.sweeps = self.sweeps;
            c.tiers.cache = self.cache.filter(|_| self.budgets.device > 0).unwrap_or(0);
            c.tiers.device_budget = self.budgets.device;
            c.tiers.host_budget = self.budgets.host;
            c.tiers.disk_budget = self.budgets.disk;
            c.tiers.zero_copy = self.zero_copy;
            c.tiers.shared_levels = self.previous_bytes > 0;
            c.codec.threads = self.codec_threads;
            // Lanes code where nothing is said of mixed storage, which a codec that is named leaves out.
            let is_said = is_mixed || !may_lanes_code;
            c.tiers.mixed_storage = is_said.then_some(is_mixed);
            c.device.backend = if profile.backend == 1 { Backend::Host } else { Backend::Cuda };
            // A device on the host backend that is no CPU is behind a link.
            c.device.link_bandwidth = if self.cpu { 0.0 } else { profile.h2d_gbs * 1e9 };
            if let Some(NamedCodec { figures, is_told, .. }) = codec {
                // A codec that is not gpuzip's own counts as one that keeps a bound, as Lorenzo does.
                let own = Method::of_number(figures.compressor).filter(|own| *own != Method::None);
                let sequences = figures.sequences;
                let method = if sequences { Method::Dct } else { own.unwrap_or(Method::Lorenzo) };
                c.codec.settings = Settings { sequences, ..Settings::default().with(method) };
                c.codec.compression_factor = if *is_told { figures.worst_ratio } else { 0.0 };
                // The figures hold for all settings of the codec.
                profile.codecs = vec![CodecProfile {
                    compressor: c.codec.settings.method.number().into(),
                    parameter: 0,
                    bound_mode: 0,
                    bound: 0.0,
                    sequences,
                    ..figures.clone()
                }];
            }
            c.device.profile = Some(profile);
        });
        let state = match &self.layout {
            // Which fields are time levels is not told.
            Some(layout) if self.previous_bytes == 0 => State::Fields(layout.clone()),
            _ => State::Bytes { all: self.state_bytes, previous: self.previous_bytes },
        };
        Job::new(config, state)
    }

    /// Returns one line for each cost: its name, its value and its source.
    pub fn costs_lines(&self) -> Vec<String> {
        self.origins
            .iter()
            .map(|(option, value, source)| format!("{option:13} {value:22} {source}"))
            .collect()
    }

    /// Returns the costs with their values and sources as JSON.
    pub fn costs_json(&self) -> Value {
        let cost = |(option, value, source): &(&str, String, &str)| {
            (option.to_string(), json!({"value": value, "source": source}))
        };
        Value::Object(self.origins.iter().map(cost).collect())
    }
}
