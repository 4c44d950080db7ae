//! Predicts the time of one schedule, or finds the best schedule and its rivals.

use super::answer::{binding, sentence};
use super::costs::Machine;
use super::levers::Levers;
use super::recipes::published;
use super::survey::Survey;
use super::table::table;
use super::text::{forward_steps, name, policy};
use super::{curves, paste, timeline, Arguments};
use crate::options::refuse;
use crate::output::{emit, emit_json, folder_of_drawings, write_drawing};
use crate::schedule::announce;
use crate::units::seconds;
use crate::{complain, Failure};
use gpuzip::choice::{
    certify, search, search_and_refine, Candidate, Certificate, Cut, Keep, Storage, TierSpec,
};
use gpuzip::error::{Code, Error, Result};
use gpuzip::layout::aligned;
use gpuzip::plan::{Plan, Policy};
use gpuzip::predict::{simulate, Simulation};
use gpuzip::schedule::{trace, Algorithm, Schedule};
use gpuzip::together::{why, Mode};
use serde_json::{json, Map, Value};
use std::collections::HashSet;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

/// Additions of the dynamic programs that prove the bound: some 0.05 seconds on one core, and 4 seconds.
const QUICK: u64 = 300_000_000;
const THOROUGH: u64 = 30_000_000_000;

/// Steps of a search that takes more than a few seconds, and the seconds of each step with one way to store
/// snapshots, in the search for the plans of all algorithms and in the search for the plan of a session.
const LONG: u32 = 2_000_000;
const SECONDS_OF_STEP: (f64, f64) = (1.2e-6, 0.5e-6);

