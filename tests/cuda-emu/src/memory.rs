//! The memory regions that the driver knows: device memory of every origin, managed and page-locked
//! memory. Addresses are not reused before a reset, so that each use of freed memory is detected.

use crate::ptx;
use crate::status::{Result, OPERATING_SYSTEM};
use std::collections::{BTreeMap, VecDeque};

/// The value of each byte of new and of freed memory.
pub const POISON: u8 = 0xA5;
/// Alignment of allocations in bytes, and the size of the gap behind each allocation.
const ALIGN: usize = 512;
/// Address space is reserved in pieces of at least this number of bytes.
const ARENA: usize = 64 << 20;
/// The number of freed bytes that keep their poison. When more bytes are freed, the oldest freed
/// pages go back to the system.
const QUARANTINE: usize = 64 << 20;
const PAGE: usize = 4096;

/// The kinds of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `cuMemAlloc`
    Device,
    /// `cuMemAllocManaged`
    Managed,
    /// `cuMemHostAlloc`
    Pinned,
    /// `cuMemHostRegister`
    Registered,
    /// `cuMemAllocAsync`
    Pool,
    /// `cuMemMap`
    Mapped,
    /// `cuIpcOpenMemHandle`
    Opened,
}

impl Kind {
    /// Returns whether the memory counts as device memory for the direction of a copy.
    pub fn is_device(self) -> bool {
        !matches!(self, Self::Pinned | Self::Registered)
    }

    /// Returns whether the driver tells a context of the memory: pools and virtual memory belong to a
    /// device.
    pub fn has_context(self) -> bool {
        !matches!(self, Self::Pool | Self::Mapped)
    }

    /// Returns whether the memory takes of the device's capacity. Mapped memory does where it is
    /// made, not where it is mapped.
    pub fn takes_capacity(self) -> bool {
        matches!(self, Self::Device | Self::Pool)
    }
}

/// When memory of a pool may be used: from the allocation to the release, in the order of their
/// streams. All other memory is live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// The allocation is enqueued: the memory may be named in calls, and not used yet.
    Coming,
    /// The memory may be used.
    Live,
    /// The release is enqueued: the memory may not be named in calls any more, and queued operations
    /// may use it.
    Going,
}

/// A live region.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    /// Address of the first byte.
    pub base: usize,
    /// Number of bytes.
    pub size: usize,
    /// Kind of memory.
    pub kind: Kind,
    /// Index of the context that owns the region; of mapped memory, the number of its physical memory.
    pub context: usize,
    /// Ordinal of that context's device.
    pub device: usize,
    /// A number that no other region has.
    pub id: u64,
    /// When the memory may be used.
    pub life: Life,
}

/// Where a range of addresses lies.
pub enum Place {
    /// Inside one live region.
    Inside(Region),
    /// Partly inside a live region.
    Across,
    /// In memory that the driver does not know.
    Elsewhere,
}

/// All regions, and the address space from which they are allocated.
#[derive(Default)]
pub struct Memory {
    regions: BTreeMap<usize, Region>,
    arenas: Vec<(usize, usize)>,
    arena: usize,
    offset: usize,
    quarantine: VecDeque<(usize, usize)>,
    quarantined: usize,
    ids: u64,
    /// What interpreted kernels may access; `None`: kernels are not interpreted.
    pub interpreted: Option<ptx::Memory>,
}

impl Memory {
    /// Makes an empty memory, with what the interpreter of kernels needs or without.
    pub fn new(is_interpreted: bool) -> Self {
        Self { interpreted: is_interpreted.then(Default::default), ..Self::default() }
    }

    /// Allocates a region filled with the poison byte.
    pub fn allocate(
        &mut self,
        size: usize,
        kind: Kind,
        context: usize,
        device: usize,
    ) -> Result<usize> {
        let base = self.carve(size)?;
        // SAFETY: `carve` gives `size` mapped, writable bytes that no live region holds.
        unsafe { std::ptr::write_bytes(base as *mut u8, POISON, size) };
        self.add(base, size, kind, context, device);
        Ok(base)
    }

    /// Registers a region that the application allocated.
    pub fn add(&mut self, base: usize, size: usize, kind: Kind, context: usize, device: usize) {
        self.ids += 1;
        let life = if kind == Kind::Pool { Life::Coming } else { Life::Live };
        self.regions.insert(base, Region { base, size, kind, context, device, id: self.ids, life });
        if life == Life::Live {
            self.give_to_kernels(base);
        }
    }

    /// Lets interpreted kernels access a region.
    fn give_to_kernels(&mut self, base: usize) {
        let (Some(interpreted), Some(region)) = (&mut self.interpreted, self.regions.get(&base))
        else {
            return;
        };
        // What another process has written and what every device may use counts as the host's.
        let is_own =
            region.kind.is_device() && !matches!(region.kind, Kind::Managed | Kind::Opened);
        let device = is_own.then_some(region.device);
        interpreted.add(base as u64, region.size as u64, device);
    }

