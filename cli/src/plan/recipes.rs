//! The recipes of GPUZIP 2.x, for comparison: its two algorithms with its numbers of snapshots, its
//! LRU replacement and its prefetching PSA.

use gpuzip::choice::{Candidate, TierSpec};
use gpuzip::error::Result;
use gpuzip::plan::{Index, Plan, Policy};
use gpuzip::predict::simulate;
use gpuzip::schedule::{adjust, Schedule};
use std::sync::Arc;

/// Predicts GPUZIP's recipes on these tiers: Revolve with `adjust` snapshots, and Uniform as
/// published with as many snapshots as the host pool holds. GPUZIP writes every snapshot to the
/// host; a recipe whose snapshots do not all fit there, or that takes too many forward steps to be
/// planned, is left out. The recipes have one reverse sweep: there are none for several.
pub fn published(steps: u32, tiers: &TierSpec) -> Result<Vec<Candidate>> {
    if tiers.sweeps > 1 {
        return Ok(Vec::new());
    }
    let most = tiers.host.unwrap_or(u32::MAX).min(steps.saturating_sub(1).max(1));
    let mut recipes = Vec::new();
    if adjust(steps as u64) <= most {
        recipes.push(Schedule::revolve(steps, adjust(steps as u64))?);
    }
    if most > 0 {
        recipes.push(Schedule::uniform_published(steps, most)?);
    }
    recipes.retain(|schedule| schedule.check_length().is_ok());
    let candidate = |schedule: Schedule| {
        let cache = tiers.cache.unwrap_or(schedule.snapshots);
        let plan = Plan::of(&Index::new(&schedule)?, cache, Policy::Lru)?;
        let simulation = simulate(&schedule, &plan, &tiers.costs, tiers.budgets)?;
        Ok(Candidate { alternative: 0, schedule, plans: vec![Arc::new(plan)], simulation })
    };
    recipes.into_iter().map(candidate).collect()
}
