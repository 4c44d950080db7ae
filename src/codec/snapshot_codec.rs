//! Snapshots as streams: the fields of a state, coded one after the other.

use super::coder::{Bound, Coder, Shape};
use super::field_values::{
    constant, rows_of, subtract, subtract_from, value_range, values, values_mut,
};
use super::sequence::Sequence;
use super::settings::Settings;
use super::stream::{padded, Content, Header, HEADER};
use super::streams::{coders_of, most_bytes, shapes_of, Record, Streams};
use super::table::Method;
use super::value_range::ValueRange;
use crate::device::{AppMemory, Contiguous, Slab};
use crate::error::{fail, Code, Error, Result};
use crate::layout::{Field, Layout, Parts};
use crate::scalar::{Array, Scalar};
use std::ops::Range;
use std::sync::Arc;

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
///
/// Where a state is cut into parts, every part is a record. Part 0 may be made without part 1: its
/// fields then keep the bounds of fields that are by themselves.
pub struct SnapshotCodec {
    settings: Settings,
    streams: Arc<Streams>,
    shapes: Vec<Shape>,
    /// For each field of the snapshot being made: the largest error of its decoded values, and the
    /// range and bound with which the field is coded by itself.
    errors: Vec<f64>,
    apart: Vec<(ValueRange, Bound)>,
    /// One coder per shape, `None` where values are stored raw, and for each field the index of its
    /// coder.
    coders: Vec<Option<Box<dyn Coder>>>,
    coder_of: Vec<usize>,
    /// Memory for the difference of two fields.
    difference: Slab,
    /// Memory for contiguous copies of fields whose rows are apart.
    contiguous: Contiguous,
    /// Bytes that `compress` needs in its output buffer.
    output_bytes: usize,
    /// The frames of states in sequence, if the records of states lean on each other; and whether the state in
    /// hand is one of a sequence.
    sequence: Option<Box<Sequence>>,
    is_in_sequence: bool,
}

/// Returns the bytes of the streams of all fields whose types `counts` accepts, stored raw.
fn raw_bytes(layout: &Layout, counts: impl Fn(Scalar) -> bool) -> u64 {
    let fields = layout.fields.iter().zip(&layout.bytes).filter(|(field, _)| counts(field.scalar));
    fields.map(|(_, &bytes)| padded(bytes as usize) as u64).fold(0, u64::saturating_add)
}

/// What a call that codes a state reads and writes. `compress_parts` makes it of fields that are
/// readable as long as it lives, and contiguous where a coder codes them.
struct Making<'a> {
    fields: &'a [AppMemory],
    /// The parts that are coded.
    parts: Range<usize>,
    /// The record of each part, of which the first bytes are made.
    records: [&'a mut [u8]; 2],
    made: [usize; 2],
}

impl<'a> Making<'a> {
    /// The room behind what is made of the record of part `part`.
    fn room(&mut self, part: usize) -> &mut [u8] {
        &mut self.records[part][self.made[part]..]
    }

    /// The values of field `i`, which has this shape.
    fn values(&self, i: usize, shape: Shape) -> Result<Array<'a>> {
        // SAFETY: the field is readable, as said above.
        unsafe { values(self.fields[i], shape) }
    }
}

impl SnapshotCodec {
    /// Makes a codec for snapshots of `layout`, of one part. (With `Method::None` a session copies
    /// the fields.)
    pub fn new(settings: Settings, layout: &Layout) -> Result<Self> {
        Self::of_parts(settings, layout, &layout.whole())
    }

