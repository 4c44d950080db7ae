//! `gpuzip plan`: the transfer plan of a schedule, and what it moves.

use crate::options::ScheduleOptions;
use crate::output::{emit, OutputOptions};
use crate::schedule::counts;
use crate::Failure;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::Args;
use gpuzip::plan::{Plan, Policy};
use serde_json::{Map, Value};

/// Plan where a schedule's snapshots live and when they move, and count the transfers
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    schedule: ScheduleOptions,
    /// Slots of the device cache; two-level takes as many inside an interval unless --inner is given
    #[arg(long, value_name = "C", allow_negative_numbers = true)]
    cache: u32,
    /// What the device cache replaces: by the known schedule, or GPUZIP 2.x's published baseline
    #[arg(long, default_value = Policy::Clairvoyant.name(), value_parser = policies())]
    policy: Policy,
    #[command(flatten)]
    output: OutputOptions,
}

fn policies() -> impl TypedValueParser<Value = Policy> {
    let names = PossibleValuesParser::new([Policy::Clairvoyant, Policy::Lru].map(Policy::name));
    names.map(|name| if name == Policy::Lru.name() { Policy::Lru } else { Policy::Clairvoyant })
}

fn transfers(plan: &Plan) -> Map<String, Value> {
    let counts = &plan.counts;
    let values: [(&str, Value); 11] = [
        ("cache", plan.cache.into()),
        ("policy", plan.policy.name().into()),
        ("h2d", counts.h2d.into()),
        ("d2h", counts.d2h.into()),
        ("hits", counts.hits.into()),
        ("misses", counts.misses.into()),
        ("prefetches", counts.prefetches.into()),
        ("min_lead", counts.min_lead.into()),
        ("mean_lead", counts.mean_lead.into()),
        ("device_slots", plan.device_slots.into()),
        ("host_slots", plan.host_slots.into()),
    ];
    values.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let schedule = arguments.schedule.schedule(arguments.cache)?;
    let mut values = counts(&schedule)?;
    let plan = Plan::new(&schedule, arguments.cache, arguments.policy)?;
    values.extend(transfers(&plan));
    emit(values, "plan", &|out| write!(out, "{plan}"), &arguments.output)?;
    Ok(())
}
