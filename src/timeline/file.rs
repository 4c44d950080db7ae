//! A timeline file in Chrome's JSON format. The file is valid JSON after every write: the next
//! write overwrites the closing brackets.

use crate::fallible_vec;
use crate::files;
use crate::process::Process;
use std::fmt::{Arguments, Display, Write};
use std::io;

/// Bytes that are collected before they are written.
const BUFFER: usize = 1 << 20;
const CLOSING: &str = "\n]}\n";

/// A timeline file that is being written.
pub struct File {
    file: std::fs::File,
    /// Offset of the closing brackets, in bytes; 0 before the first write.
    end: u64,
    /// Size of the file on the disk, in bytes.
    length: u64,
    buffer: String,
    /// Whether no record was added yet.
    empty: bool,
    /// The process that holds the file's lock.
    process: Process,
}

impl Drop for File {
    /// Releases the lock, even if a forked child has a copy of the descriptor.
    fn drop(&mut self) {
        if self.process.is_current() {
            files::unlock(&self.file);
        }
    }
}

impl File {
    /// Begins a timeline in `file`, with the JSON object `about` as its description. The old
    /// content of `file` stays until the first write succeeds.
    pub fn create(file: std::fs::File, about: &str) -> io::Result<Self> {
        let length = file.metadata()?.len();
        let buffer =
            format!("{{\"otherData\":{about},\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
        Ok(File { file, end: 0, length, buffer, empty: true, process: Process::current() })
    }

    /// Adds a record, on a line of its own.
    pub fn line(&mut self, event: Arguments) -> io::Result<()> {
        let before = if std::mem::take(&mut self.empty) { "" } else { ",\n" };
        fallible_vec::write(&mut self.buffer, format_args!("{before}{event}"))?;
        if self.buffer.len() > BUFFER {
            return self.flush();
        }
        Ok(())
    }

    /// Writes what is still in memory. If that fails, the file stays as it was before, with its
    /// brackets closed.
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

    /// Returns the size of the file in bytes once everything is written.
    pub fn bytes(&self) -> u64 {
        self.end + self.buffer.len() as u64
    }
}

/// Returns `text` as a JSON string, quotes included.
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

/// A JSON object that is built member by member.
#[derive(Default)]
pub struct Object(String);

impl Object {
    /// Makes an object without members.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a member whose value is a number, `true`, `false` or JSON text. An infinity or NaN,
    /// which JSON cannot express, becomes `null`.
    pub fn value(self, name: &str, value: impl Display) -> Self {
        let text = value.to_string();
        let is_number = !matches!(text.as_str(), "inf" | "-inf" | "NaN");
        self.json(name, if is_number { &text } else { "null" })
    }

    /// Adds a member whose value is a string.
    pub fn text_of(self, name: &str, text: &str) -> Self {
        self.json(name, &quoted(text))
    }

    fn json(mut self, name: &str, json: &str) -> Self {
        let before = if self.0.is_empty() { "" } else { "," };
        let _ = write!(self.0, "{before}\"{name}\":{json}");
        self
    }

    /// Returns the object as JSON text.
    pub fn text(&self) -> String {
        format!("{{{}}}", self.0)
    }
}