/// Ranks the given schedule or the schedules found, and prints the predictions.
pub fn run(arguments: &Arguments) -> std::result::Result<(), Failure> {
    let is_asked = arguments.policy == Policy::Lru && arguments.costs.zero_copy;
    if let Some(why) = why([Mode::ZeroCopy, Mode::Lru]).filter(|_| is_asked) {
        return Ok(refuse(format!("--zero-copy with --policy lru: {why}; leave out one"))?);
    }
    let survey = arguments.survey.survey();
    let macro_steps = arguments.schedule.macro_steps().filter(|steps| steps.every() > 1);
    let for_steps = (arguments.schedule.macro_steps(), arguments.schedule.sweeps);
    let machine = arguments.costs.machine(arguments.cache, survey, for_steps)?;
    arguments.svg.as_deref().map_or(Ok(()), folder_of_drawings)?;
    let (ranked, searched) = planned(arguments, &machine)?;
    let certificate = searched.as_ref().map(|searched| &searched.certificate);
    let Some(best) = ranked.first() else { return Ok(()) };
    let is_shown =
        |c: &Candidate| arguments.all || c.simulation.makespan <= 1.1 * best.simulation.makespan;
    let shown = &ranked[..ranked.partition_point(is_shown)];
    write_files(arguments, best, &machine)?;
    if let Some(folder) = &arguments.svg {
        write_drawing(&folder.join("timeline.svg"), &timeline::draw(best, &machine)?)?;
        write_drawing(&folder.join("memory.svg"), &curves::draw(best.schedule.steps, &machine)?)?;
    }
    let over_bound = certificate.map(|certificate| over(best, certificate.seconds));
    let binding = binding(best, &machine)?;
    let answer = sentence(best, &machine, binding.as_ref(), over_bound);
    let mut values = object([("answer", answer.clone().into())]);
    values.extend(summary(best, &machine));
    values.insert("binds".into(), json!(binding.as_ref().map(|binding| binding.what)));
    values.insert("binds_share".into(), json!(binding.as_ref().map(|binding| binding.share)));
    if let Some(macro_steps) = macro_steps {
        values.insert("every".into(), macro_steps.every().into());
    }
    if machine.sweeps > 1 {
        values.insert("sweeps".into(), machine.sweeps.into());
    }
    if let Some(Certificate { seconds, .. }) = certificate {
        values.insert("bound_s".into(), json!(seconds));
        values.insert("over_bound".into(), json!(over_bound));
    }
    let levers = match &searched {
        Some(Searched { now, .. }) => {
            Levers::of(&machine, now, most_snapshots(arguments), arguments.thorough)?
        }
        None => Levers::default(),
    };
    if let Some(survey) = survey {
        values.extend(survey_values(survey, best.simulation.makespan));
        if survey.sharers() > 1 {
            let one = Survey { ranks: 1, ranks_per_node: 1, ..survey };
            let alone = arguments.costs.machine(arguments.cache, Some(one), for_steps)?;
            let shot = planned(arguments, &alone)?.0.first().map(|best| best.simulation.makespan);
            values.insert(
                "sharing_efficiency".into(),
                json!(shot.map(|shot| shot / best.simulation.makespan)),
            );
        }
    }
    let (failing, lines) = arguments.failures.outlook(&best.simulation, &machine, survey)?;
    if arguments.output.json {
        values.extend(failing);
        values.insert(
            "ranked".into(),
            shown.iter().map(|c| Value::Object(row(c, &machine))).collect(),
        );
        if let Some(Searched { auto, .. }) = &searched {
            values.insert("auto_s".into(), json!(auto.simulation.makespan));
            let text = of_session(arguments, best, &machine, auto);
            values.insert("session".into(), text.replace('\n', " ").into());
        }
        values.insert("levers".into(), levers.json());
        values.insert("levers_left_out".into(), json!(levers.left_out));
        values.insert("costs".into(), machine.costs_json());
        values.insert("config".into(), paste::lines(best, &machine, arguments).into());
        return Ok(emit_json(values)?);
    }
    if !arguments.output.print {
        // The sentence says these.
        let said = ["answer", "binds", "binds_share", "over_bound", "over_problem_ideal"];
        values.retain(|name, _| !said.contains(&name.as_str()));
        if machine.cpu {
            values = of_one_memory(values, &best.simulation);
        }
        if machine.budgets.disk == 0 {
            values.retain(|name, _| !name.starts_with("disk_"));
        }
        writeln!(io::stdout(), "{answer}\n")?;
        let lines = levers.lines();
        lines.iter().try_for_each(|line| writeln!(io::stdout(), "{line}"))?;
        if !lines.is_empty() {
            writeln!(io::stdout())?;
        }
        table(shown, ranked.len(), &machine)?;
    }
    values.remove("configuration");
    emit(
        values,
        "plan",
        &|out| best.plans.iter().try_for_each(|plan| write!(out, "{plan}")),
        &arguments.output,
    )?;
    if !arguments.output.print {
        closing(arguments, best, &machine, searched.as_ref())?;
        lines.iter().try_for_each(|line| writeln!(io::stdout(), "{line}"))?;
    }
    Ok(())
}

/// What a search found beside the plans.
struct Searched {
    /// The bound of all plans.
    certificate: Certificate,
    /// The best plan that the search alone found.
    now: Simulation,
    /// The plan that a session with the algorithm auto chooses by the same costs and budgets.
    auto: Candidate,
}

/// Plans, the quickest first; and what was found beside them if they were searched for.
type Planned = (Vec<Candidate>, Option<Searched>);

/// Returns the plans of the schedule that the options name, or those found.
fn planned(arguments: &Arguments, machine: &Machine) -> Result<Planned> {
    match arguments.schedule.algorithm() {
        None if arguments.thorough && arguments.schedule.is_auto() => refuse(
            "--thorough with --algorithm auto: a session tries no more schedules; leave out one of them".into(),
        ),
        Some(algorithm) if arguments.thorough => {
            let name = algorithm.name();
            refuse(format!(
                "--thorough with --algorithm {name}: it is for the search; leave out --algorithm"
            ))
        }
        Some(_) => Ok((given(arguments, machine)?, None)),
        None => found(arguments, machine),
    }
}

