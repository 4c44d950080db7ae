//! `bitcomp`: NVIDIA Bitcomp, from the libnvcomp that the user has installed, in the mode "lossy to
//! signed integers": x becomes the integer nearest to x / delta, and the integers are packed.
//!
//! From nvcomp 5.2 on, Bitcomp rounds delta down to a power of two. Here delta is always a power of
//! two, so that every version of nvcomp gives the same error: products with a power of two are
//! exact. Every array is decoded again before its payload is accepted.
//!
//! A payload is an exponent e (8 bytes) and the unchanged stream of Bitcomp, whose header contains
//! its size. A value is 2^e times the value that Bitcomp decodes; payloads made on the host have
//! exponent 0. On a device only the kernels know delta, but Bitcomp's functions take delta from the
//! host: the kernels scale the values by 2^-e, and delta is 1.

mod delta;
pub(super) mod gpu;
mod library;

pub use delta::{Delta, Statistics};
pub(crate) use library::{Library, Plan, SLACK};

use super::coder::{Bound, Coder, Shape};
use super::typed::{of_type, Codes};
use crate::error::{fail, Result};
use crate::fallible_vec::filled;
use crate::scalar::{Real, Scalar};
use library::{data_type, LOSSY_TO_SIGNED};

/// Bytes of a payload before Bitcomp's stream.
const PREFIX: usize = 8;

/// Makes a coder for arrays of this shape; `algorithm`: 0 default, 1 for arrays with many zeros.
pub fn coder(shape: Shape, algorithm: i32) -> Result<Box<dyn Coder>> {
    with(Library::get()?, shape, algorithm)
}

fn with(library: &'static Library, shape: Shape, algorithm: i32) -> Result<Box<dyn Coder>> {
    let new = |shape| Bitcomp::new(library, shape, algorithm);
    of_type(shape, |shape| Ok(shape.bytes()), new, new)
}

/// Returns the most bytes of a payload for this shape; fails where libnvcomp is not installed.
pub fn most_bytes(shape: Shape) -> Result<usize> {
    Library::get().map(|_| shape.bytes())
}

struct Bitcomp {
    plan: Plan,
    /// A stream of Bitcomp, aligned to 8 bytes as Bitcomp requires.
    stream: Vec<u64>,
    /// Memory for the decoded values by which a stream is checked.
    again: Vec<u64>,
}

impl<T: Real> Codes<T> for Bitcomp {
    const NAME: &'static str = "bitcomp";

    fn encode(&mut self, x: &[T], bound: Bound, to: &mut [u8]) -> Result<Option<usize>> {
        // Errors are at most delta / 2; if they are uniform, their root mean square is delta /
        // sqrt(12). A bound of the root mean square is first tried with this larger delta.
        let deltas = match bound {
            Bound::Max(bound) => [2.0 * bound, 0.0],
            Bound::Rms(bound) => [12f64.sqrt() * bound, 2.0 * bound],
        };
        for delta in deltas {
            let Some(delta) = power_within::<T>(delta) else { continue };
            let bytes = self.quantised(x, delta)?;
            let end = PREFIX + bytes;
            if end > to.len().min(self.plan.shape.bytes()) {
                return Ok(None);
            }
            if self.kept(x, bound)? {
                // SAFETY: `quantised` has checked that `stream` has `bytes` bytes.
                to[PREFIX..end].copy_from_slice(unsafe {
                    std::slice::from_raw_parts(self.stream.as_ptr().cast(), bytes)
                });
                to[..PREFIX].copy_from_slice(&0i64.to_le_bytes());
                return Ok(Some(end));
            }
        }
        Ok(None)
    }

