//! Snapshots as streams: all fields of a state, coded one by one, a declared pair of time levels as
//! one of them and their difference.

use super::coder::{Bound, Coder, Shape};
use super::settings::Settings;
use super::simd::{dispatch, Kernel};
use super::stream::{padded, Content, Header, HEADER};
use super::value_range::ValueRange;
use crate::device::{AppMemory, Packed, Rows, Slab};
use crate::error::{fail, Code, Error, Result};
use crate::layout::Layout;
use crate::scalar::Scalar;
use crate::scalar::{Array, ArrayMut, Real};
use std::ops::Range;

/// Codes the snapshots of one layout. All memory that it needs is allocated when it is made, but
/// for fields whose rows are apart: the first of them makes it take as much as a state has. Fields
/// of types that no codec codes are kept as they are.
///
/// A field that is declared as the previous time level of another is coded as that one minus
/// itself: an error of the difference is one of the velocity, which a restart amplifies. The bound
/// then holds for the later level and for the difference, each by its own size; `curr - prev` of
/// the decoded fields is off by no more than the bound of the difference. Where that cannot be had
/// (NaN or infinities, a bound near the rounding error) both are coded by themselves, close enough
/// that it still holds.
pub struct SnapshotCodec {
    settings: Settings,
    layout: Layout,
    /// The fields in the order of their streams, every one behind the one whose previous time
    /// level it is, and where groups of such begin.
    order: Vec<usize>,
    groups: Vec<Range<usize>>,
    shapes: Vec<Shape>,
    /// For each field of the snapshot being made: what its decoded values are off by, and how it
    /// is coded if by itself.
    errors: Vec<f64>,
    apart: Vec<(ValueRange, Bound)>,
    /// One coder per shape, and which one a field has.
    coders: Vec<Box<dyn Coder>>,
    coder_of: Vec<usize>,
    /// Where differences are made.
    difference: Slab,
    /// Where fields are put together whose rows are apart.
    packed: Packed,
    room: usize,
}