/// The time of a plan over the bound in seconds; 1 if nothing takes time.
fn over(best: &Candidate, bound: f64) -> f64 {
    if bound > 0.0 {
        best.simulation.makespan / bound
    } else {
        1.0
    }
}

/// Writes the files that the options ask for: the schedule of the best plan, and the costs.
fn write_files(arguments: &Arguments, best: &Candidate, machine: &Machine) -> Result<()> {
    let write = |option: &str, file: &Path, bytes: &[u8]| {
        gpuzip::files::replace(file, bytes).map_err(|e| {
            let text = format!("{option} {}: the file cannot be written: {e}", file.display());
            Error::new(Code::Io, text)
        })
    };
    if let Some(file) = &arguments.trace_out {
        let mut text = Vec::new();
        trace::write(best.schedule.actions(), &mut text)?;
        write("--trace-out", file, &text)?;
    }
    match &arguments.profile_out {
        Some(file) => {
            let mut profile = machine.profile.clone();
            // The codec of sequences is known, and so a session can read its figures.
            let codec = machine.ways[best.alternative].codec.as_ref();
            let told = codec.filter(|codec| codec.is_told && codec.figures.sequences);
            let told = told.map(|codec| codec.figures.clone());
            profile.codecs.splice(..0, told);
            write("--profile-out", file, &profile.to_bytes())
        }
        None => Ok(()),
    }
}

/// Prints how far the best plan is from the bound, what the predictions are based on, and how to
/// configure the best plan.
fn closing(
    arguments: &Arguments,
    best: &Candidate,
    machine: &Machine,
    searched: Option<&Searched>,
) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    if let Some(Searched { certificate, .. }) = searched {
        writeln!(
            out,
            "\nNo nested schedule, which stores snapshots as a stack (revolve, two-level, hrevolve and all others here), takes less than {}\n\
             with its snapshots {} in the slots of these budgets.",
            seconds(certificate.seconds),
            if machine.cpu { "in memory or on disk" } else { "on device, in host memory or on disk" }
        )?;
        if !certificate.has_transfers {
            writeln!(
                out,
                "This bound counts steps and copies only; --thorough may prove a better one."
            )?;
        }
    }
    if let Some(survey) = arguments.survey.survey() {
        writeln!(out, "\n{}", survey.meaning())?;
    }
    writeln!(out, "\nCosts that this was planned with:")?;
    for line in machine.costs_lines() {
        writeln!(out, "  {line}")?;
    }
    if machine.previous_bytes == 0
        && !machine.zero_copy
        && best.simulation.over_plan_ideal() < best.simulation.over_problem_ideal()
    {
        writeln!(
            out,
            "Where states have the previous time level of their fields, --shared-bytes ranks plans that keep it once, too (shared_levels)."
        )?;
    }
    if let Some(Searched { auto, .. }) = searched {
        writeln!(out, "\n{}", of_session(arguments, best, machine, auto))?;
    }
    let which = if arguments.schedule.is_auto() { "This" } else { "The quickest" };
    writeln!(out, "\n{which} plan as a configuration, for gpuzip_config_load:")?;
    for line in paste::lines(best, machine, arguments) {
        writeln!(out, "{line}")?;
    }
    out.flush()
}

