//! The check of complete states (configuration key `check`): every state that the application computes
//! again is compared, byte for byte, with the one that it computed first.

use super::Session;
use crate::available;
use crate::codec::checksum;
use crate::device::{AppMemory, Device, Place, Stream, PIECE};
use crate::error::{fail, text, Result};
use crate::fallible_vec::{collected, filled, insert, push};
use crate::layout::{Field, Layout};
use crate::scalar::{Real, Scalar};
use std::collections::HashMap;

/// The computations in a row, from one snapshot, whose results tell a step that is not deterministic from
/// an incomplete state: before the first of them another step came, before the others the same one.
const TELLING: u32 = 3;

/// What a shot remembers of its states.
#[derive(Default)]
pub(super) struct Check {
    /// The fields of every state as they were computed first.
    first: HashMap<i64, Vec<Seen>>,
    /// Bytes that copies of the fields may still take; `None`: not known yet.
    room: Option<u64>,
    /// The state that the last RESTORE has made live.
    pub(super) from: i64,
    /// The last state that was computed again, and the checksums of its fields each time in a row.
    row: (i64, Vec<Vec<u64>>),
    /// The state that differed first, and how.
    found: Option<(i64, String)>,
}

/// A field of a state: its checksum, least and greatest value, and a copy if there was memory for it.
struct Seen {
    sum: u64,
    range: [f64; 2],
    copy: Option<Vec<u8>>,
}

impl Session {
    /// Compares u(ts), which is about to be saved from `fields`, with what it was the first time, if the
    /// schedule was made for that.
    pub(super) fn compare(&mut self, ts: i64, fields: &[AppMemory], stream: Stream) -> Result<()> {
        let times = self.schedule.config().schedule.check;
        if times == 0 {
            return Ok(());
        }
        let mut check = std::mem::take(&mut self.shot.check);
        let read = match self.engine() {
            Ok(engine) => engine.call(stream, "check", |engine| {
                let device = engine.tiers.device();
                let mut state = Vec::new();
                fields.iter().try_for_each(|field| push(&mut state, read(device, *field)?))?;
                Ok(state)
            }),
            Err(error) => Err(error),
        };
        let compared = read.and_then(|state| check.state(ts, state, &self.basis.layout, times));
        self.shot.check = check;
        compared
    }

    /// Fails if a state differed, and no later computation has told more of it.
    pub(super) fn end_check(&self) -> Result<()> {
        let Some((_, text)) = &self.shot.check.found else { return Ok(()) };
        fail!(Values, "{text}")
    }
}

/// Reads a field of the application.
fn read(device: &mut dyn Device, field: AppMemory) -> Result<Vec<u8>> {
    let (mut bytes, mut at) = (filled(0u8, field.bytes())?, 0);
    for part in field.parts(PIECE) {
        device.read(Place::App(part), &mut bytes[at..at + part.bytes()])?;
        at += part.bytes();
    }
    Ok(bytes)
}

