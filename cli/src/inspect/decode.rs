//! The fields in a record that a codec made: each stream tells type and extents of its field.

use gpuzip::codec::{mask_alone, Content, Header, Method, Record, Settings, SnapshotCodec, HEADER};
use gpuzip::device::AppMemory;
use gpuzip::error::{Code, Error, Result};
use gpuzip::layout::{Field, Layout};

/// The values of a field.
pub struct Values {
    /// The number of the field in the state.
    pub number: u16,
    pub field: Field,
    /// The values, aligned for any type, with the rest of the last word behind them.
    pub words: Vec<u64>,
}

impl Values {
    /// Room for the values of a stream.
    fn new(header: &Header) -> Result<Self> {
        let (number, n) = (header.field, header.shape.n.map(|n| n as u64));
        let field = Field { n, scalar: header.shape.scalar, previous_of: None };
        let count = field.bytes().unwrap_or(u64::MAX).div_ceil(8);
        let (mut words, count) = (Vec::new(), usize::try_from(count).unwrap_or(usize::MAX));
        if words.try_reserve_exact(count).is_err() {
            return Err(Error::new(Code::Memory, format!("no memory for field {number}, {field}")));
        }
        words.resize(count, 0);
        Ok(Values { number, field, words })
    }

    fn memory(&mut self) -> AppMemory {
        let bytes = self.field.bytes().unwrap_or(0) as usize;
        // SAFETY: the words outlive the call that this memory is made for, no other code uses them during
        // that call, and they have at least so many bytes.
        unsafe { AppMemory::new(self.words.as_mut_ptr().cast(), bytes) }
    }
}

/// Decodes the snapshots of a generation, the last one first: in a sequence of states a record leans on the
/// two after it.
#[derive(Default)]
pub struct Decoder {
    /// For each field by number the codec of its streams.
    codecs: Vec<(u16, Method, Field, SnapshotCodec)>,
}

impl Decoder {
    /// Whether records of this codec may lean on later ones.
    pub fn may_lean(codec: u32) -> bool {
        codec == u32::from(Method::Dct.number())
    }

    /// Decodes the record of state `ts`. `later` are the fields of its time level, where the record holds the
    /// previous one; `None` where it does not.
    pub fn decode(
        &mut self,
        ts: i64,
        mut from: &[u8],
        later: Option<&mut Vec<Values>>,
    ) -> Result<Vec<Values>> {
        let is_level = later.is_none();
        let (mut none, mut made, mut mask) = (Vec::new(), Vec::<Values>::new(), Vec::new());
        let later = later.unwrap_or(&mut none);
        while !from.is_empty() {
            let (mut header, _, mut end) = Header::open(from)?;
            if header.content == Content::Mask {
                let (masked, _, bytes) = Header::open(&from[end..])?;
                (header, end) = (masked, end + bytes);
            }
            let (stream, rest) = from.split_at(end);
            from = rest;
            let values = match header.reference {
                None => {
                    let stream = numbered(stream, 0, &mut mask)?;
                    self.alone(&header, &stream, is_level.then_some(ts))?
                }
                Some(reference) => {
                    let stream = numbered(stream, 1, &mut mask)?;
                    let mut known = made.iter_mut().chain(later.iter_mut());
                    difference(&header, &stream, known.find(|known| known.number == reference))?
                }
            };
            made.push(values);
        }
        Ok(made)
    }

    /// Decodes the stream of a field that stands alone; one of a time level may be of a sequence, as that of
    /// state `ts`.
    fn alone(&mut self, header: &Header, stream: &[u8], ts: Option<i64>) -> Result<Values> {
        let method = Method::of_stream(header.codec, header.parameter)?;
        let mut values = Values::new(header)?;
        let codec = self.codec(header.field, method, values.field)?;
        let to = [values.memory()];
        // SAFETY: the memory of `values`.
        let decoded = unsafe {
            match ts {
                Some(ts) => codec.decompress_in_sequence(ts, Record::Part(0), stream, &to),
                None => codec.decompress(stream, &to),
            }
        };
        decoded.map(|()| values)
    }

    /// The codec of the streams of field `number`, where the field stands alone.
    fn codec(&mut self, number: u16, method: Method, field: Field) -> Result<&mut SnapshotCodec> {
        let is_it = |(n, m, f, _): &(u16, Method, Field, SnapshotCodec)| {
            (*n, m, *f) == (number, &method, field)
        };
        let k = match self.codecs.iter().position(is_it) {
            Some(k) => k,
            None => {
                let sequences = method == Method::Dct;
                let settings =
                    Settings { method: method.clone(), sequences, ..Settings::default() };
                let codec = SnapshotCodec::new(settings, &Layout::new(vec![field])?)?;
                self.codecs.push((number, method, field, codec));
                self.codecs.len() - 1
            }
        };
        Ok(&mut self.codecs[k].3)
    }
}

/// Decodes the stream of a field that is the difference of the field `known` and this one.
fn difference(header: &Header, stream: &[u8], known: Option<&mut Values>) -> Result<Values> {
    let mut values = Values::new(header)?;
    let field = values.field;
    let Some(known) = known.filter(|known| known.field == field) else {
        let text =
            format!("field {} is a difference to a field that no record holds", header.field);
        return Err(Error::new(Code::Stream, text));
    };
    let layout = Layout::new(vec![field, Field { previous_of: Some(0), ..field }])?;
    let parts = layout.by_level().unwrap_or_else(|| layout.whole());
    let method = Method::of_stream(header.codec, header.parameter)?;
    let settings = Settings { method, ..Settings::default() };
    let mut codec = SnapshotCodec::of_parts(settings, &layout, &parts)?;
    let both = [known.memory(), values.memory()];
    // SAFETY: the memory of `known` and of `values`.
    unsafe { codec.decompress_record(Record::Part(1), stream, &both) }.map(|()| values)
}

/// Returns the stream of a field, and of its mask if it has one, as that of field `field` of a state: of field 1,
/// if it leans on another field, on field 0. `mask` is the payload of the last mask of the record.
fn numbered(stream: &[u8], field: u16, mask: &mut Vec<u8>) -> Result<Vec<u8>> {
    let (mut made, mut at) = (Vec::new(), 0);
    while at < stream.len() {
        let (header, mut payload, bytes) = Header::open(&stream[at..])?;
        if header.content == Content::Mask {
            *mask = mask_alone(payload, mask);
            payload = mask;
        }
        let (begin, reference) = (made.len(), header.reference.map(|_| 0));
        made.resize(begin + (HEADER + payload.len()).next_multiple_of(HEADER), 0);
        made[begin + HEADER..][..payload.len()].copy_from_slice(payload);
        let header = Header { field, reference, payload: payload.len(), ..header };
        header.seal(&mut made[begin..]);
        at += bytes;
    }
    Ok(made)
}
