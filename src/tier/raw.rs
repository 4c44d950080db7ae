//! Raw snapshots: each lies at a fixed offset, slot number times slot size.

use super::slots::{Saved, Slots};
use super::{Destinations, Play, PreviousLevels, Store, Stored};
use crate::device::{AppMemory, Lane};
use crate::error::{fail, Result};
use crate::plan::{Step, NONE};
use std::ffi::c_void;

/// The store of raw snapshots, which needs nothing beside the slots.
pub struct RawStore;

/// The slot from which a RESTORE reads: that of the cache, if the step has one.
pub fn place_of(step: Step) -> Step {
    match step.slot {
        NONE => step,
        _ => Step { host: NONE, ..step },
    }
}

impl Store for RawStore {
    fn empty(&mut self, slots: &mut Slots) {
        slots.empty(Some(slots.layout.slot_bytes));
    }

    fn save(&mut self, slots: &mut Slots, play: &Play, fields: &[AppMemory]) -> Result<()> {
        let Play { step, ts, .. } = *play;
        if step.slot == NONE {
            let to = slots.begin_write(Lane::App, step.host)?;
            slots.copy_in(to, fields)?;
            slots.end_write(Lane::App, step.host)?;
        } else {
            slots.clear_for_save(step)?;
            slots.copy_in(slots.in_slot(step.slot, 0), fields)?;
            slots.write_back(step)?;
        }
        slots.hold(step, ts);
        let bytes = slots.layout.slot_bytes;
        slots.saved.push(Saved { ts, bytes, written: step.host != NONE });
        Ok(())
    }

    fn fetch(&mut self, slots: &mut Slots, step: Step, _: PreviousLevels) -> Result<()> {
        slots.device.concerns(slots.pool[step.host as usize].ts);
        slots.upload(step, None)
    }

    fn restore(&mut self, slots: &mut Slots, play: &Play, fields: &[AppMemory]) -> Result<bool> {
        let Play { step, ts, .. } = *play;
        slots.expect(place_of(step), ts)?;
        if step.slot == NONE {
            // The application's lane need not wait for the download: the operation that took the
            // snapshot's cache slot did, and the application's lane has waited for that operation.
            let from = slots.begin_read(Lane::App, step.host)?;
            slots.copy_out(from, fields)?;
            slots.end_read(Lane::App, step.host)?;
        } else {
            slots.await_fetch(step)?;
            slots.copy_out(slots.in_slot(step.slot, 0), fields)?;
        }
        Ok(step.host != NONE)
    }

    fn begin_save(
        &mut self,
        slots: &mut Slots,
        step: Step,
        spare: u32,
    ) -> Result<Vec<*mut c_void>> {
        slots.clear_for_save(step)?;
        slots.hand_out(step.slot);
        slots.pointers(step.slot, spare)
    }

    fn commit_save(&mut self, slots: &mut Slots, play: &Play) -> Result<()> {
        let Play { step, ts, spare, .. } = *play;
        slots.device.concerns(ts);
        let stored = step.slot != NONE || step.host != NONE;
        let bytes = slots.layout.slot_bytes;
        if step.slot == NONE && step.host != NONE {
            let (to, from) = (slots.begin_write(Lane::App, step.host)?, slots.in_slot(NONE, spare));
            slots.device.copy(Lane::App, to, from, bytes)?;
            slots.end_write(Lane::App, step.host)?;
        } else {
            slots.write_back(step)?;
        }
        slots.hold(step, ts);
        let bytes = if stored { bytes } else { 0 };
        slots.saved.push(Saved { ts, bytes, written: step.host != NONE });
        Ok(())
    }

    fn acquire(&mut self, slots: &mut Slots, play: &Play) -> Result<(Vec<*mut c_void>, bool)> {
        let Play { step, ts, last, spare, .. } = *play;
        slots.device.concerns(ts);
        slots.expect(place_of(step), ts)?;
        if step.slot == NONE {
            let (to, from) = (slots.in_slot(NONE, spare), slots.begin_read(Lane::App, step.host)?);
            slots.device.copy(Lane::App, to, from, slots.layout.slot_bytes)?;
            slots.end_read(Lane::App, step.host)?;
        } else {
            slots.await_fetch(step)?;
        }
        if last {
            slots.hand_out(step.slot);
        }
        Ok((slots.pointers(step.slot, spare)?, step.host != NONE))
    }

    fn stored(&mut self, slots: &mut Slots, at: Step, ts: i64) -> Result<Stored> {
        slots.expect(at, ts)?;
        let place = match slots.is_in_memory(at.host) || at.slot == NONE {
            true => slots.in_host(at.host),
            false => slots.in_slot(at.slot, 0),
        };
        Ok(Stored { ts, place, bytes: slots.layout.slot_bytes, is_coded: false })
    }

    fn make_room(
        &mut self,
        slots: &mut Slots,
        step: Step,
        ts: i64,
        (bytes, is_coded): (u64, bool),
    ) -> Result<Destinations> {
        if is_coded || bytes != slots.layout.slot_bytes {
            return fail!(
                Stream,
                "the snapshot of state {ts} has {bytes} bytes{}, and this session stores raw snapshots of {} bytes",
                if is_coded { " of a codec" } else { "" },
                slots.layout.slot_bytes
            );
        }
        slots.hold(step, ts);
        let cached = (step.slot != NONE).then(|| slots.in_slot(step.slot, 0));
        Ok([cached, (step.host != NONE).then(|| slots.in_host(step.host))])
    }
}
