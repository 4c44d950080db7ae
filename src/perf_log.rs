//! The performance log: one CSV line per shot.

use crate::plan::Plan;
use crate::schedule::Schedule;
use crate::stats::Stats;
use std::io::{self, Write};

/// The file that the log is appended to, unless `GPUZIP_PERFORMANCE_LOG` names another.
const DEFAULT_PATH: &str = "gpuzip_performance.csv";

/// Appends shot number `shot` of this process's session. The line is written in one piece, so that several processes may share the file.
pub fn append(shot: u64, schedule: &Schedule, plan: &Plan, stats: &Stats) -> io::Result<()> {
    let path = std::env::var_os("GPUZIP_PERFORMANCE_LOG").unwrap_or_else(|| DEFAULT_PATH.into());
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
    let mut columns = vec![
        ("process", std::process::id().to_string()),
        ("shot", shot.to_string()),
        ("algorithm", schedule.algorithm.name().to_string()),
        ("steps", schedule.steps.to_string()),
        ("snapshots", schedule.snapshots.to_string()),
        ("cache", plan.cache.to_string()),
        ("policy", plan.policy.name().to_string()),
    ];
    columns.extend(stats.columns());
    let join = |cells: Vec<String>| cells.join(",") + "\n";
    let mut text = String::new();
    if file.metadata()?.len() == 0 {
        text += &join(columns.iter().map(|(name, _)| name.to_string()).collect());
    }
    text += &join(columns.into_iter().map(|(_, value)| value).collect());
    file.write_all(text.as_bytes())
}
