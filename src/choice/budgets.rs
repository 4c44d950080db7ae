//! The budgets of a session for which none are set: half of the memory that is free, and never more
//! than the job needs.
//!
//! They are read once, when the session is made. Ranks that read different numbers plan
//! differently: codes whose ranks exchange data in every step set budgets, or agree on them.

use super::storage_options::{aligned, candidates};
use super::target::Target;
use crate::available::{self, Available};
use crate::codec::{Method, Settings, SnapshotCodec};
use crate::config::{Backend, Config};
use crate::device::cuda;
use crate::layout::{Layout, Levels};
use crate::plan::{Policy, SPARE_SLOTS};
use crate::process::Process;
use crate::schedule::adjust;
use crate::tier::SnapshotCoder;
use std::sync::atomic::{AtomicU64, Ordering};

/// Of free memory, one part in so many is taken.
const PARTS: u64 = 2;

/// Bytes of host memory within which sessions of this process were planned by default. The system
/// counts them as free until they are touched.
static PROMISED: AtomicU64 = AtomicU64::new(0);

/// The host memory that one session was promised by default, as long as the session lives: others
/// take their share of the rest.
pub struct Promise {
    bytes: u64,
    process: Process,
}

impl Promise {
    /// Promises the budgets of a configuration. On the host backend the device's are of main
    /// memory, too.
    pub fn of(config: &Config) -> Self {
        let device = if config.backend == Backend::Cuda { 0 } else { config.device_budget };
        let bytes = device.saturating_add(config.host_budget);
        PROMISED.fetch_add(bytes, Ordering::Relaxed);
        Promise { bytes, process: Process::current() }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        if self.process.is_current() {
            PROMISED.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

/// Memory of which a session may take its share.
#[derive(Clone, Debug)]
pub struct Free {
    /// Host memory that this process may still take.
    pub host: Available,
    /// Free bytes of the CUDA device; `None` on the host backend.
    pub device: Option<u64>,
    /// Ranks of this job on this node, which share its host memory.
    pub ranks: u32,
}

impl Free {
    /// What is free now for a session on `target`, or where that is not known yet on what the
    /// configuration assumes.
    pub fn now(config: &Config, target: Option<Target>) -> Option<Self> {
        let device = match (target, config.backend) {
            (Some(Target::Host), _) | (None, Backend::Host) => None,
            (Some(Target::Cuda(ordinal)), _) => Some(cuda::free_memory(ordinal).ok()?),
            // Fields tell later whether CUDA is needed: it is not started to ask it.
            (None, Backend::ByFields) if !cuda::is_started() => return None,
            (None, _) => Some(assumed_device()?),
        };
        let ranks = available::ranks_on_node(|name| std::env::var(name).ok());
        let mut host = available::host()?;
        host.bytes = host.bytes.saturating_sub(PROMISED.load(Ordering::Relaxed));
        Some(Free { host, device, ranks })
    }
}

/// Bytes of the device that a session is likely to get whose fields will tell it: no context is
/// made to find out.
fn assumed_device() -> Option<u64> {
    match cuda::current_device() {
        Some(ordinal) => cuda::free_memory(ordinal).ok(),
        None => Some(cuda::devices().ok()?.first()?.memory_bytes),
    }
}

/// Whether a configuration leaves its budgets to the library: `auto` without anything that says how
/// many snapshots there are.
pub fn are_left(config: &Config) -> bool {
    let none = config.device_budget == 0
        && config.host_budget == 0
        && config.snapshots == 0
        && !config.adjust_snapshots;
    config.default_budgets
        && config.algorithm.is_none()
        && config.policy == Policy::Clairvoyant
        && none
}

/// Sets the budgets of a configuration that leaves them to the library, for `steps` time steps of
/// states of this layout, and says so in the log. Where the share holds fewer snapshots than
/// GPUZIP's rule takes, nothing is set: that rule decides, as without budgets.
pub fn take(config: &mut Config, layout: &Layout, steps: u32, free: Option<&Free>) {
    if !are_left(config) {
        return;
    }
    let Some((device, host)) = free.and_then(|free| shares(config, layout, steps, free)) else {
        log::info!(
            "no budgets are set, and half of the free memory is not known or holds too few snapshots: set device_budget or host_budget{}",
            if config.backend == Backend::ByFields { ", or backend, or give fields with their data" } else { "" }
        );
        return;
    };
    (config.device_budget, config.host_budget) = (device, host);
    let (limit, ranks) = free.map_or(("", 1), |free| (free.host.limit, free.ranks));
    log::info!(
        "no budgets are set: device_budget = {device} and host_budget = {host} bytes are taken, at most half of the free memory ({limit}, \
         {ranks} ranks on this node); set device_budget or host_budget for others"
    );
}

/// Bytes for the device cache and for the host pool. On the host backend the cache is main memory
/// too, and has all of it.
fn shares(config: &Config, layout: &Layout, steps: u32, free: &Free) -> Option<(u64, u64)> {
    let slot = slot_bytes(config, layout);
    let aside = aside(config, layout, free.device.is_some());
    let all = u64::from(steps.saturating_sub(1).max(1));
    let enough = |snapshots: u64| snapshots.saturating_mul(slot).saturating_add(aside);
    let host = free.host.bytes / PARTS / u64::from(free.ranks.max(1));
    let least = enough(adjust(u64::from(steps)).into());
    let cache = slot.saturating_mul(config.cache.into());
    let (device, host) = match free.device {
        None if config.cache > 0 => {
            (0, host.checked_sub(cache.saturating_add(aside))?.min(enough(all)))
        }
        None => (host.min(enough(all)), 0),
        Some(_) if config.cache > 0 => (0, host.min(enough(all))),
        Some(device) if device / PARTS >= enough(all) => (enough(all), 0),
        Some(device) => (device / PARTS, host.min(enough(all))),
    };
    let holds = device.saturating_add(host).saturating_add(cache) >= least
        && (config.cache > 0 || device >= enough(1));
    holds.then_some((device, host))
}

/// Most bytes that a snapshot takes of a tier, however it is stored.
fn slot_bytes(config: &Config, layout: &Layout) -> u64 {
    match config.compression.method {
        Method::None if !config.any_codec => layout.slot_bytes,
        _ => layout.slot_bytes.max(aligned(SnapshotCodec::max_bytes(layout))),
    }
}

/// Bytes beside the snapshots: states that have no slot, time levels that are not shared, and what
/// the kernels of a codec work in.
fn aside(config: &Config, layout: &Layout, by_kernels: bool) -> u64 {
    let kernels = |settings: &Settings| SnapshotCoder::gpu_bytes(settings, layout).unwrap_or(0);
    let codecs = candidates(config).iter().map(kernels).max().filter(|_| by_kernels).unwrap_or(0);
    let levels = if config.shared_levels { Levels::WORK_BYTES } else { 0 };
    layout
        .slot_bytes
        .saturating_mul(SPARE_SLOTS.into())
        .saturating_add(codecs)
        .saturating_add(levels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_session_was_promised_is_not_free_for_the_next() {
        const BYTES: u64 = 1 << 50;
        let promised = || PROMISED.load(Ordering::Relaxed);
        let config = |backend| Config {
            device_budget: BYTES,
            host_budget: BYTES,
            backend,
            ..Config::default()
        };
        let first = Promise::of(&config(Backend::Host));
        assert_eq!(promised() / BYTES, 2);
        let second = Promise::of(&config(Backend::Cuda));
        assert_eq!(promised() / BYTES, 3);
        assert!(Free::now(&config(Backend::Host), None).is_none_or(|free| free.host.bytes == 0));
        drop(first);
        assert_eq!(promised() / BYTES, 1);
        drop(second);
        assert_eq!(promised() / BYTES, 0);
    }
}
