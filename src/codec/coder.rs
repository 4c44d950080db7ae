//! The interface of a codec that codes one array: [`Coder`], [`Bound`] and [`Shape`].

use crate::device::Team;
use crate::error::Result;
use crate::scalar::{Array, ArrayMut, Scalar};
use std::sync::Arc;

/// Upper bound of the error of a coded array.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// |x - decoded x| is at most this value, for every finite x.
    Max(f64),
    /// The root mean square of x - decoded x over the array, where a value that is not finite
    /// counts as one without an error, is at most this value.
    Rms(f64),
}

impl Bound {
    /// Returns the value of the bound.
    pub fn value(self) -> f64 {
        match self {
            Bound::Max(value) | Bound::Rms(value) => value,
        }
    }

    /// Returns a bound of the same kind: the smaller one of this bound and `value`.
    pub fn at_most(self, value: f64) -> Self {
        match self {
            Bound::Max(b) => Bound::Max(b.min(value)),
            Bound::Rms(b) => Bound::Rms(b.min(value)),
        }
    }
}

/// Codes arrays of one shape and type. A coder allocates all the memory it needs when it is made,
/// and none later.
///
/// The output of `compress` is a pure function of its arguments: it depends neither on the
/// instruction set nor on earlier calls. Every part of the output can be computed in parallel,
/// because the kernels must give the same bytes.
///
/// A coder that keeps a bound b may rely on what its caller checks: b is positive, every finite x
/// has |x| <= 2^28 b, and 2^-100 <= max |x| <= 2^120 (FP64: 2^-900 <= max |x| <= 2^1000). NaN and
/// infinities may occur at any place and must come back with the same bits.
pub trait Coder: Send {
    /// Lets the threads of `team` share the work from now on, if this coder divides it. What it needs for that
    /// is allocated here.
    fn join(&mut self, _team: &Arc<Team>) -> Result<()> {
        Ok(())
    }

    /// Returns the largest number of bytes that `compress` writes.
    fn max_bytes(&self) -> usize;

    /// Codes `x` into the beginning of `to`, which has `max_bytes` bytes, and returns the number of
    /// bytes written. The content of `to` behind these bytes is undefined afterwards. Returns
    /// `None` if the coder cannot code this array, or if it keeps a bound and would need more bytes
    /// than the array has. (A coder whose payloads have a fixed size may write more bytes.)
    fn compress(&mut self, x: Array<'_>, bound: Bound, to: &mut [u8]) -> Result<Option<usize>>;

    /// Decodes `from`, which holds exactly one payload, into `x`, and writes every value of `x`.
    /// For any bytes in `from` the function neither panics nor reads beyond them; a damaged payload
    /// is an error.
    fn decompress(&mut self, from: &[u8], x: ArrayMut<'_>) -> Result<()>;
}

/// Codes sequences of arrays of one shape and type, each the array of a later time than the one before. The
/// coder has a number of frames, of which each holds what an array is decoded from. An array may be coded
/// by its difference to the arrays of the next one or two times, and is decoded after them, with them in their
/// frames.
///
/// What an array decodes to is a pure function of the array and its bound, and so are its bytes of the
/// array, its bound and the arrays that it leans on, with theirs. Bounds and values are as `Coder` says.
pub trait SequenceCoder: Send {
    /// As `Coder::join`; all frames are empty afterwards.
    fn join(&mut self, team: &Arc<Team>) -> Result<()>;

    /// Returns the largest number of bytes that `code` writes.
    fn max_bytes(&self) -> usize;

    /// Takes array `x` into frame `k`, with a bound on its error. Returns false if the array has to be coded
    /// in another way, with the frame empty.
    fn take(&mut self, k: usize, x: Array<'_>, bound: Bound) -> Result<bool>;

    /// Codes the array in frame `k` into the beginning of `to`, which has `max_bytes` bytes. The frames of
    /// `later`, at most two are used, hold the arrays of the next times, the next one first. Returns the number
    /// of bytes written, and the number of these frames that the decoder needs.
    fn code(&mut self, k: usize, later: &[usize], to: &mut [u8]) -> Result<(usize, usize)>;

    /// Decodes `from`, exactly one stream, into frame `k`. The frames of `later` hold the arrays on which it
    /// may lean. A stream that is damaged or leans on other arrays is an error.
    fn open(&mut self, k: usize, later: &[usize], from: &[u8]) -> Result<()>;

    /// Whether a stream of `code` leans on later arrays. False for a stream of another coder.
    fn leans(&self, stream: &[u8]) -> bool;

    /// Empties frame `k`.
    fn forget(&mut self, k: usize);

    /// Whether frame `k` holds an array.
    fn is_full(&self, k: usize) -> bool;

    /// Writes the decoded values of the array in frame `k`, taken or opened, to `x`.
    fn values(&mut self, k: usize, x: ArrayMut<'_>) -> Result<()>;
}

/// Shape of the arrays that a coder codes: extents, n1 fastest, and type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Extents; 1 where a dimension is not used.
    pub n: [usize; 3],
    /// Type of the values.
    pub scalar: Scalar,
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} of {}", self.n, self.scalar.name())
    }
}

impl Shape {
    /// Returns the number of values of an array.
    pub fn values(&self) -> usize {
        self.n[0] * self.n[1] * self.n[2]
    }

    /// Returns the number of bytes of an array.
    pub fn bytes(&self) -> usize {
        self.values() * self.scalar.bytes() as usize
    }

    /// Returns the extents other than 1, in their order: a plane has two, whichever they are.
    pub fn dims(&self) -> Vec<usize> {
        self.n.into_iter().filter(|&n| n > 1).collect()
    }
}
