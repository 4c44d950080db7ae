//! The masked values of the fields of a state, while its streams are made.

use crate::codec::coder::Shape;
use crate::codec::mask::{FillValue, Mask};
use crate::codec::settings::Settings;
use crate::codec::stream::padded;
use crate::codec::streams::{shapes_of, Streams};
use crate::device::{AppMemory, Slab};
use crate::error::Result;
use crate::fallible_vec::filled;
use crate::layout::Layout;
use std::ops::Range;

/// A mask that takes more than this part of the bytes of its field is not worth a place in a sequence, whose
/// payloads are made later: the record could take more bytes than the state.
const SMALL: usize = 16;

/// The masks of the fields, and copies of fields in which a continuation stands for masked values.
pub(super) struct Masks {
    pub fill: FillValue,
    /// For each field its mask, if a codec codes it.
    pub of: Vec<Option<Mask>>,
    /// Room for the copies of one group of fields, and for each field its copy in it.
    pub room: Slab,
    pub copies: Vec<Option<AppMemory>>,
}

impl Masks {
    /// Makes room for the masks of states of `layout`; `None` if the settings name no fill value.
    pub fn new(settings: &Settings, layout: &Layout, streams: &Streams) -> Result<Option<Self>> {
        let Some(fill) = settings.masked() else { return Ok(None) };
        let shapes: Vec<Shape> = shapes_of(layout).collect();
        let is_coded = |shape: &&Shape| shape.scalar.is_coded();
        let bytes = |&i: &usize| Some(&shapes[i]).filter(is_coded).map_or(0, copy_bytes);
        let sum = |g: &Range<usize>| {
            streams.order[g.clone()].iter().map(bytes).fold(0, usize::saturating_add)
        };
        let room = streams.groups.iter().map(sum).max().unwrap_or(0);
        let mask = |shape: &Shape| is_coded(&shape).then(|| Mask::new(*shape)).transpose();
        Ok(Some(Masks {
            fill,
            of: shapes.iter().map(mask).collect::<Result<_>>()?,
            room: Slab::new(room as u64)?,
            copies: filled(None, shapes.len())?,
        }))
    }

    pub fn count(&self, i: usize) -> u64 {
        self.of[i].as_ref().map_or(0, Mask::count)
    }
}

/// Bytes of a copy; the next one begins behind them.
pub(super) fn copy_bytes(shape: &Shape) -> usize {
    padded(shape.bytes())
}

/// Whether a field of this shape with a mask of `mask` bytes may be in a sequence.
pub(super) fn is_for_sequences(mask: usize, shape: Shape) -> bool {
    mask * SMALL <= shape.bytes()
}

/// Whether a mask and a payload take fewer bytes than the values do.
pub(super) fn is_worth(mask: usize, payload: usize, shape: Shape) -> bool {
    mask == 0 || mask + padded(payload) < padded(shape.bytes())
}
