//! Tiers: the device cache and the host pool, each one slab cut into slots of one snapshot, and the events that order their use.
//!
//! Slots are numbered by the plan, in any order; what is kept here is only what a lane has to wait for before it may touch one.

use crate::codec::Codec;
use crate::device::{AppMemory, Device, Event, Lane, Place};
use crate::error::Result;
use crate::plan::{Plan, Step, NONE};
use crate::snapshot::Layout;

/// A device cache slot.
#[derive(Clone, Copy, Default)]
struct DeviceSlot {
    /// The upload that fills it, until a restore has waited for it.
    filled: Option<Event>,
    /// The download that reads it.
    read: Option<Event>,
}

/// A host pool slot.
#[derive(Clone, Copy, Default)]
struct HostSlot {
    /// The download, or the application's copy, that wrote it.
    written: Option<Event>,
}

/// Device cache and host pool of one session.
pub struct Tiers {
    device: Box<dyn Device>,
    codec: Box<dyn Codec>,
    layout: Layout,
    slot_bytes: u64,
    cache: Vec<DeviceSlot>,
    pool: Vec<HostSlot>,
}

impl Tiers {
    /// Allocates what `plan` uses.
    pub fn new(mut device: Box<dyn Device>, codec: Box<dyn Codec>, layout: Layout, plan: &Plan) -> Result<Self> {
        let slot_bytes = codec.slot_bytes(&layout);
        let bytes = |slots: u32| (slots as u64).saturating_mul(slot_bytes);
        device.reserve(bytes(plan.device_slots), bytes(plan.host_slots))?;
        let cache = vec![DeviceSlot::default(); plan.device_slots as usize];
        let pool = vec![HostSlot::default(); plan.host_slots as usize];
        Ok(Tiers { device, codec, layout, slot_bytes, cache, pool })
    }

    /// The device, for its traffic.
    pub fn device(&self) -> &dyn Device {
        &*self.device
    }

    /// Forgets all snapshots once everything under way is done.
    pub fn clear(&mut self) -> Result<()> {
        self.device.synchronize()?;
        self.cache.fill(DeviceSlot::default());
        self.pool.fill(HostSlot::default());
        Ok(())
    }

    fn in_cache(&self, slot: u32) -> Place {
        Place::Device(slot as u64 * self.slot_bytes)
    }

    fn in_pool(&self, slot: u32) -> Place {
        Place::Host(slot as u64 * self.slot_bytes)
    }

    fn wait(&mut self, lane: Lane, event: Option<Event>) -> Result<()> {
        event.map_or(Ok(()), |event| self.device.wait(lane, event))
    }

    /// Stores the fields where `step` says. They have been read when the application's lane gets past this.
    pub fn save(&mut self, step: Step, fields: &[AppMemory]) -> Result<()> {
        let Step { slot, host } = step;
        if slot == NONE {
            if host != NONE {
                let to = self.in_pool(host);
                self.codec.encode(&mut *self.device, &self.layout, fields, to)?;
                self.pool[host as usize].written = Some(self.device.record(Lane::App));
            }
            return Ok(());
        }
        self.wait(Lane::App, self.cache[slot as usize].read)?;
        let to = self.in_cache(slot);
        self.codec.encode(&mut *self.device, &self.layout, fields, to)?;
        self.cache[slot as usize] = DeviceSlot::default();
        if host != NONE {
            let stored = self.device.record(Lane::App);
            self.device.wait(Lane::Download, stored)?;
            self.device.copy(Lane::Download, self.in_pool(host), to, self.slot_bytes)?;
            let written = self.device.record(Lane::Download);
            self.cache[slot as usize].read = Some(written);
            self.pool[host as usize].written = Some(written);
        }
        Ok(())
    }

    /// Starts the transfer of a RESTORE's snapshot into its slot, after everything on the application's lane so far.
    pub fn fetch(&mut self, step: Step) -> Result<()> {
        let (slot, host) = (step.slot as usize, step.host as usize);
        let released = self.device.record(Lane::App);
        self.device.wait(Lane::Upload, released)?;
        self.wait(Lane::Upload, self.cache[slot].read)?;
        self.wait(Lane::Upload, self.pool[host].written)?;
        self.device.copy(Lane::Upload, self.in_cache(step.slot), self.in_pool(step.host), self.slot_bytes)?;
        let filled = self.device.record(Lane::Upload);
        self.cache[slot] = DeviceSlot { filled: Some(filled), read: None };
        Ok(())
    }

    /// Whether the transfer that a RESTORE needs is still under way.
    pub fn is_late(&self, step: Step) -> bool {
        let slot = self.cache.get(step.slot as usize);
        slot.and_then(|slot| slot.filled).is_some_and(|event| !self.device.is_done(event))
    }

    /// Restores the fields from where `step` says. They hold the state when the application's lane gets past this.
    pub fn restore(&mut self, step: Step, fields: &[AppMemory]) -> Result<()> {
        let Step { slot, host } = step;
        let from = if slot == NONE {
            self.wait(Lane::App, self.pool[host as usize].written)?;
            self.in_pool(host)
        } else {
            let filled = self.cache[slot as usize].filled.take();
            self.wait(Lane::App, filled)?;
            self.in_cache(slot)
        };
        self.codec.decode(&mut *self.device, &self.layout, from, fields)
    }
}
