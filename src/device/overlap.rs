//! Fields that overlap in memory: a copy into one of them would change the other.

use super::{AppField, AppMemory};
use crate::error::{fail, Result};
use crate::fallible_vec::with_room;

/// Returns the memory of `fields`, which must not overlap.
pub fn memory_of(fields: &[AppField]) -> Result<Vec<AppMemory>> {
    let memory = |(i, field): (usize, &AppField)| match field.memory {
        Some(memory) => Ok(memory),
        None => fail!(Argument, "field {i}: data is NULL"),
    };
    let memory = fields.iter().enumerate().map(memory).collect::<Result<Vec<_>>>()?;
    check_disjoint(&memory)?;
    Ok(memory)
}

/// Fails if two fields have a byte in common. The gaps between the rows of a field do not belong to
/// the field, so that fields may lie in each other's gaps.
fn check_disjoint(fields: &[AppMemory]) -> Result<()> {
    let mut order: Vec<usize> = with_room(fields.len())?;
    order.extend((0..fields.len()).filter(|&i| fields[i].bytes() > 0));
    order.sort_unstable_by_key(|&i| begin(fields[i]));
    for (at, &first) in order.iter().enumerate() {
        let end = begin(fields[first]) + fields[first].span();
        for &next in order[at + 1..].iter().take_while(|&&next| begin(fields[next]) < end) {
            if share(fields[first], fields[next]) {
                let (i, k) = (first.min(next), first.max(next));
                return fail!(
                    Argument,
                    "field {k} ({} bytes at {:p}) overlaps field {i} ({} bytes at {:p}): every field needs memory of its own",
                    fields[k].span(),
                    fields[k].address(),
                    fields[i].span(),
                    fields[i].address()
                );
            }
        }
    }
    Ok(())
}

fn begin(field: AppMemory) -> usize {
    field.address() as usize
}

/// Whether a row of `b` and a row of `a` have a byte in common. `b` does not begin before `a`.
fn share(a: AppMemory, b: AppMemory) -> bool {
    let distance = begin(b) - begin(a);
    if a.rows() == b.rows() {
        return a.rows().meet_themselves(distance);
    }
    let ends = |field: AppMemory| {
        let starts = field.rows().starts().map(move |start| begin(field) + start);
        starts.map(move |start| (start, start + field.rows().row()))
    };
    let (mut rows_of_a, mut rows_of_b) = (ends(a), ends(b));
    let (mut mine, mut other) = (rows_of_a.next(), rows_of_b.next());
    while let (Some((begin_a, end_a)), Some((begin_b, end_b))) = (mine, other) {
        if end_a <= begin_b {
            mine = rows_of_a.next();
        } else if end_b <= begin_a {
            other = rows_of_b.next();
        } else {
            return true;
        }
    }
    false
}

/// Whether the bytes from the first to the last value of `field`, gaps included, overlap the
/// `bytes` bytes at `address`.
pub(super) fn touches(field: AppMemory, address: u64, bytes: u64) -> bool {
    let begin = field.address() as u64;
    let before = begin.saturating_add(field.span() as u64) <= address;
    let after = address.saturating_add(bytes) <= begin;
    field.bytes() > 0 && bytes > 0 && !before && !after
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Rows;
    use crate::layout::Field;
    use crate::scalar::Scalar;

    fn at(address: usize, rows: Rows) -> AppMemory {
        // SAFETY: the test does not access this memory.
        unsafe { AppMemory::in_rows(std::ptr::without_provenance_mut(address), rows) }
    }

    fn bytes_of(field: AppMemory) -> Vec<usize> {
        let row = field.rows().row();
        field
            .rows()
            .starts()
            .flat_map(|start| (0..row).map(move |byte| begin(field) + start + byte))
            .collect()
    }

    /// Pairs and triples of contiguous fields, fields with gaps between rows and fields with gaps
    /// between planes, at all distances: compared with a search for equal addresses.
    #[test]
    fn every_overlap_is_found_and_no_other() {
        let rows = |n: [u64; 3], pitch2, pitch3| {
            let field = Field { n, scalar: Scalar::F32, previous_of: None };
            Rows::of(&field, pitch2, pitch3).unwrap()
        };
        let kinds = [
            rows([3, 1, 1], 0, 0),
            rows([2, 3, 1], 6, 0),
            rows([1, 4, 1], 3, 0),
            rows([2, 2, 3], 5, 13),
            rows([1, 2, 2], 2, 6),
        ];
        let (mut refused, mut apart) = (0, 0);
        let mut compare = |fields: &[AppMemory]| {
            let mut all: Vec<usize> = fields.iter().flat_map(|field| bytes_of(*field)).collect();
            all.sort_unstable();
            let overlap = all.windows(2).any(|pair| pair[0] == pair[1]);
            assert_eq!(check_disjoint(fields).is_err(), overlap, "{fields:?}");
            *(if overlap { &mut refused } else { &mut apart }) += 1;
        };
        for a in kinds {
            for b in kinds {
                for distance in 0..40 {
                    compare(&[at(1000 + 4 * distance, a), at(1080, b)]);
                    compare(&[at(1000 + 4 * distance, a), at(1080, b), at(1040, kinds[0])]);
                }
            }
        }
        assert!(refused > 300 && apart > 300, "{refused} {apart}");
    }

    #[test]
    fn the_error_names_both_fields_in_order() {
        let field = |address, bytes| at(address, Rows::contiguous(bytes));
        let error =
            check_disjoint(&[field(0x500, 16), field(0x100, 8), field(0x508, 16)]).unwrap_err();
        assert_eq!(error.message, "field 2 (16 bytes at 0x508) overlaps field 0 (16 bytes at 0x500): every field needs memory of its own");
        assert!(
            check_disjoint(&[field(0x500, 0), field(0x500, 8)]).is_ok(),
            "a field without values has no memory"
        );
    }
}
