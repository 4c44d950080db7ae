//! The settings of compression: the codec and its error bound.

use super::bfp::Bfp;
use super::bitcomp::{Bitcomp, Delta, Statistics};
use super::coder::{Bound, Coder, Shape};
use super::cuszp::Cuszp;
use super::dct::Dct;
use super::half::Half;
use super::lorenzo::Lorenzo;
use super::plugin;
use super::value_range::ValueRange;
use super::zfp::Zfp;
use crate::error::{fail, Result};
use crate::scalar::Array;
use crate::scalar::Scalar;

/// A codec with its parameters. The numbers below are the values of the configuration key
/// `compressor`.
#[derive(Clone, Debug, PartialEq)]
pub enum Method {
    /// 0: no codec; the values are stored raw.
    None,
    /// 1: zfp (Lindstrom 2014) at a fixed rate; the payload is the stream that libzfp makes.
    Zfp {
        /// Bits per value.
        rate: u32,
    },
    /// 2: NVIDIA Bitcomp, from an installed libnvcomp.
    Bitcomp {
        /// Bitcomp's algorithm for arrays with many zeros.
        sparse: bool,
    },
    /// 3: cuSZp (Huang et al. 2023) in its published one-dimensional layout, with the outlier mode
    /// of cuSZp 2.
    Cuszp,
    /// 4: Lorenzo prediction (Ibarria et al. 2003) of quantised values in tiles.
    Lorenzo,
    /// 5: discrete cosine transform of tiles.
    Dct,
    /// 6: scaled half precision.
    Fp16,
    /// 7: blocks of 8-bit integers with a common exponent.
    Bfp,
    /// 64 and up: a codec that the application registered.
    Plugin(u8),
}

impl Method {
    /// gpuzip's own codecs, each with a default parameter; registered codecs are not among them.
    pub const ALL: [Method; 8] = [
        Method::None,
        Method::Zfp { rate: 8 },
        Method::Bitcomp { sparse: false },
        Method::Cuszp,
        Method::Lorenzo,
        Method::Dct,
        Method::Fp16,
        Method::Bfp,
    ];

    /// The codecs that keep an error bound and need nothing but this library or an installed
    /// libnvcomp.
    pub const BOUNDED: [Method; 4] =
        [Method::Lorenzo, Method::Dct, Method::Cuszp, Method::Bitcomp { sparse: false }];

    /// Returns the number of the codec, as in the configuration key `compressor`.
    pub const fn number(&self) -> u8 {
        match self {
            Method::None => 0,
            Method::Zfp { .. } => 1,
            Method::Bitcomp { .. } => 2,
            Method::Cuszp => 3,
            Method::Lorenzo => 4,
            Method::Dct => 5,
            Method::Fp16 => 6,
            Method::Bfp => 7,
            Method::Plugin(number) => *number,
        }
    }

    /// Returns the name of the codec in configuration files and on the command line.
    pub const fn name(&self) -> &'static str {
        match self {
            Method::None => "none",
            Method::Zfp { .. } => "zfp",
            Method::Bitcomp { .. } => "bitcomp",
            Method::Cuszp => "cuszp",
            Method::Lorenzo => "lorenzo",
            Method::Dct => "dct",
            Method::Fp16 => "fp16",
            Method::Bfp => "bfp",
            Method::Plugin(_) => "registered",
        }
    }

    /// Returns the parameter that a decoder needs beside the payload; 0 for codecs without one.
    pub fn parameter(&self) -> u32 {
        match self {
            Method::Zfp { rate } => *rate,
            Method::Bitcomp { sparse } => *sparse as u32,
            _ => 0,
        }
    }

    /// Returns whether the codec keeps an error bound. The other codecs have payloads of a fixed
    /// size instead.
    pub fn is_bounded(&self) -> bool {
        !matches!(self, Method::None | Method::Zfp { .. } | Method::Fp16 | Method::Bfp)
    }

    /// Returns the method that made a stream, from the codec number and the parameter in the
    /// header.
    pub fn of_stream(number: u8, parameter: u32) -> Result<Self> {
        match Method::ALL.into_iter().find(|m| m.number() == number) {
            Some(Method::Zfp { .. }) => Ok(Method::Zfp { rate: parameter }),
            Some(Method::Bitcomp { .. }) => Ok(Method::Bitcomp { sparse: parameter == 1 }),
            Some(method) => Ok(method),
            None if plugin::is_registered(number) => Ok(Method::Plugin(number)),
            None => fail!(Stream, "codec {number} of a stream: not known here"),
        }
    }

    /// Returns the reason why the codec cannot be used on this machine, or `None` if it can be
    /// used.
    pub fn missing(&self) -> Option<String> {
        match self {
            Method::None => None,
            method => {
                method.coder(Shape { n: [64, 1, 1], scalar: Scalar::F32 }).err().map(|e| e.message)
            }
        }
    }

    /// Returns the largest number of bytes of the payload of an array of this shape; 0 for
    /// `Method::None`. Fails as `coder` does.
    pub fn most_bytes(&self, shape: Shape) -> Result<usize> {
        match self {
            Method::None => Ok(0),
            Method::Plugin(number) => Ok(plugin::coder(*number, shape)?.max_bytes()),
            Method::Zfp { rate } => Zfp::most_bytes(shape, *rate),
            Method::Fp16 => Ok(Half::new(shape)?.max_bytes()),
            Method::Bfp => Ok(Bfp::new(shape)?.max_bytes()),
            Method::Cuszp => Cuszp::most_bytes(&shape),
            Method::Lorenzo => Lorenzo::most_bytes(&shape),
            Method::Bitcomp { .. } => Bitcomp::most_bytes(shape),
            Method::Dct => Dct::most_bytes(shape),
        }
    }

    /// Makes a coder for arrays of one shape. Returns `None` for `Method::None`, which needs no
    /// coder.
    pub fn coder(&self, shape: Shape) -> Result<Option<Box<dyn Coder>>> {
        match self {
            Method::None => Ok(None),
            Method::Plugin(number) => plugin::coder(*number, shape).map(Some),
            Method::Zfp { rate } => Ok(Some(Box::new(Zfp::new(shape, *rate)?))),
            Method::Fp16 => Ok(Some(Box::new(Half::new(shape)?))),
            Method::Bfp => Ok(Some(Box::new(Bfp::new(shape)?))),
            Method::Cuszp => Ok(Some(Box::new(Cuszp::new(&shape)?))),
            Method::Lorenzo => Ok(Some(Box::new(Lorenzo::new(&shape)?))),
            Method::Bitcomp { sparse } => Ok(Some(Box::new(Bitcomp::new(shape, *sparse as i32)?))),
            Method::Dct => Ok(Some(Box::new(Dct::new(shape)?))),
        }
    }
}

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

    /// Returns the mode and its value. The mode is the value of the configuration key
    /// `error_bound_mode`, or one of the larger numbers that stand for the modes of Bitcomp's
    /// delta.
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
                // Coders take the mean over all values, of which those that are not finite have no
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
}

impl Settings {
    /// Returns the same settings with another codec.
    pub fn with(&self, method: Method) -> Self {
        Settings { method, ..self.clone() }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings { method: Method::None, bound: ErrorBound::DEFAULT, reject_nonfinite: false }
    }
}
