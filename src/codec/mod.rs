//! Codecs: how the fields of a state become the bytes of a snapshot and back, on the application's lane.

mod coder;
mod real;
pub mod simd;

pub use coder::{Bound, Coder, Shape};
pub use real::{Array, ArrayMut, Real};

use crate::device::{AppMemory, Device, Lane, Place};
use crate::error::Result;
use crate::snapshot::Layout;

/// A way to store snapshots. Both calls enqueue their work on the application's lane and do not wait for it.
pub trait Codec: Send {
    /// Bytes that a snapshot of this layout takes, at most.
    fn slot_bytes(&self, layout: &Layout) -> u64;

    /// Stores `fields` at `to`.
    fn encode(&self, device: &mut dyn Device, layout: &Layout, fields: &[AppMemory], to: Place) -> Result<()>;

    /// Restores `fields` from `from`.
    fn decode(&self, device: &mut dyn Device, layout: &Layout, from: Place, fields: &[AppMemory]) -> Result<()>;
}

/// The fields as they are, one after the other.
pub struct Raw;

impl Codec for Raw {
    fn slot_bytes(&self, layout: &Layout) -> u64 {
        layout.slot_bytes
    }

    fn encode(&self, device: &mut dyn Device, layout: &Layout, fields: &[AppMemory], to: Place) -> Result<()> {
        for ((field, &offset), &memory) in layout.fields.iter().zip(&layout.offsets).zip(fields) {
            device.copy(Lane::App, to.plus(offset), Place::App(memory), field.bytes().unwrap_or(0))?;
        }
        Ok(())
    }

    fn decode(&self, device: &mut dyn Device, layout: &Layout, from: Place, fields: &[AppMemory]) -> Result<()> {
        for ((field, &offset), &memory) in layout.fields.iter().zip(&layout.offsets).zip(fields) {
            device.copy(Lane::App, Place::App(memory), from.plus(offset), field.bytes().unwrap_or(0))?;
        }
        Ok(())
    }
}
