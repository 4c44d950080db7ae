//! Virtual time: when each operation would start and end if copies took their bytes over the
//! bandwidth of their direction.

use std::collections::VecDeque;

/// Completed operations that the log remembers at least.
const MEMORY: usize = 1 << 16;

/// The engines of a device. Each serves one operation at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// Copies to the device.
    HostToDevice = 0,
    /// Copies from the device.
    DeviceToHost = 1,
    /// Copies on and between devices, and memory sets.
    DeviceToDevice = 2,
    /// `emu_work`
    Compute = 3,
}

/// The time until which each engine of a device is taken.
pub type Engines = [f64; 4];

/// The host's clock and the speeds.
pub struct Clock {
    /// Virtual seconds of the host: it advances when the host waits or says that it works.
    pub host: f64,
    /// Bytes per second to the device, from it, and on it.
    pub bandwidth: [f64; 3],
    /// Seconds of a kernel.
    pub launch: f64,
}

impl Clock {
    /// Time zero, with the speeds of an ordinary machine.
    pub fn new() -> Self {
        Self { host: 0.0, bandwidth: [25e9, 25e9, 1e12], launch: 0.0 }
    }
}

/// Which operations have run, and when they ended. Operations are numbered from 1 in the order of
/// the calls; 0 stands for none.
pub struct Log {
    first: u64,
    ends: VecDeque<f64>,
}

impl Log {
    /// No operation yet.
    pub fn new() -> Self {
        Self { first: 1, ends: VecDeque::new() }
    }

    /// The number of a new operation.
    pub fn open(&mut self) -> u64 {
        self.ends.push_back(f64::NAN);
        self.first + self.ends.len() as u64 - 1
    }

    /// The operation ended at this time.
    pub fn close(&mut self, op: u64, end: f64) {
        self.ends[(op - self.first) as usize] = end;
        while self.ends.len() > MEMORY && !self.ends[0].is_nan() {
            self.ends.pop_front();
            self.first += 1;
        }
    }

    /// Whether the operation has run.
    pub fn done(&self, op: u64) -> bool {
        op < self.first || !self.ends[(op - self.first) as usize].is_nan()
    }

    /// When it ended: 0 if that is long ago.
    pub fn end(&self, op: u64) -> f64 {
        if op < self.first {
            return 0.0;
        }
        self.ends[(op - self.first) as usize]
    }
}