/// Says which plan a session chooses that is not told the schedule, and what it knows that this command does
/// not.
fn of_session(
    arguments: &Arguments,
    best: &Candidate,
    machine: &Machine,
    auto: &Candidate,
) -> String {
    let padded = aligned(machine.state_bytes);
    if machine.layout.is_none() && padded != machine.state_bytes {
        return format!(
            "A session keeps each field at a multiple of 256 bytes, so that it needs at least {padded} bytes for a state and may choose another plan:\n\
             give --fields, or --state-bytes {padded}."
        );
    }
    let plan = match is_no_slower(auto, best) {
        true => "this plan".into(),
        false => format!(
            "{} with {} snapshots, {:.2} % slower, which --algorithm auto shows",
            name(auto),
            auto.schedule.snapshots,
            100.0 * (auto.simulation.makespan / best.simulation.makespan - 1.0)
        ),
    };
    format!(
        "With checkpointing_algorithm = auto, these costs and the budgets below a session chooses {plan}.\n\
         {}\n\
         It plans otherwise by what it alone knows: speeds that gpuzip_autotune has measured, free memory where no budget is set, a disk with less\n\
         room than disk_budget.",
        machine.costs_of_session(arguments.profile_out.is_some())
    )
}

/// Whether the first plan takes no longer than the second one, but for rounding errors.
fn is_no_slower(first: &Candidate, second: &Candidate) -> bool {
    first.simulation.makespan * (1.0 - 1e-9) <= second.simulation.makespan
}

/// Puts the plan that a session chooses before all plans that are not quicker.
fn put_first(auto: &Candidate, ranked: &mut Vec<Candidate>) {
    let parameters = |c: &Candidate| {
        let schedule = &c.schedule;
        let numbers = [schedule.snapshots, schedule.chunk, schedule.inner(), schedule.cache()];
        (c.alternative, schedule.algorithm, numbers, c.simulation.makespan.to_bits())
    };
    if ranked.first().is_none_or(|best| is_no_slower(auto, best)) {
        ranked.retain(|c| parameters(c) != parameters(auto));
        ranked.insert(0, auto.clone());
    }
}

/// Plans the schedule that the options name, with raw and with compressed snapshots.
fn given(arguments: &Arguments, machine: &Machine) -> Result<Vec<Candidate>> {
    let (mut ranked, mut too_large) = (Vec::new(), None);
    let inner = machine.alternatives.iter().flatten().find_map(TierSpec::inner_slots);
    announce(&arguments.schedule.schedule(inner.unwrap_or(0))?);
    for (alternative, tiers) in machine.alternatives.iter().flatten().enumerate() {
        match given_with(arguments, tiers) {
            Ok(Some((schedule, plan, simulation))) => {
                let plans = vec![plan];
                ranked.push(Candidate { alternative, schedule, plans, simulation });
            }
            Ok(None) => {}
            // Snapshots that are stored in another way may fit.
            Err(error) if error.code == Code::Budget => too_large = too_large.or(Some(error)),
            Err(error) => return Err(error),
        }
    }
    match too_large {
        Some(error) if ranked.is_empty() => return Err(error),
        _ => {}
    }
    sort(&mut ranked);
    Ok(ranked)
}

/// Plans the schedule that the options name, with snapshots stored as `tiers` say; `None` if the
/// policy has no plan for them. Fails if the plan does not fit the budgets.
fn given_with(
    arguments: &Arguments,
    tiers: &TierSpec,
) -> Result<Option<(Schedule, Arc<Plan>, Simulation)>> {
    let schedule = arguments.schedule.schedule(tiers.inner_slots().unwrap_or(0))?;
    let storage = Storage { policy: arguments.policy, ..tiers.storage.clone() };
    let is_of_lru = storage.cut == Cut::Whole && !storage.zero_copy && tiers.raw_slots.is_none();
    if storage.policy == Policy::Lru && !is_of_lru {
        return Ok(None);
    }
    let plan = TierSpec { storage, ..tiers.clone() }.plan_for(&schedule, &[])?;
    let simulation = simulate(&schedule, &plan, &tiers.costs, tiers.budgets)?;
    Ok(Some((schedule, plan, simulation)))
}

