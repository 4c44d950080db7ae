//! Types and extents of what a generation holds: of the application's arrays, and of the fields of a state.

use super::format::{damaged, Kind, Record};
use crate::error::Result;
use crate::fallible_vec;
use crate::layout::{Field, Layout, MAX_FIELDS};
use crate::scalar::Scalar;

/// The name of a record that holds a state, or its time level alone.
pub const SNAPSHOT: &str = "snapshot";
/// The name of a record that holds the previous time level of a state.
pub const PREVIOUS_LEVEL: &str = "previous level";
/// The name of the record that holds the shapes.
pub const SHAPES: &str = "gpuzip shapes";

/// Bytes of a shape: three extents, type and role.
const SHAPE: usize = 32;

/// Types and extents of what a generation holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shapes {
    /// The fields of a state.
    pub state: Vec<Field>,
    /// The arrays, in the order of their records. They have no roles.
    pub arrays: Vec<Field>,
}

/// A field in the payload of a record that no codec made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldAt {
    /// The number of the field in the state; 0 for an array.
    pub number: usize,
    /// Type and extents.
    pub field: Field,
    /// Where the field begins in the payload, in bytes.
    pub offset: u64,
}

impl Shapes {
    /// Returns the payload of the record.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let count = self.state.len() + self.arrays.len();
        let mut bytes = fallible_vec::with_room(8 + SHAPE * count)?;
        bytes.extend((self.state.len() as u64).to_le_bytes());
        for Field { n, scalar, previous_of } in self.state.iter().chain(&self.arrays) {
            n.iter().for_each(|n| bytes.extend(n.to_le_bytes()));
            bytes.extend((*scalar as u32).to_le_bytes());
            bytes.extend(previous_of.map_or(0, |k| k + 1).to_le_bytes());
        }
        Ok(bytes)
    }

    /// Reads the payload of the record.
    pub fn of_bytes(bytes: &[u8]) -> Result<Self> {
        let wrong =
            || damaged(format_args!("its record of shapes, {} bytes, is none", bytes.len()));
        let Some((count, shapes)) = bytes.split_first_chunk() else { return wrong() };
        let (shapes, []) = shapes.as_chunks::<SHAPE>() else { return wrong() };
        let mut all = fallible_vec::with_room(shapes.len())?;
        for shape in shapes {
            let word = |k: usize| u64::from_le_bytes(std::array::from_fn(|i| shape[8 * k + i]));
            let (n, last) = ([word(0), word(1), word(2)], word(3));
            let Some(scalar) = Scalar::of_number(last as i32) else { return wrong() };
            let previous_of = ((last >> 32) as u32).checked_sub(1);
            let field = Field { n, scalar, previous_of };
            if n.contains(&0) || field.bytes().is_none() {
                return wrong();
            }
            all.push(field);
        }
        let count = usize::try_from(u64::from_le_bytes(*count)).unwrap_or(usize::MAX);
        if count > all.len().min(MAX_FIELDS) {
            return wrong();
        }
        let arrays = fallible_vec::copied(&all[count..])?;
        all.truncate(count);
        Ok(Shapes { state: all, arrays })
    }

    /// Returns the fields in the payload of record `k`, an array or a snapshot that no codec made, in the order of
    /// their offsets. The list is empty if the shapes are not those of such a record.
    pub fn of_raw(&self, records: &[Record], k: usize) -> Vec<FieldAt> {
        let head = &records[k].head;
        let is_array = |record: &&Record| record.head.kind == Kind::Array;
        match head.kind {
            Kind::Array => {
                let array = self.arrays.get(records[..k].iter().filter(is_array).count());
                let array = array.filter(|field| field.bytes() == Some(head.stored_bytes));
                array.map(|&field| FieldAt { number: 0, field, offset: 0 }).into_iter().collect()
            }
            Kind::Snapshot => {
                let Ok(layout) = Layout::new(self.state.clone()) else { return Vec::new() };
                let part = usize::from(head.name.as_str() == PREVIOUS_LEVEL);
                let levels = layout.by_level();
                let cuts = [Some(layout.whole()), levels].into_iter().flatten();
                let mut parts = cuts.filter_map(|cut| cut.parts.into_iter().nth(part));
                let part = parts.find(|part| part.bytes == head.stored_bytes).unwrap_or_default();
                let places = part.fields.into_iter().zip(part.offsets);
                let at =
                    |(number, offset)| FieldAt { number, field: layout.fields[number], offset };
                places.map(at).collect()
            }
            Kind::Other => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::format::RecordHead;
    use super::super::name::Name;
    use super::*;

    fn record(kind: Kind, name: &str, bytes: u64) -> Record {
        let (name, ts, codec) = (Name::new(name).unwrap(), 3, 0);
        let head = RecordHead { kind, name, ts, codec, raw_bytes: bytes, stored_bytes: bytes };
        Record { head, crc: 0, since: 1 }
    }

    /// Every type and role, and the fields of every record of a generation: arrays by their order, snapshots whole
    /// or by level by their bytes, and nothing of another size.
    #[test]
    fn shapes_come_back_and_tell_the_fields_of_every_record() {
        let field = |n, scalar| Field { n, scalar, previous_of: None };
        let level = field([9, 4, 10], Scalar::F32);
        let before = Field { previous_of: Some(0), ..level };
        let state = vec![level, before, field([3, 1, 7], Scalar::I16)];
        let arrays = Scalar::ALL.map(|scalar| field([7, 2, 1], scalar)).to_vec();
        let shapes = Shapes { state, arrays };
        assert_eq!(Shapes::of_bytes(&shapes.to_bytes().unwrap()).unwrap(), shapes);
        for end in (0..shapes.to_bytes().unwrap().len()).filter(|end| end % SHAPE != 8) {
            assert!(Shapes::of_bytes(&shapes.to_bytes().unwrap()[..end]).is_err(), "{end}");
        }

        let of = |shapes: &Shapes, records: &[Record], k| -> Vec<(usize, u64)> {
            shapes.of_raw(records, k).iter().map(|at| (at.number, at.offset)).collect()
        };
        let arrays = shapes.arrays.iter().map(|f| record(Kind::Array, "a", f.bytes().unwrap()));
        let mut records: Vec<Record> = arrays.collect();
        let count = records.len();
        for (name, bytes) in [
            (SNAPSHOT, 1536 + 1536 + 256),
            (SNAPSHOT, 1536 + 256),
            (PREVIOUS_LEVEL, 1536),
            (PREVIOUS_LEVEL, 1536 + 256),
        ] {
            records.push(record(Kind::Snapshot, name, bytes));
        }
        records.push(record(Kind::Other, SHAPES, 8));
        for (k, array) in shapes.arrays.iter().enumerate() {
            assert_eq!(
                shapes.of_raw(&records, k),
                [FieldAt { number: 0, field: *array, offset: 0 }]
            );
        }
        let found: Vec<_> = (count..records.len()).map(|k| of(&shapes, &records, k)).collect();
        let all = vec![(0, 0), (1, 1536), (2, 3072)];
        assert_eq!(found, [all, vec![(0, 0), (2, 1536)], vec![(1, 0)], vec![], vec![]]);
        assert_eq!(of(&Shapes::default(), &records, 0), []);
        records[0].head.stored_bytes += 1;
        assert_eq!(of(&shapes, &records, 0), []);
    }

    /// No bytes, whatever they are, end in a panic or in more memory than they have.
    #[test]
    fn wrong_shapes_are_damage() {
        let field = Field { n: [2, 3, 4], scalar: Scalar::F64, previous_of: None };
        let right = Shapes { state: vec![field], arrays: vec![field] }.to_bytes().unwrap();
        for (at, byte) in [(0, 3), (7, 1), (8, 0), (32, 9), (8 + 7, 255)] {
            let mut bytes = right.clone();
            bytes[at] = byte;
            assert!(Shapes::of_bytes(&bytes).is_err(), "byte {at}");
        }
    }
}
