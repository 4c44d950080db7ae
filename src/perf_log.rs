//! The performance log: one CSV line per shot.

use crate::files;
use crate::plan::Plan;
use crate::schedule::Schedule;
use crate::stats::Stats;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

/// The file that the log is appended to, unless `GPUZIP_PERFORMANCE_LOG` names another.
const DEFAULT_PATH: &str = "gpuzip_performance.csv";

/// How long a row waits for other processes that write theirs.
const PATIENCE: Duration = Duration::from_secs(5);

/// Appends shot number `shot` of this process's session: a row of its own, whole or not at all, however many processes share the file.
pub fn append(shot: u64, schedule: &Schedule, plan: &Plan, stats: &Stats) -> io::Result<()> {
    let path = std::env::var_os("GPUZIP_PERFORMANCE_LOG").unwrap_or_else(|| DEFAULT_PATH.into());
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
    append_row(Path::new(&path), columns).map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", Path::new(&path).display())))
}

/// Under the file's lock: the header where the file is empty, and the row, in one write.
fn append_row(path: &Path, columns: Vec<(&str, String)>) -> io::Result<()> {
    let join = |cells: Vec<String>| cells.join(",") + "\n";
    let file = files::open_to_append(path)?;
    files::lock(&file, PATIENCE)?;
    let length = file.metadata()?.len();
    let mut last = *b"\n";
    if length > 0 {
        file.read_exact_at(&mut last, length - 1)?;
    }
    // A row that another program, or a crash, left without its end does not become the beginning of this one.
    let mut text = String::from(if last == *b"\n" { "" } else { "\n" });
    if length == 0 {
        text += &join(columns.iter().map(|(name, _)| name.to_string()).collect());
    }
    text += &join(columns.into_iter().map(|(_, value)| value).collect());
    let appended = files::append(&file, length, text.as_bytes());
    // By name: a child that was forked meanwhile has the descriptor, too, and closing it here would not give the lock back.
    let _ = file.unlock();
    appended
}
