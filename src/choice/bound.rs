//! Lower bounds of the makespan of a plan, found without making the plan: a search does not
//! simulate a schedule whose bound is too high.

use super::storage::Cut;
use super::tier_spec::TierSpec;
use crate::error::Result;
use crate::plan::{Index, Level, Plan, Policy};
use crate::predict::Costs;
use crate::schedule::Schedule;

/// What a bound counts, each with all before it. Counting the transfers takes longer than the rest of a
/// bound, and counting the records of states in levels takes longer than all else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    /// Steps, SAVEs and RESTOREs. Of states in levels, every state may share its previous level.
    Steps,
    /// The transfers between the tiers, too.
    Transfers,
    /// The records of states in levels, too.
    Records,
}

/// The least seconds that a shot takes with a schedule.
#[derive(Clone, Copy, Debug)]
pub(super) struct LowerBound {
    /// The least time of the application's stream: about the time if the stream never waits.
    pub stream: f64,
    /// The least time until the last transfer to the device ends: the forward sweep, then the
    /// uploads or the reads from disk, whichever take longer.
    link: f64,
    /// The least time of the shot: the largest of all bounds.
    pub makespan: f64,
    /// By how much repeated steps that take as long as the mean step take longer than the fastest.
    uneven: f64,
}

impl LowerBound {
    /// Returns a guess of the seconds that the shot takes, by which a search tries promising
    /// schedules first: the stream and the link rarely overlap without gaps. `gaps` is the part of
    /// the shorter of the two that does not overlap.
    pub fn guess(&self, gaps: f64) -> f64 {
        self.makespan + self.uneven + gaps * self.stream.min(self.link)
    }

    /// Returns the `gaps` with which the guess would have been `makespan` seconds.
    pub fn gaps(&self, makespan: f64) -> f64 {
        let overlapping = self.stream.min(self.link);
        if overlapping > 0.0 {
            (makespan - self.makespan - self.uneven) / overlapping
        } else {
            0.0
        }
    }
}

/// Returns the least seconds of the forward and backward steps of a schedule of any kind.
pub(super) fn steps_alone(schedule: &Schedule, costs: &Costs) -> f64 {
    let all = schedule.steps.max(1);
    let repeated = schedule.forward_steps().saturating_sub(u64::from(all - 1));
    costs.forward.total(all - 1)
        + repeated as f64 * costs.forward.least()
        + f64::from(schedule.sweeps()) * costs.backward.total(all)
}

/// What a bound counts of the kinds of SAVEs and RESTOREs.
#[derive(Clone, Copy)]
pub(super) struct Kinds {
    /// The most SAVEs of states in levels that leave out the previous level, which another snapshot has.
    pub shared: u64,
    /// The least SAVEs and RESTOREs of compressed snapshots with mixed storage.
    pub coded: [u64; 2],
}

impl Kinds {
    /// The kinds in a plan of an indexed schedule.
    pub fn of(plan: &Plan, index: &Index) -> Self {
        let shared = plan.levels.iter().filter(|&&level| level == Level::Claimed).count() as u64;
        Kinds { shared, coded: plan.coded(index) }
    }
}

/// Returns the least seconds of the application's stream, which does all forward and backward steps
/// and saves and restores all snapshots. The schedule restores each state but the last one once, as all
/// generated ones do. SAVEs are counted as in the variant of the schedule with the fewest SAVEs, for which
/// there is a formula.
pub(super) fn stream(schedule: &Schedule, tiers: &TierSpec, kinds: Kinds) -> Result<f64> {
    let accesses = schedule.clone().through(0).accesses()?;
    let costs = &tiers.costs;
    let restores = schedule.restores();
    let (copy_in, copy_out) = match tiers.cache.unwrap_or(schedule.snapshots) {
        0 => (costs.download, costs.own_part() * costs.upload),
        _ if costs.compressed => (costs.copy, 0.0),
        _ if tiers.storage.zero_copy => (0.0, 0.0),
        _ => (costs.copy, costs.copy),
    };
    let (mut save, mut restore) = (costs.compress + copy_in, costs.decompress + copy_out);
    let mut of_coded = 0.0;
    if tiers.raw_slots.is_some() {
        let raw = if tiers.storage.zero_copy { 0.0 } else { costs.raw_copy() };
        (save, restore) = (save.min(raw), restore.min(raw));
        let [saves, restores] = kinds.coded.map(|count| count as f64);
        let more = [costs.compress - save, costs.decompress - restore];
        of_coded = saves * more[0].max(0.0) + restores * more[1].max(0.0);
    }
    let saves = accesses.saturating_sub(restores);
    let left_out = kinds.shared.min(saves) as f64 * (1.0 - costs.own_part());
    let saves = (saves as f64 - left_out) * save;
    let restores = restores as f64 * restore;
    Ok(steps_alone(schedule, costs) + (saves + restores + of_coded))
}

