//! How the fields of a state become streams: the arrays of a group of fields, their bounds, and the codec.

use super::masks::{is_for_sequences, is_worth};
use super::state::{Making, Subject};
use super::SnapshotCodec;
use crate::codec::coder::Bound;
use crate::codec::field_values::{constant, rows_of, value_range, values};
use crate::codec::stream::{Content, Header, HEADER};
use crate::codec::table::Method;
use crate::codec::value_range::ValueRange;
use crate::error::{fail, Result};
use crate::scalar::{Array, Scalar};
use std::ops::Range;

impl SnapshotCodec {
    /// Codes the fields.
    pub(super) fn compress_all(&mut self, making: &mut Making) -> Result<()> {
        for g in 0..self.streams.groups.len() {
            let group = self.streams.groups[g].clone();
            if !self.shapes[self.streams.order[group.start]].scalar.is_coded() {
                self.keep_group(group, making)?;
                continue;
            }
            if self.settings.method.is_lossless() {
                self.compress_exactly(group, making)?;
                continue;
            }
            making.mask(group.clone(), &self.streams, &self.shapes)?;
            let before = (making.made, making.masked);
            let may_lean = self.settings.method != Method::None;
            if !may_lean || !self.compress_group(group.clone(), making)? {
                (making.made, making.masked) = before;
                self.compress_apart(group, making)?;
            }
        }
        Ok(())
    }

    /// Stores the fields of a group, which have the same type, raw.
    fn keep_group(&self, group: Range<usize>, making: &mut Making) -> Result<()> {
        for k in group {
            let Some(i) = self.streams.coded(k, &making.parts) else { continue };
            let (shape, field, part) = (self.shapes[i], making.fields[i], self.streams.part_of[i]);
            let rows = rows_of(field, shape)?;
            let to = making.room(part);
            let values = &mut to[HEADER..][..shape.bytes()];
            // SAFETY: the field is readable, as `Making` says; `values` is as long.
            unsafe { rows.gather(field.address(), values.as_mut_ptr()) };
            let header = self.header(Subject::of(i), Content::Raw, 0.0, shape.bytes());
            making.made[part] += header.seal(to);
        }
        Ok(())
    }

    fn header(&self, subject: Subject, content: Content, bound: f64, payload: usize) -> Header {
        let (method, shape) = (&self.settings.method, self.shapes[subject.field]);
        let (codec, parameter) = (method.number(), method.parameter());
        let (field, reference) = (subject.field as u16, subject.reference);
        Header { codec, content, field, reference, parameter, shape, bound, payload }
    }

