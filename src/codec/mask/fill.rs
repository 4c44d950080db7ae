//! The continuation of an array into the places of its masked values.

use super::{runs, Grid, Mask};
use crate::codec::coder::Shape;
use crate::error::Result;
use crate::fallible_vec::{filled, with_room};
use crate::scalar::{ArrayMut, Real};
use std::ops::Range;

/// Writes the continuation of arrays. Where a value is masked, the mean of the nearest finite values stands: to
/// the left and right, above and below in the plane, and at the same place of the planes before and after,
/// where those are not masked. Their weights are the inverse distances, so that coasts in any direction are
/// smooth. The continuation lies between values that are not masked: these alone decide the range of the
/// finite values, and how many are not finite.
pub struct Filler {
    /// For each value of a row, the nearest finite value in the rows before (after), and its distance.
    nearest: Vec<f64>,
    distance: Vec<f64>,
    /// For each value of a plane, the weight of the mean that stands there already.
    weights: Vec<f32>,
    gaps: Vec<Gap>,
}

/// A run of masked values, and where the finite values of the row before and after it are.
struct Gap {
    run: Range<usize>,
    left: Option<usize>,
    right: Option<usize>,
}

/// A mean, with the sum of the weights and the limits of its values.
struct Mean {
    sum: f64,
    weight: f64,
    least: f64,
    most: f64,
}

impl Mean {
    const NONE: Self =
        Mean { sum: 0.0, weight: 0.0, least: f64::INFINITY, most: f64::NEG_INFINITY };

    #[inline(always)]
    fn add(&mut self, value: f64, weight: f64) {
        if weight > 0.0 {
            self.sum += value * weight;
            self.weight += weight;
            self.least = self.least.min(value);
            self.most = self.most.max(value);
        }
    }

    /// The mean. The limits keep it from leaving the range by rounding, or by sums that are too large.
    #[inline(always)]
    fn value(&self) -> f64 {
        (self.sum / self.weight).max(self.least).min(self.most)
    }
}

impl Filler {
    /// Makes a filler for arrays of these shapes.
    pub fn new(shapes: impl Iterator<Item = Shape>) -> Result<Self> {
        let grids = shapes.map(super::grid_of).map(|Grid { n }| (n[0], n[0] * n[1]));
        let (row, plane) = grids.fold((0, 0), |most, n| (most.0.max(n.0), most.1.max(n.1)));
        Ok(Filler {
            nearest: filled(0.0, row)?,
            distance: filled(0.0, row)?,
            weights: filled(0.0, plane)?,
            gaps: with_room(row / 2 + 1)?,
        })
    }

    /// Replaces the masked values of `x`, which has the mask's shape.
    pub fn fill(&mut self, mask: &Mask, x: ArrayMut<'_>) {
        match x {
            ArrayMut::F32(x) => self.fill_in(mask, x),
            ArrayMut::F64(x) => self.fill_in(mask, x),
        }
    }

    fn fill_in<T: Real>(&mut self, mask: &Mask, x: &mut [T]) {
        let (rows, plane) = (mask.grid.n[1], mask.grid.n[0] * mask.grid.n[1]);
        let is_given = |i: usize| x[i].is_finite() && !mask.has(i / plane, i % plane);
        // What stands where no value is near.
        let far = (0..x.len()).find(|&i| is_given(i)).map_or(T::default(), |i| x[i]);
        for k in 0..mask.grid.n[2] {
            if mask.words_of(k * rows..(k + 1) * rows).iter().all(|&word| word == 0) {
                continue;
            }
            self.distance.fill(f64::INFINITY);
            (0..rows).for_each(|j| self.fill_row(mask, x, (k, j)));
            self.distance.fill(f64::INFINITY);
            (0..rows).rev().for_each(|j| self.fill_from_after(mask, x, (k, j), far));
        }
    }

