//! Types and extents of the arrays and snapshots of a generation. The file has hashes of them only: of each
//! array, and of the fields of a state. A shape that has the right hash is the one that was written.

use gpuzip::layout::{Field, Layout, Part, MAX_FIELDS};
use gpuzip::persist::{Fingerprint, Kind, Record, RecordHead};
use gpuzip::scalar::Scalar;
use gpuzip::session::{fields_number, shape_number, FIELDS, PREVIOUS_LEVEL};

/// Most fields of a state that is looked for.
const MOST_FIELDS: usize = 64;
/// Most fields of a state in which any one field may be the previous time level of any other one.
const MOST_WITH_ANY_PAIR: usize = 16;

/// Returns the shape of an array of the application; `None` if no shape of so many bytes has the number of the
/// record, which is then of another writer than a session.
pub fn of_array(head: &RecordHead) -> Option<Field> {
    [1, 2, 4, 8, 16].into_iter().filter(|size| head.raw_bytes % size == 0).find_map(|size| {
        let values = head.raw_bytes / size;
        let divisors = divisors(values);
        let extents = divisors.iter().flat_map(|&n1| {
            let others = divisors.iter().filter(move |&n2| values / n1 % n2 == 0);
            others.map(move |n2| [n1, *n2, values / n1 / n2])
        });
        let scalars = || Scalar::ALL.into_iter().filter(move |scalar| scalar.bytes() == size);
        let mut shapes = extents
            .flat_map(|n| scalars().map(move |scalar| Field { n, scalar, previous_of: None }));
        shapes.find(|shape| shape_number(shape) == head.ts)
    })
}

/// Returns all divisors of a number; none of 0.
fn divisors(mut number: u64) -> Vec<u64> {
    let mut divisors = if number == 0 { vec![] } else { vec![1] };
    let mut factor = 2;
    while number > 1 {
        if factor > number / factor {
            factor = number;
        }
        let known = divisors.len();
        let mut power = 1;
        while number % factor == 0 {
            (number, power) = (number / factor, power * factor);
            divisors.extend_from_within(..known);
            let last = divisors.len() - known;
            divisors[last..].iter_mut().for_each(|divisor| *divisor *= power);
        }
        factor += 1;
    }
    divisors
}

/// Returns the fields of a state, of which `bytes` is the size of a raw snapshot: they have the types and
/// extents of neighbouring arrays of the application, or all those of one array, as those that the application
/// keeps of its live state have.
pub fn of_state(fingerprint: &Fingerprint, records: &[Record], bytes: u64) -> Option<Layout> {
    let mut values = fingerprint.values().iter();
    let number = values.find(|(name, _)| name.as_str() == FIELDS)?.1;
    let arrays = records.iter().filter(|record| record.head.kind == Kind::Array).take(MAX_FIELDS);
    let arrays: Vec<Option<Field>> = arrays.map(|record| of_array(&record.head)).collect();
    let runs = (0..arrays.len()).flat_map(|begin| {
        let longest = MOST_FIELDS.min(arrays.len() - begin);
        let arrays = &arrays;
        (1..=longest).map_while(move |count| {
            arrays[begin..begin + count].iter().copied().collect::<Option<Vec<Field>>>()
        })
    });
    let equal = arrays
        .iter()
        .flatten()
        .flat_map(|field| (1..=MOST_FIELDS).map(move |count| vec![*field; count]));
    runs.chain(equal).filter(|fields| may_be(fields, bytes)).find_map(|fields| {
        roles(fields.len()).into_iter().find_map(|roles| {
            let with = |(field, previous_of): (&Field, _)| Field { previous_of, ..*field };
            let state: Vec<Field> = fields.iter().zip(roles).map(with).collect();
            (fields_number(&state) == number).then(|| Layout::new(state).ok()).flatten()
        })
    })
}

/// Whether a raw snapshot of these fields, or with shared levels one level of it, can have so many bytes.
fn may_be(fields: &[Field], bytes: u64) -> bool {
    let Ok(layout) = Layout::new(fields.to_vec()) else { return false };
    (bytes..=bytes.saturating_mul(2)).contains(&layout.slot_bytes)
}

/// Returns the usual ways in which some of `count` fields are the previous time levels of others: none, any one
/// of any other one, every second one of its neighbour, and one half of the other half.
fn roles(count: usize) -> Vec<Vec<Option<u32>>> {
    let of = |later: &dyn Fn(usize) -> Option<usize>| -> Vec<Option<u32>> {
        (0..count).map(|k| later(k).map(|later| later as u32)).collect()
    };
    let mut all = vec![of(&|_| None)];
    if count <= MOST_WITH_ANY_PAIR {
        for (i, j) in (0..count).flat_map(|i| (0..count).map(move |j| (i, j))) {
            all.push(of(&|k| (k == i).then_some(j)));
        }
    }
    if count % 2 == 0 {
        let half = count / 2;
        all.push(of(&|k| (k % 2 == 1).then(|| k - 1)));
        all.push(of(&|k| (k % 2 == 0).then_some(k + 1)));
        all.push(of(&|k| k.checked_sub(half)));
        all.push(of(&|k| (k < half).then_some(k + half)));
    }
    all
}

/// Returns the part of a state whose raw record `head` is; `None` if it is of another size.
pub fn part_of(layout: &Layout, head: &RecordHead) -> Option<Part> {
    let number = usize::from(head.name.as_str() == PREVIOUS_LEVEL);
    let levels = layout.by_level().map(|levels| levels.parts);
    let parts = [Some(layout.whole().parts), levels].into_iter().flatten();
    let mut parts =
        parts.filter_map(|mut parts| (number < parts.len()).then(|| parts.swap_remove(number)));
    parts.find(|part| part.bytes == head.stored_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuzip::persist::Name;

    fn head(field: &Field, number: i64) -> RecordHead {
        let bytes = field.bytes().unwrap();
        let (kind, name) = (Kind::Array, Name::new("u").unwrap());
        RecordHead { kind, name, ts: number, codec: 0, raw_bytes: bytes, stored_bytes: bytes }
    }

    #[test]
    fn divisors_are_all_divisors() {
        for number in (1..500).chain([720_720, 1 << 20, 999_983, 999_983 * 2]) {
            let mut found = divisors(number);
            found.sort_unstable();
            let all: Vec<u64> = (1..=number).filter(|d| number % d == 0).collect();
            assert_eq!(found, all, "{number}");
        }
        assert!(divisors(0).is_empty());
    }

    /// Every type, and extents in every order, with ones, primes and many divisors.
    #[test]
    fn the_shape_of_an_array_is_found_by_its_number() {
        for scalar in Scalar::ALL {
            for n in
                [[1, 1, 1], [7, 1, 1], [1, 7, 1], [4, 6, 1], [6, 4, 1], [2, 3, 4], [360, 1, 504]]
            {
                let field = Field { n, scalar, previous_of: None };
                assert_eq!(of_array(&head(&field, shape_number(&field))), Some(field));
                assert_eq!(of_array(&head(&field, shape_number(&field) ^ 1)), None);
            }
        }
    }
}
