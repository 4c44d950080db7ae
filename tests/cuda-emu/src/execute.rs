//! What operations do when they run: to the bytes and to virtual time.

use crate::clock::Engine;
use crate::driver::Driver;
use crate::host_thread::{self, HostFn};
use crate::launch::Launch;
use crate::memory::Place;
use crate::settings::Mode;
use crate::status::{Result, ILLEGAL_ADDRESS};
use crate::stream::Op;

/// From where to where a copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To a device.
    HostToDevice,
    /// From a device.
    DeviceToHost,
    /// On a device or between two.
    DeviceToDevice,
    /// On the host.
    HostToHost,
}

/// The source or the destination of a copy.
pub enum Side {
    /// In memory that the driver knows: checked again when the copy runs.
    Known(usize),
    /// In pageable memory, while the host waits.
    Pageable(usize),
    /// Bytes taken when the copy was enqueued.
    Staged(Vec<u8>),
}

/// A copy, and how far it is.
pub struct Copy {
    /// Destination.
    pub to: Side,
    /// Source.
    pub from: Side,
    /// Bytes.
    pub len: usize,
    /// Bytes done.
    pub done: usize,
    /// From the last byte to the first.
    pub backwards: bool,
    /// Direction, for the counters and the clock.
    pub direction: Direction,
    /// The device whose engine copies.
    pub device: usize,
}

/// What an operation does.
pub enum Action {
    /// Copies bytes.
    Copy(Copy),
    /// Sets bytes: address, value, number.
    Set(usize, u8, usize),
    /// Records an event.
    Record(usize),
    /// Waits for what it comes after.
    Wait,
    /// Calls the host.
    Host(HostFn, usize),
    /// Runs a kernel.
    Launch(Box<Launch>),
    /// Computes for so many virtual seconds.
    Work(f64),
}

/// How far an operation got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// To its end.
    Finished,
    /// A part of the operation is done.
    Partial,
    /// The operation has started and ends by itself.
    Started,
}

impl Driver {
    /// Runs an operation, or a part of it.
    pub fn execute(&mut self, op: &mut Op) -> Result<Progress> {
        match &mut op.action {
            Action::Copy(copy) => return self.copy_piece(copy),
            Action::Launch(launch) => return self.launch_piece(launch),
            Action::Set(address, value, len) => {
                self.check(*address, *len)?;
                // SAFETY: the range was just found inside a live region of ours, which is mapped
                // and writable.
                unsafe { std::ptr::write_bytes(*address as *mut u8, *value, *len) };
            }
            Action::Host(function, data) => {
                host_thread::start(op.id, *function, *data);
                return Ok(Progress::Started);
            }
            Action::Record(_) | Action::Wait | Action::Work(_) => {}
        }
        Ok(Progress::Finished)
    }

    /// Copies the next piece: in random mode a random share of the rest, otherwise all.
    fn copy_piece(&mut self, copy: &mut Copy) -> Result<Progress> {
        if copy.done == 0 {
            self.faults.execution()?;
            copy.backwards = self.settings.mode == Mode::Random && self.rng.below(2) == 1;
        }
        let (to, from) = (self.side(&copy.to, copy.len)?, self.side(&copy.from, copy.len)?);
        let rest = copy.len - copy.done;
        let torn = self.settings.mode == Mode::Random && rest > 1 && self.rng.below(2) == 1;
        let piece = if torn { 1 + self.rng.below(rest - 1) } else { rest };
        let offset = if copy.backwards { rest - piece } else { copy.done };
        // SAFETY: a known side was just found inside a live region; a pageable one is memory that
        // the caller of a driver function vouched for and cannot touch before that function
        // returns; staged bytes are `len` long.
        unsafe { std::ptr::copy((from + offset) as *const u8, (to + offset) as *mut u8, piece) };
        copy.done += piece;
        Ok(if copy.done == copy.len { Progress::Finished } else { Progress::Partial })
    }

    /// The address of a side, if it may be touched.
    fn side(&self, side: &Side, len: usize) -> Result<usize> {
        match side {
            Side::Known(address) => self.check(*address, len).map(|()| *address),
            Side::Pageable(address) => Ok(*address),
            Side::Staged(bytes) => Ok(bytes.as_ptr() as usize),
        }
    }

    fn check(&self, address: usize, len: usize) -> Result {
        match self.memory.place(address, len) {
            Place::Inside(_) => Ok(()),
            Place::Across | Place::Elsewhere => Err(ILLEGAL_ADDRESS),
        }
    }

    /// The engine that an operation takes on a device, and for how long.
    fn engine(&self, stream: usize, action: &Action) -> Option<(usize, Engine, f64)> {
        let device = self.contexts[self.streams[stream].context].device;
        let seconds =
            |engine: Engine, bytes: usize| bytes as f64 / self.clock.bandwidth[engine as usize];
        match action {
            Action::Copy(copy) => {
                let engine = match copy.direction {
                    Direction::HostToDevice => Engine::HostToDevice,
                    Direction::DeviceToHost => Engine::DeviceToHost,
                    Direction::DeviceToDevice => Engine::DeviceToDevice,
                    Direction::HostToHost => return None,
                };
                Some((copy.device, engine, seconds(engine, copy.len)))
            }
            Action::Set(_, _, len) => {
                Some((device, Engine::DeviceToDevice, seconds(Engine::DeviceToDevice, *len)))
            }
            Action::Launch(_) => Some((device, Engine::Compute, self.clock.launch)),
            Action::Work(time) => Some((device, Engine::Compute, *time)),
            Action::Record(_) | Action::Wait | Action::Host(..) => None,
        }
    }

    /// When an operation at the head of its stream can start: what its stream allows, what it waits
    /// for too, and its engine too.
    pub fn start_times(&self, stream: usize, op: &Op) -> (f64, f64, f64) {
        let own = op.enqueued.max(self.streams[stream].end);
        let ready = op.after.iter().fold(own, |time, point| time.max(self.log.end(point.op)));
        let engine = self
            .engine(stream, &op.action)
            .map_or(0.0, |(device, engine, _)| self.devices[device].engines[engine as usize]);
        (own, ready, ready.max(engine))
    }

    /// Moves virtual time over an operation that has run.
    pub fn pass_time(&mut self, stream: usize, op: &Op) -> f64 {
        let (own, ready, start) = self.start_times(stream, op);
        let engine = self.engine(stream, &op.action);
        let end = start + engine.map_or(0.0, |(_, _, seconds)| seconds);
        if let Some((device, engine, _)) = engine {
            self.devices[device].engines[engine as usize] = end;
        }
        let target = &mut self.streams[stream];
        target.stall += ready - own;
        target.end = end;
        if let Action::Record(event) = op.action {
            if let Some(event) = self
                .events
                .get_mut(event)
                .filter(|event| event.record.is_some_and(|record| record.op == op.id))
            {
                event.time = end;
            }
        }
        end
    }
}