    /// Fills row j of plane k from this row, from the rows before, and from the planes before and after.
    fn fill_row<T: Real>(&mut self, mask: &Mask, x: &mut [T], (k, j): (usize, usize)) {
        let [n, rows, planes] = mask.grid.n;
        let (at, plane) = ((k * rows + j) * n, rows * n);
        self.find_gaps(mask, &x[at..at + n], k * rows + j);
        for Gap { run, left, right } in &self.gaps {
            for i in run.clone() {
                let mut mean = Mean::NONE;
                if let Some(l) = *left {
                    mean.add(x[at + l].to_f64(), 1.0 / (i - l) as f64);
                }
                if let Some(r) = *right {
                    mean.add(x[at + r].to_f64(), 1.0 / (r - i) as f64);
                }
                mean.add(self.nearest[i], 1.0 / self.distance[i]);
                for (is_there, k, at) in [
                    (k > 0, k.wrapping_sub(1), (at + i).wrapping_sub(plane)),
                    (k + 1 < planes, k + 1, at + i + plane),
                ] {
                    if is_there && !mask.has(k, j * n + i) && x[at].is_finite() {
                        mean.add(x[at].to_f64(), 1.0);
                    }
                }
                self.weights[j * n + i] = mean.weight as f32;
                if mean.weight > 0.0 {
                    x[at + i] = T::from_f64(mean.value());
                }
            }
        }
        self.pass(&x[at..at + n]);
    }

    /// Adds the rows after row j of plane k to the means in it.
    fn fill_from_after<T: Real>(
        &mut self,
        mask: &Mask,
        x: &mut [T],
        (k, j): (usize, usize),
        far: T,
    ) {
        let [n, rows, _] = mask.grid.n;
        let at = (k * rows + j) * n;
        self.find_gaps(mask, &x[at..at + n], k * rows + j);
        for Gap { run, .. } in &self.gaps {
            for i in run.clone() {
                let mut mean = Mean::NONE;
                mean.add(x[at + i].to_f64(), f64::from(self.weights[j * n + i]));
                mean.add(self.nearest[i], 1.0 / self.distance[i]);
                let before = || {
                    x[(at + i).checked_sub(rows * n)?].is_finite().then_some(x[at + i - rows * n])
                };
                x[at + i] = match mean.weight > 0.0 {
                    true => T::from_f64(mean.value()),
                    false => before().unwrap_or(far),
                };
            }
        }
        self.pass(&x[at..at + n]);
    }

    /// Finds the runs of masked values in row `r` of a mask, whose values are `x`.
    fn find_gaps<T: Real>(&mut self, mask: &Mask, x: &[T], r: usize) {
        let gaps = &mut self.gaps;
        gaps.clear();
        let (mut from, mut left) = (0, None);
        runs(mask.words_of(r..r + 1), x.len(), |run| {
            left = (from..run.start).rev().find(|&i| x[i].is_finite()).or(left);
            from = run.end;
            gaps.push(Gap { run, left, right: None });
        });
        let (mut end, mut right) = (x.len(), None);
        for gap in gaps.iter_mut().rev() {
            right = (gap.run.end..end).find(|&i| x[i].is_finite()).or(right);
            (end, gap.right) = (gap.run.start, right);
        }
    }

    /// Goes on from the row whose values are `x` and whose masked runs are in `gaps` to the next one.
    fn pass<T: Real>(&mut self, x: &[T]) {
        let Filler { nearest, distance, gaps, .. } = self;
        let mut from = 0;
        let mut take = |seen: Range<usize>| {
            for i in seen {
                (nearest[i], distance[i]) = match x[i].is_finite() {
                    true => (x[i].to_f64(), 1.0),
                    false => (nearest[i], distance[i] + 1.0),
                };
            }
        };
        for Gap { run, .. } in gaps.iter() {
            take(from..run.start);
            from = run.end;
        }
        take(from..x.len());
        for Gap { run, .. } in gaps.iter() {
            distance[run.clone()].iter_mut().for_each(|distance| *distance += 1.0);
        }
    }
}
