//! The performance log: a CSV file with one row per shot.

use crate::environment;
use crate::files;
use crate::plan::Plan;
use crate::schedule::Schedule;
use crate::stats::Stats;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

/// The file of the log, unless the environment variable `GPUZIP_PERFORMANCE_LOG` names another.
const DEFAULT_PATH: &str = "gpuzip_performance.csv";

/// The longest wait for the file's lock. After it the row is appended without the lock: a single
/// write to a file that is open for appending arrives in one piece.
const PATIENCE: Duration = Duration::from_secs(5);

/// Appends a row for shot number `shot` of this process. The row is written as a whole or not at
/// all, even if several processes share the file.
pub fn append(shot: u64, schedule: &Schedule, plan: &Plan, stats: &Stats) -> io::Result<()> {
    let path = environment::value("GPUZIP_PERFORMANCE_LOG").unwrap_or_else(|| DEFAULT_PATH.into());
    let mut columns = vec![
        ("process", std::process::id().to_string()),
        ("shot", shot.to_string()),
        ("algorithm", schedule.algorithm.name().to_string()),
        ("steps", schedule.macro_steps().time_steps().to_string()),
        ("snapshots", schedule.snapshots.to_string()),
        ("cache", plan.cache.to_string()),
        ("policy", plan.policy.name().to_string()),
    ];
    columns.extend(stats.columns());
    append_row(Path::new(&path), columns, PATIENCE)
        .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", Path::new(&path).display())))
}

/// Appends the row, preceded by the header if the file is empty, in a single write: under the
/// file's lock, or without it if another process holds the lock longer than `patience`.
fn append_row(path: &Path, columns: Vec<(&str, String)>, patience: Duration) -> io::Result<()> {
    let join = |cells: Vec<String>| cells.join(",") + "\n";
    let file = files::open_to_append(path)?;
    let locked = match files::lock(&file, patience) {
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
            log::warn!(
                "performance log: {}: {e}: the row is appended without the lock",
                path.display()
            );
            false
        }
        result => result.map(|()| true)?,
    };
    let length = file.metadata()?.len();
    let mut last = *b"\n";
    if length > 0 {
        file.read_exact_at(&mut last, length - 1)?;
    }
    // The last row may lack its newline, after a crash or by another program: the new row begins on
    // a line of its own all the same.
    let mut text = String::from(if last == *b"\n" { "" } else { "\n" });
    if length == 0 {
        text += &join(columns.iter().map(|(name, _)| name.to_string()).collect());
    }
    text += &join(columns.into_iter().map(|(_, value)| value).collect());
    if !locked {
        return files::append_shared(&file, text.as_bytes());
    }
    let appended = files::append(&file, length, text.as_bytes());
    // The lock is released explicitly: a child process that was forked meanwhile has a copy of the
    // descriptor, and closing this one would not release the lock.
    files::unlock(&file);
    appended
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that hangs while it holds the lock does not stop other processes from writing
    /// rows.
    #[test]
    fn a_lock_that_is_not_given_back_loses_no_row() {
        let path = std::env::temp_dir().join(format!("gpuzip-perf-log-{}.csv", std::process::id()));
        let columns = |shot: u32| vec![("process", "7".to_string()), ("shot", shot.to_string())];
        let append = |shot| append_row(&path, columns(shot), Duration::from_millis(30)).unwrap();
        append(1);
        // A lock belongs to an open file, not to a process: this second opening acts as another
        // process.
        let holder = files::open_to_append(&path).unwrap();
        assert!(files::try_lock(&holder).unwrap());
        append(2);
        append(3);
        drop(holder);
        append(4);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(text, "process,shot\n7,1\n7,2\n7,3\n7,4\n");
    }
}
