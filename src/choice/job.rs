//! What is found out about a job, beside its configuration.

use crate::codec::{Method, Settings, SnapshotCodec};
use crate::config::{Backend, Config, MOST_THREADS};
use crate::error::Result;
use crate::layout::{aligned, Layout};
use crate::predict::Profile;
use crate::tier::{SnapshotCoder, Sums};
use std::sync::Arc;

/// What the planner knows of a state.
#[derive(Clone, Debug)]
pub enum State {
    /// The fields of an application.
    Fields(Layout),
    /// The bytes of a state whose fields are not known: codecs are assumed to code all of them, in
    /// no device memory of their own.
    Bytes {
        /// Bytes of the whole state.
        all: u64,
        /// Bytes of the fields that are the previous time level of other fields.
        previous: u64,
    },
}

impl State {
    /// Returns the bytes of a raw snapshot.
    pub fn bytes(&self) -> u64 {
        match self {
            State::Fields(layout) => layout.slot_bytes,
            State::Bytes { all, .. } => *all,
        }
    }

    /// Returns the bytes of the time level and of the previous one, and how many fields have both; `None`
    /// if there is no time level to share.
    fn levels(&self) -> Option<([u64; 2], usize)> {
        match self {
            State::Fields(layout) => {
                let levels = layout.by_level()?;
                Some(([levels.parts[0].bytes, levels.parts[1].bytes], levels.previous.len()))
            }
            State::Bytes { all, previous } => Some(([all.saturating_sub(*previous), *previous], 1)),
        }
    }

    /// Returns the bytes of a slot for one record of a state that is cut into its time levels: those of
    /// the larger one.
    pub(super) fn level_bytes(&self) -> u64 {
        self.levels().map_or(self.bytes(), |(bytes, _)| bytes[0].max(bytes[1]).max(1))
    }

    /// Returns the bytes of the fields that are the previous time level of other fields; 0 if there
    /// is no time level to share.
    pub(super) fn previous_bytes(&self) -> u64 {
        self.levels().map_or(0, |(bytes, _)| bytes[1])
    }

    /// Returns the bytes of device memory in which a GPU compares levels.
    pub(super) fn sums_bytes(&self) -> u64 {
        self.levels().map_or(0, |(_, shared)| Sums::bytes_on_gpu(shared))
    }

    /// Returns the bytes of device memory that kernels of a codec work in.
    pub(super) fn coder_bytes(&self, codec: &Settings) -> Result<u64> {
        match self {
            State::Fields(layout) => SnapshotCoder::gpu_bytes(codec, layout),
            State::Bytes { .. } => Ok(0),
        }
    }

    /// Returns the most bytes of a compressed snapshot.
    pub(super) fn most_coded_bytes(&self) -> u64 {
        aligned(match self {
            State::Fields(layout) => SnapshotCodec::max_bytes(layout),
            State::Bytes { all, .. } => *all,
        })
    }

    /// Returns the bytes of the values that no codec codes.
    pub(super) fn uncoded_bytes(&self) -> u64 {
        match self {
            State::Fields(layout) => SnapshotCodec::uncoded_bytes(layout),
            State::Bytes { .. } => 0,
        }
    }
}

/// A configuration, and what a session has found out where the configuration leaves it open. A plan
/// follows from the job and the number of steps.
#[derive(Clone, Debug)]
pub struct Job {
    /// The configuration, as it was checked.
    pub config: Arc<Config>,
    /// The state that the application saves.
    pub state: State,
    /// The backend of the session: configured, or that of the fields.
    pub backend: Backend,
    /// Most bytes of device memory; configured, or a share of the free memory.
    pub device_budget: u64,
    /// Most bytes of host memory for snapshots; configured, or a share of the free memory.
    pub host_budget: u64,
    /// Most bytes of disk for snapshots: configured, or what the disk has.
    pub disk_budget: u64,
    /// The speeds to plan with: configured, imported or measured.
    pub profile: Option<Profile>,
    /// Bytes to plan with for a compressed snapshot; `None`: as the configuration and the profile
    /// tell.
    pub coded_bytes: Option<u64>,
    /// Bytes of device memory beside the cache; `None`: as the codec and the state tell.
    pub beside_cache: Option<u64>,
}

impl Job {
    /// Returns the job before anything but its configuration and its state is known.
    pub fn new(config: impl Into<Arc<Config>>, state: State) -> Self {
        let config = config.into();
        let (device, tiers) = (&config.device, &config.tiers);
        Job {
            backend: device.backend,
            device_budget: tiers.device_budget,
            host_budget: tiers.host_budget,
            disk_budget: tiers.disk_budget,
            profile: device.profile.clone(),
            config,
            state,
            coded_bytes: None,
            beside_cache: None,
        }
    }

    /// Returns the codecs among which the configuration leaves the choice, or the configured codec.
    pub(crate) fn codecs(&self) -> Vec<Settings> {
        let settings = &self.config.codec.settings;
        match settings.method {
            _ if self.config.codec.any_codec => {
                Method::bounded().into_iter().map(|method| settings.with(method)).collect()
            }
            Method::None => Vec::new(),
            _ => vec![settings.clone()],
        }
    }

    /// Returns the number of threads that may code beside the calling thread: configured, or as many as the
    /// profile has idle processors. A processor that is idle for three quarters of the time counts.
    pub fn codec_threads(&self) -> u32 {
        let idle = || self.profile.as_ref().map_or(0.0, |profile| profile.idle_processors);
        let threads = self.config.codec.threads;
        threads.unwrap_or_else(|| ((idle() + 0.25) as u32).min(MOST_THREADS))
    }

    /// Whether `host_budget` alone tells the bytes of the one memory that a code on a CPU has.
    pub(super) fn has_one_memory(&self) -> bool {
        self.backend == Backend::Host
            && self.config.device.link_bandwidth == 0.0
            && self.config.tiers.cache == 0
            && self.device_budget == 0
            && self.host_budget > 0
    }

    /// Returns the most slots of the device cache, whatever they hold; `None`: one for each
    /// snapshot.
    pub(super) fn most_slots(&self) -> Option<u32> {
        let is_unlimited = self.config.schedule.algorithm.is_none()
            && (self.device_budget, self.host_budget) == (0, 0);
        match self.config.tiers.cache {
            0 if is_unlimited => None,
            0 if self.device_budget > 0 => Some(u32::MAX - 1),
            cache => Some(cache),
        }
    }

    /// Whether consecutive snapshots may have a time level in common, and the caller promises that
    /// they are equal.
    pub(super) fn shares_levels(&self) -> bool {
        let schedule = &self.config.schedule;
        self.config.tiers.shared_levels
            && self.state.previous_bytes() > 0
            && schedule.adjoint_every <= 1
    }
}

/// Returns the number of slots of `slot_bytes` bytes that `budget` bytes hold.
pub(super) fn slots_of(budget: u64, slot_bytes: u64) -> u32 {
    u32::try_from(budget / slot_bytes.max(1)).unwrap_or(u32::MAX - 1)
}