impl Check {
    /// Takes the fields of u(ts), `times` the number of computations that the schedule repeats.
    fn state(&mut self, ts: i64, state: Vec<Vec<u8>>, layout: &Layout, times: u32) -> Result<()> {
        let sums = collected(state.iter().map(|field| checksum(field, 0)))?;
        let Some(first) = self.first.get(&ts) else {
            let mut seen = Vec::new();
            for (field, (bytes, sum)) in layout.fields.iter().zip(state.into_iter().zip(sums)) {
                let range = range_of(field.scalar, &bytes);
                push(&mut seen, Seen { sum, range, copy: self.kept(bytes) })?;
            }
            insert(&mut self.first, ts, seen)?;
            return Ok(());
        };
        if self.found.is_none() {
            let differs = |(i, seen): (usize, &Seen)| (seen.sum != sums[i]).then_some(i);
            if let Some(i) = first.iter().enumerate().find_map(differs) {
                let how = how(&layout.fields[i], &first[i], &state[i]);
                self.found = Some((ts, text(format_args!(
                    "check = {times}: field {i} of u({ts}), computed again from the snapshot of u({}), differs from the first time: {how}",
                    self.from
                ))));
            }
        }
        if self.row.0 != ts {
            self.row = (ts, Vec::new());
        }
        push(&mut self.row.1, sums)?;
        let Some((found, text)) = &self.found else { return Ok(()) };
        if times < TELLING {
            return fail!(
                Values,
                "{text}. The step reads something that is not in the fields of the state, or is not deterministic: check = {TELLING} tells which"
            );
        }
        let (at, row) = (self.row.0, &self.row.1);
        if at != *found || (row.len() as u32) < times {
            return Ok(());
        }
        let first = &self.first[found];
        let is_first = |sums: &Vec<u64>| sums.iter().eq(first.iter().map(|seen| &seen.sum));
        let why = match &row[1..] {
            [one, others @ ..] if others.iter().any(|other| other != one) => {
                "gave other values each time, so the step is not a function of the fields: it changes an array, a halo or a counter that is not \
                 among them, draws random numbers, reads memory that nobody has written, or has threads that add in any order"
            }
            [again, ..] if is_first(again) => {
                "gave the first values, once the step had been done from there before: it reads what the step before it has left outside the fields: \
                 make that a field of the state, or let the step set it"
            }
            _ => {
                "gave the same values each time, so the step is deterministic, but reads something outside the fields that was different in the \
                 forward sweep: make that a field of the state, or let the step set it"
            }
        };
        fail!(Values, "{text}. {} computations in a row from u({}) {why}", row.len(), self.from)
    }

    /// Keeps the bytes of a field as long as all copies take at most a quarter of the memory that was free.
    fn kept(&mut self, bytes: Vec<u8>) -> Option<Vec<u8>> {
        let free = || available::host().map_or(0, |free| free.bytes / 4);
        let room = self.room.get_or_insert_with(free);
        *room = room.checked_sub(bytes.len() as u64)?;
        Some(bytes)
    }
}

/// Says how a field differs from what it was first.
fn how(field: &Field, first: &Seen, now: &[u8]) -> String {
    let (scalar, size) = (field.scalar, field.scalar.bytes() as usize);
    let [from, to] = [first.range, range_of(scalar, now)]
        .map(|[least, greatest]| format!("from {least:?} to {greatest:?}"));
    let ranges = match from == to {
        true => format!("its values are {to}"),
        false => format!("its values were {from} and are {to}"),
    };
    let Some(copy) = &first.copy else {
        return format!("{ranges}; there was no memory for a copy that tells which values differ");
    };
    let values = || copy.chunks_exact(size).zip(now.chunks_exact(size));
    let count = values().filter(|(was, is)| was != is).count();
    let between = |(was, is): (&[u8], &[u8])| {
        let ([re, im], [to_re, to_im]) = (numbers(scalar, was), numbers(scalar, is));
        (to_re - re).abs().max((to_im - im).abs())
    };
    let largest = values().map(between).fold(0.0f64, f64::max);
    let Some((at, (was, is))) = values().enumerate().find(|(_, (was, is))| was != is) else {
        return ranges;
    };
    let [n1, n2, _] = field.n.map(|n| n as usize);
    let [i1, i2, i3] = [at % n1, at / n1 % n2, at / n1 / n2];
    let [was, is] = [was, is].map(|bytes| shown(scalar, bytes));
    let all = now.len() / size;
    format!("{count} of {all} values by up to {largest:.1e}, the first at index {at} (i1 = {i1}, i2 = {i2}, i3 = {i3}, counted from 0), which was {was} and is {is}; {ranges}")
}

