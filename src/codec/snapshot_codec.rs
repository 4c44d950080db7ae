//! Snapshots as streams: the fields of a state, coded one after the other.

use super::coder::{Bound, Coder, Shape};
use super::field_values::{rows_of, subtract, subtract_from, value_range, values, values_mut};
use super::settings::Settings;
use super::stream::{padded, Content, Header, HEADER};
use super::value_range::ValueRange;
use crate::device::{AppMemory, Contiguous, Slab};
use crate::error::{fail, Code, Error, Result};
use crate::layout::{Field, Layout};
use crate::scalar::{Array, Scalar};
use std::ops::Range;

/// Codes the snapshots of one layout. All memory is allocated when the codec is made, except the
/// memory for contiguous copies of fields whose rows are apart: the first call with such a field
/// allocates as many bytes as a state has. Fields of types that no codec codes are stored raw.
///
/// A field that is declared as the previous time level of another field is coded as the difference
/// u(t) - u(t-1), because an error of the difference is an error of the velocity, which a restart
/// amplifies. The bound then holds for the later level relative to the size of the later level, and
/// for the difference relative to the size of the difference; `curr - prev` of the decoded fields
/// differs from the exact difference by no more than the bound of the difference. Where this is
/// impossible (NaN or infinities, a bound near the rounding error), both fields are coded by
/// themselves, within bounds small enough that the bound of the difference still holds.
pub struct SnapshotCodec {
    settings: Settings,
    layout: Layout,
    /// The fields in the order of their streams: a previous time level comes after its later level.
    /// `groups` are the ranges of this order whose fields are related by `previous_of`.
    order: Vec<usize>,
    groups: Vec<Range<usize>>,
    shapes: Vec<Shape>,
    /// For each field of the snapshot being made: the largest error of its decoded values, and the
    /// range and bound with which the field is coded by itself.
    errors: Vec<f64>,
    apart: Vec<(ValueRange, Bound)>,
    /// One coder per shape, and for each field the index of its coder.
    coders: Vec<Box<dyn Coder>>,
    coder_of: Vec<usize>,
    /// Memory for the difference of two fields.
    difference: Slab,
    /// Memory for contiguous copies of fields whose rows are apart.
    contiguous: Contiguous,
    /// Bytes that `compress` needs in its output buffer.
    output_bytes: usize,
}

/// Returns the bytes of the streams of all fields whose types `counts` accepts, stored raw.
fn raw_bytes(layout: &Layout, counts: impl Fn(Scalar) -> bool) -> u64 {
    let fields = layout.fields.iter().zip(&layout.bytes).filter(|(field, _)| counts(field.scalar));
    fields.map(|(_, &bytes)| padded(bytes as usize) as u64).fold(0, u64::saturating_add)
}

fn shapes_of(layout: &Layout) -> impl Iterator<Item = Shape> + '_ {
    layout.fields.iter().map(|f| Shape { n: f.n.map(|n| n as usize), scalar: f.scalar })
}

impl SnapshotCodec {
    /// Makes a codec for snapshots of `layout`. (With `Method::None` a session copies the fields.)
    pub fn new(settings: Settings, layout: &Layout) -> Result<Self> {
        let output_bytes = Self::output_bytes(&settings, layout)?;
        let shapes: Vec<Shape> = shapes_of(layout).collect();
        let (mut kinds, mut coders, mut coder_of) = (Vec::new(), Vec::new(), Vec::new());
        for &shape in &shapes {
            if !shape.scalar.is_coded() {
                coder_of.push(NO_CODER);
                continue;
            }
            let known = kinds.iter().position(|&kind| kind == shape);
            coder_of.push(known.unwrap_or(kinds.len()));
            if known.is_none() {
                kinds.push(shape);
                coders.extend(settings.method.coder(shape)?);
            }
        }
        let is_of_pair = |f: &&Field| f.previous_of.is_some() && f.scalar.is_coded();
        let of_pairs = layout.fields.iter().filter(is_of_pair).filter_map(Field::bytes);
        let difference = Slab::new(of_pairs.max().unwrap_or(0))?;
        let (order, groups) = groups_of(layout);
        let none = (ValueRange { min: 0.0, max: 0.0, nonfinite: 0 }, Bound::Max(0.0));
        Ok(SnapshotCodec {
            settings,
            layout: layout.clone(),
            order,
            groups,
            errors: vec![0.0; shapes.len()],
            apart: vec![none; shapes.len()],
            shapes,
            coders,
            coder_of,
            difference,
            contiguous: Contiguous::new(
                layout.fields.iter().map(|f| f.scalar.is_coded()).collect(),
            ),
            output_bytes,
        })
    }

