//! The options that say what steps, copies and snapshots cost, and what memory there is.

use crate::options::refuse;
use clap::Args;
use gpuzip::error::Result;
use gpuzip::plan::{Budgets, CodecProfile, Profile, Sizes, Survey};

/// Costs and budgets. What is not given is what the library assumes of a GPU behind PCIe 4.
#[derive(Args)]
#[command(next_help_heading = "Costs and budgets (predict times, and without --algorithm find the best plan)")]
pub struct CostOptions {
    /// Bytes of a state; K, M, G and T are powers of 1024
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub state_bytes: Option<u64>,
    /// Milliseconds of a forward step
    #[arg(long, value_name = "MS", requires = "state_bytes", value_parser = positive)]
    forward_ms: Option<f64>,
    /// Milliseconds of a backward step; as a forward step if only that is given
    #[arg(long, value_name = "MS", requires = "state_bytes", value_parser = positive)]
    backward_ms: Option<f64>,
    /// GB/s of the link: both ways, or to the device and to the host
    #[arg(long, value_name = "GB/S[,GB/S]", requires = "state_bytes", value_parser = pair)]
    link_gbs: Option<Pair>,
    /// GB/s of copies within the device
    #[arg(long, value_name = "GB/S", requires = "state_bytes", value_parser = positive)]
    d2d_gbs: Option<f64>,
    /// GB/s of the disk: both ways, or of reading and of writing
    #[arg(long, value_name = "GB/S[,GB/S]", requires = "state_bytes", value_parser = pair)]
    disk_gbs: Option<Pair>,
    /// Bytes of device memory for snapshots
    #[arg(long, value_name = "BYTES", requires = "state_bytes", value_parser = bytes)]
    device_budget: Option<u64>,
    /// Bytes of host memory for snapshots
    #[arg(long, value_name = "BYTES", requires = "state_bytes", value_parser = bytes)]
    host_budget: Option<u64>,
    /// Bytes of disk for snapshots
    #[arg(long, value_name = "BYTES", requires = "state_bytes", value_parser = bytes)]
    disk_budget: Option<u64>,
    /// Ratio of a codec, or the mean one and the worst one; plans for raw snapshots are ranked beside
    #[arg(long, value_name = "RATIO[,RATIO]", requires = "state_bytes", value_parser = pair)]
    ratio: Option<Pair>,
    /// GB/s of the codec on raw bytes: both ways, or of compression and of decompression
    #[arg(long, value_name = "GB/S[,GB/S]", requires = "ratio", value_parser = pair)]
    codec_gbs: Option<Pair>,
}

/// Ranks that share their nodes' memory and links.
#[derive(Args)]
#[command(next_help_heading = "Surveys (budgets, link and disk are then a node's, --device-budget a rank's)")]
pub struct SurveyOptions {
    /// Ranks in all, one device each
    #[arg(long, value_name = "N", requires = "state_bytes", value_parser = clap::value_parser!(u32).range(1..))]
    ranks: Option<u32>,
    /// Ranks of one node
    #[arg(long, value_name = "M", requires = "ranks", value_parser = clap::value_parser!(u32).range(1..))]
    ranks_per_node: Option<u32>,
    /// Links of one node, each with --link-gbs
    #[arg(long, value_name = "L", requires = "ranks", value_parser = clap::value_parser!(u32).range(1..))]
    links_per_node: Option<u32>,
    /// Shots of the survey
    #[arg(long, value_name = "K", requires = "ranks", value_parser = clap::value_parser!(u64).range(1..))]
    shots: Option<u64>,
}

impl SurveyOptions {
    /// The survey, if one is described.
    pub fn survey(&self) -> Option<Survey> {
        let ranks = self.ranks?;
        let (ranks_per_node, links_per_node) = (self.ranks_per_node.unwrap_or(1), self.links_per_node.unwrap_or(1));
        Some(Survey { ranks, ranks_per_node, links_per_node, shots: self.shots.unwrap_or(1) })
    }
}

/// Two numbers that are usually one.
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
        Some((first, second)) => Ok(Pair(positive(first)?, positive(second)?)),
    }
}

