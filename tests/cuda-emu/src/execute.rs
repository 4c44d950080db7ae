//! Runs operations: what they do to memory, and how virtual time passes.

use crate::clock::Engine;
use crate::driver::Driver;
use crate::host_thread::{self, HostFn};
use crate::launch::Launch;
use crate::memory::{Life, Place};
use crate::settings::Mode;
use crate::status::{Result, ILLEGAL_ADDRESS};
use crate::stream::Op;

/// The direction of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the host to a device.
    HostToDevice,
    /// From a device to the host.
    DeviceToHost,
    /// Within a device or between two devices.
    DeviceToDevice,
    /// From the host to the host.
    HostToHost,
}

/// The source or the destination of a copy.
pub enum Side {
    /// An address in memory that the driver knows, checked again when the copy runs.
    Known(usize),
    /// An address in pageable memory, used while the host waits.
    Pageable(usize),
    /// The source bytes, read when the copy was enqueued.
    Staged(Vec<u8>),
    /// An address in pageable memory, which the caller may have released or overwritten when the copy
    /// runs.
    Late(usize),
}

/// A copy. Some of its bytes may be done.
pub struct Copy {
    /// Destination.
    pub to: Side,
    /// Source.
    pub from: Side,
    /// Number of bytes.
    pub len: usize,
    /// Number of bytes that are done.
    pub done: usize,
    /// True if the copy goes from the last byte to the first.
    pub backwards: bool,
    /// Direction, for the counters and the clock.
    pub direction: Direction,
    /// The device whose engine copies.
    pub device: usize,
}

/// The action of an operation.
pub enum Action {
    /// Copies bytes.
    Copy(Copy),
    /// Sets bytes: address, value, number of bytes.
    Set(usize, u8, usize),
    /// Records the event with this index.
    Record(usize),
    /// Does nothing; the operation waits for the operations in its list `after`.
    Wait,
    /// Waits until the 32-bit number at this address has reached this value, on the circle of 32-bit
    /// numbers.
    WaitValue(usize, u32),
    /// Calls a function of the host with this argument.
    Host(HostFn, usize),
    /// Lets operations use the memory of a pool at this address (`cuMemAllocAsync`).
    Begin(usize),
    /// Frees the memory of a pool at this address (`cuMemFreeAsync`).
    End(usize),
    /// Runs a kernel of the module with this index.
    Launch(Box<Launch>, usize, f64),
    /// Takes this number of virtual seconds.
    Work(f64),
}

/// How far an operation got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The operation has ended.
    Finished,
    /// A part of the operation is done.
    Partial,
    /// The operation has started and ends without another call: a host function.
    Started,
}

/// Reads memory of this process that may have been released: an address that is not mapped any more is
/// an error, and does not end the process.
fn read_pageable(address: usize, len: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    let to = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: len };
    let from = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: len };
    // SAFETY: the kernel checks both ranges; the destination is a live vector of `len` bytes.
    let read = unsafe { libc::process_vm_readv(libc::getpid(), &to, 1, &from, 1, 0) };
    if read == len as isize {
        Ok(bytes)
    } else {
        Err(ILLEGAL_ADDRESS)
    }
}

impl Driver {
    /// Runs an operation, or a part of the operation.
    pub fn execute(&mut self, op: &mut Op) -> Result<Progress> {
        match &mut op.action {
            Action::Copy(copy) => return self.copy_piece(copy),
            Action::Launch(launch, module, _) => return self.launch_piece(launch, *module),
            Action::Set(address, value, len) => {
                self.check(*address, *len)?;
                // SAFETY: the range was just found inside a live region, which is mapped and
                // writable.
                unsafe { std::ptr::write_bytes(*address as *mut u8, *value, *len) };
                if let Some(interpreted) = &mut self.memory.interpreted {
                    interpreted.write(*address as u64, *len as u64);
                }
            }
            Action::Host(function, data) => {
                if let Some(interpreted) = &mut self.memory.interpreted {
                    interpreted.write_all();
                }
                host_thread::start(op.id, *function, *data);
                return Ok(Progress::Started);
            }
            Action::Begin(base) => self.memory.set_life(*base, Life::Live),
            Action::End(base) => self.release_region(*base),
            Action::Record(_) | Action::Wait | Action::WaitValue(..) | Action::Work(_) => {}
        }
        Ok(Progress::Finished)
    }

