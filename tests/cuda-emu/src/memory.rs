//! The ranges that the driver knows: device, managed and page-locked memory. Addresses are not
//! reused before a reset, so that a use after free is always seen.

use crate::status::{Result, OPERATING_SYSTEM};
use std::collections::{BTreeMap, VecDeque};

/// What fresh and freed memory holds.
pub const POISON: u8 = 0xA5;
/// Alignment of allocations, and the gap that follows each.
const ALIGN: usize = 512;
/// Address space is reserved in steps of this size.
const ARENA: usize = 64 << 20;
/// Freed bytes that keep their poison; beyond, the oldest pages go back to the system.
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
}

impl Kind {
    /// On the device's side of a copy.
    pub fn is_device(self) -> bool {
        matches!(self, Self::Device | Self::Managed)
    }
}

/// A live range.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    /// First byte.
    pub base: usize,
    /// Bytes.
    pub size: usize,
    /// Kind of memory.
    pub kind: Kind,
    /// Index of the context that owns it.
    pub context: usize,
    /// Ordinal of that context's device.
    pub device: usize,
    /// Never the same twice.
    pub id: u64,
}

/// Where a range of addresses lies.
pub enum Place {
    /// Inside one live region.
    Inside(Region),
    /// Partly inside one.
    Across,
    /// In memory that the driver does not know.
    Elsewhere,
}

/// All regions and the address space that they come from.
#[derive(Default)]
pub struct Memory {
    regions: BTreeMap<usize, Region>,
    arenas: Vec<(usize, usize)>,
    arena: usize,
    offset: usize,
    quarantine: VecDeque<(usize, usize)>,
    quarantined: usize,
    ids: u64,
}

impl Memory {
    /// Makes a poisoned region.
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

    /// Knows a region that someone else allocated.
    pub fn add(&mut self, base: usize, size: usize, kind: Kind, context: usize, device: usize) {
        self.ids += 1;
        self.regions.insert(base, Region { base, size, kind, context, device, id: self.ids });
    }

    /// The live region that starts at `base`.
    pub fn at(&self, base: usize) -> Option<&Region> {
        self.regions.get(&base)
    }

    /// Where the `len` bytes at `address` lie.
    pub fn place(&self, address: usize, len: usize) -> Place {
        let end = address.saturating_add(len.max(1));
        match self.regions.range(..end).next_back() {
            Some((_, region)) if region.base <= address && end <= region.base + region.size => {
                Place::Inside(*region)
            }
            Some((_, region)) if region.base + region.size > address => Place::Across,
            _ => Place::Elsewhere,
        }
    }

    /// Forgets a region and poisons it, unless it belongs to someone else.
    pub fn free(&mut self, base: usize) -> Option<Region> {
        let region = self.regions.remove(&base)?;
        if region.kind != Kind::Registered {
            // SAFETY: the region came from `allocate` and was live until now.
            unsafe { std::ptr::write_bytes(base as *mut u8, POISON, region.size) };
            self.quarantine.push_back((base, region.size));
            self.quarantined += region.size;
            self.trim();
        }
        Some(region)
    }

    /// The live regions of a context.
    pub fn of_context(&self, context: usize) -> Vec<usize> {
        self.regions
            .values()
            .filter(|region| region.context == context)
            .map(|region| region.base)
            .collect()
    }

    /// Starts again at the first address. No region may be live.
    pub fn restart(&mut self) {
        let arenas = std::mem::take(&mut self.arenas);
        *self = Self { arenas, ..Self::default() };
    }

    /// Fresh address space for `size` bytes and a gap.
    fn carve(&mut self, size: usize) -> Result<usize> {
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
                // SAFETY: these pages lie in a freed region of our own mapping, and hold nothing
                // but poison.
                unsafe {
                    libc::madvise(first as *mut libc::c_void, last - first, libc::MADV_DONTNEED)
                };
            }
        }
    }
}

/// Maps `capacity` bytes that take no memory before they are touched.
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
