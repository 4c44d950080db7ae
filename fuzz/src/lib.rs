//! Fuzz targets: functions of gpuzip that read bytes from others, and sequences of calls of the C
//! ABI.
//!
//! A target is a function of bytes that panics if gpuzip breaks a promise. The targets run in three
//! ways: under libFuzzer (`make fuzz`), over the committed corpora, and over seeded mutations of
//! the corpora (the last two in `fuzz/tests/replay.rs`, part of `cargo test`).

mod abi;
mod app;
mod calls;
mod config;
mod everything;
mod guard;
mod input;
pub mod mutate;
mod persist;
mod profile;
mod stream;
mod trace;

/// A target: a function of the input that panics if gpuzip breaks a promise.
pub type Target = fn(&[u8]);

/// All targets: the name, which is also the name of the corpus folder in `fuzz/corpus/`, and the
/// function.
pub const TARGETS: [(&str, Target); 7] = [
    ("config", config::run),
    ("trace", trace::run),
    ("profile", profile::run),
    ("stream", stream::run),
    ("persist", persist::run),
    ("calls", calls::run),
    ("everything", everything::run),
];
