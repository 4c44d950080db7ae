//! What most tests of sessions import.
#![allow(unused_imports)] // Each test program uses a part of it.

pub use super::cases::{cases, long};
pub use super::draw::Draw;
pub use super::host::{coding, config, field, noise, open, open_within_budgets, HostApp};
pub use super::play::{counts, is_end, is_raw, play_with, refused, step, step_all};
pub use super::play::{trace_that_is_no_stack, unplaced, App, Slots, ALGORITHMS, HOST};
pub use super::{alone, bytes_of, limit_files, nameless_in, tempdir};
pub use gpuzip::choice::{SharedSchedule, Tick};
pub use gpuzip::codec::{ErrorBound, Method, Settings, SnapshotCodec};
pub use gpuzip::config::{Backend, Config};
pub use gpuzip::device::{AppField, AppMemory};
pub use gpuzip::error::{Code, Result};
pub use gpuzip::layout::{Field, Layout};
pub use gpuzip::plan::Policy;
pub use gpuzip::scalar::Scalar;
pub use gpuzip::schedule::{flags, Algorithm, Kind};
pub use gpuzip::session::Session;
pub use gpuzip::stats::Stats;
