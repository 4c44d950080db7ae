//! What is found out about a job, beside its configuration.

use crate::config::{Backend, Config};
use crate::predict::Profile;
use std::sync::Arc;

/// A configuration, and what a session has found out where the configuration leaves it open. A plan
/// follows from the job, the number of steps and the layout of a state.
#[derive(Clone, Debug)]
pub struct Job {
    /// The configuration, as it was checked.
    pub config: Arc<Config>,
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
}

impl Job {
    /// Returns the job before anything but its configuration is known.
    pub fn new(config: impl Into<Arc<Config>>) -> Self {
        let config = config.into();
        let (device, tiers) = (&config.device, &config.tiers);
        Job {
            backend: device.backend,
            device_budget: tiers.device_budget,
            host_budget: tiers.host_budget,
            disk_budget: tiers.disk_budget,
            profile: device.profile.clone(),
            config,
        }
    }

    /// Returns the job with the configured budget of disk space, whatever the disk had before.
    pub fn with_whole_disk(&self) -> Self {
        Job { disk_budget: self.config.tiers.disk_budget, ..self.clone() }
    }
}
