//! `gpuzip report`: compares a run with its plan, from the timeline file of the run.

mod compare;
mod draw;
mod run;

use crate::options::at_least_one;
use crate::output::{emit_json, folder_of_drawings, is_svg, write_drawing};
use crate::units::seconds;
use crate::Failure;
use clap::Args;
use compare::{Columns, Values};
use gpuzip::error::Result;
use run::{Run, Shot};
use serde_json::{json, Map, Value};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Compare runs with their plans: what was predicted, what would be predicted at the costs of the
/// run, and what was measured
#[derive(Args)]
pub struct Arguments {
    /// Timelines that runs wrote (trace_out)
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    /// The shot to show, from 1; without it, the one of median makespan
    #[arg(long, value_name = "K", value_parser = at_least_one, allow_hyphen_values = true)]
    shot: Option<u32>,
    /// Draw the run beside the plan: into this file, if its name ends in .svg and there is one
    /// RUN, or else into this folder as <RUN's name>.svg. The folder is made if the one that
    /// it is to be in exists
    #[arg(long, value_name = "FILE.svg|DIR")]
    svg: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> std::result::Result<(), Failure> {
    let mut found = Vec::new();
    for path in &arguments.runs {
        let run = Run::read(path)?;
        let shown = run.shown(arguments.shot.map(u64::from))?;
        let columns = Columns::of(shown).map_err(|e| e.within(path.display()))?;
        if let Some(target) = &arguments.svg {
            write_drawing(
                &drawing_of(path, target, arguments.runs.len())?,
                &draw::draw(&run, shown, &columns),
            )?;
        }
        match arguments.json {
            true => found.push(of_run(&run, shown, &columns)),
            false => print(&run, shown, &columns)?,
        }
    }
    if arguments.json {
        emit_json(Map::from_iter([("runs".to_string(), Value::Array(found))]))?;
    }
    Ok(())
}

/// Returns the file for the drawing of a run.
fn drawing_of(run: &Path, target: &Path, runs: usize) -> Result<PathBuf> {
    if runs == 1 && is_svg(target) {
        return Ok(target.to_path_buf());
    }
    folder_of_drawings(target)?;
    Ok(target.join(run.with_extension("svg").file_name().unwrap_or_default()))
}

fn of_run(run: &Run, shown: &Shot, columns: &Columns) -> Value {
    let shots: Vec<Value> = run
        .shots
        .iter()
        .map(|shot| json!({"shot": shot.number(), "makespan_s": shot.makespan()}))
        .collect();
    json!({
        "file": run.path.display().to_string(),
        "device": run.device,
        "shots": shots,
        "shot": shown.number(),
        "configuration": shown.configuration(),
        "planned": columns.planned.object(),
        "at_measured_costs": columns.remade.object(),
        "measured": columns.measured.object(),
    })
}

fn print(run: &Run, shown: &Shot, columns: &Columns) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    writeln!(out, "{}: {}", run.path.display(), draw::title(run, shown))?;
    if run.shots.len() > 1 {
        let mut times: Vec<f64> = run.shots.iter().map(Shot::makespan).collect();
        times.sort_by(f64::total_cmp);
        let [least, median, most] =
            [0, (times.len() - 1) / 2, times.len() - 1].map(|k| seconds(times[k]));
        writeln!(
            out,
            "shot {} of {}; makespans {least} to {most}, median {median}",
            shown.number(),
            run.shots.len()
        )?;
    }
    let texts = [&columns.planned, &columns.remade, &columns.measured].map(Values::texts);
    let header = ["", "planned", "at its costs", "measured"].map(String::from);
    let rows = (0..texts[0].len()).map(|k| {
        [
            texts[0][k].0.replace('_', " "),
            texts[0][k].1.clone(),
            texts[1][k].1.clone(),
            texts[2][k].1.clone(),
        ]
    });
    for [name, planned, remade, measured] in std::iter::once(header).chain(rows) {
        writeln!(out, "{name:20}{planned:>14}{remade:>14}{measured:>14}")?;
    }
    writeln!(out)?;
    out.flush()
}
