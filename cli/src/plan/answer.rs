//! The answer in one sentence: which plan is the quickest, how long a shot takes, and what costs most.

use super::costs::Machine;
use super::text::name;
use crate::units::{seconds, size};
use gpuzip::choice::{Candidate, Coded, Cut};
use gpuzip::error::Result;
use gpuzip::predict::{simulate, Costs};

/// What takes most of the time above the steps alone, and its part of that time, from 0 to 1.
pub struct Binding {
    pub what: &'static str,
    pub share: f64,
}

/// Returns what takes most of the time above n forward steps and the backward steps; `None` if nothing
/// takes any.
pub fn binding(best: &Candidate, machine: &Machine) -> Result<Option<Binding>> {
    let s = &best.simulation;
    let above = s.makespan - s.problem_ideal;
    let disk = waits_for_disk(best, machine)?;
    let parts = [
        ("recomputation", s.plan_ideal - s.problem_ideal),
        ("copies", s.copying),
        ("codec", s.coding),
        ("link", s.waiting - disk),
        ("disk", disk),
    ];
    let largest = parts.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
    let counts = |part: &(&str, f64)| part.1 > 1e-9 * s.makespan;
    Ok(largest.filter(counts).map(|(what, part)| Binding { what, share: (part / above).min(1.0) }))
}

/// Seconds for which the stream waits only because the disk takes time: the same plan is played with a
/// disk that takes none. On a CPU, which has no link, every wait is one for the disk.
fn waits_for_disk(best: &Candidate, machine: &Machine) -> Result<f64> {
    let waiting = best.simulation.waiting;
    if best.simulation.disk_peak == 0 || machine.cpu {
        return Ok(if machine.cpu { waiting } else { 0.0 });
    }
    let tiers = &machine.alternatives[best.alternative][0];
    let costs = Costs { disk_read: 0.0, disk_write: 0.0, ..tiers.costs.clone() };
    let quick = simulate(&best.schedule, &best.plans[0], &costs, tiers.budgets)?;
    Ok((waiting - quick.waiting).max(0.0))
}

/// Returns the sentence. `over_bound` is the time over the lower bound of all nested schedules, if it is
/// known.
pub fn sentence(
    best: &Candidate,
    machine: &Machine,
    binding: Option<&Binding>,
    over_bound: Option<f64>,
) -> String {
    let s = &best.simulation;
    let what = match binding {
        None => "nothing takes time beside them".into(),
        Some(Binding { what, share }) => {
            let what = match *what {
                "recomputation" => "recomputed steps",
                "copies" => "copies of snapshots",
                "codec" => "compression and decompression",
                "link" => "waits for the link",
                _ => "waits for the disk",
            };
            format!("{what} are {:.0} % of what is above them", share * 100.0)
        }
    };
    // Rounded up, so that the plan is not farther from the bound than the sentence says.
    let bound = over_bound.map_or(String::new(), |over| {
        let above = ((over - 1.0) * 1e3 - 1e-6).ceil().max(0.0) / 10.0;
        format!("; at most {above:.1} % above any nested schedule")
    });
    let sweeps = match machine.sweeps {
        1 => String::new(),
        sweeps => format!(" of {sweeps} reverse sweeps"),
    };
    format!(
        "{} {} in {}: {} a shot{sweeps}, {:.2} times the steps alone; {what}{bound}.",
        name(best),
        stored(best, machine),
        memory(best, machine),
        seconds(s.makespan),
        s.over_problem_ideal()
    )
}

fn stored(best: &Candidate, machine: &Machine) -> String {
    let way = &machine.ways[best.alternative];
    let how = match &way.codec {
        None => "with raw snapshots".into(),
        Some(codec) if matches!(way.coded, Coded::Moved(_)) && machine.cpu => {
            format!("with raw and with compressed snapshots ({})", codec.name)
        }
        Some(codec) if matches!(way.coded, Coded::Moved(_)) => {
            format!(
                "with snapshots that are raw while they stay on the device and compressed otherwise ({})",
                codec.name
            )
        }
        Some(codec) if matches!(way.coded, Coded::ByLanes(_)) => {
            let threads = machine.threads();
            let coded =
                if threads == 1 { "one more thread codes" } else { "two more threads code" };
            format!("with compressed snapshots ({}), which {coded}", codec.name)
        }
        Some(codec) => format!("with compressed snapshots ({})", codec.name),
    };
    let levels = if way.cut == Cut::Levels { " that share time levels" } else { "" };
    let copies = if machine.zero_copy { ", zero copy," } else { "" };
    format!("{how}{levels}{copies}")
}

/// Where the snapshots live, with the most bytes in use at a time.
fn memory(best: &Candidate, machine: &Machine) -> String {
    let s = &best.simulation;
    let (on_device, on_host) = match machine.cpu {
        true => ((s.device_peak + s.host_peak, "memory"), (0, "")),
        false => ((s.device_peak, "device memory"), (s.host_peak, "host memory")),
    };
    let places: Vec<String> = [on_device, on_host, (s.disk_peak, "disk")]
        .into_iter()
        .filter(|(bytes, _)| *bytes > 0)
        .map(|(bytes, place)| format!("{} of {place}", size(bytes)))
        .collect();
    match &places[..] {
        [] => "no memory".into(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}
