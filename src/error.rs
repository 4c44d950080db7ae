//! Errors: a code for the program and a text for the person, which names the value and the remedy.

use std::fmt::{self, Write};

/// Longest text of an error, in bytes: texts quote what they are given, which may be of any length,
/// and must be short where memory is.
pub const LONGEST_TEXT: usize = 2047;

/// Why a call failed. The numbers are the C ABI's (`GPUZIP_ERR_*`), in ranges per area; a retired
/// number is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Code {
    /// A pointer is NULL, or a number is outside its range.
    Argument = -101,
    /// A configuration value is impossible, or contradicts another one.
    Config = -102,
    /// The value is valid, but this version cannot do what it asks for.
    Unsupported = -103,
    /// The fields differ in number, shape or type from those given at init.
    Shape = -104,
    /// A field holds NaN or infinities, and the configuration makes that an error.
    Values = -105,
    /// The call does not fit the current action.
    State = -201,
    /// The handle was never made, or is finalized.
    Handle = -202,
    /// The handle belongs to the parent of this forked process.
    Forked = -203,
    /// A callback of the application stopped the run.
    Callback = -204,
    /// An allocation failed.
    Memory = -301,
    /// The plan does not fit the budgets.
    Budget = -302,
    /// A file cannot be read or written.
    Io = -401,
    /// A configuration or trace file is malformed.
    Parse = -402,
    /// A schedule breaks the rules of checkpointing.
    Schedule = -403,
    /// A compressed stream is damaged, or of another version.
    Stream = -404,
    /// The device failed.
    Device = -501,
    /// A defect in gpuzip: a panic was caught.
    Panic = -901,
    /// An earlier panic left this handle unusable.
    Poisoned = -902,
}

/// An error of this library.
#[derive(Clone, Debug)]
pub struct Error {
    /// The kind of failure.
    pub code: Code,
    /// What was wrong, with the value, and what to do about it.
    pub message: String,
}

/// The result of everything here that can fail.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error with its text.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Error { code, message: message.into() }
    }

    /// The same error, with the place where it happened put before its text.
    pub fn within(mut self, place: impl fmt::Display) -> Self {
        self.message = text(format_args!("{place}: {}", self.message));
        self
    }
}

/// A formatted text, cut after `LONGEST_TEXT` bytes.
pub fn text(arguments: fmt::Arguments<'_>) -> String {
    let mut text = Short(String::new());
    // An error is no error here: it ends the text.
    let _ = text.write_fmt(arguments);
    text.0
}

/// A text that takes no more than `LONGEST_TEXT` bytes, and fails then.
struct Short(String);

impl Write for Short {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let room = more.len().min(LONGEST_TEXT - self.0.len());
        let end = (0..=room).rev().find(|&end| more.is_char_boundary(end)).unwrap_or(0);
        self.0.push_str(&more[..end]);
        if end < more.len() {
            return Err(fmt::Error);
        }
        Ok(())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        let kind = if error.code == Code::Memory {
            std::io::ErrorKind::OutOfMemory
        } else {
            std::io::ErrorKind::Other
        };
        std::io::Error::new(kind, error)
    }
}

/// `Err(Error)` with a code and a formatted text.
macro_rules! fail {
    ($code:ident, $($text:tt)*) => {
        Err($crate::error::Error::new($crate::error::Code::$code, $crate::error::text(format_args!($($text)*))))
    };
}
pub(crate) use fail;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters() {
        let long = "\u{e9}".repeat(LONGEST_TEXT);
        let cut = text(format_args!("{long}{}", 1));
        assert_eq!(cut, "\u{e9}".repeat(LONGEST_TEXT / 2));
        let error = Error::new(Code::Config, text(format_args!("{long}"))).within(&long);
        assert!(error.message.len() <= LONGEST_TEXT && error.message.starts_with('\u{e9}'));
        assert_eq!(text(format_args!("{} = {}", "steps", 3)), "steps = 3");
    }
}