/// Returns the bounds of `schedule` on `tiers`; `None` if the schedule takes `limit` seconds or
/// longer even without transfers, which is found in less time than the transfers are counted, or if
/// its states in levels have more records than the tiers. The transfers are counted as long as they take
/// less than `limit` seconds; bounds above the limit are therefore lower than they could be.
///
/// The link works beside the application's stream. No upload begins before the first RESTORE, because
/// only a full cache makes uploads necessary, and every upload follows the download of its snapshot.
pub(super) fn bound(
    schedule: &Schedule,
    tiers: &TierSpec,
    counted: Counted,
    limit: f64,
) -> Result<Option<LowerBound>> {
    let costs = &tiers.costs;
    let records = match counted {
        Counted::Records if tiers.storage.cut == Cut::Levels => schedule.records()?,
        _ => None,
    };
    if records.is_some_and(|records| records.most > tiers.capacity(u32::MAX).into()) {
        return Ok(None);
    }
    let shared = records.map_or(u64::MAX, |records| records.shared);
    let shared = if tiers.shares_levels(schedule.snapshots) { shared } else { 0 };
    let stream = stream(schedule, tiers, Kinds { shared, coded: [0; 2] })?;
    if stream >= limit {
        return Ok(None);
    }
    let forward = costs.forward.total(schedule.steps - 1);
    let once = u64::from(schedule.steps) - 1;
    let repeated = schedule.forward_steps().saturating_sub(once) as f64;
    let mean = costs.forward.total(schedule.steps) / f64::from(schedule.steps);
    let more = mean - costs.forward.least();
    // Steps that are all alike differ by rounding errors only.
    let uneven = if more > 1e-9 * mean { repeated * more } else { 0.0 };
    let alone = LowerBound { stream, link: forward, makespan: stream, uneven };
    Ok(Some(match counted {
        Counted::Steps => alone,
        _ => alone.with_transfers(schedule, tiers, limit)?,
    }))
}

impl LowerBound {
    /// Returns these bounds, which count no transfers, with those of the transfers.
    fn with_transfers(self, schedule: &Schedule, tiers: &TierSpec, limit: f64) -> Result<Self> {
        let (costs, forward) = (&tiers.costs, self.link);
        let (cache, own) = (tiers.cache.unwrap_or(schedule.snapshots), costs.own_part());
        // The number of transfers, of some seconds each, that end at the limit if they begin after `begin`.
        let until = |begin: f64, each: f64| ((limit - begin) / each).ceil() as u64;
        let is_clairvoyant = tiers.storage.policy == Policy::Clairvoyant;
        let enough = until(forward, own * costs.upload);
        let moved = match schedule.transfers(cache, enough)? {
            Some(transfers) if is_clairvoyant && cache > 0 => transfers,
            _ => Default::default(),
        };
        let (mut stream, mut written) = (self.stream, moved.d2h);
        if let Some(raw_slots) = tiers.raw_slots {
            // Every snapshot is decoded that a cache of the raw slots alone would fetch. The schedule with the
            // fewest fetches may have more write-backs than the plan.
            let raw = if tiers.storage.zero_copy { 0.0 } else { costs.raw_copy() };
            let more = (costs.decompress - raw).max(0.0);
            let decoded = match schedule.transfers(raw_slots, until(stream, more))? {
                Some(transfers) if raw_slots < cache => transfers.h2d.max(moved.h2d),
                _ => moved.h2d,
            };
            stream += decoded as f64 * more;
            written = 0;
        }
        let mut link = forward + moved.h2d as f64 * own * costs.upload;
        let held = tiers.beside_staging().filter(|_| is_clairvoyant && link < limit);
        let fetched = |slots: u32, enough: u64| {
            let moved = schedule.transfers(cache.saturating_add(slots), enough)?;
            Result::Ok(moved.map_or(0, |moved| moved.h2d))
        };
        if let Some(held) = held {
            // A plan that needs the disk has some host memory less, for the staging buffers. Every snapshot
            // is read from disk that a cache of all slots in memory would fetch. Before the first RESTORE,
            // reads may fill the slots of host memory.
            let (read, ahead) = (own * costs.disk_read, u64::from(held));
            let reads = match fetched(tiers.most_in_memory(), 0)? {
                0 => 0,
                _ => fetched(held, until(forward, read).saturating_add(ahead))?,
            };
            link = link.max(forward + reads.saturating_sub(ahead) as f64 * read);
        }
        let makespan = stream.max(link).max(written as f64 * own * costs.download);
        Ok(LowerBound { stream, link, makespan, ..self })
    }
}
