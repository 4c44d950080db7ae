//! Budgets: the memory and the disk space that snapshots may take.

use crate::error::{fail, Result};
use crate::plan::Plan;
use crate::tier::staging_bytes;

/// The most bytes that the tiers may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budgets {
    /// Device memory for slots, in bytes.
    pub device: u64,
    /// Host memory for the pool, in bytes.
    pub host: u64,
    /// Disk space, in bytes of snapshots.
    pub disk: u64,
}

impl Budgets {
    /// No limits.
    pub const NONE: Budgets = Budgets { device: u64::MAX, host: u64::MAX, disk: u64::MAX };

    /// Number of host slots that lie on disk if a plan needs `slots` host slots of `slot_bytes`
    /// bytes each. The slots with the lowest numbers lie on disk: they hold the snapshots that are
    /// needed longest. If any slot lies on disk, host memory keeps four staging buffers through
    /// which snapshots pass to and from disk, two in each direction.
    pub fn on_disk(&self, slots: u32, slot_bytes: u64) -> u32 {
        let held = |bytes: u64| bytes / slot_bytes.max(1);
        if self.host == u64::MAX || held(self.host) >= slots as u64 {
            return 0;
        }
        slots - held(self.host.saturating_sub(staging_bytes(slot_bytes))) as u32
    }

    /// Bytes of host memory and of disk of a pool with `slots` slots of `slot_bytes` bytes each.
    pub fn bytes_outside(&self, slots: u32, slot_bytes: u64) -> (u64, u64) {
        let bytes = |slots: u32| u64::from(slots).saturating_mul(slot_bytes);
        match self.on_disk(slots, slot_bytes) {
            0 => (bytes(slots), 0),
            on_disk => {
                let staged = staging_bytes(slot_bytes);
                (bytes(slots - on_disk).saturating_add(staged), bytes(on_disk))
            }
        }
    }

    /// Number of snapshots of `slot_bytes` bytes that host memory and disk hold together.
    pub fn slots_outside(&self, slot_bytes: u64) -> u32 {
        let slots = |bytes: u64| bytes / slot_bytes.max(1);
        let (host, disk) = (slots(self.host), slots(self.disk));
        let beside_staging = self.host.checked_sub(staging_bytes(slot_bytes)).map(slots);
        let with_disk = beside_staging.map_or(0, |held| held.saturating_add(disk));
        u32::try_from(host.max(with_disk)).unwrap_or(u32::MAX - 1)
    }

    /// Number of snapshots of `slot_bytes` bytes that host memory holds beside the staging buffers of the
    /// disk; `None` if a plan never has more than host memory holds without them.
    pub fn slots_beside_staging(&self, slot_bytes: u64) -> Option<u32> {
        let in_memory = Budgets { disk: 0, ..*self }.slots_outside(slot_bytes);
        let is_used = self.slots_outside(slot_bytes) > in_memory;
        let held = self.host.saturating_sub(staging_bytes(slot_bytes)) / slot_bytes.max(1);
        is_used.then_some(u32::try_from(held).unwrap_or(u32::MAX - 1))
    }

    /// Returns the budgets of host memory and disk with one `part`-th of the slots of `slot_bytes` bytes.
    pub(crate) fn for_part(&self, part: u32, slot_bytes: u64) -> Self {
        let staged = staging_bytes(slot_bytes);
        let bytes =
            |of: u64| (of / slot_bytes.max(1)).div_ceil(part.into()).saturating_mul(slot_bytes);
        let host =
            self.host.checked_sub(staged).map_or(0, |left| bytes(left).saturating_add(staged));
        Budgets { host, disk: bytes(self.disk), ..*self }
    }

    /// Fails if a plan needs more than a budget. The error text says which budgets would be enough.
    /// `raw_slot_bytes` are the bytes of a slot for a raw record.
    pub fn check(&self, plan: &Plan, raw_slot_bytes: u64, slot_bytes: u64) -> Result<()> {
        let bytes = |slots: u64| slots.saturating_mul(slot_bytes);
        let device = plan.bytes_of_slots(plan.device_slots, raw_slot_bytes, slot_bytes);
        if device > self.device {
            return fail!(
                Budget,
                "the plan needs {device} bytes of device memory, of which the budget has {}: raise it to that",
                self.device
            );
        }
        let (slots, host) = (plan.host_slots as u64, bytes(plan.host_slots as u64));
        let (memory, disk) = self.bytes_outside(plan.host_slots, slot_bytes);
        if memory > self.host || disk > self.disk {
            return fail!(
                Budget,
                "the plan stores {slots} snapshots of {slot_bytes} bytes outside the device: the budgets are {} bytes of host memory and {} \
                 of disk; {host} bytes of host memory would do, or {} and {host} bytes of disk",
                self.host,
                self.disk,
                staging_bytes(slot_bytes)
            );
        }
        Ok(())
    }
}
