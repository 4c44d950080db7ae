//! Which codec, and within what bound.

use super::bfp::Bfp;
use super::bitcomp::{Bitcomp, Delta, Statistics};
use super::coder::{Bound, Coder, Shape};
use super::cuszp::{self, Cuszp};
use super::dct::Dct;
use super::half::Half;
use super::lorenzo::Lorenzo;
use super::plugin;
use super::value_range::ValueRange;
use super::zfp::Zfp;
use crate::error::{fail, Result};
use crate::scalar::Array;
use crate::scalar::Scalar;

/// A codec with its parameters. The numbers are those of the configuration's `compressor`.
#[derive(Clone, Debug, PartialEq)]
pub enum Method {
    /// 0: the values as they are.
    None,
    /// 1: zfp at a fixed rate, libzfp's streams.
    Zfp {
        /// Bits per value.
        rate: u32,
    },
    /// 2: NVIDIA's, from an installed libnvcomp.
    Bitcomp {
        /// For arrays with many zeros.
        sparse: bool,
    },
    /// 3: the published cuSZp layout, one-dimensional.
    Cuszp {
        /// Version 2's plain mode instead of its outlier mode, which is smaller.
        plain: bool,
    },
    /// 4: Lorenzo prediction of quantised values in tiles.
    Lorenzo,
    /// 5: discrete cosine transform of tiles.
    Dct,
    /// 6: scaled half precision.
    Fp16,
    /// 7: blocks of 8-bit integers with a common exponent.
    Bfp,
    /// 64 and up: one that the application registered.
    Plugin(u8),
}

impl Method {
    /// Those that stand by themselves, by name.
    pub const ALL: [Method; 8] = [
        Method::None,
        Method::Zfp { rate: 8 },
        Method::Bitcomp { sparse: false },
        Method::Cuszp { plain: false },
        Method::Lorenzo,
        Method::Dct,
        Method::Fp16,
        Method::Bfp,
    ];

    /// Those that keep a bound and need nothing but this library, or what is installed beside it.
    pub const BOUNDED: [Method; 4] = [
        Method::Lorenzo,
        Method::Dct,
        Method::Cuszp { plain: false },
        Method::Bitcomp { sparse: false },
    ];

    /// Its number.
    pub fn number(&self) -> u8 {
        match self {
            Method::None => 0,
            Method::Zfp { .. } => 1,
            Method::Bitcomp { .. } => 2,
            Method::Cuszp { .. } => 3,
            Method::Lorenzo => 4,
            Method::Dct => 5,
            Method::Fp16 => 6,
            Method::Bfp => 7,
            Method::Plugin(number) => *number,
        }
    }