/// Finds the plan that a session chooses, and without --algorithm auto the best schedule of each algorithm, too,
/// and with --all GPUZIP 2.x's recipes.
fn found(arguments: &Arguments, machine: &Machine) -> Result<Planned> {
    let options = &arguments.schedule;
    options.check_options(None)?;
    let Some(macro_steps) = options.macro_steps() else {
        return refuse("how many time steps? give --steps".into());
    };
    let steps = macro_steps.count();
    if arguments.policy == Policy::Lru {
        return refuse("--policy lru without --algorithm: the search is for the best plan; --all ranks the published recipes beside them".into());
    }
    let most = most_snapshots(arguments);
    let alternatives = &machine.alternatives;
    let sweeps = f64::from(machine.sweeps);
    if f64::from(steps) * sweeps > f64::from(LONG) {
        let stages = if machine.budgets.disk > 0 { 2.0 } else { 1.0 };
        let (of_all, of_session) = SECONDS_OF_STEP;
        let each = of_session + if options.is_auto() { 0.0 } else { of_all };
        let about = f64::from(steps) * sweeps * alternatives.len() as f64 * stages * each;
        complain(format_args!(
            "the search for {steps} steps takes about {}; with --every K there are fewer steps, and one schedule is planned sooner: --algorithm\n",
            seconds(about)
        ));
    }
    let mut auto = search_and_refine(steps, most, alternatives)?;
    let mut ranked = match options.is_auto() {
        true => Vec::new(),
        false => search(steps, most, alternatives, Keep::Families)?,
    };
    put_first(&auto, &mut ranked);
    let work = if arguments.thorough { THOROUGH } else { QUICK };
    let mut certificate = certify(steps, alternatives, &ranked[0], work)?;
    let now = ranked[0].simulation.clone();
    // The dynamic program knows the slots of the tiers, and not --snapshots.
    let better = certificate.better.take().filter(|better| better.schedule.snapshots <= most);
    ranked.extend(better.filter(|_| !options.is_auto()));
    let is_shown = |tiers: &TierSpec| arguments.all && !options.is_auto() && is_published(tiers);
    for (alternative, tiers) in
        alternatives.iter().flatten().enumerate().filter(|(_, tiers)| is_shown(tiers))
    {
        ranked.extend(
            published(steps, tiers)?.into_iter().map(|recipe| Candidate { alternative, ..recipe }),
        );
    }
    for candidate in ranked.iter_mut().chain([&mut auto]) {
        candidate.schedule = candidate.schedule.clone().in_macro_steps(macro_steps);
    }
    sort(&mut ranked);
    put_first(&auto, &mut ranked);
    if !arguments.all {
        // Ways that differ only in how they divide the memory have one name: the quickest plan of each algorithm
        // is shown.
        let mut seen = HashSet::new();
        ranked.retain(|c| seen.insert((name(c), machine.ways[c.alternative].to_string())));
    }
    Ok((ranked, Some(Searched { certificate, now, auto })))
}

/// The most snapshots that a plan that is searched for may store.
fn most_snapshots(arguments: &Arguments) -> u32 {
    match arguments.schedule.snapshots {
        0 => u32::MAX,
        snapshots => snapshots,
    }
}

/// Whether GPUZIP's recipes can be played on these tiers: they copy, and they know
/// neither shared levels nor mixed storage.
fn is_published(tiers: &TierSpec) -> bool {
    tiers.storage.cut == Cut::Whole && !tiers.storage.zero_copy && tiers.raw_slots.is_none()
}

fn sort(ranked: &mut [Candidate]) {
    ranked.sort_by(|a, b| a.simulation.makespan.total_cmp(&b.simulation.makespan));
}

