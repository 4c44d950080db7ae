//! The simulator plays a plan against the cost model, action by action, as a session plays the plan
//! against a device.
//!
//! One stream computes, copies and codes. One engine per direction moves snapshots; with a disk,
//! one more engine reads and one writes. The order is the session's: a SAVE waits until its slot
//! has been read, copies the state, and issues the write-back of the snapshot. A RESTORE waits for
//! its transfer and copies the state. After each SAVE and RESTORE, the transfers that are due are
//! issued. Each transfer waits for its engine, its slot and its snapshot.
//!
//! The schedule is generated during the simulation, so that a million steps need no more memory
//! than their plan.

use super::budgets::Budgets;
use super::costs::Costs;
use super::player::Player;
use super::simulation::Simulation;
use super::timeline::Timeline;
use crate::error::{fail, Result};
use crate::plan::Plan;
use crate::schedule::{Kind, Schedule};

/// Plays `plan`, which must be a plan of `schedule`. Fails if the plan exceeds a budget; the error
/// text says which budgets would be enough.
pub fn simulate(
    schedule: &Schedule,
    plan: &Plan,
    costs: &Costs,
    budgets: Budgets,
) -> Result<Simulation> {
    let (simulation, _) =
        play(schedule, plan, costs, budgets, None, f64::INFINITY)?.unwrap_or_default();
    Ok(simulation)
}

/// As `simulate`, and also returns when each part of the machine was busy.
pub fn simulate_timeline(
    schedule: &Schedule,
    plan: &Plan,
    costs: &Costs,
    budgets: Budgets,
) -> Result<(Simulation, Timeline)> {
    let timeline = Some(Timeline::default());
    Ok(play(schedule, plan, costs, budgets, timeline, f64::INFINITY)?.unwrap_or_default())
}

/// As `simulate`, but returns `None` as soon as waiting alone takes longer than `patience` seconds.
pub(crate) fn simulate_within(
    schedule: &Schedule,
    plan: &Plan,
    costs: &Costs,
    budgets: Budgets,
    patience: f64,
) -> Result<Option<Simulation>> {
    Ok(play(schedule, plan, costs, budgets, None, patience)?.map(|(simulation, _)| simulation))
}

fn play(
    schedule: &Schedule,
    plan: &Plan,
    costs: &Costs,
    budgets: Budgets,
    timeline: Option<Timeline>,
    patience: f64,
) -> Result<Option<(Simulation, Timeline)>> {
    let mut player = Player::new(plan, costs, budgets, timeline)?;
    for action in schedule.actions() {
        player.act(action);
        if action.kind == Kind::Error || player.is_full() {
            return fail!(
                Memory,
                "no memory to predict the run time of the plan: take fewer time steps or snapshots"
            );
        }
        if player.tally.waiting > patience {
            return Ok(None);
        }
    }
    Ok(Some(player.finish(costs.problem_ideal(schedule.steps))))
}

#[cfg(test)]
#[path = "simulate_tests.rs"]
mod tests;