    /// Its name in configuration files and on the command line.
    pub fn name(&self) -> &'static str {
        match self {
            Method::None => "none",
            Method::Zfp { .. } => "zfp",
            Method::Bitcomp { .. } => "bitcomp",
            Method::Cuszp { plain: false } => "cuszp",
            Method::Cuszp { plain: true } => "cuszp-plain",
            Method::Lorenzo => "lorenzo",
            Method::Dct => "dct",
            Method::Fp16 => "fp16",
            Method::Bfp => "bfp",
            Method::Plugin(_) => "registered",
        }
    }

    /// What a decoder needs beside the payload.
    pub fn parameter(&self) -> u32 {
        match self {
            Method::Zfp { rate } => *rate,
            Method::Cuszp { plain } => *plain as u32,
            Method::Bitcomp { sparse } => *sparse as u32,
            _ => 0,
        }
    }

    /// Whether it keeps a bound; the others have a fixed size instead.
    pub fn is_bounded(&self) -> bool {
        !matches!(self, Method::None | Method::Zfp { .. } | Method::Fp16 | Method::Bfp)
    }

    /// The method that made a stream.
    pub fn of_stream(number: u8, parameter: u32) -> Result<Self> {
        match Method::ALL.into_iter().find(|m| m.number() == number) {
            Some(Method::Zfp { .. }) => Ok(Method::Zfp { rate: parameter }),
            Some(Method::Cuszp { .. }) => Ok(Method::Cuszp { plain: parameter == 1 }),
            Some(Method::Bitcomp { .. }) => Ok(Method::Bitcomp { sparse: parameter == 1 }),
            Some(method) => Ok(method),
            None if plugin::is_registered(number) => Ok(Method::Plugin(number)),
            None => fail!(Stream, "codec {number} of a stream: not known here"),
        }
    }

    /// Why it cannot be used here, if so.
    pub fn missing(&self) -> Option<String> {
        match self {
            Method::None => None,
            method => {
                method.coder(Shape { n: [64, 1, 1], scalar: Scalar::F32 }).err().map(|e| e.message)
            }
        }
    }

    /// A coder for arrays of one shape; there is none that leaves the values as they are.
    pub fn coder(&self, shape: Shape) -> Result<Option<Box<dyn Coder>>> {
        match self {
            Method::None => Ok(None),
            Method::Plugin(number) => plugin::coder(*number, shape).map(Some),
            Method::Zfp { rate } => Ok(Some(Box::new(Zfp::new(shape, *rate)?))),
            Method::Fp16 => Ok(Some(Box::new(Half::new(shape)?))),
            Method::Bfp => Ok(Some(Box::new(Bfp::new(shape)?))),
            Method::Cuszp { plain } => Ok(Some(Box::new(Cuszp::new(
                &shape,
                if *plain { cuszp::Mode::Plain } else { cuszp::Mode::Outlier },
            )?))),
            Method::Lorenzo => Ok(Some(Box::new(Lorenzo::new(&shape)?))),
            Method::Bitcomp { sparse } => Ok(Some(Box::new(Bitcomp::new(shape, *sparse as i32)?))),
            Method::Dct => Ok(Some(Box::new(Dct::new(shape)?))),
        }
    }
}

/// How the error of an array is bounded. The numbers are those of the configuration's
/// `error_bound_mode`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ErrorBound {
    /// 0: by a part of the greatest absolute value of the array.
    OfMax(f64),
    /// 1: by a number.
    Absolute(f64),
    /// 2: by a part of the range of values of the array.
    OfRange(f64),
    /// 3: by the peak signal-to-noise ratio in dB, 20 log10(range / root mean square error): at
    /// least so much.
    Psnr(f64),
    /// By half of what GPUZIP's configuration of Bitcomp calls delta.
    Delta(Delta),
}

impl ErrorBound {
    /// The default.
    pub const DEFAULT: ErrorBound = ErrorBound::OfMax(1e-3);

    /// The mode, as the configuration's `error_bound_mode` and beyond it those of Bitcomp's delta,
    /// and the value.
    pub fn key(self) -> (i32, f64) {
        match self {
            ErrorBound::OfMax(part) => (0, part),
            ErrorBound::Absolute(bound) => (1, bound),
            ErrorBound::OfRange(part) => (2, part),
            ErrorBound::Psnr(db) => (3, db),
            ErrorBound::Delta(delta) => delta.key(),
        }
    }

    /// The root mean square error that a PSNR stands for, as part of the range.
    pub(super) fn psnr_factor(db: f64) -> f64 {
        10f64.powf(-db / 20.0)
    }

    /// The bound that it gives for `x`, which was surveyed.
    pub fn of(self, survey: &ValueRange, x: Array<'_>) -> Bound {
        // It may be larger than any number.
        let range = (survey.max - survey.min).min(f64::MAX);
        match self {
            ErrorBound::OfMax(part) => Bound::Max(part * survey.max_abs()),
            ErrorBound::Absolute(bound) => Bound::Max(bound),
            ErrorBound::OfRange(part) => Bound::Max(part * range),
            ErrorBound::Psnr(db) => Bound::Rms(range * Self::psnr_factor(db)),
            ErrorBound::Delta(delta) => Bound::Max(delta.of(&Statistics::of(x)) / 2.0),
        }
    }
}

/// How a session, or a call, compresses.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The codec.
    pub method: Method,
    /// The bound of a codec that keeps one.
    pub bound: ErrorBound,
    /// NaN and infinities are an error; else they are kept.
    pub reject_nonfinite: bool,
}

impl Settings {
    /// The same for another codec.
    pub fn with(&self, method: Method) -> Self {
        Settings { method, ..self.clone() }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings { method: Method::None, bound: ErrorBound::DEFAULT, reject_nonfinite: false }
    }
}