    /// Returns the most bytes of a snapshot: headers, raw values of all fields, and padding.
    pub fn max_bytes(layout: &Layout) -> u64 {
        raw_bytes(layout, |_| true)
    }

    /// Returns the bytes that `compress` needs in its output buffer for snapshots of `layout`.
    pub fn output_bytes(settings: &Settings, layout: &Layout) -> Result<usize> {
        let most = |shape: Shape| {
            let coded =
                if shape.scalar.is_coded() { settings.method.most_bytes(shape)? } else { 0 };
            Ok(padded(coded.max(shape.bytes())))
        };
        shapes_of(layout).try_fold(0usize, |sum, shape| Ok(sum.saturating_add(most(shape)?)))
    }

    /// Returns the bytes that `compress` of this codec needs in its output buffer.
    pub fn capacity(&self) -> usize {
        self.output_bytes
    }

    /// Returns the bytes of a snapshot of a codec whose payloads have a fixed size. At most `max_bytes`.
    pub fn fixed_bytes(settings: &Settings, layout: &Layout) -> Result<u64> {
        let bytes = |shape: Shape| {
            let most = match shape.scalar.is_coded() {
                true => settings.method.most_bytes(shape)?,
                false => shape.bytes(),
            };
            Ok(padded(most) as u64)
        };
        let sum = shapes_of(layout)
            .try_fold(0u64, |sum, shape| Result::Ok(sum.saturating_add(bytes(shape)?)))?;
        Ok(sum.min(Self::max_bytes(layout)))
    }

    /// Returns the bytes of the fields that are stored raw whatever the codec is.
    pub fn uncoded_bytes(layout: &Layout) -> u64 {
        raw_bytes(layout, |scalar| !scalar.is_coded())
    }

    /// Codes the fields, which must have the shapes of the layout, into the beginning of `to`,
    /// which has at least `output_bytes` bytes. Returns the bytes of the snapshot.
    ///
    /// # Safety
    /// The fields must be readable host memory, as `AppMemory` promises.
    pub unsafe fn compress(&mut self, fields: &[AppMemory], to: &mut [u8]) -> Result<usize> {
        let (room, most) = (to.len(), self.output_bytes);
        if room < most {
            return fail!(
                Argument,
                "{room} bytes for a compressed snapshot: it needs room for {most}"
            );
        }
        let mut contiguous = std::mem::take(&mut self.contiguous);
        // SAFETY: the fields are readable by this function's contract.
        let result =
            unsafe { contiguous.gathered(fields).and_then(|fields| self.compress_all(fields, to)) };
        self.contiguous = contiguous;
        result
    }

    /// Codes the fields. Fields that a coder codes must be contiguous.
    unsafe fn compress_all(&mut self, fields: &[AppMemory], to: &mut [u8]) -> Result<usize> {
        let mut end = 0;
        for g in 0..self.groups.len() {
            let group = self.groups[g].clone();
            if !self.shapes[self.order[group.start]].scalar.is_coded() {
                // SAFETY: the fields are readable by the contract of `compress`.
                end = unsafe { self.keep_group(group, fields, to, end) }?;
                continue;
            }
            let coded = match self.coders.is_empty() {
                true => None,
                // SAFETY: the fields are readable by the contract of `compress`.
                false => unsafe { self.compress_group(group.clone(), fields, to, end) }?,
            };
            end = match coded {
                Some(end) => end,
                // SAFETY: the fields are readable by the contract of `compress`.
                None => unsafe { self.compress_apart(group, fields, to, end) }?,
            };
        }
        Ok(end)
    }

