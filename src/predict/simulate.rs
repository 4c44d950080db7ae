//! The simulator: plays a plan against the cost model, event by event, as a session plays it
//! against a device.
//!
//! One stream computes, copies and codes; one engine per direction moves snapshots; with a disk,
//! one reads and one writes. The order is the session's: a SAVE waits until its slot has been read,
//! copies, and sends the snapshot on; a RESTORE waits for its transfer and copies; after each event
//! the transfers that are due are issued, each waiting for its engine, its slot and its snapshot.
//! The schedule is generated as it goes, so that a million steps need no more memory than their
//! plan.

use super::budgets::Budgets;
use super::costs::Costs;
use super::player::Player;
use super::simulation::Simulation;
use super::timeline::Timeline;
use crate::error::{fail, Result};
use crate::plan::Plan;
use crate::schedule::{Kind, Schedule};

/// Plays `plan`, which is one of `schedule`. A budget that it exceeds is an error that says what
/// would do.
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

/// The same, and what was busy when.
pub fn simulate_timeline(
    schedule: &Schedule,
    plan: &Plan,
    costs: &Costs,
    budgets: Budgets,
) -> Result<(Simulation, Timeline)> {
    let timeline = Some(Timeline::default());
    Ok(play(schedule, plan, costs, budgets, timeline, f64::INFINITY)?.unwrap_or_default())
}

/// The same, but `None` as soon as waiting alone takes longer than `patience` seconds.
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
