//! A state while its streams are made: the fields, what stands for their masked values, and the records.

use super::masks::{copy_bytes, Masks};
use crate::codec::coder::Shape;
use crate::codec::field_values::{subtract, value_range, values, values_mut};
use crate::codec::stream::{Content, Header};
use crate::codec::streams::Streams;
use crate::codec::value_range::ValueRange;
use crate::device::{AppMemory, Slab};
use crate::error::Result;
use crate::scalar::Array;
use std::ops::Range;

/// What a call that codes a state reads and writes. `compress_parts` makes it of fields that are
/// readable as long as it lives, and contiguous where a coder codes them.
pub(super) struct Making<'a> {
    pub fields: &'a [AppMemory],
    /// The parts that are coded.
    pub parts: Range<usize>,
    /// The record of each part, of which the first bytes are made.
    pub records: [&'a mut [u8]; 2],
    pub made: [usize; 2],
    /// The masked values, if the settings name a fill value; and for each record the field whose mask is the
    /// last one in it.
    pub masks: Option<&'a mut Masks>,
    pub masked: [Option<usize>; 2],
}

impl<'a> Making<'a> {
    /// The room behind what is made of the record of part `part`.
    pub fn room(&mut self, part: usize) -> &mut [u8] {
        &mut self.records[part][self.made[part]..]
    }

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

/// One array of the snapshot: a field, or the difference of two fields.
#[derive(Clone, Copy)]
pub(super) struct Subject {
    pub field: usize,
    /// Number j of the later time level: the array is field j minus this field.
    pub reference: Option<u16>,
    /// Part of the bound that the rounding of the sum of difference and later level uses up.
    pub rounding: f64,
}

impl Subject {
    /// Returns the subject for a field that is coded by itself.
    pub fn of(field: usize) -> Self {
        Subject { field, reference: None, rounding: 0.0 }
    }
}