    /// Stores the fields of a group, which have the same type, raw.
    unsafe fn keep_group(
        &mut self,
        group: Range<usize>,
        fields: &[AppMemory],
        to: &mut [u8],
        mut end: usize,
    ) -> Result<usize> {
        for k in group {
            let i = self.order[k];
            let shape = self.shapes[i];
            let rows = rows_of(fields[i], shape)?;
            let values = &mut to[end + HEADER..][..shape.bytes()];
            // SAFETY: by this function's contract the field is readable; `values` is as long.
            unsafe { rows.gather(fields[i].address(), values.as_mut_ptr()) };
            end += self.header(Part::of(i), Content::Raw, 0.0, shape.bytes()).seal(&mut to[end..]);
        }
        Ok(end)
    }

    fn header(&self, part: Part, content: Content, bound: f64, payload: usize) -> Header {
        let (method, shape) = (&self.settings.method, self.shapes[part.field]);
        let (codec, parameter) = (method.number(), method.parameter());
        let (field, reference) = (part.field as u16, part.reference);
        Header { codec, content, field, reference, parameter, shape, bound, payload }
    }

    /// Codes a group with differences for previous time levels; `None` if that breaks a bound.
    unsafe fn compress_group(
        &mut self,
        group: Range<usize>,
        fields: &[AppMemory],
        to: &mut [u8],
        mut end: usize,
    ) -> Result<Option<usize>> {
        for k in group {
            let i = self.order[k];
            // SAFETY: field `i` is readable by this function's contract.
            let x = unsafe { values(fields[i], self.shapes[i]) }?;
            let found = value_range(x);
            self.check_finite(i, &found)?;
            let Some(j) = self.layout.fields[i].previous_of.map(|j| j as usize) else {
                let bound = self.settings.bound.of(&found, x);
                self.errors[i] = error_of(bound, &found);
                end += self.code(Part::of(i), x, &found, bound, &mut to[end..])?.0;
                continue;
            };
            // SAFETY: field `j` is readable by this function's contract.
            let later = unsafe { values(fields[j], self.shapes[j]) }?;
            let of_difference = subtract(later, x, &mut self.difference);
            // A sum of values near the largest number and an error could be infinite.
            if of_difference.nonfinite > 0 || found.max_abs() > range_of(self.shapes[i].scalar).1 {
                return Ok(None);
            }
            // SAFETY: `subtract` has just written the difference, and nothing else uses its memory.
            let difference = unsafe { values(self.difference.memory(), self.shapes[i]) }?;
            let bound = self.settings.bound.of(&of_difference, difference);
            self.errors[i] = self.errors[j] + error_of(bound, &of_difference);
            let rounding = ulp(self.shapes[i].scalar)
                * (of_difference.max_abs() + found.max_abs() + self.errors[i]);
            if self.settings.method.is_bounded()
                && of_difference.max_abs() > 0.0
                && rounding > 0.5 * bound.value()
            {
                return Ok(None);
            }
            let (bytes, content) = self.code(
                Part { field: i, reference: Some(j as u16), rounding },
                difference,
                &of_difference,
                bound,
                &mut to[end..],
            )?;
            if content == Content::Raw {
                return Ok(None);
            }
            end += bytes;
        }
        Ok(Some(end))
    }

