//! The table of plans.

use super::costs::Machine;
use super::text::{forward_steps, name};
use crate::units::{seconds, size};
use gpuzip::choice::Candidate;
use gpuzip::predict::Simulation;
use gpuzip::schedule::Algorithm;
use std::io::{self, BufWriter, Write};

/// Prints a table of these plans of `all` plans, the fastest first.
pub(super) fn table(shown: &[Candidate], all: usize, machine: &Machine) -> io::Result<()> {
    let header = [
        "plan",
        "snapshots",
        "chunk",
        "inner",
        "stored",
        "predicted",
        "x ideal",
        "forward",
        "stall",
    ];
    let places = of_places(&Simulation::default(), machine);
    let names = header.into_iter().chain(places.iter().map(|(name, _)| *name));
    let mut rows: Vec<Vec<String>> = vec![names.map(String::from).collect()];
    for candidate in shown {
        let (s, c) = (&candidate.simulation, &candidate.schedule);
        let some = |number: u32| if number == 0 { "-".into() } else { number.to_string() };
        let inner = if c.has_inner_slots() { c.inner() } else { 0 };
        let mut row = vec![
            name(candidate),
            c.snapshots.to_string(),
            some(if c.algorithm == Algorithm::Uniform { 0 } else { c.chunk }),
            some(inner),
            machine.ways[candidate.alternative].to_string(),
            seconds(s.makespan),
            format!("{:.2}", s.over_problem_ideal()),
            forward_steps(candidate).to_string(),
            format!("{:.0} %", s.stall() / s.makespan * 100.0),
        ];
        row.extend(of_places(s, machine).into_iter().map(|(_, value)| value));
        rows.push(row);
    }
    let width = |k: usize| rows.iter().map(|row| row[k].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    let mut out = BufWriter::new(io::stdout().lock());
    for row in &rows {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .enumerate()
            .map(
                |(k, (cell, &w))| if k == 0 { format!("{cell:w$}") } else { format!("{cell:>w$}") },
            )
            .collect();
        writeln!(out, "{}", cells.join("  "))?;
    }
    writeln!(
        out,
        "\npredicted: time of a shot. x ideal: this time over that of the forward and backward steps alone. forward: forward steps, repeated ones included. stall: share of"
    )?;
    writeln!(
        out,
        "the time in which the application's stream waits for gpuzip: it copies or codes a snapshot, or waits for a transfer.{}",
        if machine.cpu { "" } else { " h2d, d2h:\nsnapshots moved to the device and to the host." }
    )?;
    if shown.len() < all {
        let rest = all - shown.len();
        writeln!(
            out,
            "Not shown, more than 10 % slower: {rest}; --all shows them, and GPUZIP 2.x's recipes."
        )?;
    }
    if let Some(macro_steps) = machine.macro_steps {
        writeln!(
            out,
            "--every {}: the {} time steps count as {} steps for snapshots and chunks; times are those of all time steps.",
            macro_steps.every(),
            macro_steps.time_steps(),
            macro_steps.count()
        )?;
    }
    if machine.sweeps > 1 {
        writeln!(
            out,
            "--sweeps {}: a shot has so many reverse sweeps, each with n backward steps.",
            machine.sweeps
        )?;
    }
    writeln!(out)?;
    out.flush()
}

/// What snapshots take of each place, and how many of them move: the names of columns, and their values.
fn of_places(s: &Simulation, machine: &Machine) -> Vec<(&'static str, String)> {
    let moves = |count: u64| count.to_string();
    let mut places = match machine.cpu {
        true => vec![("memory", size(s.device_peak.saturating_add(s.host_peak)))],
        false => vec![("device", size(s.device_peak)), ("host", size(s.host_peak))],
    };
    if machine.budgets.disk > 0 {
        places.push(("disk", size(s.disk_peak)));
    }
    match machine.cpu {
        true if machine.budgets.disk > 0 => {
            places.extend([
                ("disk reads", moves(s.disk_reads)),
                ("disk writes", moves(s.disk_writes)),
            ]);
        }
        true => {}
        false => places.extend([("h2d", moves(s.h2d)), ("d2h", moves(s.d2h))]),
    }
    places
}
