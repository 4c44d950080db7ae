//! gpuzip: checkpointing for adjoint codes.
//!
//! A deterministic adjoint schedule is compiled, before the run, into a transfer plan; a small
//! engine plays that plan against a device; a thin C ABI hands the engine to C, C++ and Fortran.
//!
//! The modules stand on floors. A module uses only modules on the floors below its own;
//! `tests/abi/floors.rs` lists the floors and fails if a module uses one above. From the top:
//! [`capi`], the C ABI; [`session`], which an application drives; `tune`, the measurement of a
//! shot; [`choice`], which makes a plan from a configuration; [`config`]; [`predict`], the
//! simulation of a run without data; [`tier`], device cache and host pool; [`plan`]; [`codec`];
//! [`device`], memory and order; [`persist`], durable files; [`schedule`]; and the ground: layout,
//! scalar types, files, errors.

pub mod available;
pub mod capi;
#[cfg(test)]
#[path = "../tests/common/cases.rs"]
mod cases;
pub mod choice;
pub mod codec;
pub mod config;
pub mod device;
pub mod environment;
pub mod error;
mod fallible_vec;
pub mod files;
mod guarded;
pub mod layout;
mod named;
mod nearest;
pub mod numbers;
pub mod persist;
pub mod plan;
pub mod predict;
mod process;
mod reserve;
pub mod scalar;
pub mod schedule;
pub mod session;
mod shared_library;
pub mod stats;
mod stop;
pub mod tier;
pub mod timeline;
pub mod together;
mod tune;

/// The version of the C ABI. It changes when a program that was built with an older header could
/// misbehave.
pub const ABI_VERSION: u32 = 1;
