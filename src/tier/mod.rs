//! Tiers: the device cache and the host pool, each one slab cut into slots of one snapshot, and the events that order their use.
//!
//! Slots are numbered by the plan, in any order; what is kept here is only what a lane has to wait for before it may touch one.

use crate::codec::Codec;
use crate::device::{AppMemory, Device, Event, Lane, Place};
use crate::error::{fail, Result};
use crate::plan::{Plan, Step, NONE};
use crate::snapshot::{Field, Layout};
use std::ffi::c_void;

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
        self.clear_for_save(step)?;
        let to = match step {
            Step { slot: NONE, host: NONE } => return Ok(()),
            Step { slot: NONE, host } => self.in_pool(host),
            Step { slot, .. } => self.in_cache(slot),
        };
        self.codec.encode(&mut *self.device, &self.layout, fields, to)?;
        self.write_back(step)
    }

    /// The application's lane waits until the slot of a SAVE may be overwritten.
    fn clear_for_save(&mut self, step: Step) -> Result<()> {
        match self.cache.get(step.slot as usize) {
            Some(&DeviceSlot { read, reading: true, .. }) => self.device.wait(Lane::App, read),
            _ => Ok(()),
        }
    }

    /// Sends a snapshot that is in its slot on to the host, if it has a place there.
    fn write_back(&mut self, step: Step) -> Result<()> {
        let Some(slot) = self.cache.get_mut(step.slot as usize) else { return Ok(()) };
        slot.reading = step.host != NONE;
        if step.host != NONE {
            let (read, written) = (slot.read, self.pool[step.host as usize].written);
            self.device.record(Lane::App, self.app)?;
            self.device.wait(Lane::Download, self.app)?;
            self.device.copy(Lane::Download, self.in_pool(step.host), self.in_cache(step.slot), self.slot_bytes)?;
            self.device.record(Lane::Download, read)?;
            self.device.record(Lane::Download, written)?;
        }
        Ok(())
    }

    /// Where the application may compute the state of a SAVE: its slot, or a spare one.
    pub fn begin_save(&mut self, step: Step, spare: u32) -> Result<Vec<*mut c_void>> {
        self.clear_for_save(step)?;
        self.pointers(step, spare)
    }

    /// Stores what the application has computed there.
    pub fn commit_save(&mut self, step: Step, spare: u32) -> Result<()> {
        if step.slot == NONE && step.host != NONE {
            return self.device.copy(Lane::App, self.in_pool(step.host), self.in_cache(spare), self.slot_bytes);
        }
        self.write_back(step)
    }

    /// Where the application finds the state of a RESTORE: its slot, or a spare one into which it is copied from the host.
    pub fn acquire(&mut self, step: Step, spare: u32) -> Result<Vec<*mut c_void>> {
        if step.slot == NONE {
            self.device.copy(Lane::App, self.in_cache(spare), self.in_pool(step.host), self.slot_bytes)?;
        } else {
            self.await_fetch(step)?;
        }
        self.pointers(step, spare)
    }

    fn pointers(&self, step: Step, spare: u32) -> Result<Vec<*mut c_void>> {
        let slot = self.in_cache(if step.slot == NONE { spare } else { step.slot });
        let field = |(field, &offset): (&Field, &u64)| self.device.pointer(slot.plus(offset), field.bytes().unwrap_or(0));
        self.layout.fields.iter().zip(&self.layout.offsets).map(field).collect()
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
        let from = if step.slot == NONE {
            // Nothing to wait for: what took the snapshot's slot waited for its download, and the application's lane for that.
            self.in_pool(step.host)
        } else {
            self.await_fetch(step)?;
            self.in_cache(step.slot)
        };
        self.codec.decode(&mut *self.device, &self.layout, from, fields)
    }

    /// The application's lane waits for the upload into the slot of a RESTORE, if it needs one.
    fn await_fetch(&mut self, step: Step) -> Result<()> {
        let DeviceSlot { filled, filling, .. } = self.cache[step.slot as usize];
        if filling {
            self.device.wait(Lane::App, filled)?;
        } else if step.host != NONE {
            return fail!(Device, "the snapshot in slot {} was never fetched from host slot {}", step.slot, step.host);
        }
        self.cache[step.slot as usize].filling = false;
        Ok(())
    }
}
