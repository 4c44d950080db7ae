//! Simulates the plan of a shot again and puts it beside the measurements of that shot.

use super::run::Shot;
use crate::options::refuse;
use crate::units::{seconds, size};
use gpuzip::error::Result;
use gpuzip::plan::{Claims, Index, Plan, Policy};
use gpuzip::predict::{simulate_timeline, Budgets, Costs, Row, Simulation, Timeline, Times};
use gpuzip::schedule::{Algorithm, MacroSteps, Schedule, Trace, Tree};
use gpuzip::timeline::Row as Lane;
use serde_json::{json, Map, Value};
use std::path::Path;
use std::sync::Arc;

const UPLOADS: [Lane; 2] = [Lane::Upload, Lane::DirectUpload];
const DOWNLOADS: [Lane; 2] = [Lane::Download, Lane::DirectDownload];

/// One column of the comparison: seconds, factors, counts and bytes by name.
pub struct Values(Vec<(&'static str, f64)>);

impl Values {
    /// Returns the values as JSON, with counts and bytes as whole numbers.
    pub fn object(&self) -> Map<String, Value> {
        let value = |name: &str, value: f64| {
            if is_whole(name) {
                json!(value as u64)
            } else {
                json!(value)
            }
        };
        self.0.iter().map(|&(name, number)| (name.to_string(), value(name, number))).collect()
    }

    /// Returns names and values as text.
    pub fn texts(&self) -> Vec<(String, String)> {
        let text = |name: &str, value: f64| match name {
            _ if name.ends_with("_s") => seconds(value),
            _ if name.starts_with("over_") => format!("{value:.3}"),
            _ if name.ends_with("_bytes") || name.ends_with("_peak") => size(value as u64),
            _ => format!("{value}"),
        };
        self.0
            .iter()
            .map(|&(name, value)| (name.trim_end_matches("_s").to_string(), text(name, value)))
            .collect()
    }

    /// Returns the value of this name.
    pub fn get(&self, name: &str) -> f64 {
        self.0.iter().find(|(other, _)| *other == name).map_or(f64::NAN, |(_, value)| *value)
    }
}

fn is_whole(name: &str) -> bool {
    !(name.ends_with("_s") || name.starts_with("over_"))
}

/// Three columns: the prediction at the costs of the plan, the prediction of the same simulator at
/// the costs that the run measured, and the measurement.
pub struct Columns {
    pub planned: Values,
    pub remade: Values,
    pub measured: Values,
    /// The simulated timeline of the plan at the costs of the run; then the timeline of the run.
    pub simulated: Timeline,
    pub found: Timeline,
}

impl Columns {
    pub fn of(shot: &Shot) -> Result<Self> {
        let schedule = schedule(shot)?;
        let plan = plan(shot, &schedule)?;
        let planned = planned_costs(shot)?;
        let budgets = match shot.budgets() {
            Some((host, disk)) => Budgets { host, disk, ..Budgets::NONE },
            None => Budgets::NONE,
        };
        let has_disk = shot.budgets().is_some();
        let simulated = |costs: &Costs| {
            let costs = costs.clone().in_macro_steps(schedule.macro_steps());
            simulate_timeline(&schedule, &plan, &costs, budgets)
        };
        let (first, first_timeline) = simulated(&planned)?;
        let remade = measured_costs(shot, &planned, &first)?;
        let (second, simulated) = simulated(&remade)?;
        Ok(Columns {
            planned: predicted(&first, &first_timeline, has_disk),
            remade: predicted(&second, &simulated, has_disk),
            measured: measured(shot, &schedule)?,
            simulated,
            found: timeline(shot),
        })
    }
}

fn schedule(shot: &Shot) -> Result<Schedule> {
    let macro_steps = MacroSteps::new(shot.every(), shot.count_of("steps")?);
    let (steps, snapshots) = (macro_steps.count(), shot.count_of("snapshots")?);
    let (chunk, inner) = (shot.count_of("chunk")?, shot.count_of("inner")?);
    let algorithm =
        Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == shot.text_of("algorithm"));
    let schedule = match algorithm {
        Some(Algorithm::Trace) => Ok(Schedule::trace(Arc::new(Trace::load(
            Path::new(shot.text_of("trace_file")),
            Some(steps),
        )?))),
        Some(Algorithm::Revolve) => Schedule::revolve(steps, snapshots),
        Some(Algorithm::Uniform) if shot.is("published") => {
            Schedule::uniform_published(steps, snapshots)
        }
        Some(Algorithm::Uniform) => Schedule::uniform(steps, snapshots),
        Some(Algorithm::Zcut) => Schedule::zcut(steps, snapshots, chunk),
        Some(Algorithm::TwoLevel) => Schedule::two_level(steps, snapshots, chunk, inner),
        Some(Algorithm::Hrevolve) => match tree(shot, steps)? {
            Some(tree) => Schedule::of_tree(tree),
            None => Schedule::hrevolve(steps, snapshots, chunk, inner),
        },
        Some(Algorithm::Online) => Schedule::online(steps, snapshots, shot.is("after_save")),
        Some(Algorithm::StoreAll) => Schedule::store_all(steps),
        None => {
            refuse(format!("algorithm {:?}: not one of this version", shot.text_of("algorithm")))
        }
    };
    let schedule = schedule?.through(shot.count_of("for_cache")?).in_sweeps(shot.sweeps())?;
    Ok(schedule.in_macro_steps(macro_steps))
}

/// The tree of a short schedule that a search refined. Timelines of versions without them name none.
fn tree(shot: &Shot, steps: u32) -> Result<Option<Tree>> {
    let text = shot.text_of("tree");
    if text.is_empty() {
        return Ok(None);
    }
    match text.parse().ok().and_then(|bits| Tree::of_bits(bits, steps)) {
        Some(tree) => Ok(Some(tree)),
        None => refuse(format!("tree {text:?}: not a schedule of {steps} steps")),
    }
}

fn plan(shot: &Shot, schedule: &Schedule) -> Result<Plan> {
    let cache = shot.count_of("cache")?;
    let raw = shot.raw_slots();
    let mut index = Index::new(schedule)?;
    if shot.previous_bytes() > 0 {
        let in_spare = shot.is("zero_copy") && !Plan::always_has_slot(true, 2, cache);
        index = index.in_levels(match planned_costs(shot)?.compressed {
            true => Claims::OfStatesNotSteppedFrom,
            false if in_spare => Claims::None,
            false => Claims::All,
        })?;
    }
    if raw > 0 && raw == cache {
        return Plan::coded_by_lanes(&index, cache, shot.is("zero_copy"));
    }
    if raw > 0 {
        let coded = cache.saturating_sub(raw);
        return Plan::mixed(&index, raw, coded, shot.is("zero_copy"));
    }
    if shot.is("zero_copy") {
        return Plan::handing_over(&index, cache);
    }
    let policy = if shot.text_of("policy") == Policy::Lru.name() {
        Policy::Lru
    } else {
        Policy::Clairvoyant
    };
    Plan::of(&index, cache, policy)
}

fn planned_costs(shot: &Shot) -> Result<Costs> {
    let stored = shot.cost("stored_bytes")?;
    Ok(Costs {
        forward: Times::Each(shot.cost("forward")?),
        backward: Times::Each(shot.cost("backward")?),
        copy: shot.cost("copy")?,
        compress: shot.cost("compress")?,
        decompress: shot.cost("decompress")?,
        upload: shot.cost("upload")?,
        download: shot.cost("download")?,
        disk_read: if shot.budgets().is_some() { shot.cost("disk_read")? } else { 0.0 },
        disk_write: if shot.budgets().is_some() { shot.cost("disk_write")? } else { 0.0 },
        state_bytes: shot.cost("state_bytes")? as u64,
        stored_bytes: stored as u64,
        // Timelines of versions whose lanes only copied do not say it.
        moved_bytes: shot.cost("moved_bytes").unwrap_or(stored) as u64,
        slot_bytes: shot.cost("slot_bytes")? as u64,
        raw_slot_bytes: shot.cost("state_bytes")? as u64,
        previous_bytes: shot.previous_bytes(),
        one_engine: shot.has_one_engine(),
        compressed: shot.is_compressed(),
    })
}

/// Returns the costs of the plan, `planned`, with the shot's mean times in place of those that it
/// measured. `predicted` is the simulation with the costs of the plan.
fn measured_costs(shot: &Shot, planned: &Costs, predicted: &Simulation) -> Result<Costs> {
    let mean = |rows: &[Lane], names: &[&str], else_: f64| match shot.busy(rows, names) {
        (_, 0) => else_,
        (seconds, count) => seconds / count as f64,
    };
    let per =
        |seconds: f64, steps: f64, else_: f64| if steps > 0.0 { seconds / steps } else { else_ };
    let step = |names: &[&str], steps: f64, else_: &Times| {
        Times::Each(per(shot.busy(&[Lane::Compute], names).0, steps, else_.of(0)))
    };
    let costs = Costs {
        forward: step(&["forward", "recompute"], shot.stat("forward_steps")?, &planned.forward),
        backward: step(&["backward"], shot.stat("backward_steps")?, &planned.backward),
        ..planned.clone()
    };
    let (up, down) = (shot.stat("h2d_bytes")?, shot.stat("d2h_bytes")?);
    if planned.previous_bytes > 0 {
        // A copy or a transfer moves all of a state or a part, and the costs are for a whole
        // state.
        let whole = |rows: &[Lane], names: &[&str], states: f64, else_: f64| {
            per(shot.busy(rows, names).0, states, else_)
        };
        let bytes = planned.stored_bytes.max(1) as f64;
        let copies = if planned.copy > 0.0 { predicted.copying / planned.copy } else { 0.0 };
        return Ok(Costs {
            copy: whole(&[Lane::Codec], &["copy"], copies, planned.copy),
            upload: whole(&UPLOADS, &[], up / bytes, planned.upload),
            download: whole(&DOWNLOADS, &[], down / bytes, planned.download),
            ..costs
        });
    }
    let (uploads, downloads) = (shot.stat("h2d")?, shot.stat("d2h")?);
    let moved = per(up + down, uploads + downloads, planned.moved_bytes as f64).round() as u64;
    if planned.moved_bytes < planned.stored_bytes {
        // A download is two spans of a lane that codes: a record is compressed, and then placed.
        let each = |rows: &[Lane], count, else_| per(shot.busy(rows, &[]).0, count, else_);
        return Ok(Costs {
            copy: mean(&[Lane::Codec], &["copy"], planned.copy),
            upload: each(&UPLOADS, uploads, planned.upload),
            download: each(&DOWNLOADS, downloads, planned.download),
            moved_bytes: moved,
            ..costs
        });
    }
    Ok(Costs {
        copy: mean(&[Lane::Codec], &["copy"], planned.copy),
        compress: mean(&[Lane::Codec], &["compress"], planned.compress),
        decompress: mean(&[Lane::Codec], &["decompress"], planned.decompress),
        disk_read: mean(&[Lane::DiskRead], &[], planned.disk_read),
        disk_write: mean(&[Lane::DiskWrite], &[], planned.disk_write),
        upload: mean(&UPLOADS, &[], planned.upload),
        download: mean(&DOWNLOADS, &[], planned.download),
        stored_bytes: moved,
        moved_bytes: moved,
        ..costs
    })
}

fn predicted(s: &Simulation, timeline: &Timeline, has_disk: bool) -> Values {
    let mut values = vec![
        ("makespan_s", s.makespan),
        ("plan_ideal_s", s.plan_ideal),
        ("problem_ideal_s", s.problem_ideal),
        ("over_plan_ideal", s.over_plan_ideal()),
        ("over_problem_ideal", s.over_problem_ideal()),
        ("stall_s", s.stall()),
        ("forward_s", timeline.busy(Row::Forward) + timeline.busy(Row::Recompute)),
        ("recompute_s", timeline.busy(Row::Recompute)),
        ("backward_s", timeline.busy(Row::Backward)),
        ("save_s", s.saving),
        ("restore_s", s.stall() - s.saving),
        ("compress_s", s.compressing),
        ("decompress_s", s.coding - s.compressing),
        ("copy_s", s.copying),
        ("h2d", s.h2d as f64),
        ("d2h", s.d2h as f64),
        ("h2d_bytes", s.h2d_bytes as f64),
        ("d2h_bytes", s.d2h_bytes as f64),
        ("device_peak", s.device_peak as f64),
        ("host_peak", s.host_peak as f64),
    ];
    if has_disk {
        values.extend([
            ("disk_reads", s.disk_reads as f64),
            ("disk_writes", s.disk_writes as f64),
            ("disk_bytes", s.disk_bytes as f64),
        ]);
    }
    Values(values)
}

fn measured(shot: &Shot, schedule: &Schedule) -> Result<Values> {
    let compute = |names: &[&str]| shot.busy(&[Lane::Compute], names).0;
    let (forward, backward) = (compute(&["forward", "recompute"]), compute(&["backward"]));
    // Time of n forward steps at the mean time of all steps that the shot made, and of all backward steps.
    let steps = f64::from(schedule.macro_steps().time_steps());
    let taken = shot.stat("forward_steps")?;
    let problem = if taken > 0.0 { forward / taken * steps } else { backward } + backward;
    let stall = |names: &[&str]| shot.busy(&[Lane::Stall], names).0;
    let codec = |name: &str| shot.busy(&[Lane::Codec], &[name]).0;
    let makespan = shot.makespan();
    let mut values = vec![
        ("makespan_s", makespan),
        ("plan_ideal_s", forward + backward),
        ("problem_ideal_s", problem),
        ("over_plan_ideal", makespan / (forward + backward)),
        ("over_problem_ideal", makespan / problem),
        ("stall_s", stall(&[])),
        ("forward_s", forward),
        ("recompute_s", compute(&["recompute"])),
        ("backward_s", backward),
        ("save_s", stall(&["save", "save_begin"])),
        ("restore_s", stall(&["restore", "release"])),
        ("compress_s", codec("compress")),
        ("decompress_s", codec("decompress")),
        ("copy_s", codec("copy")),
        ("h2d", shot.stat("h2d")?),
        ("d2h", shot.stat("d2h")?),
        ("h2d_bytes", shot.stat("h2d_bytes")?),
        ("d2h_bytes", shot.stat("d2h_bytes")?),
        ("device_peak", shot.stat("peak_device_bytes")?),
        ("host_peak", shot.stat("peak_host_bytes")?),
    ];
    if shot.budgets().is_some() {
        for name in ["disk_reads", "disk_writes", "disk_bytes"] {
            values.push((name, shot.stat(name)?));
        }
    }
    Ok(Values(values))
}

/// Converts the spans of a shot to the rows of a simulated timeline.
fn timeline(shot: &Shot) -> Timeline {
    let of = |rows: &[Lane]| {
        let mut found: Vec<_> = shot.spans.iter().filter(|span| rows.contains(&span.row)).collect();
        found.sort_by(|a, b| a.begin.total_cmp(&b.begin));
        found
    };
    let mut timeline = Timeline::default();
    for span in of(&[Lane::Compute]) {
        let row = match &*span.what {
            "backward" => Row::Backward,
            "recompute" => Row::Recompute,
            _ => Row::Forward,
        };
        timeline.add(row, span.begin, span.end);
    }
    for (row, lanes) in [
        (Row::Codec, &[Lane::Codec][..]),
        (Row::H2d, &UPLOADS),
        (Row::D2h, &DOWNLOADS),
        (Row::DiskRead, &[Lane::DiskRead]),
        (Row::DiskWrite, &[Lane::DiskWrite]),
    ] {
        let mut free = 0.0f64;
        for span in of(lanes) {
            // Spans of two lanes may overlap in time.
            timeline.add(row, span.begin.max(free), span.end);
            free = free.max(span.end);
        }
    }
    let codec = of(&[Lane::Codec]);
    for span in of(&[Lane::Stall]) {
        let first = codec.partition_point(|c| c.end <= span.begin);
        let mut from = span.begin;
        for c in codec[first..].iter().take_while(|c| c.begin < span.end) {
            timeline.add(Row::Stall, from, c.begin);
            from = c.end;
        }
        timeline.add(Row::Stall, from, span.end);
    }
    timeline
}
