//! The driver: one state behind one lock, and the frame of every call.

use crate::call::Call;
use crate::clock::{Clock, Log};
use crate::context::{Context, Device};
use crate::counters::Counters;
use crate::event::Event;
use crate::faults::Faults;
use crate::history::Entry;
use crate::host_thread;
use crate::launch::{Function, Module};
use crate::memory::{Kind, Memory};
use crate::rng::Rng;
use crate::settings::{read, Settings};
use crate::status::{Result, Status, NOT_INITIALIZED, NOT_PERMITTED, SUCCESS};
use crate::stream::{Point, Stream};
use crate::table::Table;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The whole state.
pub struct Driver {
    pub(crate) initialised: bool,
    pub(crate) settings: Settings,
    pub(crate) rng: Rng,
    pub(crate) devices: Vec<Device>,
    pub(crate) contexts: Table<Context>,
    pub(crate) streams: Table<Stream>,
    pub(crate) events: Table<Event>,
    pub(crate) modules: Table<Module>,
    pub(crate) functions: Table<Function>,
    pub(crate) log: Log,
    pub(crate) memory: Memory,
    pub(crate) clock: Clock,
    pub(crate) faults: Faults,
    pub(crate) counters: Counters,
    /// What was asked for since `emu_history_start`.
    pub(crate) history: Option<Vec<Entry>>,
    /// The streams with something in their queue.
    pub(crate) active: Vec<usize>,
    /// Queries since one was answered.
    pub(crate) queries: u32,
    /// Number of the last reset.
    pub(crate) epoch: u64,
}

impl Driver {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            initialised: false,
            settings,
            rng: Rng::new(settings.seed),
            devices: (0..settings.devices).map(|_| Device::default()).collect(),
            contexts: Table::new(0x10_0000_0000),
            streams: Table::new(0x20_0000_0000),
            events: Table::new(0x30_0000_0000),
            modules: Table::new(0x40_0000_0000),
            functions: Table::new(0x50_0000_0000),
            log: Log::new(),
            memory: Memory::default(),
            clock: Clock::new(),
            faults: Faults::default(),
            counters: Counters::new(),
            history: None,
            active: Vec::new(),
            queries: 0,
            epoch: 0,
        }
    }

    fn from_env() -> Self {
        let mut driver = Self::new(Settings::from_env());
        driver.faults = read("CUDA_EMU_FAIL", Faults::default(), |text| {
            let mut faults = Faults::default();
            faults.parse(text).map(|()| faults)
        });
        driver
    }

    /// Starts again with other settings. Nothing may be alive: the number of live objects
    /// otherwise.
    pub(crate) fn reset(&mut self, settings: Settings) -> u64 {
        let alive = self.counters.alive() + self.counters.totals.pending;
        if alive == 0 {
            let mut memory = std::mem::take(&mut self.memory);
            memory.restart();
            let (initialised, epoch) = (self.initialised, self.epoch + 1);
            let (bandwidth, launch) = (self.clock.bandwidth, self.clock.launch);
            *self = Self { initialised, memory, epoch, ..Self::new(settings) };
            (self.clock.bandwidth, self.clock.launch) = (bandwidth, launch);
        }
        alive
    }

    /// The start of a call: it is counted, it may have to fail, and it needs `cuInit`.
    fn enter(&mut self, call: Call) -> Result {
        self.counters.totals.calls += 1;
        self.counters.calls[call as usize] += 1;
        match call {
            // Asked for the name of an error, they are no calls of their own: "*" does not mean
            // them.
            Call::cuGetErrorName | Call::cuGetErrorString => return self.faults.call_by_name(call),
            _ => self.faults.call(call)?,
        }
        (self.initialised || matches!(call, Call::cuInit | Call::cuDriverGetVersion))
            .then_some(())
            .ok_or(NOT_INITIALIZED)
    }

    /// Forgets a region, in the counters too.
    pub(crate) fn release_region(&mut self, base: usize) {
        let Some(region) = self.memory.free(base) else { return };
        let totals = &mut self.counters.totals;
        if region.kind.is_device() {
            totals.allocations -= 1;
        } else {
            totals.host_allocations -= 1;
        }
        if region.kind == Kind::Pinned {
            totals.host_bytes -= region.size as u64;
        }
        if region.kind == Kind::Device {
            totals.device_bytes -= region.size as u64;
            self.devices[region.device].used -= region.size as u64;
        }
    }
}

/// The state, locked.
pub(crate) fn lock() -> MutexGuard<'static, Driver> {
    static DRIVER: LazyLock<Mutex<Driver>> = LazyLock::new(|| Mutex::new(Driver::from_env()));
    DRIVER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A call that does not wait.
pub(crate) fn call(which: Call, body: impl FnOnce(&mut Driver) -> Result) -> Status {
    call_and_wait(which, |driver| body(driver).map(|()| (Vec::new(), ())), |_, ()| Ok(()))
}

/// A call that begins, waits until some operations have run, and ends.
pub(crate) fn call_and_wait<T>(
    which: Call,
    begin: impl FnOnce(&mut Driver) -> Result<(Vec<Point>, T)>,
    end: impl FnOnce(&mut Driver, T) -> Result,
) -> Status {
    if host_thread::inside() {
        return NOT_PERMITTED;
    }
    let mut driver = lock();
    let result = match driver.enter(which).and_then(|()| begin(&mut driver)) {
        Ok((targets, state)) => {
            driver = wait_for(driver, &targets);
            end(&mut driver, state)
        }
        Err(code) => Err(code),
    };
    driver.tick();
    result.err().unwrap_or(SUCCESS)
}

/// Waits until all targets have run.
fn wait_for(
    mut driver: MutexGuard<'static, Driver>,
    targets: &[Point],
) -> MutexGuard<'static, Driver> {
    driver.note_sync(targets);
    for target in targets {
        let mut progress = (driver.counters.totals.executed, Instant::now());
        while !driver.advance(*target) {
            drop(driver);
            host_thread::wait();
            driver = lock();
            if driver.counters.totals.executed != progress.0 {
                progress = (driver.counters.totals.executed, Instant::now());
            }
            if progress.1.elapsed() > deadlock_limit() {
                fatal("deadlock: a host function does not return, and the host waits for work behind it");
            }
        }
        driver.waited(*target);
    }
    driver
}

fn deadlock_limit() -> Duration {
    Duration::from_secs(read("CUDA_EMU_DEADLOCK_SECONDS", 10, |text| text.parse().ok()))
}

/// Ends the process: what happened must not be overlooked.
pub(crate) fn fatal(message: &str) -> ! {
    eprintln!("cuda-emu: {message}");
    std::process::abort()
}