    /// Codes every field of a group by itself, within half the bound of each of its differences.
    unsafe fn compress_apart(
        &mut self,
        group: Range<usize>,
        fields: &[AppMemory],
        to: &mut [u8],
        mut end: usize,
    ) -> Result<usize> {
        for k in group.clone() {
            let i = self.order[k];
            // SAFETY: field `i` is readable by this function's contract.
            let x = unsafe { values(fields[i], self.shapes[i]) }?;
            let found = value_range(x);
            self.check_finite(i, &found)?;
            let mut bound = self.settings.bound.of(&found, x);
            if let Some(j) = self.layout.fields[i].previous_of.map(|j| j as usize) {
                // SAFETY: field `j` is readable by this function's contract.
                let later = unsafe { values(fields[j], self.shapes[j]) }?;
                let of_difference = subtract(later, x, &mut self.difference);
                // SAFETY: `subtract` has just written the difference; nothing else uses it.
                let difference = unsafe { values(self.difference.memory(), self.shapes[i]) }?;
                let of_difference = self.settings.bound.of(&of_difference, difference);
                bound = bound.at_most(0.5 * of_difference.value());
                self.apart[j].1 = self.apart[j].1.at_most(0.5 * of_difference.value());
            }
            self.apart[i] = (found, bound);
        }
        for k in group {
            let i = self.order[k];
            let (found, bound) = self.apart[i];
            // SAFETY: field `i` is readable by this function's contract.
            let x = unsafe { values(fields[i], self.shapes[i]) }?;
            end += self.code(Part::of(i), x, &found, bound, &mut to[end..])?.0;
        }
        Ok(end)
    }

    /// Fails if field `i` has values that are not finite and the settings reject such values.
    fn check_finite(&self, i: usize, found: &ValueRange) -> Result<()> {
        match found.nonfinite {
            count @ 1.. if self.settings.reject_nonfinite => not_finite(i, count),
            _ => Ok(()),
        }
    }

    /// Writes the stream of one array to the beginning of `to`; returns its bytes and its content.
    fn code(
        &mut self,
        part: Part,
        x: Array<'_>,
        found: &ValueRange,
        bound: Bound,
        to: &mut [u8],
    ) -> Result<(usize, Content)> {
        let shape = self.shapes[part.field];
        let promised = if self.settings.method.is_bounded() { bound.value() } else { 0.0 };
        let bound = Some(bound.at_most(bound.value() - part.rounding))
            .filter(|_| self.settings.method.is_bounded());
        let zero = found.nonfinite == 0 && bound.is_some_and(|b| found.max_abs() <= b.value());
        // Zeros of both signs compare equal: without a coder, every bit must be kept.
        let constant = found.is_constant() && !self.coders.is_empty();
        let (content, payload) = if constant || zero {
            let value = if constant { found.max } else { 0.0 };
            to[HEADER..HEADER + 8].copy_from_slice(&value.to_le_bytes());
            (Content::Constant, 8)
        } else {
            let coder = self
                .coders
                .get_mut(self.coder_of[part.field])
                .filter(|_| is_in_range(shape.scalar, found, bound));
            let coded = match coder {
                Some(coder) => {
                    coder.compress(x, bound.unwrap_or(Bound::Max(0.0)), &mut to[HEADER..])?
                }
                None => None,
            };
            match coded.filter(|&bytes| bytes < shape.bytes()) {
                Some(bytes) => (Content::Coded, bytes),
                None => {
                    to[HEADER..HEADER + shape.bytes()].copy_from_slice(x.bytes());
                    (Content::Raw, shape.bytes())
                }
            }
        };
        Ok((self.header(part, content, promised, payload).seal(to), content))
    }

    /// Decodes the snapshot `from` into the fields, which must have the shapes of the layout.
    ///
    /// # Safety
    /// The fields must be writable host memory, as `AppMemory` promises.
    pub unsafe fn decompress(&mut self, from: &[u8], fields: &[AppMemory]) -> Result<()> {
        let mut contiguous = std::mem::take(&mut self.contiguous);
        // SAFETY: the fields are writable by this function's contract.
        let result =
            unsafe { contiguous.scattered(fields, |fields| self.decompress_all(from, fields)) };
        self.contiguous = contiguous;
        result
    }

