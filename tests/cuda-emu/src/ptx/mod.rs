//! Runs PTX, the text that NVIDIA's compilers make of kernels: every access is checked, and blocks,
//! warps and lanes are interleaved as a device may interleave them. The README has the pictures.
//!
//! From the text downwards: `text` (statements), `module` and `decode` (functions as instructions
//! whose operands are rows of a warp's registers), `inst`. A launch: [`grid`] (which warp runs),
//! `exec` (a group of lanes runs), `alu` and `convert` (arithmetic), `access` (loads, stores,
//! atomics), `sync` (barriers, fences, shuffles). The checks: [`memory`], `races`, `clock`,
//! `stores`, [`report`]. Beside them: [`counts`].

mod access;
mod alu;
mod block;
mod clock;
mod convert;
pub mod counts;
mod decode;
mod exec;
pub mod grid;
mod inst;
pub mod memory;
mod module;
mod races;
pub mod report;
mod stores;
mod sync;
mod text;

pub use block::Shape;
pub use counts::Counts;
pub use grid::{Grid, Interleaving};
pub use memory::Memory;
pub use module::{Function, Module, Unknown};
pub use report::{Fault, Report};