    /// Makes a codec for snapshots of `layout` that are cut into `parts`.
    pub fn of_parts(settings: Settings, layout: &Layout, parts: &Parts) -> Result<Self> {
        let output_bytes = Self::output_bytes(&settings, layout)?;
        let shapes: Vec<Shape> = shapes_of(layout).collect();
        let (coders, coder_of) = coders_of(layout, |shape| match shape.scalar.is_coded() {
            true => settings.method.coder(shape),
            false => Ok(None),
        })?;
        let is_of_pair = |f: &&Field| f.previous_of.is_some() && f.scalar.is_coded();
        let of_pairs = layout.fields.iter().filter(is_of_pair).filter_map(Field::bytes);
        let difference = Slab::new(of_pairs.max().unwrap_or(0))?;
        let none = (ValueRange { min: 0.0, max: 0.0, nonfinite: 0 }, Bound::Max(0.0));
        let streams = Arc::new(Streams::new(&settings, layout, parts)?);
        let in_sequence = || Sequence::new(&settings, layout, streams.clone(), output_bytes);
        let sequence = settings.sequences.then(in_sequence).transpose()?.map(Box::new);
        Ok(SnapshotCodec {
            sequence,
            is_in_sequence: false,
            streams,
            settings,
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
        most_bytes(settings, shapes_of(layout), Shape::bytes)
    }

    /// Returns the bytes that `compress` of this codec needs in its output buffer.
    pub fn capacity(&self) -> usize {
        self.output_bytes.max(self.sequence.as_ref().map_or(0, |sequence| sequence.most_bytes()))
    }

    /// Whether the records of states lean on each other.
    pub fn is_in_sequences(&self) -> bool {
        self.sequence.is_some()
    }

    /// The frames of states in sequence, if the records of states lean on each other.
    pub fn sequence(&mut self) -> Option<&mut Sequence> {
        self.sequence.as_deref_mut()
    }

    /// Takes part 0 of state `ts`, whose record `Sequence::complete` makes later. `is_free` tells of which
    /// states the frames may be reused.
    ///
    /// # Safety
    /// The caller promises what `compress_parts` asks for.
    pub unsafe fn take(
        &mut self,
        ts: i64,
        fields: &[AppMemory],
        is_free: impl Fn(i64) -> bool,
    ) -> Result<()> {
        let Some(sequence) = &mut self.sequence else { return fail!(State, "no sequence") };
        let mut record = sequence.begin_taking(ts, is_free)?;
        self.is_in_sequence = true;
        // SAFETY: by this function's contract.
        let made = unsafe { self.compress(fields, record.bytes_mut()) };
        self.is_in_sequence = false;
        let Some(sequence) = &mut self.sequence else { return fail!(State, "no sequence") };
        sequence.end_taking(record, made.as_ref().map_or(0, |&made| made));
        made.map(|_| ()).inspect_err(|_| sequence.failed())
    }

    /// Does what `decompress_record` does for the record of state `ts` in a sequence. The states on which it
    /// leans were the last ones that were taken or decoded.
    ///
    /// # Safety
    /// The caller promises what `decompress_record` asks for.
    pub unsafe fn decompress_in_sequence(
        &mut self,
        ts: i64,
        record: Record,
        from: &[u8],
        fields: &[AppMemory],
    ) -> Result<()> {
        self.is_in_sequence = record.part() == 0;
        let sequence = self.sequence.iter_mut().filter(|_| self.is_in_sequence);
        sequence.for_each(|sequence| sequence.begin_reading(ts));
        // SAFETY: by this function's contract.
        let result = unsafe { self.decompress_record(record, from, fields) };
        self.is_in_sequence = false;
        if result.is_err() && record.part() == 0 {
            self.sequence.iter_mut().for_each(|sequence| sequence.failed());
        }
        result
    }

    /// Reads part 0 of state `ts`, of which `from` is the record in a sequence, as `decompress_in_sequence` does,
    /// and makes a record of it in `to` that leans only on the states for which `is_kept` holds. Returns its
    /// bytes.
    pub fn lean_less(
        &mut self,
        ts: i64,
        from: &[u8],
        is_kept: impl Fn(i64) -> bool,
        to: &mut [u8],
    ) -> Result<usize> {
        let Some(sequence) = &mut self.sequence else { return fail!(State, "no sequence") };
        sequence.reread(ts, from, is_kept, to).inspect_err(|_| sequence.failed())
    }

    /// Returns the bytes of a snapshot of a codec whose payloads have a fixed size. At most `max_bytes`.
    pub fn fixed_bytes(settings: &Settings, layout: &Layout) -> Result<u64> {
        let sum = most_bytes(settings, shapes_of(layout), |_| 0)? as u64;
        Ok(sum.min(Self::max_bytes(layout)))
    }

    /// Returns the bytes of the fields that are stored raw whatever the codec is.
    pub fn uncoded_bytes(layout: &Layout) -> u64 {
        raw_bytes(layout, |scalar| !scalar.is_coded())
    }

    /// Where the record of part `part` begins in the output of `compress_parts`, in bytes.
    pub fn begin(&self, part: usize) -> usize {
        [0, self.streams.second][part]
    }

    /// Does the work of `compress_parts` for part 0, which is the state if there is one part.
    ///
    /// # Safety
    /// The caller promises what `compress_parts` asks for.
    pub unsafe fn compress(&mut self, fields: &[AppMemory], to: &mut [u8]) -> Result<usize> {
        // SAFETY: by this function's contract.
        Ok(unsafe { self.compress_parts(0..1, fields, to) }?[0])
    }

    /// Codes `parts` of a state into `to`, which has at least `output_bytes` bytes, the record of each part
    /// from `begin` on. A previous level keeps a bound of its own where its later level is not among them.
    /// The fields must have the shapes of the layout; those of other parts are not read. Returns the bytes
    /// of each record.
    ///
    /// # Safety
    /// The fields must be readable host memory, as `AppMemory` promises.
    pub unsafe fn compress_parts(
        &mut self,
        parts: Range<usize>,
        fields: &[AppMemory],
        to: &mut [u8],
    ) -> Result<[usize; 2]> {
        let (room, most) = (to.len(), self.output_bytes);
        if room < most {
            return fail!(
                Argument,
                "{room} bytes for a compressed snapshot: it needs room for {most}"
            );
        }
        let (first, second) = to.split_at_mut(self.begin(1));
        let mut contiguous = std::mem::take(&mut self.contiguous);
        let streams = self.streams.clone();
        let is_coded = |i: usize| parts.contains(&streams.part_of[i]);
        let body = |fields: &[AppMemory]| {
            let parts = parts.clone();
            let mut making = Making { fields, parts, records: [first, second], made: [0; 2] };
            self.compress_all(&mut making).map(|()| making.made)
        };
        // SAFETY: the fields are readable by this function's contract, and none is written.
        let made = unsafe { contiguous.in_one_piece(fields, is_coded, |_| false, body) };
        self.contiguous = contiguous;
        made
    }

    /// Codes the fields.
    fn compress_all(&mut self, making: &mut Making) -> Result<()> {
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
            let before = making.made;
            let may_lean = self.settings.method != Method::None;
            if !may_lean || !self.compress_group(group.clone(), making)? {
                making.made = before;
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
                let bound = self.settings.bound.of(&found, x);
                self.errors[i] = error_of(bound, &found);
                self.code(Subject::of(i), x, &found, bound, making)?;
                continue;
            };
            if !self.streams.may_lean(i, j) {
                return Ok(false);
            }
            let later = making.values(j, self.shapes[j])?;
            let of_difference = subtract(later, x, &mut self.difference);
            // A sum of values near the largest number and an error could be infinite.
            if of_difference.nonfinite > 0 || found.max_abs() > range_of(self.shapes[i].scalar).1 {
                return Ok(false);
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
            let mut bound = self.settings.bound.of(&found, x);
            if let Some(j) = self.streams.later(i, &making.parts) {
                let later = making.values(j, self.shapes[j])?;
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
        let to = making.room(part);
        let (content, payload) = if let Some(value) = constant {
            to[HEADER..HEADER + 8].copy_from_slice(&value.to_le_bytes());
            (Content::Constant, 8)
        } else if self.takes(subject, x, bound)? {
            (Content::Coded, 0)
        } else {
            let coder = self.coders[self.coder_of[subject.field]].as_mut();
            let coded = match coder.zip(bound) {
                Some((coder, bound)) => coder.compress(x, bound, &mut to[HEADER..])?,
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
        making.made[part] += self.header(subject, content, promised, payload).seal(to);
        Ok(content)
    }

    /// Lets a sequence take an array, if the state in hand is one of a sequence. Returns whether it did.
    fn takes(&mut self, subject: Subject, x: Array<'_>, bound: Option<Bound>) -> Result<bool> {
        let sequence = self.sequence.as_mut().filter(|_| self.is_in_sequence);
        match (sequence, bound, subject.reference) {
            (Some(sequence), Some(bound), None) => sequence.take(subject.field, x, bound),
            _ => Ok(false),
        }
    }

    /// Does the work of `decompress_record` for part 0, which is the state if there is one part.
    ///
    /// # Safety
    /// The caller promises what `decompress_record` asks for.
    pub unsafe fn decompress(&mut self, from: &[u8], fields: &[AppMemory]) -> Result<()> {
        // SAFETY: by this function's contract.
        unsafe { self.decompress_record(Record::Part(0), from, fields) }
    }

    /// Decodes the record `from` into those of the fields that [`Record`] says. The fields must have
    /// the shapes of the layout.
    ///
    /// # Safety
    /// The fields must be writable host memory, as `AppMemory` promises.
    pub unsafe fn decompress_record(
        &mut self,
        record: Record,
        from: &[u8],
        fields: &[AppMemory],
    ) -> Result<()> {
        let mut contiguous = std::mem::take(&mut self.contiguous);
        let streams = self.streams.clone();
        let (reads, writes) =
            (|i: usize| streams.reads(record, i), |i: usize| streams.writes(record, i));
        // SAFETY: the fields are accessible by this function's contract.
        let result = unsafe {
            let body = |fields: &[AppMemory]| self.decompress_all(record, from, fields);
            contiguous.in_one_piece(fields, reads, writes, body)
        };
        self.contiguous = contiguous;
        result
    }

    /// Decodes a record into the fields. Fields that a coder codes must be contiguous.
    unsafe fn decompress_all(
        &mut self,
        record: Record,
        mut from: &[u8],
        fields: &[AppMemory],
    ) -> Result<()> {
        for k in 0..self.streams.order.len() {
            let i = self.streams.order[k];
            if self.streams.part_of[i] != record.part() {
                continue;
            }
            let (header, payload, bytes) =
                Header::open(from).map_err(|e| e.within(format_args!("field {i}")))?;
            self.check_header(i, &header)?;
            from = &from[bytes..];
            // All fields of a record in a sequence are read: earlier records lean on them.
            let sequence = self.sequence.as_deref_mut().filter(|_| self.is_in_sequence);
            let is_read = sequence.is_some_and(|sequence| sequence.read(&header, payload));
            for target in self.streams.targets(record, i) {
                if let (true, Some(sequence)) = (is_read, self.sequence.as_deref_mut()) {
                    // SAFETY: by this function's contract the field is writable.
                    let x = unsafe { values_mut(fields[target], self.shapes[i]) }?;
                    if sequence.values(i, x)? {
                        continue;
                    }
                }
                let coder = self.coders[self.coder_of[i]].as_mut();
                // SAFETY: by this function's contract the field is writable.
                unsafe { decode(&header, payload, coder, fields[target]) }?;
                if let Some(j) = header.reference {
                    // SAFETY: both fields are accessible by this function's contract.
                    unsafe { subtract_from(fields[j as usize], fields[target], self.shapes[i]) }?;
                }
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
        let may_lean = |j: u16| self.streams.may_lean(i, j as usize);
        if field as usize != i || !header.reference.is_none_or(may_lean) {
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

/// Decodes the payload of a stream into a field.
///
/// # Safety
/// The field must be writable, as `AppMemory` promises, and nothing else may refer to it.
unsafe fn decode(
    header: &Header,
    payload: &[u8],
    coder: Option<&mut Box<dyn Coder>>,
    field: AppMemory,
) -> Result<()> {
    let (shape, i) = (header.shape, header.field);
    if !shape.scalar.is_coded() {
        let rows = rows_of(field, shape)?;
        // SAFETY: by this function's contract the field is writable; `payload` is as long.
        unsafe { rows.scatter(payload.as_ptr(), field.address()) };
        return Ok(());
    }
    // SAFETY: by this function's contract.
    let mut x = unsafe { values_mut(field, shape) }?;
    match header.content {
        Content::Raw => x.bytes_mut().copy_from_slice(payload),
        Content::Constant => x.fill(f64::from_le_bytes(payload.try_into().unwrap_or_default())),
        Content::Coded => match coder {
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
    Ok(())
}

/// Returns the error of a field with `count` values that are not finite.
pub(super) fn not_finite<T>(field: usize, count: u64) -> Result<T> {
    fail!(
        Values,
        "field {field} holds {count} values that are NaN or infinite (nonfinite = 0 keeps them)"
    )
}

/// One array of the snapshot: a field, or the difference of two fields.
#[derive(Clone, Copy)]
struct Subject {
    field: usize,
    /// Number j of the later time level: the array is field j minus this field.
    reference: Option<u16>,
    /// Part of the bound that the rounding of the sum of difference and later level uses up.
    rounding: f64,
}

impl Subject {
    /// Returns the subject for a field that is coded by itself.
    fn of(field: usize) -> Self {
        Subject { field, reference: None, rounding: 0.0 }
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
