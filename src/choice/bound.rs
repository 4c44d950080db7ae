//! Lower bounds of a plan's makespan, without the plan: what a search need not simulate.

use super::tier_spec::TierSpec;
use crate::error::Result;
use crate::plan::Policy;
use crate::schedule::Schedule;

/// Seconds that a sweep takes at least.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    /// Of the application's stream, if it never waits: exact for steps of equal cost.
    pub stream: f64,
    /// Of the transfers to the device, and of the sweep before them.
    link: f64,
    /// Of everything.
    pub makespan: f64,
    /// The schedule's number among those that are compared.
    pub rank: usize,
}

impl Bound {
    /// What the sweep may take, to try the promising schedules first: stream and link rarely
    /// overlap without gaps.
    pub fn guess(&self) -> f64 {
        self.makespan + 0.3 * self.stream.min(self.link)
    }
}

/// The bounds of a schedule through the tiers of `sizes`.
///
/// The stream takes all forward and backward steps and handles every snapshot. Beside it, no
/// transfer to the device begins before the first RESTORE, since a full cache is the only reason
/// for one, and every transfer to the host precedes one to the device.
pub(super) fn bound(schedule: &Schedule, sizes: &TierSpec) -> Result<Bound> {
    let costs = &sizes.costs;
    let steps = schedule.steps;
    let restores = steps as u64 - 1;
    let saves = schedule.events()?.saturating_sub(restores);
    let cache = sizes.cache.unwrap_or(schedule.snapshots);
    let (copy_in, copy_out) = match cache {
        0 => (costs.download, costs.upload),
        _ if sizes.zero_copy => (0.0, 0.0),
        _ if costs.compressed => (costs.copy, 0.0),
        _ => (costs.copy, costs.copy),
    };
    let sweep = costs.forward.total(steps - 1);
    let repeated = schedule.forward_steps().saturating_sub(restores) as f64 * costs.forward.least();
    let snapshots =
        saves as f64 * (costs.compress + copy_in) + restores as f64 * (costs.decompress + copy_out);
    let stream = sweep + repeated + costs.backward.total(steps) + snapshots;
    let moved = match schedule.transfers(cache)? {
        Some(transfers) if sizes.policy == Policy::Clairvoyant && cache > 0 => transfers,
        _ => Default::default(),
    };
    let link = sweep + moved.h2d as f64 * costs.upload;
    Ok(Bound {
        stream,
        link,
        makespan: stream.max(link).max(moved.d2h as f64 * costs.download),
        rank: 0,
    })
}
