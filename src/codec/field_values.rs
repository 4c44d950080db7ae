//! The memory of a field as the values that a codec reads or writes, and the difference of two
//! fields.

use super::coder::Shape;
use super::simd::each;
use super::value_range::ValueRange;
use crate::device::{AppMemory, Rows, Slab};
use crate::error::{fail, Result};
use crate::scalar::{Array, ArrayMut, Scalar};

/// Returns the values of a field.
///
/// # Safety
/// The memory must be readable, as `AppMemory` promises, for as long as the result is used.
pub(super) unsafe fn values<'a>(memory: AppMemory, shape: Shape) -> Result<Array<'a>> {
    let (address, len) = (check(memory, shape)?, shape.values());
    // SAFETY: `check` found `len` aligned values; by this function's contract they are readable.
    Ok(unsafe {
        match shape.scalar {
            Scalar::F32 => Array::F32(std::slice::from_raw_parts(address.cast(), len)),
            Scalar::F64 => Array::F64(std::slice::from_raw_parts(address.cast(), len)),
            other => return other.not_coded(),
        }
    })
}

/// Returns the values of a field, to be written.
///
/// # Safety
/// The memory must be writable, as `AppMemory` promises, for as long as the result is used, and
/// nothing else may refer to the memory in that time.
pub(super) unsafe fn values_mut<'a>(memory: AppMemory, shape: Shape) -> Result<ArrayMut<'a>> {
    let (address, len) = (check(memory, shape)?, shape.values());
    // SAFETY: `check` found `len` aligned values; by this function's contract they are writable and
    // nothing else refers to them.
    Ok(unsafe {
        match shape.scalar {
            Scalar::F32 => ArrayMut::F32(std::slice::from_raw_parts_mut(address.cast(), len)),
            Scalar::F64 => ArrayMut::F64(std::slice::from_raw_parts_mut(address.cast(), len)),
            other => return other.not_coded(),
        }
    })
}

/// Returns the rows of a field whose values are copied without being read as numbers.
pub(super) fn rows_of(memory: AppMemory, shape: Shape) -> Result<Rows> {
    let (bytes, needed) = (memory.bytes(), shape.bytes());
    if bytes != needed {
        return fail!(Argument, "a field of {bytes} bytes where {needed} are needed");
    }
    Ok(memory.rows())
}

/// Checks that a field is contiguous, large enough and aligned; returns its address.
fn check(memory: AppMemory, shape: Shape) -> Result<*mut u8> {
    let (address, bytes) = (memory.address(), memory.bytes());
    if !memory.rows().is_contiguous() {
        return fail!(
            Argument,
            "a field of {bytes} bytes whose rows are apart where it must be in one piece"
        );
    }
    if bytes < shape.bytes() {
        return fail!(Argument, "a field of {bytes} bytes where {} are needed", shape.bytes());
    }
    if !(address as u64).is_multiple_of(shape.scalar.bytes()) {
        return fail!(
            Argument,
            "a field at {address:p}: compression needs values at multiples of {} bytes",
            shape.scalar.bytes()
        );
    }
    Ok(address)
}

pub(super) fn value_range(x: Array<'_>) -> ValueRange {
    match x {
        Array::F32(x) => ValueRange::of(x),
        Array::F64(x) => ValueRange::of(x),
    }
}

/// Returns the value that all values of an array are, bit for bit; `None` if there is none, or if it is
/// NaN.
pub(super) fn constant(x: Array<'_>) -> Option<f64> {
    let (bytes, value) = match x {
        Array::F32(values) => (4, *values.first()? as f64),
        Array::F64(values) => (8, *values.first()?),
    };
    let all = x.bytes();
    (!value.is_nan() && all[bytes..] == all[..all.len() - bytes]).then_some(value)
}

/// Writes `x - y` to `difference` and returns the range of the differences.
pub(super) fn subtract(x: Array<'_>, y: Array<'_>, difference: &mut Slab) -> ValueRange {
    match (x, y) {
        (Array::F32(x), Array::F32(y)) => {
            ValueRange::of_difference(x, y, &mut difference.values_mut()[..x.len()])
        }
        (Array::F64(x), Array::F64(y)) => {
            ValueRange::of_difference(x, y, &mut difference.values_mut()[..x.len()])
        }
        _ => ValueRange { min: 0.0, max: 0.0, nonfinite: 1 },
    }
}

/// Replaces the differences in `field` by the values of `later` minus the differences.
///
/// # Safety
/// Both fields must be accessible and `field` writable, as `AppMemory` promises.
pub(super) unsafe fn subtract_from(later: AppMemory, field: AppMemory, shape: Shape) -> Result<()> {
    let (a, b) = (later.address() as usize, field.address() as usize);
    if a.abs_diff(b) < shape.bytes() {
        return fail!(Argument, "two time levels overlap in memory, at {a:#x} and {b:#x}");
    }
    // SAFETY: both fields are accessible by this function's contract, and they do not overlap.
    let pair = unsafe { (values(later, shape)?, values_mut(field, shape)?) };
    match pair {
        (Array::F32(x), ArrayMut::F32(y)) => each(x, y, |x, y| *y = x - *y),
        (Array::F64(x), ArrayMut::F64(y)) => each(x, y, |x, y| *y = x - *y),
        _ => {}
    }
    Ok(())
}
