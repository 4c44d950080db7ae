//! The delta of Bitcomp, chosen as in GPUZIP 2.x's configuration.

use crate::error::{fail, Result};
use crate::scalar::{Array, Real};

/// A mode of GPUZIP 2.x's configuration that chooses delta for an array. The largest error is half
/// of delta: the bound is `Bound::Max(delta / 2)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Delta {
    /// Mode 0: delta is this fraction of max |x|.
    Fraction(f64),
    /// Mode 1: delta is a fraction of the width of [mean - sigmas sigma, mean + sigmas sigma],
    /// where sigma is the standard deviation.
    Range {
        /// The fraction of the width.
        fraction: f64,
        /// Number of standard deviations on either side of the mean.
        sigmas: f64,
    },
    /// Mode 2: delta is this number.
    Static(f64),
}

impl Delta {
    /// Makes a delta from the configuration keys `bitcomp_delta_config`, `bitcomp_range_fraction`,
    /// `bitcomp_num_sigma` and `bitcomp_delta`. Keys that the mode does not use are not checked.
    pub fn from_config(mode: i32, fraction: f64, sigmas: f64, delta: f64) -> Result<Delta> {
        if matches!(mode, 0 | 1) && !(fraction > 0.0 && fraction < 1.0) {
            return fail!(
                Config,
                "bitcomp_range_fraction = {fraction}: with bitcomp_delta_config = {mode} it must lie between 0 and 1 (where GPUZIP 2.x \
                 divided by it, give its inverse)"
            );
        }
        match mode {
            0 => Ok(Delta::Fraction(fraction)),
            1 if sigmas > 0.0 && sigmas.is_finite() => Ok(Delta::Range { fraction, sigmas }),
            1 => fail!(Config, "bitcomp_num_sigma = {sigmas}: with bitcomp_delta_config = 1 it must be positive and finite"),
            2 if delta > 0.0 && delta.is_finite() => Ok(Delta::Static(delta)),
            2 => fail!(Config, "bitcomp_delta = {delta}: with bitcomp_delta_config = 2 it must be positive and finite"),
            _ => fail!(Config, "bitcomp_delta_config = {mode}: known are 0 (fraction of the maximum), 1 (statistical range), 2 (static)"),
        }
    }

    /// Returns the number of the mode, beyond the numbers of the configuration key
    /// `error_bound_mode`, and its value.
    pub(in crate::codec) fn key(self) -> (i32, f64) {
        match self {
            Delta::Fraction(fraction) => (4, fraction),
            Delta::Range { fraction, sigmas } => (5, 2.0 * sigmas * fraction),
            Delta::Static(delta) => (6, delta),
        }
    }

    /// Returns delta of an array, positive and finite. In a constant array the width is 0: delta is
    /// then the fraction times max |x|. If all values are 0, every delta is exact and the function
    /// returns 1.
    pub fn of(self, array: &Statistics) -> f64 {
        let delta = match self {
            Delta::Static(delta) => return delta,
            Delta::Range { fraction, sigmas } if array.sigma > 0.0 => {
                (2.0 * sigmas * array.sigma).min(f64::MAX) * fraction
            }
            Delta::Fraction(fraction) | Delta::Range { fraction, .. } => fraction * array.peak,
        };
        match array.peak == 0.0 {
            true => 1.0,
            false => delta.max(f64::MIN_POSITIVE),
        }
    }
}

/// Statistics of the finite values of an array, on which delta depends.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Statistics {
    /// max |x|.
    pub peak: f64,
    /// The standard deviation (with divisor n).
    pub sigma: f64,
}

impl Statistics {
    /// Computes the statistics of an array; both are 0 if no value is finite.
    pub fn of(x: Array<'_>) -> Self {
        match x {
            Array::F32(x) => Self::of_values(x),
            Array::F64(x) => Self::of_values(x),
        }
    }

    fn of_values<T: Real>(x: &[T]) -> Self {
        let finite = || x.iter().filter(|x| x.is_finite()).map(|x| x.to_f64());
        let peak = finite().fold(0f64, |peak, x| peak.max(x.abs()));
        let n = finite().count() as f64;
        if peak == 0.0 {
            return Self::default();
        }
        // The values are divided by max |x|, because their squares could overflow.
        let mean = finite().map(|x| x / peak).sum::<f64>() / n;
        let variance = finite().map(|x| (x / peak - mean) * (x / peak - mean)).sum::<f64>() / n;
        Statistics { peak, sigma: peak * variance.sqrt() }
    }
}
