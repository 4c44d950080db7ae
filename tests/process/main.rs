//! `make test-all`: processes that fork, run out of memory, are killed, or run for long.

#[path = "../common/mod.rs"]
mod common;

mod fork;
mod levels;
mod oom;
mod persist_faults;
mod sanitizers;
mod soak;
mod stress;
