//! Codecs: how the fields of a state become the bytes of a snapshot and back.
//!
//! A [`Coder`] codes one array; a [`SnapshotCodec`] makes the arrays of a state into streams with
//! headers, within the bounds asked for. Everything here but `gpu` runs on the host, and says what
//! kernels must do, bit for bit.

mod bfp;
mod bitcomp;
mod checksum;
mod coder;
mod cuszp;
mod dct;
pub mod gpu;
mod half;
mod lorenzo;
pub mod plugin;
mod quantize;
mod settings;
pub mod simd;
mod snapshot_codec;
mod stream;
mod value_range;
pub mod zfp;

pub use bitcomp::Delta;
pub use checksum::checksum;
pub use coder::{Bound, Coder, Shape};
pub use settings::{ErrorBound, Method, Settings};
pub use snapshot_codec::SnapshotCodec;
pub use stream::{Content, Header};
pub use value_range::ValueRange;
