//! The result of a predicted run.

/// What a plan would take.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Simulation {
    /// Seconds of a sweep.
    pub makespan: f64,
    /// The ideal of the plan: the steps of its schedule alone.
    pub plan_ideal: f64,
    /// The ideal of the problem: n forward and n backward steps.
    pub problem_ideal: f64,
    /// Seconds that the stream copies snapshots.
    pub copying: f64,
    /// Seconds that it compresses and decompresses.
    pub coding: f64,
    /// Seconds of that that it compresses.
    pub compressing: f64,
    /// Seconds that it waits for transfers.
    pub waiting: f64,
    /// Seconds of all three in SAVEs; the rest is in RESTOREs.
    pub saving: f64,
    /// Transfers to the device and to the host, those on the stream included.
    pub h2d: u64,
    /// The same, to the host.
    pub d2h: u64,
    /// Snapshots read from disk.
    pub disk_reads: u64,
    /// Snapshots written to disk.
    pub disk_writes: u64,
    /// Bytes moved to the device.
    pub h2d_bytes: u64,
    /// Bytes moved to the host.
    pub d2h_bytes: u64,
    /// Bytes moved to and from disk.
    pub disk_bytes: u64,
    /// Restores that waited for a transfer issued before them.
    pub late: u64,
    /// The most device memory in use at any event, in bytes.
    pub device_peak: u64,
    /// The most host memory.
    pub host_peak: u64,
    /// The most disk.
    pub disk_peak: u64,
}

impl Simulation {
    /// Seconds that the application's stream is not its own: copying, coding and waiting.
    pub fn stall(&self) -> f64 {
        self.copying + self.coding + self.waiting
    }

    /// Makespan over the ideal of the plan.
    pub fn over_plan_ideal(&self) -> f64 {
        self.makespan / self.plan_ideal
    }

    /// Makespan over the ideal of the problem.
    pub fn over_problem_ideal(&self) -> f64 {
        self.makespan / self.problem_ideal
    }
}
