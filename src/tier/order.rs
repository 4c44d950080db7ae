//! The order of lanes. Before an operation the lane waits for all earlier operations that touched the
//! same bytes in a way that matters: whoever reads waits for the write, whoever writes for the write
//! and the reads.
//!
//! Every lane counts its operations. `seen[lane][other]` is how many operations of `other` have ended
//! before the next operation of `lane`, as far as events tell (vector clocks: Mattern 1989, Virtual
//! time and global states of distributed systems). A wait that would tell nothing new is left out.

use crate::device::{Device, Event, Lane};
use crate::error::Result;
use crate::fallible_vec;

const LANES: usize = 5;

/// For each lane, a number of its operations.
type Clock = [u64; LANES];

/// The absence of an event.
pub const NO_EVENT: u32 = u32::MAX;

/// An operation of a lane: its number, counted from 1, and an event that was recorded after it. Number
/// 0 is no operation. The event may have been recorded again since, after a later operation of the same
/// lane. Operations of the application's lane have no event of their own.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    number: u64,
    event: u32,
    lane: Lane,
}

impl Mark {
    pub const NONE: Self = Mark { number: 0, event: NO_EVENT, lane: Lane::App };
}

/// Who touched bytes last: the write, and since then the last read by the application's lane (its
/// number) and by another lane.
#[derive(Clone, Copy, Debug)]
pub struct Marks {
    pub written: Mark,
    read: Mark,
    read_by_app: u64,
    /// Whether the bytes were free before and not written since.
    pub is_fresh: bool,
    /// Numbers of the events that a lane other than the application's records after it has written, and
    /// after it has read these bytes; or [`NO_EVENT`].
    filled: u32,
    emptied: u32,
}

impl Marks {
    /// The marks of bytes that nobody has touched.
    pub fn new(filled: u32, emptied: u32) -> Self {
        let (written, read) = (Mark::NONE, Mark::NONE);
        Marks { written, read, read_by_app: 0, is_fresh: false, filled, emptied }
    }

    fn all(&self) -> [Mark; 3] {
        let app = Mark { number: self.read_by_app, ..Mark::NONE };
        [app, self.read, self.written]
    }

    /// Notes the operation that `Order::after` returned, which has read these bytes.
    pub fn is_read(&mut self, operation: Mark) {
        match operation.lane {
            Lane::App => self.read_by_app = operation.number,
            _ => self.read = operation,
        }
    }

    /// Notes the operation that `Order::after` returned, which has written these bytes.
    pub fn is_written(&mut self, operation: Mark) {
        *self = Marks { written: operation, ..Marks::new(self.filled, self.emptied) };
    }
}

/// The last operation of each lane that touched bytes which are free by now. Bytes that are taken
/// again may be any of these.
#[derive(Clone, Copy, Debug)]
pub struct Freed {
    marks: [Mark; LANES],
    /// Whether the bytes are those of the cache.
    is_cache: bool,
}

impl Freed {
    /// Nothing was freed yet.
    pub fn new(is_cache: bool) -> Self {
        Freed { marks: [Mark::NONE; LANES], is_cache }
    }

    /// Adds the operations on bytes that become free.
    pub fn add(&mut self, marks: &Marks) {
        for mark in marks.all() {
            let last = &mut self.marks[mark.lane as usize];
            if mark.number > last.number {
                *last = mark;
            }
        }
    }
}

/// What each lane has seen of the others.
pub struct Order {
    /// Recorded on the application's lane before another lane waits for it.
    app: Event,
    seen: [Clock; LANES],
    /// For each event of the device, by its number, what the recording lane had seen.
    recorded: Vec<Clock>,
}

fn join(a: &mut Clock, b: &Clock) {
    a.iter_mut().zip(b).for_each(|(a, b)| *a = (*a).max(*b));
}

impl Order {
    /// The order of a device's lanes, without work so far. `app` is an event of the device.
    pub fn new(app: Event) -> Self {
        Order { app, seen: Default::default(), recorded: Vec::new() }
    }

    /// Notes that the calling thread has waited for all lanes.
    pub fn all_seen(&mut self) {
        let all: Clock = std::array::from_fn(|lane| self.seen[lane][lane]);
        self.seen = [all; LANES];
    }

