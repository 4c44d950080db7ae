//! The ways in which a session may store its snapshots: the one that is configured, or those that the planner chooses from.

use crate::codec::{Method, Settings, SnapshotCodec};
use crate::config::Config;
use crate::error::{fail, Result};
use crate::plan::{Policy, Sizes, SPARE_SLOTS};
use crate::snapshot::{Layout, Levels};

/// Bytes that are planned for a snapshot, over those of the largest one that was measured: what was not measured may be larger.
const MARGIN: f64 = 1.125;

/// A way to store snapshots, and what tiers are to it.
#[derive(Clone, Debug)]
pub struct Offer {
    /// How they are compressed.
    pub compression: Settings,
    /// Raw ones share time levels.
    pub levels: Option<Levels>,
    /// Their sizes and costs.
    pub sizes: Sizes,
}

/// What a configuration offers for states of this layout: a pure function of it and its profile.
pub fn offers_of(config: &Config, layout: &Layout) -> Result<Vec<Offer>> {
    let spare = (SPARE_SLOTS as u64).saturating_mul(layout.slot_bytes);
    if config.zero_copy && (1..spare).contains(&config.device_budget) {
        return fail!(Budget, "device_budget = {}: zero_copy = 1 needs at least {spare} bytes, for two states", config.device_budget);
    }
    let mut offers = Vec::from_iter(shared(config, layout));
    if !config.any_codec {
        offers.push(offer(config, &config.compression, layout)?);
        return Ok(offers);
    }
    let raw = config.compression.with(Method::None);
    let known = candidates(config).into_iter().filter(|settings| config.profile.as_ref().is_some_and(|p| p.codec(settings).is_some()));
    let mut codecs: Vec<Settings> = known.collect();
    if codecs.is_empty() && config.compression_factor > 1.0 {
        codecs.push(config.compression.with(Method::Lorenzo));
    }
    if codecs.is_empty() {
        log::warn!("compressor = auto: no codec was measured with this bound, and there is no compression_factor: snapshots are raw");
    }
    for settings in std::iter::once(raw).chain(codecs) {
        offers.push(offer(config, &settings, layout)?);
    }
    Ok(offers)
}

/// Raw snapshots that share time levels, where the configuration lets them and states have any.
fn shared(config: &Config, layout: &Layout) -> Option<Offer> {
    let possible = config.compression.method == Method::None && !config.zero_copy && config.policy == Policy::Clairvoyant;
    let levels = layout.levels().filter(|_| config.shared_levels && possible)?;
    let sizes = Sizes::sharing(config, &levels, layout.slot_bytes);
    Some(Offer { compression: config.compression.with(Method::None), levels: Some(levels), sizes })
}

/// The codecs that a configuration leaves to choose from, or has.
pub fn candidates(config: &Config) -> Vec<Settings> {
    match config.compression.method {
        _ if config.any_codec => Method::BOUNDED.into_iter().map(|method| config.compression.with(method)).collect(),
        Method::None => Vec::new(),
        _ => vec![config.compression.clone()],
    }
}

fn offer(config: &Config, compression: &Settings, layout: &Layout) -> Result<Offer> {
    let expected = expected_bytes(config, compression, layout)?;
    Ok(Offer { compression: compression.clone(), levels: None, sizes: Sizes::stored(config, compression, expected, layout.slot_bytes) })
}

/// Bytes to plan with: by the configured ratio, or else by the worst one that was measured, or else those of raw snapshots.
fn expected_bytes(config: &Config, compression: &Settings, layout: &Layout) -> Result<u64> {
    if compression.method == Method::None {
        return Ok(layout.slot_bytes);
    }
    if !compression.method.is_bounded() {
        return Ok(SnapshotCodec::new(compression.clone(), layout)?.expected_bytes(config.compression_factor));
    }
    let most = SnapshotCodec::max_bytes(layout);
    let measured = config.profile.as_ref().and_then(|profile| profile.codec(compression)).map(|codec| codec.worst_ratio / MARGIN);
    let ratio = Some(config.compression_factor).filter(|&factor| factor > 1.0).or(measured).unwrap_or(1.0);
    Ok((most as f64 / ratio.max(1.0)) as u64)
}
