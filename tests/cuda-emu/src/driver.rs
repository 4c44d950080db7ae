//! The driver: one state behind one lock, and the code that begins and ends every call.

use crate::api::mapped::Physical;
use crate::call::Call;
use crate::capture::Capture;
use crate::clock::{Clock, Log};
use crate::context::{Context, Device};
use crate::counters::Counters;
use crate::event::Event;
use crate::faults::Faults;
use crate::history::Entry;
use crate::host_thread;
use crate::launch::{Function, Module};
use crate::memory::Memory;
use crate::ptx::Counts;
use crate::rng::Rng;
use crate::settings::{read, Kernels, Settings};
use crate::status::{Result, Status, NOT_INITIALIZED, NOT_PERMITTED, SUCCESS};
use crate::stream::{Point, Stream};
use crate::table::Table;
use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The whole state of the driver.
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
    /// The captures by the index of the stream that began each.
    pub(crate) captures: BTreeMap<usize, Capture>,
    /// The graphs: the number of operations of each.
    pub(crate) graphs: Table<u64>,
    pub(crate) log: Log,
    pub(crate) memory: Memory,
    /// Reserved ranges of addresses by their begin: the bytes of each (`cuMemAddressReserve`).
    pub(crate) reserved: BTreeMap<usize, usize>,
    /// Physical memory that `cuMemCreate` made.
    pub(crate) physical: Table<Physical>,
    pub(crate) clock: Clock,
    pub(crate) faults: Faults,
    pub(crate) counters: Counters,
    /// The program's requests since `emu_history_start`; `None`: no history is kept.
    pub(crate) history: Option<Vec<Entry>>,
    /// What the launches of each interpreted kernel have done since `emu_count_kernels`; `None`:
    /// nothing is counted.
    pub(crate) kernels: Option<BTreeMap<String, Counts>>,
    /// The indices of the streams whose queues are not empty.
    pub(crate) active: Vec<usize>,
    /// Number of queries since the last query that was answered with success.
    pub(crate) queries: u32,
    /// Number of waits for an event by a host thread that did not sleep (`emu_spins`).
    pub(crate) spins: u64,
    /// Number of calls that waited because a queue was full (`emu_full_queues`).
    pub(crate) full_queues: u64,
    /// Most bytes of page-locked memory (`emu_pinned`).
    pub(crate) most_pinned: u64,
    /// The operation that must run before the call returns, since the queue is full behind it.
    pub(crate) overfull: Option<Point>,
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
            captures: BTreeMap::new(),
            graphs: Table::new(0x70_0000_0000),
            log: Log::new(),
            memory: Memory::new(settings.kernels == Kernels::Ptx),
            reserved: BTreeMap::new(),
            physical: Table::new(0x80_0000_0000),
            clock: Clock::new(),
            faults: Faults::default(),
            counters: Counters::new(),
            history: None,
            kernels: None,
            active: Vec::new(),
            queries: 0,
            spins: 0,
            full_queues: 0,
            most_pinned: u64::MAX,
            overfull: None,
            epoch: 0,
        }
    }

    fn from_env() -> Self {
        let mut driver = Self::new(Settings::from_env());
        driver.clock.kernels = read("CUDA_EMU_KERNEL_TIMES", Default::default(), Clock::kernels_of);
        driver.clock.bandwidth =
            read("CUDA_EMU_BANDWIDTH", driver.clock.bandwidth, Clock::bandwidth_of);
        driver
    }

    /// Resets the driver with other settings. Returns the number of live objects; unless it is 0,
    /// nothing is reset.
    pub(crate) fn reset(&mut self, settings: Settings) -> u64 {
        let alive = self.counters.alive() + self.counters.totals.pending;
        if alive == 0 {
            let mut memory = std::mem::take(&mut self.memory);
            memory.restart();
            let (initialised, epoch) = (self.initialised, self.epoch + 1);
            let clock = std::mem::replace(&mut self.clock, Clock::new());
            *self = Self { initialised, memory, epoch, ..Self::new(settings) };
            self.clock = Clock { host: 0.0, ..clock };
        }
        alive
    }

    /// Begins a call: counts it, returns the error that `emu_fail` asks for, if any, and refuses it
    /// before `cuInit`.
    fn enter(&mut self, call: Call) -> Result {
        self.counters.totals.calls += 1;
        self.counters.calls[call as usize] += 1;
        match call {
            // This function reports errors of other calls, so the name "*" does not stand for it.
            Call::cuGetErrorName => return self.faults.call_by_name(call),
            _ => self.faults.call(call)?,
        }
        (self.initialised || matches!(call, Call::cuInit | Call::cuDriverGetVersion))
            .then_some(())
            .ok_or(NOT_INITIALIZED)?;
        self.check_captures(call)
    }

    /// Frees a region and updates the counters.
    pub(crate) fn release_region(&mut self, base: usize) {
        let Some(region) = self.memory.free(base) else { return };
        let totals = &mut self.counters.totals;
        if region.kind.is_device() {
            totals.allocations -= 1;
        } else {
            totals.host_allocations -= 1;
        }
        if !region.kind.is_device() {
            totals.host_bytes -= region.size as u64;
        }
        if region.kind.takes_capacity() {
            self.give_capacity(region.device, region.size);
        }
    }
}

