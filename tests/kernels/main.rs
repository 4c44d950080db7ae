//! `make test-all`: what the kernels are as machine code, and which order of their operations is
//! needed.

#[path = "../common/mod.rs"]
mod common;

mod builds;
mod bundle;
mod counts;
mod interrupt;
mod order;
mod ptx;
mod rtm3d;
mod tools;
