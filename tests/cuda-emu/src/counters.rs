//! Exact counts of calls, copies and objects since the last reset.

use crate::call::NAMES;
use crate::execute::Direction;

/// The totals that `emu_counters` writes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    /// Bytes of copies from host to device that were accepted.
    pub h2d_bytes: u64,
    /// Bytes of copies from device to host.
    pub d2h_bytes: u64,
    /// Bytes of copies from a device to the same or another one.
    pub d2d_bytes: u64,
    /// Bytes of copies from host to host (`cuMemcpyAsync`).
    pub h2h_bytes: u64,
    /// Number of copies from host to device.
    pub h2d_copies: u64,
    /// Number of copies from device to host.
    pub d2h_copies: u64,
    /// Number of copies from device to device.
    pub d2d_copies: u64,
    /// Copies that had pageable memory on one side; each also counts as a host synchronisation.
    pub pageable_copies: u64,
    /// Driver calls of any name.
    pub calls: u64,
    /// Calls that held the host until the device had finished something.
    pub host_syncs: u64,
    /// Operations that have run to their end.
    pub executed: u64,
    /// Waits, records and synchronisations lost by `emu_drop`.
    pub dropped: u64,
    /// Live streams, without default streams.
    pub streams: u64,
    /// Live events.
    pub events: u64,
    /// Live allocations of device or managed memory.
    pub allocations: u64,
    /// Live page-locked ranges: allocated or registered.
    pub host_allocations: u64,
    /// Live contexts made by `cuCtxCreate`.
    pub contexts: u64,
    /// Retains of primary contexts that were not released.
    pub retained: u64,
    /// Operations in the queues.
    pub pending: u64,
    /// Objects that died with their context instead of being freed by name.
    pub abandoned: u64,
    /// Bytes of live device memory, all devices together.
    pub device_bytes: u64,
    /// The largest value of `device_bytes`.
    pub peak_device_bytes: u64,
    /// Bytes of live page-locked memory, allocated or registered.
    pub host_bytes: u64,
    /// The largest value of `host_bytes`.
    pub peak_host_bytes: u64,
    /// Virtual seconds that the host waited in synchronisations.
    pub host_wait_s: f64,
}

/// The totals and the calls of each function.
pub struct Counters {
    /// The running totals.
    pub totals: Totals,
    /// Calls per entry point, in the order of `NAMES`.
    pub calls: Vec<u64>,
}

impl Counters {
    /// Makes counters that are all zero.
    pub fn new() -> Self {
        Self { totals: Totals::default(), calls: vec![0; NAMES.len()] }
    }

    /// Counts an accepted copy of `bytes` bytes.
    pub fn copy(&mut self, direction: Direction, bytes: usize) {
        let totals = &mut self.totals;
        let (sum, number) = match direction {
            Direction::HostToDevice => (&mut totals.h2d_bytes, Some(&mut totals.h2d_copies)),
            Direction::DeviceToHost => (&mut totals.d2h_bytes, Some(&mut totals.d2h_copies)),
            Direction::DeviceToDevice => (&mut totals.d2d_bytes, Some(&mut totals.d2d_copies)),
            Direction::HostToHost => (&mut totals.h2h_bytes, None),
        };
        *sum += bytes as u64;
        if let Some(number) = number {
            *number += 1;
        }
    }

    /// Returns the number of live objects, which must be freed before a reset.
    pub fn alive(&self) -> u64 {
        let t = &self.totals;
        t.streams + t.events + t.allocations + t.host_allocations + t.contexts + t.retained
    }
}
