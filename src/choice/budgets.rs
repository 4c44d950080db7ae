//! The budgets of a session for which the configuration sets none: half of the free memory, and
//! never more than the job needs.
//!
//! The free memory is read once, when the session is made. Ranks that read different numbers plan
//! differently: codes whose ranks exchange data in every step should set budgets, or agree on a
//! schedule.

use super::job::Job;
use super::target::Target;
use crate::available::{self, Available};
use crate::codec::{Method, Settings};
use crate::config::Backend;
use crate::device::{cuda, DeviceMemory};
use crate::environment;
use crate::plan::{spare_bytes, Policy};
use crate::process::Process;
use crate::schedule::{adjust, MacroSteps};
use std::sync::atomic::{AtomicU64, Ordering};

/// A session takes one part in `PARTS` of the free memory.
const PARTS: u64 = 2;

/// Bytes of host memory that are promised to the sessions of this process by default budgets. The
/// system counts memory as free until it is touched, so promised bytes are subtracted from it.
static PROMISED: AtomicU64 = AtomicU64::new(0);

/// The host memory that default budgets promise to one session, for as long as the session lives.
/// Other sessions take their share of the rest.
pub struct Promise {
    bytes: u64,
    process: Process,
}

impl Promise {
    /// Promises the budgets of `job`. On the host backend the device cache is in main memory, so
    /// that `device_budget` is promised as well.
    pub fn of(job: &Job) -> Self {
        let device = if job.backend == Backend::Cuda { 0 } else { job.device_budget };
        let bytes = device.saturating_add(job.host_budget);
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

/// The free memory; a session takes its share of it.
#[derive(Clone, Debug)]
pub struct Free {
    /// Host memory that this process may still take, less the memory that is promised.
    pub host: Available,
    /// Memory of the CUDA device; `None` on the host backend.
    pub device: Option<DeviceMemory>,
    /// Number of ranks of this job on this node, which share its host memory.
    pub ranks: u32,
}

impl Free {
    /// Reads the free memory for a session on `target`; if the target is not known yet, for the
    /// backend that the configuration assumes. `own` is what the session was promised before: it counts
    /// as free. `None`: the free memory is not known.
    pub fn now(job: &Job, target: Option<Target>, own: Option<&Promise>) -> Option<Self> {
        let device = match (target, job.backend) {
            (Some(Target::Host), _) | (None, Backend::Host) => None,
            (Some(Target::Cuda(ordinal)), _) => Some(cuda::free_memory(ordinal).ok()?),
            // The fields will tell whether the session needs CUDA: CUDA is not started before.
            (None, Backend::ByFields) if !cuda::is_started() => return None,
            (None, _) => Some(assumed_device()?),
        };
        let ranks = available::ranks_on_node(environment::text);
        let mut host = available::host()?;
        let own = own.map_or(0, |own| own.bytes);
        let promised = PROMISED.load(Ordering::Relaxed).saturating_sub(own);
        host.bytes = host.bytes.saturating_sub(promised);
        Some(Free { host, device, ranks })
    }
}

/// Returns the free bytes of the device that a session will probably get, whose fields will tell
/// the device later. Makes no CUDA context: without a current device, all bytes of the first one
/// count as free.
fn assumed_device() -> Option<DeviceMemory> {
    if let Some(ordinal) = cuda::current_device() {
        return cuda::free_memory(ordinal).ok();
    }
    let total = cuda::devices().ok()?.first()?.memory_bytes;
    Some(DeviceMemory { free: total, total })
}

/// Returns whether a configuration leaves the budgets to the library: the algorithm is `auto`, and
/// nothing says how many snapshots there are.
pub fn are_left(job: &Job) -> bool {
    let (schedule, tiers) = (&job.config.schedule, &job.config.tiers);
    (job.device_budget, job.host_budget, schedule.snapshots) == (0, 0, 0)
        && !schedule.adjust_snapshots
        && tiers.default_budgets
        && schedule.algorithm.is_none()
        && tiers.policy == Policy::Clairvoyant
}

/// Sets the budgets of a configuration that leaves them to the library, for `steps` time steps, and
/// logs them. If the share of the free memory holds fewer snapshots than GPUZIP's rule (`adjust`)
/// takes, the budgets stay 0 and that rule decides the number.
pub fn take(job: &mut Job, steps: u32, free: Option<&Free>) {
    let Some((device, host)) = free.and_then(|free| shares(job, steps, free)) else {
        log::info!(
            "no budgets are set, and half of the free memory is not known or holds too few snapshots: set device_budget or host_budget{}",
            if job.backend == Backend::ByFields { ", or backend, or give fields with their data" } else { "" }
        );
        return;
    };
    (job.device_budget, job.host_budget) = (device, host);
    let (limit, ranks) = free.map_or(("", 1), |free| (free.host.limit, free.ranks));
    log::info!(
        "no budgets are set: device_budget = {device} and host_budget = {host} bytes are taken, at most half of the free memory ({limit}, \
         ranks on this node: {ranks}); set device_budget or host_budget for others"
    );
}

/// Returns the bytes for the device cache and for the host pool; `None` if they hold too few
/// snapshots. On the host backend the cache is in main memory, too, and gets all bytes.
fn shares(job: &Job, steps: u32, free: &Free) -> Option<(u64, u64)> {
    let slot = slot_bytes(job);
    let beside_cache = beside_cache(job, free.device.is_some());
    let states = MacroSteps::new(job.config.schedule.adjoint_every, steps).count();
    let all = u64::from(states.saturating_sub(1).max(1));
    let enough = |snapshots: u64| snapshots.saturating_mul(slot).saturating_add(beside_cache);
    let host = free.host.bytes / PARTS / u64::from(free.ranks.max(1));
    let least = enough(adjust(u64::from(states)).into());
    let cache = slot.saturating_mul(job.config.tiers.cache.into());
    let of_device = free.device.map(|DeviceMemory { free, total }| {
        (free / PARTS).min(free.saturating_sub(job.config.reserve_of(total)))
    });
    let (has_cache, all) = (job.config.tiers.cache > 0, enough(all));
    let (device, host) = match of_device {
        None if has_cache => (0, host.checked_sub(cache.saturating_add(beside_cache))?.min(all)),
        None => (host.min(all), 0),
        Some(_) if has_cache => (0, host.min(all)),
        Some(device) if device >= all => (all, 0),
        Some(device) => (device, host.min(all)),
    };
    let holds = device.saturating_add(host).saturating_add(cache) >= least
        && (has_cache || device >= enough(1));
    holds.then_some((device, host))
}

/// Returns the most bytes that a snapshot takes in a tier, over all storage options.
fn slot_bytes(job: &Job) -> u64 {
    match job.config.codec.settings.method {
        Method::None if !job.config.codec.any_codec => job.state.bytes(),
        _ => job.state.bytes().max(job.state.most_coded_bytes()),
    }
}

/// Returns the bytes of device memory beside the snapshots: spare slots, the work space of shared
/// time levels, and the memory that the kernels of a codec work in.
fn beside_cache(job: &Job, by_kernels: bool) -> u64 {
    let kernels = |settings: &Settings| job.state.coder_bytes(settings).unwrap_or(0);
    let codecs = job.codecs().iter().map(kernels).max().filter(|_| by_kernels).unwrap_or(0);
    let levels = if job.config.tiers.shared_levels { job.state.sums_bytes() } else { 0 };
    spare_bytes(true, true, 1, 0, job.state.bytes()).saturating_add(codecs).saturating_add(levels)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::State;
    use crate::config::Config;

    #[test]
    fn what_one_session_was_promised_is_not_free_for_the_next() {
        const BYTES: u64 = 1 << 50;
        let promised = || PROMISED.load(Ordering::Relaxed);
        let job = |backend| Job {
            device_budget: BYTES,
            host_budget: BYTES,
            backend,
            ..Job::new(Config::default(), State::Bytes { all: 1, previous: 0 })
        };
        let first = Promise::of(&job(Backend::Host));
        assert_eq!(promised() / BYTES, 2);
        let second = Promise::of(&job(Backend::Cuda));
        assert_eq!(promised() / BYTES, 3);
        assert!(Free::now(&job(Backend::Host), None, None).is_none_or(|free| free.host.bytes == 0));
        drop(first);
        assert_eq!(promised() / BYTES, 1);
        drop(second);
        assert_eq!(promised() / BYTES, 0);
    }
}
