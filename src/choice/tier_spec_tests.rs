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

/// These tiers with `host` slots in host memory, of which a disk takes four for its staging buffers, and
/// `disk` slots on a disk.
pub fn with_disk(tiers: TierSpec, host: u32, disk: u32) -> TierSpec {
    let budgets = Budgets { device: u64::MAX, host: host.into(), disk: disk.into() };
    TierSpec { host: Some(budgets.slots_outside(1)), budgets, ..tiers }
}

/// Sessions share a plan only if their pools have as many slots on disk: what one has on disk may be in
/// the memory of another.
#[test]
fn a_pool_in_order_is_for_one_disk() {
    let schedule = Schedule::two_level(60, 20, 4, 2).unwrap();
    let [small, large] = [7, 12].map(|host| with_disk(of_slots(Costs::default(), 2, 0), host, 100));
    let plan = small.plan_for(&schedule, &[]).unwrap();
    assert!(!plan.reads.is_empty() && plan.on_disk == small.on_disk(&plan));
    let [same, other] = [&small, &large]
        .map(|tiers| tiers.plan_for(&schedule, std::slice::from_ref(&plan)).unwrap());
    assert!(Arc::ptr_eq(&plan, &same) && !Arc::ptr_eq(&plan, &other));
    assert!((1..plan.on_disk).contains(&other.on_disk), "{} {}", plan.on_disk, other.on_disk);
}
