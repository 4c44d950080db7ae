//! gpuzip: checkpointing for adjoint codes.
//!
//! A deterministic adjoint schedule is compiled, before the run, into a transfer plan; a small
//! engine plays that plan against a device; a thin C ABI hands the engine to C, C++ and Fortran.
//!
//! The modules stand on floors, each using only what stands below it; `tests/floors.rs` has them in
//! order, and fails where one uses what stands above. From the top: [`capi`], the C ABI;
//! [`session`], what an application drives; `tune`, a measured shot; [`choice`], what a
//! configuration makes of a job; [`config`]; [`predict`], a run without its bytes; [`tier`], cache
//! and pool; [`plan`]; [`codec`]; [`device`], memory and order; [`schedule`]; and the ground.

pub mod available;
pub mod capi;
pub mod choice;
pub mod codec;
pub mod config;
pub mod device;
pub mod error;
mod fallible_vec;
pub mod files;
mod guarded;
pub mod layout;
mod nearest;
pub mod numbers;
pub mod plan;
pub mod predict;
mod process;
mod reserve;
pub mod scalar;
pub mod schedule;
pub mod session;
pub mod stats;
pub mod tier;
pub mod trace;
mod tune;

/// The version of the C ABI. It changes when a program built against an older header could
/// misbehave.
pub const ABI_VERSION: u32 = 1;
