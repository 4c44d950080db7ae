//! The timeline of a run: the spans of its lanes, as a file for Chrome's trace viewer and
//! <https://ui.perfetto.dev>, and as NVTX ranges.
//!
//! A device keeps spans only if it is asked to, and hands over those that have ended. A
//! [`TimelineFile`] writes them, holds only a few of them in memory, and ends every shot with the
//! data from which `gpuzip report` predicts the shot again.

mod file;
mod name;
pub mod nvtx;
mod span;

pub use file::{quoted, Object};
pub(crate) use name::rank;
pub use span::{Label, Row, Span, Spans};

use file::File;
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Bytes of a file after which no further shot is written: viewers do not open larger files.
const LARGEST: u64 = 1 << 30;

/// The timeline of one session.
pub struct TimelineFile {
    path: PathBuf,
    file: File,
    process: u32,
    /// Time of creation, and nanoseconds from then until the current device began to keep spans.
    created: Instant,
    origin: u64,
    /// Nanoseconds at which the last span of each row ends. A span that would begin earlier by
    /// rounding is moved to this time.
    free: [u64; Row::ALL.len()],
    /// Begin of the shot, and end of the last span of the application's stream, in nanoseconds.
    shot: Option<(u64, u64)>,
    /// Whether the file has reached `LARGEST` bytes.
    full: bool,
}

impl TimelineFile {
    /// Creates the file that `pattern` names for this session, in place of an older file. `about`
    /// is the description in the file.
    pub fn create(pattern: &Path, about: Object) -> io::Result<Self> {
        let (path, file) = name::open(pattern)?;
        let is_new = file.metadata()?.len() == 0;
        // A new file without its description is removed; an older file stays as it was.
        Self::begin(path.clone(), file, about).inspect_err(|_| {
            if is_new {
                drop(std::fs::remove_file(path));
            }
        })
    }

    fn begin(path: PathBuf, file: std::fs::File, about: Object) -> io::Result<Self> {
        let rank = name::rank();
        let process = rank.unwrap_or_else(std::process::id);
        let title = rank.map_or_else(
            || format!("gpuzip, process {process}"),
            |rank| format!("gpuzip, rank {rank}"),
        );
        let file = File::create(file, &about.text())?;
        let (created, free) = (Instant::now(), [0; Row::ALL.len()]);
        let mut timeline =
            TimelineFile { path, file, process, created, origin: 0, free, shot: None, full: false };
        timeline.meta("process_name", 0, Object::new().text_of("name", &title))?;
        for row in Row::ALL {
            let (number, name) = (row.number(), Object::new().text_of("name", row.name()));
            timeline.meta("thread_name", number, name)?;
            timeline.meta(
                "thread_sort_index",
                number,
                Object::new().value("sort_index", number),
            )?;
        }
        timeline.file.flush()?;
        Ok(timeline)
    }

    /// Notes that a new device begins to keep spans, in place of the device before.
    pub fn begin_device(&mut self) {
        self.origin =
            self.free.into_iter().fold(self.created.elapsed().as_nanos() as u64, u64::max);
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn meta(&mut self, name: &str, thread: u32, arguments: Object) -> io::Result<()> {
        let (process, arguments) = (self.process, arguments.text());
        self.file.line(format_args!(
            r#"{{"ph":"M","pid":{process},"tid":{thread},"name":"{name}","args":{arguments}}}"#
        ))
    }

    /// Adds spans of the current shot; spans of one row must come in their order in time.
    pub fn add(&mut self, spans: &[Span]) -> io::Result<()> {
        for span in spans {
            let row = span.label.row;
            let begin = (self.origin + nanoseconds(span.begin)).max(self.free[row as usize]);
            let length = nanoseconds(span.seconds);
            let end = begin + length;
            self.free[row as usize] = end;
            let (first, last) = self.shot.unwrap_or((begin, begin));
            self.shot =
                Some((first.min(begin), if row.is_of_stream() { last.max(end) } else { last }));
            if !self.full {
                self.span(&span.label, begin, length)?;
            }
        }
        Ok(())
    }

    fn span(&mut self, label: &Label, begin: u64, length: u64) -> io::Result<()> {
        let Label { row, what, ts, ts_end, it, bytes } = *label;
        let (process, thread, category) = (self.process, row.number(), row.name());
        let (begin, length) = (microseconds(begin), microseconds(length));
        let mut arguments = format!(r#""state":{ts},"action":{it}"#);
        // Writing to a string cannot fail.
        let _ = match bytes {
            0 if ts_end != ts => write!(arguments, r#","last":{ts_end}"#),
            0 => Ok(()),
            bytes => write!(arguments, r#","bytes":{bytes}"#),
        };
        self.file.line(format_args!(
            r#"{{"ph":"X","pid":{process},"tid":{thread},"ts":{begin},"dur":{length},"name":"{what}","cat":"{category}","args":{{{arguments}}}}}"#
        ))
    }

    /// Ends a shot with its description `about`, and writes everything that is still in memory.
    pub fn end_shot(&mut self, about: Object) -> io::Result<()> {
        let (begin, end) = self.shot.take().unwrap_or_default();
        let about = about
            .value("begin_s", begin as f64 / 1e9)
            .value("makespan_s", (end - begin) as f64 / 1e9);
        if !self.full {
            let (process, end, about) = (self.process, microseconds(end), about.text());
            self.file.line(format_args!(r#"{{"ph":"i","s":"p","pid":{process},"tid":1,"ts":{end},"name":"shot","args":{about}}}"#))?;
            self.file.flush()?;
        }
        if !self.full && self.file.bytes() > LARGEST {
            self.full = true;
            let (path, bytes) = (self.path.display(), self.file.bytes());
            log::warn!("trace_out: {path} has reached {bytes} bytes: later shots are left out");
        }
        Ok(())
    }

    /// Begins a shot, and forgets the times of a shot that was broken off.
    pub fn begin_shot(&mut self) {
        self.shot = None;
    }

    /// Writes everything that is still in memory.
    pub fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

/// Returns a time in microseconds, as a decimal number with three places.
fn microseconds(nanoseconds: u64) -> String {
    format!("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000)
}

#[cfg(test)]
mod tests;
