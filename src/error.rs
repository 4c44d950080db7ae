//! Errors: a code for the program and a text for the person, which names the value and the remedy.

use std::fmt;

/// Why a call failed. The numbers are the C ABI's (`GPUZIP_ERR_*`), in ranges per area; a retired number is never used again.
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
        self.message = format!("{place}: {}", self.message);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// `Err(Error)` with a code and a formatted text.
macro_rules! fail {
    ($code:ident, $($text:tt)*) => {
        Err($crate::error::Error::new($crate::error::Code::$code, format!($($text)*)))
    };
}
pub(crate) use fail;
