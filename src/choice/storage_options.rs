//! The storage options of a session: the configured way to store snapshots, or the ways that the
//! planner chooses from.

use super::job::Job;
use super::tier_spec::{spare_beside, TierSpec, LEAST_CODED, LEAST_RAW};
use crate::codec::{Method, Settings, SnapshotCodec};
use crate::config::Backend;
use crate::error::{fail, Code, Result};
use crate::files::PAGE;
use crate::layout::{aligned, Layout, Levels, ALIGNMENT};
use crate::schedule::Algorithm;
use crate::tier::{staging_bytes, SnapshotCoder};

/// Factor between the bytes planned for a snapshot and the bytes of the largest measured snapshot:
/// snapshots that were not measured may be larger.
const MARGIN: f64 = 1.125;

/// A way to store snapshots, and the tiers for it.
#[derive(Clone, Debug)]
pub struct StorageOption {
    /// The codec of the snapshots and its parameters.
    pub compression: Settings,
    /// How raw snapshots share time levels; `None`: they do not.
    pub levels: Option<Levels>,
    /// Sizes and costs of the tiers.
    pub tiers: TierSpec,
}

/// Returns the storage options for states of this layout. They depend only on the arguments,
/// profile included.
pub fn storage_options(job: &Job, layout: &Layout) -> Result<Vec<StorageOption>> {
    let options = all_options(job, layout)?;
    let least = options.iter().map(|option| option.tiers.bytes_on_disk()).min().unwrap_or(0);
    if (1..least).contains(&job.disk_budget) {
        return fail!(
            Budget,
            "disk_budget = {}: a snapshot takes {least} bytes of disk, which are whole pages of {PAGE} bytes in each of the {} folders of disk_path: \
             raise disk_budget to at least that, name fewer folders, or set disk_budget = 0",
            job.disk_budget,
            job.config.tiers.disk_folders.len().max(1)
        );
    }
    let staged = options.iter().map(|option| staging_bytes(option.tiers.slot_bytes)).min();
    let staged = staged.unwrap_or(0);
    if job.disk_budget > 0 && (1..staged).contains(&job.host_budget) {
        log::warn!(
            "disk_budget = {} is not used: snapshots go to disk through staging buffers of {staged} bytes, and host_budget = {}: raise host_budget to \
             at least {staged} bytes",
            job.disk_budget,
            job.host_budget
        );
    }
    Ok(options)
}

/// Returns the storage options. The budgets may have no room for some of them.
fn all_options(job: &Job, layout: &Layout) -> Result<Vec<StorageOption>> {
    let mut options = Vec::from_iter(shared(job, layout));
    if !job.config.codec.any_codec {
        with_mixed(job, option(job, &job.config.codec.settings, layout)?, &mut options)?;
        return Ok(options);
    }
    let raw = job.config.codec.settings.with(Method::None);
    let known = candidates(job)
        .into_iter()
        .filter(|settings| job.profile.as_ref().is_some_and(|p| p.codec(settings).is_some()));
    let mut codecs: Vec<Settings> = known.collect();
    if codecs.is_empty() && job.config.codec.compression_factor > 1.0 {
        codecs.push(job.config.codec.settings.with(Method::Lorenzo));
    }
    if codecs.is_empty() {
        log::warn!("compressor = auto: no codec was measured with this bound, and there is no compression_factor: snapshots are raw");
    }
    options.push(option(job, &raw, layout)?);
    for settings in codecs {
        let added =
            option(job, &settings, layout).and_then(|option| with_mixed(job, option, &mut options));
        match added {
            Err(error) if matches!(error.code, Code::Budget | Code::Unsupported) => {
                log::info!("{} is not offered: {error}", settings.method.name())
            }
            added => added?,
        }
    }
    Ok(options)
}

