//! The functions that allocate and page-lock memory.

use super::{exports, Address, Out};
use crate::call::Call;
use crate::driver::{call_and_wait, Driver};
use crate::memory::{Kind, Life, Place};
use crate::status::{
    Result, Status, HOST_MEMORY_ALREADY_REGISTERED, HOST_MEMORY_NOT_REGISTERED, INVALID_VALUE,
    OUT_OF_MEMORY,
};

/// The valid flags of `cuMemHostAlloc`: portable, device map, write combined.
const HOST_ALLOC_FLAGS: u32 = 7;
/// The valid flags of `cuMemHostRegister`: portable, device map, I/O memory, read only.
const REGISTER_FLAGS: u32 = 15;

exports! {
    /// Gives the free and the total bytes of the current device.
    fn cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) |driver| {
        let context = driver.current()?;
        let device = driver.contexts[context].device;
        free.set((driver.settings.memory - driver.devices[device].used) as usize)?;
        total.set(driver.settings.memory as usize)
    };
    /// Allocates device memory, filled with the poison byte.
    fn cuMemAlloc_v2(address: Out<Address>, bytes: usize) |driver| {
        let context = driver.current()?;
        address.check()?;
        address.set(driver.allocate_of_device(bytes, Kind::Device, context)?)
    };
    /// Allocates managed memory, which takes nothing of the device's capacity.
    fn cuMemAllocManaged(address: Out<Address>, bytes: usize, flags: u32) |driver| {
        let context = driver.current()?;
        address.check()?;
        if !matches!(flags, 1 | 2) {
            return Err(INVALID_VALUE);
        }
        address.set(driver.allocate(bytes, Kind::Managed, context)?)
    };
    /// Allocates page-locked memory, filled with the poison byte.
    fn cuMemHostAlloc(address: Out<Address>, bytes: usize, flags: u32) |driver| {
        let context = driver.current()?;
        address.check()?;
        if flags > HOST_ALLOC_FLAGS {
            return Err(INVALID_VALUE);
        }
        driver.lock_pages(bytes)?;
        let allocated = driver.allocate(bytes, Kind::Pinned, context);
        if allocated.is_err() {
            driver.counters.totals.host_bytes -= bytes as u64;
        }
        address.set(allocated?)
    };
    /// Frees page-locked memory at once. A queued copy from or to this memory is an error when the
    /// copy runs.
    fn cuMemFreeHost(address: Address) |driver| {
        driver.release_of(Kind::Pinned, address, INVALID_VALUE)
    };
    /// Page-locks memory of the application.
    fn cuMemHostRegister_v2(address: Address, bytes: usize, flags: u32) |driver| {
        let context = driver.current()?;
        if address == 0 || bytes == 0 || flags > REGISTER_FLAGS {
            return Err(INVALID_VALUE);
        }
        match driver.memory.place(address, bytes) {
            Place::Inside(region) if region.kind.is_device() => return Err(INVALID_VALUE),
            Place::Inside(_) | Place::Across => return Err(HOST_MEMORY_ALREADY_REGISTERED),
            Place::Elsewhere => {}
        }
        driver.lock_pages(bytes)?;
        let device = driver.contexts[context].device;
        driver.memory.add(address, bytes, Kind::Registered, context, device);
        driver.counters.totals.host_allocations += 1;
        Ok(())
    };
    /// Ends the page-locking of memory of the application.
    fn cuMemHostUnregister(address: Address) |driver| {
        driver.release_of(Kind::Registered, address, HOST_MEMORY_NOT_REGISTERED)
    };
}

/// Waits for all work of the context, then frees device or managed memory.
#[no_mangle]
#[allow(non_snake_case, reason = "the name is the driver's")]
pub extern "C" fn cuMemFree_v2(address: Address) -> Status {
    let begin = |driver: &mut Driver| {
        driver.current()?;
        let region = *driver
            .memory
            .at(address)
            .filter(|region| matches!(region.kind, Kind::Device | Kind::Managed | Kind::Pool))
            .filter(|region| region.life == Life::Live)
            .ok_or(INVALID_VALUE)?;
        driver.healthy(region.context)?;
        driver.counters.totals.host_syncs += 1;
        Ok((driver.all_work(region.context), region.context))
    };
    call_and_wait(Call::cuMemFree_v2, begin, |driver, context| {
        driver.healthy(context)?;
        driver.release_region(address);
        Ok(())
    })
}

impl Driver {
    /// Counts page-locked bytes; fails if there are more than `emu_pinned` allows.
    fn lock_pages(&mut self, bytes: usize) -> Result {
        let totals = &mut self.counters.totals;
        let locked = totals.host_bytes + bytes as u64;
        if locked > self.most_pinned {
            return Err(OUT_OF_MEMORY);
        }
        totals.host_bytes = locked;
        totals.peak_host_bytes = totals.peak_host_bytes.max(locked);
        Ok(())
    }

    /// Takes bytes of a device's memory; fails if fewer are free.
    pub(super) fn take_capacity(&mut self, device: usize, bytes: usize) -> Result {
        let used = &mut self.devices[device].used;
        if bytes as u64 > self.settings.memory - *used {
            return Err(OUT_OF_MEMORY);
        }
        *used += bytes as u64;
        let totals = &mut self.counters.totals;
        totals.device_bytes += bytes as u64;
        totals.peak_device_bytes = totals.peak_device_bytes.max(totals.device_bytes);
        Ok(())
    }

    /// Allocates memory that takes of the capacity of the context's device.
    pub(super) fn allocate_of_device(
        &mut self,
        bytes: usize,
        kind: Kind,
        context: usize,
    ) -> Result<Address> {
        let device = self.contexts[context].device;
        self.take_capacity(device, bytes)?;
        self.allocate(bytes, kind, context).inspect_err(|_| self.give_capacity(device, bytes))
    }

    /// Gives bytes of a device's memory back.
    pub(crate) fn give_capacity(&mut self, device: usize, bytes: usize) {
        self.counters.totals.device_bytes -= bytes as u64;
        self.devices[device].used -= bytes as u64;
    }

    /// Releases the region of this kind that begins at `address`; `otherwise` is the error if there
    /// is none.
    pub(super) fn release_of(&mut self, kind: Kind, address: Address, otherwise: Status) -> Result {
        self.current()?;
        self.memory.at(address).filter(|region| region.kind == kind).ok_or(otherwise)?;
        self.release_region(address);
        Ok(())
    }

    pub(super) fn allocate(&mut self, bytes: usize, kind: Kind, context: usize) -> Result<Address> {
        if bytes == 0 {
            return Err(INVALID_VALUE);
        }
        let device = self.contexts[context].device;
        let address =
            self.memory.allocate(bytes, kind, context, device).map_err(|_| OUT_OF_MEMORY)?;
        let totals = &mut self.counters.totals;
        *(if kind.is_device() { &mut totals.allocations } else { &mut totals.host_allocations }) +=
            1;
        Ok(address)
    }
}
