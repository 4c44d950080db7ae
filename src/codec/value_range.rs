//! The range of the values of an array, found in one pass before the array is coded.

use super::simd::{dispatch, prefetch, Kernel};
use crate::scalar::Real;

/// Range of the values of an array; error bounds depend on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ValueRange {
    /// The least finite value; 0 if no value is finite.
    pub min: f64,
    /// The greatest finite value; 0 if no value is finite.
    pub max: f64,
    /// Number of values that are NaN or infinite.
    pub nonfinite: u64,
}

impl ValueRange {
    /// Finds the range of the values of `x`.
    pub fn of<T: Real>(x: &[T]) -> Self {
        finish(x, dispatch(Extent(x)))
    }

    /// Writes `x - y` to `difference` and finds the range of the differences.
    pub fn of_difference<T: Real>(x: &[T], y: &[T], difference: &mut [T]) -> Self {
        let extent = dispatch(Subtract(x, y, difference));
        finish(difference, extent)
    }

    /// Returns the greatest absolute value of the finite values.
    pub fn max_abs(&self) -> f64 {
        // The maximum of two zeros may have either sign, but headers hold +0: hence `abs`.
        self.max.max(-self.min).abs()
    }

    /// Returns whether all values are equal and finite.
    pub fn is_constant(&self) -> bool {
        self.min == self.max && self.nonfinite == 0
    }
}

/// Number of SIMD lanes of values that are processed side by side.
const LANES: usize = 64;
/// How many rows of `LANES` values ahead the loop prefetches.
const AHEAD: usize = 16;

/// Least and greatest value of every lane, and whether all values are finite.
struct Extremes<T> {
    min: [T; LANES],
    max: [T; LANES],
    /// Sums of x - x: zero unless a value is not finite.
    zero: [T; LANES],
}

impl<T: Real> Extremes<T> {
    #[inline(always)]
    fn new(first: T) -> Self {
        Extremes { min: [first; LANES], max: [first; LANES], zero: [T::default(); LANES] }
    }

    #[inline(always)]
    fn add(&mut self, lane: usize, x: T) {
        self.min[lane] = if x < self.min[lane] { x } else { self.min[lane] };
        self.max[lane] = if x > self.max[lane] { x } else { self.max[lane] };
        #[allow(clippy::eq_op)] // NaN if x is not finite.
        let zero = x - x;
        self.zero[lane] += zero;
    }

    #[inline(always)]
    fn result(self) -> Option<(T, T)> {
        let (mut min, mut max, mut zero) = (self.min[0], self.max[0], T::default());
        for lane in 0..LANES {
            min = if self.min[lane] < min { self.min[lane] } else { min };
            max = if self.max[lane] > max { self.max[lane] } else { max };
            zero += self.zero[lane];
        }
        (zero == T::default()).then_some((min, max))
    }
}

struct Extent<'a, T>(&'a [T]);

impl<T: Real> Kernel for Extent<'_, T> {
    type Output = Option<(T, T)>;

    #[inline(always)]
    fn run(self) -> Option<(T, T)> {
        let mut extremes = Extremes::new(self.0.first().copied().unwrap_or_default());
        let mut rows = self.0.chunks_exact(LANES);
        for (i, row) in (&mut rows).enumerate() {
            for line in (0..LANES).step_by(64 / T::BYTES) {
                prefetch::<_, false>(self.0, (i + AHEAD) * LANES + line);
            }
            for lane in 0..LANES {
                extremes.add(lane, row[lane]);
            }
        }
        for &x in rows.remainder() {
            extremes.add(0, x);
        }
        extremes.result()
    }
}

struct Subtract<'a, T>(&'a [T], &'a [T], &'a mut [T]);

impl<T: Real> Kernel for Subtract<'_, T> {
    type Output = Option<(T, T)>;

    #[inline(always)]
    fn run(self) -> Option<(T, T)> {
        let Subtract(x, y, difference) = self;
        let first = x.first().zip(y.first()).map_or(T::default(), |(&x, &y)| x - y);
        let mut extremes = Extremes::new(first);
        let (mut xs, mut ys, mut ds) =
            (x.chunks_exact(LANES), y.chunks_exact(LANES), difference.chunks_exact_mut(LANES));
        for ((x, y), d) in (&mut xs).zip(&mut ys).zip(&mut ds) {
            for lane in 0..LANES {
                d[lane] = x[lane] - y[lane];
                extremes.add(lane, d[lane]);
            }
        }
        for ((&x, &y), d) in xs.remainder().iter().zip(ys.remainder()).zip(ds.into_remainder()) {
            *d = x - y;
            extremes.add(0, *d);
        }
        extremes.result()
    }
}

/// Makes the range. If `extent` is `None`, a value is not finite: a second pass finds the range of
/// the finite values and counts the others.
fn finish<T: Real>(x: &[T], extent: Option<(T, T)>) -> ValueRange {
    if let Some((min, max)) = extent {
        return ValueRange { min: min.to_f64(), max: max.to_f64(), nonfinite: 0 };
    }
    let mut finite = x.iter().filter(|x| x.is_finite()).map(|x| x.to_f64()).peekable();
    let first = finite.peek().copied().unwrap_or(0.0);
    let (min, max, count) = finite
        .fold((first, first, 0), |(min, max, count), x| (x.min(min), x.max(max), count + 1u64));
    ValueRange { min, max, nonfinite: x.len() as u64 - count }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plainly<T: Real>(x: &[T]) -> ValueRange {
        let finite: Vec<f64> = x.iter().filter(|x| x.is_finite()).map(|x| x.to_f64()).collect();
        let first = finite.first().copied().unwrap_or(0.0);
        ValueRange {
            min: finite.iter().copied().fold(first, f64::min),
            max: finite.iter().copied().fold(first, f64::max),
            nonfinite: (x.len() - finite.len()) as u64,
        }
    }

    proptest! {
        #[test]
        fn as_a_plain_loop(bits in prop::collection::vec(any::<u32>(), 0..400), tame in any::<bool>()) {
            let of = |b: u32| f32::from_bits(if tame { b & 0xBFFF_FFFF } else { b });
            let x: Vec<f32> = bits.iter().map(|&b| of(b)).collect();
            let y: Vec<f32> = bits.iter().map(|&b| of(b.rotate_left(7))).collect();
            prop_assert_eq!(ValueRange::of(&x), plainly(&x));
            let mut d = vec![0.0; x.len()];
            let values = ValueRange::of_difference(&x, &y, &mut d);
            prop_assert_eq!(values, plainly(&d));
            prop_assert!(d.iter().zip(x.iter().zip(&y)).all(|(d, (x, y))| d.to_bits() == (x - y).to_bits() || d.is_nan()));
            let wide: Vec<f64> = x.iter().map(|&x| x as f64).collect();
            prop_assert_eq!(ValueRange::of(&wide), plainly(&wide));
        }
    }
}
