//! The performance log: one CSV line per shot.

use crate::stats::Stats;
use std::io::{self, Write};

/// The file that the log is appended to, unless `GPUZIP_PERFORMANCE_LOG` names another.
const DEFAULT_PATH: &str = "gpuzip_performance.csv";

/// Appends a shot. The line is written in one piece, so that several processes may share the file.
pub fn append(stats: &Stats) -> io::Result<()> {
    let path = std::env::var_os("GPUZIP_PERFORMANCE_LOG").unwrap_or_else(|| DEFAULT_PATH.into());
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
    let columns = stats.columns();
    let join = |cells: Vec<String>| cells.join(",") + "\n";
    let mut text = String::new();
    if file.metadata()?.len() == 0 {
        text += &join(columns.iter().map(|(name, _)| name.to_string()).collect());
    }
    text += &join(columns.into_iter().map(|(_, value)| value).collect());
    file.write_all(text.as_bytes())
}
