//! The functions of virtual memory: ranges of addresses, and physical memory that is mapped there.
//! Physical memory that is mapped side by side is one range for copies, as with NVIDIA's driver.

use super::{exports, Address, Handle, Out};
use crate::driver::Driver;
use crate::memory::{Kind, Place};
use crate::status::{Result, INVALID_DEVICE, INVALID_VALUE};

/// Physical memory is made and mapped in multiples of this number of bytes; 2 MiB with NVIDIA's
/// driver.
const GRANULARITY: usize = 4096;

/// Physical memory.
pub struct Physical {
    bytes: usize,
    device: usize,
    /// Number of mappings: at most one may exist here.
    mapped: u32,
    /// Whether `cuMemRelease` was called: the memory goes when it is no longer mapped.
    is_released: bool,
}

/// `CUmemLocation`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Location {
    /// 1: a device.
    pub kind: i32,
    /// Number of the device.
    pub id: i32,
}

/// The part of `CUmemAllocationProp` that is read here.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Properties {
    /// 1: pinned, which is the only type.
    pub kind: i32,
    /// Types of handles to export; not read.
    pub handles: i32,
    /// Where the memory is.
    pub location: Location,
}

/// `CUmemAccessDesc`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Access {
    /// Who may use the memory.
    pub location: Location,
    /// 3: read and write.
    pub flags: u32,
}

exports! {
    /// Gives the number of bytes of which all sizes and offsets must be multiples.
    fn cuMemGetAllocationGranularity(bytes: Out<usize>, properties: Out<Properties>, _option: u32) |driver| {
        driver.location(&properties)?;
        bytes.set(GRANULARITY)
    };
    /// Reserves a range of addresses.
    fn cuMemAddressReserve(address: Out<Address>, bytes: usize, _alignment: usize, _at: Address, flags: u64) |driver| {
        address.check()?;
        if bytes == 0 || bytes % GRANULARITY != 0 || flags != 0 {
            return Err(INVALID_VALUE);
        }
        let space = driver.memory.carve(bytes + GRANULARITY)?;
        let base = space.next_multiple_of(GRANULARITY);
        driver.reserved.insert(base, bytes);
        driver.counters.totals.allocations += 1;
        address.set(base)
    };
    /// Gives a range of addresses back, in which nothing is mapped.
    fn cuMemAddressFree(address: Address, bytes: usize) |driver| {
        let is_free = matches!(driver.memory.place(address, bytes), Place::Elsewhere);
        if driver.reserved.get(&address) != Some(&bytes) || !is_free {
            return Err(INVALID_VALUE);
        }
        driver.reserved.remove(&address);
        driver.counters.totals.allocations -= 1;
        Ok(())
    };
    /// Makes physical memory of a device.
    fn cuMemCreate(handle: Out<Handle>, bytes: usize, properties: Out<Properties>, flags: u64) |driver| {
        handle.check()?;
        let device = driver.location(&properties)?;
        if bytes == 0 || bytes % GRANULARITY != 0 || flags != 0 {
            return Err(INVALID_VALUE);
        }
        driver.take_capacity(device, bytes)?;
        let index = driver.physical.insert(Physical { bytes, device, mapped: 0, is_released: false });
        handle.set(driver.physical.handle(index))
    };
    /// Gives physical memory back once it is no longer mapped.
    fn cuMemRelease(handle: Handle) |driver| {
        let index = driver.physical.find(handle).ok_or(INVALID_VALUE)?;
        driver.physical[index].is_released = true;
        driver.forget_physical(index);
        Ok(())
    };
    /// Maps all of a piece of physical memory at a place in a reserved range.
    fn cuMemMap(address: Address, bytes: usize, offset: usize, handle: Handle, flags: u64) |driver| {
        let index = driver.physical.find(handle).ok_or(INVALID_VALUE)?;
        let (device, size) = (driver.physical[index].device, driver.physical[index].bytes);
        let is_inside = driver
            .reserved
            .range(..=address)
            .next_back()
            .is_some_and(|(base, reserved)| address + bytes <= base + reserved);
        let is_free = matches!(driver.memory.place(address, bytes), Place::Elsewhere);
        let is_whole = bytes == size && offset == 0 && address % GRANULARITY == 0;
        if !is_inside || !is_free || !is_whole || flags != 0 || driver.physical[index].mapped > 0 {
            return Err(INVALID_VALUE);
        }
        driver.physical[index].mapped = 1;
        driver.memory.map(address, bytes, device, index);
        driver.counters.totals.allocations += 1;
        Ok(())
    };
    /// Ends the mappings in a range at once. A queued operation that uses them is an error when the
    /// operation runs.
    fn cuMemUnmap(address: Address, bytes: usize) |driver| {
        let mut at = address;
        while at < address + bytes {
            let region = *driver.memory.at(at).filter(|region| region.kind == Kind::Mapped).ok_or(INVALID_VALUE)?;
            driver.release_region(at);
            driver.physical[region.context].mapped = 0;
            driver.forget_physical(region.context);
            at += region.size;
        }
        Ok(())
    };
    /// Lets devices use mapped memory. The device of the memory can always use it here.
    fn cuMemSetAccess(address: Address, bytes: usize, access: Out<Access>, count: usize) |driver| {
        access.check()?;
        if count == 0 || !matches!(driver.memory.place(address, bytes), Place::Inside(_)) {
            return Err(INVALID_VALUE);
        }
        Ok(())
    };
}

impl Driver {
    /// Returns the device of new physical memory.
    fn location(&self, properties: &Out<Properties>) -> Result<usize> {
        properties.check()?;
        // SAFETY: the caller gives properties, and `check` has refused null.
        let properties = unsafe { properties.0.read() };
        if properties.kind != 1 || properties.location.kind != 1 {
            return Err(INVALID_VALUE);
        }
        self.device(properties.location.id).map_err(|_| INVALID_DEVICE)
    }

    /// Ends physical memory that is released and not mapped.
    fn forget_physical(&mut self, index: usize) {
        let physical = &self.physical[index];
        if physical.is_released && physical.mapped == 0 {
            self.give_capacity(physical.device, physical.bytes);
            self.physical.remove(index);
        }
    }
}
