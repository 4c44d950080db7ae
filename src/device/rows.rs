//! How the values of a field lie in the application's memory: contiguous, or in rows and planes
//! with gaps between them, such as halos.

use crate::error::{fail, Result};
use crate::layout::Field;

/// The contiguous rows of a field in memory: `counts[1]` planes that begin `pitches[1]` bytes
/// apart. Each plane has `counts[0]` rows that begin `pitches[0]` bytes apart. Each row has `row`
/// bytes. Rows without a gap between them are merged into one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    row: usize,
    counts: [usize; 2],
    pitches: [usize; 2],
}

impl Rows {
    /// `bytes` contiguous bytes.
    pub fn contiguous(bytes: usize) -> Self {
        Rows { row: bytes, counts: [1, 1], pitches: [bytes, bytes] }
    }

    /// The rows of a field whose consecutive rows begin `pitch2` values apart and whose consecutive
    /// planes begin `pitch3` values apart; 0 means without a gap. Fails if rows overlap or exceed
    /// the address space.
    pub fn of(field: &Field, pitch2: u64, pitch3: u64) -> Result<Self> {
        let ([n1, n2, n3], value) = (field.n, field.scalar.bytes());
        let pitch2_or = if pitch2 == 0 { n1 } else { pitch2 };
        if pitch2_or < n1 {
            return fail!(Argument, "pitch2 = {pitch2}: rows of n1 = {n1} values need at least {n1}, or 0 for rows without a gap");
        }
        // Values from the first one of `count` parts to the end of the last one, which has `last`.
        let span_of = |count: u64, pitch: u64, last: u64| {
            count.saturating_sub(1).checked_mul(pitch)?.checked_add(last)
        };
        let plane = span_of(n2, pitch2_or, n1);
        let pitch3_or = if pitch3 == 0 { n2.checked_mul(pitch2_or) } else { Some(pitch3) };
        let (Some(plane), Some(pitch3_or)) = (plane, pitch3_or) else {
            return fail!(
                Argument,
                "pitch2 = {pitch2}: n2 = {n2} such rows do not fit the address space"
            );
        };
        if pitch3_or < plane {
            return fail!(
                Argument,
                "pitch3 = {pitch3}: planes of n2 = {n2} rows that begin {pitch2_or} values apart need at least {plane}, or 0 for planes \
                 without a gap"
            );
        }
        let bytes = span_of(n3, pitch3_or, plane).and_then(|values| values.checked_mul(value));
        if bytes.is_none_or(|bytes| bytes > isize::MAX as u64) {
            return fail!(
                Argument,
                "pitch2 = {pitch2}, pitch3 = {pitch3}: the {n1} x {n2} x {n3} values then span more than the address space"
            );
        }
        let in_values = [n1, n2, n3, pitch2_or, pitch3_or].map(|values| values as usize);
        Ok(Rows::merged(in_values, value as usize))
    }

    /// Merges rows without a gap into one row, and planes without a gap into one plane. All
    /// arguments but `value`, the bytes of a value, are in values.
    fn merged([n1, n2, n3, pitch2, pitch3]: [usize; 5], value: usize) -> Self {
        let (row, rows, pitch) =
            if n2 == 1 || pitch2 == n1 { (n1 * n2, 1, pitch3) } else { (n1, n2, pitch2) };
        let (row, counts, pitches) = match rows {
            1 if n3 == 1 || pitch3 == row => return Rows::contiguous(row * n3 * value),
            1 => (row, [n3, 1], [pitch3, 0]),
            _ if n3 == 1 || pitch3 == rows * pitch => (row, [rows * n3, 1], [pitch, 0]),
            _ => (row, [rows, n3], [pitch, pitch3]),
        };
        Rows { row: row * value, counts, pitches: pitches.map(|values| values * value) }
    }

    /// Whether all bytes are contiguous.
    pub fn is_contiguous(&self) -> bool {
        self.counts == [1, 1]
    }

    /// Length of a row, rows of a plane, and the distances between rows and between planes, in values of
    /// `value` bytes.
    pub(crate) fn in_values(&self, value: u64) -> [u64; 4] {
        let [pitch, plane] = self.pitches.map(|bytes| bytes as u64 / value);
        [self.row as u64 / value, self.counts[0] as u64, pitch, plane]
    }

    pub(super) fn row(&self) -> usize {
        self.row
    }

