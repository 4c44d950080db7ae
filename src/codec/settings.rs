//! The settings of compression: the codec and its error bound.

use super::bitcomp::{Delta, Statistics};
use super::coder::Bound;
use super::mask::FillValue;
use super::table::Method;
use super::value_range::ValueRange;
use crate::scalar::Array;

/// How the error of an array is bounded. The numbers below are the values of the configuration key
/// `error_bound_mode`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ErrorBound {
    /// 0: the bound is this fraction of max |x| over the array.
    OfMax(f64),
    /// 1: the bound is this number, in the unit of the values.
    Absolute(f64),
    /// 2: the bound is this fraction of max x - min x over the array.
    OfRange(f64),
    /// 3: the peak signal-to-noise ratio over the finite values, 20 log10(range / root mean square
    /// error), is at least this many dB.
    Psnr(f64),
    /// The bound is half of the value that GPUZIP's configuration of Bitcomp calls delta.
    Delta(Delta),
}

impl ErrorBound {
    /// The default: 10^-3 of max |x|.
    pub const DEFAULT: ErrorBound = ErrorBound::OfMax(1e-3);

    /// Returns the mode, a value of the configuration key `error_bound_mode` or a larger number for
    /// a mode of Bitcomp's delta, and the value of the mode.
    pub fn key(self) -> (i32, f64) {
        match self {
            ErrorBound::OfMax(part) => (0, part),
            ErrorBound::Absolute(bound) => (1, bound),
            ErrorBound::OfRange(part) => (2, part),
            ErrorBound::Psnr(db) => (3, db),
            ErrorBound::Delta(delta) => delta.key(),
        }
    }

    /// Returns the root mean square error that a PSNR in dB stands for, as a fraction of the range.
    pub(super) fn psnr_factor(db: f64) -> f64 {
        10f64.powf(-db / 20.0)
    }

    /// Returns the bound for the array `x`, whose range of values is `values`.
    pub fn of(self, values: &ValueRange, x: Array<'_>) -> Bound {
        // The difference may overflow to infinity.
        let range = (values.max - values.min).min(f64::MAX);
        match self {
            ErrorBound::OfMax(part) => Bound::Max(part * values.max_abs()),
            ErrorBound::Absolute(bound) => Bound::Max(bound),
            ErrorBound::OfRange(part) => Bound::Max(part * range),
            ErrorBound::Psnr(db) => {
                // Coders take the mean over all values, and values that are not finite have no
                // error: a mean over the finite ones alone is larger by the ratio of the counts.
                let all = x.count() as f64;
                let finite = all - values.nonfinite as f64;
                Bound::Rms(range * Self::psnr_factor(db) * (finite / all).sqrt())
            }
            ErrorBound::Delta(delta) => Bound::Max(delta.of(&Statistics::of(x)) / 2.0),
        }
    }
}

/// How a session or a single call compresses.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The codec.
    pub method: Method,
    /// The error bound. Only codecs that keep a bound use it.
    pub bound: ErrorBound,
    /// If true, NaN and infinities are an error; if false, they are kept.
    pub reject_nonfinite: bool,
    /// Whether the records of neighbouring states lean on each other, where every state is saved and the
    /// codec can do that.
    pub sequences: bool,
    /// The value that stands where an array has none; it is no part of what codecs with a bound code.
    pub fill_value: Option<FillValue>,
}

impl Settings {
    /// Returns the same settings with another codec.
    pub fn with(&self, method: Method) -> Self {
        Settings { method, ..self.clone() }
    }

    /// Returns the value of which there are masks: a codec without a bound codes it like any other value.
    pub(super) fn masked(&self) -> Option<FillValue> {
        self.fill_value.filter(|_| self.method.is_bounded())
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            method: Method::None,
            bound: ErrorBound::DEFAULT,
            reject_nonfinite: false,
            sequences: false,
            fill_value: None,
        }
    }
}