    /// The event of an upload that the application's lane has not seen; `None` for all other operations.
    pub fn unseen_upload(&self, mark: Mark) -> Option<Event> {
        let is_unseen = mark.lane == Lane::Upload && !self.has_seen(Lane::App, mark);
        is_unseen.then_some(Event(mark.event as usize))
    }

    #[inline(always)]
    fn has_seen(&self, lane: Lane, mark: Mark) -> bool {
        mark.number <= self.seen[lane as usize][mark.lane as usize]
    }

    fn record(
        &mut self,
        device: &mut (impl Device + ?Sized),
        lane: Lane,
        event: Event,
    ) -> Result<()> {
        device.record(lane, event)?;
        if self.recorded.len() <= event.0 {
            fallible_vec::up_to(&mut self.recorded, event.0 + 1)?;
            self.recorded.resize(event.0 + 1, Clock::default());
        }
        self.recorded[event.0] = self.seen[lane as usize];
        Ok(())
    }

    #[inline(always)]
    fn wait(&mut self, device: &mut (impl Device + ?Sized), lane: Lane, mark: Mark) -> Result<()> {
        match mark.lane {
            _ if self.has_seen(lane, mark) => Ok(()),
            Lane::App => self.after_app(device, lane),
            _ => self.wait_for(device, lane, Event(mark.event as usize)),
        }
    }

    fn wait_for(
        &mut self,
        device: &mut (impl Device + ?Sized),
        lane: Lane,
        event: Event,
    ) -> Result<()> {
        device.wait(lane, event)?;
        join(&mut self.seen[lane as usize], &self.recorded[event.0]);
        Ok(())
    }

    /// Makes `lane` wait for all work that the application's lane has so far.
    pub fn after_app(&mut self, device: &mut (impl Device + ?Sized), lane: Lane) -> Result<()> {
        self.record(device, Lane::App, self.app)?;
        self.wait_for(device, lane, self.app)
    }

    /// Makes `lane` wait until it may read the bytes `from` and write the bytes `to`, the latter in bytes
    /// that were free since `freed`.
    pub fn before(
        &mut self,
        device: &mut (impl Device + ?Sized),
        lane: Lane,
        from: Option<&Marks>,
        to: Option<(&Marks, &Freed)>,
    ) -> Result<()> {
        // The lane that wrote `from` has mostly seen what must come before the write of `to`.
        from.map_or(Ok(()), |from| self.wait(device, lane, from.written))?;
        if let Some((to, freed)) = to {
            let taken = if to.is_fresh { &freed.marks[..] } else { &[] };
            for mark in taken {
                // The event of a download from free bytes of the cache is waited for even if the
                // download was seen: it then stands for a later download from the same slot, and
                // downloads and uploads through a full cache stay in step.
                let is_download = mark.lane == Lane::Download && mark.number > 0;
                match freed.is_cache && is_download {
                    true => self.wait_for(device, lane, Event(mark.event as usize))?,
                    false => self.wait(device, lane, *mark)?,
                }
            }
            to.all().into_iter().try_for_each(|mark| self.wait(device, lane, mark))?;
        }
        Ok(())
    }

    /// Counts the operation that `before` was for, and records the events of the bytes that it reads and
    /// writes. Returns the operation, as the mark of those it has read and of those it has written. Bytes
    /// without an event of their own have that of the other side of the copy.
    pub fn after(
        &mut self,
        device: &mut (impl Device + ?Sized),
        lane: Lane,
        from: Option<&Marks>,
        to: Option<&Marks>,
    ) -> Result<[Mark; 2]> {
        self.seen[lane as usize][lane as usize] += 1;
        let number = self.seen[lane as usize][lane as usize];
        let (mut read, mut written) = (NO_EVENT, NO_EVENT);
        if lane != Lane::App {
            read = from.map_or(NO_EVENT, |from| from.emptied);
            written = to.map_or(NO_EVENT, |to| to.filled);
            for event in [read, written].into_iter().filter(|event| *event != NO_EVENT) {
                self.record(device, lane, Event(event as usize))?;
            }
            read = if read == NO_EVENT { written } else { read };
            written = if written == NO_EVENT { read } else { written };
        }
        Ok([read, written].map(|event| Mark { number, event, lane }))
    }
}
