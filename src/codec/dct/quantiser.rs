//! How an array is quantised: numbers that are the same for all of its tiles.

use super::grid::Grid;
use crate::scalar::Real;

/// Units of the squared error, as a part of the squared step.
pub(super) const ENERGY: f64 = 16384.0;

/// Conversions that the quantiser needs.
pub(super) trait Number: Real {
    /// Without its fraction; 0 if that does not fit.
    fn trunc(self) -> i32;
    /// The nearest value.
    fn from_i32(i: i32) -> Self;
}

macro_rules! number {
    ($float:ident) => {
        impl Number for $float {
            #[inline(always)]
            fn trunc(self) -> i32 {
                let x = if self.abs() < 2147483648.0 { self } else { 0.0 };
                // SAFETY: |x| < 2^31. (`as` would do the same, but not several values at a time.)
                unsafe { x.to_int_unchecked() }
            }
            #[inline(always)]
            fn from_i32(i: i32) -> Self {
                i as $float
            }
        }
    };
}

number!(f32);
number!(f64);

/// How an array is quantised.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quantiser<T> {
    /// step scale: what the inverse transform takes for a coefficient of 1.
    pub step: T,
    /// scale / step: makes of what the transform gives a coefficient.
    pub inverse: T,
    /// Unit of the corrections.
    pub unit: T,
    /// 1 / `unit`.
    pub per_unit: T,
    /// |x - decoded x| must not exceed this; `None`: its square is summed up instead.
    pub most: Option<T>,
    /// 1 / the step.
    pub per_step: T,
}

impl<T: Number> Quantiser<T> {
    /// For orthonormal coefficients quantised with `step`, and corrections by multiples of `unit`.
    /// `None`: they do not fit the type.
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
        let normal = |x: T| x.is_finite() && x.to_f64().abs() > least::<T>();
        let fits = [q.step, q.inverse, q.per_step].into_iter().all(normal);
        (fits && (most.is_none() || [q.unit, q.per_unit].into_iter().all(normal))).then_some(q)
    }
}

/// The least normal number of a type, as far as it matters here.
fn least<T: Real>() -> f64 {
    if T::BYTES == 4 {
        f64::from(f32::MIN_POSITIVE)
    } else {
        f64::MIN_POSITIVE
    }
}

/// (2 / side)^(dims / 2): what turns the products of the transform into orthonormal ones.
fn scale(grid: &Grid) -> f64 {
    let axis = match grid.side {
        8 => 0.5,
        16 => std::f64::consts::FRAC_1_SQRT_2 / 2.0,
        _ => 0.25,
    };
    (0..grid.dims).fold(1.0, |s, _| s * axis)
}

/// A little less than `bound`, so that a difference that was rounded can be compared with it.
fn below<T: Real>(bound: f64) -> T {
    let relative = if T::BYTES == 4 { 1.0 / 4194304.0 } else { 1.0 / 1125899906842624.0 };
    T::from_f64(bound * (1.0 - relative))
}
