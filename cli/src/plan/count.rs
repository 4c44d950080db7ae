//! Counts the transfers of a plan.

use super::Arguments;
use crate::options::refuse;
use crate::output::emit;
use crate::schedule::{announce, counts};
use crate::Failure;
use gpuzip::plan::Plan;
use gpuzip::schedule::Schedule;
use serde_json::{Map, Value};

fn transfers(schedule: &Schedule, plan: &Plan) -> Map<String, Value> {
    let counts = &plan.counts;
    // A plan counts macro-steps.
    let every = schedule.macro_steps().every();
    let values: [(&str, Value); 11] = [
        ("cache", plan.cache.into()),
        ("policy", plan.policy.name().into()),
        ("h2d", counts.h2d.into()),
        ("d2h", counts.d2h.into()),
        ("hits", counts.hits.into()),
        ("misses", counts.misses.into()),
        ("prefetches", counts.prefetches.into()),
        ("min_lead", counts.min_lead.saturating_mul(every.into()).into()),
        ("mean_lead", (counts.mean_lead * f64::from(every)).into()),
        ("device_slots", plan.device_slots.into()),
        ("host_slots", plan.host_slots.into()),
    ];
    values.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}

/// Prints the counts of the transfers in the plan of one schedule.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Some(cache) = arguments.cache else {
        return Ok(refuse(
            "how large is the device cache? give --cache; or --state-bytes and --device-budget to find the best plan".into(),
        )?);
    };
    let schedule = arguments.schedule.schedule(cache)?;
    schedule.check_length()?;
    announce(&schedule);
    let mut values = counts(&schedule)?;
    let plan = Plan::new(&schedule, cache, arguments.policy)?;
    values.extend(transfers(&schedule, &plan));
    emit(values, "plan", &|out| write!(out, "{plan}"), &arguments.output)?;
    Ok(())
}
