//! `gpuzip plan`: makes the transfer plan of a schedule and counts its transfers; with costs of
//! steps and copies, predicts its time and finds the best plan.

mod answer;
mod costs;
mod count;
mod curves;
mod failures;
mod hardware;
mod levers;
mod paste;
mod predict;
mod recipes;
mod survey;
pub mod svg;
mod table;
mod text;
pub mod timeline;
mod two_levels;

use crate::options::{ScheduleOptions, ValueOf};
use crate::output::OutputOptions;
use crate::Failure;
use clap::builder::TypedValueParser;
use clap::Args;
use gpuzip::plan::Policy;

/// Plan where a schedule's snapshots live and when they move: count the transfers, or, with
/// --state-bytes or --profile, predict times and find the best plan
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    schedule: ScheduleOptions,
    /// Slots of the device cache; two-level takes as many inside an interval unless --inner is
    /// given. With --device-budget: at most
    #[arg(long, value_name = "C", value_parser = crate::options::count, allow_hyphen_values = true)]
    cache: Option<u32>,
    /// What the device cache replaces: by the known schedule, or GPUZIP 2.x's published baseline
    #[arg(long, default_value = Policy::Clairvoyant.name(), value_parser = policies())]
    policy: Policy,
    #[command(flatten)]
    costs: costs::CostOptions,
    /// Without --algorithm: try schedules by dynamic programming, too, and prove a better lower bound
    /// of the time, which takes up to 5 seconds on one core; price all levers of long problems, too
    #[arg(long, requires = "state")]
    thorough: bool,
    /// Show all plans, also those more than 10 % slower than the best one, and GPUZIP 2.x's recipes
    #[arg(long, requires = "state")]
    all: bool,
    /// Write the schedule of the best plan to this file, for trace_file_path
    #[arg(long, value_name = "FILE", requires = "state")]
    trace_out: Option<std::path::PathBuf>,
    /// Write the costs that the plan is made with to this file, for profile_path: a session then
    /// predicts the same times
    #[arg(long, value_name = "FILE", requires = "state")]
    profile_out: Option<std::path::PathBuf>,
    #[command(flatten)]
    survey: costs::SurveyOptions,
    #[command(flatten)]
    failures: failures::FailureOptions,
    /// Draw the timeline of the best plan and time over memory into this folder: timeline.svg and
    /// memory.svg. It is made if the folder that it is to be in exists
    #[arg(long, value_name = "DIR", requires = "state")]
    svg: Option<std::path::PathBuf>,
    #[command(flatten)]
    output: OutputOptions,
}

fn policies() -> impl TypedValueParser<Value = Policy> {
    ValueOf::key("policy", &[]).map(|name| {
        if name == Policy::Lru.name() {
            Policy::Lru
        } else {
            Policy::Clairvoyant
        }
    })
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match arguments.costs.are_given() {
        true => predict::run(arguments),
        false => count::run(arguments),
    }
}