    /// Whether these rows, and the same rows shifted by `distance` bytes, have a byte in common.
    pub(super) fn meet_themselves(&self, distance: usize) -> bool {
        // Planes do not overlap. A shifted plane can therefore overlap only two planes: the last
        // one that begins at `distance` or before, and the next one. The same holds for rows.
        let near = |distance: isize, pitch: usize, count: usize| {
            let below = if count > 1 { distance.div_euclid(pitch as isize) } else { 0 };
            let both = [below, below + 1].into_iter().filter(move |k| k.unsigned_abs() < count);
            both.map(move |k| distance - k * pitch as isize)
        };
        near(distance as isize, self.pitches[1], self.counts[1]).any(|plane| {
            near(plane, self.pitches[0], self.counts[0]).any(|row| row.unsigned_abs() < self.row)
        })
    }

    /// Bytes of the values.
    pub fn bytes(&self) -> usize {
        self.row * self.counts[0] * self.counts[1]
    }

    /// Bytes from the first value to the end of the last one, gaps included.
    pub fn span(&self) -> usize {
        (self.counts[1] - 1) * self.pitches[1] + (self.counts[0] - 1) * self.pitches[0] + self.row
    }

    /// The offset of each row in bytes from the first value, in the order of the values.
    pub(super) fn starts(self) -> impl Iterator<Item = usize> {
        (0..self.counts[1]).flat_map(move |plane| {
            (0..self.counts[0]).map(move |row| plane * self.pitches[1] + row * self.pitches[0])
        })
    }

    /// Copies the values at `from` to `to`, where they become contiguous.
    ///
    /// # Safety
    /// `span` bytes at `from` are readable, `bytes` bytes at `to` are writable, and the two do not
    /// overlap.
    pub unsafe fn gather(self, from: *const u8, to: *mut u8) {
        for (k, start) in self.starts().enumerate() {
            // SAFETY: row `k` lies in the bytes at `from` and at `to`, by this function's contract.
            unsafe { to.add(k * self.row).copy_from_nonoverlapping(from.add(start), self.row) };
        }
    }

    /// Copies contiguous values at `from` to their rows at `to`. The gaps between rows are not
    /// written.
    ///
    /// # Safety
    /// `bytes` bytes at `from` are readable, the rows within `span` bytes at `to` are writable, and
    /// the two do not overlap.
    pub unsafe fn scatter(self, from: *const u8, to: *mut u8) {
        for (k, start) in self.starts().enumerate() {
            // SAFETY: row `k` lies in the bytes at `from` and at `to`, by this function's contract.
            unsafe { to.add(start).copy_from_nonoverlapping(from.add(k * self.row), self.row) };
        }
    }

