//! Lower bounds of the makespan of a plan, found without making the plan: a search does not
//! simulate a schedule whose bound is too high.

use super::tier_spec::TierSpec;
use crate::error::Result;
use crate::plan::Policy;
use crate::schedule::Schedule;

/// The least seconds that a shot takes with a schedule.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    /// The least time of the application's stream: the time if the stream never waits. Exact for
    /// steps of equal cost, unless snapshots share time levels.
    pub stream: f64,
    /// The least time until the last transfer to the device ends: the forward sweep, then the
    /// uploads.
    link: f64,
    /// The least time of the shot: the largest of all bounds.
    pub makespan: f64,
    /// The schedule's position among the compared schedules, which decides between equal guesses.
    pub rank: usize,
}

impl Bound {
    /// Returns a guess of the seconds that the shot takes, by which a search tries promising
    /// schedules first: the stream and the link rarely overlap without gaps.
    pub fn guess(&self) -> f64 {
        self.makespan + 0.3 * self.stream.min(self.link)
    }
}

/// Returns the bounds of `schedule` on `tiers`.
///
/// The application's stream does all forward and backward steps and handles every snapshot. The
/// link works beside it. No upload begins before the first RESTORE, because only a full cache makes
/// uploads necessary, and every upload follows the download of its snapshot.
pub(super) fn bound(schedule: &Schedule, tiers: &TierSpec) -> Result<Bound> {
    let costs = &tiers.costs;
    let steps = schedule.steps;
    let restores = steps as u64 - 1;
    let saves = schedule.accesses()?.saturating_sub(restores);
    let cache = tiers.cache.unwrap_or(schedule.snapshots);
    // A SAVE and a transfer may leave out the previous time level, which another snapshot has.
    let own = costs.own_part();
    let (copy_in, copy_out) = match cache {
        0 => (own * costs.download, own * costs.upload),
        _ if costs.compressed => (costs.copy, 0.0),
        _ if tiers.zero_copy => (0.0, 0.0),
        _ => (own * costs.copy, costs.copy),
    };
    let sweep = costs.forward.total(steps - 1);
    let repeated = schedule.forward_steps().saturating_sub(restores) as f64 * costs.forward.least();
    let snapshots =
        saves as f64 * (costs.compress + copy_in) + restores as f64 * (costs.decompress + copy_out);
    let stream = sweep + repeated + costs.backward.total(steps) + snapshots;
    let moved = match schedule.transfers(cache)? {
        Some(transfers) if tiers.policy == Policy::Clairvoyant && cache > 0 => transfers,
        _ => Default::default(),
    };
    let link = sweep + moved.h2d as f64 * own * costs.upload;
    Ok(Bound {
        stream,
        link,
        makespan: stream.max(link).max(moved.d2h as f64 * own * costs.download),
        rank: 0,
    })
}