    /// Copies the next piece: in random mode a random share of the remaining bytes, otherwise all.
    fn copy_piece(&mut self, copy: &mut Copy) -> Result<Progress> {
        if copy.done == 0 {
            self.faults.execution()?;
            copy.backwards = self.settings.mode == Mode::Random && self.rng.below(2) == 1;
        }
        if let Side::Late(from) = copy.from {
            copy.from = Side::Staged(read_pageable(from, copy.len)?);
        }
        let (to, from) = (self.side(&copy.to, copy.len)?, self.side(&copy.from, copy.len)?);
        let rest = copy.len - copy.done;
        let torn = self.settings.mode == Mode::Random && rest > 1 && self.rng.below(2) == 1;
        let piece = if torn { 1 + self.rng.below(rest - 1) } else { rest };
        let offset = if copy.backwards { rest - piece } else { copy.done };
        // SAFETY: a known side was just found inside a live region. Pageable memory was promised by
        // the caller of a driver function, who cannot touch it before that function returns. Staged
        // bytes are `len` long.
        unsafe { std::ptr::copy((from + offset) as *const u8, (to + offset) as *mut u8, piece) };
        if let Some(interpreted) = &mut self.memory.interpreted {
            interpreted.copy((to + offset) as u64, (from + offset) as u64, piece as u64);
        }
        copy.done += piece;
        Ok(if copy.done == copy.len { Progress::Finished } else { Progress::Partial })
    }

    /// Returns the address of a side, if its memory is still valid.
    fn side(&self, side: &Side, len: usize) -> Result<usize> {
        match side {
            Side::Known(address) => self.check(*address, len).map(|()| *address),
            Side::Pageable(address) | Side::Late(address) => Ok(*address),
            Side::Staged(bytes) => Ok(bytes.as_ptr() as usize),
        }
    }

    fn check(&self, address: usize, len: usize) -> Result {
        match self.memory.place(address, len) {
            Place::Inside(region) if region.life != Life::Coming => Ok(()),
            Place::Inside(_) | Place::Across | Place::Elsewhere => Err(ILLEGAL_ADDRESS),
        }
    }

    /// Returns the device and the engine that an operation takes, and for how many virtual seconds.
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
                let taken = match engine {
                    Engine::DeviceToHost if self.settings.copy_engines == 1 => Engine::HostToDevice,
                    engine => engine,
                };
                Some((copy.device, taken, seconds(engine, copy.len)))
            }
            Action::Set(_, _, len) => {
                Some((device, Engine::DeviceToDevice, seconds(Engine::DeviceToDevice, *len)))
            }
            Action::Launch(_, _, time) | Action::Work(time) => {
                Some((device, Engine::Compute, *time))
            }
            Action::Begin(_)
            | Action::End(_)
            | Action::Record(_)
            | Action::Wait
            | Action::WaitValue(..)
            | Action::Host(..) => None,
        }
    }

    /// Returns two times at which an operation at the head of its stream could start: as far as its
    /// stream and the operations that it waits for allow, and as far as its engine allows, too.
    pub fn start_times(&self, stream: usize, op: &Op) -> (f64, f64) {
        let own = op.enqueued.max(self.streams[stream].end);
        let ready = op.after.iter().fold(own, |time, point| time.max(self.log.end(point.op)));
        let engine = self
            .engine(stream, &op.action)
            .map_or(0.0, |(device, engine, _)| self.devices[device].engines[engine as usize]);
        (ready, ready.max(engine))
    }

    /// Advances the virtual time of stream and engine past an operation that has run, and returns
    /// the time at which the operation ended.
    pub fn pass_time(&mut self, stream: usize, op: &Op) -> f64 {
        let (_, start) = self.start_times(stream, op);
        let engine = self.engine(stream, &op.action);
        let end = start + engine.map_or(0.0, |(_, _, seconds)| seconds);
        if let Some((device, engine, _)) = engine {
            self.devices[device].engines[engine as usize] = end;
        }
        self.streams[stream].end = end;
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