    /// Decodes a payload, whose checksum the caller must have verified: Bitcomp checks nothing
    /// behind its header, and damaged bytes may end the process.
    fn decode(&mut self, from: &[u8], x: &mut [T]) -> Option<()> {
        let Plan { library, handle, .. } = self.plan;
        let (exponent, from) = from.split_first_chunk::<PREFIX>()?;
        let exponent = i64::from_le_bytes(*exponent);
        let exponents = 1 - T::BIAS as i64..=T::BIAS as i64;
        if !exponents.contains(&exponent) || from.len() > (self.stream.len() - SLACK) * 8 {
            return None;
        }
        let words = from.len() / 8;
        self.stream[words..words + SLACK].fill(0);
        // SAFETY: the vector `stream` has more than `from.len()` bytes.
        let stream = unsafe {
            std::slice::from_raw_parts_mut(self.stream.as_mut_ptr().cast::<u8>(), from.len())
        };
        stream.copy_from_slice(from);
        let (mut stored, mut raw, mut scalar, mut mode, mut algorithm) =
            (from.len(), 0, -1, -1, -1);
        // SAFETY: the `SLACK` words of `stream` hold a header; the call writes only local
        // variables.
        let status = unsafe {
            (library.host.compressed_info)(
                self.stream.as_ptr().cast(),
                &mut stored,
                &mut raw,
                &mut scalar,
                &mut mode,
                &mut algorithm,
            )
        };
        let expected =
            (from.len(), self.plan.shape.bytes(), data_type(self.plan.shape), LOSSY_TO_SIGNED);
        if status != 0 || (stored, raw, scalar, mode) != expected {
            return None;
        }
        // SAFETY: the header says that the stream decodes to as many bytes as `x` has.
        let status = unsafe {
            (library.host.uncompress)(handle, self.stream.as_ptr().cast(), x.as_mut_ptr().cast())
        };
        if status != 0 {
            return None;
        }
        if exponent != 0 {
            let unit = T::power(exponent as i32);
            x.iter_mut().filter(|x| x.is_finite()).for_each(|x| *x = *x * unit);
        }
        Some(())
    }
}

impl Bitcomp {
    fn new(library: &'static Library, shape: Shape, algorithm: i32) -> Result<Self> {
        let plan = Plan::new(library, shape, algorithm)?;
        let stream = filled(0, plan.most_words() + SLACK)?;
        Ok(Bitcomp { plan, stream, again: filled(0, shape.bytes().div_ceil(8))? })
    }

    /// Codes `x` into `self.stream` and returns the bytes of the stream.
    fn quantised<T: Real>(&mut self, x: &[T], delta: T) -> Result<usize> {
        let Plan { library, handle, .. } = self.plan;
        let mut bytes = 0;
        let (from, to, delta) = (x.as_ptr(), self.stream.as_mut_ptr().cast(), delta.to_f64());
        // SAFETY: the plan is for `x.len()` values; `stream` has the room that Bitcomp asks for.
        unsafe {
            let status = match T::SCALAR {
                Scalar::F32 => (library.host.compress_fp32)(handle, from.cast(), to, delta as f32),
                _ => (library.host.compress_fp64)(handle, from.cast(), to, delta),
            };
            library.check(status, "bitcompHostCompressLossy")?;
            let status = (library.host.compressed_size)(self.stream.as_ptr().cast(), &mut bytes);
            library.check(status, "bitcompGetCompressedSize")?;
        }
        if bytes > (self.stream.len() - SLACK) * 8 {
            return fail!(
                Device,
                "bitcomp: {} wrote {bytes} bytes, more than it may",
                library.name
            );
        }
        Ok(bytes)
    }

    /// Decodes `self.stream` and returns whether the bound holds and whether the values that are
    /// not finite have come back with the same bits.
    fn kept<T: Real>(&mut self, x: &[T], bound: Bound) -> Result<bool> {
        let Plan { library, handle, .. } = self.plan;
        let again = self.again.as_mut_ptr();
        // SAFETY: this plan has just made `stream`, and `again` has the bytes of the array.
        let status =
            unsafe { (library.host.uncompress)(handle, self.stream.as_ptr().cast(), again.cast()) };
        library.check(status, "bitcompHostUncompress")?;
        // SAFETY: `again` has the bytes of the array, aligned to 8; every bit pattern is a value.
        let again = unsafe { std::slice::from_raw_parts(self.again.as_ptr().cast::<T>(), x.len()) };
        let error = |(x, y): (&T, &T)| match x.is_finite() {
            true => (x.to_f64() - y.to_f64()).abs(),
            false if x.to_bits() == y.to_bits() => 0.0,
            false => f64::NAN,
        };
        let errors = x.iter().zip(again).map(error);
        Ok(match bound {
            // The comparison is false if the error is NaN.
            Bound::Max(bound) => errors.fold(true, |kept, error| kept & (error <= bound)),
            Bound::Rms(bound) => {
                let squares: f64 = errors.map(|error| (error / bound) * (error / bound)).sum();
                (squares / x.len() as f64).sqrt() <= 1.0
            }
        })
    }
}

/// Returns the largest power of two <= `delta`, or `None` if it is not a normal number of type `T`.
fn power_within<T: Real>(delta: f64) -> Option<T> {
    let power = f64::from_bits(delta.to_bits() & f64::INFINITY.to_bits());
    let power = power.min(T::power(T::BIAS).to_f64());
    (power >= T::power(1 - T::BIAS).to_f64()).then(|| T::from_f64(power))
}

#[cfg(test)]
mod tests;