impl SnapshotCodec {
    /// A codec for snapshots of `layout`; the method must not be `Method::None` for a session,
    /// which copies then.
    pub fn new(settings: Settings, layout: &Layout) -> Result<Self> {
        let shapes: Vec<Shape> = layout
            .fields
            .iter()
            .map(|f| Shape { n: f.n.map(|n| n as usize), scalar: f.scalar })
            .collect();
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
        let most = |i: usize| {
            padded(coders.get(coder_of[i]).map_or(0, |c| c.max_bytes()).max(shapes[i].bytes()))
        };
        let room = (0..shapes.len()).map(most).fold(0, usize::saturating_add);
        let of_pairs = layout
            .fields
            .iter()
            .filter(|f| f.previous_of.is_some() && f.scalar.is_coded())
            .filter_map(|f| f.bytes());
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
            packed: Packed::new(layout.fields.iter().map(|f| f.scalar.is_coded()).collect()),
            room,
        })
    }

    /// Most bytes of a snapshot, padding included: headers, and all fields as they are.
    pub fn max_bytes(layout: &Layout) -> u64 {
        layout
            .fields
            .iter()
            .filter_map(|f| f.bytes())
            .map(|bytes| padded(bytes as usize) as u64)
            .fold(0, u64::saturating_add)
    }

    /// Bytes that `compress` needs room for.
    pub fn room(&self) -> usize {
        self.room
    }

    /// Bytes of a snapshot if its size is known before, or else what it has if the ratio of what is
    /// coded is `factor`, at most `max_bytes`.
    pub fn expected_bytes(&self, factor: f64) -> u64 {
        if self.settings.method.is_bounded() {
            return Self::bytes_by_ratio(&self.layout, factor);
        }
        let coded = |(shape, &coder): (&Shape, &usize)| {
            padded(self.coders.get(coder).map_or(shape.bytes(), |c| c.max_bytes())) as u64
        };
        self.shapes
            .iter()
            .zip(&self.coder_of)
            .map(coded)
            .fold(0, u64::saturating_add)
            .min(Self::max_bytes(&self.layout))
    }

    /// Bytes of a snapshot in which all fields that are coded together have this ratio.
    pub fn bytes_by_ratio(layout: &Layout, ratio: f64) -> u64 {
        let most = |coded: bool| {
            let fields = layout.fields.iter().filter(|f| f.scalar.is_coded() == coded);
            fields
                .filter_map(|f| f.bytes())
                .map(|bytes| padded(bytes as usize) as u64)
                .fold(0, u64::saturating_add)
        };
        most(false).saturating_add((most(true) as f64 / ratio.max(1.0)) as u64)
    }

    /// Codes the fields, which must be as the layout says, into the beginning of `to`, which has at
    /// least `room` bytes, and returns the bytes of the snapshot.
    ///
    /// # Safety
    /// The fields are readable host memory, as promised for `AppMemory`.
    pub unsafe fn compress(&mut self, fields: &[AppMemory], to: &mut [u8]) -> Result<usize> {
        if to.len() < self.room {
            return fail!(
                Argument,
                "{} bytes for a compressed snapshot: it needs room for {}",
                to.len(),
                self.room
            );
        }
        let mut packed = std::mem::take(&mut self.packed);
        // SAFETY: by this function's contract.
        let result =
            unsafe { packed.gathered(fields).and_then(|fields| self.compress_all(fields, to)) };
        self.packed = packed;
        result
    }

    /// Codes the fields; those that are coded are in one piece each.
    unsafe fn compress_all(&mut self, fields: &[AppMemory], to: &mut [u8]) -> Result<usize> {
        let mut end = 0;
        for g in 0..self.groups.len() {
            let group = self.groups[g].clone();
            if !self.shapes[self.order[group.start]].scalar.is_coded() {
                // SAFETY: by the contract of `compress`.
                end = unsafe { self.keep_group(group, fields, to, end) }?;
                continue;
            }
            let coded = match self.coders.is_empty() {
                true => None,
                // SAFETY: by this function's contract.
                false => unsafe { self.compress_group(group.clone(), fields, to, end) }?,
            };
            end = match coded {
                Some(end) => end,
                // SAFETY: as above.
                None => unsafe { self.compress_apart(group, fields, to, end) }?,
            };
        }
        Ok(end)
    }

    /// Stores a group, whose fields have the same type, as it is.
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
            // SAFETY: the field is readable in its rows, by this function's contract; the slice has
            // the bytes of its values.
            unsafe {
                rows.gather(
                    fields[i].address(),
                    to[end + HEADER..end + HEADER + shape.bytes()].as_mut_ptr(),
                )
            };
            end += self.header(Part::of(i), Content::Raw, 0.0, shape.bytes()).seal(&mut to[end..]);
        }
        Ok(end)
    }

    /// The header of a part of the snapshot.
    fn header(&self, part: Part, content: Content, bound: f64, payload: usize) -> Header {
        let (method, shape) = (&self.settings.method, self.shapes[part.field]);
        let (codec, parameter) = (method.number(), method.parameter());
        Header {
            codec,
            content,
            field: part.field as u16,
            reference: part.reference,
            parameter,
            shape,
            bound,
            payload,
        }
    }

    /// Codes a group by differences; `None` if that does not keep the bounds.
    unsafe fn compress_group(
        &mut self,
        group: Range<usize>,
        fields: &[AppMemory],
        to: &mut [u8],
        mut end: usize,
    ) -> Result<Option<usize>> {
        for k in group {
            let i = self.order[k];
            // SAFETY: by this function's contract.
            let x = unsafe { values(fields[i], self.shapes[i]) }?;
            let survey = survey(x);
            self.check_finite(i, &survey)?;
            let Some(j) = self.layout.fields[i].previous_of.map(|j| j as usize) else {
                let bound = self.settings.bound.of(&survey, x);
                self.errors[i] = error_of(bound, &survey);
                end += self.code(Part::of(i), x, &survey, bound, &mut to[end..])?.0;
                continue;
            };
            // SAFETY: by this function's contract.
            let later = unsafe { values(fields[j], self.shapes[j]) }?;
            let of_difference = subtract(later, x, &mut self.difference);
            // Near the largest numbers the sum with an error could be infinite.
            if of_difference.nonfinite > 0 || survey.max_abs() > range_of(self.shapes[i].scalar).1 {
                return Ok(None);
            }
            // SAFETY: the difference was just put there, and nothing else uses that memory.
            let difference = unsafe { values(self.difference.memory(), self.shapes[i]) }?;
            let bound = self.settings.bound.of(&of_difference, difference);
            self.errors[i] = self.errors[j] + error_of(bound, &of_difference);
            let rounding = ulp(self.shapes[i].scalar)
                * (of_difference.max_abs() + survey.max_abs() + self.errors[i]);
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

    /// Codes the fields of a group each by itself, within half of the bound of each difference that
    /// it is part of.
    unsafe fn compress_apart(
        &mut self,
        group: Range<usize>,
        fields: &[AppMemory],
        to: &mut [u8],
        mut end: usize,
    ) -> Result<usize> {
        for k in group.clone() {
            let i = self.order[k];
            // SAFETY: by this function's contract.
            let x = unsafe { values(fields[i], self.shapes[i]) }?;
            let survey = survey(x);
            self.check_finite(i, &survey)?;
            let mut bound = self.settings.bound.of(&survey, x);
            if let Some(j) = self.layout.fields[i].previous_of.map(|j| j as usize) {
                // SAFETY: as above.
                let later = unsafe { values(fields[j], self.shapes[j]) }?;
                let of_difference = subtract(later, x, &mut self.difference);
                // SAFETY: the difference was just put there, and nothing else uses that memory.
                let difference = unsafe { values(self.difference.memory(), self.shapes[i]) }?;
                let of_difference = self.settings.bound.of(&of_difference, difference);
                bound = bound.at_most(0.5 * of_difference.value());
                self.apart[j].1 = self.apart[j].1.at_most(0.5 * of_difference.value());
            }
            self.apart[i] = (survey, bound);
        }
        for k in group {
            let i = self.order[k];
            let (survey, bound) = self.apart[i];
            // SAFETY: by this function's contract.
            let x = unsafe { values(fields[i], self.shapes[i]) }?;
            end += self.code(Part::of(i), x, &survey, bound, &mut to[end..])?.0;
        }
        Ok(end)
    }

    fn check_finite(&self, i: usize, survey: &ValueRange) -> Result<()> {
        if self.settings.reject_nonfinite && survey.nonfinite > 0 {
            return fail!(
                Values,
                "field {i} holds {} values that are NaN or infinite (nonfinite = 0 keeps them)",
                survey.nonfinite
            );
        }
        Ok(())
    }

    /// Makes the stream of one array at the beginning of `to`, and returns its bytes and what it
    /// contains.
    fn code(
        &mut self,
        part: Part,
        x: Array<'_>,
        survey: &ValueRange,
        bound: Bound,
        to: &mut [u8],
    ) -> Result<(usize, Content)> {
        let shape = self.shapes[part.field];
        let promised = if self.settings.method.is_bounded() { bound.value() } else { 0.0 };
        let bound = Some(bound.at_most(bound.value() - part.rounding))
            .filter(|_| self.settings.method.is_bounded());
        let zero = survey.nonfinite == 0 && bound.is_some_and(|b| survey.max_abs() <= b.value());
        // Zeros of both signs are equal: where nothing is coded every bit is kept.
        let constant = survey.is_constant() && !self.coders.is_empty();
        let (content, payload) = if constant || zero {
            let value = if constant { survey.max } else { 0.0 };
            to[HEADER..HEADER + 8].copy_from_slice(&value.to_le_bytes());
            (Content::Constant, 8)
        } else {
            let coder = self
                .coders
                .get_mut(self.coder_of[part.field])
                .filter(|_| is_in_range(shape.scalar, survey, bound));
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

    /// Decodes a snapshot, all of `from`, into the fields, which must be as the layout says.
    ///
    /// # Safety
    /// The fields are writable host memory, as promised for `AppMemory`.
    pub unsafe fn decompress(&mut self, from: &[u8], fields: &[AppMemory]) -> Result<()> {
        let mut packed = std::mem::take(&mut self.packed);
        // SAFETY: by this function's contract.
        let result =
            unsafe { packed.scattered(fields, |fields| self.decompress_all(from, fields)) };
        self.packed = packed;
        result
    }

    /// Decodes a snapshot into fields; those that are coded are in one piece each.
    unsafe fn decompress_all(&mut self, mut from: &[u8], fields: &[AppMemory]) -> Result<()> {
        for k in 0..self.order.len() {
            let i = self.order[k];
            let (header, payload, bytes) =
                Header::open(from).map_err(|e| e.within(format_args!("field {i}")))?;
            self.check_header(i, &header)?;
            from = &from[bytes..];
            if !header.shape.scalar.is_coded() {
                let rows = rows_of(fields[i], self.shapes[i])?;
                // SAFETY: the field is writable in its rows, by this function's contract; the
                // payload has the bytes of its values.
                unsafe { rows.scatter(payload.as_ptr(), fields[i].address()) };
                continue;
            }
            // SAFETY: by this function's contract; nothing else refers to this field's values.
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
                // SAFETY: by this function's contract, and the two do not overlap.
                unsafe { subtract_from(fields[j as usize], fields[i], self.shapes[i]) }?;
            }
        }
        if !from.is_empty() {
            return fail!(Stream, "{} bytes are left behind the last field", from.len());
        }
        Ok(())
    }

    fn check_header(&self, i: usize, header: &Header) -> Result<()> {
        let method = &self.settings.method;
        if (header.codec, header.parameter) != (method.number(), method.parameter()) {
            return fail!(
                Stream,
                "field {i} was made by codec {} with parameter {}: expected {} with {}",
                header.codec,
                header.parameter,
                method.number(),
                method.parameter()
            );
        }
        let reference = header.reference.map(u32::from);
        if header.field as usize != i
            || reference.is_some() && reference != self.layout.fields[i].previous_of
        {
            return fail!(
                Stream,
                "the stream of field {} where that of field {i} is expected",
                header.field
            );
        }
        if header.shape != self.shapes[i] {
            return fail!(
                Stream,
                "field {i} is {:?} in the stream: expected {:?}",
                header.shape,
                self.shapes[i]
            );
        }
        Ok(())
    }
}

/// In place of the number of a coder: the values of a field are kept as they are.
const NO_CODER: usize = usize::MAX;

/// An array of the snapshot.
#[derive(Clone, Copy)]
struct Part {
    field: usize,
    /// The field from which it is the difference.
    reference: Option<u16>,
    /// What adding the difference uses up of the bound.
    rounding: f64,
}

impl Part {
    fn of(field: usize) -> Self {
        Part { field, reference: None, rounding: 0.0 }
    }
}

/// What a decoded value is off by, at most.
fn error_of(bound: Bound, survey: &ValueRange) -> f64 {
    match bound {
        Bound::Max(b) => b.min(survey.max_abs()),
        Bound::Rms(_) => survey.max_abs(),
    }
}

/// The relative rounding error of a sum.
fn ulp(scalar: Scalar) -> f64 {
    match scalar {
        Scalar::F32 => f64::EPSILON * (1u64 << 28) as f64,
        _ => f64::EPSILON / 2.0,
    }
}

/// The least and the largest maximum of what a bounded coder gets.
fn range_of(scalar: Scalar) -> (f64, f64) {
    match scalar {
        Scalar::F32 => (2f64.powi(-100), 2f64.powi(120)),
        _ => (2f64.powi(-900), 2f64.powi(1000)),
    }
}

/// What a coder relies on; one without a bound on no more than that decoded values are finite.
fn is_in_range(scalar: Scalar, survey: &ValueRange, bound: Option<Bound>) -> bool {
    let (least, most) = range_of(scalar);
    let max = survey.max_abs();
    max <= most
        && bound.is_none_or(|bound| max >= least && bound.value() >= max / (1u64 << 28) as f64)
}

/// The fields in an order in which each comes behind the one that it refers to, and the groups that
/// hang together.
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

/// # Safety
/// As promised for `AppMemory`, for as long as the result is used.
unsafe fn values<'a>(memory: AppMemory, shape: Shape) -> Result<Array<'a>> {
    let (address, len) = (check(memory, shape)?, shape.values());
    // SAFETY: the memory has that many bytes, as just checked, and is aligned; by this function's
    // contract it is readable.
    Ok(unsafe {
        match shape.scalar {
            Scalar::F32 => Array::F32(std::slice::from_raw_parts(address.cast(), len)),
            Scalar::F64 => Array::F64(std::slice::from_raw_parts(address.cast(), len)),
            other => return other.not_coded(),
        }
    })
}

/// # Safety
/// As promised for `AppMemory`, for as long as the result is used, and nothing else refers to it.
unsafe fn values_mut<'a>(memory: AppMemory, shape: Shape) -> Result<ArrayMut<'a>> {
    let (address, len) = (check(memory, shape)?, shape.values());
    // SAFETY: as above, and writable.
    Ok(unsafe {
        match shape.scalar {
            Scalar::F32 => ArrayMut::F32(std::slice::from_raw_parts_mut(address.cast(), len)),
            Scalar::F64 => ArrayMut::F64(std::slice::from_raw_parts_mut(address.cast(), len)),
            other => return other.not_coded(),
        }
    })
}

/// The rows of a field whose values are neither coded nor looked at.
fn rows_of(memory: AppMemory, shape: Shape) -> Result<Rows> {
    if memory.bytes() != shape.bytes() {
        return fail!(
            Argument,
            "a field of {} bytes where {} are needed",
            memory.bytes(),
            shape.bytes()
        );
    }
    Ok(memory.rows())
}

fn check(memory: AppMemory, shape: Shape) -> Result<*mut u8> {
    let (address, bytes) = (memory.address(), memory.bytes());
    if !memory.rows().is_contiguous() {
        return fail!(
            Argument,
            "a field of {bytes} bytes whose rows are apart where it must be in one piece"
        );
    }
    if bytes < shape.bytes() {
        return fail!(Argument, "a field of {bytes} bytes where {} are needed", shape.bytes());
    }
    if !(address as u64).is_multiple_of(shape.scalar.bytes()) {
        return fail!(
            Argument,
            "a field at {address:p}: compression needs values at multiples of {} bytes",
            shape.scalar.bytes()
        );
    }
    Ok(address)
}

fn survey(x: Array<'_>) -> ValueRange {
    match x {
        Array::F32(x) => ValueRange::of(x),
        Array::F64(x) => ValueRange::of(x),
    }
}

/// Puts `x - y` into `difference`.
fn subtract(x: Array<'_>, y: Array<'_>, difference: &mut Slab) -> ValueRange {
    match (x, y) {
        (Array::F32(x), Array::F32(y)) => {
            ValueRange::of_difference(x, y, &mut difference.values_mut()[..x.len()])
        }
        (Array::F64(x), Array::F64(y)) => {
            ValueRange::of_difference(x, y, &mut difference.values_mut()[..x.len()])
        }
        _ => ValueRange { min: 0.0, max: 0.0, nonfinite: 1 },
    }
}

/// # Safety
/// As promised for `AppMemory`.
unsafe fn subtract_from(later: AppMemory, field: AppMemory, shape: Shape) -> Result<()> {
    let (a, b) = (later.address() as usize, field.address() as usize);
    if a.abs_diff(b) < shape.bytes() {
        return fail!(Argument, "two time levels overlap in memory, at {a:#x} and {b:#x}");
    }
    // SAFETY: by this function's contract; they do not overlap.
    let pair = unsafe { (values(later, shape)?, values_mut(field, shape)?) };
    match pair {
        (Array::F32(x), ArrayMut::F32(y)) => dispatch(SubtractFrom(x, y)),
        (Array::F64(x), ArrayMut::F64(y)) => dispatch(SubtractFrom(x, y)),
        _ => {}
    }
    Ok(())
}

struct SubtractFrom<'a, T>(&'a [T], &'a mut [T]);

impl<T: Real> Kernel for SubtractFrom<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (y, &x) in self.1.iter_mut().zip(self.0) {
            *y = x - *y;
        }
    }
}