/// The numbers of a value: one, or real and imaginary part.
fn numbers(scalar: Scalar, bytes: &[u8]) -> [f64; 2] {
    let real = |bytes: &[u8]| match scalar {
        Scalar::F32 | Scalar::ComplexF32 => f32::get(bytes).to_f64(),
        Scalar::F64 | Scalar::ComplexF64 => f64::get(bytes),
        Scalar::Byte => f64::from(bytes[0]),
        Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64 => {
            let sign = if bytes[bytes.len() - 1] >= 128 { 255 } else { 0 };
            let mut whole = [sign; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            i64::from_le_bytes(whole) as f64
        }
    };
    match scalar {
        Scalar::ComplexF32 | Scalar::ComplexF64 => {
            let (re, im) = bytes.split_at(bytes.len() / 2);
            [real(re), real(im)]
        }
        _ => [real(bytes), 0.0],
    }
}

fn shown(scalar: Scalar, bytes: &[u8]) -> String {
    match (scalar, numbers(scalar, bytes)) {
        (Scalar::F32, [x, _]) => format!("{:?}", x as f32),
        (Scalar::ComplexF32 | Scalar::ComplexF64, [re, im]) => format!("({re:?}, {im:?})"),
        (Scalar::F64, [x, _]) => format!("{x:?}"),
        (_, [x, _]) => format!("{x}"),
    }
}

/// The least and the greatest number of a field, NaN left out; of complex values, of both parts.
fn range_of(scalar: Scalar, bytes: &[u8]) -> [f64; 2] {
    let parts = match scalar {
        Scalar::ComplexF32 | Scalar::ComplexF64 => 2,
        _ => 1,
    };
    let values = bytes.chunks_exact(scalar.bytes() as usize);
    let mut numbers = values.flat_map(|value| numbers(scalar, value).into_iter().take(parts));
    let Some(first) = numbers.find(|x| !x.is_nan()) else { return [f64::NAN; 2] };
    numbers.fold([first; 2], |[least, greatest], x| [least.min(x), greatest.max(x)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_every_type_are_shown() {
        for (scalar, bytes, expected) in [
            (Scalar::F32, 0.1f32.to_le_bytes().to_vec(), "0.1"),
            (Scalar::F64, (-2.5f64).to_le_bytes().to_vec(), "-2.5"),
            (Scalar::I8, vec![0xff], "-1"),
            (Scalar::Byte, vec![0xff], "255"),
            (Scalar::I16, (-300i16).to_le_bytes().to_vec(), "-300"),
            (Scalar::I32, 70_000i32.to_le_bytes().to_vec(), "70000"),
            (Scalar::I64, (-1i64 << 40).to_le_bytes().to_vec(), "-1099511627776"),
        ] {
            assert_eq!(shown(scalar, &bytes), expected, "{scalar:?}");
        }
        let complex = [1.5f32, -2.0].map(f32::to_le_bytes).concat();
        assert_eq!(shown(Scalar::ComplexF32, &complex), "(1.5, -2.0)");
        assert_eq!(range_of(Scalar::ComplexF32, &complex), [-2.0, 1.5]);
        let values = [f64::NAN, 3.0, -1.0].map(f64::to_le_bytes).concat();
        assert_eq!(range_of(Scalar::F64, &values), [-1.0, 3.0]);
    }

    #[test]
    fn the_first_difference_is_named_by_its_indices() {
        let field = Field { n: [3, 2, 2], scalar: Scalar::I16, previous_of: None };
        let was: Vec<u8> = (0..12i16).flat_map(i16::to_le_bytes).collect();
        let mut now = was.clone();
        (now[2 * 10], now[2 * 11]) = (99, 98);
        let range = range_of(Scalar::I16, &was);
        let seen = Seen { sum: 0, range, copy: Some(was) };
        assert_eq!(
            how(&field, &seen, &now),
            "2 of 12 values by up to 8.9e1, the first at index 10 (i1 = 1, i2 = 1, i3 = 1, counted from 0), which was 10 and is 99; its values were from 0.0 to 11.0 \
             and are from 0.0 to 99.0"
        );
        let seen = Seen { copy: None, ..seen };
        assert!(how(&field, &seen, &now)
            .ends_with("no memory for a copy that tells which values differ"));
    }
}
