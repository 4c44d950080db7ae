//! The layout of a state: the fields, and the place of each in a raw snapshot.

use crate::error::{fail, Result};
use crate::scalar::Scalar;

/// One array of a state, with extents n1, n2, n3 and n1 fastest. A field is contiguous in a
/// snapshot; its strides in the application's memory are not part of the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Extents; 1 where a dimension is not used.
    pub n: [u64; 3],
    /// Type of the values.
    pub scalar: Scalar,
    /// Index of the field whose previous time level this field is; `None`: of no field.
    pub previous_of: Option<u32>,
}

impl Field {
    /// Returns the size of the field in bytes; `None` if the size exceeds the address space.
    pub fn bytes(&self) -> Option<u64> {
        let values = self.n.iter().try_fold(1u64, |product, &n| product.checked_mul(n))?;
        values.checked_mul(self.scalar.bytes()).filter(|&bytes| bytes <= isize::MAX as u64)
    }
}

impl std::fmt::Display for Field {
    /// Writes type and extents, without the extents of dimensions that are not used.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [n1, n2, n3] = self.n;
        write!(f, "{} {n1}", self.scalar.name())?;
        match (n2, n3) {
            (1, 1) => Ok(()),
            (n2, 1) => write!(f, " x {n2}"),
            (n2, n3) => write!(f, " x {n2} x {n3}"),
        }
    }
}

/// Most fields of a state: more than any code has, and few enough to notice a wrong count.
pub const MAX_FIELDS: usize = 1024;

/// Offsets of fields in a snapshot are multiples of this, in bytes, for aligned vector loads and
/// bulk copies.
pub const ALIGNMENT: u64 = 256;

/// The next multiple of [`ALIGNMENT`] from `bytes` on; the largest one there is where `bytes` is
/// beyond it.
pub fn aligned(bytes: u64) -> u64 {
    bytes.div_ceil(ALIGNMENT).saturating_mul(ALIGNMENT)
}

/// The fields of a state and their offsets in a raw snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The fields.
    pub fields: Vec<Field>,
    /// The size of each field in bytes.
    pub bytes: Vec<u64>,
    /// The offset of each field in a raw snapshot, in bytes.
    pub offsets: Vec<u64>,
    /// Bytes of all fields, without padding.
    pub raw_bytes: u64,
    /// Bytes of a raw snapshot, padding included.
    pub slot_bytes: u64,
}

/// Fields of a state that form one record: a record is what is stored and moved as one piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Indices of the fields in the state.
    pub fields: Vec<usize>,
    /// The offset of each of these fields in a raw record, in bytes.
    pub offsets: Vec<u64>,
    /// Bytes of a raw record, padding included.
    pub bytes: u64,
}

impl Part {
    /// Places the fields with these indices one after the other.
    fn of(layout: &Layout, fields: Vec<usize>) -> Self {
        let mut bytes = 0;
        let offsets = fields.iter().map(|&i| {
            let offset = bytes;
            bytes += layout.bytes[i].next_multiple_of(ALIGNMENT);
            offset
        });
        let offsets = offsets.collect();
        Part { fields, offsets, bytes }
    }
}

/// How a state is cut into records: as a whole, or by time level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    /// One part with all fields; or part 0 with the fields of the state's own time, and part 1 with
    /// fields that are the previous time levels of fields of part 0.
    pub parts: Vec<Part>,
    /// For each field of part 1: its index in the state, and that of its later level in part 0.
    pub previous: Vec<(usize, usize)>,
}

impl Parts {
    /// Bytes of a slot that holds a raw record of any part.
    pub fn slot_bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).max().unwrap_or(0)
    }
}

/// The layout of snapshots that share time levels. A slot holds the state's own fields. A place
/// holds the other fields, each of which is the previous time level of an own field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Levels {
    /// The own fields: index in the state, and offset in a slot in bytes. Checksums follow them.
    pub own: Vec<(usize, u64)>,
    /// The fields that are previous time levels.
    pub previous: Vec<PreviousField>,
    /// Bytes of a slot, checksums and padding included.
    pub own_bytes: u64,
    /// Bytes of a place.
    pub previous_bytes: u64,
}

impl Levels {
    /// Bytes of device memory beside slots and places, in which time levels are compared.
    pub const WORK_BYTES: u64 = ALIGNMENT;
}