fn bytes(text: &str) -> std::result::Result<u64, String> {
    let digits = text.trim_end_matches(['K', 'M', 'G', 'T']);
    let shift = match &text[digits.len()..] {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err("give a number of bytes and K, M, G or T".into()),
    };
    let number: u64 = digits.parse().map_err(|_| "give a whole number of bytes and K, M, G or T")?;
    number.checked_shl(shift).filter(|bytes| bytes >> shift == number).ok_or_else(|| "is more than 64 bits hold".into())
}

/// What there is to plan with: a rank's speeds and memory.
#[derive(Clone)]
pub struct Machine {
    pub profile: Profile,
    pub budgets: Budgets,
    pub state_bytes: u64,
    pub codec: Option<CodecProfile>,
    /// Device slots, at most.
    pub cache: Option<u32>,
}

impl CostOptions {
    /// The machine of one rank.
    pub fn machine(&self, state_bytes: u64, cache: Option<u32>, survey: Option<Survey>) -> Result<Machine> {
        if state_bytes == 0 {
            return refuse("--state-bytes 0: a state has at least one byte".into());
        }
        let device = match (self.device_budget, cache) {
            (Some(bytes), _) => bytes,
            (None, Some(slots)) => state_bytes.saturating_mul(slots as u64),
            (None, None) => return refuse("how much memory is there for snapshots? give --device-budget, or --cache".into()),
        };
        let budgets = Budgets { device, host: self.host_budget.unwrap_or(0), disk: self.disk_budget.unwrap_or(0) };
        let profile = self.profile(state_bytes);
        let (profile, budgets) = survey.map_or_else(|| (profile.clone(), budgets), |survey| survey.share(&profile, budgets));
        Ok(Machine { profile, budgets, state_bytes, codec: self.codec(), cache })
    }

    fn profile(&self, state_bytes: u64) -> Profile {
        let typical = Profile::typical_gpu(state_bytes);
        let forward_ms = self.forward_ms.unwrap_or(typical.forward_ms);
        let backward = self.forward_ms.map_or(typical.backward_ms, |_| forward_ms);
        let link = self.link_gbs.unwrap_or(Pair(typical.h2d_gbs, typical.d2h_gbs));
        let disk = self.disk_gbs.unwrap_or(Pair(typical.disk_read_gbs, typical.disk_write_gbs));
        Profile {
            forward_ms,
            backward_ms: self.backward_ms.unwrap_or(backward),
            h2d_gbs: link.0,
            d2h_gbs: link.1,
            d2d_gbs: self.d2d_gbs.unwrap_or(typical.d2d_gbs),
            disk_read_gbs: disk.0,
            disk_write_gbs: disk.1,
            ..typical
        }
    }

    fn codec(&self) -> Option<CodecProfile> {
        let Pair(ratio, worst_ratio) = self.ratio?;
        let typical = CodecProfile::typical(0, ratio, false);
        let Pair(compress_gbs, decompress_gbs) = self.codec_gbs.unwrap_or(Pair(typical.compress_gbs, typical.decompress_gbs));
        Some(CodecProfile { compress_gbs, decompress_gbs, worst_ratio, ..typical })
    }
}

impl Machine {
    /// The tiers for raw snapshots and, if there is a codec, for compressed ones.
    pub fn alternatives(&self) -> Vec<Vec<Sizes>> {
        let codecs = std::iter::once(None).chain(self.codec.as_ref().map(Some));
        codecs.map(|codec| vec![self.sizes(codec)]).collect()
    }

    fn sizes(&self, codec: Option<&CodecProfile>) -> Sizes {
        let mut sizes = Sizes::filling(self.budgets, &self.profile, self.state_bytes, codec);
        sizes.cache = sizes.cache.map(|slots| slots.min(self.cache.unwrap_or(u32::MAX)));
        sizes
    }

    /// What snapshots are in an alternative.
    pub fn stored(&self, alternative: usize) -> String {
        match &self.codec {
            Some(codec) if alternative > 0 => format!("ratio {}", codec.ratio),
            _ => "raw".into(),
        }
    }
}
