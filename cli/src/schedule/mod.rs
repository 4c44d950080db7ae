//! `gpuzip schedule`: makes a schedule, checks it and counts its actions.

mod draw;

use crate::options::ScheduleOptions;
use crate::output::{emit, write_drawing, OutputOptions};
use crate::{complain, Failure};
use clap::Args;
use gpuzip::error::Result;
use gpuzip::schedule::{forward_steps, validate_schedule, Algorithm, Schedule, Summary};
use serde_json::{Map, Value};
use std::io::{self, Write};
use std::path::PathBuf;

/// Generate a schedule, prove it by replaying it, and count its actions
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    schedule: ScheduleOptions,
    /// FORWARDs in a row as one action, `<first>..<last> FORWARD` (both included), as with
    /// range_actions = 1; no trace file. With --every BACKWARDs are such ranges, too
    #[arg(long)]
    range: bool,
    /// Draw the schedule into this file: the time step that the application is at over the steps
    /// done, and the snapshots stored meanwhile
    #[arg(long, value_name = "FILE.svg")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    output: OutputOptions,
}

/// Says on standard error that what follows walks through a schedule with very many steps, how long that
/// takes, and what to give instead.
pub fn announce(schedule: &Schedule) {
    if let Some(why) = schedule.why_it_takes_long() {
        complain(format_args!("{why}\n"));
    }
}

/// Counts the actions of a schedule by the validator's replay; where a replay would take long, by
/// formulas.
pub fn counts(schedule: &Schedule) -> Result<Map<String, Value>> {
    let macro_steps = schedule.macro_steps();
    let has_formulas = !matches!(schedule.algorithm, Algorithm::Online | Algorithm::Trace);
    let is_replayed = schedule.why_it_takes_long().is_none() || !has_formulas;
    let summary = match is_replayed {
        true => {
            announce(schedule);
            validate_schedule(schedule, false)?
        }
        false => by_formulas(schedule)?,
    };
    let max_live = if is_replayed { summary.max_live.into() } else { Value::Null };
    let values: [(&str, Value); 12] = [
        ("algorithm", schedule.algorithm.name().into()),
        ("steps", macro_steps.time_steps().into()),
        ("every", macro_steps.every().into()),
        ("sweeps", schedule.sweeps().into()),
        ("snapshots", schedule.snapshots.into()),
        ("forward_steps", summary.forward_steps.into()),
        ("saves", summary.saves.into()),
        ("restores", summary.restores.into()),
        ("backward_steps", summary.backward_steps.into()),
        ("max_live", max_live),
        ("actions", summary.actions.into()),
        ("replayed", false.into()),
    ];
    let is_shown = |name: &str| match name {
        "every" => macro_steps.every() > 1,
        "sweeps" => schedule.sweeps() > 1,
        "replayed" => !is_replayed,
        _ => true,
    };
    let shown = values.into_iter().filter(|(name, _)| is_shown(name));
    Ok(shown.map(|(name, value)| (name.to_string(), value)).collect())
}

/// Counts the actions of a generated schedule by formulas. Each reverse sweep has an action for every state
/// that it reverses, and TERMINATE.
fn by_formulas(schedule: &Schedule) -> Result<Summary> {
    let macro_steps = schedule.macro_steps();
    let forward_steps = schedule.forward_steps() * u64::from(macro_steps.every());
    let accesses = schedule.accesses()?;
    let (restores, sweeps) = (schedule.restores(), u64::from(schedule.sweeps()));
    Ok(Summary {
        forward_steps,
        saves: accesses - restores,
        restores,
        backward_steps: sweeps * u64::from(macro_steps.time_steps()),
        actions: forward_steps + accesses + sweeps * (u64::from(schedule.steps) + 1),
        ..Summary::default()
    })
}

/// Writes the lines of a trace, with ranges of time steps as `<first>..<last> <ACTION>`; with `join`
/// consecutive FORWARDs are one line.
fn write_ranges(schedule: &Schedule, join: bool, out: &mut dyn Write) -> io::Result<()> {
    for (action, end) in schedule.ranges(join) {
        let name = action.kind.name();
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
    if schedule.algorithm == Algorithm::Online {
        let fewest = forward_steps(schedule.steps.into(), schedule.snapshots.into());
        values.insert("revolve_forward_steps".into(), fewest.into());
    }
    if arguments.range {
        announce(&schedule);
        values.insert("actions".into(), schedule.ranges(true).count().into());
    }
    if let Some(file) = &arguments.svg {
        write_drawing(file, &draw::draw(&schedule)?)?;
    }
    let listing = |out: &mut dyn Write| write_ranges(&schedule, arguments.range, out);
    Ok(emit(values, "schedule", &listing, &arguments.output)?)
}
