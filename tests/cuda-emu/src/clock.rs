//! Virtual time: when each operation would start and end if each copy took its number of bytes
//! divided by the bandwidth of its direction.

use std::collections::{HashMap, VecDeque};

/// The number of completed operations that the log remembers at least.
const MEMORY: usize = 1 << 16;

/// Returns the 64-bit FNV-1a hash of a text.
pub fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// The engines of a device. Each engine runs one operation at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// Copies to the device.
    HostToDevice = 0,
    /// Copies from the device.
    DeviceToHost = 1,
    /// Copies within a device and between devices, and memory sets.
    DeviceToDevice = 2,
    /// `emu_work`
    Compute = 3,
}

/// The virtual time in seconds until which each engine of a device is busy.
pub type Engines = [f64; 4];

/// The host's clock and the speeds.
pub struct Clock {
    /// The host's virtual time in seconds, which advances when the host waits.
    pub host: f64,
    /// Bytes per second of copies to the device, from the device, and within the device.
    pub bandwidth: [f64; 3],
    /// Virtual seconds that each kernel takes that is not in `kernels`.
    pub launch: f64,
    /// Virtual seconds of a launch and of each of its threads, by the FNV-1a of the kernel's name.
    pub kernels: HashMap<u64, [f64; 2]>,
}

impl Clock {
    /// Time zero, with the speeds of an ordinary machine.
    pub fn new() -> Self {
        Self { host: 0.0, bandwidth: [25e9, 25e9, 1e12], launch: 0.0, kernels: HashMap::new() }
    }

    /// Returns the virtual seconds of a launch of a kernel with this number of threads.
    pub fn of_kernel(&self, name: u64, threads: u64) -> f64 {
        self.kernels
            .get(&name)
            .map_or(self.launch, |[launch, thread]| launch + thread * threads as f64)
    }

    /// Reads three speeds, in bytes per second, separated by commas: of copies to the device, from the
    /// device, and within the device. `None` if the text is something else.
    pub fn bandwidth_of(text: &str) -> Option<[f64; 3]> {
        let speed =
            |text: &str| text.parse().ok().filter(|speed: &f64| speed.is_finite() && *speed > 0.0);
        let speeds: Option<Vec<f64>> = text.split(',').map(speed).collect();
        speeds?.try_into().ok()
    }

    /// Reads the times of kernels: `name:seconds` or `name:seconds:seconds per thread`, separated by
    /// commas. `None` if the text is something else.
    pub fn kernels_of(text: &str) -> Option<HashMap<u64, [f64; 2]>> {
        let seconds =
            |text: &str| text.parse().ok().filter(|time: &f64| time.is_finite() && *time >= 0.0);
        let kernel = |text: &str| {
            let parts: Vec<&str> = text.split(':').collect();
            match parts[..] {
                ["", ..] => None,
                [name, launch] => Some((fnv(name), [seconds(launch)?, 0.0])),
                [name, launch, thread] => Some((fnv(name), [seconds(launch)?, seconds(thread)?])),
                _ => None,
            }
        };
        text.split(',').map(kernel).collect()
    }
}

/// Records which operations have run and when they ended. Operations are numbered from 1 in the
/// order of the calls; 0 stands for no operation.
pub struct Log {
    first: u64,
    ends: VecDeque<f64>,
}

impl Log {
    /// Makes a log without operations.
    pub fn new() -> Self {
        Self { first: 1, ends: VecDeque::new() }
    }

    /// Returns the number of a new operation.
    pub fn open(&mut self) -> u64 {
        self.ends.push_back(f64::NAN);
        self.first + self.ends.len() as u64 - 1
    }

    /// Notes that the operation `op` ended at the virtual time `end`.
    pub fn close(&mut self, op: u64, end: f64) {
        self.ends[(op - self.first) as usize] = end;
        while self.ends.len() > MEMORY && !self.ends[0].is_nan() {
            self.ends.pop_front();
            self.first += 1;
        }
    }

    /// Returns whether the operation has run.
    pub fn done(&self, op: u64) -> bool {
        op < self.first || !self.ends[(op - self.first) as usize].is_nan()
    }

    /// Returns the virtual time at which the operation ended; 0 if the log no longer remembers it.
    pub fn end(&self, op: u64) -> f64 {
        if op < self.first {
            return 0.0;
        }
        self.ends[(op - self.first) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_have_times_by_name() {
        let mut clock = Clock::new();
        clock.launch = 3.0;
        clock.kernels = Clock::kernels_of("a:0.5,b:1:0.25").unwrap();
        let times = ["a", "b", "c"].map(|name| clock.of_kernel(fnv(name), 8));
        assert_eq!(times, [0.5, 3.0, 3.0]);
        assert_eq!(clock.of_kernel(fnv("b"), 2), 1.5);
        for wrong in ["", "a", "a:", ":1", "a:-1", "a:inf", "a:1:x", "a:1:2:3", "a:1,"] {
            assert!(Clock::kernels_of(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn bandwidths_are_three_speeds() {
        assert_eq!(Clock::bandwidth_of("25e9,2.5e10,1e12"), Some([25e9, 25e9, 1e12]));
        for wrong in ["", "1,2", "1,2,3,4", "1,2,0", "1,2,-3", "1,2,inf", "1,2,x"] {
            assert_eq!(Clock::bandwidth_of(wrong), None, "{wrong}");
        }
    }
}