    /// Decodes a snapshot into the fields. Fields that a coder codes must be contiguous.
    unsafe fn decompress_all(&mut self, mut from: &[u8], fields: &[AppMemory]) -> Result<()> {
        for k in 0..self.order.len() {
            let i = self.order[k];
            let (header, payload, bytes) =
                Header::open(from).map_err(|e| e.within(format_args!("field {i}")))?;
            self.check_header(i, &header)?;
            from = &from[bytes..];
            if !header.shape.scalar.is_coded() {
                let rows = rows_of(fields[i], self.shapes[i])?;
                // SAFETY: by this function's contract the field is writable; `payload` is as long.
                unsafe { rows.scatter(payload.as_ptr(), fields[i].address()) };
                continue;
            }
            // SAFETY: by this function's contract the field is writable; nothing else refers to it.
            let mut x = unsafe { values_mut(fields[i], self.shapes[i]) }?;
            match header.content {
                Content::Raw => x.bytes_mut().copy_from_slice(payload),
                Content::Constant => {
                    x.fill(f64::from_le_bytes(payload.try_into().unwrap_or_default()))
                }
                Content::Coded => match self.coders.get_mut(self.coder_of[i]) {
                    Some(coder) => coder.decompress(payload, x).map_err(|e| {
                        Error::new(Code::Stream, format!("field {i} cannot be decoded: {e}"))
                    })?,
                    None => {
                        return fail!(
                            Stream,
                            "field {i} is coded by codec {}: this session stores raw values",
                            header.codec
                        )
                    }
                },
            }
            if let Some(j) = header.reference {
                // SAFETY: both fields are accessible by this function's contract.
                unsafe { subtract_from(fields[j as usize], fields[i], self.shapes[i]) }?;
            }
        }
        if !from.is_empty() {
            return fail!(Stream, "{} bytes are left behind the last field", from.len());
        }
        Ok(())
    }

    /// Fails if a header does not match field `i` of the layout and the codec of the settings.
    fn check_header(&self, i: usize, header: &Header) -> Result<()> {
        let Header { codec, parameter, field, shape, .. } = *header;
        let (method, expected) = (&self.settings.method, self.shapes[i]);
        let (number, own) = (method.number(), method.parameter());
        if (codec, parameter) != (number, own) {
            return fail!(
                Stream,
                "field {i} was made by codec {codec} with parameter {parameter}: expected {number} with {own}"
            );
        }
        let reference = header.reference.map(u32::from);
        if field as usize != i
            || reference.is_some() && reference != self.layout.fields[i].previous_of
        {
            return fail!(
                Stream,
                "the stream of field {field} where that of field {i} is expected"
            );
        }
        if shape != expected {
            return fail!(Stream, "field {i} is {shape:?} in the stream: expected {expected:?}");
        }
        Ok(())
    }
}

/// Returns the error of a field with `count` values that are not finite.
pub(super) fn not_finite<T>(field: usize, count: u64) -> Result<T> {
    fail!(
        Values,
        "field {field} holds {count} values that are NaN or infinite (nonfinite = 0 keeps them)"
    )
}

/// Stands in place of the index of a coder for fields that are stored raw.
const NO_CODER: usize = usize::MAX;

/// One array of the snapshot: a field, or the difference of two fields.
#[derive(Clone, Copy)]
struct Part {
    field: usize,
    /// Number j of the later time level: the array is field j minus this field.
    reference: Option<u16>,
    /// Part of the bound that the rounding of the sum of difference and later level uses up.
    rounding: f64,
}

impl Part {
    /// Returns the part for a field that is coded by itself.
    fn of(field: usize) -> Self {
        Part { field, reference: None, rounding: 0.0 }
    }
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

/// Returns the fields in an order in which every previous time level comes after its later level,
/// and the groups of related fields as ranges of this order.
pub(super) fn groups_of(layout: &Layout) -> (Vec<usize>, Vec<Range<usize>>) {
    let refers_to = |i: usize| layout.fields[i].previous_of.map(|j| j as usize);
    let all = 0..layout.fields.len();
    let (mut order, mut groups) = (Vec::new(), Vec::new());
    for root in all.clone().filter(|&i| refers_to(i).is_none()) {
        let begin = order.len();
        order.push(root);
        let mut k = begin;
        while let Some(&later) = order.get(k) {
            order.extend(all.clone().filter(|&i| refers_to(i) == Some(later)));
            k += 1;
        }
        groups.push(begin..order.len());
    }
    (order, groups)
}
