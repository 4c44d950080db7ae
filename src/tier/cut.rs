//! A cut through a shot: the records that a restart file holds, and a session that goes on from it.

use super::extent::In;
use super::store::Store;
use super::{state_of, Stored};
use crate::device::{Lane, Place, PIECE};
use crate::error::{fail, Result};
use crate::fallible_vec;
use crate::plan::{Step, NONE};

impl Store {
    /// Places all snapshots that wait in staging buffers, and waits for all work of the device.
    pub fn settle(&mut self) -> Result<()> {
        self.place_while(|staged, _| staged > 0)?;
        self.device.synchronize()?;
        self.order.all_seen();
        Ok(())
    }

    /// Finds the bytes of a record, which lies in the slots `at`: in memory rather than on disk. The lanes
    /// have no work.
    pub fn stored(&mut self, at: Step, record: i64) -> Result<Stored> {
        let mut found = [None, None];
        for (in_cache, slot) in [(false, at.host), (true, at.slot)] {
            if slot != NONE {
                found[usize::from(in_cache)] = Some(self.expect(in_cache, slot, record)?);
            }
        }
        let in_memory = found.into_iter().flatten().find(|x| self.extents[*x].memory != In::Disk);
        let Some(x) = in_memory.or(found[0]) else {
            return fail!(Device, "the snapshot of state {} is in no tier", state_of(record));
        };
        let is_coded = self.coder.is_some() && !(self.is_in_cache(x) && at.slot < self.raw_slots);
        let extent = &self.extents[x];
        Ok(Stored { record, place: extent.place(), bytes: extent.bytes, is_coded })
    }

    /// Passes the bytes of a record to `sink`, in pieces of at most [`PIECE`] bytes. The lanes have no
    /// work.
    pub fn read_stored(
        &mut self,
        stored: Stored,
        sink: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut piece = fallible_vec::filled(0u8, stored.bytes.min(PIECE as u64) as usize)?;
        let device = &mut *self.device;
        device.concerns(state_of(stored.record));
        let place = match stored.place {
            Place::Disk(_) => {
                let [_, to] = self.disk.next();
                device.copy(Lane::DiskRead, to, stored.place, stored.bytes)?;
                device.finish_read(device.issued(Lane::DiskRead))?;
                to
            }
            place => place,
        };
        let mut at = 0;
        while at < stored.bytes {
            let piece_bytes = (stored.bytes - at).min(PIECE as u64) as usize;
            let piece = &mut piece[..piece_bytes];
            device.read(place.plus(at), piece)?;
            sink(piece)?;
            at += piece_bytes as u64;
        }
        Ok(())
    }

    /// Puts a record of `bytes` bytes that `source` passes on piece by piece into the slots of a step. The
    /// lanes have no work.
    pub fn load(
        &mut self,
        step: Step,
        record: i64,
        (bytes, is_coded): (u64, bool),
        source: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>,
    ) -> Result<()> {
        let ts = state_of(record);
        self.check_kind(step, record, bytes, is_coded)?;
        if is_coded {
            self.largest = self.largest.max(bytes);
        }
        let x = self.take_in_cache(step.slot, bytes);
        let y = self.room_in_pool(record, step, x, bytes)?;
        let places = [x, y].map(|x| x.map(|x| self.extents[x].place()));
        let [passage, _] = self.disk_or_none();
        self.device.concerns(ts);
        let mut at = 0;
        source(&mut |piece| {
            let end = at + piece.len() as u64;
            if end > bytes {
                return fail!(Stream, "the snapshot of state {ts} has more than {bytes} bytes");
            }
            for place in places.iter().flatten() {
                let place = match place {
                    Place::Disk(_) => passage,
                    place => *place,
                };
                self.device.write(place.plus(at), piece)?;
            }
            at = end;
            Ok(())
        })?;
        if at != bytes {
            return fail!(Stream, "the snapshot of state {ts} has {at} bytes instead of {bytes}");
        }
        for place in places.into_iter().flatten() {
            if let Place::Disk(_) = place {
                self.device.copy(Lane::DiskWrite, place, passage, bytes)?;
                self.device.synchronize()?;
                self.device.check_disk()?;
            }
        }
        Ok(())
    }

    /// The staging buffers of the next records to disk and from disk, if there is a disk.
    fn disk_or_none(&self) -> [Place; 2] {
        match self.disk.slots {
            0 => [Place::Host(0); 2],
            _ => self.disk.next(),
        }
    }

    /// Fails unless a record of a restart file is as this session stores it.
    fn check_kind(&self, step: Step, record: i64, bytes: u64, is_coded: bool) -> Result<()> {
        let ts = state_of(record);
        let is_raw = self.coder.is_none() || step.slot < self.raw_slots;
        let expected = self.parts.parts[(record & 1) as usize].bytes;
        if is_raw && (is_coded || bytes != expected) {
            return fail!(
                Stream,
                "the snapshot of state {ts} has {bytes} bytes{}, and this session stores raw snapshots of {expected} bytes",
                if is_coded { " of a codec" } else { "" }
            );
        }
        if !is_raw && !is_coded {
            return fail!(
                Stream,
                "the snapshot of state {ts} is raw, and this session stores it compressed"
            );
        }
        Ok(())
    }
}
