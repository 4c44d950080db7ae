//! A software CUDA driver: the entry points of `libcuda.so.1` that a checkpointing library needs,
//! over host memory.
//!
//! Streams are queues. At each API call a seeded scheduler decides which queued operations run, in
//! any order that the rules of CUDA allow. So a missing event, or a staging buffer that is reused
//! too early, gives wrong results under some seeds, and always under the same seeds. The README
//! says how to use the driver.
//!
//! The modules, from the C functions downwards: [`api`] (the C functions); [`driver`] (one lock,
//! one state); `scheduler` and `execute`; `stream`, `event`, `capture`, `context`, `memory`; `launch`,
//! `interpreted`, `nvrtc` and `nvidia` (kernels); [`ptx`] (NVIDIA's PTX, interpreted); `clock`, `faults`, `counters`, `history`, `settings`.

pub mod api;
mod call;
mod capture;
mod clock;
mod context;
mod counters;
pub mod driver;
mod event;
mod execute;
mod faults;
mod history;
mod host_thread;
mod interpreted;
mod launch;
mod memory;
mod named;
mod nvidia;
mod nvrtc;
pub mod ptx;
mod rng;
mod scheduler;
mod settings;
pub mod status;
mod stream;
mod table;

pub use api::control::KernelCounts;
pub use counters::Totals;
pub use history::{Entry, Kind};
pub use settings::Mode;
