//! gpuzip: checkpointing for adjoint codes.
//!
//! A deterministic adjoint schedule is compiled, before the run, into a transfer plan; a small
//! engine plays that plan against a device; a thin C ABI hands the engine to C, C++ and Fortran.
//!
//! The modules stand on floors, of which docs/architecture.md has the list. A module uses only modules on
//! the floors below its own; `tests/abi/floors.rs` fails if a module uses one above. An application
//! drives a [`session`], or through C the [`capi`].

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
pub mod npy;
pub mod numbers;
pub mod persist;
pub mod plan;
pub mod predict;
mod process;
pub mod quality;
mod reserve;
pub mod scalar;
pub mod schedule;
pub mod session;
mod shared_library;
pub mod stats;
pub mod stop;
pub mod tier;
pub mod timeline;
pub mod together;
mod tune;

/// The version of the C ABI. It changes when a program that was built with an older header could
/// misbehave.
pub const ABI_VERSION: u32 = 1;
