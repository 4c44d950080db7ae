//! Tiers: the device cache and the host pool, each one slab cut into slots of one snapshot, and the events that order their use.
//!
//! Slots are numbered by the plan, in any order; what is kept here is only what a lane has to wait for before it may touch one.

use crate::codec::Codec;
use crate::device::{AppMemory, Device, Event, Lane, Place};
use crate::error::{fail, Result};
use crate::plan::{Plan, Step, NONE};
use crate::snapshot::Layout;

/// A device cache slot.
#[derive(Clone, Copy)]
struct DeviceSlot {
    /// The upload that fills it, and whether a restore has yet to wait for it.
    filled: Event,
    filling: bool,
    /// The download that reads it, and whether there is one.
    read: Event,
    reading: bool,
}

/// A host pool slot.
#[derive(Clone, Copy)]
struct HostSlot {
    /// The download that wrote it.
    written: Event,
}

/// Device cache and host pool of one session.
pub struct Tiers {
    device: Box<dyn Device>,
    codec: Box<dyn Codec>,
    layout: Layout,
    slot_bytes: u64,
    cache: Vec<DeviceSlot>,
    pool: Vec<HostSlot>,
    /// The end of what the application's lane has done with the tiers so far.
    app: Event,
}

impl Tiers {
    /// The tiers of `plan` on a device whose slabs are reserved.
    pub fn new(mut device: Box<dyn Device>, codec: Box<dyn Codec>, layout: Layout, plan: &Plan) -> Result<Self> {
        let slot_bytes = codec.slot_bytes(&layout);
        let mut cache = Vec::with_capacity(plan.device_slots as usize);
        for _ in 0..plan.device_slots {
            cache.push(DeviceSlot { filled: device.event()?, filling: false, read: device.event()?, reading: false });
        }
        let mut pool = Vec::with_capacity(plan.host_slots as usize);
        for _ in 0..plan.host_slots {
            pool.push(HostSlot { written: device.event()? });
        }
        let app = device.event()?;
        Ok(Tiers { device, codec, layout, slot_bytes, cache, pool, app })
    }

    /// The device, for its traffic and times.
    pub fn device(&mut self) -> &mut dyn Device {
        &mut *self.device
    }

    /// Forgets all snapshots once everything under way is done.
    pub fn clear(&mut self) -> Result<()> {
        self.device.synchronize()?;
        for slot in &mut self.cache {
            (slot.filling, slot.reading) = (false, false);
        }
        Ok(())
    }

    fn in_cache(&self, slot: u32) -> Place {
        Place::Device(slot as u64 * self.slot_bytes)
    }

    fn in_pool(&self, slot: u32) -> Place {
        Place::Host(slot as u64 * self.slot_bytes)
    }

    /// Stores the fields where `step` says. They have been read when the application's lane gets past this.
    pub fn save(&mut self, step: Step, fields: &[AppMemory]) -> Result<()> {
        let Step { slot, host } = step;
        if slot == NONE {
            if host != NONE {
                let to = self.in_pool(host);
                self.codec.encode(&mut *self.device, &self.layout, fields, to)?;
            }
            return Ok(());
        }
        let DeviceSlot { read, reading, .. } = self.cache[slot as usize];
        if reading {
            self.device.wait(Lane::App, read)?;
        }
        let to = self.in_cache(slot);
        self.codec.encode(&mut *self.device, &self.layout, fields, to)?;
        self.cache[slot as usize].reading = host != NONE;
        if host != NONE {
            let written = self.pool[host as usize].written;
            self.device.record(Lane::App, self.app)?;
            self.device.wait(Lane::Download, self.app)?;
            self.device.copy(Lane::Download, self.in_pool(host), to, self.slot_bytes)?;
            self.device.record(Lane::Download, read)?;
            self.device.record(Lane::Download, written)?;
        }
        Ok(())
    }

    /// Starts the transfer of a RESTORE's snapshot into its slot, after everything on the application's lane so far.
    pub fn fetch(&mut self, step: Step) -> Result<()> {
        let DeviceSlot { filled, read, reading, .. } = self.cache[step.slot as usize];
        self.device.record(Lane::App, self.app)?;
        self.device.wait(Lane::Upload, self.app)?;
        if reading {
            self.device.wait(Lane::Upload, read)?;
        }
        self.device.wait(Lane::Upload, self.pool[step.host as usize].written)?;
        self.device.copy(Lane::Upload, self.in_cache(step.slot), self.in_pool(step.host), self.slot_bytes)?;
        self.device.record(Lane::Upload, filled)?;
        let slot = &mut self.cache[step.slot as usize];
        (slot.filling, slot.reading) = (true, false);
        Ok(())
    }

    /// Whether the transfer that a RESTORE needs is still under way.
    pub fn is_late(&self, step: Step) -> Result<bool> {
        match self.cache.get(step.slot as usize) {
            Some(slot) if slot.filling => Ok(!self.device.is_done(slot.filled)?),
            _ => Ok(false),
        }
    }

    /// Restores the fields from where `step` says. They hold the state when the application's lane gets past this.
    pub fn restore(&mut self, step: Step, fields: &[AppMemory]) -> Result<()> {
        let Step { slot, host } = step;
        let from = if slot == NONE {
            // Nothing to wait for: what took the snapshot's slot waited for its download, and the application's lane for that.
            self.in_pool(host)
        } else {
            let DeviceSlot { filled, filling, .. } = self.cache[slot as usize];
            if filling {
                self.device.wait(Lane::App, filled)?;
            } else if host != NONE {
                return fail!(Device, "the snapshot in slot {slot} was never fetched from host slot {host}");
            }
            self.in_cache(slot)
        };
        self.codec.decode(&mut *self.device, &self.layout, from, fields)?;
        if let Some(slot) = self.cache.get_mut(slot as usize) {
            slot.filling = false;
        }
        Ok(())
    }
}
