//! A file of events in Chrome's JSON format, whole after every write: what comes later overwrites
//! the closing brackets.

use crate::fallible_vec;
use crate::files;
use crate::process::Process;
use std::fmt::{Arguments, Display, Write};
use std::io;

/// Bytes that are kept before they are written.
const BUFFER: usize = 1 << 20;
const CLOSING: &str = "\n]}\n";

/// The file.
pub struct File {
    file: std::fs::File,
    /// Where the closing brackets are, or, before the first write, the file begins.
    end: u64,
    /// Its size on the disk.
    length: u64,
    buffer: String,
    /// No event is there yet.
    empty: bool,
    /// The process that has the file's lock.
    process: Process,
}

impl Drop for File {
    /// A forked child that lives on has the descriptor, too, and with it the lock, which the next
    /// run would wait for.
    fn drop(&mut self) {
        if self.process.is_current() {
            let _ = self.file.unlock();
        }
    }
}

impl File {
    /// A file that says `about` of itself, a JSON object, in place of all that `file` holds, which
    /// stays until the first write succeeds.
    pub fn create(file: std::fs::File, about: &str) -> io::Result<Self> {
        let length = file.metadata()?.len();
        let buffer =
            format!("{{\"otherData\":{about},\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
        Ok(File { file, end: 0, length, buffer, empty: true, process: Process::current() })
    }

    /// Adds an event, on a line of its own.
    pub fn line(&mut self, event: Arguments) -> io::Result<()> {
        let before = if std::mem::take(&mut self.empty) { "" } else { ",\n" };
        fallible_vec::write(&mut self.buffer, format_args!("{before}{event}"))?;
        if self.buffer.len() > BUFFER {
            return self.flush();
        }
        Ok(())
    }

    /// Writes what is still in memory. If that fails the file ends, with its brackets closed, where
    /// it ended before.
    pub fn flush(&mut self) -> io::Result<()> {
        let events = self.buffer.len() as u64;
        fallible_vec::write(&mut self.buffer, format_args!("{CLOSING}"))?;
        let result = if self.end == 0 {
            files::write_over_all(&self.file, self.length, self.buffer.as_bytes())
        } else {
            files::write_over_end(&self.file, self.end, self.length, self.buffer.as_bytes())
        };
        if result.is_ok() {
            self.end += events;
            self.length = self.end + CLOSING.len() as u64;
        }
        self.buffer.clear();
        result
    }

    /// Its size so far, when all is written.
    pub fn bytes(&self) -> u64 {
        self.end + self.buffer.len() as u64
    }
}

/// A JSON string.
pub fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            // Writing to a string cannot fail.
            c if c < ' ' => drop(write!(out, "\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out + "\""
}

/// A JSON object, made member by member.
#[derive(Default)]
pub struct Object(String);

impl Object {
    /// One without members.
    pub fn new() -> Self {
        Self::default()
    }

    /// With one more: a number, `true`, `false`, or JSON. What is no number in JSON becomes null.
    pub fn value(self, name: &str, value: impl Display) -> Self {
        let text = value.to_string();
        self.json(
            name,
            if matches!(text.as_str(), "inf" | "-inf" | "NaN") { "null" } else { &text },
        )
    }

    /// With one more: a string.
    pub fn text_of(self, name: &str, text: &str) -> Self {
        self.json(name, &quoted(text))
    }

    fn json(mut self, name: &str, json: &str) -> Self {
        let before = if self.0.is_empty() { "" } else { "," };
        let _ = write!(self.0, "{before}\"{name}\":{json}");
        self
    }

    /// Its text.
    pub fn text(&self) -> String {
        format!("{{{}}}", self.0)
    }
}