/// Locks the driver's state.
pub(crate) fn lock() -> MutexGuard<'static, Driver> {
    static DRIVER: LazyLock<Mutex<Driver>> = LazyLock::new(|| Mutex::new(Driver::from_env()));
    DRIVER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a call that does not wait for operations.
pub(crate) fn call(which: Call, body: impl FnOnce(&mut Driver) -> Result) -> Status {
    call_and_wait(which, |driver| body(driver).map(|()| (Vec::new(), ())), |_, ()| Ok(()))
}

/// Runs a call that begins, waits until some operations have run, and then ends.
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
    if let Some(target) = driver.overfull.take() {
        driver = make_room(driver, target);
    }
    driver.tick();
    result.err().unwrap_or(SUCCESS)
}

/// Waits until all target operations have run.
fn wait_for(
    mut driver: MutexGuard<'static, Driver>,
    targets: &[Point],
) -> MutexGuard<'static, Driver> {
    driver.note_sync(targets);
    for target in targets {
        driver = run_to(driver, *target);
        driver.waited(*target);
    }
    driver
}

/// Waits until a full queue has room again. Operations that are enqueued meanwhile, by other threads,
/// wait for themselves. The wait is no synchronisation that the program has asked for.
fn make_room(driver: MutexGuard<'static, Driver>, target: Point) -> MutexGuard<'static, Driver> {
    let mut driver = run_to(driver, target);
    driver.full_queues += 1;
    driver.waited(target);
    driver
}

/// Runs operations until the target has run.
fn run_to(mut driver: MutexGuard<'static, Driver>, target: Point) -> MutexGuard<'static, Driver> {
    let mut progress = (driver.counters.totals.executed, Instant::now());
    while !driver.advance(target) {
        drop(driver);
        host_thread::wait();
        driver = lock();
        if driver.counters.totals.executed != progress.0 {
            progress = (driver.counters.totals.executed, Instant::now());
        }
        if progress.1.elapsed() > deadlock_limit() {
            fatal(
                "deadlock: a host function does not return, and the host waits for work behind it",
            );
        }
    }
    driver
}

fn deadlock_limit() -> Duration {
    Duration::from_secs(read("CUDA_EMU_DEADLOCK_SECONDS", 10, |text| text.parse().ok()))
}

/// Prints the message and aborts the process, so that a test cannot overlook the error.
pub(crate) fn fatal(message: &str) -> ! {
    eprintln!("cuda-emu: {message}");
    std::process::abort()
}
