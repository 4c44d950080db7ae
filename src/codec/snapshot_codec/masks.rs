//! The masked values of the fields of a state, while its streams are made.

use super::making::{Making, Subject};
use crate::codec::coder::Shape;
use crate::codec::field_values::{subtract, value_range, values, values_mut};
use crate::codec::mask::{most_bytes, FillValue, Mask};
use crate::codec::settings::Settings;
use crate::codec::stream::{padded, Content, Header};
use crate::codec::streams::{shapes_of, Streams};
use crate::codec::value_range::ValueRange;
use crate::device::{AppMemory, Slab};
use crate::error::Result;
use crate::fallible_vec::filled;
use crate::layout::Layout;
use crate::scalar::Array;
use std::ops::Range;

/// A mask that takes more than this part of the bytes of its field is not worth a place in a sequence, whose
/// payloads are made later: the record could take more bytes than the state.
const SMALL: usize = 16;

/// The masks of the fields, and copies of fields in which a continuation stands for masked values.
pub(super) struct Masks {
    fill: FillValue,
    /// For each field its mask, if a codec codes it.
    of: Vec<Option<Mask>>,
    /// Room for the copies of one group of fields, and for each field its copy in it.
    room: Slab,
    copies: Vec<Option<AppMemory>>,
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

    fn count(&self, i: usize) -> u64 {
        self.of[i].as_ref().map_or(0, Mask::count)
    }
}

/// Bytes of a copy; the next one begins behind them.
fn copy_bytes(shape: &Shape) -> usize {
    padded(shape.bytes())
}

impl<'a> Making<'a> {
    /// Finds the masked values of fields, which are coded next, and makes copies without them. The fields are
    /// those of one group.
    pub fn mask(&mut self, group: Range<usize>, streams: &Streams, shapes: &[Shape]) -> Result<()> {
        let Some(masks) = self.masks.as_deref_mut() else { return Ok(()) };
        let mut at = 0;
        for i in group.filter_map(|k| streams.coded(k, &self.parts)) {
            let (shape, Some(mask)) = (shapes[i], &mut masks.of[i]) else { continue };
            // SAFETY: the field is readable, as `Making` says.
            let x = unsafe { values(self.fields[i], shape) }?;
            mask.find(masks.fill, x);
            masks.copies[i] = None;
            if mask.count() == 0 {
                continue;
            }
            let to = &mut masks.room.bytes_mut()[at..at + shape.bytes()];
            to.copy_from_slice(x.bytes());
            // SAFETY: the bytes were just written, and nothing else refers to them now.
            let copy = unsafe { AppMemory::new(to.as_mut_ptr(), to.len()) };
            // SAFETY: as above.
            mask.fill(unsafe { values_mut(copy, shape) }?);
            masks.copies[i] = Some(copy);
            at += copy_bytes(&shape);
        }
        Ok(())
    }

    /// The values of field `i` as a codec codes them: with a continuation where values are masked.
    pub fn values(&self, i: usize, shape: Shape) -> Result<Array<'a>> {
        let copy = self.masks.as_ref().and_then(|masks| masks.copies[i]);
        // SAFETY: the field is readable, as `Making` says, and the copy until the next group is begun.
        unsafe { values(copy.unwrap_or(self.fields[i]), shape) }
    }

    /// The share of the values that are not masked in those that are not masked or infinite or NaN.
    pub fn unmasked(&self, i: usize, found: &ValueRange, x: Array<'_>) -> f64 {
        let masked = self.masks.as_ref().map_or(0, |masks| masks.count(i));
        let finite = x.count() as u64 - found.nonfinite;
        if masked == 0 {
            1.0
        } else {
            finite.saturating_sub(masked) as f64 / finite as f64
        }
    }

    /// Whether the same values of two fields are masked.
    pub fn are_masked_alike(&self, i: usize, j: usize) -> bool {
        let masks = self.masks.as_ref();
        masks.is_none_or(|masks| match (&masks.of[i], &masks.of[j]) {
            (Some(a), Some(b)) => a.has_places_of(b),
            _ => true,
        })
    }

    /// Writes field j minus field i to `difference`. Where values of either are masked, a continuation stands if
    /// both are masked alike, or else NaN, which does not count for a bound.
    pub fn subtract(
        &mut self,
        (i, j): (usize, usize),
        shape: Shape,
        difference: &mut Slab,
    ) -> Result<ValueRange> {
        let found = subtract(self.values(j, shape)?, self.values(i, shape)?, difference);
        let is_alike = self.are_masked_alike(i, j);
        let Some(masks) = self.masks.as_deref_mut() else { return Ok(found) };
        if masks.count(i) + masks.count(j) == 0 {
            return Ok(found);
        }
        // SAFETY: `subtract` has just written the difference, and nothing else uses its memory.
        let to = || unsafe { values_mut(difference.memory(), shape) };
        match &masks.of[i] {
            Some(mask) if is_alike => mask.fill(to()?),
            _ => {
                for mask in [i, j].into_iter().filter_map(|k| masks.of[k].as_ref()) {
                    mask.put_nan(to()?);
                }
            }
        }
        // SAFETY: as above.
        Ok(value_range(unsafe { values(difference.memory(), shape) }?))
    }

    /// Writes the mask of the field of `subject`, if any of its values is masked, to the record of its part.
    /// `header` is that of the stream of the values. Returns the bytes of the mask's stream.
    pub fn put_mask(&mut self, subject: Subject, part: usize, header: Header) -> usize {
        let Some(masks) = self.masks.as_deref_mut() else { return 0 };
        let i = subject.field;
        if masks.count(i) == 0 {
            return 0;
        }
        let before = self.masked[part].and_then(|k| masks.of[k].as_ref());
        let is_as_before =
            before.zip(masks.of[i].as_ref()).is_some_and(|(a, b)| a.has_places_of(b));
        let Some(mask) = &mut masks.of[i] else { return 0 };
        let to = &mut self.records[part][self.made[part]..];
        let payload = mask.write(is_as_before, to);
        let header =
            Header { content: Content::Mask, reference: None, bound: 0.0, payload, ..header };
        let bytes = header.seal(to);
        self.made[part] += bytes;
        self.masked[part] = Some(i);
        bytes
    }
}

/// Whether a field of this shape with a mask of `mask` bytes may be in a sequence.
pub(super) fn is_for_sequences(mask: usize, shape: Shape) -> bool {
    mask * SMALL <= shape.bytes()
}

/// Whether a mask and a payload take fewer bytes than the values do.
pub(super) fn is_worth(mask: usize, payload: usize, shape: Shape) -> bool {
    mask == 0 || mask + padded(payload) < padded(shape.bytes())
}

/// The most bytes of the mask of an array; 0 if the settings name no fill value.
pub fn mask_bytes(settings: &Settings, shape: Shape) -> usize {
    if settings.masked().is_some() && shape.scalar.is_coded() {
        most_bytes(shape)
    } else {
        0
    }
}
