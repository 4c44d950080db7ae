//! The function that tells the attributes of a pointer. It needs no current context.

use super::Address;
use crate::call::Call;
use crate::driver::{call, Driver};
use crate::memory::{Kind, Place, Region};
use crate::status::{Result, Status, INVALID_VALUE};
use std::ffi::c_void;

/// The value of an attribute, in the type in which the caller reads it.
enum Value {
    Word(u32),
    Long(usize),
}

/// Gives several attributes of a pointer; for memory that the driver does not know they are zero,
/// and the device is -2.
///
/// # Safety
/// `attributes` and `data` must be null or `count` long, and each element of `data` the place for
/// its attribute.
#[no_mangle]
#[allow(non_snake_case, reason = "the name is the driver's")]
pub unsafe extern "C" fn cuPointerGetAttributes(
    count: u32,
    attributes: *const u32,
    data: *const *mut c_void,
    address: Address,
) -> Status {
    call(Call::cuPointerGetAttributes, |driver| {
        if count == 0 || attributes.is_null() || data.is_null() {
            return Err(INVALID_VALUE);
        }
        let region = find(driver, address);
        (0..count as usize).try_for_each(|index| {
            // SAFETY: the caller promises `count` elements in both arrays.
            let (attribute, place) = unsafe { (*attributes.add(index), *data.add(index)) };
            let known = region.and_then(|region| value(driver, attribute, address, &region).ok());
            let value = known.map_or_else(|| nothing(attribute), Ok)?;
            // SAFETY: the caller promises that `place` is the place for this attribute.
            unsafe { write(place, value) }
        })
    })
}

fn find(driver: &Driver, address: Address) -> Option<Region> {
    match driver.memory.place(address, 1) {
        Place::Inside(region) => Some(region),
        Place::Across | Place::Elsewhere => None,
    }
}

/// Returns the value of a `CUpointer_attribute` of memory that the driver knows.
fn value(driver: &Driver, attribute: u32, address: Address, region: &Region) -> Result<Value> {
    let device_memory = region.kind.is_device();
    Ok(match attribute {
        1 if !region.kind.has_context() => Value::Long(0),
        1 => Value::Long(driver.contexts.handle(region.context)),
        2 => Value::Word(if device_memory { 2 } else { 1 }),
        3 => Value::Long(address),
        4 if !device_memory || region.kind == Kind::Managed => Value::Long(address),
        7 => Value::Long(region.id as usize),
        8 => Value::Word(u32::from(region.kind == Kind::Managed)),
        9 => Value::Word(region.device as u32),
        10 => Value::Word(u32::from(region.kind == Kind::Device)),
        11 => Value::Long(region.base),
        12 => Value::Long(region.size),
        13 => Value::Word(1),
        // A pool has no handle here: 1 stands for the device's own pool.
        17 => Value::Long(usize::from(region.kind == Kind::Pool)),
        _ => return Err(INVALID_VALUE),
    })
}

/// Returns the value of a `CUpointer_attribute` of memory that the driver does not know.
fn nothing(attribute: u32) -> Result<Value> {
    Ok(match attribute {
        1 | 3 | 4 | 7 | 11 | 12 | 17 => Value::Long(0),
        2 | 8 | 10 | 13 => Value::Word(0),
        9 => Value::Word(-2_i32 as u32),
        _ => return Err(INVALID_VALUE),
    })
}

/// # Safety
/// `data` must be null or the place for the value.
unsafe fn write(data: *mut c_void, value: Value) -> Result {
    if data.is_null() {
        return Err(INVALID_VALUE);
    }
    match value {
        // SAFETY: the caller promises 4 bytes at `data`, which is not null here.
        Value::Word(word) => unsafe { data.cast::<u32>().write_unaligned(word) },
        // SAFETY: the caller promises 8 bytes at `data`, which is not null here.
        Value::Long(long) => unsafe { data.cast::<usize>().write_unaligned(long) },
    }
    Ok(())
}