    /// Lets operations use memory of a pool from now on, or keeps later calls from naming it.
    pub fn set_life(&mut self, base: usize, life: Life) {
        if let Some(region) = self.regions.get_mut(&base) {
            region.life = life;
        }
        if life == Life::Live {
            self.give_to_kernels(base);
        }
    }

    /// Returns the first of the mapped regions, of one device, that hold a range without a gap.
    fn mapped(&self, address: usize, end: usize) -> Option<Region> {
        let (_, first) = self.regions.range(..=address).next_back()?;
        let mut at = first.base;
        while at < end {
            let region = self.regions.get(&at)?;
            if region.kind != Kind::Mapped || region.device != first.device {
                return None;
            }
            at += region.size;
        }
        Some(*first)
    }

    /// Maps physical memory with this number at reserved addresses. The region has no context: the
    /// number stands in its place.
    pub fn map(&mut self, base: usize, size: usize, device: usize, physical: usize) {
        // SAFETY: the bytes are of a range that `carve` gave, and no live region holds them.
        unsafe { std::ptr::write_bytes(base as *mut u8, POISON, size) };
        self.add(base, size, Kind::Mapped, physical, device);
    }

    /// Returns the live region that starts at `base`.
    pub fn at(&self, base: usize) -> Option<&Region> {
        self.regions.get(&base)
    }

    /// Returns where the `len` bytes at `address` lie.
    pub fn place(&self, address: usize, len: usize) -> Place {
        let end = address.saturating_add(len.max(1));
        match self.regions.range(..end).next_back() {
            Some((_, region)) if region.base <= address && end <= region.base + region.size => {
                Place::Inside(*region)
            }
            Some((_, region)) if region.base + region.size > address => {
                self.mapped(address, end).map_or(Place::Across, Place::Inside)
            }
            _ => Place::Elsewhere,
        }
    }

    /// Removes a region, and fills it with the poison byte unless the application allocated it.
    pub fn free(&mut self, base: usize) -> Option<Region> {
        let region = self.regions.remove(&base)?;
        if let Some(interpreted) = &mut self.interpreted {
            interpreted.remove(base as u64);
        }
        if region.kind != Kind::Registered {
            // SAFETY: the region came from `allocate` and was live until now.
            unsafe { std::ptr::write_bytes(base as *mut u8, POISON, region.size) };
            // Other memory may be mapped at the addresses of mapped memory at once.
            if region.kind != Kind::Mapped {
                self.quarantine.push_back((base, region.size));
                self.quarantined += region.size;
                self.trim();
            }
        }
        Some(region)
    }

    /// Returns the addresses of the live regions of a context.
    pub fn of_context(&self, context: usize) -> Vec<usize> {
        self.regions
            .values()
            .filter(|region| region.context == context && region.kind != Kind::Mapped)
            .map(|region| region.base)
            .collect()
    }

    /// Makes allocation begin again at the first address. No region may be live.
    pub fn restart(&mut self) {
        let arenas = std::mem::take(&mut self.arenas);
        let interpreted = self.interpreted.as_ref().map(|_| ptx::Memory::default());
        *self = Self { arenas, interpreted, ..Self::default() };
    }

    /// Returns the address of unused address space for `size` bytes and a gap.
    pub fn carve(&mut self, size: usize) -> Result<usize> {
        let step = size
            .checked_next_multiple_of(ALIGN)
            .and_then(|size| size.checked_add(ALIGN))
            .ok_or(OPERATING_SYSTEM)?;
        while self.arenas.get(self.arena).is_some_and(|(_, capacity)| capacity - self.offset < step)
        {
            self.arena += 1;
            self.offset = 0;
        }
        if self.arena == self.arenas.len() {
            let capacity = step.checked_next_multiple_of(ARENA).ok_or(OPERATING_SYSTEM)?;
            self.arenas.push((reserve(capacity)?, capacity));
        }
        let base = self.arenas[self.arena].0 + self.offset;
        self.offset += step;
        Ok(base)
    }

    /// Gives the pages of the oldest freed regions back; their addresses stay reserved.
    fn trim(&mut self) {
        while self.quarantined > QUARANTINE {
            let Some((base, size)) = self.quarantine.pop_front() else { break };
            self.quarantined -= size;
            let (first, last) = (base.next_multiple_of(PAGE), (base + size) / PAGE * PAGE);
            if last > first {
                // SAFETY: these pages lie in a freed region of this driver's mapping, and hold
                // nothing but poison.
                unsafe {
                    libc::madvise(first as *mut libc::c_void, last - first, libc::MADV_DONTNEED)
                };
            }
        }
    }
}

/// Maps `capacity` bytes, which take no memory before they are touched, and returns their address.
fn reserve(capacity: usize) -> Result<usize> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: an anonymous mapping at an address of the system's choice touches no existing memory.
    let base = unsafe {
        libc::mmap(std::ptr::null_mut(), capacity, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
    };
    if base == libc::MAP_FAILED {
        return Err(OPERATING_SYSTEM);
    }
    Ok(base as usize)
}
