//! Bytes of the tiers: each record lies in an extent, and the slots that a plan numbers name extents.
//!
//! A slot for raw records, and a slot on disk, has an extent of its own at a fixed offset. Every other
//! slot takes as many bytes of an [`Arena`] as its record has. Two slots may name one extent: if the
//! cache has too few free bytes, the record stays in the pool, and a cache slot names it there.

use super::arena::Arena;
use super::order::{Freed, Marks, NO_EVENT};
use crate::device::Place;
use crate::plan::NONE;

/// The record that an extent without a record has.
pub const NO_RECORD: i64 = -1;

/// The memory of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum In {
    Device,
    Host,
    Disk,
}

/// Bytes in a tier that hold a record, or will when the copy under way has ended.
#[derive(Clone, Debug)]
pub struct Extent {
    /// Where the bytes are: the memory, and the offset in bytes.
    pub memory: In,
    pub at: u64,
    /// Bytes of the record.
    pub bytes: u64,
    /// Number of the record (`record` in `super`), or [`NO_RECORD`].
    pub record: i64,
    /// Number of the slots that name this extent.
    pub names: u32,
    /// An extent of the cache: the pool slot that also holds the record, or [`NONE`].
    pub pool_slot: u32,
    /// An extent of the cache: whether a transfer lane has decoded the record from that of the pool.
    pub is_decoded: bool,
    /// A record that comes from disk: number of the operations of the lane of disk reads with which
    /// the record is in host memory; 0 if the calling thread need not wait for it.
    pub from_disk: u64,
    /// Who touched the bytes last.
    pub marks: Marks,
}

impl Extent {
    /// An extent without a record. `filled` and `emptied` are those of `Marks`.
    pub fn new(memory: In, at: u64, filled: u32, emptied: u32) -> Self {
        Extent {
            memory,
            at,
            bytes: 0,
            record: NO_RECORD,
            names: 0,
            pool_slot: NONE,
            is_decoded: false,
            from_disk: 0,
            marks: Marks::new(filled, emptied),
        }
    }

    /// The first byte.
    pub fn place(&self) -> Place {
        match self.memory {
            In::Device => Place::Device(self.at),
            In::Host => Place::Host(self.at),
            In::Disk => Place::Disk(self.at),
        }
    }
}

/// A slot of the device cache or of the host pool.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// Number of the extent that the slot names, or [`NONE`].
    pub extent: u32,
    /// Number of the slot's own extent, at a fixed offset, or [`NONE`].
    pub own: u32,
    /// Events of the extents that the slot takes (`Marks`).
    pub filled: u32,
    pub emptied: u32,
}

impl Slot {
    pub const EMPTY: Self = Slot { extent: NONE, own: NONE, filled: NO_EVENT, emptied: NO_EVENT };
}

/// The slots of the device cache, or of the host pool.
pub struct Tier {
    pub slots: Vec<Slot>,
    /// The bytes for records of slots without an own extent.
    pub arena: Arena,
    /// Who touched bytes of the arena that are free by now.
    pub freed: Freed,
}

impl Tier {
    /// A tier of `bytes` bytes, without slots.
    pub fn new(bytes: u64, is_cache: bool) -> Self {
        Tier { slots: Vec::new(), arena: Arena::new(0..bytes), freed: Freed::new(is_cache) }
    }

    /// Notes that all bytes are free, and that nobody uses them.
    pub fn clear(&mut self, is_cache: bool) {
        self.arena.clear();
        self.freed = Freed::new(is_cache);
    }

    /// Number of the extent that slot `slot` names, if it is a slot and names one.
    pub fn named(&self, slot: u32) -> Option<usize> {
        self.slots.get(slot as usize).filter(|slot| slot.extent != NONE).map(|s| s.extent as usize)
    }
}