/// A field that is the previous time level of another field, its current one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreviousField {
    /// Index of this field in the state.
    pub field: usize,
    /// Offset of this field in a place, in bytes.
    pub at: u64,
    /// Index of the current field in the state.
    pub current: usize,
    /// Offset of the current field in a slot, in bytes.
    pub current_at: u64,
    /// Offset of the checksum of the current field in a slot, in bytes.
    pub checksum_at: u64,
}

impl Layout {
    /// Returns the state as one part, with the offsets of this layout.
    pub fn whole(&self) -> Parts {
        let all = (0..self.fields.len()).collect();
        Parts { parts: vec![Part::of(self, all)], previous: Vec::new() }
    }

    /// Returns the state cut by time level; `None` if no field is a previous level that can be
    /// shared. Fields of values of less than 4 bytes cannot, because a GPU adds up checksums in
    /// words of 4 bytes; neither can previous levels of previous levels. Both stay in part 0.
    pub fn by_level(&self) -> Option<Parts> {
        let later = |i: &usize| {
            let field = &self.fields[*i];
            let later = field.previous_of.filter(|_| field.scalar.bytes() >= 4)? as usize;
            self.fields[later].previous_of.is_none().then_some(later)
        };
        let (previous, own): (Vec<_>, Vec<_>) =
            (0..self.fields.len()).partition(|i| later(i).is_some());
        let pairs: Vec<_> = previous.iter().filter_map(|i| Some((*i, later(i)?))).collect();
        let parts = vec![Part::of(self, own), Part::of(self, previous)];
        (!pairs.is_empty()).then_some(Parts { parts, previous: pairs })
    }

    /// Returns the layout with shared time levels; `None` if the state has no time level to share.
    pub fn levels(&self) -> Option<Levels> {
        // A GPU adds up checksums in words of 4 bytes: fields of smaller values are not shared.
        let is_previous = |field: &Field| {
            field.scalar.bytes() >= 4
                && field.previous_of.is_some_and(|k| self.fields[k as usize].previous_of.is_none())
        };
        let mut levels =
            Levels { own: Vec::new(), previous: Vec::new(), own_bytes: 0, previous_bytes: 0 };
        for (i, field) in self.fields.iter().enumerate().filter(|(_, field)| !is_previous(field)) {
            levels.own.push((i, levels.own_bytes));
            levels.own_bytes += field.bytes()?.next_multiple_of(ALIGNMENT);
        }
        for (i, field) in self.fields.iter().enumerate().filter(|(_, field)| is_previous(field)) {
            let (current, current_at) =
                levels.own.iter().copied().find(|(k, _)| field.previous_of == Some(*k as u32))?;
            let checksum_at = levels.own_bytes + 8 * levels.previous.len() as u64;
            levels.previous.push(PreviousField {
                field: i,
                at: levels.previous_bytes,
                current,
                current_at,
                checksum_at,
            });
            levels.previous_bytes += field.bytes()?.next_multiple_of(ALIGNMENT);
        }
        levels.own_bytes += (8 * levels.previous.len() as u64).next_multiple_of(ALIGNMENT);
        (levels.previous_bytes > 0).then_some(levels)
    }

    /// Places the fields one after the other in a raw snapshot. Fails if there is no field, or if
    /// the shape or the role of a field is impossible.
    pub fn new(fields: Vec<Field>) -> Result<Self> {
        let count = fields.len();
        if !(1..=MAX_FIELDS).contains(&count) {
            return fail!(Argument, "nfields = {count}: a state has 1 to {MAX_FIELDS} fields");
        }
        let (mut offsets, mut sizes) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let (mut raw_bytes, mut end) = (0u64, 0u64);
        for (i, field) in fields.iter().enumerate() {
            let [n1, n2, n3] = field.n;
            if field.n.contains(&0) {
                return fail!(Argument, "field {i}: its extents are {n1} x {n2} x {n3}; give 1 to a dimension that is not used");
            }
            let Some(bytes) = field.bytes() else {
                return fail!(
                    Argument,
                    "field {i}: {n1} x {n2} x {n3} values do not fit the address space"
                );
            };
            if let Some(k) = field.previous_of {
                let pair = fields.get(k as usize);
                if is_cycle(&fields, i)
                    || pair.is_none_or(|f| f.n != field.n || f.scalar != field.scalar)
                {
                    return fail!(
                        Argument,
                        "field {i}: role = {}: no other field {k} of the same shape and type",
                        k as u64 + 1
                    );
                }
            }
            offsets.push(end);
            sizes.push(bytes);
            raw_bytes = raw_bytes.saturating_add(bytes);
            end = end.saturating_add(bytes.next_multiple_of(ALIGNMENT));
        }
        if end > isize::MAX as u64 {
            return fail!(Argument, "the {count} fields together do not fit the address space");
        }
        Ok(Layout { fields, bytes: sizes, offsets, raw_bytes, slot_bytes: end })
    }
}