/// Adds an option, and beside it or in its place the same one with mixed storage, as the
/// configuration says.
fn with_mixed(job: &Job, option: StorageOption, options: &mut Vec<StorageOption>) -> Result<()> {
    // A codec that is named is one for all snapshots, and an application that computes in the slots
    // may write to decoded states, but not to raw ones: it has to ask for these.
    let is_weighed = job.config.codec.any_codec
        && !job.config.tiers.zero_copy
        && job.config.schedule.algorithm != Some(Algorithm::Online);
    let mixed = match job.config.tiers.mixed_storage.unwrap_or(is_weighed) {
        true => option.tiers.mixed(),
        false => None,
    };
    let is_coded = option.compression.method != Method::None;
    let always = job.config.tiers.mixed_storage == Some(true) && is_coded;
    if always && mixed.is_none() {
        return fail!(
            Budget,
            "mixed_storage = 1 needs a device_budget with room for {LEAST_RAW} raw states of {} bytes and {LEAST_CODED} compressed snapshots, which are planned \
             with {} bytes each: raise device_budget and cache_capacity; tell the ratio by compression_factor or a profile; or use mixed_storage = 0",
            option.tiers.costs.state_bytes,
            option.tiers.slot_bytes
        );
    }
    let mixed = mixed.map(|tiers| StorageOption { tiers, ..option.clone() });
    options.extend((!always).then_some(option).into_iter().chain(mixed));
    Ok(())
}

/// Returns the option of raw snapshots that share time levels, if the configuration allows it and
/// the states have time levels to share.
fn shared(job: &Job, layout: &Layout) -> Option<StorageOption> {
    let levels = layout.levels().filter(|_| job.config.tiers.shared_levels)?;
    let tiers = TierSpec::sharing(job, &levels, layout.slot_bytes);
    Some(StorageOption {
        compression: job.config.codec.settings.with(Method::None),
        levels: Some(levels),
        tiers,
    })
}

/// Returns the codecs among which a configuration leaves the choice, or the configured codec.
pub fn candidates(job: &Job) -> Vec<Settings> {
    match job.config.codec.settings.method {
        _ if job.config.codec.any_codec => Method::bounded()
            .into_iter()
            .map(|method| job.config.codec.settings.with(method))
            .collect(),
        Method::None => Vec::new(),
        _ => vec![job.config.codec.settings.clone()],
    }
}

fn option(job: &Job, compression: &Settings, layout: &Layout) -> Result<StorageOption> {
    let beside_cache = beside_cache(job, compression, layout)?;
    if (1..beside_cache).contains(&job.device_budget) {
        return fail!(
            Budget,
            "device_budget = {}: it needs {beside_cache} bytes for other things than the cache",
            job.device_budget
        );
    }
    let expected = aligned(expected_bytes(job, compression, layout)?);
    let has_budget = job.device_budget > 0 || job.host_budget > 0;
    if has_budget && compression.method.is_bounded() && expected >= layout.slot_bytes {
        log::warn!(
            "compressor = {}: nothing says by how much snapshots shrink, so each is planned with {expected} bytes, no fewer than the {} of a raw one: set \
             compression_factor, or import a profile that gpuzip_autotune has measured",
            compression.method.name(),
            layout.slot_bytes
        );
    }
    Ok(StorageOption {
        compression: compression.clone(),
        levels: None,
        tiers: tiers_of(job, compression, layout, expected, beside_cache),
    })
}

/// Returns the bytes of device memory beside the cache: the spare slots of an application that works
/// in the slots, and the work space of a codec on a GPU.
fn beside_cache(job: &Job, compression: &Settings, layout: &Layout) -> Result<u64> {
    let spare = spare_beside(job, compression, layout.slot_bytes);
    let by_kernels = job.backend == Backend::Cuda && compression.method != Method::None;
    Ok(spare.saturating_add(if by_kernels {
        SnapshotCoder::gpu_bytes(compression, layout)?
    } else {
        0
    }))
}

