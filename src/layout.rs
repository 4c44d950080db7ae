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

/// Fields of a state that are stored and moved as one piece, a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// The fields, by their numbers in the state.
    pub fields: Vec<usize>,
    /// The offset of each of these fields in a raw record, in bytes.
    pub offsets: Vec<u64>,
    /// Bytes of a raw record, padding included.
    pub bytes: u64,
}

impl Part {
    /// Appends a field of `bytes` bytes.
    fn add(&mut self, field: usize, bytes: u64) {
        self.fields.push(field);
        self.offsets.push(self.bytes);
        self.bytes = self.bytes.saturating_add(aligned(bytes));
    }
}

/// How a state is cut into records: one, the whole state; or two, the fields of its time level (part 0)
/// and the fields that are the previous time level of these (part 1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    /// The parts, one or two, in order.
    pub parts: Vec<Part>,
    /// The fields of part 1, each with the field of part 0 that is its later level.
    pub previous: Vec<Previous>,
}

/// A field that is the previous time level of another field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Previous {
    /// The field.
    pub field: usize,
    /// The field whose previous time level it is.
    pub later: usize,
    /// Offset of the later level in a raw record of part 0, in bytes.
    pub at: u64,
}

impl Parts {
    /// Bytes of a slot for raw records: those of the larger part.
    pub fn slot_bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).max().unwrap_or(0)
    }

    /// The fields that a raw record of part `part` fills, each with its offset in the record. With
    /// `of_before` the record is part 0 of the state before, and the fields are those of part 1.
    pub fn places(&self, part: usize, of_before: bool) -> impl Iterator<Item = (usize, u64)> + '_ {
        let (fields, offsets) = match self.parts.get(part) {
            Some(part) if !of_before => (&part.fields[..], &part.offsets[..]),
            _ => (&[][..], &[][..]),
        };
        let own = fields.iter().copied().zip(offsets.iter().copied());
        let previous = if of_before { &self.previous[..] } else { &[] };
        own.chain(previous.iter().map(|previous| (previous.field, previous.at)))
    }
}

impl Layout {
    /// Returns the state as one part, whose raw record is a raw snapshot.
    pub fn whole(&self) -> Parts {
        let fields = (0..self.fields.len()).collect();
        let (offsets, bytes) = (self.offsets.clone(), self.slot_bytes);
        Parts { parts: vec![Part { fields, offsets, bytes }], previous: Vec::new() }
    }

    /// Returns the state cut into its time level and the previous one; `None` if no field is the previous
    /// level of another one.
    pub fn by_level(&self) -> Option<Parts> {
        // A GPU adds up checksums in words of 4 bytes: fields of smaller values are not shared.
        let level_of = |field: &Field| {
            let later = field.previous_of.filter(|_| field.scalar.bytes() >= 4)? as usize;
            self.fields[later].previous_of.is_none().then_some(later)
        };
        let [mut own, mut before] = [Part::default(), Part::default()];
        for (i, field) in self.fields.iter().enumerate() {
            match level_of(field) {
                Some(_) => before.add(i, self.bytes[i]),
                None => own.add(i, self.bytes[i]),
            }
        }
        let previous = |&field: &usize| {
            let later = level_of(&self.fields[field])?;
            let k = own.fields.iter().position(|own| *own == later)?;
            Some(Previous { field, later, at: own.offsets[k] })
        };
        let previous: Vec<Previous> = before.fields.iter().filter_map(previous).collect();
        (!previous.is_empty()).then_some(Parts { parts: vec![own, before], previous })
    }

    /// Bytes of the values of each part of a state that is cut by level, without padding.
    pub fn raw_bytes_by_level(&self) -> Vec<u64> {
        let parts = self.by_level().map_or(Vec::new(), |levels| levels.parts);
        let bytes = |part: &Part| part.fields.iter().map(|field| self.bytes[*field]).sum();
        parts.iter().map(bytes).collect()
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
        let of = |p: &Previous| (p.field, p.later, p.at);
        let pairs: Vec<_> = levels.previous.iter().map(of).collect();
        assert_eq!(pairs, [(0, 1, 0), (6, 5, 1536)]);
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