    /// Calls `body` with consecutive pieces of the values at `from`, and with the number of bytes
    /// before each piece. A piece is as long as `buffer`; the last piece may be shorter.
    ///
    /// # Safety
    /// `span` bytes at `from` are readable.
    pub unsafe fn pieces(
        self,
        from: *const u8,
        buffer: &mut [u8],
        mut body: impl FnMut(&[u8], usize),
    ) {
        let (mut filled, mut before) = (0, 0);
        for start in self.starts() {
            let mut done = 0;
            while done < self.row {
                let count = (self.row - done).min(buffer.len() - filled);
                // SAFETY: the bytes lie within a row, by this function's contract.
                let part = unsafe { std::slice::from_raw_parts(from.add(start + done), count) };
                buffer[filled..filled + count].copy_from_slice(part);
                (done, filled) = (done + count, filled + count);
                if filled == buffer.len() {
                    body(buffer, before);
                    (before, filled) = (before + filled, 0);
                }
            }
        }
        if filled > 0 {
            body(&buffer[..filled], before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scalar::Scalar;
    use proptest::prelude::*;

    fn field(n: [u64; 3], scalar: Scalar) -> Field {
        Field { n, scalar, previous_of: None }
    }

    #[test]
    fn what_has_no_gap_is_one_row() {
        let of = |n, pitch2, pitch3| Rows::of(&field(n, Scalar::F32), pitch2, pitch3).unwrap();
        for (n, pitch2, pitch3) in [
            ([5, 4, 3], 0, 0),
            ([5, 4, 3], 5, 20),
            ([5, 1, 1], 9, 70),
            ([5, 4, 1], 0, 99),
            ([5, 1, 3], 0, 5),
        ] {
            assert_eq!(
                of(n, pitch2, pitch3),
                Rows::contiguous(4 * n.iter().product::<u64>() as usize),
                "{n:?} {pitch2} {pitch3}"
            );
        }
        assert_eq!(of([5, 4, 3], 0, 21), Rows { row: 80, counts: [3, 1], pitches: [84, 0] });
        assert_eq!(of([5, 4, 3], 7, 0), Rows { row: 20, counts: [12, 1], pitches: [28, 0] });
        assert_eq!(of([5, 4, 3], 7, 26), Rows { row: 20, counts: [4, 3], pitches: [28, 104] });
        assert_eq!(of([5, 4, 3], 7, 26).span(), 4 * (2 * 26 + 3 * 7 + 5));
    }

    #[test]
    fn impossible_pitches_are_refused() {
        for (n, pitch2, pitch3, part) in [
            ([5, 4, 3], 4, 0, "pitch2 = 4: rows of n1 = 5 values need at least 5"),
            ([5, 1, 1], 4, 0, "pitch2 = 4"),
            (
                [5, 4, 3],
                7,
                25,
                "pitch3 = 25: planes of n2 = 4 rows that begin 7 values apart need at least 26",
            ),
            ([5, 4, 1], 0, 19, "pitch3 = 19"),
            ([5, 4, 3], u64::MAX, 0, "pitch2 = 18446744073709551615"),
            ([5, 2, 3], 1 << 60, 0, "address space"),
            ([5, 4, 3], 0, 1 << 61, "address space"),
            ([5, 2, 3], 1 << 62, 1 << 63, "address space"),
        ] {
            let error = Rows::of(&field(n, Scalar::F64), pitch2, pitch3).unwrap_err();
            assert!(error.message.contains(part), "{n:?} {pitch2} {pitch3}: {error}");
        }
    }

    proptest! {
        /// The values gathered, scattered and in pieces are those that a loop over the indices
        /// visits, and nothing else is written.
        #[test]
        fn rows_are_the_values(n in prop::array::uniform3(1u64..6), gaps in prop::array::uniform2(0u64..4), wide: bool, buffer in 1usize..40) {
            let (scalar, value) = if wide { (Scalar::F64, 8) } else { (Scalar::I16, 2) };
            let (pitch2, pitch3) = (n[0] + gaps[0], (n[1] - 1) * (n[0] + gaps[0]) + n[0] + gaps[1]);
            let rows = Rows::of(&field(n, scalar), pitch2, pitch3).unwrap();
            let memory: Vec<u8> = (0..rows.span()).map(|k| (k * 37 + k / 256) as u8).collect();
            let mut expected = Vec::new();
            for (i3, i2, i1) in (0..n[2]).flat_map(|a| (0..n[1]).flat_map(move |b| (0..n[0]).map(move |c| (a, b, c)))) {
                let at = value * (i3 * pitch3 + i2 * pitch2 + i1) as usize;
                expected.extend_from_slice(&memory[at..at + value]);
            }
            prop_assert_eq!(rows.bytes(), expected.len());
            let mut gathered = vec![0; rows.bytes()];
            // SAFETY: `memory` has all bytes from the first value to the last, `gathered` has those
            // of the values.
            unsafe { rows.gather(memory.as_ptr(), gathered.as_mut_ptr()) };
            prop_assert_eq!(&gathered, &expected);
            let mut pieces = Vec::new();
            let mut room = vec![0; buffer];
            let take = |piece: &[u8], before: usize| {
                assert_eq!(before, pieces.len());
                pieces.extend_from_slice(piece)
            };
            // SAFETY: `memory` has all bytes from the first value to the last.
            unsafe { rows.pieces(memory.as_ptr(), &mut room, take) };
            prop_assert_eq!(&pieces, &expected);
            let mut scattered: Vec<u8> = memory.iter().map(|x| !x).collect();
            // SAFETY: `gathered` has the bytes of the values; `scattered` is as long as `memory`.
            unsafe { rows.scatter(gathered.as_ptr(), scattered.as_mut_ptr()) };
            let changed = scattered.iter().zip(&memory).filter(|(a, b)| a == b).count();
            prop_assert_eq!(changed, rows.bytes());
            // SAFETY: `scattered` is as long as `memory`, and `gathered` has the bytes of the
            // values.
            unsafe { rows.gather(scattered.as_ptr(), gathered.as_mut_ptr()) };
            prop_assert_eq!(&gathered, &expected);
        }
    }
}
