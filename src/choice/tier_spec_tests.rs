use super::*;
use crate::choice::State;
use crate::config::Config;

/// Tiers with `cache` and `host` slots of one byte for raw snapshots.
pub fn of_slots(costs: Costs, cache: u32, host: u32) -> TierSpec {
    let job = Job::new(Config::default(), State::Bytes { all: 1, previous: 0 });
    TierSpec {
        cache: Some(cache),
        host: Some(host),
        costs,
        budgets: Budgets { device: cache.into(), host: host.into(), disk: 0 },
        ..TierSpec::of(&Storage::raw(&job), &job).unwrap()
    }
}
