//! The continuation of an array into the places of its masked values.

use super::{runs, Mask};
use crate::scalar::{ArrayMut, Real};

impl Mask {
    /// Replaces the masked values of `x`, which has the mask's shape: within a row by a line from the last finite
    /// value before them to the next one behind; in a row without any by the values at the same place of the
    /// plane before, or else of the row before. So the range of the finite values, and the number of others, are
    /// those of the values that are not masked.
    ///
    /// (Means over all directions, or smoother ones, cost `lorenzo` and `cuszp` more bytes, and save `dct` few.)
    pub fn fill(&self, x: ArrayMut<'_>) {
        match x {
            ArrayMut::F32(x) => self.fill_in(x),
            ArrayMut::F64(x) => self.fill_in(x),
        }
    }

    fn fill_in<T: Real>(&self, x: &mut [T]) {
        let [n, in_plane, planes] = self.grid.n;
        let rows = in_plane * planes;
        // The first row with a value to go on from, and this value.
        let mut first = None;
        for r in 0..rows {
            let has_value = self.fill_row(r, &mut x[r * n..][..n]);
            match first {
                None => first = has_value.map(|value| (r, value)),
                Some((begin, value)) if has_value.is_none() => {
                    let before = r.checked_sub(in_plane).filter(|&before| before >= begin);
                    self.copy_row(x, (before.unwrap_or(r - 1), r), value);
                }
                Some(_) => {}
            }
        }
        let (begin, value) = first.unwrap_or((rows, T::default()));
        (0..begin).for_each(|r| self.copy_row(x, (begin, r), value));
    }

    /// Fills the masked values of row `r` from its others. Returns one of these that is finite.
    fn fill_row<T: Real>(&self, r: usize, x: &mut [T]) -> Option<T> {
        let (n, words) = (x.len(), self.words_of(r));
        let is_given = |x: &[T], i: usize| words[i / 64] >> (i % 64) & 1 == 0 && x[i].is_finite();
        let (mut left, mut right, mut from, mut known) = (None, None, 0, 0);
        runs(words, n, |run| {
            left = (from..run.start).rev().find(|&i| x[i].is_finite()).or(left);
            from = run.end;
            if known < run.end {
                right = (run.end..n).find(|&i| is_given(x, i));
                known = right.unwrap_or(n);
            }
            let Some((a, b)) = left.or(right).zip(right.or(left)) else { return };
            let (least, step) = (a as f64, 1.0 / (b - a).max(1) as f64);
            let (a, b) = (x[a].to_f64(), x[b].to_f64());
            for i in run {
                let t = if a == b { 0.0 } else { (i as f64 - least) * step };
                let value = a * (1.0 - t) + b * t;
                x[i] = T::from_f64(value.max(a.min(b)).min(a.max(b)));
            }
        });
        match left.or(right) {
            Some(i) => Some(x[i]),
            None => (0..n).find(|&i| is_given(x, i)).map(|i| x[i]),
        }
    }

    /// Replaces the masked values of row `to` by those of row `from`, or by `value` where these are not finite.
    fn copy_row<T: Real>(&self, x: &mut [T], (from, to): (usize, usize), value: T) {
        let n = self.grid.n[0];
        runs(self.words_of(to), n, |run| {
            for i in run {
                let copy = x.get(from * n + i).copied().filter(|x| x.is_finite());
                x[to * n + i] = copy.unwrap_or(value);
            }
        });
    }
}