    /// Codes a group with differences for previous time levels. Returns false if that breaks a bound.
    fn compress_group(&mut self, group: Range<usize>, making: &mut Making) -> Result<bool> {
        for k in group {
            let Some(i) = self.streams.coded(k, &making.parts) else { continue };
            let x = making.values(i, self.shapes[i])?;
            let found = value_range(x);
            self.check_finite(i, &found)?;
            let Some(j) = self.streams.later(i, &making.parts) else {
                let bound = self.bound_of(i, &found, x, making);
                self.errors[i] = error_of(bound, &found);
                self.code(Subject::of(i), x, &found, bound, making)?;
                continue;
            };
            if !self.streams.may_lean(i, j) || !making.are_masked_alike(i, j) {
                return Ok(false);
            }
            let of_difference = making.subtract((i, j), self.shapes[i], &mut self.difference)?;
            // A sum of values near the largest number and an error could be infinite.
            if of_difference.nonfinite > 0 || found.max_abs() > range_of(self.shapes[i].scalar).1 {
                return Ok(false);
            }
            // SAFETY: `subtract` has just written the difference, and nothing else uses its memory.
            let difference = unsafe { values(self.difference.memory(), self.shapes[i]) }?;
            let bound = self.bound_of(i, &of_difference, difference, making);
            self.errors[i] = self.errors[j] + error_of(bound, &of_difference);
            let rounding = ulp(self.shapes[i].scalar)
                * (of_difference.max_abs() + found.max_abs() + self.errors[i]);
            if self.settings.method.is_bounded()
                && of_difference.max_abs() > 0.0
                && rounding > 0.5 * bound.value()
            {
                return Ok(false);
            }
            let subject = Subject { field: i, reference: Some(j as u16), rounding };
            let content = self.code(subject, difference, &of_difference, bound, making)?;
            if content == Content::Raw {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Codes every field of a group by itself, within half the bound of each of its differences.
    fn compress_apart(&mut self, group: Range<usize>, making: &mut Making) -> Result<()> {
        for k in group.clone() {
            let Some(i) = self.streams.coded(k, &making.parts) else { continue };
            let x = making.values(i, self.shapes[i])?;
            let found = value_range(x);
            self.check_finite(i, &found)?;
            let mut bound = self.bound_of(i, &found, x, making);
            if let Some(j) = self.streams.later(i, &making.parts) {
                let of_difference =
                    making.subtract((i, j), self.shapes[i], &mut self.difference)?;
                // SAFETY: `subtract` has just written the difference; nothing else uses it.
                let difference = unsafe { values(self.difference.memory(), self.shapes[i]) }?;
                let of_difference = match making.are_masked_alike(i, j) {
                    true => self.bound_of(i, &of_difference, difference, making),
                    false => self.settings.bound.of(&of_difference, difference),
                };
                bound = bound.at_most(0.5 * of_difference.value());
                self.apart[j].1 = self.apart[j].1.at_most(0.5 * of_difference.value());
            }
            self.apart[i] = (found, bound);
        }
        for k in group {
            let Some(i) = self.streams.coded(k, &making.parts) else { continue };
            let (found, bound) = self.apart[i];
            let x = making.values(i, self.shapes[i])?;
            self.code(Subject::of(i), x, &found, bound, making)?;
        }
        Ok(())
    }

    /// Codes every field of a group by itself, without loss.
    fn compress_exactly(&mut self, group: Range<usize>, making: &mut Making) -> Result<()> {
        for k in group {
            let Some(i) = self.streams.coded(k, &making.parts) else { continue };
            let x = making.values(i, self.shapes[i])?;
            if self.settings.reject_nonfinite {
                self.check_finite(i, &value_range(x))?;
            }
            let constant = constant(x);
            self.put(Subject::of(i), x, constant, Some(Bound::Max(0.0)), 0.0, making)?;
        }
        Ok(())
    }

    /// The bound for an array that is field `i` or its difference to another, with a continuation where values are
    /// masked: a mean over the others alone is larger by the ratio of the counts.
    fn bound_of(&self, i: usize, found: &ValueRange, x: Array<'_>, making: &Making) -> Bound {
        match self.settings.bound.of(found, x) {
            Bound::Rms(mean) => Bound::Rms(mean * making.unmasked(i, found, x).sqrt()),
            bound => bound,
        }
    }

    /// Fails if field `i` has values that are not finite and the settings reject such values.
    fn check_finite(&self, i: usize, found: &ValueRange) -> Result<()> {
        match found.nonfinite {
            count @ 1.. if self.settings.reject_nonfinite => not_finite(i, count),
            _ => Ok(()),
        }
    }

    /// Appends the stream of one array to the record of its field; returns the stream's content.
    fn code(
        &mut self,
        subject: Subject,
        x: Array<'_>,
        found: &ValueRange,
        bound: Bound,
        making: &mut Making,
    ) -> Result<Content> {
        let is_bounded = self.settings.method.is_bounded();
        let promised = if is_bounded { bound.value() } else { 0.0 };
        let bound = Some(bound.at_most(bound.value() - subject.rounding)).filter(|_| is_bounded);
        let zero = found.nonfinite == 0 && bound.is_some_and(|b| found.max_abs() <= b.value());
        // Zeros of both signs compare equal: without a coder, every bit must be kept.
        let is_constant = found.is_constant() && self.settings.method != Method::None;
        let constant = is_constant.then_some(found.max).or(zero.then_some(0.0));
        let may_code = is_in_range(self.shapes[subject.field].scalar, found, bound);
        let bound = may_code.then_some(bound.unwrap_or(Bound::Max(0.0)));
        self.put(subject, x, constant, bound, promised, making)
    }

    /// Appends the stream of one array: of the value that all its values are, if there is one, or else
    /// of its values, coded with a bound if there is one and if coding makes them fewer bytes.
    fn put(
        &mut self,
        subject: Subject,
        x: Array<'_>,
        constant: Option<f64>,
        bound: Option<Bound>,
        promised: f64,
        making: &mut Making,
    ) -> Result<Content> {
        let (shape, part) = (self.shapes[subject.field], self.streams.part_of[subject.field]);
        if self.is_in_sequence && subject.reference.is_none() {
            self.sequence.iter_mut().for_each(|sequence| sequence.forget(subject.field));
        }
        let before = (making.made, making.masked);
        let header = self.header(subject, Content::Mask, 0.0, 0);
        let mask = making.put_mask(subject, part, header);
        let to = making.room(part);
        let (content, payload) = if let Some(value) = constant {
            to[HEADER..HEADER + 8].copy_from_slice(&value.to_le_bytes());
            (Content::Constant, 8)
        } else if is_for_sequences(mask, shape) && self.takes(subject, x, bound)? {
            (Content::Coded, 0)
        } else {
            let coder = self.coders[self.coder_of[subject.field]].as_mut();
            let coded = match coder.zip(bound) {
                Some((coder, bound)) => coder.compress(x, bound, &mut to[HEADER..])?,
                None => None,
            };
            match coded.filter(|&bytes| bytes < shape.bytes()) {
                Some(bytes) => (Content::Coded, bytes),
                None => (Content::Raw, shape.bytes()),
            }
        };
        if content != Content::Raw && is_worth(mask, payload, shape) {
            making.made[part] += self.header(subject, content, promised, payload).seal(to);
            return Ok(content);
        }
        // Raw values need no mask. (Those of a difference are never read: the group is coded apart.)
        (making.made, making.masked) = before;
        // SAFETY: the field is readable, as `Making` says.
        let x = if mask > 0 { unsafe { values(making.fields[subject.field], shape) }? } else { x };
        let to = making.room(part);
        to[HEADER..HEADER + shape.bytes()].copy_from_slice(x.bytes());
        let header = self.header(subject, Content::Raw, promised, shape.bytes());
        making.made[part] += header.seal(to);
        Ok(Content::Raw)
    }

    /// Lets a sequence take an array, if the state in hand is one of a sequence. Returns whether it did.
    fn takes(&mut self, subject: Subject, x: Array<'_>, bound: Option<Bound>) -> Result<bool> {
        let sequence = self.sequence.as_mut().filter(|_| self.is_in_sequence);
        match (sequence, bound, subject.reference) {
            (Some(sequence), Some(bound), None) => sequence.take(subject.field, x, bound),
            _ => Ok(false),
        }
    }
}

/// Returns the error of a field with `count` values that are not finite.
pub(in crate::codec) fn not_finite<T>(field: usize, count: u64) -> Result<T> {
    fail!(
        Values,
        "field {field} holds {count} values that are NaN or infinite (nonfinite = 0 keeps them)"
    )
}

/// Returns the largest error of a decoded value.
fn error_of(bound: Bound, found: &ValueRange) -> f64 {
    match bound {
        Bound::Max(b) => b.min(found.max_abs()),
        Bound::Rms(_) => found.max_abs(),
    }
}

/// Returns the relative rounding error of a sum.
fn ulp(scalar: Scalar) -> f64 {
    match scalar {
        Scalar::F32 => f64::EPSILON * (1u64 << 28) as f64,
        _ => f64::EPSILON / 2.0,
    }
}

/// Returns the least and the greatest max |x| of the arrays that a coder with a bound accepts.
fn range_of(scalar: Scalar) -> (f64, f64) {
    match scalar {
        Scalar::F32 => (2f64.powi(-100), 2f64.powi(120)),
        _ => (2f64.powi(-900), 2f64.powi(1000)),
    }
}

/// Returns whether the array meets what a coder relies on. A coder without a bound relies only on
/// decoded values being finite.
fn is_in_range(scalar: Scalar, found: &ValueRange, bound: Option<Bound>) -> bool {
    let (least, most) = range_of(scalar);
    let max = found.max_abs();
    max <= most
        && bound.is_none_or(|bound| max >= least && bound.value() >= max / (1u64 << 28) as f64)
}
