//! Codecs: how the fields of a state become the bytes of a snapshot, and how these bytes become
//! fields again.
//!
//! A [`Coder`] codes one array; a [`SnapshotCodec`] codes all fields of a state as streams with
//! headers, within the error bounds asked for. Everything but the modules named `gpu` runs on the
//! host and defines the bytes that the kernels must produce.

// One index runs through several arrays: the compiler vectorises this form, and formulas are written
// this way.
#![allow(clippy::needless_range_loop)]

mod bfp;
mod bitcomp;
mod checksum;
mod coder;
mod cuszp;
mod dct;
mod field_values;
mod fixed;
mod fp16;
pub mod gpu;
mod lorenzo;
mod lossless;
mod mask;
pub mod plugin;
mod quantize;
mod sequence;
mod settings;
pub mod simd;
mod snapshot_codec;
mod stream;
mod streams;
mod table;
mod typed;
mod value_range;
mod zfp;

pub use bitcomp::Delta;
pub use checksum::checksum;
pub use coder::{Bound, Coder, SequenceCoder, Shape};
pub use mask::{alone as mask_alone, FillValue};
pub use sequence::{Sequence, FRAMES};
pub use settings::{ErrorBound, Settings};
pub use snapshot_codec::SnapshotCodec;
pub use stream::{Content, Header, HEADER};
pub use streams::Record;
pub use table::{Method, CODECS};
pub use value_range::ValueRange;
