//! gpuzip: checkpointing for adjoint codes.
//!
//! A deterministic adjoint schedule is compiled, before the run, into a transfer plan; a small engine plays that plan against a device; a
//! thin C ABI hands the engine to C, C++ and Fortran.
//!
//! The floors, each using only what stands below it: [`capi`]; [`session`]; [`tier`]; [`plan`] and [`codec`]; [`schedule`], [`config`],
//! [`snapshot`] and [`device`]; [`stats`], [`trace`], [`files`], [`numbers`] and [`error`].

pub mod available;
pub mod capi;
pub mod choice;
pub mod codec;
pub mod config;
pub mod device;
pub mod error;
mod fallible_vec;
pub mod files;
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

/// The version of the C ABI. It changes when a program built against an older header could misbehave.
pub const ABI_VERSION: u32 = 1;
