//! Errors: a code for the program, and a text for the person that names the value and the remedy.

use std::fmt::{self, Write};

/// Most bytes of a text from `text`, `fail!` or `Error::within`. Such texts quote input of any
/// length, and must stay short when memory is short.
pub const LONGEST_TEXT: usize = 2047;

/// The reason for which a call failed. The numbers are those of the C ABI (`GPUZIP_ERR_*`), in a
/// range for each area. The number of a retired code is never used again.
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
    /// The handle was never made, or was finalized.
    Handle = -202,
    /// The handle belongs to the parent process of this forked process.
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
    /// A defect in gpuzip: a panic was caught in this call.
    Panic = -901,
    /// An earlier panic left this handle unusable.
    Poisoned = -902,
}

/// An error of gpuzip.
#[derive(Clone, Debug)]
pub struct Error {
    /// The kind of failure.
    pub code: Code,
    /// What was wrong, with the value, and what to do about it.
    pub message: String,
}

/// The result of a function that can fail with an [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Makes an error from its code and text.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Error { code, message: message.into() }
    }

    /// Returns the error with `place` before its text: where, or on what, the call failed.
    pub fn within(mut self, place: impl fmt::Display) -> Self {
        self.message = text(format_args!("{place}: {}", self.message));
        self
    }
}

/// Formats a text and cuts it after at most `LONGEST_TEXT` bytes, between two characters.
pub fn text(arguments: fmt::Arguments<'_>) -> String {
    let mut text = Short(String::new());
    // The formatting error only says that the text was cut.
    let _ = text.write_fmt(arguments);
    text.0
}

/// A text that takes at most `LONGEST_TEXT` bytes, and returns an error for more.
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
        use std::io::ErrorKind::{Other, OutOfMemory};
        let kind = if error.code == Code::Memory { OutOfMemory } else { Other };
        std::io::Error::new(kind, error)
    }
}

/// Makes an `Err(Error)` from the name of a code and a formatted text.
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
