//! GPUZIP 2.x's recipes, to compare with: its two algorithms with the snapshots that it takes, LRU
//! and PSA.

use super::search::Candidate;
use super::tier_spec::TierSpec;
use crate::error::Result;
use crate::plan::{Index, Plan, Policy};
use crate::predict::simulate;
use crate::schedule::{adjust, Schedule};
use std::sync::Arc;

/// What Revolve with `adjust` snapshots, and Uniform as published with all that the host holds,
/// would take on these tiers. Every snapshot is written to the host, so that one that does not hold
/// them all leaves the recipe out.
pub fn published(steps: u32, sizes: &TierSpec) -> Result<Vec<Candidate>> {
    let most = sizes.host.unwrap_or(u32::MAX).min(steps.saturating_sub(1).max(1));
    let mut recipes = Vec::new();
    if adjust(steps as u64) <= most {
        recipes.push(Schedule::revolve(steps, adjust(steps as u64))?);
    }
    if most > 0 {
        recipes.push(Schedule::uniform_published(steps, most)?);
    }
    recipes.into_iter().map(|schedule| candidate(schedule, sizes)).collect()
}

fn candidate(schedule: Schedule, sizes: &TierSpec) -> Result<Candidate> {
    let plan =
        Plan::of(&Index::new(&schedule)?, sizes.cache.unwrap_or(schedule.snapshots), Policy::Lru)?;
    let simulation = simulate(&schedule, &plan, &sizes.costs, sizes.budgets)?;
    Ok(Candidate { alternative: 0, schedule, plans: vec![Arc::new(plan)], simulation })
}
