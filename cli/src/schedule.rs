//! `gpuzip schedule`: generates a schedule, proves it and counts its actions.

use crate::options::ScheduleOptions;
use crate::output::{emit, OutputOptions};
use crate::Failure;
use clap::Args;
use gpuzip::error::Result;
use gpuzip::schedule::{trace, validate, Schedule};
use serde_json::{Map, Value};

/// Generate a schedule, prove it by replaying it, and count its actions
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    schedule: ScheduleOptions,
    #[command(flatten)]
    output: OutputOptions,
}

/// The counts of a schedule, from the validator's replay of its actions rather than from formulas.
pub fn counts(schedule: &Schedule) -> Result<Map<String, Value>> {
    let summary = validate(schedule.actions(), schedule.steps, Some(schedule.snapshots))?;
    let values: [(&str, Value); 9] = [
        ("algorithm", schedule.algorithm.name().into()),
        ("steps", schedule.steps.into()),
        ("snapshots", schedule.snapshots.into()),
        ("forward_steps", summary.forward_steps.into()),
        ("saves", summary.saves.into()),
        ("restores", summary.restores.into()),
        ("backward_steps", summary.backward_steps.into()),
        ("max_live", summary.max_live.into()),
        ("actions", summary.actions.into()),
    ];
    Ok(values.into_iter().map(|(name, value)| (name.to_string(), value)).collect())
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> std::result::Result<(), Failure> {
    let schedule = arguments.schedule.schedule(0)?;
    let values = counts(&schedule)?;
    emit(values, "schedule", &|out| trace::write(schedule.actions(), out), &arguments.output)?;
    Ok(())
}
