//! A software CUDA driver: the entry points of `libcuda.so.1` that a checkpointing library needs,
//! over host memory.
//!
//! Streams are queues. Nothing runs when it is enqueued, except as a seeded scheduler decides at
//! each API call, within the ordering rules of CUDA and no further; so a missing event or a staging
//! buffer reused too early fails here, reproducibly. See the README for its use.
//!
//! The floors: [`api`] (the C functions); [`driver`] (one lock, one state); `scheduler` and
//! `execute`; `stream`, `event`, `context`, `memory`; `launch` and `nvrtc` (kernels); `clock`,
//! `faults`, `counters`, `history`, `settings`.

pub mod api;
mod call;
mod clock;
mod context;
mod counters;
pub mod driver;
mod event;
mod execute;
mod faults;
mod history;
mod host_thread;
mod launch;
mod memory;
mod nvrtc;
mod rng;
mod scheduler;
mod settings;
pub mod status;
mod stream;
mod table;

pub use counters::Totals;
pub use history::{Entry, Kind};
pub use settings::Mode;
