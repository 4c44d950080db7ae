//! gpuzip: checkpointing for adjoint codes.
//!
//! A deterministic adjoint schedule is compiled, before the run, into a transfer plan; a small engine plays that plan against a device; a
//! thin C ABI hands the engine to C, C++ and Fortran.

pub mod config;
pub mod error;
pub mod plan;
pub mod schedule;
