//! The memory and the disk that snapshots may take.

use crate::error::{fail, Result};
use crate::plan::Plan;

/// What the tiers may hold, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budgets {
    /// Device memory for slots.
    pub device: u64,
    /// Host memory for the pool.
    pub host: u64,
    /// Disk.
    pub disk: u64,
}

impl Budgets {
    /// No limits.
    pub const NONE: Budgets = Budgets { device: u64::MAX, host: u64::MAX, disk: u64::MAX };

    /// Host slots of `slot_bytes` that lie on disk where `slots` are needed: the first ones, which
    /// hold the snapshots that are needed least often, as far as host memory has no room. Two
    /// slots of memory for each direction then carry what passes through.
    pub fn on_disk(&self, slots: u32, slot_bytes: u64) -> u32 {
        let held = self.host / slot_bytes.max(1);
        if held >= slots as u64 {
            return 0;
        }
        slots - held.saturating_sub(STAGED) as u32
    }

    /// Snapshots of `slot_bytes` that host memory and disk hold together.
    pub fn slots_outside(&self, slot_bytes: u64) -> u32 {
        let slots = |bytes: u64| bytes / slot_bytes.max(1);
        let (host, disk) = (slots(self.host), slots(self.disk));
        let with_disk = if host >= STAGED { (host - STAGED).saturating_add(disk) } else { 0 };
        u32::try_from(host.max(with_disk)).unwrap_or(u32::MAX - 1)
    }

    /// Refuses a plan that needs more, and says what would do.
    pub fn check(&self, plan: &Plan, slot_bytes: u64) -> Result<()> {
        let bytes = |slots: u64| slots.saturating_mul(slot_bytes);
        let device = bytes(plan.device_slots as u64);
        if device > self.device {
            return fail!(
                Budget,
                "the plan needs {device} bytes of device memory, of which the budget has {}: raise it to that",
                self.device
            );
        }
        let (slots, host) = (plan.host_slots as u64, bytes(plan.host_slots as u64));
        let on_disk = self.on_disk(plan.host_slots, slot_bytes) as u64;
        let (memory, disk) =
            (bytes((slots - on_disk) + if on_disk > 0 { STAGED } else { 0 }), bytes(on_disk));
        if memory > self.host || disk > self.disk {
            return fail!(
                Budget,
                "the plan stores {slots} snapshots of {slot_bytes} bytes outside the device: the budgets are {} bytes of host memory and {} \
                 of disk; {host} bytes of host memory would do, or {} and {host} bytes of disk",
                self.host,
                self.disk,
                bytes(STAGED)
            );
        }
        Ok(())
    }
}

/// Host slots through which snapshots go to disk, and as many through which they come back,
/// together.
pub(super) const STAGED: u64 = 4;
