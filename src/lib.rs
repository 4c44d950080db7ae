//! gpuzip: checkpointing for adjoint codes.
//!
//! A deterministic adjoint schedule is compiled, before the run, into a transfer plan; a small engine plays that plan against a device; a
//! thin C ABI hands the engine to C, C++ and Fortran.
//!
//! The floors, each using only what stands below it: [`capi`]; [`session`]; [`tier`]; [`plan`] and [`codec`]; [`schedule`], [`config`],
//! [`snapshot`] and [`device`]; [`stats`], [`trace`], [`files`], [`numbers`] and [`error`].

mod agree;
pub mod available;
mod budgets;
pub mod capi;
pub mod codec;
pub mod config;
pub mod cursor;
pub mod device;
pub mod error;
pub mod files;
mod fork;
mod nearest;
pub mod numbers;
pub mod offers;
mod perf_log;
pub mod plan;
mod reserve;
mod room;
pub mod schedule;
pub mod session;
pub mod snapshot;
pub mod stats;
pub mod tier;
pub mod trace;
mod tune;

/// The version of the C ABI. It changes when a program built against an older header could misbehave.
pub const ABI_VERSION: u32 = 1;