/// Returns what reproduces a plan: keys of the library's configuration, and how snapshots are
/// stored.
fn configuration(candidate: &Candidate, machine: &Machine) -> Map<String, Value> {
    let schedule = &candidate.schedule;
    let inner = if schedule.has_inner_slots() { schedule.inner() } else { 0 };
    object([
        ("checkpointing_algorithm", schedule.algorithm.name().into()),
        ("checkpointing_snaps", schedule.snapshots.into()),
        (
            "schedule_chunk",
            if schedule.algorithm == Algorithm::Uniform { 0 } else { schedule.chunk }.into(),
        ),
        ("inner", inner.into()),
        ("for_cache", schedule.cache().into()),
        (
            "cache_capacity",
            candidate.plans.first().map_or(0, |plan| plan.cached_snapshots()).into(),
        ),
        ("raw_slots", candidate.plans.first().map_or(0, |plan| plan.raw_slots).into()),
        ("slot_bytes", machine.alternatives[candidate.alternative][0].slot_bytes.into()),
        ("policy", policy(candidate).name().into()),
        ("stored", machine.ways[candidate.alternative].to_string().into()),
        ("zero_copy", machine.zero_copy.into()),
    ])
}

fn object<const N: usize>(values: [(&str, Value); N]) -> Map<String, Value> {
    values.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}

fn summary(best: &Candidate, machine: &Machine) -> Map<String, Value> {
    let s = &best.simulation;
    object([
        ("predicted_s", json!(s.makespan)),
        ("stall_s", json!(s.stall())),
        ("over_plan_ideal", json!(s.over_plan_ideal())),
        ("over_problem_ideal", json!(s.over_problem_ideal())),
        ("forward_steps", forward_steps(best).into()),
        ("device_peak", s.device_peak.into()),
        ("host_peak", s.host_peak.into()),
        ("disk_peak", s.disk_peak.into()),
        ("copying_s", json!(s.copying)),
        ("coding_s", json!(s.coding)),
        ("waiting_s", json!(s.waiting)),
        ("h2d", s.h2d.into()),
        ("d2h", s.d2h.into()),
        ("h2d_bytes", s.h2d_bytes.into()),
        ("d2h_bytes", s.d2h_bytes.into()),
        ("disk_bytes", s.disk_bytes.into()),
        ("configuration", configuration(best, machine).into()),
    ])
}

/// Returns the values of a summary as a machine without a device has them: snapshots lie in one memory and on
/// disk.
fn of_one_memory(values: Map<String, Value>, s: &Simulation) -> Map<String, Value> {
    let of_memory = |(name, value): (String, Value)| match name.as_str() {
        "device_peak" => {
            Some(("memory_peak".into(), s.device_peak.saturating_add(s.host_peak).into()))
        }
        "h2d" => Some(("disk_reads".into(), s.disk_reads.into())),
        "d2h" => Some(("disk_writes".into(), s.disk_writes.into())),
        "host_peak" | "h2d_bytes" | "d2h_bytes" => None,
        _ => Some((name, value)),
    };
    values.into_iter().filter_map(of_memory).collect()
}

fn row(candidate: &Candidate, machine: &Machine) -> Map<String, Value> {
    let s = &candidate.simulation;
    let mut values = configuration(candidate, machine);
    values.extend(object([
        ("predicted_s", json!(s.makespan)),
        ("stall_s", json!(s.stall())),
        ("over_plan_ideal", json!(s.over_plan_ideal())),
        ("over_problem_ideal", json!(s.over_problem_ideal())),
        ("forward_steps", forward_steps(candidate).into()),
        ("device_peak", s.device_peak.into()),
        ("host_peak", s.host_peak.into()),
        ("disk_peak", s.disk_peak.into()),
        ("h2d", s.h2d.into()),
        ("d2h", s.d2h.into()),
    ]));
    values
}

fn survey_values(survey: Survey, shot: f64) -> Map<String, Value> {
    object([
        ("ranks", survey.ranks.into()),
        ("nodes", survey.nodes().into()),
        ("shots", survey.shots.into()),
        ("rounds", survey.rounds().into()),
        ("survey_s", json!(survey.seconds(shot))),
        ("shots_per_hour", json!(survey.shots as f64 / survey.seconds(shot) * 3600.0)),
        ("ranks_busy", json!(survey.busy())),
    ])
}