/// Returns the tiers for snapshots of `slot_bytes` bytes, with `beside_cache` bytes of device memory
/// beside the cache. Compressed snapshots get all of the device budget, but at most the bytes that
/// `cache_capacity` snapshots can take.
pub fn tiers_of(
    job: &Job,
    compression: &Settings,
    layout: &Layout,
    slot_bytes: u64,
    beside_cache: u64,
) -> TierSpec {
    let mut tiers = TierSpec::stored(job, compression, slot_bytes, layout.slot_bytes, beside_cache);
    if compression.method != Method::None && job.device_budget > beside_cache {
        let most = match job.config.tiers.cache {
            0 => u64::MAX,
            cap => aligned(SnapshotCodec::max_bytes(layout)).saturating_mul(cap as u64),
        };
        tiers.packed_bytes =
            Some(most.min(job.device_budget - beside_cache) / ALIGNMENT * ALIGNMENT);
    }
    tiers
}

/// Returns the bytes to plan with for a snapshot: by the configured compression factor, or else by
/// the worst measured ratio, or else those of a raw snapshot.
fn expected_bytes(job: &Job, compression: &Settings, layout: &Layout) -> Result<u64> {
    if compression.method == Method::None {
        return Ok(layout.slot_bytes);
    }
    if !compression.method.is_bounded() {
        return SnapshotCodec::expected_bytes(
            compression,
            layout,
            job.config.codec.compression_factor,
        );
    }
    if job.config.codec.compression_factor > 1.0 {
        return Ok(SnapshotCodec::bytes_by_ratio(layout, job.config.codec.compression_factor));
    }
    let measured = job
        .profile
        .as_ref()
        .and_then(|profile| profile.codec(compression))
        .map(|codec| codec.worst_ratio / MARGIN);
    Ok((SnapshotCodec::max_bytes(layout) as f64 / measured.unwrap_or(1.0).max(1.0)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::choose_among;
    use crate::config::Config;
    use crate::layout::Field;
    use crate::predict::Profile;
    use crate::scalar::Scalar;

    /// With `compressor = auto` every way of storing snapshots is priced with zero copy: raw snapshots
    /// take the whole device budget, decoded states lie beside compressed snapshots, and the
    /// link and the host budget decide which is faster.
    #[test]
    fn zero_copy_is_priced_with_every_codec() {
        let field = Field { n: [1 << 18, 1, 1], scalar: Scalar::F32, previous_of: None };
        let layout = Layout::new(vec![field]).unwrap();
        let state = layout.slot_bytes;
        let profile = |gbs: f64| Profile {
            forward_ms: 20.0,
            backward_ms: 20.0,
            h2d_gbs: gbs,
            d2h_gbs: gbs,
            ..Profile::typical_gpu(state)
        };
        let chosen = |gbs: f64, host: u64, mixed_storage: Option<bool>| {
            let config = Config::default().with(|c| {
                c.tiers.zero_copy = true;
                c.codec.any_codec = true;
                c.tiers.mixed_storage = mixed_storage;
                c.codec.compression_factor = 4.0;
                c.tiers.device_budget = 6 * state;
                c.tiers.host_budget = host * state;
                c.device.backend = Backend::Host;
                c.device.profile = Some(profile(gbs));
            });
            let options = storage_options(&Job::new(config.clone()), &layout).unwrap();
            let seen: Vec<_> = options
                .iter()
                .map(|o| {
                    (o.compression.method == Method::None, o.tiers.zero_copy, o.tiers.beside_cache)
                })
                .collect();
            // Raw, and compressed or mixed.
            let coded = (false, true, 2 * state);
            assert_eq!(seen, [(true, true, 0), coded]);
            assert_eq!(options[0].tiers.cache, Some(6));
            let tiers = options.into_iter().map(|option| option.tiers).collect();
            let choice = choose_among(&config, 500, &[tiers]).unwrap();
            assert!(choice.plans[0].zero_copy);
            choice.alternative
        };
        for mixed in [None, Some(false), Some(true)] {
            assert_eq!((chosen(1e6, 600, mixed), chosen(0.05, 40, mixed)), (0, 1));
        }
    }
}
