//! Snapshots as streams: the fields of a state, coded one after the other.

mod making;
mod masks;
mod state;

use super::coder::{Bound, Coder, Shape};
use super::field_values::{rows_of, subtract_from, values_mut};
use super::mask::Mask;
use super::sequence::Sequence;
use super::settings::Settings;
use super::stream::{padded, Content, Header};
use super::streams::{coders_of, mask_bytes, most_bytes, shapes_of, Record, Streams};
use super::value_range::ValueRange;
use crate::device::{AppMemory, Contiguous, Slab, Team};
use crate::error::{fail, Code, Error, Result};
use crate::layout::{Field, Layout, Parts};
use crate::scalar::Scalar;
pub(super) use making::not_finite;
use masks::Masks;
use state::Making;
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
/// Where values are masked (`Settings::fill_value`), the stream of a field comes after that of its mask, and what is
/// coded is a copy of the field without them; two levels with other masks are coded by themselves.
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
    /// The masked values of the state being made, if the settings name a fill value, and the mask that was
    /// decoded last.
    masks: Option<Box<Masks>>,
    mask: Mask,
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
        let masked = shapes.iter().filter(|shape| mask_bytes(&settings, **shape) > 0).copied();
        let mask = Mask::to_read(masked)?;
        let masks = Masks::new(&settings, layout, &streams)?.map(Box::new);
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
            masks,
            mask,
            contiguous: Contiguous::new(
                layout.fields.iter().map(|f| f.scalar.is_coded()).collect(),
            ),
            output_bytes,
        })
    }

    /// Whether several threads share the work on an array (`join`).
    pub fn is_shared_by_threads(&self) -> bool {
        self.settings.method.is_shared_by_threads()
    }

    /// Lets the threads of `team` share the work of the codecs that divide it.
    pub fn join(&mut self, team: &Arc<Team>) -> Result<()> {
        self.coders.iter_mut().flatten().try_for_each(|coder| coder.join(team))?;
        self.sequence.as_mut().map_or(Ok(()), |sequence| sequence.join(team))
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
        let mut masks = self.masks.take();
        let streams = self.streams.clone();
        let is_coded = |i: usize| parts.contains(&streams.part_of[i]);
        let body = |fields: &[AppMemory]| {
            let parts = parts.clone();
            let (records, masks) = ([first, second], masks.as_deref_mut());
            let mut making =
                Making { fields, parts, records, made: [0; 2], masks, masked: [None; 2] };
            self.compress_all(&mut making).map(|()| making.made)
        };
        // SAFETY: the fields are readable by this function's contract, and none is written.
        let made = unsafe { contiguous.in_one_piece(fields, is_coded, |_| false, body) };
        (self.contiguous, self.masks) = (contiguous, masks);
        made
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
        let streams = self.streams.clone();
        let mut has_mask = false;
        for &i in &streams.order {
            if streams.part_of[i] != record.part() {
                continue;
            }
            let (mut header, mut payload) = self.next_stream(i, &mut from)?;
            let is_masked = header.content == Content::Mask;
            if is_masked {
                self.mask
                    .read(self.shapes[i], has_mask, payload)
                    .map_err(|e| e.within(format_args!("field {i}")))?;
                has_mask = true;
                (header, payload) = self.next_stream(i, &mut from)?;
            }
            // All fields of a record in a sequence are read: earlier records lean on them.
            let sequence = self.sequence.as_deref_mut().filter(|_| self.is_in_sequence);
            let is_read = sequence.is_some_and(|sequence| sequence.read(&header, payload));
            for target in streams.targets(record, i) {
                // SAFETY: by this function's contract the fields are accessible and those of targets writable.
                unsafe {
                    self.decode_into(&header, payload, is_read, (fields[target], fields))?;
                    if is_masked {
                        self.mask.put(values_mut(fields[target], self.shapes[i])?);
                    }
                }
            }
        }
        if !from.is_empty() {
            return fail!(Stream, "{} bytes are left behind the last field", from.len());
        }
        Ok(())
    }

    /// Reads the next stream of a record, which is one of field `i`.
    fn next_stream<'a>(&self, i: usize, from: &mut &'a [u8]) -> Result<(Header, &'a [u8])> {
        let (header, payload, bytes) =
            Header::open(from).map_err(|e| e.within(format_args!("field {i}")))?;
        self.check_header(i, &header)?;
        *from = &from[bytes..];
        Ok((header, payload))
    }

    /// Decodes the values of a stream into the field `to`, from the frames of a sequence if these hold them.
    ///
    /// # Safety
    /// The fields must be accessible, and `to` writable, as `AppMemory` promises.
    unsafe fn decode_into(
        &mut self,
        header: &Header,
        payload: &[u8],
        is_read: bool,
        (to, fields): (AppMemory, &[AppMemory]),
    ) -> Result<()> {
        let (i, shape) = (header.field as usize, header.shape);
        if let (true, Some(sequence)) = (is_read, self.sequence.as_deref_mut()) {
            // SAFETY: by this function's contract the field is writable.
            let x = unsafe { values_mut(to, shape) }?;
            if sequence.values(i, x)? {
                return Ok(());
            }
        }
        let coder = self.coders[self.coder_of[i]].as_mut();
        // SAFETY: by this function's contract the field is writable.
        unsafe { decode(header, payload, coder, to) }?;
        match header.reference {
            // SAFETY: both fields are accessible by this function's contract.
            Some(j) => unsafe { subtract_from(fields[j as usize], to, shape) },
            None => Ok(()),
        }
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
            return fail!(Stream, "field {i} is {shape} in the stream: expected {expected}");
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
        Content::Mask => return fail!(Stream, "field {i} has two masks"),
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
