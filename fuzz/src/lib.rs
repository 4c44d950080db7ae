//! Fuzz targets: what reads bytes that others wrote, and sequences of calls of the C ABI.
//!
//! A target is a function of bytes that panics where gpuzip breaks a promise. The same functions
//! run in three ways: under libFuzzer (`make fuzz`), over the committed corpora, and over seeded
//! mutations of these (both in `fuzz/tests/replay.rs`, part of `cargo test`).

mod abi;
mod app;
mod calls;
mod config;
mod guard;
mod input;
pub mod mutate;
mod profile;
mod stream;
mod trace;

/// A target: panics where a promise is broken.
pub type Target = fn(&[u8]);

/// All targets: the name, which is also the folder of the corpus in `fuzz/corpus/`, and the
/// function.
pub const TARGETS: [(&str, Target); 5] = [
    ("config", config::run),
    ("trace", trace::run),
    ("profile", profile::run),
    ("stream", stream::run),
    ("calls", calls::run),
];
