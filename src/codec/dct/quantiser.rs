//! The factors with which an array is quantised; they are the same for all of its tiles.

use super::grid::Grid;
use crate::scalar::Real;

/// Squared errors are counted in units of step^2 / `ENERGY`.
pub(super) const ENERGY: f64 = 16384.0;

/// A type of values that is converted to integers.
pub(super) trait Number: Real {
    /// Cuts off the fraction; returns 0 if the result does not fit.
    fn trunc(self) -> i32;
}

macro_rules! number {
    ($float:ident) => {
        impl Number for $float {
            #[inline(always)]
            fn trunc(self) -> i32 {
                let x = if self.abs() < 2147483648.0 { self } else { 0.0 };
                // SAFETY: |x| < 2^31. (`as` gives the same, but the compiler does not vectorise
                // it.)
                unsafe { x.to_int_unchecked() }
            }
        }
    };
}

number!(f32);
number!(f64);

#[derive(Clone, Copy, Debug)]
pub(super) struct Quantiser<T> {
    /// step scale: the inverse transform's input for a quantised coefficient of 1.
    pub step: T,
    /// scale / step: turns an output of the transform into a coefficient before rounding.
    pub inverse: T,
    /// Unit of the corrections: a correction adds a multiple of this value.
    pub unit: T,
    pub per_unit: T,
    /// Limit of |x - decoded x|. `None`: the squares of the errors are summed up instead.
    pub most: Option<T>,
    pub per_step: T,
}

impl<T: Number> Quantiser<T> {
    /// Computes the factors for orthonormal coefficients quantised with `step`, and corrections by
    /// multiples of `unit`. Returns `None` if a factor is not a normal number of type `T`.
    pub fn new(grid: &Grid, step: f64, unit: f64, most: Option<f64>) -> Option<Self> {
        let scale = scale(grid);
        let q = Quantiser {
            step: T::from_f64(step * scale),
            inverse: T::from_f64(scale / step),
            unit: T::from_f64(unit),
            per_unit: T::from_f64(1.0 / unit),
            most: most.map(|most| below(most)),
            per_step: T::from_f64(1.0 / step),
        };
        // Larger than the smallest positive normal number.
        let normal = |x: T| x.is_finite() && x.abs() > T::power(1 - T::BIAS);
        let fits = [q.step, q.inverse, q.per_step].into_iter().all(normal);
        (fits && (most.is_none() || [q.unit, q.per_unit].into_iter().all(normal))).then_some(q)
    }

    /// Returns a magnitude so small that a tile of values up to it has no coefficient that is not
    /// zero, no correction, and no squared error above one unit.
    #[inline(always)]
    pub fn small(&self, grid: &Grid) -> T {
        // The magnitude of a coefficient is at most the sum of the magnitudes of the values.
        let small = self.step * T::from_f64(0.5) / T::from_i32(grid.values() as i32);
        if self.most.is_some_and(|most| most < small) {
            T::default()
        } else {
            small
        }
    }
}

/// Returns (2 / side)^(dims / 2), the factor that makes the transform orthonormal.
fn scale(grid: &Grid) -> f64 {
    let axis = match grid.side {
        8 => 0.5,
        16 => std::f64::consts::FRAC_1_SQRT_2 / 2.0,
        _ => 0.25,
    };
    (0..grid.dims).fold(1.0, |s, _| s * axis)
}

/// Returns a value a little below `bound`, so that a rounded difference that does not exceed this
/// value proves that the exact difference does not exceed `bound`.
fn below<T: Real>(bound: f64) -> T {
    let relative = if T::BYTES == 4 { 1.0 / 4194304.0 } else { 1.0 / 1125899906842624.0 };
    T::from_f64(bound * (1.0 - relative))
}
