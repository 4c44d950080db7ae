//! gpuzip: checkpointing for adjoint codes.
//!
//! A deterministic adjoint schedule is compiled, before the run, into a transfer plan; a small engine plays that plan against a device; a
//! thin C ABI hands the engine to C, C++ and Fortran.

pub mod codec;
pub mod config;
pub mod cursor;
pub mod device;
pub mod error;
mod perf_log;
pub mod plan;
pub mod schedule;
pub mod session;
pub mod snapshot;
pub mod stats;
pub mod tier;