/// Returns whether field `i` is, over any number of time levels, its own previous time level.
fn is_cycle(fields: &[Field], i: usize) -> bool {
    let earlier =
        |k: &usize| fields.get(*k).and_then(|field| field.previous_of).map(|k| k as usize);
    std::iter::successors(earlier(&i), earlier).take(fields.len()).any(|k| k == i)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(n: [u64; 3], scalar: Scalar) -> Field {
        Field { n, scalar, previous_of: None }
    }

    #[test]
    fn unequal_fields_are_placed_apart() {
        let layout = Layout::new(vec![
            field([3, 1, 1], Scalar::F32),
            field([10, 10, 1], Scalar::F64),
            field([1, 1, 1], Scalar::F32),
        ])
        .unwrap();
        assert_eq!(layout.offsets, [0, 256, 256 + 1024]);
        assert_eq!((layout.raw_bytes, layout.slot_bytes), (12 + 800 + 4, 256 + 1024 + 256));
    }

    #[test]
    fn parts_place_every_field_once() {
        let previous = |of, n, scalar| Field { previous_of: Some(of), ..field(n, scalar) };
        let layout = Layout::new(vec![
            previous(1, [65, 1, 1], Scalar::F32),
            field([65, 1, 1], Scalar::F32),
            previous(0, [65, 1, 1], Scalar::F32),
            field([3, 1, 1], Scalar::I16),
            previous(3, [3, 1, 1], Scalar::I16),
            field([10, 10, 1], Scalar::F64),
            previous(5, [10, 10, 1], Scalar::F64),
        ])
        .unwrap();
        let whole = layout.whole();
        assert_eq!((whole.parts.len(), &whole.previous), (1, &vec![]));
        assert_eq!(whole.parts[0].fields, [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(whole.parts[0].offsets, layout.offsets);
        assert_eq!(
            (whole.parts[0].bytes, whole.slot_bytes()),
            (layout.slot_bytes, layout.slot_bytes)
        );

        let levels = layout.by_level().unwrap();
        assert_eq!(levels.previous, [(0, 1), (6, 5)]);
        let part = |fields: &[usize], offsets: &[u64], bytes| Part {
            fields: fields.to_vec(),
            offsets: offsets.to_vec(),
            bytes,
        };
        assert_eq!(
            levels.parts,
            [
                part(&[1, 2, 3, 4, 5], &[0, 512, 1024, 1280, 1536], 2560),
                part(&[0, 6], &[0, 512], 1536)
            ]
        );
        assert_eq!(levels.slot_bytes(), 2560);
        // A previous level of 2-byte values alone is no reason to cut.
        let small =
            Layout::new(vec![field([3, 1, 1], Scalar::I16), previous(0, [3, 1, 1], Scalar::I16)]);
        assert_eq!(small.unwrap().by_level(), None);
    }

    #[test]
    fn impossible_shapes_are_refused() {
        for (fields, part) in [
            (vec![], "nfields = 0"),
            (vec![field([0, 1, 1], Scalar::F32)], "0 x 1 x 1"),
            (vec![field([u64::MAX, 2, 1], Scalar::F32)], "address space"),
            (vec![field([1 << 60, 1, 1], Scalar::F64)], "address space"),
            (vec![field([1 << 60, 1, 1], Scalar::F32); 8], "together"),
            (
                vec![
                    Field { previous_of: Some(1), ..field([4, 1, 1], Scalar::F32) },
                    field([5, 1, 1], Scalar::F32),
                ],
                "role = 2",
            ),
            (vec![Field { previous_of: Some(0), ..field([4, 1, 1], Scalar::F32) }], "role = 1"),
            (
                [1, 2, 0]
                    .map(|k| Field { previous_of: Some(k), ..field([4, 1, 1], Scalar::F32) })
                    .to_vec(),
                "role = 2",
            ),
        ] {
            let error = Layout::new(fields).unwrap_err();
            assert!(error.message.contains(part), "{error}");
        }
    }
}
