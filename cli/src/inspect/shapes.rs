//! Types and extents of the arrays and snapshots of a generation. The file has hashes of them only: of each
//! array, and of the fields of a state. A shape that has the right hash is the one that was written.

use gpuzip::layout::{Field, Layout, Part, MAX_FIELDS};
use gpuzip::persist::{Fingerprint, Kind, Record, RecordHead};
use gpuzip::scalar::Scalar;
use gpuzip::session::{fields_number, shape_number, FIELDS, PREVIOUS_LEVEL};
use std::rc::Rc;

/// Most fields of a state that is looked for.
const MOST_FIELDS: usize = 64;
/// Most fields of a state in which any one field may be the previous time level of any other one.
const MOST_WITH_ANY_PAIR: usize = 16;

/// Most states that are tried as the one that was written.
const MOST_TRIED: usize = 1_000_000;

/// Returns the shape of an array of the application; `None` if no shape of so many bytes has the number of the
/// record, which is then of another writer than a session.
pub fn of_array(head: &RecordHead) -> Option<Field> {
    [1, 2, 4, 8, 16].into_iter().filter(|size| head.raw_bytes % size == 0).find_map(|size| {
        let scalars = || Scalar::ALL.into_iter().filter(move |scalar| scalar.bytes() == size);
        let mut shapes = extents(head.raw_bytes / size)
            .flat_map(|n| scalars().map(move |scalar| Field { n, scalar, previous_of: None }));
        shapes.find(|shape| shape_number(shape) == head.ts)
    })
}

/// Returns all extents of so many values.
fn extents(values: u64) -> impl Iterator<Item = [u64; 3]> {
    let divisors = Rc::new(divisors(values));
    let all = 0..divisors.len();
    let pairs = all.clone().flat_map(move |i| all.clone().map(move |j| (i, j)));
    pairs.filter_map(move |(i, j)| {
        let (n1, n2) = (divisors[i], divisors[j]);
        (values / n1 % n2 == 0).then_some([n1, n2, values / n1 / n2])
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

/// Returns the fields of a state, of which `bytes` is the size of a raw snapshot. They are like the arrays that
/// the application keeps of its live state: as neighbouring ones, or all with as many values as one of them.
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
    let known = |k: &usize| arrays[*k].is_some() && !arrays[..*k].contains(&arrays[*k]);
    let equal = (0..arrays.len()).filter(known).filter_map(|k| arrays[k]).flat_map(|field| {
        let counts = (1..=MOST_FIELDS).filter(move |count| may_be(&vec![field; *count], bytes));
        counts.flat_map(move |count| {
            let all = extents(field.n.iter().product());
            all.map(move |n| vec![Field { n, ..field }; count])
        })
    });
    let mut tried = runs.filter(|fields| may_be(fields, bytes)).chain(equal).take(MOST_TRIED);
    tried.find_map(|fields| {
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

    /// The state of a level and its previous one is found if the application keeps it flat, with other arrays
    /// before it, from the bytes of both levels or of one; one of other fields is not.
    #[test]
    fn the_fields_of_a_state_are_found_by_their_number() {
        let flat = |values, scalar| Field { n: [values, 1, 1], scalar, previous_of: None };
        let level = Field { n: [9, 4, 10], scalar: Scalar::F32, previous_of: None };
        let other = Field { n: [3, 1, 7], scalar: Scalar::I16, previous_of: None };
        let before = |field: Field, previous_of| Field { previous_of: Some(previous_of), ..field };
        let image = flat(77, Scalar::F64);
        let flat = flat(360, Scalar::F32);
        for (arrays, state) in [
            (vec![image, flat, flat], vec![level, before(level, 0)]),
            (vec![flat], vec![before(level, 1), level]),
            (vec![flat, image], vec![level; 5]),
            (vec![level, flat], vec![level, level, before(level, 0), before(level, 1)]),
            (vec![image, level, level, other], vec![level, before(level, 0), other]),
            (vec![other, level, image], vec![other, level]),
        ] {
            let record =
                |field: &Field| Record { head: head(field, shape_number(field)), crc: 0, since: 1 };
            let records: Vec<Record> = arrays.iter().map(record).collect();
            let of = |state: &[Field], bytes| {
                let mut fingerprint = Fingerprint::new();
                fingerprint.add(FIELDS, fields_number(state)).unwrap();
                of_state(&fingerprint, &records, bytes)
            };
            let layout = Layout::new(state.clone()).unwrap();
            assert_eq!(of(&state, layout.slot_bytes), Some(layout.clone()));
            assert_eq!(of(&state, 2 * layout.slot_bytes), None);
            for part in layout.by_level().map_or(vec![], |levels| levels.parts).into_iter().take(1)
            {
                assert_eq!(of(&state, part.bytes), Some(layout.clone()));
            }
            let wider = Field { n: [state[0].n[0] + 1, 1, 1], ..state[0] };
            assert_eq!(of(&[vec![wider], state].concat(), layout.slot_bytes), None);
        }
    }
}
