//! The C ABI: every `extern "C"` function of the library. Each function checks and converts its
//! arguments, calls the session and maps errors to statuses.

// The names are those of the C header.
#![allow(non_camel_case_types)]

mod agree;
mod checked;
mod codec;
mod config;
mod defaults;
mod device_codec;
mod entry;
mod float;
mod handles;
mod keys;
mod load;
mod logging;
mod persist;
mod profile;
mod quality;
mod quality_runs;
mod run;
mod schedule;
mod session;
mod types;

pub use agree::*;
pub use codec::*;
pub use config::*;
pub use device_codec::*;
pub use entry::*;
pub use keys::{Allowed, Key, KEYS};
pub use load::{Loaded, Source};
pub use logging::*;
pub use persist::*;
pub use profile::*;
pub use quality::*;
pub use run::*;
pub use schedule::*;
pub use session::*;
pub use types::*;

#[cfg(test)]
mod config_tests;
#[cfg(test)]
mod plan_tests;
#[cfg(test)]
mod tests;
