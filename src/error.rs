//! Errors: a code for the program, and a text for the person that names the value and the remedy.

use crate::named::named;
use std::fmt::{self, Write};
use std::ops::Deref;

/// Most bytes of a text from `text`, `fail!` or `Error::within`. Such texts quote input of any
/// length, and must stay short when memory is short.
pub const LONGEST_TEXT: usize = 2047;

named! {
    /// The reason for which a call failed. The numbers are those of the C ABI (`GPUZIP_ERR_*`, where
    /// each is described), in a range for each area. The number of a retired code is never used again.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[allow(missing_docs)]
    #[repr(i32)]
    pub enum Code {
        Argument = -101 => "invalid argument",
        Config = -102 => "impossible configuration",
        Unsupported = -103 => "not supported by this version",
        Shape = -104 => "fields do not match the session",
        Values = -105 => "a field is not finite",
        State = -201 => "call does not fit the current action",
        Handle = -202 => "invalid handle",
        Forked = -203 => "handle of the parent process",
        Callback = -204 => "stopped by a callback",
        Memory = -301 => "out of memory",
        Budget = -302 => "budgets exceeded",
        Io = -401 => "input or output failed",
        Parse = -402 => "malformed file",
        Schedule = -403 => "invalid schedule",
        Stream = -404 => "damaged stream",
        Device = -501 => "device failed",
        Panic = -901 => "internal error",
        Poisoned = -902 => "handle unusable after an internal error",
    }
}

/// An error of gpuzip. It is as small as a pointer, so that a call without an error moves no more than
/// that from function to function.
#[derive(Clone, Debug)]
pub struct Error(Box<What>);

/// What an [`Error`] says.
#[derive(Clone, Debug)]
pub struct What {
    /// The kind of failure.
    pub code: Code,
    /// What was wrong, with the value, and what to do about it.
    pub message: String,
}

impl Deref for Error {
    type Target = What;

    fn deref(&self) -> &What {
        &self.0
    }
}

/// The result of a function that can fail with an [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Makes an error from its code and text.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Error(Box::new(What { code, message: message.into() }))
    }

    /// Returns the error with `place` before its text: where, or on what, the call failed.
    pub fn within(mut self, place: impl fmt::Display) -> Self {
        self.0.message = text(format_args!("{place}: {}", self.message));
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

impl From<std::io::Error> for Error {
    /// Takes the error of gpuzip back that was made an error of the operating system, or makes one.
    fn from(error: std::io::Error) -> Self {
        match error.downcast::<Error>() {
            Ok(error) => error,
            Err(error) => of(Code::Io, format_args!("{error}")),
        }
    }
}

/// Makes an error from its code and a formatted text.
#[cold]
pub fn of(code: Code, arguments: fmt::Arguments<'_>) -> Error {
    Error::new(code, text(arguments))
}

/// Makes an `Err(Error)` from the name of a code and a formatted text.
macro_rules! fail {
    ($code:ident, $($text:tt)*) => {
        Err($crate::error::of($crate::error::Code::$code, format_args!($($text)*)))
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
