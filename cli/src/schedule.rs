//! `gpuzip schedule`: makes a schedule, checks it and counts its actions.

use crate::options::ScheduleOptions;
use crate::output::{emit, OutputOptions};
use crate::Failure;
use clap::Args;
use gpuzip::error::Result;
use gpuzip::schedule::{trace, validate, Ranges, Schedule};
use serde_json::{Map, Value};
use std::io::{self, Write};

/// Generate a schedule, prove it by replaying it, and count its actions
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    schedule: ScheduleOptions,
    /// FORWARDs in a row as one action, `<first>..<last> FORWARD` (both included), as with
    /// range_actions = 1; no trace file
    #[arg(long)]
    range: bool,
    #[command(flatten)]
    output: OutputOptions,
}

/// Counts the actions of a schedule by the validator's replay, not by formulas.
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

/// Writes the lines of a trace, with consecutive FORWARDs as one line `<first>..<last> FORWARD`.
fn write_ranges(schedule: &Schedule, out: &mut dyn Write) -> io::Result<()> {
    for (action, end) in Ranges::new(schedule.actions(), true) {
        let name = trace::name(action.kind);
        if end > action.ts {
            writeln!(out, "{}..{end} {name}", action.ts)?;
        } else {
            writeln!(out, "{} {name}", action.ts)?;
        }
    }
    out.flush()
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> std::result::Result<(), Failure> {
    let schedule = arguments.schedule.schedule(0)?;
    let mut values = counts(&schedule)?;
    if arguments.range {
        values.insert("actions".into(), Ranges::new(schedule.actions(), true).count().into());
        emit(values, "schedule", &|out| write_ranges(&schedule, out), &arguments.output)?;
    } else {
        emit(values, "schedule", &|out| trace::write(schedule.actions(), out), &arguments.output)?;
    }
    Ok(())
}
