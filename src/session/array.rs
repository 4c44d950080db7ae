//! Arrays of the application in restart files: their records, and their bytes from memory to a file
//! and back.

use crate::device::{AppField, AppMemory, Device, Place, PIECE};
use crate::error::{fail, Error, Result};
use crate::fallible_vec::{filled, push};
use crate::layout::Field;
use crate::persist::{Kind, Name, Reader, RecordHead, Writer};

/// Memory of the application that restart files keep.
pub struct Array {
    /// The name by which a restart finds the array.
    pub name: Name,
    /// Shape and memory of the array.
    pub field: AppField,
    /// Whether the array changes during a shot, so that only a generation within a shot holds the array.
    pub changes_within: bool,
}

impl Array {
    pub(super) fn memory(&self) -> Result<AppMemory> {
        let none = || fail!(Argument, "array {}: data is NULL", self.name);
        self.field.memory.map_or_else(none, Ok)
    }

    /// The head of the array's record.
    fn head(&self) -> RecordHead {
        let bytes = self.field.field.bytes().unwrap_or(0);
        RecordHead {
            kind: Kind::Array,
            name: self.name,
            ts: 0,
            codec: 0,
            raw_bytes: bytes,
            stored_bytes: bytes,
        }
    }
}

/// Writes the record of an array.
pub(super) fn put(
    writer: &mut Writer,
    device: Option<&mut (dyn Device + '_)>,
    array: &Array,
) -> Result<()> {
    writer.record(array.head())?;
    read(device, array.memory()?, &mut |piece| writer.write(piece))
}

/// Passes the bytes of the application's memory to `sink`, piece by piece. The device copies them, or,
/// before a session has one, this thread copies them as host memory.
pub(super) fn read<E: From<Error>>(
    mut device: Option<&mut (dyn Device + '_)>,
    memory: AppMemory,
    sink: &mut dyn FnMut(&[u8]) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let (mut buffer, mut used) = (filled(0u8, memory.bytes().min(PIECE))?, 0);
    for part in memory.parts(PIECE) {
        // A piece has many rows.
        if used + part.bytes() > buffer.len() {
            sink(&buffer[..std::mem::take(&mut used)])?;
        }
        let to = &mut buffer[used..used + part.bytes()];
        match &mut device {
            Some(device) => device.read(Place::App(part), to)?,
            // SAFETY: memory of the application, as long as `to`, by the promise of `AppMemory`.
            None => unsafe {
                std::ptr::copy_nonoverlapping(part.address(), to.as_mut_ptr(), to.len())
            },
        }
        used += part.bytes();
    }
    sink(&buffer[..used])
}

/// Returns the record of each array that the generation holds. The generation must hold the arrays that
/// are given, in these shapes, and no others; those that change within a shot only if it is of an action.
pub(super) fn match_arrays<'a>(
    reader: &Reader,
    arrays: &'a [Array],
    within: bool,
) -> Result<Vec<(usize, &'a Array)>> {
    let records = || {
        let records = reader.records.iter().enumerate();
        records.filter(|(_, record)| record.head.kind == Kind::Array)
    };
    let shapes = reader.shapes()?;
    let mut found = Vec::new();
    for array in arrays.iter().filter(|array| within || !array.changes_within) {
        let (name, field) = (array.name, Field { previous_of: None, ..array.field.field });
        let Some((k, _)) = records().find(|(_, record)| record.head.name == name) else {
            return fail!(Shape, "array {name}: the generation does not hold it; give the arrays with which it was written");
        };
        match shapes.of_raw(&reader.records, k).first().map(|at| at.field) {
            Some(written) if written == field => {}
            Some(written) => {
                return fail!(
                    Shape,
                    "array {name} is {field}, and was written as {written}: give it the extents and the type with which it was written"
                )
            }
            None => {
                return fail!(
                    Stream,
                    "array {name}: the generation does not tell its type and extents: another program wrote it"
                )
            }
        }
        push(&mut found, (k, array))?;
    }
    match records().find(|(k, _)| found.iter().all(|(known, _)| known != k)) {
        None => Ok(found),
        Some((_, record)) => fail!(
            Shape,
            "the generation holds the array {}, and the call does not name it: give the arrays with which it was written",
            record.head.name
        ),
    }
}

/// Fills an array with the bytes of record number `k`, which are copied as in `put`.
pub(super) fn fill(
    reader: &Reader,
    k: usize,
    mut device: Option<&mut (dyn Device + '_)>,
    array: &Array,
) -> Result<()> {
    let (mut parts, mut current) = (array.memory()?.parts(PIECE), None);
    reader.read(k, &mut |mut piece| {
        while !piece.is_empty() {
            let Some(part) = current.take().or_else(|| parts.next()) else {
                return fail!(Stream, "more bytes than the array has");
            };
            let count = piece.len().min(part.bytes());
            let (bytes, others) = piece.split_at(count);
            // SAFETY: the bytes lie within the part, which is contiguous.
            let of = |at, bytes| unsafe { AppMemory::new(part.address().add(at), bytes) };
            let (first, left) = (of(0, count), part.bytes() - count);
            match &mut device {
                Some(device) => device.write(Place::App(first), bytes)?,
                // SAFETY: as in `put`.
                None => unsafe {
                    std::ptr::copy_nonoverlapping(bytes.as_ptr(), first.address(), bytes.len())
                },
            }
            (piece, current) = (others, (left > 0).then(|| of(count, left)));
        }
        Ok(())
    })
}
